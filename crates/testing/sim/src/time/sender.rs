//! What sources send: fragments, what their clocks say of them, and datagrams as their layouts
//! declare them; and when the network delivers these.

use std::collections::BTreeMap;

use catchment_fixtures::Random;

use super::front_ends::{self, Said};
use super::layouts::{Datagram, LayoutPlan, Stamp, Written, check_decoded};
use super::marks::Marks;
use super::plan::{Lie, RUN_NS, TimePlan, TimeSource};
use crate::detector::Packet;
use crate::fault::Fault;

/// A fragment that a source has sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// What its clock said, on the common clock, as if it had never wrapped.
    pub ns: i128,
    /// The groups that it names.
    pub groups: u64,
    /// How far that is from the time.
    pub lie_ns: i64,
    /// What its clock said.
    pub key: u64,
    /// Its bytes in files.
    pub recorded: Vec<u8>,
    /// Since the run's begin.
    pub at_ns: u64,
    /// What its packet says of it.
    pub stamp: Stamp,
    written: Written,
}

/// A packet's arrival.
#[derive(Debug)]
pub struct Delivery {
    pub at_ns: u64,
    pub source: usize,
    pub packet: Packet,
    pub kind: DeliveryKind,
}

/// Whose packet it is.
#[derive(Clone, Copy, Debug)]
pub enum DeliveryKind {
    /// The source's own, which has sent so many before it.
    Own(u64),
    /// Another board's, which says so, with so many fragments.
    Stranger(u64),
}

/// What is sent in a run, what of it arrives, and what befell it.
#[derive(Debug, Default)]
pub struct Traffic {
    /// By source, in the order in which it is sent.
    pub sent: Vec<Vec<Sent>>,
    /// In the order of time.
    pub deliveries: Vec<Delivery>,
    /// The same of what front-ends have.
    pub said: Vec<Said>,
    pub happened: BTreeMap<Fault, u64>,
    /// The first packet that is not decoded as it was written.
    pub wrong: Option<String>,
}

/// A trigger: when, and the groups that take part.
#[derive(Clone, Copy)]
struct Trigger {
    at_ns: u64,
    groups: u64,
    tag: u8,
}

impl Traffic {
    pub fn of(plan: &TimePlan) -> Self {
        let mut traffic = Self::default();
        let triggers = triggers(plan);
        for (index, source) in plan.sources.iter().enumerate() {
            let mut moments = moments(plan, (index, source), &triggers);
            traffic.flood(plan, index, &mut moments);
            let sent = traffic.fragments(plan, index, &moments);
            match &source.log {
                None => traffic.deliver(plan, index, &sent),
                Some(log) => {
                    let fragments = sent.iter().map(|one| one.at_ns);
                    let triggers = triggers.iter().map(|trigger| trigger.at_ns);
                    let said = front_ends::said(plan, (index, log), fragments, triggers);
                    traffic.said.extend(said);
                }
            }
            traffic.sent.push(sent);
        }
        if plan.base.case.faults.has(Fault::SmallMemory) {
            traffic.note(Fault::SmallMemory);
        }
        traffic.deliveries.sort_by_key(|one| one.at_ns);
        traffic.said.sort_by_key(|one| one.at_ns);
        if plan.base.senders.iter().any(|sender| sender.abandons) {
            traffic.note(Fault::SmallRing);
        }
        traffic
    }

    fn note(&mut self, fault: Fault) {
        *self.happened.entry(fault).or_default() += 1;
    }

    /// Adds what a source sends that floods.
    fn flood(&mut self, plan: &TimePlan, index: usize, moments: &mut Vec<Trigger>) {
        let Some(flood) = plan.flood.filter(|flood| flood.source == index) else { return };
        let mut chance = plan.base.case.chance("strays");
        for number in 0..flood.count {
            self.note(Fault::Flood);
            let at_ns = flood.from_ns + number * flood.period_ns + chance.below(flood.period_ns);
            moments.push(Trigger { at_ns, groups: 0, tag: 0 });
        }
        moments.sort_by_key(|moment| moment.at_ns);
    }

