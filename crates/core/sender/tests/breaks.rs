//! What breaks, and where the session goes on.

use catchment_fixtures::Random;
use catchment_sender::{Action, Fragment, Push, SenderState, SourceConfig};

use crate::support::{MS, SECOND, Wire, camera, config};

/// Sends five items of two sources, and returns how many bytes passed in each direction.
fn exchange(cut_after: [Option<u64>; 2]) -> [u64; 2] {
    let named = |name: &str| SourceConfig { name: name.to_owned(), ..SourceConfig::default() };
    let mut config = config(vec![named("a"), named("b")]);
    config.buffer_bytes = 2 << 20;
    let mut wire = Wire::new(config);
    const MANY: u64 = 1 << 40;
    let counts = [MANY, MANY];
    wire.cut_after = if cut_after == [None; 2] { counts.map(Some) } else { cut_after };
    wire.settle();
    wire.push(0, 1, b"one");
    wire.push(1, 1, &[2; 2_000]);
    wire.settle();
    wire.push(0, 2, b"");
    wire.push(0, 3, b"three");
    wire.push(1, 9, b"nine");
    wire.pass_time(SECOND);
    let passed = wire.cut_after.map(|left| MANY - left.unwrap_or(MANY));
    wire.pass_until(|wire| wire.sender.unconfirmed() == 0);
    let a: Vec<(u64, &[u8])> = wire.recorder.log("camera/a").unwrap().fragments().collect();
    assert_eq!(a, [(1, &b"one"[..]), (2, b""), (3, b"three")], "{cut_after:?}");
    let b: Vec<(u64, &[u8])> = wire.recorder.log("camera/b").unwrap().fragments().collect();
    assert_eq!(b, [(1, &[2; 2_000][..]), (9, b"nine")], "{cut_after:?}");
    assert_eq!(wire.recorder.faults, [""; 0]);
    passed
}

#[test]
fn a_cut_at_any_byte_loses_nothing_and_repeats_nothing() {
    let [sent, answered] = exchange([None; 2]);
    assert!(sent > 2_500 && answered > 500, "{sent} and {answered} bytes passed");
    for cut in 0..sent {
        exchange([Some(cut), None]);
    }
    for cut in 0..answered {
        exchange([None, Some(cut)]);
    }
}

/// Random fragments, pieces, cuts, restarts of the recorder and holds: everything is there once.
fn history(seed: u64) {
    let mut random = Random::new(seed);
    let count = 1 + random.index(20);
    let of = |index| SourceConfig {
        name: format!("s{index}"),
        fragment_bytes_max: 80_000,
        ..SourceConfig::default()
    };
    let mut config = config((0..count).map(of).collect());
    config.buffer_bytes = count as u64 * (80_000 + random.below(80_000));
    let mut wire = Wire::new(config);
    wire.recorder.message_bytes_max = [65_536, 4_325_376][random.index(2)];
    wire.recorder.takes_early = random.chance(500);
    wire.recorder.is_durable_at_once = random.chance(500);
    let mut sent: Vec<Vec<(u64, Vec<u8>)>> = vec![Vec::new(); count];
    let mut key = 0;
    for _ in 0..400 {
        wire.piece = [0, 1 + random.index(5_000), random.index(80_000)][random.index(3)];
        match random.below(40) {
            0 => wire.cut(),
            1 => {
                wire.cut();
                wire.recorder.restart();
            }
            2 => wire.recorder.is_held = true,
            3 => wire.recorder.is_held = false,
            4..8 => wire.pass_time(random.below(400 * MS)),
            8..12 => {
                let log = random.index(count);
                let taken = wire.recorder.log(&format!("camera/s{log}")).map_or(0, |log| log.taken);
                let position = random.below(taken + 1);
                wire.recorder.tell_durable(&format!("camera/s{log}"), position);
            }
            _ => {
                let log = random.index(count);
                let length = [0, 10, 1_000, 80_000][random.index(4)];
                let length = random.index(length + 1);
                let bytes = random.bytes(length);
                key += random.below(3) + 1;
                let pushed = wire.sender.push(log as u32, Fragment::new(key, &bytes));
                match pushed.expect("keys rise") {
                    Push::Accepted => sent[log].push((key, bytes)),
                    Push::Full => {}
                    Push::Ended => panic!("seed {seed}: it has ended"),
                }
            }
        }
        if random.chance(100) {
            wire.settle();
        }
    }
    (wire.piece, wire.recorder.is_held, wire.recorder.is_durable_at_once) = (0, false, true);
    for log in 0..count as u32 {
        // Nobody waits for one that has nothing more.
        wire.sender.source(log).low_water(None, true);
    }
    wire.pass_until(|wire| wire.sender.unconfirmed() == 0);
    for (log, sent) in sent.iter().enumerate() {
        let taken = wire.recorder.log(&format!("camera/s{log}")).expect("it was there");
        let is_same = taken.fragments().eq(sent.iter().map(|(key, bytes)| (*key, &**bytes)));
        assert!(is_same, "seed {seed}, source {log}: {} of {}", taken.items.len(), sent.len());
    }
    assert_eq!(wire.recorder.faults, [""; 0], "seed {seed}");
}

