//! Trends of channels and of the recorder's counters, compared with the samples in the files.
//!
//! The trend agent is the recorder's, and what it writes into is a table. A second's row is
//! recomputed, by the rule alone, from the samples of that second: from those in the files where
//! nothing was left out on the way to either, and otherwise bounded by those that were sent.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use catchment_frame::{ChannelInfo, Dtype};
use catchment_model::Entry;
use catchment_recorder::TrendStore;
use catchment_trends::{Completed, Row, Statistics};

use crate::fault::Fault;
use crate::links::{self, ChannelPlan};
use crate::recorded::Recorded;
use crate::recorder::Life;
use crate::world::Outcome;

/// How far values may be from those by the rule, of the largest magnitude.
const TOLERANCE: f64 = 1e-11;
/// Counters are looked at so often in a second, and once more at its border.
const LOOKS_MAX: u64 = 5;

/// What a recorder's trend agent has written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trends(Arc<Mutex<Vec<Table>>>);

/// The rows of a target's channels, or of its counters.
#[derive(Debug)]
struct Table {
    folder: PathBuf,
    /// By series: its name, and its rows in the order in which they came.
    series: Vec<(String, Completed)>,
    has_ended: bool,
}

/// Writes into one of the tables.
struct Writer {
    tables: Trends,
    number: usize,
}

impl Trends {
    /// Makes tables as a recorder makes files.
    pub(crate) fn store(&self) -> Box<dyn Fn(PathBuf, Vec<ChannelInfo>) -> Box<dyn TrendStore>> {
        let tables = self.clone();
        Box::new(move |folder, series| {
            let series = series.into_iter().map(|one| (one.name, Completed::default())).collect();
            let mut all = tables.0.lock().expect("no agent panicked");
            all.push(Table { folder, series, has_ended: false });
            Box::new(Writer { tables: tables.clone(), number: all.len() - 1 })
        })
    }
}

impl Writer {
    fn with(&self, act: impl FnOnce(&mut Table)) {
        act(&mut self.tables.0.lock().expect("no agent panicked")[self.number]);
    }
}

impl TrendStore for Writer {
    fn add(&mut self, series: usize, rows: &Completed) {
        self.with(|table| {
            let Completed { seconds, minutes } = &mut table.series[series].1;
            seconds.extend_from_slice(&rows.seconds);
            minutes.extend_from_slice(&rows.minutes);
        });
    }

    fn advance(&mut self, _until: u64) -> Result<(), String> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        self.with(|table| table.has_ended = true);
        Ok(())
    }

    fn rows_lost(&self) -> u64 {
        0
    }
}

/// Checks the trends of a life, as a target has them.
///
/// # Errors
/// The first row that is not what the rule says, and where.
pub(crate) fn check(outcome: &Outcome, life: &Life, recorded: &Recorded) -> Result<(), String> {
    let config = &outcome.plan.config;
    let required = |target: usize| config.targets.get(target).is_none_or(|one| one.required);
    if !config.trends || !required(life.target) {
        return Ok(());
    }
    // Targets without channels have counters alone.
    let has_channels = |target| {
        let selected = outcome.plan.selected(target);
        selected.channels.iter().flatten().any(|&has| has)
    };
    let earlier = (0..life.target).filter(|&target| required(target));
    let channels_before = earlier.clone().filter(|&target| has_channels(target)).count();
    let counters_before = earlier.count();
    for (number, trends) in life.trends.iter().enumerate() {
        let tables = trends.0.lock().expect("no agent panicked");
        let of = |table: &&Table| table.folder.ends_with("counters");
        let counters = tables.iter().filter(of).nth(counters_before);
        let channels = tables.iter().filter(|table| !of(table)).nth(channels_before);
        let is_last = number + 1 == life.trends.len();
        let has_ended = is_last && !life.has_crashed;
        let named = |name: &str, why: String| format!("the trend of {name}: {why}");
        for table in counters.into_iter().chain(channels) {
            if has_ended && !table.has_ended {
                return Err(format!("{} was not finished", table.folder.display()));
            }
            for (name, rows) in &table.series {
                check_order(rows, has_ended).map_err(|why| named(name, why))?;
            }
        }
        if !outcome.plan.case.faults.has(Fault::Clock) {
            for (name, rows) in counters.into_iter().flat_map(|table| &table.series) {
                check_counter(rows).map_err(|why| named(name, why))?;
            }
        }
        if channels.is_none() && has_channels(life.target) {
            return Err("channels have no trends".to_owned());
        }
        let is_whole = has_ended && life.trends.len() == 1 && nothing_is_left_out(life);
        for (name, rows) in channels.into_iter().flat_map(|table| &table.series) {
            let of_channel = Channel::named(outcome, name)?;
            of_channel.check(rows, is_whole.then_some(recorded)).map_err(|why| named(name, why))?;
        }
    }
    Ok(())
}

