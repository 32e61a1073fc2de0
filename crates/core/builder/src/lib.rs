//! Event building: pure decisions on descriptors, in virtual time.
//!
//! Fragments of many sources come in as descriptors ([`Fragment`]: source, number, where its bytes
//! are, how many). A [`Matcher`] says which of them are one event: [`NumberMatcher`] those that
//! carry the same event number, [`TimeMatcher`] those whose times agree. What it releases becomes
//! rows of a [`Cut`], which is what one frame will hold: one column of lengths and byte ranges per
//! source. Payload is never touched, the clock is an argument, and nothing here starts a thread or
//! opens a file.
//!
//! ```text
//! fragments -> Matcher -> Matched: rows, fragments by source -> Cutter -> Cut
//! ```
//!
//! ```
//! use catchment_builder::{Builder, BuilderConfig, Fragment, NumberConfig, SourceRole};
//!
//! let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
//! let mut builder = Builder::new(&config, &NumberConfig::default()).unwrap();
//! for source in 0..2 {
//!     let numbers = 0..10;
//!     let fragments: Vec<Fragment> =
//!         numbers.map(|n| Fragment::new(source, n, u64::from(n) * 100, 100)).collect();
//!     builder.push(1_000, &fragments);
//! }
//! builder.poll(1_000);
//! builder.finish(1_000);
//! let cut = builder.cut(1_000, None).unwrap();
//! assert_eq!(cut.keys, (0..10).collect::<Vec<u64>>());
//! assert_eq!(cut.columns[1].spans.len(), 1); // 1,000 bytes in one piece
//! ```

mod astray;
mod builder;
mod closing;
mod config;
mod cutter;
mod edges;
mod excused;
mod expected;
mod fragment;
mod matched;
mod matcher;
mod number;
mod owned;
mod status;
mod tags;
mod tally;
mod time;
mod undecided;
mod wanted;

pub use astray::Astray;
pub use builder::Builder;
pub use config::{
    BuilderConfig, ConfigError, Continues, EDGE_NS_DEFAULT, IncompletePolicy, SourceRole,
    TIMEOUT_NS_MIN,
};
pub use cutter::{ColumnCut, Cut, Span};
pub use fragment::{Discard, Fragment, FragmentFlags, NoteKind, SourceNote};
pub use matched::{Matched, Row};
pub use matcher::{KeyBlocks, Matcher, Needs};
pub use number::{NUMBER_BITS_MAX, NumberConfig, NumberMatcher, WINDOW_EVENTS_MIN};
pub use owned::{KeyRule, OwnedKeys};
pub use status::{BuilderStatus, Jump, Restart, SourceStatus, TooLarge};
pub use time::{
    Beyond, BeyondBin, ClockConfig, Drifts, Flooding, Floods, Group, Late, OFFSET_NS_MAX, Offsets,
    Suggested, TimeConfig, TimeMatcher, Unmatched, WindowKind, regroup,
};
