//! Whether all that was sent is in the files.

use std::collections::{BTreeMap, BTreeSet};

use catchment_builder::SourceRole;
use catchment_model::Entry;

use super::Check;
use crate::fault::Fault;
use crate::links::ChannelPlan;
use crate::plan::SourcePlan;

impl Check<'_> {
    /// Whether all sent samples are in the files.
    fn are_all_samples_recorded(&self) -> bool {
        let plan = &self.outcome.plan;
        let links = plan.links.iter().enumerate();
        let mut links = links.filter(|(link, _)| self.selected.channels[*link].contains(&true));
        links.all(|(link, of_link)| {
            let slices = &self.outcome.sent.sources[plan.sources.len() + link].slices;
            let whole = (crate::plan::DURATION_NS / of_link.slice_ns).min(plan.events);
            let has_all = |(channel, of_channel): (usize, &ChannelPlan)| {
                let samples = |&slice: &u64| of_channel.samples_of(slice, of_link.slice_ns);
                let mut sent = slices.iter().map(samples);
                sent.all(|sent| self.recorded.has_samples((link, channel), &sent))
            };
            // A late part without samples is a loss, too.
            let recorded = self.ledger.sources[plan.sources.len() + link][Entry::FragmentsRecorded];
            let parts = slices.len() * of_link.channels.len();
            recorded >= parts as u64
                && slices.len() as u64 == whole
                && of_link
                    .channels
                    .iter()
                    .enumerate()
                    .filter(|(channel, _)| self.selected.channels[link][*channel])
                    .all(has_all)
        })
    }

    /// Whether all expected data are in the files: everything sent, except events that are missing
    /// entirely because the run was paused.
    pub(super) fn is_all_recorded(&self) -> bool {
        let faults = self.outcome.plan.case.faults;
        let is_paused = faults.has(Fault::Pause) || self.outcome.plan.control.is_some();
        // Whole events are missing for no other reason.
        use Fault::{Commands, Duplicate, Pause, Refuse, Reorder, Starve};
        let lose_none = [Pause, Reorder, Duplicate, Starve, Refuse, Commands];
        let has_stepped = !self.outcome.plan.links.is_empty() && faults.has(Fault::Clock);
        if self.outcome.lives.len() > 1
            || has_stepped
            || !self.are_all_samples_recorded()
            || is_paused && !faults.iter().all(|fault| lose_none.contains(&fault))
        {
            return false;
        }
        let recorded = &self.recorded.fragments[..self.outcome.plan.sources.len()];
        let any: BTreeSet<u64> = recorded.iter().flat_map(BTreeMap::keys).copied().collect();
        let plan = &self.outcome.plan;
        // What required sources lack while they are idle is missing, and may be all that there is
        // of an event: in a run that was paused nobody can tell.
        let is_idle =
            |one: &SourcePlan| one.role == SourceRole::Required && !one.part.idle.is_empty();
        if is_paused && plan.sources.iter().any(is_idle) {
            return false;
        }
        // Where what names groups is not there, nobody knows whom its events expected.
        let has_names = plan.reference().is_none_or(|one| self.selected.sources[one]);
        let mut selected =
            recorded.iter().enumerate().filter(|(one, _)| self.selected.sources[*one]);
        has_names
            && selected.all(|(source, recorded)| {
                let sent = self.outcome.sent.sources[source].fragments.iter();
                let sent = sent.map(|one| one.trigger);
                let is_wanted = |trigger: &u64| !is_paused || any.contains(trigger);
                let sent: Vec<u64> = sent.filter(is_wanted).collect();
                recorded.len() == sent.len()
                    && (plan.has_all(source, &sent, is_paused.then_some(&any))
                        || !self.is_required(source))
            })
    }
}
