//! Nothing is allocated for a fragment.

use catchment_fixtures::CountingAllocator;
use catchment_sender::testing::TestRecorder;
use catchment_sender::{
    Action, Connection, Fragment, Push, SenderConfig, SenderSession, SourceConfig,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_fragment_allocates_nothing() {
    let sources = vec![SourceConfig { fragment_bytes_max: 4 << 20, ..SourceConfig::default() }];
    let name = "camera".to_owned();
    let config = SenderConfig { name, sources, ..SenderConfig::default() };
    let mut session = SenderSession::new(config, 5, 1).expect("a configuration");
    let mut recorder = TestRecorder::default();
    let data = Connection::Data(0);
    for (id, connection) in [(0, Connection::Control), (1, data)] {
        assert_eq!(session.work(0).action, Some(Action::Connect(connection)));
        recorder.opened(id);
        session.opened(0, connection);
        let bytes = session.transmit(0, connection).0.concat();
        session.sent(connection, bytes.len());
        recorder.received(id, &bytes);
        let answer = recorder.outgoing(0).expect("it is there").split_off(0);
        session.received(0, &answer).expect("no fault");
    }
    let payload = vec![7; 3 << 20];
    let before = ALLOCATOR.count();
    let mut sent = 0;
    for key in 0..5_000 {
        let bytes = if key == 2_500 { payload.len() } else { 1_000 };
        let pushed = session.push(0, Fragment::new(key, &payload[..bytes]));
        assert_eq!(pushed, Ok(Push::Accepted));
        while session.transmit(0, data).bytes() > 0 {
            // The socket takes a part of it.
            let bytes = session.transmit(0, data).bytes().min(60_000);
            session.sent(data, bytes);
            sent += bytes;
        }
        assert_eq!(session.work(0).action, None);
    }
    assert_eq!(ALLOCATOR.count(), before);
    assert!(sent > 8_000_000, "{sent} bytes were sent");
}
