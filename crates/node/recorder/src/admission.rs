//! How a session opens: a hello with the table of its logs, and what is granted.

use std::collections::BTreeMap;
use std::sync::Arc;

use catchment_frame::Position;
use catchment_model::{Entry, RunId, SourceId};
use catchment_net::LinkAccess;
use catchment_wire::event_link::{HELD_MAX, KeyKind, Presence, SourceGrant, SourceLog};
use catchment_wire::session::{
    ByeReason, DATA_CONNECTIONS_MAX, Fault, Fields, Grant, GrantAnswer, Hello, IN_USE_MS, LATER_MS,
    LOGS_MAX, Log as LogRecord, NONE, PING_MS, Records, Release, RunState, SILENCE_MS, Service,
    Welcome,
};
use catchment_wire::{Protocol, channel_link, link};

use crate::accept::{Before, next_run, no_entry};
use crate::destinations::{Destination, SenderConfig, SenderSource};
use crate::ingest::Ingest;
use crate::link_keys::WHOLE_BITS;
use crate::link_log::Log;
use crate::link_samples::SampleLog;
use crate::link_session::{Ended, MESSAGE_BYTES_MAX, Session};
use crate::sessions::{Counted, OfRun, Sessions};

/// What the log of a channel link has in place of what a source says of itself.
const OF_LINK: SourceLog = SourceLog {
    fragment_bytes_max: 1,
    groups: 0,
    flags: 0,
    key_kind: KeyKind::Number,
    key_bits: WHOLE_BITS,
    presence: Presence::Configured,
    dtype: 0,
    begin: u64::MAX,
};
/// The widths of keys that wrap, in bits.
const KEY_BITS: std::ops::RangeInclusive<u8> = 16..=48;

/// Where the channels of a link go, and what decodes its packets.
type Lanes = (Arc<[Destination]>, Arc<dyn Protocol>);

/// A source that may come.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) number: SourceId,
    pub(crate) destination: Destination,
    /// Of a channel link.
    pub(crate) lanes: Option<Lanes>,
    /// Whether the channels of others wait for its own, which have not come since the run goes on.
    pub(crate) is_held: bool,
    /// As of its sender's source.
    expected_in: Option<u64>,
    /// The session and the log that deliver it.
    pub(crate) log: Option<(usize, usize)>,
}

impl Source {
    /// The source of a destination of a listener.
    pub(crate) fn new(config: &SenderConfig, destination: Destination, first: u32) -> Self {
        let source = &config.sources[(destination.account - first) as usize];
        let &SenderSource { ref name, number, expected_in, .. } = source;
        let is_link = config.protocol.name() == link::NAME;
        let lanes = is_link.then(|| (config.lanes.as_slice().into(), Arc::clone(&config.protocol)));
        let (name, is_held, log) = (name.clone(), false, None);
        Self { name, number, destination, lanes, is_held, expected_in, log }
    }

    /// Whether it is of a front-end that was admitted, and has no number yet.
    fn is_admitted(&self) -> bool {
        self.number == SourceId(NONE) && self.lanes.is_none()
    }

    /// Has the channels of others wait for those of a link, or no longer.
    pub(crate) fn set_held(&mut self, ingest: &Ingest, is_held: bool) {
        let is_new = self.is_held != is_held && self.lanes.is_some();
        if is_new {
            self.is_held = is_held;
            ingest.set_held(self.destination.account as usize, is_held);
        }
    }
}

/// A hello, and the logs that it has described.
#[derive(Clone)]
pub(crate) struct Opening {
    service: Service,
    hello: Hello,
    token: Box<str>,
    logs: Vec<(LogRecord, SourceLog)>,
}

/// Checks what a sender says it has made of a source, from an item on that it holds.
pub(crate) fn check_held(from: u64, made: u64) -> Result<(), Fault> {
    let max = from.saturating_add(HELD_MAX);
    match made > max {
        true => Err(Fault::Bound { field: "made", min: 0, max, got: made }),
        false => Ok(()),
    }
}

impl Opening {
    pub(crate) fn new(hello: Hello, token: &str, service: Service) -> Self {
        Self { service, hello, token: token.into(), logs: Vec::new() }
    }

