//! The files of a run as they are written: the current one, those that are being closed, the next
//! one, and what becomes of all of them when the disk is slow, full, broken or gone.
//!
//! Frames are streamed into the current file by their owner, between [`RunFiles::begin_frame`] and
//! [`RunFiles::end_frame`]; meanwhile no file is changed.

use std::collections::VecDeque;
use std::sync::Arc;

use catchment_agent::{Completion, CompletionKind, FileEnd, FileId, Presence, Store};
use catchment_frame::Schema;
use catchment_model::{Entry, Ledger, SourceId};

use crate::config::RecorderConfig;
use crate::file::{Begun, FileMaker, FirstFile, FrameJob, JobKind, OpenFile, RunIdentity};
use crate::frame_writer::{FrameIdentity, SourceCounts};
use crate::jobs::{Job, Jobs, Stream};
use crate::live::{Live, State};

/// How long recording stays in fault before the next file is tried.
const RETRY_NS: u64 = 1_000_000_000;
/// How often the run's last frame, or a file's table of contents, is tried.
const TRIES_MAX: u32 = 3;
/// How often the disk is looked at.
const LOOK_NS: u64 = 1_000_000_000;

/// The files of a run, and what is under way in them.
pub(crate) struct RunFiles<S: Store> {
    now_ns: u64,
    live: Arc<Live>,
    pub(crate) jobs: Jobs<S, JobKind>,
    /// Headers, checkpoints and tables of contents that are to be streamed, in their order.
    pages: VecDeque<Page<S::Buffer>>,
    maker: FileMaker,
    current: Option<OpenFile>,
    /// The next file is being made.
    opening: Option<Opening>,
    /// Files that get no more frames, until they are finished.
    closing: Vec<OpenFile>,
    look: Look,
    sequence: u64,
    /// Increments of frames that were not recorded, for the next frame.
    carried: Ledger,
    frame_bytes: u64,
    looked_ns: u64,
    file_bytes_max: u64,
    file_time_ns: Option<u64>,
    retry_at_ns: u64,
    end: End,
    /// How often the last frame was tried.
    last_frames: u32,
}

/// Bytes of a job other than a frame, and how many of them were streamed.
struct Page<B> {
    stream: Stream<B>,
    bytes: Vec<u8>,
    streamed: usize,
    kind: JobKind,
}

/// Why a file is being made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// The one before was left, as planned.
    Next,
    /// Recording is in fault.
    Retry,
}

/// A look at the disk with nothing being written, which a decision waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    None,
    /// Something is being written.
    Jobs,
    /// A look from before is under way.
    Old,
    Fresh,
}

/// How far the run's end is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Frames may come.
    No,
    /// The last look at the disk.
    Looking,
    /// Without a file, a last one is tried.
    Opening,
    /// What the ledger has counted since the last frame goes into one.
    LastFrame,
    /// Files are being closed.
    Closing,
    /// The list of files is being ended.
    Listing,
}

/// What the run's end needs next.
pub(crate) enum Ending {
    Again,
    /// Something is under way.
    Wait,
    /// The last frame, with what the ledger has counted since the one before.
    LastFrame,
    /// Nothing: the run has ended.
    Ended,
}

/// What becomes of a frame.
pub(crate) enum Admission {
    /// It is begun now.
    Begin,
    /// There is no file for it.
    Refused,
    /// That is not known yet.
    Wait,
}

impl<S: Store> RunFiles<S> {
    /// Begins the run's first file.
    ///
    /// # Errors
    /// There are no random bits for its identity.
    pub(crate) fn new(
        config: &RecorderConfig,
        schema: Schema,
        identity: RunIdentity,
        first: FirstFile<S>,
        live: &Arc<Live>,
        now_ns: u64,
    ) -> Result<Self, String> {
        let mut files = Self {
            now_ns,
            live: Arc::clone(live),
            jobs: Jobs::new(first.store, config.write.buffer_bytes),
            pages: VecDeque::new(),
            maker: FileMaker::new(config, identity, schema, first.entropy),
            current: None,
            opening: None,
            closing: Vec::new(),
            look: Look::None,
            sequence: 0,
            carried: Ledger::new(config.ledger_count()),
            frame_bytes: config.frame_bytes_max(),
            looked_ns: 0,
            file_bytes_max: config.write.file_bytes,
            file_time_ns: config.write.file_time_ns,
            retry_at_ns: 0,
            end: End::No,
            last_frames: 0,
        };
        let begun = files.maker.begin_first(first.id, now_ns)?;
        files.begin_file(begun);
        Ok(files)
    }

