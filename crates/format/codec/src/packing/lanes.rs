//! Bit-packing of 1,024 words in the layout of FastLanes, at a width that is known at run time.
//!
//! The rows of a block are runs of [`FastLanes::LANES`] neighbours; packed word `k` of a lane holds
//! bits `k * BITS` and following of the lane's words, one after another. The loops go over a row's
//! lanes, which the compiler turns into vectors of the available width. The crate `fastlanes` has
//! the same layout with a function per width; the tests compare ours with it.

use fastlanes::FL_ORDER;

use super::word::Word;

/// Words of a block.
pub const BLOCK: usize = 1024;

/// Where a row begins in its block.
#[inline(always)]
fn row_start(row: usize) -> usize {
    FL_ORDER[row / 8] * 16 + (row % 8) * 128
}

#[inline(always)]
fn mask<T: Word>(width: u32) -> T {
    if width == T::BITS { !T::default() } else { T::low((1 << width) - 1) }
}

/// Packs the low `width` bits of each word into the first `width * LANES` words of `out`.
#[inline(always)]
pub fn pack<T: Word>(width: u32, words: &[T; BLOCK], out: &mut [T; BLOCK]) {
    if width == 0 {
        return;
    }
    let mask = mask::<T>(width);
    for row in 0..T::BITS {
        let source = &words[row_start(row as usize)..][..T::LANES];
        let (word, shift) = (row * width / T::BITS, row * width % T::BITS);
        let first = &mut out[word as usize * T::LANES..][..T::LANES];
        if shift == 0 {
            for lane in 0..T::LANES {
                first[lane] = source[lane] & mask;
            }
        } else {
            for lane in 0..T::LANES {
                first[lane] |= (source[lane] & mask) << shift;
            }
        }
        if shift + width > T::BITS {
            let second = &mut out[(word as usize + 1) * T::LANES..][..T::LANES];
            for lane in 0..T::LANES {
                second[lane] = (source[lane] & mask) >> (T::BITS - shift);
            }
        }
    }
}

/// Unpacks the first `width * LANES` words of `packed`.
#[inline(always)]
pub fn unpack<T: Word>(width: u32, packed: &[T; BLOCK], out: &mut [T; BLOCK]) {
    if width == 0 {
        out.fill(T::default());
        return;
    }
    let mask = mask::<T>(width);
    for row in 0..T::BITS {
        let target = &mut out[row_start(row as usize)..][..T::LANES];
        let (word, shift) = (row * width / T::BITS, row * width % T::BITS);
        let first = &packed[word as usize * T::LANES..][..T::LANES];
        if shift + width > T::BITS {
            let second = &packed[(word as usize + 1) * T::LANES..][..T::LANES];
            for lane in 0..T::LANES {
                let bits = (first[lane] >> shift) | (second[lane] << (T::BITS - shift));
                target[lane] = bits & mask;
            }
        } else {
            for lane in 0..T::LANES {
                target[lane] = (first[lane] >> shift) & mask;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fastlanes::BitPacking;

    use super::*;

    fn words<T: Word>(width: u32) -> [T; BLOCK] {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        std::array::from_fn(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            T::low(state >> 8) & mask(width)
        })
    }

    fn compare<T: Word + BitPacking>() {
        for width in 0..=T::BITS {
            let words = words::<T>(width);
            let mut ours = [T::default(); BLOCK];
            pack(width, &words, &mut ours);
            let packed_words = width as usize * T::LANES;
            let mut theirs = vec![T::default(); packed_words];
            // SAFETY: the input has 1,024 words, the output as many as that width needs.
            unsafe { T::unchecked_pack(width as usize, &words, &mut theirs) };
            assert!(ours[..packed_words] == theirs, "width {width}");
            let mut back = [T::TOP; BLOCK];
            unpack(width, &ours, &mut back);
            assert!(back == words, "width {width}");
        }
    }

    #[test]
    fn the_layout_is_that_of_fastlanes_at_every_width() {
        compare::<u8>();
        compare::<u16>();
        compare::<u32>();
        compare::<u64>();
    }
}
