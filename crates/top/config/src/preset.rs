//! `hades-90` and `alpha-72` as configuration texts: `demo` and `bench` record them, and `run`
//! could again.

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
        let mut line = |arguments: std::fmt::Arguments<'_>| add_line(&mut text, arguments);
        begin(&mut line, &self.folder, self.codec);
        line(format_args!("[emulator]\npreset = \"hades-90\"\nseed = {}", self.seed));
        line(format_args!("water_mark = {}", self.water_mark_bytes));
        line(format_args!("huge_every = {}", self.huge_every));
        send(&mut line, self.rate, self.equal_bursts);
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
        bytes_for(self.rate, self.bytes_per_event(), seconds)
    }

    /// Bytes of all sources' sub-events of one event, on average.
    pub fn bytes_per_event(&self) -> f64 {
        let huge = if self.huge_every == 0 { 0.0 } else { 90.0 * 60e3 / self.huge_every as f64 };
        60.0 * 132.0 + 20.0 * 354.0 + 10.0 * 1_186.0 + huge
    }
}

/// The choices that ALPHA-g's boards leave: 64 and 8 with clocks of 125 MHz, whose datagrams are
/// events by their times.
#[derive(Clone, Debug)]
pub struct Alpha72 {
    /// The folder of the runs.
    pub folder: PathBuf,
    /// Events per second.
    pub rate: Rate,
    /// The most bytes of a datagram.
    pub datagram_bytes: u32,
    /// Datagrams of one length, 64 of a board in a row; or each of a length of its own, up to a
    /// tenth less than the most, so that none is sent together with others.
    pub bursts: bool,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Alpha72 {
    /// The configuration file that says the same. Ports are chosen by the system.
    pub fn text(&self) -> String {
        let mut text = String::from("# alpha-72: 64 and 8 boards, events by time.\n");
        let mut line = |arguments: std::fmt::Arguments<'_>| add_line(&mut text, arguments);
        begin(&mut line, &self.folder, ColumnCoding::NONE);
        let time = "{ window = \"1 us\", coincidence = 2 }";
        line(format_args!("[build]\nmatch = \"time\"\ntime = {time}\n"));
        line(format_args!("[emulator]\npreset = \"alpha-72\"\nseed = {}", self.seed));
        line(format_args!("water_mark = 0\nclocks.jitter = \"100 ns\""));
        send(&mut line, self.rate, self.bursts.then_some(ALPHA_BURST));
        let sigma = if self.bursts { 0.0 } else { ALPHA_SIGMA };
        let mean = self.body_bytes();
        for (group, _) in ALPHA_GROUPS {
            line(format_args!("[[emulator.sizes]]\ngroup = \"{group}\"\nmean = {mean}"));
            line(format_args!("sigma = {sigma:?}"));
        }
        line(format_args!("\n{ALPHA_LAYOUT}"));
        let mut id = 1;
        for (group, count) in ALPHA_GROUPS {
            line(format_args!("\n[[source_groups]]\ngroup = \"{group}\"\ncount = {count}"));
            line(format_args!("name = \"{group}-{{:02}}\"\naddress = \"127.0.0.1:0\""));
            line(format_args!("protocol = \"layout\"\nlayout = \"alpha-pad\""));
            line(format_args!("first_sub_event_id = {id}"));
            id += count;
        }
        text
    }

    /// The checked configuration.
    ///
    /// # Errors
    /// A choice out of bounds.
    pub fn high(&self) -> Result<High, ConfigFileError> {
        check(Path::new("alpha-72"), &self.text())
    }

    /// Bytes that the recorder will write in that time, with a fifth to spare.
    pub fn bytes_for(&self, seconds: f64) -> u64 {
        let datagram_bytes = self.body_bytes() + ALPHA_FRAME_BYTES;
        bytes_for(self.rate, f64::from(72 * datagram_bytes), seconds)
    }

    /// Bytes of a body, on average.
    fn body_bytes(&self) -> u32 {
        let most = self.datagram_bytes.saturating_sub(ALPHA_FRAME_BYTES);
        if self.bursts { most } else { most / 16 * 15 }
    }
}

/// A line of a text.
fn add_line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a String takes all");
    text.push('\n');
}