    /// Takes the next records of the table.
    pub(crate) fn take(&mut self, records: Records<'_, LogRecord>) -> Result<(), Fault> {
        for record in records.iter() {
            let count = self.logs.len() as u32;
            if record.log != count || count == self.hello.log_count {
                return Err(Fault::UnknownLog { got: record.log });
            }
            let (got, max) = (record.connection.into(), self.hello.data_connections.into());
            if got >= max {
                return Err(Fault::Bound { field: "connection", min: 0, max: max - 1, got });
            }
            check_held(record.first, record.made)?;
            let source_log = match self.service {
                Service::Events => SourceLog::read(&record.service)?,
                // A link says nothing of itself: the configuration does.
                _ => OF_LINK,
            };
            self.logs.push((record, source_log));
        }
        Ok(())
    }

    /// Whether all logs are described.
    pub(crate) fn is_complete(&self) -> bool {
        self.logs.len() == self.hello.log_count as usize
    }

    /// The program that sends, with its version.
    pub(crate) fn program(&self) -> &str {
        self.hello.program.as_str()
    }

    /// Until when the sender keeps what it has sent.
    pub(crate) fn release(&self) -> Release {
        self.hello.release
    }

    /// The name of the source of a log.
    fn source_name(&self, log: &LogRecord) -> String {
        match (self.hello.name.as_str(), log.name.as_str()) {
            (sender, "") => sender.to_owned(),
            (sender, log) => format!("{sender}/{log}"),
        }
    }

    /// Whether what the sender holds belongs to another run than one of these.
    fn is_of_other_run(&self, runs: [RunId; 2]) -> bool {
        self.hello.run != [0; 16] && !runs.contains(&RunId(self.hello.run))
    }

    /// As its sender would say it now, of logs of which all before the next item is durable.
    pub(crate) fn again(&self, logs: &[Log]) -> Self {
        let mut again = self.clone();
        again.hello.run = [0; 16];
        for ((record, _), log) in again.logs.iter_mut().zip(logs) {
            (record.first, record.made) = (log.taken, log.taken);
        }
        again
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.logs.iter().map(|(log, _)| self.source_name(log))
    }
}

