//! Reading a file: its contents first, then one channel's part of one frame at a time.

use std::collections::BTreeMap;

use crate::ReadAt;
use crate::gwf::checksum::{Cksum, cksum, same};
use crate::gwf::cursor::{Cursor, Pointer};
use crate::gwf::error::{GwfError, Part};
use crate::gwf::structures::{
    ChannelData, Class, Classes, VECTOR_FRONT_BYTES_MAX, VectorBack, VectorFront, fields,
};
use crate::gwf::toc::{Channel, Contents, Frame};
use crate::gwf::vector::{Compression, VectorType};
use crate::gwf::walk::{Damaged, walk};
use crate::gwf::window::{Head, Window, check_length, parse_head, read_exact};
use crate::gwf::{
    CHECKSUM_BYTES, END_OF_FILE_BYTES, FILE_HEADER_BYTES, HEAD_BYTES, TOC_BYTES_MAX, header_start,
};

/// A GWF file, read through any [`ReadAt`].
#[derive(Debug)]
pub struct GwfFile<R> {
    source: R,
    bytes: u64,
    classes: Classes,
    frames: Vec<Frame>,
    channels: Vec<Channel>,
    by_name: BTreeMap<String, usize>,
    /// All known beginnings of structures, rising.
    starts: Vec<u64>,
    index: Index,
}

/// How to open a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Walk the whole file even if it has an FrTOC.
    pub ignore_toc: bool,
}

/// The origin of the list of frames and channels.
#[derive(Debug)]
pub enum Index {
    /// The file's FrTOC.
    Toc,
    /// Walking from structure to structure.
    Walk {
        /// Why the FrTOC was not used; none if walking was requested.
        reason: Option<GwfError>,
        /// The error that ended the walk before the file's end. Everything found before it is
        /// whole.
        ended: Option<GwfError>,
        /// The skipped structures.
        damaged: Damaged,
    },
}

/// A file's description of a channel's part of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelInfo {
    /// The type of the samples.
    pub kind: VectorType,
    /// The number of samples.
    pub samples: u64,
    /// Seconds from one to the next, as written.
    pub dx_s: f64,
    /// Samples per second, if the channel also states them.
    pub sample_rate_hz: Option<f64>,
    /// Seconds from the frame's start to the first sample.
    pub start_s: f64,
    /// The unit of the samples.
    pub unit: String,
    /// The unit of `dx_s`: `s` or empty for a time series.
    pub unit_x: String,
    /// Whether it is a series of samples in time, not a spectrum or an image.
    pub time_series: bool,
    /// A comment.
    pub comment: String,
    /// `(bias, slope)`: a physical value is `bias + slope * sample`; slope 0 means that the writer
    /// states none. Only [`Adc`](crate::gwf::ChannelKind::Adc) has them.
    pub calibration: Option<(f32, f32)>,
    /// Bits for errors in the data, 0 for none.
    pub data_valid: u16,
    /// Whether there are auxiliary vectors: [`GwfFile::auxiliary`] describes them.
    pub auxiliary: bool,
    /// How the samples are stored.
    pub compression: Compression,
    /// Bytes of the samples as stored.
    pub stored_bytes: u64,
}

/// The contents of the auxiliary vectors of a channel's part of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auxiliary {
    /// Invalid samples according to a vector `dataValid` of integers: one flag for each sample, or
    /// for equally many samples (CDS: 1/16 s), 0 for valid ones. The format does not define this
    /// vector; the detectors' recorders write it and frameCPP's users read it.
    pub samples_invalid: u64,
    /// Vectors with other names, whose meaning only their writers know.
    pub others: u64,
}

impl<R: ReadAt> GwfFile<R> {
    /// Opens a file: reads its header, its end and its FrTOC, and walks it if these are not enough.
    ///
    /// # Errors
    /// If it is not a file that this program reads, or the system cannot read. A file that is cut
    /// or damaged opens: [`GwfFile::index`] gives the error.
    pub fn open(source: R) -> Result<Self, GwfError> {
        Self::open_with(source, OpenOptions::default())
    }

