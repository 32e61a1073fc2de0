//! Which of a run's frames each of several nodes has that share them: up to which number they have
//! all together, and what they have twice.
//!
//! A node says its numbers in the order of its items. They may fall, since what a node did not
//! acknowledge goes to others behind what these have; and what it had written by then it has, too.
//!
//! ```text
//! node 0   0 1 2 | 6 7 8 | 3 4 5 | 12 13     the first that none has: 11
//! node 1   3 4 5 | 9 10                      3, 4, 5: twice; 12, 13: cut off
//! ```

use std::ops::Range;

use catchment_frame::{FileHeader, Position, Positions};
use catchment_model::Ledger;
use catchment_sender::StreamSession;
use catchment_storage::PartLeft;

use crate::node_left::{AskedNode, NodeLeft};
use crate::recorder::RecorderError;

/// Numbers that follow each other: the first and the last.
pub(crate) type Numbers = (u64, u64);

/// Asks nodes that share frames what they have. What they have from `below` on, or behind the first
/// number that none of them has, is cut off there.
///
/// # Errors
/// One does not answer, or the run cannot go on with what they say.
pub(crate) fn ask(nodes: &AskedNode, below: u64) -> Result<NodeLeft, RecorderError> {
    let all = 0..nodes.node.addresses.len();
    let all = all.map(|index| nodes.ask_one(index, StreamSession::ask));
    let mut lefts = all.collect::<Result<Vec<NodeLeft>, _>>()?;
    let of = |lefts: &[NodeLeft]| Shares(lefts.iter().map(|left| left.numbers.clone()).collect());
    let shares = of(&lefts);
    let end = shares.end().min(below);
    let failed = |why: String, may_pass| nodes.failed(0, (why, may_pass));
    check_alike(&lefts).map_err(|why| failed(why, false))?;
    let behind = shares.cut(end).end();
    if behind < end {
        let why = format!(
            "frame {behind} stands behind frames that would be cut off (the run goes on at {end}), \
             and no other node has it"
        );
        return Err(failed(why, false));
    }
    let synced = lefts.iter().filter_map(|left| left.positions.newest(0, Position::SYNCED));
    let synced = synced.map(|synced| synced.position).max().unwrap_or(0);
    if end < synced.min(below) {
        let why = format!(
            "frames below {synced} were durable, and the nodes have only those below {end}"
        );
        return Err(failed(why, false));
    }
    for (index, left) in lefts.iter_mut().enumerate().filter(|(one, _)| shares.has_from(*one, end))
    {
        *left = nodes.ask_one(index, |session| session.ask_dealt(0..end, true))?;
    }
    let shares = of(&lefts);
    if shares.end() != end {
        let why = format!("the nodes have the frames below {} now, not below {end}", shares.end());
        return Err(failed(why, true));
    }
    let twice = shares.twice();
    if twice.len() > TWICE_MAX {
        let count = twice.len();
        let why = format!("the nodes have {count} ranges of frames twice, more than {TWICE_MAX}");
        return Err(failed(why, false));
    }
    let copies = twice
        .into_iter()
        .map(|(index, numbers)| nodes.ask_one(index, |session| session.ask_dealt(numbers, false)));
    let copies = copies.collect::<Result<Vec<NodeLeft>, _>>()?;
    together(&lefts, &copies, end).map_err(|why| failed(why, true))
}

/// Checks that nodes describe files of the same sources. One may have none.
fn check_alike<'a>(lefts: impl IntoIterator<Item = &'a NodeLeft>) -> Result<(), String> {
    let mut headers = lefts.into_iter().filter_map(|left| left.header.as_ref());
    let Some(first) = headers.next() else { return Ok(()) };
    match headers.all(|header| header.schema == first.schema) {
        true => Ok(()),
        false => Err("the nodes have files of different sources".to_owned()),
    }
}

