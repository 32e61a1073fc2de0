//! The files of a run: made, named, and closed with what they hold.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use catchment_disk::{Disk, DiskError, FileId};
use catchment_frame::{
    EntryNames, FILE_LIST_NAME, FileHeader, FileListLine, FrameSummary, Schema, TocBuilder,
    TocFlags, encode_locator, locator_offset,
};
use catchment_model::Ledger;
use catchment_model::units::Bytes;

use crate::config::RecorderConfig;
use crate::live::Live;
use crate::stream::Jobs;
use crate::write::{FrameJob, RunIdentity, What};

/// A file's TOC when the next file is begun.
const TOC_BYTES_MAX: u64 = 64 << 20;
/// Frames, or time, after which a checkpoint is written: with them an unfinished file is opened
/// without a walk through all of it.
const CHECKPOINT_FRAMES: u32 = 64;
const CHECKPOINT_NS: u64 = 10_000_000_000;
/// What is in a TOC beside frames: the schema and the configuration, mostly.
const TOC_BYTES_MIN: u64 = 64 << 10;
/// What a frame, or a column of it, takes in the TOC.
const TOC_ENTRY_BYTES: u64 = 64;

/// A file that is written to, or being closed.
pub(crate) struct OpenFile {
    pub(crate) id: FileId,
    pub(crate) path: PathBuf,
    index: u32,
    /// The random number in its header and in all its frames.
    pub(crate) file_id: u64,
    pub(crate) opened_ns: u64,
    /// Where the next frame goes.
    pub(crate) end: u64,
    /// Where its last recorded frame ends.
    pub(crate) recorded_end: u64,
    pub(crate) header_recorded: bool,
    /// A write of it has failed.
    pub(crate) failed: bool,
    pub(crate) toc_begun: bool,
    header_bytes: u64,
    /// What the TOC has come to, about.
    toc_bytes: u64,
    toc: TocBuilder,
    /// Frames recorded since the last checkpoint, and since when.
    unlisted_frames: u32,
    listed_ns: u64,
    /// How many checkpoints there are.
    generation: u64,
    /// It was removed, or is not where it was made any more.
    pub(crate) gone: bool,
    // Recorded fragments by source: all, those that no sync covers yet, those that the one under
    // way does.
    fragments: Vec<u64>,
    not_durable: Vec<u64>,
    syncing: Option<Vec<u64>>,
}

impl OpenFile {
    pub(crate) fn has_frames(&self) -> bool {
        self.end > self.header_bytes
    }

    /// Whether its TOC has grown to where another file is better: it is kept in memory until then.
    pub(crate) fn toc_is_full(&self) -> bool {
        self.toc_bytes >= TOC_BYTES_MAX
    }

    /// Makes a file that was left ready for what can still be written behind its last recorded
    /// frame.
    pub(crate) fn reopen(&mut self) {
        self.failed = false;
        self.end = self.recorded_end;
    }

    /// Whether a checkpoint should be written now; `late` when it should have been long ago.
    pub(crate) fn checkpoint_due(&self, now_ns: u64, late: bool) -> bool {
        let times = if late { 2 } else { 1 };
        let since_ns = now_ns.saturating_sub(self.listed_ns);
        self.unlisted_frames >= times * CHECKPOINT_FRAMES
            || (self.unlisted_frames > 0 && since_ns >= u64::from(times) * CHECKPOINT_NS)
    }

    /// A checkpoint of all recorded frames, to be written behind them: no frame is under way.
    pub(crate) fn encode_checkpoint(
        &mut self,
        sequence: u64,
        ledger: &Ledger,
        now_ns: u64,
    ) -> (Vec<u8>, FrameSummary) {
        assert_eq!(self.recorded_end, self.end, "a checkpoint lists all frames before it");
        (self.unlisted_frames, self.listed_ns) = (0, now_ns);
        let checkpoint = self.toc.checkpoint(self.end, sequence, ledger);
        self.end += checkpoint.1.frame_bytes;
        checkpoint
    }

