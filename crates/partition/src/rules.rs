//! Sharding rules: what a user says about where the arrays of a program lie.
//!
//! A rule is written `PATTERN=PLACEMENT`. The pattern says which arrays are meant:
//!
//! ```text
//! pattern = glob                     arguments by name: params.*, *.bias, state[0]['w1']
//!         | "#" index                the argument with this index, from 0
//!         | "#" first ".." end       those from the first up to, and without, the end
//!         | dtype "[" dims "]"       arguments by type: f32[*,128]; `type:*[*,128]` is of any dtype
//!         | "kind:" kind             arguments by what they are
//!         | "out:" glob              outputs by name; `out:#0` by index, `out:f32[]` by type
//!         | "op:" glob               results of ops, by op, source location or unit
//! ```
//!
//! `*` stands for any text, dots and brackets included. Names are compared as dotted paths, so that
//! `params['layers'][0]['wq']` is `params.layers.0.wq`, in patterns too: `params.*` is all that is in `params`.
//!
//! The placement says where they lie, or what they are:
//!
//! ```text
//! placement = "replicated"           whole on every device
//!           | axis                   one dim is split over the axis, chosen as FSDP does
//!           | "(" axis, axis … ")"   dim 0 is split over all of these axes, major to minor, the rest is whole
//!           | spec                   one entry for each dim: (-, fsdp), ((data,fsdp), -)
//!           | "[" entry, entry … "]" the same spec; [data, fsdp] splits dim 0 over one and dim 1 over the other
//!           | kind                   parameter, state, batch or other: it lies as these do
//! ```
//!
//! A spec has one entry for each dim of what it is for, never fewer. Only axes alone in one pair of parentheses are
//! meant for dim 0 and leave the rest whole.
//!
//! Of several rules that match one array, the last one counts; what an array is and where it lies are two questions, to
//! which two rules may give the answers. A rule that matches nothing is an error.
//!
//! ```
//! use shardwright_partition::ShardRules;
//!
//! let mut rules = ShardRules::default();
//! rules.push("params.*=fsdp")?;
//! rules.push("batch.*=(data,fsdp)")?;
//! let error = rules.push("w1=(fsdp").unwrap_err().to_string();
//! assert!(error.starts_with("rule w1=(fsdp: "));
//! # Ok::<(), shardwright_partition::RuleParseError>(())
//! ```

mod file;
mod pattern;
mod placement;

use thiserror::Error;

pub use self::file::{RulesFile, RulesFileError};
pub(crate) use self::pattern::{Pattern, Target, Which, dotted, op_names, source_names};
pub(crate) use self::placement::{KindWord, Placement, Says};
use crate::Pins;

/// Rules in the order in which they were given: of those that match, the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) donated: Vec<Pattern>,
    pins: Option<Pins>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) pattern: Pattern,
    pub(crate) says: Says,
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("rule {rule}: {problem}")]
pub struct RuleParseError {
    rule: String,
    problem: RuleParseProblem,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleParseProblem {
    /// There is no `=`.
    #[error("there is no '=' in it; a rule is written PATTERN=PLACEMENT, such as params.*=fsdp")]
    NoPlacement,
    /// The pattern is empty.
    #[error("the pattern is empty; * stands for everything")]
    EmptyPattern,
    /// Something after `#` that counts nothing.
    #[error("{found:?} is no index; #3 is the fourth, #0..12 the first twelve")]
    Index {
        /// What was found.
        found: String,
    },
    /// Something after `type:` that is no type.
    #[error(
        "{found:?} is no type; types are written f32[*,128], with * for a dim of any size, or *[8] for any dtype"
    )]
    Type {
        /// What was found.
        found: String,
    },
    /// Something after `kind:` that is no kind.
    #[error("{found:?} is no kind; the kinds are parameter, state, batch and other")]
    Kind {
        /// What was found.
        found: String,
    },
    /// A pattern of a form that its target does not have.
    #[error("{target} go by {forms}")]
    Form {
        /// `outputs` or `ops`.
        target: &'static str,
        /// What there is.
        forms: &'static str,
    },
    /// A rule that says what something is, of something that is none of it.
    #[error(
        "{kind} says what an argument is, and the pattern is of {target}; give an axis, a spec or replicated"
    )]
    KindOf {
        /// The kind.
        kind: &'static str,
        /// What the pattern is of.
        target: &'static str,
    },
    /// A placement in no form that there is.
    #[error(
        "{found:?} is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an \
         entry for each dim such as (-, fsdp), or one of parameter, state, batch and other"
    )]
    Placement {
        /// What was found.
        found: String,
    },
}

