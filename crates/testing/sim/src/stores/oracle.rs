//! The rules that every run with storage nodes must obey, whatever went wrong in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use catchment_model::{Entry, Ledger};
use catchment_ports::MemoryFiles;
use catchment_recorder::State;
use catchment_storage::{Run, RunOptions, Verdict, audit, repair};

use super::node::{SimNode, copy_out};
use super::world::Outcome;
use crate::fault::Faults;
use crate::walk::{WalkedFile, walk};

/// Checks all of a run. Returns how many fragments the recorder was told to be durable.
///
/// # Errors
/// The first rule that was broken, and where.
pub(super) fn check(outcome: &Outcome<'_>) -> Result<u64, String> {
    for fill in &outcome.life.last.fills {
        if fill.highest > fill.capacity {
            return Err(format!("{} held {} of {}", fill.name, fill.highest, fill.capacity));
        }
    }
    let mut stored = Stored::default();
    for (number, node) in outcome.nodes.iter().enumerate() {
        let named = |why: String| format!("node {number}: {why}");
        let own = stored.take(outcome, &node.files, node.is_unrepaired).map_err(named)?;
        let told = &outcome.told[number];
        if let Some(wrong) = &told.wrong {
            return Err(named(wrong.clone()));
        }
        if let Some(frame) = told.frames.iter().find(|frame| !own.contains(frame)) {
            return Err(named(format!("frame {frame} was durable, and is not there")));
        }
        let all = walked(&node.files)?;
        // One that got no frame has no file.
        let says_none = !all.is_empty() && !all.iter().any(|(_, file)| says_end(file));
        if told.has_end && says_none {
            return Err(named("the run's end was durable, and no file says it".to_owned()));
        }
        let open = all.iter().find(|(_, file)| node.has_rested && file.toc.is_none());
        if let Some((path, _)) = open {
            return Err(named(format!("{} is not closed", path.display())));
        }
    }
    // One that died and that no other one followed says nothing of its end.
    let required = match outcome.life.has_crashed {
        true => 0,
        false => check_ledger(outcome, outcome.plan.target, &stored)?,
    };
    check_reader(outcome, &stored)?;
    let other = (0..outcome.plan.base.config.targets.len()).find(|&one| one != outcome.plan.target);
    if let Some(other) = other {
        let mut beside = Stored::default();
        beside.take(outcome, &outcome.files, false).map_err(|why| format!("beside: {why}"))?;
        check_ledger(outcome, other, &beside).map_err(|why| format!("beside: {why}"))?;
    }
    Ok(required)
}

/// The files of each node, for people.
pub(super) fn listed(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    for (number, node) in outcome.nodes.iter().enumerate() {
        let told = &outcome.told[number];
        let (durable, frames) = (told.durable, &told.frames);
        writeln!(text, "node {number}: {durable} items are durable, frames {frames:?}")
            .expect("a string takes all");
        for (path, file) in walked(&node.files).into_iter().flatten() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let frames: Vec<u64> = file.frames.iter().map(|frame| frame.sequence).collect();
            writeln!(text, "  {name}: frames {frames:?}").expect("a string takes all");
        }
    }
    for target in &outcome.life.last.targets {
        writeln!(text, "target {}: {:?}", target.name, target.state).expect("a string takes all");
    }
    text
}

/// What is in files.
#[derive(Default)]
struct Stored {
    /// By source and event: the frame that has it.
    fragments: BTreeMap<(usize, u64), u64>,
    /// The columns of frames with rows: rows and checksums.
    frames: BTreeMap<u64, BTreeMap<u32, (u64, u32)>>,
}

