//! The parts of raw columns that have been verified.
//!
//! The checksum of a column covers all of it, but a range of samples is a part. In files of version
//! 1.3 each larger column is followed by checksums of blocks of 64 KiB: for a range, the blocks
//! that contain it are checked. A larger column without such a table, or with a damaged one, is
//! checked as a whole when a part of it is first read. Checks are remembered, so each costs once:
//! tables and a bit for each block, at most 8 MiB for a run, the least recently used forgotten
//! first.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_frame::{Blocks, CHECKED_BLOCK_BYTES, ColumnEntry, FrameError, StoredColumn};
use parking_lot::Mutex;

use crate::cache::{Cache, Cached, ITEM_OVERHEAD_BYTES};
use crate::open::Counted;

/// A column, by its frame's index in [`Run::channel_frames`](crate::Run::channel_frames) and its
/// number.
pub(crate) type Key = (usize, u32);

/// The columns of a run that were read in part.
pub(crate) struct CheckedColumns {
    columns: Cache<Key, Arc<CheckedColumn>>,
    /// Whether a large column without a table is checked before a part of it is returned.
    whole: bool,
    bad_tables: Mutex<BTreeSet<Key>>,
}

/// A column that was read in part.
pub(crate) struct CheckedColumn {
    blocks: Blocks,
    /// A bit for each block: whether it has been checked.
    seen: Vec<AtomicU64>,
}

