//! Front-ends that are started again: their next session, and what the others wait for.

use catchment_builder::SourceRole::{Optional, Required};
use catchment_builder::{Astray, SourceNote};
use catchment_model::Entry;

use crate::promises::{config, mark};
use crate::support::{MS, Rig, S};

#[test]
fn a_source_that_begins_again_without_a_word_costs_one_time_out_and_not_the_run() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send_all(0, 0..2, 100_000..100_010);
    rig.poll(0);
    // Its program was started again, and counts from 0.
    rig.builder.note(0, 1, SourceNote::Session { key_bits: 48 });
    let mut key = 100_010;
    for ms in 1..=3_000 {
        rig.send(ms * MS, 0, [key]);
        rig.send(ms * MS, 1, [ms - 1]);
        mark(&mut rig, ms * MS, 1, ms);
        rig.poll(ms * MS);
        key += 1;
        let again = rig.builder.status().sources[1].astray;
        let Some(Astray::Numbers { first: 0, after: Some(100_009), others }) = again else {
            panic!("{again:?}")
        };
        assert!((key - 1..=key).contains(&others), "{others}");
        if ms >= 1_200 {
            assert_eq!(rig.rows.len() as u64, key - 100_000, "{ms}");
        }
    }
    assert_eq!(rig.count(0, Entry::FragmentsMissing), 0);
    rig.finish(3_001 * MS);
}

#[test]
fn a_source_that_begins_behind_what_is_closed_costs_one_time_out_and_not_the_run() {
    // It was in the run before, or it was not.
    for was_there in [true, false] {
        let mut rig = Rig::whole(config(&[Required; 2]));
        rig.send_all(0, 0..1 + usize::from(was_there), 90..100);
        rig.builder.note(0, 1, SourceNote::Gone);
        rig.send(0, 0, 100..100_010);
        rig.poll(0);
        assert_eq!(rig.rows.len(), 99_920);
        rig.builder.note(0, 1, SourceNote::Session { key_bits: 48 });
        for ms in 1..=3_000 {
            rig.send(ms * MS, 0, [100_009 + ms]);
            rig.send(ms * MS, 1, [99 + ms]);
            mark(&mut rig, ms * MS, 1, 100 + ms);
            rig.poll(ms * MS);
            if ms >= 1_200 {
                assert_eq!(rig.rows.len() as u64, 99_920 + ms, "{ms}");
                let Some(Astray::Numbers { first: 100, after: None, others }) =
                    rig.builder.status().sources[1].astray
                else {
                    panic!("it is named")
                };
                assert!((100_009 + ms..=100_010 + ms).contains(&others), "{others}");
            }
        }
        rig.finish(3_001 * MS);
        assert_eq!((rig.count(0, Entry::FragmentsMissing), rig.lost()), (0, 3_000));
    }
}

#[test]
fn a_source_that_comes_back_is_waited_for_until_it_has_caught_up() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send_all(0, 0..2, 0..10);
    let mut next = 10;
    for ms in 10..9_000 {
        rig.send(ms * MS, 0, [ms]);
        if ms == 1_500 {
            rig.builder.note(ms * MS, 1, SourceNote::Quiet);
        }
        // It sends again what it has, twice as fast as the others, and is 20 ms behind then.
        if ms >= 4_000 {
            let until = (next + 2).min(ms - 20);
            rig.send(ms * MS, 1, next..until);
            next = until;
        }
        rig.poll(ms * MS);
    }
    assert!(!rig.builder.status().sources[1].silent);
    let late = rig.count(1, Entry::FragmentsLate) + rig.count(1, Entry::FragmentsOutOfRange);
    assert!((3_900..6_500).contains(&late), "{late}");
    assert!((7_000..8_900).all(|key| rig.rows[&key].present() == 2));
    rig.finish(9 * S);
}

#[test]
fn a_source_that_has_ended_is_not_said_to_be_given_up() {
    let mut rig = Rig::whole(config(&[Required, Optional]));
    rig.send_all(0, 0..2, 0..10);
    rig.builder.note(0, 1, SourceNote::End(10));
    for ms in 10..3_000 {
        rig.send(ms * MS, 0, [ms]);
        rig.poll(ms * MS);
    }
    assert_eq!((rig.rows.len(), rig.builder.status().sources[1].given_up), (3_000, false));
    rig.finish(3 * S);
}

#[test]
fn a_source_that_missed_a_numbering_is_waited_for_again_in_its_next_session() {
    let mut rig = Rig::whole(config(&[Required; 3]));
    rig.send_all(0, 0..3, 0..10);
    rig.builder.note(0, 2, SourceNote::Gone);
    rig.poll(0);
    for source in 0..2 {
        rig.builder.note(MS, source, SourceNote::Numbering);
        rig.send(MS, source, 0..5);
    }
    rig.poll(MS);
    let base = *rig.rows.keys().last().unwrap() + 1;
    rig.builder.note(2 * MS, 2, SourceNote::Session { key_bits: 48 });
    rig.send(2 * MS, 2, 5..8);
    rig.send_all(2 * MS, 0..2, 5..10);
    rig.poll(2 * MS);
    // Those that it has not passed wait for it.
    assert_eq!(rig.rows.keys().filter(|&&key| key >= base).count(), 3);
    assert_eq!(rig.count(2, Entry::FragmentsLate), 0);
    rig.finish(3 * MS);
}
