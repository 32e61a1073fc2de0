//! The simulator: a recorder's production agents in one thread and in virtual time, from one seed,
//! with a detector, a network, a disk and a power supply that fail; and an oracle that knows what
//! was sent and checks what was recorded.
//!
//! | part | what it is |
//! |---|---|
//! | [`fault`] | kinds of faults; those that a seed has |
//! | [`plan`] | the detector, the configuration and the rates that a seed makes |
//! | [`schedule`] | external events and their times |
//! | [`detector`] | what sources send, and what was sent |
//! | [`arrivals`] | the parts of fragments that arrived, and when |
//! | [`links`] | what channel links send |
//! | [`groups`] | in which events sources take part, and who is expected |
//! | [`sessions`] | front-ends that deliver sources over sessions |
//! | [`naive`] | a sender written from the specification, which does odd things |
//! | [`peer`] | a sender's end of a session, of either kind |
//! | [`wires`] | the connections of front-ends |
//! | `skew` | front-ends whose sources share connections: what their order cost |
//! | `strangers` | senders with keys of another kind, in place of front-ends that are away |
//! | [`logs`] | what was put into the logs of sessions, and what was told of it |
//! | [`settings`] | what front-ends are set to, and what was told of that |
//! | [`conductor`] | run control, and what operators ask of it |
//! | [`recorder`] | the agents and their wake-ups |
//! | [`world`] | the run: clock, network, actions |
//! | [`walk`] | a reader of frame files written from the specification |
//! | [`contents`] | tables of contents, checkpoints and locators, compared with the frames |
//! | [`headers`] | ranges, times and flags, compared with what was sent |
//! | [`bound`] | the fragments that must be recorded |
//! | [`positions`] | the logs of sessions, compared with the files and with what was told |
//! | [`commands`] | what front-ends were told, compared with what control asked for |
//! | [`verdict`] | the verdict, compared with the ledger |
//! | `catalogue` | the catalogue of runs, compared with the recorders and their files |
//! | [`recorded`] | the contents of the files, compared with what was sent |
//! | `resume` | what a recorder that died leaves to one that goes on |
//! | `samples` | packets of links over sessions, compared with the samples in the files |
//! | [`oracle`] | the rules that every run must obey |
//! | [`readers`] | the results of repair, audit and verify |
//! | [`time`] | runs whose events are built by time, with clocks that lie, and their own oracle |
//! | [`stores`] | runs whose target is a storage node, or several, and their own oracle |
//! | [`shrink`] | reduces a failing run |
//! | `silences` | networks of front-ends that are cut for less time than events wait |
//! | `trends` | trends of channels and counters, compared with the samples in the files |
//! | `trains` | fragments of many packets, in a run of their own, and what is recorded of them |
//! | [`trace`] | the recorded history of a run |
//!
//! Everything follows from the [`case::Case`]: one case, one trace, byte for byte.

pub mod arrivals;
pub mod bound;
pub mod case;
mod catalogue;
pub mod commands;
pub mod conductor;
pub mod contents;
pub mod detector;
pub mod fault;
pub mod groups;
pub mod headers;
pub mod links;
pub mod logs;
pub mod naive;
mod options;
pub mod oracle;
pub mod peer;
pub mod plan;
pub mod positions;
pub mod readers;
pub mod recorded;
pub mod recorder;
mod resume;
mod samples;
pub mod schedule;
pub mod sessions;
pub mod settings;
pub mod shrink;
mod silences;
mod skew;
pub mod stores;
mod strangers;
mod streams;
pub mod time;
pub mod trace;
mod trains;
mod trends;
pub mod verdict;
pub mod walk;
pub mod wires;
pub mod world;

pub use options::Options;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use catchment_model::{Entry, SourceLedger};

use crate::case::Case;
use crate::fault::Fault;
use crate::plan::Plan;
use crate::trace::Trace;

