//! Reading a frame file: its frames and their columns.
//!
//! A closed file is opened by its trailer and the TOC's root; a column's list of entries is read
//! when first requested, and cached. Any other file is walked. Damage affects only the parts that
//! it hit: entries are taken from the TOC or from the frames' own headers, whichever is undamaged.
//! A file still being written is opened by its checkpoints, and followed by
//! [`FileReader::refresh`].

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use catchment_model::Ledger;

use crate::channels::{ChannelColumns, Spans, decode_spans};
use crate::checkpoint::{read_chain, read_checkpoint};
use crate::error::{FrameError, FrameRef, Part};
use crate::events::EventColumns;
use crate::frame::{ColumnEntry, FrameSummary};
use crate::frame_index::FrameIndex;
use crate::header::{Decoded, FileHeader, HeaderRest};
use crate::kinds::{ColumnKind, FrameKind};
use crate::known::{KnownSchema, KnownSchemas};
use crate::lists::FrameEntry;
use crate::positions::{Position, decode_positions};
use crate::read_at::ReadAt;
use crate::stored::{StoredColumn, read_frame_header};
use crate::toc::{MINOR_WITHOUT_POSITIONS, TocFlags, trailer};
use crate::toc_reader::{Toc, TocLocator, Trailer, header_from_toc};
use crate::walk::{Skipped, Walker, is_zero_between};
use crate::{BLOCK_BYTES, VERSION_MINOR};

/// How to open an unclosed file.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// How many bytes of a hole are searched for the next frame. 0: the walk stops at the first
    /// border without a frame, as for a growing file. Ranges that the file system reports as never
    /// written are not read, unless this is `u64::MAX`.
    pub search_bytes_max: u64,
    /// Walk even if there is a TOC; also ignores checkpoints.
    pub ignore_toc: bool,
    /// Walk an unclosed file from its beginning even if there are checkpoints.
    pub ignore_checkpoints: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { search_bytes_max: 256 * 1024 * 1024, ignore_toc: false, ignore_checkpoints: false }
    }
}

/// Whether a file is closed.
#[derive(Debug)]
pub enum Condition {
    /// Trailer and TOC are intact.
    Closed,
    /// There is no trailer, or it or the TOC is damaged: the frames were found by checkpoints and
    /// by walking.
    Unclosed(FrameError),
}

/// Why a file that was closed no longer is.
#[derive(Debug)]
pub enum Reopened {
    /// Its trailer is intact, but its TOC is not.
    Toc(FrameError),
    /// Its TOC exists, but no intact trailer follows it.
    Trailer(FrameError),
    /// Bytes follow its trailer.
    Longer {
        /// Its length when it was closed.
        closed_bytes: u64,
        /// Its length now.
        bytes: u64,
        /// Whether these bytes are zeros, as in a file whose writer was killed before it cut it.
        zeros: bool,
    },
}

impl fmt::Display for Reopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toc(error) => write!(f, "the TOC is damaged: {error}"),
            Self::Trailer(error) => write!(f, "the trailer is missing or damaged: {error}"),
            Self::Longer { closed_bytes, bytes, .. } => {
                let more = bytes.saturating_sub(*closed_bytes);
                write!(f, "{more} bytes stand behind the trailer, which ends at {closed_bytes}")
            }
        }
    }
}

/// A frame file open for reading. Reading needs no exclusive access, so many threads can share one.
#[derive(Debug)]
pub struct FileReader<R> {
    reader: R,
    file_bytes: u64,
    header: FileHeader,
    rest: HeaderRest,
    header_problem: Option<FrameError>,
    first_frame: u64,
    index: FrameIndex,
    condition: Condition,
    options: OpenOptions,
    schema: Arc<KnownSchema>,
    ledger: OnceLock<Ledger>,
}

impl<R: ReadAt> FileReader<R> {
    /// Opens a file: by its TOC, or by walking if it has none.
    ///
    /// # Errors
    /// A file that is not a frame file of this major version, or an unreadable header.
    pub fn open(reader: R) -> Result<Self, FrameError> {
        Self::open_with(reader, &OpenOptions::default())
    }

