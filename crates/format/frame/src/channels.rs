//! Frames of channels: their columns, and the numbering of samples across gaps.

use crate::bytes::{u32_at, u64_at};
use crate::channel_info::ChannelInfo;
use crate::column_info::ColumnInfo;
use crate::error::ColumnProblem;
use crate::frame::ColumnEntry;
use crate::kinds::ColumnKind;
use crate::schema::Schema;

/// The columns of channels in a schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChannelColumns {
    /// The id of [`ColumnKind::ChannelSpans`].
    pub spans: Option<u32>,
    /// The id of [`ColumnKind::LedgerIncrement`].
    pub ledger_increment: Option<u32>,
    /// The channels in the order of the schema.
    pub channels: Vec<ChannelInfo>,
    /// Those of the run that are not in the files of this variant.
    pub not_stored: Vec<ChannelInfo>,
}

impl ChannelColumns {
    /// The columns of channels in a checked schema.
    pub fn of(schema: &Schema) -> Self {
        let channels =
            |columns: &[ColumnInfo]| columns.iter().filter_map(ChannelInfo::of).collect();
        Self {
            spans: schema.column(None, &ColumnKind::ChannelSpans),
            ledger_increment: schema.column(None, &ColumnKind::LedgerIncrement),
            channels: channels(&schema.columns),
            not_stored: channels(&schema.channels_not_stored),
        }
    }

    /// The channel whose column has that id.
    pub fn by_id(&self, id: u32) -> Option<&ChannelInfo> {
        self.channels.iter().find(|channel| channel.id == id)
    }
}

/// From a row of a channel's column on, samples are numbered from `sample`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first row after the gap.
    pub row: u64,
    /// Its sample number.
    pub sample: u64,
}

/// Consecutive samples of one channel in one frame, without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRun {
    /// Where they begin in the column.
    pub row: u64,
    /// The number of samples, at least one.
    pub rows: u64,
    /// Number of the first one.
    pub first_sample: u64,
}

/// Appends a column's gaps in a frame to the frame's column of spans. Columns are added in order of
/// rising id; rows of a column rise.
pub fn encode_spans(column: u32, spans: &[Span], out: &mut Vec<u8>) {
    for span in spans {
        out.extend_from_slice(&column.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&span.row.to_le_bytes());
        out.extend_from_slice(&span.sample.to_le_bytes());
    }
}

/// The records of some columns among those that [`encode_spans`] made.
pub fn select_spans(records: &[u8], has_column: impl Fn(u32) -> bool) -> Vec<u8> {
    let of = |record: &&[u8]| has_column(u32_at(record, 0));
    records.chunks_exact(SPAN_BYTES).filter(of).flatten().copied().collect()
}

/// The gaps in a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(u32, Span)>);

/// Reads a frame's column of spans.
///
/// # Errors
/// A length that is not a multiple of 24, or records that are out of order.
pub fn decode_spans(bytes: &[u8]) -> Result<Spans, ColumnProblem> {
    if !bytes.len().is_multiple_of(SPAN_BYTES) {
        let (field, expected) = ("raw_bytes", "a multiple of 24");
        return Err(ColumnProblem::Field { field, expected, got: bytes.len() as u64 });
    }
    let record = |record: &[u8]| {
        let span = Span { row: u64_at(record, 8), sample: u64_at(record, 16) };
        (u32_at(record, 0), span)
    };
    let spans: Vec<_> = bytes.chunks_exact(SPAN_BYTES).map(record).collect();
    let rising = |w: &[(u32, Span)]| (w[0].0, w[0].1.row) < (w[1].0, w[1].1.row);
    if spans.windows(2).all(rising) {
        return Ok(Spans(spans));
    }
    Err(ColumnProblem::Content { reason: "spans are not in the order of columns and rows" })
}

