//! What the builder says of itself while it runs.

/// The builder's state and totals since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderStatus {
    /// The lowest key that can still take fragments.
    pub base_key: u64,
    /// Events that have fragments and are not closed.
    pub open_events: u64,
    /// Bytes of fragments in open events and without a place.
    pub waiting_bytes: u64,
    /// Closed events that are in no cut yet.
    pub released_events: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Fragments pushed and neither in a cut nor discarded.
    pub fragments_held: u64,
    /// Events closed with every required source.
    pub events_complete: u64,
    /// Events closed without a required source.
    pub events_incomplete: u64,
    /// Of the incomplete: closed because their time-out passed.
    pub events_timed_out: u64,
    /// Of the incomplete: closed because the sources, or the window, had moved on.
    pub events_overtaken: u64,
    /// Of the incomplete: closed because the run ended.
    pub events_run_ended: u64,
    /// Events that nobody wanted: neither complete nor incomplete, and in no cut.
    pub events_unwanted: u64,
    /// Of the incomplete: dropped as the configuration says.
    pub events_dropped: u64,
    /// Keys between recorded ones of which no source delivered anything.
    pub events_absent: u64,
    /// Times a quorum began its numbers anew and the builder followed.
    pub restarts_followed: u64,
    /// The last such time.
    pub last_restart: Option<Restart>,
    /// Fragments that named a source that does not exist.
    pub fragments_of_no_source: u64,
    /// Each source's state.
    pub sources: Vec<SourceStatus>,
}

/// How numbers began anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The newest number before.
    pub from: u64,
    /// The first number after.
    pub to: u64,
}

/// One source's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStatus {
    /// Its sender's newest key; none while it stands nowhere.
    pub newest_key: Option<u64>,
    /// Whether it is not waited for because it delivers nothing.
    pub silent: bool,
    /// Whether its numbers do not fit to the others', so that its fragments are not used.
    pub out_of_step: bool,
    /// Its fragments kept without a place.
    pub parked: u64,
}
