//! How events close, in the order of their keys.
//!
//! The open event with the lowest key closes when
//!
//! - all sources have delivered it, and no key before it may still come;
//! - every sender that has a position is past it by more than `reorder_events`: *overtaken*;
//! - its time-out has passed, and the quorum was past it a time-out ago: *timed out*;
//! - waiting fragments hold more than `waiting_bytes_max`, and the quorum is past it: *overtaken*
//!   too;
//! - the run ends.
//!
//! Events do not wait for a sender that is silent or out of step, so that a dead one costs one
//! time-out and not one per event (docs/decisions/event-building.md). No event closes before the
//! quorum has passed it (`horizon.rs`).

use catchment_model::{CloseReason, Entry, EventFlags};

use crate::builder::Row;
use crate::window::{Slot, required_count};
use crate::{Builder, IncompletePolicy};

impl Builder {
    /// Closes the events that are due. Call it once per duty cycle, even without new fragments.
    pub fn poll(&mut self, now_ns: u64) {
        self.advance_time(now_ns);
        if self.finished {
            return;
        }
        self.horizon.begin_cycle(self.parked_count > 0);
        self.release();
        if self.parked_count > 0 {
            self.follow(false);
            self.release();
        }
        self.share();
    }

    /// Ends the run: closes every event. Then [`cut`](Self::cut) returns the rest.
    pub fn finish(&mut self, now_ns: u64) {
        self.advance_time(now_ns);
        if self.finished {
            return;
        }
        self.horizon.begin_cycle(self.parked_count > 0);
        self.release();
        // Ends: each iteration decides a claim or takes a parked fragment.
        while self.parked_count > 0 && (self.follow(true) | self.reach_ahead()) {
            self.close_below(u64::MAX, CloseReason::RunEnded);
        }
        self.close_below(u64::MAX, CloseReason::RunEnded);
        self.discard_parked();
        self.finished = true;
    }

    /// Closes the heads that need not wait.
    pub(crate) fn release(&mut self) {
        let opened_before_ns = self.now_ns.checked_sub(self.config.timeout_ns);
        // Both bounds scan all voters: computed only when needed, and once.
        let (mut overtaken_below, mut timed_out_below) = (None, None);
        while (self.rows.len() as u64) < self.window.events() {
            let Some((key, slot)) = self.window.head() else { break };
            if slot.weight == self.weight_all && key == self.window.base {
                self.close_head(key, slot, CloseReason::Complete);
                continue;
            }
            let overtaken_below = *overtaken_below.get_or_insert_with(|| self.overtaken_below());
            let reason = if slot.weight == self.weight_all && key <= overtaken_below {
                CloseReason::Complete
            } else if key < overtaken_below || self.is_squeezed_out(key) {
                CloseReason::Overtaken
            } else if opened_before_ns.is_some_and(|before| slot.first_ns <= before) {
                let below = *timed_out_below.get_or_insert_with(|| self.horizon.passed_long_ago());
                if key >= below {
                    break;
                }
                CloseReason::TimedOut
            } else {
                break;
            };
            self.close_head(key, slot, reason);
        }
        self.seen.cover(self.window.end());
    }

    // The keys that every sender with a position has passed, by more than it may reorder.
    fn overtaken_below(&self) -> u64 {
        self.horizon.passed_by_all().saturating_sub(self.config.reorder_events)
    }

    // Whether memory is short and the quorum has passed the event.
    fn is_squeezed_out(&mut self, key: u64) -> bool {
        self.status.waiting_bytes > self.config.waiting_bytes_max && key < self.horizon.passed()
    }

    /// Closes all open events below `end`.
    pub(crate) fn close_below(&mut self, end: u64, reason: CloseReason) {
        while let Some((key, slot)) = self.window.head().filter(|&(key, _)| key < end) {
            self.close_head(key, slot, reason);
        }
        self.seen.cover(self.window.end());
    }

    fn close_head(&mut self, key: u64, slot: Slot, reason: CloseReason) {
        let complete = required_count(slot.weight) == self.required_count;
        let wanted = self.wanted.has(key);
        let mut flags = EventFlags(u32::from(slot.flags));
        if !wanted {
            self.status.events_unwanted += 1;
        } else if complete {
            self.status.events_complete += 1;
        } else {
            flags = flags | EventFlags::INCOMPLETE | reason.flag();
            self.status.events_incomplete += 1;
            match reason {
                CloseReason::Complete => {}
                CloseReason::TimedOut => self.status.events_timed_out += 1,
                CloseReason::Overtaken => self.status.events_overtaken += 1,
                CloseReason::RunEnded => self.status.events_run_ended += 1,
            }
        }
        let incomplete = !complete && self.config.incomplete == IncompletePolicy::Drop;
        self.status.events_dropped += u64::from(wanted && incomplete);
        let dropped = match wanted {
            false => Some(Entry::FragmentsDiscardedPaused),
            true => incomplete.then_some(Entry::FragmentsDiscardedIncomplete),
        };
        // Fragments missing in unwanted events are not counted. Nor are keys before an event that
        // the quorum has not passed: they may never have been numbered.
        let numbered = slot.weight == self.weight_all || key < self.horizon.passed();
        let absent = key.saturating_sub(self.expected_key.unwrap_or(key).max(self.numbered_from));
        let absent = if wanted && numbered { absent } else { 0 };
        self.status.events_absent += absent;
        self.absent_uncounted += absent;
        self.expected_key = Some(key + 1);
        self.window.close_head();
        if self.rows.is_empty() {
            self.rows_since_ns = self.now_ns;
        }
        let Slot { first_ns, bytes, .. } = slot;
        self.rows.push_back(Row { key, first_ns, bytes, flags: flags.0, dropped });
        self.status.waiting_bytes -= bytes;
        self.status.released_bytes += bytes;
    }
}
