//! Settings of what is measured and noted down.

use std::path::PathBuf;

use super::super::choice::{Reporters, When};
use super::super::failure::Failure;
use super::super::value::{AtLeast, Every, Value};
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// When a model is evaluated, and what is noted down.
    EvaluationSettings "Evaluation and logging" {
        /// Evaluate: loss and perplexity, at the end and as eval_strategy says
        do_eval: bool = "no";
        /// When to evaluate in the course of training: no, steps or epoch
        eval_strategy | evaluation_strategy: When = "no";
        /// Steps between two evaluations, or below 1 a part of all steps [default: logging_steps]
        eval_steps: Every;
        /// Evaluate before the first step
        eval_on_start: bool = "no";
        /// Examples that one device sees at a time when the model is evaluated
        per_device_eval_batch_size | per_gpu_eval_batch_size: AtLeast<1> = "8";
        /// When the loss is noted down: steps, epoch or no
        logging_strategy: When = "steps";
        /// Steps between two records of the log, or below 1 a part of all steps
        logging_steps: Every = "500";
        /// Also note down the first step
        logging_first_step: bool = "no";
        /// Leave losses that are not finite out of the means of the log
        logging_nan_inf_filter: bool = "yes";
        /// Who reads the log beside you: none or tensorboard
        report_to: Reporters = "none";
        /// The folder of the log [default: runs/RUN_NAME in output_dir]
        logging_dir: PathBuf;
        /// What the run is called there
        run_name: String;
    }
}
