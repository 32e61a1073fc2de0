//! The sessions of a port (docs/spec/session.md): senders come and go with their connections, by
//! any of its listeners, and a session stays until its run ends.
//!
//! All connections of a session are read by one thread. Its control connection is always read; a
//! data connection is held while there is no memory for its next item. Answers on control are made
//! when the system can take them: nothing queues.
//!
//! What data connections bring is in `data.rs`, how sessions go on into a run in `border.rs`, and
//! what is looked at from time to time in `watch.rs`.
//!
//! Limits: those of section 10 of the specification. A name has one session at a time, which is
//! kept if one of its logs is a source: there are no more sessions than sources.

mod border;
mod data;
mod watch;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use catchment_agent::{Egress, Entropy, Flow};
use catchment_builder::{Fragment, SourceNote};
use catchment_frame::Position;
use catchment_model::RunId;
use catchment_net::LinkAccess;
use catchment_wire::session::{
    CONTROL, Connection as Line, Control, Fault, Fields, OPENING_NS, Preamble, SILENCE_NS, Service,
    VERSION, parse,
};
use catchment_wire::{channel_link, event_link, link};

pub(crate) use self::border::Counted;
use crate::accept::CHECKS_PER_LOOK;
use crate::admission::{Opening, Source, account_of, refusal_of};
use crate::commander::Commander;
use crate::destinations::{Destination, SenderConfig};
use crate::front_ends::{FrontEnd, FrontEnds};
use crate::ingest::Ingest;
use crate::link_message::LongMessage;
use crate::link_session::{Ended, MESSAGE_BYTES_MAX, Session};
use crate::link_window::Window;
use crate::live::Live;

/// How often connections are looked at for silence, and the most of a time without a look that
/// counts as silence: a thread that was held up closes nobody for it.
const LOOK_EVERY_NS: u64 = 50_000_000;
const LOOK_COUNTS_NS: u64 = 250_000_000;
/// How often it is asked whether the token of a session still stands.
const TOKENS_EVERY_NS: u64 = 500_000_000;
/// How often positions are sent, if they have changed; and if more is durable, for which senders
/// wait whose rings are full.
pub(crate) const POSITIONS_EVERY_NS: u64 = 10_000_000;
pub(crate) const DURABLE_EVERY_NS: u64 = 1_000_000;
/// Connections that belong to no session yet.
const STRANGERS_MAX: usize = 64;

/// The sessions of one port.
pub(crate) struct Sessions {
    pub(crate) of_run: OfRun,
    /// What its sessions carry: events, or channels of one link.
    pub(crate) service: Service,
    /// The sources that may come, by number; and their indices, by name.
    pub(crate) sources: Vec<Source>,
    pub(crate) by_name: BTreeMap<String, usize>,
    pub(crate) sessions: Vec<Session>,
    /// Those that have to open their session again in this run.
    pub(crate) counted: Vec<Counted>,
    /// The source whose fragments name the groups of events, once it has come.
    pub(crate) reference: Option<usize>,
    /// By endpoint.
    connections: Vec<Option<Connection>>,
    /// The connections that are to be closed, by endpoint.
    closing: Vec<usize>,
    looked_ns: u64,
    /// Front-ends that may be admitted before the next look.
    pub(crate) checks_left: u32,
    read_due_ns: u64,
    /// Which of the published positions were read.
    read_version: u64,
    window: Window,
    /// How long events still wait for sources of a run that goes on, which have not come yet.
    resume_ns: u64,
    /// For how long a source may say nothing.
    timeout_ns: u64,
}

/// What sessions know of their run.
pub(crate) struct OfRun {
    /// Whether there is none: what comes is counted.
    pub(crate) is_standby: bool,
    pub(crate) run: RunId,
    pub(crate) number: u64,
    pub(crate) epoch: u32,
    pub(crate) entropy: Box<dyn Entropy>,
    /// By listener.
    pub(crate) access: Vec<LinkAccess>,
    /// What is durable.
    pub(crate) live: Arc<Live>,
}

impl OfRun {
    /// How long events wait for a required front-end.
    fn resume_ns(&self) -> u64 {
        self.access[0].resume_ns
    }
}

