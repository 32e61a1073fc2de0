//! Bytes that a sink reads into memory of its own, over real sockets of this machine.

use std::io::{self, IoSlice, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use catchment_agent::{Arrival, Flow, Ingress as _, Piece};
use catchment_net::{Stream, TcpConfig, TcpReceiver, TlsClient, TlsServer};

/// Nothing takes so long: reached only when what was sent never comes.
const PATIENCE: Duration = Duration::from_secs(1_200);
const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const HEAD_BYTES: usize = 4;
/// Bodies from that length on are read by the sink itself.
const LONG_BYTES: usize = 5_000;

/// A sink that takes messages, each its length and its body.
#[derive(Default)]
struct Taker {
    messages: Vec<Vec<u8>>,
    /// The body that it reads itself, and how much of it has come.
    body: Option<(Vec<u8>, usize)>,
    /// Bytes that it was offered, and bytes that were copied for it.
    read: usize,
    copied: usize,
    /// How often it was asked, and whether it says now and then that it has no room.
    asked: usize,
    holds: bool,
    is_closed: bool,
}

impl Taker {
    fn take(&mut self, arrival: Arrival<'_>) -> Flow {
        self.asked += 1;
        let has_no_room = self.holds && self.asked.is_multiple_of(3);
        match arrival.piece {
            Piece::Datagrams(_) => panic!("a datagram from a connection"),
            Piece::Opened { .. } | Piece::Secured => Flow::Taken,
            Piece::Closed { left } => {
                assert!(left.is_empty());
                self.is_closed = true;
                Flow::Taken
            }
            _ if has_no_room => Flow::Held,
            Piece::Bytes(bytes) => self.take_bytes(bytes),
            Piece::Incoming(source) => {
                let (body, come) = self.body.as_mut().expect("it reads a body");
                // Rooms of several sizes, as chunks of memory have ends.
                let end = body.len().min(*come + [1, 700, 64 << 10][self.asked % 3]);
                let bytes = source.read(&mut body[*come..end]);
                (*come, self.read) = (*come + bytes, self.read + bytes);
                if *come < body.len() {
                    return Flow::Into;
                }
                self.messages.extend(self.body.take().map(|(body, _)| body));
                Flow::Taken
            }
        }
    }

    fn take_bytes(&mut self, bytes: &[u8]) -> Flow {
        assert!(self.body.is_none(), "the bytes of the body that it reads itself");
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Flow::Short };
        let length = u32::from_le_bytes(*head) as usize;
        let there = &bytes[HEAD_BYTES..];
        if length <= there.len() {
            self.messages.push(there[..length].to_vec());
            self.copied += length;
            return Flow::Used(HEAD_BYTES + length);
        }
        if length < LONG_BYTES {
            return Flow::Short;
        }
        let mut body = vec![0; length];
        body[..there.len()].copy_from_slice(there);
        self.copied += there.len();
        self.body = Some((body, there.len()));
        Flow::Into
    }
}

fn body(number: usize) -> Vec<u8> {
    let length = [0, 300_000, 20, 64 << 10, LONG_BYTES, LONG_BYTES - 1, 1][number % 7] + number;
    (0..length).map(|index| (index / 3 + number) as u8).collect()
}

