//! A place of an interrupted run: how far its frames are whole, and its files, cut behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use catchment_disk::ReadFile;
use catchment_frame::{
    FILE_LIST_NAME, FileFrames, FileHeader, FileList, FileReader, FrameInfo, FrameSummary,
    OpenOptions, Position, Positions, frame_ledger, verify_frame,
};
use catchment_model::{Entry, Ledger, SourceLedger};

use super::kept::{Kept, count_once};
use super::{Cut, Elsewhere, End, ResumedPlace, RunPlace};
use crate::apart::GivenUp;
use crate::error::StorageError;
use crate::open;
use crate::repair::{self, Found, Outcome};
use crate::superseded::Bounds;
use crate::whole::list_removed;

/// How often it is looked whether a recorder that died still holds a file.
const HELD_POLL: Duration = Duration::from_millis(20);
/// The bytes of frames at the end of a place that the run does not need which are read although the
/// required ones have them for long: its disk may have been behind.
const READ_BYTES: u64 = 64 << 20;
const SUPERSEDED: &str = "superseded";
const PIECE_BYTES: usize = 1 << 20;

/// The files of a place, by rising index.
pub(super) struct Place {
    pub(super) is_required: bool,
    /// Where it has no files here.
    pub(super) elsewhere: Option<Elsewhere>,
    pub(super) files: Vec<Found>,
    /// All frames below that number were settled in the required places, as far as any of its
    /// frames or tables says.
    pub(super) synced: u64,
    /// Files without a header that can be read.
    blank: Vec<PathBuf>,
    unreadable: Vec<PathBuf>,
    /// Lengths of files that were closed and durable, by index, as its lists say.
    listed: BTreeMap<u32, u64>,
    trusts_lists: bool,
    /// The index of its next file, as far as it is known.
    next_index: u32,
    /// Of a required one: one above the number of the last frame that is kept.
    pub(super) end: u64,
    /// What its next frame is to have of one that is not kept.
    carried: Ledger,
    carried_positions: Positions,
    /// Of a part of a target: how many frames it has without a gap, and how many of each file are
    /// kept, but for the files behind these.
    items: Option<u64>,
    retained: Vec<usize>,
    /// Of a required one: the damaged frame at its end, if there is one.
    pub(super) damaged: Option<String>,
}

impl Place {
    /// Looks at a place. One that the run does not need may have no files.
    pub(super) fn open(place: &RunPlace, given_up: &GivenUp) -> Result<Self, StorageError> {
        let RunPlace { folders, is_required, trusts_lists, is_dealt } = place;
        let mut paths = Vec::new();
        for folder in folders {
            paths.extend(open::paths(folder)?);
        }
        while let Some(path) = paths.iter().find(|path| open::is_locked(path)) {
            if *is_required || given_up.is_set() {
                return Err(StorageError::BeingRecorded { path: path.clone() });
            }
            std::thread::sleep(HELD_POLL);
        }
        let (files, others) = repair::find(paths)?;
        if files.is_empty() && *is_required {
            let path = folders.first().cloned().unwrap_or_default();
            return Err(StorageError::no_files(path));
        }
        let (mut blank, mut unreadable) = (Vec::new(), Vec::new());
        for other in others {
            match other.outcome {
                Outcome::Blank => blank.push(other.path),
                Outcome::Unreadable(_) => unreadable.push(other.path),
                _ => {}
            }
        }
        let next_index = if files.is_empty() { open::next_index(folders) } else { 0 };
        let synced = files.iter().map(synced_in).max().unwrap_or(0);
        let (is_required, items, end) = (*is_required, is_dealt.then_some(0), 0);
        let listed = folders.iter().flat_map(|folder| listed_as_closed(folder)).collect();
        Ok(Self {
            is_required,
            elsewhere: None,
            files,
            synced,
            blank,
            unreadable,
            listed,
            trusts_lists: *trusts_lists,
            next_index,
            end,
            carried: Ledger::default(),
            carried_positions: Positions::default(),
            items,
            retained: Vec::new(),
            damaged: None,
        })
    }

