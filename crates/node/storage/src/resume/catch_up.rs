//! Catching up the required places that have fewer frames of an interrupted run than another one:
//! frames are copied as they are stored into a new file of the place, with checksums checked.
//!
//! ```text
//!           end of B    end of the run
//! A  .. 46 47 | 48 49 50 |               the holder
//! B  .. 46 47 |                          cut here first
//!    B's next file: 48 49 50             durable before anything beyond 47 is said to be
//! ```
//!
//! What a copy counts is what its columns give, and of the holder's increments what the place has
//! not counted yet: a place that lacked frames before counts in its next ones what these had.
//! Losses of the holder's own disk are not the place's. A place elsewhere gets such copies over its
//! link, one by one.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use catchment_disk::{EditFile, ReadFile, last_written, sync_folder};
use catchment_frame::{
    Codec, ColumnEntry, ColumnKind, ColumnProblem, FileFrames, FileHeader, FileReader, FrameError,
    FrameInfo, FrameKind, Position, Positions, Schema, decode_positions, encode_positions,
    frame_ledger, select_spans, write_frame,
};
use catchment_model::{Entry, Ledger, SourceLedger};

use super::kept::Kept;
use super::place::Place;
use super::{CaughtUp, Resumable, ResumedPlace};
use crate::error::StorageError;
use crate::frame_copy::{FrameCopy, increments_column, lesser, only_of_frame, split};
use crate::open;
use crate::repair::{Found, rows_of};
use crate::superseded::Bounds;
use crate::write::{no_random_bits, unwritable};

/// Up to where a run can go on, and which places are caught up for that.
#[derive(Default)]
pub(super) struct CatchUp {
    /// One above the number of the last frame that all required places can have.
    pub(super) sequence: u64,
    /// By place: from which other one it is caught up.
    pub(super) holders: Vec<(usize, usize)>,
    /// Why frames beyond that, which some place has, are cut off.
    pub(super) cut_off: Option<String>,
}

impl CatchUp {
    /// The highest number up to which each required place has the run's frames, or can get them
    /// from another one. `before` are the frames that were superseded earlier.
    pub(super) fn of(places: &[(usize, &Place)], before: &Bounds) -> Self {
        let reach = |own: &Place| {
            let others = places.iter().filter(|(_, other)| other.end > own.end);
            others.map(|&(holder, other)| (Reach::of(own, other, before), holder)).collect()
        };
        let reaches: Vec<Vec<(Reach, usize)>> =
            places.iter().map(|(_, place)| reach(place)).collect();
        let reaches = || places.iter().zip(&reaches);
        let farthest = |place: &Place, reaches: &[(Reach, usize)], until: u64| {
            reaches.iter().map(|(reach, _)| reach.within(until)).fold(place.end, u64::max)
        };
        // A frame that also stands for others beyond the run's end is not copied: without it, that
        // end may be lower still.
        let (mut until, mut sequence) = (u64::MAX, u64::MAX);
        loop {
            let ends = reaches().map(|((_, place), all)| farthest(place, all, sequence));
            let lowest = ends.min().unwrap_or(0);
            if lowest >= sequence {
                break;
            }
            (until, sequence) = (sequence, lowest);
        }
        let behind = reaches().filter(|((_, place), _)| place.end < sequence);
        let holders = behind.filter_map(|((number, _), reaches)| {
            let holder = reaches.iter().find(|(reach, _)| reach.within(sequence) >= sequence);
            holder.map(|(_, holder)| (*number, *holder))
        });
        let is_highest = places.iter().all(|(_, place)| place.end <= sequence);
        let mut stopped = reaches().filter(|_| !is_highest);
        let stopped = stopped.find(|((_, place), all)| farthest(place, all, until) == sequence);
        let stopped = stopped.and_then(|((_, place), all)| {
            let (reach, _) = all.iter().max_by_key(|(reach, _)| reach.within(until))?;
            let why: &str = match reach.within(u64::MAX) > sequence {
                true => "it stands for later ones too, of which a folder lacks some",
                false => &reach.why,
            };
            Some(format!("frame {sequence} cannot be copied to {}: {why}", place.shown()))
        });
        let cut_off = stopped.or_else(|| damaged_at(places, sequence));
        Self { sequence, holders: holders.collect(), cut_off }
    }

