//! Files in memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_agent::{
    Completion, CompletionKind, FileEnd, FileId, FolderStore, NewFile, OpenError, Presence, Store,
};
use catchment_fixtures::Random;
use parking_lot::Mutex;

use crate::VirtualClock;

/// What files hold, by path. Clones are the same files.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>);

impl MemoryFiles {
    /// The files' paths, and what they hold.
    pub fn all(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.0.lock().iter().map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
    }
}

/// How long operations take at most, and how many of a thousand writes fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreTimes {
    /// Nanoseconds of a write, a sync or an end of a file.
    pub operation_ns_max: u64,
    /// Nanoseconds until a file is there.
    pub open_ns_max: u64,
    /// Writes of a thousand that fail, by chance.
    pub write_errors_per_thousand: u64,
}

/// A store in memory, whose operations complete in virtual time, in any order.
pub struct MemoryStore {
    clock: VirtualClock,
    chance: Random,
    times: StoreTimes,
    files: MemoryFiles,
    buffers: Arc<Mutex<usize>>,
    buffer_bytes: usize,
    paths: Vec<PathBuf>,
    /// Whether a write to the file has failed.
    failed: Vec<bool>,
    under_way: Vec<UnderWay>,
    order: u64,
    opening: Option<(u64, NewFile)>,
    synced_ns: u64,
    unsynced: bool,
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
    /// Of a write: what is written.
    buffer: Option<MemoryBuffer>,
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
        Self {
            clock,
            chance: Random::new(seed),
            times,
            files: MemoryFiles::default(),
            buffers: Arc::new(Mutex::new(buffer_count)),
            buffer_bytes,
            paths: Vec::new(),
            failed: Vec::new(),
            under_way: Vec::new(),
            order: 0,
            opening: None,
            synced_ns: 0,
            unsynced: false,
        }
    }

    /// What was written.
    pub fn files(&self) -> MemoryFiles {
        self.files.clone()
    }

    /// Makes a file at once.
    pub fn create(&mut self, path: &Path) -> FileId {
        self.files.0.lock().insert(path.to_owned(), Vec::new());
        self.paths.push(path.to_owned());
        self.failed.push(false);
        FileId(self.paths.len() as u64 - 1)
    }

    fn begin(&mut self, completion: Completion, rest: (Option<MemoryBuffer>, Option<FileEnd>)) {
        let due_ns = self.clock.now_ns() + self.chance.below(self.times.operation_ns_max + 1);
        self.order += 1;
        let (order, (buffer, end)) = (self.order, rest);
        self.under_way.push(UnderWay { due_ns, order, completion, buffer, end });
    }

    /// Whether an operation may complete: a sync after the writes before it, an end after all.
    fn is_ready(&self, operation: &UnderWay, now_ns: u64) -> bool {
        let file = operation.completion.file;
        let older =
            |other: &UnderWay| other.completion.file == file && other.order < operation.order;
        operation.due_ns <= now_ns
            && (operation.buffer.is_some() || !self.under_way.iter().any(older))
    }

    fn complete(&mut self, operation: UnderWay) -> Completion {
        let UnderWay { mut completion, buffer, end, .. } = operation;
        let index = completion.file.0 as usize;
        let failed = || Err(io::Error::other("a write fails, as the seed says"));
        let mut files = self.files.0.lock();
        let path = &self.paths[index];
        if let Some(buffer) = buffer {
            if self.chance.below(1_000) < self.times.write_errors_per_thousand {
                self.failed[index] = true;
                completion.result = failed();
                return completion;
            }
            let bytes = files.entry(path.clone()).or_default();
            let (begin, length) = (completion.offset as usize, completion.bytes as usize);
            bytes.resize(bytes.len().max(begin + length), 0);
            bytes[begin..begin + length].copy_from_slice(&buffer[..length]);
        }
        match end {
            Some(FileEnd::Cut(length)) => {
                files.entry(path.clone()).or_default().resize(length as usize, 0);
            }
            Some(FileEnd::Delete) => {
                files.remove(path);
            }
            None if completion.kind == CompletionKind::Sync && self.failed[index] => {
                completion.result = failed();
            }
            None => {}
        }
        completion
    }
}

