//! Events and fragments, a frame at a time: as text, NumPy arrays, raw bytes, Parquet and Arrow.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use catchment_model::{EventFlags, SourceId};
use catchment_storage::Run;

use super::arrow::{self, ArrowFile, Kind};
use super::{Sink, with_suffix};
use crate::npy::Npy;

/// What takes events, a frame's at a time.
pub(crate) trait Frames {
    /// Writes some rows of a frame.
    fn rows(&mut self, run: &Run, frame: usize, rows: &[Range<usize>]) -> anyhow::Result<()>;

    /// Hands over what came so far.
    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Ends, and says which files were written, if any were made here.
    fn finish(mut self: Box<Self>) -> anyhow::Result<Vec<PathBuf>> {
        self.flush()?;
        Ok(Vec::new())
    }
}

fn each(rows: &[Range<usize>]) -> impl Iterator<Item = usize> {
    rows.iter().cloned().flatten()
}

/// A line per event.
pub(crate) struct EventLines<'a> {
    sink: Sink<'a>,
}

impl<'a> EventLines<'a> {
    pub(crate) fn new(mut sink: Sink<'a>) -> anyhow::Result<Self> {
        sink.bytes(b"event,time_ns,flags\n")?;
        Ok(Self { sink })
    }
}

impl Frames for EventLines<'_> {
    fn rows(&mut self, run: &Run, frame: usize, rows: &[Range<usize>]) -> anyhow::Result<()> {
        let events = run.events(frame)?;
        let mut text = String::new();
        for row in each(rows) {
            let (key, time) = (events.keys()[row], events.times_ns()[row]);
            writeln!(text, "{key},{time},{}", EventFlags(events.flags()[row]))?;
        }
        Ok(self.sink.bytes(text.as_bytes())?)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.sink.flush()?)
    }
}

/// One array of records.
pub(crate) struct EventRecords {
    npy: Npy,
}

impl EventRecords {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let npy =
            Npy::create(path, "[('event', '<u8'), ('time_ns', '<u8'), ('flags', '<u4')]", 20)?;
        Ok(Self { npy })
    }
}

impl Frames for EventRecords {
    fn rows(&mut self, run: &Run, frame: usize, rows: &[Range<usize>]) -> anyhow::Result<()> {
        let events = run.events(frame)?;
        for row in each(rows) {
            self.npy.bytes(&events.keys()[row].to_le_bytes())?;
            self.npy.bytes(&events.times_ns()[row].to_le_bytes())?;
            self.npy.bytes(&events.flags()[row].to_le_bytes())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> anyhow::Result<Vec<PathBuf>> {
        Ok(vec![self.npy.finish()?])
    }
}

/// Fragments as lines of hexadecimal, one for each event, or as they are. Of an event that has none
/// a line says neither bytes nor fragment.
pub(crate) struct FragmentBytes<'a> {
    source: SourceId,
    lines: bool,
    sink: Sink<'a>,
}

impl<'a> FragmentBytes<'a> {
    pub(crate) fn new(source: SourceId, lines: bool, mut sink: Sink<'a>) -> anyhow::Result<Self> {
        if lines {
            sink.bytes(b"event,time_ns,flags,bytes,fragment\n")?;
        }
        Ok(Self { source, lines, sink })
    }
}

impl Frames for FragmentBytes<'_> {
    fn rows(&mut self, run: &Run, frame: usize, rows: &[Range<usize>]) -> anyhow::Result<()> {
        let column = run.fragments(frame, self.source)?;
        let mut text = String::new();
        for row in each(rows) {
            let fragment = column.fragment(row);
            if !self.lines {
                self.sink.bytes(fragment.unwrap_or_default())?;
                continue;
            }
            let events = column.events();
            let (key, time) = (events.keys()[row], events.times_ns()[row]);
            write!(text, "{key},{time},{},", EventFlags(events.flags()[row]))?;
            match fragment {
                Some(fragment) => {
                    write!(text, "{},", fragment.len())?;
                    fragment.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
                }
                None => text.push(','),
            }
            text.push('\n');
        }
        Ok(self.sink.bytes(text.as_bytes())?)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.sink.flush()?)
    }
}

