//! Which frames are in which files of a place: what a run's index says of a storage node.

use serde::{Deserialize, Serialize};

/// The most ranges of files of a place.
pub const LOCATION_RANGES_MAX: usize = 64;

/// Closed files of a place, and the frames in them: one file, or several between two indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFrames {
    /// The index of the first one: the number at the end of its name.
    pub first_file: u32,
    /// That of the last one.
    pub last_file: u32,
    /// How many there are.
    pub files: u32,
    /// The lowest number of their frames.
    pub first_frame: u64,
    /// The highest.
    pub last_frame: u64,
}

impl FileFrames {
    /// One file, with frames of these numbers.
    pub fn one(index: u32, (first_frame, last_frame): (u64, u64)) -> Self {
        Self { first_file: index, last_file: index, files: 1, first_frame, last_frame }
    }

    /// Whether its numbers do not contradict each other.
    pub fn is_valid(&self) -> bool {
        self.first_file <= self.last_file
            && (1..=u64::from(self.last_file - self.first_file) + 1).contains(&self.files.into())
            && self.first_frame <= self.last_frame
    }

    /// Adds files to those of a place, which are in the order of their indexes. Where there would
    /// be more than [`LOCATION_RANGES_MAX`] entries, two neighbours with few files become one.
    pub fn add_to(self, all: &mut Vec<Self>) {
        let at = all.partition_point(|one| one.first_file < self.first_file);
        let before = at.checked_sub(1).and_then(|before| all.get_mut(before));
        if let Some(before) = before.filter(|before| before.last_file > self.first_file) {
            // Disks do not close files in order: this one is within a range.
            *before = before.with(self);
            return;
        }
        all.insert(at, self);
        if all.len() > LOCATION_RANGES_MAX {
            let pairs =
                all.windows(2).map(|pair| u64::from(pair[0].files) + u64::from(pair[1].files));
            let fewest = pairs.enumerate().min_by_key(|(_, files)| *files);
            let Some((first, _)) = fewest else { return };
            let second = all.remove(first + 1);
            all[first] = all[first].with(second);
        }
    }

    /// Files behind that index are there no longer. Its first one is.
    pub fn cut_behind(&mut self, last_file: u32) {
        self.last_file = self.last_file.min(last_file);
        let indexes = self.last_file.saturating_sub(self.first_file).saturating_add(1);
        self.files = self.files.min(indexes);
    }

    fn with(self, other: Self) -> Self {
        Self {
            first_file: self.first_file.min(other.first_file),
            last_file: self.last_file.max(other.last_file),
            files: self.files.saturating_add(other.files),
            first_frame: self.first_frame.min(other.first_frame),
            last_frame: self.last_frame.max(other.last_frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_whose_last_files_are_cut_has_the_others() {
        let (first_frame, last_frame) = (10, 90);
        let mut range =
            FileFrames { first_file: 3, last_file: 9, files: 6, first_frame, last_frame };
        range.cut_behind(12);
        assert_eq!((range.last_file, range.files), (9, 6));
        range.cut_behind(5);
        assert_eq!((range.last_file, range.files), (5, 3));
        assert!(range.is_valid());
    }

    #[test]
    fn files_become_ranges_where_there_are_many_and_none_is_forgotten() {
        let mut all = Vec::new();
        // As two disks close them: not in order.
        for pair in 0..500_u32 {
            for index in [2 * pair + 1, 2 * pair] {
                let first = u64::from(index) * 10;
                FileFrames::one(index, (first, first + 9)).add_to(&mut all);
            }
        }
        assert_eq!(all.len(), LOCATION_RANGES_MAX);
        assert!(all.iter().all(FileFrames::is_valid), "{all:?}");
        assert_eq!(all.iter().map(|one| one.files).sum::<u32>(), 1_000);
        assert_eq!((all[0].first_file, all[0].first_frame), (0, 0));
        let last = all.last().unwrap();
        assert_eq!((last.last_file, last.last_frame), (999, 9_999));
        assert!(all.windows(2).all(|pair| pair[0].last_frame < pair[1].first_frame), "{all:?}");
        // No range has become much longer than the others.
        assert!(all.iter().all(|one| one.files <= 64), "{all:?}");
    }

    #[test]
    fn what_contradicts_itself_is_not_valid() {
        let one = FileFrames::one(3, (7, 9));
        assert!(one.is_valid());
        for bad in [
            FileFrames { last_file: 2, ..one },
            FileFrames { files: 0, ..one },
            FileFrames { files: 2, ..one },
            FileFrames { last_frame: 6, ..one },
        ] {
            assert!(!bad.is_valid(), "{bad:?}");
        }
        assert!(
            FileFrames { first_file: 0, last_file: u32::MAX, files: u32::MAX, ..one }.is_valid()
        );
    }
}
