//! A run: deliveries in their order, and the agents of a recorder, in virtual time.

use std::collections::BTreeMap;

use catchment_fixtures::Random;
use catchment_ports::{MemoryFiles, VirtualClock};

use super::front_ends::FrontEnds;
use super::plan::{RUN_NS, TimePlan};
use super::sender::{Delivery, DeliveryKind, Sent, Traffic};
use super::sequences::Came;
use crate::fault::Fault;
use crate::plan::{BEGIN_NS, MS, S};
use crate::recorder::{Life, Recorder};
use crate::sessions::FrontEnd;
use crate::trace::{Event, Trace};
use crate::{caught, conductor};

/// Calls of agents, beyond which a run counts as endless.
const STEPS_MAX: u64 = 4_000_000;
/// How often the recorder's counts are looked at.
const LOOK_EVERY_NS: u64 = 20 * MS;
/// How long after the last packet the run is ended; beside front-ends, which may be away just then.
const REST_NS: u64 = 10 * MS;
const REST_OF_FRONT_ENDS_NS: u64 = 300 * MS;

/// What could be seen of a recorder at one time.
#[derive(Debug)]
pub struct Seen {
    pub at_ns: u64,
    /// Events that were built.
    pub events: u64,
    /// By source.
    pub out_of_step: Vec<bool>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub plan: &'a TimePlan,
    pub sent: Vec<Vec<Sent>>,
    pub life: Life,
    pub files: MemoryFiles,
    /// By source.
    pub delivered: Vec<Delivered>,
    pub front_ends: Vec<FrontEnd>,
    /// By source: the numbers of the fragments that went into its log, in order.
    pub made: Vec<Vec<usize>>,
    /// When the last packet came, or the last thing was said.
    pub last_ns: u64,
    pub seen: Vec<Seen>,
    pub happened: BTreeMap<Fault, u64>,
    pub trace: Trace,
}

/// What found room of a source's packets.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// Fragments in them, repeated ones included.
    pub fragments: u64,
    /// Those of another board.
    pub strangers: u64,
    /// Its own packets, as they came.
    pub packets: Vec<Came>,
}

struct World<'a> {
    plan: &'a TimePlan,
    sent: &'a [Vec<Sent>],
    front_ends: FrontEnds,
    clock: VirtualClock,
    recorder: Recorder,
    times: Random,
    delivered: Vec<Delivered>,
    seen: Vec<Seen>,
    happened: BTreeMap<Fault, u64>,
    trace: &'a mut Trace,
}

/// Runs a plan to its end.
///
/// # Errors
/// An agent panicked, or something waits without end.
pub fn run(plan: &TimePlan, is_traced: bool) -> Result<Outcome<'_>, (String, Trace)> {
    let Traffic { sent, deliveries, said, happened, wrong } = Traffic::of(plan);
    let said_ns = said.last().map_or(RUN_NS, |one| one.at_ns);
    let last_ns = deliveries.last().map_or(RUN_NS, |one| one.at_ns).max(said_ns);
    let mut trace = Trace::new(is_traced);
    if let Some(wrong) = wrong {
        return Err((wrong, trace));
    }
    let files = MemoryFiles::default();
    let done = caught(|| {
        let clock = VirtualClock::at(BEGIN_NS);
        let recorder = Recorder::begin(&plan.base, 0, (&clock, &files), None)?;
        trace.agents(recorder.slots.iter().map(|slot| slot.name.as_str()));
        let times = plan.base.case.chance("times");
        let trace = &mut trace;
        let (delivered, seen) = (vec![Delivered::default(); plan.sources.len()], Vec::new());
        let (sent, front_ends) = (&sent[..], FrontEnds::new(plan, said));
        let world = World {
            plan,
            sent,
            front_ends,
            clock,
            recorder,
            times,
            delivered,
            seen,
            happened,
            trace,
        };
        world.work(deliveries, last_ns)
    });
    match done {
        Ok(Ok(Ended { life, delivered, front_ends, made, seen, happened })) => Ok(Outcome {
            plan,
            sent,
            life,
            files,
            delivered,
            front_ends,
            made,
            last_ns,
            seen,
            happened,
            trace,
        }),
        Ok(Err(why)) => Err((why, trace)),
        Err(what) => Err((format!("an agent panicked: {what}"), trace)),
    }
}

/// What a world leaves.
struct Ended {
    life: Life,
    delivered: Vec<Delivered>,
    front_ends: Vec<FrontEnd>,
    made: Vec<Vec<usize>>,
    seen: Vec<Seen>,
    happened: BTreeMap<Fault, u64>,
}

