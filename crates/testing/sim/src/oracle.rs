//! The rules that every ended run must obey, whatever went wrong in it.
//!
//! The oracle knows what the detector sent, and reads the files with its own reader (`walk.rs`).
//! The node's statements about itself (its ledger, its tables of contents, the results of its
//! readers) are compared with that, never trusted.

mod totals;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use catchment_builder::IncompletePolicy;
use catchment_model::ledger::Role;
use catchment_model::{Entry, Ledger};
use catchment_ports::StoreFault;
use catchment_recorder::State;

use crate::bound;
use crate::commands;
use crate::contents;
use crate::detector::{SentBySource, SentFragment};
use crate::fault::{Fault, Faults, HARMLESS};
use crate::groups;
use crate::plan::{MS, Selected, SourcePlan};
use crate::positions;
use crate::recorded::{Recorded, disk_lied, read};
use crate::recorder::Life;
use crate::resume;
use crate::settings;
use crate::silences;
use crate::skew;
use crate::trends;
use crate::verdict;
use crate::walk::WalkedFrame;
use crate::world::Outcome;

/// The columns of a frame that targets share, as far as they are known: rows and checksums by id.
type FrameColumns = BTreeMap<u32, (u64, u32)>;

/// What is known of a frame by the first target that has it: the ids of the columns that it may
/// have, and its columns.
type Known = (BTreeSet<u32>, FrameColumns);

/// Checks all of a run. Returns how many fragments must be in files by the lower bound.
///
/// # Errors
/// The first rule that was broken, and where.
pub fn check(outcome: &Outcome) -> Result<u64, String> {
    let mut required = 0;
    positions::check_told(outcome)?;
    commands::check(outcome)?;
    settings::check(outcome)?;
    let is_well = !outcome.lives.iter().any(Life::has_faulted);
    if outcome.plan.case.faults == Faults::NONE && is_well {
        positions::check_whole(outcome)?;
    }
    for (number, life) in outcome.lives.iter().enumerate() {
        let mut frames = BTreeMap::new();
        for (target, life) in life.of_targets().enumerate() {
            let named = |why: String| format!("recorder {number}, target {target}: {why}");
            let check = Check::new(outcome, &life).map_err(named)?;
            check.same_frames(&mut frames).map_err(named)?;
            positions::check(outcome, (number, &life), &check.recorded, &check.selected)
                .map_err(named)?;
            required += check.run().map_err(named)?;
        }
        let of_run = of_run(outcome, life).and_then(|()| skew::check(outcome, life));
        let of_run = of_run.and_then(|()| groups::check(outcome, life));
        let of_run = of_run.and_then(|()| silences::check(outcome, life));
        of_run.map_err(|why| format!("recorder {number}: {why}"))?;
    }
    Ok(required)
}

/// The run's ledger, made from those of its targets: what it says to be durable is durable in each
/// that it needs, and it balances.
fn of_run(outcome: &Outcome, life: &Life) -> Result<(), String> {
    let lost = life.last.ledger.sources.iter().any(|source| source.balance().lost_data());
    verdict::check_last(life.verdict, lost)?;
    let targets = life.last.targets.iter().enumerate();
    let required = targets.filter(|(_, target)| target.required);
    let required: Vec<_> =
        required.map(|(number, target)| (outcome.plan.selected(number), target)).collect();
    for (source, ledger) in life.last.ledger.sources.iter().enumerate() {
        for (_, target) in required.iter().filter(|(selected, _)| selected.sources[source]) {
            let there = target.ledger.sources[source][Entry::FragmentsDurable];
            let durable = ledger[Entry::FragmentsDurable];
            if durable > there {
                let name = &target.name;
                return Err(format!("source {source}: {durable} durable, {there} in {name}"));
            }
        }
        let balance = ledger.balance();
        if !life.has_crashed && !life.lied && !balance.holds() {
            return Err(format!("source {source}: the run's ledger does not balance: {balance:?}"));
        }
    }
    Ok(())
}

/// One life, and the contents of its files.
struct Check<'a> {
    outcome: &'a Outcome,
    life: &'a Life,
    ledger: &'a Ledger,
    selected: Selected,
    recorded: Recorded,
}

impl<'a> Check<'a> {
    fn new(outcome: &'a Outcome, life: &'a Life) -> Result<Self, String> {
        let recorded = read(outcome, life)?;
        let selected = outcome.plan.selected(life.target);
        Ok(Self { outcome, life, ledger: &life.last.ledger, selected, recorded })
    }

