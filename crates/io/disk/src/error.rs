//! Errors that occur before an operation is accepted.

use std::io;
use std::path::{Path, PathBuf};

use catchment_agent::OpenError;

/// An error of the disk. Later errors, of accepted operations, are the `result` of their
/// [`Completion`](crate::Completion).
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// A value of the configuration is out of range.
    #[error("{field}: expected {expected}, got {got}")]
    Config {
        /// The field of [`DiskConfig`](crate::DiskConfig).
        field: &'static str,
        /// The accepted values.
        expected: &'static str,
        /// The actual value.
        got: u64,
    },
    /// The required engine is not available here.
    #[error("the engine {engine} cannot be used: {source}")]
    Engine {
        /// The engine's name.
        engine: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// Memory, an event or a thread was not available.
    #[error("cannot get {what}: {source}")]
    Resource {
        /// The missing resource.
        what: &'static str,
        /// The reason.
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
        /// The reason.
        source: io::Error,
    },
    /// A file was not made, for a reason that the caller can handle.
    #[error(transparent)]
    Open(OpenError),
    /// The folder is gone, together with its file system.
    #[error("{} is gone, and the disk that it was on is not mounted", folder.display())]
    Unmounted {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or folder could not be read or changed.
    #[error("cannot {action} {}: {source}", path.display())]
    Path {
        /// The attempted action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The maximum number of files are open or being finished.
    #[error("expected at most {limit} files at a time")]
    TooManyFiles {
        /// The maximum.
        limit: usize,
    },
    /// The maximum number of syncs are waiting: the disk is slower than the caller's requests.
    #[error("expected at most {limit} unfinished syncs")]
    TooManySyncs {
        /// The maximum.
        limit: usize,
    },
    /// A helper thread has ended prematurely, or has more jobs than the disks can have.
    #[error("a helper thread of the disk has ended, or has too much to do")]
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
