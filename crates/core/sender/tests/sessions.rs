//! What a session does between its opening and its end.

use catchment_sender::testing::Taken;
use catchment_sender::{Action, Fragment, Push, PushError, SenderState, SourceConfig};
use catchment_wire::event_link::{AbandonReason, MarkKind};
use catchment_wire::session::{Bye, ByeReason, GrantAnswer, Release};

use crate::support::{MS, SECOND, Wire, camera, config};

fn why(wire: &Wire) -> String {
    match wire.sender.state() {
        SenderState::Away(why) | SenderState::Ended(Some(why)) => why.to_string(),
        state => format!("{state:?}"),
    }
}

#[test]
fn small_fragments_go_many_in_a_message_and_are_released_when_durable() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.recorder.is_durable_at_once = false;
    for key in 0..1_000 {
        wire.push(0, key, &[key as u8; 100]);
    }
    wire.settle();
    let log = wire.recorder.log("camera").unwrap();
    assert!(
        log.fragments().eq((0..1_000)
            .map(|key| (key, [key as u8; 100]))
            .map(|(key, bytes)| (key, Box::leak(Box::new(bytes)).as_slice())))
    );
    let status = wire.sender.source(0).status();
    assert_eq!((status.taken, status.durable, status.held_bytes), (1_000, 0, 100_000));
    wire.recorder.tell_durable("camera", 400);
    wire.settle();
    let status = wire.sender.source(0).status();
    assert_eq!((status.durable, status.held_bytes, wire.sender.unconfirmed()), (400, 60_000, 600));
    assert_eq!(wire.recorder.faults, [""; 0]);
}

#[test]
fn a_ring_takes_what_fits_and_goes_on_where_it_wraps() {
    let mut wire = Wire::open(camera(65_536));
    wire.recorder.is_durable_at_once = false;
    let mut key = 0;
    for round in 0..20 {
        while wire.sender.push(0, Fragment::new(key, &[key as u8; 5_000])).unwrap()
            == Push::Accepted
        {
            key += 1;
        }
        assert_eq!(key, 13 * (round + 1), "13 fragments of 5,000 bytes fit into 65,536");
        wire.settle();
        wire.recorder.tell_durable("camera", key);
        wire.settle();
    }
    let log = wire.recorder.log("camera").unwrap();
    assert!(log.fragments().all(|(key, bytes)| bytes == [key as u8; 5_000]));
    assert_eq!(log.fragments().count(), 260);
    assert_eq!(wire.sender.source(0).status().full, 20);
}

#[test]
fn a_fragment_of_any_length_arrives() {
    for message_bytes_max in [65_536, 131_064, 4_325_376] {
        let source = SourceConfig { fragment_bytes_max: 3 << 20, ..SourceConfig::default() };
        let mut wire = Wire::new(config(vec![source]));
        wire.recorder.message_bytes_max = message_bytes_max;
        let max = message_bytes_max as usize;
        let mut lengths: Vec<usize> = (max - 80..max + 8).collect();
        lengths.extend([0, 1, 7, 8, 1 << 20, (1 << 20) + 1, 3 << 20]);
        lengths.retain(|length| *length <= 3 << 20);
        for (key, &length) in lengths.iter().enumerate() {
            wire.push(0, key as u64, &vec![key as u8; length]);
            wire.settle();
        }
        let log = wire.recorder.log("camera").unwrap();
        let got: Vec<usize> = log.fragments().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(got, lengths);
        assert!(log.fragments().all(|(key, bytes)| bytes.iter().all(|byte| *byte == key as u8)));
        assert_eq!(wire.recorder.faults, [""; 0]);
    }
}

#[test]
fn the_first_fragments_of_a_long_message_may_be_durable_before_the_last_are_sent() {
    let source = SourceConfig { fragment_bytes_max: 100_000, ..SourceConfig::default() };
    let mut wire = Wire::new(config(vec![source]));
    (wire.recorder.message_bytes_max, wire.recorder.takes_early) = (4_325_376, true);
    for key in 0..20 {
        wire.push(0, key, &[key as u8; 100_000]);
    }
    // Where the socket takes a little at a time, memory comes free within the message.
    wire.piece = 30_000;
    wire.settle_until(|wire| wire.sender.source(0).status().durable == 7);
    assert_eq!(wire.recorder.arrived, []);
    let status = wire.sender.source(0).status();
    assert_eq!((status.taken, status.held_bytes), (7, 1_300_000));
    for key in 20..27 {
        wire.push(0, key, &[key as u8; 100_000]);
    }
    wire.settle();
    let log = wire.recorder.log("camera").unwrap();
    assert!(log.fragments().map(|(key, _)| key).eq(0..27));
    assert!(log.fragments().all(|(key, bytes)| bytes == [key as u8; 100_000]));
    assert_eq!(wire.recorder.faults, [""; 0]);
    // More than was sent is still a fault.
    wire.push(0, 27, &[27; 100_000]);
    wire.push(0, 28, &[28; 100_000]);
    wire.recorder.overstates = 1;
    wire.settle_until(|wire| wire.recorder.log("camera").is_some_and(|log| log.taken == 28));
    wire.pass_time(MS);
    assert!(why(&wire).contains("taken"), "{}", why(&wire));
}

