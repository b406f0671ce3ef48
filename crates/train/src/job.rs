//! A run from its settings to the saved model.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use shardwright_checkpoint::{Expected, HfWeights};
use shardwright_data::{
    BatchPlan, Batches, Blocks, Corpus, CorpusOptions, Prefetcher, Remainder, Tokenizer, effective_block_size,
};
use shardwright_hlo::VerifiedModule;
use shardwright_mesh::Mesh;
use shardwright_model::{ModelConfig, ParameterKind, modules, parameter_count, parameters};
use shardwright_partition::{
    CollectiveSummary, ModelModule, PlanOptions, ShardingPlan, Strategy, WrapPolicy,
};
use shardwright_runtime::Runtime;

use crate::results::{TrainerState, rounded};
use crate::save::{prepare_folder, save_model, save_results};
use crate::{
    Event, LogRecord, ModelSource, Observer, PendingMetrics, Phase, Schedule, StepConfig, StepMetrics,
    StopFlag, TrainConfig, TrainError, TrainResults, TrainState, TrainStep, WeightSource,
};

/// Special tokens of a tokenizer that is trained because none was given.
const SPECIAL_TOKENS: [&str; 3] = ["<s>", "</s>", "<unk>"];

/// A run all of whose settings and files were read and found in order.
pub struct Job {
    config: TrainConfig,
    model: ModelConfig,
    weights: Option<HfWeights>,
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
    prepare_folder(&config.output_dir, config.overwrite_output_dir)?;
    let (config_path, model) = read_model_config(&config.model)?;
    let sharding = &config.sharding;
    let wrap = WrapPolicy::resolve(&sharding.fsdp.wrap, &model_modules(&model), &["LlamaDecoderLayer"])?;
    let remat = sharding.fsdp.grad_ckpt || sharding.gradient_checkpointing;
    if remat && wrap.is_empty() {
        observer.event(Event::Notice("no unit is wrapped, so gradient checkpointing has no effect"));
    }
    let weights = match &config.model {
        ModelSource::Config(_) => None,
        ModelSource::Pretrained(folder) => Some(open_weights(folder, &model, observer)?),
    };

    let corpus = Corpus::open(&config.train_files, CorpusOptions::default())?;
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
    observer.event(Event::Phase(Phase::Tokenize));
    let blocks = Blocks::from_corpus(&corpus, &tokenizer, block_size.tokens, Remainder::DropPerGroup)?;
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
    Ok(Job { config: config.clone(), model, weights, tokenizer, blocks, wrap, remat })
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

/// The file of this name, where a path is that of its folder.
fn file_in(path: &Path, name: &str) -> PathBuf {
    if path.is_dir() { path.join(name) } else { path.to_owned() }
}

/// The model's modules, with the numbers that the parameters inside them hold.
fn model_modules(model: &ModelConfig) -> Vec<ModelModule> {
    let parameters = parameters(model);
    let inside = |path: &str, name: &str| {
        path.is_empty() || name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
    };
    let module = |m: shardwright_model::ModuleInfo| {
        let own = parameters.iter().filter(|p| inside(&m.path, &p.name));
        let parameters = own.map(|p| p.element_count() as u64).sum();
        ModelModule { path: m.path, class: m.class.to_owned(), parameters }
    };
    modules(model).into_iter().map(module).collect()
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
    Ok(weights)
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
        let step_config = self.step_config(batches.plan().global_batch_size);
        let module = step_config.module(&self.model)?;
        let plan = ShardingPlan::new(&module, mesh.shape(), &step_config.plan)?;
        self.check_sharded(&plan, observer)?;
        observer.event(Event::Plan {
            parameters: parameter_count(&self.model),
            mesh: &mesh,
            plan: &plan,
            wrapped_units: self.wrap.len(),
            remat: self.remat,
        });

        observer.event(Event::Phase(Phase::Compile));
        let step = self.compile(runtime, &mesh, &step_config, module, plan, observer)?;
        observer.event(Event::Phase(Phase::Weights));
        let source = match &self.weights {
            Some(files) => WeightSource::Files(files),
            None => WeightSource::Random { seed: self.config.seed },
        };
        let state = TrainState::new(runtime, &step, source)?;

        let mut run = Run::new(self, &batches, &step);
        observer.event(Event::Start {
            steps: run.total_steps,
            per_device_batch_size: self.config.per_device_train_batch_size,
            global_batch_size: batches.plan().global_batch_size,
            block_size: self.blocks.block_size(),
        });
        let state = run.train(runtime, state, observer, stop)?;
        let results = run.results();

        observer.event(Event::Phase(Phase::Save));
        let writing = stop.writing();
        let folder = &self.config.output_dir;
        save_model(folder, &self.model, &self.tokenizer, step.parameters(), &state)?;
        save_results(folder, &results, &run.trainer_state(&results)?, &self.config.sharding.fsdp)?;
        drop(writing);
        observer.event(Event::Finished { results: &results, output_dir: folder });
        Ok(results)
    }

