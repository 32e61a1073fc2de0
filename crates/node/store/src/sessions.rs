//! The sessions of the storage link: connections, who is admitted, and what is answered. What data
//! connections bring is in `data.rs`.
//!
//! A session has one log, its stream. It is admitted once the stream has a writer, which the node
//! makes meanwhile; its control connection is always read, its data connection is held while the
//! next frame has no room.

mod data;
mod opening;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{ANSWER_BYTES_MAX, Egress, Entropy, Flow};
use catchment_encoder::Buffers;
use catchment_frame::FileFrames;
use catchment_net::LinkAccess;
use catchment_wire::session::{
    Bye, ByeReason, CONTROL, CONTROL_BYTES_MAX, Connection as Line, Control, Encoder, Fault,
    Fields, Grant, Grants, Hello, LATER_MS, Log, LogPositions, OPENING_NS, Positions, Preamble,
    SILENCE_NS, Service, VERSION, Welcome, parse,
};
use catchment_wire::storage_link::{self, Files, StoredFiles, StreamLog};
use crossbeam_channel::Sender;

use crate::described::Description;
use crate::frames::{HeaderParts, Partial};
use crate::receive::{Order, Slot, Stream, Streams, Unopened};
use crate::state::NodeState;
use data::Body;

/// When a sender whose stream has no writer yet is told to come again.
const PATIENCE_NS: u64 = 2_000_000_000;
/// How often positions are said, if they have changed.
const POSITIONS_EVERY_NS: u64 = 10_000_000;
/// How often it is asked whether the tokens of open sessions still stand.
const TOKENS_EVERY_NS: u64 = 500_000_000;
/// Connections that belong to no session yet.
const STRANGERS_MAX: usize = 64;
/// Streams that have a writer at a time.
pub(crate) const STREAMS_MAX: usize = 64;
/// Two connections of each stream, and strangers; one more is taken before the oldest is closed.
pub(crate) const CONNECTIONS_MAX: usize = 2 * STREAMS_MAX + STRANGERS_MAX + 1;

/// All connections and sessions of a node.
pub(crate) struct Sessions {
    /// The time of the agent's cycle.
    pub(crate) now_ns: u64,
    entropy: Box<dyn Entropy>,
    state: Arc<NodeState>,
    pub(crate) orders: Sender<Order>,
    buffers: Buffers,
    access: LinkAccess,
    /// When tokens were asked last.
    asked_ns: u64,
    /// Whether a connection ended in this cycle that had not said what it is.
    is_unopened: bool,
    /// Whether one ended that had said it.
    is_break: bool,
    pub(crate) streams: Streams,
    /// Streams that are perhaps not closed and have no writer.
    pub(crate) unopened: BTreeMap<String, Unopened>,
    /// By the stream's name.
    pub(crate) by_name: BTreeMap<String, Session>,
    /// By endpoint.
    connections: Vec<Option<Connection>>,
    closing: Vec<usize>,
    positions_due_ns: u64,
}

/// A session that is attached.
pub(crate) struct Session {
    number: u64,
    ticket: [u8; 16],
    token: Box<str>,
    generation: u64,
    control: usize,
    data: Option<usize>,
    /// The answer to its hello, until it is sent.
    welcome: Option<(Welcome, Grant)>,
    /// The ping that was not answered; 0: none.
    cookie: u64,
    /// The positions that were said last.
    said: Said,
    ended: Option<Ended>,
    /// What there is of the stream, for a sender that asks, and what of that is to be said next.
    description: Option<(Arc<Description>, usize)>,
    header: HeaderParts,
    frame: Option<Partial>,
    /// Whether messages of a frame that is there already are on their way.
    repeats: bool,
}

/// What is said of a stream: its positions, and whether nothing of it can be written now.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Said {
    taken: u64,
    durable: u64,
    waits: bool,
    /// One above the closed files of which was said which frames are in them; 0: nothing was said.
    files: u64,
}

impl Said {
    fn of(stream: &Stream) -> Self {
        let (durable, waits) = (stream.durable(), stream.state.waits());
        // A file is among these before the frames in it are said to be durable, all of them.
        let files: u64 = stream.state.files.lock().iter().map(|one| u64::from(one.files)).sum();
        let files = files.saturating_add(1);
        Self { taken: stream.taken, durable, waits, files }
    }
}

