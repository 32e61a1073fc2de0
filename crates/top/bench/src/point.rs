//! One recording under a known load, measured and deleted.

use std::path::{Path, PathBuf};

use catchment_config::{Alpha72, ConfigFileError, Hades90, High, Rate};
use catchment_console::need_space;
use catchment_model::Entry;
use catchment_model::units::percent_of;
use catchment_recorder::{Fill, RecorderConfig, TargetSnapshot};
use catchment_storage::ColumnCoding;
use serde::Serialize;

use crate::Bench;
use crate::recording::{Recording, record};
use crate::search::median;

/// What sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Detector {
    /// hades-90, by number.
    Hades,
    /// alpha-72, by time, with datagrams of at most so many bytes.
    Alpha(u32),
}

/// The behaviour of the sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) detector: Detector,
    pub(crate) water_mark_bytes: u64,
    pub(crate) huge_every: u64,
    pub(crate) equal_bursts: Option<u32>,
}

impl Load {
    /// Packets of 32 kB.
    pub(crate) const FULL: Self = Self {
        detector: Detector::Hades,
        water_mark_bytes: 32_000,
        huge_every: 0,
        equal_bursts: None,
    };
    /// One sub-event per packet, each of its own size.
    pub(crate) const SEPARATE: Self = Self { water_mark_bytes: 0, ..Self::FULL };
    /// One sub-event per packet, of one size per source for 64 events in a row.
    pub(crate) const EQUAL: Self = Self { equal_bursts: Some(64), ..Self::SEPARATE };

    /// alpha-72's datagrams: of one length, in bursts, or each of its own.
    pub(crate) const fn alpha(datagram_bytes: u32, bursts: bool) -> Self {
        let load = if bursts { Self::EQUAL } else { Self::SEPARATE };
        Self { detector: Detector::Alpha(datagram_bytes), ..load }
    }

    /// The configuration, and the bytes that it writes in that time.
    ///
    /// # Errors
    /// None, but for a defect.
    pub(crate) fn high(
        &self,
        bench: &Bench<'_>,
        rate: Rate,
        seconds: f64,
    ) -> Result<(High, u64), ConfigFileError> {
        let Detector::Alpha(datagram_bytes) = self.detector else {
            let preset = self.hades(bench, rate);
            return Ok((preset.high()?, preset.bytes_for(seconds)));
        };
        let (folder, bursts) = (bench.scratch.clone(), self.equal_bursts.is_some());
        let preset = Alpha72 { folder, rate, datagram_bytes, bursts, seed: 1 };
        Ok((preset.high()?, preset.bytes_for(seconds)))
    }

    pub(crate) fn hades(&self, bench: &Bench<'_>, rate: Rate) -> Hades90 {
        Hades90 {
            folder: bench.scratch.clone(),
            rate,
            water_mark_bytes: self.water_mark_bytes,
            huge_every: self.huge_every,
            equal_bursts: self.equal_bursts,
            seed: 1,
            codec: ColumnCoding::NONE,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.detector {
            Detector::Alpha(..2_000) if self.equal_bursts.is_some() => "1.4 kB, in bursts",
            Detector::Alpha(..2_000) => "1.4 kB, separate",
            Detector::Alpha(_) if self.equal_bursts.is_some() => "8.9 kB, in bursts",
            Detector::Alpha(_) => "8.9 kB, separate",
            Detector::Hades => self.name_of_hades(),
        }
    }

    fn name_of_hades(&self) -> &'static str {
        match (self.water_mark_bytes, self.equal_bursts) {
            (0, None) => "one sub-event per packet",
            (0, Some(_)) => "one sub-event per packet, equal bursts",
            _ => "packets of 32 kB",
        }
    }
}

