//! Writing: a file is whole under its name, or not there.

use std::fs;
use std::path::Path;

use expect_test::expect;
use shardwright_checkpoint::{CheckpointError, HfWeights, HfWriter, write_bytes_atomic, write_json_atomic};
use shardwright_tensor::{DType, HostArray, TensorType};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn message(result: Result<(), CheckpointError>) -> String {
    result.unwrap_err().problem().to_string()
}

#[test]
fn the_bytes_are_those_of_the_reference_implementation_whatever_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let tensors = [
        ("b", HostArray::from_slice(&[2], &[1f32, 2.]).unwrap()),
        ("a", HostArray::from_slice(&[3], &[1u8, 2, 3]).unwrap()),
        ("c", HostArray::scalar(7i64)),
        ("a.b", HostArray::from_slice(&[1, 1], &[3f32]).unwrap()),
    ];
    let mut writer = HfWriter::create(&path, tensors.iter().map(|(n, a)| (*n, a.ty().clone()))).unwrap();
    tensors.iter().for_each(|(name, array)| writer.write(name, array).unwrap());
    writer.finish().unwrap();

    let views = tensors.iter().map(|(name, array)| {
        let dtype = match array.dtype() {
            DType::F32 => safetensors::Dtype::F32,
            DType::U8 => safetensors::Dtype::U8,
            _ => safetensors::Dtype::I64,
        };
        let view = safetensors::tensor::TensorView::new(dtype, array.dims().to_vec(), array.bytes());
        (name.to_string(), view.unwrap())
    });
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    let reference = safetensors::serialize(views, Some(metadata)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), reference);

    let weights = HfWeights::open(&path).unwrap();
    for (name, array) in &tensors {
        assert_eq!(weights.read(name).unwrap(), *array);
    }
}

#[test]
fn a_file_that_is_not_whole_never_gets_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::write(&path, "the old file").unwrap();
    let array = HostArray::from_slice(&[2], &[1f32, 2.]).unwrap();
    let ty = || array.ty().clone();

    let mut writer = HfWriter::create(&path, [("a", ty()), ("b", ty())]).unwrap();
    writer.write("a", &array).unwrap();
    expect!["tensor a was written twice"].assert_eq(&message(writer.write("a", &array)));
    expect!["tensor c was not announced"].assert_eq(&message(writer.write("c", &array)));
    expect!["tensor b was announced as f32[2] and came as bf16[2]"]
        .assert_eq(&message(writer.write("b", &array.cast(DType::Bf16))));
    assert_eq!(names(folder.path()).len(), 2);
    expect!["1 of 2 tensors were not written: b"].assert_eq(&message(writer.finish()));
    drop(HfWriter::create(&path, [("a", ty())]).unwrap());

    assert_eq!(names(folder.path()), ["model.safetensors"]);
    assert_eq!(fs::read(&path).unwrap(), b"the old file");
}

#[test]
fn what_the_format_cannot_hold_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let create = |names: &[&str]| {
        let ty = TensorType::new(DType::F32, [2]).unwrap();
        message(HfWriter::create(&path, names.iter().map(|n| (*n, ty.clone()))).map(drop))
    };
    expect!["tensor a is announced twice"].assert_eq(&create(&["a", "b", "a"]));
    expect!["tensor __metadata__ of type f32[2] has no place in the format"]
        .assert_eq(&create(&["__metadata__"]));
    assert!(names(folder.path()).is_empty());
    let nowhere = folder.path().join("no/model.safetensors");
    assert!(HfWriter::create(nowhere, [("a", TensorType::scalar(DType::F32))]).is_err());
}

#[test]
fn small_files_are_replaced_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    write_bytes_atomic(&path, b"old").unwrap();
    write_json_atomic(&path, &std::collections::BTreeMap::from([("vocab_size", 260)])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"vocab_size\": 260\n}\n");
    assert_eq!(names(folder.path()), ["config.json"]);
}

#[cfg(unix)]
#[test]
fn files_are_as_readable_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plain"), "").unwrap();
    write_bytes_atomic(folder.path().join("atomic"), b"").unwrap();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("atomic"), mode("plain"));
}
