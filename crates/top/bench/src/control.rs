//! `bench control`: how soon the API answers while the node records as much as it can without loss.

use catchment_config::{Hades90, Rate};
use catchment_console::{ConsoleError, Table, need_space};
use catchment_model::units::Count;
use serde::Serialize;

use crate::Bench;
use crate::control_asking::{Answers, Pace, ROUTES, ask};
use crate::control_node::{Load, Node, Outcome, between};
use crate::ligo_data::Scratch;
use crate::point;
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::{Plan, Try, median, percentile};
use crate::stalls::{self, Stalls};

/// Everything that `bench control` measures.
#[derive(Debug, Serialize)]
struct Figures {
    requests_per_second: f64,
    streams: usize,
    /// The highest rate that was sent and recorded without loss while the node was asked.
    highest_hz: Option<f64>,
    /// Recordings at nine tenths of it, the node asked.
    asked: Vec<Recorded>,
    /// At the same rate, asked nothing.
    unasked: Vec<Recorded>,
    /// At half as much again, asked.
    beyond: Vec<Recorded>,
    latencies: Vec<Latency>,
    /// Of the recordings at a rate that is too high.
    latencies_beyond: Vec<Latency>,
    failed: Vec<String>,
}

/// One recording.
#[derive(Clone, Debug, Serialize)]
struct Recorded {
    rate_hz: f64,
    sent_hz: f64,
    #[serde(flatten)]
    outcome: Outcome,
    bytes_per_second: f64,
    load: Load,
    stalls: Stalls,
    /// Where it was asked.
    latency: Option<Latency>,
    #[serde(skip)]
    answers: Answers,
}

impl Recorded {
    fn reached(&self) -> bool {
        self.outcome.whole() && self.sent_hz >= self.rate_hz * 0.98
    }
}

/// The latency of one route, in milliseconds.
#[derive(Clone, Debug, Serialize)]
struct Latency {
    route: String,
    count: usize,
    median_ms: f64,
    percentile_99_ms: f64,
    highest_ms: f64,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let scratch = Scratch::new(&bench.scratch, "control")?;
    let preset = Hades90 {
        folder: std::path::absolute(scratch.folder.join("runs"))?,
        ..point::Load::FULL.hades(bench, Rate(Some(1_000.0)))
    };
    let mut node = Node::start(&scratch.folder, &preset)?;
    let rounds = if bench.quick { 1 } else { ROUNDS };
    let seconds = seconds(bench);
    let plan = Plan { confirmations: 1, ..Plan::from(20_000.0) };
    let found = bench.highest("asked", plan, |bench, rate_hz| {
        let recorded = record(bench, &mut node, &preset, rate_hz, true)?;
        Ok(Try { reached: recorded.reached(), value: recorded })
    })?;
    let mut attempt = |rate_hz, asked| record(bench, &mut node, &preset, rate_hz, asked);
    let highest_hz = found.map(|(rate_hz, _)| rate_hz);
    let (mut found, mut asked) = (highest_hz, Vec::new());
    while let Some(hz) = found.filter(|_| asked.len() < rounds) {
        let recorded = attempt(hz * SHARE, true)?;
        if recorded.outcome.whole() {
            asked.push(recorded);
        } else {
            // Repeat all rounds at a lower rate, unless that comes to nothing.
            asked.clear();
            found = Some(hz * SHARE).filter(|hz| highest_hz < Some(*hz * 16.0));
        }
    }
    let (mut unasked, mut beyond) = (Vec::new(), Vec::new());
    if let Some(rate_hz) = found.map(|hz| hz * SHARE) {
        unasked = (0..rounds).map(|_| attempt(rate_hz, false)).collect::<Result<_, _>>()?;
        // Where the disk has room for it.
        if room(&preset, rate_hz * 1.5, seconds).is_ok() {
            beyond.push(attempt(rate_hz * 1.5, true)?);
        }
    }
    node.finish()?;
    let (answers, failed) = all_of(&asked);
    let (answers_beyond, failed_beyond) = all_of(&beyond);
    let figures = Figures {
        requests_per_second: REQUESTS_PER_SECOND,
        streams: STREAMS,
        highest_hz,
        latencies: latencies(&answers),
        latencies_beyond: latencies(&answers_beyond),
        failed: failed.into_iter().chain(failed_beyond).collect(),
        asked,
        unasked,
        beyond,
    };
    bench.broken.extend(figures.failed.iter().take(10).cloned());
    let sections = vec![
        targets(&figures, bench.quick),
        rounds_of(&figures),
        routes(&figures, bench.quick),
        recordings(&figures, seconds),
    ];
    Report::new("control", bench, sections, &figures)
}

