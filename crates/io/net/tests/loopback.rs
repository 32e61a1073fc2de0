//! Receiver and sender against each other, over real sockets of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use catchment_agent::{Flow, Ingress as _, Received};
use catchment_net::{Datagram, ReceiverConfig, Sent, UdpReceiver, UdpSender, raise_open_files};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Nothing takes so long: reached only when what was sent never comes.
const PATIENCE: Duration = Duration::from_secs(1_200);

fn config() -> ReceiverConfig {
    ReceiverConfig::default()
}

fn pair(sockets: usize, config: ReceiverConfig) -> (UdpReceiver, UdpSender) {
    let receiver = UdpReceiver::bind(&vec![ANY_PORT; sockets], config).unwrap();
    let targets: Vec<_> = (0..sockets).map(|index| receiver.local_addr(index)).collect();
    (receiver, UdpSender::connect(&targets).unwrap())
}

/// Datagrams one behind the other, each filled with its own number.
fn batch(sizes: &[usize]) -> (Vec<u8>, Vec<Datagram>) {
    let mut buffer = Vec::new();
    let mut datagrams = Vec::new();
    for (number, &bytes) in sizes.iter().enumerate() {
        datagrams.push(Datagram { offset: buffer.len() as u32, bytes: bytes as u32 });
        buffer.resize(buffer.len() + bytes, number as u8);
    }
    (buffer, datagrams)
}

/// Waits for something and polls once.
fn poll(receiver: &mut UdpReceiver, mut sink: impl FnMut(usize, &[u8])) -> Received {
    receiver.readiness().wait(PATIENCE);
    receiver.poll(&mut |arrival| {
        arrival.datagrams().for_each(|bytes| sink(arrival.endpoint, bytes));
        Flow::Taken
    })
}