    /// The fragments of a source, as its clock has them.
    fn fragments(&mut self, plan: &TimePlan, index: usize, moments: &[Trigger]) -> Vec<Sent> {
        let source = &plan.sources[index];
        let mut chance = plan.base.case.chance(&format!("payload {index}"));
        let mut noise = plan.base.case.chance(&format!("words {index}"));
        let mut marks = plan.base.case.chance(&format!("marks of source {index}"));
        let mut sent: Vec<Sent> = Vec::new();
        let (mut last, mut cycles) = (None, 0);
        for &Trigger { at_ns, groups, tag } in moments {
            if plan
                .dead
                .is_some_and(|(dead, from, until)| dead == index && (from..until).contains(&at_ns))
            {
                self.note(Fault::Die);
                continue;
            }
            let (lie_ns, fault) = lie(&plan.lies, index, at_ns);
            let shown = i128::from(plan.zero_ns) + i128::from(at_ns) + i128::from(lie_ns);
            let shown = shown + i128::from(source.error_ns);
            let ticks = (shown * i128::from(source.rate_hz)).div_euclid(NS_PER_S).max(0);
            let is_again = fault.is_none() && last.is_some_and(|last| last == ticks);
            if is_again && source.sequence().is_none() {
                // It is one moment for this clock, and nothing tells two fragments from a copy.
                continue;
            }
            if let Some(fault) = fault {
                self.note(fault);
            }
            if plan.base.case.faults.has(Fault::Wrap) && ticks >> source.bits != cycles {
                if last.is_some() {
                    self.note(Fault::Wrap);
                }
                cycles = ticks >> source.bits;
            }
            last = Some(ticks);
            let ns = (ticks * NS_PER_S).div_euclid(i128::from(source.rate_hz));
            let ns = ns - i128::from(source.error_ns);
            let mut body = body(index, sent.len(), source, &mut chance);
            let key = ticks as u64;
            let (stamp, written, recorded) = match source.log {
                Some(_) => (Stamp::default(), Written::default(), body),
                None => {
                    let stamp = Stamp { ticks: key, groups, ..source.stamp(tag, &mut marks) };
                    // A packet without records.
                    let number = source.sequence().map_or(0, |one| one.of(sent.len() as u64));
                    let stamp = Stamp { sequence: number, ..stamp };
                    let written = source.layout.write(stamp, &mut body, &mut noise);
                    let recorded = source.layout.recorded(&written, &body);
                    (stamp, written, recorded)
                }
            };
            sent.push(Sent { ns, groups, lie_ns, key, recorded, at_ns, stamp, written });
        }
        sent
    }

