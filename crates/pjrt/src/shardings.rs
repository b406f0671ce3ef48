//! How the arguments and results of a compiled program are cut, which plugins tell through an extension.
//!
//! They are passed on as they come: what a sharding means, crates above this one know.

use shardwright_pjrt_sys::{self as sys, Struct};

use crate::Extension;
use crate::api::{Api, blobs};
use crate::error::Error;

/// # Safety
///
/// The executable is alive and of this plugin.
pub(crate) unsafe fn of_parameters(
    api: Api,
    executable: *mut sys::PJRT_Executable,
) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let Some(extension) = extension(api) else { return Ok(None) };
    let function = extension.PJRT_Shardings_PJRT_Executable_ParameterShardings;
    // SAFETY: the caller's contract.
    unsafe { ask(api, "PJRT_Shardings_PJRT_Executable_ParameterShardings", function, executable) }
}

/// # Safety
///
/// The executable is alive and of this plugin.
pub(crate) unsafe fn of_outputs(
    api: Api,
    executable: *mut sys::PJRT_Executable,
) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let Some(extension) = extension(api) else { return Ok(None) };
    let function = extension.PJRT_Shardings_PJRT_Executable_OutputShardings;
    // SAFETY: the caller's contract.
    unsafe { ask(api, "PJRT_Shardings_PJRT_Executable_OutputShardings", function, executable) }
}

fn extension(api: Api) -> Option<sys::PJRT_Shardings_Extension> {
    let size = size_of::<sys::PJRT_Shardings_Extension>();
    let extension = api.extension(Extension::SHARDINGS, size).ok()?;
    // SAFETY: an extension of this type that is at least as large has these fields, and lives as long as the process.
    Some(unsafe { extension.cast().read() })
}

/// # Safety
///
/// The function is one of the plugin's Shardings extension, and the executable is alive and of this plugin.
unsafe fn ask(
    api: Api,
    name: &'static str,
    function: sys::PJRT_Shardings_Function,
    executable: *mut sys::PJRT_Executable,
) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let Some(function) = function else { return Ok(None) };
    let args = sys::PJRT_Shardings_Executable_Args { executable, ..Struct::new() };
    // SAFETY: the caller's contract; the lists live as long as the executable, and are copied.
    unsafe {
        let args = api.call_function(name, function, args)?;
        if args.shardings.is_null() || args.sharding_sizes.is_null() {
            return Ok(None);
        }
        let shardings = blobs(args.shardings, args.sharding_sizes, args.num_shardings);
        Ok(Some(shardings.map(<[u8]>::to_vec).collect()))
    }
}
