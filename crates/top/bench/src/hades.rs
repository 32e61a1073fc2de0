//! `bench hades`: the tests that HADES made of its event builder, and how far this one goes.

use catchment_config::Rate;
use catchment_console::Table;
use catchment_model::units::Count;
use serde::Serialize;

use crate::Bench;
use crate::discard::{self, Discarded};
use crate::limits::{DirectWrite, direct_write};
use crate::point::{Load, Point, measure, middle_of};
use crate::report::{Report, Section, bytes, percent, table};
use crate::search::{Plan, Try, median};

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
    let mut sections = vec![
        fixed_section(bench, &figures),
        memory_section(&figures),
        highest_section(bench, &figures),
        chain(&figures),
    ];
    // A quick bench has no load that HADES gives its memory for.
    sections.retain(|section| !section.table.rows.is_empty());
    Report::new("hades", bench, sections, &figures)
}

fn fixed(bench: &mut Bench<'_>, rate_hz: f64, huge_every: u64) -> anyhow::Result<Fixed> {
    let load = Load { huge_every, ..Load::FULL };
    let rounds = bench
        .rounds(format!("{rate_hz:.0} Hz, huge per {huge_every} events"), |bench| {
            measure(bench, load, Rate(Some(rate_hz)), bench.seconds())
        })?;
    Ok(Fixed { rate_hz, huge_every, rounds })
}

fn highest_of(bench: &mut Bench<'_>, load: Load, start_hz: f64) -> anyhow::Result<Highest> {
    let name = load.name();
    let mut failures: Vec<Point> = Vec::new();
    let found = bench.highest(name, Plan::from(start_hz), |bench, hz| {
        let point = measure(bench, load, Rate(Some(hz)), bench.seconds().min(4.0))?;
        let reached = point.whole && point.rate_kept;
        if !reached && !bench.quick {
            failures.push(point.clone());
        }
        Ok(Try { reached, value: point })
    })?;
    let reached_hz = found.as_ref().map(|&(hz, _)| hz);
    let failed = failures
        .into_iter()
        .filter(|point| point.rate_hz > reached_hz)
        .min_by(|a, b| a.rate_hz.partial_cmp(&b.rate_hz).expect("rates are numbers"));
    let rounds = found.map_or_else(Vec::new, |(_, rounds)| rounds);
    Ok(Highest { load: name, rounds, failed })
}

/// The reason why the next rate was not reached.
fn limit(found: &Highest) -> &'static str {
    match &found.failed {
        _ if found.rounds.is_empty() => "-",
        None => "-",
        Some(point) if point.whole => "sender",
        Some(point) if point.rate_kept => "loss",
        Some(_) => "loss, sender",
    }
}

fn end_to_end(bench: &mut Bench<'_>, full: &Highest) -> anyhow::Result<EndToEnd> {
    let receive_and_discard = discard::most(bench, Load::FULL)?;
    let direct_write = direct_write(bench, None)?;
    let reached = (!full.rounds.is_empty())
        .then(|| median(full.rounds.iter().map(|point| point.durable_bytes_per_second)));
    let least = receive_and_discard.bytes_per_second.min(direct_write.bytes_per_second);
    // A quick bench did not look for the highest rate.
    let share = reached.filter(|_| !bench.quick).map(|bytes| bytes / least);
    Ok(EndToEnd { receive_and_discard, direct_write, bytes_per_second: reached, share })
}

