//! A run's ledger, recomputed from its columns and compared with its recorder's.
//!
//! The ledger's increments in the frames give what arrived and what was dropped; the frames
//! themselves give what is recorded and what is missing. Their sum is the *recomputed* ledger. For
//! a run that ended in order it must equal the TOC's total, entry by entry, and balance. Otherwise
//! fragments may be in flight: they arrived before the last frame and belong to a later one. A
//! working recorder, which holds its file locked, will write them. If a recorder was killed,
//! fragments in flight are lost, and so are later arrivals, which no ledger counts: it cannot be
//! shown that an interrupted run lost nothing.
//!
//! Of several folders, each place is compared with its own ledger, and all of them together with
//! the ledger of all ([`crate::folders`]): what one lacks and another has is not missing.

mod several;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use catchment_frame::{ChannelInfo, FrameKind, TocFlags, frame_ledger};
use catchment_model::{Balance, Entry, Ledger};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::copies::DamagedCopy;
use crate::error::StorageError;
use crate::folders::{self, LedgerKind, MissingFrames};
use crate::open::{FileProblem, RunFile};
use crate::run::Run;
use crate::verify::{Problem, holes, in_file, of_folder, problem_in, under_way_bytes};
use crate::whole::{Extent, Whole};
pub use several::FolderAudit;

/// The verdict of an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything is accounted for, and nothing was lost.
    Balanced,
    /// Everything is accounted for; some sent data are in no file, or can no longer be read.
    DataLost,
    /// The columns contradict the recorder's ledger, or something is unaccounted for.
    NotBalanced,
    /// Files are missing, unreadable, or lost their TOC or trailer: there is no ledger of the run.
    Incomplete,
}

/// How the run was closed, which determines the conditions on the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// Its recorder ended it: the ledger must balance to the last fragment.
    Ended,
    /// A recorder was killed, and `repair` closed the last file: fragments in flight are lost.
    Repaired,
    /// It is being recorded: a recorder holds its files. Fragments are in flight.
    Recording,
    /// Its recorder was killed, and it has not been closed since: fragments in flight are lost.
    Killed,
    /// The opened file is not the whole run: it is not compared with the total.
    Part,
}

/// An entry in which the TOC's total and the columns differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The source's name.
    pub source: String,
    /// The entry's name.
    pub entry: &'static str,
    /// The count in the TOC's total.
    pub recorded: u64,
    /// The count from increments and columns.
    pub recomputed: u64,
}

/// The open differences in one source's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Open {
    /// The source's name.
    pub source: String,
    /// Fragments that arrived but are neither recorded nor counted as dropped; negative: more are
    /// recorded than arrived.
    pub fragments: i128,
    /// Packets that arrived but are neither accepted nor malformed.
    pub packets: i128,
}

/// The result of an audit.
#[derive(Clone, Debug, Serialize)]
pub struct AuditReport {
    /// The verdict.
    pub verdict: Verdict,
    /// How the run was closed.
    pub closing: Closing,
    /// Events in the files.
    pub events: u64,
    /// Frames with events or samples of channels.
    pub frames: u64,
    /// Channels of the run.
    pub channels: usize,
    /// How many of its sources are links, which deliver channels.
    pub links: usize,
    /// How many of its sources and links are not in these files, but in another target's.
    pub not_stored: usize,
    /// Frames that are missing, by the numbers of the existing ones.
    pub frames_missing: u64,
    /// Bytes after the last whole frame, if one was being written.
    pub under_way_bytes: u64,
    /// Whether the last file's TOC marks lost data.
    pub flagged_lost: bool,
    /// The total in the last file's TOC; none if it has no TOC or covers only that file.
    #[serde(serialize_with = "optional_ledger")]
    pub recorded: Option<Ledger>,
    /// The ledger recomputed from increments and columns.
    #[serde(serialize_with = "ledger")]
    pub recomputed: Ledger,
    /// Losses in the recomputed ledger.
    #[serde(serialize_with = "losses")]
    pub balance: Balance,
    /// Where recorded and recomputed differ.
    pub differences: Vec<Difference>,
    /// Fragments in flight, or unaccounted for, by source.
    pub open: Vec<Open>,
    /// Files that are missing, unreadable, or lost their TOC or trailer.
    pub incomplete: Vec<Problem>,
    /// Whether all files are there, as far as known.
    pub extent: Extent,
    /// Columns and files that could not be read; their contents are not in the ledger.
    pub problems: Vec<Problem>,
    /// Damaged frames replaced by a whole copy in the run, which was counted instead.
    pub damaged_copies: Vec<DamagedCopy>,
    /// If several folders were opened, whose frames have numbers of the run: what each has.
    pub folders: Vec<FolderAudit>,
    /// Frames that are in more than one of them.
    pub frames_repeated: u64,
    /// The frames that are in none, between those that are there, and of several folders before
    /// them: the first 1,000 ranges.
    pub missing: Vec<MissingFrames>,
    /// What is missing or broken in one of several folders, and is in another: no loss.
    pub elsewhere: Vec<Problem>,
    /// Names of the sources and links, in the ledgers' order.
    pub sources: Vec<String>,
}

