//! Forwarding what an earlier program has left in the spill of a folder: into further files of the
//! run there.
//!
//! The run's files are ended first, as those of any recorder that was killed: cut behind their last
//! whole frame, closed, and synced. That frame says where to go on, so that nothing is written
//! twice, also if this program is killed, too. Files of the spill are removed once what they have
//! is synced in the folder: if that fails, what was not synced is cut off, and forwarded again.
//! What the folder shows although it failed to make it durable, as the spill says, is written
//! again, and counts once. A folder that has less than what was there when the frames were spilled
//! gets nothing: the hole would stay. One of which not even the first file's header was written
//! gets all from the spill, which has the header, too. Nothing is forwarded where the file system
//! has no locks, of a run that ended while the folder hung: its disk may write there still.
//!
//! Of a run that was interrupted, files say that they were written when its recorder wrote last,
//! since the run may go on by that (`run.resume`).
//!
//! Calls take as long as the disk does, on the thread of this spill.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use catchment_agent::Entropy as _;
use catchment_disk::{append_lines, last_written, list_files, open_regular};
use catchment_frame::{FILE_LIST_NAME, FileHeader, FileListLine};
use catchment_model::{Entry, Ledger};
use catchment_runner::SystemEntropy;
use catchment_storage::{
    EXTENSION, FileRepair, Interrupted, Outcome, Resumable, ResumedPlace, RunPlace, StorageError,
};

use super::backlog::AllRead;
use super::writer::SpillWriter;
use super::{Backlog, Identity, Spill};
use crate::store_feed::Outgoing;

/// Bytes that are written before they are synced.
const SYNC_BYTES: u64 = 16 << 20;

/// How long a file that another has open is waited for, and how often it is looked at.
const LOCKED_NS: u64 = 30_000_000_000;
const LOCKED_POLL_NS: u64 = 200_000_000;

type Step = (usize, Option<Result<(), String>>);

/// A stream that is forwarded to a folder.
pub(super) struct ToFolder {
    backlog: Backlog,
    /// The run's folder.
    folder: PathBuf,
    file_bytes: u64,
    files: Option<Files>,
    /// When the recorder of a run that was interrupted wrote last, if that is known.
    written: Option<SystemTime>,
    /// Since when a file is open that is written, and when that is looked at again.
    locked_ns: Option<u64>,
    open_at_ns: u64,
    /// All frames below that number are durable in the folder, as far as it is known.
    durable: u64,
}

/// The run's files in the folder.
struct Files {
    header: FileHeader,
    writer: SpillWriter,
    next_index: u32,
    /// What the frames of the files count that are closed.
    before: Ledger,
    /// Frames below that number were there before, and what those count that are written again to
    /// the present file.
    shown: u64,
    again: Ledger,
    /// Bytes that are not synced.
    unsynced: u64,
    /// The present file, or one that could not be closed, and its bytes that are synced.
    synced: Option<Synced>,
    /// The present file, until it has a frame and is listed.
    blank: Option<Blank>,
    /// Whether the last file says that the run has ended.
    marks_end: bool,
    /// When its recorder had written the frames, if files say that.
    written: Option<SystemTime>,
}

struct Synced {
    path: PathBuf,
    bytes: u64,
}

/// A file without frames, which no list names.
struct Blank {
    path: PathBuf,
    index: u32,
    file_id: u64,
}

impl ToFolder {
    pub(super) fn new(spill: Spill, runs: &Path, file_bytes: u64) -> Self {
        let folder = runs.join(&spill.identity().name);
        let is_ended = spill.run_end().is_some();
        let in_folder = list_files(&folder, EXTENSION).unwrap_or_default();
        let in_spill = list_files(spill.folder(), EXTENSION).unwrap_or_default();
        let written = last_written(in_folder.iter().chain(&in_spill)).filter(|_| !is_ended);
        Self {
            backlog: Backlog::new(spill),
            folder,
            file_bytes,
            files: None,
            written,
            locked_ns: None,
            open_at_ns: 0,
            durable: 0,
        }
    }

