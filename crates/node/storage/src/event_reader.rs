//! Reading the columns of frames of events, and selecting events by key, time and frame.
//!
//! A selection skips frames by their headers. In the other frames, the events' own columns are
//! read, and a source's fragments only if a row is selected.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use catchment_frame::{
    BasePart, Codec, ColumnEntry, ColumnKind, Dtype, Hole, SourceColumns, decode_holes,
    decode_pieces, unqualified,
};
use catchment_model::limits::COLUMN_BYTES_MAX;
use catchment_model::{Piece, SourceId};

use crate::base::Base;
use crate::cache::ColumnCache;
use crate::checked::CheckedColumns;
use crate::column::{FragmentColumn, FrameEvents, Validity};
use crate::error::StorageError;
use crate::open::RunFile;
use crate::run::Frame;
use crate::run::Run;
use crate::write::unwritable;

/// Reads columns of a run's frames with events, through the cache. Frames are indices into
/// [`Run::frames`](crate::Run::frames).
#[derive(Clone, Copy)]
pub(crate) struct EventReader<'a> {
    pub files: &'a [RunFile],
    pub frames: &'a [Frame],
    pub cache: &'a ColumnCache,
    pub base: &'a Base,
}

/// A frame and its file.
#[derive(Clone, Copy)]
struct InFile<'a> {
    frame: &'a Frame,
    file: &'a RunFile,
}

impl Run {
    /// Checks that the data of a source are in the run's files: its target may not get them.
    ///
    /// # Errors
    /// [`StorageError::NotStored`].
    pub fn check_stored(&self, source: SourceId) -> Result<(), StorageError> {
        let source = self.sources().get(source.index()).filter(|source| !source.stored);
        source.map_or(Ok(()), |source| Err(self.not_stored("source", &source.name)))
    }

    /// In which rows of a frame a source was expected. An event lacks it only if it was.
    ///
    /// # Errors
    /// No such frame or source, or a column that cannot be read.
    pub fn expected(&self, frame: usize, source: SourceId) -> Result<Validity, StorageError> {
        self.event_reader().expected(frame, source)
    }

    /// The holes in a source's fragments in a frame, in order. Their payload is not read.
    ///
    /// # Errors
    /// No such frame or source, or a column that cannot be read.
    pub fn fragment_holes(
        &self,
        frame: usize,
        source: SourceId,
    ) -> Result<Vec<Hole>, StorageError> {
        self.event_reader().holes(frame, source)
    }

    /// A part of a source's fragment in a row of a frame, as far as the fragment goes; none if the
    /// fragment is missing. Of a payload that is stored as it is, about these bytes are read.
    ///
    /// # Errors
    /// No such frame or source, or a column that cannot be read.
    pub fn fragment_part(
        &self,
        frame: usize,
        source: SourceId,
        row: usize,
        wanted: Range<u64>,
    ) -> Result<Option<FragmentPart>, StorageError> {
        self.event_reader().part(self.checked(), (frame, source, row), wanted)
    }

    pub(crate) fn not_stored(&self, what: &'static str, name: &str) -> StorageError {
        StorageError::NotStored { what, name: name.to_owned(), variant: self.header().variant }
    }
}

impl<'a> EventReader<'a> {
    pub(crate) fn events(&self, index: usize) -> Result<Arc<FrameEvents>, StorageError> {
        self.cache.events(index, || {
            let frame = self.frame(index)?;
            let columns = frame.file.reader.event_columns();
            let keys = frame.read_present(columns.key, &ColumnKind::EventKey)?;
            let times = frame.read_present(columns.time, &ColumnKind::EventTime)?;
            let flags = frame.read_present(columns.flags, &ColumnKind::EventFlags)?;
            Ok(FrameEvents::new(
                numbers(&keys, u64::from_le_bytes),
                numbers(&times, u64::from_le_bytes),
                numbers(&flags, u32::from_le_bytes),
            ))
        })
    }

