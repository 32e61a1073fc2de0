//! Settings of matching by time, in its own words; the rest stands in [`BuilderConfig`].

use std::fmt::Display;

use catchment_model::units::{Time, counted};

use crate::{BuilderConfig, ConfigError, SourceRole};

/// Which fragments an event takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// Those within the window of its earliest one.
    #[default]
    First,
    /// Those within the window of its last one, up to a longest span.
    Gap,
}

/// What becomes of fragments that are in no event, those of clocks out of step too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unmatched {
    /// Each is a row of its own.
    #[default]
    Keep,
    /// They are discarded and counted.
    Count,
}

/// What becomes of fragments whose event is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// They are discarded and counted.
    #[default]
    Count,
    /// Each is a row of its own.
    Keep,
}

/// What becomes of the openings of a source of which most fragments are in no event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flooding {
    /// It opens no events until that is over.
    #[default]
    Exclude,
    /// It opens events as others do.
    Open,
}

/// How a source's clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockConfig {
    /// Ticks of a second.
    pub rate_hz: u64,
    /// Bits of its ticks, after which they wrap.
    pub bits: u32,
    /// Added to its times.
    pub offset_ns: i64,
    /// How far behind a later one a fragment may come and be waited for.
    pub reorder_ns: u64,
    /// Of a sparse source: how long behind the others its fragments are waited for.
    pub lag_ns: u64,
}

impl ClockConfig {
    /// A clock that counts nanoseconds in 64 bits, in order, with a lag of 250 ms.
    pub const NS: Self =
        Self { rate_hz: 1_000_000_000, bits: 64, offset_ns: 0, reorder_ns: 0, lag_ns: 250_000_000 };

    /// Nanoseconds after which it wraps, or as many as there are.
    pub fn cycle_ns(&self) -> u64 {
        let cycle = (1_u128 << self.bits) * 1_000_000_000 / u128::from(self.rate_hz.max(1));
        u64::try_from(cycle).unwrap_or(u64::MAX)
    }

    fn check(&self, role: SourceRole, timeout_ns: u64) -> Result<(), ConfigError> {
        let &Self { rate_hz, bits, offset_ns, reorder_ns, lag_ns } = self;
        if !(1..=RATE_HZ_MAX).contains(&rate_hz) {
            return wrong("rate", "1 Hz to 1 THz", format_args!("{rate_hz} Hz"));
        }
        if !(16..=64).contains(&bits) {
            return wrong("bits", "16 to 64", bits);
        }
        if offset_ns.unsigned_abs() > OFFSET_NS_MAX {
            return wrong("time_offset", "at most a day", Time(offset_ns.unsigned_abs()));
        }
        if reorder_ns > timeout_ns / 4 {
            return wrong("reorder", "at most a quarter of the time-out", Time(reorder_ns));
        }
        if role == SourceRole::Sparse && lag_ns > timeout_ns {
            return wrong("lag", "at most the time-out", Time(lag_ns));
        }
        if self.cycle_ns() / CYCLE_TIMEOUTS < timeout_ns {
            let expected = "a time that wraps after four time-outs or more";
            return wrong("time", expected, Time(self.cycle_ns()));
        }
        Ok(())
    }
}

/// Settings of a [`TimeMatcher`](crate::TimeMatcher).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeConfig {
    /// By source. Those of disabled sources are not used.
    pub clocks: Vec<ClockConfig>,
    /// The window.
    pub window_ns: u64,
    /// Where it begins and ends.
    pub kind: WindowKind,
    /// The longest span of an event of kind `Gap`, from its anchor on.
    pub span_ns_max: u64,
    /// How long before its anchor sources belong to an event that open none.
    pub before_ns: u64,
    /// Which sources may open an event, by number; empty: all.
    pub openers: Vec<bool>,
    /// Of how many openers an event has fragments at least.
    pub coincidence: u32,
    /// What becomes of the openings of sources that flood, where `coincidence` is 2 or more.
    pub flooding: Flooding,
    /// How many fragments of a source an event has at most: its pieces.
    pub fragments_max: u32,
    /// The source whose fragments name the groups of their events: the only one that opens any.
    pub reference: Option<usize>,
    /// What becomes of fragments that are in no event.
    pub unmatched: Unmatched,
    /// What becomes of fragments whose event is closed.
    pub late: Late,
    /// How far a clock may be from those of the others.
    pub skew_ns: u64,
    /// The longest step beyond the time that passed that is believed at once.
    pub jump_ns: u64,
    /// Rows of a frame at most. No event closes while as many wait to be cut.
    pub rows_max: u64,
}

