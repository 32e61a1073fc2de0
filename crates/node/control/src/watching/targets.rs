//! The targets of a run: their speed, and what became of fragments in each.

use std::collections::BTreeMap;

use catchment_catalog::TargetSource;
use catchment_model::units::Bytes;
use catchment_model::{Entry, SourceLedger};
use catchment_recorder::{
    Fill, FolderSnapshot, HandedOver, NodeConfig, NodeShare, Place, RunSummary, Snapshot,
    SpillState, State, TargetSnapshot,
};
use catchment_watch::{Rates, Run, Untaken, words_of_time};

use super::forecasts::Lasts;
use super::{Moment, fault};
use crate::api;

/// What becomes of fragments in a target.
pub(crate) const OF_TARGET: [Entry; 8] = [
    Entry::FragmentsRecorded,
    Entry::FragmentsDurable,
    Entry::FragmentsNotTaken,
    Entry::FragmentsDiscardedDisk,
    Entry::FragmentsRemoved,
    Entry::FragmentsUnconfirmed,
    Entry::FragmentsSpilled,
    Entry::FragmentsForwarded,
];

/// What each target has written, for its speed.
pub(super) fn counters(snapshot: &Snapshot) -> Vec<u64> {
    snapshot.targets.iter().map(|target| target.counts.bytes_written).collect()
}

/// The targets of the run, or of the last one.
pub(super) fn list(moment: &Moment<'_>, rates: &Rates) -> Vec<api::Target> {
    let is_open = moment.run.is_some();
    let target = |(index, target): (usize, &TargetSnapshot)| {
        let (state, reason) = match &target.state {
            State::Fault { reason } => ("fault", Some(reason.clone())),
            State::Recording if is_open && target.is_spilling() => {
                ("spilling", target.away.clone())
            }
            State::Recording if is_open && target.away.is_some() => ("away", target.away.clone()),
            State::Recording if is_open => ("recording", None),
            State::Recording | State::Stopped => ("ended", None),
        };
        let speed = rates.per_second(index).filter(|_| is_open);
        api::Target {
            name: target.name.clone(),
            required: target.required,
            folder: target.place.folder().map(|folder| folder.display().to_string()),
            node: target.place.node().map(NodeConfig::shown),
            state: state.into(),
            reason,
            bytes_written: target.counts.bytes_written,
            bytes_written_per_second: speed.unwrap_or(0.0),
            queue: queue(&target.queue),
            buffers: buffers(target),
            folders: target.folders.iter().map(folder).collect(),
            nodes: target.nodes.iter().map(|one| node(one, is_open)).collect(),
            ledger: nonzero(&target.ledger.total()),
        }
    };
    moment.snapshot.iter().flat_map(|one| &one.targets).enumerate().map(target).collect()
}

/// The spills of the configuration: what a run has in them, and what earlier ones have left.
pub(crate) fn spills(left: Vec<SpillState>, snapshot: Option<&Snapshot>) -> Vec<api::Spill> {
    let targets = || snapshot.into_iter().flat_map(|one| &one.targets);
    let spill = |left: SpillState| {
        let of_run = targets().find(|target| target.name == left.target);
        let of_run = of_run.and_then(|target| target.spill).unwrap_or_default();
        let mut all = left.counts.with(&of_run);
        // What the run has left counts there once the folder was looked through.
        let is_new = |one: &HandedOver| left.looked.is_none_or(|looked| looked < one.at);
        if let Some(new) = of_run.handed_over.filter(is_new) {
            all.frames_waiting += new.frames;
            all.bytes_waiting += new.bytes;
        }
        api::Spill {
            target: left.target,
            folder: left.folder.display().to_string(),
            node: left.node,
            bytes_max: left.bytes_max,
            frames_spilled: all.frames_spilled,
            bytes_spilled: all.bytes_spilled,
            frames_forwarded: all.frames_forwarded,
            bytes_forwarded: all.bytes_forwarded,
            frames_lost: all.frames_lost,
            frames_removed: all.frames_removed,
            files_damaged: all.files_damaged,
            frames_waiting: all.frames_waiting,
            bytes_waiting: all.bytes_waiting,
            waits_seconds: all.waits_ns as f64 / 1e9,
            room_seconds: None,
            problems: left.problems,
        }
    };
    left.into_iter().map(spill).collect()
}

