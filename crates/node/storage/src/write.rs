//! Writing a run's files without a recorder: for what is generated, reduced, re-framed, converted.
//!
//! ```text
//! columns ──► encoded side by side, in order (write/encode.rs) ──► aligned buffers ──► disk
//! ```
//!
//! A column goes to the disk's buffers as soon as it and those before it are encoded, while others
//! are encoded; the frame's header is filled in at last (write/frame.rs). Nobody sees the file
//! before it is whole: it has a temporary name until it is closed and durable. The caller's thread
//! encodes too, and waits for the disk only when all buffers are under way. Files that are to be
//! read while they grow are written another way (write/growing.rs).

mod encode;
mod frame;
mod growing;
mod line;
mod output;
mod parts;
mod sink;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use catchment_frame::{
    Codings, ColumnCoding, ColumnEntry, ColumnInfo, ColumnKind, Dtype, Element, EntryNames,
    EventColumns, FileHeader, FrameInfo, FrameKind, FrameLayout, Schema, Span, TocBuilder,
    TocFlags, encode_ledger_increment, encode_ledger_total, encode_spans,
};
use catchment_model::{Entry, Ledger};

use crate::error::StorageError;
use crate::open::{self, EXTENSION};
use crate::trend_writer::TrendWriter;
use crate::whole::ListWriter;
use encode::{Encoded, Encoders};
pub use growing::Growing;
pub(crate) use growing::TOGETHER_BYTES;
pub use parts::{
    ChannelColumn, ChannelFrame, ColumnData, ColumnHook, Ending, EventFrame, EventSource, Make,
    MakeBytes, NewRun, StoredColumn, WriteOptions, WriteReport,
};
use sink::Sink;

/// Writes a run's files, frame by frame. Dropped without [`RunWriter::finish`], it deletes the file
/// that it was writing, unless that is to be read while it grows; files before stay.
pub struct RunWriter {
    run: NewRun,
    schema: Arc<Schema>,
    options: WriteOptions,
    columns: EventColumns,
    /// The column of channels' gaps.
    spans: Option<u32>,
    output: Sink,
    encoders: Encoders,
    layout: FrameLayout,
    codings: HashMap<u32, ColumnCoding>,
    /// Places of the schema's columns, by id.
    places: HashMap<u32, usize>,
    hooks: Vec<Box<dyn ColumnHook>>,
    trends: Option<Box<TrendWriter>>,
    file: Option<OpenFile>,
    next_index: u32,
    sequence: u64,
    ledger: Ledger,
    report: WriteReport,
    /// A frame was begun and could not be ended: the file is not gone on with.
    broken: bool,
    /// Of runs that have one.
    list: Option<ListWriter>,
}

struct OpenFile {
    file_id: u64,
    header_bytes: u64,
    toc: TocBuilder,
    toc_bytes: u64,
    first_time_ns: Option<u64>,
}

/// A column of the frame that is being written.
struct Column<'a> {
    id: u32,
    dtype: Dtype,
    rows: u64,
    element: Element,
    /// Of a channel: where its samples begin.
    start: Option<Start<'a>>,
    data: ColumnData<'a>,
}

#[derive(Clone, Copy)]
struct Start<'a> {
    sample: u64,
    time_ns: u64,
    spans: &'a [Span],
}

impl<'a> Column<'a> {
    fn raw(id: u32, dtype: Dtype, rows: u64, bytes: &'a [u8]) -> Self {
        let element = match (dtype, rows) {
            (Dtype::Record, 1..) => Element::record(bytes.len() / rows as usize),
            _ => dtype.element(),
        };
        Self { id, dtype, rows, element, start: None, data: ColumnData::Raw(bytes) }
    }

    /// What a frame's directory says of it, but for its place.
    fn entry(&self, encoded: &Encoded) -> ColumnEntry {
        ColumnEntry {
            id: self.id,
            codec: encoded.codec,
            dtype: self.dtype,
            flags: 0,
            crc32c: encoded.crc32c,
            offset: 0,
            stored_bytes: encoded.stored_bytes,
            raw_bytes: encoded.raw_bytes,
            rows: self.rows,
            start_ns: self.start.map_or(0, |start| start.time_ns),
            first_sample: self.start.map_or(0, |start| start.sample),
        }
    }
}

