//! `bench hades`: the tests that HADES made of its event builder, and how far this one goes.

use catchment_model::units::{Bytes, Count};
use serde::Serialize;

use super::Bench;
use super::discard::{self, Discarded};
use super::limits::{DirectWrite, direct_write};
use super::point::{Load, Point, measure};
use super::report::{Report, Section};
use super::search::{Plan, Try, highest, median};
use crate::config::Rate;
use crate::output::Table;

#[derive(Debug, Serialize)]
struct Figures {
    fixed_rates: Vec<Fixed>,
    highest: Vec<Highest>,
    end_to_end: EndToEnd,
}

/// HADES' tests 2 and 3: a fixed rate, with huge sub-events or without.
#[derive(Debug, Serialize)]
struct Fixed {
    rate_hz: f64,
    huge_every: u64,
    rounds: Vec<Point>,
}

/// The highest rate without loss.
#[derive(Debug, Serialize)]
struct Highest {
    load: &'static str,
    /// The recordings at that rate, none if no rate was reached.
    rounds: Vec<Point>,
    /// The lowest rate above it that was tried and not reached.
    failed: Option<Point>,
}

/// The whole chain beside the slower of its ends.
#[derive(Debug, Serialize)]
struct EndToEnd {
    receive_and_discard: Discarded,
    direct_write: DirectWrite,
    bytes_per_second: Option<f64>,
    share: Option<f64>,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let rates: &[f64] = if bench.quick { &[1_000.0, 4_000.0] } else { &HADES_RATES };
    let huge: &[u64] = if bench.quick { &[0, 1_000] } else { &[0, 10_000, 1_000] };
    let mut fixed_rates = Vec::new();
    for &rate_hz in rates {
        for &huge_every in huge {
            fixed_rates.push(fixed(bench, rate_hz, huge_every)?);
        }
    }
    let mut found = Vec::new();
    for (load, start_hz) in
        [(Load::SEPARATE, 5_000.0), (Load::EQUAL, 14_000.0), (Load::FULL, 30_000.0)]
    {
        found.push(highest_of(bench, load, start_hz)?);
    }
    let end_to_end = end_to_end(bench, &found[2])?;
    let figures = Figures { fixed_rates, highest: found, end_to_end };
    Ok(Report {
        name: "hades",
        quick: bench.quick,
        sections: vec![
            fixed_section(bench, &figures),
            highest_section(bench, &figures),
            chain(&figures),
        ],
        figures: serde_json::to_value(&figures)?,
    })
}

fn fixed(bench: &mut Bench<'_>, rate_hz: f64, huge_every: u64) -> anyhow::Result<Fixed> {
    let load = Load { huge_every, ..Load::FULL };
    let mut rounds = Vec::new();
    for round in 1..=bench.repeats() {
        bench.now(format!("{rate_hz:.0} Hz, huge per {huge_every} events, {round}"))?;
        rounds.push(measure(bench, load, Rate(Some(rate_hz)), bench.seconds())?);
    }
    Ok(Fixed { rate_hz, huge_every, rounds })
}

fn highest_of(bench: &mut Bench<'_>, load: Load, start_hz: f64) -> anyhow::Result<Highest> {
    let name = load.name();
    if bench.quick {
        // One step of the search: that it works, not how far it goes.
        bench.now(format!("{name}, 1000 Hz"))?;
        let point = measure(bench, load, Rate(Some(1_000.0)), bench.seconds())?;
        return Ok(Highest { load: name, rounds: vec![point], failed: None });
    }
    let plan = Plan {
        start_hz,
        most_hz: 10e6,
        step: 1.2,
        halvings: 3,
        confirmations: bench.repeats() as u32,
    };
    let mut failures: Vec<Point> = Vec::new();
    let found = highest(plan, |hz| {
        bench.now(format!("highest rate, {name}, {hz:.0} Hz"))?;
        let point = measure(bench, load, Rate(Some(hz)), 4.0)?;
        let reached = point.whole && point.rate_kept;
        if !reached {
            failures.push(point.clone());
        }
        anyhow::Ok(Try { reached, value: point })
    })?;
    let reached_hz = found.as_ref().map(|&(hz, _)| hz);
    let failed = failures
        .into_iter()
        .filter(|point| point.rate_hz > reached_hz)
        .min_by(|a, b| a.rate_hz.partial_cmp(&b.rate_hz).expect("rates are numbers"));
    let rounds = found.map_or_else(Vec::new, |(_, rounds)| rounds);
    Ok(Highest { load: name, rounds, failed })
}

/// What kept the next rate from being reached.
fn limit(found: &Highest) -> &'static str {
    match &found.failed {
        None => "-",
        Some(point) if point.whole => "sender",
        Some(point) if point.rate_kept => "loss",
        Some(_) => "loss, sender",
    }
}

fn end_to_end(bench: &mut Bench<'_>, full: &Highest) -> anyhow::Result<EndToEnd> {
    let receive_and_discard = discard::most(bench, Load::FULL)?;
    let direct_write = direct_write(bench)?;
    let reached = (!full.rounds.is_empty())
        .then(|| median(full.rounds.iter().map(|point| point.bytes_per_second)));
    let least = receive_and_discard.bytes_per_second.min(direct_write.bytes_per_second);
    // A quick bench did not look for the highest rate.
    let share = reached.filter(|_| !bench.quick).map(|bytes| bytes / least);
    Ok(EndToEnd { receive_and_discard, direct_write, bytes_per_second: reached, share })
}

