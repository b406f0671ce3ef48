//! Programs that are kept between runtimes, with the real CPU plugin.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use shardwright_hlo::{Binary, Module, Op, verify};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{CompileOptions, OptionValue};
use shardwright_runtime::compile::{CompileCache, CompiledBy, ForeignProgram};
use shardwright_runtime::{Argument, Executable, Runtime, RuntimeOptions, ShardedArray};
use shardwright_tensor::{DType, HostArray, TensorType};
use tempfile::TempDir;

/// The default plugin, found once.
fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        let runtime = Runtime::open(&RuntimeOptions::default()).unwrap();
        runtime.client().plugin().path().to_owned()
    })
}

fn runtime(cache: CompileCache) -> Runtime {
    let mut options = RuntimeOptions::cpu_devices(2);
    options.compile.cache = Some(cache);
    Runtime::new(plugin(), &options).unwrap()
}

/// `y = x + x` on the first two devices.
fn compile_double(runtime: &Runtime) -> (Executable, Mesh, NamedSharding) {
    let mesh = Mesh::new(AbstractMesh::parse("fsdp=2").unwrap(), vec![0, 1]).unwrap();
    let mut m = Module::new("double");
    let x = m.add_argument("x", TensorType::new(DType::F32, [4, 3]).unwrap());
    let y = m.push(Op::Binary(Binary::Add), &[x, x]).unwrap()[0];
    m.add_output("y", y);
    let spec = mesh.sharding("(fsdp, -)".parse().unwrap()).unwrap();
    let module =
        ShardedModule::new(verify(m).unwrap(), mesh.shape(), vec![spec.clone()], vec![spec.clone()]).unwrap();
    (runtime.compile(&module, &mesh).unwrap(), mesh, spec)
}

/// Compiles and runs it; what comes out is right.
fn double(runtime: &Runtime) -> Executable {
    let (program, mesh, spec) = compile_double(runtime);
    let host = HostArray::from_slice(&[4, 3], &[0.5f32; 12]).unwrap();
    let x = ShardedArray::from_host(runtime, &mesh, &spec, &host).unwrap();
    let y = program.execute(vec![Argument::Donate(x)]).unwrap().outputs[0].to_host().unwrap();
    assert_eq!(y, HostArray::from_slice(&[4, 3], &[1f32; 12]).unwrap());
    program
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn cache(&self) -> CompileCache {
        CompileCache::new(self.0.path().join("compiled"))
    }

    fn read_only(&self) -> CompileCache {
        CompileCache::read_only(self.0.path().join("compiled"))
    }

    /// The files of the cache with this ending.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let folder = fs::read_dir(self.cache().folder()).into_iter().flatten().flatten();
        folder.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    }

    /// The only entry.
    fn entry(&self) -> PathBuf {
        let entries = self.files(".executable");
        assert_eq!(entries.len(), 1);
        entries.into_iter().next().unwrap()
    }
}

fn by(cache: CompileCache) -> CompiledBy {
    double(&runtime(cache)).compilation().by
}

#[test]
fn the_second_runtime_loads_what_the_first_has_kept() {
    let folder = Folder::new();
    let first = double(&runtime(folder.cache()));
    assert_eq!(first.compilation().by, CompiledBy::Process);
    assert!(first.compilation().miss.as_ref().unwrap().changed().is_empty());

    let second = double(&runtime(folder.cache()));
    assert_eq!(second.compilation().by, CompiledBy::Cache);
    assert_eq!(second.compilation().miss, None);
    assert_eq!(second.memory_stats().unwrap(), first.memory_stats().unwrap());
    assert_eq!(second.compiled().unwrap().unwrap(), first.compiled().unwrap().unwrap());

    let summary = folder.cache().summary().unwrap();
    assert_eq!((summary.entries, summary.damaged), (1, 0));
    assert_eq!(summary.bytes, fs::metadata(folder.entry()).unwrap().len());
    let text = summary.to_string();
    assert!(text.starts_with(&format!("{}: 1 program, ", folder.cache().folder().display())), "{text}");
    assert!(text.ends_with(" KiB of at most 4.0 GiB"), "{text}");
}

