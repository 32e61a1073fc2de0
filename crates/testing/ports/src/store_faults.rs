//! How long a disk in memory takes, and what goes wrong with it.

/// How long operations take at most, and how many of a million fail, by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTimes {
    /// Nanoseconds of a write, a sync, an end of a file or a look.
    pub operation_ns_max: u64,
    /// Nanoseconds for which writes are tried again before they fail, while others go on.
    pub retries_ns_max: u64,
    /// Nanoseconds until a file is there.
    pub open_ns_max: u64,
    /// How many bytes are allocated ahead of the writes; 0: none.
    pub allocate_bytes: u64,
    /// Nanoseconds between two syncs.
    pub sync_interval_ns: u64,
    /// What goes wrong.
    pub faults: StoreFaults,
}

/// Operations of a million that go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFaults {
    /// Writes that fail; some of their sectors may have been written.
    pub write_errors: u64,
    /// Syncs that fail; what they were to make durable may be lost.
    pub sync_errors: u64,
    /// Files that cannot be made.
    pub open_errors: u64,
    /// Files that cannot be closed.
    pub finish_errors: u64,
    /// Texts that cannot be appended.
    pub text_errors: u64,
    /// Operations that hang for 5 to 120 s.
    pub hangs: u64,
    /// Ends of files that do.
    pub finish_hangs: u64,
    /// Writes that are reported as done, and of which sectors are missing.
    pub torn_writes: u64,
    /// Writes that are reported as done, and are somewhere else in the file.
    pub misdirected_writes: u64,
    /// When the disk has no room, which others take: from and until.
    pub full_ns: Option<(u64, u64)>,
}

/// What a store did wrong, each with the file's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoreFault {
    /// A write failed.
    WriteError,
    /// A sync failed.
    SyncError,
    /// A file was not made.
    OpenError,
    /// A file was not closed.
    FinishError,
    /// A text was not appended.
    TextError,
    /// An operation hung.
    Hang,
    /// A write was reported as done and was not, all of it.
    TornWrite,
    /// A write went somewhere else.
    MisdirectedWrite,
    /// There was no room.
    Full,
}
