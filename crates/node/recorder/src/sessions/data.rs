//! What data connections bring.

use catchment_agent::{Flow, Incoming};
use catchment_wire::channel_link::{self, Data as Packets};
use catchment_wire::event_link::{self, Data};
use catchment_wire::session::{Attach, Fault, Service, parse, parse_head};

use super::{Kind, Sessions};
use crate::ingest::Ingest;
use crate::link_log::Taken;
use crate::link_message::{Next, is_long};
use crate::link_session::{Ended, MESSAGE_BYTES_MAX, Session};

impl Sessions {
    /// Takes the next message of a data connection, or what there is of a long one.
    pub(super) fn take_data(
        &mut self,
        ingest: &mut Ingest,
        endpoint: usize,
        number: Option<u16>,
        bytes: &[u8],
    ) -> Result<Flow, Fault> {
        if self.service == Service::Channels {
            return self.take_samples(ingest, endpoint, number, bytes);
        }
        if let Some(flow) = self.take_long(ingest, endpoint, bytes) {
            return Ok(flow);
        }
        let Some(connection) = &mut self.connections[endpoint] else { return Ok(Flow::Refused) };
        let bounds = event_link::bounds(MESSAGE_BYTES_MAX);
        let head = parse_head(bytes, connection.read, bounds)?;
        let is_whole = head.is_some_and(|message| message.used <= bytes.len());
        let Some(message) = head.filter(|message| is_whole || is_long(message)) else {
            return Ok(Flow::Short);
        };
        let used = message.used;
        let data = Data::read(&message)?;
        let (index, number) = match (connection.session.zip(number), data) {
            (None, Some(Data::Attach(attach))) => {
                connection.read = 1;
                return Ok(self.attach(ingest, endpoint, &attach, used));
            }
            (Some(attached), data) if !matches!(data, Some(Data::Attach(_))) => attached,
            _ => return Err(Fault::Connection { got: message.kind }),
        };
        let was_held = connection.is_held;
        let session = &mut self.sessions[index];
        if !is_whole {
            session.begin_long(ingest, number, (&message, data), &mut connection.long)?;
            return Ok(Flow::Used(message.body_at()));
        }
        let taken = match data {
            Some(data) => {
                let taken = session.take(ingest, number, &data, (used, was_held))?;
                let again = |session: &mut Session, ingest: &mut Ingest| {
                    session.take(ingest, number, &data, (used, true))
                };
                let aside = taken.is_break().then(|| session.take_aside(ingest, number, again));
                aside.flatten().unwrap_or(Ok(taken))?
            }
            None => Taken::Continue(()),
        };
        if let Some(Data::Mark(_, text)) = data {
            session.tell_setting(&self.of_run.live.front_ends, text);
        }
        self.set_held(ingest, endpoint, taken.is_break());
        if taken.is_break() {
            return Ok(Flow::Held);
        }
        self.count_message(endpoint);
        Ok(Flow::Used(used))
    }

    /// Takes the next message of a data connection of channels.
    fn take_samples(
        &mut self,
        ingest: &mut Ingest,
        endpoint: usize,
        number: Option<u16>,
        bytes: &[u8],
    ) -> Result<Flow, Fault> {
        let Some(connection) = &mut self.connections[endpoint] else { return Ok(Flow::Refused) };
        let Some(message) = parse(bytes, connection.read, channel_link::BOUNDS)? else {
            return Ok(Flow::Short);
        };
        let used = message.used;
        let taken = match (connection.session.zip(number), Packets::read(&message)?) {
            (None, Some(Packets::Attach(attach))) => {
                connection.read = 1;
                return Ok(self.attach(ingest, endpoint, &attach, used));
            }
            (Some((index, number)), Some(Packets::Samples(fixed, packet))) => {
                self.sessions[index].take_samples(ingest, number, (&fixed, packet), used)?
            }
            (Some(_), None) => Taken::Continue(()),
            _ => return Err(Fault::Connection { got: message.kind }),
        };
        self.set_held(ingest, endpoint, taken.is_break());
        if taken.is_break() {
            return Ok(Flow::Held);
        }
        self.count_message(endpoint);
        Ok(Flow::Used(used))
    }

    /// Takes what there is of the long message that is under way; none if there is no such message,
    /// or it ends without another byte.
    fn take_long(&mut self, ingest: &mut Ingest, endpoint: usize, bytes: &[u8]) -> Option<Flow> {
        let connection = self.connections[endpoint].as_mut()?;
        let session = &mut self.sessions[connection.session?];
        if !connection.long.is_under_way() {
            return None;
        }
        let (number, long) = (connection.number()?, &mut connection.long);
        let (mut used, mut next) = session.take_long(ingest, long, bytes);
        if next == Next::Memory && used == 0 {
            let again =
                |session: &mut Session, ingest: &mut _| session.take_long(ingest, long, bytes);
            let aside = session.take_aside(ingest, number, again);
            (used, next) = aside.unwrap_or((used, next));
        }
        if next == Next::Ended {
            self.count_message(endpoint);
        }
        self.set_held(ingest, endpoint, next == Next::Memory && used == 0);
        match next {
            Next::Ended if used == 0 => None,
            Next::Into => Some(Flow::Into),
            Next::Bytes if used == 0 => Some(Flow::Short),
            Next::Memory if used == 0 => Some(Flow::Held),
            _ => Some(Flow::Used(used)),
        }
    }

