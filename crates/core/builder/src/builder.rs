//! The builder.

use catchment_model::{Entry, SourceId};

use crate::{BuilderConfig, BuilderStatus, ConfigError, Cut, Discard, Fragment};

/// Builds events from fragments' descriptors.
///
/// One duty cycle is: [`push`](Self::push) what came in, [`poll`](Self::poll) once,
/// [`cut`](Self::cut) until there is none, then take [`discarded`](Self::discarded) and
/// [`counts`](Self::counts).
#[derive(Debug)]
pub struct Builder {
    config: BuilderConfig,
}

impl Builder {
    /// A builder for these settings.
    ///
    /// # Errors
    /// Settings that cannot be.
    pub fn new(config: BuilderConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self { config })
    }

    /// Takes fragments, best in runs of one source. All arrived at `now_ns`.
    pub fn push(&mut self, now_ns: u64, fragments: &[Fragment]) {
        let _ = (now_ns, fragments);
    }

    /// Closes what can be closed. Call it once per duty cycle, also when nothing came.
    pub fn poll(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Ends the run: closes every event. Then [`cut`](Self::cut) returns the rest.
    pub fn finish(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// A frame's worth of events, when size or time or the end of the run say so. Call it until it
    /// returns none. `reuse` is an earlier cut whose memory may be used; it is kept until needed.
    pub fn cut(&mut self, now_ns: u64, reuse: Option<Cut>) -> Option<Cut> {
        let _ = (now_ns, reuse);
        None
    }

    /// Moves the descriptors of all fragments discarded since the last call to `into`'s end. They
    /// are as many as [`counts`](Self::counts) says, and those that named no source.
    pub fn discarded(&mut self, into: &mut Vec<Discard>) {
        let _ = into;
    }

    /// Hands the ledger's increments since the last call to `add`.
    pub fn counts(&mut self, add: impl FnMut(SourceId, Entry, u64)) {
        let _ = add;
    }

    /// The state and the totals. It allocates: not for every duty cycle.
    pub fn status(&self) -> BuilderStatus {
        let _ = &self.config;
        BuilderStatus::default()
    }
}