impl ShardRules {
    /// Adds a rule, which counts more than those before it.
    ///
    /// # Errors
    /// When the text is no rule.
    pub fn push(&mut self, text: &str) -> Result<(), RuleParseError> {
        let wrong = |problem| RuleParseError { rule: text.trim().to_owned(), problem };
        let (pattern, placement) =
            text.rsplit_once('=').ok_or_else(|| wrong(RuleParseProblem::NoPlacement))?;
        let says = Says::parse(placement).map_err(wrong)?;
        self.add(pattern, says, text.trim()).map_err(wrong)
    }

    /// Says that the arguments of this pattern give up their memory: each to the first output of its type that has none
    /// from another, in order.
    ///
    /// # Errors
    /// When the text is no pattern of arguments.
    pub fn donate(&mut self, pattern: &str) -> Result<(), RuleParseError> {
        let wrong = |problem| RuleParseError { rule: pattern.trim().to_owned(), problem };
        let parsed = Pattern::parse(pattern).map_err(wrong)?;
        if parsed.target != Target::Argument || matches!(parsed.which, Which::Kind(_)) {
            let forms = "name, index and type where they are donated";
            return Err(wrong(RuleParseProblem::Form { target: "arguments", forms }));
        }
        self.donated.push(parsed);
        Ok(())
    }

    /// Says what is pinned inside the program.
    pub fn pin(&mut self, pins: Pins) {
        self.pins = Some(pins);
    }

    /// What is pinned inside the program.
    pub fn pins(&self) -> Pins {
        self.pins.unwrap_or_default()
    }

    /// Adds rules, which count more than those before them.
    pub fn extend(&mut self, later: ShardRules) {
        self.rules.extend(later.rules);
        self.donated.extend(later.donated);
        self.pins = later.pins.or(self.pins);
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.donated.is_empty()
    }

    fn add(&mut self, pattern: &str, says: Says, text: &str) -> Result<(), RuleParseProblem> {
        let pattern = Pattern::parse(pattern)?;
        if let Says::Is(kind) = says {
            let target = match (pattern.target, &pattern.which) {
                (Target::Argument, Which::Kind(_)) => Some("arguments of one kind"),
                (Target::Argument, _) => None,
                (Target::Output, _) => Some("outputs"),
                (Target::Op, _) => Some("results of ops"),
            };
            if let Some(target) = target {
                return Err(RuleParseProblem::KindOf { kind: kind.word(), target });
            }
        }
        self.rules.push(Rule { text: text.to_owned(), pattern, says });
        Ok(())
    }
}

