//! Connections from a recorder to storage nodes, and what was said over them: which frames were
//! sent as which items, read as [the specification](../../../../../docs/spec/storage-link.md) has
//! it, and which of them the recorder was told to be durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;

use catchment_agent::Dial;
use catchment_fixtures::Random;
use catchment_ports::{Queues, VirtualClock};
use catchment_wire::session::{self, CONTROL, Control, Fields, Preamble};

use super::plan::{NodePlan, StoresPlan};
use crate::plan::{MS, S};
use crate::streams::BUFFER_BYTES;
use crate::walk::{u16_at, u32_at, u64_at};

/// All connections. Clones are the same.
#[derive(Clone)]
pub(super) struct Network(Arc<parking_lot::Mutex<State>>);

struct State {
    clock: VirtualClock,
    chance: Random,
    /// By node.
    sides: Vec<Side>,
}

/// A node, seen from the network.
struct Side {
    window_bytes: usize,
    has_single_bytes: bool,
    late_ns: u64,
    is_dealt: bool,
    /// Where it takes connections, while it is there.
    there: Option<(Queues, usize)>,
    /// Nothing passes before.
    stalled_ns: u64,
    lines: [Line; 2],
    told: Told,
}

/// A connection, by the recorder's number: control, and data.
#[derive(Default)]
struct Line {
    phase: Phase,
    outcome: Option<io::Result<()>>,
    /// Bytes that the recorder has written, and that have not arrived.
    out: VecDeque<u8>,
    /// Answers on their way, and when they arrive; and those that have.
    on_way: VecDeque<(u64, Vec<u8>)>,
    back: VecDeque<u8>,
    /// Why it has ended. What has arrived is read first.
    over: Option<ErrorKind>,
    /// When bytes pass next.
    due_ns: u64,
    /// What was parsed of it: bytes that are no whole message yet, and messages.
    parsed: Vec<u8>,
    messages: u32,
    has_preamble: bool,
    /// Of the body of a message, the rest.
    rest_bytes: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Closed,
    /// It is being made, until then.
    Wanted(u64),
    /// With its number at the node.
    Open(usize),
    /// Nothing passes any more, and nothing says so.
    Silent,
}

/// What the recorder was told by a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// The frame that each item is, as it was sent last.
    items: BTreeMap<u64, u64>,
    /// Items below are durable.
    pub(super) durable: u64,
    /// The frames among them.
    pub(super) frames: BTreeSet<u64>,
    /// The item that ends the stream, once it was sent, and whether it is durable.
    close: Option<u64>,
    pub(super) has_end: bool,
    /// What it must not have been told.
    pub(super) wrong: Option<String>,
}

/// Who has something to do since bytes have passed.
#[derive(Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) recorder: bool,
    pub(super) node: bool,
}

impl Network {
    pub(super) fn new(plan: &StoresPlan, clock: &VirtualClock) -> Self {
        let is_dealt = plan.nodes.len() > 1;
        let side = |node: &NodePlan| Side {
            window_bytes: node.window_bytes,
            has_single_bytes: node.has_single_bytes,
            late_ns: node.late_ns,
            is_dealt,
            there: None,
            stalled_ns: 0,
            lines: Default::default(),
            told: Told::default(),
        };
        let sides = plan.nodes.iter().map(side).collect();
        let (clock, chance) = (clock.clone(), plan.case().chance("network of nodes"));
        Self(Arc::new(parking_lot::Mutex::new(State { clock, chance, sides })))
    }

    /// The recorder's ends.
    pub(super) fn dials(&self, nodes: usize) -> Vec<Box<dyn Dial>> {
        let dial = |node| Box::new(NodeDial { network: self.clone(), node }) as Box<dyn Dial>;
        (0..nodes).map(dial).collect()
    }

    /// A node takes connections at that port.
    pub(super) fn begins(&self, node: usize, queues: &Queues, port: usize) {
        self.0.lock().sides[node].there = Some((queues.clone(), port));
    }

    /// A node is gone; `is_silent`: nothing says so to the recorder.
    pub(super) fn is_gone(&self, node: usize, is_silent: bool) {
        let side = &mut self.0.lock().sides[node];
        side.there = None;
        for line in &mut side.lines {
            match (line.phase, is_silent) {
                (Phase::Open(_), true) => line.phase = Phase::Silent,
                (Phase::Open(_), false) => line.cut(None, true),
                _ => {}
            }
        }
    }