    /// Forwards some frames. Returns how much was done, and the outcome at the end.
    pub(super) fn forward(&mut self, now_ns: u64, say: &mut dyn FnMut(String)) -> Step {
        let done = match self.files.take() {
            None if now_ns < self.open_at_ns => return (0, None),
            None => match self.check_locks().map(|()| self.open()) {
                Err(why) => Err(why),
                // By the target of a run that has ended, whose disk does not answer yet.
                Ok(Err(StorageError::BeingRecorded { .. })) if self.may_be_locked(now_ns) => {
                    self.open_at_ns = now_ns + LOCKED_POLL_NS;
                    return (0, None);
                }
                Ok(Err(StorageError::NoFiles { .. })) if self.clear_unbegun() => {
                    self.begin_first().map(|files| (files, false))
                }
                Ok(Err(error)) => Err(error.to_string()),
                Ok(Ok(left)) => self.begin_behind(left).map(|files| (files, false)),
            },
            Some(mut files) => {
                let written = self.write(&mut files, now_ns, say);
                if written.is_err() {
                    files.remove_blank();
                    self.cut_unsynced(&mut files);
                }
                written.map(|is_over| (files, is_over))
            }
        };
        match done {
            Ok((_, true)) => (1, Some(Ok(()))),
            Ok((files, false)) => {
                self.files = Some(files);
                (1, None)
            }
            Err(why) => (0, Some(Err(why))),
        }
    }

    pub(super) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// The run's folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is left of it, and the number below which all is durable in the folder.
    pub(super) fn into_spill(mut self) -> (Spill, u64) {
        if let Some(mut files) = self.files.take() {
            match files.close(&self.folder) {
                Ok(()) => self.durable = self.backlog.next(),
                Err(_) => self.cut_unsynced(&mut files),
            }
        }
        (self.backlog.spill, self.durable)
    }

    /// Whether a file that another has open is waited for.
    fn may_be_locked(&mut self, now_ns: u64) -> bool {
        now_ns.saturating_sub(*self.locked_ns.get_or_insert(now_ns)) < LOCKED_NS
    }

