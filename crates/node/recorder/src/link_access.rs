//! Where front-ends connect, and how.

use std::net::SocketAddr;

use catchment_net::TcpConfig;

use crate::config::RecorderConfig;

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

    /// How connections are received: those of sessions, two for each source, beside others. One
    /// more is taken before the oldest of these is closed.
    pub(crate) fn tcp_config(&self) -> TcpConfig {
        let default = TcpConfig::default();
        let sessions = self.session_addresses().count();
        let connections_max = default.connections_max + 2 * sessions + 1;
        let tls = self.access.certificate.clone().filter(|_| self.access.needs_tls);
        TcpConfig { connections_max, tls, ..default }
    }
}
