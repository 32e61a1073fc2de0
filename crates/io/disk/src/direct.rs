//! Reads past the page cache, many in flight, into reused memory.
//!
//! Filling the page cache costs 0.3 ms a MB: a page for each 4 KiB, and a copy. In that time a disk
//! that delivers 1 GB/s reads a third of a MB more.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_model::limits::DISK_ALIGN_BYTES;
use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use crate::mapping::{HUGE_PAGE_BYTES, Mapping};
use crate::read::ReadFile;

/// Reads that bypass the page cache.
#[derive(Debug)]
pub struct DirectReader {
    ring: Ring,
    reads: Vec<Option<Read>>,
    /// Pieces for which the ring had no room.
    unsent: VecDeque<Piece>,
    /// Pieces in the ring or the kernel.
    flying: usize,
    /// Blocks of reads that have begun and have not been returned.
    blocks: usize,
    /// Memory of completed reads, and the rest of its mappings: the most recently used is last.
    free: Vec<Memory>,
    /// The last file, so that it is not opened again for each group.
    recent: Option<Arc<File>>,
    /// A forked process has the memory of the ring's owner, but not the ring itself.
    process: u32,
    /// The ring reports nothing any more, and the kernel may still write to memory of reads.
    broken: bool,
}

/// A read in progress, of one [`DirectReader`].
#[derive(Clone, Copy, Debug)]
pub struct Ticket(usize);

/// The bytes read, in memory that its reader wants back.
#[derive(Debug)]
pub struct DirectBytes {
    memory: Memory,
    bytes: Range<usize>,
}

/// Its own mapping, or one of several parts of a huge page.
#[derive(Debug)]
struct Memory {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

impl Memory {
    /// Memory for that many bytes, and the rest of its mapping for equal parts: small columns share
    /// a huge page, because a disk handles fewer, larger pieces of memory faster.
    fn mapped(bytes: usize) -> io::Result<impl Iterator<Item = Self>> {
        let bytes = match bytes {
            ..HUGE_PAGE_BYTES => bytes.next_power_of_two().max(PART_BYTES_MIN),
            _ => bytes.next_multiple_of(HUGE_PAGE_BYTES),
        };
        let mapping = Arc::new(Mapping::touched(bytes.max(HUGE_PAGE_BYTES))?);
        let parts = mapping.bytes() / bytes;
        Ok((0..parts).map(move |part| Self {
            mapping: Arc::clone(&mapping),
            start: part * bytes,
            bytes,
        }))
    }

    /// Whether that many bytes fit, and a smaller part would not do.
    fn suits(&self, bytes: usize) -> bool {
        (bytes..2 * bytes.max(PART_BYTES_MIN)).contains(&self.bytes)
    }

    fn address(&self) -> NonNull<u8> {
        // SAFETY: the part lies within the mapping.
        unsafe { self.mapping.address().add(self.start) }
    }
}

impl std::ops::Deref for DirectBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Range { start, end } = self.bytes;
        // SAFETY: the bytes lie within the memory, all of it is initialised, and the kernel no
        // longer writes to it.
        unsafe {
            std::slice::from_raw_parts(self.memory.address().as_ptr().add(start), end - start)
        }
    }
}

/// One read, in pieces.
#[derive(Debug)]
struct Read {
    /// Open until everything is read: a number in the ring must not come to mean another file.
    file: Arc<File>,
    memory: Memory,
    /// The offset in the file at which the memory begins.
    from: u64,
    bytes: Range<u64>,
    pieces_left: usize,
    failed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    read: usize,
    number: usize,
}

impl DirectReader {
    /// A used one or a new one; none if the system offers no io_uring.
    pub fn take() -> Option<Self> {
        let process = std::process::id();
        while let Some(reader) = kept(Vec::pop).flatten() {
            if reader.process == process {
                return Some(reader);
            }
            // Not ours to end: its ring belongs to the parent.
            std::mem::forget(reader);
        }
        if REFUSED.load(Relaxed) {
            return None;
        }
        let ring = IoUring::builder().dontfork().build(ENTRIES as u32);
        let refused = |error: &io::Error| {
            // A shortage of memory or descriptors may be temporary.
            let for_good = [libc::ENOSYS, libc::EPERM, libc::EACCES];
            let for_good = error.raw_os_error().is_some_and(|code| for_good.contains(&code));
            REFUSED.fetch_or(for_good, Relaxed);
        };
        let ring = ring.inspect_err(refused).ok()?;
        Some(Self {
            ring: Ring(ring),
            reads: Vec::new(),
            unsent: VecDeque::new(),
            flying: 0,
            blocks: 0,
            free: Vec::new(),
            recent: None,
            process,
            broken: false,
        })
    }

