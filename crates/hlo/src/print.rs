//! StableHLO text, with shardings as `sdy` attributes: what a plugin compiles.
//!
//! The text is a function of the module and its shardings alone, down to the byte. Values are numbered in the
//! order of their definition, so `%12` of the text is not [`ValueId`] 12 once boundaries vanish.

mod annotations;
mod words;

use std::fmt::{self, Write};

use shardwright_tensor::{DType, TensorType};

use self::annotations::Annotations;
use self::words::{AnyType, Attributes, Dense, Quoted, Separated, Symbol, Type};
use crate::{
    DotDims, Function, GatherDims, Instruction, Location, Module, Op, Parsed, Phase, Reduction, Region,
    ScatterDims, Unary, ValueId, ValueType,
};

pub use self::annotations::Shardings;

/// The StableHLO text of a module, for one device or, with shardings, for as many as the mesh has.
///
/// Output donors print as `tf.aliasing_output`, locations as `loc`.
///
/// # Panics
/// May panic if the module is one that [`verify`](crate::verify()) refuses for more than names, shapes of parameters
/// and units.
pub fn print(module: &Module, shardings: Option<&Shardings>) -> String {
    Printer::new(module, Annotations { shardings, stated: shardings.map(|s| &s.stated) }).print()
}

/// The program's text, with the shardings that it came with.
impl fmt::Display for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let annotations = Annotations { shardings: None, stated: Some(&self.stated) };
        f.write_str(&Printer::new(&self.module, annotations).print())
    }
}

struct Printer<'m> {
    module: &'m Module,
    annotations: Annotations<'m>,
    /// Which of the module's sources are written once, at the end, and referred to where they are used.
    shared: Vec<bool>,
    /// What each value is called, once it is defined.
    names: Vec<Option<String>>,
    next: usize,
    /// In how many regions the next line stands, the module's included.
    depth: usize,
}

impl<'m> Printer<'m> {
    fn new(module: &'m Module, annotations: Annotations<'m>) -> Self {
        let (shared, names) = (shared_sources(module), vec![None; module.values.len()]);
        Printer { module, annotations, shared, names, next: 0, depth: 2 }
    }

    fn print(mut self) -> String {
        let mut text = String::new();
        self.module(&mut text).expect("a string takes all that is written to it");
        text
    }

    fn module(&mut self, out: &mut String) -> fmt::Result {
        let Module { name, attributes, outputs, .. } = self.module;
        let partitions = self.annotations.num_partitions();
        write!(out, "module @{} attributes {{mhlo.num_partitions = {partitions} : i32", Symbol(name))?;
        writeln!(out, ", mhlo.num_replicas = 1 : i32{}{attributes}}} {{", comma_before(attributes))?;
        for (name, mesh) in self.annotations.meshes() {
            writeln!(out, "  sdy.mesh @{} = {mesh}", Symbol(name))?;
        }
        self.signature(out)?;
        let results: Vec<ValueId> = outputs.iter().map(|o| o.value).collect();
        self.body(out, &self.module.instructions, "return", &results)?;
        out.push_str("  }\n");
        for function in &self.module.functions {
            self.function(out, function)?;
        }
        out.push_str("}\n");
        for (index, source) in self.module.sources.iter().enumerate().filter(|(index, _)| self.shared[*index])
        {
            writeln!(out, "#loc{index} = loc{source}")?;
        }
        Ok(())
    }