    /// Gives a source's packets to the network.
    fn deliver(&mut self, plan: &TimePlan, index: usize, sent: &[Sent]) {
        let source = &plan.sources[index];
        let mut chance = plan.base.case.chance(&format!("packets {index}"));
        let network = &plan.base.network;
        let steady_ns = chance.below(network.delay_ns);
        let batch = source.layout.records.unwrap_or(1);
        let layouts = source.layout.declared(source.rate_hz);
        let mut noise = plan.base.case.chance(&format!("records {index}"));
        let wait_ns = 2 * batch * plan.interval_ns;
        let mut strangers = Strangers::new(plan, index);
        let (mut first, mut packets) = (0, 0);
        while first < sent.len() {
            let until_ns = sent[first].at_ns + wait_ns;
            let rest = &sent[first..sent.len().min(first + batch as usize)];
            let count = rest.partition_point(|one| one.at_ns <= until_ns);
            let is_full = count as u64 == batch;
            let sent_ns = if is_full { rest[count - 1].at_ns } else { until_ns };
            let of_packet = || rest[..count].iter();
            let written = of_packet().map(|one| &one.written);
            let number = source.sequence().map_or(0, |one| one.of(packets));
            let datagram = source.layout.packet(number, written, &mut noise);
            let said = of_packet().map(|one| (one.stamp, &one.recorded[..]));
            if let Err(why) = check_decoded(&layouts, &source.layout.marks, &datagram, said) {
                self.wrong.get_or_insert(format!("source {index}: {why}"));
            }
            let Datagram { bytes, .. } = datagram;
            let fragments = first..first + count;
            first += count;
            let kind = DeliveryKind::Own(packets);
            packets += 1;
            self.deliveries.extend(strangers.next(RUN_NS + sent_ns));
            let mut late_ns = source.lag_ns;
            if let Some((late, from, until, by_ns)) = plan.late
                && late == index
                && (from..until).contains(&sent_ns)
            {
                self.note(Fault::Delay);
                late_ns += by_ns;
            }
            if chance.chance(network.lost) {
                self.note(Fault::Loss);
                continue;
            }
            let is_doubled = chance.chance(network.doubled);
            for copy in 0..1 + u64::from(is_doubled) {
                let mut delay_ns = late_ns + steady_ns;
                if copy > 0 {
                    self.note(Fault::Duplicate);
                    delay_ns += chance.below(network.reorder_ns);
                }
                if !plan.in_order {
                    delay_ns = late_ns + chance.below(network.delay_ns);
                    if chance.chance(network.reordered) {
                        self.note(Fault::Reorder);
                        delay_ns += chance.below(network.reorder_ns);
                    }
                }
                let packet =
                    Packet { bytes: bytes.clone(), fragments: fragments.clone(), part: (0, 1) };
                let at_ns = RUN_NS + sent_ns + delay_ns;
                self.deliveries.push(Delivery { at_ns, source: index, packet, kind });
            }
        }
    }
}

/// Another board, which was given the address of a source, and whose packets have its own id and
/// its own numbers.
struct Strangers {
    index: usize,
    layout: Option<LayoutPlan>,
    packets: u64,
    chance: Random,
}

impl Strangers {
    fn new(plan: &TimePlan, index: usize) -> Self {
        let mut chance = plan.base.case.chance(&format!("strangers to {index}"));
        let layout = plan.sources[index].layout.of_another(&mut chance);
        let packets = chance.below(1_000);
        Self { index, layout: layout.filter(|_| chance.below(2) == 0), packets, chance }
    }

    /// What it sends beside a packet of the source.
    fn next(&mut self, at_ns: u64) -> Option<Delivery> {
        let Self { index, layout, packets, chance } = self;
        let layout = layout.as_ref().filter(|_| chance.below(16) == 0)?;
        *packets += 1;
        let sequence = layout.marks.sequence.map_or(0, |one| one.of(*packets));
        let stamp = Stamp { ticks: chance.next_u64(), sequence, ..Stamp::default() };
        let mut body = chance.noise(8);
        let written = layout.write(stamp, &mut body, chance);
        let Datagram { bytes, .. } = layout.packet(sequence, [&written].into_iter(), chance);
        let (packet, kind) = (Packet::unknown(bytes), DeliveryKind::Stranger(1));
        Some(Delivery { at_ns, source: *index, packet, kind })
    }
}

impl TimeSource {
    /// What it says of a fragment at a trigger with that tag, now and then wrongly.
    fn stamp(&self, tag: u8, chance: &mut Random) -> Stamp {
        let Marks { tag_bits, has_broken, .. } = self.layout.marks;
        let is_broken = has_broken && chance.chance(50);
        let tag = tag_bits.map_or(0, |bits| {
            let tag = if chance.chance(20) { tag ^ 1 } else { tag };
            tag & u8::MAX >> (8 - bits)
        });
        Stamp { tag, is_broken, ..Stamp::default() }
    }
}

/// What a clock adds to the time, and the newest of what makes it do so.
fn lie(lies: &[Lie], source: usize, at_ns: u64) -> (i64, Option<Fault>) {
    let mut total_ns = 0_i64;
    let mut newest = None;
    for lie in lies.iter().filter(|lie| lie.source == source) {
        if !(lie.from_ns..lie.until_ns).contains(&at_ns) {
            continue;
        }
        newest = Some(lie.fault);
        let since_ns = (at_ns - lie.from_ns).cast_signed();
        total_ns += match lie.fault {
            Fault::Drift => (i128::from(since_ns) * i128::from(lie.amount) / 1_000_000_000) as i64,
            Fault::Stuck => -since_ns,
            _ => lie.amount,
        };
    }
    (total_ns, newest)
}

