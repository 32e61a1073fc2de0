//! A front-end that sends as fast as it can, as MIDAS' dummy front-end does, to a recorder on the
//! same machine; and how long a fragment takes until it is durable.

use std::fmt::{self, Display, Formatter};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_frame::{ColumnCoding, Dtype, PayloadType};
use catchment_frontend::{Frontend, SourceHandle};
use catchment_model::SourceId;
use catchment_recorder::{
    LINK_FRAME_TIME_NS, LINK_SYNC_BYTES, LINK_SYNC_NS, Recorder, RecorderConfig, RunSummary,
    SourceConfig, link_buffers, link_frame_bytes,
};
use catchment_storage::{Followed, Run};
use catchment_telemetry::{ThreadTime, cpu_shares};
use serde::Serialize;

use crate::Bench;
use crate::follower::Follower;
use crate::limits::{direct_write, direct_write_once};
use crate::midas_sources;
use crate::report::{Report, Section, bytes, met, table};
use crate::search::{median, middle, percentile};

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
/// Fragments that differ, so that not all come from a cache.
const DIFFERENT: usize = 64;
/// Of the sender and of the receiver of bytes alone.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// Fragments as they are.
pub(crate) const RAW: ColumnCoding = ColumnCoding::NONE;
/// A front-end's ring unless set.
pub(crate) const RING_BYTES: u64 = 64 << 20;
/// Holds everything that is not durable yet at the highest rate.
const LARGE_RING_BYTES: u64 = 256 << 20;
/// Beside three times the ring, and soon populated.
const MEMORY_BYTES: u64 = 320 << 20;
/// For the connections that a source may have.
const SOURCE_BYTES: u64 = 3 << 19;
/// How often it is looked whether a fragment is durable.
pub(crate) const LOOK: Duration = Duration::from_micros(200);
/// What the front-end may still need when its time is over.
const CLOSE_WITHIN: Duration = Duration::from_secs(60);
/// How long a front-end sends on behind the fragments whose delays are measured.
const BEHIND_SECONDS: f64 = 1.0;

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
    fn raw(fragment_bytes: usize) -> Self {
        Self { fragment_bytes, coding: RAW, ring: LARGE_RING_BYTES, is_followed: false }
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
        self.share_of(self.bytes_per_second)
    }

    /// The same of another rate.
    fn share_of(&self, rate: f64) -> f64 {
        self.limits.map_or(f64::NAN, |limits| rate / limits.least())
    }

    fn limit(&self, text: impl Fn(Limits) -> String) -> String {
        self.limits.map_or_else(String::new, text)
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Delay {
    pub(crate) bytes_per_second: f64,
    pub(crate) median_ms: f64,
    pub(crate) p99_ms: f64,
}

#[derive(Debug, Serialize)]
struct Figures {
    /// Direct write alone, with a sync as often as the recorder makes one.
    synced_write: f64,
    raw: Vec<Sent>,
    /// The same with the ring that a front-end has unless set: bytes per second.
    raw_unset: Vec<f64>,
    /// Of 100 kB, as they are, while a reader follows; and how many frames that saw.
    followed: Sent,
    frames_followed: u64,
    /// With the ring that a front-end has unless set, and with a large one.
    adc: Vec<[Sent; 2]>,
    delays: Vec<Delay>,
    sources: Vec<midas_sources::Events>,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let synced_write = direct_write(bench, Some(LINK_SYNC_NS))?.bytes_per_second;
    let (mut raw, mut raw_unset, mut adc) = (Vec::new(), Vec::new(), Vec::new());
    for (size, _) in SIZES {
        let rounds = bench.rounds(format!("{size} bytes"), |bench| send_between(bench, size))?;
        let rate = median(rounds.iter().map(|sent| sent.bytes_per_second));
        // The middle one by its share, with the middle rate.
        raw.push(Sent { bytes_per_second: rate, ..middle(rounds, Sent::share) });
        let one = Case { fragment_bytes: size, coding: RAW, ring: RING_BYTES, is_followed: false };
        let rounds = bench.rounds(one, |bench| Ok(send(bench, one)?.0))?;
        raw_unset.push(median(rounds.iter().map(|sent| sent.bytes_per_second)));
        let mut compressed = |ring| {
            let one = Case { coding: ColumnCoding::Auto, ring, ..one };
            let rounds = bench.rounds(one, |bench| Ok(send(bench, one)?.0))?;
            anyhow::Ok(middle(rounds, |sent| sent.bytes_per_second))
        };
        adc.push([compressed(RING_BYTES)?, compressed(LARGE_RING_BYTES)?]);
    }
    let one = Case { is_followed: true, ..Case::raw(100_000) };
    let rounds = bench.rounds("100 kB, followed", |bench| send(bench, one))?;
    let (followed, frames_followed) = middle(rounds, |(sent, _)| sent.bytes_per_second);
    let mut delays = Vec::new();
    for share in [0.05, 0.5, 0.8] {
        let most = raw[1].bytes_per_second;
        bench.now(format!("until durable, {share} of the highest rate"))?;
        delays.push(delay(bench, share * most, |_| {})?);
    }
    let sources = midas_sources::measure(bench)?;
    let figures =
        Figures { synced_write, raw, raw_unset, followed, frames_followed, adc, delays, sources };
    let sections = vec![
        raw_table(bench, &figures),
        adc_table(bench, &figures),
        delay_table(&figures),
        midas_sources::section(bench.quick, &figures.sources),
    ];
    Report::new("midas-dummy", bench, sections, &figures)
}

/// What the machine can do, in bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) tcp: f64,
    pub(crate) direct_write: f64,
    /// Both at once, with nothing between them: whoever receives and writes has no more.
    pub(crate) at_once: [f64; 2],
}

