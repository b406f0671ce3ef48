//! Ctrl-C, and the signals that ask a process to end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use shardwright_pjrt::exit_now;
use shardwright_train::StopFlag;

use super::console;
use super::failure::{Cause, Failure, INTERRUPTED};

/// How long a run has to end by itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// Listens to signals for the rest of the process.
///
/// The first asks the run to stop, and ends the process if the run has not ended soon after; the second ends it at
/// once. Neither does while files are being written, or after a run that was writing files when it was asked to stop.
pub(super) fn listen(stop: &StopFlag) -> Result<(), Failure> {
    let stop = stop.clone();
    let signals = AtomicUsize::new(0);
    let handler = move || {
        let stop = stop.clone();
        match signals.fetch_add(1, Ordering::SeqCst) {
            0 => {
                console::note("stopping…");
                stop.request();
                thread::spawn(move || end_at(Instant::now() + PATIENCE, &stop));
            }
            _ => {
                thread::spawn(move || end_at(Instant::now(), &stop));
            }
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::new(Cause::Run, error))
}

/// Ends the process at a time, or as soon after that as no file is being written, unless the run is over by then.
fn end_at(time: Instant, stop: &StopFlag) {
    thread::sleep(time.saturating_duration_since(Instant::now()));
    if stop.claim_end() {
        console::note("error: interrupted");
        // A plugin may be at work, and its destructors do not survive that.
        exit_now(INTERRUPTED);
    }
}