    /// Whether a file and its file system allow direct reads.
    pub fn can_read(&mut self, file: &ReadFile) -> bool {
        self.recent = file.direct();
        self.recent.is_some()
    }

    /// Keeps it for the next read. Each kept reader has at most 16 MiB.
    pub fn give_back(mut self) {
        self.recent = None;
        self.trim();
        if !self.broken && self.flying == 0 && self.reads.iter().all(Option::is_none) {
            let mut reader = Some(self);
            kept(|all| {
                if all.len() < KEPT_MAX {
                    all.extend(reader.take());
                }
            });
        }
    }

    /// Begins to read those bytes at the next [wait](Self::wait): one system call for all requested
    /// reads. None if the file, or its file system, does not allow direct reads. Memory is taken
    /// for all of them: the caller must limit their number.
    pub fn begin(&mut self, file: &ReadFile, bytes: Range<u64>) -> Option<Ticket> {
        if self.broken {
            return None;
        }
        let file = file.direct()?;
        self.recent = Some(Arc::clone(&file));
        let from = bytes.start / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let end = bytes.end.checked_next_multiple_of(BLOCK_BYTES as u64)?;
        if bytes.is_empty() || i64::try_from(end).is_err() {
            return None;
        }
        let blocks = (end - from) as usize / BLOCK_BYTES;
        let suits = |memory: &Memory| memory.suits(blocks * BLOCK_BYTES);
        let memory = match self.free.iter().rposition(suits) {
            Some(index) => self.free.remove(index),
            None => {
                let mut mapped = Memory::mapped(blocks * BLOCK_BYTES).ok()?;
                let first = mapped.next()?;
                self.free.extend(mapped);
                first
            }
        };
        let pieces_left = blocks.div_ceil(PIECE_BLOCKS);
        let read = Read { file, memory, from, bytes, pieces_left, failed: false };
        let index = self.reads.iter().position(Option::is_none).unwrap_or(self.reads.len());
        if index == self.reads.len() {
            self.reads.push(None);
        }
        self.reads[index] = Some(read);
        self.unsent.extend((0..pieces_left).map(|number| Piece { read: index, number }));
        self.blocks += blocks;
        Some(Ticket(index))
    }

    /// Bytes of reads that have begun and have not been returned.
    pub fn bytes_begun(&self) -> usize {
        self.blocks * BLOCK_BYTES
    }

    /// Whether a read is complete.
    pub fn is_over(&self, ticket: Ticket) -> bool {
        let read = self.reads.get(ticket.0).and_then(Option::as_ref);
        self.broken || read.is_none_or(|read| read.pieces_left == 0)
    }

