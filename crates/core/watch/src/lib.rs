//! Watching what runs: what a shifter must know at three in the morning.
//!
//! - [`Rates`]: counters to rates over a sliding window; [`LossWatch`]: which source lost what, or
//!   sent bad data, lately.
//! - [`RunWatch`]: all of that for one run, and the verdict on it, from its counters.
//! - [`verdict`]: good data, bad data, data with loss, or nothing recorded, with the reason, from
//!   the flow of data.
//! - [`bottleneck`]: which stage limits.
//! - [`Alarms`]: [`Rule`]s on quantities, with hysteresis, delays, latching and acknowledgement,
//!   one alarm for a rule and a group of sources; [`default_rules`] are there without any
//!   configuration.
//!
//! Bounds: [`ALARMS_MAX`] alarms, [`RULES_MAX`] rules, [`FOLLOWED_MAX`] pairs of a rule and a thing
//! that it is followed for; what is beyond is counted. Memory of each grows with the number of
//! counters and things, not with time.
//!
//! Pure: no I/O, no thread, no clock. Times are nanoseconds of any one clock.

mod alarm;
mod alarms;
mod default_rules;
mod forecast;
mod loss;
mod quantity;
mod rates;
mod rule;
mod run_watch;
mod share;
mod standing;
mod tracker;
mod verdict;
mod words;

pub use alarm::{AcknowledgeError, Alarm, AlarmState, Change, ChangeKind, SOURCES_LISTED_MAX};
pub use alarms::{ALARMS_MAX, Alarms, CLEARED_SHOWN_NS, COMMENT_BYTES_MAX, FOLLOWED_MAX};
pub use default_rules::{default_rules, store_rules};
pub use forecast::Forecast;
pub use loss::{LossGrowth, LossWatch, is_bad, is_loss, words_of_entry};
pub use quantity::{QUANTITY_BYTES_MAX, Quantity, QuantityError, ReadingTable};
pub use rates::{Rates, Stage, bottleneck};
pub use rule::{
    ACTIONS_MAX, Condition, NAME_BYTES_MAX, RULES_MAX, Rule, RuleError, RuleProblem, Severity,
    TEXT_BYTES_MAX, TIME_NS_MAX,
};
pub use run_watch::{NodeCounter, RATES_NS, RunCounts, RunSeen, RunWatch, SourceCounter};
pub use share::{expected, lost};
pub use standing::{GATHER_NS, RETELL_NS};
pub use tracker::GONE_NS;
pub use verdict::{
    Flow, HEAVY_LOSS_SHARE, Level, Limits, Loss, Run, SourceFlow, Untaken, Verdict, verdict,
    words_of_time,
};