/// What became of a source's fragments in each target, where there are several, or one with a
/// spill.
pub(super) fn of_source(
    snapshot: Option<&Snapshot>,
    source: usize,
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let line = |target: &TargetSnapshot| {
        Some((target.name.clone(), nonzero(target.ledger.sources.get(source)?)))
    };
    let all = match snapshot {
        Some(one) if one.targets.iter().any(|target| target.spill.is_some()) => &one.targets[..],
        one => one.map_or(&[][..], several),
    };
    all.iter().filter_map(line).collect()
}

/// The same of all sources of a run that has ended, by target, for the catalogue.
pub(crate) fn of_run(summary: &RunSummary) -> Vec<TargetSource> {
    let of_each = summary.names.iter().enumerate().flat_map(|(index, source)| {
        let of_targets = of_source(Some(&summary.last), index).into_iter();
        of_targets.map(move |(target, entries)| {
            let source = source.clone();
            TargetSource { target, source, entries }
        })
    });
    let mut all: Vec<TargetSource> = of_each.filter(|one| !one.entries.is_empty()).collect();
    all.sort_by(|one, other| one.target.cmp(&other.target));
    all
}

/// Required targets that cannot write, and folders that are not used, while the run is recorded in
/// another, in plain words.
pub(super) fn failed(moment: &Moment<'_>) -> Vec<String> {
    let is_recording = matches!(moment.flow, Run::Recording { .. });
    let snapshot = moment.snapshot.filter(|one| is_recording && one.state == State::Recording);
    let words = |target: &TargetSnapshot| match &target.state {
        // Frames that wait for one with a spill are said to be in memory.
        State::Fault { reason } if target.required && !is_node(target) && target.away.is_none() => {
            let words = fault::advice(reason).unwrap_or(reason);
            Some(format!("target {}: {words}", target.name))
        }
        _ => None,
    };
    let of_folder = |folder: &FolderSnapshot| {
        let reason = folder.away.as_ref()?;
        let path = folder.path.display();
        Some(format!("{path} is not used: {reason}"))
    };
    let folders = snapshot.into_iter().flat_map(|one| &one.targets);
    let folders = folders.flat_map(|target| &target.folders).filter_map(of_folder);
    snapshot.into_iter().flat_map(several).filter_map(words).chain(folders).collect()
}

/// Required targets that take nothing while their spills take all, and of each in plain words why,
/// and how long its spill has room.
pub(super) fn spilling(
    moment: &Moment<'_>,
    targets: &[api::Target],
    lasts: &Lasts,
) -> Vec<(String, String)> {
    let is_recording = matches!(moment.flow, Run::Recording { .. });
    let all = targets.iter().filter(|one| is_recording && one.state == "spilling");
    let words = |target: &api::Target| {
        let why = target.reason.as_deref().unwrap_or_default();
        let why = if target.node.is_none() { fault::remedy(why).unwrap_or(why) } else { why };
        let spill = moment.spills.iter().find(|spill| spill.target == target.name)?;
        let folder = &spill.folder;
        let room = match lasts.spills.get(&target.name) {
            Some(seconds) => {
                let time = words_of_time((seconds * 1e9) as u64);
                format!("{folder} has room for {time} at this rate")
            }
            None => format!("nothing is lost while {folder} has room"),
        };
        Some((target.name.clone(), format!("{why}; {room}")))
    };
    all.filter_map(words).collect()
}