/// The result of a case.
#[derive(Debug)]
pub struct Report {
    /// The rule that was broken, if any.
    pub failure: Option<String>,
    /// How often each kind of fault happened.
    pub happened: BTreeMap<Fault, u64>,
    /// Counts of fragments and samples.
    pub fragments: Fragments,
    /// The ledgers' counts of packets and fragments.
    pub ledger: SourceLedger,
    /// The history of the run.
    pub trace: Trace,
    /// The contents of the files, if the run is traced.
    pub files: String,
}

impl Report {
    /// Of a run that did not come to its end.
    pub(crate) fn broken_off(why: String, trace: Trace) -> Self {
        let (happened, fragments) = (BTreeMap::new(), Fragments::default());
        let (ledger, files) = (SourceLedger::default(), String::new());
        Self { failure: Some(why), happened, fragments, ledger, trace, files }
    }
}

/// Fragments, and slices of channels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fragments {
    /// Sent.
    pub sent: u64,
    /// Required in files by the lower bound; fragments only.
    pub required: u64,
    /// Found in files.
    pub recorded: u64,
}

impl Fragments {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.required += other.required;
        self.recorded += other.recorded;
    }
}

impl std::fmt::Display for Fragments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sent, required, recorded } = self;
        write!(f, "{sent} fragments sent, {required} had to be recorded, {recorded} were")
    }
}

/// Runs a case and checks it.
pub fn simulate(case: Case, is_traced: bool) -> Report {
    if case.is_by_time {
        return time::simulate(case, is_traced);
    }
    if case.is_stored {
        return stores::simulate(case, is_traced);
    }
    let plan = Plan::of(case);
    match world::run(&plan, is_traced) {
        Ok(outcome) => {
            let checked = caught(|| {
                let required = oracle::check(&outcome)?;
                catalogue::check(&outcome).map(|()| required)
            });
            let checked = checked.unwrap_or_else(|what| Err(format!("a reader panicked: {what}")));
            let of_trains = match (&checked, case.has_trains) {
                (Ok(_), true) => trains::simulate(&case),
                _ => Ok(Fragments::default()),
            };
            let (checked, of_trains) = match of_trains {
                Ok(of_trains) => (checked, of_trains),
                Err(why) => (Err(why), Fragments::default()),
            };
            let (required, failure) = match checked {
                Ok(required) => (required, None),
                Err(why) => (0, Some(why)),
            };
            let channels = |link: usize| plan.links[link].channels.len();
            let sent = outcome.sent.sources.iter().enumerate().map(|(endpoint, sent)| {
                let link = endpoint.checked_sub(plan.sources.len());
                let of_link = link.map_or(0, |link| sent.slices.len() * channels(link));
                (sent.fragments.len() + of_link) as u64
            });
            let mut ledger = SourceLedger::default();
            outcome.lives.iter().for_each(|life| ledger.add(&life.last.ledger.total()));
            let (sent, recorded) = (sent.sum(), ledger[Entry::FragmentsRecorded]);
            let mut fragments = Fragments { sent, required, recorded };
            fragments.add(&of_trains);
            let files = if is_traced { recorded::files(&outcome) } else { String::new() };
            let world::Outcome { happened, trace, .. } = outcome;
            Report { failure, happened, fragments, ledger, trace, files }
        }
        Err((why, trace)) => Report::broken_off(why, trace),
    }
}

/// The result of `f`, or its message if it panics.
fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        text.unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_says_why_and_goes_no_further() {
        let number = std::hint::black_box(7);
        assert_eq!(caught(|| number), Ok(7));
        assert_eq!(caught(|| assert_eq!(number, 7, "{number}")), Ok(()));
        assert_eq!(caught(|| assert!(number != 7, "a bare text")), Err("a bare text".to_owned()));
        assert_eq!(caught(|| assert!(number != 7, "it is {number}")), Err("it is 7".to_owned()));
    }
}
