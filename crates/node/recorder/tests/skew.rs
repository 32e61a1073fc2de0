//! Sources that share a connection and are out of order by as much as was granted cost nothing,
//! and by more cost themselves at once: agents stepped in virtual time, and a time-out that nobody
//! waits for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use catchment_fixtures::Random;
use catchment_model::Entry;
use catchment_recorder::{LinkCounts, RecorderConfig, SourceConfig};

use crate::support;
use crate::support::front_end::fragments;
use crate::support::stepped::{MS, Stepped};

const SOURCES: usize = 16;
/// A chunk of the pool holds one such fragment of the first source, the one that is ahead.
const BYTES: usize = 60_000;
const ASKED_BYTES: u64 = 512 << 10;

/// Sources of a front-end of which each may hold few chunks: together these are half of all.
fn config(skew_bytes: u64) -> RecorderConfig {
    let mut config = support::config("".as_ref(), 1);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |number| SourceConfig {
        fragment_bytes_max: 1 << 16,
        ..SourceConfig::over_session(format!("crate/{number}"), address)
    };
    config.sources = (0..SOURCES).map(source).collect();
    config.build.timeout_ns = 3_600_000_000_000;
    (config.sizes.chunk_bytes_min, config.sizes.chunk_bytes_max) = (64 << 10, 64 << 10);
    (config.frame.bytes, config.frame.time_ns) = (128 << 10, 20 * MS);
    config.write.buffer_bytes = 64 << 10;
    config.access.skew_bytes = skew_bytes;
    // Three quarters of what is beyond the least are chunks: 10 MiB in all.
    config.memory_bytes = config.memory_bytes_min() + (8 << 20);
    config
}

/// A front-end of all sources with one data connection, and what it has sent over that.
struct Sender {
    data: usize,
    granted_bytes: u64,
    /// Messages of the connection, and items of each log.
    messages: u32,
    made: [u64; SOURCES],
}

impl Sender {
    fn open(run: &mut Stepped) -> Self {
        Self::open_with(run, [0; SOURCES])
    }

    /// One that has made so many items of each log, and holds none.
    fn open_with(run: &mut Stepped, made: [u64; SOURCES]) -> Self {
        let names: Vec<String> = (0..SOURCES).map(|log| log.to_string()).collect();
        let logs = names.iter().zip(made).map(|(name, made)| (&name[..], made, made));
        let logs: Vec<_> = logs.collect();
        let (data, granted_bytes) = run.open_session_with("crate", &logs, (ASKED_BYTES, 1));
        Self { data, granted_bytes, messages: 1, made }
    }

    /// Sends so many long fragments of the first source, and none of the others. Returns whether
    /// the recorder takes each within a second.
    fn ahead(&mut self, run: &mut Stepped, count: usize) -> bool {
        let bytes = vec![7; BYTES];
        (0..count).all(|_| self.send(run, 0, &[&bytes]))
    }

    /// Sends of the other sources what they lack, in short fragments.
    fn others(&mut self, run: &mut Stepped) -> bool {
        (1..SOURCES).all(|log| {
            let lacking = (self.made[0] - self.made[log]) as usize;
            self.send(run, log, &vec![&[8][..]; lacking])
        })
    }

    fn send(&mut self, run: &mut Stepped, log: usize, items: &[&[u8]]) -> bool {
        let first = self.made[log];
        let items: Vec<_> = (first..).zip(items.iter().copied()).collect();
        let message = fragments(self.messages, log as u32, first, &items);
        self.messages += 1;
        self.made[log] += items.len() as u64;
        let mut sent = 0;
        for _ in 0..1_000 {
            sent += run.try_write(self.data, &message[sent..]);
            run.pass(1);
            if sent == message.len() && run.left(self.data) == 0 {
                run.sent(items.len() as u64);
                return true;
            }
        }
        false
    }
}

fn skewed(run: &Stepped) -> Vec<u64> {
    run.snapshot().links.iter().map(|link| link.fragments_skew).collect()
}

