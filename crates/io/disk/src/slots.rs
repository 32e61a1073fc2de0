//! The operations in progress: the rest of each, and the meaning of its result.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use catchment_model::limits::DISK_ALIGN_BYTES;

use crate::buffer::Buffer;
use crate::engine::{Action, Op};

/// The file and purpose of an operation.
pub(crate) struct Target {
    /// Kept open for as long as the kernel may use it.
    pub handle: Arc<File>,
    pub file: u64,
    pub token: u64,
    /// Place in the order in which operations were accepted.
    pub order: u64,
}

/// One operation in progress. It keeps the buffer and the file for as long as the kernel may use
/// them.
pub(crate) struct Slot {
    pub target: Target,
    /// The buffer of a write; a sync has none.
    pub buffer: Option<Buffer>,
    pub offset: u64,
    pub bytes: u64,
    /// The file bypassed the page cache when this was given to the engine.
    pub direct: bool,
    /// How many of the last bytes need blocks that the file does not have, as far as known.
    pub new_bytes: u64,
    written: u64,
    tries: u32,
}

/// The next step for an operation with a result.
#[derive(Debug)]
pub(crate) enum Step {
    /// Give the rest of it to the engine again.
    Again,
    /// The file system refuses direct writes: make the file an ordinary one, then try again.
    NotDirect,
    /// It is complete.
    Over(io::Result<()>),
}

impl Slot {
    pub(crate) fn write(
        target: Target,
        buffer: Buffer,
        offset: u64,
        bytes: u64,
        direct: bool,
    ) -> Self {
        Self { buffer: Some(buffer), offset, bytes, direct, ..Self::sync(target) }
    }

    pub(crate) fn sync(target: Target) -> Self {
        Self {
            target,
            buffer: None,
            offset: 0,
            bytes: 0,
            direct: false,
            new_bytes: 0,
            written: 0,
            tries: 0,
        }
    }

    /// The operation, or the rest of it.
    pub(crate) fn op(&self, slot: u32) -> Op {
        let action = match &self.buffer {
            Some(buffer) => {
                let rest = self.bytes - self.written;
                Action::Write {
                    // `written` is below `bytes`, and `bytes` is within the buffer.
                    address: buffer.address().wrapping_add(self.written as usize),
                    bytes: u32::try_from(rest).expect("a buffer is at most 256 MiB"),
                    offset: self.offset + self.written,
                    buffer: buffer.index(),
                }
            }
            None => Action::SyncData,
        };
        let new_bytes = self.new_bytes.min(self.bytes - self.written);
        Op { slot, fd: self.target.handle.as_raw_fd(), action, new_bytes }
    }

    /// Takes a result: bytes written, or a negative error number.
    pub(crate) fn advance(&mut self, result: i32) -> Step {
        match result {
            bytes if bytes >= 0 && self.buffer.is_none() => Step::Over(Ok(())),
            bytes if bytes >= 0 => self.advance_write(u64::from(bytes.unsigned_abs())),
            error if error == -libc::EINTR || error == -libc::EAGAIN => {
                self.try_again(io::Error::from_raw_os_error(-error))
            }
            error if error == -libc::EINVAL && self.direct => Step::NotDirect,
            error => Step::Over(Err(io::Error::from_raw_os_error(-error))),
        }
    }

    fn advance_write(&mut self, bytes: u64) -> Step {
        if self.written + bytes >= self.bytes {
            self.written = self.bytes;
            return Step::Over(Ok(()));
        }
        // The rest must begin at a block, so that it can be written directly.
        let blocks = bytes & !(DISK_ALIGN_BYTES as u64 - 1);
        if blocks == 0 {
            return self.try_again(io::ErrorKind::WriteZero.into());
        }
        self.written += blocks;
        self.tries = 0;
        Step::Again
    }

    fn try_again(&mut self, error: io::Error) -> Step {
        self.tries += 1;
        if self.tries > TRIES_MAX { Step::Over(Err(error)) } else { Step::Again }
    }
}

/// All slots: as many as there can be operations in progress, made at the start.
pub(crate) struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let end = u32::try_from(count).expect("buffers and syncs are few");
        Self { slots: (0..end).map(|_| None).collect(), free: (0..end).rev().collect() }
    }

    pub(crate) fn busy(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn put(&mut self, slot: Slot) -> u32 {
        let index = self.free.pop().expect("there is a slot for every buffer and every sync");
        self.slots[index as usize] = Some(slot);
        index
    }

    pub(crate) fn get(&mut self, index: u32) -> &mut Slot {
        self.slots[index as usize].as_mut().expect("an engine reports an operation once")
    }

    pub(crate) fn remove(&mut self, index: u32) -> Slot {
        let slot = self.slots[index as usize].take().expect("an engine reports an operation once");
        self.free.push(index);
        slot
    }

    /// Whether the file has an operation in progress.
    pub(crate) fn any_of(&self, file: u64) -> bool {
        self.slots.iter().flatten().any(|slot| slot.target.file == file)
    }

    /// Whether a write of the file is under way that was accepted before `order`.
    pub(crate) fn any_write_before(&self, file: u64, order: u64) -> bool {
        let earlier = |slot: &Slot| slot.target.file == file && slot.target.order < order;
        self.slots.iter().flatten().any(|slot| slot.buffer.is_some() && earlier(slot))
    }
}

/// Consecutive results without progress after which an operation is abandoned.
const TRIES_MAX: u32 = 100;
