//! Writing a file from its first byte to its last.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::iter;

use flate2::{Compress as Deflate, FlushCompress, Status};

use crate::gwf::VECTOR_BYTES_MAX;
use crate::gwf::checksum::{Cksum, cksum};
use crate::gwf::cursor::Pointer;
use crate::gwf::dictionary::{self, Described};
use crate::gwf::encoder::{Encoder, STRING_BYTES_MAX};
use crate::gwf::error::GwfError;
use crate::gwf::header_start;
use crate::gwf::structures::{ChannelKind, TIME_SERIES};
use crate::gwf::vector::{LITTLE_ENDIAN, VectorType};

/// Writes frames into a [`Write`], in order, never going back.
///
/// It holds one vector in stored form, and eight bytes per channel and frame for the FrTOC. The
/// output is a file only once [`GwfWriter::finish`] has returned: readers may crash on a file
/// without an FrTOC, so give a file its name at the end.
///
/// ```
/// use catchment_interop::gwf::*;
///
/// let mut writer = GwfWriter::new(Vec::new(), WriteOptions::new("L1"))?;
/// let samples: Vec<u8> = (0..256i16).flat_map(i16::to_le_bytes).collect();
/// let series = Series::new("L1:MIC", VectorType::I16, 1.0 / 256.0, &samples);
/// writer.frame(&FrameStart::new(1_400_000_000, 1.0), &[series])?;
/// let file = GwfFile::open(writer.finish()?)?;
///
/// let mut read = Vec::new();
/// let info = file.read(file.find("L1:MIC").unwrap(), 0, &mut read)?.unwrap();
/// assert_eq!((read, info.samples), (samples, 256));
/// # Ok::<(), GwfError>(())
/// ```
pub struct GwfWriter<W> {
    out: Out<W>,
    options: WriteOptions,
    frames: Vec<FrameStart>,
    offsets: Vec<FrameOffsets>,
    channels: BTreeMap<(ChannelKind, String), Vec<u64>>,
    /// Set during a write, so that it stays set if the write fails.
    broken: bool,
}

/// Properties common to all frames of a file.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The name of all frames: the detector's, or the project's.
    pub name: String,
    /// The run's number; 0 or more for recorded data, negative for simulated data.
    pub run: i32,
    /// How samples are stored.
    pub compress: Compress,
    /// The writing program, recorded in every frame.
    pub history: Option<History>,
}

impl WriteOptions {
    /// Run 0, zlib of level 2, without a history. (zlib-rs's level 1 uses only fixed Huffman codes,
    /// which do not make noise smaller.)
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), run: 0, compress: Compress::Zlib { level: 2 }, history: None }
    }
}

/// How a writer stores samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compress {
    /// Raw.
    Raw,
    /// As zlib streams, of a level from 1 (fast) to 9 (small); samples that would not get smaller
    /// are stored raw.
    Zlib {
        /// The level.
        level: u32,
    },
}

/// The origin of data.
#[derive(Clone, Debug)]
pub struct History {
    /// The writing program's name.
    pub name: String,
    /// The time, in seconds since the GPS epoch.
    pub gps_s: u32,
    /// A comment: a version, a configuration.
    pub comment: String,
}

/// The time and identity of a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameStart {
    /// Whole seconds since the GPS epoch, 1980-01-06.
    pub gps_s: u32,
    /// Nanoseconds of the second.
    pub gps_ns: u32,
    /// Its length in seconds.
    pub duration_s: f64,
    /// Its number.
    pub number: u32,
    /// Bits for errors in the data, 0 for none.
    pub data_quality: u32,
    /// Seconds by which TAI was ahead of UTC then: 37 since 2017.
    pub leap_s: u16,
}

impl FrameStart {
    /// A frame from that second on, without errors.
    pub fn new(gps_s: u32, duration_s: f64) -> Self {
        Self { gps_s, gps_ns: 0, duration_s, number: 0, data_quality: 0, leap_s: 37 }
    }
}

