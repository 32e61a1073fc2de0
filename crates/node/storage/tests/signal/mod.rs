//! Runs of channels, written in code: readers must return what was put in.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::os::fd::AsRawFd as _;
use std::path::Path;

use catchment_frame::{ChannelInfo, Dtype, FileReader, Schema, Span};
use catchment_model::SampleRate;
use catchment_storage::{
    ChannelColumn, ChannelFrame, Codings, ColumnCoding, ColumnData, Ending, Make, NewRun,
    RunWriter, StorageError, WriteOptions,
};

/// Names and rates. Even channels are f32, odd ones i16.
pub const CHANNELS: [(&str, &str); 4] =
    [("fast", "256"), ("slow", "16"), ("odd", "60000/1001"), ("minute", "1/60")];

/// Codings used by every test of reading.
pub const CODINGS: [&str; 8] =
    ["none", "lz4", "zstd:3", "bitshuffle+lz4", "shuffle+zstd:1", "pcodec:4", "for", "auto"];

const FRAME_S: u64 = 4;
const NS: u64 = 1_000_000_000;
/// 2026-11-21, in seconds.
const START_S: u64 = 1_795_219_200;

/// The bytes of one sample of a channel.
pub fn sample_bytes(channel: usize, sample: u64) -> Vec<u8> {
    if channel.is_multiple_of(2) {
        ((sample % 1_000) as f32 * 0.25 + channel as f32).to_le_bytes().to_vec()
    } else {
        ((sample % 2_000) as i16 - channel as i16).to_le_bytes().to_vec()
    }
}

/// The specification of a run.
pub struct Signal {
    pub coding: &'static str,
    pub frames: u64,
    /// Frame 1 of `fast` has a gap of 10 samples after the first 100; frame 2 lacks the channel.
    pub gap: bool,
    pub file_time_s: u64,
    pub leave_open: bool,
}

impl Default for Signal {
    fn default() -> Self {
        Self { coding: "none", frames: 32, gap: false, file_time_s: 40, leave_open: false }
    }
}

/// A run as it was made.
pub struct Made {
    pub folder: tempfile::TempDir,
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Made {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn seconds(&self) -> u64 {
        (self.end_ns - self.start_ns) / NS
    }
}

pub fn schema() -> Schema {
    let channel = |(index, (name, rate)): (usize, &(&str, &str))| {
        let dtype = if index.is_multiple_of(2) { Dtype::F32 } else { Dtype::I16 };
        let rate: SampleRate = rate.parse().expect("a rate");
        ChannelInfo { unit: "ct".into(), ..ChannelInfo::new(*name, dtype, rate) }
    };
    let channels = CHANNELS.iter().enumerate().map(channel).collect();
    Schema::channels(Vec::new(), channels).expect("a schema")
}

impl Signal {
    pub fn begin(&self) -> (tempfile::TempDir, RunWriter) {
        self.begin_with(WriteOptions::small())
    }

    fn begin_with(&self, options: WriteOptions) -> (tempfile::TempDir, RunWriter) {
        let folder = tempfile::tempdir().expect("a folder");
        let run = NewRun::new(folder.path(), "signal", schema()).expect("a run");
        let coding: ColumnCoding = self.coding.parse().expect("a coding");
        let file_time_ns = Some(self.file_time_s * NS);
        let options = WriteOptions { file_time_ns, codings: Codings::new(coding), ..options };
        let writer = RunWriter::create(run, options).expect("begins");
        (folder, writer)
    }

    pub fn write(&self) -> Made {
        self.write_with(WriteOptions::small())
    }

    pub fn write_with(&self, options: WriteOptions) -> Made {
        let (folder, mut writer) = self.begin_with(options);
        let start_ns = START_S * NS;
        for frame in 0..self.frames {
            self.write_frame(&mut writer, frame).expect("writes");
        }
        writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
        Made { folder, start_ns, end_ns: start_ns + self.frames * FRAME_S * NS }
    }

