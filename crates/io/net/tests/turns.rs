//! Sockets take turns where there is not room for all that they have.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use catchment_agent::{Arrival, Flow, Ingress, Piece};
use catchment_net::{Datagram, ReceiverConfig, TcpConfig, TcpReceiver, UdpReceiver, UdpSender};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const SOCKETS: usize = 3;
const BYTES: usize = 100;

/// Polls with room for one piece each time, after `send` has sent more to all, and returns how many
/// came of each socket, the first of which has the number `first`.
fn taken(receiver: &mut dyn Ingress, first: usize, mut send: impl FnMut()) -> [usize; SOCKETS] {
    let mut taken = [0; SOCKETS];
    for _ in 0..SOCKETS * 200 {
        send();
        let mut has_room = true;
        receiver.poll(&mut |Arrival { endpoint, piece, .. }| {
            let used = match piece {
                Piece::Opened { .. } => return Flow::Taken,
                Piece::Datagrams(datagrams) => datagrams.bytes().len(),
                Piece::Bytes(bytes) => bytes.len(),
                _ => panic!("nothing else was sent"),
            };
            if !std::mem::take(&mut has_room) {
                return Flow::Paused;
            }
            taken[endpoint - first] += 1;
            Flow::Used(used)
        });
    }
    taken
}

#[test]
fn no_socket_starves_where_the_sink_has_room_for_one_piece_at_a_time() {
    let config = ReceiverConfig::default();
    let mut receiver = UdpReceiver::bind(&[ANY_PORT; SOCKETS], config).unwrap();
    let targets = [0, 1, 2].map(|index| receiver.local_addr(index));
    let mut sender = UdpSender::connect(&targets).unwrap();
    let datagram = [Datagram { offset: 0, bytes: BYTES as u32 }];
    let send = || {
        (0..SOCKETS).for_each(|to| assert_eq!(sender.send(to, &[0; BYTES], &datagram).unsent, 0));
    };
    let taken = taken(&mut receiver, 0, send);
    assert!(taken.iter().all(|&count| count >= 100), "{taken:?}");
}

#[test]
fn no_connection_starves_where_the_sink_has_room_for_one_piece_at_a_time() {
    let mut receiver = TcpReceiver::bind(&[ANY_PORT], TcpConfig::default()).unwrap();
    let connect = |_| TcpStream::connect(receiver.local_addr(0)).unwrap();
    let mut clients = [0, 1, 2].map(connect);
    let send = || clients.iter_mut().for_each(|one| one.write_all(&[0; BYTES]).unwrap());
    let taken = taken(&mut receiver, 1, send);
    assert!(taken.iter().all(|&count| count >= 100), "{taken:?}");
}
