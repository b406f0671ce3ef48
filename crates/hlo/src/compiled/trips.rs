//! How often the bodies of loops run.
//!
//! Some compilers write the number beside the loop. Otherwise it follows from the loop itself when that counts: a
//! part of the tuple that it carries begins at a known number, grows by a known number each turn, and is compared
//! with a known number.

use std::cell::Cell;

use super::{CompiledInstruction, CompiledProgram};

/// How deep a number is followed before it is given up: copies of copies, sums, insides of fusions.
const MAX_DEPTH: usize = 64;

/// How many instructions are looked at for one loop. A sum of sums has many paths.
const MAX_VISITS: usize = 4096;

/// The number of turns that a compiler wrote beside a loop: `"known_trip_count":{"n":"4"}`.
pub(super) fn stated(backend_config: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(backend_config).ok()?;
    let (_, rest) = text.split_once("\"known_trip_count\"")?;
    let (inside, _) = rest.split_once('}')?;
    let (_, number) = inside.split_once("\"n\"")?;
    number.trim_matches(|c: char| c.is_whitespace() || c == ':' || c == '"').parse().ok()
}

/// Fills in the number of turns of loops where the compiler did not write it.
pub(super) fn count(program: &mut CompiledProgram) {
    for computation in 0..program.computations.len() {
        for index in 0..program.computations[computation].instructions.len() {
            let instruction = &program.computations[computation].instructions[index];
            if instruction.opcode == "while" && instruction.trips.is_none() {
                let trips = Loop::new(program, computation, instruction).and_then(|l| l.trips());
                program.computations[computation].instructions[index].trips = trips;
            }
        }
    }
}

/// A number in a loop.
#[derive(Clone, Copy, PartialEq)]
enum Number {
    /// Always the same.
    Constant(i64),
    /// A part of the tuple that the loop carries, as it is at the beginning of a turn, and a number added to it.
    Carried { part: usize, plus: i64 },
}

/// Where an instruction is looked at: in a computation, whose parameters are instructions of another if it is the
/// inside of a fusion.
#[derive(Clone, Copy)]
struct Place<'a> {
    computation: usize,
    caller: Option<(&'a Place<'a>, &'a [usize])>,
}

struct Loop<'a> {
    program: &'a CompiledProgram,
    outside: Place<'a>,
    /// The instructions, outside, that the tuple begins as.
    start: &'a [usize],
    body: Place<'a>,
    condition: Place<'a>,
    visits: Cell<usize>,
}

