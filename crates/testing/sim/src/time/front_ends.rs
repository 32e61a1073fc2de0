//! Front-ends whose keys are times: which sources come over sessions, what they say of themselves
//! beside their fragments, and what befalls them.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use catchment_builder::SourceRole;
use catchment_fixtures::Random;
use catchment_wire::event_link::KeyKind;
use catchment_wire::session::Release;

use super::plan::{RUN_NS, TimePlan, TimeSource};
use super::sender::Sent;
use crate::case::Case;
use crate::detector::SentFragment;
use crate::fault::{Fault, Faults};
use crate::plan::{MS, S};
use crate::recorder::Recorder;
use crate::sessions::{FrontEnd, LogPlan, SenderPlan, SkewPlan};
use crate::trace::{Event, Trace};
use crate::wires::{self, Trouble, Wires};

/// A source that a front-end delivers, and what it says of itself.
#[derive(Clone, Copy, Debug)]
pub struct TimeLog {
    /// Its place among the logs of front-ends.
    pub place: LogPlan,
    /// Whether it promises at each trigger that nothing before that follows.
    pub marks: bool,
    /// A spell in which it is idle, and has said so.
    pub idle: Option<(u64, u64)>,
    /// How many of a thousand fragments it drops, and says so.
    pub drops: u64,
}

/// Something that a source of a front-end has, or says.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    pub at_ns: u64,
    pub source: usize,
    pub what: What,
}

/// What that is.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A fragment, by its number among those of its source.
    Fragment(usize),
    /// No lower key follows; and it may be silent from then on.
    Promise { key: u64, is_idle: bool },
}

/// In every third run front-ends deliver some of the sources, or all of them. The one that names
/// groups is a board: its layout says which.
pub fn draw(
    case: &Case,
    sources: &mut [TimeSource],
    (duration_ns, has_groups): (u64, bool),
) -> Vec<SenderPlan> {
    let mut chance = case.chance("front-ends by time");
    if chance.below(3) > 0 {
        return Vec::new();
    }
    let are_all = chance.below(4) == 0;
    let is_link = |&index: &usize| !(index == 0 && has_groups) && (chance.below(2) == 0 || are_all);
    let links: Vec<usize> = (0..sources.len()).filter(is_link).collect();
    let mut chance = case.chance("sessions by time");
    let count = (1 + chance.index(3)).min(links.len());
    let are_together = chance.below(2) == 0;
    let mut senders: Vec<SenderPlan> =
        (0..count).map(|number| sender(case, number, are_together)).collect();
    for (nth, &index) in links.iter().enumerate() {
        let (source, sender) = (&mut sources[index], nth % count);
        let SenderPlan { sources: logs, ring_bytes, is_naive, .. } = &mut senders[sender];
        let log = logs.len() as u32;
        logs.push(index);
        let mut chance = case.chance(&format!("log of source {index}"));
        let longest = source.payload_bytes_max + 16;
        *ring_bytes = (*ring_bytes).max(match case.faults.has(Fault::SmallRing) {
            true => longest + chance.below(4 << 10),
            false => 32 << 20,
        });
        let from_ns = chance.below(duration_ns / 2 + 1);
        let idle = (from_ns, from_ns + 400 * MS + chance.below(S));
        let is_idle = chance.below(3) == 0;
        let place = LogPlan { sender, log, key_kind: KeyKind::Time, key_bits: 64 };
        (source.rate_hz, source.bits) = (1_000_000_000, 64);
        source.log = Some(TimeLog {
            place,
            // The naive one has no words for either.
            marks: chance.below(2) == 0 && !*is_naive,
            idle: Some(idle).filter(|_| is_idle && !*is_naive),
            drops: [0, 0, 60][chance.index(3)],
        });
    }
    for sender in &mut senders {
        // A client has 64 KiB of rings at least.
        sender.ring_bytes = sender.ring_bytes.max((64 << 10) / sender.sources.len() as u64 + 1);
    }
    senders
}

fn sender(case: &Case, number: usize, are_together: bool) -> SenderPlan {
    let mut chance = case.chance(&format!("front-end {number}"));
    SenderPlan {
        name: format!("f{number}"),
        sources: Vec::new(),
        port: 7_100 + if are_together { 0 } else { number as u16 },
        ring_bytes: 0,
        socket_bytes: [500, 16 << 10, 256 << 10][chance.index(3)],
        abandons: case.faults.has(Fault::SmallRing),
        release: Release::Durable,
        is_odd: chance.below(3) == 0,
        is_naive: chance.below(3) == 0,
        marks: false,
        reports: false,
        manners: None,
        has_settings: false,
        // None is granted where events are built by time.
        skew: SkewPlan::default(),
        is_channels: false,
    }
}