/// Four arrays: fragment *i* is `payload[offsets[i]:offsets[i + 1]]` and belongs to the event
/// `keys[i]`, which has one if `valid[i]`.
pub(crate) struct FragmentArrays {
    source: SourceId,
    keys: Npy,
    valid: Npy,
    offsets: Npy,
    payload: Npy,
    end: u64,
}

impl FragmentArrays {
    pub(crate) fn create(source: SourceId, base: &Path) -> anyhow::Result<Self> {
        let named = |suffix| with_suffix(base, suffix);
        let mut offsets = Npy::create(&named(".offsets.npy"), "'<u8'", 8)?;
        offsets.numbers(&[0])?;
        let keys = Npy::create(&named(".keys.npy"), "'<u8'", 8)?;
        let payload = Npy::create(&named(".payload.npy"), "'|u1'", 1)?;
        let valid = Npy::create(&named(".valid.npy"), "'|b1'", 1)?;
        Ok(Self { source, keys, valid, offsets, payload, end: 0 })
    }
}

impl Frames for FragmentArrays {
    fn rows(&mut self, run: &Run, frame: usize, rows: &[Range<usize>]) -> anyhow::Result<()> {
        let column = run.fragments(frame, self.source)?;
        for row in each(rows) {
            let fragment = column.fragment(row);
            self.valid.bytes(&[u8::from(fragment.is_some())])?;
            let fragment = fragment.unwrap_or_default();
            self.end += fragment.len() as u64;
            self.keys.numbers(&[column.events().keys()[row]])?;
            self.offsets.numbers(&[self.end])?;
            self.payload.bytes(fragment)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> anyhow::Result<Vec<PathBuf>> {
        let files = [self.keys, self.valid, self.offsets, self.payload];
        files.into_iter().map(Npy::finish).collect()
    }
}

/// A table: event, time, flags, and the fragments of a source where one is asked for (null where an
/// event has none).
pub(crate) struct EventTable {
    source: Option<SourceId>,
    schema: SchemaRef,
    file: ArrowFile,
}

impl EventTable {
    pub(crate) fn create(
        source: Option<(SourceId, &str)>,
        path: &Path,
        kind: Kind,
    ) -> anyhow::Result<Self> {
        let mut fields = vec![
            Field::new("event", DataType::UInt64, false),
            Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
            Field::new("flags", DataType::UInt32, false),
        ];
        fields.extend(source.map(|(_, name)| Field::new(name, DataType::LargeBinary, true)));
        let schema = Arc::new(Schema::new(fields));
        let file = ArrowFile::create(path, kind, Arc::clone(&schema))?;
        Ok(Self { source: source.map(|(id, _)| id), schema, file })
    }
}

impl Frames for EventTable {
    fn rows(&mut self, run: &Run, frame: usize, rows: &[Range<usize>]) -> anyhow::Result<()> {
        let events = run.events(frame)?;
        let rows: Vec<usize> = each(rows).collect();
        let keys = rows.iter().map(|&row| events.keys()[row]);
        let flags = rows.iter().map(|&row| events.flags()[row]);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(keys)),
            arrow::times(rows.iter().map(|&row| events.times_ns()[row])),
            Arc::new(UInt32Array::from_iter_values(flags)),
        ];
        if let Some(source) = self.source {
            let column = run.fragments(frame, source)?;
            let mut fragments = LargeBinaryBuilder::new();
            for &row in &rows {
                fragments.append_option(column.fragment(row));
            }
            columns.push(Arc::new(fragments.finish()));
        }
        self.file.write(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    fn finish(self: Box<Self>) -> anyhow::Result<Vec<PathBuf>> {
        Ok(vec![self.file.finish()?])
    }
}
