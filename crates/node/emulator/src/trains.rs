//! Feeders of trains: what European XFEL's train builder sends, docs/spec/train-transfer.md.
//!
//! Train *k* is sent by feeder *k* modulo their number to node *k* modulo theirs, or to all nodes,
//! as the sources of one detector send; each feeder has a thread. Every byte of a train is a pure
//! function of seed and train ([`TrainContent`]).

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_frame::{Dtype, FieldInfo, PayloadType};
use catchment_net::{Datagram, Ticks, UdpSender};
use catchment_wire::hadtu::ByteOrder;
use catchment_wire::trains::{Checksum, TrainSettings, Trains};
use serde::Serialize;

use crate::content::mix;
use crate::dummy::process_cpu_ns;
use crate::pictures::{Block, Pictures};
use crate::{ConfigError, EmulatorError, EmulatorLive};

/// What feeders send, and where to.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainConfig {
    /// The nodes, in turn.
    pub nodes: Vec<SocketAddr>,
    /// Each of them gets every train, their packets in turn: they are sources of one recorder.
    pub to_all: bool,
    /// How many feeders take turns.
    pub feeders: u32,
    /// Only this one of them runs here, from 0; the others are elsewhere.
    pub only: Option<u32>,
    /// Feeders send at the ticks of this timer, each at those of the group of its number, and not
    /// by `rate_hz`; it also says when they end.
    pub timer: Option<SocketAddr>,
    /// The packets. Their trains are as long as the images make them, with a checksum at the end.
    pub settings: TrainSettings,
    /// The images of a train.
    pub images: Images,
    /// What they show.
    pub pictures: Pictures,
    /// Trains per second of all feeders, evenly over the time; `None`: as fast as they can.
    pub rate_hz: Option<f64>,
    /// They end after so many seconds.
    pub seconds: Option<f64>,
    /// They end after so many trains.
    pub trains: Option<u64>,
    /// The number of the first train.
    pub first_train: u64,
    /// Of one in so many trains a packet is not sent: the last one of each so many.
    pub drop_every: Option<u64>,
    /// Seed of the bytes.
    pub seed: u64,
}

/// The images of a train: of pulses, rows and columns, 16 bits for each pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Images {
    /// Images of a train.
    pub pulses: u32,
    /// Their rows.
    pub y: u32,
    /// Their columns.
    pub x: u32,
}

impl Images {
    /// As many as make a train of the reference's 1,073,754,173 bytes.
    pub const REFERENCE: Self = Self { pulses: 512, y: 1_024, x: 1_024 };

    /// Bytes of all images.
    pub fn bytes(&self) -> u64 {
        2 * u64::from(self.pulses) * u64::from(self.y) * u64::from(self.x)
    }

    /// Bytes of a train with them.
    pub fn train_bytes(&self) -> u64 {
        HEADER_BYTES + self.bytes() + self.tail_bytes()
    }

    /// The type of a train's bytes, for readers.
    pub fn payload_type(&self) -> PayloadType {
        let (pulses, channels) = (u64::from(self.pulses), u64::from(CHANNELS));
        let mut fields = Vec::new();
        let mut at = 0;
        let mut add = |name: &str, dtype: Dtype, shape: &[u64]| {
            let bytes = dtype.bits().unwrap_or(0) / 8 * shape.iter().product::<u64>();
            fields.push(FieldInfo { name: name.into(), dtype, shape: shape.into(), offset: at });
            at += bytes;
        };
        add("magic", Dtype::U32, &[]);
        add("version", Dtype::U32, &[]);
        add("train", Dtype::U64, &[]);
        add("shape", Dtype::U32, &[3]);
        add("reserved", Dtype::U32, &[]);
        add("time_ns", Dtype::U64, &[]);
        add("feeder", Dtype::U32, &[]);
        add("header_rest", Dtype::U8, &[HEADER_BYTES - 44]);
        add("images", Dtype::U16, &[pulses, self.y.into(), self.x.into()]);
        add("descriptors.time_ns", Dtype::U64, &[pulses]);
        add("descriptors.pulse", Dtype::U32, &[pulses]);
        add("descriptors.cell", Dtype::U16, &[pulses]);
        add("descriptors.status", Dtype::U16, &[pulses]);
        add("detector.time_ns", Dtype::U64, &[channels]);
        add("detector.value", Dtype::F64, &[channels]);
        add("detector.raw", Dtype::U64, &[channels]);
        add("detector.channel", Dtype::U32, &[channels]);
        add("detector.status", Dtype::U32, &[channels]);
        add("trailer_magic", Dtype::U32, &[]);
        add("trailer_train", Dtype::U64, &[]);
        add("trailer_rest", Dtype::U8, &[TRAILER_BYTES - 12 - CHECKSUM_BYTES]);
        add("adler32", Dtype::U32, &[]);
        let (dtype, shape, record_bytes) = (Dtype::Record, Vec::new(), at as u32);
        PayloadType { dtype, shape, skip: 0, record_bytes, fields }
    }

