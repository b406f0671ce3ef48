//! Placements: where what a pattern matches lies, or what it is.

use shardwright_mesh::{AxisName, PartitionSpec};

use super::RuleParseProblem;

/// What a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// What it is.
    Is(KindWord),
    /// Where it lies.
    Lies(Placement),
}

/// Where an array lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Whole on every device.
    Replicated,
    /// One dim is split over the axis, chosen as FSDP does.
    Auto(AxisName),
    /// Dim 0 is split over all of these.
    Dim0(Vec<AxisName>),
    /// As it says.
    Spec(PartitionSpec),
}

/// [`ArgumentKind`](shardwright_hlo::ArgumentKind), as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindWord {
    Parameter,
    State,
    Batch,
    Other,
}

impl Says {
    pub(crate) fn parse(text: &str) -> Result<Says, RuleParseProblem> {
        let text = text.trim();
        if let Some(kind) = KindWord::parse(text) {
            return Ok(Says::Is(kind));
        }
        let placement = Placement::parse(text);
        placement.map(Says::Lies).ok_or_else(|| RuleParseProblem::Placement { found: text.to_owned() })
    }

    /// Where it says that something lies, if it does.
    pub(crate) fn placement(&self) -> Option<&Placement> {
        match self {
            Says::Lies(placement) => Some(placement),
            Says::Is(_) => None,
        }
    }

    /// What it says that something is, if it does.
    pub(crate) fn kind(&self) -> Option<KindWord> {
        match self {
            Says::Lies(_) => None,
            Says::Is(kind) => Some(*kind),
        }
    }
}

impl Placement {
    fn parse(text: &str) -> Option<Placement> {
        if text == "replicated" {
            return Some(Placement::Replicated);
        }
        if let Some(entries) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            return format!("({entries})").parse().ok().map(Placement::Spec);
        }
        let Some(entries) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else {
            let alone: PartitionSpec = format!("({text})").parse().ok()?;
            // An axis by itself, and no list of them.
            return match alone.dims() {
                [dim] if !text.contains('(') => dim.axes.first().cloned().map(Placement::Auto),
                _ => None,
            };
        };
        let spec: PartitionSpec = text.parse().ok()?;
        let is_list = !entries.contains('(') && spec.dims().iter().all(|dim| !dim.axes.is_empty());
        match is_list && spec.rank() > 0 {
            true => Some(Placement::Dim0(spec.axes().cloned().collect())),
            false => Some(Placement::Spec(spec)),
        }
    }
}

impl KindWord {
    const ALL: [KindWord; 4] = [KindWord::Parameter, KindWord::State, KindWord::Batch, KindWord::Other];

    pub(crate) fn parse(text: &str) -> Option<KindWord> {
        KindWord::ALL.into_iter().find(|kind| kind.word() == text)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            KindWord::Parameter => "parameter",
            KindWord::State => "state",
            KindWord::Batch => "batch",
            KindWord::Other => "other",
        }
    }
}
