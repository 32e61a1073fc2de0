//! The disks of a target's folders: which one gets the next file, and when one is left.
//!
//! A target with several folders has one file open for frames, in one of them. The disk of the next
//! file is chosen when that file is requested, before it is needed: of the disks in order those
//! with room for a whole file, of these those that are not slow, of these the one with the most
//! free space. A disk is slow if a write took several times as long there as on the best one, in
//! the last minutes in which anything was written to it.
//!
//! A disk is left, with the file that is being written there, if it is full, fails or is gone, or
//! if nothing completes on it for a second; it is chosen again after 10 s at the earliest, and
//! after twice that time whenever it is left again, up to 43 minutes: each new attempt on a disk
//! that fails may cost frames. With one folder there is no choice; what the disk is waited for is
//! known all the same.

use std::path::{Path, PathBuf};

use catchment_agent::{CompletionKind, FileId};

use crate::files::StoreFile;
use crate::jobs::WriteCounts;

/// How long a write, a sync or the making of a file may take on one disk if there is another.
pub const STALL_NS: u64 = 1_000_000_000;
/// How long a disk that was left is not chosen, the first time.
const AWAY_NS: u64 = 10_000_000_000;
/// How often that time is doubled at most.
const DOUBLINGS_MAX: u32 = 8;
/// The time for which a disk's speed is remembered.
const RECENT_NS: u64 = 600_000_000_000;
/// A disk is slow if a write takes that many times as long as on the fastest one, and longer than
/// that: writes of a few kilobytes differ by more.
const SLOW_TIMES: u64 = 4;
const SLOW_NS_MIN: u64 = 20_000_000;

/// The disks of a target, by folder.
#[derive(Debug)]
pub struct Disks {
    disks: Vec<FolderDisk>,
    /// The room that a file needs, whole.
    file_bytes: u64,
    /// The room without which no file is begun.
    room_bytes: u64,
}

/// The disk of one folder.
#[derive(Debug)]
struct FolderDisk {
    folder: PathBuf,
    spare_bytes: Option<u64>,
    writes: Progress,
    /// Syncs and ends of files that have not completed.
    ordered: Vec<Ordered>,
    /// Of writes since the speed was last taken.
    busy_ns: u64,
    completed: u64,
    /// The time that a write takes while any is under way, and when that was measured.
    pace: Option<(u64, u64)>,
    polled_ns: u64,
    away: Option<Away>,
    /// How often it was left since a file was last closed on it.
    left: u32,
}

/// The writes of a disk.
#[derive(Debug, Default)]
struct Progress {
    begun: u64,
    completed: u64,
    /// Since when none has completed although some are under way.
    since_ns: u64,
}

/// A sync or an end of a file, and since when it is under way.
#[derive(Debug)]
struct Ordered {
    file: FileId,
    kind: CompletionKind,
    since_ns: u64,
}

/// A disk that was left.
#[derive(Debug)]
struct Away {
    reason: String,
    until_ns: u64,
}

impl Progress {
    fn set(&mut self, WriteCounts { begun, completed }: WriteCounts, now_ns: u64) {
        if self.begun == self.completed || completed > self.completed {
            self.since_ns = now_ns;
        }
        (self.begun, self.completed) = (begun, completed);
    }

    /// Since when a write is waited for, if any is.
    fn waits_since_ns(&self) -> Option<u64> {
        (self.begun > self.completed).then_some(self.since_ns)
    }
}

impl Disks {
    /// Of these folders. A file has up to `file_bytes`; it is begun with room for `room_bytes`.
    pub fn new(folders: &[PathBuf], file_bytes: u64, room_bytes: u64, now_ns: u64) -> Self {
        let disk = |folder: &PathBuf| FolderDisk {
            folder: folder.clone(),
            spare_bytes: None,
            writes: Progress::default(),
            ordered: Vec::new(),
            busy_ns: 0,
            completed: 0,
            pace: None,
            polled_ns: now_ns,
            away: None,
            left: 0,
        };
        Self { disks: folders.iter().map(disk).collect(), file_bytes, room_bytes }
    }

