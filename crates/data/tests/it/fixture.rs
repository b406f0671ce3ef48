//! A folder with text files and a tokenizer of bytes, for which an ASCII text of N bytes has N tokens.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use shardwright_data::{BlockOptions, Blocks, Corpus, CorpusOptions, DataError, Tokenizer};

pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        path
    }

    pub(crate) fn open(&self, names: &[&str]) -> Result<Corpus, DataError> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        Corpus::open(&paths, CorpusOptions::default())
    }

    /// Writes `tokenizer.json`: that of bytes, changed by `edit`.
    pub(crate) fn tokenizer(&self, edit: impl FnOnce(&mut Value)) -> Result<Tokenizer, DataError> {
        let mut file = byte_tokenizer();
        edit(&mut file);
        Tokenizer::from_file(self.write("tokenizer.json", file.to_string()))
    }

    /// The blocks of these texts, one file each.
    pub(crate) fn blocks(&self, texts: &[&str], block_size: usize) -> Result<Blocks, DataError> {
        let files = texts.iter().enumerate();
        let paths: Vec<PathBuf> =
            files.map(|(i, text)| self.write(&format!("corpus{i}.txt"), text)).collect();
        let corpus = Corpus::open(&paths, CorpusOptions::default())?;
        Blocks::from_corpus(&corpus, &self.tokenizer(|_| ())?, &BlockOptions::new(block_size))
    }

    /// An error and its causes, without the name of the temporary folder.
    pub(crate) fn message(&self, error: &dyn Error) -> String {
        let chain = std::iter::successors(Some(error), |error| (*error).source());
        let text = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        text.replace(&format!("{}{}", self.folder.path().display(), std::path::MAIN_SEPARATOR), "")
    }
}

/// `n` bytes of ASCII, with a line break after every 79 letters.
pub(crate) fn text(n: usize) -> String {
    (0..n).map(|i| if i % 80 == 79 { '\n' } else { char::from(b'a' + (i * i / 7 % 26) as u8) }).collect()
}

/// Byte-level BPE without merges: ids 0..=255 are the bytes, 256 and on `<s>`, `</s>`, `<unk>`, `<pad>`.
pub(crate) fn byte_tokenizer() -> Value {
    const SPECIAL: [&str; 4] = ["<s>", "</s>", "<unk>", "<pad>"];
    let mut vocab = Map::new();
    for byte in 0..=255u8 {
        vocab.insert(byte_letter(byte).to_string(), json!(byte));
    }
    let mut added = Vec::new();
    for (id, token) in (256..).zip(SPECIAL) {
        vocab.insert(token.to_owned(), json!(id));
        added.push(json!({
            "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        }));
    }
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "vocab": vocab,
            "merges": [],
        },
    })
}

/// How GPT-2's alphabet writes a byte: printable ones as themselves, the others from U+0100 on in order.
fn byte_letter(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&other| !printable(other)).count() as u32;
    char::from_u32(0x100 + rank).unwrap()
}