impl AuditReport {
    /// Whether everything is accounted for.
    pub fn is_balanced(&self) -> bool {
        matches!(self.verdict, Verdict::Balanced | Verdict::DataLost)
    }

    /// Whether some sent data are in no file, or can no longer be read.
    pub fn lost_data(&self) -> bool {
        self.balance.lost_data()
            || self.flagged_lost
            || self.frames_missing > 0
            || !self.problems.is_empty()
            || !self.incomplete.is_empty()
            || self.was_interrupted()
    }

    /// Whether its recorder was killed: then fragments in flight are lost, and the number that
    /// arrived after the last frame is unknown.
    pub fn was_interrupted(&self) -> bool {
        matches!(self.closing, Closing::Killed | Closing::Repaired)
    }

    /// Fragments that arrived but are neither recorded nor counted as dropped.
    pub fn fragments_in_flight(&self) -> u64 {
        let positive = self.open.iter().map(|open| u64::try_from(open.fragments).unwrap_or(0));
        positive.fold(0, u64::saturating_add)
    }
}

/// Recomputes the ledger from increments and columns, and names unreadable parts. Reads lengths,
/// validity and increments of every frame, no payload. Of several folders, it is that of
/// [`Run::ledger_path`], as with [`Run::recorded_ledger`]; where that has an unreadable frame and
/// another a whole one, it is counted by the other.
pub fn recompute(run: &Run) -> (Ledger, Vec<Problem>) {
    let (ledger, problems, _) = recompute_all(run);
    (ledger, problems)
}

/// As [`recompute`], and the unreadable frames that were counted by a copy.
fn recompute_all(run: &Run) -> (Ledger, Vec<Problem>, Vec<DamagedCopy>) {
    let mut ledger = Ledger::new(run.sources().len());
    let mut problems = missing_before_the_end(run);
    let mut copies = Vec::new();
    let mut channels = ChannelBytes::new(run);
    let folder = run.ledger_path();
    for file in run.all_files().of_ledgers().flat_map(|(_, files)| files) {
        let mut sum = Ledger::new(run.sources().len());
        let before = (problems.len(), copies.len());
        for (frame, _) in file.frames() {
            let (mut added, mut errors) = frame_ledger(&file.reader, frame);
            let mut counted = (file, frame);
            let copy = several::count_by_copy(run, counted, &mut added, &errors);
            if let Some((copy, whole)) = copy {
                copies.push(copy);
                errors.clear();
                counted = whole;
            }
            sum.add(&added);
            let left = PROBLEMS_MAX.saturating_sub(problems.len());
            let errors = errors.into_iter().take(left);
            problems.extend(errors.map(|error| problem_in(file, Some(frame), error)));
            channels.add(counted.0, counted.1, &added);
        }
        let is_all = (problems.len(), copies.len()) == before && file.repeated.is_empty();
        let listed = file.reader.frames_ledger().transpose().filter(|_| is_all);
        problems.extend(listed.and_then(|listed| match listed {
            Ok(listed) if listed == sum => None,
            Ok(_) => Some(in_file(file, "its TOC counts other than its frames".to_owned())),
            Err(error) => Some(problem_in(file, None, error)),
        }));
        ledger.add(&sum);
        problems.extend(holes(file).map(|skipped| in_file(file, skipped.to_string())));
    }
    problems.extend(channels.problems(run, folder));
    problems.extend(folders::lend(run, &mut ledger, LedgerKind::Sum));
    what_is_read_is_durable(&mut ledger);
    (ledger, problems, copies)
}

