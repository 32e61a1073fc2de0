//! GWF files into a run.
//!
//! Frames are taken by their time, whatever order the files come in. Several become one of the
//! run's frames, up to the next multiple of the wanted length; only one such frame is in memory. A
//! vector that cannot be read, or does not fit those before it, costs itself and is counted.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use catchment_frame::{ChannelColumns, ChannelInfo, Schema};
use catchment_interop::gwf::{Auxiliary, GwfError, GwfFile, Index};
use catchment_model::TimeScale;
use catchment_model::units::grouped;
use catchment_storage::{
    ChannelColumn, ChannelFrame, Codings, ColumnCoding, ColumnData, Done, Ending, NewRun, Pattern,
    RunWriter, Span, StorageError, WriteOptions,
};

use crate::error::Misfit;
use crate::omissions::Omissions;
use crate::report::Chosen;
use crate::targets::{Input, InputFrame, Targets, fit};
use crate::{ConvertError, NS_PER_S, Report, open_source};

/// How a run is written.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
    /// Seconds of data in a frame.
    pub frame_s: u32,
    /// How columns are encoded.
    pub codec: ColumnCoding,
}

/// Writes a run of the files' channels that fit one of the patterns, or all of them without one,
/// into a folder that is empty or not there. `progress` is asked before each GWF frame whether to
/// go on; the run that was written until then is whole.
///
/// # Errors
/// A pattern that fits no channel, no channel that a run can hold, files that overlap or cannot be
/// read, a run that cannot be written.
pub fn import(
    paths: &[PathBuf],
    folder: &Path,
    channels: &[Pattern],
    options: &ImportOptions,
    mut progress: impl FnMut(Done) -> ControlFlow<()>,
) -> Result<Report, ConvertError> {
    let mut report = Report::default();
    let inputs = open(paths, &mut report)?;
    let frames = frames_by_time(&inputs, &mut report)?;
    let targets = Targets::find(&inputs, &frames, Chosen(channels), &mut report)?;
    if targets.infos.is_empty() {
        return Err(ConvertError::NoChannelInFiles { left_out: report.left_out });
    }
    let mut joiner = Joiner::new(folder, &targets, run_number(&frames), options)?;
    report.channels = targets.infos.len();
    let mut omissions = Omissions::default();
    for (index, frame) in frames.iter().enumerate() {
        if progress(Done { frames: index, frames_total: frames.len() }).is_break() {
            report.stopped = true;
            break;
        }
        joiner.begin(frame)?;
        omissions.frame(frame, run_number(&frames));
        let input = &inputs[frame.file];
        take(input, frame, &targets, &mut joiner, &mut omissions, &mut report)
            .map_err(|source| ConvertError::Gwf { path: input.path.clone(), source })?;
    }
    joiner.flush()?;
    omissions.add_to(&mut report);
    let written = joiner.writer.finish(Ending {
        run_ended: true,
        data_lost: !report.left_out.is_empty() || report.stopped,
        ..Ending::default()
    })?;
    (report.files, report.frames) = (written.files, written.frames);
    report.file_bytes = written.file_bytes;
    Ok(report)
}

/// Takes all vectors of a frame.
///
/// # Errors
/// If the system cannot read.
fn take(
    input: &Input,
    frame: &InputFrame,
    targets: &Targets,
    joiner: &mut Joiner,
    omissions: &mut Omissions,
    report: &mut Report,
) -> Result<(), GwfError> {
    for (channel, target) in targets.by_file[frame.file].iter().enumerate() {
        let Some(target) = *target else { continue };
        let info = &targets.infos[target];
        let read = match input.file.read(channel, frame.index, &mut joiner.samples) {
            Ok(Some(read)) => read,
            Ok(None) => continue,
            Err(error @ GwfError::Read { .. }) => return Err(error),
            Err(error) => {
                omissions.unread(&info.name, frame, &error);
                continue;
            }
        };
        let numbers = fit(info, &read, frame);
        if let Err(reason) = numbers.and_then(|numbers| joiner.add(target, info, numbers)) {
            omissions.unfit(&info.name, frame, &reason);
            continue;
        }
        report.samples += read.samples;
        report.sample_bytes += joiner.samples.len() as u64;
        let mut auxiliary = Auxiliary::default();
        if read.auxiliary {
            match input.file.auxiliary(channel, frame.index) {
                Ok(found) => auxiliary = found,
                Err(error @ GwfError::Read { .. }) => return Err(error),
                Err(error) => omissions.auxiliary_unread(&info.name, frame, &error),
            }
        }
        omissions.vector(&info.name, &read, auxiliary);
    }
    Ok(())
}

