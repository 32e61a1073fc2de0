//! The decoded columns of one frame: its events, and one source's fragments; and the storage of a
//! column in all frames.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use catchment_frame::{Codec, Hole, unqualified};
use catchment_model::{EventFlags, Piece};

use crate::error::StorageError;
use crate::memory::InUse;
use crate::open::RunFile;
use crate::run::Run;

/// The events of one frame, in the order in which they were recorded.
#[derive(Debug)]
pub struct FrameEvents {
    keys: Vec<u64>,
    times_ns: Vec<u64>,
    flags: Vec<u32>,
    /// Whether keys rise from row to row, as written by a recorder.
    ordered: bool,
}

impl FrameEvents {
    /// Checked: the three have the same length.
    pub(crate) fn new(keys: Vec<u64>, times_ns: Vec<u64>, flags: Vec<u32>) -> Self {
        assert!(keys.len() == times_ns.len() && keys.len() == flags.len(), "columns of one frame");
        let ordered = keys.is_sorted();
        Self { keys, times_ns, flags, ordered }
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key by which each event's fragments were matched.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// When each event's first fragment arrived, in nanoseconds since 1970, UTC.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// Bits of [`EventFlags`], one `u32` per event.
    pub fn flags(&self) -> &[u32] {
        &self.flags
    }

    /// How many events lack a required source.
    pub fn incomplete(&self) -> u64 {
        let incomplete = |&&flags: &&u32| EventFlags(flags).contains(EventFlags::INCOMPLETE);
        self.flags.iter().filter(incomplete).count() as u64
    }

    /// The row of the event with that key; the first, should there be several.
    pub fn row_of(&self, key: u64) -> Option<usize> {
        if self.ordered {
            let row = self.keys.partition_point(|&k| k < key);
            return (self.keys.get(row) == Some(&key)).then_some(row);
        }
        self.keys.iter().position(|&k| k == key)
    }

    /// The rows with keys from `first` to `last`, both included: one range, or several if keys do
    /// not rise.
    pub fn rows_between(&self, first: u64, last: u64) -> Vec<Range<usize>> {
        if first > last {
            return Vec::new();
        }
        if self.ordered {
            let start = self.keys.partition_point(|&k| k < first);
            let end = self.keys.partition_point(|&k| k <= last);
            return std::iter::once(start..end).filter(|rows| !rows.is_empty()).collect();
        }
        let rows = self.keys.iter().enumerate().filter(|(_, key)| (first..=last).contains(*key));
        joined(rows.map(|(row, _)| row))
    }

    /// As [`FrameEvents::rows_between`], for events whose first fragment arrived in that range of
    /// time.
    pub(crate) fn rows_at(
        &self,
        keys: &RangeInclusive<u64>,
        time_ns: Option<&Range<u64>>,
    ) -> Vec<Range<usize>> {
        let rows = self.rows_between(*keys.start(), *keys.end());
        let Some(time_ns) = time_ns else { return rows };
        // Events are ordered by key, so their times need not rise.
        joined(rows.into_iter().flatten().filter(|&row| time_ns.contains(&self.times_ns[row])))
    }

    pub(crate) fn bytes(&self) -> usize {
        8 * self.keys.capacity() + 8 * self.times_ns.capacity() + 4 * self.flags.capacity()
    }
}

/// Which rows of a frame have a source's fragment, or expect it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// All of them.
    All,
    /// None of them.
    None,
    /// Bit *i* mod 8 of byte *i* / 8 is row *i*.
    Bits(Vec<u8>),
}

impl Validity {
    /// Whether that row, which must be below the frame's rows, is one of them.
    pub fn is_set(&self, row: usize) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Bits(bits) => bits[row / 8] & (1 << (row % 8)) != 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        if let Self::Bits(bits) = self { bits.capacity() } else { 0 }
    }
}

