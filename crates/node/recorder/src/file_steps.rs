//! The waits of a run's files, and their answers.

/// How long recording stays in fault before the next file is tried.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;
/// How often that time is doubled, at most, while nothing becomes durable: 64 s.
pub(crate) const RETRY_DOUBLED_MAX: u32 = 6;
/// How long frames wait for a file that is being made if there is another place for them.
pub(crate) const OPEN_NS: u64 = 1_000_000_000;
/// The number of attempts to write the run's last frame, or a file's table of contents.
pub(crate) const TRIES_MAX: u32 = 3;
/// The message when the run's last frame could not be written.
pub(crate) const NOT_WHOLE: &str = "the last counts of the ledger could not be written, so that \
    the last file has no table of contents: `catchment repair` closes it";

/// Why a file is being made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The current file is to be left, as planned: frames wait for the next.
    Next,
    /// Recording is in fault, or continues in a file that should have been left.
    Retry,
}

/// A check of the disk while nothing is being written, for which a decision waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    None,
    /// Something is being written.
    Jobs,
    /// An earlier check is in progress.
    Old,
    Fresh,
}

/// The stage of the run's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Frames may arrive.
    No,
    /// The last check of the disk.
    Looking,
    /// Without a file, a last one is tried.
    Opening,
    /// The ledger's counts since the last frame are written in a frame.
    LastFrame,
    /// Files are being closed.
    Closing,
    /// The list of files is being ended.
    Listing,
}

/// The run's last frame, with the ledger's counts since the one before.
#[derive(Default)]
pub(crate) struct LastFrame {
    /// The number of attempts to write it.
    pub(crate) tries: u32,
    /// Whether it was written. It is not written again: readers would find its number twice.
    pub(crate) is_recorded: bool,
    /// Whether there was no room for it at the last attempt.
    pub(crate) is_refused: bool,
    /// Whether it could not be written. If the frames did not add up to the total in a table of
    /// contents, that would say that the ledger does not balance.
    pub(crate) is_missing: bool,
    /// The index of the newest file with a frame: it comes in no older one, where it would stand
    /// before others.
    pub(crate) index_min: u32,
}

/// The next need of the run's end.
pub(crate) enum Ending {
    Again,
    /// Something is in progress.
    Wait,
    /// The last frame, with the ledger's counts since the one before.
    LastFrame,
    /// Nothing: the run has ended.
    Ended,
}

/// The decision about a frame.
pub(crate) enum Admission {
    /// It is begun now.
    Begin,
    /// There is no file for it.
    Refused,
    /// Not known yet.
    Wait,
}
