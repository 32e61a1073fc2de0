//! How frames that the only node, or each of several, does not take go to the spill, and what is
//! left there at the end.

use std::collections::VecDeque;
use std::sync::Arc;

use catchment_agent::Entropy;
use catchment_model::Entry;

use super::{StoreTarget, settle};
use crate::spill::{Backlog, Identity, NotSpilled, Spill, SpillConfig};
use crate::spill_counts::SpillCounts;
use crate::store_feed::{Held, Outgoing};
use crate::store_nodes::AWAY_NS;
use crate::target_ledger::TargetLedger;

/// How long a place that is there leaves frames in memory that can be spilled.
pub(crate) const STUCK_NS: u64 = 5_000_000_000;
/// Bytes that are spilled at once, before they are synced; those of a file if these are fewer.
const SPILL_BYTES: u64 = 16 << 20;
/// The end of the warning that a spill takes nothing.
pub(crate) const IN_MEMORY: &str = "; frames wait in memory";
/// How long after a spill had no room, or failed, it is tried again.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;

/// What a spill is made of when it is needed.
pub(crate) struct SpillParts {
    pub(crate) config: SpillConfig,
    pub(crate) identity: Identity,
    /// Of the stream's files, without what is a node's own.
    pub(crate) header: Vec<u8>,
    pub(crate) counts: Arc<SpillCounts>,
    pub(crate) entropy: Box<dyn Entropy>,
}

impl SpillParts {
    /// Spills the oldest of these frames: they are durable then, and counted. Before that the spill
    /// says from which number on what a folder shows may not be durable there, if it is so. Returns
    /// how many.
    ///
    /// # Errors
    /// As much, if there is no room for the next one or the disk refuses, which is warned of.
    pub(crate) fn spill(
        &mut self,
        backlog: &mut Option<Backlog>,
        held: &VecDeque<Held>,
        doubt: Option<u64>,
        ledger: &mut TargetLedger,
    ) -> Result<usize, usize> {
        let whole = held.iter().take_while(|held| held.frame.ledger.is_some()).count();
        let bytes_max = self.config.file_bytes().min(SPILL_BYTES);
        let (mut count, mut bytes, mut is_refused) = (0, 0, false);
        while count < whole && bytes < bytes_max {
            match self.put(backlog, &held[count].frame) {
                Ok(()) => {
                    bytes += held[count].frame.bytes();
                    count += 1;
                }
                Err(not_spilled) => {
                    ledger.warn_once(match not_spilled {
                        NotSpilled::Full => format!("the spill is full{IN_MEMORY}"),
                        NotSpilled::Failed(error) => {
                            // What was not synced is written again.
                            count = 0;
                            format!("cannot spill: {error}{IN_MEMORY}")
                        }
                    });
                    is_refused = true;
                    break;
                }
            }
        }
        if let Some(backlog) = backlog.as_mut().filter(|_| count > 0) {
            let spill = &mut backlog.spill;
            let said = doubt.map_or(Ok(()), |from| spill.set_doubt(from));
            let frames = held.iter().take(count).map(|one| &one.frame);
            if let Err(error) = said.and_then(|()| spill.sync(frames)) {
                let text = format!("cannot sync the spill: {error}{IN_MEMORY}");
                ledger.warn_once(text);
                self.counts.set_refusing(true);
                return Err(0);
            }
            let fragments = settle(ledger, held.iter().take(count));
            backlog.spill.count_fragments(&fragments);
            ledger.moved(Entry::FragmentsSpilled, &fragments);
        }
        if count > 0 || is_refused {
            if !is_refused && self.counts.is_refusing() {
                ledger.end_warnings(IN_MEMORY);
            }
            self.counts.set_refusing(is_refused);
        }
        if is_refused { Err(count) } else { Ok(count) }
    }

    fn put(&mut self, backlog: &mut Option<Backlog>, frame: &Outgoing) -> Result<(), NotSpilled> {
        let Self { config, identity, header, counts, entropy } = self;
        let backlog = match backlog {
            Some(backlog) => backlog,
            none => {
                let spill = Spill::create(config, identity.clone(), header, counts)?;
                none.insert(Backlog::new(spill))
            }
        };
        backlog.spill.put(frame, config, &mut **entropy)
    }
}

impl StoreTarget {
    /// Spills what the node does not take now. Returns how many frames.
    pub(super) fn spill_waiting(&mut self) -> usize {
        if self.spill.is_none() || self.refusal.is_some() || self.now_ns < self.spill_at_ns {
            return 0;
        }
        if self.nodes.are_several() {
            return self.spill_withdrawn();
        }
        let is_open = self.is_open();
        let is_behind = !is_open || self.sends_backlog || self.close.is_some();
        let patience_ns = if is_behind { AWAY_NS } else { STUCK_NS };
        let is_late = self.now_ns.saturating_sub(self.waits_ns) >= patience_ns;
        // At the end nothing waits for a node that is not there.
        let is_ending = self.close.is_some() || self.durable_ns.is_some();
        let is_at_end = is_ending && (!is_open || self.sends_backlog);
        match is_late || is_at_end || self.input.is_half_full() {
            true => self.spill_oldest(),
            false => 0,
        }
    }

