//! Sample rates as fractions.

/// The rate of samples that are `dx_s` seconds apart, as `(numerator, denominator)` in Hz, if it is
/// exactly a fraction: a whole number of samples per second (`dx_s` is the nearest number to
/// `1/n`), a whole number of seconds per sample, another exactly represented `dx_s`, or `samples`
/// per `duration_ns` (if `dx_s` is the nearest number to that). Both parts are at most 2^40.
///
/// ```
/// use catchment_interop::gwf::exact_rate;
///
/// assert_eq!(exact_rate(1.0 / 16_384.0, 16_384, 1_000_000_000), Some((16_384, 1)));
/// assert_eq!(exact_rate(60.0, 1, 60_000_000_000), Some((1, 60)));
/// assert_eq!(exact_rate(1.0 / 60.0, 60, 1_000_000_000), Some((60, 1)));
/// assert_eq!(exact_rate(0.1234, 8, 1_000_000_000), None);
/// ```
pub fn exact_rate(dx_s: f64, samples: u64, duration_ns: u64) -> Option<(u64, u64)> {
    if !dx_s.is_finite() || dx_s <= 0.0 {
        return None;
    }
    let per_second = (1.0 / dx_s).round();
    if (1.0..=PART_MAX as f64).contains(&per_second) && 1.0 / per_second == dx_s {
        return Some((per_second as u64, 1));
    }
    dyadic(dx_s).or_else(|| {
        let divisor = greatest_common_divisor(samples.checked_mul(NS_PER_S)?, duration_ns);
        if divisor == 0 {
            return None;
        }
        let rate = (samples * NS_PER_S / divisor, duration_ns / divisor);
        let whole = rate.0 != 0 && rate.1 != 0 && rate.0 <= PART_MAX && rate.1 <= PART_MAX;
        (whole && rate.1 as f64 / rate.0 as f64 == dx_s).then_some(rate)
    })
}

/// `1 / dx_s`, if `dx_s` is a whole multiple of a power of two.
fn dyadic(dx_s: f64) -> Option<(u64, u64)> {
    let mut per_second = 1;
    let mut whole = dx_s;
    // Doubling is exact. 40 steps at most.
    while whole.fract() != 0.0 {
        whole *= 2.0;
        per_second *= 2;
        if per_second > PART_MAX {
            return None;
        }
    }
    (whole <= PART_MAX as f64).then_some((per_second, whole as u64))
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

const NS_PER_S: u64 = 1_000_000_000;
/// The largest numerator and denominator of a rate in Catchment.
const PART_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_are_fractions_are_found() {
        for rate in [1, 2, 3, 7, 10, 60, 100, 441, 44_100, 16_384, 65_536, 1_000_000, 999_983] {
            assert_eq!(exact_rate(1.0 / rate as f64, 0, 0), Some((rate, 1)), "{rate} Hz");
        }
        assert_eq!(exact_rate(60.0, 0, 0), Some((1, 60)));
        assert_eq!(exact_rate(1.5, 0, 0), Some((2, 3)));
        assert_eq!(exact_rate(0.75, 0, 0), Some((4, 3)));
        // 7 samples in 3 s: no other rule finds it.
        assert_eq!(exact_rate(3.0 / 7.0, 7, 3_000_000_000), Some((7, 3)));
    }

    #[test]
    fn rates_that_are_no_fractions_are_not_guessed() {
        for dx in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.1234, 1e-300, 1e300, 1.0 / 60.0 + 1e-9] {
            assert_eq!(exact_rate(dx, 60, NS_PER_S), None, "{dx}");
        }
        assert_eq!(exact_rate(0.3, u64::MAX, NS_PER_S), None);
        assert_eq!(exact_rate(0.3, 0, 0), None);
    }
}