    /// Behind the last frame that all have.
    pub(super) fn none(places: &[(usize, &Place)]) -> Self {
        let ends = places.iter().map(|(_, place)| place.end);
        let sequence = ends.min().unwrap_or(0);
        Self { sequence, holders: Vec::new(), cut_off: damaged_at(places, sequence) }
    }

    /// The place is caught up by others; from which one, if it is behind.
    pub(super) fn leave(&mut self, place: usize) -> Option<usize> {
        let index = self.holders.iter().position(|&(number, _)| number == place)?;
        Some(self.holders.swap_remove(index).1)
    }

    /// Copies to each place what it lacks, durably. Places are closed, at the end of the run.
    ///
    /// # Errors
    /// A frame cannot be read, or its copy cannot be written: that place has no more than before.
    /// It can be tried again.
    pub(super) fn copy(&self, from: &mut Resumable) -> Result<(), StorageError> {
        for &(number, holder) in &self.holders {
            // An earlier attempt may have come to the next one.
            if from.places[number].end >= self.sequence {
                continue;
            }
            let copied = copy(from, &from.places[number], holder)?;
            from.places[number] = copied;
        }
        Ok(())
    }
}

/// The damaged frame at which a place ends that has the frames before that number, if it is one.
fn damaged_at(places: &[(usize, &Place)], sequence: u64) -> Option<String> {
    let mut ending = places.iter().filter(|(_, place)| place.end == sequence);
    ending.find_map(|(_, place)| place.damaged.clone())
}

/// How far a place can be brought by another one.
struct Reach {
    /// Its own end, and behind each frame that it can get: they rise.
    ends: Vec<u64>,
    /// Why not farther.
    why: String,
}

impl Reach {
    fn of(own: &Place, holder: &Place, before: &Bounds) -> Self {
        let (of_own, of_holder) = (own.header(), holder.header());
        let mut end = own.end;
        let mut ends = vec![end];
        if holder.elsewhere.is_some() {
            let why = format!("those of {} cannot be read here", holder.shown());
            return Self { ends, why };
        }
        if !has_all(of_holder, of_own) {
            let why = format!("{} has other sources or channels", holder.shown());
            return Self { ends, why };
        }
        let infos = holder.frames().filter(|(_, frame)| !before.has(&frame.info));
        for ((file, index), frame) in infos {
            let (first, last) = frame.info.numbers();
            if last < end {
                continue;
            }
            let is_data = matches!(frame.info.kind, FrameKind::Events | FrameKind::Channels);
            // A skipped frame that counts no loss stands for what its variant has nothing of.
            let is_copied = || {
                let skipped = frame.info.kind == FrameKind::SKIPPED;
                skipped && !has_losses(&frame_ledger(&holder.files[file].reader, index).0)
            };
            if first != end || last >= holder.end || !(is_data || is_copied()) {
                break;
            }
            end = last.saturating_add(1);
            ends.push(end);
        }
        let why = match &holder.damaged {
            Some(damaged) if end == holder.end => damaged.clone(),
            _ => format!("{} has no whole frame of that number", holder.shown()),
        };
        Self { ends, why }
    }

    /// The end with frames that stand for none from that number on, or that of the place itself.
    fn within(&self, until: u64) -> u64 {
        let count = self.ends.partition_point(|&end| end <= until).max(1);
        self.ends[count - 1]
    }
}

