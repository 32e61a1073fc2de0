//! Who moves the horizon: which senders vote, where they stand, and where their quorum stands.
//!
//! Numbers on the wire are garbled, skipped and repeated, wrap and begin anew. No single number may
//! therefore move what the other sources are held to. The rule:
//!
//! - A *voter* is a sender (a port, a connection, a link; never a channel) that delivered within
//!   the last time-out. Time in which nobody delivers does not count, and at the start every sender
//!   is taken for a voter until a time-out has passed.
//! - A voter *stands* at the key of its newest fragment. Numbers within `near` of it are taken at
//!   once. Other numbers make a *claim*: the voter stands there when two consecutive fragments
//!   agree, a lone voter when three do. Outside the window that needs silence at the old place,
//!   too, for a quarter of a time-out: packets that come twice also come in order, and two senders
//!   may use one port.
//! - The *quorum* is more than half of the voters, which means both of two. Once it claims other
//!   numbers, the rest have a time-out to come after; then everybody's numbers are counted from
//!   there.
//! - What has been *passed* is what more than half of the voters that stand somewhere have passed.
//!
//! There are no queues here, no events and no cutting: the caller keeps fragments whose claim is
//! not decided, and turns a [`Quorum`] into a new place of its window. ARCHITECTURE states the rule
//! with its reasons; docs/decisions/0114 says what was measured.

use crate::progress::{PERIODS, Progress};

/// Claims of one voter that are remembered at a time: where it restarted to, and some garbled
/// numbers.
const CLAIMS_MAX: usize = 4;
/// How many time-outs a claim is remembered after its last fragment, a fragment is kept for it, and
/// its sender still stands where it was: one until a voter that is silent is none, one for those
/// that have not moved on.
pub const KEPT_TIMEOUTS: u64 = 2;
/// How long a sender delivers nothing where it stands before it counts as one that is elsewhere: a
/// quarter of a time-out.
const LASTING_PERIODS: u64 = 2;
/// Keys end here: far beyond any detector's, and far from overflow.
pub const KEY_END: u64 = 1 << 62;

/// Numbers of some bits as they appear on the wire: they wrap.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    bits: u32,
}

impl Numbers {
    pub fn new(bits: u32) -> Self {
        Self { bits }
    }

    /// The way from one number, or the key that it is the end of, to another; negative is back.
    #[inline]
    pub fn offset(self, from: u64, to: u64) -> i64 {
        let unused = 64 - self.bits;
        (to.wrapping_sub(from) << unused).cast_signed() >> unused
    }

    /// The key of `number` nearest to `key`; one below 0 lies beyond all keys.
    #[inline]
    pub fn near(self, key: u64, number: u64) -> u64 {
        key.wrapping_add_signed(self.offset(key, number))
    }

    /// The number at the end of a key.
    #[inline]
    pub fn in_turn(self, key: u64) -> u64 {
        key & ((1 << self.bits) - 1)
    }

    /// The key of `number` in the first turn of the numbers that lies wholly behind `key`, if keys
    /// reach as far.
    pub fn next_turn(self, key: u64, number: u64) -> Option<u64> {
        let turn = (key >> self.bits) + 1;
        (turn < KEY_END >> self.bits).then_some((turn << self.bits) + self.in_turn(number))
    }
}

/// What the rule depends on.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub numbers: Numbers,
    /// How far from where its sender stands a number is believed at once, either way.
    pub near: u64,
    /// How far the next number of a claim may be ahead.
    pub agree: u64,
    /// How far apart the claims of one quorum may be.
    pub spread: u64,
    pub timeout_ns: u64,
}

impl Rules {
    fn period_ns(&self) -> u64 {
        self.timeout_ns.div_ceil(PERIODS)
    }

    fn lasting_ns(&self) -> u64 {
        LASTING_PERIODS * self.period_ns()
    }
}

