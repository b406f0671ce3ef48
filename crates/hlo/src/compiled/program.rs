//! The optimized program: computations, who calls whom, and how often each runs.

use std::collections::HashMap;
use std::sync::Arc;

use shardwright_mesh::ReplicaGroups;

use super::collective::{self, Collective};
use super::{CompiledError, CompiledShape, Runs, groups, proto, runs, trips};

/// An optimized program.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledProgram {
    /// Name of the module.
    pub name: String,
    /// All computations, as the compiler lists them.
    pub computations: Vec<CompiledComputation>,
    /// The index of the one that the program is.
    pub entry: usize,
    /// Outputs that take the memory of parameters of [`CompiledProgram::entry`].
    pub aliases: Vec<OutputAlias>,
    /// How many steps the program has: its instructions, those of the computations that it calls counted once, and
    /// fused ones as one.
    pub steps: u64,
    /// All collectives, in the order in which they run.
    pub collectives: Vec<Collective>,
}

/// Instructions that run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledComputation {
    /// Its name.
    pub name: String,
    /// Its instructions in the order of the compiler's schedule, where there is one, else in an order that they can
    /// run in: operands come before what uses them.
    pub instructions: Vec<CompiledInstruction>,
    /// The index of the instruction whose result is the computation's.
    pub root: usize,
    /// How often it runs in one run of the program; 0 if it is only applied to elements, or never.
    pub runs: Runs,
    /// The instructions that run it: the index of a computation, and that of an instruction in it.
    pub callers: Vec<(usize, usize)>,
    /// Whether it is the inside of a fusion, whose instructions have no memory of their own.
    pub is_fused: bool,
}

/// An instruction of an optimized program.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledInstruction {
    /// Its name.
    pub name: String,
    /// HLO's opcode: `all-gather`.
    pub opcode: String,
    /// What it gives.
    pub shape: CompiledShape,
    /// The indices, in the same computation, of what it takes.
    pub operands: Vec<usize>,
    /// The indices of the computations inside it; of a `while` the body, then the condition.
    pub called: Vec<usize>,
    /// The number of a `parameter`, or of the part that a `get-tuple-element` takes.
    pub index: usize,
    /// What a `custom-call` calls.
    pub target: String,
    /// How often the body of a `while` runs, where that can be seen.
    pub trips: Option<u64>,
    /// Where in the model it comes from, as far as the compiler carried that along.
    pub op_name: String,
    /// The line of the source that it comes from, likewise.
    pub source: Option<SourceLine>,
    /// Which step of the program it is, or is a part of.
    pub step: u64,
    /// A whole number that it is.
    pub(super) constant: Option<i64>,
    /// How a `compare` compares: `LT`.
    pub(super) comparison: String,
    /// Of a collective, the devices that take part together.
    pub(super) groups: Option<ReplicaGroups>,
    /// The number of the exchange that it belongs to; programs that were partitioned by hand have one for all.
    pub(super) channel: i64,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, as whoever wrote the program named it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

/// An output that takes the memory of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputAlias {
    /// The number of the output.
    pub output: usize,
    /// The number of the parameter.
    pub parameter: usize,
}

impl CompiledProgram {
    /// Builds the program from its message.
    pub(super) fn read(module: &proto::Module) -> Result<CompiledProgram, CompiledError> {
        let ids = unique(module.computations.iter().map(|c| c.id), "computations", &module.name)?;
        let sources = Sources::new(module.frames.as_ref());
        let mut schedules: HashMap<i64, &[i64]> = HashMap::new();
        for scheduled in module.schedule.iter().flat_map(|schedule| &schedule.sequences) {
            if let Some(sequence) = &scheduled.sequence {
                schedules.insert(scheduled.computation, &sequence.instructions);
            }
        }
        let mut computations = Vec::with_capacity(module.computations.len());
        for computation in &module.computations {
            let schedule = schedules.get(&computation.id).copied();
            computations.push(read_computation(computation, schedule, &ids, &sources)?);
        }
        let entry = *ids.get(&module.entry).ok_or_else(|| {
            CompiledError::new(format!("it has no computation {}, its entry", module.entry))
        })?;
        let mut program = CompiledProgram {
            name: module.name.clone(),
            computations,
            entry,
            aliases: module.aliases.iter().flat_map(|aliases| &aliases.entries).filter_map(alias).collect(),
            steps: 0,
            collectives: Vec::new(),
        };
        let order = runs::callers_first(&program)?;
        trips::count(&mut program);
        runs::count(&mut program, &order);
        runs::number_steps(&mut program, &order);
        program.collectives = collective::collect(&program)?;
        Ok(program)
    }

    /// An instruction.
    ///
    /// # Panics
    /// If the program has no such computation, or that no such instruction.
    pub fn instruction(&self, (computation, instruction): (usize, usize)) -> &CompiledInstruction {
        &self.computations[computation].instructions[instruction]
    }
}

impl CompiledComputation {
    /// The instruction whose result is the computation's.
    pub fn root(&self) -> &CompiledInstruction {
        &self.instructions[self.root]
    }
}

fn alias(entry: &proto::AliasEntry) -> Option<OutputAlias> {
    // A program with one result has no tuple of them.
    let output = entry.output.first().copied().unwrap_or(0);
    Some(OutputAlias { output: output.try_into().ok()?, parameter: entry.parameter.try_into().ok()? })
}

