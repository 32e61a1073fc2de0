//! A file that is written to, or being closed.

use std::path::PathBuf;

use catchment_agent::FileId;
use catchment_frame::{
    FileHeader, FrameInfo, FrameLayout, FrameSummary, TocBuilder, TocFlags, encode_locator,
    locator_offset,
};
use catchment_model::Ledger;

use crate::sink::WrittenFrame;

/// Frames, or time, after which a checkpoint is written: with them an unfinished file is opened
/// without a walk through all of it.
const CHECKPOINT_FRAMES: u32 = 64;
const CHECKPOINT_NS: u64 = 10_000_000_000;
/// What a frame, or a column of it, takes in the table of contents.
pub const TOC_ENTRY_BYTES: u64 = 80;

/// The most bytes that the header of a frame of so many columns takes.
pub fn header_bytes_max(column_count: usize) -> usize {
    FrameLayout::begin(FrameInfo::EMPTY, column_count).header_space()
}

/// One file of a run. `A` is what its owner keeps beside.
#[derive(Debug)]
pub struct FrameFile<A = ()> {
    /// The store's name of it.
    pub id: FileId,
    /// Where it is, or will be when it is closed.
    pub path: PathBuf,
    /// Its number in the run.
    pub index: u32,
    /// The random number in its header and in all its frames.
    pub file_id: u64,
    /// When it was begun.
    pub opened_ns: u64,
    /// Where the next frame goes.
    pub end: u64,
    /// Where its last recorded frame ends.
    pub recorded_end: u64,
    /// Whether its header has been written.
    pub header_recorded: bool,
    /// Whether a write of it has failed.
    pub failed: bool,
    /// Whether it was removed, or is not where it was made any more.
    pub gone: bool,
    /// Whether its table of contents is being written.
    pub toc_begun: bool,
    /// How often its table of contents was tried.
    pub tocs: u32,
    /// What its owner keeps.
    pub attached: A,
    header_bytes: u64,
    /// What the table of contents has come to, about.
    toc_bytes: u64,
    /// Files of which nobody needs it have none.
    toc: Option<TocBuilder>,
    /// Frames recorded since the last checkpoint, and since when.
    unlisted_frames: u32,
    listed_ns: u64,
    /// How many checkpoints there are.
    generation: u64,
}

/// What a file is begun with.
#[derive(Debug)]
pub struct FileParts<A = ()> {
    /// The store's name of it.
    pub id: FileId,
    /// Where it is, or will be when it is closed.
    pub path: PathBuf,
    /// Whether it gets a table of contents.
    pub is_listed: bool,
    /// What its owner keeps.
    pub attached: A,
}

impl<A> FrameFile<A> {
    /// A file that was just made, and the bytes of its header.
    pub fn begin(parts: FileParts<A>, header: &FileHeader, now_ns: u64) -> (Self, Vec<u8>) {
        let FileParts { id, path, is_listed, attached } = parts;
        let encoded = header.encode();
        let header_bytes = encoded.len() as u64;
        let file = Self {
            id,
            path,
            index: header.file_index,
            file_id: header.file_id,
            opened_ns: now_ns,
            end: header_bytes,
            recorded_end: header_bytes,
            header_recorded: false,
            failed: false,
            gone: false,
            toc_begun: false,
            tocs: 0,
            attached,
            header_bytes,
            toc_bytes: 0,
            toc: is_listed.then(|| TocBuilder::new(&encoded)),
            unlisted_frames: 0,
            listed_ns: now_ns,
            generation: 0,
        };
        (file, encoded)
    }

    /// Whether a frame was begun in it.
    pub fn has_frames(&self) -> bool {
        self.end > self.header_bytes
    }

    /// What its header takes.
    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// How many bytes at its beginning have all been written.
    pub fn written_bytes(&self) -> u64 {
        if self.header_recorded { self.recorded_end } else { 0 }
    }

    /// What the frames so far take in its table of contents, about.
    pub fn toc_bytes(&self) -> u64 {
        self.toc_bytes
    }

    /// What its table of contents takes beside, in checkpoints: each lists the frames since the
    /// one before.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.toc_bytes / u64::from(CHECKPOINT_FRAMES)
    }

    /// Makes a file that was left ready for what can still be written behind its last recorded
    /// frame.
    pub fn reopen(&mut self) {
        self.failed = false;
        self.end = self.recorded_end;
    }

    /// Whether a checkpoint should be written now; `late` when it should have been long ago.
    pub fn checkpoint_due(&self, now_ns: u64, late: bool) -> bool {
        let times = if late { 2 } else { 1 };
        let since_ns = now_ns.saturating_sub(self.listed_ns);
        self.unlisted_frames >= times * CHECKPOINT_FRAMES
            || (self.unlisted_frames > 0 && since_ns >= u64::from(times) * CHECKPOINT_NS)
    }

    /// A checkpoint of all recorded frames, to be written behind them: no frame is under way.
    pub(crate) fn encode_checkpoint(
        &mut self,
        sequence: u64,
        ledger: &Ledger,
        now_ns: u64,
    ) -> (Vec<u8>, FrameSummary) {
        assert_eq!(self.recorded_end, self.end, "a checkpoint lists all frames before it");
        (self.unlisted_frames, self.listed_ns) = (0, now_ns);
        let toc = self.toc.as_mut().expect("a file with checkpoints has a table of contents");
        let checkpoint = toc.checkpoint(self.end, sequence, ledger);
        self.end += checkpoint.1.frame_bytes;
        checkpoint
    }

    /// A checkpoint's writes have ended. Its place is taken even if they failed: the table of
    /// contents comes behind.
    pub fn checkpoint_ended(&mut self, checkpoint: &FrameSummary) {
        self.recorded_end = checkpoint.offset + checkpoint.frame_bytes;
    }

    /// What tells readers where a checkpoint is, and where that goes.
    pub(crate) fn encode_locator(&mut self, checkpoint: &FrameSummary) -> (u64, [u8; 4096]) {
        self.generation += 1;
        let offset = locator_offset(self.header_bytes, self.generation);
        (offset, encode_locator(self.file_id, self.generation, checkpoint))
    }

    /// A frame's writes have completed.
    pub fn recorded(&mut self, frame: &WrittenFrame) {
        let summary = frame.summary;
        assert_eq!(summary.offset, self.recorded_end, "frames are recorded in their order");
        self.recorded_end += summary.frame_bytes;
        self.unlisted_frames += 1;
        if let Some(toc) = &mut self.toc {
            self.toc_bytes += (1 + frame.entries.len() as u64) * TOC_ENTRY_BYTES;
            toc.add_frame(summary, &frame.entries);
        }
    }

    /// The table of contents of all recorded frames, which goes behind them; nothing of a file
    /// that has none.
    pub(crate) fn encode_toc(&self, ledger: &Ledger, flags: TocFlags) -> Vec<u8> {
        let toc = self.toc.as_ref();
        toc.map_or_else(Vec::new, |toc| toc.finish(self.recorded_end, ledger, flags))
    }
}
