//! What a compiler made of a program: its collectives, read from the optimized HLO.
//!
//! Plugins return the optimized program as an `HloModuleProto`, or inside an `HloModuleProtoWithConfig`. Only the
//! few fields that are needed here are declared, with the field numbers of XLA's `hlo.proto` and `xla_data.proto`;
//! everything else in the message is skipped.
//!
//! A collective inside a loop is counted once, not once per iteration.

use std::fmt;

use prost::Message;
use shardwright_mesh::ReplicaGroups;
use thiserror::Error;

/// The name of the computations in which TPU compilers do a reduce-scatter in one step, written there as an all-reduce
/// and a slice of it.
const SCATTER_FUSION: &str = "all-reduce-scatter";

/// An optimized program.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledProgram {
    /// Name of the module.
    pub name: String,
    /// All collectives, in the order of the program text.
    pub collectives: Vec<Collective>,
}

/// One instruction that moves data between devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// Bytes of its result on one device. For a reduce-scatter that a compiler writes as an all-reduce, over groups
    /// that are not known, these are the bytes before the result is cut.
    pub bytes: u64,
    /// Which devices take part together, where the program says so in a way that is known here.
    pub groups: Option<ReplicaGroups>,
    /// Where in the model it comes from, as far as the compiler carried that along.
    pub op_name: String,
}

/// The collectives of HLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CollectiveKind {
    /// Every device gets the blocks of all.
    AllGather,
    /// Every device gets the sum (or another reduction) over all.
    AllReduce,
    /// Every device gets its block of the sum over all.
    ReduceScatter,
    /// Every device sends a block to each other one.
    AllToAll,
    /// Devices send to others pairwise.
    CollectivePermute,
    /// One device of each group sends to all others of it.
    CollectiveBroadcast,
    /// Every device sends rows to each other one, to each as many as it says.
    RaggedAllToAll,
}

/// Bytes that are not an HLO module, or one with collectives that are not understood.
#[derive(Clone, Debug, Error)]
#[error("the optimized program cannot be read: {reason}")]
pub struct CompiledError {
    reason: String,
}

impl CompiledProgram {
    /// Reads an `HloModuleProto` or `HloModuleProtoWithConfig`, named by the plugin's `format`: `hlo` or
    /// `hlo_with_config`.
    ///
    /// # Errors
    /// When the bytes are not such a message, the format is another one, or a collective is of elements whose size is
    /// not known here.
    pub fn parse(format: &str, bytes: &[u8]) -> Result<CompiledProgram, CompiledError> {
        let broken = |e: prost::DecodeError| CompiledError { reason: e.to_string() };
        let module = match format {
            "hlo" => proto::Module::decode(bytes).map_err(broken)?,
            "hlo_with_config" => {
                proto::ModuleWithConfig::decode(bytes).map_err(broken)?.module.unwrap_or_default()
            }
            other => return Err(CompiledError { reason: format!("its format is {other}") }),
        };
        let mut collectives = Vec::new();
        for computation in &module.computations {
            let scatters = computation.name.starts_with(SCATTER_FUSION);
            for instruction in &computation.instructions {
                let Some(mut collective) = Collective::of(instruction)? else { continue };
                if scatters {
                    collective.scatter();
                }
                collectives.push(collective);
            }
        }
        Ok(CompiledProgram { name: module.name, collectives })
    }

    /// Number and result bytes of the collectives of one kind. Bytes that cannot be counted are `u64::MAX`.
    pub fn total(&self, kind: CollectiveKind) -> (usize, u64) {
        let of_kind = self.collectives.iter().filter(|c| c.kind == kind);
        of_kind.fold((0, 0), |(count, bytes), c| (count + 1, bytes.saturating_add(c.bytes)))
    }
}

impl CollectiveKind {
    /// All of them.
    pub const ALL: [CollectiveKind; 7] = [
        CollectiveKind::AllGather,
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::CollectivePermute,
        CollectiveKind::CollectiveBroadcast,
        CollectiveKind::RaggedAllToAll,
    ];

