//! Connections over real sockets of this machine: everything that was sent comes, once and in its
//! order, whatever the sink has room for.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use catchment_agent::{
    ANSWER_BYTES_MAX, Arrival, Egress as _, Flow, Ingress as _, Piece, Received, STREAM_BYTES_MIN,
};
use catchment_net::{Readiness, ReceiverConfig, TcpConfig, TcpReceiver, UdpReceiver};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Nothing takes so long: reached only when what was sent never comes.
const PATIENCE: Duration = Duration::from_secs(1_200);
const BUFFER_BYTES: usize = 2 * STREAM_BYTES_MIN;

fn bind(ports: usize) -> TcpReceiver {
    let config = TcpConfig { buffer_bytes: BUFFER_BYTES, ..TcpConfig::default() };
    TcpReceiver::bind(&vec![ANY_PORT; ports], config).unwrap()
}

fn connect(receiver: &TcpReceiver, port: usize) -> TcpStream {
    let client = TcpStream::connect(receiver.local_addr(port)).unwrap();
    client.set_nodelay(true).unwrap();
    client
}

/// A message on the wire: its length in four bytes, and as many bytes of the number.
fn message(number: u8, bytes: usize) -> Vec<u8> {
    let mut message = (bytes as u32).to_le_bytes().to_vec();
    message.resize(4 + bytes, number);
    message
}

/// The bytes of the message at the begin, if it is whole.
fn first_message(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize + 4;
    (length <= bytes.len()).then_some(length)
}

/// A sink that takes one whole message at a time, and knows what came.
#[derive(Default)]
struct Taker {
    opened: Vec<(usize, usize)>,
    senders: BTreeMap<usize, Option<SocketAddr>>,
    messages: BTreeMap<usize, Vec<Vec<u8>>>,
    closed: Vec<(usize, Vec<u8>)>,
    /// The connection for which there is no room, and what of it was offered last.
    held: Option<usize>,
    offered: Option<Vec<u8>>,
}

impl Taker {
    fn take(&mut self, arrival: Arrival<'_>) -> Flow {
        let endpoint = arrival.endpoint;
        match arrival.piece {
            Piece::Datagrams(_) => panic!("a datagram from a connection"),
            Piece::Secured => panic!("TLS that nobody asked for"),
            Piece::Opened { port, .. } => {
                self.opened.push((endpoint, port));
                self.senders.insert(endpoint, arrival.sender);
                self.messages.insert(endpoint, Vec::new());
            }
            Piece::Closed { left } => self.closed.push((endpoint, left.to_vec())),
            Piece::Incoming(_) => panic!("bytes that nobody asked for"),
            Piece::Bytes(bytes) => {
                assert!(!bytes.is_empty() && bytes.len() <= BUFFER_BYTES, "{}", bytes.len());
                if self.held == Some(endpoint) {
                    self.offered = Some(bytes.to_vec());
                    return Flow::Held;
                }
                let Some(used) = first_message(bytes) else { return Flow::Short };
                self.messages.get_mut(&endpoint).unwrap().push(bytes[..used].to_vec());
                return Flow::Used(used);
            }
        }
        Flow::Taken
    }

    fn messages(&self, endpoint: usize) -> &[Vec<u8>] {
        self.messages.get(&endpoint).map_or(&[], |messages| messages)
    }

    fn is_open(&self, endpoint: usize) -> bool {
        self.messages.contains_key(&endpoint)
    }

    fn is_closed(&self, endpoint: usize) -> bool {
        self.closed.iter().any(|(closed, _)| *closed == endpoint)
    }
}

/// Polls, and waits in between, until it is done.
fn run(receiver: &mut TcpReceiver, taker: &mut Taker, done: impl Fn(&Taker) -> bool) {
    loop {
        receiver.poll(&mut |arrival| taker.take(arrival));
        if done(taker) {
            return;
        }
        assert!(receiver.readiness().wait(PATIENCE), "what was sent did not come");
    }
}

/// What a sink saw, with bytes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen(usize, Option<SocketAddr>, &'static str, Vec<u8>);

