//! pip as a child process: run it, watch the download grow, read its last words.
//!
//! pip's own progress output differs from version to version. Instead its temporary folder is set to one of
//! ours, and the largest file below the download folder is the download so far; that works with every pip
//! and keeps what a killed one leaves inside the staging folder.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::error::{DownloadFailure, PluginError, Repr};
use super::pins::PinnedPlugin;

/// How often the growing download is looked at.
const POLL: Duration = Duration::from_millis(100);

/// How many of pip's last lines an error repeats.
const KEPT_LINES: usize = 8;

/// Download the wheel of `pin` into `folder`; `progress` hears the bytes so far.
pub(super) fn download(
    pin: &PinnedPlugin,
    python: &Path,
    folder: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<(), PluginError> {
    let temporary = folder.join("tmp");
    fs::create_dir(&temporary).map_err(Repr::cache("create folder", &temporary))?;
    let tags = pin.tags();
    let (implementation, version) = tags.implementation_and_version();
    let mut command = Command::new(python);
    command
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:"])
        // Exactly the pinned wheel, whatever Python this pip belongs to: the library inside needs none.
        .args(["--implementation", implementation, "--python-version", &version, "--abi", tags.abi])
        .args(["--platform", tags.platform, "--ignore-requires-python"])
        .args(["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--dest"])
        .arg(folder)
        .arg(format!("{}=={}", pin.package, pin.version))
        // `-m` puts the current folder on Python's path, where a `tokenize.py` would break pip.
        .current_dir(&temporary)
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    tracing::debug!(?command, "downloading");
    let mut bytes = 0;
    let mut look = || {
        // pip removes its temporary copies, so the largest file may shrink; the download does not.
        bytes = largest_file(folder).max(bytes);
        progress(bytes);
    };
    let (status, output) = run(&mut command, &mut look).map_err(|source| Repr::PythonMissing {
        python: python.to_owned(),
        pin: pin.into(),
        source,
    })?;
    if status.success() {
        return Ok(());
    }
    Err(explain(pin, python, status, output))
}

/// Run `command` to its end, calling `tick` while it runs, and return its last lines of both streams.
fn run(command: &mut Command, tick: &mut dyn FnMut()) -> io::Result<(ExitStatus, Vec<String>)> {
    let mut child = KillOnDrop(command.spawn()?);
    let (sender, receiver) = mpsc::channel();
    let stdout = child.0.stdout.take().expect("the stream is piped");
    let stderr = child.0.stderr.take().expect("the stream is piped");
    forward_lines(stdout, sender.clone());
    forward_lines(stderr, sender);

    let mut lines = Vec::new();
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Timeout) => tick(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    tick();
    let status = child.0.wait()?;
    lines.drain(..lines.len().saturating_sub(KEPT_LINES));
    Ok((status, lines))
}

/// Send the lines of `stream` from a thread of their own, so that neither stream can block the child.
fn forward_lines(stream: impl Read + Send + 'static, sender: Sender<String>) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(stream.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if !text.is_empty() && sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// A child that does not outlive its owner, should the progress callback panic.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Both fail once the child has been waited for, which is the usual case.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The size of the largest file below `folder`.
///
/// pip writes the wheel more than once (its cache, its temporary folder, the destination), so a sum would
/// count it several times.
fn largest_file(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => largest_file(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).max().unwrap_or(0)
}

fn explain(pin: &PinnedPlugin, python: &Path, status: ExitStatus, mut output: Vec<String>) -> PluginError {
    if output.iter().any(|line| line.ends_with("No module named pip")) {
        return Repr::PipMissing { python: python.to_owned(), pin: pin.into() }.into();
    }
    let failure = classify(&output);
    output.push(format!("({status})"));
    Repr::DownloadFailed { pin: pin.into(), failure, output }.into()
}

/// Read pip's reason from its output, which is English whatever the locale.
fn classify(output: &[String]) -> DownloadFailure {
    let says =
        |phrases: &[&str]| output.iter().any(|line| phrases.iter().any(|phrase| line.contains(phrase)));
    if says(&["No space left on device", "Disk quota exceeded", "File too large"]) {
        return DownloadFailure::DiskFull;
    }
    // With no connection pip warns, then claims that there is no such version, "from versions: none".
    let network =
        says(&["Connection", "connection broken", "Max retries exceeded", "name resolution", "timed out"]);
    let no_version = says(&["No matching distribution found"]);
    match (network, no_version, says(&["(from versions: none)"])) {
        (true, false, _) | (true, true, true) => DownloadFailure::Network,
        (_, true, _) => DownloadFailure::NoSuchVersion,
        (false, false, _) => DownloadFailure::Other,
    }
}