/// Why a run that is to end cannot: a required folder and its spill take nothing, and what waits
/// for them in memory must not be lost.
pub(crate) fn held_up(run: u64, snapshot: &Snapshot, spills: &[api::Spill]) -> Option<String> {
    let (target, why) = snapshot.targets.iter().find_map(|target| {
        let takes_nothing = !is_node(target) && target.spill.is_some_and(|spill| !spill.takes());
        let waits = target.required && takes_nothing && target.queue.level > 0;
        Some((target, why_not(target)?)).filter(|_| waits)
    })?;
    let folder = target.place.folder()?.display();
    let spill = spills.iter().find(|spill| spill.target == target.name)?;
    let bytes = Bytes(target.queue.level);
    Some(format!("run {run} cannot end: {}", both_full(&folder.to_string(), spill, bytes, why)))
}

/// Why a folder takes nothing.
fn why_not(target: &TargetSnapshot) -> Option<&str> {
    match &target.state {
        State::Fault { reason } => Some(reason),
        _ => target.away.as_deref(),
    }
}

/// That neither a folder nor its spill takes what waits in memory, and what to do.
pub(crate) fn both_full(folder: &str, spill: &api::Spill, waiting: Bytes, why: &str) -> String {
    let (used, most) = (Bytes(spill.bytes_waiting), Bytes(spill.bytes_max));
    let spill = format!("its spill {} ({used} of {most}) takes nothing either", spill.folder);
    let waits = format!("{waiting} wait in memory");
    match fault::is_full(why) {
        true => format!(
            "{folder} is full, {spill}, and {waits}. Make room in {folder}: the run then ends by \
             itself"
        ),
        false => {
            let why = fault::remedy(why).unwrap_or(why);
            format!(
                "{folder} takes nothing ({why}), {spill}, and {waits}. The run ends by itself once \
                 {folder} takes them"
            )
        }
    }
}

/// Writes that were begun, and those that have completed, but for those for which nothing waits
/// since a spill has their frames.
pub(super) fn writes(snapshot: &Snapshot) -> (u64, u64) {
    let spilled = snapshot.targets.iter().filter(|target| target.is_spilling());
    let all = (snapshot.counts.writes_begun, snapshot.counts.writes_completed);
    spilled.fold(all, |(begun, completed), TargetSnapshot { counts, .. }| {
        let begun = begun.saturating_sub(counts.writes_begun);
        (begun, completed.saturating_sub(counts.writes_completed))
    })
}

/// Whether the disk of a required folder is full, whose frames go to its spill.
pub(super) fn is_full(snapshot: &Snapshot) -> bool {
    let of_folder = snapshot.targets.iter().filter(|one| one.required && !is_node(one));
    of_folder.filter_map(|target| target.away.as_deref()).any(fault::is_full)
}

/// Whether it is a storage node.
pub(super) fn is_node(target: &TargetSnapshot) -> bool {
    matches!(target.place, Place::Node(_))
}

/// Required targets of which something can be said, while the run is recorded.
fn untaken<'a>(
    moment: &Moment<'a>,
    why: fn(&'a TargetSnapshot) -> Option<&'a str>,
) -> Vec<Untaken<'a>> {
    let is_recording = matches!(moment.flow, Run::Recording { .. });
    let targets = moment.snapshot.filter(|_| is_recording).map(|one| &one.targets);
    let required = targets.into_iter().flatten().filter(|one| one.required);
    let untaken = |target: &'a TargetSnapshot| {
        Some(Untaken { target: &target.name, why: why(target)?, lasts_seconds: None })
    };
    required.filter_map(untaken).collect()
}

/// Those that take nothing now, while their frames wait in memory.
pub(super) fn away<'a>(moment: &Moment<'a>, lasts: &Lasts) -> Vec<Untaken<'a>> {
    let why = |target: &'a TargetSnapshot| {
        let why = target.away.as_deref().filter(|_| !target.is_spilling())?;
        Some(fault::remedy(why).filter(|_| !is_node(target)).unwrap_or(why))
    };
    let all = untaken(moment, why).into_iter();
    all.map(|one| Untaken { lasts_seconds: lasts.memory_seconds, ..one }).collect()
}

