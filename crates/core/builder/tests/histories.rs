//! Random histories: numbers that are garbled, skipped, repeated, restarted and wrapped, by one,
//! some and all of 1 to 100 sources, with pauses shorter and longer than every time-out.
//!
//! The model knows which trigger each fragment belongs to, which the builder does not. It holds the
//! builder to the rule (`horizon.rs`): a garbled number costs its own events and no other; what
//! most do is followed and costs nothing; who does something alone costs itself; nothing is missing
//! that no quorum numbered.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::support;
use catchment_builder::{BuilderConfig, NumberConfig, SourceRole};
use catchment_fixtures::Random;
use catchment_model::Entry;
use support::{MS, Rig, S};

const WINDOW_EVENTS: u64 = 1 << 14;
const REORDER_EVENTS: u64 = 512;
const TIMEOUT_NS: u64 = S;
const NUMBER_BITS: u32 = 18;

#[test]
fn histories_cost_nobody_but_those_who_went_wrong() {
    for seed in 0..240 {
        History::new(seed).run();
    }
}

/// What happens in a run.
struct History {
    seed: u64,
    random: Random,
    rig: Rig,
    sources: Vec<Sender>,
    /// How many sources have one sender.
    channels: usize,
    now_ns: u64,
    /// How many triggers there were.
    triggers: u64,
    /// The trigger and the source of each fragment that was sent, by its source and offset.
    sent: HashMap<(usize, u64), u64>,
    /// Fragments whose number was garbled, and the numbers that others lost to them.
    garbled: HashSet<(usize, u64)>,
    /// Triggers of which most sources sent nothing, since all skipped them.
    skipped: u64,
    story: Vec<String>,
}

