//! `bench ligo-read`: LIGO-T000108's table, one channel read back, beside the formats people use.

use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use catchment_console::complain;
use catchment_emulator::{EmulatedChannel, ligo_1000};
use catchment_frame::Dtype;
use catchment_storage::{ColumnCoding, Run, Select, give_back};
use serde::{Deserialize, Serialize};

use crate::Bench;
use crate::ligo_cold::{self, Cold};
use crate::ligo_data::{DataSet, Layout, RawChannel, SECOND_NS, START_S, Scratch};
use crate::ligo_read_tables as tables;
use crate::python::Python;
use crate::report::Report;

/// Everything that `bench ligo-read` measures.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) seconds: u64,
    pub(crate) channels: usize,
    pub(crate) raw_bytes: u64,
    pub(crate) coding: String,
    pub(crate) packages: Vec<(String, String)>,
    pub(crate) tests: Vec<Test>,
    pub(crate) one_of_1000: Option<Test>,
    pub(crate) ranges: Vec<Ranges>,
    pub(crate) cold_share: Vec<Cold>,
}

/// One row of the memo's table: a length of frames, all formats.
#[derive(Debug, Serialize)]
pub(crate) struct Test {
    /// The memo's number; none for a length that it does not have.
    pub(crate) memo: Option<u32>,
    pub(crate) layout: Layout,
    pub(crate) stored: Vec<Stored>,
    pub(crate) reads: Vec<Read>,
}

/// The size of the data in a format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) format: String,
    /// Making emulated samples included for Catchment, reading raw ones for the others.
    pub(crate) write_s: f64,
    pub(crate) file_bytes: u64,
}

/// One channel read from one format, opening included.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Read {
    pub(crate) format: String,
    pub(crate) channel: String,
    pub(crate) bytes: u64,
    pub(crate) cold_s: Vec<f64>,
    pub(crate) warm_s: Vec<f64>,
}

/// Ranges of one channel, read from files that stay open, with the same codec.
#[derive(Debug, Serialize)]
pub(crate) struct Ranges {
    pub(crate) coding: String,
    pub(crate) frame_s: u64,
    pub(crate) reads: Vec<RangeRead>,
}

/// Seconds that a range takes of a channel of that type, the first time or again, by Catchment and
/// h5py.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RangeRead {
    pub(crate) dtype: String,
    pub(crate) seconds: u64,
    pub(crate) state: String,
    pub(crate) ours_s: Vec<f64>,
    pub(crate) theirs_s: Vec<f64>,
}

/// The size of the bench.
struct Scale {
    seconds: u64,
    tests: &'static [(Option<u32>, Layout)],
    many_s: u64,
    many_reads: usize,
    ranges_s: &'static [u64],
    /// Lengths of the files that columns are read from, beside direct reads.
    cold_s: &'static [u64],
    cold_frame_s: u64,
    cold_reads: usize,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let scale = if bench.quick { &QUICK } else { &FULL };
    let python = match Python::find() {
        Ok(python) => Some(python),
        Err(why) => {
            complain(format_args!("Catchment alone is measured: {why}"));
            None
        }
    };
    if let Some(missing) = python.as_ref().and_then(Python::missing) {
        complain(missing);
    }
    let coding: ColumnCoding = CODING.parse()?;
    let scratch = Scratch::new(&bench.scratch, "ligo-read")?;
    let data = DataSet::sixty(scale.seconds);
    let source = Source::new(&data, &scratch.folder)?;
    let mut tests = Vec::new();
    for &(memo, layout) in scale.tests {
        bench.now(format!("60 channels, frames of {} s", layout.frame_s))?;
        // The memo timed the tables of contents alone where frames are of 1 s.
        let read = if matches!(memo, Some(1 | 2)) { &READ_OF_60[..] } else { &READ_OF_60[..3] };
        let task = Task { layout, read, cold: bench.repeats(), warm: bench.repeats() };
        let (stored, reads) = source.measure(python.as_ref(), &task, coding, &EVERY)?;
        tests.push(Test { memo, layout, stored, reads });
    }
    drop(source);
    let one_of_1000 = match &python {
        Some(python) => Some(one_of_1000(bench, python, scale, &scratch.folder, coding)?),
        None => None,
    };
    let mut ranges = Vec::new();
    if let Some(python) = python.as_ref().filter(|python| python.can("HDF5")) {
        for coding in RANGE_CODINGS {
            bench.now(format!("ranges of one channel, files open, {coding}"))?;
            ranges.push(read_ranges(python, scale, &scratch.folder, coding, bench.repeats())?);
        }
    }
    bench.now("cold reads against direct reads")?;
    let (frame_s, reads) = (scale.cold_frame_s, scale.cold_reads);
    let mut cold_share = Vec::new();
    for &seconds in scale.cold_s {
        let many = DataSet::thousand(seconds);
        cold_share.extend(ligo_cold::measure(&many, &scratch.folder, frame_s, reads, coding)?);
    }
    let able = python.iter().flat_map(|python| &python.formats);
    let packages = able.filter_map(|(name, version)| Some((name.clone(), version.clone()?)));
    let figures = Figures {
        seconds: scale.seconds,
        channels: data.channels.len(),
        raw_bytes: data.raw_bytes(),
        coding: coding.to_string(),
        packages: packages.collect(),
        tests,
        one_of_1000,
        ranges,
        cold_share,
    };
    Report::new("ligo-read", bench, tables::sections(&figures), &figures)
}

