//! What a sender's jump ahead counts for before its next fragments confirm it.

use super::horizon::Rules;

/// A jump ahead of one sender. Until it is over, the sender counts as having passed only the keys
/// before the jump: a packet of garbled numbers also looks like a jump.
#[derive(Clone, Copy, Debug)]
pub struct Probation {
    /// Where it leads.
    pub key: u64,
    /// In active time.
    end_ns: u64,
    /// In total time: a sender may pause until its data have been recorded.
    end_at_last_ns: u64,
    /// Whether another jump followed.
    pub again: bool,
}

impl Probation {
    /// That of a jump which is made now.
    pub fn of(key: u64, rules: &Rules, active_ns: u64, now_ns: u64) -> Self {
        let end_at_last_ns = now_ns.saturating_add(rules.timeout_ns);
        Self { key, end_ns: active_ns + rules.period_ns(), end_at_last_ns, again: false }
    }

    /// Whether what the sender has delivered since counts as progress.
    pub fn is_over(&self, active_ns: u64, now_ns: u64) -> bool {
        self.end_ns <= active_ns || self.end_at_last_ns <= now_ns
    }
}
