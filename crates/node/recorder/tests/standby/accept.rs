//! Front-ends that nobody configured by name.

use super::*;

/// A rig in which one front-end with one source is admitted, and none is configured.
fn accepting() -> Rig {
    let mut rig = Rig::new();
    let source = rig.config.sources.pop().unwrap();
    let (senders, front_ends, sources) = ("cam*".parse().unwrap(), 1, 1);
    rig.config.accept = vec![Accept { senders, front_ends, sources, source }];
    rig
}

/// Why a front-end with these logs is refused.
fn refused(address: SocketAddr, name: &str, logs: &[(&str, u64, u64)]) -> (ByeReason, u32, String) {
    let opening = Opening::of(name, 9, logs);
    let (bye, text) = FrontEnd::connect(address, &opening).read_bye();
    (bye.reason, bye.retry_ms, text)
}

#[test]
fn a_front_end_that_is_admitted_between_runs_goes_on_into_the_next_one() {
    let rig = accepting();
    let front_ends = rig.standby.front_ends();
    let mut standing = rig.standby.stand(&rig.config).unwrap();
    assert!(standing.unheard().is_empty());
    let address = standing.addresses()[0];
    let (reason, retry_ms, text) = refused(address, "other", &LOGS);
    assert_eq!((reason, retry_ms), (ByeReason::NAME, 0));
    assert!(text.contains("\"other\" is not configured, and no [[accept]] fits"), "{text}");
    let (reason, _, text) = refused(address, "camera", &[("a", 0, 0), ("b", 0, 0)]);
    assert_eq!((reason, &*text), (ByeReason::TOO_MANY, TWO_SOURCES));
    let mut front_end = connect(address, Hello::ANSWERS);
    let [grant] = front_end.grants[..] else { panic!("{:?}", front_end.bye) };
    assert_eq!((grant.answer, grant.source), (GrantAnswer::Waits, NONE));
    assert!(front_ends.list()["camera"].is_admitted && front_ends.list()["camera"].is_required);
    let (reason, retry_ms, text) = refused(address, "camel", &LOGS);
    assert_eq!((reason, retry_ms), (ByeReason::TOO_MANY, 1_000));
    assert!(text.contains("accept[0] admits 1 front-ends, and has them"), "{text}");
    for run in 0..2 {
        let key = run * 50;
        send(&mut front_end, key..key + 10, None);
        wait_while(|| rig.outside() < (run + 1) * 10);
        let admitted = front_ends.admitted();
        let [admitted] = &admitted[..] else { panic!("{admitted:?}") };
        assert_eq!((&*admitted.name, admitted.accept), ("camera", 0));
        let mut config = rig.config.clone();
        let source = config.accept[0].source.clone();
        config.sources.push(SourceConfig { name: admitted.name.clone(), ..source });
        drop(standing);
        let recorder = beside(&mut front_end, || Recorder::start_paused(config).unwrap());
        assert_eq!(recorder.addresses()[1], address, "the listener is the same");
        front_ends.go_to(Stage::Running);
        obey(&mut front_end, (run * 3 + 1, CommandKind::PREPARE));
        obey(&mut front_end, (run * 3 + 2, CommandKind::START));
        beside(&mut front_end, || recorder.begin_between_events());
        send(&mut front_end, key + 10..key + 50, Some(&board(&recorder)));
        // A run's sources are fixed.
        let (reason, retry_ms, text) = refused(address, "camel", &LOGS);
        assert_eq!((reason, retry_ms), (ByeReason::LATER, 500), "{text}");
        assert_eq!(refused(address, "other", &LOGS).0, ByeReason::NAME);
        front_end.ping();
        front_ends.go_to(Stage::Stopped);
        obey(&mut front_end, (run * 3 + 3, CommandKind::STOP));
        let summary;
        (summary, standing) = beside(&mut front_end, || rig.end(recorder));
        assert_eq!(keys(&summary), (key + 10..key + 50).collect::<Vec<_>>());
        assert!(!summary.last.ledger.balance().lost_data());
        assert!(front_end.bye.is_none(), "it goes on behind the run");
    }
    // It goes: others are admitted once a run has begun, or after a reset.
    drop(front_end);
    wait_while(|| rig.is_connected());
    assert!(front_ends.admitted().is_empty());
    assert_eq!(refused(address, "camel", &LOGS).0, ByeReason::TOO_MANY);
    front_ends.forget_absent();
    let opening = Opening::of("camel", 8, &LOGS);
    let camel = FrontEnd::connect(address, &opening);
    assert_eq!(camel.grants[0].answer, GrantAnswer::Waits);
    assert_eq!(front_ends.admitted()[0].name, "camel");
    rig.standby.end();
}

const TWO_SOURCES: &str = "accept[0] admits 1 sources of a front-end, got 2";

#[test]
fn a_front_end_for_which_there_is_no_memory_is_refused_with_the_sum() {
    let mut rig = accepting();
    rig.config.accept[0].source.fragment_bytes_max = 1 << 30;
    rig.config.build.event_bytes_max = Some(1 << 30);
    let standing = rig.standby.stand(&rig.config).unwrap();
    let (reason, retry_ms, text) = refused(standing.addresses()[0], "camera", &LOGS);
    assert_eq!((reason, retry_ms), (ByeReason::DOES_NOT_FIT, 0));
    let expected = "with \"camera\", memory.budget: expected at least ";
    assert!(text.starts_with(expected), "{text}");
    assert!(rig.standby.front_ends().admitted().is_empty());
    rig.standby.end();
}