/// A sender. What each packet touches is the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Voter {
    /// The key of its newest fragment, where it stands.
    stand: u64,
    /// The newest key before that one.
    before: u64,
    /// When it last delivered where it stands.
    stood_ns: u64,
    /// The same in time that counts.
    stood_active_ns: u64,
    /// When it last delivered, in time that counts.
    heard_ns: u64,
    /// Whether its fragments near where it stands need no closer look: it is not on probation.
    usual: bool,
    standing: bool,
    enabled: bool,
    heard: bool,
    silent: bool,
    /// The claim that its last fragment was of; none where it stands.
    latest: Option<u32>,
    claims: Vec<Claim>,
    /// Where it jumped to, while nobody relies on that.
    probation: Option<Probation>,
}

const _: () = assert!(std::mem::offset_of!(Voter, claims) <= 64);

/// A sender's jump ahead. Until a while after it counts as having passed only what it had before: a
/// packet of garbled numbers is one that jumps, too.
#[derive(Clone, Copy, Debug)]
struct Probation {
    key: u64,
    /// In time that counts.
    end_ns: u64,
    /// In any time: a sender may wait for what it sent to be recorded.
    end_at_last_ns: u64,
    /// Whether it has jumped again since.
    again: bool,
}

/// Numbers that agree with each other, and not with where their sender stands.
#[derive(Clone, Copy, Debug)]
struct Claim {
    id: u32,
    first: u64,
    newest: u64,
    /// The number of the sender's last fragment of it.
    last: u64,
    /// How many consecutive fragments of the sender agreed.
    streak: u32,
    /// Whether it went on for a quarter of a time-out in which the sender delivered nothing where
    /// it stands: a packet that came twice does not.
    lasting: bool,
    /// When it is forgotten, in time that counts.
    expires_ns: u64,
}

/// What became of a number that is not where its sender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The claim, under which the fragment can be kept.
    pub id: u32,
    /// Whether so many consecutive fragments agree that the sender stands there.
    pub settled: bool,
}

/// Voters that claim other numbers, and are enough to be believed.
#[derive(Clone, Debug)]
pub struct Quorum {
    /// The number that the claims are near to.
    pub anchor: u64,
    /// Each voter with the claim and its newest number, by voter.
    pub members: Vec<(usize, u32, u64)>,
    /// The key that half of those members had come to that stood somewhere.
    pub stood: Option<u64>,
}

impl Quorum {
    /// The claim with which a voter is a member.
    pub fn claim_of(&self, voter: usize) -> Option<u32> {
        let place = self.members.binary_search_by_key(&voter, |&(member, ..)| member);
        place.ok().map(|place| self.members[place].1)
    }
}

/// The senders and where they stand.
#[derive(Debug)]
pub struct Horizon {
    rules: Rules,
    voters: Vec<Voter>,
    progress: Progress,
    started: bool,
    /// Enabled voters that are not silent.
    voting: usize,
    /// Claims of all voters.
    claims: usize,
    next_claim: u32,
    /// Time that counts: while nobody delivers, an eighth of a time-out at most passes.
    active_ns: u64,
    /// When something was last delivered.
    delivered_ns: Option<u64>,
    /// When the current period of `progress` ends.
    period_end_ns: u64,
    /// Since when, in time that counts, a quorum claims other numbers.
    quorum_since_ns: Option<u64>,
    /// The key below which more than half of those that stand somewhere have passed everything,
    /// once somebody asked since the last poll.
    passed: Option<u64>,
}

impl Horizon {
    /// For these voters; which of them are enabled.
    pub fn new(rules: Rules, enabled: impl ExactSizeIterator<Item = bool>) -> Self {
        let progress = Progress::new(enabled.len());
        let voters: Vec<Voter> = enabled.map(Voter::new).collect();
        Self {
            rules,
            voting: voters.iter().filter(|voter| voter.enabled).count(),
            progress,
            voters,
            started: false,
            claims: 0,
            next_claim: 0,
            active_ns: 0,
            delivered_ns: None,
            period_end_ns: 0,
            quorum_since_ns: None,
            passed: None,
        }
    }

    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether a quorum has said where numbers begin.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// The key below which more than half of the voters have passed everything, as of the first
    /// question after [`poll`](Self::poll).
    pub fn passed(&mut self) -> u64 {
        let progress = &mut self.progress;
        *self.passed.get_or_insert_with(|| progress.passed().unwrap_or(0))
    }

