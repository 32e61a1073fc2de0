//! Ledgers in files: records of 16 bytes, one per source and non-zero entry, and one per source and
//! non-zero reason for malformed packets.
//!
//! ```text
//!  0        4       6       8           16
//! +--------+-------+-------+-----------+
//! | source | entry | zeros | count u64 |
//! +--------+-------+-------+-----------+
//! ```
//!
//! An entry number from [`REASONS_FROM`] on is a reason of the source, by its index in the schema's
//! `malformed_reasons`.

use catchment_model::{Entry, Ledger};

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::error::ColumnProblem;
use crate::kinds::FrameKind;

/// Names of ledger entries by their numbers in a file, by which a reader of another version maps
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryNames(pub Vec<String>);

impl Default for EntryNames {
    /// The entries counted by this version.
    fn default() -> Self {
        Self(Entry::ALL.iter().map(|entry| entry.name().to_owned()).collect())
    }
}

impl EntryNames {
    /// The entry with that number in the file, if this version knows it.
    pub fn entry(&self, number: u16) -> Option<Entry> {
        self.0.get(usize::from(number)).and_then(|name| Entry::from_name(name))
    }
}

/// Whether an entry is in no increment of a frame of that kind: because it follows from the frame's
/// columns, or because it is not known when a frame is written.
pub fn is_derived(kind: FrameKind, entry: Entry) -> bool {
    let counted_by_columns = matches!(
        entry,
        Entry::FragmentsRecorded
            | Entry::FragmentBytesRecorded
            | Entry::FragmentsMissing
            | Entry::FragmentsWithHoles
            | Entry::FragmentBytesLost
    );
    entry == Entry::FragmentsDurable || counted_by_columns && kind == FrameKind::Events
}

/// Appends the ledger increment column of a frame of events: every non-zero entry of `delta`,
/// except those that follow from the frame's columns.
pub fn encode_ledger_increment(delta: &Ledger, out: &mut Vec<u8>) {
    encode(delta, |entry| !is_derived(FrameKind::Events, entry), out);
}

/// As [`encode_ledger_increment`] for a frame of channels, whose rows count no fragments: every
/// non-zero entry except `fragments_durable`.
pub fn encode_channel_increment(delta: &Ledger, out: &mut Vec<u8>) {
    encode(delta, |entry| !is_derived(FrameKind::Channels, entry), out);
}

/// Appends a TOC's ledger column: every non-zero entry.
pub fn encode_ledger_total(total: &Ledger, out: &mut Vec<u8>) {
    encode(total, |_| true, out);
}

/// Reads an increment or a total in a file with that many sources. Entries unknown to this version
/// are left out.
///
/// # Errors
/// A length that is not a multiple of 16, or a source that does not exist.
pub fn decode_ledger(
    bytes: &[u8],
    names: &EntryNames,
    source_count: usize,
) -> Result<Ledger, ColumnProblem> {
    if !bytes.len().is_multiple_of(RECORD_BYTES) {
        let (field, expected) = ("raw_bytes", "a multiple of 16");
        return Err(ColumnProblem::Field { field, expected, got: bytes.len() as u64 });
    }
    let mut ledger = Ledger::new(source_count);
    for record in bytes.chunks_exact(RECORD_BYTES) {
        let source = u32_at(record, 0);
        let Some(counts) = ledger.sources.get_mut(source as usize) else {
            let (field, expected) = ("a ledger record's source", "a source of the schema");
            return Err(ColumnProblem::Field { field, expected, got: u64::from(source) });
        };
        let (number, count) = (u16_at(record, 4), u64_at(record, 8));
        let reason = number.checked_sub(REASONS_FROM).map(usize::from);
        if let Some(reason) = reason.and_then(|reason| counts.reasons.get_mut(reason)) {
            *reason = reason.saturating_add(count);
        } else if let Some(entry) = names.entry(number) {
            counts[entry] = counts[entry].saturating_add(count);
        }
    }
    Ok(ledger)
}

fn encode(ledger: &Ledger, keep: impl Fn(Entry) -> bool, out: &mut Vec<u8>) {
    for (source, counts) in ledger.sources.iter().enumerate() {
        let entries = counts.iter().filter(|&(entry, _)| keep(entry));
        let entries = entries.map(|(entry, count)| (entry as u16, count));
        let reasons = (REASONS_FROM..).zip(counts.reasons);
        for (number, count) in entries.chain(reasons).filter(|&(_, count)| count != 0) {
            out.extend_from_slice(&(source as u32).to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&count.to_le_bytes());
        }
    }
}

/// The number of a source's first reason for malformed packets: far above those of entries.
const REASONS_FROM: u16 = 0x1000;

/// Bytes of one record.
pub(crate) const RECORD_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_and_increments_leave_out_what_the_frame_says() {
        let mut ledger = Ledger::new(3);
        ledger.sources[0][Entry::FragmentsReceived] = 10;
        ledger.sources[2][Entry::FragmentsRecorded] = 9;
        ledger.sources[2][Entry::FragmentsLate] = u64::MAX;
        ledger.sources[2].reasons[15] = 8;
        let mut bytes = Vec::new();
        encode_ledger_total(&ledger, &mut bytes);
        assert_eq!(bytes.len(), 4 * RECORD_BYTES);
        assert_eq!(decode_ledger(&bytes, &EntryNames::default(), 3).as_ref(), Ok(&ledger));

        bytes.clear();
        encode_ledger_increment(&ledger, &mut bytes);
        ledger.sources[2][Entry::FragmentsRecorded] = 0;
        assert_eq!(decode_ledger(&bytes, &EntryNames::default(), 3), Ok(ledger));
    }

    #[test]
    fn entries_of_another_version_go_by_their_names() {
        let names = EntryNames(vec!["of_a_later_version".into(), "fragments_late".into()]);
        let mut bytes = Vec::new();
        for (entry, count) in [(0u16, 5u64), (1, 6), (2, 7), (REASONS_FROM + 16, 8)] {
            bytes.extend_from_slice(&0u32.to_le_bytes());
            bytes.extend_from_slice(&entry.to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        let mut expected = Ledger::new(1);
        expected.sources[0][Entry::FragmentsLate] = 6;
        let former = EntryNames(vec!["packets_malformed_trailer".into()]);
        let header = Entry::PacketsMalformedChecksum;
        assert_eq!(decode_ledger(&bytes, &former, 1).unwrap().sources[0][header], 5);
        assert_eq!(decode_ledger(&bytes, &names, 1), Ok(expected));
        assert!(decode_ledger(&bytes, &names, 0).is_err());
        assert!(decode_ledger(&bytes[1..], &names, 1).is_err());
    }
}
