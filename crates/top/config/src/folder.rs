//! Whether runs can be recorded to a folder, without making it.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Looks at the folder, or at what there is on the way to it.
///
/// # Errors
/// Why it could not be written, or made.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let expected = |error: &dyn std::fmt::Display, path: &Path| {
        Err(format!("expected a folder that can be written, got {}: {error}", path.display()))
    };
    let whole = match std::path::absolute(folder) {
        Ok(whole) => whole,
        Err(error) => return expected(&error, folder),
    };
    for path in whole.ancestors() {
        match path.metadata() {
            Ok(about) if !about.is_dir() => return expected(&"it is no folder", path),
            Ok(_) => {
                return match writable(path) {
                    Ok(()) if is_of_the_kernel(path) => {
                        expected(&"it is the kernel's, and no disk", path)
                    }
                    Ok(()) => Ok(()),
                    Err(error) => expected(&error, path),
                };
            }
            // It would be made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return expected(&error, path),
        }
    }
    Ok(())
}

/// Asks the system, which knows of read-only disks besides the permissions.
fn writable(folder: &Path) -> io::Result<()> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mode = libc::W_OK | libc::X_OK;
    // SAFETY: the path ends with a zero byte.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether files cannot be made there whatever the permissions say: `/proc` and `/sys`.
fn is_of_the_kernel(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: all zeros is a valid statfs.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte, and `about` is a statfs to be written.
    let known = unsafe { libc::statfs(path.as_ptr(), &raw mut about) } == 0;
    known && [libc::PROC_SUPER_MAGIC, libc::SYSFS_MAGIC].contains(&about.f_type)
}
