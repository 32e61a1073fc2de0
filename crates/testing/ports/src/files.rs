//! Files in memory, and what is left of them when the power fails.
//!
//! A file is what was made durable, and the writes since. Reads give both; after a crash any
//! sector of a write that no sync covered is there or not, as chance has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_agent::Presence;
use catchment_fixtures::Random;
use parking_lot::Mutex;

/// What a disk writes at once or not at all.
const SECTOR_BYTES: usize = 512;

/// What files hold, by path. Clones are the same files.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Mutex<BTreeMap<PathBuf, MemoryFile>>>);

/// One file.
#[derive(Clone, Debug, Default)]
struct MemoryFile {
    durable: Vec<u8>,
    unsynced: Vec<Unsynced>,
    /// Whether the file itself is there after a crash.
    is_named: bool,
    /// Whether it was ended, and that was reported.
    is_ended: bool,
    /// Where the blocks end that were allocated ahead, and read as zeros.
    allocated_bytes: u64,
    /// What all cuts by others have left of it.
    left_bytes: Option<u64>,
}

/// A write that no sync has covered.
#[derive(Clone, Debug)]
struct Unsynced {
    order: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl MemoryFile {
    fn now(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        self.unsynced.iter().for_each(|write| overwrite(&mut bytes, write.offset, &write.bytes));
        bytes.resize(bytes.len().max(self.allocated_bytes as usize), 0);
        bytes
    }

    fn end(&self) -> u64 {
        let ends = self.unsynced.iter().map(|write| write.offset + write.bytes.len() as u64);
        ends.max().unwrap_or(0).max(self.durable.len() as u64)
    }
}

impl MemoryFiles {
    /// The files' paths, and what they hold.
    pub fn all(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.0.lock().iter().map(|(path, file)| (path.clone(), file.now())).collect()
    }

    /// Bytes that the files in a folder take on their disk.
    pub fn used_bytes(&self, folder: &Path) -> u64 {
        let files = self.0.lock();
        let files = files.iter().filter(|(path, _)| path.starts_with(folder));
        files.map(|(_, file)| file.end().max(file.allocated_bytes)).sum()
    }

    /// The files that were not ended, and of which something was written and not made durable: a
    /// power cut may take a part of it.
    pub fn unsynced(&self) -> Vec<PathBuf> {
        let files = self.0.lock();
        let is_open = |file: &MemoryFile| !file.is_ended && !file.unsynced.is_empty();
        files.iter().filter(|(_, file)| is_open(file)).map(|(path, _)| path.clone()).collect()
    }

    /// The power fails: of what no sync covered, each write is kept whole, lost whole, or kept by
    /// sectors, so many of a thousand.
    pub fn crash(&self, chance: &mut Random) {
        let mut files = self.0.lock();
        let kept = [0, 500, 900, 1_000][chance.index(4)];
        files.retain(|_, file| file.is_named || chance.chance(kept));
        for file in files.values_mut() {
            for write in std::mem::take(&mut file.unsynced) {
                let by_sector = chance.chance(300);
                let whole = chance.chance(kept);
                for (index, sector) in write.bytes.chunks(SECTOR_BYTES).enumerate() {
                    let is_kept = if by_sector { chance.chance(kept) } else { whole };
                    if is_kept {
                        let offset = write.offset + (index * SECTOR_BYTES) as u64;
                        overwrite(&mut file.durable, offset, sector);
                    }
                }
            }
            // Blocks that were allocated ahead may be zeros at the end, or not be there.
            let allocated = file.allocated_bytes as usize;
            if chance.chance(500) {
                file.durable.resize(file.durable.len().max(allocated), 0);
            }
            // A file system knows files by whole blocks.
            let blocks = file.durable.len().next_multiple_of(BLOCK_BYTES);
            file.durable.resize(blocks.max(file.durable.len()), 0);
            file.allocated_bytes = 0;
        }
    }

    /// What was written becomes durable in time, as after a writer was killed.
    pub fn settle(&self) {
        self.settle_in(Path::new(""));
    }

    /// The same, of the files in a folder.
    pub fn settle_in(&self, folder: &Path) {
        let mut files = self.0.lock();
        for (_, file) in files.iter_mut().filter(|(path, _)| path.starts_with(folder)) {
            file.is_named = true;
            for write in std::mem::take(&mut file.unsynced) {
                overwrite(&mut file.durable, write.offset, &write.bytes);
            }
        }
    }

