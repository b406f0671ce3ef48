use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::{HostArray, TensorType};

use crate::api::{Handle, slice};
use crate::error::{Error, ErrorKind, if_implemented};
use crate::{Client, Device, Event, Memory, Operation, Place};

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
    is_offloaded: bool,
    // Behind the handle: a buffer is destroyed before its client.
    client: Client,
}

/// A copy from a device that is under way.
///
/// It owns the memory that is written to; dropping it waits until that has ended. Where waiting fails, the memory goes
/// when the copy has ended.
pub struct PendingHostCopy {
    host: Option<HostArray>,
    event: Event,
    client: Client,
    bytes: usize,
    /// How long the host was busy with it or waited for it.
    taken: Duration,
}

impl Buffer {
    /// The buffer behind `handle`, which is on the client's device at `device`, and `is_offloaded` where it is known to
    /// lie in another memory than the default one.
    pub(crate) fn new(
        handle: Handle<sys::PJRT_Buffer>,
        ty: Arc<TensorType>,
        (device, is_offloaded): (usize, bool),
        client: Client,
    ) -> Buffer {
        Buffer { handle, ty, device, is_offloaded, client }
    }

    /// Becomes another buffer of the same device, and gives up what it was.
    pub(crate) fn refill(
        &mut self,
        handle: Handle<sys::PJRT_Buffer>,
        ty: &Arc<TensorType>,
        is_offloaded: bool,
    ) {
        self.handle = handle;
        self.is_offloaded = is_offloaded;
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

    /// The memory that the buffer lies in; `None` where the plugin knows no memories.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BrokenContract`] when the plugin gives a memory that it has not listed for the buffer's device.
    pub fn memory(&self) -> Result<Option<&Memory>, Error> {
        const FUNCTION: &str = sys::PJRT_Buffer_Memory_Args::FUNCTION;
        let args = sys::PJRT_Buffer_Memory_Args { buffer: self.handle.raw(), ..Struct::new() };
        // SAFETY: the buffer is alive.
        let Some(args) = if_implemented(unsafe { self.handle.api().call(args) })? else { return Ok(None) };
        let found = self.device().memories().iter().find(|memory| memory.raw() == args.memory);
        let unknown = || {
            let message = format!("gave a memory that {} does not list", self.device());
            Error::new(ErrorKind::BrokenContract, FUNCTION, message)
        };
        found.ok_or_else(unknown).map(Some)
    }

    /// Whether the buffer is known to lie in another memory than its device's default one.
    pub(crate) fn is_offloaded(&self) -> bool {
        self.is_offloaded
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
        // SAFETY: the memory stays until the event: see `PendingHostCopy` and below.
        match unsafe { self.start_copy_to(host.bytes_mut()) } {
            Ok(event) => {
                let (client, bytes, taken) = (self.client.clone(), host.bytes().len(), start.elapsed());
                Ok(PendingHostCopy { host: Some(host), event, client, bytes, taken })
            }
            Err(error) => {
                if error.kind() == ErrorKind::BrokenContract {
                    // Nothing tells when the memory is no longer written to.
                    std::mem::forget(host);
                }
                Err(error)
            }
        }
    }

    /// Waits for the contents and copies them, row-major, over those of `target`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] when `target` is of another type.
    pub fn copy_into(&self, target: &mut HostArray) -> Result<(), Error> {
        if target.ty() != self.ty() {
            let message = format!("the buffer is {}, the target {}", self.ty(), target.ty());
            return Err(Error::refused("copy to host", message));
        }
        self.copy_into_bytes(target.bytes_mut())
    }

    /// Waits for the contents and copies them, row-major and in the byte order of this machine, over `target`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] when `target` is not as long as the array.
    pub fn copy_into_bytes(&self, target: &mut [u8]) -> Result<(), Error> {
        let (expected, found) = (self.ty().byte_count(), target.len());
        if expected != found {
            let message = format!("{} takes {expected} bytes, the target has {found}", self.ty());
            return Err(Error::refused("copy to host", message));
        }
        let _timer = self.client.counters().time(Operation::FromDevice, found);
        // A plugin that cannot wait says so here, before it is given memory that is only borrowed.
        self.ready()?.wait()?;
        // SAFETY: the target is borrowed until the event, without which nothing of this process goes on.
        lent(unsafe { self.start_copy_to(target) })?.wait()
    }

    /// Waits for the contents and copies the part that begins at byte `offset` of the row-major array over `target`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] when the part does not lie inside the array, [`ErrorKind::Unsupported`] when the device
    /// does not store the array row by row.
    pub fn copy_part_into(&self, offset: usize, target: &mut [u8]) -> Result<(), Error> {
        const WHAT: &str = "copy a part to host";
        let (len, size) = (target.len(), self.ty().byte_count());
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let message = format!("{len} bytes at byte {offset} are not inside {}, {size} bytes", self.ty());
            return Err(Error::refused(WHAT, message));
        }
        self.check_row_major(WHAT)?;
        let _timer = self.client.counters().time(Operation::FromDevice, len);
        // As in `copy_into_bytes`.
        self.ready()?.wait()?;
        let args = sys::PJRT_Buffer_CopyRawToHost_Args {
            buffer: self.handle.raw(),
            dst: target.as_mut_ptr().cast(),
            // Both fit: they are inside an array.
            offset: offset as i64,
            transfer_size: len as i64,
            ..Struct::new()
        };
        // SAFETY: the buffer is alive, the part is inside it, and the target is borrowed until the event, which the
        // caller owns, and without which nothing of this process goes on.
        let event = unsafe {
            let args = self.handle.api().call(args)?;
            Event::new(&self.client, args.event, sys::PJRT_Buffer_CopyRawToHost_Args::FUNCTION)
        };
        lent(event)?.wait()
    }