/// A channel's samples in one frame.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// The channel's name, such as `L1:STRAIN`.
    pub name: &'a str,
    /// The samples' unit.
    pub unit: &'a str,
    /// A comment.
    pub comment: &'a str,
    /// The kind of structure to write.
    pub kind: SeriesKind,
    /// The type of the samples.
    pub samples_kind: VectorType,
    /// Seconds from one sample to the next.
    pub dx_s: f64,
    /// Seconds from the frame's start to the first sample.
    pub start_s: f64,
    /// The samples, little-endian.
    pub samples: &'a [u8],
}

impl<'a> Series<'a> {
    /// Processed data that begin with the frame, without unit and comment.
    pub fn new(name: &'a str, samples_kind: VectorType, dx_s: f64, samples: &'a [u8]) -> Self {
        let kind = SeriesKind::Proc;
        Self { name, unit: "", comment: "", kind, samples_kind, dx_s, start_s: 0.0, samples }
    }

    /// Checks whether it can be written unchanged; [`GwfWriter::frame`] refuses a frame if one
    /// series cannot.
    ///
    /// # Errors
    /// The data that cannot be written, and why.
    pub fn check(&self) -> Result<(), GwfError> {
        check_text("a channel", "name", self.name)?;
        check_text(self.name, "unit", self.unit)?;
        check_text(self.name, "comment", self.comment)?;
        if self.name.is_empty() {
            return Err(refused("a channel", "name", "a text that is not empty", "\"\""));
        }
        if !(self.dx_s.is_finite() && self.dx_s > 0.0) {
            return Err(refused(self.name, "distance of samples", "above 0 s", self.dx_s));
        }
        if !self.start_s.is_finite() {
            let expected = "a number of seconds";
            return Err(refused(self.name, "start in the frame", expected, self.start_s));
        }
        let bytes = self.samples.len();
        if !bytes.is_multiple_of(self.samples_kind.bytes()) || bytes as u64 > VECTOR_BYTES_MAX {
            return Err(refused(self.name, "bytes", "whole samples, 4 GiB at most", bytes));
        }
        Ok(())
    }
}

/// The kind of structure for a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeriesKind {
    /// FrProcData: samples are physical values.
    Proc,
    /// FrAdcData: a physical value is `bias + slope * sample`.
    Adc {
        /// The value at 0.
        bias: f32,
        /// The value of one count.
        slope: f32,
    },
}

impl SeriesKind {
    fn channel_kind(self) -> ChannelKind {
        match self {
            Self::Proc => ChannelKind::Proc,
            Self::Adc { .. } => ChannelKind::Adc,
        }
    }
}

