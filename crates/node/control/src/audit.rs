//! Who did what: one JSON object per line, in a file that is bounded by rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::api::AuditLine;

/// A file's size at which the next is begun.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Older files that are kept: `audit.jsonl.1` is the newest of them.
const OLD_FILES: usize = 4;

/// The audit log.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    file: Mutex<Option<(File, u64)>>,
    bytes_max: u64,
}

impl AuditLog {
    /// The log in a node's folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Self::with_size(folder, FILE_BYTES_MAX)
    }

    fn with_size(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        let path = folder.join("audit.jsonl");
        let file = Mutex::new(Some(append(&path)?));
        Ok(Self { path, file, bytes_max })
    }

    /// Writes a line. What cannot be written is logged: a full disk must not keep anybody from
    /// stopping a run.
    pub(crate) fn write(&self, line: &AuditLine) {
        let mut text = serde_json::to_string(line).unwrap_or_default();
        tracing::info!(target: "catchment::audit", who = line.who, from = line.from,
            what = line.what, result = line.result, request = line.request.as_deref().unwrap_or(""),
            "{}", line.what);
        text.push('\n');
        if let Err(error) = self.append(text.as_bytes()) {
            tracing::error!(%error, path = %self.path.display(), "the audit log cannot be written");
        }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|(_, length)| length + bytes.len() as u64 > self.bytes_max) {
            *slot = None;
            self.rotate()?;
        }
        let (file, length) = match &mut *slot {
            Some(open) => open,
            closed => closed.insert(append(&self.path)?),
        };
        file.write_all(bytes)?;
        *length += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        for index in (0..OLD_FILES).rev() {
            match std::fs::rename(self.old(index), self.old(index + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn old(&self, index: usize) -> PathBuf {
        match index {
            0 => self.path.clone(),
            index => self.path.with_extension(format!("jsonl.{index}")),
        }
    }

    /// The newest lines, oldest first.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) fn tail(&self, limit: usize) -> io::Result<Vec<AuditLine>> {
        let mut lines = Vec::new();
        for index in 0..=OLD_FILES {
            let text = match std::fs::read_to_string(self.old(index)) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let parsed = text.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
            lines.extend(parsed.take(limit - lines.len()));
            if lines.len() >= limit {
                break;
            }
        }
        lines.reverse();
        Ok(lines)
    }
}

fn append(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_its_newest_lines_are_found_across_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::with_size(folder.path(), 1_000).unwrap();
        for number in 0..200 {
            log.write(&AuditLine { what: format!("number {number}"), ..AuditLine::default() });
        }
        let lines = log.tail(20).unwrap();
        let last: Vec<_> = lines.iter().map(|line| line.what.as_str()).collect();
        let expected: Vec<_> = (180..200).map(|number| format!("number {number}")).collect();
        assert_eq!(last, expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), OLD_FILES + 1);
    }
}
