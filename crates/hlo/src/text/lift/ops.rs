//! The ops that have rules here, found in the generic form: one arm for each.

use shardwright_tensor::{DType, TensorType};

use super::attribute::{Entries, boolean, integers, size, sizes, word};
use super::manual::Surroundings;
use crate::print;
use crate::text::tree::{Named, Operation, TreeRegion};
use crate::{
    Binary, Comparison, DotDims, GatherDims, Op, Precision, Reduction, ScatterDims, SliceBounds, Unary,
};

/// The op that says all that was written of an operation which gives an array of type `result`, if one does. `None`
/// leaves it as it was written.
///
/// `starts` tells whether the operand of this index is the constant that a reduction starts from. Collectives have rules
/// in a manual region alone.
pub(super) fn typed(
    op: &Operation,
    mut entries: Entries<'_>,
    operands: &[TensorType],
    result: &TensorType,
    starts: impl Fn(usize, Reduction) -> bool,
    manual: Option<&Surroundings>,
) -> Option<Op> {
    let name = op.name.strip_prefix("stablehlo.")?;
    let typed = match name {
        "reduce" | "scatter" | "all_reduce" | "reduce_scatter" if !joins_in(op, operands.first()?.dtype) => {
            return None;
        }
        "reduce" => reduce(op, &mut entries, starts)?,
        "scatter" => scatter(op, &mut entries)?,
        "all_gather" | "all_reduce" | "reduce_scatter" => collective(name, op, &mut entries, manual?)?,
        _ if !op.regions.is_empty() => return None,
        _ => plain(name, &mut entries, operands, result)?,
    };
    entries.is_empty().then_some(typed)
}

/// An op without regions.
fn plain(name: &str, entries: &mut Entries<'_>, operands: &[TensorType], result: &TensorType) -> Option<Op> {
    if let Some(unary) = Unary::ALL.into_iter().find(|op| op.name() == name) {
        let accuracy = entries.take("result_accuracy");
        return accuracy.is_none_or(|text| text.contains("DEFAULT")).then_some(Op::Unary(unary));
    }
    if let Some(binary) = Binary::ALL.into_iter().find(|op| op.name() == name) {
        return Some(Op::Binary(binary));
    }
    let shape = || result.shape.clone();
    Some(match name {
        "iota" => Op::Iota { ty: result.clone(), dim: size(entries.take("iota_dimension")?)? },
        "compare" => compare(entries, operands.first()?.dtype)?,
        "select" => Op::Select,
        "clamp" => Op::Clamp,
        "convert" => Op::Convert(result.dtype),
        "bitcast_convert" => Op::BitcastConvert(result.dtype),
        "broadcast_in_dim" => {
            Op::BroadcastInDim { shape: shape(), dims: sizes(entries.take("broadcast_dimensions")?)? }
        }
        "reshape" => Op::Reshape(shape()),
        "transpose" => Op::Transpose(sizes(entries.take("permutation")?)?),
        "slice" => Op::Slice(SliceBounds {
            starts: sizes(entries.take("start_indices")?)?,
            limits: sizes(entries.take("limit_indices")?)?,
            strides: sizes(entries.take("strides")?)?,
        }),
        "dynamic_slice" => Op::DynamicSlice { sizes: sizes(entries.take("slice_sizes")?)? },
        "dynamic_update_slice" => Op::DynamicUpdateSlice,
        "reverse" => Op::Reverse(sizes(entries.take("dimensions")?)?),
        "pad" => Op::Pad {
            low: integers(entries.take("edge_padding_low")?)?,
            high: integers(entries.take("edge_padding_high")?)?,
            interior: integers(entries.take("interior_padding")?)?,
        },
        "concatenate" => Op::Concatenate { dim: size(entries.take("dimension")?)? },
        "dot_general" => dot_general(entries, result.dtype)?,
        "gather" => gather(entries)?,
        _ => return None,
    })
}

/// A comparison of the kind that the dtype has by itself; others, such as the total order of floats, are not known.
fn compare(entries: &mut Entries<'_>, dtype: DType) -> Option<Op> {
    let direction = word(entries.take("comparison_direction")?, "comparison_direction")?;
    let natural = match dtype {
        DType::S8 | DType::S16 | DType::S32 | DType::S64 => "SIGNED",
        dtype if dtype.is_float() => "FLOAT",
        _ => "UNSIGNED",
    };
    if let Some(kind) = entries.take("compare_type") {
        word(kind, "comparison_type").filter(|kind| [natural, "NOTYPE"].contains(kind))?;
    }
    Comparison::ALL.into_iter().find(|c| c.name() == direction).map(Op::Compare)
}

fn dot_general(entries: &mut Entries<'_>, result: DType) -> Option<Op> {
    let mut dims = Entries::of_fields(entries.take("dot_dimension_numbers")?, "#stablehlo.dot")?;
    let precision = match entries.take("precision_config") {
        None => Precision::Default,
        Some(text) => precision(text)?,
    };
    let op = DotDims {
        lhs_batch: dims.sizes("lhs_batching_dimensions")?,
        rhs_batch: dims.sizes("rhs_batching_dimensions")?,
        lhs_contracting: dims.sizes("lhs_contracting_dimensions")?,
        rhs_contracting: dims.sizes("rhs_contracting_dimensions")?,
        result,
        precision,
    };
    dims.is_empty().then_some(Op::DotGeneral(op))
}

