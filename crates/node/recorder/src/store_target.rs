//! A target that is a storage node: frames go there over the network, and count as recorded and
//! durable when the node says that they are durable.
//!
//! Each frame is held, with its encoded columns, until then: a connection that breaks, or a node
//! that is restarted, gets the rest again. What is held counts in the target's queue, whose bound
//! is `targets.hold_bytes` (a best-effort target: `queue_bytes`): where it is spent, a required
//! target has frames wait, as a slow disk has. The oldest frame does not count, so that one that
//! is larger than the bound goes, too.
//!
//! A node that is away is ridden out in memory. One that refuses the stream (a token, another run
//! of that name) is a fault: what is held is discarded and counted, and so is what comes.
//!
//! Once the run is to end, the target waits as long as the node gets on. It gives up what is held,
//! and names why, when the node has been *blocked* for `end_wait_ns`: it cannot be reached, or says
//! that it can write nothing. One that can be reached and says no such thing has [`END_NS`] from
//! the last frame that became durable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Agent, Dial, FileId, Work};
use catchment_frame::encode_ledger_increment;
use catchment_model::RunId;
use catchment_sender::{Action, Connection, SenderState, StreamSession};
use catchment_writer::{FrameEncoder, StoreFile};
use crossbeam_channel::TryRecvError;

use crate::column_bytes::ColumnBytes;
use crate::frames::{FrameHead, SharedColumn};
use crate::live::State;
use crate::settlement::BegunFrame;
use crate::store_feed::{DATA, Feed, Held, HeldColumn, Stream, ledger_of};
use crate::target::encode_own;
use crate::target_ledger::{FrameTag, TargetLedger};
use crate::target_queue::{Answer, Item, TargetInput};

/// The longest time to the next cycle while nothing happens.
const IDLE_NS: u64 = 5_000_000;
/// Bytes sent in one cycle.
const CYCLE_BYTES: usize = 4 << 20;
/// Items taken from the queue in one cycle.
const CYCLE_ITEMS: usize = 256;
/// How long the end of a run waits for a node by which nothing becomes durable.
const END_NS: u64 = 60_000_000_000;
const CONTROL: usize = 0;
/// The node's place in the settlement, which knows files.
const PLACE: StoreFile = StoreFile { store: 0, id: FileId(0) };

/// How a storage node is reached.
pub(crate) struct StoreParts {
    pub(crate) run: RunId,
    pub(crate) dial: Box<dyn Dial>,
    pub(crate) session: StreamSession,
    pub(crate) address: String,
    /// The header of the stream's files.
    pub(crate) header: Vec<u8>,
    /// How long the run's end waits while it is blocked.
    pub(crate) end_wait_ns: u64,
}

/// That a node takes nothing.
struct Blocked {
    since_ns: u64,
    /// What was durable then.
    durable: u64,
}

/// A target's state.
pub(crate) struct StoreTarget {
    now_ns: u64,
    input: TargetInput,
    ledger: TargetLedger,
    node: StoreParts,
    feed: Feed,
    /// Oldest first. The newest may still get columns.
    held: VecDeque<Held>,
    /// Whether the columns of a frame that was refused are on their way.
    discards: bool,
    last: Option<(Arc<FrameHead>, Vec<SharedColumn>)>,
    encoder: FrameEncoder<ColumnBytes>,
    /// The number after those of all frames so far.
    end: u64,
    /// The number of the stream's end, once all frames are there.
    close: Option<u64>,
    /// Since when the run is to end, or when something became durable later.
    durable_ns: Option<u64>,
    /// Why the node takes nothing now.
    away: Option<String>,
    /// Since when that is so, but for moments in which nothing became durable.
    blocked: Option<Blocked>,
    /// Why the node takes nothing more.
    refusal: Option<String>,
    has_ended: bool,
    /// Whether more may come from the frames agent.
    is_fed: bool,
}

impl StoreTarget {
    /// `end` is the number of the first frame.
    pub(crate) fn new(
        input: TargetInput,
        ledger: TargetLedger,
        node: StoreParts,
        end: u64,
    ) -> Self {
        Self {
            now_ns: 0,
            input,
            ledger,
            node,
            feed: Feed::new(),
            held: VecDeque::new(),
            discards: false,
            last: None,
            encoder: FrameEncoder::new(None),
            end,
            close: None,
            durable_ns: None,
            away: None,
            blocked: None,
            refusal: None,
            has_ended: false,
            is_fed: true,
        }
    }

