//! Merges the files of a run, from one folder or several, into one folder.
//!
//! Each frame is copied once: its number, ranges and origin, and its columns as they are stored.
//! Their checksums are checked first; where a copy cannot be read, the next one is taken. Files are
//! new, with tables of contents of their own.
//!
//! The ledger's total is that of the recorder, or the sum of the frames where it is damaged in all
//! folders. Of several places, each of which counts in its increments what it lacks, the increments
//! are those of the place of the ledger, less what other places have: their sum with what the
//! columns give is what [`recompute`] finds, so that an audit of the merged run finds what one of
//! the folders together does. Where that place lost a file, the increments of its frames are those
//! of another place, and their sum is the recorder's total, if that agrees with all frames. Of the
//! parts of a target whose frames are dealt, they are those of all parts, each copy's once.
//!
//! What was written is audited: a merge whose result does not balance although its sources do is an
//! error.
//!
//! Of a frame that has no whole copy, columns are taken from the copies in which they are whole.
//! What is damaged in all of them is copied as it is, with the checksums that it was stored with:
//! the rest of the frame can be read, the merged run is as good as its sources, and readers and
//! `verify` find the damage there as they did before. Only a frame of which not even the bytes can
//! be had is left out: it is replaced by a skipped one, with its fragments counted as
//! `fragments_discarded_disk`, or is missing if its counts cannot be read either.
//!
//! One frame at a time is in memory, of a damaged one its copies. Trends of the folders are merged,
//! too (merge_trends.rs).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use catchment_frame::{
    ColumnEntry, ColumnKind, FrameInfo, FrameKind, Origin, decode_ledger, frame_ledger,
};
use catchment_model::units::counted;
use catchment_model::{Entry, Ledger, SourceLedger};

use crate::audit::{Closing as Closed, Verdict, audit, recompute};
use crate::base;
use crate::copies::{Location, alike};
use crate::error::StorageError;
use crate::folders::{self, MissingFrames, OF_FRAME};
use crate::frame_copy::{
    DamagedFrame, FrameCopy, KeptChecksums, increments_column, lesser, only_of_frame, split,
};
use crate::frame_index;
use crate::left_out::LeftOut;
use crate::merge_trends::{Closing, merge_trends};
use crate::open::{FileProblem, RunFile, index_of_name};
use crate::reframe::Done;
use crate::run::Run;
use crate::write::{Ending, NewRun, RunWriter, WriteOptions, WriteReport, unwritable};

/// What was merged.
#[derive(Clone, Debug, Default)]
pub struct MergeReport {
    /// What was written; frames of which nothing could be had are among `left_out`.
    pub write: WriteReport,
    /// Frames with damage that no copy is without, copied as they are.
    pub frames_damaged: u64,
    /// What is damaged in them: a line for each column.
    pub damaged: Vec<String>,
    /// The files that were read.
    pub files: u64,
    /// Copies of frames that were left, since one is enough.
    pub copies_left: u64,
    /// Copies that cannot be read or differ, and what was copied instead: a line each.
    pub replaced: Vec<String>,
    /// Frames that are missing, by the numbers of those that are there.
    pub frames_missing: u64,
    /// Which those are: the first 1,000 ranges.
    pub missing: Vec<MissingFrames>,
    /// Whether the run ended in order, and its last file is there.
    pub ended: bool,
    /// Whether data of the run were lost, before or here.
    pub data_lost: bool,
    /// Rows of trends that were merged: each from the first folder in which it can be read.
    pub trend_rows: u64,
}

