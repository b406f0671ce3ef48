//! Finding and fetching plugins, with a shell script in the part of Python and pip: no network is used.

#![cfg(unix)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use sha2::{Digest, Sha256};
use shardwright_runtime::plugins::{
    DownloadFailure, Environment, FetchEvent, Network, Origin, PinnedPlugins, PluginError, PluginErrorKind,
    PluginRequest, PluginStatus, ResolvedPlugin, list, resolve,
};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const PLUGIN: &[u8] = b"\x7fELF the plugin";
const WHEEL: &str = "demo_cpu-1.0-py3-none-any.whl";

/// Delivers the wheel in two halves, as an act of the fake pip.
const DELIVER: &str = r#"
    head -c 100 "$here/wheel" > "$TMPDIR/half"
    cp "$here/wheel" "$dest/demo_cpu-1.0-py3-none-any.whl"
"#;

/// Delivers half the wheel and hangs for as long as the file `hang` exists.
const HANG_HALFWAY: &str = r#"
    head -c 100 "$here/wheel" > "$dest/demo_cpu-1.0-py3-none-any.whl"
    while [ -e "$here/hang" ]; do sleep 0.02; done
"#;

/// A folder with a cache, a home, a fake Python, a wheel and a table that pins it.
struct Stage {
    folder: TempDir,
    pins: String,
}

impl Stage {
    fn new(act: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fake-python.sh");
        // A link, as a script written here could still be open for writing in a child of another test.
        symlink(script, folder.path().join("python3")).unwrap();
        let stage = Self { pins: pins_of(&wheel_bytes(), PLUGIN), folder };
        stage.write("act", act);
        stage.write("wheel", wheel_bytes());
        stage.write("pins.toml", &stage.pins);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn pins(&self) -> PinnedPlugins {
        PinnedPlugins::parse(&self.pins).unwrap()
    }

    fn environment(&self) -> Environment {
        Environment {
            cache_dir: Some(self.path("cache").into()),
            home: Some(self.path("home").into()),
            python: Some(self.path("python3").into()),
            ..Environment::default()
        }
    }

    fn resolve(&self, plugin: Option<&str>) -> Result<ResolvedPlugin, PluginError> {
        resolve(&ask(plugin), &self.pins(), &self.environment(), &mut |_| {})
    }

    /// The names in the plugin's folder, sorted; staging folders without their random part.
    fn cached_names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path("cache/plugins/demo-cpu-1.0"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| if name.starts_with("staging-") { "staging".to_owned() } else { name })
            .collect();
        names.sort();
        names
    }

    fn calls(&self) -> usize {
        fs::read_to_string(self.path("calls")).map_or(0, |calls| calls.lines().count())
    }

    /// Resolve the default in another process.
    fn spawn(&self) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "in_another_process", "--nocapture"])
            .env("FAKE_STAGE", self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Process { child, lines }
    }
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Process {
    /// Read its events until one starts with `event`.
    fn wait_for(&mut self, event: &str) {
        let found = self.lines.by_ref().any(|line| line.unwrap().starts_with(event));
        assert!(found, "the process ended without the event {event}");
    }
}

/// The other side of [`Stage::spawn`]; does nothing when run as a test of its own.
#[test]
fn in_another_process() {
    let Some(folder) = std::env::var_os("FAKE_STAGE").map(PathBuf::from) else { return };
    let pins = PinnedPlugins::parse(&fs::read_to_string(folder.join("pins.toml")).unwrap()).unwrap();
    let environment = Environment {
        cache_dir: Some(folder.join("cache").into()),
        python: Some(folder.join("python3").into()),
        ..Environment::default()
    };
    let mut say = |event: FetchEvent<'_>| writeln!(std::io::stderr(), "{}", event_text(event)).unwrap();
    resolve(&ask(None), &pins, &environment, &mut say).unwrap();
    writeln!(std::io::stderr(), "resolved").unwrap();
}

fn ask(plugin: Option<&str>) -> PluginRequest {
    PluginRequest { plugin: plugin.map(Into::into), ..PluginRequest::default() }
}

