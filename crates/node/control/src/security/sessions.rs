//! Browser sessions: a cookie that stands for a token, so that the page need not keep the token.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::random_hex;
use super::tokens::TokenEntry;

/// The prefix of the cookie's name, followed by the node's port: browsers send a cookie to every
/// port of a host, and another node there has its own sessions.
pub(crate) const COOKIE: &str = "catchment-";
/// How long a session lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3_600);
/// Sessions at a time; one more replaces the oldest.
const SESSIONS_MAX: usize = 1_000;

/// The sessions of this process: they end with it.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<VecDeque<Session>>,
}

/// One session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) csrf: String,
    pub(crate) entry: TokenEntry,
    opened: Instant,
}

impl Sessions {
    /// Opens a session.
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

    /// The session with that id, if it is valid.
    pub(crate) fn find(&self, id: &str) -> Option<Session> {
        let open = self.open.lock();
        let found = open.iter().find(|session| session.id == id);
        found.filter(|session| session.opened.elapsed() < LASTS).cloned()
    }

    /// Ends a session.
    pub(crate) fn close(&self, id: &str) {
        self.open.lock().retain(|session| session.id != id);
    }
}
