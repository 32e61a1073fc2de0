//! A target's agent, from encoded columns to the files of a folder, and its ledger.
//!
//! Columns are copied into disk buffers, which are written while the next are filled. A frame
//! counts as recorded when all its writes have completed, in the order of the frames; it counts as
//! durable when a later fdatasync has completed.
//!
//! When a write or a sync fails, recording is in fault: the file gets no more frames, frames are
//! refused and counted, and once a second the agent tries to make the next file, if the folder's
//! disk has room for two frames. The file is closed behind its last whole frame when a next one
//! exists, or at the end of the run, with the last increments. If only the next file cannot be
//! made, recording continues in the open one, and the next is tried once a second.
//!
//! A full disk is noticed before a write fails: a frame is begun only if the file has blocks for
//! it, or the disk has room beside the reserve for TOCs, trends and the catalogue
//! (docs/decisions/disk-faults.md). Once a second the store checks the free space, and whether the
//! file is still there and whole.
//!
//! A target with several folders leaves the disk of the current file when that disk fails, is full
//! or does not respond (`disks.rs`). It holds the columns of the frame that is being copied until
//! all are copied, so that a frame under way goes to a file on another disk, as a whole.
//!
//! One frame is under way at a time: *offered*, until a file and room for it are available; then
//! *copied*, column by column as they come. Last comes a column of the target's own: the ledger's
//! counts since its frame before. The agent never blocks: it returns, and the store or the frames
//! agent wakes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Agent, FolderStore, Presence, Work};
use catchment_encoder::{Element, Level};
use catchment_frame::{FrameInfo, FrameKind, encode_ledger_increment};
use catchment_model::{Entry, Ledger, SourceId};
use catchment_writer::{
    FrameColumn, FrameEncoder, FrameUnderWay, Next, StoreFile, ledger_column, position_column,
};
use crossbeam_channel::TryRecvError;

use crate::config::RecorderConfig;
use crate::file::OpenFile;
use crate::file_steps::{Admission, Ending};
use crate::frames::{FrameHead, SharedColumn, SourceCounts, joined};
use crate::live::{Live, State};
use crate::live_target::LiveTarget;
use crate::pool::ColumnBytes;
use crate::run_files::RunFiles;
use crate::settlement::{BegunFrame, Settlement};
use crate::target_queue::{Answer, Item, TargetInput, out_of_chunks};

/// The longest time to the next cycle while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// The cost of a step in bytes, beside the bytes copied in it.
const STEP_BYTES: usize = 16 << 10;

/// The most bytes that a frame's increments and the padding of its last block take.
const INCREMENT_BYTES: u64 = 64 << 10;

/// A target's state.
pub(crate) struct Target<S: FolderStore> {
    now_ns: u64,
    input: TargetInput,
    files: RunFiles<S>,
    // By stage. A skipped frame is copied before the one that is offered.
    offered: Option<CurrentFrame>,
    copying: Option<CurrentFrame>,
    /// Whether the columns of a frame that was refused are on their way.
    discards: bool,
    /// Whether a skipped frame was the first of the file, so that the next one is as good as that.
    begins_file: bool,
    /// The run's last frame, whose increment is carried.
    last: Option<(Arc<FrameHead>, Vec<SharedColumn>)>,
    /// Encodes the column of increments.
    encoder: FrameEncoder<ColumnBytes>,
    frame_header_bytes: u64,
    /// Bytes copied in one cycle.
    cycle_bytes: usize,
}

/// A frame that waits for a file and for room, or is being copied.
struct CurrentFrame {
    tag: FrameTag,
    /// Whether it was begun, and its tag has the increment: it is offered again if the disk to
    /// which it was being copied is left.
    is_begun: bool,
    /// What comes before the next item from the queue: all of the run's last frame and of a skipped
    /// one, and what came already of a frame that is offered again.
    parts: VecDeque<Item>,
    /// What was copied, if the frame may have to be copied again.
    copied: Vec<Item>,
    /// The file for which the disk was checked.
    looked_for: Option<StoreFile>,
    /// The column that is being copied.
    column: Option<SharedColumn>,
    /// Whether the frames agent waits for that column to be copied.
    is_awaited: bool,
    /// Whether that column is one of the target's own, or was.
    has_own: bool,
    /// The target's own columns that follow, the next one last.
    own: Vec<SharedColumn>,
}

