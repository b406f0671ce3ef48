use std::path::Path;

use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{
    Client, ClientOptions, CompileOptions, Device, ErrorKind, Plugin, ProgramFormat, StatusCode,
};

use crate::array::Conversions;
use crate::error::Problem;
use crate::plugins::{Environment, PinnedPlugins, PluginRequest, check_before_loading, resolve};
use crate::{Program, RuntimeError};

/// With more, a CPU client takes minutes to make, and in the end aborts.
const MOST_CPU_DEVICES: usize = 1024;

/// A plugin that was opened, with the devices that it drives. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    client: Client,
    conversions: Conversions,
}

/// How a plugin is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// How many virtual devices a CPU plugin is to have, at most 1,024; other plugins have the devices that there are.
    pub cpu_devices: Option<usize>,
}

impl RuntimeOptions {
    /// Options for a CPU plugin with this many virtual devices.
    pub fn cpu_devices(count: usize) -> RuntimeOptions {
        RuntimeOptions { cpu_devices: Some(count) }
    }
}

impl Runtime {
    /// Opens the plugin that the environment and the machine call for, as [`plugins`](crate::plugins) says: mostly the
    /// pinned CPU plugin, which is fetched on first use.
    ///
    /// # Errors
    /// When there is no plugin to be had, or it cannot be opened.
    pub fn open(options: &RuntimeOptions) -> Result<Runtime, RuntimeError> {
        let environment = Environment::from_process();
        let request = PluginRequest::default();
        let plugin = resolve(&request, PinnedPlugins::embedded(), &environment, &mut |_| ())?;
        Runtime::new(&plugin.path, options)
    }

    /// Loads the plugin in this file and opens its devices.
    ///
    /// # Errors
    /// When the file is no plugin that this library can use, the plugin finds no devices, or it is the TPU's and would hang.
    pub fn new(plugin: &Path, options: &RuntimeOptions) -> Result<Runtime, RuntimeError> {
        check_before_loading(plugin, &Environment::from_process())?;
        let plugin = Plugin::load(plugin)?;
        let none = ClientOptions::default();
        let client = match options.cpu_devices {
            None => Client::new(&plugin, &none)?,
            Some(found) if !(1..=MOST_CPU_DEVICES).contains(&found) => {
                return Err(Problem::CpuDevices { found, most: MOST_CPU_DEVICES }.into());
            }
            Some(count) => {
                const COUNT: &str = "cpu_device_count";
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                match Client::new(&plugin, &none.clone().with(COUNT, count)) {
                    // Only CPU plugins know the option; which plugins those are, their files do not tell.
                    Err(e)
                        if e.kind() == ErrorKind::Status(StatusCode::InvalidArgument)
                            && e.message().contains(COUNT) =>
                    {
                        Client::new(&plugin, &none)?
                    }
                    result => result?,
                }
            }
        };
        Ok(Runtime { client, conversions: Conversions::default() })
    }

    /// The plugin's client, for what this crate has no words for.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The name of the platform: `cpu`, `tpu`.
    pub fn platform(&self) -> &str {
        self.client.platform_name()
    }

    /// The devices that this process drives, in the plugin's order.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.client.addressable_devices()
    }

    /// All devices as a mesh, in the plugin's order. In `text`, such as `data=2,fsdp=-1`, the size of one axis may be
    /// left to be worked out.
    ///
    /// # Errors
    /// When the text is no mesh, or one of another number of devices than there are.
    pub fn mesh(&self, text: &str) -> Result<Mesh, RuntimeError> {
        let platform = || self.platform().to_owned();
        let wrong = |reason| Problem::Mesh { platform: platform(), reason };
        let ids: Vec<usize> = self.devices().filter_map(|d| usize::try_from(d.id()).ok()).collect();
        let shape = AbstractMesh::parse_for(text, ids.len()).map_err(wrong)?;
        Ok(Mesh::new(shape, ids).map_err(wrong)?)
    }

    /// Compiles a program for the devices of a mesh, which has to be of the program's shape: partition `p` runs on the
    /// `p`-th device.
    ///
    /// # Errors
    /// When the mesh does not fit, or the compiler refuses the program.
    pub fn compile(&self, module: &ShardedModule, mesh: &Mesh) -> Result<Program, RuntimeError> {
        Program::check_mesh(module, mesh)?;
        self.device_order(mesh)?;
        let options = CompileOptions {
            num_partitions: mesh.shape().size(),
            device_assignment: mesh.device_ids().iter().filter_map(|&id| i64::try_from(id).ok()).collect(),
            ..CompileOptions::default()
        };
        let text = module.stablehlo_text();
        let loaded = self.client.compile(text.as_bytes(), ProgramFormat::Mlir, &options)?;
        Program::new(loaded, module, mesh)
    }

    /// The programs that convert arrays, shared by all clones.
    pub(crate) fn conversions(&self) -> &Conversions {
        &self.conversions
    }

    /// The devices of a mesh, in the order of its partitions.
    pub(crate) fn device_order<'r>(&'r self, mesh: &Mesh) -> Result<Vec<&'r Device>, RuntimeError> {
        let device = |&id: &usize| {
            let found = i64::try_from(id).ok().and_then(|id| self.client.device(id));
            let missing = || Problem::NoSuchDevice { id, known: self.devices().map(Device::id).collect() };
            found.filter(|d| d.is_addressable()).ok_or_else(|| missing().into())
        };
        mesh.device_ids().iter().map(device).collect()
    }
}
