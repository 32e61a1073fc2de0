//! The configuration of a run's targets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::RecorderConfig;

/// A place that gets the run's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetConfig {
    /// Its name, unique in the run.
    pub name: String,
    /// Where its frames go.
    pub place: Place,
    /// The names of the sources and links whose data it gets; none: all.
    pub sources: Option<Vec<String>>,
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
    /// A required folder.
    pub fn folder(name: impl Into<String>, folder: PathBuf) -> Self {
        let place = Place::Folder(folder);
        Self { name: name.into(), place, sources: None, required: true, queue_bytes: None }
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

/// A selection of the run's sources and links, and its number in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) number: u32,
    /// By number in the ledger, whether the source or link is in it; none: all are.
    pub(crate) stored: Option<Arc<[bool]>>,
}

impl Variant {
    /// The variant of each target. Those with the same selection share one; 0 has everything.
    pub(crate) fn of(config: &RecorderConfig) -> Vec<Self> {
        let names = config.ledger_names();
        let mut selections: Vec<Arc<[bool]>> = Vec::new();
        let mut of_target = |target: &TargetConfig| {
            let Some(sources) = &target.sources else { return Self::default() };
            let stored: Arc<[bool]> = names.iter().map(|name| sources.contains(name)).collect();
            if stored.iter().all(|&is_so| is_so) {
                return Self::default();
            }
            let known = selections.iter().position(|other| *other == stored);
            let index = known.unwrap_or_else(|| {
                selections.push(Arc::clone(&stored));
                selections.len() - 1
            });
            Self { number: index as u32 + 1, stored: Some(stored) }
        };
        config.targets().iter().map(&mut of_target).collect()
    }

    /// Whether a source or link is in it.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.stored.as_ref().is_none_or(|stored| stored[source])
    }

    /// Removes what is not in it from values by source.
    pub(crate) fn mask<T: Default>(&self, of_sources: &mut [T]) {
        for (source, value) in of_sources.iter_mut().enumerate() {
            if !self.has(source) {
                *value = T::default();
            }
        }
    }
}

/// What distinguishes the threads and buffers of a target from those of others; the first one's are
/// named as those of a run that has no other.
pub(crate) fn suffix(number: usize, target: &str) -> Option<String> {
    (number > 0).then(|| target.to_owned())
}

/// The name of a target's thread.
pub(crate) fn thread_name(number: usize, target: &str) -> String {
    suffix(number, target).map_or_else(|| "write".to_owned(), |name| format!("write-{name}"))
}

/// The share of the budget that may wait for a target that is not required.
const BEST_EFFORT_SHARE: u64 = 20;