    /// Takes what waits in the queue. Returns how many items.
    fn take_items(&mut self) -> usize {
        for taken in 0..CYCLE_ITEMS {
            match self.input.next() {
                Ok(Item::Begin(head)) => self.begin(head),
                Ok(Item::NotTaken(frames)) => self.ledger.not_taken(&frames),
                Ok(Item::Column(column)) if self.discards => self.input.copied(column),
                Ok(Item::End(_)) if self.discards => self.discards = false,
                Ok(Item::Column(column)) => self.take_column(column),
                Ok(Item::End(lowered)) => self.end_frame(&lowered),
                Ok(Item::Last(head, columns)) => {
                    self.last = Some((self.ledger.carry(&head), columns));
                }
                Err(TryRecvError::Empty) => return taken,
                Err(TryRecvError::Disconnected) => {
                    self.end_stream();
                    return taken;
                }
            }
        }
        CYCLE_ITEMS
    }

    fn begin(&mut self, head: Arc<FrameHead>) {
        if self.refusal.is_some() {
            self.ledger.refused(&head);
            self.input.answer(Answer::Refuses);
            // Its columns come if nobody waits for the answer.
            self.discards = !self.input.required;
            return;
        }
        let begins_file = self.end == 0;
        self.hold_skipped(&head);
        self.hold(head);
        self.input.answer(Answer::Takes { begins_file });
    }

    /// Holds what stands for frames before that one, if some are missing.
    fn hold_skipped(&mut self, head: &FrameHead) {
        if let Some(skipped) = self.ledger.next_skipped(head) {
            self.hold(Arc::new(skipped));
            self.end_frame(&[]);
        }
    }

    fn hold(&mut self, head: Arc<FrameHead>) {
        let (counts, increment) = (head.counts.clone(), self.ledger.begin(&head));
        let begun = self.ledger.begin_positions(&head);
        let tag = FrameTag { head, counts, increment, begun };
        let held = Held { tag, columns: Vec::new(), ledger: None };
        self.end = held.end();
        self.node.session.made(self.end);
        self.held.push_back(held);
    }

    fn take_column(&mut self, column: SharedColumn) {
        let is_oldest = self.held.len() == 1;
        let Some(held) = self.held.back_mut() else {
            unreachable!("columns follow a frame's beginning")
        };
        if is_oldest {
            self.input.copied(Arc::clone(&column));
        }
        held.columns.push(HeldColumn { column, is_counted: !is_oldest });
    }

    /// The newest frame has its columns, but for those of the target's own.
    fn end_frame(&mut self, lowered: &[u64]) {
        let Some(held) = self.held.back_mut() else {
            unreachable!("a frame's end follows its beginning")
        };
        for (counts, &bytes) in held.tag.counts.iter_mut().zip(lowered) {
            counts.lowered += bytes;
        }
        let own = encode_own(&mut self.encoder, &held.tag);
        let own = own.into_iter().rev();
        held.columns.extend(own.map(|column| HeldColumn { column, is_counted: false }));
        held.ledger = Some(ledger_of(&held.tag));
    }

    /// All frames are there: the last one follows if the ledger has counts that no frame has.
    fn end_stream(&mut self) {
        self.is_fed = false;
        if self.close.is_some() || self.refusal.is_some() {
            return;
        }
        if let Some((head, columns)) = self.last.take() {
            let mut records = Vec::new();
            encode_ledger_increment(self.ledger.carried(), &mut records);
            if !records.is_empty() || self.ledger.has_positions() {
                self.hold(head);
                if let Some(held) = self.held.back_mut() {
                    let column = |column| HeldColumn { column, is_counted: false };
                    held.columns.extend(columns.into_iter().map(column));
                }
                self.end_frame(&[]);
            }
        }
        self.close = Some(self.end);
        self.node.session.made(self.end + 1);
    }

