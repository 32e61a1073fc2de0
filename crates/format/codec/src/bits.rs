//! Splits sixty-four elements into rows of their bits, and joins them again, with each instruction
//! set.

/// Elements processed at once.
pub(crate) const GROUP: usize = 64;

/// A way of splitting and joining 64 elements.
pub(crate) trait Way {
    /// Sixty-four bytes as eight rows of their bits.
    fn rows(bytes: &[u8; GROUP]) -> [u64; 8];

    /// The inverse.
    #[inline(always)]
    fn bytes(rows: &[u64; 8]) -> [u8; GROUP] {
        plain::bytes(rows)
    }
}

/// The bytes of elements, with those of the same index in the element together.
#[inline(always)]
pub(crate) fn planes_of<const SIZE: usize>(group: &[[u8; SIZE]; GROUP]) -> [[u8; GROUP]; SIZE] {
    let mut planes = [[0; GROUP]; SIZE];
    for (i, element) in group.iter().enumerate() {
        for j in 0..SIZE {
            planes[j][i] = element[j];
        }
    }
    planes
}

/// The inverse of [`planes_of`].
#[inline(always)]
pub(crate) fn elements_of<const SIZE: usize>(
    planes: &[[u8; GROUP]; SIZE],
    group: &mut [[u8; SIZE]; GROUP],
) {
    for (i, element) in group.iter_mut().enumerate() {
        for j in 0..SIZE {
            element[j] = planes[j][i];
        }
    }
}

pub(crate) struct Plain;
#[cfg(target_arch = "x86_64")]
pub(crate) struct Sse2;
#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx512;

mod plain {
    use super::{GROUP, Plain, Way};

    /// Eight bytes as eight rows of eight bits: a square of bits transposed.
    #[inline(always)]
    fn mirror(mut square: u64) -> u64 {
        for (shift, mask) in [
            (7, 0x00aa_00aa_00aa_00aa_u64),
            (14, 0x0000_cccc_0000_cccc),
            (28, 0x0000_0000_f0f0_f0f0),
        ] {
            let moved = (square ^ (square >> shift)) & mask;
            square ^= moved ^ (moved << shift);
        }
        square
    }

