//! pcodec's standalone files.

use pco::ChunkConfig;
use pco::data_types::{Number, NumberType};
use pco::standalone::{DecompressorItem, FileCompressor, FileDecompressor, simple_compress_into};

use crate::element::Element;
use crate::error::CodecError;

/// Numbers decoded at once; a multiple of pcodec's own batches.
const PIECE: usize = 16 * 1024;

/// Numbers of a chunk, but for the last ones.
pub(crate) const CHUNK: usize = pco::DEFAULT_MAX_PAGE_N;

/// A number and its little-endian bytes.
trait Plain: Number {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! plain {
    ($($T:ident)*) => {$(
        impl Plain for $T {
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$T>()];
                own.copy_from_slice(bytes);
                Self::from_le_bytes(own)
            }
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

plain!(u16 u32 u64 i16 i32 i64 f32 f64);

/// Encodes numbers, or refuses: if elements are not numbers, or the last is not whole.
pub(crate) fn encode(level: i32, element: Element, raw: &[u8], out: &mut Vec<u8>) -> bool {
    if !raw.len().is_multiple_of(element.size()) {
        return false;
    }
    let config = ChunkConfig::default().with_compression_level(level.clamp(0, 12) as usize);
    match element {
        Element::U16 => encode_of::<u16>(&config, raw, out),
        Element::U32 => encode_of::<u32>(&config, raw, out),
        Element::U64 => encode_of::<u64>(&config, raw, out),
        Element::I16 => encode_of::<i16>(&config, raw, out),
        Element::I32 => encode_of::<i32>(&config, raw, out),
        Element::I64 => encode_of::<i64>(&config, raw, out),
        Element::F32 => encode_of::<f32>(&config, raw, out),
        Element::F64 => encode_of::<f64>(&config, raw, out),
        Element::Bytes | Element::Record(_) | Element::U8 | Element::I8 => false,
    }
}

fn encode_of<T: Plain>(config: &ChunkConfig, raw: &[u8], out: &mut Vec<u8>) -> bool {
    let numbers: Vec<T> = raw.chunks_exact(size_of::<T>()).map(T::read).collect();
    out.clear();
    simple_compress_into(&numbers, config, out).is_ok()
}

/// What stands in front of the chunks of that many numbers.
pub(crate) fn header(element: Element, count: usize) -> Vec<u8> {
    let number_type = match element {
        Element::U16 => Some(NumberType::U16),
        Element::U32 => Some(NumberType::U32),
        Element::U64 => Some(NumberType::U64),
        Element::I16 => Some(NumberType::I16),
        Element::I32 => Some(NumberType::I32),
        Element::I64 => Some(NumberType::I64),
        Element::F32 => Some(NumberType::F32),
        Element::F64 => Some(NumberType::F64),
        Element::Bytes | Element::Record(_) | Element::U8 | Element::I8 => None,
    };
    let file = FileCompressor::default().with_n_hint(count).with_uniform_type(number_type);
    file.write_header(Vec::new()).expect("a vector takes every byte")
}

/// Decodes into exactly the raw bytes.
pub(crate) fn decode(stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let (file, rest) = FileDecompressor::new(stored).map_err(failed)?;
    match file.peek_number_type_or_termination(rest).map_err(failed)? {
        Some(NumberType::U16) => decode_of::<u16>(&file, rest, out),
        Some(NumberType::U32) => decode_of::<u32>(&file, rest, out),
        Some(NumberType::U64) => decode_of::<u64>(&file, rest, out),
        Some(NumberType::I16) => decode_of::<i16>(&file, rest, out),
        Some(NumberType::I32) => decode_of::<i32>(&file, rest, out),
        Some(NumberType::I64) => decode_of::<i64>(&file, rest, out),
        Some(NumberType::F32) => decode_of::<f32>(&file, rest, out),
        Some(NumberType::F64) => decode_of::<f64>(&file, rest, out),
        Some(other) => Err(CodecError::Decode { reason: format!("pcodec of {other:?}") }),
        None if out.is_empty() => Ok(()),
        None => Err(CodecError::Decode { reason: "pcodec without numbers".to_owned() }),
    }
}

fn failed(error: pco::errors::PcoError) -> CodecError {
    CodecError::Decode { reason: error.to_string() }
}

fn decode_of<T: Plain>(
    file: &FileDecompressor,
    mut rest: &[u8],
    out: &mut [u8],
) -> Result<(), CodecError> {
    let wrong = |got: usize| {
        let expected = "raw_bytes";
        Err(CodecError::Field { field: "decoded bytes", expected, got: got as u64 })
    };
    let mut piece = vec![T::default(); PIECE.min(out.len() / size_of::<T>()).next_multiple_of(256)];
    let mut at = 0;
    while let DecompressorItem::Chunk(mut chunk) =
        file.chunk_decompressor::<T, _>(rest).map_err(failed)?
    {
        let mut left = chunk.n();
        if left > (out.len() - at) / size_of::<T>() {
            return wrong(at + left.saturating_mul(size_of::<T>()));
        }
        while left > 0 {
            let progress = chunk.read(&mut piece).map_err(failed)?;
            let numbers = progress.n_processed;
            if numbers == 0 || numbers > left {
                return wrong(at);
            }
            let bytes = &mut out[at..at + numbers * size_of::<T>()];
            for (number, bytes) in piece.iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
                number.write(bytes);
            }
            at += numbers * size_of::<T>();
            left -= numbers;
        }
        rest = chunk.into_src();
    }
    if at == out.len() { Ok(()) } else { wrong(at) }
}
