//! Front-ends that deliver sources over sessions: which ones a run has, and what they do.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use catchment_builder::SourceRole;
use catchment_fixtures::Random;
use catchment_recorder::{FrontEnd as Shown, Report, Scalar};
use catchment_sender::{RunCommand, SenderConfig, SenderSession, SourceConfig};
use catchment_wire::channel_link::PACKET_BYTES_MAX;
use catchment_wire::event_link::{CommandKind, KeyKind};
use catchment_wire::session::{AnswerKind, Release, Service};

use crate::case::Case;
use crate::detector::{Packet, SentFragment};
use crate::fault::{Fault, Faults};
use crate::groups::{self, Part};
use crate::logs::{ItemKind, Session};
use crate::naive::{LogConfig, Naive};
use crate::peer::{Peer, Put, Status};
use crate::plan::{MS, PART_FRAGMENT_BYTES_MAX, S, SourcePlan, number_bits};
use crate::settings::{Settings, is_bad};
use crate::silences;

mod settings;

/// A front-end.
#[derive(Clone, Debug)]
pub struct SenderPlan {
    /// Its name.
    pub name: String,
    /// By log, the sources that it delivers.
    pub sources: Vec<usize>,
    /// The port of its recorder.
    pub port: u16,
    /// Bytes of the ring of each log.
    pub ring_bytes: u64,
    /// Bytes that the system takes of each connection before they are on their way.
    pub socket_bytes: usize,
    /// Whether it drops fragments for which there is no room, and says so; otherwise they wait.
    pub abandons: bool,
    /// How long items are kept.
    pub release: Release,
    /// Whether it also drops fragments and marks settings as it goes.
    pub is_odd: bool,
    /// Whether it is the naive one.
    pub is_naive: bool,
    /// Whether it marks begin and end of runs.
    pub marks: bool,
    /// Whether the naive one reports what it has.
    pub reports: bool,
    /// What it does with commands; none: it is given none, or its client agrees to all.
    pub manners: Option<Manners>,
    /// Whether it has settings, and reports them.
    pub has_settings: bool,
    /// How it orders the sources that share a connection.
    pub skew: SkewPlan,
    /// Whether it delivers a link, and no sources of events.
    pub is_channels: bool,
}

/// How far the sources of a connection are out of order.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkewPlan {
    /// For how many bytes a front-end asks.
    pub asked_bytes: u64,
    /// How many its recorder's listener grants at most.
    pub granted_bytes_max: u64,
    /// Whether it keeps to what is granted, as clients do.
    pub is_kept: bool,
}

impl SkewPlan {
    fn draw(chance: &mut Random, granted_bytes_max: u64) -> Self {
        let asked_bytes = [64 << 10, 512 << 10, 4 << 20][chance.index(3)];
        Self { asked_bytes, granted_bytes_max, is_kept: chance.chance(600) }
    }
}

/// What a front-end does with commands, of a thousand each; it does the others soon.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// It refuses.
    pub refused: u64,
    /// It does it after a while, and does not always say that it is at work.
    pub late: u64,
    /// It dies while it prepares, or sets something.
    pub dying: u64,
}

/// Has front-ends of a run with run control answer commands, but for some naive ones.
pub fn teach(case: &Case, senders: &mut [SenderPlan]) {
    let mut chance = case.chance("manners");
    let is_bad = case.faults.has(Fault::Refuse);
    for sender in senders {
        let mut rate = |most: u64| if is_bad { chance.below(most) } else { 0 };
        let manners = Manners { refused: rate(250), late: rate(300), dying: rate(200) };
        let answers = !sender.is_naive || chance.chance(800);
        sender.manners = answers.then_some(manners);
    }
}

/// The place of a source among the logs of front-ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlan {
    /// The front-end.
    pub sender: usize,
    /// The log.
    pub log: u32,
    /// What its keys are.
    pub key_kind: KeyKind,
    /// Their width.
    pub key_bits: u8,
}

/// The front-ends of a run, and their sources.
#[derive(Debug, Default)]
pub struct Drawn {
    /// The front-ends, without their sources.
    pub senders: Vec<SenderPlan>,
    /// The sources, in the order of front-ends and logs.
    pub sources: Vec<SourcePlan>,
    /// Whether there are no other sources.
    pub are_alone: bool,
}

