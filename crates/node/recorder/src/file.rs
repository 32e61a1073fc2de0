//! The files of a run: made, named, and closed with what they hold.

use std::path::PathBuf;

use catchment_agent::{Entropy, FileId, NewFile, OpenError, Store};
use catchment_frame::{
    EntryNames, FILE_LIST_NAME, FileHeader, FileListLine, FrameSummary, Schema, TocBuilder,
    TocFlags, encode_locator, locator_offset,
};
use catchment_model::units::Bytes;
use catchment_model::{Ledger, RunId};

use crate::config::RecorderConfig;
use crate::frame_stream::WrittenFrame;
use crate::frame_writer::SourceCounts;
use crate::live::Live;

/// A file's TOC when the next file is begun.
const TOC_BYTES_MAX: u64 = 64 << 20;
/// Frames, or time, after which a checkpoint is written: with them an unfinished file is opened
/// without a walk through all of it.
const CHECKPOINT_FRAMES: u32 = 64;
const CHECKPOINT_NS: u64 = 10_000_000_000;
/// What is in a TOC beside frames: the schema and the configuration, mostly.
const TOC_BYTES_MIN: u64 = 64 << 10;
/// What a frame, or a column of it, takes in the TOC.
const TOC_ENTRY_BYTES: u64 = 64;

/// Which run this is and where it goes.
pub(crate) struct RunIdentity {
    pub(crate) run: RunId,
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
}

/// What a job was.
pub(crate) enum JobKind {
    /// The file's header.
    Header,
    /// A frame.
    Frame(Box<FrameJob>),
    /// A table of contents so far.
    Checkpoint(FrameSummary),
    /// Where the newest checkpoint stands.
    Locator,
    /// TOC and trailer, with which the file has that many bytes.
    Toc { file_bytes: u64 },
}

/// A frame whose writes are under way.
pub(crate) struct FrameJob {
    pub(crate) written: WrittenFrame,
    pub(crate) counts: Vec<SourceCounts>,
    pub(crate) increment: Ledger,
    /// Keys in it: events, or slices.
    pub(crate) keys: u64,
}

/// Where files go, and the run's first file, which was just made.
pub(crate) struct FirstFile<S> {
    pub(crate) store: S,
    pub(crate) id: FileId,
    pub(crate) entropy: Box<dyn Entropy>,
}

/// A file that is written to, or being closed.
pub(crate) struct OpenFile {
    pub(crate) id: FileId,
    pub(crate) path: PathBuf,
    index: u32,
    /// The random number in its header and in all its frames.
    pub(crate) file_id: u64,
    pub(crate) opened_ns: u64,
    /// Where the next frame goes.
    pub(crate) end: u64,
    /// Where its last recorded frame ends.
    pub(crate) recorded_end: u64,
    pub(crate) header_recorded: bool,
    /// A write of it has failed.
    pub(crate) failed: bool,
    pub(crate) toc_begun: bool,
    /// How often its TOC was tried.
    pub(crate) tocs: u32,
    header_bytes: u64,
    /// What the TOC has come to, about.
    toc_bytes: u64,
    toc: TocBuilder,
    /// Frames recorded since the last checkpoint, and since when.
    unlisted_frames: u32,
    listed_ns: u64,
    /// How many checkpoints there are.
    generation: u64,
    /// It was removed, or is not where it was made any more.
    pub(crate) gone: bool,
    // Recorded fragments by source: all, those that no sync covers yet, those that the one under
    // way does.
    fragments: Vec<u64>,
    not_durable: Vec<u64>,
    syncing: Option<Vec<u64>>,
}

impl OpenFile {
    pub(crate) fn has_frames(&self) -> bool {
        self.end > self.header_bytes
    }

    /// Whether its TOC has grown to where another file is better: it is kept in memory until then.
    pub(crate) fn toc_is_full(&self) -> bool {
        self.toc_bytes >= TOC_BYTES_MAX
    }

    /// Makes a file that was left ready for what can still be written behind its last recorded
    /// frame.
    pub(crate) fn reopen(&mut self) {
        self.failed = false;
        self.end = self.recorded_end;
    }

    /// Whether a checkpoint should be written now; `late` when it should have been long ago.
    pub(crate) fn checkpoint_due(&self, now_ns: u64, late: bool) -> bool {
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
        let checkpoint = self.toc.checkpoint(self.end, sequence, ledger);
        self.end += checkpoint.1.frame_bytes;
        checkpoint
    }

    /// A checkpoint's writes have ended. Its place is taken even if they failed: the TOC comes
    /// behind.
    pub(crate) fn checkpoint_ended(&mut self, checkpoint: &FrameSummary) {
        self.recorded_end = checkpoint.offset + checkpoint.frame_bytes;
    }

    /// What tells readers where a checkpoint is, and where that goes.
    pub(crate) fn encode_locator(&mut self, checkpoint: &FrameSummary) -> (u64, [u8; 4096]) {
        self.generation += 1;
        let offset = locator_offset(self.header_bytes, self.generation);
        (offset, encode_locator(self.file_id, self.generation, checkpoint))
    }

