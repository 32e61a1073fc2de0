//! The agent of a stream: from whole frames to its files.
//!
//! A file is made when a frame needs it, in the folder that is best then, left when it is large
//! enough or when its disk answers no more, and closed with its table of contents. What is recorded
//! becomes durable with the next sync of its file, or when it is closed; the stream is durable up
//! to the first file of which that does not hold.
//!
//! The agent ends at the first fault of a write, a sync or a close, and says which bytes of its
//! files are durable: the node cuts them there, and begins again. A file that can be made in no
//! folder is tried again each second, and frames wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use catchment_agent::{
    Agent, Completion, CompletionKind, Entropy, FileEnd, FolderStore, NewFile, OpenError, Work,
};
use catchment_frame::{DealtPart, FILE_LIST_NAME, FileHeader, FileListLine, TocFlags};
use catchment_model::{Entry, Ledger};
use catchment_writer::{
    Disks, Ended, FileParts, FrameFile, FrameFiles, HeaderOrder, JobKind, STALL_NS, StoreFile,
    StoredColumn,
};
use crossbeam_channel::{Receiver, TryRecvError};

use crate::disk_watch::DiskWatch;
use crate::items::{Item, StoredFrame};
use crate::marks::{Marks, Remains, Syncing};
use crate::state::{Durable, Fault, FolderState, StreamState};

/// What a writer is made of.
pub(crate) struct WriterParts<S> {
    /// By folder; one above the index of its last file.
    pub(crate) stores: Vec<S>,
    pub(crate) disks: Disks,
    pub(crate) listed: Vec<u32>,
    pub(crate) folders: Vec<Arc<FolderState>>,
    /// Whether the stream may have files in several folders.
    pub(crate) is_spread: bool,
    pub(crate) input: Receiver<Item>,
    pub(crate) state: Arc<StreamState>,
    pub(crate) entropy: Box<dyn Entropy>,
    /// The number of its first file.
    pub(crate) next_index: u32,
    /// Whether there are files, of which the last one does not say that the run has ended.
    pub(crate) lacks_end: bool,
    /// The sum of the frames before.
    pub(crate) ledger: Ledger,
    pub(crate) buffer_bytes: usize,
    pub(crate) file_bytes: u64,
    /// When a sync begins: so long after the last one, and after so many bytes.
    pub(crate) sync_interval_ns: u64,
    pub(crate) sync_bytes: u64,
}

/// The agent's state.
pub(crate) struct Writer<S: FolderStore> {
    now_ns: u64,
    pub(crate) files: FrameFiles<S, Tag, Attached>,
    input: Receiver<Item>,
    pub(crate) state: Arc<StreamState>,
    entropy: Box<dyn Entropy>,
    disks: Disks,
    is_spread: bool,
    watch: DiskWatch,
    /// By folder, one above the index of its last file.
    listed: Vec<u32>,
    /// By folder, whether something that is durable is there.
    has_durable: Vec<bool>,
    folders: Vec<Arc<FolderState>>,
    file_bytes: u64,
    sync_interval_ns: u64,
    sync_bytes: u64,
    synced_ns: u64,
    /// When the last frame was written.
    recorded_ns: u64,
    header: Option<Box<FileHeader>>,
    /// The number of the last frame.
    last_number: Option<u64>,
    next_index: u32,
    /// The file that was requested.
    asked: Option<Asked>,
    retry_at_ns: u64,
    /// The frame that waits for a file, or is being copied: with the index of its column, once it
    /// was begun.
    frame: Option<(Box<StoredFrame>, Option<usize>)>,
    marks: Marks,
    ledger: Ledger,
    /// Whether the newest file is closed, or being closed, as one behind which others come.
    lacks_end: bool,
    end: End,
}

/// A file that was requested.
#[derive(Clone, Copy)]
struct Asked {
    index: u32,
    disk: usize,
    since_ns: u64,
}

/// What failed, on which disk.
struct Failed {
    disk: usize,
    reason: String,
}