#[test]
fn what_was_dropped_is_named_in_one_range_and_marks_keep_their_place() {
    let mut wire = Wire::new(camera(1 << 20));
    let source = wire.sender.source(0).clone();
    wire.push(0, 5, b"five");
    assert_eq!(source.abandon(2, AbandonReason::BUFFER, Some((6, 7))), Ok(Push::Accepted));
    assert_eq!(source.abandon(1, AbandonReason::BUFFER, Some((8, 8))), Ok(Push::Accepted));
    assert_eq!(source.abandon(1, AbandonReason::BUSY, None), Ok(Push::Accepted));
    assert_eq!(source.setting("gain", "5"), Push::Accepted);
    assert_eq!(source.renumber(0), Push::Accepted);
    wire.push(0, 0, b"zero");
    wire.settle();
    let mark =
        |kind, count, keys, text: &str| Taken::Mark { kind, count, keys, text: text.to_owned() };
    let items = &wire.recorder.log("camera").unwrap().items;
    let (first, last) = (&items[0], items.last().unwrap());
    assert!(matches!(&first.1, Taken::Fragment { key: 5, .. }));
    assert_eq!(
        items[1..5],
        [
            (1, mark(MarkKind::Abandoned, 3, (6, 8), "")),
            (4, mark(MarkKind::Abandoned, 1, (0, 0), "")),
            (5, mark(MarkKind::Setting, 1, (0, 0), "gain=5")),
            (6, mark(MarkKind::Numbering, 1, (0, 0), "")),
        ]
    );
    assert!(matches!(last, (7, Taken::Fragment { key: 0, .. })));
    assert_eq!(source.status().abandoned, [3, 0, 1, 0]);
}

#[test]
fn a_key_that_does_not_rise_gets_no_sequence() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.push(0, 5, b"");
    let again = wire.sender.push(0, Fragment::new(5, b""));
    assert_eq!(again, Err(PushError::Order { last: 5, got: 5 }));
    let wide = wire.sender.push(0, Fragment::new(1 << 62, b""));
    assert_eq!(wide, Err(PushError::Width { got: 1 << 62, bits: 62 }));
    let status = wire.sender.source(0).status();
    assert_eq!((status.made, status.key_refused), (1, 2));
}

#[test]
fn with_release_2_taken_is_enough() {
    let mut config = camera(1 << 20);
    config.release = Release::Taken;
    let mut wire = Wire::open(config);
    wire.recorder.is_durable_at_once = false;
    wire.push(0, 1, b"data");
    wire.settle();
    assert_eq!((wire.sender.unconfirmed(), wire.sender.source(0).status().durable), (0, 0));
}

#[test]
fn a_refusal_without_retry_ends_the_session_with_its_words() {
    let mut wire = Wire::new(camera(1 << 20));
    let bye = Bye { reason: ByeReason::DOES_NOT_FIT, retry_ms: 0, detail: 7 };
    wire.recorder.refusal = Some((bye, "64 MiB do not fit".to_owned()));
    wire.pass_time(10 * SECOND);
    assert_eq!((why(&wire).as_str(), wire.connects), ("does_not_fit: 64 MiB do not fit", 1));
    assert_eq!(wire.sender.push(0, Fragment::new(1, b"")), Ok(Push::Ended));
    assert_eq!(wire.actions, [Action::End]);
    assert_eq!(&*wire.sender.source(0).end_reason().unwrap(), "does_not_fit: 64 MiB do not fit");
}

#[test]
fn a_recorder_that_is_not_ready_is_asked_again_when_it_says() {
    let mut wire = Wire::new(camera(1 << 20));
    let bye = Bye { reason: ByeReason::LATER, retry_ms: 3_000, detail: 0 };
    wire.recorder.refusal = Some((bye, "repairing".to_owned()));
    wire.pass_time(2_999 * MS);
    assert_eq!((why(&wire).as_str(), wire.connects), ("later: repairing", 1));
    wire.recorder.refusal = None;
    wire.pass_time(MS);
    assert_eq!((wire.sender.state(), wire.connects), (SenderState::Open, 2));
}

#[test]
fn a_source_that_is_refused_ends_and_the_others_go_on() {
    let named = |name: &str| SourceConfig { name: name.to_owned(), ..SourceConfig::default() };
    let mut wire = Wire::new(config(vec![named("a"), named("b")]));
    let refused = (GrantAnswer::Refused, ByeReason::MIXED);
    wire.recorder.answers.insert("camera/a".to_owned(), refused);
    wire.settle();
    assert_eq!(wire.sender.push(0, Fragment::new(1, b"a")), Ok(Push::Ended));
    wire.push(1, 1, b"b");
    wire.settle();
    assert_eq!(wire.recorder.log("camera/b").unwrap().taken, 1);
    let reason = wire.sender.source(0).end_reason().unwrap();
    assert_eq!(&*reason, "the recorder refuses the source: mixed");
    assert_eq!(wire.sender.source(1).end_reason(), None);
}

