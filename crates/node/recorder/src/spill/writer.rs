//! The file that gets spilled frames, or to which they are forwarded: a frame file, whose frames
//! are durable when they are synced.
//!
//! Calls take as long as the disk does, on the target's thread.

use std::io;
use std::path::{Path, PathBuf};

use catchment_agent::{CompletionKind, FileEnd};
use catchment_disk::PageCache;
use catchment_frame::{EntryNames, FileHeader, TocFlags, decode_ledger};
use catchment_model::Ledger;
use catchment_model::limits::DISK_ALIGN_BYTES;
use catchment_writer::{
    FileParts, FrameFile, FrameFiles, HeaderOrder, StoreFile, WrittenFrame, header_bytes_max,
};

use crate::store_feed::Outgoing;

const BUFFER_BYTES: usize = 256 << 10;

/// Writes one file at a time.
pub(crate) struct SpillWriter {
    files: FrameFiles<PageCache, ()>,
    /// What the frames of the present file count.
    frames: Ledger,
}

impl SpillWriter {
    /// For files with that header.
    pub(crate) fn new(header: &FileHeader) -> Self {
        let header_bytes = header_bytes_max(header.schema.columns.len());
        let buffer_bytes = BUFFER_BYTES.max(header_bytes).next_multiple_of(DISK_ALIGN_BYTES);
        let store = PageCache::new(buffer_bytes, None);
        let frames = Ledger::new(header.schema.sources.len());
        Self { files: FrameFiles::new([store], buffer_bytes, HeaderOrder::Last), frames }
    }

    /// Bytes of the present file; none if there is no such file.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        self.files.current.as_ref().map(|file| file.end)
    }

    /// What the frames of the present file, or of the last one, count.
    pub(crate) fn frames(&self) -> &Ledger {
        &self.frames
    }

    /// Begins a file.
    ///
    /// # Errors
    /// It exists, or the system refuses.
    pub(crate) fn begin(&mut self, path: PathBuf, header: &FileHeader) -> io::Result<()> {
        let id = self.files.store(0).create(&path).map_err(io::Error::other)?;
        let id = StoreFile { store: 0, id };
        let parts = FileParts { id, path, is_listed: true, attached: () };
        let (file, header_bytes) = FrameFile::begin(parts, header, header.created_ns);
        self.frames = Ledger::new(header.schema.sources.len());
        self.files.begin_file(file, header_bytes);
        self.stream_pages()
    }

    /// Writes a frame that has all its columns.
    ///
    /// # Errors
    /// The system refuses: the file must be abandoned.
    pub(crate) fn write(&mut self, frame: &Outgoing) -> io::Result<()> {
        self.files.begin(frame.info, frame.columns.len());
        let mut unlimited = usize::MAX;
        for one in &frame.columns {
            while !one.column.with_stored(|stored| self.files.append(stored, &mut unlimited)) {
                self.poll()?;
            }
        }
        let summary = loop {
            match self.files.finish(()) {
                Ok(summary) => break summary,
                Err(()) => self.poll()?,
            }
        };
        self.poll()?;
        let entries = self.files.entries().to_vec();
        if let Some(file) = &mut self.files.current {
            file.recorded(&WrittenFrame { summary, entries });
        }
        let records = frame.ledger.as_deref().unwrap_or_default();
        let ledger = decode_ledger(records, &EntryNames::default(), self.frames.sources.len());
        self.frames.add(&ledger.map_err(io::Error::other)?);
        Ok(())
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The system refuses: the file must be abandoned.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if let Some(id) = self.files.current.as_ref().map(|file| file.id) {
            self.files.sync(id);
        }
        self.poll()
    }

    /// Closes the file with its table of contents. Returns its bytes.
    ///
    /// # Errors
    /// The system refuses: what was synced stays readable.
    pub(crate) fn close(&mut self) -> io::Result<u64> {
        let total = self.frames.clone();
        self.close_with(&total, false)
    }

    /// As [`SpillWriter::close`], where the run's frames so far have these counts; whether no other
    /// follows.
    ///
    /// # Errors
    /// As [`SpillWriter::close`].
    pub(crate) fn close_with(&mut self, total: &Ledger, run_ended: bool) -> io::Result<u64> {
        let Some(file) = &mut self.files.current else { return Ok(0) };
        file.set_frames_ledger(&self.frames);
        let id = file.id;
        self.files.leave();
        let flags = TocFlags { run_ended, ..TocFlags::of_total(total) };
        let bytes = self.files.begin_toc(id, total, flags);
        let closed = self.stream_pages().and_then(|()| {
            self.files.finish_file(id, FileEnd::Cut(bytes));
            self.poll()
        });
        self.forget(id);
        closed.map(|()| bytes)
    }

    /// Leaves the file as it is.
    pub(crate) fn abandon(&mut self) {
        self.files.abandon_frame();
        // The error is known.
        let _known = self.poll();
        if let Some(id) = self.files.current.as_ref().map(|file| file.id) {
            self.files.leave();
            self.forget(id);
        }
    }

    /// Leaves the file, which is removed.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.abandon();
        std::fs::remove_file(path)
    }

    fn forget(&mut self, id: StoreFile) {
        self.files.closing.retain(|file| file.id != id);
        self.files.store(0).close(id.id);
    }

    fn stream_pages(&mut self) -> io::Result<()> {
        while self.files.has_pages() {
            let mut unlimited = usize::MAX;
            if !self.files.stream_page(&mut unlimited) {
                self.poll()?;
            }
        }
        self.poll()
    }

    /// Handles what has completed, which is everything.
    fn poll(&mut self) -> io::Result<()> {
        self.files.poll();
        let mut failed = None;
        while let Some(ended) = self.files.next_ended() {
            failed = failed.or(ended.error);
        }
        for (_, completion) in self.files.take_others() {
            if let (CompletionKind::Sync | CompletionKind::Finished, Err(error)) =
                (completion.kind, completion.result)
            {
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
