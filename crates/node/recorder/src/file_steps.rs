//! What the files of a run wait for, and what they answer.

/// Why a file is being made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The current one is to be left, as planned: frames wait for the next.
    Next,
    /// Recording is in fault, or goes on in a file that should have been left.
    Retry,
}

/// A look at the disk with nothing being written, which a decision waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    None,
    /// Something is being written.
    Jobs,
    /// A look from before is under way.
    Old,
    Fresh,
}

/// How far the run's end is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Frames may come.
    No,
    /// The last look at the disk.
    Looking,
    /// Without a file, a last one is tried.
    Opening,
    /// What the ledger has counted since the last frame goes into one.
    LastFrame,
    /// Files are being closed.
    Closing,
    /// The list of files is being ended.
    Listing,
}

/// What the run's end needs next.
pub(crate) enum Ending {
    Again,
    /// Something is under way.
    Wait,
    /// The last frame, with what the ledger has counted since the one before.
    LastFrame,
    /// Nothing: the run has ended.
    Ended,
}

/// What becomes of a frame.
pub(crate) enum Admission {
    /// It is begun now.
    Begin,
    /// There is no file for it.
    Refused,
    /// That is not known yet.
    Wait,
}