fn open(paths: &[PathBuf], report: &mut Report) -> Result<Vec<Input>, ConvertError> {
    let mut inputs = Vec::with_capacity(paths.len());
    for path in paths {
        let file = GwfFile::open(open_source(path)?)
            .map_err(|source| ConvertError::Unreadable { path: path.clone(), source })?;
        if let Index::Walk { ended, damaged, .. } = file.index() {
            if let Some(error) = ended {
                report.left_out.push(format!("the end of {}: {error}", path.display()));
            }
            if let Some(error) = &damaged.first {
                let (path, structures) = (path.display(), grouped(damaged.structures));
                report.left_out.push(format!("{path}: {structures} damaged structures: {error}"));
            }
        }
        inputs.push(Input { path: path.clone(), file });
    }
    Ok(inputs)
}

/// All frames by their start; frames of the same time are refused, and one whose time cannot be is
/// left out.
fn frames_by_time(inputs: &[Input], report: &mut Report) -> Result<Vec<InputFrame>, ConvertError> {
    let mut frames = Vec::new();
    for (file, input) in inputs.iter().enumerate() {
        for (index, frame) in input.file.frames().iter().enumerate() {
            let duration_ns = frame.duration_s * NS_PER_S as f64;
            let bounded = (1.0..1e18).contains(&duration_ns) && frame.gps_ns < NS_PER_S as u32;
            if !bounded {
                report.left_out.push(format!(
                    "{}: frame {index} begins at GPS {}.{:09} and lasts {} s, which cannot be",
                    input.path.display(),
                    frame.gps_s,
                    frame.gps_ns,
                    frame.duration_s
                ));
                continue;
            }
            let start_ns = u64::from(frame.gps_s) * NS_PER_S + u64::from(frame.gps_ns);
            frames.push(InputFrame {
                file,
                index,
                start_ns,
                end_ns: start_ns + duration_ns.round() as u64,
                next_ns: u64::MAX,
                run: u64::try_from(frame.run).unwrap_or(0),
                data_quality: frame.data_quality,
            });
        }
    }
    frames.sort_by_key(|frame| (frame.start_ns, frame.file, frame.index));
    for pair in frames.windows(2) {
        let [one, next] = pair else { continue };
        if next.start_ns < one.end_ns {
            return Err(ConvertError::Overlap {
                path: inputs[next.file].path.clone(),
                start_ns: next.start_ns,
                other: inputs[one.file].path.clone(),
                end_ns: one.end_ns,
            });
        }
    }
    for index in 1..frames.len() {
        frames[index - 1].next_ns = frames[index].start_ns;
    }
    Ok(frames)
}

fn run_number(frames: &[InputFrame]) -> u64 {
    frames.first().map_or(0, |frame| frame.run)
}

/// Joins frames up to the next multiple of a length.
struct Joiner {
    writer: RunWriter,
    ids: Vec<u32>,
    time_scale: TimeScale,
    /// The samples of the vector that was read last.
    samples: Vec<u8>,
    /// By channel.
    pending: Vec<Pending>,
    /// The time of the pending frame, in the run's time scale.
    time: Option<Range<u64>>,
    bytes: u64,
    frame_ns: u64,
}

/// A channel's samples that are not written yet.
#[derive(Default)]
struct Pending {
    first_sample: u64,
    /// The number behind the last sample, also of those that are written.
    end_sample: u64,
    rows: u64,
    spans: Vec<Span>,
    bytes: Vec<u8>,
}

