//! How a session opens: a hello with its log, a stream with a writer, and what is granted.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_wire::session::{
    ByeReason, Fault, Fields, Fixed as _, Grant, GrantAnswer, Hello, IN_USE_MS, Log, Logs,
    MESSAGE_BYTES_MAX, NONE, PING_MS, RunState, SILENCE_MS, Welcome,
};
use catchment_wire::storage_link::{StreamGrant, StreamLog};

use super::{Connection, Ended, Kind, Opening, PATIENCE_NS, STREAMS_MAX, Said, Session, Sessions};
use crate::described::Question;
use crate::frames::HeaderParts;
use crate::receive::{NotOpened, Order, Slot, Stream, Unopened};
use crate::state::{Sender, StreamKey, StreamState};

impl Sessions {
    pub(super) fn take_hello(
        &mut self,
        endpoint: usize,
        hello: Hello,
        token: &str,
    ) -> Result<(), Fault> {
        let is_admitted = self.access.admits(token, hello.name.as_str());
        let is_ours = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let Some(connection) = self.connection(endpoint) else { return Ok(()) };
        if connection.opening.is_some() {
            return Err(Fault::Connection { got: Hello::TYPE });
        }
        let name = hello.name.as_str();
        // It becomes the name of a folder.
        let is_name = name.chars().all(is_ours) && !name.is_empty() && !name.starts_with('.');
        let refusal = match () {
            () if !is_admitted => Some(Ended::no_token()),
            () if !is_name => {
                let text = "a stream's name has letters, digits and -_. and begins with no dot";
                Some(Ended::new(ByeReason::NAME, 0, 0, text))
            }
            () if hello.log_count != 1 || hello.data_connections != 1 => {
                let text = "a session has one stream, and one data connection";
                Some(Ended::new(ByeReason::TOO_MANY, 1_000, 1, text))
            }
            () => None,
        };
        match refusal {
            Some(refusal) => self.refuse_opening(endpoint, refusal),
            None => connection.opening = Some(Opening { hello, token: token.into(), log: None }),
        }
        Ok(())
    }

    fn refuse_opening(&mut self, endpoint: usize, refusal: Ended) {
        self.state.count(|counters| &counters.sessions_refused, 1);
        self.count_refusal(&refusal);
        if let Some(connection) = self.connection(endpoint) {
            connection.refusal = Some(refusal);
        }
    }

    pub(super) fn take_log(&mut self, endpoint: usize, log: &Log) -> Result<(), Fault> {
        let Some(connection) = self.connection(endpoint) else { return Ok(()) };
        if connection.refusal.is_some() {
            return Ok(());
        }
        let got = Logs::TYPE;
        let opening = connection.opening.as_mut().ok_or(Fault::Connection { got })?;
        if log.log != 0 || opening.log.is_some() {
            return Err(Fault::UnknownLog { got: log.log });
        }
        if log.connection != 0 {
            let got = log.connection.into();
            return Err(Fault::Bound { field: "connection", min: 0, max: 0, got });
        }
        let of_stream = StreamLog::read(&log.service)?;
        const CUTS: u32 = StreamLog::ASKS | StreamLog::CUTS;
        const SUMS: u32 = StreamLog::ASKS | StreamLog::SUMS;
        let is_dealt = of_stream.flags & StreamLog::DEALT != 0;
        match of_stream.flags & !StreamLog::DEALT {
            0 | StreamLog::ASKS | CUTS => {}
            SUMS if is_dealt => {}
            _ => {
                let (field, got) = ("flags", of_stream.flags.into());
                return Err(Fault::Bound { field, min: 0, max: CUTS.into(), got });
            }
        }
        opening.log = Some((*log, of_stream));
        Ok(())
    }