#[derive(Default)]
struct Connection {
    kind: Kind,
    sender: Option<SocketAddr>,
    /// The stream of its session.
    stream: Option<String>,
    /// Messages that it has brought, and that it was given; bytes that were taken of it.
    read: u32,
    written: u32,
    bytes: u64,
    /// For how long nothing has come; of one without a session, for how long it has been open.
    silent_ns: u64,
    is_held: bool,
    preamble: Option<Preamble>,
    opening: Option<Opening>,
    body: Option<Body>,
    refusal: Option<Ended>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Its preamble has not come.
    #[default]
    New,
    Control,
    Data,
    /// Nothing more is taken of it: its sender may still read why.
    Lingering,
    Over,
}

/// A hello that waits for its log, or for its stream's writer.
struct Opening {
    hello: Hello,
    token: Box<str>,
    log: Option<(Log, StreamLog)>,
}

/// Why a session or a connection ends.
#[derive(Clone, Debug)]
struct Ended {
    /// None if the connection is closed without a message.
    bye: Option<Bye>,
    text: String,
}

impl Ended {
    fn new(reason: ByeReason, retry_ms: u32, detail: u64, text: impl Into<String>) -> Self {
        Self { bye: Some(Bye { reason, retry_ms, detail }), text: text.into() }
    }

    fn silently() -> Self {
        Self { bye: None, text: String::new() }
    }

    fn no_token() -> Self {
        let text = "no token of the role node that admits this stream";
        Self::new(ByeReason::TOKEN, 0, 0, text)
    }

    fn later(text: impl Into<String>) -> Self {
        Self::new(ByeReason::LATER, LATER_MS, 0, text)
    }

    fn write(&self, written: &mut u32, answer: &mut Vec<u8>) {
        if let Some(bye) = &self.bye {
            append(answer, written, |out, number| {
                Encoder::begin(out, number, bye).finish(short(&self.text), &[])
            });
        }
    }
}

impl Sessions {
    pub(crate) fn new(
        entropy: Box<dyn Entropy>,
        state: Arc<NodeState>,
        orders: Sender<Order>,
        buffers: Buffers,
        access: LinkAccess,
    ) -> Self {
        Self {
            now_ns: 0,
            entropy,
            state,
            orders,
            buffers,
            access,
            asked_ns: 0,
            is_unopened: false,
            is_break: false,
            streams: BTreeMap::new(),
            unopened: BTreeMap::new(),
            by_name: BTreeMap::new(),
            connections: Vec::new(),
            closing: Vec::new(),
            positions_due_ns: 0,
        }
    }

    /// A connection was opened.
    pub(crate) fn open(&mut self, endpoint: usize, sender: Option<SocketAddr>) {
        if self.connections.len() <= endpoint {
            self.connections.resize_with(endpoint + 1, || None);
        }
        let is_stranger = |one: &Connection| {
            one.stream.is_none() && !matches!(one.kind, Kind::Lingering | Kind::Over)
        };
        let all = self.connections.iter().enumerate();
        let strangers = all.filter_map(|(at, one)| Some((at, one.as_ref()?)));
        let strangers = strangers.filter(|(_, one)| is_stranger(one));
        if strangers.clone().count() >= STRANGERS_MAX {
            let oldest = strangers.max_by_key(|(_, one)| one.silent_ns).map(|(at, _)| at);
            self.closing.extend(oldest);
        }
        self.connections[endpoint] = Some(Connection { sender, ..Connection::default() });
    }

    /// A connection failed in this cycle, or could not be taken, if one did. How a session's
    /// connection breaks is no news: its sender connects again.
    pub(crate) fn note_error(&mut self, error: Option<String>) {
        let is_news = !std::mem::take(&mut self.is_break) || self.is_unopened;
        self.is_unopened = false;
        if let Some(error) = error.filter(|_| is_news) {
            self.state.note_error(error);
        }
    }

