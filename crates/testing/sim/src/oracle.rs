//! What must be true of a run that has ended, whatever went wrong in it.
//!
//! The oracle knows what the detector sent, and reads the files by a walk of its own (`walk.rs`).
//! What the node says of itself (its ledger, its tables of contents, what its readers find) is
//! compared with that, never taken for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use catchment_builder::IncompletePolicy;
use catchment_model::ledger::Role;
use catchment_model::{Entry, Ledger};
use catchment_ports::StoreFault;
use catchment_recorder::State;

use crate::detector::SentFragment;
use crate::fault::Fault;
use crate::recorder::Life;
use crate::walk::{WalkedFile, WalkedFragment, walk};
use crate::world::Outcome;

/// What a life's files hold, by the oracle's walk.
#[derive(Debug, Default)]
pub struct Recorded {
    /// By source: how often each trigger's fragment is there.
    pub fragments: Vec<BTreeMap<u64, u64>>,
    /// By source: fragments, their bytes, rows that lack one.
    pub counts: Vec<[u64; 3]>,
    /// Rows.
    pub rows: u64,
    /// What cannot be read.
    pub damage: Vec<String>,
    /// By source and entry: what the frames' increments add up to.
    pub increments: BTreeMap<(usize, String), u64>,
    /// The files, by their index.
    pub files: Vec<WalkedFile>,
}

/// Defects of the program that are known and not mended: docs/guide/simulation.md describes them.
/// What follows from one is no failure, and is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Known {
    /// The recorder says that numbers began anew, and they did not.
    FalseRestart,
    /// The last frame could not be written, and the last table of contents could: the increments
    /// of the frames are less than its total.
    LastFrame,
}

/// Checks all of a run. Returns what is known of what it shows.
///
/// # Errors
/// The first rule that does not hold, and of what.
pub fn check(outcome: &Outcome) -> Result<Vec<Known>, String> {
    let mut known = Vec::new();
    for (number, life) in outcome.lives.iter().enumerate() {
        let named = |why: String| format!("recorder {number}: {why}");
        known.extend(Check::new(outcome, life).and_then(Check::run).map_err(named)?);
    }
    Ok(known)
}

/// Whether the recorder says that numbers began anew more often than they did.
fn restarted_falsely(outcome: &Outcome, life: &Life) -> bool {
    let faults = outcome.plan.case.faults;
    let restarts = life.last.ledger.sources.iter().map(|source| source[Entry::NumberingRestarts]);
    let made = [Fault::Renumber, Fault::Misnumber].into_iter().filter(|&one| faults.has(one));
    restarts.max().unwrap_or(0) > made.count() as u64
}

/// One life, and what is known of it.
struct Check<'a> {
    outcome: &'a Outcome,
    life: &'a Life,
    ledger: &'a Ledger,
    recorded: Recorded,
    known: Vec<Known>,
}

impl<'a> Check<'a> {
    fn new(outcome: &'a Outcome, life: &'a Life) -> Result<Self, String> {
        let recorded = read(outcome, life)?;
        let is_false = restarted_falsely(outcome, life);
        let known = is_false.then_some(Known::FalseRestart).into_iter().collect();
        Ok(Self { outcome, life, ledger: &life.last.ledger, recorded, known })
    }

    fn disk_lied(&self) -> bool {
        disk_lied(self.life)
    }

    fn has(&self, faults: &[StoreFault]) -> bool {
        self.life.disk.iter().any(|fault| faults.contains(fault))
    }

    /// Packets with changed bits, of protocols that do not notice, may say anything.
    fn may_be_forged(&self) -> bool {
        let sources = self.outcome.plan.sources.iter().zip(&self.outcome.sent.sources);
        sources.into_iter().any(|(plan, sent)| !plan.in_parts && !sent.corrupted.is_empty())
    }

    fn run(mut self) -> Result<Vec<Known>, String> {
        self.memory()?;
        self.at_any_time()?;
        if self.life.has_crashed {
            self.durable_reads_back()?;
        } else {
            self.at_rest()?;
            self.packets()?;
            self.losses()?;
            if !self.disk_lied() {
                self.files()?;
                self.events()?;
            }
        }
        crate::readers::check(self.outcome, self.life, &self.recorded, &self.known)?;
        Ok(self.known)
    }

    /// No queue or pool held more than it may, and all of them no more than the budget.
    fn memory(&self) -> Result<(), String> {
        for fill in &self.life.last.fills {
            if fill.highest > fill.capacity {
                return Err(format!("{} held {} of {}", fill.name, fill.highest, fill.capacity));
            }
        }
        Ok(())
    }

