//! Receiver and sender against each other, over real sockets of this machine.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use catchment_net::{
    Datagram, Network, ReceiverConfig, Refused, Sent, UdpReceiver, UdpSender, Work,
    raise_open_files,
};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Nothing takes so long: reached only when what was sent never comes.
const PATIENCE: Duration = Duration::from_secs(1_200);

fn config() -> ReceiverConfig {
    ReceiverConfig { coalesce_us: 0, ..ReceiverConfig::default() }
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

fn receive(receiver: &mut UdpReceiver, count: usize) -> (Vec<(usize, Vec<u8>)>, Work) {
    let mut got = Vec::new();
    let mut total = Work::default();
    while got.len() < count {
        let work =
            receiver.poll(PATIENCE, |index, bytes| got.push((index, bytes.to_vec()))).unwrap();
        assert!(work.datagrams > 0, "only {} of {count} datagrams came", got.len());
        total.add(&work);
    }
    (got, total)
}

fn check_sizes(sizes: &[usize]) -> Sent {
    let (mut receiver, mut sender) = pair(1, config());
    let (buffer, datagrams) = batch(sizes);
    let sent = sender.send(0, &buffer, &datagrams);
    assert_eq!((sent.datagrams, sent.unsent), (sizes.len() as u64, 0));
    assert_eq!(sent.bytes, buffer.len() as u64);
    let (got, work) = receive(&mut receiver, sizes.len());
    for (number, ((_, bytes), &size)) in got.iter().zip(sizes).enumerate() {
        assert_eq!(bytes, &vec![number as u8; size], "datagram {number}");
    }
    assert_eq!((work.datagrams, work.bytes), (sent.datagrams, sent.bytes));
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
    let (got, _) = receive(&mut receiver, 3);
    assert_eq!(got.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(), [0, 2, 3]);
}

#[test]
fn datagrams_can_be_sent_twice_and_out_of_their_order_in_memory() {
    let (mut receiver, mut sender) = pair(1, config());
    let (buffer, datagrams) = batch(&[50; 4]);
    let order = [2, 2, 0, 1, 3, 3, 2];
    let sent = sender.send(0, &buffer, &order.map(|n| datagrams[n]));
    assert_eq!(sent.datagrams, 7);
    let (got, _) = receive(&mut receiver, 7);
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
    let (got, work) = receive(&mut receiver, 2 * sockets);
    assert!(got.iter().all(|(index, bytes)| bytes == &(*index as u32).to_le_bytes()));
    let mut counts = vec![0; sockets];
    got.iter().for_each(|(index, _)| counts[*index] += 1);
    assert!(counts.iter().all(|count| *count == 2));
    assert_eq!((work.datagrams, work.errors, work.truncated), (2 * sockets as u64, 0, 0));
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let small = ReceiverConfig { socket_buffer_bytes: 8_192, ..config() };
    let (mut receiver, mut sender) = pair(2, small);
    // No two neighbours of equal or falling size, so that each is a packet of its own.
    let sizes: Vec<usize> = (0..200).map(|n| 1_000 + n).collect();
    let (buffer, datagrams) = batch(&sizes);
    assert_eq!(sender.send(1, &buffer, &datagrams).datagrams, 200);
    let mut received = 0;
    receiver.drain(u64::MAX, |_, _| received += 1).unwrap();
    assert!(received > 0 && received < 200);

    // The drops came after the last datagram that fitted: only the kernel's counter has them yet.
    let mut dropped = 0;
    receiver.take_drops(|_, count| dropped += count);
    assert_eq!(dropped, 0);
    receiver.refresh_drops();
    receiver.take_drops(|index, count| {
        assert_eq!(index, 1);
        dropped += count;
    });
    assert_eq!(received + dropped, 200);
    receiver.refresh_drops();
    receiver.take_drops(|_, count| panic!("{count} drops were told twice"));
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
        receiver.drain(u64::MAX, |_, _| received += 1).unwrap();
    }
    assert_eq!(sender.send(0, &buffer, &datagrams[..1]).datagrams, 1);
    received += receive(&mut receiver, 1).0.len() as u64;
    let mut dropped = 0;
    receiver.take_drops(|_, count| dropped += count);
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
        receiver.poll(PATIENCE, |index, _| pass[index] += 1).unwrap();
        assert!(pass[0] <= 16 && pass != [0, 0], "{pass:?}");
        counts = [counts[0] + pass[0], counts[1] + pass[1]];
    }
}

#[test]
fn nothing_to_receive_ends_the_wait_without_work() {
    let mut receiver = UdpReceiver::bind(&[ANY_PORT], ReceiverConfig::default()).unwrap();
    for wait in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(3)] {
        let work = receiver.poll(wait, |_, _| panic!("a datagram from nowhere")).unwrap();
        assert_eq!(work, Work::default());
    }
}

