//! The agent of a stream: from whole frames to its files.
//!
//! A file is made when a frame needs it, left when it is large enough, and closed with its table of
//! contents. What is recorded becomes durable with the next sync of its file, or when it is closed;
//! the stream is durable up to the first file of which that does not hold.
//!
//! The agent ends at the first fault of a write, a sync or a close, and says which bytes of its
//! files are durable: the node cuts them there, and begins again. A file that cannot be made is
//! tried again each second, and frames wait.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, Release};

use catchment_agent::{
    Agent, Completion, CompletionKind, Entropy, FileEnd, FolderStore, NewFile, OpenError, Work,
};
use catchment_codec::Codec;
use catchment_encoder::Buffer;
use catchment_frame::{
    BlockChecksums, FILE_LIST_NAME, FileHeader, FileListLine, FrameInfo, TocFlags, unqualified,
};
use catchment_model::{Entry, Ledger};
use catchment_writer::{
    ColumnForm, Ended, FileParts, FrameFile, FrameFiles, HeaderOrder, JobKind, StoreFile,
    StoredColumn,
};
use crossbeam_channel::{Receiver, TryRecvError};

use crate::state::{Fault, Reserved, StreamState};

/// What a writer gets, in order.
pub(crate) enum Item {
    /// The header of the stream's files, but for what distinguishes them: before any frame.
    Header(Box<FileHeader>),
    Frame(Box<StoredFrame>),
    /// The stream ends; the item has this number.
    Close(u64),
}

/// A frame that is there as a whole.
#[derive(Debug)]
pub(crate) struct StoredFrame {
    pub(crate) info: FrameInfo,
    pub(crate) columns: Vec<ColumnBytes>,
    /// What it adds to the ledger.
    pub(crate) ledger: Ledger,
    /// One above the last number that it takes.
    pub(crate) end: u64,
    /// When it was there as a whole.
    pub(crate) taken_ns: u64,
    pub(crate) _memory: Reserved,
}

/// A column as it is stored.
#[derive(Debug)]
pub(crate) struct ColumnBytes {
    pub(crate) form: ColumnForm,
    pub(crate) codec: Codec,
    pub(crate) raw_bytes: u64,
    pub(crate) checksums: OnceLock<BlockChecksums>,
    pub(crate) stored: Buffer,
}

impl ColumnBytes {
    /// A column whose directory entry has that codec.
    pub(crate) fn new(form: ColumnForm, codec: Codec, raw_bytes: u64, stored: Buffer) -> Self {
        let own = unqualified(codec);
        let form = ColumnForm { is_qualified: own.is_some(), ..form };
        Self { form, codec: own.unwrap_or(codec), raw_bytes, checksums: OnceLock::new(), stored }
    }

    /// What its buffer takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.stored.capacity() as u64
    }
}

/// What a writer is made of.
pub(crate) struct WriterParts<S> {
    pub(crate) store: S,
    pub(crate) input: Receiver<Item>,
    pub(crate) state: Arc<StreamState>,
    pub(crate) entropy: Box<dyn Entropy>,
    pub(crate) folder: PathBuf,
    /// The number of its first file.
    pub(crate) next_index: u32,
    /// The sum of the frames before.
    pub(crate) ledger: Ledger,
    pub(crate) buffer_bytes: usize,
    pub(crate) file_bytes: u64,
    pub(crate) sync_interval_ns: u64,
}

/// The agent's state.
pub(crate) struct Writer<S: FolderStore> {
    now_ns: u64,
    files: FrameFiles<S, Tag, Attached>,
    input: Receiver<Item>,
    state: Arc<StreamState>,
    entropy: Box<dyn Entropy>,
    folder: PathBuf,
    file_bytes: u64,
    sync_interval_ns: u64,
    synced_ns: u64,
    /// When the last frame was written.
    recorded_ns: u64,
    header: Option<Box<FileHeader>>,
    next_index: u32,
    /// The number of the file that was requested.
    asked: Option<u32>,
    retry_at_ns: u64,
    /// The frame that waits for a file, or is being copied: with the index of its column, once it
    /// was begun.
    frame: Option<(Box<StoredFrame>, Option<usize>)>,
    /// What is known of files that are not wholly durable, oldest first.
    marks: VecDeque<Mark>,
    ledger: Ledger,
    end: End,
}

