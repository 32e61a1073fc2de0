//! The files of a run while it is written: the current one, those being closed, the next one, and
//! the handling of a disk that is slow, full, broken or gone.
//!
//! Frames are copied into the current file by their owner, between [`RunFiles::begin_frame`] and
//! [`RunFiles::frame_copied`]; the current file does not change in between. If its disk stalls
//! meanwhile and there is another, the owner abandons the frame and offers it again.

mod again;
mod fault;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use catchment_agent::{Completion, CompletionKind, FileEnd, FolderStore, Presence};
use catchment_frame::{FrameSummary, Schema, TocFlags};
use catchment_writer::{Ended, FrameFiles, HeaderOrder, JobKind, StoreFile};

use crate::config::RecorderConfig;
use crate::file::{Begun, FileMaker, Files, FirstFile, OpenFile, RunIdentity, full, toc_bytes};
use crate::file_limits::FileLimits;
use crate::file_steps::{
    Admission, End, Ending, LastFrame, Look, NOT_WHOLE, OPEN_NS, Opening, RETRY_NS, TRIES_MAX,
};
use crate::folders::Folders;
use crate::frames::FrameHead;
use crate::target_ledger::{FrameTag, TargetLedger};

/// The files of a run, and the work in progress on them.
pub(crate) struct RunFiles<S: FolderStore> {
    now_ns: u64,
    files: Files<S>,
    folders: Folders,
    maker: FileMaker,
    /// The next file is being made, since then.
    opening: Option<Opening>,
    opening_ns: u64,
    /// The file of the newest frame.
    framed: Option<u64>,
    ledger: TargetLedger,
    limits: FileLimits,
    retry_at_ns: u64,
    /// How many files since the last sync that succeeded have ended so that held frames come again
    /// from there.
    unconfirmed: u32,
    end: End,
    last: LastFrame,
}

impl<S: FolderStore> RunFiles<S> {
    /// Begins the first file of a target with this ledger.
    ///
    /// # Errors
    /// No random bits are available for its identity.
    pub(crate) fn new(
        config: &RecorderConfig,
        schema: Arc<Schema>,
        identity: RunIdentity,
        first: FirstFile<S>,
        ledger: TargetLedger,
        now_ns: u64,
    ) -> Result<Self, String> {
        let variant = ledger.of_target().variant.number;
        let begin = StoreFile { store: first.disk, id: first.id };
        let of_maker = (first.entropy, first.spill);
        let mut files = Self {
            now_ns,
            files: FrameFiles::new(first.stores, config.write.buffer_bytes, HeaderOrder::Last),
            folders: Folders::new(config, &identity, now_ns),
            maker: FileMaker::new(config, identity, (schema, variant), of_maker),
            opening: None,
            opening_ns: 0,
            framed: None,
            ledger,
            limits: FileLimits::of(config),
            retry_at_ns: 0,
            unconfirmed: 0,
            end: End::No,
            last: LastFrame::default(),
        };
        let begun = files.maker.begin_first(begin, now_ns)?;
        files.begin_file(begun);
        Ok(files)
    }

    /// What makes its files.
    pub(crate) fn maker(&mut self) -> &mut FileMaker {
        &mut self.maker
    }

    /// The sink of frames.
    pub(crate) fn sink(&mut self) -> &mut Files<S> {
        &mut self.files
    }

    /// Handles the stores' completions and submits what was requested of them. Returns the number
    /// of completions.
    pub(crate) fn poll(&mut self, now_ns: u64) -> u64 {
        self.now_ns = now_ns;
        let done = self.files.poll() as u64;
        self.folders.polled(&mut self.files, &self.ledger, now_ns);
        done
    }

