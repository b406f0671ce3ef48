//! Which modules of a model are units of their own: where activations are pinned, and what is rematerialised.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::{ModulePattern, WrapConfig};

/// One module of a model, as the model's author named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelModule {
    /// Where in the model: `model.layers.3`; empty for the whole.
    pub path: String,
    /// What it is an instance of: `LlamaDecoderLayer`.
    pub class: String,
    /// How many numbers its parameters hold, those of the modules inside it included.
    pub parameters: u64,
}

/// The modules that are wrapped. The model as a whole always is, and is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrapPolicy {
    paths: BTreeSet<String>,
    kept: BTreeSet<String>,
}

/// A wrap policy that does not fit the model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WrapError {
    /// A class of which the model has no module.
    #[error("the model has no module of class {class} to wrap; it has {}{}", known.join(", "), nearest(.class, known))]
    UnknownClass {
        /// The class that was asked for.
        class: String,
        /// The classes that there are, in order of appearance.
        known: Vec<String>,
    },
}

fn nearest(class: &str, known: &[String]) -> String {
    let distance = |k: &&String| strsim::damerau_levenshtein(&k.to_lowercase(), &class.to_lowercase());
    let best = known.iter().min_by_key(distance).filter(|k| distance(k) <= class.len() / 3);
    best.map(|k| format!("; did you mean {k}?")).unwrap_or_default()
}

impl WrapPolicy {
    /// Works out which of a model's modules a configuration wraps.
    ///
    /// `modules` lists parents before children, and otherwise in the order in which they are run. `default_classes` are
    /// the ones that the model itself says its layers are.
    ///
    /// # Errors
    /// When a class is named that none of the modules is of.
    pub fn resolve(
        config: &WrapConfig,
        modules: &[ModelModule],
        default_classes: &[&str],
    ) -> Result<WrapPolicy, WrapError> {
        let paths = match config {
            WrapConfig::None => BTreeSet::new(),
            WrapConfig::Size(minimum) => by_size(modules, *minimum),
            WrapConfig::Classes(classes) => by_class(modules, classes.iter().map(String::as_str))?,
            WrapConfig::ModelDefault => by_class(modules, default_classes.iter().copied())?,
        };
        let is_outer = |path: &String| !paths.iter().any(|other| is_inside(path, other));
        let last = modules.iter().rev().map(|m| &m.path).find(|path| paths.contains(*path) && is_outer(path));
        let kept = last.cloned().into_iter().collect();
        Ok(WrapPolicy { paths, kept })
    }

    /// The same policy, with other units that keep their parameters gathered.
    pub fn keeping_gathered(self, modules: &[ModulePattern]) -> WrapPolicy {
        let is_kept = |path: &&String| modules.iter().any(|pattern| pattern.covers(path));
        WrapPolicy { kept: self.paths.iter().filter(is_kept).cloned().collect(), paths: self.paths }
    }

