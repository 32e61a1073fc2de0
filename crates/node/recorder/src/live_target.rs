//! The state of a target that its agent writes, and its line of the ledger.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use catchment_disk::DiskStats;
use catchment_model::{Entry, Ledger, SourceId};
use catchment_telemetry::{FillLevel, LiveLedger};
use parking_lot::Mutex;

use crate::beginning::TargetBeginning;
use crate::config::RecorderConfig;
use crate::counts::Counters;
use crate::frame_counts::SourceCounts;
use crate::live::{State, TargetSnapshot};
use crate::live_folder::{LiveFolder, ShownFolder};
use crate::spill_counts::SpillCounts;
use crate::store_nodes::LiveNode;
use crate::target_config::{Place, TargetConfig, Variant};

/// The state of a target that its agent writes.
pub(crate) struct LiveTarget {
    pub(crate) name: String,
    pub(crate) required: bool,
    pub(crate) place: Place,
    /// What it gets of the run.
    pub(crate) variant: Variant,
    /// Its line of the ledger: only of frames.
    pub(crate) ledger: LiveLedger,
    /// Only those of frames and files.
    pub(crate) counters: Counters,
    pub(crate) state: Mutex<State>,
    pub(crate) files: Mutex<Vec<PathBuf>>,
    /// Bytes of columns in its queue.
    pub(crate) queue: Arc<FillLevel>,
    pub(crate) folders: Vec<LiveFolder>,
    /// Its storage nodes, if it has any.
    pub(crate) nodes: Vec<Arc<LiveNode>>,
    /// If it has a spill.
    pub(crate) spill: Option<Arc<SpillCounts>>,
    pub(crate) spill_folder: Option<PathBuf>,
    /// Why its storage node, or a folder with a spill, takes nothing now.
    pub(crate) away: Mutex<Option<String>>,
    /// Whether the run has ended without it.
    pub(crate) is_left: AtomicBool,
    /// Whether a file that states the epoch is durable.
    pub(crate) has_epoch: AtomicBool,
    /// Whether positions of link sources wait for its next frame.
    pub(crate) wants_frame: AtomicBool,
    /// Whether such positions are in a frame of which it gets nothing, with none of its own behind
    /// that: senders are told once there is one (`link_positions.rs`).
    pub(crate) is_passed_over: AtomicBool,
}

impl LiveTarget {
    pub(crate) fn new(
        config: &RecorderConfig,
        target: &TargetConfig,
        variant: Variant,
        begins: &TargetBeginning,
    ) -> Self {
        let counters = Counters::default();
        counters.frames_recorded.store(begins.frames, Relaxed);
        counters.events_recorded.store(begins.events, Relaxed);
        counters.bytes_written.store(begins.bytes, Relaxed);
        counters.frames_caught_up.store(begins.caught_up.frames, Relaxed);
        counters.bytes_caught_up.store(begins.caught_up.bytes, Relaxed);
        let ledger = LiveLedger::new(begins.ledger.sources.len());
        ledger.add_all(&begins.ledger);
        let addresses = target.place.node().into_iter().flat_map(|node| &node.addresses);
        let node = |(index, address): (usize, &String)| {
            let part = begins.parts.get(index);
            Arc::new(part.map_or_else(
                || LiveNode::behind(address, begins),
                |part| LiveNode::behind_part(address, part),
            ))
        };
        let nodes = addresses.enumerate().map(node).collect();
        Self {
            name: target.name.clone(),
            required: target.required,
            place: target.place.clone(),
            variant,
            ledger,
            counters,
            state: Mutex::new(State::Recording),
            files: Mutex::new(begins.paths.clone()),
            queue: Arc::new(FillLevel::new(&target.name, target.queue_bytes_max(config))),
            folders: target.place.folders().iter().map(|path| LiveFolder::new(path)).collect(),
            nodes,
            spill: target.spill.as_ref().map(|_| Arc::default()),
            spill_folder: target.spill.as_ref().map(|spill| spill.folder.clone()),
            away: Mutex::default(),
            is_left: AtomicBool::new(false),
            // A node gives no epoch twice: its writer generations are durable.
            has_epoch: AtomicBool::new(begins.files.epoch == 0 || target.place.node().is_some()),
            wants_frame: AtomicBool::new(false),
            is_passed_over: AtomicBool::new(false),
        }
    }

