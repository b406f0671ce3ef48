//! `shardwright devices`.

use shardwright_mesh::DrawStyle;

use super::args::GlobalArgs;
use super::console;
use super::engine::Engine;
use super::failure::Failure;
use super::fetch;

/// Lists the devices of the plugin, and draws them in the order that a mesh of one axis has.
pub(super) fn run(global: &GlobalArgs) -> Result<(), Failure> {
    let options = global.runtime_options()?;
    global.records.check()?;
    let plugin = fetch::plugin(global)?;
    let engine = Engine::start(&plugin, &options)?;
    engine.opening().into_iter().for_each(console::result);
    engine.devices().into_iter().for_each(console::result);
    let style = if console::may_colour() { DrawStyle::Ansi } else { DrawStyle::Plain };
    console::result(engine.drawing(style)?.trim_end());
    global.records.finish(engine.counters(), global.verbosity(), &options)
}
