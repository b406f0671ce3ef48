//! Folders: which files are the weights, and whether they are all there.

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use shardwright_checkpoint::{Expected, HfWeights, HfWriter};
use shardwright_tensor::HostArray;
use tempfile::TempDir;

/// Writes a file with one-dim tensors that hold `value`.
fn shard(folder: &Path, file: &str, value: f32, names: &[&str]) {
    let array = HostArray::from_slice(&[2], &[value, value]).unwrap();
    let mut writer =
        HfWriter::create(folder.join(file), names.iter().map(|n| (*n, array.ty().clone()))).unwrap();
    names.iter().for_each(|name| writer.write(name, &array).unwrap());
    writer.finish().unwrap();
}

const INDEX: &str = r#"{"metadata":{"total_size":32},"weight_map":{
    "a":"model-00001-of-00003.safetensors","b":"model-00001-of-00003.safetensors",
    "c":"model-00002-of-00003.safetensors","d":"model-00003-of-00003.safetensors"}}"#;

/// A model in three shards.
fn sharded() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    shard(folder.path(), "model-00001-of-00003.safetensors", 1., &["a", "b"]);
    shard(folder.path(), "model-00002-of-00003.safetensors", 2., &["c"]);
    shard(folder.path(), "model-00003-of-00003.safetensors", 3., &["d"]);
    fs::write(folder.path().join("model.safetensors.index.json"), INDEX).unwrap();
    folder
}

/// The tensors with their first value, or the error; then the notices.
fn check(folder: &TempDir, expect: Expect) {
    let name = folder.path().display().to_string();
    let text = match HfWeights::open(folder.path()) {
        Err(error) => error.to_string(),
        Ok(weights) => {
            let values = weights.tensors().map(|t| {
                let array = weights.read(t.name).unwrap();
                let file = t.file.file_name().unwrap().to_string_lossy();
                format!("{} {} in {file}\n", t.name, array.as_slice::<f32>().unwrap()[0])
            });
            let notices = weights.notices().iter().map(|n| format!("notice: {n}\n"));
            values.chain(notices).collect()
        }
    };
    expect.assert_eq(&text.replace(&format!("{name}/"), "").replace(&name, "folder"));
}

