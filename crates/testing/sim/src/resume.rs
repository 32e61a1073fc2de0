//! What is left of a run whose recorder died, for another one that goes on with it: as on a machine
//! that starts again, by the node's own code on a real disk.

use std::collections::BTreeMap;
use std::path::Path;

use catchment_model::Entry;
use catchment_ports::MemoryFiles;
use catchment_storage::{Interrupted, Resumable, RunPlace, StorageError};

use crate::plan::{Plan, Selected};
use crate::recorded::{Recorded, disk_lied};
use crate::recorder::{Life, folder_of};
use crate::walk::{WalkedFragment, walk};

/// What the recorder behind the last of these lives goes on with, if it is to.
///
/// # Errors
/// It cannot, and should.
pub(crate) fn left(
    plan: &Plan,
    lives: &mut [Life],
    files: &MemoryFiles,
) -> Result<Option<Resumable>, String> {
    let Some((life, before)) = lives.split_last_mut().filter(|_| plan.goes_on) else {
        return Ok(None);
    };
    let folder = |target| folder_of(before.len(), target);
    let places: Vec<Place> =
        (0..plan.stores.len()).map(|target| Place::of(plan, &folder(target), files)).collect();
    let root = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    match take(plan, (before.len(), root.path()), files) {
        Ok(from) => {
            if !life.of_targets().any(|life| disk_lied(&life)) {
                check_end(plan, &places, &from)?;
            }
            life.kept = (0..places.len()).map(|target| kept(&places, target, &from)).collect();
            Ok(Some(from))
        }
        // Nobody was told anything yet.
        Err(StorageError::NoFiles { .. })
            if life.last.ledger.total()[Entry::FragmentsDurable] == 0 =>
        {
            Ok(None)
        }
        Err(_) if life.has_faulted() => Ok(None),
        Err(error) => Err(format!("the run cannot go on: {error}")),
    }
}

/// Checks that a run goes on behind all frames that each place has, or can get from another one of
/// the same selection, and that the reason is said if some place has more.
fn check_end(plan: &Plan, places: &[Place], from: &Resumable) -> Result<(), String> {
    let (sequence, ends) = (from.sequence, places.iter().map(Place::end));
    let farthest = |own: usize| {
        let end = places[own].end();
        let alike = (0..places.len()).filter(|&other| plan.selected(other) == plan.selected(own));
        let reach = |other: usize| places[other].end_of_data(end).min(places[other].end());
        alike.map(reach).fold(end, u64::max)
    };
    let whole = (0..places.len()).map(farthest).min().unwrap_or(0);
    if sequence < whole {
        return Err(format!("goes on with frame {sequence}, all can have those below {whole}"));
    }
    let highest = ends.max().unwrap_or(0);
    if sequence < highest && from.cut_off.is_none() {
        return Err(format!("cuts off frames {sequence} to {highest}, and does not say why"));
    }
    Ok(())
}

/// Checks that what a target had before the frame with which a recorder went on is there at the
/// end.
///
/// # Errors
/// A source of which something is not.
pub(crate) fn check(life: &Life, selected: &Selected, recorded: &Recorded) -> Result<(), String> {
    let of_sources = life.kept.get(life.target).into_iter().flatten().enumerate();
    for (source, &kept) in of_sources.filter(|(source, _)| selected.sources[*source]) {
        let found = recorded.counts[source][0];
        if found < kept && !disk_lied(life) {
            return Err(format!("source {source}: {kept} outlived a death, {found} are there"));
        }
    }
    Ok(())
}

/// The whole frames that a target has of a run whose recorder died: by their first number, the last
/// one that each stands for, and its fragments by source; none of skipped ones.
struct Place(BTreeMap<u64, (u64, Option<Vec<u64>>)>);