impl Sessions {
    /// Admits a session: a new one, or one that goes on after a break. Returns its index.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn admission(
        &mut self,
        ingest: &mut Ingest,
        opening: &Opening,
    ) -> Result<usize, Ended> {
        let hello = &opening.hello;
        if !self.of_run.is_standby && !self.of_run.live.has_epoch() {
            let text = format!("resuming run {}", self.of_run.number);
            return Err(Ended::new(ByeReason::LATER, LATER_MS, 0, text));
        }
        let name = hello.name.as_str();
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/".contains(letter);
        if name.is_empty() || !name.chars().all(is_letter) {
            let text = "a name has letters, digits and -_.:/".to_owned();
            return Err(Ended::new(ByeReason::NAME, 0, 0, text));
        }
        let known = self.sessions.iter().position(|session| session.name == name);
        let index = match known {
            Some(index) if self.sessions[index].number == hello.session => {
                self.resume(ingest, index, opening)?;
                index
            }
            Some(index) if self.sessions[index].control.is_some() => {
                let text = format!("another session of {name} is heard");
                let silent_ms = self.silent_ns(index) / 1_000_000;
                return Err(Ended::new(ByeReason::NAME_IN_USE, IN_USE_MS, silent_ms, text));
            }
            known => self.begin(ingest, known, opening)?,
        };
        self.welcome(index, opening)?;
        Ok(index)
    }

    /// A session goes on after a break.
    fn resume(
        &mut self,
        ingest: &mut Ingest,
        index: usize,
        opening: &Opening,
    ) -> Result<(), Ended> {
        self.detach(ingest, index);
        let session = &self.sessions[index];
        let is_same = session.names.iter().cloned().eq(opening.names());
        let is_of_other_run = opening.is_of_other_run([self.of_run.run, session.told]);
        let fits = |(log, (record, _)): (&Log, &(LogRecord, SourceLog))| {
            log.destination.is_err() || (record.first..=record.made).contains(&log.taken)
        };
        if !is_same || !session.logs.iter().zip(&opening.logs).all(fits) {
            return Err(other_logs());
        }
        let is_configured = |log: &Log| log.destination.is_ok_and(|to| to.source != NONE);
        let has_configured = session.logs.iter().any(is_configured);
        // It may have been forgotten while it was away. What was refused stays refused.
        let accepted = self.accept(opening);
        if !has_configured {
            accepted?;
        }
        let session = &mut self.sessions[index];
        session.token = opening.token.clone();
        session.opening = opening.clone();
        session.attach(ingest);
        // Its welcome says that the run records: what it makes from now on is of the run.
        let goal = self.of_run.live.front_ends.goal().0;
        let is_armed = goal.is_some_and(|goal| goal.state() == RunState::Prepared);
        let joins = !self.of_run.is_standby && !is_armed && session.commander.begin_at_hello();
        for (log, (record, _)) in session.logs.iter_mut().zip(&opening.logs) {
            (log.connection, log.made) = (record.connection, record.made);
            if is_of_other_run {
                log.pass_over(ingest, opening.hello.session);
            }
            if joins && log.outside_until == u64::MAX && !log.marks {
                log.outside_until = record.made;
            }
            if let Ok(destination) = log.destination {
                ingest.count(destination.account as usize, Entry::LinkResumes, 1);
            }
        }
        Ok(())
    }

    /// Begins a session, in the place of an earlier one of its name if there was one.
    fn begin(
        &mut self,
        ingest: &mut Ingest,
        known: Option<usize>,
        opening: &Opening,
    ) -> Result<usize, Ended> {
        let index = known.unwrap_or(self.sessions.len());
        let mut session = self.joined(ingest, index, opening)?;
        let front_ends = &self.of_run.live.front_ends;
        if let Some(former) = known.map(|index| &mut self.sessions[index]) {
            let outside = former.take_outside();
            front_ends.came_outside(&former.name, outside);
            former.count_lost(ingest);
            former.mark(ingest);
            former.set_waited(ingest, false);
            former.leave_to(ingest, &session);
        }
        let is_required = session.names.iter().any(|name| front_ends.is_required(name));
        front_ends.tell(&session.name, |one| {
            one.begin(is_required, opening.hello.release);
            one.buffer_ms = opening.hello.buffer_ms;
            one.is_link = self.service == Service::Channels;
        });
        session.logs.iter_mut().for_each(|log| log.begin(ingest, opening.hello.session));
        match self.sessions.get_mut(index) {
            Some(former) => *former = session,
            None => self.sessions.push(session),
        }
        Ok(index)
    }

    /// A session of that index, whose sources are its own from now on.
    ///
    /// # Errors
    /// It has no source that may come.
    pub(super) fn joined(
        &mut self,
        ingest: &mut Ingest,
        index: usize,
        opening: &Opening,
    ) -> Result<Session, Ended> {
        let (accepted, before) = match self.accept(opening) {
            Ok(before) => (Ok(()), before),
            Err(ended) => (Err(ended), Before::Same),
        };
        let joined = self.joined_by(ingest, index, opening, accepted);
        if joined.is_err() {
            // It counts for no entry.
            let front_ends = &self.of_run.live.front_ends;
            front_ends.undo_admission(opening.hello.name.as_str(), before);
        }
        self.free_unused();
        joined
    }

    fn joined_by(
        &mut self,
        ingest: &mut Ingest,
        index: usize,
        opening: &Opening,
        accepted: Result<(), Ended>,
    ) -> Result<Session, Ended> {
        let mut logs = Vec::with_capacity(opening.logs.len());
        // By source, the log that delivers it: each has one.
        let mut delivered = BTreeMap::new();
        for (number, (record, source_log)) in opening.logs.iter().enumerate() {
            let name = opening.source_name(record);
            let log = match self.source_for(index, &name, source_log) {
                // It was one of its sources before.
                Ok(source) if accepted.is_err() && self.sources[source].is_admitted() => {
                    Log::refused((record.connection, record.made), ByeReason::NAME)
                }
                Ok(source) if !delivered.contains_key(&source) => {
                    delivered.insert(source, number);
                    let mut log = self.join(ingest, opening, (record, source_log), source)?;
                    let front_ends = &self.of_run.live.front_ends;
                    log.is_required = log.samples.is_some() || front_ends.is_required(&name);
                    log.outside_until = if self.of_run.is_standby { u64::MAX } else { 0 };
                    if log.is_reference {
                        self.reference = Some(source);
                    }
                    log
                }
                refused => {
                    let reason = refused.err().unwrap_or(ByeReason::NAME_IN_USE);
                    Log::refused((record.connection, record.made), reason)
                }
            };
            logs.push(log);
        }
        if delivered.is_empty() {
            accepted?;
            let first = logs.iter().zip(opening.names()).next();
            let is_by_time = self.of_run.live.is_by_time;
            let refusal = |(log, name): (_, String)| refusal(log, &name, is_by_time);
            return Err(first.map_or_else(Ended::silently, refusal));
        }
        // What an earlier session of the front-end had is its own no longer.
        for (source, former) in self.sources.iter_mut().enumerate() {
            let is_left = former.log.is_some_and(|(session, _)| session == index);
            if former.is_admitted() && is_left && !delivered.contains_key(&source) {
                former.log = None;
            }
        }
        for (source, number) in delivered {
            self.sources[source].set_held(ingest, false);
            let former = self.sources[source].log.replace((index, number));
            if let Some((session, log)) = former.filter(|(session, _)| *session != index) {
                // It is refused if it comes back.
                self.sessions[session].logs[log].destination = Err(ByeReason::NAME_IN_USE);
            }
        }
        let names: Vec<String> = opening.names().collect();
        let of_hello = (&opening.hello, &*opening.token, self.of_run.number);
        Ok(Session::new(of_hello, names, logs, opening.clone()))
    }

    /// Enters the sources of a front-end that nobody configured by name, if it is admitted: between
    /// runs. They have no number before the run in which they take part. Returns what there was of
    /// it before.
    ///
    /// # Errors
    /// No entry fits, it is admitted later, or there are too many.
    fn accept(&mut self, opening: &Opening) -> Result<Before, Ended> {
        let is_own = |name: &String| {
            let known = self.by_name.get(name).map(|&known| &self.sources[known]);
            known.is_none_or(|known| known.destination.source == NONE)
        };
        let names: Vec<String> = opening.names().filter(is_own).collect();
        if names.is_empty() || self.service != Service::Events {
            return Ok(Before::Same);
        }
        let (front_ends, name) = (&self.of_run.live.front_ends, opening.hello.name.as_str());
        if !self.of_run.is_standby {
            return match front_ends.accepts(name) {
                None => Ok(Before::Same),
                Some(false) => Err(no_entry(name)),
                Some(true) => Err(next_run(name)),
            };
        }
        let admission = front_ends.admit(name, &names, &mut self.checks_left)?;
        let Some(admission) = admission else { return Ok(Before::Same) };
        // Nothing of it is stored: its counts have no place of their own.
        let Destination { account, chunk, .. } = self.sources[0].destination;
        let fragment_bytes_max = admission.source.fragment_bytes_max;
        let destination =
            Destination { source: NONE, account, id: None, chunk, align: 1, fragment_bytes_max };
        let is_free = |one: &Source| one.is_admitted() && one.name.is_empty();
        let mut free = 0;
        for name in names {
            if self.by_name.contains_key(&name) {
                continue;
            }
            while self.sources.get(free).is_some_and(|one| !is_free(one)) {
                free += 1;
            }
            self.by_name.insert(name.clone(), free);
            let (number, lanes, is_held) = (SourceId(NONE), None, false);
            let (expected_in, log) = (None, None);
            let source = Source { name, number, destination, lanes, is_held, expected_in, log };
            match self.sources.get_mut(free) {
                Some(place) => *place = source,
                None => self.sources.push(source),
            }
        }
        Ok(admission.before)
    }

    /// Frees the indices of admitted sources that no session delivers, for others: a front-end that
    /// comes again and again with other names costs no memory.
    fn free_unused(&mut self) {
        for (index, source) in self.sources.iter_mut().enumerate() {
            if source.is_admitted() && source.log.is_none() && !source.name.is_empty() {
                self.by_name.remove(&source.name);
                source.name.clear();
                if self.reference == Some(index) {
                    self.reference = None;
                }
            }
        }
    }

    /// The log of a source that joins the run. What its sender holds of another run is not this
    /// one's. If the files know its session, it goes on where they say.
    ///
    /// # Errors
    /// The files have more of it than its sender has made.
    fn join(
        &self,
        ingest: &mut Ingest,
        opening: &Opening,
        (record, source_log): (&LogRecord, &SourceLog),
        source: usize,
    ) -> Result<Log, Ended> {
        let Source { number, destination, expected_in, ref lanes, .. } = self.sources[source];
        let (hello, positions) = (&opening.hello, &self.of_run.live.beginning.positions);
        let is_of_other_run = opening.is_of_other_run([self.of_run.run; 2]);
        let known = |what| {
            let known = positions.of(number.0, what, hello.session);
            known.filter(|_| !is_of_other_run)
        };
        let next = match known(Position::LINK) {
            _ if is_of_other_run => record.made,
            Some(decided) if decided > record.made => return Err(other_logs()),
            Some(decided) => decided.max(record.first),
            // It may not have read how far its items were taken and counted outside the run.
            None => self.counted(opening, record).max(record.first),
        };
        if let Some(decided) = known(Position::LINK) {
            let lost = match hello.release {
                Release::Durable => Entry::FragmentsLostRestart,
                Release::Taken => Entry::FragmentsLostTaken,
            };
            ingest.count(destination.account as usize, lost, next - decided);
        }
        let most = source_log.fragment_bytes_max.min(destination.fragment_bytes_max);
        let at = (record.connection, next);
        let keys = (source_log.key_kind, source_log.key_bits);
        let mut log = Log::new(Ok(destination), at, most, keys);
        let samples = |(lanes, protocol): &_| Box::new(SampleLog::new(protocol, lanes));
        log.samples = lanes.as_ref().map(samples);
        log.made = record.made;
        log.is_reference = source_log.flags & SourceLog::REFERENCE != 0;
        log.marks = source_log.flags & SourceLog::MARKS != 0 && lanes.is_none();
        // What the configuration says holds over the hello.
        log.expected_in = expected_in.map(|groups| match groups {
            0 => source_log.groups,
            groups => groups,
        });
        if let Some(key) = known(Position::KEY) {
            log.continue_keys(key);
        }
        Ok(log)
    }

    /// The items of a log up to which sequence were counted outside this run; 0: none.
    fn counted(&self, opening: &Opening, record: &LogRecord) -> u64 {
        let (hello, of) = (&opening.hello, record.log as usize);
        let is_it =
            |one: &&Counted| one.session == hello.session && one.name == hello.name.as_str();
        let counted = self.counted.iter().find(is_it).and_then(|one| one.taken.get(of));
        counted.copied().filter(|taken| *taken <= record.made).unwrap_or(0)
    }

    /// The index of the source of that name, if the session of that index may deliver it.
    fn source_for(&self, index: usize, name: &str, log: &SourceLog) -> Result<usize, ByeReason> {
        let &source = self.by_name.get(name).ok_or(ByeReason::NAME)?;
        let is_free = self.sources[source]
            .log
            .is_none_or(|(session, _)| session == index || self.sessions[session].is_gone());
        let live = &self.of_run.live;
        let is_by_time = live.is_by_time && self.sources[source].lanes.is_none();
        // A time of fewer bits would say nothing of the hour.
        let fits = match log.key_kind {
            KeyKind::Time => is_by_time && log.key_bits == WHOLE_BITS,
            KeyKind::Number => {
                !is_by_time && (log.key_bits == WHOLE_BITS || KEY_BITS.contains(&log.key_bits))
            }
        };
        let names_groups = log.flags & SourceLog::REFERENCE != 0;
        let is_other = |reference: SourceId| reference != self.sources[source].number;
        let is_second = match is_by_time {
            // The one that opens the events.
            true => live.reference.is_none_or(is_other),
            false => self.reference.is_some_and(|reference| reference != source),
        };
        match is_free {
            false => Err(ByeReason::NAME_IN_USE),
            true if fits && !(names_groups && is_second) => Ok(source),
            true => Err(ByeReason::MIXED),
        }
    }

    /// Makes the answer to a hello.
    fn welcome(&mut self, index: usize, opening: &Opening) -> Result<(), Ended> {
        let mut ticket = [0; 16];
        for half in ticket.chunks_exact_mut(8) {
            let bits = self.of_run.entropy.random_u64().map_err(|error| {
                Ended::new(ByeReason::LATER, 1_000, 0, format!("no random bits: {error}"))
            })?;
            half.copy_from_slice(&bits.to_le_bytes());
        }
        let Self { of_run, sessions, service, .. } = self;
        let (hello, session) = (&opening.hello, &mut sessions[index]);
        let is_of_other_run = opening.is_of_other_run([of_run.run, session.told]);
        let logs = session.logs.iter().zip(&opening.logs).enumerate();
        let grants = logs.map(|(number, (log, (record, _)))| {
            let answer = match log.destination {
                Err(_) => GrantAnswer::Refused,
                Ok(_) if is_of_other_run && log.taken == log.made => GrantAnswer::RunEnded,
                Ok(_) if of_run.is_standby => GrantAnswer::Waits,
                Ok(_) => GrantAnswer::Joins,
            };
            let mut service = [0; 32];
            if log.samples.is_none() {
                SourceGrant { fragment_bytes_max: log.fragment_bytes_max }.write(&mut service);
            }
            Grant {
                log: number as u32,
                answer,
                reason: log.destination.err().unwrap_or(ByeReason::DONE),
                next: log.taken,
                // What the files of another run have is not known.
                durable: match answer {
                    GrantAnswer::RunEnded => record.first,
                    _ => log.durable,
                },
                source: log.destination.map_or(NONE, |one| one.source),
                service,
            }
        });
        session.grants = grants.collect();
        if is_of_other_run {
            of_run.tell_held(session, opening);
        }
        session.sent = session.logs.iter().map(|log| (log.taken, log.durable)).collect();
        session.ticket = ticket;
        session.data = vec![None; hello.data_connections.into()];
        session.welcome = Some(Welcome {
            session: hello.session,
            run: of_run.run.0,
            ticket,
            run_number: of_run.number,
            stream: of_run.live.beginning.stream,
            epoch: of_run.epoch,
            state: match of_run.live.front_ends.goal().0 {
                _ if of_run.is_standby => RunState::None,
                None => RunState::Recording,
                Some(goal) => goal.state(),
            },
            features: 0,
            command: session.commander.number(),
            ping_ms: PING_MS,
            silence_ms: SILENCE_MS,
            // What is granted of it is set aside once the session is admitted.
            skew_bytes: hello.skew_bytes,
            message_bytes_max: match service {
                Service::Channels => channel_link::MESSAGE_BYTES_MAX,
                _ => MESSAGE_BYTES_MAX,
            },
            log_count: hello.log_count,
        });
        Ok(())
    }
}

