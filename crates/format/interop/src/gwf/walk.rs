//! Finding frames and channels from structure to structure, if there is no valid FrTOC.

use std::collections::BTreeMap;

use crate::ReadAt;
use crate::gwf::FILE_HEADER_BYTES;
use crate::gwf::error::GwfError;
use crate::gwf::structures::{ChannelData, ChannelKind, Class, Classes, class_name, fields};
use crate::gwf::toc::{Channel, Contents, Frame};
use crate::gwf::window::{Head, Window, check_length};

/// The findings, and the error that ended the walk before the file's end.
pub(crate) struct Walked {
    pub contents: Contents,
    pub ended: Option<GwfError>,
    pub damaged: Damaged,
}

/// Structures whose contents are damaged, but not their length: each costs the channel or the frame
/// that it describes.
#[derive(Debug, Default)]
pub struct Damaged {
    /// Their number.
    pub structures: u64,
    /// The error in the first.
    pub first: Option<Box<GwfError>>,
}

/// Walks from the first structure to the last whole one. Frames count once their FrEndOfFrame has
/// been found. A structure damaged after its head is skipped, and its frame with it if it is the
/// frame's first or last. Memory grows with the findings, which the file's length limits.
pub(crate) fn walk<R: ReadAt>(source: &R, file_bytes: u64) -> Walked {
    let mut walker = Walker {
        window: Window::new(source, file_bytes, file_bytes, AHEAD_BYTES),
        classes: Classes::new(),
        frames: Vec::new(),
        open: None,
        channels: BTreeMap::new(),
        damaged: Damaged::default(),
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
    let damaged = std::mem::take(&mut walker.damaged);
    Walked { contents: walker.finish(), ended, damaged }
}

struct Walker<'a, R> {
    window: Window<'a, R>,
    classes: Classes,
    frames: Vec<Frame>,
    open: Option<OpenFrame>,
    /// For each channel: the index of each frame that has it, and the offset of its structure.
    channels: BTreeMap<(ChannelKind, String), Vec<(u32, u64)>>,
    damaged: Damaged,
}

/// A frame whose end has not been found yet.
struct OpenFrame {
    frame: Frame,
    channels: Vec<(ChannelKind, String, u64)>,
}

impl<R: ReadAt> Walker<'_, R> {
    /// Processes the structure at `at` and returns the offset of the next one.
    fn step(&mut self, at: u64) -> Result<u64, GwfError> {
        let head = self.window.head(at)?;
        match self.contents(&head) {
            Ok(()) => {}
            Err(error @ GwfError::Read { .. }) => return Err(error),
            Err(error) => {
                self.damaged.structures += 1;
                self.damaged.first.get_or_insert_with(|| Box::new(error));
                // The following structures belong to a frame whose time or end is unknown.
                if !matches!(self.classes.class(head.class), Some(Class::Channel(_))) {
                    self.open = None;
                }
            }
        }
        Ok(head.end())
    }

    /// Processes a structure's contents, after its checksum has been checked.
    fn contents(&mut self, head: &Head) -> Result<(), GwfError> {
        if head.class == FR_SH {
            let bytes = self.whole(head, "FrSH")?;
            let (name, number) = class_name(&mut fields(head, "FrSH", &bytes)?)?;
            self.classes.add(number, name);
            return Ok(());
        }
        match self.classes.class(head.class) {
            Some(Class::FrameHeader) => {
                let bytes = self.whole(head, "FrameH")?;
                let frame = Frame::parse(&mut fields(head, "FrameH", &bytes)?, head.offset)?;
                self.open = Some(OpenFrame { frame, channels: Vec::new() });
            }
            Some(Class::Channel(kind)) => {
                let bytes = self.whole(head, kind.class())?;
                let name = ChannelData::name(&mut fields(head, kind.class(), &bytes)?)?;
                if let Some(open) = &mut self.open {
                    open.channels.push((kind, name, head.offset));
                }
            }
            Some(Class::EndOfFrame) => {
                let bytes = self.whole(head, "FrEndOfFrame")?;
                fields(head, "FrEndOfFrame", &bytes)?;
                self.close_frame();
            }
            Some(Class::Vector | Class::Toc | Class::EndOfFile) | None => {}
        }
        Ok(())
    }

    fn close_frame(&mut self) {
        let Some(open) = self.open.take() else { return };
        let index = self.frames.len() as u32;
        self.frames.push(open.frame);
        for (kind, name, position) in open.channels {
            let frames = self.channels.entry((kind, name)).or_default();
            // The first with a name counts, as in an FrTOC.
            if frames.last().is_none_or(|(last, _)| *last != index) {
                frames.push((index, position));
            }
        }
    }

    fn whole(&mut self, head: &Head, class: &'static str) -> Result<Vec<u8>, GwfError> {
        let part = head.part(class);
        check_length(part, head.bytes)?;
        self.window.at(part, head.offset, head.bytes).map(<[u8]>::to_vec)
    }

    fn finish(self) -> Contents {
        let channels = self.channels.into_iter();
        let channels = channels.map(|((kind, name), frames)| Channel { name, kind, frames });
        Contents { classes: self.classes, frames: self.frames, channels: channels.collect() }
    }
}

/// The class number of FrSH in every file.
const FR_SH: u8 = 1;
/// Bytes read at a time.
const AHEAD_BYTES: u64 = 64 * 1024;
