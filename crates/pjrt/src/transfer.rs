//! Arrays of the host that become buffers, whole or in pieces.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

use shardwright_pjrt_sys::{self as sys, Args, Struct};
use shardwright_tensor::{HostArray, TensorType};

use crate::api::Handle;
use crate::error::{Error, ErrorKind};
use crate::{Buffer, Client, Event, Operation, Place, StatusCode, types};

impl Client {
    /// Copies an array to a device or memory. The array can be changed or dropped as soon as this returns.
    pub fn buffer_from_host<'p>(
        &self,
        array: &HostArray,
        place: impl Into<Place<'p>>,
    ) -> Result<Buffer, Error> {
        // The plugin lets go of the memory before it returns.
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        let data = array.bytes().as_ptr().cast();
        // SAFETY: the array is borrowed, hence neither changed nor freed, for longer than that.
        let (buffer, _done) = unsafe { self.start_copy(data, array.ty(), place.into(), semantics)? };
        Ok(buffer)
    }

    /// Copies an array to a device or memory without waiting for the copy; the array is let go of when that is done.
    pub fn buffer_from_shared<'p>(
        &self,
        array: Arc<HostArray>,
        place: impl Into<Place<'p>>,
    ) -> Result<Buffer, Error> {
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
        let data = array.bytes().as_ptr().cast();
        // SAFETY: nobody can change an array behind an `Arc`, and this one is held.
        hold(unsafe { self.start_copy(data, array.ty(), place.into(), semantics) }, array)
    }

    /// Gives an array away to a device or memory. Where the plugin computes in host memory, as CPU plugins do, the
    /// buffer is the array's own memory, and a program may write its results there; elsewhere the array is copied
    /// without waiting for the copy. The memory is freed when neither needs it.
    pub fn buffer_from_owned<'p>(
        &self,
        mut array: HostArray,
        place: impl Into<Place<'p>>,
    ) -> Result<Buffer, Error> {
        let semantics = sys::PJRT_HostBufferSemantics_kMutableZeroCopy;
        let data = array.bytes_mut().as_mut_ptr().cast_const().cast();
        // SAFETY: nobody else has the array, which is held; moving it does not move its memory.
        hold(unsafe { self.start_without_copy(data, array.ty(), place.into(), semantics) }, array)
    }

    /// Lends an array to a device or memory. Where the plugin computes in host memory, any number of buffers share the
    /// array's own memory, to which no program writes; elsewhere this is [`Client::buffer_from_shared`]. The array is
    /// let go of when the buffer, or the copy, needs it no longer.
    pub fn buffer_sharing<'p>(
        &self,
        array: Arc<HostArray>,
        place: impl Into<Place<'p>>,
    ) -> Result<Buffer, Error> {
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableZeroCopy;
        let data = array.bytes().as_ptr().cast();
        // SAFETY: nobody can change an array behind an `Arc`, and this one is held.
        hold(unsafe { self.start_without_copy(data, array.ty(), place.into(), semantics) }, array)
    }

    /// Asks for a buffer that is the host's memory, or copies where the plugin does not know such a thing.
    ///
    /// # Safety
    ///
    /// As for [`Client::start_copy`].
    unsafe fn start_without_copy(
        &self,
        data: *const c_void,
        ty: &TensorType,
        place: Place<'_>,
        semantics: sys::PJRT_HostBufferSemantics,
    ) -> Result<(Buffer, Event), Error> {
        // SAFETY: the caller's contract.
        match unsafe { self.start_copy(data, ty, place, semantics) } {
            Err(error) if error.is_unimplemented() || error.code() == Some(StatusCode::InvalidArgument) => {
                let semantics = sys::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
                // SAFETY: the caller's contract, which asks for more than this does.
                unsafe { self.start_copy(data, ty, place, semantics) }
            }
            result => result,
        }
    }

    /// # Safety
    ///
    /// `data` is row-major and fills the type, and it is neither changed nor freed before the plugin is done with it,
    /// as `semantics` says.
    unsafe fn start_copy(
        &self,
        data: *const c_void,
        ty: &TensorType,
        place: Place<'_>,
        semantics: sys::PJRT_HostBufferSemantics,
    ) -> Result<(Buffer, Event), Error> {
        const FUNCTION: &str = sys::PJRT_Client_BufferFromHostBuffer_Args::FUNCTION;
        let place = self.raw_place(place, "copy from host")?;
        let dims = types::raw_dims(ty);
        let _timer = self.counters().time(Operation::ToDevice, ty.byte_count());
        let args = sys::PJRT_Client_BufferFromHostBuffer_Args {
            client: self.raw(),
            data,
            type_: types::to_raw(ty.dtype),
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            host_buffer_semantics: semantics,
            device: place.device,
            memory: place.memory,
            ..Struct::new()
        };
        // SAFETY: the data fill the shape and are row-major, which no strides mean; they are valid for long
        // enough by the caller's contract. Client and place are alive, and `dims` is during the call.
        let args = unsafe { self.api().call(args)? };
        // SAFETY: the caller owns both objects.
        unsafe {
            let buffer = Handle::new(self.api(), args.buffer, FUNCTION);
            let done = Event::new(self, args.done_with_host_buffer, FUNCTION);
            let ty = Arc::new(ty.clone());
            Ok((Buffer::new(buffer?, ty, place.at(), self.clone()), done?))
        }
    }
}

