//! How long to wait before connecting again: 100 ms, then twice as long each time, up to 1 s (a
//! stream of frames: 5 s), each wait drawn between half and all of it; and when not to.

/// The waits since the session was open.
#[derive(Debug)]
pub(crate) struct Retry {
    wait_ns: u64,
    longest_ns: u64,
    random: u64,
    /// Framing faults of the peer since anything was last taken.
    faults: u32,
}

impl Retry {
    pub fn new(seed: u64) -> Self {
        Self { wait_ns: FIRST_NS, longest_ns: LONGEST_NS, random: seed, faults: 0 }
    }

    /// As [`Retry::new`], of a stream of frames.
    pub fn of_stream(seed: u64) -> Self {
        Self { longest_ns: STREAM_LONGEST_NS, ..Self::new(seed) }
    }

    /// The next wait.
    pub fn next_ns(&mut self) -> u64 {
        let wait_ns = self.wait_ns;
        self.wait_ns = (2 * wait_ns).min(self.longest_ns);
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        wait_ns / 2 + (bits ^ (bits >> 31)) % (wait_ns / 2 + 1)
    }

    /// The session is open.
    pub fn reset(&mut self) {
        self.wait_ns = FIRST_NS;
    }

    /// What the peer said is a framing fault.
    pub fn fault(&mut self) {
        self.faults += 1;
    }

    /// The peer has taken something.
    pub fn progress(&mut self) {
        self.faults = 0;
    }

    /// Whether a defect would loop: it is not tried again.
    pub fn is_over(&self) -> bool {
        self.faults >= FAULTS_MAX
    }
}

const FIRST_NS: u64 = 100_000_000;
const LONGEST_NS: u64 = 1_000_000_000;
const STREAM_LONGEST_NS: u64 = 5_000_000_000;
/// Framing faults without progress after which a session ends. docs/spec/session.md, section 9.
const FAULTS_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_begin_again() {
        let mut retry = Retry::of_stream(7);
        let mut longest_ns = FIRST_NS;
        for _ in 0..12 {
            let wait_ns = retry.next_ns();
            assert!((longest_ns / 2..=longest_ns).contains(&wait_ns), "{wait_ns}");
            longest_ns = (2 * longest_ns).min(STREAM_LONGEST_NS);
        }
        assert_eq!(longest_ns, STREAM_LONGEST_NS);
        retry.reset();
        assert!(retry.next_ns() <= FIRST_NS);
    }
}
