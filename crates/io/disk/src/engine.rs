//! What carries writes and syncs to the kernel: the trait, and the choice of one.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::buffer::Pool;
use crate::config::{DiskConfig, EngineChoice};
use crate::error::DiskError;
use crate::event::Event;
use crate::portable::Portable;
use crate::uring::Uring;

/// One operation. The memory and the file behind it belong to a slot of the disk, which keeps both
/// until the engine has reported the operation as done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Which slot it is for.
    pub slot: u32,
    pub fd: RawFd,
    pub action: Action,
    /// Of a write: how many of its last bytes need blocks that the file does not have, as far as
    /// that is known.
    pub new_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Write { address: *const u8, bytes: u32, offset: u64, buffer: u32 },
    SyncData,
}

// SAFETY: the address is of a pool's memory, which the operation's slot keeps; no thread derefs it
// but the one that makes the system call.
unsafe impl Send for Op {}

/// A finished operation: bytes written, or the negative error number, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub slot: u32,
    pub result: i32,
}

/// Carries operations to the kernel. At most one operation per slot is under way.
pub(crate) trait Engine: Send {
    /// Its name for people.
    fn name(&self) -> &'static str;

    /// Takes an operation. It may stay here until [`Engine::submit`].
    fn push(&mut self, op: Op);

    /// Hands what was pushed to the kernel, with one system call at most; what the kernel does not
    /// take now is offered again at the next call.
    fn submit(&mut self);

    /// Appends the operations that are done. Never blocks.
    fn reap(&mut self, done: &mut Vec<Done>);

    /// Something may be reaped although no event will come: do not sleep long.
    fn is_impatient(&self) -> bool {
        false
    }

    /// The disk is being dropped: what is held back on purpose must come now.
    fn let_go(&mut self) {}

    /// The disk hangs and will not be waited for: what is under way is left to itself.
    fn abandon(&mut self) {}
}

/// An engine, and why it is not a better one.
pub(crate) struct Chosen {
    pub engine: Box<dyn Engine>,
    pub note: Option<String>,
}

/// Sets up the best engine that the configuration and the kernel allow, for `slots` operations.
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
    let engine = Portable::new(slots, event, config.threads.as_ref())
        .map_err(|source| DiskError::Resource { what: "a thread that writes", source })?;
    Ok(Chosen { engine: Box::new(engine), note })
}

/// What a system call returned, in the form of a [`Done`]'s result.
pub(crate) fn result_of(returned: isize) -> i32 {
    if returned >= 0 {
        return i32::try_from(returned).unwrap_or(i32::MAX);
    }
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