impl RunWriter {
    /// Makes the folder and begins the first file.
    ///
    /// # Errors
    /// A file of that name is there, or the system refuses.
    pub fn create(run: NewRun, options: WriteOptions) -> Result<Self, StorageError> {
        run.schema.check().map_err(|problem| StorageError::Unwritable {
            what: "schema".to_owned(),
            problem: problem.to_string(),
        })?;
        std::fs::create_dir_all(&run.folder)
            .map_err(|source| StorageError::Write { path: run.folder.clone(), source })?;
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = if options.threads == 0 { cpus } else { options.threads };
        let trends = match &options.trends {
            Some(options) => Some(Box::new(TrendWriter::create(&run.folder, &run, options)?)),
            None => None,
        };
        let mut writer = Self {
            columns: EventColumns::of(&run.schema),
            spans: run.schema.column(None, &ColumnKind::ChannelSpans),
            ledger: Ledger::new(run.schema.sources.len()),
            output: Sink::new(&options)?,
            encoders: Encoders::new(threads),
            layout: FrameLayout::begin(FrameInfo::EMPTY, 0),
            codings: codings_of(&run.schema, &options.codings),
            places: run.schema.columns.iter().map(|info| info.id).zip(0..).collect(),
            hooks: trends.iter().map(|trends| trends.hook()).collect(),
            trends,
            file: None,
            next_index: options.first_index,
            sequence: options.first_sequence,
            report: WriteReport::default(),
            broken: false,
            list: None,
            schema: Arc::new(run.schema.clone()),
            run,
            options,
        };
        // Files that grow belong to a recorder's run, and have none; nor has a folder of others'
        // files.
        let own = writer.options.growing.is_none() && writer.options.first_index == 0;
        if own && open::paths(&writer.run.folder)?.is_empty() {
            writer.list = Some(ListWriter::begin(&writer.run.folder, writer.run.run)?);
        }
        writer.begin_file()?;
        Ok(writer)
    }

    /// Has a column encoded in another way from now on.
    pub(crate) fn set_coding(&mut self, column: u32, coding: ColumnCoding) {
        self.codings.insert(column, coding);
    }

    /// Writes a frame without rows, for what the ledger counted and no frame carries.
    pub(crate) fn write_increments(
        &mut self,
        kind: FrameKind,
        increments: &Ledger,
    ) -> Result<(), StorageError> {
        if increments.total().iter().all(|(_, count)| count == 0) {
            return Ok(());
        }
        if kind == FrameKind::Channels {
            let (start_ns, columns) = (0, Vec::new());
            let increments = Some(increments);
            let keys = (0, 0);
            let frame = ChannelFrame { start_ns, end_ns: 0, columns, keys, increments };
            return self.write_channels(frame);
        }
        self.write_events(EventFrame {
            keys: &[],
            times_ns: &[],
            flags: &[],
            sources: Vec::new(),
            increments: Some(increments),
        })
    }

    /// Shows every channel's raw bytes to a hook.
    pub fn add_hook(&mut self, hook: Box<dyn ColumnHook>) {
        self.hooks.push(hook);
    }

    /// The run as it was given.
    pub fn run(&self) -> &NewRun {
        &self.run
    }

    /// What was written so far. Files come in when they have their final name.
    pub fn report(&self) -> &WriteReport {
        &self.report
    }

