//! A simulated recorder: its agents, their calls and their wake-ups.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, CompletionKind, Dial, Ingress, Waker, Work};
use catchment_fixtures::Random;
use catchment_model::RunId;
use catchment_ports::{
    MemoryFiles, MemoryStore, QueueIngress, Queues, StoreFault, StoreWatch, VirtualClock,
};
use catchment_recorder::{
    Assembly, AssemblyParts, Bind, Endpoint, Observer, RecorderConfig, RecorderError, Snapshot,
    TargetStore, TrendParts,
};
use catchment_storage::Resumable;
use catchment_watch::Level;

use crate::arrivals::Arrivals;
use crate::conductor::RunLog;
use crate::detector::Packet;
use crate::fault::{Fault, Faults};
use crate::plan::{Plan, S};
use crate::recorded::disk_lied;
use crate::streams::{BUFFER_BYTES, Message};
use crate::trace::Event;
use crate::trends::Trends;
use crate::wires::Whole;

/// Datagrams of each endpoint that one poll delivers.
const PER_POLL: usize = 64;

/// A recorder's life, from its start to its end, or to a crash.
#[derive(Clone, Debug)]
pub struct Life {
    /// Of a life as a target has it, the target's number.
    pub target: usize,
    /// The run's folder in its first target or, of a life as a target has it, in that.
    pub folder: PathBuf,
    /// The folders of its other targets, and the faults of their disks.
    pub others: Vec<(PathBuf, Vec<StoreFault>)>,
    /// The recorder when it ended, or when the power failed.
    pub last: Snapshot,
    /// When it began.
    pub began_ns: u64,
    /// How often a recorder that died was followed by one that went on with its run: what is said
    /// here is of all of them.
    pub deaths: u32,
    /// By target and source: the fragments in frames before that with which the last of those that
    /// followed went on.
    pub kept: Vec<Vec<u64>>,
    /// Whether a disk lied before that: nobody who goes on with the run knows better.
    pub lied: bool,
    /// Whether it died: the power failed, or it was killed.
    pub has_crashed: bool,
    /// Whether it was killed: all written data remain, durable or not.
    pub was_killed: bool,
    /// The files of which a power cut, of its or of one before that it goes on behind, may have
    /// taken a part.
    pub unsynced: BTreeSet<PathBuf>,
    /// When it was told to stop, if it was.
    pub stopped_ns: Option<u64>,
    /// Whether it was paused for a while.
    pub was_paused: bool,
    /// The faults of its disk.
    pub disk: Vec<StoreFault>,
    /// By source: packets that arrived, and those for which there was no room. Of front-ends the
    /// most messages that may have been the source's.
    pub arrived: Vec<(u64, u64)>,
    /// When the last packet arrived.
    pub last_arrival_ns: u64,
    /// By source: the arrival of each fragment.
    pub arrivals: Vec<Arrivals>,
    /// Times in which the recorder, or one of its agents, was stopped or flooded.
    pub stalls: Vec<(u64, u64)>,
    /// When the run was paused (true), and resumed.
    pub pauses: Vec<(u64, bool)>,
    /// What run control asked for.
    pub control: RunLog,
    /// The last verdict, if it ended in order.
    pub verdict: Option<Level>,
    /// By source: the fragments with messages that stood in a connection's buffer when the run
    /// ended.
    pub left: Vec<BTreeSet<usize>>,
    /// By source: messages, and fragments that began in them, which came over a connection and were
    /// never given to the recorder: it had not opened the connection yet, or had refused it.
    pub ungiven: Vec<(u64, u64)>,
    /// By connection: how many of its messages were answered as taken, and how many were taken.
    pub answered: Vec<(u64, u64)>,
    /// The trends of each recorder that recorded it.
    pub(crate) trends: Vec<Trends>,
}

