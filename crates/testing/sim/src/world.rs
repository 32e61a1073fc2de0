//! A run: one thread, one clock, one seed.
//!
//! The clock jumps to the next thing that happens. An agent is called at the time it asked for,
//! when it is woken, or when something that it polls arrives, and at no other time; a call keeps it
//! busy for some time, so agents overtake each other as threads do.

use std::collections::BTreeMap;

use catchment_fixtures::Random;
use catchment_ports::{MemoryFiles, StoreFault, VirtualClock};
use catchment_run::Command;

use crate::conductor::{self, Asked, Conductor};
use crate::detector::{Packet, Sent, SentBySource, SentFragment, SourceState};
use crate::fault::Fault;
use crate::links::LinkState;
use crate::plan::{BEGIN_NS, MS, Plan, S, SourcePlan};
use crate::recorder::{Life, Recorder};
use crate::schedule::{Action, Death, Schedule, SlowNetwork};
use crate::sessions::{FrontEnd, LogPlan};
use crate::strangers::Strangers;
use crate::streams::{Mishap, Streams};
use crate::trace::{Event, Trace};
use crate::verdict::{self, Watcher};
use crate::wires::{self, Trouble, Wires};
use crate::{caught, resume};

mod disturbed;
mod settings;

/// Calls of agents, beyond which a run counts as endless.
const STEPS_MAX: u64 = 4_000_000;
/// How long a run may take to end, not counting the time in which its disk hangs.
const END_NS_MAX: u64 = 600 * S;
/// The longest time that agents are busy with a packet or a fragment of a flood.
const FLOOD_WORK_NS: u64 = 200_000;
/// How long after its postponed death the recorder begins again.
const DEAD_NS: u64 = S / 2;
/// When the end of a run is asked for again.
const STOP_AGAIN_NS: u64 = 50 * MS;
/// The longest time that an operation of the disk hangs.
const HANG_NS_MAX: u64 = 120 * S;

/// The outcome of a run that has ended.
#[derive(Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// The recorders, one after the other.
    pub lives: Vec<Life>,
    /// The contents of the disk.
    pub files: MemoryFiles,
    /// What the detector sent.
    pub sent: Sent,
    /// The front-ends.
    pub front_ends: Vec<FrontEnd>,
    /// When sources restarted their numbers.
    pub renumbered_ns: Vec<u64>,
    /// How often each kind of fault happened.
    pub happened: BTreeMap<Fault, u64>,
    /// The trace.
    pub trace: Trace,
}

/// The run.
struct World<'a> {
    plan: &'a Plan,
    clock: VirtualClock,
    actions: BTreeMap<(u64, u64), Action>,
    order: u64,
    slow: Vec<SlowNetwork>,
    sources: Vec<SourceState>,
    links: Vec<LinkState>,
    streams: Streams,
    front_ends: Vec<(FrontEnd, Wires)>,
    strangers: Strangers,
    sent: Sent,
    files: MemoryFiles,
    recorder: Option<Recorder>,
    /// Run control, if there is any and the node is not dead.
    conductor: Option<Conductor>,
    /// Of the recorder that runs.
    watcher: Watcher,
    lives: Vec<Life>,
    happened: BTreeMap<Fault, u64>,
    trace: Trace,
    /// For the network and the agents' times.
    network: Random,
    times: Random,
    stop_ns: u64,
    /// Whether the recorder dies when the next batch of writes is half done, and of what.
    dies: Option<Death>,
    renumbered_ns: Vec<u64>,
    steps: u64,
}

