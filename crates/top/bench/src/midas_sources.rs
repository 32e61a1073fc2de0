//! Front-ends of many sources, and many front-ends: whole events to disk, as fast as they go; and
//! sub-events of 100 kB between them, at which a published event builder blocked.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::Bench;
use crate::front_ends::{LARGE_RING_BYTES, LONG_EVERY, Order, Pair, RING_BYTES};
use crate::report::{Section, bytes, met, table};
use crate::search::middle;

/// Bytes of a fragment: with 90 sources, HADES' mean event.
const BYTES: usize = 338;
/// One fragment of a source in [`LONG_EVERY`] is long.
const LONG_BYTES: usize = 100_000;
/// Of the runs with long fragments, which are those of reference 001: events per second.
const LONG_RATES: [u32; 2] = [1_000, 4_000];
/// Nobody is blocked: no send waits for longer. The ring lasts for 0.4 s at 4 kHz.
const SEND_MS_MAX: f64 = 100.0;
/// The part of its rate that is reached, until everything is durable.
const RATE_KEPT: f64 = 0.9;
/// The least ring of one front-end of many.
const RING_BYTES_MIN: u64 = 1 << 20;
/// Descriptors of a front-end in its process, at most, and in the recorder.
const DESCRIPTORS: u64 = 8;

/// So many front-ends with so many sources each.
#[derive(Clone, Copy, Debug, Serialize)]
struct Case {
    front_ends: u32,
    sources: u32,
    /// With long fragments: events per second. Otherwise as many as go.
    long_rate_hz: Option<u32>,
}

/// Events of all front-ends.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Events {
    #[serde(flatten)]
    case: Case,
    events: u64,
    /// From the first event until all were durable.
    events_per_second: f64,
    bytes_per_second: f64,
    /// Core-seconds per second of both processes.
    front_ends_cores: f64,
    recorder_cores: f64,
    /// How long a front-end waited for room at most.
    longest_send_ms: f64,
}

const fn one(sources: u32, long_rate_hz: Option<u32>) -> Case {
    Case { front_ends: 1, sources, long_rate_hz }
}

const fn each(front_ends: u32, long_rate_hz: Option<u32>) -> Case {
    Case { front_ends, sources: 1, long_rate_hz }
}

const CASES: [Case; 11] = [
    one(90, None),
    one(128, None),
    one(1_000, None),
    one(4_000, None),
    each(90, None),
    each(128, None),
    each(1_000, None),
    one(90, Some(LONG_RATES[0])),
    one(90, Some(LONG_RATES[1])),
    each(90, Some(LONG_RATES[0])),
    each(90, Some(LONG_RATES[1])),
];

pub(crate) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Events>> {
    let mut all = Vec::new();
    let descriptors = catchment_net::raise_open_files();
    for case in CASES {
        // A quick bench does the same with fewer.
        let is_quick_enough = !bench.quick || case.front_ends < 1_000;
        if !is_quick_enough || u64::from(case.front_ends) * DESCRIPTORS > descriptors {
            continue;
        }
        let rounds = bench.rounds(case, |bench| send(bench, case))?;
        all.push(middle(rounds, |events| match case.long_rate_hz {
            // The rate is given.
            Some(_) => events.longest_send_ms,
            None => events.events_per_second,
        }));
    }
    Ok(all)
}

fn send(bench: &mut Bench<'_>, case: Case) -> anyhow::Result<Events> {
    let Case { front_ends, sources, long_rate_hz } = case;
    let ring_bytes = match front_ends {
        1 => RING_BYTES,
        _ => (LARGE_RING_BYTES / u64::from(front_ends)).max(RING_BYTES_MIN),
    };
    let order = Order {
        front_ends,
        sources,
        long_bytes: long_rate_hz.map(|_| LONG_BYTES),
        rate_hz: long_rate_hz.map(f64::from),
        ..Order::plain(BYTES, ring_bytes, bench.seconds())
    };
    let mut pair = Pair::begin(bench, order, |_| {})?;
    let (sent, recorder) = pair.sent()?;
    pair.end(bench, &case.to_string())?;
    Ok(Events {
        case,
        events: sent.events,
        events_per_second: sent.events as f64 / sent.seconds,
        bytes_per_second: sent.bytes as f64 / sent.seconds,
        front_ends_cores: sent.cpu_seconds / sent.seconds,
        recorder_cores: recorder / sent.seconds,
        longest_send_ms: sent.longest_send_ms,
    })
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { front_ends, sources, long_rate_hz } = self;
        write!(f, "{front_ends} x {sources} sources")?;
        long_rate_hz.map_or(Ok(()), |hz| write!(f, ", some of 100 kB, {hz} Hz"))
    }
}

pub(crate) fn section(quick: bool, rows: &[Events]) -> Section {
    let all = |case: Case| case.front_ends * case.sources;
    let long = |row: &Events| {
        let text = |hz| format!("1 in {LONG_EVERY} of 100 kB, {} kHz", f64::from(hz) / 1e3);
        row.case.long_rate_hz.map_or_else(String::new, text)
    };
    let asked = |row: &Events| match row.case.long_rate_hz {
        Some(hz) => {
            let is_kept = row.events_per_second >= RATE_KEPT * f64::from(hz);
            met(quick, is_kept && row.longest_send_ms <= SEND_MS_MAX)
        }
        None => String::new(),
    };
    let table = table(
        rows,
        &[
            ("front-ends", &|row| row.case.front_ends.to_string()),
            ("sources", &|row| all(row.case).to_string()),
            ("events/s", &|row| format!("{:.0}", row.events_per_second)),
            ("fragments/s", &|row| {
                format!("{:.0}", row.events_per_second * f64::from(all(row.case)))
            }),
            ("bytes/s", &|row| bytes(row.bytes_per_second)),
            ("front-ends' cores", &|row| format!("{:.2}", row.front_ends_cores)),
            ("recorder's", &|row| format!("{:.2}", row.recorder_cores)),
            ("longest send", &|row| format!("{:.1} ms", row.longest_send_ms)),
            ("<= 100 ms", &|row| asked(row)),
            ("", &|row| long(row)),
        ],
    );
    let left_out = CASES.len() - rows.len();
    let section = Section::new("Many sources, many front-ends, until durable", table).note(format!(
        "Each event has a fragment of {BYTES} bytes from each source; nothing was lost. Sources of \
         one front-end share 16 connections in the order of their keys; each of several has a \
         session, a data connection, a thread and a ring (at least {} MiB) of its own, all in one \
         process, in which one thread sends for all. Longest send: how long a front-end waited \
         for room; asked of the runs with long fragments, in which nobody is to be blocked, and \
         nine tenths of the rate are to be reached.",
        RING_BYTES_MIN >> 20
    ));
    match left_out {
        0 => section,
        _ if quick => section,
        _ => section.note(format!("Too few descriptors for {left_out} of the cases.")),
    }
}
