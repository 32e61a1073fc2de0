//! `bench ligo-record`: ligo-1000 recorded at the highest rate that loses nothing, compressed.

use catchment_console::Table;
use catchment_storage::{Run, Select};
use serde::Serialize;

use crate::Bench;
use crate::ligo_data::Scratch;
use crate::ligo_recording::{Load, Recorded, measure};
use crate::ligo_space::gzip_bytes;
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::{self, Plan, Try, median, percentile};

/// Everything that `bench ligo-record` measures.
#[derive(Debug, Serialize)]
struct Figures {
    coding: String,
    /// The recordings at the highest rate, in the order in which they were made.
    highest: Vec<Recorded>,
    size: Option<Size>,
    without_trends: Vec<Recorded>,
    with_trends: Vec<Recorded>,
    followed: Vec<Recorded>,
    /// Not compressed, and as the recorder compresses unasked, in turn.
    none: Vec<Recorded>,
    auto: Vec<Recorded>,
    /// With frames of 128 s at 6 MB/s.
    long_frames: Option<Recorded>,
}

/// The size of recorded frames, beside that of the same samples by gzip.
#[derive(Debug, Serialize)]
struct Size {
    raw_bytes: u64,
    /// Whole frames: headers and index included.
    frame_bytes: u64,
    gzip_bytes: Option<u64>,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let scratch = Scratch::new(&bench.scratch, "ligo-record")?;
    let folder = scratch.folder.as_path();
    // A short try at a low rate would be one frame.
    let frame_bytes = bench.quick.then_some(1 << 20);
    // With trends so long that the rows that are joined at the end are a small part.
    let (seconds, seconds_slow) = if bench.quick { (1.0, 1.0) } else { (10.0, 30.0) };
    let load = Load { seconds, frame_bytes, ..Load::new() };
    let attempt = |bench: &mut Bench<'_>, rate: f64, follow: bool| {
        let recorded = measure(bench, folder, &Load { rate, follow, ..load })?;
        let reached = recorded.reached() && recorded.compressed();
        anyhow::Ok(Try { reached, value: recorded })
    };
    let plan = Plan { quick: 10e6, most: 10e9, unit: "B/s", ..Plan::from(500e6) };
    let found = bench.highest("ligo-1000", plan, |bench, rate| attempt(bench, rate, false))?;
    let (mut followed, mut failed) = (Vec::new(), false);
    if let Some((highest, _)) = found {
        let mut rate = highest;
        // The same rate with a reader beside it, and less where that cannot be kept twice.
        while followed.len() < bench.repeats() && rate > highest / 16.0 {
            bench.now(format!("ligo-1000 at {:.0} MB/s, followed", rate / 1e6))?;
            match attempt(bench, rate, true)? {
                Try { reached: true, value } => followed.push(value),
                Try { reached: false, .. } => {
                    followed.clear();
                    failed = !failed;
                    rate *= if failed { 1.0 } else { 0.97 };
                }
            }
        }
    }
    let highest = found.map_or_else(Vec::new, |(_, recorded)| recorded);
    bench.now("the same samples by gzip")?;
    let size = size(bench, folder)?;
    let slow = Load { rate: SLOW_RATE, seconds: seconds_slow, ..load };
    let cases = [
        slow,
        Load { trends: true, ..slow },
        Load { coding: "none", ..slow },
        Load { coding: "auto", ..slow },
    ];
    let [without_trends, with_trends, none, auto] =
        bench.in_turn("100 MB/s", cases, |bench, load| measure(bench, folder, &load))?;
    let long_frames = long_frames(bench, folder, &slow)?;
    let coding = load.coding.to_owned();
    let figures = Figures {
        coding,
        highest,
        size,
        without_trends,
        with_trends,
        followed,
        none,
        auto,
        long_frames,
    };
    let recordings = recordings(&figures, load.seconds, seconds_slow);
    let sections = vec![recordings, targets(&figures, bench.quick)];
    Report::new("ligo-record", bench, sections, &figures)
}

