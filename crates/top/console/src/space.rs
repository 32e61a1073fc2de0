//! The room on the disk that a command writes to.

use std::io;
use std::path::Path;

use crate::ConsoleError;

/// Refuses a recording that the disk has no room for.
///
/// # Errors
/// Too little room, with both figures; or the system's error.
pub fn need_space(folder: &Path, needed_bytes: u64) -> Result<(), ConsoleError> {
    let free_bytes = free_bytes(folder)?;
    if free_bytes >= needed_bytes {
        return Ok(());
    }
    Err(ConsoleError::NoSpace { folder: folder.to_owned(), free_bytes, needed_bytes })
}

/// Bytes that can be written below a folder, or where it will be made.
fn free_bytes(folder: &Path) -> io::Result<u64> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    catchment_disk::free_bytes(existing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_yet_to_be_made_has_the_space_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(&folder.path().join("a/b/c")).unwrap() > 0);
        assert!(need_space(folder.path(), u64::MAX).is_err());
        assert!(need_space(folder.path(), 1).is_ok());
    }
}