    /// HLO's opcode.
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllGather => "all-gather",
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::CollectivePermute => "collective-permute",
            CollectiveKind::CollectiveBroadcast => "collective-broadcast",
            CollectiveKind::RaggedAllToAll => "ragged-all-to-all",
        }
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Collective {
    /// How many devices take part in each group, where the program lists groups and they are of one size.
    pub fn group_size(&self) -> Option<usize> {
        self.groups.as_ref()?.group_size()
    }

    /// The collective that an instruction is, if it is one.
    fn of(instruction: &proto::Instruction) -> Result<Option<Collective>, CompiledError> {
        let opcode = &instruction.opcode;
        // The `-done` half of an asynchronous pair moves nothing of its own.
        let (opcode, started) = match opcode.strip_suffix("-start") {
            Some(opcode) => (opcode, true),
            None => (opcode.as_str(), false),
        };
        let Some(kind) = CollectiveKind::ALL.into_iter().find(|kind| kind.name() == opcode) else {
            return Ok(None);
        };
        let shape = instruction.shape.as_ref();
        // A start gives its operand, its result and sometimes contexts; that of an all-reduce just its results.
        let with_operand = started && kind != CollectiveKind::AllReduce;
        let result = match shape {
            Some(shape) if with_operand && shape.tuple_shapes.len() > 1 => shape.tuple_shapes.get(1),
            shape => shape,
        };
        let bytes = result.map_or(Ok(0), proto::Shape::bytes).map_err(|element_type| CompiledError {
            reason: format!(
                "{opcode} {} is of elements of the unknown type number {element_type}",
                instruction.name
            ),
        })?;
        let op_name = instruction.metadata.as_ref().map(|m| m.op_name.clone()).unwrap_or_default();
        Ok(Some(Collective { kind, bytes, groups: instruction.groups(), op_name }))
    }

    /// Makes an all-reduce whose result is cut at once, each device keeping its block, the reduce-scatter that it is.
    fn scatter(&mut self) {
        if self.kind == CollectiveKind::AllReduce {
            self.kind = CollectiveKind::ReduceScatter;
            self.bytes /= self.group_size().map_or(1, |size| size.max(1) as u64);
        }
    }
}

/// Numbers of a message as sizes, if none is negative.
pub(crate) fn sizes<N: Copy + TryInto<usize>>(numbers: &[N]) -> Option<Vec<usize>> {
    numbers.iter().map(|&number| number.try_into().ok()).collect()
}

/// The messages, each with only the fields that are read.
mod proto {
    use prost::Message;
    use shardwright_mesh::{AbstractMesh, AxisName, ReplicaGroups};

