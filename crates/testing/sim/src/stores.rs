//! Storage nodes: a recorder whose target is a storage node, or several that share its frames, with
//! nodes that crash, hang, fill up, and lose what they answered.
//!
//! The recorder is the one of the other worlds, and its target sends over connections that are
//! simulated; the agents of each node are the production ones, on disks in memory. What a node does
//! with folders when it is started (it ends the files of an earlier one) it does on a real disk, to
//! which its files are copied for that.
//!
//! | part | what it is |
//! |---|---|
//! | `plan` | sources, targets, nodes, and what befalls them, as a seed has it |
//! | `network` | connections to nodes, and what the recorder was told over them |
//! | `node` | a node: its agents, its disk, its lives |
//! | `world` | the run: clock, deliveries, faults, agents |
//! | `death` | a recorder that dies, and the next one, which asks the node |
//! | `oracle` | the rules that every run must obey |

mod death;
mod network;
mod node;
mod oracle;
mod plan;
mod world;

use std::ops::Range;

use catchment_fixtures::Random;
use catchment_model::Entry;

use crate::case::Case;
use crate::fault::{Fault, Faults};
use crate::{Fragments, Report, caught};

pub(crate) use self::plan::StoresPlan;

/// What happens to storage nodes: to connections, to nodes, and to their disks; little memory; and
/// recorders that are killed.
pub const FAULTS: [Fault; 19] = [
    Fault::Cut,
    Fault::HalfOpen,
    Fault::Stall,
    Fault::SingleBytes,
    Fault::LateAnswers,
    Fault::LostAnswers,
    Fault::NodeCrash,
    Fault::NodeHang,
    Fault::NodeRestart,
    Fault::Slow,
    Fault::Hang,
    Fault::WriteError,
    Fault::SyncError,
    Fault::OpenError,
    Fault::FinishError,
    Fault::TextError,
    Fault::Full,
    Fault::SmallMemory,
    Fault::Kill,
];
const CONNECTIONS: Range<usize> = 0..6;
const NODES: Range<usize> = 6..9;
const DISKS: Range<usize> = 9..17;

/// The faults of a seed: none in one run of eight, one kind of them in four, any in three.
pub(crate) fn faults_of(seed: u64) -> Faults {
    let mut chance = Random::new(seed ^ 0x57_0e);
    let kind = chance.below(8);
    let mut drawn = |range: Range<usize>, per_thousand| {
        let drawn = FAULTS[range].iter().filter(|_| chance.chance(per_thousand));
        drawn.fold(Faults::NONE, |faults, &fault| faults.with(fault))
    };
    let faults = match kind {
        0 => Faults::NONE,
        1 => drawn(CONNECTIONS, 400),
        2 => drawn(CONNECTIONS.start..NODES.end, 300).with(Fault::NodeCrash),
        3 => drawn(NODES, 500),
        4 => drawn(DISKS, 300),
        _ => drawn(0..FAULTS.len(), 250),
    };
    let dies = (1..5).contains(&kind) && Random::new(seed ^ 0x6b_11).chance(200);
    if dies { faults.with(Fault::Kill) } else { faults }
}

/// Runs a case and checks it.
pub(crate) fn simulate(case: Case, is_traced: bool) -> Report {
    let plan = StoresPlan::of(case);
    let outcome = match world::run(&plan, is_traced) {
        Ok(outcome) => outcome,
        Err((why, trace)) => return Report::broken_off(why, trace),
    };
    let checked = caught(|| oracle::check(&outcome));
    let checked = checked.unwrap_or_else(|what| Err(format!("a reader panicked: {what}")));
    let (required, failure) = match checked {
        Ok(required) => (required, None),
        Err(why) => (0, Some(why)),
    };
    let ledger = outcome.life.last.targets[plan.target].ledger.total();
    let sent = plan.events * plan.sources.len() as u64;
    let fragments = Fragments { sent, required, recorded: ledger[Entry::FragmentsRecorded] };
    let files = if is_traced { oracle::listed(&outcome) } else { String::new() };
    let world::Outcome { happened, trace, .. } = outcome;
    Report { failure, happened, fragments, ledger, trace, files }
}
