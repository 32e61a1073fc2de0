//! Pieces: the fragments of one source that are in one event together.

/// One of several fragments that a source has in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The row.
    pub row: u64,
    /// Its own time in ns, on the clock of the keys.
    pub time_ns: u64,
    /// Its bytes: they follow those of the pieces of that row before it.
    pub bytes: u64,
}
