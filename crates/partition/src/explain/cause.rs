//! What each array that a collective carries is for, and what it comes from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use shardwright_hlo::ArgumentKind;
use shardwright_hlo::compiled::{
    Collective, CollectiveKind, CollectivePiece, CompiledInstruction, CompiledProgram,
};
use shardwright_tensor::TensorType;

use super::flow::{Flow, Value};
use super::subject::is_in;
use super::{Cause, Pass, Piece, Purpose, Subject};

/// An array of at most so many elements is a few numbers, and so is one of a number for each parameter.
const FEW: u64 = 16;

/// What is known of the values of a program.
pub(super) struct Causes<'a> {
    program: &'a CompiledProgram,
    subject: &'a Subject,
    flow: Flow<'a>,
    /// What the gradients among the pieces of collectives are of: by the place of the collective, and the piece.
    gradients: BTreeMap<((usize, usize), usize), GradientOf>,
    /// Values that gradients are made of, and what is made of them.
    pub(super) of_gradients: BTreeSet<(usize, usize)>,
    /// Instructions that depend on the batch, other than through what was summed over all of it.
    of_batch: Vec<Vec<bool>>,
    /// The instructions that take one part of the result of a collective, by the collective and the part.
    takers: HashMap<((usize, usize), usize), usize>,
    /// Whether not all of the program could be looked at.
    pub(super) is_cut_short: bool,
}

/// What a gradient is of.
#[derive(Clone, Copy)]
enum GradientOf {
    /// A parameter that has a new value, or has new state.
    Parameter(usize),
    /// An output of the type of a parameter, of which it is not known whose new value or gradient it is.
    Output(usize),
    /// No gradient, but what is made of one for an output: state that lacks a dim of its parameter, and is summed over it.
    Summary(usize),
}