/// Writes all frames of a run into a folder, each once and in order, and the trends of its folders.
/// The names of the new files begin as those of the run, or with `name` if these are unusual.
/// `progress` returns whether to continue.
///
/// # Errors
/// A run that is being recorded or has what this version does not know, existing files of that
/// name, a disk error, a result that does not balance where its sources do, or a stop by
/// `progress`.
pub fn merge(
    run: &Run,
    folder: &Path,
    name: &str,
    options: &WriteOptions,
    mut progress: impl FnMut(Done) -> ControlFlow<()>,
) -> Result<MergeReport, StorageError> {
    check(run)?;
    let counts = Counts::of(run)?;
    let items = match folders::are_by_number(run.run_files()) {
        true => by_number(run, counts.are_all),
        false => in_place(run),
    };
    let mut done = Done { frames: 0, frames_total: items.len() };
    // If the beginning is missing, readers are to find that the file with it is.
    let is_begun = run.header().file_index == 0 || folders::are_by_number(run.run_files());
    let is_whole = is_begun && folders::missing(run).iter().all(|one| one.first > 0);
    let first_index = u32::from(!is_whole);
    let codings = options.codings.clone();
    let options = WriteOptions { first_index, ..options.clone() };
    let mut new = new_run(run, folder, name);
    if run.base_path().is_some() {
        // Its path is relative to a folder that is there.
        std::fs::create_dir_all(folder)
            .map_err(|source| StorageError::Write { path: folder.to_owned(), source })?;
        new.base = Some(base::naming(run, folder)?);
    }
    let writer = RunWriter::create(new, options)?;
    let mut merger = Merger::new(run, writer, counts);
    for item in items {
        merger.take(item)?;
        done.frames += 1;
        if progress(done).is_break() {
            return Err(StorageError::Stopped);
        }
    }
    let mut report = merger.finish()?;
    check_written(run, folder)?;
    let closing = Closing { run_ended: report.ended, data_lost: report.data_lost };
    let new = new_run(run, folder, name);
    let trends = merge_trends(run.paths(), &new, &codings, closing, &mut || progress(done))?;
    report.trend_rows = trends.rows;
    report.write.left_out.extend(trends.left_out.into_lines());
    Ok(report)
}

/// A frame to be copied.
struct Item {
    /// Where it is; the first copy that can be read is taken.
    copies: Vec<Location>,
    /// The frame whose increments are part of the ledger: one of the copies, or the skipped frame
    /// that stands for them in the place of the ledger.
    counted: Option<Location>,
    /// Of a skipped frame, the number of the first frame for which it stands and how many: other
    /// places may have the others.
    part: Option<(u64, u64)>,
}

/// The frames of one place, in its order.
fn in_place(run: &Run) -> Vec<Item> {
    let groups = run.copies().groups().iter();
    let others: HashMap<Location, &Vec<Location>> =
        groups.flat_map(|group| group.iter().map(move |&one| (one, group))).collect();
    let item = |one: Location| {
        let others = others.get(&one).into_iter().flat_map(|group| group.iter().copied());
        let copies = std::iter::once(one).chain(others.filter(|other| *other != one));
        Item { copies: copies.collect(), counted: Some(one), part: None }
    };
    frame_index::locations(run.run_files(), run.copies()).into_iter().map(item).collect()
}

