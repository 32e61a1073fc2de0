//! A target's agent: from encoded columns to the files of a folder.
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
//! One frame is under way at a time: *offered*, until a file and room for it are available; then
//! *copied*, column by column as they come. Last comes a column of the target's own: the ledger's
//! counts since its frame before. The agent never blocks: it returns, and the store or the frames
//! agent wakes it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Agent, FileId, FolderStore, Work};
use catchment_encoder::Element;
use catchment_frame::{FrameKind, encode_ledger_increment};
use catchment_model::{Entry, Ledger};
use catchment_writer::{Allowed, FrameColumn, FrameEncoder, FrameUnderWay, Next, ledger_column};
use crossbeam_channel::TryRecvError;

use crate::books::FrameTag;
use crate::config::RecorderConfig;
use crate::cut_frames::ColumnBytes;
use crate::file_steps::{Admission, Ending};
use crate::frames::{FrameHead, SharedColumn};
use crate::run_files::RunFiles;
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
    // The current frame, by its stage.
    offered: Option<Offered>,
    copying: Option<Copying>,
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

/// A frame that waits for a file and for room.
struct Offered {
    head: Arc<FrameHead>,
    /// The columns of the run's last frame; those of others come when it is taken.
    columns: Option<Vec<SharedColumn>>,
    /// The file for which the disk was checked.
    looked_for: Option<FileId>,
}

/// A frame that is being copied.
struct Copying {
    /// The run's last frame has all its columns; those of others come one by one.
    columns: Option<std::vec::IntoIter<SharedColumn>>,
    column: Option<SharedColumn>,
    /// Whether the column is the last one.
    has_ledger: bool,
    /// None once the frame is copied.
    tag: Option<FrameTag>,
}