    /// Sets the disk of a folder, once.
    pub(crate) fn set_disk(&self, folder: usize, disk: Arc<DiskStats>) {
        self.folders[folder].set_disk(disk);
    }

    /// Shows what is known of a folder.
    pub(crate) fn show_folder(&self, folder: usize, shown: ShownFolder) {
        // Stepped recorders have folders of which the configuration knows nothing.
        if let Some(folder) = self.folders.get(folder) {
            folder.show(shown);
        }
    }

    /// Shows since when a folder's disk is waited for, if it is.
    pub(crate) fn show_waits(&self, folder: usize, since_ns: Option<u64>, now_ns: u64) {
        if let Some(folder) = self.folders.get(folder) {
            folder.show_waits(since_ns, now_ns);
        }
    }

    pub(crate) fn disks(&self) -> impl Iterator<Item = &Arc<DiskStats>> {
        self.folders.iter().filter_map(LiveFolder::disk)
    }

    /// What the file systems of its folders have refused, for the operator.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = String> {
        let refusals = self.folders.iter().flat_map(LiveFolder::refusals);
        refusals.map(|what| format!("target {}: {what}", self.name))
    }

    /// Counts a frame, by what became of it.
    pub(crate) fn count<const N: usize>(
        &self,
        counts: &[SourceCounts],
        of: fn(&SourceCounts) -> [(Entry, u64); N],
    ) {
        for (source, counts) in (0..).map(SourceId).zip(counts) {
            of(counts).into_iter().for_each(|(entry, count)| self.ledger.add(source, entry, count));
        }
    }

    /// Frames below that number are not in its spill alone.
    pub(crate) fn spilled_from(&self) -> u64 {
        self.spill.as_ref().map_or(u64::MAX, |spill| spill.spilled_from())
    }

    /// Whether it keeps frames.
    pub(crate) fn keeps(&self) -> bool {
        self.place != Place::None
    }

    /// Fragments of a source that it has lost.
    pub(crate) fn lost(&self, source: SourceId) -> u64 {
        let lost =
            [Entry::FragmentsDiscardedDisk, Entry::FragmentsRemoved, Entry::FragmentsUnconfirmed];
        lost.map(|entry| self.ledger.read(source, entry)).iter().sum()
    }

    pub(crate) fn records(&self) -> bool {
        *self.state.lock() == State::Recording
    }

    pub(crate) fn add_file(&self, path: PathBuf) {
        self.files.lock().push(path);
    }

    pub(crate) fn remove_file(&self, path: &Path) {
        self.files.lock().retain(|file| file != path);
    }

    /// Its files so far, if it has any.
    pub(crate) fn files(&self) -> Option<Vec<PathBuf>> {
        Some(self.files.lock().clone()).filter(|files| !files.is_empty())
    }

    /// The run's ledger as the target has it: of what happens before frames are made, and of what
    /// becomes of frames there.
    pub(crate) fn total(&self, common: &LiveLedger) -> Ledger {
        let mut ledger = common.snapshot();
        ledger.add(&self.ledger.snapshot());
        self.variant.mask(&mut ledger.sources);
        ledger
    }

    /// Its present state; `common` is what happens before frames are made.
    pub(crate) fn snapshot(&self, common: &LiveLedger) -> TargetSnapshot {
        let ledger = self.total(common);
        let (name, required, state) = (self.name.clone(), self.required, self.state.lock().clone());
        let folders = self.folders.iter().map(LiveFolder::snapshot).collect();
        let (counts, queue, place) =
            (self.counters.read(), (&*self.queue).into(), self.place.clone());
        let spill = self.spill.as_ref().map(|counts| counts.read());
        let away = self.away.lock().clone();
        let nodes = self.nodes.iter().map(|node| node.read()).collect();
        TargetSnapshot {
            name,
            required,
            place,
            state,
            away,
            ledger,
            counts,
            queue,
            folders,
            nodes,
            spill,
        }
    }
}
