//! Which frames of a target with a spill are durable in the files of its folder: all below one
//! number, since they are written in the order of their numbers.
//!
//! ```text
//! file 3: closed | file 4: its end is under way | file 5
//! ..  40  41     | 42 .. 57  58 .. 63           | 64  65
//!                          ^ durable: below 58, until file 4 is closed
//! ```
//!
//! Frames behind a write that failed are written again, in the next file: they are held, or in the
//! spill. So are those of a file whose end has failed, from the first one on that no sync has made
//! durable, and all of younger files: what is in two files is one frame to readers, and counts
//! once.

use std::collections::VecDeque;

use catchment_model::{Entry, Ledger, SourceId};
use catchment_writer::StoreFile;

/// What is known of the files that are not wholly durable, and of those before.
pub(crate) struct InFiles {
    /// Oldest first.
    files: VecDeque<Mark>,
    /// All frames below that number are durable in the files before.
    durable: u64,
    /// The lowest number of the frames that must be written again, until it is asked for.
    failed: Option<u64>,
    /// How far files had been written when the end of one failed: below that number the folder may
    /// show frames that are not durable.
    doubted: u64,
    /// The sum of what frames count that are written: all below a number.
    frames: Ledger,
    counted: u64,
}

/// How far a file's frames are written, covered by the sync under way, and durable.
struct Mark {
    file: StoreFile,
    recorded: u64,
    syncing: u64,
    durable: u64,
    is_closed: bool,
}

impl InFiles {
    /// Behind frames that have these counts, all of which are durable.
    pub(crate) fn behind(frames: Ledger, durable: u64) -> Self {
        let files = VecDeque::new();
        Self { files, durable, failed: None, doubted: durable, frames, counted: durable }
    }

    /// A frame with numbers below `end` is written, and has these counts: behind all that are, but
    /// for those that are written again.
    pub(crate) fn recorded(&mut self, file: StoreFile, end: u64, counts: &Ledger) {
        debug_assert!(end > self.files.back().map_or(self.durable, |newest| newest.recorded));
        if end > self.counted {
            self.frames.add(counts);
            self.counted = end;
        }
        match self.mark(file) {
            Some(mark) => mark.recorded = end,
            None => {
                let durable = self.files.back().map_or(self.durable, |before| before.recorded);
                let mark =
                    Mark { file, recorded: end, syncing: durable, durable, is_closed: false };
                self.files.push_back(mark);
            }
        }
    }

    /// The frame with that number is not written, nor are those behind it.
    pub(crate) fn failed(&mut self, number: u64) {
        self.failed = Some(self.failed.map_or(number, |before| before.min(number)));
    }

    /// From which number on frames must be written again, if there are any.
    pub(crate) fn take_failed(&mut self) -> Option<u64> {
        self.failed.take()
    }

    /// A sync of what is written in a file has begun.
    pub(crate) fn sync_begun(&mut self, file: StoreFile) {
        if let Some(mark) = self.mark(file) {
            mark.syncing = mark.recorded;
        }
    }

    /// It has succeeded.
    pub(crate) fn synced(&mut self, file: StoreFile) {
        if let Some(mark) = self.mark(file) {
            mark.durable = mark.syncing;
        }
    }

    /// The end of a file has failed: what is not durable in it may never be. Whether there is
    /// anything, which must be written again, with all behind it.
    pub(crate) fn not_confirmed(&mut self, file: StoreFile) -> bool {
        let is_lacking = |mark: &Mark| mark.file == file && mark.durable < mark.recorded;
        let Some(first) = self.files.iter().position(is_lacking) else { return false };
        self.files.truncate(first + 1);
        let mark = &mut self.files[first];
        let number = mark.durable;
        (mark.recorded, mark.syncing, mark.is_closed) = (number, number, true);
        self.failed(number);
        self.doubted = self.counted;
        true
    }

    /// Whether files whose end has failed show frames that are not durable in younger ones yet.
    pub(crate) fn is_doubted(&mut self) -> bool {
        self.durable() < self.doubted
    }

    /// Nothing more becomes of a file: it is closed, or what is not durable in it was removed.
    pub(crate) fn ended(&mut self, file: StoreFile) {
        if let Some(mark) = self.mark(file) {
            mark.is_closed = true;
        }
    }

    /// All frames below that number are durable. A file with a younger one gets no more frames: if
    /// all that it has is durable, its close is not waited for.
    pub(crate) fn durable(&mut self) -> u64 {
        let is_over = |files: &VecDeque<Mark>| {
            let oldest = files.front();
            oldest
                .is_some_and(|one| one.is_closed || files.len() > 1 && one.durable == one.recorded)
        };
        while is_over(&self.files)
            && let Some(oldest) = self.files.pop_front()
        {
            self.durable = oldest.recorded;
        }
        self.files.front().map_or(self.durable, |oldest| oldest.durable)
    }

    /// The sum of the frames that are written, as it is once what states it is durable.
    pub(crate) fn total(&self) -> Ledger {
        let mut total = self.frames.clone();
        for source in &mut total.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        total
    }