/// Whether all samples of the frames are in the files and in the trends.
fn nothing_is_left_out(life: &Life) -> bool {
    let total = life.last.ledger.total();
    let is_discarded = |&entry: &Entry| entry.name().starts_with("fragments_discarded");
    life.last.counts.trend_samples_late == 0
        && life.disk.is_empty()
        && !Entry::ALL.iter().filter(|entry| is_discarded(entry)).any(|&entry| total[entry] > 0)
}

/// Seconds and minutes rise; minutes have what their seconds have.
fn check_order(rows: &Completed, has_ended: bool) -> Result<(), String> {
    let Completed { seconds, minutes } = rows;
    let rise = |rows: &[Row]| rows.is_sorted_by(|one, next| one.index < next.index);
    if !rise(seconds) || !rise(minutes) {
        return Err("its rows do not rise".to_owned());
    }
    for minute in minutes {
        let own = seconds.iter().filter(|second| second.index / 60 == minute.index);
        let n: u64 = own.map(|second| second.statistics.n).sum();
        if n != minute.statistics.n {
            let Row { index, statistics } = minute;
            return Err(format!("minute {index} has n {}, its seconds {n}", statistics.n));
        }
    }
    let has_minute = |second: &Row| minutes.iter().any(|one| one.index == second.index / 60);
    match has_ended && !seconds.iter().all(has_minute) {
        true => Err("a second has no minute".to_owned()),
        false => Ok(()),
    }
}

/// A counter never falls, and is looked at as often as it must be.
fn check_counter(rows: &Completed) -> Result<(), String> {
    let falls = |pair: &[Row]| pair[0].statistics.max > pair[1].statistics.min;
    if let Some(pair) = rows.seconds.windows(2).find(|pair| falls(pair)) {
        return Err(format!("it falls in second {}", pair[1].index));
    }
    let is_odd = |row: &&Row| !(1..=LOOKS_MAX).contains(&row.statistics.n);
    match rows.seconds.iter().find(is_odd) {
        Some(row) => Err(format!("second {} has n {}", row.index, row.statistics.n)),
        None => Ok(()),
    }
}

/// A channel of a link.
struct Channel {
    seed: u64,
    place: (usize, usize),
    plan: ChannelPlan,
}

impl Channel {
    fn named(outcome: &Outcome, name: &str) -> Result<Self, String> {
        let links = outcome.plan.config.links.iter().enumerate();
        let mut all = links.flat_map(|(link, config)| {
            config.channels.iter().enumerate().map(move |(channel, one)| ((link, channel), one))
        });
        let found = all.find(|(_, config)| config.name == name);
        let (place, _) = found.ok_or_else(|| format!("{name} is no channel"))?;
        let plan = outcome.plan.links[place.0].channels[place.1];
        Ok(Self { seed: outcome.plan.case.seed, place, plan })
    }

    /// The numbers of the samples of a second.
    fn samples_of(&self, second: u64) -> Range<u64> {
        self.plan.samples_of(second, 1_000_000_000)
    }