    /// A frame's writes have completed.
    pub(crate) fn recorded(&mut self, frame: &FrameJob) {
        let summary = frame.written.summary;
        assert_eq!(summary.offset, self.recorded_end, "frames are recorded in their order");
        self.recorded_end += summary.frame_bytes;
        self.unlisted_frames += 1;
        self.toc_bytes += (1 + frame.written.entries.len() as u64) * TOC_ENTRY_BYTES;
        self.toc.add_frame(summary, &frame.written.entries);
        let sums = self.not_durable.iter_mut().zip(&mut self.fragments);
        for ((not_durable, all), counts) in sums.zip(&frame.counts) {
            *not_durable += counts.fragments;
            *all += counts.fragments;
        }
    }

    /// Recorded fragments by source.
    pub(crate) fn fragments(&self) -> &[u64] {
        &self.fragments
    }

    /// What its TOC takes, about, with what a frame more adds to it.
    pub(crate) fn toc_bytes(&self) -> u64 {
        self.toc_bytes + self.toc_bytes / u64::from(CHECKPOINT_FRAMES) + TOC_BYTES_MIN
    }

    pub(crate) fn encode_toc(&self, ledger: &Ledger, run_ended: bool) -> Vec<u8> {
        let data_lost = ledger.balance().lost_data();
        let flags = TocFlags { run_ended, data_lost, ..TocFlags::default() };
        self.toc.finish(self.recorded_end, ledger, flags)
    }

    /// Moves what was recorded under the sync that is to begin. False if there is nothing, or a
    /// sync is under way.
    pub(crate) fn begin_sync(&mut self) -> bool {
        if self.syncing.is_some() || self.not_durable.iter().all(|&count| count == 0) {
            return false;
        }
        let none = vec![0; self.not_durable.len()];
        self.syncing = Some(std::mem::replace(&mut self.not_durable, none));
        true
    }

    pub(crate) fn sync_refused(&mut self) {
        for (sum, count) in self.not_durable.iter_mut().zip(self.syncing.take().unwrap_or_default())
        {
            *sum += count;
        }
    }

    /// What a successful sync has made durable.
    pub(crate) fn sync_done(&mut self) -> Vec<u64> {
        self.syncing.take().unwrap_or_default()
    }

    /// What a successful close has made durable.
    pub(crate) fn close_done(&mut self) -> Vec<u64> {
        self.sync_refused();
        std::mem::take(&mut self.not_durable)
    }
}

/// Makes a run's files.
pub(crate) struct FileMaker {
    identity: RunIdentity,
    entropy: Box<dyn Entropy>,
    run_number: u64,
    text: String,
    emulated: bool,
    schema: Schema,
    frame_bytes: u64,
    next_index: u32,
    /// The file that the store was asked for and has not given yet.
    asked: Option<Asked>,
    /// The run's list of files, and how many files it names.
    list: PathBuf,
    listed: u32,
}

/// A file that is being made.
#[derive(Clone)]
struct Asked {
    path: PathBuf,
    index: u32,
    /// What the disk must have room for.
    room_bytes: u64,
}

/// A file that was made, and what is written at its beginning.
pub(crate) struct Begun {
    pub(crate) file: OpenFile,
    pub(crate) header: Vec<u8>,
}

impl FileMaker {
    pub(crate) fn new(
        config: &RecorderConfig,
        identity: RunIdentity,
        schema: Schema,
        entropy: Box<dyn Entropy>,
    ) -> Self {
        Self {
            list: identity.folder.join(FILE_LIST_NAME),
            listed: 0,
            identity,
            entropy,
            run_number: config.run_number,
            text: config.text.clone(),
            emulated: config.emulated,
            schema,
            frame_bytes: config.frame_bytes_max(),
            next_index: 0,
            asked: None,
        }
    }

    /// The path of the run's first file.
    pub(crate) fn first_path(identity: &RunIdentity) -> PathBuf {
        path_of(identity, 0)
    }

    /// Takes up the run's first file, which was made before anything else ran.
    pub(crate) fn begin_first(&mut self, id: FileId, now_ns: u64) -> Result<Begun, String> {
        let (path, index) = self.next_path();
        self.begin(id, Asked { path, index, room_bytes: 0 }, now_ns)
    }

    /// Has the next file made ahead, once.
    pub(crate) fn open_ahead<S: Store>(&mut self, store: &mut S) {
        self.ask(store, 0);
    }

    /// The next file, when it is there: the one that was asked for before, or one that is now. Of
    /// that the disk must have room for `room_bytes`; with 0 it is made in any case.
    pub(crate) fn next<S: Store>(
        &mut self,
        store: &mut S,
        room_bytes: u64,
        now_ns: u64,
    ) -> Option<Result<Begun, String>> {
        if let Some(asked) = &self.asked
            && asked.room_bytes < room_bytes
            && store.opened_bytes().is_some()
            && !self.has_ahead(store, room_bytes)
        {
            // It was made before there was too little room.
            self.next_index = asked.index;
            self.discard_ahead(store);
        }
        self.ask(store, room_bytes);
        let opened = store.take_opened()?;
        let asked = self.asked.take().expect("what is opened was asked for");
        Some(match opened {
            Ok(id) => self.begin(id, asked, now_ns),
            // The rest of a file that failed and could not be deleted.
            Err(OpenError::Exists { .. }) if asked.index < u32::MAX => {
                self.ask(store, room_bytes);
                return None;
            }
            Err(error) => {
                self.next_index = asked.index;
                Err(match error {
                    OpenError::NoRoom { spare_bytes, room_bytes, .. } => {
                        self.full(room_bytes, spare_bytes)
                    }
                    error => error.to_string(),
                })
            }
        })
    }

