//! External events and their times: fixed before the run begins, since nothing that a recorder does
//! changes what a detector does.

use std::collections::BTreeSet;

use catchment_fixtures::Random;
use catchment_run::Command;

use crate::detector::Packet;
use crate::fault::Fault;
use crate::plan::{AHEAD_NS_MAX, BEGIN_NS, DELAY_NS_MAX, MS, Plan, S};
use crate::streams::{self, Mishap};
use crate::wires::{self, Trouble};

/// Something that happens to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A source has its fragment of an event.
    Trigger {
        /// The source.
        source: usize,
        /// The event.
        trigger: u64,
    },
    /// A front-end's source has nothing of an event.
    PassOver {
        /// The source.
        source: usize,
        /// The event.
        trigger: u64,
    },
    /// A source sends its incomplete packet.
    Flush(usize),
    /// A source restarts its numbers with that event.
    Renumber {
        /// The source.
        source: usize,
        /// The event.
        trigger: u64,
    },
    /// A source has died.
    Die(usize),
    /// The next bytes of a connection come, if there are any.
    Advance(usize),
    /// Something happens to a connection.
    Mishap(usize, Mishap),
    /// A front-end does what is due.
    Pass(usize),
    /// Something happens to a front-end.
    Trouble(usize, Trouble),
    /// Somebody comes under the name of a front-end, or goes.
    Stranger(usize),
    /// A source sends again what it sent last, so many times, and as many packets that are none.
    Flood {
        /// The source.
        source: usize,
        /// How often.
        count: u64,
    },
    /// A packet arrives.
    Deliver {
        /// The endpoint.
        source: usize,
        /// The packet.
        packet: Packet,
    },
    /// The run is paused or resumed.
    Pause(bool),
    /// An operator asks for a command.
    Request(Command),
    /// An operator asks for a change of a setting, by its number.
    Change(usize),
    /// Its operator looks what became of a change.
    Outcome {
        /// The recorder that was asked.
        life: usize,
        /// Its place among those that it was asked for.
        place: usize,
    },
    /// Run control does what is due.
    Conduct,
    /// The verdict on a life's run is looked at.
    Look(usize),
    /// The run is ended.
    Stop,
    /// The recorder dies.
    Crash(Death),
    /// The recorder dies as soon as a write has completed while another is under way, which may be
    /// of the same frame.
    CrashHalfWritten(Death),
    /// The recorder restarts.
    Restart,
    /// The process is stopped until then.
    Freeze(u64),
    /// An agent is not called until then.
    Starve(u64),
    /// A receive agent is not called until then.
    HoldReceive(u64),
}

/// What a recorder dies of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The power fails: what was not durable may be lost.
    OfPower,
    /// It is killed: all that was written remains.
    Killed,
}

/// An interval of time in which a condition holds.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: u64,
    until: u64,
}

impl Window {
    const NONE: Self = Self { from: 0, until: 0 };

    fn has(self, at: u64) -> bool {
        (self.from..self.until).contains(&at)
    }
}

/// How one source differs from the others.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Dead, or silent, for these events.
    dead: Window,
    silent: Window,
    /// Ahead by that much for these events.
    ahead: Window,
    ahead_ns: u64,
    /// The event from which on it has its own numbering.
    misnumbered_from: Option<u64>,
}

/// When the network is slow for each source's packets.
#[derive(Clone, Copy, Debug)]
pub struct SlowNetwork {
    window: (u64, u64),
    late_ns: u64,
}

impl SlowNetwork {
    /// The delay of a packet sent at that time.
    pub fn late_ns(&self, now_ns: u64) -> u64 {
        if (self.window.0..self.window.1).contains(&now_ns) { self.late_ns } else { 0 }
    }
}

/// All external events of a run.
#[derive(Debug)]
pub struct Schedule {
    /// Times and actions, in order.
    pub actions: Vec<(u64, Action)>,
    /// By source.
    pub slow: Vec<SlowNetwork>,
    /// When the run is ended.
    pub stop_ns: u64,
    /// Kinds of faults in the behaviour of sources, and in the configuration.
    pub happens: BTreeSet<Fault>,
}