impl Life {
    fn begin(folders: Vec<PathBuf>, observer: &Observer, plan: &Plan, now_ns: u64) -> Self {
        let mut folders = folders.into_iter();
        Self {
            target: 0,
            folder: folders.next().expect("a target"),
            others: folders.map(|folder| (folder, Vec::new())).collect(),
            last: observer.snapshot(),
            began_ns: now_ns,
            deaths: 0,
            kept: Vec::new(),
            lied: false,
            has_crashed: false,
            was_killed: false,
            unsynced: BTreeSet::new(),
            stopped_ns: None,
            was_paused: plan.begins_paused,
            disk: Vec::new(),
            arrived: vec![(0, 0); plan.endpoints()],
            last_arrival_ns: 0,
            arrivals: vec![Arrivals::default(); plan.endpoints()],
            stalls: Vec::new(),
            pauses: Vec::new(),
            control: RunLog::default(),
            verdict: None,
            left: vec![BTreeSet::new(); plan.endpoints()],
            ungiven: vec![(0, 0); plan.endpoints()],
            answered: Vec::new(),
            trends: Vec::new(),
        }
    }
}

impl Life {
    /// Another recorder goes on with the run.
    pub(crate) fn goes_on(self) -> Self {
        let deaths = self.deaths + 1;
        let lied = self.of_targets().any(|life| disk_lied(&life));
        let (has_crashed, was_killed, stopped_ns) = (false, false, None);
        Self { deaths, lied, has_crashed, was_killed, stopped_ns, ..self }
    }

    /// The recorder dies, with that as its last words: it is killed, or the power of these files
    /// fails.
    pub(crate) fn dies(&mut self, last: Snapshot, files: Option<&MemoryFiles>) {
        (self.last, self.has_crashed, self.was_killed) = (last, true, files.is_none());
        self.unsynced.extend(files.into_iter().flat_map(MemoryFiles::unsynced));
    }

    /// Whether a disk did anything wrong.
    pub(crate) fn has_faulted(&self) -> bool {
        !self.disk.is_empty() || self.others.iter().any(|(_, disk)| !disk.is_empty())
    }

    /// The disk of a target did that wrong.
    pub(crate) fn faulted(&mut self, target: usize, fault: StoreFault) {
        match target.checked_sub(1) {
            None => self.disk.push(fault),
            Some(other) => self.others[other].1.push(fault),
        }
    }

    /// This life as each target has it: its folder, its disk, and its line of the ledger.
    pub fn of_targets(&self) -> impl Iterator<Item = Self> + '_ {
        self.last.targets.iter().enumerate().map(|(number, target)| {
            let mut life = Self { target: number, ..self.clone() };
            if let Some(other) = number.checked_sub(1) {
                (life.folder, life.disk) = self.others[other].clone();
            }
            life.last.ledger = target.ledger.clone();
            life.last.state = target.state.clone();
            life.last.counts.events_recorded = target.counts.events_recorded;
            life.last.counts.slices_recorded = target.counts.slices_recorded;
            life
        })
    }
}

/// Gives receive agents their queues.
struct Bound<'a> {
    queues: &'a Queues,
    packets_max: usize,
    /// The queue of each source.
    of_source: BTreeMap<usize, usize>,
    /// The sources of each receive agent.
    of_agent: Vec<Vec<usize>>,
}

impl Bind for Bound<'_> {
    fn bind(&mut self, ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError> {
        let mut queues = Vec::new();
        for port in ports {
            let queue = self.queues.add(self.packets_max);
            self.of_source.extend(port.numbers.iter().map(|&number| (number, queue)));
            queues.push(queue);
        }
        self.of_agent.push(ports.iter().flat_map(|port| port.numbers.clone()).collect());
        Ok(Box::new(QueueIngress::new(self.queues, queues, PER_POLL)))
    }
}

/// An agent and the time of its next call.
pub(crate) struct Slot {
    pub(crate) agent: Box<dyn Agent>,
    pub(crate) name: String,
    pub(crate) index: u16,
    pub(crate) due_ns: u64,
    /// Until then it is busy, or not called whatever arrives.
    pub(crate) busy_ns: u64,
    pub(crate) is_blocked: bool,
}

