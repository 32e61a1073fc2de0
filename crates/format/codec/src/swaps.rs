//! A bit shuffle and its inverse with AVX2, 256 elements at a time. Twice to four times as fast as
//! one row of bits after another.
//!
//! Bits of eight vectors are transposed by swaps: the upper four bits of each byte of vectors 0 to
//! 3 for the lower four of vectors 4 to 7, then pairs of bits, then single ones. If byte `b` of
//! vector `i` is a byte of element `8 * b + i`, byte `b` of vector `k` then holds bit `k` of eight
//! elements, and vector `k` is the row of that bit. Transposing again undoes it.
//!
//! Zips, which interleave the bytes of the first half of all vectors with those of the second, move
//! bytes to such positions. The position of a byte is the number of its vector, followed by the
//! index within 16 bytes as the lower bits; a zip rotates its bits left by one. After four zips the
//! upper four bits of the element's number are the index within the vector. The inverse continues
//! zipping until the rotation is complete. Vectors have two lanes of 16 bytes, which zips do not
//! mix: one is for the first 128 elements, the other for the last. Steps use eight vectors, since
//! there are sixteen registers.

use std::arch::x86_64::{
    __m128i, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_storeu_si128,
    _mm256_and_si256, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256,
    _mm256_set_m128i, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_slli_epi16, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm256_unpackhi_epi8, _mm256_unpacklo_epi8, _mm256_xor_si256,
};

/// Elements processed at once.
const ELEMENTS: usize = 256;
/// Bytes of a row of their bits.
const ROW_BYTES: usize = ELEMENTS / 8;

/// The positions of the rows of a group's bits: the first at this offset, each `row_bytes` after
/// the previous one.
#[derive(Clone, Copy)]
struct RowLayout {
    row_bytes: usize,
    offset: usize,
}

/// Gathers bits of elements of 1, 2, 4 or 8 bytes, whose number is a multiple of 8. Bytes after the
/// last whole element stay where they are.
#[target_feature(enable = "avx2")]
pub(crate) fn bitshuffle(size: usize, raw: &[u8], out: &mut [u8]) {
    match size {
        1 => gather::<1>(raw, out),
        2 => gather::<2>(raw, out),
        4 => gather::<4>(raw, out),
        8 => gather::<8>(raw, out),
        other => unreachable!("elements of {other} bytes"),
    }
}

/// The inverse of [`bitshuffle`].
#[target_feature(enable = "avx2")]
pub(crate) fn bitunshuffle(size: usize, shuffled: &[u8], out: &mut [u8]) {
    match size {
        1 => scatter::<1>(shuffled, out),
        2 => scatter::<2>(shuffled, out),
        4 => scatter::<4>(shuffled, out),
        8 => scatter::<8>(shuffled, out),
        other => unreachable!("elements of {other} bytes"),
    }
}

#[target_feature(enable = "avx2")]
fn gather<const SIZE: usize>(raw: &[u8], out: &mut [u8]) {
    let row_bytes = raw.len() / SIZE / 8;
    let whole = row_bytes * 8 * SIZE;
    out[whole..].copy_from_slice(&raw[whole..]);
    let mut parts = [[_mm256_setzero_si256(); 8]; SIZE];
    let mut at = 0;
    for group in raw[..whole].as_chunks::<ELEMENTS>().0.chunks_exact(SIZE) {
        let group = group.first_chunk().expect("a whole group");
        prefetch::<SIZE>(group.as_ptr_range().end);
        rows::<SIZE>(group, &mut parts, out, RowLayout { row_bytes, offset: at });
        at += ROW_BYTES;
    }
    let bytes = row_bytes - at;
    if bytes > 0 {
        let (mut group, mut own) = ([[0; ELEMENTS]; SIZE], [[0; ELEMENTS]; SIZE]);
        group.as_flattened_mut()[..bytes * 8 * SIZE].copy_from_slice(&raw[at * 8 * SIZE..whole]);
        rows::<SIZE>(
            &group,
            &mut parts,
            own.as_flattened_mut(),
            RowLayout { row_bytes: ROW_BYTES, offset: 0 },
        );
        for (row, own) in own.as_flattened().as_chunks::<ROW_BYTES>().0.iter().enumerate() {
            out[row * row_bytes + at..][..bytes].copy_from_slice(&own[..bytes]);
        }
    }
}

