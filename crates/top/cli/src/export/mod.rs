//! Runs in the formats of others' tools: what `catchment read` writes.

pub(crate) mod arrow;
pub(crate) mod channels;
pub(crate) mod events;
pub(crate) mod part;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use catchment_console::Out;

/// Where text and bytes go.
pub(crate) enum Sink<'a> {
    File(BufWriter<File>),
    Stdout(&'a mut Out),
}

impl<'a> Sink<'a> {
    pub(crate) fn open(output: Option<&Path>, out: &'a mut Out) -> anyhow::Result<Self> {
        let Some(path) = output else { return Ok(Self::Stdout(out)) };
        Ok(Self::File(create(path)?))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Stdout(out) => out.bytes(bytes),
        }
    }

    /// Writes text that names out of files are part of.
    pub(crate) fn text(&mut self, text: &str) -> std::io::Result<()> {
        match self {
            Self::File(file) => file.write_all(text.as_bytes()),
            Self::Stdout(out) => out.text(text),
        }
    }

    /// Hands over what was written so far.
    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

/// The path with something behind its name, which keeps its extension.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A new file; one that is there is never overwritten.
fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}
