//! Times the way from a text file to blocks of token ids, against the tokenizer alone.
//!
//! `cargo bench -p shardwright-data --bench tokenize -- bare|blocks FILE TOKENIZER [CACHE]` prints one line of JSON. `bare`
//! calls `encode_batch_fast` of the `tokenizers` library on 1000 lines at a time, which lie in memory; `blocks` reads,
//! tokenizes, groups and writes, to the folder CACHE if there is one. On Linux, the time of all processors and the most
//! memory are there too, which other work on the machine changes less.

#![expect(clippy::print_stdout, reason = "a benchmark shows what it measured")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;
use shardwright_data::{BlockOptions, Corpus, CorpusOptions, TokenCache, Tokenizer};

const BLOCK_SIZE: usize = 256;
const ROWS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds a flag of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [mode, file, tokenizer, rest @ ..] = arguments.as_slice() else {
        return Err("expected: bare|blocks FILE TOKENIZER [CACHE]".into());
    };
    let bytes = std::fs::metadata(file)?.len();
    let (start, cpu_start, tokens, blocks);
    match mode.as_str() {
        "bare" => {
            let tokenizer = tokenizers::Tokenizer::from_file(tokenizer).map_err(|e| e.to_string())?;
            let text = std::fs::read_to_string(file)?;
            let rows: Vec<&str> = text.split_inclusive('\n').collect();
            (start, cpu_start) = (Instant::now(), cpu_seconds());
            let mut count = 0;
            for rows in rows.chunks(ROWS) {
                let encoded = tokenizer.encode_batch_fast(rows.to_vec(), true).map_err(|e| e.to_string())?;
                count += encoded.iter().map(|encoding| encoding.len()).sum::<usize>();
            }
            (tokens, blocks) = (count, None);
        }
        "blocks" => {
            let tokenizer = Tokenizer::from_file(tokenizer)?;
            let cache = rest.first().map_or(TokenCache::none(), TokenCache::in_folder);
            (start, cpu_start) = (Instant::now(), cpu_seconds());
            let corpus = Corpus::open(&[PathBuf::from(file)], CorpusOptions::default())?;
            let made = cache.blocks(&corpus, &tokenizer, &BlockOptions::new(BLOCK_SIZE), &mut |_| ())?;
            (tokens, blocks) = (made.total_tokens(), Some(made.num_blocks()));
        }
        _ => return Err(format!("no mode {mode}: expected bare or blocks").into()),
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu = cpu_start.and_then(|before| Some(cpu_seconds()? - before));
    let line = json!({
        "mode": mode, "seconds": seconds, "cpu_seconds": cpu, "megabytes_per_second": bytes as f64 / 1e6 / seconds,
        "tokens": tokens, "blocks": blocks, "most_memory_megabytes": most_memory_megabytes(),
    });
    println!("{line}");
    Ok(())
}

/// Seconds that processors worked for this process so far, where the system tells.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may hold anything. User and system time are the 12th and 13th behind it.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn most_memory_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? / 1000)
}