/// One run at a rate, with or without requests of clients.
fn record(
    bench: &mut Bench<'_>,
    node: &mut Node,
    preset: &Hades90,
    rate_hz: f64,
    asked: bool,
) -> anyhow::Result<Recorded> {
    bench.now(format!("{rate_hz:.0} Hz{}", if asked { ", asked" } else { "" }))?;
    let seconds = seconds(bench);
    room(preset, rate_hz, seconds)?;
    let run = node.begin(Rate(Some(rate_hz)))?;
    let first = node.mark()?;
    let (answers, stalls) = stalls::watched(|| {
        if asked {
            let pace = Pace { per_second: REQUESTS_PER_SECOND, streams: STREAMS, seconds, run };
            return ask(&node.url, &pace);
        }
        let until = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
        bench.stop.wait(until);
        Ok(Answers::default())
    });
    let answers = answers?;
    let last = node.mark()?;
    let outcome = node.end(run)?;
    anyhow::ensure!(!bench.stop.asked(), "stopped before the end; nothing was written");
    let (sent_hz, load) = between(&first, &last);
    let bytes_per_second = sent_hz * preset.bytes_per_event();
    if outcome.loss_count == 0 && !outcome.whole() {
        bench.broken.push(format!("{rate_hz:.0} Hz: no loss in the books, but {outcome:?}"));
    }
    let latency = latencies(&answers).into_iter().find(|one| one.route == ALL);
    Ok(Recorded { rate_hz, sent_hz, outcome, bytes_per_second, load, stalls, latency, answers })
}

/// Whether there is room for a recording. It takes half a second here and there until it is seen
/// that a run has begun, and that it has ended.
fn room(preset: &Hades90, rate_hz: f64, seconds: f64) -> Result<(), ConsoleError> {
    let preset = Hades90 { rate: Rate(Some(rate_hz)), ..preset.clone() };
    need_space(&preset.folder, preset.bytes_for(seconds + 2.0))
}

fn seconds(bench: &Bench<'_>) -> f64 {
    if bench.quick { 1.0 } else { 5.0 }
}

fn all_of(recorded: &[Recorded]) -> (Answers, Vec<String>) {
    let mut all = Answers::default();
    recorded.iter().for_each(|one| all.add(one.answers.clone()));
    let failed = std::mem::take(&mut all.failed);
    (all, failed)
}

/// By route, of all requests together first, of streams last.
fn latencies(answers: &Answers) -> Vec<Latency> {
    let of_route = |route: Option<usize>| -> Vec<f64> {
        let fits = |&&(one, _): &&(usize, f64)| route.is_none_or(|route| route == one);
        answers.answered.iter().filter(fits).map(|&(_, ms)| ms).collect()
    };
    let mut all = vec![(ALL.to_owned(), of_route(None))];
    all.extend(ROUTES.iter().enumerate().map(|(n, name)| ((*name).to_owned(), of_route(Some(n)))));
    all.push(("stream: later than every 0.5 s".into(), answers.pushed_late.clone()));
    all.push(("stream: age of the state".into(), answers.pushed_age.clone()));
    let latency = |(route, figures): (String, Vec<f64>)| Latency {
        route,
        count: figures.len(),
        median_ms: median(figures.iter().copied()),
        percentile_99_ms: percentile(99.0, figures.iter().copied()),
        highest_ms: figures.into_iter().fold(f64::NAN, f64::max),
    };
    all.into_iter().filter(|(_, figures)| !figures.is_empty()).map(latency).collect()
}

fn targets(figures: &Figures, quick: bool) -> Section {
    let mut table = Table::new(&["target", "measured", "asked", "result"]);
    let of_rounds: Vec<f64> = round_latencies(figures).map(|one| one.percentile_99_ms).collect();
    let all = figures.latencies.iter().find(|one| one.route == ALL);
    let rows = [
        (format!("median of {} rounds", of_rounds.len()), Some(median(of_rounds))),
        ("all rounds together".to_owned(), all.map(|one| one.percentile_99_ms)),
    ];
    for (name, ms) in rows {
        let ms = ms.unwrap_or(f64::NAN);
        table.row([
            format!("99th percentile of all requests, {name}"),
            format!("{ms:.1} ms"),
            "below 50 ms".into(),
            met(quick, ms < 50.0 && figures.failed.is_empty()),
        ]);
    }
    let lost: u64 = figures.asked.iter().map(|one| one.outcome.loss_count).sum();
    let whole = !figures.asked.is_empty() && figures.asked.iter().all(|one| one.outcome.whole());
    table.row([
        "lost by the recorder meanwhile".to_owned(),
        if figures.asked.is_empty() { "no rate was kept".into() } else { lost.to_string() },
        "nothing".into(),
        met(quick, whole),
    ]);
    Section::new("Targets", table)
}

fn round_latencies(figures: &Figures) -> impl Iterator<Item = &Latency> {
    figures.asked.iter().filter_map(|recorded| recorded.latency.as_ref())
}

