//! Samples whose entropy is that of a detector's: counts of few bits, and channels at rest.
//!
//! The emulator's noise uses all bits that a type has. An ADC's channel does not: its noise is some
//! counts, front-ends pass counts on as whole floats, and an unconnected channel stands still.

use catchment_emulator::{EmulatedChannel, mix};
use catchment_frame::Dtype;

/// Fills in a channel's samples from sample `first` on: of every eight channels one is at rest, the
/// others have noise of 16 to 512 counts rms (by channel) on a triangle of 1,000 counts.
pub(crate) fn fill(number: usize, channel: &EmulatedChannel, first: u64, out: &mut [u8]) {
    let seed = mix(number as u64 + 1);
    let (rest, rms) = (number % 8 == 7, f64::from(1 << (4 + seed % 6)));
    let scale = rms * 3.0_f64.sqrt() / f64::from(1 << 16);
    let value = |sample: u64| -> i16 {
        if rest {
            return (seed >> 48) as i16 / 16;
        }
        // The sum of four is normal enough.
        let random = mix(seed ^ sample);
        let sum: i64 = (0..4).map(|part| (random >> (16 * part) & 0xffff) as i64).sum();
        let noise = (sum - 2 * 0xffff) as f64 * scale;
        let phase = (sample.wrapping_add(seed) % DRIFT_SAMPLES) as f64 / DRIFT_SAMPLES as f64;
        (noise + 2_000.0 * (phase - 0.5).abs() - 500.0).round() as i16
    };
    let samples = (first..).map(value);
    if channel.dtype == Dtype::F32 {
        for (bytes, value) in out.chunks_exact_mut(4).zip(samples) {
            bytes.copy_from_slice(&f32::from(value).to_le_bytes());
        }
    } else {
        for (bytes, value) in out.chunks_exact_mut(2).zip(samples) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
}

const DRIFT_SAMPLES: u64 = 1 << 22;

#[cfg(test)]
mod tests {
    use catchment_emulator::ligo_1000;

    use super::*;

    #[test]
    fn samples_are_whole_counts_the_same_wherever_they_are_cut_and_one_channel_in_eight_is_at_rest()
    {
        let channels = ligo_1000();
        let mut at_rest = 0;
        for (number, channel) in channels.iter().enumerate().take(40) {
            let bytes = channel.sample_bytes();
            let (mut whole, mut part) = (vec![0; 100 * bytes], vec![0; 60 * bytes]);
            fill(number, channel, 5, &mut whole);
            fill(number, channel, 45, &mut part);
            assert!(whole[40 * bytes..] == part, "{}", channel.name);
            let first = &whole[..bytes];
            at_rest += usize::from(whole.chunks(bytes).all(|sample| sample == first));
            if channel.dtype == Dtype::F32 {
                let values = whole.chunks(4).map(|one| f32::from_le_bytes(one.try_into().unwrap()));
                assert!(values.into_iter().all(|value| value.fract() == 0.0));
            }
        }
        assert_eq!(at_rest, 5);
    }
}