impl OfRun {
    /// Says what a sender holds of a run that has ended, as far as it is new.
    fn tell_held(&self, session: &mut Session, opening: &Opening) {
        let ended = session.grants.iter().zip(&opening.logs);
        let ended = ended.filter(|(grant, _)| grant.answer == GrantAnswer::RunEnded);
        let held = ended.map(|(grant, (record, _))| record.made - grant.durable);
        let (run, held) = (RunId(opening.hello.run), held.fold(0, u64::saturating_add));
        let new = session.holds(run, held);
        if new > 0 {
            self.live.front_ends.holds(&session.name, run, new);
        }
    }
}

/// Why a hello is refused before its logs are read, if it is.
pub(crate) fn refusal_of(
    hello: &Hello,
    token: &str,
    access: &LinkAccess,
    is_secured: bool,
) -> Option<Ended> {
    Some(match hello {
        _ if !is_secured && !access.tls.takes_clear_control() => Ended::needs_tls(),
        _ if !access.admits(token, hello.name.as_str()) => Ended::no_token(),
        _ if hello.log_count > LOGS_MAX => Ended::too_many("logs", LOGS_MAX),
        _ if hello.data_connections > DATA_CONNECTIONS_MAX => {
            Ended::too_many("data connections", DATA_CONNECTIONS_MAX.into())
        }
        _ => return None,
    })
}

