//! Sizes of the queues, batches and chunks between the agents, each with its default and its range.
//!
//! No key of a configuration file sets them: the defaults are measured, and change when they are
//! measured again. Tests set small ones, so that queues fill and windows wrap within a few hundred
//! events.

use std::ops::RangeInclusive;

use catchment_builder::WINDOW_EVENTS_MIN;
use catchment_model::limits::DATAGRAM_BYTES_MAX;

use crate::check::require;
use crate::config::ConfigError;

/// Sizes of the queues, batches and chunks between the agents of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Descriptors that a receive agent gathers before it passes them on: 4,096 (1 to 65,536).
    pub batch_fragments: usize,
    /// Descriptors between a receive agent and the build agent: 524,288 (1 to 2^24).
    pub ring_fragments: usize,
    /// Descriptors that the build agent takes from one ring in a cycle: 65,536 (1 to 2^24).
    pub cycle_fragments: usize,
    /// Bytes of a chunk where memory is short: 128 KiB (64 KiB to 16 MiB, a power of two).
    pub chunk_bytes_min: usize,
    /// Bytes of a chunk where memory is not short: 256 KiB (`chunk_bytes_min` to 16 MiB, a power of
    /// two).
    pub chunk_bytes_max: usize,
    /// Cuts between the build and the frames agent; more wait in the build agent: 2 (1 to 1,024).
    pub frames_queued: usize,
    /// Bytes that a target copies in a cycle: 4 MiB (1 byte to 1 GiB).
    pub cycle_bytes: usize,
    /// Raw bytes under way in the encode agents, at least: 1 MiB (1 byte to 1 GiB).
    pub encode_bytes_min: usize,
    /// Bytes of a file's table of contents when the next file is begun: 64 MiB (1 byte to 1 GiB).
    pub toc_bytes_max: usize,
    /// Slices that can be open at a time: 4,096 (256 to 65,536, a power of two).
    pub link_window_slices: u64,
    /// Rows of a frame of events by time, and those that wait to be cut: 262,144 (1 to 2^24).
    pub rows_max: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            batch_fragments: 4_096,
            ring_fragments: 1 << 19,
            cycle_fragments: 1 << 16,
            chunk_bytes_min: 128 << 10,
            chunk_bytes_max: 256 << 10,
            frames_queued: 2,
            cycle_bytes: 4 << 20,
            encode_bytes_min: 1 << 20,
            toc_bytes_max: 64 << 20,
            link_window_slices: 4_096,
            rows_max: 1 << 18,
        }
    }
}

impl Sizes {
    /// Checks every size against its range.
    ///
    /// # Errors
    /// The first size outside its range.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let (least, most) = (self.chunk_bytes_min, self.chunk_bytes_max);
        let chunks = CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX;
        let bounds: [(&str, usize, RangeInclusive<usize>); 9] = [
            ("batch_fragments", self.batch_fragments, 1..=1 << 16),
            ("ring_fragments", self.ring_fragments, 1..=1 << 24),
            ("cycle_fragments", self.cycle_fragments, 1..=1 << 24),
            ("chunk_bytes_min", least, chunks.clone()),
            ("chunk_bytes_max", most, least..=*chunks.end()),
            ("frames_queued", self.frames_queued, 1..=1_024),
            ("cycle_bytes", self.cycle_bytes, 1..=1 << 30),
            ("encode_bytes_min", self.encode_bytes_min, 1..=1 << 30),
            ("toc_bytes_max", self.toc_bytes_max, 1..=1 << 30),
        ];
        for (name, size, bounds) in bounds {
            let expected = format_args!("{} to {}", bounds.start(), bounds.end());
            require(bounds.contains(&size), &format!("sizes.{name}"), expected, size)?;
        }
        for (name, size) in [("chunk_bytes_min", least), ("chunk_bytes_max", most)] {
            let key = format!("sizes.{name}");
            require(size.is_power_of_two(), &key, "a power of two", size)?;
        }
        let window = self.link_window_slices;
        let fits = window.is_power_of_two() && (WINDOW_EVENTS_MIN..=1 << 16).contains(&window);
        let expected = format_args!("a power of two, {WINDOW_EVENTS_MIN} to 65536");
        require(fits, "sizes.link_window_slices", expected, window)?;
        let rows = self.rows_max;
        require((1..=1 << 24).contains(&rows), "sizes.rows_max", "1 to 16777216", rows)
    }
}

/// The smallest chunk: the largest datagram fits in it.
const CHUNK_BYTES_MIN: usize = 64 << 10;
const CHUNK_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(CHUNK_BYTES_MIN >= DATAGRAM_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_outside_their_ranges_are_refused_by_name() {
        let small = Sizes {
            batch_fragments: 1,
            ring_fragments: 1,
            cycle_fragments: 1,
            chunk_bytes_min: 64 << 10,
            chunk_bytes_max: 64 << 10,
            frames_queued: 1,
            cycle_bytes: 1,
            encode_bytes_min: 1,
            toc_bytes_max: 1,
            link_window_slices: 256,
            rows_max: 1,
        };
        assert_eq!((Sizes::default().check(), small.check()), (Ok(()), Ok(())));
        let chunks =
            |chunk_bytes_min, chunk_bytes_max| Sizes { chunk_bytes_min, chunk_bytes_max, ..small };
        let refused = [
            (Sizes { batch_fragments: 0, ..small }, "batch_fragments: expected 1 to 65536, got 0"),
            (Sizes { ring_fragments: 0, ..small }, "ring_fragments: expected 1 to 16777216, got 0"),
            (chunks(32 << 10, 64 << 10), "chunk_bytes_min: expected 65536 to 16777216, got 32768"),
            (chunks(96 << 10, 128 << 10), "chunk_bytes_min: expected a power of two, got 98304"),
            (chunks(1 << 17, 1 << 16), "chunk_bytes_max: expected 131072 to 16777216, got 65536"),
            (Sizes { toc_bytes_max: 0, ..small }, "toc_bytes_max: expected 1 to 1073741824, got 0"),
            (Sizes { frames_queued: 0, ..small }, "frames_queued: expected 1 to 1024, got 0"),
            (Sizes { rows_max: 0, ..small }, "rows_max: expected 1 to 16777216, got 0"),
            (
                Sizes { link_window_slices: 300, ..small },
                "link_window_slices: expected a power of two, 256 to 65536, got 300",
            ),
        ];
        for (sizes, expected) in refused {
            assert_eq!(sizes.check().unwrap_err().to_string(), format!("sizes.{expected}"));
        }
    }
}