/// The frames of several places or parts by their numbers, those of several streams by their keys.
/// `are_all`: what the place of the ledger has no frame for is counted by other places.
fn by_number(run: &Run, are_all: bool) -> Vec<Item> {
    let files = run.run_files();
    let of_ledger: HashSet<usize> =
        run.all_files().of_ledgers().map(|(_, files)| files[0].place).collect();
    let is_counted = |(file, _): Location| of_ledger.contains(&files[file].place);
    let covered = if are_all { Covered::by(files, is_counted) } else { Covered::default() };
    let lends = |here: Location| are_all && !covered.contains(info_at(files, here));
    // Frames with rows, and the others: those of the ledger's places first.
    let mut streams: BTreeMap<u32, (BTreeMap<u64, Vec<Location>>, Vec<_>)> = BTreeMap::new();
    for (file, run_file) in files.iter().enumerate() {
        for (index, summary) in run_file.reader.frames().iter().enumerate() {
            let (info, here) = (&summary.info, (file, index));
            let (data, others) = streams.entry(info.origin.stream).or_default();
            match info.kind {
                FrameKind::Events | FrameKind::Channels if info.rows > 0 => {
                    data.entry(info.sequence).or_default().push(here);
                }
                FrameKind::Toc | FrameKind::Checkpoint => {}
                // Also what a later version writes, as far as numbers are not taken.
                _ => others.push((info.numbers(), !is_counted(here), here)),
            }
        }
    }
    let mut items: Vec<(u64, Item)> = Vec::new();
    for (data, mut others) in streams.into_values() {
        others.sort_unstable();
        let mut of_stream: Vec<(u64, Item)> = Vec::new();
        let (mut stood_for, mut next) = (BTreeMap::new(), 0);
        for ((first, last), is_other, here) in others {
            let counted = (!is_other).then_some(here);
            stood_for.extend(counted.filter(|_| data.contains_key(&first)).map(|one| (first, one)));
            for (first, last) in gaps(&data, first.max(next), last) {
                let is_skipped = info_at(files, here).kind == FrameKind::SKIPPED;
                let part = is_skipped.then_some((first, last - first + 1));
                // Counts are with the first part.
                let counted = counted.or_else(|| lends(here).then_some(here));
                let counted = counted.filter(|_| first == info_at(files, here).sequence);
                of_stream.push((first, Item { copies: vec![here], counted, part }));
            }
            next = next.max(last.saturating_add(1));
        }
        for (sequence, mut copies) in data {
            // Increments come with the columns of the ledger's place.
            copies.sort_by_key(|&copy| !is_counted(copy));
            let own = copies.first().copied().filter(|&copy| is_counted(copy));
            let stands = || stood_for.get(&sequence).copied();
            let lent = || copies.first().copied().filter(|&copy| lends(copy));
            let counted = own.or_else(stands).or_else(lent);
            of_stream.push((sequence, Item { copies, counted, part: None }));
        }
        of_stream.sort_by_key(|(sequence, _)| *sequence);
        // Streams are read by their keys, which rise in each.
        let mut key = 0;
        for (_, item) in of_stream {
            let info = info_at(files, item.copies[0]);
            if info.kind == FrameKind::Events && info.rows > 0 {
                key = key.max(info.key_first);
            }
            items.push((key, item));
        }
    }
    if items.iter().any(|(_, item)| info_at(files, item.copies[0]).origin.stream > 0) {
        items.sort_by_key(|(key, _)| *key);
    }
    items.into_iter().map(|(_, item)| item).collect()
}

/// The numbers for which the places of the ledger have frames, of any kind.
#[derive(Default)]
struct Covered {
    /// By stream and first number, the last one.
    ranges: BTreeMap<(u32, u64), u64>,
}

impl Covered {
    fn by(files: &[RunFile], is_counted: impl Fn(Location) -> bool) -> Self {
        let mut covered = Self::default();
        for (_, file) in files.iter().enumerate().filter(|one| is_counted((one.0, 0))) {
            let is_index = |kind| matches!(kind, FrameKind::Toc | FrameKind::Checkpoint);
            for (_, summary) in file.frames().filter(|(_, one)| !is_index(one.info.kind)) {
                let (first, last) = summary.info.numbers();
                let stream = summary.info.origin.stream;
                let known = covered.ranges.entry((stream, first)).or_insert(last);
                *known = last.max(*known);
            }
        }
        covered
    }

    fn contains(&self, info: &FrameInfo) -> bool {
        let (stream, number) = (info.origin.stream, info.sequence);
        let before = self.ranges.range((stream, 0)..=(stream, number)).next_back();
        before.is_some_and(|(_, last)| number <= *last)
    }
}

/// The numbers from `first` to `last` that are not those of frames with rows.
fn gaps(data: &BTreeMap<u64, Vec<Location>>, first: u64, last: u64) -> Vec<(u64, u64)> {
    let (mut gaps, mut next) = (Vec::new(), first);
    if first > last {
        return gaps;
    }
    for (&number, _) in data.range(first..=last) {
        if number > next {
            gaps.push((next, number - 1));
        }
        next = number.saturating_add(1);
    }
    if next <= last && next >= first {
        gaps.push((next, last));
    }
    gaps
}

