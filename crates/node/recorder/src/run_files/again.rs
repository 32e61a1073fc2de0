//! Frames that were not written to a file, or may not be durable there, and are held: they come
//! again, with all behind them, since a target with a spill has its frames in the order of their
//! numbers (`in_files.rs`).
//!
//! ```text
//! file 3: 48  49  50 failed, 51 | file 4, begun meanwhile: 52  53   | file 5: 50  51  52  53  54
//! ```
//!
//! If the write of frame 50 failed, files 3 and 4 have nothing from there on. If it is the end of
//! file 3 that failed, they have what was written, as far as it outlives a power cut: readers take
//! one copy. Only its end says that, since syncs fail after a failed write, too, and the frames
//! before that may be durable.

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
        if self.leave_behind(index) && !self.use_ahead(2 * self.limits.frame_bytes) {
            let reason = "frames that could not be written wait for the next file".to_owned();
            self.folder_fails(reason);
        }
    }

    /// The end of a file has failed. If its frames are held, those that are not durable come again,
    /// and files that have frames behind these get no more. With each further such file the next
    /// one is tried later: a disk that makes nothing durable gets some frames once more each time.
    /// Returns false if all of them are durable, or come again already.
    pub(super) fn not_confirmed(&mut self, ended: &OpenFile) -> bool {
        let Some(held) = self.ledger.held() else { return true };
        let is_lacking = held.not_confirmed(ended.id);
        if is_lacking {
            self.unconfirmed = self.unconfirmed.saturating_add(1);
            self.leave_behind(ended.index);
        }
        is_lacking
    }

    /// Leaves the files that have frames and are younger than that: what is on its way there comes
    /// again. Returns whether the present file is one of them.
    fn leave_behind(&mut self, index: u32) -> bool {
        let is_behind = |file: &OpenFile| file.index > index && file.has_frames();
        let leaves = self.files.current.as_ref().is_some_and(is_behind);
        if leaves {
            self.files.leave();
        }
        for file in self.files.closing.iter_mut().filter(|file| is_behind(file)) {
            (file.failed, file.attached.comes_again) = (true, true);
        }
        leaves
    }

    /// Whether a file of which a sync has failed has not ended: it is not known from where on held
    /// frames come again, if they do. Those behind it wait for that: otherwise they would be
    /// written to file after file.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.files.closing.iter().any(|file| self.has_doubts(file))
    }

    /// Whether that file, whose frames are held, may lack some of what was written to it.
    pub(super) fn has_doubts(&self, file: &OpenFile) -> bool {
        file.attached.sync_failed && self.ledger.is_holding()
    }

    /// Whether the folder may show frames that are not durable there, and come again.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.unconfirmed > 0 || self.is_in_doubt()
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
