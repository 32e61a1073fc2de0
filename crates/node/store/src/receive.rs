//! The agent that takes what recorders send: connections, sessions, frames.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Arrival, Entropy, Flow, Ingress, Piece, Waker, Work};
use catchment_encoder::Buffers;
use catchment_net::LinkAccess;
use crossbeam_channel::{Receiver, Sender};

use crate::described::{Description, Question};
use crate::frames::StreamHeader;
use crate::items::Item;
use crate::sessions::Sessions;
use crate::state::{NodeState, StreamKey, StreamState};

/// What the agent asks of the node, which makes folders and threads.
#[derive(Debug)]
pub(crate) enum Order {
    /// A stream is to have a writer. If its sender asks what there is of it, what it asks.
    Open(StreamKey, Option<Question>),
    /// A stream's sessions may be granted that writer generation, once it is on the disk.
    Keep(String, u64),
    /// Which streams of an earlier node are not closed.
    Find,
    /// The files of a stream without a writer are to be closed.
    Close(String),
}

/// The answer to an order, by the stream's name.
pub(crate) enum Answer {
    Opened(String, Result<OpenedStream, NotOpened>),
    Kept(String, Result<u64, String>),
    Found(BTreeSet<String>),
    /// Whether it is closed.
    Closed(String, bool),
}

/// Why a stream has no writer.
#[derive(Clone, Debug)]
pub(crate) enum NotOpened {
    /// It cannot have one under that name.
    Never(String),
    /// It may have one later.
    Later(String),
    /// What there is of it, as its sender asks, is not known.
    Unknown(String),
}

impl NotOpened {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Never(text) | Self::Later(text) | Self::Unknown(text) => text,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Never(text) | Self::Later(text) | Self::Unknown(text) => text,
        }
    }
}

/// A stream that has a writer.
pub(crate) struct OpenedStream {
    pub(crate) state: Arc<StreamState>,
    pub(crate) input: Sender<Item>,
    /// Wakes the writer.
    pub(crate) waker: Waker,
    /// Whether the stream has ended before.
    pub(crate) has_ended: bool,
    /// Whether nothing of it was there.
    pub(crate) is_new: bool,
    /// The highest writer generation that was granted before.
    pub(crate) generation: u64,
    /// What there is of it, if that was asked.
    pub(crate) description: Option<Description>,
}

/// A stream, as far as the agent has it.
pub(crate) enum Slot {
    /// Ordered.
    Opening,
    Failed(NotOpened),
    Ready(Box<Stream>),
}

/// A stream with a writer.
pub(crate) struct Stream {
    pub(crate) state: Arc<StreamState>,
    /// None once it has ended.
    pub(crate) input: Option<Sender<Item>>,
    pub(crate) waker: Waker,
    /// Frames below this number were passed on to the writer.
    pub(crate) taken: u64,
    pub(crate) is_new: bool,
    /// What there is of it, if a sender has asked, until one sends.
    pub(crate) description: Option<Arc<Description>>,
    pub(crate) header: Option<StreamHeader>,
    pub(crate) generation: u64,
    /// The highest one that is on the disk, or why it could not be written; none while it is
    /// being written.
    pub(crate) kept: Option<Result<u64, String>>,
    /// For how long it has had no session.
    pub(crate) idle_ns: u64,
    /// Framing faults of a session between which nothing was taken: whose, how many, and what was
    /// taken at the last one.
    pub(crate) faults: (u64, u32, u64),
}

impl Stream {
    /// Frames below this number are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.state.durable.load(Relaxed).min(self.taken)
    }

    fn new(opened: OpenedStream) -> Self {
        let OpenedStream { state, input, waker, has_ended, is_new, generation, description } =
            opened;
        let description = description.map(Arc::new);
        let taken = state.durable.load(Relaxed);
        let input = (!has_ended).then_some(input);
        let (header, kept, idle_ns) = (None, Some(Ok(generation)), 0);
        let faults = (0, 0, 0);
        Self {
            state,
            input,
            waker,
            taken,
            is_new,
            description,
            header,
            generation,
            kept,
            idle_ns,
            faults,
        }
    }

    /// Counts a framing fault of a session. Whether it is the third one between which nothing was
    /// taken: the next one would come, too.
    pub(crate) fn is_given_up(&mut self, session: u64) -> bool {
        let (of, count, taken) = self.faults;
        let is_again = (of, taken) == (session, self.taken);
        let count = if is_again { count.saturating_add(1) } else { 1 };
        self.faults = (session, count, self.taken);
        count >= FAULTS_MAX
    }

    /// Passes an item on to the writer.
    ///
    /// # Panics
    /// The queue is full: the caller has looked before.
    pub(crate) fn pass_on(&self, item: Item) {
        if let Some(input) = &self.input {
            // A writer that has ended has said why.
            let sent = input.try_send(item);
            assert!(!matches!(sent, Err(ref error) if error.is_full()), "there was room");
            self.waker.wake();
        }
    }

    /// Whether the writer's queue has room for another item.
    pub(crate) fn has_room(&self) -> bool {
        self.input.as_ref().is_none_or(|input| !input.is_full())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.state.input_has_ended.store(true, Relaxed);
    }
}

