use std::path::Path;
use std::sync::Arc;

use shardwright_hlo::proto::Partitioner;
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::{ShardedHlo, ShardedModule};
use shardwright_pjrt::{
    Client, ClientOptions, CompileOptions, Counters, Device, ErrorKind, KeyValueStore, Plugin, ProgramFormat,
    StatusCode,
};

use crate::array::Conversions;
use crate::compile::{CompileSetup, Compiler, ForeignProgram, LoadedFrom, PluginFile, Source};
use crate::compiler_options::CompilerSettings;
use crate::error::Problem;
use crate::executable::Interface;
use crate::flags;
use crate::plugins::{Environment, PinnedPlugins, PluginRequest, check_before_loading, resolve};
use crate::{CompilerOptions, Executable, ForeignExecutable, RuntimeError, topology};

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
    /// Other options of the plugin's client, under the names that the plugin has for them.
    pub client: ClientOptions,
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
        Runtime::load(plugin, options, None)
    }

    /// The same for one of several processes, which find each other through a store.
    ///
    /// # Errors
    /// As [`Runtime::new`].
    pub fn with_store(
        plugin: &Path,
        options: &RuntimeOptions,
        store: Arc<dyn KeyValueStore>,
    ) -> Result<Runtime, RuntimeError> {
        Runtime::load(plugin, options, Some(store))
    }

    fn load(
        plugin: &Path,
        options: &RuntimeOptions,
        store: Option<Arc<dyn KeyValueStore>>,
    ) -> Result<Runtime, RuntimeError> {
        let _span = tracing::debug_span!("open plugin", file = %plugin.display()).entered();
        check_before_loading(plugin, &Environment::from_process())?;
        let loaded_from =
            LoadedFrom { flags: flags::check_environment(plugin)?, plugin: PluginFile::now(plugin) };
        let plugin = Plugin::load(plugin)?;
        let cpu_devices = match options.cpu_devices {
            None => options.compiler.flags.host_devices()?.or(loaded_from.flags.xla().host_devices()?),
            given => given,
        };
        let (client, client_options) = open_client(&plugin, &options.client, cpu_devices, store.as_ref())?;
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

    /// All devices, those of other processes among them, in the plugin's order.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.client().devices().iter()
    }

    /// The devices that this process drives, in the plugin's order: all of them where it works alone.
    pub fn addressable_devices(&self) -> impl Iterator<Item = &Device> {
        self.client().addressable_devices()
    }

    /// All devices as a mesh. In `text`, such as `data=2,fsdp=-1`, the size of one axis may be left to be worked out.
    ///
    /// Where the devices are one slice of known coordinates, such as a TPU slice, they are in the order of
    /// [`Mesh::for_topology`]: the last axis, which communicates most, gets the best part of the torus. Elsewhere they
    /// are in the order of their ids. The order shortens ways, and that is all: a reduce-scatter over an axis that
    /// covers several dims of a torus stays what the compiler makes of it, unless the program is written over the
    /// sub-axes, which [`Placement`](shardwright_mesh::Placement) has.
    ///
    /// # Errors
    /// When the text is no mesh, or one of another number of devices than there are.
    pub fn mesh(&self, text: &str) -> Result<Mesh, RuntimeError> {
        let platform = || self.platform().to_owned();
        let wrong = |reason| Problem::Mesh { platform: platform(), reason };
        let mut ids: Vec<usize> = self.devices().map(mesh_id).collect::<Result<_, _>>()?;
        let shape = AbstractMesh::parse_for(text, ids.len()).map_err(wrong)?;
        // Devices that make no topology still make a mesh.
        let topology =
            self.physical_topology().inspect_err(|error| tracing::debug!(%error, "no topology")).ok();
        if let Some(mesh) = topology.and_then(|topology| topology::on_torus(&shape, &ids, &topology)) {
            return Ok(mesh);
        }
        ids.sort_unstable();
        Ok(Mesh::new(shape, ids).map_err(wrong)?)
    }

    /// Checks that all devices of a mesh are there.
    ///
    /// # Errors
    /// When one is not, or this process drives none of them.
    pub fn check_devices(&self, mesh: &Mesh) -> Result<(), RuntimeError> {
        self.addressable_partitions(mesh).map(drop)
    }

    /// Compiles a program for the devices of a mesh, which has to be of the program's shape: partition `p` runs on the
    /// `p`-th device.
    ///
    /// # Errors
    /// When the mesh does not fit, or the compiler refuses the program.
    pub fn compile(&self, module: &ShardedModule, mesh: &Mesh) -> Result<Executable, RuntimeError> {
        let _span = tracing::debug_span!("compile", program = module.module().name).entered();
        let name = &module.module().name;
        Executable::check_mesh(name, module.mesh(), mesh)?;
        let options = self.options_for(mesh)?;
        let text = module.stablehlo_text();
        self.settings.write_down(name, &text)?;
        let source = Source { name, code: text.as_bytes(), format: ProgramFormat::Mlir };
        self.compile_for(&source, &options, Interface::of_module(module), mesh)
    }

    /// The same for a program that is an HLO proto.
    ///
    /// # Errors
    /// When the mesh does not fit, or the compiler refuses the program.
    pub fn compile_hlo(&self, program: &ShardedHlo, mesh: &Mesh) -> Result<Executable, RuntimeError> {
        let name = &program.signature().name;
        let _span = tracing::debug_span!("compile", program = name).entered();
        Executable::check_mesh(name, program.mesh(), mesh)?;
        let options = CompileOptions {
            use_shardy_partitioner: program.partitioner() == Partitioner::Shardy,
            ..self.options_for(mesh)?
        };
        let source = Source { name, code: program.program().module(), format: ProgramFormat::Hlo };
        self.compile_for(&source, &options, Interface::of_hlo(program), mesh)
    }

    /// One partition for each device of the mesh, in its order.
    fn options_for(&self, mesh: &Mesh) -> Result<CompileOptions, RuntimeError> {
        Ok(CompileOptions {
            num_partitions: mesh.shape().size(),
            device_assignment: self.device_order(mesh)?.into_iter().map(Device::id).collect(),
            ..self.settings.options()
        })
    }

    fn compile_for(
        &self,
        source: &Source<'_>,
        options: &CompileOptions,
        interface: Interface,
        mesh: &Mesh,
    ) -> Result<Executable, RuntimeError> {
        let addressable = self.addressable_partitions(mesh)?;
        let (loaded, compilation) = self.compiler.compile(source, options)?;
        Executable::new(loaded, compilation, interface, mesh, addressable)
    }

    /// Compiles a program of another framework, for the devices that the options name. What it takes and gives is what
    /// it says, buffer by buffer.
    ///
    /// The runtime's own [`CompilerOptions`] hold for it as for every program, but for what `options` say themselves:
    /// a flag of the same name, or an effort.
    ///
    /// # Errors
    /// When the plugin does not know the program's version, or the compiler refuses it; when the options are for
    /// another number of partitions than the program.
    pub fn compile_foreign(
        &self,
        program: &ForeignProgram,
        options: &CompileOptions,
    ) -> Result<ForeignExecutable, RuntimeError> {
        program.check_version(self.client().plugin())?;
        let name = program.name();
        let source = Source { name: &name, code: program.code(), format: program.format() };
        let options = self.settings.complete(options);
        if let Some(text) = program.text() {
            self.settings.write_down(&name, text)?;
        }
        let (loaded, compilation) = self.compiler.compile(&source, &options)?;
        Ok(ForeignExecutable::new(name, loaded, compilation))
    }

    /// The same for one device, as a program whose arguments and outputs are called by their numbers, from 0: for
    /// programs of which no more can be known, such as bytecode.
    ///
    /// # Errors
    /// As [`Runtime::compile_foreign`]; and when the mesh is one of several devices.
    pub fn compile_for_one(&self, program: &ForeignProgram, mesh: &Mesh) -> Result<Executable, RuntimeError> {
        let addressable = self.addressable_partitions(mesh)?;
        let one = AbstractMesh::unnamed([1]).expect("one device is a mesh");
        if mesh.shape().size() != 1 {
            Executable::check_mesh(&program.name(), &one, mesh)?;
        }
        let compiled = self.compile_foreign(program, &self.options_for(mesh)?)?;
        let interface = Interface::by_number(&compiled, mesh.shape());
        let compilation = compiled.compilation().clone();
        Executable::new(compiled.into_loaded(), compilation, interface, mesh, addressable)
    }

    /// The programs that convert arrays, shared by all clones.
    pub(crate) fn conversions(&self) -> &Conversions {
        &self.conversions
    }

    /// The devices of a mesh, in the order of its partitions, those of other processes among them.
    pub(crate) fn device_order<'r>(&'r self, mesh: &Mesh) -> Result<Vec<&'r Device>, RuntimeError> {
        let device = |id: usize| {
            let found = i64::try_from(id).ok().and_then(|id| self.client().device(id));
            let known = || self.devices().map(Device::id).collect();
            found.ok_or_else(|| Problem::NoSuchDevice { id, known: known() }.into())
        };
        mesh.device_ids().map(device).collect()
    }

    /// The partitions of a mesh whose devices this process drives, in order; at least one.
    pub(crate) fn addressable_partitions(&self, mesh: &Mesh) -> Result<Arc<[usize]>, RuntimeError> {
        let devices = self.device_order(mesh)?.into_iter().enumerate();
        let partitions =
            devices.filter(|(_, device)| device.is_addressable()).map(|(partition, _)| partition);
        let partitions: Arc<[usize]> = partitions.collect();
        if partitions.is_empty() {
            return Err(Problem::NoAddressableDevice {
                ids: mesh.device_ids().collect(),
                process: self.client().process_index(),
                addressable: self.addressable_devices().map(Device::id).collect(),
            }
            .into());
        }
        Ok(partitions)
    }
}

