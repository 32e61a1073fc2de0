//! Several folders of one run, read as one run.
//!
//! A run that is recorded to several targets has a folder in each, with files of its own and the
//! same frames under the same numbers; what a target did not get is a gap in its folder, or a
//! skipped frame. Together, each frame is read from the first folder that has it, in the order in
//! which the folders are given: that is decided by the index alone, so opening a run whose files
//! are closed reads no data. In a file that its writer did not close, a power cut may have taken a
//! part of frames that the index has, and up to 1 GiB of it is read: of frames in such a file that
//! others have too, and of those that one place has twice, the first whole copy is read, as in one
//! folder ([`crate::copies`]). If a column of any other frame turns out to be damaged, reading it
//! is an error that names the file; the folders given in another order are read in that order.
//!
//! A target with several folders has one sequence of files, spread over them: these folders are one
//! *place*, whose files are read as those of one folder. Its name, in the files' headers, tells.
//! What is said of folders here holds of places. So are the folders at the storage nodes to which a
//! target's frames are dealt: each is a *part* of one place, with files and a ledger of its own.
//! Two parts, or one, have some frames twice, where a node was left out and came back: one copy is
//! read, and counted.
//!
//! Frames are identified by stream and number, as in files since version 1.3. In other files, only
//! copies of whole files are recognised.
//!
//! Folders that lack sources or channels of the run are left out beside one that has all; otherwise
//! all must have the same.
//!
//! An audit compares each folder with its own ledger, too ([`crate::audit()`]).
//!
//! The ledger is that of the folder with the most rows. Frames that it lacks and another has are
//! counted in it as recorded, no longer as what that folder counted in their place. Of a run that
//! several nodes recorded, each a stream, it is the sum over the streams of these.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use catchment_frame::{FileHeader, FrameInfo, FrameKind, Numbering, frame_ledger};
use catchment_model::{Entry, Ledger, SourceLedger};
use serde::Serialize;

use crate::audit::what_is_read_is_durable;
use crate::copies::{
    DamagedCopy, Location, VERIFIED_BYTES_MAX, alike, first_whole, is_known_damaged,
    numbers_identify,
};
use crate::error::StorageError;
use crate::open::{self, FileProblem, RunFile};
use crate::run::Run;
use crate::superseded;
use crate::verify::{Problem, holes, problem_in};

/// Leaves the folders that have everything (variant 0 of the run) if there are any: what others
/// have is there, too, and frames of two variants have different columns.
pub(crate) fn take_whole(
    paths: &mut Vec<PathBuf>,
    files: &mut Vec<RunFile>,
    problems: &mut Vec<FileProblem>,
) {
    let Some(run) = files.first().map(|file| file.header().run) else { return };
    // A file of another run is an error, whatever it has of that.
    let is_whole = |file: &RunFile| file.header().variant == 0 || file.header().run != run;
    let whole: BTreeSet<usize> =
        files.iter().filter(|file| is_whole(file)).map(|file| file.folder).collect();
    // A folder without files may be one of a target that has several.
    let left_out: BTreeSet<usize> = files.iter().map(|file| file.folder).collect();
    let left_out = &left_out - &whole;
    if whole.is_empty() || left_out.is_empty() {
        return;
    }
    let others = files.chunk_by(|file, next| file.folder == next.folder);
    let others = others.filter(|files| !is_whole(&files[0])).map(|files| FileProblem::Variant {
        path: paths[files[0].folder].clone(),
        variant: files[0].header().variant,
    });
    problems.extend(others);
    files.retain(is_whole);
    for file in files {
        file.folder -= left_out.range(..file.folder).count();
    }
    let mut folders = 0..;
    paths.retain(|_| folders.next().is_none_or(|folder| !left_out.contains(&folder)));
}

