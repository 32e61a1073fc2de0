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
/// For so long the sources of a thread that is held up are waited for.
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

    fn is_late(&self, now_ns: u64, late_ns: u64) -> bool {
        let looked_ns = self.0.last_ns.load(Relaxed);
        let passed_ns = now_ns.saturating_sub(looked_ns);
        looked_ns > 0 && (late_ns..GONE_NS).contains(&passed_ns)
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
    /// Whether it was held up in the last duty cycle.
    is_late: bool,
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
        self.threads.push(Thread { look: look.clone(), sources, is_late: false });
        look
    }

    /// Tells the builder which of its sources may have sent what nobody has read. `has_ended` says
    /// it of a thread; lanes have the numbers of the builder's sources in the ledger.
    pub(crate) fn hold(
        &mut self,
        builder: &mut RuledBuilder,
        now_ns: u64,
        has_ended: impl Fn(usize) -> bool,
        lanes: &[(u32, SourceId)],
    ) {
        for (number, thread) in self.threads.iter_mut().enumerate() {
            thread.is_late = thread.look.is_late(now_ns, self.late_ns) && !has_ended(number);
            if !thread.is_late {
                continue;
            }
            let sources = &thread.sources;
            let is_of_thread = |lane: &usize| sources.binary_search(&lanes[*lane].1).is_ok();
            let of_thread = (0..lanes.len()).filter(is_of_thread);
            of_thread.for_each(|source| builder.hold(now_ns, source));
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

    /// Whether the thread that receives from a source was held up in the last duty cycle.
    pub(crate) fn has(&self, source: SourceId) -> bool {
        let mut late = self.threads.iter().filter(|thread| thread.is_late);
        late.any(|thread| thread.sources.binary_search(&source).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use catchment_builder::{BuilderConfig, SourceRole};

    use super::*;
    use crate::match_rule::Rule;

    #[test]
    fn a_thread_is_held_up_from_its_first_look_on_and_not_for_ever() {
        let look = Look::default();
        assert!(!look.is_late(10_000_000_000, LATE_NS), "it has not begun");
        look.set(1_000_000_000);
        for (now_ns, is_late) in [
            (0, false),
            (1_249_999_999, false),
            (1_250_000_000, true),
            (30_999_999_999, true),
            (31_000_000_000, false),
        ] {
            assert_eq!(look.is_late(now_ns, LATE_NS), is_late, "{now_ns}");
        }
    }

    #[test]
    fn sources_are_unread_while_their_thread_is_held_up_and_has_not_ended() {
        let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
        let mut builder = Rule::builder(&config, None).expect("settings that can be");
        let mut unread = Unread::new(1_000_000_000);
        let looks = [0, 1].map(|source| unread.add(std::iter::once(SourceId(source))));
        looks.iter().for_each(|look| look.set(1_000_000_000));
        looks[1].set(2_000_000_000);
        let lanes = [(0, SourceId(0)), (1, SourceId(1))];
        for (has_ended, expected) in [(false, [true, false]), (true, [false, false])] {
            unread.hold(&mut builder, 2_000_000_000, |_| has_ended, &lanes);
            assert_eq!([0, 1].map(|source| unread.has(SourceId(source))), expected);
        }
    }
}
