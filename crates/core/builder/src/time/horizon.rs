//! Whose clock stands, whom events wait for, and what the quorum of the clocks says.
//!
//! A clock *stands* where steps fit the time that passed. What it says then is a time; a value that
//! does not follow is a *claim*: it is held until the next two follow it, so that one wrong stamp
//! moves nobody. A clock's *lead* is its time less that of this machine when its newest fragment
//! came. The quorum's lead is the median of those that stand; a clock within `skew` of it is *in
//! step*. One that is not for a time-out, though it delivers, is not waited for: its values are
//! claims from then on, and come to nothing until it is back.
//!
//! | claim, settled by three values | |
//! |---|---|
//! | near the quorum's lead | the source moves alone |
//! | more than half of the senders claim times near each other | a new epoch: all follow |
//! | neither, for two time-outs | out of step: its fragments are out of range |
//!
//! The run starts as soon as all clocks are settled and most of them agree (front-ends that are
//! idle need not be; if all are, one value of each is enough); after a time-out, where most of
//! those agree that advance; after two, with the largest set that agrees, be it of one.
//!
//! Front-ends ([`Promises`]) say what the quorum is while no port delivers. Their first times in a
//! session are taken as they are, and no step of theirs is a claim: they may be sending again what
//! they hold.
//!
//! Bounds: one claim of each source; memory for `held_max` fragments of each.

use std::collections::VecDeque;

use super::clock::{Scale, TIME_END};
use super::cluster::{Claiming, Cluster, closest, is_closer};
use super::promises::Promises;
use super::settings::TimeConfig;
use super::voter::{Claim, Position, STUCK_REPEATS, Voter};
use crate::{BuilderConfig, Fragment};

/// What a fragment's time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Beyond its source's newest one.
    Next(i64),
    /// Behind that, or again that.
    Behind(i64),
    /// Not known yet: it is held.
    Held,
    /// Never to be known: there is no room to hold it.
    NoRoom,
}

/// A fragment whose time is not known yet.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub fragment: Fragment,
    pub arrived_ns: u64,
    /// How many of its source's were pushed before it, if positions are asked for.
    pub ordinal: u64,
    /// The groups that it names.
    pub groups: u64,
}

/// A fragment whose time will not be known.
#[derive(Clone, Copy, Debug)]
pub struct GivenUp {
    pub index: usize,
    pub held: Held,
    /// What its source's clock said, right or wrong.
    pub claimed_ns: Option<i64>,
}

/// Where the times of a run begin anew.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    pub from_ns: i64,
    pub to_ns: i64,
    /// What is added to all times.
    pub shift_ns: i64,
}

/// The clocks of all sources.
#[derive(Debug)]
pub struct Horizon {
    pub promises: Promises,
    /// Times begin behind that one, if the run of another builder goes on.
    begins_ns: Option<i64>,
    pub voters: Vec<Voter>,
    /// By source: what it has passed; the end of time where it is not awaited.
    pub lows: Vec<i64>,
    /// By source: whether its fragments never come behind later ones.
    in_order: Vec<bool>,
    /// The quorum's lead, once there was one.
    pub lead_ns: Option<i64>,
    pub timeout_ns: u64,
    pub skew_ns: i64,
    pub jump_ns: i64,
    held_max: usize,
    /// Time in which anyone delivers: pauses of all count as an eighth of a time-out.
    pub active_ns: u64,
    delivered_ns: Option<u64>,
    /// When anyone was first heard, in active time.
    pub first_ns: Option<u64>,
    /// When a port's thread was last held up, in active time.
    pub unread_ns: Option<u64>,
    look_due_ns: u64,
    held: usize,
    /// Held fragments that are given up, until they are fetched.
    given_up: Vec<GivenUp>,
}

