//! Events and fragments, a frame at a time: as text, NumPy arrays, raw bytes, Parquet and Arrow.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::{ArrayRef, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field};
use catchment_model::{EventFlags, SourceId};
use catchment_storage::Run;

use super::arrow::{self, ArrowFile, Kind};
use super::{Sink, with_suffix};
use crate::npy::Npy;

/// What takes events, a frame's at a time.
pub(crate) enum Output<'a> {
    /// A line per event.
    EventLines(Sink<'a>),
    /// One array of records.
    EventRecords(Npy),
    /// Fragments as lines of hexadecimal, one for each event. Of an event that has none a line says
    /// neither bytes nor fragment.
    FragmentLines(SourceId, Sink<'a>),
    /// Fragments as they are.
    FragmentBytes(SourceId, Sink<'a>),
    /// Four arrays.
    FragmentArrays(SourceId, Box<FragmentArrays>),
    /// A table: event, time, flags, and the fragments of a source where one is asked for (null
    /// where an event has none).
    Table(Option<SourceId>, ArrowFile),
}

/// Fragment *i* is `payload[offsets[i]:offsets[i + 1]]` and belongs to the event `keys[i]`, which
/// has one if `valid[i]`.
pub(crate) struct FragmentArrays {
    keys: Npy,
    valid: Npy,
    offsets: Npy,
    payload: Npy,
    end: u64,
}

impl<'a> Output<'a> {
    pub(crate) fn event_lines(mut sink: Sink<'a>) -> anyhow::Result<Self> {
        sink.bytes(b"event,time_ns,flags\n")?;
        Ok(Self::EventLines(sink))
    }

    pub(crate) fn event_records(path: &Path) -> anyhow::Result<Self> {
        let dtype = "[('event', '<u8'), ('time_ns', '<u8'), ('flags', '<u4')]";
        Ok(Self::EventRecords(Npy::create(path, dtype, 20)?))
    }

    pub(crate) fn fragment_lines(source: SourceId, mut sink: Sink<'a>) -> anyhow::Result<Self> {
        sink.bytes(b"event,time_ns,flags,bytes,fragment\n")?;
        Ok(Self::FragmentLines(source, sink))
    }

    pub(crate) fn fragment_arrays(source: SourceId, base: &Path) -> anyhow::Result<Self> {
        let named = |suffix| with_suffix(base, suffix);
        let mut offsets = Npy::create(&named(".offsets.npy"), "'<u8'", 8)?;
        offsets.numbers(&[0])?;
        let keys = Npy::create(&named(".keys.npy"), "'<u8'", 8)?;
        let payload = Npy::create(&named(".payload.npy"), "'|u1'", 1)?;
        let valid = Npy::create(&named(".valid.npy"), "'|b1'", 1)?;
        let arrays = FragmentArrays { keys, valid, offsets, payload, end: 0 };
        Ok(Self::FragmentArrays(source, Box::new(arrays)))
    }

    pub(crate) fn table(
        source: Option<(SourceId, &str)>,
        path: &Path,
        kind: Kind,
    ) -> anyhow::Result<Self> {
        let mut fields = vec![
            Field::new("event", DataType::UInt64, false),
            arrow::time_field(),
            Field::new("flags", DataType::UInt32, false),
        ];
        fields.extend(source.map(|(_, name)| Field::new(name, DataType::LargeBinary, true)));
        Ok(Self::Table(source.map(|(id, _)| id), ArrowFile::create(path, kind, fields)?))
    }

    /// Writes some rows of a frame.
    pub(crate) fn rows(
        &mut self,
        run: &Run,
        frame: usize,
        rows: &[Range<usize>],
    ) -> anyhow::Result<()> {
        let rows = || rows.iter().cloned().flatten();
        match self {
            Self::EventLines(sink) => {
                let events = run.events(frame)?;
                let mut text = String::new();
                for row in rows() {
                    let (key, time) = (events.keys()[row], events.times_ns()[row]);
                    writeln!(text, "{key},{time},{}", EventFlags(events.flags()[row]))?;
                }
                sink.bytes(text.as_bytes())?;
            }
            Self::EventRecords(npy) => {
                let events = run.events(frame)?;
                for row in rows() {
                    npy.bytes(&events.keys()[row].to_le_bytes())?;
                    npy.bytes(&events.times_ns()[row].to_le_bytes())?;
                    npy.bytes(&events.flags()[row].to_le_bytes())?;
                }
            }
            Self::FragmentLines(source, sink) => {
                let text = fragment_lines(run, frame, *source, rows())?;
                sink.bytes(text.as_bytes())?;
            }
            Self::FragmentBytes(source, sink) => {
                let column = run.fragments(frame, *source)?;
                rows().try_for_each(|row| sink.bytes(column.fragment(row).unwrap_or_default()))?;
            }
            Self::FragmentArrays(source, arrays) => {
                let column = run.fragments(frame, *source)?;
                for row in rows() {
                    let fragment = column.fragment(row);
                    arrays.valid.bytes(&[u8::from(fragment.is_some())])?;
                    let fragment = fragment.unwrap_or_default();
                    arrays.end += fragment.len() as u64;
                    arrays.keys.numbers(&[column.events().keys()[row]])?;
                    arrays.offsets.numbers(&[arrays.end])?;
                    arrays.payload.bytes(fragment)?;
                }
            }
            Self::Table(source, file) => file.write(columns(run, frame, *source, rows)?)?,
        }
        Ok(())
    }

    /// Hands over what came so far.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        match self {
            Self::EventLines(sink)
            | Self::FragmentLines(_, sink)
            | Self::FragmentBytes(_, sink) => Ok(sink.flush()?),
            Self::EventRecords(_) | Self::FragmentArrays(..) | Self::Table(..) => Ok(()),
        }
    }

    /// Ends, and says which files were written, if any were made here.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<PathBuf>> {
        self.flush()?;
        match self {
            Self::EventLines(_) | Self::FragmentLines(..) | Self::FragmentBytes(..) => {
                Ok(Vec::new())
            }
            Self::EventRecords(npy) => Ok(vec![npy.finish()?]),
            Self::FragmentArrays(_, arrays) => {
                let FragmentArrays { keys, valid, offsets, payload, .. } = *arrays;
                [keys, valid, offsets, payload].into_iter().map(Npy::finish).collect()
            }
            Self::Table(_, file) => Ok(vec![file.finish()?]),
        }
    }
}

