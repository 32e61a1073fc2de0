//! By what fragments are matched: settings of the rules, their checks, and the rule of a run.

use catchment_builder::{
    Builder, BuilderConfig, BuilderStatus, ClockConfig, ConfigError as Refused, Flooding, Fragment,
    Late, Matched, Matcher, Needs, NumberConfig, NumberMatcher, OFFSET_NS_MAX, Offsets, SourceNote,
    SourceRole, TimeConfig, TimeMatcher, Unmatched, WindowKind,
};
use catchment_frame::Pattern;
use catchment_model::units::{Offset, Time};
use serde::{Deserialize, Deserializer};

use crate::builder_config::{builder_config, number_config};
use crate::check::require;
use crate::config::{ConfigError, RecorderConfig, SourceConfig};

/// What fragments of an event have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchRule {
    /// Their event number.
    #[default]
    Number,
    /// Their time.
    Time,
}

/// How events are built by time. Times that are not given follow from the window and the time-out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeRule {
    /// How far fragments of an event are apart.
    #[serde(rename = "window", deserialize_with = "some_time")]
    pub window_ns: Option<u64>,
    /// From where that counts.
    pub kind: WindowKind,
    /// The longest span of an event of kind gap.
    #[serde(rename = "span_max", deserialize_with = "some_time")]
    pub span_ns_max: Option<u64>,
    /// The sources that may open an event; empty: all required ones.
    pub openers: Vec<Pattern>,
    /// How long before its anchor the other sources belong to an event.
    #[serde(rename = "before", deserialize_with = "some_time")]
    pub before_ns: Option<u64>,
    /// Of how many openers an event has fragments at least.
    pub coincidence: Option<u32>,
    /// What becomes of the openings of sources that flood.
    pub flooding: Flooding,
    /// How many fragments of a source an event may have, its pieces; none: one.
    pub fragments_max: Option<u32>,
    /// What becomes of fragments in no event.
    pub unmatched: Unmatched,
    /// What becomes of fragments whose event is closed.
    pub late: Late,
    /// How far a clock may be from those of the others.
    #[serde(rename = "skew", deserialize_with = "some_time")]
    pub skew_ns: Option<u64>,
    /// The longest step that is believed at once.
    #[serde(rename = "jump", deserialize_with = "some_time")]
    pub jump_ns: Option<u64>,
    /// Offsets of sources' clocks, instead of those of the sources: the last that names one holds.
    pub offsets: Vec<TimeOffset>,
}

/// What is added to the times of sources.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeOffset {
    /// A pattern of their names.
    pub sources: Pattern,
    /// As a source's `time_offset`.
    #[serde(rename = "offset", deserialize_with = "Offset::read")]
    pub offset_ns: i64,
}

/// What is known of a source's clock beside what its protocol says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceClock {
    /// Added to its times.
    pub offset_ns: i64,
    /// How far its fragments may be out of order.
    pub reorder_ns: u64,
    /// Of a sparse source: how long behind the others it is waited for; none: a quarter of the
    /// time-out.
    pub lag_ns: Option<u64>,
}

/// The builder of a pipeline.
pub(crate) type RuledBuilder = Builder<Rule>;

/// The settings that a rule has of its own.
#[derive(Clone, Debug)]
pub(crate) enum RuleConfig {
    Number(NumberConfig),
    Time(TimeConfig),
}

impl RuleConfig {
    /// Those of a run's events.
    pub(crate) fn of(config: &RecorderConfig) -> Self {
        match config.time_config() {
            Some(time) => Self::Time(time),
            None => Self::Number(number_config(config)),
        }
    }
}

/// The rule of a run.
#[derive(Debug)]
pub(crate) enum Rule {
    Number(Box<NumberMatcher>),
    Time(Box<TimeMatcher>),
}

impl Rule {
    /// A builder with the rule of these settings.
    pub(crate) fn builder(
        config: &BuilderConfig,
        rule: &RuleConfig,
    ) -> Result<RuledBuilder, Refused> {
        let rule = match rule {
            RuleConfig::Number(number) => {
                Self::Number(Box::new(NumberMatcher::new(config, number)?))
            }
            RuleConfig::Time(time) => Self::Time(Box::new(TimeMatcher::new(config, time)?)),
        };
        Builder::with_matcher(config, rule)
    }

    fn matcher(&self) -> &dyn Matcher {
        match self {
            Self::Number(matcher) => &**matcher,
            Self::Time(matcher) => &**matcher,
        }
    }

    fn matcher_mut(&mut self) -> &mut dyn Matcher {
        match self {
            Self::Number(matcher) => &mut **matcher,
            Self::Time(matcher) => &mut **matcher,
        }
    }
}

impl Matcher for Rule {
    fn needs(&self) -> Needs {
        self.matcher().needs()
    }