impl Horizon {
    pub fn new(config: &BuilderConfig, time: &TimeConfig) -> Self {
        let promises = Promises::new(config);
        let voter = |(index, role): (usize, &crate::SourceRole)| {
            let clock = &time.clocks[index];
            Voter {
                scale: Scale::new(clock),
                reorder_ns: clock.reorder_ns.cast_signed(),
                enabled: role.is_enabled(),
                sparse: TimeConfig::is_sparse(config, index),
                position: None,
                taken_ns: 0,
                heard_ns: None,
                advanced_ns: 0,
                fresh: false,
                strays: false,
                in_step_ns: 0,
                out_of_step: false,
                repeats: 0,
                repeats_max: STUCK_REPEATS.max(time.fragments_max),
                claim: None,
                held: VecDeque::new(),
                promises: promises.has(index),
                ahead_ns: 0,
                held_ns: None,
                unread_ns: None,
                unread_from_ns: 0,
            }
        };
        Self {
            voters: config.sources.iter().enumerate().map(voter).collect(),
            lows: vec![i64::MAX; config.sources.len()],
            in_order: time.clocks.iter().map(|clock| clock.reorder_ns == 0).collect(),
            lead_ns: None,
            timeout_ns: config.timeout_ns,
            skew_ns: time.skew_ns.cast_signed(),
            jump_ns: time.jump_ns.cast_signed(),
            held_max: config.parked_max,
            active_ns: 0,
            delivered_ns: None,
            first_ns: None,
            unread_ns: None,
            look_due_ns: 0,
            held: 0,
            given_up: Vec::new(),
            begins_ns: None,
            promises,
        }
    }

    /// The run of another builder goes on behind that time, which had fragments of these sources.
    pub fn continue_at(&mut self, ns: i64, had: impl Iterator<Item = usize>) {
        self.begins_ns = Some(ns);
        had.for_each(|index| self.promises.continue_at(index));
    }

    /// Counts active time up to a delivery.
    pub fn count_delivery(&mut self, now_ns: u64) {
        self.count_time(now_ns);
        self.first_ns.get_or_insert(self.active_ns);
    }

    /// Counts active time up to now, where someone delivers or would if it was read.
    pub fn count_time(&mut self, now_ns: u64) {
        let pause_ns = now_ns - self.delivered_ns.unwrap_or(now_ns);
        self.active_ns += pause_ns.min(self.timeout_ns / PERIODS);
        self.delivered_ns = Some(now_ns);
        if self.promises.is_any() {
            self.promises.count_time(now_ns);
        }
    }

    /// Lets an eighth of a time-out pass at most since the time `before_ns`.
    pub fn resume(&mut self, before_ns: u64, now_ns: u64) {
        let beyond_ns = (now_ns - before_ns).saturating_sub(self.timeout_ns / PERIODS);
        if let Some(delivered_ns) = &mut self.delivered_ns {
            *delivered_ns = (*delivered_ns + beyond_ns).min(now_ns);
        }
        self.promises.skip(beyond_ns, now_ns);
    }

    /// Whether nobody has delivered anything for two time-outs.
    pub fn is_quiet(&self, now_ns: u64) -> bool {
        self.delivered_ns.is_some_and(|at_ns| now_ns - at_ns >= 2 * self.timeout_ns)
    }

    /// Takes the next fragments of a source, up to the first that does not follow the one before
    /// it or that `put` refuses by its time. Returns how many.
    #[inline]
    pub fn take_run(
        &mut self,
        index: usize,
        run: &[Fragment],
        now_ns: u64,
        mut put: impl FnMut(i64, &Fragment) -> bool,
    ) -> usize {
        let jump_ns = self.jump_of(index, now_ns);
        let voter = &mut self.voters[index];
        let Some(Position { mut stamp, mut at_ns }) = voter.position else { return 0 };
        let mut done = 0;
        for fragment in run {
            let elapsed_ns = now_ns - at_ns;
            let Some(next) = voter.scale.after(&stamp, fragment.number, elapsed_ns) else { break };
            let step_ns = next.ns - stamp.ns;
            let is_near =
                |step_ns: i64| step_ns - jump_ns <= elapsed_ns.min(TIME_MAX).cast_signed();
            if step_ns <= 0 || !is_near(step_ns) || !put(next.ns, fragment) {
                break;
            }
            (stamp, at_ns) = (next, now_ns);
            done += 1;
        }
        if done > 0 {
            voter.heard_ns = Some(self.active_ns);
            (voter.taken_ns, voter.advanced_ns) = (self.active_ns, self.active_ns);
            (voter.fresh, voter.repeats) = (true, 0);
            voter.position = Some(Position { stamp, at_ns });
            self.lows[index] = stamp.ns - voter.reorder_ns;
            self.date_unread(index);
        }
        done
    }

