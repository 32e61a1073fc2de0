//! A file that is being written or closed.

use std::path::PathBuf;

use catchment_frame::{
    FileHeader, FrameInfo, FrameLayout, FrameSummary, TocBuilder, TocFlags, encode_locator,
    locator_offset,
};
use catchment_model::Ledger;

use crate::files::StoreFile;
use crate::stored::WrittenFrame;

/// Frames, or time, after which a checkpoint is written, so that an unfinished file is opened
/// without reading all of it.
const CHECKPOINT_FRAMES: u32 = 64;
const CHECKPOINT_NS: u64 = 10_000_000_000;
/// The bytes that a frame, or a column of it, takes in the table of contents.
pub const TOC_ENTRY_BYTES: u64 = 80;

/// The most bytes that the header of a frame of `column_count` columns takes.
pub fn header_bytes_max(column_count: usize) -> usize {
    FrameLayout::begin(FrameInfo::EMPTY, column_count).header_space()
}

/// One file of a run. `A` is the owner's data for it.
#[derive(Debug)]
pub struct FrameFile<A = ()> {
    /// Where it is stored.
    pub id: StoreFile,
    /// Where it is, or will be when it is closed.
    pub path: PathBuf,
    /// Its number in the run.
    pub index: u32,
    /// The random number in its header and in all its frames.
    pub file_id: u64,
    /// When it began.
    pub opened_ns: u64,
    /// The offset of the next frame.
    pub end: u64,
    /// The end of its last recorded frame.
    pub recorded_end: u64,
    /// Whether its header has been written.
    pub header_recorded: bool,
    /// Whether a write of it has failed.
    pub failed: bool,
    /// Whether it was removed, or is no longer where it was made.
    pub gone: bool,
    /// Whether its table of contents is being written.
    pub toc_begun: bool,
    /// The number of attempts to write its table of contents.
    pub tocs: u32,
    /// What its owner keeps.
    pub attached: A,
    header_bytes: u64,
    /// The approximate size of the table of contents.
    toc_bytes: u64,
    /// Files that do not need one have none.
    toc: Option<TocBuilder>,
    /// Frames recorded since the last checkpoint, and the time of that checkpoint.
    unlisted_frames: u32,
    listed_ns: u64,
    /// The number of checkpoints.
    generation: u64,
}

/// The parameters of a new file.
#[derive(Debug)]
pub struct FileParts<A = ()> {
    /// Where it is stored.
    pub id: StoreFile,
    /// Where it is, or will be when it is closed.
    pub path: PathBuf,
    /// Whether it gets a table of contents.
    pub is_listed: bool,
    /// What its owner keeps.
    pub attached: A,
}

impl<A> FrameFile<A> {
    /// A new file, and the bytes of its header.
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

    /// The bytes of its header.
    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// The number of bytes from its beginning that have all been written.
    pub fn written_bytes(&self) -> u64 {
        if self.header_recorded { self.recorded_end } else { 0 }
    }

    /// The approximate bytes of the frames so far in its table of contents.
    pub fn toc_bytes(&self) -> u64 {
        self.toc_bytes
    }

    /// The bytes of its table of contents in checkpoints: each lists the frames since the one
    /// before.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.toc_bytes / u64::from(CHECKPOINT_FRAMES)
    }

    /// Prepares a file that was left for what can still be written behind its last recorded frame.
    pub fn reopen(&mut self) {
        self.failed = false;
        self.end = self.recorded_end;
    }

    /// Whether a checkpoint is due; with `late`, whether it is long overdue.
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

    /// Handles the end of a checkpoint's writes. Its place is taken even if they failed: the table
    /// of contents follows it.
    pub fn checkpoint_ended(&mut self, checkpoint: &FrameSummary) {
        self.recorded_end = checkpoint.offset + checkpoint.frame_bytes;
    }

    /// The locator that tells readers where a checkpoint is, and the locator's offset.
    pub(crate) fn encode_locator(&mut self, checkpoint: &FrameSummary) -> (u64, [u8; 4096]) {
        self.generation += 1;
        let offset = locator_offset(self.header_bytes, self.generation);
        (offset, encode_locator(self.file_id, self.generation, checkpoint))
    }

    /// Counts a frame whose writes have completed.
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

    /// The table of contents of all recorded frames, which is written behind them; nothing for a
    /// file that has none.
    pub(crate) fn encode_toc(&self, ledger: &Ledger, flags: TocFlags) -> Vec<u8> {
        let toc = self.toc.as_ref();
        toc.map_or_else(Vec::new, |toc| toc.finish(self.recorded_end, ledger, flags))
    }
}
