//! The first undecided fragment of a source, in random histories, against a list of all fragments
//! and what became of them.

use std::collections::BTreeMap;

use crate::support;
use catchment_builder::{BuilderConfig, IncompletePolicy, NumberConfig, SourceRole};
use catchment_fixtures::Random;
use catchment_model::Entry;
use support::{MS, Rig, S, window};

#[test]
fn the_first_undecided_fragment_is_known_whatever_becomes_of_those_behind_it() {
    for seed in 0..300 {
        History::new(seed, false).run();
    }
}

#[test]
fn where_numbers_restart_no_undecided_fragment_is_passed() {
    for seed in 0..300 {
        History::new(seed, true).run();
    }
}

#[test]
fn a_fragment_that_is_discarded_behind_a_waiting_one_decides_nothing_before_it() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    (config.positions, config.frame_bytes, config.parked_max) = (vec![true; 2], 1, 20);
    let mut rig = Rig::by_number(config, window(256, 16));
    rig.send_all(0, 0..2, 0..10);
    rig.poll(0);
    assert_eq!((rig.builder.first_undecided(0), rig.builder.decided_key(0)), (10, 10));
    // 10 waits for the other source; what is far beyond the window has no place.
    rig.send(MS, 0, 10..400);
    rig.poll(MS);
    let discarded = rig.discards.len();
    assert!(discarded > 50 && rig.builder.parked(0) == 20);
    assert_eq!(rig.builder.first_undecided(0), 10);
    rig.send(2 * MS, 1, 10..150);
    rig.poll(2 * MS);
    assert_eq!((rig.builder.first_undecided(0), rig.builder.decided_key(0)), (150, 150));
    rig.send(3 * MS, 1, 150..400);
    rig.poll(3 * MS);
    rig.poll(2 * S);
    assert_eq!((rig.builder.first_undecided(0), rig.builder.first_undecided(1)), (400, 400));
    assert_eq!(rig.builder.closed_key(), 400);
    rig.finish(3 * S);
}

/// A run, and what is known of each of its fragments.
struct History {
    seed: u64,
    random: Random,
    rig: Rig,
    sources: Vec<Log>,
    restarts: bool,
    now_ns: u64,
    /// The key below which rows were seen.
    rows_below: u64,
    discards_seen: usize,
}

/// What a source sent.
#[derive(Default)]
struct Log {
    /// The number of its next fragment.
    next: u64,
    pushed: u64,
    /// The ordinals of undecided fragments, by offset.
    undecided: BTreeMap<u64, u64>,
    first_before: u64,
}

