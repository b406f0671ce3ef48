//! The few fields of XLA's protos that the safe layer writes and reads, by hand.

use crate::failure::Failure;
use crate::program::Type;

/// What is read of a `CompileOptionsProto`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CompileOptions {
    pub(crate) num_replicas: usize,
    pub(crate) num_partitions: usize,
    /// Ids of the devices, those of the first replica first; empty leaves the choice to the compiler.
    pub(crate) devices: Vec<i64>,
}

impl CompileOptions {
    pub(crate) fn n_devices(&self) -> usize {
        self.num_replicas.saturating_mul(self.num_partitions)
    }

    /// Ids of the devices, the first ones unless the options say otherwise.
    pub(crate) fn device_ids(&self) -> Vec<i64> {
        match self.devices.as_slice() {
            [] => (0..self.n_devices() as i64).collect(),
            ids => ids.to_vec(),
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<CompileOptions, Failure> {
        let mut options = CompileOptions::default();
        let mut partitions: Vec<Vec<i64>> = Vec::new();
        for field in fields(bytes)? {
            let Field { number: 3, value: Value::Bytes(build) } = field else { continue };
            for field in fields(build)? {
                match field {
                    Field { number: 4, value: Value::Varint(n) } => options.num_replicas = n as usize,
                    Field { number: 5, value: Value::Varint(n) } => options.num_partitions = n as usize,
                    Field { number: 9, value: Value::Bytes(assignment) } => {
                        partitions = device_ids(assignment)?
                    }
                    _ => {}
                }
            }
        }
        let per_replica = |replica| partitions.iter().filter_map(move |ids| ids.get(replica).copied());
        options.devices = (0..options.num_replicas).flat_map(per_replica).collect();
        Ok(options)
    }
}

/// The lists of a `DeviceAssignmentProto`, one for each partition.
fn device_ids(assignment: &[u8]) -> Result<Vec<Vec<i64>>, Failure> {
    let mut partitions = Vec::new();
    for field in fields(assignment)? {
        let Field { number: 3, value: Value::Bytes(mut list) } = field else { continue };
        let mut ids = Vec::new();
        // One packed field: tag, size, ids.
        if varint(&mut list)? != 10 || varint(&mut list)? as usize != list.len() {
            return Err(Failure::invalid("a list of devices that is not packed"));
        }
        while !list.is_empty() {
            ids.push(varint(&mut list)? as i64);
        }
        partitions.push(ids);
    }
    Ok(partitions)
}

struct Field<'a> {
    number: u64,
    value: Value<'a>,
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, those of fixed size left out.
fn fields(mut bytes: &[u8]) -> Result<Vec<Field<'_>>, Failure> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let number = tag >> 3;
        match tag & 7 {
            0 => fields.push(Field { number, value: Value::Varint(varint(&mut bytes)?) }),
            1 => drop(take(&mut bytes, 8)?),
            2 => {
                let size = varint(&mut bytes)? as usize;
                fields.push(Field { number, value: Value::Bytes(take(&mut bytes, size)?) });
            }
            5 => drop(take(&mut bytes, 4)?),
            other => return Err(Failure::invalid(format!("a field with wire type {other}"))),
        }
    }
    Ok(fields)
}

fn take<'a>(bytes: &mut &'a [u8], size: usize) -> Result<&'a [u8], Failure> {
    bytes.split_off(..size).ok_or_else(|| Failure::invalid("the compile options end too early"))
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Failure> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Failure::invalid("a number that is too long"))
}

/// An `HloModuleProto` that states these parameters, and nothing else.
pub(crate) fn module(parameters: &[Type]) -> Vec<u8> {
    let mut signature = Vec::new();
    for parameter in parameters {
        let mut shape = vec![2 << 3];
        put_varint(&mut shape, u64::from(parameter.dtype().xla_number()));
        let mut dims = Vec::new();
        parameter.dims.iter().for_each(|&dim| put_varint(&mut dims, dim as u64));
        put_bytes(&mut shape, 3, &dims);
        put_bytes(&mut signature, 1, &shape);
    }
    let mut module = Vec::new();
    put_bytes(&mut module, 4, &signature);
    module
}

/// A `DeviceAssignmentProto` of these devices, those of the first replica first.
pub(crate) fn assignment(ids: &[i64], num_partitions: usize) -> Vec<u8> {
    let mut assignment = Vec::new();
    for partition in 0..num_partitions {
        let (mut list, mut of_partition) = (Vec::new(), Vec::new());
        let replicas = ids.iter().skip(partition).step_by(num_partitions);
        replicas.for_each(|&id| put_varint(&mut list, id as u64));
        put_bytes(&mut of_partition, 1, &list);
        put_bytes(&mut assignment, 3, &of_partition);
    }
    assignment
}

/// An `OpSharding` that cuts the first of `rank` dims into a tile for each partition.
pub(crate) fn sharding(rank: usize, num_partitions: usize) -> Vec<u8> {
    if rank == 0 || num_partitions == 1 {
        // Replicated.
        return Vec::new();
    }
    let (mut tiles, mut iota) = (Vec::new(), Vec::new());
    put_varint(&mut tiles, num_partitions as u64);
    tiles.resize(tiles.len() + rank - 1, 1);
    put_varint(&mut iota, num_partitions as u64);
    let mut sharding = vec![1 << 3, 3];
    put_bytes(&mut sharding, 3, &tiles);
    put_bytes(&mut sharding, 9, &iota);
    put_bytes(&mut sharding, 10, &[0]);
    sharding
}

fn put_bytes(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.push(number << 3 | 2);
    put_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn put_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
