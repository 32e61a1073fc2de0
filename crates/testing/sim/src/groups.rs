//! Who takes part in an event, by number: key messages of a *reference source* name groups
//! (docs/spec/event-link.md, section 7), some sources are sparse, and some say that they are idle
//! for a while. Front-ends say of each other event that they have nothing of it.
//!
//! What files say of a source and an event (there, absent, not expected) is compared with what was
//! sent: who lacks a fragment and was expected is a loss, and nobody else is.

use std::collections::BTreeSet;
use std::ops::Range;

use catchment_builder::SourceRole;
use catchment_fixtures::Random;
use catchment_model::Entry;

use crate::case::Case;
use crate::detector::SentFragment;
use crate::fault::{Fault, Faults};
use crate::plan::{MS, Plan, SourcePlan};
use crate::recorder::Life;
use crate::walk::WalkedFile;
use crate::world::Outcome;

/// In which events a source has a fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Whether its fragments name the groups of their events.
    pub is_reference: bool,
    /// The groups in whose events it is expected, one in each bit; 0: in all.
    pub groups: u64,
    /// Whether its front-end says so; otherwise the configuration does.
    pub is_said: bool,
    /// Events of which it has nothing, and during which it is idle.
    pub idle: Range<u64>,
    /// For so many of these events before the last it says that it is not idle any more.
    active_before: u64,
}

impl Part {
    /// The groups that its front-end says.
    pub(crate) fn said(&self) -> u64 {
        if self.is_said { self.groups } else { 0 }
    }

    /// The groups that the configuration says.
    pub(crate) fn configured(&self) -> u64 {
        if self.is_said { 0 } else { self.groups }
    }

    /// Whether it says that it is idle when it has nothing of an event; none if it says nothing.
    pub(crate) fn says(&self, trigger: u64) -> Option<bool> {
        let Range { start, end } = self.idle;
        match trigger {
            _ if !self.idle.contains(&trigger) => Some(false),
            _ if trigger == start => Some(true),
            _ => (trigger + self.active_before >= end).then_some(false),
        }
    }
}

/// In every third run one of the sources of front-ends names groups, and others are in some of
/// these, or sparse; in every fourth run some are idle for a while. Not beside sources that begin
/// other numbers alone: their events are mixed.
pub(crate) fn draw(case: &Case, sources: &mut [SourcePlan], (events, interval_ns): (u64, u64)) {
    let mut chance = case.chance("groups");
    let (has_groups, has_idle) = (chance.below(3) == 0, chance.below(4) == 0);
    if case.faults.has(Fault::Misnumber) {
        return;
    }
    let may_name = |one: &SourcePlan| one.log.is_some() && one.role == SourceRole::Required;
    let has_groups = has_groups && sources.len() > 1;
    let reference = sources.iter().position(may_name).filter(|_| has_groups);
    // Longer than it takes to be told, and soon enough that nobody gives it up.
    let active_before = 1 + 50 * MS / interval_ns;
    for (index, source) in sources.iter_mut().enumerate() {
        let mut chance = case.chance(&format!("part of source {index}"));
        let (is_sparse, has_own, is_said) =
            (chance.below(5) == 0, chance.below(4) > 0, chance.below(2) == 0);
        let groups = 1 + chance.below((1 << GROUPS) - 1);
        let (is_idle, from) = (chance.below(3) == 0, chance.below(events));
        let count = active_before + 2 + chance.below(events / 3 + 1);
        let is_log = source.log.is_some();
        // A packet of several events comes when these are there.
        let is_alone = is_log || source.in_parts || source.batch == 1;
        let part = &mut source.part;
        part.is_reference = reference == Some(index);
        if part.is_reference {
            continue;
        }
        if reference.is_some() && is_log && is_sparse && index > 0 {
            source.role = SourceRole::Sparse;
        } else if reference.is_some() && has_own && is_alone {
            (part.groups, part.is_said) = (groups, is_said && is_log);
        }
        if has_idle && is_idle && is_log {
            (part.idle, part.active_before) = (from..from + count, active_before);
        }
    }
}

