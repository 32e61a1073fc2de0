//! Access control.
//!
//! A request passes, in this order: the Host and Origin checks (`origin.rs`), the rate limit
//! (`limit.rs`), a token or a session (`tokens.rs`, `sessions.rs`), the role required by its route
//! (`roles.rs`) and, if the session is a cookie and something is changed, the CSRF token.
//! `guard.rs` combines them; `tls.rs` is in front.

use std::net::{IpAddr, SocketAddr};
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

/// Completes what a file says of those who connect as senders in that role, to each of these
/// listeners: with the tokens and the certificate of the node whose own folder that is.
///
/// # Errors
/// There is no certificate to be had.
pub(crate) fn complete(
    listeners: &mut [(SocketAddr, &mut LinkAccess)],
    settings: &Settings,
    tokens: &Arc<Tokens>,
    own_folder: &Path,
    role: Role,
) -> Result<(), TlsError> {
    let tokens = SenderTokens { tokens: Arc::clone(tokens), role };
    let tokens = SharedTokens(Arc::new(tokens));
    let mut under_tls: Vec<IpAddr> = Vec::new();
    for (address, access) in listeners.iter_mut() {
        access.tokens = Some(tokens.clone());
        if access.tls.needs_certificate() {
            under_tls.push(address.ip());
        }
    }
    if under_tls.is_empty() {
        return Ok(());
    }
    // One for all: made for each alone, it would be made anew each time.
    let Settings { tls, names, .. } = settings;
    let certificate = for_senders(tls, own_folder, names, &under_tls)?;
    for (_, access) in listeners.iter_mut().filter(|(_, one)| one.tls.needs_certificate()) {
        access.certificate = Some(certificate.clone());
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
