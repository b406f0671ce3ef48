//! Everything of a run that needs no device: its files are read, and what is wrong with them is said.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use shardwright_checkpoint::{Expected, HfWeights, make_writable_folder};
use shardwright_mesh::AbstractMesh;
use shardwright_model::{ModelConfig, ModuleInfo, parameters, tensor_plan};
use shardwright_partition::{ModelModule, TENSOR_AXIS, WrapPolicy};

use crate::save::check_empty;
use crate::texts::Texts;
use crate::{
    CausalLm, Event, Job, Model, ModelSource, Observer, ParameterGroups, ShardingConfig, TrainConfig,
    TrainError,
};

/// Reads everything that a run needs, and checks what can be checked without a device.
///
/// # Errors
/// When a setting or a file is wrong.
pub fn prepare(config: &TrainConfig, observer: &mut dyn Observer) -> Result<Job, TrainError> {
    check_empty(&config.output_dir, config.overwrite_output_dir)?;
    check_base_stays(config)?;
    let job = prepare_unsaved(config, observer)?;
    make_writable_folder(&config.output_dir)?;
    Ok(job)
}

/// The same for a run that is looked at and writes nothing: its output folder may hold anything, and is not made.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_unsaved(config: &TrainConfig, observer: &mut dyn Observer) -> Result<Job, TrainError> {
    let _span = tracing::debug_span!("prepare").entered();
    let (config_path, model) = read_model_config(&config.model)?;
    let (lora, adapter) = match &config.lora {
        None => (None, None),
        Some(source) => {
            source.open(&config.model, &model, observer).map(|(lora, file)| (Some(lora), file))?
        }
    };
    // Of as many positions as the model has, until the text and its tokenizer are known.
    let mut lm = CausalLm {
        block_size: model.max_position_embeddings(),
        denominator: config.loss_denominator,
        config: model.clone(),
        lora,
    };
    let (wrap, remat) = wrapped_units(config, &lm, observer)?;
    let weights = match &config.model {
        ModelSource::Config(_) => None,
        ModelSource::Pretrained(folder) => Some(open_weights(folder, &model, observer)?),
    };
    let texts = Texts::read(config, &config_path, &model, observer)?;
    lm.block_size = texts.block_size;
    Ok(Job { config: config.clone(), model: lm, weights, adapter, texts, wrap, remat })
}

/// An output folder of adapters has no whole model, so it must not be that of the model which they are for.
fn check_base_stays(config: &TrainConfig) -> Result<(), TrainError> {
    let (Some(_), ModelSource::Pretrained(base)) = (&config.lora, &config.model) else { return Ok(()) };
    // A folder that is not there yet is no other one.
    match (fs::canonicalize(base), fs::canonicalize(&config.output_dir)) {
        (Ok(base), Ok(output)) if base == output => Err(TrainError::OutputIsBase { path: output }),
        _ => Ok(()),
    }
}

/// The units that are wrapped, and whether they are computed again.
fn wrapped_units(
    config: &TrainConfig,
    lm: &CausalLm,
    observer: &mut dyn Observer,
) -> Result<(WrapPolicy, bool), TrainError> {
    let sharding = &config.sharding;
    let modules = model_modules(lm);
    let mut wrap = WrapPolicy::resolve(&sharding.fsdp.wrap, &modules, &lm.wrapped_by_default())?;
    check_tensor_axis(sharding, &lm.config)?;
    if let Some(kept) = &sharding.fsdp.keep_gathered {
        wrap = wrap.keeping_gathered(kept);
    }
    let infos = lm.parameters();
    ParameterGroups::new(&config.groups, lm)?;
    config.clipping.check(&infos)?;
    let names = modules.iter().map(|m| m.path.as_str()).chain(infos.iter().map(|p| p.name.as_str()));
    for notice in sharding.fsdp.unmatched(names) {
        observer.event(Event::Notice(&notice.to_string()));
    }
    let remat = sharding.fsdp.grad_ckpt || sharding.gradient_checkpointing;
    if remat && wrap.is_empty() {
        observer.event(Event::Notice("no unit is wrapped, so gradient checkpointing has no effect"));
    }
    config.precision.check()?;
    if let Some(warning) = config.precision.warning() {
        observer.event(Event::Notice(&warning));
    }
    Ok((wrap, remat))
}

