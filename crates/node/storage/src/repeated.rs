//! Frames that are in a run twice: sent or written again, because it was not known that they had
//! been written. A frame is known by stream and sequence, in whatever file it stands; of those that
//! are the same, readers take the first.

use std::collections::HashMap;

use catchment_frame::{FrameInfo, FrameSummary};

use crate::open::RunFile;

/// Finds the frames of each file that stand in the run before.
pub(crate) fn mark(files: &mut [RunFile]) {
    let found = if rises(files) { Vec::new() } else { find(files) };
    files.iter_mut().for_each(|file| file.repeated.clear());
    for (file, index) in found {
        files[file].repeated.push(index);
    }
}

/// Whether every stream's numbers rise through all files: then no frame stands twice, and nothing
/// more need be looked at.
fn rises(files: &[RunFile]) -> bool {
    let mut newest: HashMap<u32, u64> = HashMap::new();
    let mut infos = files.iter().flat_map(|file| file.reader.frames()).map(|frame| &frame.info);
    infos.all(|info| {
        let before = newest.insert(info.origin.stream, info.sequence);
        before.is_none_or(|before| before < info.sequence)
    })
}

fn find(files: &[RunFile]) -> Vec<(usize, usize)> {
    let mut first: HashMap<(u32, u64), (usize, usize)> = HashMap::new();
    let mut found = Vec::new();
    for (file, run_file) in files.iter().enumerate() {
        for (index, frame) in run_file.reader.frames().iter().enumerate() {
            let identity = (frame.info.origin.stream, frame.info.sequence);
            let location = *first.entry(identity).or_insert((file, index));
            if location != (file, index) && agree(files, location, (file, index)) {
                found.push((file, index));
            }
        }
    }
    found
}

/// Whether two frames say the same: ranges and rows, and all columns by their checksums. Trends
/// restart the numbering of frames in each of their files: equal numbers mean different frames.
fn agree(files: &[RunFile], one: (usize, usize), other: (usize, usize)) -> bool {
    let frame =
        |(file, index): (usize, usize)| -> &FrameSummary { &files[file].reader.frames()[index] };
    let info = |location| FrameInfo { file_id: 0, ..frame(location).info };
    if info(one) != info(other) {
        return false;
    }
    let columns = |(file, index): (usize, usize)| files[file].reader.columns(index);
    let (Ok(one), Ok(other)) = (columns(one), columns(other)) else { return false };
    let contents = |entry: &catchment_frame::ColumnEntry| {
        (entry.id, entry.codec, entry.raw_bytes, entry.rows, entry.crc32c)
    };
    one.iter().map(contents).eq(other.iter().map(contents))
}