impl Drawn {
    /// The front-ends, and their sources with the others.
    pub fn with(self, others: Vec<SourcePlan>) -> (Vec<SenderPlan>, Vec<SourcePlan>) {
        let others = if self.are_alone { Vec::new() } else { others };
        (self.senders, self.sources.into_iter().chain(others).collect())
    }
}

/// Two runs of five have front-ends: half of these nothing else. Where their networks are cut while
/// little else happens there are several.
pub fn draw(case: &Case) -> Drawn {
    let (mut chance, mut marks) = (case.chance("sessions"), case.chance("marks"));
    let (mut reports, mut skews) = (case.chance("reports"), case.chance("skew"));
    let is_of_cuts = silences::is_of_cuts(case.seed);
    let kind = if is_of_cuts { 0 } else { chance.index(5) };
    if kind > 1 {
        return Drawn::default();
    }
    let mut drawn = Drawn { are_alone: kind == 0, ..Drawn::default() };
    let count = usize::from(is_of_cuts) + 1 + chance.index(3);
    let are_together = chance.chance(500);
    let payload_bytes_max =
        [100, 100, 1_000, 4_000, 4_000, 30_000, 30_000, PART_FRAGMENT_BYTES_MAX][chance.index(8)];
    // Of the first front-end in every eighth run, whose sources share connections.
    let is_wide = skews.chance(125);
    let payload_bytes_max = if is_wide { payload_bytes_max.min(30_000) } else { payload_bytes_max };
    let granted_bytes_max = [0, 64 << 10, 256 << 10, 1 << 20][skews.index(4)];
    let sources_max = if is_wide { SOURCES_MAX + SOURCES_WIDE } else { SOURCES_MAX };
    for sender in 0..count {
        let is_wide = is_wide && sender == 0;
        let logs = (1 + chance.index(3)).min(sources_max - drawn.sources.len());
        let logs = if is_wide { SOURCES_WIDE - 2 + logs } else { logs };
        let skew = SkewPlan::draw(&mut skews, granted_bytes_max);
        drawn.sources.extend((0..logs as u32).map(|log| SourcePlan {
            in_parts: true,
            in_stream: false,
            log: Some(LogPlan {
                sender,
                log,
                key_kind: KeyKind::Number,
                key_bits: [64, 48, 0][chance.index(3)],
            }),
            big_endian: false,
            payload_bytes_max,
            batch: 1,
            lag_ns: if is_wide { skews.below(2) * skews.below(20 * MS) } else { 0 },
            role: if chance.below(4) == 0 { SourceRole::Optional } else { SourceRole::Required },
            part: Part::default(),
        }));
        let small = payload_bytes_max + (64 << 10);
        let ring_bytes = match case.faults.has(Fault::SmallRing) {
            true => small + chance.below(small),
            false => 4 * small + (1 << 20),
        };
        drawn.senders.push(SenderPlan {
            name: format!("f{sender}"),
            sources: Vec::new(),
            port: 7_100 + if are_together { 0 } else { sender as u16 },
            ring_bytes,
            socket_bytes: [500, 16 << 10, 256 << 10][chance.index(3)]
                .max(payload_bytes_max as usize / 8),
            abandons: chance.chance(500),
            release: if chance.below(5) == 0 { Release::Taken } else { Release::Durable },
            is_odd: chance.chance(500),
            is_naive: chance.chance(400),
            marks: marks.chance(800),
            reports: reports.chance(500),
            manners: None,
            has_settings: false,
            skew,
            is_channels: false,
        });
        // Where widths differ, or keys wrap, the lower ones go first.
        let has_order = is_wide || drawn.senders[sender].is_naive && skew.is_kept;
        let logs = drawn.sources.iter_mut().filter_map(|source| source.log.as_mut());
        for log in logs.filter(|log| log.sender == sender && has_order) {
            log.key_bits = 64;
        }
        if drawn.sources.len() >= sources_max {
            break;
        }
    }
    drawn
}

