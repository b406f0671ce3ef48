//! A run from its settings to the saved model.

use std::collections::BTreeMap;
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use shardwright_checkpoint::{Expected, HfWeights, make_writable_folder};
use shardwright_data::{
    BatchPlan, Batches, BlockOptions, Blocks, Corpus, CorpusOptions, Skipped, Tokenizer, effective_block_size,
};
use shardwright_hlo::VerifiedModule;
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_model::{ModelConfig, ModuleInfo, ParameterInfo, parameters, tensor_plan};
use shardwright_partition::explain::{Explanation, Subject};
use shardwright_partition::{
    CollectiveSummary, FsdpConfig, Lowering, ModelModule, PlanOptions, ShardingPlan, Strategy, TENSOR_AXIS,
    WrapPolicy, data_axes,
};
use shardwright_runtime::Runtime;
use shardwright_runtime::compile::CompiledBy;
use shardwright_tensor::DType;

use crate::draw::Draws;
use crate::lora::save_adapter;
use crate::run::Run;
use crate::save::{
    BEGIN_TOKEN, END_TOKEN, UNKNOWN_TOKEN, check_empty, save_fsdp_config, save_model, save_results,
    save_tokenizer,
};
use crate::{
    CausalLm, Event, Model, ModelSource, Observer, ParameterGroups, Phase, ShardingConfig, StepConfig,
    StopFlag, TrainConfig, TrainError, TrainResults, TrainState, TrainStep, WeightSource,
};

/// Special tokens of a tokenizer that is trained because none was given, with the ids that Llama gives them.
const SPECIAL_TOKENS: [&str; 3] = [UNKNOWN_TOKEN, BEGIN_TOKEN, END_TOKEN];

/// A run all of whose settings and files were read and found in order.
pub struct Job {
    config: TrainConfig,
    model: CausalLm,
    weights: Option<HfWeights>,
    /// What an adapter that training goes on from was saved to.
    adapter: Option<HfWeights>,
    tokenizer: Tokenizer,
    blocks: Blocks,
    wrap: WrapPolicy,
    remat: bool,
}