/// A connection to a listener.
#[derive(Default)]
struct Connection {
    kind: Kind,
    /// By which listener it came, from where, and whether under TLS.
    listener: usize,
    from: Option<IpAddr>,
    is_secured: bool,
    /// The session that it belongs to.
    session: Option<usize>,
    /// Messages that it has brought, and that it was given.
    read: u32,
    written: u32,
    /// Bytes that were taken of it, and those that have come of its next message.
    bytes: u64,
    begun: u64,
    silent_ns: u64,
    /// Whether it has brought a message since it was looked at, and how long ago it had before.
    is_heard: bool,
    unheard_ns: u64,
    /// Whether its next message waits for memory; and whether that or its reserve is in use.
    is_held: bool,
    is_short: bool,
    /// Its message that is taken while it comes.
    long: LongMessage,
    /// The answer to its preamble, until it is sent.
    preamble: Option<Preamble>,
    opening: Option<Box<Opening>>,
    /// Why it is refused; it is closed when its sender was told.
    refusal: Option<Ended>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// Its preamble has not come.
    #[default]
    New,
    Control,
    /// With its number, once it is attached.
    Data(Option<u16>),
    /// Nothing more is taken of it. It stays open until its sender has read the last message on
    /// control: a sender whose data connection is reset closes control unread.
    Lingering,
    /// It is closed.
    Over,
}

impl Kind {
    /// Whether a connection is not read now: one that carries items, or a new one when the run has
    /// ended.
    fn waits(self, window: &Window) -> bool {
        match self {
            Self::Data(Some(_)) => !window.is_open,
            Self::New | Self::Data(None) => window.has_ended,
            Self::Control | Self::Lingering | Self::Over => false,
        }
    }
}

impl Connection {
    /// Its number among the data connections of its session.
    fn number(&self) -> Option<u16> {
        match self.kind {
            Kind::Data(number) => number,
            _ => None,
        }
    }

    /// It is held no longer, and its sources with it.
    fn release(&mut self, ingest: &Ingest, session: &Session) {
        if let Some(number) = self.number().filter(|_| self.is_short) {
            session.set_held(ingest, number, false);
        }
        (self.is_held, self.is_short) = (false, false);
    }

    /// So many bytes of it were taken.
    fn was_read(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.begun = 0;
        // Opening has one time for all its messages.
        if bytes > 0 && self.session.is_some() {
            self.silent_ns = 0;
        }
    }

    /// So many bytes of its next message have come. A long message on a slow network is no silence.
    fn has_more(&mut self, begun: u64) {
        if begun > self.begun && self.session.is_some() {
            self.silent_ns = 0;
        }
        self.begun = begun;
    }

    fn is_stranger(&self) -> bool {
        self.session.is_none() && !matches!(self.kind, Kind::Lingering | Kind::Over)
    }
}

impl Sessions {
    /// For the sources of a port, of whose accounts that is the first.
    pub(crate) fn new(config: &SenderConfig, first: u32, of_run: OfRun, timeout_ns: u64) -> Self {
        let is_link = config.protocol.name() == link::NAME;
        let service = if is_link { Service::Channels } else { Service::Events };
        let source = |&lane: &Destination| Source::new(config, lane, first);
        // The lanes of a link are its channels.
        let lanes = if is_link { &config.lanes[..1] } else { &config.lanes[..] };
        let mut sources: Vec<Source> = lanes.iter().map(source).collect();
        sources.sort_unstable_by_key(|source| source.number);
        let names = sources.iter().map(|source| source.name.clone());
        let by_name = names.zip(0..).collect();
        let (sessions, connections, closing) = (Vec::new(), Vec::new(), Vec::new());
        let (looked_ns, read_due_ns, read_version, window) = (0, 0, 0, Window::default());
        let positions = &of_run.live.beginning.positions;
        let of_source = |source: &Source| positions.newest(source.number.0, Position::LINK);
        let goes_on = sources.iter().any(|source| of_source(source).is_some());
        let resume_ns = if goes_on { of_run.resume_ns() } else { 0 };
        Self {
            of_run,
            service,
            sources,
            by_name,
            sessions,
            counted: Vec::new(),
            reference: None,
            connections,
            closing,
            looked_ns,
            checks_left: CHECKS_PER_LOOK,
            read_due_ns,
            read_version,
            window,
            resume_ns,
            timeout_ns,
        }
    }

