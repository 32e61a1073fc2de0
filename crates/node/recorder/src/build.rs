//! The build thread: from descriptors to frames.
//!
//! A duty cycle: read the clock once, move descriptors from the receive threads' rings into the
//! builder, let it close events, take the frames that it cuts, pass them on to the write thread, and
//! give back the memory of what was written or discarded. It never waits for anybody: frames that the
//! write thread cannot take yet are kept here, and what they hold is bounded by the chunk pool.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use catchment_builder::{Builder, Cut, Discard, Fragment};
use catchment_telemetry::FillLevel;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use rtrb::Consumer;

use crate::clock::Clock;
use crate::live::Live;
use crate::pool::{ChunkPool, ChunkUse};

/// How long the thread sleeps when there was nothing to do. Descriptors gather meanwhile, which makes
/// the next cycle cheaper.
const IDLE_SLEEP: Duration = Duration::from_micros(1_000);
/// Frames kept for reuse: after a stall, as many as waited then need no new memory.
const REUSE_MAX: usize = 64;
/// How often displays get new counts of events.
const STATUS_INTERVAL_NS: u64 = 100_000_000;
/// Descriptors taken from one ring per cycle.
const BATCH_FRAGMENTS_MAX: usize = 1 << 16;

/// Descriptors from one receive thread, and how full their ring is.
pub(crate) type Ring = (Consumer<Fragment>, Arc<FillLevel>);

/// The build thread's state.
pub(crate) struct Build {
    pub(crate) builder: Builder,
    pub(crate) clock: Clock,
    pub(crate) rings: Vec<Ring>,
    pub(crate) chunk_use: ChunkUse,
    pub(crate) pool: Arc<ChunkPool>,
    pub(crate) live: Arc<Live>,
    /// Frames on their way to the write thread.
    pub(crate) frames: Sender<Cut>,
    /// Frames whose bytes the write thread needs no more.
    pub(crate) done: Receiver<Cut>,
    /// Payload bytes between the builder and the write thread.
    pub(crate) waiting_fill: Arc<FillLevel>,
}

impl Build {
    /// Builds until all receive threads have ended and all frames are passed on.
    pub(crate) fn run(mut self) {
        let mut waiting = VecDeque::new();
        let mut reuse = Vec::new();
        let mut discarded = Vec::new();
        let mut finished = false;
        let mut status_due_ns = 0;
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= status_due_ns {
                self.show_status();
                status_due_ns = now_ns + STATUS_INTERVAL_NS;
            }
            let mut work = self.take_descriptors(now_ns);
            if !finished && work == 0 && self.rings.iter().all(|(ring, _)| ended(ring)) {
                self.builder.finish(now_ns);
                finished = true;
            }
            self.builder.poll(now_ns);
            self.account(&mut discarded);
            while let Some(cut) = self.builder.cut(now_ns, reuse.pop()) {
                self.account(&mut discarded);
                self.waiting_fill.put(cut.payload_bytes);
                waiting.push_back(cut);
                work += 1;
            }
            self.account(&mut discarded);
            work += self.pass_on(&mut waiting);
            work += self.take_back(&mut reuse);
            self.chunk_use.give_back(&self.pool);
            if finished && waiting.is_empty() {
                self.show_status();
                return;
            }
            if work == 0 {
                std::thread::sleep(IDLE_SLEEP);
            }
        }
    }

    fn take_descriptors(&mut self, now_ns: u64) -> usize {
        let mut taken = 0;
        for (ring, fill) in &mut self.rings {
            let available = ring.slots().min(BATCH_FRAGMENTS_MAX);
            if available == 0 {
                continue;
            }
            let Ok(chunk) = ring.read_chunk(available) else { continue };
            let (first, second) = chunk.as_slices();
            for part in [first, second] {
                for fragment in part {
                    let chunk = self.pool.chunk_of(fragment.offset);
                    self.chunk_use.arrived(fragment.source, chunk, fragment.bytes);
                }
                self.builder.push(now_ns, part);
            }
            chunk.commit_all();
            fill.take((available * size_of::<Fragment>()) as u64);
            taken += available;
        }
        taken
    }

    /// Books what the builder counted and frees what it discarded.
    fn account(&mut self, discarded: &mut Vec<Discard>) {
        let ledger = &self.live.ledger;
        self.builder.counts(|source, entry, count| ledger.add(source, entry, count));
        self.builder.discarded(discarded);
        for discard in discarded.drain(..) {
            self.chunk_use.done(&self.pool, discard.offset, u64::from(discard.bytes));
        }
    }

    fn show_status(&self) {
        let status = self.builder.status();
        let counters = &self.live.counters;
        counters.events_open.store(status.open_events, Relaxed);
        counters.events_complete.store(status.events_complete, Relaxed);
        counters.events_incomplete.store(status.events_incomplete, Relaxed);
        counters.events_timed_out.store(status.events_timed_out, Relaxed);
        counters.events_overtaken.store(status.events_overtaken, Relaxed);
        counters.events_absent.store(status.events_absent, Relaxed);
        counters.fragments_unconfigured.store(status.fragments_of_no_source, Relaxed);
    }

    fn pass_on(&mut self, waiting: &mut VecDeque<Cut>) -> usize {
        let mut passed = 0;
        while let Some(cut) = waiting.pop_front() {
            match self.frames.try_send(cut) {
                Ok(()) => passed += 1,
                Err(TrySendError::Full(cut)) => {
                    waiting.push_front(cut);
                    break;
                }
                // The write thread ends only after this one, or by a panic, which the join reports.
                Err(TrySendError::Disconnected(_)) => waiting.clear(),
            }
        }
        passed
    }

    fn take_back(&mut self, reuse: &mut Vec<Cut>) -> usize {
        let mut taken = 0;
        while let Ok(cut) = self.done.try_recv() {
            for span in cut.columns.iter().flat_map(|column| &column.spans) {
                self.chunk_use.done(&self.pool, span.offset, span.bytes);
            }
            self.waiting_fill.take(cut.payload_bytes);
            if reuse.len() < REUSE_MAX {
                reuse.push(cut);
            }
            taken += 1;
        }
        taken
    }
}

fn ended(ring: &Consumer<Fragment>) -> bool {
    // Abandoned first: what was pushed before the producer went is then seen by the second look.
    ring.is_abandoned() && ring.is_empty()
}