/// What nodes have together that have all frames below that number, and some of them twice.
///
/// # Errors
/// They do not describe the same files as before.
fn together(lefts: &[NodeLeft], copies: &[NodeLeft], end: u64) -> Result<NodeLeft, String> {
    if copies.iter().any(|copy| copy.header.is_none()) {
        return Err("a node no longer has frames that it had".to_owned());
    }
    check_alike(lefts.iter().chain(copies))?;
    let with_files = || lefts.iter().filter_map(|left| Some((left, left.header.as_ref()?)));
    let mut header: Option<FileHeader> = None;
    for (_, of_node) in with_files() {
        let header = header.get_or_insert_with(|| of_node.clone());
        header.epoch = header.epoch.max(of_node.epoch);
        for record in &of_node.superseded {
            if !header.superseded.contains(record) {
                header.superseded.push(*record);
            }
        }
    }
    let sources = header.as_ref().map_or(0, |header| header.schema.sources.len());
    let sum = |lefts: &mut dyn Iterator<Item = &NodeLeft>| {
        let mut sum = Ledger::new(sources);
        lefts.for_each(|left| sum.add(&left.ledger));
        sum
    };
    let ledger = sum(&mut with_files().map(|(left, _)| left)).since(&sum(&mut copies.iter()));
    let mut positions = Positions::default();
    lefts.iter().for_each(|left| positions.add(left.positions.records()));
    let once = |of: fn(&NodeLeft) -> u64| {
        let sum = |lefts: &[NodeLeft]| lefts.iter().map(of).fold(0, u64::saturating_add);
        sum(lefts).saturating_sub(sum(copies))
    };
    let part = |left: &NodeLeft| PartLeft {
        frames: left.frames,
        bytes: left.bytes,
        numbers: left
            .numbers
            .iter()
            .copied()
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))),
    };
    Ok(NodeLeft {
        age_ns: with_files().map(|(left, _)| left.age_ns).min().unwrap_or(0),
        sequence: end,
        generation: lefts.iter().chain(copies).map(|left| left.generation).max().unwrap_or(0),
        ledger,
        positions,
        frames: once(|left| left.frames),
        events: once(|left| left.events),
        bytes: lefts.iter().map(|left| left.bytes).fold(0, u64::saturating_add),
        numbers: Vec::new(),
        parts: lefts.iter().map(part).collect(),
        header,
    })
}

/// The numbers of each node, in the order of its items.
struct Shares(Vec<Vec<Numbers>>);

impl Shares {
    #[cfg(test)]
    fn of<'a>(nodes: impl Iterator<Item = &'a [Numbers]>) -> Self {
        Self(nodes.map(<[Numbers]>::to_vec).collect())
    }

    /// The lowest number that none of them has.
    fn end(&self) -> u64 {
        self.sweep().0
    }

    /// What a node has below the end that another one has, too, but for one of them.
    fn twice(&self) -> Vec<(usize, Range<u64>)> {
        self.sweep().1
    }

    /// Whether a node has frames with that number or a higher one.
    fn has_from(&self, node: usize, number: u64) -> bool {
        self.0[node].iter().any(|&(_, last)| last >= number)
    }

    /// What is left if each node cuts off its items from the first one on with that number or a
    /// higher one.
    fn cut(&self, number: u64) -> Self {
        let cut = |numbers: &Vec<Numbers>| {
            let mut kept = Vec::new();
            for &(first, last) in numbers {
                if first < number {
                    kept.push((first, last.min(number - 1)));
                }
                if last >= number {
                    break;
                }
            }
            kept
        };
        Self(self.0.iter().map(cut).collect())
    }

    fn sweep(&self) -> (u64, Vec<(usize, Range<u64>)>) {
        let of_node = |(node, numbers): (usize, &Vec<Numbers>)| {
            let mut numbers = numbers.clone();
            numbers.sort_unstable();
            // A node may have a frame as two items, which its sums count once.
            let mut apart: Vec<Numbers> = Vec::new();
            for (first, last) in numbers {
                match apart.last_mut() {
                    Some(before) if first <= before.1 => before.1 = before.1.max(last),
                    _ => apart.push((first, last)),
                }
            }
            apart.into_iter().map(move |(first, last)| (first, last, node))
        };
        let mut all: Vec<_> = self.0.iter().enumerate().flat_map(of_node).collect();
        all.sort_unstable();
        let (mut end, mut twice) = (0, Vec::new());
        for (first, last, node) in all {
            if first > end {
                break;
            }
            let behind = last.saturating_add(1);
            if first < end {
                twice.push((node, first..behind.min(end)));
            }
            end = end.max(behind);
        }
        (end, twice)
    }
}

/// Reads what a node says of a part of the run's frames: their numbers, and behind these the rest.
///
/// # Errors
/// It is none: it may be anything.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Vec<Numbers>, &[u8]), String> {
    let none = || "it does not say which frames it has".to_owned();
    let (count, rest) = bytes.split_first_chunk().ok_or_else(none)?;
    let count = usize::try_from(u64::from_le_bytes(*count)).map_err(|_| none())?;
    let numbers_bytes = count.checked_mul(16).filter(|&bytes| bytes <= rest.len());
    let (numbers, file) = rest.split_at(numbers_bytes.ok_or_else(none)?);
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let numbers = numbers.chunks_exact(16).map(|one| (number(&one[..8]), number(&one[8..])));
    let numbers: Vec<Numbers> = numbers.collect();
    match numbers.iter().all(|(first, last)| first <= last) {
        true => Ok((numbers, file)),
        false => Err(none()),
    }
}

