use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use catchment_agent::Ingress as _;
use catchment_fixtures::{Random, wait_while};
use catchment_net::{TcpConfig, TcpReceiver};

use super::*;

fn preamble(connection: Line) -> [u8; 16] {
    Preamble {
        session_min: VERSION,
        session_max: VERSION,
        service: Service::Storage,
        service_min: storage_link::VERSION,
        service_max: storage_link::VERSION,
        connection,
    }
    .encode()
}

/// A message of a type of a later version, which is skipped.
fn unknown(number: u32) -> Vec<u8> {
    let mut message = vec![0xc7, 0x4c, 0x01, 0x80, 8, 0, 0, 0, 0, 0, 0, 0];
    message.extend(number.to_le_bytes());
    message.extend([8, 0, 0, 0, 0, 0, 0, 0]);
    message
}

/// Sessions, and connections to them that are real; time is the test's.
struct Rig {
    receiver: TcpReceiver,
    sessions: Sessions,
    state: Arc<NodeState>,
}

impl Rig {
    fn new(connections_max: usize) -> Self {
        let config = TcpConfig { connections_max, ..TcpConfig::default() };
        let receiver = TcpReceiver::bind(&["127.0.0.1:0".parse().unwrap()], config).unwrap();
        let state = Arc::new(NodeState::new(1 << 20, &[]));
        let (orders, _) = crossbeam_channel::bounded(1);
        let entropy = Box::new(Random::new(1));
        let (buffers, access) = (Buffers::new(1 << 20), LinkAccess::default());
        let sessions = Sessions::new(entropy, Arc::clone(&state), orders, buffers, access);
        Self { receiver, sessions, state }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.receiver.local_addr(0)).unwrap()
    }

    /// Takes what has come, without time passing.
    fn cycle(&mut self) {
        let sessions = &mut self.sessions;
        self.receiver.poll(&mut |arrival| match arrival.piece {
            catchment_agent::Piece::Opened { .. } => {
                sessions.open(arrival.endpoint, arrival.sender);
                Flow::Taken
            }
            catchment_agent::Piece::Bytes(bytes) => sessions.bytes(arrival.endpoint, bytes),
            catchment_agent::Piece::Closed { .. } => {
                sessions.close(arrival.endpoint);
                Flow::Taken
            }
            _ => Flow::Taken,
        });
        sessions.note_error(self.receiver.take_error().map(|(_, error)| error));
        sessions.answer(&mut self.receiver, 0);
    }

    fn open(&self) -> impl Iterator<Item = &Connection> {
        self.sessions.connections.iter().flatten()
    }

    fn read(&self) -> u32 {
        self.open().map(|one| one.read).sum()
    }
}

#[test]
fn messages_that_are_skipped_do_not_keep_a_connection_without_a_session_open() {
    let mut rig = Rig::new(CONNECTIONS_MAX);
    let mut client = rig.connect();
    client.write_all(&preamble(Line::Control)).unwrap();
    for number in 0..12 {
        client.write_all(&unknown(number)).unwrap();
        wait_while(|| {
            rig.cycle();
            rig.read() <= number
        });
        rig.sessions.look(250_000_000);
    }
    wait_while(|| {
        rig.cycle();
        rig.open().next().is_some()
    });
    assert_eq!(rig.state.snapshot().connections_unopened, 1);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, preamble(Line::Control));
}

#[test]
fn strangers_make_room_for_one_more_however_many_there_are() {
    let mut rig = Rig::new(STRANGERS_MAX + 1);
    let mut clients = Vec::new();
    for connected in 1..=STRANGERS_MAX {
        let mut client = rig.connect();
        client.write_all(&preamble(Line::Control)).unwrap();
        clients.push(client);
        wait_while(|| {
            rig.cycle();
            rig.open().filter(|one| one.kind == Kind::Control).count() < connected
        });
        rig.sessions.look(1_000);
    }
    let mut last = rig.connect();
    last.write_all(&preamble(Line::Control)).unwrap();
    let mut answer = [0; 16];
    last.set_nonblocking(true).unwrap();
    wait_while(|| {
        rig.cycle();
        last.read_exact(&mut answer).is_err()
    });
    assert_eq!(answer, preamble(Line::Control));
    let mut answer = Vec::new();
    clients[0].read_to_end(&mut answer).unwrap();
    assert_eq!(rig.state.snapshot().last_error, None);
}

#[test]
fn a_connection_for_which_there_is_no_room_is_named() {
    let mut rig = Rig::new(1);
    let (_one, _other) = (rig.connect(), rig.connect());
    wait_while(|| {
        rig.cycle();
        rig.state.snapshot().last_error.is_none()
    });
    let error = rig.state.snapshot().last_error.unwrap();
    assert!(error.contains("limit of 1 connections reached"), "{error}");
}
