//! A front-end at the rate of reference 000, to a folder that takes its time: files that take 2 s
//! to close, writes that stand still for 5 s now and then, and once for a minute.
//!
//! A disk with injected faults stands in for a network file system.

use std::time::{Duration, Instant};

use catchment_console::need_space;
use catchment_disk::{FaultControl, FaultPlan};
use catchment_recorder::{Fill, RecorderConfig};
use serde::Serialize;

use crate::Bench;
use crate::front_ends::{Order, Pair, RING_BYTES};
use crate::report::{Section, bytes, percent, table};

const RATE: f64 = 700e6;
const FRAGMENT_BYTES: usize = 100_000;

/// What the folder does while a front-end sends for so long.
#[derive(Clone, Copy, Debug)]
struct Pauses {
    name: &'static str,
    seconds: f64,
    memory_bytes: u64,
    /// How long each file takes to close.
    close: Duration,
    /// Whether the front-end lets go of what the recorder has taken, so that a pause fills the
    /// recorder's memory, and not the front-end's.
    leaves_when_taken: bool,
    /// From when, for how long, and how often per run nothing is written, in seconds.
    stall: Option<(f64, f64, u32)>,
}

const PAUSES: [Pauses; 3] = [
    Pauses {
        name: "files of 1 GB take 2 s to close",
        seconds: 15.0,
        memory_bytes: 4 << 30,
        close: Duration::from_secs(2),
        leaves_when_taken: false,
        stall: None,
    },
    Pauses {
        name: "nothing is written for 5 s, twice",
        seconds: 20.0,
        memory_bytes: 8 << 30,
        close: Duration::ZERO,
        leaves_when_taken: true,
        stall: Some((2.0, 5.0, 2)),
    },
    Pauses {
        name: "nothing is written for 60 s",
        seconds: 70.0,
        memory_bytes: 12 << 30,
        close: Duration::ZERO,
        leaves_when_taken: true,
        stall: Some((3.0, 60.0, 1)),
    },
];

/// What became of it.
#[derive(Debug, Serialize)]
pub(crate) struct Paused {
    name: &'static str,
    /// Until when the front-end keeps a fragment: *durable* or *taken*.
    kept_until: &'static str,
    bytes_sent: u64,
    /// From the first fragment until all were durable.
    seconds: f64,
    longest_send_ms: f64,
    budget_bytes: u64,
    /// The memory that payload waits in, and how much of it was full.
    chunks_bytes: u64,
    chunks_full_bytes: u64,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<(Section, Vec<Paused>)> {
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for pauses in PAUSES {
        bench.now(pauses.name)?;
        // A front-end that waits for the stall sends no more than the memory holds.
        let most = (RATE * pauses.seconds).min(RATE * 15.0 + pauses.memory_bytes as f64);
        let needed = if bench.quick { 0 } else { most as u64 };
        match need_space(&bench.scratch, needed) {
            Ok(()) => found.push(hold(bench, pauses)?),
            Err(error) => refused.push(format!("Not run: {}: {error}.", pauses.name)),
        }
    }
    let rows = table(
        &found,
        &[
            ("while", &|one| one.name.to_owned()),
            ("kept until", &|one| one.kept_until.to_owned()),
            ("sent", &|one| bytes(one.bytes_sent as f64)),
            ("until durable", &|one| format!("{:.1} s", one.seconds)),
            ("longest pause", &|one| format!("{:.0} ms", one.longest_send_ms)),
            ("budget", &|one| bytes(one.budget_bytes as f64)),
            ("chunks full", &|one| {
                let full = one.chunks_full_bytes as f64;
                format!("{} ({})", bytes(full), percent(full * 100.0 / one.chunks_bytes as f64))
            }),
        ],
    );
    let section = Section::new("A folder that pauses", rows).note(format!(
        "One front-end with fragments of {}, which are due at {}/s, and one required folder of a \
         disk with injected pauses. Longest pause: of a `send`, which waits for its ring of {}. \
         One that keeps its fragments until they are durable waits as soon as its ring is full; \
         one that lets go of what is taken, as MIDAS' front-ends do, as soon as the recorder's \
         memory is. Every fragment was durable, once. Reference 000: 1 to 2 s at each file, \
         interruptions of 3 to 5 s, one time-out of 60 s that ended the logger.",
        bytes(FRAGMENT_BYTES as f64),
        bytes(RATE),
        bytes(RING_BYTES as f64)
    ));
    Ok((refused.into_iter().fold(section, Section::note), found))
}

fn hold(bench: &mut Bench<'_>, pauses: Pauses) -> anyhow::Result<Paused> {
    // A quick bench shows that it works.
    let shorter = if bench.quick { 0.02 } else { 1.0 };
    let memory_bytes = if bench.quick { 512 << 20 } else { pauses.memory_bytes };
    let control = FaultControl::default();
    control.delay_finishes(pauses.close.mul_f64(shorter));
    let faults = FaultPlan { control: control.clone(), ..FaultPlan::default() };
    let change = |config: &mut RecorderConfig| {
        config.memory_bytes = memory_bytes;
        config.write.file_bytes = 1 << 30;
        config.write.faults = Some(faults);
    };
    std::fs::create_dir_all(&bench.scratch)?;
    let made = std::fs::read_dir(&bench.scratch)?.next().is_none();
    let order = Order {
        rate_hz: Some(RATE / FRAGMENT_BYTES as f64),
        leaves_when_taken: pauses.leaves_when_taken,
        ..Order::plain(FRAGMENT_BYTES, RING_BYTES, pauses.seconds * shorter)
    };
    let mut pair = Pair::begin(bench, order, change)?;
    let begin = Instant::now();
    let (sent, _) = std::thread::scope(|scope| {
        scope.spawn(|| stall(&control, pauses, shorter, begin));
        pair.sent()
    })?;
    let summary = pair.end(bench, pauses.name)?;
    if made {
        std::fs::remove_dir(&bench.scratch).ok();
    }
    let chunks = summary.last.fills.iter().find(|fill| fill.name == "segments");
    let of = |figure: fn(&Fill) -> u64| chunks.map_or(0, figure);
    Ok(Paused {
        name: pauses.name,
        kept_until: if pauses.leaves_when_taken { "taken" } else { "durable" },
        bytes_sent: sent.bytes,
        seconds: sent.seconds,
        longest_send_ms: sent.longest_send_ms,
        budget_bytes: memory_bytes,
        chunks_bytes: of(|fill| fill.capacity).max(1),
        chunks_full_bytes: of(|fill| fill.highest),
    })
}

/// Stalls the disk at its times.
fn stall(control: &FaultControl, pauses: Pauses, shorter: f64, begin: Instant) {
    let Some((from, lasts, times)) = pauses.stall else { return };
    let every = pauses.seconds / f64::from(times);
    let wait = |until: f64| {
        let until = Duration::from_secs_f64(until * shorter);
        std::thread::sleep(until.saturating_sub(begin.elapsed()));
    };
    for time in 0..times {
        let at = from + every * f64::from(time);
        wait(at);
        control.stall(true);
        wait(at + lasts);
        control.stall(false);
    }
}