/// One source, and what its numbers are.
#[derive(Clone, Debug)]
struct Sender {
    /// The number of trigger 0, before it wraps.
    offset: u64,
    /// It did something that the others did not: what it sends until the next common restart is its
    /// own loss.
    alone: bool,
    /// Since which trigger.
    ill_since: Option<u64>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = match seed % 16 {
            0..6 => 1 + random.below(3),
            6..12 => 3 + random.below(8),
            12..15 => 10 + random.below(30),
            _ => 100,
        };
        let roles = (0..count).map(|source| match random.below(10) {
            0 if source > 0 => SourceRole::Optional,
            _ => SourceRole::Required,
        });
        let mut config = BuilderConfig::new(roles.collect());
        let mut number = NumberConfig { number_bits: NUMBER_BITS, ..NumberConfig::default() };
        // Some are channels of links: three of each.
        let channels = if seed % 5 == 4 { 3 } else { 1 };
        if channels > 1 {
            number.voters = (0..count as u32).map(|source| source / channels).collect();
        }
        (number.window_events, number.reorder_events) = (WINDOW_EVENTS, REORDER_EVENTS);
        (config.timeout_ns, config.frame_bytes) = (TIMEOUT_NS, 1 + random.below(2_000_000));
        let first = random.below(1 << NUMBER_BITS);
        let sender = Sender { offset: first, alone: false, ill_since: None };
        Self {
            seed,
            rig: Rig::by_number(config, number),
            sources: vec![sender; count as usize],
            channels: channels as usize,
            now_ns: random.below(S),
            triggers: 0,
            sent: HashMap::new(),
            garbled: HashSet::new(),
            skipped: 0,
            story: Vec::new(),
            random,
        }
    }

    fn run(mut self) {
        // Long enough for all senders to be known.
        self.deliver(300, None);
        for _ in 0..1 + self.random.below(8) {
            match self.random.below(8) {
                0 | 1 => self.garble(),
                2 => self.restart_together(),
                3 => self.restart_alone(),
                4 => self.skip_together(),
                5 => self.repeat(),
                6 => self.lose(),
                _ => self.pause(),
            }
            // So long that whatever waits is decided.
            let events = 400 + self.random.below(200);
            self.deliver(events, None);
        }
        self.rig.finish(self.now_ns);
        self.check();
    }

    /// Sends triggers of all sources, some at a time, a poll after each; `garbled` names a source
    /// and what is added to the number of its fragment in the middle.
    fn deliver(&mut self, events: u64, garbled: Option<(usize, u64)>) {
        let middle = self.triggers + events / 2;
        let end = self.triggers + events;
        while self.triggers < end {
            let batch = self.triggers..end.min(self.triggers + 1 + self.random.below(20));
            for source in 0..self.sources.len() {
                for trigger in batch.clone() {
                    let wrong = garbled.filter(|(who, _)| *who == source && trigger == middle);
                    self.send(source, trigger, wrong.map(|(_, added)| added));
                }
            }
            self.triggers = batch.end;
            self.rig.poll(self.now_ns);
            self.now_ns += (batch.end - batch.start) * 10 * MS;
        }
    }

    fn send(&mut self, source: usize, trigger: u64, garbled: Option<u64>) {
        let number = self.sources[source].offset.wrapping_add(trigger);
        let fragment = self.rig.fragment(source, number.wrapping_add(garbled.unwrap_or(0)), 100);
        self.sent.insert((source, fragment.offset), trigger);
        if garbled.is_some() {
            self.garbled.insert((source, trigger));
        }
        self.rig.push(self.now_ns, &[fragment]);
    }

    fn some_pause_ns(&mut self) -> u64 {
        [0, 100 * MS, 900 * MS, 1_100 * MS, 3 * S, 100 * S][self.random.below(6) as usize]
    }

    fn pause(&mut self) {
        let pause_ns = self.some_pause_ns();
        self.story.push(format!("{}: pause of {} ms", self.triggers, pause_ns / MS));
        for _ in 0..10 {
            self.now_ns += pause_ns / 10;
            self.rig.poll(self.now_ns);
        }
    }

    fn garble(&mut self) {
        let added = match self.random.below(4) {
            0 => 1 << self.random.below(u64::from(NUMBER_BITS)),
            1 => self.random.next_u64(),
            2 => (self.random.below(WINDOW_EVENTS)).wrapping_neg(),
            _ => self.random.below(2 * WINDOW_EVENTS),
        };
        let source = self.random.below(self.sources.len() as u64) as usize;
        self.story.push(format!("{}: source {source} garbles by {added}", self.triggers));
        self.deliver(2, Some((source, added)));
        self.pause();
    }

    fn restart_together(&mut self) {
        self.pause();
        let first = self.random.below(4);
        self.story.push(format!("{}: all restart at {first}", self.triggers));
        let triggers = self.triggers;
        // Just before the numbers' end, a beginning is what a wrap looks like.
        let before = self.sources.iter().find(|source| !source.alone).expect("most are not");
        let ahead = first.wrapping_sub(before.offset.wrapping_add(triggers)) % (1 << NUMBER_BITS);
        self.skipped += if ahead < WINDOW_EVENTS { ahead } else { 0 };
        for source in &mut self.sources {
            source.offset = first.wrapping_sub(triggers);
            source.alone = false;
        }
    }

    fn restart_alone(&mut self) {
        // Fewer than half, also with those that are already elsewhere.
        let senders = self.sources.len().div_ceil(self.channels);
        let alone = self.sources.iter().step_by(self.channels).filter(|sender| sender.alone);
        let most = ((senders - 1) / 2).saturating_sub(alone.count());
        if most == 0 {
            return;
        }
        let count = 1 + self.random.below(most as u64) as usize;
        let first = self.random.next_u64();
        self.story.push(format!("{}: {count} restart at {first}", self.triggers));
        let (triggers, begin) = (self.triggers, self.random.below(senders as u64) as usize);
        for step in 0..count {
            let sender = (begin + step) % senders;
            for source in self.sources.chunks_mut(self.channels).nth(sender).expect("a sender") {
                source.offset = first.wrapping_sub(triggers);
                source.alone = true;
                source.ill_since.get_or_insert(triggers);
            }
        }
    }

    fn skip_together(&mut self) {
        let skipped = self.random.below(3 * WINDOW_EVENTS);
        self.story.push(format!("{}: all skip {skipped}", self.triggers));
        // A longer gap is not known to have been one.
        self.skipped += if skipped < WINDOW_EVENTS { skipped } else { 0 };
        for source in &mut self.sources {
            source.offset = source.offset.wrapping_add(skipped);
        }
    }

    /// A packet that comes twice, of one or of all.
    fn repeat(&mut self) {
        let from = self.triggers.saturating_sub(1 + self.random.below(100));
        let one = self.random.below(2 * self.sources.len() as u64) as usize;
        self.story.push(format!("{}: repeated since {from} by {one}", self.triggers));
        for source in 0..self.sources.len() {
            if one >= self.sources.len() || one == source {
                for trigger in from..self.triggers {
                    self.send(source, trigger, None);
                }
            }
        }
        self.rig.poll(self.now_ns);
    }

    /// One source loses some of what it sends.
    fn lose(&mut self) {
        let source = self.random.below(self.sources.len() as u64) as usize;
        let events = 1 + self.random.below(50);
        self.story.push(format!("{}: source {source} loses {events}", self.triggers));
        for trigger in self.triggers..self.triggers + events {
            for other in (0..self.sources.len()).filter(|&other| other != source) {
                self.send(other, trigger, None);
            }
        }
        self.triggers += events;
        self.skipped += if self.sources.len() == 1 { events } else { 0 };
        self.rig.poll(self.now_ns);
    }

    fn check(&self) {
        let context =
            || format!("seed {}, {} sources: {:#?}", self.seed, self.sources.len(), self.story);
        let mut recorded: BTreeMap<u64, HashSet<usize>> = BTreeMap::new();
        // What lies in a row with fragments of another trigger.
        let mut mixed = HashSet::new();
        for row in self.rig.rows.values() {
            let present = row.fragments.iter().enumerate();
            let present = present.filter_map(|(source, it)| it.map(|(offset, _)| (source, offset)));
            let present: Vec<(usize, u64)> =
                present.map(|(source, offset)| (source, self.sent[&(source, offset)])).collect();
            for &(source, trigger) in &present {
                recorded.entry(trigger).or_default().insert(source);
                let others = present.iter().filter(|(_, other)| *other != trigger).count();
                if 2 * others > present.len() {
                    mixed.insert((source, trigger));
                }
            }
        }
        let well = |source: usize, trigger: u64| {
            self.sources[source].ill_since.is_none_or(|since| trigger < since)
        };
        for &(source, trigger) in &mixed {
            let own = !well(source, trigger) || self.garbled.contains(&(source, trigger));
            assert!(own, "trigger {trigger} of source {source} among others: {}", context());
        }
        // Events whose place a garbled number took are its own, too.
        let mut allowed = self.garbled.len();
        for (&(source, _), &trigger) in &self.sent {
            let there = recorded.get(&trigger).is_some_and(|sources| sources.contains(&source));
            if there || !well(source, trigger) || self.garbled.contains(&(source, trigger)) {
                continue;
            }
            assert!(allowed > 0, "trigger {trigger} of source {source} is lost: {}", context());
            allowed -= 1;
        }
        let unrecorded = self.rig.ledger.sources.iter();
        let unrecorded = unrecorded.map(|source| source[Entry::FragmentsMissingUnrecorded]).max();
        // A lone sender is its own quorum, near where it stands at once.
        let lone = self.sources.len() <= self.channels;
        let garbled = self.garbled.len() as u64 * if lone { REORDER_EVENTS } else { 1 };
        assert!(
            unrecorded.unwrap_or(0) <= self.skipped + garbled,
            "{unrecorded:?} missing, {} skipped: {}",
            self.skipped,
            context()
        );
    }
}