/// Waits, polls once, and answers every piece alike.
fn poll(receiver: &mut TcpReceiver, flow: Flow) -> (Received, Vec<Seen>) {
    assert!(receiver.readiness().wait(PATIENCE), "what was sent did not come");
    poll_now(receiver, flow)
}

fn poll_now(receiver: &mut TcpReceiver, flow: Flow) -> (Received, Vec<Seen>) {
    let mut seen = Vec::new();
    let received = receiver.poll(&mut |Arrival { endpoint, sender, piece }| {
        let (kind, bytes) = match piece {
            Piece::Datagrams(datagrams) => ("datagram", datagrams.bytes()),
            Piece::Opened { .. } | Piece::Secured => ("opened", &[][..]),
            Piece::Bytes(bytes) => ("bytes", bytes),
            Piece::Incoming(_) => panic!("bytes that nobody asked for"),
            Piece::Closed { left } => ("closed", left),
        };
        seen.push(Seen(endpoint, sender, kind, bytes.to_vec()));
        flow
    });
    (received, seen)
}

/// Whether the peer has closed the connection.
fn is_closed_by_peer(mut client: &TcpStream) -> bool {
    matches!(client.read(&mut [0]), Ok(0) | Err(_))
}

/// Sets a socket option that the standard library has no name for.
fn set<T>(socket: &TcpStream, level: i32, name: i32, value: T) -> std::io::Result<()> {
    // SAFETY: the value lives through the call, and its size is given.
    let result = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, name, value, size_of::<T>() as u32)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Closes a connection with a reset.
fn reset(client: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set(&client, libc::SOL_SOCKET, libc::SO_LINGER, linger).unwrap();
}

#[test]
fn bytes_that_come_one_at_a_time_arrive_as_whole_messages() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    let (_, seen) = poll(&mut receiver, Flow::Taken);
    let sender = Some(client.local_addr().unwrap());
    assert_eq!(seen, [Seen(1, sender, "opened", Vec::new())]);
    for number in 0..3 {
        let bytes = message(number, 40);
        for (index, byte) in bytes.iter().enumerate() {
            client.write_all(&[*byte]).unwrap();
            let flow = if index + 1 == bytes.len() { Flow::Taken } else { Flow::Short };
            let (received, seen) = poll(&mut receiver, flow);
            assert_eq!(seen, [Seen(1, sender, "bytes", bytes[..=index].to_vec())]);
            let taken = if flow == Flow::Taken { (1, 44) } else { (0, 0) };
            assert_eq!((received.arrivals, received.bytes), taken);
        }
    }
    assert_eq!(poll_now(&mut receiver, Flow::Taken), (Received::default(), Vec::new()));
}

#[test]
fn what_was_not_used_is_handed_out_at_once() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    let bytes = [message(1, 10), message(2, 20), message(3, 0), vec![4, 0]].concat();
    client.write_all(&bytes).unwrap();
    poll(&mut receiver, Flow::Taken);
    assert!(receiver.readiness().wait(PATIENCE));
    let mut offered = Vec::new();
    let received = receiver.poll(&mut |arrival| {
        offered.push(arrival.bytes().to_vec());
        first_message(arrival.bytes()).map_or(Flow::Short, Flow::Used)
    });
    assert_eq!(offered, [&bytes[..], &bytes[14..], &bytes[38..], &bytes[42..]]);
    assert_eq!(received, Received { arrivals: 3, bytes: 42, ..Received::default() });
}

#[test]
fn connections_of_two_ports_interleave_and_each_stays_in_its_order() {
    let mut receiver = bind(2);
    let clients = [connect(&receiver, 0), connect(&receiver, 1), connect(&receiver, 1)];
    let addresses = clients.each_ref().map(|client| client.local_addr().unwrap());
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.opened.len() == 3);
    let mut expected = BTreeMap::new();
    for round in 0..50_u8 {
        for (number, mut client) in clients.iter().enumerate() {
            let bytes = message(round ^ number as u8, usize::from(round) * 100 + number);
            client.write_all(&bytes).unwrap();
            expected.entry(addresses[number]).or_insert_with(Vec::new).push(bytes);
        }
    }
    run(&mut receiver, &mut taker, |taker| (2..5).all(|number| taker.messages(number).len() == 50));
    for (endpoint, port) in &taker.opened {
        let sender = taker.senders[endpoint].unwrap();
        assert_eq!(taker.messages(*endpoint), expected[&sender]);
        assert_eq!(*port == 0, sender == addresses[0]);
    }
    assert_eq!(receiver.connections(), 3);
}

