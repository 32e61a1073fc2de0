//! The disk of one writer thread.
//!
//! Durability (docs/decisions/disk-writes.md): a completed write has reached the device, but may
//! still be in its cache, and the file's list of blocks may be in memory only. Writes covered by a
//! [`Disk::sync`] are durable when its completion reports success: the sync begins when all earlier
//! accepted writes of the file have completed. [`Disk::finish`] makes the whole file durable,
//! including its name. The order of a frame's header and its data, on which readers rely, is the
//! caller's concern.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_agent::{Completion, CompletionKind, FileEnd, FileId, NewFile, Presence};
use catchment_model::limits::DISK_ALIGN_BYTES;
use catchment_telemetry::FillLevel;

use crate::aside::Aside;
use crate::buffer::{Buffer, Pool};
use crate::config::DiskConfig;
use crate::descriptors;
use crate::engine::{self, Done, Engine};
use crate::engine::{Slot, Slots, Step, Target};
use crate::error::DiskError;
use crate::event::{DiskSleeper, Event, IMPATIENT, Waker};
use crate::faults::{FaultControl, Faulty, number_of};
use crate::files::{self, Created};
use crate::helper::{self, DiskHelpers, Helpers, Job, Reply};
use crate::open_file::{FileState, OpenFile};
use crate::opening::Opening;
use crate::room::{Expected, Room, RoomEstimate};
use crate::stats::DiskStats;

/// The files and buffers of one writer thread.
///
/// Operations are queued by [`write`](Self::write), [`sync`](Self::sync) and
/// [`finish`](Self::finish), and reach the kernel at the next [`poll`](Self::poll). Dropping a disk
/// waits for operations in progress, for at most a minute, and deletes a file opened ahead that was
/// not taken; unfinished files stay as a killed writer would leave them.
pub struct Disk {
    // In this order: the engine must end before the slots, whose memory and files it uses.
    engine: Box<dyn Engine>,
    slots: Slots,
    pool: Arc<Pool>,
    event: Arc<Event>,
    stats: Arc<DiskStats>,
    helpers: Helpers,
    faults: Option<FaultControl>,
    note: Option<String>,
    done: Vec<Done>,
    files: Vec<OpenFile>,
    ahead: Opening,
    /// Files opened ahead that are being removed.
    removing: usize,
    /// Whether something may complete without an event.
    is_impatient: bool,
    /// The file to make once the unwanted one has been opened and removed.
    next: Option<NewFile>,
    /// The file system of the first file.
    device: Option<u64>,
    pub(crate) aside: Aside,
    syncs: Vec<WaitingSync>,
    syncs_unfinished: usize,
    next_file: u64,
    next_order: u64,
    preallocation: files::Preallocation,
    room: RoomEstimate,
    sync_interval_ns: u64,
    last_sync_ns: Option<u64>,
    unsynced: bool,
}

/// Files of one disk at a time that are open or being finished.
pub const FILES_MAX: usize = 64;
/// Syncs of one disk that are requested and not completed.
pub const SYNCS_MAX: usize = 16;

struct WaitingSync {
    file: u64,
    token: u64,
    order: u64,
}