    /// Frames of one number have the same columns in all targets that get these.
    fn same_frames(&self, frames: &mut BTreeMap<u64, Known>) -> Result<(), String> {
        for file in &self.recorded.files {
            let whole = |frame: &&WalkedFrame| {
                frame.rows > 0 && file.damage(frame).is_empty() && !self.disk_lied()
            };
            for frame in file.frames.iter().filter(whole) {
                let columns = file.shared(frame);
                let Some((known, before)) = frames.get_mut(&frame.sequence) else {
                    frames.insert(frame.sequence, (file.column_ids(), columns));
                    continue;
                };
                let of_both = |columns: &FrameColumns, other: &BTreeSet<u32>| -> FrameColumns {
                    let both = columns.iter().filter(|(id, _)| other.contains(id));
                    both.map(|(&id, &column)| (id, column)).collect()
                };
                if of_both(before, &file.column_ids()) != of_both(&columns, known) {
                    return Err(format!("frame {} is another one here", frame.sequence));
                }
            }
        }
        Ok(())
    }

    fn disk_lied(&self) -> bool {
        disk_lied(self.life)
    }

    fn has(&self, faults: &[StoreFault]) -> bool {
        self.life.disk.iter().any(|fault| faults.contains(fault))
    }

    /// Packets with changed bits, in protocols without a checksum, may contain anything.
    fn may_be_forged(&self) -> bool {
        let sources = self.outcome.plan.sources.iter().zip(&self.outcome.sent.sources);
        sources.into_iter().any(|(plan, sent)| !plan.in_parts && !sent.corrupted.is_empty())
    }

    fn run(self) -> Result<u64, String> {
        let mut required = 0;
        resume::check(self.life, &self.selected, &self.recorded)?;
        self.memory()?;
        self.at_any_time()?;
        self.restarts()?;
        if self.life.has_crashed {
            self.durable_reads_back()?;
        } else {
            self.at_rest()?;
            self.packets()?;
            self.connections()?;
            self.losses()?;
            positions::check_edges(self.outcome, self.ledger)?;
            if !self.disk_lied() {
                self.files()?;
                self.events()?;
                if self.life.deaths == 0 {
                    required = bound::check(self.outcome, self.life, &self.recorded)?;
                }
            }
        }
        crate::readers::check(self.outcome, self.life, &self.recorded)?;
        trends::check(self.outcome, self.life, &self.recorded)?;
        Ok(required)
    }

    /// No queue or pool held more than its capacity, and all of them together no more than the
    /// budget.
    fn memory(&self) -> Result<(), String> {
        for fill in &self.life.last.fills {
            if fill.highest > fill.capacity {
                return Err(format!("{} held {} of {}", fill.name, fill.highest, fill.capacity));
            }
        }
        Ok(())
    }

