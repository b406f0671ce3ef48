//! StableHLO text, with shardings as `sdy` attributes: what a plugin compiles.
//!
//! The text is a function of the module and its shardings alone, down to the byte. Values are numbered in the
//! order of their definition, so `%12` of the text is not [`ValueId`] 12 once boundaries vanish.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use shardwright_mesh::{AbstractMesh, NamedSharding};
use shardwright_tensor::{DType, HostArray, TensorType};

use crate::{
    DotDims, GatherDims, Instruction, Location, Module, Op, OtherOp, Phase, Reduction, Region, ScatterDims,
    ValueId, ValueType,
};

/// Where the values of a module lie on a mesh. Lives beside the module; values that are not named are left to
/// the compiler.
#[derive(Clone, Debug, PartialEq)]
pub struct Shardings {
    /// The mesh that all of them are on.
    pub mesh: AbstractMesh,
    /// Arguments and [boundaries](Op::Boundary) that are pinned.
    pub values: BTreeMap<ValueId, NamedSharding>,
    /// Outputs that are pinned, by index into [`Module::outputs`].
    pub outputs: BTreeMap<usize, NamedSharding>,
}

/// The StableHLO text of a module, for one device or, with shardings, for as many as the mesh has.
///
/// Output donors print as `tf.aliasing_output`, locations as `loc`.
pub fn print(module: &Module, shardings: Option<&Shardings>) -> String {
    let mut printer = Printer { module, shardings, names: vec![None; module.values.len()], next: 0 };
    let mut text = String::new();
    printer.module(&mut text).expect("a string takes all that is written to it");
    text
}

struct Printer<'m> {
    module: &'m Module,
    shardings: Option<&'m Shardings>,
    /// What each value is called, once it is defined.
    names: Vec<Option<String>>,
    next: usize,
}