/// What befalls front-ends, and when. Afterwards they have time to come back.
pub fn troubles(case: &Case, senders: usize, duration_ns: u64) -> Vec<(u64, usize, Trouble)> {
    let mut all = Vec::new();
    for (sender, fault) in (0..senders).flat_map(|one| TROUBLES.map(|fault| (one, fault))) {
        let mut chance = case.chance(&format!("{fault} of front-end {sender}"));
        if !case.faults.has(fault) {
            continue;
        }
        for _ in 0..1 + chance.below(2) {
            let at_ns = RUN_NS + chance.below(1 + duration_ns * 3 / 5);
            let trouble = match fault {
                Fault::Stall => Trouble::Stall(at_ns + chance.below(2 * S)),
                Fault::Cut => Trouble::Cut,
                Fault::HalfOpen => Trouble::Silence(at_ns + chance.below(4 * S)),
                Fault::SingleBytes => Trouble::Single(chance.below(1_000)),
                Fault::LateAnswers => Trouble::LateAnswers(at_ns + chance.below(S)),
                _ => Trouble::Death,
            };
            all.push((at_ns, sender, trouble));
        }
    }
    all.sort_by_key(|&(at_ns, ..)| at_ns);
    all
}

/// What befalls the front-end of a source.
pub fn suffered(plan: &TimePlan, log: &TimeLog) -> Faults {
    let own = plan.troubles.iter().filter(|(_, sender, _)| *sender == log.place.sender);
    own.fold(Faults::NONE, |all, (.., trouble)| all.with(trouble.fault()))
}

/// Whether nothing befalls a source's front-end by which it loses anything, or is not heard for
/// longer than others wait: a required one is waited for when its connection is cut, or when it
/// learns late that it may begin.
pub fn is_heard(plan: &TimePlan, log: &TimeLog, role: SourceRole) -> bool {
    let suffered = suffered(plan, log);
    let is_cut = suffered.has(Fault::Cut);
    match role {
        SourceRole::Required if is_cut => !suffered.iter().any(|one| !BESIDE_CUTS.contains(&one)),
        SourceRole::Required => !suffered.iter().any(|one| !SLOW.contains(&one)),
        _ => suffered == Faults::NONE,
    }
}

/// What a source that is delivered by a front-end has and says, in order.
pub fn said(
    plan: &TimePlan,
    (index, log): (usize, &TimeLog),
    fragments: impl Iterator<Item = u64>,
    triggers: impl Iterator<Item = u64>,
) -> Vec<Said> {
    let source = &plan.sources[index];
    // Promises of a time stand before the fragment of that time, and the last one behind it.
    let mut all: Vec<(u64, u32, What)> =
        fragments.enumerate().map(|(number, at_ns)| (at_ns, 1, What::Fragment(number))).collect();
    let promise = |at_ns: u64, is_idle| {
        let key = i128::from(plan.zero_ns) + i128::from(at_ns) + i128::from(source.error_ns);
        (at_ns, u32::from(is_idle) * 2, What::Promise { key: key.max(0) as u64, is_idle })
    };
    if log.marks {
        let speaks = |at_ns: &u64| log.idle.is_none_or(|(from, to)| *at_ns < from || *at_ns > to);
        all.extend(triggers.filter(speaks).map(|at_ns| promise(at_ns, false)));
    }
    if let Some((from_ns, to_ns)) = log.idle {
        // It says in time that it goes on: others wait for it from then on.
        all.extend([promise(from_ns, true), promise(to_ns - ACTIVE_BEFORE_NS, false)]);
    }
    all.sort_by_key(|&(at_ns, order, _)| (at_ns, order));
    let at = |at_ns| RUN_NS + at_ns + source.lag_ns;
    all.into_iter().map(|(at_ns, _, what)| Said { at_ns: at(at_ns), source: index, what }).collect()
}

/// The front-ends of a run, at work.
pub struct FrontEnds {
    all: Vec<(FrontEnd, Wires)>,
    /// When each is called next.
    due_ns: Vec<u64>,
    said: Peekable<IntoIter<Said>>,
    troubles: Peekable<IntoIter<(u64, usize, Trouble)>>,
    chance: Random,
    delay_ns: u64,
    /// By source: the numbers of the fragments that went into its log, in order.
    pub made: Vec<Vec<usize>>,
}

impl FrontEnds {
    pub fn new(plan: &TimePlan, said: Vec<Said>) -> Self {
        let mut chance = plan.base.case.chance("connections");
        let all = wires::front_ends(&plan.base);
        Self {
            due_ns: all.iter().map(|_| RUN_NS + chance.below(5 * MS)).collect(),
            all,
            said: said.into_iter().peekable(),
            troubles: plan.troubles.clone().into_iter().peekable(),
            chance,
            delay_ns: plan.base.network.delay_ns,
            made: vec![Vec::new(); plan.sources.len()],
        }
    }

    /// When something is to be done next.
    pub fn next_ns(&mut self) -> u64 {
        let said_ns = self.said.peek().map_or(u64::MAX, |one| one.at_ns);
        let trouble_ns = self.troubles.peek().map_or(u64::MAX, |one| one.0);
        self.due_ns.iter().copied().fold(said_ns.min(trouble_ns), u64::min)
    }

