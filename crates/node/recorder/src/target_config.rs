//! The configuration of a run's targets.

use std::path::{Path, PathBuf};

use crate::config::RecorderConfig;

/// A place that gets the run's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetConfig {
    /// Its name, unique in the run.
    pub name: String,
    /// Where its frames go.
    pub place: Place,
    /// Whether the run waits for it. Otherwise a target that is behind does not get some frames,
    /// which it counts (`fragments_not_taken`).
    pub required: bool,
    /// Bytes of columns that may wait for a target that is not required; none: a twentieth of the
    /// memory budget.
    pub queue_bytes: Option<u64>,
}

/// Where a target's frames go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To files in a folder of the run, in this folder.
    Folder(PathBuf),
    /// Nowhere: they are counted as not taken.
    None,
}

impl Place {
    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::None => None,
        }
    }
}

impl TargetConfig {
    /// What its threads' names end with; that of a run's first target is not needed.
    pub(crate) fn suffix(&self, number: usize) -> Option<String> {
        (number > 0).then(|| self.name.clone())
    }

    /// A required folder.
    pub fn folder(name: impl Into<String>, folder: PathBuf) -> Self {
        let place = Place::Folder(folder);
        Self { name: name.into(), place, required: true, queue_bytes: None }
    }

    /// Bytes of columns that may wait for it; one column always may.
    pub(crate) fn queue_bytes_max(&self, config: &RecorderConfig) -> u64 {
        match self.required {
            true => config.target_queue_bytes(),
            false => self.best_effort_bytes(config),
        }
    }

    /// Bytes of columns that may wait for it if the run does not wait for it.
    pub(crate) fn best_effort_bytes(&self, config: &RecorderConfig) -> u64 {
        match self.required {
            true => 0,
            false => self.queue_bytes.unwrap_or(config.memory_bytes / BEST_EFFORT_SHARE),
        }
    }
}

/// The share of the budget that may wait for a target that is not required.
const BEST_EFFORT_SHARE: u64 = 20;
