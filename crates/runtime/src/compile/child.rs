//! Compiling in a child process: the parent's side.
//!
//! A compiler that aborts, crashes or hangs then takes its own process with it and nothing else.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use super::death::{CompilerDeath, Ending, capture};
use super::protocol::{self, Reply, Request};

/// The argument that asks a program to compile for the one that started it.
const ARGUMENT: &str = "shardwright-compile";

/// How long a child that has closed its output may take to end, and its last words to arrive.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A program that compiles when it is asked to, and the limits within which it does.
///
/// It is this very program, from [`serve_if_asked`](super::serve_if_asked), or another one that calls that first in
/// its `main`, such as the `shardwright` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildCompiler {
    command: PathBuf,
    time_limit: Option<Duration>,
    memory_limit: Option<u64>,
}

impl ChildCompiler {
    /// Compiles with this program, which calls [`serve_if_asked`](super::serve_if_asked) first in its `main`. If it
    /// does not, each compilation is an error that says so.
    pub fn command(path: impl Into<PathBuf>) -> ChildCompiler {
        ChildCompiler { command: path.into(), time_limit: None, memory_limit: None }
    }

    /// The same, given up after a time.
    #[must_use]
    pub fn with_time_limit(self, limit: Duration) -> ChildCompiler {
        ChildCompiler { time_limit: Some(limit), ..self }
    }

    /// The same, with a limit to the child's address space, in bytes. A CPU plugin takes one
    /// or two GiB of it before it compiles anything, more with more devices.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> ChildCompiler {
        ChildCompiler { memory_limit: Some(bytes), ..self }
    }

    /// The most memory that the child may have, in bytes.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        self.memory_limit
    }

    /// Has a program compiled. `name` is for messages.
    pub(super) fn compile(&self, name: &str, request: &Request, code: &[u8]) -> Result<Reply, CompilerDeath> {
        let (program, memory_limit) = (name.to_owned(), self.memory_limit);
        let death =
            |ending| CompilerDeath { program: program.clone(), ending, memory_limit, output: String::new() };
        let not_started =
            |reason: String| death(Ending::NotStarted { command: self.command.clone(), reason });
        if is_asked() {
            let reason = "this process was itself started to compile, and calls serve_if_asked too late";
            return Err(not_started(reason.to_owned()));
        }
        let request = serde_json::to_vec(request).map_err(|e| not_started(e.to_string()))?;
        let mut running = Running::start(&self.command, request, code.to_vec())
            .map_err(|error| not_started(error.to_string()))?;
        running.wait_for_reply(self).map_err(|ending| {
            running.end();
            CompilerDeath { output: running.output(), ..death(ending) }
        })
    }
}

/// Whether this process was started to compile for another.
pub(super) fn is_asked() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT)
}

/// A child at work. It ends with this value.
struct Running {
    child: Child,
    reply: Receiver<io::Result<Reply>>,
    output: Receiver<String>,
    /// Open for as long as the child is needed: its end tells the child to give up.
    _stdin: Receiver<ChildStdin>,
}

impl Running {
    fn start(command: &PathBuf, request: Vec<u8>, code: Vec<u8>) -> io::Result<Running> {
        let mut child = Command::new(command)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: what ends it also ends what it has started, and a Ctrl-C is for the parent, whose end
            // is the child's.
            .process_group(0)
            .spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(mut stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (send_stdin, _stdin) = mpsc::channel();
        let (send_reply, reply) = mpsc::channel();
        let (send_output, output) = mpsc::channel();
        // Each pipe has its own thread, so that none can fill up and stop the child. All of them end with the child.
        thread::spawn(move || {
            // A child that does not read has another end, which is what is told.
            let _ = protocol::write_request(&mut stdin, &request, &code);
            let _ = send_stdin.send(stdin);
        });
        thread::spawn(move || {
            let _ = send_reply.send(read_reply(&mut stdout));
        });
        thread::spawn(move || {
            let _ = send_output.send(capture(&mut stderr));
        });
        Ok(Running { child, reply, output, _stdin })
    }

    fn wait_for_reply(&mut self, compiler: &ChildCompiler) -> Result<Reply, Ending> {
        let reply = match compiler.time_limit {
            Some(limit) => self.reply.recv_timeout(limit).map_err(|_| Ending::TimedOut(limit))?,
            // The thread sends whatever happens, so there is something to receive.
            None => self.reply.recv().unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into())),
        };
        let garbage = |reason: String| Ending::Garbage { command: compiler.command.clone(), reason };
        reply.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => match self.status() {
                Some(status) if status.success() => garbage("it ended without a word".to_owned()),
                Some(status) => Ending::of(status),
                None => garbage("it closed its output and went on".to_owned()),
            },
            _ => garbage(error.to_string()),
        })
    }

    /// The status of a child that is ending.
    fn status(&mut self) -> Option<ExitStatus> {
        let end = Instant::now() + LAST_WORDS;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// Ends the child and what it has started. It may have ended already.
    fn end(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let (Some(group), Ok(None)) = (group, self.child.try_wait()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }

    /// What the child has said, on stderr, where its stdout also goes.
    fn output(&self) -> String {
        self.output.recv_timeout(LAST_WORDS).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_reply(stdout: &mut dyn Read) -> io::Result<Reply> {
    protocol::read_hello(stdout)?;
    protocol::read_reply(stdout)
}
