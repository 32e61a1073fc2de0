//! The columns waiting for encode agents, and the encoded ones waiting to be taken.
//!
//! One owner submits columns and takes results, in the same order; the agents take the oldest
//! columns first. Both use one lock, which an agent takes once for a batch of small columns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use catchment_agent::{Agent, Waker, Work};
use parking_lot::Mutex;

use crate::buffers::Buffers;
use crate::rule::{Ask, Level};
use crate::work::{Column, Done, Worker};

/// Raw bytes that an agent takes at a time if columns are small.
const BATCH_BYTES: usize = 128 << 10;
/// Columns that an agent takes at a time.
const BATCH_COLUMNS: usize = 32;

/// The size of a pool, and its wakers.
#[derive(Clone, Debug, Default)]
pub struct PoolConfig {
    /// Raw bytes of the columns that may be in progress: submitted, and not taken yet. One column
    /// is always allowed.
    pub bytes_max: usize,
    /// Where the memory of encoded columns comes from, and returns to when they are dropped.
    pub buffers: Buffers,
    /// Wakes one of the encode agents.
    pub encoders: Waker,
    /// Wakes the owner.
    pub owner: Waker,
}

/// Columns that encode agents are processing.
pub struct EncoderPool<C: Column> {
    shared: Arc<Shared<C>>,
    bytes_max: usize,
    // Columns submitted and not taken, and their raw bytes.
    under_way: usize,
    under_way_bytes: usize,
}

/// Encodes columns of a pool, which may have any number of such agents.
pub struct Encode<C: Column> {
    shared: Arc<Shared<C>>,
    worker: Worker,
    batch: Vec<(u64, C, Ask)>,
}

struct Shared<C: Column> {
    state: Mutex<State<C>>,
    buffers: Buffers,
    encoders: Waker,
    owner: Waker,
    /// The share of the CPUs that is free, as bits of an f32.
    free_cpu_share: AtomicU32,
    /// The present [`Level`], as a number.
    level: AtomicU8,
}

struct State<C: Column> {
    waiting: VecDeque<(u64, C, Ask)>,
    /// Results in the order of their columns, from number `first` on.
    results: VecDeque<Option<Done<C>>>,
    first: u64,
    next: u64,
    /// Set when the owner has found that the oldest column is not ready.
    owner_waits: bool,
    closed: bool,
    /// An agent panicked: a defect, which makes the owner panic, too.
    failed: bool,
}

impl<C: Column> EncoderPool<C> {
    /// A pool without columns, and without agents ([`EncoderPool::encoder`]).
    pub fn new(config: PoolConfig) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            results: VecDeque::new(),
            first: 0,
            next: 0,
            owner_waits: false,
            closed: false,
            failed: false,
        };
        let shared = Shared {
            state: Mutex::new(state),
            buffers: config.buffers,
            encoders: config.encoders,
            owner: config.owner,
            free_cpu_share: AtomicU32::new(1.0_f32.to_bits()),
            level: AtomicU8::new(Level::AsAsked as u8),
        };
        let (shared, bytes_max) = (Arc::new(shared), config.bytes_max);
        Self { shared, bytes_max, under_way: 0, under_way_bytes: 0 }
    }

    /// An agent that encodes this pool's columns, until the pool is dropped.
    pub fn encoder(&self) -> Encode<C> {
        self.encoder_with(Worker::new())
    }

    /// As [`EncoderPool::encoder`], with the memory of a worker that another pool had.
    pub fn encoder_with(&self, worker: Worker) -> Encode<C> {
        Encode { shared: Arc::clone(&self.shared), worker, batch: Vec::new() }
    }

    /// Sets the free share of the CPUs, 0 to 1, which `auto` may spend on a better ratio.
    pub fn set_free_cpu_share(&self, share: f32) {
        self.shared.free_cpu_share.store(share.clamp(0.0, 1.0).to_bits(), Relaxed);
    }

    /// Sets the level of compression for which there is time. Columns that wait for an agent get no
    /// more than that, whatever their level at submission. At [`Level::None`] agents also stop
    /// compressing the columns that they have begun: a slow codec can take longer than the memory
    /// lasts.
    pub fn set_level(&self, level: Level) {
        self.shared.level.store(level as u8, Relaxed);
    }

    /// Whether a column of that many raw bytes may be submitted now.
    pub fn has_room(&self, raw_bytes: usize) -> bool {
        self.under_way == 0 || self.under_way_bytes.saturating_add(raw_bytes) <= self.bytes_max
    }

    /// The number of columns in progress.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Submits a column. The caller checks for room first.
    pub fn put(&mut self, column: C, ask: Ask) {
        self.under_way += 1;
        self.under_way_bytes += column.raw_bytes();
        let mut state = self.shared.state.lock();
        let number = state.next;
        state.next += 1;
        state.results.push_back(None);
        state.waiting.push_back((number, column, ask));
        drop(state);
        self.shared.encoders.wake();
    }

    /// Takes the oldest column out, if it is encoded: the owner is woken when it is.
    ///
    /// # Panics
    /// If an agent of the pool has panicked.
    pub fn take(&mut self) -> Option<Done<C>> {
        let mut state = self.shared.state.lock();
        assert!(!state.failed, "an encode agent has failed");
        let Some(done) = state.results.front_mut().and_then(Option::take) else {
            state.owner_waits = true;
            return None;
        };
        state.results.pop_front();
        state.first += 1;
        drop(state);
        self.under_way -= 1;
        self.under_way_bytes -= done.column.raw_bytes();
        Some(done)
    }
}

