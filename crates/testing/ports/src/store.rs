//! A disk in memory, which takes its time and fails as its seed says.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_agent::{
    Completion, CompletionKind, FileEnd, FileId, FolderStore, NewFile, OpenError, Presence, Store,
};
use catchment_fixtures::Random;
use parking_lot::Mutex;

use crate::VirtualClock;
use crate::files::MemoryFiles;
use crate::store_faults::{StoreFault, StoreFaults, StoreTimes};

/// Syncs that may be under way.
const SYNCS_MAX: usize = 16;
/// How long an operation hangs.
const HANG_NS: std::ops::Range<u64> = 5_000_000_000..120_000_000_000;

/// What happened in a store, for those who watch it. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct StoreWatch(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// When the next operation completes.
    due_ns: AtomicU64,
    /// Writes under way, and the most syncs that were so at once.
    writes: AtomicU64,
    syncs_max: AtomicU64,
    faults: Mutex<Vec<(StoreFault, u64)>>,
    /// What goes wrong from now on.
    to_come: Mutex<StoreFaults>,
    completed: Mutex<Vec<(CompletionKind, u64, u64, bool)>>,
}

impl StoreWatch {
    /// When something next completes; `u64::MAX` if nothing is under way.
    pub fn due_ns(&self) -> u64 {
        match self.0.due_ns.load(Relaxed) {
            0 => u64::MAX,
            due_ns => due_ns,
        }
    }

    /// The number of writes under way.
    pub fn writes(&self) -> u64 {
        self.0.writes.load(Relaxed)
    }

    /// The most syncs that were under way at once.
    pub fn syncs_max(&self) -> u64 {
        self.0.syncs_max.load(Relaxed)
    }

    /// Has other things go wrong from now on.
    pub fn set_faults(&self, faults: StoreFaults) {
        *self.0.to_come.lock() = faults;
    }

    fn faults(&self) -> StoreFaults {
        *self.0.to_come.lock()
    }

    /// What went wrong since this was last asked, each with the file's number.
    pub fn take_faults(&self) -> Vec<(StoreFault, u64)> {
        std::mem::take(&mut self.0.faults.lock())
    }

    /// What completed since this was last asked: kind, file, offset and whether it was done.
    pub fn take_completed(&self) -> Vec<(CompletionKind, u64, u64, bool)> {
        std::mem::take(&mut self.0.completed.lock())
    }
}

/// A store in memory, whose operations complete in virtual time, in any order.
pub struct MemoryStore {
    clock: VirtualClock,
    chance: Random,
    times: StoreTimes,
    files: MemoryFiles,
    /// The folder whose files take the room of this disk, and all of it.
    disk: (PathBuf, u64),
    watch: StoreWatch,
    buffers: Arc<Mutex<usize>>,
    buffer_bytes: usize,
    open: Vec<OpenFile>,
    under_way: Vec<UnderWay>,
    order: u64,
    opening: Option<(u64, NewFile)>,
    /// Blocks of the file that was made ahead.
    opened_bytes: Option<u64>,
    /// A look that is under way: when it ends, at which file if at one, and what was written of
    /// that.
    looking: Option<(u64, Option<usize>, u64)>,
    spare_bytes: Option<u64>,
    text: Option<Text>,
    /// What comes while a text is appended, or was refused, and goes with the next.
    waiting: String,
    text_error: Option<String>,
    synced_ns: u64,
    unsynced: bool,
}

/// Lines that are being appended to a file.
struct Text {
    due_ns: u64,
    path: PathBuf,
    header: String,
    lines: String,
}

struct OpenFile {
    path: PathBuf,
    presence: Presence,
    /// Whether a write to it has failed, and whether a sync has.
    write_failed: bool,
    sync_failed: bool,
    allocated_bytes: u64,
    end: u64,
}

/// A buffer of a [`MemoryStore`].
#[derive(Debug)]
pub struct MemoryBuffer {
    bytes: Vec<u8>,
    free: Arc<Mutex<usize>>,
}

struct UnderWay {
    due_ns: u64,
    order: u64,
    completion: Completion,
    /// Of a write: what is written, and whether it fails.
    buffer: Option<MemoryBuffer>,
    fails: bool,
    /// Of a finish.
    end: Option<FileEnd>,
}

