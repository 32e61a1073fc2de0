//! Writing a run's files without a recorder: for generated, reduced, re-framed and converted runs,
//! and for trends.
//!
//! Data take the same path as in the recorder (`catchment_writer`): the columns of a frame are
//! encoded in parallel, also by the caller's thread (write/frame.rs), and streamed into files that
//! are not read before they are whole, or that are read while they grow (write/output.rs). The
//! caller waits for the disk only when all buffers are in use.

mod column;
mod frame;
mod made;
mod output;
mod parts;
mod store;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use catchment_encoder::{Ask, Buffers, Rule, Worker};
use catchment_frame::{
    Codings, ColumnCoding, ColumnInfo, ColumnKind, Dtype, Element, EntryNames, EventColumns,
    FileHeader, FrameInfo, FrameKind, Numbering, Schema, TocFlags, encode_ledger_increment,
    encode_ledger_total, encode_spans,
};
use catchment_model::{Entry, Ledger};
use catchment_trends::Watch;
use catchment_writer::{ColumnForm, FrameColumn, header_bytes_max};

use crate::error::StorageError;
use crate::open::{self, EXTENSION};
use crate::trend_writer::TrendWriter;
use crate::whole::ListWriter;
use column::RunColumn;
pub(crate) use frame::TOGETHER_BYTES;
pub use made::MakeSamples;
pub use output::Growing;
use output::Output;
pub use parts::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, EventFrame, EventSource, Make, MakeBytes,
    NewRun, StoredColumn, WriteOptions, WriteReport,
};

/// Writes a run's files, frame by frame. If dropped without [`RunWriter::finish`], it deletes the
/// file being written, unless that is read while it grows; earlier files stay.
pub struct RunWriter {
    run: NewRun,
    schema: Arc<Schema>,
    options: WriteOptions,
    columns: EventColumns,
    /// The column of channels' gaps.
    spans: Option<u32>,
    output: Output,
    memory: EncodeMemory,
    /// The codings of columns, by id, with the state of `auto`.
    codings: HashMap<u32, ColumnCoding>,
    rules: HashMap<u32, Rule>,
    /// Indices of the schema's columns, by id.
    indices: HashMap<u32, usize>,
    trends: Option<Box<TrendWriter>>,
    /// The time at which the current file's data begin.
    first_time_ns: Option<u64>,
    next_index: u32,
    sequence: u64,
    ledger: Ledger,
    report: WriteReport,
    /// A frame was begun and could not be ended: the file is not continued.
    broken: bool,
    /// For runs that have one.
    list: Option<ListWriter>,
}

/// The workers for encoding columns, one per thread, kept from frame to frame.
struct EncodeMemory {
    workers: Vec<Worker>,
    buffers: Buffers,
}

