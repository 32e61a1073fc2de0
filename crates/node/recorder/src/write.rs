//! The write agent: from frames to files.
//!
//! A frame's columns are checksummed and copied (or compressed, by the encode agents) into disk
//! buffers, which are written while the next are filled. A frame counts as recorded when all its
//! writes have completed, in the order of the frames; it counts as durable when a later fdatasync
//! has completed.
//!
//! When a write or a sync fails, recording is in fault: the file gets no more frames, frames are
//! discarded and counted, and once a second the agent tries to make the next file, if the folder's
//! disk has room for two frames. The file is closed behind its last whole frame when a next one
//! exists, or at the end of the run, with the last increments. If only the next file cannot be
//! made, recording continues in the open one, and the next is tried once a second.
//!
//! A full disk is noticed before a write fails: a frame is begun only if the file has blocks for
//! it, or the disk has room beside the reserve for TOCs, trends and the catalogue
//! (docs/decisions/disk-faults.md). Once a second the store checks the free space, and whether the
//! file is still there and whole.
//!
//! One frame is under way at a time, through these stages: *taken*, until a file and room for it
//! are available; *streaming*, while columns are copied to buffers. Then it is copied, and its
//! chunks are free. The agent never blocks in a stage: it returns, and the store, the encode agents
//! or the build agent wake it.

use std::sync::Arc;

use catchment_agent::{Agent, FileId, FolderStore, Work};
use catchment_builder::Cut;
use catchment_encoder::Encode;
use catchment_frame::{Schema, encode_ledger_increment};
use catchment_model::Ledger;
use catchment_writer::Progress;
use crossbeam_channel::{Receiver, Sender, TryRecvError};

use crate::build::FrameCut;
use crate::columns::ColumnBytes;
use crate::config::RecorderConfig;
use crate::file::{FirstFile, RunIdentity};
use crate::file_steps::{Admission, Ending};
use crate::frame_writer::{BuiltFrame, FrameWriter, SourceCounts, Sources, StreamedFrame};
use crate::live::Live;
use crate::run_files::RunFiles;

/// The longest time to the next cycle while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// The cost of a step in bytes, beside the bytes copied in it.
const STEP_BYTES: usize = 16 << 10;

/// The most bytes that a frame's increments and the padding of its last block take.
const INCREMENT_BYTES: u64 = 64 << 10;

/// The write agent's state.
pub(crate) struct Write<S: FolderStore> {
    now_ns: u64,
    live: Arc<Live>,
    frames: Receiver<FrameCut>,
    done: Sender<FrameCut>,
    frame_writer: FrameWriter,
    files: RunFiles<S>,
    // The current frame, by its stage.
    taken: Option<Taken>,
    streaming: Option<StreamedFrame>,
    /// The ledger when the last frame was encoded.
    encoded: Ledger,
    frame_header_bytes: u64,
    /// Bytes copied in one cycle.
    cycle_bytes: usize,
}

/// The parts of which a write agent is made.
pub(crate) struct WriteParts<S> {
    pub(crate) schema: Arc<Schema>,
    pub(crate) identity: RunIdentity,
    /// Cuts arrive from the build agent, and their memory returns to it.
    pub(crate) frames: Receiver<FrameCut>,
    pub(crate) done: Sender<FrameCut>,
    pub(crate) first: FirstFile<S>,
    pub(crate) sources: Sources,
}

/// A frame that waits for a file and for room.
struct Taken {
    built: BuiltFrame,
    /// The file for which the disk was checked.
    looked_for: Option<FileId>,
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

impl<S: FolderStore> Write<S> {
    /// Begins the run's first file.
    ///
    /// # Errors
    /// There are no random bits for the file's identity.
    pub(crate) fn new(
        config: &RecorderConfig,
        parts: WriteParts<S>,
        live: &Arc<Live>,
        now_ns: u64,
    ) -> Result<Self, String> {
        let WriteParts { schema, identity, frames, done, first, sources } = parts;
        Ok(Self {
            now_ns,
            live: Arc::clone(live),
            frames,
            done,
            frame_writer: FrameWriter::new(config, &schema, sources),
            files: RunFiles::new(config, schema, identity, first, live, now_ns)?,
            taken: None,
            streaming: None,
            encoded: Ledger::new(config.ledger_count()),
            frame_header_bytes: config.frame_header_bytes_max() as u64,
            cycle_bytes: config.sizes.cycle_bytes,
        })
    }

