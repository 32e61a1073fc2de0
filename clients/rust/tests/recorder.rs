//! The client against the recorder for tests, over real sockets.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use catchment_fixtures::Random;
use catchment_frontend::testing::Recorder;
use catchment_frontend::{
    AbandonReason, Closed, CommandKind, Error, Fragment, Frontend, Push, PushError, Release,
    SourceConfig,
};
use catchment_wire::session::{AnswerKind, Hello};

const LONG: Duration = Duration::from_secs(600);

/// The bytes of a fragment that a test can tell from all others.
fn content(source: usize, key: u64) -> Vec<u8> {
    let mut random = Random::new(key << 8 | source as u64);
    let bytes = random.index(3_000);
    random.bytes(bytes)
}

fn assert_taken(recorder: &Recorder, name: &str, source: usize, keys: std::ops::Range<u64>) {
    let taken = recorder.taken(name);
    let expected: Vec<(u64, Vec<u8>)> = keys.map(|key| (key, content(source, key))).collect();
    assert_eq!(taken.len(), expected.len(), "{name}");
    assert!(taken == expected, "{name}: other fragments");
}

fn three_sources(recorder: &Recorder, buffer: u64) -> Frontend {
    let builder = Frontend::builder(&recorder.url(), "detector").buffer(buffer);
    let builder = ["left", "middle", "right"].iter().fold(builder, |it, name| it.source(name));
    builder.fragment_bytes_max(4_096).connect().expect("the recorder is there")
}

#[test]
fn fragments_of_three_sources_survive_cuts_and_a_restart() {
    let recorder = Recorder::start().expect("a port");
    recorder.durable_at_once(false);
    let frontend = three_sources(&recorder, 6 << 20);
    std::thread::scope(|scope| {
        for (index, source) in frontend.sources().iter().enumerate() {
            scope.spawn(move || {
                for key in 0..10_000 {
                    source.send(key, &content(index, key)).expect("it is accepted");
                }
            });
        }
        // What is taken and not durable is not there after the recorder's death.
        recorder.wait_until(|it| it.log("detector/left").is_some_and(|log| log.taken > 100));
        recorder.restart();
        recorder.durable_at_once(true);
        for taken in [1_000, 4_000] {
            recorder.wait_until(|it| it.log("detector/left").is_some_and(|log| log.taken > taken));
            recorder.cut();
        }
    });
    assert_eq!(frontend.close(LONG), Closed::default());
    for (index, name) in ["detector/left", "detector/middle", "detector/right"].iter().enumerate() {
        assert_taken(&recorder, name, index, 0..10_000);
    }
    assert_eq!(recorder.faults(), [""; 0]);
}

#[test]
fn a_slow_recorder_slows_the_front_end_and_loses_nothing() {
    let recorder = Recorder::start().expect("a port");
    recorder.read_slowly(Some(40_000));
    let frontend = three_sources(&recorder, 192 << 10);
    for key in 0..400 {
        for (index, source) in frontend.sources().iter().enumerate() {
            source.send(key, &content(index, key)).expect("it is accepted");
        }
    }
    assert_eq!(frontend.close(LONG), Closed::default());
    assert_taken(&recorder, "detector/right", 2, 0..400);
    assert_eq!(recorder.faults(), [""; 0]);
}

#[test]
fn many_threads_may_send_to_one_source() {
    let recorder = Recorder::start().expect("a port");
    let frontend = Frontend::connect(&recorder.url(), "camera").expect("it is admitted");
    let next = std::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let mut next = next.lock().expect("no panic");
                    if *next == 2_000 {
                        break;
                    }
                    frontend.send(*next, &content(0, *next)).expect("it is accepted");
                    *next += 1;
                }
            });
        }
    });
    assert!(frontend.close(LONG).is_confirmed());
    assert_taken(&recorder, "camera", 0, 0..2_000);
}

#[test]
fn a_long_fragment_goes_in_parts() {
    let recorder = Recorder::start().expect("a port");
    let builder = Frontend::builder(&recorder.url(), "camera").fragment_bytes_max(9 << 20);
    let frontend = builder.buffer(20 << 20).connect().expect("it is admitted");
    let images: Vec<Vec<u8>> = (0..5).map(|seed| Random::new(seed).bytes(8_500_001)).collect();
    for (key, image) in images.iter().enumerate() {
        frontend.send(key as u64, image).expect("it is accepted");
        if key == 2 {
            recorder.cut();
        }
    }
    assert!(frontend.close(LONG).is_confirmed());
    let taken = recorder.taken("camera");
    assert!(taken.iter().map(|(_, bytes)| bytes).eq(&images));
    assert_eq!(recorder.faults(), [""; 0]);
}