fn fixed_section(bench: &Bench<'_>, figures: &Figures) -> Section {
    let of =
        |fixed: &Fixed, field| median(fixed.rounds.iter().map::<f64, fn(&Point) -> f64>(field));
    let hades = |fixed: &Fixed, field: fn(Hades) -> &'static str| {
        Hades::at(fixed).map_or("", field).to_owned()
    };
    let table = table(
        &figures.fixed_rates,
        &[
            ("rate", &|one| format!("{:.0} kHz", one.rate_hz / 1e3)),
            ("huge sub-events", &|one| match one.huge_every {
                0 => "none".to_owned(),
                every => format!("1 per {every}"),
            }),
            ("bytes/s", &|one| bytes(of(one, |point| point.bytes_per_second))),
            ("discarded", &|one| format!("{:.2} %", of(one, |point| point.discarded_percent))),
            ("receive", &|one| percent(of(one, |point| point.receive_percent))),
            ("build", &|one| percent(of(one, |point| point.build_percent))),
            ("write", &|one| percent(of(one, |point| point.write_percent))),
            ("emulate", &|one| percent(of(one, |point| point.emulate_percent))),
            ("load", &|one| format!("{:.2}", of(one, load))),
            ("memory", &|one| percent(of(one, |point| point.segments_percent as f64))),
            ("queue", &|one| percent(of(one, |point| point.descriptors_percent as f64))),
            ("HADES: MB/s", &|one| hades(one, |row| row.megabytes)),
            ("receiver", &|one| hades(one, |row| row.receiver)),
            ("builder", &|one| hades(one, |row| row.builder)),
            ("load", &|one| hades(one, |row| row.load)),
            ("buffers: receiver, builder", &|one| {
                Hades::at(one)
                    .map_or_else(String::new, |row| format!("{}, {}", row.received, row.built))
            }),
            ("result", &|one| Hades::at(one).map_or("blocked", |_| "0 % discarded").to_owned()),
        ],
    );
    Section::new("Fixed rates", table)
        .note(format!(
            "90 sources on 90 ports, packets of 32 kB, to disk, {:.1} s each, median of {}. \
             Percent of one CPU; the emulator runs on the same machine. Load: receive, build and \
             write together, in CPUs. Memory and queue: the segments and the descriptors' queue at \
             their fullest.",
            bench.seconds(),
            bench.repeats()
        ))
        .note(
        "HADES: tests 2 (no huge sub-events) and 3 (1 per 10,000) of its event builder, 2008 to 2010, \
         nothing written: daq_netmem as the receiver, daq_evtbuild as the builder, load, and how full \
         their buffers were. Of 1 per 1,000 it says no more than that daq_evtbuild was blocked and \
         daq_netmem's buffers full, at no rate in particular. Huge sub-events of 100 kB there, 60 kB \
         here.",
        )
}

fn load(point: &Point) -> f64 {
    (point.receive_percent + point.build_percent + point.write_percent) / 100.0
}

/// How much memory waiting data took, beside HADES' test 3.
fn memory_section(figures: &Figures) -> Section {
    let head =
        ["rate", "sources", "buffer", "HADES: builder", "receiver", "all sources", "Catchment"];
    let mut table = Table::new(&head);
    for fixed in figures.fixed_rates.iter().filter(|fixed| fixed.huge_every == 10_000) {
        let Some(index) = HADES_RATES.iter().position(|&rate| rate == fixed.rate_hz) else {
            continue;
        };
        let groups = HADES_GROUPS.iter().zip(&HADES_FILLS[index]);
        let all: f64 =
            groups.clone().map(|(group, (built, received))| group.1 * (built + received)).sum();
        let ours = median(fixed.rounds.iter().map(|point| point.segments_bytes as f64));
        for (index, ((sources, _, buffer), (built, received))) in groups.enumerate() {
            let once = |text: String| if index == 0 { text } else { String::new() };
            table.row([
                once(format!("{:.0} kHz", fixed.rate_hz / 1e3)),
                (*sources).to_owned(),
                format!("{buffer} MB"),
                format!("{built} MB"),
                format!("{received} MB"),
                once(bytes(all * 1e6)),
                once(bytes(ours)),
            ]);
        }
    }
    Section::new("Memory in use", table).note(
        "HADES has two buffers per source, of the builder and of the receiver, and gives what is \
         filled of each; \"all sources\" is their sum over 90. Catchment has one memory for all \
         sources: the most of it that was in use, with one huge sub-event per 10,000.",
    )
}

/// A row of HADES' tables.
#[derive(Clone, Copy)]
struct Hades {
    megabytes: &'static str,
    builder: &'static str,
    receiver: &'static str,
    load: &'static str,
    built: &'static str,
    received: &'static str,
}

impl Hades {
    /// Its test of that load; none where it was blocked, or at another rate.
    fn at(fixed: &Fixed) -> Option<Self> {
        let index = HADES_RATES.iter().position(|&rate| rate == fixed.rate_hz)?;
        let row = match fixed.huge_every {
            0 => HADES_TEST_2[index],
            10_000 => HADES_TEST_3[index],
            _ => return None,
        };
        let [megabytes, builder, receiver, load, built, received] = row;
        Some(Self { megabytes, builder, receiver, load, built, received })
    }
}