    /// A cycle begins.
    pub(crate) fn begin_cycle(&mut self, now_ns: u64, is_stopping: bool) {
        match self.of_run.is_standby {
            true => self.window.is_open = true,
            false => self.window.look(now_ns, is_stopping, &self.of_run.live),
        }
    }

    /// Whether data wait for the run, or for the next one.
    pub(crate) fn is_outside_run(&self) -> bool {
        !self.window.is_open
    }

    /// Whether that endpoint is a connection of this listener.
    #[inline]
    pub(crate) fn has(&self, endpoint: usize) -> bool {
        self.connections.get(endpoint).is_some_and(Option::is_some)
    }

    /// Whether that endpoint carries items.
    #[inline]
    pub(crate) fn is_data(&self, endpoint: usize) -> bool {
        let connection = self.connections.get(endpoint).and_then(Option::as_ref);
        connection.is_some_and(|one| matches!(one.kind, Kind::Data(_)))
    }

    /// A connection was opened, by that listener.
    pub(crate) fn open(&mut self, endpoint: usize, listener: usize, from: Option<IpAddr>) {
        if self.connections.len() <= endpoint {
            self.connections.resize_with(endpoint + 1, || None);
        }
        let strangers = self.connections.iter().enumerate();
        let strangers =
            strangers.filter(|(_, one)| one.as_ref().is_some_and(Connection::is_stranger));
        if strangers.clone().count() >= STRANGERS_MAX {
            let oldest = strangers.max_by_key(|(_, one)| one.as_ref().map(|one| one.silent_ns));
            self.closing.extend(oldest.map(|(endpoint, _)| endpoint));
        }
        self.connections[endpoint] = Some(Connection { listener, from, ..Connection::default() });
    }

    /// A connection is under TLS.
    pub(crate) fn secured(&mut self, endpoint: usize) {
        if let Some(connection) = &mut self.connections[endpoint] {
            connection.is_secured = true;
        }
    }

    /// A connection has ended: all of its session end with it.
    pub(crate) fn close(&mut self, ingest: &mut Ingest, endpoint: usize) {
        // Its number may be another connection's before those that are to be closed are.
        self.closing.retain(|closing| *closing != endpoint);
        let Some(mut connection) = self.connections.get_mut(endpoint).and_then(Option::take) else {
            return;
        };
        if let Some(session) = connection.session {
            connection.release(ingest, &self.sessions[session]);
            self.detach(ingest, session);
        }
    }

    /// Ends all connections of a session. What is in its logs stays.
    pub(crate) fn detach(&mut self, ingest: &mut Ingest, index: usize) {
        let session = &mut self.sessions[index];
        session.interrupt(ingest);
        session.detach(ingest);
        if session.control.is_some() {
            self.of_run.live.front_ends.tell(&session.name, FrontEnd::leave);
        }
        for endpoint in session.take_endpoints() {
            if let Some(connection) = &mut self.connections[endpoint] {
                connection.release(ingest, session);
                (connection.session, connection.kind) = (None, Kind::Over);
                self.closing.push(endpoint);
            }
        }
    }

    /// Takes the next message of a connection.
    pub(crate) fn message(&mut self, ingest: &mut Ingest, endpoint: usize, bytes: &[u8]) -> Flow {
        let Some(connection) = &self.connections[endpoint] else { return Flow::Refused };
        if self.waits(connection) {
            return Flow::Held;
        }
        let result = match connection.kind {
            Kind::New => self.take_preamble(endpoint, bytes),
            Kind::Control => self.take_control(ingest, endpoint, bytes),
            Kind::Data(number) => self.take_data(ingest, endpoint, number, bytes),
            Kind::Lingering => return Flow::Held,
            Kind::Over => return Flow::Refused,
        };
        let flow = result.unwrap_or_else(|fault| {
            self.refuse_message(ingest, endpoint, &fault, bytes);
            Flow::Held
        });
        match (flow, &mut self.connections[endpoint]) {
            (Flow::Used(used), Some(connection)) => connection.was_read(used),
            (Flow::Into, Some(connection)) => connection.was_read(bytes.len()),
            (Flow::Short, Some(connection)) => connection.has_more(bytes.len() as u64),
            _ => {}
        }
        flow
    }

