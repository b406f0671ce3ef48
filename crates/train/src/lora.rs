//! Adapters in a run: where they come from, and what is saved of them.

use std::fs;
use std::path::{Path, PathBuf};

use shardwright_checkpoint::{Expected, HfWeights, HfWriter, write_bytes_atomic};
use shardwright_model::{Lora, LoraConfig, ModelConfig, ParameterInfo, parameters};
use shardwright_runtime::ShardedArray;

use crate::{Event, ModelSource, Observer, TrainError};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
/// What a folder with a whole model has, that loaders would read beside an adapter's files, or in their place.
const OF_WHOLE_MODELS: [&str; 3] = ["config.json", "model.safetensors", "model.safetensors.index.json"];

/// Where a run's adapters come from.
#[derive(Clone, Debug, PartialEq)]
pub enum LoraSource {
    /// New ones.
    New(Box<LoraConfig>),
    /// A folder with `adapter_config.json` and `adapter_model.safetensors`: training goes on from there.
    Saved(PathBuf),
}

impl LoraSource {
    /// The adapters for a model, and the file that has them unless they are new.
    ///
    /// # Errors
    /// When the model's weights are new, or a file cannot be read, does not go with the model, or lacks an array.
    pub(crate) fn open(
        &self,
        base: &ModelSource,
        model: &ModelConfig,
        observer: &mut dyn Observer,
    ) -> Result<(Lora, Option<HfWeights>), TrainError> {
        if let ModelSource::Config(config) = base {
            return Err(TrainError::AdapterWithoutBase { config: config.clone() });
        }
        let (lora, weights) = match self {
            LoraSource::New(config) => (Lora::new(config, model)?, None),
            LoraSource::Saved(folder) => {
                let path = folder.join(CONFIG);
                let wrong = |source| TrainError::Io { action: "read", path: path.clone(), source };
                let text = fs::read_to_string(&path).map_err(wrong)?;
                let lora = Lora::new(&LoraConfig::parse(&text, &path.display().to_string())?, model)?;
                let weights = open_weights(folder, &lora, model)?;
                (lora, Some(weights))
            }
        };
        for name in lora.unmatched() {
            let notice = format!("target_modules: no module of the model is called {name}");
            observer.event(Event::Notice(&notice));
        }
        Ok((lora, weights))
    }
}

/// The file of a saved adapter, which has what is trained, and nothing else.
fn open_weights(folder: &Path, lora: &Lora, model: &ModelConfig) -> Result<HfWeights, TrainError> {
    let weights = HfWeights::open(folder.join(WEIGHTS))?;
    let trained = parameters(model).into_iter().chain(lora.parameters()).filter(|p| lora.trains(&p.name));
    let named: Vec<_> = trained.map(|p| (Lora::saved_name(&p.name), p.shape)).collect();
    weights.check(named.iter().map(|(name, shape)| Expected::required(name, shape)))?;
    Ok(weights)
}

/// Writes what was trained, under the names and in the files that PEFT has for it, in the dtypes that it is kept in.
/// `base` is the model that the adapters are for. What an earlier run left of a whole model goes.
pub(crate) fn save_adapter<'a>(
    folder: &Path,
    lora: &Lora,
    base: &Path,
    parameters: impl Iterator<Item = (&'a ParameterInfo, &'a ShardedArray)>,
) -> Result<(), TrainError> {
    let trained: Vec<_> = parameters.filter(|(info, _)| lora.trains(&info.name)).collect();
    let json = lora.config().to_json(Some(&base.display().to_string()));
    write_bytes_atomic(folder.join(CONFIG), json.as_bytes())?;
    let header = trained.iter().map(|(info, array)| (Lora::saved_name(&info.name), array.ty().clone()));
    let mut writer = HfWriter::create(folder.join(WEIGHTS), header)?;
    for (info, array) in &trained {
        writer.write(&Lora::saved_name(&info.name), &array.to_host()?)?;
    }
    writer.finish()?;
    remove_all(folder, &OF_WHOLE_MODELS)
}

/// Removes the files of an adapter, which loaders would put on top of the model beside them.
pub(crate) fn remove_adapter(folder: &Path) -> Result<(), TrainError> {
    remove_all(folder, &[CONFIG, WEIGHTS])
}

fn remove_all(folder: &Path, names: &[&str]) -> Result<(), TrainError> {
    names.iter().try_for_each(|name| crate::save::remove(&folder.join(name)))
}