/// Whether files with the header `all` have everything that those with `own` have, and of each of
/// its sources nothing else: a link's counts are those of its channels.
fn has_all(all: &FileHeader, own: &FileHeader) -> bool {
    if all.variant == own.variant {
        return all.schema == own.schema;
    }
    let stored = |schema: &Schema, source: usize| {
        schema.sources.get(source).is_some_and(|source| source.stored)
    };
    let (all, own) = (&all.schema, &own.schema);
    let mut own_sources = (0..own.sources.len()).filter(|&source| stored(own, source));
    let of_own = |source: &u32| stored(own, *source as usize);
    let mut of_sources = all.columns.iter().filter(|column| column.source.iter().any(of_own));
    own_sources.all(|source| stored(all, source))
        && own.columns.iter().all(|column| all.columns.contains(column))
        && of_sources.all(|column| own.columns.contains(column))
}

/// Whether counts have losses of one place's own.
fn has_losses(counts: &Ledger) -> bool {
    let lost = |counts: &SourceLedger| OF_PLACE.iter().any(|&entry| counts[entry] > 0);
    counts.sources.iter().any(lost)
}

/// Copies the frames from the end of a place to that of the run, in a new file, which says that it
/// was written when the holder's were.
fn copy(
    from: &Resumable,
    place: &ResumedPlace,
    holder: usize,
) -> Result<ResumedPlace, StorageError> {
    let none = || unwritable("frames of another folder", "this one has no file");
    let before = place.files.last().ok_or_else(none)?;
    let header = FileReader::open(ReadFile::open(before)?).map_err(|error| in_file(before, error));
    let header = FileHeader {
        file_index: place.next_index,
        file_id: getrandom::u64().map_err(no_random_bits)?,
        created_ns: catchment_telemetry::utc_now().0,
        writer: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
        // The file is not read before it has its TOC.
        locator: false,
        epoch: from.epoch,
        superseded: from.superseded.clone(),
        ..header?.header().clone()
    };
    let stem = before.file_stem().unwrap_or_default().to_string_lossy();
    let name = open::index_of_name(&stem).and_then(|_| stem.rsplit_once('-'));
    let name = name.map_or(&*from.name, |(name, _)| name);
    let folder = before.parent().unwrap_or(Path::new(""));
    let path = folder.join(format!("{name}-{:05}.{}", place.next_index, open::EXTENSION));
    let made = File::create_new(&path);
    let file = made.map_err(|source| StorageError::Write { path: path.clone(), source })?;
    let copied = Copies::new(header, from, (place, holder))
        .and_then(|copies| copies.write((path.clone(), file), from, (place, holder)));
    if copied.is_err() {
        // It has nothing of its own. If it cannot be deleted, it is what the place has.
        let _deleted = std::fs::remove_file(&path);
    }
    let copied = copied?;
    let written = last_written(&from.places[holder].files);
    // Without that the run is younger than it is.
    if let Some((file, written)) = EditFile::open(&path).ok().zip(written) {
        file.keep_written(Ok(written));
    }
    sync_folder(folder)?;
    Ok(copied)
}

/// What a place has not counted that another one has.
fn left(all: &Ledger, own: &Ledger) -> Ledger {
    let mut left = all.since(own);
    for source in &mut left.sources {
        OF_PLACE.iter().for_each(|&entry| source[entry] = 0);
    }
    left
}

/// A frame's columns, as they are stored.
type Columns = Vec<(ColumnEntry, Vec<u8>)>;

/// The frames that a place lacks and another one has, in their order, as the place has them.
pub struct Copies {
    header: FileHeader,
    /// The header's bytes.
    encoded: Vec<u8>,
    /// What its frames may still count in increments.
    left: Ledger,
    /// The numbers of the next frame, and behind the last.
    next: u64,
    end: u64,
    /// The holder's files, and where the next frame is looked for: file and frame.
    holding: Vec<(PathBuf, FileReader<ReadFile>)>,
    at: (usize, usize),
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { next, end, .. } = self;
        f.debug_struct("Copies").field("next", next).field("end", end).finish_non_exhaustive()
    }
}

