//! What the compiler made of a sharded program, in one line; and how numbers and names are shown.

use std::fmt;

use shardwright_hlo::compiled::{CollectiveKind, CompiledProgram};

/// Collectives of a compiled program by kind; those in a loop count as often as they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveSummary {
    /// Kind, number, and bytes of the results on one device; kinds that do not occur are left out.
    pub kinds: Vec<(CollectiveKind, usize, u64)>,
}

impl CollectiveSummary {
    /// Counts the collectives of a program.
    pub fn new(program: &CompiledProgram) -> CollectiveSummary {
        let total = |kind| {
            let (count, bytes) = program.total(kind);
            (kind, count, bytes)
        };
        let kinds = CollectiveKind::ALL.map(total).into_iter().filter(|(_, count, _)| *count > 0);
        CollectiveSummary { kinds: kinds.collect() }
    }

    /// Whether anything brings the shards of an array together: a gather, or the exchanges that some compilers make of
    /// one. Sums over the devices, which any data parallel program has, do not count.
    pub fn gathers(&self) -> bool {
        use CollectiveKind::{AllGather, AllToAll, CollectivePermute};
        [AllGather, AllToAll, CollectivePermute].into_iter().any(|kind| self.count(kind) > 0)
    }

    /// How many collectives of this kind there are.
    pub fn count(&self, kind: CollectiveKind) -> usize {
        self.kinds.iter().find(|(k, ..)| *k == kind).map_or(0, |(_, count, _)| *count)
    }
}

impl fmt::Display for CollectiveSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kinds.is_empty() {
            return f.write_str("no collectives");
        }
        for (i, (kind, count, bytes)) in self.kinds.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {kind} ({})", Bytes(*bytes))?;
        }
        Ok(())
    }
}

/// A number of bytes for people: `1.5 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = if unit == 0 { 0 } else { 1 };
        write!(f, "{value:.digits$} {}", UNITS[unit])
    }
}

/// A text from a program, as a terminal can show it: of one line, without commands to it, and not too long.
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 160;
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut printable: String = text.chars().take(LONGEST).map(shown).collect();
    if text.chars().nth(LONGEST).is_some() {
        printable.push('…');
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_are_summed_by_kind() {
        use CollectiveKind::{AllGather, AllReduce};
        let kinds = vec![(AllGather, 2, 3 << 19), (AllReduce, 1, 4)];
        let summary = CollectiveSummary { kinds };
        assert_eq!(summary.to_string(), "2 all-gather (1.5 MiB), 1 all-reduce (4 B)");
        assert_eq!((summary.count(AllGather), summary.count(CollectiveKind::ReduceScatter)), (2, 0));
        assert!(summary.gathers());
        let none = CollectiveSummary { kinds: Vec::new() };
        assert_eq!(none.to_string(), "no collectives");
    }
}
