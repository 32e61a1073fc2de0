//! The lower bound: every fragment that arrived in time is in a file, unless memory or the disk
//! refused it, or an event in the run exempts it.
//!
//! A fragment *must be recorded* if it was whole after the beginning of the run and within half a
//! time-out both of the first fragment of its event or of a later one, and of its own first part;
//! and if, within two time-outs of that,
//!
//! - no agent was stopped or flooded, the run neither paused nor ended, and no numbers restarted;
//! - its source had delivered, less than half a time-out before the event's first fragment, a
//!   number no further away than events wait for; and more than half of the sources were present;
//! - the data that arrived within a time-out were less than a quarter of what may wait;
//! - and, if incomplete events are dropped, all of this holds for all required sources.
//!
//! No more of a source's required fragments may be missing than its ledger attributes to memory or
//! the disk; and these refuse nothing unless memory was spent, or the disk failed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use catchment_builder::{IncompletePolicy, SourceRole};
use catchment_model::{Entry, SourceLedger};

use crate::arrivals::Arrival;
use crate::detector::SentFragment;
use crate::fault::{Fault, Faults};
use crate::plan::{S, SourcePlan};
use crate::recorded::Recorded;
use crate::recorder::Life;
use crate::sessions::FrontEnd;
use crate::world::Outcome;

/// Checks that the required fragments of a life that was not cut short are recorded. Returns how
/// many are required.
///
/// # Errors
/// The first fragment that is missing, or a refusal without a reason.
pub(crate) fn check(outcome: &Outcome, life: &Life, recorded: &Recorded) -> Result<u64, String> {
    refusals(outcome, life)?;
    let plan = &outcome.plan;
    let forged = |(index, source): (usize, &SourcePlan)| {
        !source.in_parts && !outcome.sent.sources[index].corrupted.is_empty()
    };
    // Numbers that no source sent, or that do not match the others', may take others' places.
    if plan.case.faults.has(Fault::Misnumber) || plan.sources.iter().enumerate().any(forged) {
        return Ok(0);
    }
    let mut required = 0;
    let bound = Bound::new(outcome, life);
    let drops = plan.config.build.incomplete == IncompletePolicy::Drop;
    let selected = plan.selected(life.target);
    if drops && !(0..plan.sources.len()).all(|source| selected.sources[source]) {
        // Nothing here says what was refused of the other sources of an event.
        return Ok(0);
    }
    let of_sources = life.arrivals.iter().enumerate().take(plan.sources.len());
    for (source, arrivals) in of_sources.filter(|(source, _)| selected.sources[*source]) {
        // If fragments of one source are refused, the others' events remain incomplete.
        let of_refused = match drops {
            true => &life.last.ledger.sources[..plan.sources.len()],
            false => &life.last.ledger.sources[source..=source],
        };
        // A connection that waits is behind the other sources when the run ends, and the run ends
        // before the events that it has not delivered.
        let waits = plan.sources.iter().any(SourcePlan::waits);
        let refused = |one: &SourceLedger| {
            one[Entry::FragmentsDiscardedMemory]
                + one[Entry::FragmentsDiscardedDisk]
                + one[Entry::FragmentsNotTaken]
                + one[Entry::FragmentsOutsideRun]
                + if waits { one[Entry::FragmentsDiscardedPaused] } else { 0 }
        };
        let refused: u64 = of_refused.iter().map(refused).sum();
        let refused = refused + behind_end(outcome, (!drops).then_some(source));
        let must = |trigger: &u64| match drops {
            true => bound.must_have_event(*trigger) && bound.must_have(source, *trigger),
            false => bound.must_have(source, *trigger),
        };
        let sent = &outcome.sent.sources[source].fragments;
        let of_source = arrivals.whole.iter().map(|&(_, index)| sent[index].trigger).filter(must);
        let mut missing: Vec<u64> = of_source.collect();
        required += missing.len() as u64;
        missing.retain(|trigger| !recorded.fragments[source].contains_key(trigger));
        if missing.len() as u64 > refused {
            let (count, first) = (missing.len(), missing[0]);
            return Err(format!(
                "s{source}: {count} fragments that arrived in time are in no file, the first of \
                 event {first}; {refused} were refused"
            ));
        }
    }
    Ok(required)
}

