//! Zero suppression: differences in as few bits as the largest one in a block needs.
//!
//! A stream of bits, the lowest of each byte first. The first 16 bits give the samples per block.
//! Per block: `bits - 1` in 4, 5 or 6 bits (words of 16, 32, 64 bits), then each difference from
//! the previous sample, plus `2^(bits-1) - 1`, in `bits` bits; if `bits` is 1, all differences are
//! 0 and nothing follows. Differences wrap around like the words; floats are treated as words. For
//! complex samples, all real parts are followed by all imaginary parts, as one sequence of words.

/// Fills `out` with the samples.
pub(crate) fn expand(stored: &[u8], word_bytes: usize, out: &mut [u8]) -> Result<(), &'static str> {
    match word_bytes {
        2 => expand_words::<2>(stored, 4, out),
        4 => expand_words::<4>(stored, 5, out),
        _ => expand_words::<8>(stored, 6, out),
    }
}

fn expand_words<const WORD: usize>(
    stored: &[u8],
    width_bits: u32,
    out: &mut [u8],
) -> Result<(), &'static str> {
    let (words, rest) = out.as_chunks_mut::<WORD>();
    assert!(rest.is_empty());
    let mut bits = Bits { bytes: stored, at: 0 };
    let block = bits.take(16)? as usize;
    if block == 0 {
        return Err("blocks of no samples");
    }
    let mut value = 0u64;
    for words in words.chunks_mut(block) {
        let width = bits.take(width_bits)? as u32 + 1;
        let bias = (1u64 << (width - 1)) - 1;
        if width > 1 {
            bits.check(words.len() as u64 * u64::from(width))?;
        }
        for word in words {
            if width > 1 {
                let difference = bits.take(width)?.wrapping_sub(bias);
                value = value.wrapping_add(difference);
            }
            word.copy_from_slice(&value.to_le_bytes()[..WORD]);
        }
    }
    Ok(())
}

struct Bits<'a> {
    bytes: &'a [u8],
    /// The next bit.
    at: u64,
}

impl Bits<'_> {
    /// The next `count` bits, at most 64.
    fn take(&mut self, count: u32) -> Result<u64, &'static str> {
        self.check(count.into())?;
        let (byte, shift) = ((self.at / 8) as usize, self.at % 8);
        let mut window = [0; 16];
        let there = &self.bytes[byte..];
        match there.first_chunk::<16>() {
            Some(chunk) => window = *chunk,
            None => window[..there.len()].copy_from_slice(there),
        }
        self.at += u64::from(count);
        let value = (u128::from_le_bytes(window) >> shift) as u64;
        Ok(value & (u64::MAX >> (64 - count)))
    }

    fn check(&self, count: u64) -> Result<(), &'static str> {
        if count > self.bytes.len() as u64 * 8 - self.at {
            return Err("fewer bits than the samples need");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_bits_become_samples() {
        // Blocks of 2: +1 and -1 in 2 bits (2 and 0), then two of 0, then +3 alone in 3 bits (6).
        let mut bits = 0u128;
        let mut at = 0;
        for (value, count) in [(2u128, 16), (1, 4), (2, 2), (0, 2), (0, 4), (2, 4), (6, 3)] {
            bits |= value << at;
            at += count;
        }
        let mut out = [0; 10];
        expand(&bits.to_le_bytes()[..5], 2, &mut out).unwrap();
        assert_eq!(out, [1, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
    }

    #[test]
    fn what_is_cut_or_has_no_blocks_is_refused() {
        let mut out = [0; 8];
        assert_eq!(expand(&[0, 0, 1], 2, &mut out), Err("blocks of no samples"));
        for stored in [&[][..], &[12], &[12, 0], &[12, 0, 0xff], &[12, 0, 0xff, 1, 2, 3]] {
            assert_eq!(expand(stored, 2, &mut out), Err("fewer bits than the samples need"));
        }
    }

    #[test]
    fn differences_of_all_widths_come_back() {
        for width in 2..=64u32 {
            let (word_bytes, width_bits) = match width {
                ..=16 => (2, 4),
                17..=32 => (4, 5),
                _ => (8, 6),
            };
            let bias = (1u64 << (width - 1)) - 1;
            let value = bias; // The largest difference less one: twice the bias, stored.
            let fields = [(3u64, 16), (u64::from(width) - 1, width_bits), (value + bias, width)];
            let mut bits = 0u128;
            let mut at = 0;
            for (field, count) in fields {
                bits |= u128::from(field) << at;
                at += count;
            }
            let mut out = vec![0; word_bytes];
            expand(&bits.to_le_bytes(), word_bytes, &mut out).unwrap();
            assert_eq!(out, value.to_le_bytes()[..word_bytes], "{width} bits");
        }
    }
}