    /// The fragments of a source in the frames that are written.
    pub(crate) fn fragments(&self, source: SourceId) -> u64 {
        self.frames.sources[source.index()][Entry::FragmentsRecorded]
    }

    fn mark(&mut self, file: StoreFile) -> Option<&mut Mark> {
        self.files.iter_mut().find(|mark| mark.file == file)
    }
}

#[cfg(test)]
mod tests {
    use catchment_agent::FileId;

    use super::*;

    const FILES: [StoreFile; 2] =
        [StoreFile { store: 0, id: FileId(1) }, StoreFile { store: 0, id: FileId(2) }];

    #[test]
    fn all_before_the_first_file_that_is_not_durable_counts_and_nothing_behind_it() {
        let (none, [first, second]) = (Ledger::new(1), FILES);
        let mut files = InFiles::behind(none.clone(), 40);
        assert_eq!(files.durable(), 40);
        files.recorded(first, 42, &none);
        files.sync_begun(first);
        files.recorded(first, 43, &none);
        files.synced(first);
        assert_eq!(files.durable(), 42);
        files.recorded(second, 44, &none);
        files.sync_begun(second);
        files.synced(second);
        assert_eq!(files.durable(), 42, "the first file is neither closed nor synced to its end");
        files.ended(first);
        assert_eq!(files.durable(), 44);
    }

    #[test]
    fn the_close_of_a_file_that_is_synced_to_its_end_is_not_waited_for() {
        let (none, [first, second]) = (Ledger::new(1), FILES);
        let mut files = InFiles::behind(none.clone(), 40);
        files.recorded(first, 43, &none);
        files.sync_begun(first);
        files.recorded(second, 44, &none);
        files.sync_begun(second);
        files.synced(second);
        assert_eq!(files.durable(), 40);
        files.synced(first);
        assert_eq!(files.durable(), 44);
        assert!(!files.not_confirmed(first), "all of it is durable");
    }

    #[test]
    fn a_doubt_lasts_until_all_that_was_shown_is_durable() {
        let (none, [first, second]) = (Ledger::new(1), FILES);
        let mut files = InFiles::behind(none.clone(), 40);
        files.recorded(first, 43, &none);
        assert!(!files.is_doubted() && files.not_confirmed(first) && files.is_doubted());
        for (end, is_doubted) in [(41, true), (43, false)] {
            files.recorded(second, end, &none);
            files.sync_begun(second);
            files.synced(second);
            assert_eq!(files.is_doubted(), is_doubted, "below {end}");
        }
    }

    #[test]
    fn what_a_file_did_not_confirm_comes_again_with_all_behind_it_and_counts_once() {
        let (mut counts, [first, second]) = (Ledger::new(1), FILES);
        counts.sources[0][Entry::FragmentsRecorded] = 1;
        let mut files = InFiles::behind(Ledger::new(1), 40);
        let fragments = |files: &InFiles| files.fragments(SourceId(0));
        files.recorded(first, 41, &counts);
        files.sync_begun(first);
        files.recorded(first, 42, &counts);
        files.synced(first);
        files.recorded(second, 43, &counts);
        // The younger file is closed, and waits for the older one.
        files.ended(second);
        assert_eq!((files.durable(), fragments(&files)), (41, 3));
        assert!(files.not_confirmed(first) && !files.not_confirmed(first));
        files.ended(first);
        assert_eq!((files.take_failed(), files.durable(), fragments(&files)), (Some(41), 41, 3));
        let third = StoreFile { store: 0, id: FileId(3) };
        (42..=44).for_each(|end| files.recorded(third, end, &counts));
        assert_eq!((files.durable(), fragments(&files)), (41, 4));
        files.ended(third);
        assert_eq!((files.durable(), files.take_failed()), (44, None));
    }

    #[test]
    fn a_file_of_which_all_is_durable_needs_no_end() {
        let (none, [first, second]) = (Ledger::new(1), FILES);
        let mut files = InFiles::behind(none.clone(), 40);
        files.recorded(first, 41, &none);
        files.sync_begun(first);
        files.synced(first);
        files.recorded(second, 42, &none);
        assert!(!files.not_confirmed(first));
        files.ended(first);
        assert_eq!((files.durable(), files.take_failed()), (41, None));
        assert!(files.not_confirmed(second));
        assert_eq!((files.durable(), files.take_failed()), (41, Some(41)));
    }

    #[test]
    fn the_first_frame_that_fails_is_the_one_to_go_back_to_once() {
        let mut files = InFiles::behind(Ledger::new(1), 0);
        [7, 9, 8].into_iter().for_each(|number| files.failed(number));
        assert_eq!((files.take_failed(), files.take_failed()), (Some(7), None));
    }

    #[test]
    fn the_total_is_that_of_the_frames_that_are_written() {
        let mut counts = Ledger::new(1);
        counts.sources[0][Entry::FragmentsRecorded] = 3;
        let mut files = InFiles::behind(counts.clone(), 1);
        files.recorded(FILES[0], 2, &counts);
        let total = files.total();
        assert_eq!(total.sources[0][Entry::FragmentsRecorded], 6);
        assert_eq!(total.sources[0][Entry::FragmentsDurable], 6);
    }
}
