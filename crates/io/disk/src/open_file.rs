//! An open file of a disk: its blocks, its errors, its progress.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use catchment_agent::{FileEnd, Presence};

use crate::files::{self, Created};

/// A file of a disk.
pub(crate) struct OpenFile {
    pub id: u64,
    /// Until the helper that ends the file has it.
    handle: Option<Arc<File>>,
    pub path: PathBuf,
    pub direct: bool,
    /// Whether to begin a write may take as long as the write.
    pub may_block: bool,
    /// The first write that failed: no later sync may then report that everything is durable.
    pub write_error: Option<i32>,
    /// The first sync that failed: the kernel may have dropped data that it could not write.
    pub sync_error: Option<i32>,
    pub state: FileState,
    pub presence: Presence,
    /// Length of the part at the file's beginning that was completely written at the last check.
    pub written_bytes: u64,
    pub preallocating: bool,
    /// The end of the preallocated blocks.
    allocated: u64,
    /// The end of the accepted writes that have not failed.
    end: u64,
    /// Whether the file system preallocates.
    preallocates: bool,
    /// The next step is requested when writes pass this offset.
    ask_beyond: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    Open,
    /// To be ended as soon as it has no operation in progress.
    Closing(FileEnd),
    /// At the helper.
    Finishing(FileEnd),
}

impl OpenFile {
    pub(crate) fn new(id: u64, created: Created) -> Self {
        let Created { handle, path, direct, may_block, allocated, preallocates } = created;
        Self {
            id,
            handle: Some(handle),
            path,
            direct,
            may_block,
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

    /// The file, as long as it is not at the helper that ends it.
    pub(crate) fn handle(&self) -> &Arc<File> {
        self.handle.as_ref().expect("a file that is being ended is left alone")
    }

    /// The file, for the helper that ends it: whoever has it last closes it, which takes long on a
    /// network file system that does not respond. None while another helper has it, too.
    pub(crate) fn take_handle(&mut self) -> Option<Arc<File>> {
        self.handle.take_if(|handle| Arc::strong_count(handle) == 1)
    }

    /// The end of the blocks that the file has, or gets from writes in progress.
    pub(crate) fn blocks_bytes(&self) -> u64 {
        self.allocated.max(self.end)
    }

    /// Registers a write. Returns how many bytes need blocks for it, including those of a gap
    /// before it.
    pub(crate) fn begin_write(&mut self, end: u64) -> u64 {
        let new_bytes = end.saturating_sub(self.blocks_bytes());
        self.end = self.end.max(end);
        new_bytes
    }

    /// A write at that offset has failed.
    pub(crate) fn write_failed(&mut self, offset: u64, error: i32) {
        self.write_error = self.write_error.or(Some(error));
        self.end = self.end.min(offset);
    }

    /// Where the next step of blocks should begin, if it is time to request one: half of the last
    /// one is used. The final size of the file is `file_bytes`.
    pub(crate) fn wants_blocks(&self, file_bytes: u64) -> Option<u64> {
        let due = self.preallocates && !self.preallocating && self.end > self.ask_beyond;
        Some(self.blocks_bytes()).filter(|&from| due && from < file_bytes)
    }

    /// There is no helper to preallocate.
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
                // If the file system (ext4) kept the blocks that it found before it found no more,
                // they go back: others need them, and this file allocates with each write. No write
                // has reached them. If that is refused, the file keeps these blocks until it is
                // finished.
                let _given_back = self.handle().set_len(self.end.max(from));
            }
            // Writes continue without; if the disk is broken, they report it.
            Err(_) => self.preallocates = false,
        }
        0
    }
}

/// Bytes written after a refused step until the next one is requested.
const PAUSE_BYTES_MIN: u64 = 1 << 20;
const PAUSE_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(allocated: u64) -> OpenFile {
        let (handle, path) = (tempfile::tempfile().expect("a file"), PathBuf::from("x"));
        let handle = Arc::new(handle);
        let (direct, may_block, preallocates) = (false, false, true);
        let created = Created { handle, path, direct, may_block, allocated, preallocates };
        OpenFile::new(1, created)
    }

    #[test]
    fn a_gap_before_a_write_needs_blocks_too_and_they_are_charged_once() {
        // A frame's header is written after its columns, into the gap left before them.
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
