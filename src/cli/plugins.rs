//! `shardwright plugins`.

use shardwright_partition::Bytes;
use shardwright_runtime::plugins::{self, Environment, PinnedPlugins, PluginState, PluginStatus};

use super::args::{GlobalArgs, PluginsAction};
use super::console;
use super::failure::Failure;
use super::fetch;

/// Lists, fetches or checks plugins.
pub(super) fn run(global: &GlobalArgs, action: Option<&PluginsAction>) -> Result<(), Failure> {
    match action {
        None | Some(PluginsAction::List) => list(),
        Some(PluginsAction::Fetch { name }) => {
            console::result(fetch::named_plugin(name.as_ref().or(global.plugin.as_ref()), global)?);
            Ok(())
        }
        Some(PluginsAction::Verify) => verify(),
    }
}

fn states() -> Result<Vec<PluginState<'static>>, Failure> {
    Ok(plugins::list(PinnedPlugins::embedded(), &Environment::from_process())?)
}

fn list() -> Result<(), Failure> {
    let default = PinnedPlugins::embedded().default_plugin();
    let width = PinnedPlugins::embedded().iter().map(|pin| pin.name.len()).max().unwrap_or(0);
    for PluginState { pin, status, .. } in states()? {
        let (major, minor) = pin.pjrt_api;
        let default = if pin.name == default.name { ", the default" } else { "" };
        console::result(format!(
            "{:width$}  {} {}, PJRT API {major}.{minor}, {}, {}{default}",
            pin.name, pin.package, pin.version, pin.platform, pin.licence
        ));
        let state = match status {
            PluginStatus::Cached(path) => path.display().to_string(),
            PluginStatus::NotCached => format!("not fetched yet, {} to download", Bytes(pin.wheel_bytes)),
            _ => "not for this machine".to_owned(),
        };
        console::result(format!("{:width$}  {state}", ""));
        console::result(format!("{:width$}  {}", "", pin.note));
    }
    Ok(())
}

fn verify() -> Result<(), Failure> {
    let mut first_wrong = None;
    for PluginState { pin, status, .. } in states()? {
        let PluginStatus::Cached(path) = status else {
            console::result(format!("{}: not in the cache", pin.name));
            continue;
        };
        match pin.verify(&path) {
            Ok(()) => console::result(format!("{}: right, {}", pin.name, path.display())),
            Err(error) => {
                console::result(format!("{}: wrong, {}", pin.name, path.display()));
                first_wrong.get_or_insert(error);
            }
        }
    }
    first_wrong.map_or(Ok(()), |error| Err(error.into()))
}
