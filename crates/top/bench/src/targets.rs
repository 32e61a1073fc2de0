//! hades-90 to one folder, to two required ones on one disk, and to none.
//!
//! A disk that others share changes its rate within seconds, and one that was idle is faster for a
//! while. So each recording stands beside a limit of its own, measured right before and behind it.

use catchment_config::Rate;
use catchment_recorder::{Place, RecorderConfig, TargetConfig};
use serde::Serialize;

use crate::Bench;
use crate::discard;
use crate::limits::direct_write_once;
use crate::point::{Load, Point, measure_with};
use crate::report::{Report, Section, bytes, percent, table};
use crate::search::{Plan, Try, median};

/// A set of targets.
#[derive(Clone, Copy)]
struct Arrangement {
    name: &'static str,
    arrange: fn(&mut RecorderConfig),
    limit: Limit,
}

/// What the recorder can at most reach.
#[derive(Clone, Copy)]
enum Limit {
    /// The disk's rate, over so many folders.
    DirectWrite(f64),
    ReceiveAndDiscard,
}

const ARRANGEMENTS: [Arrangement; 3] = [
    Arrangement { name: "one folder", arrange: |_| {}, limit: Limit::DirectWrite(1.0) },
    Arrangement {
        name: "two required folders on one disk",
        arrange: two,
        limit: Limit::DirectWrite(2.0),
    },
    Arrangement { name: "none", arrange: none, limit: Limit::ReceiveAndDiscard },
];

/// Recordings at the highest rate without loss.
#[derive(Debug, Serialize)]
struct Found {
    name: &'static str,
    rounds: Vec<Round>,
}

#[derive(Debug, Serialize)]
struct Round {
    limit_bytes_per_second: f64,
    #[serde(flatten)]
    point: Point,
}

impl Round {
    fn share(&self) -> f64 {
        self.point.durable_bytes_per_second / self.limit_bytes_per_second
    }
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let mut found = Vec::new();
    for arrangement in ARRANGEMENTS {
        let rounds = rounds(bench, arrangement)?;
        found.push(Found { name: arrangement.name, rounds });
    }
    let share = if bench.quick { |_: f64| "-".to_owned() } else { |share| format!("{share:.2}") };
    let middle = |one: &Found, figure: fn(&Round) -> f64, shown: fn(f64) -> String| match one {
        Found { rounds, .. } if rounds.is_empty() => "-".to_owned(),
        Found { rounds, .. } => shown(median(rounds.iter().map(figure))),
    };
    let table = table(
        &found,
        &[
            ("targets", &|one| one.name.to_owned()),
            ("bytes/s", &|one| middle(one, |round| round.point.bytes_per_second, bytes)),
            ("until durable", &|one| {
                middle(one, |round| round.point.durable_bytes_per_second, bytes)
            }),
            ("receive", &|one| middle(one, |round| round.point.receive_percent, percent)),
            ("build", &|one| middle(one, |round| round.point.build_percent, percent)),
            ("write", &|one| middle(one, |round| round.point.write_percent, percent)),
            ("emulate", &|one| middle(one, |round| round.point.emulate_percent, percent)),
            ("limit", &|one| middle(one, |round| round.limit_bytes_per_second, bytes)),
            ("share", &|one| middle(one, Round::share, share)),
        ],
    );
    let section = Section::new("Highest rate without loss", table)
        .note(
            "Bytes/s: of one target, at the highest rate that lost nothing; until durable: over \
             the time until all was on disk, without what memory holds at the end.",
        )
        .note(
            "Limit: direct write, half of it for two folders, or receive and discard flat out; the \
             mean of right before and right behind each recording. Share: until durable, of its \
             limit; median of the recordings.",
        );
    Report::new("targets", bench, vec![section], &found)
}

/// Recordings at the highest rate without loss, each between two measurements of its limit.
fn rounds(bench: &mut Bench<'_>, arrangement: Arrangement) -> anyhow::Result<Vec<Round>> {
    let seconds = bench.seconds().min(4.0);
    let record = |bench: &mut Bench<'_>, hz| {
        measure_with(bench, Load::FULL, Rate(Some(hz)), seconds, arrangement.arrange)
    };
    // The rounds below confirm the rate.
    let plan = Plan { confirmations: 0, ..Plan::from(20_000.0) };
    let found = bench.highest(arrangement.name, plan, |bench, hz| {
        let point = record(bench, hz)?;
        Ok(Try { reached: point.whole && point.rate_kept, value: () })
    })?;
    let mut rounds = Vec::new();
    let Some((mut hz, _)) = found else { return Ok(rounds) };
    let mut before = limit(bench, arrangement)?;
    for _ in 0..4 * bench.repeats() {
        bench.now(format!("{}, {hz:.0} Hz between two limits", arrangement.name))?;
        let point = record(bench, hz)?;
        let behind = limit(bench, arrangement)?;
        match point.whole && point.rate_kept {
            true => {
                let limit_bytes_per_second = f64::midpoint(before, behind);
                rounds.push(Round { limit_bytes_per_second, point });
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

fn limit(
    bench: &mut Bench<'_>,
    Arrangement { name, limit, .. }: Arrangement,
) -> anyhow::Result<f64> {
    bench.now(format!("{name}, the limit"))?;
    Ok(match limit {
        Limit::DirectWrite(folders) => direct_write_once(bench, None)?.bytes_per_second / folders,
        Limit::ReceiveAndDiscard => discard::flat_out(bench, Load::FULL)?.bytes_per_second,
    })
}

fn two(config: &mut RecorderConfig) {
    let first = TargetConfig::folder("first", config.folder.clone());
    let second = TargetConfig::folder("second", config.folder.join("second"));
    config.targets = vec![first, second];
}

fn none(config: &mut RecorderConfig) {
    let none = TargetConfig::folder("none", config.folder.clone());
    config.targets = vec![TargetConfig { place: Place::None, ..none }];
}
