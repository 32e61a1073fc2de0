//! The files of a run: made, named and closed, with a count of what they hold.

use std::path::PathBuf;
use std::sync::Arc;

use catchment_agent::{Entropy, FileId, FolderStore, NewFile, OpenError};
use catchment_frame::{EntryNames, FileHeader, Schema};
use catchment_model::RunId;
use catchment_model::units::Bytes;
use catchment_writer::{FileParts, FrameFile};

use crate::config::RecorderConfig;
use crate::frames::SourceCounts;
use crate::live::LiveTarget;

/// Bytes of a TOC beside frames: mostly the schema and the configuration.
const TOC_BYTES_MIN: u64 = 64 << 10;

/// A file that is being written or closed.
pub(crate) type OpenFile = FrameFile<Durability>;

/// The identity and the folder of the run.
pub(crate) struct RunIdentity {
    pub(crate) run: RunId,
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
}

/// The folder of the files, and the run's first file, just made.
pub(crate) struct FirstFile<S> {
    pub(crate) store: S,
    pub(crate) id: FileId,
    pub(crate) entropy: Box<dyn Entropy>,
}

/// Recorded fragments of one file, by source: all of them, those that no sync covers yet, and those
/// that the current sync covers.
#[derive(Debug)]
pub(crate) struct Durability {
    fragments: Vec<u64>,
    not_durable: Vec<u64>,
    syncing: Option<Vec<u64>>,
}

impl Durability {
    fn new(sources: usize) -> Self {
        Self { fragments: vec![0; sources], not_durable: vec![0; sources], syncing: None }
    }

    /// A frame's writes have completed.
    pub(crate) fn recorded(&mut self, counts: &[SourceCounts]) {
        let sums = self.not_durable.iter_mut().zip(&mut self.fragments);
        for ((not_durable, all), counts) in sums.zip(counts) {
            *not_durable += counts.fragments;
            *all += counts.fragments;
        }
    }

    /// Recorded fragments by source.
    pub(crate) fn fragments(&self) -> &[u64] {
        &self.fragments
    }

    /// Moves the recorded fragments to the sync that is about to begin. False if there are none, or
    /// a sync is in progress.
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

    /// The fragments that a successful sync has made durable.
    pub(crate) fn sync_done(&mut self) -> Vec<u64> {
        self.syncing.take().unwrap_or_default()
    }

    /// The fragments that a successful close has made durable.
    pub(crate) fn close_done(&mut self) -> Vec<u64> {
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
    run_number: u64,
    text: String,
    emulated: bool,
    schema: Arc<Schema>,
    variant: u32,
    frame_bytes: u64,
    next_index: u32,
    /// The file requested from the store and not yet opened.
    asked: Option<Asked>,
}

/// A file in the making.
#[derive(Clone)]
struct Asked {
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
        entropy: Box<dyn Entropy>,
    ) -> Self {
        Self {
            identity,
            entropy,
            run_number: config.run_number,
            text: config.text.clone(),
            emulated: config.emulated,
            schema,
            variant,
            frame_bytes: config.frame_bytes_max(),
            next_index: 0,
            asked: None,
        }
    }

    /// Whether its files have that schema.
    pub(crate) fn writes(&self, schema: &Arc<Schema>) -> bool {
        Arc::ptr_eq(&self.schema, schema)
    }

    /// The path of the run's first file.
    pub(crate) fn first_path(identity: &RunIdentity) -> PathBuf {
        path_of(identity, 0)
    }

    /// Takes the run's first file, which was made before anything else ran.
    pub(crate) fn begin_first(&mut self, id: FileId, now_ns: u64) -> Result<Begun, String> {
        let (path, index) = self.next_path();
        self.begin(id, Asked { path, index, room_bytes: 0 }, now_ns)
    }

    /// Requests the next file ahead of time, once.
    pub(crate) fn open_ahead<S: FolderStore>(&mut self, store: &mut S) {
        self.ask(store, 0);
    }

