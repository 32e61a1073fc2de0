//! Packets that come twice, or late, after their sender has paused: neither a restart nor a loss.

use crate::support;
use catchment_builder::{BuilderConfig, Fragment, FragmentFlags, SourceRole};
use catchment_model::Entry;
use support::{MS, Rig, S, window};

/// One packet of one number every 20 ms of these sources, a poll after each; returns the time.
fn deliver(rig: &mut Rig, mut now: u64, sources: &[usize], numbers: std::ops::Range<u64>) -> u64 {
    for number in numbers {
        for &source in sources {
            rig.send(now, source, [number]);
        }
        rig.poll(now);
        now += 20 * MS;
    }
    now
}

/// Nothing comes, and the builder is polled.
fn pause(rig: &mut Rig, now: u64, pause_ns: u64) -> u64 {
    (1..=20).for_each(|step| rig.poll(now + step * pause_ns / 20));
    now + pause_ns
}

fn assert_nothing_happened(rig: &Rig, events: usize, repeated: u64, case: &str) {
    let total = rig.ledger.total();
    assert_eq!(total[Entry::NumberingRestarts], 0, "{case}: {total:?}");
    assert_eq!((rig.complete(), rig.rows.len()), (events, events), "{case}: {total:?}");
    assert!(!rig.ledger.balance().lost_data(), "{case}: {total:?}");
    let counted = total[Entry::FragmentsDuplicate] + total[Entry::FragmentsAmbiguous];
    assert_eq!(counted, repeated, "{case}: {total:?}");
}

#[test]
fn a_packet_that_comes_twice_after_a_pause_is_neither_recorded_twice_nor_a_loss() {
    for sources in [1, 2, 5] {
        // Whether the run goes on after it.
        for goes_on in [false, true] {
            for repeated in [190..195, 195..200, 150..199] {
                let case = format!("{sources} sources, {repeated:?}, goes on: {goes_on}");
                let all: Vec<usize> = (0..sources).collect();
                let mut rig = Rig::required(sources);
                let mut now = deliver(&mut rig, 0, &all, 0..200);
                now = pause(&mut rig, now, 700 * MS);
                all.iter().for_each(|&source| rig.send(now, source, repeated.clone()));
                now = pause(&mut rig, now, 3 * S);
                let events = if goes_on { 600 } else { 200 };
                now = deliver(&mut rig, now, &all, 200..events);
                rig.finish(now);
                let count = sources as u64 * (repeated.end - repeated.start);
                assert_nothing_happened(&rig, events as usize, count, &case);
            }
        }
    }
}

#[test]
fn the_same_packet_a_thousand_times_is_no_restart() {
    for sources in [1, 3] {
        let all: Vec<usize> = (0..sources).collect();
        let mut rig = Rig::required(sources);
        let mut now = deliver(&mut rig, 0, &all, 0..200);
        now = pause(&mut rig, now, S);
        for _ in 0..1_000 {
            all.iter().for_each(|&source| rig.send(now, source, 180..190));
            rig.poll(now);
            now += MS;
        }
        rig.finish(now);
        assert_nothing_happened(&rig, 200, sources as u64 * 10_000, &format!("{sources}"));
    }
}

#[test]
fn a_source_that_is_late_and_then_alone_has_not_restarted() {
    // Events that the network delays by more than the time-out, and all that follow.
    let mut rig = Rig::required(2);
    let mut now = deliver(&mut rig, 0, &[0, 1], 0..100);
    now = deliver(&mut rig, now, &[0], 100..250);
    // Source 0 has ended; source 1 delivers what it owes.
    now = deliver(&mut rig, now, &[1], 100..250);
    now = pause(&mut rig, now, 3 * S);
    rig.finish(now);
    let total = rig.ledger.total();
    assert_eq!(total[Entry::NumberingRestarts], 0, "{total:?}");
    assert_eq!(rig.rows.len(), 250, "{total:?}");
    let late = rig.count(1, Entry::FragmentsLate);
    assert_eq!(rig.count(1, Entry::FragmentsMissing), late, "{total:?}");
    assert_eq!(rig.count(1, Entry::FragmentsRecorded) + late, 250, "{total:?}");
    assert_eq!(rig.ledger.balance().fragments_lost, 0, "{total:?}");
}

#[test]
fn a_source_whose_first_fragments_are_late_has_not_restarted_when_it_is_alone() {
    // Of events of the run, and of events before it.
    for first in [1_100, 950] {
        let mut rig = Rig::required(2);
        let mut now = deliver(&mut rig, 0, &[0], 1_000..1_200);
        now = deliver(&mut rig, now, &[1], first..first + 100);
        now = pause(&mut rig, now, 3 * S);
        rig.finish(now);
        let total = rig.ledger.total();
        assert_eq!(total[Entry::NumberingRestarts], 0, "{first}: {total:?}");
        assert_eq!(rig.rows.len(), 200, "{first}: {total:?}");
        let late = rig.count(1, Entry::FragmentsLate);
        let recorded = rig.count(1, Entry::FragmentsRecorded);
        assert!(late > 0 && recorded + late == 100, "{first}: {total:?}");
    }
}

