//! A storage node in a process of its own, as `catchment store` runs it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A storage node, which is gone with its files when this is dropped.
pub(crate) struct Node {
    child: Child,
    lines: ChildStdout,
    folder: PathBuf,
    pub(crate) address: String,
}

/// What a storage node says at its end.
#[derive(Debug, Deserialize)]
pub(crate) struct Counts {
    pub(crate) frames_taken: u64,
    pub(crate) frames_repeated: u64,
    pub(crate) frames_corrupt: u64,
    pub(crate) faults: u64,
    pub(crate) disk_faults: u64,
    pub(crate) streams: Vec<OfStream>,
}

/// A stream of it.
#[derive(Debug, Deserialize)]
pub(crate) struct OfStream {
    pub(crate) name: String,
    pub(crate) take: Phase,
    pub(crate) write: Phase,
    pub(crate) sync: Phase,
    pub(crate) has_ended: bool,
}

/// How long something took, over all times.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Phase {
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: u64,
}

impl Phase {
    /// Of several streams.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            total_ns: self.total_ns + other.total_ns,
            max_ns: self.max_ns.max(other.max_ns),
        }
    }

    /// Mean and longest time, in ms.
    pub(crate) fn text(self) -> String {
        let ms = |ns: f64| format!("{:.1}", ns / 1e6);
        let mean = self.total_ns as f64 / self.count.max(1) as f64;
        format!("{} / {}", ms(mean), ms(self.max_ns as f64))
    }
}

impl Node {
    /// Starts a node whose files are in a folder of its own below `scratch`. `memory_bytes` bounds
    /// what it holds.
    pub(crate) fn start(
        scratch: &Path,
        memory_bytes: u64,
        preallocate_bytes: u64,
    ) -> anyhow::Result<Self> {
        let folder = std::path::absolute(scratch)?.join(format!("store-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let text = format!(
            "[store]\nfolder = \"stored\"\n[memory]\nbudget = {memory_bytes}\n\
             [write]\nfile_bytes = \"1 TiB\"\npreallocate_bytes = {preallocate_bytes}\n\
             [[listen]]\naddress = \"127.0.0.1:0\"\n",
        );
        std::fs::write(folder.join("store.toml"), text)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["store", "store.toml", "--json"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            // A Ctrl-C is for the bench, which ends the node.
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("store.log"))?)
            .spawn()
            .context("the storage node does not start")?;
        let lines = child.stdout.take().expect("a pipe was asked for");
        let mut node = Self { child, lines, folder, address: String::new() };
        let mut objects = serde_json::Deserializer::from_reader(&mut node.lines).into_iter();
        let first: Option<Result<Value, _>> = objects.next();
        match first.and_then(Result::ok).and_then(|first| Some(first["address"].as_str()?.into())) {
            Some(address) => node.address = address,
            None => {
                let logged = std::fs::read_to_string(node.folder.join("store.log"));
                anyhow::bail!("no storage node: {}", logged.unwrap_or_default().trim());
            }
        }
        Ok(node)
    }

    /// The system's number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The folder of a stream.
    pub(crate) fn stored(&self, stream: &str) -> PathBuf {
        self.folder.join("stored").join(stream)
    }

    /// Ends it in order; what it has done.
    pub(crate) fn end(&mut self) -> anyhow::Result<Counts> {
        // SAFETY: the process is our child, and not waited for yet.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let mut text = String::new();
        self.lines.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the storage node did not end in order: {status}");
        serde_json::from_str(&text).context("what the storage node says at its end")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Unless it has ended.
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
