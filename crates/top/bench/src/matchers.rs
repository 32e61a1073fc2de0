//! `bench builder`: the builder alone on one core, cuts included, by number and by time.
//!
//! Sources as HADES has them (means of 116, 338 and 1,170 bytes in the proportion 6 : 2 : 1) at
//! 50 kHz of virtual time. A source's fragments come in packets: one push each, and a poll after
//! every 64 pushes. Packets of one fragment come event by event, which is the hardest case: each
//! touches another source. The descriptors, about 10,000 at a time, are prepared outside the
//! measured time.
//!
//! All rounds of a rate do the same; for each batch the shortest time counts, because a shared
//! machine takes the core away now and then. What is compared is measured in turn, round by round,
//! and the median of the ratios is given: a machine that is slower for a while is so for all. There
//! a round's cost is that of its median batch.

use std::fmt::{self, Display, Formatter};
use std::hint::black_box;
use std::time::Instant;

use catchment_builder::{
    Builder, BuilderConfig, ClockConfig, Cut, Fragment, Matcher, NumberConfig, SourceRole,
    TimeConfig, TimeMatcher,
};
use catchment_model::units::Count;
use serde::Serialize;

use crate::Bench;
use crate::report::{Report, Section, met, table};
use crate::search::median;

/// Fragments per packet, and sources, of events by number.
const RUNS: [usize; 3] = [100, 10, 1];
const SOURCE_COUNTS: [usize; 6] = [1, 10, 90, 100, 300, 1_000];
/// Sources and fragments per packet of events by time.
const BY_TIME: [(usize, usize); 4] = [(10, 100), (10, 1), (1_000, 10), (1_000, 1)];
/// From far below the time between events to 5,000 of them.
const WINDOWS_NS: [u64; 4] = [100, 10_000, 1_000_000, 100_000_000];
/// From one event to the next, on the clocks.
const EVENT_NS: u64 = 20_000;
/// Keys further apart than two windows.
const APART: u64 = 1 << 20;
/// Descriptors that are prepared at a time.
const BATCH_FRAGMENTS: usize = 10_000;
/// Of 1,000 sources packets have so many fragments at most in ratios, so that batches stay small.
const RUN_OF_MANY_MAX: usize = 10;
/// How often ratios are measured.
const RATIO_ROUNDS: usize = 7;
/// What is asked of events by time: of the rate by number with 10 sources, and of 1,000 sources
/// beside 10.
const TO_NUMBER: f64 = 0.20;
const TO_FEW: f64 = 0.60;

/// How events are built.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    Number,
    /// By number, of sources that promise, with keys far apart.
    Apart,
    /// By time, with a window of so many nanoseconds.
    Time(u64),
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Case {
    sources: usize,
    fragments_per_packet: usize,
    rule: Rule,
}

#[derive(Debug, Serialize)]
struct Rate {
    #[serde(flatten)]
    case: Case,
    nanoseconds_per_fragment: f64,
    frames: u64,
}

/// Medians of ratios that were measured in turn.
#[derive(Debug, Serialize)]
struct Ratios {
    fragments_per_packet: usize,
    /// The rate by time over that by number, with 10 sources.
    time_to_number: f64,
    /// The rate by time with 1,000 sources over that with 10.
    many_to_few: f64,
    /// The highest cost of a window over that of the shortest, with 10 sources and with 1,000.
    windows: [f64; 2],
}

#[derive(Debug, Serialize)]
struct Figures {
    rates: Vec<Rate>,
    ratios: Vec<Ratios>,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let rates = cases().map(|case| rate(bench, case)).collect::<anyhow::Result<_>>()?;
    let ratios = RUNS.map(|run| ratios(bench, run)).into_iter().collect::<anyhow::Result<_>>()?;
    let figures = Figures { rates, ratios };
    let sections = vec![ratios_section(bench.quick, &figures), rates_section(&figures)];
    Report::new("builder", bench, sections, &figures)
}

fn cases() -> impl Iterator<Item = Case> {
    let case = |sources, fragments_per_packet, rule| Case { sources, fragments_per_packet, rule };
    let all = move |run| SOURCE_COUNTS.map(|sources| case(sources, run, Rule::Number));
    let apart = [10, 1_000].map(|sources| case(sources, 1, Rule::Apart));
    let ends = [WINDOWS_NS[0], WINDOWS_NS[WINDOWS_NS.len() - 1]];
    let timed = move |(sources, run)| ends.map(|ns| case(sources, run, Rule::Time(ns)));
    RUNS.into_iter().flat_map(all).chain(apart).chain(BY_TIME.into_iter().flat_map(timed))
}

fn rate(bench: &mut Bench<'_>, case: Case) -> anyhow::Result<Rate> {
    let fragments = if bench.quick { 200_000 } else { 6_000_000 };
    let rounds = bench.rounds(case, |bench| case.measure(bench, fragments))?;
    let best =
        rounds.into_iter().reduce(Round::best_of).expect("a figure is measured once at least");
    let ns = best.batches_ns.iter().sum::<u64>() as f64 / best.fragments as f64;
    Ok(Rate { case, nanoseconds_per_fragment: ns, frames: best.frames })
}

