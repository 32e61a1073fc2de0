//! A cache of decoded columns, bounded in bytes.
//!
//! The least recently used item is evicted first. An item larger than the whole bound is returned
//! but not cached. Items are reference counted and outlive their eviction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use catchment_frame::ColumnEntry;
use catchment_model::SourceId;
use parking_lot::Mutex;

use crate::column::{FragmentColumn, FrameEvents, Validity};

/// An item of the cache: cheap to clone, and with a known size.
pub(crate) trait Cached: Clone {
    /// Bytes that it occupies in memory.
    fn bytes(&self) -> usize;
}

/// A map with eviction.
pub(crate) struct Cache<K, V> {
    state: Mutex<State<K, V>>,
    bytes_max: usize,
}

struct State<K, V> {
    items: HashMap<K, (V, u64)>,
    /// Keys by the time of their last use.
    by_use: BTreeMap<u64, K>,
    clock: u64,
    bytes: usize,
    /// Keys that were requested once and are not here.
    asked: HashSet<K>,
}

impl<K: Copy + Eq + Hash, V: Cached> Cache<K, V> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::new(State::new()), bytes_max }
    }

    /// Forgets all items and requests.
    pub(crate) fn clear(&mut self) {
        *self.state.get_mut() = State::new();
    }

    /// The item with that key, if it is here.
    pub(crate) fn get(&self, key: K) -> Option<V> {
        self.state.lock().touch(key)
    }

    /// Keeps an item, unless there is one with its key.
    fn keep(&self, key: K, value: V) {
        let mut state = self.state.lock();
        if state.touch(key).is_none() {
            state.insert(key, value, self.bytes_max);
        }
    }

    /// Whether an item of that many bytes is worth keeping: it fits with others, and its key was
    /// requested before. Data read only once then cost no copy and evict nothing.
    fn is_asked_again(&self, key: K, bytes: usize) -> bool {
        if bytes > self.bytes_max / SHARES {
            return false;
        }
        let asked = &mut self.state.lock().asked;
        if asked.len() >= ASKED_MAX {
            asked.clear();
        }
        !asked.insert(key)
    }

    /// The item with that key, made by `make` if it is not here. No lock is held meanwhile, so two
    /// threads may make the same item; the first one stays.
    pub(crate) fn get_or_make<E>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        if let Some(value) = self.state.lock().touch(key) {
            return Ok(value);
        }
        let value = make()?;
        let mut state = self.state.lock();
        if let Some(first) = state.touch(key) {
            return Ok(first);
        }
        state.insert(key, value.clone(), self.bytes_max);
        Ok(value)
    }
}

impl<K: Copy + Eq + Hash, V: Cached> State<K, V> {
    fn new() -> Self {
        let (items, by_use) = (HashMap::new(), BTreeMap::new());
        Self { items, by_use, clock: 0, bytes: 0, asked: HashSet::new() }
    }

    fn touch(&mut self, key: K) -> Option<V> {
        let (value, used) = self.items.get_mut(&key)?;
        self.by_use.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.by_use.insert(self.clock, key);
        Some(value.clone())
    }

    fn insert(&mut self, key: K, value: V, bytes_max: usize) {
        let bytes = value.bytes();
        if bytes > bytes_max {
            return;
        }
        self.clock += 1;
        self.items.insert(key, (value, self.clock));
        self.by_use.insert(self.clock, key);
        self.bytes += bytes;
        while self.bytes > bytes_max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some((value, _)) = self.items.remove(&oldest) {
                self.bytes -= value.bytes();
            }
        }
    }
}

/// A run's decoded columns, by the index of their frame among those of events, or of channels.
pub(crate) struct ColumnCache(Cache<(usize, Piece), Decoded>);

/// A part of a frame that is decoded separately.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Piece {
    Events,
    Validity(u32),
    Fragments(u32),
    Samples(u32),
}

#[derive(Clone)]
enum Decoded {
    Events(Arc<FrameEvents>),
    Validity(Arc<Validity>),
    Fragments(Arc<FragmentColumn>),
    Samples(Arc<Vec<u8>>),
}