/// The ledger of a run from its files: the total in the last file's TOC or, if its recorder was
/// killed and it has not been closed since, what can be obtained quickly: up to `frames_max` frames
/// the ledger is recomputed, beyond that it is taken from the newest checkpoint, which is at most
/// 10 s or 64 frames older than the last frame. None if the last file's total covers only that
/// file; use [`recompute`] then.
///
/// # Errors
/// If the last file's total or checkpoint cannot be read.
pub fn ledger_so_far(run: &Run, frames_max: usize) -> Result<Option<Ledger>, StorageError> {
    if let Some(recorded) = run.recorded_ledger()? {
        return Ok(Some(recorded));
    }
    if run.all_files().lasts().all(|last| last.reader.closed()) {
        return Ok(None);
    }
    let places = || run.all_files().of_ledgers().map(|(_, files)| files);
    let frames: usize = places().flatten().map(|file| file.reader.frames().len()).sum();
    if frames <= frames_max {
        return Ok(Some(recompute(run).0));
    }
    let mut ledger = Ledger::new(run.sources().len());
    for files in places().flat_map(folders::parts) {
        let Some(so_far) = checkpointed(files)? else { return Ok(None) };
        ledger.add(&so_far);
    }
    Ok(Some(ledger))
}

/// The newest ledger that the files of a place, or of a part of one, say.
fn checkpointed(files: &[RunFile]) -> Result<Option<Ledger>, StorageError> {
    let Some(last) = files.last() else { return Ok(None) };
    if last.reader.closed() {
        return Ok(last.reader.ledger().map_err(|error| last.error(error))?.cloned());
    }
    let newest = last.reader.ledger_at_checkpoint().map_err(|error| last.error(error))?;
    if let Some((_, ledger)) = newest {
        return Ok(Some(ledger));
    }
    // A file that has just been begun: the previous one was closed with the ledger so far.
    let Some(before) = files.iter().rev().nth(1) else { return Ok(None) };
    Ok(before.reader.ledger().map_err(|error| before.error(error))?.cloned())
}

/// Bytes of links' channels: as counted in the frames' ledgers, and as found in their columns.
struct ChannelBytes {
    /// By source.
    bytes: Vec<(u64, u64)>,
    /// The source of each channel's column.
    sources: HashMap<u32, u32>,
}

impl ChannelBytes {
    fn new(run: &Run) -> Self {
        let of = |info: &ChannelInfo| info.source.map(|source| (info.id, source));
        let sources = run.channels().iter().filter_map(of).collect();
        Self { bytes: vec![(0, 0); run.sources().len()], sources }
    }

    fn add(&mut self, file: &RunFile, frame: usize, counts: &Ledger) {
        let kind = file.reader.frames().get(frame).map(|frame| frame.info.kind);
        if kind != Some(FrameKind::Channels) || self.sources.is_empty() {
            return;
        }
        for ((counted, _), source) in self.bytes.iter_mut().zip(&counts.sources) {
            *counted = counted.saturating_add(source[Entry::FragmentBytesRecorded]);
        }
        // An unreadable directory has already been named as a problem.
        let columns = file.reader.columns(frame).unwrap_or_default();
        for entry in columns {
            let source = self.sources.get(&entry.id);
            if let Some((_, held)) = source.and_then(|&source| self.bytes.get_mut(source as usize))
            {
                *held = held.saturating_add(entry.raw_bytes);
            }
        }
    }

    /// Links whose ledger differs from the contents of their channels. If nothing was counted,
    /// there is no ledger: such runs were written without a recorder.
    fn problems(&self, run: &Run, folder: &Path) -> Vec<Problem> {
        let differ = |(_, (counted, held)): &(usize, &(u64, u64))| *counted > 0 && counted != held;
        let wrong = self.bytes.iter().enumerate().filter(differ);
        wrong
            .map(|(source, (counted, held))| Problem {
                source: run.sources().get(source).map(|source| source.name.clone()),
                ..of_folder(
                    folder,
                    format!(
                        "the ledger counts {counted} bytes of channels, the columns hold {held}"
                    ),
                )
            })
            .collect()
    }
}

