//! What a run tells, as lines on stdout and a progress bar on stderr.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use shardwright_mesh::{DrawStyle, draw_mesh};
use shardwright_partition::{Bytes, LintOptions, ShardingPlan, Strategy, TENSOR_AXIS, WrapConfig, lint};
use shardwright_train::{
    DryRun, EvaluationRecord, EvaluationResults, Event, LogRecord, Observer, Phase, ShardingConfig, Split,
    StepProgress, TrainConfig, TrainResults, TrainStart,
};

use super::console::{self, Verbosity};
use super::dry_run;
use super::engine;
use super::metrics;
use super::program::tell_lints;

/// Redraws of a spinner in a second, when nothing else moves it.
const SPIN: Duration = Duration::from_millis(100);

/// How often a bar shows another loss, which has to be read from a device.
const LOSS: Duration = Duration::from_millis(250);

/// Shows a run. Where nobody watches stderr, lines stand for the progress bar.
pub(super) struct Report {
    verbosity: Verbosity,
    is_watched: bool,
    sharding: ShardingConfig,
    bar: ProgressBar,
    pace: Option<Pace>,
    /// Facts that were learnt before the plugin was opened, whose own come first.
    held: Option<Vec<String>>,
}

/// How fast training goes, and how far it is.
#[derive(Clone, Copy, Debug)]
struct Pace {
    start: TrainStart,
    last: Option<StepProgress>,
}

impl Report {
    pub(super) fn new(verbosity: Verbosity, config: &TrainConfig) -> Report {
        Report {
            verbosity,
            is_watched: console::is_watched(),
            sharding: config.sharding.clone(),
            bar: ProgressBar::hidden(),
            pace: None,
            held: Some(Vec::new()),
        }
    }

    /// Something that a user may want to know.
    pub(super) fn notice(&self, notice: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.bar.suspend(|| console::note(format!("note: {notice}")));
        }
    }

    /// What the run works with, beginning with the plugin.
    pub(super) fn open(&mut self, lines: &[String]) {
        let held = self.held.take().unwrap_or_default();
        lines.iter().cloned().chain(held).for_each(|line| self.tell(line));
    }

    /// What a dry run found.
    pub(super) fn found(&mut self, found: &DryRun) {
        self.end();
        console::result(dry_run::text(found));
    }

    /// Takes the progress bar away.
    pub(super) fn end(&mut self) {
        self.bar.finish_and_clear();
    }

    fn fact(&mut self, label: &str, text: String) {
        self.tell(labelled(label, text));
    }

    fn tell(&mut self, lines: String) {
        match &mut self.held {
            Some(held) => held.push(lines),
            None if self.verbosity > Verbosity::Quiet => self.bar.suspend(|| console::result(lines)),
            None => {}
        }
    }

    /// What is worth knowing about the plan.
    fn lints(&self, plan: &ShardingPlan) {
        let lints = lint(plan, &LintOptions::default());
        self.bar.suspend(|| tell_lints(&lints, self.verbosity, None));
    }

    fn phase(&mut self, phase: Phase) {
        self.bar.finish_and_clear();
        match (self.verbosity > Verbosity::Quiet, self.is_watched) {
            (false, _) => {}
            (true, true) => {
                self.bar = ProgressBar::new_spinner().with_message(phase.to_string());
                self.bar.enable_steady_tick(SPIN);
            }
            (true, false) => console::note(phase),
        }
    }

    fn start(&mut self, start: &TrainStart) {
        self.bar.finish_and_clear();
        for (label, text) in start_lines(start) {
            self.fact(label, text);
        }
        self.pace = Some(Pace { start: *start, last: None });
        if self.verbosity > Verbosity::Quiet && self.is_watched {
            let template = "{wide_bar} {pos}/{len} {msg}";
            let style = ProgressStyle::with_template(template).expect("the template is fixed");
            self.bar = ProgressBar::new(start.steps as u64).with_style(style);
        }
    }

    fn step(&mut self, progress: StepProgress) {
        let Some(pace) = &mut self.pace else { return };
        pace.last = Some(progress);
        if self.is_watched {
            self.bar.set_message(progress_text(&pace.start, &progress));
            self.bar.set_position(progress.step as u64);
        }
    }

    /// A record of the log, as a line where there is no bar. Evaluations are told in any case.
    fn logged(&mut self, record: &LogRecord) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        match (record, &self.pace) {
            (LogRecord::Train(record), Some(Pace { start, last: Some(last) })) if !self.is_watched => {
                // The step of the record was the last one but one that was started.
                let progress = StepProgress {
                    step: record.step,
                    epoch: record.epoch,
                    learning_rate: record.learning_rate,
                    loss: Some(record.loss),
                    ..*last
                };
                let text = progress_text(start, &progress);
                console::note(format!("step {}/{}  {text}", record.step, start.steps));
            }
            (LogRecord::Evaluation(EvaluationRecord { step, epoch, eval_loss, .. }), _) => {
                let perplexity = eval_loss.exp();
                let text = format!(
                    "eval at step {step}  epoch {epoch}  loss {eval_loss:.4}  perplexity {perplexity:.4}"
                );
                self.bar.suspend(|| console::note(text));
            }
            _ => {}
        }
    }

    fn trained(&mut self, results: &TrainResults, output_dir: &Path) {
        self.end();
        console::result(metrics::block("train", &engine::train_figures(results)));
        let TrainResults { first_loss, last_loss, steps, .. } = results;
        console::result(format!("loss {first_loss:.4} at step 1, {last_loss:.4} at step {steps}"));
        console::result(format!("saved to {}", short(output_dir).display()));
    }

    fn evaluated(&mut self, results: &EvaluationResults) {
        self.end();
        console::result(metrics::block("eval", &engine::eval_figures(results)));
    }
}