    fn mesh(&self, runtime: &Runtime) -> Result<Mesh, TrainError> {
        let all = || format!("{}=-1", self.config.sharding.axis);
        let text = self.config.sharding.mesh.clone().unwrap_or_else(all);
        Ok(runtime.mesh(&text)?)
    }

    fn batches(&self, mesh: &Mesh) -> Result<Batches, TrainError> {
        let shards: usize = shardwright_partition::data_axes(mesh.shape())
            .filter_map(|axis| mesh.shape().axis_size(axis))
            .product();
        let global_batch_size = self.config.per_device_train_batch_size.saturating_mul(shards);
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
            block_size: self.blocks.block_size(),
            optimizer: self.config.optimizer,
            max_grad_norm: self.config.max_grad_norm,
            loss_denominator: self.config.loss_denominator,
            wrap: self.wrap.clone(),
            remat: self.remat,
            plan: PlanOptions {
                axis: sharding.axis.clone(),
                strategy: sharding.strategy,
                dim_rule: sharding.dim_rule,
                min_shard_bytes: sharding.min_shard_bytes,
            },
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
        match step.program().compiled()? {
            Ok(program) => {
                let collectives = CollectiveSummary::new(&program);
                if split > 0 && collectives.kinds.is_empty() {
                    let mesh = mesh.shape().to_string();
                    return Err(TrainError::NoCollectives { split, mesh });
                }
                let bytes_per_device = step.program().bytes_per_device().ok();
                observer.event(Event::Compiled { seconds, collectives: &collectives, bytes_per_device });
            }
            Err(unreadable) => observer.event(Event::Notice(&unreadable.to_string())),
        }
        Ok(step)
    }
}

/// The loop, and what it notes down.
struct Run<'a> {
    job: &'a Job,
    batches: &'a Batches,
    step: &'a TrainStep,
    schedule: Schedule,
    total_steps: usize,
    losses: Vec<f64>,
    log: Vec<LogRecord>,
    logged: usize,
    seconds: f64,
}