    /// How many voters there are, enabled or not.
    pub fn voter_count(&self) -> usize {
        self.voters.len()
    }

    /// Whether a voter delivers nothing.
    pub fn is_silent(&self, voter: usize) -> bool {
        self.voters[voter].enabled && self.voters[voter].silent
    }

    /// Whether a voter delivers, and not where the others do.
    pub fn is_out_of_step(&self, voter: usize) -> bool {
        let voter = &self.voters[voter];
        self.started && voter.enabled && voter.heard && !voter.silent && !voter.standing
    }

    /// Whether a claim is too long to be a packet that came twice.
    pub fn is_lasting(&self, voter: usize, claim: u32) -> bool {
        let mut claims = self.voters[voter].claims.iter();
        claims.find(|known| known.id == claim).is_some_and(|known| known.lasting)
    }

    /// How far ahead a number is believed at once; no bound where nobody stands anywhere.
    pub fn reach(&mut self) -> u64 {
        match self.voters.iter().any(|voter| voter.standing) {
            true => self.passed().saturating_add(self.rules.near),
            false => u64::MAX,
        }
    }

    /// The claim that a voter's last fragment was of; none if it was where the voter stands.
    pub fn latest_claim(&self, voter: usize) -> Option<u32> {
        self.voters[voter].latest
    }

    /// Where a voter stands; none if it does nowhere.
    pub fn stand(&self, voter: usize) -> Option<u64> {
        self.voters[voter].standing.then(|| self.voters[voter].stand)
    }

    /// Where a voter stands and the newest key before, if its fragments near it need no closer
    /// look.
    #[inline]
    pub fn usual_stand(&self, voter: usize) -> Option<(u64, u64)> {
        let voter = &self.voters[voter];
        voter.usual.then_some((voter.stand, voter.before))
    }

    /// Time that counts.
    pub fn active_ns(&self) -> u64 {
        self.active_ns
    }

    /// Something is delivered, by whomever.
    pub fn deliver(&mut self, now_ns: u64) {
        let pause_ns = now_ns - self.delivered_ns.unwrap_or(now_ns);
        self.active_ns += pause_ns.min(self.rules.period_ns());
        if self.delivered_ns.replace(now_ns).is_none() {
            self.period_end_ns = now_ns.saturating_add(self.rules.period_ns());
        }
    }

