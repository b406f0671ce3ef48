//! Why rules and a program do not go together.

use shardwright_mesh::{AbstractMesh, PartitionSpec, ShardingError};
use shardwright_tensor::TensorType;
use thiserror::Error;

use crate::PlanError;

/// Why rules and a program do not go together: every reason that there is.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{}", in_lines(problems))]
pub struct RuleErrors {
    pub(super) problems: Vec<RuleProblem>,
}

/// One reason why rules and a program do not go together.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum RuleProblem {
    /// The axis that parameters shall be split over is not the mesh's.
    #[error("the mesh ({mesh}) has no axis {axis} to split parameters over")]
    NoAxis {
        /// The axis.
        axis: String,
        /// The mesh.
        mesh: AbstractMesh,
    },
    /// A rule whose pattern nothing fits.
    #[error("rule {rule} matches {what}{}", did_you_mean(nearest))]
    NoMatch {
        /// The rule.
        rule: String,
        /// `none of the 12 arguments`.
        what: String,
        /// Names that are like the pattern.
        nearest: Vec<String>,
    },
    /// A rule that does not fit the mesh.
    #[error("rule {rule}: {source}")]
    Axes {
        /// The rule.
        rule: String,
        /// What is wrong.
        source: ShardingError,
    },
    /// A placement that does not fit the array.
    #[error("{what} {name}: {by}: {source}")]
    Sharding {
        /// `argument` or `output`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Who says so: the rule or the program.
        by: String,
        /// What is wrong.
        source: ShardingError,
    },
    /// A rule that says otherwise than the program.
    #[error(
        "{what} {name}: rule {rule} says {by_rule}, and the program itself says {stated}; drop the rule, or export the \
         program without that sharding"
    )]
    Stated {
        /// `argument` or `output`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The rule.
        rule: String,
        /// What it comes to.
        by_rule: PartitionSpec,
        /// What the program says.
        stated: PartitionSpec,
    },
    /// A sharding of the program that does not fit the mesh, or is none that plans are made of.
    #[error("{what} {name}: the program says that it is sharded {stated}, which is of no use here: {reason}")]
    Unusable {
        /// `argument` or `output`.
        what: &'static str,
        /// Its name.
        name: String,
        /// What the program says.
        stated: String,
        /// What is wrong.
        reason: String,
    },
    /// An output that shall lie elsewhere than the argument whose memory it takes over.
    #[error(
        "output {output}: {by} says {found}, and it takes over the memory of {argument}, which lies {expected}; give \
         both the same"
    )]
    Donor {
        /// The output.
        output: String,
        /// Who says where it lies.
        by: String,
        /// Where it shall lie.
        found: PartitionSpec,
        /// The argument.
        argument: String,
        /// Where that lies.
        expected: PartitionSpec,
    },
    /// An argument that shall be donated, and no output for it.
    #[error(
        "argument {argument}: it shall be donated, and no output of type {ty} is left to take its memory over"
    )]
    NoOutput {
        /// The argument.
        argument: String,
        /// Its type.
        ty: TensorType,
    },
    /// A state without a parameter of its shape.
    #[error(
        "argument {argument}: rule {rule} says that it is a state, and no parameter has its shape {ty}; say which are \
         parameters, or where it lies"
    )]
    NoParameter {
        /// The argument.
        argument: String,
        /// The rule.
        rule: String,
        /// The type of the argument.
        ty: TensorType,
    },
    /// A plan that cannot be made for another reason.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl RuleErrors {
    /// The reasons; at least one.
    pub fn problems(&self) -> &[RuleProblem] {
        &self.problems
    }
}

/// One problem on the line itself, several on indented lines of their own; a rule can go wrong for every argument.
fn in_lines(problems: &[RuleProblem]) -> String {
    const SHOWN: usize = 20;
    if let [only] = problems {
        return only.to_string();
    }
    let mut text = format!("{} problems", problems.len());
    problems.iter().take(SHOWN).for_each(|problem| text += &format!("\n  {problem}"));
    if let Some(more @ 1..) = problems.len().checked_sub(SHOWN) {
        text += &format!("\n  and {more} more");
    }
    text
}

pub(super) fn did_you_mean(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; nearest to it are {}", names.join(", ")),
    }
}

/// Up to three names that are most like a pattern.
pub(super) fn nearest(pattern: &str, names: &[&str]) -> Vec<String> {
    const SHOWN: usize = 3;
    // To compare takes time by the product of the lengths, and programs may have any number of names.
    const COMPARED: usize = 10_000;
    const LONGEST: usize = 200;
    let pattern: String = pattern.chars().filter(|c| *c != '*').take(LONGEST).collect();
    let likeness = |name: &&str| strsim::jaro_winkler(&pattern, name);
    let compared = names.iter().copied().filter(|name| name.len() <= LONGEST).take(COMPARED);
    let mut scored: Vec<(f64, &str)> = compared.map(|name| (likeness(&name), name)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(SHOWN).map(|(_, name)| name.to_owned()).collect()
}
