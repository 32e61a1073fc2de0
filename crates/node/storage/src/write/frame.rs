//! Writes one frame: its columns are encoded in parallel on separate threads, and streamed in order
//! while others are encoded.

use std::time::Duration;

use catchment_agent::Agent;
use catchment_encoder::{Encode, Level, PoolConfig};
use catchment_frame::{FrameInfo, Origin, TocFlags, stored_space};
use catchment_model::limits::{COLUMN_BYTES_MAX, FRAME_BYTES_MAX};
use catchment_runner::{Idle, Park, Signal};
use catchment_telemetry::Clock;
use catchment_trends::Seconds;
use catchment_writer::{Frame, FrameColumn, FrameEncoder, FrameUnderWay, Next, TOC_ENTRY_BYTES};

use super::column::RunColumn;
use super::output::Output;
use super::{EncodeMemory, RunWriter, unwritable};
use crate::error::StorageError;

impl RunWriter {
    /// Encodes and writes a frame; file id and number are set here.
    pub(super) fn write_frame(&mut self, frame: Frame<RunColumn<'_>>) -> Result<(), StorageError> {
        self.check_whole()?;
        let columns = &frame.columns;
        let mut frame_bytes = self.output.header_space(columns.len());
        for column in columns {
            let bytes = column.bytes.bytes_max();
            if bytes > COLUMN_BYTES_MAX {
                return Err(unwritable(&format!("column {}", column.form.id), "it is too long"));
            }
            frame_bytes += stored_space(bytes);
        }
        if frame_bytes > FRAME_BYTES_MAX {
            return Err(unwritable("frame", "it is too long"));
        }
        let written = self.try_write(frame, frame_bytes);
        if written.is_err() && self.options.growing.is_some() {
            self.broken = false;
            if self.output.leave_file(&self.ledger) {
                self.next_index -= 1;
            }
        }
        written
    }

    fn try_write(
        &mut self,
        Frame { info, columns }: Frame<RunColumn<'_>>,
        frame_bytes: u64,
    ) -> Result<(), StorageError> {
        if self.is_full(&info, frame_bytes, columns.len()) {
            let ledger = self.ledger.clone();
            self.close_file(&ledger, TocFlags::default())?;
        }
        if self.output.file().is_none() {
            self.begin_file()?;
        }
        self.broken = true;
        let origin = Origin { variant: self.run.variant, ..info.origin };
        let info = FrameInfo { sequence: self.sequence, origin, ..info };
        self.output.begin_frame(info, columns.len());
        let seen = self.memory.stream(columns, self.pool_bytes(), &mut self.output)?;
        if let Some(trends) = &mut self.trends {
            seen.into_iter().for_each(|(column, seen)| trends.add(column, &seen));
        }
        let (_, entries) = self.output.end_frame()?;
        self.report.raw_bytes += entries.iter().map(|entry| entry.raw_bytes).sum::<u64>();
        self.report.stored_bytes += entries.iter().map(|entry| entry.stored_bytes).sum::<u64>();
        self.report.frames += 1;
        // A copied frame has the number that a file says.
        self.sequence = self.sequence.saturating_add(1);
        if info.rows > 0 {
            self.first_time_ns.get_or_insert(info.time_first_ns);
        }
        self.broken = false;
        Ok(())
    }

    /// Refuses to continue after a frame that could not be ended.
    pub(super) fn check_whole(&self) -> Result<(), StorageError> {
        match self.broken {
            true => Err(unwritable("run", "a frame before could not be written to its end")),
            false => Ok(()),
        }
    }

    /// Whether a frame of at most that many bytes belongs in another file.
    fn is_full(&self, info: &FrameInfo, frame_bytes: u64, columns: usize) -> bool {
        let Some(file) = self.output.file() else { return false };
        let toc_bytes =
            file.header_bytes() + file.toc_bytes() + TOC_ENTRY_BYTES * (1 + columns as u64);
        let bytes = file.end + frame_bytes + toc_bytes;
        let begin = self.first_time_ns.unwrap_or(info.time_first_ns);
        let time_ns = info.time_first_ns.saturating_sub(begin);
        let old = self.options.file_time_ns.is_some_and(|most| time_ns >= most);
        file.has_frames()
            && (bytes > self.options.file_bytes || old || toc_bytes > self.options.toc_bytes)
    }

    /// Raw bytes of the columns being encoded at a time: growing files take little memory.
    fn pool_bytes(&self) -> usize {
        if self.options.growing.is_some() { TOGETHER_BYTES } else { POOL_BYTES }
    }
}

impl EncodeMemory {
    /// Encodes columns and appends them to the output, in order. Returns the sums observed in their
    /// channels' seconds, by column.
    fn stream(
        &mut self,
        columns: Vec<FrameColumn<RunColumn<'_>>>,
        pool_bytes: usize,
        output: &mut Output,
    ) -> Result<Vec<(u32, Seconds)>, StorageError> {
        let bytes: usize = columns.iter().map(|column| column.bytes.bytes_max() as usize).sum();
        // Columns, or pieces of large ones, that can be encoded at a time.
        let together = columns.len().max(bytes / (pool_bytes / 4));
        let few = together < 2 || bytes < ALONE_BYTES_MAX;
        let threads = if few { 1 } else { self.workers.len().min(together) };
        let (wanted, mut ready) = (Signal::default(), Signal::default());
        let pool = PoolConfig {
            bytes_max: pool_bytes,
            buffers: self.buffers.clone(),
            encoders: wanted.waker(),
            owner: ready.waker(),
        };
        let mut encoder = FrameEncoder::new(Some(pool));
        let mut agents: Vec<Encode<_>> =
            self.workers.drain(..).filter_map(|worker| encoder.agent_with(worker)).collect();
        let (first, others) = agents.split_first_mut().expect("one thread encodes at least");
        let mut frame = FrameUnderWay::new(columns);
        let mut seconds = Vec::new();
        let streamed = std::thread::scope(|scope| {
            for agent in &mut others[..threads - 1] {
                let mut wanted = wanted.clone();
                scope.spawn(move || Idle::default().run(agent, Clock::start(), &mut wanted));
            }
            let streamed = loop {
                match encoder.next(&mut frame, Level::AsAsked) {
                    Next::Column(column) => {
                        if let Err(error) = output.append(&column) {
                            break Err(error);
                        }
                        if column.done.column.is_watched() {
                            seconds.push((column.form.id, column.done.seen.seconds));
                        }
                    }
                    Next::Encoding if first.work(0).done > 0 => {}
                    Next::Encoding => ready.park(LONGEST_WAIT),
                    Next::Failed(column) => {
                        break Err(column.into_error().expect("a column that fails says why"));
                    }
                    Next::End => break Ok(()),
                }
            };
            // The agents end with their pool.
            drop(encoder);
            streamed
        });
        self.workers.extend(agents.into_iter().map(Encode::into_worker));
        streamed.map(|()| seconds)
    }
}

/// Smaller frames are not worth a second thread.
const ALONE_BYTES_MAX: usize = 256 << 10;
/// Raw bytes of the columns being encoded at a time: a few for every thread.
const POOL_BYTES: usize = 32 << 20;
/// As [`POOL_BYTES`], for growing files.
pub(crate) const TOGETHER_BYTES: usize = 8 << 20;
/// The longest sleep while others encode; they wake this thread.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
