//! One frame on its way into a file.
//!
//! Where it is sure that the frame fits into the file, whatever its columns compress to, each
//! column is written as soon as its turn comes, behind the space that is held for the header. Where
//! it is not, near a file's end, all columns are encoded first, and the frame goes where it
//! belongs.

use catchment_frame::{ColumnCoding, FrameInfo, FrameSummary, TocFlags};
use catchment_model::limits::{COLUMN_BYTES_MAX, FRAME_BYTES_MAX};

use super::encode::{Encoded, Job};
use super::{Column, ColumnData, RunWriter, unwritable};
use crate::error::StorageError;

impl RunWriter {
    /// Encodes and writes a frame; file id and number are set here.
    pub(super) fn write_frame(
        &mut self,
        info: FrameInfo,
        columns: Vec<Column<'_>>,
    ) -> Result<(), StorageError> {
        self.check_whole()?;
        for column in &columns {
            if column.data.raw_bytes() as u64 > COLUMN_BYTES_MAX {
                return Err(unwritable(&format!("column {}", column.id), "it passes 1 GiB"));
            }
        }
        if self.output.growing().is_some() {
            return self.grow(info, &columns);
        }
        self.begin_layout(&info, columns.len());
        let most = columns.iter().map(|column| match &column.data {
            ColumnData::Stored(stored) => stored.bytes.len() as u64,
            // A column that does not get smaller is stored as it is.
            data => data.raw_bytes() as u64,
        });
        let most = most.map(|bytes| bytes.next_multiple_of(64)).sum::<u64>();
        let most = self.layout.frame_bytes() + most;
        let fits = most <= FRAME_BYTES_MAX
            && !self.is_full(&info, most, columns.len())
            && self.output.can_hold(self.layout.header_space());
        if fits {
            self.write_through(&columns)?
        } else {
            self.write_at_once(info, &columns)?
        }
        Ok(())
    }

    /// Refuses to go on behind a frame that could not be ended.
    pub(super) fn check_whole(&self) -> Result<(), StorageError> {
        match self.broken {
            true => Err(unwritable("run", "a frame before could not be written to its end")),
            false => Ok(()),
        }
    }

