//! From the tree of a text to a module, with what it states of meshes and shardings beside it.
//!
//! Values are numbered in the order of the text, those inside an instruction before its results, so a program that was
//! printed is read back as itself. Two things have no spelling of their own and are found again by what they print:
//! a [`Reduce`](Op::Reduce) starts from a constant that is there for it alone, and an
//! [`Op::Splat`] is a constant of equal elements.
//!
//! Of locations those of instructions are kept, and the names of the program's arguments; not those of functions, of
//! what ends a region, and inside the regions of reductions and scatters.

mod attribute;
mod constant;
mod entry;
mod manual;
mod ops;
mod problem;
mod renumber;
mod sharding;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{HashMap, HashSet};

use shardwright_tensor::{HostArray, TensorType};

use self::attribute::{Entries, string, symbol};
use self::manual::Surroundings;
use self::sharding::{constraint, is_sharding};
use super::error::ParseError;
use super::shared::Text;
use super::tree::{Named, Operation, Position, ResultName, TreeArgument, TreeRegion, Use};
use crate::infer::infer_instruction;
use crate::{
    Function, FunctionId, Instruction, Location, Module, Op, OtherOp, Parsed, Positions, Problem, Reduction,
    Region, Role, SourceId, Stated, ValueId, ValueType, verify,
};

pub use self::problem::ProgramProblem;

type Result<T> = std::result::Result<T, ParseError>;

/// The program that a tree, read from `text`, is of.
pub(super) fn lift(text: &str, module: &Operation) -> Result<Parsed> {
    let mut lifter = Lifter::new(text, module);
    lifter.top(module)?;
    lifter.finish(module)
}

/// A tree on its way to a module.
struct Lifter<'t> {
    text: &'t str,
    module: Module,
    stated: Stated,
    /// Where each value is defined.
    positions: Vec<Position>,
    /// The meshes by name, as indices into those that are stated.
    meshes: HashMap<String, usize>,
    /// The functions that can be called, by name, and where they are defined.
    functions: HashMap<String, (FunctionId, Position)>,
    calls: Vec<Call<'t>>,
    types: HashMap<&'t str, ValueType>,
    sources: HashMap<&'t str, SourceId>,
    scope: Scope<'t>,
    starts: Starts,
    /// The manual region that is being read.
    manual: Option<Surroundings>,
    /// The values of regions that were read in vain.
    given_up: HashSet<ValueId>,
}

/// A call of a function that may not have been read yet.
struct Call<'t> {
    op: &'t Operation,
    function: FunctionId,
    operands: Vec<ValueId>,
    /// What it is said to give.
    types: Vec<ValueType>,
}

/// The values that can be used, by name.
#[derive(Default)]
struct Scope<'t> {
    /// The first of the values that a name stands for, and how many there are.
    names: HashMap<&'t str, (ValueId, usize)>,
    /// The names in the order of their definition.
    order: Vec<&'t str>,
}

/// The scalar constants of a program, some of which are only there for reductions to start from.
#[derive(Default)]
struct Starts {
    scalars: HashMap<ValueId, HostArray>,
    of_reductions: HashSet<ValueId>,
    used_otherwise: HashSet<ValueId>,
}

impl<'t> Lifter<'t> {
    fn new(text: &'t str, module: &Operation) -> Self {
        let name = property(module, "sym_name").and_then(string).unwrap_or_else(|| "main".into());
        Lifter {
            text,
            module: Module::new(name),
            stated: Stated::default(),
            positions: Vec::new(),
            meshes: HashMap::new(),
            functions: HashMap::new(),
            calls: Vec::new(),
            types: HashMap::new(),
            sources: HashMap::new(),
            scope: Scope::default(),
            starts: Starts::default(),
            manual: None,
            given_up: HashSet::new(),
        }
    }