    fn advance(&mut self, now_ns: u64) {
        self.matcher_mut().advance(now_ns);
    }

    fn resume(&mut self, now_ns: u64) {
        self.matcher_mut().resume(now_ns);
    }

    fn push(&mut self, fragments: &[Fragment], matched: &mut Matched) {
        // Without a table of functions: this one is called for each run of fragments.
        match self {
            Self::Number(matcher) => matcher.push(fragments, matched),
            Self::Time(matcher) => matcher.push(fragments, matched),
        }
    }

    fn note(&mut self, source: usize, note: SourceNote, matched: &mut Matched) {
        self.matcher_mut().note(source, note, matched);
    }

    fn hold(&mut self, source: usize, matched: &Matched) {
        self.matcher_mut().hold(source, matched);
    }

    fn hold_unread(&mut self, source: usize, matched: &Matched) {
        self.matcher_mut().hold_unread(source, matched);
    }

    fn awaited(&mut self, each: &mut dyn FnMut(usize)) {
        self.matcher_mut().awaited(each);
    }

    fn poll(&mut self, matched: &mut Matched) {
        self.matcher_mut().poll(matched);
    }

    fn finish(&mut self, matched: &mut Matched) {
        self.matcher_mut().finish(matched);
    }

    fn set_recording(&mut self, wanted: bool) {
        self.matcher_mut().set_recording(wanted);
    }

    fn is_drained(&mut self) -> bool {
        self.matcher_mut().is_drained()
    }

    fn has_passed(&self, source: usize, key: u64) -> bool {
        self.matcher().has_passed(source, key)
    }

    fn not_sent(&self, source: usize, key: u64) -> bool {
        self.matcher().not_sent(source, key)
    }

    fn parked(&self, source: usize) -> usize {
        self.matcher().parked(source)
    }

    fn first_parked(&self, source: usize) -> Option<u64> {
        self.matcher().first_parked(source)
    }

    fn offsets(&self) -> &[Offsets] {
        self.matcher().offsets()
    }

    fn status(&self, matched: &Matched) -> BuilderStatus {
        self.matcher().status(matched)
    }
}

impl RecorderConfig {
    /// Whether events are built by time.
    pub fn is_by_time(&self) -> bool {
        self.build.rule == MatchRule::Time
    }

    /// Whether fragments may be rows of their own, in which no other source is expected.
    pub(crate) fn has_rows_of_one(&self) -> bool {
        let TimeRule { unmatched, late, .. } = &self.build.time;
        self.is_by_time() && (*unmatched == Unmatched::Keep || *late == Late::Keep)
    }

    /// The settings of the builder by time, if that is the rule. Sources without a clock have been
    /// refused.
    pub fn time_config(&self) -> Option<TimeConfig> {
        let rule = self.is_by_time().then_some(&self.build.time)?;
        let clock = |source: &SourceConfig| {
            let counts = match source.is_link() {
                true => ClockConfig::NS,
                false => ClockConfig {
                    rate_hz: source.protocol.clock_hz().unwrap_or(0),
                    bits: source.protocol.number_bits(),
                    ..ClockConfig::NS
                },
            };
            ClockConfig {
                offset_ns: source.clock.offset_ns,
                reorder_ns: source.clock.reorder_ns,
                lag_ns: source.clock.lag_ns.unwrap_or(self.build.timeout_ns / 4),
                ..counts
            }
        };
        let clocks = self.sources.iter().map(clock).collect();
        let window_ns = rule.window_ns.unwrap_or(0);
        let new = TimeConfig::new(window_ns, clocks, self.build.timeout_ns);
        let opens = |source: &SourceConfig| match &*rule.openers {
            [] => source.role == SourceRole::Required,
            patterns => patterns.iter().any(|pattern| pattern.fits(&source.name)),
        };
        let openers: Vec<bool> = self.sources.iter().map(opens).collect();
        let mut opening =
            (0..openers.len()).filter(|&one| openers[one] && self.sources[one].role.is_enabled());
        // A front-end says at its hello whether it names some.
        let may_name = |one: usize| self.sources[one].is_link() || self.names(one);
        let reference = opening.next().filter(|&one| opening.next().is_none() && may_name(one));
        let enabled = openers.iter().zip(&self.sources).filter(|(_, one)| one.role.is_enabled());
        let all_open = enabled.clone().all(|(opens, _)| *opens);
        Some(TimeConfig {
            kind: rule.kind,
            span_ns_max: rule.span_ns_max.unwrap_or(new.span_ns_max),
            before_ns: rule.before_ns.unwrap_or(if all_open { 0 } else { window_ns }),
            coincidence: rule.coincidence.unwrap_or(1),
            flooding: rule.flooding,
            fragments_max: rule.fragments_max.unwrap_or(1),
            unmatched: rule.unmatched,
            late: rule.late,
            skew_ns: rule.skew_ns.unwrap_or(new.skew_ns),
            jump_ns: rule.jump_ns.unwrap_or(new.jump_ns),
            rows_max: self.sizes.rows_max,
            openers,
            reference,
            ..new
        })
    }

