//! Transfer managers: buffers that are filled piece by piece.

use std::sync::{Arc, Mutex, PoisonError};

use shardwright_pjrt_sys as sys;

use crate::buffer::{self, Buffer, Cell};
use crate::call::{functions, list, text};
use crate::client::Client;
use crate::event::{Signal, event};
use crate::failure::Failure;
use crate::program::Type;
use crate::registry::{self, Object, Shared};
use crate::work::{self, When};

pub(crate) struct Manager {
    when: When,
    slots: Vec<Arc<Slot>>,
}

impl Object for Manager {
    type Raw = sys::PJRT_AsyncHostToDeviceTransferManager;
    const KIND: &'static str = "transfer manager";
}

/// A buffer that is being filled.
struct Slot {
    size: usize,
    cell: Arc<Cell>,
    state: Mutex<State>,
}

struct State {
    /// Until somebody retrieves it.
    buffer: Option<Shared<*mut sys::PJRT_Buffer>>,
    bytes: Vec<u8>,
    /// Whether no more is to come.
    is_complete: bool,
}

impl Slot {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn slot(
    manager: *mut sys::PJRT_AsyncHostToDeviceTransferManager,
    index: i32,
) -> Result<(When, Arc<Slot>), Failure> {
    let manager = registry::get::<Manager>(manager)?;
    let slot = usize::try_from(index).ok().and_then(|index| manager.slots.get(index));
    let slot = slot.ok_or_else(|| Failure::invalid(format!("there is no buffer {index}")))?;
    Ok((manager.when, Arc::clone(slot)))
}

functions! {
    fn PJRT_Client_CreateBuffersForAsyncHostToDevice(args: PJRT_Client_CreateBuffersForAsyncHostToDevice_Args) {
        let when = registry::get::<Client>(args.client)?.when;
        let mut slots = Vec::new();
        // SAFETY: the caller passes lists of these lengths.
        for spec in unsafe { list(args.shape_specs, args.num_shape_specs) } {
            // SAFETY: as above.
            let ty = Type::new(spec.element_type, unsafe { list(spec.dims, spec.num_dims) })?;
            let size = ty.size()?;
            let (buffer, cell) = buffer::create(ty, args.memory)?;
            let state = State { buffer: Some(Shared(buffer)), bytes: vec![0; size], is_complete: false };
            slots.push(Arc::new(Slot { size, cell, state: Mutex::new(state) }));
        }
        args.transfer_manager = registry::insert(args.client, Manager { when, slots });
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_Destroy(args: PJRT_AsyncHostToDeviceTransferManager_Destroy_Args) {
        for slot in &registry::remove::<Manager>(args.transfer_manager)?.slots {
            let (buffer, is_complete) = slot.with(|state| (state.buffer.take(), state.is_complete));
            if !is_complete {
                let message = "the transfer manager was destroyed before all had come";
                slot.cell.fill(Err(Failure::new(sys::PJRT_Error_Code_CANCELLED, message)));
            }
            if let Some(Shared(buffer)) = buffer {
                registry::remove::<Buffer>(buffer)?;
            }
        }
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(
        args: PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args
    ) {
        let (_, slot) = slot(args.transfer_manager, args.buffer_index)?;
        let buffer = slot.with(|state| state.buffer.take());
        args.buffer_out = buffer.ok_or_else(|| Failure::invalid("the buffer was retrieved before"))?.0;
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_TransferData(
        args: PJRT_AsyncHostToDeviceTransferManager_TransferData_Args
    ) {
        let (when, slot) = slot(args.transfer_manager, args.buffer_index)?;
        let (Ok(offset), Ok(size)) = (usize::try_from(args.offset), usize::try_from(args.transfer_size)) else {
            return Err(Failure::invalid("a piece of negative size or offset"));
        };
        let is_last = args.is_last_transfer;
        if offset.checked_add(size).is_none_or(|end| end > slot.size) {
            return Err(Failure::invalid(format!("{size} bytes from {offset} of {}", slot.size)));
        }
        let was_complete = slot.with(|state| {
            let was_complete = state.is_complete;
            state.is_complete |= is_last;
            was_complete
        });
        if was_complete {
            return Err(Failure::invalid("a piece after the last one"));
        }
        let (data, done) = (Shared(args.data.cast::<u8>()), Arc::new(Signal::default()));
        args.done_with_h2d_transfer = event(&done);
        work::submit(when, move || {
            // The whole wrapper is moved to the thread, and not only the pointer in it.
            let Shared(data) = { data };
            // SAFETY: the caller keeps the piece until the event.
            let piece = unsafe { list(data, size) };
            let whole = slot.with(|state| {
                state.bytes[offset..offset + size].copy_from_slice(piece);
                is_last.then(|| std::mem::take(&mut state.bytes))
            });
            if let Some(bytes) = whole {
                slot.cell.fill(Ok(bytes));
            }
            done.set(Ok(()));
        });
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_SetBufferError(
        args: PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args
    ) {
        let (_, slot) = slot(args.transfer_manager, args.buffer_index)?;
        // SAFETY: the caller passes a text of this size.
        let message = unsafe { text(args.error_message, args.error_message_size) };
        slot.with(|state| state.is_complete = true);
        slot.cell.fill(Err(Failure::new(args.error_code, message)));
        Ok(())
    }
}