/// A recording in frames of 128 s at 6 MB/s.
fn long_frames(
    bench: &mut Bench<'_>,
    folder: &std::path::Path,
    load: &Load<'_>,
) -> anyhow::Result<Option<Recorded>> {
    if bench.quick {
        return Ok(None);
    }
    bench.now("100 MB/s in frames of 768 MB")?;
    let (frame_bytes, memory_bytes) = (Some(LONG_FRAME_BYTES), Some(LONG_FRAME_MEMORY_BYTES));
    let load = Load { frame_bytes, memory_bytes, coding: "auto", ..*load };
    measure(bench, folder, &load).map(Some)
}

/// The size of the frames of one recording, and that of the samples in them by gzip.
fn size(bench: &mut Bench<'_>, folder: &std::path::Path) -> anyhow::Result<Option<Size>> {
    let run = folder.join("kept");
    let load = Load { rate: 50e6, seconds: if bench.quick { 1.0 } else { 6.0 }, ..Load::new() };
    let recorded = measure(bench, folder, &Load { keep: Some(&run), ..load })?;
    if !recorded.reached() {
        return Ok(None);
    }
    let run = Run::open(&run)?;
    let indices: Vec<usize> = (0..run.channels().len()).collect();
    let frames = run.channel_frames();
    let frame_bytes = frames.iter().map(|frame| frame.summary.frame_bytes).sum();
    let segments = run.read_many(&indices, &Select::All)?;
    let pieces = || segments.iter().flatten().map(|segment| segment.bytes.as_slice());
    let raw_bytes = pieces().map(|bytes| bytes.len() as u64).sum();
    Ok(Some(Size { raw_bytes, frame_bytes, gzip_bytes: gzip_bytes(pieces())? }))
}

