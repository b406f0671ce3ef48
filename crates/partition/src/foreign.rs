//! Plans for programs from elsewhere: from what a program takes and gives, a mesh and rules.
//!
//! A program that was not written here says little of what its arguments are. For each, these questions are answered,
//! and the plan keeps who answered them:
//!
//! *What is it?* What a rule says; else what is seen:
//!
//! - A donated array of floats is a *parameter*: a train step takes parameters and gives them back in place.
//! - It is optimizer *state* if no output besides what is given back so depends on it: no loss needs a moment. Its
//!   parameter has its shape, and the same last part of the name where names tell.
//! - Where there are parameters, an array that is not donated is a *batch* if its dim 0 is that of all such arrays (or
//!   of those that a rule calls a batch) and divides over the data axes. Scalars and keys of random numbers, unsigned
//!   and of at most four elements, have no say.
//!
//! - What the program gives back as it was, but for a part that it wrote into it, is neither: a cache.
//!
//! *Where does it lie?* Where a rule says; else where the program itself says; else by what it is: a parameter is split
//! on one dim over the axis for that, and not on one of which the program takes one index at a time, as loops over
//! layers do; a state as its parameter, a batch on dim 0 over all axes but `tensor`, anything
//! else is whole. Outputs lie as the arguments whose memory they take over, others are whole.
//!
//! A rule never overrules the program: where they differ, that is an error which names both.
//!
//! In text, what lies in between is planned too: `fsdp.rs` pins weights where they are used, and gradients.

mod error;
mod flow;
mod fsdp;
mod guess;
mod outputs;
mod pin;
mod stated;
mod table;
mod update;
mod uses;

use std::collections::BTreeMap;

use shardwright_hlo::{ArgumentKind, Module, Signature};
use shardwright_mesh::{AbstractMesh, AxisName, HloSharding, NamedSharding, PartitionSpec, ShardingError};
use shardwright_tensor::TensorType;

pub use self::error::{RuleErrors, RuleProblem};
pub use self::fsdp::{PinCounts, Pins};
pub use self::pin::PinError;
pub use self::stated::{MeshChoiceError, choose_mesh};
pub use self::table::PlanTable;
pub use self::uses::{ArgumentUse, needed_by_results, uses_of_arguments};

use self::error::nearest;
use self::stated::Unusable;
use crate::TensorPlan;
use crate::plan::split_dim;
use crate::rules::{KindWord, Pattern, Placement, Says, Target, Which};
use crate::{
    Decision, DimRule, KindSource, Lint, LintCode, PlannedArgument, ShardRules, ShardingPlan, Strategy,
};

/// How a program from elsewhere is planned, besides its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleOptions {
    /// The axis that parameters are split over. Without one it is `fsdp` if the mesh has that, or the only axis of the
    /// mesh; if there is neither, only rules split parameters.
    pub axis: Option<String>,
    /// Which dim of a parameter is split.
    pub dim_rule: DimRule,
    /// For each argument, whether an output that takes over no argument's memory depends on it:
    /// [`needed_by_results`]. Without it no state is told from a parameter.
    pub needed: Option<Vec<bool>>,
    /// What the program takes of each argument at a time: [`uses_of_arguments`]. None where its inside is not known.
    pub uses: Option<Vec<ArgumentUse>>,
}

impl RuleOptions {
    /// Knowing the inside of a program that was read from text, and nothing else asked for.
    ///
    /// # Panics
    /// If the program is unsound, which a verified one is not.
    pub fn for_module(module: &Module) -> RuleOptions {
        let (needed, uses) = (Some(needed_by_results(module)), Some(uses_of_arguments(module)));
        RuleOptions { needed, uses, ..RuleOptions::default() }
    }
}

