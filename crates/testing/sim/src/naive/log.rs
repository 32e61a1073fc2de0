//! A log of the naive sender, and the messages that it makes of what it holds.

use std::collections::VecDeque;

use catchment_fixtures::Random;
use catchment_wire::event_link::{
    AbandonReason, Data, FRAGMENT_RECORD_BYTES_MIN, FragmentRecord, Fragments, Heartbeat, KeyKind,
    Mark, MarkKind, Part,
};
use catchment_wire::session::{Encoder, Fields};

use super::Outgoing;

/// What a log is of.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Its name.
    pub name: String,
    /// What its keys are.
    pub key_kind: KeyKind,
    /// Their width.
    pub key_bits: u8,
    /// Bytes of its longest fragment.
    pub fragment_bytes_max: u64,
    /// The groups in whose events it takes part; 0: in all.
    pub groups: u64,
    /// Whether its fragments name the groups of their events.
    pub is_reference: bool,
    /// Bytes that it holds.
    pub ring_bytes: u64,
}

/// A log: what it holds, and how far it is sent.
pub(super) struct Log {
    pub(super) config: LogConfig,
    pub(super) connection: u16,
    pub(super) items: VecDeque<Item>,
    pub(super) made: u64,
    pub(super) held_bytes: u64,
    /// The sequence of the next item to be sent, and how much of that is.
    pub(super) next: u64,
    pub(super) part: Option<u64>,
    /// Positions.
    pub(super) released: u64,
    pub(super) durable: u64,
    pub(super) last_key: Option<u64>,
    /// That no lower key follows its items, and whether it is idle; and whether that is to be said.
    pub(super) promise: Option<(u64, bool)>,
    pub(super) is_unsaid: bool,
}

#[derive(Clone)]
pub(super) struct Item {
    pub(super) sequence: u64,
    pub(super) count: u64,
    pub(super) what: What,
}

#[derive(Clone)]
pub(super) enum What {
    Fragment { key: u64, groups: u64, bytes: Vec<u8> },
    Abandoned(Option<(u64, u64)>),
    Mark(MarkKind, u64),
    Setting(String),
    Edge { kind: MarkKind, key_last: Option<u64>, run_number: u64 },
}

impl Item {
    pub(super) fn end(&self) -> u64 {
        self.sequence + self.count
    }
}

impl Log {
    pub(super) fn add(&mut self, count: u64, what: What) {
        if let What::Fragment { bytes, .. } = &what {
            self.held_bytes += bytes.len() as u64;
        }
        // A fragment says it itself, and that it is not idle; numbers that begin again are others.
        if matches!(what, What::Fragment { .. } | What::Mark(MarkKind::Numbering, _)) {
            (self.promise, self.is_unsaid) = (None, false);
        }
        self.items.push_back(Item { sequence: self.made, count, what });
        self.made += count;
    }

    pub(super) fn release(&mut self, position: u64) {
        while let Some(item) = self.items.pop_front_if(|item| item.end() <= position) {
            if let What::Fragment { bytes, .. } = item.what {
                self.held_bytes -= bytes.len() as u64;
            }
        }
        self.released = self.released.max(position);
        // What is taken, and was to be repeated, is gone.
        if self.next < self.released {
            (self.next, self.part) =
                (self.items.front().map_or(self.made, |one| one.sequence), None);
        }
    }

    /// The key and the bytes of the next item, if that is a fragment.
    pub(super) fn next_fragment(&self) -> Option<(u64, u64)> {
        let at = self.items.partition_point(|item| item.sequence < self.next);
        match &self.items.get(at)?.what {
            What::Fragment { key, bytes, .. } => Some((*key, bytes.len() as u64)),
            _ => None,
        }
    }

    /// No fragment that it sends from now on has a lower key.
    pub(super) fn low_water(&self) -> u64 {
        let at = self.items.partition_point(|item| item.sequence < self.next);
        let mut unsent = self.items.iter().skip(at);
        let key = unsent.find_map(|item| match item.what {
            What::Fragment { key, .. } => Some(key),
            _ => None,
        });
        let said = self.promise.filter(|_| !self.is_unsaid);
        key.unwrap_or_else(|| match (said, self.last_key.map_or(0, |key| key + 1)) {
            (Some((_, true)), _) => u64::MAX,
            (Some((key, false)), last) => key.max(last),
            (None, last) => last,
        })
    }

    /// Whether it has something to say that all its items stand before.
    pub(super) fn has_news(&self) -> bool {
        self.is_unsaid && self.next == self.made
    }

    /// What it says of itself where its next item would stand.
    pub(super) fn heartbeat(&mut self, log: u32) -> Heartbeat {
        let sequence = self.next;
        let (flags, low_water) = match self.promise.filter(|_| self.next == self.made) {
            Some((key, is_idle)) => {
                self.is_unsaid = false;
                (Heartbeat::LOW_WATER | if is_idle { Heartbeat::IDLE } else { 0 }, key)
            }
            None => (0, 0),
        };
        Heartbeat { log, flags, sequence, low_water }
    }