impl<C: Column> Drop for EncoderPool<C> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        state.waiting.clear();
        drop(state);
        // Each agent that ends wakes the next.
        self.shared.encoders.wake();
    }
}

impl<C: Column> std::fmt::Debug for EncoderPool<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (columns, bytes) = (self.under_way, self.under_way_bytes);
        write!(f, "EncoderPool {{ under_way: {columns}, under_way_bytes: {bytes} }}")
    }
}

impl<C: Column> Agent for Encode<C> {
    /// Encodes some columns.
    fn work(&mut self, _now_ns: u64) -> Work {
        if !self.take_batch() {
            self.shared.encoders.wake();
            return Work::ended();
        }
        if self.batch.is_empty() {
            return Work::until_woken(0);
        }
        let shared = &*self.shared;
        let failure = Failure(shared);
        let share = f32::from_bits(shared.free_cpu_share.load(Relaxed));
        let columns = self.batch.len() as u64;
        for (number, column, mut ask) in self.batch.drain(..) {
            ask.level = ask.level.max(Level::of(shared.level.load(Relaxed)));
            let buffer = |bytes| shared.buffers.take(bytes);
            let go_on = || Level::of(shared.level.load(Relaxed)) != Level::None;
            let done = self.worker.encode(column, &ask, share, &go_on, buffer);
            let mut state = shared.state.lock();
            let index = (number - state.first) as usize;
            state.results[index] = Some(done);
            // The owner waits only for the oldest one.
            let owner_waits = index == 0 && std::mem::take(&mut state.owner_waits);
            drop(state);
            if owner_waits {
                shared.owner.wake();
            }
        }
        std::mem::forget(failure);
        Work::again(columns)
    }
}

impl<C: Column> Encode<C> {
    /// Its working memory, for another pool's agent.
    pub fn into_worker(self) -> Worker {
        self.worker
    }

    /// Takes some columns, if there are any; returns false if the pool is gone.
    fn take_batch(&mut self) -> bool {
        let mut state = self.shared.state.lock();
        let mut bytes = 0;
        while bytes < BATCH_BYTES && self.batch.len() < BATCH_COLUMNS {
            let Some(next) = state.waiting.pop_front() else { break };
            bytes += next.1.raw_bytes();
            self.batch.push(next);
        }
        let (closed, more) = (state.closed, !state.waiting.is_empty());
        drop(state);
        if more {
            self.shared.encoders.wake();
        }
        !(closed && self.batch.is_empty())
    }
}

impl<C: Column> std::fmt::Debug for Encode<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encode").finish_non_exhaustive()
    }
}

/// Reports a panicking agent to the owner.
struct Failure<'a, C: Column>(&'a Shared<C>);

impl<C: Column> Drop for Failure<'_, C> {
    fn drop(&mut self) {
        self.0.state.lock().failed = true;
        self.0.owner.wake();
    }
}