struct Tag {
    end: u64,
    taken_ns: u64,
    ledger: Ledger,
}

struct Attached {
    /// The sum of what its frames count.
    frames: Ledger,
    syncing: Option<Syncing>,
    durable_bytes: u64,
    /// When its end was ordered.
    finishing_ns: u64,
}

/// A sync under way: what it makes durable, numbers below and bytes before, and since when.
#[derive(Clone, Copy)]
struct Syncing {
    durable: u64,
    bytes: u64,
    since_ns: u64,
}

/// Numbers below these are in a file, and are durable there.
struct Mark {
    id: StoreFile,
    recorded: u64,
    durable: u64,
    is_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Frames may come.
    No,
    /// Files are being closed. With a number, the stream ends with that item.
    Closing(Option<u64>),
    /// The list of files is being ended.
    Listing(Option<u64>),
}

enum Step {
    Done,
    Budget,
    Wait,
    Ended,
}

impl<S: FolderStore> Writer<S> {
    pub(crate) fn new(parts: WriterParts<S>) -> Self {
        Self {
            now_ns: 0,
            files: FrameFiles::new([parts.store], parts.buffer_bytes, HeaderOrder::Last),
            input: parts.input,
            state: parts.state,
            entropy: parts.entropy,
            folder: parts.folder,
            file_bytes: parts.file_bytes,
            sync_interval_ns: parts.sync_interval_ns,
            synced_ns: 0,
            recorded_ns: 0,
            header: None,
            next_index: parts.next_index,
            asked: None,
            retry_at_ns: 0,
            frame: None,
            marks: VecDeque::new(),
            ledger: parts.ledger,
            end: End::No,
        }
    }

    fn step(&mut self, budget: &mut usize) -> Result<Step, String> {
        self.handle_completions()?;
        self.look_after_files();
        if self.files.has_pages() {
            match self.files.stream_page(budget) {
                true => return Ok(Step::Done),
                false if *budget == 0 => return Ok(Step::Budget),
                false if self.files.has_pages_first() => return Ok(Step::Wait),
                false => {}
            }
        }
        if let Some((frame, column)) = self.frame.take() {
            return self.copy(frame, column, budget);
        }
        if self.end != End::No {
            return Ok(self.go_on_ending());
        }
        match self.input.try_recv() {
            Ok(Item::Header(header)) => {
                if self.ledger.sources.is_empty() {
                    self.ledger = Ledger::new(header.schema.sources.len());
                }
                self.header = Some(header);
            }
            Ok(Item::Frame(frame)) => self.frame = Some((frame, None)),
            Ok(Item::Close(number)) => self.begin_end(Some(number)),
            Err(TryRecvError::Disconnected) => self.begin_end(None),
            Err(TryRecvError::Empty) => return Ok(Step::Wait),
        }
        Ok(Step::Done)
    }

    /// Goes on with a frame: waits for a file, then copies its columns.
    fn copy(
        &mut self,
        frame: Box<StoredFrame>,
        column: Option<usize>,
        budget: &mut usize,
    ) -> Result<Step, String> {
        let Some(index) = column else {
            let is_ready = self.has_file()? && !self.files.has_pages();
            if is_ready {
                self.files.begin(frame.info, frame.columns.len());
            }
            self.frame = Some((frame, is_ready.then_some(0)));
            return Ok(if is_ready || self.files.has_pages() { Step::Done } else { Step::Wait });
        };
        let Some(next) = frame.columns.get(index) else {
            let tag = Tag {
                end: frame.end,
                taken_ns: frame.taken_ns,
                ledger: frame.ledger.clone(),
            };
            let is_finished = self.files.finish(tag).is_ok();
            if !is_finished {
                self.frame = Some((frame, column));
            }
            return Ok(if is_finished { Step::Done } else { Step::Wait });
        };
        let stored = StoredColumn {
            form: next.form,
            codec: next.codec,
            checksums: &next.checksums,
            raw_bytes: next.raw_bytes,
            stored_bytes: next.stored.len() as u64,
            piece: &|piece| (piece == 0).then_some(&next.stored[..]),
        };
        let is_copied = self.files.append(&stored, budget);
        self.frame = Some((frame, Some(index + usize::from(is_copied))));
        Ok(match is_copied {
            true => Step::Done,
            false if *budget == 0 => Step::Budget,
            false => Step::Wait,
        })
    }

