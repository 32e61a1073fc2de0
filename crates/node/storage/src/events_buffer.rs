//! Events being moved from frames into other frames.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use catchment_frame::{BasePart, Codec, Hole, PartOrder, encode_base_parts};
use catchment_model::{Ledger, Piece, SourceId};

use crate::error::StorageError;
use crate::run::Run;
use crate::write::{ColumnData, EventFrame, EventSource, RunWriter, StoredColumn, unwritable};

/// Events that have been read but not yet written, and the ledger's counts for them.
#[derive(Debug)]
pub(crate) struct EventsBuffer {
    pub(crate) keys: Vec<u64>,
    pub(crate) times_ns: Vec<u64>,
    pub(crate) flags: Vec<u32>,
    pub(crate) sources: Vec<Fragments>,
    pub(crate) counted: Ledger,
    /// One above the last key of events that were built again.
    pub(crate) next_key: u64,
    /// The last key that was read.
    pub(crate) read_key: u64,
    /// By source, what is added to its times; empty: nothing.
    shifts_ns: Vec<i64>,
}

/// The fragments of a source, by row; their payload one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    pub(crate) lengths: Vec<u32>,
    pub(crate) valid: Vec<bool>,
    pub(crate) expected: Vec<bool>,
    pub(crate) holes: Vec<Hole>,
    pub(crate) times_ns: Vec<u64>,
    /// Whether the own times of some are not known: those that are may be 0.
    pub(crate) lacks_times: bool,
    /// The fragments of rows that have several, in order.
    pub(crate) pieces: Vec<Piece>,
    payload: Payload,
}

/// The payload of a source's fragments, one behind the other.
#[derive(Debug)]
enum Payload {
    Bytes(Vec<u8>),
    /// Where it is in the base of the run that is written, and the order in which that was read.
    InBase(VecDeque<BasePart>, PartOrder),
}

impl Default for Payload {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Payload {
    /// Takes the first bytes off.
    fn drop_first(&mut self, mut bytes: u64) {
        match self {
            Self::Bytes(payload) => drop(payload.drain(..bytes as usize)),
            Self::InBase(parts, _) => {
                while let Some(part) = parts.front_mut().filter(|_| bytes > 0) {
                    let taken = part.bytes.min(bytes);
                    (part.offset, part.bytes) = (part.offset + taken, part.bytes - taken);
                    bytes -= taken;
                    if part.bytes == 0 {
                        parts.pop_front();
                    }
                }
            }
        }
    }

    /// The records of the parts that a range consists of; none of bytes that are here.
    fn records(&self, range: &Range<u64>) -> Vec<u8> {
        let Self::InBase(parts, _) = self else { return Vec::new() };
        let (mut records, mut begin) = (Vec::new(), 0);
        for part in parts {
            let end = begin + part.bytes;
            let (from, to) = (begin.max(range.start), end.min(range.end));
            if from < to {
                let (offset, bytes) = (part.offset + (from - begin), to - from);
                encode_base_parts(&[BasePart { offset, bytes, ..*part }], &mut records);
            }
            begin = end;
        }
        records
    }

    /// A range of it as a column, with its records.
    fn column<'a>(&'a self, range: &Range<u64>, records: &'a [u8]) -> ColumnData<'a> {
        match self {
            Self::Bytes(payload) => {
                ColumnData::Raw(&payload[range.start as usize..range.end as usize])
            }
            Self::InBase(..) => {
                let (codec, raw_bytes) = (Codec::Base, range.end - range.start);
                ColumnData::Stored(StoredColumn {
                    codec,
                    raw_bytes,
                    bytes: records,
                    checksums: None,
                })
            }
        }
    }
}

impl Fragments {
    /// Removes the rows and returns them, but for their payload, which stays.
    pub(crate) fn take_rows(&mut self) -> Self {
        let payload = std::mem::take(&mut self.payload);
        std::mem::replace(self, Self { payload, ..Self::default() })
    }

    /// The fragment of a row, or its pieces.
    pub(crate) fn of_row(&self, row: usize) -> impl Iterator<Item = Piece> + '_ {
        let place = |row: u64| self.pieces.partition_point(|piece| piece.row < row);
        let row = row as u64;
        let pieces = &self.pieces[place(row)..place(row + 1)];
        let (time_ns, bytes) = (self.times_ns[row as usize], self.lengths[row as usize].into());
        let alone = pieces.is_empty().then_some(Piece { row, time_ns, bytes });
        pieces.iter().copied().chain(alone)
    }

