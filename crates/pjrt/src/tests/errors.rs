//! What a plugin lacks, and what it reports.

use std::mem::offset_of;

use super::*;

#[track_caller]
fn check(error: Error, kind: ErrorKind, text: &str) {
    assert_eq!(error.to_string(), text);
    assert_eq!(error.kind(), kind);
}

#[test]
fn five_ways_not_to_have_something_are_five_errors() {
    let session = Session::begin();
    let no_client = |change: fn(&mut sys::PJRT_Api)| {
        let plugin = try_load(&session, change).unwrap();
        Client::new(&plugin, &ClientOptions::default()).unwrap_err()
    };
    check(
        try_load(&session, |table| table.struct_size = 39).unwrap_err(),
        ErrorKind::TruncatedTable,
        "plugin's function table is cut short: fake.so: it has 39 bytes, too few to state a version",
    );
    check(
        try_load(&session, |table| table.pjrt_api_version.major_version = 2).unwrap_err(),
        ErrorKind::IncompatibleApi,
        "plugin has an incompatible API: fake.so: its PJRT API is 2.81, this program's is 0.81; a plugin with API \
         0.x is needed",
    );
    check(
        no_client(|table| {
            table.pjrt_api_version.minor_version = 51;
            table.struct_size = offset_of!(sys::PJRT_Api, PJRT_Client_Create);
        }),
        ErrorKind::MissingFunction,
        "plugin is too old for a function: PJRT_Client_Create: fake.so, whose PJRT API is 0.51 (this program's is 0.81), \
         has a table that ends before it",
    );
    check(
        no_client(|table| table.PJRT_Client_Create = None),
        ErrorKind::NullFunction,
        "plugin leaves out a function: PJRT_Client_Create: fake.so, whose PJRT API is 0.81 (this program's is 0.81), \
         leaves its place in the table null",
    );
    check(
        load(&session).require_extension(Extension::PROFILER).unwrap_err(),
        ErrorKind::MissingExtension,
        "plugin lacks an extension: Profiler: fake.so, whose PJRT API is 0.81 (this program's is 0.81), does not list it",
    );
    assert_eq!(session.calls("PJRT_Client_Create"), 0);
}

#[test]
fn a_table_that_ends_inside_a_function_does_not_have_it() {
    let session = Session::begin();
    let place = offset_of!(sys::PJRT_Api, PJRT_Plugin_Initialize);
    for size in place..place + 8 {
        let error = try_load(&session, |table| table.struct_size = size).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingFunction);
    }
    try_load(&session, |table| table.struct_size = place + 8).unwrap();
}

#[test]
fn missing_functions_are_listed() {
    let session = Session::begin();
    let missing = |change: fn(&mut sys::PJRT_Api)| try_load(&session, change).unwrap().missing_functions();
    let not_in_the_fake = missing(|_| ());
    assert!(!not_in_the_fake.contains(&"PJRT_Client_Create"));
    assert!(not_in_the_fake.contains(&"PJRT_Client_DmaMap"));

    let with_null = missing(|table| table.PJRT_Error_Message = None);
    assert_eq!(with_null, [&["PJRT_Error_Message"], not_in_the_fake.as_slice()].concat());

    let old = missing(|table| table.struct_size = offset_of!(sys::PJRT_Api, PJRT_Event_IsReady));
    assert_eq!(old[0], "PJRT_Event_IsReady");
    assert_eq!(old.last(), Some(&"PJRT_LoadedExecutable_GetDeviceAssignment"));
}

#[test]
fn newer_tables_are_taken() {
    let session = Session::begin();
    let plugin = try_load(&session, |table| {
        table.struct_size += 240;
        table.pjrt_api_version.minor_version = 111;
    });
    assert_eq!(plugin.unwrap().api_version(), (0, 111));
}

#[test]
fn a_table_is_initialized_once_and_again_after_a_failure() {
    let session = Session::begin();
    let table = session.table(|_| ());
    // SAFETY: the session's tables live for ever.
    let load = |path: &str| unsafe { Plugin::from_table(Path::new(path), table) };
    session.fail("PJRT_Plugin_Initialize", 10, "the device is in use");
    check(
        load(FILE).unwrap_err(),
        ErrorKind::Status(StatusCode::Aborted),
        "aborted: PJRT_Plugin_Initialize: the device is in use",
    );
    session.fail("PJRT_Plugin_Initialize", 0, "");
    let plugin = load(FILE).unwrap();
    let again = load("link.so").unwrap();
    assert_eq!(again.path(), plugin.path());
    assert_eq!(session.calls("PJRT_Plugin_Initialize"), 2);
}