impl CurrentFrame {
    /// A frame whose columns come one by one when it is taken.
    fn new(head: Arc<FrameHead>) -> Self {
        let (counts, increment) = (head.counts.clone(), Ledger::new(0));
        Self {
            tag: FrameTag { head, counts, increment, begun: BegunFrame::default() },
            is_begun: false,
            parts: VecDeque::new(),
            copied: Vec::new(),
            looked_for: None,
            column: None,
            is_awaited: false,
            has_own: false,
            own: Vec::new(),
        }
    }

    /// A frame that has these columns.
    fn whole(head: Arc<FrameHead>, columns: &[SharedColumn]) -> Self {
        let columns = columns.iter().cloned().map(Item::Column);
        let parts = columns.chain([Item::End(Arc::default())]).collect();
        Self { parts, ..Self::new(head) }
    }
}

/// The outcome of one step of a cycle.
enum Step {
    Done,
    /// The cycle's budget of bytes is spent.
    Budget,
    /// Nothing can be done before that time, or before the agent is woken.
    Wait(u64),
    Ended,
}

impl<S: FolderStore> Target<S> {
    pub(crate) fn new(config: &RecorderConfig, input: TargetInput, files: RunFiles<S>) -> Self {
        Self {
            now_ns: 0,
            input,
            files,
            offered: None,
            copying: None,
            discards: false,
            begins_file: false,
            last: None,
            encoder: FrameEncoder::new(None),
            frame_header_bytes: config.frame_header_bytes_max() as u64,
            cycle_bytes: config.sizes.cycle_bytes,
        }
    }

    /// Takes the next step.
    fn step(&mut self, budget: &mut usize) -> Step {
        if self.files.is_stalled()
            && let Some(copying) = self.copying.take()
        {
            self.offer_again(copying);
        }
        if self.copying.is_none() {
            self.files.look_after_disk();
        }
        let wait = Step::Wait(self.now_ns + IDLE_NS);
        if self.files.sink().has_pages() {
            match self.files.sink().stream_page(budget) {
                true => return Step::Done,
                false if *budget == 0 => return Step::Budget,
                false if self.files.sink().has_pages_first() => return wait,
                false => {}
            }
        }
        if let Some(copying) = self.copying.take() {
            return self.copy(copying, budget);
        }
        if let Some(offered) = self.offered.take() {
            return if self.admit(offered) { Step::Done } else { wait };
        }
        match self.input.next() {
            Ok(Item::Begin(head)) => {
                self.offered = Some(CurrentFrame::new(head));
                Step::Done
            }
            Ok(Item::NotTaken(frames)) => {
                self.files.ledger().not_taken(&frames);
                Step::Done
            }
            Ok(Item::Column(column)) if self.discards => {
                self.input.copied(column);
                Step::Done
            }
            Ok(Item::End(_)) if self.discards => {
                self.discards = false;
                Step::Done
            }
            Ok(Item::Last(head, columns)) => {
                self.last = Some((self.files.ledger().carry(&head), columns));
                Step::Done
            }
            Ok(Item::Column(_) | Item::End(_)) => {
                unreachable!("columns follow a frame's beginning")
            }
            Err(TryRecvError::Empty) => wait,
            Err(TryRecvError::Disconnected) => match self.files.end() {
                Ending::Again => Step::Done,
                Ending::Wait => wait,
                Ending::LastFrame => {
                    self.offer_last();
                    Step::Done
                }
                Ending::Ended => Step::Ended,
            },
        }
    }

    /// Begins to copy the frame that is offered, or refuses it if there is no file; false if it has
    /// to wait.
    fn admit(&mut self, mut offered: CurrentFrame) -> bool {
        let head = &offered.tag.head;
        let own_bytes = INCREMENT_BYTES + size_of_val(&*head.positions) as u64;
        let bytes_max = head.bytes_max + self.frame_header_bytes + own_bytes;
        let is_answered = head.is_last || offered.is_begun;
        match self.files.admit(bytes_max, &mut offered.looked_for) {
            Admission::Wait => {
                self.offered = Some(offered);
                // A checkpoint, or a file, may have been begun.
                return self.files.sink().has_pages();
            }
            Admission::Refused if offered.is_begun => {
                self.files.ledger().failed(&offered.tag);
                // The rest of its columns still comes.
                self.discards = !matches!(offered.parts.back(), Some(Item::End(_)));
            }
            Admission::Refused => {
                self.files.refused(head);
                if !is_answered {
                    self.input.answer(Answer::Refuses);
                    // Its columns come if nobody waits for the answer.
                    self.discards = !self.input.required;
                }
            }
            Admission::Begin => {
                if let Some(skipped) = self.files.ledger().next_skipped(head) {
                    // It comes before the frame that is offered, which has less room by that.
                    self.offered = Some(offered);
                    self.begins_file |= self.begin(CurrentFrame::whole(Arc::new(skipped), &[]));
                    return true;
                }
                let begins_file = self.begin(offered) | std::mem::take(&mut self.begins_file);
                if !is_answered {
                    self.input.answer(Answer::Takes { begins_file });
                }
            }
        }
        true
    }

