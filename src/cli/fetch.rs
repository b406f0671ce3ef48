//! Finding the plugin, with a progress bar when it has to be downloaded.

use std::ffi::OsString;

use indicatif::{ProgressBar, ProgressStyle};
use shardwright_partition::Bytes;
use shardwright_runtime::plugins::{
    self, Discovery, Environment, FetchEvent, Network, PinnedPlugin, PinnedPlugins, PluginRequest,
    ResolvedPlugin,
};

use super::args::GlobalArgs;
use super::console::{self, Verbosity};
use super::failure::Failure;

/// The plugin that the flags, the environment or the machine call for, to be loaded.
pub(super) fn plugin(global: &GlobalArgs) -> Result<ResolvedPlugin, Failure> {
    let environment = Environment::from_process();
    let found = find(global.plugin.as_ref(), &environment)?;
    // Before it is fetched, for that takes a while.
    plugins::check_before_loading(found.winner().library(), &environment)?;
    if global.verbosity() == Verbosity::Verbose {
        found.others().iter().for_each(|other| console::note(format!("not used: {other}")));
    }
    obtain(&found, global, &environment)
}

/// The plugin of this name or path, else the one that would be loaded, which need not be possible on this machine.
pub(super) fn named_plugin(name: Option<&OsString>, global: &GlobalArgs) -> Result<ResolvedPlugin, Failure> {
    let environment = Environment::from_process();
    obtain(&find(name, &environment)?, global, &environment)
}

fn find(plugin: Option<&OsString>, environment: &Environment) -> Result<Discovery, Failure> {
    let request = PluginRequest { plugin: plugin.cloned(), ..PluginRequest::default() };
    Ok(plugins::discover(&request, PinnedPlugins::embedded(), environment)?)
}

fn obtain(
    found: &Discovery,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<ResolvedPlugin, Failure> {
    let network = if global.offline { Network::Offline } else { Network::Allowed };
    let mut progress = FetchProgress::new(global.verbosity());
    let resolved = found.obtain(network, environment, &mut |event| progress.event(event));
    progress.end();
    Ok(resolved?)
}

/// Shows a download: as a bar where somebody watches, else as a few lines.
struct FetchProgress {
    verbosity: Verbosity,
    bar: ProgressBar,
    sizes: Option<(u64, u64)>,
    is_unpacking: bool,
}

impl FetchProgress {
    fn new(verbosity: Verbosity) -> FetchProgress {
        FetchProgress { verbosity, bar: ProgressBar::hidden(), sizes: None, is_unpacking: false }
    }

    fn event(&mut self, event: FetchEvent<'_>) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        match event {
            FetchEvent::Waiting { pin } => {
                console::note(format!("another process is fetching plugin {}; waiting for it", pin.name));
            }
            FetchEvent::Started { pin } => self.start(pin),
            FetchEvent::Downloading { bytes } => self.bar.set_position(bytes),
            FetchEvent::Unpacking { bytes } => self.unpack(bytes),
            FetchEvent::Finished { path } => {
                self.end();
                console::note(format!("plugin saved as {}", path.display()));
            }
            _ => {}
        }
    }

    fn start(&mut self, pin: &PinnedPlugin) {
        let size = Bytes(pin.wheel_bytes);
        console::note(format!("fetching plugin {}: {} {}, {size}", pin.name, pin.package, pin.version));
        if pin.is_proprietary() {
            console::note(format!(
                "note: you fetch it from its vendor, under its vendor's terms ({}); Shardwright does not distribute it",
                pin.licence
            ));
        }
        self.sizes = Some((pin.wheel_bytes, pin.file_bytes));
        if console::is_watched() {
            self.bar = bar("download", pin.wheel_bytes);
        }
    }

    fn unpack(&mut self, bytes: u64) {
        if let (false, Some((_, file_bytes))) = (self.is_unpacking, self.sizes) {
            self.is_unpacking = true;
            match console::is_watched() {
                true => {
                    self.bar.finish_and_clear();
                    self.bar = bar("unpack", file_bytes);
                }
                false => console::note("unpacking"),
            }
        }
        self.bar.set_position(bytes);
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(what: &'static str, bytes: u64) -> ProgressBar {
    let template = "{msg:8} {bar:32} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is fixed");
    ProgressBar::new(bytes).with_style(style).with_message(what)
}
