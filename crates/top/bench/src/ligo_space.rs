//! `bench ligo-space`: the size of full frames and trends, raw, gzipped, and with each codec.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use catchment_console::Table;
use catchment_emulator::ligo_1000;
use catchment_frame::Dtype;
use catchment_model::SampleRate;
use catchment_model::units::Bytes;
use catchment_storage::{ChannelInfo, Codings, ColumnCoding, Ending, WriteOptions, WriteReport};
use catchment_trends::{Row, Statistic, TrendChannel, TrendSeries};
use serde::Serialize;

use crate::Bench;
use crate::ligo_data::{DataSet, Layout, START_S, Scratch, new_run, samples};
use crate::report::{Report, Section, bytes, met, percent, table};

/// Everything that `bench ligo-space` measures.
#[derive(Debug, Serialize)]
struct Figures {
    kinds: Vec<Kind>,
    overhead: Vec<Overhead>,
}

/// One kind of frames.
#[derive(Debug, Serialize)]
struct Kind {
    name: String,
    #[serde(rename = "what")]
    content: String,
    /// The memo's frames of this kind.
    memo: Memo,
    raw_bytes: u64,
    /// None where there is no gzip.
    gzip_bytes: Option<u64>,
    codecs: Vec<Stored>,
}

/// A row of the memo's table of sizes: megabytes, as they were and by gzip.
#[derive(Clone, Copy, Debug, Serialize)]
struct Memo {
    name: &'static str,
    of: &'static str,
    megabytes: u32,
    gzip_megabytes: u32,
}

impl Memo {
    fn saved_percent(&self) -> f64 {
        100.0 - f64::from(self.gzip_megabytes) * 100.0 / f64::from(self.megabytes)
    }
}

/// Catchment's files with one coding.
#[derive(Debug, Serialize)]
struct Stored {
    coding: String,
    file_bytes: u64,
    /// Writing included.
    seconds: f64,
}

/// The bytes of headers and index.
#[derive(Debug, Serialize)]
struct Overhead {
    channels: usize,
    frames: u64,
    frame_raw_bytes: u64,
    stored_bytes: u64,
    file_bytes: u64,
}

impl Overhead {
    fn percent(&self) -> f64 {
        (self.file_bytes as f64 / self.stored_bytes as f64 - 1.0) * 100.0
    }
}

/// Frames that are to be measured.
struct Frames {
    name: String,
    content: String,
    memo: Memo,
}

/// A channel's samples in memory.
struct Column {
    name: String,
    dtype: Dtype,
    first_sample: u64,
    bytes: Vec<u8>,
}

/// The length of the data.
struct Scale {
    full_s: u64,
    second_s: u64,
    minute_s: u64,
    /// Of how many channels one is in the trends.
    second_every: usize,
    minute_every: usize,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let scale = if bench.quick { &QUICK } else { &FULL };
    let scratch = Scratch::new(&bench.scratch, "ligo-space")?;
    let mut kinds = Vec::new();
    for samples in ["noise", "quiet"] {
        let data_set = if samples == "noise" { DataSet::new } else { DataSet::quiet };
        let name = format!("full, {samples}");
        bench.now(&name)?;
        let full = data_set(ligo_1000(), scale.full_s);
        let content = format!("{} channels, one frame of {} s", full.channels.len(), scale.full_s);
        let rates: Vec<_> = full.channels.iter().map(|channel| channel.rate).collect();
        let columns = full_columns(&full);
        let frames = Frames { name, content, memo: MEMO[0] };
        kinds.push(measure(bench, &scratch, frames, &columns, &rates)?);
        drop(columns);
        let trends = [
            ("second trend", MEMO[1], Period::Second, scale.second_s, scale.second_every),
            ("minute trend", MEMO[2], Period::Minute, scale.minute_s, scale.minute_every),
        ];
        for (kind, memo, period, seconds, every) in trends {
            let name = format!("{kind}, {samples}");
            bench.now(&name)?;
            let channels = ligo_1000().into_iter().step_by(every).collect();
            let data = data_set(channels, seconds);
            let columns = trend_columns(&data, period)?;
            let rates = vec![period.rate(); columns.len()];
            let content = format!(
                "mean, min, max, rms and n of {} channels, one frame of {}",
                data.channels.len(),
                duration(seconds)
            );
            let frames = Frames { name, content, memo };
            kinds.push(measure(bench, &scratch, frames, &columns, &rates)?);
        }
    }
    bench.now("headers and index")?;
    let overhead = overhead(&scratch, bench.quick)?;
    let figures = Figures { kinds, overhead };
    let sections = vec![sizes(&figures), memo(), headers(&figures)];
    Report::new("ligo-space", bench, sections, &figures)
}

