use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::{HostArray, TensorType};

use crate::api::{Api, Handle};
use crate::error::{Error, ErrorKind};
use crate::{Client, Device, Event, Operation, types};

/// An array in the memory of one device.
///
/// The contents may still be under way: transfers and programs start and come back at once, and whatever uses
/// the buffer waits for them. A failure on the way is reported by what uses it, and by [`Buffer::ready`].
///
/// Dropping a buffer frees its memory as soon as nothing under way needs it.
pub struct Buffer {
    handle: Handle<sys::PJRT_Buffer>,
    // An executable shares the types of its outputs with them.
    ty: Arc<TensorType>,
    device: usize,
    // Behind the handle: a buffer is destroyed before its client.
    client: Client,
}

/// A copy from a device that is under way.
///
/// It owns the memory that is written to; dropping it waits until that has ended.
pub struct PendingHostCopy {
    host: Option<HostArray>,
    event: Event,
    client: Client,
    bytes: usize,
    /// How long the host was busy with it or waited for it.
    taken: Duration,
}

impl Client {
    /// Copies an array to a device. The array can be changed or dropped as soon as this returns.
    pub fn buffer_from_host(&self, array: &HostArray, device: &Device) -> Result<Buffer, Error> {
        // The plugin lets go of the memory before it returns.
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        // SAFETY: the array is borrowed, hence neither changed nor freed, for longer than that.
        let (buffer, _done) = unsafe { self.buffer_from_memory(array, device, semantics)? };
        Ok(buffer)
    }

    /// Copies an array to a device without waiting for the copy; the array is let go of when that is done.
    pub fn buffer_from_shared(&self, array: Arc<HostArray>, device: &Device) -> Result<Buffer, Error> {
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
        // SAFETY: nobody can change an array behind an `Arc`, and this one is held until the event, which the
        // plugin triggers when it is done with the memory, or for ever if it has given no event.
        let result = unsafe { self.buffer_from_memory(&array, device, semantics) };
        let (buffer, done) = result.inspect_err(|error| {
            if error.kind() == ErrorKind::BrokenContract {
                std::mem::forget(Arc::clone(&array));
            }
        })?;
        let event = done.raw();
        let held = Box::into_raw(Box::new(Held { api: self.api(), _done: done, _array: array }));
        let args = sys::PJRT_Event_OnReady_Args {
            event,
            callback: Some(release),
            user_arg: held.cast(),
            ..Struct::new()
        };
        // SAFETY: the event is alive until the callback, which is called once, destroys it; should the plugin
        // refuse the callback, event and array are leaked.
        unsafe { self.api().call(args)? };
        Ok(buffer)
    }

    /// # Safety
    ///
    /// The array is neither changed nor freed before the plugin is done with it, as `semantics` says.
    unsafe fn buffer_from_memory(
        &self,
        array: &HostArray,
        device: &Device,
        semantics: sys::PJRT_HostBufferSemantics,
    ) -> Result<(Buffer, Handle<sys::PJRT_Event>), Error> {
        const FUNCTION: &str = sys::PJRT_Client_BufferFromHostBuffer_Args::FUNCTION;
        let Some(device_index) = self.index_of(device.raw()).filter(|_| device.is_addressable()) else {
            let message = format!("{device} is not an addressable device of this client");
            return Err(Error::refused("copy to device", message));
        };
        let dims = types::raw_dims(array.ty());
        let _timer = self.counters().time(Operation::ToDevice, array.bytes().len());
        let args = sys::PJRT_Client_BufferFromHostBuffer_Args {
            client: self.raw(),
            data: array.bytes().as_ptr().cast(),
            type_: types::to_raw(array.dtype()),
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            host_buffer_semantics: semantics,
            device: device.raw(),
            ..Struct::new()
        };
        // SAFETY: the data fill the shape and are row-major, which no strides mean; they are valid for long
        // enough by the caller's contract. Client and device are alive, and `dims` is during the call.
        let args = unsafe { self.api().call(args)? };
        // SAFETY: the caller owns both objects.
        unsafe {
            let buffer = Handle::new(self.api(), args.buffer, FUNCTION);
            let done = Handle::new(self.api(), args.done_with_host_buffer, FUNCTION);
            let ty = Arc::new(array.ty().clone());
            Ok((Buffer { handle: buffer?, ty, device: device_index, client: self.clone() }, done?))
        }
    }
}

/// Host memory in use by a transfer. There is no client in it: a callback must not be what destroys a client.
struct Held {
    api: Api,
    _done: Handle<sys::PJRT_Event>,
    _array: Arc<HostArray>,
}

/// Lets go of host memory after a transfer; whether that went well, the buffer tells.
unsafe extern "C" fn release(error: *mut sys::PJRT_Error, held: *mut c_void) {
    // SAFETY: `held` comes from `Box::into_raw`, and the plugin calls this once.
    let held = unsafe { Box::from_raw(held.cast::<Held>()) };
    if let Some(error) = NonNull::new(error) {
        // SAFETY: the callback owns the error.
        drop(unsafe { held.api.take_error(sys::PJRT_Event_OnReady_Args::FUNCTION, error) });
    }
}

impl Buffer {
    /// An output of a program.
    pub(crate) fn output(
        handle: Handle<sys::PJRT_Buffer>,
        ty: Arc<TensorType>,
        device: usize,
        client: Client,
    ) -> Buffer {
        Buffer { handle, ty, device, client }
    }

