//! Access control.
//!
//! A request passes, in this order: the Host and Origin checks (`origin.rs`), the rate limit
//! (`limit.rs`), a token or a session (`tokens.rs`, `sessions.rs`), the role required by its route
//! (`roles.rs`) and, if the session is a cookie and something is changed, the CSRF token.
//! `guard.rs` combines them; `tls.rs` is in front.

pub(crate) mod guard;
pub(crate) mod limit;
pub(crate) mod origin;
pub(crate) mod roles;
pub(crate) mod sessions;
pub(crate) mod tls;
pub(crate) mod tokens;

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