    fn tail_bytes(&self) -> u64 {
        DESCRIPTOR_BYTES * u64::from(self.pulses) + DETECTOR_BYTES + TRAILER_BYTES
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            to_all: false,
            feeders: 1,
            only: None,
            timer: None,
            settings: TrainSettings::default(),
            images: Images::REFERENCE,
            pictures: Pictures::Noise,
            rate_hz: Some(TRAINS_HZ_DEFAULT),
            seconds: None,
            trains: None,
            first_train: 0,
            drop_every: None,
            seed: 1,
        }
    }
}

impl TrainConfig {
    /// The protocol of the trains that are sent.
    ///
    /// # Errors
    /// A value out of its bounds.
    pub fn protocol(&self) -> Result<Trains, ConfigError> {
        let refused = |key: &str, expected: &str, got: String| {
            Err(ConfigError { key: key.into(), expected: expected.into(), got })
        };
        let Images { pulses, y, x } = self.images;
        let fits = |count: u32| (1..=65_536).contains(&count);
        if !fits(pulses) || !fits(y) || !fits(x) {
            let got = format!("{pulses} of {y} x {x}");
            return refused("images", "1 to 65536 pulses, rows and columns", got);
        }
        if !(1..=64).contains(&self.feeders) {
            return refused("feeders", "1 to 64", self.feeders.to_string());
        }
        if let Some(only) = self.only.filter(|&only| only >= self.feeders) {
            return refused("only", "a number below that of the feeders", only.to_string());
        }
        if self.nodes.is_empty() {
            return refused("nodes", "at least one", "none".into());
        }
        if self.drop_every == Some(0) {
            return refused("drop_every", "at least 1", "0".into());
        }
        let train_bytes = self.images.train_bytes();
        let settings = TrainSettings {
            train_bytes,
            adler32_at: Some(train_bytes - CHECKSUM_BYTES),
            ..self.settings.clone()
        };
        Trains::new(settings).map_err(|error| ConfigError {
            key: error.key.into(),
            expected: error.expected,
            got: error.got.to_string(),
        })
    }
}

/// What feeders have sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrainReport {
    /// The seed, which reproduces the bytes.
    pub seed: u64,
    /// How many feeders there were.
    pub feeders: u32,
    /// Bytes of each train.
    pub train_bytes: u64,
    /// Trains sent.
    pub trains: u64,
    /// Trains that were not sent, since their tick came while their feeder was still sending.
    pub trains_skipped: u64,
    /// Datagrams that the kernel took.
    pub packets: u64,
    /// Datagrams that it refused for good.
    pub packets_unsent: u64,
    /// Trains and packets that were not sent on purpose, the first [`DROPPED_MAX`].
    pub dropped: Vec<(u64, u64)>,
    /// From the first packet to the last.
    pub seconds: f64,
    /// CPU time of the process meanwhile.
    pub cpu_ns: u64,
}

/// The bytes of trains.
#[derive(Clone, Debug)]
pub struct TrainContent {
    seed: u64,
    images: Images,
    block: Block,
}

/// A train that is being sent: what is before and behind its images.
#[derive(Clone, Debug)]
pub struct MadeTrain {
    head: Vec<u8>,
    /// Without the checksum.
    tail: Vec<u8>,
    /// Where in the block its images begin.
    shift: u64,
}

impl TrainContent {
    /// Those of that seed, with images that show noise.
    pub fn new(seed: u64, images: Images) -> Self {
        Self::of(seed, images, &Pictures::Noise)
    }

    /// Those of that seed, with these pictures.
    pub fn of(seed: u64, images: Images, pictures: &Pictures) -> Self {
        Self { seed, images, block: Block::new(pictures, seed, images) }
    }