    /// The connections of a node end for both. With `is_behind`, what was written arrives and is
    /// taken, and what is answered does not.
    pub(super) fn cut(&self, node: usize, is_behind: bool) {
        let mut state = self.0.lock();
        let loses_answers = is_behind || state.chance.chance(500);
        let Side { there, lines, .. } = &mut state.sides[node];
        for line in lines {
            let queues = there.as_ref().map(|(queues, _)| queues);
            if let (Phase::Open(connection), Some(queues), true) = (line.phase, queues, is_behind) {
                let bytes: Vec<u8> = line.out.iter().copied().collect();
                let _taken = queues.write(connection, &bytes);
            }
            line.cut(queues, loses_answers);
        }
    }

    /// Whatever is between forgets the connections of a node.
    pub(super) fn half_open(&self, node: usize) {
        let side = &mut self.0.lock().sides[node];
        let open = side.lines.iter_mut().filter(|line| matches!(line.phase, Phase::Open(_)));
        open.for_each(|line| line.phase = Phase::Silent);
    }

    /// Nothing passes to or from a node until then.
    pub(super) fn stall(&self, node: usize, until_ns: u64) {
        let side = &mut self.0.lock().sides[node];
        side.stalled_ns = side.stalled_ns.max(until_ns);
    }

    /// The recorder is gone; `is_silent`: nothing says so to nodes.
    pub(super) fn leave(&self, is_silent: bool) {
        for Side { there, lines, .. } in &mut self.0.lock().sides {
            let queues = there.as_ref().filter(|_| !is_silent).map(|(queues, _)| queues);
            lines.iter_mut().for_each(|line| line.leave(queues));
        }
    }

    /// What the recorder was told by each node.
    pub(super) fn told(&self) -> Vec<Told> {
        self.0.lock().sides.iter().map(|side| side.told.clone()).collect()
    }

    /// When something passes next.
    pub(super) fn next_ns(&self) -> u64 {
        let state = self.0.lock();
        let of_side = |side: &Side| {
            let lines = side.lines.iter().map(Line::next_ns).min().unwrap_or(u64::MAX);
            if lines == u64::MAX { lines } else { lines.max(side.stalled_ns) }
        };
        state.sides.iter().map(of_side).min().unwrap_or(u64::MAX)
    }

    /// Passes what is due.
    pub(super) fn pass(&self) -> Vec<Passed> {
        let mut state = self.0.lock();
        let State { clock, chance, sides } = &mut *state;
        let now_ns = clock.now_ns();
        sides.iter_mut().map(|side| side.pass(now_ns, chance)).collect()
    }

    /// Takes what a node has answered.
    pub(super) fn collect(&self, node: usize) {
        let mut state = self.0.lock();
        let State { clock, chance, sides } = &mut *state;
        let now_ns = clock.now_ns();
        let Side { there: Some((queues, _)), lines, late_ns, .. } = &mut sides[node] else {
            return;
        };
        for line in lines {
            let Phase::Open(connection) = line.phase else { continue };
            let answers = queues.read_answers(connection);
            if !answers.is_empty() {
                let due_ns = now_ns + chance.below(*late_ns + 1);
                let before_ns = line.on_way.back().map_or(0, |(due_ns, _)| *due_ns);
                line.on_way.push_back((due_ns.max(before_ns), answers));
            }
        }
    }
}

impl Side {
    fn pass(&mut self, now_ns: u64, chance: &mut Random) -> Passed {
        let mut passed = Passed::default();
        if now_ns < self.stalled_ns {
            return passed;
        }
        for number in 0..self.lines.len() {
            self.pass_line(number, now_ns, chance, &mut passed);
        }
        passed
    }