    /// Whether there is a choice.
    pub fn are_several(&self) -> bool {
        self.disks.len() > 1
    }

    /// A disk's folder.
    pub fn folder(&self, disk: usize) -> &Path {
        &self.disks[disk].folder
    }

    /// Why a disk was left, if it was and may not be chosen again yet.
    pub fn away(&self, disk: usize) -> Option<&str> {
        self.disks[disk].away.as_ref().map(|away| &*away.reason)
    }

    /// Takes a disk's present figures.
    pub fn polled(
        &mut self,
        disk: usize,
        writes: WriteCounts,
        spare_bytes: Option<u64>,
        now_ns: u64,
    ) {
        let one = &mut self.disks[disk];
        if one.writes.begun > one.writes.completed && !one.is_late(now_ns) {
            one.busy_ns += now_ns.saturating_sub(one.polled_ns);
        }
        one.completed += writes.completed - one.writes.completed;
        one.polled_ns = now_ns;
        one.spare_bytes = spare_bytes;
        one.writes.set(writes, now_ns);
        let is_over = |away: &mut Away| now_ns >= away.until_ns;
        if !one.is_late(now_ns) {
            one.away.take_if(is_over);
        }
    }

    /// Takes the speed of what was written since the last time.
    pub fn take_pace(&mut self, now_ns: u64) {
        for disk in self.disks.iter_mut().filter(|disk| disk.completed > 0) {
            disk.pace = Some((disk.busy_ns / disk.completed, now_ns));
            (disk.busy_ns, disk.completed) = (0, 0);
        }
    }

    /// A sync or the end of a file was ordered of its disk.
    pub fn ordered(&mut self, file: StoreFile, kind: CompletionKind, now_ns: u64) {
        let one = Ordered { file: file.id, kind, since_ns: now_ns };
        self.disks[file.store].ordered.push(one);
    }

    /// It has completed.
    pub fn completed(&mut self, file: StoreFile, kind: CompletionKind) {
        let ordered = &mut self.disks[file.store].ordered;
        if let Some(at) = ordered.iter().position(|one| (one.file, one.kind) == (file.id, kind)) {
            ordered.swap_remove(at);
        }
    }

    /// Since when a disk is waited for, if it is: since no write has completed although some are
    /// under way, or since the oldest sync or end of a file was ordered, if that is longer.
    pub fn waits_since_ns(&self, disk: usize) -> Option<u64> {
        let one = &self.disks[disk];
        let ordered = one.ordered.iter().map(|ordered| ordered.since_ns);
        ordered.chain(one.writes.waits_since_ns()).min()
    }

    /// A file was closed on a disk.
    pub fn closed(&mut self, disk: usize) {
        self.disks[disk].left = 0;
    }

    /// Whether writes or a sync of a disk do not complete, and there is another one.
    pub fn is_stalled(&self, disk: usize, now_ns: u64) -> bool {
        self.are_several() && self.disks[disk].is_late(now_ns)
    }

    /// Whether nothing completes on a disk, and another one can be chosen.
    pub fn must_be_left(&self, disk: usize, now_ns: u64) -> bool {
        self.is_stalled(disk, now_ns) && self.has_others(disk, now_ns)
    }

    /// Whether another disk can be chosen in place of one.
    fn has_others(&self, disk: usize, now_ns: u64) -> bool {
        let others = self.disks.iter().enumerate().filter(|(index, _)| *index != disk);
        let mut usable = others.filter(|(_, one)| self.is_usable(one, now_ns));
        usable.next().is_some()
    }

    /// Leaves a disk, if there is another one to go on with.
    pub fn leave(&mut self, disk: usize, reason: &str, now_ns: u64) -> bool {
        if !self.has_others(disk, now_ns) {
            return false;
        }
        let one = &mut self.disks[disk];
        let until_ns = now_ns.saturating_add(AWAY_NS << one.left.min(DOUBLINGS_MAX));
        one.left += 1;
        // The time in which it did not respond is no measure of its speed afterwards.
        (one.busy_ns, one.completed) = (0, 0);
        one.away = Some(Away { reason: reason.to_owned(), until_ns });
        true
    }

