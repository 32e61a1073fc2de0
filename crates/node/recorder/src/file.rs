//! The files of a run: made, named and closed, with a count of what they hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_agent::{Entropy, FileId, FolderStore, NewFile, OpenError};
use catchment_frame::{EntryNames, FileHeader, FrameKind, Schema};
use catchment_model::units::Bytes;
use catchment_model::{Entry, Ledger, RunId};
use catchment_writer::{Disks, FileParts, FrameFile, FrameFiles, STALL_NS, StoreFile};

use crate::beginning::FileBeginning;
use crate::config::RecorderConfig;
use crate::live_target::LiveTarget;
use crate::store_target::SpillParts;
use crate::target_ledger::FrameTag;

/// Bytes of a TOC beside frames: mostly the schema and the configuration.
const TOC_BYTES_MIN: u64 = 64 << 10;

/// A file that is being written or closed.
pub(crate) type OpenFile = FrameFile<Durability>;

/// The identity of the run, and its folders in a target.
pub(crate) struct RunIdentity {
    pub(crate) run: RunId,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) name: String,
    /// The target's name, which says that files in several folders are of one place.
    pub(crate) target: String,
    /// What the files begin with.
    pub(crate) begins: FileBeginning,
}

/// The stores of the folders, and the run's first file, just made.
pub(crate) struct FirstFile<S> {
    pub(crate) stores: Vec<S>,
    /// The folder of the file.
    pub(crate) disk: usize,
    pub(crate) id: FileId,
    pub(crate) entropy: Box<dyn Entropy>,
    /// Where frames go that the folder does not take now.
    pub(crate) spill: Option<Box<SpillParts>>,
}

/// The stores of a target's folders, and the frames in them.
pub(crate) type Files<S> = FrameFiles<S, FrameTag, Durability>;

/// What frames account for of one source's fragments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accounted {
    /// Fragments that are recorded in them.
    pub(crate) recorded: u64,
    /// Fragments that they count for other reasons (`SourceLedger::counted_out`).
    pub(crate) counted: u64,
}

/// Recorded fragments of one file, by source: all of them, and what its frames account for that no
/// sync covers yet, or that the current sync covers.
#[derive(Debug)]
pub(crate) struct Durability {
    /// The sum of what its recorded frames count.
    frames: Ledger,
    fragments: Vec<u64>,
    not_durable: Vec<Accounted>,
    syncing: Option<Vec<Accounted>>,
    /// Bytes of recorded frames that no sync covers yet.
    unsynced_bytes: u64,
    /// Whether a frame was recorded since the last sync began that is to be synced even without
    /// fragments.
    is_due: bool,
    /// Whether frames that were meant for it are written again, in younger files.
    pub(crate) comes_again: bool,
    /// Whether it is to be deleted, since the file before it is.
    pub(crate) is_void: bool,
    /// Whether its folder failed after it was left: what is written to it later proves nothing.
    pub(crate) is_left_in_fault: bool,
    /// Whether a sync has failed of it, whose frames are held.
    pub(crate) is_doubtful: bool,
}

impl Durability {
    fn new(sources: usize) -> Self {
        let (fragments, not_durable) = (vec![0; sources], vec![Accounted::default(); sources]);
        let frames = Ledger::new(sources);
        Self {
            frames,
            fragments,
            not_durable,
            syncing: None,
            unsynced_bytes: 0,
            is_due: false,
            comes_again: false,
            is_void: false,
            is_left_in_fault: false,
            is_doubtful: false,
        }
    }

    /// The header's writes have completed. With `is_due` it is synced even without frames.
    pub(crate) fn header_recorded(&mut self, is_due: bool) {
        self.is_due |= is_due;
    }

