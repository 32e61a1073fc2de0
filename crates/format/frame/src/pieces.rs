//! Parts of columns, for readers that plan their reads themselves: several columns at once, or some
//! rows of one.
//!
//! [`FileReader::check_column`] comes first: it holds an entry against its frame and the schema, so
//! that nothing is allocated or read by what cannot be.

use std::ops::Range;

use catchment_codec::{Codec, Progress, check_sizes, decode_ahead, decode_part, decode_rest};

use crate::checksum::{Crc32c, crc32c};
use crate::error::{ColumnProblem, FrameError, FrameRef, Part};
use crate::frame::ColumnEntry;
use crate::read_at::{ReadAt, read_exact};
use crate::reader::FileReader;
use crate::stored::check_entry;

impl<R: ReadAt> FileReader<R> {
    /// Checks what an entry says against its frame, the schema and its codec's limits, without
    /// reading anything.
    ///
    /// # Errors
    /// With frame and column, what cannot be.
    pub fn check_column(&self, frame: usize, entry: &ColumnEntry) -> Result<(), FrameError> {
        let summary = self.summary(frame)?;
        let checked = check_entry(summary, entry)
            .and_then(|()| {
                check_sizes(entry.codec, entry.stored_bytes, entry.raw_bytes).map_err(Into::into)
            })
            .and_then(|()| self.check_rows(entry));
        checked.map_err(|problem| FrameError::column(FrameRef::Index(frame), entry.id, problem))
    }

    /// Fills `out` with bytes of the file from `offset` on; errors name that column.
    ///
    /// # Errors
    /// A system that refuses, or a file that ends before.
    pub fn read_bytes(
        &self,
        frame: usize,
        column: u32,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), FrameError> {
        let part = Part::Column(FrameRef::Index(frame), column);
        read_exact(self.reader(), part, offset, out)
    }

    /// Checks the checksum of a column's stored bytes.
    ///
    /// # Errors
    /// Bytes that are not those that were written.
    pub fn check_stored(
        &self,
        frame: usize,
        entry: &ColumnEntry,
        stored: &[u8],
    ) -> Result<(), FrameError> {
        let (expected, got) = (entry.crc32c, crc32c(stored));
        if got == expected && stored.len() as u64 == entry.stored_bytes {
            return Ok(());
        }
        let problem = ColumnProblem::Checksum { expected, got };
        Err(FrameError::column(FrameRef::Index(frame), entry.id, problem))
    }

    /// Reads an encoded column into `stored`, checks it and decodes it into `out`: a piece is
    /// decoded before the next one is read, so that it is still in the CPU's caches. `before` is
    /// told which of the stored bytes are read before they are.
    ///
    /// # Errors
    /// As [`FileReader::read_bytes`] and [`FileReader::decode_stored`].
    ///
    /// # Panics
    /// If `stored` and `out` are not as long as the entry says.
    pub fn read_decoded(
        &self,
        frame: usize,
        entry: &ColumnEntry,
        (stored, out): (&mut [u8], &mut [u8]),
        before: impl Fn(Range<u64>),
    ) -> Result<(), FrameError> {
        assert_eq!((stored.len() as u64, out.len() as u64), (entry.stored_bytes, entry.raw_bytes));
        let fail = |problem| FrameError::column(FrameRef::Index(frame), entry.id, problem);
        let offset = self.summary(frame)?.offset + entry.offset;
        let (mut crc, mut progress) = (Crc32c::new(), Progress::default());
        let mut there = 0;
        while there < stored.len() {
            let end = stored.len().min(there + PIECE_BYTES);
            before(there as u64..end as u64);
            let piece = &mut stored[there..end];
            self.read_bytes(frame, entry.id, offset + there as u64, piece)?;
            crc.update(piece);
            there = end;
            decode_ahead(entry.codec, stored, there, out, &mut progress);
        }
        let (expected, got) = (entry.crc32c, crc.finish());
        if got != expected {
            return Err(fail(ColumnProblem::Checksum { expected, got }));
        }
        decode_rest(entry.codec, stored, out, progress).map_err(|error| fail(error.into()))
    }

    /// Checks a column's stored bytes and decodes those that are wanted to their places in `out`,
    /// which has exactly its raw bytes. What else it holds afterwards is of no meaning.
    ///
    /// # Errors
    /// Bytes that are not those that were written, or do not decode.
    pub fn decode_stored(
        &self,
        frame: usize,
        entry: &ColumnEntry,
        (stored, wanted): (&[u8], Range<usize>),
        out: &mut [u8],
    ) -> Result<(), FrameError> {
        self.check_stored(frame, entry, stored)?;
        let fail = |problem| FrameError::column(FrameRef::Index(frame), entry.id, problem);
        if entry.codec == Codec::None {
            if out.len() != stored.len() {
                let (field, expected) = ("raw_bytes", "stored_bytes");
                let got = out.len() as u64;
                return Err(fail(ColumnProblem::Field { field, expected, got }));
            }
            out.copy_from_slice(stored);
            return Ok(());
        }
        decode_part(entry.codec, stored, wanted, out).map_err(|error| fail(error.into()))
    }
}

/// Read at once: little enough to stay in the cache that each CPU has for itself.
const PIECE_BYTES: usize = 256 << 10;