    /// A connection has ended: all of its session end with it.
    pub(crate) fn close(&mut self, endpoint: usize) {
        self.closing.retain(|closing| *closing != endpoint);
        let connection = self.connections.get_mut(endpoint).and_then(Option::take);
        match connection.as_ref().map(|one| one.kind) {
            None => {}
            Some(Kind::New) => {
                self.is_unopened = true;
                self.state.count(|counters| &counters.connections_unopened, 1);
            }
            Some(_) => self.is_break = true,
        }
        if let Some(name) = connection.and_then(|one| one.stream) {
            self.detach(&name);
        }
    }

    /// Ends a session's connections. What was taken stays.
    fn detach(&mut self, name: &str) {
        let Some(session) = self.by_name.remove(name) else { return };
        if let Some(Slot::Ready(stream)) = self.streams.get(name) {
            stream.state.is_attached.store(false, Relaxed);
        }
        for endpoint in session.data.into_iter().chain([session.control]) {
            if let Some(Some(connection)) = self.connections.get_mut(endpoint) {
                (connection.stream, connection.kind) = (None, Kind::Over);
                self.closing.push(endpoint);
            }
        }
    }

    /// Takes bytes of a connection.
    pub(crate) fn bytes(&mut self, endpoint: usize, bytes: &[u8]) -> Flow {
        let Some(Some(connection)) = self.connections.get(endpoint) else { return Flow::Refused };
        let session = connection.stream.as_ref().and_then(|name| self.by_name.get(name));
        if connection.refusal.is_some() || session.is_some_and(|one| one.ended.is_some()) {
            return Flow::Held;
        }
        let result = match connection.kind {
            Kind::New => self.take_preamble(endpoint, bytes),
            Kind::Control => self.take_control(endpoint, bytes),
            Kind::Data => self.take_data(endpoint, bytes),
            Kind::Lingering => return Flow::Held,
            Kind::Over => return Flow::Refused,
        };
        let flow = result.unwrap_or_else(|fault| {
            self.state.count(|counters| &counters.faults, 1);
            self.end_malformed(endpoint, &fault);
            Flow::Held
        });
        if let Some(connection) = self.connection(endpoint) {
            let used = match flow {
                Flow::Used(used) => used,
                Flow::Into => bytes.len(),
                _ => 0,
            };
            connection.bytes += used as u64;
            // Opening has one time for all its messages.
            if connection.stream.is_some() && (used > 0 || flow == Flow::Held) {
                connection.silent_ns = 0;
            }
            connection.is_held = flow == Flow::Held;
        }
        flow
    }

    /// Ends the session of a connection by a framing fault, for good if that would go on.
    fn end_malformed(&mut self, endpoint: usize, fault: &Fault) {
        let Some(connection) = self.connection(endpoint) else { return };
        let (name, message) = (connection.stream.clone().unwrap_or_default(), connection.read);
        let session = self.by_name.get(&name).map(|session| session.number);
        let is_given_up = match (session, self.streams.get_mut(&name)) {
            (Some(session), Some(Slot::Ready(stream))) => stream.is_given_up(session),
            _ => false,
        };
        let retry_ms = if is_given_up { 0 } else { 1_000 };
        let ended = Ended::new(ByeReason::MALFORMED, retry_ms, message.into(), fault.to_string());
        self.end_of(endpoint, ended);
    }

    fn connection(&mut self, endpoint: usize) -> Option<&mut Connection> {
        self.connections.get_mut(endpoint)?.as_mut()
    }

    /// Ends the session of a connection, or the connection if it has none.
    fn end_of(&mut self, endpoint: usize, ended: Ended) {
        self.count_refusal(&ended);
        let Some(connection) = self.connection(endpoint) else { return };
        match connection.stream.clone().and_then(|name| self.by_name.get_mut(&name)) {
            Some(session) => {
                session.ended.get_or_insert(ended);
            }
            None => {
                let Some(connection) = self.connection(endpoint) else { return };
                match connection.kind {
                    Kind::Control => connection.refusal = Some(ended),
                    _ => {
                        connection.kind = Kind::Over;
                        self.closing.push(endpoint);
                    }
                }
            }
        }
    }