impl Observer for Report {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Notice(text) => self.notice(text),
            Event::Phase(phase) => self.phase(phase),
            Event::Tokenizing { bytes, total } => {
                let done = 100 * bytes / total.max(1);
                self.bar.set_message(format!("{}, {done} % of {}", Phase::Tokenize, Bytes(total)));
            }
            Event::Data { split, tokens, blocks, block_size, dropped_tokens, vocab_size } => self.fact(
                match split {
                    Split::Train => "data",
                    Split::Eval => "eval data",
                },
                format!(
                    "{} blocks of {block_size} tokens, {} tokens in all, {} of them dropped; vocabulary {}",
                    digits(blocks),
                    digits(tokens),
                    digits(dropped_tokens),
                    digits(vocab_size)
                ),
            ),
            Event::Plan { parameters, trained, mesh, plan, wrapped_units, remat } => {
                self.fact("mesh", mesh.shape().to_string());
                self.fact("model", format!("{} parameters ({:.2} Mi)", digits(parameters), mebi(parameters)));
                if trained < parameters {
                    self.fact("trained", trained_text(trained, parameters));
                }
                let (split, count) = plan.split_parameters();
                self.fact("fsdp", fsdp_text(&self.sharding, split, wrapped_units, remat));
                let [whole, each] = <[usize; 2]>::from(plan.state_bytes()).map(|bytes| Bytes(bytes as u64));
                self.fact(
                    "split",
                    format!("{split} of {count} parameters; of {whole} with their optimizer state, {each} on each device"),
                );
                if let Some(ways) = plan.mesh().axis_size(TENSOR_AXIS) {
                    let text =
                        format!("{} parameters split {ways} ways over axis tensor", plan.tensor_parameters());
                    self.fact("tensor", text);
                }
                self.lints(plan);
                if self.verbosity >= Verbosity::Verbose {
                    self.tell(draw_mesh(mesh, DrawStyle::Plain).trim_end().to_owned());
                    self.tell(plan.to_string().trim_end().to_owned());
                }
            }
            Event::Compiled { split, seconds, is_kept, collectives, bytes_per_device } => {
                let memory = bytes_per_device.map(|n| format!("; at most {} on a device", Bytes(n)));
                let memory = memory.unwrap_or_default();
                let collectives = collectives.map(|c| format!(": {c}")).unwrap_or_default();
                let kept = if is_kept { "before, and loaded " } else { "" };
                let what = match split {
                    Split::Train => "",
                    Split::Eval => "the evaluation, ",
                };
                self.fact("compiled", format!("{what}{kept}in {seconds:.1} s{collectives}{memory}"));
            }
            Event::Start(start) => self.start(start),
            Event::Step(progress) => self.step(progress),
            Event::Logged(record) => self.logged(record),
            Event::Trained { results, output_dir } => self.trained(results, output_dir),
            Event::Evaluated { results, .. } => self.evaluated(results),
            _ => {}
        }
    }

    fn wants_loss_every(&self) -> Option<Duration> {
        (self.is_watched && self.verbosity > Verbosity::Quiet).then_some(LOSS)
    }
}

