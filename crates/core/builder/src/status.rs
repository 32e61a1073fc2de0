//! State and totals of a running builder.

use crate::astray::Astray;

/// The builder's state and totals since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderStatus {
    /// The lowest key that can still take fragments.
    pub base_key: u64,
    /// Events that have fragments and are not closed.
    pub open_events: u64,
    /// Bytes of fragments in open events, and of parked ones.
    pub waiting_bytes: u64,
    /// Closed events that are in no cut yet.
    pub released_events: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Fragments pushed and neither in a cut nor discarded.
    pub fragments_held: u64,
    /// Fragments discarded and not counted yet, since they may be the source's or a stranger's.
    pub fragments_unsettled: u64,
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
    /// Events that were not wanted: neither complete nor incomplete, and in no cut.
    pub events_unwanted: u64,
    /// Of the incomplete: dropped as the configuration says.
    pub events_dropped: u64,
    /// Events that held more than `event_bytes_max`: neither complete nor incomplete, in no cut.
    pub events_too_large: u64,
    /// The last of them.
    pub last_too_large: Option<TooLarge>,
    /// Keys between recorded ones of which no source delivered anything.
    pub events_absent: u64,
    /// Rows of one fragment that is in no event, or whose event was closed: neither complete nor
    /// incomplete.
    pub events_unmatched: u64,
    /// Events by time that the longest span ended: without it they would have gone on, or could
    /// have.
    pub events_capped: u64,
    /// Number of times that all required senders skipped the same keys
    /// (`fragments_skipped`).
    pub jumps: u64,
    /// The last such time.
    pub last_jump: Option<Jump>,
    /// Number of restarts of the numbers that a quorum made and the builder followed.
    pub restarts_followed: u64,
    /// The last such time.
    pub last_restart: Option<Restart>,
    /// Fragments that named a source that does not exist.
    pub fragments_of_no_source: u64,
    /// Each source's state.
    pub sources: Vec<SourceStatus>,
}

/// An event that held too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Its key.
    pub key: u64,
    /// Bytes of its fragments.
    pub bytes: u64,
}

/// How the numbers restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The newest number before.
    pub from: u64,
    /// The first number after.
    pub to: u64,
}

/// How the numbers jumped ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The first key that was skipped.
    pub from: u64,
    /// The first key after those.
    pub to: u64,
    /// How many required sources skipped them.
    pub sources: u32,
}

/// One source's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStatus {
    /// The position of its sender: that one's newest key. None if it has no position.
    pub newest_key: Option<u64>,
    /// Whether it delivers nothing, so that events do not wait for it.
    pub silent: bool,
    /// Whether it promises and said nothing for a time-out in which others delivered, nor that it
    /// is idle.
    pub given_up: bool,
    /// Whether its numbers do not fit those of the others, so that its fragments are discarded.
    pub out_of_step: bool,
    /// How its numbers, or its clock, differ from those of the others, where that is known. A
    /// front-end's may have begun again while they still fit.
    pub astray: Option<Astray>,
    /// Whether most of its fragments are in no event, so that they open none.
    pub is_flooding: bool,
    /// Whether its sender has delivered others of the newest key, and not yet this source, which it
    /// delivered lately.
    pub is_awaited: bool,
    /// Number of its parked fragments.
    pub parked: u64,
    /// Whether the fragments of its own sender, which fit, carry
    /// [`FragmentFlags::OTHER_SENDER`](crate::FragmentFlags::OTHER_SENDER).
    pub other_sender: bool,
}
