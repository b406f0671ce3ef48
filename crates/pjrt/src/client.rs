use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use shardwright_pjrt_sys::{self as sys, Args, Struct};

use crate::api::{Api, Handle, slice, string};
use crate::callback;
use crate::error::Error;
use crate::kv_store::{Callbacks, KeyValueStore};
use crate::named_value;
use crate::{
    ClientOptions, CompileOptions, Counters, Device, LoadedExecutable, Operation, Plugin, ProgramFormat,
    SerializedExecutable,
};

/// A plugin's runtime with its devices: everything that computes belongs to one.
///
/// Clones are cheap and are the same client. Buffers, executables and events keep their client alive.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

// `drop` destroys the client, perhaps on another thread, and after it the store that it calls.
struct Inner {
    handle: ManuallyDrop<Handle<sys::PJRT_Client>>,
    plugin: Plugin,
    store: Option<Callbacks>,
    devices: Vec<Device>,
    platform_name: String,
    platform_version: String,
    process_index: i64,
    launch: Mutex<()>,
    counters: Counters,
}

impl Client {
    /// Creates a client of the plugin.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) when an option is given twice, or `cpu_device_count` is out
    /// of its range.
    pub fn new(plugin: &Plugin, options: &ClientOptions) -> Result<Client, Error> {
        Client::create(plugin, options, None)
    }

    /// Creates a client that finds its peers in other processes through a store.
    pub fn with_store(
        plugin: &Plugin,
        options: &ClientOptions,
        store: Arc<dyn KeyValueStore>,
    ) -> Result<Client, Error> {
        Client::create(plugin, options, Some(Callbacks::new(store)))
    }

    fn create(plugin: &Plugin, options: &ClientOptions, store: Option<Callbacks>) -> Result<Client, Error> {
        options.check().map_err(|message| Error::refused("client", message))?;
        let api = plugin.api();
        let create_options = named_value::to_raw(&options.values);
        let mut args = sys::PJRT_Client_Create_Args {
            create_options: create_options.as_ptr(),
            num_options: create_options.len(),
            ..Struct::new()
        };
        store.iter().for_each(|store| store.fill(&mut args));
        // SAFETY: the options are alive during the call, and the store, if there is one, is for as long as the client.
        let args = unsafe { api.call(args)? };
        // SAFETY: the caller of this function of PJRT owns the client.
        let handle = unsafe { Handle::new(api, args.client, sys::PJRT_Client_Create_Args::FUNCTION)? };
        let client = handle.raw();

        // SAFETY: the client is alive in all these calls, and what they return, which lives as long as the client,
        // is copied or, in the case of devices, kept beside the client's handle.
        unsafe {
            let name = api.call(sys::PJRT_Client_PlatformName_Args { client, ..Struct::new() })?;
            let version = api.call(sys::PJRT_Client_PlatformVersion_Args { client, ..Struct::new() })?;
            let process = api.call(sys::PJRT_Client_ProcessIndex_Args { client, ..Struct::new() })?;
            let all = api.call(sys::PJRT_Client_Devices_Args { client, ..Struct::new() })?;
            let local = api.call(sys::PJRT_Client_AddressableDevices_Args { client, ..Struct::new() })?;
            let local = slice(local.addressable_devices, local.num_addressable_devices);
            let devices = slice(all.devices, all.num_devices)
                .iter()
                .map(|raw| Device::read(api, *raw, local.contains(raw)))
                .collect::<Result<_, _>>()?;
            Ok(Client(Arc::new(Inner {
                handle: ManuallyDrop::new(handle),
                plugin: plugin.clone(),
                store,
                devices,
                platform_name: string(name.platform_name, name.platform_name_size),
                platform_version: string(version.platform_version, version.platform_version_size),
                process_index: process.process_index.into(),
                launch: Mutex::new(()),
                counters: Counters::default(),
            })))
        }
    }

    /// The plugin that the client is of.
    pub fn plugin(&self) -> &Plugin {
        &self.0.plugin
    }

