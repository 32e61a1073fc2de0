//! What becomes of a spill's files: those whose frames are durable at nodes are removed, others are
//! left to the next program, which is told what they have.

use std::io;
use std::path::Path;

use catchment_frame::{EntryNames, decode_ledger};
use catchment_model::Entry;

use super::files::{FileName, is_removed};
use super::{DAMAGED, HEADER_NAME, LOCK_NAME, ListedFile, LostFrames, Spill, StreamLock, add};
use crate::file_steps::RETRY_NS;

/// What is to be told of a spill that is left to another.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind {
    /// Such as that about frames that nobody can take over.
    pub(crate) warnings: Vec<String>,
    /// As [`Spill::take_removed`].
    pub(crate) fragments_removed: Vec<u64>,
}

impl Spill {
    /// Fragments that are lost since this was asked last, by source: those of frames whose files
    /// somebody has removed. Of a file that was read in part before, all count.
    pub(crate) fn take_removed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.fragments_removed)
    }

    /// Fragments that have become durable at nodes since this was asked last, by source: those of
    /// frames whose files were removed.
    pub(crate) fn take_forwarded(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.forwarded)
    }

    /// The frames below that number are durable at the node: removes the files that have nothing
    /// else. Returns warnings about files that are kept.
    pub(crate) fn remove_below(&mut self, durable: u64, now_ns: u64) -> Vec<String> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let done: Vec<u32> =
            self.files.iter().filter(|(_, file)| file.end <= durable).map(|one| *one.0).collect();
        if done.is_empty() {
            self.retry_at_ns = 0;
            return warnings;
        }
        if now_ns < self.retry_at_ns {
            return warnings;
        }
        let _call = self.counts.call();
        // First, so that the next program does not take them for files that somebody has removed.
        if done.iter().any(|index| self.lock.listed(*index).is_some())
            && self.lock.set_below(durable).is_err()
        {
            // A full file system has room for the line once a file is gone: after a kill before
            // it is written, that file is counted as lost.
            let whole = done.iter().find(|index| self.files[*index].damage.is_none());
            if let Some(&index) = whole {
                self.remove_file(index, &mut warnings);
            }
            if let Err(error) = self.lock.set_below(durable) {
                self.retry_at_ns = now_ns.saturating_add(RETRY_NS);
                let folder = self.folder.display();
                warnings.push(format!("files in {folder} stay that were forwarded: {error}"));
                return warnings;
            }
        }
        self.retry_at_ns = 0;
        done.into_iter().for_each(|index| self.remove_file(index, &mut warnings));
        self.show_first();
        warnings
    }

    /// Whether files stay that were forwarded, since the folder does not take what must be written
    /// before.
    pub(super) fn keeps_forwarded(&self) -> bool {
        self.retry_at_ns > 0
    }

    /// Removes a file of which everything was forwarded, or keeps it aside if it is damaged.
    fn remove_file(&mut self, index: u32, warnings: &mut Vec<String>) {
        let is_open = self.writer.file_bytes().is_some()
            && self.files.last_key_value().is_some_and(|(last, _)| *last == index);
        let Some(file) = self.files.get(&index) else { return };
        // Written, and not synced yet.
        if is_open && file.frames == 0 {
            return;
        }
        let path = file.path.clone();
        let forwarded = self.readable_fragments(index);
        add(&mut self.forwarded, &forwarded);
        let Some(file) = self.files.get(&index) else { return };
        let removed = match &file.damage {
            Some(damage) => {
                let aside = path.with_extension(DAMAGED);
                let renamed = std::fs::rename(&path, &aside);
                let kept = renamed.as_ref().map(|()| format!("kept as {}", aside.display()));
                let kept = kept.unwrap_or_else(|_| "not kept".to_owned());
                warnings.push(format!("{damage}; the file is {kept}"));
                renamed
            }
            None if is_open => self.writer.remove(&path),
            None => std::fs::remove_file(&path),
        };
        let is_gone = removed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if is_gone {
            let read = forwarded.iter().chain(std::iter::repeat(&0));
            let lost = file.fragments.iter().zip(read).map(|(all, read)| all.saturating_sub(*read));
            add(&mut self.fragments_removed, &lost.collect::<Vec<u64>>());
        }
        if let Err(error) = removed
            && !is_gone
        {
            warnings.push(format!("cannot remove {}: {error}", path.display()));
        }
        let own = self.frames.iter().filter(|((_, of), _)| *of == index);
        let lost = own.filter(|(_, place)| place.is_unreadable).count() as u64;
        if let Some(file) = self.files.remove(&index) {
            self.counts.removed(file.frames, lost.min(file.frames), file.bytes);
            self.counts.damaged(u64::from(file.damage.is_some() && !is_gone));
        }
        self.frames.retain(|(_, of), _| *of != index);
        self.reader.take_if(|(open, _)| *open == index);
    }

    /// Fragments of the frames of a file that could be read, by source, if it is of this run.
    fn readable_fragments(&mut self, index: u32) -> Vec<u64> {
        let Some(file) = self.files.get(&index) else { return Vec::new() };
        let mut fragments = file.fragments.clone();
        let own = self.frames.iter().filter(|((_, of), _)| *of == index);
        let read = own.clone().filter(|(_, place)| !place.is_unreadable);
        let read: Vec<u64> = read.map(|((number, _), _)| *number).collect();
        if fragments.is_empty() || read.len() == own.count() {
            return fragments;
        }
        // What those have that were lost is not known: the others are read again.
        fragments.fill(0);
        for number in read {
            let Ok(frame) = self.read_at(index, number) else { continue };
            let records = frame.ledger.as_deref().unwrap_or_default();
            let ledger = decode_ledger(records, &EntryNames::default(), fragments.len());
            for (sum, source) in fragments.iter_mut().zip(ledger.unwrap_or_default().sources) {
                *sum = sum.saturating_add(source[Entry::FragmentsRecorded]);
            }
        }
        fragments
    }

    /// Another takes over what waits: it counts here no more. Frames below that number are durable
    /// at nodes.
    pub(crate) fn hand_over(mut self, below: u64) -> LeftBehind {
        let below = below.max(self.forwarded_below());
        // What was synced can be read nevertheless.
        let _call = self.counts.call();
        let _closed = self.close();
        let (mut frames, mut bytes, mut lost) = (0, 0, LostFrames::new());
        let mut are_there = Vec::new();
        for (&index, file) in &self.files {
            if !is_removed(&file.path) {
                (frames, bytes) = (frames + file.frames, bytes + file.bytes);
                // Of one that is damaged the line stays that says what it had.
                are_there.extend(file.damage.is_none().then_some(index));
                continue;
            }
            let own = self.frames.iter().filter(|((_, of), _)| *of == index);
            let (mut missing, mut uncounted) = (0, 0);
            for (_, place) in own.filter(|(_, place)| place.end > below) {
                missing += 1;
                // One that was found unreadable is counted.
                uncounted += u64::from(!place.is_unreadable);
            }
            if missing > 0 {
                self.lock.set_lost(file.first.max(below)..file.end);
                add(&mut self.fragments_removed, &file.fragments);
            }
            if uncounted > 0 {
                lost.insert(index, uncounted);
            }
            self.counts.removed(file.frames, file.frames.min(missing), file.bytes);
        }
        self.counts.hand_over(frames, bytes);
        // If it is not written, some are sent, or counted, again.
        let first = self.first();
        let _written = self.lock.leave(below, first);
        are_there.into_iter().for_each(|index| self.list_file(index, below));
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.counts.lost_with_files(&lost, &self.folder));
        LeftBehind { warnings, fragments_removed: self.take_removed() }
    }

    /// Everything was forwarded: removes the folder, unless something is kept in it. Returns a
    /// warning about that.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn finish(mut self) -> io::Result<Option<String>> {
        let _call = self.counts.call();
        let list = catchment_disk::list_folder(&self.folder).map_err(io::Error::other)?;
        let own = [LOCK_NAME, HEADER_NAME];
        let others = list.iter().filter(|entry| !own.contains(&entry.name.as_str()));
        let others: Vec<&str> = others.map(|entry| entry.name.as_str()).collect();
        if !others.is_empty() {
            self.lock.set_forwarded()?;
            let text = format!("{} stays, with {}", self.folder.display(), others.join(", "));
            return Ok(Some(text));
        }
        std::fs::remove_file(self.folder.join(HEADER_NAME))?;
        remove_folder(self.lock, &self.folder)?;
        Ok(None)
    }

    /// Lists a file with what is not durable at nodes, of which all below that number is.
    pub(super) fn list_file(&mut self, index: u32, below: u64) {
        let Some(file) = self.files.get(&index) else { return };
        let own = self.frames.iter().filter(|((_, of), _)| *of == index);
        let frames = own.filter(|(_, place)| place.end > below).count() as u64;
        if frames > 0 {
            let listed = ListedFile { numbers: file.first.max(below)..file.end, frames };
            // If it is not written, nobody will know that the file was removed.
            let _written = self.lock.list_file(index, listed);
        }
    }
}

/// What is said of so many frames in files that were removed.
pub(crate) fn removed_words(frames: u64, lost: &LostFrames, folder: &Path) -> String {
    let named = lost.keys().take(FILES_NAMED_MAX).map(|index| FileName::pattern(*index));
    let mut names: Vec<String> = named.collect();
    names.extend((lost.len() > FILES_NAMED_MAX).then(|| "others".to_owned()));
    let (names, folder) = (names.join(", "), folder.display());
    format!("{frames} spilled frames are lost: their files in {folder} were removed ({names})")
}

const FILES_NAMED_MAX: usize = 5;

pub(super) fn remove_folder(lock: StreamLock, folder: &Path) -> io::Result<()> {
    lock.remove()?;
    std::fs::remove_dir(folder)
}