/// Checks that the files of several folders, those of each in order, are of one run. Files whose
/// numbers do not identify frames are put in order as those of one folder.
///
/// # Errors
/// Files that do not belong together.
pub(crate) fn join(
    files: &mut Vec<RunFile>,
    problems: &mut Vec<FileProblem>,
) -> Result<(), StorageError> {
    files.iter().skip(1).try_for_each(|file| open::check_alike(file, &files[0]))?;
    if files.iter().all(numbers_identify) {
        join_places(files, problems)?;
        check_numbers(files)?;
        return superseded::refuse(files);
    }
    files.iter_mut().for_each(|file| (file.folder, file.place) = (0, 0));
    problems.retain(|problem| !matches!(problem, FileProblem::Missing { .. }));
    problems.extend(open::put_in_order(files)?);
    Ok(())
}

/// Puts the files in the order of their places, and those of each place in order.
///
/// # Errors
/// Files of a place that do not belong together; all of them are still there.
pub(crate) fn join_places(
    files: &mut Vec<RunFile>,
    problems: &mut Vec<FileProblem>,
) -> Result<(), StorageError> {
    let mut of_targets: HashMap<(u32, String), usize> = HashMap::new();
    for file in files.iter_mut() {
        file.place = match target_of(file.header()).map(str::to_owned) {
            Some(target) => {
                *of_targets.entry((file.header().stream, target)).or_insert(file.folder)
            }
            None => file.folder,
        };
    }
    files.sort_by_key(|file| (file.place, part_of(file), file.folder));
    let (mut rest, mut result) = (std::mem::take(files), Ok(()));
    while let Some(place) = rest.first().map(|file| (file.place, part_of(file))) {
        let end = rest.partition_point(|file| (file.place, part_of(file)) <= place);
        let mut of_place: Vec<RunFile> = rest.drain(..end).collect();
        if of_place.first().map(|file| file.folder) != of_place.last().map(|file| file.folder) {
            // What one folder lacks may be in another.
            let target = of_place[0].header().target.clone();
            problems.retain(|problem| match problem {
                FileProblem::Missing { target: of, .. } => *of != target,
                _ => true,
            });
            match open::put_in_order(&mut of_place) {
                Ok(found) => problems.extend(found),
                Err(error) => result = Err(error),
            }
        }
        files.append(&mut of_place);
    }
    result
}

/// The target that a file is of: for a part, whose header names that too, without its number.
fn target_of(header: &FileHeader) -> Option<&str> {
    let target = header.target.as_deref()?;
    let of_part = target.rsplit_once(':').filter(|_| header.part.is_some());
    Some(of_part.map_or(target, |(target, _)| target))
}

/// The part of its target's frames that a file has, if they are dealt to several nodes.
fn part_of(file: &RunFile) -> Option<u32> {
    file.header().part.map(|part| part.number)
}

/// The files of a place, by part: all of them where its frames are not dealt.
pub(crate) fn parts(files: &[RunFile]) -> impl Iterator<Item = &[RunFile]> {
    files.chunk_by(|file, next| part_of(file) == part_of(next))
}

/// Whether files are parts of a target's frames: these are not in order in each of them.
pub(crate) fn are_parts(files: &[RunFile]) -> bool {
    files.iter().any(|file| part_of(file).is_some())
}

/// The parts of targets of which no file is in the folders that were opened. A folder without files
/// may be that of a node that got no frame.
pub(crate) fn missing_parts(paths: &[PathBuf], files: &[RunFile]) -> Vec<FileProblem> {
    let mut missing = Vec::new();
    let there: BTreeSet<usize> = files.iter().map(|file| file.folder).collect();
    let empty = paths.len() - there.len();
    for files in files.chunk_by(|file, next| file.place == next.place) {
        let header = files[0].header();
        let (Some(part), Some(target)) = (header.part, target_of(header)) else { continue };
        let there: BTreeSet<u32> = files.iter().filter_map(part_of).collect();
        // Bounded, because anyone can write a count of 32 bits.
        let numbers = (0..part.count.min(PARTS_MAX)).filter(|number| !there.contains(number));
        missing.extend(numbers.map(|number| FileProblem::MissingPart {
            target: target.to_owned(),
            number,
            count: part.count,
        }));
    }
    if missing.len() > empty { missing } else { Vec::new() }
}

