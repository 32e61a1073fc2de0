//! The connections between a front-end and its recorder: bytes travel in pieces of any size in both
//! directions, and connections break, stall, and fall silent.

use std::collections::{BTreeMap, VecDeque};

use catchment_fixtures::Random;
use catchment_sender::{Action, Connection};
use catchment_wire::event_link::{self, Data, MarkKind, Part};
use catchment_wire::session::{self, CONTROL, Control, Fields, Preamble};

use crate::fault::Fault;
use crate::logs::{ItemKind, Session};
use crate::plan::{BEGIN_NS, DURATION_NS, MS, Plan, S};
use crate::recorder::Recorder;
use crate::sessions::{FrontEnd, Reaction, SenderPlan};
use crate::settings;
use crate::silences;
use crate::streams::BUFFER_BYTES;

/// The connections of one front-end.
#[derive(Debug)]
pub struct Wires {
    open: BTreeMap<Connection, Wire>,
    /// Connections that nothing answers.
    asked: Vec<Connection>,
    /// Until then nothing passes, and nobody is told.
    silent_ns: u64,
    /// Until then no answers pass.
    late_ns: u64,
    /// So many pieces have one byte.
    single: u64,
    /// Bytes that are no message go out as soon as a message has ended.
    noise: Option<Connection>,
    /// When it is called next, if that is known.
    due_ns: u64,
    /// Why it has closed its connections, since that was last asked for.
    pub(crate) breaks: Vec<String>,
}

/// A connection.
#[derive(Debug)]
struct Wire {
    /// At the recorder; none if it is gone.
    index: Option<usize>,
    /// On their way to the recorder, and back.
    out: VecDeque<u8>,
    back: VecDeque<u8>,
    /// Until then nothing goes out.
    stalled_ns: u64,
    /// What has passed and is no whole message, the messages before it, and whether it has had its
    /// preamble. Nothing is read behind noise.
    passed: Vec<u8>,
    messages: u32,
    has_preamble: bool,
    is_noise: bool,
    /// Items of the message that is under way, which have come.
    told: usize,
}

/// What happens to a front-end and its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing goes out of a connection until then.
    Stall(u64),
    /// A connection is cut.
    Cut,
    /// Nothing passes in any direction until then, and nobody is told.
    Silence(u64),
    /// So many bytes pass one by one.
    Single(u64),
    /// No answers pass until then.
    LateAnswers(u64),
    /// Bytes that are no message pass.
    Noise,
    /// The front-end dies and begins again.
    Death,
}

impl Trouble {
    /// Its kind.
    pub fn fault(self) -> Fault {
        match self {
            Self::Stall(_) => Fault::Stall,
            Self::Cut => Fault::Cut,
            Self::Silence(_) => Fault::HalfOpen,
            Self::Single(_) => Fault::SingleBytes,
            Self::LateAnswers(_) => Fault::LateAnswers,
            Self::Noise => Fault::Noise,
            Self::Death => Fault::SenderKill,
        }
    }
}

/// The front-ends of a run, and their connections.
pub fn front_ends(plan: &Plan) -> Vec<(FrontEnd, Wires)> {
    let front_end = |sender: &SenderPlan| {
        let chance = plan.case.chance(&sender.name);
        let of = (&plan.case, chance);
        (FrontEnd::new(sender, &plan.sources, of), Wires::default())
    };
    plan.senders.iter().map(front_end).collect()
}

