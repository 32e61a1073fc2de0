//! A fault-injecting disk for tests: faults by a script, by a seed, or by hand while it runs.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use catchment_model::limits::DISK_ALIGN_BYTES;

use crate::engine::{Action, Done, Engine, Op};
use crate::files;

/// The faults of a [`Disk`](crate::Disk). Attempts are counted from 0, over all files; retrying the
/// rest of a short write is a separate attempt. The same plan and the same calls give the same
/// faults.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// Seed of all random choices.
    pub seed: u64,
    /// Attempts to write that fail: number and error number (`libc::EIO`, ...).
    pub write_errors: Vec<(u64, i32)>,
    /// How many attempts in a million fail with EIO, at random.
    pub write_errors_per_million: u32,
    /// Attempts to write that write about half of the bytes.
    pub short_writes: Vec<u64>,
    /// How many attempts in a million write only a part, at random.
    pub short_writes_per_million: u32,
    /// Every completion is delayed by 0 to this many polls, at random, so that they arrive out of
    /// order.
    pub delay_polls_max: u32,
    /// From an attempt to write on, nothing completes for this number of polls.
    pub stalls: Vec<(u64, u32)>,
    /// Syncs that fail: number, from 0, and error number.
    pub sync_errors: Vec<(u64, i32)>,
    /// At a poll, counted from 1, this many bytes of space become free.
    pub space_back: Option<(u64, u64)>,
    /// Controls that can be changed while the disk runs. Keep a clone of them.
    pub control: FaultControl,
}

/// Changes the faults of a running disk. Clones act on the same disk.
#[derive(Clone, Debug, Default)]
pub struct FaultControl {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    space_bytes: AtomicU64,
    stalled: AtomicBool,
    write_error: AtomicI32,
    sync_error: AtomicI32,
    open_error: AtomicI32,
    finish_error: AtomicI32,
    finish_delay_ns: AtomicU64,
    preallocate_error: AtomicI32,
    writes: AtomicU64,
    polls: AtomicU64,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            space_bytes: AtomicU64::new(UNLIMITED),
            stalled: AtomicBool::new(false),
            write_error: AtomicI32::new(0),
            sync_error: AtomicI32::new(0),
            open_error: AtomicI32::new(0),
            finish_error: AtomicI32::new(0),
            finish_delay_ns: AtomicU64::new(0),
            preallocate_error: AtomicI32::new(0),
            writes: AtomicU64::new(0),
            polls: AtomicU64::new(0),
        }
    }
}

