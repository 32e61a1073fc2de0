//! What can go wrong before an operation is accepted.

use std::io;
use std::path::{Path, PathBuf};

use catchment_agent::OpenError;

/// An error of the disk. What goes wrong later, in an accepted operation, comes as the `result` of
/// its [`Completion`](crate::Completion).
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// A value of the configuration is out of range.
    #[error("{field}: expected {expected}, got {got}")]
    Config {
        /// The field of [`DiskConfig`](crate::DiskConfig).
        field: &'static str,
        /// What would have been accepted.
        expected: &'static str,
        /// What it was.
        got: u64,
    },
    /// The engine that was asked for cannot be had here.
    #[error("the engine {engine} cannot be used: {source}")]
    Engine {
        /// The engine's name.
        engine: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Memory, an event or a thread could not be had.
    #[error("cannot get {what}: {source}")]
    Resource {
        /// What was wanted.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The file exists already. It is left as it is.
    #[error("{} exists already, and is not overwritten", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be made.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file was not made, for a reason that its caller can act on.
    #[error(transparent)]
    Open(OpenError),
    /// The folder is gone, and with it the file system that it was on.
    #[error("{} is gone, and the disk that it was on is not mounted", folder.display())]
    Unmounted {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or folder could not be read or changed.
    #[error("cannot {action} {}: {source}", path.display())]
    Path {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// As many files are open, or being finished, as there can be.
    #[error("expected at most {limit} files at a time")]
    TooManyFiles {
        /// How many there can be.
        limit: usize,
    },
    /// As many syncs wait as there can be: the disk is slower than the caller asks.
    #[error("expected at most {limit} unfinished syncs")]
    TooManySyncs {
        /// How many there can be.
        limit: usize,
    },
    /// A helper thread has ended before its time.
    #[error("a helper thread of the disk has ended")]
    HelperGone,
}

impl DiskError {
    /// The operating system's reason, if there is one.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Engine { source, .. }
            | Self::Resource { source, .. }
            | Self::Create { source, .. }
            | Self::Path { source, .. } => Some(source),
            _ => None,
        }
    }

    pub(crate) fn path(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Path { action, path: path.to_owned(), source }
    }
}
