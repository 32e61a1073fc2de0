//! What the machine says: room on a disk, how far its clock is off.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Room on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

/// The room on the disk of a folder, or of where it will be made.
pub(crate) fn space(folder: &Path) -> Option<Space> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let path = CString::new(existing.as_os_str().as_bytes()).ok()?;
    // SAFETY: plain integers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with zero, and the place is valid to write to.
    let result = unsafe { libc::statvfs(path.as_ptr(), &raw mut found) };
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    (result == 0)
        .then(|| Space { free_bytes: bytes(found.f_bavail), total_bytes: bytes(found.f_blocks) })
}

/// How far the clock is off, as the system's time daemon reckons. None where nobody keeps it.
pub(crate) fn clock_offset_seconds() -> Option<f64> {
    /// The clock is not kept by anybody.
    const UNSYNCHRONISED: i32 = 0x40;
    /// Offsets are in nanoseconds.
    const NANOSECONDS: i32 = 0x2000;
    // SAFETY: plain integers, for which zero is a value: mode 0 only reads.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the place is valid; mode 0 changes nothing.
    let result = unsafe { libc::adjtimex(&raw mut clock) };
    if result < 0 || clock.status & UNSYNCHRONISED != 0 {
        return None;
    }
    let unit = if clock.status & NANOSECONDS != 0 { 1e-9 } else { 1e-6 };
    Some(clock.offset as f64 * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_yet_to_be_made_has_the_room_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let space = space(&folder.path().join("a/b")).unwrap();
        assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
    }
}