#[test]
fn whatever_breaks_each_fragment_is_taken_once_and_in_order() {
    for seed in 0..40 {
        history(seed);
    }
}

#[test]
fn after_a_restart_it_goes_on_below_what_was_taken() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.recorder.is_durable_at_once = false;
    for key in 0..10 {
        wire.push(0, key, b"data");
    }
    wire.settle();
    wire.recorder.tell_durable("camera", 4);
    wire.settle();
    wire.cut();
    wire.recorder.restart();
    assert_eq!(wire.recorder.log("camera").unwrap().taken, 4);
    wire.pass_time(SECOND);
    let log = wire.recorder.log("camera").unwrap();
    assert!(log.fragments().map(|(key, _)| key).eq(0..10));
    let status = wire.sender.source(0).status();
    assert_eq!((status.sent_again, status.durable, status.held_bytes), (6, 4, 24));
}

#[test]
fn positions_of_a_lower_epoch_free_nothing() {
    let mut wire = Wire::new(camera(1 << 20));
    wire.recorder.epoch = 3;
    wire.recorder.is_durable_at_once = false;
    wire.settle();
    wire.push(0, 1, b"data");
    wire.settle();
    wire.recorder.epoch = 2;
    wire.recorder.tell_durable("camera", 1);
    wire.settle();
    assert_eq!(wire.sender.unconfirmed(), 1);
    wire.recorder.epoch = 3;
    wire.recorder.tell_positions();
    wire.settle();
    assert_eq!(wire.sender.unconfirmed(), 0);
    // A recorder of a lower epoch that answers a hello is not believed either.
    wire.push(0, 2, b"data");
    wire.cut();
    wire.recorder.epoch = 2;
    wire.pass_time(10 * SECOND);
    let SenderState::Away(why) = wire.sender.state() else { panic!("it is not open") };
    assert_eq!(&*why, "a recorder of a lower epoch has answered");
}

#[test]
fn a_run_that_ended_without_them_gives_up_what_was_held() {
    // The first answer breaks off: nowhere, behind the preamble, behind the welcome.
    [None, Some(16), Some(16 + 128)].into_iter().for_each(gives_up);
}

fn gives_up(answer_cut_after: Option<u64>) {
    let mut wire = Wire::open(camera(1 << 20));
    wire.recorder.is_durable_at_once = false;
    for key in 0..10 {
        wire.push(0, key, b"data");
    }
    wire.settle();
    wire.recorder.tell_durable("camera", 4);
    wire.settle();
    wire.cut();
    wire.recorder.run = [8; 16];
    wire.push(0, 10, b"made after the break");
    wire.cut_after = [answer_cut_after.map(|_| u64::MAX), answer_cut_after];
    wire.pass_until(|wire| wire.sender.state() == SenderState::Open);
    assert_eq!(wire.actions, [Action::GaveUp { log: 0, items: 7 }]);
    let status = wire.sender.source(0).status();
    assert_eq!((status.held_at_run_end, status.held_bytes, status.made), (7, 0, 11));
    wire.push(0, 11, b"of the new run");
    wire.settle();
    let last = wire.recorder.log("camera").unwrap().items.last().unwrap().0;
    assert_eq!(last, 11);
}

