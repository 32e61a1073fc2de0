//! The write agent: from frames to files.
//!
//! A frame's columns are checksummed and copied (or compressed, by the encode agents) into disk
//! buffers, which are written while the next are filled. A frame counts as recorded when all its
//! writes have completed, in the order of the frames; it counts as durable when a later fdatasync
//! has completed.
//!
//! When a write, a sync or an open fails, recording is in fault: the file gets no more frames,
//! frames are discarded and counted, and once a second the next file is tried, when the folder's
//! disk has room for two frames. The file is closed behind its last whole frame when there is a
//! next one, or with the run's last increments at its end.
//!
//! A full disk is noticed before a write fails: a frame is begun only where the file has blocks for
//! it, or the disk has room beside what is kept for TOCs, trends and the catalogue
//! (docs/decisions/disk-faults.md). Once a second the store looks how much that is, and whether the
//! file is still there.
//!
//! One frame is under way at a time, through these stages: *taken*, until there are a file and room
//! for it; *streaming*, while there are buffers and encoded columns; *handed back* to the build
//! agent, which frees its chunks. In none of them does the agent wait for anything: it returns, and
//! is woken by the store, by the encode agents or by the build agent.

use std::sync::Arc;

use catchment_agent::{Agent, FileId, Store, Work};
use catchment_builder::Cut;
use catchment_encoder::Encode;
use catchment_frame::{Schema, encode_ledger_increment};
use catchment_model::{Entry, Ledger};
use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};

use crate::build::Frame;
use crate::config::RecorderConfig;
use crate::file::{FirstFile, FrameJob, RunIdentity};
use crate::frame_stream::{Raw, WrittenFrame};
use crate::frame_writer::{
    Finished, FrameStart, FrameUnderWay, FrameWriter, Progress, SourceCounts, Sources,
};
use crate::live::Live;
use crate::run_files::{Admission, Ending, RunFiles};

/// How long a cycle may be away while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// How long the build agent is left to take a frame back, where its queue is full.
const HAND_BACK_NS: u64 = 500_000;
/// What a step counts as, beside what is copied in it.
const STEP_BYTES: usize = 16 << 10;
/// Bytes that are copied in one cycle.
const CYCLE_BYTES: usize = 4 << 20;

/// What an event takes of a frame beside its payload: key, time and flags, and for each source a
/// length and a bit of validity.
const KEY_BYTES: u64 = 24;
const LENGTH_BYTES: u64 = 5;
/// What a frame's increments, and what fills its last block, take at most.
const INCREMENT_BYTES: u64 = 64 << 10;

/// The write agent's state.
pub(crate) struct Write<S: Store> {
    now_ns: u64,
    live: Arc<Live>,
    frames: Receiver<Frame>,
    done: Sender<Frame>,
    frame_writer: FrameWriter,
    files: RunFiles<S>,
    // The frame that is under way, by its stage.
    taken: Option<Taken>,
    streaming: Option<FrameUnderWay<S::Buffer>>,
    handed_back: Option<Frame>,
    /// The ledger when the last frame was encoded.
    encoded: Ledger,
    frame_header_bytes: u64,
}

/// What a write agent is made of.
pub(crate) struct WriteParts<S: Store> {
    pub(crate) schema: Schema,
    pub(crate) identity: RunIdentity,
    /// Frames come from the build agent, and go back to it.
    pub(crate) frames: Receiver<Frame>,
    pub(crate) done: Sender<Frame>,
    pub(crate) first: FirstFile<S>,
    pub(crate) sources: Sources,
}

