use shardwright_data::{BlockOptions, Blocks, DataError, Packing};

use crate::fixture::{Fixture, text};

fn check(texts: &[&str], block_size: usize, blocks: usize, dropped: usize) {
    let made = Fixture::new().blocks(texts, block_size).unwrap();
    assert_eq!((made.num_blocks(), made.dropped_tokens()), (blocks, dropped));
    assert_eq!(made.total_tokens(), texts.concat().len());
    assert!((0..blocks).all(|i| made.block(i).unwrap().len() == block_size));
}

fn check_error(contents: &str, block_size: usize, expected: &str) {
    let fixture = Fixture::new();
    let error = fixture.blocks(&[contents], block_size).unwrap_err();
    assert_eq!(fixture.message(&error), expected);
}

#[test]
fn only_full_blocks_are_made() {
    check(&[&text(1000)], 128, 7, 104);
    check(&[&text(128)], 128, 1, 0);
    check(&[&text(129)], 128, 1, 1);
    check(&[&text(255)], 128, 1, 127);
}

#[test]
fn files_are_joined() {
    check(&[&text(100), &text(100)], 128, 1, 72);
}

#[test]
fn blocks_hold_the_bytes_of_the_text() {
    let contents = text(300);
    let blocks = Fixture::new().blocks(&[&contents], 128).unwrap();
    let ids: Vec<i32> = (0..blocks.num_blocks()).flat_map(|i| blocks.block(i).unwrap()).collect();
    assert!(ids.into_iter().eq(contents.bytes().take(256).map(i32::from)));
}

#[test]
fn text_without_a_block_is_an_error() {
    check_error(
        &text(100),
        256,
        "corpus0.txt: 100 tokens are fewer than one block of 256: add text, or lower the block size to 100 or less",
    );
    check_error("", 256, "corpus0.txt: file is empty, expected text");
    check_error(
        "\n\n\n",
        256,
        "corpus0.txt: 3 tokens are fewer than one block of 256: add text, or lower the block size to 3 or less",
    );
    for size in [0, 1] {
        let problem = "leaves nothing to predict: it must be at least 2";
        check_error(&text(100), size, &format!("corpus0.txt: block size {size} {problem}"));
    }
}

#[test]
fn text_without_tokens_is_an_error() {
    let fixture = Fixture::new();
    fixture.write("a.jsonl", "\n{\"text\": \"\"}\n");
    let corpus = fixture.open(&["a.jsonl"]).unwrap();
    let tokenizer = fixture.tokenizer(|_| ()).unwrap();
    let error = Blocks::from_corpus(&corpus, &tokenizer, &BlockOptions::new(8)).unwrap_err();
    assert_eq!(fixture.message(&error), "a.jsonl: the text has no tokens, expected at least one block of 8");
}

/// 2000 rows: the first thousand has 2500 tokens, the second 1500.
fn rows() -> impl Iterator<Item = Result<Vec<i32>, DataError>> {
    let long = (0..1000).map(|i| vec![i; if i < 500 { 3 } else { 2 }]);
    let short = (1000..2000).map(|i| vec![i; if i < 1500 { 2 } else { 1 }]);
    long.chain(short).map(Ok)
}

#[test]
fn the_remainder_of_each_group_is_dropped_or_carried() {
    let made = |packing| Blocks::from_rows(rows(), &BlockOptions { block_size: 1024, packing }).unwrap();
    let dropped = made(Packing::DropPerGroup);
    assert_eq!((dropped.num_blocks(), dropped.dropped_tokens()), (3, 452 + 476));
    assert_eq!(dropped.block(2).unwrap()[0], 1000, "the second group begins a block");
    let carried = made(Packing::Carry);
    assert_eq!((carried.num_blocks(), carried.dropped_tokens()), (3, 4000 - 3 * 1024));
    let third = carried.block(2).unwrap();
    assert_eq!((third[451], third[452]), (999, 1000), "2500 - 2048 tokens of the first group come first");
}