    /// What the frames so far and their increments add up to.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Writes a frame of events.
    ///
    /// # Errors
    /// Columns that do not fit each other or the schema, or a disk that refuses.
    pub fn write_events(&mut self, frame: EventFrame<'_>) -> Result<(), StorageError> {
        let rows = frame.keys.len() as u64;
        let increment = self.count_events(&frame)?;
        let mut records = Vec::new();
        encode_ledger_increment(&increment, &mut records);
        let ids = self.columns.clone();
        let (keys, times) = (bytes_of(frame.keys), bytes_of(frame.times_ns));
        let flags = bytes_of(frame.flags);
        let mut columns = Vec::with_capacity(4 + 3 * frame.sources.len());
        let raw = Column::raw;
        if rows > 0 {
            columns.push(raw(present(ids.key, "event_key")?, Dtype::U64, rows, &keys));
            columns.push(raw(present(ids.time, "event_time")?, Dtype::U64, rows, &times));
            columns.push(raw(present(ids.flags, "event_flags")?, Dtype::U32, rows, &flags));
        }
        if !records.is_empty() {
            let id = present(ids.ledger_increment, "ledger_increment")?;
            columns.push(raw(id, Dtype::Record, (records.len() / 16) as u64, &records));
        }
        let lengths: Vec<_> = frame.sources.iter().map(|one| bytes_of(one.lengths)).collect();
        for (source, lengths) in frame.sources.into_iter().zip(&lengths) {
            let ids = ids.sources[source.source.index()];
            let id = present(ids.lengths, "fragment_lengths")?;
            columns.push(raw(id, Dtype::U32, rows, lengths));
            if let Some(bits) = source.validity {
                let id = present(ids.validity, "fragment_validity")?;
                columns.push(raw(id, Dtype::Bits, rows, bits));
            }
            if source.payload.raw_bytes() > 0 {
                let id = present(ids.payload, "fragment_payload")?;
                let (dtype, rows) = self.rows_of(id, source.payload.raw_bytes() as u64)?;
                let element = self.column_info(id)?.record_bytes as usize;
                let element = match dtype {
                    Dtype::Record => Element::record(element),
                    dtype => dtype.element(),
                };
                let data = source.payload;
                columns.push(Column { id, dtype, rows, element, start: None, data });
            }
        }
        let info = FrameInfo {
            kind: FrameKind::Events,
            time_first_ns: frame.times_ns.iter().copied().min().unwrap_or(0),
            time_last_ns: frame.times_ns.iter().copied().max().unwrap_or(0),
            key_first: frame.keys.iter().copied().min().unwrap_or(0),
            key_last: frame.keys.iter().copied().max().unwrap_or(0),
            rows,
            ..FrameInfo::EMPTY
        };
        self.write_frame(info, columns)
    }

    /// Writes a frame of channels.
    ///
    /// # Errors
    /// Samples that do not fit the schema or the frame's time, or a disk that refuses.
    pub fn write_channels(&mut self, frame: ChannelFrame<'_>) -> Result<(), StorageError> {
        let (mut records, mut spans) = (Vec::new(), Vec::new());
        if let Some(increments) = frame.increments {
            self.check_ledger(increments)?;
            encode_ledger_total(increments, &mut records);
        }
        let mut sorted: Vec<_> = frame.columns.iter().map(|one| (one.id, one.spans)).collect();
        sorted.sort_by_key(|(id, _)| *id);
        sorted.iter().for_each(|(id, gaps)| encode_spans(*id, gaps, &mut spans));
        let time = frame.start_ns..frame.end_ns;
        let mut columns = Vec::with_capacity(2 + frame.columns.len());
        if !records.is_empty() {
            let id = present(self.columns.ledger_increment, "ledger_increment")?;
            columns.push(Column::raw(id, Dtype::Record, (records.len() / 16) as u64, &records));
        }
        if !spans.is_empty() {
            let id = present(self.spans, "channel_spans")?;
            columns.push(Column::raw(id, Dtype::Record, (spans.len() / 24) as u64, &spans));
        }
        for channel in frame.columns {
            columns.extend(self.channel_column(channel, &time)?);
        }
        let rows = columns.iter().filter(|column| column.start.is_some()).map(|one| one.rows).sum();
        let mut info = FrameInfo { kind: FrameKind::Channels, rows, ..FrameInfo::EMPTY };
        if rows > 0 {
            (info.time_first_ns, info.time_last_ns) = (time.start, time.end);
            (info.key_first, info.key_last) = frame.keys;
        }
        if let Some(increments) = frame.increments {
            let mut counted = increments.clone();
            for source in &mut counted.sources {
                source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
            }
            self.ledger.add(&counted);
        }
        self.write_frame(info, columns)?;
        match &mut self.trends {
            Some(trends) => trends.advance(time.end),
            None => Ok(()),
        }
    }