#[test]
fn a_source_that_is_ahead_by_what_was_granted_costs_nothing_however_often() {
    // The sizes of the tests are such that its own part of the memory does not hold that.
    let count = ASKED_BYTES as usize / (BYTES + 100);
    let mut without = Stepped::begin(&config(0));
    let mut sender = Sender::open(&mut without);
    assert_eq!(sender.granted_bytes, 0);
    assert!(!sender.ahead(&mut without, count));

    let mut run = Stepped::begin(&config(ASKED_BYTES));
    let mut sender = Sender::open(&mut run);
    assert_eq!(sender.granted_bytes, ASKED_BYTES);
    for _ in 0..40 {
        assert!(sender.ahead(&mut run, count), "{:?}", run.snapshot());
        assert!(sender.others(&mut run), "{:?}", run.snapshot());
    }
    assert_eq!(run.snapshot().links, [LinkCounts::default(); SOURCES]);
    let total = run.end().ledger.total();
    assert_eq!(total[Entry::FragmentsMissing], 0);
    assert_eq!(total[Entry::FragmentsRecorded], (40 * count * SOURCES) as u64);
}

/// What was sent over a connection: of which log, with which key, and how many bytes.
#[derive(Default)]
struct Sent(Vec<(usize, u64, u64)>);

impl Sent {
    /// Bytes of others than that log from the first item on that is above its next key.
    fn ahead_bytes(&self, log: usize, next: u64) -> u64 {
        let others = self.0.iter().filter(|(other, ..)| *other != log);
        others.skip_while(|(_, key, _)| *key <= next).map(|(.., bytes)| bytes).sum()
    }

    /// Whether a log may send its next item: if those that are behind have to come within the skew.
    fn allows(&self, log: usize, bytes: u64, made: &[u64]) -> bool {
        let is_behind = |other: &usize| made[*other] < made[log];
        let mut behind = (0..made.len()).filter(is_behind);
        behind.all(|other| self.ahead_bytes(other, made[other]) + bytes <= ASKED_BYTES)
    }
}

#[test]
fn whoever_keeps_to_what_was_granted_loses_nothing_in_whatever_order() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut run = Stepped::begin(&config(ASKED_BYTES));
        let mut sender = Sender::open(&mut run);
        let (mut sent, mut favourite) = (Sent::default(), 0);
        for _ in 0..1_500 {
            if random.chance(20) {
                favourite = random.index(SOURCES);
            }
            let bytes = match random.chance(300) {
                true => random.index(BYTES),
                false => random.index(100),
            };
            let message_bytes = bytes as u64 + 100;
            // One that is ahead until it may not be any more, then one of those behind.
            let log = match sent.allows(favourite, message_bytes, &sender.made) {
                true => favourite,
                false => (0..SOURCES).min_by_key(|&log| sender.made[log]).unwrap(),
            };
            sent.0.push((log, sender.made[log], message_bytes));
            assert!(sender.send(&mut run, log, &[&vec![5; bytes]]), "{seed}: {:?}", run.snapshot());
        }
        let most = sender.made.iter().copied().max().unwrap();
        while let Some(log) = (0..SOURCES).find(|&log| sender.made[log] < most) {
            let lowest = (0..SOURCES).min_by_key(|&log| sender.made[log]).unwrap_or(log);
            assert!(sender.send(&mut run, lowest, &[&[6]]), "{seed}: {:?}", run.snapshot());
        }
        assert_eq!(run.snapshot().links, [LinkCounts::default(); SOURCES], "{seed}");
        let total = run.end().ledger.total();
        let counts = [Entry::FragmentsMissing, Entry::FragmentsRecorded].map(|entry| total[entry]);
        assert_eq!(counts, [0, most * SOURCES as u64], "{seed}");
    }
}