    /// Appends the next message to a connection; with `is_single`, of one fragment.
    pub(super) fn compose(
        &mut self,
        (log, body_bytes_max, is_single): (u32, usize, bool),
        of: &mut Outgoing,
        chance: &mut Random,
    ) {
        let at = self.items.partition_point(|item| item.sequence < self.next);
        let Item { sequence, count, what } = &self.items[at];
        let sequence = *sequence;
        match what {
            What::Fragment { key, groups, bytes } => {
                let in_parts = self.part.is_some()
                    || bytes.len() > body_bytes_max
                    || bytes.len() > 100_000 && chance.chance(500)
                    || bytes.len() > 1_000 && chance.chance(200) && !is_single
                    // It takes a chunk of its own, however short it is.
                    || !bytes.is_empty() && chance.chance(20) && !is_single;
                if !in_parts {
                    let most = [1, 2, 1 + chance.index(50)][chance.index(3)];
                    let most = if is_single { 1 } else { most };
                    return self.compose_fragments((log, body_bytes_max), (at, most), of);
                }
                let (names, bytes) = ((*key, *groups), bytes.clone());
                self.compose_part((log, sequence, names), (&bytes, body_bytes_max), of, chance);
            }
            What::Abandoned(keys) => {
                // With a range before it that is still held, as one.
                let before = at.checked_sub(1).map(|before| &self.items[before]);
                let before = before.filter(|one| matches!(one.what, What::Abandoned(None)));
                let joined = before.filter(|_| keys.is_none() && chance.chance(500));
                let sequence = joined.map_or(sequence, |one| one.sequence);
                let end = self.items[at].end();
                let (key, key_last) = keys.unwrap_or((0, 0));
                let mark = Mark {
                    log,
                    kind: MarkKind::Abandoned,
                    reason: AbandonReason::BUFFER,
                    sequence,
                    count: end - sequence,
                    key,
                    key_last,
                    flags: if keys.is_some() { Mark::KEYS } else { 0 },
                    run_number: 0,
                };
                of.message(|out, number| Data::Mark(mark, "full").encode(number, out));
                self.next = end;
            }
            What::Mark(..) | What::Setting(_) | What::Edge { .. } => {
                let (kind, key, key_last, run_number) = match *what {
                    What::Edge { kind, key_last, run_number } => (kind, None, key_last, run_number),
                    What::Setting(_) => (MarkKind::Setting, None, None, 0),
                    What::Mark(MarkKind::Numbering, key) => {
                        (MarkKind::Numbering, Some(key), None, 0)
                    }
                    What::Mark(kind, _) => (kind, None, None, 0),
                    What::Fragment { .. } | What::Abandoned(_) => return,
                };
                let mark = Mark {
                    log,
                    kind,
                    reason: AbandonReason(0),
                    sequence,
                    count: *count,
                    key: key.unwrap_or(0),
                    key_last: key_last.unwrap_or(0),
                    flags: if key.or(key_last).is_some() { Mark::KEYS } else { 0 },
                    run_number,
                };
                let text = match what {
                    What::Setting(text) => text.as_str(),
                    _ if kind == MarkKind::Setting => "gain=2",
                    _ => "",
                };
                of.message(|out, number| Data::Mark(mark, text).encode(number, out));
                self.next += 1;
            }
        }
    }

    /// The next part of a fragment, of any size.
    fn compose_part(
        &mut self,
        (log, sequence, (key, groups)): (u32, u64, (u64, u64)),
        (bytes, body_bytes_max): (&[u8], usize),
        of: &mut Outgoing,
        chance: &mut Random,
    ) {
        let longest = self.config.fragment_bytes_max as usize;
        let position = self.part.unwrap_or(0);
        let left = bytes.len() - position as usize;
        let most = [1 + longest / 3, 100_000, left][chance.index(3)].min(body_bytes_max);
        let body = &bytes[position as usize..][..(1 + chance.index(most)).min(left)];
        let part = Part {
            log,
            tag: 0,
            flags: 0,
            sequence,
            key,
            groups,
            position,
            fragment_bytes: bytes.len() as u64,
        };
        of.long_message(body.len(), |out, number| Data::Part(part, body).encode(number, out));
        let position = position + body.len() as u64;
        let is_last = position == bytes.len() as u64;
        self.part = if is_last { None } else { Some(position) };
        self.next += u64::from(is_last);
    }

    /// So many whole fragments from that one on, in one message.
    fn compose_fragments(
        &mut self,
        (log, body_bytes_max): (u32, usize),
        (at, most): (usize, usize),
        of: &mut Outgoing,
    ) {
        let mut body = Vec::new();
        let mut records = Vec::new();
        for item in self.items.iter().skip(at).take(most) {
            let What::Fragment { key, groups, bytes } = &item.what else { break };
            if body.len() + bytes.len() > body_bytes_max {
                break;
            }
            body.extend_from_slice(bytes);
            let bytes = bytes.len() as u32;
            let (key, groups) = (*key, *groups);
            records.push(FragmentRecord { key, bytes, tag: 0, flags: 0, groups });
        }
        let names_groups = records.iter().any(|record| record.groups > 0);
        let record_bytes =
            if names_groups { FragmentRecord::BYTES } else { FRAGMENT_RECORD_BYTES_MIN };
        let fragments = Fragments { log, sequence: self.next };
        of.long_message(body.len(), |out, number| {
            let mut message = Encoder::begin(out, number, &fragments);
            for record in &records {
                assert!(message.push_short(record, record_bytes), "they fit");
            }
            message.finish("", &body)
        });
        self.next += records.len() as u64;
    }
}
