//! What is left of a run whose recorder died, for another one that goes on with it: as on a machine
//! that starts again, by the node's own code on a real disk.

use std::path::Path;

use catchment_model::Entry;
use catchment_ports::MemoryFiles;
use catchment_storage::{Interrupted, Resumable, RunPlace, StorageError};

use crate::plan::Plan;
use crate::recorder::{Life, folder_of};

/// What the recorder behind the last of these lives goes on with, if it is to.
///
/// # Errors
/// It cannot, and should.
pub(crate) fn left(
    plan: &Plan,
    lives: &[Life],
    files: &MemoryFiles,
) -> Result<Option<Resumable>, String> {
    let Some((life, before)) = lives.split_last().filter(|_| plan.goes_on) else {
        return Ok(None);
    };
    let root = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    match take(plan, (before.len(), root.path()), files) {
        Ok(from) => Ok(Some(from)),
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
    let place = |folder| RunPlace { folders: vec![root.join(folder)], is_required: true };
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
