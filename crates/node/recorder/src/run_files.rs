//! The files of a run while it is written: the current one, those being closed, the next one, and
//! the handling of a disk that is slow, full, broken or gone.
//!
//! Frames are copied into the current file by their owner, between [`RunFiles::begin_frame`] and
//! [`RunFiles::frame_copied`]; the current file does not change in between.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Completion, CompletionKind, FileEnd, FileId, FolderStore, Presence};
use catchment_frame::{FrameSummary, Schema, TocFlags};
use catchment_model::{Ledger, SourceId};
use catchment_writer::{Ended, FrameFiles, HeaderOrder, JobKind};

use crate::config::RecorderConfig;
use crate::file::{Begun, Durability, FileMaker, FirstFile, OpenFile, RunIdentity, toc_bytes};
use crate::file_list::FileList;
use crate::file_steps::{Admission, End, Ending, Look, Opening};
use crate::frames::FrameHead;
use crate::live::State;
use crate::target::{FrameTag, TargetLedger};

/// How long recording stays in fault before the next file is tried.
const RETRY_NS: u64 = 1_000_000_000;
/// How long frames wait for a file that is being made if there is another place for them.
const OPEN_NS: u64 = 1_000_000_000;
/// The number of attempts to write the run's last frame, or a file's table of contents.
const TRIES_MAX: u32 = 3;
/// The message when the run's last frame could not be written.
const NOT_WHOLE: &str = "the last counts of the ledger could not be written, so that the last file \
                         has no table of contents: `catchment repair` closes it";
/// The interval between checks of the disk.
const LOOK_NS: u64 = 1_000_000_000;
/// The limit of a file's table of contents while the next file cannot be made, as a multiple of
/// [`Sizes::toc_bytes_max`](crate::Sizes::toc_bytes_max): it is kept in memory, 512 MiB at most.
/// That is hours of small frames, time to act on the alarm.
const TOCS_OF_LAST_FILE: u64 = 8;

