//! The filters: how a factor is split into stages, and what each stage lets through.
//!
//! Frequencies are in units of the rate they are said to be of, so that 0.5 is its Nyquist
//! frequency. With a factor `M` the decimated channel's Nyquist frequency is `0.5 / M` of the
//! input's rate. What a stage of rate `r` (input 1) and factor `m` must keep and suppress:
//!
//! ```text
//! gain │ 1 ─────────┐
//!      │            ╲   free: what folds here is above the last Nyquist frequency
//!      │             ╲  still, and later stages suppress it
//!      │              ╲__________________ 1e-5
//!      └────────────┬──┬───────────────── frequency of the stage's input
//!       0.8 * 0.5 / M  r / m - 0.5 / M      (times 1 / r)
//! ```
//!
//! In the last stage `r / m` is the output rate `1 / M`, and the stop band begins at the Nyquist
//! frequency itself: nothing folds into the output, not even above the pass band.

use std::sync::Arc;

use catchment_model::SampleRate;
use pm_remez::{BandSetting, constant, pm_parameters, pm_remez};

use crate::DecimateError;

/// The anti-aliasing filters of one decimation factor, shared by all channels that need it.
#[derive(Clone, Debug)]
pub struct Design {
    stages: Vec<StageDesign>,
}

/// One stage: a symmetric filter of odd length, whose output is computed at every `factor`th
/// sample.
#[derive(Clone, Debug)]
pub(crate) struct StageDesign {
    pub factor: u64,
    pub taps: Arc<[f64]>,
}

impl Design {
    /// Up to this part of the decimated channel's Nyquist frequency amplitudes are kept.
    pub const PASS_BAND: f64 = 0.8;
    /// How far amplitudes in the pass band are off at most, in dB.
    pub const RIPPLE_DB: f64 = 0.01;
    /// By how much everything from the decimated channel's Nyquist frequency on is suppressed at
    /// least, in dB.
    pub const STOP_BAND_DB: f64 = 100.0;

    /// The filters for a factor. Factor 1 has none: its output is its input.
    ///
    /// It takes 1 ms for a factor of 2 and some tenths of a second for 31: make it once, not per
    /// channel.
    ///
    /// # Errors
    /// If the factor is 0, above 2^20, or has a prime factor above 31.
    pub fn new(factor: u64) -> Result<Self, DecimateError> {
        let factors = stage_factors(factor).ok_or(DecimateError::Factor { factor })?;
        let mut stages = Vec::with_capacity(factors.len());
        let nyquist = 0.5 / factor as f64;
        let mut rate = 1.0;
        for stage_factor in &factors {
            let pass = Self::PASS_BAND * nyquist / rate;
            let stop = (rate / *stage_factor as f64 - nyquist) / rate;
            let taps = equiripple(pass, stop, factors.len())
                .map_err(|reason| DecimateError::Design { factor: *stage_factor, reason })?;
            stages.push(StageDesign { factor: *stage_factor, taps: taps.into() });
            rate /= *stage_factor as f64;
        }
        Ok(Self { stages })
    }

    /// Factor and number of taps of each stage, in order.
    pub fn stages(&self) -> impl ExactSizeIterator<Item = (u64, usize)> + '_ {
        self.stages.iter().map(|stage| (stage.factor, stage.taps.len()))
    }

    /// Input samples on either side of an output sample's own time that it is computed of. So many
    /// are without output at either end of a recording, and of a gap.
    pub fn half_support(&self) -> u64 {
        let mut spacing = 1;
        let mut half = 0;
        for stage in &self.stages {
            half += stage.half() * spacing;
            spacing *= stage.factor;
        }
        half
    }

    /// The gain at a frequency of the input, in units of its rate. The phase is 0 everywhere: an
    /// output sample's time is its input sample's.
    pub fn gain(&self, frequency: f64) -> f64 {
        let mut spacing = 1.0;
        let mut gain = 1.0;
        for stage in &self.stages {
            let middle = stage.half() as usize;
            let turn = std::f64::consts::TAU * frequency * spacing;
            let sides = stage.taps[middle + 1..].iter().enumerate();
            let both: f64 = sides.map(|(n, tap)| 2.0 * tap * (turn * (n + 1) as f64).cos()).sum();
            gain *= stage.taps[middle] + both;
            spacing *= stage.factor as f64;
        }
        gain
    }

    pub(crate) fn stage_designs(&self) -> &[StageDesign] {
        &self.stages
    }
}

