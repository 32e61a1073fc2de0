//! hades-90 to several targets: one folder, two required ones on one disk, and none.

use catchment_config::Rate;
use catchment_recorder::{Place, RecorderConfig, TargetConfig};
use serde::Serialize;

use crate::Bench;
use crate::discard;
use crate::limits::direct_write;
use crate::point::{Load, Point, measure_with, middle_of};
use crate::report::{Report, Section, bytes, percent, table};
use crate::search::{Plan, Try, median};

/// A set of targets, and the highest rate without loss in them.
#[derive(Debug, Serialize)]
struct Arrangement {
    name: &'static str,
    rounds: Vec<Point>,
    /// Of what the disk, or the receiver, could take of that alone.
    share: Option<f64>,
}

/// How a recorder's targets are set.
type Arrange = fn(&mut RecorderConfig);

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let direct_write = direct_write(bench, None)?.bytes_per_second;
    let received = discard::most(bench, Load::FULL)?.bytes_per_second;
    let folders: [(&'static str, Arrange, f64); 3] = [
        ("one folder", |_| {}, direct_write.min(received)),
        ("two required folders on one disk", two, (direct_write / 2.0).min(received)),
        ("none", none, received),
    ];
    let mut found = Vec::new();
    for (name, arrange, limit) in folders {
        let rounds = highest_of(bench, name, arrange)?;
        let reached = (!rounds.is_empty() && !bench.quick)
            .then(|| median(rounds.iter().map(|point| point.durable_bytes_per_second)));
        found.push(Arrangement { name, rounds, share: reached.map(|bytes| bytes / limit) });
    }
    let table = table(
        &found,
        &[
            ("targets", &|one| one.name.to_owned()),
            ("bytes/s", &|one| middle_of(&one.rounds, |point| point.bytes_per_second, bytes)),
            ("until durable", &|one| {
                middle_of(&one.rounds, |point| point.durable_bytes_per_second, bytes)
            }),
            ("receive", &|one| middle_of(&one.rounds, |point| point.receive_percent, percent)),
            ("build", &|one| middle_of(&one.rounds, |point| point.build_percent, percent)),
            ("write", &|one| middle_of(&one.rounds, |point| point.write_percent, percent)),
            ("emulate", &|one| middle_of(&one.rounds, |point| point.emulate_percent, percent)),
            ("share", &|one| one.share.map_or("-".into(), |share| format!("{share:.2}"))),
        ],
    );
    let section = Section::new("Highest rate without loss", table)
        .note(format!("Direct write alone: {}/s.", bytes(direct_write)))
        .note(format!("Receive and discard: {}/s.", bytes(received)))
        .note(
            "Bytes/s: of one target, at the highest rate that lost nothing; until durable: over \
             the time until all was on disk, without what memory holds at the end. Share: until \
             durable, of direct write, of half of it, of receive and discard.",
        );
    Report::new("targets", bench, vec![section], &found)
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

fn highest_of(
    bench: &mut Bench<'_>,
    name: &'static str,
    arrange: Arrange,
) -> anyhow::Result<Vec<Point>> {
    let found = bench.highest(name, Plan::from(20_000.0), |bench, hz| {
        let seconds = bench.seconds().min(4.0);
        let point = measure_with(bench, Load::FULL, Rate(Some(hz)), seconds, arrange)?;
        Ok(Try { reached: point.whole && point.rate_kept, value: point })
    })?;
    Ok(found.map_or_else(Vec::new, |(_, rounds)| rounds))
}
