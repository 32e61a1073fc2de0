//! A target's books: its line of the ledger, and the increments that its next frame must carry.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_frame::{FrameInfo, FrameKind};
use catchment_model::{Entry, Ledger, SourceId};

use crate::frames::{FrameHead, SourceCounts, joined};
use crate::live::{Live, LiveTarget, State};

/// The facts of a frame that are kept until its fate is known.
#[derive(Debug)]
pub(crate) struct FrameTag {
    pub(crate) head: Arc<FrameHead>,
    /// The head's counts, and what became known when its columns were encoded.
    pub(crate) counts: Vec<SourceCounts>,
    /// The ledger's counts since the target's frame before.
    pub(crate) increment: Ledger,
}

/// The books of one target. Counts of what happens before a frame is made are common to all
/// targets (`Live::ledger`); a target counts what becomes of the frames.
pub(crate) struct Books {
    live: Arc<Live>,
    target: usize,
    /// Counts that no frame of the target has: of frames that were not recorded, and its own.
    carried: Ledger,
    /// Frames that were not recorded, since the last one that was begun: neighbours together, as a
    /// skipped frame has them.
    missing: Vec<FrameInfo>,
}

impl Books {
    /// Of the target with that number.
    pub(crate) fn new(live: &Arc<Live>, target: usize) -> Self {
        let carried = Ledger::new(live.ledger.source_count());
        Self { live: Arc::clone(live), target, carried, missing: Vec::new() }
    }

    pub(crate) fn of_target(&self) -> &LiveTarget {
        &self.live.targets[self.target]
    }

    /// Sets the target's state.
    pub(crate) fn set_state(&self, state: State) {
        self.live.set_target_state(self.target, state);
    }

    /// Whether another target that the run needs records.
    pub(crate) fn others_record(&self) -> bool {
        self.live.others_record(self.target)
    }

    /// Warns, with the target's name if there are several.
    pub(crate) fn warn_once(&self, warning: String) {
        match self.live.targets.len() {
            1 => self.live.warn_once(warning),
            _ => self.live.warn_once(format!("target {}: {warning}", self.of_target().name)),
        }
    }

    /// The target's ledger: what is common, and its own.
    pub(crate) fn total(&self) -> Ledger {
        self.of_target().total(&self.live.ledger)
    }

    /// Counts that no frame of the target has.
    pub(crate) fn carried(&self) -> &Ledger {
        &self.carried
    }

    /// As [`Books::carried`], with those of a frame that is begun, which is to have them.
    pub(crate) fn begin(&mut self, head: &FrameHead) -> Ledger {
        let mut increment = head.increment.clone();
        increment.add(&self.carried);
        self.carried = Ledger::new(self.carried.sources.len());
        increment
    }

    /// Carries the increment of the run's last frame; returns the frame without it.
    pub(crate) fn carry(&mut self, head: &FrameHead) -> Arc<FrameHead> {
        self.carried.add(&head.increment);
        let increment = Ledger::new(self.carried.sources.len());
        Arc::new(FrameHead { increment, is_last: true, ..head.clone() })
    }

    /// A frame is in a file.
    pub(crate) fn recorded(&mut self, tag: &FrameTag, info: &FrameInfo, frame_bytes: u64) {
        let LiveTarget { ledger, counters, .. } = self.of_target();
        for (source, counts) in (0..).map(SourceId).zip(&tag.counts) {
            ledger.add(source, Entry::FragmentsRecorded, counts.fragments);
            ledger.add(source, Entry::FragmentBytesRecorded, counts.bytes);
            ledger.add(source, Entry::FragmentsMissing, counts.missing);
            for (entry, count) in counts.of_frame() {
                ledger.add(source, entry, count);
            }
        }
        match info.kind {
            // It stands for frames that are not there.
            FrameKind::SKIPPED => return,
            FrameKind::Channels => {
                counters.slices_recorded.fetch_add(tag.head.keys, Relaxed);
            }
            FrameKind::Events => {
                counters.events_recorded.fetch_add(info.rows, Relaxed);
            }
            _ => {}
        }
        counters.frames_recorded.fetch_add(1, Relaxed);
        counters.bytes_written.fetch_add(frame_bytes, Relaxed);
    }

    /// A target that the run does not wait for was behind, and has not got these frames, which its
    /// ledger has.
    pub(crate) fn not_taken(&mut self, skipped: &FrameHead) {
        self.carried.add(&skipped.increment);
        self.is_missing(skipped);
        for (carried, counts) in self.carried.sources.iter_mut().zip(&skipped.counts) {
            counts.of_not_taken().into_iter().for_each(|(entry, count)| carried[entry] += count);
        }
    }

    /// A frame failed after it was begun.
    pub(crate) fn failed(&mut self, tag: &FrameTag) {
        self.carried.add(&tag.increment);
        self.is_missing(&tag.head);
        self.discarded(&tag.head);
    }

    /// A frame was not begun, for lack of a place.
    pub(crate) fn refused(&mut self, head: &FrameHead) {
        self.carried.add(&head.increment);
        self.is_missing(head);
        self.discarded(head);
    }

    fn is_missing(&mut self, head: &FrameHead) {
        // The last one can be written again, under its number.
        if head.is_last {
            return;
        }
        // Frames that were refused are known before those that failed, which are older.
        let at = self.missing.partition_point(|other| other.sequence < head.info.sequence);
        self.missing.insert(at, head.as_skipped().info);
        self.missing.dedup_by(|next, before| {
            let follows = before.sequence + before.rows == next.sequence;
            *before = if follows { joined(*before, *next) } else { *before };
            follows
        });
    }

    /// What is to stand for the frames just before this one, if they are missing: a frame that has
    /// only increments. For older ones, behind which others are recorded, nothing does.
    pub(crate) fn next_skipped(&mut self, head: &FrameHead) -> Option<FrameHead> {
        let info = std::mem::take(&mut self.missing).pop()?;
        let counts = vec![SourceCounts::default(); head.counts.len()];
        let increment = Ledger::new(head.counts.len());
        let is_just_before = info.sequence + info.rows == head.info.sequence;
        is_just_before.then(|| FrameHead { info, counts, increment, ..head.as_skipped() })
    }

    fn discarded(&mut self, head: &FrameHead) {
        for (source, counts) in (0..).map(SourceId).zip(&head.counts) {
            counts.of_discarded().into_iter().for_each(|(entry, count)| {
                self.add(source, entry, count);
            });
        }
    }

    /// Recorded fragments are durable, by source.
    pub(crate) fn durable(&self, fragments: &[u64]) {
        for (source, &count) in (0..).map(SourceId).zip(fragments) {
            self.of_target().ledger.add(source, Entry::FragmentsDurable, count);
        }
    }

    /// Recorded fragments of a source were removed by others: `count`, but for those that were
    /// removed before; all if there is no count.
    pub(crate) fn removed(&mut self, source: SourceId, count: Option<u64>) {
        let ledger = &self.of_target().ledger;
        let all = ledger.read(source, Entry::FragmentsRecorded)
            - ledger.read(source, Entry::FragmentsRemoved);
        self.add(source, Entry::FragmentsRemoved, count.unwrap_or(all).min(all));
    }

    /// Counts what the next frame has to say.
    fn add(&mut self, source: SourceId, entry: Entry, count: u64) {
        self.of_target().ledger.add(source, entry, count);
        self.carried.sources[source.index()][entry] += count;
    }
}