/// What happens to the front-ends of a run that is ended at `stop_ns`, and when: every third time
/// while it ends, and always some noise.
pub fn troubles(plan: &Plan, stop_ns: u64) -> Vec<(u64, usize, Trouble)> {
    let kinds = [
        Fault::Stall,
        Fault::Cut,
        Fault::HalfOpen,
        Fault::SingleBytes,
        Fault::LateAnswers,
        Fault::Noise,
        Fault::SenderKill,
    ];
    let mut all = Vec::new();
    for sender in 0..plan.senders.len() {
        for fault in kinds.into_iter().filter(|&fault| plan.case.faults.has(fault)) {
            let mut chance = plan.case.chance(&format!("{} of sender {sender}", fault.name()));
            if fault == Fault::HalfOpen && silences::is_of_cuts(plan.case.seed) {
                let (begin_ns, end_ns) = silences::short(&mut chance);
                all.push((begin_ns, sender, Trouble::Silence(end_ns)));
                continue;
            }
            let at_end = if fault == Fault::Noise { NOISE_AT_END } else { 0 };
            // A third time would be the last: its sender is told not to come again.
            let most = if fault == Fault::Noise { 2 } else { 6 };
            for number in 0..at_end + chance.below(most) {
                let at_ns = match number < at_end || chance.below(3) == 0 {
                    true => stop_ns + chance.below(ENDS_WITHIN_NS),
                    false => BEGIN_NS + chance.below(DURATION_NS + S),
                };
                let trouble = match fault {
                    Fault::Stall => Trouble::Stall(at_ns + chance.below(4 * S)),
                    Fault::Cut => Trouble::Cut,
                    Fault::HalfOpen => Trouble::Silence(at_ns + chance.below(6 * S)),
                    Fault::SingleBytes => Trouble::Single(chance.below(3_000)),
                    Fault::LateAnswers => Trouble::LateAnswers(at_ns + chance.below(4 * S)),
                    Fault::Noise => Trouble::Noise,
                    _ => Trouble::Death,
                };
                all.push((at_ns, sender, trouble));
            }
        }
    }
    all
}

/// What is whole in the buffer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// A message.
    Message,
    /// A fragment, by its index among those that its source has sent.
    Fragment(usize),
    /// One that came in parts.
    FragmentInParts(usize),
}

/// What a front-end did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Bytes that went out and came back.
    pub bytes: [u64; 2],
    /// Whether it was told that more is durable.
    pub has_more_durable: bool,
    /// When it is called next.
    pub next_ns: u64,
}

impl Default for Wires {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            asked: Vec::new(),
            silent_ns: 0,
            late_ns: 0,
            single: 0,
            noise: None,
            due_ns: u64::MAX,
            breaks: Vec::new(),
        }
    }
}

impl Wires {
    /// Takes note that it is to be called then. Returns whether that is news.
    pub fn call_at(&mut self, at_ns: u64) -> bool {
        let is_earlier = at_ns < self.due_ns;
        self.due_ns = self.due_ns.min(at_ns);
        is_earlier
    }