/// Frames of a target that are also other items of its parts; of any kind, since all have
/// increments. A node counts each of its items, but only once: an item that a node was sent again
/// is in two of its files, and in its ledger once. The first item that is not known to be damaged
/// is none of them.
fn copies_in_parts(files: &[RunFile]) -> Vec<Location> {
    let (mut seen, mut others, mut copies) = (HashMap::new(), HashSet::new(), Vec::new());
    for (file, run_file) in files.iter().enumerate() {
        let Some(part) = run_file.header().part else { continue };
        for (index, frame) in run_file.reader.frames().iter().enumerate() {
            let key = (run_file.place, number(&frame.info), frame.info.kind.number());
            let item = (part.number, part.first_item.saturating_add(index as u64));
            let here = (file, index);
            let first = seen.entry(key).or_insert((item, here));
            let mut other = (item, here);
            if is_known_damaged(files, first.1) && !is_known_damaged(files, here) {
                std::mem::swap(first, &mut other);
            }
            if first.0 != other.0 && others.insert((key, other.0)) {
                copies.push(other.1);
            }
        }
    }
    copies
}

/// Other items of parts that are the same frame as one, of any kind: what they count is the same.
pub(crate) fn other_items(files: &[RunFile], one: Location) -> impl Iterator<Item = Location> {
    let key = move |file: usize, info: &FrameInfo| {
        let of_part = files[file].header().part.is_some();
        of_part.then_some((files[file].place, number(info), info.kind.number()))
    };
    let wanted = files[one.0].reader.frames().get(one.1);
    let wanted = wanted.and_then(|frame| key(one.0, &frame.info));
    // Nothing is looked at for a run without parts, of which each frame may be asked for.
    let files = if wanted.is_some() { files } else { &[] };
    let all = files.iter().enumerate().flat_map(move |(file, run_file)| {
        let frames = run_file.reader.frames().iter().enumerate();
        let same = frames.filter(move |(_, frame)| key(file, &frame.info) == wanted);
        same.map(move |(index, _)| (file, index))
    });
    all.filter(move |other| *other != one)
}

/// Takes what copies count out of the sum of the ledgers of parts. What cannot be read in any copy
/// stays.
fn without_copies(files: &[RunFile], ledger: &mut Ledger) {
    let mut sum = Ledger::new(ledger.sources.len());
    copies_in_parts(files).into_iter().for_each(|copy| sum.add(&counted(files, copy)));
    what_is_read_is_durable(&mut sum);
    *ledger = ledger.since(&sum);
}

/// What the ledger of a part has of one of its frames: what the frame counts, or a whole copy of
/// it. A file that a repair closed has what could be read of it, which is less if a power cut took
/// a part of the frame; its table has no sum of its frames, as that of a writer has.
fn counted(files: &[RunFile], one: Location) -> Ledger {
    let read = |(file, index): Location| frame_ledger(&files[file].reader, index);
    let (counts, errors) = read(one);
    let reader = &files[one.0].reader;
    let is_repaired = || reader.flags().is_some_and(|flags| flags.repaired);
    if errors.is_empty() || is_repaired() && matches!(reader.frames_ledger(), Ok(None)) {
        return counts;
    }
    let mut others = other_items(files, one).map(read);
    others.find(|(_, errors)| errors.is_empty()).map_or(counts, |(whole, _)| whole)
}

/// Checks that frames of one number have as many rows, and keys that overlap, in all folders: a run
/// that was written in other frames, or by nodes that took each other's stream, has others under
/// the same numbers. Other differences are damage, which `verify` names.
fn check_numbers(files: &[RunFile]) -> Result<(), StorageError> {
    let mut seen = HashMap::new();
    for file in files {
        for (_, info) in data(file) {
            let (first, before) = *seen.entry(number(info)).or_insert((file, info));
            let is_same = (before.kind, before.rows) == (info.kind, info.rows);
            let overlap = before.key_first <= info.key_last && info.key_first <= before.key_last;
            // Channels have no keys.
            if !is_same || !overlap && info.kind == FrameKind::Events {
                let (path, first) = (file.path.clone(), first.path.clone());
                return Err(StorageError::OtherFrame { sequence: info.sequence, path, first });
            }
        }
    }
    Ok(())
}

