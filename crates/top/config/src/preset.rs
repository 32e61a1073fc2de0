//! `hades-90` as a configuration text: `demo` and `bench` record it, and `run` could again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use catchment_frame::ColumnCoding;

use crate::{ConfigFileError, High, Rate, check};

/// The choices that a HADES-like detector leaves.
#[derive(Clone, Debug)]
pub struct Hades90 {
    /// The folder of the runs.
    pub folder: PathBuf,
    /// Events per second.
    pub rate: Rate,
    /// A packet is sent when it has at least as many bytes; 0: one sub-event per packet.
    pub water_mark_bytes: u64,
    /// Of each source one sub-event in so many is huge; 0: none.
    pub huge_every: u64,
    /// So many sub-events of a source in a row have the same size.
    pub equal_bursts: Option<u32>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The coding of the columns.
    pub codec: ColumnCoding,
}

impl Hades90 {
    /// The configuration file that says the same. Ports are chosen by the system.
    pub fn text(&self) -> String {
        let mut text =
            String::from("# hades-90: 60, 20 and 10 sources of mean 116, 338 and 1170 bytes.\n");
        let codec = self.codec;
        let folder = toml::Value::String(self.folder.display().to_string());
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            text.write_fmt(arguments).expect("a String takes all");
            text.push('\n');
        };
        line(format_args!("[run]\nfolder = {folder}\n"));
        // The sender and the receive thread each get a CPU, if there are two: on one they would
        // take turns, and packets be lost in between.
        let cpus = catchment_net::cpus();
        let pins = (cpus.len() > 1).then(|| (cpus[0], cpus[1]));
        if let Some((receive, _)) = pins {
            line(format_args!("[receive]\ncpus = [{receive}]\n"));
        }
        line(format_args!("[frame]\ncodec = \"{codec}\"\n"));
        line(format_args!("[emulator]\npreset = \"hades-90\"\nseed = {}", self.seed));
        match self.rate.0 {
            None => line(format_args!("rate = \"max\"")),
            Some(hz) => line(format_args!("rate = \"{hz} Hz\"")),
        }
        line(format_args!("water_mark = {}", self.water_mark_bytes));
        line(format_args!("huge_every = {}", self.huge_every));
        if let Some(events) = self.equal_bursts {
            line(format_args!("equal_bursts = {events}"));
        }
        if let Some((_, emulator)) = pins {
            line(format_args!("cpu = {emulator}"));
        }
        let mut id = 0x8000;
        for (group, count) in [("small", 60), ("medium", 20), ("large", 10)] {
            line(format_args!("\n[[source_groups]]\ngroup = \"{group}\"\ncount = {count}"));
            line(format_args!("name = \"{group}-{{:02}}\"\naddress = \"127.0.0.1:0\""));
            line(format_args!("first_sub_event_id = {id:#x}"));
            id += count;
        }
        text
    }

    /// The checked configuration.
    ///
    /// # Errors
    /// A choice out of bounds.
    pub fn high(&self) -> Result<High, ConfigFileError> {
        check(Path::new("hades-90"), &self.text())
    }

    /// Bytes that the recorder will write in that time, with a fifth to spare.
    pub fn bytes_for(&self, seconds: f64) -> u64 {
        let per_second = match self.rate.0 {
            Some(hz) => hz * self.bytes_per_event(),
            None => 2e9,
        };
        (per_second * seconds * 1.2) as u64 + (64 << 20)
    }

    /// Bytes of all sources' sub-events of one event, on average.
    pub fn bytes_per_event(&self) -> f64 {
        let huge = if self.huge_every == 0 { 0.0 } else { 90.0 * 60e3 / self.huge_every as f64 };
        60.0 * 132.0 + 20.0 * 354.0 + 10.0 * 1_186.0 + huge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_is_a_configuration_of_90_sources() {
        let preset = Hades90 {
            folder: "a \"quoted\" folder".into(),
            rate: Rate(Some(4_000.0)),
            water_mark_bytes: 32_000,
            huge_every: 1_000,
            equal_bursts: None,
            seed: 7,
            codec: "lz4".parse().unwrap(),
        };
        let high = preset.high().unwrap();
        assert_eq!(high.recorder.folder, preset.folder);
        assert_eq!(high.recorder.sources.len(), 90);
        let emulator = high.emulator.unwrap();
        let mean: f64 = emulator.sources.iter().map(|source| source.mean_bytes).sum();
        assert_eq!(mean, 60.0 * 116.0 + 20.0 * 338.0 + 10.0 * 1_170.0);
        assert_eq!((emulator.seed, emulator.huge_every), (7, 1_000));
        assert!(preset.bytes_for(20.0) > 2_000_000_000);
    }
}
