//! Programs are started here.
//!
//! A train step passes hundreds of buffers for every device, so what is done per buffer is kept small: pointers are
//! written into lists that the executable keeps, and a result moves into the place of a donated argument.

use std::ptr;
use std::sync::{Arc, PoisonError};

use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::TensorType;

use crate::api::Handle;
use crate::error::{Error, ErrorKind};
use crate::{Buffer, Event, LoadedExecutable, Memory, Operation, Tally};

/// One argument of [`LoadedExecutable::execute`]: one buffer for each device, in the executable's order.
///
/// Donation is a move. The program may write its results where a donated argument was, and the argument cannot be
/// used again, whether or not the program made use of that. So the compiler sees to it that nothing is donated
/// twice, or donated and also passed otherwise:
///
/// ```compile_fail,E0505
/// # use shardwright_pjrt::{Arg, Buffer, Error, Execution, LoadedExecutable};
/// fn both(program: &LoadedExecutable, b: Vec<Buffer>) -> Result<Execution, Error> {
///     let other = Arg::Borrow(&b);
///     program.execute([Arg::Donate(b), other])
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use shardwright_pjrt::{Arg, Buffer, Error, Execution, LoadedExecutable};
/// fn twice(program: &LoadedExecutable, b: Vec<Buffer>) -> Result<Execution, Error> {
///     program.execute([Arg::Donate(b)])?;
///     program.execute([Arg::Donate(b)])
/// }
/// ```
///
/// A borrowed argument keeps its contents, even where the program would be allowed to overwrite it.
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

/// The lists of a call. An executable keeps them, so that calls after the first do not allocate.
///
/// Between calls they are empty.
#[derive(Default)]
pub(crate) struct Lists {
    /// Indices of the arguments that are not donated.
    borrowed: Vec<i64>,
    /// A row for each device.
    inputs: Vec<*mut sys::PJRT_Buffer>,
    /// A row for each device.
    outputs: Vec<*mut sys::PJRT_Buffer>,
    input_rows: Vec<*const *mut sys::PJRT_Buffer>,
    output_rows: Vec<*mut *mut sys::PJRT_Buffer>,
    events: Vec<*mut sys::PJRT_Event>,
}

// SAFETY: lists go from one thread to another when they are empty.
unsafe impl Send for Lists {}

