//! The gaps in the sequence numbers of packets ([`Gaps`]). Event numbers, which wrap and restart,
//! are left to the builder.

/// How a packet's sequence number relates to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The next one, or one further ahead.
    New,
    /// One that was overtaken: it had been skipped.
    Late,
    /// One that has arrived before, or so late that it has been counted as missing.
    Repeated,
    /// The sender has restarted its count.
    Restart,
}

/// Counts the numbers that never arrive, of a sender that numbers its packets without gaps.
///
/// A number that is skipped is missing only when [`WINDOW`] later ones have passed, or when the
/// count is [`settle`](Self::settle)d: until then it may still arrive. A number that is counted as
/// missing therefore stays so, and can be added to a ledger at once.
#[derive(Clone, Debug)]
pub struct Gaps {
    // One more than the newest number known; none before the first.
    next: Option<u64>,
    // Bit n mod WINDOW: number n, of the last WINDOW ones before `next`, is settled: it arrived, it
    // was counted as missing, or it was before the first.
    settled: [u64; WINDOW as usize / 64],
}

/// How far back a packet may come and still be one that was overtaken.
pub const WINDOW: u64 = 1_024;
/// How far back a packet may come and still be an old one, unless it is among a sender's first.
pub const OLD_MAX: u64 = 65_536;
/// A number further ahead means a restarted sender, not a gap.
pub const AHEAD_MAX: u64 = 1 << 32;

impl Gaps {
    /// Before the first packet.
    pub fn new() -> Self {
        Self { next: None, settled: [u64::MAX; WINDOW as usize / 64] }
    }

    /// Takes a packet's number. Returns how it relates to those before, and how many others are now
    /// counted as missing.
    #[inline]
    pub fn take(&mut self, number: u64) -> (Arrival, u64) {
        if self.is_old(number) {
            return (Arrival::Repeated, 0);
        }
        if let Some(next) = self.next
            && next > number
            && next - number <= WINDOW
        {
            let late = !self.is_settled(number);
            self.set(number, true);
            return (if late { Arrival::Late } else { Arrival::Repeated }, 0);
        }
        let (restart, missing) = self.advance(number.saturating_add(1));
        self.set(number, true);
        (if restart { Arrival::Restart } else { Arrival::New }, missing)
    }

    /// Takes the number that will be sent next, from a heartbeat. Returns how many are now counted
    /// as missing.
    #[inline]
    pub fn expect(&mut self, next: u64) -> u64 {
        // A heartbeat that was overtaken has no new number.
        let overtaken = self.next.is_some_and(|known| known >= next && known - next <= WINDOW);
        if overtaken || self.is_old(next) { 0 } else { self.advance(next).1 }
    }

    /// Ends the waiting. Returns how many numbers are missing beside those counted before.
    pub fn settle(&mut self) -> u64 {
        let missing = self.settled.iter().map(|word| u64::from(word.count_zeros())).sum();
        self.settled = [u64::MAX; WINDOW as usize / 64];
        missing
    }

    /// One more than the newest number known.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Moves the window's end to `to`. Returns whether that is a restart, and how many numbers left
    /// the window unsettled.
    #[inline]
    fn advance(&mut self, to: u64) -> (bool, u64) {
        let Some(next) = self.next.replace(to) else { return (false, 0) };
        let Some(ahead) = to.checked_sub(next).filter(|&ahead| ahead <= AHEAD_MAX) else {
            return (true, self.settle());
        };
        if ahead >= WINDOW {
            let missing = self.settle() + (ahead - WINDOW);
            self.settled = [0; WINDOW as usize / 64];
            return (false, missing);
        }
        let mut missing = 0;
        for number in next..to {
            missing += u64::from(!self.is_settled(number));
            self.set(number, false);
        }
        (false, missing)
    }

    /// Whether a number is behind the window, and its sender has not restarted.
    #[inline]
    fn is_old(&self, number: u64) -> bool {
        let behind = self.next.map_or(0, |next| next.saturating_sub(number));
        number >= WINDOW && (WINDOW + 1..=OLD_MAX).contains(&behind)
    }

    #[inline]
    fn is_settled(&self, number: u64) -> bool {
        self.settled[(number % WINDOW / 64) as usize] >> (number % 64) & 1 == 1
    }

    #[inline]
    fn set(&mut self, number: u64, settled: bool) {
        let word = &mut self.settled[(number % WINDOW / 64) as usize];
        *word = *word & !(1 << (number % 64)) | u64::from(settled) << (number % 64);
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = assert!(WINDOW.is_multiple_of(64) && WINDOW.is_power_of_two());