/// A running recorder.
pub(crate) struct Recorder {
    pub(crate) assembly: Assembly,
    pub(crate) observer: Observer,
    pub(crate) slots: Vec<Slot>,
    queues: Queues,
    of_source: BTreeMap<usize, usize>,
    /// The receive agent of each source.
    receiver: BTreeMap<usize, u16>,
    frames: u16,
    encoders: std::ops::Range<u16>,
    frames_woken: Arc<AtomicBool>,
    encoders_woken: Arc<AtomicBool>,
    /// The trend agent's.
    trends: Option<(u16, Arc<AtomicBool>)>,
    pub(crate) targets: Vec<TargetSlot>,
    /// Receive agents that are not called: from when on, and until when.
    held: Vec<(u16, u64, u64)>,
    pub(crate) life: Life,
    /// By connection: bytes that have come, and the messages in them.
    came: BTreeMap<usize, (u64, Vec<Message>)>,
    /// By connection: the last answer that its sender has read.
    answered: BTreeMap<usize, u64>,
}

/// A call of an agent.
pub(crate) struct Called {
    /// The agent's index.
    pub(crate) index: u16,
    /// What it did, and how long that took.
    pub(crate) done: u64,
    pub(crate) busy_ns: u64,
    /// Whether that was its last call.
    pub(crate) ended: bool,
}

/// A target of a recorder.
pub(crate) struct TargetSlot {
    /// The index of its agent.
    index: u16,
    woken: Arc<AtomicBool>,
    /// Of its disks.
    pub(crate) watches: Vec<StoreWatch>,
}

impl Slot {
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.next_ns() <= now_ns
    }

    pub(crate) fn next_ns(&self) -> u64 {
        self.due_ns.max(self.busy_ns)
    }

    /// It has work from now on.
    pub(crate) fn wake(&mut self, now_ns: u64) {
        self.due_ns = self.due_ns.min(now_ns);
    }
}

