//! Inconsistent stored bytes: an error, never a panic, and never more memory than the bytes can
//! expand to.

use crate::common::{CODINGS, wave};
use catchment_codec::{
    Codec, CodecError, Coding, ColumnEncoder, Element, check_sizes, decode_column, fuzz_column,
    raw_bytes_of,
};
use catchment_fixtures::Random;

fn stored(coding: Coding, element: Element, raw: &[u8]) -> Vec<u8> {
    let mut encoder = ColumnEncoder::new();
    encoder.encode_always(coding, element, raw).map_or(raw.to_vec(), <[u8]>::to_vec)
}

#[test]
fn lying_sizes_are_refused_before_anything_is_allocated() {
    let mut out = Vec::new();
    for codec in [Codec::Lz4, Codec::Zstd, Codec::Blosc, Codec::Pcodec, Codec::For] {
        for (stored_bytes, raw_bytes) in [(0, 1), (8, 1 << 60), (100, u64::MAX), (1, 1 << 30)] {
            let refused = check_sizes(codec, stored_bytes, raw_bytes);
            assert!(matches!(refused, Err(CodecError::Field { field: "raw_bytes", .. })));
            let bytes = vec![0; stored_bytes as usize];
            assert!(decode_column(codec, &bytes, raw_bytes, &mut out).is_err());
        }
    }
    assert!(check_sizes(Codec::None, 5, 6).is_err());
    let unknown = Codec::Unknown(77);
    assert_eq!(decode_column(unknown, &[], 0, &mut out), Err(CodecError::Unknown(unknown)));
    assert_eq!(out.capacity(), 0);
}

#[test]
fn columns_cut_anywhere_are_errors() {
    let raw = wave(Element::I16, 3_000, 1);
    let mut out = Vec::new();
    for coding in CODINGS {
        let stored = stored(coding, Element::I16, &raw);
        for cut in 0..stored.len() {
            let result = decode_column(coding.codec(), &stored[..cut], raw.len() as u64, &mut out);
            assert!(result.is_err(), "{coding} cut at {cut}");
        }
    }
}

#[test]
fn another_raw_size_than_the_column_has_is_an_error() {
    let raw = wave(Element::U32, 3_000, 2);
    let mut out = Vec::new();
    for coding in CODINGS {
        let stored = stored(coding, Element::U32, &raw);
        for raw_bytes in [0, 1, 4, 11_996, 11_999, 12_001, 12_004, 16_384] {
            let result = decode_column(coding.codec(), &stored, raw_bytes, &mut out);
            assert!(result.is_err(), "{coding} as {raw_bytes} bytes");
        }
    }
}

#[test]
fn changed_bytes_never_panic_and_never_give_more() {
    let mut random = Random::new(9);
    let mut out = Vec::new();
    for element in [Element::U8, Element::I16, Element::U32, Element::F64, Element::Record(3)] {
        let raw = [wave(element, 2_500, 3), Random::new(1).noise(5)].concat();
        for coding in CODINGS {
            let codec = coding.for_element(element).codec();
            let good = stored(coding, element, &raw);
            for _ in 0..400 {
                let mut bytes = good.clone();
                for _ in 0..=random.index(4) {
                    // Headers are mutated more often than their share.
                    let end = if random.index(2) == 0 { bytes.len() } else { bytes.len().min(40) };
                    let at = random.index(end);
                    bytes[at] = random.next_u64() as u8;
                }
                if decode_column(codec, &bytes, raw.len() as u64, &mut out).is_ok() {
                    assert_eq!(out.len(), raw.len());
                }
                let _ = raw_bytes_of(codec, &bytes);
                let which = codec.number() as u8;
                fuzz_column(&[&[which, 7, 3, 0][..], &bytes].concat());
            }
        }
    }
}

#[test]
fn a_for_column_that_lies_is_refused_field_by_field() {
    let raw = wave(Element::U16, 1_024 + 10, 4);
    let good = stored(Coding::For, Element::U16, &raw);
    let mut out = Vec::new();
    let cases = [
        (0, 2, "for version is 2, expected 1"),
        (1, 3, "for element bytes is 3, expected 1, 2, 4 or 8"),
        (2, 1, "for reserved bytes"),
        (8, 1, "for raw size"),
        (16, 17, "width is 17, expected at most the element's bits"),
        (17, 2, "mode is 2, expected 0 or 1"),
        (19, 0xff, "exceptions is"),
    ];
    for (at, byte, message) in cases {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let error = decode_column(Codec::For, &bytes, raw.len() as u64, &mut out);
        let error = error.expect_err(message).to_string();
        assert!(error.starts_with(message), "{error} is not {message}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(decode_column(Codec::For, &longer, raw.len() as u64, &mut out).is_err());
}