impl Joiner {
    /// Begins a run.
    fn new(
        folder: &Path,
        targets: &Targets,
        run_number: u64,
        options: &ImportOptions,
    ) -> Result<Self, ConvertError> {
        let schema = Schema::default().with_channels(targets.infos.clone())?;
        let ids = ChannelColumns::of(&schema).channels.iter().map(|channel| channel.id).collect();
        let no_name = || ConvertError::NoName { folder: folder.to_owned() };
        let name = folder.file_name().ok_or_else(no_name)?.to_string_lossy();
        let mut new = NewRun::new(folder, name, schema)?;
        new.run_number = run_number;
        let writer_options =
            WriteOptions { codings: Codings::new(options.codec), ..WriteOptions::default() };
        Ok(Self {
            writer: RunWriter::create(new, writer_options)?,
            ids,
            time_scale: targets.time_scale,
            samples: Vec::new(),
            pending: targets.infos.iter().map(|_| Pending::default()).collect(),
            time: None,
            bytes: 0,
            frame_ns: u64::from(options.frame_s) * NS_PER_S,
        })
    }

    /// Writes the pending frame, if this one is not to be joined with it.
    fn begin(&mut self, frame: &InputFrame) -> Result<(), StorageError> {
        let convert = |time_ns| TimeScale::Gps.convert_ns(self.time_scale, time_ns);
        let (start_ns, end_ns) = (convert(frame.start_ns), convert(frame.end_ns));
        if let Some(time) = &self.time {
            let border = (time.start / self.frame_ns + 1).saturating_mul(self.frame_ns);
            if start_ns >= border || self.bytes >= PENDING_BYTES_MAX {
                self.flush()?;
            }
        }
        let time = self.time.get_or_insert(start_ns..end_ns);
        time.end = time.end.max(end_ns);
        Ok(())
    }

    /// Takes the samples that were read last: a channel's with these numbers, of the frame that was
    /// begun.
    ///
    /// # Errors
    /// If there were samples with such numbers before.
    fn add(
        &mut self,
        target: usize,
        info: &ChannelInfo,
        numbers: Range<u64>,
    ) -> Result<(), Misfit> {
        if numbers.is_empty() {
            return Ok(());
        }
        let pending = &mut self.pending[target];
        let (start_ns, last_ns) =
            (info.rate.time_ns(numbers.start), info.rate.time_ns(numbers.end - 1));
        if numbers.start < pending.end_sample {
            let gps_ns = |time_ns| self.time_scale.to_gps_ns(time_ns);
            let end_ns = gps_ns(info.rate.time_ns(pending.end_sample));
            return Err(Misfit::Repeated { start_ns: gps_ns(start_ns), end_ns });
        }
        // Samples may lie outside of their frame; and a time between two nanoseconds is rounded
        // down here, and may be rounded up there.
        let time = self.time.get_or_insert(start_ns..last_ns + 1);
        (time.start, time.end) = (time.start.min(start_ns), time.end.max(last_ns + 1));
        if pending.rows == 0 {
            pending.first_sample = numbers.start;
        } else if numbers.start > pending.end_sample {
            pending.spans.push(Span { row: pending.rows, sample: numbers.start });
        }
        pending.rows += numbers.end - numbers.start;
        pending.end_sample = numbers.end;
        pending.bytes.extend_from_slice(&self.samples);
        self.bytes += self.samples.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        let Some(time) = self.time.take() else { return Ok(()) };
        let with_samples = self.ids.iter().zip(&self.pending).filter(|(_, one)| one.rows > 0);
        let columns: Vec<ChannelColumn<'_>> = with_samples
            .map(|(id, one)| ChannelColumn {
                id: *id,
                first_sample: one.first_sample,
                spans: &one.spans,
                samples: ColumnData::Raw(&one.bytes),
            })
            .collect();
        if !columns.is_empty() {
            self.writer.write_channels(ChannelFrame {
                start_ns: time.start,
                end_ns: time.end,
                columns,
                keys: (0, 0),
                increments: None,
            })?;
        }
        for one in &mut self.pending {
            one.rows = 0;
            one.spans.clear();
            one.bytes.clear();
        }
        self.bytes = 0;
        Ok(())
    }
}

/// Samples that wait for more before they are written all the same.
const PENDING_BYTES_MAX: u64 = 1 << 30;
