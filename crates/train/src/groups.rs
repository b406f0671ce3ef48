//! Parameter groups: which parameters are trained, and with which constants.

use std::collections::BTreeSet;

use shardwright_model::ParameterInfo;
use shardwright_partition::ModulePattern;
use thiserror::Error;

use crate::Model;

/// How parameters are grouped: the constants of all, and rules for some.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupConfig {
    /// The learning rate at its highest.
    pub learning_rate: f64,
    /// Weight decay of all parameters but biases and norms.
    pub weight_decay: f64,
    /// What is different for some. Of several rules that cover a parameter, the last counts.
    pub rules: Vec<GroupRule>,
}

/// What is different for the parameters of some modules.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRule {
    /// The modules or parameters.
    pub pattern: ModulePattern,
    /// Their learning rate at its highest.
    pub learning_rate: Option<f64>,
    /// Their weight decay, biases and norms among them.
    pub weight_decay: Option<f64>,
    /// Whether they are trained. Those that are not have no gradient and no optimizer state.
    pub trained: bool,
}

/// The constants that a group of parameters is updated with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The learning rate at its highest.
    pub learning_rate: f64,
    /// Weight decay.
    pub weight_decay: f64,
}

/// The groups of a model's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGroups {
    groups: Vec<Group>,
    of: Vec<Option<usize>>,
}

/// Why parameters cannot be grouped, or gradients clipped, as was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A pattern that names nothing of the model.
    #[error("pattern {pattern}, {purpose}, covers none of the model's {parameters} parameters; near it are {}", .nearest.join(", "))]
    CoversNothing {
        /// The pattern.
        pattern: ModulePattern,
        /// What it was given for.
        purpose: &'static str,
        /// How many parameters there are.
        parameters: usize,
        /// What the model has that is called most like it.
        nearest: Vec<String>,
    },
    /// Rules that leave nothing to train.
    #[error(
        "no parameter is trained: the rules freeze all {parameters} of the model; a later rule can have some trained again"
    )]
    NothingTrained {
        /// How many parameters there are.
        parameters: usize,
    },
}

impl Default for GroupConfig {
    /// Trainer's defaults.
    fn default() -> Self {
        GroupConfig { learning_rate: 5e-5, weight_decay: 0.0, rules: Vec::new() }
    }
}

impl ParameterGroups {
    /// Groups the parameters of a model.
    ///
    /// # Errors
    /// When a rule covers no parameter, or none is trained.
    pub fn new(config: &GroupConfig, model: &dyn Model) -> Result<ParameterGroups, GroupError> {
        ParameterGroups::of_parameters(config, &model.parameters(), |parameter| model.trains(parameter))
    }

    fn of_parameters(
        config: &GroupConfig,
        parameters: &[ParameterInfo],
        can_be_trained: impl Fn(&ParameterInfo) -> bool,
    ) -> Result<ParameterGroups, GroupError> {
        for rule in &config.rules {
            check_covers(&rule.pattern, "of a parameter group", parameters)?;
        }
        let mut groups: Vec<Group> = Vec::new();
        let mut index = |group: Group| {
            groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            })
        };
        let group = |p: &ParameterInfo| can_be_trained(p).then(|| config.group(p)).flatten();
        let of: Vec<Option<usize>> = parameters.iter().map(|p| group(p).map(&mut index)).collect();
        if groups.is_empty() {
            return Err(GroupError::NothingTrained { parameters: parameters.len() });
        }
        Ok(ParameterGroups { groups, of })
    }

    /// The constants of each group.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group of the parameter with this index; `None` if it is not trained.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn of(&self, parameter: usize) -> Option<usize> {
        self.of[parameter]
    }

    /// The indices of the parameters that are trained, in their order.
    pub fn trained(&self) -> impl Iterator<Item = usize> {
        self.of.iter().enumerate().filter_map(|(index, group)| group.map(|_| index))
    }
}

impl GroupConfig {
    fn group(&self, parameter: &ParameterInfo) -> Option<Group> {
        let rule = self.rules.iter().rev().find(|rule| rule.pattern.covers(&parameter.name));
        if rule.is_some_and(|rule| !rule.trained) {
            return None;
        }
        let decay = if parameter.kind.decays() { self.weight_decay } else { 0.0 };
        Some(Group {
            learning_rate: rule.and_then(|rule| rule.learning_rate).unwrap_or(self.learning_rate),
            weight_decay: rule.and_then(|rule| rule.weight_decay).unwrap_or(decay),
        })
    }
}

/// Checks that a pattern covers a parameter of the model.
pub(crate) fn check_covers(
    pattern: &ModulePattern,
    purpose: &'static str,
    parameters: &[ParameterInfo],
) -> Result<(), GroupError> {
    if parameters.iter().any(|p| pattern.covers(&p.name)) {
        return Ok(());
    }
    let (pattern, nearest) = (pattern.clone(), nearest(&pattern.to_string(), parameters));
    Err(GroupError::CoversNothing { pattern, purpose, parameters: parameters.len(), nearest })
}

