//! What earlier runs have left in spills, on its way to storage nodes.

use std::sync::Arc;

use catchment_recorder::{EnterForwarded, Forwarded, Forwarding, Snapshot};

use super::Conductor;
use crate::api;
use crate::watching::targets::spills;

impl Conductor {
    /// What is spilled, of the run with that snapshot and of earlier ones.
    pub(super) fn spills(&self, snapshot: Option<&Snapshot>) -> Vec<api::Spill> {
        let left = self.forwarding.as_ref().map(Forwarding::snapshot).unwrap_or_default();
        spills(left, snapshot)
    }

    /// Forwards what is left in the spills of the present configuration.
    pub(crate) fn forward(&mut self) {
        // The threads of the configuration before give up its folders first.
        drop(self.forwarding.take());
        let (shared, run_status) = (Arc::clone(&self.shared), Arc::clone(&self.devices.run_status));
        let enter: EnterForwarded = Arc::new(move |one: &Forwarded| {
            let is_entered = shared.catalog.forwarded(one).map_err(|error| error.to_string())?;
            // The last run is shown until the next one begins.
            let last = run_status.active().filter(|last| last.id == one.run.to_string());
            if let Some(last) = last.filter(|_| is_entered) {
                last.observer.count_forwarded(one);
            }
            Ok(is_entered)
        });
        let (recorder, bytes) = (&self.configuration.recorder, &self.shared.forwarded_bytes);
        match Forwarding::start(recorder, bytes, &enter) {
            Ok(forwarding) => self.forwarding = Some(forwarding),
            Err(error) => tracing::error!(%error, "what is left in spills is not forwarded"),
        }
    }
}
