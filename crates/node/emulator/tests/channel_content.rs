//! The content of channels as seen by a statistician, a verifier and a compressor.

use std::collections::HashSet;

use catchment_emulator::{ChannelContent, EmulatedChannel, channel_preset, ligo_1000};
use catchment_frame::Dtype;
use catchment_model::SampleRate;
use proptest::prelude::*;

const DTYPES: [Dtype; 12] = [
    Dtype::U8,
    Dtype::U16,
    Dtype::U32,
    Dtype::U64,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::F32,
    Dtype::F64,
    Dtype::C64,
    Dtype::C128,
];

/// Two channels of every number type, whose samples have that shape.
fn every_type(shape: &[u64]) -> ChannelContent {
    let channels: Vec<EmulatedChannel> = DTYPES
        .iter()
        .flat_map(|&dtype| [dtype, dtype])
        .map(|dtype| EmulatedChannel {
            name: dtype.name().to_owned(),
            dtype,
            shape: shape.to_vec(),
            rate: SampleRate::new(1_000, 1).unwrap(),
            unit: "V".to_owned(),
        })
        .collect();
    ChannelContent::new(42, &channels)
}

fn values(content: &ChannelContent, channel: u32, first: u64, count: u64) -> Vec<f64> {
    (first..first + count).map(|sample| content.value(channel, sample)).collect()
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64
}

#[test]
fn the_preset_has_a_thousand_channels_of_four_rates() {
    let channels = ligo_1000();
    assert_eq!(channels.len(), 1_000);
    for (hz, count) in [(16_384, 50), (2_048, 150), (256, 300), (16, 500)] {
        let of_rate = channels.iter().filter(|channel| channel.rate.hz() == f64::from(hz));
        let floats = of_rate.clone().filter(|channel| channel.dtype == Dtype::F32).count();
        assert_eq!((of_rate.count(), floats), (count, count / 2));
    }
    let names: HashSet<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!(names.len(), 1_000);
    assert!(names.contains("L1:FAST-0000") && names.contains("L1:STATE-0499"));
    let bytes: f64 = channels.iter().map(EmulatedChannel::byte_rate).sum();
    assert_eq!(bytes, 3_633_600.0);
    assert_eq!(channel_preset("ligo-1000"), Some(channels));
    assert_eq!(channel_preset("ligo"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Wherever the samples are cut, they are the same.
    #[test]
    fn samples_do_not_depend_on_where_pieces_begin(
        channel in 0_u32..24,
        shape in prop::sample::select(vec![vec![], vec![3], vec![2, 2], vec![1]]),
        first in prop_oneof![0_u64..20_000, any::<u64>()],
        cuts in prop::collection::vec(0_usize..9_000, 0..6),
    ) {
        let content = every_type(&shape);
        let size = content.sample_bytes(channel);
        let mut whole = vec![0; 9_000 * size];
        content.fill(channel, first, &mut whole);
        let mut cuts = cuts;
        cuts.extend([0, 9_000]);
        cuts.sort_unstable();
        let mut pieces = vec![0; whole.len()];
        for cut in cuts.windows(2) {
            let number = first.wrapping_add(cut[0] as u64);
            content.fill(channel, number, &mut pieces[cut[0] * size..cut[1] * size]);
            prop_assert!(content.verify(channel, number, &whole[cut[0] * size..cut[1] * size]));
        }
        prop_assert!(pieces == whole);
    }
}

#[test]
fn any_byte_that_differs_is_noticed() {
    let content = every_type(&[]);
    for channel in 0..24 {
        let size = content.sample_bytes(channel);
        let mut bytes = vec![0; 1_000 * size];
        content.fill(channel, 7_777, &mut bytes);
        assert!(content.verify(channel, 7_777, &bytes));
        assert!(!content.verify(channel, 7_778, &bytes));
        assert!(!content.verify(channel ^ 1, 7_777, &bytes));
        assert!(size == 1 || !content.verify(channel, 7_777, &bytes[..bytes.len() - 1]));
        for at in (0..bytes.len()).step_by(37) {
            bytes[at] ^= 1;
            assert!(!content.verify(channel, 7_777, &bytes), "channel {channel}, byte {at}");
            bytes[at] ^= 1;
        }
    }
}

#[test]
fn seeds_make_other_samples_and_the_same_seed_the_same() {
    let channels = ligo_1000();
    let fill = |seed| {
        let mut bytes = vec![0; 4_096];
        ChannelContent::new(seed, &channels).fill(0, 1 << 40, &mut bytes);
        bytes
    };
    assert_eq!(fill(1), fill(1));
    assert_ne!(fill(1), fill(2));
}

/// Files recorded elsewhere, or by an earlier version, are verified with these.
#[test]
fn the_samples_of_a_seed_never_change() {
    let content = ChannelContent::new(1, &ligo_1000());
    let sums = [0, 1].map(|channel| {
        let mut bytes = vec![0; 1 << 20];
        content.fill(channel, 1_000_000_007, &mut bytes);
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        })
    });
    assert_eq!(sums, [0xb417_4ea9_d0e4_5b24, 0x1514_63f5_793d_6067], "{sums:#018x?}");
}

