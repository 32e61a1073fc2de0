//! Front-ends, in the horizon: what they have passed, and how their clocks are.

use std::ops::Range;

use catchment_model::Entry;

use super::horizon::Horizon;
use super::promises::Step;
use super::{TimeMatcher, key_of};
use crate::edges::Promised;
use crate::number::KEY_END;
use crate::{Matched, SourceNote};

impl TimeMatcher {
    /// Takes what a front-end says of itself.
    pub(super) fn take_note(&mut self, index: usize, note: SourceNote, matched: &mut Matched) {
        let before_ns = self.horizon.marked_ns(index);
        let promises = &self.horizon.promises;
        // Before the note: at an end, nothing waits for the source any more.
        let passed = promises.is_awaited(index).then(|| promises.mark(index).unwrap_or(0));
        // A new session that has said nothing and gives no key has passed 0: it has no last key.
        self.horizon.note(index, note, self.now_ns);
        match note {
            SourceNote::LowWater(time) => self.edges.promise(index, time),
            // One that is expected in some events alone may begin and end between two of them.
            SourceNote::Begin if matched.expected_in[index] == 0 => {
                self.edges.begin(index, self.now_ns);
            }
            SourceNote::End(behind) if matched.expected_in[index] == 0 => {
                if let Some(passed) = passed {
                    self.edges.end(index, passed.max(behind));
                }
            }
            SourceNote::Session { .. } | SourceNote::Numbering => self.edges.number_anew(index),
            SourceNote::Excused(_) => {
                self.edges.drop_first(index);
                if let (Some(from_ns), Some(to_ns)) = (before_ns, self.horizon.marked_ns(index)) {
                    self.excuse(index, from_ns, to_ns, matched);
                }
            }
            SourceNote::ExpectedIn(groups) => {
                self.has_groups |= groups > 0;
                matched.expect_in(index, groups);
            }
            _ => {}
        }
    }

    /// Moves the run's edges to what its front-ends have said.
    pub(super) fn settle_edges(&mut self) {
        let Self { edges, queues, wanted, horizon, now_ns, .. } = self;
        let is_wanted = || queues.first_ns().is_some_and(|ns| wanted.has(key_of(ns)));
        edges.settle(horizon, is_wanted, *now_ns);
    }

    /// Why an event of that time, or a fragment in none, is not wanted, whose window is that; none
    /// if it is. Its key may be beyond its time, and beyond that from which on none is wanted.
    pub(super) fn unwanted(&self, ns: i64, (from_ns, to_ns): (i64, i64)) -> Option<Entry> {
        let is_outside = self.edges.is_outside(key_of(from_ns)..=key_of(to_ns));
        match self.wanted.has(key_of(ns)) {
            false => Some(Entry::FragmentsDiscardedPaused),
            true => is_outside.then_some(Entry::FragmentsOutsideRun),
        }
    }

    /// What a front-end lacks from one time to another is counted otherwise: it dropped that and
    /// said so, or it came late.
    pub(super) fn excuse(&mut self, index: usize, from_ns: i64, to_ns: i64, matched: &Matched) {
        if self.horizon.promises.is_anew(index) {
            return self.excused_anew.add(index, key_of(from_ns)..key_of(to_ns) + 1, 0);
        }
        let forgotten = matched.closed_key.saturating_sub(self.queues.window.reach_ns());
        self.excused.add(index, key_of(from_ns)..key_of(to_ns) + 1, forgotten);
    }

    /// The clocks of these sources are known, and so much is added to what they have said anew.
    pub(super) fn excuse_anew(&mut self, indices: impl Iterator<Item = usize>, shift_ns: i64) {
        for index in indices {
            for Range { start, end } in self.excused_anew.take(index) {
                let shifted = |key: u64| key.saturating_add_signed(shift_ns).min(KEY_END);
                self.excused.add(index, shifted(start)..shifted(end), 0);
            }
        }
    }

    /// Whether a front-end has passed the window of an event.
    pub(super) fn has_passed_window(&self, index: usize, key: u64) -> bool {
        let end = key + self.queues.window.longest_ns();
        let passed_ns = || self.horizon.passed_ns(index, self.now_ns).map_or(0, key_of);
        self.horizon.promises.has(index) && passed_ns() > end
    }