/// The groups that an event's key message names in a run of that seed; 0: none. Some stand for many
/// events.
pub(crate) fn named(seed: u64, trigger: u64) -> u64 {
    let of = |number: u64| Random::new(seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut block = of(!(trigger / 16));
    match block.below(2) {
        0 => block.below(1 << GROUPS),
        _ => of(trigger).below(1 << GROUPS),
    }
}

impl Plan {
    /// The source whose fragments name the groups of their events.
    pub fn reference(&self) -> Option<usize> {
        self.sources.iter().position(|source| source.part.is_reference)
    }

    /// Whether an event expects a source, where its key message is there.
    pub fn expects(&self, source: usize, trigger: u64) -> bool {
        let named = self.reference().map_or(0, |_| named(self.case.seed, trigger));
        self.is_in(source, named)
    }

    /// Whether an event in which those groups took part expects a source; 0: nobody said which.
    fn is_in(&self, source: usize, named: u64) -> bool {
        let groups = self.sources[source].part.groups;
        groups == 0 || named == 0 || groups & named > 0
    }

    /// Whether a source has a fragment of an event: in some also where nobody expects it.
    pub fn takes_part(&self, source: usize, trigger: u64) -> bool {
        let part = &self.sources[source].part;
        let place = (source as u64) << 48;
        let mut chance = Random::new(self.case.seed ^ trigger.wrapping_mul(0x1357_9bdf) ^ !place);
        let takes = match self.is_sparse(source) {
            true => chance.below(3) == 0,
            false => self.expects(source, trigger) || chance.below(10) == 0,
        };
        takes && !part.idle.contains(&trigger)
    }

    /// Whether nobody expects a source in any event.
    pub fn is_sparse(&self, source: usize) -> bool {
        self.sources.get(source).is_some_and(|source| source.role == SourceRole::Sparse)
    }

    /// Whether a source that has sent these has sent all that was expected of it: in all events, or
    /// among those.
    pub(crate) fn has_all(
        &self,
        source: usize,
        sent: &[u64],
        among: Option<&BTreeSet<u64>>,
    ) -> bool {
        let is_expected = |trigger: &u64| self.expects(source, *trigger);
        let all = match among {
            Some(among) => among.iter().copied().filter(is_expected).count(),
            None => (0..self.events).filter(is_expected).count(),
        };
        sent.iter().copied().filter(is_expected).count() == all
    }
}

/// Checks what a row says of who was expected in it, but for these sources everyone: with these
/// fragments, of one of these events.
///
/// # Errors
/// A source that it expects, or does not, and should not, or should.
pub(crate) fn check_row(
    outcome: &Outcome,
    file: &WalkedFile,
    fragments: &[(usize, u64, Vec<SentFragment>)],
    triggers: &BTreeSet<u64>,
    unexpected: &BTreeSet<usize>,
) -> Result<(), String> {
    let plan = &outcome.plan;
    let is_there = |source: usize| fragments.iter().any(|(one, ..)| *one == source);
    let named = match plan.reference() {
        // What names them is in another target.
        Some(reference) if !file.stored[reference] => return Ok(()),
        Some(reference) if is_there(reference) => {
            let of = |&trigger: &u64| named(plan.case.seed, trigger);
            let all: BTreeSet<u64> = triggers.iter().map(of).collect();
            // Empty fragments may be of several events.
            match (all.len(), all.first()) {
                (1, Some(&named)) => named,
                _ => return Ok(()),
            }
        }
        _ => 0,
    };
    for (source, of_source) in plan.sources.iter().enumerate().filter(|(one, _)| file.stored[*one])
    {
        let (is_expected, should_be) = (!unexpected.contains(&source), plan.is_in(source, named));
        // Before its hello nobody knows what its front-end says of its groups.
        let may_be_unknown = of_source.part.is_said && plan.case.faults != Faults::NONE;
        if is_expected != should_be && !(is_expected && may_be_unknown) {
            return Err(format!(
                "event {:?}, of groups {named:#b}: s{source} is expected: {is_expected}, it is \
                 there: {}",
                triggers,
                is_there(source)
            ));
        }
    }
    Ok(())
}

/// Without faults a source whose front-end says in time what it has nothing of, and that it is
/// idle, is never given up, and nothing of it is late.
///
/// # Errors
/// A source that is.
pub(crate) fn check(outcome: &Outcome, life: &Life) -> Result<(), String> {
    let plan = &outcome.plan;
    if plan.case.faults != Faults::NONE || life.has_faulted() {
        return Ok(());
    }
    for (source, of_source) in plan.sources.iter().enumerate() {
        let sender = of_source.log.map(|log| &outcome.front_ends[log.sender]);
        // What waits for room in its log is behind what it says.
        if sender.is_none_or(|sender| sender.was_full) {
            continue;
        }
        let given_up =
            format!("do not wait for source {:?}: for", plan.config.sources[source].name);
        let mut warnings = life.last.warned();
        if let Some(warning) = warnings.find(|warning| warning.contains(&given_up)) {
            return Err(format!("nothing went wrong, and {warning}"));
        }
        let late = life.last.ledger.sources[source][Entry::FragmentsLate];
        if late > 0 {
            return Err(format!("source {source}: {late} fragments are late, nothing went wrong"));
        }
    }
    Ok(())
}

/// How many groups there are.
const GROUPS: u32 = 3;