/// A problem of a folder, with its path if there are several.
pub(crate) fn named(problem: FileProblem, paths: &[PathBuf], path: &Path) -> FileProblem {
    match problem {
        FileProblem::Missing { index, target, .. } if paths.len() > 1 => {
            FileProblem::Missing { index, folder: Some(path.to_owned()), target }
        }
        problem => problem,
    }
}

/// Of each stream the place with the most rows, the first of equals: indices of places, rising.
/// Where the total of that one is damaged, the next one that has a total and ended as it did.
pub(crate) fn fullest(files: &[RunFile]) -> Vec<usize> {
    let places: Vec<_> = files.chunk_by(|file, next| file.place == next.place).collect();
    let mut streams: BTreeMap<u32, Vec<(Reverse<u64>, usize)>> = BTreeMap::new();
    for (place, files) in places.iter().enumerate() {
        let rows = files.iter().flat_map(data).map(|(_, info)| info.rows);
        let rows = rows.fold(0, u64::saturating_add);
        streams.entry(stream(files)).or_default().push((Reverse(rows), place));
    }
    let has_total = |place: usize| total_damage(places[place]).next().is_none();
    let mut chosen = Vec::new();
    for mut of_stream in streams.into_values() {
        of_stream.sort_unstable();
        let first = of_stream[0].1;
        let replaces = |&other: &usize| {
            has_total(other) && (marks_end(places[other]) || !marks_end(places[first]))
        };
        let other = match of_stream.len() > 1 && !has_total(first) {
            true => of_stream.iter().map(|one| one.1).find(replaces),
            false => None,
        };
        chosen.push(other.unwrap_or(first));
    }
    chosen.sort_unstable();
    chosen
}

/// The damage of the totals in the last files of a place.
pub(crate) fn total_damage(files: &[RunFile]) -> impl Iterator<Item = Problem> {
    let damage = |last: &RunFile| {
        let is_damage = last.error(last.reader.ledger().err()?).is_damage();
        let error = last.reader.ledger().err().filter(|_| is_damage)?;
        Some(problem_in(last, None, error))
    };
    parts(files).filter_map(<[RunFile]>::last).filter_map(damage)
}

/// Whether the last file of a place, or of a part of one, marks an orderly end of the run.
fn marks_end(files: &[RunFile]) -> bool {
    let mut lasts = parts(files).filter_map(<[RunFile]>::last);
    lasts.any(|last| last.reader.flags().is_some_and(|flags| flags.run_ended))
}

/// Whether the places of the ledger lack increments of frames that they had: in files that are
/// gone, or where frames should be.
pub(crate) fn lacks_increments(run: &Run) -> bool {
    let mut parts = run.all_files().of_ledgers().flat_map(|(_, files)| parts(files));
    parts.any(|files| {
        let is_gap = |(index, file): (usize, &RunFile)| file.header().file_index as usize != index;
        files.iter().enumerate().any(is_gap)
            || files.iter().any(|file| holes(file).next().is_some())
    })
}

/// The stream of a place: of its frames, as far as it has any.
pub(crate) fn stream(files: &[RunFile]) -> u32 {
    let mut frames = files.iter().flat_map(data).map(|(_, info)| info.origin.stream);
    frames.next().unwrap_or_else(|| files[0].header().stream)
}

/// Whether the files are of several places.
pub(crate) fn are_several(files: &[RunFile]) -> bool {
    files.last().is_some_and(|last| last.place > 0)
}

/// Whether frames are found by their numbers: files of several places, or parts, have copies of
/// frames, and frames in between those of others.
pub(crate) fn are_by_number(files: &[RunFile]) -> bool {
    are_several(files) || are_parts(files)
}

