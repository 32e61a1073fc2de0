//! Frames stored more than once in a run, and the choice of the copy to read.
//!
//! A frame can be sent or written again, because its writer did not know that it had been written.
//! It is identified by stream, variant and sequence, in any file; only variant 0 is read, so stream
//! and sequence identify frames. Of equal frames, readers take the first whole one, in the place of
//! the first: a damaged copy must not hide readable data. Since version 1.3 one number is one
//! frame: of two that differ, one is still read, and `verify` names the other. If no frame is
//! stored twice, finding that out reads nothing; of repeated frames, up to 1 GiB is verified when
//! the run is opened, and beyond that the first copy is assumed whole.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;

use catchment_frame::{
    ColumnEntry, ColumnKind, FrameInfo, FrameKind, FrameSummary, Numbering, verify_frame,
};
use serde::Serialize;

use crate::open::RunFile;

/// A file's index in the run, and a frame's index in the file.
pub(crate) type Location = (usize, usize);

/// The frames stored more than once in a run.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// The copies of each such frame, in file order.
    groups: Vec<Vec<Location>>,
    /// Copies that are not read because they are damaged.
    pub damaged: Vec<DamagedCopy>,
    /// Copies that differ from the one that is read in properties that copies must share: each with
    /// the one that is read.
    pub differing: Vec<(Location, Location)>,
    /// The copies that are read and are not the first: each with the location of the first, in
    /// whose place they are returned.
    moved: HashMap<Location, Location>,
}

/// A damaged frame of which the run has a whole copy, which is read instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedCopy {
    /// The damaged copy's file.
    pub file: PathBuf,
    /// Its index in that file, from 0.
    pub frame: usize,
    /// The damage.
    pub problem: String,
    /// The whole copy's file.
    pub whole_file: PathBuf,
    /// Its index in that file, from 0.
    pub whole_frame: usize,
}

impl fmt::Display for DamagedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, whole_file, whole_frame, .. } = self;
        let whole_file = whole_file.display();
        write!(f, "{problem}; frame {whole_frame} of {whole_file} is a whole copy, which is read")
    }
}

impl Copies {
    /// Finds frames stored more than once in the run, and marks in each file those that are not
    /// read.
    pub(crate) fn find(files: &mut [RunFile]) -> Self {
        files.iter_mut().for_each(|file| file.repeated.clear());
        let groups = if rises(files) { Vec::new() } else { groups(files) };
        let mut copies = Self { groups, ..Self::default() };
        let mut bytes_left = VERIFIED_BYTES_MAX;
        for group in &copies.groups {
            let whole = first_whole(files, group, &mut bytes_left, &mut copies.damaged);
            // If none is whole, readers report unreadable parts themselves.
            let read = whole.unwrap_or(group[0]);
            if read != group[0] {
                copies.moved.insert(read, group[0]);
            }
            for &other in group.iter().filter(|location| **location != read) {
                if !alike(files, read, other) {
                    copies.differing.push((other, read));
                }
                files[other.0].repeated.push(other.1);
            }
        }
        files.iter_mut().for_each(|file| file.repeated.sort_unstable());
        copies
    }

    /// Of several folders, whose frames are found by their numbers: only what is damaged is known.
    pub(crate) fn by_number(damaged: Vec<DamagedCopy>) -> Self {
        Self { damaged, ..Self::default() }
    }

    /// The location at which a frame that is read is returned: its own, or that of its first copy.
    pub(crate) fn place_of(&self, location: Location) -> Location {
        self.moved.get(&location).copied().unwrap_or(location)
    }

    /// The copies of each frame that is stored more than once.
    pub(crate) fn groups(&self) -> &[Vec<Location>] {
        &self.groups
    }

    /// The other copies of a frame.
    pub(crate) fn others(&self, location: Location) -> impl Iterator<Item = Location> {
        let group = self.groups.iter().find(|group| group.contains(&location));
        group.into_iter().flatten().copied().filter(move |other| *other != location)
    }
}

/// The first whole one of a frame's copies, if there is one. Those before it are damaged, and named
/// with it.
pub(crate) fn first_whole(
    files: &mut [RunFile],
    group: &[Location],
    bytes_left: &mut u64,
    damaged: &mut Vec<DamagedCopy>,
) -> Option<Location> {
    let mut found = Vec::new();
    let &(whole_file, whole_frame) = group.iter().find(|&&location| {
        let problem = problem(files, location, bytes_left);
        problem.map(|problem| found.push((location, problem))).is_none()
    })?;
    let path = |file: usize| files[file].path.clone();
    damaged.extend(found.into_iter().map(|((file, frame), problem)| DamagedCopy {
        file: path(file),
        frame,
        problem,
        whole_file: path(whole_file),
        whole_frame,
    }));
    Some((whole_file, whole_frame))
}

/// Whether a frame was verified, and is damaged.
pub(crate) fn is_known_damaged(files: &[RunFile], (file, index): Location) -> bool {
    let file = &files[file];
    let offset = file.reader.frames()[index].offset;
    file.verified.get(&offset).is_some_and(Option::is_some)
}

