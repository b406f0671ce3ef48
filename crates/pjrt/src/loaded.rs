use std::fmt;
use std::ops::Deref;
use std::ptr;
use std::sync::{Arc, PoisonError};

use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::TensorType;

use crate::api::{Handle, slice};
use crate::error::{Error, ErrorKind};
use crate::executable::Target;
use crate::{Buffer, Client, Device, Event, Executable};

/// A compiled program on its devices, ready to run.
///
/// It is an [`Executable`] and can be asked everything that one can.
pub struct LoadedExecutable {
    handle: Handle<sys::PJRT_LoadedExecutable>,
    executable: Executable,
    parameters: Vec<TensorType>,
    outputs: Arc<[TensorType]>,
    devices: Vec<usize>,
    // Behind the handles: executables are destroyed before their client.
    client: Client,
}

/// One argument of [`LoadedExecutable::execute`]: one buffer for each device, in the executable's order.
///
/// Donation is a move. The program may write its results where a donated argument was, and the argument cannot be
/// used again, whether or not the program made use of that. So the compiler sees to it that nothing is donated
/// twice, or donated and also passed otherwise. A borrowed argument keeps its contents, even where the program
/// would be allowed to overwrite it.
pub enum Arg<'a> {
    /// Can be used again.
    Borrow(&'a [Buffer]),
    /// Is given up.
    Donate(Vec<Buffer>),
}

/// What a started program gives.
pub struct Execution {
    /// The results, each with one buffer for each device, in the executable's order. They can be passed on before
    /// the program has finished.
    pub outputs: Vec<Vec<Buffer>>,
    /// For each device, the end of the program there.
    pub done: Vec<Event>,
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
        let parameters = executable.parameter_types()?;
        let outputs = executable.output_types()?.into();
        Ok(LoadedExecutable { handle, executable, parameters, outputs, devices, client: client.clone() })
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
    pub fn parameter_types(&self) -> &[TensorType] {
        &self.parameters
    }

    /// The types of the results on each device.
    pub fn output_types(&self) -> &[TensorType] {
        &self.outputs
    }

    /// Starts the program on all its devices and does not wait for it.
    ///
    /// Arguments of another number, type or device than the program's are refused: plugins differ in what they
    /// notice, and some compute nonsense. Donated arguments are gone even then, as is anything that is passed
    /// by value.
    ///
    /// A program that fails while it runs still gives results. Each use of one is an error then, and so are the
    /// events.
    pub fn execute(&self, args: Vec<Arg<'_>>) -> Result<Execution, Error> {
        self.check(&args)?;
        let (n_devices, n_args, n_outputs) = (self.devices.len(), args.len(), self.outputs.len());
        let kept: Vec<i64> = (0..)
            .zip(&args)
            .filter(|(_, arg)| matches!(arg, Arg::Borrow(_)))
            .map(|(index, _)| index)
            .collect();
        let mut options = sys::PJRT_ExecuteOptions {
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..Struct::new()
        };

        // One row for each device.
        let inputs: Vec<*mut sys::PJRT_Buffer> = (0..n_devices)
            .flat_map(|device| args.iter().map(move |arg| arg.buffers()[device].raw()))
            .collect();
        let input_rows: Vec<_> = (0..n_devices).map(|d| inputs.as_ptr().wrapping_add(d * n_args)).collect();
        let mut outputs: Vec<*mut sys::PJRT_Buffer> = vec![ptr::null_mut(); n_devices * n_outputs];
        let first_output = outputs.as_mut_ptr();
        let output_rows: Vec<_> = (0..n_devices).map(|d| first_output.wrapping_add(d * n_outputs)).collect();
        let mut events: Vec<*mut sys::PJRT_Event> = vec![ptr::null_mut(); n_devices];

        let call = sys::PJRT_LoadedExecutable_Execute_Args {
            executable: self.handle.raw(),
            options: &mut options,
            argument_lists: input_rows.as_ptr(),
            num_devices: n_devices,
            num_args: n_args,
            output_lists: output_rows.as_ptr(),
            device_complete_events: events.as_mut_ptr(),
            ..Struct::new()
        };
        {
            let _launch = self.client.launch().lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the executable and all inputs, which `args` owns or borrows, are alive; the lists are locals
            // with a row of the program's number of arguments or results for each of its devices. Work that is
            // under way afterwards is the plugin's own, which keeps what it needs of donated inputs.
            unsafe { self.handle.api().call(call)? };
        }
        // SAFETY: the call succeeded, so the caller owns one buffer for each result on each device, and one event
        // for each device.
        unsafe { self.collect(&outputs, &events) }
    }

    /// # Safety
    ///
    /// Outputs, a row for each device, and events are null or the caller's own.
    unsafe fn collect(
        &self,
        outputs: &[*mut sys::PJRT_Buffer],
        events: &[*mut sys::PJRT_Event],
    ) -> Result<Execution, Error> {
        const FUNCTION: &str = sys::PJRT_LoadedExecutable_Execute_Args::FUNCTION;
        let n_outputs = self.outputs.len();
        let output = |index: usize, (row, &device): (usize, &usize)| {
            // SAFETY: the caller's contract; each place of the list is read once.
            let handle =
                unsafe { Handle::new(self.client.api(), outputs[row * n_outputs + index], FUNCTION)? };
            Ok(Buffer::new(handle, Arc::clone(&self.outputs), index, device, self.client.clone()))
        };
        let of_all_devices =
            |index| self.devices.iter().enumerate().map(|place| output(index, place)).collect();
        // SAFETY: the caller's contract.
        let event = |&event| unsafe { Event::new(&self.client, event, FUNCTION) };
        Ok(Execution {
            outputs: (0..n_outputs).map(of_all_devices).collect::<Result<_, _>>()?,
            done: events.iter().map(event).collect::<Result<_, _>>()?,
        })
    }

    fn check(&self, args: &[Arg<'_>]) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::refused("execute", message));
        if args.len() != self.parameters.len() {
            let expected = self.parameters.len();
            return refuse(format!("the program takes {expected} arguments, {} were given", args.len()));
        }
        for (index, (arg, ty)) in args.iter().zip(&self.parameters).enumerate() {
            let buffers = arg.buffers();
            if buffers.len() != self.devices.len() {
                let (expected, found) = (self.devices.len(), buffers.len());
                return refuse(format!(
                    "argument {index}: {expected} devices need a buffer each, got {found}"
                ));
            }
            for (buffer, &device) in buffers.iter().zip(&self.devices) {
                if !buffer.client().is_same(&self.client) {
                    return refuse(format!("argument {index}: its buffers belong to another client"));
                }
                if buffer.device_index() != device {
                    let (expected, found) = (&self.client.devices()[device], buffer.device());
                    return refuse(format!(
                        "argument {index}: a buffer on {expected} is needed, got one on {found}"
                    ));
                }
                if buffer.ty() != ty {
                    let device = buffer.device();
                    return refuse(format!(
                        "argument {index}: {ty} is needed, got {} on {device}",
                        buffer.ty()
                    ));
                }
            }
        }
        Ok(())
    }
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

impl Arg<'_> {
    fn buffers(&self) -> &[Buffer] {
        match self {
            Arg::Borrow(buffers) => buffers,
            Arg::Donate(buffers) => buffers,
        }
    }
}

impl Execution {
    /// Waits until the program has ended on all devices; its first error, if it failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.done.iter().try_for_each(Event::wait)
    }
}
