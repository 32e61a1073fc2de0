//! Runs that grow: new frames in files that are written, and new files.

use std::collections::HashSet;
use std::ffi::OsStr;

use crate::channels;
use crate::error::StorageError;
use crate::open;
use crate::repeated;
use crate::run::{self, Run};

/// What has come since a run was opened, or refreshed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// New frames, of any kind.
    pub frames: usize,
    /// New files.
    pub files: usize,
    /// Files that have been closed.
    pub closed: usize,
}

impl Run {
    /// Looks for what has been written since: frames in files that were not closed, and new files
    /// of the folder. Reads a block of each file that grows, and the folder's list.
    ///
    /// # Errors
    /// Files that cannot be read any more, or do not belong together. What was known stays.
    pub fn refresh(&mut self) -> Result<Refreshed, StorageError> {
        let mut came = Refreshed::default();
        let looked = self.look(&mut came);
        // Also before an error: what came from the other files is known from now on.
        if came != Refreshed::default() {
            self.take_up();
        }
        looked.map(|()| came)
    }

    fn look(&mut self, came: &mut Refreshed) -> Result<(), StorageError> {
        let bytes_read = self.bytes_read_counter();
        let is_folder = self.path().is_dir();
        let paths = if is_folder { open::paths(self.path())? } else { Vec::new() };
        let (files, problems) = self.files_mut();
        for file in files.iter_mut().filter(|file| !file.reader.closed()) {
            file.locked = open::is_locked(&file.path);
            let frames = file
                .reader
                .refresh()
                .map_err(|source| StorageError::Frame { path: file.path.clone(), source })?;
            came.frames += frames;
            came.closed += usize::from(file.reader.closed());
            if file.reader.closed() {
                file.locked = false;
            }
        }
        if is_folder {
            let known: HashSet<_> = files.iter().map(|file| file.path.clone()).collect();
            let mut fresh = Vec::new();
            let mut unread = Vec::new();
            for path in paths.into_iter().filter(|path| !known.contains(path)) {
                match open::open_file(&path, &bytes_read)? {
                    Ok(file) => fresh.push(file),
                    Err(problem) => unread.push(problem),
                }
            }
            files.extend(fresh);
            let ordered = open::put_in_order(files);
            if ordered.is_err() {
                files.retain(|file| known.contains(&file.path));
            }
            let fresh = files.iter().filter(|file| !known.contains(&file.path));
            for file in fresh {
                came.files += 1;
                came.frames += file.reader.frames().len();
            }
            unread.extend(ordered?);
            *problems = unread;
        }
        Ok(())
    }

    /// Whether the run is complete: its last file says that it ended, or none of its files is being
    /// written.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn at_rest(&self) -> Result<bool, StorageError> {
        if self.ended() {
            return Ok(true);
        }
        // A recorder begins the next file before it lets go of the last: in this order none is
        // missed.
        let files = self.run_files();
        let last = files.len() - 1;
        let mut growing =
            files.iter().enumerate().filter(|(at, f)| *at == last || !f.reader.closed());
        if growing.any(|(_, file)| open::is_locked(&file.path)) {
            return Ok(false);
        }
        if !self.path().is_dir() {
            return Ok(true);
        }
        let known = |path: &std::path::Path| files.iter().any(|file| file.path == path);
        for entry in catchment_disk::list_folder(self.path())? {
            let extension = entry.path.extension().and_then(OsStr::to_str);
            let is_next = extension == Some(open::EXTENSION) && !known(&entry.path);
            // A file that is written without a recorder has its name only when it is closed.
            let is_part = entry.name.ends_with(".catch.part");
            if !entry.is_folder && (is_next || is_part) && open::is_locked(&entry.path) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Frames of a run's files: those of events, those of channels, and whether the former's keys rise.
pub(crate) fn frames_of(files: &mut [open::RunFile]) -> (Vec<run::Frame>, Vec<run::Frame>, bool) {
    repeated::mark(files);
    let frames = run::event_frames(files);
    let infos = || frames.iter().map(|frame| frame.summary.info);
    let ordered = infos().all(|info| info.key_first <= info.key_last)
        && infos().zip(infos().skip(1)).all(|(a, b)| a.key_last < b.key_first);
    let channel_frames = channels::channel_frames(files);
    (frames, channel_frames, ordered)
}
