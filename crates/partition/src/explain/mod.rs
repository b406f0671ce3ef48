//! What the compiler made of a sharded program: facts, causes and verdicts.
//!
//! ```text
//! CompiledProgram (what there is) ─┐
//! Subject (what was asked for) ────┼──► Explanation ──► a table (Display), JSON (serde)
//! CompiledMemory (the compiler's) ─┘
//! ```
//!
//! Every collective of the optimized program is named with its axes, its bytes, how often it runs and what caused it;
//! the traffic is held against what FSDP needs; each parameter and unit gets a verdict; and the memory of a device is
//! divided into classes over the course of the program.
//!
//! Causes are found in the program itself, so they are known for any framework's: back from what a collective takes,
//! through whatever only moves or cuts an array, to an argument; and back from each output that is a parameter or its
//! state, through elementwise arithmetic, to the collective that summed the gradient. Names that the compiler carried
//! along say the rest.
//!
//! # Names in JSON
//!
//! Field names are those of the structs here, variants of enums are in `snake_case`, and collectives have HLO's names
//! (`all-gather`). All bytes are of one device. Names that are there stay; new ones may come.

mod buffers;
mod cause;
mod compare;
mod flow;
mod memory;
mod parameters;
mod subject;
mod table;
mod traffic;
mod turns;
mod types;
mod units;
mod verdict;

pub use compare::{Comparison, ComparisonDifference, ComparisonRow};
use shardwright_hlo::compiled::{Collective, CompiledProgram};
pub use subject::{Fsdp, Subject, SubjectArgument, SubjectOutput, SubjectUnit};
pub use turns::Turns;
pub use types::{
    Cause, ClassBytes, CompiledMemory, ExplainedCollective, Explanation, Grade, MemoryClass, MemoryPoint,
    MemoryReport, ParameterReport, Pass, Piece, Purpose, Reduced, Runs, Traffic, UnitReport, Verdict, Volume,
};

#[cfg(test)]
mod tests;

use self::cause::Causes;
use self::traffic::Plan;

impl Explanation {
    /// Explains a compiled program, given what is known of it from before, and what its compiler says of its memory.
    pub fn new(
        program: &CompiledProgram,
        subject: &Subject,
        compiler: Option<CompiledMemory>,
    ) -> Explanation {
        let causes = Causes::new(program, subject);
        let explained = |collective| explain(program, subject, &causes, collective);
        let collectives: Vec<ExplainedCollective> = program.collectives.iter().map(explained).collect();
        let plan = Plan::new(subject, &collectives);
        let parameters = parameters::parameters(&plan, program, &collectives);
        Explanation {
            program: program.name.clone(),
            mesh: subject.mesh.clone(),
            devices: subject.mesh.size(),
            verdict: verdict::overall(subject, &parameters, &collectives),
            traffic: traffic::traffic(&plan, &collectives),
            units: units::units(subject, &parameters, &collectives),
            parameters,
            steps: program.steps,
            memory: memory::memory(program, subject, &causes, compiler),
            notes: notes(&causes, &collectives),
            collectives,
        }
    }
}

fn explain(
    program: &CompiledProgram,
    subject: &Subject,
    causes: &Causes<'_>,
    collective: &Collective,
) -> ExplainedCollective {
    // A program that lists no groups means all devices.
    let group_size = match &collective.groups {
        Some(groups) => groups.group_size(),
        None => Some(subject.mesh.size()),
    };
    let axes = match &collective.groups {
        Some(groups) => groups.axes_of(&subject.mesh).ok(),
        None => None,
    };
    let pieces = causes.pieces(collective);
    let array_bytes = pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.array_bytes));
    ExplainedCollective {
        name: collective.name.clone(),
        kind: collective.kind,
        runs: collective.runs.into(),
        position: program.instruction(collective.place).step,
        is_async: collective.is_async,
        axes: axes.map(|axes| axes.iter().map(ToString::to_string).collect()),
        groups: collective.groups.as_ref().map(|groups| clip(&groups.to_string())),
        group_size,
        array_bytes,
        result_bytes: collective.bytes(),
        sent_bytes: collective.kind.sent_bytes(array_bytes, group_size.unwrap_or(1)),
        pieces,
    }
}

/// A text of a length that can be shown.
pub(crate) fn clip(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What could not be found out.
fn notes(causes: &Causes<'_>, collectives: &[ExplainedCollective]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut count = |wanted: &dyn Fn(&ExplainedCollective) -> bool, text: &str| {
        let count = collectives.iter().filter(|collective| wanted(collective)).count();
        if count > 0 {
            notes.push(format!("{count} collectives {text}"));
        }
    };
    count(&|c| c.runs.is_unknown, "are in loops whose number of turns is not known; they are counted once");
    count(&|c| c.runs.is_conditional, "are in branches; they are counted as if these were taken");
    count(&|c| c.axes.is_none(), "run over groups that are no whole axes of the mesh");
    if causes.is_cut_short {
        notes.push("the program is too large to find the causes of all gradients".into());
    }
    notes
}

impl From<shardwright_hlo::compiled::Runs> for Runs {
    fn from(runs: shardwright_hlo::compiled::Runs) -> Runs {
        let shardwright_hlo::compiled::Runs { count, is_unknown, is_conditional } = runs;
        Runs { count, is_unknown, is_conditional }
    }
}
