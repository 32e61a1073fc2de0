//! A connection that is closed behind an answer, over a real socket.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use catchment_agent::{Arrival, Egress as _, Flow, Ingress as _, Piece};
use catchment_net::{TcpConfig, TcpReceiver};

/// Nothing takes so long: reached only when what was sent never comes.
const PATIENCE: Duration = Duration::from_secs(1_200);

#[test]
fn a_peer_reads_its_last_answer_whatever_it_still_sends() {
    let address = "127.0.0.1:0".parse().unwrap();
    let mut receiver = TcpReceiver::bind(&[address], TcpConfig::default()).unwrap();
    let mut client = TcpStream::connect(receiver.local_addr(0)).unwrap();
    client.write_all(b"first").unwrap();
    let (mut has_come, mut is_closed) = (false, false);
    let mut poll = |receiver: &mut TcpReceiver| {
        receiver.poll(&mut |Arrival { piece, .. }| {
            has_come |= matches!(piece, Piece::Bytes(_));
            is_closed |= matches!(piece, Piece::Closed { .. });
            Flow::Taken
        });
        (has_come, is_closed)
    };
    while !poll(&mut receiver).0 {
        assert!(receiver.readiness().wait(PATIENCE), "what was sent did not come");
    }
    // What nobody reads would reset a connection that is simply closed.
    client.write_all(b"second").unwrap();
    receiver.answer(1, &mut |answer| answer.extend_from_slice(b"the last word"));
    receiver.close(1);
    while !poll(&mut receiver).1 {}
    assert!(receiver.lingers());
    client.write_all(b"third").unwrap();
    poll(&mut receiver);
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    assert_eq!(answers, b"the last word");
    drop(client);
    while receiver.lingers() {
        poll(&mut receiver);
    }
}
