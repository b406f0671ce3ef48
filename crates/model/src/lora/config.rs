use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{LoraError, LoraProblem, members};
use crate::ConfigProblem;

/// Which adapters a model is given: what PEFT's `adapter_config.json` means, under its names.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraConfig {
    /// The features between `A` and `B`.
    pub r: usize,
    /// The scale of what adapters add, times their rank (or its root).
    pub lora_alpha: f64,
    /// The projections that get one.
    pub target_modules: LoraModules,
    /// Those that do not, of these.
    pub exclude_modules: Option<LoraModules>,
    /// Whether the scale is `alpha / √r` in place of `alpha / r`.
    pub use_rslora: bool,
    /// What adapters hold before training.
    pub init: LoraInit,
    /// The layers whose projections are meant, where these are named by words; without, all.
    pub layers_to_transform: Option<Vec<usize>>,
    /// The names of the list of layers; without, any.
    pub layers_pattern: Vec<String>,
    /// Ranks of some projections, by regular expressions of their names; the first that fits counts.
    pub rank_pattern: Vec<(String, usize)>,
    /// The same of alpha.
    pub alpha_pattern: Vec<(String, f64)>,
    /// The modules that are trained in full, and saved with the adapters: the ends of their paths.
    pub modules_to_save: Vec<String>,
    /// The model that the adapters are for.
    pub base_model_name_or_path: Option<String>,
    source_name: String,
    /// What else the file says.
    others: Map<String, Value>,
}

/// Modules, as PEFT names them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected names in a list, a regular expression, or \"all-linear\"")]
pub enum LoraModules {
    /// By the ends of their paths, or by whole paths.
    Names(Vec<String>),
    /// By a regular expression of the whole path; `all-linear` are all projections but the output table.
    Pattern(String),
}

/// What adapters hold before training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoraInit {
    /// `A` is uniform as PyTorch's projections are, `B` zero: adapters begin without effect.
    #[default]
    Default,
    /// `A` is normal with deviation `1 / r`, `B` zero.
    Gaussian,
    /// Both are uniform: adapters begin with an effect.
    NotZero,
}

/// The members that matter, as they are written.
#[derive(Deserialize)]
struct Raw {
    r: Option<usize>,
    lora_alpha: Option<f64>,
    target_modules: Option<LoraModules>,
    exclude_modules: Option<LoraModules>,
    use_rslora: Option<bool>,
    init_lora_weights: Option<Value>,
    layers_to_transform: Option<OneOrMore<usize>>,
    layers_pattern: Option<OneOrMore<String>>,
    rank_pattern: Option<Map<String, Value>>,
    alpha_pattern: Option<Map<String, Value>>,
    modules_to_save: Option<Vec<String>>,
    base_model_name_or_path: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a value, or several in a list")]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMore::One(value) => vec![value],
            OneOrMore::More(values) => values,
        }
    }
}

impl LoraModules {
    /// The word for all projections but the output table.
    const ALL_LINEAR: &str = "all-linear";

    /// All projections but the output table.
    pub fn all_linear() -> LoraModules {
        LoraModules::Pattern(Self::ALL_LINEAR.to_owned())
    }

    /// Whether these are [all projections](LoraModules::all_linear).
    pub(super) fn is_all_linear(&self) -> bool {
        matches!(self, LoraModules::Pattern(text) if text.eq_ignore_ascii_case(Self::ALL_LINEAR))
    }

    fn to_json(&self) -> Value {
        match self {
            LoraModules::Names(names) => json!(names),
            LoraModules::Pattern(text) => json!(text),
        }
    }
}

impl Default for LoraConfig {
    /// PEFT's defaults: rank 8 beside the projections of queries and values.
    fn default() -> Self {
        LoraConfig {
            r: 8,
            lora_alpha: 8.0,
            target_modules: LoraModules::Names(["q_proj", "v_proj"].map(str::to_owned).into()),
            exclude_modules: None,
            use_rslora: false,
            init: LoraInit::default(),
            layers_to_transform: None,
            layers_pattern: Vec::new(),
            rank_pattern: Vec::new(),
            alpha_pattern: Vec::new(),
            modules_to_save: Vec::new(),
            base_model_name_or_path: None,
            source_name: "the configuration of adapters".to_owned(),
            others: Map::new(),
        }
    }
}

impl LoraConfig {
    /// What the text of an `adapter_config.json` means. `source_name` is what errors call it.
    ///
    /// # Errors
    /// When the text is not such a configuration, or asks for something that cannot be done. No member that would
    /// change the adapters is ignored.
    pub fn parse(text: &str, source_name: &str) -> Result<LoraConfig, LoraError> {
        parse(text, source_name).map_err(|problem| LoraError::new(source_name, problem))
    }