/// A frame that waits for a file and room.
struct Taken {
    frame: Frame,
    counts: Vec<SourceCounts>,
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

impl<S: Store> Write<S> {
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
            handed_back: None,
            encoded: Ledger::new(config.ledger_count()),
            frame_header_bytes: config.frame_header_bytes_max() as u64,
        })
    }

    /// An agent that encodes columns, if any are encoded.
    pub(crate) fn encoder(&self) -> Option<Encode<Raw>> {
        self.frame_writer.encoder()
    }

    /// Does the next thing.
    fn step(&mut self, budget: &mut usize) -> Step {
        if self.streaming.is_none() {
            self.files.look_after_disk();
        }
        let wait = Step::Wait(self.now_ns + IDLE_NS);
        if self.files.has_pages() {
            return match self.files.stream_page(budget) {
                true => Step::Done,
                false if *budget == 0 => Step::Budget,
                false => wait,
            };
        }
        if let Some(mut frame) = self.streaming.take() {
            let progress = self.frame_writer.advance(&mut frame, &mut self.files.jobs, budget);
            if let Progress::Written(written) = progress {
                self.end_frame(frame, written);
                return Step::Done;
            }
            self.streaming = Some(frame);
            return if let Progress::Budget = progress { Step::Budget } else { wait };
        }
        if let Some(frame) = self.handed_back.take()
            && let Err(TrySendError::Full(frame)) = self.done.try_send(frame)
        {
            self.handed_back = Some(frame);
            return Step::Wait(self.now_ns + HAND_BACK_NS);
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

    fn take(&mut self, frame: Frame) {
        let counts = self.frame_writer.count(&frame);
        self.taken = Some(Taken { frame, counts, looked_for: None });
    }

    /// Begins to stream the frame that was taken, or discards it where there is no file; false
    /// where something must be waited for first.
    fn admit(&mut self) -> bool {
        let Some(mut taken) = self.taken.take() else { return true };
        let bytes_max = self.bytes_max(&taken.frame, &taken.counts);
        match self.files.admit(bytes_max, &mut taken.looked_for) {
            Admission::Wait => {
                self.taken = Some(taken);
                // A checkpoint may have been begun.
                return self.files.has_pages();
            }
            Admission::Refused => {
                self.files.discard(&taken.counts, Entry::FragmentsDiscardedDisk);
                self.handed_back = Some(taken.frame);
            }
            Admission::Begin => {
                let increment = self.next_increment();
                let (stream, offset, identity) = self.files.begin_frame();
                let Taken { frame, counts, .. } = taken;
                let start = FrameStart { stream, offset, identity, frame, counts, increment };
                self.streaming = Some(self.frame_writer.begin(start, self.now_ns));
            }
        }
        true
    }

    /// What the ledger has counted since the last frame, and what frames would have said that were
    /// not recorded.
    fn next_increment(&mut self) -> Ledger {
        let now = self.live.ledger.snapshot();
        let mut increment = now.since(&self.encoded);
        // Frames say this themselves.
        let lowered = Entry::BytesCompressionLowered;
        increment.sources.iter_mut().for_each(|source| source[lowered] = 0);
        increment.add(&self.files.take_carried());
        self.encoded = now;
        increment
    }

    /// A frame was streamed to its end.
    fn end_frame(&mut self, under_way: FrameUnderWay<S::Buffer>, written: WrittenFrame) {
        let Finished { frame, counts, increment, stream } =
            self.frame_writer.finish(under_way, self.now_ns);
        let keys = frame.cut.keys.len() as u64;
        self.files.end_frame(stream, FrameJob { written, counts, increment, keys });
        self.handed_back = Some(frame);
    }

    /// What a frame takes at most, but for columns that compression makes larger, which is little.
    fn bytes_max(&self, frame: &Frame, counts: &[SourceCounts]) -> u64 {
        let payload: u64 = counts.iter().map(|counts| counts.bytes).sum();
        let keys = frame.cut.keys.len() as u64;
        let of_keys = keys * (KEY_BYTES + LENGTH_BYTES * counts.len() as u64);
        payload + of_keys + self.frame_header_bytes + INCREMENT_BYTES
    }

    /// Takes a frame without rows for what the ledger has counted since the last one, if it has
    /// counted anything.
    fn take_last(&mut self) {
        let mut rest = self.live.ledger.snapshot().since(&self.encoded);
        rest.sources.iter_mut().for_each(|one| one[Entry::BytesCompressionLowered] = 0);
        rest.add(self.files.carried());
        let mut records = Vec::new();
        encode_ledger_increment(&rest, &mut records);
        if !records.is_empty() {
            let kind = self.frame_writer.kind();
            self.take(Frame { kind, cut: Cut::default() });
        }
    }
}

impl<S: Store> Agent for Write<S> {
    /// Writes frames until the build agent has ended, then closes the run.
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        let mut budget = CYCLE_BYTES;
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
