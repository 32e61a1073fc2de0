//! Front-ends at the edges of a run that is built by time: one that says a single time and is idle,
//! and one whose process began again just before the stop.

use catchment_builder::{ClockConfig, Fragment, SourceNote, SourceRole, TimeConfig, TimeMatcher};
use catchment_model::Entry;

use crate::promised_times::{BEGIN, sent_once, settings};
use crate::support::{MS, Rig};

fn at(event: u64) -> u64 {
    BEGIN + event * MS
}

fn send(rig: &mut Rig<TimeMatcher>, source: usize, event: u64) {
    let fragment: Fragment = sent_once(at(event), rig.fragment(source, 0, 100));
    rig.push(at(event), &[fragment]);
}

/// Two required front-ends that have begun sessions.
fn two_front_ends() -> Rig<TimeMatcher> {
    let config = settings(&[SourceRole::Required; 2], &[0, 1]);
    let time = TimeConfig::new(1_000, vec![ClockConfig::NS; 2], config.timeout_ns);
    let matcher = TimeMatcher::new(&config, &time).expect("settings that can be");
    let mut rig = Rig::with_matcher(&config, matcher);
    for source in 0..2 {
        rig.builder.note(BEGIN, source, SourceNote::Session { key_bits: 64 });
        rig.builder.note(BEGIN, source, SourceNote::Begin);
    }
    rig
}

#[test]
fn one_that_says_a_single_time_and_is_idle_begins_the_run() {
    let mut rig = two_front_ends();
    send(&mut rig, 0, 1);
    rig.builder.note(at(1), 0, SourceNote::Idle(true));
    rig.poll(at(1));
    assert_eq!(rig.rows.len(), 0, "another one may know better");
    rig.builder.note(at(1), 1, SourceNote::Idle(true));
    rig.poll(at(1));
    assert_eq!(rig.rows.len(), 1, "by their word no more will come");
}

#[test]
fn a_second_session_without_a_time_does_not_take_open_events_out_of_the_run() {
    let mut rig = two_front_ends();
    for event in 1..40 {
        if event == 20 {
            rig.builder.note(at(event), 1, SourceNote::Session { key_bits: 64 });
            rig.builder.note(at(event), 1, SourceNote::Begin);
        }
        send(&mut rig, 0, event);
        if event < 20 {
            send(&mut rig, 1, event);
        }
        rig.poll(at(event));
    }
    assert!(rig.rows.len() < 20, "events are open: {}", rig.rows.len());
    // The library has no key that it could put into the mark.
    rig.builder.note(at(40), 1, SourceNote::End(0));
    rig.builder.note(at(40), 0, SourceNote::End(at(39) + 1));
    rig.poll(at(40));
    rig.finish(at(40));
    assert_eq!((rig.rows.len(), rig.complete()), (39, 19));
    let counts = [Entry::FragmentsOutsideRun, Entry::FragmentsMissing];
    assert_eq!(counts.map(|entry| rig.total(entry)), [0, 20]);
}