impl Printer<'_> {
    fn module(&mut self, out: &mut String) -> fmt::Result {
        let partitions = self.shardings.map_or(1, |s| s.mesh.size());
        let name = Symbol(&self.module.name);
        let counts = format!("mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = 1 : i32");
        writeln!(out, "module @{name} attributes {{{counts}}} {{")?;
        if let Some(shardings) = self.shardings {
            writeln!(out, "  sdy.mesh @mesh = {}", shardings.mesh.sdy_text())?;
        }
        self.signature(out)?;
        for instruction in &self.module.instructions {
            self.instruction(out, instruction)?;
        }
        let outputs = &self.module.outputs;
        out.push_str("    return");
        self.list(out, outputs.iter().map(|o| o.value))?;
        if !outputs.is_empty() {
            write!(out, " : {}", Separated(outputs.iter().map(|o| Type(self.module.ty(o.value)))))?;
        }
        out.push_str("\n  }\n}\n");
        Ok(())
    }

    fn signature(&mut self, out: &mut String) -> fmt::Result {
        out.push_str("  func.func public @main(");
        for (index, argument) in self.module.arguments.iter().enumerate() {
            let name = format!("%arg{index}");
            let aliased = self.module.outputs.iter().position(|o| o.donor == Some(index));
            let attributes = [
                self.sharding_of(argument.value),
                aliased.map(|output| format!("tf.aliasing_output = {output} : i32")),
            ];
            let comma = if index == 0 { "" } else { ", " };
            write!(out, "{comma}{name}: {}", Type(self.module.ty(argument.value)))?;
            write!(out, "{} loc({})", Attributes(&attributes), Quoted(&argument.name))?;
            self.names[argument.value.index()] = Some(name);
        }
        out.push_str(") -> (");
        for (index, output) in self.module.outputs.iter().enumerate() {
            let sharding = self.shardings.and_then(|s| s.outputs.get(&index)).map(sharding_attribute);
            let comma = if index == 0 { "" } else { ", " };
            let info = format!("jax.result_info = {}", Quoted(&output.name));
            let attributes = [Some(info), sharding];
            write!(out, "{comma}{}{}", Type(self.module.ty(output.value)), Attributes(&attributes))?;
        }
        out.push_str(") {\n");
        Ok(())
    }

    fn sharding_of(&self, value: ValueId) -> Option<String> {
        self.shardings?.values.get(&value).map(sharding_attribute)
    }

    fn instruction(&mut self, out: &mut String, instruction: &Instruction) -> fmt::Result {
        let Instruction { op, operands, results, location, .. } = instruction;
        let is_boundary = matches!(op, Op::Boundary(_));
        let pinned = self.shardings.and_then(|s| s.values.get(results.first()?)).filter(|_| is_boundary);
        if matches!(op, Op::Vary(_)) || (is_boundary && pinned.is_none()) {
            self.names[results[0].index()] = self.names[operands[0].index()].clone();
            return Ok(());
        }
        if results.is_empty() {
            return Ok(()); // A barrier on nothing.
        }
        let mut operand_names: Vec<String> = operands.iter().map(|&v| self.name(v).to_owned()).collect();
        if let Op::Reduce { kind, .. } = op {
            operand_names.push(self.neutral(out, *kind, self.module.ty(operands[0]).dtype)?);
        }
        self.define(out, results);
        if let Op::Other(other) = op {
            self.other(out, other, &operand_names, operands)?;
            return self.location(out, *location);
        }
        if let (Op::ManualComputation(manual), [region]) = (op, &instruction.regions[..]) {
            write!(out, "sdy.manual_computation({})", Separated(operand_names.iter()))?;
            manual.write_attributes(out)?;
            self.manual_region(out, region)?;
            let types = |values: &[ValueId]| {
                let types: Vec<String> =
                    values.iter().map(|&v| Type(self.module.ty(v)).to_string()).collect();
                types.join(", ")
            };
            write!(out, " : ({}) -> ({})", types(operands), types(results))?;
            return self.location(out, *location);
        }
        let operand_types: Vec<&TensorType> = operands.iter().map(|&v| self.module.ty(v)).collect();
        let line = Line {
            x: &operand_names,
            operands: &operand_types,
            results: results.iter().map(|&v| self.module.ty(v)).collect(),
        };
        match pinned {
            Some(sharding) => line.sharding_constraint(out, sharding)?,
            None => line.op(out, op)?,
        }
        self.location(out, *location)
    }

    /// Writes the arguments of a region, and the region.
    fn manual_region(&mut self, out: &mut String, region: &Region) -> fmt::Result {
        for (index, &argument) in region.arguments.iter().enumerate() {
            let name = self.next_name();
            let comma = if index == 0 { "" } else { ", " };
            write!(out, "{comma}{name}: {}", Type(self.module.ty(argument)))?;
            self.names[argument.index()] = Some(name);
        }
        out.push_str(") {\n");
        for instruction in &region.instructions {
            self.instruction(out, instruction)?;
        }
        out.push_str("    sdy.return");
        self.list(out, region.results.iter().copied())?;
        write!(out, " : {}", Separated(region.results.iter().map(|&v| Type(self.module.ty(v)))))?;
        out.push_str("\n    }");
        Ok(())
    }

    /// Writes an op in MLIR's generic form.
    fn other(&self, out: &mut String, op: &OtherOp, x: &[String], operands: &[ValueId]) -> fmt::Result {
        write!(out, "\"{}\"({})", op.name, Separated(x.iter()))?;
        if !op.properties.is_empty() {
            write!(out, " <{{{}}}>", op.properties)?;
        }
        if !op.attributes.is_empty() {
            write!(out, " {{{}}}", op.attributes)?;
        }
        let operands = operands.iter().map(|v| AnyType(&self.module.values[v.index()]));
        write!(out, " : ({}) -> ({})", Separated(operands), Separated(op.results.iter().map(AnyType)))
    }

    /// Writes the constant that a reduction starts from; its name.
    fn neutral(&mut self, out: &mut String, kind: Reduction, dtype: DType) -> Result<String, fmt::Error> {
        let name = self.next_name();
        let (value, ty) = (neutral_literal(kind, dtype), TensorType::scalar(dtype));
        writeln!(out, "    {name} = stablehlo.constant dense<{value}> : {}", Type(&ty))?;
        Ok(name)
    }

    fn next_name(&mut self) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        name
    }

    /// Writes `%3 = ` or `%3:2 = ` and remembers the names.
    fn define(&mut self, out: &mut String, results: &[ValueId]) {
        let name = self.next_name();
        match results {
            [result] => {
                *out += &format!("    {name} = ");
                self.names[result.index()] = Some(name);
            }
            _ => {
                *out += &format!("    {name}:{} = ", results.len());
                for (i, result) in results.iter().enumerate() {
                    self.names[result.index()] = Some(format!("{name}#{i}"));
                }
            }
        }
    }

    fn location(&self, out: &mut String, location: Location) -> fmt::Result {
        let Some(unit) = location.unit else { return writeln!(out) };
        let path = &self.module.unit(unit).path;
        match location.phase {
            Phase::Forward => writeln!(out, " loc({})", Quoted(path)),
            phase => writeln!(out, " loc({})", Quoted(&format!("{path}/{phase}"))),
        }
    }

    fn list(&self, out: &mut String, values: impl Iterator<Item = ValueId>) -> fmt::Result {
        let mut first = true;
        for value in values {
            write!(out, "{}{}", if first { " " } else { ", " }, self.name(value))?;
            first = false;
        }
        Ok(())
    }

    fn name(&self, value: ValueId) -> &str {
        self.names[value.index()].as_deref().unwrap_or("%undefined")
    }
}

