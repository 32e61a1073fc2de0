//! A sender that numbers its fragments, as the horizon knows it.

use super::claim::Claim;
use super::horizon::Rules;
use super::probation::Probation;

/// Number of claims stored per voter: the position after a restart, and some garbled numbers.
pub const CLAIMS_MAX: usize = 4;

/// A sender. The fields that each packet uses are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Voter {
    /// Its position: the key of its newest fragment.
    pub position: u64,
    /// The newest key before the position.
    pub previous: u64,
    /// When it last delivered at its position.
    pub received_ns: u64,
    /// The same in active time.
    pub received_active_ns: u64,
    /// When it last delivered any fragment, in active time.
    pub alive_ns: u64,
    /// Whether fragments near the position take the fast path: it has a position and is not on
    /// probation.
    pub fast: bool,
    pub placed: bool,
    /// Whether `position` is of this epoch, also while the voter has no position since it is
    /// silent: what it sends next is compared with it.
    pub known: bool,
    pub enabled: bool,
    pub has_delivered: bool,
    pub silent: bool,
    /// The claim of its last fragment; none if that was at the position.
    pub latest: Option<u32>,
    pub claims: Vec<Claim>,
    /// Its last jump ahead, until that counts as progress.
    pub probation: Option<Probation>,
}

const _: () = assert!(std::mem::offset_of!(Voter, claims) <= 64);

impl Voter {
    /// Forgets claims that have expired by then; how many there were.
    pub fn forget_claims(&mut self, active_ns: u64) -> usize {
        let before = self.claims.len();
        self.claims.retain(|claim| claim.expires_ns > active_ns);
        before - self.claims.len()
    }

    pub fn new(enabled: bool) -> Self {
        Self {
            position: 0,
            previous: 0,
            fast: false,
            placed: false,
            known: false,
            enabled,
            has_delivered: false,
            silent: false,
            received_ns: 0,
            received_active_ns: 0,
            alive_ns: 0,
            probation: None,
            claims: Vec::with_capacity(CLAIMS_MAX),
            latest: None,
        }
    }

    /// Whether the voter may have delivered this number before, near its position.
    pub fn repeats(&self, number: u64, rules: &Rules) -> bool {
        let back = rules.numbers.offset(number, self.position);
        self.placed && back >= 0 && back.unsigned_abs() <= 2 * rules.spread
    }

    pub fn votes(&self) -> bool {
        self.enabled && !self.silent
    }
}
