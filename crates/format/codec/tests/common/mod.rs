//! Data for tests.
#![allow(dead_code, reason = "not every test uses all")]

use catchment_codec::{Coding, Element};
use catchment_fixtures::Random;

pub const CODINGS: [Coding; 9] = [
    Coding::None,
    Coding::Lz4,
    Coding::Zstd { level: 1 },
    Coding::BitshuffleLz4,
    Coding::BitshuffleZstd { level: 1 },
    Coding::ShuffleLz4,
    Coding::ShuffleZstd { level: 3 },
    Coding::Pcodec { level: 4 },
    Coding::For,
];

pub const ELEMENTS: [Element; 13] = [
    Element::Bytes,
    Element::Record(3),
    Element::Record(24),
    Element::U8,
    Element::U16,
    Element::U32,
    Element::U64,
    Element::I8,
    Element::I16,
    Element::I32,
    Element::I64,
    Element::F32,
    Element::F64,
];

/// A slow wave with a little noise, around zero (odd seeds) or a pedestal (even seeds).
pub fn wave(element: Element, count: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let size = element.size();
    let pedestal = if seed.is_multiple_of(2) { 60 } else { 0 };
    let mut raw = Vec::with_capacity(count * size);
    for i in 0..count {
        let value = pedestal + ((i / 50) % 40) as i64 - 20 + random.below(4) as i64;
        match element {
            Element::F32 => raw.extend(((value as f32) * 0.25).to_le_bytes()),
            Element::F64 => raw.extend(((value as f64) * 0.25).to_le_bytes()),
            _ => {
                let bytes = value.to_le_bytes();
                raw.extend((0..size).map(|j| if j < 8 { bytes[j] } else { j as u8 }));
            }
        }
    }
    raw
}