fn info_at(files: &[RunFile], (file, index): Location) -> &FrameInfo {
    &files[file].reader.frames()[index].info
}

/// Columns as they are stored, and the checksums of damaged ones.
type Columns = (Vec<(ColumnEntry, Vec<u8>)>, KeptChecksums);

struct Merger<'a> {
    run: &'a Run,
    writer: RunWriter,
    /// Of several places or parts: what the frames to come may still count.
    left: Option<Ledger>,
    /// The recorder's total, if there is one.
    total: Option<Ledger>,
    /// The number behind the last one of each stream.
    next: BTreeMap<u32, u64>,
    left_out: LeftOut,
    frames_damaged: u64,
    damaged: LeftOut,
    replaced: LeftOut,
    copies_left: u64,
}

/// What the merged run is to count.
struct Counts {
    /// The recorder's total, if there is one that can be read.
    total: Option<Ledger>,
    /// Of several places or parts: what the frames together count.
    by_frames: Option<Ledger>,
    /// Whether that is the total, since the place of the ledger lost increments that others have.
    are_all: bool,
    /// What is wrong with the recorder's total.
    damage: Option<StorageError>,
}

impl Counts {
    fn of(run: &Run) -> Result<Self, StorageError> {
        let (total, damage) = match run.recorded_ledger() {
            Err(error) if error.is_damage() => (None, Some(error)),
            read => (read?, None),
        };
        let by_number = folders::are_by_number(run.run_files());
        let mut by_frames = by_number.then(|| recompute(run).0);
        let mut are_all = false;
        if let (Some(total), Some(sum)) = (&total, &mut by_frames) {
            // Entries of frames are the same wherever these are.
            let mut pairs = total.sources.iter().zip(&sum.sources);
            let agree =
                pairs.all(|(total, sum)| OF_FRAME.iter().all(|&one| total[one] == sum[one]));
            are_all = agree && run.ended() && folders::lacks_increments(run);
            if are_all {
                sum.clone_from(total);
            }
        }
        Ok(Self { total, by_frames, are_all, damage })
    }
}

impl<'a> Merger<'a> {
    fn new(run: &'a Run, writer: RunWriter, counts: Counts) -> Self {
        let mut replaced = LeftOut::default();
        if let Some(error) = counts.damage {
            replaced.name(format!("{error}; the ledger is the sum of the frames"));
        }
        Self {
            run,
            writer,
            left: counts.by_frames,
            total: counts.total,
            next: BTreeMap::new(),
            left_out: LeftOut::default(),
            frames_damaged: 0,
            damaged: LeftOut::default(),
            replaced,
            copies_left: 0,
        }
    }

    /// Copies a frame.
    fn take(&mut self, item: Item) -> Result<(), StorageError> {
        let files = self.run.run_files();
        self.copies_left += item.copies.len() as u64 - 1;
        let (mut read, mut errors) = (None, Vec::new());
        for &(file, index) in &item.copies {
            match copy_in(&files[file], index) {
                Ok(copy) => {
                    read = Some(((file, index), copy));
                    break;
                }
                Err(error) => errors.push(error),
            }
        }
        // A disk that fails to read is no damage: nothing is written without its frames.
        let is_damage = errors.iter().all(StorageError::is_damage);
        let damaged = if read.is_none() && is_damage { self.damaged(&item) } else { None };
        let mut kept = BTreeMap::new();
        if let Some((from, frame)) = damaged {
            let DamagedFrame { copy, columns, .. } = frame;
            kept = columns.into_iter().map(|(id, (checksums, _))| (id, checksums)).collect();
            (read, errors) = (Some((from, copy)), Vec::new());
        }
        let Some((from, copy)) = read else { return self.lose(&item, errors) };
        for error in errors {
            let path = files[from.0].path.display();
            self.replaced.name(format!("{error}; frame {} of {path} was copied", from.1));
        }
        let info = *info_at(files, from);
        let (columns_counts, mut increments) = split(info.kind, copy.counts);
        // Copies in one place have the same increments, whichever is read.
        let in_its_place = |counted: Location| files[counted.0].place == files[from.0].place;
        if !item.counted.is_some_and(in_its_place) {
            let is_copy = |counted: &Location| item.copies.contains(counted);
            increments = match item.counted {
                Some(counted) if is_copy(&counted) => self.increments(counted),
                Some(stands) => {
                    let mut both = only_of_frame(&increments);
                    both.add(&self.increments(stands));
                    both
                }
                None => only_of_frame(&increments),
            };
        }
        let info = match item.part {
            Some((sequence, rows)) => FrameInfo { sequence, rows, ..info },
            None => info,
        };
        self.write(info, (copy.columns, kept), columns_counts, increments)
    }