#[test]
fn more_connections_at_once_than_one_pass_takes_all_come() {
    let mut receiver = bind(1);
    let clients: Vec<_> = (0..50).map(|_| connect(&receiver, 0)).collect();
    for (number, mut client) in clients.iter().enumerate() {
        client.write_all(&message(number as u8, number)).unwrap();
    }
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| (1..51).all(|number| taker.messages(number).len() == 1));
    assert_eq!(taker.opened, (1..51).map(|number| (number, 0)).collect::<Vec<_>>());
}

#[test]
fn a_held_connection_waits_with_its_sender_while_another_goes_on() {
    const SMALL: usize = 64 * 1024;
    let config = TcpConfig { socket_buffer_bytes: SMALL, ..TcpConfig::default() };
    let mut receiver = TcpReceiver::bind(&[ANY_PORT; 2], config).unwrap();
    let mut taker = Taker { held: Some(2), ..Taker::default() };
    let mut writers = Vec::new();
    for port in 0..2 {
        let mut client = connect(&receiver, port);
        set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, SMALL as i32).unwrap();
        run(&mut receiver, &mut taker, |taker| taker.is_open(2 + port));
        writers.push(thread::spawn(move || {
            for number in 0..=255 {
                client.write_all(&message(number, 40_000)).unwrap();
            }
        }));
    }
    // Once it is held it is not read, so that it offers the same bytes every time.
    run(&mut receiver, &mut taker, |taker| taker.offered.is_some());
    let offered = taker.offered.clone();
    while taker.messages(3).len() < 256 {
        let received = receiver.poll(&mut |arrival| taker.take(arrival));
        assert!(received.held && !received.paused);
        assert!(taker.offered == offered && taker.messages(2).is_empty());
        if taker.messages(3).len() < 256 {
            assert!(receiver.readiness().wait(PATIENCE));
        }
    }
    // What both systems' buffers hold is far less than its sender has.
    assert!(!writers[0].is_finished());
    taker.held = None;
    run(&mut receiver, &mut taker, |taker| taker.is_closed(2) && taker.is_closed(3));
    for endpoint in [2, 3] {
        let expected = (0..=255).map(|number| message(number, 40_000));
        assert!(taker.messages(endpoint).iter().cloned().eq(expected), "{endpoint}");
    }
    assert!(taker.closed.iter().all(|(_, left)| left.is_empty()));
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn a_thread_does_not_wake_for_a_held_connection() {
    for end in [drop, reset] {
        let mut receiver = bind(1);
        let mut client = connect(&receiver, 0);
        client.write_all(&message(7, 10)).unwrap();
        let mut taker = Taker { held: Some(1), ..Taker::default() };
        run(&mut receiver, &mut taker, |taker| taker.offered.is_some());
        assert!(!receiver.readiness().wait(Duration::ZERO));
        client.write_all(&[9; 3]).unwrap();
        assert!(!receiver.readiness().wait(Duration::ZERO));
        // Nor for its end, which the system would report whatever it was asked for.
        end(client);
        for _ in 0..10 {
            assert!(!receiver.readiness().wait(Duration::from_micros(1)));
            let (received, seen) = poll_now(&mut receiver, Flow::Held);
            assert_eq!(received, Received { held: true, ..Received::default() });
            assert_eq!((seen.len(), &seen[0].3), (1, &message(7, 10)));
        }
        // Nothing of it is lost.
        taker.held = None;
        run(&mut receiver, &mut taker, |taker| taker.is_closed(1));
        assert_eq!(taker.messages(1), [message(7, 10)]);
        assert_eq!(taker.closed, [(1, vec![9; 3])]);
    }
}