fn highest_section(bench: &Bench<'_>, figures: &Figures) -> Section {
    let dabc = [
        "8 to 9.5 kHz, 204 to 242 MB/s, a full core",
        "8 to 9.5 kHz, 204 to 242 MB/s, a full core",
        "31 kHz, 794 MB/s, 87 % (32 per packet, no disk); 16 kHz to disk (8 per packet)",
    ];
    let of = |found: &Highest, field, shown| middle_of(&found.rounds, field, shown);
    let table = table(
        figures.highest.iter().zip(dabc),
        &[
            ("load", &|(one, _)| one.load.to_owned()),
            ("highest rate", &|(one, _)| match one.rounds.as_slice() {
                [] => "none".to_owned(),
                _ => of(one, |point| point.sent_hz, |hz| format!("{}Hz", Count(hz))),
            }),
            ("packets/s", &|(one, _)| {
                of(one, |point| point.packets_per_second, |rate| Count(rate).to_string())
            }),
            ("bytes/s", &|(one, _)| of(one, |point| point.bytes_per_second, bytes)),
            ("receive", &|(one, _)| of(one, |point| point.receive_percent, percent)),
            ("build", &|(one, _)| of(one, |point| point.build_percent, percent)),
            ("write", &|(one, _)| of(one, |point| point.write_percent, percent)),
            ("emulate", &|(one, _)| of(one, |point| point.emulate_percent, percent)),
            ("memory", &|(one, _)| of(one, |point| point.segments_percent as f64, percent)),
            ("queue", &|(one, _)| of(one, |point| point.descriptors_percent as f64, percent)),
            ("limit", &|(one, _)| limit(one).to_owned()),
            ("DABC 2.11", &|(_, dabc)| (*dabc).to_owned()),
        ],
    );
    let how = if bench.quick {
        "Quick: one short recording at a low rate, not the highest."
    } else {
        "Raised until something was lost, halved back, then reached three times in a row: all sent, \
         every event complete, nothing lost, books balanced. Limit: what failed at the next rate \
         tried: the sender did not keep it, or something was lost."
    };
    let title = if bench.quick { "Loss-free at a low rate" } else { "Highest rate without loss" };
    Section::new(title, table).note(how)
}

fn chain(figures: &Figures) -> Section {
    let mut table = Table::new(&["what", "bytes/s"]);
    let chain = &figures.end_to_end;
    table.row(["receive and discard".into(), bytes(chain.receive_and_discard.bytes_per_second)]);
    table.row(["direct write".into(), bytes(chain.direct_write.bytes_per_second)]);
    table.row([
        "end to end, until durable".into(),
        chain.bytes_per_second.map_or("-".into(), bytes),
    ]);
    let share = chain.share.map_or("-".into(), |share| format!("{share:.2}"));
    table.row(["share of the slower end".into(), share]);
    Section::new("End to end, packets of 32 kB", table)
}

/// The rates of HADES' tests.
const HADES_RATES: [f64; 4] = [1_000.0, 2_000.0, 3_000.0, 4_000.0];
/// Its tests 2 and 3, by rate: MB/s, CPU of builder and receiver, load, fill of their buffers.
const HADES_TEST_2: [[&str; 6]; 4] = [
    ["23", "12 %", "10 %", "0.5", "10 %", "5 %"],
    ["46", "20 %", "19 %", "0.6", "10 %", "10 %"],
    ["69", "30 %", "28 %", "0.7", "20 %", "10 to 20 %"],
    ["95", "44 %", "32 %", "0.9", "20 to 30 %", "20 %"],
];
const HADES_TEST_3: [[&str; 6]; 4] = [
    ["23", "12 %", "10 %", "0.5", "20 %", "10 %"],
    ["46", "20 %", "18 %", "0.5", "20 %", "15 %"],
    ["69", "33 %", "29 %", "0.6", "20 %", "15 %"],
    ["95", "42 %", "35 %", "0.9", "20 to 30 %", "20 %"],
];
/// Its groups of sources in test 3: which, how many, MB of each buffer.
const HADES_GROUPS: [(&str, f64, u32); 3] =
    [("0 to 59", 60.0, 8), ("60 to 79", 20.0, 16), ("80 to 89", 10.0, 64)];
/// MB filled of the builder's and the receiver's buffer of a source, by rate and group.
const HADES_FILLS: [[(f64, f64); 3]; 4] = [
    [(1.6, 0.8), (3.2, 1.6), (12.8, 6.4)],
    [(1.6, 1.2), (3.2, 2.4), (12.8, 9.6)],
    [(1.6, 1.2), (3.2, 2.4), (12.8, 9.6)],
    [(1.6, 1.6), (4.8, 3.2), (19.2, 12.8)],
];
