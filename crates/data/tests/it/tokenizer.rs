use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use shardwright_data::Tokenizer;

use crate::fixture::{Fixture, byte_tokenizer, text};

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<i32> {
    tokenizer.encode(text).unwrap()
}

/// Loads the tokenizer of bytes after `edit`.
fn check_error(edit: impl FnOnce(&mut Value), expected: &str) {
    let fixture = Fixture::new();
    let error = fixture.tokenizer(edit).unwrap_err();
    assert_eq!(fixture.message(&error), expected);
}

fn with_merges(file: &mut Value, merges: Value) {
    for (token, id) in [("ab", 260), ("abc", 261), ("x y", 262), ("x yz", 263)] {
        file["model"]["vocab"][token] = json!(id);
    }
    file["model"]["merges"] = merges;
}

#[test]
fn ascii_has_one_token_per_byte() {
    let tokenizer = Fixture::new().tokenizer(|_| ()).unwrap();
    assert_eq!((tokenizer.vocab_size(), tokenizer.max_token_id()), (260, (259, "<pad>")));
    let contents = text(200);
    assert!(encode(&tokenizer, &contents).into_iter().eq(contents.bytes().map(i32::from)));
    assert_eq!(encode(&tokenizer, "é</s>\n"), [0xc3, 0xa9, 257, 10]);
}

#[test]
fn merges_load_in_both_spellings() {
    let load = |merges: Value| Fixture::new().tokenizer(|file| with_merges(file, merges)).unwrap();
    let strings = load(json!(["a b", "ab c"]));
    let pairs = load(json!([["a", "b"], ["ab", "c"]]));
    assert_eq!(encode(&strings, "abcab"), [261, 260]);
    assert_eq!(encode(&pairs, "abcab"), [261, 260]);
}

#[test]
fn merges_that_cannot_be_read_are_named() {
    let check = |merges: Value, expected: &str| check_error(|file| with_merges(file, merges), expected);
    check(
        json!(["x y z"]),
        r#"tokenizer.json: model.merges[0] is "x y z": expected two tokens, as "a b" or ["a", "b"], found 3 parts; tokens that contain spaces need the second spelling"#,
    );
    check(
        json!([["a", "b"], ["a", "c"]]),
        r#"tokenizer.json: model.merges[1] is ["a","c"]: token "ac" is not in model.vocab, expected both parts and their union to be"#,
    );
    check(
        json!(["#version: 0.2", "a b", ["ab", "c"]]),
        r#"tokenizer.json: model.merges[2] is ["ab","c"]: expected all merges to be strings, or all to be pairs"#,
    );
    check(
        json!(["a b", "ab"]),
        r#"tokenizer.json: model.merges[1] is "ab": expected two tokens, as "a b" or ["a", "b"], found 1 parts"#,
    );
    check(json!({}), "tokenizer.json: model.merges is {}: expected a list");
}

#[test]
fn files_that_are_cut_off_or_missing_are_named() {
    let fixture = Fixture::new();
    let whole = byte_tokenizer().to_string();
    let path = fixture.write("tokenizer.json", &whole[..whole.len() / 2]);
    let message = fixture.message(&Tokenizer::from_file(&path).unwrap_err());
    assert!(message.starts_with("tokenizer.json is not JSON: EOF while parsing"), "{message}");
    assert_eq!(message.matches("at line 1 column").count(), 1, "{message}");
    let message = fixture.message(&Tokenizer::from_file(fixture.path("other.json")).unwrap_err());
    assert!(message.starts_with("cannot read other.json: "), "{message}");
}