fn triggers(plan: &TimePlan) -> Vec<Trigger> {
    let mut chance = plan.base.case.chance("triggers");
    let mut tags = plan.base.case.chance("tags");
    let mut at_ns = 0;
    let trigger = |_| {
        at_ns += plan.interval_ns / 2 + chance.below(plan.interval_ns);
        let groups = if plan.has_groups { chance.below(8) } else { 0 };
        Trigger { at_ns, groups, tag: tags.below(256) as u8 }
    };
    (0..plan.events).map(trigger).collect()
}

/// When a source sends, in order, and what groups it names then.
fn moments(plan: &TimePlan, (index, one): (usize, &TimeSource), all: &[Trigger]) -> Vec<Trigger> {
    let mut chance = plan.base.case.chance(&format!("moments {index}"));
    let mut moments = Vec::new();
    let takes_part = |trigger: &Trigger, chance: &mut Random| {
        let is_named =
            trigger.groups == 0 || one.expected_in == 0 || trigger.groups & one.expected_in > 0;
        // A few send whether they took part or not.
        is_named || chance.chance(100)
    };
    let mut pieces = plan.base.case.chance(&format!("pieces at moments {index}"));
    let mut due_ns = chance.below(one.period_ns.unwrap_or(0));
    let is_own = one.period_ns.is_some() && chance.below(2) == 0;
    for trigger in all {
        if !takes_part(trigger, &mut chance) {
            continue;
        }
        match one.period_ns {
            Some(_) if trigger.at_ns < due_ns => continue,
            Some(period_ns) => {
                // With the trigger, or when its own clock says so.
                let at_ns = if is_own { due_ns } else { trigger.at_ns };
                moments.push(Trigger { at_ns, ..*trigger });
                due_ns += period_ns;
                continue;
            }
            None if !chance.chance(one.share) => continue,
            None => {}
        }
        let at_ns = trigger.at_ns + chance.below(one.jitter_ns + 1);
        moments.push(Trigger { at_ns, ..*trigger });
        for _ in 0..pieces.below(one.pieces_max) {
            let at_ns = trigger.at_ns + pieces.below(one.jitter_ns + 1);
            moments.push(Trigger { at_ns, ..*trigger });
        }
    }
    let duration_ns = plan.duration_ns();
    let noise = moments.len() as u64 * one.noise / 1_000;
    let groups = if plan.has_groups { chance.below(8) } else { 0 };
    let noise = (0..noise).map(|_| Trigger { at_ns: chance.below(duration_ns), groups, tag: 0 });
    moments.extend(noise);
    let is_idle = |at_ns: u64| {
        let idle = one.log.and_then(|log| log.idle);
        idle.is_some_and(|(from_ns, to_ns)| (from_ns + 1..to_ns).contains(&at_ns))
    };
    moments.retain(|moment| !is_idle(moment.at_ns));
    moments.sort_by_key(|moment| moment.at_ns);
    moments
}

/// A fragment's payload: it says whose it is.
fn body(index: usize, number: usize, source: &TimeSource, chance: &mut Random) -> Vec<u8> {
    let mut body = (number as u64).to_le_bytes().to_vec();
    body.extend((index as u64).to_le_bytes());
    let count = chance.below(source.payload_bytes_max + 1);
    body.extend(chance.noise(count as usize));
    body
}

/// The source and the number in recorded bytes, if there are any, behind a head of so many.
pub fn identity(recorded: &[u8], head_bytes: usize) -> Option<(u64, u64)> {
    let body = recorded.get(head_bytes..)?;
    let (number, body) = body.split_first_chunk::<8>()?;
    let (source, _) = body.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*source), u64::from_le_bytes(*number)))
}

const NS_PER_S: i128 = 1_000_000_000;
