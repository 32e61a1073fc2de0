//! What arrives, from queues.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use catchment_agent::{Arrival, Datagrams, Egress, Flow, Incoming, Ingress, Piece, Received};
use parking_lot::Mutex;

/// What is on its way to the endpoints of a [`QueueIngress`]: datagrams to ports, each with a
/// buffer like a socket's, which drops and counts what exceeds it, and the bytes of connections,
/// each with a buffer whose sender waits, and the answers to them. Clones put into the same
/// buffers.
#[derive(Clone, Debug, Default)]
pub struct Queues(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    ports: Vec<Port>,
    connections: Vec<Connection>,
}

#[derive(Debug, Default)]
struct Port {
    datagrams: VecDeque<(Option<SocketAddr>, Vec<u8>)>,
    datagrams_max: usize,
    dropped: u64,
}

#[derive(Debug)]
struct Connection {
    port: usize,
    bytes: Vec<u8>,
    bytes_max: usize,
    /// Its number at the ingress of its port, since it was opened there.
    endpoint: Option<usize>,
    /// The answers that its sender has not read.
    answers: Vec<u8>,
    /// Whether the ingress was told that its bytes begin nothing whole.
    is_short: bool,
    /// Whether the receiver reads the next bytes itself.
    is_direct: bool,
    /// Whether nothing more is sent, because its sender closed it or the receiver did.
    has_ended: bool,
    /// Whether the ingress has read the end, which it tells at the next poll.
    is_at_end: bool,
    /// Whether the ingress was told so.
    is_closed: bool,
    /// Whether the receiver closed it, because of what was in it.
    is_refused: bool,
}

impl Queues {
    /// Adds a port whose buffer holds so many datagrams, and returns its index.
    pub fn add(&self, datagrams_max: usize) -> usize {
        let ports = &mut self.0.lock().ports;
        ports.push(Port { datagrams_max, ..Port::default() });
        ports.len() - 1
    }

    /// Sends a datagram to a port, without a sender; false where its buffer is full.
    pub fn send(&self, port: usize, datagram: Vec<u8>) -> bool {
        self.send_from(None, port, datagram)
    }

    /// As [`send`](Self::send), from that sender.
    pub fn send_from(&self, sender: Option<SocketAddr>, port: usize, datagram: Vec<u8>) -> bool {
        let port = &mut self.0.lock().ports[port];
        let has_room = port.datagrams.len() < port.datagrams_max;
        match has_room {
            true => port.datagrams.push_back((sender, datagram)),
            false => port.dropped += 1,
        }
        has_room
    }

    /// Opens a connection to a port, whose buffer holds so many bytes. Returns its index.
    pub fn connect(&self, port: usize, bytes_max: usize) -> usize {
        let connections = &mut self.0.lock().connections;
        connections.push(Connection {
            port,
            bytes: Vec::new(),
            bytes_max,
            endpoint: None,
            answers: Vec::new(),
            is_short: false,
            is_direct: false,
            has_ended: false,
            is_at_end: false,
            is_closed: false,
            is_refused: false,
        });
        connections.len() - 1
    }

    /// Sends bytes over a connection, as many as there is room for: how many; none where it was
    /// closed.
    pub fn write(&self, connection: usize, bytes: &[u8]) -> Option<usize> {
        let connection = &mut self.0.lock().connections[connection];
        if connection.has_ended {
            return None;
        }
        let room = connection.bytes_max - connection.bytes.len();
        let count = bytes.len().min(room);
        connection.bytes.extend_from_slice(&bytes[..count]);
        connection.is_short &= count == 0;
        Some(count)
    }

    /// The answers to a connection since they were last read. While there are some, the receiver
    /// sends no others.
    pub fn read_answers(&self, connection: usize) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().connections[connection].answers)
    }

    /// Whether a connection has answers that were not read, and whether it is closed.
    pub fn has_answer(&self, connection: usize) -> (bool, bool) {
        let connection = &self.0.lock().connections[connection];
        (!connection.answers.is_empty(), connection.has_ended)
    }

    /// Bytes of a connection that were sent and that nobody has taken.
    pub fn left(&self, connection: usize) -> usize {
        self.0.lock().connections[connection].bytes.len()
    }

    /// Whether the receiver was given all that was sent over a connection until it ended: it had
    /// opened the connection, and refused nothing of it.
    pub fn was_given(&self, connection: usize) -> bool {
        let connection = &self.0.lock().connections[connection];
        connection.endpoint.is_some() && !connection.is_refused
    }

    /// The sender of a connection closes it.
    pub fn close(&self, connection: usize) {
        let connection = &mut self.0.lock().connections[connection];
        (connection.has_ended, connection.is_short) = (true, false);
    }
}

