//! Compiling in a child process: the child's side.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::thread;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::stdio::{dup2_stdout, stderr, stdout};
use shardwright_pjrt::{Client, Error, Plugin, exit_now};

use super::ChildCompiler;
use super::child::is_asked;
use super::protocol::{self, HELLO, Reply, Request};

/// The exit code of a child that could not read what it was asked, or that nobody waits for any more.
const GAVE_UP: u8 = 70;

/// Lets this program compile for others that it has started itself, and gives the right to start it for that.
///
/// To be called first in `main`, before anything is read or written. In a process that was started to compile it does
/// so and does not come back; in any other it does nothing.
///
/// ```no_run
/// use std::time::Duration;
///
/// use shardwright_runtime::compile::serve_if_asked;
/// use shardwright_runtime::{Runtime, RuntimeOptions};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let compiler = serve_if_asked()?;
///
///     let mut options = RuntimeOptions::cpu_devices(8);
///     options.compile.child = Some(compiler.with_time_limit(Duration::from_secs(600)));
///     let runtime = Runtime::open(&options)?;
///     // A program that makes the compiler crash is now an error of `runtime.compile`, and no more than that.
///     Ok(())
/// }
/// ```
///
/// # Errors
/// When the system does not tell which file this program is.
pub fn serve_if_asked() -> io::Result<ChildCompiler> {
    if is_asked() {
        serve();
    }
    this_program().map(ChildCompiler::command)
}

/// On Linux by a name that stays right when the file is replaced while this process runs.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}

fn serve() -> ! {
    let code = match answer() {
        Ok(()) => 0,
        Err(error) => {
            // The parent listens to this output, and whoever else does is told why nothing came.
            let _ = rustix::io::write(stderr(), format!("{error}\n").as_bytes());
            GAVE_UP
        }
    };
    // Destructors of a plugin take their time, and nobody needs them.
    exit_now(code)
}

fn answer() -> io::Result<()> {
    let mut out = take_stdout()?;
    out.write_all(HELLO)?;
    out.flush()?;
    let (request, code) = protocol::read_request(&mut io::stdin().lock())?;
    thread::spawn(end_with_the_parent);
    if let Some(bytes) = request.memory_limit {
        setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) })?;
    }
    let reply = compile(&request, &code).unwrap_or_else(Reply::Refused);
    protocol::write_reply(&mut out, &reply)
}

fn compile(request: &Request, code: &[u8]) -> Result<Reply, Error> {
    let plugin = Plugin::load(&request.plugin)?;
    let client = Client::new(&plugin, &request.client_options)?;
    let executable = client.compile(code, request.format, &request.options)?;
    Ok(executable.executable().serialize().map_or_else(Reply::NotSerialized, Reply::Executable))
}

/// The pipe to the parent, for replies only: what plugins print goes to stderr, where it does no harm.
fn take_stdout() -> io::Result<File> {
    let pipe = rustix::io::fcntl_dupfd_cloexec(stdout(), 3)?;
    dup2_stdout(stderr())?;
    Ok(File::from(pipe))
}

/// The parent never writes anything after its request, so whatever comes is its end.
fn end_with_the_parent() {
    let _ = io::stdin().lock().read(&mut [0]);
    exit_now(GAVE_UP);
}
