//! Files that others read while they grow, of little data: through the page cache, so that nothing
//! needs to be aligned, and on the caller's thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::DiskError;
use crate::faults::FaultControl;
use crate::files;

/// A new file under its final name. It is locked while it is open, as files of a recorder are.
/// What was written outlives the process at once, and a power cut from [`GrowingFile::sync`] on.
#[derive(Debug)]
pub struct GrowingFile {
    file: File,
    path: PathBuf,
    faults: Option<FaultControl>,
    named: bool,
}

impl GrowingFile {
    /// Makes a file that does not exist yet.
    ///
    /// # Errors
    /// It exists, or the system refuses.
    pub fn create(path: &Path, faults: Option<FaultControl>) -> Result<Self, DiskError> {
        let refused = |error| files::create_error(path, error);
        faults.as_ref().map_or(Ok(()), FaultControl::check_open).map_err(refused)?;
        let file = files::create_new(path).map_err(refused)?;
        files::lock(&file);
        Ok(Self { file, path: path.to_owned(), faults, named: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all bytes at a position.
    ///
    /// # Errors
    /// What the system says. A part may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let room = self.faults.as_ref().map_or(Ok(()), |faults| faults.check_space(bytes.len()));
        let written = room.and_then(|()| self.file.write_all_at(bytes, offset));
        written.map_err(|e| DiskError::path("write", &self.path, e))
    }

    /// Makes the file this long.
    ///
    /// # Errors
    /// What the system says.
    pub fn truncate(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.set_len(bytes).map_err(|e| DiskError::path("cut", &self.path, e))
    }

    /// Makes what was written durable, and the file's name.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&mut self) -> Result<(), DiskError> {
        self.try_sync().map_err(|e| DiskError::path("sync", &self.path, e))
    }

    fn try_sync(&mut self) -> io::Result<()> {
        self.faults.as_ref().map_or(Ok(()), FaultControl::check_finish)?;
        self.file.sync_data()?;
        if !self.named {
            files::sync_folder_of(&self.path)?;
            self.named = true;
        }
        Ok(())
    }
}