    /// What holds at any moment.
    fn at_any_time(&self) -> Result<(), String> {
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let balance = ledger.balance();
            if balance.fragments_in_flight < 0 || balance.packets_in_flight < 0 {
                return Err(format!("source {source}: more came out than went in: {balance:?}"));
            }
            if ledger[Entry::FragmentsDurable] > ledger[Entry::FragmentsRecorded] {
                return Err(format!("source {source}: more is durable than was recorded"));
            }
        }
        Ok(())
    }

    /// What was said to be durable can be read after the power has failed.
    fn durable_reads_back(&self) -> Result<(), String> {
        if self.disk_lied() {
            return Ok(());
        }
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
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
            if !balance.holds() {
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

    /// Every packet that came was counted.
    fn packets(&self) -> Result<(), String> {
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let (arrived, dropped) = self.life.arrived[source];
            let received = ledger[Entry::PacketsReceived];
            let is_late = self.life.stopped_ns.is_none_or(|stop| self.life.last_arrival_ns >= stop);
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

    /// What the files hold is what the ledger says, live and in the last table of contents.
    fn files(&mut self) -> Result<(), String> {
        if let Some(damage) = self.recorded.damage.first() {
            return Err(format!("cannot be read: {damage}"));
        }
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            let entries =
                [Entry::FragmentsRecorded, Entry::FragmentBytesRecorded, Entry::FragmentsMissing];
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
        let is_last_frame_there = self.totals(&toc.ledger)?;
        let lost = self.ledger.balance().lost_data();
        if toc.data_lost() != lost {
            return Err(format!("the last file says lost: {}, the ledger {lost}", toc.data_lost()));
        }
        for file in &self.recorded.files {
            let listed = file.toc.as_ref().map_or(0, |toc| toc.frames);
            let there = file.frames.len() as u64;
            if file.toc.is_some() && listed != there {
                return Err(format!("file {}: {there} frames, {listed} listed", file.index));
            }
        }
        self.known.extend((!is_last_frame_there).then_some(Known::LastFrame));
        Ok(())
    }

    /// Whether the frames' increments add up to the total, which is that of the live ledger.
    fn totals(&self, toc: &BTreeMap<(usize, String), u64>) -> Result<bool, String> {
        let refuses = [StoreFault::Full, StoreFault::WriteError, StoreFault::OpenError];
        let mut adds_up = true;
        let in_frames =
            [Entry::FragmentsRecorded, Entry::FragmentBytesRecorded, Entry::FragmentsMissing];
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            for (entry, count) in ledger.iter() {
                let key = (source, entry.name().to_owned());
                let of = |counts: &BTreeMap<_, u64>| counts.get(&key).copied().unwrap_or(0);
                let total = of(toc);
                if entry == Entry::FragmentsDurable {
                    continue;
                }
                if total != count {
                    return Err(format!("source {source}: {entry}: {count}, TOC {total}"));
                }
                let added = of(&self.recorded.increments);
                let is_explicit =
                    !in_frames.contains(&entry) && entry != Entry::BytesCompressionLowered;
                if is_explicit && added != count {
                    if added < count && self.has(&refuses) {
                        adds_up = false;
                        continue;
                    }
                    return Err(format!(
                        "source {source}: {entry}: {count}, frames add up to {added}"
                    ));
                }
            }
        }
        Ok(adds_up)
    }

    /// Events are as many as there were, and none counts twice.
    fn events(&self) -> Result<(), String> {
        let counts = &self.life.last.counts;
        if counts.events_recorded != self.recorded.rows {
            let (counted, rows) = (counts.events_recorded, self.recorded.rows);
            return Err(format!("{counted} events recorded, {rows} rows in files"));
        }
        let faults = self.outcome.plan.case.faults;
        let odd = [Fault::Renumber, Fault::Misnumber, Fault::Corrupt, Fault::Flood];
        if odd.into_iter().any(|fault| faults.has(fault)) {
            return Ok(());
        }
        let triggers = self.outcome.sent.sources.iter().flat_map(|source| &source.fragments);
        let triggers: BTreeSet<u64> = triggers.map(|fragment| fragment.trigger).collect();
        let span = match (triggers.first(), triggers.last()) {
            (Some(first), Some(last)) => last - first + 1,
            _ => 0,
        };
        let events = counts.events_complete + counts.events_incomplete + counts.events_absent;
        if self.known.contains(&Known::FalseRestart) {
            return Ok(());
        }
        if events > span {
            return Err(format!("{events} events of {span}"));
        }
        if self.outcome.plan.config.build.incomplete == IncompletePolicy::Drop {
            return Ok(());
        }
        // Each event has, of each required source, a fragment or a gap.
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            if !self.is_required(source) {
                continue;
            }
            let placed = [
                Entry::FragmentsRecorded,
                Entry::FragmentsDiscardedDisk,
                Entry::FragmentsMissing,
                Entry::FragmentsMissingUnrecorded,
            ];
            let placed: u64 = placed.into_iter().map(|entry| ledger[entry]).sum();
            if placed != events {
                return Err(format!(
                    "source {source}: {placed} fragments and gaps, {events} events"
                ));
            }
        }
        Ok(())
    }

    fn is_required(&self, source: usize) -> bool {
        use catchment_builder::SourceRole::Required;
        self.outcome.plan.sources[source].role == Required
    }

    /// The verdict is never good while data are lost, and never loss while none is.
    fn losses(&self) -> Result<(), String> {
        let lost = self.ledger.balance().lost_data();
        let missed = self.missed();
        match &missed {
            Some(what) if !lost && !self.may_be_forged() && !self.disk_lied() => {
                return Err(format!("good, and {what}"));
            }
            _ => {}
        }
        let packets = self.life.arrived.iter().any(|(_, dropped)| *dropped > 0);
        let refused: u64 = self.ledger.total().sum(Role::PacketsLost);
        let is_known = self.known.contains(&Known::FalseRestart);
        if lost
            && !is_known
            && missed.is_none()
            && self.is_all_recorded()
            && !packets
            && refused == 0
        {
            return Err(format!("loss, and nothing is lost: {:?}", self.ledger.balance()));
        }
        Ok(())
    }

    /// A fragment of a required source that is not in the files, though events before and after
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
                    if is_inside && !is_paused && !fragments[source].contains_key(&trigger) {
                        return Some(format!(
                            "the fragment of s{source} of event {trigger} is missing"
                        ));
                    }
                }
            }
        }
        None
    }

    /// Whether everything is in the files that was to be: all that was sent, but for events that
    /// are missing as a whole while the run was paused.
    fn is_all_recorded(&self) -> bool {
        let faults = self.outcome.plan.case.faults;
        let is_paused = faults.has(Fault::Pause);
        // Whole events are missing for no other reason.
        let lose_none = [Fault::Pause, Fault::Reorder, Fault::Duplicate, Fault::Starve];
        if self.outcome.lives.len() > 1
            || is_paused && !faults.iter().all(|fault| lose_none.contains(&fault))
        {
            return false;
        }
        let recorded = &self.recorded.fragments;
        let any: BTreeSet<u64> = recorded.iter().flat_map(BTreeMap::keys).copied().collect();
        let events = if is_paused { any.len() as u64 } else { self.outcome.plan.events };
        recorded.iter().enumerate().all(|(source, recorded)| {
            let sent = &self.outcome.sent.sources[source].fragments;
            let is_wanted = |one: &&SentFragment| !is_paused || any.contains(&one.trigger);
            let sent = sent.iter().filter(is_wanted).count();
            recorded.len() == sent && (sent as u64 == events || !self.is_required(source))
        })
    }
}

