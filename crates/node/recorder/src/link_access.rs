//! Where front-ends connect, and how.

use std::net::SocketAddr;

use catchment_net::{LinkAccess, Network, TcpConfig, TlsRule};

use crate::config::RecorderConfig;

/// A listener: where front-ends connect, from where, and how.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its address. Port 0 lets the system choose.
    pub address: SocketAddr,
    /// The networks from which they may connect. Empty: any.
    pub from: Vec<Network>,
    /// What they need. Its `resume_ns` is not read: that of the first listener is.
    pub access: LinkAccess,
}

impl RecorderConfig {
    /// How front-ends connect, by listener.
    pub(crate) fn accesses(&self) -> Vec<LinkAccess> {
        let further = self.listeners.iter().map(|listener| listener.access.clone());
        std::iter::once(self.access.clone()).chain(further).collect()
    }

    /// Where front-ends connect, and how: what can be said of each listener, with the addresses
    /// that the system chose, if these are known.
    pub fn listener_words(&self, addresses: &[SocketAddr]) -> Vec<String> {
        let mut own: Vec<SocketAddr> = Vec::new();
        let sources = self.sources.iter().filter(|source| source.is_link());
        for source in sources.chain(self.accept.iter().map(|entry| &entry.source)) {
            if !own.contains(&source.address) {
                own.push(source.address);
            }
        }
        let own = own.into_iter().map(|address| (address, &self.access));
        let further = self.listeners.iter().map(|one| (one.address, &one.access));
        let all = own.chain(further).enumerate().map(|(index, (address, access))| {
            let address = addresses.get(index).copied().unwrap_or(address);
            let tls = match access.tls {
                TlsRule::None => "in the clear",
                TlsRule::Control => "control under TLS, data in the clear",
                TlsRule::All => "under TLS",
            };
            let tokens = if access.needs_token { ", with tokens" } else { "" };
            format!("{address} ({tls}{tokens})")
        });
        all.collect()
    }

    /// Whether senders may deliver over sessions: front-ends, or those of channels.
    pub fn has_front_ends(&self) -> bool {
        self.first_listener().is_some()
    }

    /// Where they connect first, also if none is configured by name.
    pub fn first_listener(&self) -> Option<SocketAddr> {
        let admitted = self.accept.iter().map(|entry| entry.source.address);
        self.session_addresses().chain(admitted).next()
    }

    /// Where they connect, by source and link; further listeners are not among them.
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
        let tls = self.accesses().into_iter().find_map(|access| access.certificate);
        // The rule of its listener says what becomes of a connection in the clear.
        TcpConfig { connections_max, tls, takes_clear: true, ..default }
    }
}