impl Stored {
    /// Adds the files of a place. Returns its frames, skipped ones included. With `may_be_torn`,
    /// the power failed in what was written last, or a write did. Otherwise a frame that is damaged
    /// is there once more: it was not durable, and was sent again.
    fn take(
        &mut self,
        outcome: &Outcome<'_>,
        files: &MemoryFiles,
        may_be_torn: bool,
    ) -> Result<BTreeSet<u64>, String> {
        let (mut own, mut damaged) = (BTreeSet::new(), Vec::new());
        for (path, file) in walked(files)? {
            for frame in &file.frames {
                let of =
                    |why: String| format!("{}: frame {}: {why}", path.display(), frame.sequence);
                if let Some(damage) = file.damage(frame).first() {
                    damaged.push((frame.sequence, of(damage.clone())));
                    continue;
                }
                own.insert(frame.sequence);
                if frame.rows > 0 {
                    let columns = file.shared(frame);
                    let known = self.frames.entry(frame.sequence).or_insert(columns.clone());
                    if *known != columns {
                        return Err(of("another copy has other columns".to_owned()));
                    }
                }
                self.take_fragments(outcome, &file, frame).map_err(of)?;
            }
        }
        let lacks = |(sequence, _): &(u64, String)| !own.contains(sequence);
        match damaged.into_iter().find(lacks) {
            Some((_, damage)) if !may_be_torn => Err(damage),
            _ => Ok(own),
        }
    }

    fn take_fragments(
        &mut self,
        outcome: &Outcome<'_>,
        file: &WalkedFile,
        frame: &crate::walk::WalkedFrame,
    ) -> Result<(), String> {
        let plan = outcome.plan;
        let mut wrong = None;
        file.fragments(frame, |fragment| {
            let (source, event) = (fragment.source, fragment.key);
            let Some(bytes) = fragment.bytes else { return };
            let is_sent = source < plan.sources.len() && event < plan.events;
            if !is_sent || plan.fragment(source, event) != bytes {
                wrong.get_or_insert(format!("event {event} of source {source} has other bytes"));
            }
            let first = *self.fragments.entry((source, event)).or_insert(frame.sequence);
            if first != frame.sequence {
                wrong.get_or_insert(format!(
                    "event {event} of source {source} is in frame {first}, too"
                ));
            }
        })?;
        wrong.map_or(Ok(()), Err)
    }

    fn count(&self, source: usize) -> u64 {
        self.fragments.keys().filter(|(one, _)| *one == source).count() as u64
    }
}

pub(super) fn walked(files: &MemoryFiles) -> Result<Vec<(PathBuf, WalkedFile)>, String> {
    let is_frames = |(path, _): &(PathBuf, _)| path.extension() == Some("catch".as_ref());
    let mut all = Vec::new();
    for (path, bytes) in files.all().into_iter().filter(is_frames) {
        // One whose header was not durable has nothing that counts.
        if let Ok(Some(file)) = walk(&bytes) {
            all.push((path, file));
        }
    }
    Ok(all)
}

/// The line of a target in the ledger balances, and is that of what is stored. Returns the
/// fragments that are durable by it.
fn check_ledger(outcome: &Outcome<'_>, target: usize, stored: &Stored) -> Result<u64, String> {
    let of_target = &outcome.life.last.targets[target];
    let has_failed = matches!(of_target.state, State::Fault { .. });
    let mut durable = 0;
    for (source, ledger) in of_target.ledger.sources.iter().enumerate() {
        let named = |why: String| format!("source {source}: {why}");
        let balance = ledger.balance();
        if !balance.holds() || balance.fragments_in_flight != 0 {
            return Err(named(format!("the ledger does not balance: {balance:?}")));
        }
        let recorded = ledger[Entry::FragmentsRecorded];
        if ledger[Entry::FragmentsDurable] != recorded {
            let durable = ledger[Entry::FragmentsDurable];
            return Err(named(format!("{recorded} are recorded, and {durable} durable")));
        }
        // What was given up may be there.
        let found = stored.count(source);
        if recorded > found || recorded < found && !has_failed {
            return Err(named(format!("{recorded} are recorded, and {found} are there")));
        }
        let is_whole = outcome.plan.case().faults == Faults::NONE && of_target.required;
        if is_whole && recorded != outcome.plan.events {
            let sent = outcome.plan.events;
            return Err(named(format!("without faults {recorded} of {sent} are recorded")));
        }
        durable += recorded;
    }
    Ok(durable)
}