#[test]
fn repeated_numbers_that_rise_at_eight_times_are_a_restart_and_at_seven_are_ambiguous() {
    for (times, restarts) in [(7, 0), (8, 1)] {
        let mut rig = Rig::required(1);
        let mut now = deliver(&mut rig, 0, &[0], 0..200);
        now = pause(&mut rig, now, S);
        now = deliver(&mut rig, now, &[0], 0..times);
        rig.finish(now);
        let total = rig.ledger.total();
        assert_eq!(total[Entry::NumberingRestarts], restarts, "{times}: {total:?}");
        assert_eq!(total[Entry::FragmentsAmbiguous], if restarts == 0 { 7 } else { 0 });
        assert_eq!(rig.rows.len() as u64, 200 + restarts * times, "{times}: {total:?}");
        assert!(!rig.ledger.balance().lost_data(), "{times}: {total:?}");
    }
}

#[test]
fn a_packet_with_many_fragments_is_no_restart_however_often_it_comes_again() {
    // Each fragment reaches the builder at another time, as where queues are short.
    let mut rig = Rig::required(1);
    let mut now = deliver(&mut rig, 0, &[0], 0..200);
    now = pause(&mut rig, now, S);
    for number in std::iter::repeat_n(180..200, 50).flatten() {
        let fragment = rig.fragment(0, number, 100);
        let flags = if number == 180 { 0 } else { FragmentFlags::CONTINUES };
        rig.push(now, &[Fragment { flags, ..fragment }]);
        rig.poll(now);
        now += MS;
    }
    rig.finish(now);
    assert_nothing_happened(&rig, 200, 1_000, "one packet of 20 fragments");
}

#[test]
fn what_a_source_sends_a_window_behind_the_others_is_no_restart() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    let mut rig = Rig::by_number(config, window(256, 64));
    let mut now = deliver(&mut rig, 0, &[0, 1], 0..200);
    now = deliver(&mut rig, now, &[0], 200..900);
    // The other source has ended when the last packet of this one comes again and again.
    now = pause(&mut rig, now, 3 * S);
    for _ in 0..50 {
        rig.send(now, 1, 180..200);
        rig.poll(now);
        now += 20 * MS;
    }
    // And then what it has sent next.
    now = deliver(&mut rig, now, &[1], 200..400);
    now = pause(&mut rig, now, 3 * S);
    rig.finish(now);
    let total = rig.ledger.total();
    assert_eq!(total[Entry::NumberingRestarts], 0, "{total:?}");
    assert_eq!((rig.complete(), rig.rows.len()), (200, 900), "{total:?}");
    assert_eq!(rig.count(1, Entry::FragmentsRecorded), 200, "{total:?}");
}

#[test]
fn a_packet_that_came_twice_before_a_restart_is_no_loss_after_it() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    let mut rig = Rig::by_number(config, window(8_192, 4_096));
    let mut now = deliver(&mut rig, 0, &[0, 1], 100_000..100_200);
    now = pause(&mut rig, now, S);
    rig.send(now, 1, 100_190..100_195);
    now = deliver(&mut rig, now, &[0, 1], 0..200);
    rig.finish(now);
    let total = rig.ledger.total();
    assert_eq!(total[Entry::NumberingRestarts], 2, "{total:?}");
    assert_eq!((rig.complete(), rig.lost()), (400, 0), "{total:?}");
    assert_eq!(total[Entry::FragmentsAmbiguous], 5, "{total:?}");
}

#[test]
fn a_sequenced_source_that_is_overtaken_by_its_own_last_fragment_has_not_restarted() {
    // Its packets are known to come once, and its last one overtakes those before it by so much
    // that their events have closed.
    let mut rig = Rig::required(2);
    let mut now = deliver(&mut rig, 0, &[0, 1], 0..100);
    now = deliver(&mut rig, now, &[0], 100..250);
    for number in std::iter::once(249).chain(100..249) {
        let fragment = rig.fragment(1, number, 100);
        rig.push(now, &[Fragment { flags: FragmentFlags::SENT_ONCE, ..fragment }]);
        rig.poll(now);
        now += 20 * MS;
    }
    now = pause(&mut rig, now, 3 * S);
    rig.finish(now);
    let total = rig.ledger.total();
    assert_eq!(total[Entry::NumberingRestarts], 0, "{total:?}");
    assert_eq!(rig.rows.len(), 250, "{total:?}");
    assert_eq!(rig.ledger.balance().fragments_lost, 0, "{total:?}");
}

#[test]
fn packets_that_come_twice_while_another_source_is_not_read_are_no_loss() {
    for held in [0, 1] {
        let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
        let mut rig = Rig::by_number(config, window(256, 64));
        let mut now = deliver(&mut rig, 0, &[0, 1], 0..60);
        // One thread reads on, each packet of 20 events twice; the other is not called for 10 s.
        let packets: Vec<_> = (3..180).map(|packet| packet * 20..(packet + 1) * 20).collect();
        for packet in &packets {
            for _ in 0..2 {
                rig.send(now, 1 - held, packet.clone());
                rig.poll(now);
                now += 25 * MS;
            }
            rig.builder.hold(now, held);
        }
        for (at, packet) in packets.iter().enumerate() {
            rig.send(now, held, packet.clone());
            if at % 3 == 0 {
                rig.send(now, held, packet.clone());
            }
            rig.poll(now);
            now += MS / 5;
        }
        rig.finish(now);
        let repeated = 20 * (177 + 59);
        assert_nothing_happened(&rig, 3_600, repeated, &format!("{held}"));
    }
}
