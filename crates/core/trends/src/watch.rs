//! What a column's samples say of the seconds that they fall into, seen while they pass: those who
//! encode columns look at the samples while they are in the cache.

use std::sync::Arc;

use catchment_frame::Span;

use crate::accumulator::Accumulator;
use crate::partial::{Partial, TrendChannel};

/// What one frame says of one channel: seconds since the epoch of its time scale, rising.
pub type Seconds = Vec<(u64, Accumulator)>;

/// A channel's samples in a frame, to be watched as they pass.
#[derive(Clone, Debug)]
pub struct Watch {
    channel: Arc<TrendChannel>,
    sample_bytes: usize,
    first_sample: u64,
    gaps: Vec<Span>,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// The seconds that the samples fall into.
    pub seconds: Seconds,
    row: u64,
    part: Partial,
}

impl Watch {
    /// Samples of a channel from that number on; `gaps` says where the numbers jump.
    pub fn new(
        channel: Arc<TrendChannel>,
        sample_bytes: usize,
        first_sample: u64,
        gaps: &[Span],
    ) -> Self {
        Self { channel, sample_bytes, first_sample, gaps: gaps.to_vec() }
    }

    /// Takes the next samples: whole ones.
    pub fn look(&self, seen: &mut Seen, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (sample, rows_left) = self.number_of(seen.row);
            let rows = (rest.len() / self.sample_bytes) as u64;
            let take = rows.min(rows_left).max(1);
            let (now, later) = rest.split_at((take as usize * self.sample_bytes).min(rest.len()));
            // Samples whose numbers the rate cannot place in time have no second to be in.
            if self.channel.partial_into(sample, &[], now, &mut seen.part).is_ok() {
                seen.merge();
            }
            seen.row += take;
            rest = later;
        }
    }

    /// The sample number of a row, and how many rows follow it without a gap.
    fn number_of(&self, row: u64) -> (u64, u64) {
        let behind = self.gaps.partition_point(|gap| gap.row <= row);
        let begin = match behind.checked_sub(1) {
            Some(last) => self.gaps[last],
            None => Span { row: 0, sample: self.first_sample },
        };
        let end = self.gaps.get(behind).map_or(u64::MAX, |gap| gap.row);
        (begin.sample + (row - begin.row), end - row)
    }
}

impl Seen {
    fn merge(&mut self) {
        for (second, accumulator) in self.part.seconds() {
            match self.seconds.last_mut() {
                Some((last, sum)) if last == second => sum.merge(accumulator),
                _ => self.seconds.push((*second, *accumulator)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use catchment_frame::Dtype;
    use catchment_model::SampleRate;

    use super::*;

    #[test]
    fn pieces_say_what_the_whole_says_across_gaps() {
        let rate = SampleRate::new(100, 3).unwrap();
        let channel = Arc::new(TrendChannel::new(Dtype::I16, &[], rate).unwrap());
        let samples: Vec<u8> =
            (0..1_000_i32).flat_map(|n| ((n * 37 % 501 - 250) as i16).to_le_bytes()).collect();
        let gaps = vec![Span { row: 333, sample: 7_500 }, Span { row: 900, sample: 9_000 }];
        let runs = [(7_000, 0..333), (7_500, 333..900), (9_000, 900..1_000)];
        let mut whole = Seen::default();
        for (first, rows) in runs {
            whole.part =
                channel.partial(first, &[], &samples[2 * rows.start..2 * rows.end]).unwrap();
            whole.merge();
        }
        for piece_rows in [1, 7, 400, 1_000] {
            let watch = Watch {
                channel: Arc::clone(&channel),
                sample_bytes: 2,
                first_sample: 7_000,
                gaps: gaps.clone(),
            };
            let mut seen = Seen::default();
            samples.chunks(2 * piece_rows).for_each(|piece| watch.look(&mut seen, piece));
            assert_eq!(seen.seconds.len(), whole.seconds.len());
            for ((second, seen), (expected, all)) in seen.seconds.iter().zip(&whole.seconds) {
                let (seen, all) = (seen.statistics(), all.statistics());
                assert_eq!((second, seen.n, seen.min), (expected, all.n, all.min));
                assert_eq!(seen.max, all.max);
                assert!((seen.mean - all.mean).abs() < 1e-9 && (seen.rms - all.rms).abs() < 1e-9);
            }
        }
    }
}
