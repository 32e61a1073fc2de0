//! Going on with the run of a recorder that died: how far its files are whole, and what another
//! recorder needs to go on behind that.
//!
//! A frame says up to which number all were settled in each required place when it was made
//! ([`Position::SYNCED`]): gaps below that are accounted for. From there on frames must follow each
//! other, and each is read and checked. The run goes on behind the lowest of the last such frames
//! of the required places: front-ends send the rest again.
//!
//! ```text
//!          synced            end of the run      files of a place
//! .. 40 41 42 | 43 44 45 46  | 47 48 .. 50       cut, and kept as NAME-INDEX.superseded
//! ```
//!
//! Each file is cut behind its last frame that is kept, closed as by [`crate::repair()`], and
//! synced. What is cut off stands in a file beside it before it is cut, so that an interrupted
//! attempt can be made again.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use catchment_disk::{EditFile, ReadFile};
use catchment_frame::{
    FileHeader, FrameInfo, FrameKind, FrameSummary, Numbering, Position, Positions, Superseded,
    close_behind, frame_ledger, verify_frame,
};
use catchment_model::{Entry, Ledger, RunId};

use crate::error::StorageError;
use crate::open;
use crate::repair::{self, Found, Outcome};
use crate::superseded::Bounds;
use crate::whole::list_cut;

/// A place that gets the run's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// The run's folders there.
    pub folders: Vec<PathBuf>,
    /// Whether the run needs it.
    pub is_required: bool,
}

/// What a recorder needs to go on with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumable {
    /// The run's identity.
    pub run: RunId,
    /// The name of its folders, with which the names of its files begin.
    pub name: String,
    /// Its number for people.
    pub run_number: u64,
    /// The number of its next frame: all before it are durable, or accounted for.
    pub sequence: u64,
    /// The epoch in which it goes on, above all before.
    pub epoch: u32,
    /// Frames that are no longer the run's, to be said in each file from now on.
    pub superseded: Vec<Superseded>,
    /// How far its sources were decided.
    pub positions: Positions,
    /// In the order in which they were given.
    pub places: Vec<ResumedPlace>,
}

/// What a place has of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumedPlace {
    /// The index of its next file.
    pub next_index: u32,
    /// One above the number of its last frame. Where the run does not need it, it may lack frames
    /// before the run's next one.
    pub end: u64,
    /// The sum of its frames; empty if it has none.
    pub ledger: Ledger,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// Its frames.
    pub frames: u64,
    /// Events in its frames.
    pub events: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// The files of an interrupted run, before anything is changed.
pub struct Interrupted {
    name: String,
    places: Vec<Place>,
}

/// The files of a place, by rising index.
#[derive(Default)]
struct Place {
    is_required: bool,
    files: Vec<Found>,
    /// Files without a header that can be read.
    blank: Vec<PathBuf>,
    unreadable: Vec<PathBuf>,
    /// The index of its next file, as far as it is known.
    next_index: u32,
    /// One above the number of the last frame that is kept.
    end: u64,
}

/// The frames of a place by location.
type Location = (usize, usize);

impl Interrupted {
    /// Looks at the places of a run. Lost headers of files are made again, as by a repair.
    ///
    /// # Errors
    /// A required place has no file of the run or cannot be read, a recorder still holds a file,
    /// the files are of several runs, or they do not say how to go on.
    pub fn find(places: &[RunPlace]) -> Result<Self, StorageError> {
        let mut found = Vec::new();
        for place in places {
            match Place::open(place) {
                Ok(place) => found.push(place),
                Err(error) if place.is_required => return Err(error),
                // What it has stays as it is, and counts for nothing.
                Err(_) => found.push(Place {
                    next_index: open::next_index(&place.folders),
                    ..Place::default()
                }),
            }
        }
        let folder = places.iter().flat_map(|place| &place.folders).next();
        let folder = folder.cloned().unwrap_or_default();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = Self { name, places: found };
        let none = || StorageError::NoFiles { path: folder.clone() };
        let first = found.files().next().ok_or_else(none)?;
        if first.reader.header().numbering == Numbering::File || !found.has_required() {
            return Err(none());
        }
        let other = |file: &&Found| file.reader.header().run != found.header().run;
        if let Some(file) = found.files().find(other) {
            let (path, got) = (file.path.clone(), file.reader.header().run);
            let (first, expected) = (first.path.clone(), found.header().run);
            return Err(StorageError::ForeignFile { path, got, first, expected });
        }
        Ok(found)
    }

    /// The header of a file of the first required place.
    pub fn header(&self) -> &FileHeader {
        let first = self.places.iter().find(|place| place.is_required && !place.files.is_empty());
        first.expect("a required place has a file").files[0].reader.header()
    }

