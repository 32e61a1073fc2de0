//! Numbers and names in files: frame kinds, element types, column kinds.

use std::fmt;

use catchment_codec::Element;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Built events.
    Events,
    /// Continuous channels.
    Channels,
    /// The table of contents.
    Toc,
    /// A table of contents of the frames since the previous checkpoint; not counted as a frame.
    Checkpoint,
    /// A kind of a later version; readers skip it.
    Unknown(u16),
}

impl FrameKind {
    /// A frame that was not written here: its numbers are not missing. No program writes it yet.
    pub const SKIPPED: Self = Self::Unknown(5);

    /// The number in the frame's header.
    pub fn number(self) -> u16 {
        match self {
            Self::Events => 1,
            Self::Channels => 2,
            Self::Toc => 3,
            Self::Checkpoint => 4,
            Self::Unknown(number) => number,
        }
    }

    /// The kind with that number.
    pub fn from_number(number: u16) -> Self {
        match number {
            1 => Self::Events,
            2 => Self::Channels,
            3 => Self::Toc,
            4 => Self::Checkpoint,
            other => Self::Unknown(other),
        }
    }

    /// The kind's name, for display.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Channels => "channels",
            Self::Toc => "toc",
            Self::Checkpoint => "checkpoint",
            Self::Unknown(_) => "unknown",
        }
    }
}

macro_rules! dtypes {
    ($($(#[doc = $doc:literal])* $variant:ident = $number:literal, $name:literal, $bits:literal;)*) => {
        /// The type of a column's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Dtype {
            $($(#[doc = $doc])* $variant,)*
            /// A type of a later version.
            Unknown(u16),
        }

        impl Dtype {
            /// The number in a frame's directory.
            pub fn number(self) -> u16 {
                match self { $(Self::$variant => $number,)* Self::Unknown(number) => number }
            }

            /// The type with that number.
            pub fn from_number(number: u16) -> Self {
                match number { $($number => Self::$variant,)* other => Self::Unknown(other) }
            }

            /// The name in the schema.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Unknown(_) => "unknown" }
            }

            /// The type with that name.
            pub fn from_name(name: &str) -> Self {
                match name { $($name => Self::$variant,)* _ => Self::Unknown(u16::MAX) }
            }

            /// Bits of one element; `None` if the type alone does not determine it.
            pub fn bits(self) -> Option<u64> {
                let bits = match self { $(Self::$variant => $bits,)* Self::Unknown(_) => 0 };
                if bits == 0 { None } else { Some(bits) }
            }
        }
    };
}

dtypes! {
    /// Bytes without meaning to Catchment.
    Opaque = 0, "opaque", 0;
    /// Unsigned, 8 bits.
    U8 = 1, "u8", 8;
    /// Unsigned, 16 bits.
    U16 = 2, "u16", 16;
    /// Unsigned, 32 bits.
    U32 = 3, "u32", 32;
    /// Unsigned, 64 bits.
    U64 = 4, "u64", 64;
    /// Signed, 8 bits.
    I8 = 5, "i8", 8;
    /// Signed, 16 bits.
    I16 = 6, "i16", 16;
    /// Signed, 32 bits.
    I32 = 7, "i32", 32;
    /// Signed, 64 bits.
    I64 = 8, "i64", 64;
    /// Floating point, 32 bits.
    F32 = 9, "f32", 32;
    /// Floating point, 64 bits.
    F64 = 10, "f64", 64;
    /// Complex, two of 32 bits.
    C64 = 11, "c64", 64;
    /// Complex, two of 64 bits.
    C128 = 12, "c128", 128;
    /// Single bits, the lowest first.
    Bits = 13, "bits", 1;
    /// Records, whose layout depends on the column's kind.
    Record = 14, "record", 0;
}

impl Dtype {
    /// Whether the type is of a later version.
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Whether elements are numbers, including complex ones.
    pub fn is_number(self) -> bool {
        (Self::U8.number()..=Self::C128.number()).contains(&self.number())
    }

    /// The element type for codecs; complex numbers are pairs of floats.
    pub fn element(self) -> Element {
        match self {
            Self::U8 => Element::U8,
            Self::U16 => Element::U16,
            Self::U32 => Element::U32,
            Self::U64 => Element::U64,
            Self::I8 => Element::I8,
            Self::I16 => Element::I16,
            Self::I32 => Element::I32,
            Self::I64 => Element::I64,
            Self::F32 | Self::C64 => Element::F32,
            Self::F64 | Self::C128 => Element::F64,
            Self::Opaque | Self::Bits | Self::Record | Self::Unknown(_) => Element::Bytes,
        }
    }

    /// The type in numpy's notation, little-endian: `<i2`. `None` if numpy has no such number type.
    pub fn numpy(self) -> Option<&'static str> {
        Some(match self {
            Self::U8 => "|u1",
            Self::U16 => "<u2",
            Self::U32 => "<u4",
            Self::U64 => "<u8",
            Self::I8 => "|i1",
            Self::I16 => "<i2",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::C64 => "<c8",
            Self::C128 => "<c16",
            Self::Opaque | Self::Bits | Self::Record | Self::Unknown(_) => return None,
        })
    }

    /// Bytes of `rows` elements; `None` if the type does not determine it or it exceeds 64 bits.
    pub fn bytes_of(self, rows: u64) -> Option<u64> {
        self.bits()?.checked_mul(rows).map(|bits| bits.div_ceil(8))
    }
}

impl Serialize for Dtype {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Dtype {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Name(Self::from_name))
    }
}

