//! How columns are stored, without reading them.

use std::collections::BTreeMap;

use catchment_frame::Codec;

use crate::channels::locations_in;
use crate::error::StorageError;
use crate::open::RunFile;
use crate::run::Run;

/// How a column is stored in all frames of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnStorage {
    /// Bytes of its columns as decoded.
    pub raw_bytes: u64,
    /// Bytes of its columns as stored.
    pub stored_bytes: u64,
    /// In how many frames it is stored by what: `bitshuffle+lz4`, `none`. Levels are not known.
    pub codings: BTreeMap<String, u64>,
}

impl Run {
    /// How a column of the schema is stored: from the index, and a few bytes of columns where the
    /// index does not say which shuffle and inner codec a codec used.
    ///
    /// # Errors
    /// An index that cannot be read.
    pub fn stored(&self, column: u32) -> Result<ColumnStorage, StorageError> {
        let mut stored = ColumnStorage::default();
        self.run_files().iter().try_for_each(|file| stored.add(file, column))?;
        Ok(stored)
    }

    /// As [`Run::stored`], of a source's payload; none where its frames have no such column.
    ///
    /// # Errors
    /// As [`Run::stored`].
    pub fn stored_payload(&self, source: usize) -> Result<Option<ColumnStorage>, StorageError> {
        let mut stored = None;
        for file in self.run_files() {
            let columns = file.reader.event_columns().sources.get(source);
            let Some(column) = columns.and_then(|columns| columns.payload) else { continue };
            stored.get_or_insert_with(ColumnStorage::default).add(file, column)?;
        }
        Ok(stored)
    }
}

impl ColumnStorage {
    fn add(&mut self, file: &RunFile, column: u32) -> Result<(), StorageError> {
        let locations = locations_in(file, column)?;
        // The coding rarely changes within a file: if the first and the last column have the same
        // one, so have those between.
        let mut blosc = locations.iter().filter(|(_, entry)| entry.codec == Codec::Blosc);
        let made_by = |(frame, entry): &(u32, _)| {
            let made_by = file.reader.made_by(*frame as usize, entry);
            made_by.unwrap_or_else(|_| Codec::Blosc.to_string().into())
        };
        let first = blosc.next().map(made_by);
        let last = blosc.next_back().map(made_by).or_else(|| first.clone());
        for location in locations.iter() {
            let (_, entry) = location;
            self.raw_bytes = self.raw_bytes.saturating_add(entry.raw_bytes);
            self.stored_bytes = self.stored_bytes.saturating_add(entry.stored_bytes);
            let coding = match &first {
                Some(all) if entry.codec == Codec::Blosc && first == last => all.to_string(),
                _ if entry.codec == Codec::Blosc => made_by(location).into_owned(),
                _ => entry.codec.to_string(),
            };
            *self.codings.entry(coding).or_default() += 1;
        }
        Ok(())
    }
}
