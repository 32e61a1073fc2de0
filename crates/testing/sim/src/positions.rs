//! The logs of front-ends, compared with what the files have of them and say of them, and with what
//! the front-ends were told.

use std::collections::{BTreeMap, BTreeSet};

use catchment_model::ledger::Role;
use catchment_model::{Entry, Ledger};
use catchment_wire::session::Release;

use crate::fault::{Fault, Faults};
use crate::logs::{ItemKind, Log};
use crate::plan::{Selected, SourcePlan};
use crate::recorded::{Recorded, disk_lied};
use crate::recorder::Life;
use crate::samples;
use crate::walk::{WalkedFile, WalkedFragment, WalkedFrame, WalkedPosition, WalkedToc};
use crate::world::Outcome;

/// By source and session, up to where its log is decided.
type Decided = BTreeMap<(usize, u64), u64>;

/// Checks what front-ends were told and what they counted themselves.
///
/// # Errors
/// The first thing that must not be.
pub(crate) fn check_told(outcome: &Outcome) -> Result<(), String> {
    for front_end in &outcome.front_ends {
        if let Some(wrong) = &front_end.wrong {
            return Err(wrong.clone());
        }
    }
    Ok(())
}

/// What frames have of link sources.
#[derive(Default)]
struct Held {
    /// By source, the indices of its fragments.
    recorded: BTreeMap<usize, BTreeSet<usize>>,
    /// By source, fragments that are counted out.
    counted: BTreeMap<usize, u64>,
    /// The key below which all events are in frames, and by source the one below which its
    /// fragments are.
    closed: u64,
    keys: BTreeMap<usize, u64>,
    /// The frames below that number were durable in each required target.
    synced: u64,
}

/// A life's files as one target has them, and the logs of its sources.
struct Check<'a> {
    outcome: &'a Outcome,
    recorded: &'a Recorded,
    selected: &'a Selected,
    number: usize,
    /// By source, the sessions that were granted something in this life, in their order.
    logs: BTreeMap<usize, Vec<(u64, &'a Log)>>,
    /// By source, the indices of the fragments that were made for this life.
    own: BTreeMap<usize, BTreeSet<usize>>,
}

/// Checks a target's files of the life of that number.
///
/// # Errors
/// The first thing that must not be.
pub(crate) fn check(
    outcome: &Outcome,
    (number, life): (usize, &Life),
    recorded: &Recorded,
    selected: &Selected,
) -> Result<(), String> {
    if outcome.front_ends.is_empty() || disk_lied(life) {
        return Ok(());
    }
    let mut logs: BTreeMap<usize, Vec<(u64, &Log)>> = BTreeMap::new();
    for session in outcome.front_ends.iter().flat_map(|front_end| &front_end.sessions) {
        for log in session.logs.iter().filter(|log| log.told.contains_key(&number)) {
            logs.entry(log.source).or_default().push((session.number, log));
        }
    }
    let mut own: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (&source, log) in
        logs.iter().flat_map(|(source, all)| all.iter().map(move |(_, log)| (source, log)))
    {
        for (_, kind) in log.within(log.told[&number].begin, u64::MAX) {
            if let ItemKind::Fragment(index) = kind {
                own.entry(source).or_default().insert(index);
            }
        }
    }
    let check = Check { outcome, recorded, selected, number, logs, own };
    let is_kept = life.disk.is_empty() && life.last.targets[life.target].required;
    let (decided, held) = check.frames(is_kept)?;
    check.tables(life)?;
    if life.last.targets[life.target].required {
        check.durable(&decided, &held)?;
    }
    if life.has_crashed { Ok(()) } else { check.ended(life, &decided) }
}