fn read_model_config(source: &ModelSource) -> Result<(PathBuf, ModelConfig), TrainError> {
    let (ModelSource::Config(path) | ModelSource::Pretrained(path)) = source;
    let path = file_in(path, "config.json");
    let wrong =
        |source| TrainError::Io { action: "read the model's configuration", path: path.clone(), source };
    let text = fs::read_to_string(&path).map_err(wrong)?;
    let model = ModelConfig::parse(&text, &path.display().to_string())?;
    Ok((path, model))
}

/// Whether the model can be split over the tensor axis of a mesh that leaves no size open.
fn check_tensor_axis(sharding: &ShardingConfig, model: &ModelConfig) -> Result<(), TrainError> {
    let mesh = sharding.mesh.as_deref().and_then(|text| AbstractMesh::parse(text).ok());
    match (&sharding.fsdp.tensor, mesh.and_then(|mesh| mesh.axis_size(TENSOR_AXIS))) {
        (None, Some(devices)) => Ok(tensor_plan(model, devices).map(drop)?),
        _ => Ok(()),
    }
}

/// The file of this name, where a path is that of its folder.
pub(crate) fn file_in(path: &Path, name: &str) -> PathBuf {
    if path.is_dir() { path.join(name) } else { path.to_owned() }
}

/// The model's modules, with the numbers that the parameters inside them hold.
pub fn model_modules(model: &dyn Model) -> Vec<ModelModule> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for parameter in model.parameters() {
        let mut path = parameter.name.as_str();
        while !path.is_empty() {
            path = path.rsplit_once('.').map_or("", |(outer, _)| outer);
            *counts.entry(path.to_owned()).or_default() += parameter.element_count() as u64;
        }
    }
    let module = |m: ModuleInfo| {
        let parameters = counts.get(&m.path).copied().unwrap_or(0);
        ModelModule { path: m.path, class: m.class.to_owned(), parameters }
    };
    model.modules().into_iter().map(module).collect()
}

fn open_weights(
    folder: &Path,
    model: &ModelConfig,
    observer: &mut dyn Observer,
) -> Result<HfWeights, TrainError> {
    let weights = HfWeights::open(folder)?;
    for notice in weights.notices() {
        observer.event(Event::Notice(&notice.to_string()));
    }
    let infos = parameters(model);
    let required = infos.iter().map(|p| Expected::required(&p.name, &p.shape));
    // A tied head may be written out, as a copy of the embedding.
    let head = [model.vocab_size(), model.hidden_size()];
    let tied = model.tie_word_embeddings().then(|| Expected::optional("lm_head.weight", &head));
    weights.check(required.chain(tied))?;
    if model.tie_word_embeddings() && !is_tied(&weights, head)? {
        return Err(TrainError::HeadNotTied { path: folder.to_owned() });
    }
    Ok(weights)
}

/// Whether the file's output table, if it has one, is a copy of its input table. Reads a part of them at a time.
fn is_tied(weights: &HfWeights, [rows, columns]: [usize; 2]) -> Result<bool, TrainError> {
    const ROWS: usize = 1024;
    if weights.ty("lm_head.weight").is_none() {
        return Ok(true);
    }
    for start in (0..rows).step_by(ROWS) {
        let block = [start..rows.min(start + ROWS), 0..columns];
        let head = weights.read_slice("lm_head.weight", &block)?;
        if head != weights.read_slice("model.embed_tokens.weight", &block)? {
            return Ok(false);
        }
    }
    Ok(true)
}