    /// Whether the module at this path is wrapped.
    pub fn wraps(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether the wrapped module at this path keeps its parameters gathered until its backward pass, where strategies
    /// that reshard would free them. The unit that is run last does, since its backward pass follows at once.
    pub fn keeps_gathered(&self, path: &str) -> bool {
        self.kept.contains(path)
    }

    /// How many modules are wrapped.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether only the model as a whole is a unit.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

fn by_class<'a>(
    modules: &[ModelModule],
    classes: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<String>, WrapError> {
    let mut paths = BTreeSet::new();
    for class in classes {
        let of_class = modules.iter().filter(|m| m.class == class);
        let found: Vec<String> = of_class.map(|m| m.path.clone()).collect();
        if found.is_empty() {
            let mut known: Vec<String> = Vec::new();
            for module in modules {
                if !known.contains(&module.class) {
                    known.push(module.class.clone());
                }
            }
            return Err(WrapError::UnknownClass { class: class.to_owned(), known });
        }
        paths.extend(found);
    }
    paths.remove("");
    Ok(paths)
}

/// Whether a module lies inside another one.
fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

/// Wraps, children first, each module whose parameters that are not wrapped yet come to the minimum. A minimum of 0
/// turns the policy off.
fn by_size(modules: &[ModelModule], minimum: u64) -> BTreeSet<String> {
    let mut wrapped: Vec<&ModelModule> = Vec::new();
    if minimum > 0 {
        for module in modules.iter().rev().filter(|m| !m.path.is_empty()) {
            let inside = |m: &&&ModelModule| is_inside(&m.path, &module.path);
            // Of what lies inside, each number is counted once: in the outermost wrapped module.
            let inner: Vec<&&ModelModule> = wrapped.iter().filter(inside).collect();
            let nested = |m: &ModelModule| inner.iter().any(|o| is_inside(&m.path, &o.path));
            let taken: u64 = inner.iter().filter(|m| !nested(m)).map(|m| m.parameters).sum();
            if module.parameters.saturating_sub(taken) >= minimum {
                wrapped.push(module);
            }
        }
    }
    wrapped.into_iter().map(|m| m.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn model() -> Vec<ModelModule> {
        let module = |(path, class, parameters): (&str, &str, u64)| ModelModule {
            path: path.into(),
            class: class.into(),
            parameters,
        };
        [
            ("", "LlamaForCausalLM", 1600),
            ("model.embed_tokens", "Embedding", 500),
            ("model.layers.0", "LlamaDecoderLayer", 300),
            ("model.layers.0.mlp", "LlamaMLP", 200),
            ("model.layers.1", "LlamaDecoderLayer", 300),
            ("model.layers.1.mlp", "LlamaMLP", 200),
            ("lm_head", "Linear", 500),
        ]
        .map(module)
        .to_vec()
    }

    #[track_caller]
    fn check(config: WrapConfig, expect: Expect) {
        let text = match WrapPolicy::resolve(&config, &model(), &["LlamaDecoderLayer"]) {
            Ok(policy) => policy.paths.into_iter().collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn the_unit_that_is_run_last_keeps_its_parameters() {
        let kept = |config, patterns: Option<&[&str]>| {
            let mut policy = WrapPolicy::resolve(&config, &model(), &["LlamaDecoderLayer"]).unwrap();
            if let Some(patterns) = patterns {
                let patterns: Vec<ModulePattern> = patterns.iter().map(|p| p.parse().unwrap()).collect();
                policy = policy.keeping_gathered(&patterns);
            }
            let modules = model();
            let paths = modules.iter().map(|m| m.path.as_str()).filter(|path| policy.keeps_gathered(path));
            paths.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept(WrapConfig::ModelDefault, None), "model.layers.1");
        assert_eq!(kept(classes(&["LlamaMLP", "LlamaDecoderLayer"]), None), "model.layers.1");
        assert_eq!(kept(WrapConfig::Size(250), None), "lm_head");
        assert_eq!(kept(WrapConfig::None, None), "");
        assert_eq!(kept(WrapConfig::ModelDefault, Some(&[])), "");
        assert_eq!(kept(WrapConfig::ModelDefault, Some(&["layers.0", "lm_head"])), "model.layers.0");
    }

    fn classes(names: &[&str]) -> WrapConfig {
        WrapConfig::Classes(names.iter().map(|&n| n.into()).collect())
    }

    #[test]
    fn classes_are_looked_up_in_the_model() {
        check(classes(&["LlamaDecoderLayer"]), expect!["model.layers.0 model.layers.1"]);
        check(WrapConfig::ModelDefault, expect!["model.layers.0 model.layers.1"]);
        check(WrapConfig::None, expect![""]);
        check(classes(&["LlamaForCausalLM"]), expect![""]);
        check(
            classes(&["LLaMADecoderLayer"]),
            expect![[
                "the model has no module of class LLaMADecoderLayer to wrap; it has LlamaForCausalLM, Embedding, \
                 LlamaDecoderLayer, LlamaMLP, Linear; did you mean LlamaDecoderLayer?"
            ]],
        );
        check(
            classes(&["LlamaDecoderLayer", "Foo"]),
            expect![[
                "the model has no module of class Foo to wrap; it has LlamaForCausalLM, Embedding, LlamaDecoderLayer, \
                 LlamaMLP, Linear"
            ]],
        );
    }

    #[test]
    fn sizes_count_what_is_left_unwrapped() {
        check(WrapConfig::Size(0), expect![""]);
        check(WrapConfig::Size(400), expect!["lm_head model.embed_tokens"]);
        check(WrapConfig::Size(250), expect!["lm_head model.embed_tokens model.layers.0 model.layers.1"]);
        check(
            WrapConfig::Size(150),
            expect!["lm_head model.embed_tokens model.layers.0.mlp model.layers.1.mlp"],
        );
        check(
            WrapConfig::Size(100),
            expect![[
                "lm_head model.embed_tokens model.layers.0 model.layers.0.mlp model.layers.1 model.layers.1.mlp"
            ]],
        );
    }
}
