//! What a frame has and lacks of each source, by the ledger's entries of each of its fates.

use catchment_model::Entry;

use crate::judge::Judged;

/// A frame's counts of one source or link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourceCounts {
    pub(crate) fragments: u64,
    pub(crate) bytes: u64,
    pub(crate) missing: u64,
    /// Rows in which it was not expected, and is not.
    pub(crate) not_expected: u64,
    /// Fragments that their sender marked as broken.
    pub(crate) bad_sender: u64,
    /// Fragments with another tag than their event's.
    pub(crate) bad_tag: u64,
    /// Fragments with holes, bytes of these, and fragments whose checksum is wrong.
    pub(crate) judged: Judged,
    /// Raw bytes that were compressed less than asked.
    pub(crate) lowered: u64,
}

impl SourceCounts {
    /// The part of a frame's increments that describes the frame itself: known once it is made, and
    /// counted in a target's ledger once it is recorded there.
    pub(crate) fn of_frame(&self) -> [(Entry, u64); 5] {
        [
            (Entry::FragmentsNotExpected, self.not_expected),
            (Entry::FragmentsBadSender, self.bad_sender),
            (Entry::FragmentsBadTag, self.bad_tag),
            (Entry::FragmentsBadChecksum, self.judged.bad_checksum),
            (Entry::BytesCompressionLowered, self.lowered),
        ]
    }

    /// What a target counts that has the frame in a file. Rows of channels do not say it.
    pub(crate) fn of_recorded(&self) -> [(Entry, u64); 5] {
        [
            (Entry::FragmentsRecorded, self.fragments),
            (Entry::FragmentBytesRecorded, self.bytes),
            (Entry::FragmentsMissing, self.missing),
            (Entry::FragmentsWithHoles, self.judged.with_holes),
            (Entry::FragmentBytesLost, self.judged.bytes_lost),
        ]
    }

    /// What a target counts that has no place for the frame, or fails to write it.
    pub(crate) fn of_discarded(&self) -> [(Entry, u64); 2] {
        [
            (Entry::FragmentsDiscardedDisk, self.fragments),
            (Entry::FragmentsMissingUnrecorded, self.missing),
        ]
    }

    /// What a target counts that does not take the frame.
    pub(crate) fn of_not_taken(&self) -> [(Entry, u64); 3] {
        [
            (Entry::FragmentsNotTaken, self.fragments),
            (Entry::FragmentBytesNotTaken, self.bytes),
            (Entry::FragmentsMissingUnrecorded, self.missing),
        ]
    }
}

/// The part of a link's counts that is one channel's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelCounts {
    pub(crate) bytes: u64,
    pub(crate) missing: u64,
}