    /// Opens a file in the given way.
    ///
    /// # Errors
    /// As [`GwfFile::open`].
    pub fn open_with(source: R, options: OpenOptions) -> Result<Self, GwfError> {
        let bytes = source.bytes().map_err(GwfError::Length)?;
        check_header(&source, bytes)?;
        let reason = if options.ignore_toc {
            None
        } else {
            match read_toc(&source, bytes) {
                Ok((contents, toc_at)) => {
                    return Ok(Self::of(source, bytes, contents, toc_at, Index::Toc));
                }
                Err(error @ GwfError::Read { .. }) => return Err(error),
                Err(error) => Some(error),
            }
        };
        let walked = walk(&source, bytes);
        if let Some(error @ GwfError::Read { .. }) = walked.ended {
            return Err(error);
        }
        let index = Index::Walk { reason, ended: walked.ended, damaged: walked.damaged };
        Ok(Self::of(source, bytes, walked.contents, bytes, index))
    }

    /// The frames, in file order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The channels of all frames.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The index of the channel with that name in [`GwfFile::channels`]; the first, if one name
    /// belongs to channels of several kinds.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The origin of the list of frames and channels.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The file's description of a channel in a frame, without reading its samples; none if the
    /// frame does not have that channel. The vector's checksum, which covers the samples, is not
    /// checked.
    ///
    /// # Errors
    /// If the system cannot read, or the structure there is not such a channel.
    ///
    /// # Panics
    /// If the channel or frame does not exist.
    pub fn info(&self, channel: usize, frame: usize) -> Result<Option<ChannelInfo>, GwfError> {
        let Some(mut found) = self.look(channel, frame, INFO_AHEAD_BYTES)? else { return Ok(None) };
        let part = found.vector.part("FrVect");
        let back_at = found.vector.offset
            + HEAD_BYTES as u64
            + found.front.bytes
            + found.front.stored.stored_bytes;
        let back_bytes = found.vector.end() - CHECKSUM_BYTES as u64 - back_at;
        check_length(part, back_bytes)?;
        let back = found.window.at(part, back_at, back_bytes)?;
        let mut cursor = Cursor::new(part, back);
        let back = VectorBack::parse(part, &mut cursor, found.front.stored.samples)?;
        Ok(Some(found.info(back)))
    }

    /// Reads a channel's samples in a frame into `samples`, little-endian, and returns the file's
    /// description of them; none if the frame does not have that channel. Every checksum is
    /// checked.
    ///
    /// # Errors
    /// If the system cannot read, or the data are damaged or of an unsupported kind.
    ///
    /// # Panics
    /// If the channel or frame does not exist.
    pub fn read(
        &self,
        channel: usize,
        frame: usize,
        samples: &mut Vec<u8>,
    ) -> Result<Option<ChannelInfo>, GwfError> {
        samples.clear();
        let Some(mut found) = self.look(channel, frame, READ_AHEAD_BYTES)? else { return Ok(None) };
        let back = decode(&mut found.window, &found.vector, &found.front, samples)?;
        Ok(Some(found.info(back)))
    }

    /// Reads the auxiliary vectors of a channel in a frame, if [`ChannelInfo::auxiliary`] is set.
    /// Every checksum is checked.
    ///
    /// # Errors
    /// If the system cannot read, or the data are damaged or of an unsupported kind.
    ///
    /// # Panics
    /// If the channel or frame does not exist.
    pub fn auxiliary(&self, channel: usize, frame: usize) -> Result<Auxiliary, GwfError> {
        let mut auxiliary = Auxiliary::default();
        let Some(mut found) = self.look(channel, frame, INFO_AHEAD_BYTES)? else {
            return Ok(auxiliary);
        };
        let part = found.channel.part(self.channels[channel].kind.class());
        let mut flags = Vec::new();
        // Vectors follow each other in the file, so a chain of them ends.
        let (mut at, mut next) = (found.channel.end(), found.data.auxiliary);
        while !next.is_null() {
            let Some(vector) = self.find_vector(&mut found.window, at, next)? else {
                return Err(GwfError::MissingVector { part, instance: next.instance });
            };
            let front = vector_front(&mut found.window, &vector)?;
            let back = decode(&mut found.window, &vector, &front, &mut flags)?;
            if front.name == b"dataValid" {
                let kind = front.stored.kind;
                if !kind.is_integer() {
                    let what = format!("dataValid of type {kind:?}");
                    return Err(GwfError::Unsupported { part: vector.part("FrVect"), what });
                }
                let flags =
                    flags.chunks_exact(kind.bytes()).map(|flag| flag != &ZERO[..flag.len()]);
                let count = front.stored.samples;
                let invalid = flagged(flags, count, found.front.stored.samples);
                auxiliary.samples_invalid = auxiliary.samples_invalid.max(invalid);
            } else {
                auxiliary.others += 1;
            }
            (at, next) = (vector.end(), back.next);
        }
        Ok(auxiliary)
    }