impl LoadedExecutable {
    /// Starts the program on all its devices and does not wait for it.
    ///
    /// Arguments of another number, type, device or memory than the program's are refused, as far as they are known:
    /// plugins differ in what they notice, and some compute nonsense. Donated arguments are gone even then, as is
    /// anything that is passed by value. A program without a device in this process is refused, too.
    ///
    /// A program that fails while it runs still gives results. Each use of one is an error then, and so are the
    /// events.
    pub fn execute<'a>(&self, args: impl IntoIterator<Item = Arg<'a>>) -> Result<Execution, Error> {
        let args: Vec<Arg<'_>> = args.into_iter().collect();
        let mut lists = self.take_lists();
        let result = self.check(&args).and_then(|()| self.start(args, &mut lists));
        self.keep_lists(lists);
        result
    }

    fn start(&self, args: Vec<Arg<'_>>, lists: &mut Lists) -> Result<Execution, Error> {
        let counters = self.client().counters();
        let _timer = counters.time(Operation::Execute, 0);
        counters.add(Tally::Donation, args.iter().filter(|arg| matches!(arg, Arg::Donate(_))).count());
        let n_devices = self.addressable_devices().len();
        lists.fill(&args, n_devices, self.output_types().len());
        let mut options = sys::PJRT_ExecuteOptions {
            non_donatable_input_indices: lists.borrowed.as_ptr(),
            num_non_donatable_input_indices: lists.borrowed.len(),
            ..Struct::new()
        };
        let call = sys::PJRT_LoadedExecutable_Execute_Args {
            executable: self.raw(),
            options: &mut options,
            argument_lists: lists.input_rows.as_ptr(),
            num_devices: n_devices,
            num_args: args.len(),
            output_lists: lists.output_rows.as_ptr(),
            device_complete_events: lists.events.as_mut_ptr(),
            ..Struct::new()
        };
        {
            let _launch = self.client().launch().lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the executable and all inputs, which `args` owns or borrows, are alive; the lists are, and
            // have a row with the program's number of arguments or results for each of its devices. Work that is
            // under way afterwards is the plugin's own, which keeps what it needs of donated inputs.
            unsafe { self.client().api().call(call)? };
        }
        // SAFETY: the call succeeded, so the caller owns one buffer for each result on each device, and one event
        // for each device.
        unsafe { self.collect(args, lists) }
    }

    /// # Safety
    ///
    /// Outputs and events in the lists are null or the caller's own.
    unsafe fn collect(&self, args: Vec<Arg<'_>>, lists: &Lists) -> Result<Execution, Error> {
        const FUNCTION: &str = sys::PJRT_LoadedExecutable_Execute_Args::FUNCTION;
        let api = self.client().api();
        // SAFETY: the caller's contract; each place of the lists is read once.
        let output = |&raw| unsafe { Handle::new(api, raw, FUNCTION) };
        // SAFETY: as before.
        let event = |&raw| unsafe { Event::new(self.client(), raw, FUNCTION) };
        if lists.outputs.iter().any(|raw| raw.is_null()) || lists.events.iter().any(|raw| raw.is_null()) {
            lists.outputs.iter().map(output).for_each(drop);
            lists.events.iter().map(event).for_each(drop);
            return Err(Error::new(ErrorKind::BrokenContract, FUNCTION, "returned null for an object"));
        }

        let mut donated = args.into_iter().filter_map(|arg| match arg {
            Arg::Donate(buffers) => Some(buffers),
            Arg::Borrow(_) => None,
        });
        let mut outputs = Vec::with_capacity(self.output_types().len());
        for (index, ty) in self.output_types().iter().enumerate() {
            let mut buffers = donated.next().unwrap_or_default();
            let column = lists.outputs[index..].iter().step_by(self.output_types().len());
            let is_offloaded = self.offloading().outputs[index];
            for (place, (raw, &device)) in column.zip(self.device_indices()).enumerate() {
                match buffers.get_mut(place) {
                    // Arguments are on the same devices, in the same order.
                    Some(buffer) => buffer.refill(output(raw)?, ty, is_offloaded),
                    None => {
                        let (ty, client) = (Arc::clone(ty), self.client().clone());
                        buffers.push(Buffer::new(output(raw)?, ty, (device, is_offloaded), client));
                    }
                }
            }
            outputs.push(buffers);
        }
        let mut done = Vec::with_capacity(lists.events.len());
        for raw in &lists.events {
            done.push(event(raw)?);
        }
        Ok(Execution { outputs, done })
    }

    fn check(&self, args: &[Arg<'_>]) -> Result<(), Error> {
        if self.device_indices().is_empty() {
            return Err(Error::refused("execute", "the program runs on no device of this process"));
        }
        let (expected, found) = (self.parameter_types().len(), args.len());
        if expected != found {
            let message = format!("the program takes {expected} arguments, {found} were given");
            return Err(Error::refused("execute", message));
        }
        let misfit = |(index, (arg, ty)): (usize, (&Arg<'_>, _))| {
            let may_be_offloaded = self.offloading().parameters[index];
            let problem = self.misfit(arg.buffers(), ty, may_be_offloaded);
            problem.map(|problem| format!("argument {index}: {problem}"))
        };
        let problems: Vec<String> =
            args.iter().zip(self.parameter_types()).enumerate().filter_map(misfit).collect();
        if problems.is_empty() { Ok(()) } else { Err(Error::refused("execute", problems.join("; "))) }
    }

    /// What is wrong with an argument, if anything is.
    fn misfit(&self, buffers: &[Buffer], ty: &Arc<TensorType>, may_be_offloaded: bool) -> Option<String> {
        let (expected, found) = (self.device_indices().len(), buffers.len());
        if expected != found {
            return Some(format!("{expected} devices need a buffer each, got {found}"));
        }
        for (buffer, &device) in buffers.iter().zip(self.device_indices()) {
            if !buffer.client().is_same(self.client()) {
                return Some("its buffers belong to another client".to_owned());
            }
            if buffer.device_index() != device {
                let (expected, found) = (&self.client().devices()[device], buffer.device());
                return Some(format!("a buffer on {expected} is needed, got one on {found}"));
            }
            if buffer.is_offloaded() && !may_be_offloaded {
                let found = buffer.memory().ok().flatten().map_or("another one", Memory::kind);
                return Some(format!("a buffer in the default memory is needed, got one in {found}"));
            }
            // The types of what comes out of a program are shared, and mostly need not be compared.
            if !Arc::ptr_eq(buffer.shared_ty(), ty) && buffer.ty() != &**ty {
                return Some(format!("{ty} is needed, got {} on {}", buffer.ty(), buffer.device()));
            }
        }
        None
    }
}

impl Lists {
    /// Makes room for results and events, and writes down the arguments.
    fn fill(&mut self, args: &[Arg<'_>], n_devices: usize, n_outputs: usize) {
        let n_args = args.len();
        self.inputs.resize(n_devices * n_args, ptr::null_mut());
        for (index, arg) in args.iter().enumerate() {
            if let Arg::Borrow(_) = arg {
                self.borrowed.push(index as i64);
            }
            let column = self.inputs[index..].iter_mut().step_by(n_args);
            column.zip(arg.buffers()).for_each(|(place, buffer)| *place = buffer.raw());
        }
        self.outputs.resize(n_devices * n_outputs, ptr::null_mut());
        self.events.resize(n_devices, ptr::null_mut());
        let (inputs, outputs) = (self.inputs.as_ptr(), self.outputs.as_mut_ptr());
        self.input_rows.extend((0..n_devices).map(|device| inputs.wrapping_add(device * n_args)));
        self.output_rows.extend((0..n_devices).map(|device| outputs.wrapping_add(device * n_outputs)));
    }

    pub(crate) fn clear(&mut self) {
        self.borrowed.clear();
        self.inputs.clear();
        self.outputs.clear();
        self.input_rows.clear();
        self.output_rows.clear();
        self.events.clear();
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
    /// Waits until the program has ended on all devices, whether or not it fails on one; the error of the first device
    /// on which it failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.done.iter().map(Event::wait).fold(Ok(()), Result::and)
    }
}