    fn pass_line(&mut self, number: usize, now_ns: u64, chance: &mut Random, passed: &mut Passed) {
        let line = &mut self.lines[number];
        if let Phase::Wanted(due_ns) = line.phase
            && due_ns <= now_ns
        {
            passed.recorder = true;
            match &self.there {
                Some((queues, port)) => {
                    line.phase = Phase::Open(queues.connect(*port, BUFFER_BYTES));
                    line.outcome = Some(Ok(()));
                    passed.node = true;
                }
                None => {
                    line.phase = Phase::Closed;
                    line.outcome = Some(Err(ErrorKind::ConnectionRefused.into()));
                }
            }
            return;
        }
        let Phase::Open(connection) = line.phase else { return };
        let Some((queues, _)) = &self.there else { return };
        while line.on_way.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
            line.back.extend(line.on_way.pop_front().expect("it is there").1);
            passed.recorder = true;
        }
        let is_at_end = line.on_way.is_empty() && queues.has_answer(connection) == (false, true);
        if line.over.is_none() && is_at_end {
            line.over = Some(ErrorKind::UnexpectedEof);
            passed.recorder = true;
        }
        if line.out.is_empty() || line.due_ns > now_ns {
            return;
        }
        let most = match self.has_single_bytes && line.out.len() < SINGLE_BYTES_MAX {
            true => 3,
            false => [100, 9_000, BUFFER_BYTES, BUFFER_BYTES][chance.index(4)],
        };
        let count = (1 + chance.index(most)).min(line.out.len());
        let bytes: Vec<u8> = line.out.iter().take(count).copied().collect();
        match queues.write(connection, &bytes) {
            Some(written) => {
                // A writer that found no room is woken when there is some.
                passed.recorder |= line.out.len() >= self.window_bytes && written > 0;
                line.out.drain(..written);
                passed.node |= written > 0;
                let wait_ns = if written == 0 { MS } else { 1_000 + chance.below(100_000) };
                line.due_ns = now_ns + wait_ns;
            }
            None => {
                line.over = Some(ErrorKind::ConnectionReset);
                line.out.clear();
                passed.recorder = true;
            }
        }
    }
}

impl Line {
    fn next_ns(&self) -> u64 {
        match self.phase {
            Phase::Closed | Phase::Silent => u64::MAX,
            Phase::Wanted(due_ns) => due_ns,
            Phase::Open(_) => {
                let out_ns = if self.out.is_empty() { u64::MAX } else { self.due_ns };
                self.on_way.front().map_or(u64::MAX, |(due_ns, _)| *due_ns).min(out_ns)
            }
        }
    }

    /// It ends for both.
    fn cut(&mut self, queues: Option<&Queues>, loses_answers: bool) {
        match (self.phase, queues) {
            (Phase::Closed | Phase::Wanted(_), _) => return,
            (Phase::Open(connection), Some(queues)) => queues.close(connection),
            _ => {}
        }
        self.over = Some(ErrorKind::ConnectionReset);
        self.out.clear();
        if loses_answers || self.phase == Phase::Silent {
            self.on_way.clear();
        }
        if queues.is_none() {
            self.phase = Phase::Silent;
        }
    }

    /// The recorder leaves it, and the node is told so if that is there.
    fn leave(&mut self, queues: Option<&Queues>) {
        if let (Phase::Open(connection), Some(queues)) = (self.phase, queues)
            && self.over.is_none()
        {
            // What was written still arrives, as far as there is room.
            let bytes: Vec<u8> = self.out.iter().copied().collect();
            let _taken = queues.write(connection, &bytes);
            queues.close(connection);
        }
        *self = Self::default();
    }
}

/// The recorder's end of the connections to a node.
struct NodeDial {
    network: Network,
    node: usize,
}

impl Dial for NodeDial {
    fn connect(&mut self, number: usize) {
        self.close(number);
        let mut state = self.network.0.lock();
        let State { clock, chance, sides } = &mut *state;
        let side = &mut sides[self.node];
        // Nobody says that nobody is there, mostly.
        let is_late = side.there.is_none() && chance.chance(500);
        let takes_ns = if is_late { S } else { MS };
        side.lines[number].phase = Phase::Wanted(clock.now_ns() + chance.below(takes_ns));
    }

    fn take_outcome(&mut self, number: usize) -> Option<io::Result<()>> {
        self.network.0.lock().sides[self.node].lines[number].outcome.take()
    }

    fn write(&mut self, number: usize, slices: &[&[u8]]) -> io::Result<usize> {
        let side = &mut self.network.0.lock().sides[self.node];
        let line = &mut side.lines[number];
        line.check()?;
        let mut written = 0;
        for slice in slices {
            let room = side.window_bytes.saturating_sub(line.out.len());
            let taken = &slice[..slice.len().min(room)];
            line.out.extend(taken);
            written += taken.len();
            if number == DATA {
                line.sent(taken, side.is_dealt, &mut side.told);
            }
        }
        Ok(written)
    }