impl<'a> Causes<'a> {
    pub(super) fn new(program: &'a CompiledProgram, subject: &'a Subject) -> Causes<'a> {
        let mut causes = Causes {
            program,
            subject,
            flow: Flow::new(program),
            gradients: BTreeMap::new(),
            of_gradients: BTreeSet::new(),
            of_batch: Vec::new(),
            takers: takers(program),
            is_cut_short: false,
        };
        causes.find_gradients();
        causes.of_batch = causes.depends_on_batch();
        causes
    }

    /// Goes back from each output that is a parameter or its state.
    fn find_gradients(&mut self) {
        let mut visits = Flow::visits();
        let types: HashSet<&TensorType> =
            self.subject.parameters().map(|(_, parameter)| &parameter.ty).collect();
        for (output, told) in self.subject.outputs.iter().enumerate() {
            let is_like_parameter = || types.contains(&told.ty);
            let of = match told.updates {
                Some(argument) if self.is_summary(argument) => GradientOf::Summary(output),
                Some(argument) => match self.parameter_of(argument) {
                    Some(parameter) => GradientOf::Parameter(parameter),
                    None => continue,
                },
                None if is_like_parameter() => GradientOf::Output(output),
                None => continue,
            };
            for value in self.flow.made_of(output, &mut visits) {
                self.of_gradients.insert(value.place);
                if self.flow.is_exchange(value) {
                    self.gradients.entry((value.place, value.part.unwrap_or(0))).or_insert(of);
                }
            }
        }
        self.is_cut_short = visits == 0;
    }

    /// Whether an argument is state that lacks a dim of its parameter.
    fn is_summary(&self, argument: usize) -> bool {
        let argument = self.subject.arguments.get(argument);
        argument.is_some_and(|a| matches!(a.kind, ArgumentKind::State { without: Some(_), .. }))
    }

    /// The parameter that an argument is, or is kept for.
    fn parameter_of(&self, argument: usize) -> Option<usize> {
        match self.subject.arguments.get(argument)?.kind {
            ArgumentKind::Parameter => Some(argument),
            ArgumentKind::State { parameter, .. } => Some(parameter),
            ArgumentKind::Batch | ArgumentKind::Other => None,
        }
    }

    /// Whether an array is a few numbers.
    fn is_few(&self, piece: &CollectivePiece) -> bool {
        piece.array.elements() <= FEW.max(self.subject.parameters().count() as u64)
    }

    /// The places of collectives that carry nothing but gradients and sums of a few numbers, such as losses and counts.
    fn of_whole_batch(&self) -> HashSet<(usize, usize)> {
        let is_sum = |collective: &&Collective| {
            let is_gradient = |part| self.gradients.contains_key(&(collective.place, part));
            let few = |piece| collective.kind == CollectiveKind::AllReduce && self.is_few(piece);
            collective.pieces.iter().enumerate().all(|(part, piece)| is_gradient(part) || few(piece))
        };
        self.program.collectives.iter().filter(is_sum).map(|collective| collective.place).collect()
    }

    /// For each instruction of each computation, whether it depends on the batch, other than through what was summed over
    /// all of it. What a computation gives counts as depending on all that it is given.
    fn depends_on_batch(&self) -> Vec<Vec<bool>> {
        let of_whole_batch = self.of_whole_batch();
        let computations = &self.program.computations;
        let mut depends: Vec<Vec<bool>> =
            computations.iter().map(|c| vec![false; c.instructions.len()]).collect();
        // By the steps in which they run first, callers come before what they call; insides of fusions come last.
        let mut order: Vec<usize> =
            (0..computations.len()).filter(|&c| computations[c].runs.count > 0).collect();
        order.sort_by_key(|&c| {
            (computations[c].is_fused, computations[c].instructions.first().map(|first| first.step))
        });
        let mut given: Vec<Vec<bool>> = vec![Vec::new(); computations.len()];
        for computation in order {
            for (index, instruction) in computations[computation].instructions.iter().enumerate() {
                let is_batch = |argument: usize| {
                    self.subject.arguments.get(argument).is_some_and(|a| a.kind == ArgumentKind::Batch)
                };
                let is_sum = self.gradients.contains_key(&((computation, index), 0))
                    || of_whole_batch.contains(&(computation, index));
                depends[computation][index] = match instruction.opcode.as_str() {
                    "parameter" if computation == self.program.entry => is_batch(instruction.index),
                    "parameter" => given[computation].get(instruction.index).copied().unwrap_or(false),
                    _ => !is_sum && instruction.operands.iter().any(|&o| depends[computation][o]),
                };
                for &callee in &instruction.called {
                    let passed: Vec<bool> = match instruction.opcode.as_str() {
                        // Each branch is given one operand; which is not told apart.
                        "conditional" => vec![depends[computation][index]],
                        _ => instruction.operands.iter().map(|&o| depends[computation][o]).collect(),
                    };
                    let most = given[callee].len().max(passed.len());
                    given[callee].resize(most, false);
                    given[callee].iter_mut().zip(passed).for_each(|(given, passed)| *given |= passed);
                }
            }
        }
        depends
    }

    /// Whether an instruction depends on the batch, other than through what was summed over all of it.
    pub(super) fn is_of_batch(&self, (computation, instruction): (usize, usize)) -> bool {
        self.of_batch[computation][instruction]
    }

    /// The kind of the argument whose numbers an instruction gives, moved or gathered.
    pub(super) fn argument_kind(&self, place: (usize, usize)) -> Option<ArgumentKind> {
        let argument = self.flow.argument(Value::from(place))?;
        Some(self.subject.arguments.get(argument)?.kind)
    }

    /// What a collective carries.
    pub(super) fn pieces(&self, collective: &Collective) -> Vec<Piece> {
        collective.pieces.iter().map(|piece| self.piece(collective, piece)).collect()
    }

    fn piece(&self, collective: &Collective, piece: &CollectivePiece) -> Piece {
        let named = self.named(collective, piece);
        let (op_name, source) = match named {
            Some(instruction) => (&instruction.op_name, &instruction.source),
            None => (&collective.op_name, &collective.source),
        };
        let op_name = without_calls(op_name);
        let (purpose, cause) = self.purpose(collective, piece, op_name);
        Piece {
            ty: piece.array.to_string(),
            array_bytes: collective.kind.array_bytes(piece.operand_bytes, piece.result_bytes),
            purpose,
            pass: pass(op_name, purpose, &cause, self.subject),
            cause,
            op_name: op_name.to_owned(),
            source: source.as_ref().map(|line| format!("{}:{}", line.file, line.line)),
        }
    }

    /// The instruction that says best where a piece comes from: of a joined collective, the one that takes the piece
    /// out of the result, or else the one that computed it.
    fn named(&self, collective: &Collective, piece: &CollectivePiece) -> Option<&'a CompiledInstruction> {
        if collective.pieces.len() < 2 {
            return None;
        }
        let computation = collective.place.0;
        let taker = self.takers.get(&(collective.place, piece.operand)).copied();
        let operand = || self.program.instruction(collective.place).operands.get(piece.operand).copied();
        let instruction = |index: usize| self.program.instruction((computation, index));
        let is_named = |i: &&CompiledInstruction| !i.op_name.is_empty();
        taker.map(instruction).filter(is_named).or_else(|| operand().map(instruction).filter(is_named))
    }

    fn purpose(&self, collective: &Collective, piece: &CollectivePiece, op_name: &str) -> (Purpose, Cause) {
        let arguments = &self.subject.arguments;
        let name = |argument: usize| arguments[argument].name.clone();
        let gradient = self.gradients.get(&(collective.place, piece.operand));
        if let Some(&GradientOf::Output(output)) = gradient
            && matches!(collective.kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter)
        {
            return (Purpose::Gradient, Cause::Output(self.subject.outputs[output].name.clone()));
        }
        if let Some(&GradientOf::Parameter(parameter)) = gradient {
            // What is gathered of a parameter that is kept whole is its new value.
            let is_new_value =
                collective.kind == CollectiveKind::AllGather && !self.subject.is_split(&arguments[parameter]);
            return match is_new_value {
                true => (Purpose::Weight, Cause::Output(name(parameter))),
                false => (Purpose::Gradient, Cause::GradientOf(name(parameter))),
            };
        }
        if let Some(&GradientOf::Summary(output)) = gradient {
            return (Purpose::Scalar, Cause::Output(self.subject.outputs[output].name.clone()));
        }
        let operand = self.flow.operand(collective.place, piece.operand);
        if let Some(argument) =
            operand.and_then(|value| self.flow.argument(value)).filter(|&a| a < arguments.len())
        {
            let purpose = match arguments[argument].kind {
                ArgumentKind::Parameter => Purpose::Weight,
                ArgumentKind::State { .. } => Purpose::State,
                ArgumentKind::Batch => Purpose::Batch,
                ArgumentKind::Other => Purpose::Other,
            };
            return (purpose, Cause::Argument(name(argument)));
        }
        if let Some(parameter) = self.parameter_named(collective, piece, op_name) {
            return (Purpose::Gradient, Cause::GradientOf(name(parameter)));
        }
        let cause = if op_name.is_empty() { Cause::Unknown } else { Cause::Op(op_name.to_owned()) };
        let purpose = if self.is_few(piece) {
            Purpose::Scalar
        } else if self.is_of_batch(collective.place) {
            Purpose::Activation
        } else {
            Purpose::Other
        };
        (purpose, cause)
    }

    /// The parameter of the module that the backward pass is at, if what is summed has its size.
    fn parameter_named(
        &self,
        collective: &Collective,
        piece: &CollectivePiece,
        op_name: &str,
    ) -> Option<usize> {
        use CollectiveKind::{AllReduce, ReduceScatter};
        let module = op_name.strip_suffix("/backward")?;
        let elements = match collective.kind {
            AllReduce => piece.array.elements(),
            ReduceScatter => piece.array.elements().saturating_mul(collective.group_size()? as u64),
            _ => return None,
        };
        let mut fitting = self.subject.parameters().filter(|(_, parameter)| {
            let rest = parameter.name.strip_prefix(module).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| !rest.contains('.'))
                && parameter.ty.shape.element_count() as u64 == elements
        });
        let (parameter, _) = fitting.next()?;
        fitting.next().is_none().then_some(parameter)
    }
}

