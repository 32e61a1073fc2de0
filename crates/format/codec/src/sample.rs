//! Samples of a column: short pieces spread over all of it.

use crate::element::Element;

/// One piece: long enough for the runs and repeats that codecs use, and short enough for a column
/// to have many.
const PIECE_BYTES: usize = 4 * 1024;

/// Elements of a block of `for`.
const BLOCK_ELEMENTS: usize = 1_024;

/// Gathers about `sample_bytes` from pieces, one in each equal part of the column, at an offset
/// that differs from part to part, so that the pieces are not in step with rows of images or
/// periods of signals. The same columns give the same samples. A column that is not much longer is
/// taken whole.
pub(crate) fn gather<'a>(
    element: Element,
    raw: &'a [u8],
    sample_bytes: usize,
    memory: &'a mut Vec<u8>,
) -> &'a [u8] {
    if raw.len() <= sample_bytes + sample_bytes / 2 {
        return raw;
    }
    // Pieces begin and end with whole elements; pieces of integers begin where blocks of `for` do,
    // like the column's own blocks, because data often change in such steps (a board's channels,
    // one after another).
    let size = element.size();
    let step = if element.is_integer() { BLOCK_ELEMENTS } else { 1 };
    let piece = (PIECE_BYTES / size).max(step) / step * step * size;
    let parts = (sample_bytes / piece).max(1);
    let elements = raw.len() / size;
    memory.clear();
    for part in 0..parts {
        let (from, to) = (elements * part / parts, elements * (part + 1) / parts);
        let room = (to - from).saturating_sub(piece / size);
        let start = (from + scatter(part) % (room + 1)) / step * step * size;
        memory.extend_from_slice(&raw[start..raw.len().min(start + piece)]);
    }
    memory
}

/// A number that looks random and depends only on the part.
fn scatter(part: usize) -> usize {
    let mixed = (part as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_in_every_part_and_hold_whole_elements() {
        for element in [Element::Bytes, Element::I16, Element::Record(7), Element::F64] {
            let size = element.size();
            for elements in [1, 5_000, 40_000, 1_000_000] {
                let raw: Vec<u8> =
                    (0..elements).flat_map(|i| vec![(i % 251) as u8; size]).collect();
                let mut memory = Vec::new();
                let sample = gather(element, &raw, 32 * 1024, &mut memory);
                assert!(sample.len() <= 48 * 1024 && sample.len() <= raw.len());
                assert!(sample.len() >= raw.len().min(31 * 1024), "{element} {elements}");
                assert!(sample.chunks(size).all(|one| one.iter().all(|&byte| byte == one[0])));
            }
        }
    }

    #[test]
    fn what_stands_in_a_tenth_of_the_column_is_met_wherever_it_is() {
        for tenth in 0..10 {
            let mut raw = vec![0; 1 << 20];
            let part = raw.len() / 10;
            raw[tenth * part..][..part].fill(1);
            let mut memory = Vec::new();
            let sample = gather(Element::U16, &raw, 64 * 1024, &mut memory);
            let met = sample.iter().filter(|&&byte| byte == 1).count();
            assert!(met > sample.len() / 20, "{tenth}: {met} of {}", sample.len());
        }
    }
}