fn rounds_of(figures: &Figures) -> Section {
    let rounds = figures.asked.iter().zip(1..);
    let rounds: Vec<(u32, &Latency, &Recorded)> =
        rounds.filter_map(|(one, round)| Some((round, one.latency.as_ref()?, one))).collect();
    let real_time = rounds.iter().all(|(_, _, one)| one.stalls.real_time);
    let table = table(
        rounds,
        &[
            ("round", &|(round, ..)| round.to_string()),
            ("answers", &|(_, latency, _)| latency.count.to_string()),
            ("median ms", &|(_, latency, _)| tenths(latency.median_ms)),
            ("99th percentile ms", &|(_, latency, _)| tenths(latency.percentile_99_ms)),
            ("highest ms", &|(_, latency, _)| tenths(latency.highest_ms)),
            ("machine's longest stall ms", &|(.., one)| tenths(one.stalls.longest_ms)),
            ("its stalls in all ms", &|(.., one)| format!("{:.0}", one.stalls.all_ms)),
            ("CPUs idle", &|(.., one)| percent(one.load.idle)),
        ],
    );
    let besides = if real_time {
        ""
    } else {
        " They could not go before all others here, and waited for them, too."
    };
    Section::new("Rounds", table).note(format!(
        "Stalls: how late threads woke that only sleep, one on each CPU, before all others. Meanwhile no \
         program could run there: a virtual machine's host had taken the CPU, or the kernel kept it.{besides}"
    ))
}

fn routes(figures: &Figures, quick: bool) -> Section {
    let beyond = |one: &Latency, field: fn(&Latency) -> f64| {
        let same = figures.latencies_beyond.iter().find(|other| other.route == one.route);
        same.map_or("-".to_owned(), |other| tenths(field(other)))
    };
    let table = table(
        &figures.latencies,
        &[
            ("route", &|one| one.route.clone()),
            ("answers", &|one| one.count.to_string()),
            ("median ms", &|one| tenths(one.median_ms)),
            ("99th percentile ms", &|one| tenths(one.percentile_99_ms)),
            ("highest ms", &|one| tenths(one.highest_ms)),
            ("beyond: 99th percentile ms", &|one| beyond(one, |other| other.percentile_99_ms)),
            ("highest ms", &|one| beyond(one, |other| other.highest_ms)),
        ],
    );
    let rate = if quick { "a low rate" } else { "nine tenths of the highest rate without loss" };
    Section::new("Latencies", table)
        .note(format!(
            "A client on the same machine, {} requests per second over 8 connections, all routes in \
             turn, and {} streams, while the node records at {rate}. A latency counts from when the \
             request was due, not from when it was sent, until the whole answer was there: a node \
             that stalls is late for all that was due meanwhile. Requests that failed: {}.",
            figures.requests_per_second,
            figures.streams,
            figures.failed.len()
        ))
        .note(
        "Commands are such as change nothing in the data: a pause would be less to record. Stream: \
         states are sent twice a second, and taken twice a second. Beyond: at half as much again, \
         as far as the emulator can send that.",
        )
}

fn recordings(figures: &Figures, seconds: f64) -> Section {
    let rows =
        [("asked", &figures.asked), ("not asked", &figures.unasked), ("beyond", &figures.beyond)];
    let events_lost =
        |one: &Outcome| one.events_sent.saturating_sub(one.events_recorded).to_string();
    let table = table(
        rows.into_iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one))),
        &[
            ("recording", &|(name, _)| (*name).to_owned()),
            ("rate", &|(_, one)| format!("{}Hz", Count(one.rate_hz))),
            ("sent", &|(_, one)| format!("{}Hz", Count(one.sent_hz))),
            ("bytes/s", &|(_, one)| bytes(one.bytes_per_second)),
            ("lost", &|(_, one)| one.outcome.loss_count.to_string()),
            ("events lost", &|(_, one)| events_lost(&one.outcome)),
            ("recorder", &|(_, one)| percent(one.load.recorder)),
            ("emulate", &|(_, one)| percent(one.load.emulate)),
            ("control", &|(_, one)| percent(one.load.control)),
            ("client", &|(_, one)| percent(one.load.client)),
            ("CPUs idle", &|(_, one)| percent(one.load.idle)),
        ],
    );
    let highest = figures.highest_hz.map_or("none".to_owned(), |hz| format!("{}Hz", Count(hz)));
    Section::new("What was recorded", table)
        .note(format!(
            "90 sources of hades-90 in packets of 32 kB, emulated by the node itself, to disk, \
             {seconds} s each. The rate is raised until it is not sent or something is lost while the \
             node is asked, and halved back: {highest}. At nine tenths of it, all that was sent must be \
             on disk, nothing lost and the books balanced, or all is done again at less."
        ))
        .note("Percent of one CPU. Control: the control thread, the API and the devices' threads.")
}

fn tenths(ms: f64) -> String {
    format!("{ms:.1}")
}

const ALL: &str = "all requests";
const REQUESTS_PER_SECOND: f64 = 100.0;
const STREAMS: usize = 4;
/// Recordings while the node is asked: their median is the result, since machines stand still now
/// and then, and a stall of 100 ms is two hundredths of a round's answers.
const ROUNDS: usize = 5;
/// The share of the highest rate that is measured: a load, not its edge.
const SHARE: f64 = 0.9;