/// The patterns of words that follow each other in names of parameters that are most like a text. Numbers are `*`.
fn nearest(text: &str, parameters: &[ParameterInfo]) -> Vec<String> {
    const SHOWN: usize = 3;
    let folded = |name: &str| -> Vec<String> {
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        name.split('.').map(|word| if is_number(word) { "*" } else { word }.to_owned()).collect()
    };
    let names: BTreeSet<Vec<String>> = parameters.iter().map(|p| folded(&p.name)).collect();
    let parts = |words: &Vec<String>| -> Vec<String> {
        let starts = 0..words.len();
        starts
            .flat_map(|start| (start + 1..=words.len()).map(move |end| words[start..end].join(".")))
            .collect()
    };
    let patterns: BTreeSet<String> = names.iter().flat_map(parts).filter(|part| part != "*").collect();
    let text = folded(text).join(".");
    let likeness = |pattern: &String| strsim::jaro_winkler(&text, pattern);
    let mut patterns: Vec<String> = patterns.into_iter().collect();
    patterns.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    patterns.truncate(SHOWN);
    patterns
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_model::{Init, ParameterKind};

    use super::*;

    fn parameters() -> Vec<ParameterInfo> {
        let info = |(name, kind): (&str, ParameterKind)| {
            let (name, shape) = (name.to_owned(), vec![4]);
            ParameterInfo { name, shape, init: Init::Ones, kind }
        };
        let named = [
            ("model.embed_tokens.weight", ParameterKind::Embedding),
            ("model.layers.0.mlp.up_proj.weight", ParameterKind::Matrix),
            ("model.layers.0.mlp.up_proj.bias", ParameterKind::Bias),
            ("model.layers.1.mlp.up_proj.weight", ParameterKind::Matrix),
            ("model.norm.weight", ParameterKind::Norm),
        ];
        named.map(info).into()
    }

    fn rule(
        pattern: &str,
        learning_rate: Option<f64>,
        weight_decay: Option<f64>,
        trained: bool,
    ) -> GroupRule {
        GroupRule { pattern: pattern.parse().unwrap(), learning_rate, weight_decay, trained }
    }

    #[track_caller]
    fn check(rules: Vec<GroupRule>, expected: Expect) {
        let config = GroupConfig { learning_rate: 0.5, weight_decay: 0.1, rules };
        let parameters = parameters();
        let text = match ParameterGroups::of_parameters(&config, &parameters, |_| true) {
            Err(error) => error.to_string(),
            Ok(groups) => {
                let group = |index| groups.of(index).map(|group| groups.groups()[group]);
                let line = |(index, parameter): (usize, &ParameterInfo)| match group(index) {
                    None => format!("{}: frozen\n", parameter.name),
                    Some(Group { learning_rate, weight_decay }) => {
                        format!("{}: {learning_rate}, decay {weight_decay}\n", parameter.name)
                    }
                };
                parameters.iter().enumerate().map(line).collect()
            }
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn the_last_rule_that_covers_a_parameter_counts() {
        check(
            vec![],
            expect![[r#"
            model.embed_tokens.weight: 0.5, decay 0.1
            model.layers.0.mlp.up_proj.weight: 0.5, decay 0.1
            model.layers.0.mlp.up_proj.bias: 0.5, decay 0
            model.layers.1.mlp.up_proj.weight: 0.5, decay 0.1
            model.norm.weight: 0.5, decay 0
        "#]],
        );
        let rules = vec![
            rule("layers", None, None, false),
            rule("layers.1", Some(0.25), None, true),
            rule("norm", None, Some(0.01), true),
        ];
        check(
            rules,
            expect![[r#"
            model.embed_tokens.weight: 0.5, decay 0.1
            model.layers.0.mlp.up_proj.weight: frozen
            model.layers.0.mlp.up_proj.bias: frozen
            model.layers.1.mlp.up_proj.weight: 0.25, decay 0.1
            model.norm.weight: 0.5, decay 0.01
        "#]],
        );
    }

    #[test]
    fn rules_that_cover_nothing_are_errors() {
        check(
            vec![rule("layers.*.mpl", None, None, true)],
            expect![
                "pattern layers.*.mpl, of a parameter group, covers none of the model's 5 parameters; near it are layers.*.mlp, layers.*, layers.*.mlp.up_proj"
            ],
        );
        check(
            vec![rule("layers.7.mlp.up_proj", None, None, false)],
            expect![
                "pattern layers.7.mlp.up_proj, of a parameter group, covers none of the model's 5 parameters; near it are layers.*.mlp.up_proj, layers.*.mlp.up_proj.bias, layers.*.mlp.up_proj.weight"
            ],
        );
        check(
            vec![rule("lm_head", None, None, false)],
            expect![
                "pattern lm_head, of a parameter group, covers none of the model's 5 parameters; near it are model.layers, model.norm, model"
            ],
        );
    }

    #[test]
    fn something_has_to_be_trained() {
        check(
            vec![rule("model", None, None, false)],
            expect![
                "no parameter is trained: the rules freeze all 5 of the model; a later rule can have some trained again"
            ],
        );
    }
}
