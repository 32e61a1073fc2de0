//! Writes through `pwrite`, if io_uring is not available.
//!
//! One thread writes and one syncs, so that a stalled disk does not block the owner, which can
//! continue to take frames or to discard and count them, and a slow sync does not block the writes.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::config::DiskConfig;
use crate::engine::{Action, Done, Engine, Op, result_of};
use crate::event::Event;

/// The two threads and the queues to and from them.
pub(crate) struct Portable {
    writes: Option<Sender<Op>>,
    syncs: Option<Sender<Op>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
}

impl Portable {
    pub(crate) fn new(slots: usize, event: &Arc<Event>, config: &DiskConfig) -> io::Result<Self> {
        // Every queue has room for every slot, so no send ever waits.
        let (writes, write_ops) = bounded(slots);
        let (syncs, sync_ops) = bounded(slots);
        let (done_sender, done) = bounded(slots);
        let mut portable =
            Self { writes: Some(writes), syncs: Some(syncs), done, threads: Vec::with_capacity(2) };
        for (name, ops) in [("disk-write", write_ops), ("disk-sync", sync_ops)] {
            let (done, event) = (done_sender.clone(), Arc::clone(event));
            let (name, times) = (config.thread(name), config.threads.clone());
            let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
                let _time = times.as_ref().map(|times| times.register(name));
                work(&ops, &done, &event);
            })?;
            portable.threads.push(thread);
        }
        Ok(portable)
    }
}

impl Engine for Portable {
    fn name(&self) -> &'static str {
        "pwrite"
    }

    fn push(&mut self, op: Op) {
        let queue = match op.action {
            Action::Write { .. } => &self.writes,
            Action::SyncData => &self.syncs,
        };
        let sent = queue.as_ref().is_some_and(|queue| queue.try_send(op).is_ok());
        assert!(
            sent,
            "the queue has room for every slot and its thread lives as long as the engine"
        );
    }

    fn submit(&mut self) {}

    fn reap(&mut self, done: &mut Vec<Done>) {
        done.extend(self.done.try_iter());
    }

    fn abandon(&mut self) {
        self.threads.clear();
    }
}

impl Drop for Portable {
    fn drop(&mut self) {
        self.writes = None;
        self.syncs = None;
        for thread in self.threads.drain(..) {
            // The threads do nothing that can panic; if one did, nothing could report it.
            let _ended = thread.join();
        }
    }
}

fn work(ops: &Receiver<Op>, done: &Sender<Done>, event: &Event) {
    for op in ops {
        let finished = Done { slot: op.slot, result: perform(op) };
        if done.send(finished).is_err() {
            return;
        }
        event.signal();
    }
}

fn perform(op: Op) -> i32 {
    match op.action {
        Action::Write { address, bytes, offset, .. } => {
            // Offsets were checked to fit when the write was accepted.
            let offset = offset as libc::off_t;
            // SAFETY: the slot keeps the buffer and the file until this operation is reported.
            result_of(unsafe { libc::pwrite(op.fd, address.cast(), bytes as usize, offset) })
        }
        // SAFETY: fdatasync takes no pointers; the slot keeps the file open.
        Action::SyncData => result_of(unsafe { libc::fdatasync(op.fd) } as isize),
    }
}