/// Readers give each frame of all nodes once, and the books of the run balance.
fn check_reader(outcome: &Outcome<'_>, stored: &Stored) -> Result<(), String> {
    let mut folders = Vec::new();
    for node in &outcome.nodes {
        folders.extend(folder_of(node)?);
    }
    if folders.is_empty() {
        return Ok(());
    }
    let of_nodes = read(&folders)?;
    // What was repaired says that something may be lost.
    let is_repaired = outcome.nodes.iter().any(|node| node.is_unrepaired);
    let numbers = check_frames(&of_nodes, stored, is_repaired)?;
    let target = &outcome.life.last.targets[outcome.plan.target];
    let may_be_lost =
        is_repaired || !has_end(outcome)? || matches!(target.state, State::Fault { .. });
    check_audit(&of_nodes, &target.ledger, may_be_lost)
        .map_err(|why| format!("{why}, of frames {numbers:?}"))?;
    Ok(())
}

/// Whether a file says that the run has ended, or one can be expected to: not if the recorder died
/// and no other one followed, or says that no node has acknowledged the end.
fn has_end(outcome: &Outcome<'_>) -> Result<bool, String> {
    let is_unknown = |text: &String| text.contains("it has not acknowledged the run's end");
    let is_told = outcome.told.iter().any(|told| told.has_end);
    let is_unknown = outcome.life.last.warned().any(is_unknown) && !is_told;
    let mut has_end = !outcome.life.has_crashed && !is_unknown;
    for node in &outcome.nodes {
        has_end |= walked(&node.files)?.iter().any(|(_, file)| says_end(file));
    }
    Ok(has_end)
}

fn says_end(file: &WalkedFile) -> bool {
    file.toc.as_ref().is_some_and(|toc| toc.run_ended())
}

fn read(folders: &[PathBuf]) -> Result<Run, String> {
    let run = Run::open_folders(folders, RunOptions::default());
    run.map_err(|error| format!("cannot be opened: {error}"))
}

/// The folder of the stream at a node, as readers find it.
fn folder_of(node: &SimNode) -> Result<Option<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("a folder for readers: {error}");
    copy_out(&node.files, &node.folder).map_err(failed)?;
    let Some(stream) = node.folder.read_dir().map_err(failed)?.next() else { return Ok(None) };
    let stream = stream.map_err(failed)?.path();
    if node.is_unrepaired && has_frames(&stream).map_err(failed)? {
        repair(&stream).map_err(|error| format!("cannot be repaired: {error}"))?;
    }
    Ok(has_frames(&stream).map_err(failed)?.then_some(stream))
}

fn has_frames(folder: &Path) -> std::io::Result<bool> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let is_frames = path.extension() == Some("catch".as_ref());
        if is_frames && walk(&std::fs::read(&path)?).is_ok_and(|file| file.is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A reader gives each frame with rows once, and each event once. With `may_be_torn`, frames that
/// are whole nowhere need not be readable. Returns the numbers of all.
fn check_frames(run: &Run, stored: &Stored, may_be_torn: bool) -> Result<Vec<u64>, String> {
    let numbers: Vec<u64> = run.frames().iter().map(|frame| frame.summary.info.sequence).collect();
    if !numbers.is_sorted_by(|one, next| one < next) {
        return Err(format!("readers have frames {numbers:?}"));
    }
    let expected: Vec<u64> = stored.frames.keys().copied().collect();
    if let Some(missing) = expected.iter().find(|number| !numbers.contains(number)) {
        return Err(format!("frame {missing} is there, readers have {numbers:?}"));
    }
    let mut events = BTreeSet::new();
    for (index, number) in numbers.iter().enumerate() {
        let of_frame = match run.events(index) {
            Err(_) if may_be_torn && !stored.frames.contains_key(number) => continue,
            of_frame => of_frame.map_err(|error| error.to_string())?,
        };
        if let Some(key) = of_frame.keys().iter().find(|&&key| !events.insert(key)) {
            return Err(format!("event {key} is read twice"));
        }
    }
    Ok(numbers)
}

fn check_audit(run: &Run, live: &Ledger, may_be_lost: bool) -> Result<(), String> {
    let report = audit(run).map_err(|error| format!("cannot be audited: {error}"))?;
    let lost = live.balance().lost_data();
    let is_right = match report.verdict {
        // What was given up may be there.
        Verdict::Balanced => !lost || may_be_lost,
        Verdict::DataLost => lost || may_be_lost,
        Verdict::Incomplete => true,
        Verdict::NotBalanced => false,
    };
    if !is_right {
        return Err(format!("the audit says {:?}, lost: {lost}: {report:?}", report.verdict));
    }
    Ok(())
}
