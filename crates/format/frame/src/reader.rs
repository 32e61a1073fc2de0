//! Reading a frame file: what frames there are, and their columns.
//!
//! A closed file is opened by its trailer and the TOC's root; a column's list of places is read
//! when first asked for, and kept. Any other file is walked. Damage costs what it hit and no more:
//! places are taken from the TOC or from the frames' own headers, whichever is whole.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catchment_codec::{Codec, check_sizes, decode_into};
use catchment_model::Ledger;
use catchment_model::limits::{COLUMN_BYTES_MAX, FRAME_BYTES_MAX};

use crate::checksum::{Crc32c, crc32c};
use crate::error::{ColumnProblem, FrameError, FrameRef, Part};
use crate::events::EventColumns;
use crate::frame::{ColumnEntry, FIXED_BYTES, FrameSummary, Head};
use crate::header::FileHeader;
use crate::kinds::{Dtype, FrameKind};
use crate::read_at::{ReadAt, read_exact, set_len};
use crate::toc::TocFlags;
use crate::toc_reader::{Place, Toc, Trailer, header_from_toc};
use crate::walk::{Skipped, Walker};
use crate::{BLOCK_BYTES, COLUMN_ALIGN_BYTES};

/// How a file that is not closed is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// How far a hole is searched for the next frame. 0: the walk stops at the first border without
    /// a frame, as for a file that is growing.
    pub search_bytes_max: u64,
    /// Walk even if there is a TOC.
    pub ignore_toc: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { search_bytes_max: 256 * 1024 * 1024, ignore_toc: false }
    }
}

/// How a file was found.
#[derive(Debug)]
pub enum Condition {
    /// Trailer and TOC are in order.
    Closed,
    /// There is no trailer, or it or the TOC is damaged: the frames were found by walking.
    Unclosed(FrameError),
}

/// A frame file that is open for reading. Reading needs no exclusive access, so that many threads
/// can share one.
#[derive(Debug)]
pub struct FileReader<R> {
    reader: R,
    file_bytes: u64,
    header: FileHeader,
    encoded_header: Vec<u8>,
    header_problem: Option<FrameError>,
    first_frame: u64,
    frames: Vec<FrameSummary>,
    places: Places,
    condition: Condition,
    columns: EventColumns,
    /// For each column of the schema: its type, and elements of one row.
    rows: HashMap<u32, RowShape>,
    ledger: OnceLock<Ledger>,
}

#[derive(Debug)]
enum Places {
    Toc { toc: Toc, lists: Mutex<HashMap<u32, Arc<[Place]>>> },
    Walked { lists: HashMap<u32, Vec<Place>>, skipped: Vec<Skipped> },
}

#[derive(Clone, Copy, Debug)]
struct RowShape {
    dtype: Dtype,
    elements: u64,
}

impl<R: ReadAt> FileReader<R> {
    /// Opens a file: by its TOC, or by walking if it has none.
    ///
    /// # Errors
    /// What is no frame file of this major version, or cannot be read at all.
    pub fn open(reader: R) -> Result<Self, FrameError> {
        Self::open_with(reader, &OpenOptions::default())
    }

    /// As [`FileReader::open`], with options.
    ///
    /// # Errors
    /// As [`FileReader::open`].
    pub fn open_with(reader: R, options: &OpenOptions) -> Result<Self, FrameError> {
        let file_bytes = reader.bytes().map_err(FrameError::Length)?;
        let closed = Trailer::read(&reader, file_bytes)
            .and_then(|trailer| Toc::read(&reader, &trailer, file_bytes));
        let mut header_problem = None;
        let (header, encoded_header, first_frame) =
            match (FileHeader::read(&reader, file_bytes), &closed) {
                (Ok(header), _) => header,
                // A header that is damaged is read from the TOC's copy. The trailer has a version of
                // its own, so that a file of a later version does not come here.
                (Err(error), Ok(toc)) => {
                    let Ok(copy) = header_from_toc(&reader, toc) else { return Err(error) };
                    header_problem = Some(error);
                    copy
                }
                (Err(error), _) => return Err(error),
            };
        let closed = closed.and_then(|toc| toc_of_this_file(toc, &header, first_frame));
        let (frames, places, condition) = match closed {
            Ok(mut toc) if !options.ignore_toc => {
                let frames = std::mem::take(&mut toc.frames);
                (frames, Places::Toc { toc, lists: Mutex::default() }, Condition::Closed)
            }
            closed => {
                let file_id = header.file_id;
                let search_bytes_max = options.search_bytes_max;
                let walker = Walker { reader: &reader, file_bytes, file_id, search_bytes_max };
                let walk = walker.walk(first_frame);
                let condition = closed.err().map_or(Condition::Closed, Condition::Unclosed);
                let places = Places::Walked { lists: walk.lists, skipped: walk.skipped };
                (walk.frames, places, condition)
            }
        };
        let columns = EventColumns::of(&header.schema);
        let infos = header.schema.columns.iter();
        let rows = infos.map(|info| {
            let product = |product: u64, &n: &u64| product.saturating_mul(n);
            let elements = info.shape.iter().fold(1, product);
            (info.id, RowShape { dtype: info.dtype, elements })
        });
        let rows = rows.collect();
        let ledger = OnceLock::new();
        Ok(Self {
            reader,
            file_bytes,
            header,
            encoded_header,
            header_problem,
            first_frame,
            frames,
            places,
            condition,
            columns,
            rows,
            ledger,
        })
    }