/// Fragments of a source, or of all, that front-ends have made behind their mark that the run ends:
/// they are of none.
fn behind_end(outcome: &Outcome, source: Option<usize>) -> u64 {
    let sessions = outcome.front_ends.iter().flat_map(|front_end| &front_end.sessions);
    let logs = sessions.flat_map(|session| &session.logs);
    let own = logs.filter(|log| source.is_none_or(|source| log.source == source));
    own.map(|log| log.within(log.ended_at(0), u64::MAX).map(|(count, _)| count).sum::<u64>()).sum()
}

/// Memory and the disk refuse nothing without a reason.
fn refusals(outcome: &Outcome, life: &Life) -> Result<(), String> {
    let total = life.last.ledger.total();
    // A lack of space, or a slow next file, is not a failure of the disk.
    let is_short =
        [Fault::Full, Fault::Slow].into_iter().any(|one| outcome.plan.case.faults.has(one));
    if life.disk.is_empty() && !is_short && total[Entry::FragmentsDiscardedDisk] > 0 {
        let count = total[Entry::FragmentsDiscardedDisk];
        return Err(format!("{count} fragments were discarded, and the disk did nothing wrong"));
    }
    let unconfirmed = [Entry::FragmentsUnconfirmed, Entry::FragmentCountsUnconfirmed];
    let unconfirmed: u64 = unconfirmed.into_iter().map(|entry| total[entry]).sum();
    if life.disk.is_empty() && unconfirmed > 0 {
        return Err(format!(
            "{unconfirmed} fragments are in doubt, and the disk did nothing wrong"
        ));
    }
    let longest = crate::plan::PART_FRAGMENT_BYTES_MAX;
    // What is set aside for front-ends whose sources share connections is for nobody else.
    let shares = outcome.plan.config.access.skew_bytes > 0
        && outcome.front_ends.iter().any(FrontEnd::shares_connections);
    // One of more than eight sources may hold less than everything: eight times its equal share
    // (seed 30131667117015690: one of ten filled its 80 % while the disk hung).
    let was_spent = |name: &str, sources: usize| {
        let fill = life.last.fills.iter().find(|fill| fill.name == name);
        fill.is_some_and(|fill| {
            let set_aside = if shares && name == "segments" { fill.capacity / 4 } else { 0 };
            let share = fill.capacity * 8 / sources.max(8) as u64;
            fill.highest + longest >= share.min(fill.capacity - set_aside)
        })
    };
    // What a connection waits with when the run ends is discarded, too: it waits for its share.
    let sources = life.last.ledger.sources.iter().enumerate();
    let in_stream =
        |source: usize| outcome.plan.sources.get(source).is_some_and(|source| source.in_stream);
    let refused: u64 = sources
        .filter(|(source, _)| !in_stream(*source))
        .map(|(_, ledger)| ledger[Entry::FragmentsDiscardedMemory])
        .sum();
    let (sources, links) = (outcome.plan.sources.len(), outcome.plan.links.len());
    let of_links = links > 0 && was_spent("channel segments", links);
    if refused > 0 && !was_spent("segments", sources) && !of_links {
        return Err(format!("{refused} fragments were discarded, and memory was not spent"));
    }
    Ok(())
}

/// The required fragments of a life.
struct Bound<'a> {
    outcome: &'a Outcome,
    life: &'a Life,
    timeout_ns: u64,
    /// When the first fragment of each event, or of a later event, was whole: the time at which the
    /// recorder begins to wait for that event.
    first_ns: BTreeMap<u64, u64>,
    /// By source: when fragments became whole, and the highest event by then.
    reached: Vec<Vec<(u64, u64)>>,
    /// When first parts arrived, and the total bytes of fragments by then.
    bytes: Vec<(u64, u64)>,
    /// The most that may wait.
    bytes_max: u64,
    /// Times in which no fragment is required.
    disturbed: Vec<(u64, u64)>,
}