#[test]
fn the_index_wins_over_a_stray_file() {
    let folder = sharded();
    shard(folder.path(), "model.safetensors", 9., &["a", "b", "c", "d"]);
    check(
        &folder,
        expect![[r#"
        a 1 in model-00001-of-00003.safetensors
        b 1 in model-00001-of-00003.safetensors
        c 2 in model-00002-of-00003.safetensors
        d 3 in model-00003-of-00003.safetensors
        notice: folder: not part of the weights and not read: model.safetensors
    "#]],
    );
    let index = folder.path().join("model.safetensors.index.json");
    assert_eq!(HfWeights::open(index).unwrap().tensors().len(), 4);
}

#[test]
fn missing_shards_are_named() {
    let folder = sharded();
    fs::remove_file(folder.path().join("model-00002-of-00003.safetensors")).unwrap();
    check(
        &folder,
        expect![
            "model.safetensors.index.json: 1 of the 3 files that the index names are not there: model-00002-of-00003.safetensors (incomplete download?)"
        ],
    );
    let empty = tempfile::tempdir().unwrap();
    fs::write(empty.path().join("model.safetensors.index.json"), INDEX).unwrap();
    check(
        &empty,
        expect![
            "model.safetensors.index.json: 3 of the 3 files that the index names are not there: model-00001-of-00003.safetensors, model-00002-of-00003.safetensors, model-00003-of-00003.safetensors (incomplete download?)"
        ],
    );
}

#[test]
fn an_index_and_files_that_disagree_are_an_error() {
    let folder = sharded();
    shard(folder.path(), "model-00002-of-00003.safetensors", 2., &["a", "e"]);
    check(
        &folder,
        expect![
            "model.safetensors.index.json: the index and its files disagree; 1 tensors of the index are not in the file it names: c (model-00002-of-00003.safetensors); 2 tensors of the files are not listed there by the index: a (model-00002-of-00003.safetensors), e (model-00002-of-00003.safetensors)"
        ],
    );
}

#[test]
fn bad_indexes_are_named() {
    let folder = sharded();
    let check_index = |text: &str, expect: Expect| {
        fs::write(folder.path().join("model.safetensors.index.json"), text).unwrap();
        check(&folder, expect);
    };
    check_index(
        "{\"weight_map\":{\n\"a\":3}}",
        expect![
            "model.safetensors.index.json: the index is not valid: a: invalid type: integer `3`, expected a string at line 2 column 5"
        ],
    );
    check_index(
        "{\"metadata\":{}}",
        expect![
            "model.safetensors.index.json: the index is not valid: missing field `weight_map` at line 1 column 15"
        ],
    );
    check_index(
        r#"{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}"#,
        expect!["model.safetensors.index.json: the index names tensor a twice"],
    );
    check_index(
        r#"{"weight_map":{"a":"../x.safetensors"}}"#,
        expect![[
            r#"model.safetensors.index.json: the index puts tensor a into "../x.safetensors", which is not the plain name of a file beside it"#
        ]],
    );
    check_index(
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 23950\n",
        expect![
            "model.safetensors.index.json: this is a Git LFS pointer file, not the weights (which have 23950 bytes): download it again, for example with `git lfs pull`"
        ],
    );
}

#[test]
fn folders_without_readable_weights_say_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    check(
        &folder,
        expect!["folder: there is neither model.safetensors nor model.safetensors.index.json in this folder"],
    );
    fs::write(folder.path().join("pytorch_model.bin"), "").unwrap();
    check(
        &folder,
        expect![
            "folder: only pytorch_model.bin is here, a PyTorch pickle, which is not read: convert it with `save_pretrained(..., safe_serialization=True)`"
        ],
    );
    shard(folder.path(), "model-00001-of-00002.safetensors", 1., &["a"]);
    check(
        &folder,
        expect![
            "folder: there is neither model.safetensors nor model.safetensors.index.json in this folder, but model-00001-of-00002.safetensors: incomplete download?"
        ],
    );
}

#[test]
fn prefixes_of_wrappers_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    shard(folder.path(), "model.safetensors", 1., &["_orig_module.a._orig_module.w", "module.b", "c"]);
    shard(folder.path(), "adapter_model.safetensors", 1., &["c"]);
    check(
        &folder,
        expect![[r#"
        a.w 1 in model.safetensors
        b 1 in model.safetensors
        c 1 in model.safetensors
        notice: folder: not part of the weights and not read: adapter_model.safetensors
        notice: 2 tensor names carry the prefix of a wrapper, which was removed (first: _orig_module.a._orig_module.w)
    "#]],
    );
    shard(folder.path(), "model.safetensors", 1., &["_orig_module.a", "a"]);
    check(
        &folder,
        expect!["folder: tensors _orig_module.a and a are both a without the prefixes of wrappers"],
    );
}

/// What comparing a file that holds these tensors with a model says.
fn check_fit(held: &[(&str, HostArray)], expected: &[Expected], expect: Expect) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let mut writer = HfWriter::create(&path, held.iter().map(|(n, a)| (*n, a.ty().clone()))).unwrap();
    held.iter().for_each(|(name, array)| writer.write(name, array).unwrap());
    writer.finish().unwrap();
    let text = match HfWeights::open(&path).unwrap().check(expected.iter().copied()) {
        Ok(()) => "fits".to_owned(),
        Err(error) => error.problem().to_string(),
    };
    expect.assert_eq(&text);
}

fn zeros(dims: &[usize]) -> HostArray {
    HostArray::from_slice(dims, &vec![0f32; dims.iter().product()]).unwrap()
}

#[test]
fn buffers_and_optional_tensors_are_no_mismatch() {
    let norm = Expected::required("model.norm.weight", &[4]);
    let head = Expected::optional("lm_head.weight", &[8, 4]);
    let held =
        [("model.norm.weight", zeros(&[4])), ("model.layers.0.self_attn.rotary_emb.inv_freq", zeros(&[2]))];
    check_fit(&held, &[norm, head], expect!["fits"]);
    check_fit(&[held[0].clone(), ("lm_head.weight", zeros(&[8, 4]))], &[norm, head], expect!["fits"]);
    check_fit(
        &held,
        &[norm, Expected::required("lm_head.weight", &[8, 4])],
        expect![[r#"
        the weights are not those of the model (2 tensors needed, 2 found)
          1 missing: lm_head.weight
          does "tie_word_embeddings": true belong into config.json?"#]],
    );
}

#[test]
fn everything_that_does_not_fit_is_reported_at_once() {
    let held = [
        ("model.embed_tokens.weight", zeros(&[260, 4])),
        ("model.layers.0.mlp.up_proj.bias", zeros(&[6])),
        ("model.layers.0.mlp.up_proj.weight", HostArray::from_slice(&[6, 4], &[0i8; 24]).unwrap()),
        ("model.norm.weight", zeros(&[3])),
    ];
    let expected = [
        Expected::required("model.embed_tokens.weight", &[264, 4]),
        Expected::required("model.layers.0.mlp.up_proj.weight", &[6, 4]),
        Expected::required("model.layers.0.self_attn.q_proj.weight", &[4, 4]),
        Expected::required("model.layers.0.self_attn.q_proj.bias", &[4]),
        Expected::required("model.norm.weight", &[4]),
        Expected::required("lm_head.weight", &[264, 4]),
    ];
    check_fit(
        &held,
        &expected,
        expect![[r#"
            the weights are not those of the model (6 tensors needed, 4 found)
              3 missing: model.layers.0.self_attn.q_proj.weight, model.layers.0.self_attn.q_proj.bias, lm_head.weight
              1 unexpected: model.layers.0.mlp.up_proj.bias
              3 of another type: model.embed_tokens.weight ([260,4] in the file, [264,4] by the configuration), model.layers.0.mlp.up_proj.weight (s8[6,4] in the file, not a float), model.norm.weight ([3] in the file, [4] by the configuration)
              the file has biases: does "mlp_bias": true belong into config.json?
              the file has no biases: config.json says "attention_bias": true
              the tables have 260 rows: config.json says "vocab_size": 264"#]],
    );
}