fn wheel_bytes() -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in [
        ("demo_cpu/__init__.py", &b"PLUGIN_PATH = None"[..]),
        ("demo_cpu/plugin.so", PLUGIN),
        ("demo_cpu/THIRD_PARTY_NOTICES.txt", b"thanks"),
        ("demo_cpu-1.0.dist-info/licenses/LICENSE", b"do as you like"),
        ("demo_cpu-1.0.dist-info/METADATA", b"Name: demo-cpu"),
    ] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn pins_of(wheel: &[u8], plugin: &[u8]) -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let (wheel_sha256, file_sha256) = (sha256(wheel), sha256(plugin));
    let (wheel_bytes, file_bytes) = (wheel.len(), plugin.len());
    format!(
        r#"
            default = "demo"
            [[plugin]]
            name = "demo"
            device = "cpu"
            package = "demo-cpu"
            version = "1.0"
            os = "{os}"
            arch = "{arch}"
            wheel = "{WHEEL}"
            wheel_bytes = {wheel_bytes}
            wheel_sha256 = "{wheel_sha256}"
            file = "demo_cpu/plugin.so"
            file_bytes = {file_bytes}
            file_sha256 = "{file_sha256}"
            pjrt_api = "0.1"
            licence = "MIT"
            note = ""
        "#
    )
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn event_text(event: FetchEvent<'_>) -> String {
    match event {
        FetchEvent::Waiting { pin } => format!("waiting {}", pin.name),
        FetchEvent::Started { pin } => format!("started {}", pin.name),
        FetchEvent::Downloading { bytes } => format!("downloading {bytes}"),
        FetchEvent::Unpacking { bytes } => format!("unpacking {bytes}"),
        FetchEvent::Finished { path } => format!("finished {}", path.display()),
        other => format!("{other:?}"),
    }
}

