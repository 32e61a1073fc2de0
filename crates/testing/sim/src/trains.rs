//! Trains: fragments of many packets, from two feeders that lose, repeat, mix and restart them.
//!
//! A run of its own, beside that of the detector: every source sends each train, in packets that
//! are written here from [the specification](../../../../docs/spec/train-transfer.md), and each
//! train has a fate that its seed draws. A packet comes *in time*, with the others of its train, or
//! so late that the train is closed, or never. So it is known before what is recorded:
//!
//! | came in time | |
//! |---|---|
//! | all of it | the train |
//! | all but an eighth at most | the train, with zeros and holes exactly where nothing came |
//! | less | nothing: given up |
//!
//! Where memory is short, a train is dropped in every source or in none; and it never is where
//! memory was not spent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use catchment_agent::Work;
use catchment_fixtures::Random;
use catchment_frame::{Codings, ColumnCoding};
use catchment_model::{Entry, SourceLedger};
use catchment_ports::{MemoryFiles, StoreFaults, VirtualClock};
use catchment_recorder::{RecorderConfig, SourceConfig};
use catchment_wire::hadtu::ByteOrder;
use catchment_wire::trains::{MarkPlace, TrainSettings, Trains};

use crate::case::Case;
use crate::conductor;
use crate::detector::Packet;
use crate::fault::{Fault, Faults};
use crate::groups::Part;
use crate::plan::{self, BEGIN_NS, MS, Plan, S, SourcePlan};
use crate::recorder::{Life, Recorder};
use crate::{Fragments, caught};

/// Runs the trains of a case, and checks them.
///
/// # Errors
/// The rule that was broken.
pub(crate) fn simulate(case: &Case) -> Result<Fragments, String> {
    let run = Run::of(case);
    let outcome = caught(|| run.record());
    let (life, files) = outcome.unwrap_or_else(|what| Err(format!("an agent panicked: {what}")))?;
    run.check(&life, &files)
}

/// What is sent, and when.
struct Run {
    plan: Plan,
    settings: Vec<TrainSettings>,
    first: u64,
    interval_ns: u64,
    /// By source and train: the packets that come in time.
    in_time: Vec<Vec<BTreeSet<u64>>>,
    /// In the order of their times: source, feeder, train and packet.
    arrivals: Vec<(u64, Arrival)>,
    stop_ns: u64,
    /// How often a feeder began its train again: at once, and when it was closed.
    restarts: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    source: usize,
    feeder: usize,
    train: u64,
    packet: u64,
}

impl Run {
    fn of(case: &Case) -> Self {
        let mut chance = case.chance("trains");
        let count = (1 + chance.index(3)).min(case.sources_max as usize);
        let most = [20_000, 60_000, 200_000][chance.index(3)];
        // Of many chunks, of which little memory holds a few.
        let is_long = case.chance("long trains").chance(200);
        let train_bytes = 20_000 + chance.below(most) + if is_long { LONG_BYTES } else { 0 };
        let settings = (0..count).map(|source| settings(&mut chance, source, train_bytes));
        let settings: Vec<_> = settings.collect();
        let trains = (20 + chance.below(50)).min(case.events_max);
        let trains = if is_long { trains.min(20) } else { trains };
        let interval_ns = 10 * MS + chance.below(20 * MS);
        let timeout_ns = 24 * interval_ns + 200 * MS;
        let plan = plan(case, &settings, timeout_ns, &mut chance);
        let mut run = Self {
            plan,
            first: [0, chance.below(1 << 20)][chance.index(2)],
            interval_ns,
            in_time: settings.iter().map(|_| Vec::new()).collect(),
            arrivals: Vec::new(),
            stop_ns: BEGIN_NS + BEFORE_NS + (trains + 1) * interval_ns + 4 * timeout_ns,
            settings,
            restarts: [0; 2],
        };
        for train in 0..trains {
            for source in 0..count {
                run.send((case, &mut chance), source, train);
            }
        }
        run.arrivals.sort_unstable();
        run
    }

    fn timeout_ns(&self) -> u64 {
        self.plan.config.build.timeout_ns
    }