impl StageDesign {
    /// Taps on either side of the middle one.
    pub(crate) fn half(&self) -> u64 {
        self.taps.len() as u64 / 2
    }
}

/// The factor that makes one rate of another, if it is a whole number.
pub fn factor_between(from: SampleRate, to: SampleRate) -> Option<u64> {
    let num = u128::from(from.num()) * u128::from(to.den());
    let den = u128::from(from.den()) * u128::from(to.num());
    if num.is_multiple_of(den) { u64::try_from(num / den).ok() } else { None }
}

/// The stages' factors: large steps first, where the transition is wide and filters are short, and
/// last the smallest prime factor, whose filter has the narrow transition.
fn stage_factors(factor: u64) -> Option<Vec<u64>> {
    if factor == 0 || factor > FACTOR_MAX {
        return None;
    }
    let mut rest = factor;
    let mut primes = Vec::new();
    for prime in PRIMES {
        while rest.is_multiple_of(prime) {
            primes.push(prime);
            rest /= prime;
        }
    }
    if rest != 1 {
        return None;
    }
    let Some((last, others)) = primes.split_first() else {
        return Some(Vec::new());
    };
    let mut factors: Vec<u64> = Vec::new();
    for prime in others.iter().rev() {
        match factors.iter_mut().find(|factor| **factor * prime <= STEP_MAX) {
            Some(factor) => *factor *= prime,
            None => factors.push(*prime),
        }
    }
    factors.sort_unstable_by(|a, b| b.cmp(a));
    factors.push(*last);
    Some(factors)
}

/// The shortest symmetric filter of odd length, nearly, that keeps up to `pass` and suppresses from
/// `stop` on, as one of `stages` that share the ripple.
fn equiripple(pass: f64, stop: f64, stages: usize) -> Result<Vec<f64>, String> {
    // Half of the ripple is for the gain at frequency 0, which is made 1 afterwards.
    let ripple = (10_f64.powf(Design::RIPPLE_DB / stages as f64 / 20.0) - 1.0) / 2.0 * MARGIN;
    let leak = 10_f64.powf(-Design::STOP_BAND_DB / 20.0) * MARGIN;
    // Bellanger's estimate: 2/3 log10(1 / (10 d1 d2)) / transition.
    let estimate = 2.0 / 3.0 * (0.1 / (ripple * leak)).log10() / (stop - pass);
    let mut length = (0.95 * estimate) as usize | 1;
    let bands = [
        BandSetting::with_weight(0.0, pass, constant(1.0), constant(1.0 / ripple)),
        BandSetting::with_weight(stop, 0.5, constant(0.0), constant(1.0 / leak)),
    ];
    let bands: Vec<_> = bands.into_iter().collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        let parameters = pm_parameters(length, &bands).map_err(|e| e.to_string())?;
        match pm_remez(&parameters) {
            // The weighted error is 1 where ripple and leak are just what they may be.
            Ok(design) if design.weighted_error <= 1.0 => {
                return Ok(tidy(&design.impulse_response));
            }
            Ok(design) => reason = format!("error {} with {length} taps", design.weighted_error),
            Err(error) => reason = error.to_string(),
        }
        length += 2 * (1 + length / 100);
    }
    Err(reason)
}

/// Exactly symmetric, so that the phase is exactly linear, and with a sum of 1, so that a constant
/// stays what it is.
fn tidy(taps: &[f64]) -> Vec<f64> {
    let mirrored = taps.iter().zip(taps.iter().rev());
    let symmetric: Vec<f64> = mirrored.map(|(one, other)| (one + other) / 2.0).collect();
    let sum: f64 = symmetric.iter().sum();
    symmetric.iter().map(|tap| tap / sum).collect()
}

const FACTOR_MAX: u64 = 1 << 20;
/// Steps of more cost more taps than another stage does.
const STEP_MAX: u64 = 8;
const PRIMES: [u64; 11] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31];
/// Designs aim a little below what is promised.
const MARGIN: f64 = 0.9;
const ATTEMPTS: usize = 40;