    /// The train of a number, sent by that feeder.
    pub fn make(&self, train: u64, feeder: u32) -> MadeTrain {
        let Images { pulses, y, x } = self.images;
        let mut head = Vec::with_capacity(HEADER_BYTES as usize);
        head.extend(b"XTRN");
        head.extend(1_u32.to_le_bytes());
        head.extend(train.to_le_bytes());
        [pulses, y, x, 0].iter().for_each(|number| head.extend(number.to_le_bytes()));
        head.extend((train * TRAIN_NS).to_le_bytes());
        head.extend(feeder.to_le_bytes());
        head.resize(HEADER_BYTES as usize, 0);
        let mut tail = Vec::with_capacity(self.images.tail_bytes() as usize);
        let begin_ns = train * TRAIN_NS;
        let of_pulse = |pulse: u32| begin_ns + u64::from(pulse) * PULSE_NS;
        tail.extend((0..pulses).flat_map(|pulse| of_pulse(pulse).to_le_bytes()));
        tail.extend((0..pulses).flat_map(u32::to_le_bytes));
        tail.extend((0..pulses).flat_map(|pulse| ((pulse % CELLS) as u16).to_le_bytes()));
        tail.extend((0..pulses).flat_map(|_| [0; 2]));
        let raw = |channel: u32| mix(self.seed ^ train.rotate_left(20) ^ u64::from(channel));
        let value = |channel: u32| raw(channel) as f64 / 2_f64.powi(64);
        tail.extend((0..CHANNELS).flat_map(|_| begin_ns.to_le_bytes()));
        tail.extend((0..CHANNELS).flat_map(|channel| value(channel).to_le_bytes()));
        tail.extend((0..CHANNELS).flat_map(|channel| raw(channel).to_le_bytes()));
        tail.extend((0..CHANNELS).flat_map(u32::to_le_bytes));
        tail.extend((0..CHANNELS).flat_map(|_| [0; 4]));
        tail.extend(b"NRTX");
        tail.extend(train.to_le_bytes());
        tail.extend([0; (TRAILER_BYTES - 12 - CHECKSUM_BYTES) as usize]);
        let shift = self.block.shift(train, mix(self.seed.wrapping_sub(train)));
        MadeTrain { head, tail, shift }
    }

    /// Writes a range of a train, up to its checksum.
    pub fn fill(&self, train: &MadeTrain, range: Range<u64>, mut out: &mut [u8]) {
        let images = HEADER_BYTES..HEADER_BYTES + self.images.bytes();
        let mut at = range.start;
        while at < range.end && !out.is_empty() {
            let (from, left) = match at {
                at if at < images.start => {
                    let from = &train.head[at as usize..];
                    (from, images.start - at)
                }
                at if at < images.end => {
                    (self.block.from(train.shift + (at - images.start)), images.end - at)
                }
                at => (&train.tail[(at - images.end) as usize..], u64::MAX),
            };
            let bytes = (range.end - at).min(left).min(from.len() as u64);
            if bytes == 0 {
                break;
            }
            let (now, rest) = out.split_at_mut(bytes as usize);
            now.copy_from_slice(&from[..now.len()]);
            (at, out) = (at + bytes, rest);
        }
    }

    /// A whole train, with its checksum.
    pub fn train(&self, number: u64, feeder: u32) -> Vec<u8> {
        let (bytes, made) = (self.images.train_bytes(), self.make(number, feeder));
        let mut train = vec![0; bytes as usize];
        let end = bytes - CHECKSUM_BYTES;
        self.fill(&made, 0..end, &mut train[..end as usize]);
        let mut sum = Checksum::default();
        sum.add(&train[..end as usize]);
        train[end as usize..].copy_from_slice(&sum.value().to_le_bytes());
        train
    }
}

/// Runs all feeders until they have sent what they are to send, or `stop` is set.
pub(crate) fn run(
    config: &TrainConfig,
    stop: &AtomicBool,
    live: &EmulatorLive,
) -> Result<TrainReport, EmulatorError> {
    let trains = config.protocol()?;
    let content = TrainContent::of(config.seed, config.images, &config.pictures);
    let (begin, cpu_ns, next) = (Instant::now(), process_cpu_ns(), AtomicU64::new(0));
    let feeder = |number: u32| Feeder {
        config,
        trains: &trains,
        content: &content,
        begin,
        next: &next,
        number,
        report: TrainReport::default(),
    };
    let reports: Vec<TrainReport> = std::thread::scope(|scope| {
        let here = config.only.map_or(0..config.feeders, |only| only..only + 1);
        let threads: Vec<_> =
            here.map(|number| scope.spawn(move || feeder(number).run(stop, live))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|joined| joined.unwrap_or(Err(EmulatorError::Panicked)))
            .collect::<Result<_, EmulatorError>>()
    })?;
    let mut all = TrainReport {
        seed: config.seed,
        feeders: config.feeders,
        train_bytes: config.images.train_bytes(),
        seconds: begin.elapsed().as_secs_f64(),
        cpu_ns: process_cpu_ns() - cpu_ns,
        ..TrainReport::default()
    };
    for report in reports {
        all.trains += report.trains;
        all.trains_skipped += report.trains_skipped;
        all.packets += report.packets;
        all.packets_unsent += report.packets_unsent;
        all.dropped.extend(report.dropped);
    }
    all.dropped.sort_unstable();
    all.dropped.dedup();
    all.dropped.truncate(DROPPED_MAX);
    Ok(all)
}

