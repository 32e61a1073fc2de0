//! Finding frames and channels from structure to structure, where there is no FrTOC to believe.

use std::collections::BTreeMap;

use crate::ReadAt;
use crate::gwf::error::GwfError;
use crate::gwf::reader::Frame;
use crate::gwf::structures::{
    ChannelData, ChannelKind, Class, Classes, FrameHeader, class_name, fields,
};
use crate::gwf::toc::{Contents, Places};
use crate::gwf::window::{Head, Window};
use crate::gwf::{FILE_HEADER_BYTES, STRUCTURE_BYTES_MAX};

/// What was found, and what ended the walk before the file's end.
pub(crate) struct Walked {
    pub contents: Contents,
    pub ended: Option<GwfError>,
}

/// Walks from the first structure to the last that is whole. Frames count once their FrEndOfFrame
/// is there. Memory grows with what is found, which is no more than the file's length allows.
pub(crate) fn walk<R: ReadAt>(source: &R, file_bytes: u64) -> Walked {
    let mut walker = Walker {
        window: Window::new(source, file_bytes, file_bytes, AHEAD_BYTES),
        classes: Classes::new(),
        frames: Vec::new(),
        open: None,
        channels: BTreeMap::new(),
    };
    let mut at = FILE_HEADER_BYTES as u64;
    let mut ended = None;
    while at < file_bytes {
        match walker.step(at) {
            Ok(next) => at = next,
            Err(error) => {
                ended = Some(error);
                break;
            }
        }
    }
    Walked { contents: walker.finish(), ended }
}

struct Walker<'a, R> {
    window: Window<'a, R>,
    classes: Classes,
    frames: Vec<Frame>,
    open: Option<OpenFrame>,
    /// Where each channel's structures stand, by frame.
    channels: BTreeMap<(ChannelKind, String), Vec<(u32, u64)>>,
}

/// A frame whose end was not seen yet.
struct OpenFrame {
    frame: Frame,
    channels: Vec<(ChannelKind, String, u64)>,
}

impl<R: ReadAt> Walker<'_, R> {
    /// Takes in the structure at `at` and returns where the next one stands.
    fn step(&mut self, at: u64) -> Result<u64, GwfError> {
        let head = self.window.head(at)?;
        if head.class == FR_SH {
            let bytes = self.whole(&head, "FrSH")?;
            let (name, number) = class_name(&mut fields(&head, "FrSH", &bytes)?)?;
            self.classes.add(number, name);
            return Ok(head.end());
        }
        match self.classes.class(head.class) {
            Some(Class::FrameHeader) => {
                let bytes = self.whole(&head, "FrameH")?;
                let header = FrameHeader::parse(&mut fields(&head, "FrameH", &bytes)?)?;
                let frame = Frame::of_header(&header, at);
                self.open = Some(OpenFrame { frame, channels: Vec::new() });
            }
            Some(Class::Channel(kind)) => {
                let bytes = self.whole(&head, kind.class())?;
                let name = ChannelData::name(&mut fields(&head, kind.class(), &bytes)?)?;
                if let Some(open) = &mut self.open {
                    open.channels.push((kind, name, at));
                }
            }
            Some(Class::EndOfFrame) => {
                let bytes = self.whole(&head, "FrEndOfFrame")?;
                fields(&head, "FrEndOfFrame", &bytes)?;
                self.close_frame();
            }
            Some(Class::Vector | Class::Toc | Class::EndOfFile) | None => {}
        }
        Ok(head.end())
    }

    fn close_frame(&mut self) {
        let Some(open) = self.open.take() else { return };
        let index = self.frames.len() as u32;
        self.frames.push(open.frame);
        for (kind, name, position) in open.channels {
            let places = self.channels.entry((kind, name)).or_default();
            // The first of a name counts, as in an FrTOC.
            if places.last().is_none_or(|(last, _)| *last != index) {
                places.push((index, position));
            }
        }
    }

    fn whole(&mut self, head: &Head, class: &'static str) -> Result<Vec<u8>, GwfError> {
        let part = head.part(class);
        if head.bytes > STRUCTURE_BYTES_MAX {
            let expected = "at most 16 MiB";
            return Err(GwfError::Field { part, field: "length", expected, got: head.bytes });
        }
        self.window.at(part, head.offset, head.bytes).map(<[u8]>::to_vec)
    }

    fn finish(self) -> Contents {
        let channels = self.channels.into_iter();
        let channels = channels.map(|((kind, name), frames)| Places { name, kind, frames });
        Contents { classes: self.classes, frames: self.frames, channels: channels.collect() }
    }
}

/// The class number of FrSH in every file.
const FR_SH: u8 = 1;
/// How much is read at a time.
const AHEAD_BYTES: u64 = 64 * 1024;
