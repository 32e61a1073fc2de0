//! A sender's end of a session: that of the clients, or the naive one.

use std::collections::BTreeMap;

use catchment_fixtures::Random;
use catchment_sender::{
    Connection, Fragment, Push, PushError, Reading, SenderSession, SenderState, Setting, Slices,
    Step,
};
use catchment_wire::event_link::AbandonReason;
use catchment_wire::session::AnswerKind;

use crate::logs::ItemKind;
use crate::naive::Naive;
use crate::settings;

/// A sender's end of a session.
pub enum Peer {
    /// The code of the Rust client.
    Client(Box<SenderSession>),
    /// Written from the specification.
    Naive(Box<Naive>),
}

/// What became of something that was to go into a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is in the log.
    Done,
    /// There is no room.
    Full,
    /// It can never go in.
    Refused,
}

/// What a sender counts of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Items so far.
    pub made: u64,
    /// Its durable position.
    pub durable: u64,
    /// Up to where it has released them, and the items that it has given up, if it counts these.
    pub released: Option<(u64, u64)>,
}

impl Peer {
    /// Puts a fragment into a log, with its key and the groups that it names.
    ///
    /// # Errors
    /// A fragment that must not be refused.
    pub fn push(
        &mut self,
        log: usize,
        (key, groups): (u64, u64),
        bytes: &[u8],
    ) -> Result<Put, PushError> {
        match self {
            Self::Client(session) => {
                let fragment = Fragment { groups, ..Fragment::new(key, bytes) };
                match session.push(log as u32, fragment) {
                    // The recorder has granted less, for want of memory.
                    Err(PushError::TooLong { .. }) => Ok(Put::Refused),
                    pushed => pushed.map(put),
                }
            }
            Self::Naive(naive) => {
                let is_put = naive.push(log, (key, groups), bytes);
                Ok(if is_put { Put::Done } else { Put::Full })
            }
        }
    }

    /// Puts a packet of samples into the log of a link.
    pub fn push_packet(&mut self, bytes: &[u8]) -> Put {
        let Self::Client(session) = self else { return Put::Refused };
        session.source(0).push_packet(bytes).map_or(Put::Refused, put)
    }

    /// Numbers of a log begin again with that key.
    pub fn renumber(&mut self, log: usize, key: u64) -> Put {
        match self {
            Self::Client(session) => put(session.source(log as u32).renumber(key)),
            Self::Naive(naive) => {
                naive.renumber(log, key);
                Put::Done
            }
        }
    }

    /// Names so many fragments that were dropped; false if there is no room even for that.
    pub fn abandon(&mut self, log: usize, count: u64, keys: Option<(u64, u64)>) -> bool {
        match self {
            Self::Client(session) => {
                let source = session.source(log as u32);
                source.abandon(count, AbandonReason::BUFFER, keys) == Ok(Push::Accepted)
            }
            Self::Naive(naive) => {
                naive.abandon(log, count, keys);
                true
            }
        }
    }

    /// Promises that no lower key of a log follows, and whether it is idle.
    pub fn promise(&mut self, log: usize, key: u64, is_idle: bool) {
        match self {
            Self::Client(session) => session.source(log as u32).low_water(Some(key), is_idle),
            Self::Naive(naive) => naive.promise(log, key, is_idle),
        }
    }

    /// Puts something else into a log, behind a fragment of that key. Returns what.
    pub fn add_other(
        &mut self,
        log: usize,
        key: u64,
        chance: &mut Random,
    ) -> Option<(u64, ItemKind)> {
        let what = chance.below(4);
        let abandoned = 1 + chance.below(5);
        if what == 0 {
            let has_room = self.abandon(log, abandoned, None);
            return has_room.then_some((abandoned, ItemKind::Abandoned));
        }
        match self {
            Self::Client(session) => {
                let source = session.source(log as u32);
                if what == 1 {
                    // Not idle: by its own word events would not wait for what comes next.
                    source.low_water(Some(key + u64::from(chance.chance(700))), false);
                    return None;
                }
                (source.setting("gain", "2") == Push::Accepted).then_some((1, ItemKind::Mark))
            }
            Self::Naive(naive) if what == 1 => {
                naive.mark(log);
                Some((1, ItemKind::Mark))
            }
            Self::Naive(naive) => naive.fault(log).then_some((1, ItemKind::ContentFault)),
        }
    }

