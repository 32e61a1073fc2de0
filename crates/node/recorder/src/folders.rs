//! The folders of a target, with what is known of their disks, and the list of files in each.

use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{CompletionKind, FileEnd, FolderStore};
use catchment_writer::{Disks, StoreFile, WriteCounts};

use crate::config::RecorderConfig;
use crate::file::{Files, OpenFile, RunIdentity};
use crate::file_limits::FileLimits;
use crate::file_list::FileList;
use crate::file_steps::Look;
use crate::live_folder::ShownFolder;
use crate::target_ledger::TargetLedger;

/// The interval between checks of the disks.
const LOOK_NS: u64 = 1_000_000_000;

/// A target's folders.
pub(crate) struct Folders {
    pub(crate) disks: Disks,
    lists: Vec<FileList>,
    /// A check of the current file and its disk, for which a decision waits.
    pub(crate) look: Look,
    looked_ns: u64,
}

impl Folders {
    pub(crate) fn new(config: &RecorderConfig, identity: &RunIdentity, now_ns: u64) -> Self {
        let folders = &identity.folders;
        let room_bytes = FileLimits::of(config).room_bytes();
        let file_bytes = config.write.file_bytes;
        let lists = folders.iter().map(|folder| FileList::new(identity.run, folder));
        Self {
            disks: Disks::new(folders, file_bytes, room_bytes, now_ns),
            lists: lists.collect(),
            look: Look::None,
            looked_ns: 0,
        }
    }

    /// Takes the figures of all stores.
    pub(crate) fn polled<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        ledger: &TargetLedger,
        now_ns: u64,
    ) {
        let mut all = WriteCounts::default();
        for disk in 0..files.stores() {
            let (writes, spare_bytes) = (files.writes(disk), files.store(disk).spare_bytes());
            self.disks.polled(disk, writes, spare_bytes, now_ns);
            ledger.of_target().show_waits(disk, self.disks.waits_since_ns(disk), now_ns);
            all.begun += writes.begun;
            all.completed += writes.completed;
        }
        let counters = &ledger.of_target().counters;
        counters.writes_begun.store(all.begun, Relaxed);
        counters.writes_completed.store(all.completed, Relaxed);
    }

    /// Shows what is known of them.
    pub(crate) fn show<S: FolderStore>(&self, files: &mut Files<S>, ledger: &TargetLedger) {
        let current = files.current.as_ref().map(|file| file.id.store);
        for disk in 0..files.stores() {
            let shown = ShownFolder {
                is_current: current == Some(disk),
                spare_bytes: files.store(disk).spare_bytes(),
                away: self.disks.away(disk).map(str::to_owned),
            };
            ledger.of_target().show_folder(disk, shown);
        }
    }

    /// Continues the check for which something waits; true if there is none.
    pub(crate) fn advance_look<S: FolderStore>(&mut self, files: &mut Files<S>) -> bool {
        let current = files.current.as_ref();
        let Some((file, written)) = current.map(|file| (file.id, file.written_bytes())) else {
            self.look = Look::None;
            return true;
        };
        if self.look == Look::Jobs && !files.is_busy(file.store) {
            self.look = Look::Old;
        }
        let store = files.store(file.store);
        if self.look == Look::Old && !store.is_looking() {
            store.look(file.id, written);
            self.look = Look::Fresh;
        }
        if self.look == Look::Fresh && !store.is_looking() {
            self.look = Look::None;
        }
        self.look == Look::None
    }

    /// Checks the current file and all disks at intervals.
    pub(crate) fn look_if_due<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        ledger: &TargetLedger,
        now_ns: u64,
    ) {
        if now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return;
        }
        self.looked_ns = now_ns;
        let current = files.current.as_ref().map(|file| (file.id, file.written_bytes()));
        for disk in 0..files.stores() {
            match current {
                Some((StoreFile { store, id }, written)) if store == disk => {
                    files.store(disk).look(id, written);
                }
                // Where there is no choice, making a file tells.
                _ if self.disks.are_several() => {
                    files.store(disk).look_at(self.disks.folder(disk));
                }
                _ => {}
            }
        }
        self.disks.take_pace(now_ns);
        self.show(files, ledger);
    }

    /// A file's header is written.
    pub(crate) fn begun<S: FolderStore>(&mut self, files: &mut Files<S>, id: StoreFile) {
        let (index, file_id) = (files.file(id).index, files.file(id).file_id);
        self.lists[id.store].begun(files.store(id.store), index, file_id);
    }

    /// Has a file end, which receives nothing more.
    pub(crate) fn finish_file<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        id: StoreFile,
        end: FileEnd,
        now_ns: u64,
    ) {
        self.disks.ordered(id, CompletionKind::Finished, now_ns);
        files.finish_file(id, end);
    }

    /// A file has its TOC and is durable.
    pub(crate) fn closed<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        file: &OpenFile,
        bytes: u64,
    ) {
        let disk = file.id.store;
        self.lists[disk].closed(files.store(disk), file, bytes);
    }

    /// Reports lines of the lists that are refused, and tries them again.
    pub(crate) fn look_after_lists<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        ledger: &TargetLedger,
        now_ns: u64,
    ) {
        for (disk, list) in self.lists.iter_mut().enumerate() {
            list.look_after(files.store(disk), ledger, now_ns);
        }
    }

    /// No other file will follow.
    pub(crate) fn end_lists<S: FolderStore>(&self, files: &mut Files<S>) {
        for (disk, list) in self.lists.iter().enumerate() {
            list.end(files.store(disk));
        }
    }

    /// Whether the end of each list was written or refused.
    pub(crate) fn lists_have_ended<S: FolderStore>(
        &self,
        files: &mut Files<S>,
        ledger: &TargetLedger,
    ) -> bool {
        if (0..files.stores()).any(|disk| files.store(disk).text_under_way()) {
            return false;
        }
        for (disk, list) in self.lists.iter().enumerate() {
            list.has_ended(files.store(disk), ledger);
        }
        true
    }
}