/// A buffer that is filled piece by piece, so that the host never holds the whole array.
///
/// ```no_run
/// # use shardwright_pjrt::{Client, Error};
/// # use shardwright_tensor::{DType, TensorType};
/// # fn upload(client: &Client, ty: &TensorType, pieces: impl Iterator<Item = Vec<u8>>) -> Result<(), Error> {
/// let mut upload = client.upload(ty, &client.devices()[0])?;
/// for piece in pieces {
///     upload.write(piece)?;
/// }
/// let buffer = upload.finish()?;
/// # Ok(())
/// # }
/// ```
pub struct Upload {
    manager: Handle<sys::PJRT_AsyncHostToDeviceTransferManager>,
    /// There from the beginning, and ready after the last piece.
    buffer: Buffer,
    written: usize,
    in_flight: VecDeque<Event>,
    /// Why a piece has not arrived, after which nothing can be made good.
    failure: Option<Error>,
}

const UPLOAD: &str = "upload";

/// How many pieces an upload holds at most: one is on its way while the next is made ready.
const PIECES_IN_FLIGHT: usize = 2;

impl Client {
    /// Begins to fill a new buffer, piece by piece.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] where arrays of this type do not lie row by row on the device, so that there are no
    /// pieces of them; and when the plugin has not got the memory.
    pub fn upload<'p>(&self, ty: &TensorType, place: impl Into<Place<'p>>) -> Result<Upload, Error> {
        let place = self.raw_place(place.into(), UPLOAD)?;
        let device = &self.devices()[place.device_index];
        let no_memory = || Error::new(ErrorKind::Unsupported, UPLOAD, format!("{device} knows no memories"));
        let memory = match place.memory {
            memory if memory.is_null() => device.default_memory().ok_or_else(no_memory)?.raw(),
            memory => memory,
        };
        let dims = types::raw_dims(ty);
        let mut shape = sys::PJRT_ShapeSpec {
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            element_type: types::to_raw(ty.dtype),
            ..Struct::new()
        };
        let args = sys::PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
            client: self.raw(),
            shape_specs: &mut shape,
            num_shape_specs: 1,
            memory,
            ..Struct::new()
        };
        // SAFETY: client and memory are alive, the shape is during the call, and the caller owns the manager, of which
        // the only buffer is retrieved once, and belongs to the caller then.
        let (manager, buffer) = unsafe {
            let function = sys::PJRT_Client_CreateBuffersForAsyncHostToDevice_Args::FUNCTION;
            let manager = Handle::new(self.api(), self.api().call(args)?.transfer_manager, function)?;
            let args = sys::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
                transfer_manager: manager.raw(),
                ..Struct::new()
            };
            let function = sys::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args::FUNCTION;
            let buffer = Handle::new(self.api(), self.api().call(args)?.buffer_out, function)?;
            (manager, Buffer::new(buffer, Arc::new(ty.clone()), place.at(), self.clone()))
        };
        let upload = Upload { manager, buffer, written: 0, in_flight: VecDeque::new(), failure: None };
        upload.buffer.check_row_major(UPLOAD)?;
        Ok(upload)
    }
}

