//! What the memory of a device holds in the course of a program, worked out from the program itself.
//!
//! Each result of an instruction is a buffer from the step that computes it to the last step that uses it. Some have
//! none of their own: parts and tuples, bitcasts, what a loop carries, what is written into an array in place, an
//! output in the memory of a donated argument, and an elementwise result of the size of an operand that ends there.
//! Compilers decide more than that (layouts, padding of tiles, scratch space, holes between buffers), so the figures
//! are an estimate, and [`MemoryReport::ratio`] says how good it is.

use std::collections::BTreeMap;

use shardwright_hlo::ArgumentKind;
use shardwright_hlo::compiled::{CompiledInstruction, CompiledProgram, CompiledShape};

use super::cause::Causes;
use super::{ClassBytes, CompiledMemory, MemoryClass, MemoryPoint, MemoryReport, Subject};

/// How many points a series has at most.
const MOST_POINTS: usize = 512;

const CLASSES: usize = MemoryClass::ALL.len();

const METHOD: &str = "arguments by their shards; everything else from the first to the last step that uses it, in the \
     compiler's order, results in place of what they replace where that is known; layouts, scratch space and holes \
     between buffers are not counted";

/// Memory in use from one step to another, both included.
#[derive(Clone, Debug)]
struct Buffer {
    bytes: u64,
    class: MemoryClass,
    first: u64,
    last: u64,
}

/// For each instruction, the buffers of its arrays, in order; none for those in memory of others.
type Slots = Vec<Vec<Option<usize>>>;

/// Works out the memory of a program.
pub(super) fn memory(
    program: &CompiledProgram,
    subject: &Subject,
    causes: &Causes<'_>,
    compiler: Option<CompiledMemory>,
) -> MemoryReport {
    let arguments = arguments(program, subject);
    let mut buffers = Buffers::new(program, causes);
    buffers.place_all();
    buffers.mark_outputs();
    let sweep = sweep(&buffers.buffers, program.steps, arguments);
    let estimated_peak = total(&sweep.peak);
    let ratio = compiler.map(|memory| memory.in_use()).filter(|&bytes| bytes > 0);
    MemoryReport {
        compiler,
        estimated_peak,
        ratio: ratio.map(|bytes| estimated_peak as f64 / bytes as f64),
        peak_position: sweep.peak_position,
        at_peak: MemoryClass::ALL
            .into_iter()
            .zip(sweep.peak)
            .map(|(class, bytes)| ClassBytes { class, bytes })
            .collect(),
        series: sweep.series,
        method: METHOD.to_owned(),
    }
}

impl CompiledMemory {
    /// The most that is in use at one time: the compiler's peak or, where it tells none, all of it together.
    pub fn in_use(&self) -> u64 {
        let all = self.arguments.saturating_add(self.outputs).saturating_sub(self.aliased);
        self.peak.unwrap_or_else(|| all.saturating_add(self.temporaries))
    }
}

fn total(bytes: &[u64; CLASSES]) -> u64 {
    bytes.iter().copied().fold(0, u64::saturating_add)
}

/// Bytes of the arguments, which are there all the time.
fn arguments(program: &CompiledProgram, subject: &Subject) -> [u64; CLASSES] {
    let mut bytes = [0u64; CLASSES];
    let entry = &program.computations[program.entry];
    for parameter in entry.instructions.iter().filter(|i| i.opcode == "parameter") {
        let class = match subject.arguments.get(parameter.index).map(|argument| argument.kind) {
            Some(ArgumentKind::Parameter) => MemoryClass::Parameters,
            Some(ArgumentKind::State { .. }) => MemoryClass::OptimizerState,
            Some(ArgumentKind::Batch) => MemoryClass::Batch,
            Some(ArgumentKind::Other) | None => MemoryClass::OtherArguments,
        };
        let sum = &mut bytes[class as usize];
        *sum = sum.saturating_add(parameter.shape.bytes());
    }
    bytes
}

