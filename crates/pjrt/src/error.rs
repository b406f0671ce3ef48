use std::fmt;

use serde::{Deserialize, Serialize};

/// What went wrong in loading a plugin, in calling it, or in what it was asked to do.
///
/// Printed as `kind: where: message`, for instance
/// `invalid argument: PJRT_Client_Create: Unknown option: cpu_devices`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{kind}: {context}: {message}")]
pub struct Error {
    kind: ErrorKind,
    context: String,
    message: String,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no file at the plugin's path.
    PluginNotFound,
    /// The plugin's path is a folder.
    PluginIsFolder,
    /// The plugin's file is no shared library.
    NotALibrary,
    /// The plugin is a library for another kind of processor.
    OtherArchitecture,
    /// The plugin's file ends before the library in it does.
    TruncatedLibrary,
    /// A library that the plugin needs cannot be loaded; the message names it.
    MissingDependency,
    /// The system's loader refuses the plugin; the message is the loader's.
    LoaderRefused,
    /// The library is no PJRT plugin: it has no function `GetPjrtApi`.
    NoEntryPoint,
    /// The plugin's `GetPjrtApi` returned nothing.
    NoApi,
    /// The plugin's function table is too short to state its version.
    TruncatedTable,
    /// The plugin's API has another major version.
    IncompatibleApi,
    /// The plugin is older than the function: its table ends before it.
    MissingFunction,
    /// The plugin knows of the function and leaves it out: its place in the table is null.
    NullFunction,
    /// The plugin does not offer the extension of the API.
    MissingExtension,
    /// The plugin broke the rules of the API, for instance by returning null for an object.
    BrokenContract,
    /// The request is wrong, and was refused before the plugin saw it.
    Refused,
    /// The plugin deals in something that this library has no type for.
    Unsupported,
    /// The plugin reported this status.
    Status(StatusCode),
}

macro_rules! status_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The status codes of PJRT, which are those of Abseil and gRPC.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum StatusCode {
            $($(#[$doc])* $name,)*
        }

        impl StatusCode {
            /// The code with this number; a number that is none means [`StatusCode::Unknown`].
            pub(crate) fn from_raw(number: u32) -> StatusCode {
                match number {
                    $($number => StatusCode::$name,)*
                    _ => StatusCode::Unknown,
                }
            }

            /// The code's number in PJRT.
            pub(crate) fn number(self) -> u32 {
                match self {
                    $(StatusCode::$name => $number,)*
                }
            }
        }

        impl fmt::Display for StatusCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(StatusCode::$name => $text,)*
                })
            }
        }
    };
}

status_codes! {
    /// The caller cancelled the operation.
    Cancelled = 1, "cancelled";
    /// Nothing more is known.
    Unknown = 2, "unknown error";
    /// The request is wrong whatever the state of the system.
    InvalidArgument = 3, "invalid argument";
    /// Time ran out.
    DeadlineExceeded = 4, "deadline exceeded";
    /// Something that was asked for does not exist.
    NotFound = 5, "not found";
    /// Something that was to be created exists.
    AlreadyExists = 6, "already exists";
    /// The caller may not do this.
    PermissionDenied = 7, "permission denied";
    /// Memory, or another resource, ran out.
    ResourceExhausted = 8, "resource exhausted";
    /// The system is not in the state that the request needs.
    FailedPrecondition = 9, "failed precondition";
    /// The operation was aborted; a higher level may retry.
    Aborted = 10, "aborted";
    /// The request went past the valid range.
    OutOfRange = 11, "out of range";
    /// The plugin does not implement the operation.
    Unimplemented = 12, "unimplemented";
    /// An invariant of the plugin is broken.
    Internal = 13, "internal error";
    /// The service is unavailable for now.
    Unavailable = 14, "unavailable";
    /// Data were lost or damaged.
    DataLoss = 15, "data loss";
    /// The caller has not authenticated.
    Unauthenticated = 16, "unauthenticated";
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::PluginNotFound => "plugin not found",
            ErrorKind::PluginIsFolder => "plugin is a folder",
            ErrorKind::NotALibrary => "plugin is not a shared library",
            ErrorKind::OtherArchitecture => "plugin is for another processor",
            ErrorKind::TruncatedLibrary => "plugin's file is cut short",
            ErrorKind::MissingDependency => "plugin needs a library that cannot be loaded",
            ErrorKind::LoaderRefused => "plugin cannot be loaded",
            ErrorKind::NoEntryPoint => "not a PJRT plugin",
            ErrorKind::NoApi => "plugin has no API",
            ErrorKind::TruncatedTable => "plugin's function table is cut short",
            ErrorKind::IncompatibleApi => "plugin has an incompatible API",
            ErrorKind::MissingFunction => "plugin is too old for a function",
            ErrorKind::NullFunction => "plugin leaves out a function",
            ErrorKind::MissingExtension => "plugin lacks an extension",
            ErrorKind::BrokenContract => "plugin broke its contract",
            ErrorKind::Refused => "refused",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Status(code) => return code.fmt(f),
        })
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>, message: impl Into<String>) -> Error {
        Error { kind, context: context.into(), message: message.into() }
    }

    pub(crate) fn refused(context: impl Into<String>, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused, context, message)
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The status that the plugin reported, if the error comes from the plugin.
    pub fn code(&self) -> Option<StatusCode> {
        match self.kind {
            ErrorKind::Status(code) => Some(code),
            _ => None,
        }
    }

    /// Where it happened: the function of the C API, the operation of this library, or the plugin's path.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// What happened; in the plugin's or the loader's own words where they said it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the plugin simply does not offer what was asked for.
    pub fn is_unimplemented(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::MissingFunction
                | ErrorKind::NullFunction
                | ErrorKind::MissingExtension
                | ErrorKind::Status(StatusCode::Unimplemented)
        )
    }
}

/// The value, or `None` where the plugin does not offer it.
pub(crate) fn if_implemented<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_unimplemented() => Ok(None),
        Err(error) => Err(error),
    }
}
