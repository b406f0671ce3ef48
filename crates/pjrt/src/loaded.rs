use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::TensorType;

use crate::api::{Handle, slice};
use crate::error::{Error, ErrorKind};
use crate::executable::Target;
use crate::execute::Lists;
use crate::{Client, Device, Executable};

/// A compiled program on its devices, ready to run.
///
/// It is an [`Executable`] and can be asked everything that one can.
pub struct LoadedExecutable {
    handle: Handle<sys::PJRT_LoadedExecutable>,
    executable: Executable,
    // Equal types are one, so that buffers' types are compared by their addresses.
    parameters: Vec<Arc<TensorType>>,
    outputs: Vec<Arc<TensorType>>,
    devices: Vec<usize>,
    lists: Mutex<Option<Lists>>,
    // Behind the handles: executables are destroyed before their client.
    client: Client,
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
            let target = Target::Client { _client: client.clone() };
            let executable = Executable::new(api, target, api.call(get)?.executable, function)?;
            let list = api.call(list)?;
            (executable, slice(list.addressable_devices, list.num_addressable_devices))
        };
        let devices = devices.iter().map(|&device| client.index_of(device)).collect::<Option<_>>();
        let devices = devices.ok_or_else(|| {
            let function = sys::PJRT_LoadedExecutable_AddressableDevices_Args::FUNCTION;
            Error::new(ErrorKind::BrokenContract, function, "listed a device that the client does not have")
        })?;
        let mut known = HashSet::new();
        Ok(LoadedExecutable {
            handle,
            parameters: share(executable.parameter_types()?, &mut known),
            outputs: share(executable.output_types()?, &mut known),
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
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    pub(crate) fn keep_lists(&self, mut lists: Lists) {
        lists.clear();
        *self.lists.lock().unwrap_or_else(PoisonError::into_inner) = Some(lists);
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

impl Deref for LoadedExecutable {
    type Target = Executable;

    fn deref(&self) -> &Executable {
        &self.executable
    }
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
