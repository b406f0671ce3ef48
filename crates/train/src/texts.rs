//! The text of a run: which files are for training and which for evaluation, the tokenizer, and the blocks that come of
//! them.

use std::path::Path;

use shardwright_data::{
    BlockOptions, Blocks, Corpus, CorpusOptions, Packing, Progress, Skipped, TokenCache, Tokenizer,
    effective_block_size,
};
use shardwright_model::ModelConfig;

use crate::prepare::file_in;
use crate::save::{BEGIN_TOKEN, END_TOKEN, UNKNOWN_TOKEN};
use crate::{Event, Observer, Phase, Split, TrainConfig, TrainError};

/// Special tokens of a tokenizer that is trained because none was given, with the ids that Llama gives them.
const SPECIAL_TOKENS: [&str; 3] = [UNKNOWN_TOKEN, BEGIN_TOKEN, END_TOKEN];

/// The text of a run.
pub(crate) struct Texts {
    pub(crate) tokenizer: Tokenizer,
    /// Tokens of one block.
    pub(crate) block_size: usize,
    /// What is trained on, if the run trains.
    pub(crate) train: Option<Blocks>,
    /// What is evaluated on, if the run evaluates.
    pub(crate) eval: Option<Blocks>,
}

impl Texts {
    /// Reads and tokenizes what the run needs. The messages name `model_path` as the model's configuration.
    pub(crate) fn read(
        config: &TrainConfig,
        model_path: &Path,
        model: &ModelConfig,
        observer: &mut dyn Observer,
    ) -> Result<Texts, TrainError> {
        let (train, eval) = corpora(config, observer)?;
        // What is made again is not kept: an entry of the same text and settings would be the same.
        let folder = config.cache_dir.clone().filter(|_| !config.overwrite_cache);
        let cache = folder.map_or_else(TokenCache::none, TokenCache::in_folder);
        observer.event(Event::Phase(Phase::Tokenizer));
        let tokenizer = match (&config.tokenizer, train.as_ref().or(eval.as_ref())) {
            (Some(path), _) => Tokenizer::from_file(file_in(path, "tokenizer.json"))?,
            (None, Some(text)) => cache.byte_level_bpe(text, model.vocab_size(), &SPECIAL_TOKENS)?,
            (None, None) => return Err(TrainError::NothingToDo),
        };
        tokenizer.check_fits(model.vocab_size(), model_path)?;
        let limit = Some(model.max_position_embeddings());
        let block_size = effective_block_size(config.block_size, tokenizer.model_max_length(), limit)?;
        if let Some(notice) = &block_size.notice {
            observer.event(Event::Notice(notice));
        }
        let block_size = block_size.tokens;
        let packing = match config.packing {
            true => Packing::default(),
            false => Packing::PadToBlock { pad_id: tokenizer.pad_id().unwrap_or(0) },
        };
        let options = BlockOptions { block_size, packing };
        observer.event(Event::Phase(Phase::Tokenize));
        let mut blocks = |corpus: Option<Corpus>, split, most: Option<usize>| {
            let Some(corpus) = corpus else { return Ok(None) };
            let mut progress = |done: Progress| {
                let (bytes, total) = (done.bytes, done.total);
                observer.event(Event::Tokenizing { bytes, total });
            };
            let blocks = cache.blocks(&corpus, &tokenizer, &options, &mut progress)?;
            let blocks = blocks.take(most.unwrap_or(usize::MAX));
            observer.event(Event::Data {
                split,
                tokens: blocks.total_tokens(),
                blocks: blocks.num_blocks(),
                block_size: blocks.block_size(),
                dropped_tokens: blocks.dropped_tokens(),
                vocab_size: tokenizer.vocab_size(),
            });
            if blocks.truncated_rows() + blocks.skipped_rows() > 0 {
                let (cut, skipped) = (blocks.truncated_rows(), blocks.skipped_rows());
                observer.event(Event::Notice(&format!(
                    "without packing, {cut} rows are cut to {block_size} tokens, and {skipped} rows of fewer than two \
                     tokens are left out"
                )));
            }
            Ok::<_, TrainError>(Some(blocks))
        };
        let train = blocks(train.filter(|_| config.do_train), Split::Train, config.max_train_samples)?;
        let eval = blocks(eval, Split::Eval, config.max_eval_samples)?;
        Ok(Texts { tokenizer, block_size, train, eval })
    }
}

/// The text for training, and that for evaluation if the run evaluates: files of its own, or else a part of the text for
/// training, which is then not trained on.
fn corpora(
    config: &TrainConfig,
    observer: &mut dyn Observer,
) -> Result<(Option<Corpus>, Option<Corpus>), TrainError> {
    let mut open = |files: &[_]| -> Result<Corpus, TrainError> {
        let corpus = Corpus::open(files, CorpusOptions { text_column: config.text_column.clone() })?;
        if corpus.skipped() != Skipped::default() {
            observer.event(Event::Notice(&format!("files that were left out: {}", corpus.skipped())));
        }
        Ok(corpus)
    };
    let needs_train = config.do_train || config.validation_files.is_empty();
    let train = if needs_train { Some(open(&config.train_files)?) } else { None };
    match (config.evaluation.do_eval, train) {
        (false, train) => Ok((train, None)),
        (true, Some(train)) if config.validation_files.is_empty() => {
            let (eval, train) = train.split(config.validation_split_percentage)?;
            Ok((Some(train), Some(eval)))
        }
        (true, train) => Ok((train, Some(open(&config.validation_files)?))),
    }
}
