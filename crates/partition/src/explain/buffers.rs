//! The buffers of a compiled program: how large, of which class, and from which step to which they are in use.
//!
//! Each result of an instruction is a buffer from the step that computes it to the last step that uses it. Some have
//! none of their own: parts and tuples, bitcasts, what a loop carries, what is written into an array in place, an
//! output in the memory of a donated argument, and an elementwise result of the size of an operand that ends there.

use std::collections::{BTreeSet, HashMap};

use shardwright_hlo::ArgumentKind;
use shardwright_hlo::compiled::{CompiledInstruction, CompiledProgram, CompiledShape};

use super::MemoryClass;
use super::cause::Causes;
use super::flow;

/// Memory in use from one step to another, both included.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) bytes: u64,
    pub(super) class: MemoryClass,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// For each instruction, the buffers of its arrays, in order; none for those in memory of others.
type Slots = Vec<Vec<Option<usize>>>;

/// The buffers of all computations that have memory of their own.
pub(super) fn buffers(program: &CompiledProgram, causes: &Causes<'_>) -> Vec<Buffer> {
    let mut buffers = Buffers::new(program, causes);
    buffers.place_all();
    buffers.mark_outputs();
    buffers.buffers
}

struct Buffers<'a> {
    program: &'a CompiledProgram,
    causes: &'a Causes<'a>,
    buffers: Vec<Buffer>,
    slots: Vec<Slots>,
    /// Where the parts of tuples begin among their arrays, of those that parts were taken of.
    starts: HashMap<(usize, usize), Vec<usize>>,
}

