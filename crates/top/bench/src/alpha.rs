//! `bench alpha`: alpha-72's datagrams, built into events by their times and on disk, beside what
//! this machine receives and discards of the same datagrams, and what it writes.
//!
//! A shared machine changes its rates within seconds: each recording stands between two
//! measurements of both limits.

use catchment_config::Rate;
use serde::Serialize;

use crate::Bench;
use crate::discard;
use crate::limits::direct_write_once;
use crate::point::{Load, Point, measure};
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::{Plan, Try, median};

/// The datagrams, and events per second at first and in a quick bench.
const LOADS: [(Load, f64, f64); 4] = [
    (Load::alpha(1_400, true), 6_000.0, 200.0),
    (Load::alpha(1_400, false), 2_000.0, 200.0),
    (Load::alpha(8_900, true), 1_200.0, 50.0),
    (Load::alpha(8_900, false), 1_000.0, 50.0),
];

/// Recordings at the highest rate without loss.
#[derive(Debug, Serialize)]
struct Found {
    load: &'static str,
    rounds: Vec<Round>,
}

#[derive(Debug, Serialize)]
struct Round {
    received: Limit,
    written: Limit,
    #[serde(flatten)]
    point: Point,
}

/// Bytes per second, right before and right behind a recording.
#[derive(Clone, Copy, Debug, Serialize)]
struct Limit {
    before: f64,
    behind: f64,
}

impl Limit {
    fn mean(self) -> f64 {
        f64::midpoint(self.before, self.behind)
    }
}

impl Round {
    fn share(&self, limit: f64) -> f64 {
        self.point.durable_bytes_per_second / limit
    }

    /// Of the lower limit.
    fn share_of_least(&self) -> f64 {
        self.share(self.received.mean().min(self.written.mean()))
    }
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let mut found = Vec::new();
    let loads = if bench.quick { &[LOADS[0], LOADS[3]][..] } else { &LOADS };
    for &(load, start_hz, quick_hz) in loads {
        let plan = Plan { quick: quick_hz, confirmations: 0, ..Plan::from(start_hz) };
        found.push(Found { load: load.name(), rounds: rounds(bench, load, plan)? });
    }
    let quick = bench.quick;
    let share = if quick { |_: f64| "-".to_owned() } else { |share| format!("{share:.2}") };
    let middle = |one: &Found, figure: fn(&Round) -> f64, shown: fn(f64) -> String| match one {
        Found { rounds, .. } if rounds.is_empty() => "-".to_owned(),
        Found { rounds, .. } => shown(median(rounds.iter().map(figure))),
    };
    let table = table(
        &found,
        &[
            ("datagrams", &|one| one.load.to_owned()),
            ("events/s", &|one| middle(one, |one| one.point.sent_hz, |hz| format!("{hz:.0}"))),
            ("bytes/s", &|one| middle(one, |one| one.point.bytes_per_second, bytes)),
            ("until durable", &|one| middle(one, |one| one.point.durable_bytes_per_second, bytes)),
            ("receive", &|one| middle(one, |one| one.point.receive_percent, percent)),
            ("build", &|one| middle(one, |one| one.point.build_percent, percent)),
            ("write", &|one| middle(one, |one| one.point.write_percent, percent)),
            ("emulate", &|one| middle(one, |one| one.point.emulate_percent, percent)),
            ("core-s/GB", &|one| {
                middle(one, |one| one.point.core_seconds_per_gb, |cost| format!("{cost:.2}"))
            }),
            ("receive and discard", &|one| middle(one, |one| one.received.mean(), bytes)),
            ("share", &|one| middle(one, |one| one.share(one.received.mean()), share)),
            ("direct write", &|one| middle(one, |one| one.written.mean(), bytes)),
            ("share", &|one| middle(one, |one| one.share(one.written.mean()), share)),
            ("0.8 of the lower", &|one| match &*one.rounds {
                [] => met(quick, false),
                rounds => met(quick, median(rounds.iter().map(Round::share_of_least)) >= 0.8),
            }),
        ],
    );
    let section = Section::new(
        "Built by time and on disk, at the highest rate without loss",
        table,
    )
    .note(
        "64 and 8 boards with clocks of 125 MHz, a window of 1 us, one datagram of each board in \
             an event. In bursts: 64 datagrams of a board and of one length in a row; separate: \
             each of a length of its own, up to an eighth shorter. The emulator runs on the same \
             machine.",
    )
    .note(
        "Until durable: over the time until all was on disk. Limits: what is received of a \
             sender that sends flat out, and direct writes; means of right before and right behind \
             each recording. Core-s/GB: of all threads but the emulator's. Medians of the \
             recordings.",
    )
    .note(
        "The experiment itself: 1,000 MB/s in datagrams of 1.5 kB by five receivers, on the four \
             cores of a Xeon E3-1245 v6 at 3.7 GHz, all of them full: 4 core-s/GB.",
    );
    Report::new("alpha", bench, vec![section], &found)
}

/// Recordings at the highest rate without loss, each between two measurements of the limits.
fn rounds(bench: &mut Bench<'_>, load: Load, plan: Plan) -> anyhow::Result<Vec<Round>> {
    let seconds = bench.seconds().min(4.0);
    let found = match bench.quick {
        // One recording shows that it works.
        true => Some(plan.quick),
        false => {
            let found = bench.highest(load.name(), plan, |bench, hz| {
                let point = measure(bench, load, Rate(Some(hz)), seconds)?;
                Ok(Try { reached: point.whole && point.rate_kept, value: () })
            })?;
            found.map(|(hz, _)| hz)
        }
    };
    let mut rounds = Vec::new();
    let Some(mut hz) = found else { return Ok(rounds) };
    let mut before = limits(bench, load)?;
    let tries = if bench.quick { 1 } else { 4 * bench.repeats() };
    for _ in 0..tries {
        bench.now(format!("{}, {hz:.0} Hz between two limits", load.name()))?;
        let point = measure(bench, load, Rate(Some(hz)), seconds)?;
        let behind = limits(bench, load)?;
        match bench.quick || point.whole && point.rate_kept {
            true => {
                let [received, written] =
                    [0, 1].map(|one| Limit { before: before[one], behind: behind[one] });
                rounds.push(Round { received, written, point });
            }
            false => hz *= 0.96,
        }
        if rounds.len() == bench.repeats() {
            break;
        }
        before = behind;
    }
    Ok(rounds)
}

/// What is received and discarded, and what is written.
fn limits(bench: &mut Bench<'_>, load: Load) -> anyhow::Result<[f64; 2]> {
    bench.now(format!("{}, the limits", load.name()))?;
    let received = discard::flat_out(bench, load)?.bytes_per_second;
    Ok([received, direct_write_once(bench, None)?.bytes_per_second])
}