#[test]
fn a_paused_piece_comes_again_first_of_all_and_alone() {
    let mut receiver = bind(1);
    let mut clients = [connect(&receiver, 0), connect(&receiver, 0)];
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.opened.len() == 2);
    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(&[number as u8 + 1; 100]).unwrap();
    }
    let (received, first) = poll(&mut receiver, Flow::Paused);
    assert_eq!(received, Received { paused: true, ..Received::default() });
    assert_eq!(first.len(), 1);
    // What comes meanwhile does not change it.
    let third = connect(&receiver, 0);
    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(&[number as u8 + 1; 50]).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(poll(&mut receiver, Flow::Paused), (received, first.clone()));
    }
    // Held now, it is not first any more, and still the same.
    let (received, seen) = poll(&mut receiver, Flow::Held);
    assert!(received.held && !received.paused);
    assert_eq!(seen[0], first[0]);
    let mut bytes = BTreeMap::<usize, Vec<u8>>::new();
    let mut opened = Vec::new();
    loop {
        for seen in poll_now(&mut receiver, Flow::Taken).1 {
            match seen.2 {
                "bytes" => bytes.entry(seen.0).or_default().extend(seen.3),
                _ => opened.push(seen),
            }
        }
        if bytes.values().map(Vec::len).sum::<usize>() == 300 && !opened.is_empty() {
            break;
        }
        assert!(receiver.readiness().wait(PATIENCE));
    }
    assert_eq!(bytes, BTreeMap::from([(1, vec![1; 150]), (2, vec![2; 150])]));
    assert_eq!(opened, [Seen(3, Some(third.local_addr().unwrap()), "opened", Vec::new())]);
}

#[test]
fn the_beginning_and_the_end_of_a_connection_can_be_paused_and_held_too() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    let sender = Some(client.local_addr().unwrap());
    client.write_all(&[5; 10]).unwrap();
    drop(client);
    for (kind, bytes) in [("opened", 0), ("bytes", 10), ("closed", 0)] {
        let expected = Seen(1, sender, kind, vec![5; bytes]);
        for flow in [Flow::Paused, Flow::Paused, Flow::Held, Flow::Held, Flow::Paused] {
            let seen = poll_now_or_wait(&mut receiver, flow);
            assert_eq!(seen, std::slice::from_ref(&expected), "{flow:?}");
        }
        // Taken alone: what follows it has its own round.
        let mut taken = false;
        receiver.poll(&mut |arrival| {
            assert!(taken || arrival.bytes() == expected.3);
            if std::mem::replace(&mut taken, true) { Flow::Paused } else { Flow::Taken }
        });
        assert!(taken);
    }
    assert_eq!(receiver.connections(), 0);
    assert_eq!(poll_now(&mut receiver, Flow::Taken), (Received::default(), Vec::new()));
}

/// Polls; if there was nothing, waits first.
fn poll_now_or_wait(receiver: &mut TcpReceiver, flow: Flow) -> Vec<Seen> {
    match poll_now(receiver, flow).1 {
        seen if seen.is_empty() => poll(receiver, flow).1,
        seen => seen,
    }
}

#[test]
fn all_bytes_come_before_the_end() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    let writer = thread::spawn(move || {
        for number in 0..100 {
            client.write_all(&message(number, 30_000)).unwrap();
        }
    });
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.is_closed(1));
    assert!(taker.messages(1).iter().cloned().eq((0..100).map(|n| message(n, 30_000))));
    assert_eq!(taker.closed, [(1, Vec::new())]);
    assert_eq!((receiver.connections(), receiver.take_error()), (0, None));
    writer.join().unwrap();
}

#[test]
fn a_peer_that_sends_no_more_is_still_answered() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    client.write_all(&message(1, 500)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut taker = Taker::default();
    let mut count = 0;
    loop {
        receiver.poll(&mut |arrival| taker.take(arrival));
        receiver.answer(1, &mut |answer| {
            if count < taker.messages(1).len() {
                count = taker.messages(1).len();
                answer.extend_from_slice(b"taken");
            }
        });
        if taker.is_closed(1) {
            break;
        }
        assert!(receiver.readiness().wait(PATIENCE), "what was sent did not come");
    }
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    assert_eq!(answers, b"taken");
    receiver.answer(1, &mut |_| panic!("a connection that is closed is answered"));
    receiver.answer(0, &mut |_| panic!("a port is answered"));
    receiver.answer(usize::MAX, &mut |_| panic!("what never was is answered"));
}

