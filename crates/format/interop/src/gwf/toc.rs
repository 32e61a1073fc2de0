//! Frames and channels of a file, and the FrTOC that lists them. The FrTOC is read up to the
//! channels; the events after them are not read.

use crate::gwf::cursor::{Cursor, STRING_BYTES_MIN};
use crate::gwf::error::GwfError;
use crate::gwf::structures::{ChannelKind, Classes};

/// The contents of a file and their positions, however they were found.
pub(crate) struct Contents {
    pub classes: Classes,
    pub frames: Vec<Frame>,
    pub channels: Vec<Channel>,
}

/// A frame: an interval of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frame {
    /// Its start: whole seconds since the GPS epoch, 1980-01-06.
    pub gps_s: u32,
    /// Its start: nanoseconds of the second.
    pub gps_ns: u32,
    /// Its length in seconds.
    pub duration_s: f64,
    /// The run's number.
    pub run: i32,
    /// The frame's number.
    pub number: u32,
    /// Bits for errors in the data, 0 for none.
    pub data_quality: u32,
    /// Offset of its FrameH in the file, in bytes.
    pub position: u64,
}

/// A channel of a file.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name, such as `L1:STRAIN`.
    pub name: String,
    /// Its kind.
    pub kind: ChannelKind,
    /// The frames that have it, by rising index, each with the offset of the channel's structure.
    pub(crate) frames: Vec<(u32, u64)>,
}

impl Contents {
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, GwfError> {
        cursor.u16()?; // ULeapS
        let frames = parse_frames(cursor)?;
        let mut contents = Self { classes: Classes::new(), frames, channels: Vec::new() };
        contents.parse_classes(cursor)?;
        skip_detectors(cursor)?;
        skip_static_data(cursor)?;
        for kind in [ChannelKind::Adc, ChannelKind::Proc, ChannelKind::Sim] {
            contents.parse_channels(cursor, kind)?;
        }
        Ok(contents)
    }

    fn parse_classes(&mut self, cursor: &mut Cursor<'_>) -> Result<(), GwfError> {
        let stated = cursor.u32()?;
        let count = cursor.check_count(stated.into(), 2 + STRING_BYTES_MIN)?;
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            numbers.push(cursor.u16()?);
        }
        for number in numbers {
            self.classes.add(number, cursor.string_bytes()?);
        }
        Ok(())
    }

    fn parse_channels(
        &mut self,
        cursor: &mut Cursor<'_>,
        kind: ChannelKind,
    ) -> Result<(), GwfError> {
        let stated = cursor.u32()?;
        let count = cursor.check_count(stated.into(), STRING_BYTES_MIN)?;
        let first = self.channels.len();
        self.channels.reserve(count);
        for _ in 0..count {
            self.channels.push(Channel { name: cursor.string()?, kind, frames: Vec::new() });
        }
        if kind == ChannelKind::Adc {
            cursor.skip(count as u64, 8)?; // channelID, groupID
        }
        let positions = count as u64 * self.frames.len() as u64; // Both below 2^32.
        cursor.check_count(positions, 8)?;
        for channel in &mut self.channels[first..] {
            for frame in 0..self.frames.len() as u32 {
                let position = cursor.u64()?;
                // Writers mark a channel that a frame does not have with 0 or with all bits.
                if position != 0 && position != u64::MAX {
                    channel.frames.push((frame, position));
                }
            }
        }
        Ok(())
    }
}

impl Frame {
    /// Parses the fields of an FrameH that begins at `position`.
    pub(crate) fn parse(cursor: &mut Cursor<'_>, position: u64) -> Result<Self, GwfError> {
        cursor.string_bytes()?;
        let run = cursor.i32()?;
        let (number, data_quality) = (cursor.u32()?, cursor.u32()?);
        let (gps_s, gps_ns) = (cursor.u32()?, cursor.u32()?);
        cursor.u16()?; // ULeapS
        let duration_s = cursor.f64()?;
        Ok(Self { gps_s, gps_ns, duration_s, run, number, data_quality, position })
    }
}

impl Channel {
    /// Whether that frame has this channel.
    pub fn is_in(&self, frame: usize) -> bool {
        self.position(frame).is_some()
    }

    /// The offset of its structure in that frame.
    pub(crate) fn position(&self, frame: usize) -> Option<u64> {
        let found = self.frames.binary_search_by_key(&frame, |(frame, _)| *frame as usize).ok()?;
        Some(self.frames[found].1)
    }
}

fn parse_frames(cursor: &mut Cursor<'_>) -> Result<Vec<Frame>, GwfError> {
    let stated = cursor.u32()?;
    let count = cursor.check_count(stated.into(), FRAME_BYTES)?;
    let mut frames = vec![Frame::default(); count];
    for frame in &mut frames {
        frame.data_quality = cursor.u32()?;
    }
    for frame in &mut frames {
        frame.gps_s = cursor.u32()?;
    }
    for frame in &mut frames {
        frame.gps_ns = cursor.u32()?;
    }
    for frame in &mut frames {
        frame.duration_s = cursor.f64()?;
    }
    for frame in &mut frames {
        frame.run = cursor.i32()?;
    }
    for frame in &mut frames {
        frame.number = cursor.u32()?;
    }
    for frame in &mut frames {
        frame.position = cursor.u64()?;
    }
    cursor.skip(count as u64, 4 * 8)?; // nFirstADC, nFirstSer, nFirstTable, nFirstMsg
    Ok(frames)
}

fn skip_detectors(cursor: &mut Cursor<'_>) -> Result<(), GwfError> {
    let count = cursor.u32()?;
    skip_strings(cursor, count)?;
    cursor.skip(count.into(), 8)
}

fn skip_static_data(cursor: &mut Cursor<'_>) -> Result<(), GwfError> {
    let types = cursor.u32()?;
    skip_strings(cursor, types)?;
    skip_strings(cursor, types)?;
    cursor.skip(types.into(), 4)?;
    let total = cursor.u32()?;
    cursor.skip(total.into(), 4 + 4 + 4 + 8)
}

fn skip_strings(cursor: &mut Cursor<'_>, count: u32) -> Result<(), GwfError> {
    let count = cursor.check_count(count.into(), STRING_BYTES_MIN)?;
    for _ in 0..count {
        cursor.string_bytes()?;
    }
    Ok(())
}

/// Bytes of a frame in the table, without its channels.
const FRAME_BYTES: u64 = 4 + 4 + 4 + 8 + 4 + 4 + 8 + 4 * 8;