/// The error's kind is `kind` and its message holds every one of `parts`.
fn check_error<T: std::fmt::Debug>(result: Result<T, PluginError>, kind: PluginErrorKind, parts: &[&str]) {
    let error = result.unwrap_err();
    let message = error.to_string();
    assert_eq!(error.kind(), kind, "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
}

// Files.

#[test]
fn every_spelling_of_a_file_is_taken() {
    let stage = Stage::new("exit 1");
    fs::create_dir(stage.path("home")).unwrap();
    for name in ["plain.so", "with space.so", "no-ending", "home/in home.so"] {
        stage.write(name, PLUGIN);
    }
    let up: PathBuf = std::env::current_dir().unwrap().iter().skip(1).map(|_| "..").collect();
    let relative = up.join(stage.path("plain.so").strip_prefix("/").unwrap());
    for (given, expect) in [
        (stage.path("plain.so").to_str().unwrap(), "plain.so"),
        (stage.path("with space.so").to_str().unwrap(), "with space.so"),
        (stage.path("no-ending").to_str().unwrap(), "no-ending"),
        (relative.to_str().unwrap(), "plain.so"),
        ("~/in home.so", "home/in home.so"),
    ] {
        let resolved = stage.resolve(Some(given)).unwrap();
        assert!(resolved.path.is_absolute(), "{resolved}");
        assert_eq!(fs::canonicalize(&resolved.path).unwrap(), fs::canonicalize(stage.path(expect)).unwrap());
        assert_eq!((resolved.origin, &resolved.pinned), (Origin::Request, &None));
    }
    assert_eq!(stage.calls(), 0);
}

#[test]
fn request_wins_over_variable_and_variable_over_default() {
    let stage = Stage::new(DELIVER);
    for name in ["flag.so", "variable.so"] {
        stage.write(name, PLUGIN);
    }
    let check = |plugin: Option<&str>, variable: &str, name: &str, origin: Origin| {
        let file = |name: &str| stage.path(name).to_str().unwrap().to_owned();
        let environment =
            Environment { plugin: Some(variable.replace("$", &file("")).into()), ..stage.environment() };
        let request = ask(plugin.map(file).as_deref());
        let resolved = resolve(&request, &stage.pins(), &environment, &mut |_| {}).unwrap();
        assert_eq!((resolved.name.as_str(), resolved.origin), (name, origin));
    };
    check(Some("flag.so"), "$variable.so", "flag.so", Origin::Request);
    check(None, "$variable.so", "variable.so", Origin::Variable);
    check(None, "demo", "demo", Origin::Variable);
    check(None, "", "demo", Origin::Default);
}

#[test]
fn a_plugin_says_where_it_came_from() {
    let stage = Stage::new(DELIVER);
    stage.write("own.so", PLUGIN);
    let (own, cached) = (stage.path("own.so"), stage.resolve(None).unwrap());
    let text = stage.resolve(own.to_str()).unwrap().to_string();
    assert_eq!(text, format!("{} (chosen by --plugin)", own.display()));
    let text = format!("{} (demo: demo-cpu 1.0, chosen by default)", cached.path.display());
    assert_eq!(cached.to_string(), text);
}

#[test]
fn files_that_cannot_be_plugins_are_refused() {
    let stage = Stage::new("exit 1");
    let missing = stage.path("absent.so");
    check_error(
        stage.resolve(missing.to_str()),
        PluginErrorKind::NotFound,
        &["absent.so\" does not exist", "given by --plugin", "one of demo"],
    );
    let environment = Environment { plugin: Some("absent.so".into()), ..stage.environment() };
    let here = std::env::current_dir().unwrap().join("absent.so");
    check_error(
        resolve(&ask(None), &stage.pins(), &environment, &mut |_| {}),
        PluginErrorKind::NotFound,
        &[here.to_str().unwrap(), "given by SHARDWRIGHT_PLUGIN as \"absent.so\""],
    );
    check_error(
        stage.resolve(stage.path("act/below-a-file.so").to_str()),
        PluginErrorKind::NotFound,
        &["does not exist"],
    );
    fs::create_dir(stage.path("folder.so")).unwrap();
    check_error(
        stage.resolve(stage.path("folder.so").to_str()),
        PluginErrorKind::NotAFile,
        &["is a folder, expected a shared library", "the file itself"],
    );
    symlink(stage.path("loop.so"), stage.path("loop.so")).unwrap();
    let loops = stage.resolve(stage.path("loop.so").to_str());
    check_error(loops, PluginErrorKind::Unreadable, &["cannot read", "loop.so", "permissions"]);
    check_error(
        resolve(&ask(Some("~/p.so")), &stage.pins(), &Environment::default(), &mut |_| {}),
        PluginErrorKind::NoHome,
        &["\"~/p.so\" needs a home folder", "in full"],
    );
}

// Names.

#[test]
fn unknown_names_list_the_known_ones() {
    let stage = Stage::new("exit 1");
    let parts = ["unknown plugin \"dmeo\"", "did you mean demo?", "known are demo;", "--plugin PATH"];
    check_error(stage.resolve(Some("dmeo")), PluginErrorKind::UnknownName, &parts);
    check_error(
        stage.resolve(Some("")),
        PluginErrorKind::UnknownName,
        &["unknown plugin \"\" (given by --plugin);"],
    );
}

#[test]
fn plugins_for_other_machines_are_refused_before_any_fetch() {
    let mut stage = Stage::new(DELIVER);
    stage.pins = stage.pins.replace(&format!("{:?}", std::env::consts::OS), "\"plan9\"");
    check_error(
        stage.resolve(None),
        PluginErrorKind::UnsupportedPlatform,
        &["demo is built for plan9", std::env::consts::ARCH, "--plugin PATH"],
    );
    assert_eq!(list(&stage.pins(), &stage.environment()).unwrap()[0].status, PluginStatus::Unsupported);
    assert_eq!(stage.calls(), 0);
}

#[test]
fn offline_uses_the_cache_and_nothing_else() {
    let stage = Stage::new(DELIVER);
    let offline = PluginRequest { plugin: None, network: Network::Offline };
    let resolve_offline = || resolve(&offline, &stage.pins(), &stage.environment(), &mut |_| {});
    check_error(
        resolve_offline(),
        PluginErrorKind::Offline,
        &["plugin demo (demo-cpu 1.0)", "cache/plugins/demo-cpu-1.0", "run once without --offline"],
    );
    assert!(!stage.path("cache").exists());
    let fetched = stage.resolve(None).unwrap();
    assert_eq!(resolve_offline().unwrap(), fetched);
    assert_eq!(stage.calls(), 1);
}

// Fetching.

#[test]
fn a_fetch_reports_its_steps_and_leaves_plugin_and_licence() {
    let stage = Stage::new(DELIVER);
    let mut events = Vec::new();
    let mut note = |event: FetchEvent<'_>| events.push(event_text(event));
    let resolved = resolve(&ask(Some("demo")), &stage.pins(), &stage.environment(), &mut note).unwrap();

    assert_eq!(fs::read(&resolved.path).unwrap(), PLUGIN);
    let licence = resolved.path.with_file_name("demo_cpu-1.0.dist-info").join("licenses/LICENSE");
    assert_eq!(fs::read(licence).unwrap(), b"do as you like");
    // Beside the library in the wheel, only such papers are taken.
    let beside: Vec<_> = fs::read_dir(resolved.path.with_file_name("demo_cpu")).unwrap().collect();
    assert_eq!(beside.len(), 1);
    assert_eq!(beside[0].as_ref().unwrap().file_name(), "THIRD_PARTY_NOTICES.txt");
    assert_eq!(stage.cached_names(), [&sha256(PLUGIN)[..16], "lock"]);

    // How often the download is looked at depends on the machine; the last look sees all of it.
    events.dedup();
    events.retain(|event| event != "downloading 0" && event != "downloading 100");
    let (downloaded, unpacked) = (wheel_bytes().len(), PLUGIN.len());
    let finished = format!("finished {}", resolved.path.display());
    let expect =
        ["started demo", &format!("downloading {downloaded}"), &format!("unpacking {unpacked}"), &finished];
    assert_eq!(events, expect);

    let mut silent = |event: FetchEvent<'_>| panic!("a cached plugin needs no fetch: {event:?}");
    assert_eq!(
        resolve(&ask(Some("demo")), &stage.pins(), &stage.environment(), &mut silent).unwrap(),
        resolved
    );
}

#[test]
fn pip_is_asked_for_exactly_the_pin_away_from_the_current_folder() {
    let stage = Stage::new(&format!("{DELIVER}\n pwd > \"$here/cwd\""));
    stage.resolve(None).unwrap();
    let call = fs::read_to_string(stage.path("calls")).unwrap();
    let (before, after) = call.split_once(" --dest ").unwrap();
    assert_eq!(
        before,
        "-m pip download --no-deps --only-binary=:all: --implementation py --python-version 3 --abi none --platform any \
         --ignore-requires-python --disable-pip-version-check --no-input --progress-bar off"
    );
    assert_eq!(after.split(' ').next_back(), Some("demo-cpu==1.0\n"));
    let cwd = fs::read_to_string(stage.path("cwd")).unwrap();
    assert!(cwd.contains("/cache/plugins/demo-cpu-1.0/staging-"), "{cwd}");
}

#[test]
fn list_and_verify_tell_the_state() {
    let stage = Stage::new(DELIVER);
    let (pins, environment) = (stage.pins(), stage.environment());
    let status = || list(&pins, &environment).unwrap().remove(0).status;
    assert_eq!(status(), PluginStatus::NotCached);
    let path = stage.resolve(None).unwrap().path;
    assert_eq!(status(), PluginStatus::Cached(path.clone()));
    pins.default_plugin().verify(&path).unwrap();

    // Same size, other bytes: only the thorough check sees it.
    fs::write(&path, vec![0; PLUGIN.len()]).unwrap();
    assert_eq!(status(), PluginStatus::Cached(path.clone()));
    let (expected, found) = (sha256(PLUGIN), sha256(&vec![0; PLUGIN.len()]));
    check_error(
        pins.default_plugin().verify(&path),
        PluginErrorKind::DigestMismatch,
        &["plugin.so", &expected, &found, "remove it"],
    );
    let absent = pins.default_plugin().verify(&stage.path("absent"));
    check_error(absent, PluginErrorKind::Unreadable, &["absent"]);
}

#[test]
fn a_truncated_plugin_is_fetched_again() {
    let stage = Stage::new(DELIVER);
    let path = stage.resolve(None).unwrap().path;
    File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
    assert_eq!(stage.resolve(None).unwrap().path, path);
    assert_eq!(fs::read(&path).unwrap(), PLUGIN);
    assert_eq!(stage.calls(), 2);
}

#[test]
fn a_cache_that_cannot_be_written_says_which_variable_moves_it() {
    let stage = Stage::new(DELIVER);
    stage.write("cache", "a file in the way");
    let parts = ["cannot create folder", "cache/plugins/demo-cpu-1.0", "set SHARDWRIGHT_CACHE_DIR"];
    check_error(stage.resolve(None), PluginErrorKind::Cache, &parts);
    let nowhere = resolve(&ask(None), &stage.pins(), &Environment::default(), &mut |_| {});
    check_error(
        nowhere,
        PluginErrorKind::NoHome,
        &["the plugin cache needs a home folder", "SHARDWRIGHT_CACHE_DIR"],
    );
}

// Failing fetches. Each leaves the lock file and nothing else.

fn check_failed_fetch(stage: &Stage, kind: PluginErrorKind, parts: &[&str]) {
    check_error(stage.resolve(None), kind, parts);
    assert_eq!(stage.cached_names(), ["lock"]);
}

#[test]
fn missing_python_and_missing_pip_are_told_apart() {
    let stage = Stage::new("echo \"$0: No module named pip\" >&2; exit 1");
    let parts = ["python3\" has no pip", "demo (demo-cpu 1.0)", "install pip", "--plugin PATH"];
    check_failed_fetch(&stage, PluginErrorKind::PipMissing, &parts);

    fs::remove_file(stage.path("python3")).unwrap();
    let parts = ["cannot start", "python3\"", "install Python 3", "SHARDWRIGHT_PYTHON"];
    check_failed_fetch(&stage, PluginErrorKind::PythonMissing, &parts);
}

#[test]
fn failed_downloads_tell_the_reason_and_the_last_lines() {
    let check = |lines: &[&str], failure: DownloadFailure, part: &str| {
        let said: String = lines.iter().map(|line| format!("echo '{line}' >&2\n")).collect();
        let last = format!("\n  pip: {}\n  pip: (exit status: 1)", lines.last().unwrap());
        let stage = Stage::new(&format!("{said} exit 1"));
        let parts = ["could not download plugin demo (demo-cpu 1.0)", part, &last, "--plugin PATH"];
        let parts = if failure == DownloadFailure::DiskFull { &parts[..3] } else { &parts[..] };
        check_failed_fetch(&stage, PluginErrorKind::DownloadFailed(failure), parts);
    };
    let retrying =
        "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by NewConnectionError";
    let none =
        "ERROR: Could not find a version that satisfies the requirement demo-cpu==1.0 (from versions: none)";
    let some =
        "ERROR: Could not find a version that satisfies the requirement demo-cpu==1.0 (from versions: 0.9)";
    let no_match = "ERROR: No matching distribution found for demo-cpu==1.0";
    let timeout = "ReadTimeoutError: HTTPSConnectionPool: Read timed out.";
    let disk = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device";

    check(&[retrying, none, no_match], DownloadFailure::Network, "no connection");
    check(&[timeout], DownloadFailure::Network, "no connection");
    check(&[none, no_match], DownloadFailure::NoSuchVersion, "no such version");
    check(&[retrying, some, no_match], DownloadFailure::NoSuchVersion, "no such version");
    check(&[disk], DownloadFailure::DiskFull, "free some space");
    check(&["ERROR: Double requirement given"], DownloadFailure::Other, "as shown below");
}

#[test]
fn pip_that_succeeds_without_a_wheel_is_an_error() {
    let stage = Stage::new("exit 0");
    let kind = PluginErrorKind::DownloadFailed(DownloadFailure::Other);
    check_failed_fetch(&stage, kind, &["could not download", WHEEL]);
}

#[test]
fn only_the_last_lines_of_a_long_output_are_kept_and_both_streams_are_drained() {
    let stage =
        Stage::new("i=0; while [ $i -lt 20000 ]; do echo \"line $i\"; echo; i=$((i+1)); done; exit 3");
    let message = stage.resolve(None).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 10, "{message}");
    assert!(message.ends_with("\n  pip: line 19999\n  pip: (exit status: 3)"), "{message}");
}

