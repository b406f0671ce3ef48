//! The FSDP configuration file and the `--fsdp` flag: what was written, and what it means.
//!
//! Three families of files say the same things with other words: the FSDPv2 file of four `xla…` keys,
//! the Trainer's `fsdp_config`, and Accelerate's `fsdp_…` section. [`FsdpConfig`] is the one small
//! meaning they share. Reading has two steps, and only the second one decides anything:
//!
//! 1. `raw`: every key is looked up in one table ([`FsdpConfig::keys_help`] prints it), its value is read
//!    as the kind the table states, and spellings of one key are merged.
//! 2. `meaning`: the keys that interact (wrapping, recomputation, strategy) become the public fields.
//!
//! Rules that hold for every key:
//!
//! - The prefix `fsdp_` is optional. Two spellings of a key must agree.
//! - `null` is the same as leaving the key out.
//! - A boolean is `true`, `false`, `1`, `0`, or the text `true`, `false`, `yes`, `no`, `1`, `0` in any case.
//! - Names of choices may be in any case.
//! - A list of classes is a list of texts, or one text with commas.
//! - An unknown key is an error, unless the caller allows it ([`UnknownKeys::Allow`]).
//! - A request that would change what is computed or kept, and that cannot be met, is an error. A hint
//!   that only moves work in time is a [`Notice`].
//!
//! All problems of a file are reported together. Nothing here touches a file system or a mesh: the caller
//! passes the text, and a name for it that errors repeat.
//!
//! ```
//! use shardwright_partition::{FsdpConfig, WrapConfig};
//!
//! let text = r#"{"fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
//!                "xla": true, "xla_fsdp_v2": true, "xla_fsdp_grad_ckpt": true}"#;
//! let (config, notices) = FsdpConfig::parse(text, "fsdp_config.json")?;
//! assert_eq!(config.wrap, WrapConfig::Classes(vec!["LlamaDecoderLayer".to_owned()]));
//! assert!(config.grad_ckpt && notices.is_empty());
//! # Ok::<(), shardwright_partition::FsdpConfigError>(())
//! ```

mod error;
mod keys;
mod meaning;
mod mixed_precision;
mod notice;
mod raw;
mod strategy;
mod value;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value, json};

pub use self::error::{FsdpConfigError, KeyProblem, StrategyError};
pub use self::mixed_precision::MixedPrecision;
pub use self::notice::Notice;
pub use self::strategy::{FsdpFlag, ShardingRequest, Strategy};

use self::raw::RawConfig;
use crate::{ModulePattern, TensorPlan, TensorRule};

/// What an FSDP configuration file asks for.
///
/// The default is the meaning of an empty file, and of no file at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsdpConfig {
    /// Which parts of the model become units.
    pub wrap: WrapConfig,
    /// Whether each wrapped unit is computed again in backward instead of keeping its activations.
    /// `xla_fsdp_grad_ckpt` and `activation_checkpointing` both ask for this; asking twice is asking once.
    pub grad_ckpt: bool,
    /// What the file says about the sharding strategy. The flag has a say too: see
    /// [`resolve_strategy`](Self::resolve_strategy).
    pub sharding: Option<ShardingRequest>,
    /// The form in which checkpoints are asked for. Whoever writes only [`Full`](StateDictType::Full) ones, as all do
    /// so far, passes on the [`Notice`] that says so.
    pub state_dict_type: StateDictType,
    /// Modules whose parameters are not sharded.
    pub ignored: Vec<ModulePattern>,
    /// The wrapped units that keep their parameters gathered until their backward pass; by default the last one. See
    /// [`WrapPolicy::keeps_gathered`](crate::WrapPolicy::keeps_gathered).
    pub keep_gathered: Option<Vec<ModulePattern>>,
    /// How modules are split over a tensor axis; by default as the model itself says.
    pub tensor: Option<TensorPlan>,
    /// The dtypes of computation and reduction; by default those of the run.
    pub mixed_precision: Option<MixedPrecision>,
}

/// Which parts of the model become FSDP units. The whole model is always one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WrapConfig {
    /// Every layer of one of these classes. An empty list wraps nothing.
    Classes(Vec<String>),
    /// Every module that still has at least so many unwrapped parameters. Zero wraps nothing.
    Size(u64),
    /// The classes which the model itself names as its layers.
    #[default]
    ModelDefault,
    /// Nothing inside the model.
    None,
}

