//! Announces reads to the system before their turn comes.
//!
//! Nothing is announced while reads are served from the page cache: checking that costs one query
//! each. From the first miss on, the following reads are announced, as far ahead as a bound in
//! bytes allows, so that a disk has many to work on. They are announced a step at a time, so that
//! the thread with the second read does not wait for the last announcement, and does not start a
//! read that is not yet announced: the system would then guess.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_disk::ReadFile;
use parking_lot::Mutex;

/// The coming reads, in the order in which they begin.
pub(crate) struct Ahead<'a> {
    reads: Vec<Read<'a>>,
    /// Bytes of all reads.
    bytes: u64,
    cold: AtomicBool,
    /// Bytes of reads that were announced, or begun without announcement.
    announced: Mutex<u64>,
}

struct Read<'a> {
    file: &'a ReadFile,
    bytes: Range<u64>,
    /// Bytes of the reads before it.
    before: u64,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(reads: impl Iterator<Item = (&'a ReadFile, Range<u64>)>) -> Self {
        let mut all = 0;
        let reads = reads.map(|(file, bytes)| {
            let before = all;
            all += bytes.end - bytes.start;
            Read { file, bytes, before }
        });
        let reads = reads.collect();
        Self { reads, bytes: all, cold: AtomicBool::new(false), announced: Mutex::new(0) }
    }

    /// Notes that these bytes of a read, counted from its beginning, are now being read. Reads may
    /// be out of order by as many as there are threads.
    pub(crate) fn come_to(&self, index: usize, now: Range<u64>) {
        let Read { file, bytes, before } = &self.reads[index];
        if !self.cold.load(Relaxed) {
            if now.start > 0 || is_cached(file, bytes) {
                return;
            }
            self.cold.store(true, Relaxed);
        }
        while self.announce_step(before + now.start..before + now.end) {}
    }

    /// Announces the next bytes, unless they are further ahead of those bytes than the bound.
    fn announce_step(&self, now: Range<u64>) -> bool {
        // Held until the end, so that later bytes are not announced first.
        let mut announced = self.announced.lock();
        let Some((read, bytes)) = self.due(&mut announced, now) else { return false };
        self.reads[read].file.announce(bytes);
        true
    }

    /// The next bytes to announce while those are being read: the read's index and the range.
    fn due(&self, announced: &mut u64, now: Range<u64>) -> Option<(usize, Range<u64>)> {
        let from = now.start.max(*announced);
        if from >= self.bytes.min(now.end + AHEAD_BYTES) {
            return None;
        }
        let behind = |read: &Read<'_>| read.before + (read.bytes.end - read.bytes.start) <= from;
        let index = self.reads.partition_point(behind);
        let read = &self.reads[index];
        let start = read.bytes.start + (from - read.before);
        let end = read.bytes.end.min(start + STEP_BYTES);
        *announced = from + (end - start);
        Some((index, start..end))
    }
}

/// Whether reads of these bytes find them in the page cache, judged by two of them: data read past
/// it ([`crate::fetch`]) have their end there.
fn is_cached(file: &ReadFile, bytes: &Range<u64>) -> bool {
    let middle = bytes.start.midpoint(bytes.end);
    bytes.is_empty()
        || [bytes.end - 1, middle].into_iter().all(|byte| file.is_cached(byte) == Some(true))
}

/// How much is announced beyond the bytes being read: a few thousandths of a second of a fast disk.
/// More costs time, 0.2 ms per MB before the first read, and makes the disk read the first needed
/// bytes among others.
const AHEAD_BYTES: u64 = 8 << 20;
/// The size of one announcement.
const STEP_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// That many reads of that length, with a byte between.
    fn ahead(file: &ReadFile, count: u64, bytes: u64) -> Ahead<'_> {
        Ahead::new((0..count).map(|index| {
            let start = index * (bytes + 1);
            (file, start..start + bytes)
        }))
    }

    fn any_file() -> ReadFile {
        ReadFile::open(&std::env::current_exe().expect("a program")).expect("opens")
    }

    /// Everything announced while those bytes are read, and how far that goes.
    fn due(ahead: &Ahead<'_>, now: Range<u64>) -> (Vec<(usize, Range<u64>)>, u64) {
        let mut announced = ahead.announced.lock();
        let steps = std::iter::from_fn(|| ahead.due(&mut announced, now.clone()));
        (steps.collect(), *announced)
    }

    #[test]
    fn every_byte_is_announced_once_and_no_further_ahead_than_the_bound() {
        let file = any_file();
        let ahead = ahead(&file, 10, 3 * MIB + 5);
        let mut next = (0, 0);
        for start in (0..ahead.bytes).step_by(256 << 10) {
            let end = ahead.bytes.min(start + (256 << 10));
            let (steps, announced) = due(&ahead, start..end);
            assert!(announced >= (end + AHEAD_BYTES).min(ahead.bytes));
            assert!(announced < end + AHEAD_BYTES + STEP_BYTES);
            for (read, bytes) in steps {
                assert_eq!((read, bytes.start), next);
                assert!(bytes.start < bytes.end && bytes.end <= ahead.reads[read].bytes.end);
                let whole = bytes.end == ahead.reads[read].bytes.end;
                next = if whole { (read + 1, bytes.end + 1) } else { (read, bytes.end) };
            }
        }
        assert_eq!(next.0, 10);
    }

    #[test]
    fn reads_before_the_first_cold_one_are_not_announced() {
        let file = any_file();
        let ahead = ahead(&file, 10, 2);
        assert_eq!(due(&ahead, 8..10).0[0], (4, 12..14));
        // A thread that took an earlier read arrives later.
        assert_eq!(due(&ahead, 6..8), (vec![], 20));
        assert_eq!(due(&ahead, 18..20), (vec![], 20));
    }

    #[test]
    fn a_long_read_is_announced_to_its_end() {
        let file = any_file();
        let ahead = ahead(&file, 2, 3 * AHEAD_BYTES);
        assert_eq!(due(&ahead, 0..3 * AHEAD_BYTES).1, 4 * AHEAD_BYTES);
    }

    #[test]
    fn reads_of_nothing_are_passed_over() {
        let file = any_file();
        let ahead = Ahead::new([(&file, 5..5), (&file, 7..9), (&file, 9..9)].into_iter());
        assert_eq!(due(&ahead, 0..0), (vec![(1, 7..9)], 2));
        ahead.come_to(0, 0..0);
        ahead.come_to(2, 0..0);
    }

    #[test]
    fn what_is_cached_is_not_announced() {
        let file = any_file();
        let mut byte = [0];
        file.read_at(999, &mut byte).expect("reads");
        let ahead = ahead(&file, 1, 1_000);
        ahead.come_to(0, 0..500);
        ahead.come_to(0, 500..1_000);
        let cold = ahead.cold.load(Relaxed);
        assert_eq!(*ahead.announced.lock(), if cold { 1_000 } else { 0 });
    }
}