    /// The frame put together from its copies, none of which is whole; none if nothing can be had.
    /// Names what is damaged in all of them.
    fn damaged(&mut self, item: &Item) -> Option<(Location, DamagedFrame)> {
        let files = self.run.run_files();
        let read = |&(file, index): &Location| {
            let of = &files[file];
            let frame = DamagedFrame::read(&of.reader, index, |error| of.error(error)).ok()?;
            Some(((file, index), frame))
        };
        let mut copies: Vec<_> = item.copies.iter().filter_map(read).collect();
        // Equal ones stay in order.
        copies.sort_by_key(|(_, frame)| (frame.uncounted.len(), frame.columns.len()));
        let (first, others) = copies.split_first_mut()?;
        for (other, frame) in others.iter().filter(|(other, _)| alike(files, first.0, *other)) {
            let before = first.1.columns.len();
            first.1.mend(frame);
            let mended = before - first.1.columns.len();
            if mended > 0 {
                let [one, other] = [first.0, *other].map(|(file, index)| {
                    format!("frame {index} of {}", files[file].path.display())
                });
                let columns = counted(mended as u64, "column");
                self.replaced.name(format!("{one}: {columns} copied from {other}"));
            }
        }
        let damage = first.1.damage();
        self.frames_damaged += u64::from(!damage.is_empty());
        damage.into_iter().for_each(|line| self.damaged.name(line));
        Some(copies.swap_remove(0))
    }

    /// Replaces a frame that cannot be read by a skipped one, which counts its fragments as lost.
    fn lose(&mut self, item: &Item, mut errors: Vec<StorageError>) -> Result<(), StorageError> {
        let files = self.run.run_files();
        let failed = errors.iter().position(|error| !error.is_damage());
        let error = errors.swap_remove(failed.unwrap_or(0));
        if failed.is_some() {
            return Err(error);
        }
        let number = info_at(files, item.copies[0]).sequence;
        self.left_out.name(format!("{error}; so the frame with the number {number} as a whole"));
        let countable = item.copies.iter().find_map(|&(file, index)| {
            let (counts, errors) = frame_ledger(&files[file].reader, index);
            errors.is_empty().then_some(((file, index), counts))
        });
        let Some((from, counts)) = countable else { return Ok(()) };
        let info = *info_at(files, from);
        if info.rows == 0 || info.kind == FrameKind::SKIPPED {
            return Ok(());
        }
        for ledger in self.left.iter_mut().chain(&mut self.total) {
            ledger
                .sources
                .iter_mut()
                .zip(&counts.sources)
                .for_each(|(of, frame)| discard(of, frame));
        }
        let mut increments = match item.counted {
            Some(counted) => self.increments(counted),
            None => Ledger::new(counts.sources.len()),
        };
        for (of, frame) in increments.sources.iter_mut().zip(&counts.sources) {
            OF_FRAME.iter().for_each(|&entry| of[entry] = 0);
            discard(of, frame);
        }
        let nothing = Ledger::new(counts.sources.len());
        let info = FrameInfo { kind: FrameKind::SKIPPED, rows: 1, ..info };
        self.write(info, Columns::default(), nothing, increments)
    }

