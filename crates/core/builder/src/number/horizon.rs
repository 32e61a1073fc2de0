//! The rule that moves the horizon: which senders vote, what position each has, and what position
//! their quorum claims.
//!
//! Numbers on the wire can be garbled, skipped or repeated; they wrap, and they can restart. A
//! single number must therefore never affect the fragments of other sources. The rule:
//!
//! - A *voter* is a sender (a port or a connection, never a channel, nor a source that promises)
//!   that delivered within the last time-out, counted in active time. *Active time* stops while no
//!   sender delivers. At the start, every enabled sender is a voter until a time-out has passed.
//! - The *position* of a voter is the key of its newest fragment. A number within `near` of the
//!   position is accepted at once. Any other number makes a *claim*. The claim becomes the voter's
//!   position when two consecutive fragments agree; a lone voter needs three. A claim outside the
//!   window also requires that the voter delivered nothing at its position for a quarter of a
//!   time-out: duplicated packets arrive in order, too, and two senders may share a port.
//! - The *quorum* is more than half of the voters, and so both of two. When it claims other
//!   numbers, the remaining voters have one time-out to follow. Then the numbers of all voters are
//!   counted from the new position.
//! - A key is *passed* when more than half of the voters that have a position are beyond it. Where
//!   sources promise and nobody votes, all keys are: then their promises decide (`promises.rs`).
//!
//! This module has no queues, no events and no cutting. The caller holds the fragments of undecided
//! claims and moves the window to the position of a [`Quorum`]. ARCHITECTURE explains the rule;
//! docs/decisions/event-building.md lists the measurements.

use super::claim::{Claim, Likeness, Repetition};
use super::numbers::Numbers;
use super::probation::Probation;
use super::progress::{PERIODS, Progress};
use super::promises::Promises;
use super::voter::{CLAIMS_MAX, Voter};
use crate::{BuilderConfig, NumberConfig};

/// How many time-outs a claim lives after its last fragment, a fragment of it is held, and the
/// sender retains its position: one until a dead voter counts as silent, and one for the remaining
/// voters to follow.
pub const HOLD_TIMEOUTS: u64 = 2;
/// How long a sender must deliver nothing at its position before another position can replace it: a
/// quarter of a time-out.
const LASTING_PERIODS: u64 = 2;
/// Parameters of the rule.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub numbers: Numbers,
    /// The greatest distance from the position of its sender, in both directions, at which a single
    /// number is accepted.
    pub near: u64,
    /// The greatest distance between consecutive numbers of one claim.
    pub agree: u64,
    /// The greatest distance between the claims of one quorum.
    pub spread: u64,
    pub timeout_ns: u64,
}

impl Rules {
    /// An eighth of the time-out.
    pub fn period_ns(&self) -> u64 {
        self.timeout_ns.div_ceil(PERIODS)
    }

    fn lasting_ns(&self) -> u64 {
        LASTING_PERIODS * self.period_ns()
    }
}

/// The claim that a number belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Identifies the claim of a held fragment.
    pub id: u32,
    /// Whether enough consecutive fragments agree to move the sender there.
    pub settled: bool,
}

/// Voters whose claims agree, and which are enough to be followed.
#[derive(Clone, Debug)]
pub struct Quorum {
    /// The number that all claims are near.
    pub anchor: u64,
    /// The members, in ascending order: voter, claim and newest number of the claim.
    pub members: Vec<(usize, u32, u64)>,
    /// The median position of the members that had one.
    pub position: Option<u64>,
}

impl Quorum {
    /// The claim of a voter, if it is a member.
    pub fn claim_of(&self, voter: usize) -> Option<u32> {
        let index = self.members.binary_search_by_key(&voter, |&(member, ..)| member);
        index.ok().map(|index| self.members[index].1)
    }
}

