//! One recording of emulated links, measured and deleted.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use catchment_console::need_space;
use catchment_emulator::{
    EmulatedLink, EmulatorThread, LinkEmulatorConfig, LinkEmulatorReport, ligo_1000,
};
use catchment_frame::ColumnCoding;
use catchment_model::Entry;
use catchment_recorder::{ChannelConfig, LinkConfig, Recorder, RecorderConfig, RunSummary};
use catchment_storage::{Followed, Run, Select};
use serde::Serialize;

use crate::Bench;
use crate::follower::Follower;
use crate::ligo_record::LINKS;
use catchment_telemetry::cpu_shares;

/// The load of one recording, and its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    /// Bytes of samples per second.
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) trends: bool,
    pub(crate) follow: bool,
    /// How all channels are encoded.
    pub(crate) coding: &'a str,
    /// Samples at which a frame is cut, whatever time it covers; none leaves both to the recorder.
    pub(crate) frame_bytes: Option<u64>,
    /// What the recorder may use; none is 2 GiB, or its default on a small machine.
    pub(crate) memory_bytes: Option<u64>,
    /// Where the run is left; otherwise it is deleted.
    pub(crate) keep: Option<&'a Path>,
}

impl Load<'_> {
    pub(crate) fn new() -> Self {
        Self {
            rate: 0.0,
            seconds: 1.0,
            trends: false,
            follow: false,
            coding: "for",
            frame_bytes: None,
            memory_bytes: None,
            keep: None,
        }
    }
}

/// The figures of one recording.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Recorded {
    pub(crate) asked_bytes_per_second: f64,
    /// While it was sent.
    pub(crate) bytes_per_second: f64,
    /// From the first packet until the last file was closed.
    pub(crate) bytes_per_second_to_disk: f64,
    pub(crate) real_time_bytes_per_second: f64,
    pub(crate) sample_bytes: u64,
    pub(crate) slices_sent: u64,
    pub(crate) slices_recorded: u64,
    /// Of the run's own files, its trends' not.
    pub(crate) file_bytes: u64,
    /// Data time of the longest frame.
    pub(crate) frame_s: f64,
    /// Samples stored with less compression than asked for.
    pub(crate) lowered_bytes: u64,
    /// Frames that the follower saw.
    pub(crate) frames_followed: Option<u64>,
    /// Milliseconds from when the recorder had written a frame until the follower saw it, for those
    /// written while samples were sent. To a millisecond, since that is how often the recorder is
    /// asked.
    pub(crate) seen_after_ms: Vec<f64>,
    /// Each kind of the recorder's threads: CPU time until the last file was closed, in percent of
    /// the time of sending.
    pub(crate) threads: Vec<(String, f64)>,
    pub(crate) recorder_percent: f64,
    pub(crate) emulate_percent: f64,
    /// The emulator sent at the rate that was asked for.
    pub(crate) rate_kept: bool,
    /// Nothing lost, every slice recorded, the ledger balanced.
    pub(crate) whole: bool,
}

impl Recorded {
    pub(crate) fn reached(&self) -> bool {
        self.rate_kept && self.whole
    }

    /// As good as all samples were stored with the compression that was asked for.
    pub(crate) fn compressed(&self) -> bool {
        self.lowered_bytes <= self.sample_bytes / 100
    }
}

/// Records under a load and deletes the run.
///
/// # Errors
/// The recording could not be made. Losses and a ledger that does not balance are results.
pub(crate) fn measure(
    bench: &mut Bench<'_>,
    folder: &Path,
    load: &Load<'_>,
) -> anyhow::Result<Recorded> {
    need_space(folder, (load.rate * load.seconds * 1.2) as u64 + (4 << 30))?;
    let config = recorder_config(folder, load)?;
    let recorder = Recorder::start(config).context("cannot start recording")?;
    let emulator = emulator_config(&recorder, load);
    let real_time = emulator.byte_rate();
    let follow = load.follow.then(|| Follower::start(recorder.folder(), read_channel));
    let begin = (Instant::now(), recorder.snapshot().threads);
    let mut written = Vec::new();
    let sender = EmulatorThread::start_links(emulator)?;
    while !sender.observer().ended() {
        if bench.stop.asked() {
            sender.stop();
        }
        std::thread::sleep(Duration::from_millis(if load.follow { 1 } else { 20 }));
        written.resize(recorder.counts().frames_recorded as usize, Instant::now());
    }
    let report = sender.finish()?;
    let summary = recorder.stop().context("the recorder did not stop in order")?;
    // What was encoded and written behind the last packet counts as well.
    let whole_s = begin.0.elapsed().as_secs_f64();
    let busy = cpu_shares(&begin.1, &summary.last.threads, report.seconds);
    let seen = follow.map(Follower::finish).transpose()?;
    let observed = Observed {
        whole_s,
        busy,
        followed: seen.map(|seen| Watched { seen, written }),
        file_bytes: file_bytes(&summary.folder)?,
        frame_s: longest_frame_s(&summary.folder)?,
    };
    match load.keep {
        Some(keep) => std::fs::rename(&summary.folder, keep)?,
        None => std::fs::remove_dir_all(&summary.folder)?,
    }
    anyhow::ensure!(!bench.stop.asked(), "stopped before the end; nothing was written");
    if !summary.last.ledger.balance().holds() {
        let rate = load.rate / 1e6;
        bench.broken.push(format!("ligo-1000 at {rate:.0} MB/s: the books do not balance"));
    }
    Ok(recorded(load, real_time, &report, &summary, observed))
}