    /// Admits senders whose streams have a writer, and has others wait for theirs.
    pub(super) fn open_sessions(&mut self) {
        for endpoint in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[endpoint] else { continue };
            let waits = connection.refusal.is_none() && connection.kind == Kind::Control;
            let is_late = connection.silent_ns >= PATIENCE_NS;
            let Some(opening) = connection.opening.take_if(|one| waits && one.log.is_some()) else {
                continue;
            };
            match self.admit(endpoint, &opening) {
                Ok(true) => self.state.count(|counters| &counters.sessions_opened, 1),
                Ok(false) if is_late => {
                    self.refuse_opening(endpoint, Ended::later("the stream is being opened"));
                }
                Ok(false) => {
                    if let Some(connection) = &mut self.connections[endpoint] {
                        connection.opening = Some(opening);
                    }
                }
                Err(ended) => self.refuse_opening(endpoint, ended),
            }
        }
    }

    /// Admits a session; false if its stream has no writer yet.
    fn admit(&mut self, endpoint: usize, opening: &Opening) -> Result<bool, Ended> {
        let Opening { hello, log: Some((log, of_stream)), .. } = opening else { return Ok(false) };
        let name = hello.name.as_str();
        let StreamLog { stream: number, variant, generation, flags } = *of_stream;
        let key = StreamKey {
            name: name.to_owned(),
            run: hello.run,
            stream: number,
            variant,
            is_dealt: flags & StreamLog::DEALT != 0,
        };
        let below = if flags & StreamLog::CUTS != 0 { log.made } else { u64::MAX };
        let numbers = (flags & StreamLog::SUMS != 0).then_some(log.first..log.made);
        let asks = (flags & StreamLog::ASKS != 0).then_some(Question { below, numbers });
        if let Some(question) = &asks {
            self.close_asked(&key, question)?;
        }
        let is_new = !self.streams.contains_key(name);
        let is_full = is_new && self.streams.len() >= STREAMS_MAX && !self.close_ended();
        let stream = match self.streams.get_mut(name) {
            Some(Slot::Ready(stream)) => stream,
            Some(Slot::Opening) => return Ok(false),
            Some(Slot::Failed(_)) => {
                let Some(Slot::Failed(error)) = self.streams.remove(name) else { return Ok(false) };
                return Err(not_opened(error, asks.is_some()));
            }
            None if is_full => {
                let text = format!("{STREAMS_MAX} streams are open");
                return Err(Ended::new(ByeReason::TOO_MANY, 1_000, STREAMS_MAX as u64, text));
            }
            None => {
                self.unopened.get_mut(name).into_iter().for_each(Unopened::asked_for);
                // The node is there as long as this agent.
                let _asked = self.orders.send(Order::Open(key, asks));
                self.streams.insert(name.to_owned(), Slot::Opening);
                return Ok(false);
            }
        };
        if stream.state.key != key {
            let text = format!("{name} is another run here");
            return Err(Ended::new(ByeReason::NAME, 0, 0, text));
        }
        let attached = self.by_name.get(name);
        let in_use = |other: &Session| in_use(other, &self.connections);
        if generation > stream.generation {
            check_claimed(generation, stream.generation, attached.map(in_use))?;
        }
        let other = attached.filter(|other| other.number != hello.session);
        let generation = generation_of(stream, generation, other.map(in_use))?;
        match stream.kept.take() {
            None => return Ok(false),
            Some(Err(error)) => {
                stream.kept = Some(Ok(stream.generation));
                return Err(Ended::later(format!("cannot keep a writer generation: {error}")));
            }
            Some(Ok(kept)) if kept < generation => {
                // The node is there as long as this agent.
                let _asked = self.orders.send(Order::Keep(name.to_owned(), generation));
                return Ok(false);
            }
            kept => stream.kept = kept,
        }
        // What it asks of a part are numbers of frames, and positions count items.
        if asks.is_none() || !key.is_dealt {
            check_positions(stream, log, of_stream)?;
        }
        stream.generation = generation;
        if asks.is_none() {
            // What it says of itself is of before.
            stream.description = None;
        }
        self.detach(name);
        self.welcome(endpoint, opening, generation)?;
        Ok(true)
    }

    /// Has the files of a stream closed whose sender is gone, unless that was done since then: for
    /// another one, which asks what there is.
    fn close_asked(&mut self, key: &StreamKey, question: &Question) -> Result<(), Ended> {
        let Some(Slot::Ready(stream)) = self.streams.get(&key.name) else { return Ok(()) };
        let StreamState { key: own, idle_ns, is_given_up, has_ended, .. } = &*stream.state;
        let is_answered = stream.description.as_ref().is_some_and(|answer| match key.is_dealt {
            true => answer.question.as_ref() == Some(question),
            false => stream.taken <= question.below || has_ended.load(Relaxed),
        });
        if own != key || is_answered {
            return Ok(());
        }
        if let Some(other) = self.by_name.get(&key.name) {
            return Err(in_use(other, &self.connections));
        }
        idle_ns.store(stream.idle_ns, Relaxed);
        is_given_up.store(true, Relaxed);
        let unopened = Unopened { state: Some(Arc::clone(&stream.state)), idle_ns: 0 };
        if !stream.state.has_ended.load(Relaxed) {
            self.unopened.insert(key.name.clone(), unopened);
        }
        self.streams.remove(&key.name);
        Ok(())
    }

    /// Makes room for another stream: closes one that could not be opened, if nobody waits to be
    /// told why, or else, of those that have ended and have no session, the one that has had none
    /// for longest. Until then it is kept for a sender that asks again.
    pub(super) fn close_ended(&mut self) -> bool {
        let openings = self.connections.iter().flatten().filter_map(|one| one.opening.as_ref());
        let awaited: Vec<&str> = openings.map(|opening| opening.hello.name.as_str()).collect();
        let idle = self.streams.iter().filter_map(|(name, slot)| match slot {
            Slot::Opening => None,
            Slot::Failed(_) => {
                let is_awaited = awaited.contains(&name.as_str());
                (!is_awaited).then_some((u64::MAX, name))
            }
            Slot::Ready(stream) => {
                let has_ended = stream.state.has_ended.load(Relaxed);
                let is_over = has_ended && !self.by_name.contains_key(name);
                is_over.then_some((stream.idle_ns, name))
            }
        });
        let longest = idle.max().map(|(_, name)| name.clone());
        longest.is_some_and(|name| self.streams.remove(&name).is_some())
    }

    fn welcome(&mut self, control: usize, opening: &Opening, generation: u64) -> Result<(), Ended> {
        let hello = &opening.hello;
        let mut ticket = [0; 16];
        for half in ticket.chunks_exact_mut(8) {
            let bits = self.entropy.random_u64();
            let bits = bits.map_err(|error| Ended::later(format!("no random bits: {error}")))?;
            half.copy_from_slice(&bits.to_le_bytes());
        }
        let name = hello.name.as_str().to_owned();
        let Some(Slot::Ready(stream)) = self.streams.get(&name) else { return Ok(()) };
        // That it waits, and which files it has, is said with the first positions.
        let said = Said { waits: false, files: 0, ..Said::of(stream) };
        let address = self.connections.get(control).and_then(|one| one.as_ref()?.sender);
        let sender = Sender { address, program: hello.program.as_str().to_owned() };
        *stream.state.sender.lock() = Some(sender);
        stream.state.is_attached.store(true, Relaxed);
        let mut service = [0; 32];
        StreamGrant { generation }.write(&mut service);
        let grant = Grant {
            log: 0,
            answer: GrantAnswer::Joins,
            reason: ByeReason::DONE,
            next: said.taken,
            durable: said.durable,
            source: NONE,
            service,
        };
        let welcome = Welcome {
            session: hello.session,
            run: hello.run,
            ticket,
            run_number: 0,
            stream: stream.state.key.stream,
            epoch: 0,
            state: RunState::Recording,
            features: 0,
            command: 0,
            ping_ms: PING_MS,
            silence_ms: SILENCE_MS,
            skew_bytes: 0,
            message_bytes_max: *MESSAGE_BYTES_MAX.end(),
            log_count: 1,
        };
        let session = Session {
            number: hello.session,
            ticket,
            token: opening.token.clone(),
            generation,
            control,
            data: None,
            welcome: Some((welcome, grant)),
            cookie: 0,
            said,
            ended: None,
            description: stream.description.clone().map(|description| (description, 0)),
            header: HeaderParts::default(),
            frame: None,
            repeats: false,
        };
        self.by_name.insert(name.clone(), session);
        if let Some(connection) = self.connection(control) {
            (connection.stream, connection.silent_ns) = (Some(name), 0);
        }
        Ok(())
    }
}