pub(crate) struct Tag {
    end: u64,
    taken_ns: u64,
    ledger: Ledger,
}

pub(crate) struct Attached {
    /// The sum of what its frames count.
    frames: Ledger,
    syncing: Option<Syncing>,
    /// Bytes of recorded frames that no sync covers yet.
    unsynced_bytes: u64,
    /// When its end was ordered.
    finishing_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Frames may come.
    No,
    /// A file without frames is made, which says that the stream has ended with that item: those
    /// before it were closed when frames could still come.
    Marking(u64),
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
            has_durable: parts.listed.iter().map(|&files| files > 0).collect(),
            listed: parts.listed,
            folders: parts.folders,
            files: FrameFiles::new(parts.stores, parts.buffer_bytes, HeaderOrder::Last),
            input: parts.input,
            state: parts.state,
            entropy: parts.entropy,
            disks: parts.disks,
            is_spread: parts.is_spread,
            watch: DiskWatch::default(),
            file_bytes: parts.file_bytes,
            sync_interval_ns: parts.sync_interval_ns,
            sync_bytes: parts.sync_bytes,
            synced_ns: 0,
            recorded_ns: 0,
            header: None,
            last_number: None,
            next_index: parts.next_index,
            asked: None,
            retry_at_ns: 0,
            frame: None,
            marks: Marks::new(parts.ledger.clone()),
            ledger: parts.ledger,
            lacks_end: parts.lacks_end,
            end: End::No,
        }
    }

    fn step(&mut self, budget: &mut usize) -> Result<Step, Failed> {
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
            if column.is_none() && self.gives_up() {
                while self.input.try_recv().is_ok() {}
                self.begin_end(None);
                return Ok(Step::Done);
            }
            return self.copy(frame, column, budget);
        }
        if self.end != End::No {
            return self.go_on_ending();
        }
        match self.input.try_recv() {
            Ok(Item::Header(header)) => {
                if self.ledger.sources.is_empty() {
                    self.ledger = Ledger::new(header.schema.sources.len());
                    self.marks.set_empty(self.ledger.clone());
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

    /// Whether frames that no folder takes are dropped, since the stream is closed: they are not
    /// durable, so that their sender has them.
    fn gives_up(&self) -> bool {
        self.state.input_has_ended.load(Relaxed) && self.state.trouble.lock().is_some()
    }

    /// Goes on with a frame: waits for a file, then copies its columns.
    fn copy(
        &mut self,
        frame: Box<StoredFrame>,
        column: Option<usize>,
        budget: &mut usize,
    ) -> Result<Step, Failed> {
        let Some(index) = column else {
            let is_ready = self.has_file(&frame)? && !self.files.has_pages();
            if is_ready {
                self.last_number = Some(frame.info.sequence);
                self.files.begin(frame.info, frame.columns.len());
            }
            self.frame = Some((frame, is_ready.then_some(0)));
            return Ok(if is_ready || self.files.has_pages() { Step::Done } else { Step::Wait });
        };
        let Some(next) = frame.columns.get(index) else {
            let tag =
                Tag { end: frame.end, taken_ns: frame.taken_ns, ledger: frame.ledger.clone() };
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

    /// Whether there is a file for the next frame. A file that is large enough is left for the
    /// next, as is one with higher numbers.
    fn has_file(&mut self, next: &StoredFrame) -> Result<bool, Failed> {
        let is_full = |file: &FrameFile<Attached>| file.end >= self.file_bytes;
        if self.last_number.take_if(|last| next.info.sequence < *last).is_some() {
            self.files.leave();
        }
        if self.files.current.as_ref().is_some_and(|file| !is_full(file)) {
            return Ok(true);
        }
        self.next_file(next.end.saturating_sub(1))
    }

    /// Whether there is a file for that item: the next one, which is requested, and taken once it
    /// is made, or while none can be made the current one.
    fn next_file(&mut self, item: u64) -> Result<bool, Failed> {
        let Asked { index, disk, since_ns } = match self.asked {
            Some(asked) => asked,
            // Until the next one can be made, frames go on in this one.
            None if self.now_ns < self.retry_at_ns => return Ok(self.files.current.is_some()),
            None => self.ask(),
        };
        let Some(opened) = self.files.store(disk).take_opened() else {
            let is_late = self.now_ns.saturating_sub(since_ns) >= STALL_NS;
            let folder = self.disks.folder(disk).display();
            let reason = format!("no file was made in {folder} within a second");
            if is_late && self.disks.leave(disk, &reason, self.now_ns) {
                self.files.store(disk).discard_opened();
                self.asked = None;
                self.makes_none(disk, reason);
            }
            return Ok(false);
        };
        self.asked = None;
        match opened {
            Ok(id) => {
                self.files.leave();
                self.begin_file(StoreFile { store: disk, id }, index, item)?;
                *self.state.trouble.lock() = None;
                self.folders[disk].makes_files();
                Ok(true)
            }
            // Left over from a file that failed and could not be deleted.
            Err(OpenError::Exists { .. }) if index < u32::MAX => {
                self.next_index = index + 1;
                self.next_file(item)
            }
            Err(error) => {
                let reason = error.to_string();
                let is_left = self.disks.leave(disk, &reason, self.now_ns);
                self.makes_none(disk, reason);
                if is_left {
                    return self.next_file(item);
                }
                self.retry_at_ns = self.now_ns + RETRY_NS;
                Ok(self.files.current.is_some())
            }
        }
    }

    /// No file can be made in a folder. The stream goes on in the file that it has, or waits.
    fn makes_none(&self, disk: usize, reason: String) {
        self.folders[disk].makes_none(&reason);
        if self.files.current.is_none() {
            *self.state.trouble.lock() = Some(reason);
        }
    }

    /// Requests the next file, in the folder that is best now.
    fn ask(&mut self) -> Asked {
        let (index, disk) = (self.next_index, self.disks.choose(self.now_ns));
        // A file without frames reserves no room; the disk's reserve holds it.
        let room_bytes = if self.end == End::No { ROOM_BYTES } else { 0 };
        let path = self.path(disk, index);
        self.files.store(disk).open(NewFile { path, room_bytes });
        let asked = Asked { index, disk, since_ns: self.now_ns };
        self.asked = Some(asked);
        asked
    }

    fn begin_file(&mut self, id: StoreFile, index: u32, item: u64) -> Result<(), Failed> {
        let failed = |reason| Failed { disk: id.store, reason };
        let no_header = || failed("a frame came before the header of its file".to_owned());
        let header = self.header.as_ref().ok_or_else(no_header)?;
        let no_bits = |error| failed(format!("cannot get random bits: {error}"));
        let file_id = self.entropy.random_u64().map_err(no_bits)?;
        // What stands in several folders is of one place, as are the parts of a target.
        let target = header.target.clone();
        let target = target.or_else(|| self.is_spread.then(|| TARGET.to_owned()));
        let created_ns = self.now_ns;
        let part = header.part.map(|part| DealtPart { first_item: item, ..part });
        let header =
            FileHeader { file_index: index, file_id, created_ns, target, part, ..*header.clone() };
        let frames = Ledger::new(header.schema.sources.len());
        let attached =
            Attached { frames: frames.clone(), syncing: None, unsynced_bytes: 0, finishing_ns: 0 };
        let path = self.path(id.store, index);
        let parts = FileParts { id, path: path.clone(), is_listed: true, attached };
        let (file, bytes) = FrameFile::begin(parts, &header, self.now_ns);
        let durable = self.state.durable.load(Relaxed);
        self.marks.begin(id, (index, path), frames, durable);
        (self.next_index, self.lacks_end) = (index + 1, false);
        self.files.begin_file(file, bytes);
        Ok(())
    }

    fn path(&self, disk: usize, index: u32) -> PathBuf {
        self.disks.folder(disk).join(format!("{}-{index:05}.catch", self.state.key.name))
    }

    /// Takes the figures of the disks, and leaves one of several that answers no more with the file
    /// that is being written there.
    fn look_at_disks(&mut self) {
        self.watch.look(&mut self.files, &mut self.disks, self.now_ns);
        let Some(disk) = self.files.current.as_ref().map(|file| file.id.store) else { return };
        if self.end != End::No || !self.disks.must_be_left(disk, self.now_ns) {
            return;
        }
        let folder = self.disks.folder(disk).display();
        let reason = format!("the disk of {folder} has completed nothing for a second");
        self.disks.leave(disk, &reason, self.now_ns);
        self.folders[disk].failed(&reason);
        *self.state.trouble.lock() = Some(reason);
        if let Some((_, column)) = &mut self.frame
            && column.take().is_some()
        {
            self.files.abandon_frame();
        }
        self.files.leave();
    }

    /// Says that a disk completes nothing, or no longer so, once all that has completed is known:
    /// the sender of a dealt stream gives its frames to other nodes meanwhile.
    fn look_for_a_hang(&mut self) {
        let making = self.asked.map(|asked| (asked.disk, asked.since_ns));
        let (disks, folders) = (&self.disks, &self.folders);
        if let Some(hang) = self.watch.hang_changed(disks, folders, making, self.now_ns) {
            *self.state.hang.lock() = hang;
        }
    }

    fn handle_completions(&mut self) -> Result<(), Failed> {
        for (store, completion) in self.files.take_others() {
            let id = StoreFile { store, id: completion.file };
            self.disks.completed(id, completion.kind);
            match completion.kind {
                CompletionKind::Write => unreachable!("writes are handled by the jobs"),
                CompletionKind::Sync => self.synced(id, completion)?,
                CompletionKind::Finished => self.finished(id, completion)?,
            }
        }
        while let Some(ended) = self.files.next_ended() {
            self.job_ended(ended)?;
        }
        let closing = self.files.closing.iter();
        let ready = closing.filter(|file| !file.toc_begun && file.header_recorded);
        for id in ready.map(|file| file.id).collect::<Vec<StoreFile>>() {
            if !self.files.is_busy_with(id) {
                self.begin_toc(id);
            }
        }
        Ok(())
    }

    fn job_ended(&mut self, Ended { file: id, kind, error }: Ended<Tag>) -> Result<(), Failed> {
        let file = self.files.file(id);
        if let Some(error) = error {
            let reason = format!("cannot write {}: {error}", file.path.display());
            return Err(Failed { disk: id.store, reason });
        }
        match kind {
            JobKind::Header => {
                file.header_recorded = true;
                let (index, file_id) = (file.index, file.file_id);
                self.listed[id.store] = self.listed[id.store].max(index + 1);
                self.list(id.store, &FileListLine::Begun { index, file_id });
            }
            JobKind::Frame(written, tag) => {
                file.recorded(&written);
                file.attached.frames.add(&tag.ledger);
                file.attached.unsynced_bytes += written.summary.frame_bytes;
                self.ledger.add(&tag.ledger);
                self.state.frames.fetch_add(1, Relaxed);
                let begun_ns = tag.taken_ns.max(self.recorded_ns);
                self.state.write.took(self.now_ns.saturating_sub(begun_ns));
                self.recorded_ns = self.now_ns;
                self.state.bytes.fetch_add(written.summary.frame_bytes, Relaxed);
                self.folders[id.store].bytes.fetch_add(written.summary.frame_bytes, Relaxed);
                self.marks.recorded(id, tag.end);
            }
            JobKind::Checkpoint(summary) => {
                file.checkpoint_ended(&summary);
                self.files.begin_locator(id, &summary);
            }
            JobKind::Toc { file_bytes } => {
                file.attached.finishing_ns = self.now_ns;
                self.disks.ordered(id, CompletionKind::Finished, self.now_ns);
                self.files.finish_file(id, FileEnd::Cut(file_bytes));
            }
            JobKind::Locator | JobKind::Abandoned => {}
        }
        Ok(())
    }

    fn synced(&mut self, id: StoreFile, completion: Completion) -> Result<(), Failed> {
        let mut files = self.files.current.iter_mut().chain(&mut self.files.closing);
        let Some(file) = files.find(|file| file.id == id) else { return Ok(()) };
        let syncing = file.attached.syncing.take();
        if let Err(error) = completion.result {
            let reason = format!("cannot sync {}: {error}", file.path.display());
            return Err(Failed { disk: id.store, reason });
        }
        self.folders[id.store].answers();
        if let Some(done) = syncing {
            self.state.sync.took(self.now_ns.saturating_sub(done.since_ns));
            self.marks.synced(id, done);
            self.has_durable[id.store] = true;
        }
        self.publish();
        Ok(())
    }

    fn finished(&mut self, id: StoreFile, completion: Completion) -> Result<(), Failed> {
        let index = self.files.closing.iter().position(|file| file.id == id);
        let file = self.files.closing.swap_remove(index.expect("a finished file was closing"));
        if let Err(error) = completion.result {
            let reason = format!("cannot close {}: {error}", file.path.display());
            return Err(Failed { disk: id.store, reason });
        }
        self.state.sync.took(self.now_ns.saturating_sub(file.attached.finishing_ns));
        self.list(id.store, &FileListLine::Closed { index: file.index, bytes: completion.bytes });
        self.disks.closed(id.store);
        self.state.closed(file.index, file.numbers);
        self.marks.closed(id, completion.bytes, file.attached.frames);
        self.has_durable[id.store] = true;
        self.publish();
        Ok(())
    }

    /// Says what is durable.
    fn publish(&mut self) {
        if let Some(durable) = self.marks.take_durable() {
            self.state.durable.fetch_max(durable, Release);
        }
    }

    /// Syncs, writes checkpoints, and requests the next file ahead.
    fn look_after_files(&mut self) {
        if self.end != End::No || self.files.current.is_none() {
            return;
        }
        let Some(file) = &mut self.files.current else { return };
        let is_due = self.now_ns.saturating_sub(self.synced_ns) >= self.sync_interval_ns
            || file.attached.unsynced_bytes >= self.sync_bytes;
        if let Some(recorded) = self.marks.not_durable().filter(|_| is_due)
            && file.attached.syncing.is_none()
        {
            let (id, bytes, since_ns) = (file.id, file.recorded_end, self.now_ns);
            let frames = file.attached.frames.clone();
            let syncing = Syncing { durable: recorded, bytes, frames, since_ns };
            self.synced_ns = self.now_ns;
            // If too many are under way, the next one covers this one, too.
            if self.files.sync(id) {
                let attached = &mut self.files.file(id).attached;
                (attached.syncing, attached.unsynced_bytes) = (Some(syncing), 0);
                self.disks.ordered(id, CompletionKind::Sync, self.now_ns);
            }
        }
        let is_copying = self.frame.as_ref().is_some_and(|(_, column)| column.is_some());
        let Some(file) = &mut self.files.current else { return };
        let at_rest = file.end == file.recorded_end && !is_copying;
        if at_rest && file.header_recorded && file.checkpoint_due(self.now_ns, false) {
            let frames = file.attached.frames.clone();
            file.set_frames_ledger(&frames);
            let total = self.total();
            self.files.begin_checkpoint(&total, self.now_ns);
        }
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
        if self.marks.is_newest(id) {
            self.lacks_end = !run_ended;
        }
        let file = self.files.file(id);
        file.toc_begun = true;
        let frames = file.attached.frames.clone();
        file.set_frames_ledger(&frames);
        self.files.begin_toc(id, &total, TocFlags { run_ended, ..TocFlags::of_total(&total) });
    }

    fn list(&mut self, disk: usize, line: &FileListLine) {
        let path = self.disks.folder(disk).join(FILE_LIST_NAME);
        let run = FileListLine::Run(catchment_model::RunId(self.state.key.run));
        self.files.store(disk).append_text(&path, &run.encode(), &line.encode());
    }

    fn begin_end(&mut self, number: Option<u64>) {
        self.files.leave();
        if let Some(asked) = self.asked.take() {
            self.files.store(asked.disk).discard_opened();
        }
        // Without a header there is no such file: its sender had no frame to say it before.
        let is_marked = self.lacks_end && self.header.is_some();
        self.end = match number {
            Some(number) if is_marked => End::Marking(number),
            number => End::Closing(number),
        };
    }

    fn go_on_ending(&mut self) -> Result<Step, Failed> {
        let mut stores = 0..self.files.stores();
        let is_removing = stores.clone().any(|disk| self.files.store(disk).is_removing());
        match self.end {
            End::Marking(_) if self.gives_up() => self.begin_end(None),
            End::Marking(number) => {
                if !self.next_file(number)? {
                    return Ok(Step::Wait);
                }
                self.begin_end(Some(number));
            }
            End::Closing(_) if is_removing || !self.files.closing.is_empty() => {
                return Ok(Step::Wait);
            }
            End::Closing(number) => {
                for disk in stores {
                    let files = self.listed[disk];
                    if number.is_some() && files > 0 {
                        self.list(disk, &FileListLine::Ended { files });
                    }
                }
                self.end = End::Listing(number);
            }
            End::Listing(number) => {
                if stores.clone().any(|disk| self.files.store(disk).text_under_way()) {
                    return Ok(Step::Wait);
                }
                // Without its list a run can be read, but a missing file is not noticed.
                let error = stores.find_map(|disk| self.files.store(disk).take_text_error());
                *self.state.trouble.lock() = error;
                if let Some(number) = number {
                    self.state.has_ended.store(true, Relaxed);
                    self.state.durable.fetch_max(number + 1, Release);
                }
                return Ok(Step::Ended);
            }
            End::No => {}
        }
        Ok(Step::Done)
    }

    /// It ends, or its thread has panicked: what it leaves is known to whoever goes on. Returns the
    /// files of which not all is durable, as a fault does.
    pub(crate) fn leave(&self) -> Vec<(PathBuf, u64)> {
        let Remains { cuts, ledger, next_index } = self.marks.remains(self.next_index);
        let folders = (0..self.has_durable.len()).filter(|&disk| self.has_durable[disk]);
        let folders = folders.map(|disk| self.disks.folder(disk).to_owned()).collect();
        let sequence = self.state.durable.load(Relaxed);
        *self.state.at_end.lock() = Some(Durable { folders, sequence, next_index, ledger });
        cuts
    }

    fn fail(&self, Failed { disk, reason }: Failed) {
        self.folders[disk].failed(&reason);
        let (cuts, folder) = (self.leave(), Some(self.disks.folder(disk).to_owned()));
        *self.state.fault.lock() = Some(Fault { reason, cuts, folder });
    }
}

impl<S: FolderStore> Agent for Writer<S> {
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        let mut budget = CYCLE_BYTES;
        let mut done = self.files.poll() as u64;
        self.look_at_disks();
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
                Ok(Step::Ended) => {
                    self.look_for_a_hang();
                    self.leave();
                    return Work::ended();
                }
                Ok(Step::Wait) => {
                    self.look_for_a_hang();
                    // Submits what was accepted since the last call.
                    return match self.files.poll() as u64 {
                        0 => Work::until(done, now_ns + IDLE_NS),
                        more => Work::again(done + more),
                    };
                }
                Err(failed) => {
                    self.fail(failed);
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
pub(crate) const ROOM_BYTES: u64 = 64 << 20;
/// The name of a node's place in files that stand in several folders.
const TARGET: &str = "store";

#[cfg(test)]
pub(crate) mod tests;
