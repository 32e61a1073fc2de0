//! Front-ends that send fragments of one size over the event link: MIDAS' dummy front-end.
//!
//! Each has a thread, a ring and a name of its own. The bytes of a fragment are a pure function of
//! seed, front-end and key, cut out of noise, so that they cost nothing to make.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_frontend::{Closed, Fragment, Frontend, SourceHandle};
use serde::Serialize;

use crate::content::mix;
use crate::pace::{Pace, Schedule};
use crate::{EmulatorError, EmulatorLive};

/// What dummy front-ends send, and where to.
#[derive(Clone, Debug, PartialEq)]
pub struct DummyConfig {
    /// The recorder: `catchment+tcp://HOST[:PORT]`.
    pub url: String,
    /// How many there are.
    pub front_ends: u32,
    /// The number of the first: they are called `dummy-INDEX`, `dummy-(INDEX + 1)` and so on.
    pub index: u32,
    /// Bytes of each fragment.
    pub fragment_bytes: usize,
    /// Fragments per second of each; `None`: as fast as they are taken.
    pub rate_hz: Option<f64>,
    /// They end after so many seconds.
    pub seconds: Option<f64>,
    /// They end after so many fragments each.
    pub events: Option<u64>,
    /// Seed of the bytes.
    pub seed: u64,
    /// Bytes of each one's ring.
    pub buffer_bytes: u64,
    /// How long each waits at its end until everything is durable.
    pub drain: Duration,
}

impl Default for DummyConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            front_ends: 1,
            index: 0,
            fragment_bytes: 10_000,
            rate_hz: None,
            seconds: None,
            events: None,
            seed: 1,
            buffer_bytes: 256 << 20,
            drain: Duration::from_secs(60),
        }
    }
}

/// What dummy front-ends have sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DummyReport {
    /// The seed, which reproduces the bytes.
    pub seed: u64,
    /// How many there were.
    pub front_ends: u32,
    /// Bytes of each fragment.
    pub fragment_bytes: usize,
    /// Fragments of all.
    pub fragments: u64,
    /// From the first fragment until everything was durable, or was given up.
    pub seconds: f64,
    /// CPU time of the process meanwhile.
    pub cpu_ns: u64,
    /// Fragments that the recorder has not confirmed.
    pub not_confirmed: u64,
    /// Fragments that a run has ended without.
    pub held_at_run_end: u64,
}

/// The bytes of a front-end's fragments.
#[derive(Clone, Debug)]
pub struct DummyContent {
    seed: u64,
    noise: Vec<u8>,
    fragment_bytes: usize,
}

impl DummyContent {
    /// Those of the front-end of that number.
    pub fn new(seed: u64, front_end: u32, fragment_bytes: usize) -> Self {
        let seed = mix(seed ^ u64::from(front_end).rotate_left(32));
        let words = (fragment_bytes + OFFSETS).div_ceil(8) as u64;
        let noise = (0..words).flat_map(|word| mix(seed.wrapping_add(word)).to_le_bytes());
        Self { seed, noise: noise.collect(), fragment_bytes }
    }

    /// The bytes of the fragment of a key.
    pub fn fragment(&self, key: u64) -> &[u8] {
        let begin = (mix(self.seed.wrapping_sub(key)) % OFFSETS as u64) as usize;
        &self.noise[begin..begin + self.fragment_bytes]
    }
}

/// Runs all of them until they have sent what they are to send, or `stop` is set.
pub(crate) fn run(
    config: &DummyConfig,
    stop: &AtomicBool,
    live: &EmulatorLive,
) -> Result<DummyReport, EmulatorError> {
    let indices = || config.index..config.index.saturating_add(config.front_ends);
    let front_ends = indices()
        .map(|index| {
            Frontend::builder(&config.url, "dummy")
                .index(index)
                .fragment_bytes_max(config.fragment_bytes.max(1) as u64)
                .buffer(config.buffer_bytes.max(2 * config.fragment_bytes as u64))
                .connect()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let (begin, cpu_ns) = (Instant::now(), process_cpu_ns());
    let ended: Vec<(u64, Closed)> = std::thread::scope(|scope| {
        let threads: Vec<_> = indices()
            .zip(front_ends)
            .map(|(index, front_end)| {
                scope.spawn(move || {
                    let content = DummyContent::new(config.seed, index, config.fragment_bytes);
                    let sent = send(config, &content, &front_end.sources()[0], stop, live);
                    sent.map(|sent| (sent, front_end.close(config.drain)))
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|joined| joined.unwrap_or(Err(EmulatorError::Panicked)))
            .collect::<Result<_, EmulatorError>>()
    })?;
    let mut report = DummyReport {
        seed: config.seed,
        front_ends: config.front_ends,
        fragment_bytes: config.fragment_bytes,
        seconds: begin.elapsed().as_secs_f64(),
        cpu_ns: process_cpu_ns() - cpu_ns,
        ..DummyReport::default()
    };
    for (fragments, closed) in ended {
        report.fragments += fragments;
        report.not_confirmed += closed.not_confirmed;
        report.held_at_run_end += closed.held_at_run_end;
    }
    Ok(report)
}

/// Sends the fragments of one. Returns how many.
fn send(
    config: &DummyConfig,
    content: &DummyContent,
    source: &SourceHandle,
    stop: &AtomicBool,
    live: &EmulatorLive,
) -> Result<u64, EmulatorError> {
    let begin = Instant::now();
    let mut pace = Pace::new(&Schedule {
        rate_hz: config.rate_hz,
        event_bytes: config.fragment_bytes.max(1) as f64,
        burst: 1,
        first_event: 0,
        events: config.events,
        seconds: config.seconds,
    });
    let mut key = 0;
    while let Some(due) = pace.due(begin.elapsed()) {
        for _ in 0..due {
            let fragment = Fragment::new(key, content.fragment(key));
            while !source.send_within(fragment, STOP_LOOKED_AT_EACH)? {
                if stop.load(Relaxed) {
                    return Ok(key);
                }
            }
            key += 1;
        }
        live.add(due, due, due * config.fragment_bytes as u64, 0);
        if stop.load(Relaxed) {
            break;
        }
        if let Some(next) = pace.next_tick(begin.elapsed()) {
            std::thread::sleep(next.saturating_sub(begin.elapsed()));
        }
    }
    Ok(key)
}

/// CPU time of all threads of this process.
pub(crate) fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the target can be written to.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "every process has a CPU clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How many pieces of the noise there are.
const OFFSETS: usize = 4_096;
/// While a ring is full, whether to stop is looked at so often.
const STOP_LOOKED_AT_EACH: Duration = Duration::from_millis(100);
