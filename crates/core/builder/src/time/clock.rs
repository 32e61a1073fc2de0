//! A source's clock: ticks that wrap become nanoseconds on the common clock, in integers alone, so
//! that a run which is built twice is the same.
//!
//! ```text
//! ticks on the wire -> nearest to the newest, and the time since -> ns (128 bits) -> + offset
//! ```
//!
//! Each time follows from the one before it without a rounding that adds up: of every division the
//! rest is kept, so that a time is the floor of all ticks since the clock's zero.

use super::settings::ClockConfig;

/// How ticks become nanoseconds: `ns = floor(ticks * num / den)`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    num: u64,
    den: u64,
    /// Of the bits that ticks have.
    mask: u64,
    /// Nanoseconds of a quarter of the cycle, or less.
    quarter_ns: u64,
    offset_ns: i64,
}

/// A value of a clock, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// As on the wire.
    pub ticks: u64,
    pub ns: i64,
    /// What the division left, below `den`.
    rest: u64,
}

impl Scale {
    pub fn new(clock: &ClockConfig) -> Self {
        let common = gcd(NS_PER_S, clock.rate_hz);
        Self {
            num: NS_PER_S / common,
            den: clock.rate_hz / common,
            mask: u64::MAX >> (64 - clock.bits),
            quarter_ns: clock.cycle_ns() / 4,
            offset_ns: clock.offset_ns,
        }
    }

    /// A first value, in the clock's first cycle; none if its time is beyond all times.
    pub fn first(&self, ticks: u64) -> Option<Stamp> {
        let ticks = ticks & self.mask;
        self.moved(Stamp { ticks, ns: self.offset_ns, rest: 0 }, ticks.into())
    }

    /// The value that comes `elapsed_ns` after another one, in the cycle in which it is nearest to
    /// that time; none if it is beyond all times.
    #[inline]
    pub fn after(&self, stamp: &Stamp, ticks: u64, elapsed_ns: u64) -> Option<Stamp> {
        let ticks = ticks & self.mask;
        let ahead = ticks.wrapping_sub(stamp.ticks) & self.mask;
        if elapsed_ns >= self.quarter_ns {
            return self.cycles_after(stamp, ticks, elapsed_ns);
        }
        let step = match ahead <= self.mask / 2 {
            true => i128::from(ahead),
            false => i128::from(ahead) - self.cycle(),
        };
        self.moved(Stamp { ticks, ..*stamp }, step)
    }

    /// The same where whole cycles may have passed.
    #[cold]
    fn cycles_after(&self, stamp: &Stamp, ticks: u64, elapsed_ns: u64) -> Option<Stamp> {
        let ahead = i128::from(ticks.wrapping_sub(stamp.ticks) & self.mask);
        let elapsed = i128::from(elapsed_ns) * i128::from(self.den) / i128::from(self.num);
        let cycles = (elapsed - ahead + self.cycle() / 2).div_euclid(self.cycle());
        self.moved(Stamp { ticks, ..*stamp }, ahead + cycles * self.cycle())
    }

    /// The same value in the cycle in which it is nearest to a time.
    pub fn nearest(&self, stamp: &Stamp, ns: i64) -> Option<Stamp> {
        let step_ns = i128::from(ns) - i128::from(stamp.ns);
        let ticks = step_ns * i128::from(self.den) / i128::from(self.num);
        let cycles = (ticks + self.cycle() / 2).div_euclid(self.cycle());
        self.moved(*stamp, cycles * self.cycle())
    }

    /// `stamp`, as many ticks later.
    #[inline]
    fn moved(&self, stamp: Stamp, ticks: i128) -> Option<Stamp> {
        // Almost all steps are ahead, and 64 bits hold them: a multiplication instead of three.
        let ahead = u64::try_from(ticks).ok().and_then(|ticks| ticks.checked_mul(self.num));
        if let Some(scaled) = ahead.and_then(|scaled| scaled.checked_add(stamp.rest)) {
            let (ns, rest) = match self.den {
                1 => (scaled, 0),
                den => (scaled / den, scaled % den),
            };
            let ns = stamp.ns.checked_add_unsigned(ns);
            let ns = ns.filter(|ns| (-TIME_END..TIME_END).contains(ns))?;
            return Some(Stamp { ns, rest, ..stamp });
        }
        self.moved_far(stamp, ticks)
    }