    /// As [`FileReader::open`], with options.
    ///
    /// # Errors
    /// As [`FileReader::open`].
    pub fn open_with(reader: R, options: &OpenOptions) -> Result<Self, FrameError> {
        Self::open_known(reader, options, None)
    }

    /// As [`FileReader::open_with`]; a schema in `known` is not parsed again, any other is added to
    /// it.
    ///
    /// # Errors
    /// As [`FileReader::open`].
    pub fn open_known(
        reader: R,
        options: &OpenOptions,
        known: Option<&KnownSchemas>,
    ) -> Result<Self, FrameError> {
        let file_bytes = reader.bytes().map_err(FrameError::Length)?;
        let closed = Toc::of_file(&reader, file_bytes);
        let mut header_problem = None;
        let header = FileHeader::read(&reader, file_bytes)
            .and_then(|bytes| FileHeader::decode_known(&bytes, known));
        let Decoded { header, rest, schema, first_frame } = match (header, &closed) {
            (Ok(header), _) => header,
            // A damaged header is replaced by the TOC's copy. The trailer has its own version, so a
            // file of a later version does not get here.
            (Err(error), Ok(toc)) => {
                let copy = header_from_toc(&reader, toc)
                    .and_then(|bytes| FileHeader::decode_known(&bytes, known));
                let Ok(copy) = copy else { return Err(error) };
                header_problem = Some(error);
                copy
            }
            (Err(error), _) => return Err(error),
        };
        let closed = closed.and_then(|toc| toc_of_this_file(toc, &header, first_frame));
        let mut file = Self {
            reader,
            file_bytes,
            header,
            rest,
            header_problem,
            first_frame,
            index: FrameIndex::of_tables(Vec::new(), first_frame),
            condition: Condition::Closed,
            options: *options,
            schema,
            ledger: OnceLock::new(),
        };
        match closed {
            Ok(toc) if !options.ignore_toc => {
                file.index = FrameIndex::of_tables(vec![toc], first_frame);
            }
            closed => {
                file.condition = closed.err().map_or(Condition::Closed, Condition::Unclosed);
                file.find_frames();
            }
        }
        Ok(file)
    }

    /// Finds the frames without a TOC: by checkpoints as far as they go, then by walking.
    fn find_frames(&mut self) {
        let by_checkpoints =
            self.header.locator && !self.options.ignore_toc && !self.options.ignore_checkpoints;
        let chain = by_checkpoints.then(|| {
            read_chain(&self.reader, self.header.file_id, self.first_frame, self.file_bytes)
        });
        if let Some((tables, end)) = chain.flatten() {
            self.index = FrameIndex::of_tables(tables, end);
        }
        let walk = self.walker(self.options.search_bytes_max).walk(self.index.end);
        self.index.add_walk(walk);
    }

