//! Shuffles: bytes, or bits, of neighbouring elements gathered by their position in the element, as
//! in c-blosc.
//!
//! Byte `j` of element `i` of `n` goes to `j * n + i`. Bit `k` of that byte goes to bit `i % 8` of
//! byte `(8 * j + k) * n / 8 + i / 8`; if `n` is not a multiple of 8, bits stay where they are.
//! Bytes after the last whole element stay where they are.

use crate::bits::{self, GROUP, Way, elements_of, planes_of};
use crate::cpu::Cpu;
#[cfg(target_arch = "x86_64")]
use crate::{squares, swaps};

/// Gathers bytes.
pub(crate) fn shuffle(size: usize, raw: &[u8], out: &mut [u8]) {
    match size {
        2 => shuffle_of::<2>(raw, out),
        4 => shuffle_of::<4>(raw, out),
        8 => shuffle_of::<8>(raw, out),
        _ => {
            let count = raw.len() / size;
            for (i, element) in raw.chunks_exact(size).enumerate() {
                for (j, &byte) in element.iter().enumerate() {
                    out[j * count + i] = byte;
                }
            }
            let whole = count * size;
            out[whole..].copy_from_slice(&raw[whole..]);
        }
    }
}

fn shuffle_of<const SIZE: usize>(raw: &[u8], out: &mut [u8]) {
    let count = raw.len() / SIZE;
    let (groups, _) = raw.as_chunks::<SIZE>();
    let mut at = 0;
    for group in groups.chunks(GROUP) {
        if let Ok(group) = group.try_into() {
            let planes = planes_of(group);
            for (j, plane) in planes.iter().enumerate() {
                out[j * count + at..][..GROUP].copy_from_slice(plane);
            }
        } else {
            for (i, element) in group.iter().enumerate() {
                for (j, &byte) in element.iter().enumerate() {
                    out[j * count + at + i] = byte;
                }
            }
        }
        at += group.len();
    }
    out[count * SIZE..].copy_from_slice(&raw[count * SIZE..]);
}

/// The inverse of [`shuffle`].
pub(crate) fn unshuffle(size: usize, shuffled: &[u8], out: &mut [u8]) {
    match size {
        2 => unshuffle_of::<2>(shuffled, out),
        4 => unshuffle_of::<4>(shuffled, out),
        8 => unshuffle_of::<8>(shuffled, out),
        _ => {
            let count = out.len() / size;
            for (i, element) in out.chunks_exact_mut(size).enumerate() {
                for (j, byte) in element.iter_mut().enumerate() {
                    *byte = shuffled[j * count + i];
                }
            }
            let whole = count * size;
            out[whole..].copy_from_slice(&shuffled[whole..]);
        }
    }
}

fn unshuffle_of<const SIZE: usize>(shuffled: &[u8], out: &mut [u8]) {
    let count = out.len() / SIZE;
    let (groups, _) = out.as_chunks_mut::<SIZE>();
    let mut at = 0;
    for group in groups.chunks_mut(GROUP) {
        let elements = group.len();
        if let Ok(group) = group.try_into() {
            let mut planes = [[0; GROUP]; SIZE];
            for (j, plane) in planes.iter_mut().enumerate() {
                plane.copy_from_slice(&shuffled[j * count + at..][..GROUP]);
            }
            elements_of(&planes, group);
        } else {
            for (i, element) in group.iter_mut().enumerate() {
                for (j, byte) in element.iter_mut().enumerate() {
                    *byte = shuffled[j * count + at + i];
                }
            }
        }
        at += elements;
    }
    out[count * SIZE..].copy_from_slice(&shuffled[count * SIZE..]);
}

