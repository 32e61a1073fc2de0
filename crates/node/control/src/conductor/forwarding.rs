//! What earlier runs have left in spills, on its way to storage nodes.

use catchment_recorder::{Forwarding, Snapshot};

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
        match Forwarding::start(&self.configuration.recorder, &self.shared.forwarded_bytes) {
            Ok(forwarding) => self.forwarding = Some(forwarding),
            Err(error) => tracing::error!(%error, "what is left in spills is not forwarded"),
        }
    }
}
