//! Rule 8: what the numbers of packets say. Which packets came twice and which never came follows
//! from them once more, from the list of all that came.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use catchment_model::{Entry, EventFlags};

use super::marks::wraps;
use super::model::Id;
use super::oracle::{Check, Row};
use super::plan::TimeSource;
use super::world::Outcome;

/// A packet that found room.
#[derive(Clone, Debug)]
pub struct Came {
    /// How many its source had sent before it.
    pub number: u64,
    /// Its fragments, among those that the source has sent.
    pub fragments: Range<usize>,
}

/// What a receiver can know of a board's packets.
#[derive(Debug)]
pub struct Numbered {
    /// Of each that came, in order, whether it is known to be no copy.
    pub are_new: Vec<bool>,
    /// How many never came, and whether it has to know that; otherwise these are the most.
    missing: u64,
    is_counted: bool,
}

/// A board's fragments that came, each once, and how many more there were.
#[derive(Debug, Default)]
pub struct Taken {
    /// In the order in which they came.
    pub fragments: Vec<usize>,
    /// With the time of others: copies, and others.
    pub copies: u64,
    pub of_equal_times: u64,
}

impl Numbered {
    /// Of packets that have no numbers.
    fn without_numbers(packets: &[Came]) -> Self {
        Self { are_new: vec![false; packets.len()], missing: 0, is_counted: true }
    }

    /// None where the numbers may have gone around without anybody knowing: half a cycle apart, or
    /// as far ahead as no board is believed to be at once.
    pub fn of(source: &TimeSource, packets: &[Came]) -> Option<Self> {
        let Some(sequence) = source.sequence() else { return Some(Self::without_numbers(packets)) };
        let Some(first) = packets.first().map(|one| one.number) else {
            return Some(Self::without_numbers(packets));
        };
        let half = if wraps(sequence.bits) { 1 << (sequence.bits - 1) } else { u64::MAX };
        let are_near = |pair: &[Came]| pair[0].number.abs_diff(pair[1].number) < half;
        if !packets.windows(2).all(are_near) {
            return None;
        }
        let (mut highest, mut trusted, mut ahead) = (first, first, u64::MAX);
        let mut seen = BTreeSet::new();
        let mut are_new = Vec::new();
        for &Came { number, .. } in packets {
            // What is farther back has been counted as missing.
            let is_in_time = number >= first && highest.saturating_sub(number) < WINDOW;
            if !is_in_time && !wraps(sequence.bits) || number >= trusted + WINDOW {
                return None;
            }
            let is_new = is_in_time && seen.insert(number);
            are_new.push(is_new);
            if !is_new {
                continue;
            }
            highest = highest.max(number);
            if number > trusted {
                match number - trusted <= STEP || number.abs_diff(ahead) <= STEP {
                    true if highest - number <= STEP => trusted = highest,
                    true => trusted = number,
                    false => ahead = number,
                }
            }
        }
        let missing = highest - first + 1 - seen.len() as u64;
        Some(Self { are_new, missing, is_counted: trusted == highest })
    }

    /// A board's fragments, of which so many may have one time.
    pub fn taken(
        &self,
        packets: &[Came],
        ns: impl Fn(usize) -> i128,
        fragments_max: usize,
    ) -> Taken {
        let mut of_time: BTreeMap<i128, usize> = BTreeMap::new();
        let mut taken = Taken::default();
        let packets = packets.iter().zip(&self.are_new);
        for (index, is_new) in
            packets.flat_map(|(one, &new)| one.fragments.clone().map(move |at| (at, new)))
        {
            let count = of_time.entry(ns(index)).or_default();
            match *count == 0 || is_new && *count < fragments_max {
                true => {
                    *count += 1;
                    taken.fragments.push(index);
                }
                false if is_new => taken.of_equal_times += 1,
                false => taken.copies += 1,
            }
        }
        taken
    }
}

