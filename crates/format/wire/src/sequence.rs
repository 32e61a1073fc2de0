//! The gaps in the sequence numbers of packets ([`Gaps`]). Event numbers, which wrap and restart,
//! are left to the builder.

/// How a packet's sequence number relates to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The next one, or one further ahead; or one far from all others, which is ignored until
    /// another agrees with it.
    New,
    /// An overtaken one: it had been skipped.
    Late,
    /// One that has already arrived, or so late that it has been counted as missing.
    Repeated,
    /// The second one of a sender that has restarted its numbers.
    Restart,
}

/// Counts the numbers that never arrive from a sender that numbers its packets without gaps.
///
/// A skipped number is missing only when [`WINDOW`] later ones have passed, or when the count is
/// [`settle`](Self::settle)d: until then it may still arrive. A number counted as missing therefore
/// stays missing, and can be added to a ledger at once.
///
/// A number is *far* if it is [`WINDOW`] or more from the newest one, or further ahead than the
/// packets that can be missing (`room`). One packet may be damaged or forged: a far number is
/// ignored until the next new packet, or heartbeat, is within [`WINDOW`] of it. If the packets in
/// between can be missing, they are; otherwise the sender has restarted its count.
///
/// Far is measured from the newest number that others lead up to, in steps of at most [`STEP`]:
/// however many packets are damaged, they do not move the window past numbers still to come.
#[derive(Clone, Debug)]
pub struct Gaps {
    // The newest known number plus one; none before the first.
    next: Option<u64>,
    // Bit n mod WINDOW: whether number n, of the last WINDOW ones before `next`, is settled: it
    // arrived, it was counted as missing, or it was before the first.
    settled: [u64; WINDOW as usize / 64],
    // As `next`, for the newest number that others lead up to; none beyond it is missing yet.
    trusted: u64,
    // As `next`, for the last number that was further ahead of that.
    ahead: u64,
    far: Option<Far>,
}

/// A packet or heartbeat that is far from the known numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Far {
    next: u64,
    /// The packet's number; none for a heartbeat.
    number: Option<u64>,
}

/// How far back an overtaken packet may be.
pub const WINDOW: u64 = 1_024;
/// How far ahead a single number is accepted at once.
pub const STEP: u64 = 64;
/// How far back an old packet may be, unless it is among a sender's first.
pub const OLD_MAX: u64 = 65_536;
/// A number further ahead means a restarted sender, not a gap.
pub const AHEAD_MAX: u64 = 1 << 32;

impl Gaps {
    /// Before the first packet.
    pub fn new() -> Self {
        let settled = [u64::MAX; WINDOW as usize / 64];
        Self { next: None, settled, trusted: 0, ahead: 0, far: None }
    }

    /// Takes a packet's number. Returns how it relates to those before, and how many others now
    /// count as missing.
    #[inline]
    pub fn take(&mut self, number: u64) -> (Arrival, u64) {
        self.take_within(number, u64::MAX)
    }

    /// As [`Gaps::take`], if the contents of the packets show that at most `room` of them can be
    /// missing between the newest one and this one.
    #[inline]
    pub fn take_within(&mut self, number: u64, room: u64) -> (Arrival, u64) {
        if self.is_old(number) {
            return (Arrival::Repeated, 0);
        }
        if let Some(next) = self.next
            && next > number
            && next - number <= WINDOW
        {
            let late = !self.is_settled(number);
            self.set(number, true);
            if late {
                self.far = None;
                self.trust(number + 1);
            }
            return (if late { Arrival::Late } else { Arrival::Repeated }, 0);
        }
        let next = number.saturating_add(1);
        if !self.is_near(next, room) {
            return self.take_far(Far { next, number: Some(number) }, room);
        }
        self.far = None;
        let is_first = self.next.is_none();
        let (_, missing) = self.advance(next, room);
        self.set(number, true);
        if is_first {
            self.trusted = next;
        }
        self.trust(next);
        (Arrival::New, missing)
    }

    /// Takes the number that will be sent next, from a heartbeat. Returns how many now count as
    /// missing. It counts only when the next heartbeat or packet agrees with it.
    #[inline]
    pub fn expect(&mut self, next: u64) -> u64 {
        self.expect_within(next, u64::MAX)
    }