    fn signature(&mut self, out: &mut String) -> fmt::Result {
        let module = self.module;
        let mut aliased = vec![None; module.arguments.len()];
        for (output, donor) in module.outputs.iter().enumerate().filter_map(|(i, o)| Some((i, o.donor?))) {
            aliased[donor] = Some(output);
        }
        out.push_str("  func.func public @main(");
        for (index, argument) in module.arguments.iter().enumerate() {
            let attributes = [
                self.annotations.of(argument.value).map(|pinned| pinned.attribute()),
                aliased[index].map(|output| format!("tf.aliasing_output = {output} : i32")),
                (argument.donated && aliased[index].is_none()).then(|| "jax.buffer_donor = true".to_owned()),
                some_text(&argument.attributes),
            ];
            self.argument(out, index, argument.value, &attributes)?;
            write!(out, " loc({})", Quoted(&argument.name))?;
        }
        out.push_str(") -> (");
        for (index, output) in module.outputs.iter().enumerate() {
            let attributes = [
                Some(format!("jax.result_info = {}", Quoted(&output.name))),
                self.annotations.of_output(index).map(|pinned| pinned.attribute()),
                some_text(&output.attributes),
            ];
            let comma = if index == 0 { "" } else { ", " };
            write!(out, "{comma}{}{}", self.ty(output.value), Attributes(&attributes))?;
        }
        let attributes = &module.main_attributes;
        let word = if attributes.is_empty() { "" } else { " attributes" };
        writeln!(out, "){word}{} {{", Attributes(&[some_text(attributes)]))
    }

    fn function(&mut self, out: &mut String, function: &Function) -> fmt::Result {
        let Function { name, body, attributes } = function;
        write!(out, "  func.func private @{}(", Symbol(name))?;
        for (index, &argument) in body.arguments.iter().enumerate() {
            let pinned = self.annotations.of(argument).map(|pinned| pinned.attribute());
            self.argument(out, index, argument, &[pinned])?;
        }
        let results = body.results.iter().map(|&v| self.ty(v));
        let word = if attributes.is_empty() { "" } else { " attributes" };
        let attributes = [some_text(attributes)];
        writeln!(out, ") -> ({}){word}{} {{", Separated(results), Attributes(&attributes))?;
        self.body(out, &body.instructions, "return", &body.results)?;
        out.push_str("  }\n");
        Ok(())
    }

    /// Writes one of a function's arguments.
    fn argument(
        &mut self,
        out: &mut String,
        index: usize,
        value: ValueId,
        attributes: &[Option<String>],
    ) -> fmt::Result {
        let comma = if index == 0 { "" } else { ", " };
        write!(out, "{comma}%arg{index}: {}{}", self.ty(value), Attributes(attributes))?;
        self.names[value.index()] = Some(format!("%arg{index}"));
        Ok(())
    }

    /// Writes the instructions of a function or region, and the one that ends it.
    fn body(
        &mut self,
        out: &mut String,
        instructions: &[Instruction],
        terminator: &str,
        results: &[ValueId],
    ) -> fmt::Result {
        for instruction in instructions {
            self.instruction(out, instruction)?;
        }
        self.indent(out);
        out.push_str(terminator);
        let mut comma = " ";
        for &value in results {
            write!(out, "{comma}{}", self.name(value))?;
            comma = ", ";
        }
        if !results.is_empty() {
            write!(out, " : {}", Separated(results.iter().map(|&v| self.ty(v))))?;
        }
        out.push('\n');
        Ok(())
    }

    fn instruction(&mut self, out: &mut String, instruction: &Instruction) -> fmt::Result {
        let Instruction { op, operands, results, location, .. } = instruction;
        let pinned = results.first().and_then(|&result| self.annotations.of(result));
        let is_nothing = matches!(op, Op::Vary(_)) || (matches!(op, Op::Boundary(_)) && pinned.is_none());
        if is_nothing {
            self.names[results[0].index()] = self.names[operands[0].index()].clone();
            return Ok(());
        }
        if matches!(op, Op::OptimizationBarrier) && results.is_empty() {
            return Ok(());
        }
        let mut operand_names: Vec<String> = operands.iter().map(|&v| self.name(v).to_owned()).collect();
        if let Op::Reduce { kind, .. } = op {
            operand_names.push(self.neutral(out, *kind, self.module.ty(operands[0]).dtype)?);
        }
        self.define(out, results);
        match (op, pinned) {
            (Op::Boundary(_), Some(pinned)) => {
                pinned.constraint(out, &operand_names[0], &self.ty(results[0]))?
            }
            (Op::Call(_) | Op::While | Op::If | Op::Case | Op::ManualComputation(_) | Op::Other(_), _) => {
                self.generic(out, instruction, &operand_names)?;
            }
            _ => {
                let types =
                    |values: &[ValueId]| values.iter().map(|&v| self.module.ty(v)).collect::<Vec<_>>();
                let (operands, results) = (types(operands), types(results));
                let attributes = Attributes(&[self.result_shardings(instruction)]).to_string();
                Line { x: &operand_names, operands: &operands, results, attributes }.op(out, op)?;
            }
        }
        self.location(out, *location)
    }