    /// A checkpoint's writes have ended. Its place is taken even if they failed: the TOC comes
    /// behind.
    pub(crate) fn checkpoint_ended(&mut self, checkpoint: &FrameSummary) {
        self.recorded_end = checkpoint.offset + checkpoint.frame_bytes;
    }

    /// What tells readers where a checkpoint is, and where that goes.
    pub(crate) fn encode_locator(&mut self, checkpoint: &FrameSummary) -> (u64, [u8; 4096]) {
        self.generation += 1;
        let offset = locator_offset(self.header_bytes, self.generation);
        (offset, encode_locator(self.file_id, self.generation, checkpoint))
    }

    /// A frame's writes have completed.
    pub(crate) fn recorded(&mut self, frame: &FrameJob) {
        let summary = frame.written.summary;
        assert_eq!(summary.offset, self.recorded_end, "frames are recorded in their order");
        self.recorded_end += summary.frame_bytes;
        self.unlisted_frames += 1;
        self.toc_bytes += (1 + frame.written.entries.len() as u64) * TOC_ENTRY_BYTES;
        self.toc.add_frame(summary, &frame.written.entries);
        let sums = self.not_durable.iter_mut().zip(&mut self.fragments);
        for ((not_durable, all), counts) in sums.zip(&frame.counts) {
            *not_durable += counts.fragments;
            *all += counts.fragments;
        }
    }

    /// Recorded fragments by source.
    pub(crate) fn fragments(&self) -> &[u64] {
        &self.fragments
    }

    /// What its TOC takes, about, with what a frame more adds to it.
    pub(crate) fn toc_bytes(&self) -> u64 {
        self.toc_bytes + self.toc_bytes / u64::from(CHECKPOINT_FRAMES) + TOC_BYTES_MIN
    }

    pub(crate) fn encode_toc(&self, ledger: &Ledger, run_ended: bool) -> Vec<u8> {
        let data_lost = ledger.balance().lost_data();
        let flags = TocFlags { run_ended, data_lost, ..TocFlags::default() };
        self.toc.finish(self.recorded_end, ledger, flags)
    }

    /// Moves what was recorded under the sync that is to begin. False if there is nothing, or a
    /// sync is under way.
    pub(crate) fn begin_sync(&mut self) -> bool {
        if self.syncing.is_some() || self.not_durable.iter().all(|&count| count == 0) {
            return false;
        }
        let none = vec![0; self.not_durable.len()];
        self.syncing = Some(std::mem::replace(&mut self.not_durable, none));
        true
    }

    pub(crate) fn sync_refused(&mut self) {
        for (sum, count) in self.not_durable.iter_mut().zip(self.syncing.take().unwrap_or_default())
        {
            *sum += count;
        }
    }

    /// What a successful sync has made durable.
    pub(crate) fn sync_done(&mut self) -> Vec<u64> {
        self.syncing.take().unwrap_or_default()
    }

    /// What a successful close has made durable.
    pub(crate) fn close_done(&mut self) -> Vec<u64> {
        self.sync_refused();
        std::mem::take(&mut self.not_durable)
    }
}

/// Makes a run's files.
pub(crate) struct FileMaker {
    identity: RunIdentity,
    run_number: u64,
    text: String,
    emulated: bool,
    schema: Schema,
    frame_bytes: u64,
    next_index: u32,
    /// Path and number of the file that is made ahead.
    ahead: Option<(PathBuf, u32)>,
    /// The file system that the run began on.
    device: Option<u64>,
    /// The run's list of files, and how many files it names.
    list: PathBuf,
    listed: u32,
}

impl FileMaker {
    pub(crate) fn new(config: &RecorderConfig, identity: RunIdentity, schema: Schema) -> Self {
        Self {
            list: identity.folder.join(FILE_LIST_NAME),
            listed: 0,
            identity,
            run_number: config.run_number,
            text: config.text.clone(),
            emulated: config.emulated,
            schema,
            frame_bytes: config.frame_bytes_max(),
            next_index: 0,
            ahead: None,
            device: None,
        }
    }