impl MemoryStore {
    /// A store with so many buffers of that size.
    pub fn new(
        (clock, seed): (VirtualClock, u64),
        (buffer_count, buffer_bytes): (usize, usize),
        times: StoreTimes,
    ) -> Self {
        let watch = StoreWatch::default();
        watch.set_faults(times.faults);
        Self {
            clock,
            chance: Random::new(seed),
            times,
            files: MemoryFiles::default(),
            disk: (PathBuf::new(), DISK_BYTES),
            watch,
            buffers: Arc::new(Mutex::new(buffer_count)),
            buffer_bytes,
            open: Vec::new(),
            under_way: Vec::new(),
            order: 0,
            opening: None,
            opened_bytes: None,
            looking: None,
            spare_bytes: None,
            text: None,
            waiting: String::new(),
            text_error: None,
            synced_ns: 0,
            unsynced: false,
        }
    }

    /// The same store on a disk that has files already.
    #[must_use]
    pub fn on(self, files: &MemoryFiles) -> Self {
        Self { files: files.clone(), ..self }
    }

    /// The same store on a disk of that size, which only files in that folder take room of.
    #[must_use]
    pub fn sized(self, folder: &Path, bytes: u64) -> Self {
        Self { disk: (folder.to_owned(), bytes), ..self }
    }

    /// What was written.
    pub fn files(&self) -> MemoryFiles {
        self.files.clone()
    }

    /// What happens in it.
    pub fn watch(&self) -> StoreWatch {
        self.watch.clone()
    }

    /// Makes a file at once.
    pub fn create(&mut self, path: &Path) -> FileId {
        self.files.create(path);
        let allocated_bytes = self.room().min(self.times.allocate_bytes);
        self.files.allocate(path, allocated_bytes);
        if let Some(spare_bytes) = &mut self.spare_bytes {
            *spare_bytes = spare_bytes.saturating_sub(allocated_bytes);
        }
        let path = path.to_owned();
        let (presence, end) = (Presence::There, 0);
        let (write_failed, sync_failed) = (false, false);
        self.open.push(OpenFile {
            path,
            presence,
            write_failed,
            sync_failed,
            allocated_bytes,
            end,
        });
        FileId(self.open.len() as u64 - 1)
    }

    /// Bytes that are free.
    fn room(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        match self.watch.faults().full_ns {
            Some((from, until)) if (from..until).contains(&now_ns) => 0,
            _ => self.disk.1.saturating_sub(self.files.used_bytes(&self.disk.0)),
        }
    }

    fn happens(&mut self, fault: StoreFault, per_million: u64, file: u64) -> bool {
        let happens = per_million > 0 && self.chance.below(1_000_000) < per_million;
        if happens {
            self.watch.0.faults.lock().push((fault, file));
        }
        happens
    }

    /// When an operation completes that begins now.
    fn due_ns(&mut self, longest_ns: u64) -> u64 {
        let hangs = self.watch.faults().hangs;
        self.due_unless_hung_ns(longest_ns, hangs)
    }

    /// The same, where so many of a million hang.
    fn due_unless_hung_ns(&mut self, longest_ns: u64, hangs: u64) -> u64 {
        let mut took_ns = self.chance.below(longest_ns + 1);
        if self.happens(StoreFault::Hang, hangs, 0) {
            took_ns = HANG_NS.start + self.chance.below(HANG_NS.end - HANG_NS.start);
        }
        self.clock.now_ns() + took_ns
    }

    fn begin(&mut self, completion: Completion, rest: (Option<MemoryBuffer>, Option<FileEnd>)) {
        let faults = self.watch.faults();
        let hangs =
            if rest.1.is_some() { faults.hangs.max(faults.finish_hangs) } else { faults.hangs };
        let mut due_ns = self.due_unless_hung_ns(self.times.operation_ns_max, hangs);
        self.order += 1;
        let (order, (buffer, end)) = (self.order, rest);
        let write_errors = self.watch.faults().write_errors;
        let fails =
            buffer.is_some() && write_errors > 0 && self.chance.below(1_000_000) < write_errors;
        if fails {
            due_ns += self.chance.below(self.times.retries_ns_max + 1);
        }
        self.under_way.push(UnderWay { due_ns, order, completion, buffer, fails, end });
        self.show_due();
    }

