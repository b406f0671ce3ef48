//! What an ELF file says of itself at its beginning: which processor it is for, and how long it has to be.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

/// The beginning of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Elf {
    pub(crate) machine: Machine,
    /// How many bytes of the file the loader maps; the loader does not look whether they are there.
    pub(crate) mapped: u64,
}

/// A kind of processor, by its number in ELF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine(u16);

const X86_64: Machine = Machine(62);
const AARCH64: Machine = Machine(183);

/// The part of a 64-bit file's header that is always there.
const HEADER: usize = 64;
/// One entry of the list of segments.
const SEGMENT: usize = 56;
/// The type of segments that are mapped.
const LOAD: u64 = 1;

impl Machine {
    /// That of this program, where it is a known one.
    pub(crate) fn current() -> Option<Machine> {
        match std::env::consts::ARCH {
            "x86_64" => Some(X86_64),
            "aarch64" => Some(AARCH64),
            _ => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            X86_64 => f.write_str("x86-64"),
            AARCH64 => f.write_str("aarch64"),
            Machine(3) => f.write_str("32-bit x86"),
            Machine(40) => f.write_str("32-bit arm"),
            Machine(243) => f.write_str("risc-v"),
            Machine(number) => write!(f, "machine {number} of the ELF standard"),
        }
    }
}

impl Elf {
    /// Reads the beginning of a file; `None` if it is no ELF file. Of 32-bit files only the machine is read.
    pub(crate) fn read(file: &mut (impl Read + Seek)) -> io::Result<Option<Elf>> {
        let header = read_at(file, 0, HEADER)?;
        let Some([class, order]) = header.get(4..6).filter(|_| header.starts_with(b"\x7fELF")) else {
            return Ok(None);
        };
        let number = |bytes: &[u8], at: usize, size: usize| number(bytes, at, size, *order == 2);
        let Some(machine) = number(&header, 18, 2) else { return Ok(None) };
        let machine = Machine(machine as u16);
        if *class != 2 {
            return Ok(Some(Elf { machine, mapped: 0 }));
        }
        let whole = || Some((number(&header, 32, 8)?, number(&header, 54, 2)?, number(&header, 56, 2)?));
        let Some((start, SEGMENT_SIZE, count)) = whole() else {
            return Ok(Some(Elf { machine, mapped: HEADER as u64 }));
        };
        let size = SEGMENT * count as usize;
        let segments = read_at(file, start, size)?;
        let end = |segment: &[u8]| Some(number(segment, 8, 8)?.saturating_add(number(segment, 32, 8)?));
        let loaded = segments.chunks_exact(SEGMENT).filter(|segment| number(segment, 0, 4) == Some(LOAD));
        let last = loaded.filter_map(end).max().unwrap_or(0);
        Ok(Some(Elf { machine, mapped: last.max(start.saturating_add(size as u64)) }))
    }
}

const SEGMENT_SIZE: u64 = SEGMENT as u64;

/// Up to so many bytes from a place on; fewer where the file ends.
fn read_at(file: &mut (impl Read + Seek), start: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if i64::try_from(start).is_err() {
        // Behind the end of every file; systems refuse to go there.
        return Ok(bytes);
    }
    file.seek(SeekFrom::Start(start))?;
    file.take(size as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize, size: usize, big_endian: bool) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?.iter();
    let append = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    Some(if big_endian { bytes.fold(0, append) } else { bytes.rev().fold(0, append) })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A file of 64 bits, little-endian, with one segment of 100 bytes at 200.
    fn file() -> Vec<u8> {
        let mut file = vec![0; HEADER + SEGMENT];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18] = 183;
        (file[32], file[54], file[56]) = (64, 56, 1);
        (file[64], file[64 + 8], file[64 + 32]) = (1, 200, 100);
        file
    }

    fn read(bytes: &[u8]) -> Option<Elf> {
        Elf::read(&mut Cursor::new(bytes)).unwrap()
    }

    #[test]
    fn what_is_mapped_is_the_end_of_the_last_segment() {
        assert_eq!(read(&file()), Some(Elf { machine: AARCH64, mapped: 300 }));
        let mut not_loaded = file();
        not_loaded[64] = 2;
        assert_eq!(read(&not_loaded).unwrap().mapped, 120);
    }

    #[test]
    fn numbers_may_be_the_other_way_round() {
        let mut file = file();
        file[5] = 2;
        for (from, to) in [(18, 19), (32, 39), (54, 55), (56, 57), (64, 67), (72, 79), (96, 103)] {
            file.swap(from, to);
        }
        assert_eq!(read(&file), Some(Elf { machine: AARCH64, mapped: 300 }));
    }

    #[test]
    fn files_that_end_early_lack_what_is_mapped() {
        for size in 20..file().len() {
            let elf = read(&file()[..size]).unwrap();
            assert!(elf.mapped > size as u64, "{size}");
        }
        for size in 0..20 {
            assert_eq!(read(&file()[..size]), None, "{size}");
        }
    }

    #[test]
    fn numbers_that_are_too_large_say_that_the_file_is_too_short() {
        for at in [32, 72, 96] {
            let mut file = file();
            file[at..at + 8].fill(0xff);
            assert!(Elf::read(&mut Cursor::new(&file)).is_ok_and(|elf| elf.unwrap().mapped > 1000), "{at}");
        }
    }
}
