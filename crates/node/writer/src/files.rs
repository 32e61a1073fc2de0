//! Frame files in one or several stores.
//!
//! The owner decides which file is current and when it is left; this module moves the bytes.
//! Headers, checkpoints and tables of contents are *pages*, which are streamed in their order
//! before any frame in their store. Everything streamed is a job; ended jobs of a store are
//! returned to the owner, oldest first. A store that does not respond delays nothing in others.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use catchment_agent::{Completion, FileEnd, FileId, Store};
use catchment_frame::{
    BlockDigest, ColumnEntry, FileHeader, FrameInfo, FrameLayout, FrameSummary, Positions,
    TocBuilder, TocFlags, encode_locator, locator_offset,
};
use catchment_model::Ledger;

use crate::jobs::{HeaderOrder, Job, Jobs, Stream, WriteCounts};
use crate::stored::{StoredColumn, WrittenFrame};

/// The files that frames are written to. `T` is a frame's tag, `A` the owner's data for a file.
pub struct FrameFiles<S: Store, T, A = ()> {
    /// The file that receives frames.
    pub current: Option<FrameFile<A>>,
    /// Files that receive no more frames, until they are finished.
    pub closing: Vec<FrameFile<A>>,
    /// By store.
    jobs: Vec<Jobs<S, JobKind<T>>>,
    pages: VecDeque<Page<S::Buffer>>,
    layout: FrameLayout,
    frame: Option<UnderWay<S::Buffer>>,
    /// Of the column being copied, if its checksums are not known yet.
    digest: BlockDigest,
    /// The table written behind it, once its stored bytes are copied; empty before.
    table: Vec<u8>,
}

/// A file of one of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// The index of the store.
    pub store: usize,
    /// The store's name of the file.
    pub id: FileId,
}

/// The kind of a job.
#[derive(Debug)]
pub enum JobKind<T> {
    /// The file's header.
    Header,
    /// A frame, and its tag.
    Frame(Box<WrittenFrame>, T),
    /// A frame that was abandoned before its end.
    Abandoned,
    /// A table of contents so far.
    Checkpoint(FrameSummary),
    /// The locator of the newest checkpoint.
    Locator,
    /// Table of contents and trailer, with which the file has that many bytes.
    Toc {
        /// All of it.
        file_bytes: u64,
    },
}

/// A job whose writes have completed, as have all older ones.
#[derive(Debug)]
pub struct Ended<T> {
    /// Its file.
    pub file: StoreFile,
    /// Its kind.
    pub kind: JobKind<T>,
    /// The first error of its writes.
    pub error: Option<io::Error>,
}

/// Bytes of a job other than a frame, and how many of them were streamed.
struct Page<B> {
    store: usize,
    stream: Stream<B>,
    bytes: Vec<u8>,
    streamed: usize,
    kind: PageKind,
}

enum PageKind {
    Header,
    Checkpoint(FrameSummary),
    Locator,
    Toc { file_bytes: u64 },
}

/// The current frame.
struct UnderWay<B> {
    store: usize,
    stream: Stream<B>,
    offset: u64,
    /// The position in the column being copied: the piece, and the offset in it; behind the last
    /// piece, the offset in the table.
    piece: usize,
    at: usize,
    /// How many of the column's bytes are copied.
    done: usize,
}

impl<S: Store, T, A> FrameFiles<S, T, A> {
    /// No files yet. `buffer_bytes` is the size of the stores' buffers.
    pub fn new(
        stores: impl IntoIterator<Item = S>,
        buffer_bytes: usize,
        order: HeaderOrder,
    ) -> Self {
        let jobs = stores.into_iter().map(|store| Jobs::new(store, buffer_bytes, order));
        Self {
            current: None,
            closing: Vec::new(),
            jobs: jobs.collect(),
            pages: VecDeque::new(),
            layout: FrameLayout::begin(FrameInfo::EMPTY, 0),
            frame: None,
            digest: BlockDigest::default(),
            table: Vec::new(),
        }
    }

    /// One of the stores.
    pub fn store(&mut self, store: usize) -> &mut S {
        &mut self.jobs[store].store
    }

    /// The number of stores.
    pub fn stores(&self) -> usize {
        self.jobs.len()
    }

    /// Handles the stores' completions and submits what was requested of them. Returns the number
    /// of completions.
    pub fn poll(&mut self) -> usize {
        self.jobs.iter_mut().map(Jobs::poll).sum()
    }