    /// Whether there is a file for the next frame. If none is, one is requested, and taken once
    /// it is made. A file that is large enough is left for the next.
    fn has_file(&mut self) -> Result<bool, String> {
        let is_full = |file: &FrameFile<Attached>| file.end >= self.file_bytes;
        if self.files.current.as_ref().is_some_and(|file| !is_full(file)) {
            return Ok(true);
        }
        if self.asked.is_none() {
            if self.now_ns < self.retry_at_ns {
                // Until the next one can be made, frames go on in this one.
                return Ok(self.files.current.is_some());
            }
            let path = self.path(self.next_index);
            self.asked = Some(self.next_index);
            self.files.store(0).open(NewFile { path, room_bytes: ROOM_BYTES });
        }
        let Some(opened) = self.files.store(0).take_opened() else { return Ok(false) };
        let index = self.asked.take().unwrap_or(self.next_index);
        match opened {
            Ok(id) => {
                self.files.leave();
                self.begin_file(StoreFile { store: 0, id }, index)?;
                *self.state.trouble.lock() = None;
                Ok(true)
            }
            // Left over from a file that failed and could not be deleted.
            Err(OpenError::Exists { .. }) if index < u32::MAX => {
                self.next_index = index + 1;
                self.has_file()
            }
            Err(error) => {
                self.retry_at_ns = self.now_ns + RETRY_NS;
                *self.state.trouble.lock() = Some(error.to_string());
                Ok(self.files.current.is_some())
            }
        }
    }

    fn begin_file(&mut self, id: StoreFile, index: u32) -> Result<(), String> {
        let header = self.header.as_ref().ok_or("a frame came before the header of its file")?;
        let no_bits = |error| format!("cannot get random bits: {error}");
        let file_id = self.entropy.random_u64().map_err(no_bits)?;
        let header =
            FileHeader { file_index: index, file_id, created_ns: self.now_ns, ..*header.clone() };
        let attached = Attached {
            frames: Ledger::new(header.schema.sources.len()),
            syncing: None,
            durable_bytes: 0,
            finishing_ns: 0,
        };
        let path = self.path(index);
        let parts = FileParts { id, path, is_listed: true, attached };
        let (file, bytes) = FrameFile::begin(parts, &header, self.now_ns);
        let durable =
            self.marks.back().map_or(self.state.durable.load(Relaxed), |one| one.recorded);
        self.marks.push_back(Mark { id, recorded: durable, durable, is_closed: false });
        self.next_index = index + 1;
        self.files.begin_file(file, bytes);
        Ok(())
    }

    fn path(&self, index: u32) -> PathBuf {
        self.folder.join(format!("{}-{index:05}.catch", self.state.key.name))
    }

    fn handle_completions(&mut self) -> Result<(), String> {
        for (store, completion) in self.files.take_others() {
            let id = StoreFile { store, id: completion.file };
            match completion.kind {
                CompletionKind::Write => unreachable!("writes are handled by the jobs"),
                CompletionKind::Sync => self.synced(id, completion)?,
                CompletionKind::Finished => self.finished(id, completion)?,
            }
        }
        while let Some(ended) = self.files.next_ended() {
            self.job_ended(ended)?;
        }
        let ready = |file: &FrameFile<Attached>| !file.toc_begun && file.header_recorded;
        let ready: Vec<StoreFile> =
            self.files.closing.iter().filter(|file| ready(file)).map(|file| file.id).collect();
        for id in ready {
            if !self.files.is_busy_with(id) {
                self.begin_toc(id);
            }
        }
        Ok(())
    }