    /// Makes the next file now.
    pub(crate) fn create(
        &mut self,
        jobs: &mut Jobs<What>,
        live: &Live,
        now_ns: u64,
    ) -> Result<OpenFile, DiskError> {
        if self.device.is_none() {
            self.device = self.identity.folder.metadata().ok().map(|found| found.dev());
        }
        loop {
            let (path, index) = self.next_path();
            match jobs.disk.create(&path) {
                Ok(id) => return self.begin(jobs, live, (id, path, index), now_ns),
                // The rest of a file that failed and could not be deleted.
                Err(DiskError::Exists { .. }) if index < u32::MAX => {}
                Err(error) => {
                    self.next_index = index;
                    return Err(error);
                }
            }
        }
    }

    /// Has the next file made in the background, once.
    pub(crate) fn open_ahead(&mut self, jobs: &mut Jobs<What>) {
        if self.ahead.is_none() {
            let (path, index) = self.next_path();
            // Without it the next file is made when it is needed, or fails then.
            match jobs.disk.open_ahead(&path) {
                Ok(()) => self.ahead = Some((path, index)),
                Err(_) => self.next_index = index,
            }
        }
    }

    /// The next file: the one made ahead if it is there.
    pub(crate) fn next(
        &mut self,
        jobs: &mut Jobs<What>,
        live: &Live,
        now_ns: u64,
    ) -> Result<OpenFile, DiskError> {
        while self.ahead.is_some() {
            if let Some(opened) = jobs.disk.take_opened() {
                let (path, index) = self.ahead.take().expect("just seen");
                let id = opened.inspect_err(|_| self.next_index = index)?;
                return self.begin(jobs, live, (id, path, index), now_ns);
            }
            // Asked for, and not there yet: the helper is making it now.
            jobs.wait_for_helper();
        }
        self.create(jobs, live, now_ns)
    }

    /// Whether a file that was made ahead has blocks for so many bytes behind its header.
    pub(crate) fn has_ahead(&self, jobs: &Jobs<What>, bytes: u64) -> bool {
        let header = (self.text.len() as u64).saturating_add(TOC_BYTES_MIN);
        jobs.disk.opened_bytes().is_some_and(|blocks| blocks >= bytes.saturating_add(header))
    }

    /// Gives up the file that was made ahead.
    pub(crate) fn discard_ahead(&mut self, jobs: &mut Jobs<What>) {
        jobs.disk.discard_opened();
        self.ahead = None;
    }

    /// The next file after a fault: the one made ahead if it has blocks for two frames, else a new
    /// one if its disk has room for these.
    pub(crate) fn retry(
        &mut self,
        jobs: &mut Jobs<What>,
        live: &Live,
        now_ns: u64,
    ) -> Result<OpenFile, String> {
        self.find_folder()?;
        let needed = 2 * self.frame_bytes + (1 << 20);
        if !self.has_ahead(jobs, needed) {
            // Where nobody can say how much there is, writes tell.
            let spare = jobs.disk.spare_bytes_at(&self.identity.folder).unwrap_or(None);
            if let Some(spare) = spare.filter(|&spare| spare < needed) {
                return Err(self.full(needed, spare));
            }
        }
        self.next(jobs, live, now_ns).map_err(|error| error.to_string())
    }

    /// Says that the disk has no room for so many bytes.
    pub(crate) fn full(&self, needed: u64, spare: u64) -> String {
        let folder = self.identity.folder.display();
        let error = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let (needed, spare) = (Bytes(needed), Bytes(spare));
        format!("disk full: {folder} has {spare} left for data, {needed} are needed: {error}")
    }