/// The device's number in meshes.
fn mesh_id(device: &Device) -> Result<usize, RuntimeError> {
    let problem = |_| Problem::DeviceNumber { device: device.to_string(), what: "id", value: device.id() };
    Ok(usize::try_from(device.id()).map_err(problem)?)
}

/// The plugin's client, and the options that it was made with.
fn open_client(
    plugin: &Plugin,
    given: &ClientOptions,
    cpu_devices: Option<usize>,
    store: Option<&Arc<dyn KeyValueStore>>,
) -> Result<(Client, ClientOptions), RuntimeError> {
    const COUNT: &str = "cpu_device_count";
    let client = |options: &ClientOptions| match store {
        None => Client::new(plugin, options),
        Some(store) => Client::with_store(plugin, options, Arc::clone(store)),
    };
    let given = given.clone();
    let Some(found) = cpu_devices else { return Ok((client(&given)?, given)) };
    const MOST: usize = ClientOptions::MOST_CPU_DEVICES;
    if !(1..=MOST).contains(&found) {
        return Err(Problem::CpuDevices { found, most: MOST }.into());
    }
    let counted = given.clone().with(COUNT, i64::try_from(found).unwrap_or(i64::MAX));
    match client(&counted) {
        // Only CPU plugins know the option; which plugins those are, their files do not tell.
        Err(e)
            if e.kind() == ErrorKind::Status(StatusCode::InvalidArgument) && e.message().contains(COUNT) =>
        {
            Ok((client(&given)?, given))
        }
        made => Ok((made?, counted)),
    }
}