/// A train that is to be sent now: evenly over `span` from `from` on, since the beginning.
#[derive(Clone, Copy, Debug)]
struct Due {
    index: u64,
    from: Duration,
    span: Duration,
}

struct Feeder<'a> {
    config: &'a TrainConfig,
    trains: &'a Trains,
    content: &'a TrainContent,
    begin: Instant,
    /// The next train that is nobody's yet, where none waits for its turn.
    next: &'a AtomicU64,
    number: u32,
    report: TrainReport,
}

impl Feeder<'_> {
    fn run(mut self, stop: &AtomicBool, live: &EmulatorLive) -> Result<TrainReport, EmulatorError> {
        let mut sender = UdpSender::connect(&self.config.nodes)?;
        let mut buffer = vec![0; self.batch() * self.trains.packet_bytes()];
        let lost = |address| move |source| EmulatorError::Timer { address, source };
        let mut ticks = match self.config.timer {
            Some(timer) => Some((timer, Ticks::join(timer, self.number).map_err(lost(timer))?)),
            None => None,
        };
        let most = self.config.trains.unwrap_or(u64::MAX);
        let (feeders, number) = (u64::from(self.config.feeders), u64::from(self.number));
        let mut turn = 0;
        loop {
            let of_turn = |turn: u64| turn * feeders + number;
            let due = match (&mut ticks, self.config.rate_hz) {
                (Some((timer, ticks)), _) => {
                    let tick = ticks.wait(stop).map_err(lost(*timer))?;
                    self.report.trains_skipped = ticks.skipped();
                    let (from, span) = (self.begin.elapsed(), ticks.period());
                    let is_due = |index: &u64| *index < most && !self.is_over(from);
                    let index = tick.map(of_turn).filter(is_due);
                    index.map(|index| Due { index, from, span })
                }
                // With a rate, feeders take turns; without one, whoever is free takes the next.
                (None, Some(hz)) => self.due(of_turn(turn), hz, stop),
                (None, None) => self.undated(self.next.fetch_add(1, Relaxed), stop),
            };
            let Some(due) = due else { return Ok(self.report) };
            turn += 1;
            let packets = self.report.packets;
            self.send(due, &mut sender, &mut buffer, stop);
            let sent = self.report.packets - packets;
            self.report.trains += 1;
            live.add(1, sent, sent * self.trains.packet_bytes() as u64, 0);
        }
    }

    /// Waits until a train is due; `None` if there are to be no more.
    fn due(&self, index: u64, hz: f64, stop: &AtomicBool) -> Option<Due> {
        let from = Duration::from_secs_f64(index as f64 / hz);
        if self.is_over(from) || self.config.trains.is_some_and(|most| index >= most) {
            return None;
        }
        self.wait_until(from, stop);
        let span = Duration::from_secs_f64(f64::from(self.config.feeders) / hz);
        (!stop.load(Relaxed)).then_some(Due { index, from, span })
    }

    /// A train of feeders that send as fast as they can: all are due, and the clock decides.
    fn undated(&self, index: u64, stop: &AtomicBool) -> Option<Due> {
        let now = self.begin.elapsed();
        let is_last = self.config.trains.is_some_and(|most| index >= most);
        let is_over = self.is_over(now) || is_last || stop.load(Relaxed);
        (!is_over).then_some(Due { index, from: now, span: Duration::ZERO })
    }

    /// Whether no train is to begin so long after the beginning.
    fn is_over(&self, from: Duration) -> bool {
        self.config.seconds.is_some_and(|seconds| from.as_secs_f64() >= seconds)
    }

    fn wait_until(&self, due: Duration, stop: &AtomicBool) {
        while let Some(left) = due.checked_sub(self.begin.elapsed()).filter(|left| !left.is_zero())
        {
            if stop.load(Relaxed) {
                return;
            }
            std::thread::sleep(left.min(STOP_LOOKED_AT_EACH));
        }
    }

    /// Packets that are sent together.
    fn batch(&self) -> usize {
        (BATCH_BYTES / self.trains.packet_bytes()).max(1)
    }

    /// Sends a train, its packets evenly over its feeder's time.
    fn send(&mut self, due: Due, sender: &mut UdpSender, buffer: &mut [u8], stop: &AtomicBool) {
        let Due { index, from, span } = due;
        let (number, packets) = (self.config.first_train + index, self.trains.packets());
        let nodes = self.config.nodes.len();
        let nodes = match self.config.to_all {
            true => 0..nodes,
            false => (number % nodes as u64) as usize..(number % nodes as u64) as usize + 1,
        };
        let made = self.content.make(number, self.number);
        let mut sums = vec![Checksum::default(); nodes.len()];
        let dropped = self.dropped(index);
        let mut datagrams = Vec::with_capacity(self.batch());
        for first in (0..packets).step_by(self.batch()) {
            for (node, sum) in nodes.clone().zip(&mut sums) {
                datagrams.clear();
                let mut used = 0;
                for packet in first..packets.min(first + self.batch() as u64) {
                    let bytes = self.encode((number, packet), &made, sum, &mut buffer[used..]);
                    if Some(packet) == dropped {
                        self.report.dropped.push((number, packet));
                    } else {
                        datagrams.push(Datagram { offset: used as u32, bytes: bytes as u32 });
                    }
                    used += bytes;
                }
                let sent = sender.send(node, buffer, &datagrams);
                self.report.packets += sent.datagrams;
                self.report.packets_unsent += sent.unsent;
                if stop.load(Relaxed) {
                    return;
                }
            }
            let share = (first + self.batch() as u64).min(packets) as f64 / packets as f64;
            self.wait_until(from + span.mul_f64(share * SENDING_SHARE), stop);
        }
    }

    /// Makes a packet of a train; returns its bytes. `sum` is of the packets before it.
    fn encode(
        &self,
        (number, packet): (u64, u64),
        made: &MadeTrain,
        sum: &mut Checksum,
        out: &mut [u8],
    ) -> usize {
        let end = self.trains.settings().train_bytes - CHECKSUM_BYTES;
        let range = self.trains.range(packet);
        self.trains.encode((number, packet), out, |room| {
            self.content.fill(made, range.start..range.end.min(end), room);
            let summed = end.saturating_sub(range.start).min(room.len() as u64) as usize;
            sum.add(&room[..summed]);
            let stored = stored_checksum(sum.value(), self.trains.settings().byte_order);
            // The checksum may go over a packet's border.
            for (at, byte) in (summed..room.len()).zip(range.start + summed as u64..) {
                room[at] = stored[(byte - end) as usize];
            }
        })
    }

    /// The packet of a train that is not sent.
    fn dropped(&self, index: u64) -> Option<u64> {
        let every = self.config.drop_every.filter(|every| (index + 1).is_multiple_of(*every));
        every.map(|_| mix(self.config.seed ^ index.rotate_left(32)) % self.trains.packets())
    }
}