    /// Of a run that ended without its folder, whose disk may hang still: files that it writes are
    /// known by their locks only, so that the file system must have locks.
    fn check_locks(&self) -> Result<(), String> {
        if self.backlog.spill.run_end().is_none() {
            return Ok(());
        }
        let paths = list_files(&self.folder, EXTENSION).map_err(|error| error.to_string())?;
        let Some(path) = paths.last() else { return Ok(()) };
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let file = open_regular(path, OpenOptions::new().read(true)).map_err(failed)?;
        match file.try_lock_shared() {
            Err(TryLockError::Error(error)) => Err(format!(
                "{}: the file system has no locks, which show whether a disk that hung still \
                 writes there: mount it with flock ({error})",
                path.display()
            )),
            // The lock ends with the file.
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    /// Ends the run's files that are there.
    fn open(&self) -> Result<Resumable, StorageError> {
        let place = RunPlace {
            folders: vec![self.folder.clone()],
            is_required: true,
            trusts_lists: false,
            is_dealt: false,
        };
        let Identity { run, stream, variant, .. } = self.backlog.spill.identity();
        let found = Interrupted::find(&[place])?;
        let header = found.header();
        if (header.run, header.stream, header.variant) != (*run, *stream, *variant) {
            return Err(StorageError::no_files(self.folder.clone()));
        }
        found.take()
    }

    /// Whether the spill has the run from its first frame on, and the folder nothing: files that
    /// were made there, and never begun, are removed.
    fn clear_unbegun(&self) -> bool {
        let spill = &self.backlog.spill;
        if spill.begins_at().is_none_or(|first| first > spill.identity().begins) {
            return false;
        }
        let files = match catchment_storage::repair(&self.folder) {
            Ok(report) => report.files,
            Err(StorageError::NoFiles { .. }) => return true,
            Err(_) => return false,
        };
        // If it cannot be removed, the folder stays as it is.
        let is_removed = |file: &FileRepair| std::fs::remove_file(&file.path).is_ok();
        files.iter().all(|file| file.outcome == Outcome::Blank) && files.iter().all(is_removed)
    }

    /// Begins the run's first file.
    fn begin_first(&mut self) -> Result<Files, String> {
        let header = self.backlog.spill.stream_header().map_err(|error| error.to_string())?;
        let begins = self.backlog.spill.identity().begins;
        self.durable = begins;
        self.backlog.go_on_at(begins, None);
        let before = Ledger::new(header.schema.sources.len());
        Ok(Files { shown: begins, written: self.written, ..Files::behind(header, before) })
    }

    /// Goes on behind what the folder has.
    fn begin_behind(&mut self, mut left: Resumable) -> Result<Files, String> {
        let first = self.backlog.spill.begins_at().unwrap_or(0);
        if left.sequence < first {
            let (folder, got) = (self.folder.display(), left.sequence);
            return Err(format!(
                "{folder} has frames up to {got}, and had them up to {first}: some are missing"
            ));
        }
        let header = self.backlog.spill.stream_header().map_err(|error| error.to_string())?;
        let ResumedPlace { next_index, mut ledger, marks_end, .. } = left.places.swap_remove(0);
        if ledger.sources.is_empty() {
            ledger = Ledger::new(header.schema.sources.len());
        }
        let shown = left.sequence;
        self.durable = self.backlog.spill.doubted_from().map_or(shown, |from| from.min(shown));
        self.backlog.go_on_at(self.durable, None);
        let written = self.written;
        Ok(Files { next_index, shown, marks_end, written, ..Files::behind(header, ledger) })
    }

    /// Writes the next frame. Whether there is none, and all are durable.
    fn write(
        &mut self,
        files: &mut Files,
        now_ns: u64,
        say: &mut dyn FnMut(String),
    ) -> Result<bool, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.folder.display());
        match self.backlog.read(say) {
            Ok(Some(frame)) => {
                files.begin(&self.folder, now_ns).map_err(failed)?;
                files.write(&frame).map_err(failed)?;
                files.list_begun(&self.folder).map_err(failed)?;
                files.unsynced += frame.bytes();
                let is_full = files.writer.file_bytes() >= Some(self.file_bytes);
                if is_full {
                    files.close(&self.folder).map_err(failed)?;
                } else if files.unsynced >= SYNC_BYTES {
                    files.sync().map_err(failed)?;
                } else {
                    return Ok(false);
                }
                files.unsynced = 0;
                self.synced(now_ns, say);
                Ok(false)
            }
            Ok(None) => Err("a spilled frame cannot be read now".to_owned()),
            Err(AllRead) => {
                let closed = match self.backlog.spill.run_end() {
                    Some(_) => files.end(&self.folder, now_ns),
                    None => files.close(&self.folder),
                };
                closed.map_err(failed)?;
                self.synced(now_ns, say);
                Ok(true)
            }
        }
    }

    /// Cuts off what may not be durable of the present file, which is forwarded again: otherwise
    /// whoever goes on behind the last frame that can be read would believe in it.
    fn cut_unsynced(&mut self, files: &mut Files) {
        // If both fail, what can be read counts.
        if files.cut_unsynced().is_err() {
            let _written = self.backlog.spill.set_doubt(self.durable);
        }
    }

    /// All that was read is durable in the folder.
    fn synced(&mut self, now_ns: u64, say: &mut dyn FnMut(String)) {
        self.durable = self.backlog.next();
        self.backlog.spill.remove_below(self.durable, now_ns).into_iter().for_each(say);
    }
}