fn recordings(figures: &Figures, seconds: f64, seconds_slow: f64) -> Section {
    let rows = [
        ("highest rate", figures.highest.as_slice()),
        ("the same, followed", &figures.followed),
        ("100 MB/s", &figures.without_trends),
        ("100 MB/s, trends", &figures.with_trends),
        ("100 MB/s, none", &figures.none),
        ("100 MB/s, auto", &figures.auto),
        ("100 MB/s, auto, frames of 768 MB", figures.long_frames.as_slice()),
    ];
    let rows = rows.into_iter().filter_map(|(name, all)| Some((name, middle(all)?)));
    let of_raw = |part: u64, one: &Recorded| part as f64 * 100.0 / one.sample_bytes.max(1) as f64;
    let times = |one: &Recorded| one.bytes_per_second / one.real_time_bytes_per_second;
    let threads = |one: &Recorded| {
        let all = one.threads.iter().map(|(name, percent)| format!("{name} {percent:.0}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let table = table(
        rows,
        &[
            ("recording", &|(name, _)| (*name).to_owned()),
            ("raw samples/s", &|(_, one)| bytes(one.bytes_per_second)),
            ("to disk", &|(_, one)| bytes(one.bytes_per_second_to_disk)),
            ("times real time", &|(_, one)| format!("{:.0}", times(one))),
            ("files", &|(_, one)| percent(of_raw(one.file_bytes, one))),
            ("lowered", &|(_, one)| percent(of_raw(one.lowered_bytes, one))),
            ("frames up to", &|(_, one)| format!("{:.0} s", one.frame_s)),
            ("recorder", &|(_, one)| percent(one.recorder_percent)),
            ("threads", &|(_, one)| threads(one)),
            ("emulate", &|(_, one)| percent(one.emulate_percent)),
            ("lost", &|(_, one)| String::from(if one.whole { "nothing" } else { "data" })),
        ],
    );
    let coding = &figures.coding;
    Section::new("Recording ligo-1000", table)
        .note(format!(
            "1,000 channels over {LINKS} links on this machine, {seconds} s each (at 100 MB/s \
             {seconds_slow} s), emulator and recorder on the same CPUs; {coding} unless said \
             otherwise. A rate is reached if the \
             emulator kept it, every slice is in the files, nothing is lost in any unit, the books \
             balance and 99 % of the samples are compressed as asked: beyond, the recorder gives up \
             compression before it loses anything. Three times in a row, the middle one is shown. \
             Percent of one CPU."
        ))
        .note(
        "To disk: the same samples over the time until the last file was closed. The recorder's CPU \
         time until then is given in percent of the time of sending; it may use 2 GiB of memory, \
         and 5 GiB for frames of 768 MB, which is 128 s at 6 MB/s.",
        )
        .note(
        "Files: bytes of the files in percent of the samples. Lowered: samples that were stored with \
         less compression than asked for, because time was short.",
        )
        .note(
        "Followed: another thread follows the run, looks every 10 ms, and reads one channel of 16 kHz \
         of every frame as it comes.",
        )
}

fn targets(figures: &Figures, quick: bool) -> Section {
    let mut table = Table::new(&["target", "measured", "asked", "result"]);
    let met = |reached| met(quick, reached);
    if let Some(one) = middle(&figures.highest) {
        let rate = one.bytes_per_second_to_disk;
        table.row([
            "highest rate without loss, compressed, until all is on disk".into(),
            format!("{} raw per second", bytes(rate)),
            "700 MB".into(),
            met(rate >= 700e6),
        ]);
        let whole = one.file_bytes as f64 / one.sample_bytes.max(1) as f64;
        if let Some(Size { raw_bytes, frame_bytes, gzip_bytes: Some(gzip) }) = figures.size {
            let [ours, gzip] = [frame_bytes, gzip].map(|bytes| bytes as f64 / raw_bytes as f64);
            for (name, share) in [("at that rate", whole), ("at 50 MB/s", ours)] {
                table.row([
                    format!("compressed size {name} against gzip -1"),
                    format!("{:.1} % of raw against {:.1} %", share * 100.0, gzip * 100.0),
                    "10 % below".into(),
                    met(share <= gzip * 0.9),
                ]);
            }
        }
        if let Some(other) = middle(&figures.followed) {
            let share = other.bytes_per_second_to_disk / rate;
            table.row([
                "writer slowed by a follower".into(),
                format!("{:.1} % (highest rates that lose nothing)", (1.0 - share) * 100.0),
                "below 5 %".into(),
                met(share >= 0.95),
            ]);
        }
        let seen: Vec<f64> =
            figures.followed.iter().flat_map(|one| one.seen_after_ms.iter().copied()).collect();
        if !seen.is_empty() {
            let late = percentile(99.0, seen.iter().copied());
            table.row([
                format!("frame seen by a follower after its write ({} frames)", seen.len()),
                format!("median {:.0} ms, 99th percentile {late:.0} ms", median(seen)),
                "100 ms".into(),
                met(late <= 100.0),
            ]);
        }
    }
    let percent = |all: &[Recorded]| median(all.iter().map(|one| one.recorder_percent));
    if !figures.with_trends.is_empty() {
        let [without, with] = [&figures.without_trends, &figures.with_trends].map(|a| percent(a));
        table.row([
            "trends at 100 MB/s".into(),
            format!("{:.1} % of a core ({with:.1} less {without:.1} %)", with - without),
            "below 10 %".into(),
            met(with - without < 10.0),
        ]);
    }
    Section::new("Targets", table)
}

fn middle(recorded: &[Recorded]) -> Option<&Recorded> {
    let all = || search::middle(recorded.iter().collect(), |one: &&Recorded| one.bytes_per_second);
    (!recorded.is_empty()).then(all)
}

pub(crate) const LINKS: usize = 4;
/// 128 s at 6 MB/s.
const LONG_FRAME_BYTES: u64 = 768_000_000;
/// A frame is cut at a quarter of the channels' memory, which is three quarters of all but disk
/// buffers.
const LONG_FRAME_MEMORY_BYTES: u64 = 5 << 30;
/// A rate that everything keeps.
const SLOW_RATE: f64 = 100e6;