struct Buffers<'a> {
    program: &'a CompiledProgram,
    causes: &'a Causes<'a>,
    buffers: Vec<Buffer>,
    slots: Vec<Slots>,
}

impl<'a> Buffers<'a> {
    fn new(program: &'a CompiledProgram, causes: &'a Causes<'a>) -> Buffers<'a> {
        Buffers { program, causes, buffers: Vec::new(), slots: vec![Vec::new(); program.computations.len()] }
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
                fitted(instruction.operands.iter().flat_map(|&operand| &slots[operand]).copied().collect())
            }
            "get-tuple-element" => {
                let tuple =
                    instruction.operands.first().map(|&t| &self.program.instruction((computation, t)).shape);
                let start = tuple.map_or(0, |shape| offset(shape, instruction.index));
                let part = operand(0).map(|slots| slots.iter().skip(start).take(count).copied().collect());
                fitted(part.unwrap_or_default())
            }
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

    /// The buffers of what is passed to a parameter of a computation that one instruction calls.
    fn passed(&self, computation: usize, index: usize) -> Vec<Option<usize>> {
        let [(caller, at)] = self.program.computations[computation].callers[..] else { return Vec::new() };
        let instruction = self.program.instruction((caller, at));
        let operand = if instruction.opcode == "while" { 0 } else { index };
        let operand = instruction.operands.get(operand);
        operand.and_then(|&operand| self.slots[caller].get(operand)).cloned().unwrap_or_default()
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
        let aliased: BTreeMap<usize, usize> =
            self.program.aliases.iter().map(|alias| (alias.output, alias.parameter)).collect();
        let mut at = 0;
        for output in 0..parts {
            let arrays = root.shape.part(output).unwrap_or(&root.shape).arrays().len();
            for buffer in self.slots[entry][computation.root].iter().skip(at).take(arrays).flatten() {
                let buffer = &mut self.buffers[*buffer];
                buffer.class = MemoryClass::Outputs;
                if aliased.contains_key(&output) {
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

/// Where the arrays of a part of a tuple begin among all of its arrays.
fn offset(shape: &CompiledShape, part: usize) -> usize {
    match shape {
        CompiledShape::Array(_) => 0,
        CompiledShape::Tuple(parts) => parts.iter().take(part).map(|part| part.arrays().len()).sum(),
    }
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

struct Sweep {
    peak: [u64; CLASSES],
    peak_position: u64,
    series: Vec<MemoryPoint>,
}

/// Adds up what is in use at each step.
fn sweep(buffers: &[Buffer], steps: u64, arguments: [u64; CLASSES]) -> Sweep {
    let steps = usize::try_from(steps).unwrap_or(usize::MAX).max(1);
    let mut changes: Vec<(u64, usize, i128)> = Vec::with_capacity(2 * buffers.len());
    for buffer in buffers.iter().filter(|buffer| buffer.bytes > 0 && buffer.last >= buffer.first) {
        changes.push((buffer.first, buffer.class as usize, buffer.bytes.into()));
        changes.push((buffer.last + 1, buffer.class as usize, -i128::from(buffer.bytes)));
    }
    changes.sort_unstable();
    let stretch = steps.div_ceil(MOST_POINTS);
    let mut now = arguments.map(i128::from);
    let mut sweep = Sweep { peak: arguments, peak_position: 0, series: Vec::new() };
    let mut changes = changes.into_iter().peekable();
    for step in 0..steps as u64 {
        while let Some((_, class, bytes)) = changes.next_if(|change| change.0 <= step) {
            now[class] += bytes;
        }
        let bytes = now.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
        if total(&bytes) > total(&sweep.peak) {
            (sweep.peak, sweep.peak_position) = (bytes, step);
        }
        let point = MemoryPoint { position: step, bytes };
        match sweep.series.last_mut().filter(|_| step as usize % stretch != 0) {
            Some(last) if total(&last.bytes) >= total(&bytes) => {}
            Some(last) => *last = point,
            None => sweep.series.push(point),
        }
    }
    sweep
}
