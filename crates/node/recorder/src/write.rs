//! The write thread: from frames to files.
//!
//! A frame's columns are checksummed and copied (or compressed, by threads of their own) into disk
//! buffers, which are written while the next are filled. A frame counts as recorded when all its
//! writes have completed, in the order of the frames; it counts as durable when a later fdatasync
//! has completed.
//!
//! When a write, a sync or an open fails, recording is in fault: the file gets no more frames,
//! frames are discarded countedly, and once a second the next file is tried, when the folder's disk
//! has room for two frames. The file is closed behind its last whole frame when there is a next
//! one, or with the run's last books at its end.
//!
//! A full disk is noticed before a write fails: a frame is begun only where the file has blocks for
//! it, or the disk has room beside what is kept for TOCs, trends and the catalogue
//! (docs/decisions/disk-faults.md). Once a second a helper thread of the disk looks how much that
//! is, and whether the file is still there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use catchment_builder::Cut;
use catchment_disk::{Completion, CompletionKind, Disk, DiskConfig, FileId, Presence};
use catchment_frame::{FrameKind, FrameSummary, encode_ledger_increment};
use catchment_model::{Entry, Ledger, RunId, SourceId};
use catchment_telemetry::Clock;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use crate::build::Frame;
use crate::config::{RecorderConfig, disk_config};
use crate::file::{FileMaker, OpenFile};
use crate::frame_writer::{FramePlace, FrameWriter, Sources, schema};
use crate::frames::{Target, WrittenFrame};
use crate::live::{Live, State};
use crate::recorder::RecorderError;
use crate::stream::{Job, Jobs};

/// How long the thread waits for a frame before it looks after the disk.
const IDLE_WAIT: Duration = Duration::from_millis(5);
/// How long recording stays in fault before the next file is tried.
const RETRY_NS: u64 = 1_000_000_000;
/// How often the disk is looked at.
const LOOK_NS: u64 = 1_000_000_000;

/// What an event takes of a frame beside its payload: key, time and flags, and for each source a
/// length and a bit of validity.
const KEY_BYTES: u64 = 24;
const LENGTH_BYTES: u64 = 5;
/// What a frame's books, and what fills its last block, take at most.
const BOOKS_BYTES: u64 = 64 << 10;

/// Which run this is and where it goes.
pub(crate) struct RunIdentity {
    pub(crate) run: RunId,
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
    pub(crate) clock: Clock,
}

/// The write thread's state.
pub(crate) struct Write {
    clock: Clock,
    live: Arc<Live>,
    frames: Receiver<Frame>,
    done: Sender<Frame>,
    frame_writer: FrameWriter,
    jobs: Jobs<What>,
    maker: FileMaker,
    current: Option<OpenFile>,
    /// Files that get no more frames, until they are finished.
    closing: Vec<OpenFile>,
    sequence: u64,
    /// The ledger when the last frame was encoded.
    encoded: Ledger,
    /// Increments of frames that were not recorded, for the next frame.
    carried: Ledger,
    frame_bytes: u64,
    frame_header_bytes: u64,
    looked_ns: u64,
    file_bytes_max: u64,
    file_time_ns: Option<u64>,
    retry_at_ns: u64,
    ending: bool,
}

/// What a job was.
pub(crate) enum What {
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
    increment: Ledger,
    /// Keys in it: events, or slices.
    keys: u64,
}

/// What a frame holds of one source or link.
#[derive(Clone, Copy, Default)]
pub(crate) struct SourceCounts {
    pub(crate) fragments: u64,
    pub(crate) bytes: u64,
    pub(crate) missing: u64,
    /// Raw bytes that were compressed less than asked.
    pub(crate) lowered: u64,
}