    /// Writes every column when it is encoded, and the header at last.
    fn write_through(&mut self, columns: &[Column<'_>]) -> Result<(), StorageError> {
        self.broken = true;
        let start = self.output.position();
        self.output.hold(self.layout.header_space())?;
        self.put_columns(start, columns)?;
        let mut header = vec![0; self.layout.header_space()];
        let summary = self.layout.finish(start, &mut header);
        self.output.fill_held(&header);
        self.output.pad_to(summary.offset + summary.frame_bytes)?;
        self.count_frame(summary, true);
        self.broken = false;
        Ok(())
    }

    /// Encodes columns of the frame that begins at `start`, and appends each in its turn.
    pub(super) fn put_columns(
        &mut self,
        start: u64,
        columns: &[Column<'_>],
    ) -> Result<(), StorageError> {
        let jobs = self.jobs(columns);
        let (layout, output) = (&mut self.layout, &mut self.output);
        self.encoders.encode(jobs, &self.hooks, |place, encoded| {
            let column = &columns[place];
            let offset = layout.push(column.entry(&encoded));
            output.pad_to(start + offset)?;
            output.append(encoded.stored(&column.data))?;
            Ok(Some(encoded))
        })
    }

    /// Encodes all columns, finds the file that the frame goes to, and writes it.
    fn write_at_once(
        &mut self,
        info: FrameInfo,
        columns: &[Column<'_>],
    ) -> Result<(), StorageError> {
        let mut all = Vec::with_capacity(columns.len());
        let jobs = self.jobs(columns);
        self.encoders.encode(jobs, &self.hooks, |_, encoded| {
            all.push(encoded);
            Ok(None)
        })?;
        self.lay_out(&info, columns, &all)?;
        if self.is_full(&info, self.layout.frame_bytes(), columns.len()) {
            let ledger = self.ledger.clone();
            self.close_file(&ledger, TocFlags::default())?;
            self.begin_file()?;
            self.lay_out(&info, columns, &all)?;
        }
        self.broken = true;
        let start = self.output.position();
        let mut header = vec![0; self.layout.header_space()];
        let summary = self.layout.finish(start, &mut header);
        self.output.append(&header)?;
        for ((column, encoded), entry) in columns.iter().zip(&all).zip(self.layout.entries()) {
            self.output.pad_to(start + entry.offset)?;
            self.output.append(encoded.stored(&column.data))?;
        }
        self.encoders.recycle(all);
        self.output.pad_to(summary.offset + summary.frame_bytes)?;
        self.count_frame(summary, true);
        self.broken = false;
        Ok(())
    }

    fn jobs<'a>(&self, columns: &'a [Column<'a>]) -> Vec<Job<'a>> {
        let job = |column: &'a Column<'a>| Job {
            id: column.id,
            coding: self.coding_of(column.id),
            element: column.element,
            data: &column.data,
            samples: column.start.map(|start| (start.sample, start.spans)),
        };
        columns.iter().map(job).collect()
    }

    /// How a column is to be encoded.
    fn coding_of(&self, id: u32) -> ColumnCoding {
        self.codings.get(&id).copied().unwrap_or(ColumnCoding::NONE)
    }

    /// Sets the layout to a frame that has no columns yet.
    pub(super) fn begin_layout(&mut self, info: &FrameInfo, columns: usize) {
        let file_id = self.file.as_ref().map_or(0, |file| file.file_id);
        let info = FrameInfo { file_id, sequence: self.sequence, ..*info };
        self.layout.restart(info, columns);
    }

    /// Sets the layout to the frame's.
    fn lay_out(
        &mut self,
        info: &FrameInfo,
        columns: &[Column<'_>],
        encoded: &[Encoded],
    ) -> Result<(), StorageError> {
        let stored: u64 = encoded.iter().map(|one| one.stored_bytes.next_multiple_of(64)).sum();
        if stored + 64 * columns.len() as u64 + 8_192 > FRAME_BYTES_MAX {
            return Err(unwritable("frame", "it passes 4 GiB"));
        }
        self.begin_layout(info, columns.len());
        for (column, encoded) in columns.iter().zip(encoded) {
            self.layout.push(column.entry(encoded));
        }
        Ok(())
    }

    /// Whether a frame of so many bytes belongs into another file.
    pub(super) fn is_full(&self, info: &FrameInfo, frame_bytes: u64, columns: usize) -> bool {
        let Some(file) = &self.file else { return false };
        let at = self.output.position();
        let toc_bytes = file.toc_bytes + TOC_ENTRY_BYTES * (1 + columns as u64);
        let bytes = at + frame_bytes + toc_bytes;
        let begin = file.first_time_ns.unwrap_or(info.time_first_ns);
        let time_ns = info.time_first_ns.saturating_sub(begin);
        let old = self.options.file_time_ns.is_some_and(|most| time_ns >= most);
        at > file.header_bytes
            && (bytes > self.options.file_bytes || old || toc_bytes > self.options.toc_bytes)
    }

    /// Books a frame that was written; `listed`: in the table of contents too.
    pub(super) fn count_frame(&mut self, summary: FrameSummary, listed: bool) {
        let entries = self.layout.entries();
        if let Some(file) = &mut self.file {
            if listed {
                file.toc.add_frame(summary, entries);
                file.toc_bytes += TOC_ENTRY_BYTES * (1 + entries.len() as u64);
            }
            if summary.info.rows > 0 {
                file.first_time_ns.get_or_insert(summary.info.time_first_ns);
            }
        }
        self.report.raw_bytes += entries.iter().map(|entry| entry.raw_bytes).sum::<u64>();
        self.report.stored_bytes += entries.iter().map(|entry| entry.stored_bytes).sum::<u64>();
        self.report.frames += 1;
        self.sequence += 1;
    }
}

/// What a frame, or a column of it, takes in the TOC.
pub(super) const TOC_ENTRY_BYTES: u64 = 80;