    /// How many writes to a store were begun, and how many have completed.
    pub fn writes(&self, store: usize) -> WriteCounts {
        self.jobs[store].writes()
    }

    /// The completions of syncs and of finished files since the last call, with their stores.
    pub fn take_others(&mut self) -> Vec<(usize, Completion)> {
        let others = |(store, jobs): (usize, &mut Jobs<S, _>)| {
            jobs.take_others().into_iter().map(move |completion| (store, completion))
        };
        self.jobs.iter_mut().enumerate().flat_map(others).collect()
    }

    /// Whether anything was streamed to a store, or is being streamed, and has not been taken by
    /// [`FrameFiles::next_ended`].
    pub fn is_busy(&self, store: usize) -> bool {
        self.jobs[store].oldest().is_some()
    }

    /// As [`FrameFiles::is_busy`], of any store.
    pub fn are_busy(&self) -> bool {
        (0..self.stores()).any(|store| self.is_busy(store))
    }

    /// Whether a job of that file has not ended.
    pub fn is_busy_with(&self, file: StoreFile) -> bool {
        self.jobs[file.store].any_of(file.id)
    }

    /// The oldest job of a store, if it has ended.
    pub fn next_ended(&mut self) -> Option<Ended<T>> {
        let ended = |jobs: &Jobs<S, _>| jobs.oldest().is_some_and(Job::ended);
        let store = self.jobs.iter().position(ended)?;
        let Job { file: id, kind, error, .. } = self.jobs[store].take_oldest()?;
        let file = StoreFile { store, id };
        Some(Ended { file, kind: kind.expect("an ended job"), error })
    }

    /// As [`Store::sync`].
    pub fn sync(&mut self, file: StoreFile) -> bool {
        self.store(file.store).sync(file.id, 0)
    }

    /// As [`Store::finish`].
    pub fn finish_file(&mut self, file: StoreFile, end: FileEnd) {
        self.store(file.store).finish(file.id, end);
    }

    /// That file, which receives frames or is being closed.
    ///
    /// # Panics
    /// The file is neither current nor being closed.
    pub fn file(&mut self, id: StoreFile) -> &mut FrameFile<A> {
        let mut files = self.current.iter_mut().chain(&mut self.closing);
        files.find(|file| file.id == id).expect("the file is open")
    }

    /// Leaves the current file, which receives no more frames.
    pub fn leave(&mut self) {
        self.closing.extend(self.current.take());
    }

    /// Has the newest file that is being closed and can still be written to receive frames again,
    /// if there is no current one and it is not older than the file of that index.
    pub fn reopen_newest(&mut self, index_min: u32) {
        if self.current.is_some() {
            return;
        }
        let waiting = |(_, file): &(usize, &FrameFile<A>)| {
            file.header_recorded && !file.toc_begun && file.index >= index_min
        };
        // Its last frame follows all frames of the others.
        let files = self.closing.iter().enumerate().filter(waiting);
        if let Some((index, _)) = files.max_by_key(|(_, file)| file.index) {
            let mut file = self.closing.remove(index);
            file.reopen();
            self.current = Some(file);
        }
    }

    /// Makes a file the current one and writes its header.
    ///
    /// # Panics
    /// There is a current file.
    pub fn begin_file(&mut self, file: FrameFile<A>, header: Vec<u8>) {
        assert!(self.current.is_none(), "one file at a time gets frames");
        self.put_page(file.id, 0, header, PageKind::Header);
        self.current = Some(file);
    }

    /// Writes a checkpoint behind the current file's frames, all of which are recorded.
    pub fn begin_checkpoint(&mut self, ledger: &Ledger, now_ns: u64) {
        let Some(file) = &mut self.current else { return };
        let (id, start) = (file.id, file.end);
        let (bytes, summary) = file.encode_checkpoint(ledger, now_ns);
        self.put_page(id, start, bytes, PageKind::Checkpoint(summary));
    }

    /// Writes the locator of a checkpoint.
    pub fn begin_locator(&mut self, id: StoreFile, checkpoint: &FrameSummary) {
        let (offset, locator) = self.file(id).encode_locator(checkpoint);
        self.put_page(id, offset, locator.to_vec(), PageKind::Locator);
    }