/// One channel of a thousand from one frame, warm, many times, from Python.
fn one_of_1000(
    bench: &mut Bench<'_>,
    python: &Python,
    scale: &Scale,
    folder: &Path,
    coding: ColumnCoding,
) -> anyhow::Result<Test> {
    bench.now("one channel of 1,000 from one frame")?;
    let data = DataSet::thousand(scale.many_s);
    let source = Source::new(&data, folder)?;
    let layout = Layout { frame_s: scale.many_s, frames_per_file: 1 };
    let task = Task { layout, read: &READ_OF_1000, cold: 0, warm: scale.many_reads };
    let formats = ["Catchment", "HDF5"];
    let (stored, reads) = source.measure(Some(python), &task, coding, &formats)?;
    Ok(Test { memo: None, layout, stored, reads })
}

/// Ranges of channels of 16,384 Hz, float32 and int16, from one frame in files that stay open.
fn read_ranges(
    python: &Python,
    scale: &Scale,
    folder: &Path,
    coding: &str,
    repeats: usize,
) -> anyhow::Result<Ranges> {
    let fast = |dtype| {
        let of_type = move |channel: &EmulatedChannel| {
            channel.dtype == dtype && channel.name.contains("FAST")
        };
        ligo_1000().into_iter().filter(of_type).take(RANGE_CHANNELS)
    };
    let channels = fast(Dtype::F32).chain(fast(Dtype::I16)).collect();
    let data = DataSet::new(channels, scale.many_s);
    let source = Source::new(&data, folder)?;
    let run = source.folder.folder.join("run");
    let layout = Layout { frame_s: scale.many_s, frames_per_file: 1 };
    data.write_run(&run, layout, coding.parse()?)?;
    let answer = python.ask(
        "ligo/read_ranges.py",
        &serde_json::json!({
            "raw": source.folder.folder.join("raw"),
            "seconds": data.seconds,
            "start_ns": START_S * SECOND_NS,
            "channels": source.raw,
            "layout": layout,
            "scratch": source.folder.folder.join("others"),
            "run": run,
            "coding": coding,
            "ranges_s": scale.ranges_s,
            "repeats": repeats,
        }),
    )?;
    let reads = serde_json::from_value(answer).context("an answer of Python")?;
    Ok(Ranges { coding: coding.into(), frame_s: scale.many_s, reads })
}

/// The parts of a data set that are written and read.
struct Task {
    layout: Layout,
    read: &'static [&'static str],
    cold: usize,
    warm: usize,
}

/// A data set and its file of raw samples, from which all other formats are written.
struct Source<'a> {
    data: &'a DataSet,
    folder: Scratch,
    raw: Vec<RawChannel>,
}

impl<'a> Source<'a> {
    fn new(data: &'a DataSet, folder: &Path) -> anyhow::Result<Self> {
        let folder = Scratch::new(folder, "data")?;
        let mut file = BufWriter::new(std::fs::File::create(folder.folder.join("raw"))?);
        let raw = data.write_raw(&mut file)?;
        file.into_inner().context("cannot write raw samples")?;
        Ok(Self { data, folder, raw })
    }

    /// Writes and reads the data in all those formats that this machine can do.
    fn measure(
        &self,
        python: Option<&Python>,
        task: &Task,
        coding: ColumnCoding,
        formats: &[&str],
    ) -> anyhow::Result<(Vec<Stored>, Vec<Read>)> {
        let scratch = Scratch::new(&self.folder.folder, "formats")?;
        let run = scratch.folder.join("run");
        let begin = Instant::now();
        let report = self.data.write_run(&run, task.layout, coding)?;
        let write_s = begin.elapsed().as_secs_f64();
        let mut stored =
            vec![Stored { format: NATIVE.into(), write_s, file_bytes: report.file_bytes }];
        let mut reads = Vec::new();
        for name in task.read {
            reads.push(self.native(&run, name, task)?);
        }
        if let Some(python) = python {
            let able = python.able();
            let answer = python.ask(
                "ligo/read_others.py",
                &serde_json::json!({
                    "task": "read",
                    "raw": self.folder.folder.join("raw"),
                    "seconds": self.data.seconds,
                    "channels": self.raw,
                    "layout": task.layout,
                    "scratch": scratch.folder.join("others"),
                    "formats": formats.iter().filter(|one| able.contains(one)).collect::<Vec<_>>(),
                    "run": run,
                    "read": task.read,
                    "cold": if can_drop_caches() { task.cold } else { 0 },
                    "warm": task.warm,
                }),
            )?;
            let answer: Answer = serde_json::from_value(answer).context("an answer of Python")?;
            stored.extend(answer.stored.into_iter().filter(|one| one.format != "Catchment"));
            reads.extend(answer.reads);
        }
        Ok((stored, reads))
    }