/// Runs a plan to its end.
///
/// # Errors
/// An agent panicked, or something waits without end.
pub fn run(plan: &Plan, is_traced: bool) -> Result<Outcome, (String, Trace)> {
    let schedule = Schedule::of(plan);
    let mut world = World {
        plan,
        clock: VirtualClock::at(BEGIN_NS),
        actions: BTreeMap::new(),
        order: 0,
        slow: schedule.slow,
        links: LinkState::of_plan(plan),
        streams: Streams::of_plan(plan),
        front_ends: wires::front_ends(plan),
        strangers: Strangers::new(plan.case.chance("strangers")),
        sources: (0..plan.sources.len()).map(|index| SourceState::new(index, plan)).collect(),
        sent: Sent { sources: (0..plan.endpoints()).map(|_| SentBySource::default()).collect() },
        files: MemoryFiles::default(),
        recorder: None,
        conductor: plan.control.as_ref().map(|_| Conductor::new(BEGIN_NS)),
        watcher: Watcher::new(&plan.config, BEGIN_NS),
        lives: Vec::new(),
        happened: schedule.happens.into_iter().map(|fault| (fault, 1)).collect(),
        trace: Trace::new(is_traced),
        network: plan.case.chance("packets"),
        times: plan.case.chance("times"),
        stop_ns: schedule.stop_ns,
        dies: None,
        renumbered_ns: Vec::new(),
        steps: 0,
    };
    for (at_ns, action) in schedule.actions {
        world.at(at_ns, action);
    }
    let done = caught(|| {
        if plan.control.is_none() {
            world.begin()?;
        }
        world.work()
    });
    let World { lives, files, sent, happened, trace, renumbered_ns, front_ends, .. } = world;
    let front_ends = front_ends.into_iter().map(|(mut front_end, _)| {
        front_end.check_status();
        front_end
    });
    let front_ends = front_ends.collect();
    match done {
        Ok(Ok(())) => {
            let plan = plan.clone();
            Ok(Outcome { plan, lives, files, sent, front_ends, renumbered_ns, happened, trace })
        }
        Ok(Err(why)) => Err((why, trace)),
        Err(what) => Err((format!("an agent panicked: {what}"), trace)),
    }
}