impl Copying {
    fn of(head: Arc<FrameHead>, columns: Option<Vec<SharedColumn>>, increment: Ledger) -> Self {
        let counts = head.counts.clone();
        Self {
            columns: columns.map(Vec::into_iter),
            column: None,
            has_ledger: false,
            tag: Some(FrameTag { head, counts, increment }),
        }
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
        if self.copying.is_none() {
            self.files.look_after_disk();
        }
        let wait = Step::Wait(self.now_ns + IDLE_NS);
        if self.files.sink().has_pages() {
            return match self.files.sink().stream_page(budget) {
                true => Step::Done,
                false if *budget == 0 => Step::Budget,
                false => wait,
            };
        }
        if let Some(copying) = self.copying.take() {
            return self.copy(copying, budget);
        }
        if let Some(offered) = self.offered.take() {
            return if self.admit(offered) { Step::Done } else { wait };
        }
        match self.input.next() {
            Ok(Item::Begin(head)) => {
                self.offered = Some(Offered { head, columns: None, looked_for: None });
                Step::Done
            }
            Ok(Item::NotTaken(frames)) => {
                self.files.books().not_taken(&frames);
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
                self.last = Some((self.files.books().carry(&head), columns));
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
    fn admit(&mut self, mut offered: Offered) -> bool {
        let head = &offered.head;
        let bytes_max = head.bytes_max + self.frame_header_bytes + INCREMENT_BYTES;
        let is_last = offered.columns.is_some();
        match self.files.admit(bytes_max, &mut offered.looked_for) {
            Admission::Wait => {
                self.offered = Some(offered);
                // A checkpoint may have been begun.
                return self.files.sink().has_pages();
            }
            Admission::Refused => {
                self.files.refused(head);
                if !is_last {
                    self.input.answer(Answer::Refuses);
                    // Its columns come if nobody waits for the answer.
                    self.discards = !self.input.required;
                }
            }
            Admission::Begin => {
                if let Some(skipped) = self.files.books().next_skipped(head) {
                    // It comes before the frame that is offered, which has less room by that.
                    self.offered = Some(offered);
                    let (begins_file, increment) = self.files.begin_frame(&skipped);
                    self.begins_file |= begins_file;
                    self.copying =
                        Some(Copying::of(Arc::new(skipped), Some(Vec::new()), increment));
                    return true;
                }
                let (begins_file, increment) = self.files.begin_frame(head);
                let begins_file = begins_file | std::mem::take(&mut self.begins_file);
                if !is_last {
                    self.input.answer(Answer::Takes { begins_file });
                }
                let Offered { head, columns, .. } = offered;
                self.copying = Some(Copying::of(head, columns, increment));
            }
        }
        true
    }

    /// Continues to copy a frame.
    fn copy(&mut self, mut copying: Copying, budget: &mut usize) -> Step {
        let step = self.copy_column(&mut copying, budget);
        self.copying = copying.tag.is_some().then_some(copying);
        step
    }

    fn copy_column(&mut self, copying: &mut Copying, budget: &mut usize) -> Step {
        let wait = Step::Wait(self.now_ns + IDLE_NS);
        let Some(tag) = &mut copying.tag else { return Step::Done };
        if let Some(column) = &copying.column {
            let files = self.files.sink();
            if !column.with_stored(|stored| files.append(stored, budget)) {
                return if *budget == 0 { Step::Budget } else { wait };
            }
            let column = copying.column.take();
            // Nobody waits for a column of the target's own, or of the last frame.
            if copying.columns.is_none() && !copying.has_ledger {
                column.into_iter().for_each(|column| self.input.copied(column));
            }
            return Step::Done;
        }
        if copying.has_ledger {
            let Some(tag) = copying.tag.take() else { return Step::Done };
            copying.tag = self.files.sink().finish(tag).err();
            if copying.tag.is_some() {
                return wait;
            }
            self.files.frame_copied();
            return Step::Done;
        }
        let next = match &mut copying.columns {
            Some(columns) => columns.next().map_or(Item::End(Arc::default()), Item::Column),
            None => match self.input.next() {
                Ok(next) => next,
                Err(TryRecvError::Empty) => return wait,
                // The frames agent panicked: the run ends with the frames written so far.
                Err(TryRecvError::Disconnected) => return Step::Ended,
            },
        };
        match next {
            Item::Column(column) => copying.column = Some(column),
            Item::End(lowered) => {
                for (counts, &bytes) in tag.counts.iter_mut().zip(&*lowered) {
                    counts.lowered += bytes;
                }
                copying.column = Some(encode_increments(&mut self.encoder, tag));
                copying.has_ledger = true;
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
        if let Some(column) = self.copying.as_mut().and_then(|copying| copying.column.as_mut())
            && let Some(own) = out_of_chunks(column)
        {
            *column = own;
        }
    }

    /// Offers the run's last frame for the ledger's counts since the one before, if there are any.
    fn offer_last(&mut self) {
        let Some((head, columns)) = &self.last else { return };
        let mut records = Vec::new();
        encode_ledger_increment(self.files.books().carried(), &mut records);
        if !records.is_empty() {
            let (head, columns) = (Arc::clone(head), Some(columns.clone()));
            self.offered = Some(Offered { head, columns, looked_for: None });
        }
    }
}

/// The column of increments, which depends on the columns before it.
fn encode_increments(encoder: &mut FrameEncoder<ColumnBytes>, tag: &FrameTag) -> SharedColumn {
    let FrameTag { head, counts, increment } = tag;
    let mut own = Ledger::new(counts.len());
    for (own, counts) in own.sources.iter_mut().zip(counts) {
        counts.of_frame().into_iter().for_each(|(entry, count)| own[entry] = count);
        if head.info.kind == FrameKind::Channels {
            // The rows do not contain it.
            own[Entry::FragmentsRecorded] = counts.fragments;
            own[Entry::FragmentBytesRecorded] = counts.bytes;
            own[Entry::FragmentsMissing] = counts.missing;
        }
    }
    let (form, records) = ledger_column(head.ledger, increment, &own);
    let bytes = ColumnBytes::Own(records);
    let column = FrameColumn::small(form, Element::Bytes, head.small, bytes);
    let mut frame = FrameUnderWay::new(vec![column]);
    match encoder.next(&mut frame, Allowed::ALL) {
        Next::Column(column) => Arc::new(column),
        _ => unreachable!("a small column is encoded at once"),
    }
}

impl<S: FolderStore> Agent for Target<S> {
    /// Writes frames until the frames agent has ended, then closes the run.
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        if self.files.books().of_target().is_left.swap(false, Relaxed) {
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
                Step::Ended => return Work::ended(),
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
