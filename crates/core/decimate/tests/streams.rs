//! Frames, gaps, edges and types.

use crate::designs::design;
use catchment_decimate::{ChannelDecimator, DecimateError, Decimated, Decimator, OutputType, Runs};
use catchment_fixtures::Random;
use catchment_frame::{Dtype, Span};
use proptest::prelude::*;

const FACTORS: [u64; 9] = [1, 2, 3, 4, 6, 8, 15, 16, 60];

fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let next = || random.below(1 << 24) as f64 / 1e3 - 8_000.0;
    std::iter::repeat_with(next).take(count).collect()
}

fn at_once(factor: u64, first: u64, input: &[f64]) -> Runs {
    let mut outputs = Runs::default();
    Decimator::new(&design(factor)).push(first, input, &mut outputs).expect("in order");
    outputs
}

fn factors() -> impl Strategy<Value = u64> {
    prop::sample::select(&FACTORS[..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn frame_borders_make_no_difference(
        factor in factors(),
        first in 0u64..1 << 50,
        count in 0usize..9_000,
        borders in prop::collection::vec(0usize..9_000, 0..8),
        seed in any::<u64>(),
    ) {
        let input = noise(count, seed);
        let mut borders: Vec<usize> = borders.into_iter().filter(|b| *b < count).collect();
        borders.extend([0, count]);
        borders.sort_unstable();
        let mut decimator = Decimator::new(&design(factor));
        let mut outputs = Runs::default();
        for pair in borders.windows(2) {
            let piece = &input[pair[0]..pair[1]];
            decimator.push(first + pair[0] as u64, piece, &mut outputs).expect("in order");
        }
        prop_assert_eq!(outputs, at_once(factor, first, &input));
    }

    #[test]
    fn an_output_needs_its_whole_support_and_is_where_it_has_it(
        factor in factors(),
        first in 0u64..1 << 50,
        count in 0usize..9_000,
    ) {
        let outputs = at_once(factor, first, &vec![1.0; count]);
        let half = design(factor).half_support();
        let last = first + count as u64;
        let begin = (first + half).div_ceil(factor);
        // The last output's support ends before the end of the input.
        let end = (last.saturating_sub(half)).div_ceil(factor);
        let expected = end.saturating_sub(begin);
        prop_assert_eq!(outputs.samples().len() as u64, expected);
        prop_assert_eq!(outputs.first_sample(), (expected > 0).then_some(begin));
    }

    #[test]
    fn nothing_is_mixed_across_a_gap(
        factor in factors(),
        runs in prop::collection::vec((0usize..4_000, 1u64..5_000), 1..5),
        seed in any::<u64>(),
    ) {
        let mut decimator = Decimator::new(&design(factor));
        let mut outputs = Runs::default();
        let (mut samples, mut numbers) = (Vec::new(), Vec::new());
        let mut first = 1_000_000;
        for (count, gap) in runs {
            let input = noise(count, seed ^ first);
            decimator.push(first, &input, &mut outputs).expect("in order");
            let alone = at_once(factor, first, &input);
            let start = alone.first_sample().unwrap_or(0);
            numbers.extend((0..alone.samples().len() as u64).map(|n| start + n));
            samples.extend_from_slice(alone.samples());
            first += count as u64 + gap;
        }
        prop_assert_eq!(outputs.samples(), samples);
        let mut row_numbers = Vec::new();
        let mut spans = outputs.spans().iter().copied().peekable();
        let mut number = outputs.first_sample().unwrap_or(0);
        for row in 0..outputs.samples().len() as u64 {
            if let Some(span) = spans.next_if(|span: &Span| span.row == row) {
                number = span.sample;
            }
            row_numbers.push(number);
            number += 1;
        }
        prop_assert_eq!(row_numbers, numbers);
    }
}

#[test]
fn one_nan_makes_the_outputs_nan_that_it_is_part_of_and_no_more() {
    let design = design(8);
    let half = design.half_support();
    let mut input = vec![1.0; 4_000];
    input[2_001] = f64::NAN;
    let outputs = at_once(8, 0, &input);
    let start = outputs.first_sample().expect("outputs");
    for (n, sample) in outputs.samples().iter().enumerate() {
        let apart = ((start + n as u64) * 8).abs_diff(2_001);
        assert!(!sample.is_nan() || apart <= half, "{apart}");
        // The support of stages is not dense at its ends.
        assert!(sample.is_nan() || apart > half - 64, "{apart}");
    }
}

#[test]
fn samples_out_of_order_are_refused_and_change_nothing() {
    let mut decimator = Decimator::new(&design(2));
    let mut outputs = Runs::default();
    let input = noise(400, 3);
    decimator.push(100, &input[..200], &mut outputs).expect("in order");
    for sample in [0, 100, 299] {
        let refused = decimator.push(sample, &input, &mut outputs);
        assert_eq!(refused, Err(DecimateError::Order { sample, expected: 300 }));
    }
    decimator.push(300, &input[200..], &mut outputs).expect("in order");
    assert_eq!(outputs, at_once(2, 100, &input));
    for sample in [u64::MAX, u64::MAX - 400, 1 << 62, (1 << 62) - 399] {
        let refused = decimator.push(sample, &input, &mut outputs);
        assert!(matches!(refused, Err(DecimateError::Number { .. })));
    }
    decimator.push(500, &[], &mut outputs).expect("nothing is in order");
    decimator.push(500, &input, &mut outputs).expect("in order");
    let mut both = input.clone();
    both.extend_from_slice(&input);
    assert_eq!(outputs, at_once(2, 100, &both));
    decimator.push((1 << 62) - 400, &input, &mut outputs).expect("the last numbers there are");
}

fn channel(dtype: Dtype, shape: &[u64], output: OutputType) -> ChannelDecimator {
    ChannelDecimator::new(&design(2), dtype, shape, output).expect("numbers")
}

/// What comes out of one run of samples.
fn decimated(mut channel: ChannelDecimator, bytes: &[u8]) -> Decimated {
    let mut out = Decimated::default();
    channel.push(1_000, bytes, &mut out).expect("fits");
    out
}

#[test]
fn integers_give_floats_or_rounded_integers() {
    let raw: Vec<i16> = noise(600, 5).iter().map(|x| (*x / 10.0) as i16).collect();
    let exact = at_once(2, 1_000, &raw.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
    let bytes: Vec<u8> = raw.iter().flat_map(|x| x.to_le_bytes()).collect();

    let float = channel(Dtype::I16, &[], OutputType::Float);
    assert_eq!(float.output_dtype(), Dtype::F32);
    let out = decimated(float, &bytes);
    let expected: Vec<u8> =
        exact.samples().iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    assert_eq!((out.bytes(), out.first_sample()), (&expected[..], exact.first_sample()));
    assert_eq!(out.rows(), exact.samples().len() as u64);

    let same = channel(Dtype::I16, &[], OutputType::Same);
    assert_eq!(same.output_dtype(), Dtype::I16);
    let out = decimated(same, &bytes);
    let rounded = exact.samples().iter().map(|x| x.round_ties_even() as i16);
    assert_eq!(out.bytes(), rounded.flat_map(i16::to_le_bytes).collect::<Vec<u8>>());
    assert_eq!(out.saturated(), 0);
}

#[test]
fn integers_beyond_their_type_are_set_to_its_limit_and_counted() {
    // A step between the limits overshoots.
    let bytes: Vec<u8> = (0..400).map(|n| if n < 200 { 0 } else { 255 }).collect();
    let out = decimated(channel(Dtype::U8, &[], OutputType::Same), &bytes);
    assert!(out.saturated() > 5, "{}", out.saturated());
    assert!(out.bytes().contains(&0) && out.bytes().contains(&255));
    let constant = decimated(channel(Dtype::U8, &[], OutputType::Same), &[255; 400]);
    assert!(constant.bytes().iter().all(|byte| *byte == 255));
    assert_eq!(constant.saturated(), 0);
}

#[test]
fn output_types_lose_nothing() {
    for (dtype, float) in [
        (Dtype::U8, Dtype::F32),
        (Dtype::I8, Dtype::F32),
        (Dtype::U16, Dtype::F32),
        (Dtype::I16, Dtype::F32),
        (Dtype::U32, Dtype::F64),
        (Dtype::I32, Dtype::F64),
        (Dtype::U64, Dtype::F64),
        (Dtype::I64, Dtype::F64),
        (Dtype::F32, Dtype::F32),
        (Dtype::F64, Dtype::F64),
        (Dtype::C64, Dtype::C64),
        (Dtype::C128, Dtype::C128),
    ] {
        assert_eq!(channel(dtype, &[], OutputType::Float).output_dtype(), float);
        assert_eq!(channel(dtype, &[], OutputType::Same).output_dtype(), dtype);
        for (output, dtype_out) in [(OutputType::Float, float), (OutputType::Same, dtype)] {
            // Ones of every type come out as ones.
            let one = one_of(dtype);
            let out = decimated(channel(dtype, &[], output), &one.repeat(300));
            assert!(out.rows() > 50);
            let expected = one_of(dtype_out);
            assert_eq!(out.bytes().len() as u64, out.rows() * expected.len() as u64);
            if output == OutputType::Same && !dtype.name().starts_with(['f', 'c']) {
                assert_eq!(out.bytes(), expected.repeat(out.rows() as usize), "{dtype:?}");
            }
        }
    }
}

fn one_of(dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F32 => 1_f32.to_le_bytes().into(),
        Dtype::F64 => 1_f64.to_le_bytes().into(),
        Dtype::C64 => [1_f32.to_le_bytes(), [0; 4]].concat(),
        Dtype::C128 => [1_f64.to_le_bytes(), [0; 8]].concat(),
        other => {
            let mut one = vec![0; other.bits().expect("a number") as usize / 8];
            one[0] = 1;
            one
        }
    }
}

#[test]
fn numbers_of_a_sample_are_decimated_by_themselves() {
    let [one, other] = [11, 12].map(|seed| noise(500, seed));
    let pairs = one.iter().zip(&other);
    let bytes: Vec<u8> =
        pairs.flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect();
    let [one, other] = [one, other].map(|input| at_once(2, 1_000, &input));
    let expected: Vec<u8> = one
        .samples()
        .iter()
        .zip(other.samples())
        .flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat())
        .collect();
    for channel in [
        channel(Dtype::C128, &[], OutputType::Float),
        channel(Dtype::C128, &[1], OutputType::Same),
        channel(Dtype::F64, &[2], OutputType::Float),
        channel(Dtype::F64, &[2, 1], OutputType::Same),
    ] {
        assert_eq!(decimated(channel, &bytes).bytes(), expected);
    }
}

#[test]
fn a_channel_with_gaps_comes_out_with_gaps() {
    let mut channel = channel(Dtype::U8, &[], OutputType::Same);
    let mut out = Decimated::default();
    channel.push(0, &[7; 300], &mut out).expect("fits");
    let rows = out.rows();
    channel.push(1_001, &[9; 300], &mut out).expect("fits");
    let half = design(2).half_support();
    assert_eq!(out.first_sample(), Some(half.div_ceil(2)));
    assert_eq!(out.spans(), [Span { row: rows, sample: (1_001 + half).div_ceil(2) }]);
    assert_eq!(out.bytes()[rows as usize - 1..][..2], [7, 9]);
    out.clear();
    assert_eq!((out.rows(), out.first_sample(), out.spans().len()), (0, None, 0));
}

#[test]
fn what_cannot_be_decimated_is_refused() {
    let refused = |dtype, shape: &[u64]| {
        ChannelDecimator::new(&design(2), dtype, shape, OutputType::Float).expect_err("refused")
    };
    for dtype in [Dtype::Opaque, Dtype::Bits, Dtype::Record, Dtype::Unknown(77)] {
        assert_eq!(refused(dtype, &[]), DecimateError::Dtype { dtype });
    }
    for shape in [vec![0], vec![4_097], vec![u64::MAX, 2], vec![64, 65]] {
        assert_eq!(refused(Dtype::F32, &shape), DecimateError::Shape { shape });
    }
    let mut out = Decimated::default();
    let broken = channel(Dtype::C64, &[], OutputType::Float).push(0, &[0; 12], &mut out);
    assert_eq!(broken, Err(DecimateError::Bytes { bytes: 12, sample_bytes: 8 }));
}