    /// Decides about a frame of at most `frame_bytes` bytes. `looked_for` is the file for which the
    /// disk was checked.
    pub(crate) fn admit(
        &mut self,
        frame_bytes: u64,
        looked_for: &mut Option<StoreFile>,
    ) -> Admission {
        let overdue = |file: &OpenFile| file.checkpoint_due(self.now_ns, true);
        if let Some(file) = self.files.current.as_ref().filter(|file| overdue(file))
            && self.end == End::No
        {
            // Frames arrived so fast that one was always being written.
            if self.files.is_busy(file.id.store) || self.checkpoint_if_due(true) {
                return Admission::Wait;
            }
        }
        if !self.find_room(frame_bytes, looked_for) {
            return Admission::Wait;
        }
        if self.files.current.is_some() && (self.files.has_pages_first() || self.is_in_doubt()) {
            // The header of a file on another disk, or the end of one whose sync has failed.
            return Admission::Wait;
        }
        let is_late = self.now_ns.saturating_sub(self.opening_ns) >= OPEN_NS;
        match (self.opening, self.files.current.is_some()) {
            (Some(Opening::Next), _) if !is_late => Admission::Wait,
            (Some(Opening::Next), true) => {
                self.opening = Some(Opening::Retry);
                self.go_on("the next file has not been made within a second");
                Admission::Begin
            }
            (_, true) => Admission::Begin,
            // Memory may last until the file is there.
            (Some(_), false) if !(is_late && self.ledger.others_record()) => Admission::Wait,
            _ => Admission::Refused,
        }
    }

    /// Begins a frame that was admitted. Returns whether it is the first of its file.
    ///
    /// # Panics
    /// There is no file.
    pub(crate) fn begin_frame(&mut self, head: &FrameHead) -> bool {
        let file = self.files.current.as_ref().expect("the frame was admitted");
        debug_assert!(self.maker.writes(&head.schema), "a file has the schema of its frames");
        let begins_file = self.framed != Some(file.file_id);
        self.framed = Some(file.file_id);
        self.files.begin(head.info, head.columns);
        begins_file
    }

    /// A frame was streamed to its end.
    pub(crate) fn frame_copied(&mut self) {
        let is_nearly_full = |file| self.limits.is_nearly_full(file);
        if self.files.current.as_ref().is_some_and(is_nearly_full) && !self.is_next_refused() {
            self.maker.open_ahead(&mut self.files, &self.folders.disks, self.now_ns);
        }
    }

    /// Whether the disk of the current file does not respond, and there is another one.
    pub(crate) fn is_stalled(&self) -> bool {
        let current = self.files.current.as_ref().filter(|_| self.end == End::No);
        current.is_some_and(|file| self.folders.disks.must_be_left(file.id.store, self.now_ns))
    }

    /// The target's ledger.
    pub(crate) fn ledger(&mut self) -> &mut TargetLedger {
        &mut self.ledger
    }

    /// Ensures that the current file can take a frame of that many bytes: if the disk has no room
    /// for it, the file made ahead becomes the current one, or there is none. False while the disk
    /// is being checked, which is done once for each file.
    fn find_room(&mut self, frame_bytes: u64, looked_for: &mut Option<StoreFile>) -> bool {
        loop {
            if !self.folders.advance_look(&mut self.files) {
                return false;
            }
            let Some(file) = self.files.current.as_ref().filter(|_| self.end == End::No) else {
                return true;
            };
            let (id, end, toc_bytes) = (file.id, file.end + frame_bytes, toc_bytes(file));
            let store = self.files.store(id.store);
            let needed = end.saturating_sub(store.blocks_bytes(id.id));
            let spare = store.spare_bytes();
            let Some(spare) = spare.filter(|&spare| needed > 0 && spare < needed + toc_bytes)
            else {
                return true;
            };
            if looked_for.replace(id) != Some(id) {
                // The known free space may be old, or count twice what is being written.
                self.folders.look = Look::Jobs;
                continue;
            }
            self.files.leave();
            let reason = full(self.folders.disks.folder(id.store), needed, spare);
            self.go_elsewhere(id.store, reason, frame_bytes);
        }
    }

    /// After the current file was left because of its disk: continues in the file made ahead, or in
    /// another folder.
    fn go_elsewhere(&mut self, disk: usize, reason: String, bytes: u64) {
        let goes_on = self.leave_disk(disk, &reason);
        if !self.use_ahead(bytes) {
            self.fault(reason, goes_on);
        }
    }

    /// Leaves a disk for the files that follow, if there is another one to go on with.
    fn leave_disk(&mut self, disk: usize, reason: &str) -> bool {
        let goes_on = self.folders.disks.leave(disk, reason, self.now_ns);
        if goes_on {
            self.maker.discard_ahead_in(&mut self.files, disk);
            self.ledger.warn_once(format!("{reason}; recording goes on in another folder"));
            self.folders.show(&mut self.files, &self.ledger);
        }
        goes_on
    }

