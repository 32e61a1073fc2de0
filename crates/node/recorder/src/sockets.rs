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
        let (turn, paused) = (Kind::Datagrams, None);
        Ok(Box::new(MixedIngress { udp, datagram_ports, tcp, connection_ports, turn, paused }))
    }
}

/// Datagrams and connections side by side, which take turns in going first.
struct MixedIngress {
    udp: UdpReceiver,
    /// The numbers of its ports.
    datagram_ports: Vec<usize>,
    tcp: Lent,
    /// The numbers of its ports; those of its connections follow all ports.
    connection_ports: Vec<usize>,
    /// The kind whose turn it is.
    turn: Kind,
    /// The kind whose piece the sink had no room for: it goes before anything else.
    paused: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Datagrams,
    Connections,
}

impl Kind {
    fn other(self) -> Self {
        match self {
            Self::Datagrams => Self::Connections,
            Self::Connections => Self::Datagrams,
        }
    }
}

impl MixedIngress {
    /// Adds what comes of one kind; whether the sink had room for it.
    fn poll_kind(
        &mut self,
        kind: Kind,
        received: &mut Received,
        sink: &mut dyn FnMut(Arrival<'_>) -> Flow,
    ) -> bool {
        let of_kind = match kind {
            Kind::Datagrams => self.poll_datagrams(sink),
            Kind::Connections => self.poll_connections(sink),
        };
        received.arrivals += of_kind.arrivals;
        received.bytes += of_kind.bytes;
        received.more |= of_kind.more;
        received.held |= of_kind.held;
        self.paused = of_kind.paused.then_some(kind);
        !of_kind.paused
    }

    fn poll_datagrams(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        let ports = &self.datagram_ports;
        self.udp.poll(&mut |arrival| {
            let endpoint = ports[arrival.endpoint];
            sink(Arrival { endpoint, ..arrival })
        })
    }

    fn poll_connections(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        let (ports, others) = (&self.connection_ports, self.datagram_ports.len());
        self.tcp.poll(&mut |arrival| {
            let endpoint = number(ports, others, arrival.endpoint);
            let piece = match arrival.piece {
                Piece::Opened { port, listener } => {
                    Piece::Opened { port: number(ports, others, port), listener }
                }
                piece => piece,
            };
            sink(Arrival { endpoint, piece, ..arrival })
        })
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
        let mut received = Received::default();
        let first = self.turn;
        if let Some(paused) = self.paused.filter(|paused| *paused != first) {
            // What was paused goes first, and alone: otherwise a kind that has more than there is
            // room for would starve the other.
            let mut pieces = 0;
            let has_room = self.poll_kind(paused, &mut received, &mut |arrival| {
                pieces += 1;
                if pieces > 1 { Flow::Paused } else { sink(arrival) }
            });
            received.paused = !has_room && pieces <= 1;
            if received.paused {
                return received;
            }
        }
        self.turn = first.other();
        let has_room = self.poll_kind(first, &mut received, sink)
            && self.poll_kind(first.other(), &mut received, sink);
        received.paused = !has_room;
        received
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use catchment_net::{Datagram, UdpSender};

    use super::*;

    #[test]
    fn neither_datagrams_nor_connections_starve_where_the_sink_has_no_room_for_all() {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        for room in [1, 2, 5] {
            let udp = UdpReceiver::bind(&[any_port], ReceiverConfig::default()).unwrap();
            let tcp = TcpReceiver::bind(&[any_port], TcpConfig::default()).unwrap();
            let mut sender = UdpSender::connect(&[udp.local_addr(0)]).unwrap();
            let mut client = TcpStream::connect(tcp.local_addr(0)).unwrap();
            let mut mixed = MixedIngress {
                udp,
                datagram_ports: vec![0],
                tcp: Lent::new(tcp, None),
                connection_ports: vec![1],
                turn: Kind::Datagrams,
                paused: None,
            };
            let (polls, mut taken, mut paused) = (200, [0; 2], None);
            for _ in 0..polls {
                for _ in 0..=room {
                    let datagram = [Datagram { offset: 0, bytes: 100 }];
                    assert_eq!(sender.send(0, &[0; 100], &datagram).unsent, 0);
                    client.write_all(&[0; 100]).unwrap();
                }
                let (mut left, mut due) = (room, paused.take());
                let received = mixed.poll(&mut |Arrival { endpoint, piece, .. }| {
                    assert_eq!(paused, None, "there is no room for anything");
                    let is_due = due.take().is_none_or(|due| endpoint == due);
                    assert!(is_due, "what was paused goes before anything else");
                    let kind = match piece {
                        Piece::Opened { .. } => return Flow::Taken,
                        Piece::Datagrams(_) => 0,
                        Piece::Bytes(_) => 1,
                        _ => panic!("nothing else was sent"),
                    };
                    if left == 0 {
                        paused = Some(endpoint);
                        return Flow::Paused;
                    }
                    left -= 1;
                    taken[kind] += 1;
                    Flow::Used(100)
                });
                assert_eq!(received.paused, paused.is_some());
            }
            let share = polls * room / 3;
            assert!(taken.iter().all(|&count| count >= share), "{taken:?} of {room} each time");
        }
    }
}