impl Write {
    /// Sets up the disk and opens the run's first file.
    ///
    /// # Errors
    /// The disk's, or the folder's.
    pub(crate) fn new(
        config: &RecorderConfig,
        identity: RunIdentity,
        memory: Sources,
        live: &Arc<Live>,
        (frames, done): (Receiver<Frame>, Sender<Frame>),
    ) -> Result<Self, RecorderError> {
        let disk = Disk::new(DiskConfig {
            threads: Some(Arc::clone(&live.threads)),
            ..disk_config(&config.write)
        })?;
        live.add_disk(disk.stats());
        if let Some(note) = disk.engine_note() {
            live.warn_once(format!("writing by {}: {note}", disk.engine()));
        }
        let source_count = config.ledger_count();
        let clock = identity.clock;
        let schema = schema(config)?;
        let frame_writer = FrameWriter::new(config, &schema, memory, live)?;
        let mut jobs = Jobs::new(disk, config.write.buffer_bytes);
        let mut maker = FileMaker::new(config, identity, schema);
        let current = Some(maker.create(&mut jobs, live, clock.now_ns())?);
        Ok(Self {
            clock,
            live: Arc::clone(live),
            frames,
            done,
            frame_writer,
            jobs,
            maker,
            current,
            closing: Vec::new(),
            sequence: 0,
            encoded: Ledger::new(source_count),
            carried: Ledger::new(source_count),
            frame_bytes: config.frame_bytes_max(),
            frame_header_bytes: config.frame_header_bytes_max() as u64,
            looked_ns: 0,
            file_bytes_max: config.write.file_bytes,
            file_time_ns: config.write.file_time_ns,
            retry_at_ns: 0,
            ending: false,
        })
    }