    fn job_ended(&mut self, Ended { file: id, kind, error }: Ended<Tag>) -> Result<(), String> {
        let file = self.files.file(id);
        if let Some(error) = error {
            return Err(format!("cannot write {}: {error}", file.path.display()));
        }
        match kind {
            JobKind::Header => {
                file.header_recorded = true;
                let (index, file_id) = (file.index, file.file_id);
                self.list(&FileListLine::Begun { index, file_id });
            }
            JobKind::Frame(written, tag) => {
                file.recorded(&written);
                file.attached.frames.add(&tag.ledger);
                self.ledger.add(&tag.ledger);
                self.state.frames.fetch_add(1, Relaxed);
                let begun_ns = tag.taken_ns.max(self.recorded_ns);
                self.state.write.took(self.now_ns.saturating_sub(begun_ns));
                self.recorded_ns = self.now_ns;
                self.state.bytes.fetch_add(written.summary.frame_bytes, Relaxed);
                if let Some(mark) = self.marks.iter_mut().find(|mark| mark.id == id) {
                    mark.recorded = tag.end;
                }
            }
            JobKind::Checkpoint(summary) => {
                file.checkpoint_ended(&summary);
                self.files.begin_locator(id, &summary);
            }
            JobKind::Toc { file_bytes } => {
                file.attached.finishing_ns = self.now_ns;
                self.files.finish_file(id, FileEnd::Cut(file_bytes));
            }
            JobKind::Locator | JobKind::Abandoned => {}
        }
        Ok(())
    }

    fn synced(&mut self, id: StoreFile, completion: Completion) -> Result<(), String> {
        let mut files = self.files.current.iter_mut().chain(&mut self.files.closing);
        let Some(file) = files.find(|file| file.id == id) else { return Ok(()) };
        let syncing = file.attached.syncing.take();
        if let Err(error) = completion.result {
            return Err(format!("cannot sync {}: {error}", file.path.display()));
        }
        if let Some(Syncing { durable, bytes, since_ns }) = syncing {
            self.state.sync.took(self.now_ns.saturating_sub(since_ns));
            file.attached.durable_bytes = bytes;
            if let Some(mark) = self.marks.iter_mut().find(|mark| mark.id == id) {
                mark.durable = durable;
            }
        }
        self.publish();
        Ok(())
    }

    fn finished(&mut self, id: StoreFile, completion: Completion) -> Result<(), String> {
        let index = self.files.closing.iter().position(|file| file.id == id);
        let file = self.files.closing.swap_remove(index.expect("a finished file was closing"));
        if let Err(error) = completion.result {
            let reason = format!("cannot close {}: {error}", file.path.display());
            self.files.closing.push(file);
            return Err(reason);
        }
        self.state.sync.took(self.now_ns.saturating_sub(file.attached.finishing_ns));
        self.list(&FileListLine::Closed { index: file.index, bytes: completion.bytes });
        if let Some(mark) = self.marks.iter_mut().find(|mark| mark.id == id) {
            (mark.durable, mark.is_closed) = (mark.recorded, true);
        }
        self.publish();
        Ok(())
    }

    /// Says what is durable: everything up to the first file of which not all is.
    fn publish(&mut self) {
        let mut durable = None;
        while let Some(oldest) = self.marks.front() {
            durable = Some(oldest.durable);
            if !oldest.is_closed {
                break;
            }
            self.marks.pop_front();
        }
        if let Some(durable) = durable {
            self.state.durable.fetch_max(durable, Release);
        }
    }

    /// Syncs, writes checkpoints, and requests the next file ahead.
    fn look_after_files(&mut self) {
        if self.end != End::No || self.files.current.is_none() {
            return;
        }
        let is_due = self.now_ns.saturating_sub(self.synced_ns) >= self.sync_interval_ns;
        let Some(file) = &mut self.files.current else { return };
        let mark = self.marks.back().filter(|mark| mark.recorded > mark.durable);
        if let Some(recorded) = mark.filter(|_| is_due).map(|mark| mark.recorded)
            && file.attached.syncing.is_none()
        {
            let id = file.id;
            let (bytes, since_ns) = (file.recorded_end, self.now_ns);
            file.attached.syncing = Some(Syncing { durable: recorded, bytes, since_ns });
            self.synced_ns = self.now_ns;
            if !self.files.sync(id) {
                // Too many are under way: the next one covers this one, too.
                self.files.file(id).attached.syncing = None;
            }
        }
        let is_copying = self.is_copying();
        let Some(file) = &mut self.files.current else { return };
        let at_rest = file.end == file.recorded_end && !is_copying;
        if at_rest && file.header_recorded && file.checkpoint_due(self.now_ns, false) {
            let frames = file.attached.frames.clone();
            file.set_frames_ledger(&frames);
            let total = self.total();
            self.files.begin_checkpoint(&total, self.now_ns);
        }
    }

