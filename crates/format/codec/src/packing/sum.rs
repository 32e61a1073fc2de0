//! Running sums, the inverse of differences.

macro_rules! plain {
    ($T:ident) => {
        #[inline(always)]
        pub fn $T(words: &mut [$T; 1024], before: $T) {
            let mut sum = before;
            for word in words {
                sum = sum.wrapping_add(*word);
                *word = sum;
            }
        }
    };
}

plain!(u8);
plain!(u64);

#[cfg(not(target_arch = "x86_64"))]
plain!(u16);
#[cfg(not(target_arch = "x86_64"))]
plain!(u32);

/// A register's words are summed by shifting and adding; only one addition per register depends on
/// the previous register.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn u16(words: &mut [u16; 1024], before: u16) {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi16, _mm_loadu_si128, _mm_set1_epi16, _mm_shuffle_epi32,
        _mm_shufflehi_epi16, _mm_slli_si128, _mm_storeu_si128,
    };
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        let mut carry = _mm_set1_epi16(before.cast_signed());
        for eight in words.as_chunks_mut::<8>().0 {
            let words = eight.as_mut_ptr().cast::<__m128i>();
            // SAFETY: the array holds eight words of 16 bits, and needs no alignment.
            let mut sums = _mm_loadu_si128(words);
            sums = _mm_add_epi16(sums, _mm_slli_si128::<2>(sums));
            sums = _mm_add_epi16(sums, _mm_slli_si128::<4>(sums));
            sums = _mm_add_epi16(sums, _mm_slli_si128::<8>(sums));
            let last = _mm_shuffle_epi32::<0xff>(_mm_shufflehi_epi16::<0xff>(sums));
            // SAFETY: as above.
            _mm_storeu_si128(words, _mm_add_epi16(sums, carry));
            carry = _mm_add_epi16(carry, last);
        }
    }
}

/// As for 16 bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn u32(words: &mut [u32; 1024], before: u32) {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_loadu_si128, _mm_set1_epi32, _mm_shuffle_epi32, _mm_slli_si128,
        _mm_storeu_si128,
    };
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        let mut carry = _mm_set1_epi32(before.cast_signed());
        for four in words.as_chunks_mut::<4>().0 {
            let words = four.as_mut_ptr().cast::<__m128i>();
            // SAFETY: the array holds four words of 32 bits, and needs no alignment.
            let mut sums = _mm_loadu_si128(words);
            sums = _mm_add_epi32(sums, _mm_slli_si128::<4>(sums));
            sums = _mm_add_epi32(sums, _mm_slli_si128::<8>(sums));
            let last = _mm_shuffle_epi32::<0xff>(sums);
            // SAFETY: as above.
            _mm_storeu_si128(words, _mm_add_epi32(sums, carry));
            carry = _mm_add_epi32(carry, last);
        }
    }
}
