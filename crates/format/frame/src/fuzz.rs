//! Arbitrary bytes through everything that reads files.

use crate::reader::{FileReader, OpenOptions};
use crate::repair::repair;

/// Opens arbitrary bytes as a file, by TOC and by walking, and reads all that they claim to hold.
/// Errors are fine; panics, endless loops and memory beyond what the bytes can give are not.
pub fn fuzz_file(data: &[u8]) {
    for ignore_toc in [false, true] {
        let options =
            OpenOptions { search_bytes_max: 1 << 20, ignore_toc, ..OpenOptions::default() };
        let Ok(file) = FileReader::open_with(data, &options) else { continue };
        let mut bytes = Vec::new();
        let _ = file.ledger();
        let _ = file.verify_index();
        for frame in 0..file.frames().len().min(FRAMES_MAX) {
            for entry in file.columns(frame).unwrap_or_default().iter().take(COLUMNS_MAX) {
                if file.read_column(frame, entry, &mut bytes).is_ok() {
                    assert_eq!(bytes.len() as u64, entry.raw_bytes);
                }
                let _ = file.find(frame, entry.id);
            }
            let _ = file.frame_ledger(frame);
            let _ = file.verify_frame(frame);
        }
    }
    if let Ok(plan) = repair(data, None)
        && let Some(closing) = plan.closing
    {
        let mut repaired = data.to_vec();
        repaired.resize(closing.offset as usize, 0);
        if let Some(header) = plan.file_header {
            repaired[..header.len()].copy_from_slice(&header);
        }
        repaired.extend_from_slice(&closing.bytes);
        let file = FileReader::open(repaired).expect("a repaired file opens");
        assert!(file.closed());
        assert_eq!(file.frames(), plan.frames);
    }
}

const FRAMES_MAX: usize = 256;
const COLUMNS_MAX: usize = 1_024;