    /// The writes of a frame of that kind and size have completed. With `is_due` it is synced even
    /// without fragments.
    pub(crate) fn recorded(
        &mut self,
        tag: &FrameTag,
        (kind, bytes): (FrameKind, u64),
        is_due: bool,
    ) {
        self.is_due |= is_due;
        self.unsynced_bytes += bytes;
        let sums = self.not_durable.iter_mut().zip(&mut self.fragments);
        for ((not_durable, all), counts) in sums.zip(&tag.counts) {
            not_durable.recorded += counts.fragments;
            *all += counts.fragments;
        }
        for (sum, increment) in self.not_durable.iter_mut().zip(&tag.increment.sources) {
            sum.counted += increment.counted_out();
        }
        // The counts of a frame that is held have all that it has.
        if tag.counts.is_empty() {
            let sums = self.not_durable.iter_mut().zip(&mut self.fragments);
            for ((not_durable, all), source) in sums.zip(&tag.increment.sources) {
                not_durable.recorded += source[Entry::FragmentsRecorded];
                *all += source[Entry::FragmentsRecorded];
            }
        }
        self.frames.add(&tag.increment);
        // One that stands for others has none of their fragments.
        let counts = if kind == FrameKind::SKIPPED { &[][..] } else { &tag.counts };
        for (sum, counts) in self.frames.sources.iter_mut().zip(counts) {
            let own = counts.of_recorded().into_iter().chain(counts.of_frame());
            own.for_each(|(entry, count)| sum[entry] += count);
        }
    }

    /// The sum of what its recorded frames count.
    pub(crate) fn frames(&self) -> &Ledger {
        &self.frames
    }

    /// Recorded fragments by source.
    pub(crate) fn fragments(&self) -> &[u64] {
        &self.fragments
    }

    /// Bytes of recorded frames that no sync covers yet; none while a sync is in progress.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        if self.syncing.is_none() { self.unsynced_bytes } else { 0 }
    }

    /// Moves what no sync covers to the one that is about to begin. False if no fragments are
    /// recorded there, or a sync is in progress.
    pub(crate) fn begin_sync(&mut self) -> bool {
        let is_due = self.is_due || self.not_durable.iter().any(|one| one.recorded > 0);
        if self.syncing.is_some() || !is_due {
            return false;
        }
        (self.is_due, self.unsynced_bytes) = (false, 0);
        let none = vec![Accounted::default(); self.not_durable.len()];
        self.syncing = Some(std::mem::replace(&mut self.not_durable, none));
        true
    }

    pub(crate) fn sync_refused(&mut self) {
        self.is_due = true;
        for (sum, one) in self.not_durable.iter_mut().zip(self.syncing.take().unwrap_or_default()) {
            sum.recorded += one.recorded;
            sum.counted += one.counted;
        }
    }

    /// The fragments that a successful sync has made durable.
    pub(crate) fn sync_done(&mut self) -> Vec<u64> {
        self.syncing.take().unwrap_or_default().iter().map(|one| one.recorded).collect()
    }

    /// The fragments that a successful close has made durable.
    pub(crate) fn close_done(&mut self) -> Vec<u64> {
        self.close_failed().iter().map(|one| one.recorded).collect()
    }

    /// What no sync has made durable, by source.
    pub(crate) fn close_failed(&mut self) -> Vec<Accounted> {
        self.sync_refused();
        std::mem::take(&mut self.not_durable)
    }
}

/// The approximate size of a file's table of contents, and what one more frame adds to it.
pub(crate) fn toc_bytes(file: &OpenFile) -> u64 {
    file.toc_bytes() + file.checkpoint_bytes() + TOC_BYTES_MIN
}

/// Makes a run's files.
pub(crate) struct FileMaker {
    identity: RunIdentity,
    entropy: Box<dyn Entropy>,
    spill: Option<Box<SpillParts>>,
    of_run: OfRun,
    schema: Arc<Schema>,
    variant: u32,
    next_index: u32,
    /// Numbers of deleted files, each below one of a file that is there still.
    freed: Vec<u32>,
    /// The file requested from the store and not yet opened.
    asked: Option<Asked>,
}

/// What the headers of all files of a run have in common.
pub(crate) struct OfRun {
    run_number: u64,
    stream: u32,
    text: String,
    emulated: bool,
}

impl OfRun {
    pub(crate) fn of(config: &RecorderConfig) -> Self {
        Self {
            run_number: config.run_number,
            stream: config.stream,
            text: config.text.clone(),
            emulated: config.emulated,
        }
    }

    /// The header of a file, but for what distinguishes it from others of the run.
    pub(crate) fn header(&self, run: RunId, schema: &Arc<Schema>, variant: u32) -> FileHeader {
        FileHeader {
            run,
            run_number: self.run_number,
            file_index: 0,
            file_id: 0,
            created_ns: 0,
            writer: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            config: self.text.clone(),
            emulated: self.emulated,
            schema: Arc::clone(schema),
            ledger_entries: EntryNames::default(),
            locator: true,
            numbering: catchment_frame::Numbering::Run,
            variant,
            target: None,
            part: None,
            stream: self.stream,
            epoch: 0,
            superseded: Vec::new(),
            base: None,
        }
    }
}