/// Another sender of a stream is heard.
fn in_use(other: &Session, connections: &[Option<Connection>]) -> Ended {
    let control = connections.get(other.control).and_then(Option::as_ref);
    let silent_ms = control.map_or(0, |connection| connection.silent_ns / 1_000_000);
    let text = "another sender of the stream is heard";
    Ended::new(ByeReason::NAME_IN_USE, IN_USE_MS, silent_ms, text)
}

/// The writer generation of a session: what it was granted before, or one above all before.
fn generation_of(stream: &Stream, granted: u64, other: Option<Ended>) -> Result<u64, Ended> {
    if granted != 0 && granted < stream.generation {
        let text = format!("the stream was opened again, with generation {}", stream.generation);
        return Err(Ended::new(ByeReason::SUPERSEDED, 0, stream.generation, text));
    }
    if let Some(in_use) = other {
        return Err(in_use);
    }
    match granted {
        0 => stream.generation.checked_add(1).ok_or_else(|| {
            Ended::new(ByeReason::UNKNOWN, 0, stream.generation, "no writer generation is left")
        }),
        _ => Ok(granted),
    }
}

/// Checks a writer generation above all that the node knows of its stream. Only a node that knows
/// none, since its disk was replaced, may have granted it.
fn check_claimed(claimed: u64, known: u64, in_use: Option<Ended>) -> Result<(), Ended> {
    if let Some(in_use) = in_use {
        return Err(in_use);
    }
    if known == 0 && claimed <= CLAIMED_MAX {
        return Ok(());
    }
    let text = format!("generation {claimed} was not granted, and {known} is the highest that was");
    Err(Ended::later(text))
}

