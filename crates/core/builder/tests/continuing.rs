//! A builder that goes on with the run of another one, whose senders send again what is undecided.

use catchment_builder::{BuilderConfig, Continues, SourceRole};
use catchment_fixtures::Random;
use catchment_model::Entry;

use crate::support::{MS, Rig, S, window};

fn config(sources: usize) -> BuilderConfig {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; sources]);
    config.positions = vec![true; sources];
    config
}

/// Where the rig's run goes on.
fn continues(rig: &Rig, sources: usize) -> Continues {
    let key = |source| Some(rig.builder.decided_key(source)).filter(|&key| key > 0);
    Continues { closed_key: rig.builder.closed_key(), sources: (0..sources).map(key).collect() }
}

#[test]
fn each_event_is_in_one_of_two_lives_wherever_the_first_one_ends() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(4) as usize;
        let mut settings = config(count);
        settings.frame_bytes = 1 + random.below(20_000);
        settings.timeout_ns = 60 * S;
        let first = random.below(1 << 20);
        let mut next = vec![first; count];
        let (mut now_ns, mut seen, mut rows) = (S, 0, 0);
        for life in 0..4 {
            let mut rig = Rig::by_number(settings.clone(), window(256, 64));
            for _ in 0..60 {
                let source = random.below(count as u64) as usize;
                let slowest = *next.iter().min().unwrap();
                let most = (slowest + 60).saturating_sub(next[source]).min(40);
                let end = next[source] + random.below(most + 1);
                rig.send(now_ns, source, next[source]..end);
                next[source] = end;
                now_ns += random.below(5 * MS);
                rig.poll(now_ns);
            }
            if life == 3 {
                rig.finish(now_ns);
            }
            let ledger = rig.ledger.total();
            assert_eq!(ledger[Entry::FragmentsMissingUnrecorded], 0, "seed {seed}, life {life}");
            for (&key, row) in &rig.rows {
                let at = first + seen;
                assert_eq!(key, at, "seed {seed}, life {life}, first {first}");
                assert!(
                    life == 3 || row.present() == count,
                    "seed {seed}, life {life}: {key} of {first}, {:?} {row:?}",
                    rig.rows.len()
                );
                seen += 1;
            }
            rows += rig.rows.len();
            // What was in no cut comes again.
            let go_on = continues(&rig, count);
            assert!(go_on.closed_key == 0 || go_on.closed_key == first + seen, "seed {seed}");
            next.iter_mut().for_each(|next| *next = first + seen);
            settings.continues = (go_on.closed_key > 0).then_some(go_on).or(settings.continues);
        }
        assert!(rows > 0, "seed {seed}");
    }
}

#[test]
fn what_comes_below_the_closed_key_is_late_and_a_source_that_is_gone_costs_one_timeout() {
    let sources = vec![Some(1_000), Some(1_000), None];
    let continues = Some(Continues { closed_key: 1_000, sources });
    let mut rig = Rig::new(BuilderConfig { continues, ..config(3) });
    rig.send(S, 0, 990..1_010);
    rig.send(S, 1, 1_000..1_010);
    rig.poll(S);
    assert_eq!(rig.ledger.sources[0][Entry::FragmentsLate], 10);
    assert_eq!(rig.rows.len(), 0);
    for (step, key) in (1_010..1_100).enumerate() {
        let now_ns = S + 50 * MS * (step as u64 + 1);
        rig.send_all(now_ns, 0..2, key..key + 1);
        rig.poll(now_ns);
    }
    assert_eq!(rig.rows.keys().next(), Some(&1_000));
    assert!(rig.rows.len() > 60, "{}", rig.rows.len());
    rig.finish(10 * S);
    assert_eq!(rig.rows.len(), 100);
}

#[test]
fn senders_that_have_gone_on_beyond_the_window_are_a_gap_and_no_restart() {
    let mut settings = config(2);
    let closed_key = (3 << 24) + 5_000;
    settings.continues = Some(Continues { closed_key, sources: vec![None; 2] });
    let mut rig = Rig::by_number(settings, window(256, 64));
    for step in 0..100 {
        let now_ns = S + 20 * MS * step;
        rig.send_all(now_ns, 0..2, 900_000 + 10 * step..900_010 + 10 * step);
        rig.poll(now_ns);
    }
    assert_eq!(rig.builder.status().restarts_followed, 0);
    rig.finish(10 * S);
    assert_eq!(rig.rows.keys().next(), Some(&((3 << 24) + 900_000)));
    assert_eq!(rig.rows.len(), 1_000);
}
