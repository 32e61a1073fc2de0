//! A front-end that sends as fast as it can, as MIDAS' dummy front-end does, to a recorder on the
//! same machine; and how long a fragment takes until it is durable.

use std::fmt::{self, Display, Formatter};

use catchment_frame::ColumnCoding;
use catchment_model::SourceId;
use catchment_recorder::LINK_SYNC_NS;
use catchment_storage::{Followed, Run};
use serde::Serialize;

use crate::Bench;
use crate::follower::Follower;
use crate::front_ends::{self, Delay, LARGE_RING_BYTES, Order, Pair, RAW, RING_BYTES};
use crate::limits::direct_write;
use crate::loopback::Limits;
use crate::midas_sources;
use crate::report::{Report, Section, bytes, met, table};
use crate::search::{median, middle};

/// Bytes of a fragment, and what MIDAS 2022 reached with it, in GB/s.
const SIZES: [(usize, f64); 4] =
    [(1_000, 0.29), (10_000, 0.72), (100_000, 0.88), (1_000_000, 0.90)];
/// What is asked of ADC samples, in bytes per second and compressed by so much; and where: at sizes
/// of which so many go uncompressed.
const ADC_RATE: f64 = 0.7e9;
const ADC_RATIO: f64 = 1.66;
const ADC_WHERE: f64 = 1.2e9;
/// The rate of reference 000's dummy front-end to disk, in bytes per second.
const REFERENCE: f64 = 700e6;
/// How often a front-end sends while a reader follows, and between those without.
const FOLLOWED_ROUNDS: usize = 5;

/// What a front-end sends.
#[derive(Clone, Copy)]
struct Case {
    fragment_bytes: usize,
    coding: ColumnCoding,
    ring: u64,
    is_followed: bool,
}

impl Case {
    /// Fragments as they are, as fast as it can.
    fn raw(fragment_bytes: usize, ring: u64) -> Self {
        Self { fragment_bytes, coding: RAW, ring, is_followed: false }
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { fragment_bytes, coding, ring, .. } = self;
        write!(f, "{fragment_bytes} bytes, {coding}, a ring of {} MiB", ring >> 20)
    }
}

/// One run of a front-end.
#[derive(Clone, Debug, Serialize)]
struct Sent {
    fragment_bytes: usize,
    coding: String,
    fragments: u64,
    /// From the first fragment until all were durable.
    bytes_per_second: f64,
    /// The means of right before and right behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    /// Bytes of fragments for each byte in the files.
    ratio: f64,
    /// Core-seconds per gigabyte.
    front_end: f64,
    recorder: f64,
}

impl Sent {
    /// Of the smaller limit.
    fn share(&self) -> f64 {
        self.limits.map_or(f64::NAN, |limits| self.bytes_per_second / limits.least())
    }

    fn limit(&self, text: impl Fn(Limits) -> String) -> String {
        self.limits.map_or_else(String::new, text)
    }
}

/// Fragments of 100 kB, as they are, while a reader follows, between runs without one.
#[derive(Debug, Serialize)]
struct WithReader {
    bytes_per_second: Vec<f64>,
    /// Of each over the mean of those without, right before and right behind it.
    ratios: Vec<f64>,
    /// Frames that the reader saw, in all runs.
    frames: u64,
}

#[derive(Debug, Serialize)]
struct Figures {
    /// Direct write alone, with a sync as often as the recorder makes one.
    synced_write: f64,
    /// With a large ring, and with the one that a front-end has unless set.
    raw: Vec<[Sent; 2]>,
    followed: WithReader,
    /// With the ring that a front-end has unless set, and with a large one.
    adc: Vec<[Sent; 2]>,
    delays: Vec<Delay>,
    sources: Vec<midas_sources::Events>,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let synced_write = direct_write(bench, Some(LINK_SYNC_NS))?.bytes_per_second;
    let (mut raw, mut adc) = (Vec::new(), Vec::new());
    for (size, _) in SIZES {
        let [large, unset] = [LARGE_RING_BYTES, RING_BYTES].map(|ring| Case::raw(size, ring));
        let what = format!("{size} bytes");
        let rounds = bench.rounds(what, |bench| between_limits(bench, [large, unset]))?;
        let by_ring =
            |ring: usize| rounds.iter().map(move |round| round[ring].clone()).collect::<Vec<_>>();
        raw.push([0, 1].map(|ring| middle(by_ring(ring), Sent::share)));
        let compressed = [unset, large].map(|case| Case { coding: ColumnCoding::Auto, ..case });
        let what = format!("{size} bytes, auto");
        let rounds = bench.in_turn(what, compressed, |bench, case| Ok(send(bench, case)?.0))?;
        adc.push(rounds.map(|rounds| middle(rounds, |sent| sent.bytes_per_second)));
    }
    let followed = followed(bench)?;
    let mut delays = Vec::new();
    for share in [0.05, 0.5, 0.8] {
        let most = raw[1][0].bytes_per_second;
        bench.now(format!("until durable, {share} of the highest rate"))?;
        delays.push(front_ends::delay(bench, share * most, |_| {})?);
    }
    let sources = midas_sources::measure(bench)?;
    let figures = Figures { synced_write, raw, followed, adc, delays, sources };
    let sections = vec![
        raw_table(bench, &figures),
        adc_table(bench, &figures),
        delay_table(&figures),
        midas_sources::section(bench.quick, &figures.sources),
    ];
    Report::new("midas-dummy", bench, sections, &figures)
}

