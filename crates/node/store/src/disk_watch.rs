//! What is known of a stream's disks: figures, a look at each once a second, and which one hangs.

use std::sync::Arc;

use catchment_agent::FolderStore;
use catchment_writer::{Disks, FrameFiles, StoreFile};

use crate::state::FolderState;

/// Watches the disks of a stream.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    looked_ns: u64,
    /// The disk that hangs.
    hangs: Option<usize>,
}

impl DiskWatch {
    /// Takes the figures of the disks, and has them looked at if there are several: where there is
    /// no choice, making a file tells.
    pub(crate) fn look<S: FolderStore, T, A>(
        &mut self,
        files: &mut FrameFiles<S, T, A>,
        disks: &mut Disks,
        now_ns: u64,
    ) {
        for disk in 0..files.stores() {
            let (writes, spare) = (files.writes(disk), files.store(disk).spare_bytes());
            disks.polled(disk, writes, spare, now_ns);
        }
        if !disks.are_several() || now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return;
        }
        self.looked_ns = now_ns;
        let current = files.current.as_ref().map(|file| (file.id, file.written_bytes()));
        for disk in 0..files.stores() {
            match current {
                Some((StoreFile { store, id }, written)) if store == disk => {
                    files.store(disk).look(id, written);
                }
                _ => files.store(disk).look_at(disks.folder(disk)),
            }
        }
        disks.take_pace(now_ns);
    }

    /// Looks for a disk that hangs: one that is waited for since [`HANG_NS`], and longest.
    /// `making`: on which disk a file is being made, and since when. The folder's state says so,
    /// and if that has changed, which disk it is now is returned, in words.
    pub(crate) fn hang_changed(
        &mut self,
        disks: &Disks,
        folders: &[Arc<FolderState>],
        making: Option<(usize, u64)>,
        now_ns: u64,
    ) -> Option<Option<String>> {
        let waits = (0..folders.len()).filter_map(|disk| Some((disk, disks.waits_since_ns(disk)?)));
        let oldest = waits.chain(making).min_by_key(|(_, since_ns)| *since_ns);
        let hangs = |(_, since_ns): &(usize, u64)| now_ns.saturating_sub(*since_ns) >= HANG_NS;
        let now = oldest.filter(hangs).map(|(disk, _)| disk);
        let before = std::mem::replace(&mut self.hangs, now);
        if now == before {
            return None;
        }
        if let Some(disk) = before {
            folders[disk].answers();
        }
        Some(now.map(|disk| {
            let (folder, seconds) = (disks.folder(disk).display(), HANG_NS / 1_000_000_000);
            let reason = format!(
                "the disk of {folder} has not completed a write, a sync or a close for {seconds} s"
            );
            folders[disk].failed(&reason);
            reason
        }))
    }
}

/// How often several disks are looked at.
const LOOK_NS: u64 = 1_000_000_000;
/// How long a disk that is waited for may complete nothing before it hangs: network file systems
/// pause for some seconds, and go on.
const HANG_NS: u64 = 5_000_000_000;
