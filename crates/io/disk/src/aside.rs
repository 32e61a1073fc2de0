//! A small text beside the files being written: a helper thread appends to it and makes it durable.
//!
//! One append is in progress at a time, and lines that arrive meanwhile go with the next: the
//! queues to the helpers are sized for the files. Lines that the disk refuses wait, and go with the
//! next too.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::descriptors;
use crate::disk::Disk;
use crate::error::DiskError;
use crate::files::sync_folder_of;
use crate::helper::Job;

/// Text that waits after the disk refused it.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The append in progress, and the waiting text.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    path: PathBuf,
    header: String,
    waiting: String,
    under_way: bool,
    /// Why the last text was refused, until it is appended.
    refused: Option<DiskError>,
    /// Why lines are lost.
    lost: Option<DiskError>,
}

impl Disk {
    /// Requests that lines be appended to a file and made durable; never waits. A file that does
    /// not exist, or has no whole line, gets the header first. All appends of a disk are to one
    /// file.
    ///
    /// While the disk refuses them, 1 MiB waits; lines beyond that are lost, and
    /// [`take_text_error`](Self::take_text_error) reports it.
    pub fn append_text(&mut self, path: &Path, header: &str, lines: &str) {
        path.clone_into(&mut self.aside.path);
        header.clone_into(&mut self.aside.header);
        if self.aside.waiting.len() + lines.len() <= WAITING_BYTES_MAX {
            self.aside.waiting.push_str(lines);
        } else {
            let full = io::Error::new(io::ErrorKind::QuotaExceeded, "1 MiB waits already");
            self.aside.lost = Some(DiskError::path("write", path, full));
        }
        self.send_text();
    }

    /// Whether a text is being appended. [`poll`](Self::poll) notices its end.
    pub fn text_under_way(&self) -> bool {
        self.aside.under_way
    }

    /// Why some text could not be appended, unless it has been since; returned once.
    pub fn take_text_error(&mut self) -> Option<DiskError> {
        let refused = self.aside.refused.take();
        self.aside.lost.take().or(refused)
    }

    pub(crate) fn text_appended(&mut self, text: String, result: io::Result<()>) {
        self.aside.under_way = false;
        match result {
            Ok(()) => {
                // Refused text went with it.
                self.aside.refused = None;
                if !self.aside.waiting.is_empty() {
                    self.send_text();
                }
            }
            Err(error) => {
                self.aside.waiting.insert_str(0, &text);
                let failed = DiskError::path("write", &self.aside.path, error);
                self.aside.refused.get_or_insert(failed);
            }
        }
    }

    fn send_text(&mut self) {
        if self.aside.under_way {
            return;
        }
        let (path, header) = (self.aside.path.clone(), self.aside.header.clone());
        let text = std::mem::take(&mut self.aside.waiting);
        match self.helper_job(Job::Append { path, header, text }) {
            Ok(()) => self.aside.under_way = true,
            Err(error) => self.aside.lost = Some(error),
        }
    }
}

/// Appends lines to a text file, which is made if it does not exist, and makes them and the file's
/// name durable. A file without a whole line gets the header first. If the last line has no end,
/// because a machine stopped, it gets one.
///
/// # Errors
/// The system's error.
pub fn append_lines(path: &Path, header: &str, lines: &str) -> Result<(), DiskError> {
    append(path, header, lines).map_err(|error| DiskError::path("write", path, error))
}

pub(crate) fn append(path: &Path, header: &str, lines: &str) -> io::Result<()> {
    let open = || OpenOptions::new().read(true).append(true).create(true).open(path);
    let mut file = descriptors::with_spares(open)?;
    let bytes = file.metadata()?.len();
    let end = if bytes > 0 && last_byte(&mut file)? != b'\n' { "\n" } else { "" };
    let header = if has_line(&file)? { "" } else { header };
    // In one call, so that readers seldom find half a line.
    file.write_all(format!("{end}{header}{lines}").as_bytes())?;
    file.sync_data()?;
    if bytes == 0 { sync_folder_of(path) } else { Ok(()) }
}

/// Whether a line ends near the beginning, where a header does.
fn has_line(file: &File) -> io::Result<bool> {
    let mut beginning = [0; 1024];
    let filled = file.read_at(&mut beginning, 0)?;
    Ok(filled == beginning.len() || beginning[..filled].contains(&b'\n'))
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

    fn settle(disk: &mut Disk) {
        while disk.text_under_way() {
            disk.sleeper().sleep(Duration::from_secs(1));
            disk.poll(&mut Vec::new());
        }
    }

    #[test]
    fn texts_that_come_while_one_is_appended_follow_it_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list");
        std::fs::write(&path, "half a li").expect("writes");
        let mut disk =
            Disk::new(DiskConfig { buffer_count: 2, ..DiskConfig::default() }).expect("a disk");
        let texts: Vec<String> = (0..100).map(|n| format!("line {n}\n")).collect();
        texts.iter().for_each(|text| disk.append_text(&path, "header\n", text));
        settle(&mut disk);
        assert!(disk.take_text_error().is_none());
        let written = std::fs::read_to_string(&path).expect("reads");
        assert_eq!(written, format!("half a li\nheader\n{}", texts.concat()));
    }

    #[test]
    fn what_was_refused_is_reported_and_goes_with_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("not yet").join("list");
        let mut disk =
            Disk::new(DiskConfig { buffer_count: 2, ..DiskConfig::default() }).expect("a disk");
        disk.append_text(&path, "header\n", "one\n");
        settle(&mut disk);
        assert!(disk.take_text_error().is_some_and(|error| error.to_string().contains("not yet")));
        assert!(disk.take_text_error().is_none());
        std::fs::create_dir(path.parent().expect("a folder")).expect("made");
        disk.append_text(&path, "header\n", "two\n");
        settle(&mut disk);
        let written = || std::fs::read_to_string(&path).expect("reads");
        assert_eq!(written(), "header\none\ntwo\n");
        // A removed file starts again.
        std::fs::remove_file(&path).expect("removed");
        disk.append_text(&path, "header\n", "three\n");
        settle(&mut disk);
        assert_eq!(written(), "header\nthree\n");
    }

    #[test]
    fn what_waits_is_bounded_and_what_is_lost_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("not yet").join("list");
        let mut disk =
            Disk::new(DiskConfig { buffer_count: 2, ..DiskConfig::default() }).expect("a disk");
        let lines = "line\n".repeat(WAITING_BYTES_MAX / 5);
        disk.append_text(&path, "", &lines);
        settle(&mut disk);
        assert!(disk.take_text_error().is_some());
        disk.append_text(&path, "", "one more\n");
        let error = disk.take_text_error().expect("a line is lost").to_string();
        assert!(error.ends_with("1 MiB waits already"), "{error}");
    }
}