fn ratios(bench: &mut Bench<'_>, run: usize) -> anyhow::Result<Ratios> {
    let (fragments, rounds) = if bench.quick { (20_000, 1) } else { (1_000_000, RATIO_ROUNDS) };
    let mut all = [const { Vec::new() }; 4];
    for round in 1..=rounds {
        bench.now(format!("by time beside by number, packets of {run}, {round}"))?;
        let mut cost = |sources, fragments_per_packet, rule| {
            let case = Case { sources, fragments_per_packet, rule };
            anyhow::Ok(case.measure(bench, fragments)?.cost())
        };
        let by_number = cost(10, run, Rule::Number)?;
        let mut by_window = [[0.0; WINDOWS_NS.len()]; 2];
        let of = [(10, run), (1_000, run.min(RUN_OF_MANY_MAX))];
        for (costs, (sources, run)) in by_window.iter_mut().zip(of) {
            for (one, window_ns) in costs.iter_mut().zip(WINDOWS_NS) {
                *one = cost(sources, run, Rule::Time(window_ns))?;
            }
        }
        let highest = |costs: [f64; 4]| costs.into_iter().fold(0.0, f64::max) / costs[0];
        let [few, many] = by_window;
        let round = [by_number / few[0], few[0] / many[0], highest(few), highest(many)];
        all.iter_mut().zip(round).for_each(|(all, one)| all.push(one));
    }
    let [time_to_number, many_to_few, few, many] = all.map(median);
    let windows = [few, many];
    Ok(Ratios { fragments_per_packet: run, time_to_number, many_to_few, windows })
}

fn ratios_section(quick: bool, figures: &Figures) -> Section {
    let asked = |ratio: f64, least: f64| format!("{ratio:.2} {}", met(quick, ratio >= least));
    let table = table(
        &figures.ratios,
        &[
            ("fragments per packet", &|one| one.fragments_per_packet.to_string()),
            ("time / number, 10 sources", &|one| asked(one.time_to_number, TO_NUMBER)),
            ("time, 1,000 sources / 10", &|one| asked(one.many_to_few, TO_FEW)),
            ("windows, 10 sources", &|one| format!("{:.2}", one.windows[0])),
            ("1,000 sources", &|one| format!("{:.2}", one.windows[1])),
        ],
    );
    Section::new("By time beside by number", table).note(format!(
        "Ratios of rates, measured in turn, median of {}; asked: {TO_NUMBER:.2} and {TO_FEW:.2} at \
         least. Windows: the highest cost with a window of 100 ns to 100 ms over that with 100 ns, \
         to be 1 (20 us lie between events). Of 1,000 sources packets have {RUN_OF_MANY_MAX} \
         fragments at most.",
        if quick { 1 } else { RATIO_ROUNDS }
    ))
}

fn rates_section(figures: &Figures) -> Section {
    let table = table(
        &figures.rates,
        &[
            ("events", &|rate| rate.case.rule.to_string()),
            ("sources", &|rate| rate.case.sources.to_string()),
            ("fragments per packet", &|rate| rate.case.fragments_per_packet.to_string()),
            ("fragments/s", &|rate| Count(1e9 / rate.nanoseconds_per_fragment).to_string()),
            ("ns/fragment", &|rate| format!("{:.1}", rate.nanoseconds_per_fragment)),
            ("frames", &|rate| rate.frames.to_string()),
        ],
    );
    Section::new("Rates of one core", table).note(
        "Descriptors of sub-events as HADES has them at 50 kHz; no sockets, no payload. The \
         shortest time of each 10,000 fragments over all rounds. Far apart: sources that promise, \
         with keys further apart than the window.",
    )
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number => f.write_str("by number"),
            Self::Apart => f.write_str("by number, far apart"),
            Self::Time(ns) if *ns < 1_000_000 => write!(f, "by time, {ns} ns"),
            Self::Time(ns) => write!(f, "by time, {} ms", ns / 1_000_000),
        }
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { sources, fragments_per_packet, rule } = self;
        write!(f, "{sources} sources, packets of {fragments_per_packet}, {rule}")
    }
}

/// One pass over the fragments of a case.
struct Round {
    batches_ns: Vec<u64>,
    fragments: u64,
    frames: u64,
}

impl Round {
    fn best_of(mut self, other: Self) -> Self {
        let both = self.batches_ns.iter_mut().zip(other.batches_ns);
        both.for_each(|(mine, theirs)| *mine = theirs.min(*mine));
        self
    }

    /// Nanoseconds of a fragment, by the median batch: those during which the core was taken away
    /// do not count, nor does the end.
    fn cost(mut self) -> f64 {
        self.batches_ns.pop();
        let batches = self.batches_ns.len() as f64;
        median(self.batches_ns.into_iter().map(|ns| ns as f64)) * batches / self.fragments as f64
    }
}

