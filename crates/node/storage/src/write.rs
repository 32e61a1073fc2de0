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

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use catchment_codec::{Coding, Element};
use catchment_encoder::{Ask, Buffers, Rule, Worker};
use catchment_frame::{
    ColumnCoding, ColumnEntry, ColumnInfo, ColumnKind, EntryNames, FileHeader, FrameInfo,
    FrameKind, Numbering, TocFlags, further_pieces, unqualified,
};
use catchment_model::{Entry, Ledger};
use catchment_trends::Watch;
use catchment_writer::{ColumnForm, Frame, FrameColumn, FrameMaker, NoColumn, header_bytes_max};

use crate::error::StorageError;
use crate::frame_copy::KeptChecksums;
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
    options: WriteOptions,
    maker: FrameMaker,
    output: Output,
    memory: EncodeMemory,
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
        let schema = Arc::new(run.schema.clone());
        let coding = |info: &ColumnInfo| options.codings.of_column(&schema, info);
        let mut writer = Self {
            maker: FrameMaker::new(&schema, false, coding),
            ledger: Ledger::new(run.schema.sources.len()),
            output: Output::new(&options, header_bytes_max(schema.columns.len()))?,
            memory: EncodeMemory {
                workers: (0..threads).map(|_| Worker::new()).collect(),
                buffers: Buffers::new(BUFFERS_BYTES_MAX),
            },
            trends,
            first_time_ns: None,
            next_index: options.first_index,
            sequence: options.first_sequence,
            report: WriteReport::default(),
            broken: false,
            list: None,
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
        self.maker.set_coding(column, coding);
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

    /// The account of what was written so far.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
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
        self.count_events(&frame)?;
        let frame = self.maker.events(frame).map_err(not_in_schema)?;
        self.write_frame(frame)
    }

    /// Writes a frame of channels.
    ///
    /// # Errors
    /// Samples that contradict the schema or the frame's time, or a disk error.
    pub fn write_channels(&mut self, frame: ChannelFrame<'_>) -> Result<(), StorageError> {
        let ChannelFrame { start_ns, end_ns, columns, keys, increments } = frame;
        increments.map_or(Ok(()), |increments| self.check_ledger(increments))?;
        let mut watched = Vec::with_capacity(columns.len());
        for channel in columns {
            self.check_channel(&channel, &(start_ns..end_ns))?;
            let watch = self.watch(&channel);
            let ChannelColumn { id, first_sample, spans, samples } = channel;
            let samples = RunColumn::new(samples, watch);
            watched.push(catchment_writer::ChannelColumn { id, first_sample, spans, samples });
        }
        let columns = watched;
        let frame = catchment_writer::ChannelFrame { start_ns, end_ns, columns, keys, increments };
        let frame = self.maker.channels(frame).map_err(not_in_schema)?;
        if let Some(increments) = increments {
            let mut counted = increments.clone();
            for source in &mut counted.sources {
                source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
            }
            self.ledger.add(&counted);
        }
        self.write_frame(frame)?;
        match &mut self.trends {
            Some(trends) => trends.advance(end_ns),
            None => Ok(()),
        }
    }

    /// Writes a frame of another file of the run as it is there: its number, unless each file has
    /// its own, its ranges and its origin, and its columns as they are stored. `damaged` has the
    /// checksums of columns that are damaged, by their ids. `counts` is what it adds to the ledger.
    pub(crate) fn copy(
        &mut self,
        info: FrameInfo,
        (columns, damaged): (&[(ColumnEntry, Vec<u8>)], &KeptChecksums),
        counts: &Ledger,
    ) -> Result<(), StorageError> {
        if self.run.numbering == Numbering::Run {
            self.sequence = info.sequence;
        }
        let mut counted = counts.clone();
        for source in &mut counted.sources {
            source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
        }
        let columns = columns.iter().map(|(entry, bytes)| {
            let qualified = unqualified(entry.codec);
            let form = ColumnForm {
                first_sample: entry.first_sample,
                start_ns: entry.start_ns,
                is_qualified: qualified.is_some(),
                ..ColumnForm::new(entry.id, entry.dtype, entry.rows)
            };
            let (codec, raw_bytes) = (qualified.unwrap_or(entry.codec), entry.raw_bytes);
            let checksums = damaged.get(&entry.id);
            let stored = ColumnData::Stored(StoredColumn { codec, raw_bytes, bytes, checksums });
            let ask = Ask::new(Element::Bytes, Rule::Fixed(Coding::None));
            FrameColumn { form, ask, is_small: false, bytes: RunColumn::from(stored) }
        });
        self.write_frame(Frame { info, columns: columns.collect() })?;
        self.ledger.add(&counted);
        Ok(())
    }

    /// Checks the numbers of a channel's samples.
    fn check_channel(
        &self,
        channel: &ChannelColumn<'_>,
        time: &Range<u64>,
    ) -> Result<(), StorageError> {
        let what = || format!("column {}", channel.id);
        let info = self.maker.column(channel.id).ok();
        let info = info.filter(|info| info.kind == ColumnKind::Channel);
        let Some((info, rate)) = info.and_then(|info| Some((info, info.rate?))) else {
            return Err(unwritable(&what(), "the schema has no such channel"));
        };
        // A type of a later version is copied.
        let row_bytes = info.row_bytes().unwrap_or(1);
        let raw_bytes = channel.samples.raw_bytes() as u64;
        if !raw_bytes.is_multiple_of(row_bytes) {
            return Err(unwritable(&what(), "it is not whole rows"));
        }
        let rows = raw_bytes / row_bytes;
        if rows == 0 {
            return Ok(());
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
        let first_ns = rate.time_ns(channel.first_sample);
        if !time.contains(&first_ns) || !time.contains(&rate.time_ns(last)) {
            return Err(unwritable(&what(), "its samples are outside of the frame's time"));
        }
        Ok(())
    }

    /// The observer of a channel's samples, if it has a trend.
    fn watch(&self, channel: &ChannelColumn<'_>) -> Option<Watch> {
        let trend = self.trends.as_ref()?.channel(channel.id)?;
        let sample_bytes = self.maker.column(channel.id).ok()?.row_bytes()? as usize;
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

    /// Checks a frame's columns, and adds its counts and its increments to the ledger's total.
    fn count_events(&mut self, frame: &EventFrame<'_>) -> Result<(), StorageError> {
        let rows = frame.keys.len();
        let source_count = self.run.schema.sources.len();
        frame.increments.map_or(Ok(()), |increments| self.check_ledger(increments))?;
        if frame.times_ns.len() != rows || frame.flags.len() != rows {
            return Err(unwritable("event columns", "keys, times and flags are of one length"));
        }
        let mut fragments = vec![(0, 0, rows as u64, (0, 0)); source_count];
        for source in &frame.sources {
            let index = source.source.index();
            let (bits, expected) = (source.validity.as_deref(), source.expected.as_deref());
            let has_none = source.lengths.is_empty() && bits.is_none() && expected.is_some();
            let fits = index < source_count
                && (has_none || source.lengths.len() == rows)
                && (source.times.is_empty() || source.times.len() == rows)
                && source.pieces.iter().all(|piece| piece.row < source.lengths.len() as u64)
                && [bits, expected].iter().flatten().all(|bits| bits.len() == rows.div_ceil(8));
            let sum: u64 = source.lengths.iter().map(|&length| u64::from(length)).sum();
            if !fits || sum != source.payload.raw_bytes() as u64 {
                let what = format!("columns of source {index}");
                let problem = "lengths and validity have the frame's rows, payload their sum";
                return Err(unwritable(&what, problem));
            }
            let ones = |bits: &[u8]| bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
            let count = bits.map_or(source.lengths.len() as u64, ones);
            let missing = match (bits, expected) {
                (Some(there), Some(expected)) => {
                    let lacking =
                        there.iter().zip(expected).map(|(there, expected)| expected & !there);
                    lacking.map(|byte| u64::from(byte.count_ones())).sum()
                }
                (None, Some(expected)) if has_none => ones(expected),
                _ => (rows as u64).saturating_sub(count),
            };
            let with_holes = source.holes.chunk_by(|one, other| one.row == other.row).count();
            let lost = source.holes.iter().map(|hole| hole.bytes).sum::<u64>();
            let count = count + further_pieces(source.pieces);
            fragments[index] = (count, sum, missing, (with_holes as u64, lost));
        }
        let mut counted = frame.increments.cloned().unwrap_or_else(|| Ledger::new(source_count));
        for (index, (count, bytes, missing, holes)) in fragments.into_iter().enumerate() {
            let source = &mut counted.sources[index];
            source[Entry::FragmentsRecorded] = count;
            source[Entry::FragmentBytesRecorded] = bytes;
            (source[Entry::FragmentsWithHoles], source[Entry::FragmentBytesLost]) = holes;
            source[Entry::FragmentsDurable] = count;
            if self.run.schema.sources[index].required {
                source[Entry::FragmentsMissing] = missing;
            }
        }
        self.ledger.add(&counted);
        Ok(())
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
            schema: Arc::clone(self.maker.schema()),
            ledger_entries: EntryNames::default(),
            // The file is not read before it has its TOC.
            locator: false,
            numbering: self.run.numbering,
            variant: self.run.variant,
            target: None,
            part: None,
            stream: self.run.stream,
            epoch: 0,
            superseded: self.run.superseded.clone(),
            base: self.run.base.clone(),
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

fn not_in_schema(error: NoColumn) -> StorageError {
    unwritable(&format!("column {}", error.column), "the schema does not have it")
}

pub(crate) fn unwritable(what: &str, problem: &str) -> StorageError {
    StorageError::Unwritable { what: what.to_owned(), problem: problem.to_owned() }
}

/// The system has no random bits for an identity.
pub(crate) fn no_random_bits(error: getrandom::Error) -> StorageError {
    catchment_disk::DiskError::Resource { what: "random bits", source: error.into() }.into()
}

/// Buffers kept for the next columns: more than are in progress at a time.
const BUFFERS_BYTES_MAX: usize = 64 << 20;