/// The CPUs of the receive thread and of the sender, if there are two: on one they would take
/// turns, and packets be lost in between.
fn pins() -> Option<(usize, usize)> {
    let cpus = catchment_net::cpus();
    (cpus.len() > 1).then(|| (cpus[0], cpus[1]))
}

fn begin(line: &mut impl FnMut(std::fmt::Arguments<'_>), folder: &Path, codec: ColumnCoding) {
    let folder = toml::Value::String(folder.display().to_string());
    line(format_args!("[run]\nfolder = {folder}\n"));
    if let Some((receive, _)) = pins() {
        line(format_args!("[receive]\ncpus = [{receive}]\n"));
    }
    line(format_args!("[frame]\ncodec = \"{codec}\"\n"));
}

fn send(line: &mut impl FnMut(std::fmt::Arguments<'_>), rate: Rate, equal_bursts: Option<u32>) {
    match rate.0 {
        None => line(format_args!("rate = \"max\"")),
        Some(hz) => line(format_args!("rate = \"{hz} Hz\"")),
    }
    if let Some(events) = equal_bursts {
        line(format_args!("equal_bursts = {events}"));
    }
    if let Some((_, emulator)) = pins() {
        line(format_args!("cpu = {emulator}"));
    }
}

fn bytes_for(rate: Rate, bytes_per_event: f64, seconds: f64) -> u64 {
    let per_second = rate.0.map_or(2e9, |hz| hz * bytes_per_event);
    (per_second * seconds * 1.2) as u64 + (64 << 20)
}

/// ALPHA-g's groups of boards, and the packets that they send.
const ALPHA_GROUPS: [(&str, u32); 2] = [("pad", 64), ("wire", 8)];
const ALPHA_LAYOUT: &str = r#"[[layouts]]
name = "alpha-pad"
packet = { head = 24, tail = 4, bytes_max = 8928, fields = [
    { equals = 0xA16A, at = 0, width = 2 },
    { is = "source", at = 2, width = 2, bits = [0, 7] },
    { is = "broken", at = 2, width = 2, bits = 15 },
    { is = "sequence", at = 4 },
    { is = "length", at = 8, width = 2, plus = 24 },
    { is = "tag", at = 18, width = 1 },
    { is = "time", at = 12, width = 6, rate = "125 MHz" },
    { is = "checksum", at = -4, kind = "crc32c" },
    { is = "groups", at = 10, width = 2 } ] }
"#;
/// Bytes of its head and tail.
const ALPHA_FRAME_BYTES: u32 = 28;
const ALPHA_BURST: u32 = 64;
const ALPHA_SIGMA: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_72_is_a_configuration_of_72_boards_with_its_layout() {
        for (bursts, datagram_bytes) in [(true, 1_400), (false, 8_900)] {
            let rate = Rate(Some(1_000.0));
            let preset = Alpha72 { folder: "alpha".into(), rate, datagram_bytes, bursts, seed: 3 };
            let high = preset.high().unwrap();
            assert!(high.recorder.is_by_time());
            assert_eq!(high.layouts[0].layout(), catchment_wire::layouts::alpha_72().layout());
            let emulator = high.emulator.unwrap();
            assert_eq!(emulator.sources.len(), 72);
            let of_preset = catchment_emulator::alpha_72();
            for (source, preset) in emulator.sources.iter().zip(&of_preset) {
                assert_eq!((&source.group, &source.board), (&preset.group, &preset.board));
                assert_eq!(source.sub_event_id, preset.sub_event_id);
                assert!(source.mean_bytes + 28.0 <= f64::from(datagram_bytes));
            }
        }
    }

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