    fn top(&mut self, module: &'t Operation) -> Result<()> {
        let operations = module.regions.first().map_or(&[][..], |region| &region.operations);
        let mut functions = Vec::new();
        let mut main = None;
        for op in operations {
            match &*op.name {
                "sdy.mesh" => self.mesh(op)?,
                "func.func" => {
                    let name = self.symbol_name(op)?;
                    if name == "main" && main.replace(op).is_some() {
                        return Err(self.error(op.at, ProgramProblem::DuplicateSymbol { name }));
                    } else if name != "main" {
                        self.declare(op, name)?;
                        functions.push(op);
                    }
                }
                name => return Err(self.error(op.at, ProgramProblem::TopLevel { op: name.to_owned() })),
            }
        }
        self.module_attributes(module)?;
        let Some(main) = main else {
            let functions = self.module.functions.iter().map(|f| f.name.clone()).collect();
            return Err(self.error(module.at, ProgramProblem::NoMain { functions }));
        };
        self.main(main)?;
        for (index, op) in functions.into_iter().enumerate() {
            self.module.functions[index].body = self.function(op)?;
        }
        for Call { op, function, operands, types } in std::mem::take(&mut self.calls) {
            self.check_types(op, &Op::Call(function), &operands, &[], &types)?;
        }
        Ok(())
    }

    /// What the whole is, which was checked piece by piece where it was written.
    fn finish(mut self, module: &Operation) -> Result<Parsed> {
        self.drop_unused();
        let Lifter { text, module: lifted, stated, positions, functions, .. } = self;
        let module = verify(lifted).map_err(|errors| {
            let at = match &errors.problems[..] {
                [Problem::Recursion { function }] => functions.get(function).map(|(_, at)| *at),
                _ => None,
            };
            ParseError::new(text, at.unwrap_or(module.at), ProgramProblem::Unsound(errors).into())
        })?;
        Ok(Parsed { module, stated, positions: Positions(positions) })
    }

    fn symbol_name(&self, op: &Operation) -> Result<String> {
        let text = property(op, "sym_name");
        text.and_then(string).ok_or_else(|| self.attribute_error(op.at, "sym_name", text, "a string"))
    }

    /// Enters the name of a function, so that it can be called before it is read.
    fn declare(&mut self, op: &'t Operation, name: String) -> Result<()> {
        let attributes = entry::function_attributes(op);
        let functions = &mut self.module.functions;
        let id = FunctionId(u32::try_from(functions.len()).unwrap_or(u32::MAX));
        functions.push(Function { name: name.clone(), body: Region::default(), attributes });
        match self.functions.insert(name.clone(), (id, op.at)) {
            None => Ok(()),
            Some(_) => Err(self.error(op.at, ProgramProblem::DuplicateSymbol { name })),
        }
    }

    /// The body of a function that others call. Where its results lie is said by constraints inside.
    fn function(&mut self, op: &'t Operation) -> Result<Region> {
        let (region, results) = self.function_body(op)?;
        let mut body = self.region(region, op)?;
        self.check_function(op, &body)?;
        for (argument, &value) in region.arguments.iter().zip(&body.arguments) {
            if let Some(sharding) = self.stated(&argument.attributes)? {
                self.stated.values.insert(value, sharding);
            }
        }
        for (index, attributes) in results.iter().enumerate() {
            let Some(sharding) = self.stated(attributes)? else { continue };
            let Some(result) = body.results.get_mut(index) else { continue };
            let ty = self.module.values[result.index()].clone();
            let pinned = self.new_value(ty, op.at)?;
            let boundary = Instruction::boundary(Role::Constraint, *result, pinned, Location::default());
            body.instructions.push(boundary);
            self.stated.values.insert(pinned, sharding);
            *result = pinned;
        }
        Ok(body)
    }

    /// Reads a region of `op`: its arguments, instructions and the one that ends it.
    fn region(&mut self, region: &'t TreeRegion, op: &Operation) -> Result<Region> {
        let terminator =
            if op.name == "func.func" { "func.return" } else { crate::print::terminator(&op.name) };
        let before = self.scope.order.len();
        let mut arguments = Vec::with_capacity(region.arguments.len());
        for TreeArgument { name, ty, at, .. } in &region.arguments {
            let ty = self.ty(ty, *at)?;
            let value = self.new_value(ty, *at)?;
            self.define(name, value, 1, *at)?;
            arguments.push(value);
        }
        let Some((last, operations)) =
            region.operations.split_last().filter(|(last, _)| is(last, terminator))
        else {
            let last = region.operations.last();
            let (at, found) = last.map_or((op.at, "nothing".into()), |op| (op.at, op.name.to_string()));
            let problem = ProgramProblem::Terminator { op: op.name.to_string(), expected: terminator, found };
            return Err(self.error(at, problem));
        };
        let mut instructions = Vec::with_capacity(operations.len());
        for op in operations {
            let instruction = self.instruction(op)?;
            instructions.push(instruction);
        }
        let results = self.operands(last)?;
        self.starts.used_otherwise.extend(&results);
        for name in self.scope.order.drain(before..) {
            self.scope.names.remove(name);
        }
        Ok(Region { arguments, instructions, results })
    }