#[test]
fn a_wheel_that_is_not_the_pinned_one_is_refused() {
    let stage = Stage::new(DELIVER);
    stage.write("wheel", "not a zip at all");
    let (expected, found) = (sha256(&wheel_bytes()), sha256(b"not a zip at all"));
    let parts = [
        "\"demo_cpu-1.0-py3-none-any.whl\" is not the pinned file",
        &expected,
        &found,
        "nothing was installed",
        "--plugin PATH",
    ];
    check_failed_fetch(&stage, PluginErrorKind::DigestMismatch, &parts);
}

#[test]
fn a_plugin_that_is_not_the_pinned_one_is_refused() {
    let mut stage = Stage::new(DELIVER);
    stage.pins = pins_of(&wheel_bytes(), b"another plugin!!");
    let parts =
        ["\"demo_cpu/plugin.so\"", &sha256(b"another plugin!!"), &sha256(PLUGIN), "nothing was installed"];
    check_failed_fetch(&stage, PluginErrorKind::DigestMismatch, &parts);
}

#[test]
fn a_pinned_wheel_that_cannot_be_unpacked_is_named() {
    let mut stage = Stage::new(DELIVER);
    for wheel in [
        b"not a zip at all".to_vec(),
        ZipWriter::new(std::io::Cursor::new(vec![])).finish().unwrap().into_inner(),
    ] {
        stage.write("wheel", &wheel);
        stage.pins = pins_of(&wheel, PLUGIN);
        let parts = ["cannot unpack \"demo_cpu/plugin.so\"", WHEEL];
        check_failed_fetch(&stage, PluginErrorKind::BrokenWheel, &parts);
    }
}