    /// A required one that has no files here.
    pub(super) fn elsewhere(place: Elsewhere) -> Self {
        Self {
            is_required: true,
            end: place.end,
            elsewhere: Some(place),
            files: Vec::new(),
            synced: 0,
            blank: Vec::new(),
            unreadable: Vec::new(),
            listed: BTreeMap::new(),
            trusts_lists: false,
            next_index: 0,
            carried: Ledger::default(),
            carried_positions: Positions::default(),
            items: None,
            retained: Vec::new(),
            damaged: None,
        }
    }

    /// The header of a required one's first file.
    pub(super) fn header(&self) -> &FileHeader {
        self.headers().next().expect("a required place has a file")
    }

    /// The headers of all files.
    pub(super) fn headers(&self) -> impl Iterator<Item = &FileHeader> {
        let elsewhere = self.elsewhere.iter().map(|place| &place.header);
        elsewhere.chain(self.files.iter().map(|file| file.reader.header()))
    }

    /// What it is, or its folder, for messages.
    pub(super) fn shown(&self) -> String {
        if let Some(Elsewhere { shown, .. }) = &self.elsewhere {
            return shown.clone();
        }
        let folder = self.files.last().and_then(|file| file.path.parent());
        folder.map_or(String::new(), |folder| folder.display().to_string())
    }

    /// All frames, in the order of the files.
    pub(super) fn frames(&self) -> impl Iterator<Item = ((usize, usize), &FrameSummary)> {
        self.files.iter().enumerate().flat_map(|(file, found)| {
            let frames = found.reader.frames().iter().enumerate();
            frames.map(move |(index, frame)| ((file, index), frame))
        })
    }

    /// Finds the end of the frames of a required place that follow each other and are whole, from
    /// `synced` on; of a part, of those below a number.
    ///
    /// # Errors
    /// A file is missing there, and what is behind it must not be cut off for that.
    pub(super) fn find_end(
        &mut self,
        synced: u64,
        before: &Bounds,
        cut: Cut,
    ) -> Result<(), StorageError> {
        if self.elsewhere.is_some() {
            return Ok(());
        }
        if self.items.is_some() {
            (self.items, self.retained) = self.find_items(cut.below);
            self.end = u64::MAX;
        } else {
            (self.end, self.damaged) = self.find_number(synced, before);
        }
        match self.missing(before, cut.below).filter(|_| !cut.behind_missing) {
            Some(index) => Err(StorageError::MissingFile { index }),
            None => Ok(()),
        }
    }

    /// One above the number of the last frame that follows, and the damaged one behind it, if that
    /// is why.
    fn find_number(&self, synced: u64, before: &Bounds) -> (u64, Option<String>) {
        let (mut end, mut damaged) = (synced, None);
        for ((file, index), FrameSummary { info, .. }) in self.frames() {
            let (first, last) = info.numbers();
            // What is missing, or damaged, may have been written again, in a younger file.
            if first > end || last < end || before.has(info) {
                continue;
            }
            let found = &self.files[file];
            if self.is_read(found) && is_bad(found, index) {
                let path = found.path.display();
                let text = || format!("frame {first} in {path} cannot be read as a whole");
                damaged.get_or_insert_with(text);
                continue;
            }
            (end, damaged) = (last.saturating_add(1), None);
        }
        (end, damaged)
    }

    /// The index of a file that is in no folder, if those behind it have frames or items that
    /// would follow it, and are cut off because of that alone. One that was made and never begun
    /// is there: a power cut may leave no more of it.
    fn missing(&self, before: &Bounds, below: u64) -> Option<u32> {
        let behind = match self.items {
            Some(_) => self.first_unfollowed_part(below),
            None => self.first_unfollowed(before).filter(|_| self.end < below),
        }?;
        let index = |file: &Found| file.reader.header().file_index;
        let others = self.blank.iter().chain(&self.unreadable);
        let others =
            others.filter_map(|path| open::index_of_name(&path.file_stem()?.to_string_lossy()));
        let others: BTreeSet<u32> = others.collect();
        let first = self.files[..behind].last().map_or(0, |file| index(file).saturating_add(1));
        (first..index(self.files.get(behind)?)).find(|index| !others.contains(index))
    }

