//! The loops over samples: eight lanes that the compiler turns into vectors, for the CPU it runs
//! on.
//!
//! Integers of 8 and 16 bits are summed exactly, as integers; scale and offset are put to the sums.
//! All other types go through `f64`, where integers of 32 bits are exact
//! (docs/decisions/trend-values.md). The lanes are the same for every CPU and no multiply-add is
//! fused, so that the same samples give the same bits everywhere.
//!
//! A block is first summed as if all were finite. NaN and infinities make the sum of squares NaN or
//! infinite, and only then is the block gone through again with each sample looked at.

use crate::accumulator::{Accumulator, Block};
use crate::element::{Element, Exact};

/// Samples that are summed in plain `f64` before the sums go to the accumulator: 128 per lane,
/// which keeps the error under 1.5e-14 of the sum of magnitudes.
pub(crate) const BLOCK_SAMPLES: usize = 1_024;

const LANES: usize = 8;

/// Scale and offset of the values, and the raw samples' limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    pub scale: f64,
    pub offset: f64,
    pub limits: Option<(f64, f64)>,
}

/// Adds the samples, little-endian and of type `E`, to an accumulator.
pub(crate) fn accumulate<E: Element>(bytes: &[u8], values: Values, into: &mut Accumulator) {
    let samples = E::split(bytes);
    if values.scale == 1.0 && values.offset == 0.0 {
        dispatch::<E, false>(samples, values, into);
    } else {
        dispatch::<E, true>(samples, values, into);
    }
}