fn fixed_section(bench: &Bench<'_>, figures: &Figures) -> Section {
    let head = [
        "rate",
        "huge sub-events",
        "bytes/s",
        "discarded",
        "receive",
        "build",
        "write",
        "emulate",
        "memory",
        "queue",
        "HADES: MB/s",
        "receiver",
        "builder",
        "result",
    ];
    let mut table = Table::new(&head);
    for fixed in &figures.fixed_rates {
        let of = |field: fn(&Point) -> f64| median(fixed.rounds.iter().map(field));
        let index = HADES_RATES.iter().position(|&rate| rate == fixed.rate_hz);
        let hades_bytes = index.map_or("", |index| HADES_MEGABYTES[index]);
        let (receiver, builder) = match fixed.rate_hz as u64 {
            1_000 => ("10 %", "12 %"),
            4_000 => ("32 %", "44 %"),
            _ => ("", ""),
        };
        let huge = match fixed.huge_every {
            0 => "none".to_owned(),
            every => format!("1 per {every}"),
        };
        table.row([
            format!("{:.0} kHz", fixed.rate_hz / 1e3),
            huge,
            Bytes(of(|point| point.bytes_per_second) as u64).to_string(),
            format!("{:.2} %", of(|point| point.discarded_percent)),
            format!("{:.0} %", of(|point| point.receive_percent)),
            format!("{:.0} %", of(|point| point.build_percent)),
            format!("{:.0} %", of(|point| point.write_percent)),
            format!("{:.0} %", of(|point| point.emulate_percent)),
            format!("{:.0} %", of(|point| point.segments_percent as f64)),
            format!("{:.0} %", of(|point| point.descriptors_percent as f64)),
            hades_bytes.to_owned(),
            receiver.to_owned(),
            builder.to_owned(),
            if fixed.huge_every == 1_000 { "blocked" } else { "0 % discarded" }.to_owned(),
        ]);
    }
    let notes = vec![
        format!(
            "90 sources on 90 ports, packets of 32 kB, to disk, {:.1} s each, median of {}. \
             Percent of one CPU; the emulator runs on the same machine. Memory and queue: the \
             segments and the descriptors' queue at their fullest.",
            bench.seconds(),
            bench.repeats()
        ),
        "HADES (EventBuilder tests, 2008 to 2010): receiver 10 to 32 % and builder 12 to 44 % from 1 \
         to 4 kHz; huge sub-events of 100 kB there, 60 kB here."
            .into(),
    ];
    Section { title: "Fixed rates".into(), notes, table }
}

fn highest_section(bench: &Bench<'_>, figures: &Figures) -> Section {
    let head = [
        "load",
        "highest rate",
        "packets/s",
        "bytes/s",
        "receive",
        "build",
        "write",
        "emulate",
        "memory",
        "queue",
        "limit",
        "DABC 2.11",
    ];
    let mut table = Table::new(&head);
    let dabc = [
        "8 to 9.5 kHz, 204 to 242 MB/s, a full core",
        "8 to 9.5 kHz, 204 to 242 MB/s, a full core",
        "31 kHz, 794 MB/s, 87 % (32 per packet, no disk); 16 kHz to disk (8 per packet)",
    ];
    for (found, dabc) in figures.highest.iter().zip(dabc) {
        if found.rounds.is_empty() {
            let dashes = std::iter::repeat_n("-".to_owned(), head.len() - 3);
            let ends = [found.load.to_owned(), "none".to_owned()];
            table.row(ends.into_iter().chain(dashes).chain([dabc.to_owned()]));
            continue;
        }
        let of = |field: fn(&Point) -> f64| median(found.rounds.iter().map(field));
        table.row([
            found.load.to_owned(),
            format!("{}Hz", Count(of(|point| point.sent_hz))),
            Count(of(|point| point.packets_per_second)).to_string(),
            Bytes(of(|point| point.bytes_per_second) as u64).to_string(),
            format!("{:.0} %", of(|point| point.receive_percent)),
            format!("{:.0} %", of(|point| point.build_percent)),
            format!("{:.0} %", of(|point| point.write_percent)),
            format!("{:.0} %", of(|point| point.emulate_percent)),
            format!("{:.0} %", of(|point| point.segments_percent as f64)),
            format!("{:.0} %", of(|point| point.descriptors_percent as f64)),
            limit(found).to_owned(),
            dabc.to_owned(),
        ]);
    }
    let how = if bench.quick {
        "Quick: one short recording at a low rate, not the highest."
    } else {
        "Raised until something was lost, halved back, then reached three times in a row: all sent, \
         every event complete, nothing lost, books balanced. Limit: what failed at the next rate \
         tried: the sender did not keep it, or something was lost."
    };
    let title = if bench.quick { "Loss-free at a low rate" } else { "Highest rate without loss" };
    Section { title: title.into(), notes: vec![how.into()], table }
}

fn chain(figures: &Figures) -> Section {
    let mut table = Table::new(&["what", "bytes/s"]);
    let chain = &figures.end_to_end;
    let bytes = |rate: f64| Bytes(rate as u64).to_string();
    table.row(["receive and discard".into(), bytes(chain.receive_and_discard.bytes_per_second)]);
    table.row(["direct write".into(), bytes(chain.direct_write.bytes_per_second)]);
    table.row(["end to end".into(), chain.bytes_per_second.map_or("-".into(), bytes)]);
    let share = chain.share.map_or("-".into(), |share| format!("{share:.2}"));
    table.row(["share of the slower end".into(), share]);
    Section { title: "End to end, packets of 32 kB".into(), notes: Vec::new(), table }
}

/// What HADES tested at, and the data rates that it gave.
const HADES_RATES: [f64; 4] = [1_000.0, 2_000.0, 3_000.0, 4_000.0];
const HADES_MEGABYTES: [&str; 4] = ["23", "46", "69", "95"];
