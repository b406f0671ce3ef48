//! One safetensors file: what is wrong with it is said, and what is not is read.

use std::fs;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use shardwright_checkpoint::HfWeights;
use shardwright_tensor::{DType, HostArray, TensorType};

/// What opening a file with these bytes says, with the folder cut off; or its tensors.
fn open(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::write(&path, bytes).unwrap();
    match HfWeights::open(&path) {
        Ok(weights) => weights.tensors().map(|t| format!("{}: {}\n", t.name, t.ty)).collect(),
        Err(error) => error.to_string().replace(&format!("{}/", folder.path().display()), ""),
    }
}

fn file(header: &str, data_len: usize) -> Vec<u8> {
    let size = (header.len() as u64).to_le_bytes();
    [&size[..], header.as_bytes(), &vec![0; data_len]].concat()
}

fn check(bytes: &[u8], expect: Expect) {
    expect.assert_eq(&open(bytes));
}

#[test]
fn keys_in_any_order_and_empty_tensors_are_read() {
    let header = r#"{"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},
        "none":{"dtype":"F32","shape":[0,64],"data_offsets":[8,8]},
        "a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
        "__metadata__":{"format":"pt"}}  "#;
    check(
        &file(header, 12),
        expect![[r#"
            a: f32[2]
            b: bf16[2]
            none: f32[0,64]
        "#]],
    );
    check(&file("{}", 0), expect![[""]]);
}

#[test]
fn what_is_not_weights_is_named() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n";
    check(
        pointer.as_bytes(),
        expect![
            "model.safetensors: this is a Git LFS pointer file, not the weights (which have 4976698672 bytes): download it again, for example with `git lfs pull`"
        ],
    );
    check(
        b"\n<!DOCTYPE html>\n<html><body>401</body></html>",
        expect![
            "model.safetensors: this is an HTML page, not the weights: the download failed (log-in needed, or a wrong address); download it again"
        ],
    );
    check(
        b"PK\x03\x04\x00\x00\x08\x08archive/data.pkl",
        expect!["model.safetensors: this is a zip archive (a PyTorch pickle?), not a safetensors file"],
    );
    check(
        b"{\"error\": \"Repository not found\"}",
        expect![
            "model.safetensors: the first 8 bytes announce a header of 2482168881970750075 bytes in a file of 33: this is not a safetensors file"
        ],
    );
}

#[test]
fn cut_files_say_how_far_they_go() {
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}"#;
    let whole = file(header, 24);
    check(
        b"",
        expect![
            "model.safetensors: the file ends after 0 of at least 8 bytes, before its header: incomplete download?"
        ],
    );
    check(
        &whole[..7],
        expect![
            "model.safetensors: the file ends after 7 of at least 8 bytes, before its header: incomplete download?"
        ],
    );
    check(
        &whole[..40],
        expect![
            "model.safetensors: the file ends after 40 of at least 116 bytes, inside its header: incomplete download?"
        ],
    );
    check(
        &whole[..whole.len() - 5],
        expect![
            "model.safetensors: tensor b: its data ends at byte 24, but the file holds 19 bytes of data (it ends after 135 of 140 bytes: incomplete download?)"
        ],
    );
}

#[test]
fn large_headers_are_refused_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::write(&path, 126_000_000u64.to_le_bytes()).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(126_000_008).unwrap();
    let error = HfWeights::open(&path).unwrap_err();
    expect![
        "the header has 126000000 bytes, more than the limit of 100000000: save the weights in several files"
    ]
    .assert_eq(&error.problem().to_string());
}

