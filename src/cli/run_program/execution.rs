//! A compiled program, run on arrays of the host.

use std::time::{Duration, Instant};

use shardwright_runtime::{Argument, Executable, Runtime, RuntimeError, ShardedArray};
use shardwright_tensor::HostArray;

/// What running a program some times gave.
pub(super) struct Execution {
    /// What the last run gave, whole.
    pub(super) outputs: Vec<HostArray>,
    /// How long each run took, from its start until it had ended on all devices.
    pub(super) durations: Vec<Duration>,
}

/// Runs a program `count` times, at least once, each time on the same inputs: what a run is given up to is placed again
/// before the next, outside of its time.
///
/// # Errors
/// When the devices do not hold the arrays, or the program fails.
pub(super) fn execute(
    runtime: &Runtime,
    executable: &Executable,
    is_donated: &[bool],
    inputs: &[HostArray],
    count: usize,
) -> Result<Execution, RuntimeError> {
    let place = |index: usize| {
        let sharding = &executable.arguments()[index].sharding;
        ShardedArray::from_host(runtime, executable.mesh(), sharding, &inputs[index])
    };
    let place_if = |wanted: bool, index| (is_donated[index] == wanted).then(|| place(index)).transpose();
    let kept: Vec<Option<ShardedArray>> =
        (0..inputs.len()).map(|index| place_if(false, index)).collect::<Result<_, _>>()?;
    let mut durations = Vec::with_capacity(count);
    loop {
        let given = (0..inputs.len()).map(|index| place_if(true, index)).collect::<Result<Vec<_>, _>>()?;
        wait(kept.iter().chain(&given).flatten())?;
        let arguments = kept.iter().zip(given).filter_map(|(kept, given)| match given {
            Some(array) => Some(Argument::Donate(array)),
            None => kept.as_ref().map(Argument::Borrow),
        });
        let start = Instant::now();
        let execution = executable.execute(arguments)?;
        execution.wait()?;
        durations.push(start.elapsed());
        if durations.len() >= count {
            let outputs = execution.outputs.iter().map(ShardedArray::to_host).collect::<Result<_, _>>()?;
            return Ok(Execution { outputs, durations });
        }
    }
}

/// Waits until arrays have arrived, which is no part of a run.
fn wait<'a>(arrays: impl Iterator<Item = &'a ShardedArray>) -> Result<(), RuntimeError> {
    for buffer in arrays.flat_map(ShardedArray::buffers) {
        buffer.ready()?.wait()?;
    }
    Ok(())
}

/// The median of some durations, if there are any.
pub(super) fn median(durations: &[Duration]) -> Option<Duration> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let (lower, upper) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[lower] + sorted[upper]) / 2)
}