    /// The first file of a part that begins behind more items than there are, unless it is one
    /// behind the first frame that has `below` or a higher number.
    fn first_unfollowed_part(&self, below: u64) -> Option<usize> {
        let last = self.files[..self.retained.len()].last().zip(self.retained.last());
        let next = last.and_then(|(file, &retained)| file.reader.frames().get(retained));
        let is_ordered = next.is_some_and(|frame| frame.info.numbers().1 >= below);
        (!is_ordered).then_some(self.retained.len())
    }

    /// The file that begins with the first frame which does not follow those before the end.
    fn first_unfollowed(&self, before: &Bounds) -> Option<usize> {
        let mut behind = self.frames().filter(|(_, FrameSummary { info, .. })| {
            info.numbers().1 >= self.end && !before.has(info)
        });
        let ((file, index), FrameSummary { info, .. }) = behind.next()?;
        let others = &self.files[file].reader.frames()[..index];
        let begins_it = others.iter().all(|other| before.has(&other.info));
        (begins_it && info.numbers().0 > self.end).then_some(file)
    }

    /// How many frames a part of a target has without a gap, and how many of each file those are.
    /// A file says how many were taken before its own: one that begins before the end of the file
    /// before it has frames that were sent again. Numbers say nothing of a frame that a power cut
    /// took from between others, since they have gaps: those behind a hole do not count, nor do
    /// those behind the first one that has `below` or a higher number.
    fn find_items(&self, below: u64) -> (Option<u64>, Vec<usize>) {
        let (mut items, mut retained) = (0, Vec::with_capacity(self.files.len()));
        for found in &self.files {
            let begins = found.reader.header().part.map(|part| part.first_item);
            let Some(begins) = begins.filter(|&begins| begins <= items) else { break };
            let frames = found.reader.frames();
            let hole = first_hole(found).unwrap_or(u64::MAX);
            let is_before =
                |frame: &&FrameSummary| frame.offset < hole && frame.info.numbers().1 < below;
            let follow = frames.iter().take_while(is_before).count();
            let bad = (0..follow).find(|&one| self.is_read(found) && is_bad(found, one));
            let count = bad.unwrap_or(follow);
            retained.push(count);
            items = begins + count as u64;
        }
        (Some(items), retained)
    }

    /// How many of a file's frames are kept of those before the run's end.
    fn kept_of(&self, index: usize, superseded: &Bounds, end: u64) -> usize {
        match self.items {
            Some(_) => self.retained.get(index).copied().unwrap_or(0),
            None => self.files[index].kept(superseded, end),
        }
    }

    /// Whether the frames of a file are read, not those of one whose list is trusted.
    fn is_read(&self, file: &Found) -> bool {
        !(self.trusts_lists && is_listed(&self.listed, file))
    }

    /// Its last frame before the run's end, by its file, if it stands for others beyond that.
    pub(super) fn stands_beyond(
        &self,
        sequence: u64,
        superseded: &Bounds,
    ) -> Option<(usize, usize)> {
        let is_before = |info: &FrameInfo| info.sequence < sequence && !superseded.has(info);
        let last = self.frames().take_while(|(_, frame)| is_before(&frame.info)).last();
        last.filter(|(_, frame)| frame.info.numbers().1 >= sequence).map(|(at, _)| at)
    }

    /// Ends before one of its frames, and carries what that says of the sources of which no other
    /// place has anything: `is_alone` says it of a source.
    pub(super) fn leave(
        &mut self,
        (file, index): (usize, usize),
        is_alone: impl Fn(usize) -> bool,
    ) -> Result<(), StorageError> {
        let Found { path, reader, .. } = &self.files[file];
        let first = reader.frames()[index].info.sequence;
        // Its own end may be before it: what it lacks there is copied.
        if self.end < first {
            return Ok(());
        }
        self.end = first;
        let failed = |source| StorageError::Frame { path: path.clone(), source };
        let mut positions = reader.positions(index).map_err(failed)?;
        positions.retain(|one| one.session != 0 && is_alone(one.source as usize));
        self.carried_positions.add(&positions);
        self.carried = frame_ledger(reader, index).0;
        for (source, counts) in self.carried.sources.iter_mut().enumerate() {
            if !is_alone(source) {
                *counts = SourceLedger::default();
            }
        }
        Ok(())
    }

