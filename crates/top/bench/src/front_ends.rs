//! A recorder in this process, and front-ends in one of their own that send to it over the event
//! link: as fast as they can, or at a rate. Nothing else runs here meanwhile but a reader that
//! follows, so that the CPU of each side is known.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_console::Out;
use catchment_frame::{ColumnCoding, Dtype, PayloadType};
use catchment_frontend::{Closed, Frontend, Release, SourceHandle};
use catchment_recorder::{
    LINK_FRAME_TIME_NS, LINK_SYNC_BYTES, LINK_SYNC_NS, Recorder, RecorderConfig, RunSummary,
    SourceConfig, link_buffers, link_frame_bytes,
};
use catchment_telemetry::{ThreadTime, cpu_shares};
use serde::{Deserialize, Serialize};

use crate::Bench;
use crate::part::{Beside, Part};
use crate::point::{folders_of, remove};
use crate::search::{median, percentile};

/// Fragments as they are.
pub(crate) const RAW: ColumnCoding = ColumnCoding::NONE;
/// A front-end's ring unless set.
pub(crate) const RING_BYTES: u64 = 64 << 20;
/// Holds everything that is not durable yet at the highest rate.
pub(crate) const LARGE_RING_BYTES: u64 = 256 << 20;
/// One fragment of a source in so many may be long.
pub(crate) const LONG_EVERY: u64 = 1_000;
/// Fragments of a single source that differ, so that not all come from a cache.
const DIFFERENT: usize = 64;
/// Of a single source.
const FRAGMENT_BYTES_MAX: u64 = 2 << 20;
/// Beside three times the rings, up to the large one, and soon populated.
const MEMORY_BYTES: u64 = 320 << 20;
/// For the connections that a source may have.
const SOURCE_BYTES: u64 = 3 << 19;
/// How often it is looked whether a fragment is due, or durable.
const LOOK: Duration = Duration::from_micros(200);
/// What the front-ends may still need when their time is over.
const CLOSE_WITHIN: Duration = Duration::from_secs(60);
/// How long a front-end sends on behind the fragments whose delays are measured.
const BEHIND_SECONDS: f64 = 1.0;

/// What the front-ends of a process send: events with a fragment of each source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Where to: known when the recorder listens.
    pub(crate) url: String,
    pub(crate) front_ends: u32,
    /// Of each.
    pub(crate) sources: u32,
    /// Of each.
    pub(crate) ring_bytes: u64,
    pub(crate) fragment_bytes: usize,
    /// Of one fragment of a source in [`LONG_EVERY`] instead.
    pub(crate) long_bytes: Option<usize>,
    /// Events per second; as many as go where none is given.
    pub(crate) rate_hz: Option<f64>,
    pub(crate) seconds: f64,
    /// Whether delays are measured, of a single source at a rate.
    pub(crate) has_delay: bool,
    /// Whether fragments leave the ring when the recorder has taken them, and not when they are
    /// durable: what it holds is then bounded by its own memory.
    pub(crate) leaves_when_taken: bool,
}

/// What front-ends have sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// From the first fragment until all were durable.
    pub(crate) seconds: f64,
    /// Core-seconds of their process meanwhile.
    pub(crate) cpu_seconds: f64,
    /// How long a front-end waited for room at most, where that was measured: not of a single
    /// source that sends as fast as it can.
    pub(crate) longest_send_ms: f64,
    pub(crate) delay: Option<Delay>,
}

/// How long fragments take until they are durable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Delay {
    pub(crate) bytes_per_second: f64,
    pub(crate) median_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Said by front-ends when all are connected, and at their end.
#[derive(Debug, Serialize, Deserialize)]
struct Connected {}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Ended {
    not_confirmed: u64,
    held_at_run_end: u64,
}