    /// What the file says of itself.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The frames in the order of the file, without the TOC.
    pub fn frames(&self) -> &[FrameSummary] {
        &self.frames
    }

    /// The file's length when it was opened.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Whether trailer and TOC are in order.
    pub fn closed(&self) -> bool {
        matches!(self.condition, Condition::Closed)
    }

    /// Whether the file is closed, and if not, why.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// What was wrong with the file header, if it had to be read from the TOC's copy.
    pub fn header_problem(&self) -> Option<&FrameError> {
        self.header_problem.as_ref()
    }

    /// What the TOC says of how the file was closed; `None` without a TOC.
    pub fn flags(&self) -> Option<TocFlags> {
        match &self.places {
            Places::Toc { toc, .. } => Some(toc.flags),
            Places::Walked { .. } => None,
        }
    }

    /// Ranges without frames that a walk came across; empty when opened by the TOC.
    pub fn skipped(&self) -> &[Skipped] {
        match &self.places {
            Places::Toc { .. } => &[],
            Places::Walked { skipped, .. } => skipped,
        }
    }

    /// Which columns of the schema hold events.
    pub fn event_columns(&self) -> &EventColumns {
        &self.columns
    }

    /// The TOC's ledger: the total at the file's close. `None` without a TOC.
    ///
    /// # Errors
    /// If that column of the TOC cannot be read.
    pub fn ledger(&self) -> Result<Option<&Ledger>, FrameError> {
        let Places::Toc { toc, .. } = &self.places else { return Ok(None) };
        if let Some(ledger) = self.ledger.get() {
            return Ok(Some(ledger));
        }
        let names = &self.header.ledger_entries;
        let ledger = toc.ledger(&self.reader, names, self.header.schema.sources.len())?;
        Ok(Some(self.ledger.get_or_init(|| ledger)))
    }

    /// The directory of a frame, read from the frame itself; if its header is damaged, what the
    /// TOC says of the schema's columns.
    ///
    /// # Errors
    /// If neither can be read.
    pub fn columns(&self, frame: usize) -> Result<Vec<ColumnEntry>, FrameError> {
        let error = match self.directory(frame) {
            Ok(entries) => return Ok(entries),
            Err(error) => error,
        };
        if matches!(self.places, Places::Walked { .. }) || frame >= self.frames.len() {
            return Err(error);
        }
        let mut entries = Vec::new();
        for info in &self.header.schema.columns {
            let Ok(entry) = self.listed(frame, info.id) else { return Err(error) };
            entries.extend(entry);
        }
        Ok(entries)
    }

    /// Where a column stands in a frame; `None` if the frame does not have it.
    ///
    /// # Errors
    /// If neither the TOC nor the frame's header can be read.
    pub fn find(&self, frame: usize, column: u32) -> Result<Option<ColumnEntry>, FrameError> {
        self.summary(frame)?;
        match self.listed(frame, column) {
            Ok(entry) => Ok(entry),
            Err(_) => Ok(self.directory(frame)?.into_iter().find(|entry| entry.id == column)),
        }
    }

    /// Reads a column: `out` becomes its raw bytes. Memory for them is taken only when the stored
    /// bytes can be in the file and can give that many.
    ///
    /// # Errors
    /// With frame and column, whatever is wrong: place, codec, sizes, checksum, contents.
    pub fn read_column(
        &self,
        frame: usize,
        entry: &ColumnEntry,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let summary = self.summary(frame)?;
        let shape = self.rows.get(&entry.id);
        check_rows(entry, shape)
            .map_err(|problem| FrameError::column(FrameRef::Index(frame), entry.id, problem))?;
        read_stored_column(&self.reader, FrameRef::Index(frame), summary, entry, out)
    }

