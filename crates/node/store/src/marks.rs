//! How much of a stream is durable: files may become so in any order, the stream does up to the
//! first one of which not all is.

use std::collections::VecDeque;
use std::path::PathBuf;

use catchment_model::Ledger;
use catchment_writer::StoreFile;

/// What is known of files that are not wholly durable.
pub(crate) struct Marks {
    /// Oldest first.
    files: VecDeque<Mark>,
    /// The sum of what is durable in files that are wholly so, in order.
    ledger: Ledger,
}

/// Numbers below these are in a file, and are durable there.
struct Mark {
    id: StoreFile,
    index: u32,
    path: PathBuf,
    recorded: u64,
    durable: u64,
    /// Bytes of the file that are durable, and what the frames in them count.
    durable_bytes: u64,
    frames: Ledger,
    is_closed: bool,
}

/// A sync under way: what it makes durable, numbers below and bytes before, with what these frames
/// count, and since when.
pub(crate) struct Syncing {
    pub(crate) durable: u64,
    pub(crate) bytes: u64,
    pub(crate) frames: Ledger,
    pub(crate) since_ns: u64,
}

/// What a fault leaves: files, and how many of their first bytes, and of which frames.
pub(crate) struct Remains {
    /// 0 bytes: nothing of it.
    pub(crate) cuts: Vec<(PathBuf, u64)>,
    /// The sum of the frames that are durable.
    pub(crate) ledger: Ledger,
    pub(crate) next_index: u32,
}

impl Marks {
    /// None yet, behind frames of that sum.
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { files: VecDeque::new(), ledger }
    }

    /// Nothing was there before: sums are of such a form.
    pub(crate) fn set_empty(&mut self, ledger: Ledger) {
        self.ledger = ledger;
    }

    /// A file is begun. If it is the only one, numbers below `durable` are.
    pub(crate) fn begin(
        &mut self,
        id: StoreFile,
        (index, path): (u32, PathBuf),
        frames: Ledger,
        durable: u64,
    ) {
        let durable = self.files.back().map_or(durable, |one| one.recorded);
        let (recorded, durable_bytes, is_closed) = (durable, 0, false);
        self.files.push_back(Mark {
            id,
            index,
            path,
            recorded,
            durable,
            durable_bytes,
            frames,
            is_closed,
        });
    }

    fn of(&mut self, id: StoreFile) -> Option<&mut Mark> {
        self.files.iter_mut().find(|mark| mark.id == id)
    }

    /// Whether no file was begun behind that one, which is not wholly durable.
    pub(crate) fn is_newest(&self, id: StoreFile) -> bool {
        self.files.back().is_some_and(|mark| mark.id == id)
    }

    /// Numbers below that one are in the newest file, and not all of them are durable.
    pub(crate) fn not_durable(&self) -> Option<u64> {
        let newest = self.files.back().filter(|mark| mark.recorded > mark.durable);
        newest.map(|mark| mark.recorded)
    }

    pub(crate) fn recorded(&mut self, id: StoreFile, end: u64) {
        self.of(id).into_iter().for_each(|mark| mark.recorded = end);
    }

    pub(crate) fn synced(&mut self, id: StoreFile, done: Syncing) {
        let Syncing { durable, bytes, frames, .. } = done;
        if let Some(mark) = self.of(id) {
            (mark.durable, mark.durable_bytes, mark.frames) = (durable, bytes, frames);
        }
    }

    /// A file of so many bytes is wholly durable, with frames of that sum.
    pub(crate) fn closed(&mut self, id: StoreFile, bytes: u64, frames: Ledger) {
        if let Some(mark) = self.of(id) {
            (mark.durable, mark.durable_bytes) = (mark.recorded, bytes);
            (mark.frames, mark.is_closed) = (frames, true);
        }
    }

    /// All numbers below that one are durable: up to the first file of which not all is. None if
    /// nothing is known beside what was before.
    pub(crate) fn take_durable(&mut self) -> Option<u64> {
        let mut durable = None;
        while let Some(oldest) = self.files.front() {
            durable = Some(oldest.durable);
            if !oldest.is_closed {
                break;
            }
            self.ledger.add(&oldest.frames);
            self.files.pop_front();
        }
        durable
    }

    /// Files that are durable up to some byte, and behind the first that is not wholly so, nothing.
    /// Without files the next one is `next_index`.
    pub(crate) fn remains(&self, mut next_index: u32) -> Remains {
        let mut ledger = self.ledger.clone();
        let mut cuts = Vec::new();
        for (number, mark) in self.files.iter().enumerate() {
            let is_kept = number == 0 && mark.durable_bytes > 0;
            cuts.push((mark.path.clone(), if is_kept { mark.durable_bytes } else { 0 }));
            if number == 0 {
                ledger.add(&mark.frames);
                next_index = mark.index + u32::from(is_kept);
            }
        }
        Remains { cuts, ledger, next_index }
    }
}