/// One precision for both operands.
fn precision(text: &str) -> Option<Precision> {
    let mut each = super::attribute::list(text)?.into_iter().map(|text| {
        let name = word(text, "precision")?;
        Precision::ALL.into_iter().find(|p| p.name() == name)
    });
    let Some(first) = each.next() else { return Some(Precision::Default) };
    each.all(|other| other == first).then_some(first?)
}

fn gather(entries: &mut Entries<'_>) -> Option<Op> {
    let mut dims = Entries::of_fields(entries.take("dimension_numbers")?, "#stablehlo.gather")?;
    let op = GatherDims {
        offset: dims.sizes("offset_dims")?,
        collapsed: dims.sizes("collapsed_slice_dims")?,
        operand_batch: dims.sizes("operand_batching_dims")?,
        indices_batch: dims.sizes("start_indices_batching_dims")?,
        start_index_map: dims.sizes("start_index_map")?,
        index_vector: dims.size("index_vector_dim")?,
        slice_sizes: sizes(entries.take("slice_sizes")?)?,
        indices_are_sorted: flag(entries, "indices_are_sorted")?,
    };
    dims.is_empty().then_some(Op::Gather(op))
}

fn scatter(op: &Operation, entries: &mut Entries<'_>) -> Option<Op> {
    let kind = reduction(op.regions.first().filter(|_| op.regions.len() == 1)?)?;
    let mut dims = Entries::of_fields(entries.take("scatter_dimension_numbers")?, "#stablehlo.scatter")?;
    let numbers = ScatterDims {
        update_window: dims.sizes("update_window_dims")?,
        inserted_window: dims.sizes("inserted_window_dims")?,
        operand_batch: dims.sizes("input_batching_dims")?,
        indices_batch: dims.sizes("scatter_indices_batching_dims")?,
        index_map: dims.sizes("scatter_dims_to_operand_dims")?,
        index_vector: dims.size("index_vector_dim")?,
        indices_are_sorted: flag(entries, "indices_are_sorted")?,
        unique_indices: flag(entries, "unique_indices")?,
    };
    let one_array = op.operands.len() == 3;
    (one_array && dims.is_empty()).then_some(Op::Scatter { kind, dims: numbers })
}

/// A collective along axes of the mesh of the region around it, on one array.
fn collective(name: &str, op: &Operation, entries: &mut Entries<'_>, manual: &Surroundings) -> Option<Op> {
    let axes = manual.take_group(entries)?;
    let kind = || reduction(op.regions.first().filter(|_| op.regions.len() == 1)?);
    let collective = match name {
        "all_gather" => Op::AllGather { dim: size(entries.take("all_gather_dim")?)?, axes },
        "all_reduce" => Op::AllReduce { kind: kind()?, axes },
        _ => Op::ReduceScatter { kind: kind()?, dim: size(entries.take("scatter_dimension")?)?, axes },
    };
    (op.operands.len() == 1).then_some(collective)
}

/// A reduction of one array from its own neutral element.
fn reduce(
    op: &Operation,
    entries: &mut Entries<'_>,
    starts: impl Fn(usize, Reduction) -> bool,
) -> Option<Op> {
    let kind = reduction(op.regions.first().filter(|_| op.regions.len() == 1)?)?;
    let dims = sizes(entries.take("dimensions")?)?;
    let ascending = dims.windows(2).all(|pair| pair[0] < pair[1]);
    (op.operands.len() == 2 && ascending && starts(1, kind)).then_some(Op::Reduce { kind, dims })
}

/// Whether elements are joined in their own dtype, and not in a wider one.
fn joins_in(op: &Operation, dtype: DType) -> bool {
    let own = print::mlir_type(&TensorType::scalar(dtype).into());
    op.regions.iter().flat_map(|region| &region.arguments).all(|argument| *argument.ty == *own)
}

/// The reduction that a region stands for, if it does no more than join its two arguments by one op.
fn reduction(region: &TreeRegion) -> Option<Reduction> {
    let ([a, b], [join, give]) = (&region.arguments[..], &region.operations[..]) else { return None };
    let kind = Reduction::ALL
        .into_iter()
        .find(|kind| join.name.strip_prefix("stablehlo.") == Some(kind.op().name()));
    let [x, y] = &join.operands[..] else { return None };
    let in_order = (&*x.name, &*y.name) == (&*a.name, &*b.name);
    let turned = (&*x.name, &*y.name) == (&*b.name, &*a.name);
    let ([result], [given]) = (&join.results[..], &give.operands[..]) else { return None };
    let nothing_else = join.properties.is_empty() && join.attributes.is_empty() && a.name != b.name;
    let gives = give.name == "stablehlo.return" && given.name == result.name && given.index == 0;
    kind.filter(|_| (in_order || turned) && nothing_else && gives && a.ty == b.ty)
}

/// A flag that is off where it is not written.
fn flag(entries: &mut Entries<'_>, name: &str) -> Option<bool> {
    entries.take(name).map_or(Some(false), boolean)
}

/// Attributes as they are kept of an op that has no rules here.
pub(super) fn written<'t>(entries: impl Iterator<Item = &'t Named>) -> String {
    let entries: Vec<Named> = entries.cloned().collect();
    let text = crate::text::write::dictionary(&entries);
    text[1..text.len() - 1].to_owned()
}
