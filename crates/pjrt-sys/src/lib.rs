//! Raw bindings to the PJRT C API.