    fn read(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let side = &mut self.network.0.lock().sides[self.node];
        let line = &mut side.lines[number];
        if line.back.is_empty() {
            // What is on its way comes before the end.
            return if line.on_way.is_empty() { line.check().map(|()| 0) } else { Ok(0) };
        }
        let most = if side.has_single_bytes { 3 } else { buffer.len() };
        let count = most.min(line.back.len());
        let bytes: Vec<u8> = line.back.drain(..count).collect();
        buffer[..count].copy_from_slice(&bytes);
        line.heard(&bytes, &mut side.told);
        Ok(count)
    }

    fn close(&mut self, number: usize) {
        let Side { there, lines, .. } = &mut self.network.0.lock().sides[self.node];
        lines[number].leave(there.as_ref().map(|(queues, _)| queues));
    }
}

impl Line {
    /// Whether it is there.
    fn check(&self) -> io::Result<()> {
        match (self.phase, self.over) {
            (Phase::Open(_) | Phase::Silent, None) => Ok(()),
            (_, Some(over)) => Err(over.into()),
            _ => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// The recorder has written these bytes of data.
    fn sent(&mut self, mut bytes: &[u8], is_dealt: bool, told: &mut Told) {
        loop {
            let skipped = self.rest_bytes.min(bytes.len());
            (self.rest_bytes, bytes) = (self.rest_bytes - skipped, &bytes[skipped..]);
            if bytes.is_empty() {
                return;
            }
            let wanted = match self.has_preamble {
                false => Preamble::BYTES,
                true if self.parsed.len() < HEAD_BYTES => HEAD_BYTES,
                true => HEAD_BYTES + u32_at(&self.parsed, 4) as usize,
            };
            let now = (wanted - self.parsed.len()).min(bytes.len());
            self.parsed.extend_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            if self.parsed.len() < wanted {
                continue;
            }
            if !self.has_preamble {
                self.has_preamble = true;
                self.parsed.clear();
                continue;
            }
            let head_bytes = HEAD_BYTES + u32_at(&self.parsed, 4) as usize;
            if self.parsed.len() < head_bytes {
                continue;
            }
            if u16_at(&self.parsed, 2) == FRAME {
                let (sequence, item) = (u64_at(&self.parsed, 32), u32_at(&self.parsed, 108));
                let item = if is_dealt { item.into() } else { sequence };
                told.items.insert(item, sequence);
                // Another recorder goes on with the run.
                told.close.take_if(|close| *close <= item);
            }
            if u16_at(&self.parsed, 2) == CLOSE {
                // What was an item before is in no file of the node.
                let close = u64_at(&self.parsed, 32);
                told.items.remove(&close);
                told.close = Some(close);
            }
            let body_bytes = u32_at(&self.parsed, 8) as usize;
            self.rest_bytes = (head_bytes + body_bytes).next_multiple_of(8) - head_bytes;
            self.parsed.clear();
        }
    }

    /// The recorder has read these bytes of control, or of what was answered on data.
    fn heard(&mut self, bytes: &[u8], told: &mut Told) {
        self.parsed.extend_from_slice(bytes);
        let mut used = if self.has_preamble { 0 } else { Preamble::BYTES };
        if self.parsed.len() < used {
            return;
        }
        self.has_preamble = true;
        while let Ok(Some(message)) = session::parse(&self.parsed[used..], self.messages, CONTROL) {
            used += message.used;
            self.messages = self.messages.wrapping_add(1);
            match Control::read(&message) {
                Ok(Some(Control::Grants(grants))) => {
                    grants.iter().for_each(|grant| told.is_durable(grant.durable));
                }
                Ok(Some(Control::Positions(_, positions))) => {
                    positions.iter().for_each(|log| told.is_durable(log.durable));
                }
                Ok(_) => {}
                Err(fault) => told.wrong = Some(format!("a node says what it must not: {fault}")),
            }
        }
        self.parsed.drain(..used);
    }
}

impl Told {
    fn is_durable(&mut self, durable: u64) {
        if durable < self.durable {
            let before = self.durable;
            self.wrong = Some(format!("{durable} items are durable, and {before} were"));
        }
        let Self { items, frames, .. } = self;
        frames.extend(items.range(self.durable..durable).map(|(_, &frame)| frame));
        self.durable = durable;
        self.has_end |= self.close.is_some_and(|close| close < durable);
    }
}

/// The data connection's number.
const DATA: usize = 1;
/// Of a message: what is before its head, and the types of one that begins a frame, and of one that
/// ends the stream.
const HEAD_BYTES: usize = 16;
const FRAME: u16 = 65;
const CLOSE: u16 = 68;
/// More bytes than that do not pass one by one.
const SINGLE_BYTES_MAX: usize = 2_000;