#[test]
fn noise_is_red_above_a_white_floor() {
    let content = ChannelContent::new(3, &ligo_1000());
    for (channel, white) in [(1_u32, 5.0), (3, 5.0), (601, 5.0)] {
        let values = values(&content, channel, 1_000_000, 1 << 18);
        // Neighbours differ by the white noise, and little by the red.
        let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let floor = (variance(&steps) / 2.0).sqrt();
        assert!((floor / white - 1.2).abs() < 0.05, "a floor of {floor} counts");
        // Means over 2^k samples would lose half of a white variance with every k.
        let means = |count: usize| {
            let sums = values.chunks_exact(count).map(|chunk| chunk.iter().sum::<f64>());
            variance(&sums.map(|sum| sum / count as f64).collect::<Vec<_>>())
        };
        let (all, short, long) = (means(1), means(64), means(4_096));
        assert!(all.sqrt() > 15.0 && all.sqrt() < 150.0, "{} counts", all.sqrt());
        assert!(short > 0.6 * all && long > 0.3 * all, "{all} {short} {long}");
    }
}

#[test]
fn floats_use_their_whole_mantissa_and_gains_span_three_decades() {
    let content = ChannelContent::new(3, &ligo_1000());
    let mut low_bits = HashSet::new();
    let mut sigmas = Vec::new();
    for channel in (0..50).step_by(2) {
        let values = values(&content, channel, 5_000, 2_000);
        let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        sigmas.push((variance(&steps) / 2.0).sqrt());
        low_bits.extend(values.iter().map(|x| (*x as f32).to_bits() & 0xfff));
    }
    assert_eq!(low_bits.len(), 4_096);
    sigmas.sort_by(f64::total_cmp);
    assert!(sigmas[0] > 5e-4 && sigmas[24] < 2.0 && sigmas[24] / sigmas[0] > 10.0, "{sigmas:?}");
}

#[test]
fn no_run_of_samples_comes_twice_within_a_channel_or_between_channels() {
    let content = ChannelContent::new(9, &ligo_1000());
    let mut seen = HashSet::new();
    let (mut runs, mut again) = (0, 0);
    for (channel, samples) in [(0_u32, 1 << 16), (2, 1 << 16), (1, 1 << 18), (3, 1 << 18)] {
        // Four of float32, twelve of int16: too many to be equal by chance.
        let run = if channel % 2 == 0 { 16 } else { 24 };
        let mut bytes = vec![0; samples * content.sample_bytes(channel)];
        content.fill(channel, 77 << 32, &mut bytes);
        for place in bytes.windows(run).step_by(content.sample_bytes(channel)) {
            runs += 1;
            again += u32::from(!seen.insert(place.to_vec()));
        }
    }
    assert_eq!(again, 0, "of {runs}");
}

#[test]
fn every_type_holds_the_same_kind_of_noise() {
    let content = every_type(&[]);
    for (index, dtype) in (0_u32..).zip(DTYPES) {
        let values = values(&content, 2 * index, 1 << 33, 20_000);
        let distinct: HashSet<u64> = values.iter().map(|x| x.to_bits()).collect();
        assert!(distinct.len() > 10, "{dtype:?}: {} values", distinct.len());
        let edge = match dtype {
            Dtype::U8 => f64::from(u8::MAX),
            Dtype::I8 => f64::from(i8::MAX),
            _ => f64::INFINITY,
        };
        assert!(values.iter().all(|x| x.abs() < edge), "{dtype:?} is cut off");
    }
}

/// The elements of a sample with a shape, each extracted from the bytes of all.
fn elements(content: &ChannelContent, channel: u32, first: u64, count: usize) -> Vec<Vec<u8>> {
    let element_bytes = DTYPES[channel as usize / 2].bits().unwrap() as usize / 8;
    let mut bytes = vec![0; count * content.sample_bytes(channel)];
    content.fill(channel, first, &mut bytes);
    let at = (0..content.sample_bytes(channel)).step_by(element_bytes);
    let samples = || bytes.chunks_exact(content.sample_bytes(channel));
    at.map(|at| samples().flat_map(|sample| &sample[at..][..element_bytes]).copied().collect())
        .collect()
}

#[test]
fn the_first_element_is_what_a_channel_without_shape_has_and_the_others_differ() {
    let (single, shaped) = (every_type(&[]), every_type(&[2, 3]));
    for channel in 0..24 {
        assert_eq!(shaped.sample_bytes(channel), 6 * single.sample_bytes(channel));
        let elements = elements(&shaped, channel, 1_000_000, 5_000);
        assert!(single.verify(channel, 1_000_000, &elements[0]), "channel {channel}");
        assert_eq!(elements.iter().collect::<HashSet<_>>().len(), 6, "channel {channel}");
        assert_eq!(shaped.value(channel, 77), single.value(channel, 77));
    }
    // Samples far larger than the pieces made or compared at a time.
    let large = every_type(&[5_000]);
    let mut bytes = vec![0; 3 * large.sample_bytes(18)];
    large.fill(18, 9, &mut bytes);
    assert!(large.verify(18, 9, &bytes) && !large.verify(18, 10, &bytes));
}

#[test]
fn elements_of_a_sample_are_signals_of_their_own() {
    // Float64, from sample to sample: the white noise, and little of the red.
    let steps: Vec<Vec<f64>> = elements(&every_type(&[8]), 18, 1 << 40, 20_000)
        .iter()
        .map(|bytes| bytes.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).collect())
        .map(|values: Vec<f64>| values.windows(2).map(|pair| pair[1] - pair[0]).collect())
        .collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for (number, a) in steps.iter().enumerate() {
        for b in &steps[..number] {
            let correlation = product(a, b) / (product(a, a) * product(b, b)).sqrt();
            assert!(correlation.abs() < 0.05, "element {number}: {correlation}");
        }
        let share = product(a, a) / product(&steps[0], &steps[0]);
        assert!((share - 1.0).abs() < 0.1, "element {number}: {share} of the first one's power");
    }
}