    /// An agent that encodes columns, if any are encoded.
    pub(crate) fn encoder(&self) -> Option<Encode<ColumnBytes>> {
        self.frame_writer.encoder()
    }

    /// Takes the next step.
    fn step(&mut self, budget: &mut usize) -> Step {
        if self.streaming.is_none() {
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
        if let Some(frame) = &mut self.streaming {
            let sink = self.files.sink();
            return match self.frame_writer.advance(frame, sink, budget, self.now_ns) {
                Progress::Columns => {
                    self.streaming = None;
                    self.files.frame_copied();
                    Step::Done
                }
                Progress::Budget => Step::Budget,
                _ => wait,
            };
        }
        if !self.frame_writer.feed_trends() {
            return wait;
        }
        if self.taken.is_some() {
            return if self.admit() { Step::Done } else { wait };
        }
        match self.frames.try_recv() {
            Ok(frame) => {
                self.take(frame);
                Step::Done
            }
            Err(TryRecvError::Empty) => wait,
            Err(TryRecvError::Disconnected) => match self.files.end() {
                Ending::Again => Step::Done,
                Ending::Wait => wait,
                Ending::LastFrame => {
                    self.take_last();
                    Step::Done
                }
                Ending::Ended => Step::Ended,
            },
        }
    }

    fn take(&mut self, mut built: FrameCut) {
        let frame = self.frame_writer.frame(&mut built);
        self.taken = Some(Taken { built: frame, looked_for: None });
        // If the build agent has enough of them, the memory is dropped.
        let _returned = self.done.try_send(built);
    }

    /// Begins to stream the taken frame, or discards it if there is no file; false if it has to
    /// wait.
    fn admit(&mut self) -> bool {
        let Some(mut taken) = self.taken.take() else { return true };
        let bytes_max = taken.built.bytes_max() + self.frame_header_bytes + INCREMENT_BYTES;
        match self.files.admit(bytes_max, &mut taken.looked_for) {
            Admission::Wait => {
                self.taken = Some(taken);
                // A checkpoint may have been begun.
                return self.files.sink().has_pages();
            }
            Admission::Refused => {
                self.files.refused(&taken.built.counts);
            }
            Admission::Begin => {
                let increment = self.next_increment();
                let start = self.files.begin_frame();
                let sink = self.files.sink();
                let begun =
                    self.frame_writer.begin(taken.built, increment, start, sink, self.now_ns);
                self.streaming = Some(begun);
            }
        }
        true
    }

    /// The ledger's counts since the last frame, and the increments of frames that were not
    /// recorded.
    fn next_increment(&mut self) -> Ledger {
        let now = self.live.ledger.snapshot();
        let mut increment = since(&now, &self.encoded);
        increment.add(&self.files.take_carried());
        self.encoded = now;
        increment
    }

    /// Takes a frame without rows for the ledger's counts since the last one, if there are any.
    fn take_last(&mut self) {
        let mut rest = since(&self.live.ledger.snapshot(), &self.encoded);
        rest.add(self.files.carried());
        let mut records = Vec::new();
        encode_ledger_increment(&rest, &mut records);
        if !records.is_empty() {
            self.take(FrameCut { group: 0, cut: Cut::default() });
        }
    }
}

impl<S: FolderStore> Agent for Write<S> {
    /// Writes frames until the build agent has ended, then closes the run.
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
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

/// The counts of a ledger beyond `earlier`, except those that frames carry themselves.
fn since(now: &Ledger, earlier: &Ledger) -> Ledger {
    let mut more = now.since(earlier);
    for source in &mut more.sources {
        for (entry, _) in SourceCounts::default().of_frame() {
            source[entry] = 0;
        }
    }
    more
}