impl RuleParseError {
    /// What is wrong.
    pub fn problem(&self) -> &RuleParseProblem {
        &self.problem
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(rules: &[&str], expect: Expect) {
        let read = |text: &&str| {
            let mut rules = ShardRules::default();
            match rules.push(text) {
                Ok(()) => format!("{text}: {:?}\n", rules.rules[0].says),
                Err(error) => format!("error: {error}\n"),
            }
        };
        expect.assert_eq(&rules.iter().map(read).collect::<String>());
    }

    #[test]
    fn placements_are_read() {
        check(
            &[
                "*=replicated",
                "params.*=fsdp",
                "batch.*=(data,fsdp)",
                "w=(fsdp)",
                "w=(-, fsdp)",
                "w=((data,fsdp), -)",
                "w=[data, fsdp]",
                "w=((data), fsdp)",
                "w=()",
                "x = batch",
            ],
            expect![[r#"
                *=replicated: Lies(Replicated)
                params.*=fsdp: Lies(Auto(AxisName("fsdp")))
                batch.*=(data,fsdp): Lies(Dim0([AxisName("data"), AxisName("fsdp")]))
                w=(fsdp): Lies(Dim0([AxisName("fsdp")]))
                w=(-, fsdp): Lies(Spec(PartitionSpec { dims: [DimSharding { axes: [] }, DimSharding { axes: [AxisName("fsdp")] }] }))
                w=((data,fsdp), -): Lies(Spec(PartitionSpec { dims: [DimSharding { axes: [AxisName("data"), AxisName("fsdp")] }, DimSharding { axes: [] }] }))
                w=[data, fsdp]: Lies(Spec(PartitionSpec { dims: [DimSharding { axes: [AxisName("data")] }, DimSharding { axes: [AxisName("fsdp")] }] }))
                w=((data), fsdp): Lies(Spec(PartitionSpec { dims: [DimSharding { axes: [AxisName("data")] }, DimSharding { axes: [AxisName("fsdp")] }] }))
                w=(): Lies(Spec(PartitionSpec { dims: [] }))
                x = batch: Is(Batch)
            "#]],
        );
    }

    #[test]
    fn what_is_no_rule_says_so() {
        check(
            &[
                "params",
                "=fsdp",
                "#x=fsdp",
                "#3..1=fsdp",
                "#99999999999999999999=fsdp",
                "type:q8[2]=fsdp",
                "type:f32[a]=fsdp",
                "kind:weights=fsdp",
                "kind:batch=parameter",
                "out:loss=batch",
                "op:dot=state",
                "out:kind:batch=fsdp",
                "op:#3=fsdp",
                "w=",
                "w=(fsdp",
                "w=[fsdp",
                "w=fsdp data",
                "w=(a))",
            ],
            expect![[r#"
                error: rule params: there is no '=' in it; a rule is written PATTERN=PLACEMENT, such as params.*=fsdp
                error: rule =fsdp: the pattern is empty; * stands for everything
                error: rule #x=fsdp: "x" is no index; #3 is the fourth, #0..12 the first twelve
                error: rule #3..1=fsdp: "3..1" is no index; #3 is the fourth, #0..12 the first twelve
                error: rule #99999999999999999999=fsdp: "99999999999999999999" is no index; #3 is the fourth, #0..12 the first twelve
                error: rule type:q8[2]=fsdp: "q8[2]" is no type; types are written f32[*,128], with * for a dim of any size, or *[8] for any dtype
                error: rule type:f32[a]=fsdp: "f32[a]" is no type; types are written f32[*,128], with * for a dim of any size, or *[8] for any dtype
                error: rule kind:weights=fsdp: "weights" is no kind; the kinds are parameter, state, batch and other
                error: rule kind:batch=parameter: parameter says what an argument is, and the pattern is of arguments of one kind; give an axis, a spec or replicated
                error: rule out:loss=batch: batch says what an argument is, and the pattern is of outputs; give an axis, a spec or replicated
                error: rule op:dot=state: state says what an argument is, and the pattern is of results of ops; give an axis, a spec or replicated
                error: rule out:kind:batch=fsdp: outputs go by name, index or type: out:loss, out:#0, out:f32[]
                error: rule op:#3=fsdp: ops go by op, source location or unit: op:dot_general, op:model.py:12
                error: rule w=: "" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
                error: rule w=(fsdp: "(fsdp" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
                error: rule w=[fsdp: "[fsdp" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
                error: rule w=fsdp data: "fsdp data" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
                error: rule w=(a)): "(a))" is no placement; expected an axis, replicated, axes for dim 0 such as (data,fsdp), a spec with an entry for each dim such as (-, fsdp), or one of parameter, state, batch and other
            "#]],
        );
        let error = ShardRules::default().donate("out:loss").unwrap_err();
        expect!["rule out:loss: arguments go by name, index and type where they are donated"]
            .assert_eq(&error.to_string());
    }
}