/// The form of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateDictType {
    /// Whole tensors.
    #[default]
    Full,
    /// Shards with global names and index ranges, readable on another mesh.
    Sharded,
    /// Each device's shards as they are, readable on the same mesh only.
    Local,
}

/// What to do with a key that no table lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownKeys {
    /// It is an error, with the nearest known key.
    #[default]
    Refuse,
    /// It is a [`Notice`].
    Allow,
}

impl FsdpConfig {
    /// Reads the text of a configuration file. `origin` names it in errors.
    ///
    /// # Errors
    /// When the text is not a JSON object, or some of its keys cannot be understood or met.
    pub fn parse(text: &str, origin: &str) -> Result<(Self, Vec<Notice>), FsdpConfigError> {
        Self::parse_with(text, origin, UnknownKeys::default())
    }

    /// [`parse`](Self::parse), with a say on unknown keys.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn parse_with(
        text: &str,
        origin: &str,
        unknown: UnknownKeys,
    ) -> Result<(Self, Vec<Notice>), FsdpConfigError> {
        Self::parse_over(text, origin, unknown, &[])
    }

    /// [`parse_with`](Self::parse_with), where keys that the text does not have may be in [variables](Self::variables),
    /// which are given by name and value.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse), and when a variable that counts cannot be understood or met.
    pub fn parse_over(
        text: &str,
        origin: &str,
        unknown: UnknownKeys,
        variables: &[(String, String)],
    ) -> Result<(Self, Vec<Notice>), FsdpConfigError> {
        Self::from_entries(Some(raw::parse_entries(text, origin)?), origin, unknown, variables)
    }

    /// Reads a configuration that is in variables only.
    ///
    /// # Errors
    /// When a variable cannot be understood or met.
    pub fn from_variables(variables: &[(String, String)]) -> Result<(Self, Vec<Notice>), FsdpConfigError> {
        Self::from_entries(None, "environment", UnknownKeys::default(), variables)
    }

    /// The names of the variables that Accelerate's launcher sets, one for each spelling of a key: `FSDP_` and the key in
    /// capitals.
    pub fn variables() -> impl Iterator<Item = String> {
        keys::variables()
    }

    /// Reads a configuration that is already a JSON object; the rules are the same as for a file.
    ///
    /// # Errors
    /// When some keys cannot be understood or met.
    pub fn from_map(
        map: Map<String, Value>,
        origin: &str,
        unknown: UnknownKeys,
    ) -> Result<(Self, Vec<Notice>), FsdpConfigError> {
        Self::from_entries(Some(map.into_iter().collect()), origin, unknown, &[])
    }

    fn from_entries(
        file: Option<Vec<(String, Value)>>,
        origin: &str,
        unknown: UnknownKeys,
        variables: &[(String, String)],
    ) -> Result<(Self, Vec<Notice>), FsdpConfigError> {
        let mut findings = Findings::default();
        let raw = RawConfig::read(file, variables, unknown, &mut findings);
        let config = meaning::of(&raw, &mut findings);
        if findings.problems.is_empty() {
            Ok((config, findings.notices))
        } else {
            Err(FsdpConfigError::Keys { origin: origin.to_owned(), problems: findings.problems })
        }
    }

    /// The strategy to train with: what the flag names, what the file asks for, or `full_shard`.
    ///
    /// To print or save the configuration as it took effect, store the answer in
    /// [`sharding`](Self::sharding). `origin` names the file in errors.
    ///
    /// # Errors
    /// When the flag names a strategy which the file contradicts.
    pub fn resolve_strategy(&self, flag: Option<Strategy>, origin: &str) -> Result<Strategy, StrategyError> {
        match (flag, self.sharding) {
            (None, request) => Ok(request.map_or(Strategy::default(), ShardingRequest::strategy)),
            (Some(strategy), None) => Ok(strategy),
            (Some(strategy), Some(request)) if request.allows(strategy) => Ok(strategy),
            (Some(strategy), Some(request)) => {
                Err(StrategyError::FileDisagrees { strategy, origin: origin.to_owned(), request })
            }
        }
    }

    /// A notice for each pattern that covers none of these paths of the model's modules and names of its parameters.
    pub fn unmatched<'p>(&self, names: impl Iterator<Item = &'p str> + Clone) -> Vec<Notice> {
        let kept = self.keep_gathered.iter().flatten().map(|p| (keys::KEEP_GATHERED_MODULES, p));
        let tensor = self.tensor.iter().flat_map(|plan| &plan.rules);
        let patterns = self
            .ignored
            .iter()
            .map(|p| (keys::IGNORED_MODULES, p))
            .chain(kept)
            .chain(tensor.map(|rule| (keys::TENSOR_PLAN, &rule.modules)));
        let fits_none = |(_, pattern): &(_, &ModulePattern)| !names.clone().any(|name| pattern.covers(name));
        let notice =
            |(key, pattern): (_, &ModulePattern)| Notice::NothingMatched { key, pattern: pattern.clone() };
        patterns.filter(fits_none).map(notice).collect()
    }

    /// The configuration in the file's own keys, sorted, with the defaults of the four keys of an FSDPv2
    /// file and the form of checkpoints written out.
    /// Reading the result gives this configuration again.
    pub fn to_json(&self) -> Value {
        let mut entries = vec![
            (keys::STATE_DICT_TYPE, json!(self.state_dict_type.name())),
            (keys::XLA, json!(true)),
            (keys::XLA_FSDP_V2, json!(true)),
            (keys::XLA_FSDP_GRAD_CKPT, json!(self.grad_ckpt)),
        ];
        entries.extend(self.sharding.map(ShardingRequest::entry));
        entries.extend(self.wrap.entries());
        let texts =
            |patterns: &[ModulePattern]| json!(patterns.iter().map(|p| p.to_string()).collect::<Vec<_>>());
        entries.extend((!self.ignored.is_empty()).then(|| (keys::IGNORED_MODULES, texts(&self.ignored))));
        entries.extend(self.keep_gathered.iter().map(|kept| (keys::KEEP_GATHERED_MODULES, texts(kept))));
        entries.extend(self.tensor.iter().map(|plan| {
            let rule = |rule: &TensorRule| (rule.modules.to_string(), json!(rule.split.to_string()));
            (keys::TENSOR_PLAN, Value::Object(plan.rules.iter().map(rule).collect()))
        }));
        entries.extend(self.mixed_precision.map(|policy| (keys::MIXED_PRECISION_POLICY, policy.to_json())));
        entries.sort_by_key(|&(key, _)| key);
        Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Every known key, the values it takes and what it does, as text.
    pub fn keys_help() -> String {
        keys::help()
    }
}