/// The figures of a recording that are not in its ledger.
struct Observed {
    /// Seconds from the first packet until the last file was closed.
    whole_s: f64,
    /// How busy each thread was, in percent.
    busy: Vec<(String, f64)>,
    followed: Option<Watched>,
    /// Bytes of the files.
    file_bytes: u64,
    /// Seconds of the longest frame.
    frame_s: f64,
}

fn recorded(
    load: &Load<'_>,
    real_time: f64,
    report: &LinkEmulatorReport,
    summary: &RunSummary,
    observed: Observed,
) -> Recorded {
    let Observed { whole_s, busy, followed, file_bytes, frame_s } = observed;
    let total = summary.last.ledger.total();
    let seconds = report.seconds.max(1e-9);
    let bytes_per_second = report.sample_bytes as f64 / seconds;
    let mut threads: Vec<(String, f64)> = Vec::new();
    for (name, percent) in &busy {
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        match threads.iter_mut().find(|(other, _)| other == kind) {
            Some((_, sum)) => *sum += percent,
            None => threads.push((kind.to_owned(), *percent)),
        }
    }
    let balance = summary.last.ledger.balance();
    let sent = report.total();
    Recorded {
        asked_bytes_per_second: load.rate,
        bytes_per_second,
        bytes_per_second_to_disk: report.sample_bytes as f64 / whole_s.max(1e-9),
        real_time_bytes_per_second: real_time,
        sample_bytes: report.sample_bytes,
        slices_sent: report.slices,
        slices_recorded: summary.last.counts.slices_recorded,
        file_bytes,
        frame_s,
        lowered_bytes: total[Entry::BytesCompressionLowered],
        frames_followed: followed.as_ref().map(|watched| watched.seen.len() as u64),
        seen_after_ms: followed.map_or_else(Vec::new, Watched::seen_after_ms),
        recorder_percent: threads.iter().map(|(_, percent)| percent).sum(),
        threads,
        emulate_percent: report.cpu_ns as f64 / 1e7 / seconds,
        rate_kept: bytes_per_second >= load.rate * 0.99 && sent.packets_unsent == 0,
        whole: balance.holds()
            && !balance.lost_data()
            && total[Entry::PacketsDroppedByKernel] == 0
            && summary.last.counts.slices_complete == report.slices
            && summary.last.counts.slices_recorded == report.slices,
    }
}

fn recorder_config(folder: &Path, load: &Load<'_>) -> anyhow::Result<RecorderConfig> {
    let any = "127.0.0.1:0".parse().expect("an address");
    let channels = ligo_1000();
    let links = EmulatedLink::dealt(channels.len(), &[any; LINKS]);
    let link = |link: EmulatedLink| {
        let channels = link.channels.iter().map(|&index| {
            let channel = &channels[index as usize];
            let unit = channel.unit.clone();
            ChannelConfig { unit, ..ChannelConfig::new(&channel.name, channel.dtype, channel.rate) }
        });
        LinkConfig::new(format!("link-{}", link.number), link.target, channels.collect())
    };
    let mut config = RecorderConfig::new(folder.to_owned(), Vec::new());
    config.links = links.into_iter().map(link).collect();
    config.trends = load.trends;
    // So that the waiting samples are a small part of the recording.
    config.memory_bytes = load.memory_bytes.unwrap_or(config.memory_bytes.min(2 << 30));
    if let Some(bytes) = load.frame_bytes {
        config.frame.channel_bytes = bytes;
        config.frame.duration_ns = FRAME_NS_MAX;
    }
    config.frame.codings = load.coding.parse::<ColumnCoding>()?.into();
    Ok(config)
}

fn emulator_config(recorder: &Recorder, load: &Load<'_>) -> LinkEmulatorConfig {
    let channels = ligo_1000();
    let links = EmulatedLink::dealt(channels.len(), recorder.addresses());
    let mut config = LinkEmulatorConfig { channels, links, ..LinkEmulatorConfig::default() };
    config.multiple = Some(load.rate / config.byte_rate());
    config.seconds = Some(load.seconds);
    config
}

/// Bytes of the run's own files.
fn file_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let metadata = entry?.metadata()?;
        bytes += if metadata.is_file() { metadata.len() } else { 0 };
    }
    Ok(bytes)
}

/// Data time of the run's longest frame, in seconds.
fn longest_frame_s(folder: &Path) -> anyhow::Result<f64> {
    let run = Run::open(folder)?;
    let infos = run.channel_frames().iter().map(|frame| frame.summary.info);
    let longest = infos.map(|info| info.time_last_ns.saturating_sub(info.time_first_ns)).max();
    Ok(longest.unwrap_or(0) as f64 / 1e9)
}

/// When a recording's frames were seen and written, in their order.
struct Watched {
    seen: Vec<Instant>,
    /// Only of those that were written while samples were sent.
    written: Vec<Instant>,
}

impl Watched {
    fn seen_after_ms(self) -> Vec<f64> {
        let after = |(seen, written): (Instant, Instant)| {
            seen.saturating_duration_since(written).as_secs_f64() * 1e3
        };
        self.seen.into_iter().zip(self.written).map(after).collect()
    }
}

/// Reads one channel of every frame of channels.
fn read_channel(run: &Run, frame: &Followed) -> anyhow::Result<bool> {
    let &Followed::Channels(frame) = frame else { return Ok(false) };
    let channel = run.channel(FOLLOWED).context("the preset's channel")?;
    channel.read(&Select::Frames(frame..frame + 1))?;
    Ok(true)
}

const FOLLOWED: &str = "L1:FAST-0024";
/// Longer than any frame of a bench.
const FRAME_NS_MAX: u64 = 3_600_000_000_000;