impl<W: Write> GwfWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If a text cannot be written, or `sink` fails.
    pub fn new(sink: W, options: WriteOptions) -> Result<Self, GwfError> {
        check_text("the file", "name", &options.name)?;
        if let Some(history) = &options.history {
            check_text("the history", "name", &history.name)?;
            check_text("the history", "comment", &history.comment)?;
        }
        if let Compress::Zlib { level } = options.compress
            && !(1..=9).contains(&level)
        {
            return Err(refused("the file", "zlib level", "1 to 9", level));
        }
        let mut out = Out::new(sink);
        let mut header = header_start(0).to_vec();
        header.extend_from_slice(&[0, 1]); // No known library; checksums are cksum's.
        out.header_checksum = cksum(&header);
        out.put(&header)?;
        let (frames, offsets) = (Vec::new(), Vec::new());
        Ok(Self { out, options, frames, offsets, channels: BTreeMap::new(), broken: false })
    }

    /// Writes one frame. Frames may have gaps between them, but must not overlap; channels may
    /// differ from frame to frame.
    ///
    /// # Errors
    /// If something cannot be written unchanged, or the sink fails; after a failure of the sink
    /// every call fails.
    pub fn frame(&mut self, start: &FrameStart, series: &[Series<'_>]) -> Result<(), GwfError> {
        if self.broken {
            return Err(GwfError::Broken);
        }
        self.check_frame(start)?;
        check_series(series)?;
        self.broken = true;
        self.write_frame(start, series)?;
        self.broken = false;
        Ok(())
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.out.sum_bytes
    }

    /// Writes the FrTOC and the end of the file, and returns the sink, flushed.
    ///
    /// # Errors
    /// If the sink fails or has failed, or the file has no frame.
    pub fn finish(mut self) -> Result<W, GwfError> {
        if self.broken {
            return Err(GwfError::Broken);
        }
        if self.frames.is_empty() {
            return Err(refused("the file", "number of frames", "at least 1", 0));
        }
        self.out.restart();
        let toc_at = self.write_toc()?;
        self.write_end(toc_at)?;
        self.out.sink.flush()?;
        Ok(self.out.sink)
    }

    fn check_frame(&self, start: &FrameStart) -> Result<(), GwfError> {
        let what = format!("frame {}", start.number);
        if start.gps_ns >= 1_000_000_000 {
            return Err(refused(what, "nanoseconds", "below 10^9", start.gps_ns));
        }
        if !(start.duration_s.is_finite() && start.duration_s > 0.0) {
            return Err(refused(what, "duration", "above 0 s", start.duration_s));
        }
        if let Some(last) = self.frames.last() {
            let begin = f64::from(start.gps_s - last.gps_s.min(start.gps_s))
                + (f64::from(start.gps_ns) - f64::from(last.gps_ns)) * 1e-9;
            if start.gps_s < last.gps_s || begin < last.duration_s * (1.0 - 1e-9) {
                let got = format!("{}.{:09}", start.gps_s, start.gps_ns);
                return Err(refused(
                    what,
                    "start",
                    "at the end of the frame before, or later",
                    got,
                ));
            }
        }
        if self.frames.len() == u32::MAX as usize {
            return Err(refused(what, "number of frames", "below 2^32", self.frames.len()));
        }
        Ok(())
    }

    fn write_frame(&mut self, start: &FrameStart, series: &[Series<'_>]) -> Result<(), GwfError> {
        self.out.restart();
        let count = |kind| series.iter().filter(|one| one.kind.channel_kind() == kind).count();
        let (adc, proc) = (count(ChannelKind::Adc), count(ChannelKind::Proc));
        let history = self.options.history.clone();

        let header = self.out.describe(&dictionary::FRAME_HEADER)?;
        self.out.begin(&dictionary::FRAME_HEADER);
        let encoder = &mut self.out.encoder;
        encoder.string(&self.options.name).i32(self.options.run).u32(start.number);
        encoder.u32(start.data_quality).u32(start.gps_s).u32(start.gps_ns);
        encoder.u16(start.leap_s).f64(start.duration_s);
        encoder.nulls(4); // type, user, detectSim, detectProc
        encoder.pointer(pointer_if(history.is_some(), &dictionary::FR_HISTORY, 0));
        encoder.pointer(pointer_if(adc > 0, &dictionary::FR_RAW_DATA, 0));
        encoder.pointer(pointer_if(proc > 0, &dictionary::FR_PROC_DATA, 0));
        encoder.nulls(6); // simData, event, simEvent, summaryData, auxData, auxTable
        self.out.put_structure()?;

        if let Some(history) = history {
            self.out.describe(&dictionary::FR_HISTORY)?;
            self.out.begin(&dictionary::FR_HISTORY);
            let encoder = &mut self.out.encoder;
            encoder.string(&history.name).u32(history.gps_s).string(&history.comment).nulls(1);
            self.out.put_structure()?;
        }
        let mut first_adc = 0;
        if adc > 0 {
            self.out.describe(&dictionary::FR_RAW_DATA)?;
            self.out.begin(&dictionary::FR_RAW_DATA);
            let encoder = &mut self.out.encoder;
            encoder.string("rawData").nulls(1);
            encoder.pointer(pointer(&dictionary::FR_ADC_DATA, 0)).nulls(3);
            self.out.put_structure()?;
        }
        for (kind, count) in [(ChannelKind::Adc, adc), (ChannelKind::Proc, proc)] {
            let of_kind = series.iter().filter(|one| one.kind.channel_kind() == kind);
            for (index, one) in of_kind.enumerate() {
                let at = self.write_series(one, index, index + 1 < count)?;
                if kind == ChannelKind::Adc && index == 0 {
                    first_adc = at;
                }
            }
        }
        self.out.describe(&dictionary::FR_END_OF_FRAME)?;
        self.out.begin(&dictionary::FR_END_OF_FRAME);
        let encoder = &mut self.out.encoder;
        encoder.i32(self.options.run).u32(start.number).u32(start.gps_s).u32(start.gps_ns);
        self.out.put_structure()?;
        self.frames.push(*start);
        self.offsets.push(FrameOffsets { header, first_adc });
        Ok(())
    }

    /// Writes a channel's structure and its vector; returns the structure's offset.
    fn write_series(
        &mut self,
        series: &Series<'_>,
        index: usize,
        more: bool,
    ) -> Result<u64, GwfError> {
        let out = &mut self.out;
        let described = match series.kind {
            SeriesKind::Adc { .. } => &dictionary::FR_ADC_DATA,
            SeriesKind::Proc => &dictionary::FR_PROC_DATA,
        };
        let at = out.describe(described)?;
        out.begin(described);
        let vector = pointer(&dictionary::FR_VECT, out.next_instance(&dictionary::FR_VECT));
        let next = pointer_if(more, described, index as u32 + 1);
        let samples = series.samples.len() / series.samples_kind.bytes();
        let encoder = &mut out.encoder;
        encoder.string(series.name).string(series.comment);
        match series.kind {
            SeriesKind::Adc { bias, slope } => {
                encoder.u32(0).u32(index as u32).u32(series.samples_kind.bytes() as u32 * 8);
                encoder.f32(bias).f32(slope).string(series.unit).f64(1.0 / series.dx_s);
                encoder.f64(series.start_s).f64(0.0).f32(0.0).u16(0); // Not shifted, valid.
                encoder.pointer(vector).nulls(1).pointer(next);
            }
            SeriesKind::Proc => {
                encoder.u16(TIME_SERIES).u16(0).f64(series.start_s);
                encoder.f64(samples as f64 * series.dx_s).f64(0.0).f32(0.0); // Not shifted.
                encoder.f64(0.0).f64(0.0).u16(0); // fRange, BW: unknown. No parameters.
                encoder.pointer(vector).nulls(3).pointer(next);
            }
        }
        out.put_structure()?;
        let key = (series.kind.channel_kind(), series.name.to_owned());
        let offsets = self.channels.entry(key).or_default();
        offsets.resize(self.frames.len(), 0); // Frames that do not have it.
        offsets.push(at);

        out.describe(&dictionary::FR_VECT)?;
        let (compress, stored) = out.packer.pack(self.options.compress, series.samples)?;
        let instance = out.instances[usize::from(dictionary::FR_VECT.number)];
        out.instances[usize::from(dictionary::FR_VECT.number)] += 1;
        let encoder = &mut out.encoder;
        encoder.begin(dictionary::FR_VECT.number, instance).string(series.name);
        encoder.u16(compress).u16(series.samples_kind.number());
        encoder.u64(samples as u64).u64(stored.len() as u64).raw(stored);
        encoder.u32(1).u64(samples as u64).f64(series.dx_s).f64(0.0);
        encoder.string("s").string(series.unit).nulls(1);
        out.put_structure()?;
        Ok(at)
    }

    fn write_toc(&mut self) -> Result<u64, GwfError> {
        let out = &mut self.out;
        let at = out.describe(&dictionary::FR_TOC)?;
        out.begin(&dictionary::FR_TOC);
        let encoder = &mut out.encoder;
        let frames = &self.frames;
        encoder.u16(frames[frames.len() - 1].leap_s).u32(frames.len() as u32);
        encoder.u32s(frames.iter().map(|frame| frame.data_quality));
        encoder.u32s(frames.iter().map(|frame| frame.gps_s));
        encoder.u32s(frames.iter().map(|frame| frame.gps_ns));
        encoder.u64s(frames.iter().map(|frame| frame.duration_s.to_bits()));
        encoder.u32s(frames.iter().map(|_| self.options.run as u32));
        encoder.u32s(frames.iter().map(|frame| frame.number));
        encoder.u64s(self.offsets.iter().map(|frame| frame.header));
        encoder.u64s(self.offsets.iter().map(|frame| frame.first_adc));
        encoder.u64s(iter::repeat_n(0, 3 * frames.len())); // FrSerData, FrTable, FrMsg.

        let described = out.described;
        let classes =
            || dictionary::ALL.iter().filter(|class| described[usize::from(class.number)]);
        encoder.u32(classes().count() as u32);
        for class in classes() {
            encoder.u16(class.number.into());
        }
        for class in classes() {
            encoder.string(class.name);
        }
        encoder.u32(0).u32(0).u32(0); // Detectors; types and instances of static data.
        for kind in [ChannelKind::Adc, ChannelKind::Proc, ChannelKind::Sim] {
            let of_kind = || self.channels.iter().filter(|((this, _), _)| *this == kind);
            let channels = of_kind().count() as u32;
            encoder.u32(channels);
            for ((_, name), _) in of_kind() {
                encoder.string(name);
            }
            if kind == ChannelKind::Adc {
                encoder.u32s(0..channels); // channelID
                encoder.u32s((0..channels).map(|_| 0)); // groupID
            }
            for (_, offsets) in of_kind() {
                encoder.u64s(offsets.iter().copied());
                encoder.u64s(iter::repeat_n(0, frames.len() - offsets.len()));
            }
        }
        encoder.u32(0).u32(0); // Serial data, summaries.
        encoder.u32(0).u32(0).u32(0).u32(0); // Types and numbers of events and simulated events.
        out.put_structure()?;
        Ok(at)
    }

    fn write_end(&mut self, toc_at: u64) -> Result<(), GwfError> {
        let out = &mut self.out;
        let at = out.describe(&dictionary::FR_END_OF_FILE)?;
        let file_bytes = at + END_OF_FILE_BYTES;
        out.begin(&dictionary::FR_END_OF_FILE);
        let header_checksum = out.header_checksum;
        let encoder = &mut out.encoder;
        encoder.u32(self.frames.len() as u32).u64(file_bytes).u64(file_bytes - toc_at);
        encoder.u32(header_checksum);
        let bytes = encoder.finish(4);
        out.sum.update(bytes);
        out.sink.write_all(bytes)?;
        let sum = out.sum.finish();
        out.sink.write_all(&sum.to_le_bytes())?;
        Ok(())
    }
}

/// The offsets of a frame's structures in the file.
#[derive(Clone, Copy)]
struct FrameOffsets {
    header: u64,
    first_adc: u64,
}

/// The sink, and the state that continues from structure to structure.
struct Out<W> {
    sink: W,
    encoder: Encoder,
    packer: Packer,
    sum: Cksum,
    sum_bytes: u64,
    header_checksum: u32,
    /// By class number: the number of the next structure.
    instances: [u32; CLASSES],
    /// By class number: whether the dictionary contains it.
    described: [bool; CLASSES],
}

impl<W: Write> Out<W> {
    fn new(sink: W) -> Self {
        Self {
            sink,
            encoder: Encoder::default(),
            packer: Packer::default(),
            sum: Cksum::new(),
            sum_bytes: 0,
            header_checksum: 0,
            instances: [0; CLASSES],
            described: [false; CLASSES],
        }
    }

    /// Numbers restart with every frame.
    fn restart(&mut self) {
        self.instances = [0; CLASSES];
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.sum_bytes += bytes.len() as u64;
        self.sink.write_all(bytes)
    }

    fn next_instance(&self, class: &Described) -> u32 {
        self.instances[usize::from(class.number)]
    }

    fn take_instance(&mut self, number: u8) -> u32 {
        let instance = &mut self.instances[usize::from(number)];
        *instance += 1;
        *instance - 1
    }

    /// Begins a structure with the next number of its class.
    fn begin(&mut self, class: &Described) {
        let instance = self.take_instance(class.number);
        self.encoder.begin(class.number, instance);
    }

    fn put_structure(&mut self) -> io::Result<()> {
        let bytes = self.encoder.finish(0);
        self.sum.update(bytes);
        self.sum_bytes += bytes.len() as u64;
        self.sink.write_all(bytes)
    }

    /// Adds a class to the dictionary, if it is not there; returns the offset at which its first
    /// structure, or the next one, will be.
    fn describe(&mut self, class: &Described) -> io::Result<u64> {
        if !self.described[usize::from(class.number)] {
            self.described[usize::from(class.number)] = true;
            let instance = self.take_instance(dictionary::FR_SH);
            self.encoder.begin(dictionary::FR_SH, instance).string(class.name);
            self.encoder.u16(class.number.into()).string("");
            self.put_structure()?;
            for (name, kind) in class.fields {
                let instance = self.take_instance(dictionary::FR_SE);
                self.encoder.begin(dictionary::FR_SE, instance);
                self.encoder.string(name).string(kind).string("");
                self.put_structure()?;
            }
        }
        Ok(self.sum_bytes)
    }
}

/// Compresses samples into reused memory.
#[derive(Default)]
struct Packer {
    stream: Option<(u32, Deflate)>,
    packed: Vec<u8>,
}

impl Packer {
    /// The vector's field `compress`, and the bytes.
    fn pack<'a>(
        &'a mut self,
        compress: Compress,
        samples: &'a [u8],
    ) -> Result<(u16, &'a [u8]), GwfError> {
        let Compress::Zlib { level } = compress else { return Ok((LITTLE_ENDIAN, samples)) };
        if samples.is_empty() {
            return Ok((LITTLE_ENDIAN, samples));
        }
        if self.stream.as_ref().is_none_or(|(of, _)| *of != level) {
            self.stream = Some((level, Deflate::new(flate2::Compression::new(level), true)));
        }
        let (_, stream) = self.stream.as_mut().expect("it was just made");
        stream.reset();
        // A stream must save at least one byte.
        self.packed.resize(samples.len() - 1, 0);
        let status = stream
            .compress(samples, &mut self.packed, FlushCompress::Finish)
            .map_err(|error| GwfError::Write(io::Error::other(error)))?;
        if status != Status::StreamEnd {
            return Ok((LITTLE_ENDIAN, samples));
        }
        let packed = stream.total_out() as usize;
        Ok((LITTLE_ENDIAN | 1, &self.packed[..packed]))
    }
}