    /// The time of a source's next fragment.
    pub fn take(&mut self, index: usize, held: &Held) -> Said {
        let &Held { ref fragment, arrived_ns: now_ns, .. } = held;
        let jump_ns = self.jump_of(index, now_ns);
        let voter = &mut self.voters[index];
        voter.heard_ns = Some(self.active_ns);
        let Some(position) = voter.position else { return self.hold(index, held) };
        let elapsed_ns = now_ns - position.at_ns;
        let stamp = voter.scale.after(&position.stamp, fragment.number, elapsed_ns);
        let Some(stamp) = stamp else { return self.hold(index, held) };
        let step_ns = stamp.ns - position.stamp.ns;
        if step_ns > 0 {
            if step_ns - jump_ns > elapsed_ns.min(TIME_MAX).cast_signed() {
                return self.hold(index, held);
            }
            (voter.taken_ns, voter.advanced_ns) = (self.active_ns, self.active_ns);
            (voter.fresh, voter.repeats) = (true, 0);
            voter.position = Some(Position { stamp, at_ns: now_ns });
            self.lows[index] = stamp.ns - voter.reorder_ns;
            self.date_unread(index);
            return Said::Next(stamp.ns);
        }
        if -step_ns > self.skew_ns.max(voter.reorder_ns) {
            return self.hold(index, held);
        }
        if step_ns == 0 {
            voter.repeats += 1;
            if voter.repeats >= voter.repeats_max {
                self.lows[index] = i64::MAX;
            }
        }
        Said::Behind(stamp.ns)
    }

    /// A fragment behind its source's newest one is taken: it delivers.
    pub fn mark_alive(&mut self, index: usize) {
        self.voters[index].taken_ns = self.active_ns;
    }

    #[cold]
    fn hold(&mut self, index: usize, held: &Held) -> Said {
        let &Held { ref fragment, arrived_ns: now_ns, .. } = held;
        let jump_ns = match self.promises.is_trusted(index) {
            true => TIME_END,
            false => self.jump_ns + self.unread_for_ns(index, now_ns),
        };
        let voter = &mut self.voters[index];
        // As of a clock that stands: what is behind may be a packet that came twice.
        let least_ns = -self.skew_ns.max(voter.reorder_ns);
        let follows = |claim: &Claim| {
            let elapsed_ns = now_ns - claim.newest.at_ns;
            let stamp = voter.scale.after(&claim.newest.stamp, fragment.number, elapsed_ns)?;
            let step_ns = stamp.ns - claim.newest.stamp.ns;
            let most_ns = jump_ns.saturating_add(elapsed_ns.min(TIME_MAX).cast_signed());
            (least_ns..=most_ns).contains(&step_ns).then_some((stamp, step_ns))
        };
        match voter.claim.as_ref().and_then(follows) {
            Some((stamp, step_ns)) => {
                let Some(claim) = &mut voter.claim else { return Said::NoRoom };
                claim.values = claim.values.saturating_add(u32::from(step_ns > 0));
                claim.lowest_ns = claim.lowest_ns.min(stamp.ns);
                if step_ns > 0 {
                    claim.newest = Position { stamp, at_ns: now_ns };
                    claim.advanced_ns = self.active_ns;
                }
            }
            None => {
                self.give_up(index);
                let voter = &mut self.voters[index];
                let Some(stamp) = voter.scale.first(fragment.number) else { return Said::NoRoom };
                voter.claim = Some(Claim {
                    newest: Position { stamp, at_ns: now_ns },
                    lowest_ns: stamp.ns,
                    values: 1,
                    since_ns: self.active_ns,
                    advanced_ns: self.active_ns,
                });
            }
        }
        let voter = &mut self.voters[index];
        if voter.held.len() >= self.held_max {
            return Said::NoRoom;
        }
        voter.held.push_back(*held);
        self.held += 1;
        Said::Held
    }

    /// Gives up a claim and what is held of it.
    fn give_up(&mut self, index: usize) {
        let claimed = self.claimed(index);
        let voter = &mut self.voters[index];
        voter.claim = None;
        self.held -= voter.held.len();
        let scale = voter.scale;
        let given_up = |held: Held| {
            let near = |it: Position| scale.after(&it.stamp, held.fragment.number, 0);
            GivenUp { index, held, claimed_ns: claimed.and_then(near).map(|stamp| stamp.ns) }
        };
        self.given_up.extend(voter.held.drain(..).map(given_up));
    }