impl Resumable {
    /// Copies of the frames that a required place elsewhere lacks, whose files have that header.
    ///
    /// # Errors
    /// The files of the place that has them cannot be read.
    pub fn lacking(&self, place: usize, header: FileHeader) -> Result<Copies, StorageError> {
        let place = &self.places[place];
        let file_id = getrandom::u64().map_err(no_random_bits)?;
        let header = FileHeader { file_id, locator: false, ..header };
        Copies::new(header, self, (place, place.caught_up.place))
    }
}

impl Copies {
    fn new(
        header: FileHeader,
        from: &Resumable,
        (place, holder): (&ResumedPlace, usize),
    ) -> Result<Self, StorageError> {
        let (next, end) = (place.end, from.sequence);
        let ResumedPlace { files, ledger, .. } = &from.places[holder];
        let (left, at) = (left(ledger, &place.ledger), (0, 0));
        let holding = holding(files, next)?;
        let encoded = header.encode();
        let mut copies = Self { header, encoded, left, next, end, holding, at };
        copies.limit_missing(ledger, &place.ledger);
        Ok(copies)
    }

    /// The next one, as the only frame of a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn next_file(&mut self) -> Result<Option<Vec<u8>>, StorageError> {
        let offset = self.encoded.len() as u64;
        let Some(frame) = self.next_frame(offset)? else { return Ok(None) };
        let file = [&self.encoded[..], &frame].concat();
        Ok(Some(file))
    }

    /// The bytes of the next one in a file, where they begin there.
    fn next_frame(&mut self, offset: u64) -> Result<Option<Vec<u8>>, StorageError> {
        while let Some((path, reader)) = self.holding.get(self.at.0) {
            let (file, index) = self.at;
            let Some(frame) = reader.frames().get(index) else {
                self.at = (file + 1, 0);
                continue;
            };
            self.at = (file, index + 1);
            let (first, last) = frame.info.numbers();
            if first != self.next || last >= self.end {
                continue;
            }
            let info = frame.info;
            let copy = FrameCopy::read(reader, index, |error| in_file(path, error))?;
            let (info, columns) = self.own(info, copy)?;
            let columns: Vec<(ColumnEntry, &[u8])> =
                columns.iter().map(|(entry, bytes)| (*entry, &bytes[..])).collect();
            let (bytes, ..) = write_frame(info, offset, &columns);
            self.next = last.saturating_add(1);
            return Ok(Some(bytes));
        }
        if self.next < self.end {
            let problem = format!("frame {} is not there any more", self.next);
            return Err(unwritable("frames of another folder", &problem));
        }
        Ok(None)
    }

    /// Writes a file of the place with all of them. Returns the place with it.
    fn write(
        mut self,
        (path, mut file): (PathBuf, File),
        from: &Resumable,
        (place, holder): (&ResumedPlace, usize),
    ) -> Result<ResumedPlace, StorageError> {
        let failed = |source| StorageError::Write { path: path.clone(), source };
        file.write_all(&self.encoded).map_err(failed)?;
        let mut offset = self.encoded.len() as u64;
        while let Some(bytes) = self.next_frame(offset)? {
            file.write_all(&bytes).map_err(failed)?;
            offset += bytes.len() as u64;
        }
        drop(file);
        self.close(path, from, (place, holder))
    }

    /// Limits what is counted as missing fragments of lost frames. With those that frames record,
    /// which one place may have and another one lacks, it is the same in all places at the run's
    /// end.
    fn limit_missing(&mut self, all: &Ledger, own: &Ledger) {
        // What the copies will record.
        let (mut copied, mut next) = (Ledger::new(all.sources.len()), self.next);
        for (_, reader) in &self.holding {
            for (index, frame) in reader.frames().iter().enumerate() {
                let (first, last) = frame.info.numbers();
                if first == next && last < self.end {
                    copied.add(&frame_ledger(reader, index).0);
                    next = last.saturating_add(1);
                }
            }
        }
        let missing = |counts: &SourceLedger| {
            let of_lost = counts[Entry::FragmentsMissingUnrecorded];
            counts[Entry::FragmentsMissing].saturating_add(of_lost)
        };
        let sources = all.sources.iter().zip(&own.sources).zip(&copied.sources);
        for (((all, own), copied), left) in sources.zip(&mut self.left.sources) {
            let of_copies = copied[Entry::FragmentsMissing];
            let of_lost = missing(all).saturating_sub(of_copies).saturating_sub(missing(own));
            left[Entry::FragmentsMissingUnrecorded] = of_lost;
        }
    }

    /// A frame as the place has it.
    fn own(
        &mut self,
        info: FrameInfo,
        copy: FrameCopy,
    ) -> Result<(FrameInfo, Columns), StorageError> {
        let (schema, variant) = (&self.header.schema, self.header.variant);
        let mut columns = copy.columns;
        let (_, all) = split(info.kind, copy.counts);
        let mut increments = only_of_frame(&all);
        let sources = increments.sources.iter_mut().zip(&all.sources);
        for ((of_frame, all), left) in sources.zip(&mut self.left.sources) {
            let own = lesser(&all.since(of_frame), left);
            *left = left.since(&own);
            of_frame.add(&own);
        }
        let mut own = FrameInfo { file_id: self.header.file_id, ..info };
        if info.origin.variant != variant {
            own = select(schema, own, &mut columns)?;
            own.origin.variant = variant;
            for (source, counts) in schema.sources.iter().zip(&mut increments.sources) {
                if !source.stored {
                    *counts = SourceLedger::default();
                }
            }
        }
        if let Some(column) = increments_column(schema, own.kind, &increments)? {
            columns.insert(0, column);
        }
        Ok((own, columns))
    }

    /// Closes the file, durably.
    fn close(
        self,
        path: PathBuf,
        from: &Resumable,
        (place, holder): (&ResumedPlace, usize),
    ) -> Result<ResumedPlace, StorageError> {
        let reader = FileReader::open(ReadFile::open(&path)?);
        let reader = reader.map_err(|error| in_file(&path, error))?;
        let sources = &self.header.schema.sources;
        let mut positions = Positions::default();
        let is_own = |one: &&Position| {
            one.session == 0 || sources.get(one.source as usize).is_some_and(|of| of.stored)
        };
        let records = from.positions.records().iter().filter(is_own).copied();
        positions.add(&records.collect::<Vec<_>>());
        let infos = || reader.frames().iter().map(|frame| frame.info);
        let (frames, events) = (reader.frames().len(), rows_of(infos(), FrameKind::Events));
        let mut copied = place.clone();
        copied.frames += frames as u64;
        copied.events += events;
        copied.next_index += 1;
        copied.end = self.end;
        copied.files.push(path.clone());
        let numbers = (place.end, self.end - 1);
        FileFrames::one(self.header.file_index, numbers).add_to(&mut copied.file_frames);
        let mut sum = Ledger::new(sources.len());
        (0..frames).for_each(|frame| sum.add(&frame_ledger(&reader, frame).0));
        copied.ledger.add(&sum);
        for source in &mut copied.ledger.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        let found = Found { path, reader, header_from: None };
        let sum = Some(sum);
        let kept = Kept { found, frames, sum, is_in_table: false, is_durable: false };
        let bytes = kept.close(&copied.ledger, &positions)?;
        copied.bytes += bytes;
        copied.caught_up = CaughtUp { place: holder, frames: frames as u64, bytes };
        Ok(copied)
    }
}

