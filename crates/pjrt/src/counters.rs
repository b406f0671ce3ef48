//! How often a client compiled, ran and moved arrays, and how long that took.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a client and those who use it have done so far. Counting is a few additions to atomic numbers and takes no
/// memory, so it is always on.
///
/// Every [`Client`](crate::Client) has one, shared by its clones; what compiles, runs and copies through the client is
/// counted by itself.
#[derive(Debug, Default)]
pub struct Counters {
    timings: [Timing; Operation::ALL.len()],
    tallies: [AtomicU64; Tally::ALL.len()],
}

/// Something that takes time, counted with its duration and, if it moves an array, its bytes. Attempts that fail count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A program was compiled.
    Compile,
    /// A program that was compiled before was loaded.
    Load,
    /// A program was started on its devices: the time until the call came back, not until the program ended.
    Execute,
    /// An array was copied to one device: the time until the call came back.
    ToDevice,
    /// An array was copied from one device: the time that the host waited, also for what computes the array.
    FromDevice,
}

/// Something that is counted and nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tally {
    /// An argument of a started program was given up, so that results may lie in its place.
    Donation,
    /// An array was laid out anew over devices.
    Reshard,
    /// A compiled program was found in a cache.
    CacheHit,
    /// A compiled program was looked for in a cache and not found.
    CacheMiss,
}

/// The state of [`Counters`] at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSnapshot {
    operations: Vec<OperationCount>,
    tallies: [u64; Tally::ALL.len()],
}

/// How often an [`Operation`] was done, with how many bytes and in what time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCount {
    /// Times that it was done.
    pub count: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// The sum of the durations.
    pub total: Duration,
    buckets: Vec<u64>,
}

/// Counts an operation when it is dropped, with the time since it was made.
#[must_use = "the operation ends when this is dropped"]
pub struct OperationTimer<'a> {
    counters: &'a Counters,
    operation: Operation,
    bytes: usize,
    start: Instant,
}

impl Operation {
    /// All of them, in the order of reports.
    pub const ALL: [Operation; 5] =
        [Operation::Compile, Operation::Load, Operation::Execute, Operation::ToDevice, Operation::FromDevice];

    /// Its name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Compile => "compile",
            Operation::Load => "load",
            Operation::Execute => "execute",
            Operation::ToDevice => "to_device",
            Operation::FromDevice => "from_device",
        }
    }
}

impl Tally {
    /// All of them, in the order of reports.
    pub const ALL: [Tally; 4] = [Tally::Donation, Tally::Reshard, Tally::CacheHit, Tally::CacheMiss];

    /// Its name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Tally::Donation => "donation",
            Tally::Reshard => "reshard",
            Tally::CacheHit => "cache_hit",
            Tally::CacheMiss => "cache_miss",
        }
    }
}

impl Counters {
    /// Begins an operation that moves `bytes`, which is over when the result is dropped.
    pub fn time(&self, operation: Operation, bytes: usize) -> OperationTimer<'_> {
        OperationTimer { counters: self, operation, bytes, start: Instant::now() }
    }

    /// Counts an operation that took so long.
    pub fn record(&self, operation: Operation, bytes: usize, duration: Duration) {
        self.timings[operation as usize].record(bytes as u64, duration);
    }

    /// Counts something `times` times.
    pub fn add(&self, tally: Tally, times: usize) {
        self.tallies[tally as usize].fetch_add(times as u64, Relaxed);
    }

    /// What was counted so far. What other threads count meanwhile may be in it in part.
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            operations: self.timings.iter().map(Timing::snapshot).collect(),
            tallies: self.tallies.each_ref().map(|count| count.load(Relaxed)),
        }
    }
}

impl Drop for OperationTimer<'_> {
    fn drop(&mut self) {
        self.counters.record(self.operation, self.bytes, self.start.elapsed());
    }
}

impl CounterSnapshot {
    /// How often and how long an operation was done.
    pub fn operation(&self, operation: Operation) -> &OperationCount {
        &self.operations[operation as usize]
    }

    /// How often something was counted.
    pub fn tally(&self, tally: Tally) -> u64 {
        self.tallies[tally as usize]
    }

