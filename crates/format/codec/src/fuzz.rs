//! Properties that hold for every input: called by the fuzz target and by the tests.

use crate::codec::Codec;
use crate::coding::Coding;
use crate::decode::{
    Progress, check_sizes, decode_ahead, decode_column, decode_part, decode_rest, raw_bytes_of,
};
use crate::element::Element;
use crate::encode::ColumnEncoder;
use crate::error::CodecError;

/// No input requests more.
const RAW_BYTES_MAX: u64 = 1 << 20;

const ELEMENTS: [Element; 8] = [
    Element::Bytes,
    Element::Record(5),
    Element::U8,
    Element::I16,
    Element::U32,
    Element::I64,
    Element::F32,
    Element::F64,
];

const CODINGS: [Coding; 8] = [
    Coding::Lz4,
    Coding::Zstd { level: 1 },
    Coding::BitshuffleLz4,
    Coding::BitshuffleZstd { level: 1 },
    Coding::ShuffleLz4,
    Coding::ShuffleZstd { level: 1 },
    Coding::Pcodec { level: 1 },
    Coding::For,
];

/// Decodes the data after four bytes that give the codec and the raw size; then treats the data as
/// raw bytes, which must survive encoding and decoding.
///
/// # Panics
/// A defect of a decoder or an encoder.
pub fn fuzz_column(data: &[u8]) {
    let Some((&[which, low, middle, high], bytes)) = data.split_first_chunk() else { return };
    let codec = Codec::from_number(u16::from(which % 7));
    let mut out = Vec::new();
    let stated = raw_bytes_of(codec, bytes).unwrap_or_default();
    for raw_bytes in [u64::from(u32::from_le_bytes([low, middle, high, 0])), stated] {
        if raw_bytes > RAW_BYTES_MAX {
            continue;
        }
        let decoded = decode_column(codec, bytes, raw_bytes, &mut out);
        match &decoded {
            Ok(()) => assert_eq!(out.len() as u64, raw_bytes),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        if check_sizes(codec, bytes.len() as u64, raw_bytes).is_ok() {
            let mut slowly = vec![1; raw_bytes as usize];
            assert_eq!(decode_slowly(codec, bytes, &mut slowly), decoded);
            assert!(decoded.is_err() || slowly == out);
            let [from, to] = [low, middle].map(|at| raw_bytes as usize * usize::from(at) / 256);
            let part = decode_part(codec, bytes, from..to, &mut slowly);
            assert!(decoded.is_err() || part.is_ok() && slowly.get(from..to) == out.get(from..to));
        }
    }
    let element = ELEMENTS[usize::from(low) % ELEMENTS.len()];
    let coding = CODINGS[usize::from(middle) % CODINGS.len()];
    let mut encoder = ColumnEncoder::new();
    if let Some(stored) = encoder.encode_always(coding, element, bytes) {
        let codec = coding.for_element(element).codec();
        check_sizes(codec, stored.len() as u64, bytes.len() as u64).expect("sizes that can be");
        decode_column(codec, stored, bytes.len() as u64, &mut out).expect("decodes");
        assert!(out == bytes, "{coding} of {element}");
    }
}

/// Decodes as if the bytes arrived a few at a time, with other bytes in their positions before.
fn decode_slowly(codec: Codec, stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let mut coming = vec![0x55; stored.len()];
    let mut progress = Progress::default();
    let mut there = 0;
    for piece in stored.chunks(stored.len() / 7 + 1) {
        coming[there..there + piece.len()].copy_from_slice(piece);
        there += piece.len();
        decode_ahead(codec, &coming, there, out, &mut progress);
    }
    decode_rest(codec, &coming, out, progress)
}
