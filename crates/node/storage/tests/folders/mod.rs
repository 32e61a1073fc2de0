//! Folders of contradictory files, as left by a disk that lies or by manual copying: whatever they
//! contain, no reader may panic, and a repair comes to an end.
//!
//! The fuzz target `run_folder` includes this file, so it uses only the public interface.

use std::ops::Range;
use std::path::Path;

use catchment_frame::{FILE_LIST_NAME, crc32c};
use catchment_storage::{ReframeOptions, TrendOptions};
use catchment_storage::{
    Run, RunOptions, audit, ledger_so_far, make_trends, recompute, reframe, remove_leftovers,
    repair, verify,
};

/// A folder's files, and whether all checksums in them are made right.
#[derive(Clone, Debug)]
pub struct Folder {
    pub is_sealed: bool,
    pub files: Vec<Vec<u8>>,
}

impl Folder {
    /// A folder in one piece: a byte with the number of files, and [`SEALED`] or not; each file's
    /// length; the files.
    pub fn pack(&self) -> Vec<u8> {
        let mut bytes = vec![self.files.len() as u8 | if self.is_sealed { SEALED } else { 0 }];
        for file in &self.files {
            bytes.extend_from_slice(&(file.len() as u32).to_le_bytes());
        }
        bytes.extend(self.files.iter().flatten());
        bytes
    }

    /// The packed folder; for other bytes, as much as they contain.
    pub fn unpack(bytes: &[u8]) -> Self {
        let first = bytes.first().copied().unwrap_or(0);
        let (count, mut rest) = (usize::from(first % FILES_MAX), bytes.get(1..).unwrap_or(&[]));
        let mut lengths = Vec::new();
        while lengths.len() < count
            && let Some((length, behind)) = rest.split_first_chunk()
        {
            lengths.push(u32::from_le_bytes(*length) as usize);
            rest = behind;
        }
        let mut files = Vec::new();
        for length in lengths {
            let (file, behind) = rest.split_at(length.min(rest.len()));
            files.push(file.to_vec());
            rest = behind;
        }
        Self { is_sealed: first & SEALED != 0, files }
    }

    /// Writes the files, runs every reader on them, and repairs them.
    pub fn examine(mut self) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        std::fs::create_dir(&path).expect("a folder");
        for (index, file) in self.files.iter_mut().enumerate() {
            if self.is_sealed {
                seal(file);
            }
            let is_list = file.first() == Some(&b'{');
            let name = format!("run-{index:05}.catch");
            let name = if is_list { FILE_LIST_NAME } else { &name };
            std::fs::write(path.join(name), file).expect("writes");
        }
        look(&path);
        let _freed = remove_leftovers(&path).expect("a disk that works");
        let Ok(first) = repair(&path) else { return };
        look(&path);
        let again = repair(&path).expect("what was repaired can be repaired again");
        assert_eq!(again.closed(), 0, "{first:#?} {again:#?}");
        let frames = |report: &catchment_storage::RepairReport| {
            report.files.iter().map(|file| file.frames).sum::<u64>()
        };
        assert_eq!(frames(&again), frames(&first), "{first:#?} {again:#?}");
    }
}

/// Reads everything, in every way.
fn look(folder: &Path) {
    let Ok(run) = Run::open(folder) else { return };
    let _ = audit(&run);
    let _ = verify(&run, |_| ());
    let _ = ledger_so_far(&run, 0);
    for frame in 0..run.frames().len().min(FRAMES_MAX) {
        let _ = run.events(frame);
        for source in 0..run.sources().len() as u32 {
            let _ = run.fragments(frame, catchment_model::SourceId(source));
        }
    }
    let beside = folder.parent().expect("a folder in a folder");
    let target = beside.join("again");
    let options = ReframeOptions { frame_bytes: Some(1 << 16), ..ReframeOptions::default() };
    let _ = reframe(&run, &target, "again", &options, |_| std::ops::ControlFlow::Continue(()));
    let _removed = std::fs::remove_dir_all(target);
    let go_on = |_, _| std::ops::ControlFlow::Continue(());
    let _ = make_trends(&run, &TrendOptions::default(), go_on);
    let _removed = std::fs::remove_dir_all(folder.join("trends"));
    // Each file as if it were a folder of its own.
    let entries = folder.read_dir().expect("lists");
    let paths = entries.map(|entry| entry.expect("lists").path());
    let paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "catch")).collect();
    if paths.len() < 2 {
        return;
    }
    let Ok(run) = Run::open_folders(&paths, RunOptions::default()) else { return };
    let _ = (run.recorded_ledger(), recompute(&run), run.lost_data(), run.at_rest());
    let _ = verify(&run, |_| ());
    for frame in 0..run.frames().len().min(FRAMES_MAX) {
        let _ = run.fragments(frame, catchment_model::SourceId(0));
    }
}

