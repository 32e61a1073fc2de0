//! What must be true of a run whose events are built by time, whatever was sent, lost and lied.
//!
//! 1. Each fragment in a file is one that its source sent, byte for byte, and none is there twice.
//!    The ledger balances for each source, and its counts are those of the files.
//! 2. No event has fragments whose times, as their clocks said them, are farther apart than the
//!    window allows, and each has an anchor and as many openers as the rule asks for, one less
//!    while one of them may be known to flood (`windows.rs`). What a clock said that lied may also
//!    be in the cycle that is nearest to the time, into which the others put it.
//! 3. Where no clock lied and every source was heard, rows are those of the model (`model.rs`),
//!    with their keys and in their order, and the own times in them are those of the clocks.
//! 4. Where most sources are honest, their events among themselves are those of the model without
//!    the others, but near an opener's fragment that is not honest: that opens events as well. Not
//!    those of short cycles that differ, which are put where a clock that lies may be.
//! 5. Then output goes on within one time-out, and the lag of the sparse sources more; where all
//!    fall silent before that, within two.
//! 6. Then a clock that lies is named: by its counts, or as out of step. Not that of the only
//!    source that opens events, as long as it is in step.
//! 7. Of a front-end (`losses.rs`): no fragment is there twice that it sent again, and of an honest
//!    one all that went into its log is what arrived. In runs of rule 3 what it dropped is counted
//!    by its word, and what an event lacks of it beside that as not sent. If no clock lies, nothing
//!    is late of one that is waited for until it is back.
//!
//! 8. Of boards whose packets are numbered (`sequences.rs`), what never came is counted as missing
//!    by these numbers, and nothing is taken for a copy whose number is new; where several may be
//!    in an event, those with one time are. Ids, tags and flags are what was sent.
//!
//! Rules 3 to 7 say nothing of runs whose agents were not called or whose memory was short. A
//! source is *honest* here if its clock says the time, and it is heard often enough not to count as
//! silent, and nothing befell its front-end by which it lost anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use catchment_builder::{SourceRole, TimeConfig, Unmatched};
use catchment_model::{Entry, EventFlags};

use super::front_ends::{self, TimeLog};
use super::model::{Floods, Group, Id, Timed, groups, is_expected};
use super::plan::{RUN_NS, TimeSource};
use super::sender::{Sent, identity};
use super::sequences::{Numbered, Taken, numbered};
use super::world::Outcome;
use crate::fault::Fault;
use crate::plan::{MS, S};
use crate::walk::walk;
use crate::wires::Trouble;

/// Checks all of a run. Returns how many fragments had to be recorded.
///
/// # Errors
/// The first rule that was broken, and where.
pub fn check(outcome: &Outcome<'_>) -> Result<u64, String> {
    if let Some(wrong) = outcome.front_ends.iter().find_map(|one| one.wrong.clone()) {
        return Err(wrong);
    }
    let check = Check::new(outcome)?;
    check.ledger()?;
    check.windows()?;
    check.sequences()?;
    if check.is_held_up() || outcome.plan.base.case.faults.has(Fault::SmallMemory) {
        return Ok(0);
    }
    check.comes_back()?;
    let required = match check.honest.contains(&false) {
        false => check.exact()?,
        true if check.has_majority() => check.others()?,
        true => return Ok(0),
    };
    check.goes_on()?;
    check.names()?;
    Ok(required)
}

