//! The fault of a target's folder: from a failure until something was written again, and synced if
//! held frames come again because that was not. That another file could be made says little: a
//! folder that is full, or whose disk fails, may have room for its name, and each second there is
//! another try.

use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::FolderStore;
use catchment_writer::StoreFile;

use super::RunFiles;
use crate::file::OpenFile;
use crate::file_steps::{End, RETRY_DOUBLED_MAX, RETRY_NS};

impl<S: FolderStore> RunFiles<S> {
    /// The folder is in fault, unless recording goes on in another one, whose file is made now.
    pub(super) fn fault(&mut self, reason: String, goes_on: bool) {
        if goes_on {
            let is_needed = self.files.current.is_none() && self.opening.is_none();
            if is_needed && self.end == End::No {
                self.retry();
            }
            return;
        }
        let doubled = self.unconfirmed.saturating_sub(1).min(RETRY_DOUBLED_MAX);
        self.retry_at_ns = self.now_ns + (RETRY_NS << doubled);
        match &self.files.current {
            // An older file failed while it was being closed; the current one is intact.
            Some(file) if file.header_recorded && !self.ledger.is_in_fault() => {
                return self.ledger.left_file_failed(reason);
            }
            Some(_) => {}
            None => self.ledger.of_target().counters.next_file_refused.store(0, Relaxed),
        }
        self.folder_fails(reason);
    }

    /// Nothing can be written to the folder, until a write to the present file, or to a later one,
    /// has succeeded.
    pub(super) fn folder_fails(&mut self, reason: String) {
        self.files.closing.iter_mut().for_each(|file| file.attached.is_left_in_fault = true);
        self.ledger.folder_fails(reason);
    }

    /// The header of that file, or a frame in it, is written: if that was begun after a failure,
    /// the failure is over. The header is too small to tell where a frame is on its way behind it.
    pub(super) fn has_written(&mut self, id: StoreFile, is_frame: bool) {
        let file = self.files.file(id);
        let is_proof = is_frame || self.framed != Some(file.file_id);
        if is_proof && !file.attached.is_left_in_fault && !self.is_unconfirmed() {
            self.ledger.folder_writes();
        }
    }

    /// A sync of that file has succeeded: what is written to it becomes durable.
    pub(super) fn has_synced(&mut self, id: StoreFile) {
        if self.unconfirmed > 0 && !self.files.file(id).attached.is_left_in_fault {
            self.unconfirmed = 0;
            self.has_written(id, true);
        }
    }

    /// Nothing more becomes of a file. If it was in doubt, or its end has made it durable as a sync
    /// does, the header of the present one, or frames in it, may have been written meanwhile.
    pub(super) fn has_ended(&mut self, ended: &OpenFile, is_confirmed: bool) {
        let is_proof = is_confirmed && ended.has_frames() && !ended.attached.is_left_in_fault;
        let mut may_be_over = self.has_doubts(ended);
        if is_proof && self.unconfirmed > 0 {
            (self.unconfirmed, may_be_over) = (0, true);
        }
        let begun = self.files.current.as_ref().filter(|file| file.header_recorded);
        if let Some(file) = begun.filter(|_| may_be_over) {
            let (id, has_frames) = (file.id, file.recorded_end > file.header_bytes());
            self.has_written(id, has_frames);
        }
    }
}
