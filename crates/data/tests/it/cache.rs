use std::fs;
use std::path::PathBuf;

use serde_json::json;
use shardwright_data::{
    BlockOptions, Blocks, Corpus, CorpusOptions, Packing, Progress, TokenCache, Tokenizer,
};

use crate::fixture::{Fixture, text};

const OPTIONS: BlockOptions = BlockOptions { block_size: 64, packing: Packing::DropPerGroup };

/// A fixture with a text of 1000 bytes, and a cache.
struct Cached {
    fixture: Fixture,
    cache: TokenCache,
}

impl Cached {
    fn new() -> Cached {
        let fixture = Fixture::new();
        fixture.write("a.txt", text(1000));
        let cache = TokenCache::in_folder(fixture.path("cache"));
        Cached { fixture, cache }
    }

    fn corpus(&self, name: &str) -> Corpus {
        self.fixture.open(&[name]).unwrap()
    }

    fn tokenizer(&self) -> Tokenizer {
        self.fixture.tokenizer(|_| ()).unwrap()
    }

    fn blocks(&self, options: &BlockOptions) -> Blocks {
        self.blocks_of(&self.corpus("a.txt"), &self.tokenizer(), options)
    }

    fn blocks_of(&self, corpus: &Corpus, tokenizer: &Tokenizer, options: &BlockOptions) -> Blocks {
        self.cache.blocks(corpus, tokenizer, options, &mut |_| ()).unwrap()
    }

    /// The files of the cache, hidden ones too.
    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache.folder().unwrap()).unwrap();
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries
    }
}

fn ids(blocks: &Blocks) -> Vec<Vec<i32>> {
    (0..blocks.num_blocks()).map(|i| blocks.block(i).unwrap()).collect()
}

fn counts(blocks: &Blocks) -> [usize; 5] {
    let (total, dropped) = (blocks.total_tokens(), blocks.dropped_tokens());
    [blocks.num_blocks(), total, dropped, blocks.truncated_rows(), blocks.skipped_rows()]
}

#[test]
fn what_is_kept_is_what_was_made() {
    let cached = Cached::new();
    for packing in [Packing::DropPerGroup, Packing::Carry, Packing::PadToBlock { pad_id: 259 }] {
        let options = BlockOptions { packing, ..OPTIONS };
        let uncached = Blocks::from_corpus(&cached.corpus("a.txt"), &cached.tokenizer(), &options).unwrap();
        let made = cached.blocks(&options);
        let kept = cached.blocks(&options);
        assert_eq!((uncached.from_cache(), made.from_cache(), kept.from_cache()), (false, false, true));
        for other in [&made, &kept] {
            assert_eq!((ids(other), counts(other)), (ids(&uncached), counts(&uncached)), "{packing:?}");
        }
    }
    assert_eq!(cached.entries().len(), 3, "whole entries and nothing else");
}

#[test]
fn an_entry_is_for_one_text_and_its_settings() {
    let cached = Cached::new();
    let (corpus, tokenizer) = (cached.corpus("a.txt"), cached.tokenizer());
    cached.blocks(&OPTIONS);
    let is_kept = |corpus: &Corpus, tokenizer: &Tokenizer, options: &BlockOptions| {
        cached.blocks_of(corpus, tokenizer, options).from_cache()
    };
    assert!(is_kept(&corpus, &tokenizer, &OPTIONS));

    let other_size = BlockOptions { block_size: 65, ..OPTIONS };
    assert!(!is_kept(&corpus, &tokenizer, &other_size));
    assert!(!is_kept(&corpus, &tokenizer, &BlockOptions { packing: Packing::Carry, ..OPTIONS }));
    let padded = |pad_id| BlockOptions { packing: Packing::PadToBlock { pad_id }, ..OPTIONS };
    assert!(!is_kept(&corpus, &tokenizer, &padded(259)));
    assert!(is_kept(&corpus, &tokenizer, &padded(0)), "what fills up is not stored");

    let merged = cached.fixture.tokenizer(|file| {
        file["model"]["vocab"]["ab"] = json!(260);
        file["model"]["merges"] = json!(["a b"]);
    });
    assert!(!is_kept(&corpus, &merged.unwrap(), &OPTIONS));
    let (validation, train) = corpus.split(25).unwrap();
    assert!(!is_kept(&validation, &tokenizer, &OPTIONS));
    assert!(!is_kept(&train, &tokenizer, &OPTIONS));

    cached.fixture.write("copy.txt", text(1000));
    assert!(is_kept(&cached.corpus("copy.txt"), &tokenizer, &OPTIONS), "names of files do not count");
    cached.fixture.write("a.csv", text(1000));
    assert!(!is_kept(&cached.corpus("a.csv"), &tokenizer, &OPTIONS), "what their endings mean does");
}

#[test]
fn columns_are_part_of_the_settings() {
    let cached = Cached::new();
    let row = json!({ "text": text(100), "other": text(90) }).to_string();
    let path = cached.fixture.write("a.jsonl", row);
    let blocks = |column: Option<&str>| {
        let options = CorpusOptions { text_column: column.map(str::to_owned) };
        let corpus = Corpus::open(std::slice::from_ref(&path), options).unwrap();
        cached.blocks_of(&corpus, &cached.tokenizer(), &OPTIONS)
    };
    assert_eq!(blocks(None).total_tokens(), 100);
    assert_eq!(blocks(Some("other")).total_tokens(), 90);
}

