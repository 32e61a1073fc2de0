//! Files whose header cannot be read: their frames, and a new header.
//!
//! A frame names its file and not its run: its columns are described by the file header alone, and
//! by that of every other file of the run.

use crate::error::FrameError;
use crate::frame::{FrameSummary, Head};
use crate::header::FileHeader;
use crate::read_at::{Patched, ReadAt};
use crate::reader::{FileReader, OpenOptions};
use crate::walk::{Walker, Window};
use crate::{BLOCK_BYTES, VERSION_MINOR};

/// The contents of a file whose header cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headless {
    /// The random number that its frames have, and its header had.
    pub file_id: u64,
    /// Its frames, without checkpoints.
    pub frames: Vec<FrameSummary>,
}

/// Finds the frames of a file without its header: those of the first file that has one here. `None`
/// if there is none within `search_bytes_max` of the beginning, or of the frame before.
///
/// # Errors
/// If the file's length cannot be read.
pub fn find_headless<R: ReadAt + ?Sized>(
    reader: &R,
    search_bytes_max: u64,
) -> Result<Option<Headless>, FrameError> {
    let file_bytes = reader.bytes().map_err(FrameError::Length)?;
    let walker = |file_id| Walker { reader, file_bytes, file_id, search_bytes_max };
    let searching = walker(0);
    let mut window = Window::default();
    let mut effort_bytes = searching.effort_bytes();
    let mut offset = 0;
    while offset < file_bytes.min(search_bytes_max) {
        let data = if window.holds(offset) { offset } else { searching.data_from(offset) };
        if data > offset {
            offset = data;
            continue;
        }
        if let Ok(head) = Head::decode(offset, window.block(&searching, offset)) {
            let file_id = head.summary.info.file_id;
            if walker(file_id).accept(offset, &mut effort_bytes).is_ok() {
                let frames = walker(file_id).walk(offset).frames;
                if !frames.is_empty() {
                    return Ok(Some(Headless { file_id, frames }));
                }
            }
        }
        offset += BLOCK_BYTES;
    }
    Ok(None)
}

impl Headless {
    /// The file's header, made from that of another file of its run: only `file_index` and
    /// `created_ns` are the file's own, and its random number. `None` if it has no room before the
    /// first frame. What the other header has and this version does not write is not in it:
    /// [`FileReader::header_key_lost`].
    pub fn header<R: ReadAt>(
        &self,
        other: &FileReader<R>,
        (file_index, created_ns): (u32, u64),
    ) -> Option<Vec<u8>> {
        let file_id = self.file_id;
        let header = FileHeader { file_index, file_id, created_ns, ..other.header().clone() };
        let room = self.frames.first().map_or(u64::MAX, |first| first.offset);
        // As the other's: what a key's absence means depends on the version.
        let minor = other.header_rest().minor.min(VERSION_MINOR);
        let bytes = header.encode_in(other.first_frame_offset().min(room), minor);
        (bytes.len() as u64 <= room).then_some(bytes)
    }

    /// Whether the schema of `header` describes every column of the file's frames.
    pub fn fits<R: ReadAt>(&self, reader: &R, header: &[u8]) -> bool {
        let Ok(file_bytes) = reader.bytes() else { return false };
        let whole = Patched { reader, offset: 0, patch: header, file_bytes };
        let options =
            OpenOptions { search_bytes_max: u64::MAX, ignore_toc: true, ignore_checkpoints: true };
        let Ok(file) = FileReader::open_with(whole, &options) else { return false };
        (0..file.frames().len()).all(|frame| {
            let columns = file.columns(frame).unwrap_or_default();
            columns.iter().all(|column| file.is_described(column))
        })
    }
}
