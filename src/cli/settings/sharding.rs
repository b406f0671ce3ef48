//! Settings of how a model is spread over devices.

use shardwright_partition::DimRule;

use super::super::choice::Lowerings;
use super::super::failure::Failure;
use super::super::value::{AtLeast, FsdpWords, Names, Source, Value};
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// How a model is spread over devices.
    ShardingSettings "Sharding" {
        /// Split the model over the devices: full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, true
        /// or false [default: false]
        fsdp: FsdpWords;
        /// A JSON file, or the object itself, that says which layers are wrapped and whether they are checkpointed
        fsdp_config: Source;
        /// Note keys of fsdp_config that are unknown instead of refusing them
        allow_unknown_fsdp_keys: bool = "no";
        /// A class of layers to wrap, beside those of fsdp_config, where it is better written
        fsdp_transformer_layer_cls_to_wrap: Names;
        /// The smallest module to wrap, if it is more than in fsdp_config, where it is better written
        fsdp_min_num_params: AtLeast<0>;
        /// The grid of devices, such as fsdp=8 or data=2,fsdp=-1, where -1 takes the rest [default: all devices on
        /// fsdp_axis]
        mesh: String;
        /// The axis of the mesh that parameters are split over
        fsdp_axis: String = "fsdp";
        /// Which dim of a parameter is split: largest_divisible, strict_largest as FSDPv2 does, or dim0
        fsdp_dim_rule: DimRule = "largest_divisible";
        /// Keep parameters of fewer bytes whole
        min_shard_bytes: AtLeast<0> = "0";
        /// How sharding is written into the program: explicit writes gathers and scatters by hand, annotate leaves them
        /// to the compiler; auto is explicit where nothing is split over a tensor axis; `explain train` also takes both
        lowering: Lowerings = "auto";
    }
}