/// A file in the making.
#[derive(Clone)]
struct Asked {
    /// The folder, and since when it is requested there.
    disk: usize,
    since_ns: u64,
    path: PathBuf,
    index: u32,
    /// The bytes for which the disk must have room.
    room_bytes: u64,
}

/// A file that was made, and its first bytes.
pub(crate) struct Begun {
    pub(crate) file: OpenFile,
    pub(crate) header: Vec<u8>,
}

impl FileMaker {
    pub(crate) fn new(
        config: &RecorderConfig,
        identity: RunIdentity,
        (schema, variant): (Arc<Schema>, u32),
        (entropy, spill): (Box<dyn Entropy>, Option<Box<SpillParts>>),
    ) -> Self {
        Self {
            next_index: identity.begins.index,
            freed: Vec::new(),
            identity,
            entropy,
            spill,
            of_run: OfRun::of(config),
            schema,
            variant,
            asked: None,
        }
    }

    /// Where frames go that the folder does not take now, with the header of its files.
    pub(crate) fn take_spill(&mut self) -> Option<SpillParts> {
        let spill = *self.spill.take()?;
        Some(SpillParts { header: self.header().encode(), ..spill })
    }

    /// The header of its files, but for what distinguishes them.
    fn header(&self) -> FileHeader {
        let begins = &self.identity.begins;
        begins.of(self.of_run.header(self.identity.run, &self.schema, self.variant))
    }

    /// Whether its files have that schema.
    pub(crate) fn writes(&self, schema: &Arc<Schema>) -> bool {
        Arc::ptr_eq(&self.schema, schema)
    }

    /// The path of the first file, in that folder.
    pub(crate) fn first_path(identity: &RunIdentity, disk: usize) -> PathBuf {
        path_of(identity, disk, identity.begins.index)
    }

    /// Takes the first file, which was made before anything else ran.
    pub(crate) fn begin_first(
        &mut self,
        StoreFile { store: disk, id }: StoreFile,
        now_ns: u64,
    ) -> Result<Begun, String> {
        let asked = self.next_file(disk, 0, now_ns);
        self.begin(id, asked, now_ns)
    }