    /// Makes the run's folder again where it was removed; not on another file system than the run
    /// began on, which shows where a disk was unmounted.
    fn find_folder(&mut self) -> Result<(), String> {
        let folder = &self.identity.folder;
        match folder.metadata() {
            Ok(found) => {
                self.device.get_or_insert(found.dev());
                return Ok(());
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // Making the file tells what is wrong.
            Err(_) => return Ok(()),
        }
        let above = folder.ancestors().find_map(|above| above.metadata().ok());
        if above.map(|found| found.dev()) != self.device {
            let folder = folder.display();
            return Err(format!("{folder} is gone, and the disk that it was on is not mounted"));
        }
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make {} again: {error}", folder.display()))
    }

    /// Says in the run's list of files that this one's header is written. Like all lines of the
    /// list: a helper thread writes it.
    pub(crate) fn list_begun(&mut self, disk: &mut Disk, file: &OpenFile) {
        self.listed = self.listed.max(file.index + 1);
        self.list(disk, &FileListLine::Begun { index: file.index, file_id: file.file_id });
    }

    /// Says that a file has its TOC and is durable.
    pub(crate) fn list_closed(&self, disk: &mut Disk, file: &OpenFile, bytes: u64) {
        self.list(disk, &FileListLine::Closed { index: file.index, bytes });
    }

    /// Says that there will be no other file, and waits until the list is durable.
    pub(crate) fn end_list(&self, jobs: &mut Jobs<What>, live: &Live) {
        if self.listed > 0 {
            self.list(&mut jobs.disk, &FileListLine::Ended { files: self.listed });
        }
        while jobs.disk.text_under_way() {
            jobs.wait_for_helper();
        }
        if let Some(error) = jobs.disk.take_text_error() {
            live.warn_once(format!("the run's list of files is not complete: {error}"));
        }
    }

    fn list(&self, disk: &mut Disk, line: &FileListLine) {
        let header = FileListLine::Run(self.identity.run).encode();
        disk.append_text(&self.list, &header, &line.encode());
    }

    /// Deletes a file that did not get as far as its header, so that the next one takes its number.
    pub(crate) fn remove(&mut self, file: &OpenFile, live: &Live) {
        let path = &file.path;
        match std::fs::remove_file(path) {
            Ok(()) => {
                live.remove_file(path);
                if self.next_index == file.index + 1 {
                    self.next_index = file.index;
                }
            }
            Err(error) => live.warn_once(format!("cannot delete {}: {error}", path.display())),
        }
    }

    /// The next file's path, and its number, which is then taken.
    fn next_path(&mut self) -> (PathBuf, u32) {
        let index = self.next_index;
        self.next_index += 1;
        let name = format!("{}-{index:05}.catch", self.identity.name);
        (self.identity.folder.join(name), index)
    }

    fn begin(
        &mut self,
        jobs: &mut Jobs<What>,
        live: &Live,
        (id, path, index): (FileId, PathBuf, u32),
        now_ns: u64,
    ) -> Result<OpenFile, DiskError> {
        let source = |error: getrandom::Error| DiskError::Resource {
            what: "random bits",
            source: error.into(),
        };
        let file_id = getrandom::u64().map_err(source)?;
        let header = FileHeader {
            run: self.identity.run,
            run_number: self.run_number,
            file_index: index,
            file_id,
            created_ns: now_ns,
            writer: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            config: self.text.clone(),
            emulated: self.emulated,
            schema: self.schema.clone().into(),
            ledger_entries: EntryNames::default(),
            locator: true,
        };
        let encoded = header.encode();
        let mut stream = jobs.begin(id, 0);
        jobs.append(&mut stream, &encoded);
        jobs.finish(stream, What::Header);
        live.add_file(path.clone());
        let header_bytes = encoded.len() as u64;
        Ok(OpenFile {
            id,
            path,
            index,
            file_id,
            opened_ns: now_ns,
            end: header_bytes,
            recorded_end: header_bytes,
            header_recorded: false,
            failed: false,
            toc_begun: false,
            header_bytes,
            toc_bytes: 0,
            toc: TocBuilder::new(&encoded),
            unlisted_frames: 0,
            listed_ns: now_ns,
            generation: 0,
            gone: false,
            fragments: vec![0; self.schema.sources.len()],
            not_durable: vec![0; self.schema.sources.len()],
            syncing: None,
        })
    }
}