    /// What was counted after an earlier snapshot of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &CounterSnapshot) -> CounterSnapshot {
        let operations = self.operations.iter().zip(&earlier.operations);
        let tally = |tally| self.tally(tally).saturating_sub(earlier.tally(tally));
        CounterSnapshot {
            operations: operations.map(|(now, then)| now.since(then)).collect(),
            tallies: Tally::ALL.map(tally),
        }
    }

    /// An object with a member for each operation and tally, by their names. Durations are in seconds; those of what
    /// was never done are null.
    ///
    /// ```json
    /// {"compile": {"count": 1, "bytes": 0, "seconds": 0.2, "min": 0.2, "median": 0.2, "p95": 0.2}, "donation": 0}
    /// ```
    pub fn to_json(&self) -> String {
        let seconds = |time: Option<Duration>| {
            time.map_or("null".to_owned(), |time| format!("{:.9}", time.as_secs_f64()))
        };
        let operations = Operation::ALL.map(|operation| {
            let found = self.operation(operation);
            let [min, median, p95] = found.spread().map(seconds);
            format!(
                "  \"{}\": {{\"count\": {}, \"bytes\": {}, \"seconds\": {:.9}, \"min\": {min}, \"median\": {median}, \"p95\": {p95}}}",
                operation.name(),
                found.count,
                found.bytes,
                found.total.as_secs_f64()
            )
        });
        let tallies = Tally::ALL.map(|tally| format!("  \"{}\": {}", tally.name(), self.tally(tally)));
        format!("{{\n{}\n}}\n", operations.into_iter().chain(tallies).collect::<Vec<_>>().join(",\n"))
    }
}

/// A table with a line for each operation and tally.
impl Display for CounterSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:12} {:>8} {:>15} {:>10} {:>10} {:>10} {:>10}",
            "", "count", "bytes", "total", "min", "median", "p95"
        )?;
        let time = |time: Option<Duration>| time.map_or("-".to_owned(), short);
        for operation in Operation::ALL {
            let found = self.operation(operation);
            let [min, median, p95] = found.spread().map(time);
            let (count, bytes, total) = (found.count, found.bytes, short(found.total));
            let name = operation.name();
            write!(f, "\n{name:12} {count:>8} {bytes:>15} {total:>10} {min:>10} {median:>10} {p95:>10}")?;
        }
        for tally in Tally::ALL {
            write!(f, "\n{:12} {:>8}", tally.name(), self.tally(tally))?;
        }
        Ok(())
    }
}

/// A duration in a unit in which it has one to three places before the point.
fn short(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        1.0.. => format!("{seconds:.2} s"),
        1e-3.. => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.2} us", seconds * 1e6),
    }
}

impl OperationCount {
    /// The duration that this share of the operations, from 0 to 1, did not exceed, to within a sixteenth; nothing if
    /// there were none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.buckets.iter().sum();
        let rank = (share.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let bucket = self.buckets.iter().position(|&count| {
            below += count;
            below >= rank
        })?;
        Some(Duration::from_nanos(middle(bucket)))
    }

    /// The shortest, the median and the 95th percentile.
    fn spread(&self) -> [Option<Duration>; 3] {
        [0.0, 0.5, 0.95].map(|share| self.quantile(share))
    }

    fn since(&self, earlier: &OperationCount) -> OperationCount {
        let buckets = self.buckets.iter().zip(&earlier.buckets);
        OperationCount {
            count: self.count.saturating_sub(earlier.count),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            total: self.total.saturating_sub(earlier.total),
            buckets: buckets.map(|(now, then)| now.saturating_sub(*then)).collect(),
        }
    }
}

