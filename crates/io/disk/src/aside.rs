//! A small text beside the files that are written: appended to by a helper thread, and durable
//! then.
//!
//! One append is under way at a time, and what comes meanwhile goes with the next: the queues to
//! the helpers keep their room for the files. What the disk refuses is kept, and goes with the next
//! too.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::DiskError;
use crate::files::sync_folder_of;
use crate::helper::Job;

/// Text that is kept while the disk refuses it.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What is under way, and what waits.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    path: PathBuf,
    waiting: String,
    under_way: bool,
    error: Option<DiskError>,
}

impl Disk {
    /// Has a text appended to a file, which is made if it is not there, and made durable; never
    /// waits. All appends of a disk are to one file.
    pub fn append_text(&mut self, path: &Path, text: &str) {
        path.clone_into(&mut self.aside.path);
        if self.aside.waiting.len() + text.len() <= KEPT_BYTES_MAX {
            self.aside.waiting.push_str(text);
        }
        self.send_text();
    }

    /// Whether a text is being appended. Its end is noticed by [`poll`](Self::poll) and
    /// [`wait`](Self::wait).
    pub fn text_under_way(&self) -> bool {
        self.aside.under_way
    }

    /// Why the last text could not be appended; once.
    pub fn take_text_error(&mut self) -> Option<DiskError> {
        self.aside.error.take()
    }

    pub(crate) fn text_appended(&mut self, text: String, result: io::Result<()>) {
        self.aside.under_way = false;
        match result {
            Ok(()) if self.aside.waiting.is_empty() => {}
            Ok(()) => self.send_text(),
            Err(error) => {
                self.aside.waiting.insert_str(0, &text);
                self.aside.error = Some(DiskError::path("write", &self.aside.path, error));
            }
        }
    }

    fn send_text(&mut self) {
        if self.aside.under_way {
            return;
        }
        let (path, text) = (self.aside.path.clone(), std::mem::take(&mut self.aside.waiting));
        match self.helper_job(Job::Append { path, text }) {
            Ok(()) => self.aside.under_way = true,
            Err(error) => self.aside.error = Some(error),
        }
    }
}

/// Appends lines to a text file, which is made if it is not there, and makes them durable, and the
/// file's name. Where the last line has no end, because a machine stopped, it gets one first.
///
/// # Errors
/// What the system says.
pub fn append_lines(path: &Path, lines: &str) -> Result<(), DiskError> {
    append(path, lines).map_err(|error| DiskError::path("write", path, error))
}

pub(crate) fn append(path: &Path, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let bytes = file.metadata()?.len();
    let end = if bytes > 0 && last_byte(&mut file)? != b'\n' { "\n" } else { "" };
    // In one call, so that a reader seldom meets half a line.
    file.write_all(format!("{end}{lines}").as_bytes())?;
    file.sync_data()?;
    if bytes == 0 { sync_folder_of(path) } else { Ok(()) }
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DiskConfig;
    use std::time::Duration;

    #[test]
    fn texts_that_come_while_one_is_appended_follow_it_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list");
        std::fs::write(&path, "half a li").expect("writes");
        let mut disk =
            Disk::new(DiskConfig { buffer_count: 2, ..DiskConfig::default() }).expect("a disk");
        let texts: Vec<String> = (0..100).map(|n| format!("line {n}\n")).collect();
        texts.iter().for_each(|text| disk.append_text(&path, text));
        while disk.text_under_way() {
            disk.wait(Duration::from_secs(1), &mut Vec::new());
        }
        assert!(disk.take_text_error().is_none());
        let written = std::fs::read_to_string(&path).expect("reads");
        assert_eq!(written, format!("half a li\n{}", texts.concat()));
    }

    #[test]
    fn what_was_refused_is_told_and_goes_with_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("not yet").join("list");
        let mut disk =
            Disk::new(DiskConfig { buffer_count: 2, ..DiskConfig::default() }).expect("a disk");
        let settle = |disk: &mut Disk| {
            while disk.text_under_way() {
                disk.wait(Duration::from_secs(1), &mut Vec::new());
            }
        };
        disk.append_text(&path, "one\n");
        settle(&mut disk);
        assert!(disk.take_text_error().is_some_and(|error| error.to_string().contains("not yet")));
        assert!(disk.take_text_error().is_none());
        std::fs::create_dir(path.parent().expect("a folder")).expect("made");
        disk.append_text(&path, "two\n");
        settle(&mut disk);
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), "one\ntwo\n");
    }
}
