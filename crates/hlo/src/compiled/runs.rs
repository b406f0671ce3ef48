//! How often the computations of a program run, and in which order.

use super::{CompiledError, CompiledInstruction, CompiledProgram};

/// How often something runs in one run of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// How often, loops whose number of turns is not known counted as one turn; at most `u64::MAX`.
    pub count: u64,
    /// Whether it is in a loop whose number of turns is not known.
    pub is_unknown: bool,
    /// Whether it is in a branch, so that `count` is the most there can be.
    pub is_conditional: bool,
}

impl Runs {
    /// Once, for certain.
    pub const ONCE: Runs = Runs { count: 1, is_unknown: false, is_conditional: false };

    fn and(self, other: Runs) -> Runs {
        Runs {
            count: self.count.saturating_add(other.count),
            is_unknown: self.is_unknown || other.is_unknown,
            is_conditional: self.is_conditional || other.is_conditional,
        }
    }
}

/// All computations, each after those that call it.
///
/// # Errors
/// When one calls itself, directly or through others.
pub(super) fn callers_first(program: &CompiledProgram) -> Result<Vec<usize>, CompiledError> {
    let computations = &program.computations;
    let called =
        |index: usize| computations[index].instructions.iter().flat_map(|i| i.called.iter().copied());
    let mut waiting = vec![0usize; computations.len()];
    (0..computations.len()).flat_map(called).for_each(|callee| waiting[callee] += 1);
    let mut order: Vec<usize> = (0..computations.len()).filter(|&index| waiting[index] == 0).collect();
    let mut next = 0;
    while let Some(&index) = order.get(next) {
        next += 1;
        for callee in called(index) {
            waiting[callee] -= 1;
            if waiting[callee] == 0 {
                order.push(callee);
            }
        }
    }
    match waiting.iter().position(|&count| count > 0) {
        Some(index) => {
            Err(CompiledError::new(format!("computation {} calls itself", computations[index].name)))
        }
        None => Ok(order),
    }
}

/// Which computations inside an instruction it runs as a whole, and how often in one run of its own. Others are
/// applied to elements, and nothing in them is an exchange or has memory of its own.
fn invoked(instruction: &CompiledInstruction) -> Vec<(usize, Runs)> {
    let each = |runs| instruction.called.iter().map(|&callee| (callee, runs)).collect();
    match instruction.opcode.as_str() {
        "call" | "fusion" | "async-start" | "custom-call" => each(Runs::ONCE),
        "conditional" => each(Runs { is_conditional: true, ..Runs::ONCE }),
        "while" => {
            let trips = Runs { is_unknown: instruction.trips.is_none(), ..Runs::ONCE };
            let turns = instruction.trips.unwrap_or(1);
            let counts = [turns, turns.saturating_add(1)];
            let parts = instruction.called.iter().zip(counts);
            parts.map(|(&callee, count)| (callee, Runs { count, ..trips })).collect()
        }
        _ => Vec::new(),
    }
}

/// Fills in how often each computation runs, and who runs it.
pub(super) fn count(program: &mut CompiledProgram, order: &[usize]) {
    program.computations[program.entry].runs = Runs::ONCE;
    for &caller in order {
        let runs = program.computations[caller].runs;
        if runs.count == 0 {
            continue;
        }
        for index in 0..program.computations[caller].instructions.len() {
            let instruction = &program.computations[caller].instructions[index];
            let is_fusion = instruction.opcode == "fusion";
            for (callee, times) in invoked(instruction) {
                let callee = &mut program.computations[callee];
                callee.callers.push((caller, index));
                callee.is_fused |= is_fusion;
                callee.runs = callee.runs.and(Runs {
                    count: runs.count.saturating_mul(times.count),
                    is_unknown: runs.is_unknown || times.is_unknown,
                    is_conditional: runs.is_conditional || times.is_conditional,
                });
            }
        }
    }
}

/// Numbers the instructions in the order in which they run first. What is inside a computation comes after the
/// instruction that calls it; what is inside a fusion has the number of the fusion.
pub(super) fn number_steps(program: &mut CompiledProgram, order: &[usize]) {
    let mut is_numbered = vec![false; program.computations.len()];
    let mut steps = 0;
    let mut open = vec![(program.entry, 0)];
    is_numbered[program.entry] = true;
    while let Some((computation, next)) = open.last_mut() {
        let Some(instruction) = program.computations[*computation].instructions.get_mut(*next) else {
            open.pop();
            continue;
        };
        *next += 1;
        instruction.step = steps;
        steps += 1;
        if instruction.opcode == "fusion" {
            continue;
        }
        // The last one opened is the first to run: the condition of a loop before its body, a branch before the next.
        let mut callees: Vec<usize> = invoked(instruction).into_iter().map(|(callee, _)| callee).collect();
        if instruction.opcode != "while" {
            callees.reverse();
        }
        for callee in callees {
            if !std::mem::replace(&mut is_numbered[callee], true) {
                open.push((callee, 0));
            }
        }
    }
    for &caller in order {
        for index in 0..program.computations[caller].instructions.len() {
            let instruction = &program.computations[caller].instructions[index];
            if instruction.opcode != "fusion" || program.computations[caller].runs.count == 0 {
                continue;
            }
            let step = instruction.step;
            for callee in instruction.called.clone() {
                if !std::mem::replace(&mut is_numbered[callee], true) {
                    program.computations[callee].instructions.iter_mut().for_each(|inner| inner.step = step);
                }
            }
        }
    }
    program.steps = steps;
}
