//! The waits of a run's files, and their answers.

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
