//! How sessions go on into a run, and behind it: with their connections, and with the sequences of
//! their logs.
//!
//! A session is admitted anew, by what its sender said at its opening, since another run may have
//! other sources. It goes on unnoticed if the same is granted. Otherwise its sender opens it again,
//! and so does one that takes no commands when a run begins: a welcome is all that tells it of one.
//! Behind a run, it goes on only if its sender has nothing of the run left: otherwise that would
//! count as what came outside a run, though it is lost to it.
//!
//! What is not taken of a connection when the run ends is taken behind it, and counted there. A
//! fragment of which a part was taken is of no run.

use super::{Kind, OfRun, Sessions};
use crate::front_ends::FrontEnd;
use crate::ingest::Ingest;
use crate::link_session::{Ended, Session};

/// Up to which sequences the items of a session were taken, by log, and counted outside the run.
pub(crate) struct Counted {
    pub(crate) name: String,
    pub(crate) session: u64,
    pub(crate) taken: Vec<u64>,
}

impl Sessions {
    /// Ends the part of the sessions in a run. From now on their connections have the numbers that
    /// they have without the run's `others`, its ports of datagrams.
    pub(crate) fn leave(&mut self, ingest: &mut Ingest, others: usize) {
        for connection in self.connections.iter_mut().flatten() {
            if let Some(session) = connection.session {
                connection.release(ingest, &self.sessions[session]);
            }
        }
        for session in &mut self.sessions {
            session.set_waited(ingest, false);
            session.skew.give_up();
            if self.of_run.is_standby {
                session.settle();
            }
            let outside = session.take_outside();
            self.of_run.live.front_ends.came_outside(&session.name, outside);
        }
        self.connections.drain(..others.min(self.connections.len()));
        self.renumber(|endpoint| endpoint - others);
    }

    /// Goes on with the sessions of the same port, beside so many ports of datagrams.
    pub(crate) fn adopt(&mut self, ingest: &mut Ingest, mut former: Self, others: usize) {
        former.renumber(|endpoint| endpoint + others);
        self.connections.resize_with(others, || None);
        self.connections.append(&mut former.connections);
        let sessions = std::mem::take(&mut former.sessions);
        let mut indices = Vec::with_capacity(sessions.len());
        // Those that were connected are not kept waiting.
        self.checks_left = self.checks_left.saturating_add(sessions.len() as u32);
        for session in sessions {
            let (name, endpoints) = (session.name.clone(), (session.control, session.data.clone()));
            let taken = session.logs.iter().map(|log| log.taken).collect();
            let counted = Counted { name: name.clone(), session: session.number, taken };
            let carried = self.carry(ingest, session, &former.of_run);
            indices.push(carried.as_ref().ok().copied());
            if let Err(ended) = carried {
                self.send_away(&name, endpoints, ended);
                self.counted.extend(Some(counted).filter(|_| former.of_run.is_standby));
            }
        }
        for connection in self.connections.iter_mut().flatten() {
            connection.session = connection.session.and_then(|session| indices[session]);
        }
    }

    /// Goes on with a session. Returns its index.
    ///
    /// # Errors
    /// Its sender must open it again, and why.
    fn carry(
        &mut self,
        ingest: &mut Ingest,
        mut former: Session,
        before: &OfRun,
    ) -> Result<usize, Ended> {
        if let Some(ended) = former.ended.take() {
            return Err(ended);
        }
        let is_told = self.of_run.is_standby || former.commander.takes_commands();
        let is_open = former.welcome.is_none() && former.grants.is_empty();
        let is_settled = former.logs.iter().all(|log| log.durable == log.taken);
        let has_epoch = self.of_run.epoch >= before.epoch;
        if !(is_told && is_open && is_settled && has_epoch) {
            return Err(Ended::next_run());
        }
        if !before.is_standby && !former.has_ended_run() {
            return Err(Ended::run_ended());
        }
        let index = self.sessions.len();
        let opening = former.opening.again(&former.logs);
        let mut session = self.joined(ingest, index, &opening)?;
        let mut logs = session.logs.iter().zip(&former.logs);
        let is_same = logs.all(|(log, former)| log.grants_as(former));
        // Of one without a connection it is granted anew when that comes.
        let control = former.control.and_then(|control| self.connections[control].as_ref());
        let access = control.map(|control| &self.of_run.access[control.listener]);
        let skew = (&former.skew, access.map_or(u64::MAX, |access| access.skew_bytes));
        if !(is_same && session.keeps_skew(ingest, skew, &self.of_run)) {
            session.ended = Some(Ended::next_run());
        }
        let front_ends = &self.of_run.live.front_ends;
        let is_required = session.names.iter().any(|name| front_ends.is_required(name));
        front_ends.tell(&session.name, |one| one.is_required = is_required);
        session.told = if before.is_standby { former.told } else { before.run };
        session.follow(ingest, former);
        self.sessions.push(session);
        Ok(index)
    }

    /// Tells the sender of a session that does not go on, on its connections.
    fn send_away(
        &mut self,
        name: &str,
        (control, data): (Option<usize>, Vec<Option<usize>>),
        ended: Ended,
    ) {
        if let Some(control) = control
            && let Some(connection) = &mut self.connections[control]
        {
            connection.refusal = Some(ended);
            self.of_run.live.front_ends.tell(name, FrontEnd::leave);
        }
        for data in data.into_iter().flatten() {
            if let Some(connection) = &mut self.connections[data] {
                connection.kind = Kind::Lingering;
            }
        }
    }

    /// Gives their connections other numbers.
    fn renumber(&mut self, number: impl Fn(usize) -> usize) {
        for session in &mut self.sessions {
            let data = session.data.iter_mut().flatten();
            session.control.iter_mut().chain(data).for_each(|one| *one = number(*one));
        }
        self.closing.iter_mut().for_each(|one| *one = number(*one));
    }
}

impl Drop for Sessions {
    /// Whose connections end with the thread, not in order, is connected no more.
    fn drop(&mut self) {
        for session in self.sessions.iter().filter(|session| session.control.is_some()) {
            self.of_run.live.front_ends.tell(&session.name, FrontEnd::leave);
        }
    }
}
