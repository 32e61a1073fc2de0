//! The emulated detector: what its sources send, and when.
//!
//! Every event has a *trigger*: a number that no fault changes. The wire carries the trigger's
//! number in the present numbering, in as many bits as the protocol has. Packets are encoded here,
//! from their protocol's description, so a defect of a decoder cannot hide behind the same defect
//! of its encoder.

use std::collections::BTreeMap;
use std::ops::Range;

use catchment_fixtures::Random;
use catchment_test_protocol as test_protocol;

use crate::plan::{Plan, SourcePlan};

/// A packet, and the fragments that it delivers if it arrives unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its bytes on the wire.
    pub bytes: Vec<u8>,
    /// Indices of the fragments among those that its source has sent; empty for links and garbage.
    pub fragments: Range<usize>,
    /// Which part of its fragment it carries, and the number of parts.
    pub part: (usize, usize),
}

impl Packet {
    /// With so many changed bits.
    pub fn corrupted(mut self, bits: u64, chance: &mut Random) -> Self {
        for _ in 0..bits {
            let byte = chance.index(self.bytes.len());
            self.bytes[byte] ^= 1 << chance.below(8);
        }
        Self::unknown(self.bytes)
    }

    /// Whether it is the heartbeat of a link.
    pub fn is_heartbeat(&self) -> bool {
        self.bytes.starts_with(b"CTLK") && self.bytes[5] == 2
    }

    /// A packet with no known fragments.
    pub fn unknown(bytes: Vec<u8>) -> Self {
        Self { bytes, fragments: 0..0, part: (0, 1) }
    }
}

/// A fragment that a source has sent.
#[derive(Clone, Copy, Debug)]
pub struct SentFragment {
    /// Its event.
    pub trigger: u64,
    /// The event's number as sent, reduced to the bits that all sources have.
    pub number: u64,
    /// The index of the numbering that the source had then.
    pub numbering: u32,
    /// When it was sent.
    pub sent_ns: u64,
    /// The bytes of it that are recorded.
    pub bytes: u64,
}

/// Everything that a source has sent.
#[derive(Debug, Default)]
pub struct SentBySource {
    /// Its fragments, in order.
    pub fragments: Vec<SentFragment>,
    /// The slices of a link, in order.
    pub slices: Vec<u64>,
    /// Indices of the fragments whose bytes have that hash.
    by_hash: BTreeMap<u64, Vec<usize>>,
    /// Packets of the source that arrived with a changed bit.
    pub corrupted: Vec<Vec<u8>>,
    /// Garbage packets.
    pub garbage: u64,
}

/// What all sources have sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// By source.
    pub sources: Vec<SentBySource>,
}

impl SentBySource {
    pub(crate) fn add(&mut self, fragment: SentFragment, bytes: &[u8]) {
        self.by_hash.entry(hash(bytes)).or_default().push(self.fragments.len());
        self.fragments.push(SentFragment { bytes: bytes.len() as u64, ..fragment });
    }

    /// The index of a source's fragment of an event.
    pub fn index_of(&self, trigger: u64) -> Option<usize> {
        self.fragments.binary_search_by_key(&trigger, |fragment| fragment.trigger).ok()
    }

    /// The fragments that have these bytes.
    pub fn find(&self, bytes: &[u8]) -> &[usize] {
        self.by_hash.get(&hash(bytes)).map_or(&[], Vec::as_slice)
    }

    /// Whether a packet with a changed bit carried these bytes.
    pub fn is_of_corrupted(&self, bytes: &[u8]) -> bool {
        let has = |packet: &Vec<u8>| {
            bytes.len() <= packet.len() && packet.windows(bytes.len().max(1)).any(|at| at == bytes)
        };
        bytes.is_empty() && !self.corrupted.is_empty() || self.corrupted.iter().any(has)
    }
}

/// FNV-1a, which is the same in every build.
pub fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    let hash = words.iter().fold(bytes.len() as u64 ^ 0xcbf2_9ce4_8422_2325, |hash, word| {
        step(hash, u64::from_le_bytes(*word))
    });
    rest.iter().fold(hash, |hash, &byte| step(hash, byte.into()))
}

/// A running source.
#[derive(Debug)]
pub struct SourceState {
    index: u32,
    plan: SourcePlan,
    seed: u64,
    number_mask: u64,
    /// The number of packets that it has sent, if they are numbered.
    sequence: u64,
    /// Sub-events that wait for others of their packet.
    batch: Vec<Vec<u8>>,
    /// The number of fragments it had sent when the waiting packet began.
    batch_from: usize,
    /// The last packets that it sent.
    last: Vec<Packet>,
    /// The difference between a trigger and its number.
    number_offset: u64,
    numbering: u32,
}

impl SourceState {
    /// A source that starts.
    pub fn new(index: usize, plan: &Plan) -> Self {
        Self {
            index: index as u32,
            plan: plan.sources[index].clone(),
            seed: plan.case.seed,
            number_mask: (1 << plan.number_bits()) - 1,
            sequence: 0,
            batch: Vec::new(),
            batch_from: 0,
            last: Vec::new(),
            number_offset: plan.first_number,
            numbering: 0,
        }
    }

    /// Restarts its numbers at that trigger: at 0, unless that is so near to the present number
    /// that it might be a late packet's.
    pub fn renumber(&mut self, trigger: u64) {
        let number = trigger.wrapping_add(self.number_offset) & self.number_mask;
        let is_far = (NUMBERS_APART..=self.number_mask - NUMBERS_APART).contains(&number);
        let first = if is_far { 0 } else { number.wrapping_add(self.number_mask / 3) };
        self.number_offset = first.wrapping_sub(trigger);
        self.numbering += 1;
    }

