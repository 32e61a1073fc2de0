//! The counts of the run's line of the ledger, as they are shown: while a run records, they do not
//! fall.
//!
//! The line of a source becomes another target's when its own one has lost something. That target
//! may be behind, and not have counted yet what was shown: a count that falls and rises again is
//! counted twice by whoever computes its growth. So the counts shown before stand until the target
//! has caught up. Counts fall only where both targets have lost something of a source, each in
//! other frames: what the first one had recorded is then lost, or counted elsewhere.

use catchment_model::{Entry, SourceLedger};
use parking_lot::Mutex;

/// The counts of the run's line of one source as they were shown last.
#[derive(Debug, Default)]
pub(crate) struct ShownLine(Mutex<SourceLedger>);

impl ShownLine {
    /// What is shown now: the line has those counts, and at least so many fragments are durable in
    /// all targets.
    pub(crate) fn show(&self, line: SourceLedger, durable: u64) -> SourceLedger {
        let mut shown = self.0.lock();
        // A lower bound, which later losses lower although durable fragments remain so.
        let durable = durable.max(shown[Entry::FragmentsDurable]);
        let (now, before) = (decided(&line), decided(&shown));
        if now.iter().zip(before).all(|(now, before)| *now >= before) {
            *shown = line;
        }
        shown[Entry::FragmentsDurable] = durable;
        shown.clone()
    }
}

/// How many fragments a target has recorded or not, and of how many it was said that events lack
/// them: the same for all targets once they have the same frames.
fn decided(line: &SourceLedger) -> [u64; 2] {
    let fragments =
        [Entry::FragmentsRecorded, Entry::FragmentsDiscardedDisk, Entry::FragmentsNotTaken];
    let missing = [Entry::FragmentsMissing, Entry::FragmentsMissingUnrecorded];
    let sum = |entries: &[Entry]| entries.iter().map(|&entry| line[entry]).sum();
    [sum(&fragments), sum(&missing)]
}

#[cfg(test)]
mod tests {
    use catchment_model::SourceId;

    use crate::config::{RecorderConfig, SourceConfig};
    use crate::frame_counts::SourceCounts;
    use crate::live::Live;
    use crate::target_config::TargetConfig;

    use super::*;

    #[test]
    fn no_count_falls_while_the_line_is_that_of_a_target_which_is_behind() {
        let source = SourceConfig::new("source".to_owned(), ([127, 0, 0, 1], 0).into());
        let targets = ["first", "second"].map(|name| TargetConfig::folder(name, name.into()));
        let config = RecorderConfig::new("".into(), vec![source]);
        let live = Live::new(&RecorderConfig { targets: targets.into(), ..config });
        let frame =
            |fragments, missing| [SourceCounts { fragments, missing, ..SourceCounts::default() }];
        let shown = || {
            let total = live.total().total();
            let missing = total[Entry::FragmentsMissing] + total[Entry::FragmentsMissingUnrecorded];
            let lost = total[Entry::FragmentsDiscardedDisk];
            (total[Entry::FragmentsRecorded], missing, lost, total[Entry::FragmentsDurable])
        };
        let durable = |target: usize, count| {
            live.targets[target].ledger.add(SourceId(0), Entry::FragmentsDurable, count);
        };
        let [first, second] = [&live.targets[0], &live.targets[1]];
        first.count(&frame(100, 2), SourceCounts::of_recorded);
        second.count(&frame(60, 0), SourceCounts::of_recorded);
        durable(0, 100);
        durable(1, 60);
        assert_eq!(shown(), (100, 2, 0, 60));
        // The first target fails to write three fragments, which the second one is yet to record.
        first.count(&frame(3, 1), SourceCounts::of_discarded);
        assert_eq!(shown(), (100, 2, 0, 60));
        second.count(&frame(40, 1), SourceCounts::of_recorded);
        assert_eq!(shown(), (100, 2, 0, 60));
        second.count(&frame(3, 2), SourceCounts::of_recorded);
        assert_eq!(shown(), (103, 3, 0, 60));
        // Both have lost something: the run has lost what the better one has.
        second.count(&frame(10, 0), SourceCounts::of_discarded);
        assert_eq!(shown(), (100, 3, 3, 60));
        first.count(&frame(10, 0), SourceCounts::of_recorded);
        assert_eq!(shown(), (110, 3, 3, 60));
    }
}
