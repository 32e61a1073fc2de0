//! The write agent: from frames to files.
//!
//! A frame's columns are checksummed and copied (or compressed, by the encode agents) into disk
//! buffers, which are written while the next are filled. A frame counts as recorded when all its
//! writes have completed, in the order of the frames; it counts as durable when a later fdatasync
//! has completed.
//!
//! When a write or a sync fails, recording is in fault: the file gets no more frames, frames are
//! discarded and counted, and once a second the next file is tried, when the folder's disk has room
//! for two frames. The file is closed behind its last whole frame when there is a next one, or with
//! the run's last increments at its end. Where only the next file cannot be made, recording goes on
//! in the open one, and the next is tried once a second.
//!
//! A full disk is noticed before a write fails: a frame is begun only where the file has blocks for
//! it, or the disk has room beside what is kept for TOCs, trends and the catalogue
//! (docs/decisions/disk-faults.md). Once a second the store looks how much that is, and whether the
//! file is still there and whole.
//!
//! One frame is under way at a time, through these stages: *taken*, until there are a file and room
//! for it; *streaming*, while there are buffers and encoded columns. Then it is copied, and its
//! chunks are free. In none of them does the agent wait for anything: it returns, and is woken by
//! the store, by the encode agents or by the build agent.

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

/// How long a cycle may be away while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// What a step counts as, beside what is copied in it.
const STEP_BYTES: usize = 16 << 10;

/// What a frame's increments, and what fills its last block, take at most.
const INCREMENT_BYTES: u64 = 64 << 10;

/// The write agent's state.
pub(crate) struct Write<S: FolderStore> {
    now_ns: u64,
    live: Arc<Live>,
    frames: Receiver<FrameCut>,
    done: Sender<FrameCut>,
    frame_writer: FrameWriter,
    files: RunFiles<S>,
    // The frame that is under way, by its stage.
    taken: Option<Taken>,
    streaming: Option<StreamedFrame>,
    /// The ledger when the last frame was encoded.
    encoded: Ledger,
    frame_header_bytes: u64,
    /// Bytes that are copied in one cycle.
    cycle_bytes: usize,
}

/// What a write agent is made of.
pub(crate) struct WriteParts<S> {
    pub(crate) schema: Arc<Schema>,
    pub(crate) identity: RunIdentity,
    /// Cuts come from the build agent, and their memory goes back to it.
    pub(crate) frames: Receiver<FrameCut>,
    pub(crate) done: Sender<FrameCut>,
    pub(crate) first: FirstFile<S>,
    pub(crate) sources: Sources,
}

/// A frame that waits for a file and room.
struct Taken {
    built: BuiltFrame,
    /// The file for which the disk was looked at.
    looked_for: Option<FileId>,
}

/// What came of one step of a cycle.
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

    /// Does the next thing.
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
        // Where the build agent has enough of them, the memory goes.
        let _returned = self.done.try_send(built);
    }

    /// Begins to stream the frame that was taken, or discards it where there is no file; false
    /// where something must be waited for first.
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

    /// What the ledger has counted since the last frame, and what frames would have said that were
    /// not recorded.
    fn next_increment(&mut self) -> Ledger {
        let now = self.live.ledger.snapshot();
        let mut increment = since(&now, &self.encoded);
        increment.add(&self.files.take_carried());
        self.encoded = now;
        increment
    }

    /// Takes a frame without rows for what the ledger has counted since the last one, if it has
    /// counted anything.
    fn take_last(&mut self) {
        let mut rest = since(&self.live.ledger.snapshot(), &self.encoded);
        rest.add(self.files.carried());
        let mut records = Vec::new();
        encode_ledger_increment(&rest, &mut records);
        if !records.is_empty() {
            let kind = self.frame_writer.kind();
            self.take(FrameCut { kind, cut: Cut::default() });
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
                    // Hands on what was accepted since the last call.
                    return match self.files.poll(now_ns) {
                        0 => Work::until(done, until_ns),
                        more => Work::again(done + more),
                    };
                }
            }
        }
    }
}

/// What a ledger has more than `earlier`, but for what frames say themselves.
fn since(now: &Ledger, earlier: &Ledger) -> Ledger {
    let mut more = now.since(earlier);
    for source in &mut more.sources {
        for (entry, _) in SourceCounts::default().of_frame() {
            source[entry] = 0;
        }
    }
    more
}
