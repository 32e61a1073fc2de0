//! The engines that pass writes and syncs to the kernel: their trait, and the choice of one.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::buffer::Pool;
use crate::config::{DiskConfig, EngineChoice};
use crate::error::DiskError;
use crate::event::Event;
use crate::portable::Portable;
use crate::uring::Uring;

/// One operation. Its memory and file belong to a slot of the disk, which keeps both until the
/// engine has reported the operation as complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// The index of its slot.
    pub slot: u32,
    pub fd: RawFd,
    pub action: Action,
    /// For a write: how many of its last bytes need blocks that the file does not have, as far as
    /// known.
    pub new_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Write { address: *const u8, bytes: u32, offset: u64, buffer: u32 },
    SyncData,
}

// SAFETY: the address is in the pool's memory, which the operation's slot keeps; no thread derefs
// it except the one that makes the system call.
unsafe impl Send for Op {}

/// A completed operation: bytes written, or the negative error number, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub slot: u32,
    pub result: i32,
}

/// Passes operations to the kernel. At most one operation per slot is in progress.
pub(crate) trait Engine: Send {
    /// Its display name.
    fn name(&self) -> &'static str;

    /// Accepts an operation. It may stay here until [`Engine::submit`].
    fn push(&mut self, op: Op);

    /// Passes accepted operations to the kernel, with at most one system call; operations that the
    /// kernel does not take now are offered again at the next call.
    fn submit(&mut self);

    /// Appends the completed operations. Never blocks.
    fn reap(&mut self, done: &mut Vec<Done>);

    /// Whether something may complete without an event: do not sleep long.
    fn is_impatient(&self) -> bool {
        false
    }

    /// The disk is being dropped: deliberately delayed completions must come now.
    fn let_go(&mut self) {}

    /// The disk hangs and is not waited for any longer: operations in progress are abandoned.
    fn abandon(&mut self) {}
}

/// An engine, and the reason why it is not a better one.
pub(crate) struct Chosen {
    pub engine: Box<dyn Engine>,
    pub note: Option<String>,
}

/// Sets up the best engine that the configuration and the kernel allow, with `slots` operations.
pub(crate) fn choose(
    config: &DiskConfig,
    slots: usize,
    pool: &Arc<Pool>,
    event: &Arc<Event>,
) -> Result<Chosen, DiskError> {
    let mut note = None;
    if config.engine != EngineChoice::Portable {
        match Uring::new(slots, pool, event) {
            Ok((engine, refused)) => {
                let note = refused.map(|e| format!("buffers could not be registered: {e}"));
                return Ok(Chosen { engine: Box::new(engine), note });
            }
            Err(source) if config.engine == EngineChoice::Uring => {
                return Err(DiskError::Engine { engine: "io_uring", source });
            }
            Err(source) => note = Some(format!("io_uring cannot be used: {source}")),
        }
    }
    let engine = Portable::new(slots, event, config)
        .map_err(|source| DiskError::Resource { what: "a thread that writes", source })?;
    Ok(Chosen { engine: Box::new(engine), note })
}

/// The return value of a system call in the form of a [`Done`]'s result.
pub(crate) fn result_of(returned: isize) -> i32 {
    if returned >= 0 {
        return i32::try_from(returned).unwrap_or(i32::MAX);
    }
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