/// Reads the index of a frame and its newest fragment, as a display does.
fn read_newest(run: &Run, frame: &Followed) -> anyhow::Result<bool> {
    let &Followed::Events(frame) = frame else { return Ok(false) };
    let rows = run.events(frame)?.len();
    let newest = rows.checked_sub(1);
    newest.map(|row| run.fragment_part(frame, SourceId(0), row, 0..u64::MAX)).transpose()?;
    Ok(rows > 0)
}

/// Runs in turn, each between two measurements of each limit.
fn between_limits<const N: usize>(
    bench: &mut Bench<'_>,
    cases: [Case; N],
) -> anyhow::Result<Vec<Sent>> {
    let mut before = Limits::measure(bench)?;
    let mut all = Vec::with_capacity(N);
    for case in cases {
        let (sent, _) = send(bench, case)?;
        let behind = Limits::measure(bench)?;
        all.push(Sent { limits: Some(before.mean(behind)), ..sent });
        before = behind;
    }
    Ok(all)
}

/// Runs with a reader, each between two without.
fn followed(bench: &mut Bench<'_>) -> anyhow::Result<WithReader> {
    let without = Case::raw(100_000, LARGE_RING_BYTES);
    let with = Case { is_followed: true, ..without };
    let mut found = WithReader { bytes_per_second: Vec::new(), ratios: Vec::new(), frames: 0 };
    bench.now("100 kB, before it is followed")?;
    let (mut before, _) = send(bench, without)?;
    for round in 1..=if bench.quick { 1 } else { FOLLOWED_ROUNDS } {
        bench.now(format!("100 kB, followed, {round}"))?;
        let (sent, frames) = send(bench, with)?;
        let (behind, _) = send(bench, without)?;
        let mean = f64::midpoint(before.bytes_per_second, behind.bytes_per_second);
        found.bytes_per_second.push(sent.bytes_per_second);
        found.ratios.push(sent.bytes_per_second / mean);
        found.frames += frames;
        before = behind;
    }
    Ok(found)
}

/// Also returns how many frames a reader has seen that followed.
fn send(bench: &mut Bench<'_>, case: Case) -> anyhow::Result<(Sent, u64)> {
    let Case { fragment_bytes, coding, ring, is_followed } = case;
    // What is in the ring is recorded when the time is over: a quick bench has less to wait for.
    let ring = if bench.quick { ring / 8 } else { ring };
    let order = Order::plain(fragment_bytes, ring, bench.seconds());
    let mut pair = Pair::begin(bench, order, |config| config.frame.codings = coding.into())?;
    let follower = is_followed.then(|| Follower::start(pair.folder(), read_newest));
    let (sent, recorder) = pair.sent()?;
    let seen = follower.map(Follower::finish).transpose()?;
    let summary = pair.end(bench, &case.to_string())?;
    let bytes = sent.bytes as f64;
    let measured = Sent {
        fragment_bytes,
        coding: coding.to_string(),
        fragments: sent.events,
        bytes_per_second: bytes / sent.seconds,
        limits: None,
        ratio: bytes / summary.last.counts.bytes_written.max(1) as f64,
        front_end: sent.cpu_seconds / bytes * 1e9,
        recorder: recorder / bytes * 1e9,
    };
    Ok((measured, seen.map_or(0, |seen| seen.len() as u64)))
}