    /// What errors call it.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// The text of an `adapter_config.json` that means the same to PEFT, for adapters of the model `base`.
    pub fn to_json(&self, base: Option<&str>) -> String {
        let mut members = self.others.clone();
        let own = json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base.or(self.base_model_name_or_path.as_deref()),
            "inference_mode": true,
            "r": self.r,
            "lora_alpha": number(self.lora_alpha),
            "lora_dropout": 0.0,
            "target_modules": self.target_modules.to_json(),
            "exclude_modules": self.exclude_modules.as_ref().map(LoraModules::to_json),
            "bias": "none",
            "use_rslora": self.use_rslora,
            "init_lora_weights": self.init.to_json(),
            "layers_to_transform": self.layers_to_transform,
            "layers_pattern": not_empty(&self.layers_pattern),
            "rank_pattern": object(&self.rank_pattern, |rank| json!(rank)),
            "alpha_pattern": object(&self.alpha_pattern, |alpha| number(*alpha)),
            "modules_to_save": not_empty(&self.modules_to_save),
        });
        let Value::Object(own) = own else { unreachable!("it is written as an object") };
        members.extend(own);
        let text = serde_json::to_string_pretty(&members);
        text.expect("objects with texts as keys can be written") + "\n"
    }
}

fn parse(text: &str, source_name: &str) -> Result<LoraConfig, LoraProblem> {
    let raw: Raw =
        serde_json::from_str(text).map_err(|e| LoraProblem::Json(ConfigProblem::json(&e, text)))?;
    members::check(&raw.others)?;
    let default = LoraConfig::default();
    let config = LoraConfig {
        r: raw.r.unwrap_or(default.r),
        lora_alpha: raw.lora_alpha.unwrap_or(default.lora_alpha),
        target_modules: raw.target_modules.unwrap_or(default.target_modules),
        exclude_modules: raw.exclude_modules,
        use_rslora: raw.use_rslora.unwrap_or(default.use_rslora),
        init: LoraInit::from_json(raw.init_lora_weights.as_ref())?,
        layers_to_transform: raw.layers_to_transform.map(OneOrMore::into_vec).filter(|of| !of.is_empty()),
        layers_pattern: raw.layers_pattern.map(OneOrMore::into_vec).unwrap_or_default(),
        rank_pattern: pairs("rank_pattern", raw.rank_pattern, |v| usize::try_from(v.as_u64()?).ok())?,
        alpha_pattern: pairs("alpha_pattern", raw.alpha_pattern, Value::as_f64)?,
        modules_to_save: raw.modules_to_save.unwrap_or_default(),
        base_model_name_or_path: raw.base_model_name_or_path,
        source_name: source_name.to_owned(),
        others: raw.others,
    };
    check_layers(&config)?;
    Ok(config)
}

/// Layers are chosen where modules are named by words, and lists of layers where layers are chosen.
fn check_layers(config: &LoraConfig) -> Result<(), LoraProblem> {
    let by_pattern = matches!(config.target_modules, LoraModules::Pattern(_));
    let conflict = |field, reason| Err(LoraProblem::Conflict { field, reason });
    match (config.layers_to_transform.is_some(), config.layers_pattern.is_empty()) {
        (true, _) if by_pattern => {
            conflict("layers_to_transform", "target_modules is a text, which has to say the layers itself")
        }
        (false, false) => conflict("layers_pattern", "layers_to_transform is not"),
        _ => Ok(()),
    }
}

impl LoraInit {
    fn from_json(value: Option<&Value>) -> Result<LoraInit, LoraProblem> {
        match value {
            None | Some(Value::Null | Value::Bool(true)) => Ok(LoraInit::Default),
            Some(Value::Bool(false)) => Ok(LoraInit::NotZero),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("gaussian") => Ok(LoraInit::Gaussian),
            Some(other) => Err(LoraProblem::Unsupported {
                field: "init_lora_weights".to_owned(),
                found: other.to_string(),
                supported: "true, false, \"gaussian\"",
            }),
        }
    }

    fn to_json(self) -> Value {
        match self {
            LoraInit::Default => json!(true),
            LoraInit::NotZero => json!(false),
            LoraInit::Gaussian => json!("gaussian"),
        }
    }
}

/// The members of an object, in their order.
fn pairs<T>(
    field: &'static str,
    object: Option<Map<String, Value>>,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<(String, T)>, LoraProblem> {
    let members = object.unwrap_or_default().into_iter();
    let pair = |(name, value): (String, Value)| match read(&value) {
        Some(read) => Ok((name, read)),
        None => Err(LoraProblem::Unsupported {
            field: format!("{field}[{name:?}]"),
            found: value.to_string(),
            supported: "numbers as r and lora_alpha are",
        }),
    };
    members.map(pair).collect()
}

fn object<T>(pairs: &[(String, T)], write: impl Fn(&T) -> Value) -> Value {
    Value::Object(pairs.iter().map(|(name, value)| (name.clone(), write(value))).collect())
}

fn not_empty<T: Serialize>(values: &[T]) -> Option<&[T]> {
    Some(values).filter(|values| !values.is_empty())
}

/// A number, without a fraction where it has none: PEFT has integers.
fn number(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT { json!(value as i64) } else { json!(value) }
}