/// All senders and their positions.
#[derive(Debug)]
pub struct Horizon {
    rules: Rules,
    voters: Vec<Voter>,
    progress: Progress,
    /// The other horizon: that of sources which promise.
    pub promises: Promises,
    started: bool,
    /// Number of enabled voters that are not silent.
    voting: usize,
    /// Number of claims of all voters.
    claims: usize,
    next_claim: u32,
    /// Active time. A period without deliveries adds an eighth of a time-out at most.
    active_ns: u64,
    /// When any sender last delivered.
    delivered_ns: Option<u64>,
    /// When the current period of `progress` ends.
    period_end_ns: u64,
    /// Since when a quorum has claimed other numbers, in active time.
    quorum_since_ns: Option<u64>,
    /// The key below which all keys are passed, computed at most once per duty cycle.
    passed: Option<u64>,
    /// What the slowest voter has reached of those that may have sent what has not been read, in
    /// this duty cycle.
    unread: u64,
}

impl Horizon {
    /// That of a builder with these settings.
    pub fn of(config: &BuilderConfig, number: &NumberConfig) -> Self {
        let rules = Rules {
            numbers: Numbers::new(number.number_bits),
            near: number.reorder_events.max(1),
            agree: number.reorder_events.max(number.window_events / 64),
            spread: number.window_events / 2,
            timeout_ns: config.timeout_ns,
        };
        let mut enabled = vec![false; number.voter_count(config.sources.len())];
        for (index, role) in config.sources.iter().enumerate() {
            enabled[number.voter_of(index)] |= role.is_enabled() && !config.is_promising(index);
        }
        let progress = Progress::new(enabled.len());
        let voters: Vec<Voter> = enabled.into_iter().map(Voter::new).collect();
        Self {
            rules,
            voting: voters.iter().filter(|voter| voter.enabled).count(),
            progress,
            voters,
            promises: Promises::new(config, number),
            started: false,
            claims: 0,
            next_claim: 0,
            active_ns: 0,
            delivered_ns: None,
            period_end_ns: 0,
            quorum_since_ns: None,
            passed: None,
            unread: u64::MAX,
        }
    }

    /// Continues a run: a voter has the position of its source that has come furthest, one below
    /// the key given for that.
    pub fn continue_at(&mut self, number: &NumberConfig, sources: &[Option<u64>]) {
        self.started = true;
        for (source, &reached) in sources.iter().enumerate() {
            if let Some(reached) = reached {
                self.promises.continue_at(source, reached);
            }
            let Some(key) = reached.and_then(|reached| reached.checked_sub(1)) else { continue };
            let voter = number.voter_of(source);
            let it = &mut self.voters[voter];
            if it.enabled && (!it.placed || key > it.position) {
                it.has_delivered = true;
                self.place_at(voter, key, 0);
            }
        }
    }

    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether a quorum has set the first position.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// The numbering begins without a quorum.
    pub fn start(&mut self) {
        (self.started, self.passed) = (true, None);
    }

    /// Whether nobody votes, and the promises of other sources decide alone.
    pub fn is_promised_alone(&self) -> bool {
        self.voting == 0 && self.promises.is_any()
    }

    /// Whether a quorum has claimed other numbers for a time-out.
    pub fn has_quorum_waited(&self) -> bool {
        let waited = |since_ns| self.active_ns - since_ns >= self.rules.timeout_ns;
        self.quorum_since_ns.is_some_and(waited)
    }

    /// The key below which all keys are passed, as of the first call after
    /// [`begin_cycle`](Self::begin_cycle).
    pub fn passed(&mut self) -> u64 {
        let none = self.passed_by_none();
        let progress = &mut self.progress;
        *self.passed.get_or_insert_with(|| progress.passed().unwrap_or(none))
    }

    /// Number of voters that have a position.
    pub fn placed_count(&self) -> usize {
        self.voters.iter().filter(|voter| voter.placed).count()
    }

    /// Number of voters, enabled or not.
    pub fn voter_count(&self) -> usize {
        self.voters.len()
    }

    /// Whether an enabled voter delivers nothing.
    pub fn is_silent(&self, voter: usize) -> bool {
        self.voters[voter].enabled && self.voters[voter].silent
    }

    /// Whether a voter delivers, but its numbers do not fit those of the other voters.
    pub fn is_out_of_step(&self, voter: usize) -> bool {
        let voter = &self.voters[voter];
        self.started && voter.enabled && voter.has_delivered && !voter.silent && !voter.placed
    }

