//! Reusable memory for samples.
//!
//! Fresh memory costs as much as decoding: the system zeroes each page when it is first touched,
//! and an allocator that kept the pages zeroes them again. Callers give the memory of large
//! samples back after use, and the next read overwrites it.
//!
//! The allocator returns freed memory to the system only at the end of its heap. Therefore memory
//! in use is counted ([`InUse`]), and when it has fallen to half of its maximum since the last
//! time, and by at least 128 MiB, the rest is returned. A continuous reader stays at a constant
//! level and has its memory reused.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use catchment_disk::{prefer_huge_pages, release_free_memory};
use parking_lot::Mutex;

/// Returns the memory of samples after use, for a later read. The pool holds at most 64 MiB: the
/// oldest memory is freed first, and larger memory is freed at once.
pub fn give_back(memory: Vec<u8>) {
    POOL.give_back(memory);
}

/// That many bytes with meaningless contents: all of them must be written.
pub(crate) fn take(bytes: usize) -> Vec<u8> {
    POOL.take(bytes)
}

/// A copy of these bytes.
pub(crate) fn copy_of(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() < LEAST_BYTES {
        return bytes.to_vec();
    }
    let mut copy = take(bytes.len());
    copy.copy_from_slice(bytes);
    copy
}

/// Bytes of columns in use, counted for the lifetime of this value.
#[derive(Debug)]
pub struct InUse {
    bytes: usize,
}

impl InUse {
    /// Adds that many bytes to those in use.
    pub fn new(bytes: usize) -> Self {
        LEVEL.rise(bytes);
        Self { bytes }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if LEVEL.fall(self.bytes) {
            release_free_memory();
        }
    }
}

/// Bytes in use, and their maximum since memory was last returned to the system.
struct Level {
    bytes: AtomicUsize,
    most: AtomicUsize,
}

impl Level {
    const fn new() -> Self {
        Self { bytes: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    fn rise(&self, bytes: usize) {
        let now = self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes);
        self.most.fetch_max(now, Relaxed);
    }

    /// Returns true, to one caller, if so much has been freed that the rest should be returned to
    /// the system.
    fn fall(&self, bytes: usize) -> bool {
        let now = self.bytes.fetch_sub(bytes, Relaxed).saturating_sub(bytes);
        let most = self.most.load(Relaxed);
        let fell = now <= most / 2 && most - now >= RELEASE_BYTES_MIN;
        fell && self.most.compare_exchange(most, now, Relaxed, Relaxed).is_ok()
    }
}

static LEVEL: Level = Level::new();
static POOL: Pool = Pool { free: Mutex::new(Vec::new()), bytes_max: 64 << 20 };

/// The returned memory, in order of return.
struct Pool {
    free: Mutex<Vec<Vec<u8>>>,
    bytes_max: usize,
}

impl Pool {
    fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes < LEAST_BYTES {
            return vec![0; bytes];
        }
        let found = {
            // In a process that was forked while another thread held it, it stays locked.
            let Some(mut free) = self.free.try_lock() else { return fresh(bytes) };
            let fits = |memory: &Vec<u8>| (bytes..=2 * bytes).contains(&memory.capacity());
            let fitting = free.iter().enumerate().filter(|(_, memory)| fits(memory));
            let smallest = fitting.min_by_key(|(_, memory)| memory.capacity());
            smallest.map(|(index, _)| index).map(|index| free.remove(index))
        };
        let Some(mut memory) = found else { return fresh(bytes) };
        // Longer memory is cut: only bytes never written before are written here.
        memory.resize(bytes, 0);
        memory
    }

    fn give_back(&self, memory: Vec<u8>) {
        if !(LEAST_BYTES..=self.bytes_max).contains(&memory.capacity()) {
            return;
        }
        let mut gone = Vec::new();
        {
            let Some(mut free) = self.free.try_lock() else { return };
            free.push(memory);
            let mut bytes: usize = free.iter().map(Vec::capacity).sum();
            while bytes > self.bytes_max {
                let oldest = free.remove(0);
                bytes -= oldest.capacity();
                gone.push(oldest);
            }
        }
        // Freeing takes the system a while, so it happens without the lock.
        drop(gone);
    }
}

/// Newly allocated memory.
fn fresh(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    if bytes >= HUGE_BYTES_MIN {
        prefer_huge_pages(&mut memory);
    }
    memory
}

/// Less is not worth the time that returning it takes.
const RELEASE_BYTES_MIN: usize = 128 << 20;
/// Smaller memory does not benefit from a huge page.
const HUGE_BYTES_MIN: usize = 4 << 20;
/// Smaller pieces are left to the allocator, which has them ready.
const LEAST_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn pool() -> Pool {
        Pool { free: Mutex::default(), bytes_max: 4 * MIB }
    }

    fn lengths(pool: &Pool) -> Vec<usize> {
        pool.free.lock().iter().map(Vec::capacity).collect()
    }

    #[test]
    fn memory_that_is_given_back_is_what_the_next_one_gets() {
        let pool = pool();
        let first = pool.take(MIB);
        let address = first.as_ptr();
        pool.give_back(first);
        let second = pool.take(MIB - 7);
        assert_eq!((second.as_ptr(), second.len()), (address, MIB - 7));
        assert!(lengths(&pool).is_empty());
        pool.give_back(second);
        // Longer than it was, and no longer than it can be.
        let third = pool.take(MIB);
        assert_eq!((third.as_ptr(), third.len()), (address, MIB));
    }

    #[test]
    fn memory_goes_to_what_nearly_fills_it() {
        let pool = pool();
        for bytes in [MIB, 2 * MIB - 1, 256 << 10] {
            pool.give_back(vec![0; bytes]);
        }
        assert_eq!(pool.take(MIB - 1).capacity(), MIB);
        assert_eq!(pool.take(MIB).capacity(), 2 * MIB - 1);
        assert_eq!(lengths(&pool), [256 << 10]);
        // Neither too small nor far too large.
        assert_eq!(pool.take((256 << 10) + 1).len(), (256 << 10) + 1);
        pool.give_back(vec![0; 2 * MIB]);
        assert_eq!(pool.take(MIB - 1).len(), MIB - 1);
        assert_eq!(lengths(&pool), [256 << 10, 2 * MIB]);
    }

    #[test]
    fn no_more_is_kept_than_the_bound_and_nothing_small() {
        let pool = pool();
        for bytes in [2 * MIB, MIB, MIB - 1, 1_000, 0] {
            pool.give_back(vec![0; bytes]);
        }
        assert_eq!(lengths(&pool), [2 * MIB, MIB, MIB - 1]);
        pool.give_back(vec![0; MIB]);
        assert_eq!(lengths(&pool), [MIB, MIB - 1, MIB]);
        // Memory that is too large evicts nothing.
        pool.give_back(vec![0; 5 * MIB]);
        assert_eq!(lengths(&pool), [MIB, MIB - 1, MIB]);
    }
    #[test]
    fn memory_is_handed_back_when_half_of_much_has_gone_and_not_while_it_is_reused() {
        let level = Level::new();
        level.rise(1_000 * MIB);
        for _ in 0..10 {
            // A reader that frees its memory and takes as much again.
            assert!(!level.fall(400 * MIB));
            level.rise(400 * MIB);
        }
        assert!(level.fall(500 * MIB));
        assert!(!level.fall(200 * MIB));
        assert!(level.fall(50 * MIB));
        // After a small release the rest is kept.
        assert!(level.fall(250 * MIB));
        level.rise(100 * MIB);
        assert!(!level.fall(100 * MIB));
    }
}
