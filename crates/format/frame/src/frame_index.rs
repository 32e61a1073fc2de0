//! The frames of a file, and their columns' entries: from a TOC, from checkpoints, or from a walk.
//!
//! A column's list in a TOC or checkpoint is read when it is first requested, and cached.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::FrameError;
use crate::frame::{ColumnEntry, FrameSummary};
use crate::lists::{FrameEntry, Lists};
use crate::read_at::ReadAt;
use crate::toc_reader::Toc;
use crate::walk::{Skipped, Walk};

/// The known frames of a file: tables, which are a TOC or a chain of checkpoints, and the walked
/// frames after them.
#[derive(Debug)]
pub(crate) struct FrameIndex {
    /// In file order.
    pub frames: Vec<FrameSummary>,
    tables: Vec<Table>,
    /// Lists read from tables, by the table's index and the column.
    cached: Mutex<HashMap<(u32, u32), List>>,
    /// Entries of the frames after the tables, by column.
    walked: Lists,
    /// The ranges that a walk skipped.
    pub skipped: Vec<Skipped>,
    /// The range in the file of a TOC found by walking.
    pub toc_range: Option<Range<u64>>,
    /// The offset at which the next frame of an unclosed file will begin.
    pub end: u64,
}

type List = Arc<[FrameEntry]>;

#[derive(Debug)]
struct Table {
    toc: Toc,
    /// The index of its first frame among all frames.
    first: usize,
}

impl FrameIndex {
    /// The frames of a TOC, or of checkpoints in file order, of which the last one ends at `end`.
    pub(crate) fn of_tables(tables: Vec<Toc>, end: u64) -> Self {
        let mut frames = Vec::new();
        let table = |mut toc: Toc| {
            let first = frames.len();
            frames.append(&mut toc.frames);
            Table { toc, first }
        };
        let tables = tables.into_iter().map(table).collect();
        let (walked, skipped) = (Lists::default(), Vec::new());
        let cached = Mutex::default();
        Self { frames, tables, cached, walked, skipped, toc_range: None, end }
    }

    /// The TOC, if the frames are from one.
    pub(crate) fn toc(&self) -> Option<&Toc> {
        self.tables.first().map(|table| &table.toc).filter(|toc| toc.is_toc())
    }

    /// The newest checkpoint, if the frames are from checkpoints.
    pub(crate) fn newest_checkpoint(&self) -> Option<&Toc> {
        self.tables.last().map(|table| &table.toc).filter(|toc| !toc.is_toc())
    }

    /// TOC or checkpoints.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Toc> {
        self.tables.iter().map(|table| &table.toc)
    }

    /// The number of frames listed by the tables: the first ones.
    pub(crate) fn listed_count(&self) -> usize {
        self.tables.last().map_or(0, |table| table.first + table.toc.frame_count)
    }

    /// Adds the result of a walk that began at `end`.
    pub(crate) fn add_walk(&mut self, mut walk: Walk) {
        if walk.end > self.end {
            let end = self.end;
            self.skipped.retain(|skipped| skipped.offset < end);
        }
        self.skipped.append(&mut walk.skipped);
        let first = self.frames.len() as u32;
        for (column, list) in walk.lists {
            let list = list.into_iter().map(|(frame, entry)| (first + frame, entry));
            self.walked.entry(column).or_default().extend(list);
        }
        self.frames.append(&mut walk.frames);
        self.toc_range = walk.toc;
        self.end = walk.end;
    }

    /// Replaces walked frames with a new checkpoint, if it lists exactly the frames that are before
    /// it and in no table.
    pub(crate) fn add_checkpoint(&mut self, mut toc: Toc) {
        let first = self.listed_count();
        let after = first + toc.frame_count;
        let previous = self.tables.last().map_or(0, |table| table.toc.offset());
        if toc.previous != previous || self.frames.get(first..after) != Some(&toc.frames[..]) {
            return;
        }
        toc.frames = Vec::new();
        self.tables.push(Table { toc, first });
        self.walked.retain(|_, list| {
            list.drain(..list.partition_point(|(frame, _)| (*frame as usize) < after));
            !list.is_empty()
        });
    }

    /// A column's entry in a frame. A list read for it is cached if `cache` is set.
    pub(crate) fn find<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        frame: usize,
        column: u32,
        cache: bool,
    ) -> Result<Option<ColumnEntry>, FrameError> {
        if frame >= self.listed_count() {
            return Ok(self.walked.get(&column).and_then(|list| find(list, frame)));
        }
        let index = self.tables.partition_point(|table| table.first <= frame) - 1;
        let list = self.list(reader, index, column, cache)?;
        Ok(find(&list, frame - self.tables[index].first))
    }

    /// A column's entries in all frames that have it, in order of the frame's index.
    pub(crate) fn entries<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        column: u32,
        cache: bool,
    ) -> Result<List, FrameError> {
        if self.toc().is_some() {
            return self.list(reader, 0, column, cache);
        }
        let mut all = Vec::new();
        for (index, table) in self.tables.iter().enumerate() {
            let list = self.list(reader, index, column, cache)?;
            all.extend(list.iter().map(|(frame, entry)| (frame + table.first as u32, *entry)));
        }
        all.extend_from_slice(self.walked.get(&column).map(Vec::as_slice).unwrap_or_default());
        Ok(all.into())
    }

    fn list<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        table: usize,
        column: u32,
        cache: bool,
    ) -> Result<List, FrameError> {
        let key = (table as u32, column);
        let cached = self.cached.lock().get(&key).cloned();
        if let Some(list) = cached {
            return Ok(list);
        }
        let toc = &self.tables[table].toc;
        let list: List = toc.list(reader, column)?.unwrap_or_default().into();
        if cache {
            let copy = Arc::clone(&list);
            self.cached.lock().insert(key, copy);
        }
        Ok(list)
    }
}

fn find(list: &[FrameEntry], frame: usize) -> Option<ColumnEntry> {
    let index = list.binary_search_by_key(&frame, |(index, _)| *index as usize).ok()?;
    Some(list[index].1)
}
