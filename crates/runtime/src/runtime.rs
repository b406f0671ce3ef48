use std::path::Path;
use std::sync::Arc;

use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::ShardedModule;
use shardwright_pjrt::{
    Client, ClientOptions, CompileOptions, Counters, Device, ErrorKind, LoadedExecutable, Plugin,
    ProgramFormat, StatusCode,
};

use crate::array::Conversions;
use crate::compile::{Compilation, CompileSetup, Compiler, ForeignProgram, LoadedFrom, PluginFile, Source};
use crate::compiler::CompilerSettings;
use crate::error::Problem;
use crate::flags;
use crate::plugins::{Environment, PinnedPlugins, PluginRequest, check_before_loading, resolve};
use crate::{CompilerOptions, Program, RuntimeError};

/// With more, a CPU client takes minutes to make, and in the end aborts.
const MOST_CPU_DEVICES: usize = 1024;

/// A plugin that was opened, with the devices that it drives. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    compiler: Arc<Compiler>,
    settings: CompilerSettings,
    conversions: Conversions,
}

/// How a plugin is opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// How many virtual devices a CPU plugin is to have, at most 1,024; other plugins have the devices that there are.
    pub cpu_devices: Option<usize>,
    /// How programs are compiled.
    pub compiler: CompilerOptions,
    /// Where compiled programs are kept, and in which process they are compiled.
    pub compile: CompileSetup,
}

impl RuntimeOptions {
    /// Options for a CPU plugin with this many virtual devices.
    pub fn cpu_devices(count: usize) -> RuntimeOptions {
        RuntimeOptions { cpu_devices: Some(count), ..RuntimeOptions::default() }
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
    /// When the file is no plugin that this library can use, the plugin finds no devices, or it is the TPU's and would
    /// hang; when a flag for the compiler, in the options or in the environment, is wrong.
    pub fn new(plugin: &Path, options: &RuntimeOptions) -> Result<Runtime, RuntimeError> {
        let _span = tracing::debug_span!("open plugin", file = %plugin.display()).entered();
        check_before_loading(plugin, &Environment::from_process())?;
        let loaded_from =
            LoadedFrom { flags: flags::check_environment(plugin)?, plugin: PluginFile::now(plugin) };
        let plugin = Plugin::load(plugin)?;
        let cpu_devices = match options.cpu_devices {
            None => options.compiler.flags.host_devices()?.or(loaded_from.flags.xla().host_devices()?),
            given => given,
        };
        let (client, client_options) = open_client(&plugin, cpu_devices)?;
        let settings = CompilerSettings::new(&options.compiler, plugin.path(), |options| {
            client.compile(flags::EMPTY_PROGRAM.as_bytes(), ProgramFormat::Mlir, options).map(drop)
        })?;
        let compiler = Compiler::new(client, client_options, loaded_from, options.compile.clone());
        Ok(Runtime { compiler: Arc::new(compiler), settings, conversions: Conversions::default() })
    }

    /// The plugin's client, for what this crate has no words for.
    pub fn client(&self) -> &Client {
        self.compiler.client()
    }

    /// How often programs were compiled and run and arrays copied, through this runtime and its clones.
    pub fn counters(&self) -> &Counters {
        self.client().counters()
    }

    /// The name of the platform: `cpu`, `tpu`.
    pub fn platform(&self) -> &str {
        self.client().platform_name()
    }

    /// The devices that this process drives, in the plugin's order.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.client().addressable_devices()
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
        let _span = tracing::debug_span!("compile", program = module.module().name).entered();
        Program::check_mesh(module, mesh)?;
        self.device_order(mesh)?;
        let options = CompileOptions {
            num_partitions: mesh.shape().size(),
            device_assignment: mesh.device_ids().iter().filter_map(|&id| i64::try_from(id).ok()).collect(),
            ..self.settings.options()
        };
        let text = module.stablehlo_text();
        let name = &module.module().name;
        self.settings.write_down(name, &text)?;
        let source = Source { name, code: text.as_bytes(), format: ProgramFormat::Mlir };
        let (loaded, compilation) = self.compiler.compile(&source, &options)?;
        Program::new(loaded, compilation, module, mesh)
    }

    /// Compiles a program of another framework, for the devices that the options name. What it takes and gives is what
    /// it says, buffer by buffer.
    ///
    /// # Errors
    /// When the plugin does not know the program's version, or the compiler refuses it.
    pub fn compile_foreign(
        &self,
        program: &ForeignProgram,
        options: &CompileOptions,
    ) -> Result<(LoadedExecutable, Compilation), RuntimeError> {
        program.check_version(self.client().plugin())?;
        let name = program.name();
        let source = Source { name: &name, code: program.code(), format: program.format() };
        self.compiler.compile(&source, options)
    }

    /// The programs that convert arrays, shared by all clones.
    pub(crate) fn conversions(&self) -> &Conversions {
        &self.conversions
    }

    /// The devices of a mesh, in the order of its partitions.
    pub(crate) fn device_order<'r>(&'r self, mesh: &Mesh) -> Result<Vec<&'r Device>, RuntimeError> {
        let device = |&id: &usize| {
            let found = i64::try_from(id).ok().and_then(|id| self.client().device(id));
            let missing = || Problem::NoSuchDevice { id, known: self.devices().map(Device::id).collect() };
            found.filter(|d| d.is_addressable()).ok_or_else(|| missing().into())
        };
        mesh.device_ids().iter().map(device).collect()
    }
}

/// The plugin's client, and the options that it was made with.
fn open_client(plugin: &Plugin, cpu_devices: Option<usize>) -> Result<(Client, ClientOptions), RuntimeError> {
    const COUNT: &str = "cpu_device_count";
    let none = ClientOptions::default();
    let Some(found) = cpu_devices else { return Ok((Client::new(plugin, &none)?, none)) };
    if !(1..=MOST_CPU_DEVICES).contains(&found) {
        return Err(Problem::CpuDevices { found, most: MOST_CPU_DEVICES }.into());
    }
    let counted = none.clone().with(COUNT, i64::try_from(found).unwrap_or(i64::MAX));
    match Client::new(plugin, &counted) {
        // Only CPU plugins know the option; which plugins those are, their files do not tell.
        Err(e)
            if e.kind() == ErrorKind::Status(StatusCode::InvalidArgument) && e.message().contains(COUNT) =>
        {
            Ok((Client::new(plugin, &none)?, none))
        }
        client => Ok((client?, counted)),
    }
}
