//! Settings of the text.

use std::path::PathBuf;

use super::super::failure::Failure;
use super::super::value::{AtLeast, Percent, Value};
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// What a model is trained and evaluated on.
    DataSettings "Data" {
        /// Files of text, JSON lines, CSV or Parquet, folders of them, or patterns such as 'data/*.jsonl'; dataset is
        /// the same
        train_file | dataset: Vec<PathBuf>;
        /// The same for evaluation [default: a part of train_file]
        validation_file: Vec<PathBuf>;
        /// That part, in percent
        validation_split_percentage: Percent = "5";
        /// The column that holds the text [default: text, else the first]
        text_column | text_column_name | dataset_text_field: String;
        /// Tokens in an example [default: the tokenizer's maximum if the model can take it, else 1024, or the model's
        /// positions if those are fewer]
        block_size: AtLeast<2>;
        /// Join rows and cut them into full examples; no makes an example of each row, cut or filled up
        packing: bool = "yes";
        /// Train on no more than so many examples
        max_train_samples: AtLeast<1>;
        /// Evaluate on no more than so many examples
        max_eval_samples: AtLeast<1>;
        /// Leave out the last batch of an epoch if it is not full
        dataloader_drop_last: bool = "no";
        /// The folder where tokens are kept from run to run [default: in SHARDWRIGHT_CACHE_DIR]
        cache_dir: PathBuf;
        /// Tokenize again, whatever is kept there
        overwrite_cache: bool = "no";
    }
}
