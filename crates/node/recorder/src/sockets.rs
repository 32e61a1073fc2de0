//! The sockets of a recorder's receive agents.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_agent::{Arrival, Egress, Flow, Ingress, Piece, Received};
use catchment_net::{Readiness, ReceiverConfig, TcpConfig, TcpPort, TcpReceiver, UdpReceiver};
use catchment_wire::Transport;
use catchment_wire::session::Service;

use crate::config::RecorderConfig;
use crate::live::Live;
use crate::recorder::RecorderError;
use crate::standby::{Lent, Place, Standby};
use crate::wiring::{Bind, Endpoint};

/// Binds the ports of sources and links, and keeps their properties.
pub(crate) struct Sockets {
    live: Arc<Live>,
    buffer_bytes: usize,
    tcp: TcpConfig,
    standby: Option<Standby>,
    /// The target addresses of sources and links, in the ledger's order.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where front-ends of events connect: all listeners.
    pub(crate) listeners: Vec<SocketAddr>,
    /// Bytes of their buffers; 0 of sources on connections.
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
            tcp: config.tcp_config(),
            standby: config.standby.clone(),
            addresses: vec![SocketAddr::from(([0, 0, 0, 0], 0)); count],
            listeners: Vec::new(),
            granted_bytes: vec![0; count],
            readiness: Vec::new(),
        }
    }

    /// Takes so many connections more.
    pub(crate) fn add_connections(&mut self, count: usize) {
        self.tcp.connections_max += count;
    }

    /// The listeners at a place, taken over if they are there.
    pub(crate) fn listeners(
        &self,
        standby: &Standby,
        place: &Place,
    ) -> Result<Lent, RecorderError> {
        let tcp = match standby.take(place) {
            Some(mut tcp) => {
                tcp.configure(self.tcp.clone());
                tcp
            }
            None => TcpReceiver::listen(&place.tcp_ports(), self.tcp.clone())?,
        };
        Ok(Lent::new(tcp, Some(standby.home(place.clone()))))
    }

    /// Binds the datagram ports among these.
    fn bind_datagrams(
        &mut self,
        ports: &[Endpoint<'_>],
        own: &[usize],
    ) -> Result<UdpReceiver, RecorderError> {
        let addresses: Vec<_> = own.iter().map(|&port| ports[port].address).collect();
        let socket_buffer_bytes = self.buffer_bytes;
        let config = ReceiverConfig { socket_buffer_bytes, ..ReceiverConfig::default() };
        let mut receiver = UdpReceiver::bind(&addresses, config)?;
        if let Some(warning) = receiver.buffer_warning() {
            self.live.warn_once(warning);
        }
        for (socket, &port) in own.iter().enumerate() {
            if ports[port].names_senders {
                receiver.name_senders(socket);
            }
            for &number in &ports[port].numbers {
                self.live.set_gauge(number, receiver.gauge(socket));
                self.addresses[number] = receiver.local_addr(socket);
                self.granted_bytes[number] = receiver.granted_bytes(socket);
            }
        }
        Ok(receiver)
    }

    /// Binds the ports of connections among these, or takes them over.
    fn bind_connections(
        &mut self,
        ports: &[Endpoint<'_>],
        own: &[usize],
    ) -> Result<Lent, RecorderError> {
        let place = Place::of(self.readiness.len(), ports);
        let receiver = match (&self.standby, place) {
            (Some(standby), Some(place)) => self.listeners(standby, &place)?,
            (standby, _) => {
                let tcp: Vec<TcpPort> = own.iter().map(|&port| ports[port].tcp_port()).collect();
                let addresses: Vec<_> =
                    tcp.iter().flat_map(|port| port.addresses.clone()).collect();
                standby.iter().for_each(|standby| standby.free(&addresses));
                Lent::new(TcpReceiver::listen(&tcp, self.tcp.clone())?, None)
            }
        };
        for (index, &port) in own.iter().enumerate() {
            for &number in &ports[port].numbers {
                self.addresses[number] = receiver.local_addr(index);
            }
            let Endpoint { transport, service, .. } = ports[port];
            if transport == Transport::Sessions && service == Service::Events {
                self.listeners.extend(receiver.addresses_of(index));
            }
        }
        Ok(receiver)
    }
}

impl Bind for Sockets {
    fn bind(&mut self, ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError> {
        let is_datagrams = |&port: &usize| ports[port].transport == Transport::Datagrams;
        let (datagram_ports, connection_ports): (Vec<usize>, Vec<usize>) =
            (0..ports.len()).partition(is_datagrams);
        let udp = self.bind_datagrams(ports, &datagram_ports)?;
        if connection_ports.is_empty() {
            self.readiness.push(udp.readiness());
            return Ok(Box::new(udp));
        }
        let tcp = self.bind_connections(ports, &connection_ports)?;
        self.readiness.push(Readiness::all(&[udp.readiness(), tcp.readiness()])?);
        let (has_paused, is_other_first) = (false, false);
        Ok(Box::new(MixedIngress {
            udp,
            datagram_ports,
            tcp,
            connection_ports,
            has_paused,
            is_other_first,
        }))
    }
}

/// Datagrams and connections side by side.
struct MixedIngress {
    udp: UdpReceiver,
    /// The numbers of its ports.
    datagram_ports: Vec<usize>,
    tcp: Lent,
    /// The numbers of its ports; those of its connections follow all ports.
    connection_ports: Vec<usize>,
    /// Whether `tcp` has paused, and must go first.
    has_paused: bool,
    is_other_first: bool,
}

impl MixedIngress {
    fn poll_datagrams(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        let ports = &self.datagram_ports;
        self.udp.poll(&mut |arrival| {
            let endpoint = ports[arrival.endpoint];
            sink(Arrival { endpoint, ..arrival })
        })
    }

    fn poll_connections(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        let (ports, others) = (&self.connection_ports, self.datagram_ports.len());
        let received = self.tcp.poll(&mut |arrival| {
            let endpoint = number(ports, others, arrival.endpoint);
            let piece = match arrival.piece {
                Piece::Opened { port, listener } => {
                    Piece::Opened { port: number(ports, others, port), listener }
                }
                piece => piece,
            };
            sink(Arrival { endpoint, piece, ..arrival })
        });
        self.has_paused = received.paused;
        received
    }
}

/// The number of an endpoint of connections beside so many ports of datagrams.
fn number(ports: &[usize], others: usize, endpoint: usize) -> usize {
    ports.get(endpoint).copied().unwrap_or(endpoint + others)
}

impl Egress for MixedIngress {
    fn answer(&mut self, endpoint: usize, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let others = self.datagram_ports.len();
        // Those behind the ports are connections.
        if endpoint >= others + self.connection_ports.len() {
            self.tcp.answer(endpoint - others, write);
        }
    }

    fn close(&mut self, endpoint: usize) {
        let others = self.datagram_ports.len();
        if endpoint >= others + self.connection_ports.len() {
            self.tcp.close(endpoint - others);
        }
    }
}

impl Ingress for MixedIngress {
    fn poll(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        // What was paused goes first; otherwise they take turns, so that neither starves the other.
        let is_other_first = self.has_paused || self.is_other_first;
        let first = match is_other_first {
            true => self.poll_connections(sink),
            false => self.poll_datagrams(sink),
        };
        if first.paused {
            self.is_other_first = is_other_first;
            return first;
        }
        self.is_other_first = !is_other_first;
        let second = match is_other_first {
            true => self.poll_datagrams(sink),
            false => self.poll_connections(sink),
        };
        Received {
            arrivals: first.arrivals + second.arrivals,
            bytes: first.bytes + second.bytes,
            more: first.more || second.more,
            held: first.held || second.held,
            paused: second.paused,
        }
    }

    fn end(&mut self, f: &mut dyn FnMut(usize, &[u8]) -> bool) {
        let (ports, others) = (&self.connection_ports, self.datagram_ports.len());
        self.tcp.end(&mut |endpoint, left| f(number(ports, others, endpoint), left));
    }

    fn lingers(&self) -> bool {
        self.tcp.lingers()
    }

    fn waiting_bytes(&self) -> u64 {
        self.udp.waiting_bytes()
    }

    fn refresh_drops(&mut self) {
        self.udp.refresh_drops();
    }

    fn take_drops(&mut self, f: &mut dyn FnMut(usize, u64)) {
        let ports = &self.datagram_ports;
        self.udp.take_drops(&mut |socket, count| f(ports[socket], count));
    }

    fn take_error(&mut self) -> Option<(Option<usize>, String)> {
        let of_socket = |(socket, error): (Option<usize>, String)| {
            (socket.map(|socket| self.datagram_ports[socket]), error)
        };
        let of_connection = |(endpoint, error): (Option<usize>, String)| {
            let (ports, others) = (&self.connection_ports, self.datagram_ports.len());
            (endpoint.map(|endpoint| number(ports, others, endpoint)), error)
        };
        self.udp.take_error().map(of_socket).or_else(|| self.tcp.take_error().map(of_connection))
    }
}