    /// Flips a bit of a file, as a disk does that has forgotten it.
    ///
    /// # Panics
    /// There is no such file, or the byte is behind its end.
    pub fn flip(&self, path: &Path, offset: usize, bit: u32) {
        let mut files = self.0.lock();
        let file = files.get_mut(path).expect("a file");
        file.durable = file.now();
        file.unsynced.clear();
        file.durable[offset] ^= 1 << bit;
    }

    /// Puts other bytes in a file's place.
    pub fn replace(&self, path: &Path, bytes: Vec<u8>) {
        let file = MemoryFile { durable: bytes, is_named: true, ..MemoryFile::default() };
        self.0.lock().insert(path.to_owned(), file);
    }

    /// Cuts a file that is being written, as `truncate` does: what was behind that is zeros.
    ///
    /// # Panics
    /// There is no such file.
    pub fn truncate(&self, path: &Path, bytes: u64) {
        let mut files = self.0.lock();
        let file = files.get_mut(path).expect("a file");
        file.durable = file.now();
        file.unsynced.clear();
        file.durable.truncate(bytes as usize);
        file.allocated_bytes = 0;
        file.left_bytes = Some(file.left_bytes.map_or(bytes, |left| left.min(bytes)));
    }

    /// Removes a file. What is written to it afterwards is nowhere.
    pub fn remove(&self, path: &Path) {
        self.0.lock().remove(path);
    }

    /// What is found of a file that was made at that path, of which so many bytes were written.
    /// `ahead` holds nothing.
    pub(crate) fn presence(&self, path: &Path, written: u64, ahead: Option<&Path>) -> Presence {
        let files = self.0.lock();
        let other = |other: &PathBuf| {
            Some(other.as_path()) != ahead && other.extension() == path.extension()
        };
        match files.get(path) {
            None => Presence::Removed { others: files.keys().any(other) },
            Some(file) if file.left_bytes.is_some_and(|left| left < written) => Presence::Truncated,
            Some(_) => Presence::There,
        }
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.0.lock().contains_key(path)
    }

    pub(crate) fn create(&self, path: &Path) {
        self.0.lock().insert(path.to_owned(), MemoryFile::default());
    }

    pub(crate) fn write(&self, path: &Path, order: u64, offset: u64, bytes: &[u8]) {
        if let Some(file) = self.0.lock().get_mut(path) {
            file.unsynced.push(Unsynced { order, offset, bytes: bytes.to_vec() });
        }
    }

    pub(crate) fn allocate(&self, path: &Path, bytes: u64) {
        if let Some(file) = self.0.lock().get_mut(path) {
            file.allocated_bytes = file.allocated_bytes.max(bytes);
        }
    }

    /// Makes durable what was written before that operation.
    pub(crate) fn sync(&self, path: &Path, order: u64) {
        if let Some(file) = self.0.lock().get_mut(path) {
            file.is_named = true;
            for write in std::mem::take(&mut file.unsynced) {
                match write.order < order {
                    true => overwrite(&mut file.durable, write.offset, &write.bytes),
                    false => file.unsynced.push(write),
                }
            }
        }
    }

    /// Cuts a file, and makes it durable: it has ended, if that is told to its writer.
    pub(crate) fn cut(&self, path: &Path, bytes: u64, is_told: bool) {
        self.sync(path, u64::MAX);
        if let Some(file) = self.0.lock().get_mut(path) {
            file.durable.resize(bytes as usize, 0);
            (file.allocated_bytes, file.is_ended) = (0, is_told);
        }
    }

    pub(crate) fn append(&self, path: &Path, header: &str, lines: &str) {
        let mut files = self.0.lock();
        let file = files.entry(path.to_owned()).or_default();
        match file.durable.last() {
            None => file.durable.extend_from_slice(header.as_bytes()),
            Some(b'\n') => {}
            // The power failed in a line.
            Some(_) => file.durable.push(b'\n'),
        }
        file.durable.extend_from_slice(lines.as_bytes());
        file.is_named = true;
    }
}

fn overwrite(bytes: &mut Vec<u8>, offset: u64, with: &[u8]) {
    let begin = offset as usize;
    bytes.resize(bytes.len().max(begin + with.len()), 0);
    bytes[begin..begin + with.len()].copy_from_slice(with);
}

/// What file systems allocate.
const BLOCK_BYTES: usize = 4_096;
