//! The threads, and the columns that wait for them.
//!
//! One owner puts columns in and takes results out, in the same order; the threads take the oldest
//! columns first. Both sides meet under one lock, which a thread takes once for a batch of small
//! columns.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;

use catchment_telemetry::ThreadTimes;
use parking_lot::{Condvar, Mutex};

use crate::buffers::Buffers;
use crate::rule::Ask;
use crate::work::{Column, Done, Stored, Worker};

/// Raw bytes that a thread takes at a time, where columns are small.
const BATCH_BYTES: usize = 128 << 10;
/// Columns that a thread takes at a time.
const BATCH_COLUMNS: usize = 32;

/// How large a pool is.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Threads; with 0 the owner's own thread encodes.
    pub threads: usize,
    /// Raw bytes of the columns that may be under way: put in, and not taken out yet. One column
    /// may always be.
    pub bytes_max: usize,
    /// Where the threads register their CPU time, as `encode-0` and so on.
    pub times: Option<Arc<ThreadTimes>>,
    /// What each thread does first, such as to choose its priority.
    pub begin: fn(),
}

impl Default for PoolConfig {
    /// A thread per CPU, 64 MiB under way.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads, bytes_max: 64 << 20, times: None, begin: || () }
    }
}

/// Threads that encode columns, and the columns that are under way.
pub struct EncoderPool<C: Column> {
    shared: Arc<Shared<C>>,
    threads: Vec<JoinHandle<()>>,
    own: Worker,
    bytes_max: usize,
    // Columns put in and not taken out, and their raw bytes.
    under_way: usize,
    under_way_bytes: usize,
}

struct Shared<C: Column> {
    state: Mutex<State<C>>,
    work: Condvar,
    done: Condvar,
    /// The share of the CPUs that is free, as bits of an f32.
    free_cpu_share: AtomicU32,
}

struct State<C: Column> {
    waiting: VecDeque<(u64, C, Ask)>,
    /// Results by their place, from `first` on.
    results: VecDeque<Option<Done<C>>>,
    first: u64,
    next: u64,
    buffers: Buffers,
    closed: bool,
    /// A thread panicked: a defect, which the owner is told of by a panic.
    failed: bool,
}

