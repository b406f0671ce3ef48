//! Buffers, and the copies into and out of them.

use std::ffi::c_void;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use shardwright_pjrt_sys::{self as sys, Struct};

use crate::call::{functions, list};
use crate::client::{Client, Device, Memory};
use crate::event::{Signal, event};
use crate::failure::Failure;
use crate::program::Type;
use crate::registry::{self, Object, Shared};
use crate::work::{self, When};

pub(crate) struct Buffer {
    pub(crate) ty: Type,
    device: Shared<*mut sys::PJRT_Device>,
    memory: Shared<*mut sys::PJRT_Memory>,
    when: When,
    /// The order of the dims, the last one first.
    minor_to_major: Vec<i64>,
    cell: Mutex<Option<Arc<Cell>>>,
}

impl Object for Buffer {
    type Raw = sys::PJRT_Buffer;
    const KIND: &'static str = "buffer";
}

/// The contents of a buffer, which may be still to come. Work under way holds on to them.
#[derive(Default)]
pub(crate) struct Cell {
    contents: OnceLock<Result<Bytes, Failure>>,
    ready: Arc<Signal>,
}

enum Bytes {
    Owned(Vec<u8>),
    Borrowed(Borrowed),
}

/// Host memory in the part of device memory, until nothing needs it.
struct Borrowed {
    data: Shared<*const u8>,
    size: usize,
    done: Arc<Signal>,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.done.set(Ok(()));
    }
}

impl Cell {
    fn set(&self, contents: Result<Bytes, Failure>) {
        let outcome = contents.as_ref().map(drop).map_err(Failure::clone);
        // Each cell is filled by the one job that was made for it.
        let _ = self.contents.set(contents);
        self.ready.set(outcome);
    }

    pub(crate) fn fill(&self, contents: Result<Vec<u8>, Failure>) {
        self.set(contents.map(Bytes::Owned));
    }

    /// What is in it. Work is done in order, so it has come when something needs it.
    pub(crate) fn bytes(&self) -> Result<&[u8], Failure> {
        match self.contents.get() {
            Some(Ok(Bytes::Owned(bytes))) => Ok(bytes),
            // SAFETY: the caller keeps the memory until it hears that it is no longer needed.
            Some(Ok(Bytes::Borrowed(host))) => Ok(unsafe { slice::from_raw_parts(host.data.0, host.size) }),
            Some(Err(failure)) => Err(failure.clone()),
            None => Err(Failure::internal("the contents have not come")),
        }
    }
}

impl Buffer {
    fn state(&self) -> MutexGuard<'_, Option<Arc<Cell>>> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn memory(&self) -> *mut sys::PJRT_Memory {
        self.memory.0
    }

    pub(crate) fn cell(&self) -> Result<Arc<Cell>, Failure> {
        self.state().clone().ok_or_else(gone)
    }

    /// The contents, which the buffer no longer has.
    pub(crate) fn take(&self) -> Result<Arc<Cell>, Failure> {
        self.state().take().ok_or_else(gone)
    }
}

fn gone() -> Failure {
    Failure::invalid("Buffer has been deleted or donated.")
}

/// A new buffer in this memory, and where its contents will be.
pub(crate) fn create(
    ty: Type,
    memory: *mut sys::PJRT_Memory,
) -> Result<(*mut sys::PJRT_Buffer, Arc<Cell>), Failure> {
    let [device] = registry::get::<Memory>(memory)?.devices.0;
    let client = registry::get::<Device>(device)?.client.0;
    let cell = Arc::new(Cell::default());
    let buffer = Buffer {
        minor_to_major: (0..ty.dims.len() as i64).rev().collect(),
        ty,
        device: Shared(device),
        memory: Shared(memory),
        when: registry::get::<Client>(client)?.when,
        cell: Mutex::new(Some(Arc::clone(&cell))),
    };
    Ok((registry::insert(client, buffer), cell))
}

/// The memory in which arrays lie on the device unless said otherwise.
pub(crate) fn default_memory(device: *mut sys::PJRT_Device) -> Result<*mut sys::PJRT_Memory, Failure> {
    let device = registry::get::<Device>(device)?;
    device.memories.0.first().copied().ok_or_else(|| Failure::invalid("the device is not addressable"))
}

fn copy(
    source: *mut sys::PJRT_Buffer,
    memory: *mut sys::PJRT_Memory,
) -> Result<*mut sys::PJRT_Buffer, Failure> {
    let source = registry::get::<Buffer>(source)?;
    let (from, (buffer, to)) = (source.cell()?, create(source.ty.clone(), memory)?);
    work::submit(source.when, move || to.fill(from.bytes().map(<[u8]>::to_vec)));
    Ok(buffer)
}

