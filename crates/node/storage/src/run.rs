//! A recorded run: its files as one sequence of frames, whose columns are read on request.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_frame::{
    ChannelInfo, ColumnProblem, FileHeader, FrameError, FrameInfo, FrameRef, FrameSummary,
    Numbering, SourceInfo, TocFlags, sequences_missing,
};
use catchment_model::{Ledger, SourceId};

use crate::audit::what_is_read_is_durable;
use crate::base::Base;
use crate::cache::ColumnCache;
use crate::channels::{Channel, Segment, Select};
use crate::checked::CheckedColumns;
use crate::column::{FragmentColumn, FragmentRows, FrameEvents, Validity};
use crate::copies::{Copies, DamagedCopy};
use crate::error::StorageError;
use crate::event_reader::{EventReader, SelectEvents};
use crate::fetch;
use crate::folders::{self, LedgerKind};
use crate::frame_index::FrameIndex;
use crate::open::{FileProblem, RunFile};
use crate::parallel;
use crate::run_files::{Refreshed, RunFiles};
use crate::trend::{Trend, TrendKind, Trends};
use crate::verify::holes;

/// A recorded run, open for reading: one file, all files of a folder, or those of several folders
/// of one run ([`Run::open_folders`]).
///
/// Files are read in any state, including those of a run whose recorder was killed, or is still
/// working. Nothing is read before it is requested, and then only the necessary columns. All data
/// are checked: a column as a whole or, if a part of a raw one is read, the blocks with that part,
/// or once the whole column if it has no checksums by block ([`RunOptions`]). Decoded columns are
/// cached, within a bound in bytes. Any number of threads can read at once.
pub struct Run {
    files: RunFiles,
    index: FrameIndex,
    cache: ColumnCache,
    checked: CheckedColumns,
    trends: Trends,
    base: Base,
}

/// How to open a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// The bound for the cache of decoded columns, in bytes.
    pub cache_bytes_max: usize,
    /// Whether a raw column without checksums by block is checked as a whole before a part of it is
    /// first returned. Files before version 1.3 have none, and later ones need not: with this off,
    /// ranges of such columns are returned unchecked, and only the range is read. Columns of at
    /// most 64 KiB, those with a table, and whole columns are always checked.
    pub check_columns: bool,
    /// Where the run with the payload is, if the files name one and it is not where they say.
    pub base: Option<PathBuf>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { cache_bytes_max: CACHE_BYTES_DEFAULT, check_columns: true, base: None }
    }
}

/// A frame of events or channels.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Its file: an index into [`Run::files`].
    pub file: usize,
    /// Its index among that file's frames.
    pub index: usize,
    /// Events in the frames before it; 0 for frames of channels.
    pub first_row: u64,
    /// The contents of its header: offset, ranges of key and time, rows.
    pub summary: FrameSummary,
}

/// One file of a run.
#[derive(Clone, Debug)]
pub struct FileInfo<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Its folder: an index into [`Run::paths`].
    pub folder: usize,
    /// Its header.
    pub header: &'a FileHeader,
    /// Its length when it was opened.
    pub bytes: u64,
    /// Its frames, of any kind except the TOC.
    pub frames: usize,
    /// Whether its TOC and trailer are intact.
    pub closed: bool,
    /// How it was closed, from the TOC.
    pub flags: Option<TocFlags>,
    /// Whether it was being written when it was opened.
    pub locked: bool,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EventCounts {
    /// All recorded events.
    pub events: u64,
    /// Events that lack a required source.
    pub incomplete: u64,
}