    /// Reads the whole file and checks its checksum and that of its header.
    ///
    /// # Errors
    /// If the system cannot read, the file is not whole, or a checksum is wrong.
    pub fn verify(&self) -> Result<(), GwfError> {
        let end = EndOfFile::read(&self.source, self.bytes)?;
        let mut sum = Cksum::new();
        let mut buffer = vec![0; VERIFY_BYTES];
        let covered = self.bytes - CHECKSUM_BYTES as u64;
        let mut at = 0;
        while at < covered {
            let count = (covered - at).min(VERIFY_BYTES as u64) as usize;
            read_exact(&self.source, Part::File, at, &mut buffer[..count])?;
            sum.update(&buffer[..count]);
            at += count as u64;
        }
        same(Part::File, end.file_checksum, sum.finish())
    }

    /// `end` is the end of the frames.
    fn of(source: R, bytes: u64, contents: Contents, end: u64, index: Index) -> Self {
        let mut starts: Vec<u64> = contents.frames.iter().map(|frame| frame.position).collect();
        starts.push(end);
        for channel in &contents.channels {
            starts.extend(channel.frames.iter().map(|(_, position)| position));
        }
        starts.sort_unstable();
        let mut by_name = BTreeMap::new();
        for (index, channel) in contents.channels.iter().enumerate() {
            by_name.entry(channel.name.clone()).or_insert(index);
        }
        let Contents { classes, frames, channels } = contents;
        Self { source, bytes, classes, frames, channels, by_name, starts, index }
    }

    /// Reads a channel's structure and finds its vector.
    fn look(
        &self,
        channel: usize,
        frame: usize,
        ahead_bytes: u64,
    ) -> Result<Option<Found<'_, R>>, GwfError> {
        let channel = &self.channels[channel];
        assert!(frame < self.frames.len(), "the file has {} frames", self.frames.len());
        let Some(offset) = channel.position(frame) else { return Ok(None) };
        let next = self.starts.partition_point(|start| *start <= offset);
        let end = self.starts.get(next).copied().unwrap_or(self.bytes);
        let mut window = Window::new(&self.source, self.bytes, end, ahead_bytes);

        let head = window.head(offset)?;
        let class = channel.kind.class();
        let part = head.part(class);
        if self.classes.class(head.class) != Some(Class::Channel(channel.kind)) {
            let (field, expected) = ("class", "that of the channel's kind");
            return Err(GwfError::Field { part, field, expected, got: head.class.into() });
        }
        check_length(part, head.bytes)?;
        let bytes = window.at(part, offset, head.bytes)?;
        let data = ChannelData::parse(channel.kind, &mut fields(&head, class, bytes)?)?;
        if data.name != channel.name {
            let expected = channel.name.clone();
            return Err(GwfError::Name { part, expected, got: data.name });
        }
        if data.data.is_null() {
            return Ok(None);
        }
        let Some(vector) = self.find_vector(&mut window, head.end(), data.data)? else {
            return Err(GwfError::MissingVector { part, instance: data.data.instance });
        };
        let front = vector_front(&mut window, &vector)?;
        Ok(Some(Found { window, channel: head, data, vector, front }))
    }

    /// The vector to which `pointer` refers: from `at` on, in the same frame.
    fn find_vector(
        &self,
        window: &mut Window<'_, R>,
        mut at: u64,
        pointer: Pointer,
    ) -> Result<Option<Head>, GwfError> {
        while at < self.bytes {
            let head = window.head(at)?;
            let class = self.classes.class(head.class);
            if u16::from(head.class) == pointer.class && head.instance == pointer.instance {
                return Ok((class == Some(Class::Vector)).then_some(head));
            }
            if matches!(class, Some(Class::FrameHeader | Class::EndOfFrame | Class::Toc)) {
                return Ok(None);
            }
            at = head.end();
        }
        Ok(None)
    }
}

/// A channel's part of a frame, with its vector found but not read.
struct Found<'a, R> {
    window: Window<'a, R>,
    channel: Head,
    data: ChannelData,
    vector: Head,
    front: VectorFront,
}