fn full_columns(data: &DataSet) -> Vec<Column> {
    let channels = data.channels.iter().enumerate();
    let column = channels.map(|(index, channel)| {
        let mut bytes = vec![0; data.channel_bytes(index) as usize];
        data.fill(index, 0, &mut bytes);
        let first_sample = samples(channel, START_S);
        Column { name: channel.name.clone(), dtype: channel.dtype, first_sample, bytes }
    });
    column.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Second,
    Minute,
}

impl Period {
    fn rate(self) -> SampleRate {
        SampleRate::new(1, if self == Self::Second { 1 } else { 60 }).expect("rates within bounds")
    }
}

/// Five columns per channel, computed by the crate that computes them while recording.
fn trend_columns(data: &DataSet, period: Period) -> anyhow::Result<Vec<Column>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let indices: Vec<usize> = (0..data.channels.len()).collect();
    let share = indices.len().div_ceil(threads);
    let parts = std::thread::scope(|scope| {
        let started: Vec<_> = indices
            .chunks(share)
            .map(|indices| {
                scope.spawn(move || -> anyhow::Result<Vec<Column>> {
                    let mut columns = Vec::new();
                    for &index in indices {
                        columns.extend(trends_of(data, index, period)?);
                    }
                    Ok(columns)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let mut columns = Vec::new();
    for part in parts {
        columns.extend(part?);
    }
    Ok(columns)
}

fn trends_of(data: &DataSet, index: usize, period: Period) -> anyhow::Result<Vec<Column>> {
    let channel = &data.channels[index];
    let trend = TrendChannel::new(channel.dtype, &[], channel.rate)?;
    let mut series = TrendSeries::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut bytes = Vec::new();
    let mut take = |completed: catchment_trends::Completed| {
        rows.extend(match period {
            Period::Second => completed.seconds,
            Period::Minute => completed.minutes,
        });
    };
    for second in (0..data.seconds).step_by(PIECE_S as usize) {
        let piece_s = PIECE_S.min(data.seconds - second);
        bytes.resize(samples(channel, piece_s) as usize * channel.sample_bytes(), 0);
        data.fill(index, second, &mut bytes);
        let first = samples(channel, START_S + second);
        series.add(&trend.partial(first, &[], &bytes)?);
        take(series.take_complete(START_S + second));
    }
    take(series.finish());
    let first_sample = rows.first().map_or(0, |row| row.index);
    Ok(Statistic::ALL
        .map(|statistic| {
            let mut bytes = Vec::new();
            statistic.append(&rows, &mut bytes);
            let name = format!("{}.{}", channel.name, statistic.suffix());
            Column { name, dtype: statistic.dtype(), first_sample, bytes }
        })
        .into())
}

/// One kind of frames: raw, by gzip, by every coding.
fn measure(
    bench: &Bench<'_>,
    scratch: &Scratch,
    frames: Frames,
    columns: &[Column],
    rates: &[SampleRate],
) -> anyhow::Result<Kind> {
    let Frames { name, content, memo } = frames;
    let raw_bytes = columns.iter().map(|column| column.bytes.len() as u64).sum();
    let gzip_bytes = gzip(columns)?;
    let mut codecs = Vec::new();
    for coding in CODINGS {
        bench.now(format!("{name}, {coding}"))?;
        let begin = Instant::now();
        let report = write(scratch, columns, rates, coding.parse()?)?;
        let seconds = begin.elapsed().as_secs_f64();
        let (coding, file_bytes) = (coding.to_owned(), report.file_bytes);
        codecs.push(Stored { coding, file_bytes, seconds });
    }
    Ok(Kind { name, content, memo, raw_bytes, gzip_bytes, codecs })
}

/// One frame in a file of its own.
fn write(
    scratch: &Scratch,
    columns: &[Column],
    rates: &[SampleRate],
    coding: ColumnCoding,
) -> anyhow::Result<WriteReport> {
    let infos = columns.iter().zip(rates);
    let infos = infos.map(|(column, &rate)| ChannelInfo::new(&column.name, column.dtype, rate));
    let folder = scratch.folder.join("run");
    let options = WriteOptions { codings: Codings::new(coding), ..WriteOptions::default() };
    let mut writer = new_run(&folder, infos.collect(), options)?;
    let ends = columns.iter().zip(rates).map(|(column, rate)| {
        let samples = column.bytes.len() as u64 / (column.dtype.bits().unwrap_or(8) / 8);
        rate.time_ns(column.first_sample + samples)
    });
    let starts = columns.iter().zip(rates).map(|(column, rate)| rate.time_ns(column.first_sample));
    let time_ns = starts.min().unwrap_or(0)..ends.max().unwrap_or(1);
    writer.write_made(time_ns, &|column, _, out| out.copy_from_slice(&columns[column].bytes))?;
    let report = writer.finish(Ending { run_ended: true, ..Ending::default() })?;
    std::fs::remove_dir_all(&folder)?;
    Ok(report)
}

/// What `gzip -1` makes of the samples, channel after channel; none where there is no gzip.
fn gzip(columns: &[Column]) -> anyhow::Result<Option<u64>> {
    gzip_bytes(columns.iter().map(|column| column.bytes.as_slice()))
}

/// As `gzip`, of any pieces.
pub(crate) fn gzip_bytes<'a>(
    pieces: impl Iterator<Item = &'a [u8]> + Send,
) -> anyhow::Result<Option<u64>> {
    let mut command = Command::new("gzip");
    command.args(["-1", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return Ok(None) };
    let mut input = child.stdin.take().expect("stdin was asked for");
    let mut output = child.stdout.take().expect("stdout was asked for");
    let bytes = std::thread::scope(|scope| -> anyhow::Result<u64> {
        let writer = scope.spawn(move || {
            for piece in pieces {
                input.write_all(piece)?;
            }
            std::io::Result::Ok(())
        });
        let mut buffer = vec![0; 1 << 16];
        let mut bytes = 0;
        loop {
            match output.read(&mut buffer)? {
                0 => break,
                read => bytes += read as u64,
            }
        }
        writer.join().expect("no panic").context("gzip took no more")?;
        Ok(bytes)
    })?;
    anyhow::ensure!(child.wait()?.success(), "gzip failed");
    Ok(Some(bytes))
}

/// Frames stored as they are, so that headers and index have the largest share.
fn overhead(scratch: &Scratch, quick: bool) -> anyhow::Result<Vec<Overhead>> {
    let frames: &[(bool, u64, u64)] = if quick {
        &[(true, 3, 4)]
    } else {
        &[(true, 3, 64), (true, 64, 4), (false, 15, 64), (false, 64, 16)]
    };
    let mut overhead = Vec::new();
    for &(thousand, frame_s, count) in frames {
        let seconds = frame_s * count;
        let data = if thousand { DataSet::thousand(seconds) } else { DataSet::sixty(seconds) };
        let folder = scratch.folder.join("run");
        let layout = Layout { frame_s, frames_per_file: u64::MAX >> 40 };
        let report = data.write_run(&folder, layout, "none".parse()?)?;
        std::fs::remove_dir_all(&folder)?;
        overhead.push(Overhead {
            channels: data.channels.len(),
            frames: report.frames,
            frame_raw_bytes: data.raw_bytes() / report.frames,
            stored_bytes: report.stored_bytes,
            file_bytes: report.file_bytes,
        });
    }
    Ok(overhead)
}

fn sizes(figures: &Figures) -> Section {
    let mut head = vec!["size".to_owned()];
    head.extend(figures.kinds.iter().map(|kind| kind.name.clone()));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new(&head);
    let row = |name: &str, cell: &dyn Fn(&Kind) -> String| {
        let mut row = vec![name.to_owned()];
        row.extend(figures.kinds.iter().map(cell));
        row
    };
    table.row(row("raw", &|kind| Bytes(kind.raw_bytes).to_string()));
    let saved = |kind: &Kind, bytes: u64| {
        let percent = 100.0 - bytes as f64 * 100.0 / kind.raw_bytes as f64;
        format!("{}, {percent:.0} % saved", Bytes(bytes))
    };
    table.row(row("gzip -1", &|kind| {
        kind.gzip_bytes.map_or_else(|| "no gzip".into(), |bytes| saved(kind, bytes))
    }));
    for (index, coding) in CODINGS.iter().enumerate() {
        table.row(row(coding, &|kind| saved(kind, kind.codecs[index].file_bytes)));
    }
    table.row(row("the memo, gzip", &|kind| format!("{:.0} % saved", kind.memo.saved_percent())));
    let section =
        figures.kinds.iter().fold(Section::new("What frames take", table), |all, kind| {
            all.note(format!("{}: {}.", kind.name, kind.content))
        });
    section.note(
        "Catchment's sizes are those of whole files. gzip has the raw samples, channel after channel, \
         without any format; the memo's gzip had whole files. noise: the emulator's, which uses all \
         bits. quiet: whole counts of an ADC, noise of 16 to 512 counts rms, one channel in \
         eight at rest: about as compressible as the memo's full frames, which came from a \
         detector.",
    )
}

/// The memo's own table.
fn memo() -> Section {
    let table = table(
        MEMO,
        &[
            ("the memo", &|one| one.name.to_owned()),
            ("of", &|one| one.of.to_owned()),
            ("size", &|one| bytes(f64::from(one.megabytes) * 1e6)),
            ("by gzip", &|one| bytes(f64::from(one.gzip_megabytes) * 1e6)),
            ("ratio", &|one| percent(100.0 - one.saved_percent())),
            ("saved", &|one| percent(one.saved_percent())),
        ],
    );
    Section::new("What the memo's frames took", table).note(
        "LIGO-T000108, page 3: its ratio is the compressed size over the size. The format of its \
         fourth row is not Catchment's to write; minute trends hold the same.",
    )
}

fn headers(figures: &Figures) -> Section {
    let if_large = |one: &Overhead, text: String| {
        if one.frame_raw_bytes >= 8_000_000 { text } else { String::new() }
    };
    let table = table(
        &figures.overhead,
        &[
            ("headers and index", &|one| format!("{} channels", one.channels)),
            ("frames of", &|one| {
                format!("{}, {} in a file", Bytes(one.frame_raw_bytes), one.frames)
            }),
            ("share", &|one| format!("{:.2} %", one.percent())),
            ("asked", &|one| if_large(one, "under 1 %".into())),
            ("result", &|one| if_large(one, met(false, one.percent() < 1.0))),
        ],
    );
    Section::new("Headers and index", table).note(
        "Everything in the files that is no column's bytes, in percent of these; not compressed.",
    )
}

fn duration(seconds: u64) -> String {
    match seconds {
        hours if hours.is_multiple_of(3_600) => format!("{} h", hours / 3_600),
        seconds => format!("{seconds} s"),
    }
}

const CODINGS: [&str; 10] = [
    "none",
    "lz4",
    "zstd:1",
    "zstd:3",
    "shuffle+zstd:1",
    "bitshuffle+lz4",
    "bitshuffle+zstd:1",
    "for",
    "pcodec:8",
    "auto",
];
const MEMO: [Memo; 4] = [
    Memo { name: "full frames", of: "1 h", megabytes: 10_858, gzip_megabytes: 5_355 },
    Memo { name: "second frames", of: "1 d", megabytes: 3_652, gzip_megabytes: 682 },
    Memo { name: "minute frames", of: "", megabytes: 71, gzip_megabytes: 19 },
    Memo { name: "minute CDS format", of: "all", megabytes: 25_707, gzip_megabytes: 5_796 },
];
/// Seconds of a channel that are summed up at once.
const PIECE_S: u64 = 64;

const FULL: Scale =
    Scale { full_s: 64, second_s: 3_600, minute_s: 86_400, second_every: 1, minute_every: 10 };
const QUICK: Scale =
    Scale { full_s: 2, second_s: 120, minute_s: 600, second_every: 20, minute_every: 50 };
