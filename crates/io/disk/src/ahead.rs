//! Hints to the system about upcoming reads and the memory that they will fill.
//!
//! On a miss in the page cache, the system guesses: it reads up to `read_ahead_kb` from there on, 8
//! MiB on some machines, and waits for it. A caller that announces its reads gets exactly these
//! bytes, many pieces at once.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use crate::read::ReadFile;

impl ReadFile {
    /// Whether the byte at that offset can be read without a disk; none if the system cannot tell.
    /// An offset beyond the end counts as readable.
    ///
    /// Querying a byte that is not cached begins to read a few pages there.
    pub fn is_cached(&self, offset: u64) -> Option<bool> {
        let mut byte = 0_u8;
        let target = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let Ok(offset) = offset.try_into() else { return Some(true) };
        let file = self.file().as_raw_fd();
        // SAFETY: one target of one byte, which lives until the call returns.
        let read = unsafe { libc::preadv2(file, &raw const target, 1, offset, libc::RWF_NOWAIT) };
        match read {
            0.. => Some(true),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => Some(false),
            _ => None,
        }
    }

    /// Makes the system begin to read these bytes into the page cache, without waiting for them.
    /// Bytes already read, or not present, cost little, and a system that does nothing does no
    /// harm.
    pub fn announce(&self, bytes: Range<u64>) {
        let file = self.file().as_raw_fd();
        let mut at = bytes.start;
        while at < bytes.end {
            let Ok(offset) = at.try_into() else { return };
            // The system accepts no more than its read-ahead at a time.
            let end = bytes.end.min((at / PIECE_BYTES + 1) * PIECE_BYTES);
            let length = (end - at) as libc::off_t;
            // SAFETY: numbers only. A refusal is not an error: the bytes are read when they are
            // needed.
            unsafe { libc::posix_fadvise(file, offset, length, libc::POSIX_FADV_WILLNEED) };
            at = end;
        }
    }
}

/// Makes the system use huge pages for untouched memory: they are zeroed several times as fast.
pub fn prefer_huge_pages(memory: &mut [u8]) {
    let start = memory.as_mut_ptr();
    let skip = start.align_offset(PAGE_BYTES);
    let bytes = memory.len().saturating_sub(skip) / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: whole pages of this memory; their contents stay. A refusal, for example if pages are
    // larger, is not an error.
    unsafe { libc::madvise(start.wrapping_add(skip).cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Makes the allocator return its free memory to the system; otherwise it keeps free memory between
/// pieces in use. Does nothing unless the allocator is that of the GNU C library.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a number only; memory in use is not touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives the calling thread's reads the lowest best-effort I/O priority, so that they wait for
/// those of others. Threads that it starts from then on inherit it. The effect depends on the
/// disk's scheduler.
///
/// # Errors
/// The system's error.
pub fn lower_io_priority() -> io::Result<()> {
    let priority = (IOPRIO_CLASS_BEST_EFFORT << IOPRIO_CLASS_SHIFT) | IOPRIO_LOWEST;
    // SAFETY: ioprio_set takes numbers only; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The least read-ahead of common systems: an announcement of this size is never cut.
const PIECE_BYTES: u64 = 128 << 10;
const PAGE_BYTES: usize = 4096;
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_BEST_EFFORT: libc::c_int = 2;
const IOPRIO_CLASS_SHIFT: u32 = 13;
const IOPRIO_LOWEST: libc::c_int = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_announced_is_read_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
        std::fs::write(&path, &bytes).expect("writes");
        let file = ReadFile::open(&path).expect("opens");
        file.announce(1_000..400_000);
        file.announce(5..5);
        file.announce(u64::MAX - 9..u64::MAX);
        let mut read = vec![0; bytes.len()];
        assert_eq!(file.read_at(0, &mut read).expect("reads"), bytes.len());
        assert!(read == bytes);
        assert!(file.is_cached(1 << 20) != Some(false));
        assert_eq!(file.is_cached(u64::MAX), Some(true));
    }

    #[test]
    fn huge_pages_leave_memory_as_it_is() {
        let mut memory: Vec<u8> = (0..5_000_003_u32).map(|n| (n ^ (n >> 8)) as u8).collect();
        for from in [0, 1, 4_999_990, 5_000_003] {
            prefer_huge_pages(&mut memory[from..]);
        }
        assert!(memory.iter().zip(0_u32..).all(|(byte, n)| *byte == (n ^ (n >> 8)) as u8));
    }

    #[test]
    fn a_lowered_priority_is_that_of_threads_started_after() {
        let own = || {
            // SAFETY: ioprio_get takes numbers only; 0 is the calling thread.
            unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) }
        };
        let lowest = libc::c_long::from((IOPRIO_CLASS_BEST_EFFORT << IOPRIO_CLASS_SHIFT) | 7);
        let of_both = std::thread::spawn(move || {
            lower_io_priority().expect("any thread may");
            (own(), std::thread::spawn(own).join().expect("ends"))
        });
        assert_eq!(of_both.join().expect("ends"), (lowest, lowest));
        assert_ne!(own(), lowest);
    }
}