#[test]
fn between_runs_what_is_made_belongs_to_the_next_one() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.push(0, 1, b"of the old run");
    wire.settle();
    wire.recorder.end_run([8; 16], 1_000);
    wire.settle();
    wire.push(0, 2, b"of the new run");
    wire.pass_until(|wire| wire.sender.state() == SenderState::Open);
    wire.settle();
    assert_eq!(wire.actions, []);
    assert_eq!(wire.recorder.log("camera").unwrap().taken, 2);
}

#[test]
fn where_a_data_connection_ends_first_a_bye_is_waited_for() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.recorder.is_durable_at_once = false;
    wire.push(0, 1, b"held at the end");
    wire.settle();
    wire.cut_data(0);
    wire.settle();
    assert_eq!(wire.sender.state(), SenderState::Open);
    // The run ended in order: what is made from here on is of the next one.
    wire.recorder.end_run([8; 16], 1_000);
    wire.settle();
    assert!(
        matches!(wire.sender.state(), SenderState::Away(why) if why.contains("the run has ended"))
    );
    wire.push(0, 2, b"of the new run");
    wire.pass_until(|wire| wire.sender.state() == SenderState::Open);

    // Without a `bye` it is a break.
    wire.settle();
    let connects = wire.connects;
    wire.cut_data(0);
    wire.pass_time(49 * MS);
    assert_eq!(wire.sender.state(), SenderState::Open);
    wire.pass_time(MS);
    assert!(matches!(wire.sender.state(), SenderState::Away(why) if why.contains("was cut")));
    wire.pass_until(|wire| wire.sender.state() == SenderState::Open);
    assert_eq!(wire.connects, connects + 1);
}

#[test]
fn a_silent_recorder_is_left_within_3_s_and_a_late_thread_closes_nobody() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.pass_time(SECOND);
    wire.is_silent = true;
    wire.pass_time(2_499 * MS);
    assert_eq!(wire.sender.state(), SenderState::Open);
    wire.pass_time(500 * MS);
    assert_eq!(wire.connects, 2, "it has left, and tries again");
    wire.is_silent = false;
    wire.pass_until(|wire| wire.sender.state() == SenderState::Open);
    let connects = wire.connects;
    // Of ten seconds in which the sender was not called, 250 ms count.
    wire.now_ns += 10 * SECOND;
    wire.settle();
    assert_eq!((wire.sender.state(), wire.connects), (SenderState::Open, connects));
}

#[test]
fn a_connection_that_is_held_lives_and_one_that_is_not_read_is_left() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.recorder.is_held = true;
    wire.push(0, 1, &[0; 50_000]);
    wire.pass_time(60 * SECOND);
    assert_eq!((wire.sender.state(), wire.connects), (SenderState::Open, 1));
    wire.recorder.is_held = false;
    wire.settle();
    assert_eq!(wire.sender.unconfirmed(), 0);
    (wire.recorder.is_held, wire.recorder.hides_held) = (true, true);
    wire.push(0, 2, &[0; 50_000]);
    wire.pass_time(2_499 * MS);
    assert_eq!(wire.connects, 1);
    wire.pass_time(SECOND);
    assert_eq!(wire.connects, 2);
}

#[test]
fn each_wait_is_longer_and_at_most_a_second() {
    let mut wire = Wire::new(camera(1 << 20));
    wire.is_silent = true;
    wire.pass_time(60 * SECOND);
    // An opening takes 3 s, and the longest wait 1 s.
    assert!((15..20).contains(&wire.connects), "{} attempts", wire.connects);
}

#[test]
fn an_answer_beyond_what_was_sent_is_a_fault_and_frees_nothing() {
    let mut wire = Wire::open(camera(1 << 20));
    wire.recorder.is_durable_at_once = false;
    wire.push(0, 1, b"data");
    wire.settle();
    wire.recorder.is_held = true;
    wire.push(0, 2, b"data");
    wire.recorder.overstates = 1;
    wire.recorder.tell_positions();
    wire.settle();
    wire.recorder.overstates = 0;
    let SenderState::Away(why) = wire.sender.state() else { panic!("it is not open") };
    assert_eq!(&*why, "the recorder's bytes: taken is 0 to 1, got 2");
    assert_eq!(wire.sender.unconfirmed(), 2);
    wire.recorder.is_held = false;
    wire.pass_until(|wire| wire.recorder.log("camera").unwrap().taken == 2);
    assert_eq!(wire.connects, 2);
}
