//! What was spilled, what was forwarded, and what waits, of one spill.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Instant;

use catchment_telemetry::Clock;
use parking_lot::Mutex;
use serde::Serialize;

use crate::spill::{LostFrames, removed_words};
use crate::store_target::STUCK_NS;

/// Counts of a spill, of one thread.
#[derive(Debug, Default)]
pub(crate) struct SpillCounts {
    frames_spilled: AtomicU64,
    bytes_spilled: AtomicU64,
    frames_forwarded: AtomicU64,
    bytes_forwarded: AtomicU64,
    frames_lost: AtomicU64,
    frames_removed: AtomicU64,
    files_damaged: AtomicU64,
    frames_waiting: AtomicU64,
    bytes_waiting: AtomicU64,
    handed_over: Mutex<Option<HandedOver>>,
    /// One above the lowest number of frames in the spill's files; 0: there are none.
    above_first: AtomicU64,
    is_refusing: AtomicBool,
    /// Bytes of frames that were read to be forwarded, of all spills of the program.
    bytes_read: Arc<AtomicU64>,
    calls: Calls,
}

/// Calls to the spill's disk, for which its agent waits: it has no clock of its own meanwhile.
#[derive(Debug)]
struct Calls {
    clock: Clock,
    /// Since when one is under way, and at least 1 ns; 0: none is.
    since_ns: AtomicU64,
}

impl Default for Calls {
    fn default() -> Self {
        Self { clock: Clock::start(), since_ns: AtomicU64::new(0) }
    }
}

/// A call to the spill's disk, with those within it.
pub(crate) struct DiskCall(Option<Arc<SpillCounts>>);

impl Drop for DiskCall {
    fn drop(&mut self) {
        if let Some(counts) = &self.0 {
            counts.calls.since_ns.store(0, Relaxed);
        }
    }
}

/// What waited when a run ended, and is forwarded, and counted, by others from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// Frames.
    pub frames: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// When.
    pub at: Instant,
}

/// The same, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpillReport {
    /// Frames that were written to the spill and synced.
    pub frames_spilled: u64,
    /// Their stored bytes.
    pub bytes_spilled: u64,
    /// Spilled frames that are durable at the node, of files that were removed.
    pub frames_forwarded: u64,
    /// Bytes of these files.
    pub bytes_forwarded: u64,
    /// Spilled frames that could not be read again, and are not at the node.
    pub frames_lost: u64,
    /// Those of them whose files somebody had removed. The others were damaged.
    pub frames_removed: u64,
    /// Files that were kept aside, because not all in them could be read.
    pub files_damaged: u64,
    /// Frames in the spill's files.
    pub frames_waiting: u64,
    /// Bytes of these files.
    pub bytes_waiting: u64,
    /// For how long its disk has not answered a call that is under way; 0: none is.
    pub waits_ns: u64,
    /// Whether it had no room, or its disk refused, when frames were to go there last.
    pub is_refusing: bool,
    /// Of a run that has ended: what waited then, if anything.
    #[serde(skip)]
    pub handed_over: Option<HandedOver>,
}

impl SpillCounts {
    /// Those of a spill that is forwarded, which also count there what is read.
    pub(crate) fn forwarding(bytes_read: &Arc<AtomicU64>) -> Self {
        Self { bytes_read: Arc::clone(bytes_read), ..Self::default() }
    }

    /// A frame is read to be forwarded, once those before it are on their way.
    pub(crate) fn frame_read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    /// Says that its disk is waited for, until the result is dropped.
    pub(crate) fn call(self: &Arc<Self>) -> DiskCall {
        let since_ns = &self.calls.since_ns;
        let now_ns = self.calls.clock.elapsed_ns().max(1);
        let is_first = since_ns.compare_exchange(0, now_ns, Relaxed, Relaxed).is_ok();
        DiskCall(is_first.then(|| Arc::clone(self)))
    }

    fn waits_ns(&self) -> u64 {
        match self.calls.since_ns.load(Relaxed) {
            0 => 0,
            since_ns => self.calls.clock.elapsed_ns().saturating_sub(since_ns),
        }
    }

    pub(crate) fn read(&self) -> SpillReport {
        // First: what no longer waits is in the others.
        let frames_waiting = self.frames_waiting.load(Acquire);
        SpillReport {
            frames_spilled: self.frames_spilled.load(Relaxed),
            bytes_spilled: self.bytes_spilled.load(Relaxed),
            frames_forwarded: self.frames_forwarded.load(Relaxed),
            bytes_forwarded: self.bytes_forwarded.load(Relaxed),
            frames_lost: self.frames_lost.load(Relaxed),
            frames_removed: self.frames_removed.load(Relaxed),
            files_damaged: self.files_damaged.load(Relaxed),
            frames_waiting,
            bytes_waiting: self.bytes_waiting.load(Relaxed),
            waits_ns: self.waits_ns(),
            is_refusing: self.is_refusing(),
            handed_over: *self.handed_over.lock(),
        }
    }

    pub(crate) fn is_refusing(&self) -> bool {
        self.is_refusing.load(Relaxed)
    }

    pub(crate) fn set_refusing(&self, is_refusing: bool) {
        self.is_refusing.store(is_refusing, Relaxed);
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.bytes_waiting.load(Relaxed)
    }