/// The place of each id in a list, in which each may be once.
fn unique(
    ids: impl Iterator<Item = i64>,
    what: &str,
    owner: &str,
) -> Result<HashMap<i64, usize>, CompiledError> {
    let mut places = HashMap::new();
    for (place, id) in ids.enumerate() {
        if places.insert(id, place).is_some() {
            return Err(CompiledError::new(format!("{owner} has two {what} with the id {id}")));
        }
    }
    Ok(places)
}

fn read_computation(
    computation: &proto::Computation,
    schedule: Option<&[i64]>,
    computations: &HashMap<i64, usize>,
    sources: &Sources,
) -> Result<CompiledComputation, CompiledError> {
    let (name, listed) = (&computation.name, &computation.instructions);
    let ids = unique(listed.iter().map(|i| i.id), "instructions", name)?;
    let order: Vec<usize> = match schedule {
        None => (0..listed.len()).collect(),
        Some(schedule) => {
            let unknown =
                |id| CompiledError::new(format!("{name} has no instruction {id}, and its schedule does"));
            let order: Vec<usize> = schedule
                .iter()
                .map(|id| ids.get(id).copied().ok_or_else(|| unknown(id)))
                .collect::<Result<_, _>>()?;
            if order.len() != listed.len() {
                let (found, expected) = (order.len(), listed.len());
                return Err(CompiledError::new(format!(
                    "{name} has {expected} instructions, and its schedule has {found}"
                )));
            }
            order
        }
    };
    let mut places = vec![usize::MAX; listed.len()];
    for (place, &index) in order.iter().enumerate() {
        places[index] = place;
    }
    let mut instructions = Vec::with_capacity(listed.len());
    for (place, &index) in order.iter().enumerate() {
        let instruction = &listed[index];
        let operand = |id: &i64| match ids.get(id).map(|&index| places[index]) {
            Some(operand) if operand < place => Ok(operand),
            _ => Err(CompiledError::new(format!(
                "{} uses instruction {id}, which does not come before it in {name}",
                instruction.name
            ))),
        };
        let called = |id: &i64| {
            computations.get(id).copied().ok_or_else(|| {
                CompiledError::new(format!("{} calls computation {id}, which is not there", instruction.name))
            })
        };
        let operands = instruction.operands.iter().map(operand).collect::<Result<_, _>>()?;
        let called = instruction.called.iter().map(called).collect::<Result<_, _>>()?;
        instructions.push(CompiledInstruction::read(instruction, operands, called, sources));
    }
    let root = ids.get(&computation.root).map(|&index| places[index]).filter(|&place| place < listed.len());
    let root =
        root.ok_or_else(|| CompiledError::new(format!("{name} has no instruction that is its result")))?;
    Ok(CompiledComputation {
        name: name.clone(),
        instructions,
        root,
        runs: Runs::default(),
        callers: Vec::new(),
        is_fused: false,
    })
}

impl CompiledInstruction {
    fn read(
        instruction: &proto::Instruction,
        operands: Vec<usize>,
        called: Vec<usize>,
        sources: &Sources,
    ) -> CompiledInstruction {
        let metadata = instruction.metadata.as_ref();
        let index = match instruction.opcode.as_str() {
            "parameter" => instruction.parameter,
            _ => instruction.tuple_index,
        };
        CompiledInstruction {
            name: instruction.name.clone(),
            opcode: instruction.opcode.clone(),
            shape: CompiledShape::read(instruction.shape.as_ref().unwrap_or(&proto::Shape::default())),
            operands,
            called,
            // No tuple and no computation has as many parts.
            index: usize::try_from(index).unwrap_or(usize::MAX),
            target: instruction.custom_call_target.clone(),
            trips: trips::stated(&instruction.backend_config),
            op_name: metadata.map(|m| m.op_name.clone()).unwrap_or_default(),
            source: metadata.and_then(|metadata| sources.line(metadata)),
            step: 0,
            constant: instruction.literal.as_ref().and_then(whole_number),
            comparison: instruction.comparison.clone(),
            groups: groups::of_collective(instruction),
            channel: instruction.channel,
        }
    }
}

fn whole_number(literal: &proto::Literal) -> Option<i64> {
    let proto::Literal { s32, s64, u32, u64 } = literal;
    match (&s32[..], &s64[..], &u32[..], &u64[..]) {
        (&[number], [], [], []) => Some(number.into()),
        ([], &[number], [], []) => Some(number),
        ([], [], &[number], []) => Some(number.into()),
        ([], [], [], &[number]) => number.try_into().ok(),
        _ => None,
    }
}

/// The lines of the source, which newer compilers list once for the whole program.
struct Sources {
    frames: Vec<Option<SourceLine>>,
}

impl Sources {
    fn new(frames: Option<&proto::StackFrames>) -> Sources {
        let Some(index) = frames else { return Sources { frames: Vec::new() } };
        let files: Vec<Arc<str>> = index.files.iter().map(|file| file.as_str().into()).collect();
        let place = |frame: &proto::StackFrame| {
            let place = from_one(&index.places, frame.place)?;
            Some(SourceLine {
                file: from_one(&files, place.file)?.clone(),
                line: place.line.try_into().ok()?,
            })
        };
        Sources { frames: index.frames.iter().map(place).collect() }
    }

    fn line(&self, metadata: &proto::Metadata) -> Option<SourceLine> {
        if !metadata.source_file.is_empty() {
            let line = metadata.source_line.try_into().unwrap_or(0);
            return Some(SourceLine { file: metadata.source_file.as_str().into(), line });
        }
        from_one(&self.frames, metadata.frame)?.clone()
    }
}

fn from_one<T>(list: &[T], number: i32) -> Option<&T> {
    list.get(usize::try_from(number).ok()?.checked_sub(1)?)
}
