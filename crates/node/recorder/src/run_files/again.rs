//! Frames that were not written to a file and are held: they come again, with all behind them,
//! since a target with a spill has its frames in the order of their numbers (`in_files.rs`).
//!
//! ```text
//! file 3: 48  49  50 failed, 51 | file 4, begun meanwhile: 52  53   | file 5: 50  51  52  53  54
//! ```

use catchment_agent::FolderStore;
use catchment_writer::StoreFile;

use super::RunFiles;
use crate::file::OpenFile;
use crate::target_ledger::FrameTag;

impl<S: FolderStore> RunFiles<S> {
    /// A frame is not written to that file, which has failed. If it comes again, files that have
    /// frames behind it get no more: jobs end in their order, so that none of these is written yet.
    pub(super) fn not_written(&mut self, id: StoreFile, tag: &FrameTag) {
        let is_held = self.ledger.held().is_some();
        let file = self.files.file(id);
        let index = file.index;
        if is_held && std::mem::replace(&mut file.attached.comes_again, true) {
            return;
        }
        self.ledger.not_written(tag);
        if !is_held {
            return;
        }
        let is_behind = |file: &OpenFile| file.index > index && file.has_frames();
        let leaves = self.files.current.as_ref().is_some_and(is_behind);
        if leaves {
            self.files.leave();
        }
        for file in self.files.closing.iter_mut().filter(|file| is_behind(file)) {
            (file.failed, file.attached.comes_again) = (true, true);
        }
        if leaves && !self.use_ahead(2 * self.limits.frame_bytes) {
            let reason = "frames that could not be written wait for the next file".to_owned();
            self.folder_fails(reason);
        }
    }

    /// The header of a file is not written: the file will be deleted. If its frames come again, so
    /// will those behind it, of which nothing is written yet: readers would miss its number.
    pub(super) fn header_failed(&mut self, id: StoreFile) {
        if self.ledger.held().is_none() {
            return;
        }
        let index = self.files.file(id).index;
        let is_behind = |file: &OpenFile| file.index > index;
        if self.files.current.as_ref().is_some_and(is_behind) {
            self.files.leave();
        }
        for file in self.files.closing.iter_mut().filter(|file| is_behind(file)) {
            (file.failed, file.attached.is_void) = (true, true);
        }
        self.maker.discard_ahead(&mut self.files);
    }

    /// Continues in the file made ahead, if it has blocks for that many bytes.
    pub(super) fn use_ahead(&mut self, bytes: u64) -> bool {
        // A file without a header will be deleted, and its number be free again.
        let is_to_go = |file: &OpenFile| file.failed && !file.header_recorded;
        if !self.files.closing.iter().any(is_to_go)
            && self.maker.has_ahead(&mut self.files, bytes)
            && let Some(Ok(next)) =
                self.maker.next(&mut self.files, &self.folders.disks, (0, self.now_ns))
        {
            self.begin_file(next);
        }
        self.files.current.is_some()
    }
}