    fn take_preamble(&mut self, endpoint: usize, bytes: &[u8]) -> Result<Flow, Fault> {
        let Some(connection) = self.connection(endpoint) else { return Ok(Flow::Refused) };
        let Some(preamble) = Preamble::parse(bytes)? else { return Ok(Flow::Short) };
        if preamble.service != Service::Storage {
            return Err(Fault::Kind { field: "service", got: preamble.service as u64 });
        }
        let (session_min, session_max) =
            agreed(preamble.session_min, preamble.session_max, VERSION);
        let (service_min, service_max) =
            agreed(preamble.service_min, preamble.service_max, storage_link::VERSION);
        match preamble.connection {
            Line::Control => {
                connection.kind = Kind::Control;
                if session_min == 0 || service_min == 0 {
                    connection.refusal = Some(Ended::silently());
                }
                let answer =
                    Preamble { session_min, session_max, service_min, service_max, ..preamble };
                connection.preamble = Some(answer);
            }
            Line::Data => connection.kind = Kind::Data,
        }
        Ok(Flow::Used(<Preamble as Fields>::BYTES))
    }

    fn take_control(&mut self, endpoint: usize, bytes: &[u8]) -> Result<Flow, Fault> {
        let Some(connection) = self.connection(endpoint) else { return Ok(Flow::Refused) };
        let Some(message) = parse(bytes, connection.read, CONTROL)? else { return Ok(Flow::Short) };
        let control = Control::read(&message)?;
        connection.read = connection.read.wrapping_add(1);
        let session = connection.stream.clone().and_then(|name| self.by_name.get_mut(&name));
        match (control, session) {
            (None, _) => {}
            (Some(Control::Ping(ping, _)), Some(session)) => session.cookie = ping.cookie,
            (Some(Control::Bye(..)), Some(session)) => {
                session.ended.get_or_insert(Ended::new(ByeReason::DONE, 0, 0, ""));
            }
            (Some(Control::Answer(..) | Control::Report(..)), Some(_)) => {}
            (Some(Control::Hello(hello, token)), None) => {
                self.take_hello(endpoint, hello, token)?;
            }
            (Some(Control::Logs(logs)), None) => {
                for log in logs.iter() {
                    self.take_log(endpoint, &log)?;
                }
            }
            _ => return Err(Fault::Connection { got: message.kind }),
        }
        Ok(Flow::Used(message.used))
    }

    /// The stream's writer has ended: its sender comes again.
    pub(crate) fn stream_failed(&mut self, name: &str) {
        if let Some(session) = self.by_name.get_mut(name) {
            session.ended.get_or_insert(Ended::later("the disk of the stream has failed"));
        }
    }

    /// The node ends.
    pub(crate) fn say_bye(&mut self) {
        for session in self.by_name.values_mut() {
            let text = "the storage node ends";
            session.ended.get_or_insert(Ended::new(ByeReason::ENDING, 1_000, 0, text));
        }
    }

    pub(crate) fn has_sessions(&self) -> bool {
        !self.by_name.is_empty()
    }

    fn count_refusal(&self, ended: &Ended) {
        if let Some(bye) = &ended.bye {
            self.state.refused(bye.reason);
        }
    }

    /// Ends the sessions whose token was revoked.
    fn look_at_tokens(&mut self) {
        let (access, state) = (&self.access, &self.state);
        for (name, session) in &mut self.by_name {
            if session.ended.is_none() && !access.admits(&session.token, name) {
                state.refused(ByeReason::TOKEN);
                session.ended = Some(Ended::no_token());
            }
        }
    }