    fn show_due(&self) {
        let writes = self.under_way.iter().filter(|one| one.buffer.is_some()).count();
        self.watch.0.writes.store(writes as u64, Relaxed);
        let now_ns = self.clock.now_ns();
        let operations = self.under_way.iter().map(|operation| match self.may_end(operation) {
            true => operation.due_ns,
            false => u64::MAX,
        });
        let others = [
            self.opening.as_ref().map(|(due_ns, _)| *due_ns).filter(|&due_ns| due_ns > now_ns),
            self.looking.map(|(due_ns, ..)| due_ns),
            self.text.as_ref().map(|text| text.due_ns),
        ];
        let due_ns = operations.chain(others.into_iter().flatten()).min();
        self.watch.0.due_ns.store(due_ns.filter(|&due_ns| due_ns < u64::MAX).unwrap_or(0), Relaxed);
    }

    /// Whether what an operation waits for has ended: of a sync the writes before it, of an end
    /// all.
    fn may_end(&self, operation: &UnderWay) -> bool {
        let file = operation.completion.file;
        let older =
            |other: &UnderWay| other.completion.file == file && other.order < operation.order;
        operation.buffer.is_some() || !self.under_way.iter().any(older)
    }

    fn complete(&mut self, operation: UnderWay) -> Completion {
        let UnderWay { mut completion, buffer, fails, end, order, .. } = operation;
        let index = completion.file.0 as usize;
        if let Some(end) = end {
            let written = if let FileEnd::Cut(bytes) = end { bytes } else { 0 };
            completion.found = self.presence_now(index, written);
        }
        let done = match (buffer, end) {
            (Some(buffer), _) => {
                self.unsynced = true;
                let (offset, length) = (completion.offset, completion.bytes as usize);
                self.write_now((index, fails), order, offset, &buffer[..length])
            }
            (None, Some(end)) => self.finish_now(index, end),
            (None, None) => self.sync_now(index, order),
        };
        let kind = completion.kind;
        let seen = (kind, completion.file.0, completion.offset, done.is_ok());
        self.watch.0.completed.lock().push(seen);
        completion.result = done;
        completion
    }

    fn write_now(
        &mut self,
        (index, fails): (usize, bool),
        order: u64,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let faults = self.watch.faults();
        let file = index as u64;
        let end = offset + bytes.len() as u64;
        let needs = end.saturating_sub(self.open[index].allocated_bytes.max(self.open[index].end));
        let is_full = needs > 0 && self.room() < needs;
        if is_full || fails {
            let fault = if is_full { StoreFault::Full } else { StoreFault::WriteError };
            self.watch.0.faults.lock().push((fault, file));
            self.open[index].write_failed = true;
            self.write_sectors(index, order, offset, bytes);
            return Err(if is_full { full() } else { failed("a write") });
        }
        let path = self.open[index].path.clone();
        if self.happens(StoreFault::TornWrite, faults.torn_writes, file) {
            self.write_sectors(index, order, offset, bytes);
        } else if self.happens(StoreFault::MisdirectedWrite, faults.misdirected_writes, file) {
            let blocks = (end / BLOCK_BYTES).max(1);
            let elsewhere = self.chance.below(blocks) * BLOCK_BYTES;
            self.files.write(&path, order, elsewhere, bytes);
        } else {
            self.files.write(&path, order, offset, bytes);
        }
        self.open[index].end = self.open[index].end.max(end);
        let step = self.times.allocate_bytes;
        let used = self.open[index].end;
        if step > 0 && used + step / 2 > self.open[index].allocated_bytes {
            let more = self.room().min(step);
            self.open[index].allocated_bytes = self.open[index].allocated_bytes.max(used) + more;
            self.files.allocate(&path, self.open[index].allocated_bytes);
        }
        Ok(())
    }

    /// Some sectors of a write that was not done, or not all of it.
    fn write_sectors(&mut self, index: usize, order: u64, offset: u64, bytes: &[u8]) {
        let kept = [0, 500, 1_000][self.chance.index(3)];
        for (sector, bytes) in bytes.chunks(SECTOR_BYTES).enumerate() {
            if self.chance.chance(kept) && self.room() >= BLOCK_BYTES {
                let offset = offset + (sector * SECTOR_BYTES) as u64;
                self.files.write(&self.open[index].path, order, offset, bytes);
            }
        }
    }

    fn sync_now(&mut self, index: usize, order: u64) -> io::Result<()> {
        if self.happens(StoreFault::SyncError, self.watch.faults().sync_errors, index as u64) {
            self.open[index].sync_failed = true;
        }
        if self.open[index].write_failed || self.open[index].sync_failed {
            return Err(failed("a sync"));
        }
        self.files.sync(&self.open[index].path, order);
        Ok(())
    }

