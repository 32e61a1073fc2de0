//! The ledger of one target, and what its next frame must carry.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::Presence;
use catchment_frame::{FrameInfo, FrameKind, encode_ledger_increment};
use catchment_model::{Entry, Ledger, SourceId, SourceLedger};
use catchment_writer::StoreFile;

use crate::file::OpenFile;
use crate::frame_counts::SourceCounts;
use crate::frames::{FrameHead, joined};
use crate::in_files::InFiles;
use crate::live::{Live, State};
use crate::live_target::LiveTarget;
use crate::settlement::{BegunFrame, Settlement};
use crate::spill::LeftBehind;
use crate::store_target::IN_MEMORY;

/// The facts of a frame that are kept until its fate is known.
#[derive(Debug)]
pub(crate) struct FrameTag {
    pub(crate) head: Arc<FrameHead>,
    /// The head's counts, and what became known when its columns were encoded.
    pub(crate) counts: Vec<SourceCounts>,
    /// The ledger's counts since the target's frame before.
    pub(crate) increment: Ledger,
    pub(crate) begun: BegunFrame,
}

/// The ledger of one target, and the increments that its next frame must carry.
///
/// Counts of what happens before a frame is made are common to all targets (`Live::ledger`). Every
/// fate of a frame is reported here and counted here alone: *not taken*, *refused*, *failed*,
/// *recorded*, *durable*, *removed*. Two fates are counted at once by the frames agent, since the
/// target may learn of them late or never: a frame that it does not get because it is behind, and
/// one that waits for an agent that has failed. (*Copied* counts nothing: the last target to drop a
/// column frees its memory.)
pub(crate) struct TargetLedger {
    live: Arc<Live>,
    target: usize,
    /// Counts that no frame of the target has: of frames that were not recorded, and its own.
    carried: Ledger,
    /// Frames that were not recorded, since the last one that was begun: neighbours together, as a
    /// skipped frame has them.
    missing: Vec<FrameInfo>,
    /// If there are link sources.
    settlement: Option<Settlement>,
    /// Of a folder with a spill: its frames are held, and counted, by its agent until they are
    /// durable in the folder's files, of which this says how far, or in the spill.
    held: Option<InFiles>,
    /// Of `fragments_removed` those of files in the spill, by source.
    spill_removed: Vec<u64>,
    /// Why nothing can be written to its folder, until a write has succeeded.
    fault: Option<String>,
    /// Whether a folder with a spill hangs, and whether the spill refused frames when that was
    /// shown last.
    seen: (bool, bool),
    /// When its agent looked last.
    now_ns: u64,
}

impl TargetLedger {
    /// Of the target with that number.
    pub(crate) fn new(live: &Arc<Live>, target: usize) -> Self {
        let begins = &live.beginning.targets[target];
        let (carried, missing) = (begins.carried.clone(), begins.missing.into_iter().collect());
        let settlement = Settlement::of(live, target);
        let (live, held) = (Arc::clone(live), None);
        let (fault, seen) = (None, (false, false));
        let spill_removed = vec![0; carried.sources.len()];
        Self {
            live,
            target,
            carried,
            missing,
            settlement,
            held,
            spill_removed,
            fault,
            seen,
            now_ns: 0,
        }
    }

    /// From now on frames are held until they are durable, and come again if they fail.
    pub(crate) fn hold(&mut self) {
        let begins = &self.live.beginning;
        let mut frames = begins.common.clone();
        frames.add(&begins.targets[self.target].ledger);
        self.of_target().variant.mask(&mut frames.sources);
        self.held = Some(InFiles::behind(frames.since(&self.carried), begins.sequence));
    }

    /// The number of the first frame.
    pub(crate) fn begins(&self) -> u64 {
        self.live.beginning.sequence
    }

    /// Whether frames are held until they are durable.
    pub(crate) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// What is durable in files of frames that are held.
    pub(crate) fn held(&mut self) -> Option<&mut InFiles> {
        self.held.as_mut()
    }

    pub(crate) fn of_target(&self) -> &LiveTarget {
        &self.live.targets[self.target]
    }

    /// The recorder's stream within the run.
    pub(crate) fn stream(&self) -> u32 {
        self.live.beginning.stream
    }

