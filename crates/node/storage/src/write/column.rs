//! A column of a frame written without a recorder.

use catchment_encoder::{Buffer, Column, StoredBytes};
use catchment_trends::{Seen, Watch};

use super::{ColumnData, Make, StoredColumn};
use crate::error::StorageError;

/// A column's bytes, and their observer.
pub(super) struct RunColumn<'a> {
    data: ColumnData<'a>,
    /// Raw bytes that were made.
    made: Buffer,
    /// Why they could not be made.
    error: Option<StorageError>,
    watch: Option<Watch>,
}

impl<'a> RunColumn<'a> {
    pub(super) fn new(data: ColumnData<'a>, watch: Option<Watch>) -> Self {
        Self { data, made: Buffer::default(), error: None, watch }
    }

    /// Whether its samples are observed.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Why it could not be made.
    pub(super) fn into_error(self) -> Option<StorageError> {
        self.error
    }

    /// The most stored bytes: a column that does not get smaller is stored as it is.
    pub(super) fn bytes_max(&self) -> u64 {
        match &self.data {
            ColumnData::Stored(stored) => stored.bytes.len() as u64,
            data => data.raw_bytes() as u64,
        }
    }
}

impl<'a> From<ColumnData<'a>> for RunColumn<'a> {
    fn from(data: ColumnData<'a>) -> Self {
        Self::new(data, None)
    }
}

impl From<Vec<u8>> for RunColumn<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(ColumnData::Own(bytes), None)
    }
}

impl Column for RunColumn<'_> {
    type Seen = Seen;

    fn prepare(&mut self, buffer: &mut dyn FnMut(usize) -> Buffer) -> bool {
        let ColumnData::Make(Make { raw_bytes, make }) = &self.data else { return true };
        self.made = buffer(*raw_bytes);
        self.made.resize(*raw_bytes, 0);
        self.error = make(&mut self.made).err();
        self.error.is_none()
    }

    fn stored(&self) -> Option<StoredBytes<'_>> {
        let ColumnData::Stored(stored) = &self.data else { return None };
        let &StoredColumn { codec, raw_bytes, bytes, checksums } = stored;
        Some(StoredBytes { codec, raw_bytes, bytes, checksums })
    }

    fn raw_bytes(&self) -> usize {
        self.data.raw_bytes()
    }

    fn piece(&self, index: usize) -> Option<&[u8]> {
        let raw = match &self.data {
            ColumnData::Raw(raw) => raw,
            ColumnData::Own(raw) => &raw[..],
            _ => &self.made[..],
        };
        (index == 0).then_some(raw)
    }

    fn looks(&self) -> bool {
        self.watch.is_some()
    }

    fn look(&self, seen: &mut Seen, bytes: &[u8]) {
        if let Some(watch) = &self.watch {
            watch.look(seen, bytes);
        }
    }
}