impl Files {
    /// Behind frames that have these counts.
    fn behind(header: FileHeader, before: Ledger) -> Self {
        Self {
            writer: SpillWriter::new(&header),
            next_index: 0,
            shown: 0,
            again: Ledger::new(before.sources.len()),
            header,
            before,
            unsynced: 0,
            synced: None,
            blank: None,
            marks_end: false,
            written: None,
        }
    }

    /// Begins a file, unless there is one.
    fn begin(&mut self, folder: &Path, now_ns: u64) -> io::Result<()> {
        if self.writer.file_bytes().is_some() {
            return Ok(());
        }
        let (index, created_ns) = (self.next_index, now_ns);
        let file_id = SystemEntropy.random_u64().map_err(io::Error::other)?;
        let header = FileHeader { file_index: index, file_id, created_ns, ..self.header.clone() };
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let path = folder.join(format!("{name}-{index:05}.catch"));
        let begun = self.writer.begin(path.clone(), &header);
        // One that could not be made may be another's.
        if self.writer.file_bytes().is_some() {
            self.blank = Some(Blank { path: path.clone(), index, file_id });
        }
        begun?;
        self.synced = self.writer.file_bytes().map(|bytes| Synced { path, bytes });
        (self.next_index, self.marks_end) = (index + 1, false);
        Ok(())
    }

    /// The present file stays: lists it, unless it is listed.
    fn list_begun(&mut self, folder: &Path) -> io::Result<()> {
        let Some(Blank { index, file_id, .. }) = self.blank.take() else { return Ok(()) };
        self.list(folder, &FileListLine::Begun { index, file_id })
    }