    /// As [`Gaps::expect`], with the room of [`Gaps::take_within`].
    #[inline]
    pub fn expect_within(&mut self, next: u64, room: u64) -> u64 {
        let Some(known) = self.next else {
            (self.next, self.trusted) = (Some(next), next);
            return 0;
        };
        // An overtaken heartbeat has no new number.
        let overtaken = known >= next && known - next <= WINDOW;
        if overtaken || self.is_old(next) {
            return 0;
        }
        self.take_far(Far { next, number: None }, room).1
    }

    /// Ends the waiting. Returns how many numbers are missing besides those counted before.
    pub fn settle(&mut self) -> u64 {
        self.settle_below(self.trusted)
    }

    /// The newest known number plus one.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// As [`Gaps::settle`]: numbers from `end` on are not missing.
    fn settle_below(&mut self, end: u64) -> u64 {
        let next = self.next.unwrap_or(0);
        let numbers = next.saturating_sub(WINDOW)..end.min(next);
        let missing = numbers.filter(|&number| !self.is_settled(number)).count() as u64;
        self.settled = [u64::MAX; WINDOW as usize / 64];
        missing
    }

    /// Takes a number far from the known ones, if the packet or heartbeat before agrees.
    #[cold]
    fn take_far(&mut self, far: Far, room: u64) -> (Arrival, u64) {
        let repeated = |other: &Far| far.number.is_some() && other.number == far.number;
        let Some(other) = self.far.replace(far) else { return (Arrival::New, 0) };
        if repeated(&other) {
            return (Arrival::Repeated, 0);
        }
        if other.next.abs_diff(far.next) > WINDOW {
            return (Arrival::New, 0);
        }
        self.far = None;
        let (restart, mut missing) = self.advance(other.next.min(far.next), room);
        missing += self.advance(other.next.max(far.next), WINDOW).1;
        self.trusted = other.next.max(far.next);
        [other.number, far.number].into_iter().flatten().for_each(|number| self.set(number, true));
        (if restart { Arrival::Restart } else { Arrival::New }, missing)
    }

    /// A packet has arrived whose number is one less.
    #[inline]
    fn trust(&mut self, next: u64) {
        let Some(step) = next.checked_sub(self.trusted) else { return };
        if step > STEP && next.abs_diff(self.ahead) > STEP {
            self.ahead = next;
            return;
        }
        self.trusted = next;
        let newest = self.next.unwrap_or(next);
        if newest > next && newest - next <= STEP {
            self.trusted = newest;
        }
    }

    /// Moves the window's end to `to`. Returns whether that is a restart, and how many numbers left
    /// the window unsettled.
    #[inline]
    fn advance(&mut self, to: u64, room: u64) -> (bool, u64) {
        let Some(next) = self.next else {
            self.next = Some(to);
            return (false, 0);
        };
        let Some(ahead) = to.checked_sub(next).filter(|&ahead| is_gap(ahead, room)) else {
            let missing = self.settle();
            self.next = Some(to);
            return (true, missing);
        };
        if ahead >= WINDOW {
            // The others now lead up to the known numbers.
            let missing = self.settle_below(next) + (ahead - WINDOW);
            self.settled = [0; WINDOW as usize / 64];
            self.next = Some(to);
            return (false, missing);
        }
        self.next = Some(to);
        let mut missing = 0;
        for number in next..to {
            missing += u64::from(!self.is_settled(number));
            self.set(number, false);
        }
        (false, missing)
    }

    /// Whether it is so little ahead that one packet is enough to accept it.
    #[inline]
    fn is_near(&self, next: u64, room: u64) -> bool {
        let near = |ahead| ahead < WINDOW && is_gap(ahead, room);
        self.next.is_none_or(|known| {
            next - self.trusted.min(next) < WINDOW && next.checked_sub(known).is_some_and(near)
        })
    }

    /// Whether a number is behind the window although its sender has not restarted.
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

/// Whether numbers that far ahead of the next one are a gap: all but the last are missing.
#[inline]
fn is_gap(ahead: u64, room: u64) -> bool {
    ahead <= AHEAD_MAX && ahead.saturating_sub(1) <= room
}

impl Default for Gaps {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = assert!(WINDOW.is_multiple_of(64) && WINDOW.is_power_of_two());
