//! Compiling for devices that are not there: TPU slices by name, with no TPU.
//!
//! A TPU plugin knows its compiler's view of every slice, so what a program needs on one, and which collectives it
//! is made of, can be known before a slice is rented. Nothing here is ever executed.
//!
//! ```no_run
//! use shardwright_runtime::topology::{Topology, TopologyOptions};
//!
//! let topology = Topology::open("v5e:4x4", &TopologyOptions::default())?;
//! let placement = topology.place("data=1,fsdp=-1")?;
//! # let stablehlo = "";
//! let program = topology.compile_text(stablehlo, placement.mesh())?;
//! println!("{} bytes on each of {} devices", program.bytes_per_device()?, topology.physical().devices().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The environment
//!
//! Away from a TPU, a TPU plugin that is loaded asks a metadata server that is not there, and beside another process
//! it wants the chips for itself. Two variables keep it from both; they are listed in [`VARIABLES`] and have to
//! be set before the plugin is loaded. A library cannot set them: changing the environment of a process that has
//! threads is unsound. So [`Topology::new`] refuses to load a plugin without them, and whoever starts processes
//! adds them there:
//!
//! ```no_run
//! use std::process::Command;
//! use shardwright_runtime::topology::VARIABLES;
//!
//! Command::new("planner").envs(VARIABLES).status()?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod memory;
mod name;
mod physical;
mod program;

use std::ffi::OsString;
use std::path::Path;

use shardwright_mesh::{AbstractMesh, Mesh, PhysicalTopology, Placement};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{ClientOptions, CompileOptions, NamedValue, Plugin, ProgramFormat};

use crate::compiler_options::CompilerSettings;
use crate::error::Problem;
use crate::flags;
use crate::plugins::{Environment, PinnedPlugins, PluginRequest, resolve};
use crate::{CompilerOptions, Executable, RuntimeError};

pub(crate) use physical::on_torus;

pub use memory::OutOfMemory;
pub use name::{Generation, TopologyName, TopologyNameError};
pub use program::AotProgram;

/// The short name of the pinned plugin that compiles for TPUs.
const PLUGIN: &str = "libtpu";

/// What has to be in the environment of a process before it loads a TPU plugin to compile only: names and values.
pub const VARIABLES: [(&str, &str); 2] = [("TPU_SKIP_MDS_QUERY", "1"), ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")];

/// A TPU slice, or several, to compile for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Topology {
    name: TopologyName,
    described: shardwright_pjrt::Topology,
    physical: PhysicalTopology,
    settings: CompilerSettings,
}

/// What a topology is beside its name. The default is what a slice of that name is in a data centre.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyOptions {
    /// How many slices of this shape there are; `None` is one.
    pub num_slices: Option<usize>,
    /// The chips of one host along x, y and z; `None` leaves it to the plugin, which takes 2x2x1.
    pub chips_per_host: Option<[usize; 3]>,
    /// Along which of x, y and z the torus closes; `None` is as it is built: [`TopologyName::wrap`].
    pub wrap: Option<[bool; 3]>,
    /// The name of a configuration of the chips, such as `default` or `megacore`; `None` is
    /// [`Generation::chip_config`].
    pub chip_config: Option<String>,
    /// How programs are compiled.
    pub compiler: CompilerOptions,
}

impl Topology {
    /// The topology of this name, such as `v5e:4x4`, known by the pinned TPU plugin, which is fetched on first use.
    ///
    /// # Errors
    /// Those of [`Topology::new`]; and when there is no plugin to be had.
    pub fn open(name: &str, options: &TopologyOptions) -> Result<Topology, RuntimeError> {
        // Before anything is fetched.
        name.parse::<TopologyName>().map_err(Problem::TopologyName)?;
        check_environment(|name| std::env::var_os(name))?;
        let request = PluginRequest { plugin: Some(PLUGIN.into()), ..PluginRequest::default() };
        let environment = Environment::from_process();
        let plugin = resolve(&request, PinnedPlugins::embedded(), &environment, &mut |_| ())?;
        Topology::new(&plugin.path, name, options)
    }

    /// The topology of this name, known by the TPU plugin in this file.
    ///
    /// # Errors
    /// When the name is none, [`VARIABLES`] are not set, the file is no plugin, or the plugin does not have such a
    /// topology; when a flag for the compiler, in the options or in the environment, is wrong.
    pub fn new(plugin: &Path, name: &str, options: &TopologyOptions) -> Result<Topology, RuntimeError> {
        let name: TopologyName = name.parse().map_err(Problem::TopologyName)?;
        check_environment(|name| std::env::var_os(name))?;
        flags::check_environment(plugin)?;
        let plugin = Plugin::load(plugin)?;
        let described = shardwright_pjrt::Topology::new(&plugin, &name.to_string(), &options.encode(&name))?;
        let physical = physical::of(&described)?;
        let settings = CompilerSettings::new(&options.compiler, plugin.path(), |options| {
            described.compile(flags::EMPTY_PROGRAM.as_bytes(), ProgramFormat::Mlir, options).map(drop)
        })?;
        Ok(Topology { name, described, physical, settings })
    }

    /// The name, in its usual spelling.
    pub fn name(&self) -> &TopologyName {
        &self.name
    }

    /// Where the devices are.
    pub fn physical(&self) -> &PhysicalTopology {
        &self.physical
    }

    /// The plugin's description, for what this crate has no words for.
    pub fn described(&self) -> &shardwright_pjrt::Topology {
        &self.described
    }

    /// The memory of each device in bytes, as the plugin states it. The compiler allows a little less, and half of
    /// it on a v4 whose chips are two devices.
    pub fn memory_per_device(&self) -> Option<u64> {
        let attribute = self.described.devices().first()?.attribute("device_memory_bytes_limit")?;
        match attribute {
            NamedValue::I64(bytes) => u64::try_from(*bytes).ok(),
            _ => None,
        }
    }

