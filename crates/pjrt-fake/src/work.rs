//! The thread that does the work, and when it does.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// When a client's work is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// Before the call that asks for it comes back.
    Now,
    /// By the thread, as soon as it can.
    Thread,
    /// By the thread, once something waits for an event or a session releases it.
    Late,
}

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    jobs: VecDeque<(When, Job)>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
    /// Late work may be done until nothing is left.
    released: bool,
    ended: bool,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { jobs: VecDeque::new(), thread: None, busy: false, released: false, ended: false });
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(queue: MutexGuard<'static, Queue>) -> MutexGuard<'static, Queue> {
    CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner)
}

/// Has the work done when it is time for it; work is done in the order in which it comes.
pub(crate) fn submit(when: When, job: impl FnOnce() + Send + 'static) {
    if when == When::Now {
        return job();
    }
    let mut queue = queue();
    queue.jobs.push_back((when, Box::new(job)));
    queue.ended = false;
    if queue.thread.is_none() {
        queue.thread = Some(thread::spawn(run));
    }
    CHANGED.notify_all();
}

thread_local! {
    /// Whether this is the thread that does the work.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller is the plugin's own thread.
pub(crate) fn is_own_thread() -> bool {
    IS_OWN.get()
}

fn run() {
    IS_OWN.set(true);
    while let Some(job) = next() {
        job();
    }
}

fn next() -> Option<Job> {
    let mut queue = queue();
    queue.busy = false;
    loop {
        if queue.jobs.is_empty() {
            queue.released = false;
            CHANGED.notify_all();
            if queue.ended {
                return None;
            }
        }
        let may_run = queue.released || queue.jobs.front().is_some_and(|(when, _)| *when == When::Thread);
        if may_run && let Some((_, job)) = queue.jobs.pop_front() {
            queue.busy = true;
            return Some(job);
        }
        queue = wait(queue);
    }
}

/// Lets late work be done.
pub(crate) fn release() {
    let mut queue = queue();
    queue.released = !queue.jobs.is_empty();
    CHANGED.notify_all();
}

/// Has all work done and waits for it.
pub(crate) fn finish() {
    let mut queue = queue();
    while queue.busy || !queue.jobs.is_empty() {
        // Each time anew, as more may have come.
        queue.released = true;
        CHANGED.notify_all();
        queue = wait(queue);
    }
}

/// Has all work done and ends the thread.
pub(crate) fn end() {
    finish();
    let thread = {
        let mut queue = queue();
        queue.ended = true;
        CHANGED.notify_all();
        queue.thread.take()
    };
    // If it has panicked, it has said so, and what it should have done is missed by the test.
    thread.map(JoinHandle::join);
}