fn stored_checksum(sum: u32, order: ByteOrder) -> [u8; 4] {
    match order {
        ByteOrder::Little => sum.to_le_bytes(),
        ByteOrder::Big => sum.to_be_bytes(),
    }
}

/// Bytes of a train's parts.
const HEADER_BYTES: u64 = 64;
const DESCRIPTOR_BYTES: u64 = 16;
/// Channels of the detector data.
const CHANNELS: u32 = 127;
const DETECTOR_BYTES: u64 = 32 * CHANNELS as u64;
const TRAILER_BYTES: u64 = 29;
const CHECKSUM_BYTES: u64 = 4;
/// European XFEL's ten trains a second, of pulses at 4.5 MHz.
const TRAIN_NS: u64 = 100_000_000;
const PULSE_NS: u64 = 222;
/// Memory cells of an emulated pixel.
const CELLS: u32 = 352;
/// A train of the reference takes 0.8776 s at 9.116 Gb/s.
pub const TRAINS_HZ_DEFAULT: f64 = 1.0 / 0.877_579;
/// Bytes that are made and sent together.
const BATCH_BYTES: usize = 256 << 10;
/// Of its time a feeder sends so much: the rest makes up for what was late.
const SENDING_SHARE: f64 = 0.97;
/// Packets left out on purpose that a report names.
pub const DROPPED_MAX: usize = 100_000;
const STOP_LOOKED_AT_EACH: Duration = Duration::from_millis(100);
