//! From the pieces of a channel to the chunks of a Zarr array.
//!
//! Zarr's chunks all have one length and begin at its multiples; frames may be shorter at a run's
//! ends, and samples may be missing. So the array is laid out by sample numbers: a chunk is a
//! stored column where one has exactly its samples, is left out where there are none (readers then
//! see the fill value), and is recompressed where it has some.

use std::collections::HashMap;
use std::ops::Range;

/// Samples without a gap, in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its number, for the caller.
    pub(super) index: usize,
    /// The number of its first sample.
    pub(super) first_sample: u64,
    /// How many samples it has.
    pub(super) samples: u64,
    /// Whether they are a whole column that is stored as the array's chunks are.
    pub(super) usable: bool,
}

/// What a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// A stored column, by its index.
    Stored(usize),
    /// Samples that must be put together.
    Made,
    /// No samples.
    Absent,
}

/// An array's chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// The sample at the array's begin.
    pub(super) first_sample: u64,
    /// How many samples the array has, those that are missing among them.
    pub(super) samples: u64,
    /// Samples of one chunk.
    pub(super) chunk_samples: u64,
    /// The chunks, in order.
    pub(super) chunks: Vec<Chunk>,
    /// Whether a sample between the first and the last is missing.
    pub(super) gaps: bool,
}

/// An array of more chunks than this would be nearly all gap.
const CHUNKS_MAX: u64 = 1 << 22;

impl Grid {
    /// The grid of these parts, which are in the order of their samples and do not overlap. None
    /// without samples, or where they are so far apart that nearly all chunks would be absent.
    pub(super) fn of(parts: &[Part]) -> Option<Self> {
        let (first, last) = (parts.first()?, parts.last()?);
        // Without a usable size all are recompressed, each from one column as far as possible.
        let none = parts.iter().all(|part| !part.usable);
        let usable = |part: &&Part| part.usable || none;
        let chunk_samples = chunk_samples(parts.iter().filter(usable));
        // The columns' own borders where most of them stand, so that most are whole chunks.
        let whole = parts.iter().filter(usable).find(|part| part.samples == chunk_samples);
        let phase = whole.unwrap_or(first).first_sample % chunk_samples;
        let into = (first.first_sample % chunk_samples + chunk_samples - phase) % chunk_samples;
        let first_sample = first.first_sample.saturating_sub(into);
        let end = last.first_sample.checked_add(last.samples)?;
        let samples = end - first_sample;
        let count = samples.div_ceil(chunk_samples);
        if count > CHUNKS_MAX {
            return None;
        }
        let mut chunks = vec![Chunk::Absent; count as usize];
        let mut there = 0;
        for part in parts {
            there += part.samples;
            let offset = part.first_sample - first_sample;
            let chunk = (offset / chunk_samples) as usize;
            let whole = part.samples == chunk_samples && offset.is_multiple_of(chunk_samples);
            if whole && part.usable {
                chunks[chunk] = Chunk::Stored(part.index);
            } else {
                let last = (offset + part.samples - 1) / chunk_samples;
                chunks[chunk..=last as usize].fill(Chunk::Made);
            }
        }
        let gaps = there != samples;
        Some(Self { first_sample, samples, chunk_samples, chunks, gaps })
    }

    /// The samples of a chunk; the last one's may pass the array's end.
    pub(super) fn samples_of(&self, chunk: usize) -> Range<u64> {
        let start = self.first_sample + chunk as u64 * self.chunk_samples;
        start..start + self.chunk_samples
    }
}

/// The length of the columns that hold the most samples.
fn chunk_samples<'a>(parts: impl Iterator<Item = &'a Part>) -> u64 {
    let mut totals: HashMap<u64, u64> = HashMap::new();
    for part in parts {
        *totals.entry(part.samples).or_default() += part.samples;
    }
    let most = totals.into_iter().max_by_key(|(samples, total)| (*total, *samples));
    most.map(|(samples, _)| samples).expect("there are parts")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ranges: &[Range<u64>]) -> Vec<Part> {
        let part = |(index, range): (usize, &Range<u64>)| Part {
            index,
            first_sample: range.start,
            samples: range.end - range.start,
            usable: true,
        };
        ranges.iter().enumerate().map(part).collect()
    }

    #[test]
    fn whole_frames_are_whole_chunks_and_the_short_last_one_is_made() {
        let grid = Grid::of(&parts(&[100..200, 200..300, 300..350])).expect("a grid");
        assert_eq!((grid.first_sample, grid.samples, grid.chunk_samples), (100, 250, 100));
        assert_eq!(grid.chunks, [Chunk::Stored(0), Chunk::Stored(1), Chunk::Made]);
        assert!(!grid.gaps);
    }

    #[test]
    fn a_short_first_frame_does_not_shift_the_others() {
        let grid = Grid::of(&parts(&[170..200, 200..300, 300..400])).expect("a grid");
        assert_eq!((grid.first_sample, grid.samples), (100, 300));
        assert_eq!(grid.chunks, [Chunk::Made, Chunk::Stored(1), Chunk::Stored(2)]);
        assert!(grid.gaps);
    }

    #[test]
    fn a_gap_leaves_chunks_out() {
        let grid = Grid::of(&parts(&[0..100, 100..150, 430..500, 500..600])).expect("a grid");
        let expected = [
            Chunk::Stored(0),
            Chunk::Made,
            Chunk::Absent,
            Chunk::Absent,
            Chunk::Made,
            Chunk::Stored(3),
        ];
        assert_eq!(grid.chunks, expected);
        assert_eq!(grid.samples_of(4), 400..500);
        assert!(grid.gaps);
    }

    #[test]
    fn a_part_stored_otherwise_is_made_anew() {
        let mut parts = parts(&[0..10, 10..20, 20..30]);
        parts[1].usable = false;
        let grid = Grid::of(&parts).expect("a grid");
        assert_eq!(grid.chunks, [Chunk::Stored(0), Chunk::Made, Chunk::Stored(2)]);
        assert!(!grid.gaps);
    }

    #[test]
    fn where_all_is_made_anew_chunks_are_columns_all_the_same() {
        let mut parts = parts(&[170..200, 200..300, 300..400]);
        parts.iter_mut().for_each(|part| part.usable = false);
        let grid = Grid::of(&parts).expect("a grid");
        assert_eq!((grid.first_sample, grid.chunk_samples), (100, 100));
        assert_eq!(grid.chunks, [Chunk::Made; 3]);
    }

    #[test]
    fn parts_too_far_apart_have_no_grid() {
        assert_eq!(Grid::of(&[]), None);
        assert_eq!(Grid::of(&parts(&[0..1, 1 << 60..(1 << 60) + 1])), None);
    }
}
