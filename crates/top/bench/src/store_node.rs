//! A storage node in a process of its own, as `catchment store` runs it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// A storage node, which is gone with its files when this is dropped.
pub(crate) struct Node {
    process: Process,
    folder: PathBuf,
    pub(crate) address: String,
    /// What senders trust, if connections are under TLS.
    pub(crate) certificate: Option<PathBuf>,
}

/// What a storage node says at its end.
#[derive(Debug, Deserialize)]
pub(crate) struct Counts {
    pub(crate) frames_taken: u64,
    pub(crate) frames_repeated: u64,
    pub(crate) frames_corrupt: u64,
    pub(crate) frames_unfit: u64,
    pub(crate) frames_superseded: u64,
    pub(crate) faults: u64,
    pub(crate) disk_faults: u64,
    pub(crate) streams: Vec<OfStream>,
}

impl Counts {
    /// Frames that it refused, and faults.
    pub(crate) fn bad(&self) -> u64 {
        let frames = self.frames_corrupt + self.frames_unfit + self.frames_superseded;
        frames + self.faults + self.disk_faults
    }
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
        Self::start_with(&folder(scratch), (memory_bytes, preallocate_bytes), false)
    }

    /// As [`Node::start`], with connections under TLS.
    pub(crate) fn start_tls(
        scratch: &Path,
        memory_bytes: u64,
        preallocate_bytes: u64,
    ) -> anyhow::Result<Self> {
        Self::start_with(&folder(scratch), (memory_bytes, preallocate_bytes), true)
    }

    /// As [`Node::start`], in that folder.
    pub(crate) fn start_in(
        folder: &Path,
        memory_bytes: u64,
        preallocate_bytes: u64,
    ) -> anyhow::Result<Self> {
        Self::start_with(folder, (memory_bytes, preallocate_bytes), false)
    }

    fn start_with(
        folder: &Path,
        (memory_bytes, preallocate_bytes): (u64, u64),
        tls: bool,
    ) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        std::fs::create_dir_all(&folder)?;
        // The certificate is the one that its page has.
        let protected = match tls {
            true => "tls = \"all\"\n[control]\nlisten = \"127.0.0.1:0\"\ntls = \"self-made\"\n",
            false => "",
        };
        let text = format!(
            "[store]\nfolder = \"stored\"\n[memory]\nbudget = {memory_bytes}\n\
             [write]\nfile_bytes = \"1 TiB\"\npreallocate_bytes = {preallocate_bytes}\n\
             [[listen]]\naddress = \"127.0.0.1:0\"\n{protected}",
        );
        std::fs::write(folder.join("store.toml"), text)?;
        let arguments = ["store", "store.toml", "--json"];
        let mut process = Process::start(&arguments, &folder, folder.join("store.log"))?;
        let first = process.object()?;
        let address = first["address"].as_str().context("a storage node without an address")?;
        let address = address.to_owned();
        let certificate = tls.then(|| folder.join("stored/.catchment/tls/certificate.pem"));
        Ok(Self { process, folder, address, certificate })
    }

    /// The system's number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// The folder of a stream.
    pub(crate) fn stored(&self, stream: &str) -> PathBuf {
        self.folder.join("stored").join(stream)
    }

    /// Ends it in order; what it has done.
    pub(crate) fn end(&mut self) -> anyhow::Result<Counts> {
        self.process.interrupt();
        let text = self.process.wait()?;
        serde_json::from_str(&text).context("what the storage node says at its end")
    }
}

fn folder(scratch: &Path) -> PathBuf {
    scratch.join(format!("store-{}", std::process::id()))
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
