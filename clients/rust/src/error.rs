//! What can go wrong for a front-end.

use std::io;

use catchment_net::TlsError;
use catchment_sender::{ConfigError, PushError};

/// Why a front-end cannot be made, or a fragment not be sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is none.
    #[error(
        "{url:?} is no address of a recorder: write catchment://HOST[:PORT], or catchment+tcp:// \
         in the clear"
    )]
    Address {
        /// What was given.
        url: String,
    },
    /// TLS without a certificate to trust.
    #[error("{url:?} asks for TLS: give the recorder's certificate, or its authority's, to trust")]
    NoCertificate {
        /// What was given.
        url: String,
    },
    /// A certificate that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A front-end that no recorder would admit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The recorder did not admit the front-end within the time given.
    #[error("no recorder at {url}: {why}")]
    NotConnected {
        /// Its address.
        url: String,
        /// What was tried last.
        why: String,
    },
    /// A fragment that can never be sent.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The front-end, or the source, has ended.
    #[error("nothing more can be sent: {why}")]
    Ended {
        /// Why.
        why: String,
    },
    /// No source has this name.
    #[error("the front-end has no source {name:?}")]
    NoSource {
        /// What was asked for.
        name: String,
    },
    /// What the system refused: a thread, random numbers, a descriptor.
    #[error("the system refuses {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}