    /// Writes the table of contents behind the recorded frames of a file that is being closed;
    /// returns the file's size with it.
    pub fn begin_toc(&mut self, id: StoreFile, ledger: &Ledger, flags: TocFlags) -> u64 {
        let file = self.file(id);
        let (bytes, start) = (file.encode_toc(ledger, flags), file.recorded_end);
        let file_bytes = start + bytes.len() as u64;
        if !bytes.is_empty() {
            self.put_page(id, start, bytes, PageKind::Toc { file_bytes });
        }
        file_bytes
    }

    fn put_page(&mut self, file: StoreFile, offset: u64, bytes: Vec<u8>, kind: PageKind) {
        let store = file.store;
        let stream = self.jobs[store].begin(file.id, offset);
        self.pages.push_back(Page { store, stream, bytes, streamed: 0, kind });
    }

    /// Whether pages wait to be streamed.
    pub fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Whether pages must be streamed before a frame in the current file: one thing at a time is
    /// streamed to a store, whose last buffers two might share and neither complete.
    pub fn has_pages_first(&self) -> bool {
        let store = self.current.as_ref().map(|file| file.id.store);
        self.pages.iter().any(|page| store.is_none_or(|store| page.store == store))
    }

    /// Streams the oldest page of a store, as far as there are buffers and the budget of bytes
    /// lasts; if none are free there, of another store. True when a page is streamed.
    pub fn stream_page(&mut self, budget: &mut usize) -> bool {
        let mut index = 0;
        while let Some(page) = self.pages.get_mut(index) {
            let rest = &page.bytes[page.streamed..];
            let now = &rest[..rest.len().min(*budget)];
            let (store, jobs) = (page.store, &mut self.jobs[page.store]);
            let streamed = jobs.append(&mut page.stream, now);
            page.streamed += streamed;
            *budget -= streamed;
            if page.streamed == page.bytes.len()
                && let Some(Page { stream, kind, .. }) = self.pages.remove(index)
            {
                let kind = match kind {
                    PageKind::Header => JobKind::Header,
                    PageKind::Checkpoint(summary) => JobKind::Checkpoint(summary),
                    PageKind::Locator => JobKind::Locator,
                    PageKind::Toc { file_bytes } => JobKind::Toc { file_bytes },
                };
                jobs.finish(stream, kind);
                return true;
            }
            let is_other = |page: &Page<S::Buffer>| page.store != store;
            let next = self.pages.iter().skip(index + 1).position(is_other);
            match next.filter(|_| *budget > 0) {
                Some(next) => index += 1 + next,
                None => return false,
            }
        }
        false
    }

    /// Begins a frame of at most `columns_max` columns in the current file.
    ///
    /// # Panics
    /// A frame or a page is in progress, or there is no file: the owner rules that out beforehand.
    pub fn begin(&mut self, info: FrameInfo, columns_max: usize) {
        assert!(self.frame.is_none() && !self.has_pages_first(), "one thing at a time is streamed");
        let file = self.current.as_ref().expect("there is a file for the frame");
        self.layout.restart(FrameInfo { file_id: file.file_id, ..info }, columns_max);
        let StoreFile { store, id } = file.id;
        let (stream, offset) = (self.jobs[store].begin(id, file.end), file.end);
        self.frame = Some(UnderWay { store, stream, offset, piece: 0, at: 0, done: 0 });
        self.digest = BlockDigest::default();
        self.table.clear();
    }

    /// Takes as much of a column as there is room for and as the budget of bytes lasts; true when
    /// it has all of it. Otherwise the caller calls again with the same column, when there may be
    /// room.
    pub fn append(&mut self, column: &StoredColumn<'_>, budget: &mut usize) -> bool {
        let frame = self.frame.as_mut().expect("a frame is under way");
        let UnderWay { store, stream, piece, at, done, .. } = frame;
        let jobs = &mut self.jobs[*store];
        if !jobs.pad_to(stream, self.layout.next_offset()) {
            return false;
        }
        while let Some(bytes) = (column.piece)(*piece) {
            let rest = &bytes[*at..];
            let now = &rest[..rest.len().min(*budget)];
            let copied = match column.checksums.get() {
                Some(_) => jobs.append(stream, now),
                None => jobs.append_checked(stream, now, &mut self.digest),
            };
            *budget -= copied;
            *at += copied;
            *done += copied;
            if copied < rest.len() {
                return false;
            }
            (*piece, *at) = (*piece + 1, 0);
        }
        // Another target may have set them since the column was begun here.
        let checksums = column.checksums.get_or_init(|| self.digest.finish());
        assert_eq!(checksums.bytes(), column.stored_bytes, "checksums of all stored bytes");
        if self.table.is_empty() {
            checksums.encode_table(&mut self.table);
        }
        if !self.table.is_empty() {
            if !jobs.pad_to(stream, self.layout.table_offset(column.stored_bytes)) {
                return false;
            }
            *at += jobs.append(stream, &self.table[*at..]);
            if *at < self.table.len() {
                return false;
            }
        }
        self.layout.push(column.entry(checksums.crc32c()));
        (*piece, *at, *done) = (0, 0, 0);
        self.digest = BlockDigest::default();
        self.table.clear();
        true
    }