/// Gives front-ends their sources, and these the width of their keys.
pub fn place(senders: &mut Vec<SenderPlan>, sources: &mut [SourcePlan]) {
    let bits = number_bits(sources) as u8;
    for (index, source) in sources.iter_mut().enumerate() {
        if let Some(log) = &mut source.log {
            log.key_bits = if log.key_bits == 0 { bits } else { log.key_bits };
            senders[log.sender].sources.push(index);
        }
    }
    senders.retain(|sender| !sender.sources.is_empty());
}

impl SenderPlan {
    /// The address of the port that it connects to.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The name of the source of a log.
    pub fn source_name(&self, log: u32) -> String {
        match self.log_name(log) {
            name if name.is_empty() => self.name.clone(),
            name => format!("{}/{name}", self.name),
        }
    }

    fn log_name(&self, log: u32) -> String {
        if self.sources.len() == 1 { String::new() } else { format!("l{log}") }
    }

    /// The configuration of its session.
    fn config(&self, sources: &[SourcePlan]) -> SenderConfig {
        let (name, buffer_bytes) = (self.name.clone(), Some(self.ring_bytes));
        if self.is_channels {
            let fragment_bytes_max = PACKET_BYTES_MAX as u64;
            let link = SourceConfig { fragment_bytes_max, buffer_bytes, ..SourceConfig::default() };
            let (service, sources) = (Service::Channels, vec![link]);
            return SenderConfig { name, service, sources, ..SenderConfig::default() };
        }
        let of = |(log, &source): (u32, &usize)| SourceConfig {
            name: self.log_name(log),
            fragment_bytes_max: sources[source].payload_bytes_max.max(1),
            key_kind: sources[source].log.map_or(KeyKind::Number, |log| log.key_kind),
            key_bits: sources[source].log.map_or(64, |log| log.key_bits),
            groups: sources[source].part.said(),
            is_reference: sources[source].part.is_reference,
            buffer_bytes,
            marks: self.marks,
            ..SourceConfig::default()
        };
        let sources = (0..).zip(&self.sources).map(of).collect();
        let (release, has_callbacks) = (self.release, self.manners.is_some());
        let skew_bytes = self.skew.asked_bytes;
        SenderConfig {
            name,
            sources,
            release,
            skew_bytes,
            has_callbacks,
            ..SenderConfig::default()
        }
    }
}

/// A front-end, and what it has done so far.
pub struct FrontEnd {
    /// Its plan.
    pub plan: SenderPlan,
    config: SenderConfig,
    peer: Peer,
    /// Its sessions so far, the present one last.
    pub sessions: Vec<Session>,
    /// By log, what waits for room.
    waiting: Vec<VecDeque<Waiting>>,
    /// What it will do about the command that it is at, and when.
    at_work: Option<(u64, u64, Reaction)>,
    /// Keys of fragments that it dropped and said so, with their logs.
    pub abandoned: Vec<(usize, u64)>,
    pub(crate) settings: Settings,
    /// Of the run: what key messages name follows from it.
    seed: u64,
    /// Whether something waited for room.
    pub was_full: bool,
    /// When its network fell silent, and until when.
    pub silences: Vec<(u64, u64)>,
    /// Whether nothing goes wrong.
    is_prompt: bool,
    /// When its recorder last let it in.
    welcome_ns: u64,
    chance: Random,
    /// What its recorders must not have said, or it must not have said itself.
    pub wrong: Option<String>,
}

/// What a front-end does about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It answers.
    Answer(AnswerKind),
    /// It dies.
    Die,
}

/// Something that goes into a log when there is room; or a promise that no lower key follows what
/// is before it, and whether its source is idle.
#[derive(Clone, Debug)]
enum Waiting {
    Fragment { fragment: SentFragment, key: u64, bytes: Vec<u8> },
    Promise(u64, bool),
    Renumber(u64),
    Packet { slice: u64, part: usize, bytes: Vec<u8> },
}

/// A fragment that has gone into a log of a source.
pub type Made = (usize, SentFragment, Vec<u8>);