fn sharding_attribute(sharding: &NamedSharding) -> String {
    format!("sdy.sharding = #sdy.sharding{}", sharding.sdy_text())
}

/// What stands to the right of `=`: one rule per op.
struct Line<'a> {
    x: &'a [String],
    operands: &'a [&'a TensorType],
    results: Vec<&'a TensorType>,
}

impl Line<'_> {
    fn op(&self, out: &mut String, op: &Op) -> fmt::Result {
        let name = op.name();
        let Line { x, operands, results } = self;
        let result = Type(results[0]);
        match op {
            Op::Constant(value) => write!(out, "stablehlo.constant {} : {result}", Dense(value)),
            Op::Iota { dim, .. } => write!(out, "stablehlo.iota dim = {dim} : {result}"),
            Op::Unary(_) => write!(out, "stablehlo.{name} {} : {result}", x[0]),
            Op::Binary(_) => write!(out, "stablehlo.{name} {}, {} : {result}", x[0], x[1]),
            Op::Compare(direction) => {
                write!(out, "stablehlo.compare {}, {}, {}", direction.name(), x[0], x[1])?;
                self.function_type(out)
            }
            Op::Select => {
                write!(out, "stablehlo.select {}, {}, {}", x[0], x[1], x[2])?;
                write!(out, " : {}, {result}", Type(operands[0]))
            }
            Op::Convert(_) | Op::Reshape(_) => {
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
                write!(out, "stablehlo.optimization_barrier {}", Separated(x.iter()))?;
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
            Op::ManualComputation(_) => unreachable!("prints with its region"),
            Op::Other(_) => unreachable!("prints in the generic form"),
        }
    }

    fn sharding_constraint(&self, out: &mut String, sharding: &NamedSharding) -> fmt::Result {
        let result = Type(self.results[0]);
        write!(out, "sdy.sharding_constraint {} {} : {result}", self.x[0], sharding.sdy_text())
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
        write!(out, " : ({}, {}) -> {}", Type(ty), Type(&neutral), Type(self.results[0]))
    }

    fn gather(&self, out: &mut String, dims: &GatherDims) -> fmt::Result {
        let GatherDims { offset, collapsed, start_index_map, index_vector, slice_sizes } = dims;
        write!(out, "\"stablehlo.gather\"({}, {}) <{{", self.x[0], self.x[1])?;
        write!(out, "dimension_numbers = #stablehlo.gather<offset_dims = {offset:?}, ")?;
        write!(out, "collapsed_slice_dims = {collapsed:?}, start_index_map = {start_index_map:?}, ")?;
        write!(out, "index_vector_dim = {index_vector}>, indices_are_sorted = false, ")?;
        write!(out, "slice_sizes = array<i64: {}>}}>", Separated(slice_sizes.iter()))?;
        self.function_type(out)
    }

    fn scatter(&self, out: &mut String, kind: Reduction, dims: &ScatterDims) -> fmt::Result {
        let ScatterDims { update_window, inserted_window, index_map, index_vector } = dims;
        write!(out, "\"stablehlo.scatter\"({}) <{{indices_are_sorted = false, ", Separated(self.x.iter()))?;
        write!(
            out,
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {update_window:?}, "
        )?;
        write!(out, "inserted_window_dims = {inserted_window:?}, ")?;
        write!(out, "scatter_dims_to_operand_dims = {index_map:?}, index_vector_dim = {index_vector}>, ")?;
        out.push_str("unique_indices = false}>");
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

    /// Writes ` : (operands) -> results`.
    fn function_type(&self, out: &mut String) -> fmt::Result {
        let operands = Separated(self.operands.iter().map(|&ty| Type(ty)));
        let results = Separated(self.results.iter().map(|&ty| Type(ty)));
        match self.results.len() {
            1 => write!(out, " : ({operands}) -> {results}"),
            _ => write!(out, " : ({operands}) -> ({results})"),
        }
    }
}

/// The literal from which a reduction starts.
fn neutral_literal(kind: Reduction, dtype: DType) -> String {
    match kind {
        Reduction::Add if dtype.is_float() => "0.0".into(),
        Reduction::Add => "0".into(),
        Reduction::Maximum => match dtype {
            DType::F64 => "0xFFF0000000000000".into(),
            DType::F32 => "0xFF800000".into(),
            DType::Bf16 => "0xFF80".into(),
            DType::F16 => "0xFC00".into(),
            DType::S8 => i8::MIN.to_string(),
            DType::S16 => i16::MIN.to_string(),
            DType::S32 => i32::MIN.to_string(),
            DType::S64 => i64::MIN.to_string(),
            DType::Pred | DType::U8 | DType::U16 | DType::U32 | DType::U64 => "0".into(),
        },
    }
}

/// A type in MLIR's spelling.
struct AnyType<'a>(&'a ValueType);

