//! Dummy front-ends against the recorder for tests.

use catchment_emulator::{DummyConfig, DummyContent, DummyReport, EmulatorError, EmulatorThread};
use catchment_frontend::testing::Recorder;

#[test]
fn every_fragment_of_every_front_end_arrives_with_its_bytes() {
    let recorder = Recorder::start().expect("a port");
    let config = DummyConfig {
        url: recorder.url(),
        front_ends: 3,
        index: 5,
        fragment_bytes: 1_000,
        events: Some(2_000),
        seed: 7,
        buffer_bytes: 1 << 20,
        ..DummyConfig::default()
    };
    let thread = EmulatorThread::start_dummies(config).expect("a thread");
    catchment_fixtures::wait_while(|| !thread.observer().ended());
    let report = thread.finish().expect("all is sent");
    let DummyReport { front_ends, fragments, not_confirmed, held_at_run_end, .. } = report;
    assert_eq!((front_ends, fragments, not_confirmed, held_at_run_end), (3, 6_000, 0, 0));
    for index in 5..8 {
        let content = DummyContent::new(7, index, 1_000);
        let taken = recorder.taken(&format!("dummy-{index}"));
        let is_same = taken.iter().map(|(key, bytes)| (*key, bytes.as_slice()));
        assert!(is_same.eq((0..2_000).map(|key| (key, content.fragment(key)))));
    }
    assert_ne!(DummyContent::new(7, 0, 64).fragment(5), DummyContent::new(7, 1, 64).fragment(5));
}

#[test]
fn one_that_is_stopped_ends_though_its_ring_is_full() {
    let recorder = Recorder::start().expect("a port");
    recorder.pause();
    let (url, drain) = (recorder.url(), std::time::Duration::ZERO);
    let config = DummyConfig {
        url,
        fragment_bytes: 50_000,
        buffer_bytes: 100_000,
        drain,
        ..DummyConfig::default()
    };
    let thread = EmulatorThread::start_dummies(config).expect("a thread");
    catchment_fixtures::wait_while(|| {
        recorder.with(|recorder| recorder.log("dummy-0").and_then(|log| log.pinged).is_none())
    });
    let report = thread.finish().expect("it has ended");
    // Perhaps also the mark that the run has begun, if it was there before the ring was full.
    assert_eq!(report.fragments, 2);
    assert!((2..=3).contains(&report.not_confirmed), "{}", report.not_confirmed);
}

#[test]
fn without_a_recorder_there_is_an_error() {
    let config = DummyConfig { url: "dummy".to_owned(), ..DummyConfig::default() };
    let thread = EmulatorThread::start_dummies(config).expect("a thread");
    catchment_fixtures::wait_while(|| !thread.observer().ended());
    assert!(matches!(thread.finish(), Err(EmulatorError::Frontend(_))));
}