impl Order {
    /// A front-end of one source that sends as fast as it can.
    pub(crate) fn plain(fragment_bytes: usize, ring_bytes: u64, seconds: f64) -> Self {
        Self {
            url: String::new(),
            front_ends: 1,
            sources: 1,
            ring_bytes,
            fragment_bytes,
            long_bytes: None,
            rate_hz: None,
            seconds,
            has_delay: false,
            leaves_when_taken: false,
        }
    }

    /// The names of the sources, by front-end.
    fn names(&self) -> impl Iterator<Item = Vec<String>> {
        let Self { front_ends, sources, .. } = *self;
        (0..front_ends).map(move |index| {
            let name = if front_ends == 1 { "dummy".into() } else { format!("dummy-{index}") };
            match sources {
                1 => vec![name],
                _ => (0..sources).map(|source| format!("{name}/{source:04}")).collect(),
            }
        })
    }

    fn is_single(&self) -> bool {
        self.front_ends * self.sources == 1
    }

    fn fragment_bytes_max(&self) -> u64 {
        let longest = self.fragment_bytes.max(self.long_bytes.unwrap_or(0)) as u64;
        if self.is_single() { FRAGMENT_BYTES_MAX } else { longest }
    }

    fn connect(&self, names: &[String]) -> anyhow::Result<Frontend> {
        let (front_end, _) = names[0].split_once('/').unwrap_or((&names[0], ""));
        let mut builder = Frontend::builder(&self.url, front_end).buffer(self.ring_bytes);
        for (_, source) in names.iter().filter_map(|name| name.split_once('/')) {
            builder = builder.source(source);
        }
        if self.leaves_when_taken {
            builder = builder.release(Release::Taken);
        }
        Ok(builder.fragment_bytes_max(self.fragment_bytes_max()).connect()?)
    }
}

/// A recorder, and front-ends that send to it.
pub(crate) struct Pair {
    recorder: Recorder,
    front_ends: Beside,
    /// Of its targets.
    folders: Vec<PathBuf>,
    /// CPU time of the recorder's threads when the front-ends began.
    begin: Vec<ThreadTime>,
}

impl Pair {
    /// Starts front-ends, and a recorder that is changed, and returns when all are connected.
    pub(crate) fn begin(
        bench: &Bench<'_>,
        order: Order,
        change: impl FnOnce(&mut RecorderConfig),
    ) -> anyhow::Result<Self> {
        let address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (shape, fields) = (Vec::new(), Vec::new());
        let payload = PayloadType { dtype: Dtype::I16, shape, skip: 0, record_bytes: 0, fields };
        let source = |name: String| SourceConfig {
            fragment_bytes_max: order.fragment_bytes_max(),
            payload: Some(payload.clone()),
            ..SourceConfig::over_session(name, address)
        };
        let sources: Vec<SourceConfig> = order.names().flatten().map(source).collect();
        let count = sources.len();
        let mut config = RecorderConfig::new(bench.scratch.clone(), sources);
        config.frame.bytes = link_frame_bytes(count);
        config.frame.time_ns = LINK_FRAME_TIME_NS;
        config.frame.codings = RAW.into();
        config.write.sync_interval_ns = LINK_SYNC_NS;
        config.write.sync_bytes = Some(LINK_SYNC_BYTES);
        (config.write.buffer_bytes, config.write.buffer_count) = link_buffers(count);
        let rings = (u64::from(order.front_ends) * order.ring_bytes).min(LARGE_RING_BYTES);
        config.memory_bytes = MEMORY_BYTES + 3 * rings + count as u64 * SOURCE_BYTES;
        if bench.quick {
            config.frame.time_ns = 50_000_000;
        }
        change(&mut config);
        let folders = folders_of(&config);
        let recorder = Recorder::start(config)?;
        let url = format!("catchment+tcp://{}", recorder.addresses()[0]);
        let mut front_ends = Part::FrontEnds(Order { url, ..order }).start()?;
        let Connected {} = front_ends.says()?;
        let begin = recorder.snapshot().threads;
        Ok(Self { recorder, front_ends, folders, begin })
    }