    /// Fragments whose time will not be known.
    pub fn take_given_up(&mut self) -> Vec<GivenUp> {
        std::mem::take(&mut self.given_up)
    }

    /// The newest time that a source claims, in the cycle in which it is nearest to the quorum's.
    fn claimed(&self, index: usize) -> Option<Position> {
        let (voter, newest) = (&self.voters[index], self.voters[index].claim?.newest);
        let near = self.lead_ns.and_then(|lead_ns| voter.aligned(&newest, lead_ns));
        Some(near.unwrap_or(newest))
    }

    /// What a source's clock says in a fragment for which there is no room.
    #[cold]
    pub fn claimed_ns(&self, index: usize, fragment: &Fragment) -> Option<i64> {
        let Position { stamp, .. } = self.claimed(index)?;
        Some(self.voters[index].scale.after(&stamp, fragment.number, 0)?.ns)
    }

    /// Looks at who is silent and who is in step, now and then.
    pub fn look(&mut self, now_ns: u64) {
        if now_ns < self.look_due_ns {
            return;
        }
        self.look_due_ns = now_ns.saturating_add(self.timeout_ns / LOOKS);
        self.delay_start();
        if let Some(lead_ns) = self.median() {
            self.lead_ns = Some(lead_ns);
        }
        for index in 0..self.voters.len() {
            if self.promises.has(index) {
                self.judge(index);
            }
            self.look_at(index, now_ns);
        }
    }

    fn look_at(&mut self, index: usize, now_ns: u64) {
        let (active_ns, timeout_ns, skew_ns) = (self.active_ns, self.timeout_ns, self.skew_ns);
        let voter = &mut self.voters[index];
        // What its clock said last: a claim, unless it has delivered at its position since.
        let mut said = voter.position.filter(|_| voter.fresh);
        if let Some(Claim { newest, .. }) = voter.claim
            && said.is_none_or(|position| newest.at_ns > position.at_ns)
        {
            said = Some(newest);
        }
        if let (Some(position), Some(lead_ns)) = (voter.position, self.lead_ns) {
            let is_fresh = std::mem::take(&mut voter.fresh);
            if is_fresh {
                voter.strays = position.lead_ns().abs_diff(lead_ns) > skew_ns.cast_unsigned();
            }
            if is_fresh && !voter.strays {
                (voter.in_step_ns, voter.out_of_step) = (active_ns, false);
            }
            // One whose clock goes elsewhere from there has not come back, and has no second
            // time-out.
            let strays = voter.strays && (is_fresh || voter.claim.is_some());
            if strays && active_ns - voter.in_step_ns >= timeout_ns {
                (voter.position, voter.out_of_step) = (None, true);
            }
        }
        // Before the start a settled claim is what the run may start with.
        let is_started = self.lead_ns.is_some();
        let is_over = |claim: &Claim| {
            active_ns - claim.since_ns >= HOLD_TIMEOUTS * timeout_ns
                && (is_started || claim.values < SETTLED_VALUES)
        };
        let is_given_up = voter.claim.as_ref().is_some_and(is_over);
        if let (Some(said), Some(lead_ns)) = (said, self.lead_ns) {
            let aligned = voter.aligned(&said, lead_ns).unwrap_or(said);
            voter.ahead_ns = aligned.lead_ns().saturating_sub(lead_ns);
        }
        // It delivered values for long, and none that follow.
        voter.out_of_step |= is_given_up && voter.is_silent(active_ns, timeout_ns);
        self.lows[index] = if voter.promises {
            self.promised_ns(index, now_ns)
        } else if self.may_begin(&self.voters[index]) {
            i64::MIN
        } else if self.voters[index].is_awaited(active_ns, timeout_ns) && !self.rests(now_ns) {
            self.passed_ns(index, now_ns).unwrap_or(i64::MAX)
        } else {
            i64::MAX
        };
        if is_given_up {
            self.give_up(index);
        }
    }