    /// Writes an op in MLIR's generic form, but for calls.
    fn generic(&mut self, out: &mut String, instruction: &Instruction, x: &[String]) -> fmt::Result {
        let Instruction { op, operands, results, regions, .. } = instruction;
        let (name, properties, attributes) = match op {
            Op::Other(op) => (op.name.clone(), op.properties.clone(), op.attributes.as_str()),
            Op::ManualComputation(manual) => (op.name().to_owned(), manual.properties(), ""),
            _ => (format!("stablehlo.{}", op.name()), String::new(), ""),
        };
        match op {
            Op::Call(function) => {
                let function = Symbol(&self.module.functions[function.0 as usize].name);
                write!(out, "func.call @{function}({})", Separated(x.iter()))?;
            }
            _ => write!(out, "\"{name}\"({})", Separated(x.iter()))?,
        }
        if !properties.is_empty() {
            write!(out, " <{{{properties}}}>")?;
        }
        for (index, region) in regions.iter().enumerate() {
            out.push_str(if index == 0 { " (" } else { ", " });
            self.region(out, region, terminator(&name))?;
        }
        out.push_str(if regions.is_empty() { "" } else { ")" });
        let attributes = [self.result_shardings(instruction), some_text(attributes)];
        let types = |values: &[ValueId]| {
            let types: Vec<String> = values.iter().map(|&v| self.ty(v).to_string()).collect();
            types.join(", ")
        };
        write!(out, "{} : ({}) -> ({})", Attributes(&attributes), types(operands), types(results))
    }

    /// Writes a region in its braces.
    fn region(&mut self, out: &mut String, region: &Region, terminator: &str) -> fmt::Result {
        out.push_str("{\n");
        if !region.arguments.is_empty() {
            self.indent(out);
            let mut comma = "^bb0(";
            for &argument in &region.arguments {
                let name = self.next_name();
                write!(out, "{comma}{name}: {}", self.ty(argument))?;
                self.names[argument.index()] = Some(name);
                comma = ", ";
            }
            out.push_str("):\n");
        }
        self.depth += 1;
        self.body(out, &region.instructions, terminator, &region.results)?;
        self.depth -= 1;
        self.indent(out);
        out.push('}');
        Ok(())
    }

    /// Where the results of an instruction lie, as one attribute.
    fn result_shardings(&self, instruction: &Instruction) -> Option<String> {
        let rank = |v: ValueId| self.module.values[v.index()].tensor().map_or(0, TensorType::rank);
        let results: Vec<(ValueId, usize)> = instruction.results.iter().map(|&v| (v, rank(v))).collect();
        self.annotations.of_results(&results)
    }

    /// Writes the constant that a reduction starts from; its name.
    fn neutral(&mut self, out: &mut String, kind: Reduction, dtype: DType) -> Result<String, fmt::Error> {
        let name = self.next_name();
        let value = kind.neutral(dtype);
        self.indent(out);
        writeln!(out, "{name} = stablehlo.constant {} : {}", Dense(&value), Type(value.ty()))?;
        Ok(name)
    }