macro_rules! compiled_for {
    ($name:ident, $inner:ident) => {
        fn $name(cpu: Cpu, size: usize, from: &[u8], out: &mut [u8]) {
            if !(from.len() / size).is_multiple_of(8) {
                out.copy_from_slice(from);
                return;
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2")]
                fn avx512(size: usize, from: &[u8], out: &mut [u8]) {
                    $inner::<bits::Avx512>(size, from, out);
                }
                #[target_feature(enable = "avx2,bmi2")]
                fn avx2(size: usize, from: &[u8], out: &mut [u8]) {
                    $inner::<bits::Avx2>(size, from, out);
                }
                match cpu {
                    // SAFETY: this value is only made if the processor has these.
                    Cpu::Avx512 | Cpu::Gfni => return unsafe { avx512(size, from, out) },
                    // SAFETY: as above.
                    Cpu::Avx2 => return unsafe { avx2(size, from, out) },
                    Cpu::Any => return $inner::<bits::Sse2>(size, from, out),
                }
            }
            #[allow(unreachable_code, reason = "for processors of other makes")]
            {
                let _ = cpu;
                $inner::<bits::Plain>(size, from, out);
            }
        }
    };
}

compiled_for!(shuffle_by_groups, gather_bits);
compiled_for!(unshuffle_by_groups, scatter_bits);

/// Gathers bits.
pub(crate) fn bitshuffle(cpu: Cpu, size: usize, raw: &[u8], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if has_vectors(cpu, size, raw.len()) {
        // SAFETY: this value is only made if the processor has what this needs.
        return unsafe { swaps::bitshuffle(size, raw, out) };
    }
    shuffle_by_groups(cpu, size, raw, out);
}

/// The inverse of [`bitshuffle`].
pub(crate) fn bitunshuffle(cpu: Cpu, size: usize, shuffled: &[u8], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if has_vectors(cpu, size, out.len()) {
        return match cpu {
            // SAFETY: this value is only made if the processor has what this needs.
            Cpu::Gfni => unsafe { squares::bitunshuffle(size, shuffled, out) },
            // SAFETY: as above.
            _ => unsafe { swaps::bitunshuffle(size, shuffled, out) },
        };
    }
    unshuffle_by_groups(cpu, size, shuffled, out);
}

/// Whether a vector holds many of these elements, and there are so many that bits are moved.
#[cfg(target_arch = "x86_64")]
fn has_vectors(cpu: Cpu, size: usize, bytes: usize) -> bool {
    cpu != Cpu::Any && matches!(size, 1 | 2 | 4 | 8) && (bytes / size).is_multiple_of(8)
}

#[inline(always)]
fn gather_bits<W: Way>(size: usize, raw: &[u8], out: &mut [u8]) {
    match size {
        1 => gather_bits_of::<W, 1>(raw, out),
        2 => gather_bits_of::<W, 2>(raw, out),
        4 => gather_bits_of::<W, 4>(raw, out),
        8 => gather_bits_of::<W, 8>(raw, out),
        _ => {
            let count = raw.len() / size;
            for start in (0..count).step_by(GROUP) {
                let elements = GROUP.min(count - start);
                for j in 0..size {
                    let mut plane = [0; GROUP];
                    for (i, byte) in plane[..elements].iter_mut().enumerate() {
                        *byte = raw[(start + i) * size + j];
                    }
                    put_rows(out, count, start, elements, j, &W::rows(&plane));
                }
            }
            out[count * size..].copy_from_slice(&raw[count * size..]);
        }
    }
}

#[inline(always)]
fn gather_bits_of<W: Way, const SIZE: usize>(raw: &[u8], out: &mut [u8]) {
    let count = raw.len() / SIZE;
    let (elements, rest) = raw.as_chunks::<SIZE>();
    for (index, group) in elements.chunks(GROUP).enumerate() {
        let mut own = [[0; SIZE]; GROUP];
        let whole = group.first_chunk().unwrap_or_else(|| {
            own[..group.len()].copy_from_slice(group);
            &own
        });
        for (j, plane) in planes_of(whole).iter().enumerate() {
            put_rows(out, count, index * GROUP, group.len(), j, &W::rows(plane));
        }
    }
    out[count * SIZE..].copy_from_slice(rest);
}

/// Writes the eight rows of byte `j` of a group's elements.
#[inline(always)]
fn put_rows(out: &mut [u8], count: usize, start: usize, group: usize, j: usize, rows: &[u64; 8]) {
    for (k, row) in rows.iter().enumerate() {
        let at = (8 * j + k) * (count / 8) + start / 8;
        if group == GROUP {
            out[at..at + 8].copy_from_slice(&row.to_le_bytes());
        } else {
            out[at..at + group / 8].copy_from_slice(&row.to_le_bytes()[..group / 8]);
        }
    }
}