    /// A channel's column, its numbers checked; `None` if it has no samples.
    fn channel_column<'a>(
        &self,
        channel: ChannelColumn<'a>,
        time: &Range<u64>,
    ) -> Result<Option<Column<'a>>, StorageError> {
        let what = || format!("column {}", channel.id);
        // By its place: a frame of trends has thousands of channels.
        let info = self.column_info(channel.id).ok();
        let rate = info.filter(|info| info.kind == ColumnKind::Channel).and_then(|info| info.rate);
        let Some(rate) = rate else {
            return Err(unwritable(&what(), "the schema has no such channel"));
        };
        let (dtype, rows) = self.rows_of(channel.id, channel.samples.raw_bytes() as u64)?;
        if rows == 0 {
            return Ok(None);
        }
        let mut end = channel.first_sample;
        let mut row = 0;
        for span in channel.spans {
            end = end.saturating_add(span.row.saturating_sub(row));
            if span.row <= row || span.row >= rows || span.sample <= end {
                return Err(unwritable(&what(), "its spans do not rise, or leave no gap"));
            }
            (row, end) = (span.row, span.sample);
        }
        let last = end.saturating_add(rows - row - 1);
        let start_ns = rate.time_ns(channel.first_sample);
        if !time.contains(&start_ns) || !time.contains(&rate.time_ns(last)) {
            return Err(unwritable(&what(), "its samples are outside of the frame's time"));
        }
        let start = Start { sample: channel.first_sample, time_ns: start_ns, spans: channel.spans };
        let (id, start, data) = (channel.id, Some(start), channel.samples);
        let element = dtype.element();
        Ok(Some(Column { id, dtype, rows, element, start, data }))
    }

    fn check_ledger(&self, ledger: &Ledger) -> Result<(), StorageError> {
        if ledger.sources.len() == self.run.schema.sources.len() {
            return Ok(());
        }
        Err(unwritable("ledger", "it has another number of sources"))
    }

    /// Ends the run: closes its last file and waits until every file has its final name.
    ///
    /// # Errors
    /// A disk that refuses. Files that are closed stay.
    pub fn finish(mut self, ending: Ending) -> Result<WriteReport, StorageError> {
        self.check_whole()?;
        let ledger = ending.ledger.unwrap_or_else(|| self.ledger.clone());
        let flags = TocFlags {
            run_ended: ending.run_ended,
            data_lost: ending.data_lost || ledger.balance().lost_data(),
            ..TocFlags::default()
        };
        self.close_file(&ledger, flags)?;
        self.report.files.extend(self.output.wait()?);
        self.report.files.sort();
        if let Some(list) = self.list.take() {
            list.end(self.next_index)?;
        }
        if let Some(trends) = self.trends.take() {
            let trends = trends.finish(ending.run_ended, ending.data_lost)?;
            self.report.trends = Some(Box::new(trends));
        }
        Ok(self.report)
    }

    /// What the frame adds to the ledger, its own counts included; those are added to the total.
    fn count_events(&mut self, frame: &EventFrame<'_>) -> Result<Ledger, StorageError> {
        let rows = frame.keys.len();
        let source_count = self.run.schema.sources.len();
        let mut increment = Ledger::new(source_count);
        if let Some(counted) = frame.increments {
            self.check_ledger(counted)?;
            increment.add(counted);
        }
        if frame.times_ns.len() != rows || frame.flags.len() != rows {
            return Err(unwritable("event columns", "keys, times and flags are of one length"));
        }
        let mut fragments = vec![(0, 0); source_count];
        for source in &frame.sources {
            let index = source.source.index();
            let bits = source.validity.map(<[u8]>::len);
            let fits = index < source_count
                && source.lengths.len() == rows
                && bits.is_none_or(|bits| bits == rows.div_ceil(8));
            let sum: u64 = source.lengths.iter().map(|&length| u64::from(length)).sum();
            if !fits || sum != source.payload.raw_bytes() as u64 {
                let what = format!("columns of source {index}");
                let problem = "lengths and validity have the frame's rows, payload their sum";
                return Err(unwritable(&what, problem));
            }
            let ones = |bits: &[u8]| bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
            fragments[index] = (source.validity.map_or(rows as u64, ones), sum);
        }
        let mut counted = increment.clone();
        for (index, (count, bytes)) in fragments.into_iter().enumerate() {
            let source = &mut counted.sources[index];
            source[Entry::FragmentsRecorded] = count;
            source[Entry::FragmentBytesRecorded] = bytes;
            source[Entry::FragmentsDurable] = count;
            if self.run.schema.sources[index].required {
                source[Entry::FragmentsMissing] = rows as u64 - count.min(rows as u64);
            }
        }
        self.ledger.add(&counted);
        Ok(increment)
    }

    /// Type and rows of a column of the schema with that many raw bytes.
    fn rows_of(&self, id: u32, raw_bytes: u64) -> Result<(Dtype, u64), StorageError> {
        let info = self.column_info(id)?;
        let elements = info.shape.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
        let row_bytes = elements.and_then(|elements| info.dtype.bytes_of(elements));
        match row_bytes {
            Some(bytes) if bytes > 0 && raw_bytes.is_multiple_of(bytes) => {
                Ok((info.dtype, raw_bytes / bytes))
            }
            None => Ok((info.dtype, raw_bytes)),
            Some(_) => Err(unwritable(&format!("column {id}"), "it is not whole rows")),
        }
    }

    fn column_info(&self, id: u32) -> Result<&ColumnInfo, StorageError> {
        let place = self.places.get(&id);
        place
            .map(|&place| &self.run.schema.columns[place])
            .ok_or_else(|| unwritable(&format!("column {id}"), "the schema does not have it"))
    }

    fn begin_file(&mut self) -> Result<(), StorageError> {
        let index = self.next_index;
        let path = self.run.folder.join(format!("{}-{index:05}.{EXTENSION}", self.run.name));
        let file_id = getrandom::u64().map_err(no_random_bits)?;
        let header = FileHeader {
            run: self.run.run,
            run_number: self.run.run_number,
            file_index: index,
            file_id,
            created_ns: catchment_telemetry::utc_now().0,
            writer: concat!("catchment ", env!("CARGO_PKG_VERSION")).to_owned(),
            config: self.run.config.clone(),
            emulated: self.run.emulated,
            schema: Arc::clone(&self.schema),
            ledger_entries: EntryNames::default(),
            // Nobody sees the file before it has its TOC.
            locator: false,
        };
        let encoded = header.encode();
        self.output.create(path, &encoded)?;
        self.next_index += 1;
        self.file = Some(OpenFile {
            file_id,
            header_bytes: encoded.len() as u64,
            toc: TocBuilder::new(&encoded),
            toc_bytes: encoded.len() as u64,
            first_time_ns: None,
        });
        Ok(())
    }

    fn close_file(&mut self, ledger: &Ledger, flags: TocFlags) -> Result<(), StorageError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let data_lost = flags.data_lost || ledger.balance().lost_data();
        let at = self.output.position();
        let closing = file.toc.finish(at, ledger, TocFlags { data_lost, ..flags });
        self.output.append(&closing)?;
        let bytes = self.output.position();
        self.report.file_bytes += bytes;
        if let Some(list) = &mut self.list {
            list.closed(self.next_index - 1, file.file_id, bytes);
        }
        self.output.close()
    }
}

