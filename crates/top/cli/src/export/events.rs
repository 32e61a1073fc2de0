//! Events and fragments, a frame at a time: as text, NumPy arrays, raw bytes, Parquet and Arrow.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use arrow_array::builder::{LargeBinaryBuilder, ListBuilder, UInt64Builder};
use arrow_array::{ArrayRef, BooleanArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field};
use catchment_console::UsageError;
use catchment_frame::{ColumnKind, PayloadType};
use catchment_model::{EventFlags, SourceId};
use catchment_storage::{FragmentColumn, Run};

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
    FragmentLines(Fragments, Sink<'a>),
    /// Fragments as they are.
    FragmentBytes(SourceId, Sink<'a>),
    /// Four arrays, and further ones of what there may be: holes, pieces, own times, and whether
    /// events expected the source.
    FragmentArrays(SourceId, Box<FragmentArrays>),
    /// A field of records, as an array.
    Field(SourceId, Box<FieldArrays>),
    /// A table: event, time, flags, and the fragments of a source where one is asked for (null
    /// where an event has none).
    Table(Option<Fragments>, ArrowFile),
}

/// The fragments of a source.
#[derive(Clone, Copy)]
pub(crate) struct Fragments {
    source: SourceId,
    /// Whether they may have holes, zeros in the place of bytes that never came: what is written
    /// says which these are.
    may_have_holes: bool,
    /// Whether an event may have several: what is written says where they part.
    may_have_pieces: bool,
    /// Whether they have times of their own: of events by time.
    have_times: bool,
    /// Whether events may not expect the source: what is written says which do.
    may_be_unexpected: bool,
}

impl Fragments {
    pub(crate) fn of(run: &Run, source: SourceId) -> Self {
        let has = |kind| run.header().schema.column(Some(source), &kind).is_some();
        Self {
            source,
            may_have_holes: has(ColumnKind::FragmentHoles),
            may_have_pieces: has(ColumnKind::FragmentPieces),
            have_times: has(ColumnKind::FragmentTime),
            may_be_unexpected: has(ColumnKind::FragmentExpected),
        }
    }

    pub(crate) fn source(&self) -> SourceId {
        self.source
    }
}

/// Fragment *i* is `payload[offsets[i]:offsets[i + 1]]` and belongs to the event `keys[i]`, which
/// has one if `valid[i]`.
pub(crate) struct FragmentArrays {
    keys: Npy,
    valid: Npy,
    offsets: Npy,
    payload: Npy,
    holes: Option<Npy>,
    /// Rows of the other files, own times and bytes of the fragments of rows that have several.
    pieces: Option<Npy>,
    /// The fragments' own times, and whether the events expected them.
    times: Option<Npy>,
    expected: Option<Npy>,
    rows: u64,
    end: u64,
}

/// Element *i* is of the event `keys[i]`; events without the source's fragment have none.
pub(crate) struct FieldArrays {
    /// Where its bytes are in a fragment.
    range: Range<u64>,
    keys: Npy,
    values: Npy,
    holes: Npy,
    rows: u64,
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

    pub(crate) fn fragment_lines(of: Fragments, mut sink: Sink<'a>) -> anyhow::Result<Self> {
        let holes = if of.may_have_holes { ",holes" } else { "" };
        let pieces = if of.may_have_pieces { ",pieces" } else { "" };
        let times = if of.have_times { ",own_time_ns" } else { "" };
        let expected = if of.may_be_unexpected { ",expected" } else { "" };
        let more = [holes, pieces, times, expected].concat();
        sink.text(&format!("event,time_ns,flags,bytes,fragment{more}\n"))?;
        Ok(Self::FragmentLines(of, sink))
    }

    /// Of a field of the source's records: NAME.keys.npy, NAME.FIELD.npy and NAME.holes.npy.
    pub(crate) fn field(
        run: &Run,
        source: SourceId,
        (name, base): (&str, &Path),
    ) -> anyhow::Result<Self> {
        let of_run = &run.sources()[source.index()].name;
        let payload = record_type(run, source);
        let fields = payload.as_ref().map_or(&[][..], |payload| &payload.fields);
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let there = if names.is_empty() { "none".into() } else { names.join(", ") };
            let text = format!("--field: expected a field of {of_run} ({there}), got {name:?}");
            anyhow::bail!(UsageError(text));
        };
        let dtype = field.dtype.numpy().with_context(|| format!("numpy has no type for {name}"))?;
        let elements = field.shape.iter().try_fold(1_u64, |all, &one| all.checked_mul(one));
        let bytes = elements.and_then(|all| all.checked_mul(field.dtype.bits()? / 8));
        let skip = payload.as_ref().map_or(0, |payload| u64::from(payload.skip));
        let begin = skip.checked_add(field.offset);
        let end = begin.zip(bytes).and_then(|(begin, bytes)| begin.checked_add(bytes));
        let range = begin.zip(end).filter(|(begin, end)| begin < end && field.shape.len() <= 8);
        let (begin, end) = range.with_context(|| format!("numpy has no such array: {name}"))?;
        let range = begin..end;
        let (dtype, item) = (format!("'{dtype}'"), (range.end - range.start) as usize);
        let named = |suffix: &str| with_suffix(base, suffix);
        let values = named(&format!(".{}.npy", file_name(name)));
        Ok(Self::Field(
            source,
            Box::new(FieldArrays {
                range,
                keys: Npy::create(&named(".keys.npy"), "'<u8'", 8)?,
                values: Npy::create_of(&values, &dtype, &field.shape, item)?,
                holes: holes_file(base)?,
                rows: 0,
            }),
        ))
    }

    pub(crate) fn fragment_arrays(of: Fragments, base: &Path) -> anyhow::Result<Self> {
        let named = |suffix| with_suffix(base, suffix);
        let mut offsets = Npy::create(&named(".offsets.npy"), "'<u8'", 8)?;
        offsets.numbers(&[0])?;
        let keys = Npy::create(&named(".keys.npy"), "'<u8'", 8)?;
        let payload = Npy::create(&named(".payload.npy"), "'|u1'", 1)?;
        let valid = Npy::create(&named(".valid.npy"), "'|b1'", 1)?;
        let holes = of.may_have_holes.then(|| holes_file(base)).transpose()?;
        let pieces = of.may_have_pieces.then(|| {
            let dtype = "[('row', '<u8'), ('time_ns', '<u8'), ('bytes', '<u8')]";
            Npy::create(&named(".pieces.npy"), dtype, 24)
        });
        let times = of.have_times.then(|| Npy::create(&named(".times.npy"), "'<u8'", 8));
        let expected = of.may_be_unexpected.then(|| named(".expected.npy"));
        let arrays = FragmentArrays {
            keys,
            valid,
            offsets,
            payload,
            holes,
            pieces: pieces.transpose()?,
            times: times.transpose()?,
            expected: expected.map(|path| Npy::create(&path, "'|b1'", 1)).transpose()?,
            rows: 0,
            end: 0,
        };
        Ok(Self::FragmentArrays(of.source, Box::new(arrays)))
    }

    pub(crate) fn table(
        source: Option<(Fragments, &str)>,
        path: &Path,
        kind: Kind,
    ) -> anyhow::Result<Self> {
        let mut fields = vec![
            Field::new("event", DataType::UInt64, false),
            arrow::time_field(),
            Field::new("flags", DataType::UInt32, false),
        ];
        fields.extend(source.map(|(_, name)| Field::new(name, DataType::LargeBinary, true)));
        let list = |inner| DataType::List(Arc::new(Field::new_list_field(inner, true)));
        let lists = |name: String| Field::new(name, list(list(DataType::UInt64)), false);
        let holes = source.filter(|(of, _)| of.may_have_holes);
        fields.extend(holes.map(|(_, name)| lists(format!("{name}.holes"))));
        let pieces = source.filter(|(of, _)| of.may_have_pieces);
        fields.extend(pieces.map(|(_, name)| lists(format!("{name}.pieces"))));
        let times = source.filter(|(of, _)| of.have_times);
        let times = times.map(|(_, name)| (format!("{name}.time_ns"), DataType::UInt64, true));
        let expected = source.filter(|(of, _)| of.may_be_unexpected);
        let expected =
            expected.map(|(_, name)| (format!("{name}.expected"), DataType::Boolean, false));
        let more = times.into_iter().chain(expected);
        fields.extend(more.map(|(name, of, may_be_null)| Field::new(name, of, may_be_null)));
        Ok(Self::Table(source.map(|(of, _)| of), ArrowFile::create(path, kind, fields)?))
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
            Self::FragmentLines(of, sink) => {
                let text = fragment_lines(run, frame, *of, rows())?;
                sink.bytes(text.as_bytes())?;
            }
            Self::Field(source, arrays) => arrays.add((run, frame, *source), rows())?,
            Self::FragmentBytes(source, sink) => {
                let column = run.fragments(frame, *source)?;
                rows().try_for_each(|row| sink.bytes(column.fragment(row).unwrap_or_default()))?;
            }
            Self::FragmentArrays(source, arrays) => {
                let column = run.fragments(frame, *source)?;
                rows().try_for_each(|row| arrays.add(&column, row))?;
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
            Self::EventRecords(_)
            | Self::FragmentArrays(..)
            | Self::Field(..)
            | Self::Table(..) => Ok(()),
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
                let further = [arrays.holes, arrays.pieces, arrays.times, arrays.expected];
                let all = [keys, valid, offsets, payload].into_iter();
                all.chain(further.into_iter().flatten()).map(Npy::finish).collect()
            }
            Self::Field(_, arrays) => {
                let FieldArrays { keys, values, holes, .. } = *arrays;
                [keys, values, holes].into_iter().map(Npy::finish).collect()
            }
            Self::Table(_, file) => Ok(vec![file.finish()?]),
        }
    }
}