impl Check<'_> {
    /// What the numbers of a board's packets say, whatever its clock did.
    pub(super) fn sequences(&self) -> Result<(), String> {
        for source in 0..self.honest.len() {
            if self.log(source).is_none() {
                self.sequence(source).map_err(|why| format!("source {source}: {why}"))?;
            }
        }
        self.rows
            .iter()
            .try_for_each(|row| self.flags(row).map_err(|why| format!("row {}: {why}", row.key)))?;
        self.bad()
    }

    fn sequence(&self, source: usize) -> Result<(), String> {
        let Some(numbered) = &self.numbered[source] else { return Ok(()) };
        let delivered = &self.outcome.delivered[source];
        let ledger = &self.outcome.life.last.ledger.sources[source];
        let fragments = |are_new: bool| -> u64 {
            let packets = delivered.packets.iter().zip(&numbered.are_new);
            packets.filter(|one| *one.1 == are_new).map(|one| one.0.fragments.len() as u64).sum()
        };
        let copies = ledger[Entry::FragmentsDuplicate] + ledger[Entry::FragmentsAmbiguous];
        if copies > fragments(false) {
            let most = fragments(false);
            return Err(format!("{copies} fragments count as copies, {most} may be some"));
        }
        let repeated = ledger[Entry::FragmentsTimeRepeated];
        if repeated > fragments(true) {
            let most = fragments(true);
            return Err(format!("{repeated} fragments of repeated times, {most} may be some"));
        }
        if self.is_held_up() {
            return Ok(());
        }
        let unknown = ledger[Entry::FragmentsUnknownSource];
        if unknown != delivered.strangers {
            return Err(format!("{unknown} of unknown source, {} came", delivered.strangers));
        }
        let (missing, is) = (numbered.missing, ledger[Entry::PacketsMissing]);
        match is == missing || !numbered.is_counted && is < missing {
            true => Ok(()),
            false => Err(format!("{is} packets missing, by their numbers {missing}")),
        }
    }

    /// An event says that data in it are broken, and that its fragments are of different triggers.
    fn flags(&self, row: &Row) -> Result<(), String> {
        let tags: BTreeSet<u8> = row.members.iter().filter_map(|&id| self.tag(id)).collect();
        let flags = [
            (EventFlags::SENDER_ERROR, row.members.iter().any(|&id| self.is_broken(id))),
            (EventFlags::TAG_MISMATCH, tags.len() > 1),
        ];
        match flags.into_iter().find(|&(flag, is)| row.flags.contains(flag) != is) {
            Some((flag, is)) => Err(format!("flag {:#x} is {}", flag.0, !is)),
            None => Ok(()),
        }
    }

    fn is_broken(&self, (source, index): Id) -> bool {
        self.outcome.sent[source][index].stamp.is_broken
    }

    fn tag(&self, (source, index): Id) -> Option<u8> {
        let has_tags = self.log(source).is_none()
            && self.outcome.plan.sources[source].layout.marks.tag_bits.is_some();
        has_tags.then(|| self.outcome.sent[source][index].stamp.tag)
    }

    /// In an event the tag of more than half of its fragments is right, or none.
    fn bad(&self) -> Result<(), String> {
        let (mut tags, mut broken) = (vec![0; self.honest.len()], vec![0; self.honest.len()]);
        for row in &self.rows {
            let tagged = || row.members.iter().filter_map(|&id| Some((id.0, self.tag(id)?)));
            let count = |tag: u8| tagged().filter(|one| one.1 == tag).count();
            let right = tagged().map(|one| one.1).find(|&tag| 2 * count(tag) > tagged().count());
            let is_bad = |one: &(usize, u8)| Some(one.1) != right;
            tagged().filter(is_bad).for_each(|(source, _)| tags[source] += 1);
            let of_row = row.members.iter().filter(|&&id| self.is_broken(id));
            of_row.for_each(|id| broken[id.0] += 1);
        }
        for (source, ledger) in self.outcome.life.last.ledger.sources.iter().enumerate() {
            let counts = [
                (Entry::FragmentsBadTag, tags[source]),
                (Entry::FragmentsBadSender, broken[source]),
            ];
            if let Some((entry, is)) = counts.into_iter().find(|&(entry, is)| ledger[entry] != is) {
                return Err(format!("source {source}: {entry}: {}, expected {is}", ledger[entry]));
            }
        }
        Ok(())
    }
}

/// Of each source, what its numbers say.
pub fn numbered(outcome: &Outcome<'_>) -> Vec<Option<Numbered>> {
    let sources = outcome.plan.sources.iter().zip(&outcome.delivered);
    sources.map(|(source, delivered)| Numbered::of(source, &delivered.packets)).collect()
}

/// How far back a packet may be overtaken, and how far ahead one alone is believed.
const WINDOW: u64 = 1_024;
const STEP: u64 = 64;
