//! Receive threads that are held up: what they have not read yet is no silence of who sent it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::match_rule::RuledBuilder;
use catchment_model::SourceId;

/// A thread that has not looked at its endpoints for so long is held up, or for half of the time
/// that events wait, if that is less; but it may be idle for a while.
const LATE_NS: u64 = 250_000_000;
const IDLE_NS: u64 = 40_000_000;
/// For so long the sources of a thread that is held up are waited for, and for so long again until
/// it has read what came meanwhile.
const GONE_NS: u64 = 30_000_000_000;

/// When a receive thread looked at its endpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look(Arc<Looked>);

/// In nanoseconds; 0 before the first time.
#[derive(Debug, Default)]
struct Looked {
    last_ns: AtomicU64,
    /// The last look that took all there was.
    emptied_ns: AtomicU64,
}

impl Look {
    /// It looks at them now.
    #[inline]
    pub(crate) fn set(&self, now_ns: u64) {
        self.0.last_ns.store(now_ns, Relaxed);
    }

    /// The look at that time took all there was, and the build agent has its descriptors.
    #[inline]
    pub(crate) fn set_emptied(&self, now_ns: u64) {
        self.0.emptied_ns.store(now_ns, Release);
    }

    /// How long ago it last looked at them; 0 before the first time.
    fn passed_ns(&self, now_ns: u64) -> u64 {
        match self.0.last_ns.load(Relaxed) {
            0 => 0,
            looked_ns => now_ns.saturating_sub(looked_ns),
        }
    }

    fn has_emptied_since(&self, since_ns: u64) -> bool {
        self.0.emptied_ns.load(Acquire) >= since_ns
    }
}

/// The receive threads of a builder.
#[derive(Debug)]
pub(crate) struct Unread {
    late_ns: u64,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    look: Look,
    /// Its sources, by rising numbers.
    sources: Vec<SourceId>,
    /// When it was last found to be held up; none if the builder has all that came meanwhile, or
    /// nothing is waited for any longer.
    late_ns: Option<u64>,
    /// Whether it had passed all that on before this duty cycle took descriptors.
    has_passed_on: bool,
}

impl Unread {
    /// For events that wait so long.
    pub(crate) fn new(timeout_ns: u64) -> Self {
        Self { late_ns: LATE_NS.min(timeout_ns / 2).max(IDLE_NS), threads: Vec::new() }
    }

    /// Adds a thread that receives from these sources, by their numbers in the ledger.
    pub(crate) fn add(&mut self, sources: impl Iterator<Item = SourceId>) -> Look {
        let (look, mut sources) = (Look::default(), sources.collect::<Vec<_>>());
        sources.sort_unstable();
        let own = look.clone();
        self.threads.push(Thread { look: own, sources, late_ns: None, has_passed_on: false });
        look
    }