    fn take_preamble(&mut self, endpoint: usize, bytes: &[u8]) -> Result<Flow, Fault> {
        let Some(connection) = &mut self.connections[endpoint] else { return Ok(Flow::Refused) };
        let Some(preamble) = Preamble::parse(bytes)? else { return Ok(Flow::Short) };
        if preamble.service != self.service {
            return Err(Fault::Kind { field: "service", got: preamble.service as u64 });
        }
        let session = agreed(preamble.session_min, preamble.session_max, VERSION);
        let version = match self.service {
            Service::Channels => channel_link::VERSION,
            _ => event_link::VERSION,
        };
        let service = agreed(preamble.service_min, preamble.service_max, version);
        match preamble.connection {
            Line::Control => {
                connection.kind = Kind::Control;
                if session.0 == 0 || service.0 == 0 {
                    connection.refusal = Some(Ended::silently());
                }
                let (session_min, session_max) = session;
                let (service_min, service_max) = service;
                connection.preamble = Some(Preamble {
                    session_min,
                    session_max,
                    service_min,
                    service_max,
                    ..preamble
                });
            }
            Line::Data => connection.kind = Kind::Data(None),
        }
        Ok(Flow::Used(<Preamble as Fields>::BYTES))
    }

    fn take_control(
        &mut self,
        ingest: &mut Ingest,
        endpoint: usize,
        bytes: &[u8],
    ) -> Result<Flow, Fault> {
        let Some(connection) = &mut self.connections[endpoint] else { return Ok(Flow::Refused) };
        let Some(message) = parse(bytes, connection.read, CONTROL)? else { return Ok(Flow::Short) };
        let control = Control::read(&message)?;
        connection.read = connection.read.wrapping_add(1);
        connection.is_heard = true;
        let session = connection.session;
        match (control, session) {
            (None, _) => {}
            (Some(Control::Hello(hello, token)), None)
                if connection.opening.is_none() && connection.refusal.is_none() =>
            {
                let access = &self.of_run.access[connection.listener];
                let refusal = refusal_of(&hello, token, access, connection.is_secured);
                let name = hello.name.as_str();
                if refusal.is_some() {
                    let own = account_of(&self.sources, name);
                    let account = own.unwrap_or(self.sources[0].destination.account as usize);
                    ingest.reject(account, connection.from, message.used);
                    // Others could be any number of names.
                    if own.is_some() {
                        let front_ends = &self.of_run.live.front_ends;
                        front_ends.tell(name, |one| one.connections_refused += 1);
                    }
                } else {
                    let opening = Opening::new(hello, token, self.service);
                    connection.opening = Some(Box::new(opening));
                }
                connection.refusal = refusal;
            }
            (Some(Control::Logs(logs)), None) => {
                let got = message.kind;
                let mut opening = connection.opening.take().ok_or(Fault::Connection { got })?;
                opening.take(logs)?;
                match opening.is_complete() {
                    true => self.admit(ingest, endpoint, *opening),
                    false => connection.opening = Some(opening),
                }
            }
            (Some(Control::Ping(ping, logs)), Some(session)) => {
                let front_ends = &self.of_run.live.front_ends;
                self.sessions[session].pinged(front_ends, &ping, logs)?;
            }
            (Some(Control::Answer(answer, text)), Some(session)) => {
                self.sessions[session].answered(&self.of_run.live.front_ends, answer, text);
            }
            (Some(Control::Report(records, text)), Some(session)) => {
                let Session { commander, name, names, .. } = &mut self.sessions[session];
                let front_ends = &self.of_run.live.front_ends;
                commander.reported((name, names), front_ends, records, text);
            }
            (Some(Control::Bye(..)), Some(session)) => {
                let Session { name, .. } = &self.sessions[session];
                self.of_run.live.front_ends.tell(name, |one| one.has_left = true);
                self.sessions[session].leave();
            }
            (Some(_), _) => return Err(Fault::Connection { got: message.kind }),
        }
        Ok(Flow::Used(message.used))
    }

    /// Admits a session, or says why not.
    fn admit(&mut self, ingest: &mut Ingest, endpoint: usize, opening: Opening) {
        let admitted = self.admission(ingest, &opening);
        let Some(connection) = &mut self.connections[endpoint] else { return };
        match admitted {
            Ok(index) => {
                connection.session = Some(index);
                self.sessions[index].control = Some(endpoint);
                let access = &self.of_run.access[connection.listener];
                self.sessions[index].grant_skew(ingest, access.skew_bytes, &self.of_run);
                let program = opening.program();
                self.commander(index, |it, name, all| it.attach(name, all, program));
            }
            Err(refusal) => connection.refusal = Some(refusal),
        }
    }

