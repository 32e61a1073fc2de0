//! The audit log: one JSON object per line, in a file bounded by rotation.
//!
//! Its own thread writes it, behind a queue of 1,000 lines: a hanging disk must neither block a
//! client nor delay the end of a run. Lines that find the queue full, or cannot be written, are
//! counted, reported in the log, and mentioned in the file as soon as it can be written again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use catchment_telemetry::utc_now;

use crate::api::AuditLine;
use crate::queued::Queued;

/// The size of a file at which the next is begun.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Older files that are kept: `audit.jsonl.1` is the newest.
const OLD_FILES: usize = 4;
/// The most lines that wait to be written.
const QUEUE_MAX: usize = 1_000;

/// The audit log.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    queue: Queued<Box<AuditLine>>,
    losses: Arc<Losses>,
}

/// Lines that are not in the file.
#[derive(Debug, Default)]
struct Losses {
    lines: AtomicU64,
    /// Whether the last line was lost: only the first of many is reported.
    logged: AtomicBool,
}

impl Losses {
    fn count(&self, path: &Path, why: &str) {
        self.lines.fetch_add(1, Relaxed);
        if !self.logged.swap(true, Relaxed) {
            let path = path.display();
            tracing::error!(%path, why, "the audit log cannot be written: lines are lost");
        }
    }
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
        let path = path(folder);
        let losses: Arc<Losses> = Arc::default();
        let (file, shared) = (Some(append(&path)?), Arc::clone(&losses));
        let mut writer = Writer {
            path: path.clone(),
            file,
            bytes_max,
            losses: shared,
            reported: 0,
            torn: false,
        };
        // The end of the program flushes the log first.
        let queue =
            Queued::start("control-audit", QUEUE_MAX, move |line| writer.take(line.as_deref()))?;
        Ok(Self { path, queue, losses })
    }

    /// Queues a line for writing, without waiting.
    pub(crate) fn write(&self, line: AuditLine) {
        tracing::info!(target: "catchment::audit", who = line.who, from = line.from,
            what = line.what, result = line.result, request = line.request.as_deref().unwrap_or(""),
            "{}", line.what);
        if !self.queue.put(Box::new(line)) {
            self.losses.count(&self.path, "too many lines wait");
        }
    }

    /// Waits until all lines are written, at most that long; returns whether they are.
    pub(crate) fn flush(&self, within: Duration) -> bool {
        self.queue.flush(within)
    }

    /// Lines that could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.losses.lines.load(Relaxed)
    }

    /// The newest lines, oldest first.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) fn tail(&self, limit: usize) -> io::Result<Vec<AuditLine>> {
        let mut lines = Vec::new();
        for index in 0..=OLD_FILES {
            let text = match std::fs::read(old(&self.path, index)) {
                // A full disk may have cut a line anywhere.
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
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

/// The state of the thread.
struct Writer {
    path: PathBuf,
    file: Option<(File, u64)>,
    bytes_max: u64,
    losses: Arc<Losses>,
    /// The number of lost lines already mentioned in the file.
    reported: u64,
    /// The last line written may be incomplete.
    torn: bool,
}

impl Writer {
    fn take(&mut self, line: Option<&AuditLine>) {
        self.say_losses();
        if let Some(Err(error)) = line.map(|line| self.write(line)) {
            self.losses.count(&self.path, &error.to_string());
        }
    }

    /// Mentions the missing lines in the file.
    fn say_losses(&mut self) {
        let lost = self.losses.lines.load(Relaxed);
        if lost == self.reported {
            return;
        }
        let lines = lost - self.reported;
        let line = AuditLine {
            time: utc_now().to_string(),
            who: "catchment".into(),
            role: "admin".into(),
            from: "this machine".into(),
            what: "write the audit log".into(),
            result: format!("failed: {lines} lines before this one are lost"),
            ..AuditLine::default()
        };
        if self.write(&line).is_ok() {
            self.reported = lost;
            self.losses.logged.store(false, Relaxed);
            tracing::info!(lines, "the audit log is written again, and tells of its lost lines");
        }
    }

    fn write(&mut self, line: &AuditLine) -> io::Result<()> {
        let mut text = text(line);
        if self.torn {
            text.insert(0, '\n');
        }
        let bytes = text.len() as u64;
        if self.file.as_ref().is_some_and(|(_, length)| length + bytes > self.bytes_max) {
            self.file = None;
            self.rotate()?;
        }
        let (file, length) = match &mut self.file {
            Some(open) => open,
            closed => closed.insert(append(&self.path)?),
        };
        *length += bytes;
        let written = file.write_all(text.as_bytes());
        self.torn = written.is_err();
        written
    }

    fn rotate(&self) -> io::Result<()> {
        for index in (0..OLD_FILES).rev() {
            match std::fs::rename(old(&self.path, index), old(&self.path, index + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes a line about an action on the command line to the log in a node's folder. The node may be
/// running: a line is appended as a whole, and only the node begins new files.
///
/// # Errors
/// It cannot be written.
pub fn audit_command(folder: &Path, what: String, result: String) -> io::Result<()> {
    // SAFETY: it has no arguments and cannot fail.
    let user = unsafe { libc::getuid() };
    let line = AuditLine {
        time: utc_now().to_string(),
        who: format!("user {user}"),
        role: "admin".into(),
        from: "this machine".into(),
        what,
        result,
        ..AuditLine::default()
    };
    std::fs::create_dir_all(folder)?;
    append(&path(folder))?.0.write_all(text(&line).as_bytes())
}

fn path(folder: &Path) -> PathBuf {
    folder.join("audit.jsonl")
}

fn old(path: &Path, index: usize) -> PathBuf {
    match index {
        0 => path.to_owned(),
        index => path.with_extension(format!("jsonl.{index}")),
    }
}

fn text(line: &AuditLine) -> String {
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

fn append(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No write takes that long: reached only if the writer hangs.
    const PATIENCE: Duration = Duration::from_secs(1_200);

    fn line(what: String) -> AuditLine {
        AuditLine { what, ..AuditLine::default() }
    }

    #[test]
    fn the_log_is_bounded_and_its_newest_lines_are_found_across_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::with_size(folder.path(), 1_000).unwrap();
        for number in 0..200 {
            log.write(line(format!("number {number}")));
        }
        assert!(log.flush(PATIENCE));
        let lines = log.tail(20).unwrap();
        let last: Vec<_> = lines.iter().map(|line| line.what.as_str()).collect();
        let expected: Vec<_> = (180..200).map(|number| format!("number {number}")).collect();
        assert_eq!(last, expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), OLD_FILES + 1);
        assert_eq!(log.lost(), 0);
    }

    #[test]
    fn a_line_that_was_cut_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path());
        // Half a line, cut within a character.
        std::fs::write(&path, b"{\"what\": \"caf\xc3").unwrap();
        let file = File::open(&path).map(|file| (file, 0)).ok();
        let losses = Arc::default();
        let mut writer =
            Writer { path: path.clone(), file, bytes_max: 1_000, losses, reported: 0, torn: false };
        writer.write(&line("refused".into())).expect_err("a file that is only read");
        writer.file = None;
        writer.write(&line("first".into())).unwrap();
        writer.write(&line("second".into())).unwrap();
        let lines = AuditLog::open(folder.path()).unwrap().tail(20).unwrap();
        let what: Vec<_> = lines.iter().map(|line| line.what.as_str()).collect();
        assert_eq!(what, ["first", "second"]);
    }

    #[test]
    fn a_disk_that_hangs_holds_up_nobody_and_the_file_says_what_is_missing() {
        use std::io::{BufRead as _, BufReader};
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        // An unread pipe takes 64 KiB, and then hangs.
        let path = path(folder.path());
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is a C string that lives long enough.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let pipe = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let log = AuditLog::open(folder.path()).unwrap();
        let many = QUEUE_MAX + 1_000;
        for number in 0..many {
            log.write(line(format!("{number} {}", "x".repeat(1_000))));
        }
        let lost = log.lost();
        assert!(lost > 0);
        assert!(!log.flush(Duration::from_millis(1)));
        // In the end each line is either present or mentioned as lost.
        let (mut written, mut logged) = (0, 0);
        for line in BufReader::new(pipe).lines() {
            let line: AuditLine = serde_json::from_str(&line.unwrap()).unwrap();
            match line.result.strip_prefix("failed: ") {
                Some(rest) => logged += rest.split(' ').next().unwrap().parse::<u64>().unwrap(),
                None => written += 1,
            }
            if written + logged == many as u64 {
                break;
            }
        }
        assert_eq!(logged, lost);
        assert!(log.flush(PATIENCE));
    }
}
