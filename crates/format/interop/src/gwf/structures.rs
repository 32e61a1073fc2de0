//! The structures whose fields are read.

use crate::gwf::checksum::{cksum, same};
use crate::gwf::cursor::{Cursor, Pointer};
use crate::gwf::error::{GwfError, Part};
use crate::gwf::vector::Stored;
use crate::gwf::window::Head;
use crate::gwf::{CHECKSUM_BYTES, HEAD_BYTES};

/// The kind of structure to which a channel belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChannelKind {
    /// Raw data of a converter, with a slope and a bias.
    Adc,
    /// Processed data.
    Proc,
    /// Simulated data.
    Sim,
}

impl ChannelKind {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Adc => "FrAdcData",
            Self::Proc => "FrProcData",
            Self::Sim => "FrSimData",
        }
    }
}

/// The classes known by name; each file assigns its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    FrameHeader,
    Channel(ChannelKind),
    Vector,
    EndOfFrame,
    Toc,
    EndOfFile,
}

impl Class {
    fn of_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"FrameH" => Self::FrameHeader,
            b"FrAdcData" => Self::Channel(ChannelKind::Adc),
            b"FrProcData" => Self::Channel(ChannelKind::Proc),
            b"FrSimData" => Self::Channel(ChannelKind::Sim),
            b"FrVect" => Self::Vector,
            b"FrEndOfFrame" => Self::EndOfFrame,
            b"FrTOC" => Self::Toc,
            b"FrEndOfFile" => Self::EndOfFile,
            _ => return None,
        })
    }
}

/// The class of each number in one file. Numbers are a byte.
#[derive(Clone, Debug)]
pub(crate) struct Classes([Option<Class>; 256]);

impl Classes {
    pub(crate) fn new() -> Self {
        Self([None; 256])
    }

    pub(crate) fn add(&mut self, number: u16, name: &[u8]) {
        if let Ok(number) = u8::try_from(number) {
            self.0[usize::from(number)] = Class::of_name(name);
        }
    }

    pub(crate) fn class(&self, number: u8) -> Option<Class> {
        self.0[usize::from(number)]
    }
}

/// The fields of a whole structure, with its checksum checked.
pub(crate) fn fields<'a>(
    head: &Head,
    class: &'static str,
    bytes: &'a [u8],
) -> Result<Cursor<'a>, GwfError> {
    check(head, class, bytes)?;
    Ok(Cursor::new(head.part(class), &bytes[HEAD_BYTES..bytes.len() - CHECKSUM_BYTES]))
}

/// Checks a whole structure's checksum, if it has one.
fn check(head: &Head, class: &'static str, bytes: &[u8]) -> Result<(), GwfError> {
    assert_eq!(bytes.len() as u64, head.bytes);
    let part = head.part(class);
    match head.checksum_kind {
        0 => Ok(()),
        1 => {
            let (covered, stored) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
            let expected = u32::from_le_bytes(stored.try_into().expect("four bytes"));
            same(part, expected, cksum(covered))
        }
        kind => {
            let (field, expected) = ("chkType", "0 or 1");
            Err(GwfError::Field { part, field, expected, got: kind.into() })
        }
    }
}

/// FrSH: assigns a number to a class.
pub(crate) fn class_name<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [u8], u16), GwfError> {
    let name = cursor.string_bytes()?;
    Ok((name, cursor.u16()?))
}

/// FrAdcData, FrProcData or FrSimData: the fields of all of them.
#[derive(Clone, Debug)]
pub(crate) struct ChannelData {
    pub name: String,
    pub comment: String,
    pub time_offset_s: f64,
    pub sample_rate_hz: Option<f64>,
    /// `(bias, slope)`.
    pub calibration: Option<(f32, f32)>,
    pub units: Option<String>,
    pub data_valid: u16,
    /// The kind of FrProcData: 1 is a time series.
    pub series: u16,
    pub data: Pointer,
    /// The first of its auxiliary vectors.
    pub auxiliary: Pointer,
}

impl ChannelData {
    pub(crate) fn parse(kind: ChannelKind, cursor: &mut Cursor<'_>) -> Result<Self, GwfError> {
        let (name, comment) = (cursor.string()?, cursor.string()?);
        let mut data = Self {
            name,
            comment,
            time_offset_s: 0.0,
            sample_rate_hz: None,
            calibration: None,
            units: None,
            data_valid: 0,
            series: TIME_SERIES,
            data: Pointer::default(),
            auxiliary: Pointer::default(),
        };
        match kind {
            ChannelKind::Adc => data.parse_adc(cursor)?,
            ChannelKind::Proc => data.parse_proc(cursor)?,
            ChannelKind::Sim => data.parse_sim(cursor)?,
        }
        data.data = cursor.pointer()?;
        if kind != ChannelKind::Sim {
            data.auxiliary = cursor.pointer()?;
        }
        Ok(data)
    }