    /// The median of the leads of those that stand: of ports, or of front-ends where there is none.
    /// While all ports wait outside it is what it was: what they bring is old. Of an even number of
    /// ports the one of the two in the middle counts that is nearer to what the quorum's lead was:
    /// a clock that is set back takes no other one with it.
    fn median(&self) -> Option<i64> {
        let stands =
            |voter: &&Voter| voter.votes() && !voter.is_silent(self.active_ns, self.timeout_ns);
        let leads_of = |promises: bool| {
            let standing = self.voters.iter().filter(stands);
            let kind = standing.filter(move |voter| voter.promises == promises);
            let read = kind.filter(|voter| voter.promises || !self.is_held(voter));
            read.filter_map(|voter| Some(voter.position?.lead_ns())).collect()
        };
        let mut leads: Vec<i64> = leads_of(false);
        let is_of_ports = self.voters.iter().filter(stands).any(|voter| !voter.promises);
        if !is_of_ports {
            leads = leads_of(true);
        }
        leads.sort_unstable();
        let (lower, upper) = (*leads.get(leads.len().checked_sub(1)? / 2)?, leads[leads.len() / 2]);
        let is_nearer = |before: i64| before.abs_diff(upper) < before.abs_diff(lower);
        Some(if is_of_ports && self.lead_ns.is_some_and(is_nearer) { upper } else { lower })
    }

    /// Whether anything is held, or is given up and not fetched.
    pub fn holds_some(&self) -> bool {
        self.held_count() > 0
    }

    pub fn held_count(&self) -> usize {
        self.held + self.given_up.len()
    }

    /// The ordinal of a source's first fragment that is held, or given up and not fetched.
    pub fn first_held(&self, index: usize) -> Option<u64> {
        let given_up = self.given_up.iter().filter(|one| one.index == index);
        let given_up = given_up.map(|one| one.held.ordinal);
        given_up.chain(self.voters[index].held.iter().map(|held| held.ordinal)).min()
    }

    pub fn held_of(&self, index: usize) -> usize {
        self.voters[index].held.len()
    }

    pub fn is_started(&self) -> bool {
        self.lead_ns.is_some()
    }

    /// The quorum's time, where this machine's is `now_ns`.
    pub fn time_at(&self, now_ns: u64) -> Option<i64> {
        self.lead_ns.map(|lead_ns| lead_ns.saturating_add_unsigned(now_ns))
    }

    /// Places the sources whose claims are near the quorum. Returns them. At the end of the run,
    /// and when nobody delivers, one value is enough.
    pub fn join(&mut self, at_end: bool) -> Vec<usize> {
        let mut placed = Vec::new();
        if self.lead_ns.is_none() && !self.start(at_end) {
            return placed;
        }
        let Some(lead_ns) = self.lead_ns else { return placed };
        for index in 0..self.voters.len() {
            let voter = &self.voters[index];
            let is_due = |claim: &Claim| {
                voter.position.is_none() || claim.values >= SETTLED_VALUES || at_end
            };
            let Some(claim) = voter.claim.filter(is_due) else { continue };
            let Some(aligned) = voter.aligned(&claim.newest, lead_ns) else { continue };
            let ahead_ns = aligned.lead_ns().saturating_sub(lead_ns);
            let behind_ns = self.skew_ns + self.unread_for_ns(index, aligned.at_ns);
            let is_near = (-behind_ns..=self.skew_ns).contains(&ahead_ns);
            let voter = &mut self.voters[index];
            if is_near || self.promises.is_trusted(index) {
                voter.place(aligned, self.active_ns);
                self.promises.stand(index);
                // One that has stuck since is not waited for once more.
                voter.advanced_ns = claim.advanced_ns;
                voter.taken_ns = voter.heard_ns.unwrap_or(self.active_ns);
                self.lows[index] = aligned.stamp.ns - voter.reorder_ns;
                self.date_unread(index);
                placed.push(index);
            }
        }
        placed
    }

    /// The held fragments of a source that was placed, with their times.
    pub fn take_held(&mut self, index: usize) -> Vec<(Held, Option<i64>)> {
        let voter = &mut self.voters[index];
        self.held -= voter.held.len();
        let (scale, position) = (voter.scale, voter.position);
        let time = |held: Held| {
            let near = |it: Position| scale.after(&it.stamp, held.fragment.number, 0);
            (held, position.and_then(near).map(|stamp| stamp.ns))
        };
        voter.held.drain(..).map(time).collect()
    }