    /// The same of a place that the run does not need, of which the required ones say nothing: from
    /// its first file on that was not closed long ago. A frame that also stands for others beyond
    /// the run's end is not kept.
    fn find_own_end(&self, of_run: &End) -> u64 {
        let is_kept =
            |info: &FrameInfo| info.numbers().1 < of_run.sequence && !of_run.superseded.has(info);
        let is_durable = |file: &Found| {
            let last = file.reader.frames().last().map(|frame| frame.info.numbers().1);
            file.reader.closed() && last.is_none_or(|last| last < of_run.synced)
        };
        let open = self.files.iter().position(|file| !is_durable(file));
        let open = open.unwrap_or(self.files.len());
        let all = || self.frames().take_while(|(_, frame)| is_kept(&frame.info));
        let behind = all().skip_while(|((file, _), _)| *file < open);
        let mut rest: u64 = behind.map(|(_, frame)| frame.frame_bytes).sum();
        let mut end = 0;
        for ((file, index), FrameSummary { info, frame_bytes, .. }) in all() {
            let (first, last) = info.numbers();
            if file >= open {
                rest -= frame_bytes;
                let is_read = last >= of_run.synced || rest < READ_BYTES;
                if first > end || is_read && is_bad(&self.files[file], index) {
                    break;
                }
            }
            end = end.max(last.saturating_add(1));
        }
        end
    }

    /// The newest positions in its frames that are kept.
    pub(super) fn positions(
        &self,
        superseded: &Bounds,
        end: u64,
    ) -> Result<Positions, StorageError> {
        let mut newest = Positions::default();
        for (index, file) in self.files.iter().enumerate() {
            file.add_positions(self.kept_of(index, superseded, end.min(self.end)), &mut newest)?;
        }
        newest.add(self.carried_positions.records());
        Ok(newest)
    }

    /// Cuts and closes its files.
    pub(super) fn close(
        self,
        of_run: &End,
        given_up: &GivenUp,
    ) -> Result<ResumedPlace, StorageError> {
        if let Some(Elsewhere { end, ledger, .. }) = &self.elsewhere {
            let (end, ledger) = (*end, ledger.clone());
            return Ok(ResumedPlace { end, ledger, ..ResumedPlace::default() });
        }
        let end = match self.is_required {
            true => self.end.min(of_run.sequence),
            false => self.find_own_end(of_run),
        };
        let next_index = self.next_index;
        let (carried, carried_positions) = (self.carried.clone(), self.carried_positions.clone());
        let mut place =
            ResumedPlace { next_index, end, carried, carried_positions, ..ResumedPlace::default() };
        let mut kept = Vec::new();
        place.items = self.items.unwrap_or(0);
        let all = 0..self.files.len();
        let frames: Vec<usize> =
            all.map(|index| self.kept_of(index, &of_run.superseded, end)).collect();
        let mut files = self.files;
        if self.items.is_some() {
            // They count more items before their own than there are, and would for ever. The last
            // one goes first: no file may be missing before one that is there.
            for found in files.drain(self.retained.len()..).rev() {
                leave_part(found)?;
            }
        }
        for (file, frames) in files.into_iter().zip(frames) {
            let file_index = file.reader.header().file_index;
            place.next_index = place.next_index.max(file_index.saturating_add(1));
            let is_durable = is_listed(&self.listed, &file);
            kept.push(Kept::new((file, is_durable), frames, &mut place));
        }
        count_once(&kept, &mut place);
        let behind_gap = kept.split_off(before_gap(&kept)).into_iter().rev();
        for Kept { found: Found { path, reader, .. }, .. } in behind_gap {
            drop(reader);
            supersede(&path)?;
        }
        if let Some(last) = kept.last() {
            let reader = &last.found.reader;
            place.next_index = reader.header().file_index.saturating_add(1);
            // One that is closed again does not say so any more.
            let flags = reader.flags().filter(|_| last.sum.is_none());
            place.marks_end = flags.is_some_and(|flags| flags.run_ended);
        }
        for source in &mut place.ledger.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        let mut positions = Positions::default();
        for file in kept {
            if given_up.is_set() {
                return Err(StorageError::Stopped);
            }
            place.files.push(file.found.path.clone());
            let frames = file.first_frames();
            if let Some((first, last)) = frames.first().zip(frames.last()) {
                let numbers = (first.info.numbers().0, last.info.numbers().1);
                let index = file.found.reader.header().file_index;
                FileFrames::one(index, numbers).add_to(&mut place.file_frames);
            }
            file.found.add_positions(file.frames, &mut positions)?;
            place.bytes += file.close(&place.ledger, &positions)?;
        }
        clear_others((&self.blank, &self.unreadable), self.is_required, place.next_index)?;
        Ok(place)
    }
}