#[test]
fn invalid_headers_name_the_key_and_the_reason() {
    let one = |name: &str, dtype: &str, shape: &str, range: &str| {
        format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{range}}}"#)
    };
    let f32s = |name: &str, shape: &str, range: &str| one(name, "F32", shape, range);
    let check = |members: &[String], data_len: usize, expect: Expect| {
        check(&file(&format!("{{{}}}", members.join(",")), data_len), expect);
    };
    // The same key twice.
    check(
        &[f32s("a", "[1]", "[0,4]"), f32s("a", "[1]", "[4,8]")],
        8,
        expect!["model.safetensors: the header holds the key a twice"],
    );
    // Two names on the same range, and half of one.
    check(
        &[f32s("a", "[2]", "[0,8]"), f32s("b", "[2]", "[0,8]")],
        8,
        expect![
            "model.safetensors: tensors a and b share the data bytes 0..8, which the format forbids (tied weights are saved once)"
        ],
    );
    check(
        &[f32s("a", "[2]", "[0,8]"), f32s("b", "[2]", "[4,12]")],
        12,
        expect![
            "model.safetensors: tensors a and b share the data bytes 4..8, which the format forbids (tied weights are saved once)"
        ],
    );
    // Gaps, before the first and between two.
    check(
        &[f32s("a", "[1]", "[4,8]")],
        8,
        expect!["model.safetensors: data bytes 0..4, before tensor a, belong to no tensor"],
    );
    check(
        &[f32s("a", "[1]", "[0,4]"), f32s("b", "[1]", "[8,12]")],
        12,
        expect!["model.safetensors: data bytes 4..8, before tensor b, belong to no tensor"],
    );
    check(
        &[f32s("a", "[1]", "[4,0]")],
        4,
        expect!["model.safetensors: tensor a: its data ends at byte 0, before its start at byte 4"],
    );
    check(
        &[f32s("a", "[3]", "[0,8]")],
        8,
        expect!["model.safetensors: tensor a: data range 0..8 has 8 bytes, but f32[3] needs 12"],
    );
    check(
        &[f32s("a", "[4]", "[0,16]")],
        12,
        expect![
            "model.safetensors: tensor a: its data ends at byte 16, but the file holds 12 bytes of data (it ends after 75 of 79 bytes: incomplete download?)"
        ],
    );
    check(
        &[f32s("a", "[1]", "[0,4]")],
        7,
        expect!["model.safetensors: 3 bytes follow the last tensor, which belong to none"],
    );
    // Numbers that no file reaches.
    check(
        &[f32s("a", "[1]", "[-4,0]")],
        4,
        expect![
            "model.safetensors: the header is not valid: a: invalid value: integer `-4`, expected usize at line 1 column 50"
        ],
    );
    check(
        &[f32s("a", "[1]", "[0,9223372036854775808]")],
        4,
        expect![
            "model.safetensors: tensor a: data range 0..9223372036854775808 has 9223372036854775808 bytes, but f32[1] needs 4"
        ],
    );
    check(
        &[f32s("a", "[1]", "[0,18446744073709551616]")],
        4,
        expect![
            "model.safetensors: the header is not valid: a: invalid type: floating point `1.8446744073709552e+19`, expected usize at line 1 column 70"
        ],
    );
    check(
        &[f32s("a", "[4294967296,4294967296]", "[0,4]")],
        4,
        expect![
            "model.safetensors: tensor a: shape [4294967296, 4294967296] has more elements than can be addressed"
        ],
    );
    check(
        &[one("a", "F8_E4M3", "[4]", "[0,4]")],
        4,
        expect![
            "model.safetensors: tensor a: dtype F8_E4M3 is not supported; supported are BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64"
        ],
    );
    check(
        &[one("a", "F12", "[4]", "[0,6]")],
        6,
        expect![
            "model.safetensors: the header is not valid: a: unknown variant `F12`, expected one of `BOOL`, `F4`, `F6_E2M3`, `F6_E3M2`, `U8`, `I8`, `F8_E5M2`, `F8_E4M3`, `F8_E8M0`, `F8_E4M3FNUZ`, `F8_E5M2FNUZ`, `I16`, `U16`, `F16`, `BF16`, `I32`, `U32`, `F32`, `C64`, `F64`, `I64`, `U64` at line 1 column 19"
        ],
    );
    check(
        &[r#""__metadata__":{"steps":3}"#.to_owned()],
        0,
        expect![
            "model.safetensors: the header is not valid: __metadata__: invalid type: integer `3`, expected a string at line 1 column 26"
        ],
    );
    check(
        &[r#""a":{"dtype":"F32","shape":[1]}"#.to_owned()],
        0,
        expect![
            "model.safetensors: the header is not valid: a: missing field `data_offsets` at line 1 column 32"
        ],
    );
    check(
        &["]".to_owned()],
        0,
        expect!["model.safetensors: the header is not valid: key must be a string at line 1 column 2"],
    );
}

#[test]
fn unknown_tensors_and_ranges_outside_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::write(&path, file(r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#, 24)).unwrap();
    let weights = HfWeights::open(&path).unwrap();
    let message = |e: shardwright_checkpoint::CheckpointError| e.problem().to_string();
    expect!["there is no tensor b among the 1 here"].assert_eq(&message(weights.read("b").unwrap_err()));
    expect!["tensor a: the index range [0..2, 1..4] does not fit f32[2,3]"]
        .assert_eq(&message(weights.read_slice("a", &[0..2, 1..4]).unwrap_err()));
    expect!["tensor a: the index range [0..2] does not fit f32[2,3]"]
        .assert_eq(&message(weights.read_slice("a", &[0..2]).unwrap_err()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_make_it_panic(header in "\\PC{0,60}", data in proptest::collection::vec(any::<u8>(), 0..40)) {
        open(&data);
        open(&file(&header, data.len()));
    }

    #[test]
    fn no_numbers_make_it_panic(shape in proptest::collection::vec(any::<u64>(), 0..3), start: u64, end: u64) {
        open(&file(&format!(r#"{{"a":{{"dtype":"F64","shape":{shape:?},"data_offsets":[{start},{end}]}}}}"#), 16));
    }

    #[test]
    fn a_slice_read_is_the_slice_of_what_is_read(
        dims in proptest::collection::vec(0usize..5, 0..4),
        cuts in proptest::collection::vec((0usize..5, 0usize..5), 4),
    ) {
        let ty = TensorType::new(DType::U16, dims.clone()).unwrap();
        let count = ty.shape.element_count() as u16;
        let array = HostArray::from_slice(&dims, &(0..count).collect::<Vec<u16>>()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let mut writer = shardwright_checkpoint::HfWriter::create(&path, [("a", ty)]).unwrap();
        writer.write("a", &array).unwrap();
        writer.finish().unwrap();

        let ranges: Vec<_> =
            dims.iter().zip(&cuts).map(|(&d, &(a, b))| a.min(b).min(d)..a.max(b).min(d)).collect();
        let weights = HfWeights::open(&path).unwrap();
        prop_assert_eq!(weights.read_slice("a", &ranges).unwrap(), array.slice(&ranges).unwrap());
        prop_assert_eq!(weights.read("a").unwrap(), array);
    }
}