    fn is_copying(&self) -> bool {
        self.frame.as_ref().is_some_and(|(_, column)| column.is_some())
    }

    /// The sum of the stream's frames, as it is once what states it is durable.
    fn total(&self) -> Ledger {
        let mut total = self.ledger.clone();
        for source in &mut total.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        total
    }

    fn begin_toc(&mut self, id: StoreFile) {
        let total = self.total();
        let run_ended = matches!(self.end, End::Closing(Some(_)));
        let file = self.files.file(id);
        file.toc_begun = true;
        let frames = file.attached.frames.clone();
        file.set_frames_ledger(&frames);
        self.files.begin_toc(id, &total, TocFlags { run_ended, ..TocFlags::of_total(&total) });
    }

    fn list(&mut self, line: &FileListLine) {
        let path = self.folder.join(FILE_LIST_NAME);
        let run = FileListLine::Run(catchment_model::RunId(self.state.key.run));
        self.files.store(0).append_text(&path, &run.encode(), &line.encode());
    }

    fn begin_end(&mut self, number: Option<u64>) {
        self.end = End::Closing(number);
        self.files.leave();
        if self.asked.take().is_some() {
            self.files.store(0).discard_opened();
        }
    }

    fn go_on_ending(&mut self) -> Step {
        match self.end {
            End::Closing(_) if !self.files.closing.is_empty() => return Step::Wait,
            End::Closing(number) => {
                if number.is_some() && self.next_index > 0 {
                    self.list(&FileListLine::Ended { files: self.next_index });
                }
                self.end = End::Listing(number);
            }
            End::Listing(_) if self.files.store(0).text_under_way() => return Step::Wait,
            End::Listing(number) => {
                // Without its list a run can be read, but a missing file is not noticed.
                *self.state.trouble.lock() = self.files.store(0).take_text_error();
                if let Some(number) = number {
                    self.state.has_ended.store(true, Relaxed);
                    self.state.durable.fetch_max(number + 1, Release);
                }
                return Step::Ended;
            }
            End::No => {}
        }
        Step::Done
    }

    /// What is durable of the files that are open.
    fn fault(&self, reason: String) -> Fault {
        let files = self.files.current.iter().chain(&self.files.closing);
        let cuts = files.map(|file| (file.path.clone(), file.attached.durable_bytes)).collect();
        Fault { reason, cuts }
    }
}

impl<S: FolderStore> Agent for Writer<S> {
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        let mut budget = CYCLE_BYTES;
        let mut done = self.files.poll() as u64;
        loop {
            match self.step(&mut budget) {
                Ok(Step::Done) => {
                    done += 1;
                    budget = budget.saturating_sub(STEP_BYTES);
                    if budget == 0 {
                        return Work::again(done);
                    }
                }
                Ok(Step::Budget) => return Work::again(done + 1),
                Ok(Step::Ended) => return Work::ended(),
                Ok(Step::Wait) => {
                    // Submits what was accepted since the last call.
                    return match self.files.poll() as u64 {
                        0 => Work::until(done, now_ns + IDLE_NS),
                        more => Work::again(done + more),
                    };
                }
                Err(reason) => {
                    *self.state.fault.lock() = Some(self.fault(reason));
                    return Work::ended();
                }
            }
        }
    }
}

/// The longest time to the next cycle while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// Bytes copied in one cycle, and the cost of a step in bytes.
const CYCLE_BYTES: usize = 4 << 20;
const STEP_BYTES: usize = 16 << 10;
/// How long after a file could not be made the next is tried.
const RETRY_NS: u64 = 1_000_000_000;
/// What must be free for a file.
const ROOM_BYTES: u64 = 64 << 20;