impl Case {
    fn measure(self, bench: &mut Bench<'_>, fragments: usize) -> anyhow::Result<Round> {
        let Self { sources, fragments_per_packet: run, rule } = self;
        let mut config = BuilderConfig::new(vec![SourceRole::Required; sources]);
        let (round, whole) = match rule {
            Rule::Number => {
                let builder = Builder::new(&config, &NumberConfig::default())?;
                build(builder, &Pool::new(sources, run, 1), fragments)
            }
            Rule::Apart => {
                config.promising = vec![true; sources];
                let number = NumberConfig { number_bits: 48, ..NumberConfig::default() };
                // Each event is cut alone.
                let builder = Builder::new(&config, &number)?;
                build(builder, &Pool::new(sources, run, APART), fragments / 30)
            }
            Rule::Time(window_ns) => {
                let clock = ClockConfig { rate_hz: 1_000_000_000, bits: 48, ..ClockConfig::NS };
                let time = TimeConfig::new(window_ns, vec![clock; sources], config.timeout_ns);
                let matcher = TimeMatcher::new(&config, &time)?;
                let builder = Builder::with_matcher(&config, matcher)?;
                build(builder, &Pool::new(sources, run, EVENT_NS), fragments)
            }
        };
        if !whole {
            bench.broken.push(format!("{self}: events are missing"));
        }
        Ok(round)
    }
}

/// Builds about so many fragments; whether every event came out complete, too.
fn build<M: Matcher>(mut builder: Builder<M>, pool: &Pool, fragments: usize) -> (Round, bool) {
    let (sources, run, batch_events) = (pool.lengths.len() / LENGTHS, pool.run, pool.batch_events);
    let events = (fragments / sources).div_ceil(batch_events) * batch_events;
    let mut ends = vec![0; sources];
    let mut batch = Vec::with_capacity(sources * batch_events);
    let mut spare: Option<Cut> = None;
    let mut round = Round { batches_ns: Vec::new(), fragments: 0, frames: 0 };
    round.batches_ns.reserve(events / batch_events + 1);
    let mut take = |builder: &mut Builder<M>, round: &mut Round, now_ns| {
        while let Some(cut) = builder.cut(now_ns, spare.take()) {
            round.frames += 1;
            round.fragments += cut.columns.iter().map(|column| column.fragments).sum::<u64>();
            spare = Some(black_box(cut));
        }
    };
    for cycle in 0..events / batch_events {
        pool.batch(cycle, &mut ends, &mut batch);
        let start = Instant::now();
        let now_ns = (cycle * batch_events) as u64 * EVENT_NS;
        for (count, packet) in batch.chunks(run).enumerate() {
            builder.push(now_ns, packet);
            if count % 64 == 63 {
                builder.poll(now_ns);
            }
        }
        builder.poll(now_ns);
        take(&mut builder, &mut round, now_ns);
        round.batches_ns.push(start.elapsed().as_nanos() as u64);
    }
    let start = Instant::now();
    builder.finish(u64::MAX);
    take(&mut builder, &mut round, u64::MAX);
    round.batches_ns.push(start.elapsed().as_nanos() as u64);
    let is_complete = builder.status().events_complete == events as u64;
    let whole = is_complete && round.fragments == (events * sources) as u64;
    (round, whole)
}

/// Lengths, drawn before.
struct Pool {
    lengths: Vec<u32>,
    run: usize,
    batch_events: usize,
    /// From one key to the next.
    apart: u64,
}

/// Of each source.
const LENGTHS: usize = 64;

impl Pool {
    fn new(sources: usize, run: usize, apart: u64) -> Self {
        let mut random = 1_u64;
        let mut lengths = vec![0; sources * LENGTHS];
        for (index, length) in lengths.iter_mut().enumerate() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mean = match (index / LENGTHS) % 9 {
                0..6 => 116,
                6..8 => 338,
                _ => 1_170,
            };
            *length = mean * (80 + (random >> 33) as u32 % 41) / 100 / 4 * 4;
        }
        let batch_events = (BATCH_FRAGMENTS / sources).div_ceil(run) * run;
        Self { lengths, run, batch_events, apart }
    }

    /// The next events of all sources; fragments follow each other in each source's segment.
    fn batch(&self, cycle: usize, ends: &mut [u64], batch: &mut Vec<Fragment>) {
        batch.clear();
        let first = cycle * self.batch_events;
        for first in (first..first + self.batch_events).step_by(self.run) {
            for (source, end) in ends.iter_mut().enumerate() {
                for event in first..first + self.run {
                    let bytes = self.lengths[source * LENGTHS + event % LENGTHS];
                    let number = match self.apart {
                        1 => event as u64 & 0xff_ffff,
                        apart => event as u64 * apart,
                    };
                    batch.push(Fragment::new(source as u32, number, *end, bytes));
                    *end += u64::from(bytes);
                }
            }
        }
    }
}
