//! `shardwright doctor`: what a run would work with here, and what stands in its way.
//!
//! Each fact is a [`Check`] with a verdict. The plugin is loaded in a child process ([`probe`]), for a plugin may crash or
//! hang. Nothing is downloaded and nothing changed.

mod cache;
mod check;
mod lock;
mod machine;
mod plugin;
mod probe;
mod variables;

use std::time::Duration;

use serde_json::json;
use shardwright_runtime::compile::ChildCompiler;
use shardwright_runtime::plugins::{self, Environment, PinnedPlugins, PluginRequest};

use super::args::{DoctorArgs, GlobalArgs};
use super::compile;
use super::console;
use super::failure::{Cause, Failure};
use check::Status;

/// Looks at everything, or, in a child process of that, at the plugin alone.
pub(super) fn run(
    global: &GlobalArgs,
    arguments: &DoctorArgs,
    compiler: &ChildCompiler,
) -> Result<(), Failure> {
    let cpu_devices = global.cpu_devices()?;
    let options = global.runtime_options()?;
    if let Some(plugin) = &arguments.probe {
        probe::serve(plugin, &options);
        return Ok(());
    }
    compile::child(&global.compile, compiler)?;
    let environment = Environment::from_process();
    let request = PluginRequest { plugin: global.plugin.clone(), ..PluginRequest::default() };
    let found = plugins::discover(&request, PinnedPlugins::embedded(), &environment);
    let limit = Duration::from_secs(arguments.timeout);
    let flags = [vec![format!("--cpu_devices={cpu_devices}")], global.compiler.words()].concat();
    let (mut checks, facts) = plugin::checks(&found, &environment, &flags, limit);
    let winner = found.as_ref().ok().map(|found| found.winner());
    let to_fetch = winner.filter(|winner| winner.path.is_none()).and_then(|winner| winner.pinned.as_ref());
    checks.extend(cache::checks(&environment, to_fetch, compile::cache(&global.compile)));
    let is_tpu = winner.is_some_and(plugin::is_for_tpu);
    checks.extend(machine::checks(&environment, is_tpu, facts.devices.map(|_| cpu_devices)));
    checks.extend(variables::checks());

    let problems = checks.iter().filter(|check| check.status == Status::Problem).count();
    let is_healthy = problems == 0;
    if arguments.json {
        let report = json!({
            "shardwright": env!("CARGO_PKG_VERSION"),
            "healthy": is_healthy,
            "plugin": facts,
            "checks": checks,
        });
        console::result(format!("{report:#}"));
    } else {
        check::lines(&checks, console::may_colour()).into_iter().for_each(console::result);
    }
    if is_healthy {
        return Ok(());
    }
    let plural = if problems == 1 { "" } else { "s" };
    Err(Failure::new(Cause::Plugin, anyhow::anyhow!("doctor found {problems} problem{plural}")))
}
