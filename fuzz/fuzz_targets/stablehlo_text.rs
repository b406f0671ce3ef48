//! Programs as text: what is read prints, and is then read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwright_hlo::parse;

fuzz_target!(|text: &str| {
    let Ok(program) = parse(text) else { return };
    let printed = program.to_string();
    let again = parse(&printed).unwrap_or_else(|error| panic!("{error}\nof what was printed:\n{printed}"));
    assert!(again == program, "{printed}\nis read as\n{again}");
    assert_eq!(again.signature(), program.signature());
});