impl RunWriter {
    /// Makes the folder and begins the first file.
    ///
    /// # Errors
    /// A file of that name exists, or the system refuses.
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
        let indices: HashMap<_, _> =
            run.schema.columns.iter().map(|info| info.id).zip(0..).collect();
        let mut writer = Self {
            columns: EventColumns::of(&run.schema),
            spans: run.schema.column(None, &ColumnKind::ChannelSpans),
            ledger: Ledger::new(run.schema.sources.len()),
            output: Output::new(&options, header_bytes_max(indices.len()))?,
            memory: EncodeMemory {
                workers: (0..threads).map(|_| Worker::new()).collect(),
                buffers: Buffers::new(BUFFERS_BYTES_MAX),
            },
            codings: codings_of(&run.schema, &options.codings),
            rules: HashMap::new(),
            indices,
            trends,
            first_time_ns: None,
            next_index: options.first_index,
            sequence: options.first_sequence,
            report: WriteReport::default(),
            broken: false,
            list: None,
            schema: Arc::new(run.schema.clone()),
            run,
            options,
        };
        // Growing files belong to a recorder's run, and have none; neither has a folder with files
        // of others.
        let own = writer.options.growing.is_none() && writer.options.first_index == 0;
        if own && open::paths(&writer.run.folder)?.is_empty() {
            writer.list = Some(ListWriter::begin(&writer.run.folder, writer.run.run)?);
        }
        writer.begin_file()?;
        Ok(writer)
    }

    /// Changes how a column is encoded from now on.
    pub(crate) fn set_coding(&mut self, column: u32, coding: ColumnCoding) {
        if self.codings.insert(column, coding) != Some(coding) {
            self.rules.remove(&column);
        }
    }

    /// Writes a frame without rows, for ledger counts that no frame carries.
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

    /// The run as given.
    pub fn run(&self) -> &NewRun {
        &self.run
    }

    /// Writes a frame of events.
    ///
    /// # Errors
    /// Columns that contradict each other or the schema, or a disk error.
    pub fn write_events(&mut self, frame: EventFrame<'_>) -> Result<(), StorageError> {
        let rows = frame.keys.len() as u64;
        let increment = self.count_events(&frame)?;
        let mut records = Vec::new();
        encode_ledger_increment(&increment, &mut records);
        let ids = self.columns.clone();
        let (keys, times) = (bytes_of(frame.keys), bytes_of(frame.times_ns));
        let flags = bytes_of(frame.flags);
        let mut columns = Vec::with_capacity(4 + 3 * frame.sources.len());
        if rows > 0 {
            let (key, time) = (present(ids.key, "event_key")?, present(ids.time, "event_time")?);
            columns.push(self.plain(ColumnForm::new(key, Dtype::U64, rows), &keys));
            columns.push(self.plain(ColumnForm::new(time, Dtype::U64, rows), &times));
            let id = present(ids.flags, "event_flags")?;
            columns.push(self.plain(ColumnForm::new(id, Dtype::U32, rows), &flags));
        }
        columns.extend(self.increments(&records)?);
        let lengths: Vec<_> = frame.sources.iter().map(|one| bytes_of(one.lengths)).collect();
        for (source, lengths) in frame.sources.into_iter().zip(&lengths) {
            let ids = ids.sources[source.source.index()];
            let id = present(ids.lengths, "fragment_lengths")?;
            columns.push(self.plain(ColumnForm::new(id, Dtype::U32, rows), lengths));
            if let Some(bits) = source.validity {
                let id = present(ids.validity, "fragment_validity")?;
                columns.push(self.plain(ColumnForm::new(id, Dtype::Bits, rows), bits));
            }
            if source.payload.raw_bytes() > 0 {
                let id = present(ids.payload, "fragment_payload")?;
                let (dtype, rows) = self.rows_of(id, source.payload.raw_bytes() as u64)?;
                let record_bytes = self.column_info(id)?.record_bytes as usize;
                let element = match dtype {
                    Dtype::Record => Element::record(record_bytes),
                    dtype => dtype.element(),
                };
                let form = ColumnForm::new(id, dtype, rows);
                columns.push(self.column(form, element, RunColumn::new(source.payload, None)));
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
    /// Samples that contradict the schema or the frame's time, or a disk error.
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
        columns.extend(self.increments(&records)?);
        if !spans.is_empty() {
            let id = present(self.spans, "channel_spans")?;
            let rows = (spans.len() / SPAN_BYTES) as u64;
            columns.push(self.plain(ColumnForm::new(id, Dtype::Record, rows), &spans));
        }
        let mut samples = 0;
        for channel in frame.columns {
            let column = self.channel_column(channel, &time)?;
            samples += column.as_ref().map_or(0, |column| column.form.rows);
            columns.extend(column);
        }
        let mut info = FrameInfo { kind: FrameKind::Channels, rows: samples, ..FrameInfo::EMPTY };
        if samples > 0 {
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

    /// The ledger's counts, if there are any.
    fn increments<'a>(
        &mut self,
        records: &'a [u8],
    ) -> Result<Option<FrameColumn<RunColumn<'a>>>, StorageError> {
        if records.is_empty() {
            return Ok(None);
        }
        let id = present(self.columns.ledger_increment, "ledger_increment")?;
        let rows = (records.len() / LEDGER_RECORD_BYTES) as u64;
        Ok(Some(self.plain(ColumnForm::new(id, Dtype::Record, rows), records)))
    }

    /// A column of existing bytes.
    fn plain<'a>(&mut self, form: ColumnForm, bytes: &'a [u8]) -> FrameColumn<RunColumn<'a>> {
        let element = match (form.dtype, form.rows) {
            (Dtype::Record, 1..) => Element::record(bytes.len() / form.rows as usize),
            (dtype, _) => dtype.element(),
        };
        self.column(form, element, RunColumn::new(ColumnData::Raw(bytes), None))
    }

    fn column<'a>(
        &mut self,
        form: ColumnForm,
        element: Element,
        bytes: RunColumn<'a>,
    ) -> FrameColumn<RunColumn<'a>> {
        let coding = self.codings.get(&form.id).copied().unwrap_or(ColumnCoding::NONE);
        let rule = self.rules.entry(form.id).or_insert_with(|| Rule::of(coding, element));
        FrameColumn { form, ask: Ask::new(element, rule.clone()), is_small: false, bytes }
    }

    /// A channel's column, with its numbers checked; `None` if it has no samples.
    fn channel_column<'a>(
        &mut self,
        channel: ChannelColumn<'a>,
        time: &Range<u64>,
    ) -> Result<Option<FrameColumn<RunColumn<'a>>>, StorageError> {
        let what = || format!("column {}", channel.id);
        // By index: a frame of trends has thousands of channels.
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
        let first_sample = channel.first_sample;
        let watch = self.watch(&channel);
        let form = ColumnForm { id: channel.id, dtype, rows, first_sample, start_ns };
        let bytes = RunColumn::new(channel.samples, watch);
        Ok(Some(self.column(form, dtype.element(), bytes)))
    }

    /// The observer of a channel's samples, if it has a trend.
    fn watch(&self, channel: &ChannelColumn<'_>) -> Option<Watch> {
        let trend = self.trends.as_ref()?.channel(channel.id)?;
        let sample_bytes = self.column_info(channel.id).ok()?.row_bytes()? as usize;
        Some(Watch::new(trend, sample_bytes, channel.first_sample, channel.spans))
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
    /// A disk error. Closed files stay.
    pub fn finish(mut self, ending: Ending) -> Result<WriteReport, StorageError> {
        self.check_whole()?;
        let ledger = ending.ledger.unwrap_or_else(|| self.ledger.clone());
        let Ending { run_ended, data_lost, .. } = ending;
        let flags = TocFlags { run_ended, data_lost, ..TocFlags::default() };
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

    /// The frame's contribution to the ledger, including its own counts, which are added to the
    /// total.
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
        let index = self.indices.get(&id);
        index
            .map(|&index| &self.run.schema.columns[index])
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
            // The file is not read before it has its TOC.
            locator: false,
            numbering: self.run.numbering,
            variant: self.run.variant,
        };
        self.output.begin_file(path, &header)?;
        self.next_index += 1;
        if header.numbering == Numbering::File {
            self.sequence = 0;
        }
        self.first_time_ns = None;
        Ok(())
    }

    fn close_file(&mut self, ledger: &Ledger, flags: TocFlags) -> Result<(), StorageError> {
        let Some(file) = self.output.file() else { return Ok(()) };
        let file_id = file.file_id;
        let TocFlags { data_lost, data_bad, .. } = TocFlags::of_total(ledger);
        let flags = TocFlags { data_lost: flags.data_lost || data_lost, data_bad, ..flags };
        let bytes = self.output.close_file(ledger, flags)?;
        self.report.file_bytes += bytes;
        if let Some(list) = &mut self.list {
            list.closed(self.next_index - 1, file_id, bytes);
        }
        Ok(())
    }

    /// Begins another file. The previous one is left as it is, and may be deleted: it has no table
    /// of contents.
    pub(crate) fn begin_anew(&mut self) -> Result<(), StorageError> {
        self.begin_file()
    }

    /// The file that receives frames.
    pub(crate) fn current_path(&self) -> Option<&Path> {
        self.output.file().map(|file| file.path.as_path())
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

/// The coding of each column: by its channel's name, its source's, or its meaning.
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

/// The bytes of numbers, as in a file.
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

const LEDGER_RECORD_BYTES: usize = 16;
const SPAN_BYTES: usize = 24;
/// Buffers kept for the next columns: more than are in progress at a time.
const BUFFERS_BYTES_MAX: usize = 64 << 20;