// Several processes.

#[test]
fn two_processes_download_once() {
    let stage = Stage::new(&format!("{HANG_HALFWAY}{DELIVER}"));
    stage.write("hang", "");
    let mut first = stage.spawn();
    first.wait_for("downloading 100");
    let mut second = stage.spawn();
    second.wait_for("waiting demo");
    fs::remove_file(stage.path("hang")).unwrap();
    for process in [&mut first, &mut second] {
        process.wait_for("resolved");
        assert!(process.child.wait().unwrap().success());
    }
    assert_eq!(stage.calls(), 1);
}

#[test]
fn a_killed_fetch_leaves_nothing_that_passes_for_a_plugin() {
    let stage = Stage::new(HANG_HALFWAY);
    stage.write("hang", "");
    let mut process = stage.spawn();
    process.wait_for("downloading 100");
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    assert_eq!(stage.cached_names(), ["lock", "staging"]);
    assert_eq!(list(&stage.pins(), &stage.environment()).unwrap()[0].status, PluginStatus::NotCached);

    // The orphaned pip still runs; the next fetch neither waits for it nor keeps its remains.
    stage.write("act", DELIVER);
    let path = stage.resolve(None).unwrap().path;
    assert_eq!(fs::read(path).unwrap(), PLUGIN);
    assert_eq!(stage.cached_names(), [&sha256(PLUGIN)[..16], "lock"]);
    fs::remove_file(stage.path("hang")).unwrap();
}