#[test]
fn a_session_that_finishes_waits_for_durable_and_says_bye() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.recorder.is_durable_at_once = false;
    wire.push(0, 1, b"data");
    wire.sender.finish(wire.now_ns + 20 * SECOND);
    wire.pass_time(10 * SECOND);
    assert_eq!(wire.sender.state(), SenderState::Open);
    assert_eq!(wire.sender.push(0, Fragment::new(2, b"")), Ok(Push::Ended));
    wire.recorder.tell_durable("camera", 1);
    wire.settle();
    assert_eq!((wire.sender.state(), wire.sender.unconfirmed()), (SenderState::Ended(None), 0));
    assert_eq!(wire.actions, [Action::End]);
}

#[test]
fn a_session_that_finishes_ends_at_its_deadline_whatever_is_there() {
    for (is_held, is_silent) in [(true, false), (false, true), (true, true)] {
        let mut wire = Wire::open(camera(1 << 20));
        (wire.recorder.is_held, wire.is_silent) = (is_held, is_silent);
        wire.push(0, 1, b"data");
        wire.sender.finish(wire.now_ns + 5 * SECOND);
        wire.pass_time(5 * SECOND - 1);
        assert!(!matches!(wire.sender.state(), SenderState::Ended(_)));
        wire.pass_time(SECOND + 1);
        assert_eq!((wire.sender.state(), wire.sender.unconfirmed()), (SenderState::Ended(None), 1));
    }
}

#[test]
fn pings_tell_what_changed_and_heartbeats_keep_a_quiet_connection() {
    let mut wire = Wire::open(camera(65_536));
    wire.recorder.is_durable_at_once = false;
    wire.push(0, 1, &[0; 60_000]);
    wire.pass_time(499 * MS);
    assert_eq!(wire.recorder.log("camera").unwrap().pinged, None);
    wire.pass_time(MS);
    let log = wire.recorder.log("camera").unwrap();
    assert_eq!((log.pinged, log.promised), (Some((1, 3)), Some((None, false))));
    wire.sender.source(0).low_water(Some(9), true);
    wire.pass_time(10 * MS);
    assert_eq!(wire.recorder.log("camera").unwrap().promised, Some((Some(9), true)));
    assert_eq!((wire.recorder.faults.len(), wire.connects), (0, 1));
}

#[test]
fn no_promise_overtakes_what_was_pushed_before_it() {
    let mut wire = Wire::open(camera(65_536));
    wire.recorder.is_held = true;
    for key in 0..10 {
        wire.push(0, key, &[0; 6_000]);
    }
    wire.sender.source(0).low_water(Some(1_000), true);
    wire.pass_time(SECOND);
    wire.recorder.is_held = false;
    // The recorder finds a heartbeat that is ahead of items to be a fault.
    wire.pass_time(SECOND);
    let log = wire.recorder.log("camera").unwrap();
    assert_eq!((log.taken, log.promised), (10, Some((Some(1_000), true))));
    assert_eq!(wire.recorder.faults, [""; 0]);
}

#[test]
fn a_mark_does_not_end_that_a_source_is_idle_and_a_fragment_does() {
    let mut wire = Wire::open(camera(65_536));
    wire.push(0, 5, b"data");
    wire.sender.source(0).low_water(Some(9), true);
    wire.pass_time(20 * MS);
    assert_eq!(wire.sender.source(0).setting("gain", "2"), Push::Accepted);
    // Heartbeats say it each ping anew.
    wire.pass_time(SECOND);
    assert_eq!(wire.recorder.log("camera").unwrap().promised, Some((Some(9), true)));
    wire.push(0, 9, b"more");
    wire.pass_time(SECOND);
    assert_eq!(wire.recorder.log("camera").unwrap().promised, Some((Some(9), false)));
    assert_eq!(wire.recorder.faults, [""; 0]);
}

#[test]
fn what_was_promised_of_numbers_says_nothing_of_those_that_begin_again() {
    let mut wire = Wire::open(camera(65_536));
    wire.push(0, 5, b"data");
    wire.sender.source(0).low_water(Some(900), false);
    wire.pass_time(SECOND);
    assert_eq!(wire.recorder.log("camera").unwrap().promised, Some((Some(900), false)));
    assert_eq!(wire.sender.source(0).renumber(0), Push::Accepted);
    wire.push(0, 1, b"more");
    wire.pass_time(SECOND);
    wire.cut();
    wire.pass_time(2 * SECOND);
    assert_eq!(wire.recorder.log("camera").unwrap().promised, Some((None, false)));
    assert_eq!(wire.recorder.faults, [""; 0]);
}