    /// Leaves the current file if its disk does not respond and there is another. What was
    /// submitted to it is recorded or fails when the disk responds.
    fn leave_if_stalled(&mut self) {
        if !self.is_stalled() {
            return;
        }
        let Some(file) = &self.files.current else { return };
        let (disk, path) = (file.id.store, file.path.display());
        let reason = format!("the disk of {path} has completed nothing for a second");
        self.files.leave();
        self.opening = None;
        self.go_elsewhere(disk, reason, self.limits.frame_bytes);
    }

    fn begin_file(&mut self, Begun { file, header }: Begun) {
        // After a failed write the file can be taken before `take_opened` finds it.
        self.opening = None;
        self.ledger.of_target().counters.next_file_refused.store(0, Relaxed);
        self.ledger.of_target().add_file(file.path.clone());
        self.files.begin_file(file, header);
        self.folders.show(&mut self.files, &self.ledger);
    }

    /// Checks the disk at intervals; leaves a file that is gone or was truncated.
    fn look_if_due(&mut self) {
        let current = self.files.current.as_ref().map(|file| file.id);
        if let Some(StoreFile { store, id }) = current {
            match self.files.store(store).presence(id) {
                Presence::There => {}
                presence => return self.leave(presence),
            }
        }
        self.folders.look_if_due(&mut self.files, &self.ledger, self.now_ns);
    }

    /// Leaves the current file, which is gone. Fragments recorded in files that were removed or
    /// truncated are lost, and counted; so are fragments that arrive before another file is open.
    fn leave(&mut self, presence: Presence) {
        let Some(mut file) = self.files.current.take() else { return };
        let reason = self.ledger.count_removed(&mut file, presence);
        let disk = file.id.store;
        self.files.closing.push(file);
        self.opening = None;
        if presence != Presence::Truncated {
            // The file ahead may have been made in the same folder.
            let goes_on = self.leave_disk(disk, &reason);
            self.fault(reason, goes_on);
            self.maker.discard_ahead_in(&mut self.files, disk);
        } else {
            // The disk and the folder are in order.
            self.fault(reason, false);
            self.retry();
        }
    }

    /// Handles the disk's completions, and does what is due.
    pub(crate) fn look_after_disk(&mut self) {
        self.handle_completions();
        self.take_opened();
        if self.end != End::No {
            return;
        }
        if let Some(file) = &self.files.current {
            let (id, is_due) = (file.id, self.limits.is_sync_due(file));
            let is_due = is_due || self.ledger.is_end_held() || self.unconfirmed > 0;
            if is_due || self.files.store(id.store).sync_due(self.now_ns) {
                self.sync(id);
            }
        }
        self.ledger.want_frame(self.files.current.is_some());
        self.leave_if_stalled();
        self.look_if_due();
        self.switch_if_due();
        self.folders.look_after_lists(&mut self.files, &self.ledger, self.now_ns);
        self.checkpoint_if_due(false);
        let idle = self.files.current.is_none() && self.opening.is_none();
        if idle && self.now_ns >= self.retry_at_ns {
            self.retry();
        }
    }

    fn handle_completions(&mut self) {
        for (store, completion) in self.files.take_others() {
            let file = StoreFile { store, id: completion.file };
            self.folders.disks.completed(file, completion.kind);
            match completion.kind {
                CompletionKind::Write => unreachable!("writes are handled by the jobs"),
                CompletionKind::Sync => self.synced(file, &completion),
                CompletionKind::Finished => self.finished(file, &completion),
            }
        }
        while let Some(ended) = self.files.next_ended() {
            self.job_ended(ended);
        }
        let mut index = 0;
        while index < self.files.closing.len() {
            let file = &self.files.closing[index];
            // In fault, a file waits for the next one or for the run's end: if there is no next
            // one, it gets the run's last increments. A disk without room takes no header either.
            let is_begun = |next: &OpenFile| next.header_recorded || !file.failed;
            let last = file.header_recorded && !self.files.current.as_ref().is_some_and(is_begun);
            let ready = !last || self.is_ending();
            let is_at_rest = !file.toc_begun && !self.files.is_busy_with(file.id);
            if is_at_rest && !self.must_be_synced(index) && ready {
                self.begin_toc(index);
            }
            index += 1;
        }
    }

    /// Writes a checkpoint if one is due and all frames have been written: it lists all frames
    /// before it. True if it was begun.
    fn checkpoint_if_due(&mut self, late: bool) -> bool {
        let Some(file) = self.files.current.as_mut().filter(|_| self.end == End::No) else {
            return false;
        };
        let at_rest = file.end == file.recorded_end;
        if !at_rest || !file.checkpoint_due(self.now_ns, late) {
            return false;
        }
        self.ledger.state_in(file);
        self.files.begin_checkpoint(&self.ledger.total(), self.now_ns);
        true
    }