fn dispatch<E: Element, const SCALED: bool>(
    samples: &[E::Raw],
    values: Values,
    into: &mut Accumulator,
) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the CPU has these features.
            return unsafe { blocks_avx512::<E, SCALED>(samples, values, into) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has this feature.
            return unsafe { blocks_avx2::<E, SCALED>(samples, values, into) };
        }
    }
    blocks::<E, SCALED>(samples, values, into);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn blocks_avx512<E: Element, const SCALED: bool>(
    samples: &[E::Raw],
    values: Values,
    into: &mut Accumulator,
) {
    blocks::<E, SCALED>(samples, values, into);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn blocks_avx2<E: Element, const SCALED: bool>(
    samples: &[E::Raw],
    values: Values,
    into: &mut Accumulator,
) {
    blocks::<E, SCALED>(samples, values, into);
}

#[inline(always)]
fn blocks<E: Element, const SCALED: bool>(
    samples: &[E::Raw],
    values: Values,
    into: &mut Accumulator,
) {
    for samples in samples.chunks(BLOCK_SAMPLES) {
        if let Some(sums) = E::exact(samples) {
            into.take(&of_exact::<E, SCALED>(samples, sums, values));
            continue;
        }
        let mut block = all_finite::<E, SCALED>(samples, values);
        if !block.squares.is_finite() {
            block = looked_at::<E, SCALED>(samples, values);
        }
        into.take(&block);
    }
}

/// The sums of a block, right where every sample is finite.
#[inline(always)]
fn all_finite<E: Element, const SCALED: bool>(samples: &[E::Raw], values: Values) -> Block {
    let Values { scale, offset, limits } = values;
    let mut sum = [0.0; LANES];
    let mut squares = [0.0; LANES];
    let mut min = [E::HIGHEST; LANES];
    let mut max = [E::LOWEST; LANES];
    // A loop for each, over as many lanes as it is told: unrolled, the compiler makes vectors of
    // what belongs to one lane, which is two to five times slower (docs/decisions/trend-values.md).
    let mut take = |raw: &[E::Raw; LANES], lanes: usize| {
        let samples: [E; LANES] = std::array::from_fn(|lane| E::load(raw[lane]));
        let values: [f64; LANES] =
            std::array::from_fn(|lane| samples[lane].value::<SCALED>(scale, offset));
        for lane in 0..lanes {
            sum[lane] += values[lane];
        }
        for lane in 0..lanes {
            squares[lane] += values[lane] * values[lane];
        }
        for lane in 0..lanes {
            min[lane] = smaller(samples[lane].key(values[lane]), min[lane]);
        }
        for lane in 0..lanes {
            max[lane] = larger(samples[lane].key(values[lane]), max[lane]);
        }
    };
    let (chunks, rest) = samples.as_chunks::<LANES>();
    for chunk in chunks {
        take(chunk, LANES);
    }
    if let [first, ..] = rest {
        let mut last = [*first; LANES];
        last[..rest.len()].copy_from_slice(rest);
        take(&last, rest.len());
    }
    let keys = (min.into_iter().reduce(smaller), max.into_iter().reduce(larger));
    let keys = (keys.0.unwrap_or(E::HIGHEST), keys.1.unwrap_or(E::LOWEST));
    let (min, max) = E::extremes::<SCALED>(keys, scale, offset);
    Block {
        count: samples.len() as u64,
        not_finite: 0,
        saturated: saturated::<E>(samples, keys, limits),
        sum: total(sum),
        squares: total(squares),
        min,
        max,
    }
}

/// The sums of a block with each sample looked at.
#[inline(always)]
fn looked_at<E: Element, const SCALED: bool>(samples: &[E::Raw], values: Values) -> Block {
    let mut count = [0_u64; LANES];
    let mut saturated = [0_u64; LANES];
    let mut sum = [0.0; LANES];
    let mut squares = [0.0; LANES];
    let mut min = [f64::INFINITY; LANES];
    let mut max = [f64::NEG_INFINITY; LANES];
    let limits = values.limits.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    for samples in samples.chunks(LANES) {
        for (lane, raw) in samples.iter().enumerate() {
            let sample = E::load(*raw);
            let value = sample.value::<SCALED>(values.scale, values.offset);
            let finite = value.is_finite();
            count[lane] += u64::from(finite);
            saturated[lane] += u64::from(finite & sample.saturates(limits));
            min[lane] = if finite { smaller(value, min[lane]) } else { min[lane] };
            max[lane] = if finite { larger(value, max[lane]) } else { max[lane] };
            let value = if finite { value } else { 0.0 };
            sum[lane] += value;
            squares[lane] += value * value;
        }
    }
    let count = count.iter().sum();
    Block {
        count,
        not_finite: samples.len() as u64 - count,
        saturated: saturated.iter().sum(),
        sum: total(sum),
        squares: total(squares),
        min: min.into_iter().fold(f64::INFINITY, smaller),
        max: max.into_iter().fold(f64::NEG_INFINITY, larger),
    }
}

/// A block from the exact sums of its raw samples.
#[inline(always)]
fn of_exact<E: Element, const SCALED: bool>(
    samples: &[E::Raw],
    sums: Exact<E>,
    values: Values,
) -> Block {
    let Values { scale, offset, limits } = values;
    let Exact { sum, squares, keys } = sums;
    let count = samples.len() as i64;
    let (min, max) = E::extremes::<SCALED>(keys, scale, offset);
    let (sum, squares) = if SCALED {
        // With the squares about the mean nothing cancels that is not exact: 1,024 samples of 16
        // bits leave both products below 2^52.
        let about_mean = (count * squares - sum * sum) as f64 / count as f64;
        let scaled = sum as f64 * scale + count as f64 * offset;
        (scaled, scaled * scaled / count as f64 + about_mean * scale * scale)
    } else {
        (sum as f64, squares as f64)
    };
    let saturated = saturated::<E>(samples, keys, limits);
    Block { count: count as u64, not_finite: 0, saturated, sum, squares, min, max }
}

/// How many samples are at a limit. Blocks whose extremes are not there need no count.
#[inline(always)]
fn saturated<E: Element>(
    samples: &[E::Raw],
    keys: (E::Key, E::Key),
    limits: Option<(f64, f64)>,
) -> u64 {
    match limits {
        Some(limits) if E::may_saturate(keys, limits) => {
            samples.iter().map(|raw| u64::from(E::load(*raw).saturates(limits))).sum()
        }
        _ => 0,
    }
}

#[inline(always)]
fn smaller<K: PartialOrd>(key: K, than: K) -> K {
    if key < than { key } else { than }
}

#[inline(always)]
fn larger<K: PartialOrd>(key: K, than: K) -> K {
    if key > than { key } else { than }
}

/// The lanes' sum, in one order for every CPU.
#[inline(always)]
fn total(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Complex;

    /// Samples of all kinds, some thousand, as the bits fall.
    fn bytes() -> Vec<u8> {
        let mut random = 7_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 40).to_le_bytes()[0]
        };
        (0..40_016).map(|_| next()).collect()
    }

    fn same_everywhere<E: Element>() {
        let bytes = bytes();
        let limits = Some((-10.0, 100.0));
        for length in [0, 16, 48, 4_000, bytes.len()] {
            for (scale, offset) in [(1.0, 0.0), (-0.3, 7.0)] {
                let values = Values { scale, offset, limits };
                let samples = E::split(&bytes[..length]);
                let mut plain = Accumulator::EMPTY;
                let mut chosen = Accumulator::EMPTY;
                if scale == 1.0 {
                    blocks::<E, false>(samples, values, &mut plain);
                } else {
                    blocks::<E, true>(samples, values, &mut plain);
                }
                accumulate::<E>(&bytes[..length], values, &mut chosen);
                assert_eq!(plain, chosen);
                assert_eq!(plain.n() + plain.not_finite(), samples.len() as u64);
            }
        }
    }

    #[test]
    fn every_cpu_finds_the_same_bits() {
        same_everywhere::<u8>();
        same_everywhere::<u16>();
        same_everywhere::<u32>();
        same_everywhere::<u64>();
        same_everywhere::<i8>();
        same_everywhere::<i16>();
        same_everywhere::<i32>();
        same_everywhere::<i64>();
        same_everywhere::<f32>();
        same_everywhere::<f64>();
        same_everywhere::<Complex<f32>>();
        same_everywhere::<Complex<f64>>();
    }
}
