//! Going on with the run of a recorder that died: how far its files are whole, and what another
//! recorder needs to go on behind that.
//!
//! A frame says up to which number all were settled in each required place when it was made
//! ([`Position::SYNCED`](catchment_frame::Position::SYNCED)): gaps below that are accounted for.
//! From there on frames must follow each other, and each is read and checked. The run goes on
//! behind the highest of the last such frames of the required places, and the others are caught up
//! from its holder first (`catch_up.rs`). Until then no sender is told that anything beyond the
//! lowest is durable. Where they cannot be, the run goes on behind the last frame that all have or
//! can get: front-ends send the rest again, and what came by datagrams is lost.
//!
//! ```text
//!          synced            end of the run      files of a place
//! .. 40 41 42 | 43 44 45 46  | 47 48 .. 50       cut, and kept as NAME-INDEX.superseded
//! ```
//!
//! Each file is cut behind its last frame that is kept, closed as by [`crate::repair()`], and
//! synced. What is cut off stands in a file beside it before it is cut, so that an interrupted
//! attempt can be made again.
//!
//! Files that were closed say what their frames count, and how far sources were decided: only the
//! frames of the others are read. A file may be closed and not durable, that is, not in the list of
//! files: its table of contents is read too, made again if a power cut took a part of it, and
//! synced. A place that the run does not need is looked at apart, for at most 2 s longer than the
//! required ones: if it cannot take part, the run goes on without it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_frame::{FileFrames, FileHeader, Numbering, Positions, Superseded};
use catchment_model::{Ledger, RunId, SourceLedger};

use crate::apart::at_each;
use crate::error::StorageError;
use crate::repair::Found;
use crate::superseded::Bounds;
use catch_up::CatchUp;
pub use catch_up::Copies;
use place::Place;

mod catch_up;
mod kept;
mod place;

/// How long copies are tried that the system refuses: what cannot be copied is cut off, and a disk
/// or a table of open files may be full for a moment.
const COPY_WITHIN: Duration = Duration::from_secs(2);
const COPY_POLL: Duration = Duration::from_millis(100);

/// A place that gets the run's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// The run's folders there.
    pub folders: Vec<PathBuf>,
    /// Whether the run needs it.
    pub is_required: bool,
    /// Whether frames of files that its lists name as closed are not read again: their writer named
    /// them once they were synced.
    pub trusts_lists: bool,
    /// Whether it is a part of a target, which has some of the run's frames, in any order: what
    /// follows each other is said by their count, not by their numbers.
    pub is_dealt: bool,
}

/// A required place whose frames cannot be read here, but that says how far it has them: a storage
/// node. The caller sends it what it lacks ([`Resumable::lacking`]), and has it cut off what it has
/// beyond the end of the run.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// Its index among the places, where it has no folder.
    pub place: usize,
    /// What it is, for people.
    pub shown: String,
    /// The header of its files, with the highest epoch there and all that is superseded.
    pub header: FileHeader,
    /// The number of the first frame that it does not have.
    pub end: u64,
    /// The sum of its frames.
    pub ledger: Ledger,
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
    /// Why frames that a required place has are cut off, if any are: which one is damaged, or
    /// cannot be copied to a place that lacks it.
    pub cut_off: Option<String>,
}

/// What a required place lacked and another one had, which was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// That other place.
    pub place: usize,
    /// Frames; 0: it lacked none.
    pub frames: u64,
    /// Bytes of the file with them.
    pub bytes: u64,
}

/// What one of several nodes has of a place whose frames they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartLeft {
    /// Its frames.
    pub frames: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// The lowest and the highest of their numbers.
    pub numbers: Option<(u64, u64)>,
}

/// What a place has of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumedPlace {
    /// Why the run goes on without it, if it does: what the place has stays as it is and counts for
    /// nothing, and it must not get frames.
    pub left_out: Option<String>,
    /// The index of its next file.
    pub next_index: u32,
    /// One above the number of its last frame; of one elsewhere, also beyond the run's next one, as
    /// long as it is not cut. It may lack frames before the run's next one: those
    /// for which it had no place, or that it did not get because the run does not need it.
    pub end: u64,
    /// The sum of its frames; empty if it has none.
    pub ledger: Ledger,
    /// What it has counted beside that in a frame which is not kept, and is not counted again: its
    /// next frame is to have it. Empty if there is nothing.
    pub carried: Ledger,
    /// The positions that this frame had of the sources concerned.
    pub carried_positions: Positions,
    /// Of a part of a target: how many frames it has taken, and has without a gap.
    pub items: u64,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// Whether the last of them says that the run has ended.
    pub marks_end: bool,
    /// Which of its frames are in which of them.
    pub file_frames: Vec<FileFrames>,
    /// Its frames.
    pub frames: u64,
    /// Events in its frames.
    pub events: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Of a place that several nodes share: what each of them has.
    pub parts: Vec<PartLeft>,
    /// What it got from another place.
    pub caught_up: CaughtUp,
}