    /// What the repeated numbers of a claim are.
    pub fn repetition(&self, voter: usize, claim: u32) -> Repetition {
        let mut claims = self.voters[voter].claims.iter();
        let known = claims.find(|known| known.id == claim);
        known.map_or(Repetition::Duplicate, Claim::repetition)
    }

    /// The end of the keys at which a single number is accepted; no bound while no voter has a
    /// position.
    pub fn reach(&mut self) -> u64 {
        match self.voters.iter().any(|voter| voter.placed) {
            true => self.passed().saturating_add(self.rules.near),
            false => u64::MAX,
        }
    }

    /// The claim of a voter's last fragment; none if that was at the position.
    pub fn latest_claim(&self, voter: usize) -> Option<u32> {
        self.voters[voter].latest
    }

    /// The numbers of a voter that agree with each other, and not with its position.
    pub fn claims(&self, voter: usize) -> &[Claim] {
        &self.voters[voter].claims
    }

    /// The position of a voter, if it has one.
    pub fn position(&self, voter: usize) -> Option<u64> {
        self.voters[voter].placed.then(|| self.voters[voter].position)
    }

    /// The last position of a voter in this epoch, if it had one.
    pub fn last_position(&self, voter: usize) -> Option<u64> {
        self.voters[voter].known.then(|| self.voters[voter].position)
    }

    /// The position of a voter and the newest key before it, if fragments near it take the fast
    /// path.
    #[inline]
    pub fn fast_position(&self, voter: usize) -> Option<(u64, u64)> {
        let voter = &self.voters[voter];
        voter.fast.then_some((voter.position, voter.previous))
    }

    /// The active time.
    pub fn active_ns(&self) -> u64 {
        self.active_ns
    }

    /// Counts active time up to a delivery of any sender.
    pub fn count_time(&mut self, now_ns: u64) {
        if self.delivered_ns == Some(now_ns) {
            return;
        }
        let pause_ns = now_ns - self.delivered_ns.unwrap_or(now_ns);
        self.active_ns += pause_ns.min(self.rules.period_ns());
        if self.delivered_ns.replace(now_ns).is_none() {
            self.period_end_ns = now_ns.saturating_add(self.rules.period_ns());
        }
    }

    /// Lets one period pass at most, however much time has.
    #[inline]
    pub fn resume(&mut self, now_ns: u64) {
        self.promises.resume(now_ns, self.rules.period_ns());
        if self.delivered_ns.is_some() {
            self.period_end_ns = self.period_end_ns.max(now_ns);
        }
    }

