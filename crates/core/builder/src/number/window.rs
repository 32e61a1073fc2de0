//! The window of open events: one slot for each key, and which fragments came.

use catchment_model::EventFlags;

use super::numbers::Numbers;
use crate::Fragment;

/// What is known of one open event. 24 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// When its first fragment came.
    pub first_ns: u64,
    /// Bytes of its fragments.
    pub bytes: u64,
    /// Sources that delivered, as a sum of weights.
    pub weight: u32,
    /// The tag of its first fragment that has one.
    pub tag: u8,
    /// Whether one had.
    has_tag: bool,
    /// The low bits of its flags.
    pub flags: u8,
    /// Whether a fragment came; otherwise the slot is empty.
    is_open: bool,
}

const _: () = assert!(size_of::<Slot>() == 24);

impl Slot {
    /// Takes the tag of a fragment that has another one, or for the first time.
    #[cold]
    fn compare_tag(&mut self, fragment: &Fragment) {
        match (fragment.has_tag(), self.has_tag) {
            (false, _) => {}
            (true, false) => (self.tag, self.has_tag) = (fragment.tag, true),
            (true, true) => self.flags |= EventFlags::TAG_MISMATCH.0 as u8,
        }
    }
}

/// The events that are open: a ring of slots, one per key.
///
/// ```text
///        base            scan                     newest          base + window
///   closed | no fragment  | open events, and gaps    | no fragment     | parked
/// ```
#[derive(Debug)]
pub struct Window {
    slots: Vec<Slot>,
    mask: u64,
    /// The lowest key that can take fragments.
    pub base: u64,
    /// No key below it has fragments.
    pub scan: u64,
    /// The highest key that took a fragment; `base` before that.
    pub newest: u64,
    /// Slots that are not empty.
    pub open: u64,
}

impl Window {
    /// `events` is a power of two.
    pub fn new(events: u64) -> Self {
        let slots = vec![Slot::default(); events as usize];
        Self { slots, mask: events - 1, base: 0, scan: 0, newest: 0, open: 0 }
    }

    /// How many keys it spans.
    pub fn events(&self) -> u64 {
        self.mask + 1
    }

    /// The first key beyond it.
    pub fn end(&self) -> u64 {
        self.base + self.events()
    }

    /// Whether a key is inside.
    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        key.wrapping_sub(self.base) <= self.mask
    }

    /// The key inside that has this number, if there is one.
    pub fn key_of(&self, number: u64, numbers: Numbers) -> Option<u64> {
        let forward = numbers.number_of(number.wrapping_sub(self.base));
        (forward <= self.mask).then(|| self.base + forward)
    }

    /// Moves to keys from `base` on. All slots are empty.
    pub fn restart(&mut self, base: u64) {
        assert_eq!(self.open, 0, "the window jumps only when no event is open");
        (self.base, self.scan, self.newest) = (base, base, base);
    }

    /// Moves on to a base up to which all events are closed.
    pub fn advance(&mut self, base: u64) {
        assert!(
            base >= self.base && (self.open == 0 || base <= self.scan),
            "no open event is lost"
        );
        self.base = base;
        self.scan = self.scan.max(base);
        self.newest = self.newest.max(base);
    }

    /// Adds a fragment to the event of its key, which is inside.
    #[inline]
    pub fn add(&mut self, key: u64, fragment: &Fragment, weight: u32, arrived_ns: u64) {
        let slot = &mut self.slots[(key & self.mask) as usize];
        if !slot.is_open {
            let (first_ns, tag, has_tag) = (arrived_ns, fragment.tag, fragment.has_tag());
            *slot = Slot { first_ns, tag, has_tag, is_open: true, ..Slot::default() };
            self.open += 1;
            self.scan = self.scan.min(key);
            self.newest = self.newest.max(key);
        }
        slot.weight += weight;
        slot.bytes += u64::from(fragment.bytes);
        // A fragment that was parked can have come before the one that opened the event.
        slot.first_ns = slot.first_ns.min(arrived_ns);
        if slot.tag != fragment.tag || slot.has_tag != fragment.has_tag() {
            slot.compare_tag(fragment);
        }
        if fragment.is_flagged() {
            slot.flags |= EventFlags::SENDER_ERROR.0 as u8;
        }
    }

    /// The open event with the lowest key.
    #[inline]
    pub fn head(&mut self) -> Option<(u64, Slot)> {
        if self.open == 0 {
            return None;
        }
        // Ends: some slot up to the newest key is not empty. Each empty one is passed once.
        loop {
            assert!(self.scan <= self.newest, "an open event lies before the newest key");
            let slot = self.slots[(self.scan & self.mask) as usize];
            if slot.is_open {
                return Some((self.scan, slot));
            }
            self.scan += 1;
        }
    }

    /// Empties the slot of the head and moves the base past it.
    #[inline]
    pub fn close_head(&mut self) {
        self.slots[(self.scan & self.mask) as usize].is_open = false;
        self.open -= 1;
        self.scan += 1;
        self.base = self.scan;
        self.newest = self.newest.max(self.base);
    }
}

