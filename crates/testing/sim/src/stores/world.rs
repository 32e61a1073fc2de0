//! A run: trains in their order, what befalls nodes, and the agents of a recorder and of its nodes,
//! in virtual time.

use std::collections::BTreeMap;

use catchment_agent::CompletionKind;
use catchment_fixtures::Random;
use catchment_ports::{MemoryFiles, StoreFault, VirtualClock};

use super::death::Dead;
use super::network::{Network, Told};
use super::node::SimNode;
use super::plan::{Happening, NodePlan, StoresPlan, What};
use crate::detector::Packet;
use crate::fault::Fault;
use crate::plan::{BEGIN_NS, MS, S};
use crate::recorder::{Life, Recorder};
use crate::trace::{Event, Trace};
use crate::{caught, conductor};

/// Calls of agents, beyond which a run counts as endless, and the time after which it does.
const STEPS_MAX: u64 = 4_000_000;
const ENDS_WITHIN_NS: u64 = 1_000 * S;
/// How often the memory of nodes is looked at, in steps.
const LOOK_EVERY: u64 = 64;

/// A run that has ended.
pub(super) struct Outcome<'a> {
    pub(super) plan: &'a StoresPlan,
    pub(super) life: Life,
    /// Those of the recorder's own disk.
    pub(super) files: MemoryFiles,
    pub(super) nodes: Vec<SimNode>,
    pub(super) told: Vec<Told>,
    pub(super) happened: BTreeMap<Fault, u64>,
    pub(super) trace: Trace,
    /// Where nodes have their folders.
    _root: tempfile::TempDir,
}

pub(super) struct World<'a> {
    pub(super) plan: &'a StoresPlan,
    pub(super) clock: VirtualClock,
    pub(super) files: MemoryFiles,
    pub(super) network: Network,
    /// It has no agents once it has ended, or died.
    pub(super) recorder: Recorder,
    pub(super) dead: Option<Dead>,
    pub(super) nodes: Vec<SimNode>,
    /// Nodes that are to come back, and when; and those that are started again once they have
    /// ended, and how long after that.
    returns: Vec<(u64, usize)>,
    restarts: BTreeMap<usize, u64>,
    pub(super) times: Random,
    pub(super) happened: BTreeMap<Fault, u64>,
    pub(super) trace: &'a mut Trace,
}

/// Runs a plan to its end.
///
/// # Errors
/// An agent panicked, or something waits without end.
pub(super) fn run(plan: &StoresPlan, is_traced: bool) -> Result<Outcome<'_>, (String, Trace)> {
    let mut trace = Trace::new(is_traced);
    let files = MemoryFiles::default();
    let done = caught(|| {
        // In memory, if there is such a folder: files are copied there often.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let root = root.map_err(|error| format!("a folder for nodes: {error}"))?;
        let clock = VirtualClock::at(BEGIN_NS);
        let network = Network::new(plan, &clock);
        let mut dials: Vec<_> = plan.base.config.targets.iter().map(|_| Vec::new()).collect();
        dials[plan.target] = network.dials(plan.nodes.len());
        let recorder = Recorder::begin_with(&plan.base, 0, (&clock, &files), None, dials)?;
        let agents = recorder.slots.len() as u16;
        let node = |(number, of): (usize, &NodePlan)| {
            let index = agents + 2 * number as u16;
            SimNode::new((plan.case(), of), (number, index), &clock, root.path())
        };
        let nodes: Vec<SimNode> = plan.nodes.iter().enumerate().map(node).collect();
        let of_nodes = (0..nodes.len())
            .flat_map(|node| [format!("receive of node {node}"), format!("write of node {node}")]);
        let names = recorder.slots.iter().map(|slot| slot.name.clone()).chain(of_nodes);
        trace.agents(names.collect::<Vec<_>>().iter().map(String::as_str));
        let mut world = World {
            plan,
            clock,
            files: files.clone(),
            network,
            recorder,
            dead: None,
            nodes,
            returns: Vec::new(),
            restarts: BTreeMap::new(),
            times: plan.case().chance("times of stores"),
            happened: BTreeMap::new(),
            trace: &mut trace,
        };
        world.note_rates();
        (0..world.nodes.len()).for_each(|node| world.begin(node));
        world.work()?;
        let World { network, recorder, nodes, happened, .. } = world;
        Ok((recorder.ended(), nodes, network.told(), happened, root))
    });
    match done {
        Ok(Ok((life, nodes, told, happened, root))) => {
            Ok(Outcome { plan, life, files, nodes, told, happened, trace, _root: root })
        }
        Ok(Err(why)) => Err((why, trace)),
        Err(what) => Err((format!("an agent panicked: {what}"), trace)),
    }
}