    /// Whether it is called now; no call is due behind that.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.due_ns <= now_ns;
        self.due_ns = if is_due { u64::MAX } else { self.due_ns };
        is_due
    }

    /// Whether something can come back.
    pub(crate) fn has_news(&self, now_ns: u64, recorder: &Recorder) -> bool {
        let mut indices = self.open.values().filter_map(|wire| wire.index);
        now_ns >= self.silent_ns.max(self.late_ns)
            && indices.any(|index| recorder.has_answer(index) != (false, false))
    }

    /// Something happens to it.
    pub(crate) fn suffer(
        &mut self,
        now_ns: u64,
        what: Trouble,
        front_end: &mut FrontEnd,
        recorder: Option<&mut Recorder>,
        chance: &mut Random,
    ) {
        let connections: Vec<Connection> = self.open.keys().copied().collect();
        let drawn = connections.get(chance.index(connections.len().max(1))).copied();
        match (what, drawn) {
            (Trouble::Silence(until_ns), _) => {
                self.silent_ns = self.silent_ns.max(until_ns);
                front_end.silences.push((now_ns, until_ns));
            }
            (Trouble::Single(count), _) => self.single = count,
            (Trouble::LateAnswers(until_ns), _) => self.late_ns = self.late_ns.max(until_ns),
            (Trouble::Death, _) => {
                self.close(now_ns, front_end, recorder);
                self.asked.clear();
                front_end.die();
            }
            (_, None) => {}
            (Trouble::Noise, Some(drawn)) => {
                // When a run ends, control alone is still read.
                let ends = recorder.is_some_and(|one| one.life.stopped_ns.is_some());
                let is_there = self.open.contains_key(&Connection::Control);
                self.noise = Some(if ends && is_there { Connection::Control } else { drawn });
            }
            (Trouble::Stall(until_ns), Some(drawn)) => {
                let wire = self.open.get_mut(&drawn).expect("it is open");
                wire.stalled_ns = wire.stalled_ns.max(until_ns);
            }
            (Trouble::Cut, Some(drawn)) => {
                let wire = self.open.remove(&drawn).expect("it is open");
                if let (Some(recorder), Some(index)) = (recorder, wire.index) {
                    recorder.close((index, front_end.plan.sources[0]), now_ns);
                }
                front_end.peer().closed(now_ns, drawn, "it was cut");
            }
        }
    }

    /// The front-end closes all: what is on its way is lost.
    fn close(&mut self, now_ns: u64, front_end: &FrontEnd, recorder: Option<&mut Recorder>) {
        let open = std::mem::take(&mut self.open);
        // The recorder is not told where nothing passes.
        let Some(recorder) = recorder.filter(|_| now_ns >= self.silent_ns) else { return };
        for index in open.into_values().filter_map(|wire| wire.index) {
            recorder.close((index, front_end.plan.sources[0]), now_ns);
        }
    }

    /// The recorder is gone; the front-end is told so, or has to find out.
    pub fn orphan(&mut self, now_ns: u64, is_told: bool, front_end: &mut FrontEnd) {
        for wire in self.open.values_mut() {
            wire.index = None;
        }
        while is_told && let Some((connection, _)) = self.open.pop_first() {
            front_end.peer().closed(now_ns, connection, "the recorder is gone");
        }
    }

    /// The recorder has ended: what it has said is still read, unless nothing passes.
    pub(crate) fn end(
        &mut self,
        now_ns: u64,
        front_end: &mut FrontEnd,
        of: (&mut Recorder, usize),
    ) {
        let (recorder, life) = of;
        if now_ns >= self.silent_ns.max(self.late_ns) {
            for wire in self.open.values_mut() {
                wire.back
                    .extend(wire.index.map(|index| recorder.answers(index)).unwrap_or_default());
                let all = Vec::from(std::mem::take(&mut wire.back));
                if all.is_empty() {
                    continue;
                }
                let _more = wire.hear(now_ns, &all, front_end, (life, recorder.life.deaths));
                listen(now_ns, front_end, &all);
            }
        }
        self.orphan(now_ns, true, front_end);
        self.act(now_ns, front_end, None);
    }

    /// Does what is due.
    pub(crate) fn pass(
        &mut self,
        now_ns: u64,
        front_end: &mut FrontEnd,
        mut recorder: Option<(&mut Recorder, usize)>,
        chance: &mut Random,
    ) -> Passed {
        let mut passed = Passed::default();
        self.act(now_ns, front_end, recorder.as_mut().map(|one| &mut *one.0));
        if now_ns < self.silent_ns {
            // What the sockets take does not get there.
            self.take(now_ns, front_end);
        } else {
            self.take(now_ns, front_end);
            if let Some((recorder, life)) = &mut recorder {
                self.pass_out(now_ns, front_end, recorder, chance, &mut passed);
                self.pass_back(now_ns, front_end, (recorder, *life), chance, &mut passed);
                self.take(now_ns, front_end);
            }
        }
        let wake_ns = self.act(now_ns, front_end, recorder.map(|one| one.0));
        let soon_ns = now_ns + 1 + chance.below(50_000);
        passed.next_ns = wake_ns.max(soon_ns).min(self.next_ns(soon_ns));
        passed
    }

    /// When something passes next, not before that time.
    fn next_ns(&self, soon_ns: u64) -> u64 {
        let asked = if self.asked.is_empty() { u64::MAX } else { soon_ns };
        let of = |wire: &Wire| {
            let out = if wire.out.is_empty() { u64::MAX } else { wire.stalled_ns.max(soon_ns) };
            let back = if wire.back.is_empty() { u64::MAX } else { self.late_ns.max(soon_ns) };
            out.min(back)
        };
        let next_ns = self.open.values().map(of).min().unwrap_or(u64::MAX);
        next_ns.min(asked).max(self.silent_ns)
    }

    /// Does what the session asks for. Returns when it is to be asked again.
    fn act(
        &mut self,
        now_ns: u64,
        front_end: &mut FrontEnd,
        mut recorder: Option<&mut Recorder>,
    ) -> u64 {
        if let Some((_, Reaction::Die)) = front_end.react(now_ns) {
            self.close(now_ns, front_end, recorder.as_deref_mut());
            self.asked.clear();
            front_end.die();
        }
        loop {
            for connection in std::mem::take(&mut self.asked) {
                match &mut recorder {
                    _ if now_ns < self.silent_ns => self.asked.push(connection),
                    None => front_end.peer().closed(now_ns, connection, "nobody listens"),
                    Some(recorder) => {
                        let index = recorder.connect(front_end.plan.sources[0]);
                        self.open.insert(connection, Wire::new(index));
                        front_end.peer().opened(now_ns, connection);
                    }
                }
            }
            let step = front_end.peer().work(now_ns);
            front_end.note_marks();
            match step.action {
                None => return step.wake_at_ns.min(front_end.reacts_at_ns()),
                Some(Action::Connect(connection)) => self.asked.push(connection),
                Some(Action::Close) => {
                    self.breaks.push(front_end.peer().why_away());
                    self.asked.clear();
                    self.close(now_ns, front_end, recorder.as_deref_mut());
                }
                Some(Action::End) => {
                    let why = front_end.peer().why_away();
                    front_end.blame(|| format!("it has ended: {why}"));
                }
                Some(Action::Command(command)) => front_end.take_command(now_ns, &command),
                Some(Action::GaveUp { .. }) => {}
            }
        }
    }

    /// The sockets take what there is room for.
    fn take(&mut self, now_ns: u64, front_end: &mut FrontEnd) {
        for (&connection, wire) in &mut self.open {
            while wire.out.len() < front_end.plan.socket_bytes {
                let room = front_end.plan.socket_bytes - wire.out.len();
                let bytes = front_end.peer().transmit(now_ns, connection, room);
                if bytes.is_empty() {
                    // Between two messages.
                    if self.noise == Some(connection) {
                        self.noise = None;
                        wire.out.extend([0x5A; 40]);
                    }
                    break;
                }
                wire.out.extend(bytes);
            }
        }
    }

    fn pass_out(
        &mut self,
        now_ns: u64,
        front_end: &mut FrontEnd,
        recorder: &mut Recorder,
        chance: &mut Random,
        passed: &mut Passed,
    ) {
        let mut closed = Vec::new();
        for (&connection, wire) in &mut self.open {
            if wire.out.is_empty() {
                continue;
            }
            if now_ns < wire.stalled_ns {
                continue;
            }
            let single = self.single > 0;
            self.single = self.single.saturating_sub(1);
            let piece = wire.piece(single, chance);
            let source = front_end.plan.sources[0];
            let count = wire.index.map(|index| recorder.pass((index, source), &piece, now_ns));
            match count {
                // Nothing says that the recorder is gone, but an attempt to send.
                None => closed.push(connection),
                // What it has answered before is still to be read.
                Some(None) => wire.out.clear(),
                // There is no room.
                Some(Some(0)) => wire.stalled_ns = now_ns + MS,
                Some(Some(count)) => {
                    wire.out.drain(..count);
                    passed.bytes[0] += count as u64;
                    let record = front_end.sessions.last().expect("a session");
                    let came = |source, what| recorder.came_whole(source, what, now_ns);
                    if matches!(connection, Connection::Data(_)) && !front_end.plan.is_channels {
                        let settings = wire.look_at(&piece[..count], record, came);
                        front_end.say_settings(settings);
                    }
                }
            }
        }
        for connection in closed {
            self.open.remove(&connection);
            front_end.peer().closed(now_ns, connection, "the recorder is gone");
        }
    }

    fn pass_back(
        &mut self,
        now_ns: u64,
        front_end: &mut FrontEnd,
        (recorder, life): (&mut Recorder, usize),
        chance: &mut Random,
        passed: &mut Passed,
    ) {
        if now_ns < self.late_ns {
            return;
        }
        let connections: Vec<Connection> = self.open.keys().copied().collect();
        for connection in connections {
            let Some(wire) = self.open.get_mut(&connection) else { continue };
            let Some(index) = wire.index else { continue };
            // Read first, so that what was said before the end is not passed over.
            let (_, is_closed) = recorder.has_answer(index);
            wire.back.extend(recorder.answers(index));
            let piece = wire.piece_back(chance);
            if !piece.is_empty() {
                passed.bytes[1] += piece.len() as u64;
                let life = (life, recorder.life.deaths);
                passed.has_more_durable |= wire.hear(now_ns, &piece, front_end, life);
                listen(now_ns, front_end, &piece);
            } else if is_closed {
                self.open.remove(&connection);
                front_end.peer().closed(now_ns, connection, "the recorder has closed it");
            }
        }
    }
}