    /// Does what the session asks for, and moves bytes. Returns how many bytes.
    fn talk(&mut self) -> usize {
        let mut moved = 0;
        for number in [CONTROL, DATA] {
            match self.node.dial.take_outcome(number) {
                Some(Ok(())) => self.opened(number),
                Some(Err(error)) => self.closed(number, &error.to_string()),
                None => {}
            }
        }
        moved += self.read_control();
        self.release();
        self.act();
        moved += self.write_control();
        if self.node.session.is_open() {
            let session = &self.node.session;
            let stream = Stream {
                header: &self.node.header,
                held: &self.held,
                close: self.close,
                generation: session.generation(),
                alive_ns: session.alive_ns(),
            };
            let (dial, now_ns) = (&mut *self.node.dial, self.now_ns);
            let mut budget = CYCLE_BYTES;
            match self.feed.send(dial, &stream, now_ns, &mut budget) {
                Ok(bytes) => {
                    self.node.session.data_sent(bytes);
                    moved += bytes;
                }
                Err(error) => self.closed(DATA, &error.to_string()),
            }
        }
        moved
    }

    fn opened(&mut self, number: usize) {
        let connection = connection(number);
        if number == DATA {
            let mut attach = Vec::new();
            self.node.session.attach(&mut attach);
            let next = self.node.session.next();
            let frame = self.held.partition_point(|held| held.end() <= next);
            self.feed.open(attach, frame, self.now_ns);
        }
        self.node.session.opened(self.now_ns, connection);
    }

    fn closed(&mut self, number: usize, why: &str) {
        self.node.dial.close(number);
        if number == DATA {
            self.feed.close();
        }
        self.node.session.closed(self.now_ns, connection(number), why);
    }