    fn instruction(&mut self, op: &'t Operation) -> Result<Instruction> {
        let mut operands = self.operands(op)?;
        let types =
            op.result_types.iter().map(|ty| self.ty(ty, op.at)).collect::<Result<Vec<ValueType>>>()?;
        let (kind, regions) = self.op(op, &operands, &types)?;
        if matches!(kind, Op::Reduce { .. }) {
            self.starts.of_reductions.extend(operands.pop());
        }
        self.starts.used_otherwise.extend(&operands);
        self.check(op, &kind, &operands, &regions, &types)?;
        let mut results = Vec::with_capacity(types.len());
        for ty in types {
            results.push(self.new_value(ty, op.at)?);
        }
        let mut next = 0;
        for ResultName { name, count } in &op.results {
            if let Some(&first) = results.get(next) {
                self.define(name, first, *count, op.at)?;
            }
            next += count;
        }
        self.result_shardings(op, &kind, &results)?;
        if let (Op::Constant(value), [result]) = (&kind, &results[..])
            && value.ty().rank() == 0
        {
            self.starts.scalars.insert(*result, value.clone());
        }
        let location = self.location(op.location.as_ref());
        Ok(Instruction { op: kind, operands, results, regions, location })
    }

    /// What an operation computes: an op that has rules here, if one says all that is written, and its regions.
    fn op(
        &mut self,
        op: &'t Operation,
        operands: &[ValueId],
        results: &[ValueType],
    ) -> Result<(Op, Vec<Region>)> {
        if let Some(constraint) = constraint(op) {
            return Ok((constraint, Vec::new()));
        }
        if op.name == "sdy.manual_computation"
            && let Some(manual) = self.manual_computation(op, operands, results)?
        {
            return Ok(manual);
        }
        let others = || op.attributes.iter().filter(|a| !is_sharding(op, a));
        let bare = op.properties.is_empty() && others().next().is_none();
        let control = match &*op.name {
            "func.call" => {
                Some(self.call(op)?).filter(|_| others().next().is_none() && op.properties.len() == 1)
            }
            "stablehlo.while" => Some(Op::While).filter(|_| bare),
            "stablehlo.if" => Some(Op::If).filter(|_| bare),
            "stablehlo.case" => Some(Op::Case).filter(|_| bare),
            "stablehlo.constant" => self.constant(op, results)?.filter(|_| others().next().is_none()),
            _ => self.typed(op, operands, results),
        };
        if let Some(
            typed
            @ (Op::Reduce { .. } | Op::Scatter { .. } | Op::AllReduce { .. } | Op::ReduceScatter { .. }),
        ) = control
        {
            // What their regions say is in the op.
            return Ok((typed, Vec::new()));
        }
        let kept = || OtherOp {
            name: op.name.to_string(),
            properties: ops::written(op.properties.iter()),
            attributes: ops::written(others()),
            results: results.to_vec(),
        };
        let kind = control.unwrap_or_else(|| Op::Other(Box::new(kept())));
        let regions = op.regions.iter().map(|region| self.region(region, op)).collect::<Result<_>>()?;
        Ok((kind, regions))
    }

    /// An op on arrays that has rules here.
    fn typed(&self, op: &Operation, operands: &[ValueId], results: &[ValueType]) -> Option<Op> {
        let tensor = |value: &ValueId| self.module.values[value.index()].tensor().cloned();
        let types: Vec<TensorType> = operands.iter().map(tensor).collect::<Option<_>>()?;
        let starts = |index: usize, kind: Reduction| {
            let start: Option<&HostArray> =
                operands.get(index).and_then(|value| self.starts.scalars.get(value));
            start.is_some_and(|start| *start == kind.neutral(start.dtype()))
        };
        if op.name == "stablehlo.optimization_barrier" {
            let bare = op.properties.is_empty() && op.attributes.iter().all(|a| is_sharding(op, a));
            return bare.then_some(Op::OptimizationBarrier);
        }
        let [ValueType::Tensor(result)] = results else { return None };
        let entries = Entries::without(op, |entry| is_sharding(op, entry));
        ops::typed(op, entries, &types, result, starts, self.manual.as_ref())
    }

