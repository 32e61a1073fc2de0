//! Who may connect as a front-end, and how.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_net::{TcpConfig, TlsServer};

use crate::config::RecorderConfig;
use crate::standby::Standby;

/// How front-ends connect. The file says what they need; the node that records has it.
#[derive(Clone, Debug)]
pub struct LinkAccess {
    /// Connections are under TLS.
    pub needs_tls: bool,
    /// A hello has to show a token.
    pub needs_token: bool,
    /// They may connect from beyond this machine without either.
    pub without_protection: bool,
    /// How long events wait for a required front-end that fell silent without a word, from its last
    /// byte on.
    pub resume_ns: u64,
    /// The node's certificate.
    pub certificate: Option<TlsServer>,
    /// The node's tokens.
    pub tokens: Option<SharedTokens>,
    /// Where they go on when a run ends, and come from when one begins. Without it, they connect
    /// for each run.
    pub standby: Option<Standby>,
}

/// Who knows which tokens there are. Asked by receive threads, so that it must not wait.
pub trait Tokens: Send + Sync {
    /// Whether a sender of that name may deliver data with that token.
    fn admits(&self, token: &str, sender: &str) -> bool;
}

/// Tokens that many threads ask.
#[derive(Clone)]
pub struct SharedTokens(pub Arc<dyn Tokens>);

impl Default for LinkAccess {
    fn default() -> Self {
        let (needs_tls, needs_token, without_protection) = (false, false, false);
        let (certificate, tokens, standby) = (None, None, None);
        let resume_ns = 5_000_000_000;
        Self { needs_tls, needs_token, without_protection, resume_ns, certificate, tokens, standby }
    }
}

impl LinkAccess {
    /// Whether everything is there that is needed.
    pub(crate) fn is_whole(&self) -> bool {
        (!self.needs_tls || self.certificate.is_some())
            && (!self.needs_token || self.tokens.is_some())
    }

    /// Whether a sender may deliver data.
    pub(crate) fn admits(&self, token: &str, sender: &str) -> bool {
        !self.needs_token || self.tokens.as_ref().is_some_and(|it| it.0.admits(token, sender))
    }

    /// Whether nothing keeps others on the network from being a source.
    pub(crate) fn is_open(&self) -> bool {
        !(self.needs_tls && self.needs_token)
    }
}

impl RecorderConfig {
    /// Whether senders deliver over sessions: front-ends, or those of channels.
    pub fn has_front_ends(&self) -> bool {
        self.session_addresses().next().is_some()
    }

    /// Where they connect, by source and link.
    pub fn session_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let sources = self.sources.iter().filter(|source| source.is_link());
        let links = self.links.iter().filter(|link| link.is_session());
        sources.map(|source| source.address).chain(links.map(|link| link.address))
    }

    /// How connections are received: those of sessions, two for each source, beside others.
    pub(crate) fn tcp_config(&self) -> TcpConfig {
        let default = TcpConfig::default();
        let sessions = self.session_addresses().count();
        let connections_max = default.connections_max + 2 * sessions;
        let tls = self.access.certificate.clone().filter(|_| self.access.needs_tls);
        TcpConfig { connections_max, tls, ..default }
    }
}

impl std::fmt::Debug for SharedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedTokens")
    }
}