    fn finish_now(&mut self, index: usize, end: FileEnd) -> io::Result<()> {
        if self.happens(StoreFault::FinishError, self.watch.faults().finish_errors, index as u64) {
            return Err(failed("an end of a file"));
        }
        // What failed to be written is the caller's to leave outside; the system may have dropped
        // what it could not make durable.
        let sync_failed = self.open[index].sync_failed;
        let path = &self.open[index].path;
        match end {
            FileEnd::Cut(bytes) => self.files.cut(path, bytes, !sync_failed),
            FileEnd::Delete => self.files.remove(path),
        }
        if sync_failed { Err(failed("an earlier sync")) } else { Ok(()) }
    }

    /// What is there of an open file, of which so many bytes were written.
    fn presence_now(&self, index: usize, written: u64) -> Presence {
        let ahead = self.opening.as_ref().map(|(_, new)| new.path.as_path());
        self.files.presence(&self.open[index].path, written, ahead)
    }

    /// Ends what is under way beside the writes, and is due.
    fn poll_others(&mut self, now_ns: u64) {
        let is_made = self.opening.as_ref().is_some_and(|(due_ns, _)| *due_ns <= now_ns);
        if is_made && self.opened_bytes.is_none() {
            self.opened_bytes = Some(self.room().min(self.times.allocate_bytes));
        }
        if let Some((_, index, written)) = self.looking.take_if(|look| look.0 <= now_ns) {
            self.spare_bytes = Some(self.room());
            if let Some(index) = index {
                self.open[index].presence = self.presence_now(index, written);
            }
        }
        while let Some(text) = self.text.take_if(|text| text.due_ns <= now_ns) {
            if self.happens(StoreFault::TextError, self.watch.faults().text_errors, 0) {
                self.text_error = Some(failed("a text").to_string());
                self.waiting.insert_str(0, &text.lines);
                break;
            }
            self.files.append(&text.path, &text.header, &text.lines);
            // What was refused went with it.
            self.text_error = None;
            if !self.waiting.is_empty() {
                self.send_text(text.path, text.header);
            }
        }
    }

    /// Begins to append what waits.
    fn send_text(&mut self, path: PathBuf, header: String) {
        let due_ns = self.due_ns(self.times.operation_ns_max);
        let lines = std::mem::take(&mut self.waiting);
        self.text = Some(Text { due_ns, path, header, lines });
    }
}

impl Store for MemoryStore {
    type Buffer = MemoryBuffer;

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        let now_ns = self.clock.now_ns();
        let is_ready = |store: &Self, one: &UnderWay| one.due_ns <= now_ns && store.may_end(one);
        while let Some(index) =
            (0..self.under_way.len()).find(|&index| is_ready(self, &self.under_way[index]))
        {
            let operation = self.under_way.remove(index);
            completions.push(self.complete(operation));
        }
        self.poll_others(now_ns);
        self.show_due();
    }

    fn try_buffer(&mut self) -> Option<MemoryBuffer> {
        let mut free = self.buffers.lock();
        *free = free.checked_sub(1)?;
        // What a former write left stands in it.
        let bytes = vec![0xa5; self.buffer_bytes];
        Some(MemoryBuffer { bytes, free: Arc::clone(&self.buffers) })
    }

    fn write(&mut self, file: FileId, offset: u64, buffer: MemoryBuffer, bytes: usize, token: u64) {
        assert!(offset.is_multiple_of(BLOCK_BYTES) && bytes > 0 && bytes <= buffer.len());
        assert!((bytes as u64).is_multiple_of(BLOCK_BYTES));
        self.unsynced = true;
        let (kind, bytes, result) = (CompletionKind::Write, bytes as u64, Ok(()));
        let open = &self.open[file.0 as usize];
        let new_bytes = (offset + bytes).saturating_sub(open.allocated_bytes.max(open.end));
        if let Some(spare_bytes) = &mut self.spare_bytes {
            *spare_bytes = spare_bytes.saturating_sub(new_bytes);
        }
        let found = Presence::There;
        let completion = Completion { kind, file, offset, bytes, token, result, found };
        self.begin(completion, (Some(buffer), None));
    }

    fn sync(&mut self, file: FileId, token: u64) -> bool {
        let is_sync = |one: &&UnderWay| one.completion.kind == CompletionKind::Sync;
        let syncs = self.under_way.iter().filter(is_sync).count();
        if syncs >= SYNCS_MAX {
            return false;
        }
        self.watch.0.syncs_max.fetch_max(syncs as u64 + 1, Relaxed);
        self.unsynced = false;
        let (kind, result) = (CompletionKind::Sync, Ok(()));
        let (offset, bytes, found) = (0, 0, Presence::There);
        let completion = Completion { kind, file, offset, bytes, token, result, found };
        self.begin(completion, (None, None));
        true
    }

    fn finish(&mut self, file: FileId, end: FileEnd) {
        let bytes = if let FileEnd::Cut(bytes) = end { bytes } else { 0 };
        let (kind, result) = (CompletionKind::Finished, Ok(()));
        let (offset, token, found) = (0, 0, Presence::There);
        let completion = Completion { kind, file, offset, bytes, token, result, found };
        self.begin(completion, (None, Some(end)));
    }
}