    /// Draws the fate of a source's train.
    fn send(&mut self, (case, chance): (&Case, &mut Random), source: usize, train: u64) {
        let packets = packets(&self.settings[source]);
        let (interval_ns, timeout_ns) = (self.interval_ns, self.timeout_ns());
        let begin_ns = BEGIN_NS + BEFORE_NS + train * interval_ns + chance.below(interval_ns / 4);
        // Into the next one's time, which is of the other feeder.
        let spread_ns = interval_ns / 8 + chance.below(interval_ns);
        let feeder = (train % FEEDERS) as usize;
        let mut order: Vec<u64> = (0..packets).collect();
        if case.faults.has(Fault::Reorder) {
            shuffle(&mut order, chance);
        }
        let is_long = packets > 1;
        let mut lost = BTreeSet::new();
        if case.faults.has(Fault::Loss) && chance.chance(300) {
            let most = [1, 1 + packets / 8, 1 + packets / 3][chance.index(3)];
            lost.extend((0..1 + chance.below(most)).map(|_| chance.below(packets)));
        }
        let mut at = |ns: u64, packet: u64| {
            self.arrivals.push((ns, Arrival { source, feeder, train, packet }));
        };
        let place_ns = |index: usize| begin_ns + spread_ns * index as u64 / packets;
        let mut in_time = BTreeSet::new();
        // A feeder that dies begins its train again: at once, or when it is closed.
        let dies = case.faults.has(Fault::Die) && chance.chance(150);
        let before = if dies { 1 + chance.index(order.len()) } else { order.len() };
        for (index, &packet) in order.iter().enumerate().take(before) {
            if lost.contains(&packet) {
                continue;
            }
            at(place_ns(index), packet);
            in_time.insert(packet);
            if case.faults.has(Fault::Duplicate) && chance.chance(100) {
                at(place_ns(index) + chance.below(interval_ns), packet);
            }
        }
        if dies {
            let is_late = is_long && chance.chance(500) && !in_time.is_empty();
            self.restarts[usize::from(is_late)] += 1;
            let wait_ns = if is_late { 2 * timeout_ns } else { chance.below(interval_ns) };
            for (index, &packet) in order.iter().enumerate() {
                at(place_ns(before) + wait_ns + spread_ns * index as u64 / packets, packet);
                if !is_late {
                    in_time.insert(packet);
                }
            }
        } else if is_long && !in_time.is_empty() {
            // What was lost comes when the train is closed, or what came comes again.
            let late = if case.faults.has(Fault::Delay) { lost } else { BTreeSet::new() };
            let again = case.faults.has(Fault::Duplicate) && chance.chance(200);
            let again = again.then(|| order[chance.index(order.len())]);
            for packet in late.into_iter().chain(again.filter(|one| in_time.contains(one))) {
                at(begin_ns + 2 * timeout_ns + chance.below(timeout_ns), packet);
            }
        }
        self.in_time[source].push(in_time);
    }

    /// The run, in virtual time.
    fn record(&self) -> Result<(Life, MemoryFiles), String> {
        let (clock, files) = (VirtualClock::at(BEGIN_NS), MemoryFiles::default());
        let mut times = self.plan.case.chance("times of trains");
        let mut recorder = Recorder::begin(&self.plan, 0, (&clock, &files), None)?;
        let mut arrivals = self.arrivals.iter().peekable();
        for _ in 0..STEPS_MAX {
            let is_over = arrivals.peek().is_none();
            let stop_ns = if recorder.life.stopped_ns.is_some() { u64::MAX } else { self.stop_ns };
            let next_ns = arrivals.peek().map_or(stop_ns, |(at_ns, _)| *at_ns);
            clock.advance_to(next_ns.min(recorder.next_ns()));
            let now_ns = clock.now_ns();
            while let Some((_, arrival)) = arrivals.next_if(|(at_ns, _)| *at_ns <= now_ns) {
                let packet = Packet::unknown(self.packet(arrival));
                let sender = SocketAddr::from(([10, 0, 0, 1 + arrival.feeder as u8], 4_000));
                recorder.deliver_from(Some(sender), arrival.source, packet, now_ns);
            }
            if is_over && now_ns >= stop_ns {
                conductor::stop(now_ns, &mut recorder);
            }
            call(&mut recorder, now_ns, &mut times);
            let _news = recorder.disk_news();
            if recorder.slots.is_empty() {
                return Ok((recorder.ended(), files));
            }
        }
        Err(format!("trains: after {STEPS_MAX} steps the run has not ended"))
    }

