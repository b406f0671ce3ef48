//! How programs are compiled: what the flags say of the cache and of the process.

use std::time::Duration;

use shardwright_runtime::compile::{CacheVariables, ChildCompiler, CompileCache, CompileSetup};
use shardwright_runtime::plugins::Environment;

use super::args::CompileArgs;
use super::failure::{Cause, Failure};

/// Seconds after which a compiler is given up where nobody says otherwise: nothing that ends takes as long.
const TIMEOUT: u32 = 3600;

/// The set-up that the flags and the environment ask for. `compiler` is this program.
pub(super) fn setup(flags: &CompileArgs, compiler: &ChildCompiler) -> Result<CompileSetup, Failure> {
    let cache = CompileCache::find(
        flags.cache.as_deref(),
        &CacheVariables::from_process(),
        &Environment::from_process(),
    );
    let mut setup = CompileSetup::default();
    setup.cache = cache.map_err(|error| Failure::new(Cause::Input, error))?;
    let timeout = positive("--compile_timeout", flags.timeout.as_deref())?.unwrap_or(TIMEOUT);
    let mut child = compiler.clone().with_time_limit(Duration::from_secs(timeout.into()));
    if let Some(gib) = positive("--compile_memory", flags.memory.as_deref())? {
        child = child.with_memory_limit(u64::from(gib) << 30);
    }
    setup.child = (!flags.in_process).then_some(child);
    Ok(setup)
}

fn positive(flag: &str, text: Option<&str>) -> Result<Option<u32>, Failure> {
    let Some(text) = text else { return Ok(None) };
    match text.parse() {
        Ok(0) | Err(_) => {
            Err(Failure::input(format!("{flag}: expected a whole number of at least 1, found {text:?}")))
        }
        Ok(number) => Ok(Some(number)),
    }
}