#[test]
fn answers_wait_for_a_peer_that_does_not_read_and_come_whole() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.is_open(1));
    let mut answered = 0;
    let mut answer = |receiver: &mut TcpReceiver| {
        let before = answered;
        receiver.answer(1, &mut |answer| {
            answer.resize(ANSWER_BYTES_MAX, answered);
            answered += 1;
        });
        (answered > before, answered)
    };
    // Until the buffers of both sides are full.
    while answer(&mut receiver).0 {}
    let waiting = answer(&mut receiver).1;
    let reader = thread::spawn(move || {
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        for number in 0..waiting {
            client.read_exact(&mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == number), "answer {number}");
        }
        client
    });
    // Polls pass on what is left of the last answer, while its peer reads.
    while !reader.is_finished() {
        receiver.poll(&mut |arrival| taker.take(arrival));
        receiver.readiness().wait(Duration::from_millis(1));
    }
    let _client = reader.join().unwrap();
    assert!(answer(&mut receiver).0, "there is room again");
}

#[test]
fn a_peer_that_reads_no_answers_is_closed() {
    let mut receiver = bind(1);
    let client = connect(&receiver, 0);
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.is_open(1));
    let mut has_room = true;
    while std::mem::take(&mut has_room) {
        receiver.answer(1, &mut |answer| {
            answer.resize(ANSWER_BYTES_MAX, 0);
            has_room = true;
        });
    }
    run(&mut receiver, &mut taker, |taker| taker.is_closed(1));
    assert!(receiver.take_error().is_some(), "its end is an error");
    drop(client);
}

#[test]
fn half_a_message_is_left_at_the_end() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    client.write_all(&message(1, 500)).unwrap();
    client.write_all(&message(2, 500)[..200]).unwrap();
    drop(client);
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.is_closed(1));
    assert_eq!(taker.messages(1), [message(1, 500)]);
    assert_eq!(taker.closed, [(1, message(2, 500)[..200].to_vec())]);
    assert_eq!(receiver.take_error(), None);
}

#[test]
fn a_reset_connection_is_an_error_that_names_the_peer() {
    let mut receiver = bind(2);
    let mut client = connect(&receiver, 1);
    let address = client.local_addr().unwrap();
    let bytes = [message(1, 8), vec![3; 3]].concat();
    client.write_all(&bytes).unwrap();
    let mut taker = Taker { held: Some(2), ..Taker::default() };
    run(&mut receiver, &mut taker, |taker| taker.offered.as_ref() == Some(&bytes));
    reset(client);
    taker.held = None;
    run(&mut receiver, &mut taker, |taker| taker.is_closed(2));
    assert_eq!(taker.messages(2), [message(1, 8)]);
    assert_eq!(taker.closed, [(2, vec![3; 3])]);
    let (port, error) = receiver.take_error().unwrap();
    assert_eq!(port, Some(1));
    assert!(error.starts_with(&format!("connection from {}: ", address.ip())), "{error}");
    assert_eq!(receiver.take_error(), None);
}

#[test]
fn a_peer_that_is_gone_without_a_word_is_noticed() {
    let mut receiver = bind(1);
    let client = connect(&receiver, 0);
    let address = client.local_addr().unwrap();
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.is_open(1));
    // A socket under repair is closed without a packet.
    if set(&client, libc::IPPROTO_TCP, libc::TCP_REPAIR, 1).is_err() {
        eprintln!("this takes a right that the process does not have: not tested");
        return;
    }
    drop(client);
    run(&mut receiver, &mut taker, |taker| taker.is_closed(1));
    let (_, error) = receiver.take_error().unwrap();
    assert!(error.contains(&address.ip().to_string()), "{error}");
}