/// Parts of the frames that are asked for again since another node has them, too, at most.
const TWICE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use catchment_fixtures::Random;
    use catchment_model::RunId;

    use super::*;
    use crate::config::{RecorderConfig, SourceConfig};
    use crate::file::OfRun;
    use crate::schema::schema;

    fn shares(nodes: &[&[Numbers]]) -> Shares {
        Shares::of(nodes.iter().copied())
    }

    #[test]
    fn all_below_the_first_hole_is_there_and_what_two_have_is_named_once() {
        let two = shares(&[&[(0, 2), (6, 8), (3, 5), (12, 13)], &[(3, 5), (9, 10)]]);
        assert_eq!((two.end(), two.twice()), (11, vec![(1, 3..6)]));
        assert!(two.has_from(0, 11) && !two.has_from(1, 11));
        assert_eq!(two.cut(11).end(), 11);
        assert_eq!(two.cut(7).end(), 7, "the other one has what was sent behind it");
        let alone = shares(&[&[(0, 2), (6, 8), (3, 4)], &[]]);
        assert_eq!((alone.end(), alone.cut(5).end()), (5, 3), "3 and 4 stand behind 6");
        assert_eq!(shares(&[&[], &[(1, 4)]]).end(), 0);
    }

    /// What a node has of a run with that many sources; with none, nothing.
    fn left(sources: usize) -> NodeLeft {
        let address = "127.0.0.1:7300".parse().unwrap();
        let source = |number| SourceConfig::over_session(format!("camera/{number}"), address);
        let config = RecorderConfig::new("".into(), (0..sources).map(source).collect());
        let header = || {
            let schema = Arc::new(schema(&config).unwrap());
            OfRun::of(&config).header(RunId([7; 16]), &schema, 0)
        };
        NodeLeft {
            header: (sources > 0).then(header),
            age_ns: 0,
            sequence: 3,
            generation: 1,
            ledger: Ledger::new(sources),
            positions: Positions::default(),
            frames: u64::MAX,
            events: 3,
            bytes: u64::MAX,
            numbers: vec![(0, 2)],
            parts: Vec::new(),
        }
    }

    #[test]
    fn what_nodes_have_is_summed_up_if_it_is_of_the_same_files_whatever_it_is() {
        let sum = together(&[left(1), left(0), left(1)], &[left(1)], 3).unwrap();
        assert_eq!((sum.frames, sum.events, sum.bytes), (0, 6, u64::MAX));
        assert_eq!((sum.sequence, sum.ledger.sources.len()), (3, 1));
        for (lefts, copies) in [
            // It was started again without its disk.
            ([left(1), left(1)], left(0)),
            ([left(1), left(1)], left(2)),
            ([left(1), left(2)], left(1)),
        ] {
            assert!(together(&lefts, &[copies], 3).is_err());
        }
        assert!(check_alike(&[left(0), left(2), left(1)]).is_err());
        assert!(check_alike(&[left(0), left(2), left(0), left(2)]).is_ok());
    }

    #[test]
    fn it_is_as_a_set_of_numbers_says() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let mut some = || {
                let count = random.index(6);
                let one = |_| {
                    let first = random.index(30) as u64;
                    (first, first + random.index(5) as u64)
                };
                (0..count).map(one).collect::<Vec<Numbers>>()
            };
            let nodes = [some(), some(), some()];
            let shares = Shares::of(nodes.iter().map(Vec::as_slice));
            let has = |node: &Vec<Numbers>, number: u64| {
                node.iter().any(|(first, last)| (*first..=*last).contains(&number))
            };
            let count = |number| nodes.iter().filter(|node| has(node, number)).count();
            let end = (0..).find(|&number| count(number) == 0).unwrap();
            assert_eq!(shares.end(), end, "{nodes:?}");
            let twice = shares.twice();
            for number in 0..end {
                let named = twice.iter().filter(|(_, numbers)| numbers.contains(&number));
                assert_eq!(named.count(), count(number) - 1, "{number} of {nodes:?}");
            }
            for (node, mut numbers) in twice {
                assert!(numbers.all(|number| number < end && has(&nodes[node], number)));
            }
        }
    }

    #[test]
    fn whatever_a_node_says_is_numbers_and_a_rest_or_refused() {
        let mut said = 2_u64.to_le_bytes().to_vec();
        [0_u64, 4, 7, 7].iter().for_each(|number| said.extend(number.to_le_bytes()));
        said.extend(b"rest");
        assert_eq!(decode(&said), Ok((vec![(0, 4), (7, 7)], &b"rest"[..])));
        (0..40).for_each(|bytes| assert!(decode(&said[..bytes]).is_err(), "{bytes}"));
        for first in [[0xff; 8], (1_u64 << 60).to_le_bytes()] {
            let mut other = said.clone();
            other[..8].copy_from_slice(&first);
            assert!(decode(&other).is_err());
        }
        said[8] = 5;
        assert!(decode(&said).is_err(), "numbers that fall");
    }
}