impl Schedule {
    /// The external events of a run.
    pub fn of(plan: &Plan) -> Self {
        let case = &plan.case;
        let mut chance = case.chance("schedule");
        let mut actions = Vec::new();
        let (whole, events) = (crate::plan::DURATION_NS, plan.events);
        // All sources restart at this event, after a time in which nothing is sent.
        let mut renumber = case.chance("renumber");
        let restart_at = (case.faults.has(Fault::Renumber) && events > 20)
            .then(|| 10 + renumber.below(events - 15));
        let at_ns = |trigger: u64| {
            let gap = restart_at.is_some_and(|restart| trigger >= restart);
            let begin = BEGIN_NS + 400 * MS + if gap { 2 * S } else { 0 };
            begin + trigger * plan.interval_ns
        };
        let mut last_ns = BEGIN_NS + S;
        let mut slow = Vec::new();
        let always =
            [Fault::SendOn, Fault::SmallMemory, Fault::Slow, Fault::Flip, Fault::SmallRing];
        let mut happens: BTreeSet<_> =
            always.into_iter().filter(|&fault| case.faults.has(fault)).collect();
        let of_control = [Fault::Commands, Fault::Refuse].into_iter();
        let is_there = |fault: &Fault| plan.control.is_some() && case.faults.has(*fault);
        happens.extend(of_control.filter(is_there));
        for (source, of_source) in plan.sources.iter().enumerate() {
            let habits = habits(plan, source);
            slow.push(slow_network(plan, source));
            let (mut was_dead, mut before_ns) = (false, BEGIN_NS);
            for trigger in 0..events {
                let begin_ns = at_ns(trigger) + of_source.lag_ns;
                let ahead_ns = if habits.ahead.has(trigger) { habits.ahead_ns } else { 0 };
                let ns = (begin_ns - ahead_ns.min(begin_ns - BEGIN_NS)) + chance.below(200_000);
                // A source that is ahead sends events in order, and waits for the others
                // afterwards.
                let ns = ns.max(before_ns + 2);
                before_ns = ns;
                if restart_at == Some(trigger) {
                    actions.push((ns - 1, Action::Renumber { source, trigger }));
                }
                if habits.misnumbered_from == Some(trigger) {
                    actions.push((ns - 1, Action::Renumber { source, trigger }));
                }
                happens.extend((ahead_ns > 0).then_some(Fault::Ahead));
                happens.extend(habits.silent.has(trigger).then_some(Fault::Silent));
                let is_dead = habits.dead.has(trigger);
                if is_dead && !was_dead {
                    actions.push((ns, Action::Die(source)));
                }
                was_dead = is_dead;
                if !is_dead && !habits.silent.has(trigger) {
                    actions.push((ns, of_event(plan, source, trigger)));
                    last_ns = last_ns.max(ns);
                }
            }
            actions.push((last_ns + 10 * MS, Action::Flush(source)));
            flood(plan, source, &mut actions);
        }
        for link in 0..plan.links.len() {
            slow.push(slow_network(plan, plan.sources.len() + link));
            let end_ns = of_link(plan, link, &mut actions, &mut happens);
            last_ns = last_ns.max(end_ns);
        }
        let stop_ns = match case.faults.has(Fault::SendOn) {
            // After half of the data have been sent, so that there is something to record.
            true => BEGIN_NS + whole / 2 + case.chance("stop").below(whole / 2),
            false => last_ns + 2 * S,
        };
        let mishaps = streams::mishaps(plan).into_iter();
        actions.extend(mishaps.map(|(ns, stream, what)| (ns, Action::Mishap(stream, what))));
        let troubles = wires::troubles(plan, stop_ns).into_iter();
        actions.extend(troubles.map(|(ns, sender, what)| (ns, Action::Trouble(sender, what))));
        actions.extend(requests(plan));
        actions.push((stop_ns, Action::Stop));
        disturb(plan, stop_ns, &mut actions);
        // In order of time; equal times keep the order in which they were made.
        actions.sort_by_key(|(ns, _)| *ns);
        Self { actions, slow, stop_ns, happens }
    }
}

/// What a link sends: each slice when it is over. Returns when everything has been sent.
fn of_link(
    plan: &Plan,
    link: usize,
    actions: &mut Vec<(u64, Action)>,
    happens: &mut BTreeSet<Fault>,
) -> u64 {
    let case = &plan.case;
    let endpoint = plan.sources.len() + link;
    let slice_ns = plan.links[link].slice_ns;
    let count = (crate::plan::DURATION_NS / slice_ns).min(plan.events);
    let habits = habits(plan, endpoint);
    let mut chance = case.chance(&format!("clock {link}"));
    let steps = case.faults.has(Fault::Clock) && chance.chance(600);
    let step_at = chance.below(count + 1);
    // Back and ahead, by little and by more than the step that restarts time.
    let step = [-2, -20, -900, 2, 30, 100_000][chance.index(6)];
    // A clock that drifts by up to 200 ppm.
    let drift = chance.below(200);
    let first = (BEGIN_NS + 400 * MS) / slice_ns;
    let mut was_dead = false;
    let mut ns = 0;
    for index in 0..count {
        let begin_ns = (first + index + 1) * slice_ns;
        ns = begin_ns + (begin_ns - BEGIN_NS) / 1_000_000 * drift + chance.below(200_000);
        let has_stepped = steps && index >= step_at;
        happens.extend(has_stepped.then_some(Fault::Clock));
        let slice = (first + index).saturating_add_signed(if has_stepped { step } else { 0 });
        let is_dead = habits.dead.has(index);
        if is_dead && !was_dead {
            actions.push((ns, Action::Die(endpoint)));
        }
        was_dead = is_dead;
        if !is_dead && !habits.silent.has(index) {
            actions.push((ns, Action::Trigger { source: endpoint, trigger: slice }));
        }
    }
    actions.push((ns + 10 * MS, Action::Flush(endpoint)));
    flood(plan, endpoint, actions);
    ns
}