    /// The disk of the next file. If none can be used, it is the one that can be soonest.
    pub fn choose(&self, now_ns: u64) -> usize {
        let paces = self.disks.iter().filter_map(|disk| disk.recent_pace(now_ns));
        let slow_ns = paces.min().map_or(0, |best| best * SLOW_TIMES).max(SLOW_NS_MIN);
        let rank = |disk: &FolderDisk| {
            let spare = disk.spare_bytes.unwrap_or(self.room_bytes);
            let is_slow = disk.recent_pace(now_ns).is_some_and(|pace| pace > slow_ns);
            (spare >= self.file_bytes, !is_slow, spare)
        };
        let usable = self.disks.iter().enumerate().filter(|(_, one)| self.is_usable(one, now_ns));
        let best = usable.max_by_key(|(index, disk)| (rank(disk), usize::MAX - index));
        let until = |disk: &FolderDisk| {
            let until_ns = disk.away.as_ref().map_or(0, |away| away.until_ns);
            (disk.is_late(now_ns), until_ns, u64::MAX - disk.spare_bytes.unwrap_or(0))
        };
        let soonest = || self.disks.iter().enumerate().min_by_key(|(_, disk)| until(disk));
        best.or_else(soonest).map_or(0, |(index, _)| index)
    }

    fn is_usable(&self, disk: &FolderDisk, now_ns: u64) -> bool {
        let has_room = disk.spare_bytes.is_none_or(|spare| spare >= self.room_bytes);
        disk.away.is_none() && !disk.is_late(now_ns) && has_room
    }
}

impl FolderDisk {
    /// The end of a file takes its time on a disk that is well: it is not asked here.
    fn is_late(&self, now_ns: u64) -> bool {
        let syncs = self.ordered.iter().filter(|one| one.kind == CompletionKind::Sync);
        let mut since = syncs.map(|sync| sync.since_ns).chain(self.writes.waits_since_ns());
        since.any(|since_ns| now_ns.saturating_sub(since_ns) >= STALL_NS)
    }