/// Which fragments have been accepted: one bit per source and key.
///
/// A ring over at least twice the window, so that a key is known for about one window after its
/// event closed, and a duplicate can be distinguished from a late fragment. The bits of one source
/// for 512 consecutive keys are one cache line, and the lines of all sources for these keys are
/// adjacent:
///
/// ```text
/// | keys 0..512: source 0 | source 1 | .. | keys 512..1024: source 0 | source 1 | ..
/// ```
///
/// so that only the lines near the head are in the cache, and clearing 512 keys is one fill. A
/// source costs 64 kB with a window of 262,144 events.
#[derive(Debug)]
pub struct Seen {
    words: Vec<u64>,
    source_count: usize,
    block_mask: u64,
    /// Whether a block may have bits: those that have none are not cleared. Keys that are far apart
    /// would have most of the ring cleared for each event otherwise.
    used: Vec<bool>,
    // Bits are valid for keys from `end - ring` (but not before `start`) up to `end`.
    start: u64,
    end: u64,
    // Whether there are keys yet.
    is_begun: bool,
}

impl Seen {
    /// For that many sources; `window_events` is a power of two.
    pub fn new(source_count: usize, window_events: u64) -> Self {
        let ring = (2 * window_events).max(4 * BLOCK_KEYS);
        let blocks = ring / BLOCK_KEYS;
        // With 1,000 sources the ring has 64 MB: writing to it now would make the kernel provide
        // all its pages at once.
        let words = vec![0; blocks as usize * source_count * BLOCK_WORDS];
        let used = vec![false; blocks as usize];
        Self {
            words,
            source_count,
            block_mask: blocks - 1,
            used,
            start: 0,
            end: 0,
            is_begun: false,
        }
    }

    /// Clears all bits, for keys from `base` on. The words are cleared as keys are covered.
    pub fn restart(&mut self, base: u64) {
        (self.start, self.end, self.is_begun) = (base, base / BLOCK_KEYS * BLOCK_KEYS, true);
    }

    /// Makes all keys below `end` usable and clears the oldest ones. Before the first
    /// [`restart`](Self::restart) there are no keys.
    pub fn cover(&mut self, end: u64) {
        if !self.is_begun {
            return;
        }
        let ring = self.ring();
        if end.saturating_sub(self.end) > ring {
            self.restart(end - ring);
        }
        while self.end < end {
            let block = ((self.end / BLOCK_KEYS) & self.block_mask) as usize;
            if std::mem::take(&mut self.used[block]) {
                let words = self.source_count * BLOCK_WORDS;
                self.words[block * words..][..words].fill(0);
            }
            self.end += BLOCK_KEYS;
        }
    }