    pub(crate) fn validity(
        &self,
        index: usize,
        source: SourceId,
    ) -> Result<Arc<Validity>, StorageError> {
        self.cache.validity(index, source, || self.frame(index)?.read_validity(source))
    }

    /// In which rows a source is expected.
    pub(crate) fn expected(
        &self,
        index: usize,
        source: SourceId,
    ) -> Result<Validity, StorageError> {
        let frame = self.frame(index)?;
        let schema = &frame.file.reader.header().schema;
        match frame.entry(frame.source_columns(source)?.expected)? {
            Some(entry) => frame.read_bits(&entry).map(Validity::Bits),
            // Such a source is expected where it is.
            None if schema.sources[source.index()].sparse => {
                Ok(Validity::clone(&*self.validity(index, source)?))
            }
            None => Ok(Validity::All),
        }
    }

    pub(crate) fn fragments(
        &self,
        index: usize,
        source: SourceId,
    ) -> Result<Arc<FragmentColumn>, StorageError> {
        self.cache.fragments(index, source, || {
            let frame = self.frame(index)?;
            let id = frame.source_columns(source)?.payload;
            let wrong = |problem: &str| frame.error(id, problem);
            let (column, payload) = self.index_columns(&frame, (index, source))?;
            let bytes = match &payload {
                Some(entry) if entry.codec == Codec::Base => {
                    self.base.payload(source, &frame.base_parts(entry)?, wrong)?
                }
                Some(entry) => frame.read_column(entry)?,
                None => Vec::new(),
            };
            column.with_payload(bytes).map_err(wrong)
        })
    }

    /// A source's part of a frame without its payload, and of which parts of a run's frames that
    /// consists: of its base's, or of this frame itself.
    pub(crate) fn parts(
        &self,
        index: usize,
        source: SourceId,
    ) -> Result<(FragmentColumn, Vec<BasePart>), StorageError> {
        let frame = self.frame(index)?;
        let (column, payload) = self.index_columns(&frame, (index, source))?;
        let raw_bytes = payload.map_or(0, |entry| entry.raw_bytes);
        let id = frame.source_columns(source)?.payload;
        column.check_payload(raw_bytes).map_err(|problem| frame.error(id, problem))?;
        let parts = match payload.filter(|_| raw_bytes > 0) {
            Some(entry) if entry.codec == Codec::Base => frame.base_parts(&entry)?,
            Some(_) if self.base.is_named() => {
                return Err(unwritable("index columns alone", PARTLY_IN_BASE));
            }
            Some(_) => {
                let info = frame.frame.summary.info;
                let (stream, sequence, key_first) =
                    (info.origin.stream, info.sequence, info.key_first);
                let (offset, bytes) = (0, raw_bytes);
                vec![BasePart { stream, sequence, key_first, raw_bytes, offset, bytes }]
            }
            None => Vec::new(),
        };
        Ok((column, parts))
    }

    /// A source's part of a frame without its payload, and that one's entry.
    fn index_columns(
        &self,
        frame: &InFile<'_>,
        (index, source): (usize, SourceId),
    ) -> Result<(FragmentColumn, Option<ColumnEntry>), StorageError> {
        let columns = frame.source_columns(source)?;
        let events = self.events(index)?;
        let validity = self.validity(index, source)?;
        let lengths = frame.read_lengths(&columns)?;
        let length = |row| lengths.get(row).filter(|_| validity.is_set(row)).copied();
        let holes = frame.read_holes(&columns, length)?;
        let pieces = frame.read_pieces(&columns, length)?;
        let payload = frame.entry(columns.payload)?.map(|entry| with_holes(entry, &holes));
        let rows = (validity, self.expected(index, source)?);
        let times_ns = match frame.entry(columns.times)? {
            Some(entry) => numbers(&frame.read_rows(&entry, Dtype::U64)?, u64::from_le_bytes),
            None => Vec::new(),
        };
        FragmentColumn::new(events, &lengths, rows, (holes, times_ns, pieces))
            .map(|column| (column, payload))
            .map_err(|problem| frame.error(columns.payload, problem))
    }

