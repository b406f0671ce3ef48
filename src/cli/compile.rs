//! How programs are compiled: what the flags say of the cache and of the process.

use std::time::Duration;

use shardwright_runtime::compile::{
    CachePlaceError, CacheVariables, ChildCompiler, CompileCache, CompileSetup,
};
use shardwright_runtime::plugins::Environment;

use super::args::CompileArgs;
use super::failure::{Cause, Failure};

/// Seconds after which a compiler is given up where nobody says otherwise: nothing that ends takes as long.
const TIMEOUT: u32 = 3600;

/// The flags that limit a compiler in a process of its own.
const LIMITS: [&str; 2] = ["--compile_timeout", "--compile_memory"];

/// The set-up that the flags and the environment ask for. `compiler` is this program.
pub(super) fn setup(flags: &CompileArgs, compiler: &ChildCompiler) -> Result<CompileSetup, Failure> {
    let mut setup = CompileSetup::default();
    setup.cache = cache(flags).map_err(|error| Failure::new(Cause::Input, error))?;
    setup.child = child(flags, compiler)?;
    Ok(setup)
}

/// Where compiled programs are kept; `None` where they are not.
pub(super) fn cache(flags: &CompileArgs) -> Result<Option<CompileCache>, CachePlaceError> {
    let environment = Environment::from_process();
    CompileCache::find(flags.cache.as_deref(), &CacheVariables::from_process(), &environment)
}

/// The program that compiles, within its limits; `None` where this process does.
pub(super) fn child(flags: &CompileArgs, compiler: &ChildCompiler) -> Result<Option<ChildCompiler>, Failure> {
    if let (true, Some(limit)) = (flags.in_process, given_limits(flags).next()) {
        return Err(Failure::input(format!(
            "{limit}: with --compile_in_process nothing can stop a compiler; leave one of the two out"
        )));
    }
    let timeout = positive("--compile_timeout", flags.timeout.as_deref())?.unwrap_or(TIMEOUT);
    let mut child = compiler.clone().with_time_limit(Duration::from_secs(timeout.into()));
    if let Some(gib) = positive("--compile_memory", flags.memory.as_deref())? {
        child = child.with_memory_limit(u64::from(gib) << 30);
    }
    Ok((!flags.in_process).then_some(child))
}

/// What is said where a plugin of this platform compiles in this process, whatever the flags ask for.
pub(super) fn notice(flags: &CompileArgs, platform: &str) -> Option<String> {
    let limits: Vec<&str> = given_limits(flags).filter(|_| platform != "cpu").collect();
    (!limits.is_empty()).then(|| {
        format!(
            "{} without effect: on platform {platform} programs are compiled in this process",
            limits.join(" and ")
        )
    })
}

fn given_limits(flags: &CompileArgs) -> impl Iterator<Item = &'static str> {
    let given = [flags.timeout.is_some(), flags.memory.is_some()];
    LIMITS.into_iter().zip(given).filter(|(_, given)| *given).map(|(flag, _)| flag)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_nothing_heeds_are_told() {
        let flags = |timeout: Option<&str>, memory: Option<&str>| CompileArgs {
            cache: None,
            timeout: timeout.map(str::to_owned),
            memory: memory.map(str::to_owned),
            in_process: false,
        };
        assert_eq!(notice(&flags(None, None), "tpu"), None);
        assert_eq!(notice(&flags(Some("5"), None), "cpu"), None);
        assert_eq!(
            notice(&flags(Some("5"), Some("5")), "tpu").unwrap(),
            "--compile_timeout and --compile_memory without effect: on platform tpu programs are compiled in this process"
        );
    }
}