    /// Begins to copy a frame. Returns whether it is the first of its file.
    fn begin(&mut self, mut frame: CurrentFrame) -> bool {
        let head = &frame.tag.head;
        let begins_file = self.files.begin_frame(head);
        if !frame.is_begun {
            frame.tag.increment = self.files.ledger().begin(head);
            frame.tag.begun = self.files.ledger().begin_positions(head);
            frame.is_begun = true;
        }
        self.copying = Some(frame);
        begins_file
    }

    /// The disk of a frame that is being copied is left: the frame is offered again.
    fn offer_again(&mut self, copying: CurrentFrame) {
        self.files.sink().abandon_frame();
        let CurrentFrame { mut tag, parts, mut copied, column, is_awaited, has_own, .. } = copying;
        if self.offered.is_some() {
            // It is a skipped frame, which is made again for the frame that is offered.
            self.files.ledger().failed(&tag);
            return;
        }
        if let Some(column) = column.filter(|_| !has_own) {
            if is_awaited {
                self.input.copied(Arc::clone(&column));
            }
            copied.push(Item::Column(column));
        }
        tag.counts.clone_from(&tag.head.counts);
        let parts = copied.into_iter().chain(parts).collect();
        let head = Arc::clone(&tag.head);
        self.offered = Some(CurrentFrame { tag, is_begun: true, parts, ..CurrentFrame::new(head) });
    }

    /// Continues to copy a frame.
    fn copy(&mut self, mut frame: CurrentFrame, budget: &mut usize) -> Step {
        if frame.has_own && frame.column.is_none() {
            frame.column = frame.own.pop();
        }
        if frame.has_own && frame.column.is_none() {
            return match self.files.sink().finish(frame.tag) {
                Ok(_) => {
                    self.files.frame_copied();
                    Step::Done
                }
                Err(tag) => {
                    self.copying = Some(CurrentFrame { tag, ..frame });
                    Step::Wait(self.now_ns + IDLE_NS)
                }
            };
        }
        let step = self.copy_column(&mut frame, budget);
        self.copying = Some(frame);
        step
    }

    /// Copies a frame's column, or takes the next one.
    fn copy_column(&mut self, frame: &mut CurrentFrame, budget: &mut usize) -> Step {
        let wait = Step::Wait(self.now_ns + IDLE_NS);
        if let Some(column) = &frame.column {
            let files = self.files.sink();
            if !column.with_stored(|stored| files.append(stored, budget)) {
                return if *budget == 0 { Step::Budget } else { wait };
            }
            if files.stores() > 1 && !frame.has_own {
                frame.copied.push(Item::Column(Arc::clone(column)));
            }
            let column = frame.column.take().filter(|_| std::mem::take(&mut frame.is_awaited));
            column.into_iter().for_each(|column| self.input.copied(column));
            return Step::Done;
        }
        let (next, is_awaited) = match frame.parts.pop_front() {
            Some(part) => (part, false),
            None => match self.input.next() {
                Ok(next) => (next, true),
                Err(TryRecvError::Empty) => return wait,
                // The frames agent panicked: the run ends with the frames written so far.
                Err(TryRecvError::Disconnected) => return Step::Ended,
            },
        };
        match next {
            Item::Column(column) => {
                (frame.column, frame.is_awaited) = (Some(column), is_awaited);
            }
            Item::End(lowered) => {
                for (counts, &bytes) in frame.tag.counts.iter_mut().zip(&*lowered) {
                    counts.lowered += bytes;
                }
                if self.files.sink().stores() > 1 {
                    frame.copied.push(Item::End(lowered));
                }
                frame.own = encode_own(&mut self.encoder, &frame.tag);
                (frame.column, frame.has_own) = (frame.own.pop(), true);
            }
            Item::Begin(_) | Item::NotTaken(_) | Item::Last(..) => {
                unreachable!("frames end before others begin")
            }
        }
        Step::Done
    }

    /// The run has ended without this target, whose disk may not answer for hours.
    fn leave_chunks(&mut self) {
        self.input.leave_chunks();
        for frame in self.copying.iter_mut().chain(&mut self.offered) {
            let items = frame.copied.iter_mut().chain(&mut frame.parts);
            let columns = items.filter_map(|item| match item {
                Item::Column(column) => Some(column),
                _ => None,
            });
            for column in columns.chain(&mut frame.column) {
                if let Some(own) = out_of_chunks(column) {
                    *column = own;
                }
            }
        }
    }

