//! Sessions of browsers: a cookie that stands for a token, so that the page need not keep it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::random_hex;
use super::tokens::TokenEntry;

/// The cookie's name, followed by the port at which the node is to listen: browsers give a cookie
/// to every port of a host, and another node there has sessions of its own.
pub(crate) const COOKIE: &str = "catchment-";
/// How long a session lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3_600);
/// Sessions at a time; the oldest goes when there is one more.
const SESSIONS_MAX: usize = 1_000;

/// The sessions of this process: they end with it.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<VecDeque<Session>>,
}

/// One.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) csrf: String,
    pub(crate) entry: TokenEntry,
    opened: Instant,
}

impl Sessions {
    /// Opens one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn open(&self, entry: TokenEntry) -> std::io::Result<Session> {
        let (id, csrf) = (random_hex::<32>()?, random_hex::<16>()?);
        let session = Session { id, csrf, entry, opened: Instant::now() };
        let mut open = self.open.lock();
        open.retain(|session| session.opened.elapsed() < LASTS);
        if open.len() == SESSIONS_MAX {
            open.pop_front();
        }
        open.push_back(session.clone());
        Ok(session)
    }

    /// The session of that id, if it lasts.
    pub(crate) fn find(&self, id: &str) -> Option<Session> {
        let open = self.open.lock();
        let found = open.iter().find(|session| session.id == id);
        found.filter(|session| session.opened.elapsed() < LASTS).cloned()
    }

    /// Ends one.
    pub(crate) fn close(&self, id: &str) {
        self.open.lock().retain(|session| session.id != id);
    }
}