    /// Whether the fragment has been accepted; false for keys that have left the ring.
    pub fn contains(&self, source: usize, key: u64) -> bool {
        let known = key >= self.start && key < self.end && key + self.ring() >= self.end;
        known && self.words[self.word(source, key)] & bit(key) != 0
    }

    /// Records the fragment; false if it was recorded before. The key must be covered.
    #[inline]
    pub fn insert(&mut self, source: usize, key: u64) -> bool {
        debug_assert!(key >= self.start && key < self.end, "key {key} below {}", self.end);
        self.used[((key / BLOCK_KEYS) & self.block_mask) as usize] = true;
        let index = self.word(source, key);
        let word = &mut self.words[index];
        let new = *word & bit(key) == 0;
        *word |= bit(key);
        new
    }

    fn ring(&self) -> u64 {
        (self.block_mask + 1) * BLOCK_KEYS
    }

    #[inline]
    fn word(&self, source: usize, key: u64) -> usize {
        let block = ((key / BLOCK_KEYS) & self.block_mask) as usize;
        let word = (key / 64) as usize % BLOCK_WORDS;
        (block * self.source_count + source) * BLOCK_WORDS + word
    }
}

#[inline]
fn bit(key: u64) -> u64 {
    1 << (key % 64)
}

const BLOCK_WORDS: usize = BLOCK_KEYS as usize / 64;

const _: () = {
    assert!(EventFlags::TAG_MISMATCH.0 < 256);
    assert!(EventFlags::SENDER_ERROR.0 < 256);
};

/// Keys whose bits are one line, and are cleared together.
const BLOCK_KEYS: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_new_once_and_known_for_a_window_after() {
        let mut seen = Seen::new(3, 1_024);
        seen.restart(100);
        seen.cover(100 + 1_024);
        assert!(seen.insert(1, 100));
        assert!(!seen.insert(1, 100));
        assert!(seen.insert(2, 100));
        assert!(!seen.contains(0, 100));
        for base in 101..=600 {
            seen.cover(base + 1_024);
            assert!(seen.contains(1, 100), "{base}");
        }
        seen.cover(100 + 3 * 1_024);
        assert!(!seen.contains(1, 100));
    }

    #[test]
    fn nothing_is_known_after_a_restart_wherever_it_begins() {
        let mut seen = Seen::new(2, 1_024);
        seen.cover(1_024);
        for base in [700, 0, 512, 100, 3_000] {
            seen.restart(base);
            for end in [1_024, 2_048, 4_096] {
                seen.cover(base + end);
                let new = (base + end - 1_024)..(base + end);
                assert!(new.clone().all(|key| !seen.contains(1, key)), "{base}, {end}");
                assert!(new.clone().all(|key| seen.insert(1, key)), "{base}, {end}");
                assert!(new.clone().all(|key| seen.contains(1, key)), "{base}, {end}");
            }
        }
    }

    #[test]
    fn keys_that_are_far_apart_have_cleared_only_what_was_used() {
        let mut seen = Seen::new(2, 1 << 18);
        seen.restart(0);
        seen.cover(1 << 18);
        for step in [600_u64, 1 << 17, 1 << 18, (1 << 19) + 1, 1 << 30] {
            for event in 1..50 {
                let key = seen.end + event * step;
                seen.cover(key + (1 << 18));
                assert!(seen.insert(1, key) && !seen.insert(1, key), "{step}, {event}");
                // What is cleared later is used now.
                let used = seen.used.iter().filter(|used| **used).count() as u64;
                assert!(used <= (1 << 19) / step + 3, "{used} blocks with steps of {step}");
            }
        }
    }

    #[test]
    fn a_jump_beyond_the_ring_forgets_everything() {
        let mut seen = Seen::new(2, 256);
        seen.restart(0);
        seen.cover(256);
        assert!(seen.insert(0, 5));
        seen.cover(1_000_003);
        assert!((990_000..1_000_003).all(|key| !seen.contains(0, key)));
        assert!(seen.insert(0, 1_000_002));
        assert!(seen.contains(0, 1_000_002));
    }
}