    #[cold]
    fn moved_far(&self, stamp: Stamp, ticks: i128) -> Option<Stamp> {
        let scaled = ticks * i128::from(self.num) + i128::from(stamp.rest);
        let (ns, rest) = match (self.den, i64::try_from(scaled)) {
            (1, Ok(ns)) => (ns, 0),
            (den, Ok(scaled)) if den <= i64::MAX as u64 => {
                let den = den.cast_signed();
                (scaled.div_euclid(den), scaled.rem_euclid(den).cast_unsigned())
            }
            _ => {
                let den = i128::from(self.den);
                // Below `den`.
                (i64::try_from(scaled.div_euclid(den)).ok()?, scaled.rem_euclid(den) as u64)
            }
        };
        let ns = stamp.ns.checked_add(ns).filter(|ns| (-TIME_END..TIME_END).contains(ns))?;
        Some(Stamp { ns, rest, ..stamp })
    }

    /// Adds to all times from now on.
    pub fn shift(&mut self, ns: i64) {
        self.offset_ns = self.offset_ns.saturating_add(ns).min(TIME_END);
    }

    /// Nanoseconds of its cycle.
    pub fn cycle_ns(&self) -> i128 {
        self.cycle() * i128::from(self.num) / i128::from(self.den)
    }

    fn cycle(&self) -> i128 {
        i128::from(self.mask) + 1
    }
}

impl Stamp {
    /// The same, on a clock to whose times more is added.
    pub fn shifted(self, ns: i64) -> Self {
        Self { ns: self.ns.saturating_add(ns).min(TIME_END - 1), ..self }
    }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

const NS_PER_S: u64 = 1_000_000_000;
/// Times are below, as keys are: 146 years.
pub const TIME_END: i64 = 1 << 62;

#[cfg(test)]
mod tests {
    use catchment_fixtures::Random;

    use super::*;

    fn scale(rate_hz: u64, bits: u32) -> Scale {
        Scale::new(&ClockConfig { rate_hz, bits, ..ClockConfig::NS })
    }

    #[test]
    fn times_are_the_floor_of_all_ticks_whatever_the_steps_and_over_every_wrap() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let rates = [1_000_000_000, 125_000_000, 62_500_001, 3, 999_999_999_989];
            let rate_hz = rates[random.below(5) as usize];
            let bits = 24 + random.below(41) as u32;
            let scale = scale(rate_hz, bits);
            let floor = |all: u128| (all * 1_000_000_000 / u128::from(rate_hz)) as i64;
            let mask = u64::MAX >> (64 - bits);
            let mut all = u128::from(random.below(1 << 24));
            let mut stamp = scale.first(all as u64).unwrap();
            for _ in 0..1_000 {
                // Up to a third of a cycle, and not beyond all times.
                let most = (mask / 3).min(rate_hz.saturating_mul(1_000));
                let step = random.below(most);
                all += u128::from(step);
                let elapsed_ns = floor(u128::from(step)) as u64;
                stamp = scale.after(&stamp, all as u64 & mask, elapsed_ns).unwrap();
                assert_eq!(stamp.ns, floor(all), "seed {seed}");
                // One that came late.
                let behind = random.below(1 + (mask / 3).min(all as u64));
                let late = scale.after(&stamp, (all as u64).wrapping_sub(behind) & mask, 0);
                assert_eq!(late.unwrap().ns, floor(all - u128::from(behind)), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_clock_that_wraps_in_a_silence_goes_on_where_the_time_is() {
        let scale = scale(125_000_000, 32);
        let cycle_ns = (1_i64 << 32) * 8;
        let first = scale.first(1_000).unwrap();
        for cycles in 0..5 {
            let elapsed_ns = (cycles * cycle_ns + 4_000_000_000).cast_unsigned();
            let next = scale.after(&first, 1_000 + 500_000_000, elapsed_ns).unwrap();
            assert_eq!(next.ns - first.ns, cycles * cycle_ns + 4_000_000_000);
        }
    }

    #[test]
    fn what_is_beyond_all_times_has_none() {
        assert_eq!(scale(1, 64).first(u64::MAX), None);
        let near = scale(1_000_000_000, 64).first((1 << 62) - 1).unwrap();
        assert_eq!(scale(1_000_000_000, 64).after(&near, 1 << 62, 0), None);
    }
}