impl Spans {
    /// Whether the frame has no gaps.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The samples of a channel's column, run by run; none if the column has no rows.
    ///
    /// # Errors
    /// Spans beyond the column, or that overlap; sample numbers beyond 64 bits.
    pub fn runs(&self, entry: &ColumnEntry) -> Result<Vec<SampleRun>, ColumnProblem> {
        let content = |reason| Err(ColumnProblem::Content { reason });
        let start = self.0.partition_point(|(column, _)| *column < entry.id);
        let spans = self.0[start..].iter().take_while(|(column, _)| *column == entry.id);
        let mut runs = Vec::new();
        let mut run = SampleRun { row: 0, rows: 0, first_sample: entry.first_sample };
        for (_, span) in spans {
            if span.row == 0 || span.row >= entry.rows {
                return content("a span begins outside of the column's rows");
            }
            run.rows = span.row - run.row;
            let Some(end) = run.first_sample.checked_add(run.rows) else {
                return content("sample numbers pass 64 bits");
            };
            if span.sample <= end {
                return content("a span's samples do not come after a gap");
            }
            runs.push(run);
            run = SampleRun { row: span.row, rows: 0, first_sample: span.sample };
        }
        run.rows = entry.rows - run.row;
        if run.first_sample.checked_add(run.rows).is_none() {
            return content("sample numbers pass 64 bits");
        }
        if run.rows > 0 {
            runs.push(run);
        }
        Ok(runs)
    }

    /// The columns that have gaps, by rising id.
    pub fn columns(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.chunk_by(|a, b| a.0 == b.0).map(|spans| spans[0].0)
    }
}

/// Bytes of one record.
const SPAN_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use catchment_codec::Codec;

    use super::*;
    use crate::kinds::Dtype;

    fn entry(id: u32, rows: u64, first_sample: u64) -> ColumnEntry {
        ColumnEntry {
            id,
            codec: Codec::None,
            dtype: Dtype::I16,
            flags: 0,
            crc32c: 0,
            offset: 0,
            stored_bytes: 2 * rows,
            raw_bytes: 2 * rows,
            rows,
            start_ns: 0,
            first_sample,
        }
    }

    fn run(row: u64, rows: u64, first_sample: u64) -> SampleRun {
        SampleRun { row, rows, first_sample }
    }

    fn spans(records: &[(u32, u64, u64)]) -> Result<Spans, ColumnProblem> {
        let mut bytes = Vec::new();
        for &(column, row, sample) in records {
            encode_spans(column, &[Span { row, sample }], &mut bytes);
        }
        decode_spans(&bytes)
    }

    #[test]
    fn samples_are_numbered_across_gaps() {
        let spans = spans(&[(4, 10, 1_020), (7, 1, 5), (7, 3, 100)]).expect("spans");
        assert_eq!(spans.runs(&entry(3, 50, 9)), Ok(vec![run(0, 50, 9)]));
        let expected = vec![run(0, 10, 1_000), run(10, 40, 1_020)];
        assert_eq!(spans.runs(&entry(4, 50, 1_000)), Ok(expected));
        let expected = vec![run(0, 1, 0), run(1, 2, 5), run(3, 47, 100)];
        assert_eq!(spans.runs(&entry(7, 50, 0)), Ok(expected));
        assert_eq!(spans.runs(&entry(8, 0, 77)), Ok(Vec::new()));
        assert_eq!(spans.columns().collect::<Vec<_>>(), [4, 7]);
        assert!(Spans::default().is_empty() && !spans.is_empty());
    }

    #[test]
    fn spans_that_cannot_be_are_refused() {
        assert!(decode_spans(&[0; 23]).is_err());
        assert!(spans(&[(4, 10, 1), (4, 10, 2)]).is_err());
        assert!(spans(&[(4, 10, 1), (3, 10, 2)]).is_err());
        for records in [
            &[(4, 0, 2_000)][..],
            &[(4, 50, 2_000)],
            &[(4, 10, 1_010)],
            &[(4, 10, 5)],
            &[(4, 10, 1_020), (4, 20, 1_030)],
            &[(4, 10, u64::MAX)],
            &[(4, 10, u64::MAX - 30), (4, 45, u64::MAX)],
        ] {
            let spans = spans(records).expect("in order");
            assert!(spans.runs(&entry(4, 50, 1_000)).is_err(), "{records:?}");
        }
        assert!(Spans::default().runs(&entry(4, 50, u64::MAX - 10)).is_err());
    }
}