impl FrontEnd {
    /// The front-end of a plan, in a run of that seed.
    pub fn new(
        plan: &SenderPlan,
        sources: &[SourcePlan],
        (case, mut chance): (&Case, Random),
    ) -> Self {
        let config = plan.config(sources);
        let number = chance.next_u64() | 1;
        let mut front_end = Self {
            plan: plan.clone(),
            peer: peer(plan, &config, number, &mut chance),
            config,
            sessions: vec![Session::new(number, &plan.sources, plan.release)],
            waiting: vec![VecDeque::new(); plan.sources.len()],
            at_work: None,
            abandoned: Vec::new(),
            settings: Settings::default(),
            seed: case.seed,
            was_full: false,
            silences: Vec::new(),
            is_prompt: case.faults == Faults::NONE,
            welcome_ns: 0,
            chance,
            wrong: None,
        };
        front_end.begin_settings();
        front_end
    }

    /// Its memory is gone, and it begins again.
    pub fn die(&mut self) {
        self.check_status();
        let number = self.chance.next_u64() | 1;
        self.peer = peer(&self.plan, &self.config, number, &mut self.chance);
        self.sessions.push(Session::new(number, &self.plan.sources, self.plan.release));
        self.waiting.iter_mut().for_each(VecDeque::clear);
        self.at_work = None;
        self.begin_settings();
    }

    /// Takes a command. What it does about it follows ([`FrontEnd::react`]).
    pub fn take_command(&mut self, now_ns: u64, command: &RunCommand) {
        let (number, kind) = (command.number, CommandKind(command.kind));
        let is_set = kind == CommandKind::SET;
        if is_set && let Some((name, value)) = self.settings.change(now_ns, &mut self.chance) {
            self.peer.report_setting(name, &value);
        }
        let must_refuse = is_set && command.settings.iter().any(|(_, value)| is_bad(value));
        let manners = self.plan.manners.unwrap_or_default();
        let drawn = self.chance.below(1_000);
        let may_die = is_set || kind == CommandKind::PREPARE;
        let late = manners.refused + manners.late;
        let done = match kind {
            CommandKind::PREPARE => AnswerKind::Agreed,
            _ => AnswerKind::Done,
        };
        let (within_ns, reaction) = match drawn {
            _ if drawn < manners.refused || must_refuse => {
                (50 * MS, Reaction::Answer(AnswerKind::Refused))
            }
            _ if drawn < late => (5 * S, Reaction::Answer(done)),
            _ if drawn < late + manners.dying && may_die => (S, Reaction::Die),
            _ => (50 * MS, Reaction::Answer(done)),
        };
        self.at_work = Some((now_ns + self.chance.below(within_ns), number, reaction));
    }

    /// What it does now about a command: the command's number, and what.
    pub fn react(&mut self, now_ns: u64) -> Option<(u64, Reaction)> {
        let (_, number, reaction) = self.at_work.take_if(|(at_ns, ..)| *at_ns <= now_ns)?;
        if let Reaction::Answer(answer) = reaction {
            let has_done = answer != AnswerKind::Refused;
            self.session().answered(now_ns, number, has_done);
            self.set(now_ns, number, has_done);
            self.peer.answer(number, answer);
            self.note_marks();
        }
        Some((number, reaction))
    }

    /// Its end of the session may have marked by itself that a run begins or ends. Called before
    /// anything else goes into a log.
    pub fn note_marks(&mut self) {
        let session = self.sessions.last_mut().expect("a session");
        let last = session.commands.last();
        let kind = match last.is_some_and(|last| last.kind == CommandKind::STOP) {
            true => ItemKind::End,
            false => ItemKind::Mark,
        };
        for (number, log) in session.logs.iter_mut().enumerate() {
            for _ in log.made()..self.peer.status(number).made {
                log.add(1, kind);
            }
        }
    }

    /// When it does something about a command.
    pub fn reacts_at_ns(&self) -> u64 {
        self.at_work.map_or(u64::MAX, |(at_ns, ..)| at_ns)
    }

    /// Its end of the present session.
    pub fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// The present session.
    pub fn session(&mut self) -> &mut Session {
        self.sessions.last_mut().expect("a session")
    }

