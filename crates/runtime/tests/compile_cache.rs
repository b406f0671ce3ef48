//! Programs that are kept between runtimes, with the real CPU plugin.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shardwright_hlo::{Binary, Module, Op, verify};
use shardwright_mesh::{AbstractMesh, Mesh, NamedSharding};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{CompileOptions, OptionValue};
use shardwright_runtime::compile::{CacheMiss, CompileCache, CompiledBy, ForeignProgram};
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

fn miss(cache: CompileCache) -> CacheMiss {
    double(&runtime(cache)).compilation().miss.clone().expect("it was not in the cache")
}

/// Why a program of another framework is not in the cache; `code` is compiled then.
fn foreign_miss(cache: CompileCache, code: &str) -> Option<CacheMiss> {
    let program = ForeignProgram::recognise(code.as_bytes()).unwrap();
    runtime(cache).compile_foreign(&program, &CompileOptions::default()).unwrap().compilation().miss.clone()
}

/// The variables by which a test that runs itself in another process tells it the folder of its cache.
const CHILD: &str = "SHARDWRIGHT_TEST_FOLDER";

/// The test of this name in a process of its own, `shell` being what is done before; a cache in this folder.
fn itself(test: &str, shell: &str, folder: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{shell}\nexec \"$0\" \"$@\"")).arg(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(CHILD, folder).env_remove("XLA_FLAGS");
    command
}

/// What such a process does: compiles, and says how.
fn tell_how_it_was_compiled(folder: &Path) {
    let program = double(&runtime(CompileCache::new(folder)));
    let mut out = io::stdout();
    writeln!(out, "\nresult: {:?}", program.compilation().by).unwrap();
}

#[track_caller]
fn told(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let result = stdout.lines().find_map(|line| line.strip_prefix("result: "));
    result.unwrap_or_else(|| panic!("{output:?}")).to_owned()
}

#[test]
fn the_second_runtime_loads_what_the_first_has_kept() {
    let folder = Folder::new();
    let first = double(&runtime(folder.cache()));
    assert_eq!(first.compilation().by, CompiledBy::Process);
    assert_eq!(first.compilation().miss, Some(CacheMiss::New));

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
    folder.entry();
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
    assert_eq!(miss, CacheMiss::Changed(vec!["devices".to_owned()]));
    assert_eq!(miss.to_string(), "since the one that was used last, devices changed");
}

