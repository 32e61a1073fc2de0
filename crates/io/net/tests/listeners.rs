//! Several listeners of one port, in the clear and under TLS, over real sockets of this machine.

use std::collections::BTreeMap;
use std::io::{IoSlice, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use catchment_agent::{Arrival, Flow, Ingress as _, Piece};
use catchment_net::{Stream, TcpConfig, TcpPort, TcpReceiver, TlsClient, TlsServer};

/// Nothing takes so long: reached only when what was sent never comes.
const PATIENCE: Duration = Duration::from_secs(1_200);
const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A connection, as its sink sees it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// The port that it came to, and by which listener.
    by: (usize, usize),
    is_secured: bool,
    bytes: Vec<u8>,
}

/// Takes what comes until that many bytes are there; by endpoint.
fn receive(receiver: &mut TcpReceiver, all: &mut BTreeMap<usize, Seen>, bytes: usize) {
    let readiness = receiver.readiness();
    while all.values().map(|seen| seen.bytes.len()).sum::<usize>() < bytes {
        receiver.poll(&mut |Arrival { endpoint, piece, .. }| {
            match piece {
                Piece::Opened { port, listener } => {
                    all.insert(endpoint, Seen { by: (port, listener), ..Seen::default() });
                }
                Piece::Secured => {
                    let seen = all.get_mut(&endpoint).unwrap();
                    assert!(!seen.is_secured && seen.bytes.is_empty(), "once, before the bytes");
                    seen.is_secured = true;
                }
                Piece::Bytes(bytes) => all.get_mut(&endpoint).unwrap().bytes.extend(bytes),
                _ => {}
            }
            Flow::Taken
        });
        assert_eq!(receiver.take_error(), None);
        readiness.wait(PATIENCE.min(Duration::from_millis(20)));
    }
}

#[test]
fn the_first_byte_tells_whether_a_connection_is_under_tls_and_each_names_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("certificate"), folder.path().join("key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = TlsServer::for_links(&certificate, &key).unwrap();
    let client = TlsClient::trusting(&certificate).unwrap();
    let config = TcpConfig { tls: Some(server), takes_clear: true, ..TcpConfig::default() };
    let ports = [(2, true), (1, false)]
        .map(|(count, takes_tls)| TcpPort { addresses: vec![ANY_PORT; count], takes_tls });
    let mut receiver = TcpReceiver::listen(&ports, config).unwrap();
    let addresses: Vec<SocketAddr> = receiver.addresses_of(0).collect();
    assert_eq!((addresses.len(), receiver.local_addr(0)), (2, addresses[0]));
    let last = receiver.local_addr(1);

    // It says nothing for a while: its port and listener are known before it is known what it is.
    let mut all = BTreeMap::new();
    let mut clear = TcpStream::connect(addresses[1]).unwrap();
    while receiver.connections() == 0 {
        receive_nothing(&mut receiver, &mut all);
    }
    assert_eq!(all[&2], Seen { by: (0, 1), ..Seen::default() });
    clear.write_all(b"in the clear").unwrap();
    receive(&mut receiver, &mut all, 12);

    let secured = thread::spawn(move || {
        let socket = TcpStream::connect(addresses[0]).unwrap();
        let mut stream = Stream::connected(socket, &client, "localhost").unwrap();
        assert_eq!(stream.write_vectored(&[IoSlice::new(b"under TLS")]).unwrap(), 9);
        while !stream.flush().unwrap() {}
        stream
    });
    receive(&mut receiver, &mut all, 21);
    let _stream = secured.join().unwrap();
    // Where TLS is not taken, its first byte is one as others.
    let mut other = TcpStream::connect(last).unwrap();
    other.write_all(&[0x16, 1, 2]).unwrap();
    receive(&mut receiver, &mut all, 24);
    let seen = |by, is_secured, bytes: &[u8]| Seen { by, is_secured, bytes: bytes.to_vec() };
    let expected = [
        seen((0, 1), false, b"in the clear"),
        seen((0, 0), true, b"under TLS"),
        seen((1, 0), false, &[0x16, 1, 2]),
    ];
    assert!(all.keys().copied().eq(2..5), "connections have the numbers behind the ports");
    assert!(all.into_values().eq(expected));
}

fn receive_nothing(receiver: &mut TcpReceiver, all: &mut BTreeMap<usize, Seen>) {
    receiver.poll(&mut |Arrival { endpoint, piece, .. }| {
        let Piece::Opened { port, listener } = piece else { panic!("{piece:?}") };
        all.insert(endpoint, Seen { by: (port, listener), ..Seen::default() });
        Flow::Taken
    });
}