impl std::fmt::Debug for RunWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunWriter")
            .field("folder", &self.run.folder)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// The coding of each column: by its channel's name, its source's, or what it means.
fn codings_of(schema: &Schema, codings: &Codings) -> HashMap<u32, ColumnCoding> {
    let name = |info: &ColumnInfo| {
        let source = info.source.and_then(|id| schema.sources.get(id as usize));
        match info.kind {
            ColumnKind::Channel => info.name.clone(),
            _ => source.map_or(info.kind.name().to_owned(), |source| source.name.clone()),
        }
    };
    schema.columns.iter().map(|info| (info.id, codings.of(&name(info)))).collect()
}

fn present(id: Option<u32>, kind: &str) -> Result<u32, StorageError> {
    id.ok_or_else(|| unwritable(kind, "the schema does not have this column"))
}

pub(crate) fn unwritable(what: &str, problem: &str) -> StorageError {
    StorageError::Unwritable { what: what.to_owned(), problem: problem.to_owned() }
}

/// The bytes of numbers, as a file has them.
fn bytes_of<T: Number>(numbers: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    numbers.iter().for_each(|number| number.put(&mut bytes));
    bytes
}

trait Number {
    fn put(&self, bytes: &mut Vec<u8>);
}

impl Number for u64 {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }
}

impl Number for u32 {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }
}

/// The system has no random bits for an identity.
fn no_random_bits(error: getrandom::Error) -> StorageError {
    catchment_disk::DiskError::Resource { what: "random bits", source: error.into() }.into()
}