    fn call_at(&mut self, index: usize, at_ns: u64) {
        self.due_ns[index] = self.due_ns[index].min(at_ns);
    }

    /// Does what is due.
    pub fn work(
        &mut self,
        now_ns: u64,
        (plan, sent): (&TimePlan, &[Vec<Sent>]),
        (recorder, trace): (&mut Recorder, &mut Trace),
        happened: &mut BTreeMap<Fault, u64>,
    ) {
        while let Some(Said { source, what, .. }) = self.said.next_if(|one| one.at_ns <= now_ns) {
            let Some(TimeLog { place, drops, .. }) = plan.sources[source].log else { continue };
            let log = place.log as usize;
            match what {
                What::Fragment(number) if self.chance.chance(drops) => {
                    self.fill(place.sender);
                    self.all[place.sender].0.abandon(log, sent[source][number].key);
                }
                What::Fragment(number) => {
                    let Sent { key, recorded, .. } = &sent[source][number];
                    let fragment = SentFragment {
                        trigger: number as u64,
                        number: *key,
                        numbering: 0,
                        sent_ns: now_ns,
                        bytes: recorded.len() as u64,
                    };
                    let (front_end, _) = &mut self.all[place.sender];
                    front_end.fragment(log, fragment, *key, recorded.clone());
                }
                What::Promise { key, is_idle } => {
                    self.fill(place.sender);
                    self.all[place.sender].0.promise(log, key, is_idle);
                }
            }
            self.call_at(place.sender, now_ns);
        }
        while let Some((_, index, what)) = self.troubles.next_if(|one| one.0 <= now_ns) {
            *happened.entry(what.fault()).or_default() += 1;
            let (front_end, wires) = &mut self.all[index];
            trace.push(now_ns, Event::Fault(format!("{}: {what:?}", front_end.plan.name)));
            wires.suffer(now_ns, what, front_end, Some(&mut *recorder), &mut self.chance);
            self.call_at(index, now_ns);
        }
        for index in 0..self.all.len() {
            if self.due_ns[index] <= now_ns {
                self.pass(index, now_ns, (&mut *recorder, &mut *trace));
            }
        }
    }

    /// Puts what there is room for into the logs of a front-end.
    fn fill(&mut self, index: usize) {
        let Self { all, made, .. } = self;
        for (source, fragment, _) in all[index].0.fill(|source| made[source].len()) {
            made[source].push(fragment.trigger as usize);
        }
    }

    fn pass(&mut self, index: usize, now_ns: u64, (recorder, trace): (&mut Recorder, &mut Trace)) {
        self.fill(index);
        let (front_end, wires) = &mut self.all[index];
        let passed = wires.pass(now_ns, front_end, Some((recorder, 0)), &mut self.chance);
        self.due_ns[index] = passed.next_ns;
        let name = &front_end.plan.name;
        for why in wires.breaks.drain(..) {
            trace.push(now_ns, Event::Told(format!("{name} closes its connections: {why}")));
        }
        let source = front_end.plan.sources[0] as u32;
        for bytes in passed.bytes.into_iter().filter(|&bytes| bytes > 0) {
            trace.push(now_ns, Event::Arrived(source, bytes as usize, true));
        }
    }

    /// Front-ends are called when there is something to be read.
    pub fn look_at_answers(&mut self, now_ns: u64, recorder: &Recorder) {
        for index in 0..self.all.len() {
            if self.all[index].1.has_news(now_ns, recorder) {
                let delay_ns = self.chance.below(self.delay_ns);
                self.call_at(index, now_ns + delay_ns);
            }
        }
    }

    /// The recorder has ended. Returns the front-ends, and by source what went into its log.
    pub fn end(self, now_ns: u64, recorder: &mut Recorder) -> (Vec<FrontEnd>, Vec<Vec<usize>>) {
        let end = |(mut front_end, mut wires): (FrontEnd, Wires)| {
            wires.end(now_ns, &mut front_end, (&mut *recorder, 0));
            front_end.check_status();
            front_end
        };
        (self.all.into_iter().map(end).collect(), self.made)
    }
}

/// What befalls front-ends and their connections.
const TROUBLES: [Fault; 6] = [
    Fault::Cut,
    Fault::SenderKill,
    Fault::HalfOpen,
    Fault::Stall,
    Fault::SingleBytes,
    Fault::LateAnswers,
];
/// What keeps nothing away for long; and what a cut connection may have beside that: one whose
/// answers are late is not back in time.
const SLOW: [Fault; 2] = [Fault::SingleBytes, Fault::LateAnswers];
const BESIDE_CUTS: [Fault; 2] = [Fault::Cut, Fault::SingleBytes];
/// How long before it goes on a source says that it is no longer idle: half of the shortest
/// time-out, after which nobody would wait for it any more.
const ACTIVE_BEFORE_NS: u64 = 100 * MS;