/// The meaning of a column. Its name is in the schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ColumnKind {
    /// Keys of the events, `u64`.
    EventKey,
    /// Times of the events, `u64` nanoseconds UTC.
    EventTime,
    /// [`catchment_model::EventFlags`] of the events, `u32`.
    EventFlags,
    /// Bytes of each row's fragment, `u32`.
    FragmentLengths,
    /// Which rows have the fragment, one bit each.
    FragmentValidity,
    /// The fragments themselves, `u8` or their source's declared type.
    FragmentPayload,
    /// The ledger's counts since the previous frame, records of 16 bytes.
    LedgerIncrement,
    /// Samples of a channel, any number type.
    Channel,
    /// The gaps of a frame's channels, records of 24 bytes.
    ChannelSpans,
    /// How far sources were decided, records of 24 bytes.
    SourcePositions,
    /// In which rows a source was expected, one bit each.
    FragmentExpected,
    /// The parts of fragments that did not come, records of 24 bytes.
    FragmentHoles,
    /// Each fragment's own time in ns.
    FragmentTime,
    /// The fragments of which a row has several, records of 24 bytes.
    FragmentPieces,
    /// A kind of a later version, by its name.
    Unknown(String),
}

impl ColumnKind {
    /// The kinds known to this version, with name and element type; for payload and channels the
    /// schema may give another type.
    pub const KNOWN: [(Self, &'static str, Dtype); 14] = [
        (Self::EventKey, "event_key", Dtype::U64),
        (Self::EventTime, "event_time", Dtype::U64),
        (Self::EventFlags, "event_flags", Dtype::U32),
        (Self::FragmentLengths, "fragment_lengths", Dtype::U32),
        (Self::FragmentValidity, "fragment_validity", Dtype::Bits),
        (Self::FragmentPayload, "fragment_payload", Dtype::U8),
        (Self::LedgerIncrement, "ledger_increment", Dtype::Record),
        (Self::Channel, "channel", Dtype::F64),
        (Self::ChannelSpans, "channel_spans", Dtype::Record),
        (Self::SourcePositions, "source_positions", Dtype::Record),
        (Self::FragmentExpected, "fragment_expected", Dtype::Bits),
        (Self::FragmentHoles, "fragment_holes", Dtype::Record),
        (Self::FragmentTime, "fragment_time", Dtype::U64),
        (Self::FragmentPieces, "fragment_pieces", Dtype::Record),
    ];

    /// The name in the schema.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown(name) => name,
            known => {
                let found = Self::KNOWN.iter().find(|(kind, _, _)| kind == known);
                found.expect("every kind but Unknown is in KNOWN").1
            }
        }
    }
}

impl From<&str> for ColumnKind {
    fn from(name: &str) -> Self {
        let found = Self::KNOWN.into_iter().find(|(_, known, _)| *known == name);
        found.map_or_else(|| Self::Unknown(name.to_owned()), |(kind, _, _)| kind)
    }
}

impl Serialize for ColumnKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ColumnKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Name(|name: &str| Self::from(name)))
    }
}

/// The kind with a name, without copying the name: schemas have one or two for each of many
/// columns.
struct Name<F>(F);

impl<T, F: Fn(&str) -> T> Visitor<'_> for Name<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
        Ok(self.0(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_what_they_name() {
        for number in 0..20 {
            assert_eq!(FrameKind::from_number(number).number(), number);
            let dtype = Dtype::from_number(number);
            assert_eq!(dtype.number(), number);
            if !matches!(dtype, Dtype::Unknown(_)) {
                assert_eq!(Dtype::from_name(dtype.name()), dtype);
            }
        }
        for (kind, name, _) in ColumnKind::KNOWN {
            assert_eq!(ColumnKind::from(name), kind);
            assert_eq!(kind.name(), name);
        }
        let later = ColumnKind::from("later");
        assert_eq!(later.name(), "later");
    }

    #[test]
    fn a_type_of_the_other_byte_order_is_unknown_and_never_taken_for_ours() {
        for name in [">u4", "u32be", "be_u32", "U32", "u32 ", "big u32"] {
            let dtype = Dtype::from_name(name);
            assert!(dtype.is_unknown() && !dtype.is_number(), "{name}");
            assert_eq!((dtype.bits(), dtype.element()), (None, Element::Bytes), "{name}");
        }
    }

    #[test]
    fn sizes_of_rows_round_bits_up_and_never_overflow() {
        assert_eq!(Dtype::Bits.bytes_of(9), Some(2));
        assert_eq!(Dtype::U64.bytes_of(3), Some(24));
        assert_eq!(Dtype::U64.bytes_of(1 << 61), None);
        assert_eq!(Dtype::Record.bytes_of(1), None);
    }
}