    /// Handles a job that has ended, as have all older ones.
    fn job_ended(&mut self, Ended { file: id, kind, error }: Ended<FrameTag>) {
        if let Some(error) = &error {
            if matches!(kind, JobKind::Header) {
                self.header_failed(id);
            }
            self.fail(id, error);
        }
        let file = self.files.file(id);
        match kind {
            JobKind::Header => {
                file.header_recorded = error.is_none() && !file.gone && !file.attached.is_void;
                if file.header_recorded {
                    // Nobody is welcomed before it states the epoch, durably.
                    let waits = !self.ledger.of_target().has_epoch.load(Relaxed);
                    file.attached.header_recorded(waits);
                    self.folders.begun(&mut self.files, id);
                    self.has_written(id, false);
                }
            }
            JobKind::Frame(_, tag) if file.failed => self.not_written(id, &tag),
            JobKind::Frame(written, tag) => {
                self.last.is_recorded = self.end == End::LastFrame;
                file.recorded(&written);
                self.last.index_min = self.last.index_min.max(file.index);
                let FrameSummary { info, frame_bytes, .. } = written.summary;
                let of_frame = (info.kind, frame_bytes);
                file.attached.recorded(&tag, of_frame, self.ledger.has_each_synced());
                self.ledger.written((id, file.index), &tag, &info, frame_bytes);
                self.has_written(id, true);
            }
            JobKind::Checkpoint(summary) => {
                file.checkpoint_ended(&summary);
                if !file.failed {
                    self.files.begin_locator(id, &summary);
                }
            }
            JobKind::Locator => {}
            JobKind::Toc { .. } if error.is_some() && file.tocs < TRIES_MAX => {
                file.toc_begun = false;
            }
            JobKind::Toc { file_bytes } => {
                // Without its TOC the file is like that of a killed writer: readable, and repair
                // can close it.
                let bytes = if error.is_some() { file.recorded_end } else { file_bytes };
                self.folders.finish_file(&mut self.files, id, FileEnd::Cut(bytes), self.now_ns);
            }
            // It is in another file.
            JobKind::Abandoned => {}
        }
    }

    /// A write to that file failed: it gets no more frames, and those after the failure are lost.
    fn fail(&mut self, id: StoreFile, error: &std::io::Error) {
        if self.files.current.as_ref().is_some_and(|file| file.id == id) {
            self.files.leave();
        }
        let file = self.files.file(id);
        if !file.failed {
            file.failed = true;
            let reason = format!("cannot write {}: {error}", file.path.display());
            let goes_on = self.leave_disk(id.store, &reason);
            if self.files.current.is_none() {
                // Its blocks are allocated, whatever the state of the disk.
                self.use_ahead(2 * self.limits.frame_bytes);
            }
            self.fault(reason, goes_on);
        }
    }

    /// Handles a frame that could not be begun for lack of room.
    pub(crate) fn refused(&mut self, head: &FrameHead) {
        self.last.is_refused = self.end == End::LastFrame;
        self.ledger.refused(head);
    }

    /// Requests the next file, if the disk has room for it.
    fn retry(&mut self) {
        // A file without a header will be deleted, and its number be free again.
        let will_be_free = |file: &OpenFile| {
            let is_stalled = self.folders.disks.is_stalled(file.id.store, self.now_ns);
            file.failed && !file.header_recorded && !is_stalled
        };
        if !self.files.closing.iter().any(will_be_free) {
            self.open(Opening::Retry);
        }
    }

    fn open(&mut self, why: Opening) {
        (self.opening, self.opening_ns) = (Some(why), self.now_ns);
        self.take_opened();
    }

    /// Takes the next file, if one is needed and it is open.
    fn take_opened(&mut self) {
        let Some(opening) = self.opening else { return };
        let room_bytes = match opening {
            Opening::Next => 0,
            Opening::Retry => self.limits.room_bytes(),
        };
        if let Some(disk) = self.maker.late_disk(&mut self.files, self.now_ns) {
            let folder = self.folders.disks.folder(disk).display();
            self.leave_disk(disk, &format!("{folder} has not made a file within a second"));
        }
        let when = (room_bytes, self.now_ns);
        let Some(next) = self.maker.next(&mut self.files, &self.folders.disks, when) else {
            return;
        };
        self.opening = None;
        match next {
            Ok(next) => {
                self.files.leave();
                self.begin_file(next);
            }
            Err((disk, reason)) => {
                let goes_on = self.leave_disk(disk, &reason);
                match self.files.current {
                    _ if goes_on => self.open(opening),
                    Some(_) => self.go_on(&reason),
                    None => self.fault(reason, false),
                }
            }
        }
    }

