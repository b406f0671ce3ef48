//! The collectives of a program.

use std::collections::BTreeSet;
use std::fmt;

use shardwright_mesh::ReplicaGroups;

use super::{
    CompiledArray, CompiledError, CompiledInstruction, CompiledProgram, CompiledShape, Runs, SourceLine,
};

/// The name of the computations in which TPU compilers do a reduce-scatter in one step, written there as an all-reduce
/// and a slice of it.
const SCATTER_FUSION: &str = "all-reduce-scatter";

/// What TPU compilers end the fusion with that starts a collective.
const ASYNC_START: &str = "AsyncCollectiveStart";

/// What they end the fusion with that waits for it, and which names the same collective again.
const ASYNC_DONE: &str = "AsyncCollectiveDone";

/// The name of the fusions that do other work while it runs, and name it again too.
const ASYNC_FUSION: &str = "async_collective_fusion";

/// One instruction that moves data between devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Name of the instruction.
    pub name: String,
    /// Which collective it is.
    pub kind: CollectiveKind,
    /// Which devices take part together, where the program says so in a way that is known here. Those of a
    /// collective-permute are the devices that send to each other.
    pub groups: Option<ReplicaGroups>,
    /// Where in the model it comes from, as far as the compiler carried that along.
    pub op_name: String,
    /// The line of the source that it comes from, likewise.
    pub source: Option<SourceLine>,
    /// How often it runs in one run of the program.
    pub runs: Runs,
    /// Whether other work can be done while it runs.
    pub is_async: bool,
    /// Where it is: the index of a computation, and that of an instruction in it.
    pub place: (usize, usize),
    /// The arrays that it carries: several where the compiler joined several collectives into one.
    pub pieces: Vec<CollectivePiece>,
}

/// One array that a collective carries.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectivePiece {
    /// Which operand of the instruction it is, and which part of its result.
    pub operand: usize,
    /// The result on one device.
    pub array: CompiledArray,
    /// Bytes of the operand on one device.
    pub operand_bytes: u64,
    /// Bytes of the result on one device.
    pub result_bytes: u64,
}

/// The collectives of HLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CollectiveKind {
    /// Every device gets the blocks of all.
    AllGather,
    /// Every device gets the sum (or another reduction) over all.
    AllReduce,
    /// Every device gets its block of the sum over all.
    ReduceScatter,
    /// Every device sends a block to each other one.
    AllToAll,
    /// Devices send to others pairwise.
    CollectivePermute,
    /// One device of each group sends to all others of it.
    CollectiveBroadcast,
    /// Every device sends rows to each other one, to each as many as it says.
    RaggedAllToAll,
}

impl CollectiveKind {
    /// All of them.
    pub const ALL: [CollectiveKind; 7] = [
        CollectiveKind::AllGather,
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::CollectivePermute,
        CollectiveKind::CollectiveBroadcast,
        CollectiveKind::RaggedAllToAll,
    ];

    /// HLO's opcode.
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllGather => "all-gather",
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::CollectivePermute => "collective-permute",
            CollectiveKind::CollectiveBroadcast => "collective-broadcast",
            CollectiveKind::RaggedAllToAll => "ragged-all-to-all",
        }
    }

    /// The collective that an opcode is or starts, and whether it only starts it. The `-done` half of an asynchronous
    /// pair moves nothing of its own.
    pub(super) fn of_opcode(opcode: &str) -> Option<(CollectiveKind, bool)> {
        let (opcode, is_start) = match opcode.strip_suffix("-start") {
            Some(opcode) => (opcode, true),
            None => (opcode, false),
        };
        let kind = CollectiveKind::ALL.into_iter().find(|kind| kind.name() == opcode)?;
        Some((kind, is_start))
    }

    /// Bytes of the whole array that is gathered, summed or exchanged, of which a device gives `operand` bytes and
    /// gets `result`.
    pub fn array_bytes(self, operand: u64, result: u64) -> u64 {
        match self {
            CollectiveKind::AllGather => result,
            CollectiveKind::ReduceScatter => operand,
            _ => operand.max(result),
        }
    }

    /// Bytes that each of `n` devices sends for a whole array of so many bytes, when blocks go round in a ring: all
    /// but one of the `n` blocks of a gather or scatter, and both for a sum that all get (Patarasuk and Yuan,
    /// "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). An all-to-all sends all blocks
    /// but the device's own, the others all that they have.
    pub fn sent_bytes(self, array_bytes: u64, n: usize) -> u64 {
        let n = n.max(1) as u128;
        let but_one = u128::from(array_bytes) * (n - 1) / n;
        let sent = match self {
            CollectiveKind::AllReduce => 2 * but_one,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => but_one,
            _ if n == 1 => 0,
            _ => u128::from(array_bytes),
        };
        u64::try_from(sent).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Collective {
    /// How many devices take part in each group, where the program lists groups and they are of one size.
    pub fn group_size(&self) -> Option<usize> {
        self.groups.as_ref()?.group_size()
    }

    /// Bytes of its result on one device, in one run of it. For a reduce-scatter that a compiler writes as an
    /// all-reduce, over groups that are not known, these are the bytes before the result is cut.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.result_bytes))
    }
}