/// The figures of one recording.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) rate_hz: Option<f64>,
    pub(crate) sent_hz: f64,
    pub(crate) events_sent: u64,
    pub(crate) events_complete: u64,
    pub(crate) packets_sent: u64,
    pub(crate) fragments_sent: u64,
    /// Recorded bytes over the time of sending, in which memory may fill.
    pub(crate) bytes_per_second: f64,
    /// The same over the time until all was durable: what could go on.
    pub(crate) durable_bytes_per_second: f64,
    pub(crate) packets_per_second: f64,
    pub(crate) discarded_percent: f64,
    pub(crate) receive_percent: f64,
    pub(crate) build_percent: f64,
    pub(crate) write_percent: f64,
    pub(crate) emulate_percent: f64,
    /// Seconds of a core for each GB on disk, of all threads but the emulator's.
    pub(crate) core_seconds_per_gb: f64,
    pub(crate) fills: Vec<Fill>,
    pub(crate) targets: Vec<Share>,
    /// The memory that payload waits in, at its fullest.
    pub(crate) segments_percent: u64,
    pub(crate) segments_bytes: u64,
    /// The queue from the receive to the build thread, at its fullest.
    pub(crate) descriptors_percent: u64,
    /// The emulator sent at the rate that was asked for.
    pub(crate) rate_kept: bool,
    /// Nothing lost, every event complete, the ledger balanced.
    pub(crate) whole: bool,
}

/// What one target has of a run, in bytes of fragments.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Share {
    pub(crate) name: String,
    pub(crate) recorded_bytes: u64,
    pub(crate) not_taken_bytes: u64,
}

/// Records under a load and deletes the run.
///
/// # Errors
/// The recording could not be made. Losses and a ledger that does not balance are results.
pub(crate) fn measure(
    bench: &mut Bench<'_>,
    load: Load,
    rate: Rate,
    seconds: f64,
) -> anyhow::Result<Point> {
    measure_with(bench, load, rate, seconds, |_| {})
}

/// As [`measure`], with a recorder that is changed.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_with(
    bench: &mut Bench<'_>,
    load: Load,
    rate: Rate,
    seconds: f64,
    change: impl FnOnce(&mut RecorderConfig),
) -> anyhow::Result<Point> {
    measure_in(bench, load, (rate, seconds), None, change)
}

/// The folders of a recorder's targets.
pub(crate) fn folders_of(config: &RecorderConfig) -> Vec<PathBuf> {
    let targets = config.targets();
    targets.iter().filter_map(|target| target.place.folder().map(Path::to_path_buf)).collect()
}

/// Removes a run from these folders, and from where its summary says that it is.
pub(crate) fn remove(folders: &[PathBuf], run: &Path) -> std::io::Result<()> {
    let parts = folders.iter().map(|folder| folder.join(run.file_name().unwrap_or_default()));
    // A run of which nothing is kept here has no folder.
    for folder in parts.chain([run.to_owned()]).filter(|part| part.exists()) {
        std::fs::remove_dir_all(folder)?;
    }
    // Those of further targets are the bench's own.
    folders.iter().skip(1).for_each(|folder| drop(std::fs::remove_dir(folder)));
    Ok(())
}

