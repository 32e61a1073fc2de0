//! Front-ends beside ports in the time matcher: random histories of 1 to 1,000 sources.

use catchment_builder::{
    BuilderConfig, ClockConfig, Fragment, SourceNote, SourceRole, TimeConfig, TimeMatcher,
    WindowKind,
};
use catchment_fixtures::Random;

use crate::pieces::{offsets, sorted_and_grouped};
use crate::promised_times::{BEGIN, sent_once, settings};
use crate::support::{MS, Rig, S};

/// What comes of a source.
#[derive(Clone, Copy)]
enum Comes {
    Fragment(u64),
    Note(SourceNote),
}

/// What comes of a source with these times, and when: in order. A front-end promises now and then,
/// and is away for a while, after which it sends what it holds.
fn arrivals(random: &mut Random, times: &[u64], is_front_end: bool) -> Vec<(u64, Comes)> {
    let (delay_ns, mut last_ns) = (random.below(50 * MS), BEGIN);
    let away_ns = BEGIN + random.below(60 * MS);
    let back_ns = away_ns + random.below(400 * MS);
    let is_away = is_front_end && random.chance(300);
    let mut all = Vec::new();
    if is_away {
        all.push((away_ns, Comes::Note(SourceNote::Waited)));
        all.push((back_ns, Comes::Note(SourceNote::Attached)));
    }
    for &ns in times {
        if is_front_end && random.chance(100) {
            all.push((last_ns, Comes::Note(SourceNote::LowWater(ns))));
        }
        let at_ns = last_ns.max(ns + delay_ns);
        let waits = is_away && (away_ns..back_ns).contains(&at_ns);
        last_ns = if waits { back_ns } else { at_ns };
        all.push((last_ns, Comes::Fragment(ns)));
    }
    all
}

fn time_rule(random: &mut Random, config: &BuilderConfig, most: u32) -> TimeConfig {
    let count = config.sources.len();
    let window_ns = [100, 10_000, MS][random.below(3) as usize];
    let mut time = TimeConfig::new(window_ns, vec![ClockConfig::NS; count], config.timeout_ns);
    time.fragments_max = most;
    time.kind = [WindowKind::First, WindowKind::Gap][random.below(2) as usize];
    time.span_ns_max = window_ns * (1 + random.below(8));
    if random.chance(400) {
        time.openers = (0..count).map(|one| one == 0 || random.chance(300)).collect();
        time.before_ns = random.below(2 * window_ns);
    }
    time
}

#[test]
fn random_histories_of_front_ends_and_ports_come_to_what_sorting_everything_gives() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = [1, 2, 3, 9, 100, 1_000][(seed % 6) as usize];
        let most = [1, 1, 2, 3][random.below(4) as usize];
        let front_ends: Vec<usize> = (0..count).filter(|_| random.chance(600)).collect();
        let mut config = settings(&vec![SourceRole::Required; count], &front_ends);
        config.parked_max = 1 << 20;
        let time = time_rule(&mut random, &config, most);
        let matcher = TimeMatcher::new(&config, &time).expect("settings that can be");
        let mut rig = Rig::with_matcher(&config, matcher);
        let events = (2_000 / count as u64).max(12);
        let apart_ns = 1 + random.below(4 * time.window_ns);
        let spread_ns = 1 + random.below(2 * time.window_ns);
        let mut all = Vec::new();
        for source in 0..count {
            let mut times = Vec::new();
            for event in 0..events {
                let pieces = if random.chance(700) { 1 } else { random.below(4) };
                let ns = BEGIN + event * apart_ns;
                times.extend((0..pieces).map(|_| ns + random.below(spread_ns)));
            }
            times.sort_unstable();
            times.dedup();
            let of_source = arrivals(&mut random, &times, front_ends.contains(&source));
            all.extend(of_source.into_iter().map(|(at_ns, comes)| (at_ns, source, comes)));
            rig.builder.note(BEGIN, source, SourceNote::Session { key_bits: 64 });
        }
        all.sort_by_key(|&(at_ns, ..)| at_ns);
        let mut sent = vec![Vec::new(); count];
        // The rig looks at every source's ledger with each.
        let polls_per_thousand = if count > 100 { 10 } else { 300 };
        for (now_ns, source, comes) in all {
            match comes {
                Comes::Note(note) => rig.builder.note(now_ns, source, note),
                Comes::Fragment(ns) => {
                    let fragment: Fragment = sent_once(ns, rig.fragment(source, 0, 100));
                    sent[source].push((ns, fragment.offset));
                    rig.push(now_ns, &[fragment]);
                }
            }
            if random.chance(polls_per_thousand) {
                rig.poll(now_ns);
            }
        }
        rig.finish(BEGIN + 100 * S);
        let expected = sorted_and_grouped(&sent, &time);
        for ((&key, row), (anchor, of_sources)) in rig.rows.iter().zip(&expected) {
            let found: Vec<Vec<u64>> = (0..count).map(|source| offsets(row, source)).collect();
            assert_eq!((key, &found), (*anchor, of_sources), "seed {seed}, {count} sources");
        }
        assert_eq!((rig.rows.len(), rig.lost()), (expected.len(), 0), "seed {seed}");
    }
}
