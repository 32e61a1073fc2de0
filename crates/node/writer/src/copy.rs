//! Copying into disk buffers past the cache.
//!
//! The disk reads the copied bytes next, not this CPU: ordinary stores would first fetch each line
//! of the buffer from memory, and evict useful data from the cache.

/// Copies bytes that this CPU will not read soon.
///
/// # Panics
/// The two have different lengths.
pub(crate) fn copy_past_cache(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "as many bytes there as here");
    #[cfg(target_arch = "x86_64")]
    if from.len() >= BYTES_MIN && std::is_x86_feature_detected!("avx") {
        // SAFETY: the CPU has AVX, as was just checked.
        unsafe { stream(to, from) };
        return;
    }
    to.copy_from_slice(from);
}

/// Shorter copies are not worth the fence at the end.
#[cfg(target_arch = "x86_64")]
const BYTES_MIN: usize = 4 << 10;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn stream(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    const LINE: usize = 64;
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let (to_head, to_rest) = to.split_at_mut(head);
    let (from_head, from_rest) = from.split_at(head);
    to_head.copy_from_slice(from_head);
    let (to_lines, to_tail) = to_rest.as_chunks_mut::<LINE>();
    let (from_lines, from_tail) = from_rest.as_chunks::<LINE>();
    for (to, from) in to_lines.iter_mut().zip(from_lines) {
        let (to, from) = (to.as_mut_ptr().cast::<__m256i>(), from.as_ptr().cast::<__m256i>());
        // SAFETY: both are lines of 64 bytes, which two vectors of 32 fill; a line to be written
        // stands on a multiple of 64, as streaming stores want, and loads take any address.
        unsafe {
            let (low, high) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_stream_si256(to, low);
            _mm256_stream_si256(to.add(1), high);
        }
    }
    to_tail.copy_from_slice(from_tail);
    // Streaming stores become visible before the buffer is handed to the disk.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_whatever_the_length_and_the_addresses() {
        let from: Vec<u8> = (0..70_000_u32).map(|n| (n * 7 + n / 251) as u8).collect();
        for bytes in [0, 1, 63, 64, 4_095, 4_096, 4_097, 65_536, 69_000] {
            for (at, start) in [(0, 0), (1, 0), (0, 3), (31, 17), (63, 64)] {
                let mut to = vec![0; 70_000];
                copy_past_cache(&mut to[at..at + bytes], &from[start..start + bytes]);
                assert_eq!(to[at..at + bytes], from[start..start + bytes], "{bytes} {at} {start}");
                assert!(to[..at].iter().chain(&to[at + bytes..]).all(|&byte| byte == 0));
            }
        }
    }
}