impl FaultControl {
    /// Sets how many bytes are free before the disk is full; `None`: no limit. Preallocation uses
    /// them, and so do writes where the file has no blocks.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.shared.space_bytes.store(bytes.unwrap_or(UNLIMITED), SeqCst);
    }

    /// Stops, or resumes, all completions. A dropped disk resumes by itself.
    pub fn stall(&self, stalled: bool) {
        self.shared.stalled.store(stalled, SeqCst);
    }

    /// Makes every write fail with this error number; `None`: no more.
    pub fn fail_writes(&self, error: Option<i32>) {
        self.shared.write_error.store(error.unwrap_or(0), SeqCst);
    }

    /// Makes every sync of an open file fail with this error number; `None`: no more.
    pub fn fail_syncs(&self, error: Option<i32>) {
        self.shared.sync_error.store(error.unwrap_or(0), SeqCst);
    }

    /// Makes every opening of a file fail with this error number; `None`: no more.
    pub fn refuse_opens(&self, error: Option<i32>) {
        self.shared.open_error.store(error.unwrap_or(0), SeqCst);
    }

    /// Makes the sync at the end of every file fail with this error number; `None`: no more.
    pub fn fail_finishes(&self, error: Option<i32>) {
        self.shared.finish_error.store(error.unwrap_or(0), SeqCst);
    }

    /// Makes the end of every file take so much longer, on a disk with threads of its own.
    pub fn delay_finishes(&self, by: Duration) {
        self.shared.finish_delay_ns.store(by.as_nanos().min(u128::from(u64::MAX)) as u64, SeqCst);
    }

    /// Makes every preallocation fail with this error number, as on ext4: the file keeps half of
    /// the blocks. `None`: no more.
    pub fn fail_preallocations(&self, error: Option<i32>) {
        self.shared.preallocate_error.store(error.unwrap_or(0), SeqCst);
    }

    /// Attempts to write so far.
    pub fn writes(&self) -> u64 {
        self.shared.writes.load(SeqCst)
    }

    /// Polls so far.
    pub fn polls(&self) -> u64 {
        self.shared.polls.load(SeqCst)
    }

    pub(crate) fn check_write(&self) -> io::Result<()> {
        error_of(self.shared.write_error.load(SeqCst))
    }

    pub(crate) fn check_sync(&self) -> io::Result<()> {
        error_of(self.shared.sync_error.load(SeqCst))
    }

    pub(crate) fn check_open(&self) -> io::Result<()> {
        error_of(self.shared.open_error.load(SeqCst))
    }

    pub(crate) fn check_finish(&self) -> io::Result<()> {
        error_of(self.shared.finish_error.load(SeqCst))
    }

    /// Waits for as long as the end of a file is to take longer.
    pub(crate) fn wait_for_finish(&self) {
        std::thread::sleep(Duration::from_nanos(self.shared.finish_delay_ns.load(SeqCst)));
    }

    /// Takes space for a write, in whole blocks, or reports that there is none.
    pub(crate) fn check_space(&self, bytes: usize) -> io::Result<()> {
        let bytes = (bytes as u64).next_multiple_of(BLOCK);
        if self.take_space(bytes) < bytes { error_of(libc::ENOSPC) } else { Ok(()) }
    }

    /// The free space, if there is a limit.
    pub(crate) fn space(&self) -> Option<u64> {
        Some(self.shared.space_bytes.load(SeqCst)).filter(|&space| space != UNLIMITED)
    }

    pub(crate) fn check_preallocate(&self, file: &File, from: u64, bytes: u64) -> io::Result<()> {
        let refused = error_of(self.shared.preallocate_error.load(SeqCst));
        if refused.is_err() {
            files::allocate(file, from, (bytes / 2).next_multiple_of(BLOCK))?;
            return refused;
        }
        let taken = self.take_space(bytes);
        if taken < bytes {
            self.add_space(taken);
            return error_of(libc::ENOSPC);
        }
        Ok(())
    }

    pub(crate) fn add_space(&self, bytes: u64) {
        // The closure always gives a value, so the update cannot fail.
        let _before = self.shared.space_bytes.fetch_update(SeqCst, SeqCst, |space| {
            Some(if space == UNLIMITED { UNLIMITED } else { space.saturating_add(bytes) })
        });
    }

    /// Takes space for a write: all of it, a part in whole blocks, or nothing.
    fn take_space(&self, bytes: u64) -> u64 {
        let mut taken = 0;
        let _before = self.shared.space_bytes.fetch_update(SeqCst, SeqCst, |space| {
            taken = if space == UNLIMITED { bytes } else { space.min(bytes) & !(BLOCK - 1) };
            Some(if space == UNLIMITED { UNLIMITED } else { space - taken })
        });
        taken
    }
}

/// Wraps a real engine and injects the plan's faults.
pub(crate) struct Faulty {
    inner: Box<dyn Engine>,
    plan: FaultPlan,
    random: u64,
    syncs: u64,
    stalled_until_poll: u64,
    scratch: Vec<Done>,
    held: VecDeque<(u64, Done)>,
}

impl Faulty {
    pub(crate) fn new(inner: Box<dyn Engine>, plan: FaultPlan, slots: usize) -> Self {
        Self {
            inner,
            random: plan.seed,
            plan,
            syncs: 0,
            stalled_until_poll: 0,
            scratch: Vec::with_capacity(slots),
            held: VecDeque::with_capacity(slots),
        }
    }

