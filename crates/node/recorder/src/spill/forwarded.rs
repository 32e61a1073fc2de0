//! What is said of a run once all that it had left in a spill is forwarded: for its record in the
//! catalogue, and the lists of its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_disk::list_files;
use catchment_frame::{LocationKind, RunLocation};
use catchment_model::{Entry, RunId, SourceId};
use catchment_storage::{EXTENSION, Run};

use super::{Backlog, Identity};
use crate::live::Observer;
use crate::locations::{file_index, ranges};
use crate::spill_counts::SpillReport;
use crate::store_nodes::NodeShare;

/// A stream of a run, all of which is forwarded that was left in a spill.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// The run's identity.
    pub run: RunId,
    /// The target's name.
    pub target: String,
    /// The name of the stream's folder, in the spill and where it was forwarded to.
    pub name: String,
    /// The spill's absolute path.
    pub spill: String,
    /// Where it was forwarded to.
    pub place: String,
    /// Frames that this program has forwarded.
    pub frames: u64,
    /// Frames that it could not read.
    pub frames_lost: u64,
    /// Whether none of what was spilled of the run was lost, whichever program found it so.
    pub is_whole: bool,
    /// Fragments that this program has read, by the names of their sources.
    pub fragments: Vec<(String, u64)>,
    /// What is there now: in a folder, and which files of a node have which frames. The frames of
    /// a node are those that this program has sent.
    pub locations: Vec<RunLocation>,
}

/// Has a run's record say what was forwarded. False: the run has not ended there yet.
pub type EnterForwarded = Arc<dyn Fn(&Forwarded) -> Result<bool, String> + Send + Sync>;

impl Forwarded {
    /// Of a stream of which all is forwarded; `before` is what was counted when it was taken.
    pub(super) fn of(
        backlog: &Backlog,
        (target, spill): (&str, &Path),
        (before, now): (&SpillReport, &SpillReport),
    ) -> Self {
        let Identity { run, name, node, .. } = backlog.spill.identity().clone();
        let sources = backlog.spill.sources().zip(backlog.fragments());
        Self {
            run,
            target: target.to_owned(),
            name,
            spill: absolute(spill).display().to_string(),
            place: node,
            frames: now.frames_forwarded.saturating_sub(before.frames_forwarded),
            frames_lost: now.frames_lost.saturating_sub(before.frames_lost),
            is_whole: backlog.spill.is_whole(),
            fragments: sources.map(|(name, &count)| (name.to_owned(), count)).collect(),
            locations: Vec::new(),
        }
    }

    fn location(&self, kind: LocationKind, address: String) -> RunLocation {
        let (target, name) = (self.target.clone(), self.name.clone());
        RunLocation { target, kind, address, name, ..RunLocation::default() }
    }

    /// Says what the folder of the run has.
    pub(super) fn add_folder(&mut self, folder: &Path) {
        let mut location = self.location(LocationKind::Folder, self.place.clone());
        let paths = list_files(folder, EXTENSION).unwrap_or_default();
        location.files = ranges(paths.iter().filter_map(|path| file_index(path)));
        if let Ok(run) = Run::open(folder) {
            let frames = run.frames().iter().chain(run.channel_frames());
            let bytes = frames.clone().map(|frame| frame.summary.frame_bytes).sum();
            (location.frames, location.bytes) = (Some(frames.count() as u64), Some(bytes));
        }
        self.locations.push(location);
    }

    /// Says what a node has.
    pub(super) fn add_node(&mut self, node: NodeShare) {
        let mut location = self.location(LocationKind::Node, node.address);
        location.frames = Some(node.frames_durable);
        (location.first_frame, location.last_frame) = node.numbers.unzip();
        location.file_frames = node.files;
        self.locations.push(location);
    }
}

impl Observer {
    /// What was left in a spill of the run is forwarded, after its end: its target counts so.
    pub fn count_forwarded(&self, forwarded: &Forwarded) {
        let mut targets = self.0.targets.iter();
        let Some(target) = targets.find(|target| target.name == forwarded.target) else { return };
        for (source, name) in (0..).map(SourceId).zip(&self.0.names) {
            let of = |entry| target.ledger.read(source, entry);
            let waiting = of(Entry::FragmentsSpilled).saturating_sub(of(Entry::FragmentsForwarded));
            let read = forwarded.fragments.iter().find(|(of, _)| of == name);
            let read = read.map_or(0, |(_, count)| *count);
            let count = if forwarded.is_whole { waiting } else { waiting.min(read) };
            target.ledger.add(source, Entry::FragmentsForwarded, count);
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