    /// Has the commander of a session do something.
    fn commander(&mut self, session: usize, tell: impl FnOnce(&mut Commander, &str, &FrontEnds)) {
        let Session { commander, name, .. } = &mut self.sessions[session];
        tell(commander, name, &self.of_run.live.front_ends);
    }

    /// A framing fault: nothing of the message is taken, and its session ends.
    #[cold]
    fn refuse_message(
        &mut self,
        ingest: &mut Ingest,
        endpoint: usize,
        fault: &Fault,
        bytes: &[u8],
    ) {
        let Some(connection) = &mut self.connections[endpoint] else { return };
        let bytes = &bytes[..bytes.len().min(MESSAGE_BYTES_MAX as usize)];
        let Some(session) = connection.session else {
            // Whose it is is not known: no source has lost anything.
            ingest.reject(self.sources[0].destination.account as usize, None, bytes.len());
            // Bytes that begin no connection get no answer.
            let is_new = connection.kind == Kind::New;
            connection.refusal = Some(match is_new {
                true => Ended::silently(),
                false => Ended::malformed(connection.read, fault),
            });
            return;
        };
        let account = self.sessions[session].account_of(connection.number());
        let message = connection.read;
        // Its sender has what was in it, and sends that again.
        ingest.reject(account, None, bytes.len());
        ingest.show_malformed(account, || fault.to_string(), bytes);
        self.end_malformed(session, message, fault);
    }
}

impl Sessions {
    /// Answers the senders, and closes the connections that are over. Called once a cycle.
    pub(crate) fn answer(&mut self, ingest: &mut Ingest, egress: &mut (impl Egress + ?Sized)) {
        self.read_positions(ingest);
        if ingest.now_ns().saturating_sub(self.looked_ns) >= LOOK_EVERY_NS {
            self.look(ingest);
        }
        let Self { of_run, sessions, .. } = self;
        let front_ends = &of_run.live.front_ends;
        for Session { commander, name, .. } in sessions {
            if commander.is_behind(front_ends) {
                commander.look(name, front_ends);
            }
        }
        for endpoint in 0..self.connections.len() {
            self.answer_one(ingest, egress, endpoint);
        }
        for endpoint in self.closing.drain(..) {
            egress.close(endpoint);
        }
    }

    #[inline]
    fn answer_one(
        &mut self,
        ingest: &mut Ingest,
        egress: &mut (impl Egress + ?Sized),
        endpoint: usize,
    ) {
        let Some(connection) = &mut self.connections[endpoint] else { return };
        let session = connection.session;
        if connection.kind != Kind::Control {
            if connection.refusal.is_some() {
                connection.kind = Kind::Over;
                self.closing.push(endpoint);
            }
            return;
        }
        let now_ns = ingest.now_ns();
        let has_session_answer =
            session.is_some_and(|session| self.sessions[session].has_answer(now_ns));
        let has_answer = connection.preamble.is_some() || connection.refusal.is_some();
        if !has_answer && !has_session_answer {
            return;
        }
        let (received, unread) = match session {
            Some(session) => self.read_bytes(session),
            None => ([0; 16], 0),
        };
        let (mut is_over, epoch) = (false, self.of_run.epoch);
        let run = (self.of_run.run.0, self.of_run.number);
        let Some(connection) = &mut self.connections[endpoint] else { return };
        egress.answer(endpoint, &mut |answer| {
            if let Some(preamble) = connection.preamble.take() {
                answer.extend_from_slice(&preamble.encode());
            }
            let written = &mut connection.written;
            if let Some(session) = session {
                let read = (epoch, received, unread);
                is_over = self.sessions[session].write_answer(read, run, written, answer);
            }
            if let Some(refusal) = connection.refusal.take() {
                refusal.write(written, answer);
                is_over = true;
            }
        });
        match (is_over, session) {
            (false, _) => {}
            (true, Some(session)) => {
                for &data in self.sessions[session].data.iter().flatten() {
                    if let Some(connection) = &mut self.connections[data] {
                        connection.release(ingest, &self.sessions[session]);
                        (connection.session, connection.kind) = (None, Kind::Lingering);
                    }
                }
                self.sessions[session].data.clear();
                self.detach(ingest, session);
            }
            (true, None) => {
                connection.kind = Kind::Over;
                self.closing.push(endpoint);
            }
        }
    }