    /// Becomes another buffer of the same device, and gives up what it was.
    pub(crate) fn refill(&mut self, handle: Handle<sys::PJRT_Buffer>, ty: &Arc<TensorType>) {
        self.handle = handle;
        if !Arc::ptr_eq(&self.ty, ty) {
            self.ty = Arc::clone(ty);
        }
    }

    /// Dtype and dims.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    pub(crate) fn shared_ty(&self) -> &Arc<TensorType> {
        &self.ty
    }

    /// Where the buffer lies.
    pub fn device(&self) -> &Device {
        &self.client.devices()[self.device]
    }

    /// The client that the buffer belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for the contents and copies them, row-major.
    pub fn to_host(&self) -> Result<HostArray, Error> {
        self.copy_to_host_async()?.wait()
    }

    /// Starts to copy the contents, row-major, and does not wait.
    pub fn copy_to_host_async(&self) -> Result<PendingHostCopy, Error> {
        let start = Instant::now();
        let mut host = HostArray::zeros(self.ty().clone());
        // Devices may keep arrays in another order, which is what would be copied if nothing were said.
        let minor_to_major: Vec<i64> = (0..self.ty().rank() as i64).rev().collect();
        let mut layout = sys::PJRT_Buffer_MemoryLayout {
            type_: sys::PJRT_Buffer_MemoryLayout_Type_Tiled,
            ..Struct::new()
        };
        layout.__bindgen_anon_1.tiled = sys::PJRT_Buffer_MemoryLayout_Tiled {
            minor_to_major: minor_to_major.as_ptr(),
            minor_to_major_size: minor_to_major.len(),
            ..Struct::new()
        };
        let bytes = host.bytes_mut();
        let args = sys::PJRT_Buffer_ToHostBuffer_Args {
            src: self.handle.raw(),
            host_layout: &mut layout,
            dst: bytes.as_mut_ptr().cast(),
            dst_size: bytes.len(),
            ..Struct::new()
        };
        // SAFETY: the buffer is alive, the layout is during the call, and the plugin writes no more than
        // `dst_size` bytes, into memory that stays until the event: see `PendingHostCopy` and below.
        let args = unsafe { self.handle.api().call(args)? };
        // SAFETY: the caller owns the event.
        match unsafe { Event::new(&self.client, args.event, sys::PJRT_Buffer_ToHostBuffer_Args::FUNCTION) } {
            Ok(event) => {
                let (client, taken) = (self.client.clone(), start.elapsed());
                Ok(PendingHostCopy { bytes: args.dst_size, host: Some(host), event, client, taken })
            }
            Err(error) => {
                // Nothing tells when the memory is no longer written to.
                std::mem::forget(host);
                Err(error)
            }
        }
    }

    /// How many bytes the buffer takes on its device, padding counted.
    pub fn on_device_size_in_bytes(&self) -> Result<usize, Error> {
        let args = sys::PJRT_Buffer_OnDeviceSizeInBytes_Args { buffer: self.handle.raw(), ..Struct::new() };
        // SAFETY: the buffer is alive.
        Ok(unsafe { self.handle.api().call(args)? }.on_device_size_in_bytes)
    }

    /// An event for the time when the contents are there.
    pub fn ready(&self) -> Result<Event, Error> {
        let args = sys::PJRT_Buffer_ReadyEvent_Args { buffer: self.handle.raw(), ..Struct::new() };
        // SAFETY: the buffer is alive, and the caller owns the event.
        unsafe {
            let args = self.handle.api().call(args)?;
            Event::new(&self.client, args.event, sys::PJRT_Buffer_ReadyEvent_Args::FUNCTION)
        }
    }

    /// Whether the memory is gone although the buffer is not: a program took it without being allowed to.
    pub fn is_deleted(&self) -> Result<bool, Error> {
        let args = sys::PJRT_Buffer_IsDeleted_Args { buffer: self.handle.raw(), ..Struct::new() };
        // SAFETY: the buffer is alive.
        Ok(unsafe { self.handle.api().call(args)? }.is_deleted)
    }

    /// The buffer, for calls made while `self` is borrowed.
    pub(crate) fn raw(&self) -> *mut sys::PJRT_Buffer {
        self.handle.raw()
    }

    pub(crate) fn device_index(&self) -> usize {
        self.device
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} on {})", self.ty(), self.device())
    }
}

impl PendingHostCopy {
    /// Waits for the copy.
    pub fn wait(mut self) -> Result<HostArray, Error> {
        let start = Instant::now();
        let result = self.event.wait();
        self.taken += start.elapsed();
        result?;
        Ok(self.host.take().expect("the array is taken here and in drop only"))
    }

    /// Whether [`PendingHostCopy::wait`] would come back at once.
    pub fn is_ready(&self) -> Result<bool, Error> {
        self.event.is_ready()
    }
}

impl Drop for PendingHostCopy {
    fn drop(&mut self) {
        self.client.counters().record(Operation::FromDevice, self.bytes, self.taken);
        let Some(host) = self.host.take() else { return };
        // A status is the copy's own, so the copy has ended; any other error means that waiting did not work.
        if self.event.wait().is_err_and(|error| error.code().is_none()) {
            std::mem::forget(host);
        }
    }
}