#[test]
fn each_status_has_its_code_and_errors_are_freed() {
    let session = Session::begin();
    let plugin = load(&session);
    let codes = [
        (1, StatusCode::Cancelled, "cancelled"),
        (2, StatusCode::Unknown, "unknown error"),
        (3, StatusCode::InvalidArgument, "invalid argument"),
        (4, StatusCode::DeadlineExceeded, "deadline exceeded"),
        (5, StatusCode::NotFound, "not found"),
        (6, StatusCode::AlreadyExists, "already exists"),
        (7, StatusCode::PermissionDenied, "permission denied"),
        (8, StatusCode::ResourceExhausted, "resource exhausted"),
        (9, StatusCode::FailedPrecondition, "failed precondition"),
        (10, StatusCode::Aborted, "aborted"),
        (11, StatusCode::OutOfRange, "out of range"),
        (12, StatusCode::Unimplemented, "unimplemented"),
        (13, StatusCode::Internal, "internal error"),
        (14, StatusCode::Unavailable, "unavailable"),
        (15, StatusCode::DataLoss, "data loss"),
        (16, StatusCode::Unauthenticated, "unauthenticated"),
        (17, StatusCode::Unknown, "unknown error"),
    ];
    for (number, code, text) in codes {
        let options = ClientOptions::default().with("fail", i64::from(number));
        let error = Client::new(&plugin, &options).unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert_eq!(error.to_string(), format!("{text}: PJRT_Client_Create: told to fail"));
        assert_eq!(session.live(), Default::default());
    }
}

#[test]
fn attributes_are_read_but_for_those_of_unknown_types() {
    let session = Session::begin();
    let attributes = [
        ("integer", NamedValue::from(-7)),
        ("number", 0.5.into()),
        ("stablehlo_current_version", vec![1, 2, 3].into()),
        ("truth", true.into()),
        ("words", "a plugin for tests".into()),
    ];
    let expected = attributes.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(load(&session).attributes().unwrap(), expected);
}

#[test]
fn attributes_that_a_plugin_does_not_implement_are_none() {
    let session = Session::begin();
    let plugin = load(&session);
    session.fail("PJRT_Plugin_Attributes", 12, "not here");
    assert_eq!(plugin.attributes(), Ok(Vec::new()));
    session.fail("PJRT_Plugin_Attributes", 13, "broken");
    assert_eq!(plugin.attributes().unwrap_err().message(), "broken");
}

#[test]
fn errors_about_errors_are_freed_too() {
    unsafe extern "C" fn no_code(args: *mut sys::PJRT_Error_GetCode_Args) -> *mut sys::PJRT_Error {
        // SAFETY: a struct that is too short is refused with a new error, whatever else is in it.
        unsafe {
            (*args).struct_size = 0;
            sys::entry!(shardwright_pjrt_fake::GetPjrtApi(), PJRT_Error_GetCode).unwrap()(args)
        }
    }
    let session = Session::begin();
    let plugin = try_load(&session, |table| table.PJRT_Error_GetCode = Some(no_code)).unwrap();
    let error = Client::new(&plugin, &ClientOptions::default().with("fail", 8)).unwrap_err();
    check(error, ErrorKind::Status(StatusCode::Unknown), "unknown error: PJRT_Client_Create: told to fail");
}

#[test]
fn without_the_functions_that_read_errors_there_is_an_error_still() {
    let session = Session::begin();
    let plugin = try_load(&session, |table| {
        (table.PJRT_Error_GetCode, table.PJRT_Error_Message) = (None, None);
    });
    let error = Client::new(&plugin.unwrap(), &ClientOptions::default().with("fail", 8)).unwrap_err();
    check(error, ErrorKind::Status(StatusCode::Unknown), "unknown error: PJRT_Client_Create: ");
}

#[test]
fn an_error_while_a_client_is_looked_at_frees_the_client() {
    let session = Session::begin();
    for function in
        ["PJRT_Client_PlatformName", "PJRT_Client_Devices", "PJRT_DeviceDescription_Id", "PJRT_Memory_Kind"]
    {
        session.fail(function, 13, "no");
        let error = Client::new(&load(&session), &ClientOptions::default()).unwrap_err();
        assert_eq!(error.context(), function);
        assert_eq!(session.live(), Default::default());
    }
}

#[test]
fn an_error_of_a_destructor_goes_nowhere() {
    let session = Session::begin();
    let client = client(&session, 1, "now");
    let buffers = put(&client, &[1.]);
    session.fail("PJRT_Buffer_Destroy", 13, "no");
    drop(buffers);
    drop(client);
    // The fake has kept the buffer and noticed that the client went before it.
    assert_eq!(session.live().into_iter().collect::<Vec<_>>(), [("buffer", 1)]);
    assert_eq!(session.violations(), ["client destroyed before its buffer"]);
    session.forget();
}

#[test]
fn options_of_each_type_reach_the_plugin() {
    let session = Session::begin();
    let error =
        |options: ClientOptions| Client::new(&load(&session), &options).unwrap_err().message().to_owned();
    let devices = ClientOptions::default().with("devices", 2);
    assert_eq!(error(devices.clone().with("colour", vec![1, 2])), "Unknown option: colour");
    assert_eq!(error(ClientOptions::default().with("devices", "two")), "the option takes an integer");
    assert_eq!(error(devices.with("events", true)), "the option takes a text");
}