    fn call(&self, op: &Operation) -> Result<Op> {
        let text = property(op, "callee");
        let name =
            text.and_then(symbol).ok_or_else(|| self.attribute_error(op.at, "callee", text, "a symbol"))?;
        match self.functions.get(&name) {
            Some(&(id, _)) => Ok(Op::Call(id)),
            None => Err(self.error(op.at, ProgramProblem::UnknownFunction { name })),
        }
    }

    /// A constant of a type that arrays have here.
    fn constant(&mut self, op: &'t Operation, results: &[ValueType]) -> Result<Option<Op>> {
        let ([ValueType::Tensor(ty)], Some(text)) = (results, property(op, "value")) else { return Ok(None) };
        let Some((body, after)) = text.strip_prefix("dense<").and_then(|rest| rest.split_once('>')) else {
            return Ok(None);
        };
        if op.properties.len() != 1 {
            return Ok(None);
        }
        let wrong = |reason| ProgramProblem::Constant { ty: op.result_types[0].to_string(), reason };
        if let Some(stated) = after.trim().strip_prefix(':')
            && self.ty(stated.trim(), op.at)? != results[0]
        {
            let reason = format!("its value is of type {}", types::clip(stated.trim()));
            return Err(self.error(op.at, wrong(reason)));
        }
        constant::dense(body, ty).map(Some).map_err(|reason| self.error(op.at, wrong(reason)))
    }

    /// Compares the types that an op gives with those that are written, or once all functions are read if that is a
    /// call.
    fn check(
        &mut self,
        op: &'t Operation,
        kind: &Op,
        operands: &[ValueId],
        regions: &[Region],
        types: &[ValueType],
    ) -> Result<()> {
        match *kind {
            Op::Other(_) => Ok(()),
            Op::Call(function) => {
                let (operands, types) = (operands.to_vec(), types.to_vec());
                self.calls.push(Call { op, function, operands, types });
                Ok(())
            }
            _ => self.check_types(op, kind, operands, regions, types),
        }
    }

    fn check_types(
        &self,
        op: &Operation,
        kind: &Op,
        operands: &[ValueId],
        regions: &[Region],
        found: &[ValueType],
    ) -> Result<()> {
        let expected = infer_instruction(&self.module, kind, operands, regions);
        let expected = expected.map_err(|error| self.error(op.at, error.into()))?;
        if expected == found {
            return Ok(());
        }
        let problem = ProgramProblem::ResultTypes {
            op: op.name.to_string(),
            expected: types::list(&expected),
            found: types::list(found),
        };
        Err(self.error(op.at, problem))
    }

    /// Compares what a function takes and gives with the type that it is said to be of.
    fn check_function(&mut self, op: &'t Operation, body: &Region) -> Result<()> {
        let text = property(op, "function_type");
        let stated = text.and_then(attribute::function_type);
        let (takes, gives) =
            stated.ok_or_else(|| self.attribute_error(op.at, "function_type", text, "a type of function"))?;
        let mut read =
            |list: Vec<&'t str>| list.into_iter().map(|ty| self.ty(ty, op.at)).collect::<Result<_>>();
        let stated: [Vec<ValueType>; 2] = [read(takes)?, read(gives)?];
        let types =
            |values: &[ValueId]| values.iter().map(|v| self.module.values[v.index()].clone()).collect();
        let found = [types(&body.arguments), types(&body.results)];
        if stated == found {
            return Ok(());
        }
        let show = |[takes, gives]: [Vec<ValueType>; 2]| {
            format!("{} -> {}", types::list(&takes), types::list(&gives))
        };
        let name = self.symbol_name(op)?;
        Err(self
            .error(op.at, ProgramProblem::FunctionType { name, found: show(found), stated: show(stated) }))
    }

