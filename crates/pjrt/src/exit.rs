use std::ffi::c_int;

unsafe extern "C" {
    /// POSIX: ends the process without running what was registered for its end.
    fn _exit(status: c_int) -> !;
}

/// Ends the process at once, without the destructors of this library or of a plugin.
///
/// Those of a plugin that is compiling or running a program crash: they take apart what its other threads use. So
/// whoever cannot wait until a plugin is idle ends the process here, and not with [`std::process::exit`]. Buffered
/// output is lost.
pub fn exit_now(status: u8) -> ! {
    // SAFETY: the function takes any status, may be called at any time from any thread, and does not come back.
    unsafe { _exit(c_int::from(status)) }
}
