//! The adapters that a configuration means for a model.

use std::collections::{BTreeMap, BTreeSet};

use super::targets::{Pattern, Targets, is_named};
use super::{Adapter, Lora, LoraConfig, LoraModules, LoraProblem};
use crate::{ModelConfig, ModuleInfo, modules, parameters};

type Result<T> = std::result::Result<T, LoraProblem>;

/// The class of modules that can have adapters.
pub(super) const PROJECTION: &str = "Linear";
pub(super) const OUTPUT_TABLE: &str = "lm_head";
const INPUT_TABLE: &str = "model.embed_tokens";
/// More features than any rank that makes sense.
const MOST_FEATURES: usize = 1 << 20;

pub(super) fn resolve(config: &LoraConfig, model: &ModelConfig) -> Result<Lora> {
    let modules = modules(model);
    let ranks = Ranks::new(config)?;
    let targets = Targets::new(config)?;
    let shapes: BTreeMap<String, Vec<usize>> =
        parameters(model).into_iter().map(|p| (p.name, p.shape)).collect();
    let mut adapters = Vec::new();
    for module in &modules {
        if !targets.has(module)? {
            continue;
        }
        check_target(module, model, &modules)?;
        let Some([output, input]) = shapes.get(&format!("{}.weight", module.path)).map(Vec::as_slice) else {
            unreachable!("all projections but a tied table have a matrix");
        };
        adapters.push(ranks.adapter(&module.path, [*output, *input])?);
    }
    if adapters.is_empty() {
        return Err(LoraProblem::NoTarget {
            targets: described(&config.target_modules),
            projections: projections(&modules),
        });
    }
    Ok(Lora {
        scales: adapters.iter().map(|a| (a.path.clone(), a.scale)).collect(),
        adapters,
        saved_modules: saved_modules(config, model, &modules, &shapes)?,
        unmatched: unmatched(config, &modules),
        config: config.clone(),
    })
}

/// Whether a module can have an adapter.
fn check_target(module: &ModuleInfo, model: &ModelConfig, all: &[ModuleInfo]) -> Result<()> {
    let path = module.path.clone();
    if module.class != PROJECTION {
        return Err(LoraProblem::NotProjection { path, class: module.class, projections: projections(all) });
    }
    if path == OUTPUT_TABLE && model.tie_word_embeddings() {
        return Err(LoraProblem::Tied { field: "target_modules", path });
    }
    Ok(())
}

/// Ranks and scales, by the names of projections.
struct Ranks<'c> {
    config: &'c LoraConfig,
    ranks: Vec<(Pattern<'c>, usize)>,
    alphas: Vec<(Pattern<'c>, f64)>,
}

impl<'c> Ranks<'c> {
    fn new(config: &'c LoraConfig) -> Result<Ranks<'c>> {
        Ok(Ranks {
            config,
            ranks: patterns("rank_pattern", &config.rank_pattern)?,
            alphas: patterns("alpha_pattern", &config.alpha_pattern)?,
        })
    }

    fn adapter(&self, path: &str, shape: [usize; 2]) -> Result<Adapter> {
        let rank = first_match(&self.ranks, path)?.unwrap_or(self.config.r);
        let alpha = first_match(&self.alphas, path)?.unwrap_or(self.config.lora_alpha);
        if !(1..=MOST_FEATURES).contains(&rank) {
            return Err(LoraProblem::Unsupported {
                field: format!("the rank r of {path}"),
                found: rank.to_string(),
                supported: "1 to 1048576",
            });
        }
        let divisor = if self.config.use_rslora { (rank as f64).sqrt() } else { rank as f64 };
        Ok(Adapter { path: path.to_owned(), shape, rank, scale: alpha / divisor })
    }
}

fn patterns<'c, T: Copy>(field: &'static str, pairs: &'c [(String, T)]) -> Result<Vec<(Pattern<'c>, T)>> {
    pairs.iter().map(|(text, value)| Ok((Pattern::of_end(field, text)?, *value))).collect()
}

/// What the first pattern that fits says of a path.
fn first_match<T: Copy>(patterns: &[(Pattern<'_>, T)], path: &str) -> Result<Option<T>> {
    for (pattern, value) in patterns {
        if pattern.matches(path)? {
            return Ok(Some(*value));
        }
    }
    Ok(None)
}

/// The paths of the modules that are trained in full.
fn saved_modules(
    config: &LoraConfig,
    model: &ModelConfig,
    all: &[ModuleInfo],
    shapes: &BTreeMap<String, Vec<usize>>,
) -> Result<BTreeSet<String>> {
    let mut saved = BTreeSet::new();
    for name in &config.modules_to_save {
        let mut named = all.iter().filter(|module| module.path.ends_with(name.as_str())).peekable();
        if name.is_empty() || named.peek().is_none() {
            return Err(LoraProblem::NoSavedModule { name: name.clone() });
        }
        for ModuleInfo { path, class } in named {
            if model.tie_word_embeddings() && [OUTPUT_TABLE, INPUT_TABLE].contains(&path.as_str()) {
                return Err(LoraProblem::Tied { field: "modules_to_save", path: path.clone() });
            }
            if !shapes.contains_key(&format!("{path}.weight")) {
                return Err(LoraProblem::HoldsOthers { path: path.clone(), class });
            }
            saved.insert(path.clone());
        }
    }
    Ok(saved)
}

/// The names of target modules that the model does not have.
fn unmatched(config: &LoraConfig, all: &[ModuleInfo]) -> Vec<String> {
    let LoraModules::Names(names) = &config.target_modules else { return Vec::new() };
    let is_missing = |name: &&String| !all.iter().any(|module| is_named(&module.path, name));
    names.iter().filter(is_missing).cloned().collect()
}

fn described(modules: &LoraModules) -> String {
    match modules {
        LoraModules::Names(names) => format!("{names:?}"),
        LoraModules::Pattern(text) => format!("{text:?}"),
    }
}

/// The names of the model's projections, each once.
fn projections(all: &[ModuleInfo]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for module in all.iter().filter(|module| module.class == PROJECTION) {
        let name = module.path.rsplit('.').next().unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