/// As [`measure_with`], where files are removed meanwhile: a target needs no more than that.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_in(
    bench: &mut Bench<'_>,
    load: Load,
    (rate, seconds): (Rate, f64),
    most_bytes: Option<u64>,
    change: impl FnOnce(&mut RecorderConfig),
) -> anyhow::Result<Point> {
    let (mut high, bytes) = load.high(bench, rate, seconds)?;
    change(&mut high.recorder);
    let folders = folders_of(&high.recorder);
    let bytes = most_bytes.map_or(bytes, |most| bytes.min(most));
    need_space(&bench.scratch, bytes * folders.len() as u64)?;
    let mut emulator = high.emulator.expect("the preset has an emulator");
    emulator.seconds = Some(seconds);
    let made = !bench.scratch.exists();
    let recording = record(high.recorder, emulator, &bench.stop)?;
    remove(&folders, &recording.summary.folder)?;
    if made {
        // Another program may record there by now: then the folder stays.
        std::fs::remove_dir(&bench.scratch).ok();
    }
    anyhow::ensure!(!bench.stop.asked(), "stopped before the end; nothing was written");
    let point = point(&recording, rate);
    if !recording.balance().holds() {
        bench.broken.push(format!(
            "{}, {rate}: the books do not balance: {:?}",
            load.name(),
            recording.balance()
        ));
    }
    let total = recording.summary.last.ledger.total();
    if !recording.balance().lost_data()
        && total[Entry::PacketsDroppedByKernel] == 0
        && point.events_complete != point.events_sent
    {
        let counted: Vec<String> = total
            .iter()
            .filter(|&(_, count)| count > 0)
            .map(|(entry, count)| format!("{} {count}", entry.name()))
            .collect();
        bench.broken.push(format!(
            "{}, {rate}: {} events sent ({} fragments, {} packets, {} of them not), {} complete, \
             and no loss in the books: {}",
            load.name(),
            point.events_sent,
            point.fragments_sent,
            point.packets_sent,
            recording.sent.total().packets_unsent,
            point.events_complete,
            counted.join(", ")
        ));
    }
    Ok(point)
}

fn point(recording: &Recording, rate: Rate) -> Point {
    let last = &recording.summary.last;
    let total = last.ledger.total();
    let placed = total[Entry::FragmentBytesRecorded] + total[Entry::FragmentBytesNotTaken];
    let sent = &recording.sent;
    let seconds = sent.seconds.max(1e-9);
    let complete = last.counts.events_complete;
    let missed = sent.events.saturating_sub(complete);
    let sent_hz = sent.events as f64 / seconds;
    let wire = sent.total();
    let packets_sent = wire.packets_sent;
    let segments = last.fills.iter().find(|fill| fill.name == "segments");
    let share = |target: &TargetSnapshot| {
        let total = target.ledger.total();
        Share {
            name: target.name.clone(),
            recorded_bytes: total[Entry::FragmentBytesRecorded],
            not_taken_bytes: total[Entry::FragmentBytesNotTaken],
        }
    };
    Point {
        rate_hz: rate.0,
        sent_hz,
        events_sent: sent.events,
        events_complete: complete,
        packets_sent,
        fragments_sent: wire.fragments_sent,
        bytes_per_second: placed as f64 / seconds,
        durable_bytes_per_second: placed as f64 / (seconds + recording.ending.as_secs_f64()),
        packets_per_second: packets_sent as f64 / seconds,
        discarded_percent: missed as f64 * 100.0 / (sent.events.max(1)) as f64,
        receive_percent: recording.busy_of("receive"),
        build_percent: recording.busy_of("build"),
        write_percent: recording.busy_of("write") + recording.busy_of("frames"),
        emulate_percent: recording.busy_of("emulate"),
        core_seconds_per_gb: (recording.busy_of("") - recording.busy_of("emulate")) / 100.0
            * seconds
            / (placed as f64 / 1e9).max(1e-9),
        segments_percent: highest_fill(&last.fills, "segments"),
        segments_bytes: segments.map_or(0, |fill| fill.highest),
        descriptors_percent: highest_fill(&last.fills, "descriptors"),
        fills: last.fills.clone(),
        targets: last.targets.iter().map(share).collect(),
        rate_kept: rate.0.is_none_or(|hz| sent_hz >= hz * 0.99) && wire.packets_unsent == 0,
        whole: !recording.lost() && recording.balance().holds() && missed == 0,
    }
}

/// The median of a figure of some recordings, as it is shown; a dash where there is none.
pub(crate) fn middle_of(
    rounds: &[Point],
    figure: fn(&Point) -> f64,
    shown: fn(f64) -> String,
) -> String {
    if rounds.is_empty() { "-".to_owned() } else { shown(median(rounds.iter().map(figure))) }
}

fn highest_fill(fills: &[Fill], name: &str) -> u64 {
    let named = fills.iter().filter(|fill| fill.name.starts_with(name));
    named.map(|fill| percent_of(fill.highest, fill.capacity)).max().unwrap_or(0)
}
