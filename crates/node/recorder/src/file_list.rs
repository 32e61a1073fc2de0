//! The run's list of files, which a helper thread of the store writes. Lines that the disk refuses
//! wait there and are tried again.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::FolderStore;
use catchment_frame::{FILE_LIST_NAME, FileListLine};
use catchment_model::RunId;

use crate::file::OpenFile;
use crate::target_ledger::TargetLedger;

/// How long after a refusal the list is tried again.
const RETRY_NS: u64 = 1_000_000_000;

/// The list of one run.
pub(crate) struct FileList {
    path: PathBuf,
    run: RunId,
    /// The number of files named.
    files: u32,
    state: Lines,
}

/// The outcome of the lines so far.
enum Lines {
    Written,
    /// Some were refused, and are tried again at that time.
    Refused {
        retry_at_ns: u64,
    },
    Retried,
}

impl FileList {
    pub(crate) fn new(run: RunId, folder: &Path) -> Self {
        Self { path: folder.join(FILE_LIST_NAME), run, files: 0, state: Lines::Written }
    }

    /// A file's header is written.
    pub(crate) fn begun<S: FolderStore>(&mut self, store: &mut S, index: u32, file_id: u64) {
        self.files = self.files.max(index + 1);
        self.append(store, &FileListLine::Begun { index, file_id }.encode());
    }

    /// A file has its TOC and is durable.
    pub(crate) fn closed<S: FolderStore>(&self, store: &mut S, file: &OpenFile, bytes: u64) {
        self.append(store, &FileListLine::Closed { index: file.index, bytes }.encode());
    }

    /// No other file will follow.
    pub(crate) fn end<S: FolderStore>(&self, store: &mut S) {
        if self.files > 0 {
            self.append(store, &FileListLine::Ended { files: self.files }.encode());
        }
    }

    /// Reports whether the end of the list was written or refused. Lines refused before are written
    /// with it.
    pub(crate) fn has_ended<S: FolderStore>(&self, store: &mut S, ledger: &TargetLedger) {
        let refused = &ledger.of_target().counters.file_list_refused;
        match (store.take_text_error(), &self.state) {
            (Some(error), _) => {
                refused.store(1, Relaxed);
                ledger.warn_once(format!("the run's list of files is not complete: {error}"));
            }
            (None, Lines::Written) => {}
            (None, _) => refused.store(0, Relaxed),
        }
    }

    /// Reports that lines are refused, and tries them again.
    pub(crate) fn look_after<S: FolderStore>(
        &mut self,
        store: &mut S,
        ledger: &TargetLedger,
        now_ns: u64,
    ) {
        if store.text_under_way() {
            return;
        }
        match (store.take_text_error(), &self.state) {
            (Some(error), _) => {
                let text = "the run's list of files cannot be written; recording goes on";
                ledger.warn_once(format!("{text}: {error}"));
                ledger.of_target().counters.file_list_refused.store(1, Relaxed);
                self.state = Lines::Refused { retry_at_ns: now_ns + RETRY_NS };
            }
            (None, Lines::Refused { retry_at_ns }) if now_ns >= *retry_at_ns => {
                self.state = Lines::Retried;
                self.append(store, "");
            }
            (None, Lines::Retried) => {
                ledger.of_target().counters.file_list_refused.store(0, Relaxed);
                self.state = Lines::Written;
            }
            (None, _) => {}
        }
    }

    fn append<S: FolderStore>(&self, store: &mut S, lines: &str) {
        store.append_text(&self.path, &FileListLine::Run(self.run).encode(), lines);
    }
}
