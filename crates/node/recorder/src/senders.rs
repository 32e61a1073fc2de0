//! Who sends to a source's port: the source, and strangers.
//!
//! The *first* sender that a port hears is taken for the source's own, until nothing came from it
//! for the time-out. Fragments of all others carry a flag, by which the builder can tell those of a
//! stranger: it knows which numbers fit. A source has one sender at a time; one that sends from
//! several addresses is recorded like any other, since the flag alone discards nothing.
//!
//! The receive agent compares each packet's sender with that of the one before; all else happens
//! when it changes.

use std::net::SocketAddr;

use catchment_builder::FragmentFlags;
use serde::Serialize;

use crate::ingest::due;

/// The senders of one port.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    first: Option<SocketAddr>,
    last: Option<SocketAddr>,
    /// [`FragmentFlags::OTHER_SENDER`] while the last one is not the first; otherwise 0.
    flag: u8,
    /// When something last came from another one after the first.
    left_ns: u64,
    other: Option<Heard>,
    shown_ns: Option<u64>,
    /// Whether `other` has a sender or an id that nobody was shown.
    is_news: bool,
}

/// Two senders of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) first: SocketAddr,
    pub(crate) other: SocketAddr,
    /// The id that fragments of the other one carry, and the source's, where they differ.
    pub(crate) ids: Option<(u32, u32)>,
}

/// Somebody who sends to a source's port, and whose fragments are not the source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stranger {
    /// Its address.
    pub sender: SocketAddr,
    /// The id that its fragments carry, and the source's, where they differ.
    pub ids: Option<(u32, u32)>,
}

impl Stranger {
    /// What people are told of it.
    pub fn words(&self, source: &str) -> String {
        let Self { sender, ids } = self;
        let ids = match ids {
            None => String::new(),
            Some((id, expected)) => format!(": their id is {id:#06x}, not {expected:#06x}"),
        };
        format!("packets from {sender} do not belong to {source}{ids}")
    }
}

impl Senders {
    /// The flag of what comes from the last sender.
    #[inline]
    pub(crate) fn flag(&self) -> u8 {
        self.flag
    }

    /// What comes from now on comes from that sender.
    pub(crate) fn change(&mut self, sender: Option<SocketAddr>, now_ns: u64) {
        self.last = sender;
        self.first = self.first.or(sender);
        match sender.zip(self.first) {
            Some((sender, first)) if sender != first => {
                self.flag = FragmentFlags::OTHER_SENDER;
                self.left_ns = now_ns;
                if self.other.is_none_or(|heard| (heard.first, heard.other) != (first, sender)) {
                    self.other = Some(Heard { first, other: sender, ids: None });
                    self.is_news = true;
                }
            }
            _ => self.flag = 0,
        }
    }

    /// Takes the last sender for the source's own once the first one is gone.
    pub(crate) fn follow(&mut self, now_ns: u64, timeout_ns: u64) {
        if self.flag != 0 && now_ns.saturating_sub(self.left_ns) >= timeout_ns {
            (self.first, self.flag) = (self.last, 0);
        }
    }

    /// Whether a fragment with an id that is not its source's is a stranger's. If not, its sender
    /// is not one to take others for strangers by: the next one is.
    pub(crate) fn is_foreign(&mut self, expected: Option<u32>, id: u32) -> bool {
        if self.flag == 0 {
            self.first = None;
            return false;
        }
        if let Some(heard) = &mut self.other {
            let ids = expected.map(|expected| (id, expected));
            self.is_news |= heard.ids.is_none();
            heard.ids = ids;
        }
        true
    }

    /// What nobody was shown yet, now and then.
    pub(crate) fn take_news(&mut self, now_ns: u64) -> Option<Heard> {
        if !self.is_news || !due(&mut self.shown_ns, now_ns) {
            return None;
        }
        self.is_news = false;
        self.other
    }
}
