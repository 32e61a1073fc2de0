//! A vector's samples: their types and storage.

use flate2::{Decompress, FlushDecompress, Status};

use crate::gwf::VECTOR_BYTES_MAX;
use crate::gwf::error::{GwfError, Part};
use crate::gwf::zero_suppress;

/// The type of a vector's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it: bits, and C for a pair of floats")]
pub enum VectorType {
    I8,
    I16,
    F64,
    F32,
    I32,
    I64,
    C64,
    C128,
    U16,
    U32,
    U64,
    U8,
}

/// How a vector's samples are stored, apart from their byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Raw.
    Raw,
    /// A zlib stream.
    Zlib,
    /// Differences from the previous sample, in a zlib stream.
    DifferenceZlib,
    /// Differences in as few bits as each block needs, from 16-bit words.
    ZeroSuppress16,
    /// The same from 32-bit words.
    ZeroSuppress32,
    /// The same from 64-bit words.
    ZeroSuppress64,
}

impl VectorType {
    /// Every type, with its number in files.
    pub const ALL: [(Self, u16); 12] = [
        (Self::I8, 0),
        (Self::I16, 1),
        (Self::F64, 2),
        (Self::F32, 3),
        (Self::I32, 4),
        (Self::I64, 5),
        (Self::C64, 6),
        (Self::C128, 7),
        (Self::U16, 9),
        (Self::U32, 10),
        (Self::U64, 11),
        (Self::U8, 12),
    ];

    /// The type with that number in files.
    pub(crate) fn of_number(part: Part, number: u16) -> Result<Self, GwfError> {
        if let Some((kind, _)) = Self::ALL.iter().find(|(_, known)| *known == number) {
            return Ok(*kind);
        }
        if number == 8 {
            return Err(GwfError::Unsupported { part, what: "a vector of strings".to_owned() });
        }
        Err(GwfError::Field { part, field: "type", expected: "0 to 12", got: number.into() })
    }

    /// Its number in files.
    pub(crate) fn number(self) -> u16 {
        let (_, number) = Self::ALL.iter().find(|(kind, _)| *kind == self).expect("all are there");
        *number
    }

    /// Bytes of a sample.
    pub fn bytes(self) -> usize {
        match self {
            Self::C64 => 8,
            Self::C128 => 16,
            _ => self.word_bytes(),
        }
    }

    /// Bytes of a number: half a complex sample, otherwise a sample.
    pub(crate) fn word_bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::C64 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C128 => 8,
        }
    }

    /// Whether samples are whole numbers.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F32 | Self::F64 | Self::C64 | Self::C128)
    }

    fn is_complex(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }
}

/// A vector's fields about its samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub kind: VectorType,
    pub compression: Compression,
    pub big_endian: bool,
    pub samples: u64,
    pub stored_bytes: u64,
}

impl Stored {
    /// Checks the four fields against each other.
    pub(crate) fn new(
        part: Part,
        compress: u16,
        number: u16,
        samples: u64,
        stored_bytes: u64,
    ) -> Result<Self, GwfError> {
        let kind = VectorType::of_number(part, number)?;
        let big_endian = compress & LITTLE_ENDIAN == 0;
        let compression = match compress & !LITTLE_ENDIAN {
            0 => Compression::Raw,
            1 => Compression::Zlib,
            3 => Compression::DifferenceZlib,
            5 => Compression::ZeroSuppress16,
            8 => Compression::ZeroSuppress32,
            10 => Compression::ZeroSuppress64,
            _ => {
                let what = format!("compression {compress}");
                return Err(GwfError::Unsupported { part, what });
            }
        };
        let fits = match compression {
            Compression::Raw | Compression::Zlib => true,
            // FrameL and frameCPP define differences of floats differently, and neither writes
            // them.
            Compression::DifferenceZlib => kind.is_integer(),
            Compression::ZeroSuppress16 => kind.word_bytes() == 2,
            Compression::ZeroSuppress32 => kind.word_bytes() == 4,
            Compression::ZeroSuppress64 => kind.word_bytes() == 8,
        };
        let suppressed = zero_suppress_word(compression).is_some();
        if !fits || (suppressed && big_endian) {
            let order = if big_endian { " (big-endian)" } else { "" };
            let what = format!("compression {compress}{order} of samples of type {kind:?}");
            return Err(GwfError::Unsupported { part, what });
        }
        let stored = Self { kind, compression, big_endian, samples, stored_bytes };
        stored.check_size(part)?;
        Ok(stored)
    }

