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
use crate::large::Large;
use crate::rule::{Ask, Level};
use crate::work::{Column, Done, Means, Taken, Worker};

/// Raw bytes that an agent takes at a time if columns are small.
const BATCH_BYTES: usize = 128 << 10;
/// Columns that an agent takes at a time.
const BATCH_COLUMNS: usize = 32;
/// A piece of a large column has one of so many parts of the raw bytes in progress, so that a large
/// column occupies all agents, and none of them much memory.
const PIECES_IN_PROGRESS: usize = 8;

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
    batch: Vec<Task<C>>,
}

/// Work of an agent, for the column of that number.
enum Task<C: Column> {
    Column(u64, C, Ask),
    /// A piece of a large column.
    Piece(u64, Arc<Large<C>>, usize),
}

struct Shared<C: Column> {
    state: Mutex<State<C>>,
    buffers: Buffers,
    piece_bytes: usize,
    encoders: Waker,
    owner: Waker,
    /// The share of the CPUs that is free, as bits of an f32.
    free_cpu_share: AtomicU32,
    /// The present [`Level`], as a number.
    level: AtomicU8,
}

struct State<C: Column> {
    waiting: VecDeque<Task<C>>,
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
            piece_bytes: (config.bytes_max / PIECES_IN_PROGRESS).max(PIECE_BYTES_MIN),
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
        state.waiting.push_back(Task::Column(number, column, ask));
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
        let means = Means {
            free_cpu_share: f32::from_bits(shared.free_cpu_share.load(Relaxed)),
            go_on: &|| Level::of(shared.level.load(Relaxed)) != Level::None,
            buffers: &shared.buffers,
            piece_bytes: shared.piece_bytes,
        };
        let columns = self.batch.len() as u64;
        for task in self.batch.drain(..) {
            match task {
                Task::Column(number, column, mut ask) => {
                    ask.level = ask.level.max(Level::of(shared.level.load(Relaxed)));
                    match self.worker.encode(column, &ask, &means) {
                        Taken::Done(done) => shared.put_result(number, done),
                        Taken::Large(large) => shared.put_pieces(number, large),
                    }
                }
                Task::Piece(number, large, index) => {
                    self.worker.encode_piece(&large, index, &means);
                    // The agent that has encoded the last piece has the column.
                    if let Some(large) = Arc::into_inner(large) {
                        shared.put_result(number, large.finish());
                    }
                }
            }
        }
        std::mem::forget(failure);
        Work::again(columns)
    }
}

impl<C: Column> Shared<C> {
    fn put_result(&self, number: u64, done: Done<C>) {
        let mut state = self.state.lock();
        let index = (number - state.first) as usize;
        state.results[index] = Some(done);
        // The owner waits only for the oldest one.
        let owner_waits = index == 0 && std::mem::take(&mut state.owner_waits);
        drop(state);
        if owner_waits {
            self.owner.wake();
        }
    }

    /// Has the pieces of a large column encoded before younger columns.
    fn put_pieces(&self, number: u64, large: Large<C>) {
        let (count, large) = (large.pieces().count(), Arc::new(large));
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        for index in (0..count).rev() {
            state.waiting.push_front(Task::Piece(number, Arc::clone(&large), index));
        }
        drop((state, large));
        self.encoders.wake();
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
            bytes += match &next {
                Task::Column(_, column, _) => column.raw_bytes(),
                Task::Piece(_, large, index) => large.pieces().raw(*index).len(),
            };
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

/// Raw bytes of a piece, if little may be in progress.
const PIECE_BYTES_MIN: usize = 64 << 10;

/// Reports a panicking agent to the owner.
struct Failure<'a, C: Column>(&'a Shared<C>);

impl<C: Column> Drop for Failure<'_, C> {
    fn drop(&mut self) {
        self.0.state.lock().failed = true;
        self.0.owner.wake();
    }
}