impl fmt::Display for AnyType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ValueType::Tensor(ty) => Type(ty).fmt(f),
            ValueType::Other(ty) => f.write_str(ty),
        }
    }
}

/// `tensor<2x3xf32>`.
struct Type<'a>(&'a TensorType);

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        self.0.dims().iter().try_for_each(|dim| write!(f, "{dim}x"))?;
        write!(f, "{}>", self.0.dtype.stablehlo_name())
    }
}

/// `dense<1.5>` when all elements are equal, else their bytes: `dense<"0x0000C03F…">`.
struct Dense<'a>(&'a HostArray);

impl fmt::Display for Dense<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, bytes) = (self.0.dtype(), self.0.bytes());
        let mut elements = bytes.chunks_exact(dtype.size());
        let Some(first) = elements.next() else { return f.write_str("dense<>") };
        if elements.all(|element| element == first) {
            return write!(f, "dense<{}>", Element(dtype, first));
        }
        if dtype == DType::Pred {
            // The blob form packs truth values into bits; a list is plainer.
            return self.pred_list(f);
        }
        f.write_str("dense<\"0x")?;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
        f.write_str("\">")
    }
}

impl Dense<'_> {
    fn pred_list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list(f: &mut fmt::Formatter<'_>, dims: &[usize], bytes: &[u8]) -> fmt::Result {
            let Some((&n, inner)) = dims.split_first() else {
                return write!(f, "{}", bytes[0] != 0);
            };
            f.write_str("[")?;
            for (i, part) in bytes.chunks_exact(bytes.len() / n).enumerate() {
                f.write_str(if i == 0 { "" } else { ", " })?;
                list(f, inner, part)?;
            }
            f.write_str("]")
        }
        f.write_str("dense<")?;
        list(f, self.0.dims(), self.0.bytes())?;
        f.write_str(">")
    }
}