    /// Requests the next file ahead of time, once.
    pub(crate) fn open_ahead<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        disks: &Disks,
        now_ns: u64,
    ) {
        self.ask(files, disks, 0, now_ns);
    }

    /// The next file, once it exists: the one requested before, or one requested now. For the
    /// latter a disk must have room for `room_bytes`; with 0 it is made in any case.
    ///
    /// # Errors
    /// Why it was not made, and in which folder.
    pub(crate) fn next<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        disks: &Disks,
        (room_bytes, now_ns): (u64, u64),
    ) -> Option<Result<Begun, (usize, String)>> {
        if let Some(asked) = &self.asked
            && asked.room_bytes < room_bytes
            && files.store(asked.disk).opened_bytes().is_some()
            && !self.has_ahead(files, room_bytes)
        {
            // The file was made before room ran short.
            self.discard_ahead(files);
        }
        let disk = self.ask(files, disks, room_bytes, now_ns);
        let opened = files.store(disk).take_opened()?;
        let asked = self.asked.take().expect("what is opened was asked for");
        Some(match opened {
            Ok(id) => self.begin(id, asked, now_ns).map_err(|error| (disk, error)),
            // Left over from a file that failed and could not be deleted.
            Err(OpenError::Exists { .. }) if asked.index < u32::MAX => {
                self.ask(files, disks, room_bytes, now_ns);
                return None;
            }
            Err(error) => {
                self.free(asked.index);
                let reason = match error {
                    OpenError::NoRoom { spare_bytes, room_bytes, .. } => {
                        full(disks.folder(disk), room_bytes, spare_bytes)
                    }
                    error => error.to_string(),
                };
                Err((disk, reason))
            }
        })
    }

    /// The folder in which a file was requested that should be there by now.
    pub(crate) fn late_disk<S: FolderStore>(
        &self,
        files: &mut Files<S>,
        now_ns: u64,
    ) -> Option<usize> {
        let Asked { disk, since_ns, .. } = *self.asked.as_ref()?;
        let is_late = now_ns.saturating_sub(since_ns) >= STALL_NS;
        (is_late && files.store(disk).opened_bytes().is_none()).then_some(disk)
    }

    /// Requests the next file, unless it is requested; returns its folder.
    fn ask<S: FolderStore>(
        &mut self,
        files: &mut Files<S>,
        disks: &Disks,
        room_bytes: u64,
        now_ns: u64,
    ) -> usize {
        if let Some(asked) = &self.asked {
            return asked.disk;
        }
        let disk = disks.choose(now_ns);
        let asked = self.next_file(disk, room_bytes, now_ns);
        files.store(disk).open(NewFile { path: asked.path.clone(), room_bytes });
        self.asked = Some(asked);
        disk
    }

    /// Whether a file made ahead has blocks for `bytes` bytes behind its header, or is on a disk
    /// with room for them, if there are several.
    pub(crate) fn has_ahead<S: FolderStore>(&self, files: &mut Files<S>, bytes: u64) -> bool {
        let Some(asked) = &self.asked else { return false };
        let header = (self.of_run.text.len() as u64).saturating_add(TOC_BYTES_MIN);
        let are_several = files.stores() > 1;
        let store = files.store(asked.disk);
        let spare = store.spare_bytes().filter(|_| are_several);
        let has_room = |blocks: u64| blocks.max(spare.unwrap_or(0)) >= bytes.saturating_add(header);
        store.opened_bytes().is_some_and(has_room)
    }

    /// Abandons the file made ahead, whose number is free again.
    pub(crate) fn discard_ahead<S: FolderStore>(&mut self, files: &mut Files<S>) {
        if let Some(asked) = self.asked.take() {
            files.store(asked.disk).discard_opened();
            self.free(asked.index);
        }
    }

    /// As [`FileMaker::discard_ahead`], if it is in that folder.
    pub(crate) fn discard_ahead_in<S: FolderStore>(&mut self, files: &mut Files<S>, disk: usize) {
        if self.asked.as_ref().is_some_and(|asked| asked.disk == disk) {
            self.discard_ahead(files);
        }
    }

    /// A file that did not get a header was deleted: the next one takes its number.
    pub(crate) fn deleted(&mut self, file: &OpenFile, target: &LiveTarget) {
        target.remove_file(&file.path);
        self.free(file.index);
    }

    /// A number is free again, once those above it are.
    fn free(&mut self, index: u32) {
        self.freed.push(index);
        while let Some(last) = self.next_index.checked_sub(1)
            && let Some(place) = self.freed.iter().position(|&freed| freed == last)
        {
            self.freed.swap_remove(place);
            self.next_index = last;
        }
    }

    /// The next file in that folder, whose number is then taken.
    fn next_file(&mut self, disk: usize, room_bytes: u64, now_ns: u64) -> Asked {
        let index = self.next_index;
        self.next_index += 1;
        let path = path_of(&self.identity, disk, index);
        Asked { disk, since_ns: now_ns, path, index, room_bytes }
    }

    fn begin(
        &mut self,
        id: FileId,
        Asked { disk, path, index, .. }: Asked,
        now_ns: u64,
    ) -> Result<Begun, String> {
        let no_random_bits = |error| format!("cannot get random bits: {error}");
        let file_id = self.entropy.random_u64().map_err(no_random_bits)?;
        let header = FileHeader {
            file_index: index,
            file_id,
            created_ns: now_ns,
            target: (self.identity.folders.len() > 1).then(|| self.identity.target.clone()),
            ..self.header()
        };
        let attached = Durability::new(self.schema.sources.len());
        let id = StoreFile { store: disk, id };
        let parts = FileParts { id, path, is_listed: true, attached };
        let (file, header) = FrameFile::begin(parts, &header, now_ns);
        Ok(Begun { file, header })
    }
}

/// The message that a folder's disk has no room for `needed` bytes.
pub(crate) fn full(folder: &Path, needed: u64, spare: u64) -> String {
    let folder = folder.display();
    let error = std::io::Error::from_raw_os_error(libc::ENOSPC);
    let (needed, spare) = (Bytes(needed), Bytes(spare));
    format!("disk full: {folder} has {spare} left for data, {needed} are needed: {error}")
}

fn path_of(identity: &RunIdentity, disk: usize, index: u32) -> PathBuf {
    identity.folders[disk].join(format!("{}-{index:05}.catch", identity.name))
}
