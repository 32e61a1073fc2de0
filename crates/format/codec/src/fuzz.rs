//! What every input must survive: the fuzz target calls it, and so do the tests.

use crate::codec::Codec;
use crate::coding::Coding;
use crate::decode::{check_sizes, decode_column, raw_bytes_of};
use crate::element::Element;
use crate::encode::ColumnEncoder;

/// No input asks for more.
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

/// Decodes what stands behind four bytes, which say the codec and the raw size; then takes it as raw
/// bytes, which must come back from what they are encoded to.
///
/// # Panics
/// A defect of a decoder or an encoder.
pub fn fuzz_column(data: &[u8]) {
    let Some((&[which, low, middle, high], bytes)) = data.split_first_chunk() else { return };
    let codec = Codec::from_number(u16::from(which % 7));
    let mut out = Vec::new();
    let said = raw_bytes_of(codec, bytes).unwrap_or_default();
    for raw_bytes in [u64::from(u32::from_le_bytes([low, middle, high, 0])), said] {
        if raw_bytes > RAW_BYTES_MAX {
            continue;
        }
        match decode_column(codec, bytes, raw_bytes, &mut out) {
            Ok(()) => assert_eq!(out.len() as u64, raw_bytes),
            Err(error) => assert!(!error.to_string().is_empty()),
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