/// A stream that is perhaps not closed and that nobody has opened: it is an earlier node's, or its
/// last writer has failed, or closes its files and may fail in that.
#[derive(Debug, Default)]
pub(crate) struct Unopened {
    /// As its last writer has shown it.
    pub(crate) state: Option<Arc<StreamState>>,
    /// For how long nobody has asked for it; of an earlier node's, since this one has begun.
    pub(crate) idle_ns: u64,
}

impl Unopened {
    /// Its sender is there.
    pub(crate) fn asked_for(&mut self) {
        self.idle_ns = 0;
        self.set_given_up(false);
    }

    fn set_given_up(&self, is_given_up: bool) {
        let states = self.state.iter();
        states.for_each(|state| state.is_given_up.store(is_given_up, Relaxed));
    }
}

/// The streams, by name.
pub(crate) type Streams = BTreeMap<String, Slot>;

/// What the agent is made of.
pub(crate) struct ReceiveParts {
    pub(crate) ingress: Box<dyn Ingress>,
    pub(crate) entropy: Box<dyn Entropy>,
    pub(crate) state: Arc<NodeState>,
    pub(crate) orders: Sender<Order>,
    pub(crate) answers: Receiver<Answer>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) close_after_ns: u64,
    pub(crate) access: LinkAccess,
}

/// The agent's state.
pub(crate) struct Receive {
    ingress: Box<dyn Ingress>,
    sessions: Sessions,
    answers: Receiver<Answer>,
    stop: Arc<AtomicBool>,
    close_after_ns: u64,
    looked_ns: u64,
    /// Whether the node looks for streams that nobody has opened, or closes one: one at a time.
    is_closing: bool,
    /// When the next one may be closed: later if one could not be.
    closes_ns: u64,
    /// When it ends at the latest, once it is to end.
    ends_ns: Option<u64>,
}

impl Receive {
    pub(crate) fn new(parts: ReceiveParts) -> Self {
        let buffers = Buffers::new(parts.state.memory.capacity() as usize / 8);
        let ReceiveParts { ingress, answers, stop, close_after_ns, orders, .. } = parts;
        // Nothing waits there yet.
        let is_closing = orders.send(Order::Find).is_ok();
        let sessions = Sessions::new(parts.entropy, parts.state, orders, buffers, parts.access);
        Self {
            ingress,
            sessions,
            answers,
            stop,
            close_after_ns,
            looked_ns: 0,
            is_closing,
            closes_ns: 0,
            ends_ns: None,
        }
    }

