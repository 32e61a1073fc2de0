//! The disk as an agent's [`FolderStore`].

use std::path::Path;

use catchment_agent::{
    Completion, FileEnd, FileId, FolderStore, NewFile, OpenError, Presence, Store,
};

use crate::buffer::Buffer;
use crate::disk::Disk;
use crate::error::DiskError;

impl Store for Disk {
    type Buffer = Buffer;

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.pump(completions);
    }

    fn try_buffer(&mut self) -> Option<Buffer> {
        Self::try_buffer(self)
    }

    fn write(&mut self, file: FileId, offset: u64, buffer: Buffer, bytes: usize, token: u64) {
        Self::write(self, file, offset, buffer, bytes, token);
    }

    fn sync(&mut self, file: FileId, token: u64) -> bool {
        Self::sync(self, file, token).is_ok()
    }

    fn finish(&mut self, file: FileId, end: FileEnd) {
        self.end(file, end);
    }
}

impl FolderStore for Disk {
    fn sync_due(&mut self, now_ns: u64) -> bool {
        Self::sync_due(self, now_ns)
    }

    fn open(&mut self, new: NewFile) {
        self.ask_for(new);
    }

    fn take_opened(&mut self) -> Option<Result<FileId, OpenError>> {
        Some(Self::take_opened(self)?.map_err(|error| match error {
            DiskError::Exists { path } => OpenError::Exists { path },
            DiskError::Open(error) => error,
            error => OpenError::Other(error.to_string()),
        }))
    }

    fn opened_bytes(&self) -> Option<u64> {
        Self::opened_bytes(self)
    }

    fn discard_opened(&mut self) {
        Self::discard_opened(self);
    }

    fn is_removing(&self) -> bool {
        Self::is_removing(self)
    }

    fn blocks_bytes(&mut self, file: FileId) -> u64 {
        Self::blocks_bytes(self, file)
    }

    fn look(&mut self, file: FileId, written_bytes: u64) {
        // Without its helper thread a disk cannot report anything new.
        let _asked = Self::look(self, file, written_bytes);
    }

    fn look_at(&mut self, folder: &Path) {
        let _asked = Self::look_at(self, folder);
    }

    fn is_looking(&self) -> bool {
        Self::is_looking(self)
    }

    fn spare_bytes(&self) -> Option<u64> {
        Self::spare_bytes(self)
    }

    fn presence(&mut self, file: FileId) -> Presence {
        Self::presence(self, file)
    }

    fn append_text(&mut self, path: &Path, header: &str, lines: &str) {
        Self::append_text(self, path, header, lines);
    }

    fn text_under_way(&self) -> bool {
        Self::text_under_way(self)
    }

    fn take_text_error(&mut self) -> Option<String> {
        Self::take_text_error(self).map(|error| error.to_string())
    }
}