/// Whether files may hold other frames than those that were written without an error: the disk has
/// said that it had done what it had not, or has said the opposite, and then could not cut what was
/// not to be there.
pub(crate) fn disk_lied(life: &Life) -> bool {
    let has = |fault| life.disk.contains(&fault);
    let keeps =
        has(StoreFault::FinishError) && (has(StoreFault::WriteError) || has(StoreFault::Full));
    has(StoreFault::TornWrite) || has(StoreFault::MisdirectedWrite) || keeps
}

/// Lists the files and their frames, and what each recorder said of itself at its end.
pub fn files(outcome: &Outcome) -> String {
    let mut text = String::new();
    for life in &outcome.lives {
        let last = &life.last;
        for (source, ledger) in last.ledger.sources.iter().enumerate() {
            let counts = ledger.iter().filter(|(_, count)| *count > 0);
            let counts: String = counts.map(|(entry, count)| format!(" {entry} {count}")).collect();
            text += &format!("{} s{source}:{counts}\n", life.folder.display());
        }
        text += &format!("{:?} {:?} {:?}\n", last.state, last.counts, last.warnings);
    }
    for (path, bytes) in outcome.files.all() {
        let length = bytes.len();
        text += &match walk(&bytes) {
            Ok(Some(file)) => {
                let toc = file.toc.as_ref().map(|toc| (toc.flags, toc.frames));
                let frames = file.frames.iter().map(|frame| {
                    format!(
                        " {}@{}+{} ({} rows)",
                        frame.sequence, frame.offset, frame.bytes, frame.rows
                    )
                });
                let frames: String = frames.collect();
                format!("{}: {length} bytes, TOC {toc:?}:{frames}\n", path.display())
            }
            Ok(None) => format!("{}: {length} bytes, zeros\n", path.display()),
            Err(why) => format!("{}: {length} bytes, {why}\n", path.display()),
        };
    }
    text
}

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