impl FragmentArrays {
    fn add(&mut self, column: &FragmentColumn, row: usize) -> anyhow::Result<()> {
        let fragment = column.fragment(row);
        self.valid.bytes(&[u8::from(fragment.is_some())])?;
        let fragment = fragment.unwrap_or_default();
        self.end += fragment.len() as u64;
        self.keys.numbers(&[column.events().keys()[row]])?;
        self.offsets.numbers(&[self.end])?;
        self.payload.bytes(fragment)?;
        if let Some(file) = &mut self.holes {
            for hole in column.holes(row..row + 1) {
                file.numbers(&[self.rows, hole.offset, hole.bytes])?;
            }
        }
        if let Some(file) = &mut self.pieces {
            for piece in column.pieces(row..row + 1) {
                file.numbers(&[self.rows, piece.time_ns, piece.bytes])?;
            }
        }
        if let Some(file) = &mut self.times {
            file.numbers(&[column.times_ns().get(row).copied().unwrap_or(0)])?;
        }
        if let Some(file) = &mut self.expected {
            file.bytes(&[u8::from(column.is_expected(row))])?;
        }
        self.rows += 1;
        Ok(())
    }
}

impl FieldArrays {
    /// Adds the field of some rows of a frame. Of a payload that is not compressed only these bytes
    /// are read.
    fn add(
        &mut self,
        (run, frame, source): (&Run, usize, SourceId),
        rows: impl Iterator<Item = usize>,
    ) -> anyhow::Result<()> {
        let (events, Range { start, end }) = (run.events(frame)?, self.range.clone());
        for row in rows {
            let part = run.fragment_part(frame, source, row, start..end)?;
            let Some(part) = part else { continue };
            let (key, got) = (events.keys()[row], part.bytes.len() as u64);
            anyhow::ensure!(got == end - start, "event {key} ends before byte {end}");
            self.keys.numbers(&[key])?;
            self.values.bytes(&part.bytes)?;
            for hole in part.holes {
                let (from, to) = (hole.start.max(start), hole.end.min(end));
                self.holes.numbers(&[self.rows, from - start, to - from])?;
            }
            self.rows += 1;
        }
        Ok(())
    }
}