#[target_feature(enable = "avx2")]
fn scatter<const SIZE: usize>(shuffled: &[u8], out: &mut [u8]) {
    let row_bytes = out.len() / SIZE / 8;
    let whole = row_bytes * 8 * SIZE;
    out[whole..].copy_from_slice(&shuffled[whole..]);
    let mut planes = [[_mm256_setzero_si256(); 8]; SIZE];
    let mut at = 0;
    for group in out[..whole].as_chunks_mut::<ELEMENTS>().0.chunks_exact_mut(SIZE) {
        let group = group.first_chunk_mut().expect("a whole group");
        prefetch::<SIZE>(group.as_ptr_range().end);
        elements::<SIZE>(shuffled, RowLayout { row_bytes, offset: at }, &mut planes, group);
        at += ROW_BYTES;
    }
    let bytes = row_bytes - at;
    if bytes > 0 {
        let (mut group, mut own) = ([[0; ELEMENTS]; SIZE], [[0; ELEMENTS]; SIZE]);
        for (row, own) in
            own.as_flattened_mut().as_chunks_mut::<ROW_BYTES>().0.iter_mut().enumerate()
        {
            own[..bytes].copy_from_slice(&shuffled[row * row_bytes + at..][..bytes]);
        }
        elements::<SIZE>(
            own.as_flattened(),
            RowLayout { row_bytes: ROW_BYTES, offset: 0 },
            &mut planes,
            &mut group,
        );
        out[at * 8 * SIZE..whole].copy_from_slice(&group.as_flattened()[..bytes * 8 * SIZE]);
    }
}

/// Writes the rows of 256 elements' bits to the positions of the layout.
#[inline]
#[target_feature(enable = "avx2")]
fn rows<const SIZE: usize>(
    group: &[[u8; ELEMENTS]; SIZE],
    parts: &mut [[__m256i; 8]; SIZE],
    out: &mut [u8],
    RowLayout { row_bytes, offset }: RowLayout,
) {
    let (sixteens, _) = group.as_flattened().as_chunks::<16>();
    for (part, zipped) in parts.iter_mut().enumerate() {
        let mut eight = [_mm256_setzero_si256(); 8];
        for (k, vector) in eight.iter_mut().enumerate() {
            let index = k * SIZE + part;
            let (low, high) = (&sixteens[index], &sixteens[8 * SIZE + index]);
            *vector = _mm256_set_m128i(load_half(high), load_half(low));
        }
        *zipped = zip(zip(zip(eight)));
    }
    // The fourth zip gives byte `j` of elements `8 * b + i`: one of the two vectors of each pair.
    let vectors = parts.as_flattened();
    for j in 0..SIZE {
        let mut eight = [_mm256_setzero_si256(); 8];
        for (i, vector) in eight.iter_mut().enumerate() {
            let (index, upper) =
                if SIZE == 1 { (i / 2, i % 2) } else { (i * SIZE / 2 + j / 2, j % 2) };
            let (a, b) = (vectors[index], vectors[4 * SIZE + index]);
            *vector = match upper {
                0 => _mm256_unpacklo_epi8(a, b),
                _ => _mm256_unpackhi_epi8(a, b),
            };
        }
        for (k, row) in mirror(eight).into_iter().enumerate() {
            let target = &mut out[(8 * j + k) * row_bytes + offset..];
            store(row, target.first_chunk_mut().expect("a whole group"));
        }
    }
}

