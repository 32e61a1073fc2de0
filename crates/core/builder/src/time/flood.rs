//! Sources that flood: they deliver, in step with the others, many fragments that are in no event.
//!
//! Where an event has fragments of several openers (`coincidence`), one that has none of another
//! source in its window is a *stray*, and no event. It still does harm: shortly before an event it
//! is the anchor, and the window ends too early for others. So a source that sends many strays
//! opens no events until that is over; what it has in an event's window is in the event.
//!
//! ```text
//!   level of a source   + 1   a stray, unless the one before is longer ago than timeout / 2048
//!                       - 16  an event; while it is not known to flood, another source's stray
//!   256                       it floods
//!   0                         it does not, any more
//! ```
//!
//! So it floods if it sends more than 16 strays for each event, and more than 2,048 in a time-out.
//! No more than half of the openers flood: where most fragments are strays, the window or the
//! offsets are wrong. All of this depends on times alone, and costs nothing where there are none.

use super::group::Queues;
use super::regroup::Group;
use super::settings::{Flooding, TimeConfig};

/// Which sources flood, and which of the others may be about to.
#[derive(Clone, Debug)]
pub struct Floods {
    /// Whether any is looked for: where one fragment is an event, none is a stray.
    is_on: bool,
    coincidence: u32,
    openers: u32,
    apart_ns: i64,
    /// The source from which most of the last strays are, of those that do not flood.
    suspect: Level,
    flooding: Vec<Level>,
}

/// How many strays of a source there were lately.
#[derive(Clone, Copy, Debug)]
struct Level {
    index: usize,
    strays: u32,
    last_ns: i64,
}

impl Floods {
    /// At a run's start, of so many [openers](TimeConfig::opener_count).
    pub fn new(time: &TimeConfig, openers: u32, timeout_ns: u64) -> Self {
        Self {
            is_on: time.coincidence > 1 && time.flooding == Flooding::Exclude,
            coincidence: time.coincidence,
            openers,
            apart_ns: (timeout_ns / STRAYS_PER_TIMEOUT).max(1).cast_signed(),
            suspect: Level::NONE,
            flooding: Vec::new(),
        }
    }

    /// Of how many openers that do not flood an event has fragments at least.
    #[inline]
    pub fn coincidence(&self) -> u32 {
        self.coincidence.min(self.openers.saturating_sub(self.flooding.len() as u32))
    }

    /// Has those that flood open none of what waits here.
    pub(super) fn apply(&self, queues: &mut Queues) {
        self.flooding.iter().for_each(|level| queues.set_opens(level.index, false));
    }

    /// An opener's fragment is in no event, or that of a source that floods.
    #[cold]
    pub(super) fn note_stray(&mut self, index: usize, ns: i64, queues: &mut Queues) {
        let may_open = queues.opens[index] || self.has(index);
        if may_open && self.add(index, ns) {
            queues.set_opens(index, false);
        }
    }

    /// There is an event.
    #[inline]
    pub(super) fn drain(&mut self, queues: &mut Queues) {
        self.suspect.drain();
        if !self.flooding.is_empty() {
            self.end(|index| queues.set_opens(index, true));
        }
    }

    /// Takes note of what came next, where it was grouped by another one.
    pub fn follow(&mut self, time: &TimeConfig, group: &Group) {
        let &Group { anchor_ns, ref sources, is_event } = group;
        match sources[..] {
            [index] if !is_event => {
                if time.opens(index) {
                    self.add(index, anchor_ns.cast_signed());
                }
            }
            _ => {
                self.suspect.drain();
                self.end(|_| ());
            }
        }
    }

    #[cold]
    fn end(&mut self, mut opens: impl FnMut(usize)) {
        self.flooding.retain_mut(|level| {
            level.drain();
            if level.strays == 0 {
                opens(level.index);
            }
            level.strays > 0
        });
    }

    /// Whether a source floods.
    pub fn has(&self, index: usize) -> bool {
        self.flooding.iter().any(|level| level.index == index)
    }

    /// Counts a stray; returns whether its source floods from now on.
    fn add(&mut self, index: usize, ns: i64) -> bool {
        if !self.is_on {
            return false;
        }
        if let Some(level) = self.flooding.iter_mut().find(|level| level.index == index) {
            level.add(ns, self.apart_ns);
            return false;
        }
        if self.suspect.index != index {
            self.suspect.drain();
            if self.suspect.strays > 0 {
                return false;
            }
            self.suspect = Level { index, ..Level::NONE };
        }
        self.suspect.add(ns, self.apart_ns);
        let is_most = 2 * (self.flooding.len() as u32 + 1) <= self.openers;
        let begins = self.suspect.strays == STRAYS_MAX && is_most;
        if begins {
            self.flooding.push(std::mem::replace(&mut self.suspect, Level::NONE));
        }
        begins
    }
}

impl Level {
    const NONE: Self = Self { index: usize::MAX, strays: 0, last_ns: i64::MIN };

    fn add(&mut self, ns: i64, apart_ns: i64) {
        let passed = ns.saturating_sub(std::mem::replace(&mut self.last_ns, ns)) / apart_ns;
        let passed = u32::try_from(passed.max(0)).unwrap_or(u32::MAX);
        self.strays = (self.strays.saturating_sub(passed) + 1).min(STRAYS_MAX);
    }

    fn drain(&mut self) {
        self.strays = self.strays.saturating_sub(STRAYS_PER_EVENT);
    }
}

/// Strays with which a source floods.
const STRAYS_MAX: u32 = 256;
/// As many are no flood, for each event.
const STRAYS_PER_EVENT: u32 = 16;
/// As many are no flood, in a time-out.
const STRAYS_PER_TIMEOUT: u64 = 2_048;