/// The type of a source's fragments, if each is one record.
pub(crate) fn record_type(run: &Run, source: SourceId) -> Option<PayloadType> {
    let schema = &run.header().schema;
    let id = schema.column(Some(source), &ColumnKind::FragmentPayload)?;
    let payload = schema.columns.iter().find(|column| column.id == id)?.payload_type()?;
    matches!(payload.shape[..], [] | [1]).then_some(payload)
}

/// The file of holes: rows of the other files, offset and bytes of what never came.
fn holes_file(base: &Path) -> anyhow::Result<Npy> {
    let dtype = "[('row', '<u8'), ('offset', '<u8'), ('bytes', '<u8')]";
    Npy::create(&with_suffix(base, ".holes.npy"), dtype, 24)
}

/// A field's name as part of a file's: it comes from the run.
fn file_name(field: &str) -> String {
    let fits = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
    field.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

fn fragment_lines(
    run: &Run,
    frame: usize,
    of: Fragments,
    rows: impl Iterator<Item = usize>,
) -> anyhow::Result<String> {
    let column = run.fragments(frame, of.source)?;
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
        if of.may_have_holes {
            // Begins and ends, in the fragment.
            let holes = column.holes(row..row + 1).iter();
            let holes = holes.map(|hole| format!("{}-{}", hole.offset, hole.offset + hole.bytes));
            write!(text, ",{}", holes.collect::<Vec<_>>().join(" "))?;
        }
        if of.may_have_pieces {
            // Own times and bytes, where there are several.
            let pieces = column.pieces(row..row + 1).iter();
            let pieces = pieces.map(|piece| format!("{}:{}", piece.time_ns, piece.bytes));
            write!(text, ",{}", pieces.collect::<Vec<_>>().join(" "))?;
        }
        if of.have_times {
            let time_ns = own_time_ns(&column, row);
            write!(text, ",{}", time_ns.map_or(String::new(), |ns| ns.to_string()))?;
        }
        if of.may_be_unexpected {
            write!(text, ",{}", u8::from(column.is_expected(row)))?;
        }
        text.push('\n');
    }
    Ok(text)
}

