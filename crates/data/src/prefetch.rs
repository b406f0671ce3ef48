use std::any::Any;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use thiserror::Error;

use crate::DataError;

/// How many items wait for the consumer at most. The worker holds one more while the queue is full.
const QUEUE: usize = 2;

/// An iterator whose items are made ahead on a thread of its own.
///
/// An error or a panic of the worker reaches the consumer as the last item. Dropping the iterator ends the worker
/// and waits for it, at most for the item that it is making.
#[derive(Debug)]
pub struct Prefetcher<T> {
    ready: Option<Receiver<Result<T, DataError>>>,
    worker: Option<JoinHandle<()>>,
}

/// What can go wrong with the worker itself.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PrefetchError {
    /// The system gives no thread.
    #[error("cannot start a thread that reads ahead")]
    Spawn {
        /// Why.
        source: std::io::Error,
    },
    /// A defect in what the worker runs.
    #[error("the thread that reads ahead panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

impl<T: Send + 'static> Prefetcher<T> {
    /// Starts making `items`.
    pub fn spawn(
        items: impl Iterator<Item = Result<T, DataError>> + Send + 'static,
    ) -> Result<Prefetcher<T>, DataError> {
        let (queue, ready) = sync_channel(QUEUE);
        let work = move || {
            for item in items {
                let failed = item.is_err();
                // Sending fails when the consumer is gone.
                if queue.send(item).is_err() || failed {
                    break;
                }
            }
        };
        let worker = thread::Builder::new().name("prefetch".to_owned()).spawn(work);
        let worker = worker.map_err(|source| PrefetchError::Spawn { source })?;
        Ok(Prefetcher { ready: Some(ready), worker: Some(worker) })
    }
}

impl<T> Iterator for Prefetcher<T> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Ok(item) = self.ready.as_ref()?.recv() {
            return Some(item);
        }
        // The worker has hung up: it is done, or it panicked.
        self.ready = None;
        let panic = self.worker.take()?.join().err()?;
        Some(Err(PrefetchError::Panicked { message: message(&*panic) }.into()))
    }
}

impl<T> Drop for Prefetcher<T> {
    fn drop(&mut self) {
        // A worker that waits for room in the queue is woken by the receiver's end.
        self.ready = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::CorpusError;

    #[test]
    fn items_come_in_order() {
        let items = Prefetcher::spawn((0..100).map(Ok)).unwrap();
        assert!(items.map(Result::unwrap).eq(0..100));
    }

    #[test]
    fn an_error_is_the_last_item() {
        let items = [Ok(1), Err(CorpusError::NoPaths.into()), Ok(2)];
        let mut items = Prefetcher::spawn(items.into_iter()).unwrap();
        assert_eq!(items.next().unwrap().unwrap(), 1);
        assert!(matches!(items.next(), Some(Err(DataError::Corpus(CorpusError::NoPaths)))));
        assert!(items.next().is_none());
    }

    #[test]
    fn a_panic_reaches_the_consumer() {
        let items = (0..3).map(|i| if i == 2 { panic!("item {i} is broken") } else { Ok(i) });
        let mut items = Prefetcher::spawn(items).unwrap();
        assert_eq!(items.by_ref().take(2).map(Result::unwrap).collect::<Vec<i32>>(), [0, 1]);
        let error = items.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the thread that reads ahead panicked: item 2 is broken");
        assert!(items.next().is_none());
    }

    #[test]
    fn dropping_ends_the_worker_and_the_queue_is_bounded() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let mut items = Prefetcher::spawn((0..).map(move |i: u64| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(i)
        }))
        .unwrap();
        items.next();
        drop(items);
        // One was taken, two can wait, and one can be in the worker's hands.
        assert!((1..=QUEUE + 2).contains(&made.load(Ordering::SeqCst)));
        assert_eq!(Arc::strong_count(&made), 1, "the worker is gone, and with it its items");
    }
}