    /// Bytes of the decoded samples.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.samples * self.kind.bytes() as u64
    }

    /// Replaces `out` with the samples, little-endian.
    pub(crate) fn decode(
        &self,
        part: Part,
        stored: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), GwfError> {
        assert_eq!(stored.len() as u64, self.stored_bytes);
        let raw_bytes = self.raw_bytes() as usize;
        out.clear();
        match self.compression {
            Compression::Raw => out.extend_from_slice(stored),
            Compression::Zlib | Compression::DifferenceZlib => {
                out.resize(raw_bytes, 0);
                inflate(stored, out).map_err(|reason| GwfError::Decode { part, reason })?;
            }
            Compression::ZeroSuppress16
            | Compression::ZeroSuppress32
            | Compression::ZeroSuppress64 => {
                let word_bytes = self.kind.word_bytes();
                out.resize(raw_bytes, 0);
                zero_suppress::expand(stored, word_bytes, out)
                    .map_err(|reason| GwfError::Decode { part, reason })?;
                if self.kind.is_complex() {
                    *out = pairs(word_bytes, out);
                }
            }
        }
        if self.big_endian && self.kind.word_bytes() > 1 {
            out.chunks_exact_mut(self.kind.word_bytes()).for_each(<[u8]>::reverse);
        }
        if self.compression == Compression::DifferenceZlib {
            sum(self.kind.word_bytes(), out);
        }
        Ok(())
    }

    fn check_size(&self, part: Part) -> Result<(), GwfError> {
        let raw_bytes = self.samples.checked_mul(self.kind.bytes() as u64);
        let most = match self.compression {
            Compression::Raw => self.stored_bytes,
            // zlib compresses at most 1,032 to 1; a sensible block of zeros saves less.
            _ => self.stored_bytes.saturating_mul(1_100).min(VECTOR_BYTES_MAX),
        };
        let least = if self.compression == Compression::Raw { self.stored_bytes } else { 0 };
        if raw_bytes.is_some_and(|bytes| bytes >= least && bytes <= most) {
            return Ok(());
        }
        let expected = match self.compression {
            Compression::Raw => "as many as nBytes holds",
            _ => "no more than nBytes can hold",
        };
        Err(GwfError::Field { part, field: "nData", expected, got: self.samples })
    }
}

/// Bytes of the words from which zero suppression takes differences, if this is one.
fn zero_suppress_word(compression: Compression) -> Option<usize> {
    match compression {
        Compression::ZeroSuppress16 => Some(2),
        Compression::ZeroSuppress32 => Some(4),
        Compression::ZeroSuppress64 => Some(8),
        Compression::Raw | Compression::Zlib | Compression::DifferenceZlib => None,
    }
}

fn inflate(stored: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
    if out.is_empty() {
        return Ok(());
    }
    let mut stream = Decompress::new(true);
    match stream.decompress(stored, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) if stream.total_out() == out.len() as u64 => Ok(()),
        Ok(Status::StreamEnd) => Err("the zlib stream ends early"),
        Ok(_) => Err("the zlib stream is cut or too long"),
        Err(_) => Err("the zlib stream is damaged"),
    }
}

/// Complex samples as all real parts followed by all imaginary parts: only frameCPP stores them,
/// and it does so if it suppresses zeros (docs/decisions/gwf-files.md).
fn pairs(word_bytes: usize, parts: &[u8]) -> Vec<u8> {
    let (real, imaginary) = parts.split_at(parts.len() / 2);
    let parts = real.chunks_exact(word_bytes).zip(imaginary.chunks_exact(word_bytes));
    let mut pairs = Vec::with_capacity(real.len() + imaginary.len());
    for (real, imaginary) in parts {
        pairs.extend_from_slice(real);
        pairs.extend_from_slice(imaginary);
    }
    pairs
}

/// Differences to samples, in place.
fn sum(word_bytes: usize, out: &mut [u8]) {
    macro_rules! sum {
        ($word:ty) => {{
            let mut value: $word = 0;
            for bytes in out.as_chunks_mut::<{ size_of::<$word>() }>().0 {
                value = value.wrapping_add(<$word>::from_le_bytes(*bytes));
                *bytes = value.to_le_bytes();
            }
        }};
    }
    match word_bytes {
        1 => sum!(u8),
        2 => sum!(u16),
        4 => sum!(u32),
        _ => sum!(u64),
    }
}

/// Set in a vector's compression if its numbers are little-endian.
pub(crate) const LITTLE_ENDIAN: u16 = 256;
