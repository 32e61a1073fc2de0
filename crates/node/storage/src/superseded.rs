//! Superseded frames: those of a stream that was resumed from a point before them.
//!
//! Every file lists what was known of them when it was begun, and the lists of all files apply to
//! all frames. This program does not separate such frames from others, and would return their rows
//! twice: a run that has any is refused.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use catchment_frame::{FrameInfo, Superseded};

use crate::error::StorageError;
use crate::open::RunFile;

/// Checks that no frame of the files is superseded.
///
/// # Errors
/// The first superseded frame.
pub(crate) fn refuse(files: &[RunFile]) -> Result<(), StorageError> {
    let records = files.iter().flat_map(|file| &file.header().superseded);
    let bounds = Bounds::of(records.copied());
    if bounds.streams.is_empty() {
        return Ok(());
    }
    for file in files {
        let mut infos = file.reader.frames().iter().map(|frame| &frame.info);
        if let Some(info) = infos.find(|info| bounds.has(info)) {
            let (path, stream, sequence) = (file.path.clone(), info.origin.stream, info.sequence);
            return Err(StorageError::Superseded { path, stream, sequence });
        }
    }
    Ok(())
}

/// The superseded ranges, prepared for many frames: a header has room for a million records.
pub(crate) struct Bounds {
    /// For each stream, by falling epoch: frames of a lower epoch are superseded from that number
    /// on.
    streams: BTreeMap<u32, Vec<(u32, u64)>>,
}

impl Bounds {
    pub(crate) fn of(records: impl Iterator<Item = Superseded>) -> Self {
        let mut streams: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        for Superseded { stream, epoch, sequence } in records {
            streams.entry(stream).or_default().push((epoch, sequence));
        }
        for bounds in streams.values_mut() {
            bounds.sort_unstable_by_key(|&(epoch, _)| Reverse(epoch));
            let mut lowest = u64::MAX;
            for (_, sequence) in bounds {
                lowest = lowest.min(*sequence);
                *sequence = lowest;
            }
        }
        Self { streams }
    }

    pub(crate) fn has(&self, info: &FrameInfo) -> bool {
        let Some(bounds) = self.streams.get(&info.origin.stream) else { return false };
        let later = bounds.partition_point(|&(epoch, _)| epoch > info.origin.epoch);
        later.checked_sub(1).is_some_and(|last| info.sequence >= bounds[last].1)
    }
}

#[cfg(test)]
mod tests {
    use catchment_frame::Origin;

    use super::*;

    #[test]
    fn frames_of_a_lower_epoch_are_superseded_from_a_number_on() {
        let record = |stream, epoch, sequence| Superseded { stream, epoch, sequence };
        let records = [record(0, 2, 10), record(0, 5, 30), record(0, 4, 40), record(7, 1, 0)];
        let bounds = Bounds::of(records.into_iter());
        for (stream, epoch, sequence, expected) in [
            (0, 0, 9, false),
            (0, 1, 10, true),
            (0, 2, 29, false),
            (0, 2, 30, true),
            (0, 4, 30, true),
            (0, 5, 99, false),
            (7, 0, 0, true),
            (7, 1, 0, false),
            (1, 0, 99, false),
        ] {
            let origin = Origin { stream, epoch, ..Origin::SINGLE };
            let info = FrameInfo { origin, sequence, ..FrameInfo::EMPTY };
            assert_eq!(bounds.has(&info), expected, "{stream} {epoch} {sequence}");
        }
    }
}