    fn read_control(&mut self) -> usize {
        let mut buffer = [0; 4 << 10];
        let mut all = 0;
        while self.node.session.is_read() {
            match self.node.dial.read(CONTROL, &mut buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    all += bytes;
                    let received = self.node.session.received(self.now_ns, &buffer[..bytes]);
                    if let Err(fault) = received {
                        self.ledger.warn_once(format!("{}: {fault}", self.node.address));
                    }
                }
                Err(error) => {
                    self.closed(CONTROL, &error.to_string());
                    break;
                }
            }
        }
        all
    }

    fn write_control(&mut self) -> usize {
        let mut all = 0;
        loop {
            let bytes = self.node.session.outgoing(self.now_ns);
            if bytes.is_empty() {
                return all;
            }
            match self.node.dial.write(CONTROL, &[bytes]) {
                Ok(0) => return all,
                Ok(bytes) => {
                    self.node.session.control_sent(bytes);
                    all += bytes;
                }
                Err(error) => {
                    self.closed(CONTROL, &error.to_string());
                    return all;
                }
            }
        }
    }

    fn act(&mut self) {
        loop {
            let step = self.node.session.work(self.now_ns);
            match step.action {
                None => return,
                Some(Action::Connect(connection)) => {
                    let number = if connection == Connection::Control { CONTROL } else { DATA };
                    self.node.dial.connect(number);
                }
                Some(Action::Close) => {
                    self.node.dial.close(CONTROL);
                    self.node.dial.close(DATA);
                    self.feed.close();
                    if let SenderState::Away(why) = self.node.session.state() {
                        let address = &self.node.address;
                        let text = "frames wait in memory until it is back";
                        self.ledger.warn_once(format!("storage node {address}: {why}; {text}"));
                    }
                }
                Some(Action::End) => self.session_ended(),
                Some(_) => {}
            }
        }
    }

    /// Gives back what the node says is durable.
    fn release(&mut self) {
        let durable = self.node.session.durable();
        let mut fragments = Vec::new();
        let mut released = 0;
        let sent = match self.node.session.is_open() {
            true => self.feed.sent_frames(),
            // What it has durable need not be sent again.
            false => self.held.len(),
        };
        while released < sent
            && let Some(oldest) = self.held.front()
            && oldest.ledger.is_some()
            && oldest.end() <= durable
        {
            let Held { tag, .. } = oldest;
            let info = tag.head.info;
            self.ledger.recorded(tag, &info, oldest.bytes());
            let begun: &BegunFrame = &tag.begun;
            self.ledger.settle(|one| {
                one.recorded(begun, PLACE, 0);
                one.closed(PLACE);
            });
            fragments.resize(tag.counts.len(), 0);
            for (sum, counts) in fragments.iter_mut().zip(&tag.counts) {
                *sum += counts.fragments;
            }
            self.drop_oldest();
            released += 1;
        }
        if released > 0 {
            self.feed.released(released);
            self.ledger.durable(&fragments);
            self.durable_ns = self.durable_ns.map(|_| self.now_ns);
        }
        if self.close.is_some_and(|close| durable > close) {
            self.node.session.finish();
        }
    }

    /// The oldest frame is held no longer. The next one does not count from now on.
    fn drop_oldest(&mut self) {
        let Some(oldest) = self.held.pop_front() else { return };
        for HeldColumn { column, is_counted } in oldest.columns {
            if is_counted {
                self.input.copied(column);
            }
        }
        for one in self.held.front_mut().into_iter().flat_map(|next| &mut next.columns) {
            if std::mem::take(&mut one.is_counted) {
                self.input.copied(Arc::clone(&one.column));
            }
        }
    }

    fn session_ended(&mut self) {
        match self.node.session.state() {
            SenderState::Ended(Some(why)) => self.give_up(&why),
            _ if self.held.is_empty() => {}
            _ => self.give_up("the session has ended"),
        }
        self.has_ended = true;
    }

    /// The node takes nothing more: what is held, and what comes, is discarded and counted.
    fn give_up(&mut self, why: &str) {
        if self.refusal.is_some() {
            return;
        }
        let reason = format!("storage node {}: {why}", self.node.address);
        self.ledger.set_state(State::Fault { reason: reason.clone() });
        // Columns of the newest may still come.
        self.discards = self.held.back().is_some_and(|newest| newest.ledger.is_none());
        while let Some(oldest) = self.held.front() {
            self.ledger.failed(&oldest.tag);
            self.drop_oldest();
        }
        self.feed.close();
        self.ledger.set_away(None);
        self.refusal = Some(reason);
    }

    /// Takes note of whether the node takes nothing, and shows it.
    fn look_at_node(&mut self) {
        let (session, now_ns) = (&self.node.session, self.now_ns);
        let durable = session.durable();
        self.blocked.take_if(|blocked| blocked.durable < durable);
        let away = match session.state() {
            SenderState::Away(why) => Some(format!("it is away: {why}")),
            SenderState::Open if session.waits() => Some("it can write nothing now".to_owned()),
            // It may be back, or not.
            SenderState::Opening => self.away.clone(),
            _ => None,
        };
        if away.is_some() {
            self.blocked.get_or_insert(Blocked { since_ns: now_ns, durable });
        }
        if away != self.away {
            let shown = away.as_ref().filter(|_| self.refusal.is_none());
            self.ledger.set_away(shown.map(|why| format!("{}: {why}", self.node.address)));
            self.away = away;
        }
    }

    /// Whether the run has ended for this target.
    fn is_over(&mut self) -> bool {
        if self.refusal.is_some() {
            return !self.is_fed;
        }
        if self.has_ended {
            return true;
        }
        let Some(durable_ns) = self.durable_ns else {
            if self.ledger.is_ending() {
                self.durable_ns = Some(self.now_ns);
                self.node.session.hurry(self.now_ns);
            }
            return false;
        };
        let passed_ns = |since_ns| self.now_ns.saturating_sub(since_ns);
        let blocked_ns = self.blocked.as_ref().map_or(0, |blocked| passed_ns(blocked.since_ns));
        let is_blocked = blocked_ns.min(passed_ns(durable_ns)) >= self.node.end_wait_ns;
        let why = match &self.away {
            Some(away) if is_blocked => format!("at the run's end {away}"),
            _ if passed_ns(durable_ns) >= END_NS => {
                "nothing more became durable there within 60 s of the run's end".to_owned()
            }
            _ => return false,
        };
        self.node.session.finish();
        self.give_up(&why);
        false
    }
}

impl Agent for StoreTarget {
    fn work(&mut self, now_ns: u64) -> Work {
        self.now_ns = now_ns;
        if self.ledger.of_target().is_left.swap(false, Relaxed) {
            self.input.leave_chunks();
            self.give_up("it is behind at the run's end");
        }
        let items = self.take_items();
        let moved = self.talk();
        self.look_at_node();
        if self.is_over() {
            self.ledger.settle(|one| one.end());
            return Work::ended();
        }
        match items + moved {
            0 => {
                let session = &self.node.session;
                let is_open = session.is_open();
                let alive_ns = self.feed.wake_at_ns(session.alive_ns());
                let alive_ns = if is_open { alive_ns } else { u64::MAX };
                Work::until(0, alive_ns.min(now_ns + IDLE_NS))
            }
            done => Work::again(done as u64),
        }
    }
}

fn connection(number: usize) -> Connection {
    if number == CONTROL { Connection::Control } else { Connection::Data(0) }
}
