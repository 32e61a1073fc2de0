//! The spill of a target: a folder that takes what a required storage node, or a folder, cannot
//! take now. What is said of a node here holds for such a folder, too.
//!
//! Each stream has a folder of its own in it, which `STREAM.lock` makes one (spill/identity.rs):
//!
//! ```text
//! SPILL/run-20261128-0a1b2c3d/STREAM.lock      whose frames these are, locked
//!                             STREAM.header    the header of the stream's files at the node
//!                             spill-00000-40.catch    frame files, as everywhere: which they
//!                             spill-00001-58.catch    are, and the first number in them
//!                             spill-00002-71.damaged  what could not be sent, for people
//! ```
//!
//! The first number in a name says where a file's frames belong that cannot be read.
//!
//! A frame that was synced here counts as durable. A file is removed when the node has said that
//! all its frames are durable there, and not before. What cannot be read is stood for by a skipped
//! frame, so that the rest can be sent, and its file is kept aside under another name; what the
//! system does not read now is tried again. Files and folders of others are left alone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_agent::Entropy;
use catchment_frame::{DealtPart, FileHeader};

use crate::spill_counts::SpillCounts;
use crate::store_feed::Outgoing;
use crate::store_nodes::header_of_part;

mod backlog;
mod dealt;
mod ending;
mod files;
mod folder;
pub(crate) mod forward;
pub(crate) mod forwarded;
mod identity;
mod made;
mod reader;
mod writer;

pub(crate) use backlog::Backlog;
pub(crate) use dealt::HOLD_BYTES;
use ending::remove_folder;
pub(crate) use ending::{LeftBehind, removed_words};
use files::{FileName, bytes_beside, is_removed};
pub(crate) use identity::{Found, Identity, LOCK_NAME, ListedFile, LostFrames, StreamLock};
pub(crate) use reader::outgoing;
use reader::{SpillReader, Unread};
use writer::SpillWriter;

const HEADER_NAME: &str = "STREAM.header";
const DAMAGED: &str = "damaged";
/// A file is one of so many parts of the bound, within limits.
const FILES: u64 = 16;
const FILE_BYTES_MIN: u64 = 1 << 20;
const FILE_BYTES_MAX: u64 = 256 << 20;
/// What a file has beside its frames: its table of contents, about.
const TOC_BYTES: u64 = 64 << 10;
/// What a column takes beside its bytes, about: its entries, and padding.
const COLUMN_BYTES: u64 = 256;

/// Where a target spills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillConfig {
    /// The folder, which no other target spills to.
    pub folder: PathBuf,
    /// Bytes of all that is in it, at most.
    pub bytes_max: u64,
}

impl SpillConfig {
    /// Bytes of a file before the next is begun.
    pub(crate) fn file_bytes(&self) -> u64 {
        (self.bytes_max / FILES).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX)
    }
}

/// A stream's folder.
pub(crate) struct Spill {
    folder: PathBuf,
    lock: StreamLock,
    header: FileHeader,
    header_bytes: Vec<u8>,
    counts: Arc<SpillCounts>,
    writer: SpillWriter,
    /// By index.
    files: BTreeMap<u32, SpillFile>,
    /// The file that is being read.
    reader: Option<(u32, SpillReader)>,
    /// By number and file.
    frames: BTreeMap<(u64, u32), Place>,
    next_index: u32,
    /// Bytes of a file before the next is begun.
    file_bytes: u64,
    /// Bytes of other streams' folders, when the present file was begun.
    others_bytes: u64,
    /// Fragments of files that were removed since they were asked for last, by source; and those
    /// that are lost since somebody else had removed their file.
    forwarded: Vec<u64>,
    fragments_removed: Vec<u64>,
    /// What is to be said of files.
    warnings: Vec<String>,
    /// When files that were forwarded are removed again, if they are refused; otherwise 0.
    retry_at_ns: u64,
}

#[derive(Clone, Copy)]
struct Place {
    /// One above the last number of the frame there.
    end: u64,
    is_unreadable: bool,
}