/// One line for each entry of [`FsdpConfig::to_json`], as `key = value`.
impl fmt::Display for FsdpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in self.to_json().as_object().into_iter().flatten() {
            writeln!(f, "{key} = {value}")?;
        }
        Ok(())
    }
}

impl WrapConfig {
    /// Whether no part of any model would become a unit.
    pub fn wraps_nothing(&self) -> bool {
        match self {
            Self::Classes(classes) => classes.is_empty(),
            Self::Size(min_num_params) => *min_num_params == 0,
            Self::ModelDefault => false,
            Self::None => true,
        }
    }

    fn entries(&self) -> Vec<(&'static str, Value)> {
        let policy = |name: &str| (keys::AUTO_WRAP_POLICY, json!(name));
        match self {
            wrap if wrap.wraps_nothing() => vec![policy(keys::NO_WRAP)],
            Self::Classes(classes) => vec![policy(keys::TRANSFORMER_WRAP), (keys::CLASSES, json!(classes))],
            Self::Size(size) => vec![policy(keys::SIZE_WRAP), (keys::MIN_NUM_PARAMS, json!(size))],
            Self::ModelDefault | Self::None => vec![policy(keys::TRANSFORMER_WRAP)],
        }
    }
}

impl StateDictType {
    /// The name in configuration files, as in `SHARDED_STATE_DICT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL_STATE_DICT",
            Self::Sharded => "SHARDED_STATE_DICT",
            Self::Local => "LOCAL_STATE_DICT",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Full, Self::Sharded, Self::Local].into_iter().find(|form| form.name() == name)
    }
}

/// What reading a configuration has turned up so far.
#[derive(Default)]
struct Findings {
    problems: Vec<KeyProblem>,
    notices: Vec<Notice>,
}