/// Removes blank files from that index on, and keeps unreadable ones under other names: a place
/// that the run needs has none of these before it.
fn clear_others(
    (blank, unreadable): (&[PathBuf], &[PathBuf]),
    is_required: bool,
    next_index: u32,
) -> Result<(), StorageError> {
    let is_behind = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        open::index_of_name(&stem).is_some_and(|index| index >= next_index)
    };
    for path in blank.iter().filter(|path| is_behind(path)) {
        let failed = |source| StorageError::Write { path: path.clone(), source };
        std::fs::remove_file(path).map_err(failed)?;
    }
    for path in unreadable {
        if is_required && !is_behind(path) {
            return Err(StorageError::no_files(path));
        }
        supersede(path)?;
    }
    Ok(())
}

/// The number of files before one that a power cut took, if nothing is kept of those behind it: the
/// run would lack a file for ever.
fn before_gap(files: &[Kept]) -> usize {
    let index = |file: &Kept| file.found.reader.header().file_index;
    let is_empty = |file: &&Kept| file.frames == 0 && !file.found.reader.closed();
    let behind = files.len() - files.iter().rev().take_while(is_empty).count();
    let is_gap = |at: &usize| *at > 0 && index(&files[*at]) > index(&files[at - 1]) + 1;
    (behind..files.len()).find(is_gap).unwrap_or(files.len())
}

/// Keeps a file of a part under another name. The list of its folder no longer says that it is
/// closed: another one gets its index.
fn leave_part(found: Found) -> Result<(), StorageError> {
    let Found { path, reader, .. } = found;
    let (run, index) = (reader.header().run, reader.header().file_index);
    drop(reader);
    if let Some(folder) = path.parent() {
        list_removed(folder, run, index)?;
    }
    supersede(&path)
}

/// Keeps a file under another name: it is the run's no longer.
fn supersede(path: &Path) -> Result<(), StorageError> {
    let failed = |source| StorageError::Write { path: path.to_owned(), source };
    std::fs::rename(path, superseded_path(path, |_| false)).map_err(failed)
}

/// Under what name something of a file is kept: NAME-INDEX.superseded, or the first of
/// NAME-INDEX.2.superseded and so on that is no file yet, or one of which `is_same` says that it
/// has the same.
fn superseded_path(path: &Path, is_same: impl Fn(&Path) -> bool) -> PathBuf {
    let further = (2_u32..).map(|number| path.with_extension(format!("{number}.{SUPERSEDED}")));
    let mut names = std::iter::once(path.with_extension(SUPERSEDED)).chain(further);
    let free = names.find(|name| !name.is_file() || is_same(name));
    free.expect("fewer files than numbers")
}