    use super::sizes;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ModuleWithConfig {
        #[prost(message, optional, tag = "1")]
        pub(super) module: Option<Module>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Module {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, repeated, tag = "3")]
        pub(super) computations: Vec<Computation>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Computation {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(super) instructions: Vec<Instruction>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Instruction {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) opcode: String,
        #[prost(message, optional, tag = "3")]
        pub(super) shape: Option<Shape>,
        #[prost(message, optional, tag = "7")]
        pub(super) metadata: Option<Metadata>,
        #[prost(message, repeated, tag = "49")]
        pub(super) replica_groups: Vec<ReplicaGroup>,
        #[prost(message, optional, tag = "87")]
        pub(super) device_list: Option<DeviceList>,
        #[prost(message, optional, tag = "92")]
        pub(super) iota_groups: Option<IotaGroups>,
        #[prost(message, optional, tag = "93")]
        pub(super) mesh_groups: Option<MeshGroups>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Shape {
        #[prost(int32, tag = "2")]
        element_type: i32,
        #[prost(int64, repeated, tag = "3")]
        dimensions: Vec<i64>,
        #[prost(message, repeated, tag = "4")]
        pub(super) tuple_shapes: Vec<Shape>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Metadata {
        #[prost(string, tag = "2")]
        pub(super) op_name: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ReplicaGroup {
        #[prost(int64, repeated, tag = "1")]
        pub(super) replica_ids: Vec<i64>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct DeviceList {
        #[prost(message, repeated, tag = "1")]
        pub(super) replica_groups: Vec<ReplicaGroup>,
        #[prost(message, optional, tag = "2")]
        pub(super) iota: Option<IotaGroups>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct IotaGroups {
        #[prost(int64, tag = "1")]
        pub(super) count: i64,
        #[prost(int64, tag = "2")]
        pub(super) devices_per_group: i64,
        #[prost(int64, repeated, tag = "3")]
        pub(super) reshape_dims: Vec<i64>,
        #[prost(int32, repeated, tag = "4")]
        pub(super) transpose: Vec<i32>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct MeshGroups {
        #[prost(message, optional, tag = "1")]
        pub(super) mesh: Option<Mesh>,
        #[prost(message, repeated, tag = "2")]
        pub(super) axes: Vec<AxisRef>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Mesh {
        #[prost(message, repeated, tag = "1")]
        pub(super) axes: Vec<Axis>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) device_ids: Vec<i64>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Axis {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(int64, tag = "2")]
        pub(super) size: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct AxisRef {
        #[prost(int64, tag = "1")]
        pub(super) index: i64,
        #[prost(message, optional, tag = "2")]
        pub(super) part: Option<AxisPart>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct AxisPart {
        #[prost(int64, tag = "1")]
        pub(super) pre_size: i64,
        #[prost(int64, tag = "2")]
        pub(super) size: i64,
    }

    impl Instruction {
        /// The groups, in whichever of its ways the compiler wrote them.
        pub(super) fn groups(&self) -> Option<ReplicaGroups> {
            let devices = self.device_list.as_ref();
            let iota = self.iota_groups.as_ref().or_else(|| devices?.iota.as_ref());
            match (&self.mesh_groups, iota) {
                (Some(groups), _) => groups.read(),
                (None, Some(groups)) => groups.read(),
                (None, None) => {
                    let lists = [Some(&self.replica_groups), devices.map(|list| &list.replica_groups)];
                    let groups = lists.into_iter().flatten().find(|groups| !groups.is_empty())?;
                    let groups =
                        groups.iter().map(|group| sizes(&group.replica_ids)).collect::<Option<_>>()?;
                    ReplicaGroups::list(groups).ok()
                }
            }
        }
    }

    impl IotaGroups {
        fn read(&self) -> Option<ReplicaGroups> {
            let (dims, transpose) = (sizes(&self.reshape_dims)?, sizes(&self.transpose)?);
            let [count, size] = [self.count, self.devices_per_group].map(usize::try_from);
            ReplicaGroups::iota(count.ok()?, size.ok()?, &dims, &transpose).ok()
        }
    }

    impl MeshGroups {
        fn read(&self) -> Option<ReplicaGroups> {
            let mesh = self.mesh.as_ref()?;
            let axes = mesh.axes.iter().map(|axis| Some((axis.name.as_str(), axis.size.try_into().ok()?)));
            let shape = AbstractMesh::new(axes.collect::<Option<Vec<(&str, usize)>>>()?).ok()?;
            let device_ids = Some(sizes(&mesh.device_ids)?).filter(|ids| !ids.is_empty());
            let reference = |axis: &AxisRef| {
                let name = shape.axes().get(usize::try_from(axis.index).ok()?)?.0.clone();
                let Some(part) = &axis.part else { return Some((name, None)) };
                Some((name, Some((part.pre_size.try_into().ok()?, part.size.try_into().ok()?))))
            };
            let axes: Vec<(AxisName, _)> = self.axes.iter().map(reference).collect::<Option<_>>()?;
            ReplicaGroups::along_axes(shape.clone(), device_ids, axes).ok()
        }
    }

    impl Shape {
        /// Bytes of the array, or of all arrays of the tuple; or the number of an element type that is not known.
        pub(super) fn bytes(&self) -> Result<u64, i32> {
            // Elements of less than a byte are counted as packed.
            let bits = bits(self.element_type).ok_or(self.element_type)?;
            let size = |&size: &i64| u64::try_from(size).unwrap_or(0);
            let elements = self.dimensions.iter().map(size).fold(1, u64::saturating_mul);
            let bytes = (u128::from(elements) * u128::from(bits)).div_ceil(8);
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            self.tuple_shapes.iter().try_fold(bytes, |bytes, inner| Ok(bytes.saturating_add(inner.bytes()?)))
        }
    }

    /// The size of an element of a `PrimitiveType` of `xla_data.proto`.
    fn bits(element_type: i32) -> Option<u64> {
        Some(match element_type {
            // A shape that is left out, tuples, opaque values and tokens.
            0 | 13 | 14 | 17 => 0,
            // s1, u1
            30 | 31 => 1,
            // s2, u2
            26 | 27 => 2,
            // s4, u4, f4e2m1fn
            21 | 22 | 32 => 4,
            // pred, s8, u8, and floats of 8 bits
            1 | 2 | 6 | 19 | 20 | 23..=25 | 28 | 29 | 33 => 8,
            // s16, u16, f16, bf16
            3 | 7 | 10 | 16 => 16,
            // s32, u32, f32
            4 | 8 | 11 => 32,
            // s64, u64, f64, c64
            5 | 9 | 12 | 15 => 64,
            // c128
            18 => 128,
            _ => return None,
        })
    }

    #[cfg(test)]
    impl Shape {
        pub(super) fn array(element_type: i32, dimensions: &[i64]) -> Shape {
            Shape { element_type, dimensions: dimensions.to_vec(), tuple_shapes: Vec::new() }
        }

        pub(super) fn tuple(tuple_shapes: Vec<Shape>) -> Shape {
            Shape { element_type: 13, dimensions: Vec::new(), tuple_shapes }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::proto::{
        Axis, AxisPart, AxisRef, Computation, DeviceList, Instruction, IotaGroups, Mesh, MeshGroups, Module,
        ReplicaGroup, Shape,
    };
    use super::*;

    const F32: i32 = 11;
    const BF16: i32 = 16;

    fn program(instructions: Vec<(&str, Shape)>) -> CompiledProgram {
        program_in("main", instructions)
    }

    fn program_in(computation: &str, instructions: Vec<(&str, Shape)>) -> CompiledProgram {
        let instruction = |(opcode, shape): (&str, Shape)| Instruction {
            opcode: opcode.into(),
            shape: Some(shape),
            replica_groups: vec![ReplicaGroup { replica_ids: vec![0, 1, 2, 3] }],
            ..Default::default()
        };
        let instructions = instructions.into_iter().map(instruction).collect();
        let computation = Computation { name: computation.into(), instructions };
        let module = Module { name: "m".into(), computations: vec![computation] };
        CompiledProgram::parse("hlo", &module.encode_to_vec()).unwrap()
    }

    #[test]
    fn collectives_are_counted_with_their_bytes() {
        let pair = Shape::tuple(vec![Shape::array(BF16, &[2, 8]), Shape::array(BF16, &[8, 8])]);
        let program = program(vec![
            ("all-gather", Shape::array(F32, &[8, 4])),
            ("dot", Shape::array(F32, &[8, 4])),
            ("all-gather-start", pair),
            ("all-gather-done", Shape::array(BF16, &[8, 8])),
            ("all-reduce", Shape::tuple(vec![Shape::array(F32, &[]), Shape::array(F32, &[3])])),
            ("all-reduce-start", Shape::tuple(vec![Shape::array(F32, &[2]), Shape::array(F32, &[3])])),
        ]);
        assert_eq!(program.total(CollectiveKind::AllGather), (2, 128 + 128));
        assert_eq!(program.total(CollectiveKind::AllReduce), (2, 16 + 20));
        assert_eq!(program.total(CollectiveKind::ReduceScatter), (0, 0));
        assert_eq!(program.collectives[0].group_size(), Some(4));
    }

    #[test]
    fn groups_are_read_however_they_are_written() {
        let groups = |instruction: Instruction| {
            let instruction = Instruction { opcode: "all-gather".into(), ..instruction };
            let computation = Computation { name: String::new(), instructions: vec![instruction] };
            let module = Module { name: "m".into(), computations: vec![computation] };
            let program = CompiledProgram::parse("hlo", &module.encode_to_vec()).unwrap();
            program.collectives[0].groups.as_ref().map(ReplicaGroups::to_string)
        };
        let group = |ids: &[i64]| ReplicaGroup { replica_ids: ids.to_vec() };
        let iota = |devices_per_group| IotaGroups {
            count: 4,
            devices_per_group,
            reshape_dims: vec![8, 2],
            transpose: vec![1, 0],
        };
        let axis = |name: &str, size| Axis { name: name.into(), size };
        let mesh = |device_ids| Mesh { axes: vec![axis("axis_0", 8), axis("axis_1", 2)], device_ids };
        let over = |mesh, index, part| MeshGroups { mesh: Some(mesh), axes: vec![AxisRef { index, part }] };
        let with_mesh = |groups| Instruction { mesh_groups: Some(groups), ..Instruction::default() };
        let part = AxisPart { pre_size: 2, size: 2 };
        let list = DeviceList { replica_groups: vec![group(&[1, 0])], iota: None };
        let cases = [
            Instruction { replica_groups: vec![group(&[0, 2]), group(&[1, 3])], ..Instruction::default() },
            Instruction { device_list: Some(list), ..Instruction::default() },
            Instruction { iota_groups: Some(iota(4)), ..Instruction::default() },
            with_mesh(over(mesh(vec![]), 0, None)),
            with_mesh(over(mesh((0..16).rev().collect()), 0, Some(part))),
            Instruction::default(),
            Instruction { iota_groups: Some(iota(5)), ..Instruction::default() },
            with_mesh(over(mesh(vec![]), 2, None)),
            with_mesh(over(mesh(vec![-1]), 0, None)),
            with_mesh(over(Mesh { axes: vec![axis("x", i64::MAX)], device_ids: vec![] }, 0, None)),
        ];
        assert_eq!(
            cases.map(groups).each_ref().map(Option::as_deref),
            [
                Some("{{0,2},{1,3}}"),
                Some("{{1,0}}"),
                Some("[4,4]<=[8,2]T(1,0)"),
                Some("mesh['axis_0'=8,'axis_1'=2] {'axis_0'}"),
                Some(
                    "mesh['axis_0'=8,'axis_1'=2], device_ids=(15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0) \
                     {'axis_0':(2)2}"
                ),
                None,
                None,
                None,
                None,
                None,
            ]
        );
    }

    #[test]
    fn an_all_reduce_that_is_cut_at_once_is_a_reduce_scatter() {
        let gradient = || vec![("all-reduce", Shape::array(F32, &[64, 4]))];
        let fused = program_in("all-reduce-scatter.3", gradient());
        assert_eq!(fused.total(CollectiveKind::ReduceScatter), (1, 64 * 4 * 4 / 4));
        assert_eq!(fused.total(CollectiveKind::AllReduce), (0, 0));
        assert_eq!(program_in("fused_computation", gradient()).total(CollectiveKind::ReduceScatter), (0, 0));
    }

    #[test]
    fn a_scatter_over_unknown_groups_is_one_too() {
        let all_reduce = Instruction {
            opcode: "all-reduce".into(),
            shape: Some(Shape::array(F32, &[64])),
            ..Instruction::default()
        };
        let computation = Computation { name: SCATTER_FUSION.into(), instructions: vec![all_reduce] };
        let module = Module { name: "m".into(), computations: vec![computation] };
        let program = CompiledProgram::parse("hlo", &module.encode_to_vec()).unwrap();
        assert_eq!(program.total(CollectiveKind::ReduceScatter), (1, 64 * 4));
    }

    #[test]
    fn elements_of_every_width_are_counted_in_bits() {
        // s4, f8e4m3fn, s2 and f4e2m1fn: five elements of each.
        for (element_type, bytes) in [(21, 3), (20, 5), (26, 2), (32, 3), (30, 1), (33, 5), (18, 80)] {
            let program = program(vec![
                ("collective-broadcast", Shape::array(element_type, &[5])),
                ("ragged-all-to-all", Shape::tuple(vec![Shape::array(element_type, &[5]); 2])),
            ]);
            assert_eq!(program.total(CollectiveKind::CollectiveBroadcast), (1, bytes), "{element_type}");
            assert_eq!(program.total(CollectiveKind::RaggedAllToAll), (1, 2 * bytes), "{element_type}");
        }
        let unknown = Instruction {
            name: "gather.1".into(),
            opcode: "all-gather".into(),
            shape: Some(Shape::array(99, &[5])),
            ..Instruction::default()
        };
        let module = |instructions| Module {
            name: "m".into(),
            computations: vec![Computation { name: String::new(), instructions }],
        };
        let error = CompiledProgram::parse("hlo", &module(vec![unknown]).encode_to_vec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the optimized program cannot be read: all-gather gather.1 is of elements of the unknown type number 99"
        );
    }

    #[test]
    fn what_cannot_be_counted_is_the_most_there_is() {
        let huge = || ("all-gather", Shape::array(F32, &[i64::MAX, i64::MAX]));
        let program = program(vec![huge(), huge(), ("all-gather", Shape::array(F32, &[i64::MAX / 8]))]);
        assert_eq!(program.total(CollectiveKind::AllGather), (3, u64::MAX));
    }

    #[test]
    fn other_bytes_and_formats_are_errors() {
        let error = CompiledProgram::parse("hlo", b"HloModule m").unwrap_err().to_string();
        assert!(error.starts_with("the optimized program cannot be read"), "{error}");
        assert!(CompiledProgram::parse("mlir", b"").is_err());
    }
}
