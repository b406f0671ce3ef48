//! Which modules a configuration names, by PEFT's rules.

use fancy_regex::{Expr, Regex};

use super::resolve::{OUTPUT_TABLE, PROJECTION};
use super::{LoraConfig, LoraModules, LoraProblem};
use crate::ModuleInfo;

type Result<T> = std::result::Result<T, LoraProblem>;

/// What decides whether a module gets an adapter.
pub(super) struct Targets<'c> {
    config: &'c LoraConfig,
    wanted: Choice<'c>,
    excluded: Option<Choice<'c>>,
}

enum Choice<'c> {
    AllLinear,
    Names(&'c [String]),
    Pattern(Pattern<'c>),
}

impl<'c> Targets<'c> {
    pub(super) fn new(config: &'c LoraConfig) -> Result<Targets<'c>> {
        let excluded = config.exclude_modules.as_ref();
        Ok(Targets {
            config,
            wanted: Choice::new("target_modules", &config.target_modules)?,
            excluded: excluded.map(|modules| Choice::new("exclude_modules", modules)).transpose()?,
        })
    }

    pub(super) fn has(&self, module: &ModuleInfo) -> Result<bool> {
        let path = module.path.as_str();
        let is_excluded = self.excluded.as_ref().map_or(Ok(false), |excluded| excluded.has(module))?;
        // What is trained in full needs no adapter, and neither does what lies in it.
        let is_saved = |name: &String| format!(".{path}.").contains(&format!(".{name}."));
        if is_excluded || self.config.modules_to_save.iter().any(is_saved) {
            return Ok(false);
        }
        Ok(self.wanted.has(module)? && (self.is_named_in_full(path) || self.is_in_layers(path)))
    }

    fn is_named_in_full(&self, path: &str) -> bool {
        matches!(self.wanted, Choice::Names(names) if names.iter().any(|name| name == path))
    }

    /// Whether a module is in one of the layers that are wanted.
    fn is_in_layers(&self, path: &str) -> bool {
        let Some(wanted) = &self.config.layers_to_transform else { return true };
        let Some(layer) = path.strip_prefix("model.layers.") else { return false };
        let pattern = &self.config.layers_pattern;
        let is_our_list = |name: &String| name == "layers" || name == "model.layers";
        let index = layer.split('.').next().and_then(|index| index.parse().ok());
        (pattern.is_empty() || pattern.iter().any(is_our_list)) && index.is_some_and(|i| wanted.contains(&i))
    }
}

impl<'c> Choice<'c> {
    fn new(field: &'static str, modules: &'c LoraModules) -> Result<Choice<'c>> {
        Ok(match modules {
            modules if modules.is_all_linear() => Choice::AllLinear,
            LoraModules::Names(names) => Choice::Names(names),
            LoraModules::Pattern(text) => Choice::Pattern(Pattern::of_path(field, text)?),
        })
    }

    fn has(&self, module: &ModuleInfo) -> Result<bool> {
        match self {
            Choice::AllLinear => Ok(module.class == PROJECTION && module.path != OUTPUT_TABLE),
            Choice::Names(names) => Ok(names.iter().any(|name| is_named(&module.path, name))),
            Choice::Pattern(pattern) => pattern.matches(&module.path),
        }
    }
}

/// Whether a path is `name`, or ends with it.
pub(super) fn is_named(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// More than any path has characters. The matcher counts what it takes back, but not how often it goes on, and its sizes
/// may overflow.
const MOST_REPETITIONS: usize = 1000;

/// A regular expression, as Python has them.
pub(super) struct Pattern<'c> {
    field: &'static str,
    text: &'c str,
    regex: Regex,
}

impl<'c> Pattern<'c> {
    /// Of a whole path.
    fn of_path(field: &'static str, text: &'c str) -> Result<Pattern<'c>> {
        Pattern::new(field, text, &format!(r"\A(?:{text})\z"))
    }

    /// Of a whole path, or of what follows one of its dots.
    pub(super) fn of_end(field: &'static str, text: &'c str) -> Result<Pattern<'c>> {
        Pattern::new(field, text, &format!(r"\A(?:.*\.)?(?:{text})\z"))
    }

    fn new(field: &'static str, text: &'c str, regex: &str) -> Result<Pattern<'c>> {
        let tree = Expr::parse_tree(regex).map_err(|error| problem(field, text, &error))?;
        if repetitions(&tree.expr) > MOST_REPETITIONS {
            let message = format!("a part of it has to be there more than {MOST_REPETITIONS} times");
            return Err(problem(field, text, &message));
        }
        let regex = Regex::new(regex).map_err(|error| problem(field, text, &error))?;
        Ok(Pattern { field, text, regex })
    }

    pub(super) fn matches(&self, path: &str) -> Result<bool> {
        self.regex.is_match(path).map_err(|error| problem(self.field, self.text, &error))
    }
}

/// How often a part of an expression has to be there at least, where it is there most often.
fn repetitions(expression: &Expr) -> usize {
    match expression {
        Expr::Repeat { child, lo, .. } => repetitions(child).saturating_mul(*lo.max(&1)),
        Expr::Group(inner) | Expr::LookAround(inner, _) | Expr::AtomicGroup(inner) => repetitions(inner),
        Expr::Concat(parts) | Expr::Alt(parts) => parts.iter().map(repetitions).max().unwrap_or(1),
        Expr::Conditional { condition, true_branch, false_branch } => [condition, true_branch, false_branch]
            .map(|part| repetitions(part))
            .into_iter()
            .max()
            .unwrap_or(1),
        _ => 1,
    }
}

fn problem(field: &'static str, pattern: &str, reason: &dyn std::fmt::Display) -> LoraProblem {
    LoraProblem::Pattern { field, pattern: pattern.to_owned(), message: reason.to_string() }
}