    /// From now on the column under way has its bytes in one piece.
    pub fn join_pieces(&mut self) {
        let Some(UnderWay { piece, at, done, .. }) = &mut self.frame else { return };
        match self.table.is_empty() {
            true => (*piece, *at) = (0, *done),
            // All of them are copied.
            false => *piece = 1,
        }
    }

    /// Ends the frame: the memory of its columns is not needed any more. Its tag comes back when
    /// its writes have completed ([`FrameFiles::next_ended`]).
    ///
    /// # Errors
    /// The tag, if there is no room yet: the caller calls again.
    pub fn finish(&mut self, tag: T) -> Result<FrameSummary, T> {
        let Some(UnderWay { store, mut stream, offset, .. }) = self.frame.take() else {
            unreachable!("a frame is under way")
        };
        let jobs = &mut self.jobs[store];
        if !jobs.pad_to(&mut stream, self.layout.frame_bytes()) {
            self.frame = Some(UnderWay { store, stream, offset, piece: 0, at: 0, done: 0 });
            return Err(tag);
        }
        let summary = self.layout.finish(offset, jobs.first(&mut stream));
        let file = self.current.as_mut().expect("no file is left while a frame is streamed");
        file.end += summary.frame_bytes;
        let entries = self.layout.entries().to_vec();
        jobs.finish(stream, JobKind::Frame(Box::new(WrittenFrame { summary, entries }), tag));
        Ok(summary)
    }

    /// Abandons the current frame; no reader will see it.
    pub fn abandon_frame(&mut self) {
        if let Some(UnderWay { store, stream, .. }) = self.frame.take() {
            self.jobs[store].abandon(stream, JobKind::Abandoned);
        }
    }

    /// The columns of the frame that was ended last.
    pub fn entries(&self) -> &[ColumnEntry] {
        self.layout.entries()
    }

    /// The bytes that a frame of `columns_max` columns takes beside its columns.
    pub fn header_space(&mut self, columns_max: usize) -> u64 {
        assert!(self.frame.is_none(), "no frame is under way");
        self.layout.restart(FrameInfo::EMPTY, columns_max);
        self.layout.frame_bytes()
    }
}

impl<S: Store, T, A> std::fmt::Debug for FrameFiles<S, T, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.current.as_ref().map(|file| &file.path);
        f.debug_struct("FrameFiles").field("current", &path).finish_non_exhaustive()
    }
}

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
    /// The lowest and the highest number of its recorded frames.
    pub numbers: Option<(u64, u64)>,
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
            numbers: None,
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

    /// Sets the newest positions of the run's sources for the next table: up to its last recorded
    /// frame.
    pub fn set_positions(&mut self, positions: &Positions) {
        if let Some(toc) = &mut self.toc {
            toc.set_positions(positions);
        }
    }

    /// Sets the sum of what its recorded frames count, for its table of contents.
    pub fn set_frames_ledger(&mut self, sum: &Ledger) {
        if let Some(toc) = &mut self.toc {
            toc.set_frames_ledger(sum);
        }
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
        ledger: &Ledger,
        now_ns: u64,
    ) -> (Vec<u8>, FrameSummary) {
        assert_eq!(self.recorded_end, self.end, "a checkpoint lists all frames before it");
        (self.unlisted_frames, self.listed_ns) = (0, now_ns);
        let toc = self.toc.as_mut().expect("a file with checkpoints has a table of contents");
        let checkpoint = toc.checkpoint(self.end, ledger);
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
        let (first, last) = summary.info.numbers();
        let (lowest, highest) = self.numbers.unwrap_or((first, last));
        self.numbers = Some((lowest.min(first), highest.max(last)));
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

/// Frames, or time, after which a checkpoint is written, so that an unfinished file is opened
/// without reading all of it.
const CHECKPOINT_FRAMES: u32 = 64;
const CHECKPOINT_NS: u64 = 10_000_000_000;
