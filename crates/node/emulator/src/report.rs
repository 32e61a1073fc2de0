//! What was sent, and the faults in it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Counters for display while an emulator runs; updated once per tick.
#[derive(Debug, Default)]
pub struct EmulatorLive {
    /// Events completed by all sources.
    pub events: AtomicU64,
    /// Packets that the kernel accepted.
    pub packets: AtomicU64,
    /// Bytes of those packets.
    pub bytes: AtomicU64,
    /// Times that the kernel refused and was retried.
    pub refused: AtomicU64,
}

impl EmulatorLive {
    pub(crate) fn add(&self, events: u64, packets: u64, bytes: u64, refused: u64) {
        self.events.fetch_add(events, Relaxed);
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.refused.fetch_add(refused, Relaxed);
    }
}

/// The counts of one source. Without unsent packets,
/// `fragments_sent = fragments_made - fragments_lost + fragments_duplicated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceReport {
    /// Fragments made: one per event, or as many as a board sends, except for a killed source.
    pub fragments_made: u64,
    /// Packets that the kernel accepted, including all faults except deliberate losses.
    pub packets_sent: u64,
    /// Fragments in them, here and below: of those in parts, the ones whose last part they have.
    pub fragments_sent: u64,
    /// Bytes of those packets.
    pub bytes_sent: u64,
    /// Packets that the kernel finally refused, or that a connection did not take whole.
    pub packets_unsent: u64,
    /// Fragments in them.
    pub fragments_unsent: u64,
    /// Packets deliberately not sent.
    pub packets_lost: u64,
    /// Fragments in them.
    pub fragments_lost: u64,
    /// Packets deliberately sent a second time.
    pub packets_duplicated: u64,
    /// Fragments in them.
    pub fragments_duplicated: u64,
    /// Packets deliberately sent after their source's next one.
    pub packets_reordered: u64,
    /// Fragments in them.
    pub fragments_reordered: u64,
    /// Packets sent with a flipped bit.
    pub packets_corrupted: u64,
    /// Fragments in them.
    pub fragments_corrupted: u64,
    /// Events from the one at which this source was killed.
    pub fragments_killed: u64,
    /// Fragments made from the event at which its trigger numbers restarted.
    pub fragments_restarted: u64,
}

/// The report of an emulator's run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulatorReport {
    /// The seed, which reproduces the run.
    pub seed: u64,
    /// The first event.
    pub first_event: u64,
    /// The number of events made.
    pub events: u64,
    /// The time from making the first packet to sending the last.
    pub seconds: f64,
    /// CPU time of its thread, including the kernel's part of sending.
    pub cpu_ns: u64,
    /// Times that the kernel refused a packet and was retried.
    pub refused: u64,
    /// Each source, in order of number.
    pub sources: Vec<SourceReport>,
}

impl EmulatorReport {
    /// The sum over all sources.
    pub fn total(&self) -> SourceReport {
        SourceReport::total(&self.sources)
    }
}

/// The report of a run of channel links. A link is a source whose fragments are entries: channels'
/// parts of slices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkEmulatorReport {
    /// The seed, which reproduces the run.
    pub seed: u64,
    /// The first slice.
    pub first_slice: u64,
    /// Nanoseconds per slice.
    pub slice_ns: u64,
    /// The number of slices made.
    pub slices: u64,
    /// Bytes of samples made.
    pub sample_bytes: u64,
    /// Heartbeats that the kernel accepted, over all links. They are in no link's counts.
    pub heartbeats: u64,
    /// The time from making the first packet to sending the last.
    pub seconds: f64,
    /// CPU time of its thread, including the kernel's part of sending.
    pub cpu_ns: u64,
    /// Times that the kernel refused a packet and was retried.
    pub refused: u64,
    /// Each link, in the configuration's order.
    pub links: Vec<SourceReport>,
}

impl LinkEmulatorReport {
    /// The sum over all links.
    pub fn total(&self) -> SourceReport {
        SourceReport::total(&self.links)
    }
}

impl SourceReport {
    fn total(reports: &[Self]) -> Self {
        let mut total = Self::default();
        reports.iter().for_each(|report| total.add(report));
        total
    }

    fn add(&mut self, other: &Self) {
        self.fragments_made += other.fragments_made;
        self.packets_sent += other.packets_sent;
        self.fragments_sent += other.fragments_sent;
        self.bytes_sent += other.bytes_sent;
        self.packets_unsent += other.packets_unsent;
        self.fragments_unsent += other.fragments_unsent;
        self.packets_lost += other.packets_lost;
        self.fragments_lost += other.fragments_lost;
        self.packets_duplicated += other.packets_duplicated;
        self.fragments_duplicated += other.fragments_duplicated;
        self.packets_reordered += other.packets_reordered;
        self.fragments_reordered += other.fragments_reordered;
        self.packets_corrupted += other.packets_corrupted;
        self.fragments_corrupted += other.fragments_corrupted;
        self.fragments_killed += other.fragments_killed;
        self.fragments_restarted += other.fragments_restarted;
    }
}
