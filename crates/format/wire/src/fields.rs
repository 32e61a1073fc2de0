//! Parts of a message as tables of fields: one declaration, with the offsets of the specification,
//! from which reading, writing and the checks of single values follow. [`session`](crate::session)
//! and [`event_link`](crate::event_link) declare theirs with it.
//!
//! What is read may end early: fields that are not there are zero. What is longer is ignored. So
//! callers check the lengths, by the type of the message, and nothing here can fail by a length.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use crate::fault::Fault;

/// Consecutive bytes of a message with a meaning: a fixed part, or a record. docs/spec/session.md,
/// section 3.
pub trait Fields: Copy + PartialEq + fmt::Debug {
    /// Its bytes in version 1, a multiple of 8.
    const BYTES: usize;

    /// Reads the fields, and checks their values.
    ///
    /// # Errors
    /// A value that its table does not allow: [`Fault::Kind`], [`Fault::Bound`], [`Fault::Text`].
    fn read(bytes: &[u8]) -> Result<Self, Fault>;

    /// Writes the fields to `out`, which has [`BYTES`](Self::BYTES) zeros.
    fn write(&self, out: &mut [u8]);
}

/// The fixed part of a type of message.
pub trait Fixed: Fields {
    /// The type's number.
    const TYPE: u16;
}

/// The records of a message, all checked.
pub struct Records<'a, R> {
    bytes: &'a [u8],
    record_bytes: usize,
    of: PhantomData<R>,
}

impl<'a, R: Fields> Records<'a, R> {
    /// Checks `bytes`, records of `record_bytes` bytes each; 0 if there are none.
    pub(crate) fn read(bytes: &'a [u8], record_bytes: usize) -> Result<Self, Fault> {
        let records = Self { bytes, record_bytes, of: PhantomData };
        records.raw().try_for_each(|record| R::read(record).map(drop))?;
        Ok(records)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.raw().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The records, in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = R> + use<'a, R> {
        // None fails after `read`; to end instead of a panic costs nothing.
        self.raw().map_while(|record| R::read(record).ok())
    }

    /// Bytes of each record that are there, and that this version knows.
    pub(crate) fn known_bytes(&self) -> usize {
        self.record_bytes.min(R::BYTES)
    }

    fn raw(&self) -> std::slice::ChunksExact<'a, u8> {
        self.bytes.chunks_exact(self.record_bytes.max(1))
    }
}

impl<R> Clone for Records<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Records<'_, R> {}

