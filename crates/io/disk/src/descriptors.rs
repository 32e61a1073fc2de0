//! File descriptors that are held for files.
//!
//! A process may have only so many descriptors, and everything in it that opens something takes of
//! them. A few are held by this crate, for nothing: where the process has no more, one of these
//! makes room for the next file of a recording, or for the folder that it syncs. They are taken
//! again as soon as there are some.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use parking_lot::{Mutex, MutexGuard};

/// Does what needs a descriptor: again with one of those that are held where the process has no
/// more. Another thread may be faster, so that it tries as often as there are some.
pub(crate) fn with_spares(open: impl Fn() -> io::Result<File>) -> io::Result<File> {
    loop {
        let result = open();
        let short =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        if result.as_ref().is_err_and(short) && spares().pop().is_some() {
            continue;
        }
        if result.is_ok() {
            hold();
        }
        return result;
    }
}

/// Holds descriptors, as many as can be had.
pub(crate) fn hold() {
    let mut spares = spares();
    while spares.len() < SPARES {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return;
        }
        // SAFETY: `fd` was just made and nobody else owns it.
        spares.push(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

fn spares() -> MutexGuard<'static, Vec<OwnedFd>> {
    HELD.lock()
}

static HELD: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// For the next file of data and those of four trends; the folders of two helper threads.
const SPARES: usize = 8;
