//! The choice of faults for packets.

use crate::config::Faults;
use crate::content::mix;

/// A fault of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Lose,
    Duplicate,
    Reorder,
    /// Flips a bit; the protocol chooses it from this number below [`CORRUPT_BITS`].
    Corrupt(usize),
}

/// The number of bits in which hadtu detects errors: 32 bytes at a packet's beginning and 32 at its
/// end.
pub(crate) const CORRUPT_BITS: usize = 64 * 8;

/// Draws faults: a pure function of seed, source and the packet's number within its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultPlan {
    seed: u64,
    // Upper bounds of lose, duplicate, reorder and corrupt on a scale of 2^32.
    bounds: [u64; 4],
}

impl FaultPlan {
    /// None if the faults leave every packet as it is.
    pub fn new(seed: u64, faults: &Faults) -> Option<Self> {
        if faults.sum() == 0.0 {
            return None;
        }
        let mut sum = 0.0;
        let bounds = [faults.lose, faults.duplicate, faults.reorder, faults.corrupt].map(|share| {
            sum += share;
            (sum * (1_u64 << 32) as f64).round() as u64
        });
        Some(Self { seed: mix(seed ^ SALT), bounds })
    }

    pub fn draw(&self, source: u32, packet: u64) -> Fault {
        let drawn = mix(self.seed ^ mix(u64::from(source) << 40 ^ packet));
        let place = drawn >> 32;
        match self.bounds.iter().position(|bound| place < *bound) {
            Some(0) => Fault::Lose,
            Some(1) => Fault::Duplicate,
            Some(2) => Fault::Reorder,
            Some(_) => Fault::Corrupt(drawn as usize % CORRUPT_BITS),
            None => Fault::None,
        }
    }
}

/// So that faults are independent of the payloads' numbers.
const SALT: u64 = 0x6661_756c_7473_2121;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_at_their_rates_and_one_at_a_time() {
        let faults = Faults {
            lose: 0.01,
            duplicate: 0.02,
            reorder: 0.03,
            corrupt: 0.04,
            ..Faults::default()
        };
        let plan = FaultPlan::new(5, &faults).unwrap();
        let mut counts = [0_u32; 5];
        for packet in 0..200_000 {
            counts[match plan.draw(3, packet) {
                Fault::None => 0,
                Fault::Lose => 1,
                Fault::Duplicate => 2,
                Fault::Reorder => 3,
                Fault::Corrupt(bit) => {
                    assert!(bit < CORRUPT_BITS);
                    4
                }
            }] += 1;
        }
        for (count, expected) in counts.into_iter().zip([180_000, 2_000, 4_000, 6_000, 8_000]) {
            assert!(count.abs_diff(expected) < 500, "{counts:?}");
        }
    }

    #[test]
    fn a_share_of_one_means_every_packet() {
        let plan = FaultPlan::new(1, &Faults { lose: 1.0, ..Faults::default() }).unwrap();
        assert!((0..10_000).all(|packet| plan.draw(0, packet) == Fault::Lose));
        assert!(FaultPlan::new(1, &Faults::default()).is_none());
    }
}
