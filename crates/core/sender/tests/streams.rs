//! The session of a stream of frames: when it connects, and what it says of a node that it cannot
//! reach.

use catchment_sender::{
    Action, Connection, LeftOfStream, SenderState, StreamConfig, StreamSession,
};
use catchment_wire::session::{
    Bye, ByeReason, Connection as Line, Encoder, Fault, Grant, GrantAnswer, Grants, LogPositions,
    NONE, Positions, Preamble, RunState, Service, Welcome,
};
use catchment_wire::storage_link::{Left, LeftPart};

const MS: u64 = 1_000_000;

fn session() -> StreamSession {
    let config = StreamConfig {
        name: "run-1".to_owned(),
        program: "test".to_owned(),
        token: String::new(),
        run: [1; 16],
        stream: 0,
        variant: 0,
        buffer_bytes: 1 << 20,
        first: 0,
        is_dealt: false,
    };
    StreamSession::new(config, 7, 11).unwrap()
}

/// Connects, as it must now, and is told so.
fn connects(session: &mut StreamSession, now_ns: u64) {
    let action = session.work(now_ns).action;
    assert!(matches!(action, Some(Action::Connect(Connection::Control))), "{action:?}");
}

/// Closes as it asks for, and returns when it connects again.
fn away_until(session: &mut StreamSession, now_ns: u64) -> u64 {
    assert!(matches!(session.work(now_ns).action, Some(Action::Close)));
    let step = session.work(now_ns);
    assert!(step.action.is_none(), "it waits first");
    step.wake_at_ns
}

fn preamble() -> Vec<u8> {
    let preamble = Preamble {
        session_min: 1,
        session_max: 1,
        service: Service::Storage,
        service_min: 1,
        service_max: 1,
        connection: Line::Control,
    };
    preamble.encode().to_vec()
}

fn why(session: &StreamSession) -> String {
    match session.state() {
        SenderState::Away(why) => why.to_string(),
        state => panic!("{state:?}"),
    }
}

#[test]
fn attempts_grow_apart_to_a_bound_and_a_run_that_ends_waits_for_none() {
    let (mut session, mut now_ns, mut waits) = (session(), 0, Vec::new());
    for _ in 0..12 {
        connects(&mut session, now_ns);
        session.closed(now_ns, Connection::Control, "Connection refused");
        let until_ns = away_until(&mut session, now_ns);
        waits.push(until_ns - now_ns);
        now_ns = until_ns;
    }
    assert!(waits[0] <= 100 * MS && waits.iter().all(|&wait| wait <= 5_000 * MS), "{waits:?}");
    assert!(waits[8..].iter().all(|&wait| wait >= 2_500 * MS), "{waits:?}");
    connects(&mut session, now_ns);
    session.closed(now_ns, Connection::Control, "Connection refused");
    assert!(away_until(&mut session, now_ns) > now_ns);
    session.hurry(now_ns);
    connects(&mut session, now_ns);
}

#[test]
fn a_node_that_tells_to_come_again_is_asked_less_and_less_often() {
    let (mut session, mut now_ns, mut waits) = (session(), 0, Vec::new());
    for _ in 0..8 {
        connects(&mut session, now_ns);
        session.opened(now_ns, Connection::Control);
        let mut bytes = preamble();
        let mut message = [0; 256];
        let bye = Bye { reason: ByeReason::LATER, retry_ms: 200, detail: 0 };
        let end = Encoder::begin(&mut message, 0, &bye).finish("the disk has failed", &[]);
        bytes.extend_from_slice(&message[..end]);
        session.received(now_ns, &bytes).unwrap();
        assert!(why(&session).ends_with("later: the disk has failed"), "{}", why(&session));
        let until_ns = away_until(&mut session, now_ns);
        waits.push(until_ns - now_ns);
        now_ns = until_ns;
    }
    assert!(waits.iter().all(|&wait| wait >= 200 * MS), "no sooner than told: {waits:?}");
    assert!(waits[7] >= 2_500 * MS, "{waits:?}");
}

#[test]
fn a_port_that_closes_without_a_word_may_be_under_tls() {
    let mut session = session();
    connects(&mut session, 0);
    session.opened(0, Connection::Control);
    session.closed(0, Connection::Control, "the peer has closed the connection");
    assert!(why(&session).ends_with("before it said anything: is it under TLS?"));
}

/// The node admits the session, and goes on at an item.
fn granted(next: u64, durable: u64) -> Vec<u8> {
    let welcome = Welcome {
        session: 7,
        run: [1; 16],
        ticket: [2; 16],
        run_number: 0,
        stream: 0,
        epoch: 0,
        state: RunState::Recording,
        features: 0,
        command: 0,
        ping_ms: 500,
        silence_ms: 2_500,
        skew_bytes: 0,
        message_bytes_max: 65_536,
        log_count: 1,
    };
    let grant = Grant {
        log: 0,
        answer: GrantAnswer::Joins,
        reason: ByeReason::DONE,
        next,
        durable,
        source: NONE,
        service: [1; 32],
    };
    let (mut bytes, mut message) = (preamble(), [0; 256]);
    let end = Encoder::begin(&mut message, 0, &welcome).finish("", &[]);
    bytes.extend_from_slice(&message[..end]);
    let mut grants = Encoder::begin(&mut message, 1, &Grants {});
    assert!(grants.push(&grant));
    let end = grants.finish("", &[]);
    bytes.extend_from_slice(&message[..end]);
    bytes
}