impl ResumedPlace {
    /// One without which the run goes on, and why.
    pub fn left_out(why: String) -> Self {
        Self { left_out: Some(why), ..Self::default() }
    }

    /// What it has counted of a source, in frames and beside them.
    pub fn counted(&self, source: usize) -> SourceLedger {
        let mut all = SourceLedger::default();
        let both = [&self.ledger, &self.carried].into_iter();
        both.filter_map(|counts| counts.sources.get(source)).for_each(|counts| all.add(counts));
        all
    }
}

/// The files of an interrupted run, before anything is changed.
pub struct Interrupted {
    name: String,
    given: Vec<RunPlace>,
    elsewhere: Vec<Elsewhere>,
    cut: Cut,
    /// Where the run goes on without it, why.
    places: Vec<Result<Place, String>>,
}

/// Where frames are cut off beside the run's end.
#[derive(Clone, Copy)]
struct Cut {
    /// The run has no frame with that number or a higher one.
    below: u64,
    /// Whether those behind a missing file are no longer the run's. Otherwise it may be in a folder
    /// that is not there now.
    behind_missing: bool,
}

/// How far a run goes on, for its places.
struct End {
    /// All frames below that number are settled in the required places.
    synced: u64,
    /// The number of the run's next frame.
    sequence: u64,
    superseded: Bounds,
}

impl Interrupted {
    /// Looks at the places of a run. Lost headers of files are made again, as by a repair.
    ///
    /// # Errors
    /// A required place has no file of the run or cannot be read, a recorder still holds a file,
    /// the files are of several runs, or they do not say how to go on.
    pub fn find(places: &[RunPlace]) -> Result<Self, StorageError> {
        Self::find_beside(places, &[])
    }

    /// As [`Interrupted::find`], of a run that has required places elsewhere, too.
    ///
    /// # Errors
    /// As [`Interrupted::find`].
    pub fn find_beside(places: &[RunPlace], elsewhere: &[Elsewhere]) -> Result<Self, StorageError> {
        let folder = places.iter().flat_map(|place| &place.folders).next();
        let folder = folder.cloned().unwrap_or_default();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let given = places.to_vec();
        let wanted = places.iter().map(|place| (place.is_required, place.clone()));
        let mut places = at_each(wanted, |place, given_up| Place::open(&place, given_up))?;
        let elsewhere = elsewhere.to_vec();
        for one in &elsewhere {
            places[one.place] = Ok(Place::elsewhere(one.clone()));
        }
        let cut = Cut { below: u64::MAX, behind_missing: true };
        let mut found = Self { name, given, elsewhere, cut, places };
        let none = || StorageError::no_files(folder.clone());
        let first = found.required().flat_map(|place| &place.files).next().ok_or_else(none)?;
        if first.reader.header().numbering == Numbering::File {
            return Err(none());
        }
        let (first, header) = (first.path.clone(), first.reader.header().clone());
        for place in &mut found.places {
            let Ok(Place { files, is_required, .. }) = place else { continue };
            let other = files.iter().find_map(|file| other_run(file, &first, &header));
            match other {
                Some(error) if *is_required => return Err(error),
                Some(error) => *place = Err(error.to_string()),
                None => {}
            }
        }
        Ok(found)
    }

    /// The header of a file of the first required place.
    pub fn header(&self) -> &FileHeader {
        let first = self.required().flat_map(|place| &place.files).next();
        first.expect("a required place has a file").reader.header()
    }

    /// Cuts and closes the files, catches up required places that lack frames which another one
    /// has, and makes all that durable.
    ///
    /// # Errors
    /// The system refuses. It can be tried again.
    pub fn take(self) -> Result<Resumable, StorageError> {
        self.take_cut()
    }

    /// As [`Interrupted::take`], where the run goes on at that number, if there are more frames,
    /// and some of its folders may not be there now: what is behind a missing file is not cut off
    /// because of that.
    ///
    /// # Errors
    /// As [`Interrupted::take`], and [`StorageError::MissingFile`]: nothing is changed then.
    pub fn take_below(mut self, below: u64) -> Result<Resumable, StorageError> {
        self.cut = Cut { below, behind_missing: false };
        self.take_cut()
    }

    fn take_cut(self) -> Result<Resumable, StorageError> {
        let cut = self.cut;
        let (given, elsewhere) = (self.given.clone(), self.elsewhere.clone());
        let (mut from, catch_up) = self.close(!given.iter().any(|place| place.is_dealt))?;
        let until = Instant::now() + COPY_WITHIN;
        let error = loop {
            match catch_up.copy(&mut from) {
                Ok(()) => return Ok(from),
                Err(error) if error.system().is_some() && Instant::now() < until => {
                    std::thread::sleep(COPY_POLL);
                }
                Err(error) => break error,
            }
        };
        // What was copied by then is a place's own now.
        let found = Self { cut, ..Self::find_beside(&given, &elsewhere)? };
        let (mut from, _) = found.close(false)?;
        from.cut_off = Some(format!("frame {} cannot be copied: {error}", from.sequence));
        Ok(from)
    }