/// What operators ask for.
fn requests(plan: &Plan) -> impl Iterator<Item = (u64, Action)> {
    let requests = plan.control.iter().flatten();
    let requests = requests.map(|&(ns, command)| (ns, Action::Request(command)));
    let changes = plan.changes.iter().enumerate();
    requests.chain(changes.map(|(index, one)| (one.at_ns, Action::Change(index))))
}

/// What a source does at an event.
fn of_event(plan: &Plan, source: usize, trigger: u64) -> Action {
    match plan.takes_part(source, trigger) {
        true => Action::Trigger { source, trigger },
        false => Action::PassOver { source, trigger },
    }
}

fn windows(chance: &mut Random, events: u64) -> Window {
    let from = chance.below(events + 1);
    Window { from, until: from + 1 + chance.below(events / 6 + 1) }
}

fn habits(plan: &Plan, source: usize) -> Habits {
    let of = |fault: Fault, share: u64| {
        let mut chance = plan.case.chance(&format!("{} {source}", fault.name()));
        let happens = plan.case.faults.has(fault) && chance.chance(share);
        (happens, chance)
    };
    let window = |fault, share| {
        let (happens, mut chance) = of(fault, share);
        if happens { windows(&mut chance, plan.events) } else { Window::NONE }
    };
    let (is_misnumbered, mut chance) = of(Fault::Misnumber, 400);
    Habits {
        dead: window(Fault::Die, 500),
        silent: window(Fault::Silent, 500),
        ahead: window(Fault::Ahead, 500),
        ahead_ns: of(Fault::Ahead, 0).1.below(AHEAD_NS_MAX),
        misnumbered_from: (is_misnumbered && plan.sources.len() > 2)
            .then(|| chance.below(plan.events + 1)),
    }
}

fn slow_network(plan: &Plan, source: usize) -> SlowNetwork {
    let mut chance = plan.case.chance(&format!("slow network {source}"));
    let from = BEGIN_NS + chance.below(crate::plan::DURATION_NS);
    let happens = plan.case.faults.has(Fault::Delay) && chance.chance(600);
    let until = from + chance.below(3 * S);
    let late_ns = [5 * MS, 100 * MS, DELAY_NS_MAX][chance.index(3)];
    let window = if happens { (from, until) } else { (0, 0) };
    SlowNetwork { window, late_ns }
}

fn flood(plan: &Plan, source: usize, actions: &mut Vec<(u64, Action)>) {
    let mut chance = plan.case.chance(&format!("flood {source}"));
    if plan.case.faults.has(Fault::Flood) && chance.chance(400) {
        let from = BEGIN_NS + S / 2 + chance.below(crate::plan::DURATION_NS);
        let count = [10, 100, 1_000][chance.index(3)];
        actions.push((from, Action::Flood { source, count }));
    }
}

/// Events of the run and of the process.
fn disturb(plan: &Plan, stop_ns: u64, actions: &mut Vec<(u64, Action)>) {
    let case = &plan.case;
    let at = |fault: Fault, times: u64, longest_ns: u64| {
        let mut chance = case.chance(fault.name());
        let count = if case.faults.has(fault) { 1 + chance.below(times) } else { 0 };
        let span = stop_ns - BEGIN_NS;
        (0..count)
            .map(|_| {
                let from = BEGIN_NS + chance.below(span);
                (from, from + 1 + chance.below(longest_ns))
            })
            .collect::<Vec<_>>()
    };
    for (from, until) in at(Fault::Pause, 2, S) {
        actions.extend([(from, Action::Pause(true)), (until, Action::Pause(false))]);
    }
    for (from, until) in at(Fault::Freeze, 2, 3 * S) {
        actions.push((from, Action::Freeze(until)));
    }
    for (from, until) in at(Fault::Starve, 20, 300 * MS) {
        actions.push((from, Action::Starve(until)));
    }
    for (from, _) in at(Fault::HoldReceive, 1, S) {
        actions.push((from, Action::HoldReceive(from + HELD_NS)));
    }
    for (fault, death) in [(Fault::Crash, Death::OfPower), (Fault::Kill, Death::Killed)] {
        for (from, until) in at(fault, 1, S) {
            let mut chance = case.chance("when it dies");
            // At the run's end, too; and often while something is being written.
            let from = from + chance.below(2) * chance.below(S);
            actions.push((
                from,
                match chance.below(2) {
                    0 => Action::Crash(death),
                    _ => Action::CrashHalfWritten(death),
                },
            ));
            actions.push((until.max(from + S / 4) + S / 10, Action::Restart));
        }
    }
}

/// How long a receive agent is not called.
const HELD_NS: u64 = 10 * S;