    fn holes(&self, index: usize, source: SourceId) -> Result<Vec<Hole>, StorageError> {
        let frame = self.frame(index)?;
        let columns = frame.source_columns(source)?;
        if columns.holes.is_none() {
            return Ok(Vec::new());
        }
        let (lengths, validity) = (frame.read_lengths(&columns)?, self.validity(index, source)?);
        frame.read_holes(&columns, |row| lengths.get(row).filter(|_| validity.is_set(row)).copied())
    }

    fn part(
        &self,
        checked: &CheckedColumns,
        (index, source, row): (usize, SourceId, usize),
        wanted: Range<u64>,
    ) -> Result<Option<FragmentPart>, StorageError> {
        let frame = self.frame(index)?;
        let columns = frame.source_columns(source)?;
        let validity = self.validity(index, source)?;
        let lengths = frame.read_lengths(&columns)?;
        let length = |row: usize| lengths.get(row).filter(|_| validity.is_set(row)).copied();
        let Some(fragment_bytes) = length(row).map(u64::from) else { return Ok(None) };
        let begin = lengths[..row].iter().map(|&bytes| u64::from(bytes)).sum::<u64>();
        let wanted = wanted.start.min(fragment_bytes)..wanted.end.min(fragment_bytes);
        let range = begin + wanted.start..begin + wanted.end.max(wanted.start);
        let all = frame.read_holes(&columns, length)?;
        let meets = |hole: &&Hole| {
            let end = hole.offset + hole.bytes;
            hole.row == row as u64 && hole.offset < wanted.end && wanted.start < end
        };
        let holes = all.iter().filter(meets).map(|hole| hole.offset..hole.offset + hole.bytes);
        let holes = holes.collect();
        let entry = frame.entry(columns.payload)?.map(|entry| with_holes(entry, &all));
        let mut bytes = Vec::new();
        match entry {
            None => {}
            Some(entry) if range.end > entry.raw_bytes => {
                return Err(frame.error(columns.payload, "the lengths are beyond the payload"));
            }
            Some(entry) if entry.codec == Codec::None => {
                bytes = frame.read_stored(checked, (index, &entry), &range)?;
            }
            Some(_) => {
                let column = self.fragments(index, source)?;
                bytes
                    .extend_from_slice(&column.payload()[range.start as usize..range.end as usize]);
            }
        }
        Ok(Some(FragmentPart { bytes, fragment_bytes, holes }))
    }

    fn frame(&self, index: usize) -> Result<InFile<'a>, StorageError> {
        let count = self.frames.len();
        let frame = self.frames.get(index).ok_or(StorageError::NoFrame { index, count })?;
        Ok(InFile { frame, file: &self.files[frame.file] })
    }
}

