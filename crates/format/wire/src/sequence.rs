//! Numbers that packets and fragments carry: short ones that wrap or begin anew, made into 64-bit
//! keys that only grow ([`Unwrapper`]), and the gaps in long ones ([`Gaps`]).

/// How far back a number may come and still be one that was overtaken on its way: sub-events that
/// the network reordered, or packets sent twice.
pub const REORDER_MAX: u64 = 16_384;
/// How far back a number 0 or 1 may come and still be such a one, and not the first of a restart.
pub const REORDER_MAX_AT_ZERO: u64 = 4_096;

/// What a number did relative to the newest one of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It is newer: the usual case. A wrap counts as forward.
    Forward,
    /// It is the newest again, or an older one.
    Backward,
    /// The source began its numbers anew.
    Restart,
}

/// One source's numbers of `bits` bits, made into keys of 64.
///
/// With *r* how far back a number may come ([`REORDER_MAX`]) and *a* how far ahead (half of 2^bits), unless
/// [`within`](Self::within) said otherwise, and with `newest` the key of the newest number, *d* the way forward from it and *b* the way back, both
/// modulo 2^bits:
///
/// - the first number is its own key, unless [`realign`](Self::realign) said near what it lies;
/// - *d* = 0: the same number again, **backward** by nothing;
/// - *d* below *a*: **forward** to `newest + d`, which also takes the wrap;
/// - otherwise, *b* at most *r*: **backward**, the key is `newest - b`, and `newest` stays; except that number 0 or 1 further back than [`REORDER_MAX_AT_ZERO`] is a restart, and so
///   is what would come to lie below key 0;
/// - otherwise a **restart**: the key is the number in the next turn, `(newest / 2^bits + 1) *
///   2^bits + number`, so that all sources of a detector that restart together get the same keys. The
///   keys end at 2^62: where no turn is left, the key is the number's in this turn, and `newest` stays.
///
/// Two things follow. A restart from beyond the middle of the range looks like a wrap, and gets the
/// same key as a restart. A source that restarts before it has sent [`REORDER_MAX_AT_ZERO`] numbers
/// cannot be told from one that repeats itself; its fragments are duplicates until it is past its
/// newest.
#[derive(Clone, Debug)]
pub struct Unwrapper {
    bits: u32,
    reorder_max: u64,
    ahead_end: u64,
    newest: Option<u64>,
    // Where the first number is to be looked for.
    hint: u64,
}

impl Unwrapper {
    /// For numbers of `bits` bits.
    ///
    /// # Panics
    /// Fewer than 2 or more than [`NUMBER_BITS_MAX`] bits.
    pub fn new(bits: u32) -> Self {
        assert!((2..=NUMBER_BITS_MAX).contains(&bits), "numbers of {bits} bits");
        let ahead_end = 1 << (bits - 1);
        Self { bits, reorder_max: REORDER_MAX, ahead_end, newest: None, hint: 0 }
    }

    /// The same, but numbers further back than `reorder_max` begin anew, and so do those more than
    /// `ahead_max` ahead.
    #[must_use]
    pub fn within(self, reorder_max: u64, ahead_max: u64) -> Self {
        let ahead_end = ahead_max.saturating_add(1).min(1 << (self.bits - 1));
        Self { reorder_max, ahead_end, ..self }
    }

    /// How far back a number may come and still be one that was overtaken.
    #[inline]
    pub fn reorder_max(&self) -> u64 {
        self.reorder_max
    }

    /// The key of the source's next number. Bits of `number` beyond the unwrapper's are ignored.
    #[inline]
    pub fn unwrap(&mut self, number: u64) -> (u64, Step) {
        let Some(newest) = self.newest else {
            let key = self.nearest(number, self.hint);
            self.newest = Some(key);
            return (key, Step::Forward);
        };
        let span = 1_u64 << self.bits;
        let number = number & (span - 1);
        let forward = number.wrapping_sub(newest) & (span - 1);
        if forward == 0 {
            return (newest, Step::Backward);
        }
        if forward < self.ahead_end {
            self.newest = Some(newest + forward);
            return (newest + forward, Step::Forward);
        }
        let back = span - forward;
        let begins_anew = number <= 1 && back > REORDER_MAX_AT_ZERO;
        if back <= self.reorder_max && back <= newest && !begins_anew {
            return (newest - back, Step::Backward);
        }
        let turn = newest >> self.bits;
        if turn >= NEAR_MAX >> self.bits {
            return ((turn << self.bits) + number, Step::Backward);
        }
        let key = ((turn + 1) << self.bits) + number;
        self.newest = Some(key);
        (key, Step::Restart)
    }

    /// Moves to the turn that brings the newest number nearest to `near`, for a source that was away
    /// while others wrapped or restarted. Keys handed out before stay as they were.
    pub fn realign(&mut self, near: u64) {
        let near = near.min(NEAR_MAX);
        self.hint = near;
        self.newest = self.newest.map(|newest| self.nearest(newest, near));
    }

    /// Takes `newest` for the key of the newest number: what comes next is held to it.
    pub fn follow(&mut self, newest: u64) {
        self.newest = Some(newest.min(NEAR_MAX));
    }

    /// The key of the newest number.
    #[inline]
    pub fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Of all keys that have this number, the one nearest to `near`; of two at the same distance the
    /// later.
    #[inline]
    pub fn nearest(&self, number: u64, near: u64) -> u64 {
        let span = 1_u64 << self.bits;
        let near = near.min(NEAR_MAX);
        let forward = number.wrapping_sub(near) & (span - 1);
        let back = span - forward;
        if forward <= span / 2 || back > near { near + forward } else { near - back }
    }
}

/// Keys near which numbers can be looked for: far beyond any detector's, and far from overflow.
const NEAR_MAX: u64 = 1 << 62;

/// The widest numbers: 2^14 turns of them are keys.
pub const NUMBER_BITS_MAX: u32 = 48;

const _: () = assert!(REORDER_MAX_AT_ZERO < REORDER_MAX);

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
