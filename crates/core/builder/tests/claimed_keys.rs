//! Front-ends that send a key far from those of all others.

use catchment_builder::SourceRole::{Optional, Required};
use catchment_builder::{Fragment, SourceNote};
use catchment_model::Entry;

use crate::promises::config;
use crate::support::{MS, Rig, S};

/// An optional source has sent one absurd key, and the required one goes on for two seconds.
fn with_absurd(key: u64) -> Rig {
    let mut rig = Rig::whole(config(&[Required, Optional]));
    rig.send_all(0, 0..2, 1_000..1_200);
    rig.push(0, &[Fragment::new(1, key, 0, 0)]);
    for ms in 1..2_000 {
        rig.send(ms * MS, 0, [1_199 + ms]);
        rig.poll(ms * MS);
    }
    assert_eq!(rig.rows.len(), 2_199);
    rig
}

fn honest_lost(rig: &Rig) -> u64 {
    let missing = [Entry::FragmentsMissing, Entry::FragmentsMissingUnrecorded];
    missing.map(|entry| rig.count(0, entry)).iter().sum()
}

#[test]
fn an_absurd_key_is_counted_out_by_the_name_of_its_source_alone() {
    for key in [1 << 61, (1 << 20) + 1_200] {
        let mut rig = with_absurd(key);
        let status = rig.builder.status();
        assert!(status.sources[1].out_of_step && status.sources[1].astray.is_some());
        assert!(!status.sources[0].out_of_step);
        for source in [1, 0] {
            rig.builder.note(2 * S, source, SourceNote::Gone);
            rig.poll(2 * S);
        }
        rig.finish(2 * S);
        assert_eq!(rig.rows.len(), 2_199, "{key}");
        assert_eq!((honest_lost(&rig), rig.count(0, Entry::FragmentsSkipped)), (0, 0));
        assert_eq!(rig.count(1, Entry::FragmentsOutOfRange), 1);
    }
}

#[test]
fn an_absurd_key_within_the_window_charges_others_with_its_own_event_at_most() {
    let mut rig = with_absurd(100_000);
    for source in [1, 0] {
        rig.builder.note(2 * S, source, SourceNote::Gone);
    }
    rig.finish(2 * S);
    assert_eq!((rig.rows.len(), honest_lost(&rig)), (2_200, 1));
}

#[test]
fn the_next_session_with_fitting_keys_is_taken_after_an_absurd_one() {
    for (key, marks) in [(1 << 61, false), (1 << 61, true), ((1 << 20) + 1_200, false)] {
        let mut rig = with_absurd(key);
        rig.builder.note(2 * S, 1, SourceNote::Gone);
        rig.builder.note(2 * S, 1, SourceNote::Session { key_bits: 48 });
        if marks {
            rig.builder.note(2 * S, 1, SourceNote::Numbering);
        }
        for ms in 2_000..3_000 {
            rig.send_all(ms * MS, 0..2, 1_199 + ms..1_200 + ms);
            rig.poll(ms * MS);
        }
        let status = rig.builder.status();
        assert!(!status.sources[1].out_of_step && status.sources[1].astray.is_none());
        assert_eq!((rig.rows.len(), rig.rows[&4_198].present()), (3_199, 2), "{key}");
        assert_eq!(rig.count(1, Entry::FragmentsOutOfRange), 1);
        rig.finish(3 * S);
        assert_eq!((honest_lost(&rig), rig.lost()), (0, 1));
    }
}

#[test]
fn sources_that_jump_far_alike_or_alone_lose_nothing() {
    // Alike, one after the other.
    let mut rig = Rig::whole(config(&[Required, Optional]));
    rig.send_all(0, 0..2, 0..10);
    rig.send(0, 0, [1 << 40]);
    rig.poll(0);
    rig.send(S, 1, [1 << 40]);
    rig.poll(S);
    assert_eq!(rig.rows.len(), 11);
    // One alone, where the other one has gone.
    rig.builder.note(S, 1, SourceNote::Gone);
    rig.send(S, 0, (1 << 45)..(1 << 45) + 3);
    rig.poll(S);
    assert_eq!(rig.rows.len(), 14);
    rig.finish(S);
    assert_eq!(rig.lost(), 0);
    // The only one.
    let mut rig = Rig::whole(config(&[Required]));
    rig.send(0, 0, [5, 1 << 40, 1 << 45]);
    rig.poll(0);
    assert_eq!(rig.rows.len(), 3);
    rig.finish(S);
    assert_eq!(rig.lost(), 0);
}