    /// Begins requested reads, and waits for a part of them, if there are any.
    pub fn wait(&mut self) {
        self.send();
        if self.flying == 0 {
            return;
        }
        match self.ring.0.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The kernel requires that completions be taken first. If it has none of ours, there
            // are none.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => {
                self.broken = self.ring.0.submission().len() == self.flying;
            }
            Err(_) => self.broken = true,
        }
        self.reap();
    }

    /// Begins requested reads without waiting.
    pub fn submit(&mut self) {
        self.send();
        if !self.ring.0.submission().is_empty() {
            // The kernel will take the rest the next time.
            let _taken = self.ring.0.submit();
        }
    }

    /// The bytes of a completed read; none if anything went wrong. An ordinary read of the same
    /// bytes will give the reason.
    pub fn bytes(&mut self, ticket: Ticket) -> Option<DirectBytes> {
        let over = |read: &mut Read| read.pieces_left == 0;
        let read = self.reads.get_mut(ticket.0)?.take_if(over)?;
        self.blocks -= read.blocks();
        let start = (read.bytes.start - read.from) as usize;
        let bytes = (read.bytes.end - read.bytes.start) as usize;
        let there = DirectBytes { memory: read.memory, bytes: start..start + bytes };
        if read.failed {
            self.take_back(there);
            return None;
        }
        Some(there)
    }

    /// Reuses the memory for the next read: it is still in the CPU's caches.
    pub fn take_back(&mut self, DirectBytes { memory, .. }: DirectBytes) {
        let is_part = memory.bytes < HUGE_PAGE_BYTES;
        self.free.push(memory);
        // Parts are few, and needed again at once.
        if !is_part {
            self.trim();
        }
    }

    /// Drops the least recently used memory, with everything that shares a huge page with it, until
    /// no more than the bound is kept.
    fn trim(&mut self) {
        while self.free.iter().map(|memory| memory.bytes).sum::<usize>() > FREE_BYTES_MAX {
            let oldest = Arc::clone(&self.free[0].mapping);
            self.free.retain(|memory| !Arc::ptr_eq(&memory.mapping, &oldest));
        }
    }

    /// Fills the ring as far as it has room.
    fn send(&mut self) {
        while self.flying < ENTRIES
            && let Some(piece) = self.unsent.pop_front()
        {
            let Some(read) = self.reads[piece.read].as_mut() else { continue };
            let first = piece.number * PIECE_BLOCKS;
            let blocks = read.piece_blocks(piece.number);
            // SAFETY: the read's pieces are within its memory, which is as large as all of them.
            let address = unsafe { read.memory.address().add(first * BLOCK_BYTES) }.as_ptr();
            let entry = opcode::Read::new(
                types::Fd(read.file.as_raw_fd()),
                address,
                (blocks * BLOCK_BYTES) as u32,
            );
            let entry = entry.offset(read.from + (first * BLOCK_BYTES) as u64).build();
            let entry = entry.user_data((piece.read as u64) << 32 | piece.number as u64);
            // SAFETY: the read keeps its file, and its memory in place, until all its pieces have
            // completed, and no code reads the memory before.
            let pushed = unsafe { self.ring.0.submission().push(&entry) };
            assert!(pushed.is_ok(), "the ring has an entry for each piece that flies");
            self.flying += 1;
        }
    }

    fn reap(&mut self) {
        for answer in self.ring.0.completion() {
            self.flying -= 1;
            let (index, number) = ((answer.user_data() >> 32) as usize, answer.user_data() as u32);
            let Some(read) = self.reads.get_mut(index).and_then(Option::as_mut) else { continue };
            read.pieces_left -= 1;
            let first = number as usize * PIECE_BLOCKS;
            let blocks = read.piece_blocks(number as usize);
            let there = read.from + (first * BLOCK_BYTES) as u64;
            let end = there + (blocks * BLOCK_BYTES) as u64;
            // The file may end within the last block.
            let whole = u64::try_from(answer.result())
                .is_ok_and(|bytes| there + bytes >= end.min(read.bytes.end));
            read.failed |= !whole;
        }
    }
}

impl Read {
    fn blocks(&self) -> usize {
        (self.bytes.end - self.from).div_ceil(BLOCK_BYTES as u64) as usize
    }

    fn piece_blocks(&self, number: usize) -> usize {
        (self.blocks() - number * PIECE_BLOCKS).min(PIECE_BLOCKS)
    }
}

impl Drop for DirectReader {
    /// Waits for reads in the kernel, which still write to the reads' memory.
    fn drop(&mut self) {
        self.unsent.clear();
        while self.flying > 0 && !self.broken {
            self.wait();
        }
        if self.flying > 0 {
            std::mem::forget(std::mem::take(&mut self.reads));
        }
    }
}

impl ReadFile {
    /// The same file past the page cache, open while it is being read this way: a run may have more
    /// files than a process can open twice.
    fn direct(&self) -> Option<Arc<File>> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut known = self.direct.lock();
        known.upgrade().or_else(|| {
            // By its descriptor: the path may by now name another file.
            let same = format!("/proc/self/fd/{}", self.file().as_raw_fd());
            let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(same).ok()?;
            let file = Arc::new(file);
            *known = Arc::downgrade(&file);
            Some(file)
        })
    }
}

/// A ring has no useful debug output.
struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

/// The kept readers, unless they are locked: in a process that was forked meanwhile, for ever.
fn kept<T>(change: impl FnOnce(&mut Vec<DirectReader>) -> T) -> Option<T> {
    KEPT.try_lock().map(|mut kept| change(&mut kept))
}