/// Whether a file has the first bytes of another one from there on, as far as it goes: a part that
/// an interrupted attempt has kept. Other parts begin with other frames.
fn begins_as(path: &Path, source: &ReadFile, from: u64) -> bool {
    let (mut kept, mut expected) = (Vec::new(), vec![0; PIECE_BYTES]);
    let opened = File::open(path);
    let read = opened.and_then(|file| file.take(PIECE_BYTES as u64).read_to_end(&mut kept));
    let got = source.read_at(from, &mut expected).unwrap_or(0);
    read.is_ok() && expected[..got].starts_with(&kept)
}

/// The number below which all frames were settled in the required places, as far as a file says.
fn synced_in(file: &Found) -> u64 {
    let listed = file.reader.listed_positions().ok().flatten();
    // Tables have what the frames before them say.
    let (count, listed) = listed.unwrap_or_default();
    let of_frames = (count..file.reader.frames().len())
        .filter_map(|index| file.reader.positions(index).ok())
        .flatten();
    let synced = listed.into_iter().chain(of_frames).filter(|one| one.what == Position::SYNCED);
    synced.map(|one| one.position).max().unwrap_or(0)
}

/// Whether a file is as it was when a list named it as closed, which its writer had synced before.
fn is_listed(listed: &BTreeMap<u32, u64>, file: &Found) -> bool {
    let bytes = listed.get(&file.reader.header().file_index);
    file.reader.closed() && bytes == Some(&file.reader.file_bytes())
}

/// Where the first bytes between its frames are that are none, or those behind them. The table of
/// contents that a repair has made lists the frames behind a hole, too: there it is looked for.
fn first_hole(file: &Found) -> Option<u64> {
    let hole = |reader: &FileReader<ReadFile>| reader.skipped().first().map(|hole| hole.offset);
    if !file.reader.flags().is_some_and(|flags| flags.repaired) {
        return hole(&file.reader);
    }
    let options =
        OpenOptions { ignore_toc: true, ignore_checkpoints: true, ..OpenOptions::default() };
    let bytes = ReadFile::open(&file.path).ok()?;
    hole(&FileReader::open_with(bytes, &options).ok()?)
}

/// Whether a frame cannot be read as a whole.
fn is_bad(file: &Found, frame: usize) -> bool {
    verify_frame(&file.reader, frame).iter().any(|problem| !problem.is_bad_table())
}

/// The files that the list of a folder names as closed, by index, with their lengths.
fn listed_as_closed(folder: &Path) -> Vec<(u32, u64)> {
    let text = std::fs::read(folder.join(FILE_LIST_NAME)).unwrap_or_default();
    let list = FileList::decode(&text).into_iter().flat_map(|list| list.files);
    list.filter_map(|(index, file)| Some((index, file.closed_bytes?))).collect()
}

impl Found {
    /// How many of its frames are kept: numbers rise, so that these are the first ones.
    fn kept(&self, superseded: &Bounds, end: u64) -> usize {
        let infos = self.reader.frames().iter().map(|frame| &frame.info);
        let is_kept = |info: &&FrameInfo| info.sequence < end && !superseded.has(info);
        infos.take_while(is_kept).count()
    }

    /// Adds the positions in its first frames, which these are.
    fn add_positions(&self, frames: usize, newest: &mut Positions) -> Result<(), StorageError> {
        // A damaged table says what its frames say.
        let listed = self.reader.listed_positions().ok().flatten();
        let mut from = 0;
        if let Some((count, positions)) = listed.filter(|(count, _)| *count <= frames) {
            newest.add(&positions);
            from = count;
        }
        for index in from..frames {
            let failed = |source| StorageError::Frame { path: self.path.clone(), source };
            newest.add(&self.reader.positions(index).map_err(failed)?);
        }
        Ok(())
    }
}

/// Keeps a part of a file that is about to be cut off, in a file beside it.
pub(super) fn keep_superseded(path: &Path, from: u64, to: u64) -> Result<(), StorageError> {
    let source = ReadFile::open(path)?;
    let kept_path = superseded_path(path, |kept| begins_as(kept, &source, from));
    let write = |source| StorageError::Write { path: kept_path.clone(), source };
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
