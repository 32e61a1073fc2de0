//! The events that are open: a ring of slots, one per key.
//!
//! ```text
//!        base            scan                     newest          base + window
//!   closed | no fragment  | open events, and gaps    | no fragment     | parked
//! ```

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
    /// Sources that delivered, as a sum of weights; 0: the slot is empty.
    pub weight: u32,
    /// The tag of its first fragment.
    pub tag: u8,
    /// The low bits of its flags.
    pub flags: u8,
}

const _: () = assert!(size_of::<Slot>() == 24);

/// What a source adds to a slot's weight: 1, and 65,536 if it is required.
pub fn weight(required: bool) -> u32 {
    1 | if required { REQUIRED } else { 0 }
}

/// How many required sources are in a weight.
#[inline]
pub fn required_count(weight: u32) -> u32 {
    weight / REQUIRED
}

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
        if slot.weight == 0 {
            *slot = Slot { first_ns: arrived_ns, tag: fragment.tag, ..Slot::default() };
            self.open += 1;
            self.scan = self.scan.min(key);
            self.newest = self.newest.max(key);
        }
        slot.weight += weight;
        slot.bytes += u64::from(fragment.bytes);
        // A fragment that was parked can have come before the one that opened the event.
        slot.first_ns = slot.first_ns.min(arrived_ns);
        if slot.tag != fragment.tag {
            slot.flags |= EventFlags::TAG_MISMATCH.0 as u8;
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
            if slot.weight != 0 {
                return Some((self.scan, slot));
            }
            self.scan += 1;
        }
    }

    /// Empties the slot of the head and moves the base past it.
    #[inline]
    pub fn close_head(&mut self) {
        self.slots[(self.scan & self.mask) as usize].weight = 0;
        self.open -= 1;
        self.scan += 1;
        self.base = self.scan;
        self.newest = self.newest.max(self.base);
    }
}

const REQUIRED: u32 = 1 << 16;

const _: () = {
    assert!(catchment_model::limits::SOURCES_MAX < REQUIRED as usize);
    assert!(EventFlags::TAG_MISMATCH.0 < 256);
    assert!(EventFlags::SENDER_ERROR.0 < 256);
};