    /// Removes the present file if it has no frame: each further try makes one of its own.
    fn remove_blank(&mut self) {
        if let Some(blank) = self.blank.take() {
            self.synced = None;
            // If it cannot be removed, it is ended as those of a recorder that was killed.
            let _removed = self.writer.remove(&blank.path);
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.writer.sync()?;
        let bytes = self.writer.file_bytes();
        for (synced, bytes) in self.synced.iter_mut().zip(bytes) {
            synced.bytes = bytes;
        }
        self.keep_written();
        Ok(())
    }

    /// Has the present file say when its recorder had written what it has.
    fn keep_written(&self) {
        if let Some((Synced { path, .. }, written)) = self.synced.as_ref().zip(self.written) {
            // Without that the run is younger than it is.
            let _set = File::open(path).and_then(|file| file.set_modified(written));
        }
    }

    /// Cuts off what is not synced of the present file, or of one that could not be closed.
    fn cut_unsynced(&mut self) -> io::Result<()> {
        self.writer.abandon();
        let Some(Synced { path, bytes }) = &self.synced else { return Ok(()) };
        OpenOptions::new().write(true).open(path)?.set_len(*bytes)?;
        self.keep_written();
        self.synced = None;
        Ok(())
    }

    fn write(&mut self, frame: &Outgoing) -> io::Result<()> {
        let before = (frame.end() <= self.shown).then(|| self.writer.frames().clone());
        self.writer.write(frame)?;
        if let Some(before) = before {
            self.again.add(&self.writer.frames().since(&before));
        }
        Ok(())
    }

    /// Closes the present file, if there is one, behind which the run may go on.
    fn close(&mut self, folder: &Path) -> io::Result<()> {
        self.close_with(folder, false)
    }

    /// Closes the run's last file, which says that the run has ended: one without frames, if there
    /// is no other that can.
    fn end(&mut self, folder: &Path, now_ns: u64) -> io::Result<()> {
        if !self.marks_end {
            self.begin(folder, now_ns)?;
        }
        self.close_with(folder, true)?;
        self.list(folder, &FileListLine::Ended { files: self.next_index })
    }

    /// Closes the present file, if there is one.
    fn close_with(&mut self, folder: &Path, run_ended: bool) -> io::Result<()> {
        if self.writer.file_bytes().is_some() {
            let again = std::mem::replace(&mut self.again, Ledger::new(self.before.sources.len()));
            self.before.add(&self.writer.frames().since(&again));
            for source in &mut self.before.sources {
                source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
            }
            let bytes = self.writer.close_with(&self.before, run_ended)?;
            self.keep_written();
            self.synced = None;
            let index = self.next_index - 1;
            self.marks_end = run_ended;
            self.list_begun(folder)?;
            self.list(folder, &FileListLine::Closed { index, bytes })?;
        }
        Ok(())
    }

    fn list(&self, folder: &Path, line: &FileListLine) -> io::Result<()> {
        let run = FileListLine::Run(self.header.run).encode();
        append_lines(&folder.join(FILE_LIST_NAME), &run, &line.encode()).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use catchment_frame::{FileReader, FrameInfo};
    use catchment_model::RunId;
    use catchment_storage::Run;

    use super::*;
    use crate::config::{RecorderConfig, SourceConfig};
    use crate::file::OfRun;
    use crate::schema::schema;

    fn files() -> Files {
        let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
        let config = RecorderConfig::new("".into(), vec![source]);
        let schema = Arc::new(schema(&config).unwrap());
        let header = OfRun::of(&config).header(RunId([7; 16]), &schema, 0);
        let before = Ledger::new(header.schema.sources.len());
        Files::behind(header, before)
    }

    #[test]
    fn a_run_that_lacks_no_frame_gets_one_file_that_says_that_it_has_ended() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        std::fs::create_dir(&folder).unwrap();
        let mut files = files();
        for _ in 0..2 {
            files.end(&folder, 1).unwrap();
            assert_eq!(files.next_index, 1);
        }
        drop(files);
        assert!(Run::open(&folder).unwrap().ended());
    }

    #[test]
    fn what_was_not_synced_is_cut_off() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        std::fs::create_dir(&folder).unwrap();
        let frame = |sequence| Outgoing {
            info: FrameInfo { sequence, ..FrameInfo::EMPTY },
            item: None,
            columns_max: 0,
            bytes_max: 0,
            columns: Vec::new(),
            ledger: Some(Vec::new()),
        };
        let numbers = || {
            let bytes = std::fs::read(folder.join("run-00000.catch")).unwrap();
            let reader = FileReader::open(&bytes).unwrap();
            reader.frames().iter().map(|frame| frame.info.sequence).collect::<Vec<_>>()
        };
        // Its recorder wrote last then, whoever writes these files.
        let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        let said = || last_written(list_files(&folder, EXTENSION).unwrap());
        let mut files = Files { written: Some(written), ..files() };
        files.begin(&folder, 1).unwrap();
        (0..2).for_each(|number| files.writer.write(&frame(number)).unwrap());
        files.sync().unwrap();
        assert_eq!(said(), Some(written));
        files.writer.write(&frame(2)).unwrap();
        assert_eq!(numbers(), [0, 1, 2]);
        // The second time there is nothing to cut.
        for _ in 0..2 {
            files.cut_unsynced().unwrap();
            assert_eq!((numbers(), said()), (vec![0, 1], Some(written)));
        }
        files.begin(&folder, 1).unwrap();
        files.writer.write(&frame(2)).unwrap();
        files.close(&folder).unwrap();
        assert_eq!(said(), Some(written));
    }

    #[test]
    fn a_file_that_gets_no_frame_is_removed_and_that_of_another_is_not() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run").join("run-00000.catch");
        let folder = path.parent().unwrap();
        std::fs::create_dir(folder).unwrap();
        let mut own = files();
        own.begin(folder, 1).unwrap();
        let mut other = files();
        assert!(other.begin(folder, 1).is_err(), "it is there");
        other.remove_blank();
        assert!(path.exists());
        own.remove_blank();
        assert!(!path.exists());
        assert!(!folder.join(FILE_LIST_NAME).exists());
    }
}