#[test]
fn nothing_is_durable_at_a_node_that_it_has_not_taken() {
    for (durable, later) in [(18, 15), (15, 18)] {
        let mut session = session();
        session.made(20);
        connects(&mut session, 0);
        session.opened(0, Connection::Control);
        let mut result = session.received(0, &granted(15, durable));
        if durable == 15 {
            assert_eq!(result, Ok(()));
            let positions = Positions { cookie: 0, epoch: 0, unread: 0, received: [0; 16] };
            let mut message = [0; 256];
            let mut encoder = Encoder::begin(&mut message, 2, &positions);
            let log = LogPositions { log: 0, flags: 0, taken: 15, durable: later };
            assert!(encoder.push(&log));
            let end = encoder.finish("", &[]);
            result = session.received(0, &message[..end]);
        }
        assert_eq!(result, Err(Fault::Bound { field: "durable", min: 0, max: 15, got: 18 }));
        // Other frames than those that it was offered get the numbers from there on.
        session.rewind();
        session.made(16);
        assert!(session.durable() <= 15);
    }
}

/// A part of what the node has of a stream: so many records, from an offset on.
fn part(number: u32, left: &Left, records: u8) -> Vec<u8> {
    let mut message = [0; 4_096];
    let mut encoder = Encoder::begin(&mut message, number, left);
    let first = (left.offset / 32) as u8;
    (first..first + records).for_each(|one| assert!(encoder.push(&LeftPart { bytes: [one; 32] })));
    let end = encoder.finish("", &[]);
    message[..end].to_vec()
}

#[test]
fn what_a_node_has_of_a_stream_comes_in_parts_and_again_if_the_connection_breaks() {
    let (flags, age_ns, frames, events, file_bytes) = (Left::ENDED, 9, 8, 7, 6);
    let left = Left { log: 0, bytes: 100, offset: 0, flags, age_ns, frames, events, file_bytes };
    let behind = |offset| Left { offset, ..left };
    let mut session = session();
    session.ask();
    connects(&mut session, 0);
    session.opened(0, Connection::Control);
    // What it holds is not known to it: the node may be anywhere.
    session.received(0, &granted(15, 15)).unwrap();
    session.received(0, &part(2, &left, 2)).unwrap();
    assert_eq!(session.take_left(), None, "a part is missing");
    session.interrupt(0, "the network is gone");
    let until_ns = away_until(&mut session, 0);
    connects(&mut session, until_ns);
    session.opened(until_ns, Connection::Control);
    session.received(until_ns, &granted(15, 15)).unwrap();
    session.received(until_ns, &part(2, &left, 2)).unwrap();
    session.received(until_ns, &part(3, &behind(64), 2)).unwrap();
    // Of the last record four bytes belong to it.
    let mut file: Vec<u8> = (0..4).flat_map(|one| [one; 32]).collect();
    file.truncate(100);
    let has_ended = true;
    let whole = LeftOfStream { file, has_ended, age_ns, frames, events, file_bytes };
    assert_eq!((session.take_left(), session.take_left()), (Some(whole), None));
    assert_eq!(session.next(), 15);
}

#[test]
fn parts_of_what_a_node_has_follow_each_other_and_end_where_it_says() {
    let (frames, events, file_bytes) = (0, 0, 0);
    let left =
        Left { log: 0, bytes: 64, offset: 0, flags: 0, age_ns: 0, frames, events, file_bytes };
    let fault = |field, max, got| {
        Err(Fault::Bound { field, min: if got < max { max } else { 0 }, max, got })
    };
    for (second, records, expected) in [
        (Left { offset: 0, ..left }, 1, fault("offset", 32, 0)),
        (Left { offset: 32, bytes: 32, ..left }, 1, fault("bytes", 64, 32)),
        (Left { offset: 32, ..left }, 2, fault("the end of a part", 64, 96)),
        (Left { offset: 32, ..left }, 1, Ok(())),
    ] {
        let mut session = session();
        session.ask();
        connects(&mut session, 0);
        session.opened(0, Connection::Control);
        session.received(0, &granted(15, 15)).unwrap();
        session.received(0, &part(2, &left, 1)).unwrap();
        assert_eq!(session.received(0, &part(3, &second, records)), expected);
        assert_eq!(session.take_left().is_some(), expected.is_ok());
    }
    // One that has not asked drops it.
    let mut session = self::session();
    session.made(20);
    connects(&mut session, 0);
    session.opened(0, Connection::Control);
    session.received(0, &granted(15, 15)).unwrap();
    assert_eq!(session.received(0, &part(2, &left, 2)), Ok(()));
    assert_eq!(session.take_left(), None);
}
