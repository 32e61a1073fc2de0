//! Which sources an event expects: those of the groups that took part in it, all where none are
//! named, and nobody beside a fragment that is a row of its own.

use catchment_model::EventFlags;

use crate::Row;

/// Whether a source of these groups is expected in an event in which those took part.
#[inline]
pub(crate) fn is_expected(expected_in: u64, named: u64) -> bool {
    named == 0 || expected_in == 0 || expected_in & named > 0
}

/// The same, of a row: none names nobody.
#[inline]
pub(crate) fn row_expects(expected_in: u64, named: Option<u64>) -> bool {
    named.is_some_and(|named| is_expected(expected_in, named))
}

impl Row {
    /// The groups that took part, 0 if they were not named; none if the row is one fragment, beside
    /// which nobody is expected.
    pub(crate) fn named(&self) -> Option<u64> {
        let flags = EventFlags(self.flags);
        let is_alone = flags.contains(EventFlags::UNMATCHED) || flags.contains(EventFlags::LATE);
        (!is_alone).then_some(self.groups)
    }
}
