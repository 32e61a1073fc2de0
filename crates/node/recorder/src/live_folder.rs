//! The observable state of a target's folders.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use catchment_disk::DiskStats;
use parking_lot::Mutex;

use crate::live::Fill;

/// The state of one of a target's folders, which its agent writes.
pub(crate) struct LiveFolder {
    path: PathBuf,
    disk: OnceLock<Arc<DiskStats>>,
    shown: Mutex<ShownFolder>,
    /// For how long its disk is waited for, when its agent last looked; 0: it is not.
    waits_ns: AtomicU64,
}

/// What a target's agent knows of a folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownFolder {
    pub(crate) is_current: bool,
    pub(crate) spare_bytes: Option<u64>,
    pub(crate) away: Option<String>,
}

/// One of a target's folders at one moment.
#[derive(Clone, Debug, Default)]
pub struct FolderSnapshot {
    /// The folder, in which the run has a folder of its own.
    pub path: PathBuf,
    /// Whether frames go to a file there.
    pub is_current: bool,
    /// The space left for data, if it is known.
    pub spare_bytes: Option<u64>,
    /// Why its disk was left, if it was.
    pub away: Option<String>,
    /// For how long writes, a sync or the end of a file there have not completed, by the clock of
    /// the data, when its agent last looked; 0 if nothing is under way.
    pub waits_ns: u64,
    /// Bytes in the buffers of its disk.
    pub buffers: Option<Fill>,
}

impl LiveFolder {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            disk: OnceLock::new(),
            shown: Mutex::default(),
            waits_ns: AtomicU64::new(0),
        }
    }

    /// Sets its disk, once.
    pub(crate) fn set_disk(&self, disk: Arc<DiskStats>) {
        let is_first = self.disk.set(disk).is_ok();
        assert!(is_first, "a folder has one disk");
    }

    pub(crate) fn disk(&self) -> Option<&Arc<DiskStats>> {
        self.disk.get()
    }

    /// What its file system has refused, for the operator.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = String> {
        let refusals = self.disk.get().into_iter().flat_map(|disk| disk.refusals());
        refusals.map(|what| format!("the file system of {} {what}", self.path.display()))
    }

    pub(crate) fn show(&self, shown: ShownFolder) {
        *self.shown.lock() = shown;
    }

    pub(crate) fn show_waits(&self, since_ns: Option<u64>, now_ns: u64) {
        let waits_ns = since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.waits_ns.store(waits_ns, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> FolderSnapshot {
        let ShownFolder { is_current, spare_bytes, away } = self.shown.lock().clone();
        let buffers = self.disk.get().map(|disk| disk.buffers().into());
        let waits_ns = self.waits_ns.load(Relaxed);
        let path = self.path.clone();
        FolderSnapshot { path, is_current, spare_bytes, away, waits_ns, buffers }
    }
}
