//! Which flags a plugin knows, as far as its file tells.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;

use memchr::memmem::Finder;

use crate::error::Problem;
use crate::ordinary_file;

/// What the names of XLA's flags begin with.
const PREFIX: &str = "xla_";
/// Bytes that are searched at a time.
const CHUNK: usize = 1 << 20;
/// No name of a flag is longer; so much is searched again with the next chunk.
const LONGEST: usize = 256;
/// How alike two names are at least when one is taken for the other.
const ALIKE: f64 = 0.85;

/// Words in the file of a plugin that can be names of flags.
///
/// The code that registers a flag needs its name as a string of its own, so a flag whose name is not in the file does
/// not exist. Not each name here is that of a flag.
pub(super) struct FlagNames(BTreeSet<String>);

impl FlagNames {
    /// Searches a file for XLA's names and for those that are `asked` for.
    pub(super) fn read(file: &Path, asked: &[&str]) -> io::Result<FlagNames> {
        FlagNames::search(ordinary_file::open(file)?, asked)
    }

    fn search(mut file: impl Read, asked: &[&str]) -> io::Result<FlagNames> {
        let others = asked.iter().filter(|name| !name.starts_with(PREFIX));
        let finders: Vec<Finder<'_>> = [PREFIX].iter().chain(others).map(Finder::new).collect();
        let mut names = BTreeSet::new();
        // Begins with a byte that belongs to no word, as what is before the file.
        let mut buffer = vec![0];
        loop {
            let kept = buffer.len();
            file.by_ref().take(CHUNK as u64).read_to_end(&mut buffer)?;
            let is_end = buffer.len() == kept;
            for start in finders.iter().flat_map(|finder| finder.find_iter(&buffer)) {
                names.extend(string_at(&buffer, start));
            }
            if is_end {
                return Ok(FlagNames(names));
            }
            buffer.drain(..buffer.len().saturating_sub(LONGEST));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.0.iter().any(|name| name.starts_with(PREFIX))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The error that there is no such flag.
    pub(super) fn unknown(&self, name: &str, source: &str) -> Problem {
        Problem::UnknownFlag { name: name.to_owned(), origin: source.to_owned(), nearest: self.nearest(name) }
    }

    /// The names most like this one, at most two.
    fn nearest(&self, name: &str) -> Vec<String> {
        let name = name.to_lowercase().replace('-', "_");
        let name = name.strip_prefix(PREFIX).unwrap_or(&name);
        // Where a part is left out, as edits go the name is far away.
        let is_part = |known: &str| name.len() >= 8 && known.contains(name);
        let likeness =
            |known: &str| strsim::jaro_winkler(name, known).max(if is_part(known) { 0.99 } else { 0.0 });
        let known = self.0.iter().filter_map(|known| known.strip_prefix(PREFIX));
        let mut near: Vec<(f64, &str)> = known.map(|known| (likeness(known), known)).collect();
        near.retain(|(likeness, _)| *likeness >= ALIKE);
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.into_iter().take(2).map(|(_, known)| format!("{PREFIX}{known}")).collect()
    }
}

/// The word that begins here, if it is a whole string: no part of a longer word, and ended by a zero.
fn string_at(bytes: &[u8], start: usize) -> Option<String> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if start == 0 || is_word(&bytes[start - 1]) {
        return None;
    }
    let length = bytes[start..].iter().take(LONGEST).position(|byte| !is_word(byte))?;
    let word = &bytes[start..start + length];
    (bytes[start + length] == 0).then(|| String::from_utf8_lossy(word).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &[u8], asked: &[&str]) -> Vec<String> {
        FlagNames::search(text, asked).unwrap().0.into_iter().collect()
    }

    #[test]
    fn names_are_whole_strings() {
        let text = b"\0xla_one\0use --xla_two\0xla_three is\0my_xla_four\0 xla_five\0dump\0nodump\0xla_cut";
        assert_eq!(names(text, &["dump"]), ["dump", "xla_five", "xla_one", "xla_two"]);
        assert_eq!(names(b"xla_first\0", &[]), ["xla_first"]);
        assert_eq!(names(b"", &[]), [""; 0]);
    }

    #[test]
    fn names_across_the_chunks_of_a_file_are_found() {
        for offset in (0..2 * LONGEST).chain([CHUNK - 5, CHUNK]) {
            let mut text = vec![b'.'; 3 * CHUNK];
            let at = CHUNK + offset - LONGEST;
            text[at..at + 10].copy_from_slice(b"xla_a_flag");
            text[at + 10] = 0;
            assert_eq!(names(&text, &[]), ["xla_a_flag"], "at {at}");
        }
    }

    #[test]
    fn near_names_are_offered() {
        let text = b"\0xla_dump_hlo_as_text\0xla_dump_to\0xla_gpu_enable_triton_gemm\0xla_cpu_ftz\0";
        let names = FlagNames::search(text.as_slice(), &[]).unwrap();
        let check = |given, expect: &[&str]| assert_eq!(names.nearest(given), expect, "{given}");
        check("dump_hlo_as_text", &["xla_dump_hlo_as_text", "xla_dump_to"]);
        check("xla-dump-too", &["xla_dump_to"]);
        check("xla_gpu_enable_tritn_gemm", &["xla_gpu_enable_triton_gemm"]);
        check("gpu_enable_triton", &["xla_gpu_enable_triton_gemm"]);
        check("xla_no_such_flag", &[]);
    }
}
