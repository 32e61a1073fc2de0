//! Frames of events: their columns.

use crate::kinds::ColumnKind;
use crate::schema::Schema;

/// The ids of the columns of events; `None` for a column that the schema does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventColumns {
    /// [`ColumnKind::EventKey`].
    pub key: Option<u32>,
    /// [`ColumnKind::EventTime`].
    pub time: Option<u32>,
    /// [`ColumnKind::EventFlags`].
    pub flags: Option<u32>,
    /// [`ColumnKind::LedgerIncrement`].
    pub ledger_increment: Option<u32>,
    /// Those of each source.
    pub sources: Vec<SourceColumns>,
}

/// The ids of one source's columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceColumns {
    /// [`ColumnKind::FragmentLengths`].
    pub lengths: Option<u32>,
    /// [`ColumnKind::FragmentValidity`].
    pub validity: Option<u32>,
    /// [`ColumnKind::FragmentPayload`].
    pub payload: Option<u32>,
    /// [`ColumnKind::FragmentExpected`].
    pub expected: Option<u32>,
    /// [`ColumnKind::FragmentHoles`].
    pub holes: Option<u32>,
    /// [`ColumnKind::FragmentTime`].
    pub times: Option<u32>,
    /// [`ColumnKind::FragmentPieces`].
    pub pieces: Option<u32>,
}

impl EventColumns {
    /// The columns of events in a schema. The schema has been checked: sources named by columns
    /// exist.
    pub fn of(schema: &Schema) -> Self {
        let mut found = Self::default();
        found.sources.resize(schema.sources.len(), SourceColumns::default());
        for column in &schema.columns {
            let source = column.source.and_then(|id| found.sources.get_mut(id as usize));
            let found_id = match (&column.kind, source) {
                (ColumnKind::EventKey, None) => &mut found.key,
                (ColumnKind::EventTime, None) => &mut found.time,
                (ColumnKind::EventFlags, None) => &mut found.flags,
                (ColumnKind::LedgerIncrement, None) => &mut found.ledger_increment,
                (ColumnKind::FragmentLengths, Some(source)) => &mut source.lengths,
                (ColumnKind::FragmentValidity, Some(source)) => &mut source.validity,
                (ColumnKind::FragmentPayload, Some(source)) => &mut source.payload,
                (ColumnKind::FragmentExpected, Some(source)) => &mut source.expected,
                (ColumnKind::FragmentHoles, Some(source)) => &mut source.holes,
                (ColumnKind::FragmentTime, Some(source)) => &mut source.times,
                (ColumnKind::FragmentPieces, Some(source)) => &mut source.pieces,
                _ => continue,
            };
            found_id.get_or_insert(column.id);
        }
        found
    }
}
