//! Codings: how a writer encodes a column.

use std::fmt;
use std::str::FromStr;

use crate::codec::Codec;
use crate::element::Element;

/// How to encode a column. Written as in a configuration: `bitshuffle+zstd:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Unencoded.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd {
        /// 1 to 19.
        level: i32,
    },
    /// A bit shuffle, then LZ4.
    BitshuffleLz4,
    /// A bit shuffle, then Zstandard.
    BitshuffleZstd {
        /// 1 to 19.
        level: i32,
    },
    /// A byte shuffle, then LZ4.
    ShuffleLz4,
    /// A byte shuffle, then Zstandard.
    ShuffleZstd {
        /// 1 to 19.
        level: i32,
    },
    /// pcodec.
    Pcodec {
        /// 0 to 12.
        level: i32,
    },
    /// Patched frame of reference.
    For,
}

impl Coding {
    /// The codec of the stored bytes.
    pub fn codec(self) -> Codec {
        match self {
            Self::None => Codec::None,
            Self::Lz4 => Codec::Lz4,
            Self::Zstd { .. } => Codec::Zstd,
            Self::BitshuffleLz4
            | Self::BitshuffleZstd { .. }
            | Self::ShuffleLz4
            | Self::ShuffleZstd { .. } => Codec::Blosc,
            Self::Pcodec { .. } => Codec::Pcodec,
            Self::For => Codec::For,
        }
    }

    /// A coding that other programs can also decode, and that suits most data of such elements: a
    /// bit shuffle and LZ4 for integers; a byte shuffle and Zstandard for floats and records;
    /// Zstandard alone for bytes.
    #[must_use]
    pub fn portable(element: Element) -> Self {
        if element.is_integer() {
            return Self::BitshuffleLz4;
        }
        Self::ShuffleZstd { level: 1 }.for_element(element)
    }

    /// The substitute for elements that this coding does not support: pcodec requires numbers,
    /// `for` integers, the byte shuffle more than one byte. Any other coding accepts any element.
    #[must_use]
    pub fn for_element(self, element: Element) -> Self {
        match self {
            Self::Pcodec { .. } if element.size() == 1 || matches!(element, Element::Record(_)) => {
                Self::ShuffleZstd { level: 3 }.for_element(element)
            }
            Self::For if element.is_float() => Self::BitshuffleLz4,
            Self::For if !element.is_integer() => Self::ShuffleLz4.for_element(element),
            Self::ShuffleZstd { level } if element.size() == 1 => Self::Zstd { level },
            Self::ShuffleLz4 if element.size() == 1 => Self::Lz4,
            other => other,
        }
    }

    /// One step that costs less CPU, down to none. A coding that plain Zarr readers decode stays
    /// one: no step leads to `for`. LZ4 alone is not a step down from a shuffle: it is slower on
    /// plain numbers.
    #[must_use]
    pub fn cheaper(self, element: Element) -> Self {
        let step = match self {
            Self::Pcodec { .. } if element.is_integer() => Self::BitshuffleZstd { level: 1 },
            Self::Pcodec { .. } | Self::BitshuffleZstd { level: 2.. } => {
                Self::ShuffleZstd { level: 1 }
            }
            Self::Zstd { level: 2.. } => Self::Zstd { level: 1 },
            Self::ShuffleZstd { level: 2.. } => Self::ShuffleZstd { level: 1 },
            Self::BitshuffleZstd { .. } | Self::ShuffleZstd { .. } => Self::BitshuffleLz4,
            Self::Zstd { .. } => Self::Lz4,
            Self::None | Self::Lz4 | Self::BitshuffleLz4 | Self::ShuffleLz4 | Self::For => {
                Self::None
            }
        };
        step.for_element(element)
    }
}

impl From<Codec> for Coding {
    /// The usual coding of that codec; none for a codec of a later version, or for bytes that are
    /// elsewhere.
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::None | Codec::Base | Codec::Unknown(_) => Self::None,
            Codec::Lz4 => Self::Lz4,
            Codec::Zstd => Self::Zstd { level: 1 },
            Codec::Blosc => Self::BitshuffleLz4,
            Codec::Pcodec => Self::Pcodec { level: 8 },
            Codec::For => Self::For,
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd { level } => write!(f, "zstd:{level}"),
            Self::BitshuffleLz4 => f.write_str("bitshuffle+lz4"),
            Self::BitshuffleZstd { level } => write!(f, "bitshuffle+zstd:{level}"),
            Self::ShuffleLz4 => f.write_str("shuffle+lz4"),
            Self::ShuffleZstd { level } => write!(f, "shuffle+zstd:{level}"),
            Self::Pcodec { level } => write!(f, "pcodec:{level}"),
            Self::For => f.write_str("for"),
        }
    }
}

/// A text that is not a coding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected none, lz4, zstd:1 to zstd:19, bitshuffle+lz4, bitshuffle+zstd:1 to \
     bitshuffle+zstd:19, shuffle+lz4, shuffle+zstd:1 to shuffle+zstd:19, pcodec:0 to pcodec:12 \
     (without a level zstd has 1, pcodec 8) or for"
)]
pub struct UnknownCoding;

impl FromStr for Coding {
    type Err = UnknownCoding;

    fn from_str(text: &str) -> Result<Self, UnknownCoding> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level.parse::<i32>().map_err(|_| UnknownCoding)?)),
            None => (text, None),
        };
        let zstd_level = level.unwrap_or(1);
        let coding = match name {
            "zstd" => Self::Zstd { level: zstd_level },
            "bitshuffle+zstd" => Self::BitshuffleZstd { level: zstd_level },
            "shuffle+zstd" => Self::ShuffleZstd { level: zstd_level },
            "pcodec" => {
                let level = level.unwrap_or(8);
                return if (0..=12).contains(&level) {
                    Ok(Self::Pcodec { level })
                } else {
                    Err(UnknownCoding)
                };
            }
            _ if level.is_some() => return Err(UnknownCoding),
            "none" => Self::None,
            "lz4" => Self::Lz4,
            "bitshuffle+lz4" => Self::BitshuffleLz4,
            "shuffle+lz4" => Self::ShuffleLz4,
            "for" => Self::For,
            _ => return Err(UnknownCoding),
        };
        if (1..=19).contains(&zstd_level) { Ok(coding) } else { Err(UnknownCoding) }
    }
}