/// Storage nodes that do not get the data.
pub(super) fn refused<'a>(moment: &Moment<'a>) -> Vec<Untaken<'a>> {
    untaken(moment, |target| match &target.state {
        State::Fault { reason } if is_node(target) => Some(reason.as_str()),
        _ => None,
    })
}

/// The targets, if there are several: what is to be said of a single one is said of the run.
pub(super) fn several(snapshot: &Snapshot) -> &[TargetSnapshot] {
    if snapshot.targets.len() > 1 { &snapshot.targets } else { &[] }
}

/// A folder of a target in the API's form.
fn folder(folder: &FolderSnapshot) -> api::TargetFolder {
    api::TargetFolder {
        path: folder.path.display().to_string(),
        is_current: folder.is_current,
        free_bytes: folder.spare_bytes,
        away: folder.away.clone(),
        waits_seconds: waits_seconds(folder),
    }
}

/// For how long the disk of a folder is waited for.
pub(crate) fn waits_seconds(folder: &FolderSnapshot) -> f64 {
    folder.waits_ns as f64 / 1e9
}

/// A storage node of a target in the API's form. Of a run that has ended nothing is away.
fn node(node: &NodeShare, is_open: bool) -> api::TargetNode {
    let away = node.away.clone().filter(|_| is_open);
    api::TargetNode {
        address: node.address.clone(),
        is_connected: node.is_connected && is_open,
        frames_durable: node.frames_durable,
        bytes_durable: node.bytes_durable,
        bytes_held: node.bytes_held,
        away_since_ns: away.as_ref().map(|(since_ns, _)| *since_ns),
        away: away.map(|(_, why)| why),
    }
}

/// The buffers of all disks of a target.
pub(crate) fn buffers(target: &TargetSnapshot) -> Option<api::Queue> {
    let all = target.folders.iter().filter_map(|folder| folder.buffers.as_ref()).map(queue);
    all.reduce(|sum, one| api::Queue {
        level_bytes: sum.level_bytes + one.level_bytes,
        highest_bytes: sum.highest_bytes + one.highest_bytes,
        capacity_bytes: sum.capacity_bytes + one.capacity_bytes,
        ..sum
    })
}

/// What can still be written to all folders of the required target that has least, where there
/// are several targets or folders.
pub(super) fn free_bytes(snapshot: &Snapshot) -> Option<u64> {
    let several = snapshot.targets.len() > 1;
    let shown = |one: &&TargetSnapshot| one.required && (several || one.folders.len() > 1);
    let free = |target: &TargetSnapshot| {
        let folders = target.folders.iter().map(|folder| folder.spare_bytes);
        folders.sum::<Option<u64>>().filter(|_| !target.folders.is_empty())
    };
    snapshot.targets.iter().filter(shown).filter_map(free).min()
}

/// Whether frames of a target are lost, or one of its folders is not used.
pub(super) fn is_faulty(target: &TargetSnapshot) -> bool {
    matches!(target.state, State::Fault { .. })
        || target.folders.iter().any(|folder| folder.away.is_some())
}

/// A queue or pool in the API's form.
pub(super) fn queue(fill: &Fill) -> api::Queue {
    api::Queue {
        name: fill.name.clone(),
        level_bytes: fill.level,
        highest_bytes: fill.highest,
        capacity_bytes: fill.capacity,
    }
}

fn nonzero(ledger: &SourceLedger) -> BTreeMap<String, u64> {
    let entries = OF_TARGET.iter().filter(|&&entry| ledger[entry] > 0);
    entries.map(|&entry| (entry.name().to_owned(), ledger[entry])).collect()
}
