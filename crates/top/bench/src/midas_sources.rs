//! Front-ends of many sources: whole events to disk, as fast as they go; and sub-events of 100 kB
//! between them, at which a published event builder blocked.

use std::time::Instant;

use serde::Serialize;

use crate::Bench;
use crate::midas_dummy::{LOOK, Pair, RING_BYTES, process_seconds, samples};
use crate::report::{Section, bytes, met, table};
use crate::search::middle;

/// Sources of one front-end.
const COUNTS: [usize; 4] = [90, 128, 1_000, 4_000];
/// Bytes of a fragment: with 90 sources, HADES' mean event.
const BYTES: usize = 338;
/// One fragment of a source in so many is long.
const LONG_EVERY: u64 = 1_000;
const LONG_BYTES: usize = 100_000;
/// Of the runs with long fragments, which are those of reference 001: sources, and events per
/// second.
const LONG_SOURCES: usize = 90;
const LONG_RATES: [u32; 2] = [1_000, 4_000];
/// Nobody is blocked: no send waits for longer. The ring lasts for 0.4 s at 4 kHz.
const SEND_MS_MAX: f64 = 100.0;

/// Events of one front-end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Events {
    sources: usize,
    /// With long fragments: events per second. Otherwise as many as go.
    long_rate_hz: Option<u32>,
    events: u64,
    /// From the first event until all were durable.
    events_per_second: f64,
    bytes_per_second: f64,
    /// Core-seconds per second of both sides together.
    cores: f64,
    /// How long the front-end waited for room at most.
    longest_send_ms: f64,
}

pub(crate) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Events>> {
    let mut all = Vec::new();
    let fast = COUNTS.map(|count| (count, None)).into_iter();
    let long = LONG_RATES.map(|rate| (LONG_SOURCES, Some(rate)));
    for (sources, long_rate_hz) in fast.chain(long) {
        let long = long_rate_hz.map_or_else(String::new, |hz| format!(", some of 100 kB, {hz} Hz"));
        let what = format!("{sources} sources{long}");
        let rounds = bench.rounds(&what, |bench| send(bench, sources, long_rate_hz, &what))?;
        all.push(middle(rounds, |events| match long_rate_hz {
            // The rate is given.
            Some(_) => events.longest_send_ms,
            None => events.events_per_second,
        }));
    }
    Ok(all)
}

fn send(
    bench: &mut Bench<'_>,
    sources: usize,
    long_rate_hz: Option<u32>,
    what: &str,
) -> anyhow::Result<Events> {
    let long = long_rate_hz.is_some();
    let (short, huge) = (samples(BYTES, 1), samples(LONG_BYTES, 2));
    let longest = if long { LONG_BYTES } else { BYTES };
    let names: Vec<String> = (0..sources).map(|index| format!("dummy/{index:04}")).collect();
    let pair = Pair::begin_many(bench, &names, longest as u64, RING_BYTES, |_| {})?;
    let handles = pair.front_end.sources();
    let (process, begin) = (process_seconds(), Instant::now());
    let (mut events, mut sent, mut longest_send_ms) = (0, 0, 0.0_f64);
    while begin.elapsed().as_secs_f64() < bench.seconds() && !bench.stop.asked() {
        if let Some(rate_hz) = long_rate_hz {
            let due = events as f64 / f64::from(rate_hz);
            while begin.elapsed().as_secs_f64() < due {
                std::thread::sleep(LOOK);
            }
        }
        for (index, source) in (0_u64..).zip(handles) {
            let is_long = long && (events + 11 * index) % LONG_EVERY == 0;
            let fragment = if is_long { &huge } else { &short };
            let before = Instant::now();
            source.send(events, fragment)?;
            longest_send_ms = longest_send_ms.max(before.elapsed().as_secs_f64() * 1e3);
            sent += fragment.len();
        }
        events += 1;
    }
    pair.wait_until_durable(events, begin);
    let seconds = begin.elapsed().as_secs_f64();
    let cores = (process_seconds() - process) / seconds;
    pair.end(bench, what)?;
    let (events_per_second, bytes_per_second) = (events as f64 / seconds, sent as f64 / seconds);
    Ok(Events {
        sources,
        long_rate_hz,
        events,
        events_per_second,
        bytes_per_second,
        cores,
        longest_send_ms,
    })
}

pub(crate) fn section(quick: bool, rows: &[Events]) -> Section {
    let long = |row: &Events| {
        let text = |hz| format!("1 in 1,000 of 100 kB, {} kHz", f64::from(hz) / 1e3);
        row.long_rate_hz.map_or_else(String::new, text)
    };
    let asked = |row: &Events| match row.long_rate_hz {
        Some(_) => met(quick, row.longest_send_ms <= SEND_MS_MAX),
        None => String::new(),
    };
    let table = table(
        rows,
        &[
            ("sources", &|row| row.sources.to_string()),
            ("events/s", &|row| format!("{:.0}", row.events_per_second)),
            ("fragments/s", &|row| format!("{:.0}", row.events_per_second * row.sources as f64)),
            ("bytes/s", &|row| bytes(row.bytes_per_second)),
            ("cores", &|row| format!("{:.2}", row.cores)),
            ("longest send", &|row| format!("{:.1} ms", row.longest_send_ms)),
            ("<= 100 ms", &|row| asked(row)),
            ("", &|row| long(row)),
        ],
    );
    Section::new("Front-ends of many sources, until durable", table).note(format!(
        "Each event has a fragment of {BYTES} bytes from each source of one front-end; sources \
         share 16 connections in the order of their keys. Cores: of both sides. Longest send: how \
         long the front-end waited for room; asked of the runs with long fragments, in which \
         nobody is to be blocked."
    ))
}
