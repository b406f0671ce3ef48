//! Loading a plugin where it can do no harm: in a child process, which tells its parent how far it came.
//!
//! The child is this program with a hidden flag. It writes each [`Line`] as JSON on a line of its own after [`MARK`];
//! whatever else it says is the plugin's. The pipe to it carries nothing: its end tells the child that nobody waits any
//! more, so a doctor that is killed leaves nothing behind.
//!
//! A child that compiles (in the runtime crate) is another matter: it answers once, in bytes, and this one tells a story
//! of which each line counts. What the two have in common is a process group, and that is the system's.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use shardwright_pjrt::{NamedValue, Plugin, exit_now};
use shardwright_runtime::{Runtime, RuntimeOptions};

use crate::cli::console;

const MARK: &str = "shardwright-probe ";

/// How often a child that has said its last word is asked whether it has ended.
const POLL: Duration = Duration::from_millis(10);

/// How many of the plugin's last lines are kept, and how much of each.
const KEPT_LINES: usize = 8;
const KEPT_CHARS: usize = 400;

/// More bytes than a line of ours has. What is longer is taken for several lines.
const MOST_LINE_BYTES: u64 = 1 << 20;

/// How many lines wait to be heard, before a plugin that writes more has to wait.
const MOST_LINES: usize = 16;

/// The exit code of a child that nobody waits for any more.
const GAVE_UP: u8 = 70;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Begin(Step),
    Loaded(Loaded),
    Opened(Opened),
    Failed(String),
}

/// What the child is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    Load,
    Open,
    Close,
}

/// What a loaded plugin says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Loaded {
    pub(super) api: (i32, i32),
    pub(super) stablehlo_minimum: Option<Vec<i64>>,
    pub(super) stablehlo_current: Option<Vec<i64>>,
    pub(super) xla_version: Option<String>,
    pub(super) extensions: Vec<String>,
    pub(super) missing_functions: Vec<String>,
}

/// What a client of it says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) platform: String,
    pub(super) version: String,
    pub(super) devices: Vec<DeviceFacts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeviceFacts {
    pub(super) id: i64,
    pub(super) kind: String,
    pub(super) memories: Vec<String>,
    pub(super) default_memory: Option<String>,
    pub(super) bytes_limit: Option<i64>,
}

/// How far a plugin came, and how it ended.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) loaded: Option<Loaded>,
    pub(super) opened: Option<Opened>,
    pub(super) end: End,
    /// The last lines that the plugin wrote.
    pub(super) said: Vec<String>,
}

/// How a child ended.
#[derive(Debug)]
pub(super) enum End {
    /// It did all its steps.
    Well,
    /// A step failed with this error.
    Failed(Step, String),
    /// The process ended in the middle of a step.
    Died(Step, ExitStatus),
    /// A step took too long.
    Hung(Step, Duration),
    /// The child could not be started.
    NotStarted(io::Error),
}

/// Does the child's part: loads the plugin, opens and closes it, and tells of each step.
pub(super) fn serve(plugin: &Path, options: &RuntimeOptions) {
    thread::spawn(|| {
        let _ = io::stdin().lock().read(&mut [0]);
        exit_now(GAVE_UP);
    });
    tell(&Line::Begin(Step::Load));
    match Plugin::load(plugin) {
        Err(error) => return tell(&Line::Failed(error.to_string())),
        Ok(plugin) => tell(&Line::Loaded(loaded(&plugin))),
    }
    tell(&Line::Begin(Step::Open));
    match Runtime::new(plugin, options) {
        Err(error) => tell(&Line::Failed(error.to_string())),
        Ok(runtime) => {
            tell(&Line::Opened(opened(&runtime)));
            tell(&Line::Begin(Step::Close));
        }
    }
}

fn tell(line: &Line) {
    if let Ok(json) = serde_json::to_string(line) {
        console::result(format!("{MARK}{json}"));
    }
}