/// Copies a part of a buffer to the host later on; the event tells when that is done.
fn copy_to_host(
    buffer: &Buffer,
    dst: *mut c_void,
    offset: usize,
    size: usize,
) -> Result<*mut sys::PJRT_Event, Failure> {
    let (cell, signal, dst) = (buffer.cell()?, Arc::new(Signal::default()), Shared(dst.cast::<u8>()));
    let event = event(&signal);
    work::submit(buffer.when, move || {
        // The whole wrapper is moved to the thread, and not only the pointer in it.
        let Shared(dst) = { dst };
        signal.set(cell.bytes().map(|bytes| {
            let part = &bytes[offset..offset + size];
            // SAFETY: the caller keeps this much memory until the event.
            unsafe { dst.copy_from_nonoverlapping(part.as_ptr(), part.len()) }
        }));
    });
    Ok(event)
}

/// Refuses everything but row-major.
fn check_layout(buffer: &Buffer, layout: *const sys::PJRT_Buffer_MemoryLayout) -> Result<(), Failure> {
    // SAFETY: the caller passes null or a live struct, whose type says which field is filled in.
    let order = unsafe {
        let Some(layout) = layout.as_ref() else { return Ok(()) };
        if layout.type_ != sys::PJRT_Buffer_MemoryLayout_Type_Tiled {
            return Err(Failure::unimplemented("layouts by strides"));
        }
        let tiled = layout.__bindgen_anon_1.tiled;
        list(tiled.minor_to_major, tiled.minor_to_major_size)
    };
    match buffer.minor_to_major == order {
        true => Ok(()),
        false => Err(Failure::unimplemented(format!("layout {order:?}"))),
    }
}