    /// Cuts and closes the files at the end of the run: that of the place that has most, if the
    /// others can be caught up and `catches_up`.
    fn close(mut self, catches_up: bool) -> Result<(Resumable, CatchUp), StorageError> {
        let headers = || self.looked_at().flat_map(Place::headers);
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
        let synced = self.looked_at().map(|place| place.synced).max().unwrap_or(0);
        self.check_elsewhere(synced)?;
        let mut required: Vec<(usize, &mut Place)> = Vec::new();
        for (number, place) in self.places.iter_mut().enumerate() {
            required.extend(
                place.as_mut().ok().filter(|place| place.is_required).map(|of| (number, of)),
            );
        }
        let cut = self.cut;
        required.iter_mut().try_for_each(|(_, place)| place.find_end(synced, &before, cut))?;
        let required: Vec<_> = required.iter().map(|(number, place)| (*number, &**place)).collect();
        let mut catch_up = match catches_up {
            true => CatchUp::of(&required, &before),
            false => CatchUp::none(&required),
        };
        let sequence = catch_up.sequence.min(cut.below);
        let stream = self.header().stream;
        superseded.push(Superseded { stream, epoch, sequence });
        let (run, run_number) = (self.header().run, self.header().run_number);
        let bounds = Bounds::of(superseded.iter().copied());
        self.leave_beyond(sequence, &bounds)?;
        let mut positions = Positions::default();
        for place in self.required() {
            positions.add(place.positions(&bounds, sequence)?.records());
        }
        let end = Arc::new(End { synced, sequence, superseded: bounds });
        let (mut places, mut looked_at) = (Vec::new(), Vec::new());
        for place in self.places {
            places.push(place.map(|place| looked_at.push((place.is_required, place))));
        }
        let closed = at_each(looked_at, move |place, given_up| place.close(&end, given_up))?;
        let mut closed = closed.into_iter();
        let places = places.into_iter().map(|place| {
            let place = place.and_then(|()| closed.next().expect("one that was looked at"));
            place.unwrap_or_else(ResumedPlace::left_out)
        });
        let (name, mut places): (_, Vec<ResumedPlace>) = (self.name, places.collect());
        for one in self.elsewhere {
            if let Some(holder) = catch_up.leave(one.place) {
                places[one.place].caught_up.place = holder;
            }
        }
        let cut_off = catch_up.cut_off.clone();
        let from = Resumable {
            run,
            name,
            run_number,
            sequence,
            epoch,
            superseded,
            positions,
            places,
            cut_off,
        };
        Ok((from, catch_up))
    }

    /// Checks that each place elsewhere has what it had when all frames below that number were
    /// settled.
    fn check_elsewhere(&self, synced: u64) -> Result<(), StorageError> {
        let behind = self.elsewhere.iter().find(|place| place.end < synced);
        behind.map_or(Ok(()), |Elsewhere { shown, end, .. }| {
            let (place, end) = (shown.clone(), *end);
            Err(StorageError::Behind { place, end, synced })
        })
    }

    /// A frame of a required place that also stands for frames beyond the run's end counts what is
    /// sent again of the sources that another such place has up to there: it is not kept where
    /// there are such. What it counts of the others, which go on behind it, is carried.
    fn leave_beyond(&mut self, sequence: u64, superseded: &Bounds) -> Result<(), StorageError> {
        let stored = |place: &Place| -> BTreeSet<usize> {
            let sources = place.headers().next().map(|header| &header.schema.sources);
            let sources = sources.into_iter().flatten().enumerate();
            sources.filter(|(_, source)| source.stored).map(|(source, _)| source).collect()
        };
        let is_whole = |place: &&Place| place.stands_beyond(sequence, superseded).is_none();
        let whole: BTreeSet<usize> = self.required().filter(is_whole).flat_map(stored).collect();
        for place in self.places.iter_mut().flatten().filter(|place| place.is_required) {
            let own = stored(place);
            if let Some(frame) = place.stands_beyond(sequence, superseded)
                && !own.is_disjoint(&whole)
            {
                place.leave(frame, |source| own.contains(&source) && !whole.contains(&source))?;
            }
        }
        Ok(())
    }

    fn files(&self) -> impl Iterator<Item = &Found> {
        self.looked_at().flat_map(|place| &place.files)
    }

    fn looked_at(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().flatten()
    }

    fn required(&self) -> impl Iterator<Item = &Place> {
        self.looked_at().filter(|place| place.is_required)
    }
}

/// Why a file is not of the run of that first one, if so.
fn other_run(file: &Found, first: &Path, of_first: &FileHeader) -> Option<StorageError> {
    let (path, first, header) = (file.path.clone(), first.to_owned(), file.reader.header());
    let (got, expected) = (header.run, of_first.run);
    if got != expected {
        return Some(StorageError::ForeignFile { path, got, first, expected });
    }
    // Files of a run have all its sources, whatever they store of them.
    let sources = |header: &FileHeader| header.schema.sources.len();
    let differs = sources(header) != sources(of_first);
    differs.then_some(StorageError::SchemaDiffers { path, first })
}