impl Store for MemoryStore {
    type Buffer = MemoryBuffer;

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        let now_ns = self.clock.now_ns();
        while let Some(index) =
            (0..self.under_way.len()).find(|&index| self.is_ready(&self.under_way[index], now_ns))
        {
            let operation = self.under_way.remove(index);
            completions.push(self.complete(operation));
        }
    }

    fn try_buffer(&mut self) -> Option<MemoryBuffer> {
        let mut free = self.buffers.lock();
        *free = free.checked_sub(1)?;
        // What a former write left stands in it.
        let bytes = vec![0xa5; self.buffer_bytes];
        Some(MemoryBuffer { bytes, free: Arc::clone(&self.buffers) })
    }

    fn write(&mut self, file: FileId, offset: u64, buffer: MemoryBuffer, bytes: usize, token: u64) {
        assert!(offset.is_multiple_of(4_096) && bytes.is_multiple_of(4_096) && bytes > 0);
        self.unsynced = true;
        let (kind, bytes, result) = (CompletionKind::Write, bytes as u64, Ok(()));
        let completion = Completion { kind, file, offset, bytes, token, result };
        self.begin(completion, (Some(buffer), None));
    }

    fn sync(&mut self, file: FileId, token: u64) -> bool {
        self.unsynced = false;
        let (kind, result) = (CompletionKind::Sync, Ok(()));
        let completion = Completion { kind, file, offset: 0, bytes: 0, token, result };
        self.begin(completion, (None, None));
        true
    }

    fn finish(&mut self, file: FileId, end: FileEnd) {
        let bytes = if let FileEnd::Cut(bytes) = end { bytes } else { 0 };
        let (kind, result) = (CompletionKind::Finished, Ok(()));
        let completion = Completion { kind, file, offset: 0, bytes, token: 0, result };
        self.begin(completion, (None, Some(end)));
    }
}

impl FolderStore for MemoryStore {
    fn sync_due(&mut self, now_ns: u64) -> bool {
        let due = self.unsynced && now_ns - self.synced_ns >= SYNC_INTERVAL_NS;
        if due {
            self.synced_ns = now_ns;
        }
        due
    }

    fn open(&mut self, new: NewFile) {
        assert!(self.opening.is_none(), "one file at a time");
        let due_ns = self.clock.now_ns() + self.chance.below(self.times.open_ns_max + 1);
        self.opening = Some((due_ns, new));
    }

    fn take_opened(&mut self) -> Option<Result<FileId, OpenError>> {
        let now_ns = self.clock.now_ns();
        let (_, new) = self.opening.take_if(|(due_ns, _)| *due_ns <= now_ns)?;
        let path = new.path;
        let exists = self.files.0.lock().contains_key(&path);
        Some(if exists { Err(OpenError::Exists { path }) } else { Ok(self.create(&path)) })
    }

    fn opened_bytes(&self) -> Option<u64> {
        let (due_ns, _) = self.opening.as_ref()?;
        (*due_ns <= self.clock.now_ns()).then_some(0)
    }

    fn discard_opened(&mut self) {
        self.opening = None;
    }

    fn blocks_bytes(&mut self, _file: FileId) -> u64 {
        0
    }

    fn look(&mut self, _file: FileId) {}

    fn is_looking(&self) -> bool {
        false
    }

    fn spare_bytes(&self) -> Option<u64> {
        None
    }

    fn presence(&mut self, _file: FileId) -> Presence {
        Presence::There
    }

    fn append_text(&mut self, path: &Path, header: &str, lines: &str) {
        let mut files = self.files.0.lock();
        let text = files.entry(path.to_owned()).or_insert_with(|| header.as_bytes().to_vec());
        text.extend_from_slice(lines.as_bytes());
    }

    fn text_under_way(&self) -> bool {
        false
    }

    fn take_text_error(&mut self) -> Option<String> {
        None
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("paths", &self.paths).finish_non_exhaustive()
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

/// Time between two syncs.
const SYNC_INTERVAL_NS: u64 = 1_000_000_000;
