//! Copying a frame as it is stored, for `merge` and for places that are caught up: its columns with
//! their codecs, checked by their checksums, and the ledger's increments apart from them. What a
//! frame of one place counts may differ from what its copy in another has to count.

use std::collections::{BTreeMap, BTreeSet};

use catchment_frame::{
    BlockChecksums, Codec, ColumnEntry, ColumnKind, ColumnProblem, Dtype, FileReader, FrameError,
    FrameKind, ReadAt, Schema, encode_channel_increment, encode_ledger_increment, frame_ledger,
    is_derived, unqualified,
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

/// A copy of a frame of which something is damaged: its columns are as they are.
pub(crate) struct DamagedFrame {
    /// The frame, also with increments that are damaged.
    pub(crate) copy: FrameCopy,
    /// The damaged columns, with the checksums that they were stored with.
    pub(crate) columns: BTreeMap<u32, (BlockChecksums, StorageError)>,
    /// What cannot be counted, or contradicts the rest.
    pub(crate) uncounted: Vec<StorageError>,
}

impl FrameCopy {
    /// Reads and checks a frame. `fail` names its file in errors.
    pub(crate) fn read<R: ReadAt + Sync>(
        reader: &FileReader<R>,
        index: usize,
        fail: impl Fn(FrameError) -> StorageError + Sync,
    ) -> Result<Self, StorageError> {
        let frame = DamagedFrame::read(reader, index, fail)?;
        let problem = frame.uncounted.into_iter().next();
        match problem.or(frame.columns.into_values().map(|(_, error)| error).next()) {
            Some(error) => Err(error),
            None => Ok(frame.copy),
        }
    }
}

impl DamagedFrame {
    /// Reads a frame as far as its columns are as long as its directory says.
    pub(crate) fn read<R: ReadAt + Sync>(
        reader: &FileReader<R>,
        index: usize,
        fail: impl Fn(FrameError) -> StorageError + Sync,
    ) -> Result<Self, StorageError> {
        let entries = reader.columns(index).map_err(&fail)?;
        let (counts, problems) = frame_ledger(reader, index);
        let increments = reader.header().schema.column(None, &ColumnKind::LedgerIncrement);
        let read = parallel::map(entries, parallel::threads(), |entry| {
            let column = stored(reader, index, &entry).map_err(&fail)?;
            Ok((entry, column))
        })?;
        let (mut columns, mut damaged) = (Vec::new(), BTreeMap::new());
        for (entry, (bytes, damage)) in read {
            let is_damaged = damage.is_some();
            if let Some((checksums, error)) = damage {
                damaged.insert(entry.id, (checksums, fail(error)));
            }
            if is_damaged || Some(entry.id) != increments {
                columns.push((entry, bytes));
            }
        }
        let uncounted = problems.into_iter().map(&fail).collect();
        Ok(Self { copy: FrameCopy { columns, counts }, columns: damaged, uncounted })
    }

    /// Takes those of the damaged columns that are whole in another copy of the frame, if what the
    /// frame counts is known.
    pub(crate) fn mend(&mut self, other: &Self) {
        if !self.uncounted.is_empty() {
            return;
        }
        let copied = |id| {
            let is_whole = !other.columns.contains_key(&id);
            other.copy.columns.iter().find(|(entry, _)| is_whole && entry.id == id)
        };
        for column in &mut self.copy.columns {
            let of_copy = copied(column.0.id).filter(|_| self.columns.contains_key(&column.0.id));
            if let Some(of_copy) = of_copy {
                *column = of_copy.clone();
                self.columns.remove(&of_copy.0.id);
            }
        }
    }

    /// What is damaged, each once.
    pub(crate) fn damage(&self) -> BTreeSet<String> {
        let columns = self.columns.values().map(|(_, error)| error);
        columns.chain(&self.uncounted).map(ToString::to_string).collect()
    }
}

/// The checksums that a column was stored with, by id.
pub(crate) type KeptChecksums = BTreeMap<u32, BlockChecksums>;

/// These of a damaged column, and what is wrong.
type Damage = (BlockChecksums, FrameError);

/// The stored bytes of a column; if they are not those of its checksum, also which checksums they
/// were stored with.
fn stored<R: ReadAt + Sync>(
    reader: &FileReader<R>,
    index: usize,
    entry: &ColumnEntry,
) -> Result<(Vec<u8>, Option<Damage>), FrameError> {
    // Bytes with holes are of the codec that their own is made from.
    let codec = unqualified(entry.codec).unwrap_or(entry.codec);
    let plain = ColumnEntry { codec, ..*entry };
    let column = reader.stored_column(index, &plain)?;
    let checked = match codec {
        Codec::Base => column.base_parts().map(drop),
        // Of what a later version wrote the checksum can be checked.
        Codec::Unknown(_) => column.verify_stored(),
        _ => column.check(),
    };
    let is_checksum = |error: &FrameError| {
        let FrameError::Column { problem, .. } = error else { return false };
        matches!(problem, ColumnProblem::Checksum { .. })
    };
    // Other entries cannot be: nothing could be made of their bytes.
    checked.or_else(|error| if is_checksum(&error) { Ok(()) } else { Err(error) })?;
    let mut bytes = vec![0; entry.stored_bytes as usize];
    column.read_bytes(reader.frames()[index].offset + entry.offset, &mut bytes)?;
    let damage = column.check_stored(&bytes).err().map(|error| {
        let table = column.blocks().ok().flatten();
        (BlockChecksums::of_damaged(&bytes, entry.crc32c, table), error)
    });
    Ok((bytes, damage))
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