    /// Cuts and closes the files, and makes them durable.
    ///
    /// # Errors
    /// The system refuses. It can be tried again.
    pub fn take(mut self) -> Result<Resumable, StorageError> {
        let headers = || self.files().map(|file| file.reader.header());
        let mut superseded: Vec<Superseded> = Vec::new();
        for &record in headers().flat_map(|header| &header.superseded) {
            if !superseded.contains(&record) {
                superseded.push(record);
            }
        }
        let before = Bounds::of(superseded.iter().copied());
        let frames = self.files().flat_map(|file| file.reader.frames());
        let epochs = headers().map(|header| header.epoch);
        let epochs = epochs.chain(frames.map(|frame| frame.info.origin.epoch));
        let epoch = epochs.max().unwrap_or(0).saturating_add(1);
        let synced = self.places.iter().map(Place::synced).max().unwrap_or(0);
        self.places.iter_mut().for_each(|place| place.find_end(synced, &before));
        let required = self.places.iter().filter(|place| place.is_required);
        let sequence = required.map(|place| place.end).min().expect("a required place");
        superseded.push(Superseded { stream: 0, epoch, sequence });
        let bounds = Bounds::of(superseded.iter().copied());
        let (run, run_number) = (self.header().run, self.header().run_number);
        let mut positions = Positions::default();
        for place in &self.places {
            positions.add(place.positions(&bounds)?.records());
        }
        let mut places = Vec::new();
        for place in self.places {
            places.push(place.close(synced, sequence, &bounds, &positions)?);
        }
        let name = self.name;
        Ok(Resumable { run, name, run_number, sequence, epoch, superseded, positions, places })
    }

    fn files(&self) -> impl Iterator<Item = &Found> {
        self.places.iter().flat_map(|place| &place.files)
    }

    fn has_required(&self) -> bool {
        self.places.iter().any(|place| place.is_required)
    }
}

impl Place {
    fn open(place: &RunPlace) -> Result<Self, StorageError> {
        let mut paths = Vec::new();
        for folder in &place.folders {
            paths.extend(open::paths(folder)?);
        }
        if let Some(path) = paths.iter().find(|path| open::is_locked(path)) {
            return Err(StorageError::BeingRecorded { path: path.clone() });
        }
        let (files, others) = repair::find(paths)?;
        if files.is_empty() {
            let path = place.folders.first().cloned().unwrap_or_default();
            return Err(StorageError::NoFiles { path });
        }
        let (mut blank, mut unreadable) = (Vec::new(), Vec::new());
        for other in others {
            match other.outcome {
                Outcome::Blank => blank.push(other.path),
                Outcome::Unreadable(_) => unreadable.push(other.path),
                _ => {}
            }
        }
        let is_required = place.is_required;
        Ok(Self { is_required, files, blank, unreadable, ..Self::default() })
    }

    /// All frames, in the order of the files.
    fn frames(&self) -> impl Iterator<Item = (Location, &FrameSummary)> {
        self.files.iter().enumerate().flat_map(|(file, found)| {
            let frames = found.reader.frames().iter().enumerate();
            frames.map(move |(index, frame)| ((file, index), frame))
        })
    }

    /// The number below which all frames were settled, as far as any frame or table says.
    fn synced(&self) -> u64 {
        let listed = self.files.iter().filter_map(|file| file.reader.listed_positions().ok()?);
        // Tables have what the frames before them say.
        let of_frames = self.files.iter().flat_map(|file| {
            let listed = file.reader.listed_positions().ok().flatten();
            let count = listed.map_or(0, |(count, _)| count);
            (count..file.reader.frames().len())
                .filter_map(|index| file.reader.positions(index).ok())
        });
        let all = listed.map(|(_, positions)| positions).chain(of_frames).flatten();
        let synced = all.filter(|one| one.what == Position::SYNCED);
        synced.map(|one| one.position).max().unwrap_or(0)
    }

    /// Finds the end of the frames that follow each other and are whole, from `synced` on.
    fn find_end(&mut self, synced: u64, before: &Bounds) {
        let mut end = synced;
        for ((file, index), FrameSummary { info, .. }) in self.frames() {
            let (first, last) = info.numbers();
            if last < end || before.has(info) {
                continue;
            }
            let is_bad = |file: &Found| {
                verify_frame(&file.reader, index).iter().any(|problem| !problem.is_bad_table())
            };
            if first > end || is_bad(&self.files[file]) {
                break;
            }
            end = last.saturating_add(1);
        }
        self.end = end;
    }

    /// The newest positions in its frames that are kept.
    fn positions(&self, bounds: &Bounds) -> Result<Positions, StorageError> {
        let mut newest = Positions::default();
        for file in &self.files {
            let kept = file.kept(bounds);
            let failed = |source| StorageError::Frame { path: file.path.clone(), source };
            let listed = file.reader.listed_positions().map_err(failed)?;
            let mut from = 0;
            if let Some((count, positions)) = listed.filter(|(count, _)| *count <= kept) {
                newest.add(&positions);
                from = count;
            }
            for index in from..kept {
                newest.add(&file.reader.positions(index).map_err(failed)?);
            }
        }
        Ok(newest)
    }