#[test]
fn tokens_of_blocks_that_are_not_taken_count_no_more() {
    let made = || Fixture::new().blocks(&[&text(1000)], 128).unwrap();
    for (most, blocks) in [(0, 1), (3, 3), (7, 7), (8, 7)] {
        let taken = made().take(most);
        assert_eq!((taken.num_blocks(), taken.dropped_tokens()), (blocks, 104));
        assert_eq!(taken.total_tokens(), blocks * 128 + 104);
    }
}

#[test]
fn groups_are_of_a_thousand_rows() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "ab\n".repeat(2500));
    let corpus = fixture.open(&["a.txt"]).unwrap();
    let tokenizer = fixture.tokenizer(|_| ()).unwrap();
    let made =
        |block_size, packing| Blocks::from_corpus(&corpus, &tokenizer, &BlockOptions { block_size, packing });
    let blocks = made(1024, Packing::DropPerGroup).unwrap();
    assert_eq!((blocks.num_blocks(), blocks.dropped_tokens()), (2 + 2 + 1, 7500 - 5 * 1024));
    assert_eq!(
        fixture.message(&made(4096, Packing::DropPerGroup).unwrap_err()),
        "a.txt: 7500 tokens, but none of the 3 groups of rows fills one block of 4096: lower the block size to 3000 \
         or less, or make the rows longer, so that a group holds more text"
    );
    assert_eq!(made(4096, Packing::Carry).unwrap().num_blocks(), 1);
}

const PADDED: BlockOptions = BlockOptions { block_size: 4, packing: Packing::PadToBlock { pad_id: 9 } };

#[test]
fn rows_become_blocks_of_their_own() {
    let lengths = [3, 0, 6, 1, 4, 2];
    let rows = (0..).zip(lengths).map(|(i, length)| Ok(vec![i; length]));
    let blocks = Blocks::from_rows(rows, &PADDED).unwrap();
    let ids: Vec<Vec<i32>> = (0..blocks.num_blocks()).map(|i| blocks.block(i).unwrap()).collect();
    assert_eq!(ids, [vec![0; 3], vec![2; 4], vec![4; 4], vec![5; 2]]);
    assert_eq!((blocks.truncated_rows(), blocks.skipped_rows()), (1, 2));
    assert_eq!((blocks.total_tokens(), blocks.dropped_tokens()), (16, 3));
    let taken = blocks.take(2);
    assert_eq!((taken.num_blocks(), taken.total_tokens(), taken.dropped_tokens()), (2, 10, 3));
}

#[test]
fn rows_without_a_target_are_an_error() {
    let error = Blocks::from_rows([Ok(vec![1]), Ok(vec![2])], &PADDED).unwrap_err();
    assert_eq!(
        error.to_string(),
        "none of the 2 rows has two tokens, so that one follows another: expected longer rows, or packing, which \
         joins them"
    );
}

#[test]
fn what_fills_up_is_a_token() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "abc\n");
    let corpus = fixture.open(&["a.txt"]).unwrap();
    let tokenizer = fixture.tokenizer(|_| ()).unwrap();
    for pad_id in [-1, 260] {
        let options = BlockOptions { block_size: 4, packing: Packing::PadToBlock { pad_id } };
        let error = Blocks::from_corpus(&corpus, &tokenizer, &options).unwrap_err();
        assert_eq!(
            fixture.message(&error),
            format!("a.txt: pad id {pad_id} is no token of tokenizer.json: expected an id from 0 to 259")
        );
    }
}

#[test]
fn an_error_of_a_row_in_the_middle_reaches_the_caller() {
    let fixture = Fixture::new();
    let rows = "{\"text\": \"some text\"}\n".repeat(100_000);
    fixture.write("a.jsonl", rows + "{\"text\": 1}\n");
    let corpus = fixture.open(&["a.jsonl"]).unwrap();
    let tokenizer = fixture.tokenizer(|_| ()).unwrap();
    let error = Blocks::from_corpus(&corpus, &tokenizer, &BlockOptions::new(8)).unwrap_err();
    let expected = "a.jsonl: line 100001, column `text` holds a number, expected a string";
    assert_eq!(fixture.message(&error), expected);
}
