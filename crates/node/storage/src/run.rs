//! A recorded run: its files as one sequence of frames, and their columns as they are asked for.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_frame::{
    Codec, ColumnEntry, ColumnKind, Dtype, FileHeader, FrameKind, FrameSummary, SourceColumns,
    SourceInfo, TocFlags,
};
use catchment_model::limits::COLUMN_BYTES_MAX;
use catchment_model::{Entry, Ledger, SourceId};

use crate::cache::{Cache, Cached};
use crate::channels;
use crate::column::{FragmentColumn, FrameEvents, Validity};
use crate::error::StorageError;
use crate::growth;
use crate::open::{self, FileProblem, RunFile};
use crate::trend::Trends;
use crate::verify::holes;

/// A recorded run, open for reading: one file, or all files of a folder.
///
/// Files are read as they are: also a run whose recorder was killed, or is still at work. Nothing
/// is read before it is asked for, and then only the columns that are needed; the checksum of each
/// one that is read whole is checked, and that of one stored raw, of which a part is read, is not:
/// [`verify`](crate::verify()) checks all. Decoded columns are kept, within a bound in bytes. Any
/// number of threads can read at once.
pub struct Run {
    path: PathBuf,
    files: Vec<RunFile>,
    problems: Vec<FileProblem>,
    frames: Vec<Frame>,
    channel_frames: Vec<Frame>,
    /// Whether these follow each other in time.
    channels_ordered: bool,
    /// Whether the frames' key ranges rise and do not overlap, as a recorder writes them.
    ordered: bool,
    cache: Cache<(usize, Piece), Kept>,
    cache_bytes_max: usize,
    bytes_read: Arc<AtomicU64>,
    trends: Trends,
}

/// A frame that holds events, or channels.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Which of the run's files it is in: an index into [`Run::files`].
    pub file: usize,
    /// Its index among that file's frames.
    pub index: usize,
    /// Events in the frames before it; 0 for frames of channels.
    pub first_row: u64,
    /// What its header says: offset, ranges of key and time, rows.
    pub summary: FrameSummary,
}

/// One file of a run.
#[derive(Clone, Debug)]
pub struct FileInfo<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// What it says of itself.
    pub header: &'a FileHeader,
    /// Its length when it was opened.
    pub bytes: u64,
    /// Its frames, of any kind but the TOC.
    pub frames: usize,
    /// Whether its TOC and trailer are in order.
    pub closed: bool,
    /// What the TOC says of its closing.
    pub flags: Option<TocFlags>,
    /// Whether it was being written when it was opened.
    pub locked: bool,
}

/// How many events there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EventCounts {
    /// All that were recorded.
    pub events: u64,
    /// Those that lack a source that was required.
    pub incomplete: u64,
}

