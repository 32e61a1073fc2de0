//! A file that a disk has open: its blocks, its errors, how far it is.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use catchment_agent::{FileEnd, Presence};

use crate::files::{self, Created};

/// A file of a disk.
pub(crate) struct OpenFile {
    pub id: u64,
    pub handle: Arc<File>,
    pub path: PathBuf,
    pub direct: bool,
    /// The first write that failed: no later sync may then say that all is durable.
    pub write_error: Option<i32>,
    /// The first sync that failed: the kernel may have dropped what it could not write.
    pub sync_error: Option<i32>,
    pub state: FileState,
    pub presence: Presence,
    /// Bytes at the file's beginning that had all been written at the last look.
    pub written_bytes: u64,
    pub preallocating: bool,
    /// Where the blocks end that were preallocated.
    allocated: u64,
    /// Where the writes end that were accepted and have not failed.
    end: u64,
    /// Whether the file system preallocates.
    preallocates: bool,
    /// The next step is asked for when writes get beyond this.
    ask_beyond: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    Open,
    /// To be ended, as soon as nothing of it is under way.
    Closing(FileEnd),
    /// With the helper.
    Finishing(FileEnd),
}

impl OpenFile {
    pub(crate) fn new(id: u64, created: Created) -> Self {
        let Created { handle, path, direct, allocated, preallocates } = created;
        Self {
            id,
            handle,
            path,
            direct,
            write_error: None,
            sync_error: None,
            state: FileState::Open,
            presence: Presence::There,
            written_bytes: 0,
            preallocating: false,
            allocated,
            end: 0,
            preallocates,
            ask_beyond: allocated / 2,
        }
    }

    /// Where the blocks end that the file has, or gets by writes under way.
    pub(crate) fn blocks_bytes(&self) -> u64 {
        self.allocated.max(self.end)
    }

    /// Takes a write up. Returns how many bytes need blocks for it, those of a gap before it
    /// included.
    pub(crate) fn begin_write(&mut self, end: u64) -> u64 {
        let new_bytes = end.saturating_sub(self.blocks_bytes());
        self.end = self.end.max(end);
        new_bytes
    }

    /// A write there has failed.
    pub(crate) fn write_failed(&mut self, offset: u64, error: i32) {
        self.write_error = self.write_error.or(Some(error));
        self.end = self.end.min(offset);
    }

    /// Where the next step of blocks should begin, if it is time to ask for one: half of the last
    /// one is used. The file comes to `file_bytes`.
    pub(crate) fn wants_blocks(&self, file_bytes: u64) -> Option<u64> {
        let due = self.preallocates && !self.preallocating && self.end > self.ask_beyond;
        Some(self.blocks_bytes()).filter(|&from| due && from < file_bytes)
    }

    /// Nobody is there to preallocate.
    pub(crate) fn stop_preallocating(&mut self) {
        (self.preallocating, self.preallocates) = (false, false);
    }

    /// Handles the result of a step from that offset on. Returns the bytes that the file got.
    pub(crate) fn preallocated(
        &mut self,
        from: u64,
        step_bytes: u64,
        result: io::Result<u64>,
    ) -> u64 {
        self.preallocating = false;
        let pause = (step_bytes / 16).clamp(PAUSE_BYTES_MIN, PAUSE_BYTES_MAX);
        match result {
            Ok(0) => self.ask_beyond = self.end.saturating_add(pause),
            Ok(bytes) => {
                self.allocated = from + bytes;
                self.ask_beyond = self.allocated - bytes / 2;
                return bytes;
            }
            Err(error) if files::is_full(&error) => {
                self.ask_beyond = self.end.saturating_add(pause);
                // What the file system had found before it found no more goes back (ext4 keeps it):
                // others need it, and this file takes with each write what there is. No write gets
                // as far. If it is refused, the file has these blocks until it is finished.
                let _given_back = self.handle.set_len(self.end.max(from));
            }
            // Writes go on without; if the disk is broken, they say so.
            Err(_) => self.preallocates = false,
        }
        0
    }
}

/// What is written after a step that was not granted, until the next one is asked for.
const PAUSE_BYTES_MIN: u64 = 1 << 20;
const PAUSE_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(allocated: u64) -> OpenFile {
        let (handle, path) = (tempfile::tempfile().expect("a file"), PathBuf::from("x"));
        let handle = Arc::new(handle);
        let created = Created { handle, path, direct: false, allocated, preallocates: true };
        OpenFile::new(1, created)
    }

    #[test]
    fn a_gap_before_a_write_needs_blocks_too_and_they_are_charged_once() {
        // A frame's header is written behind its columns, into the gap that they left.
        let mut file = file(0);
        assert_eq!(file.begin_write(12_288), 12_288);
        assert_eq!(file.begin_write(4_096), 0);
        assert_eq!(file.begin_write(20_480), 8_192);
        let mut file = self::file(16_384);
        assert_eq!(file.begin_write(12_288), 0);
        assert_eq!(file.begin_write(20_480), 4_096);
    }

    #[test]
    fn what_a_failed_write_was_charged_for_is_charged_again() {
        let mut file = file(0);
        assert_eq!(file.begin_write(8_192), 8_192);
        file.write_failed(4_096, libc::ENOSPC);
        assert_eq!(file.begin_write(8_192), 4_096);
    }
}