impl World<'_> {
    fn work(&mut self) -> Result<(), String> {
        let (sources, mut sent) = (self.plan.sources.len(), 0);
        let mut happenings = self.plan.happenings.iter().copied().peekable();
        let (mut has_stopped, mut are_calm, mut nodes_stopped) = (false, false, false);
        let mut death = self.plan.death;
        for step in 0..STEPS_MAX {
            let is_over = self.recorder.slots.is_empty() && self.dead.is_none();
            if is_over && !are_calm {
                are_calm = true;
                self.calm_nodes();
            }
            if is_over && !nodes_stopped && step % LOOK_EVERY == 0 && self.are_at_rest() {
                nodes_stopped = true;
                self.nodes.iter_mut().for_each(SimNode::stop);
            }
            if is_over && self.nodes.iter().all(SimNode::has_ended) {
                return Ok(());
            }
            let ahead_ns = [
                if sent < self.plan.events { self.plan.sent_ns(sent) } else { u64::MAX },
                if is_over { u64::MAX } else { happenings.peek().map_or(u64::MAX, |one| one.0) },
                if has_stopped || self.dead.is_some() { u64::MAX } else { self.plan.stop_ns },
                death.filter(|_| !is_over).map_or(u64::MAX, |(died_ns, _)| died_ns),
                self.dead.as_ref().map_or(u64::MAX, |dead| dead.due_ns),
                self.returns.iter().map(|one| one.0).min().unwrap_or(u64::MAX),
                self.recorder.next_ns(),
                self.network.next_ns(),
                self.nodes.iter_mut().map(SimNode::next_ns).min().unwrap_or(u64::MAX),
            ];
            let next_ns = ahead_ns.into_iter().min().unwrap_or(u64::MAX);
            if next_ns == u64::MAX {
                return Err("no agent will ever be called again".to_owned());
            }
            self.clock.advance_to(next_ns);
            let now_ns = self.clock.now_ns();
            if now_ns >= self.plan.stop_ns + ENDS_WITHIN_NS {
                return Err(self.endless());
            }
            while sent < self.plan.events && self.plan.sent_ns(sent) <= now_ns {
                (0..sources).for_each(|source| self.deliver(source, sent));
                sent += 1;
            }
            while let Some((_, one)) = happenings.next_if(|one| !is_over && one.0 <= now_ns) {
                self.happen(one);
            }
            while let Some(at) = self.returns.iter().position(|one| one.0 <= now_ns) {
                let (_, node) = self.returns.swap_remove(at);
                self.begin(node);
            }
            if let Some((_, for_ns)) = death.take_if(|(died_ns, _)| *died_ns <= now_ns && !is_over)
            {
                // The next one is to be stopped, too.
                has_stopped = false;
                self.die(for_ns);
            }
            self.ask()?;
            if !has_stopped && self.dead.is_none() && self.plan.stop_ns <= now_ns {
                has_stopped = true;
                self.trace.push(now_ns, Event::Told("the run is ended".to_owned()));
                conductor::stop(now_ns, &mut self.recorder);
            }
            self.pass();
            self.call()?;
            if step % LOOK_EVERY == 0 {
                self.look()?;
            }
        }
        Err(format!("after {STEPS_MAX} steps the run has not ended"))
    }

    /// What is known of a run that does not end.
    fn endless(&self) -> String {
        let seconds = ENDS_WITHIN_NS / S;
        let mut text = format!("it has not ended {seconds} s after its end");
        let snapshot = self.recorder.observer.snapshot();
        let on: Vec<&str> = self.recorder.slots.iter().map(|slot| &*slot.name).collect();
        text += &format!("; agents {on:?}");
        for target in &snapshot.targets {
            let (name, state, required) = (&target.name, &target.state, target.required);
            text += &format!("; target {name}, required {required}: {state:?}, {:?}", target.nodes);
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let streams = node.life.as_ref().map(|life| life.observer.snapshot().streams);
            text += &format!("; node {number}: {streams:?}");
        }
        text
    }

    /// What is there from the beginning.
    fn note_rates(&mut self) {
        for node in &self.plan.nodes {
            let there = [
                (Fault::SingleBytes, node.has_single_bytes),
                (Fault::LateAnswers, node.late_ns > MS),
                (Fault::Slow, node.times.operation_ns_max > 100 * MS),
            ];
            for (fault, _) in there.into_iter().filter(|(_, is_there)| *is_there) {
                *self.happened.entry(fault).or_default() += 1;
            }
        }
        if self.plan.case().faults.has(Fault::SmallMemory) {
            *self.happened.entry(Fault::SmallMemory).or_default() += 1;
        }
    }

    fn note(&mut self, fault: Fault, node: usize) {
        *self.happened.entry(fault).or_default() += 1;
        self.trace.push(self.clock.now_ns(), Event::Fault(format!("node {node}: {fault}")));
    }

    fn begin(&mut self, node: usize) {
        let one = &mut self.nodes[node];
        one.begin();
        if let Some(life) = &one.life {
            self.network.begins(node, &life.queues, life.port);
        }
        self.trace.push(self.clock.now_ns(), Event::Told(format!("node {node} begins")));
    }

    /// The recorder has ended: nodes that are there close what they have, and no others come back.
    fn calm_nodes(&mut self) {
        self.returns.clear();
        self.restarts.clear();
        self.nodes.iter_mut().for_each(SimNode::calm);
    }

    fn are_at_rest(&mut self) -> bool {
        let now_ns = self.clock.now_ns();
        let each = self.nodes.iter_mut().map(|node| node.is_at_rest(now_ns));
        each.fold(true, |all, is_at_rest| all & is_at_rest)
    }

    fn deliver(&mut self, source: usize, event: u64) {
        let now_ns = self.clock.now_ns();
        let packet = Packet::unknown(self.plan.packet(source, event));
        let bytes = packet.bytes.len();
        let has_room = self.recorder.deliver(source, packet, now_ns) == Some(true);
        self.trace.push(now_ns, Event::Arrived(source as u32, bytes, has_room));
    }

    fn happen(&mut self, Happening { node, what }: Happening) {
        let now_ns = self.clock.now_ns();
        if what == What::Calm {
            return self.nodes[node].calm();
        }
        if self.nodes[node].life.is_none() {
            return;
        }
        match what {
            What::Cut { is_behind } => {
                let fault = if is_behind { Fault::LostAnswers } else { Fault::Cut };
                self.note(fault, node);
                self.network.cut(node, is_behind);
                self.nodes[node].wake(now_ns);
                self.recorder.wake_target(self.plan.target, now_ns);
            }
            What::HalfOpen => {
                self.note(Fault::HalfOpen, node);
                self.network.half_open(node);
            }
            What::Stall(for_ns) => {
                self.note(Fault::Stall, node);
                self.network.stall(node, now_ns + for_ns);
            }
            What::Crash(back_ns) => {
                self.note(Fault::NodeCrash, node);
                self.nodes[node].crash();
                self.restarts.remove(&node);
                let is_silent = self.times.chance(500);
                self.gone(node, is_silent);
                self.returns.extend(back_ns.map(|for_ns| (now_ns + for_ns, node)));
            }
            What::Hang(for_ns) => {
                self.note(Fault::NodeHang, node);
                self.nodes[node].hang(now_ns + for_ns);
            }
            What::Restart(for_ns) => {
                self.note(Fault::NodeRestart, node);
                self.nodes[node].stop();
                self.restarts.insert(node, for_ns);
            }
            What::Calm => {}
        }
    }

    fn gone(&mut self, node: usize, is_silent: bool) {
        self.network.is_gone(node, is_silent);
        self.recorder.wake_target(self.plan.target, self.clock.now_ns());
    }

    /// Passes what is on its way.
    fn pass(&mut self) {
        let now_ns = self.clock.now_ns();
        for (node, passed) in self.network.pass().into_iter().enumerate() {
            if passed.node {
                self.nodes[node].wake(now_ns);
            }
            if passed.recorder {
                self.recorder.wake_target(self.plan.target, now_ns);
            }
        }
    }

    /// Calls one of the agents that are due.
    fn call(&mut self) -> Result<(), String> {
        let now_ns = self.clock.now_ns();
        let mut due: Vec<usize> = (0..self.nodes.len()).collect();
        due.retain(|&node| self.nodes[node].next_ns() <= now_ns);
        if self.recorder.slots.iter().any(|slot| slot.is_due(now_ns)) {
            due.push(self.nodes.len());
        }
        if due.is_empty() {
            return Ok(());
        }
        let node = due[self.times.index(due.len())];
        let called = match self.nodes.get_mut(node) {
            Some(node) => node.call(&mut self.times)?,
            None => self.recorder.call(now_ns, &mut self.times),
        };
        if let Some(called) = called {
            self.trace.called(now_ns, &called);
        }
        if node == self.nodes.len() {
            for (event, _, _) in self.recorder.disk_news() {
                self.trace.push(now_ns, event);
            }
            return Ok(());
        }
        self.disk_news(node);
        self.network.collect(node);
        if self.nodes[node].life.is_some() && self.nodes[node].has_ended() {
            // Unless the recorder has ended, it is started again.
            if let Some(for_ns) = self.restarts.remove(&node) {
                self.nodes[node].life = None;
                self.gone(node, false);
                self.returns.push((now_ns + for_ns, node));
            }
        }
        Ok(())
    }

    fn disk_news(&mut self, node: usize) {
        let now_ns = self.clock.now_ns();
        for watch in self.nodes[node].watches() {
            for (kind, file, offset, is_done) in watch.take_completed() {
                let kind = match kind {
                    CompletionKind::Write => "write",
                    CompletionKind::Sync => "sync",
                    CompletionKind::Finished => "end",
                };
                self.trace.push(now_ns, Event::Disk(kind, file, offset, is_done));
            }
            for (fault, _) in watch.take_faults() {
                if fault == StoreFault::Hang {
                    self.nodes[node].disk_hangs(now_ns);
                }
                self.note(Fault::of_store(fault), node);
            }
        }
    }

    /// Nodes hold no more than they may.
    fn look(&self) -> Result<(), String> {
        for (number, (node, plan)) in self.nodes.iter().zip(&self.plan.nodes).enumerate() {
            let Some(life) = &node.life else { continue };
            let (held, most) = (life.observer.snapshot().waiting_bytes, plan.memory_bytes);
            if held > most {
                return Err(format!("node {number} holds {held} bytes of {most}"));
            }
        }
        Ok(())
    }
}
