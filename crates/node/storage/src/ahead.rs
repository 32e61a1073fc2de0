//! Reads that are announced to the system before their turn comes.
//!
//! Nothing is announced while reads find what they want in the page cache: that costs one question
//! each. From the first that does not, those after it are announced, as far ahead as a bound in bytes
//! says, so that a disk has many to work on.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use catchment_disk::ReadFile;

/// Reads that will come, in the order in which they are begun.
pub(crate) struct Ahead<'a> {
    reads: Vec<Read<'a>>,
    cold: AtomicBool,
    /// Reads that were announced, or begun without.
    next: Mutex<usize>,
}

struct Read<'a> {
    file: &'a ReadFile,
    bytes: Range<u64>,
    /// Bytes of this read and of all before it.
    end: u64,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(reads: impl Iterator<Item = (&'a ReadFile, Range<u64>)>) -> Self {
        let mut end = 0;
        let reads = reads.map(|(file, bytes)| {
            end += bytes.end - bytes.start;
            Read { file, bytes, end }
        });
        Self { reads: reads.collect(), cold: AtomicBool::new(false), next: Mutex::new(0) }
    }

    /// Says that a read begins now. Reads may come out of order by as many as there are threads.
    pub(crate) fn come_to(&self, place: usize) {
        if !self.cold.load(Relaxed) {
            let Read { file, bytes, .. } = &self.reads[place];
            if bytes.is_empty() || file.is_cached(bytes.end - 1) {
                return;
            }
            self.cold.store(true, Relaxed);
        }
        for Read { file, bytes, .. } in &self.reads[self.due(place)] {
            file.announce(bytes.clone());
        }
    }

    /// The reads to be announced when that one begins: itself, and others until the bound is passed.
    fn due(&self, place: usize) -> Range<usize> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let first = place.max(*next);
        let far = self.reads[place].end + AHEAD_BYTES;
        let count = self.reads[first..].partition_point(|read| {
            let begins = read.end - (read.bytes.end - read.bytes.start);
            begins < far
        });
        *next = first + count;
        first..*next
    }
}

/// How much is announced beyond what is being read: some hundredths of a second of a fast disk.
const AHEAD_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(file: &ReadFile, count: u64, bytes: u64) -> Ahead<'_> {
        Ahead::new((0..count).map(|place| (file, place * bytes..(place + 1) * bytes)))
    }

    fn any_file() -> ReadFile {
        ReadFile::open(&std::env::current_exe().expect("a program")).expect("opens")
    }

    #[test]
    fn every_read_is_announced_once_and_no_further_ahead_than_the_bound() {
        let file = any_file();
        let ahead = ahead(&file, 100, 1 << 20);
        let mut announced = 0;
        for place in 0..100 {
            let due = ahead.due(place);
            assert_eq!(due.start, announced);
            announced = due.end;
            assert_eq!(announced, (place + 33).min(100));
        }
    }

    #[test]
    fn reads_before_the_first_cold_one_are_not_announced() {
        let file = any_file();
        let ahead = ahead(&file, 10, 1);
        assert_eq!(ahead.due(4), 4..10);
        // A thread that took an earlier one comes later.
        assert_eq!(ahead.due(3), 10..10);
        assert_eq!(ahead.due(9), 10..10);
    }

    #[test]
    fn a_read_beyond_the_bound_is_announced_with_the_next_alone() {
        let file = any_file();
        let ahead = ahead(&file, 4, 1 << 30);
        assert_eq!(ahead.due(0), 0..2);
        assert_eq!(ahead.due(1), 2..3);
    }

    #[test]
    fn what_is_cached_is_not_announced() {
        let file = any_file();
        let mut byte = [0];
        file.read_at(999, &mut byte).expect("reads");
        let ahead = ahead(&file, 1, 1_000);
        ahead.come_to(0);
        assert_eq!(*ahead.next.lock().expect("no panic"), usize::from(ahead.cold.load(Relaxed)));
    }
}