/// The collectives that run, in the order in which they do so first.
pub(super) fn collect(program: &CompiledProgram) -> Result<Vec<Collective>, CompiledError> {
    let starts = started_in_fusions(program);
    let mut collectives = Vec::new();
    for (index, computation) in program.computations.iter().enumerate() {
        if computation.runs.count == 0 {
            continue;
        }
        let is_started = computation.instructions.iter().any(|i| i.target == ASYNC_START);
        let is_done = computation.instructions.iter().any(|i| i.target == ASYNC_DONE);
        let names_again = computation.is_fused && (is_done || computation.name.starts_with(ASYNC_FUSION));
        let is_called_async = |&(caller, at)| program.instruction((caller, at)).opcode == "async-start";
        let is_async = is_started || computation.callers.iter().any(is_called_async);
        for (at, instruction) in computation.instructions.iter().enumerate() {
            let Some((kind, is_start)) = CollectiveKind::of_opcode(&instruction.opcode) else { continue };
            if names_again && starts.contains(&instruction.channel) {
                continue;
            }
            let mut collective = Collective {
                name: instruction.name.clone(),
                kind,
                groups: instruction.groups.clone(),
                op_name: instruction.op_name.clone(),
                source: instruction.source.clone(),
                runs: computation.runs,
                is_async: is_start || is_async,
                place: (index, at),
                pieces: pieces(program, index, instruction, kind, is_start)?,
            };
            if computation.name.starts_with(SCATTER_FUSION) {
                collective.scatter();
            }
            collectives.push(collective);
        }
    }
    collectives.sort_by_key(|collective| (program.instruction(collective.place).step, collective.place));
    Ok(collectives)
}

/// The channels of the collectives that fusions start.
fn started_in_fusions(program: &CompiledProgram) -> BTreeSet<i64> {
    let mut channels = BTreeSet::new();
    for computation in &program.computations {
        for start in computation.instructions.iter().filter(|i| i.target == ASYNC_START) {
            channels.extend(start.operands.iter().map(|&operand| computation.instructions[operand].channel));
        }
    }
    channels
}

fn pieces(
    program: &CompiledProgram,
    computation: usize,
    instruction: &CompiledInstruction,
    kind: CollectiveKind,
    is_start: bool,
) -> Result<Vec<CollectivePiece>, CompiledError> {
    // A start gives its operand, its result and sometimes contexts; that of an all-reduce just its results.
    let result = match &instruction.shape {
        CompiledShape::Tuple(parts) if is_start && kind != CollectiveKind::AllReduce && parts.len() > 1 => {
            &parts[1]
        }
        shape => shape,
    };
    let results = result.arrays();
    if let Some(unknown) = results.iter().find(|array| array.element_type.bits().is_none()) {
        return Err(CompiledError::new(format!(
            "{} {} is of elements of the unknown type number {}",
            instruction.opcode, instruction.name, unknown.element_type.0
        )));
    }
    let operands = instruction.operands.iter().map(|&operand| program.instruction((computation, operand)));
    let operands: Vec<u64> = operands.map(|operand| operand.shape.bytes()).collect();
    let Some(&first) = results.first() else { return Ok(Vec::new()) };
    // An all-to-all of several operands exchanges the blocks of one array.
    let is_one_array = matches!(kind, CollectiveKind::AllToAll | CollectiveKind::RaggedAllToAll);
    if is_one_array || operands.len() != results.len() {
        let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
        return Ok(vec![CollectivePiece {
            operand: 0,
            array: first.clone(),
            operand_bytes: match kind {
                CollectiveKind::RaggedAllToAll => operands.first().copied().unwrap_or(0),
                _ => sum(&mut operands.iter().copied()),
            },
            result_bytes: sum(&mut results.iter().map(|array| array.bytes())),
        }]);
    }
    let piece = |(operand, (&operand_bytes, array)): (usize, (&u64, &&CompiledArray))| CollectivePiece {
        operand,
        array: (*array).clone(),
        operand_bytes,
        result_bytes: array.bytes(),
    };
    Ok(operands.iter().zip(&results).enumerate().map(piece).collect())
}

impl Collective {
    /// Makes an all-reduce whose result is cut at once, each device keeping its block, the reduce-scatter that it is.
    fn scatter(&mut self) {
        if self.kind == CollectiveKind::AllReduce {
            self.kind = CollectiveKind::ReduceScatter;
            let blocks = self.group_size().map_or(1, |size| size.max(1) as u64);
            self.pieces.iter_mut().for_each(|piece| piece.result_bytes /= blocks);
        }
    }
}