#[test]
fn a_full_ring_is_said_and_what_is_dropped_is_named() {
    let recorder = Recorder::start().expect("a port");
    recorder.pause();
    let builder = Frontend::builder(&recorder.url(), "camera").fragment_bytes_max(8_192);
    let frontend = builder.buffer(64 << 10).connect().expect("it is admitted");
    let source = &frontend.sources()[0];
    let mut dropped = 0;
    for key in 0..20 {
        match source.try_send(key, &[7; 8_192]).expect("keys rise") {
            Push::Accepted => assert!(key < 8),
            Push::Full => {
                let named = source.abandon(1, AbandonReason::BUFFER, Some((key, key)));
                named.expect("there is room for that");
                dropped += 1;
            }
            Push::Ended => panic!("it has not ended"),
        }
    }
    assert_eq!((dropped, source.status().abandoned), (12, [12, 0, 0, 0]));
    recorder.go_on();
    assert!(frontend.close(LONG).is_confirmed());
    let items = recorder.with(|recorder| recorder.log("camera").expect("it was there").clone());
    // The mark that begins the run is one, too.
    assert_eq!((items.taken, items.durable), (21, 21));
}

#[test]
fn keys_that_do_not_rise_and_long_fragments_are_refused() {
    let recorder = Recorder::start().expect("a port");
    let frontend = Frontend::connect(&recorder.url(), "camera").expect("it is admitted");
    frontend.send(7, b"seven").expect("it is accepted");
    let again = frontend.send(7, b"again").expect_err("the key does not rise");
    assert!(matches!(again, Error::Push(PushError::Order { last: 7, got: 7 })), "{again}");
    let long = vec![0; (1 << 20) + 1];
    let long = frontend.send(8, &long).expect_err("it is too long");
    assert!(matches!(long, Error::Push(PushError::TooLong { max: 1_048_576, .. })), "{long}");
    assert!(frontend.close(LONG).is_confirmed());
    assert_eq!(recorder.taken("camera"), [(7, b"seven".to_vec())]);
}

#[test]
fn close_returns_in_time_and_says_what_is_not_durable() {
    let recorder = Recorder::start().expect("a port");
    recorder.durable_at_once(false);
    let frontend = Frontend::connect(&recorder.url(), "camera").expect("it is admitted");
    for key in 0..10 {
        frontend.send(key, b"data").expect("it is accepted");
    }
    recorder.wait_until(|it| it.log("camera").is_some_and(|log| log.taken == 11));
    recorder.tell_durable("camera", 5);
    let source = frontend.sources()[0].clone();
    catchment_fixtures::wait_while(|| source.status().durable < 5);
    let closed = frontend.close(Duration::from_millis(10));
    assert_eq!(closed, Closed { not_confirmed: 6, held_at_run_end: 0 });
    assert!(matches!(source.send(11, b"late"), Err(Error::Ended { .. })));
}

#[test]
fn released_when_taken_a_front_end_does_not_wait_for_durable() {
    let recorder = Recorder::start().expect("a port");
    recorder.durable_at_once(false);
    let builder = Frontend::builder(&recorder.url(), "camera").release(Release::Taken);
    let frontend = builder.connect().expect("it is admitted");
    frontend.send(1, b"data").expect("it is accepted");
    assert!(frontend.close(LONG).is_confirmed());
}

#[test]
fn who_waits_for_room_is_told_that_it_has_ended() {
    let recorder = Recorder::start().expect("a port");
    recorder.pause();
    let builder = Frontend::builder(&recorder.url(), "camera").fragment_bytes_max(65_536);
    let frontend = builder.buffer(64 << 10).connect().expect("it is admitted");
    frontend.send(0, &[0; 65_536]).expect("there is room");
    let source = frontend.sources()[0].clone();
    let waits = std::thread::spawn(move || source.send(1, &[0; 65_536]));
    catchment_fixtures::wait_while(|| frontend.sources()[0].status().full == 0);
    let closed = frontend.close(Duration::ZERO);
    // It, and the mark that begins the run.
    assert_eq!(closed.not_confirmed, 2);
    let ended = waits.join().expect("no panic");
    assert!(matches!(ended, Err(Error::Ended { .. })), "{ended:?}");
}

#[test]
fn a_recorder_that_refuses_is_an_error_with_its_words() {
    let recorder = Recorder::start().expect("a port");
    let bye = catchment_wire::session::Bye {
        reason: catchment_wire::session::ByeReason::TOKEN,
        retry_ms: 0,
        detail: 0,
    };
    recorder.with(|it| it.refusal = Some((bye, "no token".to_owned())));
    let error = Frontend::connect(&recorder.url(), "camera").expect_err("it refuses");
    assert!(error.to_string().ends_with("token: no token"), "{error}");
    recorder.with(|it| it.refusal = None);
    let of = SourceConfig { name: "a".to_owned(), key_bits: 7, ..SourceConfig::default() };
    let builder = Frontend::builder(&recorder.url(), "camera").source_of(of);
    assert!(matches!(builder.connect(), Err(Error::Config(_))));
}

