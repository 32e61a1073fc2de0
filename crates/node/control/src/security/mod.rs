//! Access control.
//!
//! A request passes, in this order: the Host and Origin checks (`origin.rs`), the rate limit
//! (`limit.rs`), a token or a session (`tokens.rs`, `sessions.rs`), the role required by its route
//! (`roles.rs`) and, if the session is a cookie and something is changed, the CSRF token.
//! `guard.rs` combines them; `tls.rs` is in front.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use catchment_net::{LinkAccess, SharedTokens};

use crate::settings::Settings;
use roles::Role;
use tls::{TlsError, for_senders};
use tokens::{SenderTokens, Tokens};

pub(crate) mod guard;
pub(crate) mod limit;
pub(crate) mod origin;
pub(crate) mod roles;
pub(crate) mod sessions;
pub(crate) mod tls;
pub(crate) mod tokens;

/// Completes what a file says of those who connect as senders in that role, to that address: with
/// the tokens and the certificate of the node whose own folder that is.
///
/// # Errors
/// There is no certificate to be had.
pub(crate) fn complete(
    access: &mut LinkAccess,
    settings: &Settings,
    tokens: &Arc<Tokens>,
    own_folder: &Path,
    (role, address): (Role, SocketAddr),
) -> Result<(), TlsError> {
    let tokens = SenderTokens { tokens: Arc::clone(tokens), role };
    access.tokens = Some(SharedTokens(Arc::new(tokens)));
    if access.needs_tls {
        let Settings { tls, names, .. } = settings;
        access.certificate = Some(for_senders(tls, own_folder, names, address.ip())?);
    }
    Ok(())
}

/// Random bytes in hexadecimal.
///
/// # Errors
/// The system has none.
pub(crate) fn random_hex<const N: usize>() -> Result<String, std::io::Error> {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