    /// Appends a row: with these fragments of the rows which were taken off, or with none.
    /// Fragments are taken in their order, since their payload stays where it is.
    pub(crate) fn take(&mut self, old: &Self, fragments: &[(usize, Piece)], is_expected: bool) {
        let row = self.valid.len() as u64;
        if let [(_, alone)] = fragments {
            let holes = old.holes.iter().filter(|hole| hole.row == alone.row);
            self.holes.extend(holes.map(|hole| Hole { row, ..*hole }));
        } else {
            self.pieces.extend(fragments.iter().map(|(_, piece)| Piece { row, ..*piece }));
        }
        self.valid.push(!fragments.is_empty());
        self.expected.push(is_expected);
        // They are no more than a column has.
        self.lengths.push(fragments.iter().map(|(_, piece)| piece.bytes as u32).sum());
        self.times_ns.push(fragments.first().map_or(0, |(_, first)| first.time_ns));
    }
}

impl EventsBuffer {
    /// With `in_base` it holds where the payload is, and not the payload. `shifts_ns` is added to
    /// the times of each source.
    pub(crate) fn new(sources: usize, in_base: bool, shifts_ns: Vec<i64>) -> Self {
        let source = || Fragments {
            payload: match in_base {
                true => Payload::InBase(VecDeque::new(), PartOrder::default()),
                false => Payload::default(),
            },
            ..Fragments::default()
        };
        Self {
            keys: Vec::new(),
            times_ns: Vec::new(),
            flags: Vec::new(),
            sources: (0..sources).map(|_| source()).collect(),
            counted: Ledger::new(sources),
            next_key: 0,
            read_key: 0,
            shifts_ns,
        }
    }

    /// Counts that are in no written frame.
    pub(crate) fn counted(&self) -> &Ledger {
        &self.counted
    }

    /// Adds a frame's contribution to the ledger.
    pub(crate) fn count(&mut self, ledger: &Ledger) {
        self.counted.add(ledger);
    }

    /// Adds a frame's events.
    pub(crate) fn add(&mut self, run: &Run, frame: usize) -> Result<(), StorageError> {
        let events = run.events(frame)?;
        self.keys.extend_from_slice(events.keys());
        self.read_key = events.keys().last().copied().unwrap_or(0).max(self.read_key);
        self.times_ns.extend_from_slice(events.times_ns());
        self.flags.extend_from_slice(events.flags());
        for (id, source) in self.sources.iter_mut().enumerate() {
            let (with_bytes, without);
            let column = match &mut source.payload {
                Payload::Bytes(payload) => {
                    with_bytes = run.fragments(frame, SourceId(id as u32))?;
                    payload.extend_from_slice(with_bytes.payload());
                    &*with_bytes
                }
                Payload::InBase(parts, order) => {
                    let (column, more) = run.event_reader().parts(frame, SourceId(id as u32))?;
                    if !more.iter().all(|part| order.take(part)) {
                        return Err(unwritable("index columns alone", NOT_IN_ORDER));
                    }
                    parts.extend(more);
                    without = column;
                    &without
                }
            };
            let is_sparse = run.sources()[id].sparse;
            let before = source.valid.len() as u64;
            let holes = column.holes(0..events.len()).iter();
            source.holes.extend(holes.map(|hole| Hole { row: hole.row + before, ..*hole }));
            let pieces = column.pieces(0..events.len()).iter();
            let shift_ns = self.shifts_ns.get(id).copied().unwrap_or(0);
            let there = |row: usize| column.validity().is_set(row);
            source.lacks_times |= column.times_ns().is_empty() && (0..events.len()).any(there);
            let shifted = |ns: u64| ns.saturating_add_signed(shift_ns);
            source.pieces.extend(pieces.map(|piece| Piece {
                row: piece.row + before,
                time_ns: shifted(piece.time_ns),
                ..*piece
            }));
            let times = column.times_ns().iter().enumerate();
            source
                .times_ns
                .extend(times.map(|(row, &ns)| if there(row) { shifted(ns) } else { 0 }));
            source.times_ns.resize(source.valid.len() + events.len(), 0);
            for row in 0..events.len() {
                source.valid.push(column.validity().is_set(row));
                // Of a sparse source no column says it.
                source.expected.push(is_sparse || column.is_expected(row));
                source.lengths.push(column.range(row).len() as u32);
            }
        }
        Ok(())
    }

    /// Writes frames of that many bytes while there are enough events.
    pub(crate) fn write_full(
        &mut self,
        writer: &mut RunWriter,
        frame_bytes: u64,
    ) -> Result<(), StorageError> {
        let mut start = 0;
        let mut bytes = 0;
        for row in 0..self.keys.len() {
            let lengths = self.sources.iter().map(|source| u64::from(source.lengths[row]));
            bytes += EVENT_BYTES + lengths.sum::<u64>();
            if bytes >= frame_bytes {
                self.write_rows(writer, start..row + 1)?;
                (start, bytes) = (row + 1, 0);
            }
        }
        self.drop_rows(start);
        Ok(())
    }