    /// The bytes that were read of each data connection of a session, and the bits of those that
    /// are not read.
    fn read_bytes(&self, session: usize) -> ([u64; 16], u16) {
        let (mut received, mut unread) = ([0; 16], 0);
        for (number, endpoint) in self.sessions[session].data.iter().enumerate() {
            let connection = endpoint.and_then(|endpoint| self.connections[endpoint].as_ref());
            if let Some(connection) = connection {
                received[number] = connection.bytes + connection.begun;
                unread |= u16::from(connection.is_held || !self.window.is_open) << number;
            }
        }
        (received, unread)
    }

    /// Closes what has been silent for too long.
    #[cold]
    fn look(&mut self, ingest: &mut Ingest) {
        let now_ns = ingest.now_ns();
        let passed_ns = (now_ns - self.looked_ns).min(LOOK_COUNTS_NS);
        let asks_tokens = now_ns / TOKENS_EVERY_NS > self.looked_ns / TOKENS_EVERY_NS;
        (self.looked_ns, self.checks_left) = (now_ns, CHECKS_PER_LOOK);
        self.pass_time_of_senders(ingest, passed_ns);
        self.pass_time(ingest, passed_ns);
        self.hear(ingest, passed_ns);
        self.refill(ingest);
        for endpoint in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[endpoint] else { continue };
            if connection.is_held || connection.kind.waits(&self.window) {
                continue;
            }
            connection.silent_ns += passed_ns;
            if let Some(session) = connection.session
                && asks_tokens
                && connection.kind == Kind::Control
                && !self.sessions[session].is_admitted(&self.of_run.access[connection.listener])
            {
                self.sessions[session].ended.get_or_insert(Ended::no_token());
            }
            match connection.session {
                Some(session) if connection.silent_ns >= SILENCE_NS => {
                    let silent_ns = connection.silent_ns;
                    let then_ns = self.of_run.resume_ns().saturating_sub(silent_ns);
                    self.sessions[session].end_silent(Ended::silent(silent_ns), then_ns);
                    if connection.silent_ns >= SILENCE_NS + OPENING_NS {
                        // It does not even take the last message.
                        self.detach(ingest, session);
                    }
                }
                None if connection.silent_ns >= OPENING_NS => {
                    connection.kind = Kind::Over;
                    self.closing.push(endpoint);
                }
                _ => {}
            }
        }
    }

    /// Of a run that goes on, events wait for sources whose front-ends have not come yet.
    fn pass_time(&mut self, ingest: &mut Ingest, passed_ns: u64) {
        let before_ns = self.resume_ns;
        self.resume_ns = before_ns.saturating_sub(passed_ns);
        if before_ns == 0 {
            return;
        }
        let is_over = self.resume_ns == 0;
        for source in self.sources.iter_mut().filter(|source| source.log.is_none()) {
            source.set_held(ingest, !is_over);
            if !is_over {
                continue;
            }
            ingest.describe(Fragment::said(source.destination.source, SourceNote::Gone));
        }
    }

    /// The run has ended, and nothing more is taken of it. Its connections may stay.
    pub(crate) fn end(&mut self, ingest: &mut Ingest, stays: bool) {
        (self.window.has_ended, self.window.is_open) = (true, false);
        for session in &mut self.sessions {
            match stays {
                true => session.logs.iter_mut().for_each(|log| log.leave_run(ingest)),
                false => session.interrupt(ingest),
            }
            session.mark(ingest);
        }
    }

    /// Whether all that was taken is known to be durable, and its senders know it.
    pub(crate) fn is_settled(&self) -> bool {
        self.of_run.live.link_positions.are_final() && self.sessions.iter().all(Session::is_settled)
    }

    /// Ends all sessions in order.
    pub(crate) fn say_bye(&mut self) {
        for session in &mut self.sessions {
            session.ended.get_or_insert(Ended::in_order());
        }
    }
}

/// The version that both have, of a range and the only one here; none: 0, and what this has.
fn agreed(min: u8, max: u8, own: u8) -> (u8, u8) {
    if (min..=max).contains(&own) { (own, own) } else { (0, own) }
}