functions! {
    fn PJRT_Client_BufferFromHostBuffer(args: PJRT_Client_BufferFromHostBuffer_Args) {
        let client = registry::get::<Client>(args.client)?;
        if args.num_byte_strides != 0 || !args.device_layout.is_null() {
            return Err(Failure::unimplemented("strides and layouts"));
        }
        // SAFETY: the caller passes a list of this length.
        let ty = Type::new(args.type_, unsafe { list(args.dims, args.num_dims) })?;
        let size = ty.size()?;
        let memory = if args.memory.is_null() { default_memory(args.device)? } else { args.memory };
        let (buffer, cell) = create(ty, memory)?;
        let (done, data) = (Arc::new(Signal::default()), Shared(args.data.cast::<u8>()));
        // SAFETY: the caller keeps the memory for as long as the semantics say, which is when this is called.
        let read = move |data: Shared<*const u8>| unsafe { list(data.0, size) }.to_vec();
        (args.buffer, args.done_with_host_buffer) = (buffer, event(&done));
        match args.host_buffer_semantics {
            sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall => {
                let bytes = read(data);
                done.set(Ok(()));
                work::submit(client.when, move || cell.fill(Ok(bytes)));
            }
            sys::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes => {
                work::submit(client.when, move || {
                    cell.fill(Ok(read(data)));
                    done.set(Ok(()));
                });
            }
            _ => work::submit(client.when, move || cell.set(Ok(Bytes::Borrowed(Borrowed { data, size, done })))),
        }
        Ok(())
    }

    fn PJRT_Buffer_Destroy(args: PJRT_Buffer_Destroy_Args) {
        registry::remove::<Buffer>(args.buffer).map(drop)
    }

    fn PJRT_Buffer_Delete(args: PJRT_Buffer_Delete_Args) {
        // What is gone already is gone.
        drop(registry::get::<Buffer>(args.buffer)?.take());
        Ok(())
    }

    fn PJRT_Buffer_IsDeleted(args: PJRT_Buffer_IsDeleted_Args) {
        args.is_deleted = registry::get::<Buffer>(args.buffer)?.state().is_none();
        Ok(())
    }

    fn PJRT_Buffer_ElementType(args: PJRT_Buffer_ElementType_Args) {
        args.type_ = registry::get::<Buffer>(args.buffer)?.ty.element;
        Ok(())
    }

    fn PJRT_Buffer_Dimensions(args: PJRT_Buffer_Dimensions_Args) {
        let buffer = registry::get::<Buffer>(args.buffer)?;
        (args.dims, args.num_dims) = (buffer.ty.dims.as_ptr(), buffer.ty.dims.len());
        Ok(())
    }

    fn PJRT_Buffer_GetMemoryLayout(args: PJRT_Buffer_GetMemoryLayout_Args) {
        let buffer = registry::get::<Buffer>(args.buffer)?;
        args.layout.type_ = sys::PJRT_Buffer_MemoryLayout_Type_Tiled;
        args.layout.__bindgen_anon_1.tiled = sys::PJRT_Buffer_MemoryLayout_Tiled {
            minor_to_major: buffer.minor_to_major.as_ptr(),
            minor_to_major_size: buffer.minor_to_major.len(),
            ..Struct::new()
        };
        Ok(())
    }

    fn PJRT_Buffer_OnDeviceSizeInBytes(args: PJRT_Buffer_OnDeviceSizeInBytes_Args) {
        let buffer = registry::get::<Buffer>(args.buffer)?;
        buffer.cell()?;
        args.on_device_size_in_bytes = buffer.ty.size()?;
        Ok(())
    }

    fn PJRT_Buffer_Device(args: PJRT_Buffer_Device_Args) {
        args.device = registry::get::<Buffer>(args.buffer)?.device.0;
        Ok(())
    }

    fn PJRT_Buffer_Memory(args: PJRT_Buffer_Memory_Args) {
        args.memory = registry::get::<Buffer>(args.buffer)?.memory.0;
        Ok(())
    }

    fn PJRT_Buffer_ReadyEvent(args: PJRT_Buffer_ReadyEvent_Args) {
        args.event = event(&registry::get::<Buffer>(args.buffer)?.cell()?.ready);
        Ok(())
    }

    fn PJRT_Buffer_ToHostBuffer(args: PJRT_Buffer_ToHostBuffer_Args) {
        let buffer = registry::get::<Buffer>(args.src)?;
        check_layout(&buffer, args.host_layout)?;
        let size = buffer.ty.size()?;
        if args.dst.is_null() {
            // The question is how much memory is needed.
            args.dst_size = size;
            return Ok(());
        }
        if args.dst_size < size {
            return Err(Failure::invalid(format!("{size} bytes do not fit into {}", args.dst_size)));
        }
        args.event = copy_to_host(&buffer, args.dst, 0, size)?;
        Ok(())
    }

    fn PJRT_Buffer_CopyRawToHost(args: PJRT_Buffer_CopyRawToHost_Args) {
        let buffer = registry::get::<Buffer>(args.buffer)?;
        let all = buffer.ty.size()?;
        let (Ok(offset), Ok(size)) = (usize::try_from(args.offset), usize::try_from(args.transfer_size)) else {
            return Err(Failure::invalid("a part of negative size or offset"));
        };
        if offset.checked_add(size).is_none_or(|end| end > all) {
            return Err(Failure::invalid(format!("{size} bytes from {offset} of {all}")));
        }
        args.event = copy_to_host(&buffer, args.dst, offset, size)?;
        Ok(())
    }

    fn PJRT_Buffer_CopyToDevice(args: PJRT_Buffer_CopyToDevice_Args) {
        args.dst_buffer = copy(args.buffer, default_memory(args.dst_device)?)?;
        Ok(())
    }

    fn PJRT_Buffer_CopyToMemory(args: PJRT_Buffer_CopyToMemory_Args) {
        args.dst_buffer = copy(args.buffer, args.dst_memory)?;
        Ok(())
    }

    fn PJRT_Device_MemoryStats(args: PJRT_Device_MemoryStats_Args) {
        let client = registry::get::<Device>(args.device)?.client.0;
        let buffers = registry::owned::<Buffer, _>(client);
        let here = buffers.iter().filter(|buffer| buffer.device.0 == args.device && buffer.state().is_some());
        args.bytes_in_use = here.map(|buffer| Ok(buffer.ty.size()? as i64)).sum::<Result<_, Failure>>()?;
        // Numbers that tell the fields apart; the peak of the pool is one that is not reported.
        (args.peak_bytes_in_use, args.peak_bytes_in_use_is_set) = (2, true);
        (args.num_allocs, args.num_allocs_is_set) = (3, true);
        (args.largest_alloc_size, args.largest_alloc_size_is_set) = (4, true);
        (args.bytes_limit, args.bytes_limit_is_set) = (5, true);
        (args.bytes_reserved, args.bytes_reserved_is_set) = (6, true);
        (args.peak_bytes_reserved, args.peak_bytes_reserved_is_set) = (7, true);
        (args.bytes_reservable_limit, args.bytes_reservable_limit_is_set) = (8, true);
        (args.largest_free_block_bytes, args.largest_free_block_bytes_is_set) = (9, true);
        (args.pool_bytes, args.pool_bytes_is_set) = (10, true);
        Ok(())
    }
}
