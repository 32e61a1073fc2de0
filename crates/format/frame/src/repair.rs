//! Closing a file that its recorder did not close: the missing TOC and trailer.

use std::fmt;

use catchment_model::{Entry, Ledger};

use crate::error::FrameError;
use crate::frame::{FrameInfo, FrameSummary};
use crate::positions::Positions;
use crate::read_at::{Patched, ReadAt};
use crate::reader::{FileReader, OpenOptions};
use crate::toc::{TocBuilder, TocFlags};
use crate::verify::{add_new, check_frame};
use crate::walk::Skipped;

/// The result of `repair`, and the bytes to write. Nothing has been written yet.
pub struct RepairPlan {
    /// The whole frames, in file order.
    pub frames: Vec<FrameSummary>,
    /// The ranges without frames, with reasons.
    pub skipped: Vec<Skipped>,
    /// Unreadable columns of those frames; the others can be read.
    pub damaged: Vec<FrameError>,
    /// Frames missing between those found, by their numbers.
    pub frames_missing: u64,
    /// The sum of the frames, after `ledger_before`: the total in a new TOC, and the starting point
    /// for repairing the next file. An existing TOC that is kept may state more: its recorder
    /// continued to count while it wrote.
    pub ledger: Ledger,
    /// How the file was closed, in its TOC.
    pub flags: TocFlags,
    /// The file header to write at offset 0, if it is damaged.
    pub file_header: Option<Vec<u8>>,
    /// TOC and trailer to write; `None` if the file is closed and its index intact.
    pub closing: Option<Closing>,
}

/// Bytes that close a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Closing {
    /// Their offset in the file. The bytes there now belong to no whole frame.
    pub offset: u64,
    /// TOC and trailer.
    pub bytes: Vec<u8>,
}

impl Closing {
    /// The length to which the file must be cut or extended.
    pub fn file_bytes(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Closing {{ offset: {}, bytes: {} }}", self.offset, self.bytes.len())
    }
}

impl fmt::Debug for RepairPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepairPlan")
            .field("frames", &self.frames.len())
            .field("skipped", &self.skipped)
            .field("damaged", &self.damaged)
            .field("frames_missing", &self.frames_missing)
            .field("flags", &self.flags)
            .field("file_header", &self.file_header.as_ref().map(Vec::len))
            .field("closing", &self.closing)
            .finish_non_exhaustive()
    }
}

/// Finds and reads every whole frame of a file that is not closed or whose index is damaged, and
/// makes a TOC and a trailer for them, or only a trailer if the TOC is intact. The caller writes
/// [`Closing::bytes`] at [`Closing::offset`] and cuts the file to [`Closing::file_bytes`], and
/// [`RepairPlan::file_header`] at 0.
///
/// `ledger_before` is the total at the close of the run's previous file; without it, the ledger of
/// a later file covers only that file, which a flag of its TOC states.
///
/// # Errors
/// If the file header cannot be read.
pub fn repair<R: ReadAt>(
    reader: R,
    ledger_before: Option<&Ledger>,
) -> Result<RepairPlan, FrameError> {
    let file = FileReader::open(&reader)?;
    let file_header = file.header_problem().map(|_| file.padded_header()).transpose()?;
    if file.closed() && file.verify_index().is_empty() {
        return untouched(&file, file_header, ledger_before);
    }
    if let Some(plan) = close_again(&reader, &file, ledger_before)? {
        return Ok(RepairPlan { file_header, ..plan });
    }
    let options =
        OpenOptions { search_bytes_max: u64::MAX, ignore_toc: true, ignore_checkpoints: true };
    let walked = FileReader::open_with(&reader, &options)?;

    let (mut ledger, is_of_run) = ledger_from(&walked, ledger_before);
    let mut toc = TocBuilder::new(&walked.encoded_header()?);
    let mut damaged = Vec::new();
    for (index, summary) in walked.frames().iter().enumerate() {
        let columns = walked.columns(index);
        toc.add_frame(*summary, columns.as_deref().unwrap_or_default());
        let (added, mut lost) = lost_in(&walked, index);
        ledger.add(&added);
        add_new(&mut lost, columns.err());
        damaged.extend(lost);
    }
    for source in &mut ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    let frames_missing = sequences_missing(walked.frames().iter().map(|frame| &frame.info));
    let damage = !damaged.is_empty()
        || frames_missing > 0
        || walked.skipped().iter().any(|skipped| skipped.reason.is_damage());
    let of_total = TocFlags::of_total(&ledger);
    // A table of contents that is damaged in another part still tells how the file was closed.
    let before = file.flags().unwrap_or_default();
    let has_all = frames_missing == 0 && walked.frames().len() >= file.frames().len();
    let flags = TocFlags {
        run_ended: before.run_ended && has_all,
        data_lost: damage || of_total.data_lost || before.data_lost,
        repaired: true,
        ledger_of_file: walked.header().file_index > 0 && !is_of_run,
        ..of_total
    };
    let last = walked.frames().last();
    let offset = last.map_or(walked.first_frame_offset(), |last| last.offset + last.frame_bytes);
    let bytes = toc.finish(offset, &ledger, flags);
    let (frames, skipped) = walked.into_frames_and_skipped();
    let closing = Some(Closing { offset, bytes });
    Ok(RepairPlan { frames, skipped, damaged, frames_missing, ledger, flags, file_header, closing })
}