    /// A mesh of all devices of a single slice, laid on its torus. In `mesh`, such as `data=2,fsdp=-1`, the size of
    /// one axis may be left to be worked out. For several slices there is [`Placement::hybrid`].
    ///
    /// # Errors
    /// When the text is no mesh, or one of another number of devices, or there are several slices.
    pub fn place(&self, mesh: &str) -> Result<Placement, RuntimeError> {
        let shape = AbstractMesh::parse_for(mesh, self.physical.devices().len());
        let shape = shape.map_err(|reason| Problem::Mesh { platform: self.name.to_string(), reason })?;
        let placement = Placement::new(&shape, &self.physical);
        Ok(placement.map_err(|reason| Problem::Placement { topology: self.name.to_string(), reason })?)
    }

    /// Compiles a program for the devices of a mesh, which has to be of the program's shape.
    ///
    /// # Errors
    /// When the mesh does not fit, or the compiler refuses the program; a program that needs more memory than the
    /// devices have is [`RuntimeError::out_of_memory`].
    pub fn compile(&self, module: &ShardedModule, mesh: &Mesh) -> Result<AotProgram, RuntimeError> {
        Executable::check_mesh(&module.module().name, module.mesh(), mesh)?;
        let text = module.stablehlo_text();
        self.settings.write_down(&module.module().name, &text)?;
        self.compile_text(&text, mesh)
    }

    /// Compiles StableHLO text for the devices of a mesh: partition `p` is the program of the `p`-th device. The
    /// text's shardings choose the partitioner.
    ///
    /// # Errors
    /// Those of [`Topology::compile`]. Text that the plugin aborts on ends the process.
    pub fn compile_text(&self, stablehlo: &str, mesh: &Mesh) -> Result<AotProgram, RuntimeError> {
        // With the wrong partitioner the TPU compiler aborts.
        let is_shardy = stablehlo.contains("sdy.") || !stablehlo.contains("mhlo.sharding");
        let options = CompileOptions {
            num_partitions: mesh.shape().size(),
            // A mesh may have more devices than memory holds; one more than there are is enough to be refused.
            device_assignment: mesh
                .device_ids()
                .take(self.described.devices().len() + 1)
                .filter_map(|id| i64::try_from(id).ok())
                .collect(),
            use_shardy_partitioner: is_shardy,
            ..self.settings.options()
        };
        let compiled = self.described.compile(stablehlo.as_bytes(), ProgramFormat::Mlir, &options);
        let executable = compiled.map_err(|error| match OutOfMemory::of(&error) {
            Some(shortage) => Problem::OutOfMemory { topology: self.name.to_string(), shortage },
            None => Problem::Plugin(error),
        })?;
        Ok(AotProgram::new(executable))
    }
}

impl TopologyOptions {
    /// The options in the plugin's words.
    fn encode(&self, name: &TopologyName) -> ClientOptions {
        let list = |values: [usize; 3]| values.map(|value| i64::try_from(value).unwrap_or(i64::MAX)).to_vec();
        let wrap = self.wrap.unwrap_or_else(|| name.wrap()).map(usize::from);
        let mut options = ClientOptions::default().with("wrap", list(wrap));
        if let Some(count) = self.num_slices {
            options = options.with("num_slices", i64::try_from(count).unwrap_or(i64::MAX));
        }
        if let Some(bounds) = self.chips_per_host {
            options = options.with("chips_per_host_bounds", list(bounds));
        }
        if let Some(config) = self.chip_config.as_deref().or(name.generation().chip_config()) {
            options = options.with("chip_config_name", config);
        }
        options
    }
}

/// Checks that a TPU plugin can be loaded away from a TPU.
fn check_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<(), RuntimeError> {
    let is_on =
        |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0" && value != "false");
    let missing: Vec<_> = VARIABLES.into_iter().filter(|(name, _)| !is_on(name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(Problem::TopologyEnvironment { missing }.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_missing_are_named_with_their_values() {
        let check = |variables: &[(&str, &str)]| {
            let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
            check_environment(variable).map_err(|error| error.to_string())
        };
        assert_eq!(check(&VARIABLES), Ok(()));
        assert_eq!(
            check(&[("TPU_SKIP_MDS_QUERY", "0")]).unwrap_err(),
            "to compile for TPUs without one, set TPU_SKIP_MDS_QUERY=1 ALLOW_MULTIPLE_LIBTPU_LOAD=1 in the environment \
             that the process is started with; a running process cannot change its own safely"
        );
        let error = check(&VARIABLES[..1]).unwrap_err();
        assert!(error.contains("set ALLOW_MULTIPLE_LIBTPU_LOAD=1 in"), "{error}");
    }

    #[test]
    fn options_are_what_the_slice_is_unless_said_otherwise() {
        let encode = |name: &str, options: TopologyOptions| options.encode(&name.parse().unwrap());
        let list = |values: [i64; 3]| values.to_vec();
        let plain = ClientOptions::default();
        assert_eq!(
            encode("v4:4x4x4", TopologyOptions::default()),
            plain.clone().with("wrap", list([1, 1, 1])).with("chip_config_name", "megacore")
        );
        let options = TopologyOptions {
            num_slices: Some(2),
            chips_per_host: Some([4, 2, 1]),
            wrap: Some([true, false, false]),
            chip_config: Some("default".into()),
            ..TopologyOptions::default()
        };
        assert_eq!(
            encode("v5e:4x4", options),
            plain
                .with("wrap", list([1, 0, 0]))
                .with("num_slices", 2)
                .with("chips_per_host_bounds", list([4, 2, 1]))
                .with("chip_config_name", "default")
        );
    }
}