    /// The run's folder.
    pub(crate) fn folder(&self) -> &Path {
        self.recorder.folder()
    }

    /// Waits until the front-ends have sent everything and it is durable; core-seconds of the
    /// recorder meanwhile, too.
    pub(crate) fn sent(&mut self) -> anyhow::Result<(Sent, f64)> {
        let sent: Sent = self.front_ends.says()?;
        let seconds = sent.seconds.max(1e-9);
        let shares = cpu_shares(&self.begin, &self.recorder.snapshot().threads, seconds);
        let recorder = shares.iter().map(|(_, percent)| percent / 100.0 * seconds).sum();
        Ok((sent, recorder))
    }

    /// Ends both; the ledger must balance, and nothing be lost.
    pub(crate) fn end(mut self, bench: &mut Bench<'_>, what: &str) -> anyhow::Result<RunSummary> {
        let ended: Ended = self.front_ends.says()?;
        let summary = self.recorder.stop().context("the recorder did not stop in order")?;
        let balance = summary.last.ledger.balance();
        let is_confirmed = ended.not_confirmed == 0 && ended.held_at_run_end == 0;
        if !is_confirmed || !balance.holds() || balance.lost_data() {
            bench.broken.push(format!("{what}: {ended:?}, {balance:?}"));
        }
        remove(&self.folders, &summary.folder)?;
        Ok(summary)
    }
}

/// How long fragments of 10 kB take from `send` until they are durable, at that rate, with a
/// recorder that is changed.
pub(crate) fn delay(
    bench: &mut Bench<'_>,
    rate: f64,
    change: impl FnOnce(&mut RecorderConfig),
) -> anyhow::Result<Delay> {
    const BYTES: usize = 10_000;
    let order = Order {
        rate_hz: Some(rate / BYTES as f64),
        has_delay: true,
        ..Order::plain(BYTES, LARGE_RING_BYTES, bench.seconds())
    };
    let mut pair = Pair::begin(bench, order, change)?;
    let (sent, _) = pair.sent()?;
    pair.end(bench, "until durable")?;
    sent.delay.context("the front-end measured no delays")
}

/// Samples of a slow pulse with noise, as an ADC gives them.
fn samples(bytes: usize, seed: u64) -> Vec<u8> {
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

/// Core-seconds of this process.
pub(crate) fn process_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock of the process writes one timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    if result == 0 { time.tv_sec as f64 + time.tv_nsec as f64 / 1e9 } else { 0.0 }
}

/// Connects front-ends and has them send, in the process of their own.
pub(crate) fn send(order: &Order, out: &mut Out) -> anyhow::Result<()> {
    // Of each front-end several.
    catchment_net::raise_open_files();
    let connect = |names: Vec<String>| order.connect(&names);
    let front_ends = order.names().map(connect).collect::<anyhow::Result<Vec<Frontend>>>()?;
    let sources: Vec<&SourceHandle> = front_ends.iter().flat_map(Frontend::sources).collect();
    let fragments = Fragments::new(order);
    say(out, &Connected {})?;
    let sent = if order.has_delay {
        send_and_look(order, &fragments, sources[0])?
    } else {
        send_all(order, &fragments, &sources)?
    };
    say(out, &sent)?;
    let mut ended = Ended::default();
    for front_end in front_ends {
        let Closed { not_confirmed, held_at_run_end } = front_end.close(CLOSE_WITHIN);
        ended.not_confirmed += not_confirmed;
        ended.held_at_run_end += held_at_run_end;
    }
    say(out, &ended)
}

fn say(out: &mut Out, what: &impl Serialize) -> anyhow::Result<()> {
    out.object(what)?;
    Ok(out.flush()?)
}

/// What is sent, made before.
struct Fragments {
    short: Vec<Vec<u8>>,
    long: Option<Vec<u8>>,
}

