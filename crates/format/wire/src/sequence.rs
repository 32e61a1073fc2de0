//! The gaps in the numbers that packets carry ([`Gaps`]). Event numbers, which wrap and begin anew,
//! are the builder's business.

/// What a packet's sequence number did relative to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The next one, or one further ahead.
    New,
    /// One that was overtaken: it had been skipped.
    Late,
    /// One that was here already, or that comes so late that it was handed out as missing.
    Repeated,
    /// The sender counts anew.
    Restart,
}

/// Counts the numbers that never came, of a sender that numbers its packets without gaps.
///
/// A number that is skipped is missing only when [`WINDOW`] later ones have gone by, or when the
/// account is [`settle`](Self::settle)d: until then it may still come. So what is handed out as
/// missing is never taken back, and can be added to a ledger at once.
#[derive(Clone, Debug)]
pub struct Gaps {
    // The number behind the newest one that is known of; none before the first.
    next: Option<u64>,
    // Bit n mod WINDOW: number n, of the last WINDOW ones before `next`, needs no more waiting for.
    // It came, it was handed out as missing, or it was before the first.
    settled: [u64; WINDOW as usize / 64],
}

/// How far back a packet may come and still be one that was overtaken.
pub const WINDOW: u64 = 1_024;
/// How far back a packet may come and still be an old one, unless it is among a sender's first.
pub const OLD_MAX: u64 = 65_536;
/// A number so far ahead is that of a sender which counts anew, not of a gap.
pub const AHEAD_MAX: u64 = 1 << 32;

impl Gaps {
    /// Before the first packet.
    pub fn new() -> Self {
        Self { next: None, settled: [u64::MAX; WINDOW as usize / 64] }
    }

    /// Takes a packet's number: what it did, and how many others are missing for good by now.
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

    /// Takes word that the next number to be sent is `next`: how many are missing for good by now.
    #[inline]
    pub fn expect(&mut self, next: u64) -> u64 {
        // A heartbeat that was overtaken says nothing new.
        let overtaken = self.next.is_some_and(|known| known >= next && known - next <= WINDOW);
        if overtaken || self.is_old(next) { 0 } else { self.advance(next).1 }
    }

    /// Waits no longer: how many numbers are missing beside those that were handed out.
    pub fn settle(&mut self) -> u64 {
        let missing = self.settled.iter().map(|word| u64::from(word.count_zeros())).sum();
        self.settled = [u64::MAX; WINDOW as usize / 64];
        missing
    }

    /// The number behind the newest one that is known of.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Moves the window's end to `to`: whether that is a restart, and what fell out unsettled.
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

    /// Whether a number is behind the window, and its sender does not count anew.
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