    /// Takes up what the store has done since, and hands on what it was asked for; how much came.
    pub(crate) fn poll(&mut self, now_ns: u64) -> u64 {
        self.now_ns = now_ns;
        self.jobs.poll() as u64
    }

    /// Whether headers, checkpoints or tables of contents are to be streamed before any frame.
    pub(crate) fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Streams a header, a checkpoint or a table of contents, as far as there are buffers and the
    /// budget of bytes lasts; true when it is streamed.
    pub(crate) fn stream_page(&mut self, budget: &mut usize) -> bool {
        let Some(page) = self.pages.front_mut() else { return true };
        let rest = &page.bytes[page.streamed..];
        let now = &rest[..rest.len().min(*budget)];
        let streamed = self.jobs.append(&mut page.stream, now);
        page.streamed += streamed;
        *budget -= streamed;
        let whole = page.streamed == page.bytes.len();
        if whole && let Some(Page { stream, kind, .. }) = self.pages.pop_front() {
            self.jobs.finish(stream, kind);
        }
        whole
    }

    fn put_page(&mut self, file: FileId, offset: u64, bytes: Vec<u8>, kind: JobKind) {
        let stream = self.jobs.begin(file, offset);
        self.pages.push_back(Page { stream, bytes, streamed: 0, kind });
    }

    /// What becomes of a frame of at most so many bytes. `looked_for` is the file for which the
    /// disk was looked at.
    pub(crate) fn admit(&mut self, frame_bytes: u64, looked_for: &mut Option<FileId>) -> Admission {
        let overdue = |file: &OpenFile| file.checkpoint_due(self.now_ns, true);
        if self.current.as_ref().is_some_and(overdue) && self.end == End::No {
            // Frames came so fast that one was always being written.
            if self.jobs.oldest().is_some() || self.checkpoint_if_due(true) {
                return Admission::Wait;
            }
        }
        match self.find_room(frame_bytes, looked_for) {
            false => Admission::Wait,
            true if self.current.is_some() => Admission::Begin,
            true if self.opening.is_some() => Admission::Wait,
            true => Admission::Refused,
        }
    }

    /// Begins a frame that was admitted: its stream, where that goes, and which frame it is.
    ///
    /// # Panics
    /// There is no file.
    pub(crate) fn begin_frame(&mut self) -> (Stream<S::Buffer>, u64, FrameIdentity) {
        let file = self.current.as_ref().expect("the frame was admitted");
        let identity = FrameIdentity { file_id: file.file_id, sequence: self.sequence };
        self.sequence += 1;
        (self.jobs.begin(file.id, file.end), file.end, identity)
    }

    /// A frame was streamed to its end.
    pub(crate) fn end_frame(&mut self, stream: Stream<S::Buffer>, job: FrameJob) {
        let file = self.current.as_mut().expect("no file is left while a frame is streamed");
        file.end += job.written.summary.frame_bytes;
        let nearly_full = file.end + 2 * self.frame_bytes >= self.file_bytes_max;
        self.jobs.finish(stream, JobKind::Frame(Box::new(job)));
        if nearly_full {
            self.maker.open_ahead(&mut self.jobs.store);
        }
    }

    /// Increments of frames that were not recorded, which no frame has taken up.
    pub(crate) fn carried(&self) -> &Ledger {
        &self.carried
    }

    /// As [`RunFiles::carried`], for the next frame.
    pub(crate) fn take_carried(&mut self) -> Ledger {
        let none = Ledger::new(self.carried.sources.len());
        std::mem::replace(&mut self.carried, none)
    }