/// How far a training is, and how fast, once a step is over.
fn progress_text(start: &TrainStart, progress: &StepProgress) -> String {
    let StepProgress { finished, epoch, learning_rate, seconds, loss, .. } = *progress;
    let TrainStart { steps, global_batch_size, block_size, flops_per_token, peak_flops, .. } = *start;
    let loss = loss.map(|loss| format!("  loss {loss:.4}")).unwrap_or_default();
    let so_far = format!("epoch {epoch:.2}{loss}  lr {learning_rate:.2e}");
    if finished == 0 {
        return so_far;
    }
    let seconds_per_step = seconds / finished as f64;
    let left = (seconds_per_step * steps.saturating_sub(finished) as f64).round() as u64;
    let rate = (global_batch_size * block_size) as f64 / seconds_per_step.max(1e-9);
    let used = peak_flops.map(|peak| format!("  MFU {:.1} %", 100.0 * rate * flops_per_token / peak));
    format!(
        "{so_far}  {} tokens/s{}  {}:{:02} left",
        digits(rate as usize),
        used.unwrap_or_default(),
        left / 60,
        left % 60
    )
}

/// What a training is going to be, by labels.
fn start_lines(start: &TrainStart) -> [(&'static str, String); 2] {
    let TrainStart { steps, examples, epochs, trainable_parameters, .. } = *start;
    let TrainStart { per_device_batch_size, accumulation_steps, global_batch_size, block_size, .. } = *start;
    let accumulated = match accumulation_steps {
        1 => String::new(),
        count => format!(", {count} accumulated"),
    };
    let batch = format!(
        "{per_device_batch_size} per device{accumulated}, {global_batch_size} in all, {} tokens; {steps} steps",
        digits(global_batch_size * block_size)
    );
    let training = format!(
        "{} examples, {epochs:.2} epochs; {} trainable parameters ({:.2} Mi)",
        digits(examples),
        digits(trainable_parameters),
        mebi(trainable_parameters)
    );
    [("batch", batch), ("training", training)]
}

/// A line with its label in a column of its own.
pub(super) fn labelled(label: &str, text: impl std::fmt::Display) -> String {
    format!("{label:9} {text}")
}

/// How much of a model is trained, in PEFT's words.
fn trained_text(trained: usize, all: usize) -> String {
    let percent = 100.0 * trained as f64 / all as f64;
    format!(
        "trainable params: {} || all params: {} || trainable%: {percent:.4}",
        digits(trained),
        digits(all)
    )
}

fn fsdp_text(sharding: &ShardingConfig, split: usize, wrapped_units: usize, remat: bool) -> String {
    let of = match &sharding.fsdp.wrap {
        WrapConfig::Classes(classes) if wrapped_units > 0 => format!(" of {}", classes.join(", ")),
        _ => String::new(),
    };
    let remat = if remat { "on" } else { "off" };
    if sharding.strategy == Strategy::NoShard {
        return format!("off, every device holds all parameters; gradient checkpointing {remat}");
    }
    if split == 0 {
        // With more devices the run is refused.
        return format!("off: axis {} has one device; gradient checkpointing {remat}", sharding.axis);
    }
    format!(
        "{} over axis {}, {wrapped_units} wrapped units{of}, gradient checkpointing {remat}",
        sharding.strategy, sharding.axis
    )
}

/// A number with commas between thousands.
fn digits(number: usize) -> String {
    let text = number.to_string();
    let grouped = text.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    grouped.collect::<Vec<_>>().join(",")
}

fn mebi(number: usize) -> f64 {
    number as f64 / (1 << 20) as f64
}

/// A path from the working directory, where it lies in there, without detours.
fn short(path: &Path) -> PathBuf {
    let Ok(full) = path.canonicalize() else { return path.to_owned() };
    let here = env::current_dir().and_then(|here| here.canonicalize());
    match here.ok().and_then(|here| full.strip_prefix(here).ok().map(Path::to_owned)) {
        Some(inside) if inside.as_os_str().is_empty() => full,
        Some(inside) => inside,
        None => full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: TrainStart = TrainStart {
        steps: 200,
        examples: 1600,
        epochs: 2.0,
        per_device_batch_size: 2,
        accumulation_steps: 1,
        global_batch_size: 16,
        block_size: 64,
        trainable_parameters: 3 << 19,
        flops_per_token: 1e6,
        peak_flops: None,
    };

    #[test]
    fn progress_tells_loss_rate_and_what_is_left() {
        let progress = StepProgress {
            step: 52,
            finished: 50,
            epoch: 0.5,
            learning_rate: 7.5e-4,
            seconds: 25.0,
            loss: Some(4.56789),
        };
        assert_eq!(
            progress_text(&START, &progress),
            "epoch 0.50  loss 4.5679  lr 7.50e-4  2,048 tokens/s  1:15 left"
        );
        let known = TrainStart { peak_flops: Some(1e10), ..START };
        let silent = StepProgress { loss: None, ..progress };
        assert_eq!(
            progress_text(&known, &silent),
            "epoch 0.50  lr 7.50e-4  2,048 tokens/s  MFU 20.5 %  1:15 left"
        );
        // Before a step is over, nobody knows how long one takes.
        let begun = StepProgress { step: 1, finished: 0, ..silent };
        assert_eq!(progress_text(&START, &begun), "epoch 0.50  lr 7.50e-4");
    }

    #[test]
    fn the_start_tells_batches_and_parameters() {
        let lines = |start| start_lines(&start).map(|(label, text)| labelled(label, text));
        assert_eq!(
            lines(START),
            [
                "batch     2 per device, 16 in all, 1,024 tokens; 200 steps",
                "training  1,600 examples, 2.00 epochs; 1,572,864 trainable parameters (1.50 Mi)"
            ]
        );
        let accumulated = lines(TrainStart { accumulation_steps: 4, ..START });
        assert_eq!(
            accumulated[0],
            "batch     2 per device, 4 accumulated, 16 in all, 1,024 tokens; 200 steps"
        );
    }

    #[test]
    fn fsdp_is_off_where_nothing_is_split() {
        let full = ShardingConfig::default();
        assert_eq!(
            fsdp_text(&full, 3, 2, false),
            "full_shard over axis fsdp, 2 wrapped units, gradient checkpointing off"
        );
        assert_eq!(fsdp_text(&full, 0, 2, true), "off: axis fsdp has one device; gradient checkpointing on");
        let none = ShardingConfig { strategy: Strategy::NoShard, ..full };
        assert_eq!(
            fsdp_text(&none, 0, 2, false),
            "off, every device holds all parameters; gradient checkpointing off"
        );
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(digits(number), text);
        }
    }
}