/// TOC and trailer for a file of which only the first `frames` frames are kept: those behind them
/// are overwritten and cut. `ledger` and `positions` are the run's up to the last one kept,
/// `of_frames` is the sum of what those kept count.
///
/// # Errors
/// If the file header, or that of a frame that is kept, cannot be read.
pub fn close_behind<R: ReadAt>(
    file: &FileReader<R>,
    frames: usize,
    (ledger, of_frames): (&Ledger, &Ledger),
    positions: &Positions,
) -> Result<Closing, FrameError> {
    let mut toc = TocBuilder::new(&file.encoded_header()?);
    let mut offset = file.first_frame_offset();
    for (index, summary) in file.frames().iter().enumerate().take(frames) {
        toc.add_frame(*summary, &file.columns(index)?);
        offset = summary.offset + summary.frame_bytes;
    }
    if file.header().schema.has_positions() {
        toc.set_positions(positions);
    }
    toc.set_frames_ledger(of_frames);
    let flags = TocFlags { repaired: true, ..TocFlags::of_total(ledger) };
    Ok(Closing { offset, bytes: toc.finish(offset, ledger, flags) })
}

/// The plan for a file that lost only its trailer, or has more bytes after it: its own TOC has more
/// than a new one could. None if that TOC is damaged, or if there are frames that it does not list.
fn close_again<R: ReadAt>(
    reader: &R,
    found: &FileReader<&R>,
    ledger_before: Option<&Ledger>,
) -> Result<Option<RepairPlan>, FrameError> {
    let Some((offset, bytes)) = found.trailer_of_toc() else { return Ok(None) };
    let closing = Closing { offset, bytes };
    let (patch, file_bytes) = (&*closing.bytes, closing.file_bytes());
    let closed = FileReader::open(Patched { reader, offset, patch, file_bytes })?;
    let listed = |frame: &FrameSummary| {
        let number = |listed: &FrameSummary| listed.info.sequence;
        closed.frames().binary_search_by_key(&frame.info.sequence, number).is_ok()
    };
    if !closed.closed() || !closed.verify_index().is_empty() || !found.frames().iter().all(listed) {
        return Ok(None);
    }
    let plan = untouched(&closed, None, ledger_before)?;
    Ok(Some(RepairPlan { closing: Some(closing), ..plan }))
}

/// A frame's contribution to the ledger, and its damage. A bad table of checksums by block is not
/// included: it loses no data.
fn lost_in<R: ReadAt>(file: &FileReader<R>, frame: usize) -> (Ledger, Vec<FrameError>) {
    let (ledger, mut problems) = check_frame(file, frame);
    problems.retain(|problem| !problem.is_bad_table());
    (ledger, problems)
}

fn untouched<R: ReadAt>(
    file: &FileReader<R>,
    file_header: Option<Vec<u8>>,
    ledger_before: Option<&Ledger>,
) -> Result<RepairPlan, FrameError> {
    let (mut ledger, _) = ledger_from(file, ledger_before);
    let mut damaged = Vec::new();
    for index in 0..file.frames().len() {
        let (added, lost) = lost_in(file, index);
        ledger.add(&added);
        damaged.extend(lost);
    }
    Ok(RepairPlan {
        frames: file.frames().to_vec(),
        skipped: Vec::new(),
        damaged,
        frames_missing: sequences_missing(file.frames().iter().map(|frame| &frame.info)),
        ledger,
        flags: file.flags().unwrap_or_default(),
        file_header,
        closing: None,
    })
}

/// The starting point of a file's ledger: the previous one, if it has the same number of sources;
/// and whether it does.
fn ledger_from<R: ReadAt>(file: &FileReader<R>, before: Option<&Ledger>) -> (Ledger, bool) {
    let sources = file.header().schema.sources.len();
    match before.filter(|before| before.sources.len() == sources) {
        Some(before) => (before.clone(), true),
        None => (Ledger::new(sources), false),
    }
}

/// Numbers missing between frames: per stream, since every stream has its own sequence, and in any
/// order, since the frames of one stream may be in several files. A skipped frame can represent
/// several numbers.
pub fn sequences_missing<'a>(frames: impl Iterator<Item = &'a FrameInfo>) -> u64 {
    let mut numbers: Vec<_> = frames.map(|info| (info.origin.stream, info.numbers())).collect();
    numbers.sort_unstable();
    let (mut missing, mut before) = (0u64, None);
    for (stream, (first, last)) in numbers {
        let end = before.filter(|(of, _)| *of == stream).map(|(_, end): (u32, u64)| end);
        let gap = end.map_or(0, |end| first.saturating_sub(end).saturating_sub(1));
        missing = missing.saturating_add(gap);
        before = Some((stream, end.map_or(last, |end| end.max(last))));
    }
    missing
}
