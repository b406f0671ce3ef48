//! Sharding rules, as flags and as a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwright_partition::{RulesFile, ShardRules};

fuzz_target!(|text: &str| {
    let _ = RulesFile::parse(text, "rules.json");
    let mut rules = ShardRules::default();
    let _ = rules.push(text);
    let _ = rules.donate(text);
});
