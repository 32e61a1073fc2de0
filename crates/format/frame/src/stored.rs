//! A column's stored bytes: checked before they are read, and after.

use std::borrow::Cow;

use catchment_codec::{Codec, check_sizes, decode_into};

use crate::checksum::{Crc32c, crc32c};
use crate::column_info::{ColumnInfo, elements};
use crate::error::{ColumnProblem, FrameError, FrameRef, Part};
use crate::frame::{ColumnEntry, FIXED_BYTES, FrameSummary, Head, column_bytes_max};
use crate::kinds::{ColumnKind, Dtype};
use crate::read_at::{ReadAt, read_exact, set_len};
use crate::{BLOCK_BYTES, COLUMN_ALIGN_BYTES};

/// Reads and checks the header of the frame at `offset`.
pub(crate) fn read_frame_header<R: ReadAt + ?Sized>(
    reader: &R,
    offset: u64,
    file_bytes: u64,
) -> Result<(Head, Vec<u8>), FrameError> {
    let part = Part::FrameHeader(offset);
    let available = file_bytes.saturating_sub(offset);
    let mut header = vec![0; available.min(BLOCK_BYTES) as usize];
    read_exact(reader, part, offset, &mut header)?;
    let head = Head::decode(offset, &header)?;
    let header_bytes = u64::from(head.summary.header_bytes);
    if head.summary.frame_bytes > available {
        let (expected, got) = (head.summary.frame_bytes, available);
        return Err(FrameError::Truncated { part, offset, expected, got });
    }
    let first = header.len().min(header_bytes as usize);
    header.resize(header_bytes as usize, 0);
    read_exact(reader, part, offset + first as u64, &mut header[first..])?;
    head.check(&header)?;
    Ok((head, header))
}

/// Checks an entry against its frame, before anything is allocated or read by it.
pub(crate) fn check_entry(
    summary: &FrameSummary,
    entry: &ColumnEntry,
) -> Result<(), ColumnProblem> {
    let bytes_max = column_bytes_max(summary.info.kind);
    // A TOC may say less of a header than there must be.
    let header_bytes = u64::from(summary.header_bytes).max(FIXED_BYTES as u64);
    let end = entry.offset.checked_add(entry.stored_bytes);
    let checks = [
        (
            "offset",
            entry.offset,
            "a multiple of 64",
            entry.offset.is_multiple_of(COLUMN_ALIGN_BYTES),
        ),
        ("offset", entry.offset, "behind the header", entry.offset >= header_bytes),
        ("offset", entry.offset, "within the frame", entry.offset <= summary.frame_bytes),
        (
            "stored_bytes",
            entry.stored_bytes,
            "within the frame",
            end.is_some_and(|end| end <= summary.frame_bytes),
        ),
        ("stored_bytes", entry.stored_bytes, "at most 1 GiB", entry.stored_bytes <= bytes_max),
        ("raw_bytes", entry.raw_bytes, "at most 1 GiB", entry.raw_bytes <= bytes_max),
    ];
    match checks.into_iter().find(|(_, _, _, fits)| !fits) {
        Some((field, got, expected, _)) => Err(ColumnProblem::Field { field, expected, got }),
        None => Ok(()),
    }
}

/// What the schema says of a column's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowShape {
    /// So many elements of that type each.
    Elements { dtype: Dtype, elements: u64 },
    /// A source's fragments, which need not be whole arrays: rows are as many elements or records
    /// of that many bytes as there are.
    Payload { dtype: Dtype, bytes: u64 },
}

impl RowShape {
    /// Of a column of a schema that was checked.
    pub(crate) fn of(info: &ColumnInfo) -> Self {
        let dtype = info.dtype;
        match (&info.kind, info.row_bytes()) {
            (ColumnKind::FragmentPayload, Some(bytes)) => Self::Payload { dtype, bytes },
            _ => Self::Elements { dtype, elements: elements(&info.shape).unwrap_or(u64::MAX) },
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::Elements { dtype, .. } | Self::Payload { dtype, .. } => dtype,
        }
    }
}

