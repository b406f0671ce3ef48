//! Where the arrays of a compiled program come from: back from an instruction, through whatever only moves or cuts
//! an array, to an argument of the program or to the instruction that computed it.

use std::collections::BTreeSet;

use shardwright_hlo::compiled::{CompiledInstruction, CompiledProgram};

/// How many values are looked at to follow one array to its argument. A path that is longer goes in and out of
/// computations that are called again and again.
const MAX_PATH: usize = 512;

/// How many values are looked at for all gradients of a program.
const MAX_VISITS: usize = 1 << 22;

/// A value in a program: the index of a computation, that of an instruction in it and, of one that gives several
/// results, which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Value {
    pub(super) place: (usize, usize),
    pub(super) part: Option<usize>,
}

/// What a value is made of.
enum Source {
    /// Other values, of which it holds the numbers, moved or in part; or, elementwise, numbers made of theirs.
    Values(Vec<Value>),
    /// An argument of the program.
    Argument(usize),
    /// Something that is computed here.
    Here,
}

/// How far a value is followed.
#[derive(Clone, Copy, PartialEq)]
enum Follow {
    /// While it is one array, moved, cut, gathered or in another dtype.
    Array,
    /// Through elementwise arithmetic and exchanges too.
    Arithmetic,
}

/// What ops do with the numbers of their operands.
enum Effect {
    /// They move or cut operand 0, or give it another dtype.
    Moves,
    /// Each number that they give is made of those at the same place.
    Elementwise,
    /// Devices exchange the operands.
    Exchanges,
    /// Something else.
    Computes,
}

impl From<(usize, usize)> for Value {
    fn from(place: (usize, usize)) -> Value {
        Value { place, part: None }
    }
}

fn effect(opcode: &str) -> Effect {
    match opcode {
        "bitcast" | "bitcast-convert" | "copy" | "convert" | "reshape" | "transpose" | "slice"
        | "dynamic-slice" | "pad" | "reverse" | "copy-start" | "copy-done" | "reduce-precision"
        | "domain" => Effect::Moves,
        "abs"
        | "add"
        | "and"
        | "atan2"
        | "cbrt"
        | "ceil"
        | "clamp"
        | "concatenate"
        | "cosine"
        | "divide"
        | "dynamic-update-slice"
        | "erf"
        | "exponential"
        | "exponential-minus-one"
        | "floor"
        | "log"
        | "log-plus-one"
        | "logistic"
        | "maximum"
        | "minimum"
        | "multiply"
        | "negate"
        | "not"
        | "or"
        | "power"
        | "remainder"
        | "round-nearest-afz"
        | "round-nearest-even"
        | "rsqrt"
        | "select"
        | "sign"
        | "sine"
        | "sqrt"
        | "stochastic-convert"
        | "subtract"
        | "tan"
        | "tanh"
        | "xor" => Effect::Elementwise,
        "all-gather"
        | "all-reduce"
        | "reduce-scatter"
        | "all-to-all"
        | "collective-permute"
        | "collective-broadcast"
        | "all-gather-start"
        | "all-reduce-start"
        | "collective-permute-start" => Effect::Exchanges,
        _ => Effect::Computes,
    }
}

/// The arrays of a program, and what is known of who hands them on to whom.
pub(super) struct Flow<'a> {
    program: &'a CompiledProgram,
}

impl<'a> Flow<'a> {
    pub(super) fn new(program: &'a CompiledProgram) -> Flow<'a> {
        Flow { program }
    }

    fn instruction(&self, value: Value) -> &'a CompiledInstruction {
        self.program.instruction(value.place)
    }

    /// The operand of an instruction as a value.
    pub(super) fn operand(&self, place: (usize, usize), index: usize) -> Option<Value> {
        let &operand = self.program.instruction(place).operands.get(index)?;
        Some((place.0, operand).into())
    }

    /// The argument of which a value holds all numbers or some, moved or in another dtype.
    pub(super) fn argument(&self, value: Value) -> Option<usize> {
        let mut value = value;
        for _ in 0..MAX_PATH {
            match self.source(value, Follow::Array) {
                Source::Argument(argument) => return Some(argument),
                Source::Values(values) => value = *values.first()?,
                Source::Here => return None,
            }
        }
        None
    }

    /// All values from which an output is made by elementwise arithmetic and exchanges, those that are computed
    /// otherwise included, arguments not. `visits` is what is left to look at.
    pub(super) fn made_of(&self, output: usize, visits: &mut usize) -> BTreeSet<Value> {
        let entry = self.program.entry;
        let root = self.program.computations[entry].root;
        let part = self.program.computations[entry].root().shape.array().is_none().then_some(output);
        let mut open = vec![Value { place: (entry, root), part }];
        let mut found = BTreeSet::new();
        while let Some(value) = open.pop() {
            if *visits == 0 {
                break;
            }
            *visits -= 1;
            match self.source(value, Follow::Arithmetic) {
                Source::Argument(_) => continue,
                Source::Values(values) => {
                    if found.insert(value) {
                        open.extend(values);
                    }
                }
                Source::Here => {
                    found.insert(value);
                }
            }
        }
        found
    }