impl<'a> Buffers<'a> {
    fn new(program: &'a CompiledProgram, causes: &'a Causes<'a>) -> Buffers<'a> {
        Buffers {
            program,
            causes,
            buffers: Vec::new(),
            slots: vec![Vec::new(); program.computations.len()],
            starts: HashMap::new(),
        }
    }

    /// Goes through the computations that have memory of their own, callers first.
    fn place_all(&mut self) {
        let computations = &self.program.computations;
        let mut order: Vec<usize> = (0..computations.len())
            .filter(|&c| computations[c].runs.count > 0 && !computations[c].is_fused)
            .filter(|&c| !computations[c].instructions.is_empty())
            .collect();
        order.sort_by_key(|&c| computations[c].instructions[0].step);
        for computation in order {
            self.place(computation);
        }
    }

    fn place(&mut self, computation: usize) {
        let instructions = &self.program.computations[computation].instructions;
        let mut slots: Slots = Vec::with_capacity(instructions.len());
        for (index, instruction) in instructions.iter().enumerate() {
            let own = self.slots_of(computation, index, instruction, &slots);
            slots.push(own);
        }
        let ends = ends(self.program, computation);
        for (index, instruction) in instructions.iter().enumerate() {
            if is_alias(&instruction.opcode) && index != self.program.computations[computation].root {
                continue;
            }
            let is_root = index == self.program.computations[computation].root;
            let last = if is_root { ends[instructions.len() - 1] } else { ends[index] };
            let used = instruction.operands.iter().flat_map(|&operand| &slots[operand]);
            for &buffer in used.chain(if is_root { &slots[index][..] } else { &[] }).flatten() {
                self.buffers[buffer].last = self.buffers[buffer].last.max(last);
            }
        }
        self.reuse(computation, &slots, &ends);
        self.slots[computation] = slots;
    }

    /// The buffers of an instruction's arrays: those of its operands, or new ones.
    fn slots_of(
        &mut self,
        computation: usize,
        index: usize,
        instruction: &CompiledInstruction,
        slots: &Slots,
    ) -> Vec<Option<usize>> {
        let count = instruction.shape.arrays().len();
        let operand = |n: usize| instruction.operands.get(n).map(|&operand| &slots[operand]);
        let fitted = |mut slots: Vec<Option<usize>>| {
            slots.resize(count, None);
            slots
        };
        match instruction.opcode.as_str() {
            "parameter" => fitted(self.passed(computation, instruction.index)),
            "constant" | "partition-id" | "replica-id" | "after-all" => vec![None; count],
            "tuple" => {
                let parts = instruction.operands.iter().flat_map(|&operand| &slots[operand]);
                fitted(parts.take(count).copied().collect())
            }
            "get-tuple-element" => match instruction.operands.first() {
                Some(&tuple) => {
                    let start = self.start((computation, tuple), instruction.index);
                    fitted(slots[tuple].iter().skip(start).take(count).copied().collect())
                }
                None => vec![None; count],
            },
            "bitcast" | "while" | "optimization-barrier" => fitted(operand(0).cloned().unwrap_or_default()),
            // Of what is started: the operands, the result and contexts.
            "async-done" | "all-gather-done" | "collective-permute-done" => {
                fitted(operand(0).map(|slots| slots.iter().skip(1).copied().collect()).unwrap_or_default())
            }
            "all-reduce-done" | "copy-done" => fitted(operand(0).cloned().unwrap_or_default()),
            opcode => {
                let of_operand = usize::from(matches!(
                    opcode,
                    "async-start" | "all-gather-start" | "collective-permute-start"
                ));
                if let Some(slots) = self.in_place(instruction).and_then(operand) {
                    return fitted(slots.clone());
                }
                let class = self.class((computation, index));
                let step = instruction.step;
                let arrays = instruction.shape.arrays().into_iter().enumerate();
                arrays
                    .map(|(at, array)| {
                        let is_its_own = at >= of_operand && array.memory_space == 0 && array.bytes() > 0;
                        is_its_own.then(|| {
                            self.buffers.push(Buffer {
                                bytes: array.bytes(),
                                class,
                                first: step,
                                last: step,
                            });
                            self.buffers.len() - 1
                        })
                    })
                    .collect()
            }
        }
    }

    /// Where the arrays of a part of a tuple begin among all of its arrays.
    fn start(&mut self, tuple: (usize, usize), part: usize) -> usize {
        let shape = &self.program.instruction(tuple).shape;
        let starts = self.starts.entry(tuple).or_insert_with(|| {
            let CompiledShape::Tuple(parts) = shape else { return Vec::new() };
            let mut next = 0;
            let start = |part: &CompiledShape| {
                let start = next;
                next += part.arrays().len();
                start
            };
            parts.iter().map(start).collect()
        });
        starts.get(part).copied().unwrap_or(usize::MAX)
    }

    /// The buffers of what is passed to a parameter of a computation that one instruction calls.
    fn passed(&self, computation: usize, index: usize) -> Vec<Option<usize>> {
        let passed = flow::passed(self.program, computation, index);
        passed.and_then(|(caller, operand)| self.slots[caller].get(operand)).cloned().unwrap_or_default()
    }

    /// The operand into which an instruction writes its result.
    fn in_place(&self, instruction: &CompiledInstruction) -> Option<usize> {
        match instruction.opcode.as_str() {
            "dynamic-update-slice" => Some(0),
            "fusion" => {
                let fused = &self.program.computations[*instruction.called.first()?];
                let mut inner = fused.root();
                while inner.opcode == "bitcast" {
                    inner = &fused.instructions[*inner.operands.first()?];
                }
                if inner.opcode != "dynamic-update-slice" {
                    return None;
                }
                let mut written = &fused.instructions[*inner.operands.first()?];
                while matches!(written.opcode.as_str(), "bitcast" | "copy") {
                    written = &fused.instructions[*written.operands.first()?];
                }
                (written.opcode == "parameter").then_some(written.index)
            }
            _ => None,
        }
    }

    /// Lets results of elementwise work take the place of operands of their size that end there.
    fn reuse(&mut self, computation: usize, slots: &Slots, ends: &[u64]) {
        for (index, instruction) in self.program.computations[computation].instructions.iter().enumerate() {
            if instruction.opcode != "fusion" && instruction.shape.array().is_none()
                || is_alias(&instruction.opcode)
            {
                continue;
            }
            if matches!(instruction.opcode.as_str(), "dot" | "convolution" | "custom-call" | "all-gather") {
                continue;
            }
            for &own in slots[index].iter().flatten() {
                let (bytes, first) = (self.buffers[own].bytes, self.buffers[own].first);
                let ending = instruction.operands.iter().flat_map(|&operand| &slots[operand]).flatten();
                let ending = ending.copied().find(|&operand| {
                    let buffer = &self.buffers[operand];
                    operand != own
                        && buffer.bytes == bytes
                        && buffer.last == ends[index]
                        && buffer.first < first
                });
                if let Some(operand) = ending {
                    self.buffers[operand].last = first - 1;
                }
            }
        }
    }

    fn class(&self, place: (usize, usize)) -> MemoryClass {
        if let Some(ArgumentKind::Parameter) = self.causes.argument_kind(place) {
            return MemoryClass::GatheredWeights;
        }
        if self.causes.of_gradients.contains(&place) {
            return MemoryClass::Gradients;
        }
        if self.causes.is_of_batch(place) { MemoryClass::Activations } else { MemoryClass::Other }
    }

    /// Gives outputs their class, and no memory where they take that of arguments.
    fn mark_outputs(&mut self) {
        let entry = self.program.entry;
        let computation = &self.program.computations[entry];
        let root = computation.root();
        let parts = match &root.shape {
            CompiledShape::Tuple(parts) => parts.len(),
            CompiledShape::Array(_) => 1,
        };
        let aliased: BTreeSet<usize> = self.program.aliases.iter().map(|alias| alias.output).collect();
        let mut at = 0;
        for output in 0..parts {
            let arrays = root.shape.part(output).unwrap_or(&root.shape).arrays().len();
            for buffer in self.slots[entry][computation.root].iter().skip(at).take(arrays).flatten() {
                let buffer = &mut self.buffers[*buffer];
                buffer.class = MemoryClass::Outputs;
                if aliased.contains(&output) {
                    buffer.bytes = 0;
                }
            }
            at += arrays;
        }
    }
}

/// Whether an instruction gives what it is given, and uses nothing.
fn is_alias(opcode: &str) -> bool {
    matches!(opcode, "tuple" | "get-tuple-element" | "bitcast" | "parameter")
}

/// The last step of each instruction: its own, or that of what it calls.
fn ends(program: &CompiledProgram, computation: usize) -> Vec<u64> {
    let instructions = &program.computations[computation].instructions;
    let mut ends: Vec<u64> = instructions.iter().skip(1).map(|next| next.step.saturating_sub(1)).collect();
    let last = instructions.last().map_or(0, |last| last.step);
    // What the last instruction calls ends with the computation; nothing after it uses anything.
    ends.push(last);
    ends
}