    /// Has the clocks stand where most of those that advance are; true if they do now. Without a
    /// majority after two time-outs, or at the end, where the most are that agree.
    fn start(&mut self, at_end: bool) -> bool {
        if self.is_start_unread() && !at_end {
            return false;
        }
        let mut least = if at_end { 1 } else { SETTLED_VALUES };
        let is_settled = |voter: &Voter| voter.claim.is_some_and(|claim| claim.values >= least);
        let those = || self.voters.iter().enumerate().filter(|(_, voter)| voter.votes());
        let all = those().all(|(index, one)| is_settled(one) || self.promises.is_absent(index));
        // By their own word none of them will say more for now.
        if all && !those().any(|(_, voter)| is_settled(voter)) {
            least = 1;
        }
        // Front-ends decide where no port delivers.
        let has_ports =
            self.voters.iter().any(|one| one.votes() && !one.promises && one.claim.is_some());
        let voters = || {
            let votes = |voter: &&Voter| voter.votes() && !(has_ports && voter.promises);
            self.voters.iter().filter(votes)
        };
        let waited_ns = self.first_ns.map_or(0, |first_ns| self.active_ns - first_ns);
        if !(all || waited_ns >= self.timeout_ns || at_end) {
            return false;
        }
        // One that died, or whose clock is stuck, has no part in the majority.
        let advances = |claim: Claim| self.active_ns - claim.advanced_ns < self.timeout_ns;
        let claims = voters().filter(|voter| voter.claim.is_some_and(advances)).count();
        let is_over = at_end || waited_ns >= HOLD_TIMEOUTS * self.timeout_ns;
        let needed = if is_over { 1 } else { claims / 2 + 1 };
        // What was promised counts from now on.
        self.look_due_ns = 0;
        let ports_alone = has_ports && self.promises.is_any();
        let cluster = self.cluster(least, needed, (None, ports_alone));
        let Some(cluster) = cluster else { return false };
        let is_behind = |ns: &i64| cluster.lowest_ns.saturating_add(self.jump_ns) < *ns;
        match self.begins_ns.take().filter(is_behind) {
            // Keys rise over the whole run.
            Some(begins_ns) => drop(self.follow(&cluster, begins_ns, 0)),
            None => self.lead_ns = Some(cluster.lead_ns),
        }
        true
    }

    /// Whether more than half of the senders that deliver claim times near each other, and far from
    /// the quorum's. What was not read when it came says nothing of that.
    pub fn claims_epoch(&self) -> Option<Cluster> {
        let lead_ns = self.lead_ns?;
        let alive = |voter: &&Voter| {
            let heard = |at_ns| self.active_ns - at_ns < self.timeout_ns;
            voter.votes() && voter.heard_ns.is_some_and(heard)
        };
        let alive = self.voters.iter().filter(alive).count();
        self.cluster(SETTLED_VALUES, alive / 2 + 1, (Some(lead_ns), false))
    }

