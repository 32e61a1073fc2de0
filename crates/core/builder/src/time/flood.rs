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

use super::TimeMatcher;
use super::settings::{Flooding, TimeConfig};
use crate::BuilderConfig;

/// Which sources flood, and which of the others may be about to.
#[derive(Debug)]
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
    pub fn new(time: &TimeConfig, config: &BuilderConfig) -> Self {
        let sources = config.sources.iter().enumerate();
        let openers = sources.filter(|&(index, role)| role.is_enabled() && time.opens(index));
        Self {
            is_on: time.coincidence > 1 && time.flooding == Flooding::Exclude,
            coincidence: time.coincidence,
            openers: openers.count() as u32,
            apart_ns: (config.timeout_ns / STRAYS_PER_TIMEOUT).max(1).cast_signed(),
            suspect: Level::NONE,
            flooding: Vec::new(),
        }
    }

    /// Of how many openers that do not flood an event has fragments at least.
    #[inline]
    pub fn coincidence(&self) -> u32 {
        self.coincidence.min(self.openers - self.flooding.len() as u32)
    }

    /// Whether a source floods.
    pub fn has(&self, index: usize) -> bool {
        self.flooding.iter().any(|level| level.index == index)
    }

    /// Counts a stray; returns whether its source floods from now on.
    fn add(&mut self, index: usize, ns: i64) -> bool {
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

impl TimeMatcher {
    /// An opener's fragment is in no event, or that of a source that floods.
    #[cold]
    pub(super) fn note_stray(&mut self, index: usize, ns: i64) {
        let may_open = self.queues.opens[index] || self.floods.has(index);
        if may_open && self.floods.is_on && self.floods.add(index, ns) {
            self.queues.set_opens(index, false);
        }
    }

    /// There is an event.
    #[inline]
    pub(super) fn drain_strays(&mut self) {
        self.floods.suspect.drain();
        if !self.floods.flooding.is_empty() {
            self.end_floods();
        }
    }

    #[cold]
    fn end_floods(&mut self) {
        let Self { floods, queues, .. } = self;
        floods.flooding.retain_mut(|level| {
            level.drain();
            if level.strays == 0 {
                queues.set_opens(level.index, true);
            }
            level.strays > 0
        });
    }
}

/// Strays with which a source floods.
const STRAYS_MAX: u32 = 256;
/// As many are no flood, for each event.
const STRAYS_PER_EVENT: u32 = 16;
/// As many are no flood, in a time-out.
const STRAYS_PER_TIMEOUT: u64 = 2_048;