    /// The values that an operation uses.
    fn operands(&mut self, op: &'t Operation) -> Result<Vec<ValueId>> {
        let uses = op.operands.iter().zip(&op.operand_types);
        uses.map(|(used, ty)| self.operand(used, ty)).collect()
    }

    fn operand(&mut self, Use { name, index, at }: &'t Use, ty: &'t Text) -> Result<ValueId> {
        let Some(&(ValueId(first), count)) = self.scope.names.get(&**name) else {
            return Err(self.error(*at, ProgramProblem::Undefined { name: name.to_string() }));
        };
        if *index >= count {
            let (name, index) = (name.to_string(), *index);
            return Err(self.error(*at, ProgramProblem::NoSuchResult { name, count, index }));
        }
        // The values of a name are numbered one after the other.
        let value = ValueId(first + u32::try_from(*index).unwrap_or(u32::MAX));
        let found = self.ty(ty, *at)?;
        let expected = &self.module.values[value.index()];
        if *expected != found {
            let [expected, found] = [expected, &found].map(crate::print::mlir_type);
            let problem = ProgramProblem::OperandType { name: name.to_string(), expected, found };
            return Err(self.error(*at, problem));
        }
        Ok(value)
    }

    fn define(&mut self, name: &'t Text, first: ValueId, count: usize, at: Position) -> Result<()> {
        if self.scope.names.insert(name, (first, count)).is_some() {
            return Err(self.error(at, ProgramProblem::Redefined { name: name.to_string() }));
        }
        self.scope.order.push(name);
        Ok(())
    }

    fn new_value(&mut self, ty: ValueType, at: Position) -> Result<ValueId> {
        if u32::try_from(self.module.values.len() + 1).is_err() {
            return Err(self.error(at, ProgramProblem::TooManyValues));
        }
        self.positions.push(at);
        Ok(self.module.new_value(ty))
    }

    fn ty(&mut self, text: &'t str, at: Position) -> Result<ValueType> {
        if let Some(known) = self.types.get(text) {
            return Ok(known.clone());
        }
        let ty = types::value_type(text).map_err(|problem| self.error(at, problem))?;
        self.types.insert(text, ty.clone());
        Ok(ty)
    }

    fn location(&mut self, text: Option<&'t Text>) -> Location {
        let source =
            text.map(|text| text.strip_prefix("loc").unwrap_or(text)).filter(|text| *text != "(unknown)");
        let sources = &mut self.module.sources;
        let source = source.map(|text| {
            *self.sources.entry(text).or_insert_with(|| {
                sources.push(text.to_owned());
                // There are fewer than values.
                SourceId(u32::try_from(sources.len() - 1).unwrap_or(u32::MAX))
            })
        });
        Location { source, ..Location::default() }
    }

    /// Leaves out the constants that are only there for reductions to start from, and what was read in vain, and numbers
    /// the values anew.
    fn drop_unused(&mut self) {
        let Starts { of_reductions, used_otherwise, .. } = std::mem::take(&mut self.starts);
        let mut dropped = std::mem::take(&mut self.given_up);
        dropped.extend(of_reductions.difference(&used_otherwise));
        if !dropped.is_empty() {
            let values = &mut self.stated.values;
            renumber::without(&mut self.module, values, &mut self.positions, &dropped);
        }
    }

    fn attribute_error(
        &self,
        at: Position,
        name: &str,
        found: Option<&str>,
        expected: &'static str,
    ) -> ParseError {
        let found = found.map_or_else(|| "nothing".to_owned(), types::clip);
        self.error(at, ProgramProblem::Attribute { name: name.to_owned(), found, expected })
    }

    fn error(&self, at: Position, problem: ProgramProblem) -> ParseError {
        ParseError::new(self.text, at, problem.into())
    }
}

/// The value of a property, or of an attribute where texts have no properties.
fn property<'t>(op: &'t Operation, name: &str) -> Option<&'t str> {
    find(&op.properties, name).or_else(|| find(&op.attributes, name)).map(|entry| &*entry.value)
}

fn find<'e>(entries: &'e [Named], name: &str) -> Option<&'e Named> {
    entries.iter().find(|entry| entry.name == *name)
}

fn is(op: &Operation, terminator: &str) -> bool {
    op.name == *terminator && op.properties.is_empty() && op.attributes.is_empty() && op.regions.is_empty()
}
