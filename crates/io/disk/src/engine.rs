//! The operations in progress and the engines that pass them to the kernel: their trait, the choice
//! of one, and io_uring, with registered buffers if the kernel allows registering them.
//!
//! A [`Slot`] is one operation: the rest of it, and the meaning of its result.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use catchment_model::limits::DISK_ALIGN_BYTES;
use io_uring::{IoUring, Probe, opcode, squeue, types};

use crate::buffer::{Buffer, Pool};
use crate::config::{DiskConfig, EngineChoice};
use crate::error::DiskError;
use crate::event::Event;
use crate::portable::Portable;

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
    /// Whether to begin the write may take as long as the write.
    pub may_block: bool,
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
            may_block: false,
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
        let (fd, may_block) = (self.target.handle.as_raw_fd(), self.may_block);
        Op { slot, fd, action, new_bytes, may_block }
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
    /// Whether to begin a write may take as long as the write.
    pub may_block: bool,
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

/// One ring. Completions signal the event; nothing waits in the ring itself.
pub(crate) struct Uring {
    // The ring must be dropped before the pool, whose memory the kernel may have registered.
    ring: IoUring,
    registered: bool,
    _pool: Arc<Pool>,
    _event: Arc<Event>,
}

impl Uring {
    /// Makes a ring for `slots` operations. Also returns the reason if the buffers could not be
    /// registered: writes then cost a little more.
    pub(crate) fn new(
        slots: usize,
        pool: &Arc<Pool>,
        event: &Arc<Event>,
    ) -> io::Result<(Self, Option<io::Error>)> {
        // One operation per slot, so neither of the two queues can overflow.
        let entries = u32::try_from(slots).map_err(io::Error::other)?.next_power_of_two();
        let ring = IoUring::builder().dontfork().build(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let wanted = [opcode::Write::CODE, opcode::WriteFixed::CODE, opcode::Fsync::CODE];
        if !wanted.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        ring.submitter().register_eventfd(event.raw())?;
        // A kernel before 5.15 has no such limit to set.
        let _limited = ring.submitter().register_iowq_max_workers(&mut [WORKERS_MAX, 0]);
        // SAFETY: the memory belongs to the pool, which outlives the ring.
        let refused = unsafe { ring.submitter().register_buffers(&pool.vectors()) }.err();
        let registered = refused.is_none();
        let engine = Self { ring, registered, _pool: Arc::clone(pool), _event: Arc::clone(event) };
        Ok((engine, refused))
    }

    fn entry(&self, op: Op) -> squeue::Entry {
        let fd = types::Fd(op.fd);
        let entry = match op.action {
            Action::Write { address, bytes, offset, buffer } if self.registered => {
                // The pool has at most 1,024 buffers.
                opcode::WriteFixed::new(fd, address, bytes, buffer as u16).offset(offset).build()
            }
            Action::Write { address, bytes, offset, .. } => {
                opcode::Write::new(fd, address, bytes).offset(offset).build()
            }
            Action::SyncData => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        // FUSE waits for its server in the thread that submits, unless another one is asked for.
        let flags = if op.may_block { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
        entry.flags(flags).user_data(op.slot.into())
    }
}

impl Engine for Uring {
    fn name(&self) -> &'static str {
        if self.registered { "io_uring, registered buffers" } else { "io_uring" }
    }

    fn push(&mut self, op: Op) {
        let entry = self.entry(op);
        // SAFETY: the slot keeps the buffer and the file until its completion has been reaped.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the ring has an entry for every slot");
    }

    fn submit(&mut self) {
        if self.ring.submission().is_empty() {
            return;
        }
        // Entries that are not taken (EINTR, EAGAIN, EBUSY) stay in the queue for the next call,
        // and the operations themselves report any other error.
        let _taken = self.ring.submit();
    }

    fn reap(&mut self, done: &mut Vec<Done>) {
        for entry in self.ring.completion() {
            done.push(Done { slot: entry.user_data() as u32, result: entry.result() });
        }
    }

    fn is_impatient(&self) -> bool {
        // The kernel did not take everything: it must be offered again soon. SAFETY: the queue is
        // only read, and no other handle to it exists: `self` is borrowed, and the handles made in
        // the other functions are gone.
        !unsafe { self.ring.submission_shared() }.is_empty()
    }
}

/// The most operations of the disks of one thread that may wait in the kernel, each in a worker of
/// its own. The kernel's limit is four for each CPU: so few that the operations of one disk that
/// hangs stop those of all others. A worker is there only while an operation waits.
const WORKERS_MAX: u32 = 2_048;

/// Consecutive results without progress after which an operation is abandoned.
const TRIES_MAX: u32 = 100;
