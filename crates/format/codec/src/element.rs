//! The type of a column's elements.

use std::fmt;
use std::str::FromStr;

/// The type of a column's elements as codecs distinguish it. Complex numbers are pairs of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Bytes without meaning to a codec.
    Bytes,
    /// Records of that many bytes, at least 2: a shuffle gathers bytes of the same index.
    Record(u8),
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Floating point, 32 bits.
    F32,
    /// Floating point, 64 bits.
    F64,
}

impl Element {
    /// Records of that many bytes; plain bytes if no shuffle can encode such records.
    pub fn record(bytes: usize) -> Self {
        match u8::try_from(bytes) {
            Ok(bytes) if bytes > 1 => Self::Record(bytes),
            _ => Self::Bytes,
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::Bytes | Self::U8 | Self::I8 => 1,
            Self::Record(bytes) => usize::from(bytes.max(1)),
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether elements are integers.
    pub fn is_integer(self) -> bool {
        self.is_signed() || matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// Whether elements are signed integers.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Whether elements are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

const NAMES: [(Element, &str); 11] = [
    (Element::Bytes, "bytes"),
    (Element::U8, "u8"),
    (Element::U16, "u16"),
    (Element::U32, "u32"),
    (Element::U64, "u64"),
    (Element::I8, "i8"),
    (Element::I16, "i16"),
    (Element::I32, "i32"),
    (Element::I64, "i64"),
    (Element::F32, "f32"),
    (Element::F64, "f64"),
];

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(element, _)| element == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "record:{}", self.size()),
        }
    }
}

/// A text that is not an element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an element type (u8 to u64, i8 to i64, f32, f64, bytes, record:BYTES)")]
pub struct UnknownElement;

impl FromStr for Element {
    type Err = UnknownElement;

    fn from_str(text: &str) -> Result<Self, UnknownElement> {
        if let Some(bytes) = text.strip_prefix("record:") {
            return match bytes.parse() {
                Ok(bytes @ 2..) => Ok(Self::Record(bytes)),
                _ => Err(UnknownElement),
            };
        }
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(element, _)| *element).ok_or(UnknownElement)
    }
}