fn check_series(series: &[Series<'_>]) -> Result<(), GwfError> {
    let mut names = BTreeSet::new();
    if u32::try_from(series.len()).is_err() {
        return Err(refused("the frame", "number of channels", "below 2^32", series.len()));
    }
    for one in series {
        one.check()?;
        if !names.insert(one.name) {
            let expected = "a name that no other has";
            return Err(refused("a channel", "name", expected, format!("{:?}", one.name)));
        }
    }
    Ok(())
}

fn check_text(what: &str, field: &'static str, text: &str) -> Result<(), GwfError> {
    if text.len() > STRING_BYTES_MAX {
        return Err(refused(what, field, "at most 65534 bytes", text.len()));
    }
    if text.contains('\0') {
        return Err(refused(what, field, "a text without NUL", format!("{text:?}")));
    }
    Ok(())
}

fn refused(
    what: impl Into<String>,
    field: &'static str,
    expected: &'static str,
    got: impl ToString,
) -> GwfError {
    GwfError::Refused { what: what.into(), field, expected, got: got.to_string() }
}

fn pointer(class: &Described, instance: u32) -> Pointer {
    Pointer { class: class.number.into(), instance }
}

fn pointer_if(there: bool, class: &Described, instance: u32) -> Pointer {
    if there { pointer(class, instance) } else { Pointer::default() }
}

/// The number of class numbers that our files can have.
const CLASSES: usize = 16;
const END_OF_FILE_BYTES: u64 = crate::gwf::END_OF_FILE_BYTES as u64;