/// Reads a life's files, and checks that nothing in them differs from what was sent.
fn read(outcome: &Outcome, life: &Life) -> Result<Recorded, String> {
    let count = outcome.plan.sources.len();
    let mut recorded = Recorded {
        fragments: vec![BTreeMap::new(); count],
        counts: vec![[0; 3]; count],
        ..Recorded::default()
    };
    let is_frames = |path: &Path| path.extension().is_some_and(|extension| extension == "catch");
    for (path, bytes) in outcome.files.all() {
        if !path.starts_with(&life.folder) || !is_frames(&path) {
            continue;
        }
        match walk(&bytes) {
            Ok(Some(file)) => recorded.files.push(file),
            Ok(None) => {}
            Err(why) => recorded.damage.push(format!("{}: {why}", path.display())),
        }
    }
    recorded.files.sort_by_key(|file| file.index);
    let files = std::mem::take(&mut recorded.files);
    // A write that went somewhere else may have left a whole frame there.
    let may_stray = disk_lied(life);
    let is_restarted = restarted_falsely(outcome, life);
    let mut sequences = BTreeSet::new();
    for file in &files {
        for frame in &file.frames {
            recorded.damage.extend(file.damage(frame));
            let last = sequences.last().copied();
            if last.is_some_and(|last| frame.sequence <= last) && !may_stray {
                return Err(format!("frame {} comes after {last:?}", frame.sequence));
            }
            if !sequences.insert(frame.sequence) {
                continue;
            }
            recorded.rows += frame.rows;
            for (key, count) in file.increment(frame)? {
                *recorded.increments.entry(key).or_default() += count;
            }
            read_rows(outcome, file, frame, &mut recorded, is_restarted)?;
        }
    }
    recorded.files = files;
    Ok(recorded)
}

fn read_rows(
    outcome: &Outcome,
    file: &WalkedFile,
    frame: &crate::walk::WalkedFrame,
    recorded: &mut Recorded,
    is_restarted: bool,
) -> Result<(), String> {
    // By row: the candidates of each fragment, which must be of one event.
    let mut rows: BTreeMap<usize, Vec<(usize, u64, Vec<SentFragment>)>> = BTreeMap::new();
    let mut wrong = None;
    let number_mask = (1 << outcome.plan.number_bits()) - 1;
    file.fragments(frame, |WalkedFragment { key, row, source, bytes }| {
        let Some(bytes) = bytes else {
            recorded.counts[source][2] += u64::from(file.required[source]);
            return;
        };
        recorded.counts[source][0] += 1;
        recorded.counts[source][1] += bytes.len() as u64;
        let sent = &outcome.sent.sources[source];
        let found: Vec<_> = sent.find(bytes).iter().map(|&at| sent.fragments[at]).collect();
        // Sub-events say their number themselves; empty fragments of several packets do not.
        let fits = |one: &&SentFragment| one.number == key & number_mask;
        let of_number: Vec<_> = found.iter().filter(fits).copied().collect();
        if of_number.is_empty() {
            let is_parts = outcome.plan.sources[source].in_parts;
            if is_parts || !sent.is_of_corrupted(bytes) {
                let what = match found.first() {
                    Some(one) => format!("the fragment of event {} ({})", one.trigger, one.number),
                    None => format!("{} bytes that it never sent", bytes.len()),
                };
                wrong.get_or_insert(format!("event {key}: s{source} has {what}"));
            }
            return;
        }
        rows.entry(row).or_default().push((source, key, of_number));
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    for fragments in rows.into_values() {
        one_event(outcome, &fragments, recorded, is_restarted)?;
    }
    Ok(())
}

/// The fragments of a row must be of one event, and recorded once.
fn one_event(
    outcome: &Outcome,
    fragments: &[(usize, u64, Vec<SentFragment>)],
    recorded: &mut Recorded,
    is_restarted: bool,
) -> Result<(), String> {
    let of = |fragments: &[SentFragment]| -> BTreeSet<u64> {
        fragments.iter().map(|fragment| fragment.trigger).collect()
    };
    let mut common: Option<BTreeSet<u64>> = None;
    for (.., candidates) in fragments {
        let triggers = of(candidates);
        common = Some(match common {
            None => triggers,
            Some(common) => common.intersection(&triggers).copied().collect(),
        });
    }
    let common = common.unwrap_or_default();
    // A source that has numbers of its own is matched by them.
    let may_differ = outcome.plan.case.faults.has(Fault::Misnumber);
    if common.is_empty() && !may_differ {
        let triggers: Vec<_> =
            fragments.iter().map(|(source, _, of_source)| (source, of(of_source))).collect();
        return Err(format!("event {}: its fragments are of {triggers:?}", fragments[0].1));
    }
    for (source, key, candidates) in fragments {
        let trigger = common.first().copied().unwrap_or(candidates[0].trigger);
        let count = recorded.fragments[*source].entry(trigger).or_default();
        *count += 1;
        if *count > 1 && candidates.len() == 1 && !is_restarted {
            return Err(format!("event {key}: the fragment of s{source} is recorded twice"));
        }
    }
    Ok(())
}
