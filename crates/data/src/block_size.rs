use crate::{BlockError, DataError};

/// The block size where neither the caller nor the tokenizer gives one.
const DEFAULT: usize = 1024;

/// The number of tokens in a block, and what the user should be told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// Tokens per block.
    pub tokens: usize,
    /// Why it is not what was asked for, to be shown as a warning.
    pub notice: Option<String>,
}

/// The block size of a run, from what was asked for, the tokenizer's limit and the model's number of positions.
///
/// What was asked for is reduced to the smaller of the two limits, with a notice. If nothing was asked for, the
/// tokenizer's limit counts; where that is missing or more than the model's positions, it is 1024 or the number of
/// positions, the smaller one, with a notice.
pub fn effective_block_size(
    asked: Option<usize>,
    tokenizer_max: Option<usize>,
    model_positions: Option<usize>,
) -> Result<BlockSize, DataError> {
    let size = match asked {
        Some(asked) => reduced(asked, tokenizer_max, model_positions),
        None => default_size(tokenizer_max, model_positions),
    };
    match size.tokens {
        0 | 1 => Err(BlockError::BlockSize { block_size: size.tokens }.into()),
        _ => Ok(size),
    }
}

fn reduced(asked: usize, tokenizer_max: Option<usize>, model_positions: Option<usize>) -> BlockSize {
    let limits = [
        (tokenizer_max, "the tokenizer's maximum length (model_max_length)"),
        (model_positions, "the model's positions (max_position_embeddings)"),
    ];
    let limit = limits.into_iter().filter_map(|(limit, what)| Some((limit?, what))).min_by_key(|(n, _)| *n);
    match limit {
        Some((limit, what)) if asked > limit => {
            let notice = format!("block size {asked} is more than {what}: using {limit}");
            BlockSize { tokens: limit, notice: Some(notice) }
        }
        _ => BlockSize { tokens: asked, notice: None },
    }
}

fn default_size(tokenizer_max: Option<usize>, model_positions: Option<usize>) -> BlockSize {
    let tokens = match (tokenizer_max, model_positions) {
        (Some(limit), positions) if positions.is_none_or(|n| limit <= n) => {
            return BlockSize { tokens: limit, notice: None };
        }
        (_, Some(positions)) => positions.min(DEFAULT),
        (_, None) => DEFAULT,
    };
    let limit = match tokenizer_max {
        Some(limit) => format!("the tokenizer's maximum length is {limit}"),
        None => "the tokenizer states no maximum length".to_owned(),
    };
    let positions = model_positions.map_or(String::new(), |n| format!(", the model has {n} positions"));
    let notice = format!("no block size was given, {limit}{positions}: using {tokens}");
    BlockSize { tokens, notice: Some(notice) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        asked: Option<usize>,
        tokenizer: Option<usize>,
        model: Option<usize>,
        tokens: usize,
        notice: &str,
    ) {
        let size = effective_block_size(asked, tokenizer, model).unwrap();
        assert_eq!((size.tokens, size.notice.as_deref().unwrap_or("")), (tokens, notice));
    }

    #[test]
    fn what_was_asked_for_is_reduced_with_a_notice() {
        check(Some(128), None, Some(256), 128, "");
        check(Some(256), Some(256), Some(256), 256, "");
        check(
            Some(512),
            None,
            Some(256),
            256,
            "block size 512 is more than the model's positions (max_position_embeddings): using 256",
        );
        check(
            Some(512),
            Some(100),
            Some(256),
            100,
            "block size 512 is more than the tokenizer's maximum length (model_max_length): using 100",
        );
    }

    #[test]
    fn the_default_follows_the_tokenizer_within_the_model() {
        check(None, Some(512), Some(2048), 512, "");
        check(None, Some(512), None, 512, "");
        check(
            None,
            Some(8192),
            Some(256),
            256,
            "no block size was given, the tokenizer's maximum length is 8192, the model has 256 positions: using 256",
        );
        check(
            None,
            None,
            Some(131072),
            1024,
            "no block size was given, the tokenizer states no maximum length, the model has 131072 positions: using 1024",
        );
        check(
            None,
            None,
            None,
            1024,
            "no block size was given, the tokenizer states no maximum length: using 1024",
        );
    }

    #[test]
    fn a_block_needs_two_tokens() {
        for asked in [0, 1] {
            assert!(effective_block_size(Some(asked), None, None).is_err());
        }
    }
}