impl<R> Found<'_, R> {
    fn info(self, back: VectorBack) -> ChannelInfo {
        let stored = self.front.stored;
        let unit = match self.data.units {
            Some(units) if back.unit_y.is_empty() => units,
            _ => back.unit_y,
        };
        ChannelInfo {
            kind: stored.kind,
            samples: stored.samples,
            dx_s: back.dx,
            sample_rate_hz: self.data.sample_rate_hz,
            start_s: self.data.time_offset_s + back.start_x,
            unit,
            time_series: self.data.series <= 1 && matches!(back.unit_x.as_str(), "s" | ""),
            unit_x: back.unit_x,
            comment: self.data.comment,
            calibration: self.data.calibration,
            data_valid: self.data.data_valid,
            auxiliary: !self.data.auxiliary.is_null(),
            compression: stored.compression,
            stored_bytes: stored.stored_bytes,
        }
    }
}

/// Reads the fields of a vector before its samples.
fn vector_front<R: ReadAt>(
    window: &mut Window<'_, R>,
    vector: &Head,
) -> Result<VectorFront, GwfError> {
    let fields_bytes = vector.bytes - (HEAD_BYTES + CHECKSUM_BYTES) as u64;
    let part = vector.part("FrVect");
    let front_bytes = fields_bytes.min(VECTOR_FRONT_BYTES_MAX);
    // Names are short: the longest possible is read only if this one is long.
    let likely = front_bytes.min(LIKELY_FRONT_BYTES);
    let front_at = vector.offset + HEAD_BYTES as u64;
    match VectorFront::parse(part, window.at(part, front_at, likely)?, fields_bytes) {
        Err(GwfError::Truncated { .. }) if likely < front_bytes => {
            VectorFront::parse(part, window.at(part, front_at, front_bytes)?, fields_bytes)
        }
        front => front,
    }
}

/// Reads a whole vector, puts its samples into `samples` and returns the fields after them.
fn decode<R: ReadAt>(
    window: &mut Window<'_, R>,
    vector: &Head,
    front: &VectorFront,
    samples: &mut Vec<u8>,
) -> Result<VectorBack, GwfError> {
    let part = vector.part("FrVect");
    let bytes = window.at(part, vector.offset, vector.bytes)?;
    let mut cursor = fields(vector, "FrVect", bytes)?;
    cursor.skip(front.bytes, 1)?;
    let stored = cursor.take(front.stored.stored_bytes as usize)?;
    let back = VectorBack::parse(part, &mut cursor, front.stored.samples)?;
    front.stored.decode(part, stored, samples)?;
    Ok(back)
}

/// How many of `samples` have a flag that is set. Each of `count` flags covers equally many; if
/// that is not a whole number, partly covered samples are counted, too.
fn flagged(flags: impl Iterator<Item = bool>, count: u64, samples: u64) -> u64 {
    let position = |flag: u64| u128::from(flag) * u128::from(samples);
    let (mut flagged, mut end) = (0, 0);
    for (flag, _) in (0u64..).zip(flags).filter(|(_, set)| *set) {
        let first = ((position(flag) / u128::from(count)) as u64).max(end);
        end = position(flag + 1).div_ceil(u128::from(count)) as u64;
        flagged += end - first;
    }
    flagged
}

/// The end of a file.
struct EndOfFile {
    toc_from_end: u64,
    header_checksum: u32,
    file_checksum: u32,
}

