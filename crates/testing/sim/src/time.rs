//! Events built by time: senders of declared layouts, whose clocks may lie, and front-ends.
//!
//! The recorder is the same as for events by number, and so are its queues, its disk and its
//! agents; the detector, the network and the oracle are other ones: a fragment has a time in place
//! of a number, and what belongs together follows from the times alone.
//!
//! | part | what it is |
//! |---|---|
//! | `plan` | sources, clocks, lies, the window and the rates that a seed makes |
//! | `layouts` | what is declared of their packets, and how these are written |
//! | `marks` | what they have beside the time: numbers of packets, ids, tags, flags |
//! | `sender` | fragments, their stamps and their datagrams, and when these arrive |
//! | `front_ends` | the sources that come over sessions, what they say, and what befalls them |
//! | `world` | the run: clock, deliveries, agents |
//! | `model` | the rule once more, on sorted times |
//! | `oracle` | the rules that every run must obey |
//! | `windows` | that of windows and openers |
//! | `losses` | those of front-ends: what they dropped, and what was late |
//! | `sequences` | that of boards whose packets are numbered |

mod front_ends;
mod layouts;
mod losses;
mod marks;
mod model;
mod oracle;
mod plan;
mod sender;
mod sequences;
mod windows;
mod world;

use std::ops::Range;

use catchment_fixtures::Random;
use catchment_model::Entry;

use crate::case::Case;
use crate::fault::{Fault, Faults};
use crate::{Fragments, Report, caught};

pub(crate) use self::plan::TimePlan;

/// What happens where events are built by time: what the network and narrow clocks do, which keeps
/// no fragment that arrives from its event; the lies of clocks; what befalls a source, or the
/// process; what befalls front-ends; and a board that sends far more than there are events.
pub const FAULTS: [Fault; 23] = [
    Fault::Loss,
    Fault::Duplicate,
    Fault::Reorder,
    Fault::Wrap,
    Fault::Drift,
    Fault::JumpAhead,
    Fault::SetBack,
    Fault::Stuck,
    Fault::SecondAhead,
    Fault::Delay,
    Fault::Die,
    Fault::SmallBuffer,
    Fault::SmallMemory,
    Fault::Starve,
    Fault::Freeze,
    Fault::SingleBytes,
    Fault::LateAnswers,
    Fault::Cut,
    Fault::SenderKill,
    Fault::HalfOpen,
    Fault::Stall,
    Fault::SmallRing,
    Fault::Flood,
];
const HARMLESS: Range<usize> = 0..4;
const LIES: Range<usize> = 4..9;
const OF_BOARDS: Range<usize> = 0..15;
/// Of front-ends: what only makes them slow, and all of it.
const SLOW: Range<usize> = 15..17;
const OF_FRONT_ENDS: Range<usize> = 15..22;

/// The faults of a seed: in one run of four none but those that must change nothing, in two of four
/// one lie beside them, and in one of four any. Of front-ends in half of the runs what only makes
/// them slow, in a quarter one of the others beside that, and in a quarter any. In one run of eight
/// a board floods.
pub(crate) fn faults_of(seed: u64) -> Faults {
    match Random::new(seed ^ 0x71_43).below(8) {
        0 => without_flood(seed).with(Fault::Flood),
        _ => without_flood(seed),
    }
}

fn without_flood(seed: u64) -> Faults {
    let mut chance = Random::new(seed ^ 0x71_3e);
    let kind = chance.below(4);
    let mut drawn = |range: Range<usize>, per_thousand| {
        let drawn = FAULTS[range].iter().filter(|_| chance.chance(per_thousand));
        drawn.fold(Faults::NONE, |faults, &fault| faults.with(fault))
    };
    let faults = match kind {
        0 => drawn(HARMLESS, 400),
        1 | 2 => drawn(HARMLESS, 400).with(FAULTS[LIES][chance.index(LIES.len())]),
        _ => drawn(OF_BOARDS, 250),
    };
    let mut chance = Random::new(seed ^ 0x71_3f);
    let kind = chance.below(4);
    let mut drawn = |faults: Faults, range: Range<usize>| {
        let drawn = FAULTS[range].iter().filter(|_| chance.chance(300));
        drawn.fold(faults, |faults, &fault| faults.with(fault))
    };
    match kind {
        0 | 1 => drawn(faults, SLOW),
        2 => {
            let faults = drawn(faults, SLOW);
            let others = SLOW.end..OF_FRONT_ENDS.end;
            faults.with(FAULTS[others.clone()][chance.index(others.len())])
        }
        _ => drawn(faults, OF_FRONT_ENDS),
    }
}

/// Runs a case and checks it.
pub(crate) fn simulate(case: Case, is_traced: bool) -> Report {
    let plan = TimePlan::of(case);
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
    let ledger = outcome.life.last.ledger.total();
    let sent = outcome.sent.iter().map(|fragments| fragments.len() as u64).sum();
    let fragments = Fragments { sent, required, recorded: ledger[Entry::FragmentsRecorded] };
    let files = if is_traced { oracle::rows(&outcome) } else { String::new() };
    let world::Outcome { happened, trace, .. } = outcome;
    Report { failure, happened, fragments, ledger, trace, files }
}
