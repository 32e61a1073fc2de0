//! Memory for trains that several sources send, each its part: all of a number, or none.
//!
//! The first of the sources that begins a train decides for all of them: if the memory that is free
//! and not yet needed by trains that others have begun holds the train of every source, they may
//! take it; otherwise the train is dropped in each source (`fragments_discarded_memory`). Sources
//! ask once per train; one whose train fits a packet asks with the packet, which needs no memory of
//! its own. A decision is kept for [`KEPT_NS`], of the last [`KEPT_MAX`] trains: then
//! memory for sources that are silent is free again.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::config::{RecorderConfig, SourceConfig};

/// Trains whose decision is kept.
const KEPT_MAX: usize = 64;
/// How long it is kept.
const KEPT_NS: u64 = 10_000_000_000;

/// Which trains have memory.
#[derive(Debug)]
pub(crate) struct TrainRoom {
    /// By the source's number: whether it sends trains.
    sources: Vec<bool>,
    /// Of one train in all sources where it has several packets.
    bytes: u64,
    /// What the others may take for theirs, whichever these are.
    bytes_beside: u64,
    begun: Mutex<VecDeque<Begun>>,
}

/// A train that a source has begun.
#[derive(Debug)]
struct Begun {
    number: u64,
    since_ns: u64,
    /// What the sources still need that have not begun it; none if it is dropped.
    needs_bytes: Option<u64>,
}

impl TrainRoom {
    /// That of these sources, with chunks of that size; none if no two of them send trains.
    pub(crate) fn of(config: &RecorderConfig, chunk_bytes: u64) -> Option<Self> {
        let sources: Vec<bool> =
            config.sources.iter().map(|source| source.is_of_trains()).collect();
        let trains = config.sources.iter().filter(|source| source.is_of_trains());
        // A train of one packet is appended to a chunk with others: it never takes one for itself.
        let is_long = |source: &&SourceConfig| {
            let part_bytes = source.protocol.part_bytes_max().unwrap_or(u64::MAX);
            part_bytes < source.protocol.fragment_bytes_max()
        };
        let (long, short): (Vec<_>, Vec<_>) = trains.partition(is_long);
        let bytes = long.iter().map(|source| source.protocol.fragment_bytes_max());
        let bytes = bytes.map(|bytes| bytes.next_multiple_of(chunk_bytes)).sum();
        let bytes_beside = short.len() as u64 * chunk_bytes;
        let count = sources.iter().filter(|&&sends| sends).count();
        (count > 1).then(|| Self { sources, bytes, bytes_beside, begun: Mutex::default() })
    }

    /// Whether a source sends trains.
    pub(crate) fn has(&self, source: u32) -> bool {
        self.sources.get(source as usize) == Some(&true)
    }

    /// A source begins a train of so many bytes and takes its memory, if the train of all sources
    /// has some. `free` says how many bytes are free.
    pub(crate) fn take(
        &self,
        (number, bytes): (u64, u64),
        now_ns: u64,
        free: impl FnOnce() -> u64,
        take: impl FnOnce() -> bool,
    ) -> bool {
        let mut begun = self.begun.lock();
        while begun.front().is_some_and(|one| now_ns.saturating_sub(one.since_ns) >= KEPT_NS) {
            begun.pop_front();
        }
        let index = match begun.iter().position(|one| one.number == number) {
            Some(index) => index,
            None => {
                let needed: u64 = begun.iter().filter_map(|one| one.needs_bytes).sum();
                let wanted = needed.saturating_add(self.bytes).saturating_add(self.bytes_beside);
                let has_room = free() >= wanted;
                if begun.len() == KEPT_MAX {
                    begun.pop_front();
                }
                let needs_bytes = has_room.then_some(self.bytes);
                begun.push_back(Begun { number, since_ns: now_ns, needs_bytes });
                begun.len() - 1
            }
        };
        let Some(needs) = &mut begun[index].needs_bytes else { return false };
        *needs = needs.saturating_sub(bytes);
        take()
    }
}

impl SourceConfig {
    /// Whether its fragments are trains.
    pub(crate) fn is_of_trains(&self) -> bool {
        self.protocol.name() == catchment_wire::trains::NAME
    }
}

impl RecorderConfig {
    /// Bytes of a train in all sources of trains, which is one event; 0 without such sources.
    pub(crate) fn train_bytes(&self) -> u64 {
        let trains = self.sources.iter().filter(|source| source.is_of_trains());
        trains.map(|source| source.protocol.fragment_bytes_max()).fold(0, u64::saturating_add)
    }

    /// The largest frame of either kind, or of a train, which is cut by its own size.
    pub(crate) fn longest_frame_bytes(&self) -> u64 {
        self.frame_bytes_max().max(self.train_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use catchment_wire::trains::{TrainSettings, Trains};

    use super::*;

    #[test]
    fn a_train_gets_memory_in_all_sources_or_in_none() {
        let room = TrainRoom {
            sources: vec![true; 2],
            bytes: 20,
            bytes_beside: 0,
            begun: Mutex::default(),
        };
        let mut free = 50;
        let mut take = |number, now_ns| {
            let taken = room.take((number, 10), now_ns, || free, || true);
            free -= if taken { 10 } else { 0 };
            taken
        };
        // Two trains in the first source leave 30, of which the second needs 20.
        assert_eq!([take(0, 0), take(1, 0), take(2, 0)], [true, true, false]);
        assert_eq!([take(1, 1), take(0, 1), take(2, 1)], [true, true, false]);
        // 10 are left: too few for a train of both.
        assert!(!take(3, 2) && !take(3, 3));
    }

    #[test]
    fn a_source_whose_train_fits_a_packet_holds_no_memory_for_it() {
        const CHUNK: u64 = 64 << 10;
        let source = |train_bytes| {
            let settings = TrainSettings { train_bytes, ..TrainSettings::default() };
            SourceConfig {
                protocol: Arc::new(Trains::new(settings).unwrap()),
                ..SourceConfig::new("trains", "127.0.0.1:0".parse().unwrap())
            }
        };
        let config = RecorderConfig::new("".into(), vec![source(9 * CHUNK), source(4_000)]);
        let room = TrainRoom::of(&config, CHUNK).unwrap();
        // Each train is given back before the next one.
        for number in 0..KEPT_MAX as u64 {
            let take = |bytes| room.take((number, bytes), 0, || 10 * CHUNK, || true);
            assert!(take(0) && take(9 * CHUNK), "train {number}");
        }
        assert!(!room.take((1_000, 0), 0, || 10 * CHUNK - 1, || true));
    }

    #[test]
    fn a_silent_source_holds_no_memory_for_long() {
        let room = TrainRoom {
            sources: vec![true; 2],
            bytes: 20,
            bytes_beside: 0,
            begun: Mutex::default(),
        };
        let take = |number, now_ns| room.take((number, 10), now_ns, || 25, || true);
        assert!(take(0, 0) && !take(1, 1));
        assert!(!take(1, KEPT_NS) && take(2, KEPT_NS));
    }
}
