//! Numbers that agree with each other and not with the position of their sender: a restart, a jump,
//! or packets that came twice or late.

use crate::FragmentFlags;

/// Numbers that agree with each other, but not with the position of their sender.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub id: u32,
    pub first: u64,
    pub newest: u64,
    /// The number of the sender's last fragment in it.
    pub last: u64,
    /// How many consecutive fragments of the sender agreed.
    pub streak: u32,
    /// Whether it continued when the sender had delivered nothing at its position for a quarter of
    /// a time-out.
    pub left: bool,
    /// Whether some of its numbers were neither repeated nor late.
    pub foreign: bool,
    /// At how many different times a number came that was not late and beyond those before it.
    pub rises: u32,
    /// The last such time.
    pub rose_ns: u64,
    /// When it expires, in active time.
    pub expires_ns: u64,
}

/// What a number that is not near the position of its sender may be, other than a new position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Nothing else.
    Foreign,
    /// A number that its source delivered before, in a packet that may have come twice.
    Repeated,
    /// The same behind the first fragment of its packet, which has said it for all.
    Continued,
    /// The same in a packet that is known to have come once.
    SentAgain,
    /// A number that its source would have delivered next, or that the network reordered, of an
    /// event that closed without it. No evidence of a restart, however often it occurs.
    Late,
    /// A number of an event that closed long ago, and that its source would not have delivered
    /// next. In a claim of late numbers it is one of them.
    Behind,
}

impl Likeness {
    /// What a number is that its source delivered before, in a fragment with these flags.
    pub fn of_repeated(flags: u8) -> Self {
        match flags & (FragmentFlags::SENT_ONCE | FragmentFlags::CONTINUES) {
            0 => Self::Repeated,
            FragmentFlags::CONTINUES => Self::Continued,
            _ => Self::SentAgain,
        }
    }
}

/// What the repeated numbers of a claim are, as far as its sender shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// Packets that came twice: their sender had delivered at its position just before.
    Duplicate,
    /// Packets that came twice, or the first fragments of a restart.
    Ambiguous,
    /// A restart.
    Restart,
}

impl Claim {
    /// The claim of one number.
    pub fn new(id: u32, number: u64, left: bool, expires_ns: u64) -> Self {
        let (first, newest, last) = (number, number, number);
        let (streak, foreign, rises, rose_ns) = (1, false, 0, u64::MAX);
        Self { id, first, newest, last, streak, left, foreign, rises, rose_ns, expires_ns }
    }

    /// Takes a number beyond all before it.
    pub fn rise(&mut self, likeness: Likeness, now_ns: u64) {
        match likeness {
            Likeness::Foreign => self.foreign = true,
            Likeness::Behind => self.foreign |= self.first == self.newest,
            Likeness::SentAgain => self.rises = RISES_MIN,
            Likeness::Repeated if self.rose_ns != now_ns => {
                self.rises = self.rises.saturating_add(1);
                self.rose_ns = now_ns;
            }
            Likeness::Continued => self.rises = self.rises.max(1),
            Likeness::Repeated | Likeness::Late => {}
        }
    }

    /// Whether it can be nothing but another position.
    pub fn is_restart(&self) -> bool {
        self.foreign || self.left && self.rises >= RISES_MIN
    }

    /// Whether all of its numbers are late.
    pub fn is_late(&self) -> bool {
        !self.foreign && self.rises == 0
    }

    /// What its repeated numbers are.
    pub fn repetition(&self) -> Repetition {
        match self.left {
            true if self.is_restart() => Repetition::Restart,
            true => Repetition::Ambiguous,
            false => Repetition::Duplicate,
        }
    }
}

/// At how many different times a claim of repeated numbers must rise before it counts as a restart.
/// Each packet that comes twice accounts for one of them, and packets that come twice rarely rise
/// in order. In active time, eight deliveries take a time-out at most, half of the time for which
/// fragments are held.
const RISES_MIN: u32 = 8;