    /// Offers the run's last frame for the ledger's counts since the one before, if there are any.
    fn offer_last(&mut self) {
        let Some((head, columns)) = &self.last else { return };
        let mut records = Vec::new();
        let ledger = self.files.ledger();
        encode_ledger_increment(ledger.carried(), &mut records);
        if !records.is_empty() || ledger.has_positions() {
            self.offered = Some(CurrentFrame::whole(Arc::clone(head), columns));
        }
    }
}

/// The columns that depend on the frames before it, the first one last: increments, and positions
/// of sources if there are any.
fn encode_own(encoder: &mut FrameEncoder<ColumnBytes>, tag: &FrameTag) -> Vec<SharedColumn> {
    let FrameTag { head, counts, increment, begun } = tag;
    let mut own = Ledger::new(counts.len());
    for (own, counts) in own.sources.iter_mut().zip(counts) {
        counts.of_frame().into_iter().for_each(|(entry, count)| own[entry] = count);
        if head.info.kind == FrameKind::Channels {
            // The rows do not contain it.
            counts.of_recorded().into_iter().for_each(|(entry, count)| own[entry] = count);
        }
    }
    let has_positions = head.position_column.filter(|_| !begun.positions.is_empty());
    let positions = has_positions.map(|id| position_column(id, &begun.positions));
    let column = |(form, records)| {
        let bytes = ColumnBytes::Own(records);
        let column = FrameColumn::small(form, Element::Bytes, head.small, bytes);
        match encoder.next(&mut FrameUnderWay::new(vec![column]), Level::AsAsked) {
            Next::Column(column) => Arc::new(column),
            _ => unreachable!("a small column is encoded at once"),
        }
    };
    positions.into_iter().chain([ledger_column(head.ledger, increment, &own)]).map(column).collect()
}

impl<S: FolderStore> Agent for Target<S> {
    /// Writes frames until the frames agent has ended, then closes the run.
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        if self.files.ledger().of_target().is_left.swap(false, Relaxed) {
            self.leave_chunks();
        }
        let mut budget = self.cycle_bytes;
        let mut done = self.files.poll(now_ns);
        loop {
            match self.step(&mut budget) {
                Step::Done => {
                    done += 1;
                    budget = budget.saturating_sub(STEP_BYTES);
                    if budget == 0 {
                        return Work::again(done);
                    }
                }
                Step::Budget => return Work::again(done + 1),
                Step::Ended => {
                    self.files.ledger().settle(|one| one.end());
                    return Work::ended();
                }
                Step::Wait(until_ns) => {
                    // Submits the work accepted since the last call.
                    return match self.files.poll(now_ns) {
                        0 => Work::until(done, until_ns),
                        more => Work::again(done + more),
                    };
                }
            }
        }
    }
}

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
}

impl TargetLedger {
    /// Of the target with that number.
    pub(crate) fn new(live: &Arc<Live>, target: usize) -> Self {
        let begins = &live.beginning.targets[target];
        let (carried, missing) = (begins.carried.clone(), begins.missing.into_iter().collect());
        let settlement = Settlement::of(live, target);
        Self { live: Arc::clone(live), target, carried, missing, settlement }
    }

    pub(crate) fn of_target(&self) -> &LiveTarget {
        &self.live.targets[self.target]
    }

    /// The number of the first frame.
    pub(crate) fn begins_at(&self) -> u64 {
        self.live.beginning.sequence
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

    /// As [`TargetLedger::carried`], with those of a frame that is begun, which is to have them.
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

    /// Whether there are link sources.
    pub(crate) fn has_links(&self) -> bool {
        self.settlement.is_some()
    }

    /// Does something with the settlement of frames, if there are link sources.
    pub(crate) fn settle(&mut self, act: impl FnOnce(&mut Settlement)) {
        self.settlement.as_mut().map(act);
    }

    /// Counts the fragments recorded in a file that is gone or was truncated, and warns, since
    /// recording may resume too soon for the fault to be seen. Returns the reason.
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
        if matches!(presence, Presence::Removed { .. } | Presence::Truncated) {
            self.settle(|one| one.removed(file.id, file.index));
        }
        self.warn_once(reason.clone());
        reason
    }

    /// Recorded fragments of a source were removed by others: `count`, but for those that were
    /// removed before; all if there is no count.
    fn removed(&mut self, source: SourceId, count: Option<u64>) {
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
