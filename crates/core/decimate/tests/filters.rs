//! The filters keep what they promise, by their taps and by what comes out.

use crate::designs::design;
use catchment_decimate::{DecimateError, Decimator, Design, Runs, factor_between};
use catchment_model::SampleRate;

/// Factors of every kind: each prime, one stage and many.
const FACTORS: [u64; 14] = [2, 3, 4, 5, 7, 8, 11, 12, 17, 31, 60, 64, 1_000, 16_384];

fn decibels(gain: f64) -> f64 {
    20.0 * gain.abs().log10()
}

#[test]
fn amplitudes_are_kept_in_the_pass_band_and_suppressed_in_the_stop_band() {
    for factor in FACTORS {
        let design = design(factor);
        let nyquist = 0.5 / factor as f64;
        // As fine as a lobe's twentieth, to the pass band's edge.
        for step in 0..=400 {
            let frequency = Design::PASS_BAND * nyquist * f64::from(step) / 400.0;
            let off = decibels(design.gain(frequency));
            assert!(off.abs() <= Design::RIPPLE_DB, "{factor}: {off} dB at {frequency}");
        }
        // Everything up to three Nyquist frequencies, then a sample of the rest, all images
        // included.
        let fine = (0..1_000).map(|step| nyquist * (1.0 + f64::from(step) / 500.0));
        let coarse = (0..5_000).map(|step| nyquist + (0.5 - nyquist) * f64::from(step) / 4_999.0);
        for frequency in fine.chain(coarse).filter(|frequency| *frequency <= 0.5) {
            let leak = decibels(design.gain(frequency));
            assert!(leak <= -Design::STOP_BAND_DB, "{factor}: {leak} dB at {frequency}");
        }
        assert!((design.gain(0.0) - 1.0).abs() < 1e-12);
    }
}

#[test]
fn sines_come_out_with_the_gain_of_the_taps_and_at_their_time() {
    for factor in [2, 5, 12, 64] {
        let design = design(factor);
        let nyquist = 0.5 / factor as f64;
        for part in [0.01, 0.3, 0.79, 0.9, 0.99, 1.0, 1.03, 1.5, 2.0, 3.7] {
            let frequency = part * nyquist;
            if frequency > 0.5 {
                continue;
            }
            let at = |n: u64| (std::f64::consts::TAU * frequency * n as f64 + 0.3).cos();
            let first = 1_234_567;
            let count = 2 * design.half_support() + 200 * factor;
            let input: Vec<f64> = (first..first + count).map(at).collect();
            let mut outputs = Runs::default();
            Decimator::new(&design).push(first, &input, &mut outputs).expect("in order");
            let gain = design.gain(frequency);
            assert!(outputs.samples().len() >= 199);
            let start = outputs.first_sample().expect("outputs");
            for (n, sample) in outputs.samples().iter().enumerate() {
                // The taps' gain is real: the output is the input at its own time.
                let expected = gain * at((start + n as u64) * factor);
                assert!((sample - expected).abs() < 1e-9, "{factor}, {part}: {sample}, {expected}");
            }
        }
    }
}

#[test]
fn constants_and_lines_stay_what_they_are() {
    for factor in FACTORS {
        let design = design(factor);
        let count = 2 * design.half_support() + 10 * factor;
        let first = 7_000_000_001;
        let line = |n: u64| 1_000.0 - 3.5 * (n - first) as f64;
        let input: Vec<f64> = (first..first + count).map(line).collect();
        let mut outputs = Runs::default();
        Decimator::new(&design).push(first, &input, &mut outputs).expect("in order");
        let start = outputs.first_sample().expect("outputs");
        assert_eq!(start, (first + design.half_support()).div_ceil(factor));
        for (n, sample) in outputs.samples().iter().enumerate() {
            let expected = line((start + n as u64) * factor);
            assert!((sample - expected).abs() < 1e-9 * count as f64, "{factor}: {sample}");
        }
    }
}

#[test]
fn factor_one_passes_everything_on() {
    let design = Design::new(1).expect("a factor");
    let mut outputs = Runs::default();
    Decimator::new(&design).push(5, &[1.0, f64::NAN, 3.0], &mut outputs).expect("in order");
    assert_eq!((outputs.first_sample(), outputs.samples()[2]), (Some(5), 3.0));
    assert_eq!((design.half_support(), design.gain(0.4)), (0, 1.0));
}

#[test]
fn a_factor_is_split_into_short_stages() {
    let factors = |factor: u64| -> Vec<u64> {
        let design = Design::new(factor).expect("a factor");
        design.stages().map(|(factor, _)| factor).collect()
    };
    assert_eq!(factors(2), [2]);
    assert_eq!(factors(4), [2, 2]);
    assert_eq!(factors(64), [8, 4, 2]);
    assert_eq!(factors(60), [6, 5, 2]);
    assert_eq!(factors(31), [31]);
    assert_eq!(factors(16_384), [8, 8, 8, 8, 2, 2]);
    for factor in FACTORS {
        assert_eq!(factors(factor).iter().product::<u64>(), factor);
        let design = design(factor);
        let missing = design.half_support() as f64 / factor as f64;
        assert!((20.0..32.0).contains(&missing), "{factor}: {missing} outputs");
    }
}

#[test]
fn factors_without_a_filter_are_refused() {
    for factor in [0, 37, 74, (1 << 20) + 1, 1 << 21, u64::MAX] {
        assert_eq!(Design::new(factor).err(), Some(DecimateError::Factor { factor }));
    }
}

#[test]
fn rates_are_divided_exactly() {
    let rate = |num, den| SampleRate::new(num, den).expect("a rate");
    assert_eq!(factor_between(rate(16_384, 1), rate(256, 1)), Some(64));
    assert_eq!(factor_between(rate(16_384, 1), rate(1, 60)), Some(983_040));
    assert_eq!(factor_between(rate(10, 3), rate(5, 3)), Some(2));
    assert_eq!(factor_between(rate(10, 1), rate(3, 1)), None);
    assert_eq!(factor_between(rate(1, 1), rate(2, 1)), None);
}
