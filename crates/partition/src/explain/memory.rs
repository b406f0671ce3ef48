//! What the memory of a device holds in the course of a program, worked out from the program itself.
//!
//! Compilers decide more than is followed here (layouts, padding of tiles, scratch space, holes between buffers), so the figures
//! are an estimate, and [`MemoryReport::ratio`] says how good it is.

use shardwright_hlo::ArgumentKind;
use shardwright_hlo::compiled::CompiledProgram;

use super::buffers::{Buffer, buffers};
use super::cause::Causes;
use super::{ClassBytes, CompiledMemory, MemoryClass, MemoryPoint, MemoryReport, Subject};

/// How many points a series has at most.
const MOST_POINTS: usize = 512;

const CLASSES: usize = MemoryClass::ALL.len();

const METHOD: &str = "arguments by their shards; everything else from the first to the last step that uses it, in the \
     compiler's order, results in place of what they replace where that is known; layouts, scratch space and holes \
     between buffers are not counted";

/// Works out the memory of a program.
pub(super) fn memory(
    program: &CompiledProgram,
    subject: &Subject,
    causes: &Causes<'_>,
    compiler: Option<CompiledMemory>,
) -> MemoryReport {
    let arguments = arguments(program, subject);
    let sweep = sweep(&buffers(program, causes), program.steps, arguments);
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
        match sweep.series.last_mut().filter(|_| !(step as usize).is_multiple_of(stretch)) {
            Some(last) if total(&last.bytes) >= total(&bytes) => {}
            Some(last) => *last = point,
            None => sweep.series.push(point),
        }
    }
    sweep
}