impl Run {
    /// Opens a file or a run's folder.
    ///
    /// # Errors
    /// Nothing there that can be read, or files that do not belong together.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StorageError> {
        Self::open_with_cache(path, CACHE_BYTES_DEFAULT)
    }

    /// As [`Run::open`], with another bound for the decoded columns that are kept.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn open_with_cache(
        path: impl AsRef<Path>,
        cache_bytes_max: usize,
    ) -> Result<Self, StorageError> {
        let path = path.as_ref().to_owned();
        let bytes_read = Arc::default();
        let (mut files, problems) = open::files(&path, &bytes_read)?;
        let (frames, channel_frames, ordered) = growth::frames_of(&mut files);
        let channels_ordered = channels::ordered(&channel_frames);
        let cache = Cache::new(cache_bytes_max);
        Ok(Self {
            path,
            files,
            problems,
            frames,
            channel_frames,
            channels_ordered,
            ordered,
            cache,
            cache_bytes_max,
            bytes_read,
            trends: Trends::default(),
        })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes read from the run's files so far, what opening it took included. What the system read
    /// ahead does not count.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }

    /// The header of the run's first file: identity, configuration, schema.
    pub fn header(&self) -> &FileHeader {
        self.files[0].header()
    }

    /// The configuration as it was run: TOML.
    pub fn config(&self) -> &str {
        &self.header().config
    }

    /// The sources; a source's number is its index.
    pub fn sources(&self) -> &[SourceInfo] {
        &self.header().schema.sources
    }

    /// The number of the source of that name.
    pub fn source(&self, name: &str) -> Option<SourceId> {
        let index = self.sources().iter().position(|source| source.name == name)?;
        Some(SourceId(index as u32))
    }

    /// The files that are there, by rising index.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileInfo<'_>> {
        self.files.iter().map(|file| FileInfo {
            path: &file.path,
            header: file.header(),
            bytes: file.reader.file_bytes(),
            frames: file.reader.frames().len(),
            closed: file.reader.closed(),
            flags: file.reader.flags(),
            locked: file.locked,
        })
    }

    /// What is not in order about the files: missing, unreadable, never begun.
    pub fn problems(&self) -> &[FileProblem] {
        &self.problems
    }

    /// Whether data of it were lost: its recorder says so, or something of it is damaged or
    /// missing.
    pub fn lost_data(&self) -> bool {
        let flags = self.files().last().and_then(|file| file.flags);
        flags.is_some_and(|flags| flags.data_lost) || !self.damage().is_empty()
    }

    /// What is damaged, as far as opening tells: files that are missing or cannot be read, and
    /// positions where frames should be. That columns are intact takes [`verify`](crate::verify()).
    pub fn damage(&self) -> Vec<String> {
        let files = self.problems.iter().filter(|problem| problem.is_damage());
        files.map(ToString::to_string).chain(self.holes()).collect()
    }

    /// Positions in the files where frames should be and cannot be recognized.
    pub fn holes(&self) -> impl Iterator<Item = String> {
        let named = |file| holes(file).map(|hole| format!("{}: {hole}", file.path.display()));
        self.files.iter().flat_map(named)
    }

    /// Whether every file has its TOC and trailer. A run that is being recorded is not closed.
    pub fn closed(&self) -> bool {
        self.files.iter().all(|file| file.reader.closed())
    }

    /// Whether a recorder was at work on the run when it was opened: it locks the files it writes.
    pub fn being_recorded(&self) -> bool {
        let ahead =
            |problem: &FileProblem| matches!(problem, FileProblem::Blank { locked: true, .. });
        self.files.iter().any(|file| file.locked) || self.problems.iter().any(ahead)
    }

    /// Whether the run was ended in order: its last file says so.
    pub fn ended(&self) -> bool {
        self.last().reader.flags().is_some_and(|flags| flags.run_ended)
    }

    /// The ledger's total as the last file's TOC says it; `None` if that file is not closed, or
    /// counts itself alone. [`crate::recompute`] gives it in any case.
    ///
    /// A TOC is written before the sync that makes its file durable, and cannot count what that
    /// sync covers. Where the run was ended in order and every file is closed, `fragments_durable`
    /// is therefore `fragments_recorded`, as in [`crate::recompute`].
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn recorded_ledger(&self) -> Result<Option<Ledger>, StorageError> {
        let last = self.last();
        if last.reader.flags().is_none_or(|flags| flags.ledger_of_file) {
            return Ok(None);
        }
        let mut ledger = last.reader.ledger().map_err(|error| last.error(error))?.cloned();
        if let Some(ledger) = ledger.as_mut().filter(|_| self.ended() && self.closed()) {
            what_is_read_is_durable(ledger);
        }
        Ok(ledger)
    }

    /// The frames that hold events, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frames that hold channels, in order.
    pub fn channel_frames(&self) -> &[Frame] {
        &self.channel_frames
    }

    /// How many events there are. Reads nothing.
    pub fn event_count(&self) -> u64 {
        let end = |last: &Frame| last.first_row.saturating_add(last.summary.info.rows);
        self.frames.last().map_or(0, end)
    }

    /// Counts complete and incomplete events. Reads the flags of every frame.
    ///
    /// # Errors
    /// A column that cannot be read.
    pub fn event_counts(&self) -> Result<EventCounts, StorageError> {
        let mut counts = EventCounts::default();
        for frame in 0..self.frames.len() {
            let events = self.events(frame)?;
            counts.events += events.len() as u64;
            counts.incomplete += events.incomplete();
        }
        Ok(counts)
    }

    /// The events of a frame.
    ///
    /// # Errors
    /// No such frame, or a column that cannot be read.
    pub fn events(&self, frame: usize) -> Result<Arc<FrameEvents>, StorageError> {
        let key = (frame, Piece::Events);
        match self.cache.get_or_make(key, || self.read_events(frame).map(Kept::Events))? {
            Kept::Events(events) => Ok(events),
            _ => unreachable!("a piece is kept under its own key"),
        }
    }

    /// Which rows of a frame have a source's fragment.
    ///
    /// # Errors
    /// No such frame or source, or a column that cannot be read.
    pub fn validity(&self, frame: usize, source: SourceId) -> Result<Arc<Validity>, StorageError> {
        let key = (frame, Piece::Validity(source.0));
        let make = || self.read_validity(frame, source).map(Kept::Validity);
        match self.cache.get_or_make(key, make)? {
            Kept::Validity(validity) => Ok(validity),
            _ => unreachable!("a piece is kept under its own key"),
        }
    }

    /// What a source put into a frame.
    ///
    /// # Errors
    /// No such frame or source, or a column that cannot be read.
    pub fn fragments(
        &self,
        frame: usize,
        source: SourceId,
    ) -> Result<Arc<FragmentColumn>, StorageError> {
        let key = (frame, Piece::Fragments(source.0));
        let make = || self.read_fragments(frame, source).map(Kept::Fragments);
        match self.cache.get_or_make(key, make)? {
            Kept::Fragments(fragments) => Ok(fragments),
            _ => unreachable!("a piece is kept under its own key"),
        }
    }

    /// Frame and row of the event with that key; the first, should there be several.
    ///
    /// # Errors
    /// A column of keys that cannot be read.
    pub fn find(&self, key: u64) -> Result<Option<(usize, usize)>, StorageError> {
        for frame in self.frames_between(key, key) {
            if let Some(row) = self.events(frame)?.row_of(key) {
                return Ok(Some((frame, row)));
            }
        }
        Ok(None)
    }

    /// The required sources whose fragments are missing in a row of a frame.
    ///
    /// # Errors
    /// No such frame, or a column that cannot be read.
    ///
    /// # Panics
    /// If the frame has no such row.
    pub fn missing(&self, frame: usize, row: usize) -> Result<Vec<SourceId>, StorageError> {
        let rows = self.frame(frame)?.summary.info.rows;
        assert!((row as u64) < rows, "row {row} of a frame with {rows}");
        let mut missing = Vec::new();
        for source in self.sources().iter().filter(|source| source.required) {
            let id = SourceId(source.id);
            if !self.validity(frame, id)?.is_set(row) {
                missing.push(id);
            }
        }
        Ok(missing)
    }

    /// A channel's decoded column if it is in memory: its frame is an index into
    /// [`Run::channel_frames`].
    pub(crate) fn kept_samples(&self, frame: usize, column: u32) -> Option<Arc<Vec<u8>>> {
        match self.cache.get((frame, Piece::Samples(column)))? {
            Kept::Samples(samples) => Some(samples),
            _ => unreachable!("a piece is kept under its own key"),
        }
    }

    /// Whether a channel's column is to be kept once it is decoded.
    pub(crate) fn samples_asked_again(&self, frame: usize, entry: &ColumnEntry) -> bool {
        self.cache.is_asked_again((frame, Piece::Samples(entry.id)), entry.raw_bytes as usize)
    }

    /// Keeps a channel's decoded column for those who ask again.
    pub(crate) fn keep_samples(&self, frame: usize, column: u32, samples: Vec<u8>) {
        self.cache.keep((frame, Piece::Samples(column)), Kept::Samples(Arc::new(samples)));
    }

    pub(crate) fn run_files(&self) -> &[RunFile] {
        &self.files
    }

    pub(crate) fn bytes_read_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_read)
    }

    /// Counts bytes that were read past [`crate::counted`].
    pub(crate) fn count_read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn channels_ordered(&self) -> bool {
        self.channels_ordered
    }

    pub(crate) fn trends(&self) -> &Trends {
        &self.trends
    }

    /// The files, and what is not in order about them, to be changed by a refresh.
    pub(crate) fn files_mut(&mut self) -> (&mut Vec<RunFile>, &mut Vec<FileProblem>) {
        (&mut self.files, &mut self.problems)
    }

    /// Takes up what the files have now.
    pub(crate) fn take_up(&mut self) {
        let (frames, channel_frames, ordered) = growth::frames_of(&mut self.files);
        let position = |frame: &Frame| (frame.file, frame.index);
        let goes_on = |before: &[Frame], now: &[Frame]| {
            now.iter().map(position).take(before.len()).eq(before.iter().map(position))
        };
        if !(goes_on(&self.frames, &frames) && goes_on(&self.channel_frames, &channel_frames)) {
            // What is kept is kept by the frame's index.
            self.cache = Cache::new(self.cache_bytes_max);
        }
        self.channels_ordered = channels::ordered(&channel_frames);
        (self.frames, self.channel_frames, self.ordered) = (frames, channel_frames, ordered);
    }

    pub(crate) fn first_file(&self) -> &RunFile {
        &self.files[0]
    }

    fn last(&self) -> &RunFile {
        self.files.last().expect("a run has a file")
    }

    fn frame(&self, index: usize) -> Result<&Frame, StorageError> {
        let count = self.frames.len();
        self.frames.get(index).ok_or(StorageError::NoFrame { index, count })
    }

    /// The frames whose key ranges meet that one.
    pub(crate) fn frames_between(
        &self,
        first: u64,
        last: u64,
    ) -> impl Iterator<Item = usize> + use<'_> {
        let info = |index: usize| &self.frames[index].summary.info;
        let candidates: Range<usize> = if self.ordered {
            let start = self.frames.partition_point(|f| f.summary.info.key_last < first);
            let end = self.frames.partition_point(|f| f.summary.info.key_first <= last);
            start..end
        } else {
            0..self.frames.len()
        };
        candidates.filter(move |&i| info(i).key_first <= last && first <= info(i).key_last)
    }

    fn read_events(&self, frame: usize) -> Result<Arc<FrameEvents>, StorageError> {
        let place = *self.frame(frame)?;
        let columns = self.files[place.file].reader.event_columns();
        let keys = self.read_present(&place, columns.key, &ColumnKind::EventKey)?;
        let times = self.read_present(&place, columns.time, &ColumnKind::EventTime)?;
        let flags = self.read_present(&place, columns.flags, &ColumnKind::EventFlags)?;
        let flags = numbers(&flags, u32::from_le_bytes);
        let events = FrameEvents::new(
            numbers(&keys, u64::from_le_bytes),
            numbers(&times, u64::from_le_bytes),
            flags,
        );
        Ok(Arc::new(events))
    }

    fn read_validity(&self, frame: usize, source: SourceId) -> Result<Arc<Validity>, StorageError> {
        let place = *self.frame(frame)?;
        let columns = self.source_columns(&place, source)?;
        let lengths = self.entry(&place, columns.lengths)?;
        let validity = self.entry(&place, columns.validity)?;
        Ok(Arc::new(match (lengths, validity) {
            (None, None) => Validity::None,
            (Some(_), None) => Validity::All,
            (None, Some(_)) => {
                let problem = "there is validity, but no lengths";
                return Err(self.content(&place, columns.validity, problem));
            }
            (Some(_), Some(entry)) => {
                let mut bits = self.read_rows(&place, &entry, Dtype::Bits)?;
                let spare = (place.summary.info.rows % 8) as u32;
                if let Some(last) = bits.last_mut().filter(|_| spare > 0) {
                    // Whatever stands there: readers ignore padding.
                    *last &= (1u8 << spare) - 1;
                }
                Validity::Bits(bits)
            }
        }))
    }

    fn read_fragments(
        &self,
        frame: usize,
        source: SourceId,
    ) -> Result<Arc<FragmentColumn>, StorageError> {
        let place = *self.frame(frame)?;
        let columns = self.source_columns(&place, source)?;
        let events = self.events(frame)?;
        let validity = self.validity(frame, source)?;
        let lengths = match self.entry(&place, columns.lengths)? {
            Some(entry) => {
                numbers(&self.read_rows(&place, &entry, Dtype::U32)?, u32::from_le_bytes)
            }
            None => Vec::new(),
        };
        let payload = match self.entry(&place, columns.payload)? {
            Some(entry) => self.read_column(&place, &entry)?,
            None => Vec::new(),
        };
        FragmentColumn::new(events, &lengths, validity, payload)
            .map(Arc::new)
            .map_err(|problem| self.content(&place, columns.payload, problem))
    }

    fn source_columns(
        &self,
        place: &Frame,
        source: SourceId,
    ) -> Result<SourceColumns, StorageError> {
        let sources = &self.files[place.file].reader.event_columns().sources;
        let none = StorageError::NoSource { id: source.0, count: sources.len() };
        sources.get(source.index()).copied().ok_or(none)
    }

    fn entry(&self, place: &Frame, id: Option<u32>) -> Result<Option<ColumnEntry>, StorageError> {
        let Some(id) = id else { return Ok(None) };
        let file = &self.files[place.file];
        file.reader.find(place.index, id).map_err(|error| file.error(error))
    }

    /// A column that every frame with events has.
    fn read_present(
        &self,
        place: &Frame,
        id: Option<u32>,
        kind: &ColumnKind,
    ) -> Result<Vec<u8>, StorageError> {
        let dtype = if *kind == ColumnKind::EventFlags { Dtype::U32 } else { Dtype::U64 };
        match self.entry(place, id)? {
            Some(entry) => self.read_rows(place, &entry, dtype),
            None => Err(StorageError::Column {
                path: self.files[place.file].path.clone(),
                frame: place.index,
                kind: kind.name().to_owned(),
                source_name: None,
                channel: None,
                problem: "the frame does not have it".to_owned(),
            }),
        }
    }

    /// A column with one element of that type per event.
    fn read_rows(
        &self,
        place: &Frame,
        entry: &ColumnEntry,
        dtype: Dtype,
    ) -> Result<Vec<u8>, StorageError> {
        let rows = place.summary.info.rows;
        if entry.rows != rows || dtype.bytes_of(rows) != Some(entry.raw_bytes) {
            let problem = "it does not have one element for each event of the frame";
            return Err(self.content(place, Some(entry.id), problem));
        }
        self.read_column(place, entry)
    }

    fn read_column(&self, place: &Frame, entry: &ColumnEntry) -> Result<Vec<u8>, StorageError> {
        let file = &self.files[place.file];
        let mut raw = zeroed_for(place, entry);
        file.reader.read_column(place.index, entry, &mut raw).map_err(|error| file.error(error))?;
        // The reader put the encoded bytes behind the decoded ones.
        raw.shrink_to_fit();
        Ok(raw)
    }

    fn content(&self, place: &Frame, column: Option<u32>, problem: &str) -> StorageError {
        let file = &self.files[place.file];
        let names = file.names(column.unwrap_or(u32::MAX));
        StorageError::Column {
            path: file.path.clone(),
            frame: place.index,
            kind: names.kind,
            source_name: names.source,
            channel: names.channel,
            problem: problem.to_owned(),
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("path", &self.path)
            .field("files", &self.files.len())
            .field("frames", &self.frames.len())
            .finish_non_exhaustive()
    }
}

