//! The data of the LIGO benches: emulated channels, as raw samples and as runs.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use catchment_emulator::{ChannelContent, EmulatedChannel, ligo_1000};
use catchment_frame::{Dtype, Schema};
use catchment_model::SampleRate;
use catchment_storage::{
    ChannelInfo, Codings, ColumnCoding, Ending, NewRun, RunWriter, WriteOptions, WriteReport,
};
use serde::Serialize;

use crate::ligo_quiet;

/// Channels and how many seconds of them.
pub(crate) struct DataSet {
    pub(crate) channels: Vec<EmulatedChannel>,
    pub(crate) seconds: u64,
    content: Content,
}

/// The source of the samples.
enum Content {
    Noise(ChannelContent),
    Quiet,
}

/// How long frames are, and how many of them are in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Layout {
    pub(crate) frame_s: u64,
    pub(crate) frames_per_file: u64,
}

/// A channel's samples in the file of raw samples: channel after channel.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RawChannel {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) rate: u64,
    pub(crate) offset: u64,
    pub(crate) samples: u64,
}

/// A folder below the scratch folder that goes when the bench is done, however it ends.
pub(crate) struct Scratch {
    pub(crate) folder: PathBuf,
    parent: Option<PathBuf>,
}

impl DataSet {
    /// The memo's table: 16 kHz of 4 bytes, 2 kHz of 4 bytes and 256 Hz of 2 bytes, 60 in all.
    pub(crate) fn sixty(seconds: u64) -> Self {
        let groups = [
            ("FAST", 6, 16_384, Dtype::F32),
            ("MEDIUM", 18, 2_048, Dtype::F32),
            ("SLOW", 36, 256, Dtype::I16),
        ];
        let channels = groups.into_iter().flat_map(|(group, count, hz, dtype)| {
            (0..count).map(move |number| EmulatedChannel {
                name: format!("X:{group}-{number:04}"),
                dtype,
                shape: Vec::new(),
                rate: SampleRate::new(hz, 1).expect("a rate within bounds"),
                unit: String::from(if dtype == Dtype::F32 { "strain" } else { "ct" }),
            })
        });
        Self::new(channels.collect(), seconds)
    }

    /// The preset ligo-1000.
    pub(crate) fn thousand(seconds: u64) -> Self {
        Self::new(ligo_1000(), seconds)
    }

    /// These channels.
    pub(crate) fn new(channels: Vec<EmulatedChannel>, seconds: u64) -> Self {
        let content = Content::Noise(ChannelContent::new(SEED, &channels));
        Self { channels, seconds, content }
    }

    /// These channels, with the entropy of a detector's.
    pub(crate) fn quiet(channels: Vec<EmulatedChannel>, seconds: u64) -> Self {
        Self { channels, seconds, content: Content::Quiet }
    }

    /// Bytes of all samples.
    pub(crate) fn raw_bytes(&self) -> u64 {
        (0..self.channels.len()).map(|channel| self.channel_bytes(channel)).sum()
    }

    /// Bytes of one channel's samples.
    pub(crate) fn channel_bytes(&self, channel: usize) -> u64 {
        let channel = &self.channels[channel];
        samples(channel, self.seconds) * channel.sample_bytes() as u64
    }

    /// Fills in a channel's samples from a second on, counted from the beginning of the data.
    pub(crate) fn fill(&self, channel: usize, second: u64, out: &mut [u8]) {
        self.fill_from(channel, samples(&self.channels[channel], START_S + second), out);
    }

    /// Fills in a channel's samples from that one on.
    fn fill_from(&self, channel: usize, first: u64, out: &mut [u8]) {
        match &self.content {
            Content::Noise(content) => content.fill(channel as u32, first, out),
            Content::Quiet => ligo_quiet::fill(channel, &self.channels[channel], first, out),
        }
    }

