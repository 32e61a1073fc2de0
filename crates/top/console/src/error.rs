//! What a program can be refused: by its arguments, by a node, by the disk.

use std::io;
use std::path::PathBuf;

use catchment_model::units::Bytes;

/// An option or argument that makes no sense; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// An address of a node that is none.
    #[error("{source}")]
    Address {
        /// The option, what was expected and what was there.
        source: UsageError,
    },
    /// A certificate that cannot be read.
    #[error("cannot read {}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file without a certificate.
    #[error("{}: expected a certificate in PEM", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A node that cannot be reached.
    #[error("no answer from {url}")]
    NoAnswer {
        /// The node.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// An answer that broke off, or is too long.
    #[error("the answer of {url}")]
    Answer {
        /// The node.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// An answer that is no JSON.
    #[error("{url} answered no JSON")]
    NotJson {
        /// The node.
        url: String,
        /// Where it is none.
        source: serde_json::Error,
    },
    /// A request that the node refused.
    #[error("the node refused ({status}): {detail}")]
    Refused {
        /// The status of the HTTP answer.
        status: u16,
        /// The node's words.
        detail: String,
    },
    /// A disk that cannot be asked for its room.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// Too little room on a disk.
    #[error(
        "{} has {} free, but this writes about {}: choose another folder, fewer \
         seconds or a lower rate",
        folder.display(),
        Bytes(*free_bytes),
        Bytes(*needed_bytes)
    )]
    NoSpace {
        /// The folder.
        folder: PathBuf,
        /// Bytes that can be written there.
        free_bytes: u64,
        /// Bytes that will be.
        needed_bytes: u64,
    },
}