#[test]
fn spinning_and_sleeping_lose_nothing() {
    for (spin_us, coalesce_us) in [(100, 0), (0, 100), (50, 50)] {
        let (mut receiver, mut sender) =
            pair(3, ReceiverConfig { spin_us, coalesce_us, ..ReceiverConfig::default() });
        let (buffer, datagrams) = batch(&[64; 100]);
        for round in 0..20 {
            sender.send(round % 3, &buffer, &datagrams);
            assert_eq!(receive(&mut receiver, 100).0.len(), 100);
        }
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
    assert_eq!(receive(&mut receiver, 100).0.len(), 100);
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
    assert_eq!(receive(&mut receiver, 70).0.len(), 70);
}

#[test]
fn the_granted_buffer_is_reported_and_a_smaller_one_warned_of() {
    let receiver = UdpReceiver::bind(&[ANY_PORT], config()).unwrap();
    let small = receiver.granted_bytes(0) < config().socket_buffer_bytes;
    assert!(receiver.granted_bytes(0) > 0);
    assert_eq!(receiver.buffer_warning().is_some(), small);
}

fn networks(texts: &[&str]) -> Vec<Network> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A socket that sends to the receiver's first from that address.
fn sender_at(address: &str, receiver: &UdpReceiver) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect(receiver.local_addr(0)).unwrap();
    socket
}

/// Takes datagrams until so many have come or been refused: the first bytes of those that came.
fn firsts(receiver: &mut UdpReceiver, count: u64) -> (Vec<u8>, Work) {
    let (mut got, mut total) = (Vec::new(), Work::default());
    while total.datagrams + total.refused < count {
        let work = receiver.poll(PATIENCE, |_, bytes| got.push(bytes[0])).unwrap();
        assert!(work.messages > 0, "{total:?}");
        total.add(&work);
    }
    (got, total)
}

#[test]
fn a_restricted_socket_takes_datagrams_from_its_networks_alone_and_counts_the_others() {
    let mut receiver = UdpReceiver::bind(&[ANY_PORT; 2], config()).unwrap();
    receiver.restrict(0, &networks(&["10.0.0.0/8", "127.0.0.2"]));
    let (friend, stranger) = (sender_at("127.0.0.2", &receiver), sender_at("127.0.0.3", &receiver));
    let mut open = UdpSender::connect(&[receiver.local_addr(1)]).unwrap();
    for round in 0..50_u8 {
        friend.send(&[round; 100]).unwrap();
        stranger.send(&[200; 70]).unwrap();
        // The other socket shares the thread and its buffers, and takes from everybody.
        let (buffer, datagrams) = batch(&[9; 3]);
        open.send(0, &buffer, &datagrams);
    }
    let (mut got, work) = firsts(&mut receiver, 50 * 5);
    got.retain(|&first| first != 0 && first != 1 && first != 2);
    assert_eq!(got, (3..50).collect::<Vec<_>>());
    assert_eq!((work.datagrams, work.refused), (50 * 4, 50));
    assert_eq!(work.bytes, 50 * (100 + 27));
    let mut refused = Vec::new();
    receiver.take_refused(|socket, one| refused.push((socket, one)));
    let sender = Some("127.0.0.3".parse().unwrap());
    assert_eq!(refused, [(0, Refused { datagrams: 50, bytes: 50 * 70, sender })]);
    receiver.take_refused(|_, one| panic!("{one:?} a second time"));
    // Nobody is refused any more once the socket is open to everybody.
    receiver.restrict(0, &[]);
    stranger.send(&[7]).unwrap();
    assert_eq!(firsts(&mut receiver, 1).0, [7]);
}

#[test]
fn a_run_of_datagrams_that_the_kernel_merged_is_refused_whole_and_counted_one_by_one() {
    let (mut receiver, mut sender) = pair(1, config());
    receiver.restrict(0, &networks(&["127.0.0.2"]));
    let (buffer, datagrams) = batch(&[300; 70]);
    assert_eq!(sender.send(0, &buffer, &datagrams).datagrams, 70);
    let (got, work) = firsts(&mut receiver, 70);
    assert!(got.is_empty() && work.refused == 70 && work.messages < 70, "{work:?}");
    let mut bytes = 0;
    receiver.take_refused(|_, one| bytes += one.bytes);
    assert_eq!(bytes, 70 * 300);
    assert_eq!(receiver.drain(1, |_, _| panic!("nothing is left")).unwrap(), Work::default());
}

#[test]
fn a_socket_of_both_versions_knows_senders_of_version_4() {
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let Ok(mut receiver) = UdpReceiver::bind(&[address], config()) else {
        eprintln!("this machine has no IPv6: not tested");
        return;
    };
    receiver.restrict(0, &networks(&["127.0.0.2", "::1"]));
    let port = receiver.local_addr(0).port();
    for (from, to) in [("127.0.0.2", "127.0.0.1"), ("127.0.0.3", "127.0.0.1"), ("::1", "::1")] {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.send_to(from.as_bytes(), (to, port)).unwrap();
    }
    let (got, work) = firsts(&mut receiver, 3);
    assert_eq!((got, work.refused), (b"1:".to_vec(), 1));
    let mut sender = None;
    receiver.take_refused(|_, one| sender = one.sender);
    assert_eq!(sender, Some("127.0.0.3".parse().unwrap()));
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