    /// Closes what has been silent for too long; so much time has passed.
    pub(crate) fn look(&mut self, passed_ns: u64) {
        if self.access.needs_token && self.now_ns.saturating_sub(self.asked_ns) >= TOKENS_EVERY_NS {
            self.asked_ns = self.now_ns;
            self.look_at_tokens();
        }
        for endpoint in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[endpoint] else { continue };
            if connection.is_held && connection.kind == Kind::Data {
                continue;
            }
            connection.silent_ns += passed_ns;
            let silent_ns = connection.silent_ns;
            match connection.stream.clone() {
                Some(name) if silent_ns >= SILENCE_NS + OPENING_NS => self.detach(&name),
                Some(name) if silent_ns >= SILENCE_NS => {
                    if let Some(session) = self.by_name.get_mut(&name) {
                        let ms = silent_ns / 1_000_000;
                        let text = format!("nothing came for {ms} ms");
                        if session.ended.is_none() {
                            self.state.refused(ByeReason::SILENT);
                            session.ended = Some(Ended::new(ByeReason::SILENT, 1, ms, text));
                        }
                    }
                }
                None if silent_ns >= OPENING_NS => {
                    if !matches!(connection.kind, Kind::Lingering | Kind::Over) {
                        self.state.count(|counters| &counters.connections_unopened, 1);
                    }
                    connection.kind = Kind::Over;
                    self.closing.push(endpoint);
                }
                _ => {}
            }
        }
    }

    /// Admits, answers, and closes.
    pub(crate) fn answer(&mut self, egress: &mut dyn Egress, now_ns: u64) {
        self.open_sessions();
        let is_due = now_ns >= self.positions_due_ns;
        if is_due {
            self.positions_due_ns = now_ns + POSITIONS_EVERY_NS;
        }
        for endpoint in 0..self.connections.len() {
            let Some(connection) = &self.connections[endpoint] else { continue };
            if connection.kind != Kind::Control {
                continue;
            }
            match connection.stream.clone() {
                Some(name) => self.answer_session(egress, endpoint, &name, is_due),
                None => self.answer_stranger(egress, endpoint),
            }
        }
        for endpoint in self.closing.drain(..) {
            egress.close(endpoint);
        }
    }

    fn answer_stranger(&mut self, egress: &mut dyn Egress, endpoint: usize) {
        let Some(connection) = self.connection(endpoint) else { return };
        if connection.preamble.is_none() && connection.refusal.is_none() {
            return;
        }
        let mut is_over = false;
        egress.answer(endpoint, &mut |answer| {
            if let Some(preamble) = connection.preamble.take() {
                answer.extend_from_slice(&preamble.encode());
            }
            if let Some(refusal) = connection.refusal.take() {
                refusal.write(&mut connection.written, answer);
                is_over = true;
            }
        });
        if is_over {
            connection.kind = Kind::Lingering;
            self.closing.push(endpoint);
        }
    }

    fn answer_session(
        &mut self,
        egress: &mut dyn Egress,
        endpoint: usize,
        name: &str,
        is_due: bool,
    ) {
        let Some(session) = self.by_name.get_mut(name) else { return };
        let durable = match self.streams.get(name) {
            Some(Slot::Ready(stream)) => stream.durable(),
            _ => 0,
        };
        // Its sender may hold all that it can.
        let is_due = is_due || durable > session.said.durable;
        let is_asked = session.cookie != 0 || is_due;
        let has_more =
            session.welcome.is_some() || session.description.is_some() || session.ended.is_some();
        if !is_asked && !has_more {
            return;
        }
        let mut files = None;
        let now = match self.streams.get(name) {
            Some(Slot::Ready(stream)) => {
                let now = Said::of(stream);
                if now.files != session.said.files {
                    files = Some(stream.state.files.lock().clone());
                }
                now
            }
            _ => session.said,
        };
        let is_new = session.cookie != 0 || is_due && now != session.said;
        if !is_new && !has_more {
            return;
        }
        let data = session.data.and_then(|data| self.connections.get(data)?.as_ref());
        let (received, is_held) = data.map_or((0, false), |data| (data.bytes, data.is_held));
        let Some(Some(connection)) = self.connections.get_mut(endpoint) else { return };
        let mut is_over = false;
        egress.answer(endpoint, &mut |answer| {
            if let Some(preamble) = connection.preamble.take() {
                answer.extend_from_slice(&preamble.encode());
            }
            let written = &mut connection.written;
            let changes = Changes { now, files: files.as_deref(), is_new, received, is_held };
            session.write(answer, written, changes);
            session.write_description(answer, written);
            if let Some(ended) = session.ended.take() {
                ended.write(written, answer);
                is_over = true;
            }
        });
        if is_over {
            if let Some(Some(data)) = session.data.and_then(|data| self.connections.get_mut(data)) {
                (data.kind, data.stream) = (Kind::Lingering, None);
            }
            session.data = None;
            self.detach(name);
        }
    }
}