impl InFile<'_> {
    fn read_validity(&self, source: SourceId) -> Result<Validity, StorageError> {
        let columns = self.source_columns(source)?;
        let lengths = self.entry(columns.lengths)?;
        let validity = self.entry(columns.validity)?;
        Ok(match (lengths, validity) {
            (None, None) => Validity::None,
            (Some(_), None) => Validity::All,
            (None, Some(_)) => {
                return Err(self.error(columns.validity, "there is validity, but no lengths"));
            }
            (Some(_), Some(entry)) => Validity::Bits(self.read_bits(&entry)?),
        })
    }

    /// One bit per event.
    fn read_bits(&self, entry: &ColumnEntry) -> Result<Vec<u8>, StorageError> {
        let mut bits = self.read_rows(entry, Dtype::Bits)?;
        let spare = (self.frame.summary.info.rows % 8) as u32;
        if let Some(last) = bits.last_mut().filter(|_| spare > 0) {
            // Readers ignore the padding, whatever its value.
            *last &= (1u8 << spare) - 1;
        }
        Ok(bits)
    }

    /// Bytes of each row's fragment; none if the source has no fragment here.
    fn read_lengths(&self, columns: &SourceColumns) -> Result<Vec<u32>, StorageError> {
        Ok(match self.entry(columns.lengths)? {
            Some(entry) => numbers(&self.read_rows(&entry, Dtype::U32)?, u32::from_le_bytes),
            None => Vec::new(),
        })
    }

    /// The holes in a source's fragments. `length` gives the bytes of a row's fragment, if it is
    /// there.
    fn read_holes(
        &self,
        columns: &SourceColumns,
        length: impl Fn(usize) -> Option<u32>,
    ) -> Result<Vec<Hole>, StorageError> {
        let Some(entry) = self.entry(columns.holes)? else { return Ok(Vec::new()) };
        let records = self.read_column(&entry)?;
        let length = |row: u64| length(usize::try_from(row).ok()?).map(u64::from);
        decode_holes(&records, length)
            .map_err(|problem| self.error(columns.holes, &problem.to_string()))
    }

    /// The pieces of rows that have several fragments of a source; `length` as above.
    fn read_pieces(
        &self,
        columns: &SourceColumns,
        length: impl Fn(usize) -> Option<u32>,
    ) -> Result<Vec<Piece>, StorageError> {
        let Some(entry) = self.entry(columns.pieces)? else { return Ok(Vec::new()) };
        let records = self.read_column(&entry)?;
        let length = |row: u64| length(usize::try_from(row).ok()?).map(u64::from);
        decode_pieces(&records, length)
            .map_err(|problem| self.error(columns.pieces, &problem.to_string()))
    }

    fn source_columns(&self, source: SourceId) -> Result<SourceColumns, StorageError> {
        let sources = &self.file.reader.event_columns().sources;
        let none = StorageError::NoSource { id: source.0, count: sources.len() };
        sources.get(source.index()).copied().ok_or(none)
    }

    fn entry(&self, id: Option<u32>) -> Result<Option<ColumnEntry>, StorageError> {
        let Some(id) = id else { return Ok(None) };
        self.file.reader.find(self.frame.index, id).map_err(|error| self.file.error(error))
    }

    /// A column that every frame of events has.
    fn read_present(&self, id: Option<u32>, kind: &ColumnKind) -> Result<Vec<u8>, StorageError> {
        let dtype = if *kind == ColumnKind::EventFlags { Dtype::U32 } else { Dtype::U64 };
        match self.entry(id)? {
            Some(entry) => self.read_rows(&entry, dtype),
            None => Err(StorageError::Column {
                path: self.file.path.clone(),
                frame: self.frame.index,
                kind: kind.name().to_owned(),
                source_name: None,
                channel: None,
                problem: "the frame does not have it".to_owned(),
            }),
        }
    }

    /// A column with one element of that type per event.
    fn read_rows(&self, entry: &ColumnEntry, dtype: Dtype) -> Result<Vec<u8>, StorageError> {
        let rows = self.frame.summary.info.rows;
        if entry.rows != rows || dtype.bytes_of(rows) != Some(entry.raw_bytes) {
            let problem = "it does not have one element for each event of the frame";
            return Err(self.error(Some(entry.id), problem));
        }
        self.read_column(entry)
    }

    fn read_column(&self, entry: &ColumnEntry) -> Result<Vec<u8>, StorageError> {
        let mut raw = zeroed_for(self.frame, entry);
        let read = self.file.reader.read_column(self.frame.index, entry, &mut raw);
        read.map_err(|error| self.file.error(error))?;
        // The reader put the encoded bytes after the decoded ones.
        raw.shrink_to_fit();
        Ok(raw)
    }

    /// A part of a column that is stored as it is, with the blocks around it checked.
    fn read_stored(
        &self,
        checked: &CheckedColumns,
        (index, entry): (usize, &ColumnEntry),
        range: &Range<u64>,
    ) -> Result<Vec<u8>, StorageError> {
        let read = || {
            let stored = self.file.reader.stored_column(self.frame.index, entry)?;
            stored.check()?;
            let mut bytes = vec![0; (range.end - range.start) as usize];
            let at = self.frame.summary.offset + entry.offset;
            let column = checked.column((index, entry.id), entry, &stored)?;
            column.read(&stored, (at, range), &mut bytes, &mut Vec::new())?;
            Ok(bytes)
        };
        read().map_err(|error| self.file.error(error))
    }

    /// Of which parts of the base a column consists.
    fn base_parts(&self, entry: &ColumnEntry) -> Result<Vec<BasePart>, StorageError> {
        let column = self.file.reader.stored_column(self.frame.index, entry);
        column.and_then(|column| column.base_parts()).map_err(|error| self.file.error(error))
    }

    fn error(&self, column: Option<u32>, problem: &str) -> StorageError {
        let names = self.file.names(column.unwrap_or(u32::MAX));
        StorageError::Column {
            path: self.file.path.clone(),
            frame: self.frame.index,
            kind: names.kind,
            source_name: names.source,
            channel: names.channel,
            problem: problem.to_owned(),
        }
    }
}