    /// Reports what a setting is.
    pub fn report_setting(&mut self, name: &str, value: &str) {
        match self {
            Self::Client(session) => {
                let value = match value.parse() {
                    Ok(number) if name == settings::NUMBER => Reading::I64(number),
                    _ => Reading::Text(value.to_owned()),
                };
                let setting =
                    Setting { value, unit: String::new(), bounds: None, is_writable: true };
                session.reports().setting(name, setting).expect("it fits");
            }
            Self::Naive(naive) => {
                naive.settings.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// What a client has a setting to be.
    pub fn setting(&self, name: &str) -> Option<String> {
        let Self::Client(session) = self else { return None };
        match session.reports().reading(name)? {
            Reading::Text(text) => Some(text),
            Reading::I64(number) => Some(number.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    /// The settings that its recorder must have heard of at least.
    pub fn heard_settings(&self) -> BTreeMap<String, String> {
        match self {
            Self::Client(_) => BTreeMap::new(),
            Self::Naive(naive) => naive.heard_settings(),
        }
    }

    /// Answers a command.
    pub fn answer(&mut self, number: u64, answer: AnswerKind) {
        match self {
            Self::Client(session) => session.answer(number, answer, "as it likes"),
            Self::Naive(naive) => naive.answer(number, answer),
        }
    }

    /// What it counts of a log.
    pub fn status(&self, log: usize) -> Status {
        match self {
            Self::Client(session) => {
                let status = session.source(log as u32).status();
                let released = Some((status.released, status.held_at_run_end));
                Status { made: status.made, durable: status.durable, released }
            }
            Self::Naive(naive) => {
                let (made, durable) = naive.status(log);
                Status { made, durable, released: None }
            }
        }
    }

    /// How many items of a log its recorder must have heard of at least; none while it is away.
    pub fn reported(&self, log: usize) -> Option<u64> {
        match self {
            Self::Client(session) => matches!(session.state(), SenderState::Open).then_some(0),
            Self::Naive(naive) => naive.reported(log),
        }
    }

    /// As [`SenderSession::work`].
    pub fn work(&mut self, now_ns: u64) -> Step {
        match self {
            Self::Client(session) => session.work(now_ns),
            Self::Naive(naive) => naive.work(now_ns),
        }
    }

    /// As [`SenderSession::opened`].
    pub fn opened(&mut self, now_ns: u64, connection: Connection) {
        match self {
            Self::Client(session) => session.opened(now_ns, connection),
            Self::Naive(naive) => naive.opened(now_ns, connection),
        }
    }

    /// As [`SenderSession::closed`].
    pub fn closed(&mut self, now_ns: u64, connection: Connection, why: &str) {
        match self {
            Self::Client(session) => session.closed(now_ns, connection, why),
            Self::Naive(naive) => naive.closed(now_ns),
        }
    }

    /// As [`SenderSession::received`].
    ///
    /// # Errors
    /// What is wrong with the recorder's bytes.
    pub fn received(&mut self, now_ns: u64, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Client(session) => {
                session.received(now_ns, bytes).map_err(|fault| fault.to_string())
            }
            Self::Naive(naive) => {
                naive.received(now_ns, bytes);
                naive.wrong.take().map_or(Ok(()), Err)
            }
        }
    }

    /// What a connection is to take next, of which it takes so many bytes at most.
    pub fn transmit(&mut self, now_ns: u64, on: Connection, room: usize) -> Vec<u8> {
        match self {
            Self::Client(session) => {
                let Slices(slices) = session.transmit(now_ns, on);
                let bytes: Vec<u8> = slices.concat().into_iter().take(room).collect();
                session.sent(on, bytes.len());
                bytes
            }
            Self::Naive(naive) => naive.transmit(now_ns, on, room),
        }
    }

    /// How many data connections it has.
    pub fn data_connections(&self) -> usize {
        match self {
            Self::Client(session) => session.data_connections().into(),
            Self::Naive(naive) => naive.data_connections(),
        }
    }

    /// Why it is not connected.
    pub fn why_away(&self) -> String {
        match self {
            Self::Client(session) => match session.state() {
                SenderState::Away(why) => why.to_string(),
                state => format!("{state:?}"),
            },
            Self::Naive(naive) => naive.why_ended().unwrap_or_default(),
        }
    }
}

fn put(pushed: Push) -> Put {
    match pushed {
        Push::Accepted => Put::Done,
        Push::Full => Put::Full,
        Push::Ended => Put::Refused,
    }
}