impl ShardingPlan {
    /// Plans a program from elsewhere over a mesh, by rules.
    ///
    /// Rules about results of ops are for the program itself, and are left to [`ShardedModule`](crate::ShardedModule)
    /// and to those who annotate protos.
    ///
    /// ```
    /// use shardwright_hlo::{Binary, Module, Op};
    /// use shardwright_mesh::AbstractMesh;
    /// use shardwright_partition::{RuleOptions, ShardRules, ShardingPlan};
    /// use shardwright_tensor::{DType, TensorType};
    ///
    /// let mut module = Module::new("step");
    /// let w = module.add_argument("params['w']", TensorType::new(DType::F32, [64, 128])?);
    /// let y = module.push(Op::Binary(Binary::Add), &[w, w])?;
    /// module.add_donated_output("w", y[0], 0);
    ///
    /// let mesh = AbstractMesh::parse("fsdp=8")?;
    /// let mut rules = ShardRules::default();
    /// let signature = module.signature();
    /// let plan = ShardingPlan::by_rules(&signature, &mesh, &rules, &RuleOptions::default())?;
    /// assert_eq!(plan.arguments()[0].sharding.spec().to_string(), "(-, fsdp)");
    ///
    /// rules.push("params.*=(fsdp)")?;
    /// let plan = ShardingPlan::by_rules(&signature, &mesh, &rules, &RuleOptions::default())?;
    /// assert_eq!(plan.arguments()[0].sharding.spec().to_string(), "(fsdp, -)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When rules match nothing, fit neither the mesh nor what they match, or contradict what the program says.
    pub fn by_rules(
        signature: &Signature,
        mesh: &AbstractMesh,
        rules: &ShardRules,
        options: &RuleOptions,
    ) -> Result<ShardingPlan, RuleErrors> {
        let mut planner = Planner::new(signature, mesh, rules, options);
        let donors = planner.donors();
        let kinds = planner.kinds(&donors);
        let stated = planner.stated_of_outputs();
        let arguments = planner.arguments(&kinds, &donors, &stated);
        planner.note_uses(&arguments);
        let outputs = planner.outputs(&arguments, &donors, stated);
        planner.look_for_idle_rules();
        if !planner.problems.is_empty() {
            return Err(RuleErrors { problems: planner.problems });
        }
        let whole = "without a problem, each array has its place";
        Ok(ShardingPlan {
            mesh: mesh.clone(),
            sub_axes: planner.axis.iter().cloned().collect(),
            axis: planner.axis,
            strategy: Strategy::FullShard,
            tensor: TensorPlan::default(),
            arguments: arguments.into_iter().map(|argument| argument.expect(whole)).collect(),
            outputs: outputs.into_iter().map(|output| output.expect(whole)).collect(),
            notes: planner.notes,
        })
    }
}

/// The axis that parameters are split over where nothing else is said.
fn default_axis(mesh: &AbstractMesh) -> Option<AxisName> {
    let mut names = mesh.axis_names();
    match (mesh.axis_size("fsdp"), names.len()) {
        (Some(_), _) => Some("fsdp".into()),
        (None, 1) => names.next().cloned(),
        (None, _) => None,
    }
}

fn sliced_dim(argument: &PlannedArgument, dim: usize, axes: &[AxisName]) -> Lint {
    let axes: Vec<&str> = axes.iter().map(AxisName::as_str).collect();
    let axes = axes.join(" and ");
    let message = format!(
        "dim {dim} of {} is split over {axes}, and the program takes one index of it at a time: each is on some \
         devices only, and the others have to get it from there",
        argument.ty
    );
    Lint::warning(LintCode::SlicedDim, &argument.name, message, "split another dim, or none".to_owned())
}

/// A plan in the making.
struct Planner<'a> {
    signature: &'a Signature,
    mesh: &'a AbstractMesh,
    rules: &'a ShardRules,
    options: &'a RuleOptions,
    axis: Option<AxisName>,
    problems: Vec<RuleProblem>,
    notes: Vec<Lint>,
    uses: Vec<RuleUse>,
    /// What shardings in HLO's form, by where they are kept, come to for arrays of a rank.
    named: BTreeMap<(*const HloSharding, usize), Result<NamedSharding, Unusable>>,
}

/// What became of a rule.
#[derive(Clone, Copy, Default)]
struct RuleUse {
    has_matched: bool,
    has_decided: bool,
    /// It does not fit the mesh, which was said.
    is_broken: bool,
}

/// Which dim of an array is split over an axis.
#[derive(Clone, Copy, Default)]
struct DimChoice {
    rule: DimRule,
    /// A dim that is not split, since the program takes one index of it at a time.
    sliced: Option<usize>,
}

/// Where something lies and why, once that is known.
type Place = (NamedSharding, Decision);