impl Limits {
    /// For right before and right behind a row, since they change while a bench runs.
    pub(crate) fn measure(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let tcp = tcp(if bench.quick { 0.1 } else { 2.0 })?;
        let direct_write = direct_write_once(bench, None)?.bytes_per_second;
        let is_written = AtomicBool::new(false);
        let at_once = std::thread::scope(|scope| {
            let sent = scope.spawn(|| tcp_while(|_| !is_written.load(Relaxed)));
            let written = direct_write_once(bench, None);
            is_written.store(true, Relaxed);
            let failed = |_| Err(anyhow::anyhow!("a sender has panicked"));
            anyhow::Ok([sent.join().unwrap_or_else(failed)?, written?.bytes_per_second])
        })?;
        Ok(Self { tcp, direct_write, at_once })
    }

    pub(crate) fn mean(self, other: Self) -> Self {
        Self {
            tcp: f64::midpoint(self.tcp, other.tcp),
            direct_write: f64::midpoint(self.direct_write, other.direct_write),
            at_once: [0, 1].map(|one| f64::midpoint(self.at_once[one], other.at_once[one])),
        }
    }

    /// The smaller one of those alone.
    pub(crate) fn least(self) -> f64 {
        self.tcp.min(self.direct_write)
    }

    pub(crate) fn at_once_text(self) -> String {
        self.at_once.map(bytes).join(", ")
    }
}

/// Bytes per second from one thread to another through a connection of this machine.
pub(crate) fn tcp(seconds: f64) -> anyhow::Result<f64> {
    tcp_while(|elapsed| elapsed < seconds)
}

fn tcp_while(goes_on: impl Fn(f64) -> bool) -> anyhow::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let sent = scope.spawn(move || -> std::io::Result<()> {
            let block = vec![7; BLOCK_BYTES];
            while !stop.load(Relaxed) {
                sender.write_all(&block)?;
            }
            Ok(())
        });
        let (mut block, mut received, begin) = (vec![0; BLOCK_BYTES], 0, Instant::now());
        while goes_on(begin.elapsed().as_secs_f64()) {
            received += receiver.read(&mut block)?;
        }
        let rate = received as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Relaxed);
        drop(receiver);
        // It ends by itself, or because nobody reads.
        let _ended = sent.join();
        Ok(rate)
    })
}