    /// A packet: its bytes of the train and, before or behind them, the mark.
    fn packet(&self, arrival: &Arrival) -> Vec<u8> {
        let settings = &self.settings[arrival.source];
        let is_last = arrival.packet + 1 == packets(settings);
        let flags = u64::from(arrival.packet == 0) | u64::from(is_last) << 1;
        let number = self.first + arrival.train;
        let fields = [
            (number, settings.frame_bytes),
            (flags, settings.flags_bytes),
            (arrival.packet, settings.packet_bytes),
        ];
        let mut mark = Vec::new();
        for (value, width) in fields {
            let bytes = value.to_le_bytes();
            let bytes = bytes[..width as usize].iter();
            match settings.byte_order {
                ByteOrder::Little => mark.extend(bytes),
                ByteOrder::Big => mark.extend(bytes.rev()),
            }
        }
        let part = self.part(arrival.source, arrival.train, arrival.packet);
        match settings.mark {
            MarkPlace::Header => [mark, part].concat(),
            MarkPlace::Trailer => [part, mark].concat(),
        }
    }

    /// The bytes of a train.
    fn train(&self, source: usize, train: u64) -> Vec<u8> {
        let packets = 0..packets(&self.settings[source]);
        packets.flat_map(|packet| self.part(source, train, packet)).collect()
    }

    /// Those in a packet.
    fn part(&self, source: usize, train: u64, packet: u64) -> Vec<u8> {
        let Range { start, end } = range(&self.settings[source], packet);
        let seed = self.plan.case.seed ^ (packet << 32) ^ (train << 8) ^ source as u64;
        let mut chance = Random::new(seed);
        let words = std::iter::repeat_with(|| chance.next_u64().to_le_bytes());
        words.flatten().take((end - start) as usize).collect()
    }

    /// The ranges of a train that did not come in time.
    fn holes(&self, source: usize, train: u64) -> Vec<Range<u64>> {
        let settings = &self.settings[source];
        let in_time = &self.in_time[source][train as usize];
        let mut holes: Vec<Range<u64>> = Vec::new();
        for packet in (0..packets(settings)).filter(|packet| !in_time.contains(packet)) {
            let hole = range(settings, packet);
            match holes.last_mut().filter(|before| before.end == hole.start) {
                Some(before) => before.end = hole.end,
                None => holes.push(hole),
            }
        }
        holes
    }

    fn check(&self, life: &Life, files: &MemoryFiles) -> Result<Fragments, String> {
        let recorded = self.recorded(files)?;
        let ledger = |source: usize| &life.last.ledger.sources[source];
        let mut counts = Fragments::default();
        let mut refused = BTreeMap::<u64, Vec<usize>>::new();
        for source in 0..self.settings.len() {
            let of = |why: String| format!("trains of source {source}: {why}");
            let given_up = self.check_source(source, &recorded, ledger(source)).map_err(of)?;
            for train in given_up.refused {
                refused.entry(train).or_default().push(source);
            }
            counts.add(&given_up.counts);
        }
        self.check_memory(life, &recorded, &refused)?;
        Ok(counts)
    }

    /// By source and train: the holes of what is in the files, whose other bytes are the train's.
    fn recorded(&self, files: &MemoryFiles) -> Result<Recorded, String> {
        let mut recorded: Recorded = self.settings.iter().map(|_| BTreeMap::new()).collect();
        let is_frames = |(path, _): &(PathBuf, _)| path.extension() == Some("catch".as_ref());
        for (path, bytes) in files.all().into_iter().filter(is_frames) {
            let named = |why: String| format!("{}: {why}", path.display());
            let Some(file) = crate::walk::walk(&bytes).map_err(named)? else { continue };
            for frame in &file.frames {
                if let Some(damage) = file.damage(frame).first() {
                    return Err(named(damage.clone()));
                }
                let holes: Vec<_> =
                    (0..self.settings.len()).map(|source| file.holes(frame, source)).collect();
                let mut wrong = None;
                file.fragments(frame, |fragment| {
                    let (source, Some(bytes)) = (fragment.source, fragment.bytes) else { return };
                    let own = holes[source].iter().filter(|hole| hole.0 == fragment.row as u64);
                    let own: Vec<Range<u64>> = own.map(|(_, hole)| hole.clone()).collect();
                    let train = fragment.key.wrapping_sub(self.first);
                    let why = match self.in_time[source].len() as u64 > train {
                        true => self.difference((source, train), bytes, &own),
                        false => Some("it was never sent".to_owned()),
                    };
                    let is_there = recorded[source].insert(train, own).is_some();
                    let why = why.or(is_there.then(|| "it is recorded twice".to_owned()));
                    wrong =
                        wrong.take().or(why.map(|why| format!("train {train} of {source}: {why}")));
                })?;
                wrong.map_or(Ok(()), |why| Err(named(why)))?;
            }
        }
        Ok(recorded)
    }

