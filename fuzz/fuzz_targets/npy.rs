//! NumPy's arrays: a header, and the elements that it promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwright_tensor::NpyHeader;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = NpyHeader::parse(bytes)
        && let Some(elements) = bytes.get(header.len()..)
    {
        let _ = header.array(elements);
    }
});