impl<'a> Planner<'a> {
    fn new(
        signature: &'a Signature,
        mesh: &'a AbstractMesh,
        rules: &'a ShardRules,
        options: &'a RuleOptions,
    ) -> Planner<'a> {
        let axis = match &options.axis {
            Some(axis) => mesh.axis_size(axis).map(|_| AxisName::from(axis.as_str())),
            None => default_axis(mesh),
        };
        let mut problems = Vec::new();
        if let (Some(axis), None) = (&options.axis, &axis) {
            problems.push(RuleProblem::NoAxis { axis: axis.clone(), mesh: mesh.clone() });
        }
        let mut uses = Vec::with_capacity(rules.rules.len());
        for rule in &rules.rules {
            let source = match &rule.says {
                Says::Lies(placement) => NamedSharding::new(mesh, placement.axes_spec()).err(),
                Says::Is(_) => None,
            };
            uses.push(RuleUse { is_broken: source.is_some(), ..RuleUse::default() });
            problems.extend(source.map(|source| RuleProblem::Axes { rule: rule.text.clone(), source }));
        }
        let named = BTreeMap::new();
        Planner { signature, mesh, rules, options, axis, problems, notes: Vec::new(), uses, named }
    }

    /// The last rule that matches something and says what is asked of it, with its number. All that match have matched.
    fn last_rule<T>(
        &mut self,
        said: impl Fn(&'a Says) -> Option<T>,
        matches: impl Fn(&Pattern) -> bool,
    ) -> Option<(usize, T)> {
        let mut found = None;
        for (number, rule) in self.rules.rules.iter().enumerate() {
            let Some(said) = said(&rule.says) else { continue };
            if matches(&rule.pattern) {
                self.uses[number].has_matched = true;
                found = Some((number, said));
            }
        }
        found
    }

    /// The last rule that matches an argument and says where it lies.
    fn placement_of(&mut self, index: usize, kind: Option<ArgumentKind>) -> Option<(usize, &'a Placement)> {
        let argument = &self.signature.arguments[index];
        self.last_rule(Says::placement, |pattern| {
            pattern.target == Target::Argument
                && match (&pattern.which, kind) {
                    (Which::Kind(word), Some(kind)) => word.is(kind),
                    _ => pattern.matches(index, &argument.name, &argument.ty),
                }
        })
    }

    /// Where each argument lies; states last, since they follow.
    fn arguments(
        &mut self,
        kinds: &[(ArgumentKind, KindSource)],
        donors: &[Option<usize>],
        stated_of_outputs: &[Option<NamedSharding>],
    ) -> Vec<Option<PlannedArgument>> {
        let mut places: Vec<Option<Place>> = vec![None; kinds.len()];
        let is_state = |index: &usize| matches!(kinds[*index].0, ArgumentKind::State { .. });
        let (states, others): (Vec<usize>, Vec<usize>) = (0..kinds.len()).partition(is_state);
        let mut output_of = vec![None; kinds.len()];
        for (output, donor) in donors.iter().enumerate() {
            donor.iter().for_each(|index| output_of[*index] = Some(output));
        }
        for index in others.into_iter().chain(states) {
            let of_output = output_of[index].and_then(|output: usize| stated_of_outputs[output].as_ref());
            let stated = self.stated_of_argument(index, of_output);
            let rule = self.placement_of(index, Some(kinds[index].0));
            let argument = &self.signature.arguments[index];
            places[index] = match (rule, stated) {
                (Some(rule), stated) => {
                    let choice = self.choice(index);
                    self.by_rule("argument", &argument.name, &argument.ty, rule, choice, stated)
                }
                (None, Some(stated)) => Some((stated, Decision::Stated)),
                (None, None) => {
                    let is_donated = argument.donated || output_of[index].is_some();
                    self.by_kind(index, kinds[index].0, &places, is_donated)
                }
            };
        }
        let planned = |(index, place): (usize, Option<Place>)| {
            let (sharding, decision) = place?;
            let argument = &self.signature.arguments[index];
            let (mesh, spec) = (self.mesh, sharding.spec().clone());
            PlannedArgument::new(&argument.name, &argument.ty, kinds[index].clone(), mesh, spec, decision)
                .map_err(|error| self.problems.push(error.into()))
                .ok()
        };
        places.into_iter().enumerate().map(planned).collect()
    }

    /// What a rule comes to for one array, unless it does not fit or the program says otherwise.
    fn by_rule(
        &mut self,
        what: &'static str,
        name: &str,
        ty: &TensorType,
        (number, placement): (usize, &Placement),
        choice: DimChoice,
        stated: Option<NamedSharding>,
    ) -> Option<Place> {
        self.uses[number].has_decided = true;
        if self.uses[number].is_broken {
            return None;
        }
        let rule = &self.rules.rules[number].text;
        match placement.sharding(ty, self.mesh, choice) {
            Ok(sharding) => match stated {
                Some(stated) if stated != sharding => {
                    self.problems.push(RuleProblem::Stated {
                        what,
                        name: name.to_owned(),
                        rule: rule.clone(),
                        by_rule: sharding.spec().clone(),
                        stated: stated.spec().clone(),
                    });
                    None
                }
                _ => {
                    self.note_of_list(name, ty, rule, placement);
                    Some((sharding, Decision::Rule(rule.clone())))
                }
            },
            Err(source) => {
                let (name, by) = (name.to_owned(), format!("rule {rule}"));
                self.problems.push(RuleProblem::Sharding { what, name, by, source });
                None
            }
        }
    }

    /// Where an argument lies that neither a rule nor the program places.
    fn by_kind(
        &mut self,
        index: usize,
        kind: ArgumentKind,
        places: &[Option<Place>],
        is_donated: bool,
    ) -> Option<Place> {
        let argument = &self.signature.arguments[index];
        let ty = &argument.ty;
        let whole = || (NamedSharding::replicated(self.mesh, ty.rank()), Decision::Whole);
        match kind {
            ArgumentKind::State { parameter, .. } => {
                // A state of a state, or of nothing, has no place to follow.
                let place = places.get(parameter).and_then(Option::as_ref);
                Some(
                    place
                        .map_or_else(whole, |(sharding, _)| (sharding.clone(), Decision::Follows(parameter))),
                )
            }
            ArgumentKind::Batch => {
                let spec = crate::plan::batch_spec_of(self.mesh, &argument.name, ty);
                let spec = spec.map_err(|error| self.problems.push(error.into())).ok()?;
                let sharding =
                    NamedSharding::new(self.mesh, spec).expect("each axis of the mesh is named once");
                Some((sharding, Decision::Batch))
            }
            // What is given back in place is kept between steps, as factored moments of an optimizer are.
            ArgumentKind::Other if !(is_donated && ty.dtype.is_float()) => Some(whole()),
            ArgumentKind::Parameter | ArgumentKind::Other => {
                let Some(axis) = &self.axis else { return Some(whole()) };
                let choice = self.choice(index);
                let sharding = Placement::Auto(axis.clone()).sharding(ty, self.mesh, choice);
                let sharding = sharding.expect("the axis is the mesh's");
                Some(match (kind == ArgumentKind::Other && sharding.is_fully_replicated(), choice.sliced) {
                    (true, _) => whole(),
                    (false, Some(sliced)) => (sharding, Decision::FsdpPast { sliced }),
                    (false, None) => (sharding, Decision::Fsdp),
                })
            }
        }
    }

    /// How the dim of an argument is chosen.
    fn choice(&self, index: usize) -> DimChoice {
        DimChoice { rule: self.options.dim_rule, sliced: self.use_of(index).and_then(|use_| use_.sliced) }
    }

    /// What the program takes of an argument, as far as that is known.
    fn use_of(&self, index: usize) -> Option<ArgumentUse> {
        self.options.uses.as_ref()?.get(index).copied()
    }

    /// What is worth knowing of where arguments lie, for what the program does with them.
    fn note_uses(&mut self, arguments: &[Option<PlannedArgument>]) {
        for (index, argument) in arguments.iter().enumerate() {
            let (Some(argument), Some(dim)) = (argument, self.use_of(index).and_then(|use_| use_.sliced))
            else {
                continue;
            };
            let axes = argument.sharding.spec().dims().get(dim).map(|dim| dim.axes.as_slice());
            if let Some(axes @ [_, ..]) = axes {
                self.notes.push(sliced_dim(argument, dim, axes));
            }
        }
        let is_split =
            |a: &PlannedArgument| a.kind == ArgumentKind::Parameter && !a.sharding.is_fully_replicated();
        if self.options.uses.is_none() && arguments.iter().flatten().any(is_split) {
            self.notes.push(Lint::warning(
                LintCode::InsideUnknown,
                "",
                "of an HLO proto only arguments and outputs are pinned: where weights are gathered and gradients \
                 summed is left to the compiler"
                    .to_owned(),
                "export the program as StableHLO text, in which that is pinned too; explain shows what became of it"
                    .to_owned(),
            ));
        }
    }

    /// `(a, b)` on a matrix could have been meant for its two dims.
    fn note_of_list(&mut self, name: &str, ty: &TensorType, rule: &str, placement: &Placement) {
        let Placement::Dim0(axes) = placement else { return };
        if axes.len() < 2 || axes.len() != ty.rank() {
            return;
        }
        let axes: Vec<&str> = axes.iter().map(AxisName::as_str).collect();
        let (all, each) = (axes.join(" and "), axes.join(", "));
        self.notes.push(Lint::note(
            LintCode::ListOfAxes,
            name,
            format!("rule {rule} splits dim 0 of {ty} over {all}, and no other dim"),
            format!("[{each}] is one axis for each dim"),
        ));
    }

    /// Rules that match nothing are errors; those that later rules leave nothing to are worth a warning.
    fn look_for_idle_rules(&mut self) {
        for (rule, use_) in self.rules.rules.iter().zip(&self.uses) {
            if rule.pattern.target == Target::Op || use_.is_broken {
                continue;
            }
            if !use_.has_matched {
                let outputs = rule.pattern.target == Target::Output;
                let problem = self.no_match(&rule.text, &rule.pattern.text, outputs);
                self.problems.push(problem);
            } else if !use_.has_decided {
                self.notes.push(Lint::warning(
                    LintCode::RuleOverruled,
                    "",
                    format!("rule {} decides nothing: later rules match all that it matches", rule.text),
                    "drop it, or write it after them".to_owned(),
                ));
            }
        }
    }

    fn no_match(&self, rule: &str, pattern: &str, outputs: bool) -> RuleProblem {
        let names: Vec<&str> = match outputs {
            true => self.signature.outputs.iter().map(|o| o.name.as_str()).collect(),
            false => self.signature.arguments.iter().map(|a| a.name.as_str()).collect(),
        };
        let noun = if outputs { "outputs" } else { "arguments" };
        let what = format!("none of the {} {noun}", names.len());
        RuleProblem::NoMatch { rule: rule.to_owned(), what, nearest: nearest(pattern, &names) }
    }
}

