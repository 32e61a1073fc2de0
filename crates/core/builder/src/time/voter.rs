//! A source, as the horizon knows it: its clock's newest value, and what it claims.

use std::collections::VecDeque;

use super::clock::{Scale, Stamp};
use super::horizon::Held;

/// One source. What each fragment needs is in its first two cache lines: with a thousand sources
/// they are what costs.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Voter {
    pub position: Option<Position>,
    pub scale: Scale,
    pub reorder_ns: i64,
    /// When it last delivered a fragment that was taken, in active time, and any at all; and when
    /// that last was beyond all others of it, or it waited for room.
    pub taken_ns: u64,
    pub heard_ns: Option<u64>,
    pub advanced_ns: u64,
    pub repeats: u32,
    /// Whether it delivered since its step was last looked at.
    pub fresh: bool,
    pub out_of_step: bool,
    pub enabled: bool,
    pub sparse: bool,
    /// When its step was last right.
    pub in_step_ns: u64,
    /// Equal times with which it is stuck.
    pub repeats_max: u32,
    pub claim: Option<Claim>,
    pub held: VecDeque<Held>,
    /// Whether it is a front-end.
    pub promises: bool,
    /// Whether it was out of step at its last look for which it had delivered.
    pub strays: bool,
    /// How far its clock was ahead of the others' at the last look.
    pub ahead_ns: i64,
    /// When its fragments last waited outside, in active time: for whatever reason, and since its
    /// receive thread is held up; and when the latter began.
    pub held_ns: Option<u64>,
    pub unread_ns: Option<u64>,
    pub unread_from_ns: u64,
}

const _: () = assert!(std::mem::offset_of!(Voter, in_step_ns) <= 128);

#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub stamp: Stamp,
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub newest: Position,
    /// The lowest of its times.
    pub lowest_ns: i64,
    pub values: u32,
    /// In active time: when it began, and when its newest time came.
    pub since_ns: u64,
    pub advanced_ns: u64,
}

impl Voter {
    /// Whether its time says what the others' should be.
    pub fn votes(&self) -> bool {
        self.enabled && !self.sparse
    }

    pub fn is_silent(&self, active_ns: u64, timeout_ns: u64) -> bool {
        self.position.is_none() || active_ns - self.taken_ns >= timeout_ns
    }

    /// Whether it delivers, but nothing beyond what it has said.
    pub fn is_stuck(&self, active_ns: u64, timeout_ns: u64) -> bool {
        self.repeats >= self.repeats_max
            || !self.is_silent(active_ns, timeout_ns) && active_ns - self.advanced_ns >= timeout_ns
    }

    /// Whether events wait for it.
    pub fn is_awaited(&self, active_ns: u64, timeout_ns: u64) -> bool {
        self.enabled
            && !self.is_silent(active_ns, timeout_ns)
            && !self.is_stuck(active_ns, timeout_ns)
    }

    /// A position in the cycle in which its lead is nearest to another one.
    pub fn aligned(&self, position: &Position, lead_ns: i64) -> Option<Position> {
        let near_ns = lead_ns.checked_add_unsigned(position.at_ns)?;
        let stamp = self.scale.nearest(&position.stamp, near_ns)?;
        Some(Position { stamp, ..*position })
    }

    pub fn place(&mut self, position: Position, active_ns: u64) {
        (self.position, self.claim) = (Some(position), None);
        (self.taken_ns, self.in_step_ns) = (active_ns, active_ns);
        (self.fresh, self.strays) = (true, false);
        (self.out_of_step, self.repeats) = (false, 0);
    }
}

impl Position {
    pub fn lead_ns(&self) -> i64 {
        self.stamp.ns.saturating_sub_unsigned(self.at_ns)
    }
}

/// Equal times of a clock that is stuck, unless more can be pieces of an event.
pub const STUCK_REPEATS: u32 = 16;