/// Verifies the copies of frames, which are together, where a damaged one must be expected: in
/// files that were not closed by their writers, and of frames that one place has twice. The last
/// ones first, which a power cut takes first. Adds the damaged ones of which another one is whole.
fn check_copies<K: PartialEq>(
    files: &mut [RunFile],
    all: &[(K, Location)],
    bytes_left: &mut u64,
    damaged: &mut Vec<DamagedCopy>,
) {
    let groups = all.chunk_by(|one, next| one.0 == next.0);
    for group in groups.rev().filter(|group| group.len() > 1) {
        let group: Vec<Location> = group.iter().map(|one| one.1).collect();
        let place = |(file, _): Location| files[file].place;
        let is_twice = group.windows(2).any(|pair| place(pair[0]) == place(pair[1]));
        if is_twice || may_be_torn(&files[group[0].0]) {
            let _whole = first_whole(files, &group, bytes_left, damaged);
        }
    }
}

/// Whether a power cut may have taken a part of a file's frames. While one is written its frames
/// are whole.
fn may_be_torn(file: &RunFile) -> bool {
    let is_repaired = || file.reader.flags().is_some_and(|flags| flags.repaired);
    !file.locked && (!file.reader.closed() || is_repaired())
}

/// The frames with rows that are read, in the order of their numbers: of copies the first one that
/// is not known to be damaged. Marks those that a folder itself stores twice. Returns the damaged
/// ones, too, of which another one is whole.
pub(crate) fn locations(files: &mut [RunFile]) -> (Vec<Location>, Vec<DamagedCopy>) {
    let (mut all, mut others) = (Vec::new(), Vec::new());
    for (file, run_file) in files.iter_mut().enumerate() {
        run_file.repeated.clear();
        all.extend(data(run_file).map(|(index, info)| (number(info), (file, index))));
        // Frames of parts that have no rows have increments.
        let is_part = run_file.header().part.is_some();
        let frames = run_file.reader.frames().iter().enumerate().filter(|_| is_part);
        let has_none = |info: &FrameInfo| info.rows == 0 || info.kind == FrameKind::SKIPPED;
        let without_rows = frames.filter(|(_, frame)| has_none(&frame.info));
        let key = |info: &FrameInfo| (number(info), info.kind.number());
        others.extend(without_rows.map(|(index, frame)| (key(&frame.info), (file, index))));
    }
    // Files are in the order of their folders.
    all.sort_unstable();
    others.sort_unstable();
    let (mut bytes_left, mut damaged) = (VERIFIED_BYTES_MAX, Vec::new());
    check_copies(files, &others, &mut bytes_left, &mut damaged);
    check_copies(files, &all, &mut bytes_left, &mut damaged);
    let (mut locations, mut repeated) = (Vec::new(), copies_in_parts(files));
    for group in all.chunk_by(|one, next| one.0 == next.0) {
        let best = |group: &[(_, Location)]| {
            let mut whole = group.iter().filter(|one| !is_known_damaged(files, one.1));
            whole.next().unwrap_or(&group[0]).1
        };
        locations.push(best(group));
        for place in group.chunk_by(|one, next| files[one.1.0].place == files[next.1.0].place) {
            let kept = best(place);
            repeated.extend(place.iter().map(|one| one.1).filter(|one| *one != kept));
        }
    }
    for (file, index) in repeated {
        files[file].repeated.push(index);
    }
    for file in files.iter_mut() {
        file.repeated.sort_unstable();
        file.repeated.dedup();
    }
    (locations, damaged)
}

/// A frame's place among those of all folders.
pub(crate) fn number(info: &FrameInfo) -> (u64, u32) {
    (info.sequence, info.origin.stream)
}

/// Other frames with the number of one.
pub(crate) fn others(files: &[RunFile], one: Location) -> impl Iterator<Item = Location> {
    let wanted = data(&files[one.0]).find(|(index, _)| *index == one.1);
    let wanted = wanted.map(|(_, info)| number(info));
    let all = files.iter().enumerate().flat_map(move |(file, run_file)| {
        let same = data(run_file).filter(move |(_, info)| Some(number(info)) == wanted);
        same.map(move |(index, _)| (file, index))
    });
    all.filter(move |other| *other != one)
}