impl World<'_> {
    fn at(&mut self, at_ns: u64, action: Action) {
        self.actions.insert((at_ns, self.order), action);
        self.order += 1;
    }

    fn note(&mut self, fault: Fault) {
        *self.happened.entry(fault).or_default() += 1;
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Begins a recorder, which may go on with the run of the one before.
    fn begin(&mut self) -> Result<(), String> {
        let from = resume::left(self.plan, &mut self.lives, &self.files)?;
        let left = from.as_ref().and_then(|from| Some((self.lives.pop()?, from)));
        let (number, plan) = (self.lives.len(), self.plan);
        let mut recorder = Recorder::begin(plan, number, (&self.clock, &self.files), left)?;
        self.trace.agents(recorder.slots.iter().map(|slot| slot.name.as_str()));
        let now_ns = self.now_ns();
        if self.conductor.is_some() {
            Conductor::recorder_began(now_ns, &mut recorder);
        }
        self.recorder = Some(recorder);
        self.watcher = Watcher::new(&plan.config, now_ns);
        self.at(now_ns + verdict::LOOK_EVERY_NS, Action::Look(number));
        for index in 0..self.front_ends.len() {
            let delay_ns = self.network.below(100 * MS);
            self.pass_at(index, now_ns + delay_ns);
        }
        Ok(())
    }

    /// Runs until no work is left.
    fn work(&mut self) -> Result<(), String> {
        loop {
            self.steps += 1;
            let mut next_ns = self.actions.keys().next().map_or(u64::MAX, |key| key.0);
            if let Some(recorder) = &mut self.recorder {
                next_ns = next_ns.min(recorder.next_ns());
            }
            if next_ns == u64::MAX {
                return match self.recorder.is_none() {
                    true => Ok(()),
                    false => Err("no agent will ever be called again".to_owned()),
                };
            }
            let began_ns = self.now_ns();
            self.clock.advance_to(next_ns);
            self.act()?;
            self.call()?;
            self.check_time(began_ns)?;
        }
    }

    fn check_time(&mut self, began_ns: u64) -> Result<(), String> {
        if self.steps > STEPS_MAX {
            return Err(format!("after {STEPS_MAX} steps the run has not ended"));
        }
        let now_ns = self.now_ns();
        let hangs = self.happened.get(&Fault::Hang).copied().unwrap_or(0);
        let Some(recorder) = &self.recorder else { return Ok(()) };
        let Some(stopped_ns) = recorder.life.stopped_ns else { return Ok(()) };
        let most_ns = END_NS_MAX + HANG_NS_MAX * hangs;
        if now_ns > stopped_ns + most_ns && began_ns <= stopped_ns + most_ns {
            let names: Vec<u16> = recorder.slots.iter().map(|slot| slot.index).collect();
            return Err(format!("{} s after the stop agents {names:?} are left", most_ns / S));
        }
        Ok(())
    }

    /// Carries out the external events that are due.
    fn act(&mut self) -> Result<(), String> {
        let now_ns = self.now_ns();
        while let Some(entry) = self.actions.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            match entry.remove() {
                Action::Trigger { source, trigger } => self.trigger(source, trigger),
                Action::PassOver { source, trigger } => self.pass_over(source, trigger),
                Action::Flush(source) => self.flush(source),
                Action::Renumber { source, trigger } => {
                    // Packets sent before carry the old numbers.
                    let packets = self.sources[source].flush();
                    self.send(source, packets);
                    self.sources[source].renumber(trigger);
                    if let Some(LogPlan { sender, log, .. }) = self.plan.sources[source].log {
                        let key = self.sources[source].key_of(trigger);
                        self.front_ends[sender].0.renumber(log as usize, key);
                        self.pass_at(sender, now_ns);
                    }
                    self.renumbered_ns.push(self.now_ns());
                    let are_all = self.plan.case.faults.has(Fault::Renumber);
                    self.note(if are_all { Fault::Renumber } else { Fault::Misnumber });
                }
                Action::Die(source) => {
                    match self.link_of(source) {
                        Some(link) => self.links[link].die(),
                        None => self.sources[source].die(),
                    }
                    if let Some(stream) = self.streams.of(source) {
                        self.mishap(stream, Mishap::Cut);
                    }
                    self.note(Fault::Die);
                }
                Action::Advance(stream) => self.advance(stream),
                Action::Mishap(stream, what) => {
                    self.note(what.fault());
                    self.mishap(stream, what);
                }
                Action::Pass(index) => self.pass(index),
                Action::Trouble(index, what) => self.trouble(index, what),
                Action::Stranger(index) => self.visit(index)?,
                Action::HoldReceive(until_ns) => self.hold_receive(until_ns),
                Action::Flood { source, count } => self.flood(source, count),
                Action::Deliver { source, packet } => self.deliver(source, packet),
                Action::Pause(is_paused) => self.pause(is_paused)?,
                Action::Request(command) => self.request(command)?,
                Action::Change(index) => self.change(index),
                Action::Outcome { life, place } => self.outcome(life, place),
                Action::Conduct => self.conduct()?,
                Action::Look(life) => self.look(life)?,
                Action::Stop => self.stop()?,
                Action::Crash(death) => self.crash(death),
                Action::CrashHalfWritten(death) => self.dies = Some(death),
                Action::Restart => self.restart()?,
                Action::Freeze(until_ns) => self.freeze(until_ns),
                Action::Starve(until_ns) => self.starve(until_ns),
            }
        }
        Ok(())
    }

    fn trigger(&mut self, source: usize, trigger: u64) {
        let now_ns = self.now_ns();
        if let Some(Some(LogPlan { sender, log, .. })) =
            self.plan.sources.get(source).map(|one| one.log)
        {
            let (fragment, key, bytes) = self.sources[source].item(trigger, now_ns);
            self.front_ends[sender].0.fragment(log as usize, fragment, key, bytes);
            self.trace.push(now_ns, Event::Sent(source as u32, trigger, 1));
            return self.pass_at(sender, now_ns);
        }
        let sent = &mut self.sent.sources[source];
        let packets = match source.checked_sub(self.plan.sources.len()) {
            Some(link) => {
                sent.slices.push(trigger);
                self.links[link].slice(trigger)
            }
            None => self.sources[source].fragment(trigger, now_ns, &mut self.network, sent),
        };
        self.trace.push(now_ns, Event::Sent(source as u32, trigger, packets.len()));
        self.send(source, packets);
    }

    /// A front-end says that a source has nothing of an event; what has no front-end says nothing.
    fn pass_over(&mut self, source: usize, trigger: u64) {
        let SourcePlan { log, part, .. } = &self.plan.sources[source];
        if let Some((LogPlan { sender, log, .. }, is_idle)) = log.zip(part.says(trigger)) {
            let key = self.sources[source].key_of(trigger + 1);
            self.front_ends[sender].0.pass_over(log as usize, key, is_idle);
            self.pass_at(sender, self.now_ns());
        }
    }

    /// The link of an endpoint.
    fn link_of(&self, endpoint: usize) -> Option<usize> {
        endpoint.checked_sub(self.plan.sources.len())
    }

    fn flush(&mut self, source: usize) {
        let packets = match self.link_of(source) {
            Some(link) => {
                let next = self.sent.sources[source].slices.last().map_or(0, |last| last + 1);
                vec![self.links[link].heartbeat(next)]
            }
            None => self.sources[source].flush(),
        };
        self.send(source, packets);
    }

    /// Gives packets to the network.
    fn send(&mut self, source: usize, packets: Vec<Packet>) {
        let now_ns = self.now_ns();
        let network = self.plan.network;
        if let Some(index) = self.plan.sender_of_link(source) {
            let slice = self.sent.sources[source].slices.last().copied().unwrap_or(0);
            self.front_ends[index].0.packets(slice, packets);
            return self.pass_at(index, now_ns);
        }
        if let Some(stream) = self.streams.of(source) {
            self.streams.write(stream, source, &packets);
            let delay_ns = self.network.below(network.delay_ns);
            return self.advance_at(stream, now_ns + delay_ns);
        }
        let late_ns = self.slow[source].late_ns(now_ns);
        if late_ns > 0 {
            self.note(Fault::Delay);
        }
        for mut packet in packets {
            let copies = if self.network.chance(network.doubled) { 2 } else { 1 };
            if self.network.chance(network.lost) {
                self.note(Fault::Loss);
                self.trace.push(now_ns, Event::Lost(source as u32));
                continue;
            }
            if copies > 1 {
                self.note(Fault::Duplicate);
            }
            if self.network.chance(network.corrupted) {
                self.note(Fault::Corrupt);
                let Some(plan) = self.plan.sources.get(source) else {
                    // Links rely on the checksum of UDP, which drops such a packet.
                    continue;
                };
                // The checksum of the protocol in parts detects one changed bit, but not any two.
                let bits = if plan.in_parts { 1 } else { 1 + self.network.below(3) };
                packet = packet.corrupted(bits, &mut self.network);
                self.sent.sources[source].corrupted.push(packet.bytes.clone());
            }
            for _ in 0..copies {
                let mut delay_ns = late_ns + self.network.below(network.delay_ns);
                if self.network.chance(network.reordered) {
                    self.note(Fault::Reorder);
                    delay_ns += self.network.below(network.reorder_ns);
                }
                let packet = packet.clone();
                self.at(now_ns + delay_ns, Action::Deliver { source, packet });
            }
        }
    }

    /// The next bytes of a connection come then.
    fn advance_at(&mut self, stream: usize, at_ns: u64) {
        if self.streams.is_to_advance(stream) {
            self.at(at_ns, Action::Advance(stream));
        }
    }

    /// The next bytes of a connection come, if there are any, and room for them.
    fn advance(&mut self, index: usize) {
        let (now_ns, recorder) = (self.now_ns(), self.recorder.as_mut());
        let (came, next_ns) = self.streams.advance(index, now_ns, recorder, &mut self.network);
        if let Some((source, count)) = came {
            self.trace.push(now_ns, Event::Arrived(source as u32, count, true));
        }
        next_ns.into_iter().for_each(|next_ns| self.advance_at(index, next_ns));
    }

    fn mishap(&mut self, index: usize, what: Mishap) {
        let now_ns = self.now_ns();
        self.trace.push(now_ns, Event::Fault(format!("connection {index}: {what:?}")));
        self.streams.suffer(index, what, now_ns, self.recorder.as_mut());
    }

    /// A front-end is called then.
    fn pass_at(&mut self, index: usize, at_ns: u64) {
        if self.front_ends[index].1.call_at(at_ns) {
            self.at(at_ns, Action::Pass(index));
        }
    }

    /// A front-end does what is due: while there is a recorder, or will be one.
    fn pass(&mut self, index: usize) {
        let now_ns = self.now_ns();
        let comes = |action: &Action| matches!(action, Action::Restart | Action::Request(_));
        let has_recorder = self.recorder.is_some() || self.actions.values().any(comes);
        let (front_end, wires) = &mut self.front_ends[index];
        if !wires.is_due(now_ns) || !has_recorder {
            return;
        }
        let sources = &mut self.sent.sources;
        for (source, fragment, bytes) in front_end.fill(|source| sources[source].fragments.len()) {
            sources[source].add(SentFragment { sent_ns: now_ns, ..fragment }, &bytes);
        }
        let life = self.lives.len();
        let recorder = self.recorder.as_mut().map(|recorder| (recorder, life));
        let passed = wires.pass(now_ns, front_end, recorder, &mut self.network);
        if let Some(recorder) = self.recorder.as_ref().filter(|_| passed.bytes[1] > 0) {
            front_end.check_reports(now_ns, &recorder.observer.front_ends().list());
        }
        for why in wires.breaks.drain(..) {
            let name = &front_end.plan.name;
            self.trace.push(now_ns, Event::Told(format!("{name} closes its connections: {why}")));
        }
        let source = front_end.plan.sources[0] as u32;
        for bytes in passed.bytes.into_iter().filter(|&bytes| bytes > 0) {
            self.trace.push(now_ns, Event::Arrived(source, bytes as usize, true));
        }
        self.pass_at(index, passed.next_ns);
    }

    fn trouble(&mut self, index: usize, what: Trouble) {
        let now_ns = self.now_ns();
        self.note(what.fault());
        let (front_end, wires) = &mut self.front_ends[index];
        self.trace.push(now_ns, Event::Fault(format!("{}: {what:?}", front_end.plan.name)));
        wires.suffer(now_ns, what, front_end, self.recorder.as_mut(), &mut self.network);
        self.pass_at(index, now_ns);
        let is_link = self.plan.senders[index].is_channels;
        if let Some(in_ns) = self.strangers.come_ns(what).filter(|_| !is_link) {
            self.at(now_ns + in_ns, Action::Stranger(index));
        }
    }

    fn visit(&mut self, index: usize) -> Result<(), String> {
        let (now_ns, life) = (self.now_ns(), self.lives.len());
        let Self { strangers, front_ends, recorder, trace, .. } = self;
        let Some(recorder) = recorder else { return Ok(()) };
        let front_end = (index, &front_ends[index].0);
        if let Some(in_ns) = strangers.visit(now_ns, front_end, (recorder, life), trace)? {
            self.at(now_ns + in_ns, Action::Stranger(index));
        }
        Ok(())
    }

    /// Front-ends are called when there is something to be read.
    fn look_at_answers(&mut self, now_ns: u64) {
        let Some(recorder) = &self.recorder else { return };
        let has_news = |(_, wires): &(FrontEnd, Wires)| wires.has_news(now_ns, recorder);
        let indices = (0..self.front_ends.len()).filter(|&at| has_news(&self.front_ends[at]));
        for index in indices.collect::<Vec<_>>() {
            let delay_ns = self.network.below(self.plan.network.delay_ns);
            self.pass_at(index, now_ns + delay_ns);
        }
    }

    /// A recorder has ended.
    fn end(&mut self, mut recorder: Recorder) -> Result<(), String> {
        let (now_ns, life) = (self.now_ns(), self.lives.len());
        let last = recorder.observer.snapshot();
        settings::take_made(&mut recorder);
        recorder.life.verdict = Some(self.watcher.last(now_ns, &last)?);
        for (front_end, wires) in &mut self.front_ends {
            wires.end(now_ns, front_end, (&mut recorder, life));
        }
        self.lives.push(recorder.ended());
        self.streams.reset();
        let ended = self.conductor.as_mut().map(|conductor| conductor.recorder_ended(now_ns));
        ended.map_or(Ok(()), |()| self.conduct())
    }

    fn flood(&mut self, source: usize, count: u64) {
        let is_link = self.plan.sender_of_link(source).is_some();
        if is_link || self.plan.sources.get(source).is_some_and(SourcePlan::waits) {
            return;
        }
        self.note(Fault::Flood);
        let now_ns = self.now_ns();
        let again = match self.link_of(source) {
            Some(link) => self.links[link].again(),
            None => self.sources[source].again(),
        };
        // A fragment in many packets, or a packet of many fragments, and a garbage packet.
        let fragments = again.iter().map(|packet| 1 + packet.fragments.len() as u64).sum::<u64>();
        self.stall(now_ns, now_ns + count * (1 + fragments) * FLOOD_WORK_NS);
        for index in 0..count {
            let at_ns = now_ns + index * 50_000;
            let bytes = 1 + self.network.index(200);
            let garbage = Packet::unknown(self.network.noise(bytes));
            self.sent.sources[source].garbage += 1;
            self.at(at_ns, Action::Deliver { source, packet: garbage });
            for packet in again.clone() {
                self.at(at_ns, Action::Deliver { source, packet });
            }
        }
    }

    fn deliver(&mut self, source: usize, packet: Packet) {
        let now_ns = self.now_ns();
        let Some(recorder) = &mut self.recorder else { return };
        let bytes = packet.bytes.len();
        let Some(has_room) = recorder.deliver(source, packet, now_ns) else { return };
        if !has_room {
            self.note(Fault::SmallBuffer);
        }
        self.trace.push(now_ns, Event::Arrived(source as u32, bytes, has_room));
    }

    /// An operator asks for a command, while the run is not to end.
    fn request(&mut self, command: Command) -> Result<(), String> {
        let now_ns = self.now_ns();
        let Some(conductor) = self.conductor.as_mut().filter(|_| now_ns < self.stop_ns) else {
            return Ok(());
        };
        let answer = conductor.request(now_ns, command);
        self.trace.push(now_ns, Event::Told(answer));
        self.conduct()
    }

    /// Run control does what is due.
    fn conduct(&mut self) -> Result<(), String> {
        let now_ns = self.now_ns();
        while let Some(conductor) = &mut self.conductor {
            let asked = conductor.work(now_ns, self.recorder.as_mut());
            for words in conductor.ended() {
                self.trace.push(now_ns, Event::Told(words));
            }
            match asked {
                Asked::Begin => self.begin()?,
                Asked::Wait(at_ns) => {
                    at_ns.into_iter().for_each(|at_ns| self.at(at_ns, Action::Conduct));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Looks at the verdict on a run that records, or has just ended.
    fn look(&mut self, life: usize) -> Result<(), String> {
        let now_ns = self.now_ns();
        let Some(recorder) = self.recorder.as_mut().filter(|_| life == self.lives.len()) else {
            return Ok(());
        };
        settings::take_made(recorder);
        let is_paused = match &self.conductor {
            Some(conductor) => conductor.is_paused(),
            None => Some(recorder.life.pauses.last().is_some_and(|(_, is_paused)| *is_paused)),
        };
        let is_paused = is_paused.filter(|_| recorder.life.stopped_ns.is_none());
        let is_held = |source| recorder.is_held(source, now_ns, self.plan.case.faults);
        self.watcher.look(now_ns, &recorder.observer.snapshot(), is_paused, is_held)?;
        self.at(now_ns + verdict::LOOK_EVERY_NS, Action::Look(life));
        Ok(())
    }

    fn pause(&mut self, is_paused: bool) -> Result<(), String> {
        self.note(Fault::Pause);
        if self.conductor.is_some() {
            return self.request(if is_paused { Command::Pause } else { Command::Resume });
        }
        let now_ns = self.now_ns();
        self.trace.push(now_ns, Event::Told(format!("the run is paused: {is_paused}")));
        if let Some(recorder) = &mut self.recorder {
            recorder.assembly.pause(is_paused);
            recorder.life.pauses.push((now_ns, is_paused));
            recorder.life.was_paused = true;
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        let now_ns = self.now_ns();
        let ends = match (&mut self.conductor, &mut self.recorder) {
            (Some(conductor), recorder) => conductor.end(now_ns, recorder.as_mut()),
            (None, Some(recorder)) => {
                conductor::stop(now_ns, recorder);
                true
            }
            (None, None) => true,
        };
        if !ends {
            self.at(now_ns + STOP_AGAIN_NS, Action::Stop);
            return Ok(());
        }
        self.trace.push(now_ns, Event::Told("the run is ended".to_owned()));
        self.conduct()
    }

    fn crash(&mut self, death: Death) {
        let now_ns = self.now_ns();
        let of_power = death == Death::OfPower;
        let Some(recorder) = self.recorder.take() else { return };
        self.conductor = None;
        self.note(if of_power { Fault::Crash } else { Fault::Kill });
        let what = if of_power { "the power fails" } else { "the recorder is killed" };
        self.trace.push(now_ns, Event::Fault(what.to_owned()));
        let Recorder { observer, slots, assembly, mut life, .. } = recorder;
        life.dies(observer.snapshot(), of_power.then_some(&self.files));
        self.lives.push(life);
        self.streams.reset();
        for (front_end, wires) in &mut self.front_ends {
            let is_told = !of_power && self.network.chance(500);
            wires.orphan(now_ns, is_told, front_end);
        }
        drop((slots, assembly));
        // What an earlier run could not make durable it has said to be in doubt when it ended, and
        // no power cut is needed to know that.
        let ended = self.lives.iter().filter(|life| !life.has_crashed);
        for life in ended.flat_map(Life::of_targets) {
            let doubts = [StoreFault::SyncError, StoreFault::FinishError];
            if doubts.iter().any(|fault| life.disk.contains(fault)) {
                self.files.settle_in(&life.folder);
            }
        }
        match of_power {
            true => self.files.crash(&mut self.plan.case.chance("what is left")),
            false => self.files.settle(),
        }
    }

    fn restart(&mut self) -> Result<(), String> {
        let has_crashed = self.lives.last().is_some_and(|life| life.has_crashed);
        if self.recorder.is_some() || !has_crashed {
            return Ok(());
        }
        let now_ns = self.now_ns();
        let runs = self.lives.len();
        match self.plan.control {
            None => self.begin()?,
            // The node begins a run, or goes on with one.
            Some(_) => {
                let conductor = self.conductor.insert(Conductor::new(now_ns));
                conductor.request(now_ns, Command::Start);
                self.conduct()?;
            }
        }
        let goes_on = if self.lives.len() < runs { ", and goes on with the run" } else { "" };
        self.trace.push(now_ns, Event::Told(format!("the recorder begins again{goes_on}")));
        if now_ns >= self.stop_ns {
            self.at(now_ns + S / 2, Action::Stop);
        }
        Ok(())
    }

    /// Calls one of the agents that are due.
    fn call(&mut self) -> Result<(), String> {
        let now_ns = self.now_ns();
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let Some(called) = recorder.call(now_ns, &mut self.times) else { return Ok(()) };
        self.trace.called(now_ns, &called);
        self.look_at_disk(now_ns);
        self.look_at_answers(now_ns);
        let ended = self.recorder.take_if(|recorder| recorder.slots.is_empty());
        ended.map_or(Ok(()), |recorder| self.end(recorder))
    }

    fn look_at_disk(&mut self, now_ns: u64) {
        let Some(recorder) = &mut self.recorder else { return };
        let mut is_half_written = false;
        for (event, fault, is_half) in recorder.disk_news() {
            is_half_written |= is_half;
            fault.into_iter().for_each(|fault| *self.happened.entry(fault).or_default() += 1);
            self.trace.push(now_ns, event);
        }
        if is_half_written && let Some(death) = self.dies.take() {
            self.crash(death);
            self.at(now_ns + DEAD_NS, Action::Restart);
        }
    }
}