    /// How a recorded train differs from what was sent, with zeros in its holes.
    fn difference(
        &self,
        (source, train): (usize, u64),
        bytes: &[u8],
        holes: &[Range<u64>],
    ) -> Option<String> {
        let mut sent = self.train(source, train);
        for hole in holes {
            let Some(hole) = sent.get_mut(hole.start as usize..hole.end as usize) else {
                return Some(format!("a hole {hole:?} beyond its end"));
            };
            hole.fill(0);
        }
        let at = sent.iter().zip(bytes).position(|(one, other)| one != other);
        let is_short = (sent.len() != bytes.len()).then(|| sent.len().min(bytes.len()));
        at.or(is_short).map(|at| format!("byte {at} of {} is another one", bytes.len()))
    }

    /// Compares a source's trains with what came of them.
    fn check_source(
        &self,
        source: usize,
        recorded: &Recorded,
        ledger: &SourceLedger,
    ) -> Result<OfSource, String> {
        let mut of = OfSource::default();
        let settings = &self.settings[source];
        let (mut unfinished, mut with_holes, mut lost_bytes) = (0, 0, 0);
        for (train, in_time) in (0..).zip(&self.in_time[source]) {
            of.counts.sent += u64::from(!in_time.is_empty());
            let expected = self.holes(source, train);
            let bytes: u64 = expected.iter().map(|hole| hole.end - hole.start).sum();
            let is_kept = !in_time.is_empty() && bytes <= settings.train_bytes / 8;
            of.counts.required += u64::from(is_kept);
            match recorded[source].get(&train) {
                Some(_) if !is_kept => {
                    return Err(format!("train {train} lacks {bytes} bytes, and is recorded"));
                }
                Some(holes) if *holes != expected => {
                    return Err(format!("train {train}: holes {holes:?}, not {expected:?}"));
                }
                Some(holes) => {
                    of.counts.recorded += 1;
                    with_holes += u64::from(!holes.is_empty());
                    lost_bytes += bytes;
                }
                None if is_kept => of.refused.push(train),
                None => unfinished += u64::from(!in_time.is_empty()),
            }
        }
        let balance = ledger.balance();
        if !balance.holds() || balance.fragments_in_flight != 0 {
            return Err(format!("its ledger does not balance: {balance:?}"));
        }
        // Events that wait for one with holes close without it where memory is short.
        let refused = ledger[Entry::FragmentsDiscardedMemory] + ledger[Entry::FragmentsLate];
        if of.refused.len() as u64 > refused {
            let (count, first) = (of.refused.len(), of.refused[0]);
            let counts = ledger.iter().filter(|(_, count)| *count > 0);
            let counts: String = counts.map(|(entry, count)| format!(" {entry} {count}")).collect();
            return Err(format!("{count} trains are missing, the first is {first}:{counts}"));
        }
        let counts = [
            (Entry::FragmentsRecorded, of.counts.recorded),
            (Entry::FragmentsWithHoles, with_holes),
            (Entry::FragmentBytesLost, lost_bytes),
            (Entry::FragmentsBadChecksum, 0),
        ];
        // Of a train that was refused nobody says what else became of it; of one in a packet each
        // repetition is received.
        let is_known = refused == 0 && packets(settings) > 1;
        let more = [
            (Entry::FragmentsReceived, of.counts.sent),
            (Entry::FragmentsDiscardedUnfinished, unfinished),
        ];
        let more = more.into_iter().filter(|_| is_known);
        for (entry, expected) in counts.into_iter().chain(more) {
            if ledger[entry] != expected {
                return Err(format!("{entry}: {}, not {expected}", ledger[entry]));
            }
        }
        Ok(of)
    }