impl Wire {
    fn new(index: usize) -> Self {
        Self {
            index: Some(index),
            out: VecDeque::new(),
            back: VecDeque::new(),
            stalled_ns: 0,
            passed: Vec::new(),
            messages: 0,
            has_preamble: false,
            is_noise: false,
            told: 0,
        }
    }

    fn piece(&self, is_single: bool, chance: &mut Random) -> Vec<u8> {
        let most = [1, 100, 9_000, BUFFER_BYTES][[0, 1, 2, 2, 3, 3, 3, 3][chance.index(8)]];
        let count = if is_single { 1 } else { 1 + chance.index(most) };
        self.out.iter().take(count).copied().collect()
    }

    fn piece_back(&mut self, chance: &mut Random) -> Vec<u8> {
        let most = [1, 100, BUFFER_BYTES, BUFFER_BYTES][chance.index(4)];
        let count = (1 + chance.index(most)).min(self.back.len());
        self.back.drain(..count).collect()
    }

    /// Looks for items in the bytes of a data connection: hands out messages that are whole, with
    /// their sources, and fragments. A heartbeat may be of each source of its sender. Returns what
    /// is said of settings: log, sequence, text.
    fn look_at(
        &mut self,
        bytes: &[u8],
        session: &Session,
        mut came: impl FnMut(usize, Whole),
    ) -> Vec<(u32, u64, String)> {
        let mut settings = Vec::new();
        self.passed.extend_from_slice(bytes);
        let mut used = if self.has_preamble { 0 } else { Preamble::BYTES };
        if self.is_noise || self.passed.len() < used {
            return settings;
        }
        self.has_preamble = true;
        let bounds = event_link::bounds(MESSAGE_BYTES_MAX);
        while !self.is_noise {
            let rest = &self.passed[used..];
            let message = match event_link::parse_head(rest, self.messages, bounds) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => {
                    self.is_noise = true;
                    break;
                }
            };
            let is_whole = message.used <= rest.len();
            if !is_whole && !is_long(&message) {
                break;
            }
            let mut fragment: fn(usize) -> Whole = Whole::Fragment;
            let (log, items) = match Data::read(&message) {
                Ok(Some(Data::Fragments(fixed, records, body))) => {
                    let there = event_link::fragments(records, body).count();
                    (Some(fixed.log), fixed.sequence..fixed.sequence + there as u64)
                }
                Ok(Some(Data::Part(part, body))) if body.len() == message.body_bytes => {
                    fragment = Whole::FragmentInParts;
                    (Some(part.log), whole(&part, body))
                }
                Ok(Some(Data::Part(part, _))) => (Some(part.log), 0..0),
                Ok(Some(Data::Mark(mark, text))) => {
                    if mark.kind == MarkKind::Setting && is_whole {
                        settings.push((mark.log, mark.sequence, text.to_owned()));
                    }
                    (Some(mark.log), 0..0)
                }
                Ok(Some(Data::Heartbeat(_))) => {
                    session.logs.iter().for_each(|log| came(log.source, Whole::Message));
                    (None, 0..0)
                }
                _ => (None, 0..0),
            };
            if let Some(log) = log.map(|log| &session.logs[log as usize]) {
                if is_whole {
                    came(log.source, Whole::Message);
                }
                for sequence in items.clone().skip(self.told) {
                    if let Some(ItemKind::Fragment(index)) =
                        log.item(sequence).map(|item| item.kind)
                    {
                        came(log.source, fragment(index));
                    }
                }
            }
            if !is_whole {
                self.told = (items.end - items.start) as usize;
                break;
            }
            self.told = 0;
            used += message.used;
            self.messages = self.messages.wrapping_add(1);
        }
        self.passed.drain(..used);
        settings
    }

    /// Listens to what a recorder says on control. Returns whether more is durable.
    fn hear(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        front_end: &mut FrontEnd,
        life: (usize, u32),
    ) -> bool {
        self.passed.extend_from_slice(bytes);
        let mut used = if self.has_preamble { 0 } else { Preamble::BYTES };
        if self.passed.len() < used {
            return false;
        }
        self.has_preamble = true;
        let mut has_more = false;
        while let Ok(Some(message)) = session::parse(&self.passed[used..], self.messages, CONTROL) {
            used += message.used;
            self.messages = self.messages.wrapping_add(1);
            if let Ok(Some(Control::Welcome(welcome))) = Control::read(&message) {
                front_end.welcomed(now_ns, welcome.skew_bytes);
                continue;
            }
            if let Ok(Some(Control::Command(command, values, text))) = Control::read(&message) {
                let setting = settings::of_command(command.kind, values.iter().next(), text);
                front_end.told(now_ns, life, (&command, setting));
                continue;
            }
            let logs = &mut front_end.session().logs;
            let durable =
                |logs: &[crate::logs::Log]| logs.iter().map(|log| log.durable).sum::<u64>();
            let before = durable(logs);
            let told = match Control::read(&message) {
                Ok(Some(Control::Grants(grants))) => grants.iter().try_for_each(|grant| {
                    let log = logs.get_mut(grant.log as usize).ok_or("a log that is none")?;
                    log.granted(life, &grant)
                }),
                Ok(Some(Control::Positions(_, positions))) => {
                    positions.iter().try_for_each(|one| {
                        let log = logs.get_mut(one.log as usize).ok_or("a log that is none")?;
                        log.positions(life.0, &one)
                    })
                }
                Ok(_) => Ok(()),
                Err(fault) => Err(fault.to_string()),
            };
            has_more |= durable(logs) > before;
            if let Err(why) = told {
                front_end.blame(|| why);
            }
        }
        self.passed.drain(..used);
        has_more
    }
}

/// The sender takes what came on control.
fn listen(now_ns: u64, front_end: &mut FrontEnd, bytes: &[u8]) {
    if let Err(fault) = front_end.peer().received(now_ns, bytes) {
        front_end.blame(|| format!("the recorder's bytes: {fault}"));
    }
    front_end.note_marks();
}

/// The sequence of a fragment that is whole with this part.
fn whole(part: &Part, body: &[u8]) -> std::ops::Range<u64> {
    let is_last = part.position + body.len() as u64 == part.fragment_bytes;
    part.sequence..part.sequence + u64::from(is_last)
}

/// Whether a recorder takes the fragments of a message as they come.
fn is_long(message: &session::Message<'_>) -> bool {
    message.used >= 128 << 10 || message.record_count() <= 1 && message.body_bytes >= 64 << 10
}

/// Bytes of the longest message of items.
const MESSAGE_BYTES_MAX: u32 = *session::MESSAGE_BYTES_MAX.end();
/// How long a run takes to end, mostly, and how often noise comes meanwhile.
const ENDS_WITHIN_NS: u64 = 2 * S;
const NOISE_AT_END: u64 = 1;