/// A part of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentPart {
    /// Its bytes, zeros in its holes.
    pub bytes: Vec<u8>,
    /// Bytes of the whole fragment.
    pub fragment_bytes: u64,
    /// The holes that it meets: ranges of the fragment that never came.
    pub holes: Vec<Range<u64>>,
}

/// The events to read: those that meet all three conditions. The default is all events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectEvents {
    /// The key is one of these.
    pub keys: RangeInclusive<u64>,
    /// The first fragment arrived in this range, in nanoseconds since 1970, UTC; any time if not
    /// given.
    pub time_ns: Option<Range<u64>>,
    /// It is in one of these frames: indices into [`Run::frames`](crate::Run::frames).
    pub frames: Range<usize>,
}

impl Default for SelectEvents {
    fn default() -> Self {
        Self { keys: 0..=u64::MAX, time_ns: None, frames: 0..usize::MAX }
    }
}

impl SelectEvents {
    /// Whether a frame can contain such an event, by its header.
    pub(crate) fn meets(&self, index: usize, frame: &Frame) -> bool {
        let info = &frame.summary.info;
        let in_time = self.time_ns.as_ref().is_none_or(|time| {
            !time.is_empty() && info.time_first_ns < time.end && time.start <= info.time_last_ns
        });
        let in_keys = info.key_first <= *self.keys.end() && *self.keys.start() <= info.key_last;
        self.frames.contains(&index) && in_keys && in_time
    }
}

/// A payload's entry with the codec of its bytes, where the frame says which of them are none.
fn with_holes(entry: ColumnEntry, holes: &[Hole]) -> ColumnEntry {
    let plain = unqualified(entry.codec).filter(|_| !holes.is_empty());
    ColumnEntry { codec: plain.unwrap_or(entry.codec), ..entry }
}

/// Memory for a column, if its entry is plausible. Zeroed memory is requested, because the system
/// zeroes pages at their first touch, so nothing is written twice.
fn zeroed_for(frame: &Frame, entry: &ColumnEntry) -> Vec<u8> {
    let stored = entry.stored_bytes;
    let plausible = stored <= frame.summary.frame_bytes
        && entry.raw_bytes <= stored.saturating_mul(255)
        && entry.raw_bytes <= COLUMN_BYTES_MAX;
    if !plausible {
        // The reader will refuse it.
        return Vec::new();
    }
    let encoded = if entry.codec == Codec::None { 0 } else { stored };
    vec![0; (entry.raw_bytes + encoded) as usize]
}

fn numbers<const N: usize, T>(bytes: &[u8], decode: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty(), "read_rows checked the length");
    chunks.iter().map(|&chunk| decode(chunk)).collect()
}

/// Why a run cannot be the base of another, nor its base be that one's.
const PARTLY_IN_BASE: &str = "some of the payload of the run is in its base, and some is not: \
    `--copy` writes all of it";