static KEPT: Mutex<Vec<DirectReader>> = Mutex::new(Vec::new());
/// The system refused a ring.
static REFUSED: AtomicBool = AtomicBool::new(false);
const KEPT_MAX: usize = 4;
/// What direct reads are aligned to.
const BLOCK_BYTES: usize = DISK_ALIGN_BYTES;
/// Pieces of 512 KiB: large enough to hide the cost of a request, and small enough for a disk to
/// have many.
const PIECE_BLOCKS: usize = (512 << 10) / BLOCK_BYTES;
/// Pieces in flight.
const ENTRIES: usize = 64;
const FREE_BYTES_MAX: usize = 16 << 20;
/// The smallest part of a huge page.
const PART_BYTES_MIN: usize = 64 << 10;
// Parts fill a huge page, and each is aligned for direct reads.
const _: () = assert!(HUGE_PAGE_BYTES.is_power_of_two() && PART_BYTES_MIN.is_power_of_two());
const _: () = assert!(PART_BYTES_MIN.is_multiple_of(BLOCK_BYTES));

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of that many bytes, each of which depends on its offset.
    fn file(bytes: usize) -> (tempfile::TempDir, ReadFile, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let content: Vec<u8> =
            (0..bytes as u32).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect();
        std::fs::write(&path, &content).expect("writes");
        File::open(&path).and_then(|file| file.sync_all()).expect("syncs");
        (folder, ReadFile::open(&path).expect("opens"), content)
    }

    /// A reader, if this system has one for such files; otherwise the reason is printed.
    fn reader(file: &ReadFile) -> Option<DirectReader> {
        let reader = DirectReader::take().filter(|_| file.direct().is_some());
        if reader.is_none() {
            eprintln!("nothing to test: no io_uring here, or no direct reads of temporary files");
        }
        reader
    }

    /// Waits for a read and compares it.
    fn check(reader: &mut DirectReader, ticket: Ticket, expected: &[u8]) {
        while !reader.is_over(ticket) {
            reader.wait();
        }
        let bytes = reader.bytes(ticket).expect("reads");
        assert!(*bytes == *expected);
        reader.take_back(bytes);
        assert!(reader.bytes(ticket).is_none(), "it is handed out once");
    }

    #[test]
    fn bytes_are_those_of_the_file_wherever_they_begin_and_end() {
        let (_folder, file, content) = file(3_000_001);
        let Some(mut reader) = reader(&file) else { return };
        let ranges = [0..1, 4_095..4_097, 4_096..8_192, 777..2_999_999, 2_999_990..3_000_001];
        let begun = ranges.map(|range| {
            let bytes = range.start as u64..range.end as u64;
            (reader.begin(&file, bytes).expect("begins"), range)
        });
        assert!(reader.bytes_begun() >= begun.iter().map(|(_, range)| range.len()).sum());
        assert!(reader.bytes(begun[3].0).is_none(), "it has not come");
        reader.submit();
        for (ticket, range) in begun.into_iter().rev() {
            check(&mut reader, ticket, &content[range]);
        }
        assert_eq!(reader.bytes_begun(), 0);
        reader.give_back();
    }

    #[test]
    fn more_can_begin_than_fly_at_once() {
        let (_folder, file, content) = file(1_000_000);
        let Some(mut reader) = reader(&file) else { return };
        let tickets: Vec<_> = (0..3 * ENTRIES as u64)
            .map(|n| (n, reader.begin(&file, n * 5_000..n * 5_000 + 9).expect("begins")))
            .collect();
        reader.submit();
        assert!(reader.flying <= ENTRIES);
        for (n, ticket) in tickets {
            let at = n as usize * 5_000;
            check(&mut reader, ticket, &content[at..at + 9]);
        }
    }

    #[test]
    fn small_reads_share_a_huge_page_and_what_was_used_last_is_used_next() {
        let (_folder, file, content) = file(1_000_000);
        let Some(mut reader) = reader(&file) else { return };
        reader.free.clear();
        let begin = |reader: &mut DirectReader, n: u64| {
            reader.begin(&file, n * 100_000..n * 100_000 + 70_000).expect("begins")
        };
        let tickets = [0, 1, 2].map(|n| begin(&mut reader, n));
        let memory = |reader: &DirectReader, ticket: Ticket| {
            let memory = &reader.reads[ticket.0].as_ref().expect("has begun").memory;
            (Arc::as_ptr(&memory.mapping), memory.start, memory.bytes)
        };
        let buffers = tickets.map(|ticket| memory(&reader, ticket));
        assert!(buffers.iter().all(|buffer| (buffer.0, buffer.2) == (buffers[0].0, 128 << 10)));
        let starts: std::collections::BTreeSet<_> = buffers.iter().map(|buffer| buffer.1).collect();
        assert_eq!(starts.len(), 3);
        assert_eq!(reader.free.len(), HUGE_PAGE_BYTES / (128 << 10) - 3);
        for n in [2, 0, 1] {
            check(&mut reader, tickets[n], &content[n * 100_000..n * 100_000 + 70_000]);
        }
        let next = begin(&mut reader, 7);
        assert_eq!(memory(&reader, next), buffers[1]);
        check(&mut reader, next, &content[700_000..770_000]);
    }

    #[test]
    fn memory_is_as_large_as_it_must_be_and_not_twice_as_large() {
        for bytes in [1, 64 << 10, (64 << 10) + 1, (1 << 20) + 1, 2 << 20, 5 << 20] {
            let parts: Vec<_> = Memory::mapped(bytes).expect("maps").collect();
            let whole: usize = parts.iter().map(|part| part.bytes).sum();
            assert_eq!(whole, parts[0].mapping.bytes());
            assert!(parts.iter().all(|part| part.suits(bytes)));
            assert!(!parts[0].suits(parts[0].bytes + 1));
            assert!(!parts[0].suits(parts[0].bytes / 2) || bytes <= PART_BYTES_MIN);
        }
    }

    #[test]
    fn no_more_memory_is_kept_than_the_bound() {
        let (_folder, file, content) = file(40_000_000);
        let Some(mut reader) = reader(&file) else { return };
        for (reads, bytes) in [(1, 18_000_000), (4, 5_000_000), (20, 1_000_000), (300, 50_000)] {
            reader.free.clear();
            let ranges = (0..reads).map(|n| n * 70_000..n * 70_000 + bytes);
            let begun: Vec<_> = ranges
                .map(|range| (reader.begin(&file, range.clone()).expect("begins"), range))
                .collect();
            for (ticket, range) in begun {
                check(&mut reader, ticket, &content[range.start as usize..range.end as usize]);
            }
            reader.trim();
            let kept: usize = reader.free.iter().map(|memory| memory.bytes).sum();
            // As much as fits: the largest mapping that fits here has 6 MiB.
            let most = if reads == 1 { 0 } else { FREE_BYTES_MAX };
            assert!((most.saturating_sub(6 << 20)..=most).contains(&kept), "{kept} of {reads}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_handed_out() {
        let (_folder, file, _) = file(10_000);
        let Some(mut reader) = reader(&file) else { return };
        for bytes in [9_000..10_001, 50_000..50_001] {
            let ticket = reader.begin(&file, bytes).expect("begins");
            while !reader.is_over(ticket) {
                reader.wait();
            }
            assert!(reader.bytes(ticket).is_none());
        }
        // Nothing is in progress, so nothing waits for ever.
        reader.wait();
        assert!(reader.begin(&file, 5..5).is_none());
        assert!(reader.begin(&file, u64::MAX - 9..u64::MAX).is_none());
        assert!(reader.begin(&file, i64::MAX as u64 - 9..i64::MAX as u64).is_none());
    }

    #[test]
    fn a_reader_that_goes_while_it_reads_waits_for_the_kernel() {
        let (_folder, file, content) = file(5_000_000);
        for _ in 0..20 {
            let Some(mut reader) = reader(&file) else { return };
            reader.begin(&file, 0..5_000_000);
            reader.submit();
            reader.begin(&file, 7..4_000_000);
        }
        // A reader with a read in progress is not kept for others.
        let Some(mut reader) = reader(&file) else { return };
        reader.begin(&file, 0..5_000_000);
        reader.submit();
        reader.give_back();
        let Some(mut reader) = self::reader(&file) else { return };
        let ticket = reader.begin(&file, 3..9).expect("begins");
        check(&mut reader, ticket, &content[3..9]);
    }
}