    pub fn write_frame(&self, writer: &mut RunWriter, frame: u64) -> Result<(), StorageError> {
        let start_ns = (START_S + frame * FRAME_S) * NS;
        let end_ns = start_ns + FRAME_S * NS;
        let infos = writer.run().schema.clone();
        let infos: Vec<_> = infos.columns.iter().filter_map(ChannelInfo::of).collect();
        let mut columns = Vec::new();
        for (index, info) in infos.iter().enumerate() {
            let first = info.rate.first_sample_at(start_ns);
            let end = info.rate.first_sample_at(end_ns);
            let gap = self.gap && index == 0;
            if gap && frame == 2 {
                continue;
            }
            let spans = match gap && frame == 1 {
                true => vec![Span { row: 100, sample: first + 110 }],
                false => Vec::new(),
            };
            let samples =
                (first..end).filter(|n| spans.is_empty() || !(100..110).contains(&(n - first)));
            let bytes: Vec<u8> = samples.flat_map(|sample| sample_bytes(index, sample)).collect();
            columns.push((info.id, first, spans, bytes));
        }
        let makers: Vec<_> = columns
            .iter()
            .map(|(_, _, _, bytes)| {
                |out: &mut [u8]| {
                    out.copy_from_slice(bytes);
                    Ok(())
                }
            })
            .collect();
        let columns = columns.iter().zip(&makers).enumerate().map(|(index, (column, make))| {
            let (id, first_sample, spans, bytes) = column;
            // Half of them are ready, half are made on demand.
            let samples = match index.is_multiple_of(2) {
                true => ColumnData::Raw(bytes),
                false => ColumnData::Make(Make { raw_bytes: bytes.len(), make }),
            };
            ChannelColumn { id: *id, first_sample: *first_sample, spans, samples }
        });
        let columns = columns.collect();
        let frame = ChannelFrame { start_ns, end_ns, columns, keys: (0, 0), increments: None };
        writer.write_channels(frame)
    }
}

/// Writes a frame of 10 samples of `fast` with these spans and bytes of this value.
pub fn write_one(writer: &mut RunWriter, spans: &[Span], byte: u8) -> Result<(), StorageError> {
    let (start_ns, end_ns) = (START_S * NS, (START_S + FRAME_S) * NS);
    let info = writer.run().schema.columns.iter().find_map(ChannelInfo::of).expect("a channel");
    let first_sample = info.rate.first_sample_at(start_ns);
    let bytes = [byte; 40];
    let samples = ColumnData::Raw(&bytes);
    let columns = vec![ChannelColumn { id: info.id, first_sample, spans, samples }];
    writer.write_channels(ChannelFrame {
        start_ns,
        end_ns,
        columns,
        keys: (0, 0),
        increments: None,
    })
}

/// A run of frames with these bytes each of the channel `wide`, raw, and the position of the first
/// ones in its file. (Bytes near the file's end are read when it is opened.)
pub fn write_wide(frames: &[Vec<u8>]) -> (tempfile::TempDir, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let rate: SampleRate = "65536".parse().expect("a rate");
    let wide = ChannelInfo::new("wide", Dtype::F32, rate);
    let schema = Schema::channels(Vec::new(), vec![wide]).expect("a schema");
    let run = NewRun::new(folder.path(), "wide", schema).expect("a run");
    let codings = Codings::new("none".parse().expect("a coding"));
    let options = WriteOptions { codings, ..WriteOptions::small() };
    let mut writer = RunWriter::create(run, options).expect("begins");
    let info = writer.run().schema.columns.iter().find_map(ChannelInfo::of).expect("a channel");
    for (frame, bytes) in (0..).zip(frames) {
        let start_ns = (START_S + frame * FRAME_S) * NS;
        let end_ns = start_ns + FRAME_S * NS;
        let first_sample = info.rate.first_sample_at(start_ns);
        let samples = ColumnData::Raw(bytes);
        let columns = vec![ChannelColumn { id: info.id, first_sample, spans: &[], samples }];
        let frame = ChannelFrame { start_ns, end_ns, columns, keys: (0, 0), increments: None };
        writer.write_channels(frame).expect("writes");
    }
    writer.finish(Ending::default()).expect("ends");
    let run = catchment_storage::Run::open(folder.path()).expect("opens");
    let piece = run.channel("wide").expect("is there").pieces().expect("reads")[0];
    let offset = run.channel_frames()[piece.frame].summary.offset + piece.entry.offset;
    drop(run);
    (folder, offset)
}

/// Makes the system drop a file from the page cache.
pub fn forget(path: &Path) {
    let file = std::fs::File::open(path).expect("opens");
    file.sync_all().expect("syncs");
    // SAFETY: numbers only. If it fails, the bytes are the same.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Changes one byte of a column.
pub fn damage_column(path: &Path, frame: usize, column: u32) {
    let mut bytes = std::fs::read(path).expect("reads");
    let reader = FileReader::open(&bytes).expect("opens");
    let entry = reader.find(frame, column).expect("reads").expect("has it");
    let at = reader.frames()[frame].offset + entry.offset + entry.stored_bytes / 2;
    drop(reader);
    bytes[at as usize] ^= 0x55;
    std::fs::write(path, bytes).expect("writes");
}
