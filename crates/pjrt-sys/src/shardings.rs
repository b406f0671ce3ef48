//! The Shardings extension, which is younger than the header that the bindings come from: it came with API 0.91.
//!
//! Written after its description, and compared with plugins that have it by a test of the safe crate.

use crate::{PJRT_Error, PJRT_Executable, PJRT_Extension_Base};

/// The extension's functions; a plugin may leave either null.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct PJRT_Shardings_Extension {
    /// Size, type, and the next extension.
    pub base: PJRT_Extension_Base,
    /// Gives the shardings of the parameters.
    pub PJRT_Shardings_PJRT_Executable_ParameterShardings: PJRT_Shardings_Function,
    /// Gives the shardings of the results.
    pub PJRT_Shardings_PJRT_Executable_OutputShardings: PJRT_Shardings_Function,
}

/// A function of the extension.
pub type PJRT_Shardings_Function =
    Option<unsafe extern "C" fn(args: *mut PJRT_Shardings_Executable_Args) -> *mut PJRT_Error>;

/// What both functions take: the header has two structs for it, which differ in the name of one field.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct PJRT_Shardings_Executable_Args {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions of the call.
    pub extension_start: *mut PJRT_Extension_Base,
    /// The executable that is asked.
    pub executable: *mut PJRT_Executable,
    /// Out: the number of parameters or results.
    pub num_shardings: usize,
    /// Out: a serialized `OpSharding` for each; null where they are not known.
    pub shardings: *const *const std::ffi::c_char,
    /// Out: their lengths.
    pub sharding_sizes: *const usize,
}

pub(crate) const PJRT_Shardings_Executable_Args_STRUCT_SIZE: usize =
    size_of::<PJRT_Shardings_Executable_Args>();

structs! {
    PJRT_Shardings_Executable_Args: PJRT_Shardings_Executable_Args_STRUCT_SIZE,
}