impl Upload {
    /// The type of the array.
    pub fn ty(&self) -> &TensorType {
        self.buffer.ty()
    }

    /// How many bytes have been handed over.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Hands over the next bytes of the row-major array, of any number. Waits, if need be, until the piece before the
    /// last has arrived, so the host holds no more than two pieces and what the caller is at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] when the array is not as large; and the failure of this or an earlier piece, which is that
    /// of all later calls too.
    pub fn write(&mut self, piece: Vec<u8>) -> Result<(), Error> {
        self.failure.clone().map_or(Ok(()), Err)?;
        let (len, size) = (piece.len(), self.ty().byte_count());
        if len > size - self.written {
            let message = format!("{} takes {size} bytes, got {len} after {}", self.ty(), self.written);
            return Err(Error::refused(UPLOAD, message));
        }
        let sent = self.make_room().and_then(|()| if len == 0 { Ok(()) } else { self.send(piece) });
        sent.inspect_err(|error| self.failure = Some(error.clone()))
    }

    /// Waits until fewer pieces are under way than may be.
    fn make_room(&mut self) -> Result<(), Error> {
        self.check()?;
        while self.in_flight.len() >= PIECES_IN_FLIGHT {
            self.in_flight.pop_front().map_or(Ok(()), |oldest| oldest.wait())?;
        }
        Ok(())
    }

    /// The failure of an earlier piece, as far as it is known by now.
    fn check(&self) -> Result<(), Error> {
        self.failure.clone().map_or(Ok(()), Err)?;
        for event in &self.in_flight {
            if event.is_ready()? {
                event.wait()?;
            }
        }
        Ok(())
    }

    /// Ends the upload: the buffer, which may still be waiting for the last pieces.
    ///
    /// # Errors
    ///
    /// The failure of a piece, as far as it is known by now; [`ErrorKind::Refused`] when bytes are missing.
    pub fn finish(mut self) -> Result<Buffer, Error> {
        self.check()?;
        let (size, written) = (self.ty().byte_count(), self.written);
        if written != size {
            let message = format!("{} takes {size} bytes, only {written} were written", self.ty());
            return Err(Error::refused(UPLOAD, message));
        }
        if size == 0 {
            self.send(Vec::new())?;
        }
        Ok(self.buffer)
    }

    fn send(&mut self, piece: Vec<u8>) -> Result<(), Error> {
        let len = piece.len();
        let client = self.buffer.client().clone();
        let _timer = client.counters().time(Operation::ToDevice, len);
        let args = sys::PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
            transfer_manager: self.manager.raw(),
            data: piece.as_ptr().cast(),
            // Both fit: they are inside an array.
            offset: self.written as i64,
            transfer_size: len as i64,
            is_last_transfer: self.written + len == self.ty().byte_count(),
            ..Struct::new()
        };
        // SAFETY: the manager is alive, the piece is inside the array and held until the event, which the caller owns.
        let event = unsafe {
            let args = self.manager.api().call(args)?;
            let function = sys::PJRT_AsyncHostToDeviceTransferManager_TransferData_Args::FUNCTION;
            Event::new(self.buffer.client(), args.done_with_h2d_transfer, function)
        };
        let event = hold(event.map(|event| (event.clone(), event)), piece)?;
        self.in_flight.push_back(event);
        self.written += len;
        Ok(())
    }
}

/// Keeps `held`, whose memory a transfer uses, until the transfer's event; for ever if the plugin has given none, or
/// takes no callback for it. Whether the transfer went well, others tell.
fn hold<T, H: Send + 'static>(started: Result<(T, Event), Error>, held: H) -> Result<T, Error> {
    match started {
        Ok((value, done)) => {
            done.on_ready(move |_| drop(held))?;
            Ok(value)
        }
        Err(error) => {
            if error.kind() == ErrorKind::BrokenContract {
                std::mem::forget(held);
            }
            Err(error)
        }
    }
}
