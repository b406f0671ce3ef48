use shardwright_data::{Corpus, CorpusOptions, DataError};

use crate::fixture::Fixture;

fn rows(corpus: &Corpus) -> Vec<String> {
    corpus.documents().collect::<Result<_, DataError>>().unwrap()
}

/// Opens and reads one file that has an error in it.
fn check_error(name: &str, contents: impl AsRef<[u8]>, options: CorpusOptions, expected: &str) {
    let fixture = Fixture::new();
    let path = fixture.write(name, contents);
    let read =
        Corpus::open(&[path], options).and_then(|corpus| corpus.documents().collect::<Result<Vec<_>, _>>());
    assert_eq!(fixture.message(&read.unwrap_err()), expected);
}

#[test]
fn rows_of_plain_text_joined_are_the_file() {
    let fixture = Fixture::new();
    let contents = ["a\r\n\r\n  b\n\u{feff}é\n", "no line break at the end", "\n\n"];
    let names = ["a.txt", "b.rs", "c"];
    for (name, contents) in names.iter().zip(contents) {
        fixture.write(name, contents);
    }
    let corpus = fixture.open(&names).unwrap();
    assert_eq!(rows(&corpus).concat(), contents.concat());
    assert_eq!(rows(&corpus).len(), 7);
    assert_eq!(corpus.byte_count(), contents.concat().len() as u64);
}

#[test]
fn folders_are_walked_in_order_and_what_is_skipped_is_counted() {
    let fixture = Fixture::new();
    for name in ["in/b/2.txt", "in/b/1.md", "in/a.txt", "in/c.jsonl"] {
        fixture.write(name, format!("{{\"text\": \"{name}\"}}"));
    }
    fixture.write("in/.hidden.txt", "x");
    fixture.write("in/.git/config", "x");
    fixture.write("in/weights.bin", [0, 1, 2]);
    fixture.write("in/latin1.txt", [b'a', 0xe9, b'b']);
    fixture.write("in/package.json", "{\n  \"name\": \"x\"\n}\n");
    fixture.write("in/b/config.JSON", "{}");
    let corpus = fixture.open(&["in"]).unwrap();
    let files: Vec<_> = corpus.files().map(|file| file.strip_prefix(fixture.path("in")).unwrap()).collect();
    assert_eq!(
        files.iter().map(|f| f.to_str().unwrap()).collect::<Vec<_>>(),
        ["a.txt", "b/1.md", "b/2.txt", "c.jsonl"]
    );
    assert_eq!(corpus.skipped().to_string(), "2 hidden, 2 not text, 2 .json, 0 links");
    assert_eq!(rows(&corpus)[3], "in/c.jsonl");
}

#[test]
#[cfg(unix)]
fn links_to_folders_are_not_followed() {
    let fixture = Fixture::new();
    fixture.write("in/a.txt", "x");
    std::os::unix::fs::symlink("..", fixture.path("in/up")).unwrap();
    std::os::unix::fs::symlink("a.txt", fixture.path("in/b.txt")).unwrap();
    std::os::unix::fs::symlink("nowhere", fixture.path("in/c.txt")).unwrap();
    let corpus = fixture.open(&["in"]).unwrap();
    assert_eq!(rows(&corpus), ["x", "x"]);
    assert_eq!(corpus.skipped().links, 2);
}

#[test]
fn nothing_to_read_is_an_error() {
    let fixture = Fixture::new();
    fixture.write("empty.txt", "");
    fixture.write("in/.hidden", "x");
    let message = |names: &[&str]| fixture.message(&fixture.open(names).unwrap_err());
    assert_eq!(message(&[]), "no text was given: name at least one file or folder");
    assert_eq!(message(&["empty.txt"]), "empty.txt: file is empty, expected text");
    assert_eq!(
        message(&["in"]),
        "folder in holds no text files (skipped: 1 hidden, 0 not text, 0 .json, 0 links)"
    );
    fixture.write("settings/a.json", "{}");
    assert_eq!(
        message(&["settings"]),
        "folder settings holds no text files (skipped: 0 hidden, 0 not text, 1 .json, 0 links); to read a .json file \
         as rows, name the file itself"
    );
    assert!(message(&["missing.txt"]).starts_with("cannot read missing.txt: "));
}

