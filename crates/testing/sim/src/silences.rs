//! Networks of front-ends that are cut for less time than events wait (docs/spec/event-link.md,
//! section 6): what comes back was waited for.

use catchment_builder::SourceRole;
use catchment_fixtures::Random;
use catchment_model::Entry;

use crate::fault::Fault;
use crate::plan::{BEGIN_NS, MS, S};
use crate::recorder::Life;
use crate::sessions::FrontEnd;
use crate::world::Outcome;

/// Checks that nothing of a required front-end is late whose network was cut for less than events
/// wait, in a run of front-ends alone to which nothing else happens.
///
/// # Errors
/// A source of which something is late.
pub(crate) fn check(outcome: &Outcome, life: &Life) -> Result<(), String> {
    let plan = &outcome.plan;
    let can_wait = plan.sources.iter().all(|source| source.log.is_some());
    let is_alone = plan.case.faults.iter().all(|fault| BESIDE.contains(&fault));
    if !(can_wait && is_alone) || life.deaths > 0 || life.has_faulted() {
        return Ok(());
    }
    for (source, of_source) in plan.sources.iter().enumerate() {
        let Some(log) = of_source.log else { continue };
        let front_end = &outcome.front_ends[log.sender];
        // One that is idle has to say in time that it goes on, and what waits for room comes later.
        let is_judged = of_source.role == SourceRole::Required
            && of_source.part.idle.is_empty()
            && !front_end.was_full
            && are_short(front_end, life);
        let late = life.last.ledger.sources[source][Entry::FragmentsLate];
        if is_judged && late > 0 {
            let silences = &front_end.silences;
            return Err(format!("source {source}: {late} fragments are late after {silences:?}"));
        }
    }
    Ok(())
}

/// Whether a seed is one of those whose runs have front-ends alone, and networks that are cut once,
/// for a short time, while little else happens. Such a run would be one of some thousand otherwise.
pub(crate) fn is_of_cuts(seed: u64) -> bool {
    seed % 32 == 17
}

/// When a network is cut, and until when.
pub(crate) fn short(chance: &mut Random) -> (u64, u64) {
    let begin_ns = BEGIN_NS + 1_500 * MS + chance.below(3 * S);
    (begin_ns, begin_ns + 200 * MS + chance.below(SHORT_NS - 200 * MS))
}

/// Whether a front-end's network was only cut for less than events wait: once it was let in, and
/// so that it can send again what it holds.
pub(crate) fn are_short(front_end: &FrontEnd, life: &Life) -> bool {
    let from_ns = life.began_ns + LET_IN_NS;
    let until_ns = life.stopped_ns.map_or(0, |stopped_ns| stopped_ns.saturating_sub(2 * S));
    let mut ended_ns = 0;
    front_end.silences.iter().all(|&(begin_ns, end_ns)| {
        let is_apart = begin_ns >= ended_ns + 2 * S;
        ended_ns = end_ns;
        is_apart && begin_ns >= from_ns && end_ns <= until_ns && end_ns - begin_ns <= SHORT_NS
    })
}

/// A front-end is back a second after its network is at the latest, and is waited for 5 s.
const SHORT_NS: u64 = 3_500 * MS;
const LET_IN_NS: u64 = 500 * MS;
/// What delays no front-end for long.
pub(crate) const BESIDE: [Fault; 8] = [
    Fault::HalfOpen,
    Fault::SingleBytes,
    Fault::Loss,
    Fault::Duplicate,
    Fault::Reorder,
    Fault::Corrupt,
    Fault::SmallBuffer,
    Fault::Clock,
];