impl<C: Column> EncoderPool<C> {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's, where it refuses a thread.
    pub fn new(config: PoolConfig) -> io::Result<Self> {
        let state = State {
            waiting: VecDeque::new(),
            results: VecDeque::new(),
            first: 0,
            next: 0,
            buffers: Buffers::new(config.bytes_max.saturating_mul(2)),
            closed: false,
            failed: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            free_cpu_share: AtomicU32::new(1.0_f32.to_bits()),
        });
        let mut pool = Self {
            shared,
            threads: Vec::new(),
            own: Worker::new(),
            bytes_max: config.bytes_max,
            under_way: 0,
            under_way_bytes: 0,
        };
        for number in 0..config.threads {
            let (shared, times) = (Arc::clone(&pool.shared), config.times.clone());
            let begin = config.begin;
            let name = format!("encode-{number}");
            let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
                let _guard = times.as_ref().map(|times| times.register(name));
                begin();
                shared.run();
            });
            pool.threads.push(thread?);
        }
        Ok(pool)
    }

    /// Says which share of the CPUs is free, 0 to 1: what `auto` may spend on a better ratio.
    pub fn set_free_cpu_share(&self, share: f32) {
        self.shared.free_cpu_share.store(share.clamp(0.0, 1.0).to_bits(), Relaxed);
    }

    /// Whether a column of that many raw bytes may be put in now.
    pub fn has_room(&self, raw_bytes: usize) -> bool {
        self.under_way == 0 || self.under_way_bytes.saturating_add(raw_bytes) <= self.bytes_max
    }

    /// How many columns are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Puts a column in. The caller asks for room first.
    pub fn put(&mut self, column: C, ask: Ask) {
        self.under_way += 1;
        self.under_way_bytes += column.raw_bytes();
        let mut state = self.shared.state.lock();
        let number = state.next;
        state.next += 1;
        if self.threads.is_empty() {
            let share = self.shared.free_cpu_share();
            let done = self.own.encode(column, &ask, share, |bytes| state.buffers.take(bytes));
            state.results.push_back(Some(done));
            return;
        }
        state.results.push_back(None);
        state.waiting.push_back((number, column, ask));
        drop(state);
        self.shared.work.notify_one();
    }

    /// Takes the oldest column out, waiting until it is encoded; none if no column is under way.
    /// Its buffer is given back by [`EncoderPool::give_back`].
    ///
    /// # Panics
    /// If a thread of the pool has panicked.
    pub fn take(&mut self) -> Option<Done<C>> {
        if self.under_way == 0 {
            return None;
        }
        let mut state = self.shared.state.lock();
        let done = loop {
            assert!(!state.failed, "an encoder thread has failed");
            match state.results.front() {
                Some(Some(_)) => break state.results.pop_front().flatten().expect("just seen"),
                _ => self.shared.done.wait(&mut state),
            }
        };
        state.first += 1;
        self.under_way -= 1;
        self.under_way_bytes -= done.column.raw_bytes();
        Some(done)
    }

    /// Takes the memory of a result back.
    pub fn give_back(&mut self, stored: Stored) {
        if let Stored::Encoded(bytes) = stored {
            self.shared.state.lock().buffers.give_back(bytes);
        }
    }

    /// Encodes columns, as many at a time as there is room for, and hands each out in its order.
    pub fn encode_all(
        &mut self,
        columns: impl IntoIterator<Item = (C, Ask)>,
        mut each: impl FnMut(&mut Done<C>),
    ) {
        for (column, ask) in columns {
            while !self.has_room(column.raw_bytes()) {
                self.hand_out(&mut each);
            }
            self.put(column, ask);
        }
        while self.under_way > 0 {
            self.hand_out(&mut each);
        }
    }

    fn hand_out(&mut self, each: &mut impl FnMut(&mut Done<C>)) {
        if let Some(mut done) = self.take() {
            each(&mut done);
            self.give_back(done.stored);
        }
    }
}

impl<C: Column> Drop for EncoderPool<C> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        state.waiting.clear();
        drop(state);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

impl<C: Column> std::fmt::Debug for EncoderPool<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (threads, bytes) = (self.threads.len(), self.under_way_bytes);
        write!(f, "EncoderPool {{ threads: {threads}, under_way_bytes: {bytes} }}")
    }
}

impl<C: Column> Shared<C> {
    fn free_cpu_share(&self) -> f32 {
        f32::from_bits(self.free_cpu_share.load(Relaxed))
    }

    /// Encodes until the pool is closed.
    fn run(&self) {
        let failure = Failure(self);
        let mut worker = Worker::new();
        let mut batch = Vec::new();
        while self.take_batch(&mut batch) {
            let share = self.free_cpu_share();
            for (number, column, ask) in batch.drain(..) {
                let buffer = |bytes| self.state.lock().buffers.take(bytes);
                let done = worker.encode(column, &ask, share, buffer);
                let mut state = self.state.lock();
                let place = (number - state.first) as usize;
                state.results[place] = Some(done);
                drop(state);
                if place == 0 {
                    // Only the oldest one is waited for.
                    self.done.notify_one();
                }
            }
        }
        std::mem::forget(failure);
    }

    /// Waits for columns and takes some; false when the pool is closed.
    fn take_batch(&self, batch: &mut Vec<(u64, C, Ask)>) -> bool {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            self.work.wait(&mut state);
        }
        let mut bytes = 0;
        while bytes < BATCH_BYTES && batch.len() < BATCH_COLUMNS {
            let Some(next) = state.waiting.pop_front() else { break };
            bytes += next.1.raw_bytes();
            batch.push(next);
        }
        true
    }
}

/// Tells the owner of a thread that ends by a panic.
struct Failure<'a, C: Column>(&'a Shared<C>);

impl<C: Column> Drop for Failure<'_, C> {
    fn drop(&mut self) {
        self.0.state.lock().failed = true;
        self.0.done.notify_one();
    }
}