impl Recorder {
    /// Calls one of the agents that are due, if any is.
    pub(crate) fn call(&mut self, now_ns: u64, times: &mut Random) -> Option<Called> {
        let count = self.slots.iter().filter(|slot| slot.is_due(now_ns)).count();
        if count == 0 {
            return None;
        }
        let nth = times.index(count);
        let mut due = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_due(now_ns));
        let (at, _) = due.nth(nth)?;
        let slot = &mut self.slots[at];
        let Work { done, wake_at_ns, is_blocked, ended } = slot.agent.work(now_ns);
        let index = slot.index;
        let longest_ns = [5_000, 50_000, 500_000][times.index(3)];
        let longest_ns = if done == 0 { 3_000 } else { longest_ns };
        let busy_ns = 500 + times.below(longest_ns);
        slot.busy_ns = now_ns + busy_ns;
        slot.due_ns = wake_at_ns.max(slot.busy_ns);
        slot.is_blocked = is_blocked;
        if ended {
            self.slots.swap_remove(at);
        }
        self.wake(now_ns, times);
        Some(Called { index, done, busy_ns, ended })
    }

    /// Starts the recorder of that run, on a disk that may hold the files of earlier ones; or one
    /// that goes on with it, of which that is what is left.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub(crate) fn begin(
        plan: &Plan,
        number: usize,
        (clock, files): (&VirtualClock, &MemoryFiles),
        left: Option<(Life, &Resumable)>,
    ) -> Result<Self, String> {
        Self::begin_with(plan, number, (clock, files), left, Vec::new())
    }

    /// The same, with the connections to storage nodes of the first targets: one that has some is
    /// no folder.
    pub(crate) fn begin_with(
        plan: &Plan,
        number: usize,
        (clock, files): (&VirtualClock, &MemoryFiles),
        left: Option<(Life, &Resumable)>,
        nodes: Vec<Vec<Box<dyn Dial>>>,
    ) -> Result<Self, String> {
        let from = left.as_ref().map(|(_, from)| *from);
        let again = from.map_or(String::new(), |from| format!(" again {}", from.epoch));
        let (queues, now_ns, packets_max) = (Queues::default(), clock.now_ns(), plan.queue_packets);
        let (of_source, of_agent) = (BTreeMap::new(), Vec::new());
        let mut bound = Bound { queues: &queues, packets_max, of_source, of_agent };
        let ((frames, frames_woken), (encoders, encoders_woken)) = (waker(), waker());
        let (mut stores, mut targets) = targets(plan, (number, &again), (clock, files));
        stores.iter_mut().zip(nodes).for_each(|(store, nodes)| store.nodes = nodes);
        let folders = stores.iter().map(|store| store.folders[0].0.clone()).collect();
        let (trending, trends_woken) = waker();
        let trends = Trends::default();
        let parts = AssemblyParts {
            trends: Some(TrendParts { waker: trending, store: trends.store() }),
            run: RunId([number as u8 + 1; 16]),
            name: "run".to_owned(),
            targets: stores,
            entropy: || Box::new(Random::new(9)),
            frames,
            encoders,
            is_paused: plan.begins_paused,
            now_ns,
        };
        let create = |store: &mut MemoryStore, path: PathBuf| store.create(&path);
        let config = RecorderConfig { run_number: number as u64 + 1, ..plan.config.clone() };
        let assembly = match from {
            Some(from) => Assembly::resume(&config, parts, from, &mut bound, create),
            None => Assembly::new(&config, parts, &mut bound, create),
        };
        let mut assembly =
            assembly.map_err(|error| format!("the recorder does not begin: {error}"))?;
        let Bound { of_source, of_agent, .. } = bound;
        let receiver = of_agent
            .into_iter()
            .zip(0..)
            .flat_map(|(sources, agent)| sources.into_iter().map(move |source| (source, agent)));
        let slots = slots(std::mem::take(&mut assembly.agents), now_ns);
        let position = |name: &str| slots.iter().position(|slot| slot.name == name);
        let frames = position("frames").expect("a frames agent") as u16;
        let first = position("write").expect("a target's agent") as u16;
        targets.iter_mut().zip(first..).for_each(|(target, index)| target.index = index);
        let first_encoder = first + targets.len() as u16;
        let trend_agent = position("trends").map(|index| index as u16);
        let encoder_count = slots.iter().filter(|slot| slot.name.starts_with("encode")).count();
        let observer = assembly.observer();
        if plan.begins_paused && plan.control.is_none() {
            assembly.begin_between_events();
        }
        let mut life = match left {
            Some((life, _)) => life.goes_on(),
            None => Life::begin(folders, &observer, plan, now_ns),
        };
        life.trends.push(trends);
        Ok(Self {
            observer,
            slots,
            receiver: receiver.collect(),
            assembly,
            queues,
            of_source,
            frames,
            encoders: first_encoder..first_encoder + encoder_count as u16,
            frames_woken,
            encoders_woken,
            trends: trend_agent.map(|index| (index, trends_woken)),
            targets,
            held: Vec::new(),
            life,
            came: BTreeMap::new(),
            answered: BTreeMap::new(),
        })
    }

    /// The time of the next event.
    pub(crate) fn next_ns(&mut self) -> u64 {
        let agents = self.slots.iter().map(Slot::next_ns).min().unwrap_or(u64::MAX);
        let of_targets = self.targets.iter().map(|target| {
            let slot = self.slots.iter_mut().find(|slot| slot.index == target.index);
            slot.map_or(u64::MAX, |slot| {
                // The disk's event wakes the target's agent.
                let due_ns = target.watches.iter().map(StoreWatch::due_ns).min();
                slot.due_ns = slot.due_ns.min(due_ns.unwrap_or(u64::MAX));
                slot.next_ns()
            })
        });
        of_targets.min().unwrap_or(u64::MAX).min(agents)
    }

    /// Something has come over the connections of a target.
    pub(crate) fn wake_target(&mut self, target: usize, now_ns: u64) {
        let index = self.targets[target].index;
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == index) {
            slot.wake(now_ns);
        }
    }

    /// One of the receive agents is not called until then; returns its index, if it still runs.
    pub(crate) fn hold_receive(
        &mut self,
        (now_ns, until_ns): (u64, u64),
        drawn: u64,
    ) -> Option<u16> {
        let count = self.receiver.values().max().map_or(1, |last| u64::from(*last) + 1);
        let index = (drawn % count) as u16;
        let slot = self.slots.iter_mut().find(|slot| slot.index == index)?;
        slot.busy_ns = slot.busy_ns.max(until_ns);
        self.held.push((index, now_ns, until_ns));
        Some(index)
    }

    /// Whether the receive agent of a source has not been called for a second, and was before that.
    pub(crate) fn is_held(&self, source: usize, now_ns: u64, faults: Faults) -> bool {
        let agent = self.receiver.get(&source);
        // What the others say of it may be old where they are not called either.
        let is_said = !faults.has(Fault::Starve) && !faults.has(Fault::Freeze);
        self.held.iter().any(|&(index, from_ns, until_ns)| {
            is_said
                && Some(&index) == agent
                && from_ns > self.life.began_ns + S / 10
                && (from_ns + S..until_ns).contains(&now_ns)
        })
    }

    /// Puts a packet into a source's buffer; returns whether it had room, or none if nothing
    /// receives.
    pub(crate) fn deliver(&mut self, source: usize, packet: Packet, now_ns: u64) -> Option<bool> {
        self.deliver_from(None, source, packet, now_ns)
    }

    /// The same, from that sender.
    pub(crate) fn deliver_from(
        &mut self,
        sender: Option<SocketAddr>,
        source: usize,
        packet: Packet,
        now_ns: u64,
    ) -> Option<bool> {
        let agent = self.receiver[&source];
        let slot = self.slots.iter_mut().find(|slot| slot.index == agent)?;
        if !slot.is_blocked {
            slot.wake(now_ns);
        }
        let Packet { bytes, fragments, part } = packet;
        let has_room = self.queues.send_from(sender, self.of_source[&source], bytes);
        let (arrived, dropped) = &mut self.life.arrived[source];
        if has_room {
            *arrived += 1;
            let arrivals = &mut self.life.arrivals[source];
            fragments.for_each(|index| arrivals.add(index, part, now_ns));
        } else {
            *dropped += 1;
        }
        self.life.last_arrival_ns = now_ns;
        Some(has_room)
    }

    /// Writes bytes of a source's connection, as many as there is room for: how many; none where
    /// the connection was closed.
    pub(crate) fn write(
        &mut self,
        (connection, source): (usize, usize),
        bytes: &[u8],
        now_ns: u64,
    ) -> Option<usize> {
        let agent = self.receiver[&source];
        let slot = self.slots.iter_mut().find(|slot| slot.index == agent)?;
        if !slot.is_blocked {
            slot.wake(now_ns);
        }
        self.life.last_arrival_ns = now_ns;
        self.read_answers(connection);
        let count = self.queues.write(connection, bytes)?;
        self.came.entry(connection).or_default().0 += count as u64;
        Some(count)
    }

    /// Passes bytes of a front-end's connection, as many as there is room for: how many; none where
    /// the connection was closed.
    pub(crate) fn pass(
        &mut self,
        (connection, source): (usize, usize),
        bytes: &[u8],
        now_ns: u64,
    ) -> Option<usize> {
        let agent = self.receiver[&source];
        let slot = self.slots.iter_mut().find(|slot| slot.index == agent)?;
        if !slot.is_blocked {
            slot.wake(now_ns);
        }
        self.queues.write(connection, bytes)
    }

    /// A message of a front-end's source, or a fragment, is whole in the buffer of its connection.
    pub(crate) fn came_whole(&mut self, source: usize, what: Whole, now_ns: u64) {
        let arrivals = &mut self.life.arrivals[source];
        match what {
            Whole::Message => self.life.arrived[source].0 += 1,
            Whole::Fragment(index) => arrivals.add(index, (0, 1), now_ns),
            Whole::FragmentInParts(index) => {
                arrivals.add(index, (0, 1), now_ns);
                arrivals.in_parts.push(now_ns);
            }
        }
    }

    /// Whether a connection has answers that were not read, and whether it is closed.
    pub(crate) fn has_answer(&self, connection: usize) -> (bool, bool) {
        self.queues.has_answer(connection)
    }

    /// The answers to a connection since they were last read.
    pub(crate) fn answers(&self, connection: usize) -> Vec<u8> {
        self.queues.read_answers(connection)
    }

    /// A message of a connection is whole in its buffer.
    pub(crate) fn came(&mut self, connection: usize, message: Message, now_ns: u64) {
        let Message { source, fragment, part, .. } = message;
        self.life.arrived[source].0 += 1;
        self.life.arrivals[source].add(fragment, part, now_ns);
        self.came.entry(connection).or_default().1.push(message);
    }

    /// The sender of a connection reads what it was answered.
    fn read_answers(&mut self, connection: usize) {
        let answers = self.queues.read_answers(connection);
        if let Some(last) = answers.as_chunks::<8>().0.last() {
            self.answered.insert(connection, u64::from_le_bytes(*last));
        }
    }

    /// The recorder has ended: what is left in the buffers of its connections.
    pub(crate) fn ended(mut self) -> Life {
        let connections: Vec<usize> = self.came.keys().copied().collect();
        connections.into_iter().for_each(|connection| self.read_answers(connection));
        let Self { observer, queues, came, answered, mut life, .. } = self;
        life.last = observer.snapshot();
        for (connection, (bytes, messages)) in came {
            let taken = bytes - queues.left(connection) as u64;
            let was_given = queues.was_given(connection);
            let count = messages.iter().filter(|message| message.end <= taken).count() as u64;
            life.answered.push((answered.get(&connection).copied().unwrap_or(0), count));
            for message in messages.into_iter().filter(|message| message.end > taken) {
                life.left[message.source].insert(message.fragment);
                if !was_given {
                    let (messages, fragments) = &mut life.ungiven[message.source];
                    *messages += 1;
                    *fragments += u64::from(message.part.0 == 0);
                }
            }
        }
        life
    }

    /// Opens a connection to a source's port.
    pub(crate) fn connect(&self, source: usize) -> usize {
        self.queues.connect(self.of_source[&source], BUFFER_BYTES)
    }

    /// The sender of a connection closes it.
    pub(crate) fn close(&mut self, (connection, source): (usize, usize), now_ns: u64) {
        self.queues.close(connection);
        let agent = self.receiver[&source];
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == agent) {
            slot.wake(now_ns);
        }
    }

    /// What disks have done since that was last asked for, as the trace has it: with its kind if it
    /// is a fault, and whether a write has completed while another is under way.
    pub(crate) fn disk_news(&mut self) -> Vec<(Event, Option<Fault>, bool)> {
        let mut news = Vec::new();
        let watches = || {
            let targets = self.targets.iter().enumerate();
            targets.flat_map(|(target, slot)| slot.watches.iter().map(move |one| (target, one)))
        };
        for (_, watch) in watches() {
            for (kind, file, offset, is_done) in watch.take_completed() {
                let is_half = kind == CompletionKind::Write && watch.writes() > 0;
                let kind = match kind {
                    CompletionKind::Write => "write",
                    CompletionKind::Sync => "sync",
                    CompletionKind::Finished => "end",
                };
                news.push((Event::Disk(kind, file, offset, is_done), None, is_half));
            }
        }
        for (target, watch) in watches() {
            for (fault, file) in watch.take_faults() {
                self.life.faulted(target, fault);
                let kind = Fault::of_store(fault);
                let event = Event::Fault(format!("disk: {} of file {file}", kind.name()));
                news.push((event, Some(kind), false));
            }
        }
        news
    }

    /// Passes on what agents have said to each other.
    pub(crate) fn wake(&mut self, now_ns: u64, times: &mut Random) {
        let of_targets = self.targets.iter().map(|target| (&target.woken, target.index));
        let of_trends = self.trends.iter().map(|(index, woken)| (woken, *index));
        let others = of_trends.chain([(&self.frames_woken, self.frames)]);
        for (woken, index) in of_targets.chain(others) {
            if woken.swap(false, Relaxed)
                && let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == index)
            {
                slot.wake(now_ns);
            }
        }
        let idle =
            |slot: &&mut Slot| self.encoders.contains(&slot.index) && slot.due_ns == u64::MAX;
        let count = self.slots.iter_mut().filter(idle).count();
        if count > 0 && self.encoders_woken.swap(false, Relaxed) {
            let nth = times.index(count);
            let mut idle = self.slots.iter_mut().filter(idle);
            idle.nth(nth).expect("one of them").wake(now_ns);
        }
    }
}

