//! Who may connect as the sender of a session, and how.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use crate::certificates::TlsServer;

/// Which connections of a session must be under TLS. Others may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsRule {
    /// None.
    #[default]
    None,
    /// Control connections, which carry tokens; data connections carry a ticket in the clear.
    Control,
    /// All.
    All,
}

/// How the senders of sessions connect: front-ends to a recorder, recorders to a storage node. The
/// file says what they need; the node has it.
#[derive(Clone, Debug)]
pub struct LinkAccess {
    /// Which connections must be under TLS.
    pub tls: TlsRule,
    /// A hello has to show a token.
    pub needs_token: bool,
    /// They may connect from beyond this machine without either.
    pub without_protection: bool,
    /// How long events wait for a required front-end that fell silent without a word, from its last
    /// byte on. Nothing waits at a storage node.
    pub resume_ns: u64,
    /// How far the sources of one data connection may be out of order: no more is granted. Nothing
    /// is at a storage node.
    pub skew_bytes: u64,
    /// The node's certificate.
    pub certificate: Option<TlsServer>,
    /// The node's tokens.
    pub tokens: Option<SharedTokens>,
}

/// Who knows which tokens there are. Asked by receive threads, so that it must not wait.
pub trait Tokens: Send + Sync {
    /// Whether a sender of that name may deliver data with that token.
    fn admits(&self, token: &str, sender: &str) -> bool;
}

/// Tokens that many threads ask.
#[derive(Clone)]
pub struct SharedTokens(pub Arc<dyn Tokens>);

impl TlsRule {
    /// Whether some connection must be under TLS.
    pub fn needs_certificate(self) -> bool {
        self != Self::None
    }

    /// Whether a control connection in the clear is admitted.
    pub fn takes_clear_control(self) -> bool {
        self == Self::None
    }

    /// Whether a data connection in the clear is admitted.
    pub fn takes_clear_data(self) -> bool {
        self != Self::All
    }

    /// Its word in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Control => "control",
            Self::All => "all",
        }
    }
}

impl Default for LinkAccess {
    fn default() -> Self {
        let (tls, needs_token, without_protection) = (TlsRule::None, false, false);
        let (certificate, tokens) = (None, None);
        let (resume_ns, skew_bytes) = (5_000_000_000, 0);
        Self { tls, needs_token, without_protection, resume_ns, skew_bytes, certificate, tokens }
    }
}

impl LinkAccess {
    /// Whether everything is there that is needed.
    pub fn is_whole(&self) -> bool {
        (!self.tls.needs_certificate() || self.certificate.is_some())
            && (!self.needs_token || self.tokens.is_some())
    }

    /// Whether a sender may deliver data.
    pub fn admits(&self, token: &str, sender: &str) -> bool {
        !self.needs_token || self.tokens.as_ref().is_some_and(|it| it.0.admits(token, sender))
    }

    /// Whether nothing keeps others on the network from being a source.
    pub fn is_open(&self) -> bool {
        !(self.tls.needs_certificate() && self.needs_token)
    }
}

/// Reads the token of a sender from a file that has nothing else.
///
/// # Errors
/// A file that cannot be read, or has no token.
pub fn read_token(path: &Path) -> io::Result<String> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(named)?;
    file.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut text).map_err(named)?;
    match text.trim() {
        token if !token.is_empty() && text.len() as u64 <= TOKEN_BYTES_MAX => Ok(token.to_owned()),
        _ => {
            let expected = format!("expected a token of 1 to {TOKEN_BYTES_MAX} bytes");
            Err(named(io::Error::new(io::ErrorKind::InvalidData, expected)))
        }
    }
}

impl std::fmt::Debug for SharedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedTokens")
    }
}

/// Bytes of a token's file: a hello has room for so many.
const TOKEN_BYTES_MAX: u64 = 256;
