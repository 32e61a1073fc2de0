//! Waiting until what a run has spilled for a storage node is forwarded, so that it can go on.
//!
//! A new run begins instead if the node is not there, if nothing has been forwarded for 10 s, or if
//! the rest will not be in time at that speed: that run is spilled, too, and loses nothing.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long an interrupted run waits until what it has spilled is forwarded.
#[derive(Clone, Copy, Debug)]
pub struct ForwardWait<'a> {
    /// How long it may still be until the run goes on. The last sixth is left for the nodes, which
    /// close their files then.
    pub within: Duration,
    /// What has been forwarded ([`Forwarding::start`](crate::Forwarding::start)).
    pub bytes: &'a AtomicU64,
}

impl ForwardWait<'_> {
    /// Waits until a stream's folder in a spill is gone, as long as a node is there and takes it
    /// fast enough.
    pub(crate) fn until_forwarded(&self, folder: &Path, is_there: impl Fn() -> bool) {
        let left_bytes = || {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum::<u64>()
        };
        let (begin, before, mut looked) = (Instant::now(), self.bytes.load(Relaxed), None);
        let mut progress = Progress::new(self.within, left_bytes());
        while folder.exists() {
            let forwarded = self.bytes.load(Relaxed).saturating_sub(before);
            if !progress.is_fast_enough(begin.elapsed(), left_bytes(), forwarded) {
                return;
            }
            if looked.is_none_or(|looked: Instant| looked.elapsed() >= LOOK_EVERY) {
                if !is_there() {
                    return;
                }
                looked = Some(Instant::now());
            }
            std::thread::sleep(POLL);
        }
    }
}

/// How much of a stream is forwarded.
struct Progress {
    within: Duration,
    all: u64,
    done: u64,
    /// When that was last more than before.
    since: Duration,
}

impl Progress {
    fn new(within: Duration, all: u64) -> Self {
        Self { within: within.mul_f64(WITHIN), all, done: 0, since: Duration::ZERO }
    }

    /// Whether all may be forwarded in time. After that time so much is left in files, each of
    /// which is removed as a whole, and so much is on its way or was.
    fn is_fast_enough(&mut self, passed: Duration, left: u64, forwarded: u64) -> bool {
        let done = self.all.saturating_sub(left).max(forwarded.min(self.all));
        if done > self.done {
            (self.done, self.since) = (done, passed);
        }
        let until_s = passed.as_secs_f64() * self.all as f64 / self.done.max(1) as f64;
        let is_slow = passed >= STILL && until_s > self.within.as_secs_f64();
        passed < self.within && passed.saturating_sub(self.since) < STILL && !is_slow
    }
}

/// The part of the time that may be waited.
const WITHIN: f64 = 5.0 / 6.0;
/// How long nothing may be forwarded, and when it is first judged how long the rest takes.
const STILL: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);
/// How often it is looked whether the node is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 1_000;

    /// After how many seconds it is given up if `forwarded` says what was forwarded by then, and
    /// files of so many bytes are removed; none: never.
    fn given_up(within_s: u64, file: u64, forwarded: impl Fn(u64) -> u64) -> Option<u64> {
        let mut progress = Progress::new(Duration::from_secs(within_s), ALL);
        (0..).take_while(|&s| forwarded(s) < ALL).find(|&s| {
            let bytes = forwarded(s);
            let left = ALL - bytes / file * file;
            !progress.is_fast_enough(Duration::from_secs(s), left, bytes)
        })
    }

    #[test]
    fn what_is_forwarded_within_the_time_of_a_resume_is_waited_for_and_nothing_else() {
        // In 40 s, in one file, the first of which is gone at the end.
        let in_40_s = |s| s * 25;
        assert_eq!(given_up(60, ALL, in_40_s), None);
        assert_eq!(given_up(600, ALL, in_40_s), None);
        assert_eq!(given_up(30, ALL, in_40_s), Some(10));
        assert_eq!(given_up(6, ALL, in_40_s), Some(5));
        // In 400 s.
        let in_400_s = |s| s * 5 / 2;
        assert_eq!(given_up(600, ALL, in_400_s), None);
        assert_eq!(given_up(60, 1, in_400_s), Some(10));
        // A node that stands still in the middle.
        assert_eq!(given_up(600, ALL, |s| s.min(20) * 25), Some(30));
        assert_eq!(given_up(600, ALL, |_| 0), Some(10));
    }

    #[test]
    fn files_that_are_removed_count_although_another_program_forwards_them() {
        let mut progress = Progress::new(Duration::from_secs(60), ALL);
        let mut after = |s, left| progress.is_fast_enough(Duration::from_secs(s), left, 0);
        assert!(after(9, ALL) && after(10, 600) && after(19, 600));
        assert!(!after(20, 600));
    }
}
