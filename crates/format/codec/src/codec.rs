//! The framing of stored bytes.

use std::fmt;

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Unencoded.
    None,
    /// LZ4: raw size as u32, then one block.
    Lz4,
    /// Zstandard: one frame that states its raw size.
    Zstd,
    /// c-blosc 1: one chunk. Its header gives the shuffle and the inner codec.
    Blosc,
    /// pcodec: one standalone file.
    Pcodec,
    /// Frame of reference and bit-packing: docs/spec/for-codec.md.
    For,
    /// Not the bytes, but where they are in the base of the run: docs/spec/frame-file.md, 4.1.
    Base,
    /// A codec of a later version.
    Unknown(u16),
}

impl Codec {
    /// Its number in directories.
    pub fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
            Self::Blosc => 3,
            Self::Pcodec => 4,
            Self::For => 5,
            Self::Base => 6,
            Self::Unknown(number) => number,
        }
    }

    /// The codec with that number.
    pub fn from_number(number: u16) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Lz4,
            2 => Self::Zstd,
            3 => Self::Blosc,
            4 => Self::Pcodec,
            5 => Self::For,
            6 => Self::Base,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd => f.write_str("zstd"),
            Self::Blosc => f.write_str("blosc"),
            Self::Pcodec => f.write_str("pcodec"),
            Self::For => f.write_str("for"),
            Self::Base => f.write_str("base"),
            Self::Unknown(number) => write!(f, "{number}"),
        }
    }
}