    /// Finds and reads a column. False, with `out` empty, if the frame does not have it.
    ///
    /// # Errors
    /// As [`FileReader::find`] and [`FileReader::read_column`].
    pub fn read(&self, frame: usize, column: u32, out: &mut Vec<u8>) -> Result<bool, FrameError> {
        match self.find(frame, column)? {
            Some(entry) => self.read_column(frame, &entry, out).map(|()| true),
            None => {
                out.clear();
                Ok(false)
            }
        }
    }

    /// Everything that is wrong with a frame: its header, its columns, and what events' columns
    /// say of each other. Columns with a codec that this version does not know are checked as far
    /// as their checksum.
    pub fn verify_frame(&self, frame: usize) -> Vec<FrameError> {
        let mut problems = Vec::new();
        let entries = match self.directory(frame) {
            Ok(entries) => entries,
            Err(error) => {
                problems.push(error);
                self.columns(frame).unwrap_or_default()
            }
        };
        let Ok(summary) = self.summary(frame) else { return problems };
        let mut scratch = Vec::new();
        for entry in &entries {
            let result = match self.read_column(frame, entry, &mut scratch) {
                Err(FrameError::Column { problem: ColumnProblem::Codec(_), .. }) => {
                    check_stored(&self.reader, FrameRef::Index(frame), summary, entry)
                }
                other => other,
            };
            problems.extend(result.err());
        }
        if problems.is_empty() && summary.info.kind == FrameKind::Events {
            problems.extend(self.frame_ledger(frame).1);
        }
        problems
    }

    /// Everything that is wrong beside the frames: file header, trailer, TOC, holes in a file
    /// without one.
    pub fn verify_index(&self) -> Vec<FrameError> {
        match &self.places {
            Places::Toc { toc, .. } => toc.verify(&self.reader),
            Places::Walked { .. } => Vec::new(),
        }
    }

    pub(crate) fn into_frames_and_skipped(self) -> (Vec<FrameSummary>, Vec<Skipped>) {
        let skipped = match self.places {
            Places::Toc { .. } => Vec::new(),
            Places::Walked { skipped, .. } => skipped,
        };
        (self.frames, skipped)
    }

    /// The file header's bytes without padding.
    pub(crate) fn encoded_header(&self) -> &[u8] {
        &self.encoded_header
    }

    /// The file header's bytes as they stand before the first frame.
    pub(crate) fn padded_header(&self) -> Vec<u8> {
        let mut bytes = self.encoded_header.clone();
        bytes.resize(self.first_frame as usize, 0);
        bytes
    }

    /// Where the first frame begins.
    pub fn first_frame_offset(&self) -> u64 {
        self.first_frame
    }

    /// What is being read.
    pub(crate) fn reader(&self) -> &R {
        &self.reader
    }

    /// Holds an entry's type and rows against the schema.
    pub(crate) fn check_rows(&self, entry: &ColumnEntry) -> Result<(), ColumnProblem> {
        check_rows(entry, self.rows.get(&entry.id))
    }

    pub(crate) fn summary(&self, frame: usize) -> Result<&FrameSummary, FrameError> {
        let frames = self.frames.len();
        self.frames.get(frame).ok_or(FrameError::NoFrame { index: frame, frames })
    }

    /// In which frames a column stands, and where, as the TOC or the walk says it: by rising place of
    /// the frame.
    ///
    /// # Errors
    /// If the TOC's list cannot be read. The frames' own headers may still say it:
    /// [`FileReader::find`].
    pub fn places(&self, column: u32) -> Result<Arc<[(u32, ColumnEntry)]>, FrameError> {
        let (toc, lists) = match &self.places {
            Places::Walked { lists, .. } => {
                return Ok(lists.get(&column).map(Vec::as_slice).unwrap_or_default().into());
            }
            Places::Toc { toc, lists } => (toc, lists),
        };
        let known = lists.lock().unwrap_or_else(PoisonError::into_inner).get(&column).cloned();
        if let Some(list) = known {
            return Ok(list);
        }
        let list: Arc<[Place]> = toc.list(&self.reader, column)?.unwrap_or_default().into();
        // Only columns that the schema names are kept, so that asking cannot fill the memory.
        if self.rows.contains_key(&column) {
            let kept = Arc::clone(&list);
            lists.lock().unwrap_or_else(PoisonError::into_inner).insert(column, kept);
        }
        Ok(list)
    }