    /// Something must not be.
    pub fn blame(&mut self, why: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(format!("{}: {}", self.plan.name, why()));
        }
    }

    /// Has a fragment of an event of a source.
    pub fn fragment(&mut self, log: usize, fragment: SentFragment, key: u64, bytes: Vec<u8>) {
        self.waiting[log].push_back(Waiting::Fragment { fragment, key, bytes });
    }

    /// Has nothing of a source's events below that key any more, once what waits is in its log; and
    /// perhaps nothing for long.
    pub fn pass_over(&mut self, log: usize, key: u64, is_idle: bool) {
        self.waiting[log].push_back(Waiting::Promise(key, is_idle));
    }

    /// Numbers of a source begin again.
    pub fn renumber(&mut self, log: usize, key: u64) {
        self.waiting[log].push_back(Waiting::Renumber(key));
    }

    /// Has the packets of a slice of its link. Heartbeats are its client's.
    pub fn packets(&mut self, slice: u64, packets: Vec<Packet>) {
        let samples = packets.into_iter().enumerate().filter(|(_, packet)| !packet.is_heartbeat());
        let packet =
            |(part, packet): (_, Packet)| Waiting::Packet { slice, part, bytes: packet.bytes };
        self.waiting[0].extend(samples.map(packet));
    }

    /// Promises that no lower key of a source follows, unless something waits for room that may.
    /// Says whether it is idle.
    pub fn promise(&mut self, log: usize, key: u64, is_idle: bool) {
        if self.waiting[log].is_empty() {
            self.peer.promise(log, key, is_idle);
        }
    }

    /// Puts into its logs what there is room for, and returns the fragments. `next` is the index
    /// that the next fragment of a source will have.
    pub fn fill(&mut self, next: impl Fn(usize) -> usize) -> Vec<Made> {
        let mut made: Vec<Made> = Vec::new();
        for log in 0..self.waiting.len() {
            let source = self.plan.sources[log];
            let mut index = next(source);
            while let Some(first) = self.waiting[log].pop_front() {
                match self.put(log, &first, index) {
                    Put::Full => {
                        self.was_full = true;
                        self.waiting[log].push_front(first);
                        break;
                    }
                    Put::Done => {
                        if let Waiting::Fragment { fragment, bytes, .. } = first {
                            made.push((source, fragment, bytes));
                            index += 1;
                        }
                    }
                    Put::Refused => {}
                }
            }
        }
        made
    }

    /// Puts one thing into a log.
    fn put(&mut self, log: usize, item: &Waiting, index: usize) -> Put {
        match *item {
            Waiting::Packet { slice, part, ref bytes } => {
                let put = self.peer.push_packet(bytes);
                if put == Put::Done {
                    self.session().logs[log].add(1, ItemKind::Packet { slice, part });
                }
                put
            }
            Waiting::Promise(key, is_idle) => {
                self.peer.promise(log, key, is_idle);
                Put::Done
            }
            Waiting::Renumber(key) => {
                let put = self.peer.renumber(log, key);
                if put == Put::Done {
                    self.session().logs[log].add(1, ItemKind::Mark);
                }
                put
            }
            Waiting::Fragment { fragment, key, ref bytes } => {
                let groups = match self.config.sources[log].is_reference {
                    true => groups::named(self.seed, fragment.trigger),
                    false => 0,
                };
                match self.peer.push(log, (key, groups), bytes) {
                    Ok(Put::Done) => {
                        self.session().logs[log].add(1, ItemKind::Fragment(index));
                        self.add_other(log, key);
                        Put::Done
                    }
                    Ok(Put::Full) if !self.plan.abandons => Put::Full,
                    Ok(_) => {
                        self.abandon(log, key);
                        Put::Refused
                    }
                    Err(error) => {
                        self.blame(|| format!("it refuses a fragment: {error}"));
                        Put::Refused
                    }
                }
            }
        }
    }

    /// Drops a fragment of a log, and says so if there is room for that.
    pub fn abandon(&mut self, log: usize, key: u64) {
        if self.peer.abandon(log, 1, Some((key, key))) {
            self.session().logs[log].add(1, ItemKind::Abandoned);
            self.abandoned.push((log, key));
        }
    }

    /// Now and then something else goes into the log of a sender that does such things.
    fn add_other(&mut self, log: usize, key: u64) {
        if self.plan.is_odd
            && self.chance.chance(100)
            && let Some((count, kind)) = self.peer.add_other(log, key, &mut self.chance)
        {
            self.session().logs[log].add(count, kind);
        }
    }

    /// What is shown of it is what it has reported in this session.
    pub fn check_reports(&mut self, now_ns: u64, shown: &BTreeMap<String, Shown>) {
        let Some(shown) = shown.get(&self.plan.name) else { return };
        self.check_settings(now_ns, shown);
        for log in 0..self.plan.sources.len() {
            let Some(least) = self.peer.reported(log) else { return };
            let most = self.peer.status(log).made;
            let name = format!("{}.made", self.plan.source_name(log as u32));
            let made = match shown.reports.get(&name) {
                Some(Report::Counter { value: Scalar::U64(made), .. }) => *made,
                _ => 0,
            };
            if !(least..=most).contains(&made) {
                self.blame(|| format!("{name} is shown as {made}, it was {least} to {most}"));
            }
        }
    }

    /// Whether some of its sources share a data connection.
    pub fn shares_connections(&self) -> bool {
        self.peer.data_connections() < self.plan.sources.len()
    }

    /// It was granted so much of a skew.
    pub fn check_skew(&mut self, granted_bytes: u64) {
        let SkewPlan { asked_bytes, granted_bytes_max, .. } = self.plan.skew;
        let most = if self.shares_connections() { asked_bytes.min(granted_bytes_max) } else { 0 };
        if granted_bytes > most {
            self.blame(|| format!("it is granted a skew of {granted_bytes} bytes, not {most}"));
        }
    }

    /// What a sender of its name says that has keys of a kind which the run does not take.
    pub fn hello_of_stranger(&self, number: u64) -> Vec<u8> {
        let mut logs = logs(&self.config);
        for log in &mut logs {
            (log.key_kind, log.key_bits) = (KeyKind::Time, 64);
        }
        let of = (number, self.config.name.as_str());
        let skew = self.plan.skew;
        Naive::new(of, &logs, (self.config.release, skew), Random::new(number)).hello_alone()
    }

    /// What it counts itself of its present session must be what it was told.
    pub fn check_status(&mut self) {
        let session = self.sessions.last().expect("a session");
        let wrong = session.logs.iter().enumerate().find_map(|(number, log)| {
            let (made, durable) = (log.made(), log.durable);
            let status = self.peer.status(number);
            let released = status.released.map(|_| (log.released, log.given_up));
            let expected = Status { made, durable, released };
            (status != expected).then(|| format!("log {number}: {status:?}, expected {expected:?}"))
        });
        let wrong = wrong.or_else(|| self.wrong_setting());
        if let Some(wrong) = wrong {
            self.blame(|| wrong);
        }
    }
}

