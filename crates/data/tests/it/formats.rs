//! What the rows of each format are, and what is said of files that are wrong.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use flate2::Compression;
use flate2::write::GzEncoder;
use shardwright_data::{Corpus, CorpusOptions, DataError};

use crate::fixture::Fixture;

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read(paths: &[PathBuf], text_column: Option<&str>) -> Result<Vec<String>, DataError> {
    let options = CorpusOptions { text_column: text_column.map(str::to_owned) };
    Corpus::open(paths, options)?.documents().collect()
}

/// The rows of a file that holds this, or what is said of it.
fn check(name: &str, contents: impl AsRef<[u8]>, text_column: Option<&str>, expected: Expect) {
    let fixture = Fixture::new();
    let path = fixture.write(name, contents);
    expected.assert_eq(&match read(&[path], text_column) {
        Ok(rows) => format!("{rows:?}"),
        Err(error) => fixture.message(&error),
    });
}

/// What is said of a stored file.
fn check_stored(name: &str, text_column: Option<&str>, expected: Expect) {
    let error = read(&[stored(name)], text_column).unwrap_err();
    let text = Fixture::new().message(&error);
    expected.assert_eq(&text.replace(&format!("{}/", stored("").display()).replace("//", "/"), ""));
}

fn gzip(contents: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(contents.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn csv_rows_are_records_of_the_text_column() {
    check(
        "a.csv",
        "id,text\n1,a b\n2,\"quoted, \"\"and\"\"\nbroken\"\n",
        None,
        expect![[r#"["a b", "quoted, \"and\"\nbroken"]"#]],
    );
    check("a.CSV", "\u{feff}text,id\r\na,1\r\n\r\n,2\r\n", None, expect![[r#"["a", ""]"#]]);
    check("a.csv", "title,body\na,b\n", None, expect![[r#"["a"]"#]]);
    check("a.csv", "title,body\na,b\n", Some("body"), expect![[r#"["b"]"#]]);
    check("a.csv", "title,text\n", None, expect!["[]"]);
    check("a.csv", "text\na\n\"b\n\"", None, expect![[r#"["a", "b\n"]"#]]);
    check("a.csv", "text", None, expect!["[]"]);
    check("a.csv", "\n", Some("text"), expect!["[]"]);
}

#[test]
fn bad_csv_is_located() {
    check(
        "a.csv",
        "id,text\n1,a\n2\n",
        None,
        expect!["a.csv: line 3 has 1 fields, expected 2, as in the header"],
    );
    check(
        "a.csv",
        "id,text\n1,\"a\nb\"\n2,a,b\n",
        None,
        expect!["a.csv: line 4 has 3 fields, expected 2, as in the header"],
    );
    check(
        "a.csv",
        "id,title\n1,a\n",
        Some("text"),
        expect!["a.csv: the header has no column `text`, its columns are: id, title"],
    );
    let message = |place: &str| {
        format!(
            "a.csv: {place} begins a record with a quote that is never closed: close it, or write a quote that is part \
             of the text twice, inside of quotes"
        )
    };
    for (contents, place) in [
        ("text\na\n\"b\nc\nd\n", "line 3"),
        ("text\n\"a\"\"\nb", "line 2"),
        ("id,text\n1,\"a\n2,b\n", "line 2"),
        ("\"text\na\n", "the header"),
    ] {
        let fixture = Fixture::new();
        let error = read(&[fixture.write("a.csv", contents)], None).unwrap_err();
        assert_eq!(fixture.message(&error), message(place));
    }
    check(
        "a.csv",
        b"id,text\n1,a\n2,b\xe9c\n",
        None,
        expect![
            "a.csv: line 3, column `text` holds the byte 0xe9, which is not UTF-8: convert the file or leave it out"
        ],
    );
}

#[test]
fn json_lists_are_read_element_by_element() {
    check("a.json", "[]", None, expect!["[]"]);
    check(
        "a.json",
        "\u{feff} [\n  {\"id\": 1, \"text\": \"a\"},\n  {\"text\": \"b]}\"}\n]\n",
        None,
        expect![[r#"["a", "b]}"]"#]],
    );
    check("a.json", "[{\"id\": 1, \"body\": \"first\", \"more\": \"x\"}]", None, expect![[r#"["first"]"#]]);
    check("a.json", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", None, expect![[r#"["a", "b"]"#]]);
}

#[test]
fn bad_json_lists_are_located() {
    check(
        "a.json",
        "[",
        None,
        expect![
            "a.json: line 1, column 2 is not JSON: EOF while parsing a value; expected a list of objects"
        ],
    );
    check(
        "a.json",
        "[{\"text\": \"a\"}\n",
        None,
        expect!["a.json: line 2, column 1 is not JSON: the file ends; expected `,` or `]`"],
    );
    check(
        "a.json",
        "[{\"text\": \"a\"},\n  {\"text\": }]",
        None,
        expect!["a.json: line 2, column 12 is not JSON: expected value; expected a list of objects"],
    );
    check(
        "a.json",
        "[{\"text\": \"a\"},]",
        None,
        expect!["a.json: line 1, column 16 is not JSON: expected value; expected a list of objects"],
    );
    check(
        "a.json",
        "[{\"text\": \"a\"} {\"text\": \"b\"}]",
        None,
        expect!["a.json: line 1, column 16 is not JSON: found `{`; expected `,` or `]`"],
    );
    check(
        "a.json",
        "[{\"text\": \"a\"}, 1]",
        None,
        expect!["a.json: row 2 holds a number, expected an object"],
    );
    check(
        "a.json",
        "[{\"text\": \"a\"}, {\"text\": null}]",
        None,
        expect!["a.json: row 2, column `text` holds null, expected a string"],
    );
    check(
        "a.json",
        "[{\"text\": \"a\"}]\n\n[]",
        None,
        expect!["a.json: line 3, column 1 is not JSON: found `[`; expected nothing behind the list"],
    );
    check(
        "a.json",
        "[".repeat(100_000),
        None,
        expect![
            "a.json: line 1, column 129 is not JSON: recursion limit exceeded; expected a list of objects"
        ],
    );
}

#[test]
fn the_first_column_that_holds_a_string_is_the_text() {
    check(
        "a.jsonl",
        "{\"id\": 1, \"body\": \"a\"}\n{\"id\": 2, \"body\": \"b\"}\n",
        None,
        expect![[r#"["a", "b"]"#]],
    );
    check(
        "a.jsonl",
        "{\"id\": 1, \"score\": 2}\n",
        None,
        expect!["a.jsonl: line 1, column `id` holds a number, expected a string"],
    );
    check("a.jsonl", "{}\n", None, expect!["a.jsonl: line 1 has no column `text`, nor any other"]);
}

#[test]
fn files_in_gzip_are_those_inside() {
    check("a.txt.gz", gzip("a\nb"), None, expect![[r#"["a\n", "b"]"#]]);
    check(
        "a.jsonl.gz",
        [gzip("{\"text\": \"a\"}\n"), gzip("{\"text\": \"b\"}\n")].concat(),
        None,
        expect![[r#"["a", "b"]"#]],
    );
    check("a.csv.GZ", gzip("text\na\n"), None, expect![[r#"["a"]"#]]);
    check("a.json.gz", gzip("[{\"text\": \"a\"}]"), None, expect![[r#"["a"]"#]]);
    check("a.txt.gz", "plain", None, expect!["cannot read a.txt.gz: unexpected end of file"]);
    let whole = gzip(&"abcdefg".repeat(1000));
    check(
        "a.txt.gz",
        &whole[..whole.len() / 2],
        None,
        expect!["cannot read a.txt.gz: incomplete deflate stream"],
    );
    check(
        "a.parquet.gz",
        gzip("text\na\n"),
        None,
        expect![
            "a.parquet.gz cannot be read as Parquet: Invalid Parquet file. Corrupt footer; the file may be cut off, fetch it again"
        ],
    );
}

#[test]
fn parquet_rows_are_those_of_the_text_column() {
    let expected: Vec<String> = (0..100).map(|i| format!("row {i}: {}\n", "é".repeat(i % 5))).collect();
    assert_eq!(read(&[stored("snappy.parquet")], None).unwrap(), expected);
    assert_eq!(read(&[stored("second_version.parquet")], None).unwrap(), expected);
    let titles = read(&[stored("snappy.parquet")], Some("title")).unwrap();
    assert_eq!(titles.len(), 100);
    assert_eq!(titles[98], "title 2");
}

#[test]
fn bad_parquet_is_located() {
    check_stored(
        "null.parquet",
        None,
        expect!["null.parquet: row 3, column `text` holds null, expected a string"],
    );
    check_stored(
        "zstd.parquet",
        None,
        expect![
            "zstd.parquet: column `text` is compressed with zstd, expected snappy, gzip or nothing: write the file again with one of them"
        ],
    );
    check_stored(
        "numbers.parquet",
        None,
        expect!["numbers.parquet: the header, column `text` holds double, expected a string"],
    );
    check_stored(
        "without_text.parquet",
        None,
        expect!["without_text.parquet: no column holds text, its columns are: id (int64)"],
    );
    check_stored(
        "without_text.parquet",
        Some("body"),
        expect!["without_text.parquet: the header has no column `body`, its columns are: id (int64)"],
    );
    check_stored(
        "without_text.parquet",
        Some("words"),
        expect!["without_text.parquet: the header has no column `words`, its columns are: id (int64)"],
    );
    check_stored(
        "latin1.parquet",
        None,
        expect![
            "latin1.parquet: row 2, column `text` holds the byte 0xe9, which is not UTF-8: convert the file or leave it out"
        ],
    );
    check(
        "a.parquet",
        "text",
        None,
        expect![
            "a.parquet cannot be read as Parquet: EOF: Parquet file too small. Size is 4 but need 8; the file may be cut off, fetch it again"
        ],
    );
    let whole = fs::read(stored("snappy.parquet")).unwrap();
    check(
        "cut.parquet",
        &whole[..whole.len() / 2],
        None,
        expect![
            "cut.parquet cannot be read as Parquet: Invalid Parquet file. Corrupt footer; the file may be cut off, fetch it again"
        ],
    );
}

/// Each byte of a small file is changed in two ways. Reading ends, in rows or in an error that names the file.
#[test]
fn damaged_parquet_is_an_error_or_other_rows() {
    let fixture = Fixture::new();
    let whole = fs::read(stored("null.parquet")).unwrap();
    for byte in 0..whole.len() {
        for changed in [whole[byte] ^ 0x01, whole[byte] ^ 0x80] {
            let mut damaged = whole.clone();
            damaged[byte] = changed;
            let path = fixture.write("damaged.parquet", damaged);
            if let Err(error) = read(&[path], None) {
                let message = fixture.message(&error);
                assert!(message.contains("damaged.parquet"), "byte {byte}: {message}");
            }
        }
    }
}

#[test]
fn patterns_are_the_files_that_they_fit() {
    let fixture = Fixture::new();
    for name in ["in/b.txt", "in/a.txt", "in/.hidden.txt", "in/c.md", "in/deep/er/d.txt", "in/[x].txt"] {
        fixture.write(name, name);
    }
    let check = |pattern: &str, expected: Expect| {
        expected.assert_eq(&match read(&[fixture.path(pattern)], None) {
            Ok(rows) => rows.join(" "),
            Err(error) => fixture.message(&error),
        });
    };
    check("in/*.txt", expect!["in/[x].txt in/a.txt in/b.txt"]);
    check("in/**/*.txt", expect!["in/[x].txt in/a.txt in/b.txt in/deep/er/d.txt"]);
    check("in/?.*", expect!["in/a.txt in/b.txt in/c.md"]);
    check("in/.*.txt", expect!["no file is called in/.*.txt, and none fits it as a pattern"]);
    check("in/[x].txt", expect!["in/[x].txt"]);
    check("in/[ab].txt", expect!["in/a.txt in/b.txt"]);
    check("in/*.csv", expect!["no file is called in/*.csv, and none fits it as a pattern"]);
    check(
        "in/**",
        expect![
            "no file is called in/**, and none fits it as a pattern; 2 folders do: for the files in them, end it with /* or, at any depth, with /**/*"
        ],
    );
    check(
        "in/a**",
        expect![
            "in/a** is neither a file nor a pattern of files: recursive wildcards must form a single path component"
        ],
    );
    check("in/missing.txt", expect!["cannot read in/missing.txt: No such file or directory (os error 2)"]);
}

#[test]
fn files_of_all_formats_follow_one_another() {
    let fixture = Fixture::new();
    fixture.write("in/a.csv", "id,text\n1,csv\n");
    fixture.write("in/b.jsonl", "{\"text\": \"jsonl\"}\n");
    fixture.write("in/c.parquet", fs::read(stored("null.parquet")).unwrap());
    fixture.write("in/d.parquet", "not Parquet");
    fixture.write("in/e.txt.gz", gzip("gzip\n"));
    fixture.write("in/f.gz", "not gzip");
    fixture.write("in/g.md", "text\n");
    let corpus = fixture.open(&["in"]).unwrap();
    assert_eq!(corpus.skipped().not_text, 2);
    let mut rows = corpus.documents();
    let read: Vec<String> = rows.by_ref().map_while(Result::ok).collect();
    assert_eq!(read, ["csv", "jsonl", "a", "b"], "up to the null");
    fs::remove_file(fixture.path("in/c.parquet")).unwrap();
    let corpus = fixture.open(&["in"]).unwrap();
    let mut rows = corpus.documents();
    let read: Vec<String> = rows.by_ref().map(Result::unwrap).collect();
    assert_eq!(read, ["csv", "jsonl", "gzip\n", "text\n"]);
    assert_eq!(rows.bytes_read(), corpus.byte_count());
}