/// Some of the ports of [`Queues`], and their connections.
#[derive(Debug)]
pub struct QueueIngress {
    queues: Queues,
    ports: Vec<usize>,
    per_poll_max: usize,
    first_connection: Turn,
    first_port: Turn,
    /// Whether a datagram was paused, which goes before anything else, and whether all datagrams do
    /// in the next poll.
    datagram_waits: bool,
    datagrams_first: bool,
}

/// At which connection or port the next poll begins, and how much of it the poll before delivered:
/// the rest of its turn is that of one that was paused. Otherwise it would take all room that there
/// is, or the first ones would.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    index: usize,
    taken: usize,
}

impl Turn {
    /// How much of one was delivered before.
    fn taken_of(self, index: usize) -> usize {
        if index == self.index { self.taken } else { 0 }
    }
}

impl QueueIngress {
    /// An ingress of these ports. One poll delivers at most that many datagrams of each port, and
    /// messages of each connection.
    pub fn new(queues: &Queues, ports: Vec<usize>, per_poll_max: usize) -> Self {
        let [first_connection, first_port] = Default::default();
        let (queues, datagram_waits, datagrams_first) = (queues.clone(), false, false);
        Self {
            queues,
            ports,
            per_poll_max,
            first_connection,
            first_port,
            datagram_waits,
            datagrams_first,
        }
    }

    /// Hands out what datagrams there are; false where the caller has no room for more.
    fn poll_ports(
        &mut self,
        state: &mut State,
        received: &mut Received,
        sink: &mut dyn FnMut(Arrival<'_>) -> Flow,
    ) -> bool {
        let first = std::mem::take(&mut self.first_port);
        self.datagram_waits = false;
        for endpoint in (first.index..self.ports.len()).chain(0..first.index) {
            let datagrams = &mut state.ports[self.ports[endpoint]].datagrams;
            for taken in first.taken_of(endpoint)..self.per_poll_max {
                let Some((sender, bytes)) = datagrams.pop_front() else { break };
                let piece = Piece::Datagrams(Datagrams::one(&bytes));
                if sink(Arrival { endpoint, sender, piece }) == Flow::Paused {
                    datagrams.push_front((sender, bytes));
                    self.first_port = Turn { index: endpoint, taken };
                    self.datagram_waits = true;
                    return false;
                }
                received.arrivals += 1;
                received.bytes += bytes.len() as u64;
            }
            received.more |= !datagrams.is_empty();
        }
        true
    }

    /// Hands out what there is of a connection. Returns what it has had of its turn where the
    /// caller has no room for more.
    fn poll_connection(
        &self,
        state: &mut State,
        Turn { index, mut taken }: Turn,
        received: &mut Received,
        sink: &mut dyn FnMut(Arrival<'_>) -> Flow,
    ) -> Option<Turn> {
        let free = self.free_endpoint(state);
        let connection = &mut state.connections[index];
        let port = self.ports.iter().position(|&port| port == connection.port)?;
        let endpoint = connection.endpoint.unwrap_or(free);
        if connection.endpoint.is_none() {
            match sink(arrival(endpoint, Piece::Opened { port, listener: 0 })) {
                Flow::Paused => return Some(Turn { index, taken }),
                Flow::Refused => connection.refuse(),
                _ => {}
            }
            connection.endpoint = Some(endpoint);
            received.arrivals += 1;
        }
        while !connection.bytes.is_empty() && !connection.is_short {
            if taken == self.per_poll_max {
                received.more = true;
                return None;
            }
            taken += 1;
            let mut reader = Reader { bytes: &connection.bytes, read: 0 };
            let flow = match connection.is_direct {
                true => sink(arrival(endpoint, Piece::Incoming(&mut reader))),
                false => sink(arrival(endpoint, Piece::Bytes(&connection.bytes))),
            };
            let used = match flow {
                Flow::Into | Flow::Taken => {
                    let was_direct = connection.is_direct;
                    connection.is_direct = flow == Flow::Into;
                    if was_direct { reader.read } else { connection.bytes.len() }
                }
                Flow::Used(used) => used,
                Flow::Short => {
                    connection.is_short = true;
                    // A sender that cannot go on would wait for ever.
                    if connection.bytes.len() == connection.bytes_max {
                        connection.has_ended = true;
                    }
                    break;
                }
                Flow::Held => {
                    received.held = true;
                    return None;
                }
                Flow::Paused => return Some(Turn { index, taken: taken - 1 }),
                Flow::Refused => {
                    connection.refuse();
                    break;
                }
            };
            assert!((1..=connection.bytes.len()).contains(&used), "{used} bytes were used");
            connection.bytes.drain(..used);
            received.arrivals += 1;
            received.bytes += used as u64;
        }
        if connection.has_ended && !connection.is_refused && !connection.is_at_end {
            (connection.is_at_end, received.more) = (true, true);
        } else if connection.has_ended {
            let left = &connection.bytes;
            if sink(arrival(endpoint, Piece::Closed { left })) == Flow::Paused {
                return Some(Turn { index, taken });
            }
            connection.is_closed = true;
            received.arrivals += 1;
        }
        None
    }

    /// The lowest number that no open connection of these ports has.
    fn free_endpoint(&self, state: &State) -> usize {
        let is_taken = |number: &usize| {
            let mut open = state.connections.iter().filter(|one| !one.is_closed);
            open.any(|one| self.ports.contains(&one.port) && one.endpoint == Some(*number))
        };
        (self.ports.len()..).find(|number| !is_taken(number)).expect("a number")
    }
}

/// Reads what there is of a connection for its receiver.
#[derive(Debug)]
struct Reader<'a> {
    bytes: &'a [u8],
    read: usize,
}

impl Incoming for Reader<'_> {
    fn read(&mut self, room: &mut [u8]) -> usize {
        let (now, rest) = self.bytes.split_at(room.len().min(self.bytes.len()));
        room[..now.len()].copy_from_slice(now);
        (self.bytes, self.read) = (rest, self.read + now.len());
        now.len()
    }
}