    /// Memory refuses a train in all sources or in none, and only where it was spent.
    fn check_memory(
        &self,
        life: &Life,
        recorded: &Recorded,
        refused: &BTreeMap<u64, Vec<usize>>,
    ) -> Result<(), String> {
        let total = life.last.ledger.total();
        let segments = life.last.fills.iter().find(|fill| fill.name == "segments");
        let segments = segments.ok_or("no segments")?;
        let of_all: u64 =
            self.settings.iter().map(|one| one.train_bytes.next_multiple_of(256 << 10)).sum();
        let was_spent = segments.highest + SPENT_TRAINS * of_all >= segments.capacity;
        if total[Entry::FragmentsDiscardedMemory] > 0 && !was_spent {
            let (highest, capacity) = (segments.highest, segments.capacity);
            return Err(format!("trains were refused, and memory held {highest} of {capacity}"));
        }
        let late = total[Entry::FragmentsLate];
        if late > 0 && segments.capacity > WAITING_TRAINS * of_all {
            return Err(format!("{late} trains are late, and there is memory to wait for them"));
        }
        for (train, sources) in refused.iter().filter(|_| late == 0) {
            let has = |source: &usize| recorded[*source].contains_key(train);
            let long = (0..self.settings.len()).filter(|&one| packets(&self.settings[one]) > 1);
            if let Some(other) = long.into_iter().find(has) {
                return Err(format!("train {train} is refused in {sources:?}, and not in {other}"));
            }
        }
        Ok(())
    }
}

/// By source and train: its holes.
type Recorded = Vec<BTreeMap<u64, Vec<Range<u64>>>>;

/// What became of a source's trains.
#[derive(Default)]
struct OfSource {
    counts: Fragments,
    /// Those that came and are not there.
    refused: Vec<u64>,
}

fn settings(chance: &mut Random, source: usize, train_bytes: u64) -> TrainSettings {
    let is_long = train_bytes > LONG_BYTES;
    let payload_bytes = if is_long { [8_184, 20_000, 60_000] } else { [1_000, 4_000, 8_184] };
    let payload_bytes = payload_bytes[chance.index(3)];
    // Beside others, some sources have trains of one packet.
    let is_short = source > 0 && chance.chance(400);
    let train_bytes = if is_short { 1 + chance.below(payload_bytes) } else { train_bytes };
    TrainSettings {
        train_bytes,
        payload_bytes: payload_bytes as u32,
        mark: [MarkPlace::Trailer, MarkPlace::Header][chance.index(2)],
        byte_order: [ByteOrder::Little, ByteOrder::Big][chance.index(2)],
        frame_bytes: 3 + chance.below(6) as u32,
        flags_bytes: 1 + chance.below(4) as u32,
        packet_bytes: 2 + chance.below(3) as u32,
        ..TrainSettings::default()
    }
}

fn packets(settings: &TrainSettings) -> u64 {
    settings.train_bytes.div_ceil(settings.payload_bytes.into())
}

fn range(settings: &TrainSettings, packet: u64) -> Range<u64> {
    let begin = packet * u64::from(settings.payload_bytes);
    begin..settings.train_bytes.min(begin + u64::from(settings.payload_bytes))
}

/// The plan of a recorder of these sources, on a disk without faults.
fn plan(case: &Case, settings: &[TrainSettings], timeout_ns: u64, chance: &mut Random) -> Plan {
    let mut plan = Plan::of(Case { faults: Faults::NONE, has_two_targets: false, ..*case });
    let template: &SourcePlan = &plan.sources[0];
    let (log, part) = (None, Part::default());
    let source = SourcePlan { in_parts: true, in_stream: false, log, part, ..template.clone() };
    plan.sources = settings.iter().map(|_| source.clone()).collect();
    (plan.senders, plan.links, plan.control) = (Vec::new(), Vec::new(), None);
    (plan.begins_paused, plan.goes_on, plan.second_disk) = (false, false, None);
    plan.stores.truncate(1);
    plan.stores[0].faults = StoreFaults::default();
    let of = |(index, settings): (usize, &TrainSettings)| {
        let protocol = Trains::new(settings.clone()).expect("settings that can be");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        SourceConfig {
            protocol: Arc::new(protocol),
            fragment_bytes_max: settings.train_bytes,
            ..SourceConfig::new(format!("t{index}"), address)
        }
    };
    let mut config = RecorderConfig::new("".into(), settings.iter().enumerate().map(of).collect());
    config.receive.threads = 1 + chance.index(2);
    config.build.timeout_ns = timeout_ns;
    let all: u64 = settings.iter().map(|one| one.train_bytes).sum();
    config.build.event_bytes_max = Some(all);
    config.sizes = plan::sizes(case, 8);
    config.frame.bytes = [32 << 10, 256 << 10][chance.index(2)];
    config.frame.time_ns = [20 * MS, 200 * MS][chance.index(2)];
    config.frame.codings = Codings::new(ColumnCoding::NONE);
    config.encode.threads = 1 + chance.index(2);
    config.encode.bytes = config.sizes.encode_bytes_min;
    config.write.buffer_bytes = 64 << 10;
    config.write.buffer_count = 4;
    let more = match case.faults.has(Fault::SmallMemory) {
        true => chance.below(2 << 20),
        false => [4 << 20, 40 * all, 64 << 20][chance.index(3)].max(24 * all),
    };
    config.memory_bytes = config.memory_bytes_min() + more;
    plan.config = config;
    plan
}