/// Checks that the type is the schema's, and that `raw_bytes` is what rows, type and shape give.
/// For columns that the schema does not have, any whole number of elements per row will do.
pub(crate) fn check_rows(
    entry: &ColumnEntry,
    shape: Option<RowShape>,
) -> Result<(), ColumnProblem> {
    let field = |field, expected, got| Err(ColumnProblem::Field { field, expected, got });
    if entry.dtype.is_unknown() {
        return Ok(());
    }
    let known = shape.map(RowShape::dtype).filter(|dtype| !dtype.is_unknown());
    if known.is_some_and(|dtype| dtype != entry.dtype) {
        return field("dtype", "the schema's", u64::from(entry.dtype.number()));
    }
    let fits = match (entry.dtype.bits(), shape) {
        (_, Some(RowShape::Payload { bytes, .. })) => entry.rows == entry.raw_bytes / bytes,
        (None, _) => true,
        (Some(_), Some(RowShape::Elements { elements, .. })) => {
            let count = entry.rows.checked_mul(elements);
            count.and_then(|count| entry.dtype.bytes_of(count)) == Some(entry.raw_bytes)
        }
        (Some(_), None) if entry.dtype == Dtype::Bits => true,
        (Some(_), None) => match entry.dtype.bytes_of(entry.rows) {
            Some(0) => entry.raw_bytes == 0,
            Some(bytes) => entry.raw_bytes.is_multiple_of(bytes),
            None => false,
        },
    };
    if fits {
        return Ok(());
    }
    field("raw_bytes", "what rows, dtype and shape give", entry.raw_bytes)
}

/// Reads, checks and decodes the column that an entry describes.
pub(crate) fn read_stored_column<R: ReadAt + ?Sized>(
    reader: &R,
    frame: FrameRef,
    summary: &FrameSummary,
    entry: &ColumnEntry,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let fail = |problem| FrameError::column(frame, entry.id, problem);
    check_entry(summary, entry).map_err(fail)?;
    check_sizes(entry.codec, entry.stored_bytes, entry.raw_bytes)
        .map_err(|error| fail(error.into()))?;
    let raw_bytes = entry.raw_bytes as usize;
    // Encoded bytes are read behind the place where the decoded ones go: one buffer, kept by the
    // caller.
    let read_at = if entry.codec == Codec::None { 0 } else { raw_bytes };
    set_len(out, read_at + entry.stored_bytes as usize);
    let result = fill_column(reader, frame, summary, entry, &mut out[..]);
    // Nothing of a column that is wrong is handed out.
    out.truncate(if result.is_ok() { raw_bytes } else { 0 });
    result
}

/// What made a column's stored bytes, which only their head is read for.
pub(crate) fn made_by<R: ReadAt + ?Sized>(
    reader: &R,
    frame: FrameRef,
    summary: &FrameSummary,
    entry: &ColumnEntry,
) -> Result<Cow<'static, str>, FrameError> {
    check_entry(summary, entry).map_err(|problem| FrameError::column(frame, entry.id, problem))?;
    let mut head = [0; 4];
    let head = &mut head[..entry.stored_bytes.min(4) as usize];
    read_exact(reader, Part::Column(frame, entry.id), summary.offset + entry.offset, head)?;
    Ok(entry.codec.made_by(head))
}

/// Reads the stored bytes to the end of `buffer`, checks them, and decodes them to its beginning.
fn fill_column<R: ReadAt + ?Sized>(
    reader: &R,
    frame: FrameRef,
    summary: &FrameSummary,
    entry: &ColumnEntry,
    buffer: &mut [u8],
) -> Result<(), FrameError> {
    let fail = |problem| FrameError::column(frame, entry.id, problem);
    let stored_at = buffer.len() - entry.stored_bytes as usize;
    let (raw, stored) = buffer.split_at_mut(stored_at);
    let offset = summary.offset + entry.offset;
    read_exact(reader, Part::Column(frame, entry.id), offset, stored)?;
    check_crc(entry, stored).map_err(fail)?;
    if entry.codec == Codec::None {
        return Ok(());
    }
    decode_into(entry.codec, stored, raw).map_err(|problem| fail(problem.into()))
}

fn check_crc(entry: &ColumnEntry, stored: &[u8]) -> Result<(), ColumnProblem> {
    let (expected, got) = (entry.crc32c, crc32c(stored));
    if got == expected { Ok(()) } else { Err(ColumnProblem::Checksum { expected, got }) }
}

/// Checks the checksum of a column's stored bytes, a piece at a time.
pub(crate) fn check_stored<R: ReadAt + ?Sized>(
    reader: &R,
    frame: FrameRef,
    summary: &FrameSummary,
    entry: &ColumnEntry,
) -> Result<(), FrameError> {
    let fail = |problem| FrameError::column(frame, entry.id, problem);
    check_entry(summary, entry).map_err(fail)?;
    let mut piece = vec![0; entry.stored_bytes.min(PIECE_BYTES) as usize];
    let mut crc = Crc32c::new();
    let mut done = 0;
    while done < entry.stored_bytes {
        let bytes = (entry.stored_bytes - done).min(PIECE_BYTES) as usize;
        let offset = summary.offset + entry.offset + done;
        read_exact(reader, Part::Column(frame, entry.id), offset, &mut piece[..bytes])?;
        crc.update(&piece[..bytes]);
        done += bytes as u64;
    }
    let (expected, got) = (entry.crc32c, crc.finish());
    if got == expected { Ok(()) } else { Err(fail(ColumnProblem::Checksum { expected, got })) }
}

const PIECE_BYTES: u64 = 1024 * 1024;