/// What can be read back from closed files is on the disk.
pub(crate) fn what_is_read_is_durable(ledger: &mut Ledger) {
    for source in &mut ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
}

pub(crate) fn event_frames(files: &[RunFile]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut first_row = 0u64;
    for (file, run_file) in files.iter().enumerate() {
        for (index, summary) in run_file.frames() {
            // A frame without rows carries increments of the ledger alone.
            if summary.info.kind == FrameKind::Events && summary.info.rows > 0 {
                frames.push(Frame { file, index, first_row, summary: *summary });
                first_row = first_row.saturating_add(summary.info.rows);
            }
        }
    }
    frames
}

/// Memory for a column, if what its entry says can be true. Asking for zeros gets pages that the
/// system zeroes when they are first touched, so that nothing is written twice.
fn zeroed_for(place: &Frame, entry: &ColumnEntry) -> Vec<u8> {
    let stored = entry.stored_bytes;
    let plausible = stored <= place.summary.frame_bytes
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

/// Part of a frame of events, or of one of channels, that is decoded alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Piece {
    Events,
    Validity(u32),
    Fragments(u32),
    Samples(u32),
}

#[derive(Clone)]
enum Kept {
    Events(Arc<FrameEvents>),
    Validity(Arc<Validity>),
    Fragments(Arc<FragmentColumn>),
    Samples(Arc<Vec<u8>>),
}

impl Cached for Kept {
    fn bytes(&self) -> usize {
        let bytes = match self {
            Self::Events(events) => events.bytes(),
            Self::Validity(validity) => validity.bytes(),
            Self::Fragments(fragments) => fragments.bytes(),
            Self::Samples(samples) => samples.len(),
        };
        bytes + KEPT_OVERHEAD_BYTES
    }
}

/// Decoded columns that are kept: two frames of the default size, and their lengths.
const CACHE_BYTES_DEFAULT: usize = 96 * 1024 * 1024;
/// What an item takes beside its bytes, so that items without bytes are bounded too.
const KEPT_OVERHEAD_BYTES: usize = 256;

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Run>();
};