    /// Finds which threads are held up, before the duty cycle takes descriptors. `has_ended` says
    /// of a thread that it has ended.
    pub(crate) fn look(&mut self, now_ns: u64, has_ended: impl Fn(usize) -> bool) {
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let passed_ns = thread.look.passed_ns(now_ns);
            if passed_ns >= self.late_ns {
                thread.late_ns = Some(now_ns);
            }
            let since_ns = thread.late_ns.unwrap_or(now_ns);
            thread.has_passed_on = thread.look.has_emptied_since(since_ns);
            // One that cannot read all that comes would never have emptied its endpoints.
            let is_over = passed_ns >= GONE_NS || now_ns.saturating_sub(since_ns) >= GONE_NS;
            thread.late_ns = thread.late_ns.filter(|_| !is_over && !has_ended(number));
        }
    }

    /// Tells the builder, which has taken descriptors, which of its sources may have sent what has
    /// not been read: those of threads that are held up, or were and have not passed on all that
    /// came meanwhile. Lanes have the numbers of the builder's sources in the ledger.
    pub(crate) fn hold(
        &mut self,
        builder: &mut RuledBuilder,
        (now_ns, has_emptied_rings): (u64, bool),
        lanes: &[(u32, SourceId)],
    ) {
        for thread in &mut self.threads {
            let has_all = thread.has_passed_on && has_emptied_rings;
            thread.late_ns = thread.late_ns.filter(|_| !has_all);
            if thread.late_ns.is_none() {
                continue;
            }
            let sources = &thread.sources;
            let is_of_thread = |lane: &usize| sources.binary_search(&lanes[*lane].1).is_ok();
            let of_thread = (0..lanes.len()).filter(is_of_thread);
            of_thread.for_each(|source| builder.hold_unread(now_ns, source));
        }
    }

    /// Whether each thread has taken all that stood in its endpoints, by a look at that time or
    /// later, and passed it on. `has_ended` says of a thread that it has ended.
    pub(crate) fn is_emptied_since(
        &self,
        since_ns: u64,
        has_ended: impl Fn(usize) -> bool,
    ) -> bool {
        let mut threads = self.threads.iter().enumerate();
        threads.all(|(number, thread)| thread.look.has_emptied_since(since_ns) || has_ended(number))
    }

    /// Whether it was so of a source in the last duty cycle.
    pub(crate) fn has(&self, source: SourceId) -> bool {
        let mut late = self.threads.iter().filter(|thread| thread.late_ns.is_some());
        late.any(|thread| thread.sources.binary_search(&source).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use catchment_builder::{BuilderConfig, NumberConfig, SourceRole};

    use super::*;
    use crate::match_rule::{Rule, RuleConfig};

    const S: u64 = 1_000_000_000;

    /// A builder of two sources that different threads receive.
    struct Rig {
        unread: Unread,
        looks: [Look; 2],
        builder: RuledBuilder,
    }

    impl Rig {
        fn new() -> Self {
            let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
            let rule = RuleConfig::Number(NumberConfig::default());
            let builder = Rule::builder(&config, &rule).expect("settings that can be");
            let mut unread = Unread::new(S);
            let looks = [0, 1].map(|source| unread.add(std::iter::once(SourceId(source))));
            Self { unread, looks, builder }
        }

        /// Which sources are unread after a duty cycle, which empties rings and finds that all
        /// threads have ended, or not.
        fn cycle(&mut self, now_ns: u64, has_emptied_rings: bool, has_ended: bool) -> [bool; 2] {
            let lanes = [(0, SourceId(0)), (1, SourceId(1))];
            self.unread.look(now_ns, |_| has_ended);
            self.unread.hold(&mut self.builder, (now_ns, has_emptied_rings), &lanes);
            [0, 1].map(|source| self.unread.has(SourceId(source)))
        }
    }

    #[test]
    fn a_thread_is_held_up_from_its_first_look_on_and_not_for_ever() {
        let mut rig = Rig::new();
        assert_eq!(rig.cycle(10 * S, true, false), [false; 2], "it has not begun");
        rig.looks[0].set(11 * S);
        for (now_ns, is_late) in [
            (11 * S + LATE_NS - 1, false),
            (11 * S + LATE_NS, true),
            (41 * S - 1, true),
            (41 * S, false),
        ] {
            assert_eq!(rig.cycle(now_ns, true, false), [is_late, false], "{now_ns}");
        }
    }

    #[test]
    fn sources_are_unread_while_their_thread_is_held_up_and_has_not_ended() {
        let mut rig = Rig::new();
        rig.looks[0].set(S);
        rig.looks[1].set(2 * S);
        for (has_ended, expected) in [(false, [true, false]), (true, [false, false])] {
            assert_eq!(rig.cycle(2 * S, true, has_ended), expected);
        }
    }

    #[test]
    fn sources_are_unread_until_the_builder_has_all_that_came_while_their_thread_was_held_up() {
        let mut rig = Rig::new();
        rig.looks.iter().for_each(|look| look.set(S));
        rig.looks[1].set(2 * S);
        assert_eq!(rig.cycle(2 * S, true, false), [true, false]);
        // Its first look does not take all there is.
        rig.looks[0].set(2 * S + 1);
        assert_eq!(rig.cycle(2 * S + 2, true, false), [true, false]);
        // It had begun an earlier look before it was held up.
        rig.looks[0].set_emptied(S);
        assert_eq!(rig.cycle(2 * S + 3, true, false), [true, false]);
        rig.looks[0].set_emptied(2 * S + 4);
        assert_eq!(rig.cycle(2 * S + 5, false, false), [true, false]);
        assert_eq!(rig.cycle(2 * S + 6, true, false), [false; 2]);
    }

    #[test]
    fn a_thread_that_cannot_read_all_that_comes_is_not_waited_for_for_ever() {
        let mut rig = Rig::new();
        rig.looks[0].set(S);
        assert_eq!(rig.cycle(2 * S, true, false), [true, false]);
        for (now_ns, is_waited_for) in [(32 * S - 1, true), (32 * S, false), (33 * S, false)] {
            rig.looks[0].set(now_ns);
            assert_eq!(rig.cycle(now_ns, true, false), [is_waited_for, false], "{now_ns}");
        }
    }
}
