use std::collections::HashSet;

use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, ProgressFormat};

use super::{Tokenizer, TokenizerError};
use crate::{Corpus, DataError};

impl Tokenizer {
    /// Trains a byte-level BPE tokenizer, as GPT-2's: any text can be written in its tokens and read back.
    ///
    /// Ids are given to the special tokens first, in order, then to the 256 bytes, then to the merges from the most
    /// frequent down, ties by id. The same text gives the same tokenizer. There are fewer than `vocab_size` tokens
    /// when the text offers no more pairs to merge: see [`Tokenizer::vocab_size`]. No tokens are added to rows.
    pub fn train_byte_level_bpe(
        corpus: &Corpus,
        vocab_size: usize,
        special_tokens: &[&str],
    ) -> Result<Tokenizer, DataError> {
        check_special_tokens(special_tokens)?;
        if vocab_size < 256 + special_tokens.len() {
            return Err(TokenizerError::VocabTooSmall { vocab_size, special: special_tokens.len() }.into());
        }
        let bytes = ByteLevel::default().add_prefix_space(false);
        let mut trained = tokenizers::Tokenizer::new(BPE::default());
        trained.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
        train(&mut trained, corpus, trainer(vocab_size, special_tokens))?;
        let json = trained.to_string(true).map_err(train_error(corpus))?;
        Ok(Tokenizer::from_json(json, None)?)
    }
}

fn check_special_tokens(tokens: &[&str]) -> Result<(), TokenizerError> {
    let mut seen = HashSet::new();
    for &token in tokens {
        let problem = if token.is_empty() {
            "is empty"
        } else if !seen.insert(token) {
            "is given twice"
        } else if is_byte(token) {
            "is how one of the 256 bytes is written"
        } else {
            continue;
        };
        return Err(TokenizerError::SpecialToken { token: token.to_owned(), problem });
    }
    Ok(())
}

/// Whether the token is a letter of the byte-level alphabet, so that both would get one id.
fn is_byte(token: &str) -> bool {
    let mut letters = token.chars();
    letters.next().is_some_and(|letter| letters.next().is_none() && ByteLevel::alphabet().contains(&letter))
}

fn trainer(vocab_size: usize, special_tokens: &[&str]) -> TrainerWrapper {
    let special = special_tokens.iter().map(|&token| AddedToken::from(token, true)).collect();
    BpeTrainerBuilder::new()
        .vocab_size(vocab_size)
        .special_tokens(special)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .show_progress(false)
        .progress_format(ProgressFormat::Silent)
        .build()
        .into()
}

fn train(
    tokenizer: &mut tokenizers::Tokenizer,
    corpus: &Corpus,
    mut trainer: TrainerWrapper,
) -> Result<(), DataError> {
    // The trainer takes text only: the stream stops at the first error, which is kept for afterwards.
    let mut failed = None;
    let rows = corpus.documents().map_while(|row| row.map_err(|error| failed = Some(error)).ok());
    let trained = tokenizer.train(&mut trainer, rows).map(|_| ());
    match failed {
        Some(error) => Err(error),
        None => Ok(trained.map_err(train_error(corpus))?),
    }
}

fn train_error(corpus: &Corpus) -> impl FnOnce(tokenizers::Error) -> TokenizerError {
    move |source| TokenizerError::Train { corpus: corpus.to_string(), source }
}