    /// Lets time pass: notes how far voters are, and which of them are silent.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
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
            let quiet_ns = self.active_ns - voter.heard_ns;
            if voter.enabled && !voter.silent && quiet_ns >= self.rules.timeout_ns {
                voter.silent = true;
                self.voting -= 1;
                self.leave(index);
            } else if voter.standing
                && self.active_ns - voter.stood_active_ns >= KEPT_TIMEOUTS * self.rules.timeout_ns
            {
                self.leave(index);
            } else if voter.probation.is_some_and(|it| it.is_over(self.active_ns, now_ns)) {
                self.end_probation(index, now_ns);
            }
        }
    }

    fn end_probation(&mut self, voter: usize, now_ns: u64) {
        let it = &mut self.voters[voter];
        let Some(Probation { key, again, .. }) = it.probation.take() else { return };
        if again {
            it.probation = Some(Probation::of(it.stand, &self.rules, self.active_ns, now_ns));
        }
        it.usual = it.probation.is_none();
        let passed = if again { key.min(it.stand) } else { it.stand };
        self.progress.set(voter, passed + 1, true);
    }

    /// What voters have passed is looked at anew from here on. Where nothing is held, no quorum is
    /// waiting.
    pub fn poll(&mut self, some_held: bool) {
        self.passed = None;
        if !some_held {
            self.quorum_since_ns = None;
        }
    }

    /// The key below which every voter that stands somewhere has passed everything.
    pub fn passed_by_all(&self) -> u64 {
        self.progress.slowest().unwrap_or(0)
    }

    /// The key below which more than half of the voters had passed everything a time-out ago.
    pub fn passed_long_ago(&mut self) -> u64 {
        self.progress.passed_long_ago().unwrap_or(0)
    }

    /// A voter has delivered where it stands: its newest key, and the newest before that. Returns
    /// whether it has claims, which [`refute`](Self::refute) is to be told of.
    #[inline]
    pub fn stood(&mut self, voter: usize, (newest, before): (u64, u64), now_ns: u64) -> bool {
        let Self { voters, progress, active_ns, claims, .. } = self;
        let it = &mut voters[voter];
        (it.stand, it.before) = (newest, before);
        (it.stood_ns, it.stood_active_ns, it.heard_ns) = (now_ns, *active_ns, *active_ns);
        if it.usual || it.probation.is_none() {
            // A number that skipped others may be garbled, until another one follows.
            let passed = if newest - before.min(newest) <= 1 { newest } else { before };
            progress.reach(voter, passed + 1);
        }
        *claims > 0 && !it.claims.is_empty()
    }

    /// A voter with claims has delivered where it stands. Returns the claims that repeat what it
    /// had delivered before, which are forgotten, and whether each was a lasting one: those that
    /// were not were packets that came twice. Other claims begin to count anew.
    #[cold]
    pub fn refute(&mut self, voter: usize) -> Vec<(u32, bool)> {
        let it = &mut self.voters[voter];
        it.latest = None;
        let mut claims = std::mem::take(&mut it.claims);
        let mut refuted = Vec::new();
        claims.retain(|claim| {
            let repeats = it.repeats(claim.newest, &self.rules);
            if repeats {
                refuted.push((claim.id, claim.lasting));
            }
            !repeats
        });
        it.claims = claims;
        self.claims -= refuted.len();
        refuted
    }

    /// A voter is alive, whatever its number says.
    pub fn hear(&mut self, voter: usize) {
        let it = &mut self.voters[voter];
        it.heard = true;
        it.heard_ns = self.active_ns;
        if std::mem::take(&mut it.silent) {
            self.voting += 1;
        }
    }

    /// A voter stands at that key from now on. Returns its claims that say the same, which are
    /// settled with it.
    pub fn stand_at(&mut self, voter: usize, key: u64, now_ns: u64) -> Vec<u32> {
        let it = &mut self.voters[voter];
        let jumped = it.standing && key > it.stand.saturating_add(self.rules.near);
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
        it.standing = true;
        it.before = it.before.min(key.saturating_sub(1));
        (it.stand, it.stood_ns, it.stood_active_ns) = (key, now_ns, self.active_ns);
        it.usual = !jumped;
        it.latest = None;
        let Rules { numbers, agree, .. } = self.rules;
        let same = |claim: &Claim| numbers.offset(claim.newest, key).unsigned_abs() <= agree;
        let settled: Vec<u32> = it.claims.iter().filter(|c| same(c)).map(|c| c.id).collect();
        it.claims.retain(|claim| !settled.contains(&claim.id));
        self.claims -= settled.len();
        settled
    }

    /// A voter delivers a number that is not where it stands.
    pub fn claim(&mut self, voter: usize, number: u64, now_ns: u64) -> Claimed {
        let Rules { numbers, near, agree, timeout_ns, .. } = self.rules;
        let expires_ns = self.active_ns + KEPT_TIMEOUTS * timeout_ns;
        let needed = self.needed();
        let it = &mut self.voters[voter];
        let lasting = now_ns.saturating_sub(it.stood_ns) >= self.rules.lasting_ns();
        let same = |claim: &&mut Claim| match numbers.offset(claim.newest, number) {
            ahead @ 0.. => ahead.unsigned_abs() <= agree,
            back => back.unsigned_abs() <= near,
        };
        if let Some(claim) = it.claims.iter_mut().find(same) {
            if it.latest != Some(claim.id) {
                claim.streak = 1;
            } else if numbers.offset(claim.last, number) > 0 {
                // Neither another channel's part of the same nor what the network reordered.
                claim.streak = claim.streak.saturating_add(1);
            }
            (claim.last, claim.expires_ns) = (number, expires_ns);
            claim.lasting |= lasting;
            if numbers.offset(claim.newest, number) > 0 {
                claim.newest = number;
            }
            it.latest = Some(claim.id);
            return Claimed { id: claim.id, settled: claim.streak >= needed };
        }
        let oldest = it.claims.iter().enumerate().min_by_key(|(_, claim)| claim.expires_ns);
        let oldest = oldest.filter(|_| it.claims.len() == CLAIMS_MAX).map(|(place, _)| place);
        // What was held for it expires.
        let forgotten = oldest.map(|place| it.claims.remove(place));
        let id = self.next_claim;
        self.next_claim = self.next_claim.wrapping_add(1);
        self.claims += usize::from(forgotten.is_none());
        let (first, newest, last) = (number, number, number);
        it.claims.push(Claim { id, first, newest, last, streak: 1, lasting, expires_ns });
        it.latest = Some(id);
        Claimed { id, settled: needed <= 1 }
    }

    /// What a voter that stands nowhere claims, once it is settled: the claim's first and newest
    /// number.
    pub fn settled(&self, voter: usize) -> Option<(u64, u64)> {
        let needed = self.needed();
        let it = self.voters.get(voter).filter(|it| !it.standing)?;
        let claim = it.claims.iter().find(|claim| it.latest == Some(claim.id))?;
        (claim.streak >= needed).then_some((claim.first, claim.newest))
    }

    /// Where a quorum claims to be, if there is one and it is time to follow: all voters have moved
    /// on, the rest had a time-out for it, memory is `crowded`, or the run ends.
    pub fn decide(&mut self, crowded: bool, at_end: bool, now_ns: u64) -> Option<Quorum> {
        self.forget_claims();
        if self.claims == 0 {
            self.quorum_since_ns = None;
            return None;
        }
        // At the start the first words count where nothing follows them for a time-out.
        let quiet_ns = now_ns.saturating_sub(self.delivered_ns.unwrap_or(now_ns));
        let last_word = !self.started && (at_end || quiet_ns >= self.rules.timeout_ns);
        let hurry = last_word || crowded && !self.started;
        let votes = |voter: &&Voter| voter.votes() && (voter.heard || !hurry);
        let voters = self.voters.iter().filter(votes).count();
        let enough = |quorum: &Quorum| 2 * quorum.members.len() > voters;
        let needed = if last_word { 1 } else { self.needed() };
        // Where nobody stands anywhere, and most do not agree, some are better than none.
        let nobody = !self.voters.iter().any(|voter| voter.standing);
        let settle = nobody && (self.started || self.active_ns >= self.rules.timeout_ns);
        let mut quorum = self.largest(needed, now_ns).filter(|quorum| enough(quorum) || settle);
        if quorum.is_none() && !self.started {
            // Nothing contradicts voters who all say the same, and something is better than
            // nothing.
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

    /// Follows a quorum: its claim's number `number` is that key. In a new epoch nobody else stands
    /// anywhere. Returns the claims that are settled with it, each with its voter.
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
            (0..self.voters.len()).for_each(|voter| self.leave(voter));
        }
        for &(voter, _, newest) in &quorum.members {
            let stand = key.saturating_add_signed(numbers.offset(number, newest));
            // Where it stood before says nothing of the jump that all have made.
            self.leave(voter);
            let latest = self.voters[voter].latest;
            let settled = self.stand_at(voter, stand, now_ns);
            // It may have moved on before anybody could follow.
            self.voters[voter].latest = latest.filter(|id| !settled.contains(id));
            claims.extend(settled.into_iter().map(|claim| (voter, claim)));
        }
        self.passed = None;
        claims
    }

    /// Nobody waits for a voter until it stands somewhere again.
    fn leave(&mut self, voter: usize) {
        let it = &mut self.voters[voter];
        (it.standing, it.usual, it.probation) = (false, false, None);
        self.progress.wait_for(voter, false);
    }

    /// How many consecutive fragments must agree.
    fn needed(&self) -> u32 {
        if self.voting == 1 { 3 } else { 2 }
    }

    fn forget_claims(&mut self) {
        if self.claims == 0 {
            return;
        }
        for voter in &mut self.voters {
            let before = voter.claims.len();
            voter.claims.retain(|claim| claim.expires_ns > self.active_ns);
            self.claims -= before - voter.claims.len();
        }
    }

    /// The most voters whose last fragments claim about the same numbers.
    fn largest(&self, needed: u32, now_ns: u64) -> Option<Quorum> {
        let Rules { numbers, spread, .. } = self.rules;
        let vote = |(index, voter): (usize, &Voter)| {
            // Before the start what came first counts: what came after it may begin anew.
            let latest = |claim: &&Claim| voter.latest == Some(claim.id) || !self.started;
            let mut claims = voter.claims.iter().filter(latest);
            let claim = claims.find(|claim| claim.streak >= needed)?;
            // Two senders at one port are in both places.
            let left = now_ns.saturating_sub(voter.stood_ns) >= self.rules.lasting_ns();
            let settled = match voter.repeats(claim.newest, &self.rules) {
                true => claim.lasting,
                false => !voter.standing || left,
            };
            (voter.votes() && settled).then_some((index, claim.id, claim.newest))
        };
        let mut votes: Vec<_> = self.voters.iter().enumerate().filter_map(vote).collect();
        votes.sort_by_key(|&(_, _, newest)| numbers.offset(0, newest));
        let near = |from: u64, to: u64| {
            let ahead = numbers.offset(from, to);
            ahead >= 0 && ahead.unsigned_abs() <= spread
        };
        // From each vote on, in the circle of the numbers, those within the spread.
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
        let mut members: Vec<_> = best.map(|place| votes[place % votes.len()]).collect();
        members.sort_unstable_by_key(|&(voter, ..)| voter);
        let mut stands: Vec<u64> =
            members.iter().filter_map(|&(voter, ..)| self.stand(voter)).collect();
        let middle = stands.len() / 2;
        let stood = stands.get(middle).is_some().then(|| *stands.select_nth_unstable(middle).1);
        Some(Quorum { anchor, members, stood })
    }
}

impl Probation {
    fn of(key: u64, rules: &Rules, active_ns: u64, now_ns: u64) -> Self {
        let end_at_last_ns = now_ns.saturating_add(rules.timeout_ns);
        Self { key, end_ns: active_ns + rules.period_ns(), end_at_last_ns, again: false }
    }

    fn is_over(&self, active_ns: u64, now_ns: u64) -> bool {
        self.end_ns <= active_ns || self.end_at_last_ns <= now_ns
    }
}

impl Voter {
    fn new(enabled: bool) -> Self {
        Self {
            stand: 0,
            before: 0,
            usual: false,
            standing: false,
            enabled,
            heard: false,
            silent: false,
            stood_ns: 0,
            stood_active_ns: 0,
            heard_ns: 0,
            probation: None,
            claims: Vec::with_capacity(CLAIMS_MAX),
            latest: None,
        }
    }

    /// Whether a number is among those that it may have delivered before where it stands.
    fn repeats(&self, number: u64, rules: &Rules) -> bool {
        let back = rules.numbers.offset(number, self.stand);
        self.standing && back >= 0 && back.unsigned_abs() <= 2 * rules.spread
    }

    fn votes(&self) -> bool {
        self.enabled && !self.silent
    }
}