impl<R: Fields> PartialEq for Records<'_, R> {
    /// By what the records mean, whatever their reserved bytes are.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<R: Fields> fmt::Debug for Records<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A text in a field of `N` bytes: UTF-8 without zeros in it, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// The text, or `None` if it has more than `N` bytes, or a zero.
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.contains('\0')).then_some(Self(bytes))
    }

    /// The text without its padding.
    pub fn as_str(&self) -> &str {
        // It was checked when it was made.
        unpadded(&self.0).unwrap_or_default()
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The text in bytes that zeros follow, unless it is no UTF-8 or has a zero in it.
pub(crate) fn unpadded(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    std::str::from_utf8(&bytes[..end]).ok().filter(|text| !text.contains('\0'))
}

/// One value in a part of a message.
pub(crate) trait Field: Copy {
    const BYTES: usize;

    /// Reads the value at `offset`. `field` names it in a fault.
    fn read(bytes: &[u8], offset: usize, field: &'static str) -> Result<Self, Fault>;

    /// Writes the value to `out`, which has as many bytes.
    fn write(self, out: &mut [u8]);
}

macro_rules! numbers {
    ($($type:ident)+) => {$(
        impl Field for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn read(bytes: &[u8], offset: usize, _: &'static str) -> Result<Self, Fault> {
                Ok(Self::from_le_bytes(bytes_at(bytes, offset)))
            }

            #[inline]
            fn write(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
        }
    )+};
}

numbers!(u8 u16 u32 u64);

impl<const N: usize> Field for [u8; N] {
    const BYTES: usize = N;

    fn read(bytes: &[u8], offset: usize, _: &'static str) -> Result<Self, Fault> {
        Ok(bytes_at(bytes, offset))
    }

    fn write(self, out: &mut [u8]) {
        out.copy_from_slice(&self);
    }
}

impl<const N: usize> Field for [u64; N] {
    const BYTES: usize = 8 * N;

    fn read(bytes: &[u8], offset: usize, _: &'static str) -> Result<Self, Fault> {
        Ok(std::array::from_fn(|index| u64::from_le_bytes(bytes_at(bytes, offset + 8 * index))))
    }

    fn write(self, out: &mut [u8]) {
        out.copy_from_slice(self.map(u64::to_le_bytes).as_flattened());
    }
}

impl<const N: usize> Field for Text<N> {
    const BYTES: usize = N;

    fn read(bytes: &[u8], offset: usize, field: &'static str) -> Result<Self, Fault> {
        let bytes: [u8; N] = bytes_at(bytes, offset);
        let is_text = unpadded(&bytes).is_some();
        is_text.then_some(Self(bytes)).ok_or(Fault::Text { field, bytes_max: N })
    }

    fn write(self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
}

/// The bytes at `offset`; zeros if they are not all there.
#[inline]
fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let at = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    at.copied().unwrap_or([0; N])
}

/// Checks that a value is within its bounds.
pub(crate) fn bound(
    field: &'static str,
    got: u64,
    range: RangeInclusive<u64>,
) -> Result<(), Fault> {
    let (min, max) = range.into_inner();
    if (min..=max).contains(&got) { Ok(()) } else { Err(Fault::Bound { field, min, max, got }) }
}

/// A part of a message as a struct that implements [`Fields`], and [`Fixed`] with a type's number:
/// its bytes, then its fields by offset, some with bounds (`= MIN..=MAX`). `check` is a function
/// for relations between fields.
macro_rules! fields {
    ($(#[$meta:meta])* $name:ident: $(type $number:literal,)? $bytes:literal $(check $check:path)? {
        $($(#[$field_meta:meta])* $offset:literal $field:ident: $type:ty $(= $range:expr)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        $(impl $crate::fields::Fixed for $name {
            const TYPE: u16 = $number;
        })?

        impl $crate::fields::Fields for $name {
            const BYTES: usize = $bytes;

            #[inline]
            fn read(_bytes: &[u8]) -> Result<Self, $crate::fault::Fault> {
                let fields = Self {
                    $($field: $crate::fields::Field::read(_bytes, $offset, stringify!($field))?,)*
                };
                $($($crate::fields::bound(stringify!($field), fields.$field.into(), $range)?;)?)*
                $($check(&fields)?;)?
                Ok(fields)
            }

            #[inline]
            fn write(&self, _out: &mut [u8]) {
                $({
                    let bytes = <$type as $crate::fields::Field>::BYTES;
                    $crate::fields::Field::write(self.$field, &mut _out[$offset..$offset + bytes]);
                })*
            }
        }

        // The fields are in order, without overlap, and fill no more than the part.
        const _: () = {
            let ends = [0, $($offset + <$type as $crate::fields::Field>::BYTES,)*];
            let mut _index = 0;
            $(
                assert!($offset >= ends[_index]);
                _index += 1;
            )*
            assert!(ends[ends.len() - 1] <= $bytes && $bytes % 8 == 0);
        };
    };
}

/// An enumeration of which no other values are allowed.
macro_rules! closed {
    ($(#[$meta:meta])* $name:ident: $type:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($type)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $value,)+
        }

        impl $crate::fields::Field for $name {
            const BYTES: usize = size_of::<$type>();

            fn read(
                bytes: &[u8],
                offset: usize,
                field: &'static str,
            ) -> Result<Self, $crate::fault::Fault> {
                match <$type as $crate::fields::Field>::read(bytes, offset, field)? {
                    $($value => Ok(Self::$variant),)+
                    got => Err($crate::fault::Fault::Kind { field, got: got.into() }),
                }
            }

            fn write(self, out: &mut [u8]) {
                $crate::fields::Field::write(self as $type, out);
            }
        }
    };
}

/// An enumeration with names for the values that this version knows; others are kept, and shown as
/// numbers.
macro_rules! open {
    ($(#[$meta:meta])* $name:ident: $type:ident {
        $($(#[$value_meta:meta])* $constant:ident = $value:literal $text:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub $type);

        impl $name {
            $($(#[$value_meta])* pub const $constant: Self = Self($value);)+

            /// The name of a value that this version knows.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}", self.0),
                }
            }
        }

        impl $crate::fields::Field for $name {
            const BYTES: usize = size_of::<$type>();

            fn read(
                bytes: &[u8],
                offset: usize,
                field: &'static str,
            ) -> Result<Self, $crate::fault::Fault> {
                $crate::fields::Field::read(bytes, offset, field).map(Self)
            }

            fn write(self, out: &mut [u8]) {
                $crate::fields::Field::write(self.0, out);
            }
        }
    };
}

pub(crate) use {closed, fields, open};