    /// The next bytes of a connection, which go to where they belong. Returns how many came, too.
    pub(crate) fn receive(
        &mut self,
        ingest: &mut Ingest,
        endpoint: usize,
        source: &mut dyn Incoming,
    ) -> (Flow, usize) {
        if self.connections[endpoint].as_ref().is_some_and(|one| self.waits(one)) {
            return (Flow::Held, 0);
        }
        let Some(connection) = &mut self.connections[endpoint] else { return (Flow::Refused, 0) };
        let (Kind::Data(_), Some(index)) = (connection.kind, connection.session) else {
            let is_over = connection.kind == Kind::Over;
            return (if is_over { Flow::Refused } else { Flow::Held }, 0);
        };
        let session = &mut self.sessions[index];
        let Some(bytes) = session.fill_long(ingest, &mut connection.long, source) else {
            return (Flow::Held, 0);
        };
        connection.was_read(bytes);
        let (_, next) = session.take_long(ingest, &mut connection.long, &[]);
        if next == Next::Ended {
            self.count_message(endpoint);
        }
        (if next == Next::Into { Flow::Into } else { Flow::Taken }, bytes)
    }

    /// A message of a connection was taken completely.
    fn count_message(&mut self, endpoint: usize) {
        if let Some(connection) = &mut self.connections[endpoint] {
            connection.read = connection.read.wrapping_add(1);
            connection.is_heard = true;
        }
    }

    /// A data connection is held, or no longer.
    #[inline]
    fn set_held(&mut self, ingest: &mut Ingest, endpoint: usize, is_held: bool) {
        let Some(connection) = &mut self.connections[endpoint] else { return };
        if !is_held && !connection.is_short {
            return;
        }
        connection.is_held = is_held;
        if is_held {
            connection.silent_ns = 0;
        }
        if let (Some(number), Some(session)) = (connection.number(), connection.session) {
            let session = &mut self.sessions[session];
            let is_short = is_held || session.uses_reserve(number);
            if std::mem::replace(&mut connection.is_short, is_short) != is_short {
                session.set_held(ingest, number, is_short);
            }
            if is_held {
                session.say_behind(ingest, number);
            }
        }
    }

    /// Postpones a connection because those read before it have filled the batch: it is not silent,
    /// and its sources are held. Returns false if the endpoint is none.
    #[cold]
    pub(crate) fn put_off(&mut self, ingest: &Ingest, endpoint: usize) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(endpoint) else { return false };
        if let (Some(number), Some(session)) = (connection.number(), connection.session) {
            connection.silent_ns = 0;
            if !std::mem::replace(&mut connection.is_short, true) {
                self.sessions[session].set_held(ingest, number, true);
            }
        }
        true
    }

    /// Sets aside again what connections have taken of their reserves, and need no more.
    pub(super) fn refill(&mut self, ingest: &mut Ingest) {
        for endpoint in 0..self.connections.len() {
            let connection = self.connections[endpoint].as_ref();
            let Some(connection) = connection.filter(|one| one.is_short) else { continue };
            let is_held = connection.is_held;
            if let (Some(number), Some(session)) = (connection.number(), connection.session) {
                self.sessions[session].refill(ingest, number);
                self.set_held(ingest, endpoint, is_held);
            }
        }
    }

    /// A data connection says whose it is. One with a wrong ticket, or a second one of its number,
    /// is closed alone, and so is one in the clear where that is not taken. If its session began
    /// where TLS is needed for all, nobody else can have the ticket: then that ends, too.
    fn attach(
        &mut self,
        ingest: &mut Ingest,
        endpoint: usize,
        attach: &Attach,
        used: usize,
    ) -> Flow {
        let of_ticket = |one: &Session| {
            one.control.is_some() && one.number == attach.session && one.ticket == attach.ticket
        };
        let session = self.sessions.iter().position(of_ticket);
        let takes_clear_data = |endpoint: usize| {
            let connection = self.connections[endpoint].as_ref();
            connection.is_some_and(|one| self.of_run.access[one.listener].tls.takes_clear_data())
        };
        let control = session.and_then(|index| self.sessions[index].control);
        let may_be_clear = control.is_none_or(takes_clear_data);
        let is_taken_here = takes_clear_data(endpoint);
        let Some(connection) = &mut self.connections[endpoint] else { return Flow::Refused };
        let is_admitted = connection.is_secured || is_taken_here && may_be_clear;
        if let Some(index) = session {
            let session = &mut self.sessions[index];
            let own = session.data.get_mut(usize::from(attach.connection));
            match own.filter(|free| free.is_none()) {
                Some(free) if is_admitted => {
                    *free = Some(endpoint);
                    connection.session = Some(index);
                    connection.kind = Kind::Data(Some(attach.connection));
                    return Flow::Used(used);
                }
                Some(_) if !may_be_clear => {
                    session.ended.get_or_insert_with(Ended::needs_tls);
                }
                Some(_) | None => {}
            }
        }
        // Without a ticket it is nobody's.
        let owner = session.map(|index| &self.sessions[index]);
        let account = owner.map_or(self.sources[0].destination.account as usize, |session| {
            session.account_of(Some(attach.connection))
        });
        ingest.reject(account, connection.from.filter(|_| !is_admitted), used);
        connection.kind = Kind::Over;
        Flow::Refused
    }
}
