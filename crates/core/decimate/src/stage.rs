//! One stage at work: the polyphase form, in which only the outputs that are kept are computed.
//!
//! Every sum has the same eight lanes and order on every CPU and wherever frames begin, so that an
//! output's bits depend on nothing but the samples of its support.

use crate::design::StageDesign;

const LANES: usize = 8;

/// A stage within samples that follow each other. Sample numbers are absolute, of its own rate.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    design: StageDesign,
    /// Samples that an output to come needs.
    kept: Vec<f64>,
    /// Number of the first of them, or of the next to come.
    first: u64,
    /// Number of the next output.
    next: u64,
}

impl Stage {
    pub fn new(design: StageDesign) -> Self {
        Self { design, kept: Vec::new(), first: 0, next: 0 }
    }

    /// Forgets all; the next sample has the number `first`. Says the number of the next output;
    /// `None` if there is no such number.
    pub fn restart(&mut self, first: u64) -> Option<u64> {
        self.kept.clear();
        self.first = first;
        self.next = first.checked_add(self.design.half())?.div_ceil(self.design.factor);
        Some(self.next)
    }

    /// Takes samples and appends the outputs whose support is complete.
    pub fn push(&mut self, samples: &[f64], outputs: &mut Vec<f64>) {
        self.kept.extend_from_slice(samples);
        let (factor, taps) = (self.design.factor as usize, &self.design.taps);
        // The support of an output begins half a filter before its own sample; by the choice of
        // `next` that is never before `first`.
        let start = (self.next * self.design.factor - self.design.half() - self.first) as usize;
        let Some(room) = self.kept.len().checked_sub(start + taps.len()) else {
            return;
        };
        let count = room / factor + 1;
        convolve(&self.kept[start..], factor, taps, count, outputs);
        self.next += count as u64;
        let used = (start + count * factor).min(self.kept.len());
        self.kept.drain(..used);
        self.first += used as u64;
    }
}

/// Appends `count` outputs, the sums of products of the taps with the samples from every `factor`th
/// on.
fn convolve(samples: &[f64], factor: usize, taps: &[f64], count: usize, outputs: &mut Vec<f64>) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has this feature.
            return unsafe { convolve_avx512(samples, factor, taps, count, outputs) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has this feature.
            return unsafe { convolve_avx2(samples, factor, taps, count, outputs) };
        }
    }
    convolve_plain(samples, factor, taps, count, outputs);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn convolve_avx512(
    samples: &[f64],
    factor: usize,
    taps: &[f64],
    count: usize,
    outputs: &mut Vec<f64>,
) {
    convolve_plain(samples, factor, taps, count, outputs);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn convolve_avx2(
    samples: &[f64],
    factor: usize,
    taps: &[f64],
    count: usize,
    outputs: &mut Vec<f64>,
) {
    convolve_plain(samples, factor, taps, count, outputs);
}

#[inline(always)]
fn convolve_plain(
    samples: &[f64],
    factor: usize,
    taps: &[f64],
    count: usize,
    outputs: &mut Vec<f64>,
) {
    outputs.reserve(count);
    for output in 0..count {
        let from = output * factor;
        outputs.push(product(taps, &samples[from..from + taps.len()]));
    }
}

#[inline(always)]
fn product(taps: &[f64], samples: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (tap_chunks, tap_rest) = taps.as_chunks::<LANES>();
    let (sample_chunks, sample_rest) = samples.as_chunks::<LANES>();
    for (taps, samples) in tap_chunks.iter().zip(sample_chunks) {
        for lane in 0..LANES {
            lanes[lane] += taps[lane] * samples[lane];
        }
    }
    for (lane, (tap, sample)) in tap_rest.iter().zip(sample_rest).enumerate() {
        lanes[lane] += tap * sample;
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_finds_the_same_bits() {
        let noise = |n: usize| ((n * 2_654_435_761) % 10_007) as f64 / 97.0 - 50.0;
        let samples: Vec<f64> = (0..500).map(noise).collect();
        for length in [1, 7, 8, 9, 101] {
            let taps: Vec<f64> = (0..length).map(|n| noise(n + 77)).collect();
            let (mut plain, mut chosen) = (Vec::new(), Vec::new());
            convolve_plain(&samples, 3, &taps, 130, &mut plain);
            convolve(&samples, 3, &taps, 130, &mut chosen);
            assert_eq!(plain, chosen);
        }
    }
}
