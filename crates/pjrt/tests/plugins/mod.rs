//! The pinned plugins, for tests that each of them has to pass.

use shardwright_pjrt::Plugin;
use shardwright_runtime::plugins::{Environment, PinnedPlugins, Platform, PluginRequest, resolve};

/// The pinned plugin of this name, fetched if need be; `None` where there is no build for this platform.
#[expect(clippy::print_stderr, reason = "a lane that cannot run says so")]
pub(crate) fn plugin(name: &str) -> Option<Plugin> {
    let pins = PinnedPlugins::embedded();
    let pin = pins.get(name).unwrap_or_else(|| panic!("{name} is pinned"));
    if pin.platform != Platform::current() {
        eprintln!("skipped: {name} is for {}", pin.platform);
        return None;
    }
    let request = PluginRequest { plugin: Some(name.into()), ..PluginRequest::default() };
    let found = resolve(&request, pins, &Environment::from_process(), &mut |_| {});
    Some(Plugin::load(&found.unwrap_or_else(|error| panic!("{name}: {error}")).path).unwrap())
}

/// Tests of these cases, functions that take a plugin, on each of the CPU plugins.
#[allow(unused_macros, reason = "not every test that has this file uses it")]
macro_rules! on_each_cpu_plugin {
    ($($case:ident,)*) => {
        $crate::plugins::on_each_cpu_plugin! { @ cpu_0_115 "cpu" $($case)* }
        $crate::plugins::on_each_cpu_plugin! { @ cpu_0_106 "cpu-0.106" $($case)* }
        $crate::plugins::on_each_cpu_plugin! { @ cpu_0_81 "cpu-0.81" $($case)* }
    };
    (@ $module:ident $name:literal $($case:ident)*) => {
        mod $module {
            $(
            #[test]
            fn $case() {
                if let Some(plugin) = $crate::plugins::plugin($name) {
                    super::$case(&plugin);
                }
            }
            )*
        }
    };
}
#[allow(unused_imports, reason = "not every test that has this file uses it")]
pub(crate) use on_each_cpu_plugin;