    /// What is left to look at in a program, at first.
    pub(super) fn visits() -> usize {
        MAX_VISITS
    }

    /// Whether devices exchange the value.
    pub(super) fn is_exchange(&self, value: Value) -> bool {
        matches!(effect(&self.instruction(value).opcode), Effect::Exchanges)
    }

    fn source(&self, value: Value, follow: Follow) -> Source {
        let instruction = self.instruction(value);
        let computation = value.place.0;
        let of_same_parts = |operands: &[usize]| {
            let same = |&operand: &usize| Value { place: (computation, operand), part: value.part };
            Source::Values(operands.iter().map(same).collect())
        };
        let operand = |index: usize| match instruction.operands.get(index) {
            Some(&operand) => Source::Values(vec![(computation, operand).into()]),
            None => Source::Here,
        };
        match instruction.opcode.as_str() {
            "parameter" => self.passed(value, instruction.index),
            "get-tuple-element" => match (value.part, instruction.operands.first()) {
                (None, Some(&tuple)) => {
                    let part = Some(instruction.index);
                    Source::Values(vec![Value { place: (computation, tuple), part }])
                }
                _ => Source::Here,
            },
            "tuple" => value.part.map_or(Source::Here, operand),
            "fusion" | "call" | "async-start" | "conditional" => Source::Values(
                instruction.called.iter().map(|&callee| self.root(callee, value.part)).collect(),
            ),
            "while" => self.carried(value, instruction),
            "async-done"
            | "async-update"
            | "all-gather-done"
            | "all-reduce-done"
            | "collective-permute-done"
            | "optimization-barrier" => of_same_parts(&instruction.operands),
            "custom-call" => match instruction.target.as_str() {
                "ConcatBitcast" | "AsyncCollectiveStart" => operand(0),
                // It waits for a collective that was started, which is named again before it.
                "AsyncCollectiveDone" => operand(2),
                _ => Source::Here,
            },
            // Zeros that an array is written into are that array.
            "dynamic-update-slice" if follow == Follow::Array => {
                let is_filler =
                    instruction.operands.first().is_some_and(|&o| self.is_filler((computation, o).into()));
                operand(usize::from(is_filler))
            }
            opcode => match (effect(opcode), follow) {
                (Effect::Moves, _) => operand(0),
                (Effect::Exchanges, Follow::Array) if opcode.starts_with("all-reduce") => Source::Here,
                (Effect::Exchanges, Follow::Array) if opcode.starts_with("reduce-scatter") => Source::Here,
                (Effect::Exchanges, _) => operand(value.part.unwrap_or(0)),
                (Effect::Elementwise, Follow::Arithmetic) => of_same_parts(&instruction.operands),
                _ => Source::Here,
            },
        }
    }

    fn root(&self, computation: usize, part: Option<usize>) -> Value {
        Value { place: (computation, self.program.computations[computation].root), part }
    }

    /// What is passed to a parameter of a computation, if only one instruction calls that.
    fn passed(&self, value: Value, index: usize) -> Source {
        let computation = value.place.0;
        if computation == self.program.entry {
            return if value.part.is_none() { Source::Argument(index) } else { Source::Here };
        }
        match passed(self.program, computation, index) {
            Some(place) => Source::Values(vec![Value { place, part: value.part }]),
            None => Source::Here,
        }
    }

    /// What a part of the tuple that a loop carries is: what the body makes of it, and what it begins as.
    fn carried(&self, value: Value, instruction: &CompiledInstruction) -> Source {
        match (value.part, &instruction.called[..], &instruction.operands[..]) {
            (Some(_), &[body, _], &[start]) => {
                let start = Value { place: (value.place.0, start), part: value.part };
                Source::Values(vec![self.root(body, value.part), start])
            }
            _ => Source::Here,
        }
    }

    /// Whether a value is the same number all over, or memory that nothing was written to.
    fn is_filler(&self, value: Value) -> bool {
        let mut value = value;
        for _ in 0..MAX_PATH {
            let instruction = self.instruction(value);
            match instruction.opcode.as_str() {
                "broadcast" | "constant" => return true,
                "custom-call" if instruction.target == "AllocateBuffer" => return true,
                "dynamic-update-slice" => return false,
                _ => match self.source(value, Follow::Array) {
                    Source::Values(values) if !values.is_empty() => value = values[0],
                    _ => return false,
                },
            }
        }
        false
    }
}

/// What is passed to a parameter of a computation, if only one instruction calls that.
pub(super) fn passed(program: &CompiledProgram, computation: usize, index: usize) -> Option<(usize, usize)> {
    let [(caller, at)] = program.computations[computation].callers[..] else { return None };
    let instruction = program.instruction((caller, at));
    let operand = match instruction.opcode.as_str() {
        "while" => 0,
        // The first operand says which branch it is.
        "conditional" => 1 + instruction.called.iter().position(|&branch| branch == computation)?,
        _ => index,
    };
    instruction.operands.get(operand).map(|&operand| (caller, operand))
}