/// The time of a row's fragment itself, if there is one and it is known.
fn own_time_ns(column: &FragmentColumn, row: usize) -> Option<u64> {
    let time_ns = column.times_ns().get(row).copied();
    time_ns.filter(|_| column.fragment(row).is_some())
}

fn columns<R: Iterator<Item = usize>>(
    run: &Run,
    frame: usize,
    source: Option<Fragments>,
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
    if let Some(of) = source {
        let column = run.fragments(frame, of.source)?;
        let mut fragments = LargeBinaryBuilder::new();
        rows().for_each(|row| fragments.append_option(column.fragment(row)));
        columns.push(Arc::new(fragments.finish()));
        if of.may_have_holes {
            let mut holes = ListBuilder::new(ListBuilder::new(UInt64Builder::new()));
            for row in rows() {
                for hole in column.holes(row..row + 1) {
                    let ends = [hole.offset, hole.offset + hole.bytes];
                    holes.values().append_value(ends.map(Some));
                }
                holes.append(true);
            }
            columns.push(Arc::new(holes.finish()));
        }
        if of.may_have_pieces {
            let mut pieces = ListBuilder::new(ListBuilder::new(UInt64Builder::new()));
            for row in rows() {
                for piece in column.pieces(row..row + 1) {
                    pieces.values().append_value([piece.time_ns, piece.bytes].map(Some));
                }
                pieces.append(true);
            }
            columns.push(Arc::new(pieces.finish()));
        }
        if of.have_times {
            let times = rows().map(|row| own_time_ns(&column, row));
            columns.push(Arc::new(times.collect::<UInt64Array>()));
        }
        if of.may_be_unexpected {
            let expected = rows().map(|row| Some(column.is_expected(row)));
            columns.push(Arc::new(expected.collect::<BooleanArray>()));
        }
    }
    Ok(columns)
}
