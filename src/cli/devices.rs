//! `shardwright devices`.

use shardwright_runtime::compile::CompileSetup;

use super::args::GlobalArgs;
use super::console;
use super::engine::Engine;
use super::failure::Failure;
use super::fetch;

/// Lists the devices of the plugin.
pub(super) fn run(global: &GlobalArgs) -> Result<(), Failure> {
    let cpu_devices = global.cpu_devices()?;
    let plugin = fetch::plugin(global)?;
    let engine = Engine::start(&plugin, cpu_devices, CompileSetup::default())?;
    engine.opening().into_iter().for_each(console::result);
    engine.devices().into_iter().for_each(console::result);
    Ok(())
}