    /// The same when the event was cut, and it says nothing of what it lacks in it.
    pub(super) fn was_not_sent(&self, index: usize, key: u64) -> bool {
        let window = &self.queues.window;
        let (from, end) = (key.saturating_sub(window.reach_ns()), key + window.longest_ns());
        self.has_passed_window(index, key) && !self.excused.has_some_of(index, from..end + 1)
    }
}

impl Horizon {
    /// A front-end says something of itself.
    pub fn note(&mut self, index: usize, note: SourceNote, now_ns: u64) {
        if self.promises.note(index, note, now_ns) {
            self.voters[index].position = None;
        }
        if matches!(note, SourceNote::LowWater(_) | SourceNote::Excused(_))
            && let Some(ns) = self.marked_ns(index)
        {
            self.promises.note_lead(index, ns.saturating_sub_unsigned(now_ns));
        }
        self.lows[index] = self.promised_ns(index, now_ns);
    }

    /// Fragments of a front-end came: it is there, and not idle, if their times are known.
    pub fn hear(&mut self, index: usize) {
        if let Some(position) = self.voters[index].position {
            self.promises.hear(index);
            self.promises.note_lead(index, position.lead_ns());
        }
    }

    /// What a front-end has promised, as a time.
    pub fn marked_ns(&self, index: usize) -> Option<i64> {
        self.voters[index].scale.first(self.promises.mark(index)?).map(|stamp| stamp.ns)
    }

    /// What events wait for of a front-end: what it has passed; the end of time if it is not
    /// awaited.
    pub fn promised_ns(&self, index: usize, now_ns: u64) -> i64 {
        let voter = &self.voters[index];
        let is_stuck = voter.is_stuck(self.active_ns, self.timeout_ns);
        match voter.enabled && self.promises.is_awaited(index) && !is_stuck {
            true => self.passed_ns(index, now_ns).unwrap_or(i64::MIN),
            false => i64::MAX,
        }
    }

    /// The quorum's time, and `skew` beyond it: what a front-end says beyond it moves nothing yet.
    /// The end of time where there is none.
    pub fn bound_ns(&self, now_ns: u64) -> i64 {
        let time_ns = self.time_at(now_ns).filter(|_| self.promises.is_any());
        time_ns.map_or(i64::MAX, |ns| ns.saturating_add(self.skew_ns))
    }

    /// Ports are not awaited until they deliver: nobody has for long. Front-ends say themselves
    /// whether they are.
    pub fn rest(&mut self) {
        for (voter, low_ns) in self.voters.iter().zip(&mut self.lows) {
            if !voter.promises {
                *low_ns = i64::MAX;
            }
        }
    }

    /// Looks at the clock of a front-end.
    pub fn judge(&mut self, index: usize) {
        let Some(lead_ns) = self.lead_ns else { return };
        let voter = &mut self.voters[index];
        voter.fresh = false;
        match self.promises.judge(index, lead_ns, self.skew_ns) {
            Some(Step::Behind) => (voter.position, voter.out_of_step) = (None, true),
            Some(step) if voter.position.is_some() => voter.out_of_step = step == Step::Ahead,
            _ => {}
        }
    }

    /// Whether events wait for no port: nobody has delivered anything for long, and front-ends say
    /// themselves whether they are awaited.
    pub fn rests(&self, now_ns: u64) -> bool {
        self.promises.is_any() && self.is_quiet(now_ns)
    }
}

impl Promised for Horizon {
    fn key_of(&self, index: usize, number: u64) -> Option<u64> {
        let stamp = self.voters[index].scale.first(number).filter(|_| self.is_started())?;
        Some(key_of(stamp.ns))
    }

    fn is_awaited(&self, index: usize) -> bool {
        self.promises.is_awaited(index)
    }

    fn promised(&self) -> u64 {
        key_of(self.lows.iter().copied().min().unwrap_or(i64::MAX))
    }

    fn passed_key(&self, index: usize) -> Option<u64> {
        let voter = &self.voters[index];
        let own_ns = voter.position.map(|position| position.stamp.ns - voter.reorder_ns);
        own_ns.max(self.marked_ns(index)).map(key_of)
    }
}