#[test]
fn a_run_of_nothing_is_not_begun() {
    let mut rig = accepting();
    rig.config.sources.clear();
    let error = Recorder::start_paused(rig.config.clone()).unwrap_err().to_string();
    let expected = "a connected front-end that [[accept]] admits, got none: they can connect once \
                    `catchment ctl configure` has opened the ports";
    assert!(error.contains(expected), "{error}");
    rig.standby.end();
}

/// A rig in which a front-end with one source is admitted, and it listens; its fragments are short.
fn standing() -> (Rig, Standing, SocketAddr) {
    let mut rig = accepting();
    rig.config.accept[0].source.fragment_bytes_max = 4 << 20;
    let standing = rig.standby.stand(&rig.config).unwrap();
    let address = standing.addresses()[0];
    (rig, standing, address)
}

/// Connects, and comes again as long as it is told to come later.
fn arrive(address: SocketAddr, opening: &Opening<'_>) -> FrontEnd {
    let may_come_later = [ByeReason::LATER, ByeReason::NAME_IN_USE];
    loop {
        let front_end = FrontEnd::connect(address, opening);
        match &front_end.bye {
            Some((bye, _)) if may_come_later.contains(&bye.reason) => {
                std::thread::sleep(Duration::from_millis(bye.retry_ms.into()));
            }
            _ => {
                let grants = front_end.grants.iter().map(|grant| grant.answer);
                assert!(grants.eq([GrantAnswer::Waits]), "{:?}", front_end.bye);
                return front_end;
            }
        }
    }
}

#[test]
fn a_front_end_that_comes_with_other_sources_each_time_has_the_last_ones() {
    let (rig, _standing, address) = standing();
    let front_ends = rig.standby.front_ends();
    // The names come again, too, and each takes the place of one before.
    for session in 1..=12 {
        let log = format!("log-{}", session % 5);
        let logs = [(&*log, 0, 0)];
        let front_end = arrive(address, &Opening::of("camera", session, &logs));
        let admitted = front_ends.admitted();
        let [admitted] = &admitted[..] else { panic!("{admitted:?}") };
        assert_eq!(admitted.name, format!("camera/{log}"));
        drop(front_end);
        wait_while(|| rig.is_connected());
    }
    rig.standby.end();
}

#[test]
fn an_admitted_front_end_that_becomes_configured_goes_on_and_others_are_admitted() {
    let (rig, standing, address) = standing();
    let front_ends = rig.standby.front_ends();
    let mut camera = connect(address, Hello::ANSWERS);
    send(&mut camera, 0..10, None);
    assert_eq!(front_ends.admitted().len(), 1);
    let mut config = rig.config.clone();
    let source = config.accept[0].source.clone();
    config.sources.push(SourceConfig { name: "camera".to_owned(), ..source });
    drop(standing);
    let standing = beside(&mut camera, || rig.standby.stand(&config).unwrap());
    assert_eq!(standing.addresses(), [address]);
    send(&mut camera, 10..20, None);
    assert!(camera.bye.is_none() && rig.is_connected());
    assert!(front_ends.admitted().is_empty() && !front_ends.list()["camera"].is_admitted);
    let _camel = arrive(address, &Opening::of("camel", 8, &LOGS));
    let admitted = front_ends.admitted();
    assert!(admitted.iter().map(|one| &*one.name).eq(["camel"]), "{admitted:?}");
    rig.standby.end();
}

#[test]
fn a_front_end_whose_sources_are_refused_is_not_admitted() {
    let (rig, _standing, address) = standing();
    let narrow = Opening { key_bits: 12, ..Opening::of("camera", 7, &LOGS) };
    assert_eq!(FrontEnd::connect(address, &narrow).read_bye().0.reason, ByeReason::MIXED);
    let front_ends = rig.standby.front_ends();
    assert!(front_ends.admitted().is_empty());
    // It does not count for the entry, which admits one.
    let _camel = arrive(address, &Opening::of("camel", 8, &LOGS));
    assert_eq!(front_ends.admitted()[0].name, "camel");
    rig.standby.end();
}

/// The camera was admitted, went away and was forgotten; the camel has its place.
fn standing_without_camera() -> (Rig, Standing, SocketAddr, FrontEnd) {
    let (rig, standing, address) = standing();
    drop(arrive(address, &Opening::of("camera", 7, &LOGS)));
    wait_while(|| rig.is_connected());
    rig.standby.front_ends().forget_absent();
    let camel = arrive(address, &Opening::of("camel", 8, &LOGS));
    (rig, standing, address, camel)
}

#[test]
fn a_front_end_that_was_forgotten_does_not_resume_where_others_have_its_place() {
    let (rig, _standing, address, _camel) = standing_without_camera();
    let resumed = FrontEnd::connect(address, &Opening::of("camera", 7, &LOGS)).read_bye().0;
    assert_eq!((resumed.reason, resumed.retry_ms), (ByeReason::TOO_MANY, 1_000));
    assert_eq!(rig.standby.front_ends().admitted()[0].name, "camel");
    rig.standby.end();
}

#[test]
fn a_front_end_that_was_forgotten_does_not_begin_anew_where_others_have_its_place() {
    let (rig, _standing, address, _camel) = standing_without_camera();
    // The thread still has the session before, with the same sources.
    let (reason, retry_ms, text) = refused(address, "camera", &LOGS);
    assert_eq!((reason, retry_ms), (ByeReason::TOO_MANY, 1_000), "{text}");
    assert!(rig.standby.front_ends().admitted().iter().map(|one| &*one.name).eq(["camel"]));
    rig.standby.end();
}
