//! The table of the settings of a run. Flags, help and the keys of a run file all come from it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value as Json;
use shardwright_partition::DimRule;
use shardwright_train::LossDenominator;

use super::failure::Failure;
use super::value::{
    Arity, AtLeast, FsdpSource, FsdpWords, LoggingStrategy, Lowerings, NonNegative, Optimizer, Positive,
    Precision, SaveStrategy, Scheduler, Share, StepLimit, Value,
};

/// What was written for a setting, and where.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) written: Written,
    pub(super) origin: Origin,
}

/// A value as it was written.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// The words after a flag, or each of several such flags.
    Words(Vec<OsString>),
    /// The value of a key.
    Json(Json),
}

/// Where a setting was written.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// On the command line.
    Flag,
    /// In a run file, at a line and column that count from 1.
    File { path: Rc<Path>, line: usize, column: usize },
    /// In the table of settings.
    Default,
}

/// Settings by name, as one place gives them.
pub(super) type Layer = BTreeMap<&'static str, Given>;

/// A setting that was read.
#[derive(Clone, Debug)]
pub(super) struct Setting<T> {
    pub(super) value: T,
    name: &'static str,
    origin: Origin,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) heading: &'static str,
    pub(super) help: &'static str,
    pub(super) placeholder: &'static str,
    pub(super) arity: Arity,
    /// The value where none is given, as it would be written.
    pub(super) default: Option<&'static str>,
}