/// Durations are counted in buckets that are an eighth of an octave wide: exact below 16 ns, and to within a sixteenth
/// of the middle of their bucket above.
#[derive(Debug)]
struct Timing {
    count: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// Enough for ten hours; what takes longer is counted in the last one.
const BUCKETS: usize = 352;

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl Timing {
    fn record(&self, bytes: u64, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
        self.buckets[bucket(nanos)].fetch_add(1, Relaxed);
    }

    fn snapshot(&self) -> OperationCount {
        OperationCount {
            count: self.count.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            total: Duration::from_nanos(self.nanos.load(Relaxed)),
            buckets: self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect(),
        }
    }
}

/// Octaves from 8 on are cut into eight; below, each number has its own bucket.
fn bucket(nanos: u64) -> usize {
    let octave = nanos.max(8).ilog2() as usize;
    let index = (octave - 3) * 8 + (nanos >> (octave - 3)) as usize;
    index.min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let shift = (bucket / 8).saturating_sub(1);
    let first = (bucket - shift * 8) as u64;
    (first << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_duration_is_in_a_bucket_whose_middle_is_near() {
        for nanos in (0..4096).chain((12..44).flat_map(|e| [1 << e, (1 << e) + 1, (3 << e) - 1])) {
            let found = middle(bucket(nanos));
            assert!(found.abs_diff(nanos) * 16 <= nanos, "{nanos} is counted as {found}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    fn counted() -> Counters {
        let counters = Counters::default();
        counters.record(Operation::Compile, 0, Duration::from_millis(250));
        for micros in 1..=100 {
            counters.record(Operation::ToDevice, 1024, Duration::from_micros(micros));
        }
        counters.add(Tally::Donation, 50);
        counters
    }

    #[test]
    fn a_report_has_counts_bytes_and_times() {
        expect![[r#"
                            count           bytes      total        min     median        p95
            compile             1               0  250.00 ms  243.27 ms  243.27 ms  243.27 ms
            load                0               0    0.00 us          -          -          -
            execute             0               0    0.00 us          -          -          -
            to_device         100          102400    5.05 ms    0.99 us   51.20 us   94.21 us
            from_device         0               0    0.00 us          -          -          -
            donation           50
            reshard             0
            cache_hit           0
            cache_miss          0"#]]
        .assert_eq(&counted().snapshot().to_string());
    }

    #[test]
    fn json_has_null_for_times_that_there_are_not() {
        expect![[r#"
            {
              "compile": {"count": 1, "bytes": 0, "seconds": 0.250000000, "min": 0.243269632, "median": 0.243269632, "p95": 0.243269632},
              "load": {"count": 0, "bytes": 0, "seconds": 0.000000000, "min": null, "median": null, "p95": null},
              "execute": {"count": 0, "bytes": 0, "seconds": 0.000000000, "min": null, "median": null, "p95": null},
              "to_device": {"count": 100, "bytes": 102400, "seconds": 0.005050000, "min": 0.000000992, "median": 0.000051200, "p95": 0.000094208},
              "from_device": {"count": 0, "bytes": 0, "seconds": 0.000000000, "min": null, "median": null, "p95": null},
              "donation": 50,
              "reshard": 0,
              "cache_hit": 0,
              "cache_miss": 0
            }
        "#]]
        .assert_eq(&counted().snapshot().to_json());
    }

    #[test]
    fn a_stretch_of_time_is_the_difference_of_two_snapshots() {
        let counters = counted();
        let before = counters.snapshot();
        drop(counters.time(Operation::Execute, 0));
        counters.record(Operation::ToDevice, 8, Duration::from_secs(1));
        counters.add(Tally::CacheHit, 1);
        let stretch = counters.snapshot().since(&before);
        let count = |operation| stretch.operation(operation).count;
        assert_eq!(Operation::ALL.map(count), [0, 0, 1, 1, 0]);
        assert_eq!(Tally::ALL.map(|tally| stretch.tally(tally)), [0, 0, 1, 0]);
        let moved = stretch.operation(Operation::ToDevice);
        assert_eq!((moved.bytes, moved.total), (8, Duration::from_secs(1)));
        assert!(moved.quantile(0.0) > Some(Duration::from_millis(900)), "the earlier ones are not in it");
    }

    #[test]
    fn threads_lose_no_count() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| drop(counters.time(Operation::Execute, 3))));
            }
        });
        let snapshot = counters.snapshot();
        let execute = snapshot.operation(Operation::Execute);
        assert_eq!((execute.count, execute.bytes), (4000, 12000));
        assert_eq!(execute.buckets.iter().sum::<u64>(), 4000);
    }
}