#[inline(always)]
fn scatter_bits<W: Way>(size: usize, shuffled: &[u8], out: &mut [u8]) {
    match size {
        1 => scatter_bits_of::<W, 1>(shuffled, out),
        2 => scatter_bits_of::<W, 2>(shuffled, out),
        4 => scatter_bits_of::<W, 4>(shuffled, out),
        8 => scatter_bits_of::<W, 8>(shuffled, out),
        _ => {
            let count = out.len() / size;
            for start in (0..count).step_by(GROUP) {
                let elements = GROUP.min(count - start);
                for j in 0..size {
                    let plane = W::bytes(&rows_at(shuffled, count, start, elements, j));
                    for (i, &byte) in plane[..elements].iter().enumerate() {
                        out[(start + i) * size + j] = byte;
                    }
                }
            }
            out[count * size..].copy_from_slice(&shuffled[count * size..]);
        }
    }
}

#[inline(always)]
fn scatter_bits_of<W: Way, const SIZE: usize>(shuffled: &[u8], out: &mut [u8]) {
    let count = out.len() / SIZE;
    let (elements, rest) = out.as_chunks_mut::<SIZE>();
    for (index, group) in elements.chunks_mut(GROUP).enumerate() {
        let mut planes = [[0; GROUP]; SIZE];
        for (j, plane) in planes.iter_mut().enumerate() {
            *plane = W::bytes(&rows_at(shuffled, count, index * GROUP, group.len(), j));
        }
        if let Ok(group) = (&mut *group).try_into() {
            elements_of(&planes, group);
        } else {
            let mut own = [[0; SIZE]; GROUP];
            elements_of(&planes, &mut own);
            group.copy_from_slice(&own[..group.len()]);
        }
    }
    rest.copy_from_slice(&shuffled[count * SIZE..]);
}

#[inline(always)]
fn rows_at(shuffled: &[u8], count: usize, start: usize, group: usize, j: usize) -> [u64; 8] {
    let mut rows = [0; 8];
    for (k, row) in rows.iter_mut().enumerate() {
        let at = (8 * j + k) * (count / 8) + start / 8;
        let mut own = [0; 8];
        if group == GROUP {
            own.copy_from_slice(&shuffled[at..at + 8]);
        } else {
            own[..group / 8].copy_from_slice(&shuffled[at..at + group / 8]);
        }
        *row = u64::from_le_bytes(own);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(bytes: usize) -> Vec<u8> {
        (0..bytes as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
    }

    #[test]
    fn shuffles_put_bytes_and_bits_where_they_say() {
        for size in [1, 2, 3, 4, 8, 12, 24] {
            for count in [0, 1, 8, 56, 64, 72, 640, 1_000, 1_024, 1_544] {
                let raw = raw(count * size + size - 1);
                let mut out = vec![0; raw.len()];
                shuffle(size, &raw, &mut out);
                for (i, element) in raw.chunks_exact(size).enumerate() {
                    for (j, byte) in element.iter().enumerate() {
                        assert_eq!(out[j * count + i], *byte);
                    }
                }
                let mut back = vec![0; raw.len()];
                unshuffle(size, &out, &mut back);
                assert_eq!(back, raw);

                for cpu in Cpu::all_here() {
                    bitshuffle(cpu, size, &raw, &mut out);
                    if count.is_multiple_of(8) {
                        for (i, element) in raw.chunks_exact(size).enumerate() {
                            for bit in 0..8 * size {
                                let byte = out[bit * count / 8 + i / 8];
                                let expected = element[bit / 8] >> (bit % 8) & 1;
                                assert_eq!(byte >> (i % 8) & 1, expected, "{size} {count} {cpu:?}");
                            }
                        }
                    }
                    let mut back = vec![0; raw.len()];
                    bitunshuffle(cpu, size, &out, &mut back);
                    assert_eq!(back, raw, "{size} {count} {cpu:?}");
                }
            }
        }
    }
}
