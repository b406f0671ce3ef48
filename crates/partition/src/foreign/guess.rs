//! What the arguments of a program are: what rules say, and what is seen where none does.

use std::collections::BTreeMap;

use shardwright_hlo::{ArgumentInfo, ArgumentKind};
use shardwright_tensor::DType;

use super::{Planner, RuleProblem};
use crate::rules::{KindWord, Placement, Says, Target, dotted};
use crate::{KindSource, Lint, LintCode, data_axes};

/// What is known of each argument so far; a state is one without a parameter until all of these are known.
type Known = Vec<Option<(KindWord, KindSource)>>;

impl Planner<'_> {
    /// What each argument is, and who says so.
    pub(super) fn kinds(&mut self, donors: &[Option<usize>]) -> Vec<(ArgumentKind, KindSource)> {
        let arguments = &self.signature.arguments;
        let mut is_donated: Vec<bool> = arguments.iter().map(|argument| argument.donated).collect();
        donors.iter().flatten().for_each(|&index| is_donated[index] = true);
        let mut known: Known = (0..arguments.len()).map(|index| self.said(index)).collect();
        self.guess_kept(&mut known, &is_donated);
        self.guess_by_placement(&mut known);
        self.guess_batch(&mut known, &is_donated);
        let parameters = self.parameters_of_states(&known);
        let other = (KindWord::Other, KindSource::Guess);
        let finished = |(index, known): (usize, Option<(KindWord, KindSource)>)| {
            let (word, source) = known.unwrap_or_else(|| other.clone());
            let kind = match (word, parameters[index]) {
                (KindWord::Parameter, _) => ArgumentKind::Parameter,
                (KindWord::State, Some(parameter)) => ArgumentKind::State { parameter, without: None },
                (KindWord::Batch, _) => ArgumentKind::Batch,
                (KindWord::State, None) | (KindWord::Other, _) => ArgumentKind::Other,
            };
            (kind, source)
        };
        known.into_iter().enumerate().map(finished).collect()
    }

    /// What the last rule says that an argument is, or the program.
    fn said(&mut self, index: usize) -> Option<(KindWord, KindSource)> {
        let argument = &self.signature.arguments[index];
        let said = self.last_rule(Says::kind, |pattern| {
            pattern.target == Target::Argument && pattern.matches(index, &argument.name, &argument.ty)
        });
        if let Some((number, kind)) = said {
            self.uses[number].has_decided = true;
            return Some((kind, KindSource::Rule(self.rules.rules[number].text.clone())));
        }
        match argument.kind {
            ArgumentKind::Parameter => Some((KindWord::Parameter, KindSource::Program)),
            ArgumentKind::State { .. } => Some((KindWord::State, KindSource::Program)),
            ArgumentKind::Batch => Some((KindWord::Batch, KindSource::Program)),
            ArgumentKind::Other => None,
        }
    }

    /// What a rule splits as FSDP does is a parameter, what it splits on dim 0 a batch.
    fn guess_by_placement(&mut self, known: &mut Known) {
        for index in (0..known.len()).filter(|&index| known[index].is_none()).collect::<Vec<_>>() {
            let Some((_, placement)) = self.placement_of(index, None) else { continue };
            let word = match placement {
                Placement::Auto(_) if self.signature.arguments[index].ty.dtype.is_float() => {
                    KindWord::Parameter
                }
                Placement::Dim0(_) => KindWord::Batch,
                _ => KindWord::Other,
            };
            known[index] = Some((word, KindSource::Guess));
        }
    }

    /// Parameters and states: what is given back in place.
    fn guess_kept(&self, known: &mut Known, is_donated: &[bool]) {
        let is_kept = |index: &usize| {
            let ty = &self.signature.arguments[*index].ty;
            is_donated[*index] && ty.dtype.is_float() && ty.rank() > 0
        };
        let kept: Vec<usize> = (0..known.len()).filter(is_kept).collect();
        let needed =
            |index: &usize| self.options.needed.as_ref().is_none_or(|n| n.get(*index) == Some(&true));
        // A program that gives nothing but what it keeps tells nothing of what is needed.
        let tells = kept.iter().any(needed);
        for index in kept.into_iter().filter(|&index| known[index].is_none()).collect::<Vec<_>>() {
            let is_cache = self.use_of(index).is_some_and(|use_| use_.is_overwritten);
            let word = match (is_cache, tells && !needed(&index)) {
                (true, _) => KindWord::Other,
                (false, true) => KindWord::State,
                (false, false) => KindWord::Parameter,
            };
            known[index] = Some((word, KindSource::Guess));
        }
    }

    fn guess_batch(&mut self, known: &mut Known, is_donated: &[bool]) {
        let arguments = &self.signature.arguments;
        let is = |index: usize, word| known[index].as_ref().is_some_and(|(known, _)| *known == word);
        let all = || 0..arguments.len();
        if !all().any(|index| is(index, KindWord::Parameter)) {
            return;
        }
        let first_dim = |index: usize| arguments[index].ty.dims().first().copied();
        let may_be =
            |index: &usize| known[*index].is_none() && !is_donated[*index] && has_a_say(&arguments[*index]);
        let unknown: Vec<usize> = all().filter(may_be).collect();
        let batch = all().filter(|&index| is(index, KindWord::Batch)).find_map(first_dim);
        let Some(examples) = batch.or_else(|| unknown.first().and_then(|&index| first_dim(index))) else {
            return;
        };
        let shards: usize = data_axes(self.mesh).filter_map(|axis| self.mesh.axis_size(axis)).product();
        let agree = unknown.iter().all(|&index| first_dim(index) == Some(examples));
        if batch.is_none() && !(agree && examples.is_multiple_of(shards)) {
            let note = no_batch(arguments, &unknown, shards);
            self.notes.push(note);
            return;
        }
        for index in unknown.into_iter().filter(|&index| first_dim(index) == Some(examples)) {
            if examples.is_multiple_of(shards) {
                known[index] = Some((KindWord::Batch, KindSource::Guess));
            }
        }
    }

    /// The parameter of each state.
    fn parameters_of_states(&mut self, known: &Known) -> Vec<Option<usize>> {
        let arguments = &self.signature.arguments;
        let is = |index: &usize, word| known[*index].as_ref().is_some_and(|(known, _)| *known == word);
        let keys = |index: usize| {
            let argument = &arguments[index];
            let path = dotted(&argument.name);
            let last = path.rsplit('.').next().unwrap_or_default().to_owned();
            [(argument.ty.dims(), Some(last)), (argument.ty.dims(), None)]
        };
        let mut by_key: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for index in (0..arguments.len()).filter(|index| is(index, KindWord::Parameter)) {
            keys(index).into_iter().for_each(|key| by_key.entry(key).or_default().push(index));
        }
        let mut seen: BTreeMap<_, usize> = BTreeMap::new();
        let mut parameters = vec![None; arguments.len()];
        for index in (0..arguments.len()).filter(|index| is(index, KindWord::State)) {
            if let ArgumentKind::State { parameter, .. } = arguments[index].kind {
                parameters[index] = Some(parameter);
                continue;
            }
            let Some(key) = keys(index).into_iter().find(|key| by_key.contains_key(key)) else {
                if let Some((_, KindSource::Rule(rule))) = &known[index] {
                    let (argument, ty) = (arguments[index].name.clone(), arguments[index].ty.clone());
                    self.problems.push(RuleProblem::NoParameter { argument, rule: rule.clone(), ty });
                }
                continue;
            };
            // Moments come in the order of the parameters, one set after the other.
            let (candidates, nth) = (&by_key[&key], seen.entry(key.clone()).or_default());
            parameters[index] = Some(candidates[*nth % candidates.len()]);
            *nth += 1;
        }
        parameters
    }
}

/// Whether an argument can be a batch, or tell that others are none.
fn has_a_say(argument: &ArgumentInfo) -> bool {
    const KEY_ELEMENTS: usize = 4;
    let is_key = matches!(argument.ty.dtype, DType::U32 | DType::U64)
        && argument.ty.shape.element_count() <= KEY_ELEMENTS;
    argument.ty.rank() > 0 && !is_key
}

fn no_batch(arguments: &[ArgumentInfo], unknown: &[usize], shards: usize) -> Lint {
    const SHOWN: usize = 4;
    let shown = unknown.iter().take(SHOWN).map(|&i| format!("{} {}", arguments[i].name, arguments[i].ty));
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if unknown.len() > SHOWN {
        shown += &format!(" and {} more", unknown.len() - SHOWN);
    }
    Lint::warning(
        LintCode::NoBatch,
        "",
        format!(
            "which arguments are the batch is unclear, and none is split: dim 0 of {shown} is not one size that {shards} divides"
        ),
        format!("say which is, as in --shard '{}=batch'", dotted(&arguments[unknown[0]].name)),
    )
}
