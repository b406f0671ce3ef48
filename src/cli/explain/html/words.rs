//! What things are called on the page, and how they are marked.

use shardwright_hlo::compiled::CollectiveKind;
use shardwright_partition::explain::{Cause, ExplainedCollective, Grade, Piece, Runs};

/// The axes that a collective runs over.
pub(super) fn axes(axes: Option<&[String]>) -> String {
    match axes {
        Some([]) => "no axis".to_owned(),
        Some(axes) => axes.join(", "),
        None => "other".to_owned(),
    }
}

/// The class of the boxes of a kind.
pub(super) fn kind_class(kind: CollectiveKind) -> &'static str {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter};
    match kind {
        AllGather => "k-gather",
        ReduceScatter => "k-scatter",
        AllReduce => "k-reduce",
        AllToAll => "k-exchange",
        CollectivePermute => "k-permute",
        _ => "k-other",
    }
}

/// The class of the boxes of a grade.
pub(super) fn grade_class(grade: Grade) -> &'static str {
    match grade {
        Grade::NotSharded => "g-none",
        Grade::AsPlanned => "g-good",
        Grade::Costly => "g-costly",
        Grade::Lost => "g-lost",
    }
}

/// What each device sends for a collective in one run of the program.
pub(super) fn sent(collective: &ExplainedCollective) -> u64 {
    collective.sent_bytes.saturating_mul(collective.runs.count)
}

/// What the pieces of a collective come from: the first, and how many more there are.
pub(super) fn cause(pieces: &[Piece]) -> String {
    let Some((first, rest)) = pieces.split_first() else { return "unknown".to_owned() };
    let name = match &first.cause {
        Cause::Argument(name) => name.clone(),
        Cause::GradientOf(name) => format!("gradient of {name}"),
        Cause::Output(name) => format!("output {name}"),
        Cause::Op(name) => name.clone(),
        Cause::Unknown => first.purpose.to_string(),
    };
    if rest.is_empty() { name } else { format!("{name} and {} more", rest.len()) }
}

/// How often something runs.
pub(super) fn runs(runs: Runs) -> String {
    let most = if runs.is_conditional { "at most " } else { "" };
    let unknown = if runs.is_unknown { " × unknown" } else { "" };
    format!("{most}{}{unknown} ×", runs.count)
}

/// A sum that stays at the most where a hostile program makes it larger than that.
pub(super) fn total(bytes: impl IntoIterator<Item = u64>) -> u64 {
    bytes.into_iter().fold(0, u64::saturating_add)
}