    /// Sees to it that the current file can take a frame of so many bytes: where the disk has no
    /// room for it, the file made ahead becomes the current one, or there is none. False while the
    /// disk is being looked at, which is done once for each file.
    fn find_room(&mut self, frame_bytes: u64, looked_for: &mut Option<FileId>) -> bool {
        loop {
            if !self.advance_look() {
                return false;
            }
            let Some(file) = self.current.as_ref().filter(|_| self.end == End::No) else {
                return true;
            };
            let (id, end, toc_bytes) = (file.id, file.end + frame_bytes, file.toc_bytes());
            let needed = end.saturating_sub(self.jobs.store.blocks_bytes(id));
            let spare = self.jobs.store.spare_bytes();
            let Some(spare) = spare.filter(|&spare| needed > 0 && spare < needed + toc_bytes)
            else {
                return true;
            };
            if looked_for.replace(id) != Some(id) {
                // What is known may be old, or count twice what is being written.
                self.look = Look::Jobs;
                continue;
            }
            self.closing.extend(self.current.take());
            if !self.use_ahead(frame_bytes) {
                self.fault(self.maker.full(needed, spare));
            }
        }
    }

    /// Goes on in the file made ahead, if it has blocks for so many bytes.
    fn use_ahead(&mut self, bytes: u64) -> bool {
        if self.maker.has_ahead(&self.jobs.store, bytes)
            && let Some(Ok(next)) = self.maker.next(&mut self.jobs.store, 0, self.now_ns)
        {
            self.begin_file(next);
        }
        self.current.is_some()
    }

    fn begin_file(&mut self, Begun { file, header }: Begun) {
        assert!(self.current.is_none(), "one file at a time gets frames");
        // Where a write failed, the file can be taken before `take_opened` finds it.
        self.opening = None;
        self.live.add_file(file.path.clone());
        self.put_page(file.id, 0, header, JobKind::Header);
        self.current = Some(file);
    }

    /// Goes on with the look at the disk that something waits for; true when there is none.
    fn advance_look(&mut self) -> bool {
        let Some(file) = &self.current else {
            self.look = Look::None;
            return true;
        };
        if self.look == Look::Jobs && self.jobs.oldest().is_none() {
            self.look = Look::Old;
        }
        let store = &mut self.jobs.store;
        if self.look == Look::Old && !store.is_looking() {
            store.look(file.id);
            self.look = Look::Fresh;
        }
        if self.look == Look::Fresh && !store.is_looking() {
            self.look = Look::None;
        }
        self.look == Look::None
    }