/// The files of a place, from the one with that frame on.
fn holding(
    files: &[PathBuf],
    next: u64,
) -> Result<Vec<(PathBuf, FileReader<ReadFile>)>, StorageError> {
    let mut holding = Vec::new();
    for path in files.iter().rev() {
        let reader = FileReader::open(ReadFile::open(path)?);
        let reader = reader.map_err(|error| in_file(path, error))?;
        let first = reader.frames().first().map(|frame| frame.info.numbers().0);
        holding.push((path.clone(), reader));
        if first.is_some_and(|first| first <= next) {
            break;
        }
    }
    holding.reverse();
    Ok(holding)
}

/// Of a frame's columns those of another variant, whose schema that is.
fn select(
    schema: &Schema,
    info: FrameInfo,
    columns: &mut Columns,
) -> Result<FrameInfo, StorageError> {
    let kind = |id: u32| schema.columns.iter().find(|one| one.id == id).map(|one| &one.kind);
    let of_kind = |wanted: &ColumnKind| schema.columns.iter().any(|one| one.kind == *wanted);
    columns.retain(|(entry, _)| kind(entry.id).is_some());
    for (entry, bytes) in columns.iter_mut() {
        let records = entry.rows.max(1);
        let own = match kind(entry.id) {
            Some(ColumnKind::ChannelSpans | ColumnKind::SourcePositions)
                if entry.codec != Codec::None =>
            {
                let problem = "records of all sources are encoded";
                return Err(unwritable("a frame of another variant", problem));
            }
            Some(ColumnKind::ChannelSpans) => select_spans(bytes, |id| kind(id).is_some()),
            Some(ColumnKind::SourcePositions) => {
                let unreadable =
                    |problem: ColumnProblem| unwritable("positions", &problem.to_string());
                let mut all = decode_positions(bytes).map_err(unreadable)?;
                let stored =
                    |id: u32| schema.sources.get(id as usize).is_some_and(|one| one.stored);
                all.retain(|one| one.session == 0 || stored(one.source));
                let mut own = Vec::new();
                encode_positions(&all, &mut own);
                own
            }
            _ => continue,
        };
        let record_bytes = (bytes.len() as u64 / records).max(1);
        entry.rows = own.len() as u64 / record_bytes;
        entry.raw_bytes = own.len() as u64;
        *bytes = own;
    }
    columns.retain(|(entry, bytes)| !(bytes.is_empty() && is_of_records(kind(entry.id))));
    let samples = columns.iter().filter(|(entry, _)| kind(entry.id) == Some(&ColumnKind::Channel));
    let (kind, rows) = match info.kind {
        FrameKind::Events if of_kind(&ColumnKind::FragmentLengths) => (info.kind, info.rows),
        FrameKind::Channels if of_kind(&ColumnKind::Channel) => {
            (info.kind, samples.map(|(entry, _)| entry.rows).sum())
        }
        // The variant has nothing of such frames.
        FrameKind::Events | FrameKind::Channels => (FrameKind::SKIPPED, 1),
        kind => (kind, info.rows),
    };
    if kind == FrameKind::SKIPPED && kind != info.kind {
        columns.retain(|(entry, _)| is_of_positions(schema, entry.id));
    }
    // Ranges are those of rows.
    let FrameInfo { file_id, sequence, origin, .. } = info;
    Ok(match rows > 0 && kind == info.kind {
        true => FrameInfo { rows, ..info },
        false => FrameInfo { kind, rows, file_id, sequence, origin, ..FrameInfo::EMPTY },
    })
}

fn is_of_records(kind: Option<&ColumnKind>) -> bool {
    matches!(kind, Some(ColumnKind::ChannelSpans | ColumnKind::SourcePositions))
}

fn is_of_positions(schema: &Schema, id: u32) -> bool {
    schema.column(None, &ColumnKind::SourcePositions) == Some(id)
}

fn in_file(path: &Path, source: FrameError) -> StorageError {
    StorageError::Frame { path: path.to_owned(), source }
}

/// What a place counts of frames that it alone lacks or may have lost.
const OF_PLACE: [Entry; 6] = [
    Entry::FragmentsDiscardedDisk,
    Entry::FragmentsRemoved,
    Entry::FragmentsUnconfirmed,
    Entry::FragmentCountsUnconfirmed,
    Entry::FragmentsNotTaken,
    Entry::FragmentBytesNotTaken,
];