/// The files of a run, and the work in progress on them.
pub(crate) struct RunFiles<S: FolderStore> {
    now_ns: u64,
    files: FrameFiles<S, FrameTag, Durability>,
    maker: FileMaker,
    /// The next file is being made, since then.
    opening: Option<Opening>,
    opening_ns: u64,
    look: Look,
    /// The number behind the newest frame.
    sequence: u64,
    /// The file of the newest frame.
    framed: Option<u64>,
    ledger: TargetLedger,
    frame_bytes: u64,
    looked_ns: u64,
    file_bytes_max: u64,
    toc_bytes_max: u64,
    file_time_ns: Option<u64>,
    retry_at_ns: u64,
    end: End,
    /// The number of attempts to write the last frame.
    last_frames: u32,
    /// Whether there was no room for it at the last attempt.
    last_refused: bool,
    /// Whether the frames hold all counts of the ledger. If they did not add up to the total in a
    /// table of contents, that would say that the ledger does not balance.
    is_whole: bool,
    list: FileList,
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
        let list = FileList::new(&identity);
        let variant = ledger.of_target().variant.number;
        let mut files = Self {
            now_ns,
            files: FrameFiles::new(first.store, config.write.buffer_bytes, HeaderOrder::Last),
            maker: FileMaker::new(config, identity, (schema, variant), first.entropy),
            opening: None,
            opening_ns: 0,
            look: Look::None,
            sequence: 0,
            framed: None,
            ledger,
            frame_bytes: config.frame_bytes_max(),
            looked_ns: 0,
            file_bytes_max: config.write.file_bytes,
            toc_bytes_max: config.sizes.toc_bytes_max as u64,
            file_time_ns: config.write.file_time_ns,
            retry_at_ns: 0,
            end: End::No,
            last_frames: 0,
            last_refused: false,
            is_whole: true,
            list,
        };
        let begun = files.maker.begin_first(first.id, now_ns)?;
        files.begin_file(begun);
        Ok(files)
    }

    /// The sink of frames.
    pub(crate) fn sink(&mut self) -> &mut FrameFiles<S, FrameTag, Durability> {
        &mut self.files
    }

    /// Handles the store's completions and submits what was requested of it. Returns the number of
    /// completions.
    pub(crate) fn poll(&mut self, now_ns: u64) -> u64 {
        self.now_ns = now_ns;
        let done = self.files.poll() as u64;
        let (writes, counters) = (self.files.writes(), &self.ledger.of_target().counters);
        counters.writes_begun.store(writes.begun, Relaxed);
        counters.writes_completed.store(writes.completed, Relaxed);
        done
    }

    /// Decides about a frame of at most `frame_bytes` bytes. `looked_for` is the file for which the
    /// disk was checked.
    pub(crate) fn admit(&mut self, frame_bytes: u64, looked_for: &mut Option<FileId>) -> Admission {
        let overdue = |file: &OpenFile| file.checkpoint_due(self.now_ns, true);
        if self.files.current.as_ref().is_some_and(overdue) && self.end == End::No {
            // Frames arrived so fast that one was always being written.
            if self.files.is_busy() || self.checkpoint_if_due(true) {
                return Admission::Wait;
            }
        }
        if !self.find_room(frame_bytes, looked_for) {
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

    /// Begins a frame that was admitted. Returns whether it is the first of its file, and the
    /// ledger's counts since the target's frame before.
    ///
    /// # Panics
    /// There is no file.
    pub(crate) fn begin_frame(&mut self, head: &FrameHead) -> (bool, Ledger) {
        let file = self.files.current.as_ref().expect("the frame was admitted");
        debug_assert!(self.maker.writes(&head.schema), "a file has the schema of its frames");
        let begins_file = self.framed != Some(file.file_id);
        self.framed = Some(file.file_id);
        self.sequence = head.info.numbers().1 + 1;
        self.files.begin(head.info, head.columns);
        (begins_file, self.ledger.begin(head))
    }

    /// A frame was streamed to its end.
    pub(crate) fn frame_copied(&mut self) {
        let end = self.files.current.as_ref().map_or(0, |file| file.end);
        if end + 2 * self.frame_bytes >= self.file_bytes_max && !self.is_next_refused() {
            self.maker.open_ahead(self.files.store());
        }
    }

    /// The target's ledger.
    pub(crate) fn ledger(&mut self) -> &mut TargetLedger {
        &mut self.ledger
    }

    /// Ensures that the current file can take a frame of that many bytes: if the disk has no room
    /// for it, the file made ahead becomes the current one, or there is none. False while the disk
    /// is being checked, which is done once for each file.
    fn find_room(&mut self, frame_bytes: u64, looked_for: &mut Option<FileId>) -> bool {
        loop {
            if !self.advance_look() {
                return false;
            }
            let Some(file) = self.files.current.as_ref().filter(|_| self.end == End::No) else {
                return true;
            };
            let (id, end, toc_bytes) = (file.id, file.end + frame_bytes, toc_bytes(file));
            let needed = end.saturating_sub(self.files.store().blocks_bytes(id));
            let spare = self.files.store().spare_bytes();
            let Some(spare) = spare.filter(|&spare| needed > 0 && spare < needed + toc_bytes)
            else {
                return true;
            };
            if looked_for.replace(id) != Some(id) {
                // The known free space may be old, or count twice what is being written.
                self.look = Look::Jobs;
                continue;
            }
            self.files.leave();
            if !self.use_ahead(frame_bytes) {
                self.fault(self.maker.full(needed, spare));
            }
        }
    }

    /// Continues in the file made ahead, if it has blocks for that many bytes.
    fn use_ahead(&mut self, bytes: u64) -> bool {
        if self.maker.has_ahead(self.files.store(), bytes)
            && let Some(Ok(next)) = self.maker.next(self.files.store(), 0, self.now_ns)
        {
            self.begin_file(next);
        }
        self.files.current.is_some()
    }

    fn begin_file(&mut self, Begun { file, header }: Begun) {
        // After a failed write the file can be taken before `take_opened` finds it.
        self.opening = None;
        self.ledger.of_target().counters.next_file_refused.store(0, Relaxed);
        self.ledger.of_target().add_file(file.path.clone());
        self.files.begin_file(file, header);
    }

    /// Continues the check of the disk for which something waits; true if there is none.
    fn advance_look(&mut self) -> bool {
        let current = self.files.current.as_ref();
        let Some((file, written)) = current.map(|file| (file.id, file.written_bytes())) else {
            self.look = Look::None;
            return true;
        };
        if self.look == Look::Jobs && !self.files.is_busy() {
            self.look = Look::Old;
        }
        let store = self.files.store();
        if self.look == Look::Old && !store.is_looking() {
            store.look(file, written);
            self.look = Look::Fresh;
        }
        if self.look == Look::Fresh && !store.is_looking() {
            self.look = Look::None;
        }
        self.look == Look::None
    }

    /// Checks the disk at intervals; leaves a file that is gone or was truncated.
    fn look_if_due(&mut self) {
        let Some(file) = &self.files.current else { return };
        let (id, written) = (file.id, file.written_bytes());
        match self.files.store().presence(id) {
            Presence::There => {}
            presence => return self.leave(presence),
        }
        if self.now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = self.now_ns;
            self.files.store().look(id, written);
        }
    }

    /// Leaves the current file, which is gone. Fragments recorded in files that were removed or
    /// truncated are lost, and counted; so are fragments that arrive before another file is open.
    fn leave(&mut self, presence: Presence) {
        let Some(mut file) = self.files.current.take() else { return };
        let reason = self.count_removed(&mut file, presence);
        self.files.closing.push(file);
        self.opening = None;
        self.fault(reason);
        match presence {
            // The disk and the folder are in order.
            Presence::Truncated => self.retry(),
            // The file ahead was made in the same folder.
            _ => self.maker.discard_ahead(self.files.store()),
        }
    }

    /// Counts the fragments recorded in a file that is gone or was truncated, and warns, since
    /// recording may resume too soon for the fault to be seen. Returns the reason.
    fn count_removed(&mut self, file: &mut OpenFile, presence: Presence) -> String {
        (file.failed, file.gone) = (true, true);
        let path = file.path.display();
        let reason = match presence {
            Presence::Removed { .. } => format!("{path} was removed while it was being written"),
            Presence::Truncated => format!("{path} was truncated while it was being written"),
            _ => format!("{path} is gone: it was moved, or its disk was unmounted"),
        };
        for (source, &own) in (0..).map(SourceId).zip(file.attached.fragments()) {
            let removed = match presence {
                Presence::Removed { others: false } => None,
                Presence::Removed { others: true } | Presence::Truncated => Some(own),
                Presence::There | Presence::Elsewhere => Some(0),
            };
            self.ledger.removed(source, removed);
        }
        self.ledger.warn_once(reason.clone());
        reason
    }

    /// Handles the disk's completions, and does what is due.
    pub(crate) fn look_after_disk(&mut self) {
        self.handle_completions();
        self.take_opened();
        if self.end != End::No {
            return;
        }
        if self.files.store().sync_due(self.now_ns) {
            self.sync();
        }
        self.look_if_due();
        self.switch_if_due();
        self.list.look_after(self.files.store(), &self.ledger, self.now_ns);
        self.checkpoint_if_due(false);
        let idle = self.files.current.is_none() && self.opening.is_none();
        if idle && self.now_ns >= self.retry_at_ns {
            self.retry();
        }
    }

    fn handle_completions(&mut self) {
        for completion in self.files.take_others() {
            match completion.kind {
                CompletionKind::Write => unreachable!("writes are handled by the jobs"),
                CompletionKind::Sync => self.synced(&completion),
                CompletionKind::Finished => self.finished(&completion),
            }
        }
        while let Some(ended) = self.files.next_ended() {
            self.job_ended(ended);
        }
        let mut index = 0;
        while index < self.files.closing.len() {
            let file = &self.files.closing[index];
            // In fault, a file waits for the next one or for the run's end: if there is no next
            // one, it gets the run's last increments.
            let last = file.header_recorded && self.files.current.is_none();
            let ready = !file.toc_begun && (!last || self.is_ending());
            if ready && !self.files.is_busy_with(file.id) {
                self.begin_toc(index);
            }
            index += 1;
        }
    }

    /// Writes a checkpoint if one is due and all frames have been written: it lists all frames
    /// before it. True if it was begun.
    fn checkpoint_if_due(&mut self, late: bool) -> bool {
        let Some(file) = self.files.current.as_ref().filter(|_| self.end == End::No) else {
            return false;
        };
        let at_rest = file.end == file.recorded_end;
        if !at_rest || !file.checkpoint_due(self.now_ns, late) {
            return false;
        }
        self.files.begin_checkpoint(self.sequence, &self.ledger.total(), self.now_ns);
        true
    }

    /// Handles a job that has ended, as have all older ones.
    fn job_ended(&mut self, Ended { file: id, kind, error }: Ended<FrameTag>) {
        if let Some(error) = &error {
            self.fail(id, error);
        }
        let file = self.files.file(id);
        match kind {
            JobKind::Header => {
                file.header_recorded = !file.failed;
                if file.header_recorded {
                    let (index, file_id) = (file.index, file.file_id);
                    self.list.begun(self.files.store(), index, file_id);
                }
            }
            JobKind::Frame(_, tag) if file.failed => {
                self.ledger.failed(&tag);
            }
            JobKind::Frame(written, tag) => {
                file.recorded(&written);
                file.attached.recorded(&tag.counts);
                let FrameSummary { info, frame_bytes, .. } = written.summary;
                self.ledger.recorded(&tag, &info, frame_bytes);
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
                let end = if error.is_some() { file.recorded_end } else { file_bytes };
                self.files.store().finish(id, FileEnd::Cut(end));
            }
            JobKind::Abandoned => unreachable!("a recorder streams its frames to their end"),
        }
    }

    /// Handles a failed write to that file: it gets no more frames, and the frames after the
    /// failure in it are lost.
    fn fail(&mut self, id: FileId, error: &std::io::Error) {
        if self.files.current.as_ref().is_some_and(|file| file.id == id) {
            self.files.leave();
        }
        let file = self.files.file(id);
        if !file.failed {
            file.failed = true;
            let reason = format!("cannot write {}: {error}", file.path.display());
            if self.files.current.is_none() {
                // Its blocks are allocated, whatever the state of the disk.
                self.use_ahead(2 * self.frame_bytes);
            }
            self.fault(reason);
        }
    }

    /// Handles a frame that could not be begun for lack of room.
    pub(crate) fn refused(&mut self, head: &FrameHead) {
        self.last_refused = self.end == End::LastFrame;
        self.ledger.refused(head);
    }

    fn fault(&mut self, reason: String) {
        self.ledger.set_state(State::Fault { reason });
        self.retry_at_ns = self.now_ns + RETRY_NS;
        match self.files.current {
            // An older file failed while it was being closed; the current one is intact.
            Some(_) => self.ledger.set_state(State::Recording),
            None => self.ledger.of_target().counters.next_file_refused.store(0, Relaxed),
        }
    }

    /// Requests the next file, if the disk has room for it.
    fn retry(&mut self) {
        // A file without a header will be deleted, and its number be free again.
        if !self.files.closing.iter().any(|file| file.failed && !file.header_recorded) {
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
            Opening::Retry => self.maker.room_bytes(),
        };
        let Some(next) = self.maker.next(self.files.store(), room_bytes, self.now_ns) else {
            return;
        };
        self.opening = None;
        match next {
            Ok(next) => {
                self.files.leave();
                self.begin_file(next);
                // An older file may have failed while there was none.
                self.ledger.set_state(State::Recording);
            }
            Err(reason) if self.files.current.is_some() => self.go_on(&reason),
            Err(reason) => self.fault(reason),
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
        let toc_bytes_max = self.toc_bytes_max.saturating_mul(TOCS_OF_LAST_FILE);
        let is_spent = |file: &&OpenFile| file.toc_bytes() >= toc_bytes_max;
        if self.is_next_refused()
            && let Some(file) = self.files.current.as_ref().filter(is_spent)
        {
            let reason = format!(
                "{} has all the frames that memory can list, and the next file cannot be made",
                file.path.display()
            );
            self.files.leave();
            self.fault(reason);
        }
    }

    fn switch_if_due(&mut self) {
        self.leave_if_spent();
        let Some(file) = self.files.current.as_ref().filter(|_| self.opening.is_none()) else {
            return;
        };
        let old = self.file_time_ns.is_some_and(|time| self.now_ns - file.opened_ns >= time);
        let full = file.end + self.frame_bytes > self.file_bytes_max
            || file.toc_bytes() >= self.toc_bytes_max;
        let (is_refused, is_tried) = (self.is_next_refused(), self.now_ns < self.retry_at_ns);
        // A file without frames is not left because of its age alone.
        if file.has_frames() && (old || full) && !(is_refused && is_tried) {
            self.open(if is_refused { Opening::Retry } else { Opening::Next });
        }
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
            self.files.store().finish(id, end);
            return;
        }
        if !self.is_whole {
            // It remains as a killed writer would leave it: readable, and repair can close it.
            let (id, end) = (file.id, FileEnd::Cut(file.recorded_end));
            self.ledger.warn_once(NOT_WHOLE.to_owned());
            self.files.store().finish(id, end);
            return;
        }
        let (id, total) = (file.id, self.ledger.total());
        let flags = TocFlags { run_ended: is_ending, ..TocFlags::of_total(&total) };
        self.files.begin_toc(id, &total, flags);
    }

    fn sync(&mut self) {
        let Some(file) = &mut self.files.current else { return };
        let id = file.id;
        if file.attached.begin_sync() && !self.files.store().sync(id, 0) {
            // Too many syncs are in progress: the next one covers this one, too.
            self.files.file(id).attached.sync_refused();
        }
    }

    fn synced(&mut self, completion: &Completion) {
        let mut files = self.files.current.iter_mut().chain(&mut self.files.closing);
        let Some(file) = files.find(|file| file.id == completion.file) else { return };
        match &completion.result {
            Ok(()) => {
                let durable = file.attached.sync_done();
                self.ledger.durable(&durable);
            }
            Err(error) => {
                let reason = format!("cannot sync {}: {error}", file.path.display());
                if self.files.current.as_ref().is_some_and(|file| file.id == completion.file) {
                    self.files.leave();
                }
                self.fault(reason);
            }
        }
    }

    fn finished(&mut self, completion: &Completion) {
        let index = self.files.closing.iter().position(|file| file.id == completion.file);
        let mut file = self.files.closing.swap_remove(index.expect("a finished file was closing"));
        if completion.found != Presence::There && file.header_recorded && !file.gone {
            // Since the last check, which was at most a second before the file was left.
            self.count_removed(&mut file, completion.found);
        }
        match &completion.result {
            Ok(()) => {
                self.ledger.durable(&file.attached.close_done());
                if completion.bytes > file.recorded_end {
                    self.list.closed(self.files.store(), &file, completion.bytes);
                }
                if !file.header_recorded && !file.gone {
                    self.maker.deleted(&file, self.ledger.of_target());
                }
            }
            // That has already been reported.
            Err(_) if file.gone => {}
            Err(error) if !file.header_recorded => {
                let path = file.path.display();
                self.ledger.warn_once(format!("cannot delete {path}: {error}"));
            }
            Err(error) => {
                let reason = format!("cannot close {}: {error}", file.path.display());
                self.fault(reason);
            }
        }
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
                self.look = Look::Jobs;
                self.end = End::Looking;
            }
            End::Looking => {
                if !self.advance_look() {
                    return Ending::Wait;
                }
                self.look_if_due();
                if self.files.current.is_none() && self.opening.is_none() {
                    self.retry();
                }
                self.end = End::Opening;
            }
            End::Opening => {
                // Frames that still fail are in the increments of the last one.
                if self.opening.is_some() || self.files.is_busy() {
                    return Ending::Wait;
                }
                self.reopen_last();
                self.last_frames += 1;
                self.end = End::LastFrame;
                return Ending::LastFrame;
            }
            End::LastFrame => {
                if self.files.is_busy() {
                    return Ending::Wait;
                }
                let carried = self.ledger.carried().total().iter().any(|(_, count)| count > 0);
                let unrecorded = std::mem::take(&mut self.last_refused) || carried;
                if unrecorded && self.last_frames < TRIES_MAX {
                    // The frame was not recorded: another file is tried.
                    if self.files.current.is_none() {
                        self.retry();
                    }
                    self.end = End::Opening;
                    return Ending::Again;
                }
                self.is_whole = !unrecorded;
                self.files.leave();
                self.end = End::Closing;
            }
            End::Closing => {
                if !self.files.closing.is_empty() {
                    return Ending::Wait;
                }
                self.list.end(self.files.store());
                self.end = End::Listing;
            }
            End::Listing => {
                return match self.list.has_ended(self.files.store(), &self.ledger) {
                    true => Ending::Ended,
                    false => Ending::Wait,
                };
            }
        }
        Ending::Again
    }

    /// If there is no next file, the last one gets what can still be written.
    fn reopen_last(&mut self) {
        if self.files.current.is_some() {
            return;
        }
        let waiting = |(_, file): &(usize, &OpenFile)| file.header_recorded && !file.toc_begun;
        // The newest one: its last frame follows all frames of the others.
        let files = self.files.closing.iter().enumerate().filter(waiting);
        if let Some((index, _)) = files.max_by_key(|(_, file)| file.index) {
            let mut file = self.files.closing.remove(index);
            file.reopen();
            self.files.current = Some(file);
        }
    }
}