impl<'a> Bound<'a> {
    fn new(outcome: &'a Outcome, life: &'a Life) -> Self {
        let plan = &outcome.plan;
        let timeout_ns = plan.config.build.timeout_ns;
        let mut first_ns = BTreeMap::new();
        let (mut reached, mut bytes) = (Vec::new(), Vec::new());
        for (arrivals, sent) in life.arrivals.iter().zip(&outcome.sent.sources) {
            let mut highest = 0;
            let of_source = arrivals.whole.iter().map(|&(ns, index)| {
                let fragment = &sent.fragments[index];
                let first = first_ns.entry(fragment.trigger).or_insert(ns);
                *first = ns.min(*first);
                highest = fragment.trigger.max(highest);
                (ns, highest)
            });
            reached.push(of_source.collect());
            let begun = |(index, arrival): (usize, &Arrival)| {
                (arrival.first_ns, sent.fragments[index].bytes)
            };
            bytes.extend(arrivals.all().map(begun));
        }
        let mut earliest = u64::MAX;
        for first in first_ns.values_mut().rev() {
            earliest = earliest.min(*first);
            *first = earliest;
        }
        bytes.sort_unstable();
        let mut sum = 0;
        for (_, bytes) in &mut bytes {
            sum += *bytes;
            *bytes = sum;
        }
        let segments = life.last.fills.iter().find(|fill| fill.name == "segments");
        // A source that is ahead of the others gets a quarter of the quarter that may wait.
        let bytes_max = segments.map_or(0, |fill| fill.capacity) / 4 / 4;
        let disturbed = disturbed(life, &outcome.renumbered_ns);
        Self { outcome, life, timeout_ns, first_ns, reached, bytes, bytes_max, disturbed }
    }

    /// Whether a source's fragment of an event must be recorded, if incomplete events are recorded.
    fn must_have(&self, source: usize, trigger: u64) -> bool {
        // A fragment in a connection's buffer may stand behind one for which there is no room.
        let plan = &self.outcome.plan;
        if plan.sources[source].waits() && plan.case.faults != Faults::NONE {
            return false;
        }
        // Events wait for what has a front-end, whether or not they expect it.
        if plan.sources[source].log.is_none() && !plan.expects(source, trigger) {
            return false;
        }
        let Some((sent, arrival, whole_ns)) = self.arrival(source, trigger) else { return false };
        let Some(&first_ns) = self.first_ns.get(&trigger) else { return false };
        let half_ns = self.timeout_ns / 2;
        let begun_ns = arrival.first_ns.min(first_ns);
        let waits = begun_ns.saturating_sub(self.timeout_ns + SLACK_NS)..=whole_ns + SLACK_NS;
        let around = begun_ns.saturating_sub(2 * self.timeout_ns)..=whole_ns + 2 * self.timeout_ns;
        whole_ns - begun_ns <= half_ns
            && begun_ns > self.life.began_ns + BEGINS_WITHIN_NS
            && self.life.stopped_ns.is_none_or(|stop| whole_ns < stop)
            && !self.disturbed.iter().any(|(from, until)| {
                around.contains(from) || (from..=until).contains(&around.start())
            })
            && self.is_in_step(source, sent.trigger, (begun_ns, whole_ns))
            && self.bytes_between(&waits) <= self.bytes_max
            && self.is_put_together(source, arrival.first_ns, whole_ns)
            && self.has_chunks(source, (begun_ns, whole_ns))
    }

    /// Whether so few fragments of a front-end came in parts that its connections were not held:
    /// each takes a chunk, however short it is, of which a source has few.
    fn has_chunks(&self, source: usize, (begun_ns, whole_ns): (u64, u64)) -> bool {
        let plan = &self.outcome.plan;
        let Some(log) = plan.sources[source].log else { return true };
        let sender = &plan.senders[log.sender];
        // They are free when their frame is written.
        let held_ns = 2 * self.timeout_ns + plan.config.frame.time_ns + S;
        let (from_ns, until_ns) = (begun_ns.saturating_sub(held_ns), whole_ns + SLACK_NS);
        let count =
            |&source: &usize| self.life.arrivals[source].in_parts_between(from_ns, until_ns);
        let is_short = plan.sources[source].payload_bytes_max <= CHUNK_BYTES_MIN;
        !sender.is_naive
            || is_short && sender.sources.iter().map(count).all(|one| one <= CHAINS_MAX)
    }