impl Fragments {
    fn new(order: &Order) -> Self {
        let count = if order.is_single() { DIFFERENT as u64 } else { 1 };
        Self {
            short: (0..count).map(|seed| samples(order.fragment_bytes, seed)).collect(),
            long: order.long_bytes.map(|bytes| samples(bytes, DIFFERENT as u64)),
        }
    }

    /// That of a source in an event; long ones are spread over the events.
    fn of(&self, event: u64, source: u64) -> &[u8] {
        match &self.long {
            Some(long) if (event + 11 * source).is_multiple_of(LONG_EVERY) => long,
            _ => &self.short[event as usize % self.short.len()],
        }
    }
}

fn send_all(
    order: &Order,
    fragments: &Fragments,
    sources: &[&SourceHandle],
) -> anyhow::Result<Sent> {
    let is_timed = !order.is_single() || order.rate_hz.is_some();
    // The clock is looked at once in so many events.
    let at_once = if is_timed { 1 } else { DIFFERENT as u64 };
    let (cpu, begin) = (process_seconds(), Instant::now());
    let (mut events, mut bytes, mut longest) = (0, 0, Duration::ZERO);
    while begin.elapsed().as_secs_f64() < order.seconds {
        wait_until_due(order, events, begin);
        for event in events..events + at_once {
            for (index, source) in (0..).zip(sources) {
                let fragment = fragments.of(event, index);
                let before = is_timed.then(Instant::now);
                source.send(event, fragment)?;
                longest = longest.max(before.map_or(Duration::ZERO, |before| before.elapsed()));
                bytes += fragment.len() as u64;
            }
        }
        events += at_once;
    }
    let sent = Instant::now();
    let is_durable = |source: &&SourceHandle| source.status().durable >= events;
    while !sources.iter().all(is_durable) && sent.elapsed() < CLOSE_WITHIN {
        std::thread::sleep(LOOK);
    }
    Ok(Sent {
        events,
        bytes,
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: process_seconds() - cpu,
        longest_send_ms: longest.as_secs_f64() * 1e3,
        delay: None,
    })
}

fn wait_until_due(order: &Order, event: u64, begin: Instant) {
    let due = order.rate_hz.map_or(0.0, |rate_hz| event as f64 / rate_hz);
    while begin.elapsed().as_secs_f64() < due {
        std::thread::sleep(LOOK);
    }
}

/// Sends the fragments of a source, and looks when they are durable.
fn send_and_look(
    order: &Order,
    fragments: &Fragments,
    source: &SourceHandle,
) -> anyhow::Result<Sent> {
    let rate_hz = order.rate_hz.context("delays are measured at a rate")?;
    let count = (rate_hz * order.seconds) as u64;
    let (cpu, begin) = (process_seconds(), Instant::now());
    let (sent, known) = std::thread::scope(|scope| {
        let known = scope.spawn(|| durable_at(source, begin, count));
        let mut sent = Vec::with_capacity(count as usize);
        // The last ones do not wait for a frame that nothing fills.
        let behind = (rate_hz * BEHIND_SECONDS) as u64;
        for key in 0..count + behind {
            wait_until_due(order, key, begin);
            if key < count {
                sent.push(begin.elapsed().as_secs_f64());
            }
            source.send(key, fragments.of(key, 0))?;
        }
        anyhow::Ok((sent, known.join().unwrap_or_default()))
    })?;
    let (all, in_time) = (sent.len(), known.len());
    anyhow::ensure!(in_time == all, "{in_time} of {all} fragments were durable in time");
    let bytes = count * order.fragment_bytes as u64;
    let last = sent.last().copied().unwrap_or_default().max(1e-9);
    let bytes_per_second = bytes as f64 / last;
    let delays = || sent.iter().zip(&known).map(|(sent, known)| (known - sent) * 1e3);
    let (median_ms, p99_ms) = (median(delays()), percentile(99.0, delays()));
    Ok(Sent {
        events: count,
        bytes,
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: process_seconds() - cpu,
        longest_send_ms: 0.0,
        delay: Some(Delay { bytes_per_second, median_ms, p99_ms }),
    })
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