    /// The platform, such as `cpu` or `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.0.platform_name
    }

    /// The platform's version, in the words of the plugin.
    pub fn platform_version(&self) -> &str {
        &self.0.platform_version
    }

    /// Which of the processes that work together this one is; 0 when it is alone.
    pub fn process_index(&self) -> i64 {
        self.0.process_index
    }

    /// All devices, those of other processes among them.
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// The devices that this process can put buffers on.
    pub fn addressable_devices(&self) -> impl Iterator<Item = &Device> {
        self.devices().iter().filter(|device| device.is_addressable())
    }

    /// The device with this id.
    pub fn device(&self, id: i64) -> Option<&Device> {
        self.devices().iter().find(|device| device.id() == id)
    }

    /// Compiles a program and loads it onto its devices.
    pub fn compile(
        &self,
        code: &[u8],
        format: ProgramFormat,
        options: &CompileOptions,
    ) -> Result<LoadedExecutable, Error> {
        let device_ids: Vec<i64> = self.devices().iter().map(Device::id).collect();
        let compile_options = options.encode(&device_ids)?;
        format.check(code, options)?;
        let _timer = self.counters().time(Operation::Compile, 0);
        let program = format.program(code);
        let args = sys::PJRT_Client_Compile_Args {
            client: self.raw(),
            program: &program,
            compile_options: compile_options.as_ptr().cast(),
            compile_options_size: compile_options.len(),
            ..Struct::new()
        };
        // SAFETY: the client is alive, and program and options are during the call; the plugin does not write to
        // a program that is to be compiled.
        let args = unsafe { self.api().call(args)? };
        // SAFETY: the caller owns the executable.
        unsafe { LoadedExecutable::new(self, args.executable, sys::PJRT_Client_Compile_Args::FUNCTION) }
    }

    /// What was done with the client so far.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Loads a program that was compiled before, by this build of the plugin and for devices like these.
    ///
    /// Other processors mostly give an error, but nobody promises that: whoever keeps executables keeps beside them
    /// what they were made for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) when a plugin of another version has made the executable.
    pub fn load(&self, executable: &SerializedExecutable) -> Result<LoadedExecutable, Error> {
        const FUNCTION: &str = sys::PJRT_Executable_DeserializeAndLoad_Args::FUNCTION;
        let bytes = executable.made_by(self.plugin())?;
        let _timer = self.counters().time(Operation::Load, bytes.len());
        let args = sys::PJRT_Executable_DeserializeAndLoad_Args {
            client: self.raw(),
            serialized_executable: bytes.as_ptr().cast(),
            serialized_executable_size: bytes.len(),
            ..Struct::new()
        };
        // SAFETY: the client is alive, and the bytes are during the call. They are what this plugin has serialized, in
        // this process, or by the word of whoever called `from_trusted`, which is where that is decided. The caller
        // owns the executable.
        unsafe { LoadedExecutable::new(self, self.api().call(args)?.loaded_executable, FUNCTION) }
    }

    pub(crate) fn api(&self) -> Api {
        self.0.handle.api()
    }

    /// The client, for calls made while `self` is borrowed.
    pub(crate) fn raw(&self) -> *mut sys::PJRT_Client {
        self.0.handle.raw()
    }

    /// Held while a program is started, so that all devices see programs in the same order: two programs that
    /// wait for each other's collectives never finish.
    pub(crate) fn launch(&self) -> &Mutex<()> {
        &self.0.launch
    }

    /// Where the device stands in [`Client::devices`], by its address, which is unique among clients.
    pub(crate) fn index_of(&self, device: *mut sys::PJRT_Device) -> Option<usize> {
        self.devices().iter().position(|candidate| candidate.raw() == device)
    }

    /// Whether both are the same client, so that one can use what belongs to the other.
    pub fn is_same(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the handle is taken here only, and nobody uses it after this.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        // A tuple is dropped in order: the store, which the plugin may call until then, goes last.
        callback::destroy_outside((handle, self.store.take()));
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {} devices)", self.platform_name(), self.devices().len())
    }
}
