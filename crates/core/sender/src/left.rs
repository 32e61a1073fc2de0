//! A storage node's description of a stream, sent to a sender that asks (section 5 of
//! docs/spec/storage-link.md): in parts, of which each says where it belongs.

use catchment_wire::session::{Fault, Fields as _};
use catchment_wire::storage_link::{Left, LeftPart};

use crate::opening::within;

/// What a node has of a stream, as it has said it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOfStream {
    /// A frame file without frames; empty if the node has nothing of the stream. Not checked.
    pub file: Vec<u8>,
    /// Whether the stream has ended in order.
    pub has_ended: bool,
    /// For how long nothing of it has come.
    pub age_ns: u64,
    /// Frames in its files.
    pub frames: u64,
    /// Events in these.
    pub events: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
}

/// What was asked for, as far as it has come.
#[derive(Default)]
pub(crate) struct Asked {
    left: LeftOfStream,
    /// Those that its first part says.
    bytes: Option<u32>,
    is_whole: bool,
}

impl Asked {
    /// Takes a part; those behind the last one are dropped.
    pub(crate) fn take(
        &mut self,
        left: &Left,
        parts: impl Iterator<Item = LeftPart>,
    ) -> Result<(), Fault> {
        let exactly = |field, got, expected| within(field, got, expected, expected);
        exactly("log", left.log.into(), 0)?;
        if self.is_whole {
            return Ok(());
        }
        let bytes = *self.bytes.get_or_insert(left.bytes);
        exactly("bytes", left.bytes.into(), bytes.into())?;
        let file = &mut self.left.file;
        exactly("offset", left.offset.into(), file.len() as u64)?;
        parts.for_each(|part| file.extend_from_slice(&part.bytes));
        // The last part has zeros behind the end.
        let all = u64::from(left.bytes).next_multiple_of(LeftPart::BYTES as u64);
        within("the end of a part", file.len() as u64, 0, all)?;
        if file.len() as u64 == all {
            file.truncate(left.bytes as usize);
            self.is_whole = true;
            let &Left { flags, age_ns, frames, events, file_bytes, .. } = left;
            let (file, has_ended) = (std::mem::take(file), flags & Left::ENDED != 0);
            self.left = LeftOfStream { file, has_ended, age_ns, frames, events, file_bytes };
        }
        Ok(())
    }

    /// All of it, once.
    pub(crate) fn take_whole(&mut self) -> Option<LeftOfStream> {
        self.is_whole.then(|| std::mem::take(self).left)
    }

    /// The connection is gone: what has come in part comes again from its beginning.
    pub(crate) fn begin_again(&mut self) {
        if !self.is_whole {
            *self = Self::default();
        }
    }
}
