//! What one frame will hold.

/// Consecutive events, cut into columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The events' keys, ascending.
    pub keys: Vec<u64>,
    /// When each event's first fragment was pushed.
    pub times_ns: Vec<u64>,
    /// Each event's [`EventFlags`](catchment_model::EventFlags).
    pub flags: Vec<u32>,
    /// One column per source, by the source's number.
    pub columns: Vec<ColumnCut>,
    /// Bytes of all columns' payload.
    pub payload_bytes: u64,
    /// Whether nothing comes after it.
    pub end_of_run: bool,
}

/// One source's part of a [`Cut`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnCut {
    /// Bytes of each row's fragment; 0 where it is missing.
    pub lengths: Vec<u32>,
    /// One bit per row, lowest bit of the first byte first: set where the fragment is there. None
    /// when all are.
    pub validity: Option<Vec<u8>>,
    /// Where the payload is: the rows' fragments in their order, neighbours joined.
    pub spans: Vec<Span>,
    /// How many fragments there are.
    pub fragments: u64,
    /// Their bytes.
    pub payload_bytes: u64,
    /// Rows without this source, if it is required; otherwise 0.
    pub missing: u64,
}

/// A range of bytes in one source's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub offset: u64,
    /// How long it is; never 0.
    pub bytes: u64,
}
