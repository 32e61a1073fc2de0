//! Watching what runs: what a shifter must know at three in the morning.
//!
//! - [`Rates`]: counters to rates over a sliding window; [`LossWatch`]: which source lost what lately.
//! - [`verdict`]: good data, data with loss, or nothing recorded, with the reason, from the flow of data.
//! - [`bottleneck`]: which stage limits.
//! - [`Alarms`]: [`Rule`]s on quantities, with hysteresis, delays, latching and acknowledgement;
//!   [`default_rules`] are there without any configuration.
//!
//! Bounds: [`ALARMS_MAX`] alarms, [`RULES_MAX`] rules, [`FOLLOWED_MAX`] pairs of a rule and a thing that
//! it is followed for; what is beyond is counted. Memory of each grows with the number of counters
//! and things, not with time.
//!
//! Pure: no I/O, no thread, no clock. Times are nanoseconds of any one clock.

mod alarms;
mod loss;
mod quantity;
mod rates;
mod rule;
mod stages;
mod tracker;
mod verdict;

pub use alarms::{
    ALARMS_MAX, AcknowledgeError, Alarm, AlarmState, Alarms, CLEARED_SHOWN_NS, COMMENT_BYTES_MAX,
    Change, ChangeKind, FOLLOWED_MAX,
};
pub use loss::{LossGrowth, LossWatch, is_loss};
pub use quantity::{QUANTITY_BYTES_MAX, Quantity, QuantityError, ReadingTable, Readings};
pub use rates::Rates;
pub use rule::{
    ACTIONS_MAX, Condition, NAME_BYTES_MAX, RULES_MAX, Rule, RuleError, RuleProblem, Severity,
    TEXT_BYTES_MAX, TIME_NS_MAX, default_rules,
};
pub use stages::{Stage, bottleneck};
pub use tracker::GONE_NS;
pub use verdict::{Flow, Level, Limits, Loss, Run, SourceFlow, Verdict, verdict, words_of_time};