    /// Takes note of streams that have a writer, of those whose writer has ended, and of those
    /// that nobody sends any more.
    fn look_after_streams(&mut self, now_ns: u64) {
        for answer in self.answers.try_iter() {
            let Sessions { streams, unopened, .. } = &mut self.sessions;
            match answer {
                Answer::Opened(name, Ok(opened)) => {
                    unopened.remove(&name);
                    streams.insert(name, Slot::Ready(Box::new(Stream::new(opened))));
                }
                Answer::Opened(name, Err(error)) => {
                    streams.insert(name, Slot::Failed(error));
                }
                Answer::Kept(name, kept) => {
                    if let Some(Slot::Ready(stream)) = streams.get_mut(&name) {
                        stream.kept = Some(kept);
                    }
                }
                Answer::Found(names) => {
                    self.is_closing = false;
                    names.into_iter().for_each(|name| _ = unopened.entry(name).or_default());
                }
                Answer::Closed(name, is_closed) => {
                    self.is_closing = false;
                    if is_closed {
                        unopened.remove(&name);
                    } else {
                        unopened.entry(name).or_default().idle_ns = 0;
                        self.closes_ns = now_ns + CLOSE_AGAIN_NS;
                    }
                }
            }
        }
        let passed_ns = now_ns.saturating_sub(self.looked_ns).min(LOOK_COUNTS_NS);
        if passed_ns < LOOK_EVERY_NS {
            return;
        }
        self.looked_ns = now_ns;
        self.sessions.look(passed_ns);
        self.sessions.unopened.values_mut().for_each(|one| one.idle_ns += passed_ns);
        self.close_unopened(now_ns);
        let (sessions, close_after_ns) = (&mut self.sessions, self.close_after_ns);
        let mut gone = Vec::new();
        for (name, slot) in &mut sessions.streams {
            let Slot::Ready(stream) = slot else { continue };
            stream.state.taken.store(stream.taken, Relaxed);
            let is_sent = sessions.by_name.contains_key(name);
            stream.idle_ns = if is_sent { 0 } else { stream.idle_ns + passed_ns };
            if stream.state.has_failed() || stream.idle_ns >= close_after_ns {
                gone.push(name.clone());
            }
        }
        for name in gone {
            sessions.stream_failed(&name);
            if let Some(Slot::Ready(stream)) = sessions.streams.remove(&name) {
                stream.state.is_attached.store(false, Relaxed);
                let unopened = Unopened { state: Some(Arc::clone(&stream.state)), idle_ns: 0 };
                unopened.set_given_up(!stream.state.has_failed());
                if !stream.state.has_ended.load(Relaxed) {
                    sessions.unopened.insert(name, unopened);
                }
            }
        }
    }

    /// Has the next stream closed for which nobody has asked for long enough.
    fn close_unopened(&mut self, now_ns: u64) {
        let Sessions { unopened, streams, orders, .. } = &self.sessions;
        if self.is_closing || now_ns < self.closes_ns {
            return;
        }
        let has_none = |name| matches!(streams.get(name), None | Some(Slot::Failed(_)));
        let mut due = unopened.iter().filter(|(_, one)| one.idle_ns >= self.close_after_ns);
        if let Some((name, one)) = due.find(|(name, _)| has_none(*name)) {
            one.set_given_up(true);
            // The node is there as long as this agent.
            self.is_closing = orders.send(Order::Close(name.clone())).is_ok();
        }
    }
}

impl Agent for Receive {
    fn work(&mut self, now_ns: u64) -> Work {
        self.look_after_streams(now_ns);
        let sessions = &mut self.sessions;
        sessions.now_ns = now_ns;
        let poll = &mut |Arrival { endpoint, sender, piece }: Arrival<'_>| match piece {
            // What its listener takes is under TLS, or nothing is.
            Piece::Datagrams(_) | Piece::Secured => Flow::Taken,
            Piece::Opened { .. } => {
                sessions.open(endpoint, sender);
                Flow::Taken
            }
            Piece::Bytes(bytes) => sessions.bytes(endpoint, bytes),
            Piece::Incoming(source) => sessions.incoming(endpoint, source),
            Piece::Closed { .. } => {
                sessions.close(endpoint);
                Flow::Taken
            }
        };
        let received = self.ingress.poll(poll);
        sessions.note_error(self.ingress.take_error().map(|(_, error)| error));
        sessions.answer(&mut *self.ingress, now_ns);
        if self.stop.load(Relaxed) {
            sessions.say_bye();
            let ends_ns = *self.ends_ns.get_or_insert(now_ns + LINGER_NS);
            if now_ns >= ends_ns || !sessions.has_sessions() {
                // Without the agent's ends of their queues the writers close their files.
                return Work::ended();
            }
        }
        match received.arrivals {
            0 if received.held => Work::blocked_until(0, now_ns + HELD_NS),
            0 => Work::until(0, now_ns + IDLE_NS),
            arrivals => Work::again(arrivals),
        }
    }
}

/// The longest time to the next cycle: positions are said that often.
const IDLE_NS: u64 = 5_000_000;
/// The same while a connection waits for memory.
const HELD_NS: u64 = 500_000;
/// How often connections and streams are looked at, and the most of a time without a look that
/// counts as silence.
const LOOK_EVERY_NS: u64 = 50_000_000;
const LOOK_COUNTS_NS: u64 = 250_000_000;
/// How long after a stream that nobody opens could not be closed the next one is.
const CLOSE_AGAIN_NS: u64 = 1_000_000_000;
/// Framing faults of a session between which nothing is taken.
const FAULTS_MAX: u32 = 3;
/// How long senders may take to read that the node ends.
const LINGER_NS: u64 = 1_000_000_000;