/// Calls one of the agents that are due.
fn call(recorder: &mut Recorder, now_ns: u64, times: &mut Random) {
    let due = || recorder.slots.iter().enumerate().filter(|(_, slot)| slot.is_due(now_ns));
    let count = due().count();
    if count == 0 {
        return;
    }
    let Some((at, _)) = due().nth(times.index(count)) else { return };
    let slot = &mut recorder.slots[at];
    let Work { done, wake_at_ns, is_blocked, ended } = slot.agent.work(now_ns);
    slot.busy_ns = now_ns + 500 + times.below(if done == 0 { 3_000 } else { 50_000 });
    slot.due_ns = wake_at_ns.max(slot.busy_ns);
    slot.is_blocked = is_blocked;
    if ended {
        recorder.slots.swap_remove(at);
    }
    recorder.wake(now_ns, times);
}

fn shuffle(order: &mut [u64], chance: &mut Random) {
    for last in (1..order.len()).rev() {
        order.swap(last, chance.index(last + 1));
    }
}

/// Feeders, which take turns.
const FEEDERS: u64 = 2;
/// How long a run has been there before the first train.
const BEFORE_NS: u64 = S / 5;
/// Trains for which memory may be needed that is still free where one is refused.
const SPENT_TRAINS: u64 = 8;
/// Trains that wait for one with holes for at most half a time-out, and four times as many: a
/// quarter of the memory is theirs.
const WAITING_TRAINS: u64 = 160;
/// More than these bytes has a train of many chunks.
const LONG_BYTES: u64 = 600_000;
const STEPS_MAX: u64 = 4_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_of_trains_is_there_in_some_run_and_none_in_a_run_without() {
        let without = Case { faults: Faults::NONE, ..Case::of(0) };
        let faults = "loss,duplicate,reorder,delay,die,small-memory".parse().unwrap();
        let cases = (0..60).map(|seed| Case { faults, ..Case::of(seed) });
        let mut missing = BTreeSet::from(CASES);
        for case in std::iter::once(without).chain(cases) {
            let run = Run::of(&case);
            let (life, files) = run.record().unwrap();
            let counts = run.check(&life, &files).unwrap();
            let total = life.last.ledger.total();
            let segments = life.last.fills.iter().find(|fill| fill.name == "segments").unwrap();
            let of_all: u64 = run.settings.iter().map(|one| one.train_bytes).sum();
            let is_long = run.settings[0].train_bytes > LONG_BYTES;
            // Packets of one feeder's train among those of the other's.
            let of_one = run.arrivals.iter().filter(|(_, one)| one.source == 0);
            let feeders: Vec<usize> = of_one.map(|(_, one)| one.feeder).collect();
            let are_mixed = feeders.windows(3).any(|of| of[0] == of[2] && of[0] != of[1]);
            let counts = [
                u64::from(are_mixed),
                run.restarts[0],
                run.restarts[1],
                total[Entry::FragmentPartsRepeated],
                total[Entry::FragmentsWithHoles],
                total[Entry::FragmentsDiscardedUnfinished],
                total[Entry::FragmentsDiscardedMemory],
                u64::from(is_long && segments.capacity < 6 * of_all && counts.recorded > 0),
            ];
            let there = CASES.iter().zip(counts).filter(|(_, count)| *count > 0);
            let there: BTreeSet<_> = there.map(|(what, _)| *what).collect();
            assert!(case.faults != Faults::NONE || there.is_subset(&MIXED.into()), "{there:?}");
            missing.retain(|what| !there.contains(what));
            if missing.is_empty() {
                return;
            }
        }
        panic!("{missing:?}");
    }

    const MIXED: [&str; 1] = [CASES[0]];
    const CASES: [&str; 8] = [
        "two feeders of a source",
        "one that begins again at once",
        "one that begins again later",
        "repeated packets",
        "trains with holes",
        "trains that are given up",
        "trains without memory",
        "trains of many chunks in little memory",
    ];
}
