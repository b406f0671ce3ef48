//! `README.md` of a trained model, which hubs show as its page.

use std::fmt::Write;
use std::path::Path;

use crate::{EvaluationResults, Job, Model, ModelSource, TrainResults};

/// The page. It names files and folders, and not where they lie.
pub(crate) fn model_card(
    job: &Job,
    training: &TrainResults,
    evaluation: Option<&EvaluationResults>,
) -> String {
    let config = &job.config;
    let name = named(&config.output_dir);
    let origin = match &config.model {
        ModelSource::Config(path) => {
            format!("new weights (seed {}) for the configuration `{}`", config.seed, named(path))
        }
        ModelSource::Pretrained(folder) => format!("the weights of `{}`", named(folder)),
    };
    let files: Vec<String> = config.train_files.iter().map(|path| format!("`{}`", named(path))).collect();
    let parameters: usize = job.model.parameters().iter().map(|p| p.element_count()).sum();
    let mut card = format!(
        "---\nlibrary_name: transformers\ntags:\n- generated_from_trainer\n---\n\n# {name}\n\n\
         Trained by Shardwright {} from {origin}, on {}.\n\n| | |\n| --- | --- |\n",
        env!("CARGO_PKG_VERSION"),
        files.join(", ")
    );
    let mut row = |name: &str, value: String| {
        writeln!(card, "| {name} | {value} |").expect("a string takes all that is written to it");
    };
    row("parameters", parameters.to_string());
    row("tokens of an example", job.texts.block_size.to_string());
    row("steps", training.steps.to_string());
    row("epochs", format!("{:.2}", training.epoch));
    row("learning rate", format!("{:e}", config.groups.learning_rate));
    row("training loss", format!("{:.4}", training.train_loss));
    if let Some(results) = evaluation {
        row("evaluation loss", format!("{:.4}", results.eval_loss));
        row("perplexity", format!("{:.4}", results.perplexity));
    }
    card.push_str("\nThe other settings are in `training_args.json`.\n");
    card
}

/// The last part of a path, or all of one that has none.
fn named(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
