//! Rule 7: what became of what front-ends had, dropped, and lost.

use catchment_builder::{SourceRole, WindowKind};
use catchment_model::Entry;

use super::front_ends::{self, TimeLog};
use super::model::is_expected;
use super::oracle::Check;
use crate::fault::Fault;
use crate::logs::ItemKind;
use crate::silences;

impl Check<'_> {
    /// One that is started again, or cut off, is back before events close without it: nothing that
    /// it has then is late.
    pub(super) fn comes_back(&self) -> Result<(), String> {
        let plan = self.outcome.plan;
        if !self.liars().is_empty() {
            return Ok(());
        }
        for source in 0..self.honest.len() {
            let Some(log) = self.log(source) else { continue };
            let suffered = front_ends::suffered(plan, log);
            let front_end = &self.outcome.front_ends[log.place.sender];
            let is_back = suffered.iter().all(|one| BACK_AT_ONCE.contains(&one))
                || suffered.iter().all(|one| SILENT.contains(&one))
                    && silences::are_short(front_end, &self.outcome.life);
            let is_waited = self.role(source) == SourceRole::Required;
            let is_heard = log.marks && log.idle.is_none();
            let ledger = &self.outcome.life.last.ledger.sources[source];
            let late = ledger[Entry::FragmentsLate];
            if is_back && is_waited && is_heard && late > 0 {
                return Err(format!("source {source}: {late} late of one that is waited for"));
            }
        }
        Ok(())
    }

    /// What a front-end dropped is counted by its word, and what events lack of it beside that as
    /// not sent, as far as it had passed their windows.
    pub(super) fn absences(&self, source: usize) -> Result<(), String> {
        let outcome = self.outcome;
        let Some(TimeLog { place, marks, idle, .. }) = self.log(source) else { return Ok(()) };
        let front_end = &outcome.front_ends[place.sender];
        let logs = front_end.sessions.iter().map(|session| &session.logs[place.log as usize]);
        let items = logs.flat_map(|log| &log.items);
        let dropped = items.filter(|item| item.kind == ItemKind::Abandoned);
        let dropped: u64 = dropped.map(|item| item.count).sum();
        let ledger = &outcome.life.last.ledger.sources[source];
        let is = ledger[Entry::FragmentsAbandoned];
        if is != dropped {
            return Err(format!("source {source}: {is} abandoned, its sender dropped {dropped}"));
        }
        if self.role(source) != SourceRole::Required {
            return Ok(());
        }
        let offset_ns = outcome.plan.sources[source].error_ns;
        let own = front_end.abandoned.iter().filter(|(log, _)| *log == place.log as usize);
        let mut dropped: Vec<i128> =
            own.map(|(_, key)| i128::from(*key) - i128::from(offset_ns)).collect();
        dropped.sort_unstable();
        let mut made: Vec<i128> =
            outcome.made[source].iter().map(|&index| self.ns((source, index))).collect();
        made.sort_unstable();
        let span_ns = match self.rule.kind {
            WindowKind::First => self.rule.window_ns,
            WindowKind::Gap => self.rule.span_ns_max,
        };
        let reach_ns = i128::from(span_ns.max(self.rule.before_ns));
        let says_fragments = idle.is_none() && (!marks || self.rule.kind == WindowKind::First);
        let (mut least, mut most) = (0, 0);
        for row in self.rows.iter().filter(|row| !row.is_alone()) {
            let is_there = row.members.iter().any(|id| id.0 == source);
            if is_there || !is_expected(self.expected_in[source], self.named(row)) {
                continue;
            }
            let key = i128::from(row.key);
            let (low_ns, high_ns) = (key - reach_ns, key + i128::from(span_ns));
            let has = |times: &[i128], low_ns: i128, high_ns: i128| {
                let next = times.partition_point(|&ns| ns < low_ns);
                times.get(next).is_some_and(|&ns| ns <= high_ns)
            };
            most += u64::from(!has(&dropped, low_ns, high_ns));
            // Ranges that it dropped may be joined, up to the fragments around them; and by what it
            // says within the longest span it may pass an event's end and not yet that.
            let next = made.partition_point(|&ns| ns < low_ns);
            let before_ns = next.checked_sub(1).map_or(i128::MIN, |at| made[at]);
            let after_ns = made.get(next).copied().filter(|&ns| ns > high_ns);
            let is_sure = after_ns.is_some_and(|after_ns| !has(&dropped, before_ns, after_ns));
            least += u64::from(is_sure && says_fragments);
        }
        match ledger[Entry::FragmentsNotSent] {
            is if (least..=most).contains(&is) => Ok(()),
            is => Err(format!("source {source}: {is} not sent, expected {least} to {most}")),
        }
    }
}

/// What befalls a front-end that is back within the time for which a required one is waited for.
const BACK_AT_ONCE: [Fault; 3] = [Fault::SenderKill, Fault::Cut, Fault::SingleBytes];
/// What only silences, and may be as short.
const SILENT: [Fault; 2] = [Fault::HalfOpen, Fault::SingleBytes];