impl Placement {
    /// A spec with the same axes, of whatever rank: whether they are the mesh's can be told without an array.
    fn axes_spec(&self) -> PartitionSpec {
        match self {
            Placement::Replicated => PartitionSpec::replicated(0),
            Placement::Auto(axis) => PartitionSpec::split(1, 0, axis.clone()),
            Placement::Dim0(axes) => PartitionSpec::new([axes.clone()]),
            Placement::Spec(spec) => spec.clone(),
        }
    }

    /// Where an array of this type lies.
    fn sharding(
        &self,
        ty: &TensorType,
        mesh: &AbstractMesh,
        choice: DimChoice,
    ) -> Result<NamedSharding, ShardingError> {
        let axes = self.axes_spec();
        let spec = match self {
            Placement::Replicated => PartitionSpec::replicated(ty.rank()),
            Placement::Auto(axis) => {
                let devices = NamedSharding::new(mesh, axes)?.shards_per_dim()[0];
                let sliced = choice.sliced.filter(|dim| *dim < ty.rank());
                let dim = match (sliced, ty.rank()) {
                    (Some(_), 1) => None,
                    _ => split_dim(ty.dims(), devices, choice.rule, sliced.map(|dim| (dim, 1))),
                };
                match dim {
                    Some(dim) => PartitionSpec::split(ty.rank(), dim, axis.clone()),
                    None => PartitionSpec::replicated(ty.rank()),
                }
            }
            Placement::Dim0(_) if ty.rank() > 1 => {
                let rest = std::iter::repeat_n(Default::default(), ty.rank() - 1);
                PartitionSpec::new(axes.dims().iter().cloned().chain(rest))
            }
            Placement::Dim0(_) | Placement::Spec(_) => axes,
        };
        let sharding = NamedSharding::new(mesh, spec)?;
        sharding.check_rank(ty.dims())?;
        Ok(sharding)
    }
}

impl KindWord {
    /// Whether this is the word for a kind.
    fn is(self, kind: ArgumentKind) -> bool {
        self.word() == kind.word()
    }
}

#[cfg(test)]
mod tests;