impl TimeConfig {
    /// The defaults for a window and these clocks, beside a time-out.
    pub fn new(window_ns: u64, clocks: Vec<ClockConfig>, timeout_ns: u64) -> Self {
        Self {
            clocks,
            window_ns,
            kind: WindowKind::First,
            span_ns_max: window_ns.saturating_mul(SPAN_WINDOWS),
            before_ns: 0,
            openers: Vec::new(),
            coincidence: 1,
            flooding: Flooding::Exclude,
            fragments_max: 1,
            reference: None,
            unmatched: Unmatched::Keep,
            late: Late::Count,
            skew_ns: timeout_ns / 2,
            jump_ns: timeout_ns,
            rows_max: ROWS_MAX_DEFAULT,
        }
    }

    /// Whether a source may open an event.
    pub fn opens(&self, source: usize) -> bool {
        self.openers.get(source).is_none_or(|&opens| opens)
    }

    /// How many sources of these may open an event.
    pub fn opener_count(&self, roles: &[SourceRole]) -> u32 {
        let roles = roles.iter().enumerate();
        roles.filter(|&(index, role)| role.is_enabled() && self.opens(index)).count() as u32
    }

    /// Checks every setting beside those that other rules have, too.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn check(&self, config: &BuilderConfig) -> Result<(), ConfigError> {
        let timeout_ns = config.timeout_ns;
        if !(1..=WINDOW_NS_MAX).contains(&self.window_ns) {
            return wrong("window", "1 ns to 1 s", Time(self.window_ns));
        }
        if !(self.window_ns..=SPAN_NS_MAX).contains(&self.span_ns_max) {
            return wrong("span_max", "a window to 16 s", Time(self.span_ns_max));
        }
        if self.before_ns > WINDOW_NS_MAX {
            return wrong("before", "at most 1 s", Time(self.before_ns));
        }
        let enabled = |&index: &usize| config.sources[index].is_enabled();
        let openers = self.opener_count(&config.sources);
        let is_sparse = |&index: &usize| Self::is_sparse(config, index);
        if (0..config.sources.len()).filter(enabled).all(|index| is_sparse(&index)) {
            return wrong("role", "a source that is neither sparse nor disabled", "none");
        }
        if openers == 0 {
            return wrong("openers", "at least one source that is not disabled", "none");
        }
        if self.reference.is_some_and(|one| openers > 1 || !self.opens(one) || !enabled(&one)) {
            let got = counted(openers.into(), "source");
            return wrong("openers", "the source alone that names groups", got);
        }
        if !(1..=openers).contains(&self.coincidence) {
            let expected = format!("1 to {openers}, as many sources as may open an event");
            return wrong("coincidence", expected, self.coincidence);
        }
        if !(1..=FRAGMENTS_MAX).contains(&self.fragments_max) {
            return wrong("fragments_max", "1 to 65535", self.fragments_max);
        }
        if !(1..=LONG_NS_MAX).contains(&self.skew_ns) {
            return wrong("skew", "1 ns to 1 h", Time(self.skew_ns));
        }
        if !(1..=LONG_NS_MAX).contains(&self.jump_ns) {
            return wrong("jump", "1 ns to 1 h", Time(self.jump_ns));
        }
        if !(1..=ROWS_MAX).contains(&self.rows_max) {
            return wrong("rows_max", "1 to 16777216", self.rows_max);
        }
        if self.clocks.len() != config.sources.len() {
            return wrong("clocks", "one of each source", self.clocks.len());
        }
        let clocks = self.clocks.iter().zip(&config.sources);
        let mut clocks = clocks.filter(|(_, role)| role.is_enabled());
        clocks.try_for_each(|(clock, role)| clock.check(*role, timeout_ns))
    }

    /// Whether a source is awaited though it is silent.
    pub(crate) fn is_sparse(config: &BuilderConfig, source: usize) -> bool {
        config.sources[source] == SourceRole::Sparse
    }
}

/// A setting that cannot be, and its value with its unit.
fn wrong(key: &'static str, expected: impl Display, got: impl Display) -> Result<(), ConfigError> {
    Err(ConfigError::Time { key, expected: expected.to_string(), got: got.to_string() })
}

const SPAN_WINDOWS: u64 = 16;
const WINDOW_NS_MAX: u64 = 1_000_000_000;
const SPAN_NS_MAX: u64 = SPAN_WINDOWS * WINDOW_NS_MAX;
const FRAGMENTS_MAX: u32 = 65_535;
const LONG_NS_MAX: u64 = 3_600_000_000_000;
/// How far the offset of a clock may be from none: a day.
pub const OFFSET_NS_MAX: u64 = 24 * LONG_NS_MAX;
const ROWS_MAX_DEFAULT: u64 = 262_144;
const ROWS_MAX: u64 = 1 << 24;
const RATE_HZ_MAX: u64 = 1_000_000_000_000;
/// A clock's cycle in time-outs, at least: a claim is decided within two of them.
const CYCLE_TIMEOUTS: u64 = 4;
