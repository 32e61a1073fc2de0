//! What is looked at in sessions from time to time: how far their logs are, what their senders have
//! done to be given up, or are short of.

use std::sync::atomic::Ordering::Relaxed;

use catchment_wire::session::Fault;

use super::{Connection, Kind, POSITIONS_EVERY_NS, Sessions};
use crate::ingest::Ingest;
use crate::link_session::{Ended, Session};

impl Sessions {
    /// So much time has passed in which connections were read.
    pub(super) fn pass_time_of_senders(&mut self, ingest: &mut Ingest, passed_ns: u64) {
        let front_ends = &self.of_run.live.front_ends;
        for session in &mut self.sessions {
            session.pass_time(ingest, passed_ns);
            let outside = session.take_outside();
            front_ends.came_outside(&session.name, outside);
            if session.forgive() {
                front_ends.tell(&session.name, |one| one.given_up = None);
            }
            if let Some(is_full) = session.pass_full(passed_ns) {
                front_ends.tell(&session.name, |one| one.has_been_full = is_full);
            }
            if session.control.is_some() {
                session.commander.pass_time(&session.name, front_ends, passed_ns);
                if session.is_drained() {
                    session.commander.drained(&session.name, front_ends);
                }
            }
        }
    }

    /// So much time has passed in which connections were read. Looks which sources say nothing
    /// though their connection brings messages: their data connection, or control while that is not
    /// there, or not read. One that is held has brought a message, for which there is no memory.
    pub(super) fn hear(&mut self, ingest: &mut Ingest, passed_ns: u64) {
        let connections = self.connections.iter_mut().flatten();
        connections.for_each(|connection| connection.unheard_ns += passed_ns);
        if !self.of_run.is_standby {
            let of = |endpoint: usize| self.connections[endpoint].as_ref();
            let is_read = |one: &Connection| !one.kind.waits(&self.window);
            for Session { logs, data, control, .. } in &mut self.sessions {
                for log in logs.iter_mut().filter(|log| log.samples.is_none()) {
                    let own = data.get(usize::from(log.connection)).copied().flatten().and_then(of);
                    match own.filter(|one| is_read(one)).or(control.and_then(of)) {
                        Some(one) if one.is_held => {
                            log.was_heard(ingest, passed_ns, self.timeout_ns);
                        }
                        Some(one) if one.is_heard => {
                            log.was_heard(ingest, one.unheard_ns, self.timeout_ns);
                        }
                        _ => {}
                    }
                }
            }
        }
        for connection in self.connections.iter_mut().flatten().filter(|one| one.is_heard) {
            (connection.is_heard, connection.unheard_ns) = (false, 0);
        }
    }

    /// Takes over what is durable, when that has changed, and at intervals, for sessions that have
    /// begun since; and shows how far the logs are.
    pub(super) fn read_positions(&mut self, ingest: &Ingest) {
        let now_ns = ingest.now_ns();
        let Self { of_run, sessions, sources, .. } = self;
        let (positions, is_due) = (&of_run.live.link_positions, now_ns >= self.read_due_ns);
        let version = positions.version();
        if version == self.read_version && !is_due {
            return;
        }
        self.read_version = version;
        positions.read(&mut |source, session, durable| {
            let owner = sources.binary_search_by_key(&source, |one| one.number);
            if let Some((index, log)) = owner.ok().and_then(|owner| sources[owner].log) {
                sessions[index].decided(log, session, durable);
            }
        });
        if is_due && of_run.is_standby {
            sessions.iter_mut().for_each(Session::settle);
        }
        self.read_due_ns = now_ns + POSITIONS_EVERY_NS;
        self.show_progress(ingest);
    }

    /// Whether a sender holds what may be durable soon.
    pub(crate) fn has_undecided(&self) -> bool {
        self.sessions.iter().any(Session::has_undecided)
    }

    /// Shows how far the logs of the run's sources are, and how long items take to be durable.
    fn show_progress(&mut self, ingest: &Ingest) {
        if self.of_run.is_standby {
            return;
        }
        let now_ns = ingest.now_ns();
        for Session { logs, opening, .. } in &mut self.sessions {
            let release = opening.release();
            for log in logs {
                let account = log.destination.map(|one| one.account as usize);
                if let Some(link) = account.ok().and_then(|account| ingest.link(account)) {
                    link.progress.release.store(release as u8, Relaxed);
                    log.show(&link.progress, now_ns);
                }
            }
        }
    }

    /// For how long nothing has come of a session on control.
    pub(crate) fn silent_ns(&self, session: usize) -> u64 {
        let control = self.sessions[session].control.map(|endpoint| &self.connections[endpoint]);
        control.and_then(Option::as_ref).map_or(0, |connection| connection.silent_ns)
    }

    /// Whether connections are open whose senders have something to read.
    pub(crate) fn has_connections(&self) -> bool {
        let is_heard = |connection: &Connection| connection.kind != Kind::Lingering;
        self.connections.iter().flatten().any(is_heard)
    }

    /// Whether nothing of a connection is taken now. Of a session that ends by a framing fault
    /// nothing is, on any of its connections: until its sender can be told, the same bytes would be
    /// a fault again in each cycle.
    #[inline]
    pub(super) fn waits(&self, connection: &Connection) -> bool {
        let is_malformed = |session: usize| self.sessions[session].is_malformed();
        connection.refusal.is_some()
            || connection.kind.waits(&self.window)
            || connection.session.is_some_and(is_malformed)
    }

    /// Ends a session by a framing fault in that message. Three of them between which nothing was
    /// taken are a defect that would go on for ever: its sender is told not to come again.
    pub(super) fn end_malformed(&mut self, index: usize, message: u32, fault: &Fault) {
        let session = &mut self.sessions[index];
        let (ended, is_given_up): (Ended, bool) = session.malformed(message, fault);
        session.ended = None;
        let then_ns = if is_given_up { 0 } else { self.of_run.resume_ns() };
        session.end_silent(ended, then_ns);
        if is_given_up {
            let why = fault.to_string();
            self.of_run.live.front_ends.tell(&session.name, |one| one.given_up = Some(why));
        }
    }
}
