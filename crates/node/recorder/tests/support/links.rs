//! A sender of channels, and what its recorder's files must hold.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;

use catchment_fixtures::sender_to;
use catchment_frame::{Dtype, FileReader, FrameKind, SampleRun, verify_frame};
use catchment_model::{SampleRate, SourceLedger};
use catchment_recorder::{ChannelConfig, LinkConfig, Recorder, RecorderConfig, RunSummary};
use catchment_storage::{Run, Verdict, audit, verify};
use catchment_wire::link::{EntryHeader, Header, Kind, PacketEncoder, encode_heartbeat};

pub const SLICE_NS: u64 = 250_000_000;
/// A slice of 2026, which is no multiple of a frame's slices.
pub const FIRST: u64 = 1_790_000_000 * 4 + 3;

/// Channels whose slices are equal, unequal, and mostly empty.
pub fn channels() -> Vec<ChannelConfig> {
    let rate = |num, den| SampleRate::new(num, den).unwrap();
    vec![
        ChannelConfig::new("X:FAST", Dtype::F32, rate(4_096, 1)),
        ChannelConfig::new("X:ODD", Dtype::I16, rate(1_000, 3)),
        ChannelConfig::new("X:SLOW", Dtype::F64, rate(1, 3)),
        ChannelConfig { shape: vec![3], ..ChannelConfig::new("X:XYZ", Dtype::I32, rate(16, 1)) },
    ]
}

pub fn config(folder: &Path) -> RecorderConfig {
    let mut config = super::config(folder, 0);
    config.links = vec![LinkConfig::new("link", "127.0.0.1:0".parse().unwrap(), channels())];
    config.frame.duration_ns = 4_000_000_000;
    config
}

/// The bytes of a channel's sample: they say which it is.
pub fn sample(channel: usize, number: u64, bytes: u64) -> Vec<u8> {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ channel as u64;
    let value = (mixed >> 20) as f64 / 1e9 - 5e3;
    match bytes {
        8 => value.to_le_bytes().to_vec(),
        4 => (value as f32).to_le_bytes().to_vec(),
        _ => mixed.to_le_bytes().into_iter().cycle().take(bytes as usize).collect(),
    }
}

/// A sender of these channels.
pub struct Sender {
    pub socket: UdpSocket,
    pub channels: Vec<ChannelConfig>,
    pub sequence: u64,
}

impl Sender {
    pub fn new(recorder: &Recorder, link: usize, channels: Vec<ChannelConfig>) -> Self {
        let socket = sender_to(recorder.addresses()[link]);
        Self { socket, channels, sequence: 0 }
    }

    /// The packet of these channels' parts of a slice.
    pub fn packet(&mut self, slice: u64, which: &[usize]) -> Vec<u8> {
        let sequence = self.sequence;
        self.sequence += 1;
        let header = Header { kind: Kind::Samples, link: 1, sequence, slice, slice_ns: SLICE_NS };
        let mut buffer = vec![0; 65_507];
        let mut encoder = PacketEncoder::begin(&mut buffer, &header);
        for &channel in which {
            let samples = self.channels[channel].rate.samples_of_slice(slice, SLICE_NS);
            let bytes = (samples.end - samples.start) * self.channels[channel].sample_bytes();
            let entry =
                EntryHeader { channel: channel as u32, first_sample: 0, bytes: bytes as u32 };
            assert!(encoder.push(&entry), "fits");
        }
        let channels = &self.channels;
        let bytes = encoder.finish_with(|entry, area| {
            let channel = &channels[entry.channel as usize];
            let samples = channel.rate.samples_of_slice(slice, SLICE_NS);
            let sample_bytes = channel.sample_bytes();
            let made =
                samples.flat_map(|number| sample(entry.channel as usize, number, sample_bytes));
            area.copy_from_slice(&made.collect::<Vec<u8>>());
        });
        buffer.truncate(bytes);
        buffer
    }

    pub fn send(&mut self, slice: u64) {
        let all: Vec<usize> = (0..self.channels.len()).collect();
        let packet = self.packet(slice, &all);
        self.socket.send(&packet).unwrap();
    }

    pub fn heartbeat(&self, slice: u64) {
        let sequence = self.sequence;
        let header = Header { kind: Kind::Heartbeat, link: 1, sequence, slice, slice_ns: SLICE_NS };
        let mut buffer = vec![0; 48];
        let bytes = encode_heartbeat(&mut buffer, &header);
        self.socket.send(&buffer[..bytes]).unwrap();
    }
}

/// What a run's files hold of each channel: sample number to bytes.
pub type Recorded = Vec<BTreeMap<u64, Vec<u8>>>;

/// Reads all samples of all files, and checks what frames say of themselves.
pub fn read(summary: &RunSummary, channels: &[ChannelConfig]) -> Recorded {
    let mut recorded: Recorded = vec![BTreeMap::new(); channels.len()];
    for path in &summary.last.files {
        let bytes = std::fs::read(path).unwrap();
        let reader = FileReader::open(&bytes[..]).unwrap();
        assert!(reader.closed());
        for frame in 0..reader.frames().len() {
            let info = reader.frames()[frame].info;
            if info.kind == FrameKind::SKIPPED {
                continue;
            }
            assert_eq!(info.kind, FrameKind::Channels);
            assert!(verify_frame(&reader, frame).is_empty(), "{:?}", verify_frame(&reader, frame));
            let spans = reader.spans(frame).unwrap();
            for entry in reader.columns(frame).unwrap() {
                let all = reader.channel_columns();
                let Some(index) = all.channels.iter().position(|c| c.id == entry.id) else {
                    continue;
                };
                let mut raw = Vec::new();
                assert!(reader.read(frame, entry.id, &mut raw).unwrap());
                let channel = &channels[index];
                assert_eq!(entry.start_ns, channel.rate.time_ns(entry.first_sample));
                let mut samples = raw.chunks_exact(channel.sample_bytes() as usize);
                for SampleRun { rows, first_sample, .. } in spans.runs(&entry).unwrap() {
                    for number in first_sample..first_sample + rows {
                        let time = channel.rate.time_ns(number);
                        assert!((info.time_first_ns..info.time_last_ns).contains(&time));
                        let bytes = samples.next().unwrap().to_vec();
                        assert!(recorded[index].insert(number, bytes).is_none(), "once");
                    }
                }
                assert!(samples.next().is_none());
            }
        }
    }
    recorded
}

/// Every sample of these slices is there, as it was sent, and no other.
pub fn assert_samples(
    recorded: &Recorded,
    channels: &[ChannelConfig],
    slices: impl Iterator<Item = u64> + Clone,
) {
    for (index, channel) in channels.iter().enumerate() {
        let numbers = slices.clone().flat_map(|k| channel.rate.samples_of_slice(k, SLICE_NS));
        let expected: BTreeMap<u64, Vec<u8>> =
            numbers.map(|n| (n, sample(index, n, channel.sample_bytes()))).collect();
        assert!(recorded[index] == expected, "{}", channel.name);
    }
}

/// What the files' books say is what the recorder's said, and every byte is whole.
pub fn assert_books(summary: &RunSummary, verdict: Verdict) {
    let run = Run::open(&summary.folder).unwrap();
    let report = verify(&run, |_| {});
    assert!(report.is_intact(), "{report:?}");
    let audit = audit(&run).unwrap();
    assert!(audit.differences.is_empty(), "{:?}", audit.differences);
    assert_eq!(audit.verdict, verdict, "{audit:?}");
}

pub fn link_ledger(summary: &RunSummary, link: usize) -> SourceLedger {
    summary.last.ledger.sources[link].clone()
}
