//! What is durable of sources that come over sessions.

use catchment_model::SourceId;

/// Says what is durable.
#[derive(Debug, Default)]
pub(crate) struct LinkPositions;

impl LinkPositions {
    /// Calls `f(source, session, durable)` for each source.
    pub(crate) fn read(&self, _f: &mut dyn FnMut(SourceId, u64, u64)) {}
}
