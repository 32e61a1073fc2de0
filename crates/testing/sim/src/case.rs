//! A replayable run, as options and seeds.txt name it.

use catchment_fixtures::Random;

use crate::fault::Faults;
use crate::plan::Plan;
use crate::stores::{self, StoresPlan};
use crate::time::{self, TimePlan};

/// A replayable run: a seed, and the restrictions on what it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Everything follows from it.
    pub seed: u64,
    /// The kinds of faults that may happen.
    pub faults: Faults,
    /// The maximum number of sources.
    pub sources_max: u32,
    /// The maximum number of events.
    pub events_max: u64,
    /// Whether there are two targets, whatever the seed says.
    pub has_two_targets: bool,
    /// Whether events are built by time.
    pub is_by_time: bool,
    /// Whether a target is a storage node, or several.
    pub is_stored: bool,
    /// Whether trains are sent, too, in a run of their own.
    pub has_trains: bool,
}

impl Case {
    /// The unrestricted case of a seed.
    pub fn of(seed: u64) -> Self {
        let (sources_max, events_max) = (u32::MAX, u64::MAX);
        let faults = Faults::of_seed(seed);
        Self {
            seed,
            faults,
            sources_max,
            events_max,
            has_two_targets: false,
            is_by_time: false,
            is_stored: false,
            has_trains: seed % 8 == 5,
        }
    }

    /// The unrestricted case of a seed whose events are built by time.
    pub fn by_time(seed: u64) -> Self {
        Self { faults: time::faults_of(seed), is_by_time: true, ..Self::of(seed) }
    }

    /// The unrestricted case of a seed whose target is a storage node.
    pub fn stored(seed: u64) -> Self {
        Self { faults: stores::faults_of(seed), is_stored: true, ..Self::of(seed) }
    }

    /// The unrestricted case of the same kind.
    fn whole(&self) -> Self {
        match (self.is_by_time, self.is_stored) {
            (true, _) => Self::by_time(self.seed),
            (_, true) => Self::stored(self.seed),
            _ => Self::of(self.seed),
        }
    }

    /// How many sources and events it has.
    pub fn size(&self) -> (usize, u64) {
        if self.is_by_time {
            let plan = TimePlan::of(*self);
            return (plan.sources.len(), plan.events);
        }
        if self.is_stored {
            return StoresPlan::of(*self).size();
        }
        let plan = Plan::of(*self);
        (plan.sources.len(), plan.events)
    }

    /// Random numbers for one purpose, independent of restrictions elsewhere.
    pub fn chance(&self, purpose: &str) -> Random {
        let name = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ name)
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = self.whole();
        write!(f, "{}", self.seed)?;
        if self.is_by_time {
            write!(f, " --time")?;
        }
        if self.is_stored {
            write!(f, " --stores")?;
        }
        if self.faults != whole.faults {
            write!(f, " --faults {}", self.faults)?;
        }
        if self.sources_max != whole.sources_max {
            write!(f, " --sources {}", self.sources_max)?;
        }
        if self.events_max != whole.events_max {
            write!(f, " --events {}", self.events_max)?;
        }
        if self.has_two_targets {
            write!(f, " --two-targets")?;
        }
        if self.has_trains != whole.has_trains {
            write!(f, " --trains")?;
        }
        Ok(())
    }
}