/// One element: decimal when that reads back as the same value, else its bits in hex.
struct Element<'a>(DType, &'a [u8]);

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Element(dtype, bytes) = *self;
        let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        let value = match dtype {
            DType::Pred => return write!(f, "{}", bits != 0),
            DType::S8 => return write!(f, "{}", bits as i8),
            DType::S16 => return write!(f, "{}", bits as i16),
            DType::S32 => return write!(f, "{}", bits as i32),
            DType::S64 => return write!(f, "{}", bits as i64),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => return write!(f, "{bits}"),
            DType::F32 => format!("{:e}", f32::from_bits(bits as u32)),
            DType::F64 => format!("{:e}", f64::from_bits(bits)),
            DType::F16 | DType::Bf16 => return write!(f, "0x{bits:04X}"),
        };
        match value.split_once('e') {
            Some((mantissa, exponent)) => {
                let point = if mantissa.contains('.') { "" } else { ".0" };
                write!(f, "{mantissa}{point}e{exponent}")
            }
            // Infinities and NaNs have no decimal form.
            None => write!(f, "0x{bits:0width$X}", width = dtype.size() * 2),
        }
    }
}

/// A quoted string with MLIR's escapes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\{byte:02X}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A symbol name: bare where that is allowed, else quoted.
struct Symbol<'a>(&'a str);

impl fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |c: char| c.is_ascii_alphanumeric() || "_$.".contains(c);
        let bare =
            self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && self.0.chars().all(word);
        if bare { f.write_str(self.0) } else { write!(f, "{}", Quoted(self.0)) }
    }
}

/// ` {a, b}` of those that are present; nothing when none is.
struct Attributes<'a>(&'a [Option<String>]);

impl fmt::Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut present = self.0.iter().flatten().peekable();
        if present.peek().is_none() {
            return Ok(());
        }
        write!(f, " {{{}}}", Separated(present))
    }
}

/// Items with `, ` between them.
struct Separated<I>(I);

impl<I: Iterator<Item: fmt::Display> + Clone> fmt::Display for Separated<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.clone().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::{ArgumentKind, Binary, Reduction, Role, Unit, UnitId};

    fn f32(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims).unwrap()
    }

    #[track_caller]
    fn check_constant(value: HostArray, expect: Expect) {
        expect.assert_eq(&Dense(&value).to_string());
    }

    #[test]
    fn constants() {
        check_constant(HostArray::scalar(1f32), expect!["dense<1.0e0>"]);
        check_constant(HostArray::from_slice(&[3], &[1e-6f32; 3]).unwrap(), expect!["dense<1.0e-6>"]);
        check_constant(HostArray::scalar(f32::NEG_INFINITY), expect!["dense<0xFF800000>"]);
        check_constant(HostArray::scalar(-7i32), expect!["dense<-7>"]);
        check_constant(HostArray::scalar(u32::MAX), expect!["dense<4294967295>"]);
        check_constant(
            HostArray::from_slice(&[2], &[1u16, 258]).unwrap(),
            expect![[r#"dense<"0x01000201">"#]],
        );
        let truth = HostArray::from_bytes(TensorType::new(DType::Pred, [2, 2]).unwrap(), &[1, 0, 0, 0]);
        check_constant(truth.unwrap(), expect!["dense<[[true, false], [false, false]]>"]);
        check_constant(HostArray::zeros(f32(&[0, 2])), expect!["dense<>"]);
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(Symbol("train_step").to_string(), "train_step");
        assert_eq!(Symbol("1 \"x\"\n").to_string(), "\"1 \\\"x\\\"\\0A\"");
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
                %0 = stablehlo.constant dense<0.0> : tensor<f32>
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
        };
        expect![[r#"
            module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
              sdy.mesh @mesh = <["fsdp"=4]>
              func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>, tf.aliasing_output = 1 : i32} loc("w")) -> (tensor<f32> {jax.result_info = "sum"}, tensor<8x4xf32> {jax.result_info = "w", sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>}) {
                %0 = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]> : tensor<8x4xf32> loc("layer/backward")
                %1 = stablehlo.constant dense<0.0> : tensor<f32>
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
