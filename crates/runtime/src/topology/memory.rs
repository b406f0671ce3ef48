//! Programs that need more memory than the devices have.

use std::fmt;

use shardwright_pjrt::{Error, StatusCode};

/// A program that does not fit into the memory of the devices it was to be compiled for, as the compiler reports it.
///
/// Sizes are bytes of the device's high-bandwidth memory, worked out from the compiler's words, which round them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The name of the program.
    pub program: String,
    /// What it needs on each device, with its arguments and results.
    pub needed: u64,
    /// What each device has.
    pub available: u64,
}

impl OutOfMemory {
    /// The shortage that an error of the compiler speaks of, if it speaks of one.
    pub(crate) fn of(error: &Error) -> Option<OutOfMemory> {
        if error.code() != Some(StatusCode::ResourceExhausted) {
            return None;
        }
        OutOfMemory::read(error.message())
    }

    /// Reads `… HBM, the total memory required for … (30.06G) exceeds available HBM (15.75G). HLO module: name.`
    fn read(message: &str) -> Option<OutOfMemory> {
        let (_, required) = message.split_once("memory required for")?;
        let (required, available) = required.split_once("exceeds available HBM")?;
        let program = available.split_once("HLO module:").map_or("", |(_, rest)| rest);
        let program = program.trim_start().split([' ', '\n', ';', ',']).next().unwrap_or_default();
        Some(OutOfMemory {
            program: program.trim_end_matches('.').to_owned(),
            needed: bytes_in_parentheses(required)?,
            available: bytes_in_parentheses(available)?,
        })
    }
}

/// The size in the first parentheses, such as `(15.75G)`.
fn bytes_in_parentheses(text: &str) -> Option<u64> {
    let (_, size) = text.split_once('(')?;
    let (size, _) = size.split_once(')')?;
    let number = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match size[number.len()..].chars().next() {
        None | Some('B') => 1.0,
        Some('K') => 1024.0,
        Some('M') => 1024.0 * 1024.0,
        Some('G') => 1024.0 * 1024.0 * 1024.0,
        Some('T') => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        Some(_) => return None,
    };
    number.trim().parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| (number * unit) as u64)
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        let OutOfMemory { program, needed, available } = self;
        write!(
            f,
            "program {program} needs {:.2} GiB of memory on each device, which has {:.2} GiB",
            gib(*needed),
            gib(*available)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_name_are_read() {
        let message = "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO \
            temporaries (30.06G) exceeds available HBM (15.75G). HLO module: jit_train_step. See a page.";
        let shortage = OutOfMemory::read(message).unwrap();
        assert_eq!(
            shortage.to_string(),
            "program jit_train_step needs 30.06 GiB of memory on each device, which has 15.75 GiB"
        );
        assert_eq!(shortage.available, 16911433728);
        let small = message.replace("30.06G", "512.5M").replace("15.75G", "100");
        let small = OutOfMemory::read(&small).unwrap();
        assert_eq!((small.needed, small.available), (537395200, 100));
        for other in ["", "out of memory", "memory required for (x) exceeds available HBM (1G)"] {
            assert_eq!(OutOfMemory::read(other), None, "{other}");
        }
    }
}
