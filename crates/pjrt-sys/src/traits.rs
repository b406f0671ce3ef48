use crate::{PJRT_Api, PJRT_Error};

/// A struct that starts with `struct_size`, by which each side knows how many fields the other one has.
///
/// # Safety
///
/// The value of all zero bits is valid.
pub unsafe trait Struct: Sized {
    /// The header's `…_STRUCT_SIZE`: where the last field ends.
    ///
    /// It is smaller than `size_of` where padding follows, and plugins compare with this number.
    const STRUCT_SIZE: usize;

    /// The struct with nothing but its size filled in; to be completed with `..Struct::new()`.
    fn new() -> Self;
}

/// The argument struct of one function of [`PJRT_Api`], and through it that function.
///
/// # Safety
///
/// [`Args::function`] reads nothing behind the end that the plugin states for its table.
pub unsafe trait Args: Struct {
    /// The function's name.
    const FUNCTION: &'static str;

    /// Where the function stands in the table, in bytes.
    const OFFSET: usize;

    /// The function, where the plugin has it: the table of an older plugin ends earlier, and entries can be
    /// null.
    ///
    /// # Safety
    ///
    /// `api` points to the function table of a loaded plugin.
    unsafe fn function(api: *const PJRT_Api) -> Option<unsafe extern "C" fn(*mut Self) -> *mut PJRT_Error>;
}

/// The entry of this name in the function table at `$api`; `None` where the table ends before it or it is null.
///
/// The caller vouches, in an `unsafe` block, that `$api` points to the function table of a loaded plugin.
#[macro_export]
macro_rules! entry {
    ($api:expr, $name:ident) => {{
        let api: *const $crate::PJRT_Api = $api;
        let end = ::std::mem::offset_of!($crate::PJRT_Api, $name) + ::std::mem::size_of::<$crate::$name>();
        // Through raw places only: no reference may cover a table that is shorter than the type.
        if (&raw const (*api).struct_size).read() < end { None } else { (&raw const (*api).$name).read() }
    }};
}

macro_rules! structs {
    ($($name:ident: $size:ident,)*) => {$(
        // SAFETY: the fields are integers, floats, booleans, raw pointers, nullable function pointers and
        // structs and unions of these, for all of which zero is a value.
        unsafe impl $crate::Struct for $name {
            const STRUCT_SIZE: usize = $size as usize;

            fn new() -> Self {
                // SAFETY: zero is a value, see above.
                let zeroed = unsafe { ::std::mem::zeroed::<Self>() };
                Self { struct_size: Self::STRUCT_SIZE, ..zeroed }
            }
        }
    )*};
}

macro_rules! functions {
    ($($name:ident($args:ident),)*) => {
        /// The functions of [`PJRT_Api`] in the order of the header, each with its offset in bytes.
        pub const FUNCTIONS: &[(&str, usize)] = &[
            // These two return no error, so they have no `Args`.
            ("PJRT_Error_Destroy", ::std::mem::offset_of!(PJRT_Api, PJRT_Error_Destroy)),
            ("PJRT_Error_Message", ::std::mem::offset_of!(PJRT_Api, PJRT_Error_Message)),
            $((stringify!($name), ::std::mem::offset_of!(PJRT_Api, $name)),)*
        ];

        $(
        // SAFETY: `entry!` compares with the size that the plugin states.
        unsafe impl $crate::Args for $args {
            const FUNCTION: &'static str = stringify!($name);
            const OFFSET: usize = ::std::mem::offset_of!(PJRT_Api, $name);

            unsafe fn function(
                api: *const PJRT_Api,
            ) -> Option<unsafe extern "C" fn(*mut Self) -> *mut PJRT_Error> {
                // SAFETY: the caller vouches for `api`.
                unsafe { $crate::entry!(api, $name) }
            }
        }
        )*
    };
}