impl EndOfFile {
    fn read<R: ReadAt>(source: &R, file_bytes: u64) -> Result<Self, GwfError> {
        let part = Part::EndOfFile;
        let mut bytes = [0; END_OF_FILE_BYTES];
        let offset = file_bytes.saturating_sub(END_OF_FILE_BYTES as u64);
        if offset < FILE_HEADER_BYTES as u64 {
            let expected = END_OF_FILE_BYTES as u64;
            return Err(GwfError::Truncated { part, offset, expected, got: 0 });
        }
        read_exact(source, part, offset, &mut bytes)?;
        let head = parse_head(offset, &bytes);
        if head.bytes != END_OF_FILE_BYTES as u64 {
            let expected = "46";
            return Err(GwfError::Field { part, field: "length", expected, got: head.bytes });
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        if head.checksum_kind == 1 {
            same(part, word(38), cksum(&bytes[..38]))?;
        }
        let stated = long(18);
        if stated != file_bytes {
            let expected = "the file's length";
            return Err(GwfError::Field { part, field: "nBytes", expected, got: stated });
        }
        let end =
            Self { toc_from_end: long(26), header_checksum: word(34), file_checksum: word(42) };
        let mut header = [0; FILE_HEADER_BYTES];
        read_exact(source, Part::Header, 0, &mut header)?;
        same(Part::Header, end.header_checksum, cksum(&header))?;
        Ok(end)
    }
}

fn read_toc<R: ReadAt>(source: &R, file_bytes: u64) -> Result<(Contents, u64), GwfError> {
    let end = EndOfFile::read(source, file_bytes)?;
    let room = file_bytes - (FILE_HEADER_BYTES + END_OF_FILE_BYTES) as u64;
    if end.toc_from_end <= END_OF_FILE_BYTES as u64
        || end.toc_from_end - END_OF_FILE_BYTES as u64 > room
    {
        let (field, expected) = ("seekTOC", "an offset in the file");
        let got = end.toc_from_end;
        return Err(GwfError::Field { part: Part::EndOfFile, field, expected, got });
    }
    let offset = file_bytes - end.toc_from_end;
    let mut window = Window::new(source, file_bytes, file_bytes, end.toc_from_end.min(TOC_AHEAD));
    let head = window.head(offset)?;
    if head.bytes > TOC_BYTES_MAX {
        let expected = "at most 256 MiB";
        let part = Part::Toc;
        return Err(GwfError::Field { part, field: "length", expected, got: head.bytes });
    }
    let bytes = window.at(Part::Toc, offset, head.bytes)?;
    let contents = Contents::parse(&mut fields(&head, "FrTOC", bytes)?)?;
    if contents.classes.class(head.class) != Some(Class::Toc) {
        let (field, expected) = ("class", "that of FrTOC");
        return Err(GwfError::Field { part: Part::Toc, field, expected, got: head.class.into() });
    }
    Ok((contents, offset))
}

fn check_header<R: ReadAt>(source: &R, file_bytes: u64) -> Result<(), GwfError> {
    let mut header = [0; FILE_HEADER_BYTES];
    let there = file_bytes.min(FILE_HEADER_BYTES as u64) as usize;
    read_exact(source, Part::Header, 0, &mut header[..there])?;
    if header[..5] != *b"IGWD\0" {
        let got = header[..5].try_into().expect("five bytes");
        return Err(GwfError::Magic { got });
    }
    if there < FILE_HEADER_BYTES {
        let (expected, got) = (FILE_HEADER_BYTES as u64, there as u64);
        return Err(GwfError::Truncated { part: Part::Header, offset: 0, expected, got });
    }
    if header[5] != 8 {
        return Err(GwfError::Version { got: header[5] });
    }
    if header[..38] != header_start(header[6]) {
        return Err(GwfError::Machine);
    }
    Ok(())
}

/// A flag of the widest type, not set.
const ZERO: [u8; 8] = [0; 8];
/// Bytes read at a time if samples are wanted: usually one piece for a channel's structures.
const READ_AHEAD_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes read at a time if samples are not wanted.
const INFO_AHEAD_BYTES: u64 = 1024;
/// Bytes that usually hold the fields of an FrVect before its samples.
const LIKELY_FRONT_BYTES: u64 = 256;
/// Bytes read at a time to check a file's checksum.
const VERIFY_BYTES: usize = 1024 * 1024;
/// An FrTOC up to this size is read in one piece with what follows it.
const TOC_AHEAD: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::flagged;

    #[test]
    fn a_flag_covers_as_many_samples_as_any_other() {
        let count = |flags: &[u8], samples| {
            flagged(flags.iter().map(|flag| *flag != 0), flags.len() as u64, samples)
        };
        assert_eq!(count(&[0, 1, 1, 0], 4), 2);
        assert_eq!(count(&[0, 1, 1, 0], 64), 32);
        // Two samples partly covered by three flags, and more flags than samples.
        assert_eq!(count(&[1, 0, 0], 2), 1);
        assert_eq!(count(&[0, 1, 0], 2), 2);
        assert_eq!(count(&[1, 1, 1], 2), 2);
        assert_eq!(count(&[0; 7], u64::MAX), 0);
        assert_eq!(count(&[1; 7], u64::MAX), u64::MAX);
        assert_eq!(count(&[1; 7], 0), 0);
        assert_eq!(count(&[], 7), 0);
    }
}