    /// Writes a frame with these increments, as far as the ledger has them.
    fn write(
        &mut self,
        info: FrameInfo,
        (mut columns, mut damaged): Columns,
        by_columns: Ledger,
        mut increments: Ledger,
    ) -> Result<(), StorageError> {
        if let Some(left) = &mut self.left {
            let sources = left.sources.iter_mut().zip(&by_columns.sources);
            for ((left, by_columns), increments) in sources.zip(&mut increments.sources) {
                *increments = lesser(increments, left);
                *left = left.since(increments).since(by_columns);
            }
        }
        let schema = &self.run.header().schema;
        if let Some(column) = increments_column(schema, info.kind, &increments)? {
            // Those of a copy, in place of damaged ones.
            columns.retain(|(entry, _)| entry.id != column.0.id);
            damaged.remove(&column.0.id);
            columns.insert(0, column);
        }
        let mut counts = by_columns;
        counts.add(&increments);
        let next = self.next.entry(info.origin.stream).or_default();
        *next = (*next).max(info.numbers().1.saturating_add(1));
        self.writer.copy(info, (&columns, &damaged), &counts)
    }

    /// The increments of a frame; nothing if they cannot be read, as an audit counts then.
    fn increments(&self, (file, index): Location) -> Ledger {
        let file = &self.run.run_files()[file];
        let header = file.header();
        let (sources, mut bytes) = (header.schema.sources.len(), Vec::new());
        let id = header.schema.column(None, &ColumnKind::LedgerIncrement);
        let read = id.map(|id| file.reader.read(index, id, &mut bytes));
        let decoded = match read {
            Some(Ok(true)) => decode_ledger(&bytes, &header.ledger_entries, sources).ok(),
            _ => None,
        };
        let kind = file.reader.frames()[index].info.kind;
        split(kind, decoded.unwrap_or_else(|| Ledger::new(sources))).1
    }

    fn finish(mut self) -> Result<MergeReport, StorageError> {
        let run = self.run;
        self.write_rest()?;
        let (missing, frames_missing) = (folders::missing(run), run.frames_missing());
        let files = run.run_files();
        let differing = match folders::are_by_number(files) {
            true => folders::differing(run),
            false => run.copies().differing.clone(),
        };
        for ((file, frame), (other, other_frame)) in differing {
            let (one, other) = (files[file].path.display(), files[other].path.display());
            self.replaced.name(format!(
                "{one}: frame {frame} and frame {other_frame} of {other} have one number and \
                 differ; the first that can be read was copied"
            ));
        }
        let is_whole = self.left_out.is_empty() && self.frames_damaged == 0;
        let data_lost = run.lost_data() || frames_missing > 0 || !is_whole;
        let run_ended = run.ended();
        let ending = Ending { ledger: self.total, run_ended, data_lost };
        let written = self.writer.finish(ending)?;
        Ok(MergeReport {
            write: WriteReport { left_out: self.left_out.into_lines(), ..written },
            frames_damaged: self.frames_damaged,
            damaged: self.damaged.into_lines(),
            files: files.len() as u64,
            copies_left: self.copies_left,
            replaced: self.replaced.into_lines(),
            frames_missing,
            missing,
            ended: run_ended,
            data_lost,
            trend_rows: 0,
        })
    }

    /// Writes what the ledger counts and no frame does: links' counts in a frame of channels, the
    /// others' in one of events.
    fn write_rest(&mut self) -> Result<(), StorageError> {
        let Some(mut rest) = self.left.take() else { return Ok(()) };
        let schema = &self.run.header().schema;
        let links: HashSet<usize> =
            self.run.channels().iter().filter_map(|one| Some(one.source? as usize)).collect();
        let mut of_links = Ledger::new(rest.sources.len());
        for &link in &links {
            std::mem::swap(&mut rest.sources[link], &mut of_links.sources[link]);
        }
        let (stream, next) = self.next.iter().next_back().map_or((0, 0), |(of, next)| (*of, *next));
        let mut next = next;
        for (kind, rest) in [(FrameKind::Channels, of_links), (FrameKind::Events, rest)] {
            let increments = split(kind, rest).1;
            if increments_column(schema, kind, &increments)?.is_none() {
                continue;
            }
            let origin = Origin { stream, ..Origin::SINGLE };
            let info = FrameInfo { kind, sequence: next, origin, ..FrameInfo::EMPTY };
            let nothing = Ledger::new(increments.sources.len());
            self.write(info, Columns::default(), nothing, increments)?;
            next += 1;
        }
        Ok(())
    }
}