    /// The largest set of claims of at least `least` values whose leads are within `skew`, if it
    /// has `needed` members, and of several the closest one; of those that are not near the lead
    /// `beside`, or of ports alone.
    ///
    /// The clock with the longest cycle says in which cycle the others are. It may be wrong, and
    /// short cycles be near it all the same: so those that are not near it are asked, too.
    fn cluster(
        &self,
        least: u32,
        needed: usize,
        (beside, ports_alone): (Option<i64>, bool),
    ) -> Option<Cluster> {
        let in_time = beside.is_some();
        let claims = || {
            let settled = |claim: &Claim| claim.values >= least;
            let votes = move |voter: &Voter| voter.votes() && !(in_time && self.is_unread(voter));
            let voters = self.voters.iter().enumerate().filter(move |(_, voter)| votes(voter));
            voters.filter_map(move |(index, voter)| {
                Some((index, voter, voter.claim.filter(settled)?))
            })
        };
        let far = |aligned: &Position| {
            beside
                .is_none_or(|lead| aligned.lead_ns().abs_diff(lead) > self.skew_ns.cast_unsigned())
        };
        let aligned_to = |reference_ns: i64| {
            let claiming = claims().filter(|(_, voter, _)| !(ports_alone && voter.promises));
            claiming.filter_map(move |(index, voter, claim)| {
                let aligned = voter.aligned(&claim.newest, reference_ns).filter(far)?;
                let before_ns = claim.newest.stamp.ns - claim.lowest_ns;
                let (lead_ns, lowest_ns) = (aligned.lead_ns(), aligned.stamp.ns - before_ns);
                Some(Claiming { lead_ns, lowest_ns, index })
            })
        };
        let longest = |(_, voter, _): &(usize, &Voter, Claim)| voter.scale.cycle_ns();
        // Each poll comes here while anything is held: without a claim it costs nothing.
        claims().next()?;
        let mut asked = vec![false; self.voters.len()];
        let (mut best, skew_ns) = (Vec::new(), self.skew_ns.cast_unsigned());
        for _ in 0..REFERENCES_MAX {
            let others = claims().rev().filter(|(index, ..)| !asked[*index]);
            let Some((index, _, reference)) = others.max_by_key(longest) else { break };
            let lead_ns = reference.newest.lead_ns();
            let mut all: Vec<Claiming> = aligned_to(lead_ns).collect();
            // What is near it would say the same. Those that agree far from it may not: others
            // whose cycles are short are not near them yet.
            asked[index] = true;
            let near = all.iter().filter(|one| one.lead_ns.abs_diff(lead_ns) <= skew_ns);
            near.for_each(|one| asked[one.index] = true);
            let set = closest(&mut all, skew_ns);
            if is_closer(set, &best) {
                best = set.to_vec();
            }
        }
        if best.len() < needed.max(1) {
            return None;
        }
        Some(Cluster {
            lead_ns: best[(best.len() - 1) / 2].lead_ns,
            lowest_ns: best.iter().map(|member| member.lowest_ns).min()?,
            members: best.iter().map(|member| member.index).collect(),
        })
    }

    /// Follows a cluster of claims: all clocks begin again there, behind `after_ns`.
    pub fn follow(&mut self, cluster: &Cluster, after_ns: i64, now_ns: u64) -> Epoch {
        let from_ns = self.time_at(now_ns).unwrap_or(0);
        let shift_ns = after_ns.saturating_sub(cluster.lowest_ns).max(0);
        for voter in &mut self.voters {
            voter.position = None;
            voter.scale.shift(shift_ns);
            if let Some(claim) = &mut voter.claim {
                claim.newest.stamp = claim.newest.stamp.shifted(shift_ns);
                claim.lowest_ns = claim.lowest_ns.saturating_add(shift_ns);
            }
        }
        for index in 0..self.lows.len() {
            let may_begin = self.may_begin(&self.voters[index]);
            self.lows[index] = if may_begin { i64::MIN } else { i64::MAX };
        }
        let lead_ns = cluster.lead_ns.saturating_add(shift_ns);
        self.lead_ns = Some(lead_ns);
        Epoch { from_ns, to_ns: lead_ns.saturating_add_unsigned(now_ns), shift_ns }
    }

    /// Gives up all that is held.
    pub fn give_up_all(&mut self) {
        (0..self.voters.len()).for_each(|index| self.give_up(index));
    }

    /// By source: what it has passed, whether it is awaited or not.
    pub fn passed_ns(&self, index: usize, now_ns: u64) -> Option<i64> {
        let voter = &self.voters[index];
        let own_ns = voter.position.map(|it| it.stamp.ns - voter.reorder_ns);
        if !voter.promises {
            return own_ns;
        }
        // Before there is a quorum nothing is believed.
        let marked_ns = self.marked_ns(index).filter(|_| self.is_started());
        own_ns.max(marked_ns.map(|ns| ns.min(self.bound_ns(now_ns))))
    }

    /// Whether its fragments never come behind later ones.
    pub fn is_in_order(&self, index: usize) -> bool {
        self.in_order[index]
    }
}

/// Values that agree before a claim is believed.
const SETTLED_VALUES: u32 = 3;
/// Clocks that are asked in which cycle the others are: each is far from those before.
const REFERENCES_MAX: usize = 4;
/// How long a claim waits.
const HOLD_TIMEOUTS: u64 = 2;
/// How much of a time-out a pause of all counts for, and how often clocks are looked at in one.
pub const PERIODS: u64 = 8;
const LOOKS: u64 = 64;
pub const TIME_MAX: u64 = 1 << 62;