fn takers(program: &CompiledProgram) -> HashMap<((usize, usize), usize), usize> {
    let mut takers = HashMap::new();
    for computation in program.collectives.iter().map(|c| c.place.0).collect::<BTreeSet<_>>() {
        for (at, instruction) in program.computations[computation].instructions.iter().enumerate() {
            if let ("get-tuple-element", &[tuple]) = (instruction.opcode.as_str(), &instruction.operands[..])
            {
                takers.entry(((computation, tuple), instruction.index)).or_insert(at);
            }
        }
    }
    takers
}

/// The name without those of calls, which compilers put in front of what they take out of a function: `call.1/dot`.
pub(super) fn without_calls(op_name: &str) -> &str {
    let mut name = op_name;
    while let Some((first, rest)) = name.split_once('/')
        && let Some(number) = first.strip_prefix("call")
        && (number.is_empty()
            || number.strip_prefix('.').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())))
    {
        name = rest;
    }
    name
}

/// The pass that an op belongs to, by the name that the compiler carried along: in the words of this project's own
/// programs, or in JAX's.
fn pass(op_name: &str, purpose: Purpose, cause: &Cause, subject: &Subject) -> Option<Pass> {
    let is_of_output = matches!(cause, Cause::Output(_));
    if purpose == Purpose::State || (matches!(purpose, Purpose::Weight | Purpose::Scalar) && is_of_output) {
        return Some(Pass::Update);
    }
    if op_name.ends_with("/recompute") || op_name.contains("rematted_computation") {
        return Some(Pass::Recompute);
    }
    if op_name.ends_with("/backward") || op_name.contains("transpose(") || purpose == Purpose::Gradient {
        return Some(Pass::Backward);
    }
    let is_of_model =
        subject.unit_of(op_name).is_some() || subject.parameters().any(|(_, p)| is_in(&p.name, op_name));
    (op_name.contains("jvp(") || is_of_model).then_some(Pass::Forward)
}