    /// Continues in the current file, beyond its limits, since the next one cannot be made.
    fn go_on(&mut self, reason: &str) {
        self.retry_at_ns = self.now_ns + RETRY_NS;
        if let Some(file) = self.files.current.as_ref().filter(|_| !self.is_next_refused()) {
            let path = file.path.display();
            self.ledger.warn_once(format!("{reason}; recording goes on in {path}"));
        }
        self.ledger.of_target().counters.next_file_refused.store(1, Relaxed);
    }

    /// Whether the current file continues because the next one cannot be made.
    fn is_next_refused(&self) -> bool {
        self.ledger.of_target().counters.next_file_refused.load(Relaxed) > 0
    }

    /// Leaves a file that continues because the next one cannot be made, once its table of contents
    /// takes too much memory.
    fn leave_if_spent(&mut self) {
        let is_spent = |file: &&OpenFile| self.limits.is_spent(file);
        if self.is_next_refused()
            && let Some(file) = self.files.current.as_ref().filter(is_spent)
        {
            let reason = format!(
                "{} has all the frames that memory can list, and the next file cannot be made",
                file.path.display()
            );
            self.files.leave();
            self.fault(reason, false);
        }
    }

    fn switch_if_due(&mut self) {
        self.leave_if_spent();
        let Some(file) = self.files.current.as_ref().filter(|_| self.opening.is_none()) else {
            return;
        };
        let is_over = self.limits.is_over(file, self.now_ns);
        let (is_refused, is_tried) = (self.is_next_refused(), self.now_ns < self.retry_at_ns);
        // A file without frames is not left because of its age alone.
        if file.has_frames() && is_over && !(is_refused && is_tried) {
            self.open(if is_refused { Opening::Retry } else { Opening::Next });
        }
    }

    /// Whether a file that is left has to wait for a sync. Its last frames get one of their own:
    /// its close may take long, and what follows in the run is durable no earlier than they are.
    fn must_be_synced(&mut self, index: usize) -> bool {
        let file = &self.files.closing[index];
        let (id, is_due) = (file.id, file.attached.is_sync_due() && !file.failed && !file.gone);
        is_due && !self.is_ending() && !self.sync(id)
    }

    /// Writes the TOC of a file whose other jobs have all ended.
    fn begin_toc(&mut self, index: usize) {
        let is_ending = self.is_ending();
        let file = &mut self.files.closing[index];
        file.toc_begun = true;
        file.tocs += 1;
        if !file.header_recorded {
            // Nothing in it can be read, and nothing in it was recorded.
            let end = if file.gone { FileEnd::Cut(0) } else { FileEnd::Delete };
            let id = file.id;
            self.folders.finish_file(&mut self.files, id, end, self.now_ns);
            return;
        }
        if self.last.is_missing {
            // It remains as a killed writer would leave it: readable, and repair can close it.
            let (id, end) = (file.id, FileEnd::Cut(file.recorded_end));
            self.ledger.warn_once(NOT_WHOLE.to_owned());
            self.folders.finish_file(&mut self.files, id, end, self.now_ns);
            return;
        }
        self.ledger.state_in(file);
        let (id, total) = (file.id, self.ledger.total());
        let flags = TocFlags { run_ended: is_ending, ..TocFlags::of_total(&total) };
        self.files.begin_toc(id, &total, flags);
    }

    /// Begins a sync of a file, unless there is nothing to be synced, or one is in progress.
    fn sync(&mut self, id: StoreFile) -> bool {
        if !self.files.file(id).attached.begin_sync() {
            return false;
        }
        let has_begun = self.files.sync(id);
        if has_begun {
            self.folders.disks.ordered(id, CompletionKind::Sync, self.now_ns);
            self.ledger.sync_begun(id);
        } else {
            // Too many syncs are in progress: the next one covers this one, too.
            self.files.file(id).attached.sync_refused();
        }
        has_begun
    }