    /// Writes frames until the build thread has ended, then closes the run.
    pub(crate) fn run(mut self) {
        loop {
            match self.frames.recv_timeout(IDLE_WAIT) {
                Ok(frame) => self.take(frame),
                Err(RecvTimeoutError::Timeout) => self.look_after_disk(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.end();
    }

    fn take(&mut self, mut frame: Frame) {
        self.look_after_disk();
        self.checkpoint_late();
        self.record(&mut frame);
        // The build thread may have ended already; then nobody waits for the memory.
        let _ = self.done.send(frame);
        self.frame_writer.feed_trends();
    }

    /// Streams the frame into the current file, or discards it where there is none.
    fn record(&mut self, frame: &mut Frame) {
        let mut counts = self.frame_writer.count(frame);
        self.find_room(self.bytes_max(frame, &counts));
        let Some(file) = &mut self.current else {
            self.discard(&counts, Entry::FragmentsDiscardedDisk);
            return;
        };
        let now = self.live.ledger.snapshot();
        let mut increment = now.since(&self.encoded);
        // Frames say this themselves.
        let lowered = Entry::BytesCompressionLowered;
        increment.sources.iter_mut().for_each(|source| source[lowered] = 0);
        increment.add(&self.carried);
        self.carried = Ledger::new(increment.sources.len());
        self.encoded = now;
        let place = FramePlace { file_id: file.file_id, sequence: self.sequence };
        self.sequence += 1;
        let target = Target { jobs: &mut self.jobs, file: file.id, offset: file.end };
        let keys = frame.cut.keys.len() as u64;
        let (stream, written) =
            self.frame_writer.write(target, place, (frame, &mut counts), &increment);
        file.end += written.summary.frame_bytes;
        let frame = Box::new(FrameJob { written, counts, increment, keys });
        self.jobs.finish(stream, What::Frame(frame));
        if file.end + 2 * self.frame_bytes >= self.file_bytes_max {
            self.maker.open_ahead(&mut self.jobs);
        }
    }

    /// What a frame takes at most, but for columns that compression makes larger, which is little.
    fn bytes_max(&self, frame: &Frame, counts: &[SourceCounts]) -> u64 {
        let payload: u64 = counts.iter().map(|counts| counts.bytes).sum();
        let keys = frame.cut.keys.len() as u64;
        let of_keys = keys * (KEY_BYTES + LENGTH_BYTES * counts.len() as u64);
        payload + of_keys + self.frame_header_bytes + BOOKS_BYTES
    }

    /// Sees to it that the current file can take a frame of that size: where the disk has no room
    /// for it, the file made ahead becomes the current one, or there is none.
    fn find_room(&mut self, frame_bytes: u64) {
        let mut looked_for = None;
        while let Some(file) = &self.current
            && !self.ending
        {
            let (id, end, toc_bytes) = (file.id, file.end + frame_bytes, file.toc_bytes());
            let needed = end.saturating_sub(self.jobs.disk.blocks_bytes(id));
            let spare = self.jobs.disk.spare_bytes();
            let Some(spare) = spare.filter(|&spare| needed > 0 && spare < needed + toc_bytes)
            else {
                return;
            };
            if looked_for.replace(id) != Some(id) {
                // What is known may be old, or count twice what is being written.
                self.look();
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
        if self.maker.has_ahead(&self.jobs, bytes) {
            let next = self.maker.next(&mut self.jobs, &self.live, self.clock.now_ns());
            self.current = next.ok();
        }
        self.current.is_some()
    }

    /// Waits until nothing is being written, and for a look at the disk then.
    fn look(&mut self) {
        self.wait_for_jobs();
        for fresh in [false, true] {
            if let Some(file) = &self.current
                && fresh
            {
                // Without its helper thread a disk cannot tell anything new.
                let _asked = self.jobs.disk.look(file.id);
            }
            while self.jobs.disk.is_looking() {
                let done: Vec<_> = self.jobs.wait().collect();
                self.take_up(done);
            }
        }
    }

    /// Waits until all that was begun has been written.
    fn wait_for_jobs(&mut self) {
        while self.jobs.oldest().is_some() {
            let done: Vec<_> = self.jobs.wait().collect();
            self.take_up(done);
        }
    }

    /// Has the disk looked at now and then; leaves a file that is gone.
    fn look_if_due(&mut self, now_ns: u64) {
        let Some(file) = &self.current else { return };
        let id = file.id;
        match self.jobs.disk.presence(id) {
            Presence::There => {}
            presence => return self.leave(presence),
        }
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now_ns;
            // As in `look`.
            let _asked = self.jobs.disk.look(id);
        }
    }

    /// Leaves the current file, which is gone: what was recorded in files that were removed is
    /// lost, and counted; so is what comes until there is another one.
    fn leave(&mut self, presence: Presence) {
        let Some(mut file) = self.current.take() else { return };
        (file.failed, file.gone) = (true, true);
        let path = file.path.display();
        let reason = match presence {
            Presence::Removed => format!("{path} was removed while it was being written"),
            _ => format!("{path} is gone: it was moved, or its disk was unmounted"),
        };
        if presence == Presence::Removed {
            let others = self.live.has_other_files(&file.path);
            for (source, &own) in (0..).map(SourceId).zip(file.fragments()) {
                let ledger = &self.live.ledger;
                let all = ledger.read(source, Entry::FragmentsRecorded)
                    - ledger.read(source, Entry::FragmentsRemoved);
                let removed = if others { own } else { all };
                ledger.add(source, Entry::FragmentsRemoved, removed);
            }
        }
        // It was made in the same place.
        self.maker.discard_ahead(&mut self.jobs);
        self.closing.push(file);
        self.fault(reason);
    }

    /// Takes up what the disk has done: once per frame, and while there is none.
    fn look_after_disk(&mut self) {
        let done: Vec<_> = self.jobs.poll().collect();
        self.take_up(done);
        let now_ns = self.clock.now_ns();
        if self.jobs.disk.sync_due(now_ns) {
            self.sync();
        }
        self.look_if_due(now_ns);
        self.switch_if_due(now_ns);
        self.checkpoint_if_due(now_ns, false);
        if self.current.is_none() && !self.ending && now_ns >= self.retry_at_ns {
            self.retry(now_ns);
        }
    }

    fn take_up(&mut self, done: Vec<Completion>) {
        for completion in done {
            match completion.kind {
                CompletionKind::Write => unreachable!("writes are booked by the jobs"),
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
            // one, it gets the run's last books.
            let last = file.header_recorded && self.current.is_none();
            let ready = !file.toc_begun && (!last || self.ending);
            if ready && self.jobs.iter().all(|job| job.file != file.id) {
                self.begin_toc(index);
            }
            index += 1;
        }
    }

    /// Writes a checkpoint if it is time for one and all frames have been written: it lists all
    /// that stand before it.
    fn checkpoint_if_due(&mut self, now_ns: u64, late: bool) {
        let Some(file) = &mut self.current else { return };
        let at_rest = file.end == file.recorded_end;
        if self.ending || !at_rest || !file.checkpoint_due(now_ns, late) {
            return;
        }
        let ledger = self.live.ledger.snapshot();
        let start = file.end;
        let (bytes, summary) = file.encode_checkpoint(self.sequence, &ledger, now_ns);
        let mut stream = self.jobs.begin(file.id, start);
        self.jobs.append(&mut stream, &bytes);
        self.jobs.finish(stream, What::Checkpoint(summary));
    }

    /// Where frames came so fast that one was always being written, the write thread waits for the
    /// disk now and then.
    fn checkpoint_late(&mut self) {
        let now_ns = self.clock.now_ns();
        if !self.current.as_ref().is_some_and(|file| file.checkpoint_due(now_ns, true)) {
            return;
        }
        self.wait_for_jobs();
        self.checkpoint_if_due(now_ns, true);
    }

    /// A job has ended, and all older ones have.
    fn job_ended(&mut self, job: Job<What>) {
        if let Some(error) = &job.error {
            self.fail(job.file, error);
        }
        let mut files = self.closing.iter_mut().chain(&mut self.current);
        let file = files.find(|file| file.id == job.file).expect("a job's file is open");
        match job.what.expect("an ended job") {
            What::Header => {
                file.header_recorded = !file.failed;
                if file.header_recorded {
                    self.maker.list_begun(&mut self.jobs.disk, file);
                }
            }
            What::Frame(frame) if file.failed => {
                self.carried.add(&frame.increment);
                if self.current.as_ref().is_none_or(|file| !file.has_frames()) {
                    // Nothing newer was begun: the next frame takes its number.
                    let number = frame.written.summary.info.sequence;
                    self.sequence = self.sequence.min(number);
                }
                self.discard(&frame.counts, Entry::FragmentsDiscardedDisk);
            }
            What::Frame(frame) => {
                let frame_bytes = frame.written.summary.frame_bytes;
                let info = frame.written.summary.info;
                file.recorded(&frame);
                for (source, counts) in frame.counts.iter().enumerate() {
                    let source = SourceId(source as u32);
                    let ledger = &self.live.ledger;
                    ledger.add(source, Entry::FragmentsRecorded, counts.fragments);
                    ledger.add(source, Entry::FragmentBytesRecorded, counts.bytes);
                    ledger.add(source, Entry::FragmentsMissing, counts.missing);
                    ledger.add(source, Entry::BytesCompressionLowered, counts.lowered);
                }
                let counters = &self.live.counters;
                match info.kind {
                    FrameKind::Channels => {
                        counters.slices_recorded.fetch_add(frame.keys, Relaxed);
                    }
                    FrameKind::Events => {
                        counters.events_recorded.fetch_add(info.rows, Relaxed);
                    }
                    _ => {}
                }
                counters.frames_recorded.fetch_add(1, Relaxed);
                counters.bytes_written.fetch_add(frame_bytes, Relaxed);
            }
            What::Checkpoint(summary) => {
                file.checkpoint_ended(&summary);
                if !file.failed {
                    let (offset, locator) = file.encode_locator(&summary);
                    let mut stream = self.jobs.begin(job.file, offset);
                    self.jobs.append(&mut stream, &locator);
                    self.jobs.finish(stream, What::Locator);
                }
            }
            What::Locator => {}
            What::Toc { file_bytes } => {
                // Without its TOC the file is one that a killed writer left: readable, and repair
                // can close it.
                let end = if job.error.is_some() { file.recorded_end } else { file_bytes };
                self.jobs.disk.finish(job.file, end);
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

    fn discard(&self, counts: &[SourceCounts], reason: Entry) {
        for (source, counts) in counts.iter().enumerate() {
            let source = SourceId(source as u32);
            self.live.ledger.add(source, reason, counts.fragments);
            self.live.ledger.add(source, Entry::FragmentsMissingUnrecorded, counts.missing);
        }
    }

    fn fault(&mut self, reason: String) {
        self.live.set_state(State::Fault { reason });
        self.retry_at_ns = self.clock.now_ns() + RETRY_NS;
        if self.current.is_some() {
            // An older file failed while it was being closed; the present one is well.
            self.live.set_state(State::Recording);
        }
    }

    fn retry(&mut self, now_ns: u64) {
        if self.closing.iter().any(|file| file.failed && !file.header_recorded) {
            // It will be deleted, and its number be free again.
            return;
        }
        match self.maker.retry(&mut self.jobs, &self.live, now_ns) {
            Ok(file) => {
                self.current = Some(file);
                self.live.set_state(State::Recording);
            }
            Err(reason) => self.fault(reason),
        }
    }

    fn switch_if_due(&mut self, now_ns: u64) {
        let Some(file) = &self.current else { return };
        let old = self.file_time_ns.is_some_and(|time| now_ns - file.opened_ns >= time);
        let full = file.end + self.frame_bytes > self.file_bytes_max || file.toc_is_full();
        // A file without frames is not left for its age alone.
        if file.has_frames() && (old || full) {
            self.closing.extend(self.current.take());
            match self.maker.next(&mut self.jobs, &self.live, now_ns) {
                Ok(next) => self.current = Some(next),
                Err(error) => self.fault(error.to_string()),
            }
        }
    }

    /// Writes the TOC of a file whose other jobs have all ended.
    fn begin_toc(&mut self, index: usize) {
        let file = &mut self.closing[index];
        file.toc_begun = true;
        if !file.header_recorded {
            // Nothing in it can be read, and nothing in it was recorded.
            self.jobs.disk.finish(file.id, 0);
            return;
        }
        let ledger = self.live.ledger.snapshot();
        let run_ended = self.ending;
        let toc = file.encode_toc(&ledger, run_ended);
        let start = file.recorded_end;
        let mut stream = self.jobs.begin(file.id, start);
        self.jobs.append(&mut stream, &toc);
        let file_bytes = start + toc.len() as u64;
        self.jobs.finish(stream, What::Toc { file_bytes });
    }

    fn sync(&mut self) {
        let Some(file) = &mut self.current else { return };
        if file.begin_sync() && self.jobs.disk.sync(file.id, 0).is_err() {
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
                    self.maker.list_closed(&mut self.jobs.disk, &file, completion.bytes);
                }
            }
            // That is said already.
            Err(_) if file.gone => {}
            Err(error) => {
                let reason = format!("cannot close {}: {error}", file.path.display());
                self.fault(reason);
            }
        }
        if !file.header_recorded && !file.gone {
            self.maker.remove(&file, &self.live);
        }
    }

    fn durable(&self, fragments: &[u64]) {
        for (source, &count) in fragments.iter().enumerate() {
            self.live.ledger.add(SourceId(source as u32), Entry::FragmentsDurable, count);
        }
    }

    /// Closes the run. All other threads have ended, so that the ledger is at rest.
    fn end(&mut self) {
        self.look_after_disk();
        // What became of the file since the last look.
        self.look();
        self.look_if_due(self.clock.now_ns());
        if self.current.is_none() {
            self.retry(self.clock.now_ns());
        }
        if self.current.is_none() {
            // No next file: the last one gets what can still be written.
            let waiting = |file: &OpenFile| file.header_recorded && !file.toc_begun;
            if let Some(index) = self.closing.iter().rposition(waiting) {
                let mut file = self.closing.remove(index);
                file.reopen();
                self.current = Some(file);
            }
        }
        self.ending = true;
        let mut rest = self.live.ledger.snapshot().since(&self.encoded);
        rest.sources.iter_mut().for_each(|one| one[Entry::BytesCompressionLowered] = 0);
        rest.add(&self.carried);
        let mut records = Vec::new();
        encode_ledger_increment(&rest, &mut records);
        if !records.is_empty() {
            let kind = self.frame_writer.kind();
            self.record(&mut Frame { kind, cut: Cut::default() });
        }
        self.closing.extend(self.current.take());
        self.take_up(Vec::new());
        while !self.closing.is_empty() {
            let done: Vec<_> = self.jobs.wait().collect();
            self.take_up(done);
        }
        self.maker.end_list(&mut self.jobs, &self.live);
    }
}