impl Disk {
    /// Allocates and touches the memory, sets up the engine and starts the helper threads.
    ///
    /// # Errors
    /// A value out of range, no memory or threads, or no io_uring although it was required.
    pub fn new(config: DiskConfig) -> Result<Self, DiskError> {
        config.check()?;
        descriptors::hold();
        let resource = |what| move |source| DiskError::Resource { what, source };
        let slots = config.buffer_count + SYNCS_MAX;
        let event = match &config.beside {
            Some(waker) => waker.event(),
            None => Arc::new(Event::new().map_err(resource("an event"))?),
        };
        let fill = Arc::new(FillLevel::new(config.buffers(), config.memory_bytes()));
        let (bytes, count) = (config.buffer_bytes, config.buffer_count);
        let pool = Pool::new(bytes, count, Arc::clone(&fill));
        let pool = Arc::new(pool.map_err(resource("memory for the buffers"))?);
        let mut chosen = engine::choose(&config, slots, &pool, &event)?;
        if let Some(plan) = &config.faults {
            chosen.engine = Box::new(Faulty::new(chosen.engine, plan.clone(), slots));
        }
        let faults = config.faults.as_ref().map(|plan| plan.control.clone());
        let helpers = config.helpers.clone();
        let helpers = helpers.map_or_else(|| DiskHelpers::start(1, &config), Ok)?;
        let helpers = Helpers::new(helpers, Arc::clone(&event), faults.clone());
        Ok(Self {
            stats: Arc::new(DiskStats::new(chosen.engine.name(), fill)),
            engine: chosen.engine,
            slots: Slots::new(slots),
            pool,
            event,
            helpers,
            faults,
            note: chosen.note,
            done: Vec::with_capacity(slots),
            files: Vec::with_capacity(FILES_MAX),
            ahead: Opening::None,
            removing: 0,
            is_impatient: false,
            next: None,
            device: None,
            aside: Aside::default(),
            syncs: Vec::with_capacity(SYNCS_MAX),
            syncs_unfinished: 0,
            next_file: 0,
            next_order: 0,
            preallocation: files::Preallocation {
                step_bytes: config.preallocate_bytes,
                file_bytes: config.file_bytes,
                keeps_reserve: config.keeps_reserve,
            },
            room: RoomEstimate::default(),
            sync_interval_ns: config.sync_interval_ns,
            last_sync_ns: None,
            unsynced: false,
        })
    }