    /// The source of a port whose fragments name the groups of their events, if any source is in
    /// some: the one that opens the events, or by number the first one that has what names them.
    pub(crate) fn reference(&self) -> Option<usize> {
        match self.time_config() {
            Some(time) => time.reference,
            None => (0..self.sources.len()).find(|&one| self.names(one)),
        }
    }

    /// Whether an event may have several fragments of a source.
    pub(crate) fn has_pieces(&self) -> bool {
        self.is_by_time() && self.build.time.fragments_max.is_some_and(|most| most > 1)
    }

    fn names(&self, index: usize) -> bool {
        let SourceConfig { role, ref protocol, .. } = self.sources[index];
        let has_groups = self.sources.iter().any(|source| source.expected_in > 0);
        has_groups && role.is_enabled() && protocol.names_groups()
    }

    /// Checks that all sources can be matched by the rule, and its settings. What opens events may
    /// be admitted later.
    pub(crate) fn check_rule(&self) -> Result<(), ConfigError> {
        self.check_rule_of(self.may_open_later())
    }

    /// The same for a run that begins: with `is_open`, sources that open its events may come.
    pub(crate) fn check_rule_of(&self, is_open: bool) -> Result<(), ConfigError> {
        self.check_offsets()?;
        for (index, source) in self.sources.iter().enumerate() {
            self.check_matched((index, source), is_open)?;
        }
        let Some(time) = self.time_config() else {
            let rule = &self.build.time;
            let given = rule.window_ns.is_some() || rule.fragments_max.is_some();
            return require(!given, "build.time", "build.match = \"time\" beside it", "number");
        };
        let is_given = self.build.time.window_ns.is_some();
        require(is_given, "build.time.window", "1 ns to 1 s", "none")?;
        let useless = self.build.time.openers.iter().find(|pattern| !self.may_name(pattern));
        let got = useless.map_or(String::new(), |pattern| format!("{:?}", pattern.as_str()));
        let expected = self.names_of_sources();
        require(useless.is_none(), "build.time.openers", expected, got)?;
        let all = self.own.are_all();
        require(all, "run.own", "all events: nodes that share a run build by number", "some")?;
        let enabled = self.sources.iter().enumerate().filter(|(_, one)| one.role.is_enabled());
        let opening = enabled.filter(|(index, _)| time.openers[*index]).count();
        let time = match is_open && opening < time.coincidence as usize {
            // Its other settings are checked as if all opened events.
            true => TimeConfig { openers: Vec::new(), coincidence: 1, reference: None, ..time },
            false => time,
        };
        self.check_clocks(&time.clocks)?;
        match time.check(&builder_config(self)) {
            Err(Refused::Time { key, expected, got }) => {
                Err(ConfigError { key: key_by_time(key), expected, got })
            }
            _ => Ok(()),
        }
    }

    /// Checks what each source's clock is set to, with the source's name.
    fn check_clocks(&self, clocks: &[ClockConfig]) -> Result<(), ConfigError> {
        let timeout_ns = self.build.timeout_ns;
        let enabled = self.sources.iter().zip(clocks).enumerate();
        for (index, (source, clock)) in enabled.filter(|(_, (one, _))| one.role.is_enabled()) {
            let &ClockConfig { offset_ns, reorder_ns, lag_ns, .. } = clock;
            let path = |key: &str| format!("sources[{index}].{key}");
            let named = |ns: u64| format!("{} of {:?}", Time(ns), source.name);
            let (size_ns, sign) = (offset_ns.unsigned_abs(), if offset_ns < 0 { "-" } else { "" });
            let got = format!("{sign}{}", named(size_ns));
            require(size_ns <= OFFSET_NS_MAX, &path("time_offset"), "at most a day", got)?;
            let most_ns = timeout_ns / 4;
            let expected = format_args!("at most a quarter of build.timeout, {}", Time(most_ns));
            require(reorder_ns <= most_ns, &path("reorder"), expected, named(reorder_ns))?;
            let fits = source.role != SourceRole::Sparse || lag_ns <= timeout_ns;
            let expected = format_args!("at most build.timeout, {}", Time(timeout_ns));
            require(fits, &path("lag"), expected, named(lag_ns))?;
            let cycle_ns = clock.cycle_ns();
            let least_ns = timeout_ns.saturating_mul(4);
            let declared = source.protocol.declared().iter();
            let layouts: Vec<_> = declared.map(|one| format!("{:?}", one.layout().name)).collect();
            let expected = format_args!(
                "times that wrap after four times build.timeout, {}, or later",
                Time(least_ns)
            );
            let got = format!("{} in {}", named(cycle_ns), layouts.join(" and "));
            require(cycle_ns >= least_ns, &path("layout"), expected, got)?;
        }
        Ok(())
    }