impl std::fmt::Debug for FrontEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrontEnd").field("plan", &self.plan).finish_non_exhaustive()
    }
}

fn peer(plan: &SenderPlan, config: &SenderConfig, number: u64, chance: &mut Random) -> Peer {
    let seed = chance.next_u64();
    if !plan.is_naive {
        let session = SenderSession::new(config.clone(), number, seed);
        return Peer::Client(Box::new(session.expect("a configuration of a sender")));
    }
    let of = (number, config.name.as_str());
    let mut naive = Naive::new(of, &logs(config), (config.release, plan.skew), Random::new(seed));
    (naive.answers_commands, naive.marks_runs) = (plan.manners.is_some(), plan.marks);
    naive.reports = plan.reports;
    Peer::Naive(Box::new(naive))
}

/// The logs of a naive sender with that configuration.
fn logs(config: &SenderConfig) -> Vec<LogConfig> {
    let log = |source: &SourceConfig| LogConfig {
        name: source.name.clone(),
        key_kind: source.key_kind,
        key_bits: source.key_bits,
        fragment_bytes_max: source.fragment_bytes_max,
        groups: source.groups,
        is_reference: source.is_reference,
        ring_bytes: config.ring_bytes(source),
    };
    config.sources.iter().map(log).collect()
}

/// The most sources over sessions, without those that a wide front-end adds.
const SOURCES_MAX: usize = 5;
/// A wide front-end has more sources than data connections: these, or one less or more.
const SOURCES_WIDE: usize = 18;
