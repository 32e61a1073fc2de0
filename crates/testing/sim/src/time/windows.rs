//! Rule 2: no event is longer than the rule says, or has fewer openers.

use std::collections::BTreeSet;

use catchment_builder::{SourceRole, TimeConfig, WindowKind};
use catchment_model::{Entry, EventFlags};

use super::model::{Id, is_expected};
use super::oracle::{Check, Row};

impl Check<'_> {
    /// Events are no longer than the rule says.
    pub(super) fn windows(&self) -> Result<(), String> {
        for row in &self.rows {
            self.window(row).map_err(|why| format!("row {}: {why}", row.key))?;
        }
        Ok(())
    }

    fn window(&self, row: &Row) -> Result<(), String> {
        let fragments_max = self.rule.fragments_max;
        let is_incomplete = row.flags.contains(EventFlags::INCOMPLETE);
        if row.is_alone() {
            let is_right = row.members.len() == 1 && !is_incomplete;
            return if is_right { Ok(()) } else { Err("more than one, or incomplete".to_owned()) };
        }
        let named = self.named(row);
        let is_there = |source: usize| row.members.iter().any(|id| id.0 == source);
        let is_missing = |source: usize| {
            self.role(source) == SourceRole::Required
                && is_expected(self.expected_in[source], named)
                && !is_there(source)
        };
        if (0..self.honest.len()).any(is_missing) != is_incomplete {
            return Err(format!("incomplete is {is_incomplete}"));
        }
        let not_expected = |id: &&Id| !is_expected(self.expected_in[id.0], named);
        if let Some(id) = row.members.iter().find(not_expected) {
            return Err(format!("{id:?} was not expected"));
        }
        let mut counts = vec![0; self.honest.len()];
        row.members.iter().for_each(|id| counts[id.0] += 1);
        if let Some(source) = counts.iter().position(|&count| count > fragments_max) {
            return Err(format!("{} fragments of source {source}", counts[source]));
        }
        // Where a clock lied there are two readings, of which one has to be right.
        let results = self.times(row).into_iter().map(|times| self.spans_or_floods(&times, row));
        results.reduce(Result::or).unwrap_or(Ok(()))
    }

    /// Whether an event with these times is no longer than the rule says, and has enough openers.
    fn spans_or_floods(&self, times: &[(Id, i128)], row: &Row) -> Result<(), String> {
        let span = self.spans(times, None);
        // One that floods opens no event, and is not one of those that an event needs. That may be
        // any opener: beside a clock that lies, all fragments of an honest one are in no event.
        let floods = |one| self.spans(times, Some(one)).is_ok() && self.may_flood(one, row);
        match span.is_err() && (0..self.honest.len()).any(floods) {
            true => Ok(()),
            false => span,
        }
    }

    /// Whether an event with these times is no longer than the rule says, and has enough openers,
    /// if one floods.
    fn spans(&self, times: &[(Id, i128)], floods: Option<usize>) -> Result<(), String> {
        let &TimeConfig { window_ns, span_ns_max, before_ns, coincidence, .. } = &self.rule;
        let sources = 0..self.honest.len();
        let may_open = |source: usize| self.rule.opens(source) && Some(source) != floods;
        let coincidence = (coincidence as usize).min(sources.filter(|&one| may_open(one)).count());
        let opening = || times.iter().filter(|(id, _)| may_open(id.0));
        let mut openers: Vec<i128> = opening().map(|(_, ns)| *ns).collect();
        openers.sort_unstable();
        let Some(&anchor_ns) = openers.first() else { return Err("without an anchor".to_owned()) };
        let opened: BTreeSet<usize> = opening().map(|(id, _)| id.0).collect();
        if opened.len() < coincidence {
            return Err(format!("{} openers", opened.len()));
        }
        let [window_ns, span_ns, before_ns] = [window_ns, span_ns_max, before_ns].map(i128::from);
        let mut end_ns = anchor_ns + window_ns;
        if self.rule.kind == WindowKind::Gap {
            for &ns in openers.iter().filter(|&&ns| ns <= anchor_ns + span_ns) {
                if ns <= end_ns {
                    end_ns = end_ns.max(ns + window_ns);
                }
            }
            end_ns = end_ns.min(anchor_ns + span_ns);
        }
        // Where a clock went on in another cycle, a rounding.
        let in_window = anchor_ns - before_ns - 1..=end_ns + 1;
        match times.iter().find(|(_, ns)| !in_window.contains(ns)) {
            Some((id, ns)) => Err(format!("{id:?} is {} ns from the anchor", ns - anchor_ns)),
            None => Ok(()),
        }
    }

    /// Whether a source can be known to flood when an event is built: it is one of several openers,
    /// so many of its fragments were in no event until then, and fewer events followed the last of
    /// these than end it.
    fn may_flood(&self, source: usize, event: &Row) -> bool {
        let openers = (0..self.honest.len()).filter(|&one| self.rule.opens(one));
        if self.rule.coincidence < 2 || !self.rule.opens(source) || openers.count() < 2 {
            return false;
        }
        let ledger = &self.outcome.life.last.ledger.sources[source];
        let alone = [Entry::FragmentsUnmatched, Entry::FragmentsDiscardedUnmatched];
        if alone.iter().map(|&entry| ledger[entry]).sum::<u64>() < STRAYS_MIN as u64 {
            return false;
        }
        // What a clock says that lies is taken in another order.
        let counts = |lying: usize| lying == source || event.members.iter().any(|id| id.0 == lying);
        if self.outcome.plan.lies.iter().any(|lie| counts(lie.source)) {
            return true;
        }
        let at_ns = |&(source, index): &Id| self.outcome.sent[source][index].at_ns;
        let begin_ns = |row: &Row| row.members.iter().map(at_ns).min().unwrap_or(0);
        let end_ns = event.members.iter().map(at_ns).max().unwrap_or(0);
        let events = || self.rows.iter().filter(|row| !row.is_alone());
        let members: BTreeSet<Id> = events().flat_map(|row| row.members.iter().copied()).collect();
        let came = self.came(source).into_keys().map(|index| (source, index));
        let strays = came.filter(|id| !members.contains(id)).map(|id| at_ns(&id));
        let strays: Vec<u64> = strays.filter(|&ns| ns <= end_ns).collect();
        let Some(&last_ns) = strays.iter().max() else { return false };
        let behind = last_ns + 1..begin_ns(event);
        let since = events().filter(|row| behind.contains(&begin_ns(row))).count();
        strays.len() >= STRAYS_MIN && since < STRAYS_MIN / STRAYS_PER_EVENT
    }
}

/// With fewer strays no source floods, and each event makes up for as many.
const STRAYS_MIN: usize = 256;
const STRAYS_PER_EVENT: usize = 16;
