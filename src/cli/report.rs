//! What a run tells, as lines on stdout and a progress bar on stderr.

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shardwright_mesh::{DrawStyle, draw_mesh};
use shardwright_partition::{Bytes, LintOptions, ShardingPlan, Strategy, TENSOR_AXIS, WrapConfig, lint};
use shardwright_train::{
    Event, IntervalStrategy, Observer, Phase, ShardingConfig, StepMetrics, TrainConfig, TrainResults,
};

use super::console::{self, Verbosity};
use super::engine;
use super::metrics;
use super::program::tell_lints;

/// Redraws of a spinner in a second, when nothing else moves it.
const SPIN: Duration = Duration::from_millis(100);

/// Shows a run. Where nobody watches stderr, lines stand for the progress bar.
pub(super) struct Report {
    verbosity: Verbosity,
    is_watched: bool,
    sharding: ShardingConfig,
    logging_steps: Option<usize>,
    bar: ProgressBar,
    pace: Option<Pace>,
    /// Facts that were learnt before the plugin was opened, whose own come first.
    held: Option<Vec<String>>,
}

/// How fast training goes.
#[derive(Clone, Copy, Debug)]
struct Pace {
    started: Instant,
    steps: usize,
    tokens_per_step: usize,
}

impl Report {
    pub(super) fn new(verbosity: Verbosity, config: &TrainConfig) -> Report {
        Report {
            verbosity,
            is_watched: console::is_watched(),
            sharding: config.sharding.clone(),
            logging_steps: match config.logging.strategy {
                IntervalStrategy::Steps(steps) => Some(steps),
                _ => None,
            },
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

    fn start(&mut self, steps: usize, tokens_per_step: usize) {
        self.bar.finish_and_clear();
        self.pace = Some(Pace { started: Instant::now(), steps, tokens_per_step });
        if self.verbosity > Verbosity::Quiet && self.is_watched {
            let template = "{wide_bar} {pos}/{len} {msg}";
            let style = ProgressStyle::with_template(template).expect("the template is fixed");
            self.bar = ProgressBar::new(steps as u64).with_style(style);
        }
    }

    fn step(&mut self, metrics: StepMetrics) {
        let Some(pace) = self.pace else { return };
        let progress = pace.progress(&metrics, pace.started.elapsed());
        if self.is_watched {
            self.bar.set_message(progress);
            self.bar.set_position(metrics.step as u64);
        } else if self.verbosity > Verbosity::Quiet && self.is_logged(metrics.step, pace.steps) {
            console::note(format!("step {}/{}  {progress}", metrics.step, pace.steps));
        }
    }

    fn is_logged(&self, step: usize, steps: usize) -> bool {
        self.logging_steps.is_some_and(|every| step.is_multiple_of(every) || step == 1 || step == steps)
    }

    fn finished(&mut self, results: &TrainResults, output_dir: &Path) {
        self.end();
        console::result(metrics::block("train", &engine::figures(results)));
        let TrainResults { first_loss, last_loss, steps, .. } = results;
        console::result(format!("loss {first_loss:.4} at step 1, {last_loss:.4} at step {steps}"));
        console::result(format!("saved to {}", short(output_dir).display()));
    }
}

impl Observer for Report {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Notice(text) => self.notice(text),
            Event::Phase(phase) => self.phase(phase),
            Event::Data { tokens, blocks, block_size, dropped_tokens, vocab_size } => self.fact(
                "data",
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
            Event::Compiled { seconds, is_kept, collectives, bytes_per_device } => {
                let memory = bytes_per_device.map(|n| format!("; at most {} on a device", Bytes(n)));
                let memory = memory.unwrap_or_default();
                let collectives = collectives.map(|c| format!(": {c}")).unwrap_or_default();
                let kept = if is_kept { "before, and loaded " } else { "" };
                self.fact("compiled", format!("{kept}in {seconds:.1} s{collectives}{memory}"));
            }
            Event::Start { steps, per_device_batch_size, global_batch_size, block_size } => {
                self.fact(
                    "batch",
                    format!(
                        "{per_device_batch_size} per device, {global_batch_size} in all, {} tokens; {steps} steps",
                        digits(global_batch_size * block_size)
                    ),
                );
                self.start(steps, global_batch_size * block_size);
            }
            Event::Step(metrics) => self.step(metrics),
            Event::Finished { results, output_dir } => self.finished(results, output_dir),
            _ => {}
        }
    }
}

impl Pace {
    fn progress(&self, metrics: &StepMetrics, elapsed: Duration) -> String {
        let StepMetrics { step, loss, learning_rate, .. } = *metrics;
        let seconds_per_step = elapsed.as_secs_f64() / step.max(1) as f64;
        let left = (seconds_per_step * self.steps.saturating_sub(step) as f64).round() as u64;
        let rate = self.tokens_per_step as f64 / seconds_per_step.max(1e-9);
        format!(
            "loss {loss:.4}  lr {learning_rate:.2e}  {} tokens/s  {}:{:02} left",
            digits(rate as usize),
            left / 60,
            left % 60
        )
    }
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

    #[test]
    fn progress_tells_loss_rate_and_what_is_left() {
        let pace = Pace { started: Instant::now(), steps: 200, tokens_per_step: 1024 };
        let metrics =
            StepMetrics { step: 50, epoch: 0.5, loss: 4.56789, grad_norm: 1.0, learning_rate: 7.5e-4 };
        assert_eq!(
            pace.progress(&metrics, Duration::from_secs(25)),
            "loss 4.5679  lr 7.50e-4  2,048 tokens/s  1:15 left"
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