fn arrival(endpoint: usize, piece: Piece<'_>) -> Arrival<'_> {
    Arrival { endpoint, sender: None, piece }
}

impl Connection {
    /// The receiver closes it: what is in it is not taken.
    fn refuse(&mut self) {
        (self.has_ended, self.is_short, self.is_refused) = (true, true, true);
    }
}

impl QueueIngress {
    /// The open connection with that number.
    fn open<'a>(&self, state: &'a mut State, endpoint: usize) -> Option<&'a mut Connection> {
        let mut open = state.connections.iter_mut().filter(|one| !one.is_closed);
        open.find(|one| self.ports.contains(&one.port) && one.endpoint == Some(endpoint))
    }
}

impl Egress for QueueIngress {
    fn answer(&mut self, endpoint: usize, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut state = self.queues.0.lock();
        let connection = self.open(&mut state, endpoint);
        if let Some(connection) = connection.filter(|one| one.answers.is_empty()) {
            write(&mut connection.answers);
        }
    }

    fn close(&mut self, endpoint: usize) {
        if let Some(connection) = self.open(&mut self.queues.0.lock(), endpoint) {
            connection.refuse();
        }
    }
}

impl Ingress for QueueIngress {
    /// Datagrams for which there was no room go first in every second poll, and one of them in the
    /// others: connections that are held would otherwise take all room that there is.
    fn poll(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        let mut received = Received::default();
        let queues = self.queues.clone();
        let mut state = queues.0.lock();
        let datagrams_first = std::mem::take(&mut self.datagrams_first);
        if datagrams_first {
            received.paused = !self.poll_ports(&mut state, &mut received, sink);
        } else if self.datagram_waits {
            let mut pieces = 0;
            let has_room = self.poll_ports(&mut state, &mut received, &mut |arrival| {
                pieces += 1;
                if pieces > 1 { Flow::Paused } else { sink(arrival) }
            });
            received.paused = !has_room && pieces <= 1;
        }
        if received.paused {
            return received;
        }
        let first = std::mem::take(&mut self.first_connection);
        for index in (first.index..state.connections.len()).chain(0..first.index) {
            let turn = Turn { index, taken: first.taken_of(index) };
            if !state.connections[index].is_closed
                && let Some(turn) = self.poll_connection(&mut state, turn, &mut received, sink)
            {
                (self.first_connection, received.paused) = (turn, true);
                self.datagram_waits = false;
                return received;
            }
        }
        if !datagrams_first {
            received.paused = !self.poll_ports(&mut state, &mut received, sink);
            self.datagrams_first = received.paused;
        }
        received
    }

    fn end(&mut self, f: &mut dyn FnMut(usize, &[u8]) -> bool) {
        let mut state = self.queues.0.lock();
        for connection in state.connections.iter_mut().filter(|one| !one.is_closed) {
            if let Some(endpoint) = connection.endpoint
                && self.ports.contains(&connection.port)
            {
                let is_closed = f(endpoint, &connection.bytes);
                connection.has_ended |= is_closed;
                connection.is_closed = is_closed;
            }
        }
    }

    fn waiting_bytes(&self) -> u64 {
        let state = self.queues.0.lock();
        let waiting = self.ports.iter().flat_map(|&port| &state.ports[port].datagrams);
        waiting.map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn take_drops(&mut self, f: &mut dyn FnMut(usize, u64)) {
        let mut state = self.queues.0.lock();
        for (endpoint, &port) in self.ports.iter().enumerate() {
            match std::mem::take(&mut state.ports[port].dropped) {
                0 => {}
                dropped => f(endpoint, dropped),
            }
        }
    }
}