#[test]
fn other_parts_are_named() {
    check_error(
        |file| *file = json!({ "hidden_size": 64 }),
        "tokenizer.json: model is null: expected a tokenizer.json with an object here",
    );
    check_error(
        |file| file["model"]["vocab"]["a"] = json!(-1),
        r#"tokenizer.json: model.vocab["a"] is -1: expected an id from 0 to 2147483647"#,
    );
    check_error(
        |file| file["model"]["dropout"] = json!(0.1),
        "tokenizer.json: model.dropout is 0.1: the same text would give other ids each time, set it to null",
    );
    let fixture = Fixture::new();
    let error = fixture.tokenizer(|file| file["normalizer"] = json!({ "type": "Nonsense" })).unwrap_err();
    let message = fixture.message(&error);
    assert!(message.starts_with(r#"tokenizer.json: normalizer is {"type":"Nonsense"}: "#), "{message}");
}

/// A token prepended to each row whose id is outside the vocabulary.
fn prepend(file: &mut Value, id: u32) {
    file["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{ "SpecialToken": { "id": "<bos>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
        "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
        "special_tokens": { "<bos>": { "id": "<bos>", "ids": [id], "tokens": ["<bos>"] } },
    });
}

#[test]
fn ids_outside_the_model_are_refused_with_the_token() {
    let check = |vocab_size: usize, expected: &str, edit: &dyn Fn(&mut Value)| {
        let fixture = Fixture::new();
        let tokenizer = fixture.tokenizer(edit).unwrap();
        let error = tokenizer.check_fits(vocab_size, Path::new("config.json")).unwrap_err();
        let expected = format!("tokenizer.json can produce {expected}");
        assert!(fixture.message(&error).starts_with(&expected), "{error}");
        let (largest, _) = tokenizer.max_token_id();
        tokenizer.check_fits(largest as usize + 1, Path::new("config.json")).unwrap();
    };
    check(
        260,
        r#"the id 300 (token "<bos>"), but vocab_size in config.json is 260: expected ids below that; use the tokenizer the model was made with, or a vocab_size of at least 301"#,
        &|file| prepend(file, 300),
    );
    let in_sequence = |file: &mut Value| {
        prepend(file, 300);
        file["post_processor"] = json!({ "type": "Sequence", "processors": [file["post_processor"]] });
    };
    check(260, r#"the id 300 (token "<bos>")"#, &in_sequence);
    let roberta = json!({
        "type": "RobertaProcessing", "sep": ["</s>", 301], "cls": ["<s>", 256], "trim_offsets": true, "add_prefix_space": false
    });
    check(260, r#"the id 301 (token "</s>")"#, &|file| file["post_processor"] = roberta.clone());
    let added = |file: &mut Value| {
        let mut token = file["added_tokens"][0].clone();
        (token["id"], token["content"]) = (json!(260), json!("<new>"));
        file["added_tokens"].as_array_mut().unwrap().push(token);
    };
    check(260, r#"the id 260 (token "<new>")"#, &added);
    check(259, r#"the id 259 (token "<pad>"), but vocab_size in config.json is 259"#, &|_| ());
}

#[test]
fn the_post_processor_adds_to_each_row() {
    let tokenizer = Fixture::new().tokenizer(|file| prepend(file, 256)).unwrap();
    let ids = ["ab", "", "c"].map(|row| encode(&tokenizer, row));
    assert_eq!(ids.concat(), [256, 97, 98, 256, 256, 99]);
}

#[test]
fn ids_that_would_change_or_not_fit_labels_are_refused() {
    check_error(
        |file| {
            let mut token = file["added_tokens"][0].clone();
            (token["id"], token["content"]) = (json!(300), json!("<new>"));
            file["added_tokens"].as_array_mut().unwrap().push(token);
        },
        "tokenizer.json: added_tokens[4].id is 300: token \"<new>\" would get the id 260: tokens of the vocabulary \
         keep their ids, and others go on from there without gaps; expected the file to say so too",
    );
    check_error(
        |file| prepend(file, 3_000_000_000),
        "tokenizer.json: token \"<bos>\" has the id 3000000000, expected at most 2147483647",
    );
}

#[test]
fn truncation_and_padding_are_ignored() {
    let tokenizer = Fixture::new().tokenizer(|file| {
        file["truncation"] =
            json!({ "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0 });
        file["padding"] = json!({
            "strategy": { "Fixed": 16 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 259,
            "pad_type_id": 0, "pad_token": "<pad>",
        });
    });
    assert_eq!(encode(&tokenizer.unwrap(), "abcdefgh").len(), 8);
}

#[test]
fn the_length_limit_comes_from_the_file_beside() {
    let limit = |config: &str| {
        let fixture = Fixture::new();
        fixture.write("tokenizer_config.json", config);
        let loaded = fixture.tokenizer(|_| ());
        loaded.map(|tokenizer| tokenizer.model_max_length()).map_err(|error| fixture.message(&error))
    };
    assert_eq!(limit(r#"{"model_max_length": 2048}"#), Ok(Some(2048)));
    assert_eq!(limit(r#"{"model_max_length": 1000000000000000019884624838656}"#), Ok(None));
    assert_eq!(limit("{}"), Ok(None));
    let refused =
        r#"tokenizer_config.json: model_max_length is "long": expected a positive number of tokens"#;
    assert_eq!(limit(r#"{"model_max_length": "long"}"#), Err(refused.to_owned()));
    assert_eq!(Fixture::new().tokenizer(|_| ()).unwrap().model_max_length(), None);
}

#[test]
fn a_trained_tokenizer_is_the_same_each_time_and_reads_back_any_text() {
    let fixture = Fixture::new();
    let sample = include_str!("tokenizer.rs");
    fixture.write("corpus.txt", sample);
    let corpus = fixture.open(&["corpus.txt"]).unwrap();
    let train = || Tokenizer::train_byte_level_bpe(&corpus, 600, &["<s>", "</s>"]).unwrap();
    let json = train().json().to_owned();
    assert!((0..4).all(|_| train().json() == json), "training depends on chance");

    fixture.write("tokenizer.json", &json);
    let loaded = Tokenizer::from_file(fixture.path("tokenizer.json")).unwrap();
    assert_eq!((loaded.vocab_size(), loaded.max_token_id().0), (600, 599));
    let ids = encode(&loaded, sample);
    assert!(ids.len() < sample.len() / 2, "{} tokens of {} bytes", ids.len(), sample.len());
    assert_eq!(ids, encode(&train(), sample));
    let reader = tokenizers::Tokenizer::from_file(fixture.path("tokenizer.json")).unwrap();
    for text in [sample, "\u{0}é ∀ 🦀\r\n  x"] {
        let ids: Vec<u32> = encode(&loaded, text).into_iter().map(|id| id as u32).collect();
        assert_eq!(reader.decode(&ids, false).unwrap(), text);
    }
    assert_eq!(encode(&loaded, "<s></s>"), [0, 1]);
}

#[test]
fn training_needs_room_and_distinct_special_tokens() {
    let fixture = Fixture::new();
    fixture.write("corpus.jsonl", "{\"text\": \"abab\"}\n{\"text\": 1}\n");
    let corpus = fixture.open(&["corpus.jsonl"]).unwrap();
    let message = |vocab_size, special: &[&str]| {
        fixture.message(&Tokenizer::train_byte_level_bpe(&corpus, vocab_size, special).unwrap_err())
    };
    assert_eq!(
        message(257, &["<s>", "</s>"]),
        "a vocabulary of 257 is too small: the 256 bytes and 2 special tokens need at least 258"
    );
    assert_eq!(message(300, &["<s>", "<s>"]), "special token \"<s>\" is given twice");
    assert_eq!(message(300, &[""]), "special token \"\" is empty");
    assert_eq!(message(300, &["a"]), "special token \"a\" is how one of the 256 bytes is written");
    assert_eq!(message(300, &[]), "corpus.jsonl: line 2, column `text` holds a number, expected a string");
}

#[test]
fn the_text_of_a_tokenizer_is_what_was_loaded() {
    let fixture = Fixture::new();
    let tokenizer = fixture.tokenizer(|_| ()).unwrap();
    assert_eq!(tokenizer.json(), fs::read_to_string(tokenizer.path().unwrap()).unwrap());
    let padded = format!("\n {} ", tokenizer.json());
    let tokenizer = Tokenizer::from_file(fixture.write("padded.json", &padded)).unwrap();
    assert_eq!(tokenizer.json(), padded);
}

#[test]
fn the_pad_id_comes_from_the_file_beside() {
    let pad_id = |config: &str| {
        let fixture = Fixture::new();
        fixture.write("tokenizer_config.json", config);
        fixture.tokenizer(|_| ()).unwrap().pad_id()
    };
    assert_eq!(pad_id(r#"{"pad_token": "<pad>", "eos_token": "</s>"}"#), Some(259));
    assert_eq!(pad_id(r#"{"pad_token": {"content": "<pad>", "special": true}}"#), Some(259));
    assert_eq!(pad_id(r#"{"pad_token": null, "eos_token": "</s>"}"#), Some(257));
    assert_eq!(pad_id(r#"{"pad_token": "<none>"}"#), None);
    assert_eq!(pad_id("{}"), None);
}