#[test]
fn bytes_that_are_not_utf8_are_located() {
    check_error(
        "a.txt",
        b"first\nsec\xffond",
        CorpusOptions::default(),
        "a.txt: byte 0xff at offset 9 is not UTF-8: convert the file or leave it out",
    );
    check_error(
        "cut.txt",
        "aé".as_bytes().split_last().unwrap().1,
        CorpusOptions::default(),
        "cut.txt: byte 0xc3 at offset 1 is not UTF-8: convert the file or leave it out",
    );
}

#[test]
fn the_column_is_text_or_the_first_or_the_one_named() {
    let fixture = Fixture::new();
    let a = fixture
        .write("a.jsonl", "\u{feff}{\"id\": 1, \"text\": \"x\\ny\"}\n\n{\"text\": \"z\", \"id\": 2}\n");
    let b = fixture.write("b.JSON", r#"{"content": "first", "other": "second"}"#);
    let corpus = Corpus::open(&[a, b.clone()], CorpusOptions::default()).unwrap();
    assert_eq!(rows(&corpus), ["x\ny", "z", "first"]);
    let options = CorpusOptions { text_column: Some("other".to_owned()) };
    assert_eq!(rows(&Corpus::open(&[b], options).unwrap()), ["second"]);
}

#[test]
fn bad_json_lines_are_located() {
    let check = |second: &str, expected: &str| {
        let contents = format!("{{\"text\": \"x\"}}\n{second}\n{{\"text\": \"y\"}}\n");
        check_error("a.jsonl", contents, CorpusOptions::default(), expected);
    };
    check(
        "{\"text\": }",
        "a.jsonl: line 2, column 10 is not JSON: expected value; expected one JSON object per line",
    );
    check(
        "{",
        "a.jsonl: line 2, column 1 is not JSON: EOF while parsing an object; expected one JSON object per line",
    );
    check("[1]", "a.jsonl: line 2 holds an array, expected an object");
    check("{\"a\": 1, \"b\": 2}", "a.jsonl: line 2 has no column `text`, its columns are: a, b");
    check("{\"text\": null}", "a.jsonl: line 2, column `text` holds null, expected a string");
    let options = CorpusOptions { text_column: Some("body".to_owned()) };
    check_error("b.jsonl", "{\"a\": 1}", options, "b.jsonl: line 1 has no column `body`, its columns are: a");
}

#[test]
fn the_first_error_ends_the_stream() {
    let fixture = Fixture::new();
    fixture.write("a.jsonl", "{\"text\": \"x\"}\nbad\n{\"text\": \"y\"}\n");
    let corpus = fixture.open(&["a.jsonl"]).unwrap();
    assert_eq!(corpus.documents().map(|row| row.is_ok()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_split_takes_the_first_rows_for_validation() {
    let fixture = Fixture::new();
    fixture.write("a.txt", (0..60).map(|i| format!("{i}\n")).collect::<String>());
    fixture.write("b.txt", (60..90).map(|i| format!("{i}\n")).collect::<String>());
    let corpus = fixture.open(&["a.txt", "b.txt"]).unwrap();
    let (validation, train) = corpus.split(5).unwrap();
    assert_eq!(rows(&validation).len(), 5);
    assert_eq!([rows(&validation), rows(&train)].concat(), rows(&corpus));
    let (first, second) = train.split(50).unwrap();
    assert_eq!([rows(&first), rows(&second)].concat(), rows(&train));
    for percent in [0, 100, 255] {
        let error = corpus.split(percent).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{percent} percent of the 90 rows of ")));
    }
}