impl Run {
    /// Opens a file or a run's folder.
    ///
    /// # Errors
    /// No readable file there, or files that do not belong together.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StorageError> {
        Self::open_with(path, RunOptions::default())
    }

    /// As [`Run::open`], with another bound for the cache of decoded columns, in bytes.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn open_with_cache(
        path: impl AsRef<Path>,
        cache_bytes_max: usize,
    ) -> Result<Self, StorageError> {
        Self::open_with(path, RunOptions { cache_bytes_max, ..RunOptions::default() })
    }

    /// As [`Run::open`], with options.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn open_with(path: impl AsRef<Path>, options: RunOptions) -> Result<Self, StorageError> {
        Self::open_folders(&[path], options)
    }

    /// Opens several folders of one run as one: those of its targets, or copies. What is said here
    /// of a folder holds of all those of a target that has several, together. Each frame is there
    /// once, read from the first folder, in the given order, whose index has it; where a power cut
    /// may have taken a part of it, since its writer did not close the file or its target has the
    /// frame twice, from the first that has it whole. If a column of another frame is damaged,
    /// reading it is an error that names the file: another folder's is read if that folder is given
    /// first.
    ///
    /// The ledger, and whether the run has ended, are of one folder ([`Run::ledger_path`]); frames
    /// that it lacks and another has are counted as recorded. [`Run::files`], [`Run::closed`] and
    /// [`Run::damage`] are of all folders; [`Run::frames_missing`] counts numbers that are in none.
    /// Trends are those of the first folder that has any.
    ///
    /// # Errors
    /// As [`Run::open`], for each folder; folders of different runs, or with different schemas.
    ///
    /// # Panics
    /// Without a path.
    pub fn open_folders(
        paths: &[impl AsRef<Path>],
        options: RunOptions,
    ) -> Result<Self, StorageError> {
        assert!(!paths.is_empty(), "a run is in a folder");
        let paths: Vec<_> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let trends = Trends::of_first(&paths);
        let mut files = RunFiles::open(paths)?;
        let index = FrameIndex::of(&mut files.files);
        let cache = ColumnCache::new(options.cache_bytes_max);
        let checked = CheckedColumns::new(options.check_columns);
        let base = Base::of(&files.files, &options);
        Ok(Self { files, index, cache, checked, trends, base })
    }

    /// The path that was opened; of several folders, the first.
    pub fn path(&self) -> &Path {
        &self.files.paths[0]
    }

    /// The paths that were opened, in their order; at least one.
    pub fn paths(&self) -> &[PathBuf] {
        &self.files.paths
    }

    /// The path of the folder whose ledger is the run's: of several folders, that with the most
    /// rows; the first such one where several nodes recorded the run, whose ledgers are added.
    pub fn ledger_path(&self) -> &Path {
        self.files.of_ledger().0
    }

    /// Bytes read from the run's files so far, including those for opening it. The system's
    /// read-ahead does not count.
    pub fn bytes_read(&self) -> u64 {
        self.files.bytes_read.load(Relaxed)
    }

    /// The header of the run's first file: identity, configuration, schema.
    pub fn header(&self) -> &FileHeader {
        self.files.files[0].header()
    }

    /// The configuration of the run: TOML.
    pub fn config(&self) -> &str {
        &self.header().config
    }

    /// The sources; a source's number is its index.
    pub fn sources(&self) -> &[SourceInfo] {
        &self.header().schema.sources
    }

    /// The number of the source with that name.
    pub fn source(&self, name: &str) -> Option<SourceId> {
        let index = self.sources().iter().position(|source| source.name == name)?;
        Some(SourceId(index as u32))
    }

    /// The existing files, by rising index; of several folders, one folder after the other.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileInfo<'_>> {
        self.run_files().iter().map(|file| FileInfo {
            path: &file.path,
            folder: file.folder,
            header: file.header(),
            bytes: file.reader.file_bytes(),
            frames: file.reader.frames().len(),
            closed: file.reader.closed(),
            flags: file.reader.flags(),
            locked: file.locked,
        })
    }

    /// Defects of the files: missing, unreadable, never begun.
    pub fn problems(&self) -> &[FileProblem] {
        &self.files.problems
    }

    /// Whether data were lost: its recorder reported it, or data are damaged or missing. Of several
    /// folders, what one lacks and another has is not lost.
    pub fn lost_data(&self) -> bool {
        let mut flags = self.files.lasts().map(|last| last.reader.flags());
        let reported = flags.any(|flags| flags.is_some_and(|flags| flags.data_lost));
        match folders::are_several(self.run_files()) {
            false => reported || !self.damage().is_empty(),
            true => folders::lost_data(self, reported),
        }
    }

    /// The damage found by opening: missing or unreadable files, and positions where frames should
    /// be. Whether columns are intact takes [`verify`](crate::verify()).
    pub fn damage(&self) -> Vec<String> {
        let files = self.files.problems.iter().filter(|problem| problem.is_damage());
        files.map(ToString::to_string).chain(self.holes()).collect()
    }

    /// Damaged frames with a whole copy in the run, which is read instead: no data are lost.
    pub fn damaged_copies(&self) -> &[DamagedCopy] {
        &self.index.copies.damaged
    }

    /// Positions in the files where frames should be but cannot be recognised.
    pub fn holes(&self) -> impl Iterator<Item = String> {
        let named = |file| holes(file).map(|hole| format!("{}: {hole}", file.path.display()));
        self.run_files().iter().flat_map(named)
    }

    /// Numbers missing between the frames: frames that were recorded and are lost. Of several
    /// folders, of a part of a target's frames, or where the first file is gone, also those before
    /// the first. For a run being recorded, frames in progress may still arrive: 0.
    pub fn frames_missing(&self) -> u64 {
        if self.being_recorded() {
            return 0;
        }
        match self.header().numbering {
            Numbering::Run => {
                let counts = folders::gaps(self).into_iter().map(|range| range.count());
                counts.fold(0, u64::saturating_add)
            }
            Numbering::File => {
                let missing = self.run_files().iter().map(|file| sequences_missing(infos(file)));
                missing.fold(0, u64::saturating_add)
            }
        }
    }

    /// Columns whose checksums by block were found damaged when parts of them were read. They were
    /// checked as a whole instead: no data are lost.
    pub fn bad_tables(&self) -> Vec<String> {
        let named = |(frame, column): (usize, u32)| {
            let frame = &self.channel_frames()[frame];
            let file = &self.run_files()[frame.file];
            let (problem, column_frame) = (ColumnProblem::Table, FrameRef::Index(frame.index));
            file.error(FrameError::Column { frame: column_frame, column, problem }).to_string()
        };
        self.checked.bad_tables().into_iter().map(named).collect()
    }

    /// Whether every file has its TOC and trailer. A run that is being recorded is not closed.
    pub fn closed(&self) -> bool {
        self.run_files().iter().all(|file| file.reader.closed())
    }

    /// Whether a recorder was working on the run when it was opened: it locks its files.
    pub fn being_recorded(&self) -> bool {
        let ahead =
            |problem: &FileProblem| matches!(problem, FileProblem::Blank { locked: true, .. });
        self.run_files().iter().any(|file| file.locked) || self.files.problems.iter().any(ahead)
    }

    /// Whether the run ended in order, according to its last file.
    pub fn ended(&self) -> bool {
        self.files.ended()
    }

    /// The file that marks an orderly end of the run in another folder than that of the ledger,
    /// which has the most rows and lacks its end: [`Run::ended`] is false.
    pub fn end_elsewhere(&self) -> Option<&Path> {
        self.files.end_elsewhere().map(|file| file.path.as_path())
    }

    /// The ledger's total in the last file's TOC; `None` if that file is not closed, or covers only
    /// itself. [`crate::recompute`] returns it in any case.
    ///
    /// A TOC is written before the sync that makes its file durable, and cannot count what that
    /// sync covers. If the run ended in order and every file is closed, `fragments_durable` is
    /// therefore `fragments_recorded`, as in [`crate::recompute`].
    ///
    /// Of several folders, it is that of [`Run::ledger_path`]. Frames that this folder lacks and
    /// another has are counted as recorded, not as `fragments_not_taken` or
    /// `fragments_discarded_disk`; their lengths and increments are read.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn recorded_ledger(&self) -> Result<Option<Ledger>, StorageError> {
        let mut ledger: Option<Ledger> = None;
        for last in self.files.lasts() {
            let whole = last.reader.flags().is_some_and(|flags| !flags.ledger_of_file);
            let counts = if whole { last.reader.ledger() } else { Ok(None) };
            let Some(counts) = counts.map_err(|error| last.error(error))? else { return Ok(None) };
            match &mut ledger {
                Some(ledger) => ledger.add(counts),
                none => *none = Some(counts.clone()),
            }
        }
        if let Some(ledger) = ledger.as_mut() {
            // Counts that cannot be read stay those of the folder.
            let _unread = folders::lend(self, ledger, LedgerKind::Total);
        }
        if let Some(ledger) = ledger.as_mut().filter(|_| self.ended() && self.closed()) {
            what_is_read_is_durable(ledger);
        }
        Ok(ledger)
    }

    /// The frames of events, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.index.events
    }

    /// The frames of channels, in order.
    pub fn channel_frames(&self) -> &[Frame] {
        &self.index.channels
    }

    /// The index in [`Run::frames`] of the frame with that index in that file; none if it is not a
    /// frame of events, or another copy of it is read.
    pub fn frame_at(&self, file: usize, index: usize) -> Option<usize> {
        let info = &self.run_files().get(file)?.reader.frames().get(index)?.info;
        self.index.position(&self.index.events, (file, index), info)
    }

    /// As [`Run::frame_at`], in [`Run::channel_frames`].
    pub fn channel_frame_at(&self, file: usize, index: usize) -> Option<usize> {
        let info = &self.run_files().get(file)?.reader.frames().get(index)?.info;
        self.index.position(&self.index.channels, (file, index), info)
    }

    /// The number of events. Reads nothing.
    pub fn event_count(&self) -> u64 {
        let end = |last: &Frame| last.first_row.saturating_add(last.summary.info.rows);
        self.frames().last().map_or(0, end)
    }

    /// Counts complete and incomplete events. Reads the flags of every frame.
    ///
    /// # Errors
    /// A column that cannot be read.
    pub fn event_counts(&self) -> Result<EventCounts, StorageError> {
        let mut counts = EventCounts::default();
        for frame in 0..self.frames().len() {
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
        self.event_reader().events(frame)
    }

    /// Which rows of a frame have a source's fragment.
    ///
    /// # Errors
    /// No such frame or source, or a column that cannot be read.
    pub fn validity(&self, frame: usize, source: SourceId) -> Result<Arc<Validity>, StorageError> {
        self.event_reader().validity(frame, source)
    }

    /// A source's part of a frame.
    ///
    /// # Errors
    /// No such frame or source, or a column that cannot be read.
    pub fn fragments(
        &self,
        frame: usize,
        source: SourceId,
    ) -> Result<Arc<FragmentColumn>, StorageError> {
        self.event_reader().fragments(frame, source)
    }

    /// Frame and row of the event with that key; the first, should there be several.
    ///
    /// # Errors
    /// A column of keys that cannot be read.
    pub fn find(&self, key: u64) -> Result<Option<(usize, usize)>, StorageError> {
        for frame in self.index.events_between(key, key) {
            if let Some(row) = self.events(frame)?.row_of(key) {
                return Ok(Some((frame, row)));
            }
        }
        Ok(None)
    }

    /// The required sources that were expected in a row, and whose fragments are missing.
    ///
    /// # Errors
    /// No such frame, or a column that cannot be read.
    ///
    /// # Panics
    /// If the frame has no such row.
    pub fn missing(&self, frame: usize, row: usize) -> Result<Vec<SourceId>, StorageError> {
        let count = self.frames().len();
        let header = self.frames().get(frame);
        let header = header.ok_or(StorageError::NoFrame { index: frame, count })?;
        let rows = header.summary.info.rows;
        assert!((row as u64) < rows, "row {row} of a frame with {rows}");
        let mut missing = Vec::new();
        for source in self.sources().iter().filter(|source| source.required) {
            let id = SourceId(source.id);
            let is_there = self.validity(frame, id)?.is_set(row);
            if !is_there && self.expected(frame, id)?.is_set(row) {
                missing.push(id);
            }
        }
        Ok(missing)
    }

    /// The frames that can contain selected events, by their headers: indices into [`Run::frames`].
    /// Reads nothing.
    pub fn frames_in(&self, select: &SelectEvents) -> Vec<usize> {
        let candidates = self.index.events_between(*select.keys.start(), *select.keys.end());
        candidates.filter(|&index| select.meets(index, &self.frames()[index])).collect()
    }

    /// The rows of the selected events of a frame: ranges that rise and do not touch.
    ///
    /// # Errors
    /// No such frame, or a column that cannot be read.
    pub fn rows_in(
        &self,
        frame: usize,
        select: &SelectEvents,
    ) -> Result<Vec<Range<usize>>, StorageError> {
        let (all, count) = (self.frames(), self.frames().len());
        let header = all.get(frame).ok_or(StorageError::NoFrame { index: frame, count })?;
        if !select.meets(frame, header) {
            return Ok(Vec::new());
        }
        let events = self.events(frame)?;
        Ok(events.rows_at(&select.keys, select.time_ns.as_ref()))
    }

    /// The fragments of a source in the selected events, frame by frame. A frame's column is read
    /// when the iterator reaches it.
    pub fn fragments_in(
        &self,
        source: SourceId,
        select: SelectEvents,
    ) -> impl Iterator<Item = Result<FragmentRows, StorageError>> + '_ {
        self.frames_in(&select).into_iter().flat_map(move |frame| {
            let read = || {
                let ranges = self.rows_in(frame, &select)?;
                if ranges.is_empty() {
                    return Ok(Vec::new());
                }
                let column = self.fragments(frame, source)?;
                let rows = |rows| FragmentRows { frame, rows, column: Arc::clone(&column) };
                Ok(ranges.into_iter().map(rows).collect())
            };
            match read() {
                Ok(parts) => parts.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        })
    }

    /// The channels, in the order of the schema.
    pub fn channels(&self) -> &[ChannelInfo] {
        &self.files.files[0].reader.channel_columns().channels
    }

    /// The channel with that name.
    pub fn channel(&self, name: &str) -> Option<Channel<'_>> {
        let info = self.channels().iter().find(|channel| channel.name == name)?;
        Some(Channel::new(self, info))
    }

    /// The channel with that index in [`Run::channels`].
    pub fn channel_at(&self, index: usize) -> Option<Channel<'_>> {
        self.channels().get(index).map(|info| Channel::new(self, info))
    }

    /// Reads several channels at once: indices into [`Run::channels`]. Adjacent columns are read
    /// together, and several threads decode them.
    ///
    /// # Errors
    /// No such channel, or a column that cannot be read.
    pub fn read_many(
        &self,
        channels: &[usize],
        select: &Select,
    ) -> Result<Vec<Vec<Segment>>, StorageError> {
        self.read_many_by(channels, select, parallel::threads())
    }

    /// As [`Run::read_many`], only on the caller's thread.
    pub(crate) fn read_many_alone(
        &self,
        channels: &[usize],
        select: &Select,
    ) -> Result<Vec<Vec<Segment>>, StorageError> {
        self.read_many_by(channels, select, 1)
    }

    fn read_many_by(
        &self,
        channels: &[usize],
        select: &Select,
        threads: usize,
    ) -> Result<Vec<Vec<Segment>>, StorageError> {
        let mut plans = Vec::with_capacity(channels.len());
        for &index in channels {
            let none = || StorageError::NoChannel { name: format!("number {index}") };
            plans.push(self.stored_channel(index)?.ok_or_else(none)?.plan(select)?);
        }
        fetch::fetch(self, plans, threads)
    }

    /// Checks for new data: frames in files that were not closed, and new files in the folder.
    /// Reads a block of each growing file, and the folder's list.
    ///
    /// # Errors
    /// Files that can no longer be read, or do not belong together. Known frames stay.
    pub fn refresh(&mut self) -> Result<Refreshed, StorageError> {
        let mut came = Refreshed::default();
        let refreshed = self.files.refresh(&mut came);
        // Even after an error, the new frames of the other files are taken.
        if came != Refreshed::default() {
            let index = FrameIndex::of(&mut self.files.files);
            if !index.continues(&self.index) {
                self.cache.clear();
                self.checked.clear();
            }
            self.index = index;
        }
        refreshed.map(|()| came)
    }

    /// Whether the run is complete: its last file marks its end, or none of its files is being
    /// written; of several folders, whether that is so in each.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn at_rest(&self) -> Result<bool, StorageError> {
        self.files.at_rest()
    }

    /// The path of a trend's run, whether it exists or not.
    pub fn trend_folder(&self, kind: TrendKind) -> PathBuf {
        self.trends.folder(kind)
    }

    /// A trend's run, as known so far; `None` if there is none. While a run is being recorded, the
    /// newest rows are in none of its frames: [`Run::trend`] has them.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn trend_run(&self, kind: TrendKind) -> Result<Option<Arc<Self>>, StorageError> {
        self.trends.run(kind)
    }

    /// The trend of a channel, or of a counter of the recorder (`catchment:NAME`), so far; `None`
    /// if the run has none, or not for this channel. [`Select::Frames`] refers to frames of the
    /// long files and of each tail, and is of little use.
    ///
    /// # Errors
    /// A trend that cannot be read, or whose columns contradict each other.
    pub fn trend(
        &self,
        channel: &str,
        kind: TrendKind,
        select: &Select,
    ) -> Result<Option<Trend>, StorageError> {
        self.trends.trend(channel, kind, select)
    }

    /// The names of the recorder's counters that have a trend; none if the run has no trends of
    /// counters.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn counter_names(&self, kind: TrendKind) -> Result<Vec<String>, StorageError> {
        self.trends.counter_names(kind)
    }

    pub(crate) fn run_files(&self) -> &[RunFile] {
        &self.files.files
    }

    /// As [`Run::run_files`], by folder.
    pub(crate) fn all_files(&self) -> &RunFiles {
        &self.files
    }

    pub(crate) fn copies(&self) -> &Copies {
        &self.index.copies
    }

    pub(crate) fn frame_index(&self) -> &FrameIndex {
        &self.index
    }

    pub(crate) fn cache(&self) -> &ColumnCache {
        &self.cache
    }

    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    pub(crate) fn checked(&self) -> &CheckedColumns {
        &self.checked
    }

    /// Counts bytes that were read without the files' own counting.
    pub(crate) fn count_read(&self, bytes: usize) {
        self.files.bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn channels_ordered(&self) -> bool {
        self.index.channels_ordered()
    }

    /// The channel frames that can contain samples of that time.
    pub(crate) fn channel_frames_between(&self, time: &Range<u64>) -> Range<usize> {
        self.index.channels_between(time)
    }

    pub(crate) fn event_reader(&self) -> EventReader<'_> {
        let (files, frames) = (&self.files.files, &self.index.events);
        EventReader { files, frames, cache: &self.cache, base: &self.base }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("paths", &self.files.paths)
            .field("files", &self.files.files.len())
            .field("frames", &self.index.events.len())
            .finish_non_exhaustive()
    }
}

fn infos(file: &RunFile) -> impl Iterator<Item = &FrameInfo> {
    file.reader.frames().iter().map(|frame| &frame.info)
}

/// Bound of the cache of decoded columns: two frames of the default size, and their lengths.
const CACHE_BYTES_DEFAULT: usize = 96 * 1024 * 1024;

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Run>();
};
