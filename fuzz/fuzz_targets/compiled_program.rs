//! Optimized programs, as plugins return them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwright_hlo::compiled::CompiledProgram;

fuzz_target!(|bytes: &[u8]| {
    let _ = CompiledProgram::parse("hlo", bytes);
    let _ = CompiledProgram::parse("hlo_with_config", bytes);
});