    /// Its agent looks.
    pub(crate) fn look(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Sets the target's state.
    pub(crate) fn set_state(&self, state: State) {
        self.live.set_target_state(self.target, state);
    }

    /// Whether the run is to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.live.is_ending.load(Relaxed)
    }

    /// Whether the run's end waits for frames to be durable, which are held until then.
    pub(crate) fn is_end_held(&self) -> bool {
        self.held.is_some() && self.is_ending()
    }

    /// Shows why the target's storage node takes nothing now, or that it does.
    pub(crate) fn set_away(&self, away: Option<String>) {
        *self.of_target().away.lock() = away;
    }

    /// Nothing can be written to its folder.
    pub(crate) fn folder_fails(&mut self, reason: String) {
        self.fault = Some(reason);
        self.show_folder();
    }

    /// A file that was left has failed, while the present one is intact.
    pub(crate) fn left_file_failed(&self, reason: String) {
        if self.held.is_some() {
            return self.warn_once(reason);
        }
        self.set_state(State::Fault { reason });
        self.set_state(State::Recording);
    }

    /// A write to its folder has succeeded.
    pub(crate) fn folder_writes(&mut self) {
        if self.fault.take().is_some() {
            self.show_folder();
        }
    }

    /// Whether nothing can be written to its folder.
    pub(crate) fn is_in_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Shows whether a folder with a spill hangs, and whether the spill takes its frames.
    pub(crate) fn look_at_spill(&mut self, hangs: bool) {
        let seen = (hangs, self.is_spill_refusing());
        if std::mem::replace(&mut self.seen, seen) != seen {
            self.show_folder();
        }
    }

    /// A folder that has failed is in fault. One with a spill that takes its frames is not: they
    /// are recorded there, and the folder is away, as a storage node may be.
    fn show_folder(&self) {
        let (has_spill, (hangs, _)) = (self.held.is_some(), self.seen);
        let why = self.fault.clone().or_else(|| hangs.then(|| HANGS.to_owned()));
        let away = why.filter(|_| has_spill);
        let before = std::mem::replace(&mut *self.of_target().away.lock(), away.clone());
        let is_back = away.is_none();
        if let Some(why) = away.filter(|_| before.is_none()) {
            self.warn_once(format!("{why}{UNTIL_BACK}"));
        } else if let Some(why) = before.filter(|_| is_back) {
            self.end_warnings(&format!("{why}{UNTIL_BACK}"));
            self.end_warnings(IN_MEMORY);
        }
        let spills = has_spill && !self.is_spill_refusing();
        let fault = self.fault.clone().filter(|_| !spills);
        self.set_state(fault.map_or(State::Recording, |reason| State::Fault { reason }));
    }