impl<'a> Loop<'a> {
    fn new(
        program: &'a CompiledProgram,
        outside: usize,
        instruction: &CompiledInstruction,
    ) -> Option<Loop<'a>> {
        let [body, condition] = instruction.called[..] else { return None };
        let tuple = &program.computations[outside].instructions[*instruction.operands.first()?];
        let place = |computation| Place { computation, caller: None };
        (tuple.opcode == "tuple").then(|| Loop {
            program,
            outside: place(outside),
            start: &tuple.operands,
            body: place(body),
            condition: place(condition),
            visits: Cell::new(0),
        })
    }

    fn trips(&self) -> Option<u64> {
        let (left, right, comparison) = self.compared(self.condition, self.root(self.condition), 0)?;
        let (part, plus, limit, comparison) = match (left, right) {
            (Number::Carried { part, plus }, Number::Constant(limit)) => (part, plus, limit, comparison),
            (Number::Constant(limit), Number::Carried { part, plus }) => {
                (part, plus, limit, mirrored(comparison)?)
            }
            _ => return None,
        };
        let Number::Constant(first) = self.number(self.outside, *self.start.get(part)?, false, 0)? else {
            return None;
        };
        let next = *self.result(part)?;
        let Number::Carried { part: same, plus: step } = self.number(self.body, next, true, 0)? else {
            return None;
        };
        let distance = i128::from(limit) - i128::from(first) - i128::from(plus);
        (same == part).then(|| turns(distance, step.into(), comparison))?
    }

    fn root(&self, place: Place<'_>) -> usize {
        self.program.computations[place.computation].root
    }

    fn instruction(&self, place: Place<'_>, index: usize) -> &'a CompiledInstruction {
        &self.program.computations[place.computation].instructions[index]
    }

    /// The instruction in the body that a part of the tuple is after a turn.
    fn result(&self, part: usize) -> Option<&'a usize> {
        let root = self.instruction(self.body, self.root(self.body));
        if root.opcode == "tuple" { root.operands.get(part) } else { None }
    }

    /// What the condition compares, and how.
    fn compared(&self, place: Place<'_>, index: usize, depth: usize) -> Option<(Number, Number, &'a str)> {
        let instruction = self.instruction(place, index);
        match (instruction.opcode.as_str(), &instruction.operands[..]) {
            ("compare", &[left, right]) => {
                let number = |operand| self.number(place, operand, true, depth);
                Some((number(left)?, number(right)?, instruction.comparison.as_str()))
            }
            ("fusion", operands) if depth < MAX_DEPTH => {
                let inside =
                    Place { computation: *instruction.called.first()?, caller: Some((&place, operands)) };
                self.compared(inside, self.root(inside), depth + 1)
            }
            _ => None,
        }
    }

    /// What an instruction is, if that is a whole number that can be followed. `in_loop` says whether parameter 0 of
    /// the place is the tuple that the loop carries.
    fn number(&self, place: Place<'_>, index: usize, in_loop: bool, depth: usize) -> Option<Number> {
        self.visits.set(self.visits.get() + 1);
        if depth == MAX_DEPTH || self.visits.get() > MAX_VISITS {
            return None;
        }
        let instruction = self.instruction(place, index);
        let operand = |n: usize| self.number(place, *instruction.operands.get(n)?, in_loop, depth + 1);
        match instruction.opcode.as_str() {
            "constant" => instruction.constant.map(Number::Constant),
            "copy" | "convert" | "bitcast" | "reshape" | "copy-start" | "copy-done" => operand(0),
            "add" => add(operand(0)?, operand(1)?, 1),
            "subtract" => add(operand(0)?, operand(1)?, -1),
            "parameter" => {
                let (caller, operands) = place.caller?;
                self.number(*caller, *operands.get(instruction.index)?, in_loop, depth + 1)
            }
            "fusion" => {
                let caller = Some((&place, &instruction.operands[..]));
                let inside = Place { computation: *instruction.called.first()?, caller };
                self.number(inside, self.root(inside), in_loop, depth + 1)
            }
            "get-tuple-element" if in_loop && self.is_carried(place, *instruction.operands.first()?) => {
                let part = instruction.index;
                if self.stays(part) {
                    return self.number(self.outside, *self.start.get(part)?, false, depth + 1);
                }
                Some(Number::Carried { part, plus: 0 })
            }
            _ => None,
        }
    }

    /// Whether an instruction is the tuple that the loop carries.
    fn is_carried(&self, place: Place<'_>, index: usize) -> bool {
        let instruction = self.instruction(place, index);
        instruction.opcode == "parameter" && place.caller.is_none()
    }

    /// Whether a part of the tuple is the same after a turn.
    fn stays(&self, part: usize) -> bool {
        let Some(&index) = self.result(part) else { return false };
        let mut instruction = self.instruction(self.body, index);
        for _ in 0..MAX_DEPTH {
            let Some(&operand) = instruction.operands.first() else { return false };
            match instruction.opcode.as_str() {
                "copy" => instruction = self.instruction(self.body, operand),
                "get-tuple-element" => {
                    return instruction.index == part && self.is_carried(self.body, operand);
                }
                _ => return false,
            }
        }
        false
    }
}

fn add(left: Number, right: Number, sign: i64) -> Option<Number> {
    match (left, right) {
        (Number::Constant(a), Number::Constant(b)) => {
            a.checked_add(b.checked_mul(sign)?).map(Number::Constant)
        }
        (Number::Carried { part, plus }, Number::Constant(b)) => {
            Some(Number::Carried { part, plus: plus.checked_add(b.checked_mul(sign)?)? })
        }
        (Number::Constant(a), Number::Carried { part, plus }) if sign == 1 => {
            Some(Number::Carried { part, plus: plus.checked_add(a)? })
        }
        _ => None,
    }
}

/// The comparison with its sides exchanged.
fn mirrored(comparison: &str) -> Option<&'static str> {
    Some(match comparison {
        "LT" => "GT",
        "GT" => "LT",
        "LE" => "GE",
        "GE" => "LE",
        "NE" => "NE",
        _ => return None,
    })
}

/// How often a number that is `distance` below its limit, and grows by `step`, compares as true.
fn turns(distance: i128, step: i128, comparison: &str) -> Option<u64> {
    let (distance, step) = match comparison {
        "LT" | "LE" => (distance, step),
        "GT" | "GE" => (-distance, -step),
        "NE" if step < 0 => (-distance, -step),
        "NE" => (distance, step),
        _ => return None,
    };
    let includes_limit = matches!(comparison, "LE" | "GE");
    let first_outside = if includes_limit { distance + 1 } else { distance };
    let misses_limit = comparison == "NE" && (distance < 0 || step == 0 || distance % step != 0);
    if first_outside <= 0 && !misses_limit {
        return Some(0);
    }
    if step <= 0 || misses_limit {
        return None;
    }
    u64::try_from((first_outside + step - 1) / step).ok()
}