    /// Stops the source: its unsent sub-events are lost.
    pub fn die(&mut self) {
        self.batch.clear();
    }

    /// Adds its fragment of an event; returns the packets to send now.
    pub fn fragment(
        &mut self,
        trigger: u64,
        sent_ns: u64,
        chance: &mut Random,
        sent: &mut SentBySource,
    ) -> Vec<Packet> {
        let payload = self.payload(trigger);
        let number = trigger.wrapping_add(self.number_offset);
        let (numbering, bytes) = (self.numbering, 0);
        let fragment =
            SentFragment { trigger, number: number & self.number_mask, numbering, sent_ns, bytes };
        if !self.plan.in_parts {
            let sub_event = self.sub_event(number, &payload);
            if self.batch.is_empty() {
                self.batch_from = sent.fragments.len();
            }
            sent.add(fragment, &sub_event);
            self.batch.push(sub_event);
            return match self.batch.len() as u64 >= self.plan.batch {
                true => self.flush(),
                false => Vec::new(),
            };
        }
        let index = sent.fragments.len();
        sent.add(fragment, &payload);
        let number = number & ((1 << 48) - 1);
        if self.plan.in_stream {
            let messages = test_protocol::messages(self.index as u16, number, &payload);
            let (fragments, parts) = (index..index + 1, messages.len());
            let message =
                |(part, bytes)| Packet { bytes, fragments: fragments.clone(), part: (part, parts) };
            return messages.into_iter().enumerate().map(message).collect();
        }
        let packets = test_protocol::packets(number, &payload, 9_000, self.sequence);
        self.sequence += packets.len() as u64;
        let (fragments, parts) = (index..index + 1, packets.len());
        let packet =
            |(part, bytes)| Packet { bytes, fragments: fragments.clone(), part: (part, parts) };
        let mut packets: Vec<_> = packets.into_iter().enumerate().map(packet).collect();
        for index in (1..packets.len()).rev() {
            packets.swap(index, chance.index(index + 1));
        }
        self.last.clone_from(&packets);
        packets
    }

    /// Its fragment of an event as a front-end has it: with its key and its bytes.
    pub fn item(&self, trigger: u64, sent_ns: u64) -> (SentFragment, u64, Vec<u8>) {
        let (number, bytes) = (trigger.wrapping_add(self.number_offset), self.payload(trigger));
        let (numbering, number_mask) = (self.numbering, self.number_mask);
        let fragment =
            SentFragment { trigger, number: number & number_mask, numbering, sent_ns, bytes: 0 };
        (fragment, self.key(number), bytes)
    }

    /// The key of a front-end's next fragment if that is of this event.
    pub fn key_of(&self, trigger: u64) -> u64 {
        self.key(trigger.wrapping_add(self.number_offset))
    }

    fn key(&self, number: u64) -> u64 {
        match self.plan.log.map_or(64, |log| log.key_bits) {
            64 => number,
            bits => number & ((1 << bits) - 1),
        }
    }

    /// Sends the packet that waits for more sub-events.
    pub fn flush(&mut self) -> Vec<Packet> {
        if self.batch.is_empty() {
            return Vec::new();
        }
        let fragments = self.batch_from..self.batch_from + self.batch.len();
        let packet = Packet { bytes: self.packet(), fragments, part: (0, 1) };
        self.batch.clear();
        self.last = vec![packet.clone()];
        vec![packet]
    }

    /// Repeats the last packets sent.
    pub fn again(&self) -> Vec<Packet> {
        self.last.clone()
    }

    /// The payload of an event; it follows from seed, source and trigger.
    fn payload(&self, trigger: u64) -> Vec<u8> {
        let mut chance = Random::new(
            self.seed ^ trigger.wrapping_mul(0x1357_9bdf) ^ u64::from(self.index) << 56,
        );
        let bytes = match chance.below(8) {
            0 => 0,
            1 => self.plan.payload_bytes_max,
            _ => chance.below(self.plan.payload_bytes_max + 1),
        } as usize;
        let mut payload = Vec::with_capacity(bytes + 16);
        payload.extend_from_slice(&chance.next_u64().to_le_bytes());
        while payload.len() < bytes {
            let word = chance.next_u64();
            let run = [1, 4, 40][word as usize % 3];
            payload.extend(std::iter::repeat_n((word >> 32) as u8, run));
        }
        payload.truncate(bytes);
        payload
    }

    fn word(&self, word: u32) -> [u8; 4] {
        if self.plan.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    /// Size, decoding, id, number and tag, payload.
    fn sub_event(&self, number: u64, payload: &[u8]) -> Vec<u8> {
        let size = 16 + payload.len() as u32;
        let number = (number as u32) << 8 | 7;
        let mut bytes: Vec<u8> =
            [size, 0x0002_0011, self.index, number].map(|word| self.word(word)).concat();
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Size and decoding, padded sub-events, and the first 32 bytes again.
    fn packet(&self) -> Vec<u8> {
        let mut queue = vec![0; 8];
        for sub_event in &self.batch {
            queue.extend_from_slice(sub_event);
            queue.resize(queue.len().next_multiple_of(8), 0);
        }
        let size = queue.len() as u32;
        queue[..4].copy_from_slice(&self.word(size));
        queue[4..8].copy_from_slice(&self.word(0x0002_0001));
        for index in 0..32 {
            queue.push(queue[index]);
        }
        queue
    }
}

/// How far apart the numbers before and after a restart are: more than a window.
const NUMBERS_APART: u64 = 8_192;