#[test]
fn a_refused_connection_is_closed_and_its_end_is_handed_out() {
    let mut receiver = bind(1);
    // Refused as it opens, and as its bytes come.
    for bytes in [0, 30] {
        let mut client = connect(&receiver, 0);
        client.write_all(&vec![1; bytes]).unwrap();
        if bytes > 0 {
            let (_, seen) = poll(&mut receiver, Flow::Taken);
            assert_eq!(seen[0].2, "opened");
        }
        let (received, seen) = poll(&mut receiver, Flow::Refused);
        let kinds: Vec<_> = seen.iter().map(|seen| seen.2).collect();
        assert_eq!(kinds, [if bytes == 0 { "opened" } else { "bytes" }, "closed"]);
        assert_eq!(seen[1].3, vec![1; bytes]);
        assert_eq!(received, Received { arrivals: 1, ..Received::default() });
        assert!(is_closed_by_peer(&client));
        assert_eq!((receiver.connections(), receiver.take_error()), (0, None));
    }
}

#[test]
fn a_message_longer_than_the_buffer_closes_the_connection() {
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    let address = client.local_addr().unwrap();
    let mut good = connect(&receiver, 0);
    let long = message(1, BUFFER_BYTES);
    let writer = thread::spawn(move || {
        // What follows may fail: the connection is closed while it is sent.
        let _sent = client.write_all(&long);
        is_closed_by_peer(&client)
    });
    let mut taker = Taker::default();
    run(&mut receiver, &mut taker, |taker| taker.is_closed(1));
    assert_eq!(taker.closed, [(1, message(1, BUFFER_BYTES)[..BUFFER_BYTES].to_vec())]);
    let error = format!("connection from {}: no message in {BUFFER_BYTES} bytes", address.ip());
    assert_eq!(receiver.take_error(), Some((Some(0), error)));
    assert!(writer.join().unwrap());
    // The longest that fits does, on another connection.
    good.write_all(&message(2, BUFFER_BYTES - 4)).unwrap();
    run(&mut receiver, &mut taker, |taker| taker.messages(2).len() == 1);
    assert_eq!(receiver.take_error(), None);
}

#[test]
fn a_connection_too_many_is_closed_and_named() {
    let config = TcpConfig { connections_max: 2, ..TcpConfig::default() };
    let mut receiver = TcpReceiver::bind(&[ANY_PORT], config).unwrap();
    let mut taker = Taker::default();
    let mut clients = vec![connect(&receiver, 0), connect(&receiver, 0)];
    run(&mut receiver, &mut taker, |taker| taker.opened.len() == 2);
    let third = connect(&receiver, 0);
    assert_eq!(poll(&mut receiver, Flow::Taken), (Received::default(), Vec::new()));
    assert!(is_closed_by_peer(&third));
    let (port, peer) = (receiver.local_addr(0), third.local_addr().unwrap());
    let error = format!("{port}: limit of 2 connections reached: closed one from {}", peer.ip());
    assert_eq!(receiver.take_error(), Some((Some(0), error)));
    // The two go on, and there is room again when one of them ends.
    clients[1].write_all(&message(1, 1)).unwrap();
    drop(clients.remove(0));
    run(&mut receiver, &mut taker, |taker| {
        taker.is_closed(1) && taker.messages(2) == [message(1, 1)]
    });
    let _fourth = connect(&receiver, 0);
    run(&mut receiver, &mut taker, |taker| taker.opened.len() == 3);
    assert_eq!((receiver.connections(), receiver.take_error()), (2, None));
}

#[test]
fn the_lowest_free_number_is_given_again() {
    let mut receiver = bind(2);
    let mut taker = Taker::default();
    let mut clients = BTreeMap::new();
    let open = |receiver: &mut TcpReceiver, taker: &mut Taker, port| {
        let (client, count) = (connect(receiver, port), taker.opened.len() + 1);
        run(receiver, taker, |taker| taker.opened.len() == count);
        (taker.opened[count - 1], client)
    };
    for number in 2..6 {
        let (opened, client) = open(&mut receiver, &mut taker, 0);
        assert_eq!(opened, (number, 0));
        clients.insert(number, client);
    }
    for number in [4, 2] {
        drop(clients.remove(&number));
        run(&mut receiver, &mut taker, |taker| taker.is_closed(number));
    }
    for number in [2, 4, 6] {
        let (opened, mut client) = open(&mut receiver, &mut taker, 1);
        assert_eq!(opened, (number, 1));
        client.write_all(&message(number as u8, 9)).unwrap();
        run(&mut receiver, &mut taker, |taker| taker.messages(number).len() == 1);
        clients.insert(number, client);
    }
    assert_eq!(receiver.connections(), 5);
}