/// Frames that are not read and differ from the one with their number that is, with that one.
pub(crate) fn differing(run: &Run) -> Vec<(Location, Location)> {
    let files = run.run_files();
    let frames = run.frames().iter().chain(run.channel_frames());
    let read: HashMap<_, _> =
        frames.map(|frame| (number(&frame.summary.info), (frame.file, frame.index))).collect();
    let mut differing = Vec::new();
    for (file, run_file) in files.iter().enumerate() {
        for (index, info) in data(run_file) {
            let here = (file, index);
            let read = read.get(&number(info)).filter(|read| **read != here);
            differing.extend(read.filter(|read| !alike(files, **read, here)).map(|r| (here, *r)));
        }
    }
    differing
}

/// Counts the frames that the folder of the ledger lacks and another one has as recorded, and those
/// that its parts have twice once. Returns what cannot be read of them, which is not counted.
pub(crate) fn lend(run: &Run, ledger: &mut Ledger, kind: LedgerKind) -> Vec<Problem> {
    let mut problems = Vec::new();
    if kind == LedgerKind::Total {
        without_copies(run.run_files(), ledger);
    }
    for (file, index) in lent(run) {
        let (of_frame, errors) = frame_ledger(&file.reader, index);
        problems.extend(errors.into_iter().map(|error| problem_in(file, Some(index), error)));
        for (mine, of_frame) in ledger.sources.iter_mut().zip(&of_frame.sources) {
            exchange(mine, of_frame, kind);
        }
    }
    problems
}

/// Checks that a run was opened from one place, for operations on its files or its ledger.
///
/// # Errors
/// The operation, and how many folders there are.
pub(crate) fn check_one(run: &Run, operation: &'static str) -> Result<(), StorageError> {
    match run.paths().len() {
        folders if are_several(run.run_files()) => {
            Err(StorageError::OneFolder { operation, folders })
        }
        _ => Ok(()),
    }
}

/// Whether data were lost that no folder has. `reported`: the folder of the ledger says so.
pub(crate) fn lost_data(run: &Run, reported: bool) -> bool {
    let in_all_folders = || match run.recorded_ledger() {
        Ok(Some(ledger)) if lent(run).next().is_some() => ledger.balance().lost_data(),
        _ => true,
    };
    // Where the last file is there, missing numbers tell what was in damaged ones.
    let after_the_last = !run.ended() && !run.damage().is_empty();
    run.frames_missing() > 0 || after_the_last || (reported && in_all_folders())
}

/// What a ledger has of the frames that its folder lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerKind {
    /// It is the recorder's total: a frame that it does not count as lacking was recorded, in a
    /// file that is gone.
    Total,
    /// It is the sum over the folder's frames: a frame that it does not count as lacking is after
    /// the last of them, or in a file that is gone.
    Sum,
}

/// The frames that are read from other folders because the folder of the ledger lacks them.
fn lent(run: &Run) -> impl Iterator<Item = (&RunFile, usize)> {
    let files = run.run_files();
    let several = are_several(files);
    let own = run.all_files().of_ledgers().flat_map(|(_, files)| files).filter(|_| several);
    let held: HashSet<_> = own.flat_map(data).map(|(_, info)| number(info)).collect();
    let frames = run.frames().iter().chain(run.channel_frames());
    let frames =
        frames.filter(move |frame| several && !held.contains(&number(&frame.summary.info)));
    frames.map(move |frame| (&files[frame.file], frame.index))
}

/// Counts a frame's fragments of a source as recorded in place of what was counted for them.
fn exchange(counts: &mut SourceLedger, of_frame: &SourceLedger, kind: LedgerKind) {
    let in_flight = counts.balance().fragments_in_flight;
    let fragments = of_frame[Entry::FragmentsRecorded];
    let not_taken = fragments.min(counts[Entry::FragmentsNotTaken]);
    let discarded = (fragments - not_taken).min(counts[Entry::FragmentsDiscardedDisk]);
    let uncounted = fragments - not_taken - discarded;
    let missing = of_frame[Entry::FragmentsMissing];
    let is_counted = uncounted == 0 && counts[Entry::FragmentsMissingUnrecorded] >= missing;
    if !is_counted && kind == LedgerKind::Total {
        return;
    }
    let of_not_taken = if not_taken > 0 { of_frame[Entry::FragmentBytesRecorded] } else { 0 };
    for (entry, count) in [
        (Entry::FragmentsNotTaken, not_taken),
        (Entry::FragmentBytesNotTaken, of_not_taken),
        (Entry::FragmentsDiscardedDisk, discarded),
        (Entry::FragmentsMissingUnrecorded, missing),
    ] {
        counts[entry] = counts[entry].saturating_sub(count);
    }
    for entry in OF_FRAME {
        counts[entry] = counts[entry].saturating_add(of_frame[entry]);
    }
    // They arrived, too: what was in flight is there, and more was never counted.
    let known = u64::try_from(in_flight).unwrap_or(0).min(uncounted);
    let received = &mut counts[Entry::FragmentsReceived];
    *received = received.saturating_add(uncounted - known);
}