struct SpillFile {
    path: PathBuf,
    /// The number of its first frame.
    first: u64,
    bytes: u64,
    /// Those that were there at the last sync.
    synced_bytes: u64,
    frames: u64,
    /// One above the number of its last frame.
    end: u64,
    /// Why it is kept.
    damage: Option<String>,
    /// How many more frames it had, under numbers that are not known; none: nor is how many.
    unplaced: Option<u64>,
    /// Fragments of its frames, by source; empty if it is not of this run.
    fragments: Vec<u64>,
}

impl SpillFile {
    fn new(path: PathBuf, first: u64) -> Self {
        Self {
            path,
            first,
            bytes: 0,
            synced_bytes: 0,
            frames: 0,
            end: 0,
            damage: None,
            unplaced: Some(0),
            fragments: Vec::new(),
        }
    }
}

/// What there is at a number.
pub(crate) enum Next {
    Frame(Box<Outgoing>),
    /// Frames below that number cannot be read.
    Missing(u64),
    /// It cannot be read now, and may be later; why.
    Later(String),
    /// Nothing there or behind it.
    End,
}

/// Why a frame was not spilled.
pub(crate) enum NotSpilled {
    /// The bound of the spill.
    Full,
    Failed(io::Error),
}

impl From<io::Error> for NotSpilled {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Spill {
    /// Makes the folder of a stream, which spills its first frame. `header` is that of its files.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn create(
        config: &SpillConfig,
        identity: Identity,
        header_bytes: &[u8],
        counts: &Arc<SpillCounts>,
    ) -> io::Result<Self> {
        let _call = counts.call();
        let (header, _) = FileHeader::decode(header_bytes).map_err(io::Error::other)?;
        std::fs::create_dir_all(&config.folder)?;
        let folder = config.folder.join(&identity.name);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => std::fs::File::open(&config.folder)?.sync_all()?,
        }
        if folder.join(LOCK_NAME).symlink_metadata().is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it has another stream"));
        }
        // Before the lock, with which the folder is a stream: if it fails, this is tried again.
        let path = folder.join(HEADER_NAME);
        std::fs::write(&path, header_bytes)?;
        std::fs::File::open(&path)?.sync_all()?;
        let lock = StreamLock::create(&folder, identity)?;
        Ok(Self::new(folder, lock, header, header_bytes.to_vec(), counts))
    }

    /// What an earlier run has left in a folder that was taken.
    ///
    /// # Errors
    /// Why it cannot be forwarded.
    pub(crate) fn left(
        lock: StreamLock,
        folder: &Path,
        counts: &Arc<SpillCounts>,
    ) -> Result<Self, String> {
        let _call = counts.call();
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
        let list = catchment_disk::list_folder(folder).map_err(|error| error.to_string())?;
        let files: Vec<(FileName, PathBuf, u64)> = list
            .into_iter()
            .filter_map(|entry| Some((FileName::of(&entry.path)?, entry.path, entry.bytes)))
            .collect();
        let header = std::fs::read(folder.join(HEADER_NAME)).map_err(|error| said(&error));
        let decoded = header.and_then(|bytes| {
            let (header, _) = FileHeader::decode(&bytes).map_err(|error| said(&error))?;
            Ok((header, bytes))
        });
        let (header, bytes) = decoded.map_err(|why| format!("{why} ({HEADER_NAME})"))?;
        let of = (lock.identity.run, lock.identity.stream, lock.identity.variant);
        if (header.run, header.stream, header.variant) != of {
            return Err(said(&format_args!("{HEADER_NAME} is that of another stream")));
        }
        let mut spill = Self::new(folder.to_owned(), lock, header, bytes, counts);
        for (name, path, bytes) in files {
            if let Err(why) = spill.add_left(name, path, bytes) {
                let _none_is_gone = spill.hand_over(0);
                return Err(why);
            }
        }
        spill.extend_damaged();
        let files = &spill.files;
        let lost = spill.lock.count_removed(|index| files.contains_key(&index));
        spill.warnings.extend(spill.counts.lost_with_files(&lost, folder));
        Ok(spill)
    }

    /// Whether a folder that is a stream has nothing in it yet.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn is_blank(folder: &Path) -> io::Result<bool> {
        let list = catchment_disk::list_folder(folder).map_err(io::Error::other)?;
        Ok(list.iter().all(|entry| entry.name == LOCK_NAME))
    }

    fn new(
        folder: PathBuf,
        lock: StreamLock,
        header: FileHeader,
        header_bytes: Vec<u8>,
        counts: &Arc<SpillCounts>,
    ) -> Self {
        // Spilled files are not read while they grow.
        let header = FileHeader { locator: false, target: None, ..header };
        Self {
            folder,
            lock,
            writer: SpillWriter::new(&header),
            header,
            header_bytes,
            counts: Arc::clone(counts),
            files: BTreeMap::new(),
            reader: None,
            frames: BTreeMap::new(),
            next_index: 0,
            file_bytes: FILE_BYTES_MIN,
            others_bytes: 0,
            forwarded: Vec::new(),
            fragments_removed: Vec::new(),
            warnings: Vec::new(),
            retry_at_ns: 0,
        }
    }

    /// # Errors
    /// The system does not read the file, which may be whole.
    fn add_left(&mut self, name: FileName, path: PathBuf, bytes: u64) -> Result<(), String> {
        let FileName { index, first: begins } = name;
        self.next_index = self.next_index.max(index.saturating_add(1));
        let (reader, damage) = match SpillReader::open(&path, &self.header) {
            Ok(reader) => {
                let damage = reader.damage();
                (Some(reader), damage)
            }
            Err(Unread::Damaged(problem)) => (None, Some(problem)),
            Err(Unread::Unavailable(why)) => return Err(why),
        };
        let (mut count, mut end) = (0, 0);
        for (first, behind) in reader.iter().flat_map(SpillReader::numbers) {
            self.frames.insert((first, index), Place { end: behind, is_unreadable: false });
            count += 1;
            end = end.max(behind);
        }
        self.counts.found(count, bytes);
        let mut damage = damage.or((count == 0).then(|| "it has no whole frame".to_owned()));
        let mut unplaced = None;
        if let Some(listed) = self.lock.listed(index) {
            end = end.max(listed.numbers.end);
            let is_left = |(_, behind): &(u64, u64)| *behind > listed.numbers.start;
            let left = reader.iter().flat_map(SpillReader::numbers).filter(is_left).count();
            let gone = listed.frames.saturating_sub(left as u64);
            unplaced = Some(gone);
            if gone > 0 {
                let text = || format!("{}: {gone} of its frames are not there", path.display());
                damage.get_or_insert_with(text);
            }
        }
        let (synced_bytes, frames) = (bytes, count);
        let own = SpillFile::new(path, begins);
        let file = SpillFile { bytes, synced_bytes, frames, end, damage, unplaced, ..own };
        self.files.insert(index, file);
        Ok(())
    }

    /// A damaged file may have had frames up to the first one of the next file: it is not set aside
    /// before their turn.
    fn extend_damaged(&mut self) {
        let mut behind = self.lock.end;
        let is_dealt = self.lock.identity.is_dealt();
        for file in self.files.values_mut().rev() {
            if file.damage.is_some() && (file.unplaced.is_none() || !is_dealt) {
                file.end = file.end.max(behind.unwrap_or(file.first));
            }
            behind = Some(file.first);
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.lock.identity
    }

    /// The header of the stream's files at a node, which has that part of the frames.
    pub(crate) fn header_of(&self, part: DealtPart) -> Vec<u8> {
        // It was decoded before.
        match FileHeader::decode(&self.header_bytes) {
            Ok((header, _)) if part.count > 1 => {
                header_of_part(&header, header.target.as_deref().unwrap_or_default(), part)
            }
            _ => self.header_bytes.clone(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of its sources.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        self.header.schema.sources.iter().map(|source| &*source.name)
    }

    /// Whether none of its frames is known to be lost.
    pub(super) fn is_whole(&self) -> bool {
        self.lock.is_whole()
    }

    /// What the stream's files begin with.
    pub(crate) fn stream_header(&self) -> io::Result<FileHeader> {
        // That of spilled files differs.
        let (header, _) = FileHeader::decode(&self.header_bytes).map_err(io::Error::other)?;
        Ok(header)
    }

    /// The number behind the last frame of the run, if it has ended, and behind the one that is
    /// made of it here, if there is one.
    pub(crate) fn run_end(&self) -> Option<u64> {
        self.closing_end().or(self.lock.end)
    }

    /// The number behind the last frame of its files, or behind the last one of its run.
    pub(crate) fn end(&self) -> u64 {
        self.files_end().max(self.lock.end.unwrap_or(0))
    }

    /// The number behind the last frame of its files, as far as that is known.
    pub(crate) fn files_end(&self) -> u64 {
        self.files.values().map(|file| file.end).max().unwrap_or(0)
    }

    /// As [`Spill::files_end`], and behind the frame that is made here, if there is one.
    pub(crate) fn read_end(&self) -> u64 {
        self.files_end().max(self.closing_end().unwrap_or(0))
    }

    /// What was spilled below that number was durable at nodes when the folder was left.
    pub(crate) fn forwarded_below(&self) -> u64 {
        self.lock.below.unwrap_or(0)
    }

    /// A single node that goes on below that number has lost frames. A program that was killed did
    /// not write how far the node was: then it is the first one that was spilled, if there is any,
    /// whether its file is there or was removed.
    pub(crate) fn begins_at(&self) -> Option<u64> {
        let first = || [self.first(), self.lock.first_listed()].into_iter().flatten().min();
        self.lock.below.or_else(first)
    }

    /// The first of its frames that its folder may show without having it durably, if any. Those
    /// of files that were removed were durable.
    pub(crate) fn doubted_from(&self) -> Option<u64> {
        Some(self.lock.doubt?.max(self.first()?))
    }

    /// Shows from which number on frames may be here alone: before they count as durable.
    fn show_first(&self) {
        self.counts.set_first(self.files.values().map(|file| file.first).min());
    }

    /// The number of its first frame.
    fn first(&self) -> Option<u64> {
        self.files.values().next().map(|file| file.first)
    }

    /// How many frames with numbers from `from` on, below `until`, are lost of a stream that
    /// several nodes share: the one that begins there cannot be read, or damaged files may have had
    /// them. The other numbers in between are those of frames that nodes have.
    pub(crate) fn lost_between(&mut self, from: u64, until: u64) -> u64 {
        if self.frames.range((from, 0)..=(from, u32::MAX)).next().is_some() {
            return until.saturating_sub(from);
        }
        let mut lost = 0_u64;
        for file in self.files.values_mut().filter(|file| file.damage.is_some()) {
            let numbers = file.end.min(until).saturating_sub(file.first.max(from));
            let own = file.unplaced.map_or(numbers, |unplaced| unplaced.min(numbers));
            file.unplaced = file.unplaced.map(|unplaced| unplaced - own);
            lost = lost.saturating_add(own);
        }
        lost
    }

    /// Whether frames with numbers from `from` on, below `until`, are missing because their file
    /// was removed: no damaged file that is still there may have had them.
    pub(crate) fn is_removed_between(&self, from: u64, until: u64) -> bool {
        let mut files = self.files.values().filter(|file| file.damage.is_some());
        !files.any(|file| file.first < until && from < file.end && !is_removed(&file.path))
    }

    /// How many of the numbers from `from` on, below `until`, are not counted as lost. From now on
    /// they are.
    pub(crate) fn count_lost(&mut self, from: u64, until: u64) -> u64 {
        let uncounted = self.lock.uncounted(from, until);
        self.lock.set_lost(from..until);
        uncounted
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// From that number on what its folder shows may not be durable there.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_doubt(&mut self, from: u64) -> io::Result<()> {
        let _call = self.counts.call();
        self.lock.set_doubt(from)
    }

    /// The run has ended, and no frame has that number or a higher one, but for one that counts
    /// what was `moved` of each source ([`Spill::closing`]).
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_run_end(&mut self, end: u64, moved: Vec<[u64; 2]>) -> io::Result<()> {
        let _call = self.counts.call();
        self.lock.set_end(end, moved)
    }

    /// Writes a frame. It is durable when [`Spill::sync`] has succeeded; if any of the two fails,
    /// what was written since the last sync must be written again.
    ///
    /// # Errors
    /// There is no room, or the system refuses.
    pub(crate) fn put(
        &mut self,
        frame: &Outgoing,
        config: &SpillConfig,
        entropy: &mut dyn Entropy,
    ) -> Result<(), NotSpilled> {
        let _call = self.counts.call();
        // A file is left when it is synced: frames that are not stand in one file.
        self.file_bytes = config.file_bytes();
        let header_bytes = self.header_bytes.len() as u64;
        let more = frame.bytes()
            + frame.bytes() / 1024
            + header_bytes
            + TOC_BYTES
            + COLUMN_BYTES * frame.columns.len() as u64;
        if self.writer.file_bytes().is_none() {
            self.others_bytes = bytes_beside(&config.folder, &self.folder)?;
        }
        if self.counts.waiting_bytes() + self.others_bytes + more > config.bytes_max {
            return Err(NotSpilled::Full);
        }
        if self.writer.file_bytes().is_none() {
            self.begin(frame.info.sequence, entropy)?;
        }
        if let Err(error) = self.writer.write(frame) {
            self.abandon();
            return Err(error.into());
        }
        self.grown();
        Ok(())
    }

    fn begin(&mut self, first: u64, entropy: &mut dyn Entropy) -> io::Result<()> {
        let index = self.next_index;
        let path = self.folder.join(FileName { index, first }.to_string());
        let file_id = entropy.random_u64().map_err(io::Error::other)?;
        let header = FileHeader { file_index: index, file_id, ..self.header.clone() };
        self.next_index += 1;
        if path.symlink_metadata().is_ok() {
            let text = format!("{} is there", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let file = SpillFile::new(path.clone(), first);
        if let Err(error) = self.writer.begin(path.clone(), &header) {
            self.writer.abandon();
            let _removed = std::fs::remove_file(path);
            return Err(error);
        }
        self.files.insert(index, file);
        self.grown();
        Ok(())
    }

    /// The present file has other bytes now.
    fn grown(&mut self) {
        let Some(bytes) = self.writer.file_bytes() else { return };
        if let Some((_, file)) = self.files.last_key_value() {
            self.counts.grown(file.bytes, bytes);
        }
        if let Some(mut last) = self.files.last_entry() {
            last.get_mut().bytes = bytes;
        }
    }

    /// Makes these frames, which were written since the last sync, durable.
    ///
    /// # Errors
    /// The system refuses: they must be written again.
    pub(crate) fn sync<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Outgoing>,
    ) -> io::Result<()> {
        let _call = self.counts.call();
        let present = self.files.last_key_value().map(|(_, file)| &file.path);
        let synced = self.writer.sync().and_then(|()| match present {
            // Its frames are still in memory, and go to another file.
            Some(path) if is_removed(path) => Err(io::Error::other("its file was removed")),
            _ => Ok(()),
        });
        if let Err(error) = synced {
            self.abandon();
            return Err(error);
        }
        let Some(mut last) = self.files.last_entry() else { return Ok(()) };
        let index = *last.key();
        let file = last.get_mut();
        file.synced_bytes = file.bytes;
        for frame in frames {
            let place = Place { end: frame.end(), is_unreadable: false };
            self.frames.insert((frame.info.sequence, index), place);
            (file.frames, file.end) = (file.frames + 1, frame.end());
            self.counts.spilled(1, frame.bytes());
        }
        let listed = ListedFile { numbers: file.first..file.end, frames: file.frames };
        // If it is not written, nobody will know that the file was removed.
        let _written = self.lock.list_open(index, listed);
        self.show_first();
        if self.writer.file_bytes().is_some_and(|bytes| bytes >= self.file_bytes) {
            // If it cannot be closed, what was synced can be read nevertheless.
            let _left = self.close();
        }
        Ok(())
    }

    /// The frames that were synced last have these fragments, by source.
    pub(crate) fn count_fragments(&mut self, fragments: &[u64]) {
        if let Some(mut last) = self.files.last_entry() {
            add(&mut last.get_mut().fragments, fragments);
        }
    }

    /// Leaves the present file, which has failed. What was synced in it stays.
    fn abandon(&mut self) {
        self.writer.abandon();
        let is_empty = self.files.last_key_value().is_some_and(|(_, file)| file.frames == 0);
        if is_empty && let Some((_, file)) = self.files.pop_last() {
            self.counts.removed(0, 0, file.bytes);
            let _removed = std::fs::remove_file(&file.path);
            return;
        }
        // What was not synced is written again, in another file: it must not be found in both.
        if let Some(mut last) = self.files.last_entry()
            && last.get().synced_bytes < last.get().bytes
        {
            let file = last.get_mut();
            let open = std::fs::OpenOptions::new().write(true).open(&file.path);
            if open.and_then(|open| open.set_len(file.synced_bytes)).is_ok() {
                self.counts.grown(file.bytes, file.synced_bytes);
                file.bytes = file.synced_bytes;
            }
        }
    }

    /// Closes the present file, so that it can be read.
    ///
    /// # Errors
    /// The system refuses: what was synced can be read nevertheless.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let closed = self.writer.close()?;
        if closed > 0
            && let Some(mut last) = self.files.last_entry()
        {
            self.counts.grown(last.get().bytes, closed);
            last.get_mut().bytes = closed;
            let index = *last.key();
            self.list_file(index, 0);
        }
        Ok(())
    }

    /// What there is at a number: the frame that begins there.
    pub(crate) fn read(&mut self, number: u64) -> Next {
        let _call = self.counts.call();
        let at = self.frames.range((number, 0)..=(number, u32::MAX));
        let at: Vec<(u32, Place)> = at.map(|((_, file), place)| (*file, *place)).collect();
        for &(index, place) in &at {
            if place.is_unreadable {
                continue;
            }
            let problem = match self.read_at(index, number) {
                Ok(frame) => return Next::Frame(Box::new(frame)),
                Err(Unread::Damaged(problem)) => problem,
                Err(Unread::Unavailable(why)) => {
                    // It is opened again.
                    self.reader = None;
                    return Next::Later(why);
                }
            };
            if let Some(place) = self.frames.get_mut(&(number, index)) {
                place.is_unreadable = true;
            }
            if let Some(file) = self.files.get_mut(&index) {
                file.damage.get_or_insert(problem);
            }
        }
        let behind = at.first().map(|(_, place)| place.end);
        let next = self.frames.range((number.saturating_add(1), 0)..).next();
        let next = next.map(|((first, ..), _)| *first);
        // A damaged file may have had more. Between the frames of several nodes are gaps anyway.
        let is_dealt = self.lock.identity.is_dealt();
        let damaged = || Some(self.files_end()).filter(|end| !is_dealt && *end > number);
        let behind = behind.or(next).or(self.lock.end.filter(|end| *end > number));
        match behind.or_else(damaged) {
            Some(until) => Next::Missing(until),
            None => Next::End,
        }
    }

    fn read_at(&mut self, index: u32, number: u64) -> Result<Outgoing, Unread> {
        let is_last = self.files.last_key_value().is_some_and(|(last, _)| *last == index);
        if is_last && self.writer.file_bytes().is_some() {
            // If it cannot be closed, it is read as it is.
            let _left = self.close();
        }
        if let Some((_, reader)) = self.reader.as_ref().filter(|(open, _)| *open == index) {
            return reader.read(number);
        }
        let Some(file) = self.files.get(&index) else {
            return Err(Unread::Damaged("it is gone".to_owned()));
        };
        let reader = SpillReader::open(&file.path, &self.header)?;
        self.reader.insert((index, reader)).1.read(number)
    }
}

/// Adds fragments by source.
fn add(sum: &mut Vec<u64>, more: &[u64]) {
    sum.resize(sum.len().max(more.len()), 0);
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

#[cfg(test)]
mod tests;