    /// Has the disk looked at now and then; leaves a file that is gone.
    fn look_if_due(&mut self) {
        let Some(file) = &self.current else { return };
        let id = file.id;
        match self.jobs.store.presence(id) {
            Presence::There => {}
            presence => return self.leave(presence),
        }
        if self.now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = self.now_ns;
            self.jobs.store.look(id);
        }
    }

    /// Leaves the current file, which is gone: what was recorded in files that were removed is
    /// lost, and counted; so is what comes until there is another one.
    fn leave(&mut self, presence: Presence) {
        let Some(mut file) = self.current.take() else { return };
        (file.failed, file.gone) = (true, true);
        let path = file.path.display();
        let reason = match presence {
            Presence::Removed { .. } => format!("{path} was removed while it was being written"),
            _ => format!("{path} is gone: it was moved, or its disk was unmounted"),
        };
        if let Presence::Removed { others } = presence {
            for (source, &own) in (0..).map(SourceId).zip(file.fragments()) {
                let ledger = &self.live.ledger;
                let all = ledger.read(source, Entry::FragmentsRecorded)
                    - ledger.read(source, Entry::FragmentsRemoved);
                let removed = if others { own } else { all };
                ledger.add(source, Entry::FragmentsRemoved, removed);
            }
        }
        // It was made in the same folder.
        self.maker.discard_ahead(&mut self.jobs.store);
        self.closing.push(file);
        self.fault(reason);
    }

    /// Takes up what the disk has done, and does what is due.
    pub(crate) fn look_after_disk(&mut self) {
        self.handle_completions();
        self.take_opened();
        if self.end != End::No {
            return;
        }
        if self.jobs.store.sync_due(self.now_ns) {
            self.sync();
        }
        self.look_if_due();
        self.switch_if_due();
        self.checkpoint_if_due(false);
        let idle = self.current.is_none() && self.opening.is_none();
        if idle && self.now_ns >= self.retry_at_ns {
            self.retry();
        }
    }

    fn handle_completions(&mut self) {
        for completion in self.jobs.take_others() {
            match completion.kind {
                CompletionKind::Write => unreachable!("writes are handled by the jobs"),
                CompletionKind::Sync => self.synced(&completion),
                CompletionKind::Finished => self.finished(&completion),
            }
        }
        while self.jobs.oldest().is_some_and(Job::ended) {
            let job = self.jobs.take_oldest().expect("just seen");
            self.job_ended(job);
        }
        let mut index = 0;
        while index < self.closing.len() {
            let file = &self.closing[index];
            // In fault, a file waits for the next one or for the run's end: should there be no next
            // one, it gets the run's last increments.
            let last = file.header_recorded && self.current.is_none();
            let ready = !file.toc_begun && (!last || self.is_ending());
            if ready && !self.jobs.any_of(file.id) {
                self.begin_toc(index);
            }
            index += 1;
        }
    }

    /// Writes a checkpoint if it is time for one and all frames have been written: it lists all
    /// that stand before it. True if it was begun.
    fn checkpoint_if_due(&mut self, late: bool) -> bool {
        let may_follow = self.end == End::No;
        let Some(file) = &mut self.current else { return false };
        let at_rest = file.end == file.recorded_end;
        if !may_follow || !at_rest || !file.checkpoint_due(self.now_ns, late) {
            return false;
        }
        let ledger = self.live.ledger.snapshot();
        let (id, start) = (file.id, file.end);
        let (bytes, summary) = file.encode_checkpoint(self.sequence, &ledger, self.now_ns);
        self.put_page(id, start, bytes, JobKind::Checkpoint(summary));
        true
    }

    /// A job has ended, and all older ones have.
    fn job_ended(&mut self, job: Job<S::Buffer, JobKind>) {
        if let Some(error) = &job.error {
            self.fail(job.file, error);
        }
        let mut files = self.closing.iter_mut().chain(&mut self.current);
        let file = files.find(|file| file.id == job.file).expect("a job's file is open");
        match job.kind.expect("an ended job") {
            JobKind::Header => {
                file.header_recorded = !file.failed;
                if file.header_recorded {
                    self.maker.list_begun(&mut self.jobs.store, file);
                }
            }
            JobKind::Frame(frame) if file.failed => {
                self.carried.add(&frame.increment);
                if self.current.as_ref().is_none_or(|file| !file.has_frames()) {
                    // Nothing newer was begun: the next frame takes its number.
                    let number = frame.written.summary.info.sequence;
                    self.sequence = self.sequence.min(number);
                }
                self.discard(&frame.counts, Entry::FragmentsDiscardedDisk);
            }
            JobKind::Frame(frame) => {
                file.recorded(&frame);
                self.live.count_recorded(&frame);
            }
            JobKind::Checkpoint(summary) => {
                file.checkpoint_ended(&summary);
                if !file.failed {
                    let (offset, locator) = file.encode_locator(&summary);
                    self.put_page(job.file, offset, locator.to_vec(), JobKind::Locator);
                }
            }
            JobKind::Locator => {}
            JobKind::Toc { .. } if job.error.is_some() && file.tocs < TRIES_MAX => {
                file.toc_begun = false;
            }
            JobKind::Toc { file_bytes } => {
                // Without its TOC the file is one that a killed writer left: readable, and repair
                // can close it.
                let end = if job.error.is_some() { file.recorded_end } else { file_bytes };
                self.jobs.store.finish(job.file, FileEnd::Cut(end));
            }
        }
    }

    /// A write to that file has failed: it gets no more frames, and what follows in it is lost.
    fn fail(&mut self, id: FileId, error: &str) {
        if self.current.as_ref().is_some_and(|file| file.id == id) {
            self.closing.extend(self.current.take());
        }
        let file = self.closing.iter_mut().find(|file| file.id == id);
        let file = file.expect("a job's file is open");
        if !file.failed {
            file.failed = true;
            let reason = format!("cannot write {}: {error}", file.path.display());
            if self.current.is_none() {
                // Its blocks are there, whatever became of the disk.
                self.use_ahead(2 * self.frame_bytes);
            }
            self.fault(reason);
        }
    }

    pub(crate) fn discard(&self, counts: &[SourceCounts], reason: Entry) {
        for (source, counts) in counts.iter().enumerate() {
            let source = SourceId(source as u32);
            self.live.ledger.add(source, reason, counts.fragments);
            self.live.ledger.add(source, Entry::FragmentsMissingUnrecorded, counts.missing);
        }
    }

    fn fault(&mut self, reason: String) {
        self.live.set_state(State::Fault { reason });
        self.retry_at_ns = self.now_ns + RETRY_NS;
        if self.current.is_some() {
            // An older file failed while it was being closed; the present one is well.
            self.live.set_state(State::Recording);
        }
    }

    /// Has the next file made, where the disk has room for it.
    fn retry(&mut self) {
        // A file without a header will be deleted, and its number be free again.
        if !self.closing.iter().any(|file| file.failed && !file.header_recorded) {
            self.opening = Some(Opening::Retry);
            self.take_opened();
        }
    }

    /// Takes the next file, if one is wanted and it is there.
    fn take_opened(&mut self) {
        let Some(opening) = self.opening else { return };
        let room_bytes = match opening {
            Opening::Next => 0,
            Opening::Retry => self.maker.room_bytes(),
        };
        let Some(next) = self.maker.next(&mut self.jobs.store, room_bytes, self.now_ns) else {
            return;
        };
        self.opening = None;
        match next {
            Ok(next) => {
                self.begin_file(next);
                // An older file may have failed while there was none.
                self.live.set_state(State::Recording);
            }
            Err(reason) => self.fault(reason),
        }
    }

    fn switch_if_due(&mut self) {
        let Some(file) = &self.current else { return };
        let old = self.file_time_ns.is_some_and(|time| self.now_ns - file.opened_ns >= time);
        let full = file.end + self.frame_bytes > self.file_bytes_max || file.toc_is_full();
        // A file without frames is not left for its age alone.
        if file.has_frames() && (old || full) {
            self.closing.extend(self.current.take());
            self.opening = Some(Opening::Next);
            self.take_opened();
        }
    }

    /// Writes the TOC of a file whose other jobs have all ended.
    fn begin_toc(&mut self, index: usize) {
        let is_ending = self.is_ending();
        let file = &mut self.closing[index];
        file.toc_begun = true;
        file.tocs += 1;
        if !file.header_recorded {
            // Nothing in it can be read, and nothing in it was recorded.
            let end = if file.gone { FileEnd::Cut(0) } else { FileEnd::Delete };
            self.jobs.store.finish(file.id, end);
            return;
        }
        let ledger = self.live.ledger.snapshot();
        let toc = file.encode_toc(&ledger, is_ending);
        let (id, start) = (file.id, file.recorded_end);
        let file_bytes = start + toc.len() as u64;
        self.put_page(id, start, toc, JobKind::Toc { file_bytes });
    }

    fn sync(&mut self) {
        let Some(file) = &mut self.current else { return };
        if file.begin_sync() && !self.jobs.store.sync(file.id, 0) {
            // Too many syncs are under way: the next one covers this too.
            file.sync_refused();
        }
    }

    fn synced(&mut self, completion: &Completion) {
        let mut files = self.current.iter_mut().chain(&mut self.closing);
        let Some(file) = files.find(|file| file.id == completion.file) else { return };
        match &completion.result {
            Ok(()) => {
                let durable = file.sync_done();
                self.durable(&durable);
            }
            Err(error) => {
                let reason = format!("cannot sync {}: {error}", file.path.display());
                if self.current.as_ref().is_some_and(|file| file.id == completion.file) {
                    self.closing.extend(self.current.take());
                }
                self.fault(reason);
            }
        }
    }

    fn finished(&mut self, completion: &Completion) {
        let index = self.closing.iter().position(|file| file.id == completion.file);
        let mut file = self.closing.swap_remove(index.expect("a finished file was closing"));
        match &completion.result {
            Ok(()) => {
                self.durable(&file.close_done());
                if completion.bytes > file.recorded_end {
                    self.maker.list_closed(&mut self.jobs.store, &file, completion.bytes);
                }
                if !file.header_recorded && !file.gone {
                    self.maker.deleted(&file, &self.live);
                }
            }
            // That is said already.
            Err(_) if file.gone => {}
            Err(error) if !file.header_recorded => {
                let path = file.path.display();
                self.live.warn_once(format!("cannot delete {path}: {error}"));
            }
            Err(error) => {
                let reason = format!("cannot close {}: {error}", file.path.display());
                self.fault(reason);
            }
        }
    }

    fn durable(&self, fragments: &[u64]) {
        for (source, &count) in fragments.iter().enumerate() {
            self.live.ledger.add(SourceId(source as u32), Entry::FragmentsDurable, count);
        }
    }

    /// Whether no frame will follow.
    fn is_ending(&self) -> bool {
        matches!(self.end, End::Closing | End::Listing)
    }

    /// Goes on with the run's end, when all frames but the last have been streamed. The ledger is
    /// at rest.
    pub(crate) fn end(&mut self) -> Ending {
        match self.end {
            End::No => {
                // What became of the file since the last look.
                self.look = Look::Jobs;
                self.end = End::Looking;
            }
            End::Looking => {
                if !self.advance_look() {
                    return Ending::Wait;
                }
                self.look_if_due();
                if self.current.is_none() && self.opening.is_none() {
                    self.retry();
                }
                self.end = End::Opening;
            }
            End::Opening => {
                // Frames that fail yet are in the last one's increments.
                if self.opening.is_some() || self.jobs.oldest().is_some() {
                    return Ending::Wait;
                }
                self.reopen_last();
                self.last_frames += 1;
                self.end = End::LastFrame;
                return Ending::LastFrame;
            }
            End::LastFrame => {
                if self.jobs.oldest().is_some() {
                    return Ending::Wait;
                }
                let unrecorded = self.carried.total().iter().any(|(_, count)| count > 0);
                if unrecorded && self.last_frames < TRIES_MAX {
                    // It was not recorded: another file is tried.
                    if self.current.is_none() {
                        self.retry();
                    }
                    self.end = End::Opening;
                    return Ending::Again;
                }
                self.closing.extend(self.current.take());
                self.end = End::Closing;
            }
            End::Closing => {
                if !self.closing.is_empty() {
                    return Ending::Wait;
                }
                self.maker.end_list(&mut self.jobs.store);
                self.end = End::Listing;
            }
            End::Listing => {
                if self.jobs.store.text_under_way() {
                    return Ending::Wait;
                }
                if let Some(error) = self.jobs.store.take_text_error() {
                    let text = "the run's list of files is not complete";
                    self.live.warn_once(format!("{text}: {error}"));
                }
                return Ending::Ended;
            }
        }
        Ending::Again
    }

    /// Where there is no next file, the last one gets what can still be written.
    fn reopen_last(&mut self) {
        if self.current.is_some() {
            return;
        }
        let waiting = |file: &OpenFile| file.header_recorded && !file.toc_begun;
        if let Some(index) = self.closing.iter().rposition(waiting) {
            let mut file = self.closing.remove(index);
            file.reopen();
            self.current = Some(file);
        }
    }
}