/// A run's rows, for a reader.
pub fn rows(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    match read(outcome) {
        Ok(rows) => {
            for Row { key, flags, members, .. } in rows {
                let of = |&(source, index): &Id| {
                    let sent = &outcome.sent[source][index];
                    format!(" s{source}/{index} at {} ({})", sent.ns, sent.lie_ns)
                };
                let members: String = members.iter().map(of).collect();
                writeln!(text, "row {key} flags {:#x}:{members}", flags.0).expect("a string");
            }
        }
        Err(why) => text = format!("{why}\n"),
    }
    let plan = outcome.plan;
    writeln!(text, "{:?}\n{:?}", plan.base.config.build, plan.lies).expect("a string takes all");
    for (index, source) in plan.sources.iter().enumerate() {
        writeln!(text, "s{index}: {source:?}").expect("a string takes all");
        let ledger = &outcome.life.last.ledger.sources[index];
        let counts = ledger.iter().filter(|(_, count)| *count > 0);
        let counts: String = counts.map(|(entry, count)| format!(" {entry} {count}")).collect();
        writeln!(text, "   {counts}").expect("a string takes all");
    }
    text
}

/// A row of the files.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: u64,
    pub(super) flags: EventFlags,
    pub(super) members: Vec<Id>,
    /// The first fragment of each source that is there, and its own time.
    times: Vec<(Id, u64)>,
}

impl Row {
    pub(super) fn is_alone(&self) -> bool {
        self.flags.contains(EventFlags::UNMATCHED) || self.flags.contains(EventFlags::LATE)
    }
}