/// Recomputes the ledger of a run and compares it with its recorder's; of several folders, also
/// that of each.
///
/// # Errors
/// If a disk fails to read the ledger in the last file's TOC. Damage is part of the report: where
/// that ledger is damaged in all folders, there is none, and the sum of the frames must balance.
pub fn audit(run: &Run) -> Result<AuditReport, StorageError> {
    let (recomputed, mut problems, copies) = recompute_all(run);
    let whole = Whole::of(run);
    let mut incomplete = missing_before_the_end(run);
    incomplete.extend(whole.problems);
    let recorded = match run.recorded_ledger() {
        Err(error) if error.is_damage() => None,
        read => read?,
    };
    let closing = closing(run);
    let sources: Vec<String> = run.sources().iter().map(|source| source.name.clone()).collect();
    let of_folders = several::Several::of(run)?;
    let mut elsewhere = of_folders.take_covered(run, &mut incomplete, &mut problems);
    let of_ledgers: Vec<_> =
        run.all_files().of_ledgers().map(|(_, files)| files[0].place).collect();
    for (_, files) in run.all_files().places() {
        let is_used = of_ledgers.contains(&files[0].place);
        let named = if is_used { &mut problems } else { &mut elsewhere };
        named.extend(folders::total_damage(files));
    }
    let differences = match &recorded {
        Some(recorded) if closing == Closing::Ended => {
            differences(&sources, recorded, &recomputed, of_folders.compared())
        }
        _ => Vec::new(),
    };
    let is_open = closing != Closing::Part && of_folders.is_ledger_whole;
    let links: HashSet<u32> = run.channels().iter().filter_map(|channel| channel.source).collect();
    let absent = run.sources().iter().filter(|source| !source.stored).count();
    let mut report = AuditReport {
        verdict: Verdict::Balanced,
        closing,
        events: run.event_count(),
        frames: (run.frames().len() + run.channel_frames().len()) as u64,
        channels: run.channels().len(),
        links: links.len(),
        not_stored: absent,
        frames_missing: of_folders.frames_missing,
        under_way_bytes: run.all_files().lasts().map(under_way_bytes).sum(),
        flagged_lost: match of_folders.places {
            // Of each part: the ledger is the sum of theirs.
            1 => {
                let mut flags = run.all_files().lasts().filter_map(|last| last.reader.flags());
                flags.any(|flags| flags.data_lost)
            }
            _ => run.lost_data(),
        },
        balance: recomputed.balance(),
        differences,
        open: if is_open { open(&sources, &recomputed) } else { Vec::new() },
        recorded,
        recomputed,
        problems,
        incomplete,
        extent: whole.extent,
        damaged_copies: damaged_copies(run, copies),
        frames_repeated: of_folders.frames_repeated,
        missing: of_folders.missing,
        folders: of_folders.folders,
        elsewhere,
        sources,
    };
    report.verdict = verdict(&report);
    Ok(report)
}

/// The damaged copies that opening the run has found, and others.
fn damaged_copies(run: &Run, others: Vec<DamagedCopy>) -> Vec<DamagedCopy> {
    let mut all = run.damaged_copies().to_vec();
    for copy in others {
        if !all.iter().any(|one| (&one.file, one.frame) == (&copy.file, copy.frame)) {
            all.push(copy);
        }
    }
    all
}

/// Data that can be read back from closed files are on the disk.
pub(crate) fn what_is_read_is_durable(ledger: &mut Ledger) {
    for source in &mut ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
}

/// Files that opening the run found missing or unreadable.
fn missing_before_the_end(run: &Run) -> Vec<Problem> {
    let damage = run.problems().iter().filter(|problem| problem.is_damage());
    let named = |problem: &FileProblem| match problem {
        FileProblem::Missing { index, folder: Some(folder), target } => {
            let (index, target) = (*index, target.clone());
            let there = FileProblem::Missing { index, folder: None, target };
            of_folder(folder, there.to_string())
        }
        FileProblem::Unreadable { path, error } => of_folder(path, error.to_string()),
        problem => of_folder(run.path(), problem.to_string()),
    };
    damage.map(named).collect()
}