    /// Whether no more of a source's fragments were in assembly at that time than allowed.
    fn is_put_together(&self, source: usize, from_ns: u64, until_ns: u64) -> bool {
        !self.outcome.plan.sources[source].in_parts
            || self.life.arrivals[source].touched_between(from_ns, until_ns) <= OPEN_MAX
    }

    /// Whether an event must be recorded that needs all required sources.
    fn must_have_event(&self, trigger: u64) -> bool {
        let mut sources = self.outcome.plan.sources.iter().enumerate();
        sources.all(|(index, source)| {
            source.role != SourceRole::Required
                || !self.outcome.plan.expects(index, trigger)
                || self.must_have(index, trigger)
        })
    }

    fn arrival(&self, source: usize, trigger: u64) -> Option<(&SentFragment, &Arrival, u64)> {
        let sent = &self.outcome.sent.sources[source];
        let index = sent.index_of(trigger)?;
        let arrival = self.life.arrivals[source].of(index)?;
        Some((&sent.fragments[index], arrival, arrival.whole_ns?))
    }

    /// Whether a source delivered just before, near an event that most sources have reached.
    fn is_in_step(&self, source: usize, trigger: u64, (begun_ns, whole_ns): (u64, u64)) -> bool {
        let build = &self.outcome.plan.config.build;
        let last = |source: usize| self.last_before(source, whole_ns);
        // While it is silent, events close without it.
        let was_there = self.last_before(source, begun_ns).is_some_and(|(ns, reached)| {
            ns + self.timeout_ns / 2 >= begun_ns && reached.abs_diff(trigger) < build.reorder_events
        });
        let count = self.outcome.plan.sources.len();
        // Of events further ahead nobody says at a stop that they have begun.
        let near = (0..count).filter(|&source| {
            last(source).is_some_and(|(_, reached)| reached + build.reorder_events >= trigger)
        });
        was_there && 2 * near.count() > count
    }

    /// When a source last delivered before that time, and the highest event that it had delivered.
    fn last_before(&self, source: usize, ns: u64) -> Option<(u64, u64)> {
        let reached = &self.reached[source];
        reached[..reached.partition_point(|(at, _)| *at < ns)].last().copied()
    }

    fn bytes_between(&self, range: &RangeInclusive<u64>) -> u64 {
        let until = |end: u64| match self.bytes.partition_point(|(at, _)| *at < end) {
            0 => 0,
            count => self.bytes[count - 1].1,
        };
        until(range.end() + 1) - until(*range.start())
    }
}

/// Times of disturbances of the run or its agents.
fn disturbed(life: &Life, renumbered_ns: &[u64]) -> Vec<(u64, u64)> {
    let mut all = life.stalls.clone();
    all.extend(renumbered_ns.iter().map(|&ns| (ns, ns)));
    let mut paused_ns = None;
    for &(ns, is_paused) in &life.pauses {
        match (is_paused, paused_ns) {
            (true, None) => paused_ns = Some(ns),
            (false, Some(from)) => {
                all.push((from, ns + BEGINS_WITHIN_NS));
                paused_ns = None;
            }
            _ => {}
        }
    }
    all.extend(paused_ns.map(|from| (from, u64::MAX)));
    all
}

/// Bytes of the smallest chunk, and fragments in parts for which each source has chunks.
const CHUNK_BYTES_MIN: u64 = 64 << 10;
const CHAINS_MAX: usize = 2;
/// The most fragments of a source in assembly at a time.
const OPEN_MAX: usize = 15;
/// How long agents take to process arrivals.
const SLACK_NS: u64 = 100_000_000;
/// When a run that is to begin, or resume, between two events has done so.
const BEGINS_WITHIN_NS: u64 = 300_000_000;
