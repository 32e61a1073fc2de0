//! Frames of events: which columns there are, and what a frame says of the ledger.

use catchment_model::{Entry, Ledger};

use crate::bytes::u32_at;
use crate::error::{ColumnProblem, FrameError, FrameRef};
use crate::kinds::{ColumnKind, FrameKind};
use crate::ledger::{decode_ledger, is_derived};
use crate::read_at::ReadAt;
use crate::reader::FileReader;
use crate::schema::Schema;

/// The ids of the columns of events; `None` for a column that the schema does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventColumns {
    /// [`ColumnKind::EventKey`].
    pub key: Option<u32>,
    /// [`ColumnKind::EventTime`].
    pub time: Option<u32>,
    /// [`ColumnKind::EventFlags`].
    pub flags: Option<u32>,
    /// [`ColumnKind::LedgerIncrement`].
    pub ledger_increment: Option<u32>,
    /// For each source.
    pub sources: Vec<SourceColumns>,
}

/// The ids of one source's columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceColumns {
    /// [`ColumnKind::FragmentLengths`].
    pub lengths: Option<u32>,
    /// [`ColumnKind::FragmentValidity`].
    pub validity: Option<u32>,
    /// [`ColumnKind::FragmentPayload`].
    pub payload: Option<u32>,
}

impl EventColumns {
    /// The columns of events in a schema. Sources that a column names exist: the schema was
    /// checked.
    pub fn of(schema: &Schema) -> Self {
        let mut found = Self::default();
        found.sources.resize(schema.sources.len(), SourceColumns::default());
        for column in &schema.columns {
            let source = column.source.and_then(|id| found.sources.get_mut(id as usize));
            let place = match (&column.kind, source) {
                (ColumnKind::EventKey, None) => &mut found.key,
                (ColumnKind::EventTime, None) => &mut found.time,
                (ColumnKind::EventFlags, None) => &mut found.flags,
                (ColumnKind::LedgerIncrement, None) => &mut found.ledger_increment,
                (ColumnKind::FragmentLengths, Some(source)) => &mut source.lengths,
                (ColumnKind::FragmentValidity, Some(source)) => &mut source.validity,
                (ColumnKind::FragmentPayload, Some(source)) => &mut source.payload,
                _ => continue,
            };
            place.get_or_insert(column.id);
        }
        found
    }
}

impl<R: ReadAt> FileReader<R> {
    /// What one frame adds to the ledger: its increments, and what its columns themselves say of
    /// recorded and missing fragments. A column that cannot be read, or that contradicts another,
    /// is named, and what it would have said is left out. Frames of channels say everything in
    /// their increments; frames of other kinds add nothing.
    pub fn frame_ledger(&self, frame: usize) -> (Ledger, Vec<FrameError>) {
        let mut ledger = Ledger::new(self.header().schema.sources.len());
        let mut problems = Vec::new();
        let Some(summary) = self.frames().get(frame) else { return (ledger, problems) };
        let kind = summary.info.kind;
        if !matches!(kind, FrameKind::Events | FrameKind::Channels) {
            return (ledger, problems);
        }
        let mut bytes = Vec::new();
        match self.increments(frame, kind, &mut bytes) {
            Ok(Some(increments)) => ledger = increments,
            Ok(None) => {}
            Err(error) => problems.push(error),
        }
        let counted = if kind == FrameKind::Events { ledger.sources.len() } else { 0 };
        for source in 0..counted {
            match self.count_source(frame, source, summary.info.rows, &mut bytes) {
                Ok(counted) => {
                    let counts = &mut ledger.sources[source];
                    counts[Entry::FragmentsRecorded] = counted.fragments;
                    counts[Entry::FragmentBytesRecorded] = counted.bytes;
                    if self.header().schema.sources[source].required {
                        counts[Entry::FragmentsMissing] = summary.info.rows - counted.fragments;
                    }
                }
                Err(error) => problems.push(error),
            }
        }
        (ledger, problems)
    }

    fn increments(
        &self,
        frame: usize,
        kind: FrameKind,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Ledger>, FrameError> {
        let Some(column) = self.event_columns().ledger_increment else { return Ok(None) };
        if !self.read(frame, column, bytes)? {
            return Ok(None);
        }
        let names = &self.header().ledger_entries;
        let mut ledger = decode_ledger(bytes, names, self.header().schema.sources.len())
            .map_err(|problem| FrameError::column(FrameRef::Index(frame), column, problem))?;
        for counts in &mut ledger.sources {
            for &entry in Entry::ALL.iter().filter(|&&entry| is_derived(kind, entry)) {
                counts[entry] = 0;
            }
        }
        Ok(Some(ledger))
    }

    /// Counts one source's fragments in a frame.
    fn count_source(
        &self,
        frame: usize,
        source: usize,
        rows: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Counted, FrameError> {
        let columns = self.event_columns().sources[source];
        let content = |column: Option<u32>, reason| {
            let problem = ColumnProblem::Content { reason };
            Err(FrameError::column(FrameRef::Index(frame), column.unwrap_or(u32::MAX), problem))
        };
        let find = |column: Option<u32>| column.map_or(Ok(None), |id| self.find(frame, id));
        let lengths = find(columns.lengths)?;
        let validity = find(columns.validity)?;
        let payload_bytes = find(columns.payload)?.map_or(0, |entry| entry.raw_bytes);
        let Some(lengths) = lengths else {
            if validity.is_some() || payload_bytes > 0 {
                return content(columns.lengths, "there are fragments but no lengths");
            }
            return Ok(Counted::default());
        };
        if lengths.rows != rows {
            return content(columns.lengths, "it does not have the frame's rows");
        }
        let fragments = match validity {
            Some(entry) if entry.rows != rows => {
                return content(columns.validity, "it does not have the frame's rows");
            }
            Some(entry) => {
                self.read_column(frame, &entry, bytes)?;
                count_ones(bytes, rows)
            }
            None => rows,
        };
        self.read_column(frame, &lengths, bytes)?;
        let sum = bytes.chunks_exact(4).map(|length| u64::from(u32_at(length, 0))).sum();
        if sum != payload_bytes {
            return content(columns.payload, "its bytes are not the sum of the lengths");
        }
        Ok(Counted { fragments, bytes: sum })
    }
}

#[derive(Default)]
struct Counted {
    fragments: u64,
    bytes: u64,
}

/// Ones among the first `rows` bits. Spare bits do not count.
fn count_ones(bytes: &[u8], rows: u64) -> u64 {
    let (whole, spare) = ((rows / 8) as usize, (rows % 8) as u32);
    let ones: u64 = bytes.iter().take(whole).map(|byte| u64::from(byte.count_ones())).sum();
    let last = bytes.get(whole).map_or(0, |byte| byte & ((1u16 << spare) - 1) as u8);
    ones + u64::from(last.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_bits_do_not_count() {
        assert_eq!(count_ones(&[0xff, 0xff], 11), 11);
        assert_eq!(count_ones(&[0xff, 0xff], 16), 16);
        assert_eq!(count_ones(&[0b101], 2), 1);
        assert_eq!(count_ones(&[], 0), 0);
    }
}