#[test]
fn a_source_that_is_ahead_by_more_costs_those_behind_it_their_events_at_once() {
    let mut run = Stepped::begin(&config(ASKED_BYTES));
    let mut sender = Sender::open(&mut run);
    // Two rounds: what was set aside is given back, and may be spent again.
    for round in 1..=2 {
        let before = skewed(&run);
        assert!(sender.ahead(&mut run, 300), "{:?}", run.snapshot());
        let counts = skewed(&run);
        assert_eq!(counts[0], 0);
        let rows = before[1..].iter().zip(&counts[1..]).map(|(before, now)| now - before);
        assert!(rows.clone().all(|rows| (1..=300).contains(&rows)), "{round}: {counts:?}");
        assert!(sender.others(&mut run), "{:?}", run.snapshot());
    }
    let last = run.end();
    let warnings = &last.warnings;
    let names = |warning: &&String| warning.contains("listen.skew_bytes");
    assert_eq!(warnings.iter().filter(names).count(), SOURCES - 1, "{warnings:?}");
    assert!(!warnings.iter().any(|one| one.contains("for build.timeout")), "{warnings:?}");
    let counts: Vec<u64> = last.links.iter().map(|link| link.fragments_skew).collect();
    let missing = last.ledger.sources.iter().map(|source| source[Entry::FragmentsMissing]);
    assert!(missing.zip(&counts).all(|(missing, skewed)| *skewed <= missing), "{counts:?}");
    assert_eq!(last.ledger.sources[0][Entry::FragmentsRecorded], 600);
}

#[test]
fn what_a_source_lacks_that_is_held_when_the_run_ends_is_not_for_its_order() {
    let mut config = config(0);
    config.sources.truncate(3);
    let names = ["late", "long", "short"];
    names.iter().zip(&mut config.sources).for_each(|(name, one)| one.name = (*name).to_owned());
    let mut run = Stepped::begin(&config);
    let [late, long, short] = names.map(|name| run.open_session(name));
    for data in [late, long, short] {
        run.write(data, &fragments(1, 0, 0, &[(0, &[1])]));
    }
    // All further events wait for the first one, and the second one has no room for more of them.
    let (bytes, mut next) = (vec![7; BYTES], 1);
    loop {
        run.write(long, &fragments(1 + next as u32, 0, next, &[(next, &bytes)]));
        run.pass(5);
        if run.left(long) > 0 {
            break;
        }
        next += 1;
    }
    let farther: Vec<(u64, &[u8])> = (1..next + 10).map(|key| (key, &[8][..])).collect();
    run.write(short, &fragments(2, 0, 1, &farther));
    run.pass(5);
    run.sent(3 + (next - 1) + farther.len() as u64);
    let last = run.end();
    assert_eq!(last.ledger.sources[1][Entry::FragmentsMissing], 10);
    assert!(last.links.iter().all(|link| link.fragments_skew == 0), "{:?}", last.links);
}

#[test]
fn what_was_granted_is_there_again_after_a_break() {
    let count = ASKED_BYTES as usize / (BYTES + 100);
    let mut run = Stepped::begin(&config(ASKED_BYTES));
    let mut sender = Sender::open(&mut run);
    for _ in 0..8 {
        assert!(sender.ahead(&mut run, count), "{:?}", run.snapshot());
        // What it has brought ahead is in memory.
        sender = Sender::open_with(&mut run, sender.made);
        assert_eq!(sender.granted_bytes, ASKED_BYTES);
        assert!(sender.others(&mut run), "{:?}", run.snapshot());
    }
    assert_eq!(run.end().ledger.total()[Entry::FragmentsMissing], 0);
}

#[test]
fn no_more_is_granted_than_the_listener_allows_and_memory_has() {
    let logs = [("0", 0, 0), ("1", 0, 0), ("2", 0, 0)];
    let granted = |config: &RecorderConfig, asked_bytes, connections| {
        let mut run = Stepped::begin(config);
        run.open_session_with("crate", &logs, (asked_bytes, connections)).1
    };
    let mut large = config(4 << 20);
    large.memory_bytes = 256 << 20;
    assert_eq!(granted(&large, 1 << 30, 1), 4 << 20);
    assert_eq!(granted(&large, 1 << 20, 1), 1 << 20);
    assert_eq!(granted(&large, 1 << 30, 2), 4 << 20, "two of them share one");
    assert_eq!(granted(&large, 1 << 30, 3), 0, "each has a connection of its own");
    assert_eq!(granted(&large, 0, 1), 0);
    let small = granted(&config(4 << 20), 1 << 30, 1);
    assert!([512 << 10, 1 << 20].contains(&small), "{small}");
}
