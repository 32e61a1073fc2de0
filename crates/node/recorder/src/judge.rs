//! What is wrong with fragments that span packets, found behind the receive thread: holes, which
//! get their zeros here, and checksums. It costs a pass over the bytes of sources with a checksum,
//! and of others nothing but their holes.

use std::ops::Range;

use catchment_builder::{ColumnCut, Cut, Span};
use catchment_frame::Hole;
use catchment_model::EventFlags;
use catchment_wire::FragmentChecksum;

use crate::config::SourceConfig;
use crate::pool::ChunkPool;

/// What is looked at of each source.
pub(crate) struct Judge {
    /// By source; empty if nothing is to be looked at.
    rules: Vec<Rules>,
}

#[derive(Clone, Copy)]
struct Rules {
    keeps_holes: bool,
    checksum: Option<FragmentChecksum>,
}

/// What is wrong with a source's fragments in a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    pub(crate) with_holes: u64,
    /// Bytes of all holes.
    pub(crate) bytes_lost: u64,
    /// Fragments without holes whose checksum is wrong.
    pub(crate) bad_checksum: u64,
}

impl Judge {
    pub(crate) fn of(sources: &[SourceConfig]) -> Self {
        let rules = sources.iter().map(|source| Rules {
            keeps_holes: source.protocol.holes_bytes_max().is_some(),
            checksum: source.protocol.checksum(),
        });
        let rules: Vec<Rules> = rules.collect();
        let any = rules.iter().any(|rules| rules.keeps_holes || rules.checksum.is_some());
        Self { rules: if any { rules } else { Vec::new() } }
    }

    /// Judges the fragments of a cut whose chains are resolved. Their holes are in `holes`
    /// afterwards, by column, and zeros in the pool; events with a wrong checksum are flagged.
    pub(crate) fn judge(
        &self,
        cut: &mut Cut,
        pool: &ChunkPool,
        holes: &mut Vec<Vec<Hole>>,
    ) -> Vec<(usize, Judged)> {
        holes.clear();
        if self.rules.is_empty() {
            return Vec::new();
        }
        holes.resize(cut.columns.len(), Vec::new());
        let Cut { columns, flags, .. } = cut;
        let mut found = Vec::new();
        for (index, (column, rules)) in columns.iter().zip(&self.rules).enumerate() {
            if column.fragments == 0 || !(rules.keeps_holes || rules.checksum.is_some()) {
                continue;
            }
            let mut judged = Judged::default();
            for fragment in fragments(column) {
                // One with holes has chunks of its own.
                let gaps = match rules.keeps_holes && fragment.skip == 0 {
                    true => pool.take_holes(pool.chunk_of(fragment.spans[0].offset)),
                    false => Vec::new(),
                };
                if !gaps.is_empty() {
                    judged.with_holes += 1;
                    judged.bytes_lost += gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>();
                    fragment.zero(pool, &gaps);
                    let row = fragment.row as u64;
                    let hole = |gap: &Range<u64>| Hole {
                        row,
                        offset: gap.start,
                        bytes: gap.end - gap.start,
                    };
                    holes[index].extend(gaps.iter().map(hole));
                } else if rules.checksum.is_some_and(|sum| !fragment.has(&sum, pool)) {
                    judged.bad_checksum += 1;
                    flags[fragment.row] |= EventFlags::BAD_CHECKSUM.0;
                }
            }
            found.push((index, judged));
        }
        found
    }
}

/// A fragment of a column.
struct Fragment<'a> {
    row: usize,
    bytes: u64,
    /// Its ranges, and what follows them.
    spans: &'a [Span],
    /// Where in the first range it begins: neighbours are joined.
    skip: u64,
}

/// The fragments of a column that have bytes.
fn fragments(column: &ColumnCut) -> impl Iterator<Item = Fragment<'_>> {
    let (mut spans, mut passed) = (&column.spans[..], 0_u64);
    let lengths = column.lengths.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    lengths.map(move |(row, &bytes)| {
        // `passed` bytes of the first range are those of fragments before this one.
        let (own, skip) = (spans, passed);
        let mut left = u64::from(bytes);
        while let Some(first) = spans.first().filter(|_| left > 0) {
            let taken = left.min(first.bytes - passed);
            (left, passed) = (left - taken, passed + taken);
            if passed == first.bytes {
                (spans, passed) = (&spans[1..], 0);
            }
        }
        Fragment { row, bytes: bytes.into(), spans: own, skip }
    })
}

impl Fragment<'_> {
    fn zero(&self, pool: &ChunkPool, gaps: &[Range<u64>]) {
        let (mut begin, mut gaps) = (0, gaps.iter().cloned().peekable());
        for span in self.spans {
            let end = begin + span.bytes;
            while let Some(gap) = gaps.peek().cloned().filter(|gap| gap.start < end) {
                let (from, to) = (gap.start.max(begin), gap.end.min(end));
                if from < to {
                    let offset = span.offset + (from - begin);
                    // SAFETY: the receive agent has published the fragment, and nobody reads it
                    // before the frame of this cut is made.
                    unsafe { pool.zero(Span { offset, bytes: to - from }) };
                }
                if gap.end > end {
                    break;
                }
                gaps.next();
            }
            begin = end;
            if begin >= self.bytes {
                break;
            }
        }
    }

    fn has(&self, checksum: &FragmentChecksum, pool: &ChunkPool) -> bool {
        let (mut left, mut skip) = (self.bytes, self.skip);
        let pieces = self.spans.iter().map_while(|span| {
            let (offset, bytes) = (span.offset + skip, (span.bytes - skip).min(left));
            (left, skip) = (left - bytes, 0);
            // SAFETY: the spans came from the receive agents through the builder, and are released
            // with the frame of this cut, which is not made yet.
            (bytes > 0).then(|| unsafe { pool.bytes(offset, bytes) })
        });
        checksum.is_right(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_found_by_their_lengths_whether_ranges_are_joined_or_not() {
        let span = |offset, bytes| Span { offset, bytes };
        let column = ColumnCut {
            lengths: vec![10, 0, 300, 5, 7, 40],
            spans: vec![span(0, 10), span(1_000, 256), span(2_000, 44), span(50, 12), span(9, 40)],
            fragments: 6,
            ..ColumnCut::default()
        };
        let found: Vec<_> =
            fragments(&column).map(|one| (one.row, one.spans[0].offset + one.skip)).collect();
        assert_eq!(found, [(0, 0), (2, 1_000), (3, 50), (4, 55), (5, 9)]);
    }
}