    fn next_name(&mut self) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        name
    }

    fn indent(&self, out: &mut String) {
        out.extend(std::iter::repeat_n("  ", self.depth));
    }

    /// Begins a line with `%3 = ` or `%3:2 = ` and remembers the names.
    fn define(&mut self, out: &mut String, results: &[ValueId]) {
        self.indent(out);
        match results {
            [] => {}
            [result] => {
                let name = self.next_name();
                *out += &format!("{name} = ");
                self.names[result.index()] = Some(name);
            }
            _ => {
                let name = self.next_name();
                *out += &format!("{name}:{} = ", results.len());
                for (i, result) in results.iter().enumerate() {
                    self.names[result.index()] = Some(format!("{name}#{i}"));
                }
            }
        }
    }

    /// Ends a line with where its instruction comes from.
    fn location(&self, out: &mut String, location: Location) -> fmt::Result {
        if let Some(unit) = location.unit {
            let path = &self.module.unit(unit).path;
            return match location.phase {
                Phase::Forward => writeln!(out, " loc({})", Quoted(path)),
                phase => writeln!(out, " loc({})", Quoted(&format!("{path}/{phase}"))),
            };
        }
        let source = location.source.map(|id| id.0 as usize);
        match source.and_then(|index| Some((index, self.module.sources.get(index)?))) {
            Some((index, _)) if self.shared[index] => writeln!(out, " loc(#loc{index})"),
            Some((_, source)) => writeln!(out, " loc{source}"),
            None => writeln!(out),
        }
    }

    fn ty(&self, value: ValueId) -> AnyType<'m> {
        AnyType(&self.module.values[value.index()])
    }

    fn name(&self, value: ValueId) -> &str {
        self.names[value.index()].as_deref().unwrap_or("%undefined")
    }
}

/// For each source of a module, whether it is long and more than one instruction has it: written out each time, a text
/// could become many times as long as the one that was read.
fn shared_sources(module: &Module) -> Vec<bool> {
    const LONG: usize = 120;
    let mut uses = vec![0usize; module.sources.len()];
    let bodies = module.functions.iter().map(|function| &function.body.instructions);
    let mut rest: Vec<&Instruction> = bodies.chain([&module.instructions]).flatten().collect();
    while let Some(instruction) = rest.pop() {
        if let Some(uses) = instruction.location.source.and_then(|id| uses.get_mut(id.0 as usize)) {
            *uses += 1;
        }
        rest.extend(instruction.regions.iter().flat_map(|region| &region.instructions));
    }
    module.sources.iter().zip(uses).map(|(source, uses)| source.len() > LONG && uses > 1).collect()
}

/// A type in MLIR's spelling.
pub(crate) fn mlir_type(ty: &ValueType) -> String {
    AnyType(ty).to_string()
}

/// What ends a region of the op with this name.
pub(crate) fn terminator(op: &str) -> &'static str {
    if op.starts_with("sdy.") { "sdy.return" } else { "stablehlo.return" }
}

/// The text, if there is any.
fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn comma_before(text: &str) -> &'static str {
    if text.is_empty() { "" } else { ", " }
}

/// What stands to the right of `=`: one rule per op.
struct Line<'a> {
    x: &'a [String],
    operands: &'a [&'a TensorType],
    results: Vec<&'a TensorType>,
    /// ` {…}` where there are any.
    attributes: String,
}

