//! Writes through io_uring, from registered buffers if the kernel allows registering them.

use std::io;
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use crate::buffer::Pool;
use crate::engine::{Action, Done, Engine, Op};
use crate::event::Event;

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
        entry.user_data(op.slot.into())
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