/// Reads everything that a run needs, and checks what can be checked without a device.
///
/// # Errors
/// When a setting or a file is wrong.
pub fn prepare(config: &TrainConfig, observer: &mut dyn Observer) -> Result<Job, TrainError> {
    check_empty(&config.output_dir, config.overwrite_output_dir)?;
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
            source.open(&config.model, &model, observer).map(|(lora, adapter)| (Some(lora), adapter))?
        }
    };
    let sharding = &config.sharding;
    // Of as many positions as the model has, until the text and its tokenizer are known.
    let mut lm = CausalLm {
        block_size: model.max_position_embeddings(),
        denominator: config.loss_denominator,
        config: model.clone(),
        lora,
    };
    let modules = model_modules(&lm);
    let mut wrap = WrapPolicy::resolve(&sharding.fsdp.wrap, &modules, &lm.wrapped_by_default())?;
    check_tensor_axis(sharding, &model)?;
    if let Some(kept) = &sharding.fsdp.keep_gathered {
        wrap = wrap.keeping_gathered(kept);
    }
    let infos = lm.parameters();
    ParameterGroups::new(&config.groups, &lm)?;
    config.clipping.check(&infos)?;
    let names = modules.iter().map(|m| m.path.as_str()).chain(infos.iter().map(|p| p.name.as_str()));
    for notice in sharding.fsdp.unmatched(names) {
        observer.event(Event::Notice(&notice.to_string()));
    }
    let remat = sharding.fsdp.grad_ckpt || sharding.gradient_checkpointing;
    if remat && wrap.is_empty() {
        observer.event(Event::Notice("no unit is wrapped, so gradient checkpointing has no effect"));
    }
    if let Some(dtype) = model.dtype().filter(|dtype| *dtype != DType::F32) {
        let notice =
            format!("the configuration says {dtype}; the model is trained and saved in {}", DType::F32);
        observer.event(Event::Notice(&notice));
    }
    let weights = match &config.model {
        ModelSource::Config(_) => None,
        ModelSource::Pretrained(folder) => Some(open_weights(folder, &model, observer)?),
    };

    let corpus = Corpus::open(&config.train_files, CorpusOptions::default())?;
    if corpus.skipped() != Skipped::default() {
        observer.event(Event::Notice(&format!("files that were left out: {}", corpus.skipped())));
    }
    observer.event(Event::Phase(Phase::Tokenizer));
    let tokenizer = match &config.tokenizer {
        Some(path) => Tokenizer::from_file(file_in(path, "tokenizer.json"))?,
        None => Tokenizer::train_byte_level_bpe(&corpus, model.vocab_size(), &SPECIAL_TOKENS)?,
    };
    tokenizer.check_fits(model.vocab_size(), &config_path)?;
    let limit = Some(model.max_position_embeddings());
    let block_size = effective_block_size(config.block_size, tokenizer.model_max_length(), limit)?;
    if let Some(notice) = &block_size.notice {
        observer.event(Event::Notice(notice));
    }
    lm.block_size = block_size.tokens;
    observer.event(Event::Phase(Phase::Tokenize));
    let blocks = Blocks::from_corpus(&corpus, &tokenizer, &BlockOptions::new(block_size.tokens))?;
    let blocks = match config.max_train_samples {
        Some(most) => blocks.take(most),
        None => blocks,
    };
    observer.event(Event::Data {
        tokens: blocks.total_tokens(),
        blocks: blocks.num_blocks(),
        block_size: blocks.block_size(),
        dropped_tokens: blocks.dropped_tokens(),
        vocab_size: tokenizer.vocab_size(),
    });
    Ok(Job { config: config.clone(), model: lm, weights, adapter, tokenizer, blocks, wrap, remat })
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
fn file_in(path: &Path, name: &str) -> PathBuf {
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

impl Job {
    /// Compiles, trains and saves. `stop` is looked at between steps.
    ///
    /// # Errors
    /// When the devices, the model and the batch do not go together, the plugin fails, files cannot be written, or the
    /// run was asked to stop.
    pub fn run(
        &self,
        runtime: &Runtime,
        observer: &mut dyn Observer,
        stop: &StopFlag,
    ) -> Result<TrainResults, TrainError> {
        let mesh = self.mesh(runtime)?;
        let batches = self.batches(&mesh)?;
        if batches.dropped_blocks() > 0 {
            let dropped = batches.dropped_blocks();
            let notice = format!("{dropped} blocks of each epoch do not fill a batch and are dropped");
            observer.event(Event::Notice(&notice));
        }
        let (step_config, module, plan) = self.planned(&mesh, &batches, observer)?;

        let (mesh, plan) = step_config.on_torus(runtime, mesh, plan)?;
        observer.event(Event::Phase(Phase::Compile));
        let (step, draws) = self.compile_all(runtime, &mesh, &step_config, module, plan, observer)?;
        observer.event(Event::Phase(Phase::Weights));
        let span = tracing::debug_span!("make state").entered();
        let state = match (&self.weights, draws) {
            (Some(base), _) if self.model.lora.is_some() => {
                let (adapter, seed) = (self.adapter.as_ref(), self.config.seed);
                TrainState::new(runtime, &step, WeightSource::Adapted { base, adapter, seed })?
            }
            (Some(files), _) => TrainState::new(runtime, &step, WeightSource::Files(files))?,
            (None, draws) => {
                let draws = draws.expect("what is not in files is drawn");
                TrainState::drawn(runtime, &step, &draws, self.config.seed)?
            }
        };
        drop(span);

        let mut run = Run::new(&self.config, &batches, &step);
        observer.event(Event::Start {
            steps: run.total_steps(),
            per_device_batch_size: self.config.per_device_train_batch_size,
            global_batch_size: batches.plan().global_batch_size,
            block_size: self.blocks.block_size(),
        });
        let state = run.train(runtime, state, observer, stop)?;

        observer.event(Event::Phase(Phase::Save));
        let results = run.results();
        let writing = stop.writing();
        self.save(&step, &state, &run, &results).map_err(|e| TrainError::Save(e.into()))?;
        drop(writing);
        observer.event(Event::Finished { results: &results, output_dir: &self.config.output_dir });
        Ok(results)
    }

    /// Compiles the step of the run, lowered as is said here whatever the run's configuration says, and explains what the
    /// compiler made of it. The step is not run.
    ///
    /// # Errors
    /// When the devices, the model and the batch do not go together, the plan cannot be lowered so, or the plugin fails
    /// or does not tell what it made.
    pub fn explain(
        &self,
        runtime: &Runtime,
        lowering: Lowering,
        observer: &mut dyn Observer,
    ) -> Result<(TrainStep, Explanation), TrainError> {
        let mesh = self.mesh(runtime)?;
        let (config, module, plan) = self.planned(&mesh, &self.batches(&mesh)?, observer)?;
        let config = StepConfig { lowering, ..config };
        let (mesh, plan) = config.on_torus(runtime, mesh, plan)?;
        let subject = Subject::of_module(&module, &plan, &config.wrap);
        observer.event(Event::Phase(Phase::Compile));
        let step = TrainStep::compile_planned(runtime, &mesh, &self.model, &config, module, plan)?;
        let program = step.executable().compiled()??;
        let explanation = Explanation::new(&program, &subject, step.executable().compiled_memory().ok());
        Ok((step, explanation))
    }

    /// The step, where everything lies, and the event that tells it.
    fn planned(
        &self,
        mesh: &Mesh,
        batches: &Batches,
        observer: &mut dyn Observer,
    ) -> Result<(StepConfig, VerifiedModule, ShardingPlan), TrainError> {
        let step_config = self.step_config(batches.plan().global_batch_size);
        let module = step_config.module(&self.model)?;
        let plan = step_config.sharding_plan(&self.model, &module, mesh.shape())?;
        self.check_sharded(&plan, observer)?;
        let infos = self.model.parameters();
        let groups = ParameterGroups::new(&step_config.groups, &self.model)?;
        observer.event(Event::Plan {
            parameters: infos.iter().map(ParameterInfo::element_count).sum(),
            trained: groups.trained().map(|index| infos[index].element_count()).sum(),
            mesh,
            plan: &plan,
            wrapped_units: self.wrap.len(),
            remat: self.remat,
        });
        Ok((step_config, module, plan))
    }

    fn save(
        &self,
        step: &TrainStep,
        state: &TrainState,
        run: &Run<'_>,
        results: &TrainResults,
    ) -> Result<(), TrainError> {
        let _span = tracing::debug_span!("save").entered();
        let folder = &self.config.output_dir;
        match (&self.model.lora, &self.config.model) {
            (Some(lora), ModelSource::Pretrained(base)) => {
                save_adapter(folder, lora, base, step.parameters().iter().zip(&state.parameters))?;
                save_tokenizer(folder, &self.model.config, &self.tokenizer)?;
            }
            _ => save_model(folder, &self.model.config, &self.tokenizer, step.parameters(), state)?,
        }
        save_results(folder, results, &run.trainer_state(results))?;
        if self.config.sharding.strategy != Strategy::NoShard {
            let fsdp = FsdpConfig { grad_ckpt: self.remat, ..self.config.sharding.fsdp.clone() };
            save_fsdp_config(folder, &fsdp)?;
        }
        Ok(())
    }

    fn mesh(&self, runtime: &Runtime) -> Result<Mesh, TrainError> {
        let all = || format!("{}=-1", self.config.sharding.axis);
        let text = self.config.sharding.mesh.clone().unwrap_or_else(all);
        Ok(runtime.mesh(&text)?)
    }

    fn batches(&self, mesh: &Mesh) -> Result<Batches, TrainError> {
        let shards: usize = data_axes(mesh.shape()).filter_map(|axis| mesh.shape().axis_size(axis)).product();
        let micro_batch = self.config.per_device_train_batch_size.saturating_mul(shards);
        let global_batch_size = micro_batch.saturating_mul(self.config.gradient_accumulation_steps);
        let plan = BatchPlan {
            drop_last: self.config.dataloader_drop_last,
            seed: self.config.data_seed.unwrap_or(self.config.seed),
            ..BatchPlan::new(global_batch_size)
        };
        Ok(Batches::new(&self.blocks, plan)?)
    }

    fn step_config(&self, global_batch_size: usize) -> StepConfig {
        let sharding = &self.config.sharding;
        StepConfig {
            global_batch_size,
            gradient_accumulation_steps: self.config.gradient_accumulation_steps,
            precision: self.config.precision,
            dot_precision: self.config.dot_precision,
            optimizer: self.config.optimizer.clone(),
            groups: self.config.groups.clone(),
            clipping: self.config.clipping.clone(),
            wrap: self.wrap.clone(),
            remat: self.remat,
            plan: PlanOptions {
                axis: sharding.axis.clone(),
                strategy: sharding.strategy,
                dim_rule: sharding.dim_rule,
                min_shard_bytes: sharding.min_shard_bytes,
                ignored: sharding.fsdp.ignored.clone(),
                tensor: sharding.fsdp.tensor.clone(),
            },
            lowering: sharding.lowering,
        }
    }

    /// Training is only called FSDP if parameters are split.
    fn check_sharded(&self, plan: &ShardingPlan, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let axis = &self.config.sharding.axis;
        let devices = plan.mesh().axis_size(axis).unwrap_or(1);
        let (split, parameters) = plan.split_parameters();
        if plan.strategy() == Strategy::NoShard || split > 0 {
            return Ok(());
        }
        if devices > 1 {
            return Err(TrainError::NothingSharded { parameters, devices, axis: axis.clone() });
        }
        let notice = format!("mesh axis {axis} has one device: parameters are not sharded");
        observer.event(Event::Notice(&notice));
        Ok(())
    }

    /// The step, and beside it the programs that draw the weights, unless those are in files.
    fn compile_all(
        &self,
        runtime: &Runtime,
        mesh: &Mesh,
        config: &StepConfig,
        module: VerifiedModule,
        plan: ShardingPlan,
        observer: &mut dyn Observer,
    ) -> Result<(TrainStep, Option<Draws>), TrainError> {
        let (infos, places) = (self.model.parameters(), plan.arguments().to_vec());
        thread::scope(|scope| {
            // The step takes long, and a part of that time only one processor.
            let draws = || Draws::compile(runtime, mesh, &infos, &places);
            let draws = self.weights.is_none().then(|| scope.spawn(draws));
            let step = self.compile(runtime, mesh, config, module, plan, observer)?;
            let join = |thread: ScopedJoinHandle<'_, Result<Draws, TrainError>>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            Ok((step, draws.map(join).transpose()?))
        })
    }

    fn compile(
        &self,
        runtime: &Runtime,
        mesh: &Mesh,
        config: &StepConfig,
        module: VerifiedModule,
        plan: ShardingPlan,
        observer: &mut dyn Observer,
    ) -> Result<TrainStep, TrainError> {
        let (split, _) = plan.split_parameters();
        let start = Instant::now();
        let step = TrainStep::compile_planned(runtime, mesh, &self.model, config, module, plan)?;
        let seconds = start.elapsed().as_secs_f64();
        let program = match step.executable().compiled() {
            Ok(Ok(program)) => Some(program),
            Ok(Err(e)) => {
                observer.event(Event::Notice(&e.to_string()));
                None
            }
            Err(e) => {
                observer.event(Event::Notice(&format!("what the compiler made is not known: {e}")));
                None
            }
        };
        let collectives = program.as_ref().map(CollectiveSummary::new);
        if split > 0 && collectives.as_ref().is_some_and(|c| !c.gathers()) {
            return Err(TrainError::NoGathers { split, mesh: mesh.shape().to_string() });
        }
        let bytes_per_device = step.executable().bytes_per_device().ok();
        let collectives = collectives.as_ref();
        let is_kept = step.executable().compilation().by == CompiledBy::Cache;
        observer.event(Event::Compiled { seconds, is_kept, collectives, bytes_per_device });
        Ok(step)
    }
}