/// The account of a front-end's first source; none if it has none that may come.
pub(crate) fn account_of(sources: &[Source], front_end: &str) -> Option<usize> {
    let is_own = |source: &&Source| {
        let rest = source.name.strip_prefix(front_end);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    Some(sources.iter().find(is_own)?.destination.account as usize)
}

/// Why a session is refused that has other logs than it had.
fn other_logs() -> Ended {
    let text = "its logs are not those of this session: begin another one".to_owned();
    Ended::new(ByeReason::MALFORMED, 0, 0, text)
}

/// Why a session is refused of which no source can join: by its first one.
fn refusal(log: &Log, name: &str, is_by_time: bool) -> Ended {
    let reason = log.destination.err().unwrap_or(ByeReason::NAME);
    let text = match reason {
        ByeReason::MIXED if is_by_time => format!(
            "source {name:?}: expected keys that are times of {WHOLE_BITS} bits, and groups named \
             by the only source that opens events"
        ),
        ByeReason::MIXED => format!(
            "source {name:?}: expected keys that are numbers of {} to {} bits or of {WHOLE_BITS}, \
             and one reference source in a run",
            KEY_BITS.start(),
            KEY_BITS.end()
        ),
        ByeReason::NAME_IN_USE => format!("source {name:?} is delivered by another session"),
        _ => format!("this recorder expects no source {name:?} over sessions"),
    };
    Ended::new(reason, 0, 0, text)
}