/// A step that was started and not yet read.
struct Started {
    number: usize,
    learning_rate: f64,
    metrics: PendingMetrics,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job, batches: &'a Batches, step: &'a TrainStep) -> Run<'a> {
        let config = &job.config;
        let per_epoch = batches.steps_per_epoch() as f64;
        let by_epochs = || (config.num_train_epochs * per_epoch).ceil() as usize;
        let total_steps = config.max_steps.unwrap_or_else(by_epochs);
        let schedule = Schedule::new(&config.schedule, config.optimizer.learning_rate, total_steps);
        Run {
            job,
            batches,
            step,
            schedule,
            total_steps,
            losses: Vec::with_capacity(total_steps.min(1 << 20)),
            log: Vec::new(),
            logged: 0,
            seconds: 0.0,
        }
    }

    fn train(
        &mut self,
        runtime: &Runtime,
        mut state: TrainState,
        observer: &mut dyn Observer,
        stop: &StopFlag,
    ) -> Result<TrainState, TrainError> {
        let start = Instant::now();
        let mut batches: Prefetcher<_> = self.batches.prefetch(0..self.total_steps as u64)?;
        // One step is read while the next one runs.
        let mut previous: Option<Started> = None;
        for number in 0..self.total_steps {
            if stop.is_requested() {
                return Err(TrainError::Interrupted { steps: number, total: self.total_steps });
            }
            let Some(batch) = batches.next() else { break };
            let batch = batch?;
            let learning_rate = self.schedule.learning_rate(number);
            let (next, metrics) =
                self.step.run(runtime, state, &batch.input_ids, &batch.labels, learning_rate)?;
            state = next;
            if let Some(previous) = previous.replace(Started { number, learning_rate, metrics }) {
                self.note(&previous, observer)?;
            }
        }
        if let Some(last) = previous {
            self.note(&last, observer)?;
        }
        self.seconds = start.elapsed().as_secs_f64();
        Ok(state)
    }

    fn note(&mut self, started: &Started, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let (loss, grad_norm) = started.metrics.read()?;
        let step = started.number + 1;
        let (epoch, learning_rate) = (self.epoch(step), started.learning_rate);
        self.losses.push(loss);
        if self.job.config.logging_steps.is_some_and(|every| step.is_multiple_of(every)) {
            let since = &self.losses[self.logged..];
            let mean = since.iter().sum::<f64>() / since.len() as f64;
            let (epoch, loss) = (rounded(epoch, 2), rounded(mean, 4));
            self.log.push(LogRecord { epoch, grad_norm, learning_rate, loss, step });
            self.logged = self.losses.len();
        }
        observer.event(Event::Step(StepMetrics { step, epoch, loss, grad_norm, learning_rate }));
        Ok(())
    }

    fn epoch(&self, steps: usize) -> f64 {
        steps as f64 / self.batches.steps_per_epoch() as f64
    }

    fn results(&self) -> TrainResults {
        let steps = self.losses.len();
        let examples = steps * self.batches.plan().global_batch_size;
        let tokens = (examples * self.job.blocks.block_size()) as f64;
        let embedding = |p: &&shardwright_model::ParameterInfo| p.kind != ParameterKind::Embedding;
        let outside: usize = self.step.parameters().iter().filter(embedding).map(|p| p.element_count()).sum();
        let rate = |amount: f64| if self.seconds > 0.0 { amount / self.seconds } else { 0.0 };
        TrainResults {
            epoch: self.epoch(steps),
            total_flos: 6.0 * outside as f64 * tokens,
            train_loss: self.losses.iter().sum::<f64>() / steps.max(1) as f64,
            train_runtime: self.seconds,
            train_samples: self.job.blocks.num_blocks(),
            train_samples_per_second: rate(examples as f64),
            train_steps_per_second: rate(steps as f64),
            train_tokens_per_second: rate(tokens),
            first_loss: self.losses.first().copied().unwrap_or(f64::NAN),
            last_loss: self.losses.last().copied().unwrap_or(f64::NAN),
            steps,
        }
    }

    fn trainer_state(&self, results: &TrainResults) -> Result<TrainerState, TrainError> {
        let history = results.history(&self.log).map_err(|source| TrainError::Io {
            action: "write down the log for",
            path: self.job.config.output_dir.clone(),
            source: source.into(),
        })?;
        Ok(TrainerState {
            epoch: results.epoch,
            global_step: results.steps,
            log_history: history,
            logging_steps: self.job.config.logging_steps,
            max_steps: self.total_steps,
            num_train_epochs: self.epoch(self.total_steps).ceil() as usize,
            train_batch_size: self.job.config.per_device_train_batch_size,
        })
    }
}