/// Whether every stream's numbers rise through all files: then no frame is stored twice, and
/// nothing more needs to be checked.
fn rises(files: &[RunFile]) -> bool {
    let mut newest: HashMap<u32, u64> = HashMap::new();
    let mut infos = files.iter().flat_map(|file| file.reader.frames()).map(|frame| &frame.info);
    infos.all(|info| {
        let before = newest.insert(info.origin.stream, info.sequence);
        before.is_none_or(|before| before < info.sequence)
    })
}

/// The locations of each frame stored more than once in the run.
fn groups(files: &[RunFile]) -> Vec<Vec<Location>> {
    let mut first: HashMap<(u32, u64), Location> = HashMap::new();
    let mut copies: BTreeMap<Location, Vec<Location>> = BTreeMap::new();
    for (file, run_file) in files.iter().enumerate() {
        for (index, frame) in run_file.reader.frames().iter().enumerate() {
            let identity = (frame.info.origin.stream, frame.info.sequence);
            let location = *first.entry(identity).or_insert((file, index));
            if location != (file, index) && are_copies(files, location, (file, index)) {
                copies.entry(location).or_insert_with(|| vec![location]).push((file, index));
            }
        }
    }
    copies.into_values().collect()
}

/// Whether two frames of one number are one frame.
fn are_copies(files: &[RunFile], one: Location, other: Location) -> bool {
    // The number of a skipped frame is that of the frame itself.
    let holds_data = |(file, frame): Location| {
        let kind = files[file].reader.frames()[frame].info.kind;
        matches!(kind, FrameKind::Events | FrameKind::Channels)
    };
    let of_run = |(file, _): Location| numbers_identify(&files[file]);
    [one, other].into_iter().all(|location| of_run(location) && holds_data(location))
        || alike(files, one, other)
}

/// Whether two frames have the same contents: ranges and rows, and all columns by their sizes.
/// Since version 1.3 a frame that is written again may have other codecs, and therefore other
/// checksums. In earlier files, and if each file numbers its frames separately, as in trends,
/// frames with equal numbers can be different: there checksums must be equal, too. Frames of two
/// folders have increments of their own.
pub(crate) fn alike(files: &[RunFile], one: Location, other: Location) -> bool {
    let frame = |(file, index): Location| -> &FrameSummary { &files[file].reader.frames()[index] };
    // The sender of a repeated frame may have had another epoch: stream and sequence are its
    // identity.
    let info = |location| {
        let FrameInfo { kind, time_first_ns, time_last_ns, key_first, key_last, rows, .. } =
            frame(location).info;
        (kind, time_first_ns, time_last_ns, key_first, key_last, rows)
    };
    if info(one) != info(other) {
        return false;
    }
    let stored_alike = ![one, other].into_iter().all(|(file, _)| numbers_identify(&files[file]));
    let own = match files[one.0].place == files[other.0].place {
        true => None,
        false => files[one.0].header().schema.column(None, &ColumnKind::LedgerIncrement),
    };
    let contents = |(file, index): Location| {
        let of = |entry: &ColumnEntry| {
            let stored = stored_alike.then_some((entry.codec, entry.crc32c));
            (entry.id, entry.raw_bytes, entry.rows, stored)
        };
        let entries = files[file].reader.columns(index).ok()?;
        // A damaged header's columns come from the TOC, in another order.
        let entries = entries.iter().filter(|entry| own != Some(entry.id));
        let mut contents: Vec<_> = entries.map(of).collect();
        contents.sort_unstable_by_key(|&(id, ..)| id);
        Some(contents)
    };
    match (contents(one), contents(other)) {
        (Some(one), Some(other)) => one == other,
        // A damaged directory gives nothing to compare; a frame without rows has no ranges.
        _ => frame(one).info.rows > 0,
    }
}

/// Whether a file's frame numbers are those of the run, according to its header.
pub(crate) fn numbers_identify(file: &RunFile) -> bool {
    let minor = file.reader.header_rest().minor;
    minor >= NUMBERING_MINOR && file.header().numbering == Numbering::Run
}

/// The damage of a frame; none if it is whole, or if no more frames may be verified.
fn problem(files: &mut [RunFile], (file, index): Location, bytes_left: &mut u64) -> Option<String> {
    let file = &mut files[file];
    let frame = file.reader.frames()[index];
    // What is known costs no more of them at each refresh.
    if let Some(known) = file.verified.get(&frame.offset) {
        return known.clone();
    }
    *bytes_left = bytes_left.checked_sub(frame.frame_bytes)?;
    let found = verify_frame(&file.reader, index).into_iter().next();
    let found = found.map(|error| file.error(error).to_string());
    file.verified.insert(frame.offset, found.clone());
    found
}

/// Bytes of repeated frames that are verified.
pub(crate) const VERIFIED_BYTES_MAX: u64 = 1 << 30;
/// The minor version since which headers give the scope of the numbers.
const NUMBERING_MINOR: u16 = 3;