    /// Writes the samples to `sink`, channel after channel, and returns where each one stands.
    pub(crate) fn write_raw(&self, sink: &mut impl Write) -> anyhow::Result<Vec<RawChannel>> {
        let mut raw = Vec::with_capacity(self.channels.len());
        let mut offset = 0;
        let mut bytes = Vec::new();
        for (index, channel) in self.channels.iter().enumerate() {
            raw.push(RawChannel {
                name: channel.name.clone(),
                dtype: if channel.dtype == Dtype::F32 { "<f4" } else { "<i2" },
                rate: samples(channel, 1),
                offset,
                samples: samples(channel, self.seconds),
            });
            offset += self.channel_bytes(index);
            for second in (0..self.seconds).step_by(BLOCK_S as usize) {
                let block_s = BLOCK_S.min(self.seconds - second);
                bytes.resize(samples(channel, block_s) as usize * channel.sample_bytes(), 0);
                self.fill(index, second, &mut bytes);
                sink.write_all(&bytes).context("cannot write raw samples")?;
            }
        }
        Ok(raw)
    }

    /// Writes a run of all channels into a folder that is not there yet.
    pub(crate) fn write_run(
        &self,
        folder: &Path,
        layout: Layout,
        coding: ColumnCoding,
    ) -> anyhow::Result<WriteReport> {
        let infos = self.channels.iter().map(|channel| ChannelInfo {
            unit: channel.unit.clone(),
            ..ChannelInfo::new(&channel.name, channel.dtype, channel.rate)
        });
        let options = WriteOptions {
            file_time_ns: Some(layout.frame_s * layout.frames_per_file * SECOND_NS),
            codings: Codings::new(coding),
            ..WriteOptions::default()
        };
        let mut writer = new_run(folder, infos.collect(), options)?;
        for begin in (0..self.seconds).step_by(layout.frame_s as usize) {
            let end = (begin + layout.frame_s).min(self.seconds);
            let time_ns = (START_S + begin) * SECOND_NS..(START_S + end) * SECOND_NS;
            writer
                .write_made(time_ns, &|channel, first, out| self.fill_from(channel, first, out))?;
        }
        Ok(writer.finish(Ending { run_ended: true, ..Ending::default() })?)
    }
}

/// Begins a run of these channels in a folder that is not there yet.
pub(crate) fn new_run(
    folder: &Path,
    channels: Vec<ChannelInfo>,
    options: WriteOptions,
) -> anyhow::Result<RunWriter> {
    let schema = Schema::default().with_channels(channels)?;
    Ok(RunWriter::create(NewRun::new(folder, "bench", schema)?, options)?)
}

impl Scratch {
    /// Makes a folder of that name, and removes the leftovers of a bench that was killed.
    pub(crate) fn new(parent: &Path, name: &str) -> anyhow::Result<Self> {
        let folder = parent.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let made = !parent.exists();
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder, parent: made.then(|| parent.to_owned()) })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
        if let Some(parent) = &self.parent {
            std::fs::remove_dir(parent).ok();
        }
    }
}

/// Samples of so many seconds; every rate here is a whole number per second.
pub(crate) fn samples(channel: &EmulatedChannel, seconds: u64) -> u64 {
    channel.rate.first_sample_at(seconds * SECOND_NS)
}

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// Where the data begin: a common border of all lengths of frames that the benches use.
pub(crate) const START_S: u64 = 1_399_680_000;
const SEED: u64 = 3;
/// Seconds of a channel that are made at once.
const BLOCK_S: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_samples_are_those_of_the_run() {
        let data = DataSet::sixty(3);
        let mut bytes = Vec::new();
        let raw = data.write_raw(&mut bytes).unwrap();
        assert_eq!((raw.len(), bytes.len() as u64), (60, data.raw_bytes()));
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let layout = Layout { frame_s: 2, frames_per_file: 1 };
        let report = data.write_run(&run, layout, "auto".parse().unwrap()).unwrap();
        assert_eq!((report.frames, report.files.len()), (2, 2));
        let run = catchment_storage::Run::open(&run).unwrap();
        for channel in [&raw[0], &raw[30], &raw[59]] {
            let read = run.channel(&channel.name).unwrap();
            let segments = read.read(&catchment_storage::Select::All).unwrap();
            assert_eq!(segments.len(), 1, "{}", channel.name);
            let expected = &bytes[channel.offset as usize..][..segments[0].bytes.len()];
            assert_eq!(segments[0].samples, channel.samples);
            assert!(segments[0].bytes == expected, "{}", channel.name);
        }
    }

    #[test]
    fn a_scratch_folder_goes_with_the_bench() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("runs");
        let scratch = Scratch::new(&parent, "ligo").unwrap();
        std::fs::write(scratch.folder.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!parent.exists());
    }
}
