//! How a compiler that runs in a child process can end without an answer.

use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use shardwright_partition::Bytes;
use thiserror::Error;

/// How much of what a compiler says is kept, of its beginning and of its end.
const KEPT_BYTES: usize = 32 << 10;
/// How much of it an error shows.
const SHOWN_LINES: usize = 12;
const SHOWN_CHARS: usize = 400;

/// A compiler in a child process that ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "program {program}: the compiler, in a process of its own, {ending}{}{}",
    Limit(*memory_limit),
    Shown(output)
)]
pub struct CompilerDeath {
    pub(super) program: String,
    pub(super) ending: Ending,
    pub(crate) memory_limit: Option<u64>,
    pub(super) output: String,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The process could not be started.
    NotStarted {
        /// The program that was to be started.
        command: PathBuf,
        /// Why not.
        reason: String,
    },
    /// It exited with this code.
    Exited(i32),
    /// The signal with this number ended it.
    Signal(i32),
    /// It took longer than it was given, and was ended.
    TimedOut(Duration),
    /// What it answered is no answer.
    Garbage {
        /// The program that was started.
        command: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl CompilerDeath {
    /// How it ended.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// What the compiler said, on both its outputs: the beginning and the end where it was much.
    pub fn output(&self) -> &str {
        &self.output
    }
}

impl Ending {
    pub(super) fn of(status: ExitStatus) -> Ending {
        match status.code() {
            Some(code) => Ending::Exited(code),
            None => Ending::Signal(status.signal().unwrap_or(0)),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::NotStarted { command, reason } => {
                write!(f, "could not be started: {}: {reason}", command.display())
            }
            Ending::Exited(code) => write!(f, "exited with code {code}"),
            Ending::Signal(signal) => write!(f, "was ended by {}", signal_name(*signal)),
            Ending::TimedOut(limit) => write!(f, "was stopped after {} s", limit.as_secs_f64()),
            Ending::Garbage { command, reason } => write!(
                f,
                "did not answer as one does ({reason}); {} has to call shardwright_runtime::compile::serve_if_asked \
                 first in main, and to be of the same version",
                command.display()
            ),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

/// The limit of memory, which may be why a compiler ended: one that gets no more mostly aborts.
pub(crate) struct Limit(pub(crate) Option<u64>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |bytes| write!(f, " (its memory was limited to {})", Bytes(bytes)))
    }
}

/// The lines of an output that tell most: from a fatal one on, or else the last ones.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tells = |line: &&str| !line.is_empty() && !is_of_a_stack_trace(line);
        let lines: Vec<&str> = self.0.lines().map(str::trim_end).filter(tells).collect();
        let last = lines.len().saturating_sub(SHOWN_LINES);
        let first = lines.iter().position(|line| is_fatal(line)).unwrap_or(last);
        for line in lines.iter().skip(first).take(SHOWN_LINES) {
            let shown: String = line.chars().take(SHOWN_CHARS).collect();
            write!(f, "\n  compiler: {shown}")?;
        }
        Ok(())
    }
}

/// Whether a line is one of Abseil's log that ends the process: `F1204 10:11:12.131415 …`.
fn is_fatal(line: &str) -> bool {
    let date = line.strip_prefix('F').and_then(|rest| rest.split(' ').next());
    date.is_some_and(|date| date.len() == 4 && date.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a line is one of Abseil's stack traces, `    @     0x7f… function`, or what it writes above them: which of
/// the compiler's functions called which tells its makers something, and mostly the names are stripped.
fn is_of_a_stack_trace(line: &str) -> bool {
    let line = line.trim_start();
    let is_frame = line.strip_prefix('@').is_some_and(|rest| rest.trim_start().starts_with("0x"));
    is_frame || line.starts_with("*** Check failure stack trace")
}

/// Reads to the end and keeps the beginning and the end.
pub(super) fn capture(input: &mut dyn Read) -> String {
    let (mut head, mut tail, mut left_out) = (Vec::new(), Vec::new(), 0);
    let mut chunk = [0; 4096];
    // A pipe that cannot be read any more has ended.
    while let Ok(size @ 1..) = input.read(&mut chunk) {
        let to_head = size.min(KEPT_BYTES - head.len());
        head.extend_from_slice(&chunk[..to_head]);
        tail.extend_from_slice(&chunk[to_head..size]);
        let surplus = tail.len().saturating_sub(KEPT_BYTES);
        tail.drain(..surplus);
        left_out += surplus;
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match left_out {
        0 => text(&[head, tail].concat()),
        _ => format!("{}\n[{left_out} bytes left out]\n{}", text(&head), text(&tail)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(ending: Ending, memory_limit: Option<u64>, output: &str, expected: Expect) {
        let (program, output) = ("step".to_owned(), output.to_owned());
        let death = CompilerDeath { program, ending, memory_limit, output };
        expected.assert_eq(&death.to_string());
    }

    #[test]
    fn a_death_is_told_with_what_was_said() {
        check(
            Ending::Signal(6),
            None,
            "W1204 1:2 noise\nF1204 10:11:12.1 9 shape.cc:7] Check failed: a == b\n*** Check failure stack \
             trace: ***\n    @     0x7f (unknown)\n    @     0x80  main\n\n",
            expect![[r#"
                program step: the compiler, in a process of its own, was ended by signal 6 (SIGABRT)
                  compiler: F1204 10:11:12.1 9 shape.cc:7] Check failed: a == b"#]],
        );
        check(
            Ending::Signal(6),
            Some(3 << 29),
            "terminate called after throwing an instance of 'std::bad_alloc'\n",
            expect![[r#"
                program step: the compiler, in a process of its own, was ended by signal 6 (SIGABRT) (its memory was limited to 1.5 GiB)
                  compiler: terminate called after throwing an instance of 'std::bad_alloc'"#]],
        );
        check(
            Ending::TimedOut(Duration::from_millis(1500)),
            None,
            "",
            expect!["program step: the compiler, in a process of its own, was stopped after 1.5 s"],
        );
        check(
            Ending::Exited(1),
            None,
            &(0..20).map(|i| format!("line {i}\n")).collect::<String>(),
            expect![[r#"
                program step: the compiler, in a process of its own, exited with code 1
                  compiler: line 8
                  compiler: line 9
                  compiler: line 10
                  compiler: line 11
                  compiler: line 12
                  compiler: line 13
                  compiler: line 14
                  compiler: line 15
                  compiler: line 16
                  compiler: line 17
                  compiler: line 18
                  compiler: line 19"#]],
        );
    }

    #[test]
    fn much_output_is_kept_in_part() {
        let mut long = vec![b'a'; KEPT_BYTES];
        long.extend(vec![b'b'; 10]);
        long.extend(vec![b'c'; KEPT_BYTES]);
        let text = capture(&mut long.as_slice());
        let (head, tail) = ("a".repeat(KEPT_BYTES), "c".repeat(KEPT_BYTES));
        assert_eq!(text, format!("{head}\n[10 bytes left out]\n{tail}"));
        assert_eq!(capture(&mut &b"short"[..]), "short");
    }
}