    /// The rules that hold at any moment.
    fn at_any_time(&self) -> Result<(), String> {
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let balance = ledger.balance();
            if balance.packets_in_flight < 0 || balance.fragments_in_flight < 0 && !self.life.lied {
                return Err(format!("source {source}: more came out than went in: {balance:?}"));
            }
            if ledger[Entry::FragmentsDurable] > ledger[Entry::FragmentsRecorded] {
                return Err(format!("source {source}: more is durable than was recorded"));
            }
        }
        Ok(())
    }

    /// The recorder counted no more restarts of numbers than happened, if that is known: sources
    /// with their own numbering may be most of those that are heard.
    fn restarts(&self) -> Result<(), String> {
        let faults = self.outcome.plan.case.faults;
        let has_own =
            |sent: &&SentBySource| sent.fragments.last().is_some_and(|last| last.numbering > 0);
        let own = self.outcome.sent.sources.iter().filter(has_own).count();
        let are_few = 2 * own <= self.outcome.plan.sources.len();
        // A connection that waits for memory is not heard, whatever its sender does.
        let waits = self.outcome.plan.sources.iter().any(SourcePlan::waits);
        let are_heard = !waits
            && faults.without(Fault::Misnumber).iter().all(|fault| HARMLESS.contains(&fault));
        if faults.has(Fault::Misnumber) && !(are_few && are_heard) {
            return Ok(());
        }
        let of_sources = &self.ledger.sources[..self.outcome.plan.sources.len()];
        let counted = of_sources.iter().map(|source| source[Entry::NumberingRestarts]);
        // A source is away while the agent that receives from it is not called. The rest of a
        // connection that was cut may be read behind what the next one brings.
        let happened = |fault| self.outcome.happened.get(&fault).copied().unwrap_or(0);
        let apart = happened(Fault::HoldReceive) + happened(Fault::Cut);
        let made = u64::from(faults.has(Fault::Renumber)) + self.jumps() + self.returns() + apart;
        match counted.max().filter(|&counted| counted > made) {
            Some(counted) => {
                Err(format!("the numbers restarted {made} times, counted {counted} times"))
            }
            None => Ok(()),
        }
    }

    /// How often the numbers of a source jumped ahead by a window or more, which begins a new
    /// epoch.
    fn jumps(&self) -> u64 {
        let window = self.outcome.plan.config.build.window_events;
        let of_source = |source: usize| {
            let sent = &self.outcome.sent.sources[source].fragments;
            let arrived = self.life.arrivals[source].all();
            let triggers: Vec<u64> = arrived.map(|(index, _)| sent[index].trigger).collect();
            triggers.windows(2).filter(|pair| pair[1] - pair[0] >= window / 2).count() as u64
        };
        (0..self.outcome.plan.sources.len()).map(of_source).max().unwrap_or(0)
    }

    /// How often sources over sessions came back behind the others by half a window or more: they
    /// send all of it, and others have gone on.
    fn returns(&self) -> u64 {
        let window = self.outcome.plan.config.build.window_events;
        let sources = &self.life.arrivals[..self.outcome.plan.sources.len()];
        let mut arrived = Vec::new();
        for (source, arrivals) in sources.iter().enumerate() {
            let sent = &self.outcome.sent.sources[source].fragments;
            let whole = arrivals.whole.iter();
            arrived.extend(whole.map(|&(ns, index)| (ns, source, sent[index].trigger)));
        }
        arrived.sort_unstable();
        let (mut highest, mut returns) = (0, 0);
        let mut is_behind = vec![false; sources.len()];
        for (_, source, trigger) in arrived {
            highest = trigger.max(highest);
            let is_log = self.outcome.plan.sources[source].log.is_some();
            let now = is_log && highest - trigger >= window / 2;
            returns += u64::from(now && !std::mem::replace(&mut is_behind[source], now));
            is_behind[source] = now;
        }
        returns
    }

    /// Data reported as durable can be read after the power has failed.
    fn durable_reads_back(&self) -> Result<(), String> {
        if self.has(&[StoreFault::TornWrite, StoreFault::MisdirectedWrite]) {
            return Ok(());
        }
        let has_failed = self.disk_lied();
        let in_columns = |damage: &&String| damage.starts_with("column");
        if self.life.was_killed
            && !has_failed
            && let Some(damage) = self.recorded.damage.iter().find(in_columns)
        {
            return Err(format!("killed, and a whole frame cannot be read: {damage}"));
        }
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            if self.life.was_killed {
                let (recorded, found) =
                    (ledger[Entry::FragmentsRecorded], self.recorded.counts[source][0]);
                if found < recorded {
                    return Err(format!("source {source}: {recorded} recorded, {found} there"));
                }
            }
            let (durable, found) =
                (ledger[Entry::FragmentsDurable], self.recorded.counts[source][0]);
            if found < durable {
                return Err(format!("source {source}: {durable} were durable, {found} are there"));
            }
        }
        Ok(())
    }

    /// Nothing is in flight.
    fn at_rest(&self) -> Result<(), String> {
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let balance = ledger.balance();
            if !balance.holds() && !self.life.lied {
                return Err(format!("source {source}: its ledger does not balance: {balance:?}"));
            }
        }
        let harmless = [StoreFault::Hang, StoreFault::Full, StoreFault::TextError];
        let is_well = self.life.disk.iter().all(|fault| harmless.contains(fault));
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let (durable, recorded) =
                (ledger[Entry::FragmentsDurable], ledger[Entry::FragmentsRecorded]);
            if is_well && !self.has(&[StoreFault::Full]) && durable != recorded {
                return Err(format!("source {source}: {recorded} recorded, {durable} durable"));
            }
        }
        if self.life.disk.is_empty() && self.life.last.state != State::Recording {
            return Err(format!("in fault without a fault: {:?}", self.life.last.state));
        }
        Ok(())
    }

    /// Every packet that arrived was counted.
    fn packets(&self) -> Result<(), String> {
        let plan = &self.outcome.plan;
        let waits = |source: usize| match plan.sources.get(source) {
            Some(source) => source.waits(),
            None => plan.sender_of_link(source).is_some(),
        };
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let (arrived, dropped) = self.life.arrived[source];
            // How far a connection was read before it ended is not known.
            let is_log = plan.sources.get(source).is_some_and(|source| source.log.is_some());
            let accepted = ledger[Entry::PacketsAccepted];
            if is_log && accepted > arrived {
                return Err(format!("source {source}: {arrived} messages came, {accepted} taken"));
            }
            // What a recorder that died had taken and not recorded is counted nowhere.
            if waits(source) || !self.selected.sources[source] || self.life.deaths > 0 {
                continue;
            }
            let received = ledger[Entry::PacketsReceived];
            let is_late = self.life.stopped_ns.is_none_or(|stop| {
                // An agent that is not called until the run's last events are closed takes one look
                // at its endpoints.
                let is_held = |&(from, until): &(u64, u64)| {
                    from <= stop + HELD_FROM_NS && until >= stop + HELD_UNTIL_NS
                };
                self.life.last_arrival_ns >= stop || self.life.stalls.iter().any(is_held)
            });
            if received != arrived && !(is_late && received < arrived) {
                return Err(format!("source {source}: {arrived} packets came, {received} counted"));
            }
            let counted = ledger[Entry::PacketsDroppedByKernel];
            if counted != dropped && !(is_late && counted < dropped) {
                return Err(format!("source {source}: {dropped} dropped, {counted} counted"));
            }
        }
        Ok(())
    }

    /// Every message and fragment that arrived over connections was counted, and those for which
    /// there was no memory stood in their buffers when the run ended.
    fn connections(&self) -> Result<(), String> {
        let sources = self.outcome.plan.sources.iter().enumerate();
        let streams = sources.filter(|(_, source)| source.in_stream).map(|(index, _)| index);
        if let Some((answered, taken)) = self.life.answered.iter().find(|one| one.0 > one.1) {
            return Err(format!("{answered} messages were answered as taken, {taken} were taken"));
        }
        // Messages of a port are counted for the first of its sources, whichever it gets; those
        // that a recorder that died had not recorded, nowhere.
        let has_all = streams.clone().all(|source| self.selected.sources[source]);
        if !has_all || self.life.deaths > 0 {
            return Ok(());
        }
        let sum = |of: &dyn Fn(usize) -> u64| streams.clone().map(of).sum::<u64>();
        let given = sum(&|source| self.life.arrived[source].0 - self.life.ungiven[source].0);
        let accepted = sum(&|source| self.ledger.sources[source][Entry::PacketsAccepted]);
        // With little memory the longest fragments are refused, and what stands behind one in a
        // buffer is no message any more.
        let refused = sum(&|source| self.ledger.sources[source][Entry::PacketsMalformedFragment]);
        let is_so = |counted, given| counted == given || refused > 0 && counted < given;
        if !is_so(accepted, given) {
            return Err(format!("{given} messages came over connections, {accepted} counted"));
        }
        for source in streams {
            let begun = self.life.arrivals[source].all().count() as u64;
            let given = begun - self.life.ungiven[source].1;
            let received = self.ledger.sources[source][Entry::FragmentsReceived];
            if !is_so(received, given) {
                return Err(format!(
                    "source {source}: {given} fragments came over connections, {received} counted"
                ));
            }
            let left = self.life.left[source].len() as u64;
            let discarded = self.ledger.sources[source][Entry::FragmentsDiscardedMemory];
            if discarded > left {
                return Err(format!(
                    "source {source} did not wait: {discarded} fragments were discarded, {left} \
                     were left"
                ));
            }
        }
        Ok(())
    }

    /// The contents of the files match the ledger, both live and in the last table of contents.
    fn files(&self) -> Result<(), String> {
        if let Some(damage) = self.recorded.damage.first() {
            return Err(format!("cannot be read: {damage}"));
        }
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let entries = [
                Entry::FragmentsRecorded,
                Entry::FragmentBytesRecorded,
                Entry::FragmentsMissing,
                Entry::FragmentsNotExpected,
            ];
            for (entry, found) in entries.into_iter().zip(self.recorded.counts[source]) {
                if ledger[entry] != found {
                    let counted = ledger[entry];
                    return Err(format!("source {source}: {entry}: {counted}, in files {found}"));
                }
            }
        }
        let last = self.recorded.files.last();
        let Some(toc) = last.and_then(|file| file.toc.as_ref()).filter(|toc| toc.run_ended())
        else {
            return match self.life.disk.is_empty() {
                true => Err("the run has no last table of contents".to_owned()),
                false => Ok(()),
            };
        };
        self.totals(&toc.ledger)?;
        let harmless = [StoreFault::Hang, StoreFault::TextError];
        if self.life.disk.iter().all(|fault| harmless.contains(fault)) {
            self.recorded.files.iter().try_for_each(contents::check)?;
        }
        let lost = self.ledger.balance().lost_data();
        let entry = Entry::FragmentsUnconfirmed;
        let is_late = |source| self.is_unconfirmed_late(source, entry, &toc.ledger);
        let is_known = !(0..self.ledger.sources.len()).any(is_late);
        if is_known && toc.data_lost() != lost {
            return Err(format!("the last file says lost: {}, the ledger {lost}", toc.data_lost()));
        }
        let bad = self.ledger.bad_data() > 0;
        if toc.data_bad() != bad {
            return Err(format!("the last file says bad: {}, the ledger {bad}", toc.data_bad()));
        }
        for file in &self.recorded.files {
            let listed = file.toc.as_ref().map_or(0, |toc| toc.frames);
            let there = file.frames.len() as u64;
            if file.toc.is_some() && listed != there {
                return Err(format!("file {}: {there} frames, {listed} listed", file.index));
            }
        }
        Ok(())
    }

    /// The number of events is right, and none counts twice.
    fn events(&self) -> Result<(), String> {
        let counts = &self.life.last.counts;
        if counts.events_recorded != self.recorded.rows {
            let (counted, rows) = (counts.events_recorded, self.recorded.rows);
            return Err(format!("{counted} events recorded, {rows} rows in files"));
        }
        let faults = self.outcome.plan.case.faults;
        let odd = [Fault::Renumber, Fault::Misnumber, Fault::Corrupt, Fault::Flood];
        // Of a source that came back behind the others, rows may stand in another numbering.
        if odd.into_iter().any(|fault| faults.has(fault)) || self.returns() > 0 {
            return Ok(());
        }
        let triggers = self.outcome.sent.sources.iter().flat_map(|source| &source.fragments);
        let triggers: BTreeSet<u64> = triggers.map(|fragment| fragment.trigger).collect();
        let span = match (triggers.first(), triggers.last()) {
            (Some(first), Some(last)) => last - first + 1,
            _ => 0,
        };
        let events = counts.events_complete + counts.events_incomplete + counts.events_absent;
        if events > span {
            return Err(format!("{events} events of {span}"));
        }
        if self.outcome.plan.config.build.incomplete == IncompletePolicy::Drop {
            return Ok(());
        }
        // Each event has a fragment or a gap for each required source. Events discarded because
        // they are too large are in no count of events; all sources have the same number of them.
        let too_large = self.ledger.total()[Entry::FragmentsDiscardedTooLarge];
        // Counts of events are those since the last death.
        let mut expected = (too_large == 0 && self.life.deaths == 0).then_some(events);
        // Only rows in files say who was not expected in them.
        let out = [Entry::FragmentsDiscardedDisk, Entry::FragmentsNotTaken];
        let are_all_there = out.map(|entry| self.ledger.total()[entry]) == [0; 2] && too_large == 0;
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            if !self.is_required(source) {
                continue;
            }
            if self.outcome.plan.sources[source].part.groups > 0 && !are_all_there {
                continue;
            }
            let placed = [
                Entry::FragmentsRecorded,
                Entry::FragmentsNotExpected,
                Entry::FragmentsNotTaken,
                Entry::FragmentsDiscardedDisk,
                Entry::FragmentsDiscardedTooLarge,
                Entry::FragmentsMissing,
                Entry::FragmentsMissingUnrecorded,
            ];
            let placed: u64 = placed.into_iter().map(|entry| ledger[entry]).sum();
            let expected = *expected.get_or_insert(placed);
            if placed != expected || placed < events {
                return Err(format!(
                    "source {source}: {placed} fragments and gaps, {events} events"
                ));
            }
        }
        Ok(())
    }

    fn is_required(&self, source: usize) -> bool {
        use catchment_builder::SourceRole::Required;
        self.selected.sources[source]
            && self.outcome.plan.sources.get(source).is_some_and(|plan| plan.role == Required)
    }

    /// The verdict is never good if data are lost, and never loss if none are.
    fn losses(&self) -> Result<(), String> {
        let balance = self.ledger.balance();
        let lost = balance.lost_data();
        if self.ledger.total()[Entry::FragmentsNotTaken] > 0 {
            // What a target did not take is no loss, and not there.
            return Ok(());
        }
        let missed = self.missed();
        match &missed {
            Some(what) if !lost && !self.may_be_forged() && !self.disk_lied() => {
                return Err(format!("good, and {what}"));
            }
            _ => {}
        }
        let total = self.ledger.total();
        let has_dropped = self.life.arrived.iter().any(|(_, dropped)| *dropped > 0);
        let refused = [Entry::FragmentsDiscardedOrder, Entry::FragmentsDiscardedTooLong];
        let refused: u64 = refused.into_iter().map(|entry| total[entry]).sum();
        let has_refused = total.sum(Role::PacketsLost) > 0 || refused > 0;
        // What a faulty disk did not confirm may be there, and nobody can know.
        let is_doubtful = total[Entry::FragmentsUnconfirmed] > 0 && !self.life.disk.is_empty();
        if !lost || has_dropped || has_refused || is_doubtful || missed.is_some() {
            return Ok(());
        }
        // A source with its own numbering lacks the others' events.
        if self.outcome.plan.case.faults.has(Fault::Misnumber) || !self.is_all_recorded() {
            return Ok(());
        }
        Err(format!("loss, and nothing is lost: {balance:?}"))
    }

    /// A fragment of a required source that is not in the files, although events before and after
    /// it in its numbering are.
    fn missed(&self) -> Option<String> {
        let fragments = &self.recorded.fragments;
        let recorded: BTreeSet<u64> = fragments.iter().flat_map(BTreeMap::keys).copied().collect();
        for (source, sent) in self.outcome.sent.sources.iter().enumerate() {
            if !self.is_required(source) {
                continue;
            }
            for (numbering, range) in numberings(&sent.fragments) {
                let mut inside = recorded.range(range.clone());
                let (Some(&first), Some(&last)) =
                    (inside.next(), recorded.range(range).next_back())
                else {
                    continue;
                };
                for fragment in &sent.fragments {
                    let trigger = fragment.trigger;
                    let is_inside = fragment.numbering == numbering
                        && (first..=last).contains(&trigger)
                        && fragment.sent_ns >= self.life.began_ns;
                    let is_paused = self.life.was_paused && !recorded.contains(&trigger);
                    if is_inside
                        && !is_paused
                        && self.outcome.plan.expects(source, trigger)
                        && !fragments[source].contains_key(&trigger)
                        && !self.is_jumped(trigger)
                    {
                        return Some(format!(
                            "the fragment of s{source} of event {trigger} is missing"
                        ));
                    }
                }
            }
        }
        self.missed_samples()
    }

    /// Whether nothing arrived of an event, nor of so many around it that the numbers may have
    /// restarted after it ([`Self::jumps`]): then nothing shows that it existed.
    fn is_jumped(&self, trigger: u64) -> bool {
        let sources = self.outcome.sent.sources.iter().zip(&self.life.arrivals);
        let arrived: BTreeSet<u64> = sources
            .take(self.outcome.plan.sources.len())
            .flat_map(|(sent, arrivals)| {
                arrivals.all().map(|(index, _)| sent.fragments[index].trigger)
            })
            .collect();
        let (before, behind) =
            (arrived.range(..=trigger).next_back(), arrived.range(trigger..).next());
        let window = self.outcome.plan.config.build.window_events;
        before.zip(behind).is_some_and(|(before, behind)| behind - before >= window / 2)
    }

    /// A sample that is not in the files, although samples before and after it are, if clocks run
    /// normally.
    fn missed_samples(&self) -> Option<String> {
        let faults = self.outcome.plan.case.faults;
        if faults.has(Fault::Clock) || self.life.was_paused {
            return None;
        }
        let apart = self.recorded.samples.iter().find(|(_, ranges)| ranges.len() > 1);
        if let Some(((link, channel), _)) = apart {
            return Some(format!("samples of channel {channel} of link {link} are missing"));
        }
        None
    }
}

/// A stall around a stop from which on, and until when, a receive agent may miss the end.
const HELD_FROM_NS: u64 = 50 * MS;
const HELD_UNTIL_NS: u64 = 150 * MS;

/// The numberings of a source, and the triggers of each.
fn numberings(fragments: &[SentFragment]) -> Vec<(u32, std::ops::RangeInclusive<u64>)> {
    let mut found: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for fragment in fragments {
        let (first, last) =
            found.entry(fragment.numbering).or_insert((fragment.trigger, fragment.trigger));
        (*first, *last) = ((*first).min(fragment.trigger), (*last).max(fragment.trigger));
    }
    found.into_iter().map(|(numbering, (first, last))| (numbering, first..=last)).collect()
}