/// Writes the struct of all settings, the rows that describe them, and the reading of one from the other.
macro_rules! settings {
    ($($heading:literal { $($(#[doc = $help:literal])+ $name:ident: $ty:ty $(= $default:literal)?;)+ })+) => {
        /// All settings of a run, those of the command line before those of the run file before the defaults.
        #[derive(Debug)]
        pub(super) struct Settings {
            $($($(#[doc = $help])+ pub(super) $name: settings!(@field $ty $(, $default)?),)+)+
        }

        /// The rows of the table, in the order of the help.
        pub(super) const SPECS: &[Spec] = &[$($(Spec {
            name: stringify!($name),
            heading: $heading,
            help: concat!($($help,)+),
            placeholder: <$ty as Value>::PLACEHOLDER,
            arity: <$ty as Value>::ARITY,
            default: settings!(@default $($default)?),
        },)+)+];

        impl Settings {
            /// Reads all settings; `layers` are in order of precedence.
            pub(super) fn read(layers: &[&Layer]) -> Result<Settings, Failure> {
                Ok(Settings { $($($name: settings!(@read layers, $name $(, $default)?),)+)+ })
            }
        }
    };
    (@field $ty:ty) => { Option<Setting<$ty>> };
    (@field $ty:ty, $default:literal) => { Setting<$ty> };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    (@read $layers:ident, $name:ident) => { optional($layers, stringify!($name))? };
    (@read $layers:ident, $name:ident, $default:literal) => {
        match optional($layers, stringify!($name))? {
            Some(setting) => setting,
            None => default(stringify!($name), $default),
        }
    };
}

settings! {
    "Model" {
        /// The config.json of a new model, or the folder it is in; the weights are made from the seed
        config_name: PathBuf;
        /// A folder with config.json, model.safetensors and tokenizer.json; training goes on from its weights
        model_name_or_path: PathBuf;
        /// A tokenizer.json, or the folder it is in [default: the one of model_name_or_path, else one is trained on the
        /// text]
        tokenizer_name: PathBuf;
        /// The type of weights and computation
        torch_dtype: Precision = "float32";
        /// The same as torch_dtype
        dtype: Precision = "float32";
        /// Compute in bfloat16: not supported yet
        bf16: bool = "no";
        /// Compute in float16: not supported
        fp16: bool = "no";
    }
    "Data" {
        /// A text or JSON-lines file, or a folder of them; may be given again, and be a list in RUN.json
        train_file: Vec<PathBuf>;
        /// Tokens in an example [default: the tokenizer's maximum if the model can take it, else 1024, or the model's
        /// positions if those are fewer]
        block_size: AtLeast<2>;
        /// Train on no more than so many examples
        max_train_samples: AtLeast<1>;
        /// Leave out the last batch of an epoch if it is not full
        dataloader_drop_last: bool = "no";
        /// No effect: see SHARDWRIGHT_CACHE_DIR for what is cached
        cache_dir: PathBuf;
    }
    "Training" {
        /// Implied by the command
        do_train: bool = "yes";
        /// Examples that one device sees in one step
        per_device_train_batch_size: AtLeast<1> = "8";
        /// Passes over the data; a fraction is fine
        num_train_epochs: Positive = "3.0";
        /// Steps to take, in place of num_train_epochs; -1 for no limit
        max_steps: StepLimit = "-1";
        /// The optimizer; all names that are accepted mean plain AdamW
        optim: Optimizer = "adamw_torch";
        /// The highest learning rate
        learning_rate: NonNegative = "5e-5";
        /// AdamW's decoupled weight decay, of all parameters but biases and norms
        weight_decay: NonNegative = "0.0";
        /// AdamW's decay of the mean of gradients
        adam_beta1: Share<false> = "0.9";
        /// AdamW's decay of the mean of squared gradients
        adam_beta2: Share<false> = "0.999";
        /// What AdamW adds to the root of the mean square
        adam_epsilon: NonNegative = "1e-8";
        /// Scale gradients down to this global norm; 0 leaves them as they are
        max_grad_norm: NonNegative = "1.0";
        /// The learning rate over time: linear, cosine, constant or constant_with_warmup
        lr_scheduler_type: Scheduler = "linear";
        /// Steps over which the learning rate rises from 0; overrides warmup_ratio
        warmup_steps: AtLeast<0> = "0";
        /// The same as a part of all steps
        warmup_ratio: Share<true> = "0.0";
        /// What the loss of a step is divided by: labels, as Hugging Face's Trainer does, or targets for the plain mean
        loss_denominator: LossDenominator = "labels";
        /// Compute the activations of wrapped layers again in backward, to save memory
        gradient_checkpointing: bool = "no";
        /// Decides the initial weights, and the order of the data
        seed: u64 = "42";
        /// Decides the order of the data [default: seed]
        data_seed: u64;
    }
    "Sharding" {
        /// Split the model over the devices: full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, true
        /// or false [default: false]
        fsdp: FsdpWords;
        /// A JSON file that says which layers are wrapped and whether they are checkpointed; in RUN.json the object may
        /// stand itself
        fsdp_config: FsdpSource;
        /// Note keys of fsdp_config that are unknown instead of refusing them
        allow_unknown_fsdp_keys: bool = "no";
        /// The grid of devices, such as fsdp=8 or data=2,fsdp=-1, where -1 takes the rest [default: all devices on
        /// fsdp_axis]
        mesh: String;
        /// The axis of the mesh that parameters are split over
        fsdp_axis: String = "fsdp";
        /// Which dim of a parameter is split: largest_divisible, strict_largest as FSDPv2 does, or dim0
        fsdp_dim_rule: DimRule = "largest_divisible";
        /// Keep parameters of fewer bytes whole
        min_shard_bytes: AtLeast<0> = "0";
        /// How sharding is written into the program: explicit writes gathers and scatters by hand, annotate leaves them
        /// to the compiler; auto is explicit where nothing is split over a tensor axis; `explain train` also takes both
        lowering: Lowerings = "auto";
    }
    "Output" {
        /// The folder for the model, the tokenizer and the results; required
        output_dir: PathBuf;
        /// Write there although the folder is not empty
        overwrite_output_dir: bool = "no";
        /// Whether the loss is logged while training: steps or no
        logging_strategy: LoggingStrategy = "steps";
        /// Steps between two records of the log
        logging_steps: AtLeast<1> = "500";
        /// Only no: checkpoints are not written yet, the final model always is
        save_strategy: SaveStrategy = "no";
    }
}

/// The names of all settings.
pub(super) fn names() -> Vec<&'static str> {
    SPECS.iter().map(|spec| spec.name).collect()
}

/// The setting called `name`, whose words may be joined by dashes instead of underscores.
pub(super) fn find(name: &str) -> Option<&'static Spec> {
    let name = name.replace('-', "_");
    SPECS.iter().find(|spec| spec.name == name)
}

fn optional<T: Value>(layers: &[&Layer], name: &'static str) -> Result<Option<Setting<T>>, Failure> {
    let Some(given) = layers.iter().find_map(|layer| layer.get(name)) else { return Ok(None) };
    let origin = given.origin.clone();
    let (value, word, shown) = match &given.written {
        Written::Words(words) => {
            let last = words.last().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
            (T::from_words(words), last.clone(), format!("{last:?}"))
        }
        Written::Json(json) => {
            (T::from_json(json), json.as_str().unwrap_or_default().to_owned(), json.to_string())
        }
    };
    match value {
        Some(value) => Ok(Some(Setting { value, name, origin })),
        None => {
            let why = T::why_not(&word).unwrap_or_else(|| format!("expected {}, found {shown}", T::wanted()));
            Err(Setting { value: (), name, origin }.wrong(why))
        }
    }
}

fn default<T: Value>(name: &'static str, text: &str) -> Setting<T> {
    let value = T::parse(text).expect("defaults in the table are values, as a test sees to");
    Setting { value, name, origin: Origin::Default }
}

impl<T> Setting<T> {
    /// A failure about this setting.
    pub(super) fn wrong(&self, why: impl std::fmt::Display) -> Failure {
        Failure::input(match &self.origin {
            Origin::File { path, line, column } => {
                format!("{}:{line}:{column}: {}: {why}", path.display(), self.name)
            }
            Origin::Flag | Origin::Default => format!("--{}: {why}", self.name),
        })
    }

    /// What errors of this setting's text call it.
    pub(super) fn source_name(&self) -> String {
        match &self.origin {
            Origin::File { path, .. } => format!("{}: {}", path.display(), self.name),
            Origin::Flag | Origin::Default => format!("--{}", self.name),
        }
    }

    /// A path of this setting as seen from the working directory: those in a run file begin at its folder.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        match &self.origin {
            Origin::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(path),
            Origin::Flag | Origin::Default => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_values() {
        Settings::read(&[]).unwrap();
    }

    #[test]
    fn names_are_distinct() {
        let names = names();
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    }
}
