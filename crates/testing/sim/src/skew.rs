//! Front-ends whose sources share connections (docs/spec/event-link.md, section 5): events go on
//! without a source only if its front-end is out of order by more than it was granted.

use catchment_model::Entry;

use crate::fault::Fault;
use crate::recorder::Life;
use crate::sessions::SenderPlan;
use crate::world::Outcome;

/// Checks what was counted as out of order in a run.
///
/// # Errors
/// A source that kept the order, or of which more was counted than is missing.
pub(crate) fn check(outcome: &Outcome, life: &Life) -> Result<(), String> {
    let plan = &outcome.plan;
    // A source that begins new numbers alone, or before others, is in no order with them.
    let faults = plan.case.faults;
    // Rows without one that was held for a time-out count, too, whatever it was held for.
    // A slow disk and little memory hold sources that are in order, and so do others that fill
    // memory while nothing passes for seconds.
    let others =
        [Fault::Renumber, Fault::Misnumber, Fault::SmallMemory, Fault::Starve, Fault::HalfOpen];
    let has_order = !others.iter().any(|&fault| faults.has(fault)) && !faults.slow_disk();
    for (source, counts) in life.last.links.iter().enumerate().take(plan.sources.len()) {
        let skewed = counts.fragments_skew;
        let Some(log) = plan.sources[source].log.filter(|_| skewed > 0) else { continue };
        if keeps_order(&plan.senders[log.sender]) && has_order {
            return Err(format!(
                "source {source}: {skewed} rows went on without it, and its front-end kept the \
                 order"
            ));
        }
        let ledger = &life.last.ledger.sources[source];
        let missing = ledger[Entry::FragmentsMissing] + ledger[Entry::FragmentsMissingUnrecorded];
        // What is missing is counted when a frame is recorded, later than its rows are.
        if skewed > missing && life.deaths == 0 && !life.has_crashed {
            return Err(format!("source {source}: {skewed} rows by its order, {missing} in all"));
        }
    }
    Ok(())
}

/// Whether it sends what shares a connection in order, but for what it was granted.
fn keeps_order(sender: &SenderPlan) -> bool {
    !sender.is_naive || sender.skew.is_kept
}
