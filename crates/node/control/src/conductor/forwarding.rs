//! What earlier runs have left in spills, on its way to storage nodes.

use catchment_recorder::Forwarding;

use super::Conductor;

impl Conductor {
    /// Forwards what is left in the spills of the present configuration.
    pub(crate) fn forward(&mut self) {
        // The threads of the configuration before give up its folders first.
        drop(self.forwarding.take());
        match Forwarding::start(&self.configuration.recorder) {
            Ok(forwarding) => self.forwarding = Some(forwarding),
            Err(error) => tracing::error!(%error, "what is left in spills is not forwarded"),
        }
    }
}
