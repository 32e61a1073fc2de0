//! What was lost and what is bad, of a whole run.

use catchment_model::Entry;
use catchment_recorder::Snapshot;
use catchment_watch::{expected, is_bad, is_loss, lost};

use crate::api;

/// Fragments sent to a source's port by other senders, as far as distinguishable: those that fit
/// count once for each change of sender.
pub(super) fn of_strangers(snapshot: &Snapshot, index: usize) -> u64 {
    let foreign = snapshot.ledger.sources.get(index).map_or(0, |one| one[Entry::FragmentsForeign]);
    foreign + snapshot.alignment.get(index).map_or(0, |one| one.sender_turns)
}

pub(super) fn loss(snapshot: &Snapshot) -> api::Loss {
    let total = snapshot.ledger.total();
    let count: u64 = snapshot.ledger.sources.iter().map(lost).sum();
    let expected: u64 = snapshot.ledger.sources.iter().map(expected).sum();
    let expected = expected.max(1);
    let entries = total.iter().filter(|(entry, count)| *count > 0 && is_loss(*entry));
    let by_entry = entries.map(|(entry, count)| (entry.name().to_owned(), count)).collect();
    api::Loss { count, share: count as f64 / expected as f64, by_entry }
}

/// The bad part of the recorded data.
pub(super) fn bad_data(snapshot: &Snapshot) -> api::Loss {
    let total = snapshot.ledger.total();
    let (count, recorded) = (snapshot.ledger.bad_data(), total[Entry::FragmentsRecorded]);
    let entries = total.iter().filter(|(entry, count)| *count > 0 && is_bad(*entry));
    let by_entry = entries.map(|(entry, count)| (entry.name().to_owned(), count)).collect();
    api::Loss { count, share: count as f64 / recorded.max(1) as f64, by_entry }
}