    /// The engine in use: `io_uring, registered buffers`, `io_uring` or `pwrite`.
    pub fn engine(&self) -> &'static str {
        self.stats.engine()
    }

    /// Why the engine is not the best one, if it is not.
    pub fn engine_note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Figures for the live view.
    pub fn stats(&self) -> Arc<DiskStats> {
        Arc::clone(&self.stats)
    }

    /// The handle with which other threads wake this disk's [`sleeper`](Self::sleeper).
    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.event))
    }

    /// The handle with which a thread sleeps until this disk, or one of its wakers, has something
    /// for it.
    pub fn sleeper(&self) -> DiskSleeper {
        DiskSleeper::of(Arc::clone(&self.event))
    }

    /// Makes a file now, and preallocates its first step. Blocks until the disk is done: for the
    /// first file of a run. An existing file is never touched.
    ///
    /// # Errors
    /// The file exists, or cannot be made; too many files.
    pub fn create(&mut self, path: &Path) -> Result<FileId, DiskError> {
        self.check_room()?;
        let created = files::create(path, self.preallocation, self.faults.as_ref())?;
        if self.device.is_none() {
            self.device = files::device_of_folder(path);
        }
        Ok(self.adopt(created))
    }

    /// Requests that a helper thread make and preallocate a file for a later
    /// [`take_opened`](Self::take_opened), once an unwanted one has been removed. Does nothing if
    /// one is already ahead.
    pub(crate) fn ask_for(&mut self, new: NewFile) {
        if self.ahead.is_unwanted() {
            self.next = Some(new);
        } else if self.ahead.path().is_none() {
            let path = new.path.clone();
            let job = Job::Open { new, device: self.device, how: self.preallocation };
            self.ahead = match self.helpers.send(job) {
                Ok(()) => Opening::Asked(path),
                Err(error) => {
                    // Makes the caller check again, and find the error.
                    self.event.signal();
                    Opening::Failed(error)
                }
            };
        }
    }

    /// The file opened ahead; `None` while it is not ready, or if none was requested.
    /// [`poll`](Self::poll) notices the helper's answer.
    pub fn take_opened(&mut self) -> Option<Result<FileId, DiskError>> {
        match std::mem::take(&mut self.ahead) {
            Opening::Opened(created) => {
                if let Err(error) = self.check_room() {
                    self.ahead = Opening::Opened(created);
                    return Some(Err(error));
                }
                Some(Ok(self.adopt(created)))
            }
            Opening::Failed(error) => Some(Err(error)),
            other => {
                self.ahead = other;
                None
            }
        }
    }

    /// The end of the blocks of the file opened ahead; none while it is not ready.
    pub fn opened_bytes(&self) -> Option<u64> {
        self.ahead.blocks_bytes()
    }

    /// Abandons the file opened ahead, if there is one, and has a helper thread remove it.
    pub fn discard_opened(&mut self) {
        self.next = None;
        let Some(created) = self.ahead.discard() else { return };
        self.removing += usize::from(self.helpers.send(Job::Remove(created)).is_ok());
    }

    /// Whether a file that was there and abandoned is not removed yet. [`poll`](Self::poll) notices
    /// its end.
    pub fn is_removing(&self) -> bool {
        self.removing > 0
    }

    /// Requests that a helper thread check the free space and whether the file still exists with
    /// its first `written_bytes`, unless a check is in progress. [`poll`](Self::poll) notices its
    /// answer.
    ///
    /// # Errors
    /// The helper has ended.
    ///
    /// # Panics
    /// A file that is not open: a programming error.
    pub fn look(&mut self, file: FileId, written_bytes: u64) -> Result<(), DiskError> {
        if self.room.is_looking() {
            return Ok(());
        }
        let ahead = self.ahead.path().map(Path::to_owned);
        let open = self.open_file(file);
        let written_before = std::mem::replace(&mut open.written_bytes, written_bytes);
        let (handle, path) = (Arc::clone(open.handle()), open.path.clone());
        let expected = Expected { file: handle, path, written_bytes, written_before, ahead };
        self.helpers.send(Job::Look { file: file.0, expected })?;
        self.room.look();
        Ok(())
    }

    /// As [`Disk::look`], of the free space of a folder in which no file is open.
    ///
    /// # Errors
    /// The helper has ended.
    pub fn look_at(&mut self, folder: &Path) -> Result<(), DiskError> {
        if !self.room.is_looking() {
            self.helpers.send(Job::LookAt { folder: folder.to_owned() })?;
            self.room.look();
        }
        Ok(())
    }

    /// Checks the free space of a folder in which files will be made. Blocks until the disk is
    /// done: for the start of a run. If files are made there later, it must be on the same file
    /// system.
    pub fn begin_in(&mut self, folder: &Path) {
        let (room, device) = helper::look_at(folder, self.faults.as_ref());
        self.looked_at(room, device);
    }

    fn looked_at(&mut self, room: Option<Room>, device: Option<u64>) {
        self.room.looked(room);
        self.device = self.device.or(device);
    }

    /// Whether a check is in progress.
    pub fn is_looking(&self) -> bool {
        self.room.is_looking()
    }

    /// The space left for data: the value of the last check, less what files have taken since.
    /// Writes in progress at that check count twice until the next one. None if unknown.
    pub fn spare_bytes(&self) -> Option<u64> {
        self.room.spare_bytes(self.preallocation.keeps_reserve)
    }

    /// The end of an open file's blocks: up to there it can be written on a full disk.
    ///
    /// # Panics
    /// A file that is not open: a programming error.
    pub fn blocks_bytes(&mut self, file: FileId) -> u64 {
        self.open_file(file).blocks_bytes()
    }

    /// Whether the file still existed at the last check.
    ///
    /// # Panics
    /// A file that is not open: a programming error.
    pub fn presence(&mut self, file: FileId) -> Presence {
        self.open_file(file).presence
    }

    /// A free buffer, if there is one.
    pub fn try_buffer(&mut self) -> Option<Buffer> {
        self.pool.take()
    }

    /// Queues a write of the buffer's first `bytes` to `offset`. The buffer is free again when the
    /// write has completed, with or without an error.
    ///
    /// # Panics
    /// An offset or a length that is not a multiple of 4 KiB, a length of 0 or beyond the buffer, a
    /// buffer of another disk, or a file that is not open: programming errors.
    pub fn write(&mut self, file: FileId, offset: u64, buffer: Buffer, bytes: usize, token: u64) {
        let align = DISK_ALIGN_BYTES as u64;
        let length = bytes as u64;
        assert!(offset.is_multiple_of(align), "offset {offset} is a multiple of {align}");
        assert!(length.is_multiple_of(align), "length {length} is a multiple of {align}");
        assert!((1..=buffer.len()).contains(&bytes), "{bytes} bytes of {}", buffer.len());
        assert!(buffer.is_of(&self.pool), "the buffer is one of this disk");
        let end = offset.checked_add(length).filter(|&end| end <= i64::MAX as u64);
        let end = end.expect("the end of a write fits a file offset");
        let order = self.take_order();
        let open = self.open_file(file);
        let new_bytes = open.begin_write(end);
        let target = Target { handle: Arc::clone(open.handle()), file: file.0, token, order };
        let mut slot = Slot::write(target, buffer, offset, length, open.direct);
        (slot.new_bytes, slot.may_block) = (new_bytes, open.may_block);
        let direct = open.direct;
        self.room.written(new_bytes);
        self.ask_for_blocks(file);
        self.unsynced = true;
        self.stats.set_direct(direct);
        self.begin(slot);
    }

    /// Queues a sync of the file's data (fdatasync). It begins when all earlier accepted writes of
    /// this file have completed, and later writes do not wait for it. It fails if any of those
    /// writes, or an earlier sync of the file, has failed.
    ///
    /// # Errors
    /// [`SYNCS_MAX`] syncs are not completed yet.
    ///
    /// # Panics
    /// A file that is not open: a programming error.
    pub fn sync(&mut self, file: FileId, token: u64) -> Result<(), DiskError> {
        if self.syncs_unfinished >= SYNCS_MAX {
            return Err(DiskError::TooManySyncs { limit: SYNCS_MAX });
        }
        let order = self.take_order();
        self.open_file(file);
        self.syncs_unfinished += 1;
        self.unsynced = false;
        self.syncs.push(WaitingSync { file: file.0, token, order });
        Ok(())
    }

    /// Whether a write was queued or has completed since the last sync was queued, and the
    /// configured interval has passed since this last returned true: what a write that was in
    /// progress then belongs to is durable for whoever counts completions only with another sync.
    /// `now_ns` is from any clock that does not go back.
    pub fn sync_due(&mut self, now_ns: u64) -> bool {
        let last_ns = *self.last_sync_ns.get_or_insert(now_ns);
        let due = self.unsynced && now_ns.saturating_sub(last_ns) >= self.sync_interval_ns;
        if due {
            self.last_sync_ns = Some(now_ns);
        }
        due
    }

    /// Closes a file: when all its accepted operations have completed, a helper thread cuts it to
    /// `final_bytes`, syncs it, closes it and syncs its folder. This gives a completion of kind
    /// [`Finished`](CompletionKind::Finished). It fails if any of these steps, or an earlier sync
    /// of the file, has failed; after a failed write, the caller must choose `final_bytes` to
    /// exclude it.
    ///
    /// # Panics
    /// A file that is not open: a programming error.
    pub fn finish(&mut self, file: FileId, final_bytes: u64) {
        self.end(file, FileEnd::Cut(final_bytes));
    }

    /// As [`finish`](Self::finish), or with removal of the file.
    pub(crate) fn end(&mut self, file: FileId, end: FileEnd) {
        self.open_file(file).state = FileState::Closing(end);
    }

    /// Appends the completions that have arrived, and passes queued operations to the kernel. Never
    /// blocks. Returns the number of completions. [`sleeper`](Self::sleeper) waits for more.
    pub fn poll(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        self.pump(completions);
        completions.len() - before
    }

    /// Accepted operations without a completion so far: writes, syncs and finishes.
    pub fn pending(&self) -> usize {
        let closing = self.files.iter().filter(|file| file.state != FileState::Open).count();
        self.slots.busy() + self.syncs.len() + closing
    }

    pub(crate) fn pump(&mut self, completions: &mut Vec<Completion>) {
        let mut done = std::mem::take(&mut self.done);
        self.engine.reap(&mut done);
        for finished in done.drain(..) {
            self.advance(finished, completions);
        }
        self.done = done;
        while let Some(reply) = self.helpers.reply() {
            self.take_reply(reply, completions);
        }
        self.begin_syncs(completions);
        self.begin_finishes(completions);
        self.engine.submit();
        if self.engine.is_impatient() != self.is_impatient {
            self.is_impatient = !self.is_impatient;
            self.event.set_impatient(self.is_impatient);
        }
    }

    /// Whether nothing is in progress, in the kernel or at a helper, and no file is open ahead:
    /// dropping the disk then waits for nothing.
    pub fn is_idle(&self) -> bool {
        let preallocating = self.files.iter().any(|open| open.preallocating);
        let is_opening = self.ahead.path().is_some() || self.is_removing();
        let at_helpers = preallocating || self.is_looking() || self.text_under_way();
        self.pending() == 0 && !is_opening && !at_helpers
    }

    fn advance(&mut self, done: Done, completions: &mut Vec<Completion>) {
        let slot = self.slots.get(done.slot);
        match slot.advance(done.result) {
            Step::Again => {}
            Step::NotDirect => {
                slot.direct = false;
                let cleared = files::set_direct(&slot.target.handle, false);
                let file = slot.target.file;
                if let Some(open) = self.files.iter_mut().find(|open| open.id == file) {
                    open.direct = false;
                }
                self.stats.set_direct(false);
                if let Err(error) = cleared {
                    return self.complete(done.slot, Err(error), completions);
                }
            }
            Step::Over(result) => return self.complete(done.slot, result, completions),
        }
        let op = self.slots.get(done.slot).op(done.slot);
        self.engine.push(op);
    }

    fn complete(&mut self, index: u32, result: io::Result<()>, completions: &mut Vec<Completion>) {
        let Slot { target, buffer, offset, bytes, new_bytes, .. } = self.slots.remove(index);
        self.room.write_ended(new_bytes);
        let error = result.as_ref().err().map(number_of);
        let open = self.files.iter_mut().find(|open| open.id == target.file);
        let kind = if buffer.is_some() {
            if let (Some(open), Some(error)) = (open, error) {
                open.write_failed(offset, error);
            }
            // Who writes did not know of it when the last sync was queued.
            self.unsynced = true;
            CompletionKind::Write
        } else {
            self.syncs_unfinished -= 1;
            if let Some(open) = open {
                open.sync_error = open.sync_error.or(error);
            }
            CompletionKind::Sync
        };
        let (file, token) = (FileId(target.file), target.token);
        let found = Presence::There;
        completions.push(Completion { kind, file, offset, bytes, token, result, found });
    }

    fn take_reply(&mut self, reply: Reply, completions: &mut Vec<Completion>) {
        match reply {
            Reply::Opened(result) => {
                let (is_unwanted, next) = (self.ahead.is_unwanted(), self.next.take());
                self.ahead.ended(result);
                if is_unwanted {
                    self.discard_opened();
                }
                self.room.preallocated(self.ahead.blocks_bytes().unwrap_or(0));
                if let Some(new) = next {
                    self.ask_for(new);
                }
            }
            Reply::Removed => self.removing -= 1,
            Reply::Preallocated { file, from, result } => {
                let Some(open) = self.files.iter_mut().find(|open| open.id == file) else { return };
                let step_bytes = self.preallocation.step_bytes;
                self.room.preallocated(open.preallocated(from, step_bytes, result));
            }
            Reply::Looked { file, room, presence } => {
                if let Some(open) = self.files.iter_mut().find(|open| open.id == file) {
                    open.presence = presence;
                }
                self.room.looked(room);
            }
            Reply::LookedAt { room, device } => self.looked_at(room, device),
            Reply::Finished { file, result, found } => {
                self.finished((file, found), result, completions);
            }
            Reply::Appended { text, result } => self.text_appended(text, result),
        }
    }

    pub(crate) fn helper_job(&self, job: Job) -> Result<(), DiskError> {
        self.helpers.send(job)
    }

    /// A file has ended; includes its state before the end.
    fn finished(
        &mut self,
        (file, found): (u64, Presence),
        result: io::Result<()>,
        completions: &mut Vec<Completion>,
    ) {
        let Some(index) = self.files.iter().position(|open| open.id == file) else { return };
        let open = self.files.swap_remove(index);
        let FileState::Finishing(end) = open.state else { return };
        let bytes = match end {
            FileEnd::Cut(bytes) => bytes,
            FileEnd::Delete => 0,
        };
        let earlier = open.sync_error.map(io::Error::from_raw_os_error);
        let result = result.and(earlier.map_or(Ok(()), Err));
        let kind = CompletionKind::Finished;
        completions.push(Completion {
            kind,
            file: FileId(file),
            offset: 0,
            bytes,
            token: 0,
            result,
            found,
        });
    }

    fn begin_syncs(&mut self, completions: &mut Vec<Completion>) {
        let mut index = 0;
        while index < self.syncs.len() {
            let WaitingSync { file, token, order } = self.syncs[index];
            if self.slots.any_write_before(file, order) {
                index += 1;
                continue;
            }
            self.syncs.remove(index);
            let Some(open) = self.files.iter().find(|open| open.id == file) else { continue };
            match open.write_error.or(open.sync_error) {
                None => {
                    let handle = Arc::clone(open.handle());
                    self.begin(Slot::sync(Target { handle, file, token, order }));
                }
                // It is not tried: the end of the file can still succeed without the failed part.
                Some(error) => {
                    self.syncs_unfinished -= 1;
                    let (kind, file) = (CompletionKind::Sync, FileId(file));
                    let (offset, bytes, found) = (0, 0, Presence::There);
                    let result = Err(io::Error::from_raw_os_error(error));
                    completions.push(Completion {
                        kind,
                        file,
                        offset,
                        bytes,
                        token,
                        result,
                        found,
                    });
                }
            }
        }
    }

    fn begin_finishes(&mut self, completions: &mut Vec<Completion>) {
        for index in (0..self.files.len()).rev() {
            let open = &self.files[index];
            let FileState::Closing(end) = open.state else { continue };
            let file = open.id;
            let syncs = self.syncs.iter().any(|sync| sync.file == file);
            // A preallocation after the cut would extend the file again.
            if open.preallocating || syncs || self.slots.any_of(file) {
                continue;
            }
            let Some(handle) = self.files[index].take_handle() else { continue };
            let open = &self.files[index];
            let path = open.path.clone();
            let written_bytes = if let FileEnd::Cut(bytes) = end { bytes } else { 0 };
            let written_before = open.written_bytes.min(written_bytes);
            let ahead = self.ahead.path().map(Path::to_owned);
            let expected = Expected { file: handle, path, written_bytes, written_before, ahead };
            let blocks_bytes = open.blocks_bytes();
            self.files[index].state = FileState::Finishing(end);
            let job = Job::Finish { file, expected, end, blocks_bytes };
            if self.helpers.send(job).is_err() {
                let gone = Err(io::Error::other(DiskError::HelperGone));
                self.finished((file, Presence::There), gone, completions);
            }
        }
    }

    fn begin(&mut self, slot: Slot) {
        let index = self.slots.put(slot);
        let op = self.slots.get(index).op(index);
        self.engine.push(op);
    }

    fn ask_for_blocks(&mut self, file: FileId) {
        let how = self.preallocation;
        let open = self.open_file(file);
        let Some(from) = open.wants_blocks(how.file_bytes) else { return };
        open.preallocating = true;
        let handle = Arc::clone(open.handle());
        let job = Job::Preallocate { file: file.0, handle, from, how };
        if self.helpers.send(job).is_err() {
            self.open_file(file).stop_preallocating();
        }
    }

    fn adopt(&mut self, created: Created) -> FileId {
        let id = self.next_file;
        self.next_file += 1;
        self.stats.set_direct(created.direct);
        if !created.preallocates && self.preallocation.step_bytes > 0 {
            self.stats.set_refuses_blocks();
        }
        self.files.push(OpenFile::new(id, created));
        FileId(id)
    }

    fn check_room(&self) -> Result<(), DiskError> {
        if self.files.len() < FILES_MAX {
            return Ok(());
        }
        Err(DiskError::TooManyFiles { limit: FILES_MAX })
    }

    fn open_file(&mut self, file: FileId) -> &mut OpenFile {
        let open = self.files.iter_mut().find(|open| open.id == file.0);
        let open = open.filter(|open| open.state == FileState::Open);
        open.expect("the file is open")
    }

    fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.engine.let_go();
        self.discard_opened();
        let mut completions = Vec::new();
        let deadline = Instant::now() + DROP_WAIT_MAX;
        self.pump(&mut completions);
        while !self.is_idle() && Instant::now() < deadline {
            // Not on the event: the thread of the disks beside this one may sleep on it.
            std::thread::sleep(IMPATIENT);
            self.pump(&mut completions);
        }
        if self.slots.busy() > 0 {
            // The kernel may still read from these buffers: keep their memory and files for ever.
            std::mem::forget(std::mem::replace(&mut self.slots, Slots::new(0)));
            self.engine.abandon();
        }
        if !self.is_idle() {
            self.helpers.abandon();
        }
        if self.is_impatient {
            self.event.set_impatient(false);
        }
    }
}

/// The longest time that dropping a disk waits for a hanging one.
const DROP_WAIT_MAX: Duration = Duration::from_secs(60);
