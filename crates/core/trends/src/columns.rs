//! Rows of a trend as the samples of channels.

use catchment_frame::{Dtype, Span};

use crate::series::Row;

/// One of the channels that a trend is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The root mean square.
    Rms,
    /// The number of samples that the others are of.
    N,
}

impl Statistic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Mean, Self::Min, Self::Max, Self::Rms, Self::N];

    /// What follows the channel's name and a dot: `X:CH.mean`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Rms => "rms",
            Self::N => "n",
        }
    }

    /// The type of its samples.
    pub const fn dtype(self) -> Dtype {
        match self {
            Self::N => Dtype::U32,
            _ => Dtype::F64,
        }
    }

    /// Appends the statistic of each row, little-endian. `n` is `u32`, and its largest number if
    /// there are more samples.
    pub fn append(self, rows: &[Row], into: &mut Vec<u8>) {
        into.reserve(rows.len() * 8);
        for row in rows {
            let statistics = &row.statistics;
            let number = match self {
                Self::Mean => statistics.mean,
                Self::Min => statistics.min,
                Self::Max => statistics.max,
                Self::Rms => statistics.rms,
                Self::N => {
                    let n = u32::try_from(statistics.n).unwrap_or(u32::MAX);
                    into.extend_from_slice(&n.to_le_bytes());
                    continue;
                }
            };
            into.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// The gaps among rising rows: where the index jumps. The first row's index is the first sample
/// number of all trend channels.
pub fn spans(rows: &[Row]) -> Vec<Span> {
    let neighbours = rows.windows(2).enumerate();
    let jumps = neighbours.filter(|(_, pair)| pair[1].index != pair[0].index + 1);
    jumps.map(|(at, pair)| Span { row: at as u64 + 1, sample: pair[1].index }).collect()
}