    /// Catchment's own reading, without Python.
    fn native(&self, run: &Path, name: &str, task: &Task) -> anyhow::Result<Read> {
        let read = || -> anyhow::Result<f64> { Ok(read_once(run, name)?.whole_s) };
        let mut cold_s = Vec::new();
        for _ in 0..if can_drop_caches() { task.cold } else { 0 } {
            drop_caches()?;
            cold_s.push(read()?);
        }
        // What is read twice is in the page cache.
        read()?;
        read()?;
        let warm = || -> anyhow::Result<f64> {
            let (begin, mut reads) = (Instant::now(), 0u32);
            while begin.elapsed() < WARM {
                read()?;
                reads += 1;
            }
            Ok(begin.elapsed().as_secs_f64() / f64::from(reads))
        };
        let warm_s = (0..task.warm).map(|_| warm()).collect::<anyhow::Result<_>>()?;
        let channel = self.raw.iter().position(|channel| channel.name == name);
        let bytes = channel.map_or(0, |channel| self.data.channel_bytes(channel));
        Ok(Read { format: NATIVE.into(), channel: name.into(), bytes, cold_s, warm_s })
    }
}

#[derive(Deserialize)]
struct Answer {
    stored: Vec<Stored>,
    reads: Vec<Read>,
}

/// Times of one read.
pub(crate) struct ReadTime {
    /// Opening the run and reading the channel.
    pub(crate) whole_s: f64,
    /// Reading alone.
    pub(crate) read_s: f64,
}

/// Opens a run and reads a channel.
pub(crate) fn read_once(run: &Path, name: &str) -> anyhow::Result<ReadTime> {
    let begin = Instant::now();
    let run = Run::open(run)?;
    if name == TOC {
        return Ok(ReadTime { whole_s: begin.elapsed().as_secs_f64(), read_s: 0.0 });
    }
    let channel = run.channel(name).with_context(|| format!("there is no channel {name}"))?;
    let opened = Instant::now();
    let segments = channel.read(&Select::All)?;
    let (whole_s, read_s) = (begin.elapsed().as_secs_f64(), opened.elapsed().as_secs_f64());
    anyhow::ensure!(segments.len() == 1, "{name} has gaps");
    // As Python does when the array is freed.
    segments.into_iter().for_each(|segment| give_back(segment.bytes));
    Ok(ReadTime { whole_s, read_s })
}

/// Whether this process may drop the page cache: root may.
pub(crate) fn can_drop_caches() -> bool {
    std::fs::OpenOptions::new().write(true).open(DROP_CACHES).is_ok()
}

/// Drops the page cache, so that the next read comes from the disk.
pub(crate) fn drop_caches() -> anyhow::Result<()> {
    std::fs::write(DROP_CACHES, "3").context("cannot drop the page cache")
}

/// Catchment's name in the tables where no Python is between.
pub(crate) const NATIVE: &str = "Catchment, Rust";

/// One of each of the memo's three kinds, and the tables of contents alone.
pub(crate) const READ_OF_60: [&str; 4] = ["X:FAST-0003", "X:MEDIUM-0009", "X:SLOW-0018", TOC];
/// The name that stands for the tables of contents in place of a channel.
pub(crate) const TOC: &str = "TOC";
/// How long a channel is read again and again for one figure.
const WARM: Duration = Duration::from_millis(50);
const READ_OF_1000: [&str; 4] = ["L1:FAST-0024", "L1:FAST-0025", "L1:SLOW-0150", "L1:SLOW-0151"];
const EVERY: [&str; 5] = ["Catchment", "HDF5", "GWF", "GWF, uncompressed", "Parquet"];
/// Catchment's own: it decodes several times as fast as what h5py's files have, and saves more.
const CODING: &str = "for";
/// h5py has filters for both.
const RANGE_CODINGS: [&str; 2] = ["bitshuffle+lz4", "zstd:3"];
const RANGE_CHANNELS: usize = 8;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

const fn layout(frame_s: u64, frames_per_file: u64) -> Layout {
    Layout { frame_s, frames_per_file }
}

const FULL: Scale = Scale {
    seconds: 480,
    tests: &[
        (Some(1), layout(1, 1)),
        (Some(2), layout(1, 60)),
        (Some(3), layout(30, 1)),
        (Some(3), layout(60, 1)),
        (None, layout(64, 1)),
        (Some(3), layout(120, 1)),
        (Some(3), layout(240, 1)),
    ],
    many_s: 64,
    many_reads: 201,
    ranges_s: &[1, 24, 64],
    cold_s: &[512, 3_584],
    cold_frame_s: 64,
    cold_reads: 18,
};

const QUICK: Scale = Scale {
    seconds: 12,
    tests: &[(Some(1), layout(1, 1)), (None, layout(12, 1))],
    many_s: 2,
    many_reads: 11,
    ranges_s: &[1, 2],
    cold_s: &[4],
    cold_frame_s: 2,
    cold_reads: 1,
};
