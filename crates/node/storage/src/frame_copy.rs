//! Copying a frame as it is stored, for `merge` and for places that are caught up: its columns with
//! their codecs, checked by their checksums, and the ledger's increments apart from them. What a
//! frame of one place counts may differ from what its copy in another has to count.

use catchment_frame::{
    Codec, ColumnEntry, ColumnKind, Dtype, FileReader, FrameError, FrameKind, ReadAt, Schema,
    encode_channel_increment, encode_ledger_increment, frame_ledger, is_derived, unqualified,
};
use catchment_model::{Entry, Ledger, SourceLedger};

use crate::error::StorageError;
use crate::folders::OF_FRAME;
use crate::parallel;
use crate::write::unwritable;

/// A copy of a frame, checked.
pub(crate) struct FrameCopy {
    /// Its columns as they are stored, except for the increments.
    pub(crate) columns: Vec<(ColumnEntry, Vec<u8>)>,
    /// What it counts: by its columns, and in its increments.
    pub(crate) counts: Ledger,
}

impl FrameCopy {
    /// Reads and checks a frame. `fail` names its file in errors.
    pub(crate) fn read<R: ReadAt + Sync>(
        reader: &FileReader<R>,
        index: usize,
        fail: impl Fn(FrameError) -> StorageError + Sync,
    ) -> Result<Self, StorageError> {
        let entries = reader.columns(index).map_err(&fail)?;
        let (counts, problems) = frame_ledger(reader, index);
        if let Some(problem) = problems.into_iter().next() {
            return Err(fail(problem));
        }
        let offset = reader.frames()[index].offset;
        let increments = reader.header().schema.column(None, &ColumnKind::LedgerIncrement);
        let columns = parallel::map(entries, parallel::threads(), |entry| {
            let read = || {
                // Bytes with holes are of the codec that their own is made from.
                let codec = unqualified(entry.codec).unwrap_or(entry.codec);
                let plain = ColumnEntry { codec, ..entry };
                let column = reader.stored_column(index, &plain)?;
                match codec {
                    Codec::Base => drop(column.base_parts()?),
                    // Of what a later version wrote the checksum can be checked.
                    Codec::Unknown(_) => column.verify_stored()?,
                    _ => column.check()?,
                }
                let mut bytes = vec![0; entry.stored_bytes as usize];
                column.read_bytes(offset + entry.offset, &mut bytes)?;
                column.check_stored(&bytes)?;
                Ok(bytes)
            };
            read().map(|bytes| (entry, bytes)).map_err(&fail)
        })?;
        let columns = columns.into_iter().filter(|(entry, _)| Some(entry.id) != increments);
        Ok(Self { columns: columns.collect(), counts })
    }
}

/// What a frame's columns count, and its increments.
pub(crate) fn split(kind: FrameKind, counts: Ledger) -> (Ledger, Ledger) {
    let mut by_columns = Ledger::new(counts.sources.len());
    let mut increments = counts;
    for (by_columns, increments) in by_columns.sources.iter_mut().zip(&mut increments.sources) {
        for &entry in Entry::ALL.iter().filter(|&&entry| is_derived(kind, entry)) {
            by_columns[entry] = std::mem::take(&mut increments[entry]);
        }
    }
    (by_columns, increments)
}

/// Of the increments of a frame of another place, what describes the frame itself.
pub(crate) fn only_of_frame(increments: &Ledger) -> Ledger {
    let mut only = Ledger::new(increments.sources.len());
    for (only, all) in only.sources.iter_mut().zip(&increments.sources) {
        OF_FRAME.iter().for_each(|&entry| only[entry] = all[entry]);
    }
    only
}

/// The lesser of both, entry by entry.
pub(crate) fn lesser(one: &SourceLedger, other: &SourceLedger) -> SourceLedger {
    one.since(&one.since(other))
}

/// The column of a frame's increments; none if it counts nothing.
pub(crate) fn increments_column(
    schema: &Schema,
    kind: FrameKind,
    increments: &Ledger,
) -> Result<Option<(ColumnEntry, Vec<u8>)>, StorageError> {
    let mut records = Vec::new();
    match kind {
        FrameKind::Events => encode_ledger_increment(increments, &mut records),
        _ => encode_channel_increment(increments, &mut records),
    }
    if records.is_empty() {
        return Ok(None);
    }
    let id = schema.column(None, &ColumnKind::LedgerIncrement);
    let id = id.ok_or_else(|| unwritable("the ledger", "the schema has no column for it"))?;
    let bytes = records.len() as u64;
    let entry = ColumnEntry {
        id,
        codec: Codec::None,
        dtype: Dtype::Record,
        flags: 0,
        crc32c: 0,
        offset: 0,
        stored_bytes: bytes,
        raw_bytes: bytes,
        rows: bytes / LEDGER_RECORD_BYTES,
        start_ns: 0,
        first_sample: 0,
    };
    Ok(Some((entry, records)))
}

/// Bytes of a ledger's record.
const LEDGER_RECORD_BYTES: u64 = 16;
