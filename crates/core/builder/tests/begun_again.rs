//! Front-ends that are started again: their next session, and what the others wait for.

use catchment_builder::{Astray, SourceNote, SourceRole::Required};
use catchment_model::Entry;

use crate::promises::{config, mark};
use crate::support::{MS, Rig};

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
