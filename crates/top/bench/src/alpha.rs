//! `bench alpha`: alpha-72's datagrams, built into events by their times and on disk, beside what
//! this machine receives and discards of the same datagrams, and what it writes.
//!
//! The sender shares the machine, and sends flat out in recordings as it does for the limit. At a
//! fixed rate, whether the sender keeps up depends on whether the kernel's memory for packets
//! happens to be in the cache. That changes within seconds, and changes each limit by up to a
//! factor of three: each recording stands between two measurements of the limits.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use catchment_config::Rate;
use serde::Serialize;

use crate::Bench;
use crate::discard;
use crate::limits::{direct_write_in, direct_write_once};
use crate::point::{Load, Point, measure};
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::median;

/// The datagrams, and events per second in a quick bench.
const LOADS: [(Load, f64); 4] = [
    (Load::alpha(1_400, true), 200.0),
    (Load::alpha(1_400, false), 200.0),
    (Load::alpha(8_900, true), 50.0),
    (Load::alpha(8_900, false), 50.0),
];

/// Bytes of each write while datagrams are received, for up to 3 s: several end in that time.
const AT_ONCE_BYTES: u64 = 256 << 20;

/// Below the table.
const NOTES: [&str; 3] = [
    "64 and 8 boards with clocks of 125 MHz, a window of 1 us, one datagram of each board in \
     an event. In bursts: 64 datagrams of a board and of one length in a row; separate: \
     each of a length of its own, up to an eighth shorter. The emulator runs on the same \
     machine.",
    "Nothing lost; after a recording that lost something the sender keeps a rate 4 % below it. \
     Until durable: over the time until all was on disk. Limits: what is received of a \
     sender that sends flat out, direct writes, and both at once with nothing between \
     them; means of right before and right behind each recording. Core-s/GB: of all \
     threads but the emulator's. Medians of the recordings.",
    "The experiment itself: 1,000 MB/s in datagrams of 1.5 kB by five receivers, on the four \
     cores of a Xeon E3-1245 v6 at 3.7 GHz, all of them full: 4 core-s/GB.",
];

/// Recordings without a loss.
#[derive(Debug, Serialize)]
struct Found {
    load: &'static str,
    rounds: Vec<Round>,
}

#[derive(Debug, Serialize)]
struct Round {
    before: Limits,
    behind: Limits,
    #[serde(flatten)]
    point: Point,
}

/// What the machine can do, in bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
struct Limits {
    received: f64,
    written: f64,
    /// Both at once, with nothing between them.
    at_once: [f64; 2],
}

impl Round {
    /// The mean of right before and right behind.
    fn limit(&self, one: fn(&Limits) -> f64) -> f64 {
        f64::midpoint(one(&self.before), one(&self.behind))
    }

    fn share(&self, limit: f64) -> f64 {
        self.point.durable_bytes_per_second / limit
    }

    /// Of the lower limit of those alone.
    fn share_of_least(&self) -> f64 {
        self.share(self.limit(|limits| limits.received).min(self.limit(|limits| limits.written)))
    }
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let mut found = Vec::new();
    let loads = if bench.quick { &[LOADS[0], LOADS[3]][..] } else { &LOADS };
    for &(load, quick_hz) in loads {
        found.push(Found { load: load.name(), rounds: rounds(bench, load, quick_hz)? });
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
            ("receive and discard", &|one| {
                middle(one, |one| one.limit(|limits| limits.received), bytes)
            }),
            ("share", &|one| {
                middle(one, |one| one.share(one.limit(|limits| limits.received)), share)
            }),
            ("direct write", &|one| middle(one, |one| one.limit(|limits| limits.written), bytes)),
            ("share", &|one| {
                middle(one, |one| one.share(one.limit(|limits| limits.written)), share)
            }),
            ("at once", &|one| {
                let both: [fn(&Limits) -> f64; 2] =
                    [|limits| limits.at_once[0], |limits| limits.at_once[1]];
                both.map(|limit| {
                    let rounds = one.rounds.iter().map(|round| round.limit(limit));
                    bytes(median(rounds))
                })
                .join(", ")
            }),
            ("0.8 of the lower", &|one| match &*one.rounds {
                [] => met(quick, false),
                rounds => met(quick, median(rounds.iter().map(Round::share_of_least)) >= 0.8),
            }),
        ],
    );
    let section = Section::new("Built by time and on disk, of a sender that sends flat out", table);
    let section = NOTES.into_iter().fold(section, |section, note| section.note(note));
    Report::new("alpha", bench, vec![section], &found)
}

/// Recordings without a loss, each between two measurements of the limits.
fn rounds(bench: &mut Bench<'_>, load: Load, quick_hz: f64) -> anyhow::Result<Vec<Round>> {
    let seconds = bench.seconds().min(4.0);
    // A quick recording shows that it works.
    let mut rate = Rate(bench.quick.then_some(quick_hz));
    let mut rounds = Vec::new();
    let mut before = limits(bench, load)?;
    let tries = if bench.quick { 1 } else { 4 * bench.repeats() };
    for _ in 0..tries {
        bench.now(format!("{}, {rate}, between two measurements of the limits", load.name()))?;
        let point = measure(bench, load, rate, seconds)?;
        let behind = limits(bench, load)?;
        match bench.quick || point.whole && point.rate_kept {
            true => rounds.push(Round { before, behind, point }),
            false => rate = Rate(Some(point.sent_hz * 0.96)),
        }
        if rounds.len() == bench.repeats() {
            break;
        }
        before = behind;
    }
    Ok(rounds)
}

/// What is received and discarded, what is written, and both at once.
fn limits(bench: &mut Bench<'_>, load: Load) -> anyhow::Result<Limits> {
    bench.now(format!("{}, the limits", load.name()))?;
    let received = discard::flat_out(bench, load)?.bytes_per_second;
    let written = direct_write_once(bench, None)?.bytes_per_second;
    let is_received = AtomicBool::new(false);
    let scratch = bench.scratch.as_path();
    let at_once = std::thread::scope(|scope| {
        // The disk is busy for as long as datagrams come.
        let writes = scope.spawn(|| {
            let mut rates = Vec::new();
            loop {
                let rate = direct_write_in(scratch, AT_ONCE_BYTES, None)?.bytes_per_second;
                // The last one ends without datagrams, and counts only if there is no other.
                let is_last = is_received.load(Relaxed);
                if !is_last || rates.is_empty() {
                    rates.push(rate);
                }
                if is_last {
                    return anyhow::Ok(median(rates));
                }
            }
        });
        let received = discard::flat_out(bench, load);
        is_received.store(true, Relaxed);
        let failed = |_| Err(anyhow::anyhow!("a thread that writes has panicked"));
        anyhow::Ok([received?.bytes_per_second, writes.join().unwrap_or_else(failed)?])
    })?;
    Ok(Limits { received, written, at_once })
}