impl History {
    fn new(seed: u64, restarts: bool) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(5) as usize;
        let mut config = BuilderConfig::new(vec![SourceRole::Required; count]);
        config.positions = vec![true; count];
        let number = NumberConfig { number_bits: 16, ..window(256, 1 + random.below(60)) };
        config.frame_bytes = 1 + random.below(20_000);
        config.parked_max = 1 + random.below(400) as usize;
        if random.below(3) == 0 {
            config.incomplete = IncompletePolicy::Drop;
        }
        if random.below(3) == 0 {
            config.waiting_bytes_max = 1_000 + random.below(60_000);
        }
        if random.below(3) == 0 {
            config.pausable = vec![true; count];
        }
        let first = random.below(1 << 16);
        let log = || Log { next: first, ..Log::default() };
        let rig = Rig::by_number(config, number);
        let sources = (0..count).map(|_| log()).collect();
        let (now_ns, rows_below, discards_seen) = (S, 0, 0);
        Self { seed, random, rig, sources, restarts, now_ns, rows_below, discards_seen }
    }

    fn run(mut self) {
        for _ in 0..300 {
            match self.random.below(24) {
                0 => self.now_ns += self.random.below(3 * S),
                1 => self.rig.builder.set_recording(!self.seed.is_multiple_of(3)),
                2 => self.rig.builder.set_recording(true),
                3 if self.restarts => self.restart(),
                _ => self.send(),
            }
            self.check();
            if self.random.below(3) > 0 {
                self.rig.poll(self.now_ns);
                self.check();
            }
            self.now_ns += self.random.below(20 * MS);
        }
        self.rig.finish(self.now_ns);
        self.check();
        for (index, log) in self.sources.iter().enumerate() {
            assert!(log.undecided.is_empty(), "seed {}", self.seed);
            assert_eq!(self.rig.builder.first_undecided(index), log.pushed, "seed {}", self.seed);
        }
    }

    /// A source sends some fragments: up to where the first one is, or a little ahead of it.
    fn send(&mut self) {
        let index = self.random.below(self.sources.len() as u64) as usize;
        let newest = self.sources.iter().map(|log| log.next).max().unwrap_or(0);
        let behind = newest - self.sources[index].next;
        let count = match self.random.below(6) {
            0 => 1 + self.random.below(400),
            1 => 1,
            _ => behind.clamp(1, 200),
        };
        for _ in 0..count {
            let skipped = if self.random.below(20) == 0 { self.random.below(4) } else { 0 };
            let bytes = 1 + self.random.below(200) as u32;
            let log = &mut self.sources[index];
            let fragment = self.rig.fragment(index, log.next + skipped, bytes);
            log.next += 1 + skipped;
            log.undecided.insert(fragment.offset, log.pushed);
            log.pushed += 1;
            self.rig.push(self.now_ns, &[fragment]);
        }
    }

    /// One source, or all, continue with another number.
    fn restart(&mut self) {
        let to = match self.random.below(3) {
            0 => self.random.below(1 << 16),
            1 => self.sources[0].next.saturating_sub(self.random.below(600)),
            _ => self.sources[0].next + self.random.below(600),
        };
        let one = self.random.below(2 * self.sources.len() as u64) as usize;
        let all = one >= self.sources.len();
        let logs = self.sources.iter_mut().enumerate();
        logs.filter(|(index, _)| all || *index == one).for_each(|(_, log)| log.next = to);
    }

    fn check(&mut self) {
        // Rows that were dropped are among the discards.
        for row in self.rig.rows.range(self.rows_below..).map(|(_, row)| row) {
            for (log, fragment) in self.sources.iter_mut().zip(&row.fragments) {
                if let Some((offset, _)) = fragment {
                    assert!(log.undecided.remove(offset).is_some(), "recorded once");
                }
            }
        }
        self.rig.builder.discarded(&mut self.rig.discards);
        for discard in &self.rig.discards[self.discards_seen..] {
            let log = &mut self.sources[discard.source.index()];
            let ordinal = log.undecided.remove(&discard.offset).expect("discarded once");
            let of_row = matches!(
                discard.reason,
                Entry::FragmentsDiscardedIncomplete | Entry::FragmentsDiscardedPaused
            );
            assert!(discard.ordinal == ordinal || of_row && discard.ordinal == 0);
        }
        self.discards_seen = self.rig.discards.len();
        let last_key = self.rig.rows.last_key_value().map(|(&key, _)| key);
        let closed_key = self.rig.builder.closed_key();
        self.rows_below = last_key.map_or(0, |key| key + 1);
        assert!(last_key.is_none_or(|key| key < closed_key));
        for (index, log) in self.sources.iter_mut().enumerate() {
            let first = self.rig.builder.first_undecided(index);
            let expected = log.undecided.first_key_value().map_or(log.pushed, |(_, &first)| first);
            let context = || format!("seed {}, source {index}: {first}, {expected}", self.seed);
            match self.restarts {
                true => assert!((log.first_before..=expected).contains(&first), "{}", context()),
                false => assert_eq!(first, expected, "{}", context()),
            }
            log.first_before = first;
            assert!(self.rig.builder.decided_key(index) <= closed_key);
        }
    }
}