impl World<'_> {
    fn work(mut self, deliveries: Vec<Delivery>, last_ns: u64) -> Result<Ended, String> {
        let has_front_ends = !self.plan.base.senders.is_empty();
        let rest_ns = if has_front_ends { REST_OF_FRONT_ENDS_NS } else { REST_NS };
        let (stop_ns, mut look_ns) = (last_ns + rest_ns, RUN_NS);
        let mut deliveries = deliveries.into_iter().peekable();
        let mut stops = self.stops(last_ns - RUN_NS).into_iter().peekable();
        let mut has_stopped = false;
        for _ in 0..STEPS_MAX {
            if self.recorder.slots.is_empty() {
                let now_ns = self.clock.now_ns();
                let Self { mut recorder, front_ends, delivered, seen, happened, .. } = self;
                let (front_ends, made) = front_ends.end(now_ns, &mut recorder);
                let life = recorder.ended();
                return Ok(Ended { life, delivered, front_ends, made, seen, happened });
            }
            let ahead_ns = [
                deliveries.peek().map_or(u64::MAX, |one| one.at_ns),
                self.front_ends.next_ns(),
                stops.peek().map_or(u64::MAX, |one| one.0),
                if has_stopped { u64::MAX } else { stop_ns.min(look_ns) },
                self.recorder.next_ns(),
            ];
            let next_ns = ahead_ns.into_iter().min().unwrap_or(u64::MAX);
            if next_ns == u64::MAX {
                return Err("no agent will ever be called again".to_owned());
            }
            self.clock.advance_to(next_ns);
            while let Some(one) = deliveries.next_if(|one| one.at_ns <= next_ns) {
                self.deliver(one);
            }
            let Self { plan, sent, front_ends, recorder, happened, trace, .. } = &mut self;
            front_ends.work(next_ns, (*plan, *sent), (recorder, &mut **trace), happened);
            while let Some((_, until_ns, fault)) = stops.next_if(|one| one.0 <= next_ns) {
                self.stop_agents(until_ns, fault);
            }
            if !has_stopped && look_ns <= next_ns {
                self.look();
                look_ns = next_ns + LOOK_EVERY_NS;
            }
            if !has_stopped && stop_ns <= next_ns {
                has_stopped = true;
                self.trace.push(next_ns, Event::Told("the run is ended".to_owned()));
                conductor::stop(next_ns, &mut self.recorder);
            }
            self.call();
        }
        Err(format!("after {STEPS_MAX} steps the run has not ended"))
    }

    /// When agents are not called, until when, and whether that is one or all of them.
    fn stops(&self, duration_ns: u64) -> Vec<(u64, u64, Fault)> {
        let case = &self.plan.base.case;
        let mut stops = Vec::new();
        // All together less than half of a cycle: what a narrow clock says behind that is
        // ambiguous.
        let most_ns = match case.faults.has(Fault::Wrap) {
            true => self.plan.timeout_ns() / 4,
            false => 2 * S,
        };
        for fault in [Fault::Starve, Fault::Freeze] {
            let mut chance = case.chance(&format!("{fault}"));
            if !case.faults.has(fault) {
                continue;
            }
            for _ in 0..1 + chance.below(4) {
                let from_ns = RUN_NS + chance.below(duration_ns);
                stops.push((from_ns, from_ns + chance.below(most_ns), fault));
            }
        }
        stops.sort_unstable_by_key(|stop| stop.0);
        stops
    }

    fn note(&mut self, fault: Fault) {
        *self.happened.entry(fault).or_default() += 1;
    }

    fn stop_agents(&mut self, until_ns: u64, fault: Fault) {
        self.note(fault);
        let drawn = self.times.next_u64() as usize;
        let slots = &mut self.recorder.slots;
        let count = slots.len().max(1);
        for (index, slot) in slots.iter_mut().enumerate() {
            if fault == Fault::Freeze || index == drawn % count {
                slot.busy_ns = slot.busy_ns.max(until_ns);
            }
        }
        let what = format!("{fault} until {until_ns}");
        self.trace.push(self.clock.now_ns(), Event::Fault(what));
    }

    fn deliver(&mut self, Delivery { source, packet, kind, .. }: Delivery) {
        let (now_ns, bytes) = (self.clock.now_ns(), packet.bytes.len());
        let fragments = packet.fragments.clone();
        let has_room = self.recorder.deliver(source, packet, now_ns) == Some(true);
        let delivered = &mut self.delivered[source];
        match kind {
            _ if !has_room => self.note(Fault::SmallBuffer),
            DeliveryKind::Stranger(count) => {
                delivered.fragments += count;
                delivered.strangers += count;
            }
            DeliveryKind::Own(number) => {
                delivered.fragments += fragments.len() as u64;
                delivered.packets.push(Came { number, fragments });
            }
        }
        self.trace.push(now_ns, Event::Arrived(source as u32, bytes, has_room));
    }

    fn look(&mut self) {
        let snapshot = self.recorder.observer.snapshot();
        let counts = &snapshot.counts;
        let events = counts.events_complete + counts.events_incomplete;
        let out_of_step = snapshot.alignment.iter().map(|one| one.out_of_step).collect();
        self.seen.push(Seen { at_ns: self.clock.now_ns(), events, out_of_step });
    }

    /// Calls one of the agents that are due.
    fn call(&mut self) {
        let now_ns = self.clock.now_ns();
        let recorder = &mut self.recorder;
        let Some(called) = recorder.call(now_ns, &mut self.times) else { return };
        self.trace.called(now_ns, &called);
        self.front_ends.look_at_answers(now_ns, recorder);
        for (event, _, _) in recorder.disk_news() {
            self.trace.push(now_ns, event);
        }
    }
}
