//! What a compiler made of a program: its collectives, read from the optimized HLO.
//!
//! Plugins return the optimized program as an `HloModuleProto`, or inside an `HloModuleProtoWithConfig`. Only the
//! few fields that are needed here are declared, with the field numbers of XLA's `hlo.proto` and `xla_data.proto`;
//! everything else in the message is skipped.
//!
//! A collective inside a loop is counted once, not once per iteration.

use std::fmt;

use prost::Message;
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
    /// Bytes of its result on one device.
    pub bytes: u64,
    /// How many devices take part in one group, where the program lists groups.
    pub group_size: Option<usize>,
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
}

/// Bytes that are not an HLO module.
#[derive(Clone, Debug, Error)]
#[error("the optimized program is not an HLO module: {reason}")]
pub struct CompiledError {
    reason: String,
}

impl CompiledProgram {
    /// Reads an `HloModuleProto` or `HloModuleProtoWithConfig`, named by the plugin's `format`: `hlo` or
    /// `hlo_with_config`.
    ///
    /// # Errors
    /// When the bytes are not such a message, or the format is another one.
    pub fn parse(format: &str, bytes: &[u8]) -> Result<CompiledProgram, CompiledError> {
        let broken = |e: prost::DecodeError| CompiledError { reason: e.to_string() };
        let module = match format {
            "hlo" => proto::Module::decode(bytes).map_err(broken)?,
            "hlo_with_config" => {
                proto::ModuleWithConfig::decode(bytes).map_err(broken)?.module.unwrap_or_default()
            }
            other => return Err(CompiledError { reason: format!("its format is {other}") }),
        };
        let collectives = module.computations.iter().flat_map(|computation| {
            let scatters = computation.name.starts_with(SCATTER_FUSION);
            let collectives = computation.instructions.iter().filter_map(Collective::of);
            collectives.map(move |collective| if scatters { collective.scattered() } else { collective })
        });
        Ok(CompiledProgram { name: module.name, collectives: collectives.collect() })
    }

    /// Number and result bytes of the collectives of one kind.
    pub fn total(&self, kind: CollectiveKind) -> (usize, u64) {
        let of_kind = self.collectives.iter().filter(|c| c.kind == kind);
        of_kind.fold((0, 0), |(count, bytes), c| (count + 1, bytes + c.bytes))
    }
}

impl CollectiveKind {
    /// All of them.
    pub const ALL: [CollectiveKind; 5] = [
        CollectiveKind::AllGather,
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::CollectivePermute,
    ];

    /// HLO's opcode.
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllGather => "all-gather",
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::CollectivePermute => "collective-permute",
        }
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Collective {
    fn of(instruction: &proto::Instruction) -> Option<Collective> {
        let opcode = &instruction.opcode;
        // The `-done` half of an asynchronous pair moves nothing of its own.
        let (opcode, started) = match opcode.strip_suffix("-start") {
            Some(opcode) => (opcode, true),
            None => (opcode.as_str(), false),
        };
        let kind = CollectiveKind::ALL.into_iter().find(|kind| kind.name() == opcode)?;
        let shape = instruction.shape.as_ref();
        // A start gives its operand, its result and sometimes contexts; that of an all-reduce just its results.
        let with_operand = started && kind != CollectiveKind::AllReduce;
        let result = match shape {
            Some(shape) if with_operand && shape.tuple_shapes.len() > 1 => shape.tuple_shapes.get(1),
            shape => shape,
        };
        let groups = &instruction.replica_groups;
        let devices = instruction.device_list.as_ref();
        let group_size = groups
            .first()
            .or_else(|| devices?.replica_groups.first())
            .map(|group| group.replica_ids.len())
            .or_else(|| usize::try_from(devices?.iota.as_ref()?.devices_per_group).ok());
        Some(Collective {
            kind,
            bytes: result.map_or(0, proto::Shape::bytes),
            group_size,
            op_name: instruction.metadata.as_ref().map(|m| m.op_name.clone()).unwrap_or_default(),
        })
    }
}

impl Collective {
    /// The reduce-scatter that an all-reduce is whose result is cut at once, each device keeping its block.
    fn scattered(self) -> Collective {
        match (self.kind, self.group_size) {
            (CollectiveKind::AllReduce, Some(size @ 1..)) => {
                Collective { kind: CollectiveKind::ReduceScatter, bytes: self.bytes / size as u64, ..self }
            }
            _ => self,
        }
    }
}

/// The messages, each with only the fields that are read.
mod proto {
    use prost::Message;

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
        #[prost(int64, tag = "2")]
        pub(super) devices_per_group: i64,
    }

    impl Shape {
        /// Bytes of the array, or of all arrays of the tuple.
        pub(super) fn bytes(&self) -> u64 {
            // PrimitiveType of xla_data.proto; tokens and opaque values have no size.
            let width = match self.element_type {
                1 | 2 | 6 => 1,
                3 | 7 | 10 | 16 => 2,
                4 | 8 | 11 => 4,
                5 | 9 | 12 | 15 => 8,
                18 => 16,
                _ => 0,
            };
            let elements =
                self.dimensions.iter().fold(1u64, |n, &d| n.saturating_mul(u64::try_from(d).unwrap_or(0)));
            let inner = self.tuple_shapes.iter().map(Shape::bytes);
            inner.fold(elements.saturating_mul(width), u64::saturating_add)
        }
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
    use super::proto::{Computation, Instruction, Module, ReplicaGroup, Shape};
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
        assert_eq!(program.collectives[0].group_size, Some(4));
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
    fn other_bytes_and_formats_are_errors() {
        let error = CompiledProgram::parse("hlo", b"HloModule m").unwrap_err().to_string();
        assert!(error.starts_with("the optimized program is not an HLO module"), "{error}");
        assert!(CompiledProgram::parse("mlir", b"").is_err());
    }
}
