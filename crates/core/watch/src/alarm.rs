//! An alarm as others see it, and what can happen to it.

use catchment_model::named;
use serde::Serialize;

use crate::rule::Severity;

/// The most names in an alarm's list; all are counted.
pub const SOURCES_LISTED_MAX: usize = 1_000;

/// An alarm: of one rule, and of one group of the sources that it looks at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// Its number: no other has had it, also before rules were changed.
    pub id: u64,
    /// The rule's name.
    pub name: String,
    /// How urgent it is.
    pub severity: Severity,
    /// Where it stands.
    pub state: AlarmState,
    /// What is wrong, in plain words.
    pub text: String,
    /// The worst value (of a rate: per second; of a silence: seconds) now, or when it was wrong
    /// last: as the text says it. None: it could not be read.
    pub value: Option<f64>,
    /// Where it becomes wrong.
    pub threshold: f64,
    /// The source, queue or the like that it is about, if it is about one.
    pub source: Option<String>,
    /// The group of sources that it is about, if they have one.
    pub group: Option<String>,
    /// The sources, queues or the like that it is about, by name: [`SOURCES_LISTED_MAX`] at most.
    /// When it has ended: those of the moment at which it was about the most.
    pub sources: Vec<String>,
    /// How many it is about.
    pub source_count: u64,
    /// When it was raised, the last time.
    pub since_ns: u64,
    /// How often it was raised.
    pub raised_count: u64,
    /// Who acknowledged it.
    pub acknowledged_by: Option<String>,
    /// What they said.
    pub comment: Option<String>,
    /// When it was cleared; of a latched one, when all was well again.
    pub ended_ns: Option<u64>,
}

named! {
    /// Where an alarm stands.
    #[derive(PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    AlarmState {
        /// It is wrong, and not acknowledged.
        Active = "active",
        /// All is well again, but the alarm was never acknowledged.
        Latched = "latched",
        /// It is wrong, and acknowledged.
        Acknowledged = "acknowledged",
        /// All is well again.
        Cleared = "cleared",
    }
}

/// What happened to an alarm.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What.
    pub kind: ChangeKind,
    /// The alarm after it.
    pub alarm: Alarm,
    /// What is to be done, by name. Empty where no one is to be notified.
    pub actions: Vec<String>,
}

/// What can happen to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is wrong: active, or acknowledged if that still holds.
    Raised,
    /// More sources are wrong than anybody was told of, or it has become critical.
    Worsened,
    /// It is well again, but latched.
    Latched,
    /// It is well again.
    Cleared,
    /// It was acknowledged.
    Acknowledged,
}

/// Why an alarm was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    /// There is no such alarm, or no longer.
    #[error("there is no alarm {id}")]
    Unknown {
        /// The number.
        id: u64,
    },
    /// It was acknowledged before.
    #[error("alarm {id} was acknowledged before")]
    Already {
        /// The number.
        id: u64,
    },
    /// It is gone by itself.
    #[error("alarm {id} was cleared before")]
    Cleared {
        /// The number.
        id: u64,
    },
}

impl Alarm {
    /// Whether something is wrong at this moment.
    pub fn is_wrong(&self) -> bool {
        matches!(self.state, AlarmState::Active | AlarmState::Acknowledged)
    }
}