    /// What the TOC or the walk says of a column's place in a frame.
    fn listed(&self, frame: usize, column: u32) -> Result<Option<ColumnEntry>, FrameError> {
        let find = |list: &[Place]| {
            let at = list.binary_search_by_key(&(frame as u32), |(index, _)| *index).ok()?;
            Some(list[at].1)
        };
        if let Places::Walked { lists, .. } = &self.places {
            return Ok(lists.get(&column).and_then(|list| find(list)));
        }
        Ok(find(&self.places(column)?))
    }

    /// A frame's directory as the frame itself has it.
    fn directory(&self, frame: usize) -> Result<Vec<ColumnEntry>, FrameError> {
        let summary = self.summary(frame)?;
        let (head, header) = read_frame_header(&self.reader, summary.offset, self.file_bytes)?;
        if head.summary != *summary {
            let (part, expected) = (Part::FrameHeader(summary.offset), "what the TOC says");
            let got = u64::from(head.summary.header_crc32c);
            return Err(FrameError::Field { part, field: "header_crc32c", expected, got });
        }
        Ok(head.entries(&header).collect())
    }
}

fn toc_of_this_file(toc: Toc, header: &FileHeader, first_frame: u64) -> Result<Toc, FrameError> {
    let field = |part, field, expected, got| Err(FrameError::Field { part, field, expected, got });
    if toc.file_id() != header.file_id {
        return field(Part::Trailer, "file_id", "the file header's", toc.file_id());
    }
    match toc.frames.first() {
        Some(first) if first.offset < first_frame => {
            let part = Part::FrameHeader(first.offset);
            field(part, "offset", "behind the file header", first.offset)
        }
        _ => Ok(toc),
    }
}

/// Reads and checks the header of the frame at `offset`.
pub(crate) fn read_frame_header<R: ReadAt + ?Sized>(
    reader: &R,
    offset: u64,
    file_bytes: u64,
) -> Result<(Head, Vec<u8>), FrameError> {
    let part = Part::FrameHeader(offset);
    let available = file_bytes.saturating_sub(offset);
    let mut header = vec![0; available.min(BLOCK_BYTES) as usize];
    read_exact(reader, part, offset, &mut header)?;
    let head = Head::decode(offset, &header)?;
    let header_bytes = u64::from(head.summary.header_bytes);
    if head.summary.frame_bytes > available {
        let (expected, got) = (head.summary.frame_bytes, available);
        return Err(FrameError::Truncated { part, offset, expected, got });
    }
    let first = header.len().min(header_bytes as usize);
    header.resize(header_bytes as usize, 0);
    read_exact(reader, part, offset + first as u64, &mut header[first..])?;
    head.check(&header)?;
    Ok((head, header))
}

/// Checks an entry against its frame, before anything is allocated or read by it.
pub(crate) fn check_entry(
    summary: &FrameSummary,
    entry: &ColumnEntry,
) -> Result<(), ColumnProblem> {
    let is_toc = summary.info.kind == FrameKind::Toc;
    let bytes_max = if is_toc { FRAME_BYTES_MAX } else { COLUMN_BYTES_MAX };
    let end = entry.offset.checked_add(entry.stored_bytes);
    let checks = [
        (
            "offset",
            entry.offset,
            "a multiple of 64",
            entry.offset.is_multiple_of(COLUMN_ALIGN_BYTES),
        ),
        ("offset", entry.offset, "behind the header", entry.offset >= FIXED_BYTES as u64),
        ("offset", entry.offset, "within the frame", entry.offset <= summary.frame_bytes),
        (
            "stored_bytes",
            entry.stored_bytes,
            "within the frame",
            end.is_some_and(|end| end <= summary.frame_bytes),
        ),
        ("stored_bytes", entry.stored_bytes, "at most 1 GiB", entry.stored_bytes <= bytes_max),
        ("raw_bytes", entry.raw_bytes, "at most 1 GiB", entry.raw_bytes <= bytes_max),
    ];
    match checks.into_iter().find(|(_, _, _, fits)| !fits) {
        Some((field, got, expected, _)) => Err(ColumnProblem::Field { field, expected, got }),
        None => Ok(()),
    }
}