/// One source's part of one frame.
#[derive(Debug)]
pub struct FragmentColumn {
    events: Arc<FrameEvents>,
    offsets: Vec<u64>,
    validity: Arc<Validity>,
    expected: Validity,
    /// What is missing of the fragments, in order; zeros in the payload.
    holes: Vec<Hole>,
    /// Each row's own time; empty if it is not known.
    times_ns: Vec<u64>,
    /// The fragments of rows that have several, in order.
    pieces: Vec<Piece>,
    payload: Vec<u8>,
    /// Last, because the others must be freed first.
    _in_use: InUse,
}

impl FragmentColumn {
    /// Checks that the columns match each other. The payload is not there yet.
    ///
    /// # Errors
    /// The first mismatch.
    pub(crate) fn new(
        events: Arc<FrameEvents>,
        lengths: &[u32],
        (validity, expected): (Arc<Validity>, Validity),
        (holes, times_ns, pieces): (Vec<Hole>, Vec<u64>, Vec<Piece>),
    ) -> Result<Self, &'static str> {
        let rows = events.len();
        if !lengths.is_empty() && lengths.len() != rows {
            return Err("there are not as many lengths as events");
        }
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let mut end = 0u64;
        for (row, &length) in lengths.iter().enumerate() {
            if length != 0 && !validity.is_set(row) {
                return Err("a fragment that is missing has a length");
            }
            end += u64::from(length);
            offsets.push(end);
        }
        offsets.resize(rows + 1, end);
        let (payload, in_use) = (Vec::new(), InUse::new(0));
        Ok(Self {
            events,
            offsets,
            validity,
            expected,
            holes,
            times_ns,
            pieces,
            payload,
            _in_use: in_use,
        })
    }

    /// With its payload.
    ///
    /// # Errors
    /// It is not as long as the fragments are.
    pub(crate) fn with_payload(self, payload: Vec<u8>) -> Result<Self, &'static str> {
        self.check_payload(payload.len() as u64)?;
        let in_use = InUse::new(self.own_bytes() + payload.capacity());
        Ok(Self { payload, _in_use: in_use, ..self })
    }

    /// Checks the bytes of its payload against the lengths.
    pub(crate) fn check_payload(&self, bytes: u64) -> Result<(), &'static str> {
        match self.offsets.last() == Some(&bytes) {
            true => Ok(()),
            false => Err("the lengths do not add up to the payload"),
        }
    }

    /// The events of the frame, with the same rows.
    pub fn events(&self) -> &Arc<FrameEvents> {
        &self.events
    }

    /// Rows: events of the frame, whether they include this source or not.
    pub fn rows(&self) -> usize {
        self.events.len()
    }

    /// The start of each row's fragment in the payload; one more than rows, the last is the end.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Which rows have the fragment.
    pub fn validity(&self) -> &Arc<Validity> {
        &self.validity
    }

    /// Whether the source was expected in the event of that row, which must be below the frame's
    /// rows. If it was not, the event does not lack it.
    pub fn is_expected(&self, row: usize) -> bool {
        self.expected.is_set(row)
    }

    /// Each row's own time in ns, on the clock of the keys, 0 where the fragment is missing; empty
    /// if times are not known.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// The holes in the fragments of some rows, in order: parts that never came, and that are zeros
    /// in the payload.
    pub fn holes(&self, rows: Range<usize>) -> &[Hole] {
        let place = |row: usize| self.holes.partition_point(|hole| hole.row < row as u64);
        &self.holes[place(rows.start)..place(rows.end)]
    }

    /// The fragments of those of some rows that have several of this source, in the order of rows,
    /// then of time. Their bytes follow each other in that of their row.
    pub fn pieces(&self, rows: Range<usize>) -> &[Piece] {
        let place = |row: usize| self.pieces.partition_point(|piece| piece.row < row as u64);
        &self.pieces[place(rows.start)..place(rows.end)]
    }

    /// The fragments of all rows, one after another, zeros in their holes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The bytes of a row in the payload; empty if the fragment is missing.
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn range(&self, row: usize) -> Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// The fragment of that row; `None` if it is missing.
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn fragment(&self, row: usize) -> Option<&[u8]> {
        self.validity.is_set(row).then(|| &self.payload[self.range(row)])
    }

    pub(crate) fn bytes(&self) -> usize {
        // The events are a cache item of their own.
        let bits = self.validity.bytes() + self.expected.bytes();
        self.own_bytes() + bits + self.payload.capacity()
    }

    fn own_bytes(&self) -> usize {
        let holes = self.holes.capacity() * size_of::<Hole>();
        let pieces = self.pieces.capacity() * size_of::<Piece>();
        8 * (self.offsets.capacity() + self.times_ns.capacity()) + holes + pieces
    }
}