    /// Each row is what the samples of its second give: all of those in the files if these are
    /// given, and otherwise some of those that were sent.
    fn check(&self, rows: &Completed, recorded: Option<&Recorded>) -> Result<(), String> {
        let ranges = recorded.map(|recorded| recorded.samples.get(&self.place));
        for row in &rows.seconds {
            let Row { index: second, statistics: found } = row;
            let of_second = self.samples_of(*second);
            let numbers: Vec<u64> = match ranges {
                Some(ranges) => in_ranges(&of_second, ranges.map_or(&[], Vec::as_slice)).collect(),
                None => of_second.collect(),
            };
            let wanted = self.statistics(&numbers);
            let is_right = match ranges {
                Some(_) => self.are_equal(found, &wanted),
                None => is_some_of(found, &wanted) && found.n + found.not_finite > 0,
            };
            if !is_right {
                return Err(format!("second {second} is {found:?}, not {wanted:?}"));
            }
        }
        let Some(Some(ranges)) = ranges else { return Ok(()) };
        // None of the samples in the files is without a row.
        let in_files: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let of_row = |row: &Row| row.statistics.n + row.statistics.not_finite;
        let in_rows: u64 = rows.seconds.iter().map(of_row).sum();
        match in_rows == in_files {
            true => Ok(()),
            false => Err(format!("{in_files} samples are in the files, {in_rows} in it")),
        }
    }

    fn value(&self, number: u64) -> f64 {
        let bytes = links::sample(self.seed, self.place, number);
        match self.plan.dtype {
            Dtype::U8 => f64::from(bytes[0]),
            Dtype::I16 => f64::from(i16::from_le_bytes([bytes[0], bytes[1]])),
            Dtype::F64 => f64::from_le_bytes(bytes),
            other => unreachable!("no channel has {other:?}"),
        }
    }

    /// By the rule: what is finite is counted, and the rest beside it.
    fn statistics(&self, numbers: &[u64]) -> Statistics {
        let all: Vec<f64> = numbers.iter().map(|&number| self.value(number)).collect();
        let values: Vec<f64> = all.iter().copied().filter(|value| value.is_finite()).collect();
        let n = values.len() as f64;
        let squares: f64 = values.iter().map(|value| value * value).sum();
        Statistics {
            mean: values.iter().sum::<f64>() / n,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rms: (squares / n).sqrt(),
            n: values.len() as u64,
            not_finite: (all.len() - values.len()) as u64,
            saturated: 0,
        }
    }

    fn are_equal(&self, found: &Statistics, wanted: &Statistics) -> bool {
        if (found.n, found.not_finite) != (wanted.n, wanted.not_finite) {
            return false;
        }
        if wanted.n == 0 {
            return found.mean.is_nan() && found.min.is_nan();
        }
        let largest = wanted.min.abs().max(wanted.max.abs());
        // The squares of some samples are beyond f64, or below it.
        let has_sums = largest == 0.0 || (1e-100..1e100).contains(&largest);
        let is_near = |one: f64, other: f64| (one - other).abs() <= TOLERANCE * largest;
        (found.min, found.max) == (wanted.min, wanted.max)
            && (!has_sums || is_near(found.mean, wanted.mean) && is_near(found.rms, wanted.rms))
    }
}

/// The numbers that are in one of the ranges.
fn in_ranges(all: &Range<u64>, ranges: &[Range<u64>]) -> impl Iterator<Item = u64> {
    let own = ranges.iter().map(|range| range.start.max(all.start)..range.end.min(all.end));
    own.flatten()
}

/// Whether it may be of some of the samples that those statistics are of.
fn is_some_of(found: &Statistics, all: &Statistics) -> bool {
    let is_within = found.n == 0 || found.min >= all.min && found.max <= all.max;
    found.n <= all.n && found.not_finite <= all.not_finite && is_within
}