impl Line<'_> {
    fn op(&self, out: &mut String, op: &Op) -> fmt::Result {
        let name = op.name();
        let Line { x, operands, results, attributes } = self;
        let result = Type(results[0]);
        match op {
            Op::Constant(value) => {
                write!(out, "stablehlo.constant{attributes} {} : {result}", Dense(value))
            }
            Op::Splat { element, .. } => {
                write!(out, "stablehlo.constant{attributes} {} : {result}", Dense(element))
            }
            Op::Iota { dim, .. } => write!(out, "stablehlo.iota dim = {dim}{attributes} : {result}"),
            Op::Unary(Unary::IsFinite) => {
                write!(out, "stablehlo.{name} {}", x[0])?;
                self.function_type(out)
            }
            Op::Unary(_) => write!(out, "stablehlo.{name} {}{attributes} : {result}", x[0]),
            Op::Binary(_) => write!(out, "stablehlo.{name} {}, {}{attributes} : {result}", x[0], x[1]),
            Op::Compare(direction) => {
                write!(out, "stablehlo.compare {}, {}, {}", direction.name(), x[0], x[1])?;
                self.function_type(out)
            }
            Op::Select => {
                write!(out, "stablehlo.select {}, {}, {}", x[0], x[1], x[2])?;
                write!(out, "{attributes} : {}, {result}", Type(operands[0]))
            }
            Op::Clamp => {
                write!(out, "stablehlo.clamp {}, {}, {}", x[0], x[1], x[2])?;
                self.function_type(out)
            }
            Op::Convert(_) | Op::BitcastConvert(_) | Op::Reshape(_) => {
                write!(out, "stablehlo.{name} {}", x[0])?;
                self.function_type(out)
            }
            Op::BroadcastInDim { dims, .. } | Op::Transpose(dims) => {
                write!(out, "stablehlo.{name} {}, dims = {dims:?}", x[0])?;
                self.function_type(out)
            }
            Op::Slice(bounds) => {
                let ranges = (0..bounds.starts.len()).map(|d| {
                    let step = bounds.strides[d];
                    let step = if step == 1 { String::new() } else { format!(":{step}") };
                    format!("{}:{}{step}", bounds.starts[d], bounds.limits[d])
                });
                write!(out, "stablehlo.slice {} [{}]", x[0], Separated(ranges))?;
                self.function_type(out)
            }
            Op::DynamicSlice { sizes } => {
                write!(out, "stablehlo.dynamic_slice {}, sizes = {sizes:?}", Separated(x.iter()))?;
                self.function_type(out)
            }
            Op::DynamicUpdateSlice => {
                write!(out, "stablehlo.dynamic_update_slice {}", Separated(x.iter()))?;
                self.function_type(out)
            }
            Op::Reverse(dims) => {
                write!(out, "stablehlo.reverse {}, dims = {dims:?}{attributes} : {result}", x[0])
            }
            Op::Pad { low, high, interior } => {
                write!(out, "stablehlo.pad {}, {}, low = {low:?}, high = {high:?}", x[0], x[1])?;
                write!(out, ", interior = {interior:?}")?;
                self.function_type(out)
            }
            Op::Concatenate { dim } => {
                write!(out, "stablehlo.concatenate {}, dim = {dim}", Separated(x.iter()))?;
                self.function_type(out)
            }
            Op::DotGeneral(dims) => self.dot_general(out, dims),
            Op::Reduce { kind, dims } => self.reduce(out, *kind, dims),
            Op::Gather(dims) => self.gather(out, dims),
            Op::Scatter { kind, dims } => self.scatter(out, *kind, dims),
            Op::OptimizationBarrier => {
                write!(out, "stablehlo.optimization_barrier{attributes} {}", Separated(x.iter()))?;
                write!(out, " : {}", Separated(results.iter().map(|&ty| Type(ty))))
            }
            Op::AllGather { dim, axes } => {
                write!(out, "\"stablehlo.all_gather\"({}) <{{all_gather_dim = {dim} : i64, {axes}}}>", x[0])?;
                self.function_type(out)
            }
            Op::ReduceScatter { kind, dim, axes } => {
                write!(out, "\"stablehlo.reduce_scatter\"({}) <{{", x[0])?;
                write!(out, "scatter_dimension = {dim} : i64, {axes}}}>")?;
                self.reducer(out, *kind)
            }
            Op::AllReduce { kind, axes } => {
                write!(out, "\"stablehlo.all_reduce\"({}) <{{{axes}}}>", x[0])?;
                self.reducer(out, *kind)
            }
            Op::Boundary(_) => unreachable!("prints as a sharding constraint, or not at all"),
            Op::Vary(_) => unreachable!("prints nothing"),
            Op::Call(_) | Op::While | Op::If | Op::Case | Op::ManualComputation(_) | Op::Other(_) => {
                unreachable!("prints in the generic form")
            }
        }
    }

    fn dot_general(&self, out: &mut String, dims: &DotDims) -> fmt::Result {
        write!(out, "stablehlo.dot_general {}, {}", self.x[0], self.x[1])?;
        if !dims.lhs_batch.is_empty() {
            write!(out, ", batching_dims = {:?} x {:?}", dims.lhs_batch, dims.rhs_batch)?;
        }
        write!(out, ", contracting_dims = {:?} x {:?}", dims.lhs_contracting, dims.rhs_contracting)?;
        let precision = dims.precision.name();
        write!(out, ", precision = [{precision}, {precision}]")?;
        self.function_type(out)
    }

    fn reduce(&self, out: &mut String, kind: Reduction, dims: &[usize]) -> fmt::Result {
        let (x, ty) = (&self.x[0], self.operands[0]);
        let neutral = TensorType::scalar(ty.dtype);
        write!(out, "stablehlo.reduce({x} init: {})", self.x[1])?;
        write!(out, " applies stablehlo.{} across dimensions = {dims:?}", kind.op().name())?;
        let attributes = &self.attributes;
        write!(out, "{attributes} : ({}, {}) -> {}", Type(ty), Type(&neutral), Type(self.results[0]))
    }

    fn gather(&self, out: &mut String, dims: &GatherDims) -> fmt::Result {
        let GatherDims { offset, collapsed, operand_batch, indices_batch, .. } = dims;
        let GatherDims { start_index_map, index_vector, slice_sizes, indices_are_sorted, .. } = dims;
        write!(out, "\"stablehlo.gather\"({}, {}) <{{", self.x[0], self.x[1])?;
        write!(out, "dimension_numbers = #stablehlo.gather<offset_dims = {offset:?}, ")?;
        write!(out, "collapsed_slice_dims = {collapsed:?}, ")?;
        if !operand_batch.is_empty() {
            write!(out, "operand_batching_dims = {operand_batch:?}, ")?;
            write!(out, "start_indices_batching_dims = {indices_batch:?}, ")?;
        }
        write!(out, "start_index_map = {start_index_map:?}, index_vector_dim = {index_vector}>, ")?;
        write!(out, "indices_are_sorted = {indices_are_sorted}, ")?;
        let colon = if slice_sizes.is_empty() { "" } else { ": " };
        write!(out, "slice_sizes = array<i64{colon}{}>}}>", Separated(slice_sizes.iter()))?;
        self.function_type(out)
    }

    fn scatter(&self, out: &mut String, kind: Reduction, dims: &ScatterDims) -> fmt::Result {
        let ScatterDims { update_window, inserted_window, operand_batch, indices_batch, .. } = dims;
        let ScatterDims { index_map, index_vector, indices_are_sorted, unique_indices, .. } = dims;
        write!(out, "\"stablehlo.scatter\"({}) <{{", Separated(self.x.iter()))?;
        write!(out, "indices_are_sorted = {indices_are_sorted}, ")?;
        write!(out, "scatter_dimension_numbers = #stablehlo.scatter<")?;
        write!(out, "update_window_dims = {update_window:?}, inserted_window_dims = {inserted_window:?}, ")?;
        if !operand_batch.is_empty() {
            write!(out, "input_batching_dims = {operand_batch:?}, ")?;
            write!(out, "scatter_indices_batching_dims = {indices_batch:?}, ")?;
        }
        write!(out, "scatter_dims_to_operand_dims = {index_map:?}, index_vector_dim = {index_vector}>, ")?;
        write!(out, "unique_indices = {unique_indices}}}>")?;
        self.reducer(out, kind)
    }

    /// Writes the region that joins two elements, and the type.
    fn reducer(&self, out: &mut String, kind: Reduction) -> fmt::Result {
        let element = Type(&TensorType::scalar(self.results[0].dtype)).to_string();
        writeln!(out, " ({{\n    ^bb0(%a: {element}, %b: {element}):")?;
        writeln!(out, "      %c = stablehlo.{} %a, %b : {element}", kind.op().name())?;
        write!(out, "      stablehlo.return %c : {element}\n    }})")?;
        self.function_type(out)
    }

    /// Writes ` : (operands) -> results`, after the attributes.
    fn function_type(&self, out: &mut String) -> fmt::Result {
        let operands = Separated(self.operands.iter().map(|&ty| Type(ty)));
        let results = Separated(self.results.iter().map(|&ty| Type(ty)));
        let attributes = &self.attributes;
        match self.results.len() {
            1 => write!(out, "{attributes} : ({operands}) -> {results}"),
            _ => write!(out, "{attributes} : ({operands}) -> ({results})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;
    use shardwright_mesh::{AbstractMesh, NamedSharding};

    use super::*;
    use crate::{ArgumentKind, Binary, Role, Stated, Unit, UnitId};

    fn f32(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims).unwrap()
    }

    #[test]
    fn a_module_with_and_without_shardings() {
        let mut m = Module::new("step");
        let w = m.add_argument_of_kind("w", f32(&[8, 4]), ArgumentKind::Parameter);
        m.units.push(Unit { path: "layer".into(), class: "Linear".into(), parent: None, instructions: 0..1 });
        let location = Location { unit: Some(UnitId(0)), phase: Phase::Backward, ..Location::default() };
        let used = m.push_at(Op::Boundary(Role::Weight), &[w], location).unwrap()[0];
        let sum = m.push(Op::Reduce { kind: Reduction::Add, dims: vec![0, 1] }, &[used]).unwrap()[0];
        let twice = m.push(Op::Binary(Binary::Add), &[used, used]).unwrap()[0];
        let pair = m.push(Op::OptimizationBarrier, &[sum, twice]).unwrap();
        m.add_output("sum", pair[0]);
        m.add_donated_output("w", pair[1], 0);

        expect![[r#"
            module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
              func.func public @main(%arg0: tensor<8x4xf32> {tf.aliasing_output = 1 : i32} loc("w")) -> (tensor<f32> {jax.result_info = "sum"}, tensor<8x4xf32> {jax.result_info = "w"}) {
                %0 = stablehlo.constant dense<0.0e0> : tensor<f32>
                %1 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
                %2 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>
                %3:2 = stablehlo.optimization_barrier %1, %2 : tensor<f32>, tensor<8x4xf32>
                return %3#0, %3#1 : tensor<f32>, tensor<8x4xf32>
              }
            }
        "#]]
        .assert_eq(&print(&m, None));

        let mesh = AbstractMesh::new([("fsdp", 4)]).unwrap();
        let on = |spec: &str| NamedSharding::new(&mesh, spec.parse().unwrap()).unwrap();
        let shardings = Shardings {
            mesh: mesh.clone(),
            values: BTreeMap::from([(w, on("(fsdp, -)")), (used, on("(-, -)"))]),
            outputs: BTreeMap::from([(1, on("(fsdp, -)"))]),
            stated: Stated::default(),
        };
        expect![[r#"
            module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
              sdy.mesh @mesh = <["fsdp"=4]>
              func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>, tf.aliasing_output = 1 : i32} loc("w")) -> (tensor<f32> {jax.result_info = "sum"}, tensor<8x4xf32> {jax.result_info = "w", sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>}) {
                %0 = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]> : tensor<8x4xf32> loc("layer/backward")
                %1 = stablehlo.constant dense<0.0e0> : tensor<f32>
                %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
                %3 = stablehlo.add %0, %0 : tensor<8x4xf32>
                %4:2 = stablehlo.optimization_barrier %2, %3 : tensor<f32>, tensor<8x4xf32>
                return %4#0, %4#1 : tensor<f32>, tensor<8x4xf32>
              }
            }
        "#]]
        .assert_eq(&print(&m, Some(&shardings)));
    }
}