fn loaded(plugin: &Plugin) -> Loaded {
    let attributes = plugin.attributes().unwrap_or_default();
    let attribute = |name: &str| attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value);
    let version = |name: &str| match attribute(name) {
        Some(NamedValue::I64List(version)) => Some(version.clone()),
        _ => None,
    };
    Loaded {
        api: plugin.api_version(),
        stablehlo_minimum: version("stablehlo_minimum_version"),
        stablehlo_current: version("stablehlo_current_version"),
        xla_version: attribute("xla_version").map(ToString::to_string),
        extensions: plugin.extensions().iter().map(ToString::to_string).collect(),
        missing_functions: plugin.missing_functions().into_iter().map(str::to_owned).collect(),
    }
}

fn opened(runtime: &Runtime) -> Opened {
    let facts = |device: &shardwright_pjrt::Device| DeviceFacts {
        id: device.id(),
        kind: device.kind().to_owned(),
        memories: device.memories().iter().map(|memory| memory.kind().to_owned()).collect(),
        default_memory: device.default_memory().map(|memory| memory.kind().to_owned()),
        bytes_limit: device.memory_stats().ok().and_then(|stats| stats.bytes_limit),
    };
    Opened {
        platform: runtime.platform().to_owned(),
        version: runtime.client().platform_version().to_owned(),
        devices: runtime.devices().map(facts).collect(),
    }
}

/// Has a child load the plugin, for at most `limit`.
pub(super) fn probe(plugin: &Path, flags: &[String], limit: Duration) -> Probe {
    let mut heard = Heard { loaded: None, opened: None, said: Vec::new(), step: Step::Load, failure: None };
    let mut child = match start(plugin, flags) {
        Ok(child) => child,
        Err(error) => return heard.end(End::NotStarted(error)),
    };
    let deadline = Instant::now() + limit;
    let lines = lines_of(&mut child);
    let status = loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => heard.hear(&line),
            Err(RecvTimeoutError::Timeout) => break None,
            Err(RecvTimeoutError::Disconnected) => break wait(&mut child, deadline),
        }
    };
    end(&mut child);
    let step = heard.step;
    let end = match (status, heard.failure.take()) {
        (None, _) => End::Hung(step, limit),
        (Some(_), Some(error)) => End::Failed(step, error),
        // A plugin may end the process as if all were well.
        (Some(status), None) if !status.success() || step != Step::Close => End::Died(step, status),
        (Some(_), None) => End::Well,
    };
    heard.end(end)
}

/// What a child has told so far.
struct Heard {
    loaded: Option<Loaded>,
    opened: Option<Opened>,
    said: Vec<String>,
    step: Step,
    failure: Option<String>,
}

impl Heard {
    fn hear(&mut self, text: &str) {
        // The plugin may have left its own line unfinished.
        let (own, line) = text.split_once(MARK).unwrap_or((text, ""));
        if !own.is_empty() {
            self.said.push(own.chars().take(KEPT_CHARS).collect());
            self.said.drain(..self.said.len().saturating_sub(KEPT_LINES));
        }
        match serde_json::from_str(line) {
            Ok(Line::Begin(step)) => self.step = step,
            Ok(Line::Loaded(loaded)) => self.loaded = Some(loaded),
            Ok(Line::Opened(opened)) => self.opened = Some(opened),
            Ok(Line::Failed(error)) => self.failure = Some(error),
            Err(_) => {}
        }
    }

    fn end(self, end: End) -> Probe {
        Probe { loaded: self.loaded, opened: self.opened, end, said: self.said }
    }
}

fn start(plugin: &Path, flags: &[String]) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(flags)
        .args(["doctor", "--probe"])
        .arg(plugin)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What ends the group also ends what the plugin has started.
        .process_group(0)
        .spawn()
}

/// Ends a child that hangs, and what it has started. It may have ended already, and is only forgotten then.
pub(super) fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(group), Ok(None)) = (group, child.try_wait()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// The lines of both streams, until both are closed.
fn lines_of(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(MOST_LINES);
    if let Some(stream) = child.stdout.take() {
        forward(stream, sender.clone());
    }
    if let Some(stream) = child.stderr.take() {
        forward(stream, sender);
    }
    receiver
}

fn forward(stream: impl Read + Send + 'static, sender: SyncSender<String>) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(stream.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if !text.is_empty() && sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// The end of a child; `None` when it does not come in time.
pub(super) fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            Ok(None) | Err(_) => return None,
        }
    }
}