    /// Writes all events as one frame.
    pub(crate) fn write_all(&mut self, writer: &mut RunWriter) -> Result<(), StorageError> {
        self.write_first(writer, self.keys.len())
    }

    /// Writes so many events as one frame.
    pub(crate) fn write_first(
        &mut self,
        writer: &mut RunWriter,
        rows: usize,
    ) -> Result<(), StorageError> {
        if rows > 0 {
            self.write_rows(writer, 0..rows)?;
            self.drop_rows(rows);
        }
        Ok(())
    }

    fn write_rows(
        &mut self,
        writer: &mut RunWriter,
        rows: Range<usize>,
    ) -> Result<(), StorageError> {
        // One bit for each row; none where all are set.
        let bits = |rows: &[bool]| {
            let mut bits = vec![0u8; rows.len().div_ceil(8)];
            let set = rows.iter().enumerate().filter(|(_, is_set)| **is_set);
            set.for_each(|(row, _)| bits[row / 8] |= 1 << (row % 8));
            rows.contains(&false).then_some(Cow::Owned(bits))
        };
        let range = rows.start as u64..rows.end as u64;
        let holes_of = |source: &Fragments| {
            let within = source.holes.iter().filter(|hole| range.contains(&hole.row));
            within.map(|hole| Hole { row: hole.row - range.start, ..*hole }).collect()
        };
        let holes: Vec<Vec<Hole>> = self.sources.iter().map(holes_of).collect();
        let pieces_of = |source: &Fragments| {
            let within = source.pieces.iter().filter(|piece| range.contains(&piece.row));
            within.map(|piece| Piece { row: piece.row - range.start, ..*piece }).collect()
        };
        let pieces: Vec<Vec<Piece>> = self.sources.iter().map(pieces_of).collect();
        // Of each source the bytes of the rows within its payload, and where these are in the base.
        let payload_of = |source: &Fragments| {
            let bytes =
                |lengths: &[u32]| lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
            let start = bytes(&source.lengths[..rows.start]);
            let range = start..start + bytes(&source.lengths[rows.clone()]);
            let records = source.payload.records(&range);
            (range, records)
        };
        let payload: Vec<_> = self.sources.iter().map(payload_of).collect();
        let sources = self.sources.iter().enumerate().filter_map(|(id, source)| {
            let valid = &source.valid[rows.clone()];
            let is_there = valid.contains(&true);
            let expected = bits(&source.expected[rows.clone()]);
            let times_ns = &source.times_ns[rows.clone()];
            let has_times = is_there && !source.lacks_times || times_ns.iter().any(|&ns| ns > 0);
            let (range, records) = &payload[id];
            (is_there || expected.is_some()).then(|| EventSource {
                source: SourceId(id as u32),
                lengths: if is_there { &source.lengths[rows.clone()] } else { &[] },
                validity: bits(valid).filter(|_| is_there),
                expected,
                holes: &holes[id],
                times: if has_times { times_ns } else { &[] },
                pieces: &pieces[id],
                payload: source.payload.column(range, records),
            })
        });
        let frame = EventFrame {
            keys: &self.keys[rows.clone()],
            times_ns: &self.times_ns[rows.clone()],
            flags: &self.flags[rows.clone()],
            sources: sources.collect(),
            increments: Some(&self.counted),
        };
        writer.write_events(frame)?;
        self.counted = Ledger::new(self.sources.len());
        Ok(())
    }

    fn drop_rows(&mut self, rows: usize) {
        self.keys.drain(..rows);
        self.times_ns.drain(..rows);
        self.flags.drain(..rows);
        for source in &mut self.sources {
            let bytes = source.lengths.drain(..rows).map(u64::from).sum();
            source.payload.drop_first(bytes);
            source.valid.drain(..rows);
            source.expected.drain(..rows);
            source.times_ns.drain(..rows);
            source.holes.retain(|hole| hole.row >= rows as u64);
            source.holes.iter_mut().for_each(|hole| hole.row -= rows as u64);
            source.pieces.retain(|piece| piece.row >= rows as u64);
            source.pieces.iter_mut().for_each(|piece| piece.row -= rows as u64);
        }
    }
}

/// Why a payload cannot be in a base.
const NOT_IN_ORDER: &str = "the frames of the run are not in the order of their numbers: `--copy` \
    writes the payload, too";
/// Key, time and flags.
const EVENT_BYTES: u64 = 20;