/// Rows of one frame and their column: a part of a range of events.
#[derive(Clone, Debug)]
pub struct FragmentRows {
    /// The frame.
    pub frame: usize,
    /// The rows.
    pub rows: Range<usize>,
    /// The source's column in that frame.
    pub column: Arc<FragmentColumn>,
}

impl FragmentRows {
    /// The keys of these rows.
    pub fn keys(&self) -> &[u64] {
        &self.column.events.keys[self.rows.clone()]
    }

    /// The position of the rows' fragments in the column's payload.
    pub fn range(&self) -> Range<usize> {
        let offsets = &self.column.offsets;
        offsets[self.rows.start] as usize..offsets[self.rows.end] as usize
    }

    /// The rows' fragments, one after another.
    pub fn payload(&self) -> &[u8] {
        &self.column.payload[self.range()]
    }
}

/// Rising rows as ranges that do not touch.
fn joined(rows: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for row in rows {
        match ranges.last_mut() {
            Some(range) if range.end == row => range.end = row + 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}

/// How a column is stored in all frames of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnStorage {
    /// Raw bytes of its columns.
    pub raw_bytes: u64,
    /// Stored bytes of its columns.
    pub stored_bytes: u64,
    /// The number of frames by coding: `bitshuffle+lz4`, `none`. Levels are not known.
    pub codings: BTreeMap<String, u64>,
}

impl Run {
    /// The storage of a column of the schema, in all files: from the index, and from a few bytes of
    /// columns if the index does not give a codec's shuffle and inner codec.
    ///
    /// # Errors
    /// An index that cannot be read.
    pub fn stored(&self, column: u32) -> Result<ColumnStorage, StorageError> {
        let mut stored = ColumnStorage::default();
        self.run_files().iter().try_for_each(|file| stored.add(file, column))?;
        Ok(stored)
    }

    /// As [`Run::stored`], for a source's payload; none if its frames have no such column.
    ///
    /// # Errors
    /// As [`Run::stored`].
    pub fn stored_payload(&self, source: usize) -> Result<Option<ColumnStorage>, StorageError> {
        let mut stored = None;
        for file in self.run_files() {
            let columns = file.reader.event_columns().sources.get(source);
            let Some(column) = columns.and_then(|columns| columns.payload) else { continue };
            stored.get_or_insert_with(ColumnStorage::default).add(file, column)?;
        }
        Ok(stored)
    }
}

impl ColumnStorage {
    /// Adds a column of one file: from the index, and from a few bytes of the column if the index
    /// does not give a codec's shuffle and inner codec.
    pub(crate) fn add(&mut self, file: &RunFile, column: u32) -> Result<(), StorageError> {
        let locations = file.locations(column)?;
        // The coding rarely changes within a file: if the first and the last column have the same
        // one, so do those in between.
        let mut blosc = locations.iter().filter(|(_, entry)| entry.codec == Codec::Blosc);
        let made_by = |(frame, entry): &(u32, _)| {
            let column = file.reader.stored_column(*frame as usize, entry);
            column
                .and_then(|column| column.made_by())
                .unwrap_or_else(|_| Codec::Blosc.to_string().into())
        };
        let first = blosc.next().map(made_by);
        let last = blosc.next_back().map(made_by).or_else(|| first.clone());
        for location in locations.iter() {
            let (_, entry) = location;
            self.raw_bytes = self.raw_bytes.saturating_add(entry.raw_bytes);
            self.stored_bytes = self.stored_bytes.saturating_add(entry.stored_bytes);
            let coding = match &first {
                Some(all) if entry.codec == Codec::Blosc && first == last => all.to_string(),
                _ if entry.codec == Codec::Blosc => made_by(location).into_owned(),
                _ => match unqualified(entry.codec) {
                    Some(codec) => format!("{codec} with holes"),
                    None => entry.codec.to_string(),
                },
            };
            *self.codings.entry(coding).or_default() += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(keys: &[u64]) -> Arc<FrameEvents> {
        let times = vec![0; keys.len()];
        Arc::new(FrameEvents::new(keys.to_vec(), times, vec![0; keys.len()]))
    }

    #[test]
    fn rows_are_found_whether_keys_rise_or_not() {
        let rising = events(&[3, 5, 7, 9]);
        assert_eq!((rising.row_of(7), rising.row_of(6)), (Some(2), None));
        assert!(rising.rows_between(4, 9).into_iter().flatten().eq(1..4));
        assert!(rising.rows_between(8, 4).is_empty());
        assert!(rising.rows_between(10, u64::MAX).is_empty());
        let mixed = events(&[5, 3, 9, 4]);
        assert_eq!((mixed.row_of(9), mixed.row_of(6)), (Some(2), None));
        assert_eq!(mixed.rows_between(3, 5), [0..2, 3..4]);
    }

    #[test]
    fn times_choose_among_keys_whether_they_rise_or_not() {
        let times = vec![30, 10, 40, 20, 20];
        let events = FrameEvents::new(vec![1, 2, 3, 4, 5], times, vec![0; 5]);
        assert_eq!(events.rows_at(&(0..=9), Some(&(10..30))), [1..2, 3..5]);
        assert!(events.rows_at(&(2..=4), Some(&(20..41))).into_iter().flatten().eq(2..4));
        assert!(events.rows_at(&(2..=4), None).into_iter().flatten().eq(1..4));
        assert!(events.rows_at(&(0..=9), Some(&(31..40))).is_empty());
    }

    #[test]
    fn an_empty_fragment_is_not_a_missing_one() {
        let rows = (Arc::new(Validity::Bits(vec![0b011])), Validity::Bits(vec![0b010]));
        let column = FragmentColumn::new(events(&[1, 2, 3]), &[2, 0, 0], rows, Default::default())
            .and_then(|column| column.with_payload(vec![8, 9]))
            .expect("columns fit");
        assert_eq!(column.fragment(0), Some(&[8, 9][..]));
        assert_eq!(column.fragment(1), Some(&[][..]));
        assert_eq!(column.fragment(2), None);
        assert_eq!([0, 1, 2].map(|row| column.is_expected(row)), [false, true, false]);
    }

    #[test]
    fn columns_that_contradict_each_other_are_refused() {
        let column = |lengths: &[u32], validity, payload: usize| {
            let rows = (Arc::new(validity), Validity::All);
            FragmentColumn::new(events(&[1, 2]), lengths, rows, Default::default())
                .and_then(|column| column.with_payload(vec![0; payload]))
        };
        assert!(column(&[1, 2], Validity::All, 3).is_ok());
        assert!(column(&[1, 2], Validity::All, 4).is_err());
        assert!(column(&[1], Validity::All, 1).is_err());
        assert!(column(&[1, 2], Validity::Bits(vec![0b01]), 3).is_err());
        assert!(column(&[], Validity::None, 0).is_ok());
    }
}