/// All rows, in the order of the files.
fn read(outcome: &Outcome<'_>) -> Result<Vec<Row>, String> {
    let is_frames = |path: &std::path::Path| path.extension().is_some_and(|one| one == "catch");
    let mut files = Vec::new();
    for (path, bytes) in outcome.files.all() {
        if path.starts_with(&outcome.life.folder) && is_frames(&path) {
            files.extend(walk(&bytes).map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    files.sort_by_key(|file| file.index);
    let mut rows: Vec<Row> = Vec::new();
    for file in &files {
        for frame in &file.frames {
            if let Some(why) = file.damage(frame).first() {
                return Err(format!("frame {}: {why}", frame.sequence));
            }
            if frame.rows == 0 {
                continue;
            }
            let first = rows.len();
            let of_frame = file.rows(frame)?.ok_or("rows that cannot be read")?;
            let row = |row: crate::walk::WalkedRow| Row {
                key: row.key,
                flags: EventFlags(row.flags),
                members: Vec::new(),
                times: Vec::new(),
            };
            rows.extend(of_frame.into_iter().map(row));
            let mut wrong = None;
            file.fragments(frame, |fragment| {
                let Some(mut bytes) = fragment.bytes else { return };
                let (source, mut time_ns) = (fragment.source, fragment.time_ns);
                let head_bytes = outcome.plan.sources[source].head_bytes();
                // The pieces of an event stand one behind the other.
                loop {
                    let index = identity(bytes, head_bytes).map(|(_, number)| number as usize);
                    let sent = index.and_then(|at| Some((at, outcome.sent[source].get(at)?)));
                    let rest = sent
                        .and_then(|(at, sent)| Some((at, bytes.strip_prefix(&*sent.recorded)?)));
                    let Some((index, rest)) = rest else {
                        let key = fragment.key;
                        wrong.get_or_insert(format!("source {source}, key {key}: not as sent"));
                        return;
                    };
                    let row = &mut rows[first + fragment.row];
                    row.members.push((source, index));
                    row.times.extend(time_ns.take().map(|ns| ((source, index), ns)));
                    bytes = rest;
                    if bytes.is_empty() {
                        return;
                    }
                }
            })?;
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
    }
    match rows.windows(2).find(|pair| pair[0].key >= pair[1].key) {
        Some(pair) => Err(format!("key {} comes after {}", pair[1].key, pair[0].key)),
        None => Ok(rows),
    }
}

pub(super) struct Check<'a> {
    pub(super) outcome: &'a Outcome<'a>,
    pub(super) rule: TimeConfig,
    pub(super) rows: Vec<Row>,
    pub(super) expected_in: Vec<u64>,
    /// By source.
    pub(super) honest: Vec<bool>,
    /// By source, what the numbers of its packets say; none where that is in doubt.
    pub(super) numbered: Vec<Option<Numbered>>,
}

impl<'a> Check<'a> {
    fn new(outcome: &'a Outcome<'a>) -> Result<Self, String> {
        let plan = outcome.plan;
        let rule = plan.base.config.time_config().ok_or("events are not built by time")?;
        let numbered = numbered(outcome);
        let is_honest = |index: usize| numbered[index].is_some() && is_honest(outcome, index);
        let mut honest: Vec<bool> = (0..plan.sources.len()).map(is_honest).collect();
        // Without all others nobody can say when one of them floods.
        if let Some(flood) = plan.flood.filter(|_| honest.contains(&false)) {
            honest[flood.source] = false;
        }
        Ok(Self {
            outcome,
            rule,
            rows: read(outcome)?,
            expected_in: plan.sources.iter().map(|source| source.expected_in).collect(),
            honest,
            numbered,
        })
    }

    pub(super) fn role(&self, source: usize) -> SourceRole {
        self.outcome.plan.sources[source].role
    }

    /// What a front-end has of a source, if it is no board.
    pub(super) fn log(&self, source: usize) -> Option<&TimeLog> {
        self.outcome.plan.sources[source].log.as_ref()
    }

    pub(super) fn ns(&self, (source, index): Id) -> i128 {
        self.outcome.sent[source][index].ns
    }

    /// The groups that took part in an event.
    pub(super) fn named(&self, row: &Row) -> u64 {
        let of_reference =
            row.members.iter().find(|(source, _)| Some(*source) == self.rule.reference);
        of_reference.map_or(0, |&(source, index)| self.outcome.sent[source][index].groups)
    }

    /// What is recorded twice and need not be. Of boards, what came out of step is not known for
    /// the same where its copy comes when that time is in step.
    fn twice(&self) -> Option<Id> {
        let mut found = BTreeMap::new();
        self.rows.iter().find_map(|row| {
            let is_out_of_step = row.flags.contains(EventFlags::UNMATCHED | EventFlags::LATE);
            row.members.iter().copied().find(|&id| {
                let of_board = self.log(id.0).is_none();
                let before = found.insert(id, is_out_of_step);
                before.is_some_and(|before| !of_board || before == is_out_of_step)
            })
        })
    }

    /// Everything that arrived is somewhere, once.
    fn ledger(&self) -> Result<(), String> {
        let life = &self.outcome.life;
        // What came before all clocks were set, and once more behind that, has another time.
        if life.last.ledger.total()[Entry::NumberingRestarts] == 0
            && let Some(id) = self.twice()
        {
            return Err(format!("{id:?} is recorded twice"));
        }
        for (source, ledger) in life.last.ledger.sources.iter().enumerate() {
            let balance = ledger.balance();
            if !balance.holds() {
                return Err(format!("source {source}: the ledger does not balance: {balance:?}"));
            }
            let members =
                self.rows.iter().flat_map(|row| row.members.iter().map(move |id| (row, id)));
            let own = || members.clone().filter(|(_, id)| id.0 == source);
            let bytes = own()
                .map(|(_, &(_, index))| self.outcome.sent[source][index].recorded.len() as u64);
            let is_required = self.role(source) == SourceRole::Required;
            let lacks = |row: &&Row| {
                let is_there = row.members.iter().any(|id| id.0 == source);
                let is_expected = is_expected(self.expected_in[source], self.named(row));
                is_required && !row.is_alone() && !is_there && is_expected
            };
            let (arrived, dropped) = life.arrived[source];
            let counts = [
                (Entry::PacketsReceived, arrived),
                (Entry::PacketsAccepted, arrived),
                (Entry::FragmentsReceived, self.outcome.delivered[source].fragments),
                (Entry::PacketsDroppedByKernel, dropped),
                (Entry::FragmentsRecorded, own().count() as u64),
                (Entry::FragmentBytesRecorded, bytes.sum()),
                (Entry::FragmentsMissing, self.rows.iter().filter(lacks).count() as u64),
                (Entry::FragmentsUnmatched, own().filter(|(row, _)| row.is_alone()).count() as u64),
            ];
            // What came while its receive agent was not called, to the end of the run, is counted
            // by nobody; nor is it known here how many messages there were of a front-end's source.
            let first = match (self.log(source), self.is_held_up()) {
                (Some(_), _) => UNREAD + 1,
                (None, true) => UNREAD,
                (None, false) => 0,
            };
            let differs = |&(entry, is): &(Entry, u64)| ledger[entry] != is;
            if let Some((entry, is)) = counts.into_iter().skip(first).find(differs) {
                return Err(format!("source {source}: {entry}: {}, is {is}", ledger[entry]));
            }
        }
        Ok(())
    }

    /// Whether agents were not called for a while.
    pub(super) fn is_held_up(&self) -> bool {
        let faults = self.outcome.plan.base.case.faults;
        faults.has(Fault::Starve) || faults.has(Fault::Freeze)
    }

    /// Whether it is unknown how the times of these sources compare: their cycles differ, and are
    /// short, at least of those that say in which cycle the others are. A clock that lies may have
    /// put them all into a later one, unless an honest board has a longer cycle: the longest one
    /// says in which cycle all are, and sparse sources are not asked.
    fn are_of_unknown_cycles(
        &self,
        sources: impl Iterator<Item = usize>,
        says: impl Fn(usize) -> bool,
    ) -> bool {
        let cycle_ns = |source: usize| self.outcome.plan.sources[source].cycle_ns();
        let sources: Vec<usize> = sources.collect();
        let all: BTreeSet<u128> = sources.iter().map(|&source| cycle_ns(source)).collect();
        let mut saying = sources.into_iter().filter(|&source| says(source));
        let are_short = saying.all(|source| cycle_ns(source) < CYCLE_NS_LONG);
        let says_time = |source: &usize| self.role(*source) != SourceRole::Sparse;
        let honest = (0..self.honest.len()).filter(|&source| self.honest[source]);
        let has_boards = (0..self.honest.len()).any(|one| says_time(&one) && self.is_board(one));
        let asked = honest.filter(|&one| says_time(&one) && (!has_boards || self.is_board(one)));
        let longest = asked.map(cycle_ns).max();
        let misleads = |liar: &usize| says_time(liar) && Some(cycle_ns(*liar)) >= longest;
        are_short && all.len() > 1 && self.liars().iter().any(misleads)
    }

    fn is_board(&self, source: usize) -> bool {
        self.log(source).is_none()
    }

    /// The times of a row's fragments, each in the cycle of its clock that is nearest to that of
    /// the longest cycle. If that one lied, this may be as it said it, or as the others put it, in
    /// the cycle nearest to the time: both are given. None where their cycles are not known.
    pub(super) fn times(&self, row: &Row) -> Vec<Vec<(Id, i128)>> {
        if self.are_of_unknown_cycles(row.members.iter().map(|id| id.0), |_| true) {
            return Vec::new();
        }
        let source = |id: &Id| &self.outcome.plan.sources[id.0];
        let longest = row.members.iter().max_by_key(|id| source(id).cycle_ns());
        let Some(longest) = longest else { return Vec::new() };
        let sent = &self.outcome.sent[longest.0][longest.1];
        let put_ns = source(longest).nearest_ns(sent.ns, self.true_ns(sent));
        let near = |id: Id, base_ns| (id, source(&id).nearest_ns(self.ns(id), base_ns));
        let times = |base_ns| row.members.iter().map(|&id| near(id, base_ns)).collect();
        let mut bases = vec![sent.ns, put_ns];
        bases.dedup();
        bases.into_iter().map(times).collect()
    }

    /// What a clock would have said that does not lie.
    fn true_ns(&self, sent: &Sent) -> i128 {
        i128::from(self.outcome.plan.zero_ns) + i128::from(sent.at_ns)
    }

    /// What arrived of honest sources, or of all.
    fn arrived(&self) -> Vec<Timed> {
        let mut arrived = Vec::new();
        for source in (0..self.honest.len()).filter(|&source| self.honest[source]) {
            // All that an honest front-end has comes sooner or later.
            let numbers: Vec<usize> = match self.log(source) {
                Some(_) => self.outcome.made[source].clone(),
                None => self.taken(source).fragments,
            };
            for index in numbers {
                let groups = self.outcome.sent[source][index].groups;
                let id = (source, index);
                arrived.push(Timed { ns: self.ns(id), id, groups });
            }
        }
        arrived
    }

    /// What an honest board's fragments come to, before they are events.
    fn taken(&self, source: usize) -> Taken {
        let Some(numbered) = &self.numbered[source] else { return Taken::default() };
        let packets = &self.outcome.delivered[source].packets;
        let ns = |index| self.ns((source, index));
        numbered.taken(packets, ns, self.rule.fragments_max as usize)
    }

    fn model(&self) -> Vec<Group> {
        let timeout_ns = self.outcome.plan.timeout_ns();
        let floods = Floods::new(&self.rule, self.honest.len(), timeout_ns);
        groups(&self.arrived(), (&self.rule, floods), &self.expected_in)
    }

    /// All are honest: rows are those of the model.
    fn exact(&self) -> Result<u64, String> {
        let model = self.model();
        let keeps = self.rule.unmatched == Unmatched::Keep;
        let (alone, events): (Vec<&Group>, Vec<&Group>) =
            model.iter().partition(|group| group.is_alone);
        for source in 0..self.honest.len() {
            let of_source = alone.iter().filter(|group| group.members[0].0 == source).count();
            let ledger = &self.outcome.life.last.ledger.sources[source];
            let [kept, discarded] = match keeps {
                true => [of_source as u64, 0],
                false => [0, of_source as u64],
            };
            let counts = [
                (Entry::FragmentsUnmatched, kept),
                (Entry::FragmentsDiscardedUnmatched, discarded),
                (Entry::FragmentsLate, 0),
                (Entry::FragmentsOutOfRange, 0),
                (Entry::FragmentsDiscardedMemory, 0),
            ];
            let Taken { copies, of_equal_times, .. } = self.taken(source);
            let repeated = [
                (Entry::FragmentsDuplicate, copies),
                (Entry::FragmentsTimeRepeated, of_equal_times),
            ];
            let of_board = repeated.into_iter().filter(|_| self.is_board(source));
            let mut counts = counts.into_iter().chain(of_board);
            if let Some((entry, is)) = counts.find(|&(entry, is)| ledger[entry] != is) {
                return Err(format!(
                    "honest source {source}: {entry}: {}, the model says {is}",
                    ledger[entry]
                ));
            }
        }
        let mut next_key = 0;
        let mut expected: Vec<(u64, Vec<Id>, bool)> = Vec::new();
        for group in if keeps { model.iter().collect() } else { events } {
            let key = u64::try_from(group.ns).unwrap_or(0).max(next_key);
            next_key = key + 1;
            expected.push((key, group.members.clone(), group.is_alone));
        }
        let row = |row: &Row| {
            let mut members = row.members.clone();
            members.sort_unstable();
            (row.key, members, row.is_alone())
        };
        let mut rows: Vec<(u64, Vec<Id>, bool)> = self.rows.iter().map(row).collect();
        expected.iter_mut().for_each(|row| row.1.sort_unstable());
        if self.rule.reference.is_some() {
            // Rows of one fragment wait for nobody, and come in another order.
            for row in rows.iter_mut().chain(&mut expected) {
                row.0 = 0;
            }
            rows.sort_unstable();
            expected.sort_unstable();
        }
        if let Some((row, wanted)) = rows.iter().zip(&expected).find(|(row, is)| row != is) {
            return Err(format!("a row is {row:?}, the model says {wanted:?}"));
        }
        if rows.len() != expected.len() {
            return Err(format!("{} rows, the model says {}", rows.len(), expected.len()));
        }
        for &(id, own_ns) in self.rows.iter().flat_map(|row| &row.times) {
            let ns = self.ns(id);
            if i128::from(own_ns) != ns.max(0) {
                return Err(format!("{id:?}: its own time is {own_ns}, its clock said {ns}"));
            }
        }
        for source in 0..self.honest.len() {
            self.absences(source)?;
        }
        Ok(expected.iter().map(|(_, members, _)| members.len() as u64).sum())
    }

    /// Whether more than half of those that say what the time is do so rightly, and at least two if
    /// one of the others lies: of the boards, if there is any that is not sparse.
    fn has_majority(&self) -> bool {
        let all = || {
            let count = 0..self.honest.len();
            count.filter(|&source| self.role(source) != SourceRole::Sparse)
        };
        let has_boards = all().any(|source| self.log(source).is_none());
        let voters = || all().filter(move |&source| !has_boards || self.log(source).is_none());
        let honest = voters().filter(|&source| self.honest[source]).count();
        let least = if self.liars().is_empty() { 1 } else { 2 };
        honest >= least && 2 * honest > voters().count()
    }

    /// Sources whose clocks lied at any time.
    pub(super) fn liars(&self) -> Vec<usize> {
        let lied = |&source: &usize| self.outcome.sent[source].iter().any(|one| one.lie_ns != 0);
        (0..self.honest.len()).filter(lied).collect()
    }

    /// Most are honest: their events among themselves are whole. They need not be if a clock of a
    /// longer cycle lied: a cycle later, times are apart by what the cycles differ in.
    fn others(&self) -> Result<u64, String> {
        let honest = (0..self.honest.len()).filter(|&source| self.honest[source]);
        // A sparse one may come when the others are in some cycle.
        if self.are_of_unknown_cycles(honest, |one| self.role(one) != SourceRole::Sparse) {
            return Ok(0);
        }
        let mut model = self.model();
        model.sort_by_key(|group| group.ns);
        let disturbing = self.disturbing();
        let reach_ns = i128::from(self.rule.span_ns_max.max(self.rule.window_ns))
            + i128::from(self.rule.before_ns);
        let mut row_of = BTreeMap::new();
        for (number, row) in self.rows.iter().enumerate() {
            row_of.extend(row.members.iter().map(|&id| (id, number)));
        }
        let mut disturbed_ns = i128::MIN / 2;
        let mut required = 0;
        for group in &model {
            let times = || group.members.iter().map(|&id| self.ns(id));
            let (low_ns, high_ns) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
            let near = disturbing.partition_point(|&ns| ns < low_ns - reach_ns);
            let is_near = disturbing.get(near).is_some_and(|&ns| ns <= high_ns + reach_ns);
            if is_near || low_ns - disturbed_ns <= reach_ns {
                disturbed_ns = disturbed_ns.max(high_ns);
                continue;
            }
            if group.is_alone {
                continue;
            }
            let row = row_of.get(&group.members[0]).map(|&number| &self.rows[number]);
            let honest = row.map(|row| {
                let members = row.members.iter().filter(|id| self.honest[id.0]);
                members.copied().collect::<BTreeSet<Id>>()
            });
            let wanted: BTreeSet<Id> = group.members.iter().copied().collect();
            if honest.as_ref() != Some(&wanted) {
                return Err(format!(
                    "an event of honest sources is {honest:?}, the model says {wanted:?}"
                ));
            }
            required += group.members.len() as u64;
        }
        Ok(required)
    }

    /// The times of openers' fragments that are not honest: as their clocks said them, and in the
    /// cycle that is nearest to the time, into which others put them.
    fn disturbing(&self) -> Vec<i128> {
        let plan = self.outcome.plan;
        let mut times = Vec::new();
        for source in 0..self.honest.len() {
            if self.honest[source] || !self.rule.opens(source) {
                continue;
            }
            for sent in &self.outcome.sent[source] {
                let put_ns = plan.sources[source].nearest_ns(sent.ns, self.true_ns(sent));
                times.extend([sent.ns, put_ns]);
            }
        }
        times.sort_unstable();
        times
    }

    /// No event was open for longer than a time-out after all of it, and all before it, had come,
    /// and what may still come out of order, or of a sparse source. Where all fall silent before
    /// that, only their silence closes it, after two time-outs.
    fn goes_on(&self) -> Result<(), String> {
        let timeout_ns = self.outcome.plan.timeout_ns();
        let clocks = || self.rule.clocks.iter().enumerate();
        let reorder_ns = clocks().map(|(_, clock)| clock.reorder_ns).max().unwrap_or(0);
        let sparse = clocks().filter(|(index, _)| self.role(*index) == SourceRole::Sparse);
        let lag_ns = sparse.map(|(_, clock)| clock.lag_ns).max().unwrap_or(0);
        let is_waited = |&(.., trouble): &(u64, usize, Trouble)| {
            !matches!(trouble, Trouble::Single(_) | Trouble::LateAnswers(_))
        };
        let waited_ns = match self.outcome.plan.troubles.iter().any(is_waited) {
            true => WAITED_NS,
            false => 0,
        };
        let has_front_end = (0..self.honest.len()).any(|source| self.log(source).is_some());
        let hangs = has_front_end && self.outcome.plan.base.case.faults.has(Fault::Die);
        let hung_ns = if hangs { HUNG_NS.saturating_sub(timeout_ns) } else { 0 };
        let allowed_ns =
            timeout_ns + timeout_ns / 8 + reorder_ns + lag_ns + SLACK_NS + waited_ns + hung_ns;
        let came: Vec<BTreeMap<usize, u64>> =
            (0..self.honest.len()).map(|one| self.came(one)).collect();
        let silent_ns = self.outcome.last_ns + 2 * timeout_ns + SLACK_NS + hung_ns;
        let (mut came_ns, mut events) = (0, 0);
        // By which time how many events are built. What a wrong clock alone is in has no time.
        let mut due: Vec<(u64, u64)> = Vec::new();
        for row in &self.rows {
            for &(source, index) in &row.members {
                let arrival = came[source].get(&index).copied();
                came_ns = came_ns.max(arrival.unwrap_or(u64::MAX));
            }
            events += u64::from(!row.is_alone());
            if !row.is_alone() && row.members.iter().any(|id| self.honest[id.0]) {
                let due_ns = came_ns.saturating_add(allowed_ns);
                let is_last = due_ns - SLACK_NS > self.outcome.last_ns;
                due.push((if is_last { due_ns.max(silent_ns) } else { due_ns }, events));
            }
        }
        for seen in &self.outcome.seen {
            let over = due.partition_point(|&(due_ns, _)| due_ns < seen.at_ns);
            let late = due[..over].iter().find(|&&(_, events)| events > seen.events);
            if let Some(&(due_ns, events)) = late {
                let since_ms = (seen.at_ns - due_ns + allowed_ns) / MS;
                return Err(format!(
                    "at {} event {events} has waited for {since_ms} ms: {} are built",
                    seen.at_ns, seen.events
                ));
            }
        }
        Ok(())
    }

    /// When the fragments of a source came, by their numbers.
    pub(super) fn came(&self, source: usize) -> BTreeMap<usize, u64> {
        let all = self.outcome.life.arrivals[source].all();
        let number = |index: usize| match self.log(source) {
            Some(_) => self.outcome.made[source].get(index).copied(),
            None => Some(index),
        };
        all.filter_map(|(index, one)| Some((number(index)?, one.whole_ns?))).collect()
    }

    /// A clock that is wrong for long is named, or its fragments are counted.
    fn names(&self) -> Result<(), String> {
        let reach_ns = 2 * self.rule.span_ns_max.max(self.rule.window_ns) + self.rule.before_ns;
        let [liar] = self.liars()[..] else { return Ok(()) };
        let opening = (0..self.honest.len()).filter(|&source| self.rule.opens(source));
        if opening.eq([liar]) {
            // Its times say what an event is: the others are named.
            return Ok(());
        }
        let reach_ns = reach_ns + self.outcome.plan.sources[liar].jitter_ns;
        let arrivals = self.outcome.life.arrivals[liar].all();
        let wrong = arrivals
            .filter(|(index, _)| self.outcome.sent[liar][*index].lie_ns.unsigned_abs() > reach_ns);
        let ledger = &self.outcome.life.last.ledger.sources[liar];
        let is_counted = NAMED.iter().any(|&entry| ledger[entry] > 0);
        let is_seen = self.outcome.seen.iter().any(|seen| seen.out_of_step[liar]);
        match wrong.count() {
            count if count >= LIES_MIN && !is_counted && !is_seen => {
                Err(format!("source {liar} lied {count} times, and is neither named nor counted"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a source says the time, and is heard often enough not to count as silent.
fn is_honest(outcome: &Outcome<'_>, index: usize) -> bool {
    let plan = outcome.plan;
    let lies = plan.lies.iter().any(|lie| lie.source == index);
    if lies || plan.late.is_some_and(|(late, ..)| late == index) {
        return false;
    }
    let TimeSource { role, log, .. } = &plan.sources[index];
    if log.is_some_and(|log| !front_ends::is_heard(plan, &log, *role)) {
        return false;
    }
    // A sparse board is waited for however long it is silent. A front-end is given up that says
    // nothing for a time-out, be it sparse or not: it has to send marks.
    if log.map_or(*role == SourceRole::Sparse, |log| log.marks) {
        return true;
    }
    let mut last_ns = outcome.life.began_ns;
    let mut is_heard = true;
    let mut whole: Vec<u64> =
        outcome.life.arrivals[index].whole.iter().map(|&(at_ns, _)| at_ns).collect();
    whole.push(outcome.last_ns);
    whole.sort_unstable();
    // One that is idle has said so.
    let idle = log.and_then(|log| log.idle).map_or((0, 0), |(from_ns, to_ns)| {
        let at = |ns: u64| RUN_NS + ns + plan.sources[index].lag_ns;
        (at(from_ns), at(to_ns))
    });
    for at_ns in whole {
        let silent_ns = match last_ns <= idle.0 && at_ns >= idle.1 {
            true => (idle.0 - last_ns).max(at_ns - idle.1),
            false if (idle.0..idle.1).contains(&last_ns) || (idle.0..idle.1).contains(&at_ns) => 0,
            false => at_ns - last_ns,
        };
        is_heard &= silent_ns <= plan.timeout_ns() / 2;
        last_ns = at_ns;
    }
    is_heard
}

/// What says that a source's times do not fit.
const NAMED: [Entry; 7] = [
    Entry::FragmentsOutOfRange,
    Entry::FragmentsLate,
    Entry::FragmentsDuplicate,
    Entry::FragmentsTimeRepeated,
    Entry::FragmentsUnmatched,
    Entry::FragmentsDiscardedUnmatched,
    Entry::FragmentsMissing,
];
/// The cycle of a clock whose lies are all shorter than half of it.
const CYCLE_NS_LONG: u128 = 8_000 * S as u128;
/// Wrong times of a clock, from which on it must be named.
const LIES_MIN: usize = 40;
/// The first counts above, which are of what was read.
const UNREAD: usize = 3;
/// Counts are shown ten times a second; agents take their time.
const SLACK_NS: u64 = 150 * MS;
/// How long one is waited for that hangs: a time-out, and until two of its pings have come behind
/// its last word, of which there is one each 500 ms.
const HUNG_NS: u64 = 1_500 * MS;
/// How long a required front-end is waited for that fell silent, until it is back.
const WAITED_NS: u64 = 6 * S;