/// What an answer says of a stream.
struct Changes<'a> {
    now: Said,
    /// Which files are closed, if that has changed.
    files: Option<&'a [FileFrames]>,
    /// Whether it was not said yet.
    is_new: bool,
    received: u64,
    is_held: bool,
}

impl Session {
    /// Appends its messages but for the last.
    fn write(&mut self, answer: &mut Vec<u8>, written: &mut u32, changes: Changes<'_>) {
        let Changes { now, files, is_new, received, is_held } = changes;
        if let Some((welcome, grant)) = self.welcome.take() {
            append(answer, written, |out, number| {
                Encoder::begin(out, number, &welcome).finish("", &[])
            });
            append(answer, written, |out, number| {
                let mut grants = Encoder::begin(out, number, &Grants {});
                assert!(grants.push(&grant), "one record fits");
                grants.finish("", &[])
            });
        } else if is_new {
            // Of a stream that the node had before, also that none is closed any more: the list may
            // have been cut after a fault.
            let had_frames = self.said.durable > 0;
            if let Some(files) = files.filter(|files| had_frames || !files.is_empty()) {
                append(answer, written, |out, number| encode_files(out, number, files));
            }
            let mut of_data = [0; 16];
            of_data[0] = received;
            let cookie = std::mem::take(&mut self.cookie);
            let unread = u16::from(is_held);
            let positions = Positions { cookie, epoch: 0, unread, received: of_data };
            append(answer, written, |out, number| {
                let mut message = Encoder::begin(out, number, &positions);
                if self.said != now || cookie != 0 {
                    let Said { taken, durable, waits, .. } = now;
                    let flags = if waits { LogPositions::WAITS } else { 0 };
                    let log = LogPositions { log: 0, flags, taken, durable };
                    assert!(message.push(&log), "one record fits");
                }
                message.finish("", &[])
            });
            self.said = now;
        }
    }

    /// Appends the next of what there is of the stream, for a sender that asks.
    fn write_description(&mut self, answer: &mut Vec<u8>, written: &mut u32) {
        for _ in 0..PARTS_IN_ANSWER {
            let Some((description, offset)) = self.description.take() else { return };
            append(answer, written, |out, number| {
                let (bytes, next) = description.encode((out, number), offset);
                self.description = next.map(|next| (Arc::clone(&description), next));
                bytes
            });
        }
    }
}

/// Messages of what there is of a stream in one answer.
const PARTS_IN_ANSWER: usize = 3;

/// Which frames are in which of the files that are closed.
fn encode_files(out: &mut [u8], number: u32, files: &[FileFrames]) -> usize {
    let count = files.iter().map(|one| u64::from(one.files)).sum();
    let mut message = Encoder::begin(out, number, &Files { log: 0, files: count });
    for &FileFrames { first_file, last_file, files, first_frame, last_frame } in files {
        let record = StoredFiles { first_file, last_file, files, first_frame, last_frame };
        assert!(message.push(&record), "few records fit");
    }
    message.finish("", &[])
}

/// The version that both have, of a range and the only one here; none: 0, and what this has.
fn agreed(min: u8, max: u8, own: u8) -> (u8, u8) {
    if (min..=max).contains(&own) { (own, own) } else { (0, own) }
}

/// As much of a text as a message has.
fn short(text: &str) -> &str {
    let end = text.floor_char_boundary(catchment_wire::session::TEXT_BYTES_MAX);
    &text[..end]
}

/// Appends one message of control to an answer.
fn append(answer: &mut Vec<u8>, written: &mut u32, encode: impl FnOnce(&mut [u8], u32) -> usize) {
    let begin = answer.len();
    answer.resize(begin + CONTROL_BYTES_MAX as usize, 0);
    let bytes = encode(&mut answer[begin..], *written);
    answer.truncate(begin + bytes);
    *written = written.wrapping_add(1);
    debug_assert!(answer.len() <= ANSWER_BYTES_MAX, "a few messages of control");
}

#[cfg(test)]
mod tests;
