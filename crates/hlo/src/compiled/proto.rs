//! XLA's messages, each with only the fields that are read, and the numbers of `hlo.proto` and `xla_data.proto`.

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
    #[prost(int64, tag = "6")]
    pub(super) entry: i64,
    #[prost(message, optional, tag = "7")]
    pub(super) schedule: Option<Schedule>,
    #[prost(message, optional, tag = "8")]
    pub(super) aliases: Option<Aliases>,
    #[prost(message, optional, tag = "17")]
    pub(super) frames: Option<StackFrames>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Computation {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) instructions: Vec<Instruction>,
    #[prost(int64, tag = "5")]
    pub(super) id: i64,
    #[prost(int64, tag = "6")]
    pub(super) root: i64,
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
    #[prost(message, optional, tag = "8")]
    pub(super) literal: Option<Literal>,
    #[prost(int64, tag = "9")]
    pub(super) parameter: i64,
    #[prost(int64, tag = "13")]
    pub(super) tuple_index: i64,
    #[prost(int64, tag = "26")]
    pub(super) channel: i64,
    #[prost(string, tag = "28")]
    pub(super) custom_call_target: String,
    #[prost(int64, tag = "35")]
    pub(super) id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub(super) operands: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub(super) called: Vec<i64>,
    #[prost(bytes = "vec", tag = "43")]
    pub(super) backend_config: Vec<u8>,
    #[prost(message, repeated, tag = "49")]
    pub(super) replica_groups: Vec<ReplicaGroup>,
    #[prost(message, repeated, tag = "52")]
    pub(super) source_target_pairs: Vec<SourceTarget>,
    #[prost(string, tag = "63")]
    pub(super) comparison: String,
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
    pub(super) element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub(super) dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) tuple_shapes: Vec<Shape>,
    #[prost(message, optional, tag = "5")]
    pub(super) layout: Option<Layout>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Layout {
    #[prost(int64, tag = "8")]
    pub(super) memory_space: i64,
}

/// The integers of a literal, in whichever field its element type puts them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Literal {
    #[prost(int32, repeated, tag = "4")]
    pub(super) s32: Vec<i32>,
    #[prost(int64, repeated, tag = "5")]
    pub(super) s64: Vec<i64>,
    #[prost(uint32, repeated, tag = "6")]
    pub(super) u32: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub(super) u64: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "2")]
    pub(super) op_name: String,
    #[prost(string, tag = "3")]
    pub(super) source_file: String,
    #[prost(int32, tag = "4")]
    pub(super) source_line: i32,
    /// The number of a frame in [`StackFrames`], from 1.
    #[prost(int32, tag = "15")]
    pub(super) frame: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackFrames {
    #[prost(string, repeated, tag = "1")]
    pub(super) files: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub(super) places: Vec<FilePlace>,
    #[prost(message, repeated, tag = "4")]
    pub(super) frames: Vec<StackFrame>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FilePlace {
    /// From 1.
    #[prost(int32, tag = "1")]
    pub(super) file: i32,
    #[prost(int32, tag = "3")]
    pub(super) line: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackFrame {
    /// From 1.
    #[prost(int32, tag = "1")]
    pub(super) place: i32,
}

/// In which order the instructions of computations run. XLA's is a map from computations; its entries are these.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Schedule {
    #[prost(message, repeated, tag = "1")]
    pub(super) sequences: Vec<ScheduledComputation>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScheduledComputation {
    #[prost(int64, tag = "1")]
    pub(super) computation: i64,
    #[prost(message, optional, tag = "2")]
    pub(super) sequence: Option<Sequence>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sequence {
    #[prost(int64, repeated, tag = "1")]
    pub(super) instructions: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Aliases {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<AliasEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AliasEntry {
    #[prost(int64, repeated, tag = "1")]
    pub(super) output: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub(super) parameter: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SourceTarget {
    #[prost(int64, tag = "1")]
    pub(super) source: i64,
    #[prost(int64, tag = "2")]
    pub(super) target: i64,
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
