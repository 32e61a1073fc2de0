//! Counts of a recorder beside its ledger.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counts of a recorder beside its ledger.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        /// Counts of a recorder beside its ledger, at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counts { $($(#[doc = $doc])* pub $name: u64,)* }

        impl Counts {
            /// All names, in order, and their meanings.
            pub const NAMES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),*)),)*];

            /// Adds other counts.
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// The higher of each of two counts.
            pub(crate) fn raise(&mut self, other: &Self) {
                $(self.$name = self.$name.max(other.$name);)*
            }

            /// Names and counts, in order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Events built with all required sources.
    events_complete,
    /// Events built without some required source.
    events_incomplete,
    /// Incomplete events whose time-out had passed.
    events_timed_out,
    /// Incomplete events that the sources had passed.
    events_overtaken,
    /// Events by time that would have gone on, and that `build.time.span_max` ended.
    events_capped,
    /// Event numbers that no source delivered.
    events_absent,
    /// Open events.
    events_open,
    /// Slices of channels built with all channels.
    slices_complete,
    /// Slices built without some channel.
    slices_incomplete,
    /// Slices that no channel delivered.
    slices_absent,
    /// Open slices.
    slices_open,
    /// Slices in frames that were written.
    slices_recorded,
    /// Events in frames that were written.
    events_recorded,
    /// Frames that were written.
    frames_recorded,
    /// Bytes of the files' frames and headers.
    bytes_written,
    /// Frames that a target lacked when the run went on after a recorder's death, and that were
    /// copied to it from another one.
    frames_caught_up,
    /// Bytes of the files with these.
    bytes_caught_up,
    /// Writes to the run's files that were begun.
    writes_begun,
    /// Writes to the run's files that have completed.
    writes_completed,
    /// Fragments from a source number that is not configured.
    fragments_unconfigured,
    /// Channels' samples that are in no trend: their second had been written, their frame's clock
    /// was far ahead of the next one's, or the trends' disk was too slow.
    trend_samples_late,
    /// Rows of trends that are in no file, because the disk refused for too long.
    trend_rows_lost,
    /// 1 while the next file cannot be made, so that the open one continues beyond its limits.
    next_file_refused,
    /// 1 while the list of the run's files cannot be written.
    file_list_refused,
}