    /// Ends the periods that have passed: samples progress and finds silent voters.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.promises.advance(now_ns);
        if self.delivered_ns.is_some() && now_ns >= self.period_end_ns {
            self.end_period(now_ns);
        }
    }

    #[cold]
    fn end_period(&mut self, now_ns: u64) {
        let period_ns = self.rules.period_ns();
        let periods = 1 + (now_ns - self.period_end_ns) / period_ns;
        for _ in 0..periods.min(PERIODS + 1) {
            self.progress.sample();
        }
        self.period_end_ns = self.period_end_ns.saturating_add(periods.saturating_mul(period_ns));
        for index in 0..self.voters.len() {
            let voter = &mut self.voters[index];
            let quiet_ns = self.active_ns - voter.alive_ns;
            if voter.enabled && !voter.silent && quiet_ns >= self.rules.timeout_ns {
                voter.silent = true;
                self.voting -= 1;
                self.unplace(index);
            } else if voter.placed
                && self.active_ns - voter.received_active_ns
                    >= HOLD_TIMEOUTS * self.rules.timeout_ns
            {
                self.unplace(index);
            } else if voter.probation.is_some_and(|it| it.is_over(self.active_ns, now_ns)) {
                self.end_probation(index, now_ns);
            }
        }
        self.promises.give_up_silent(self.active_ns);
    }

    fn end_probation(&mut self, voter: usize, now_ns: u64) {
        let it = &mut self.voters[voter];
        let Some(Probation { key, again, .. }) = it.probation.take() else { return };
        if again {
            it.probation = Some(Probation::of(it.position, &self.rules, self.active_ns, now_ns));
        }
        it.fast = it.probation.is_none();
        let passed = if again { key.min(it.position) } else { it.position };
        self.progress.set(voter, passed + 1, true);
    }

    /// Begins a duty cycle, in which passed keys are computed anew. While no fragment is held, no
    /// quorum is pending.
    pub fn begin_cycle(&mut self, some_held: bool) {
        self.passed = None;
        if !some_held {
            self.quorum_since_ns = None;
        }
    }

    /// Ends a duty cycle: in the next one, it is said anew what may be unread.
    pub fn end_cycle(&mut self) {
        self.unread = u64::MAX;
    }

    /// The key below which every voter that has a position has passed all keys. During the first
    /// time-out, and while it may have sent what has not been read, a voter without a position may
    /// still begin, so that no key counts as passed by all.
    pub fn passed_by_all(&self) -> u64 {
        if self.awaits_first() { 0 } else { self.passed_by_placed().min(self.unread) }
    }

    /// The key below which every voter that has a position has passed all keys, whoever may still
    /// begin.
    pub fn passed_by_placed(&self) -> u64 {
        self.progress.slowest().unwrap_or(self.passed_by_none())
    }

    /// Whether a voter may still begin: it votes, but after the first time-out it is silent or out
    /// of step.
    fn awaits_first(&self) -> bool {
        let is_awaited = |voter: &Voter| voter.votes() && !voter.known;
        self.active_ns < self.rules.timeout_ns && self.voters.iter().any(is_awaited)
    }

    /// The key below which all keys had been passed one time-out ago, and are passed still: a
    /// majority that was wrong may have returned meanwhile. A voter that may have sent what has not
    /// been read has not passed it.
    pub fn passed_long_ago(&mut self) -> u64 {
        let none = self.passed_by_none();
        let now = self.progress.passed().unwrap_or(none);
        self.progress.passed_long_ago().unwrap_or(none).min(now).min(self.unread)
    }

    /// The key below which all keys count as passed while no voter has a position.
    fn passed_by_none(&self) -> u64 {
        if self.is_promised_alone() { u64::MAX } else { 0 }
    }

    /// Records a delivery at the position of a voter: its newest key, and the newest key before
    /// that. Returns whether the voter has claims: then the caller calls [`refute`](Self::refute).
    #[inline]
    pub fn receive(&mut self, voter: usize, (newest, previous): (u64, u64), now_ns: u64) -> bool {
        let Self { voters, progress, active_ns, claims, .. } = self;
        let it = &mut voters[voter];
        (it.position, it.previous) = (newest, previous);
        (it.received_ns, it.received_active_ns, it.alive_ns) = (now_ns, *active_ns, *active_ns);
        if it.fast || it.probation.is_none() {
            // A number that skipped others may be garbled until the next one confirms it.
            let passed = if newest - previous.min(newest) <= 1 { newest } else { previous };
            progress.reach(voter, passed + 1);
        }
        *claims > 0 && !it.claims.is_empty()
    }

    /// Handles the claims of a voter that delivered at its position. Removes and returns the claims
    /// that repeat numbers delivered earlier, each with what they were. The other claims must be
    /// confirmed again.
    #[cold]
    pub fn refute(&mut self, voter: usize) -> Vec<(u32, Repetition)> {
        let it = &mut self.voters[voter];
        it.latest = None;
        let mut claims = std::mem::take(&mut it.claims);
        let mut refuted = Vec::new();
        claims.retain(|claim| {
            let repeats = it.repeats(claim.newest, &self.rules);
            if repeats {
                refuted.push((claim.id, claim.repetition()));
            }
            !repeats
        });
        it.claims = claims;
        self.claims -= refuted.len();
        refuted
    }

    /// Records that a voter delivered a fragment, whatever its number.
    pub fn mark_alive(&mut self, voter: usize) {
        let it = &mut self.voters[voter];
        it.has_delivered = true;
        it.alive_ns = self.active_ns;
        if std::mem::take(&mut it.silent) {
            self.voting += 1;
        }
    }

    /// Records that a source, and its voter if it does not promise, has fragments for which there
    /// is no room: it is as if it went on delivering, so that the others' silence is found.
    pub fn hold(&mut self, source: usize, voter: usize, now_ns: u64) {
        self.count_time(now_ns);
        if self.promises.has(source) {
            return self.promises.speak(source, self.active_ns);
        }
        self.mark_alive(voter);
        let it = &mut self.voters[voter];
        if it.latest.is_none() {
            (it.received_ns, it.received_active_ns) = (now_ns, self.active_ns);
        }
    }

    /// The same of one that may have sent what has not been read, and may begin with that, unless
    /// it had not begun when it was found silent.
    pub fn hold_unread(&mut self, source: usize, voter: usize, now_ns: u64) {
        if self.is_silent(voter) && !self.voters[voter].known && !self.promises.has(source) {
            return;
        }
        self.hold(source, voter, now_ns);
        let it = &self.voters[voter];
        if it.placed {
            self.unread = self.unread.min(self.progress.reached(voter));
        } else if it.votes() && !it.known {
            self.unread = 0;
        }
    }

    /// Sets the position of a voter. Returns its claims that agree with it, which are thereby
    /// settled.
    pub fn place_at(&mut self, voter: usize, key: u64, now_ns: u64) -> Vec<u32> {
        let it = &mut self.voters[voter];
        let jumped = it.placed && key > it.position.saturating_add(self.rules.near);
        if jumped {
            let probation = Probation::of(key, &self.rules, self.active_ns, now_ns);
            match &mut it.probation {
                Some(earlier) => earlier.again = true,
                none => *none = Some(probation),
            }
        } else {
            it.probation = None;
            self.progress.set(voter, key + 1, true);
        }
        (it.placed, it.known) = (true, true);
        it.previous = it.previous.min(key.saturating_sub(1));
        (it.position, it.received_ns, it.received_active_ns) = (key, now_ns, self.active_ns);
        it.fast = !jumped;
        it.latest = None;
        let Rules { numbers, agree, .. } = self.rules;
        let same = |claim: &Claim| numbers.offset(claim.newest, key).unsigned_abs() <= agree;
        let settled: Vec<u32> = it.claims.iter().filter(|c| same(c)).map(|c| c.id).collect();
        it.claims.retain(|claim| !settled.contains(&claim.id));
        self.claims -= settled.len();
        settled
    }

    /// Records a number that is not near the position of its voter.
    pub fn claim(&mut self, voter: usize, number: u64, likeness: Likeness, now_ns: u64) -> Claimed {
        let Rules { numbers, near, agree, timeout_ns, .. } = self.rules;
        let expires_ns = self.active_ns + HOLD_TIMEOUTS * timeout_ns;
        let needed = self.needed();
        let it = &mut self.voters[voter];
        let left = now_ns.saturating_sub(it.received_ns) >= self.rules.lasting_ns();
        let same = |claim: &&mut Claim| match numbers.offset(claim.newest, number) {
            ahead @ 0.. => ahead.unsigned_abs() <= agree,
            back => back.unsigned_abs() <= near,
        };
        if let Some(claim) = it.claims.iter_mut().find(same) {
            if it.latest != Some(claim.id) {
                claim.streak = 1;
            } else if numbers.offset(claim.last, number) > 0 {
                // Neither a fragment of another channel nor one that the network reordered.
                claim.streak = claim.streak.saturating_add(1);
            }
            (claim.last, claim.expires_ns) = (number, expires_ns);
            claim.left |= left;
            if numbers.offset(claim.newest, number) > 0 {
                claim.newest = number;
                claim.rise(likeness, now_ns);
            }
            it.latest = Some(claim.id);
            return Claimed { id: claim.id, settled: claim.streak >= needed };
        }
        let oldest = it.claims.iter().enumerate().min_by_key(|(_, claim)| claim.expires_ns);
        let oldest = oldest.filter(|_| it.claims.len() == CLAIMS_MAX).map(|(index, _)| index);
        // Its held fragments expire.
        let forgotten = oldest.map(|index| it.claims.remove(index));
        let id = self.next_claim;
        self.next_claim = self.next_claim.wrapping_add(1);
        self.claims += usize::from(forgotten.is_none());
        let mut claim = Claim::new(id, number, left, expires_ns);
        claim.rise(likeness, now_ns);
        it.claims.push(claim);
        it.latest = Some(id);
        Claimed { id, settled: needed <= 1 }
    }

    /// The settled claim of a voter without a position: its first and its newest number.
    pub fn settled(&self, voter: usize) -> Option<(u64, u64)> {
        let needed = self.needed();
        let it = self.voters.get(voter).filter(|it| !it.placed)?;
        let claim = it.claims.iter().find(|claim| it.latest == Some(claim.id))?;
        (claim.streak >= needed).then_some((claim.first, claim.newest))
    }

    /// Where a voter's settled claim leads ahead, if more than half of the voters are there with
    /// it: the key of its newest number, and that number. The others have come there one by one,
    /// so that they claim nothing.
    pub fn settled_beside_others(&self, voter: usize) -> Option<(u64, u64)> {
        let Rules { numbers, spread, .. } = self.rules;
        let it = &self.voters[voter];
        let claim = it.claims.iter().find(|claim| it.latest == Some(claim.id))?;
        let is_settled = claim.streak >= self.needed() && claim.foreign && claim.left;
        let is_there = |other: &&Voter| {
            let apart = numbers.offset(other.position, claim.newest);
            other.votes() && other.placed && apart.unsigned_abs() <= spread
        };
        let key = numbers.near(self.voters.iter().find(is_there)?.position, claim.newest);
        let beside = |other: &&Voter| is_there(other) && other.position.abs_diff(key) <= spread;
        let count = 1 + self.voters.iter().filter(beside).count();
        let is_ahead = !it.known || key > it.position;
        (is_settled && is_ahead && 2 * count > self.voting).then_some((key, claim.newest))
    }

    /// The quorum to follow, if there is one and it is due: all voters agree, the remaining voters
    /// have had a time-out, memory is `crowded`, or the run ends.
    pub fn decide(&mut self, crowded: bool, at_end: bool, now_ns: u64) -> Option<Quorum> {
        if self.claims > 0 {
            let voters = self.voters.iter_mut();
            self.claims -= voters.map(|one| one.forget_claims(self.active_ns)).sum::<usize>();
        }
        if self.claims == 0 {
            self.quorum_since_ns = None;
            return None;
        }
        // Before the start, single fragments decide if nothing follows them for a time-out.
        let quiet_ns = now_ns.saturating_sub(self.delivered_ns.unwrap_or(now_ns));
        let must_start = !self.started && (at_end || quiet_ns >= self.rules.timeout_ns);
        let only_known = must_start || crowded && !self.started;
        let votes = |voter: &&Voter| voter.votes() && (voter.has_delivered || !only_known);
        let voters = self.voters.iter().filter(votes).count();
        let enough = |quorum: &Quorum| 2 * quorum.members.len() > voters;
        let needed = if must_start { 1 } else { self.needed() };
        // While no voter has a position and there is no majority, some data are better than none.
        let none_placed = !self.voters.iter().any(|voter| voter.placed);
        let settle = none_placed && (self.started || self.active_ns >= self.rules.timeout_ns);
        let mut quorum = self.largest(needed, now_ns).filter(|quorum| enough(quorum) || settle);
        if quorum.is_none() && !self.started {
            // Before the start, voters that all agree need no confirmation, and at the end of the
            // run any data are better than none.
            let all = |quorum: &Quorum| voters > 1 && quorum.members.len() == voters;
            quorum = self.largest(1, now_ns).filter(|quorum| at_end || all(quorum));
        }
        let Some(quorum) = quorum else {
            self.quorum_since_ns = None;
            return None;
        };
        let since_ns = *self.quorum_since_ns.get_or_insert(self.active_ns);
        let waited = self.active_ns - since_ns >= self.rules.timeout_ns;
        let all = quorum.members.len() == voters;
        let due = !self.started || all || waited || crowded || at_end || settle;
        due.then_some(quorum)
    }

    /// Follows a quorum: `number` of its claims is the key `key`. In a new epoch all other voters
    /// lose their positions. Returns the settled claims, each with its voter.
    pub fn follow(
        &mut self,
        quorum: &Quorum,
        (number, key): (u64, u64),
        epoch: bool,
        now_ns: u64,
    ) -> Vec<(usize, u32)> {
        let mut claims = Vec::new();
        let numbers = self.rules.numbers;
        self.started = true;
        self.quorum_since_ns = None;
        if epoch {
            (0..self.voters.len()).for_each(|voter| self.unplace(voter));
            self.voters.iter_mut().for_each(|voter| voter.known = false);
        }
        for &(voter, _, newest) in &quorum.members {
            let position = key.saturating_add_signed(numbers.offset(number, newest));
            // The old position has no meaning for a jump that the quorum makes.
            self.unplace(voter);
            let latest = self.voters[voter].latest;
            let settled = self.place_at(voter, position, now_ns);
            // The voter may have moved on before the quorum was followed.
            self.voters[voter].latest = latest.filter(|id| !settled.contains(id));
            claims.extend(settled.into_iter().map(|claim| (voter, claim)));
        }
        self.passed = None;
        claims
    }

    /// Removes the position of a voter: events no longer wait for it.
    fn unplace(&mut self, voter: usize) {
        let it = &mut self.voters[voter];
        (it.placed, it.fast, it.probation) = (false, false, None);
        self.progress.wait_for(voter, false);
    }

    /// How many consecutive fragments must agree.
    fn needed(&self) -> u32 {
        if self.voting == 1 { 3 } else { 2 }
    }

    /// The largest group of voters whose last fragments claim about the same numbers.
    fn largest(&self, needed: u32, now_ns: u64) -> Option<Quorum> {
        let Rules { numbers, spread, .. } = self.rules;
        let vote = |(index, voter): (usize, &Voter)| {
            // Before the start the first claim counts: a later one may be a restart.
            let latest = |claim: &&Claim| voter.latest == Some(claim.id) || !self.started;
            let mut claims = voter.claims.iter().filter(latest);
            let claim = claims.find(|claim| claim.streak >= needed)?;
            // Two senders that share a port deliver at both positions.
            let left = now_ns.saturating_sub(voter.received_ns) >= self.rules.lasting_ns();
            let settled = (!voter.placed || left) && (claim.is_restart() || claim.is_late());
            (voter.votes() && settled).then_some((index, claim.id, claim.newest))
        };
        let mut votes: Vec<_> = self.voters.iter().enumerate().filter_map(vote).collect();
        votes.sort_by_key(|&(_, _, newest)| numbers.offset(0, newest));
        let near = |from: u64, to: u64| {
            let ahead = numbers.offset(from, to);
            ahead >= 0 && ahead.unsigned_abs() <= spread
        };
        // For each vote, counts those within the spread after it, on the circle of the numbers.
        let (mut best, mut end) = (0..0, 0);
        for begin in 0..votes.len() {
            end = end.max(begin);
            let from = votes[begin].2;
            while end < begin + votes.len() && near(from, votes[end % votes.len()].2) {
                end += 1;
            }
            if end - begin > best.len() {
                best = begin..end;
            }
        }
        let anchor = votes.get(best.start)?.2;
        let mut members: Vec<_> = best.map(|index| votes[index % votes.len()]).collect();
        // Late fragments agree with those of a restart; by themselves they are none.
        let of_restart = |&(voter, id, _): &(usize, u32, u64)| {
            let mut claims = self.voters[voter].claims.iter();
            claims.any(|claim| claim.id == id && claim.is_restart())
        };
        if !members.iter().any(of_restart) {
            return None;
        }
        members.sort_unstable_by_key(|&(voter, ..)| voter);
        let mut positions: Vec<u64> =
            members.iter().filter_map(|&(voter, ..)| self.position(voter)).collect();
        let middle = positions.len() / 2;
        let position =
            positions.get(middle).is_some().then(|| *positions.select_nth_unstable(middle).1);
        Some(Quorum { anchor, members, position })
    }
}
