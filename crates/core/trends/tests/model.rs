//! Trends against a straightforward model in float64: values in a list per second, statistics as
//! the textbook writes them.

use std::collections::BTreeMap;

use crate::common;
use crate::common::{Signal, assert_near, encode, model_of, rows_near};
use catchment_frame::Dtype;
use catchment_model::SampleRate;
use catchment_trends::{Partial, Row, Span, TrendChannel, TrendSeries};
use proptest::prelude::*;

const RATES: [(u64, u64); 10] = [
    (16_384, 1),
    (2_048, 1),
    (256, 1),
    (16, 1),
    (1, 1),
    (1, 60),
    (10, 3),
    (3, 10),
    (44_100, 1_001),
    (1_000_000, 7),
];

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

/// A channel's recording: rows, and where the numbers jump.
#[derive(Clone, Debug)]
struct Recording {
    dtype: Dtype,
    rate: SampleRate,
    first_sample: u64,
    spans: Vec<Span>,
    signal: Signal,
    scale: Option<(f64, f64)>,
}

fn recordings() -> impl Strategy<Value = Recording> {
    let rate = prop::sample::select(&RATES[..])
        .prop_map(|(num, den)| SampleRate::new(num, den).expect("a rate"));
    let scale = prop_oneof![
        Just(None),
        Just(Some((1.0, 0.0))),
        (-1e3..1e3, -1e6..1e6).prop_map(Some),
        Just(Some((-2.5e-4, 8.192))),
        Just(Some((0.0, 3.0))),
    ];
    let gaps = prop::collection::vec((1u64..2_000, 1u64..40_000), 0..4);
    let seconds = prop_oneof![Just(0u64), 1_700_000_000..1_800_000_000u64];
    (
        prop::sample::select(&DTYPES[..]),
        rate,
        (seconds, 0u64..20_000),
        gaps,
        0usize..6_000,
        common::signals(),
        scale,
    )
        .prop_map(|(dtype, rate, (seconds, more), gaps, rows, signal, scale)| {
            let first_sample = rate.first_sample_at(seconds * 1_000_000_000) + more;
            let (mut row, mut sample) = (0, first_sample);
            let mut spans = Vec::new();
            for (length, gap) in gaps {
                row += length;
                sample += length + gap;
                if row < rows as u64 {
                    spans.push(Span { row, sample });
                }
            }
            let signal = Signal { rows, ..signal };
            Recording { dtype, rate, first_sample, spans, signal, scale }
        })
}

impl Recording {
    fn channel(&self) -> TrendChannel {
        let channel = TrendChannel::new(self.dtype, &[], self.rate).expect("numbers");
        let (scale, offset) = self.scale.unwrap_or((1.0, 0.0));
        channel.scaled(scale, offset).expect("finite")
    }

    /// Each row's sample number.
    fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = Vec::new();
        for row in 0..self.signal.rows as u64 {
            let number = match self.spans.iter().rev().find(|span| span.row <= row) {
                Some(span) => span.sample + row - span.row,
                None => self.first_sample + row,
            };
            numbers.push(number);
        }
        numbers
    }

    fn expected(&self, values: &[f64]) -> Vec<Row> {
        let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (number, value) in self.numbers().iter().zip(values) {
            let second =
                u128::from(*number) * u128::from(self.rate.den()) / u128::from(self.rate.num());
            seconds.entry(second as u64).or_default().push(*value);
        }
        seconds.iter().map(|(second, values)| model_of(*second, values)).collect()
    }

    /// The recording in frames that begin at the given rows.
    fn frames(&self, bytes: &[u8], mut borders: Vec<usize>) -> Vec<Partial> {
        let numbers = self.numbers();
        let rows = numbers.len();
        let sample_bytes = bytes.len().checked_div(rows).unwrap_or(1);
        borders.retain(|border| *border < rows);
        borders.extend([0, rows]);
        borders.sort_unstable();
        let channel = self.channel();
        let frame = |pair: &[usize]| {
            let (from, to) = (pair[0], pair[1]);
            let inside = |span: &&Span| (from as u64 + 1..to as u64).contains(&span.row);
            let spans = self.spans.iter().filter(inside);
            let spans: Vec<Span> =
                spans.map(|span| Span { row: span.row - from as u64, ..*span }).collect();
            let first = numbers.get(from).copied().unwrap_or(0);
            channel
                .partial(first, &spans, &bytes[from * sample_bytes..to * sample_bytes])
                .expect("it fits together")
        };
        borders.windows(2).map(frame).collect()
    }
}

