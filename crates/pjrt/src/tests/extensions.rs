//! The list of extensions, however a plugin keeps it.

use shardwright_pjrt_sys::Struct;

use super::*;

/// An extension that lives for as long as its plugin.
fn extension(number: u32, size: usize, next: *mut sys::PJRT_Extension_Base) -> *mut sys::PJRT_Extension_Base {
    // The list of a plugin is never freed; this one hangs on its table.
    Box::into_raw(Box::new(sys::PJRT_Extension_Base { struct_size: size, type_: number, next }))
}

#[test]
fn extensions_are_listed_in_order() {
    let session = Session::begin();
    let plugin = try_load(&session, |table| {
        table.extension_start = extension(19, 40, extension(77, 24, extension(1, 80, std::ptr::null_mut())));
    });
    let plugin = plugin.unwrap();
    let names: Vec<String> = plugin.extensions().iter().map(Extension::to_string).collect();
    assert_eq!(names, ["Shardings", "extension 77", "Profiler"]);
    plugin.require_extension(Extension::PROFILER).unwrap();
    assert_eq!(plugin.require_extension(Extension::FFI).unwrap_err().kind(), ErrorKind::MissingExtension);
    assert_eq!(load(&session).extensions(), [Extension::SHARDINGS]);
}

#[test]
fn an_extension_of_an_older_plugin_is_missing_what_is_needed() {
    let session = Session::begin();
    let list = |table: &mut sys::PJRT_Api| table.extension_start = extension(19, 32, std::ptr::null_mut());
    let plugin = try_load(&session, list).unwrap();
    assert!(plugin.api().extension(Extension::SHARDINGS, 32).is_ok());
    let error = plugin.api().extension(Extension::SHARDINGS, 40).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin lacks an extension: Shardings: fake.so, whose PJRT API is 0.81 (this program's is 0.81), has an older \
         one, of 32 bytes where 40 are needed"
    );
}

#[test]
fn a_list_that_is_broken_ends() {
    let session = Session::begin();
    let plugin = try_load(&session, |table| {
        let ring = extension(1, 24, std::ptr::null_mut());
        // SAFETY: the extension has just been made, and nobody else knows of it.
        unsafe { (*ring).next = ring };
        table.extension_start = ring;
    });
    assert!(plugin.unwrap().require_extension(Extension::FFI).is_err());

    let too_short = sys::PJRT_Extension_Base::STRUCT_SIZE - 1;
    let list = |table: &mut sys::PJRT_Api| {
        table.extension_start = extension(1, 24, extension(5, too_short, std::ptr::dangling_mut()));
    };
    assert_eq!(try_load(&session, list).unwrap().extensions(), [Extension::PROFILER]);
}