/// A recorder of one front-end, and the front-end.
pub(crate) struct Pair {
    recorder: Recorder,
    pub(crate) front_end: Frontend,
}

impl Pair {
    /// A front-end with one source and that ring, and a recorder that is changed.
    pub(crate) fn begin(
        bench: &Bench<'_>,
        ring: u64,
        change: impl FnOnce(&mut RecorderConfig),
    ) -> anyhow::Result<Self> {
        Self::begin_many(bench, &["dummy".to_owned()], 2 << 20, ring, change)
    }

    /// A front-end with these sources, whose fragments have so many bytes at most, and a recorder
    /// that is changed.
    pub(crate) fn begin_many(
        bench: &Bench<'_>,
        names: &[String],
        fragment_bytes_max: u64,
        ring: u64,
        change: impl FnOnce(&mut RecorderConfig),
    ) -> anyhow::Result<Self> {
        let address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (shape, fields) = (Vec::new(), Vec::new());
        let payload = PayloadType { dtype: Dtype::I16, shape, skip: 0, record_bytes: 0, fields };
        let source = |name: &String| SourceConfig {
            fragment_bytes_max,
            payload: Some(payload.clone()),
            ..SourceConfig::over_session(name, address)
        };
        let sources = names.iter().map(source).collect();
        let mut config = RecorderConfig::new(bench.scratch.clone(), sources);
        config.frame.bytes = link_frame_bytes(names.len());
        config.frame.time_ns = LINK_FRAME_TIME_NS;
        config.frame.codings = RAW.into();
        config.write.sync_interval_ns = LINK_SYNC_NS;
        config.write.sync_bytes = Some(LINK_SYNC_BYTES);
        (config.write.buffer_bytes, config.write.buffer_count) = link_buffers(names.len());
        config.memory_bytes = MEMORY_BYTES + 3 * ring + names.len() as u64 * SOURCE_BYTES;
        if bench.quick {
            config.frame.time_ns = 50_000_000;
        }
        change(&mut config);
        let recorder = Recorder::start(config)?;
        let url = format!("catchment+tcp://{}", recorder.addresses()[0]);
        let mut front_end = Frontend::builder(&url, "dummy").buffer(ring);
        for name in names.iter().filter_map(|name| name.strip_prefix("dummy/")) {
            front_end = front_end.source(name);
        }
        let front_end = front_end.fragment_bytes_max(fragment_bytes_max).connect()?;
        Ok(Self { recorder, front_end })
    }