fn raw_table(bench: &Bench<'_>, figures: &Figures) -> Section {
    // Half of what is asked from 10 kB on.
    let asked = |sent: &Sent| if sent.fragment_bytes < 10_000 { 0.4 } else { 0.8 };
    let table = table(
        figures.raw.iter().zip(SIZES).map(|([sent, unset], (_, midas))| (sent, unset, midas)),
        &[
            ("fragment", &|(sent, ..)| bytes(sent.fragment_bytes as f64)),
            ("bytes/s", &|(sent, ..)| bytes(sent.bytes_per_second)),
            ("TCP", &|(sent, ..)| sent.limit(|limits| bytes(limits.tcp))),
            ("direct write", &|(sent, ..)| sent.limit(|limits| bytes(limits.direct_write))),
            ("at once", &|(sent, ..)| sent.limit(Limits::at_once_text)),
            ("share", &|(sent, ..)| format!("{:.2}", sent.share())),
            ("asked", &|(sent, ..)| {
                format!("{:.1} {}", asked(sent), met(bench.quick, sent.share() >= asked(sent)))
            }),
            ("front-end", &|(sent, ..)| format!("{:.2}", sent.front_end)),
            ("recorder", &|(sent, ..)| format!("{:.2}", sent.recorder)),
            ("64 MiB", &|(_, unset, _)| {
                format!("{}, {:.2}", bytes(unset.bytes_per_second), unset.share())
            }),
            ("MIDAS 2022", &|(.., midas)| format!("{midas} GB")),
        ],
    );
    Section::new("A front-end to disk, until durable", table)
        .note(format!(
            "TCP loopback and direct write, each alone and both at once with nothing between them: \
             the means of right before and right behind each run. Direct write with a sync each {} \
             ms, before all of them: {}/s.",
            LINK_SYNC_NS / 1_000_000,
            bytes(figures.synced_write)
        ))
        .note(reader_note(bench.quick, &figures.followed))
        .note(format!(
            "One front-end, in a process of its own as the sender of TCP loopback is, with a ring \
             of {} MiB that keeps each fragment until it is durable; all on this machine. Share: \
             of the smaller of the two limits; the run with the middle share of {}. 64 MiB: \
             bytes/s and share with a ring of that size, which a front-end has unless set, in \
             turn. Front-end and recorder: core-seconds per GB of each process. MIDAS 2022: its \
             logger at 82 to 92 % of a core; reference 000 had {}/s.",
            LARGE_RING_BYTES >> 20,
            bench.repeats(),
            bytes(REFERENCE)
        ))
}

fn reader_note(quick: bool, followed: &WithReader) -> String {
    let ratio = median(followed.ratios.iter().copied());
    format!(
        "100 kB, while a reader looks every 10 ms and reads the index and the newest fragment of \
         each frame: {}/s, {:+.1} % of the mean without it right before and right behind (median \
         of {}; asked: within 5 %, {}); it saw {} frames.",
        bytes(median(followed.bytes_per_second.iter().copied())),
        (ratio - 1.0) * 100.0,
        followed.ratios.len(),
        met(quick, ratio >= 0.95),
        followed.frames
    )
}

fn adc_table(bench: &Bench<'_>, figures: &Figures) -> Section {
    // What is asked, where the same fragments go as they are at that rate.
    let asked = |&([sent, _], raw): &(&[Sent; 2], f64)| match raw >= ADC_WHERE {
        true => met(bench.quick, sent.bytes_per_second >= ADC_RATE && sent.ratio >= ADC_RATIO),
        false if bench.quick => String::new(),
        false => "not asked".to_owned(),
    };
    let table = table(
        figures.adc.iter().zip(figures.raw.iter().map(|[_, unset]| unset.bytes_per_second)),
        &[
            ("fragment", &|([sent, _], _)| bytes(sent.fragment_bytes as f64)),
            ("bytes/s", &|([sent, _], _)| bytes(sent.bytes_per_second)),
            ("ratio", &|([sent, _], _)| format!("{:.2}", sent.ratio)),
            ("\"none\"", &|(_, raw)| bytes(*raw)),
            ("0.7 GB/s at 1.66", &asked),
            ("front-end", &|([sent, _], _)| format!("{:.2}", sent.front_end)),
            ("recorder", &|([sent, _], _)| format!("{:.2}", sent.recorder)),
            ("256 MiB", &|([_, sent], _)| {
                format!("{} at {:.2}", bytes(sent.bytes_per_second), sent.ratio)
            }),
        ],
    );
    Section::new("ADC samples, codec \"auto\"", table).note(format!(
        "With the ring that a front-end has unless set, {} MiB. MIDAS LZ4: 0.15 to 0.23 GB/s at \
         1.66. Asked where \"none\" reaches 1.2 GB/s. 256 MiB: bytes/s and ratio with a ring of \
         that size, behind which so much waits that the recorder compresses little rather than \
         hold the front-end up.",
        RING_BYTES >> 20
    ))
}

fn delay_table(figures: &Figures) -> Section {
    let table = table(
        &figures.delays,
        &[
            ("bytes/s", &|delay| bytes(delay.bytes_per_second)),
            ("median", &|delay| format!("{:.1} ms", delay.median_ms)),
            ("99 %", &|delay| format!("{:.1} ms", delay.p99_ms)),
        ],
    );
    Section::new("From send until durable", table).note(format!(
        "Fragments of 10 kB (a ring of {} MiB). At a low rate a frame is cut by its time \
         (frame.time, 250 ms), at a high one by its bytes.",
        LARGE_RING_BYTES >> 20
    ))
}
