//! How events that close become rows, and how many of which kind there were.

use catchment_model::{CloseReason, Entry, EventFlags};

use crate::{BuilderConfig, BuilderStatus, IncompletePolicy, Row, TooLarge};

/// Makes rows of events that close, and counts them.
#[derive(Debug)]
pub struct Closing {
    incomplete: IncompletePolicy,
    event_bytes_max: u64,
    totals: Totals,
}

/// An event that closes.
#[derive(Clone, Copy, Debug)]
pub struct ClosingEvent {
    pub key: u64,
    pub first_ns: u64,
    pub bytes: u64,
    /// Without those that say that and why it is incomplete.
    pub flags: EventFlags,
    /// The groups that took part in it; 0 if they were not named.
    pub groups: u64,
    /// Whether each required source that is expected in it delivered.
    pub complete: bool,
    /// Why no frame has it, complete or not, by the ledger's entry that counts its fragments.
    pub unwanted: Option<Entry>,
    pub reason: CloseReason,
}

// Numbers of events. BuilderStatus explains them.
#[derive(Debug, Default)]
struct Totals {
    complete: u64,
    incomplete: u64,
    timed_out: u64,
    overtaken: u64,
    run_ended: u64,
    unwanted: u64,
    dropped: u64,
    too_large: u64,
    last_too_large: Option<TooLarge>,
    absent: u64,
    unmatched: u64,
}

impl Closing {
    pub fn new(config: &BuilderConfig) -> Self {
        let BuilderConfig { incomplete, event_bytes_max, .. } = *config;
        Self { incomplete, event_bytes_max, totals: Totals::default() }
    }

    /// Counts an event, and makes its row.
    pub fn row(&mut self, event: &ClosingEvent) -> Row {
        let &ClosingEvent { key, first_ns, bytes, mut flags, groups, .. } = event;
        let &ClosingEvent { complete, unwanted, reason, .. } = event;
        let wanted = unwanted.is_none();
        let totals = &mut self.totals;
        let too_large = bytes > self.event_bytes_max;
        if !wanted {
            totals.unwanted += 1;
        } else if flags.contains(EventFlags::UNMATCHED) || flags.contains(EventFlags::LATE) {
            totals.unmatched += 1;
        } else if too_large {
            totals.too_large += 1;
            totals.last_too_large = Some(TooLarge { key, bytes });
        } else if complete {
            totals.complete += 1;
        } else {
            flags = flags | EventFlags::INCOMPLETE | reason.flag();
            totals.incomplete += 1;
            match reason {
                CloseReason::Complete => {}
                CloseReason::TimedOut => totals.timed_out += 1,
                CloseReason::Overtaken => totals.overtaken += 1,
                CloseReason::RunEnded => totals.run_ended += 1,
            }
        }
        let incomplete = !complete && self.incomplete == IncompletePolicy::Drop;
        totals.dropped += u64::from(wanted && !too_large && incomplete);
        let dropped = match wanted {
            false => unwanted,
            true if too_large => Some(Entry::FragmentsDiscardedTooLarge),
            true => incomplete.then_some(Entry::FragmentsDiscardedIncomplete),
        };
        Row { key, first_ns, bytes, flags: flags.0, groups, dropped }
    }

    /// Counts events of which no source delivered anything.
    pub fn count_absent(&mut self, events: u64) {
        self.totals.absent += events;
    }

    /// Adds the totals to a status.
    pub fn add_to(&self, status: &mut BuilderStatus) {
        status.events_complete = self.totals.complete;
        status.events_incomplete = self.totals.incomplete;
        status.events_timed_out = self.totals.timed_out;
        status.events_overtaken = self.totals.overtaken;
        status.events_run_ended = self.totals.run_ended;
        status.events_unwanted = self.totals.unwanted;
        status.events_dropped = self.totals.dropped;
        status.events_too_large = self.totals.too_large;
        status.last_too_large = self.totals.last_too_large;
        status.events_absent = self.totals.absent;
        status.events_unmatched = self.totals.unmatched;
    }
}

/// Whether fragments that are counted so are of an event in which no source counts as missing.
pub fn is_unwanted(reason: Entry) -> bool {
    matches!(reason, Entry::FragmentsDiscardedPaused | Entry::FragmentsOutsideRun)
}