    /// The lowest number of frames in the spill's files, which may be nowhere else.
    pub(crate) fn set_first(&self, first: Option<u64>) {
        self.above_first.store(first.map_or(0, |first| first.saturating_add(1)), Release);
    }

    /// Frames below that number are not in the spill alone.
    pub(crate) fn spilled_from(&self) -> u64 {
        self.above_first.load(Acquire).checked_sub(1).unwrap_or(u64::MAX)
    }

    /// Frames are durable in the spill.
    pub(crate) fn spilled(&self, frames: u64, bytes: u64) {
        self.frames_spilled.fetch_add(frames, Relaxed);
        self.bytes_spilled.fetch_add(bytes, Relaxed);
        self.frames_waiting.fetch_add(frames, Relaxed);
    }

    /// A file that an earlier run has left was found.
    pub(crate) fn found(&self, frames: u64, bytes: u64) {
        self.frames_waiting.fetch_add(frames, Relaxed);
        self.bytes_waiting.fetch_add(bytes, Relaxed);
    }

    /// A file has other bytes now.
    pub(crate) fn grown(&self, before: u64, now: u64) {
        self.bytes_waiting.fetch_add(now, Relaxed);
        less(&self.bytes_waiting, before);
    }

    /// A file is there no more, so many frames of which could not be read.
    pub(crate) fn removed(&self, frames: u64, lost: u64, bytes: u64) {
        if frames > lost {
            self.frames_forwarded.fetch_add(frames - lost, Relaxed);
            self.bytes_forwarded.fetch_add(bytes, Relaxed);
        }
        self.left(frames, bytes);
        self.set_refusing(false);
    }

    /// What waits here is another's from now on.
    pub(crate) fn hand_over(&self, frames: u64, bytes: u64) {
        let at = Instant::now();
        *self.handed_over.lock() = (frames > 0).then_some(HandedOver { frames, bytes, at });
        self.left(frames, bytes);
    }

    /// Frames that waited when another took them over, and the bytes of their files.
    pub(crate) fn handed_over(&self) -> (u64, u64) {
        self.handed_over.lock().map_or((0, 0), |one| (one.frames, one.bytes))
    }

    /// So much waits here no more.
    fn left(&self, frames: u64, bytes: u64) {
        less(&self.frames_waiting, frames);
        less(&self.bytes_waiting, bytes);
    }

    /// Files are kept aside.
    pub(crate) fn damaged(&self, files: u64) {
        self.files_damaged.fetch_add(files, Relaxed);
    }

    /// Frames of files in that folder are lost, which somebody has removed. Returns a warning.
    pub(crate) fn lost_with_files(&self, lost: &LostFrames, folder: &Path) -> Option<String> {
        let frames = lost.values().fold(0, |sum: u64, frames| sum.saturating_add(*frames));
        self.lost(frames, true);
        (frames > 0).then(|| removed_words(frames, lost, folder))
    }

    /// Frames cannot be read again: their files `are_removed`, or are damaged.
    pub(crate) fn lost(&self, frames: u64, are_removed: bool) {
        self.frames_lost.fetch_add(frames, Relaxed);
        if are_removed {
            self.frames_removed.fetch_add(frames, Relaxed);
        }
    }
}

impl SpillReport {
    /// Whether it takes frames: it has room, and its disk answers.
    pub fn takes(&self) -> bool {
        !self.is_refusing && self.waits_ns < STUCK_NS
    }

    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            frames_spilled: self.frames_spilled + other.frames_spilled,
            bytes_spilled: self.bytes_spilled + other.bytes_spilled,
            frames_forwarded: self.frames_forwarded + other.frames_forwarded,
            bytes_forwarded: self.bytes_forwarded + other.bytes_forwarded,
            frames_lost: self.frames_lost + other.frames_lost,
            frames_removed: self.frames_removed + other.frames_removed,
            files_damaged: self.files_damaged + other.files_damaged,
            frames_waiting: self.frames_waiting + other.frames_waiting,
            bytes_waiting: self.bytes_waiting + other.bytes_waiting,
            waits_ns: self.waits_ns.max(other.waits_ns),
            is_refusing: self.is_refusing || other.is_refusing,
            handed_over: None,
        }
    }
}

/// Never below zero, whatever was counted.
fn less(count: &AtomicU64, by: u64) {
    let _before = count.fetch_update(Release, Relaxed, |count| Some(count.saturating_sub(by)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_which_nothing_could_be_read_is_not_forwarded() {
        let counts = SpillCounts::default();
        counts.found(5, 100);
        counts.removed(2, 2, 40);
        counts.removed(3, 1, 60);
        let report = counts.read();
        assert_eq!((report.frames_forwarded, report.bytes_forwarded), (2, 60));
        assert_eq!((report.frames_waiting, report.bytes_waiting), (0, 0));
    }

    #[test]
    fn a_call_counts_from_the_first_to_the_last_of_those_within_it() {
        let counts = Arc::new(SpillCounts::default());
        let is_waited_for = || counts.calls.since_ns.load(Relaxed) > 0;
        let outer = counts.call();
        drop(counts.call());
        assert!(is_waited_for());
        drop(outer);
        assert_eq!((is_waited_for(), counts.read().waits_ns), (false, 0));
    }
}