    /// Waits until each source's fragments are durable, for a minute at most.
    pub(crate) fn wait_until_durable(&self, fragments: u64, begin: Instant) {
        let is_durable = |source: &SourceHandle| source.status().durable >= fragments;
        for source in self.front_end.sources() {
            while !is_durable(source) && begin.elapsed() < CLOSE_WITHIN {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Ends both; the books must balance, and nothing be lost.
    pub(crate) fn end(self, bench: &mut Bench<'_>, what: &str) -> anyhow::Result<RunSummary> {
        let closed = self.front_end.close(CLOSE_WITHIN);
        let summary = self.recorder.stop().context("the recorder did not stop in order")?;
        let balance = summary.last.ledger.balance();
        if !closed.is_confirmed() || !balance.holds() || balance.lost_data() {
            bench.broken.push(format!("{what}: {closed:?}, {balance:?}"));
        }
        // A run of which nothing is kept here has none.
        if summary.folder.exists() {
            std::fs::remove_dir_all(&summary.folder)?;
        }
        Ok(summary)
    }
}

/// Samples of a slow pulse with noise, as an ADC gives them.
pub(crate) fn samples(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let noise = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Four uniform numbers are nearly a normal one.
        (0..4).map(|part| ((*state >> (16 * part)) & 0x1f) as i16).sum::<i16>() - 62
    };
    let sample = |index: usize, state: &mut u64| {
        let pulse = 2_000.0 * (-((index % 1_000) as f64) / 150.0).exp();
        (200 + pulse as i16 + noise(state)).to_le_bytes()
    };
    (0..bytes.div_ceil(2)).flat_map(|index| sample(index, &mut state)).take(bytes).collect()
}

/// Reads the index of a frame and its newest fragment, as a display does.
fn read_newest(run: &Run, frame: &Followed) -> anyhow::Result<bool> {
    let &Followed::Events(frame) = frame else { return Ok(false) };
    let rows = run.events(frame)?.len();
    let newest = rows.checked_sub(1);
    newest.map(|row| run.fragment_part(frame, SourceId(0), row, 0..u64::MAX)).transpose()?;
    Ok(rows > 0)
}

/// Fragments as they are, between two measurements of each limit.
fn send_between(bench: &mut Bench<'_>, fragment_bytes: usize) -> anyhow::Result<Sent> {
    let before = Limits::measure(bench)?;
    let (sent, _) = send(bench, Case::raw(fragment_bytes))?;
    Ok(Sent { limits: Some(before.mean(Limits::measure(bench)?)), ..sent })
}

/// Also returns how many frames a reader has seen that followed.
fn send(bench: &mut Bench<'_>, case: Case) -> anyhow::Result<(Sent, u64)> {
    let Case { fragment_bytes, coding, ring, is_followed } = case;
    let fragments: Vec<Vec<u8>> =
        (0..DIFFERENT as u64).map(|seed| samples(fragment_bytes, seed)).collect();
    let pair = Pair::begin(bench, ring, |config| config.frame.codings = coding.into())?;
    let follower = is_followed.then(|| Follower::start(pair.recorder.folder(), read_newest));
    let threads = || pair.recorder.snapshot().threads;
    let (first, process, begin) = (threads(), process_seconds(), Instant::now());
    let mut key = 0;
    while begin.elapsed().as_secs_f64() < bench.seconds() && !bench.stop.asked() {
        for fragment in &fragments {
            pair.front_end.send(key, fragment)?;
            key += 1;
        }
    }
    pair.wait_until_durable(key, begin);
    let seconds = begin.elapsed().as_secs_f64();
    let recorder = core_seconds(&first, &threads(), seconds);
    let all = process_seconds() - process;
    let seen = follower.map(Follower::finish).transpose()?;
    let summary = pair.end(bench, &case.to_string())?;
    let sent = key as f64 * fragment_bytes as f64;
    let measured = Sent {
        fragment_bytes,
        coding: coding.to_string(),
        fragments: key,
        bytes_per_second: sent / seconds,
        limits: None,
        ratio: sent / summary.last.counts.bytes_written.max(1) as f64,
        front_end: (all - recorder).max(0.0) / sent * 1e9,
        recorder: recorder / sent * 1e9,
    };
    Ok((measured, seen.map_or(0, |seen| seen.len() as u64)))
}

/// How long fragments of 10 kB take from `send` until they are durable, at that rate, with a
/// recorder that is changed.
pub(crate) fn delay(
    bench: &mut Bench<'_>,
    rate: f64,
    change: impl FnOnce(&mut RecorderConfig),
) -> anyhow::Result<Delay> {
    const BYTES: usize = 10_000;
    let fragment = samples(BYTES, 1);
    let pair = Pair::begin(bench, LARGE_RING_BYTES, change)?;
    let count = (rate * bench.seconds() / BYTES as f64) as u64;
    let source = &pair.front_end.sources()[0];
    let begin = Instant::now();
    let (sent, known) = std::thread::scope(|scope| {
        let known = scope.spawn(|| durable_at(source, begin, count));
        let mut sent = Vec::with_capacity(count as usize);
        // The last ones do not wait for a frame that nothing fills.
        let behind = (rate * BEHIND_SECONDS / BYTES as f64) as u64;
        for key in 0..count + behind {
            let due = key as f64 * BYTES as f64 / rate;
            while begin.elapsed().as_secs_f64() < due {
                std::thread::sleep(LOOK);
            }
            if key < count {
                sent.push(begin.elapsed().as_secs_f64());
            }
            pair.front_end.send(key, &fragment)?;
        }
        anyhow::Ok((sent, known.join().unwrap_or_default()))
    })?;
    let seconds = sent.last().copied().unwrap_or_default().max(1e-9);
    let bytes_per_second = count as f64 * BYTES as f64 / seconds;
    pair.end(bench, "until durable")?;
    let delays = || sent.iter().zip(&known).map(|(sent, known)| (known - sent) * 1e3);
    Ok(Delay { bytes_per_second, median_ms: median(delays()), p99_ms: percentile(99.0, delays()) })
}

/// When each fragment was seen to be durable.
fn durable_at(source: &SourceHandle, begin: Instant, count: u64) -> Vec<f64> {
    let mut known = Vec::with_capacity(count as usize);
    while (known.len() as u64) < count && begin.elapsed() < CLOSE_WITHIN {
        let durable = source.status().durable.min(count);
        known.resize(durable as usize, begin.elapsed().as_secs_f64());
        std::thread::sleep(LOOK);
    }
    known
}

fn core_seconds(first: &[ThreadTime], last: &[ThreadTime], seconds: f64) -> f64 {
    cpu_shares(first, last, seconds).iter().map(|(_, percent)| percent / 100.0 * seconds).sum()
}

/// Core-seconds of this process.
pub(crate) fn process_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock of the process writes one timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    if result == 0 { time.tv_sec as f64 + time.tv_nsec as f64 / 1e9 } else { 0.0 }
}

fn raw_table(bench: &Bench<'_>, figures: &Figures) -> Section {
    let slower = 1.0 - figures.followed.bytes_per_second / figures.raw[2].bytes_per_second;
    // Half of what is asked from 10 kB on.
    let asked = |sent: &Sent| if sent.fragment_bytes < 10_000 { 0.4 } else { 0.8 };
    let rows = figures.raw.iter().zip(SIZES).zip(&figures.raw_unset);
    let table = table(
        rows.map(|((sent, (_, midas)), unset)| (sent, midas, unset)),
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
            ("64 MiB", &|(sent, _, unset)| {
                format!("{}, {:.2}", bytes(**unset), sent.share_of(**unset))
            }),
            ("MIDAS 2022", &|(_, midas, _)| format!("{midas} GB")),
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
        .note(format!(
            "100 kB, while a reader looks every 10 ms and reads the index and the newest fragment \
             of each frame: {}/s, {:+.1} % (asked: within 5 %, {}); it saw {} frames.",
            bytes(figures.followed.bytes_per_second),
            slower * -100.0,
            met(bench.quick, slower <= 0.05),
            figures.frames_followed
        ))
        .note(format!(
            "One front-end with a ring of {} MiB that keeps each fragment until it is durable; \
             both on this machine. Share: of the smaller of the two limits. 64 MiB: bytes/s and \
             share with a ring of that size, which a front-end has unless set. Front-end and \
             recorder: core-seconds per GB. MIDAS 2022: its logger at 82 to 92 % of a core; \
             reference 000 had {}/s.",
            LARGE_RING_BYTES >> 20,
            bytes(REFERENCE)
        ))
}

fn adc_table(bench: &Bench<'_>, figures: &Figures) -> Section {
    // What is asked, where the same fragments go as they are at that rate.
    let asked = |&([sent, _], raw): &(&[Sent; 2], &f64)| match *raw >= ADC_WHERE {
        true => met(bench.quick, sent.bytes_per_second >= ADC_RATE && sent.ratio >= ADC_RATIO),
        false if bench.quick => String::new(),
        false => "not asked".to_owned(),
    };
    let table = table(
        figures.adc.iter().zip(&figures.raw_unset),
        &[
            ("fragment", &|([sent, _], _)| bytes(sent.fragment_bytes as f64)),
            ("bytes/s", &|([sent, _], _)| bytes(sent.bytes_per_second)),
            ("ratio", &|([sent, _], _)| format!("{:.2}", sent.ratio)),
            ("\"none\"", &|(_, raw)| bytes(**raw)),
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
