//! Files with an unreadable header: their frames, and a new header.
//!
//! A frame names its file but not its run: its columns are described only by the file header, and
//! by that of every other file of the run.

use crate::error::FrameError;
use crate::frame::{FrameSummary, Head};
use crate::header::FileHeader;
use crate::read_at::{Patched, ReadAt};
use crate::reader::{FileReader, OpenOptions};
use crate::walk::{Walker, Window};
use crate::{BLOCK_BYTES, VERSION_MINOR};

/// The contents of a file with an unreadable header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headless {
    /// The random number in its frames and in its lost header.
    pub file_id: u64,
    /// Its frames, without checkpoints.
    pub frames: Vec<FrameSummary>,
}

/// Finds the frames of a file without its header: those of the first file id found here. `None` if
/// there is none within `search_bytes_max` of the beginning, or of the previous frame.
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
    /// The file's header, made from that of another file of its run: only `file_index`,
    /// `created_ns` and the random number are its own. `None` if it does not fit before the first
    /// frame. Keys of the other header that this version does not write are lost:
    /// [`FileReader::header_key_lost`].
    pub fn header<R: ReadAt>(
        &self,
        other: &FileReader<R>,
        (file_index, created_ns): (u32, u64),
    ) -> Option<Vec<u8>> {
        let file_id = self.file_id;
        let header = FileHeader { file_index, file_id, created_ns, ..other.header().clone() };
        let room = self.frames.first().map_or(u64::MAX, |first| first.offset);
        // As the other's: the meaning of an absent key depends on the version.
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