impl FolderStore for MemoryStore {
    fn sync_due(&mut self, now_ns: u64) -> bool {
        let due = self.unsynced && now_ns - self.synced_ns >= self.times.sync_interval_ns;
        if due {
            self.synced_ns = now_ns;
        }
        due
    }

    fn open(&mut self, new: NewFile) {
        if self.opening.is_none() {
            let due_ns = self.due_ns(self.times.open_ns_max);
            self.opening = Some((due_ns, new));
            self.opened_bytes = None;
            self.show_due();
        }
    }

    fn take_opened(&mut self) -> Option<Result<FileId, OpenError>> {
        let now_ns = self.clock.now_ns();
        let (_, NewFile { path, room_bytes }) =
            self.opening.take_if(|(due_ns, _)| *due_ns <= now_ns)?;
        let allocated_bytes = self.opened_bytes.take();
        let spare_bytes = self.room();
        if self.files.exists(&path) {
            return Some(Err(OpenError::Exists { path }));
        }
        if spare_bytes < room_bytes {
            self.watch.0.faults.lock().push((StoreFault::Full, 0));
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            return Some(Err(OpenError::NoRoom { folder, spare_bytes, room_bytes }));
        }
        if self.happens(StoreFault::OpenError, self.watch.faults().open_errors, 0) {
            return Some(Err(OpenError::Other(failed("a file's making").to_string())));
        }
        let id = self.create(&path);
        if let Some(bytes) = allocated_bytes {
            self.open[id.0 as usize].allocated_bytes = bytes;
            self.files.allocate(&path, bytes);
        }
        Some(Ok(id))
    }

    fn opened_bytes(&self) -> Option<u64> {
        self.opening.as_ref().and(self.opened_bytes)
    }

    fn discard_opened(&mut self) {
        (self.opening, self.opened_bytes) = (None, None);
    }

    fn is_removing(&self) -> bool {
        false
    }

    fn blocks_bytes(&mut self, file: FileId) -> u64 {
        let open = &self.open[file.0 as usize];
        open.allocated_bytes.max(open.end)
    }

    fn look(&mut self, file: FileId, written_bytes: u64) {
        if self.looking.is_none() {
            let due_ns = self.due_ns(self.times.operation_ns_max);
            self.looking = Some((due_ns, Some(file.0 as usize), written_bytes));
            self.show_due();
        }
    }

    fn look_at(&mut self, _folder: &Path) {
        if self.looking.is_none() {
            let due_ns = self.due_ns(self.times.operation_ns_max);
            self.looking = Some((due_ns, None, 0));
            self.show_due();
        }
    }

    fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    fn spare_bytes(&self) -> Option<u64> {
        self.spare_bytes
    }

    fn presence(&mut self, file: FileId) -> Presence {
        self.open[file.0 as usize].presence
    }

    fn append_text(&mut self, path: &Path, header: &str, lines: &str) {
        self.waiting.push_str(lines);
        if self.text.is_none() {
            self.send_text(path.to_owned(), header.to_owned());
        }
        self.show_due();
    }

    fn text_under_way(&self) -> bool {
        self.text.is_some()
    }

    fn take_text_error(&mut self) -> Option<String> {
        self.text_error.take()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Deref for MemoryBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for MemoryBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for MemoryBuffer {
    fn drop(&mut self) {
        *self.free.lock() += 1;
    }
}

fn failed(what: &str) -> io::Error {
    io::Error::other(format!("{what} fails, as the seed says"))
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

const BLOCK_BYTES: u64 = 4_096;
const SECTOR_BYTES: usize = 512;
/// The whole disk.
const DISK_BYTES: u64 = 1 << 30;