    fn walker(&self, search_bytes_max: u64) -> Walker<'_, R> {
        let (file_bytes, file_id) = (self.file_bytes, self.header.file_id);
        Walker { reader: &self.reader, file_bytes, file_id, search_bytes_max }
    }

    /// Finds the frames written after the last known one since the file was opened, and whether it
    /// was closed. Returns how many frames were added to [`FileReader::frames`]; the indices of
    /// known ones stay the same. A file without new frames costs one read of 4 KiB.
    ///
    /// A new frame must directly follow the last one: open a file to be followed with a
    /// `search_bytes_max` of 0. If its final TOC lists frames other than the known ones, the TOC's
    /// replace them.
    ///
    /// # Errors
    /// If the file's length cannot be read. A header that is unreadable or incomplete is read again
    /// the next time.
    pub fn refresh(&mut self) -> Result<usize, FrameError> {
        if self.closed() {
            return Ok(0);
        }
        let file_bytes = self.reader.bytes().map_err(FrameError::Length)?;
        let changed = file_bytes != self.file_bytes;
        self.file_bytes = file_bytes;
        let before = self.index.frames.len();
        let mut walk = self.walker(0).follow(self.index.end);
        let checkpoints = std::mem::take(&mut walk.checkpoints);
        self.index.add_walk(walk);
        for offset in checkpoints {
            let (reader, file_id) = (&self.reader, self.header.file_id);
            if let Ok(toc) = read_checkpoint(reader, offset, file_id, file_bytes) {
                self.index.add_checkpoint(toc);
            }
        }
        if (self.index.toc_range.is_some() || changed) && !self.options.ignore_toc {
            self.take_toc();
        }
        Ok(self.index.frames.len().saturating_sub(before))
    }

    /// Replaces the index by the TOC's, if there is a TOC by now.
    fn take_toc(&mut self) {
        let toc = Toc::of_file(&self.reader, self.file_bytes)
            .and_then(|toc| toc_of_this_file(toc, &self.header, self.first_frame));
        match toc {
            Ok(toc) => {
                self.index = FrameIndex::of_tables(vec![toc], self.index.end);
                self.condition = Condition::Closed;
            }
            Err(error) => self.condition = Condition::Unclosed(error),
        }
    }

    /// The file header.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The further contents of the file header.
    pub fn header_rest(&self) -> &HeaderRest {
        &self.rest
    }

    /// Checks that the file and its frames are of that variant of the run. `repair` and `verify`
    /// accept any.
    ///
    /// # Errors
    /// The variant of the file, or of the first frame that has another.
    pub fn check_variant(&self, expected: u32) -> Result<(), FrameError> {
        let of_file = (Part::FileHeader, self.header.variant);
        let of_frame =
            |frame: &FrameSummary| (Part::FrameHeader(frame.offset), frame.info.origin.variant);
        let mut all = std::iter::once(of_file).chain(self.index.frames.iter().map(of_frame));
        // A TOC that an earlier program made has none for its frames: they are the header's.
        let is_other = |(part, variant): &(Part, u32)| {
            *variant != expected && (*variant != 0 || matches!(part, Part::FileHeader))
        };
        match all.find(is_other) {
            Some((part, got)) => Err(FrameError::Variant { part, expected, got }),
            None => Ok(()),
        }
    }

    /// A key of the file header's metadata that this version does not write, so that a header made
    /// from this one would lack it.
    ///
    /// # Errors
    /// If the file header cannot be read any more.
    pub fn header_key_lost(&self) -> Result<Option<String>, FrameError> {
        FileHeader::key_lost(&self.encoded_header()?)
    }

    /// The frames in file order, without the TOC.
    pub fn frames(&self) -> &[FrameSummary] {
        &self.index.frames
    }

    /// The file's length when it was opened.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Whether trailer and TOC are intact.
    pub fn closed(&self) -> bool {
        matches!(self.condition, Condition::Closed)
    }

    /// Whether the file is closed, and if not, why.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Why the file is not closed, if it was closed before: TOC and trailer are written together,
    /// the TOC's header last, so one without the other is damage. Reads the bytes after the
    /// trailer.
    pub fn reopened(&self) -> Option<Reopened> {
        let Condition::Unclosed(_) = self.condition else { return None };
        if let Ok(trailer) = Trailer::read(&self.reader, self.file_bytes) {
            let toc = Toc::of_trailer(&self.reader, &trailer, self.file_bytes)
                .and_then(|toc| toc_of_this_file(toc, &self.header, self.first_frame));
            return toc.err().map(Reopened::Toc);
        }
        let closed_bytes = self.index.toc_range.as_ref()?.end.saturating_add(BLOCK_BYTES);
        match Trailer::read(&self.reader, closed_bytes) {
            Err(error) => Some(Reopened::Trailer(error)),
            Ok(_) => {
                let bytes = self.file_bytes;
                let zeros = is_zero_between(&self.reader, closed_bytes, bytes);
                Some(Reopened::Longer { closed_bytes, bytes, zeros })
            }
        }
    }

    /// The offset and the bytes of the trailer for a TOC found by walking.
    pub(crate) fn trailer_of_toc(&self) -> Option<(u64, Vec<u8>)> {
        let toc = self.index.toc_range.as_ref()?;
        let minor = self.minor_of_toc(toc.start);
        Some((toc.end, trailer(self.header.file_id, toc.start, toc.end - toc.start, minor)))
    }

    /// The minor version for a TOC whose trailer is lost: that of the program that began the file,
    /// which usually also closed it, provided that the TOC has its columns.
    fn minor_of_toc(&self, offset: u64) -> u16 {
        let minor = self.rest.minor.min(VERSION_MINOR);
        let (frame, kind, file_id) = (FrameRef::Toc, FrameKind::Toc, self.header.file_id);
        let locator = TocLocator { frame, kind, offset, file_id };
        let has_positions = || {
            Toc::read(&self.reader, &locator, self.file_bytes).is_ok_and(|toc| toc.has_positions())
        };
        match self.header.schema.has_positions() && !has_positions() {
            true => minor.min(MINOR_WITHOUT_POSITIONS),
            false => minor,
        }
    }

    /// The offset of the next frame of an unclosed file: after the last frame or checkpoint.
    pub fn next_frame_offset(&self) -> u64 {
        self.index.end
    }

    /// The error in the file header, if it had to be read from the TOC's copy.
    pub fn header_problem(&self) -> Option<&FrameError> {
        self.header_problem.as_ref()
    }

    /// How the file was closed, from its TOC; `None` without a TOC.
    pub fn flags(&self) -> Option<TocFlags> {
        self.index.toc().map(|toc| toc.flags)
    }

    /// Ranges without frames that a walk skipped; empty if opened by the TOC, and for the part of a
    /// file that checkpoints list.
    pub fn skipped(&self) -> &[Skipped] {
        &self.index.skipped
    }

    /// The columns of the schema that hold events.
    pub fn event_columns(&self) -> &EventColumns {
        &self.schema.events
    }

    /// The columns of the schema that hold channels.
    pub fn channel_columns(&self) -> &ChannelColumns {
        self.schema.channels()
    }

    /// The range of the TOC's column index in the file: a block of it is read when a column is
    /// first requested.
    pub fn index_bytes(&self) -> Option<Range<u64>> {
        self.index.toc()?.index_bytes()
    }

    /// The TOC's ledger: the total at the file's close. `None` without a TOC.
    ///
    /// # Errors
    /// If that column of the TOC cannot be read.
    pub fn ledger(&self) -> Result<Option<&Ledger>, FrameError> {
        let Some(toc) = self.index.toc() else { return Ok(None) };
        if let Some(ledger) = self.ledger.get() {
            return Ok(Some(ledger));
        }
        let names = &self.header.ledger_entries;
        let ledger = toc.ledger(&self.reader, names, self.header.schema.sources.len())?;
        Ok(Some(self.ledger.get_or_init(|| ledger)))
    }

    /// The sum of what its frames count ([`crate::frame_ledger`]), from the TOC; `None` if that does
    /// not have it.
    ///
    /// # Errors
    /// If that column of the TOC cannot be read.
    pub fn frames_ledger(&self) -> Result<Option<Ledger>, FrameError> {
        let Some(toc) = self.index.toc() else { return Ok(None) };
        let names = &self.header.ledger_entries;
        toc.frames_ledger(&self.reader, names, self.header.schema.sources.len())
    }

    /// For a file opened by checkpoints: how many frames they list, and the ledger's total in the
    /// newest one.
    ///
    /// # Errors
    /// If that column of the checkpoint cannot be read.
    pub fn ledger_at_checkpoint(&self) -> Result<Option<(usize, Ledger)>, FrameError> {
        let Some(toc) = self.index.newest_checkpoint() else { return Ok(None) };
        let names = &self.header.ledger_entries;
        let ledger = toc.ledger(&self.reader, names, self.header.schema.sources.len())?;
        Ok(Some((self.index.listed_count(), ledger)))
    }

    /// The directory of a frame, from the frame itself; if its header is damaged, the TOC's entries
    /// for the schema's columns.
    ///
    /// # Errors
    /// If neither can be read.
    pub fn columns(&self, frame: usize) -> Result<Vec<ColumnEntry>, FrameError> {
        let error = match self.directory(frame) {
            Ok(entries) => return Ok(entries),
            Err(error) => error,
        };
        if frame >= self.index.listed_count() {
            return Err(error);
        }
        let mut entries = Vec::new();
        for info in &self.header.schema.columns {
            let Ok(entry) = self.listed(frame, info.id) else { return Err(error) };
            entries.extend(entry);
        }
        Ok(entries)
    }

    /// A column's entry in a frame; `None` if the frame does not have it.
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

    /// Reads a column: `out` becomes its raw bytes. Memory for them is allocated only if the stored
    /// bytes can be in the file and can expand to that many.
    ///
    /// # Errors
    /// Any error, with frame and column: offset, codec, sizes, checksum, contents.
    pub fn read_column(
        &self,
        frame: usize,
        entry: &ColumnEntry,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        self.stored_column(frame, entry)?.read(out)
    }

    /// A column in stored form, for readers that plan their own reads.
    ///
    /// # Errors
    /// If the frame does not exist.
    pub fn stored_column<'a>(
        &'a self,
        frame: usize,
        entry: &'a ColumnEntry,
    ) -> Result<StoredColumn<'a, R>, FrameError> {
        let (summary, schema) = (self.summary(frame)?, Some(&*self.schema));
        let (reader, frame) = (&self.reader, FrameRef::Index(frame));
        Ok(StoredColumn { reader, frame, summary, entry, schema })
    }

    /// Finds and reads a column. Returns false, with `out` empty, if the frame does not have it.
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

    /// The gaps in a frame's channels.
    ///
    /// # Errors
    /// If the column of spans cannot be read.
    pub fn spans(&self, frame: usize) -> Result<Spans, FrameError> {
        let mut bytes = Vec::new();
        let Some(column) = self.channel_columns().spans else { return Ok(Spans::default()) };
        if !self.read(frame, column, &mut bytes)? {
            return Ok(Spans::default());
        }
        decode_spans(&bytes)
            .map_err(|problem| FrameError::column(FrameRef::Index(frame), column, problem))
    }

    /// The positions of sources that a frame states.
    ///
    /// # Errors
    /// If the column of positions cannot be read.
    pub fn positions(&self, frame: usize) -> Result<Vec<Position>, FrameError> {
        let mut bytes = Vec::new();
        let column = self.header.schema.column(None, &ColumnKind::SourcePositions);
        let Some(column) = column else { return Ok(Vec::new()) };
        self.read(frame, column, &mut bytes)?;
        decode_positions(&bytes)
            .map_err(|problem| FrameError::column(FrameRef::Index(frame), column, problem))
    }

    /// The newest positions of the run's sources, from the TOC or the newest checkpoint, and how
    /// many frames these list. `None` if they do not have them: frames may.
    ///
    /// # Errors
    /// If that column cannot be read.
    pub fn listed_positions(&self) -> Result<Option<(usize, Vec<Position>)>, FrameError> {
        let Some(toc) = self.index.toc().or(self.index.newest_checkpoint()) else {
            return Ok(None);
        };
        let positions = toc.positions(&self.reader)?;
        Ok(positions.map(|positions| (self.index.listed_count(), positions)))
    }

    /// The TOC, or the checkpoints by which the file was opened, and the reader for them.
    pub(crate) fn tables(&self) -> (impl Iterator<Item = &Toc>, &R) {
        (self.index.tables(), &self.reader)
    }

    /// Whether the TOC's flag of bad data contradicts its total. Programs before version 1.3 did
    /// not set it.
    pub(crate) fn verify_data_bad(&self) -> Option<FrameError> {
        let toc = self.index.toc()?;
        let (flag, total) = (toc.flags.data_bad, self.ledger().ok().flatten()?.bad_data() > 0);
        let trailer = Trailer::read(&self.reader, self.file_bytes).ok();
        let is_set = trailer.is_some_and(|trailer| trailer.minor >= DATA_BAD_MINOR);
        let (field, part) = ("data_bad", Part::FrameHeader(toc.offset()));
        let expected = "what the total of the ledger says";
        let wrong = flag != total && (flag || is_set);
        wrong.then_some(FrameError::Field { part, field, expected, got: u64::from(flag) })
    }

    pub(crate) fn into_frames_and_skipped(self) -> (Vec<FrameSummary>, Vec<Skipped>) {
        (self.index.frames, self.index.skipped)
    }

    /// The file header's bytes without padding.
    pub(crate) fn encoded_header(&self) -> Result<Vec<u8>, FrameError> {
        if self.header_problem.is_none() {
            return FileHeader::read(&self.reader, self.file_bytes);
        }
        header_from_toc(&self.reader, &Toc::of_file(&self.reader, self.file_bytes)?)
    }

    /// The file header's bytes up to the first frame.
    pub(crate) fn padded_header(&self) -> Result<Vec<u8>, FrameError> {
        let mut bytes = self.encoded_header()?;
        bytes.resize(self.first_frame as usize, 0);
        Ok(bytes)
    }

    /// The offset of the first frame.
    pub fn first_frame_offset(&self) -> u64 {
        self.first_frame
    }

    pub(crate) fn summary(&self, frame: usize) -> Result<&FrameSummary, FrameError> {
        let frames = self.index.frames.len();
        self.index.frames.get(frame).ok_or(FrameError::NoFrame { index: frame, frames })
    }

    /// A column's entries in all frames that have it, each with the index of its frame, rising,
    /// from the TOC, the checkpoints or the walk.
    ///
    /// # Errors
    /// If a list cannot be read. The frames' own headers may still have the entries:
    /// [`FileReader::find`].
    pub fn column_entries(&self, column: u32) -> Result<Arc<[FrameEntry]>, FrameError> {
        self.index.entries(&self.reader, column, self.schema.has_column(column))
    }

    /// A column's entry in a frame, from a table or the walk.
    fn listed(&self, frame: usize, column: u32) -> Result<Option<ColumnEntry>, FrameError> {
        // Only lists of the schema's columns are cached, so requests cannot fill the memory.
        self.index.find(&self.reader, frame, column, self.schema.has_column(column))
    }

    /// Whether the schema has the entry's column, with its type and shape.
    pub(crate) fn is_described(&self, entry: &ColumnEntry) -> bool {
        self.schema.has_column(entry.id) && self.schema.check_rows(entry).is_ok()
    }

    /// A frame's directory, read from the frame's own header.
    pub(crate) fn directory(&self, frame: usize) -> Result<Vec<ColumnEntry>, FrameError> {
        self.summary_and_directory(frame).map(|(_, entries)| entries)
    }

    /// A frame's directory, and an error if the variant in the frame's own header differs from the
    /// file's, as it must not. The frame can still be read.
    pub(crate) fn checked_directory(
        &self,
        frame: usize,
    ) -> Result<(Vec<ColumnEntry>, Option<FrameError>), FrameError> {
        let (summary, entries) = self.summary_and_directory(frame)?;
        let (part, got) = (Part::FrameHeader(summary.offset), summary.info.origin.variant.into());
        let (field, expected) = ("variant", "the file header's");
        let wrong = FrameError::Field { part, field, expected, got };
        Ok((entries, (got != u64::from(self.header.variant)).then_some(wrong)))
    }

    /// The contents of a frame's own header.
    fn summary_and_directory(
        &self,
        frame: usize,
    ) -> Result<(FrameSummary, Vec<ColumnEntry>), FrameError> {
        let summary = self.summary(frame)?;
        let (head, header) = read_frame_header(&self.reader, summary.offset, self.file_bytes)?;
        let mut listed = *summary;
        if listed.info.origin.variant == 0 {
            // A TOC made by `repair` before version 1.3 has no variants.
            listed.info.origin.variant = head.summary.info.origin.variant;
        }
        if head.summary != listed {
            let (part, expected) = (Part::FrameHeader(summary.offset), "what the TOC says");
            let got = u64::from(head.summary.header_crc32c);
            return Err(FrameError::Field { part, field: "header_crc32c", expected, got });
        }
        Ok((head.summary, head.entries(&header).collect()))
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

/// The minor version from which on a TOC states whether data are bad.
const DATA_BAD_MINOR: u16 = 3;