    /// Cuts and closes its files.
    fn close(
        self,
        synced: u64,
        sequence: u64,
        bounds: &Bounds,
        positions: &Positions,
    ) -> Result<ResumedPlace, StorageError> {
        let (next_index, end) = (self.next_index, self.end.min(sequence));
        let mut place = ResumedPlace { next_index, end, ..ResumedPlace::default() };
        for file in &self.files {
            let header = file.reader.header();
            if place.ledger.sources.is_empty() {
                place.ledger = Ledger::new(header.schema.sources.len());
            }
            place.next_index = place.next_index.max(header.file_index.saturating_add(1));
            let kept = file.kept(bounds);
            for (index, frame) in file.reader.frames().iter().enumerate().take(kept) {
                place.ledger.add(&frame_ledger(&file.reader, index).0);
                place.frames += 1;
                if frame.info.kind == FrameKind::Events {
                    place.events = place.events.saturating_add(frame.info.rows);
                }
            }
        }
        for source in &mut place.ledger.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        for file in self.files {
            place.files.push(file.path.clone());
            place.bytes += file.close_kept(synced, bounds, &place.ledger, positions)?;
        }
        let is_behind = |path: &PathBuf| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            open::index_of_name(&stem).is_some_and(|index| index >= place.next_index)
        };
        for path in self.blank.iter().filter(|path| is_behind(path)) {
            let failed = |source| StorageError::Write { path: path.clone(), source };
            std::fs::remove_file(path).map_err(failed)?;
        }
        for path in &self.unreadable {
            if self.is_required && !is_behind(path) {
                return Err(StorageError::NoFiles { path: path.clone() });
            }
            let failed = |source| StorageError::Write { path: path.clone(), source };
            std::fs::rename(path, path.with_extension(SUPERSEDED)).map_err(failed)?;
        }
        Ok(place)
    }
}

impl Found {
    /// How many of its frames are kept: numbers rise, so that these are the first ones.
    fn kept(&self, bounds: &Bounds) -> usize {
        let infos = self.reader.frames().iter().map(|frame| &frame.info);
        infos.take_while(|info: &&FrameInfo| !bounds.has(info)).count()
    }

    /// Cuts it behind the frames that are kept and closes it; a file that is closed and loses none
    /// stays as it is. Returns its length.
    fn close_kept(
        self,
        synced: u64,
        bounds: &Bounds,
        ledger: &Ledger,
        positions: &Positions,
    ) -> Result<u64, StorageError> {
        let (kept, frames) = (self.kept(bounds), self.reader.frames());
        let is_whole = self.reader.closed() && kept == frames.len();
        if is_whole && frames.last().is_none_or(|last| last.info.numbers().1 < synced) {
            return Ok(self.reader.file_bytes());
        }
        let path = self.path.clone();
        if is_whole {
            let bytes = self.reader.file_bytes();
            drop(self);
            EditFile::open(&path)?.sync()?;
            return Ok(bytes);
        }
        let failed = |source| StorageError::Frame { path: path.clone(), source };
        let closing = close_behind(&self.reader, kept, ledger, positions).map_err(failed)?;
        if let (Some(first), Some(last)) = (frames.get(kept), frames.last()) {
            keep_superseded(&path, first.offset, last.offset + last.frame_bytes)?;
        }
        let header = self.reader.header().clone();
        drop(self);
        let file = EditFile::open(&path)?;
        file.write_at(closing.offset, &closing.bytes)?;
        // TOC and trailer are durable before anything after them is cut.
        file.sync()?;
        file.truncate(closing.file_bytes())?;
        file.sync()?;
        list_cut(&path, &header, closing.file_bytes())?;
        Ok(closing.file_bytes())
    }
}

/// Keeps a part of a file that is about to be cut off, in a file beside it.
fn keep_superseded(path: &Path, from: u64, to: u64) -> Result<(), StorageError> {
    let kept_path = path.with_extension(SUPERSEDED);
    let (source, write) =
        (ReadFile::open(path)?, |source| StorageError::Write { path: kept_path.clone(), source });
    let mut kept = File::create(&kept_path).map_err(write)?;
    let (mut buffer, mut at) = (vec![0; PIECE_BYTES], from);
    while at < to {
        let most = buffer.len().min((to - at) as usize);
        let read = source.read_at(at, &mut buffer[..most]);
        let read = read.map_err(|source| StorageError::Read { path: path.to_owned(), source })?;
        if read == 0 {
            break;
        }
        kept.write_all(&buffer[..read]).map_err(write)?;
        at += read as u64;
    }
    kept.sync_all().map_err(write)
}

const SUPERSEDED: &str = "superseded";
const PIECE_BYTES: usize = 1 << 20;
