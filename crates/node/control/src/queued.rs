//! Work for a separate thread behind a bounded queue: producers never wait.

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};

/// The queue of the thread, which ends with it.
#[derive(Debug)]
pub(crate) struct Queued<T> {
    queue: Sender<Entry<T>>,
}

#[derive(Debug)]
enum Entry<T> {
    Item(T),
    /// Signals that everything before it has been done.
    Flush(Sender<()>),
}

impl<T: Send + 'static> Queued<T> {
    /// Starts the thread. It does each item in order; `None` means that a caller waits until all
    /// are done.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(
        thread: &str,
        items_max: usize,
        mut work: impl FnMut(Option<T>) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, waiting) = bounded(items_max);
        let run = move || {
            for entry in waiting {
                match entry {
                    Entry::Item(item) => work(Some(item)),
                    Entry::Flush(done) => {
                        work(None);
                        // The caller may have stopped waiting.
                        done.send(()).ok();
                    }
                }
            }
        };
        std::thread::Builder::new().name(thread.into()).spawn(run)?;
        Ok(Self { queue })
    }

    /// Puts an item into the queue; returns false if it is full.
    #[must_use]
    pub(crate) fn put(&self, item: T) -> bool {
        self.queue.try_send(Entry::Item(item)).is_ok()
    }

    /// Waits until all items are done, at most that long; returns whether they are.
    pub(crate) fn flush(&self, within: Duration) -> bool {
        let end = Instant::now() + within;
        let (done, written) = bounded(1);
        self.queue.send_deadline(Entry::Flush(done), end).is_ok()
            && written.recv_deadline(end).is_ok()
    }
}
