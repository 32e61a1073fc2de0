//! This program as a process of its own, beside the bench.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context as _;

/// A process of this program, which is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    // Without a reader the process would get a broken pipe.
    lines: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Process {
    /// Starts this program with these arguments in a folder. Its errors go to the file `log`.
    pub(crate) fn start(
        arguments: &[impl AsRef<OsStr>],
        folder: &Path,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            // A Ctrl-C is for the bench, which ends its processes.
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .context("the process does not start")?;
        let lines = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
        Ok(Self { child, lines, log })
    }

    /// What follows `begin` in the next line that begins with it.
    ///
    /// # Errors
    /// The process has ended before: with what it logged.
    pub(crate) fn line(&mut self, begin: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line)? == 0 {
                anyhow::bail!("ended too soon: {}", self.logged());
            }
            if let Some(rest) = line.strip_prefix(begin) {
                return Ok(rest.trim().to_owned());
            }
        }
    }

    /// The next JSON object that it prints.
    ///
    /// # Errors
    /// The process has ended before: with what it logged.
    pub(crate) fn object(&mut self) -> anyhow::Result<serde_json::Value> {
        let mut objects = serde_json::Deserializer::from_reader(&mut self.lines).into_iter();
        let object = objects.next().and_then(Result::ok);
        object.with_context(|| format!("ended too soon: {}", self.logged()))
    }

    /// What it has logged.
    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    /// The system's number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Asks it to end in order.
    pub(crate) fn interrupt(&self) {
        // SAFETY: the process is our child, and not waited for yet.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
    }

    /// Waits for its end, and returns what it has printed since.
    ///
    /// # Errors
    /// It did not end in order. That it lost data is a result, no error.
    pub(crate) fn wait(&mut self) -> anyhow::Result<String> {
        let mut text = String::new();
        self.lines.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        // 3: it lost data.
        anyhow::ensure!(matches!(status.code(), Some(0 | 3)), "{status}: {}", self.logged());
        Ok(text)
    }

    /// Kills it, unless it has ended.
    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
