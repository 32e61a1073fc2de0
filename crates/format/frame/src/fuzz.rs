//! Runs arbitrary bytes through everything that reads files.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::BLOCK_BYTES;
use crate::frame::ColumnEntry;
use crate::read_at::ReadAt;
use crate::reader::{FileReader, OpenOptions};
use crate::repair::repair;
use crate::uncut::header_of_uncut;
use crate::verify::{frame_ledger, verify_frame};

/// Opens arbitrary bytes as a file, by TOC, by checkpoints and by walking, reads everything that
/// they claim to contain, follows them as if they arrived in two parts, and repairs them. Errors
/// are allowed; panics, endless loops, and more memory than the bytes can expand to are not.
pub fn fuzz_file(data: &[u8]) {
    for (ignore_toc, ignore_checkpoints) in [(false, false), (false, true), (true, true)] {
        let options = OpenOptions { search_bytes_max: 1 << 20, ignore_toc, ignore_checkpoints };
        if let Ok(file) = FileReader::open_with(data, &options) {
            read_all(&file);
        }
    }
    follow(data);
    let _ = header_of_uncut(&data);
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

fn read_all<R: ReadAt>(file: &FileReader<R>) {
    let mut bytes = Vec::new();
    let _ = file.ledger();
    let _ = file.ledger_at_checkpoint();
    let _ = file.listed_positions();
    let _ = file.verify_index();
    for frame in 0..file.frames().len().min(FRAMES_MAX) {
        let spans = file.spans(frame).unwrap_or_default();
        for entry in file.columns(frame).unwrap_or_default().iter().take(COLUMNS_MAX) {
            if file.read_column(frame, entry, &mut bytes).is_ok() {
                assert_eq!(bytes.len() as u64, entry.raw_bytes);
            }
            let _ = file.find(frame, entry.id);
            let _ = file.column_entries(entry.id);
            if let Ok(runs) = spans.runs(entry) {
                let rows = |entry: &ColumnEntry| {
                    runs.iter().map(|run| run.rows).sum::<u64>() == entry.rows
                };
                assert!(rows(entry), "runs are the column's rows");
            }
        }
        let _ = file.positions(frame);
        let _ = frame_ledger(file, frame);
        let _ = verify_frame(file, frame);
    }
}

/// Opens the first half, then refreshes with all bytes.
fn follow(data: &[u8]) {
    let half = data.len() / 2 / BLOCK_BYTES as usize * BLOCK_BYTES as usize;
    let growing = Growing { data, bytes: AtomicUsize::new(half) };
    let options = OpenOptions { search_bytes_max: 0, ..OpenOptions::default() };
    let Ok(mut file) = FileReader::open_with(&growing, &options) else { return };
    let before = file.frames().len();
    growing.bytes.store(data.len(), Ordering::Relaxed);
    let came = file.refresh().expect("the length is known");
    assert!(file.closed() || file.frames().len() == before + came);
    read_all(&file);
    assert_eq!(file.refresh().expect("the length is known"), 0, "nothing came since");
}

/// Bytes of which only the first have arrived.
struct Growing<'a> {
    data: &'a [u8],
    bytes: AtomicUsize,
}

impl ReadAt for Growing<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.data[..self.bytes.load(Ordering::Relaxed)].read_at(offset, buffer)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.load(Ordering::Relaxed) as u64)
    }
}

const FRAMES_MAX: usize = 256;
const COLUMNS_MAX: usize = 1_024;