/// The stores of a plan's targets, for a recorder of that run.
fn targets(
    plan: &Plan,
    (number, again): (usize, &str),
    (clock, files): (&VirtualClock, &MemoryFiles),
) -> (Vec<TargetStore<MemoryStore>>, Vec<TargetSlot>) {
    let buffers = (plan.config.write.buffer_count, plan.config.write.buffer_bytes);
    let (mut stores, mut targets) = (Vec::new(), Vec::new());
    for (target, &times) in plan.stores.iter().enumerate() {
        let of = if target == 0 { String::new() } else { format!(" of target {target}") };
        let seed = plan.case.chance(&format!("life {number}{of}{again}")).next_u64();
        let store = MemoryStore::new((clock.clone(), seed), buffers, times).on(files);
        let (waker, woken) = waker();
        let folder = folder_of(number, target);
        let entropy = Box::new(plan.case.chance(&format!("entropy {number}{of}{again}")));
        let second = plan.second_disk.filter(|_| target == 0).map(|times| {
            let seed = plan.case.chance(&format!("life {number} of disk 1{again}")).next_u64();
            MemoryStore::new((clock.clone(), seed), buffers, times).on(files)
        });
        let of_disks = [store].into_iter().chain(second).map(|store| (folder.clone(), store));
        let of_disks: Vec<_> = of_disks.collect();
        let watches = of_disks.iter().map(|(_, store)| store.watch()).collect();
        let nodes = Vec::new();
        stores.push(TargetStore { folders: of_disks, nodes, entropy, waker });
        targets.push(TargetSlot { index: 0, woken, watches });
    }
    (stores, targets)
}

/// The folder of a run in a target.
pub(crate) fn folder_of(number: usize, target: usize) -> PathBuf {
    match target {
        0 => PathBuf::from(format!("run-{number}")),
        _ => PathBuf::from(format!("run-{number}-of-target-{target}")),
    }
}

/// All agents that are due.
fn slots(agents: Vec<(String, Box<dyn Agent>)>, now_ns: u64) -> Vec<Slot> {
    let slot = |((name, agent), index)| Slot {
        agent,
        name,
        index,
        due_ns: now_ns,
        busy_ns: 0,
        is_blocked: false,
    };
    agents.into_iter().zip(0..).map(slot).collect()
}

/// A waker and the flag that it sets.
fn waker() -> (Waker, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    let woken = Arc::clone(&flag);
    (Waker::new(move || flag.store(true, Relaxed)), woken)
}
