//! File descriptors reserved for files.
//!
//! A process has a limited number of descriptors, which everything in it uses up. This crate holds
//! a few in reserve: if the process has no more, one of these makes room for the next file of a
//! recording, or for the folder that it syncs. They are taken again as soon as descriptors are
//! available.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use parking_lot::{Mutex, MutexGuard};

/// Runs an operation that needs a descriptor, again with a reserved one if the process has no more.
/// Another thread may take it first, so this retries as often as there are reserved ones.
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

/// Reserves as many descriptors as possible.
pub(crate) fn hold() {
    let mut spares = spares();
    while spares.len() < SPARES {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return;
        }
        // SAFETY: `fd` was just made and has no other owner.
        spares.push(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

fn spares() -> MutexGuard<'static, Vec<OwnedFd>> {
    HELD.lock()
}

static HELD: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// For the next file of data and those of four trends; for the folders of two helper threads.
const SPARES: usize = 8;
