//! Sources whose fragments wait outside: there is no room for them, or their receive thread is held
//! up. That is no silence, and what they bring then is as old as the wait was long.
//!
//! | a port whose thread is held up, and that | events wait for |
//! |---|---|
//! | delivered in the last time-out | what it has not passed |
//! | was not heard yet, or begins anew with the others | all of it |
//! | was silent, stuck or out of step before | nothing |
//! | is sparse | what they waited for before, however long it was silent |
//!
//! After that it has one time-out. Its clock is not judged meanwhile, and has no part in the
//! quorum; what it claims may be as far behind as its thread was held up.

use super::clock::TIME_END;
use super::horizon::{Horizon, TIME_MAX};
use super::voter::{Position, Voter};

impl Horizon {
    /// It waits, and is not silent.
    pub fn mark_held(&mut self, index: usize, now_ns: u64) {
        self.count_time(now_ns);
        let active_ns = self.active_ns;
        let voter = &mut self.voters[index];
        (voter.taken_ns, voter.heard_ns) = (active_ns, Some(active_ns));
        (voter.advanced_ns, voter.in_step_ns) = (active_ns, active_ns);
        voter.held_ns = Some(active_ns);
        if self.promises.has(index) {
            self.promises.hold(index);
        }
    }

    /// The same of one that may have sent what has not been read, unless nothing of it was waited
    /// for before that.
    pub fn mark_unread(&mut self, index: usize, now_ns: u64) {
        if self.promises.has(index) {
            return self.mark_held(index, now_ns);
        }
        if self.is_given_up_on(index) {
            return;
        }
        let begins = !self.is_unread(&self.voters[index]);
        self.mark_held(index, now_ns);
        let active_ns = self.active_ns;
        let voter = &mut self.voters[index];
        if begins {
            // That a thread is held up is found after half a time-out at most.
            voter.unread_from_ns = now_ns.saturating_sub(self.timeout_ns / 2);
        }
        voter.unread_ns = Some(active_ns);
        self.unread_ns = Some(active_ns);
        if voter.position.is_none() {
            if let Some(claim) = &mut voter.claim {
                claim.since_ns = active_ns;
            }
            self.lows[index] = i64::MIN;
        }
    }

    /// Whether events waited for nothing of a port before its thread was held up.
    fn is_given_up_on(&self, index: usize) -> bool {
        let (active_ns, timeout_ns) = (self.active_ns, self.timeout_ns);
        let voter = &self.voters[index];
        if voter.sparse || !voter.enabled {
            return !voter.enabled;
        }
        if voter.position.is_some() {
            return !voter.is_awaited(active_ns, timeout_ns);
        }
        let since_ns = voter.heard_ns.or(self.first_ns);
        voter.out_of_step || since_ns.is_some_and(|ns| active_ns - ns >= timeout_ns)
    }

    /// Whether a port's thread is held up, or was in the last time-out.
    pub fn is_unread(&self, voter: &Voter) -> bool {
        voter.unread_ns.is_some_and(|ns| self.active_ns - ns < self.timeout_ns)
    }

    /// Whether a port's thread is held up in this duty cycle, in which it was said.
    pub fn is_unread_now(&self, index: usize) -> bool {
        self.voters[index].unread_ns == Some(self.active_ns)
    }

    /// Whether a source waits outside, or did in the last time-out.
    pub fn is_held(&self, voter: &Voter) -> bool {
        voter.held_ns.is_some_and(|ns| self.active_ns - ns < self.timeout_ns)
    }

    /// Whether events wait for a port that has no time yet: its thread is held up.
    pub fn may_begin(&self, voter: &Voter) -> bool {
        !voter.promises && voter.position.is_none() && !voter.out_of_step && self.is_unread(voter)
    }

    /// Whether the run has not started, and some port's thread is held up: its clock may say in
    /// which cycle the others are.
    pub fn is_start_unread(&self) -> bool {
        self.lead_ns.is_none() && self.unread_ns == Some(self.active_ns)
    }

    /// Time before the start does not pass meanwhile, and what is claimed is kept.
    pub fn delay_start(&mut self) {
        if self.is_start_unread() {
            let active_ns = self.active_ns;
            self.first_ns = self.first_ns.map(|_| active_ns);
            let claims = self.voters.iter_mut().filter_map(|voter| voter.claim.as_mut());
            claims.for_each(|claim| claim.since_ns = active_ns);
        }
    }

    /// The longest step of a source beyond the time that passed that is believed at once. Times of
    /// a front-end rise as they please, and what was not read came at any time meanwhile.
    #[inline]
    pub fn jump_of(&self, index: usize, now_ns: u64) -> i64 {
        if self.promises.has(index) {
            return TIME_END;
        }
        match self.unread_ns.is_some_and(|ns| self.active_ns - ns < self.timeout_ns) {
            true => self.jump_ns + self.unread_for_ns(index, now_ns),
            false => self.jump_ns,
        }
    }

    /// A port's newest fragment, which was not read when it came, came when its time was, as far
    /// as its thread was held up so long: what comes next follows that.
    #[inline]
    pub fn date_unread(&mut self, index: usize) {
        if self.unread_ns.is_some() {
            self.date(index);
        }
    }

    #[cold]
    fn date(&mut self, index: usize) {
        let (Some(position), Some(lead_ns)) = (self.voters[index].position, self.lead_ns) else {
            return;
        };
        let most_ns = self.unread_for_ns(index, position.at_ns);
        let behind_ns = lead_ns.saturating_sub(position.lead_ns()).clamp(0, most_ns);
        let at_ns = position.at_ns - behind_ns.unsigned_abs();
        self.voters[index].position = Some(Position { at_ns, ..position });
    }

    /// How long a port's thread has been held up.
    #[cold]
    pub fn unread_for_ns(&self, index: usize, now_ns: u64) -> i64 {
        let voter = &self.voters[index];
        let is_unread = self.is_unread(voter);
        match is_unread {
            true => now_ns.saturating_sub(voter.unread_from_ns).min(TIME_MAX / 2).cast_signed(),
            false => 0,
        }
    }
}