#[test]
fn what_is_kept_is_private() {
    let folder = Folder::new();
    by(folder.cache());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.cache().folder()), 0o700);
    for file in folder.files("") {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn no_byte_of_an_entry_can_change_unnoticed() {
    let folder = Folder::new();
    by(folder.cache());
    let whole = fs::read(folder.entry()).unwrap();
    // In the magic, the head's size, the head, its digest, the executable's beginning and its end.
    let head = u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
    for at in [0, 9, 40, 12 + head + 5, 12 + head + 33, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        check_replaced(&folder, &damaged, &format!("byte {at} is another"));
    }
    for size in [0, 7, 11, 100, 12 + head, whole.len() - 1] {
        check_replaced(&folder, &whole[..size], &format!("{size} bytes are left"));
    }
    check_replaced(&folder, &[whole.as_slice(), b"!"].concat(), "there is one more");
}

/// Puts `content` in the place of the entry: it is not executed, and a new one takes its place.
#[track_caller]
fn check_replaced(folder: &Folder, content: &[u8], what: &str) {
    let entry = folder.entry();
    fs::write(&entry, content).unwrap();
    assert_eq!(by(folder.read_only()), CompiledBy::Process, "{what}");
    assert_eq!(fs::read(&entry).unwrap(), content, "a cache that is only read leaves it: {what}");

    assert_eq!(by(folder.cache()), CompiledBy::Process, "{what}");
    assert_eq!(fs::read(entry.with_extension("damaged")).unwrap(), content, "{what}");
    assert_eq!(by(folder.cache()), CompiledBy::Cache, "{what}");
}

#[test]
fn an_entry_under_another_name_is_not_that_program() {
    let folder = Folder::new();
    let runtime = runtime(folder.cache());
    double(&runtime);
    let doubled = folder.entry();
    let other = ForeignProgram::recognise(NEGATE.as_bytes()).unwrap();
    runtime.compile_foreign(&other, &CompileOptions::default()).unwrap();
    let negated = folder.files(".executable").into_iter().find(|path| *path != doubled).unwrap();
    fs::copy(&negated, &doubled).unwrap();
    assert_eq!(by(folder.cache()), CompiledBy::Process);
    assert_eq!(folder.cache().summary().unwrap().damaged, 1);
}

const NEGATE: &str = "module @negate {
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = stablehlo.negate %x : tensor<2xf32>
        return %y : tensor<2xf32>
    }
}";

#[test]
fn a_cache_that_is_only_read_gives_and_does_not_take() {
    let folder = Folder::new();
    assert_eq!(by(folder.read_only()), CompiledBy::Process);
    assert!(!folder.cache().folder().exists(), "nothing is written");
    by(folder.cache());
    let before = folder.files("");
    assert_eq!(by(folder.read_only()), CompiledBy::Cache);
    assert_eq!(folder.files(""), before);
}

#[test]
fn a_folder_that_cannot_be_had_fails_no_program() {
    let folder = Folder::new();
    // A file stands where the folder should be.
    fs::write(folder.cache().folder(), "").unwrap();
    assert_eq!(by(folder.cache()), CompiledBy::Process);
    // There is room for the head and for nothing else.
    let other = Folder::new();
    assert_eq!(by(other.cache().with_limit(100)), CompiledBy::Process);
    assert_eq!(other.cache().summary().unwrap().entries, 0);
}

#[test]
fn what_others_could_have_written_is_not_executed() {
    let folder = Folder::new();
    by(folder.cache());
    let allow = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    allow(&folder.entry(), 0o622);
    assert_eq!(by(folder.read_only()), CompiledBy::Process);
    allow(&folder.entry(), 0o644);
    assert_eq!(by(folder.read_only()), CompiledBy::Cache);
    allow(folder.cache().folder(), 0o777);
    assert_eq!(by(folder.cache()), CompiledBy::Process);
    assert_eq!(folder.cache().summary().unwrap().entries, 1);
}

#[test]
fn the_program_that_was_not_used_for_longest_goes_first() {
    let folder = Folder::new();
    let runtime = |limit| runtime(folder.cache().with_limit(limit));
    let named = |name: &str| ForeignProgram::recognise(NEGATE.replace("negate {", name).as_bytes()).unwrap();
    let compile = |limit, name| {
        runtime(limit).compile_foreign(&named(name), &CompileOptions::default()).unwrap().compilation().by
    };
    compile(1 << 20, "a {");
    let size = folder.cache().summary().unwrap().bytes;
    compile(1 << 20, "b {");
    assert_eq!(compile(1 << 20, "a {"), CompiledBy::Cache, "and it is younger than b now");
    compile(2 * size + size / 2, "c {");
    assert_eq!(folder.cache().summary().unwrap().entries, 2);
    assert_eq!(compile(1 << 20, "a {"), CompiledBy::Cache);
    assert_eq!(compile(1 << 20, "c {"), CompiledBy::Cache);
    assert_eq!(compile(1 << 20, "b {"), CompiledBy::Process);
}

#[test]
fn a_miss_says_what_changed() {
    let folder = Folder::new();
    double(&runtime(folder.cache()));
    let mut options = RuntimeOptions::cpu_devices(3);
    options.compile.cache = Some(folder.cache());
    let three = Runtime::new(plugin(), &options).unwrap();
    let miss = double(&three).compilation().miss.clone().unwrap();
    assert_eq!(miss.changed(), ["devices"]);
    assert_eq!(miss.to_string(), "since the last one that was kept, devices changed");
}

#[test]
fn dumps_are_made_each_time() {
    let folder = Folder::new();
    let dumps = folder.0.path().join("dumps");
    let flag = ("xla_dump_to".to_owned(), OptionValue::String(dumps.display().to_string()));
    let options = CompileOptions { env_option_overrides: vec![flag], ..CompileOptions::default() };
    let program = ForeignProgram::recognise(NEGATE.as_bytes()).unwrap();
    for _ in 0..2 {
        let executable = runtime(folder.cache()).compile_foreign(&program, &options).unwrap();
        let compilation = executable.compilation().clone();
        assert_eq!((compilation.by, compilation.miss), (CompiledBy::Process, None));
        assert!(fs::read_dir(&dumps).unwrap().next().is_some());
        fs::remove_dir_all(&dumps).unwrap();
    }
    assert_eq!(folder.cache().summary().unwrap().entries, 0);
}
