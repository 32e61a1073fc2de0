//! How long the disk, the spills and memory last.

use std::collections::BTreeMap;

use catchment_recorder::{Fill, Snapshot, State, TargetSnapshot};
use catchment_watch::{Forecast, NodeCounter, RATES_NS};

use super::{DISK_NS, Moment, RunFigures, fault, targets};

/// What a run fills.
pub(super) struct Forecasts {
    disk: Forecast,
    /// By target.
    spills: BTreeMap<String, Forecast>,
    /// Frames that are held for a target that takes nothing, and chunks.
    held: Gauge,
    chunks: Gauge,
}

/// How long they last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lasts {
    /// The disk, at the rate at which it is written or was last: 0 while it is full.
    pub(crate) disk_hours: Option<f64>,
    /// Whether it is being written.
    pub(crate) is_written: bool,
    /// Spills that are being filled, by target.
    pub(crate) spills: BTreeMap<String, f64>,
    /// Memory, while a required target takes nothing.
    pub(crate) memory_seconds: Option<f64>,
}

/// A level, as what has come in.
struct Gauge {
    level: u64,
    came: u64,
    forecast: Forecast,
}

impl Lasts {
    /// How long the disk lasts, as it is shown: a number that does not move says nothing.
    pub(crate) fn hours_shown(&self) -> Option<f64> {
        self.disk_hours.filter(|&hours| self.is_written || hours == 0.0)
    }

    /// What the alarm on the disk's space is told to say, while nothing is written.
    pub(super) fn sentence(&self) -> Option<((&'static str, String), String)> {
        let words = "nothing is written now, this is as it was written last";
        let is_stale = self.disk_hours.is_some() && self.hours_shown().is_none();
        is_stale.then(|| (("disk_space", String::new()), words.to_owned()))
    }
}

impl Default for Forecasts {
    fn default() -> Self {
        Self {
            disk: Forecast::new(DISK_NS),
            spills: BTreeMap::new(),
            held: Gauge::new(),
            chunks: Gauge::new(),
        }
    }
}

impl Gauge {
    fn new() -> Self {
        Self { level: 0, came: 0, forecast: Forecast::new(RATES_NS) }
    }

    fn push(&mut self, now_ns: u64, level: u64, still_ns: u64) {
        self.came = self.came.saturating_add(level.saturating_sub(self.level));
        self.level = level;
        self.forecast.push(now_ns, self.came, Some(still_ns));
    }
}

impl RunFigures {
    /// Counts what is filled, and says how long what is free lasts. What was not filled for
    /// `still_ns` is not being filled.
    pub(super) fn forecast(&mut self, moment: &Moment<'_>, still_ns: u64) -> Lasts {
        for spill in moment.spills {
            let forecast = self.forecasts.spills.entry(spill.target.clone());
            let forecast = forecast.or_insert_with(|| Forecast::new(RATES_NS));
            forecast.push(moment.now_ns, spill.bytes_spilled, Some(still_ns));
        }
        let lasts = moment.spills.iter().filter_map(|spill| {
            let free = spill.bytes_max.saturating_sub(spill.bytes_waiting);
            let forecast = self.forecasts.spills.get(&spill.target)?;
            Some((spill.target.clone(), forecast.seconds_now(free)?))
        });
        let spills = lasts.collect();
        let Some(snapshot) = moment.snapshot.filter(|_| moment.run.is_some()) else {
            return Lasts { spills, ..Lasts::default() };
        };
        let disk_hours = self.disk_hours(moment, snapshot, still_ns);
        let is_written = self.forecasts.disk.is_filling();
        let memory_seconds = self.memory_seconds(moment.now_ns, snapshot, still_ns);
        Lasts { disk_hours, is_written, spills, memory_seconds }
    }

    /// How long the disk lasts: not at all if it has no room for the data to be written, otherwise
    /// at the run's last write rate. While nothing is written, because of a fault or a pause, the
    /// disk does not get emptier, and an alarm about it must not clear.
    fn disk_hours(
        &mut self,
        moment: &Moment<'_>,
        snapshot: &Snapshot,
        still_ns: u64,
    ) -> Option<f64> {
        let is_fault = matches!(snapshot.state, State::Fault { .. });
        let still_ns = Some(still_ns).filter(|_| !is_fault);
        self.forecasts.disk.push(moment.now_ns, snapshot.counts.bytes_written, still_ns);
        let free_bytes = moment.disk.as_ref()?.free_bytes;
        let free_bytes = targets::free_bytes(snapshot).unwrap_or(free_bytes);
        match &snapshot.state {
            State::Fault { reason } if fault::is_full(reason) => return Some(0.0),
            _ if targets::is_full(snapshot) => return Some(0.0),
            _ => {}
        }
        Some(self.forecasts.disk.seconds(free_bytes)? / 3_600.0)
    }

    /// How long memory lasts while a required target takes nothing: until front-ends wait, and
    /// datagrams are dropped. What is held for it has a share of its own; behind that, or where it
    /// is held as it came, chunks fill.
    fn memory_seconds(&mut self, now_ns: u64, snapshot: &Snapshot, still_ns: u64) -> Option<f64> {
        let free = |fill: &Fill| fill.capacity.saturating_sub(fill.level);
        let takes_nothing =
            |one: &&TargetSnapshot| one.required && one.away.is_some() && !one.is_spilling();
        let away = snapshot.targets.iter().filter(takes_nothing);
        let away = away.min_by_key(|target| free(&target.queue));
        let chunks = snapshot.fills.iter().filter(|fill| fill.name.contains("segments"));
        let (level, capacity) = chunks
            .fold((0, 0), |(level, capacity), fill| (level + fill.level, capacity + fill.capacity));
        let Forecasts { held, chunks, .. } = &mut self.forecasts;
        held.push(now_ns, away.map_or(0, |target| target.queue.level), still_ns);
        chunks.push(now_ns, level, still_ns);
        let (held_free, chunks_free) = (free(&away?.queue), u64::saturating_sub(capacity, level));
        if let Some(seconds) = chunks.forecast.seconds_now(chunks_free) {
            return Some(seconds);
        }
        let received = self.watch.rates().per_second(NodeCounter::Bytes as usize);
        let behind = received.filter(|rate| *rate > 0.0).map(|rate| chunks_free as f64 / rate);
        Some(self.forecasts.held.forecast.seconds_now(held_free)? + behind?)
    }
}
