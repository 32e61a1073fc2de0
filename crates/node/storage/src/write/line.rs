//! A frame's columns on their way through the encoding threads, and out in their order.
//!
//! The owner's thread takes out what is ready; where the oldest column is not, it encodes one
//! itself. What is under way is bounded, so that a frame takes little memory, and what comes out is
//! still in a cache.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use super::encode::{Encoded, Job, Kept, Memory, Worker};
use super::{ColumnHook, StorageError};

/// Columns that are encoded, by any number of threads.
pub(super) struct Line<'a> {
    state: Mutex<State<'a>>,
    /// The oldest column is ready, or a thread has failed.
    ready: Condvar,
    /// There is room for another column, or nothing more is to be done.
    room: Condvar,
}

struct State<'a> {
    jobs: VecDeque<Job<'a>>,
    kept: &'a mut Kept,
    /// Columns under way, the oldest first: their raw bytes, and what came of them.
    under_way: VecDeque<(usize, Slot)>,
    /// The place of the oldest one.
    first: usize,
    bytes: usize,
    /// Threads that wait for room.
    waiting: usize,
    closed: bool,
    failed: bool,
}

type Slot = Option<Result<Encoded, StorageError>>;
type Task<'a> = (usize, Job<'a>, Memory);

/// What the owner does next.
enum Step<'a> {
    Encode(Task<'a>),
    Take(Result<Encoded, StorageError>),
    End,
}

impl<'a> Line<'a> {
    pub(super) fn new(jobs: Vec<Job<'a>>, kept: &'a mut Kept) -> Self {
        let state = State {
            jobs: jobs.into(),
            kept,
            under_way: VecDeque::new(),
            first: 0,
            bytes: 0,
            waiting: 0,
            closed: false,
            failed: false,
        };
        Self { state: Mutex::new(state), ready: Condvar::new(), room: Condvar::new() }
    }

    /// Encodes until there is nothing more to do.
    pub(super) fn work(&self, worker: &mut Worker, hooks: &[Box<dyn ColumnHook>]) {
        loop {
            let mut state = self.state.lock();
            let (place, job, memory) = loop {
                if state.is_over() {
                    return;
                }
                if let Some(task) = state.begin() {
                    break task;
                }
                state.waiting += 1;
                self.room.wait(&mut state);
                state.waiting -= 1;
            };
            drop(state);
            let encoded = worker.encode(&job, memory, hooks);
            let oldest = self.state.lock().put(place, encoded);
            if oldest {
                self.ready.notify_one();
            }
        }
    }

    /// Hands out all columns in their order, encoding meanwhile.
    ///
    /// # Panics
    /// If another thread has panicked.
    pub(super) fn hand_out(
        &self,
        worker: &mut Worker,
        hooks: &[Box<dyn ColumnHook>],
        sink: &mut impl FnMut(usize, Encoded) -> Result<Option<Encoded>, StorageError>,
    ) -> Result<(), StorageError> {
        let mut place = 0;
        loop {
            match self.next_step() {
                Step::End => return Ok(()),
                Step::Encode((place, job, memory)) => {
                    let encoded = worker.encode(&job, memory, hooks);
                    self.state.lock().put(place, encoded);
                }
                Step::Take(encoded) => {
                    let back = sink(place, encoded?)?;
                    place += 1;
                    if let Some(back) = back {
                        back.give_back(self.state.lock().kept);
                    }
                }
            }
        }
    }

    fn next_step(&self) -> Step<'a> {
        let mut state = self.state.lock();
        loop {
            assert!(!state.failed, "an encoding thread has failed");
            if let Some(encoded) = state.take() {
                // To wake nobody would be a call of the system too, for every column.
                if state.waiting > 0 {
                    self.room.notify_all();
                }
                return Step::Take(encoded);
            }
            if let Some(task) = state.begin() {
                return Step::Encode(task);
            }
            if state.under_way.is_empty() {
                return Step::End;
            }
            self.ready.wait(&mut state);
        }
    }
}

impl<'a> State<'a> {
    fn is_over(&self) -> bool {
        self.closed || self.failed || self.jobs.is_empty()
    }

    /// The next column, if there is room for it.
    fn begin(&mut self) -> Option<Task<'a>> {
        let bytes = self.jobs.front()?.data.raw_bytes();
        let full = self.under_way.len() >= COLUMNS_MAX || self.bytes + bytes > BYTES_MAX;
        if full && !self.under_way.is_empty() {
            return None;
        }
        let job = self.jobs.pop_front()?;
        let place = self.first + self.under_way.len();
        self.under_way.push_back((bytes, None));
        self.bytes += bytes;
        let memory = self.kept.take(job.id);
        Some((place, job, memory))
    }

    /// Keeps what came of a column; says whether it is the oldest.
    fn put(&mut self, place: usize, encoded: Result<Encoded, StorageError>) -> bool {
        let at = place - self.first;
        self.under_way[at].1 = Some(encoded);
        at == 0
    }

    /// The oldest column, if it is ready.
    fn take(&mut self) -> Option<Result<Encoded, StorageError>> {
        let (bytes, slot) = self.under_way.front_mut()?;
        let encoded = slot.take()?;
        self.bytes -= *bytes;
        self.under_way.pop_front();
        self.first += 1;
        Some(encoded)
    }
}

/// Tells the others when a thread leaves the line: the owner that it is over, any that it panicked.
pub(super) struct End<'a, 'b> {
    pub line: &'b Line<'a>,
    pub owner: bool,
}

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.line.state.lock();
        state.closed |= self.owner;
        state.failed |= std::thread::panicking();
        drop(state);
        self.line.room.notify_all();
        self.line.ready.notify_all();
    }
}

/// Columns under way, and their raw bytes: a few for every thread.
const COLUMNS_MAX: usize = 64;
const BYTES_MAX: usize = 32 << 20;
