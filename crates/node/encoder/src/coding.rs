//! What a writer is told to do with a column.

use std::fmt;
use std::str::FromStr;

use catchment_codec::{Codec, ColumnEncoder, Encoded};

/// How a column is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Not at all.
    None,
    /// LZ4.
    Lz4,
}

/// What a column's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the types say what they are")]
pub enum Element {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Coding {
    /// One step that costs less CPU.
    pub fn cheaper(self) -> Self {
        Self::None
    }

    /// Encodes bytes, or leaves them raw where that saves too little.
    pub fn encode<'a>(
        self,
        encoder: &'a mut ColumnEncoder,
        _element: Element,
        raw: &'a [u8],
    ) -> Encoded<'a> {
        let codec = match self {
            Self::None => Codec::None,
            Self::Lz4 => Codec::Lz4,
        };
        encoder.encode(codec, catchment_codec::Element::Bytes, raw)
    }
}

impl FromStr for Coding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            _ => Err(format!("expected \"none\" or \"lz4\", got {text:?}")),
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        })
    }
}