fn receive(receiver: &mut UdpReceiver, count: usize) -> Vec<(usize, Vec<u8>)> {
    let (mut got, mut bytes_taken) = (Vec::new(), 0);
    while got.len() < count {
        let received = poll(receiver, |index, bytes| got.push((index, bytes.to_vec())));
        assert!(received.arrivals > 0, "only {} of {count} datagrams came", got.len());
        bytes_taken += received.bytes;
    }
    assert_eq!(bytes_taken, got.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
    got
}

/// Takes what is in the sockets' buffers now: how many datagrams.
fn drain(receiver: &mut UdpReceiver) -> u64 {
    let poll = || Some(receiver.poll(&mut |_| Flow::Taken).arrivals).filter(|&taken| taken > 0);
    std::iter::from_fn(poll).sum()
}

fn check_sizes(sizes: &[usize]) -> Sent {
    let (mut receiver, mut sender) = pair(1, config());
    let (buffer, datagrams) = batch(sizes);
    let sent = sender.send(0, &buffer, &datagrams);
    assert_eq!((sent.datagrams, sent.unsent), (sizes.len() as u64, 0));
    assert_eq!(sent.bytes, buffer.len() as u64);
    let got = receive(&mut receiver, sizes.len());
    for (number, ((_, bytes), &size)) in got.iter().zip(sizes).enumerate() {
        assert_eq!(bytes, &vec![number as u8; size], "datagram {number}");
    }
    sent
}

#[test]
fn a_run_of_equal_datagrams_arrives_one_by_one() {
    assert_eq!(check_sizes(&[172; 200]).calls, 1);
}

#[test]
fn a_run_with_a_shorter_end_arrives_one_by_one() {
    assert_eq!(check_sizes(&[900, 900, 900, 100, 900, 900, 1]).calls, 1);
}

#[test]
fn datagrams_of_all_sizes_arrive_in_order() {
    let sizes: Vec<usize> = (0..150).map(|n| 40 + n * 37 % 1_500).collect();
    check_sizes(&sizes);
}

#[test]
fn an_empty_datagram_is_a_datagram() {
    check_sizes(&[0]);
    check_sizes(&[10, 0, 0, 10]);
}

#[test]
fn the_longest_datagram_arrives_whole() {
    check_sizes(&[65_507, 65_507, 1]);
}

#[test]
fn a_datagram_too_long_is_counted_as_unsent_and_the_others_go() {
    let (mut receiver, mut sender) = pair(1, config());
    let (buffer, datagrams) = batch(&[100, 65_508, 100, 200]);
    let sent = sender.send(0, &buffer, &datagrams);
    assert_eq!((sent.datagrams, sent.unsent, sent.bytes), (3, 1, 400));
    let got = receive(&mut receiver, 3);
    assert_eq!(got.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(), [0, 2, 3]);
}

#[test]
fn datagrams_can_be_sent_twice_and_out_of_their_order_in_memory() {
    let (mut receiver, mut sender) = pair(1, config());
    let (buffer, datagrams) = batch(&[50; 4]);
    let order = [2, 2, 0, 1, 3, 3, 2];
    let sent = sender.send(0, &buffer, &order.map(|n| datagrams[n]));
    assert_eq!(sent.datagrams, 7);
    let got = receive(&mut receiver, 7);
    assert!(got.iter().zip(order).all(|((_, bytes), n)| bytes == &[n as u8; 50]));
}

#[test]
fn each_of_a_thousand_sockets_gets_what_was_sent_to_it() {
    // Each has a sender's socket beside it.
    let sockets = if raise_open_files() > 2_200 { 1_000 } else { 200 };
    let (mut receiver, mut sender) = pair(sockets, config());
    for target in 0..sockets {
        let number = (target as u32).to_le_bytes();
        let twice = [Datagram { offset: 0, bytes: 4 }; 2];
        assert_eq!(sender.send(target, &number, &twice).datagrams, 2);
    }
    let got = receive(&mut receiver, 2 * sockets);
    assert!(receiver.take_error().is_none());
    assert!(got.iter().all(|(index, bytes)| bytes == &(*index as u32).to_le_bytes()));
    let mut counts = vec![0; sockets];
    got.iter().for_each(|(index, _)| counts[*index] += 1);
    assert!(counts.iter().all(|count| *count == 2));
    assert_eq!(got.len(), 2 * sockets);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let small = ReceiverConfig { socket_buffer_bytes: 8_192, ..config() };
    let (mut receiver, mut sender) = pair(2, small);
    // No two neighbours of equal or falling size, so that each is a packet of its own.
    let sizes: Vec<usize> = (0..200).map(|n| 1_000 + n).collect();
    let (buffer, datagrams) = batch(&sizes);
    assert_eq!(sender.send(1, &buffer, &datagrams).datagrams, 200);
    let received = drain(&mut receiver);
    assert!(received > 0 && received < 200);

    // The drops came after the last datagram that fitted: only the kernel's counter has them yet.
    let mut dropped = 0;
    receiver.take_drops(&mut |_, count| dropped += count);
    assert_eq!(dropped, 0);
    receiver.refresh_drops();
    receiver.take_drops(&mut |index, count| {
        assert_eq!(index, 1);
        dropped += count;
    });
    assert_eq!(received + dropped, 200);
    receiver.refresh_drops();
    receiver.take_drops(&mut |_, count| panic!("{count} drops were told twice"));
}

#[test]
fn the_next_datagram_tells_of_drops_before_it() {
    let small = ReceiverConfig { socket_buffer_bytes: 8_192, ..config() };
    let (mut receiver, mut sender) = pair(1, small);
    let sizes: Vec<usize> = (0..200).map(|n| 1_000 + n).collect();
    let (buffer, datagrams) = batch(&sizes);
    let mut received = 0;
    for _ in 0..3 {
        sender.send(0, &buffer, &datagrams);
        received += drain(&mut receiver);
    }
    assert_eq!(sender.send(0, &buffer, &datagrams[..1]).datagrams, 1);
    received += receive(&mut receiver, 1).len() as u64;
    let mut dropped = 0;
    receiver.take_drops(&mut |_, count| dropped += count);
    assert_eq!(received + dropped, 601);
}

#[test]
fn a_busy_socket_takes_only_a_few_batches_from_the_others() {
    let few = ReceiverConfig { arena_messages: 4, ..config() };
    let (mut receiver, mut sender) = pair(2, few);
    let sizes: Vec<usize> = (0..200).map(|n| 100 + n).collect();
    let (buffer, datagrams) = batch(&sizes);
    sender.send(0, &buffer, &datagrams);
    sender.send(1, &buffer, &datagrams[..1]);
    let mut counts = [0; 2];
    while counts != [200, 1] {
        let mut pass = [0; 2];
        poll(&mut receiver, |index, _| pass[index] += 1);
        assert!(pass[0] <= 16 && pass != [0, 0], "{pass:?}");
        counts = [counts[0] + pass[0], counts[1] + pass[1]];
    }
}

#[test]
fn nothing_to_receive_ends_the_wait_without_work() {
    let mut receiver = UdpReceiver::bind(&[ANY_PORT], ReceiverConfig::default()).unwrap();
    for wait in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(3)] {
        receiver.readiness().wait(wait);
        let received = receiver.poll(&mut |_| panic!("a datagram from nowhere"));
        assert_eq!(received, Received::default());
    }
}

