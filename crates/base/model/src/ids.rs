//! Identities of sources and runs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A source's number within its run, from 0. Sources are numbered without gaps, so it is also an
/// array index.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SourceId(pub u32);

impl SourceId {
    /// This number as an index into an array that holds one item per source.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run's identity: 128 random bits, drawn once at its start and stored in all its files.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunId(pub [u8; 16]);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

impl std::str::FromStr for RunId {
    type Err = ParseRunIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseRunIdError { got: text.chars().take(64).collect() };
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(error());
        }
        let mut id = [0; 16];
        for (index, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| error())?;
        }
        Ok(Self(id))
    }
}

/// A text that is not a run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a run id is 32 hexadecimal digits, not {got:?}")]
pub struct ParseRunIdError {
    /// The text's beginning.
    pub got: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_survives_its_text() {
        let id = RunId(*b"\x00\x01\xfe\xff0123456789ab");
        assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
        for bad in ["", "00", "zz01feff303132333435363738396162", "\u{e9}\u{e9}"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?}");
        }
    }
}
