//! Parameter groups: which parameters are trained, and with which constants.

use shardwright_model::ParameterInfo;
use shardwright_partition::ModulePattern;

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

impl Default for GroupConfig {
    /// Trainer's defaults.
    fn default() -> Self {
        GroupConfig { learning_rate: 5e-5, weight_decay: 0.0, rules: Vec::new() }
    }
}

impl ParameterGroups {
    /// Groups the parameters of a model.
    pub fn new(config: &GroupConfig, parameters: &[ParameterInfo]) -> ParameterGroups {
        let mut groups: Vec<Group> = Vec::new();
        let mut index = |group: Group| {
            groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            })
        };
        let of = parameters.iter().map(|p| config.group(p).map(&mut index)).collect();
        ParameterGroups { groups, of }
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