#[test]
fn a_target_where_nobody_listens_stops_no_other() {
    let closed = UdpSocket::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let mut receiver = UdpReceiver::bind(&[ANY_PORT], config()).unwrap();
    let mut sender = UdpSender::connect(&[closed, receiver.local_addr(0)]).unwrap();
    let sizes: Vec<usize> = (0..100).map(|n| 10 + n).collect();
    let (buffer, datagrams) = batch(&sizes);
    let refused = sender.send(0, &buffer, &datagrams);
    assert_eq!(refused.datagrams + refused.unsent, 100);
    assert_eq!(sender.send(1, &buffer, &datagrams).datagrams, 100);
    assert_eq!(receive(&mut receiver, 100).len(), 100);
}

#[test]
fn an_address_in_use_is_named_in_the_error() {
    let first = UdpReceiver::bind(&[ANY_PORT], config()).unwrap();
    let address = first.local_addr(0);
    let error = UdpReceiver::bind(&[address], config()).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn sockets_of_ip_version_6_work_too() {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if UdpSocket::bind(address).is_err() {
        eprintln!("this machine has no IPv6: not tested");
        return;
    }
    let mut receiver = UdpReceiver::bind(&[address], config()).unwrap();
    let mut sender = UdpSender::connect(&[receiver.local_addr(0)]).unwrap();
    let (buffer, datagrams) = batch(&[300; 70]);
    assert_eq!(sender.send(0, &buffer, &datagrams).datagrams, 70);
    assert_eq!(receive(&mut receiver, 70).len(), 70);
}

#[test]
fn the_granted_buffer_is_reported_and_a_smaller_one_warned_of() {
    let receiver = UdpReceiver::bind(&[ANY_PORT], config()).unwrap();
    let small = receiver.granted_bytes(0) < config().socket_buffer_bytes;
    assert!(receiver.granted_bytes(0) > 0);
    assert_eq!(receiver.buffer_warning().is_some(), small);
}

/// Takes so many datagrams: who sent each, and its first byte.
fn senders(receiver: &mut UdpReceiver, count: usize) -> Vec<(Option<SocketAddr>, u8)> {
    let readiness = receiver.readiness();
    let mut got = Vec::new();
    while got.len() < count {
        readiness.wait(PATIENCE);
        receiver.poll(&mut |arrival| {
            got.extend(arrival.datagrams().map(|bytes| (arrival.sender, bytes[0])));
            Flow::Taken
        });
    }
    got
}

#[test]
fn senders_are_named_where_that_was_asked_for_and_nowhere_else() {
    let mut receiver = UdpReceiver::bind(&[ANY_PORT; 2], config()).unwrap();
    receiver.name_senders(0);
    let socket = UdpSocket::bind("127.0.0.2:0").unwrap();
    let mut open = UdpSender::connect(&[receiver.local_addr(1)]).unwrap();
    for round in 0..50_u8 {
        socket.send_to(&[round; 100], receiver.local_addr(0)).unwrap();
        // The other socket shares the thread and its buffers.
        let (buffer, datagrams) = batch(&[9; 3]);
        open.send(0, &buffer, &datagrams);
    }
    let mut got = senders(&mut receiver, 50 * 4);
    let named = Some(socket.local_addr().unwrap());
    got.retain(|(sender, _)| sender.is_some());
    assert_eq!(got, (0..50).map(|round| (named, round)).collect::<Vec<_>>());
}

#[test]
fn a_socket_of_both_versions_knows_senders_of_version_4() {
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let Ok(mut receiver) = UdpReceiver::bind(&[address], config()) else {
        eprintln!("this machine has no IPv6: not tested");
        return;
    };
    receiver.name_senders(0);
    let port = receiver.local_addr(0).port();
    let mut expected = Vec::new();
    for (number, from, to) in [(1, "127.0.0.2", "127.0.0.1"), (2, "::1", "::1")] {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.send_to(&[number], (to, port)).unwrap();
        expected.push((Some(socket.local_addr().unwrap()), number));
    }
    assert_eq!(senders(&mut receiver, 2), expected);
}

#[test]
fn what_there_is_no_room_for_is_handed_out_again_first_of_all() {
    let (mut receiver, mut sender) = pair(2, config());
    // Merged runs among them.
    let sizes: Vec<usize> = (0..120).map(|n| if n < 60 { 50 } else { 40 + n }).collect();
    let (buffer, datagrams) = batch(&sizes);
    for target in 0..2 {
        assert_eq!(sender.send(target, &buffer, &datagrams).datagrams, 120);
    }
    let mut got = [Vec::new(), Vec::new()];
    let mut room = 0;
    while got.iter().any(|got| got.len() < 120) {
        // More room every time, so that it pauses within runs and between messages.
        room = room % 7 + 1;
        let mut left = room;
        let received = receiver.poll(&mut |arrival| {
            let mut used = 0;
            for bytes in arrival.datagrams() {
                if left == 0 {
                    return if used == 0 { Flow::Paused } else { Flow::Used(used) };
                }
                left -= 1;
                used += bytes.len();
                got[arrival.endpoint].push(bytes.to_vec());
            }
            Flow::Taken
        });
        assert!(received.arrivals <= room);
    }
    let expected = |n: usize| vec![n as u8; sizes[n]];
    for got in got {
        assert_eq!(got, (0..120).map(expected).collect::<Vec<_>>());
    }
}

#[test]
fn a_gauge_tells_how_full_a_buffer_is_until_the_socket_is_closed() {
    let (mut receiver, mut sender) = pair(2, config());
    let gauges = [receiver.gauge(0), receiver.gauge(1)];
    let Some(empty) = gauges[0].fill() else {
        eprintln!("this kernel does not say (SO_MEMINFO): not tested");
        return;
    };
    assert!(empty <= 0.0, "{empty}");
    let (buffer, datagrams) = batch(&[1_000; 60]);
    assert_eq!(sender.send(0, &buffer, &datagrams).datagrams, 60);
    let full = gauges[0].fill().unwrap();
    assert!(full > 0.0 && full <= 1.0, "{full}");
    assert_eq!(gauges[1].fill(), Some(0.0));
    receive(&mut receiver, 60);
    assert!(gauges[0].fill().unwrap() < full);
    let address = receiver.local_addr(0);
    drop(receiver);
    assert_eq!(gauges[0].fill(), None);
    // And the address is free.
    assert!(UdpReceiver::bind(&[address], config()).is_ok());
}
