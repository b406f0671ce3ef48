//! Programs of any form: what they are, seen from the outside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwright_runtime::compile::ForeignProgram;

fuzz_target!(|bytes: &[u8]| {
    let _ = ForeignProgram::recognise(bytes);
});