impl Check<'_> {
    fn log(&self, source: usize, session: u64) -> Option<&Log> {
        let logs = self.logs.get(&source)?;
        logs.iter().find(|(number, _)| *number == session).map(|(_, log)| *log)
    }

    /// What the frames say agrees with what they hold. Returns both for all of them. Where the disk
    /// did nothing wrong, all that were synced are there.
    fn frames(&self, is_kept: bool) -> Result<(Decided, Held), String> {
        let (mut decided, mut held) = (Decided::new(), Held::default());
        let mut last: BTreeMap<(usize, u16, u64), u64> = BTreeMap::new();
        let (mut next, mut numbers) = (0, BTreeSet::new());
        // By their numbers: one that was begun late stands in a later file, and what it says is
        // said of those before it alone.
        let files = self.recorded.files.iter();
        let mut frames: Vec<(&WalkedFile, &WalkedFrame)> =
            files.flat_map(|file| file.frames.iter().map(move |frame| (file, frame))).collect();
        frames.sort_by_key(|(_, frame)| frame.sequence);
        for (file, frame) in frames {
            // What a crash has damaged is not there.
            if !file.damage(frame).is_empty() {
                continue;
            }
            let stands_for = frame.sequence..frame.sequence + frame.skips.unwrap_or(1);
            numbers.extend(stands_for);
            self.hold(file, frame, &mut held)?;
            for ((source, name), count) in file.increment(frame)? {
                *held.counted.entry(source).or_default() += counts_out(&name, count);
            }
            for WalkedPosition { source, what, session, position } in file.positions(frame)? {
                let before = last.insert((source, what, session), position).unwrap_or(0);
                if before > position {
                    let frame = frame.sequence;
                    return Err(format!(
                        "frame {frame}: {position} of source {source} after {before}"
                    ));
                }
                match what {
                    LINK => _ = decided.insert((source, session), position),
                    KEY => _ = held.keys.insert(source, position),
                    CLOSED => held.closed = position,
                    SYNCED => held.synced = position,
                    _ => {}
                }
            }
            // Behind a frame whose write failed late, its counts come with a later one.
            if frame.sequence == next {
                next += frame.skips.unwrap_or(1);
                self.agrees(&decided, &held)
                    .map_err(|why| format!("frame {}: {why}", frame.sequence))?;
            }
        }
        let lost = (0..held.synced).find(|number| !numbers.contains(number));
        if let Some(lost) = lost.filter(|_| is_kept) {
            return Err(format!("frame {lost} of {} that are synced is not there", held.synced));
        }
        Ok((decided, held))
    }

    /// Adds the fragments of link sources that a frame has, by their indices. None is of an event
    /// that earlier frames have closed.
    fn hold(
        &self,
        file: &WalkedFile,
        frame: &WalkedFrame,
        Held { recorded, closed, keys, .. }: &mut Held,
    ) -> Result<(), String> {
        let mask = (1 << self.outcome.plan.number_bits()) - 1;
        let mut late = None;
        file.fragments(frame, |WalkedFragment { key, source, bytes, .. }| {
            let first = keys.get(&source).filter(|_| bytes.is_some()).max(Some(&*closed));
            late = late.or(first.filter(|first| key < **first).map(|first| (source, key, *first)));
            let Some((bytes, own)) = bytes.zip(self.own.get(&source)) else { return };
            let sent = &self.outcome.sent.sources[source];
            let fits = |&&at: &&usize| sent.fragments[at].number == key & mask && own.contains(&at);
            let of_source = recorded.entry(source).or_default();
            // Empty fragments may be alike: each stands for another one.
            let is_new = |at: &&usize| !of_source.contains(at);
            let found = sent.find(bytes).iter().filter(fits);
            if let Some(&at) = found.clone().find(is_new).or(found.clone().next()) {
                of_source.insert(at);
            }
        })?;
        match late {
            Some((source, key, first)) => Err(format!(
                "frame {}: key {key} of source {source}, below {first}",
                frame.sequence
            )),
            None => Ok(()),
        }
    }

    /// All fragments below these positions are in these frames, or counted out in them. Increments
    /// name no session, so that the sessions of a source are one here.
    fn agrees(&self, positions: &Decided, held: &Held) -> Result<(), String> {
        let mut absent: BTreeMap<usize, u64> = BTreeMap::new();
        for (&(source, session), &position) in positions {
            if !self.selected.sources[source] {
                continue;
            }
            let Some(log) = self.log(source, session) else { continue };
            let begin = log.told[&self.number].begin;
            let of_source = held.recorded.get(&source);
            let has = |index: &usize| of_source.is_some_and(|all| all.contains(index));
            let is_absent = |&(_, kind): &(u64, ItemKind)| match kind {
                ItemKind::Fragment(index) => !has(&index),
                ItemKind::ContentFault => true,
                ItemKind::Abandoned | ItemKind::End | ItemKind::Mark => false,
                // By its samples: `samples.rs`.
                ItemKind::Packet { .. } => false,
            };
            // What is outside of the run is in no frame, and in no count.
            let end = position.min(log.ended_at(begin));
            *absent.entry(source).or_default() +=
                log.within(begin, end).filter(is_absent).count() as u64;
        }
        for (source, absent) in absent {
            let counted = held.counted.get(&source).copied().unwrap_or(0);
            if absent > counted {
                return Err(format!(
                    "{absent} fragments of source {source} below its positions are \
                     in no frame, {counted} are counted"
                ));
            }
        }
        Ok(())
    }

    /// Tables of contents have the positions of the frames up to theirs, and at least those of
    /// their own file: where the disk is slow, an earlier file may not be there yet.
    fn tables(&self, life: &Life) -> Result<(), String> {
        if !life.disk.is_empty() || !self.recorded.damage.is_empty() {
            return Ok(());
        }
        let is_slow = self.outcome.plan.case.faults.slow_disk();
        let mut newest: BTreeMap<(usize, u16, u64), u64> = BTreeMap::new();
        for file in &self.recorded.files {
            let mut own = BTreeMap::new();
            for frame in &file.frames {
                for WalkedPosition { source, what, session, position } in file.positions(frame)? {
                    own.insert((source, what, session), position);
                }
            }
            newest.extend(&own);
            // A power cut may leave the table and take a part of it, or a frame that it lists.
            let is_whole = |toc: &&WalkedToc| {
                let is_torn = life.has_crashed
                    && !life.was_killed
                    && life.unsynced.contains(&file.path)
                    && !file.damage(&toc.frame).is_empty();
                toc.frames == file.frames.len() as u64 && !is_torn
            };
            let Some(toc) = file.toc.as_ref().filter(is_whole) else { continue };
            for WalkedPosition { source, what, session, position } in toc.positions()? {
                let key = (source, what, session);
                let most = newest.get(&key);
                let least = if is_slow { own.get(&key) } else { most };
                let is_there = most.is_some_and(|most| position <= *most);
                if !is_there || least.is_some_and(|least| position < *least) {
                    return Err(format!(
                        "the TOC of file {} says {position} of source {source} ({what}), its \
                         frames {most:?}",
                        file.index
                    ));
                }
            }
        }
        Ok(())
    }

    /// What was told to be durable is decided by the files, and in them or counted out in them.
    fn durable(&self, decided: &Decided, held: &Held) -> Result<(), String> {
        let mut durable = Decided::new();
        for (&source, logs) in self.logs.iter().filter(|(one, _)| self.selected.sources[**one]) {
            for (session, log) in logs {
                let told = log.told[&self.number];
                let here = decided.get(&(source, *session)).copied().unwrap_or(told.begin);
                if told.durable > here.max(told.begin) {
                    return Err(format!(
                        "source {source}: {} is told to be durable, the files have {here}",
                        told.durable
                    ));
                }
                durable.insert((source, *session), told.durable);
            }
            samples::durable(self.outcome, (self.recorded, self.selected), (source, self.number))?;
        }
        self.agrees(&durable, held).map_err(|why| format!("told to be durable: {why}"))
    }

    /// At the end of a run all that was taken is decided, and nothing else.
    fn ended(&self, life: &Life, decided: &Decided) -> Result<(), String> {
        for (&source, logs) in self.logs.iter().filter(|(one, _)| self.selected.sources[**one]) {
            // Fragments, refused ones and abandoned ones: up to a mark that the run ends, which a
            // recorder that goes on with its run does not heed, and of all.
            let (mut least, mut most) = ([0; 3], [0; 3]);
            let mut indices = BTreeSet::new();
            for (session, log) in logs {
                let told = log.told[&self.number];
                let end = decided.get(&(source, *session)).copied().unwrap_or(told.begin);
                // What a recorder that died had taken is taken again from those who still have it.
                let is_newest = told.deaths == life.deaths;
                // A mark that the run ends, and what is behind it, is outside of it: that may come
                // when nothing is built any more.
                let of_run = told.taken.min(log.ended_at(told.begin));
                if end < of_run && is_newest && life.disk.is_empty() {
                    return Err(format!(
                        "source {source}: {} was taken, its last position is {end}",
                        told.taken
                    ));
                }
                let before = end.min(log.ended_at(told.begin));
                for (end, made) in [(before, &mut least), (end, &mut most)] {
                    for (count, kind) in log.within(told.begin, end) {
                        match kind {
                            ItemKind::Fragment(index) => {
                                made[0] += 1;
                                indices.insert(index);
                            }
                            ItemKind::ContentFault => {
                                made[0] += 1;
                                made[1] += 1;
                            }
                            ItemKind::Abandoned => made[2] += count,
                            ItemKind::End | ItemKind::Mark | ItemKind::Packet { .. } => {}
                        }
                    }
                }
            }
            // Of a link parts are counted, and not packets.
            if !life.disk.is_empty() || source >= self.outcome.plan.sources.len() {
                continue;
            }
            let ledger = &life.last.ledger.sources[source];
            // With little memory less than the longest fragment is granted.
            let is_granted = !self.outcome.plan.case.faults.has(Fault::SmallMemory);
            let of_order = ledger[Entry::FragmentsDiscardedOrder];
            let all = of_order + ledger[Entry::FragmentsDiscardedTooLong];
            let counts = [
                ("received", ledger[Entry::FragmentsReceived]),
                ("refused", if is_granted { all } else { all.min(most[1]) }),
                ("abandoned", ledger[Entry::FragmentsAbandoned]),
            ];
            let made = least.into_iter().zip(most);
            let mut wrong = counts
                .iter()
                .zip(made)
                .filter(|(one, (least, most))| !(least..=most).contains(&&one.1));
            if let Some(((what, counted), (least, most))) = wrong.next() {
                return Err(format!(
                    "source {source}: {counted} {what}, its logs have {least} to {most}"
                ));
            }
            let sent = &self.outcome.sent.sources[source];
            for trigger in self.recorded.fragments[source].keys() {
                let is_of_run = sent.index_of(*trigger).is_some_and(|at| indices.contains(&at));
                if !is_of_run && !self.recorded.ambiguous.contains(&(source, *trigger)) {
                    return Err(format!(
                        "source {source}: the fragment of event {trigger} is recorded, and not \
                         within its positions"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// How many fragments are in no frame by that entry.
pub(crate) fn counts_out(name: &str, count: u64) -> u64 {
    let entry = Entry::from_name(name);
    let is_out = |entry: Entry| {
        matches!(entry.role(), Role::FragmentsOut | Role::FragmentsLost)
            && entry != Entry::FragmentsRecorded
            || matches!(
                entry,
                Entry::FragmentsRemoved
                    | Entry::FragmentsUnconfirmed
                    | Entry::FragmentCountsUnconfirmed
            )
    };
    if entry.is_some_and(is_out) { count } else { 0 }
}

/// Without faults nothing is given up: all that was made is durable, and its sender knows.
///
/// # Errors
/// A log of which something is not.
pub(crate) fn check_whole(outcome: &Outcome) -> Result<(), String> {
    for front_end in &outcome.front_ends {
        for (log, of) in
            front_end.sessions.iter().flat_map(|session| session.logs.iter().enumerate())
        {
            if front_end.plan.release == Release::Durable && of.durable != of.made() {
                let (name, made) = (&front_end.plan.name, of.made());
                return Err(format!("{name}, log {log}: {} of {made} are durable", of.durable));
            }
        }
    }
    Ok(())
}

/// Without faults nothing is missing between the edges of a run whose sources mark both.
///
/// # Errors
/// A source of which something is.
pub(crate) fn check_edges(outcome: &Outcome, ledger: &Ledger) -> Result<(), String> {
    let plan = &outcome.plan;
    let marks = |source: &SourcePlan| {
        let sender = source.log.map(|log| &plan.senders[log.sender]);
        sender.is_some_and(|sender| sender.marks && sender.manners.is_some())
    };
    let all_mark = plan.control.is_some() && plan.sources.iter().all(marks);
    if plan.case.faults != Faults::NONE || !all_mark {
        return Ok(());
    }
    for (source, ledger) in ledger.sources.iter().enumerate() {
        let part = plan.sources.get(source).map(|source| source.part.clone()).unwrap_or_default();
        // Those that are not expected in all events move no edge.
        if part.groups > 0 {
            continue;
        }
        let missing = ledger[Entry::FragmentsMissing] + ledger[Entry::FragmentsMissingUnrecorded];
        let dropped = [
            Entry::FragmentsAbandoned,
            Entry::FragmentsDiscardedOrder,
            Entry::FragmentsDiscardedTooLong,
            Entry::FragmentsDiscardedIncomplete,
        ];
        let dropped: u64 = dropped.into_iter().map(|entry| ledger[entry]).sum();
        let dropped = dropped + part.idle.end.min(plan.events).saturating_sub(part.idle.start);
        if missing > dropped {
            return Err(format!(
                "source {source}: {missing} fragments are missing within the run's edges, \
                 {dropped} were dropped"
            ));
        }
    }
    Ok(())
}

/// What a position is one of: sequences of a log below it are decided, or keys of a source; events
/// below it are closed; frames below it were durable.
const LINK: u16 = 0;
const KEY: u16 = 2;
const CLOSED: u16 = 3;
const SYNCED: u16 = 4;
