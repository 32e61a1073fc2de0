//! Signals in every type, and the model's statistics.

#![allow(dead_code, reason = "each test file uses a part")]

use catchment_fixtures::Random;
use catchment_frame::Dtype;
use catchment_trends::{Row, Statistics};
use proptest::prelude::*;

/// Noise around a level; in floating point with some samples that are not finite.
#[derive(Clone, Debug)]
pub struct Signal {
    pub rows: usize,
    pub level: f64,
    pub noise: f64,
    pub seed: u64,
    /// About one sample in so many is NaN or infinite; 0: none.
    pub broken_every: u64,
}

pub fn signals() -> impl Strategy<Value = Signal> {
    let level = prop_oneof![Just(0.0), -1e3..1e3, Just(1e9), Just(-1e12), Just(1e-21)];
    let noise = prop_oneof![Just(0.0), 1e-3..1.0, 1.0..1e5, Just(1e-22)];
    let broken = prop_oneof![Just(0u64), 1u64..2_000];
    (level, noise, any::<u64>(), broken).prop_map(|(level, noise, seed, broken_every)| Signal {
        rows: 0,
        level,
        noise,
        seed,
        broken_every,
    })
}

impl Signal {
    /// One number, and whether it is to be broken.
    fn numbers(&self) -> impl Iterator<Item = f64> {
        let mut random = Random::new(self.seed);
        let Self { level, noise, broken_every, .. } = *self;
        std::iter::repeat_with(move || random.next_u64() >> 11).map(move |random| {
            let number = level + noise * (random as f64 / (1u64 << 53) as f64 - 0.5) * 2.0;
            match random.checked_rem(broken_every) {
                Some(0) => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][random as usize % 3],
                _ => number,
            }
        })
    }
}

/// The signal's bytes in a type, and the values that they stand for.
pub fn encode(dtype: Dtype, signal: &Signal, scale: Option<(f64, f64)>) -> (Vec<u8>, Vec<f64>) {
    let mut bytes = Vec::new();
    let mut values = Vec::new();
    let value = |raw: f64| scale.map_or(raw, |(scale, offset)| raw * scale + offset);
    let mut numbers = signal.numbers();
    macro_rules! real {
        ($number:ty) => {
            for number in numbers.by_ref().take(signal.rows) {
                let raw = number as $number;
                bytes.extend(raw.to_le_bytes());
                values.push(value(raw as f64));
            }
        };
    }
    macro_rules! complex {
        ($number:ty) => {
            for _ in 0..signal.rows {
                let real = numbers.next().expect("endless") as $number;
                let imaginary = numbers.next().expect("endless") as $number;
                bytes.extend(real.to_le_bytes());
                bytes.extend(imaginary.to_le_bytes());
                let (scale, _) = scale.unwrap_or((1.0, 0.0));
                let (real, imaginary) = (value(real as f64), imaginary as f64 * scale);
                values.push((real * real + imaginary * imaginary).sqrt());
            }
        };
    }
    match dtype {
        Dtype::U8 => real!(u8),
        Dtype::U16 => real!(u16),
        Dtype::U32 => real!(u32),
        Dtype::U64 => real!(u64),
        Dtype::I8 => real!(i8),
        Dtype::I16 => real!(i16),
        Dtype::I32 => real!(i32),
        Dtype::I64 => real!(i64),
        Dtype::F32 => real!(f32),
        Dtype::F64 => real!(f64),
        Dtype::C64 => complex!(f32),
        Dtype::C128 => complex!(f64),
        other => panic!("no numbers: {other:?}"),
    }
    (bytes, values)
}

/// The textbook's statistics.
pub fn model_of(index: u64, values: &[f64]) -> Row {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let n = finite.len() as f64;
    let statistics = Statistics {
        mean: finite.iter().sum::<f64>() / n,
        min: finite.iter().copied().fold(f64::NAN, f64::min),
        max: finite.iter().copied().fold(f64::NAN, f64::max),
        rms: (finite.iter().map(|value| value * value).sum::<f64>() / n).sqrt(),
        n: finite.len() as u64,
        not_finite: (values.len() - finite.len()) as u64,
        saturated: 0,
    };
    Row { index, statistics }
}

/// Rows are equal but for 1e-12 of `magnitude` in mean and rms.
pub fn rows_near(rows: &[Row], expected: &[Row], magnitude: f64) {
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(row.index, expected.index);
        let (is, model) = (row.statistics, expected.statistics);
        assert_eq!((is.n, is.not_finite), (model.n, model.not_finite));
        assert_near(is.mean, model.mean, 1e-12 * magnitude);
        assert_near(is.rms, model.rms, 1e-12 * magnitude);
        assert_near(is.min, model.min, 0.0);
        assert_near(is.max, model.max, 0.0);
    }
}

pub fn assert_near(is: f64, expected: f64, by: f64) {
    let near = (is - expected).abs() <= by || (is.is_nan() && expected.is_nan());
    assert!(near, "{is:e} is not within {by:e} of {expected:e}");
}