    fn is_spill_refusing(&self) -> bool {
        self.of_target().spill.as_ref().is_some_and(|spill| spill.is_refusing())
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

    /// The cause of the target's warnings with these words is over.
    pub(crate) fn end_warnings(&self, words: &str) {
        self.live.end_warnings(words, self.now_ns);
    }

    /// The target's ledger: what is common, and its own. Where frames are held, what those count
    /// that are written.
    pub(crate) fn total(&self) -> Ledger {
        let total = || self.of_target().total(&self.live.ledger);
        self.held.as_ref().map_or_else(total, InFiles::total)
    }

    /// Counts that no frame of the target has, with those of a frame that is begun: it has them.
    pub(crate) fn begin(&mut self, head: &FrameHead) -> Ledger {
        let mut increment = head.increment.clone();
        increment.add(&self.carried);
        self.carried = Ledger::new(self.carried.sources.len());
        increment
    }

    /// The positions that a frame has which is begun: its own, and those that no frame has.
    pub(crate) fn begin_positions(&mut self, head: &FrameHead) -> BegunFrame {
        let settlement = self.settlement.as_mut();
        settlement.map_or_else(BegunFrame::default, |one| one.begin(&head.info, &head.positions))
    }

    /// Whether positions of sources are in no frame of the target.
    pub(crate) fn has_positions(&self) -> bool {
        self.settlement.as_ref().is_some_and(Settlement::has_carried)
    }

    /// Whether the target writes the run's last frame: for counts and positions that no frame has,
    /// or since the run waits for it behind frames of which it has got nothing: what these state of
    /// links is durable then (`link_positions.rs`).
    pub(crate) fn needs_last(&self, last: &FrameHead) -> bool {
        let mut records = Vec::new();
        encode_ledger_increment(&self.carried, &mut records);
        let ends_before = |one: &FrameInfo| one.sequence + one.rows == last.info.sequence;
        let is_behind = self.settlement.is_some()
            && self.of_target().required
            && self.missing.last().is_some_and(ends_before);
        !records.is_empty() || self.has_positions() || is_behind
    }

    /// Asks for a frame if positions wait for one and there is a file: senders may send nothing
    /// before they hear that these are durable.
    pub(crate) fn want_frame(&self, has_file: bool) {
        let target = self.of_target();
        let is_wanted = has_file && target.required && self.has_positions();
        target.wants_frame.store(is_wanted, Relaxed);
    }

    /// Carries the increment of the run's last frame; returns the frame without it.
    pub(crate) fn carry(&mut self, head: &FrameHead) -> Arc<FrameHead> {
        self.carried.add(&head.increment);
        self.settle(|one| one.carry(&head.positions));
        let increment = Ledger::new(self.carried.sources.len());
        let positions = Arc::default();
        Arc::new(FrameHead { increment, positions, is_last: true, ..head.clone() })
    }

    /// A frame is in a file.
    pub(crate) fn recorded(&mut self, tag: &FrameTag, info: &FrameInfo, frame_bytes: u64) {
        let target = self.of_target();
        target.count(&tag.counts, SourceCounts::of_recorded);
        target.count(&tag.counts, SourceCounts::of_frame);
        let counters = &target.counters;
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
        self.settle(|one| one.missing(&skipped.info, &skipped.positions));
        for (carried, counts) in self.carried.sources.iter_mut().zip(&skipped.counts) {
            counts.of_not_taken().into_iter().for_each(|(entry, count)| carried[entry] += count);
        }
    }

    /// A frame failed after it was begun.
    pub(crate) fn failed(&mut self, tag: &FrameTag) {
        self.carried.add(&tag.increment);
        self.settle(|one| one.failed(&tag.begun));
        self.is_missing(&tag.head);
        self.discarded(&tag.head);
    }

    /// A frame was not begun, for lack of a place.
    pub(crate) fn refused(&mut self, head: &FrameHead) {
        self.carried.add(&head.increment);
        if !head.is_last {
            self.settle(|one| one.missing(&head.info, &head.positions));
        }
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
        let skipped = FrameHead { positions: Arc::default(), ..head.as_skipped() };
        is_just_before.then_some(FrameHead { info, counts, increment, ..skipped })
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

    /// Counts fragments of frames that became durable in the spill, or then at the node, by source.
    pub(crate) fn moved(&mut self, entry: Entry, fragments: &[u64]) {
        for (source, &count) in (0..).map(SourceId).zip(fragments) {
            self.add(source, entry, count);
        }
    }

    /// Fragments that were recorded in the spill are lost, by source: their files were removed.
    pub(crate) fn spill_removed(&mut self, fragments: &[u64]) {
        self.moved(Entry::FragmentsRemoved, fragments);
        for (sum, count) in self.spill_removed.iter_mut().zip(fragments) {
            *sum = sum.saturating_add(*count);
        }
    }

    /// What is in the spill is left to another.
    pub(crate) fn left_in_spill(&mut self, left: LeftBehind) {
        self.spill_removed(&left.fragments_removed);
        left.warnings.into_iter().for_each(|text| self.warn_once(text));
    }

    /// Of each source, at the run's end, spilled fragments that no frame counts as such, and those
    /// that no frame counts as forwarded once all that is spilled is; empty if there are none.
    pub(crate) fn moved_at_end(&self) -> Vec<[u64; 2]> {
        let ledger = &self.of_target().ledger;
        let of = |(source, carried): (SourceId, &SourceLedger)| {
            let (spilled, forwarded) = (Entry::FragmentsSpilled, Entry::FragmentsForwarded);
            let [all, there] = [spilled, forwarded].map(|entry| ledger.read(source, entry));
            let waiting = all.saturating_sub(there);
            [carried[spilled], carried[forwarded].saturating_add(waiting)]
        };
        let all: Vec<_> = (0..).map(SourceId).zip(&self.carried.sources).map(of).collect();
        if all.iter().any(|&one| one != [0, 0]) { all } else { Vec::new() }
    }

    /// Whether each frame is to be synced, also one without fragments: there are link sources, or
    /// frames are held.
    pub(crate) fn has_each_synced(&self) -> bool {
        self.settlement.is_some() || self.held.is_some()
    }

    /// Has the next table of a file state what is known of its recorded frames: the sum of their
    /// counts, and the newest positions up to the last one. Where frames are held, positions stand
    /// in these alone: some that are settled are in the spill, and in no file.
    pub(crate) fn state_in(&mut self, file: &mut OpenFile) {
        let sum = file.attached.frames().clone();
        file.set_frames_ledger(&sum);
        if self.held.is_none() {
            self.settle(|one| one.state_in(file));
        }
    }

    /// A frame is written to a file.
    pub(crate) fn written(
        &mut self,
        (file, index): (StoreFile, u32),
        tag: &FrameTag,
        info: &FrameInfo,
        frame_bytes: u64,
    ) {
        if let Some(held) = &mut self.held {
            return held.recorded(file, info.numbers().1.saturating_add(1), &tag.increment);
        }
        self.settle(|one| one.recorded(&tag.begun, file, index));
        self.recorded(tag, info, frame_bytes);
    }

    /// A frame could not be written to a file.
    pub(crate) fn not_written(&mut self, tag: &FrameTag) {
        match &mut self.held {
            Some(held) => held.failed(tag.head.info.sequence),
            None => self.failed(tag),
        }
    }

    /// A sync of what is written to a file has begun.
    pub(crate) fn sync_begun(&mut self, file: StoreFile) {
        match &mut self.held {
            Some(held) => held.sync_begun(file),
            None => self.settle(|one| one.sync_begun(file)),
        }
    }

    /// It has succeeded, and has made these fragments durable, by source.
    pub(crate) fn synced(&mut self, file: StoreFile, fragments: &[u64]) {
        if let Some(held) = &mut self.held {
            return held.synced(file);
        }
        self.durable(fragments);
        self.settle(|one| one.synced(file));
    }

    /// A file is closed, which has made these fragments durable, by source.
    pub(crate) fn closed(&mut self, file: StoreFile, fragments: &[u64]) {
        // Of held frames, its end says so.
        if self.held.is_none() {
            self.durable(fragments);
            self.settle(|one| one.closed(file));
        }
    }

    /// Nothing more becomes of a file.
    pub(crate) fn file_ended(&mut self, file: StoreFile, index: u32) {
        match &mut self.held {
            Some(held) => held.ended(file),
            None => self.settle(|one| one.file_ended(index)),
        }
    }

    /// Whether something is in no frame at the run's end. Held frames are all written then.
    pub(crate) fn has_unwritten(&self) -> bool {
        let has_carried = || self.carried.total().iter().any(|(_, count)| count > 0);
        self.held.is_none() && (has_carried() || self.has_positions())
    }

    /// Does something with the settlement of frames, if there are link sources.
    pub(crate) fn settle(&mut self, act: impl FnOnce(&mut Settlement)) {
        self.settlement.as_mut().map(act);
    }

    /// Counts the fragments recorded in a file that is gone or was truncated, and those that only
    /// its frames count, and warns, since recording may resume too soon for the fault to be seen.
    /// Returns the reason.
    pub(crate) fn count_removed(&mut self, file: &mut OpenFile, presence: Presence) -> String {
        (file.failed, file.gone) = (true, true);
        let path = file.path.display();
        let reason = match presence {
            Presence::Removed { .. } => format!("{path} was removed while it was being written"),
            Presence::Truncated => format!("{path} was truncated while it was being written"),
            _ => format!("{path} is gone: it was moved, or its disk was unmounted"),
        };
        for (source, &own) in (0..).map(SourceId).zip(file.attached.fragments()) {
            let removed = match presence {
                Presence::Removed { others: false } => None,
                Presence::Removed { others: true } | Presence::Truncated => Some(own),
                Presence::There | Presence::Elsewhere => Some(0),
            };
            self.removed(source, removed);
        }
        let counts = match presence {
            // None of the frames so far is left.
            Presence::Removed { others: false } => Some(match &self.held {
                Some(held) => held.total(),
                None => self.total().since(&self.carried),
            }),
            Presence::Removed { others: true } | Presence::Truncated => {
                Some(file.attached.frames().clone())
            }
            Presence::There | Presence::Elsewhere => None,
        };
        if let Some(counts) = counts {
            for (source, counts) in (0..).map(SourceId).zip(&counts.sources) {
                let counted = counts.counted_out();
                // Of all counts, those that were removed earlier are among the others.
                let counted = match presence {
                    Presence::Removed { others: false } => {
                        counted.saturating_sub(counts[Entry::FragmentCountsUnconfirmed])
                    }
                    _ => counted,
                };
                self.add(source, Entry::FragmentCountsUnconfirmed, counted);
            }
            self.settle(|one| one.removed(file.id, file.index));
        }
        self.warn_once(reason.clone());
        reason
    }

    /// A file's disk did not confirm what was recorded in it since its last sync that succeeded:
    /// the next frame says so, and has its positions, so that senders need not keep it for good.
    /// Below these are also fragments that only the file's frames count. Held frames come again.
    pub(crate) fn unconfirmed(&mut self, file: &mut OpenFile) {
        if self.held.is_some() {
            return;
        }
        for (source, one) in (0..).map(SourceId).zip(file.attached.close_failed()) {
            self.add(source, Entry::FragmentsUnconfirmed, one.recorded);
            self.add(source, Entry::FragmentCountsUnconfirmed, one.counted);
        }
        self.settle(|one| one.removed(file.id, file.index));
    }

    /// Fragments of a source that were in files were removed by others: `count`, but for those that
    /// were removed before; all if there is no count.
    fn removed(&mut self, source: SourceId, count: Option<u64>) {
        let ledger = &self.of_target().ledger;
        // Of held frames, those in the spill are recorded and in no file, and those that are not
        // durable yet are in a file and not recorded.
        let in_files = match &self.held {
            Some(held) => held.fragments(source),
            None => ledger.read(source, Entry::FragmentsRecorded),
        };
        let removed = ledger.read(source, Entry::FragmentsRemoved);
        let removed = removed.saturating_sub(self.spill_removed[source.index()]);
        let all = in_files.saturating_sub(removed);
        self.add(source, Entry::FragmentsRemoved, count.unwrap_or(all).min(all));
    }

    /// Counts what the next frame has to say.
    fn add(&mut self, source: SourceId, entry: Entry, count: u64) {
        self.of_target().ledger.add(source, entry, count);
        let carried = &mut self.carried.sources[source.index()][entry];
        *carried = carried.saturating_add(count);
    }
}

/// What is known of a folder that hangs: which call hangs is said by `waits_seconds`.
const HANGS: &str = "nothing becomes durable in its folder";

/// The end of the warning that a folder takes nothing.
const UNTIL_BACK: &str = "; frames go to the spill until the folder is back";

#[cfg(test)]
mod tests {
    use catchment_agent::FileId;

    use super::*;
    use crate::config::{RecorderConfig, SourceConfig};

    const SOURCE: SourceId = SourceId(0);
    const FILE: StoreFile = StoreFile { store: 0, id: FileId(1) };

    #[test]
    fn of_held_frames_those_that_were_in_files_are_removed_and_no_spilled_ones() {
        let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
        let live = Arc::new(Live::new(&RecorderConfig::new("".into(), vec![source])));
        let mut ledger = TargetLedger::new(&live, 0);
        ledger.hold();
        let mut frame = Ledger::new(1);
        frame.sources[0][Entry::FragmentsRecorded] = 3;
        // Two frames are in a file, of which the first one is durable; a third one is spilled.
        for end in [1, 2] {
            ledger.held().expect("it holds").recorded(FILE, end, &frame);
        }
        for entry in [Entry::FragmentsRecorded, Entry::FragmentsSpilled] {
            live.targets[0].ledger.add(SOURCE, entry, 3);
        }
        live.targets[0].ledger.add(SOURCE, Entry::FragmentsRecorded, 3);
        let removed = || live.targets[0].ledger.read(SOURCE, Entry::FragmentsRemoved);
        ledger.removed(SOURCE, None);
        assert_eq!(removed(), 6);
        // It is forwarded to another file, which is removed, too.
        ledger.held().expect("it holds").recorded(FILE, 3, &frame);
        ledger.removed(SOURCE, None);
        ledger.removed(SOURCE, None);
        assert_eq!((removed(), ledger.carried.sources[0][Entry::FragmentsRemoved]), (9, 9));
    }
}