fn rows_of(partials: &[Partial]) -> Vec<Row> {
    let mut series = TrendSeries::new();
    partials.iter().for_each(|partial| series.add(partial));
    series.finish().seconds
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn rows_are_those_of_the_float64_model(recording in recordings()) {
        let (bytes, values) = encode(recording.dtype, &recording.signal, recording.scale);
        let spans = &recording.spans;
        let partial = recording.channel().partial(recording.first_sample, spans, &bytes);
        let rows = rows_of(&[partial.expect("it fits together")]);
        let (scale, offset) = recording.scale.unwrap_or((1.0, 0.0));
        let raw_magnitude = values.iter().map(|value| (value - offset).abs()).fold(0.0, f64::max);
        let magnitude = if scale == 0.0 { offset.abs() } else { raw_magnitude + offset.abs() };
        rows_near(&rows, &recording.expected(&values), magnitude);
    }

    #[test]
    fn frame_borders_and_their_order_make_no_difference(
        recording in recordings(),
        borders in prop::collection::vec(0usize..6_000, 0..12),
        order in any::<u64>(),
    ) {
        let (bytes, values) = encode(recording.dtype, &recording.signal, recording.scale);
        let whole = rows_of(&recording.frames(&bytes, Vec::new()));
        let mut frames = recording.frames(&bytes, borders);
        let (_, offset) = recording.scale.unwrap_or((1.0, 0.0));
        let magnitude = values.iter().map(|value| value.abs()).fold(offset.abs(), f64::max);
        rows_near(&rows_of(&frames), &whole, magnitude);
        let turn = order as usize % frames.len();
        frames.rotate_left(turn);
        frames.reverse();
        rows_near(&rows_of(&frames), &whole, magnitude);
    }
}

#[test]
fn large_offsets_cost_no_digits() {
    // Counts of an ADC on top of 1e15: the model subtracts the offset first.
    let rate = SampleRate::new(16_384, 1).expect("a rate");
    let noise = |n: u64| ((n * 2_654_435_761) % 1_000) as f64 / 8.0;
    for offset in [1e9, 1e12, 1e15, -1e15] {
        let values: Vec<f64> = (0..16_384).map(|n| offset + noise(n)).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let channel = TrendChannel::new(Dtype::F64, &[1], rate).expect("numbers");
        let partial = channel.partial(16_384 * 1_000, &[], &bytes).expect("fits");
        let [(1_000, second)] = partial.seconds() else { panic!("one second") };
        let beside: Vec<f64> = values.iter().map(|value| value - offset).collect();
        let mean = offset + beside.iter().sum::<f64>() / 16_384.0;
        assert!((second.statistics().mean - mean).abs() <= 1e-15 * mean.abs());
        let variance = beside.iter().map(|x| (x - (mean - offset)).powi(2)).sum::<f64>() / 16_384.0;
        assert_near(second.statistics().rms, (mean * mean + variance).sqrt(), 1e-15 * offset.abs());
    }
}

#[test]
fn an_offset_that_cancels_costs_no_digits() {
    // Offset binary: 40,000 counts are 0 V, and the noise is a few counts.
    let rate = SampleRate::new(1_000, 1).expect("a rate");
    let raw = (0..1_000_000u64).map(|n| 40_000 + (n * 7_919 % 5) as u16);
    let bytes: Vec<u8> = raw.flat_map(u16::to_le_bytes).collect();
    let channel = TrendChannel::new(Dtype::U16, &[], rate).expect("numbers");
    let channel = channel.scaled(0.5, -20_001.0).expect("finite");
    let mut series = TrendSeries::new();
    series.add(&channel.partial(0, &[], &bytes).expect("fits"));
    let rows = series.finish();
    assert_eq!(rows.seconds.len(), 1_000);
    for row in rows.seconds.iter().chain(&rows.minutes) {
        assert_near(row.statistics.mean, 0.0, 1e-15);
        assert_near(row.statistics.rms, 0.5f64.sqrt(), 1e-15);
        assert_eq!((row.statistics.min, row.statistics.max), (-1.0, 1.0));
    }
}
