//! Who calls whom.

use crate::{Instruction, Module, Op};

/// How far the search has come with a function.
#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

/// A function that comes to call itself, if there is one, by index.
pub(super) fn recursive(module: &Module) -> Option<usize> {
    let calls: Vec<Vec<usize>> = module
        .functions
        .iter()
        .map(|function| {
            let mut called = Vec::new();
            collect(&function.body.instructions, &mut called);
            called.retain(|&id| id < module.functions.len());
            called
        })
        .collect();
    let mut states = vec![State::New; calls.len()];
    // Depth first, with a stack of its own: functions may call each other in a long row.
    for root in 0..calls.len() {
        let mut open = if states[root] == State::New { vec![(root, 0)] } else { Vec::new() };
        while let Some((function, next)) = open.last_mut() {
            states[*function] = State::Open;
            let Some(&called) = calls[*function].get(*next) else {
                states[*function] = State::Done;
                open.pop();
                continue;
            };
            *next += 1;
            match states[called] {
                State::Open => return Some(called),
                State::New => open.push((called, 0)),
                State::Done => {}
            }
        }
    }
    None
}

/// Appends the functions that instructions call, those inside other instructions too.
fn collect(instructions: &[Instruction], called: &mut Vec<usize>) {
    for instruction in instructions {
        if let Op::Call(function) = instruction.op {
            called.push(function.0 as usize);
        }
        instruction.regions.iter().for_each(|region| collect(&region.instructions, called));
    }
}