#[test]
fn text_of_the_same_size_and_time_is_other_text() {
    let cached = Cached::new();
    let path = cached.fixture.path("a.txt");
    let first = cached.blocks(&OPTIONS);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, text(1000).to_uppercase()).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let second = cached.blocks(&OPTIONS);
    assert!(!second.from_cache());
    assert_ne!(ids(&first), ids(&second));
}

#[test]
fn a_file_that_was_written_to_is_an_error() {
    let cached = Cached::new();
    let (corpus, tokenizer) = (cached.corpus("a.txt"), cached.tokenizer());
    cached.fixture.write("a.txt", text(1001));
    let made = cached.cache.blocks(&corpus, &tokenizer, &OPTIONS, &mut |_| ());
    assert_eq!(
        cached.fixture.message(&made.unwrap_err()),
        "a.txt was changed while it was read: start again once nothing writes to it"
    );
}

/// While the text is read: the first progress is told before the whole is named.
#[test]
fn what_was_read_of_a_changing_file_is_not_kept() {
    let cached = Cached::new();
    let (corpus, tokenizer) = (cached.corpus("a.txt"), cached.tokenizer());
    let mut change = |_: Progress| drop(cached.fixture.write("a.txt", text(1001)));
    assert!(cached.cache.blocks(&corpus, &tokenizer, &OPTIONS, &mut change).is_err());
    assert!(cached.entries().is_empty());
}

#[test]
fn damaged_entries_are_made_again() {
    let cached = Cached::new();
    let made = ids(&cached.blocks(&OPTIONS));
    let [path] = cached.entries().try_into().unwrap();
    let whole = fs::read(&path).unwrap();
    let flipped = |byte: usize| {
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x10;
        bytes
    };
    let cuts = [0, 1, 43, 44, 45, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec());
    let flips = (0..whole.len()).step_by(397).chain(whole.len() - 44..whole.len()).map(flipped);
    let longer = [[&whole[..], &[0]].concat(), [&[0], &whole[..]].concat(), whole.repeat(2)];
    for damaged in cuts.into_iter().chain(flips).chain(longer) {
        fs::write(&path, &damaged).unwrap();
        let again = cached.blocks(&OPTIONS);
        assert!(!again.from_cache());
        assert_eq!(ids(&again), made);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
    assert_eq!(cached.entries(), [path]);
}

#[test]
fn what_a_killed_process_left_is_removed_and_what_another_writes_stays() {
    let cached = Cached::new();
    let left = cached.fixture.write("cache/.abc.partial", "half");
    let written = cached.fixture.write("cache/.def.partial", "half");
    let writer = fs::File::open(&written).unwrap();
    writer.try_lock().unwrap();
    cached.blocks(&OPTIONS);
    assert!(!left.exists());
    assert!(written.exists());
}

#[test]
fn text_that_makes_no_blocks_leaves_no_entry() {
    let cached = Cached::new();
    let options = BlockOptions { block_size: 2000, ..OPTIONS };
    let made = cached.cache.blocks(&cached.corpus("a.txt"), &cached.tokenizer(), &options, &mut |_| ());
    assert!(cached.fixture.message(&made.unwrap_err()).starts_with("a.txt: 1000 tokens are fewer"));
    assert!(cached.entries().is_empty());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let cached = Cached::new();
    cached.fixture.write("cache", "a file");
    let made = cached.cache.blocks(&cached.corpus("a.txt"), &cached.tokenizer(), &OPTIONS, &mut |_| ());
    let message = cached.fixture.message(&made.unwrap_err());
    assert!(message.contains("token ids"), "{message}");
    assert!(message.contains("cache"), "{message}");
}

#[test]
fn blocks_outlive_their_entry() {
    let cached = Cached::new();
    let blocks = cached.blocks(&OPTIONS);
    let before = ids(&blocks);
    fs::remove_dir_all(cached.cache.folder().unwrap()).unwrap();
    assert_eq!(ids(&blocks), before);
}

#[test]
fn progress_grows_up_to_all_bytes() {
    let cached = Cached::new();
    let path = cached.fixture.write("long.txt", text(3 << 20));
    let corpus = Corpus::open(&[path], CorpusOptions::default()).unwrap();
    let mut told = Vec::new();
    let tokenizer = cached.tokenizer();
    cached.cache.blocks(&corpus, &tokenizer, &OPTIONS, &mut |progress| told.push(progress)).unwrap();
    assert!(told.len() >= 6, "{told:?}");
    assert!(told.is_sorted_by_key(|progress| progress.bytes));
    assert_eq!(told.last(), Some(&Progress { bytes: 3 << 20, total: 3 << 20 }));
    let of_kept = &mut |_: Progress| panic!("nothing is read");
    assert!(cached.cache.blocks(&corpus, &tokenizer, &OPTIONS, of_kept).unwrap().from_cache());
}

#[test]
fn a_trained_tokenizer_is_kept_for_its_text_and_size() {
    let cached = Cached::new();
    let corpus = cached.corpus("a.txt");
    let train = |vocab, special: &[&str]| cached.cache.byte_level_bpe(&corpus, vocab, special).unwrap();
    let first = train(300, &["<s>"]);
    let [path] = cached.entries().try_into().unwrap();
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(train(300, &["<s>"]).json(), first.json());
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written, "it was not written again");
    assert_eq!(first.json(), Tokenizer::train_byte_level_bpe(&corpus, 300, &["<s>"]).unwrap().json());
    assert_eq!(train(301, &["<s>"]).vocab_size(), 301);
    assert_eq!(train(300, &["<t>"]).token_id("<t>"), Some(0));
    assert_eq!(cached.entries().len(), 3);
    fs::write(&path, "damaged").unwrap();
    assert_eq!(train(300, &["<s>"]).json(), first.json());
}