/// The highest writer generation that a node believes if it knows none of the stream. Above it are
/// as many numbers for grants, and for epochs, which are not below it.
const CLAIMED_MAX: u64 = 1 << 31;

/// What a sender is told of a stream that could not be opened.
fn not_opened(error: NotOpened, asks: bool) -> Ended {
    match error {
        NotOpened::Never(text) => Ended::new(ByeReason::NAME, 0, 0, text),
        NotOpened::Unknown(text) if asks => Ended::new(ByeReason::UNKNOWN, 0, 0, text),
        // What was said to another one, which asked, is not in the way of who sends.
        NotOpened::Later(text) | NotOpened::Unknown(text) => Ended::later(text),
    }
}

/// Checks that a sender holds what the node lacks, and no less.
fn check_positions(stream: &mut Stream, log: &Log, of_stream: &StreamLog) -> Result<(), Ended> {
    let (first, made) = (log.first, log.made);
    if stream.is_new && of_stream.generation == 0 && stream.taken == 0 && first > 0 {
        // A stream that begins there.
        stream.taken = first;
        stream.state.durable.store(first, Relaxed);
    }
    stream.is_new = false;
    let taken = stream.taken;
    if (first..=made).contains(&taken) {
        return Ok(());
    }
    let text = format!("the node has frames up to {taken}, and its sender {first} to {made}");
    Err(Ended::new(ByeReason::UNKNOWN, 0, taken, text))
}
