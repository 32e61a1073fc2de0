//! The total of a run, as its last table of contents has it.

use std::collections::BTreeMap;

use catchment_model::Entry;

use super::Check;

impl Check<'_> {
    /// The total equals the live ledger, and the sum of the frames' increments.
    pub(super) fn totals(&self, toc: &BTreeMap<(usize, String), u64>) -> Result<(), String> {
        let in_frames =
            [Entry::FragmentsRecorded, Entry::FragmentBytesRecorded, Entry::FragmentsMissing];
        for (source, ledger) in self.ledger.sources.iter().enumerate() {
            for (entry, count) in ledger.iter() {
                let key = (source, entry.name().to_owned());
                let of = |counts: &BTreeMap<_, u64>| counts.get(&key).copied().unwrap_or(0);
                let total = of(toc);
                if entry == Entry::FragmentsDurable {
                    continue;
                }
                let is_late = self.is_unconfirmed_late(source, entry, toc);
                let count = if is_late { total } else { count };
                if total != count {
                    return Err(format!("source {source}: {entry}: {count}, TOC {total}"));
                }
                let added = of(&self.recorded.increments);
                let is_link = source >= self.outcome.plan.sources.len();
                let is_explicit = (is_link || !in_frames.contains(&entry))
                    && entry != Entry::BytesCompressionLowered;
                if is_explicit && added != count {
                    return Err(format!(
                        "source {source}: {entry}: {count}, frames add up to {added}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether that is a count of what the disk did not confirm of the last file, which cannot say
    /// so itself.
    pub(super) fn is_unconfirmed_late(
        &self,
        source: usize,
        entry: Entry,
        toc: &BTreeMap<(usize, String), u64>,
    ) -> bool {
        let said = toc.get(&(source, entry.name().to_owned())).copied().unwrap_or(0);
        let unconfirmed = [Entry::FragmentsUnconfirmed, Entry::FragmentCountsUnconfirmed];
        let is_more = self.ledger.sources[source][entry] > said;
        unconfirmed.contains(&entry) && !self.life.disk.is_empty() && is_more
    }
}