#[test]
fn one_poll_reads_a_buffers_worth_of_each_connection() {
    const BYTES: usize = 3 << 20;
    let mut receiver = bind(1);
    let mut client = connect(&receiver, 0);
    poll(&mut receiver, Flow::Taken);
    let writer = thread::spawn(move || client.write_all(&vec![1; BYTES]).unwrap());
    let mut bytes = 0;
    while bytes < BYTES as u64 {
        let (received, _) = poll(&mut receiver, Flow::Taken);
        assert!(received.bytes <= BUFFER_BYTES as u64);
        assert_eq!(received.more, received.bytes == BUFFER_BYTES as u64);
        bytes += received.bytes;
    }
    assert_eq!(bytes, BYTES as u64);
    writer.join().unwrap();
}

#[test]
fn one_thread_can_wait_for_datagrams_and_connections() {
    let mut udp = UdpReceiver::bind(&[ANY_PORT], ReceiverConfig::default()).unwrap();
    let mut tcp = bind(1);
    let both = Readiness::all(&[udp.readiness(), tcp.readiness()]).unwrap();
    let above = Readiness::all(std::slice::from_ref(&both)).unwrap();
    assert!(!both.wait(Duration::ZERO) && !above.wait(Duration::ZERO));
    let socket = UdpSocket::bind(ANY_PORT).unwrap();
    let mut client = connect(&tcp, 0);
    assert!(both.wait(PATIENCE));
    assert_eq!(poll(&mut tcp, Flow::Taken).0.arrivals, 1);
    for _ in 0..3 {
        assert!(!both.wait(Duration::ZERO) && !above.wait(Duration::ZERO));
        socket.send_to(&[1; 10], udp.local_addr(0)).unwrap();
        assert!(both.wait(PATIENCE) && above.wait(PATIENCE));
        assert_eq!(udp.poll(&mut |_| Flow::Taken).bytes, 10);
        assert!(!both.wait(Duration::ZERO));
        client.write_all(&[1; 20]).unwrap();
        assert!(both.wait(PATIENCE) && above.wait(PATIENCE));
        assert_eq!(poll_now(&mut tcp, Flow::Taken).0.bytes, 20);
    }
    // A receiver that is gone has nothing.
    drop(tcp);
    socket.send_to(&[1; 10], udp.local_addr(0)).unwrap();
    assert!(both.wait(PATIENCE));
    let error = Readiness::all(&[both.clone(), both]).unwrap_err();
    assert!(error.to_string().starts_with("epoll: "), "{error}");
    assert!(!Readiness::all(&[]).unwrap().wait(Duration::ZERO));
}

#[test]
fn a_port_of_both_versions_knows_peers_of_version_4() {
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let Ok(mut receiver) = TcpReceiver::bind(&[address], TcpConfig::default()) else {
        eprintln!("this machine has no IPv6: not tested");
        return;
    };
    let port = receiver.local_addr(0).port();
    let mut taker = Taker::default();
    let mut clients = Vec::new();
    for (endpoint, target) in [(1, "127.0.0.1"), (2, "::1")] {
        let client = TcpStream::connect((target, port)).unwrap();
        run(&mut receiver, &mut taker, |taker| taker.is_open(endpoint));
        assert_eq!(taker.senders[&endpoint], Some(client.local_addr().unwrap()));
        clients.push(client);
    }
}

#[test]
fn an_address_in_use_is_named_in_the_error_and_is_free_again_afterwards() {
    let mut first = bind(1);
    let address = first.local_addr(0);
    let error = TcpReceiver::bind(&[address], TcpConfig::default()).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    // Also where the receiver was the one that closed a connection.
    let client = connect(&first, 0);
    poll(&mut first, Flow::Refused);
    drop(first);
    drop(client);
    assert!(TcpReceiver::bind(&[address], TcpConfig::default()).is_ok());
}