    /// Bytes that the disk must have room for where a file is made after a fault.
    pub(crate) fn room_bytes(&self) -> u64 {
        2 * self.frame_bytes + (1 << 20)
    }

    fn ask<S: Store>(&mut self, store: &mut S, room_bytes: u64) {
        if self.asked.is_none() {
            let (path, index) = self.next_path();
            store.open(NewFile { path: path.clone(), room_bytes });
            self.asked = Some(Asked { path, index, room_bytes });
        }
    }

    /// Whether a file that was made ahead has blocks for so many bytes behind its header.
    pub(crate) fn has_ahead<S: Store>(&self, store: &S, bytes: u64) -> bool {
        let header = (self.text.len() as u64).saturating_add(TOC_BYTES_MIN);
        store.opened_bytes().is_some_and(|blocks| blocks >= bytes.saturating_add(header))
    }

    /// Gives up the file that was made ahead.
    pub(crate) fn discard_ahead<S: Store>(&mut self, store: &mut S) {
        store.discard_opened();
        self.asked = None;
    }

    /// Says that the disk has no room for so many bytes.
    pub(crate) fn full(&self, needed: u64, spare: u64) -> String {
        let folder = self.identity.folder.display();
        let error = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let (needed, spare) = (Bytes(needed), Bytes(spare));
        format!("disk full: {folder} has {spare} left for data, {needed} are needed: {error}")
    }

    /// Says in the run's list of files that this one's header is written. Like all lines of the
    /// list: a helper thread writes it.
    pub(crate) fn list_begun<S: Store>(&mut self, store: &mut S, file: &OpenFile) {
        self.listed = self.listed.max(file.index + 1);
        self.list(store, &FileListLine::Begun { index: file.index, file_id: file.file_id });
    }

    /// Says that a file has its TOC and is durable.
    pub(crate) fn list_closed<S: Store>(&self, store: &mut S, file: &OpenFile, bytes: u64) {
        self.list(store, &FileListLine::Closed { index: file.index, bytes });
    }

    /// Says that there will be no other file.
    pub(crate) fn end_list<S: Store>(&self, store: &mut S) {
        if self.listed > 0 {
            self.list(store, &FileListLine::Ended { files: self.listed });
        }
    }

    fn list<S: Store>(&self, store: &mut S, line: &FileListLine) {
        let header = FileListLine::Run(self.identity.run).encode();
        store.append_text(&self.list, &header, &line.encode());
    }

    /// A file that did not get as far as its header was deleted: the next one takes its number.
    pub(crate) fn deleted(&mut self, file: &OpenFile, live: &Live) {
        live.remove_file(&file.path);
        if self.next_index == file.index + 1 {
            self.next_index = file.index;
        }
    }

    /// The next file's path, and its number, which is then taken.
    fn next_path(&mut self) -> (PathBuf, u32) {
        let index = self.next_index;
        self.next_index += 1;
        (path_of(&self.identity, index), index)
    }

    fn begin(
        &mut self,
        id: FileId,
        Asked { path, index, .. }: Asked,
        now_ns: u64,
    ) -> Result<Begun, String> {
        let no_random_bits = |error| format!("cannot get random bits: {error}");
        let file_id = self.entropy.random_u64().map_err(no_random_bits)?;
        let header = FileHeader {
            run: self.identity.run,
            run_number: self.run_number,
            file_index: index,
            file_id,
            created_ns: now_ns,
            writer: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            config: self.text.clone(),
            emulated: self.emulated,
            schema: self.schema.clone().into(),
            ledger_entries: EntryNames::default(),
            locator: true,
        };
        let header = header.encode();
        let header_bytes = header.len() as u64;
        let file = OpenFile {
            id,
            path,
            index,
            file_id,
            opened_ns: now_ns,
            end: header_bytes,
            recorded_end: header_bytes,
            header_recorded: false,
            failed: false,
            toc_begun: false,
            tocs: 0,
            header_bytes,
            toc_bytes: 0,
            toc: TocBuilder::new(&header),
            unlisted_frames: 0,
            listed_ns: now_ns,
            generation: 0,
            gone: false,
            fragments: vec![0; self.schema.sources.len()],
            not_durable: vec![0; self.schema.sources.len()],
            syncing: None,
        };
        Ok(Begun { file, header })
    }
}

fn path_of(identity: &RunIdentity, index: u32) -> PathBuf {
    identity.folder.join(format!("{}-{index:05}.catch", identity.name))
}