/// The numbers that no folder has: the first [`MISSING_MAX`] of [`gaps`].
pub(crate) fn missing(run: &Run) -> Vec<MissingFrames> {
    let mut missing = gaps(run);
    missing.truncate(MISSING_MAX);
    missing
}

/// The numbers that no folder has, by stream, rising: from 0 if there are several places or parts,
/// as a file that begins a run may be missing in all, and if it is missing in the only folder. None
/// for a run that is being recorded, whose frames in progress may still arrive, and none where each
/// file has numbers of its own.
pub(crate) fn gaps(run: &Run) -> Vec<MissingFrames> {
    if run.being_recorded() || run.header().numbering != Numbering::Run {
        return Vec::new();
    }
    let files = run.run_files();
    let infos = files.iter().flat_map(|file| file.reader.frames()).map(|frame| &frame.info);
    let mut numbers: Vec<_> = infos.map(|info| (info.origin.stream, info.numbers())).collect();
    numbers.sort_unstable();
    let (mut missing, mut next) = (Vec::new(), None);
    let is_begun = files[0].header().file_index == 0 || !run.path().is_dir();
    for (stream, (first, last)) in numbers {
        let begin = if is_begun && !are_by_number(files) { first } else { 0 };
        let expected = next.filter(|(of, _)| *of == stream).map_or(begin, |(_, next)| next);
        if first > expected {
            missing.push(MissingFrames { stream, first: expected, last: first - 1 });
        }
        next = Some((stream, expected.max(last.saturating_add(1))));
    }
    missing
}

/// Frames whose numbers are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MissingFrames {
    /// Their stream.
    pub stream: u32,
    /// The number of the first.
    pub first: u64,
    /// That of the last.
    pub last: u64,
}

impl MissingFrames {
    /// How many they are.
    pub fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// The folders in which each frame with rows is, by the frames' numbers.
pub(crate) fn owners(files: &[RunFile]) -> Vec<((u32, u64), usize)> {
    let of_file = |file: &RunFile| {
        let folder = file.folder;
        let of = |info: &FrameInfo| ((info.origin.stream, info.sequence), folder);
        data(file).map(|(_, info)| of(info)).collect::<Vec<_>>()
    };
    let mut owners: Vec<_> = files.iter().flat_map(of_file).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// A file's frames with rows.
pub(crate) fn data(file: &RunFile) -> impl Iterator<Item = (usize, &FrameInfo)> {
    let frames = file.reader.frames().iter().map(|frame| &frame.info).enumerate();
    frames.filter(|(_, info)| {
        info.rows > 0 && matches!(info.kind, FrameKind::Events | FrameKind::Channels)
    })
}

/// The most ranges of missing frames that are named.
const MISSING_MAX: usize = 1_000;
/// Entries that describe the frame itself.
pub(crate) const OF_FRAME: [Entry; 10] = [
    Entry::FragmentsRecorded,
    Entry::FragmentBytesRecorded,
    Entry::FragmentsMissing,
    Entry::FragmentsNotExpected,
    Entry::FragmentsBadSender,
    Entry::FragmentsBadTag,
    Entry::FragmentsWithHoles,
    Entry::FragmentBytesLost,
    Entry::FragmentsBadChecksum,
    Entry::BytesCompressionLowered,
];

/// Parts of a target that are named as missing at most.
const PARTS_MAX: u32 = 1_000;
