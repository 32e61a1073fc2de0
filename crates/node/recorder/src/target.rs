//! A target's agent, from encoded columns to the files of a folder.
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
//! or does not respond (`Disks` of catchment-writer). It holds the columns of the frame that is
//! being copied until all are copied, so that a frame under way goes to a file on another disk, as
//! a whole.
//!
//! Where the folder has a spill, frames are held until they are durable (target/holding.rs).
//!
//! One frame is under way at a time: *offered*, until a file and room for it are available; then
//! *copied*, column by column as they come. Last comes a column of the target's own: the ledger's
//! counts since its frame before. The agent never blocks: it returns, and the store or the frames
//! agent wakes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Agent, FolderStore, Work};
use catchment_encoder::{Element, Level};
use catchment_frame::FrameKind;
use catchment_model::Ledger;
use catchment_writer::{
    FrameColumn, FrameEncoder, FrameUnderWay, Next, StoreFile, ledger_column, position_column,
};
use crossbeam_channel::TryRecvError;

use crate::column_bytes::ColumnBytes;
use crate::config::RecorderConfig;
use crate::file_steps::{Admission, Ending};
use crate::frames::{FrameHead, SharedColumn};
use crate::run_files::RunFiles;
use crate::settlement::BegunFrame;
use crate::target_ledger::FrameTag;
use crate::target_queue::{Answer, Item, TargetInput, out_of_chunks};

mod holding;

use holding::Holding;

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
    /// With a spill: frames until they are durable.
    holding: Option<Box<Holding>>,
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
    pub(crate) fn new(config: &RecorderConfig, input: TargetInput, mut files: RunFiles<S>) -> Self {
        let spill = files.maker().take_spill();
        let holding = spill.map(|spill| Box::new(Holding::new(config, spill, files.ledger())));
        Self {
            holding,
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
            self.step_back();
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
        if self.holding.is_some() {
            return self.next_held();
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
            Err(TryRecvError::Disconnected) => self.end(),
        }
    }

    /// Continues the run's end, when all frames but the last have been copied.
    fn end(&mut self) -> Step {
        match self.files.end() {
            Ending::Again => Step::Done,
            Ending::Wait => Step::Wait(self.now_ns + IDLE_NS),
            Ending::LastFrame => {
                self.offer_last();
                Step::Done
            }
            Ending::Ended => Step::Ended,
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
            Admission::Refused if self.holding.is_some() => {
                self.offered = Some(offered);
                return false;
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
        if let Some(holding) = &mut self.holding {
            holding.goes_to_file(head);
        }
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
                if self.holding.is_none() {
                    frame.own = encode_own(&mut self.encoder, &frame.tag);
                }
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
        let under_way = self.copying.as_mut().and_then(|frame| frame.column.as_mut());
        if let Some(column) = under_way
            && let Some(own) = out_of_chunks(column)
        {
            *column = own;
            self.files.sink().join_pieces();
        }
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
        if self.files.ledger().needs_last(head) {
            self.offered = Some(CurrentFrame::whole(Arc::clone(head), columns));
        }
    }
}

/// The columns that depend on the frames before it, the first one last: increments, and positions
/// of sources if there are any.
pub(crate) fn encode_own(
    encoder: &mut FrameEncoder<ColumnBytes>,
    tag: &FrameTag,
) -> Vec<SharedColumn> {
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
        self.files.ledger().look(now_ns);
        if self.files.ledger().of_target().is_left.swap(false, Relaxed) {
            self.leave_chunks();
        }
        let mut budget = self.cycle_bytes;
        let mut done = self.files.poll(now_ns) + self.look_after_held();
        if self.is_spilled_whole() {
            self.end_holding();
            self.files.ledger().settle(|one| one.end());
            return Work::ended();
        }
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
                    self.end_holding();
                    // What has completed since is waited for no longer.
                    let _completed = self.files.poll(now_ns);
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