    impl Way for Plain {
        #[inline(always)]
        fn rows(bytes: &[u8; GROUP]) -> [u64; 8] {
            let mut rows = [[0; 8]; 8];
            for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let square = mirror(u64::from_le_bytes(*eight)).to_le_bytes();
                for k in 0..8 {
                    rows[k][i] = square[k];
                }
            }
            rows.map(u64::from_le_bytes)
        }
    }

    #[inline(always)]
    pub fn bytes(rows: &[u64; 8]) -> [u8; GROUP] {
        let rows = rows.map(u64::to_le_bytes);
        let mut squares = [[0; 8]; 8];
        for (k, row) in rows.iter().enumerate() {
            for i in 0..8 {
                squares[i][k] = row[i];
            }
        }
        let mut bytes = [0; GROUP];
        for (eight, square) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(squares) {
            *eight = mirror(u64::from_le_bytes(square)).to_le_bytes();
        }
        bytes
    }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{__m128i, _mm_add_epi8, _mm_loadu_si128, _mm_movemask_epi8};

    use super::{GROUP, Sse2, Way};

    impl Way for Sse2 {
        /// The top bits of sixteen bytes at a time, then the next ones.
        #[inline(always)]
        fn rows(bytes: &[u8; GROUP]) -> [u64; 8] {
            let mut rows = [0; 8];
            for (i, sixteen) in bytes.as_chunks::<16>().0.iter().enumerate() {
                // SAFETY: every x86-64 processor has SSE2; sixteen bytes are read, at any address.
                unsafe {
                    let mut part = _mm_loadu_si128(sixteen.as_ptr().cast::<__m128i>());
                    for row in rows.iter_mut().rev() {
                        let top = _mm_movemask_epi8(part).cast_unsigned();
                        *row |= u64::from(top) << (16 * i);
                        part = _mm_add_epi8(part, part);
                    }
                }
            }
            rows
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
        _mm256_or_si256, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x,
        _mm256_setr_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_storeu_si256,
    };

    use super::{Avx2, GROUP, Way};

    impl Way for Avx2 {
        /// As with SSE2, thirty-two bytes at a time. Only called if AVX2 is present.
        #[inline(always)]
        fn rows(bytes: &[u8; GROUP]) -> [u64; 8] {
            let mut rows = [0; 8];
            for (i, part) in bytes.as_chunks::<32>().0.iter().enumerate() {
                // SAFETY: the caller is compiled for AVX2; 32 bytes are read, at any address.
                unsafe {
                    let mut part = _mm256_loadu_si256(part.as_ptr().cast::<__m256i>());
                    for row in rows.iter_mut().rev() {
                        *row |= u64::from(top(part)) << (32 * i);
                        part = _mm256_add_epi8(part, part);
                    }
                }
            }
            rows
        }

        /// Each of 32 bits is spread to a byte, and rows are joined bit by bit.
        #[inline(always)]
        fn bytes(rows: &[u64; 8]) -> [u8; GROUP] {
            let mut bytes = [0; GROUP];
            for (i, part) in bytes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                // SAFETY: the caller is compiled for AVX2; 32 bytes are written, at any address.
                unsafe {
                    let spread = _mm256_setr_epi64x(
                        0,
                        0x0101_0101_0101_0101,
                        0x0202_0202_0202_0202,
                        0x0303_0303_0303_0303,
                    );
                    let each = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
                    let mut all = _mm256_setzero_si256();
                    for (k, row) in rows.iter().enumerate() {
                        let word = _mm256_set1_epi32(((row >> (32 * i)) as u32).cast_signed());
                        let bits = _mm256_and_si256(_mm256_shuffle_epi8(word, spread), each);
                        let set = _mm256_cmpeq_epi8(bits, each);
                        let bit = _mm256_set1_epi8((1u8 << k).cast_signed());
                        all = _mm256_or_si256(all, _mm256_and_si256(set, bit));
                    }
                    _mm256_storeu_si256(part.as_mut_ptr().cast::<__m256i>(), all);
                }
            }
            bytes
        }
    }

    /// The top bits of 32 bytes. This uses the instruction itself: the compiler turns the intrinsic
    /// into a test of each byte.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn top(bytes: __m256i) -> u32 {
        let top: u32;
        // SAFETY: no memory is touched.
        unsafe {
            asm!("vpmovmskb {top:e}, {bytes}", top = lateout(reg) top,
                bytes = in(ymm_reg) bytes, options(pure, nomem, nostack, preserves_flags));
        }
        top
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi8, _mm512_loadu_si512, _mm512_maskz_set1_epi8, _mm512_movepi8_mask,
        _mm512_or_si512, _mm512_setzero_si512, _mm512_storeu_si512,
    };

    use super::{Avx512, GROUP, Way};

    impl Way for Avx512 {
        /// As with SSE2, all bytes at a time. Only called if AVX-512 is present.
        #[inline(always)]
        fn rows(bytes: &[u8; GROUP]) -> [u64; 8] {
            let mut rows = [0; 8];
            // SAFETY: the caller is compiled for AVX-512; 64 bytes are read, at any address.
            unsafe {
                let mut all = _mm512_loadu_si512(bytes.as_ptr().cast::<__m512i>());
                for row in rows.iter_mut().rev() {
                    *row = _mm512_movepi8_mask(all);
                    all = _mm512_add_epi8(all, all);
                }
            }
            rows
        }

        /// Rows are masks: each sets its bit in the bytes that it selects.
        #[inline(always)]
        fn bytes(rows: &[u64; 8]) -> [u8; GROUP] {
            let mut bytes = [0; GROUP];
            // SAFETY: the caller is compiled for AVX-512; 64 bytes are written, at any address.
            unsafe {
                let mut all = _mm512_setzero_si512();
                for (k, &row) in rows.iter().enumerate() {
                    let bit = (1u8 << k).cast_signed();
                    all = _mm512_or_si512(all, _mm512_maskz_set1_epi8(row, bit));
                }
                _mm512_storeu_si512(bytes.as_mut_ptr().cast::<__m512i>(), all);
            }
            bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_rows_of_bits_are_the_same_in_plain_code() {
        let raw: Vec<u8> = (0..GROUP as u64)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
            .collect();
        let bytes: &[u8; GROUP] = raw[..].try_into().expect("64 bytes");
        let rows = Plain::rows(bytes);
        assert_eq!(plain::bytes(&rows), *bytes);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(Sse2::rows(bytes), rows);
    }
}