#[test]
fn a_front_end_may_start_before_its_recorder() {
    let recorder = Recorder::start().expect("a port");
    let url = recorder.url();
    drop(recorder);
    let none = Frontend::builder(&url, "camera").wait(Duration::from_millis(1)).connect();
    assert!(matches!(none, Err(Error::NotConnected { .. })));
    let frontend = Frontend::builder(&url, "camera").wait(Duration::ZERO).connect();
    let frontend = frontend.expect("it needs no recorder");
    frontend.sources()[0].send_fragment(Fragment::new(1, b"early")).expect("it is in the ring");
    assert!(frontend.status().starts_with("not connected: "), "{}", frontend.status());
    assert_eq!(frontend.close(Duration::ZERO).not_confirmed, 1);
}

#[test]
fn the_recorder_is_told_of_skew_buffer_and_pauses() {
    let recorder = Recorder::start().expect("a port");
    let builder = || Frontend::builder(&recorder.url(), "camera").buffer_ms(640).stops_in_pause();
    let names = (0..17).map(|number| format!("s{number}"));
    let sources = names.fold(builder(), |it, name| it.source(&name));
    let frontend = sources.skew(5_000).connect().expect("it is admitted");
    let hello = recorder.with(|it| it.hello).expect("it came");
    let flags = Hello::ANSWERS | Hello::STOPS_IN_PAUSE;
    assert_eq!((hello.skew_bytes, hello.buffer_ms, hello.flags), (5_000, 640, flags));
    assert!(frontend.close(LONG).is_confirmed());
    let refused = builder().skew((1 << 30) + 1).connect().expect_err("it is too much");
    assert_eq!(refused.to_string(), "skew is at most 1 GiB, got 1073741825 bytes");
}

#[test]
fn close_waits_for_a_callback_that_runs() {
    let recorder = Recorder::start().expect("a port");
    let ((called, is_called), (closed, is_closed)) = (sync_channel(1), sync_channel(1));
    let (returns, returned) = sync_channel(1);
    let builder = Frontend::builder(&recorder.url(), "camera").callbacks(Box::new(move |_| {
        called.send(()).expect("the test waits");
        // A close that does not wait for this is over long before.
        let was_early = is_closed.recv_timeout(Duration::from_millis(500)).is_ok();
        returns.send(was_early).expect("the test waits");
        Ok(())
    }));
    let frontend = builder.connect().expect("it is admitted");
    recorder.with(|it| it.command(CommandKind::PREPARE.0, 42, &[]));
    is_called.recv().expect("it is called");
    assert!(frontend.close(LONG).is_confirmed());
    let _is_over = closed.send(());
    assert_eq!(returned.recv(), Ok(false));
}

#[test]
fn a_callback_that_closes_its_front_end_does_not_wait_for_itself() {
    let recorder = Recorder::start().expect("a port");
    let (gives, given) = sync_channel::<Frontend>(1);
    let (ends, ended) = sync_channel(1);
    let builder = Frontend::builder(&recorder.url(), "camera").callbacks(Box::new(move |_| {
        let frontend = given.recv().expect("the test gives it");
        ends.send(frontend.close(LONG)).expect("the test waits");
        Ok(())
    }));
    gives.send(builder.connect().expect("it is admitted")).expect("it is waited for");
    recorder.with(|it| it.command(CommandKind::PREPARE.0, 42, &[]));
    assert_eq!(ended.recv(), Ok(Closed::default()));
}

/// All else of commands is in clients/c/tests/test_c_commands.py, for all clients.
#[test]
fn a_callback_that_panics_refuses_and_is_called_again() {
    let recorder = Recorder::start().expect("a port");
    let builder = Frontend::builder(&recorder.url(), "camera").callbacks(Box::new(|command| {
        assert!(command.kind != CommandKind::START.0, "no beam");
        Ok(())
    }));
    let frontend = builder.connect().expect("it is admitted");
    let answer = |kind: CommandKind| {
        let number = recorder.with(|it| it.command(kind.0, 42, &[]));
        let is_it = |it: &(u64, AnswerKind, String)| it.0 == number && it.1 != AnswerKind::Working;
        recorder.wait_until(|it| it.commands.iter().any(is_it));
        let found = recorder.with(|it| it.commands.iter().find(|one| is_it(one)).cloned());
        found.expect("it is there")
    };
    let refused = (1, AnswerKind::Refused, "the callback panicked: no beam".to_owned());
    assert_eq!(answer(CommandKind::START), refused);
    assert_eq!(answer(CommandKind::PAUSE), (2, AnswerKind::Done, String::new()));
    assert!(frontend.close(LONG).is_confirmed());
}