fn message(number: usize) -> Vec<u8> {
    let body = body(number);
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// Polls until the connection is closed.
fn run(receiver: &mut TcpReceiver, taker: &mut Taker) {
    while !taker.is_closed {
        let received = receiver.poll(&mut |arrival| taker.take(arrival));
        if !received.held && !received.more && !taker.is_closed {
            assert!(receiver.readiness().wait(PATIENCE), "what was sent did not come");
        }
    }
}

fn check(taker: &Taker, count: usize) {
    assert_eq!(taker.messages.len(), count);
    for (number, message) in taker.messages.iter().enumerate() {
        assert!(*message == body(number), "message {number} of {} bytes", message.len());
    }
    assert!(taker.body.is_none());
}

#[test]
fn long_bodies_are_read_by_their_sink_and_everything_comes_in_its_order() {
    for (holds, piece) in [(false, usize::MAX), (true, usize::MAX), (false, 1_000), (true, 77_777)]
    {
        let mut receiver = TcpReceiver::bind(&[ANY_PORT], TcpConfig::default()).unwrap();
        let mut client = TcpStream::connect(receiver.local_addr(0)).unwrap();
        let writer = thread::spawn(move || {
            let bytes: Vec<u8> = (0..70).flat_map(message).collect();
            bytes.chunks(piece.min(bytes.len())).for_each(|piece| client.write_all(piece).unwrap());
        });
        let mut taker = Taker { holds, ..Taker::default() };
        run(&mut receiver, &mut taker);
        writer.join().unwrap();
        check(&taker, 70);
        assert!(taker.read > 0 && receiver.take_error().is_none());
    }
}

#[test]
fn behind_a_body_that_was_read_little_more_is_copied() {
    let mut receiver = TcpReceiver::bind(&[ANY_PORT], TcpConfig::default()).unwrap();
    let mut client = TcpStream::connect(receiver.local_addr(0)).unwrap();
    let messages = 50;
    let writer = thread::spawn(move || {
        let body = vec![7; 300_000];
        let message = [&(body.len() as u32).to_le_bytes()[..], &body].concat();
        (0..messages).for_each(|_| client.write_all(&message).unwrap());
    });
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker);
    writer.join().unwrap();
    assert!(taker.messages.iter().all(|body| body.len() == 300_000));
    assert_eq!((taker.messages.len(), taker.read + taker.copied), (messages, messages * 300_000));
    // The first of them fills the buffer.
    assert!(taker.copied <= (256 << 10) + messages * 4_096, "{} copied", taker.copied);
}

#[test]
fn a_connection_that_ends_within_a_body_is_closed_with_nothing_left() {
    let mut receiver = TcpReceiver::bind(&[ANY_PORT], TcpConfig::default()).unwrap();
    let mut client = TcpStream::connect(receiver.local_addr(0)).unwrap();
    client.write_all(&message(1)[..200_000]).unwrap();
    drop(client);
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker);
    assert_eq!(taker.messages.len(), 0);
    let (body, come) = taker.body.expect("it lacks its end");
    assert_eq!((come, body[..come].to_vec()), (199_996, message(1)[4..200_000].to_vec()));
    assert_eq!(receiver.connections(), 0);
}

/// The two files of a certificate for this machine.
fn certificate(folder: &Path) -> (TlsServer, TlsClient) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = TlsServer::for_links(&certificate, &key).unwrap();
    (server, TlsClient::trusting(&certificate).unwrap())
}

#[test]
fn long_bodies_under_tls_are_read_by_their_sink_too() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = certificate(folder.path());
    let config = TcpConfig { tls: Some(server), ..TcpConfig::default() };
    let mut receiver = TcpReceiver::bind(&[ANY_PORT], config).unwrap();
    let address = receiver.local_addr(0);
    let writer = thread::spawn(move || {
        let socket = TcpStream::connect(address).unwrap();
        let mut stream = Stream::connected(socket, &client, "localhost").unwrap();
        let bytes: Vec<u8> = (0..70).flat_map(message).collect();
        let mut sent = 0;
        while sent < bytes.len() {
            match stream.write_vectored(&[IoSlice::new(&bytes[sent..])]) {
                Ok(count) => sent += count,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        while !stream.flush().unwrap() {}
        stream.into_closing().unwrap()
    });
    let mut taker = Taker { holds: true, ..Taker::default() };
    run(&mut receiver, &mut taker);
    let _socket = writer.join().unwrap();
    check(&taker, 70);
    assert!(taker.read > 0 && receiver.take_error().is_none());
}