impl CheckedColumns {
    pub(crate) fn new(whole: bool) -> Self {
        Self { columns: Cache::new(BYTES_MAX), whole, bad_tables: Mutex::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.columns.clear();
        self.bad_tables.get_mut().clear();
    }

    /// Columns with bad tables; they were checked as a whole.
    pub(crate) fn bad_tables(&self) -> Vec<Key> {
        self.bad_tables.lock().iter().copied().collect()
    }

    /// The part of a column's stored bytes to read for `wanted` of them: the blocks that contain
    /// them and are unchecked. Reads nothing.
    pub(crate) fn to_read(&self, key: Key, entry: &ColumnEntry, wanted: &Range<u64>) -> Range<u64> {
        let blocks = match self.columns.get(key) {
            Some(column) => column.blocks.bytes_of(&column.unseen(wanted)),
            None if entry.has_table() || entry.stored_bytes <= CHECKED_BLOCK_BYTES => {
                let start = wanted.start / CHECKED_BLOCK_BYTES * CHECKED_BLOCK_BYTES;
                let end = wanted.end.div_ceil(CHECKED_BLOCK_BYTES) * CHECKED_BLOCK_BYTES;
                start..end.min(entry.stored_bytes)
            }
            None => 0..0,
        };
        if blocks.is_empty() {
            return wanted.clone();
        }
        wanted.start.min(blocks.start)..wanted.end.max(blocks.end)
    }

    /// A column that is read in part. Its table is read if it has one; otherwise it is checked
    /// here, unless it is short, or the run was opened with checking off.
    ///
    /// # Errors
    /// A column that is damaged or cannot be read.
    pub(crate) fn column(
        &self,
        key: Key,
        entry: &ColumnEntry,
        stored: &StoredColumn<'_, Counted>,
    ) -> Result<Arc<CheckedColumn>, FrameError> {
        self.columns.get_or_make(key, || {
            let whole = Blocks::whole(entry.crc32c, entry.stored_bytes);
            match stored.blocks() {
                Ok(Some(blocks)) => return Ok(Arc::new(CheckedColumn::new(blocks))),
                Ok(None) if entry.stored_bytes <= CHECKED_BLOCK_BYTES => {
                    return Ok(Arc::new(CheckedColumn::new(whole)));
                }
                Ok(None) if !self.whole => {}
                Ok(None) => stored.verify_stored()?,
                Err(error) if error.is_bad_table() => {
                    let mut bad = self.bad_tables.lock();
                    if bad.len() < BAD_TABLES_MAX {
                        bad.insert(key);
                    }
                    drop(bad);
                    stored.verify_stored()?;
                }
                Err(error) => return Err(error),
            }
            let column = CheckedColumn::new(whole);
            column.saw(&(0..1));
            Ok(Arc::new(column))
        })
    }
}

impl CheckedColumn {
    fn new(blocks: Blocks) -> Self {
        let words = blocks.count().div_ceil(64);
        Self { blocks, seen: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    fn is_seen(&self, block: usize) -> bool {
        self.seen[block / 64].load(Relaxed) & (1 << (block % 64)) != 0
    }

    /// Of the blocks that contain these bytes, the range from the first to the last unchecked one.
    fn unseen(&self, bytes: &Range<u64>) -> Range<usize> {
        let mut blocks = self.blocks.holding(bytes);
        while blocks.start < blocks.end && self.is_seen(blocks.start) {
            blocks.start += 1;
        }
        while blocks.start < blocks.end && self.is_seen(blocks.end - 1) {
            blocks.end -= 1;
        }
        blocks
    }

    fn saw(&self, blocks: &Range<usize>) {
        for block in blocks.clone() {
            self.seen[block / 64].fetch_or(1 << (block % 64), Relaxed);
        }
    }

    /// Checks the blocks that contain `wanted` of a column's stored bytes and are unchecked. `read`
    /// is the part that was read: whole blocks, as given by [`CheckedColumns::to_read`].
    ///
    /// # Errors
    /// A damaged block.
    pub(crate) fn check(
        &self,
        stored: &StoredColumn<'_, Counted>,
        wanted: &Range<u64>,
        (start, read): (u64, &[u8]),
    ) -> Result<(), FrameError> {
        let unseen = self.unseen(wanted);
        if unseen.is_empty() {
            return Ok(());
        }
        let bytes = self.blocks.bytes_of(&unseen);
        let within = bytes.start.checked_sub(start).map(|at| at as usize);
        let within = within.and_then(|at| read.get(at..at + (bytes.end - bytes.start) as usize));
        let Some(within) = within else {
            // The record of checked blocks was evicted meanwhile.
            stored.verify_stored()?;
            self.saw(&(0..self.blocks.count()));
            return Ok(());
        };
        let mut check = self.blocks.check(unseen.clone());
        check.update(within).map_err(|bad| stored.block_error(bad))?;
        assert!(check.is_over(), "all bytes of the blocks");
        self.saw(&unseen);
        Ok(())
    }

    /// Reads `wanted` of the stored bytes of a column that begins at `at` in the file, and checks
    /// the unchecked blocks that contain them. Other bytes that are read go to `scratch`.
    ///
    /// # Errors
    /// A failed read, or a damaged block.
    pub(crate) fn read(
        &self,
        stored: &StoredColumn<'_, Counted>,
        (at, wanted): (u64, &Range<u64>),
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let unseen = self.unseen(wanted);
        if unseen.is_empty() {
            return stored.read_bytes(at + wanted.start, out);
        }
        let blocks = self.blocks.bytes_of(&unseen);
        let mut check = self.blocks.check(unseen.clone());
        let end = wanted.end.max(blocks.end);
        let mut position = wanted.start.min(blocks.start);
        while position < end {
            let piece = position + PIECE_BYTES;
            let borders = [wanted.start, wanted.end, blocks.start, blocks.end, piece];
            let next = borders.into_iter().filter(|&border| border > position).min();
            let next = next.map_or(end, |next| next.min(end));
            let bytes = (next - position) as usize;
            let to = if wanted.contains(&position) {
                let from = (position - wanted.start) as usize;
                &mut out[from..from + bytes]
            } else {
                if scratch.len() < bytes {
                    scratch.resize(bytes, 0);
                }
                &mut scratch[..bytes]
            };
            stored.read_bytes(at + position, to)?;
            if blocks.contains(&position) {
                check.update(to).map_err(|bad| stored.block_error(bad))?;
            }
            position = next;
        }
        assert!(check.is_over(), "all bytes of the blocks");
        self.saw(&unseen);
        Ok(())
    }
}

impl Cached for Arc<CheckedColumn> {
    fn bytes(&self) -> usize {
        4 * self.blocks.count() + 8 * self.seen.len() + ITEM_OVERHEAD_BYTES
    }
}

/// Tables for half a terabyte of columns of 4 MB.
const BYTES_MAX: usize = 8 << 20;
/// Columns with bad tables that are remembered.
const BAD_TABLES_MAX: usize = 1_000;
/// Bytes that are read and then checked while they are in each CPU's own cache.
const PIECE_BYTES: u64 = 256 << 10;