fn verdict(report: &AuditReport) -> Verdict {
    if !report.incomplete.is_empty() {
        return Verdict::Incomplete;
    }
    let at_rest = report.closing == Closing::Ended;
    let contradicts = report.folders.iter().any(FolderAudit::contradicts_itself);
    if contradicts || at_rest && !(report.differences.is_empty() && report.open.is_empty()) {
        Verdict::NotBalanced
    } else if report.lost_data() {
        Verdict::DataLost
    } else {
        Verdict::Balanced
    }
}

fn closing(run: &Run) -> Closing {
    if folders::are_several(run.run_files()) {
        return several::closing(run);
    }
    let first_index = run.header().file_index;
    // The beginning of a folder's run may be missing, which is damage; for a single file, it is
    // elsewhere.
    if first_index > 0 && run.problems().is_empty() {
        return Closing::Part;
    }
    let unfinished = if run.being_recorded() { Closing::Recording } else { Closing::Killed };
    match last_flags(run) {
        None => unfinished,
        Some(flags) if flags.run_ended => Closing::Ended,
        Some(flags) if flags.repaired => Closing::Repaired,
        Some(_) if run.path().is_file() => Closing::Part,
        Some(_) => unfinished,
    }
}

/// Those of the last file: of parts that of one that marks the end, if there is one.
fn last_flags(run: &Run) -> Option<TocFlags> {
    run.all_files().last().reader.flags()
}

fn differences(
    names: &[String],
    recorded: &Ledger,
    recomputed: &Ledger,
    compared: &[Entry],
) -> Vec<Difference> {
    let mut found = Vec::new();
    let pairs = recorded.sources.iter().zip(&recomputed.sources);
    for (name, (recorded, recomputed)) in names.iter().zip(pairs) {
        if recorded.reasons != recomputed.reasons && compared.len() == Entry::COUNT {
            let [then, now] = [recorded, recomputed].map(|one| one.reasons.iter().sum());
            let (source, entry) = (name.clone(), "malformed_reasons");
            found.push(Difference { source, entry, recorded: then, recomputed: now });
        }
        for &entry in compared {
            let (then, now) = (recorded[entry], recomputed[entry]);
            // A difference in durable fragments follows from recorded ones, which are named
            // themselves; or the TOC was written before the last sync, and is too low.
            let follows = then == recorded[Entry::FragmentsRecorded] || then <= now;
            let fits = if entry == Entry::FragmentsDurable { follows } else { then == now };
            if !fits {
                let (source, entry) = (name.clone(), entry.name());
                found.push(Difference { source, entry, recorded: then, recomputed: now });
            }
        }
    }
    found
}

fn open(names: &[String], ledger: &Ledger) -> Vec<Open> {
    let balances = names.iter().zip(&ledger.sources).map(|(name, source)| (name, source.balance()));
    let unexplained = balances.filter(|(_, balance)| !balance.holds());
    unexplained
        .map(|(name, balance)| Open {
            source: name.clone(),
            fragments: balance.fragments_in_flight,
            packets: balance.packets_in_flight,
        })
        .collect()
}

/// One map per source, with the non-zero entries.
fn ledger<S: Serializer>(ledger: &Ledger, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ledger.sources.iter().map(|source| {
        let counts = source.iter().filter(|(_, count)| *count != 0);
        counts.map(|(entry, count)| (entry.name(), count)).collect::<Counts>()
    }))
}

fn optional_ledger<S: Serializer>(
    value: &Option<Ledger>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => ledger(value, serializer),
        None => serializer.serialize_none(),
    }
}

fn losses<S: Serializer>(balance: &Balance, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(6))?;
    map.serialize_entry("fragments_lost", &balance.fragments_lost)?;
    map.serialize_entry("fragments_dropped", &balance.fragments_dropped)?;
    map.serialize_entry("packets_malformed", &balance.packets_malformed)?;
    map.serialize_entry("packets_dropped_by_kernel", &balance.packets_dropped_by_kernel)?;
    map.serialize_entry("fragments_in_flight", &balance.fragments_in_flight)?;
    map.serialize_entry("packets_in_flight", &balance.packets_in_flight)?;
    map.end()
}

/// Names and counts, in the entries' order.
struct Counts(Vec<(&'static str, u64)>);

impl FromIterator<(&'static str, u64)> for Counts {
    fn from_iter<I: IntoIterator<Item = (&'static str, u64)>>(counts: I) -> Self {
        Self(counts.into_iter().collect())
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

const PROBLEMS_MAX: usize = 10_000;