/// Makes the checksums of a file right, as far as its structures can be found.
pub fn seal(file: &mut [u8]) {
    if file.starts_with(b"\x89CATCH\r\n") {
        let metadata = u32_at(file, 16).unwrap_or(0) as usize;
        put_own(file, 0..metadata.saturating_add(64), 20);
    }
    for at in (0..file.len()).step_by(4_096) {
        let bytes = &mut file[at..];
        match bytes.first_chunk() {
            Some(b"CTMFRAME") => seal_frame(bytes),
            Some(b"CTMCLOSE") => put_own(bytes, 0..64, 12),
            Some(b"CTMCHECK") => put_own(bytes, 0..64, 8),
            _ => {}
        }
    }
}

fn seal_frame(frame: &mut [u8]) {
    let word = |frame: &[u8], at| u32_at(frame, at).unwrap_or(0) as usize;
    let (header_bytes, sizes, count) = (word(frame, 8), word(frame, 20), word(frame, 24));
    let (fixed_bytes, entry_bytes) = (sizes & 0xffff, sizes >> 16);
    if matches!(word(frame, 16) & 0xffff, 3 | 4) {
        seal_index(frame, fixed_bytes, entry_bytes);
    }
    for entry in (0..count.min(COLUMNS_MAX)).map(|index| fixed_bytes + index * entry_bytes) {
        let stored = u64_at(frame, entry + 16).zip(u64_at(frame, entry + 24));
        put(frame, stored.map(|(offset, bytes)| offset..offset.saturating_add(bytes)), entry + 12);
    }
    put_own(frame, 0..header_bytes, 12);
}

/// The lists, the column index and its blocks, of a TOC or checkpoint.
fn seal_index(frame: &mut [u8], fixed_bytes: usize, entry_bytes: usize) {
    let column = |index: usize| {
        let entry = fixed_bytes + index * entry_bytes;
        let offset = u64_at(frame, entry + 16)?;
        Some(offset..offset.saturating_add(u64_at(frame, entry + 24)?))
    };
    let (Some(blocks), Some(index), Some(lists)) = (column(1), column(2), column(3)) else {
        return;
    };
    for record in (index.start..index.end).step_by(32).take(COLUMNS_MAX) {
        let record = record as usize;
        let of = |at| u32_at(frame, record + at).map(u64::from);
        let (Some(offset), Some(records), Some(sizes)) =
            (u64_at(frame, record + 8), of(16), of(20))
        else {
            return;
        };
        let packed = of(24).filter(|&bytes| bytes > 0);
        let bytes = packed.unwrap_or(records.saturating_mul(sizes & 0xffff));
        let start = lists.start.saturating_add(offset);
        put(frame, Some(start..start.saturating_add(bytes)), record + 4);
    }
    let starts = (index.start..).step_by(128 * 32);
    for (block, start) in (blocks.start..blocks.end).step_by(16).zip(starts).take(COLUMNS_MAX) {
        let records = u32_at(frame, block as usize + 4).map_or(0, u64::from);
        put(frame, Some(start..start.saturating_add(records * 32)), block as usize + 8);
    }
}

/// Puts the checksum of a range at an offset.
fn put(bytes: &mut [u8], range: Option<Range<u64>>, at: usize) {
    let Some(covered) = range.and_then(|range| bytes.get(range.start as usize..range.end as usize))
    else {
        return;
    };
    let crc = crc32c(covered);
    if let Some(place) = bytes.get_mut(at..at.saturating_add(4)) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

/// As [`put`], for a range that contains its checksum, as zeros.
fn put_own(bytes: &mut [u8], range: Range<usize>, at: usize) {
    if range.end <= bytes.len() && at + 4 <= range.end {
        bytes[at..at + 4].fill(0);
        put(bytes, Some(range.start as u64..range.end as u64), at);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The bit of a folder's first byte by which its checksums are made right.
const SEALED: u8 = 0x80;
const FILES_MAX: u8 = 8;
const COLUMNS_MAX: usize = 256;
const FRAMES_MAX: usize = 64;