    /// Only the name.
    pub(crate) fn name(cursor: &mut Cursor<'_>) -> Result<String, GwfError> {
        cursor.string()
    }

    fn parse_adc(&mut self, cursor: &mut Cursor<'_>) -> Result<(), GwfError> {
        cursor.skip(3, 4)?; // channelGroup, channelNumber, nBits
        self.calibration = Some((cursor.f32()?, cursor.f32()?));
        self.units = Some(cursor.string()?);
        self.sample_rate_hz = Some(cursor.f64()?);
        self.time_offset_s = cursor.f64()?;
        cursor.skip(1, 12)?; // fShift, phase
        self.data_valid = cursor.u16()?;
        Ok(())
    }

    fn parse_proc(&mut self, cursor: &mut Cursor<'_>) -> Result<(), GwfError> {
        self.series = cursor.u16()?;
        cursor.u16()?; // subType
        self.time_offset_s = cursor.f64()?;
        cursor.skip(1, 36)?; // tRange, fShift, phase, fRange, BW
        let parameters = cursor.u16()?;
        cursor.skip(parameters.into(), 8)?;
        for _ in 0..parameters {
            cursor.string_bytes()?;
        }
        Ok(())
    }

    fn parse_sim(&mut self, cursor: &mut Cursor<'_>) -> Result<(), GwfError> {
        self.sample_rate_hz = Some(cursor.f64()?);
        self.time_offset_s = cursor.f64()?;
        cursor.skip(1, 12)?; // fShift, phase
        Ok(())
    }
}

/// The fields of an FrVect before its samples: their range and storage.
pub(crate) struct VectorFront {
    pub name: Vec<u8>,
    /// Bytes of the fields before the samples.
    pub bytes: u64,
    pub stored: Stored,
}

impl VectorFront {
    /// Reads them from the first bytes of the fields. `fields_bytes` is the length of all fields.
    pub(crate) fn parse(part: Part, bytes: &[u8], fields_bytes: u64) -> Result<Self, GwfError> {
        let mut cursor = Cursor::new(part, bytes);
        let name = cursor.string_bytes()?.to_vec();
        let (compress, number) = (cursor.u16()?, cursor.u16()?);
        let (samples, stored_bytes) = (cursor.u64()?, cursor.u64()?);
        let front_bytes = (bytes.len() - cursor.remaining()) as u64;
        let there = fields_bytes - front_bytes;
        if stored_bytes > there {
            let (offset, expected) = (front_bytes, stored_bytes);
            return Err(GwfError::Truncated { part, offset, expected, got: there });
        }
        let stored = Stored::new(part, compress, number, samples, stored_bytes)?;
        Ok(Self { name, bytes: front_bytes, stored })
    }
}

/// The most bytes of the fields of an FrVect before its samples: the longest name, and 20.
pub(crate) const VECTOR_FRONT_BYTES_MAX: u64 = 2 + 65_535 + 20;

/// The fields of an FrVect after its samples, for its only dimension.
#[derive(Clone, Debug)]
pub(crate) struct VectorBack {
    pub dx: f64,
    pub start_x: f64,
    pub unit_x: String,
    pub unit_y: String,
    /// The next vector of the same structure.
    pub next: Pointer,
}

impl VectorBack {
    pub(crate) fn parse(
        part: Part,
        cursor: &mut Cursor<'_>,
        samples: u64,
    ) -> Result<Self, GwfError> {
        let dimensions = cursor.u32()?;
        if dimensions != 1 {
            let what = format!("a vector of {dimensions} dimensions");
            return Err(GwfError::Unsupported { part, what });
        }
        let length = cursor.u64()?;
        if length != samples {
            let (field, expected) = ("nx", "the same as nData");
            return Err(GwfError::Field { part, field, expected, got: length });
        }
        let (dx, start_x) = (cursor.f64()?, cursor.f64()?);
        let (unit_x, unit_y) = (cursor.string()?, cursor.string()?);
        let next = cursor.pointer()?;
        Ok(Self { dx, start_x, unit_x, unit_y, next })
    }
}

/// FrProcData's type for a time series; some writers leave 0 there.
pub(crate) const TIME_SERIES: u16 = 1;