impl Place {
    fn of(plan: &Plan, folder: &Path, files: &MemoryFiles) -> Self {
        let all = files.all().into_iter();
        let of_run = all.filter(|(path, _)| {
            path.starts_with(folder) && path.extension().is_some_and(|one| one == "catch")
        });
        let walked = of_run.filter_map(|(_, bytes)| walk(&bytes).ok().flatten());
        let mut frames = BTreeMap::new();
        for file in walked {
            for frame in file.frames.iter().filter(|frame| file.damage(frame).is_empty()) {
                let mut fragments = vec![0; plan.endpoints()];
                let counted = file.fragments(frame, |WalkedFragment { source, bytes, .. }| {
                    fragments[source] += u64::from(bytes.is_some());
                });
                if counted.is_ok() {
                    let last = frame.sequence + frame.skips.unwrap_or(1) - 1;
                    let fragments = frame.skips.is_none().then_some(fragments);
                    frames.insert(frame.sequence, (last, fragments));
                }
            }
        }
        Self(frames)
    }

    /// One above the number up to which no frame is missing.
    fn end(&self) -> u64 {
        let mut end = 0;
        for (&first, &(last, _)) in &self.0 {
            if first > end {
                break;
            }
            end = end.max(last + 1);
        }
        end
    }

    /// One above the number up to which it has frames from that one on.
    fn end_of_data(&self, first: u64) -> u64 {
        let is_there = |number: &u64| self.0.get(number).is_some_and(|(_, data)| data.is_some());
        (first..).find(|number| !is_there(number)).unwrap_or(first)
    }

    /// Adds the fragments, by source, of its last frames that stand for none from that number on.
    fn add_fragments(&self, sequence: u64, frames: usize, sum: &mut Vec<u64>) {
        let below = self.0.range(..sequence).rev().filter(|(_, (last, _))| *last < sequence);
        for fragments in below.take(frames).filter_map(|(_, (_, fragments))| fragments.as_ref()) {
            sum.resize(fragments.len(), 0);
            sum.iter_mut().zip(fragments).for_each(|(sum, count)| *sum += count);
        }
    }
}

/// By source, the fragments that a target has when the run goes on: its own up to the first frame
/// that it lacks, and those that it got from another one.
fn kept(places: &[Place], target: usize, from: &Resumable) -> Vec<u64> {
    let mut sum = Vec::new();
    let own_end = places[target].end().min(from.sequence);
    places[target].add_fragments(own_end, usize::MAX, &mut sum);
    let caught_up = from.places[target].caught_up;
    places[caught_up.place].add_fragments(from.sequence, caught_up.frames as usize, &mut sum);
    sum
}

fn take(
    plan: &Plan,
    (number, root): (usize, &Path),
    files: &MemoryFiles,
) -> Result<Resumable, StorageError> {
    let write = |path: &Path| {
        let path = path.to_owned();
        move |source| StorageError::Write { path, source }
    };
    let folders: Vec<_> = (0..plan.stores.len()).map(|target| folder_of(number, target)).collect();
    for folder in &folders {
        std::fs::create_dir_all(root.join(folder)).map_err(write(folder))?;
    }
    let of_run = || {
        let all = files.all().into_iter();
        all.filter(|(path, _)| folders.iter().any(|folder| path.starts_with(folder)))
    };
    for (path, bytes) in of_run() {
        std::fs::write(root.join(&path), bytes).map_err(write(&path))?;
    }
    let place = |folder| RunPlace {
        folders: vec![root.join(folder)],
        is_required: true,
        trusts_lists: false,
        is_dealt: false,
    };
    let places: Vec<RunPlace> = folders.iter().map(place).collect();
    let from = Interrupted::find(&places)?.take()?;
    of_run().for_each(|(path, _)| files.remove(&path));
    for folder in &folders {
        for entry in root.join(folder).read_dir().map_err(write(folder))? {
            let name = entry.map_err(write(folder))?.file_name();
            let path = folder.join(name);
            let bytes = std::fs::read(root.join(&path)).map_err(write(&path))?;
            files.replace(&path, bytes);
        }
    }
    Ok(from)
}