fn fragment_lines(
    run: &Run,
    frame: usize,
    source: SourceId,
    rows: impl Iterator<Item = usize>,
) -> anyhow::Result<String> {
    let column = run.fragments(frame, source)?;
    let events = column.events();
    let mut text = String::new();
    for row in rows {
        let (key, time) = (events.keys()[row], events.times_ns()[row]);
        write!(text, "{key},{time},{},", EventFlags(events.flags()[row]))?;
        match column.fragment(row) {
            Some(fragment) => {
                write!(text, "{},", fragment.len())?;
                fragment.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
            }
            None => text.push(','),
        }
        text.push('\n');
    }
    Ok(text)
}

fn columns<R: Iterator<Item = usize>>(
    run: &Run,
    frame: usize,
    source: Option<SourceId>,
    rows: impl Fn() -> R,
) -> anyhow::Result<Vec<ArrayRef>> {
    let events = run.events(frame)?;
    let keys = rows().map(|row| events.keys()[row]);
    let flags = rows().map(|row| events.flags()[row]);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(keys)),
        arrow::times(rows().map(|row| events.times_ns()[row])),
        Arc::new(UInt32Array::from_iter_values(flags)),
    ];
    if let Some(source) = source {
        let column = run.fragments(frame, source)?;
        let mut fragments = LargeBinaryBuilder::new();
        rows().for_each(|row| fragments.append_option(column.fragment(row)));
        columns.push(Arc::new(fragments.finish()));
    }
    Ok(columns)
}