    /// Starts to copy the contents, row-major.
    ///
    /// # Safety
    ///
    /// `target` stays, and nobody else uses it, until the event, or for ever after an error of kind
    /// [`ErrorKind::BrokenContract`].
    unsafe fn start_copy_to(&self, target: &mut [u8]) -> Result<Event, Error> {
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
        let args = sys::PJRT_Buffer_ToHostBuffer_Args {
            src: self.handle.raw(),
            host_layout: &mut layout,
            dst: target.as_mut_ptr().cast(),
            dst_size: target.len(),
            ..Struct::new()
        };
        // SAFETY: the buffer is alive, the layout is during the call, and the plugin writes no more than
        // `dst_size` bytes, into memory that stays until the event, by the caller's contract. The event is ours.
        unsafe {
            let args = self.handle.api().call(args)?;
            Event::new(&self.client, args.event, sys::PJRT_Buffer_ToHostBuffer_Args::FUNCTION)
        }
    }

    /// Copies the buffer to another place of its client, and does not wait for the copy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] when the place is not one of this client's.
    pub fn copy_to<'p>(&self, place: impl Into<Place<'p>>) -> Result<Buffer, Error> {
        let (api, buffer) = (self.handle.api(), self.handle.raw());
        let place = self.client.raw_place(place.into(), "copy to device")?;
        // SAFETY: buffer and place are alive and of one client, and the caller owns the new buffer.
        let handle = unsafe {
            if place.memory.is_null() {
                let dst_device = place.device;
                let args =
                    api.call(sys::PJRT_Buffer_CopyToDevice_Args { buffer, dst_device, ..Struct::new() })?;
                Handle::new(api, args.dst_buffer, sys::PJRT_Buffer_CopyToDevice_Args::FUNCTION)?
            } else {
                let dst_memory = place.memory;
                let args =
                    api.call(sys::PJRT_Buffer_CopyToMemory_Args { buffer, dst_memory, ..Struct::new() })?;
                Handle::new(api, args.dst_buffer, sys::PJRT_Buffer_CopyToMemory_Args::FUNCTION)?
            }
        };
        Ok(Buffer::new(handle, Arc::clone(&self.ty), place.at(), self.client.clone()))
    }

    /// Checks that the bytes of the array follow each other on the device as they do on the host.
    pub(crate) fn check_row_major(&self, what: &str) -> Result<(), Error> {
        let args = sys::PJRT_Buffer_GetMemoryLayout_Args { buffer: self.handle.raw(), ..Struct::new() };
        // SAFETY: the buffer is alive, and what is returned lives as long.
        let layout = unsafe { self.handle.api().call(args)? }.layout;
        // SAFETY: the type says which field of the union is filled in.
        let is_row_major = layout.type_ == sys::PJRT_Buffer_MemoryLayout_Type_Tiled
            && unsafe {
                let tiled = &layout.__bindgen_anon_1.tiled;
                let order = slice(tiled.minor_to_major, tiled.minor_to_major_size);
                tiled.num_tiles == 0 && order.iter().rev().copied().eq(0..self.ty().rank() as i64)
            };
        if is_row_major {
            return Ok(());
        }
        let message = format!("{} does not store {} row by row", self.device(), self.ty());
        Err(Error::new(ErrorKind::Unsupported, what, message))
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

    /// An event for the end of the copy, to await, or to wait for with a limit.
    pub fn done(&self) -> &Event {
        &self.event
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
        // An error may be the copy's own, or mean that waiting did not work.
        let has_ended = self.event.wait().is_ok() || self.event.is_ready() == Ok(true);
        if !has_ended {
            // Where the plugin takes no callback either, the memory stays for ever.
            drop(self.event.on_ready(move |_| drop(host)));
        }
    }
}

/// The event of a copy into memory that is only borrowed.
///
/// A plugin that starts such a copy and gives no event breaks its contract, and nothing tells when it writes. The memory
/// cannot be kept from its owner beyond this call, so going on would not be sound, in whatever way; a block of our own
/// to copy through would be, and would cost every plugin that keeps to the contract a copy. So the process ends.
fn lent(event: Result<Event, Error>) -> Result<Event, Error> {
    /// What panics in here gets its message out and no further.
    extern "C" fn end(error: &Error) -> ! {
        panic!("{error}: it may write to borrowed memory at any time")
    }
    match event {
        Err(error) if error.kind() == ErrorKind::BrokenContract => end(&error),
        event => event,
    }
}