    /// The bytes that this attempt may write, or its error. `new_bytes` of them, its last ones,
    /// need blocks.
    fn judge_write(&mut self, bytes: u64, new_bytes: u64) -> Result<u64, i32> {
        let shared = &self.plan.control.shared;
        let attempt = shared.writes.fetch_add(1, SeqCst);
        let poll = shared.polls.load(SeqCst);
        for &(_, polls) in self.plan.stalls.iter().filter(|stall| stall.0 == attempt) {
            self.stalled_until_poll = self.stalled_until_poll.max(poll + u64::from(polls));
        }
        let scripted = self.plan.write_errors.iter().find(|fault| fault.0 == attempt);
        if let Some(&(_, error)) = scripted {
            return Err(error);
        }
        self.plan.control.check_write().map_err(|error| number_of(&error))?;
        if self.happens(self.plan.write_errors_per_million) {
            return Err(libc::EIO);
        }
        let mut part = bytes;
        if self.plan.short_writes.contains(&attempt) {
            part = (bytes / 2).next_multiple_of(BLOCK);
        }
        if self.happens(self.plan.short_writes_per_million) {
            part = (1 + self.next_random() % (bytes / BLOCK)) * BLOCK;
        }
        let part = part.min(bytes);
        let old_bytes = part.min(bytes - new_bytes);
        match old_bytes + self.plan.control.take_space(part - old_bytes) {
            0 => Err(libc::ENOSPC),
            taken => Ok(taken),
        }
    }

    fn judge_sync(&mut self) -> Result<(), i32> {
        let number = self.syncs;
        self.syncs += 1;
        let scripted = self.plan.sync_errors.iter().find(|fault| fault.0 == number);
        scripted.map_or(Ok(()), |fault| Err(fault.1))?;
        self.plan.control.check_sync().map_err(|error| number_of(&error))
    }

    fn hold(&mut self, done: Done) {
        let delay = match self.plan.delay_polls_max {
            0 => 0,
            most => self.next_random() % (u64::from(most) + 1),
        };
        self.held.push_back((self.plan.control.polls() + delay, done));
    }

    fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.next_random() % 1_000_000 < u64::from(per_million)
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn push(&mut self, mut op: Op) {
        let fault = match &mut op.action {
            Action::Write { bytes, .. } => match self.judge_write((*bytes).into(), op.new_bytes) {
                // No more is taken than requested, so it fits.
                Ok(taken) => {
                    *bytes = taken as u32;
                    None
                }
                Err(error) => Some(error),
            },
            Action::SyncData => self.judge_sync().err(),
        };
        match fault {
            Some(error) => self.hold(Done { slot: op.slot, result: -error }),
            None => self.inner.push(op),
        }
    }

    fn submit(&mut self) {
        self.inner.submit();
    }

    fn reap(&mut self, done: &mut Vec<Done>) {
        let poll = self.plan.control.shared.polls.fetch_add(1, SeqCst) + 1;
        if let Some((at, bytes)) = self.plan.space_back
            && poll == at
        {
            self.plan.control.add_space(bytes);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        self.inner.reap(&mut scratch);
        for finished in scratch.drain(..) {
            self.hold(finished);
        }
        self.scratch = scratch;
        if self.plan.control.shared.stalled.load(SeqCst) || poll < self.stalled_until_poll {
            return;
        }
        self.held.retain(|&(due, finished)| {
            if due <= poll {
                done.push(finished);
            }
            due > poll
        });
    }

    fn is_impatient(&self) -> bool {
        !self.held.is_empty() || self.inner.is_impatient()
    }

    fn let_go(&mut self) {
        self.plan.control.stall(false);
        self.inner.let_go();
    }

    fn abandon(&mut self) {
        self.inner.abandon();
    }
}

/// The number of a system's error.
pub(crate) fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn error_of(number: i32) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}

const UNLIMITED: u64 = u64::MAX;
const BLOCK: u64 = DISK_ALIGN_BYTES as u64;
