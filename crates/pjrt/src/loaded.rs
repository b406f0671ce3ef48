use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::TensorType;

use crate::api::{Handle, slice};
use crate::error::{Error, ErrorKind};
use crate::executable::Target;
use crate::execute::Lists;
use crate::{Client, Device, Executable, Memory, options};

/// A compiled program on its devices, ready to run.
///
/// What it is, and what it needs, [`LoadedExecutable::executable`] can be asked.
pub struct LoadedExecutable {
    handle: Handle<sys::PJRT_LoadedExecutable>,
    executable: Executable,
    // Equal types are one, so that buffers' types are compared by their addresses.
    parameters: Vec<Arc<TensorType>>,
    outputs: Vec<Arc<TensorType>>,
    offloading: Offloading,
    devices: Vec<usize>,
    lists: Mutex<Lists>,
    // Behind the handles: executables are destroyed before their client.
    client: Client,
}

/// Which parameters and results lie in another memory than their device's default one.
pub(crate) struct Offloading {
    /// Whether each parameter does, or may.
    pub(crate) parameters: Vec<bool>,
    /// Whether each result is known to.
    pub(crate) outputs: Vec<bool>,
}

impl LoadedExecutable {
    /// # Safety
    ///
    /// `raw` is null or a loaded executable of this client that the caller owns.
    pub(crate) unsafe fn new(
        client: &Client,
        raw: *mut sys::PJRT_LoadedExecutable,
        function: &str,
    ) -> Result<LoadedExecutable, Error> {
        let api = client.api();
        // SAFETY: the caller's contract.
        let handle = unsafe { Handle::new(api, raw, function)? };
        let get = sys::PJRT_LoadedExecutable_GetExecutable_Args { loaded_executable: raw, ..Struct::new() };
        let list = sys::PJRT_LoadedExecutable_AddressableDevices_Args { executable: raw, ..Struct::new() };
        // SAFETY: the loaded executable is alive, the caller owns the executable that it gives, and the list of
        // devices lives as long as the loaded executable.
        let (executable, devices) = unsafe {
            let function = sys::PJRT_LoadedExecutable_GetExecutable_Args::FUNCTION;
            let target = Target::Client(client.clone());
            let executable = Executable::new(api, target, api.call(get)?.executable, function)?;
            let list = api.call(list)?;
            (executable, slice(list.addressable_devices, list.num_addressable_devices))
        };
        let devices: Option<Vec<usize>> = devices.iter().map(|&device| client.index_of(device)).collect();
        let devices = devices.ok_or_else(|| {
            let function = sys::PJRT_LoadedExecutable_AddressableDevices_Args::FUNCTION;
            Error::new(ErrorKind::BrokenContract, function, "listed a device that the client does not have")
        })?;
        let signature = executable.signature()?;
        let outputs = executable.output_types()?;
        // The plugin writes this many results into the lists of a call, which are as long as there are types.
        let (expected, found) = (executable.num_outputs()?, outputs.len());
        if expected != found {
            let function = sys::PJRT_Executable_NumOutputs_Args::FUNCTION;
            let message = format!("{expected} results, with {found} types");
            return Err(Error::new(ErrorKind::BrokenContract, function, message));
        }
        let default = devices.first().and_then(|&device| client.devices()[device].default_memory());
        let offloading = Offloading {
            parameters: signature.iter().map(|parameter| !parameter.in_default_memory).collect(),
            outputs: is_offloaded(&executable, default, found),
        };
        let mut known = HashSet::new();
        Ok(LoadedExecutable {
            handle,
            parameters: share(signature.into_iter().map(|parameter| parameter.ty).collect(), &mut known),
            outputs: share(outputs, &mut known),
            offloading,
            executable,
            devices,
            lists: Mutex::default(),
            client: client.clone(),
        })
    }

    /// The client that runs the program.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The devices of this process that the program runs on: those of the first replica first, each in the order
    /// of its partitions. Arguments and results come in this order.
    pub fn addressable_devices(&self) -> impl ExactSizeIterator<Item = &Device> {
        self.devices.iter().map(|&index| &self.client.devices()[index])
    }

    /// The types of the parameters on each device.
    pub fn parameter_types(&self) -> &[Arc<TensorType>] {
        &self.parameters
    }

    /// The types of the results on each device.
    pub fn output_types(&self) -> &[Arc<TensorType>] {
        &self.outputs
    }

    /// What can be known of the program without running it.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The ids of all devices that the program runs on, those of other processes among them: those of the first
    /// replica first, each in the order of its partitions, as in
    /// [`CompileOptions::device_assignment`](crate::CompileOptions::device_assignment).
    pub fn device_assignment(&self) -> Result<Vec<i64>, Error> {
        const FUNCTION: &str = sys::PJRT_LoadedExecutable_GetDeviceAssignment_Args::FUNCTION;
        let args =
            sys::PJRT_LoadedExecutable_GetDeviceAssignment_Args { executable: self.raw(), ..Struct::new() };
        // SAFETY: the executable is alive; the bytes are read before what holds them is freed, once.
        let ids = unsafe {
            let args = self.handle.api().call(args)?;
            let ids = options::read_assignment(slice(
                args.serialized_bytes.cast::<u8>(),
                args.serialized_bytes_size,
            ));
            if let Some(free) = args.serialized_device_assignment_deleter {
                free(args.serialized_device_assignment);
            }
            ids
        };
        ids.map_err(|message| Error::new(ErrorKind::BrokenContract, FUNCTION, message))
    }

    pub(crate) fn offloading(&self) -> &Offloading {
        &self.offloading
    }

    /// Where those devices stand in [`Client::devices`].
    pub(crate) fn device_indices(&self) -> &[usize] {
        &self.devices
    }

    /// The executable, for calls made while `self` is borrowed.
    pub(crate) fn raw(&self) -> *mut sys::PJRT_LoadedExecutable {
        self.handle.raw()
    }

    /// The lists of the last call, or new ones while another thread has those.
    pub(crate) fn take_lists(&self) -> Lists {
        std::mem::take(&mut *self.lists.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn keep_lists(&self, mut lists: Lists) {
        lists.clear();
        *self.lists.lock().unwrap_or_else(PoisonError::into_inner) = lists;
    }
}

/// The same types, with one allocation for those that are equal.
fn share(types: Vec<TensorType>, known: &mut HashSet<Arc<TensorType>>) -> Vec<Arc<TensorType>> {
    let share = |ty| match known.get(&ty) {
        Some(shared) => Arc::clone(shared),
        None => {
            let shared = Arc::new(ty);
            known.insert(Arc::clone(&shared));
            shared
        }
    };
    types.into_iter().map(share).collect()
}

/// Which of `n_outputs` results are known to lie in another memory than the default one.
fn is_offloaded(executable: &Executable, default: Option<&Memory>, n_outputs: usize) -> Vec<bool> {
    // Where the plugin does not say, for whatever reason, nothing is known.
    let kinds = executable.output_memory_kinds().unwrap_or_default();
    let is_other = |kind: &String| default.is_some_and(|default| default.kind() != kind);
    let mut offloaded: Vec<bool> = kinds.iter().map(is_other).collect();
    offloaded.resize(n_outputs, false);
    offloaded
}

impl fmt::Debug for LoadedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LoadedExecutable({:?} -> {:?} on {} devices)",
            self.parameters,
            self.outputs,
            self.devices.len()
        )
    }
}