    /// Spills what none of several nodes takes, and what waits behind it. Returns how many frames.
    fn spill_withdrawn(&mut self) -> usize {
        let now_ns = self.now_ns;
        let is_late = |patience_ns| now_ns.saturating_sub(self.waits_ns) >= patience_ns;
        let is_ending = self.close.is_some() || self.durable_ns.is_some();
        if !self.nodes.is_waiting() {
            let mut all = self.nodes.all.iter();
            let are_out = all
                .all(|node| node.is_left_out(now_ns) || is_ending && !node.link.session.is_open());
            // One whose columns still come waits for its encoder.
            let has_held = self.nodes.held().any(|held| held.frame.ledger.is_some());
            if !has_held || !are_out && !is_late(STUCK_NS) {
                return 0;
            }
            self.nodes.withdraw(now_ns);
        }
        match is_late(AWAY_NS) || is_ending || self.input.is_half_full() {
            true => self.spill_oldest(),
            false => 0,
        }
    }

    /// Deals what is spilled to several nodes, and then what waits behind it. Files of which they
    /// have everything are removed. Returns how many spilled frames were dealt.
    pub(super) fn deal_spilled(&mut self) -> usize {
        let ledger = &self.ledger;
        let mut dealt = 0;
        if let Some(backlog) = self.backlog.as_mut().filter(|one| !one.spill.is_empty()) {
            dealt = backlog.deal(&mut self.nodes, &mut |text| ledger.warn_once(text));
            let below = backlog.dealt_below(&self.nodes);
            let warnings = backlog.spill.remove_below(below, self.now_ns);
            warnings.into_iter().for_each(|text| ledger.warn_once(text));
            self.ledger.moved(Entry::FragmentsForwarded, &backlog.spill.take_forwarded());
            self.ledger.spill_removed(&backlog.spill.take_removed());
        }
        let is_dealt = self.backlog.as_ref().is_none_or(Backlog::is_read);
        if self.nodes.is_waiting() && is_dealt && self.nodes.may_take() {
            self.nodes.deal_waiting();
        }
        dealt
    }

    /// Spills the oldest frames that are held. Returns how many.
    pub(super) fn spill_oldest(&mut self) -> usize {
        let Some(parts) = &mut self.spill else { return 0 };
        let spilled =
            parts.spill(&mut self.backlog, self.nodes.spillable(), None, &mut self.ledger);
        let count = spilled.unwrap_or_else(|count| {
            self.spill_at_ns = self.now_ns + RETRY_NS;
            count
        });
        if count > 0 {
            self.durable_ns = self.durable_ns.map(|_| self.now_ns);
            self.leave_to_spill(count);
            self.waits_ns = self.now_ns;
        }
        count
    }

    /// The oldest frames that are held are in the spill now, from which those go to the node that
    /// are not sent yet.
    fn leave_to_spill(&mut self, count: usize) {
        if self.nodes.are_several() {
            for _ in 0..count {
                let Some(mut held) = self.nodes.pop_waiting() else { return };
                self.is_dropped(&mut held.frame);
            }
            return;
        }
        let is_held_sent = self.is_open() && !self.sends_backlog;
        let node = &mut self.nodes.all[0];
        let feed = &mut node.link.feed;
        let sent = if is_held_sent { feed.sent_frames() } else { 0 };
        if !is_held_sent || count <= sent {
            if is_held_sent {
                feed.released(count);
            }
            for _ in 0..count {
                self.drop_oldest(0, false);
            }
            return;
        }
        let next = node.held[sent].frame.info.sequence;
        let is_within = feed.is_within_frame();
        feed.released(sent);
        let mut within = None;
        for index in 0..count {
            let frame = self.drop_oldest(0, false);
            if index == sent && is_within {
                within = frame;
            }
        }
        let next = within.as_ref().map_or(next, Outgoing::end);
        if let Some(backlog) = &mut self.backlog {
            backlog.go_on_at(next, within);
        }
        self.sends_backlog = true;
    }

    /// Whether all that the node has not got is in the spill, from which it is forwarded when the
    /// target has ended.
    pub(super) fn is_spilled_whole(&mut self) -> bool {
        let since_ns = self.durable_ns.unwrap_or(self.now_ns);
        let is_late = self.now_ns.saturating_sub(since_ns) >= AWAY_NS;
        let is_read = self.backlog.as_ref().is_none_or(Backlog::is_read);
        let is_behind = if self.nodes.are_several() { !is_read } else { self.sends_backlog };
        let is_waiting = is_behind || !self.is_open() || is_late;
        let (Some(end), Some(backlog)) = (self.close, &mut self.backlog) else { return false };
        let is_held = self.nodes.held().next().is_some();
        if is_held || backlog.spill.is_empty() || !is_waiting {
            return false;
        }
        match backlog.spill.set_run_end(end, self.ledger.moved_at_end()) {
            Ok(()) => true,
            Err(error) => {
                // The node ends the run's files as those of a recorder that has died.
                self.ledger
                    .warn_once(format!("the spill does not say that the run ended: {error}"));
                true
            }
        }
    }

    /// Leaves what is spilled to the forwarder, or removes the spill if nothing is.
    pub(super) fn end_spill(&mut self) {
        let Some(backlog) = self.backlog.take() else { return };
        if !backlog.spill.is_empty() {
            let below = match self.nodes.are_several() {
                true => backlog.dealt_below(&self.nodes),
                false => self.durable,
            };
            return self.ledger.left_in_spill(backlog.spill.hand_over(below));
        }
        backlog.finish(&self.ledger);
    }
}