#[test]
fn a_miss_compares_with_the_last_program_of_the_same_name_and_types() {
    let folder = Folder::new();
    // The same program in other words, and one of the same name that takes something else.
    let absolute = NEGATE.replace("negate %x", "abs %x");
    let larger = NEGATE.replace("2xf32", "4xf32");
    let program = || Some(CacheMiss::Changed(vec!["program".to_owned()]));
    assert_eq!(foreign_miss(folder.cache(), NEGATE), Some(CacheMiss::New));
    assert_eq!(foreign_miss(folder.cache(), &larger), Some(CacheMiss::New));
    assert_eq!(foreign_miss(folder.cache(), &absolute), program());

    // One that was made by another number of devices was used after those.
    let mut options = RuntimeOptions::cpu_devices(3);
    options.compile.cache = Some(folder.cache());
    let foreign = ForeignProgram::recognise(NEGATE.as_bytes()).unwrap();
    let three = Runtime::new(plugin(), &options).unwrap();
    three.compile_foreign(&foreign, &CompileOptions::default()).unwrap();
    let youngest = folder.files(".executable").into_iter().max_by_key(|path| modified(path)).unwrap();
    let later = SystemTime::now() + Duration::from_secs(60);
    File::options().write(true).open(youngest).unwrap().set_modified(later).unwrap();
    let cosine = NEGATE.replace("negate %x", "cosine %x");
    let both = vec!["program".to_owned(), "devices".to_owned()];
    assert_eq!(foreign_miss(folder.cache(), &cosine), Some(CacheMiss::Changed(both)));
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn what_is_no_file_or_too_large_is_not_read() {
    let folder = Folder::new();
    by(folder.cache());
    let entry = folder.entry();
    // Memory for it would be more than most machines have.
    File::options().write(true).open(&entry).unwrap().set_len(60 << 30).unwrap();
    let CacheMiss::Damaged(reason) = miss(folder.cache()) else { panic!("it is damaged") };
    assert!(reason.contains(" bytes of an executable, and says "), "{reason}");

    let refused = miss(folder.cache().with_limit(1 << 10));
    assert!(refused.to_string().ends_with(", more than the limit of 1.0 KiB"), "{refused}");

    fs::remove_file(&entry).unwrap();
    assert!(Command::new("mkfifo").arg(&entry).status().unwrap().success());
    assert_eq!(miss(folder.cache()), CacheMiss::Refused("it is not a regular file".to_owned()));
    assert_eq!(by(folder.cache()), CompiledBy::Cache, "a new entry has taken its place");
}

#[test]
fn an_executable_that_the_plugin_does_not_read_is_damaged() {
    let folder = Folder::new();
    by(folder.cache());
    fs::write(folder.entry(), with_executable(&fs::read(folder.entry()).unwrap(), b"no executable")).unwrap();
    let CacheMiss::Damaged(reason) = miss(folder.cache()) else { panic!("it is damaged") };
    assert!(reason.contains("PJRT_Executable_DeserializeAndLoad"), "{reason}");
    assert_eq!(folder.cache().summary().unwrap().damaged, 1);
    assert_eq!(by(folder.cache()), CompiledBy::Cache);
}

/// The same entry with other bytes of the plugin, as if those had been written.
fn with_executable(entry: &[u8], of_the_plugin: &[u8]) -> Vec<u8> {
    let size = u32::from_le_bytes(entry[8..12].try_into().unwrap()) as usize;
    let told_by_the_library = entry[12 + size + 32..].split_inclusive(|&byte| byte == b'\n').take(2);
    let executable = [&told_by_the_library.collect::<Vec<_>>().concat(), of_the_plugin].concat();
    let mut head: Value = serde_json::from_slice(&entry[12..12 + size]).unwrap();
    let digest = Sha256::digest(&executable).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (head["bytes"], head["sha256"]) = (json!(executable.len()), json!(digest));
    let head = head.to_string();
    let mut changed = entry[..8].to_vec();
    changed.extend((head.len() as u32).to_le_bytes());
    changed.extend(head.as_bytes());
    let digest = Sha256::digest(&changed);
    changed.extend(digest);
    changed.extend(executable);
    changed
}

#[test]
fn a_folder_that_no_run_uses_has_no_summary() {
    let folder = Folder::new();
    assert_eq!(folder.cache().summary().unwrap().entries, 0, "it can be made");
    fs::create_dir(folder.cache().folder()).unwrap();
    fs::set_permissions(folder.cache().folder(), PermissionsExt::from_mode(0o775)).unwrap();
    for cache in [folder.cache(), folder.read_only()] {
        let refused = cache.summary().unwrap_err().to_string();
        assert_eq!(refused, "others can write to it (mode 775); take that from them with chmod go-w");
        assert_eq!(miss(cache), CacheMiss::Refused(refused));
    }
    let file = folder.0.path().join("file");
    fs::write(&file, "").unwrap();
    let error = CompileCache::new(file.join("compiled")).summary().unwrap_err();
    assert_eq!(error.to_string(), format!("{} cannot be written: it is not a folder", file.display()));
    // A system's folder in which nothing can be made, whoever asks.
    let error = CompileCache::new("/dev/null/compiled").summary().unwrap_err();
    assert_eq!(error.to_string(), "/dev/null cannot be written: it is not a folder");
}

#[test]
fn the_summary_counts_what_was_put_aside() {
    let folder = Folder::new();
    by(folder.cache());
    let size = fs::metadata(folder.entry()).unwrap().len();
    fs::write(folder.entry(), b"damage").unwrap();
    assert_eq!(miss(folder.cache()), CacheMiss::Damaged("it does not begin as entries do".to_owned()));
    let summary = folder.cache().summary().unwrap();
    assert_eq!((summary.entries, summary.damaged, summary.bytes), (1, 1, size + 6));
}

#[test]
fn what_a_file_of_flags_says_counts_and_not_its_name() {
    const NAME: &str = "what_a_file_of_flags_says_counts_and_not_its_name";
    if let Some(folder) = env::var_os(CHILD) {
        return tell_how_it_was_compiled(Path::new(&folder));
    }
    let folder = Folder::new();
    let flags = folder.0.path().join("flags");
    let compiled_with = |text: &str| {
        fs::write(&flags, text).unwrap();
        let mut command = itself(NAME, "", folder.cache().folder());
        told(&command.env("XLA_FLAGS", &flags).output().unwrap())
    };
    assert_eq!(compiled_with("--xla_cpu_enable_fast_math=false"), "Process");
    assert_eq!(compiled_with("--xla_cpu_enable_fast_math=false\n"), "Cache");
    assert_eq!(compiled_with("--xla_cpu_enable_fast_math=true"), "Process");
    // Of such a flag all count, and not only the last.
    assert_eq!(compiled_with("--xla_disable_hlo_passes=cse --xla_disable_hlo_passes=dce"), "Process");
    assert_eq!(compiled_with("--xla_disable_hlo_passes=dce"), "Process");
    let dumps = folder.0.path().join("dumps");
    for _ in 0..2 {
        assert_eq!(compiled_with(&format!("--xla_dump_to={}", dumps.display())), "Process");
    }
}

#[test]
fn a_disk_that_is_full_fails_no_program() {
    const NAME: &str = "a_disk_that_is_full_fails_no_program";
    if let Some(folder) = env::var_os(CHILD) {
        return tell_how_it_was_compiled(Path::new(&folder));
    }
    let folder = Folder::new();
    // No file of this process can have more than a few blocks of 512 bytes.
    let output = itself(NAME, "trap '' XFSZ; ulimit -f 4", folder.cache().folder()).output().unwrap();
    assert_eq!(told(&output), "Process", "{output:?}");
    assert!(folder.cache().folder().exists());
    assert!(folder.files(".executable").is_empty());
    assert!(!folder.files("").iter().any(|file| file.to_string_lossy().contains("unfinished")));
    assert_eq!(by(folder.cache()), CompiledBy::Process);
    assert_eq!(by(folder.cache()), CompiledBy::Cache);
}

#[test]
fn several_processes_use_one_cache_at_once() {
    const NAME: &str = "several_processes_use_one_cache_at_once";
    if let Some(folder) = env::var_os(CHILD) {
        let folder = Path::new(&folder);
        for _ in 0..5 {
            // Each removes what the others have written, or are reading.
            double(&runtime(CompileCache::new(folder)));
            let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
            entries
                .filter(|path| path.extension().is_some_and(|ending| ending == "executable"))
                .for_each(|path| drop(fs::remove_file(path)));
        }
        return tell_how_it_was_compiled(folder);
    }
    let folder = Folder::new();
    let start = |_| {
        let mut command = itself(NAME, "", folder.cache().folder());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..3).map(start).collect();
    for child in children {
        told(&child.wait_with_output().unwrap());
    }
    assert_eq!(by(folder.cache()), CompiledBy::Cache);
    let summary = folder.cache().summary().unwrap();
    assert_eq!((summary.entries, summary.damaged), (1, 0));
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