/// Makes 256 elements from the rows of their bits.
#[inline]
#[target_feature(enable = "avx2")]
fn elements<const SIZE: usize>(
    shuffled: &[u8],
    RowLayout { row_bytes, offset }: RowLayout,
    planes: &mut [[__m256i; 8]; SIZE],
    group: &mut [[u8; ELEMENTS]; SIZE],
) {
    for (j, plane) in planes.iter_mut().enumerate() {
        let mut eight = [_mm256_setzero_si256(); 8];
        for (k, row) in eight.iter_mut().enumerate() {
            let source = &shuffled[(8 * j + k) * row_bytes + offset..];
            *row = load(source.first_chunk().expect("a whole group"));
        }
        *plane = zip(zip(zip(mirror(eight))));
    }
    let (targets, _) = group.as_flattened_mut().as_chunks_mut::<16>();
    for k in 0..8 {
        let mut vectors = [_mm256_setzero_si256(); SIZE];
        for (vector, plane) in vectors.iter_mut().zip(&*planes) {
            *vector = plane[k];
        }
        for _ in 0..SIZE.ilog2() {
            vectors = zip(vectors);
        }
        for (i, vector) in vectors.into_iter().enumerate() {
            let index = k * SIZE + i;
            store_half(_mm256_castsi256_si128(vector), &mut targets[index]);
            store_half(_mm256_extracti128_si256::<1>(vector), &mut targets[8 * SIZE + index]);
        }
    }
}

/// Prefetches the lines of the next group while this one is computed: large columns are in no
/// cache.
#[inline]
#[target_feature(enable = "avx2")]
fn prefetch<const SIZE: usize>(group: *const [u8; ELEMENTS]) {
    for line in 0..ELEMENTS * SIZE / 64 {
        // A hint, for any address, even after the last group.
        _mm_prefetch::<_MM_HINT_T0>(group.cast::<i8>().wrapping_add(64 * line));
    }
}

/// Interleaves the bytes of the first half of the vectors with those of the second, within each
/// lane.
#[inline]
#[target_feature(enable = "avx2")]
fn zip<const COUNT: usize>(vectors: [__m256i; COUNT]) -> [__m256i; COUNT] {
    let mut zipped = vectors;
    for at in 0..COUNT / 2 {
        let (a, b) = (vectors[at], vectors[at + COUNT / 2]);
        zipped[2 * at] = _mm256_unpacklo_epi8(a, b);
        zipped[2 * at + 1] = _mm256_unpackhi_epi8(a, b);
    }
    zipped
}

/// Transposes squares of bits: bit `k` of vector `i` becomes bit `i` of vector `k`, in each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn mirror(mut rows: [__m256i; 8]) -> [__m256i; 8] {
    for i in [0, 1, 2, 3] {
        (rows[i], rows[i + 4]) = swap::<4>(rows[i], rows[i + 4], 0x0f);
    }
    for i in [0, 1, 4, 5] {
        (rows[i], rows[i + 2]) = swap::<2>(rows[i], rows[i + 2], 0x33);
    }
    for i in [0, 2, 4, 6] {
        (rows[i], rows[i + 1]) = swap::<1>(rows[i], rows[i + 1], 0x55);
    }
    rows
}

/// Exchanges the bits of `low` in the mask for the bits of `high` that are `BITS` higher.
#[inline]
#[target_feature(enable = "avx2")]
fn swap<const BITS: i32>(high: __m256i, low: __m256i, mask: i8) -> (__m256i, __m256i) {
    let mask = _mm256_set1_epi8(mask);
    let differing = _mm256_xor_si256(_mm256_srli_epi16::<BITS>(high), low);
    let differing = _mm256_and_si256(differing, mask);
    let moved = _mm256_slli_epi16::<BITS>(differing);
    (_mm256_xor_si256(high, moved), _mm256_xor_si256(low, differing))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; ROW_BYTES]) -> __m256i {
    // SAFETY: 32 bytes are read, at any address.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_half(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: 16 bytes are read, at any address.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_half(vector: __m128i, bytes: &mut [u8; 16]) {
    // SAFETY: 16 bytes are written, at any address.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(vector: __m256i, bytes: &mut [u8; ROW_BYTES]) {
    // SAFETY: 32 bytes are written, at any address.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}