    /// The next file, once it exists: the one requested before, or one requested now. For the
    /// latter the disk must have room for `room_bytes`; with 0 it is made in any case.
    pub(crate) fn next<S: FolderStore>(
        &mut self,
        store: &mut S,
        room_bytes: u64,
        now_ns: u64,
    ) -> Option<Result<Begun, String>> {
        if let Some(asked) = &self.asked
            && asked.room_bytes < room_bytes
            && store.opened_bytes().is_some()
            && !self.has_ahead(store, room_bytes)
        {
            // The file was made before room ran short.
            self.next_index = asked.index;
            self.discard_ahead(store);
        }
        self.ask(store, room_bytes);
        let opened = store.take_opened()?;
        let asked = self.asked.take().expect("what is opened was asked for");
        Some(match opened {
            Ok(id) => self.begin(id, asked, now_ns),
            // Left over from a file that failed and could not be deleted.
            Err(OpenError::Exists { .. }) if asked.index < u32::MAX => {
                self.ask(store, room_bytes);
                return None;
            }
            Err(error) => {
                self.next_index = asked.index;
                Err(match error {
                    OpenError::NoRoom { spare_bytes, room_bytes, .. } => {
                        self.full(room_bytes, spare_bytes)
                    }
                    error => error.to_string(),
                })
            }
        })
    }

    /// Bytes for which the disk must have room when a file is made after a fault.
    pub(crate) fn room_bytes(&self) -> u64 {
        2 * self.frame_bytes + (1 << 20)
    }

    fn ask<S: FolderStore>(&mut self, store: &mut S, room_bytes: u64) {
        if self.asked.is_none() {
            let (path, index) = self.next_path();
            store.open(NewFile { path: path.clone(), room_bytes });
            self.asked = Some(Asked { path, index, room_bytes });
        }
    }

    /// Whether a file made ahead has blocks for `bytes` bytes behind its header.
    pub(crate) fn has_ahead<S: FolderStore>(&self, store: &S, bytes: u64) -> bool {
        let header = (self.text.len() as u64).saturating_add(TOC_BYTES_MIN);
        store.opened_bytes().is_some_and(|blocks| blocks >= bytes.saturating_add(header))
    }

    /// Abandons the file made ahead.
    pub(crate) fn discard_ahead<S: FolderStore>(&mut self, store: &mut S) {
        store.discard_opened();
        self.asked = None;
    }

    /// The message that the disk has no room for `needed` bytes.
    pub(crate) fn full(&self, needed: u64, spare: u64) -> String {
        let folder = self.identity.folder.display();
        let error = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let (needed, spare) = (Bytes(needed), Bytes(spare));
        format!("disk full: {folder} has {spare} left for data, {needed} are needed: {error}")
    }

    /// A file that did not get a header was deleted: the next one takes its number.
    pub(crate) fn deleted(&mut self, file: &OpenFile, target: &LiveTarget) {
        target.remove_file(&file.path);
        if self.next_index == file.index + 1 {
            self.next_index = file.index;
        }
    }

    /// The next file's path, and its number, which is then taken.
    fn next_path(&mut self) -> (PathBuf, u32) {
        let index = self.next_index;
        self.next_index += 1;
        (path_of(&self.identity, index), index)
    }

    fn begin(
        &mut self,
        id: FileId,
        Asked { path, index, .. }: Asked,
        now_ns: u64,
    ) -> Result<Begun, String> {
        let no_random_bits = |error| format!("cannot get random bits: {error}");
        let file_id = self.entropy.random_u64().map_err(no_random_bits)?;
        let header = FileHeader {
            run: self.identity.run,
            run_number: self.run_number,
            file_index: index,
            file_id,
            created_ns: now_ns,
            writer: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            config: self.text.clone(),
            emulated: self.emulated,
            schema: Arc::clone(&self.schema),
            ledger_entries: EntryNames::default(),
            locator: true,
            numbering: catchment_frame::Numbering::Run,
            variant: self.variant,
        };
        let attached = Durability::new(self.schema.sources.len());
        let parts = FileParts { id, path, is_listed: true, attached };
        let (file, header) = FrameFile::begin(parts, &header, now_ns);
        Ok(Begun { file, header })
    }
}

fn path_of(identity: &RunIdentity, index: u32) -> PathBuf {
    identity.folder.join(format!("{}-{index:05}.catch", identity.name))
}
