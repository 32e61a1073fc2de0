//! The sockets of a recorder's receive agents.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_net::{Readiness, ReceiverConfig, UdpReceiver};

use crate::config::RecorderConfig;
use crate::live::Live;
use crate::recorder::RecorderError;
use crate::wiring::{Bind, Endpoint};

/// Binds a socket for each source and link, and keeps their properties.
pub(crate) struct Sockets {
    live: Arc<Live>,
    buffer_bytes: usize,
    /// The target addresses of sources and links, in the ledger's order.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) granted_bytes: Vec<usize>,
    /// The object on which each receive agent's thread waits.
    pub(crate) readiness: Vec<Readiness>,
}

impl Sockets {
    pub(crate) fn new(config: &RecorderConfig, live: &Arc<Live>) -> Self {
        // A socket per source, and the files beside them.
        catchment_net::raise_open_files();
        let count = config.ledger_count();
        Self {
            live: Arc::clone(live),
            buffer_bytes: config.receive.socket_buffer_bytes,
            addresses: vec![SocketAddr::from(([0, 0, 0, 0], 0)); count],
            granted_bytes: vec![0; count],
            readiness: Vec::new(),
        }
    }
}

impl Bind for Sockets {
    type Ingress = UdpReceiver;

    fn bind(&mut self, endpoints: &[Endpoint<'_>]) -> Result<UdpReceiver, RecorderError> {
        let addresses: Vec<_> = endpoints.iter().map(|endpoint| endpoint.address).collect();
        let socket_buffer_bytes = self.buffer_bytes;
        let config = ReceiverConfig { socket_buffer_bytes, ..ReceiverConfig::default() };
        let mut receiver = UdpReceiver::bind(&addresses, config)?;
        if let Some(warning) = receiver.buffer_warning() {
            self.live.warn_once(warning);
        }
        for (socket, endpoint) in endpoints.iter().enumerate() {
            if endpoint.names_senders {
                receiver.name_senders(socket);
            }
            self.live.set_gauge(endpoint.number, receiver.gauge(socket));
            self.addresses[endpoint.number] = receiver.local_addr(socket);
            self.granted_bytes[endpoint.number] = receiver.granted_bytes(socket);
        }
        self.readiness.push(receiver.readiness());
        Ok(receiver)
    }
}