impl ColumnCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Cache::new(bytes_max))
    }

    /// Forgets all columns, because their frames' indices have changed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// A frame's events, cached or read.
    pub(crate) fn events<E>(
        &self,
        frame: usize,
        read: impl FnOnce() -> Result<FrameEvents, E>,
    ) -> Result<Arc<FrameEvents>, E> {
        let make = || read().map(Arc::new).map(Decoded::Events);
        match self.0.get_or_make((frame, Piece::Events), make)? {
            Decoded::Events(events) => Ok(events),
            _ => unreachable!("a piece is cached under its own key"),
        }
    }

    /// Which rows of a frame have a source's fragment, cached or read.
    pub(crate) fn validity<E>(
        &self,
        frame: usize,
        source: SourceId,
        read: impl FnOnce() -> Result<Validity, E>,
    ) -> Result<Arc<Validity>, E> {
        let make = || read().map(Arc::new).map(Decoded::Validity);
        match self.0.get_or_make((frame, Piece::Validity(source.0)), make)? {
            Decoded::Validity(validity) => Ok(validity),
            _ => unreachable!("a piece is cached under its own key"),
        }
    }

    /// A source's fragments in a frame, cached or read.
    pub(crate) fn fragments<E>(
        &self,
        frame: usize,
        source: SourceId,
        read: impl FnOnce() -> Result<FragmentColumn, E>,
    ) -> Result<Arc<FragmentColumn>, E> {
        let make = || read().map(Arc::new).map(Decoded::Fragments);
        match self.0.get_or_make((frame, Piece::Fragments(source.0)), make)? {
            Decoded::Fragments(fragments) => Ok(fragments),
            _ => unreachable!("a piece is cached under its own key"),
        }
    }

    /// A channel's decoded column, if it is cached.
    pub(crate) fn samples(&self, frame: usize, column: u32) -> Option<Arc<Vec<u8>>> {
        match self.0.get((frame, Piece::Samples(column)))? {
            Decoded::Samples(samples) => Some(samples),
            _ => unreachable!("a piece is cached under its own key"),
        }
    }

    /// Whether a channel's column was requested before, and is small enough to be cached.
    pub(crate) fn is_asked_again(&self, frame: usize, entry: &ColumnEntry) -> bool {
        self.0.is_asked_again((frame, Piece::Samples(entry.id)), entry.raw_bytes as usize)
    }

    /// Caches a channel's decoded column.
    pub(crate) fn keep_samples(&self, frame: usize, column: u32, samples: Vec<u8>) {
        self.0.keep((frame, Piece::Samples(column)), Decoded::Samples(Arc::new(samples)));
    }
}

impl Cached for Decoded {
    fn bytes(&self) -> usize {
        let bytes = match self {
            Self::Events(events) => events.bytes(),
            Self::Validity(validity) => validity.bytes(),
            Self::Fragments(fragments) => fragments.bytes(),
            Self::Samples(samples) => samples.len(),
        };
        bytes + ITEM_OVERHEAD_BYTES
    }
}

/// The overhead of an item besides its bytes, so that items without bytes are bounded too.
pub(crate) const ITEM_OVERHEAD_BYTES: usize = 256;
/// An item with a larger share of the bound would evict more than it is worth.
const SHARES: usize = 4;
/// Keys that are remembered: more than the columns read in turn, and less than a megabyte.
const ASKED_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    impl Cached for Arc<Vec<u8>> {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    fn get(cache: &Cache<u32, Arc<Vec<u8>>>, key: u32, bytes: usize) -> (Arc<Vec<u8>>, bool) {
        let mut made = false;
        let value = cache.get_or_make(key, || {
            made = true;
            Ok::<_, Infallible>(Arc::new(vec![key as u8; bytes]))
        });
        let Ok(value) = value;
        (value, made)
    }

    #[test]
    fn what_was_used_least_recently_goes_first_and_the_bound_holds() {
        let cache = Cache::new(100);
        get(&cache, 1, 40);
        get(&cache, 2, 40);
        assert!(!get(&cache, 1, 40).1);
        get(&cache, 3, 40);
        assert!(!get(&cache, 1, 40).1);
        assert!(!get(&cache, 3, 40).1);
        assert!(get(&cache, 2, 40).1);
        let state = cache.state.lock();
        assert_eq!((state.bytes, state.items.len(), state.by_use.len()), (80, 2, 2));
    }

    #[test]
    fn what_is_asked_for_again_is_worth_keeping_unless_it_is_large() {
        let cache: Cache<u32, Arc<Vec<u8>>> = Cache::new(100);
        assert!(!cache.is_asked_again(1, 25));
        assert!(!cache.is_asked_again(2, 25));
        assert!(cache.is_asked_again(1, 25));
        assert!(!cache.is_asked_again(3, 26));
        assert!(!cache.is_asked_again(3, 26));
        for key in 0..2 * ASKED_MAX as u32 {
            cache.is_asked_again(key, 1);
        }
        assert!(cache.state.lock().asked.len() <= ASKED_MAX);
        assert!(cache.get(1).is_none());
        cache.keep(1, Arc::new(vec![7]));
        cache.keep(1, Arc::new(vec![8]));
        assert_eq!(*cache.get(1).expect("kept"), [7]);
    }

    #[test]
    fn an_item_beyond_the_bound_is_handed_out_and_not_kept() {
        let cache = Cache::new(100);
        get(&cache, 1, 40);
        assert_eq!(get(&cache, 2, 101).0.len(), 101);
        assert!(get(&cache, 2, 101).1);
        assert!(!get(&cache, 1, 40).1);
    }
}