/// Reads and checks a frame.
fn copy_in(file: &RunFile, index: usize) -> Result<FrameCopy, StorageError> {
    FrameCopy::read(&file.reader, index, |error| file.error(error))
}

/// Counts the fragments of a frame as lost, no longer as recorded.
fn discard(counts: &mut SourceLedger, of_frame: &SourceLedger) {
    for entry in OF_FRAME.into_iter().chain([Entry::FragmentsDurable]) {
        let of = match entry {
            Entry::FragmentsDurable => of_frame[Entry::FragmentsRecorded],
            entry => of_frame[entry],
        };
        counts[entry] = counts[entry].saturating_sub(of);
    }
    for (entry, of) in [
        (Entry::FragmentsDiscardedDisk, of_frame[Entry::FragmentsRecorded]),
        (Entry::FragmentsMissingUnrecorded, of_frame[Entry::FragmentsMissing]),
    ] {
        counts[entry] = counts[entry].saturating_add(of);
    }
}

/// Checks that a run can be merged.
///
/// # Errors
/// It is being recorded, or has something that this version would leave out.
fn check(run: &Run) -> Result<(), StorageError> {
    let held = run.problems().iter().find_map(|problem| match problem {
        FileProblem::Blank { path, locked: true } => Some(path),
        _ => None,
    });
    let locked = run.run_files().iter().find(|file| file.locked).map(|file| &file.path);
    if let Some(path) = locked.or(held) {
        return Err(StorageError::BeingRecorded { path: path.clone() });
    }
    for file in run.run_files() {
        if let Some(key) = file.reader.header_key_lost().map_err(|error| file.error(error))? {
            let problem = format!(
                "the header of {} has {key:?}, which this version does not know",
                file.path.display()
            );
            return Err(unwritable("the merged run", &problem));
        }
    }
    Ok(())
}

/// Audits what was written.
///
/// # Errors
/// It cannot be read, or does not balance although its sources do.
fn check_written(run: &Run, folder: &Path) -> Result<(), StorageError> {
    let written = audit(&Run::open(folder)?)?;
    if written.verdict != Verdict::NotBalanced {
        return Ok(());
    }
    let sources = audit(run)?;
    if !sources.is_balanced() || sources.closing != Closed::Ended {
        return Ok(());
    }
    let differences = written.differences.iter().map(|one| {
        let (source, entry) = (&one.source, one.entry);
        format!("{source}: {entry} is {}, the frames count {}", one.recorded, one.recomputed)
    });
    let open = written
        .open
        .iter()
        .map(|open| format!("{}: {} fragments are unexplained", open.source, open.fragments));
    let what = differences.chain(open).next().unwrap_or_default();
    Err(StorageError::MergedUnbalanced { path: folder.to_owned(), what })
}

/// The run that is written: that of the sources, with their streams and superseded frames.
fn new_run(run: &Run, folder: &Path, name: &str) -> NewRun {
    let files = run.run_files();
    let header = run.header();
    let stem = files[0].path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let own = index_of_name(&stem).and_then(|_| stem.rsplit_once('-'));
    let streams: BTreeSet<u32> = files.iter().map(|file| file.header().stream).collect();
    let mut superseded = Vec::new();
    for record in files.iter().flat_map(|file| &file.header().superseded) {
        if !superseded.contains(record) {
            superseded.push(*record);
        }
    }
    NewRun {
        stream: if streams.len() == 1 { header.stream } else { 0 },
        superseded,
        ..NewRun::again(header, folder, own.map_or(name, |(own, _)| own))
    }
}
