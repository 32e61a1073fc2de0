//! Where columns stand in which frames: from a TOC, from checkpoints, or as a walk found them.
//!
//! Lists of a TOC or checkpoint are read when they are first asked for, and kept.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::FrameError;
use crate::frame::{ColumnEntry, FrameSummary};
use crate::lists::Place;
use crate::read_at::ReadAt;
use crate::toc_reader::Toc;
use crate::walk::{Lists, Skipped};

/// What is known of a file's columns: tables of frames, a TOC or a chain of checkpoints, and behind
/// them the frames that were walked.
#[derive(Debug, Default)]
pub(crate) struct Places {
    tables: Vec<Table>,
    /// Lists of tables that were asked for, by table and column.
    kept: Mutex<HashMap<(u32, u32), List>>,
    /// Frames behind the tables, numbered as in the whole file.
    walked: Lists,
    pub skipped: Vec<Skipped>,
}

type List = Arc<[Place]>;

#[derive(Debug)]
struct Table {
    toc: Toc,
    /// The place of its first frame among all frames.
    first: usize,
}

impl Places {
    /// Those of a TOC, or of checkpoints in the order of the file. Their frames go to `frames`.
    pub(crate) fn of_tables(tables: Vec<Toc>, frames: &mut Vec<FrameSummary>) -> Self {
        let mut places = Self::default();
        for mut toc in tables {
            let first = frames.len();
            frames.append(&mut toc.frames);
            places.tables.push(Table { toc, first });
        }
        places
    }

    /// The TOC, if that is what places are from.
    pub(crate) fn toc(&self) -> Option<&Toc> {
        self.tables.first().map(|table| &table.toc).filter(|toc| toc.is_toc())
    }

    /// The newest checkpoint that places are from.
    pub(crate) fn newest_checkpoint(&self) -> Option<&Toc> {
        self.tables.last().map(|table| &table.toc).filter(|toc| !toc.is_toc())
    }

    /// TOC or checkpoints.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Toc> {
        self.tables.iter().map(|table| &table.toc)
    }

    /// How many frames the tables list.
    pub(crate) fn tabled(&self) -> usize {
        self.tables.last().map_or(0, |table| table.first + table.toc.frame_count)
    }

    /// Takes in what a walk behind the tables found: the lists number its frames from `first`.
    pub(crate) fn add_walked(&mut self, lists: Lists, first: usize) {
        for (column, list) in lists {
            let places = list.into_iter().map(|(frame, entry)| (frame + first as u32, entry));
            self.walked.entry(column).or_default().extend(places);
        }
    }

    /// Takes a new checkpoint in place of what was walked, if it lists exactly those of the frames
    /// that stand before it and are in no table.
    pub(crate) fn add_checkpoint(&mut self, mut toc: Toc, frames: &[FrameSummary]) {
        let first = self.tabled();
        let after = first + toc.frame_count;
        let previous = self.tables.last().map_or(0, |table| table.toc.offset());
        if toc.previous != previous || frames.get(first..after) != Some(&toc.frames[..]) {
            return;
        }
        toc.frames = Vec::new();
        self.tables.push(Table { toc, first });
        self.walked.retain(|_, list| {
            list.drain(..list.partition_point(|(frame, _)| (*frame as usize) < after));
            !list.is_empty()
        });
    }

    /// Where a column stands in a frame. Lists are kept if `keep`.
    pub(crate) fn find<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        frame: usize,
        column: u32,
        keep: bool,
    ) -> Result<Option<ColumnEntry>, FrameError> {
        let table = self.tables.partition_point(|table| table.first <= frame).checked_sub(1);
        let inside =
            table.filter(|&at| frame < self.tables[at].first + self.tables[at].toc.frame_count);
        let Some(at) = inside else {
            return Ok(self.walked.get(&column).and_then(|list| find(list, frame)));
        };
        let list = self.list(reader, at, column, keep)?;
        Ok(find(&list, frame - self.tables[at].first))
    }

    /// All places of a column, by rising frame.
    pub(crate) fn all<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        column: u32,
        keep: bool,
    ) -> Result<List, FrameError> {
        if self.toc().is_some() {
            return self.list(reader, 0, column, keep);
        }
        let mut all = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            let list = self.list(reader, at, column, keep)?;
            all.extend(list.iter().map(|(frame, entry)| (frame + table.first as u32, *entry)));
        }
        all.extend_from_slice(self.walked.get(&column).map(Vec::as_slice).unwrap_or_default());
        Ok(all.into())
    }

    /// Whether a table lists that frame, so that its columns are known beside its own header.
    pub(crate) fn has_table_of(&self, frame: usize) -> bool {
        frame < self.tabled()
    }

    fn list<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        table: usize,
        column: u32,
        keep: bool,
    ) -> Result<List, FrameError> {
        let key = (table as u32, column);
        let kept = self.kept.lock().get(&key).cloned();
        if let Some(list) = kept {
            return Ok(list);
        }
        let toc = &self.tables[table].toc;
        let list: List = toc.list(reader, column)?.unwrap_or_default().into();
        if keep {
            let copy = Arc::clone(&list);
            self.kept.lock().insert(key, copy);
        }
        Ok(list)
    }
}

fn find(list: &[Place], frame: usize) -> Option<ColumnEntry> {
    let at = list.binary_search_by_key(&frame, |(index, _)| *index as usize).ok()?;
    Some(list[at].1)
}