/// Checks that the type is the schema's, and that `raw_bytes` is what rows, type and shape give. For
/// columns that the schema does not have, any whole number of elements per row will do.
fn check_rows(entry: &ColumnEntry, shape: Option<&RowShape>) -> Result<(), ColumnProblem> {
    let field = |field, expected, got| Err(ColumnProblem::Field { field, expected, got });
    if entry.dtype.is_unknown() {
        return Ok(());
    }
    if shape.is_some_and(|shape| !shape.dtype.is_unknown() && shape.dtype != entry.dtype) {
        return field("dtype", "the schema's", u64::from(entry.dtype.number()));
    }
    if entry.dtype.bits().is_none() {
        return Ok(());
    }
    let fits = match (entry.dtype, shape) {
        (Dtype::Bits, None) => true,
        (dtype, Some(shape)) => {
            let count = entry.rows.checked_mul(shape.elements);
            count.and_then(|count| dtype.bytes_of(count)) == Some(entry.raw_bytes)
        }
        (dtype, None) => match dtype.bytes_of(entry.rows) {
            Some(0) => entry.raw_bytes == 0,
            Some(bytes) => entry.raw_bytes.is_multiple_of(bytes),
            None => false,
        },
    };
    if fits {
        return Ok(());
    }
    field("raw_bytes", "what rows, dtype and shape give", entry.raw_bytes)
}

/// Reads, checks and decodes the column that an entry describes.
pub(crate) fn read_stored_column<R: ReadAt + ?Sized>(
    reader: &R,
    frame: FrameRef,
    summary: &FrameSummary,
    entry: &ColumnEntry,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let fail = |problem| FrameError::column(frame, entry.id, problem);
    check_entry(summary, entry).map_err(fail)?;
    check_sizes(entry.codec, entry.stored_bytes, entry.raw_bytes)
        .map_err(|error| fail(error.into()))?;
    let raw_bytes = entry.raw_bytes as usize;
    // Encoded bytes are read behind the place where the decoded ones go: one buffer, kept by the
    // caller.
    let read_at = if entry.codec == Codec::None { 0 } else { raw_bytes };
    set_len(out, read_at + entry.stored_bytes as usize);
    let result = fill_column(reader, frame, summary, entry, &mut out[..]);
    // Nothing of a column that is wrong is handed out.
    out.truncate(if result.is_ok() { raw_bytes } else { 0 });
    result
}

/// Reads the stored bytes to the end of `buffer`, checks them, and decodes them to its beginning.
fn fill_column<R: ReadAt + ?Sized>(
    reader: &R,
    frame: FrameRef,
    summary: &FrameSummary,
    entry: &ColumnEntry,
    buffer: &mut [u8],
) -> Result<(), FrameError> {
    let fail = |problem| FrameError::column(frame, entry.id, problem);
    let stored_at = buffer.len() - entry.stored_bytes as usize;
    let (raw, stored) = buffer.split_at_mut(stored_at);
    let offset = summary.offset + entry.offset;
    read_exact(reader, Part::Column(frame, entry.id), offset, stored)?;
    let (expected, got) = (entry.crc32c, crc32c(stored));
    if got != expected {
        return Err(fail(ColumnProblem::Checksum { expected, got }));
    }
    if entry.codec == Codec::None {
        return Ok(());
    }
    decode_into(entry.codec, stored, raw).map_err(|error| fail(error.into()))
}

/// Checks the checksum of a column's stored bytes, a piece at a time.
pub(crate) fn check_stored<R: ReadAt + ?Sized>(
    reader: &R,
    frame: FrameRef,
    summary: &FrameSummary,
    entry: &ColumnEntry,
) -> Result<(), FrameError> {
    let fail = |problem| FrameError::column(frame, entry.id, problem);
    check_entry(summary, entry).map_err(fail)?;
    let mut piece = vec![0; entry.stored_bytes.min(PIECE_BYTES) as usize];
    let mut crc = Crc32c::new();
    let mut done = 0;
    while done < entry.stored_bytes {
        let bytes = (entry.stored_bytes - done).min(PIECE_BYTES) as usize;
        let offset = summary.offset + entry.offset + done;
        read_exact(reader, Part::Column(frame, entry.id), offset, &mut piece[..bytes])?;
        crc.update(&piece[..bytes]);
        done += bytes as u64;
    }
    let (expected, got) = (entry.crc32c, crc.finish());
    if got == expected { Ok(()) } else { Err(fail(ColumnProblem::Checksum { expected, got })) }
}

const PIECE_BYTES: u64 = 1024 * 1024;