    /// The names that patterns may fit, the first of many.
    fn names_of_sources(&self) -> String {
        let names: Vec<&str> =
            self.sources.iter().take(NAMED_MAX).map(|source| &*source.name).collect();
        let more = match self.sources.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("names of sources: {}{more}", names.join(", "))
    }

    /// Whether a pattern fits the name of a source, or may fit that of one that will be admitted.
    fn may_name(&self, pattern: &Pattern) -> bool {
        self.sources.iter().any(|source| pattern.fits(&source.name))
            || self.accept.iter().any(|entry| entry.may_admit(pattern))
    }

    /// Whether sources that open events may be admitted.
    fn may_open_later(&self) -> bool {
        self.accept.iter().any(|entry| match &*self.build.time.openers {
            [] => entry.source.role == SourceRole::Required,
            patterns => patterns.iter().any(|pattern| entry.may_admit(pattern)),
        })
    }

    /// Checks the offsets of sources by their names, before those of the sources, which they
    /// replace.
    fn check_offsets(&self) -> Result<(), ConfigError> {
        let offsets = self.build.time.offsets.iter().enumerate();
        for (index, TimeOffset { sources, offset_ns }) in offsets {
            let path = |key: &str| format!("build.time.offsets[{index}].{key}");
            let expected = "build.match = \"time\" beside it";
            require(self.is_by_time(), &path("offset"), expected, "number")?;
            let size_ns = offset_ns.unsigned_abs();
            let sign = if *offset_ns < 0 { "-" } else { "" };
            let got = format_args!("{sign}{}", Time(size_ns));
            require(size_ns <= OFFSET_NS_MAX, &path("offset"), "at most a day", got)?;
            let got = format_args!("{:?}", sources.as_str());
            require(self.may_name(sources), &path("sources"), self.names_of_sources(), got)?;
        }
        Ok(())
    }

    /// Checks that a source has what the run's rule matches by.
    fn check_matched(
        &self,
        (index, source): (usize, &SourceConfig),
        is_open: bool,
    ) -> Result<(), ConfigError> {
        let SourceConfig { name, protocol, clock, .. } = source;
        let path = |key: &str| format!("sources[{index}].{key}");
        let other = |has_clock: bool| {
            let other =
                self.sources.iter().find(|one| one.protocol.clock_hz().is_some() == has_clock);
            other.map_or(String::new(), |one| format!(", as {:?} has", one.name))
        };
        if self.is_by_time() {
            let is_ordered = !source.is_link() || clock.reorder_ns == 0;
            let expected = "none: times of a front-end rise";
            require(
                is_ordered,
                &path("reorder"),
                expected,
                format_args!("{}", Time(clock.reorder_ns)),
            )?;
            let reference = self.reference();
            let expected =
                "build.time.openers with one source alone, a front-end or one with groups";
            let is_named = source.expected_in == 0 || reference.is_some() || is_open;
            require(is_named, &path("expected_in"), expected, "another")?;
            let expected = "none: this source opens the events";
            let is_own = source.expected_in > 0 && reference == Some(index);
            require(!is_own, &path("expected_in"), expected, "some")?;
            let skip = source.payload.as_ref().map_or(0, |payload| payload.skip);
            let expected = "0: an event with several fragments of a source has several beginnings";
            let is_whole = skip == 0 || !self.has_pieces();
            require(is_whole, &path("payload.skip"), expected, skip)?;
            let expected =
                format_args!("a layout with a time{}: build.match is \"time\"", other(true));
            let got = format_args!("{:?} of {name:?}", protocol.name());
            let has_time = source.is_link() || protocol.clock_hz().is_some();
            return require(has_time, &path("protocol"), expected, got);
        }
        let expected = format_args!(
            "a layout with a key{}, or build.match = \"time\" for times alone",
            other(false)
        );
        let got = format_args!("times of {name:?}");
        require(protocol.clock_hz().is_none(), &path("layout"), expected, got)?;
        let expected = "build.match = \"time\" beside it";
        let SourceClock { offset_ns, reorder_ns, lag_ns } = *clock;
        require(offset_ns == 0, &path("time_offset"), expected, "number")?;
        require(reorder_ns == 0, &path("reorder"), expected, "number")?;
        require(lag_ns.is_none(), &path("lag"), expected, "number")
    }
}

/// Where a setting of the matcher's stands in a configuration.
fn key_by_time(key: &str) -> String {
    match key {
        "role" | "rate" | "bits" => format!("sources.{key}"),
        key => format!("build.time.{key}"),
    }
}

/// Sources that a message names.
const NAMED_MAX: usize = 8;

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Time::read(deserializer).map(Some)
}
