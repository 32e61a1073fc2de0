//! Several nodes build the events of one run, each those of its own keys.

use crate::support;
use catchment_builder::{BuilderConfig, KeyRule, NumberConfig, OwnedKeys, SourceRole};
use catchment_model::{Entry, EventFlags};
use support::{MS, Rig, S, window};

const SOURCES: usize = 3;
const NODES: u32 = 3;

fn node(owned: OwnedKeys) -> Rig {
    let config = BuilderConfig::new(vec![SourceRole::Required; SOURCES]);
    Rig::by_number(config, NumberConfig { owned, ..NumberConfig::default() })
}

fn keys(rig: &Rig) -> Vec<u64> {
    rig.rows.keys().copied().collect()
}

#[test]
fn nodes_that_get_everything_build_each_event_once_between_them() {
    let slices = |index| OwnedKeys::new(KeyRule::slices(10, NODES, &[index]).unwrap());
    let mut all = Vec::new();
    for index in 0..NODES {
        let mut rig = node(slices(index));
        for step in 0..100 {
            rig.send_all(step * MS, 0..SOURCES, step * 9..(step + 1) * 9);
            rig.poll(step * MS);
            assert_eq!(rig.builder.status().open_events, 0, "none waits for another node's");
        }
        rig.finish(S);
        assert_eq!(rig.complete(), 300);
        for source in 0..SOURCES {
            assert_eq!(rig.count(source, Entry::FragmentsNotOwned), 600);
        }
        assert!(!rig.ledger.balance().lost_data(), "{:?}", rig.ledger.total());
        assert_eq!(rig.builder.status().events_absent, 0);
        all.extend(keys(&rig));
    }
    all.sort_unstable();
    assert_eq!(all, (0..900).collect::<Vec<u64>>());
}

#[test]
fn an_event_closes_at_once_though_the_keys_before_it_went_elsewhere() {
    for slice_keys in [1, 40] {
        let owned = OwnedKeys::new(KeyRule::slices(slice_keys, NODES, &[1]).unwrap());
        let mut rig = node(owned.clone());
        for step in 0..200 {
            let own = (step * 9..(step + 1) * 9).filter(|&key| owned.has(key));
            let own: Vec<u64> = own.collect();
            (0..SOURCES).for_each(|source| rig.send(step * MS, source, own.iter().copied()));
            rig.poll(step * MS);
            let status = rig.builder.status();
            assert_eq!((status.open_events, status.sources[0].parked), (0, 0), "step {step}");
        }
        rig.finish(S);
        assert_eq!(rig.complete() as u64, owned.count(0..1_800));
        assert!(!rig.ledger.balance().lost_data(), "{:?}", rig.ledger.total());
    }
}

#[test]
fn of_the_keys_that_nobody_sent_only_owned_ones_are_absent() {
    let owned = OwnedKeys::new(KeyRule::modulo(NODES, 2).unwrap());
    let mut rig = node(owned.clone());
    let sent = |key: u64| !(100..150).contains(&key);
    (0..SOURCES).for_each(|source| rig.send(0, source, (0..1_000).filter(|&key| sent(key))));
    rig.finish(S);
    let absent = owned.count(100..150);
    assert_eq!(rig.builder.status().events_absent, absent);
    assert_eq!(rig.count(0, Entry::FragmentsMissingUnrecorded), absent);
    assert_eq!(rig.complete() as u64, owned.count(0..1_000) - absent);
}

#[test]
fn the_newest_owned_event_times_out_in_a_pause_as_if_keys_were_not_shared() {
    for owned in [OwnedKeys::all(), OwnedKeys::new(KeyRule::modulo(4, 3).unwrap())] {
        let mut rig = node(owned.clone());
        let last = 4 * 100 - 1;
        // All but the last few, so that every sender has a position before those come.
        for part in [0..last - 50, last - 50..last + 1] {
            for source in 0..SOURCES {
                let comes = |key: u64| owned.has(key) && (source != 2 || key != last);
                rig.send(0, source, part.clone().filter(|&key| comes(key)));
            }
            rig.poll(0);
        }
        for step in 0..30 {
            rig.poll(step * 100 * MS);
        }
        assert!(rig.rows[&last].flags.contains(EventFlags::TIMED_OUT), "{owned:?}");
        rig.finish(4 * S);
        assert_eq!(rig.total(Entry::FragmentsMissing), 1);
    }
}

#[test]
fn from_the_key_of_a_change_on_another_rule_counts() {
    // The last of three nodes dies, and its slices go to the first.
    let mut owned = OwnedKeys::new(KeyRule::slices(10, NODES, &[0]).unwrap());
    owned.change(300, KeyRule::slices(10, NODES, &[0, 2]).unwrap()).unwrap();
    let mut rig = node(owned);
    rig.send_all(0, 0..SOURCES, 0..600);
    rig.finish(S);
    let expected = (0..600).filter(|key| match key / 10 % 3 {
        0 => true,
        2 => *key >= 300,
        _ => false,
    });
    assert_eq!(keys(&rig), expected.collect::<Vec<u64>>());
    assert_eq!(rig.total(Entry::FragmentsNotOwned), 300 * SOURCES as u64);
    assert!(!rig.ledger.balance().lost_data());
}

#[test]
fn what_is_another_nodes_is_no_loss_where_memory_is_short() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; SOURCES]);
    config.waiting_bytes_max = 10_000;
    let owned = OwnedKeys::new(KeyRule::modulo(2, 0).unwrap());
    let mut rig = Rig::by_number(config, NumberConfig { owned, ..NumberConfig::default() });
    rig.send_all(0, 0..SOURCES, 0..10);
    rig.poll(0);
    // Ahead with more than its share.
    rig.send(0, 0, 10..200);
    rig.poll(0);
    rig.send(0, 0, [200, 201, 203]);
    rig.collect(0);
    assert_eq!(rig.count(0, Entry::FragmentsOutOfRange), 1);
    assert_eq!(rig.count(0, Entry::FragmentsNotOwned), 5 + 95 + 2);
    rig.finish(S);
}

#[test]
fn what_is_another_nodes_is_no_loss_where_it_comes_late() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; SOURCES]);
    config.parked_max = 100;
    let owned = OwnedKeys::new(KeyRule::modulo(2, 0).unwrap());
    let mut rig = Rig::by_number(config, NumberConfig { owned, ..window(1_024, 64) });
    for step in 0..400 {
        let now = step * 10 * MS;
        rig.send_all(now, 0..SOURCES, step * 8..(step + 1) * 8);
        // A copy that comes late, of keys that are all another node's.
        let late = (step * 8).saturating_sub(40);
        rig.send(now, 0, [late | 1]);
        rig.poll(now);
    }
    rig.finish(10 * S);
    assert_eq!(rig.complete(), 1_600);
    assert_eq!(rig.lost(), 0, "{:?}", rig.ledger.total());
    let not_owned = rig.total(Entry::FragmentsNotOwned);
    assert!((1_600 * 3..=1_600 * 3 + 400).contains(&not_owned), "{not_owned}");
}