    fn recent_pace(&self, now_ns: u64) -> Option<u64> {
        let (pace_ns, at_ns) = self.pace?;
        (now_ns.saturating_sub(at_ns) < RECENT_NS).then_some(pace_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    /// A file of the second disk.
    const FILE: StoreFile = StoreFile { store: 1, id: FileId(7) };

    fn disks(spare_bytes: &[u64]) -> Disks {
        let folders: Vec<PathBuf> =
            (0..spare_bytes.len()).map(|n| format!("/d{n}").into()).collect();
        let mut disks = Disks::new(&folders, 1_000, 100, S);
        for (disk, &spare_bytes) in spare_bytes.iter().enumerate() {
            disks.polled(disk, WriteCounts::default(), Some(spare_bytes), S);
        }
        disks
    }

    fn wrote(disks: &mut Disks, disk: usize, spare_bytes: u64, took_ns: u64) {
        for (completed, now_ns) in [(0, S), (1, S + took_ns)] {
            disks.polled(disk, WriteCounts { begun: 1, completed }, Some(spare_bytes), now_ns);
        }
        disks.take_pace(S + took_ns);
    }

    #[test]
    fn the_next_file_goes_where_the_most_is_free() {
        assert_eq!(disks(&[5_000, 6_000, 4_000]).choose(S), 1);
        assert_eq!(disks(&[5_000, 5_000]).choose(S), 0);
        // None has room for a whole file, and the first has not even room for frames.
        assert_eq!(disks(&[99, 100]).choose(S), 1);
    }

    #[test]
    fn a_slow_disk_is_chosen_when_others_have_no_room_for_a_file() {
        let mut disks = disks(&[5_000, 9_000]);
        wrote(&mut disks, 0, 5_000, S / 100);
        wrote(&mut disks, 1, 9_000, S / 20);
        assert_eq!(disks.choose(2 * S), 0);
        disks.polled(0, WriteCounts { begun: 1, completed: 1 }, Some(999), 2 * S);
        assert_eq!(disks.choose(2 * S), 1);
        // What was measured long ago says nothing.
        disks.polled(0, WriteCounts { begun: 1, completed: 1 }, Some(5_000), 2 * S);
        assert_eq!(disks.choose(2 * S + RECENT_NS), 1);
    }

    #[test]
    fn a_disk_on_which_nothing_completes_for_a_second_is_stalled() {
        let mut disks = disks(&[5_000, 5_000]);
        let under_way = |completed| WriteCounts { begun: 9, completed };
        disks.polled(0, under_way(0), Some(5_000), 2 * S);
        disks.polled(0, under_way(1), Some(5_000), 3 * S - 1);
        assert!(!disks.is_stalled(0, 4 * S - 2));
        assert!(disks.is_stalled(0, 4 * S - 1) && !disks.is_stalled(1, 4 * S));
        assert_eq!(disks.choose(4 * S), 1);
        // A sync, while writes complete.
        disks.ordered(FILE, CompletionKind::Sync, 4 * S);
        assert!(disks.is_stalled(1, 5 * S));
        disks.completed(FILE, CompletionKind::Sync);
        assert!(!disks.is_stalled(1, 6 * S));
        // The end of a file may take long.
        disks.ordered(FILE, CompletionKind::Finished, 6 * S);
        assert!(!disks.is_stalled(1, 60 * S));
    }

    #[test]
    fn a_disk_is_waited_for_since_the_oldest_of_what_is_under_way() {
        let mut disks = disks(&[5_000, 5_000]);
        let other = StoreFile { id: FileId(8), ..FILE };
        assert_eq!(disks.waits_since_ns(1), None);
        disks.polled(1, WriteCounts { begun: 2, completed: 0 }, None, 2 * S);
        assert_eq!((disks.waits_since_ns(0), disks.waits_since_ns(1)), (None, Some(2 * S)));
        // Writes get on, and an end of a file and a sync do not.
        disks.ordered(other, CompletionKind::Finished, 3 * S);
        disks.ordered(FILE, CompletionKind::Sync, 4 * S);
        disks.polled(1, WriteCounts { begun: 3, completed: 2 }, None, 5 * S);
        assert_eq!(disks.waits_since_ns(1), Some(3 * S));
        disks.completed(other, CompletionKind::Finished);
        assert_eq!(disks.waits_since_ns(1), Some(4 * S));
        disks.completed(FILE, CompletionKind::Sync);
        assert_eq!(disks.waits_since_ns(1), Some(5 * S));
        disks.polled(1, WriteCounts { begun: 3, completed: 3 }, None, 6 * S);
        assert_eq!(disks.waits_since_ns(1), None);
    }

    #[test]
    fn a_disk_that_was_left_comes_back_later_each_time_and_only_once_it_answers() {
        let mut disks = disks(&[5_000, 4_000]);
        assert!(disks.leave(0, "it fails", S) && disks.away(0) == Some("it fails"));
        assert!(!disks.leave(1, "it fails, too", S), "there is no other");
        assert_eq!(disks.choose(S), 1);
        let stalled = WriteCounts { begun: 1, completed: 0 };
        disks.polled(0, stalled, Some(5_000), 2 * S);
        disks.polled(0, stalled, Some(5_000), 11 * S);
        assert_eq!(disks.choose(11 * S), 1, "a write is under way for 9 s");
        let done = WriteCounts { begun: 1, completed: 1 };
        disks.polled(0, done, Some(5_000), 11 * S);
        assert_eq!((disks.choose(11 * S), disks.away(0)), (0, None));
        assert!(disks.leave(0, "it fails", 11 * S));
        disks.polled(0, done, Some(5_000), 30 * S);
        assert_eq!(disks.choose(30 * S), 1);
        disks.polled(0, done, Some(5_000), 31 * S);
        assert_eq!(disks.choose(31 * S), 0);
    }
}