    fn synced(&mut self, id: StoreFile, completion: &Completion) {
        let mut files = self.files.current.iter_mut().chain(&mut self.files.closing);
        let Some(file) = files.find(|file| file.id == id) else { return };
        match &completion.result {
            Ok(()) => {
                let durable = file.attached.sync_done();
                self.ledger.of_target().has_epoch.store(true, Release);
                self.ledger.synced(id, &durable);
                self.has_synced(id);
            }
            Err(error) => {
                file.attached.sync_failed = true;
                let reason = format!("cannot sync {}: {error}", file.path.display());
                if self.files.current.as_ref().is_some_and(|file| file.id == id) {
                    self.files.leave();
                }
                let goes_on = self.leave_disk(id.store, &reason);
                self.fault(reason, goes_on);
            }
        }
    }

    fn finished(&mut self, id: StoreFile, completion: &Completion) {
        let index = self.files.closing.iter().position(|file| file.id == id);
        let mut file = self.files.closing.swap_remove(index.expect("it was being closed"));
        if completion.found != Presence::There && file.header_recorded && !file.gone {
            // Since the last check, which was at most a second before the file was left.
            self.ledger.count_removed(&mut file, completion.found);
        }
        match &completion.result {
            Ok(()) => {
                self.ledger.closed(id, &file.attached.close_done());
                if completion.bytes > file.recorded_end {
                    self.folders.closed(&mut self.files, &file, completion.bytes);
                }
                if !file.failed {
                    self.folders.disks.closed(id.store);
                }
                if !file.header_recorded && !file.gone {
                    self.maker.deleted(&file, self.ledger.of_target());
                }
            }
            // That has already been reported, and what was in it counted.
            Err(_) if file.gone && completion.found != Presence::Elsewhere => {}
            Err(error) if !file.header_recorded => {
                let path = file.path.display();
                self.ledger.warn_once(format!("cannot delete {path}: {error}"));
            }
            Err(error) => {
                self.ledger.unconfirmed(&mut file);
                let reason = format!("cannot close {}: {error}", file.path.display());
                if self.not_confirmed(&file) {
                    let goes_on = self.leave_disk(id.store, &reason);
                    self.fault(reason, goes_on);
                } else {
                    self.ledger.warn_once(reason);
                }
            }
        }
        self.ledger.file_ended(id, file.index);
        self.has_ended(&file, completion.result.is_ok());
    }

    /// Whether no frame will follow.
    fn is_ending(&self) -> bool {
        matches!(self.end, End::Closing | End::Listing)
    }

    /// Continues the run's end, when all frames but the last have been streamed. The ledger no
    /// longer changes.
    pub(crate) fn end(&mut self) -> Ending {
        match self.end {
            End::No => {
                // Whether the file was changed since the last check.
                self.folders.look = Look::Jobs;
                self.end = End::Looking;
            }
            End::Looking => {
                if !self.folders.advance_look(&mut self.files) {
                    return Ending::Wait;
                }
                self.look_if_due();
                if self.files.current.is_none() && self.opening.is_none() {
                    self.retry();
                }
                self.end = End::Opening;
            }
            End::Opening => {
                // What still fails, of frames and files, is in the last one's increments.
                let are_open = self.files.current.is_some() && !self.files.closing.is_empty();
                if self.opening.is_some() || are_open || self.files.are_busy() {
                    return Ending::Wait;
                }
                self.files.reopen_newest(self.last.index_min);
                self.last.tries += 1;
                self.end = End::LastFrame;
                return Ending::LastFrame;
            }
            End::LastFrame => {
                if self.files.are_busy() {
                    return Ending::Wait;
                }
                let is_refused = std::mem::take(&mut self.last.is_refused);
                let unrecorded = is_refused || self.ledger.has_unwritten();
                if unrecorded && !self.last.is_recorded && self.last.tries < TRIES_MAX {
                    // The frame was not recorded: another file is tried.
                    if self.files.current.is_none() {
                        self.retry();
                    }
                    self.end = End::Opening;
                    return Ending::Again;
                }
                self.last.is_missing = unrecorded;
                self.files.leave();
                self.end = End::Closing;
            }
            End::Closing => {
                if !self.files.closing.is_empty() {
                    return Ending::Wait;
                }
                self.folders.end_lists(&mut self.files);
                self.end = End::Listing;
            }
            End::Listing => {
                return match self.folders.lists_have_ended(&mut self.files, &self.ledger) {
                    true => Ending::Ended,
                    false => Ending::Wait,
                };
            }
        }
        Ending::Again
    }
}
