//! The exchanges that docs/spec/golden.py makes from the tables of the specifications: the session
//! sends these bytes, and takes those.

use catchment_sender::{Action, Connection, Fragment, Push, SenderSession, SourceConfig};
use catchment_wire::PartFlags;
use catchment_wire::event_link::AbandonReason;

use crate::support::{MS, SECOND, config};

const SESSION: u64 = 0x5eed_0000_0000_0007;

/// Connections of an exchange with their headings.
fn golden(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut connections: Vec<(String, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        if let Some(who) = line.strip_prefix("## ") {
            connections.push((who.to_owned(), Vec::new()));
        } else if !line.starts_with('#') {
            let (_, bytes) = connections.last_mut().expect("a heading");
            let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect("hex");
            bytes.extend((0..line.len()).step_by(2).map(digit));
        }
    }
    connections
}

fn camera(token: &str) -> SenderSession {
    let source = SourceConfig { marks: true, dtype: 2, ..SourceConfig::default() };
    let mut config = config(vec![source]);
    config.program = "example 1.0".to_owned();
    config.token = token.to_owned();
    config.buffer_ms = 640;
    SenderSession::new(config, SESSION, 1).expect("a configuration")
}

/// Does all that is due, and returns it.
fn actions(session: &mut SenderSession, now_ns: u64) -> Vec<Action> {
    std::iter::from_fn(|| session.work(now_ns).action).collect()
}

/// All that a connection has to send.
fn sent(session: &mut SenderSession, now_ns: u64, on: Connection) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let bytes = session.transmit(now_ns, on).0.concat();
        if bytes.is_empty() {
            return all;
        }
        session.sent(on, bytes.len());
        all.extend(bytes);
    }
}

#[test]
fn the_hello_has_the_golden_bytes() {
    let exchange = golden(include_str!("../../../format/wire/tests/golden/hello.hex"));
    let mut session = camera("catchment_0123abcd");
    assert_eq!(actions(&mut session, 0), [Action::Connect(Connection::Control)]);
    session.opened(0, Connection::Control);
    assert!(sent(&mut session, 0, Connection::Control) == exchange[0].1);
    session.received(0, &exchange[1].1).expect("an answer");
    assert_eq!(actions(&mut session, 0), [Action::Connect(Connection::Data(0))]);
}

#[test]
fn a_resume_after_the_recorder_died_has_the_golden_bytes() {
    let exchange = golden(include_str!("../../../format/wire/tests/golden/resume.hex"));
    let fragments = golden(include_str!("../../../format/wire/tests/golden/fragments.hex"));
    let mut session = camera("");
    actions(&mut session, 0);
    session.opened(0, Connection::Control);
    sent(&mut session, 0, Connection::Control);
    let hello = golden(include_str!("../../../format/wire/tests/golden/hello.hex"));
    session.received(0, &hello[1].1).expect("an answer");
    actions(&mut session, 0);
    session.opened(0, Connection::Data(0));
    // The mark *begin* has the sequence 0, since the run is recorded; then 999 of no matter.
    let source = session.source(0).clone();
    assert_eq!(source.abandon(999, AbandonReason::BUSY, None), Ok(Push::Accepted));
    sent(&mut session, 0, Connection::Data(0));
    let push = |key, bytes, tag, flags| {
        let fragment = Fragment { key, bytes, tag, flags, groups: 0 };
        assert_eq!(source.push(fragment), Ok(Push::Accepted));
    };
    push(17, b"hello", 0, 0);
    push(18, b"", 0, 0);
    push(20, b"abcd", 2, PartFlags::SENDER_ERROR);
    let mut message = sent(&mut session, 0, Connection::Data(0));
    // The exchange of the page has had four messages more.
    assert_eq!(message[12], 3);
    message[12] = 7;
    assert!(message == fragments[0].1);

    command_2_and_durable_1000(&mut session);
    session.closed(SECOND, Connection::Control, "cut");
    push(21, b"xyz", 0, 0);
    assert_eq!(actions(&mut session, SECOND), [Action::Close]);
    let mut now_ns = 2 * SECOND;
    assert_eq!(actions(&mut session, now_ns), [Action::Connect(Connection::Control)]);
    session.opened(now_ns, Connection::Control);
    assert!(sent(&mut session, now_ns, Connection::Control) == exchange[0].1);

    // The recorder repairs: 200 ms, then the same bytes.
    session.received(now_ns, &exchange[1].1).expect("a bye");
    assert_eq!(actions(&mut session, now_ns), [Action::Close]);
    now_ns += 199 * MS;
    assert_eq!(actions(&mut session, now_ns), []);
    now_ns += MS;
    assert_eq!(actions(&mut session, now_ns), [Action::Connect(Connection::Control)]);
    session.opened(now_ns, Connection::Control);
    assert!(sent(&mut session, now_ns, Connection::Control) == exchange[0].1);

    let found = |who: &str| {
        let found = exchange.iter().filter(|(name, _)| name.contains(who));
        found.map(|(_, bytes)| bytes.as_slice()).collect::<Vec<_>>()
    };
    let answers = found("recorder, control");
    session.received(now_ns, answers[1]).expect("an answer");
    assert_eq!(actions(&mut session, now_ns), [Action::Connect(Connection::Data(0))]);
    session.opened(now_ns, Connection::Data(0));
    assert!(sent(&mut session, now_ns, Connection::Data(0)) == found("sender, data")[0]);
    now_ns += 500 * MS;
    assert!(
        &sent(&mut session, now_ns, Connection::Control)
            == found("sender, control").last().unwrap()
    );
    session.received(now_ns, answers[2]).expect("positions");
    let status = source.status();
    assert_eq!((status.taken, status.durable, status.held_bytes), (1_004, 1_002, 7));
    assert_eq!(session.unconfirmed(), 2);
    session.received(now_ns, answers[3]).expect("positions");
    assert_eq!((session.unconfirmed(), source.status().held_bytes), (0, 0));
}

/// What the recorder of the page has said before it died.
fn command_2_and_durable_1000(session: &mut SenderSession) {
    use catchment_wire::event_link::CommandKind;
    use catchment_wire::session::{Command, Control, Encoder, LogPositions, Positions};
    let mut out = vec![0; 16_384];
    let (run, run_number, kind) = ([0; 16], 42, CommandKind::PAUSE.0);
    let command = Command { number: 2, run, run_number, kind };
    let bytes = Encoder::begin(&mut out, 2, &command).finish("", &[]);
    session.received(0, &out[..bytes]).expect("a command");
    let positions = Positions { cookie: 0, epoch: 0, unread: 0, received: [0; 16] };
    let mut encoder = Encoder::begin(&mut out, 3, &positions);
    assert!(encoder.push(&LogPositions { log: 0, flags: 0, taken: 1_003, durable: 1_000 }));
    let bytes = encoder.finish("", &[]);
    session.received(0, &out[..bytes]).expect("positions");
    let Control::Answer(answer, "") = read(&sent(session, 0, Connection::Control)) else {
        panic!("an answer")
    };
    assert_eq!(answer.number, 2);
}

fn read(bytes: &[u8]) -> catchment_wire::session::Control<'_> {
    use catchment_wire::session::{CONTROL, Control, parse};
    let message = parse(bytes, 2, CONTROL).expect("no fault").expect("a message");
    Control::read(&message).expect("no fault").expect("a known type")
}
