//! GWF files into a run.
//!
//! Frames are taken by their time, whatever order the files come in. Several become one of the run's
//! frames, up to the next multiple of the wanted length; only one such frame is in memory. A sample's
//! number follows from its time and the rate, both exactly: what does not fit is refused, not
//! rounded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use catchment_frame::{ChannelColumns, ChannelInfo, Schema};
use catchment_interop::gwf::{self, GwfError, GwfFile, Index, exact_rate};
use catchment_model::{SampleRate, TimeScale};
use catchment_storage::{
    ChannelColumn, ChannelFrame, Codings, ColumnCoding, ColumnData, Ending, NewRun, RunWriter,
    Span, WriteOptions,
};

use crate::commands::convert::{Report, Wanted};
use crate::gwf::{NS_PER_S, Source, calibration_of_comment, dtype_of, why_not};
use crate::output::{Out, grouped, progress};
use crate::signals::Stop;

/// How a run is written.
pub(crate) struct ImportOptions {
    /// Seconds of data in a frame.
    pub(crate) frame_s: u32,
    /// How columns are encoded.
    pub(crate) codec: ColumnCoding,
}

/// Writes a run of what the files hold. Where that fails, no file is left that was not whole.
pub(crate) fn import(
    paths: &[PathBuf],
    folder: &Path,
    wanted: &Wanted,
    options: &ImportOptions,
    stop: &Stop,
    out: &Out,
) -> anyhow::Result<Report> {
    let result = convert(paths, folder, wanted, options, stop, out);
    if result.is_err() {
        // Goes only if it is empty; that it is not, or was never made, is no error of its own.
        std::fs::remove_dir(folder).ok();
    }
    result
}

fn convert(
    paths: &[PathBuf],
    folder: &Path,
    wanted: &Wanted,
    options: &ImportOptions,
    stop: &Stop,
    out: &Out,
) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let inputs = open(paths, &mut report)?;
    let frames = frames_by_time(&inputs)?;
    let targets = targets(&inputs, wanted, &mut report)?;
    ensure!(
        !targets.infos.is_empty(),
        "there is no channel to convert{}",
        why_not(&report.left_out)
    );
    let schema = Schema::default().with_channels(targets.infos.clone())?;
    let ids = ChannelColumns::of(&schema).channels.iter().map(|channel| channel.id).collect();
    let name = folder.file_name().context("a folder's name")?.to_string_lossy();
    let mut new = NewRun::new(folder, name, schema)?;
    let new_run_number = frames.first().map_or(0, |frame| frame.run);
    new.run_number = new_run_number;
    let writer_options =
        WriteOptions { codings: Codings::new(options.codec), ..WriteOptions::default() };
    let mut joiner = Joiner {
        writer: RunWriter::create(new, writer_options)?,
        ids,
        pending: targets.infos.iter().map(|_| Pending::default()).collect(),
        time: None,
        bytes: 0,
        frame_ns: u64::from(options.frame_s) * NS_PER_S,
    };
    report.channels = targets.infos.len();
    let bar = progress(out, "converting", frames.len() as u64);
    let mut samples = Vec::new();
    let mut unkept = Unkept::default();
    for frame in &frames {
        if stop.asked() {
            report.stopped = true;
            break;
        }
        joiner.begin(frame)?;
        unkept.frame(frame, new_run_number);
        let input = &inputs[frame.file];
        for (channel, target) in targets.by_file[frame.file].iter().enumerate() {
            let Some(target) = *target else { continue };
            let read = input.file.read(channel, frame.index, &mut samples);
            let Some(read) = read.with_context(|| input.path.display().to_string())? else {
                continue;
            };
            let info = &targets.infos[target];
            same_channel(info, &read, frame).with_context(|| input.path.display().to_string())?;
            joiner.add(target, info, &read, frame, &samples)?;
            unkept.vector(&info.name, &read);
            report.samples += read.samples;
            report.sample_bytes += samples.len() as u64;
        }
        bar.inc(1);
    }
    joiner.flush()?;
    bar.finish_and_clear();
    unkept.say(&mut report);
    let written = joiner.writer.finish(Ending {
        run_ended: true,
        data_lost: !report.left_out.is_empty() || report.stopped,
        ..Ending::default()
    })?;
    (report.files, report.frames) = (written.files, written.frames);
    report.file_bytes = written.file_bytes;
    Ok(report)
}

/// A file that is open.
struct Input {
    path: PathBuf,
    file: GwfFile<Source>,
}

/// A frame of a file.
struct InputFrame {
    file: usize,
    index: usize,
    start_ns: u64,
    end_ns: u64,
    run: u64,
    data_quality: u32,
}

/// What frames and vectors say that a run has no place for, counted.
#[derive(Default)]
struct Unkept {
    /// Frames whose dataQuality is not 0, and all bits that were set.
    frames_doubtful: u64,
    data_quality: u32,
    /// Frames of another run than the first.
    frames_of_other_runs: u64,
    /// By channel: vectors whose dataValid is not 0, the samples in them.
    vectors_invalid: BTreeMap<String, (u64, u64)>,
    /// By channel: vectors with a comment that is not ours.
    vectors_commented: BTreeMap<String, u64>,
}

impl Unkept {
    fn frame(&mut self, frame: &InputFrame, run_number: u64) {
        self.frames_doubtful += u64::from(frame.data_quality != 0);
        self.data_quality |= frame.data_quality;
        self.frames_of_other_runs += u64::from(frame.run != run_number);
    }

    fn vector(&mut self, name: &str, read: &gwf::ChannelInfo) {
        if read.data_valid != 0 {
            let (vectors, samples) = self.vectors_invalid.entry(name.to_owned()).or_default();
            *vectors += 1;
            *samples += read.samples;
        }
        if !read.comment.is_empty() && calibration_of_comment(&read.comment).is_none() {
            *self.vectors_commented.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Flags are a loss: who reads the run cannot know them. Words about data are none.
    fn say(self, report: &mut Report) {
        if self.frames_doubtful > 0 {
            let (frames, bits) = (grouped(self.frames_doubtful), self.data_quality);
            let message = format!("dataQuality of {frames} frames that is not 0: bits {bits:#x}");
            report.left_out.push(message);
        }
        for (name, (vectors, samples)) in self.vectors_invalid {
            let (vectors, samples) = (grouped(vectors), grouped(samples));
            let message = format!("{name}: dataValid of {vectors} vectors, {samples} samples");
            report.left_out.push(format!("{message}, that is not 0"));
        }
        if self.frames_of_other_runs > 0 {
            let frames = grouped(self.frames_of_other_runs);
            report.notes.push(format!("run number of {frames} frames, another than the first's"));
        }
        for (name, vectors) in self.vectors_commented {
            report.notes.push(format!("{name}: comments of {} vectors", grouped(vectors)));
        }
    }
}

fn open(paths: &[PathBuf], report: &mut Report) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::with_capacity(paths.len());
    for path in paths {
        let file = GwfFile::open(Source::open(path)?)
            .with_context(|| format!("cannot read {}", path.display()))?;
        if let Index::Walk { ended: Some(error), .. } = file.index() {
            report.left_out.push(format!("the end of {}: {error}", path.display()));
        }
        inputs.push(Input { path: path.clone(), file });
    }
    Ok(inputs)
}

/// All frames by their start; frames of the same time are refused.
fn frames_by_time(inputs: &[Input]) -> anyhow::Result<Vec<InputFrame>> {
    let mut frames = Vec::new();
    for (place, input) in inputs.iter().enumerate() {
        for (index, frame) in input.file.frames().iter().enumerate() {
            let duration_ns = frame.duration_s * NS_PER_S as f64;
            let bounded = (1.0..1e18).contains(&duration_ns) && frame.gps_ns < NS_PER_S as u32;
            ensure!(
                bounded,
                "{}: frame {index} begins at GPS {}.{:09} and lasts {} s, which cannot be",
                input.path.display(),
                frame.gps_s,
                frame.gps_ns,
                frame.duration_s
            );
            let start_ns = u64::from(frame.gps_s) * NS_PER_S + u64::from(frame.gps_ns);
            frames.push(InputFrame {
                file: place,
                index,
                start_ns,
                end_ns: start_ns + duration_ns.round() as u64,
                run: u64::try_from(frame.run).unwrap_or(0),
                data_quality: frame.data_quality,
            });
        }
    }
    frames.sort_by_key(|frame| (frame.start_ns, frame.file, frame.index));
    for pair in frames.windows(2) {
        let [one, next] = pair else { continue };
        ensure!(
            next.start_ns >= one.end_ns,
            "frames overlap: {} has one from GPS {} on, {} one until GPS {}",
            inputs[next.file].path.display(),
            seconds(next.start_ns),
            inputs[one.file].path.display(),
            seconds(one.end_ns)
        );
    }
    Ok(frames)
}

/// The channels of the run, and which channel of which file is which.
struct Targets {
    infos: Vec<ChannelInfo>,
    by_file: Vec<Vec<Option<usize>>>,
}

fn targets(inputs: &[Input], wanted: &Wanted, report: &mut Report) -> anyhow::Result<Targets> {
    let names = inputs.iter().flat_map(|input| input.file.channels());
    let names: BTreeSet<&str> = names.map(|channel| channel.name.as_str()).collect();
    wanted.check(&names.into_iter().collect::<Vec<_>>())?;
    let mut known = BTreeMap::new();
    let mut infos = Vec::new();
    let mut by_file = Vec::with_capacity(inputs.len());
    for input in inputs {
        let mut places = Vec::with_capacity(input.file.channels().len());
        let mut here = BTreeMap::new();
        for (index, channel) in input.file.channels().iter().enumerate() {
            if !wanted.has(&channel.name) {
                places.push(None);
                continue;
            }
            if let Some(other) = here.insert(&channel.name, channel.kind) {
                bail!(
                    "{}: {} is there twice, as {other:?} and as {:?}",
                    input.path.display(),
                    channel.name,
                    channel.kind
                );
            }
            let place = match known.get(&channel.name) {
                Some(place) => *place,
                None => {
                    let info = describe(input, index, report)
                        .with_context(|| format!("{}: {}", input.path.display(), channel.name))?;
                    let place = info.map(|info| {
                        infos.push(info);
                        infos.len() - 1
                    });
                    known.insert(channel.name.clone(), place);
                    place
                }
            };
            places.push(place);
        }
        by_file.push(places);
    }
    Ok(Targets { infos, by_file })
}

/// What a channel is, from the first frame that has it; none for what is no channel.
fn describe(
    input: &Input,
    channel: usize,
    report: &mut Report,
) -> anyhow::Result<Option<ChannelInfo>> {
    let name = &input.file.channels()[channel].name;
    for (index, frame) in input.file.frames().iter().enumerate() {
        let info = match input.file.info(channel, index) {
            Ok(Some(info)) => info,
            Ok(None) => continue,
            Err(error @ GwfError::Unsupported { .. }) => {
                report.left_out.push(format!("{name}: {error}"));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if !info.time_series {
            let unit = &info.unit_x;
            report.left_out.push(format!("{name}: no time series, its axis is in {unit:?}"));
            return Ok(None);
        }
        let mut described =
            ChannelInfo::new(name, dtype_of(info.kind), rate(&info, frame.duration_s)?);
        described.time_scale = TimeScale::Gps;
        described.unit.clone_from(&info.unit);
        (described.scale, described.offset) = calibration(&info);
        return Ok(Some(described));
    }
    report.left_out.push(format!("{name}: no frame has samples of it"));
    Ok(None)
}

/// The rate as a fraction, or an error that says why there is none.
fn rate(info: &gwf::ChannelInfo, duration_s: f64) -> anyhow::Result<SampleRate> {
    let duration_ns = (duration_s * NS_PER_S as f64).round() as u64;
    let stated = || {
        let rate = info.sample_rate_hz.filter(|rate| *rate > 0.0)?;
        exact_rate(1.0 / rate, 0, 0).filter(|(num, den)| *num as f64 / *den as f64 == rate)
    };
    let (num, den) =
        exact_rate(info.dx_s, info.samples, duration_ns).or_else(stated).with_context(|| {
            format!("samples are {:?} s apart: that is no rate that is a fraction", info.dx_s)
        })?;
    Ok(SampleRate::new(num, den)?)
}

/// Scale and offset; none where a value is the sample.
fn calibration(info: &gwf::ChannelInfo) -> (Option<f64>, Option<f64>) {
    let Some((bias, slope)) = info.calibration else { return (None, None) };
    // Slope 0 is what writers leave there that state none.
    if slope == 0.0 || (slope, bias) == (1.0, 0.0) {
        return (None, None);
    }
    match calibration_of_comment(&info.comment) {
        Some((scale, offset)) if scale as f32 == slope && offset as f32 == bias => {
            (Some(scale), Some(offset))
        }
        _ => (Some(slope.into()), Some(bias.into())),
    }
}

/// Refuses a channel that is another in a later frame.
fn same_channel(
    info: &ChannelInfo,
    read: &gwf::ChannelInfo,
    frame: &InputFrame,
) -> anyhow::Result<()> {
    let at = format!("{}: from GPS {} on", info.name, seconds(frame.start_ns));
    let dtype = dtype_of(read.kind);
    ensure!(dtype == info.dtype, "{at} samples are {}, before {}", dtype.name(), info.dtype.name());
    let rate = rate(read, (frame.end_ns - frame.start_ns) as f64 / NS_PER_S as f64)?;
    ensure!(rate == info.rate, "{at} the rate is {rate}, before {}", info.rate);
    ensure!(read.unit == info.unit, "{at} the unit is {:?}, before {:?}", read.unit, info.unit);
    let (now, before) = (calibration(read), (info.scale, info.offset));
    ensure!(now == before, "{at} scale and offset are {now:?}, before {before:?}");
    Ok(())
}

/// Joins frames up to the next multiple of a length.
struct Joiner {
    writer: RunWriter,
    ids: Vec<u32>,
    /// By channel.
    pending: Vec<Pending>,
    /// What the pending frame covers.
    time: Option<std::ops::Range<u64>>,
    bytes: u64,
    frame_ns: u64,
}

/// A channel's samples that are not written yet.
#[derive(Default)]
struct Pending {
    first_sample: u64,
    /// The number behind the last sample.
    end_sample: u64,
    rows: u64,
    spans: Vec<Span>,
    bytes: Vec<u8>,
}

impl Joiner {
    /// Writes what is pending, if this frame is not to be joined with it.
    fn begin(&mut self, frame: &InputFrame) -> anyhow::Result<()> {
        if let Some(time) = &self.time {
            let border = (time.start / self.frame_ns + 1).saturating_mul(self.frame_ns);
            if frame.start_ns >= border || self.bytes >= PENDING_BYTES_MAX {
                self.flush()?;
            }
        }
        let start_ns = self.time.as_ref().map_or(frame.start_ns, |time| time.start);
        self.time = Some(start_ns..frame.end_ns);
        Ok(())
    }

    /// Takes a channel's samples of the frame that was begun.
    fn add(
        &mut self,
        target: usize,
        info: &ChannelInfo,
        read: &gwf::ChannelInfo,
        frame: &InputFrame,
        samples: &[u8],
    ) -> anyhow::Result<()> {
        if read.samples == 0 {
            return Ok(());
        }
        let start_ns = start_ns(info, read, frame)?;
        let first = first_sample(info, start_ns)?;
        let time = self.time.get_or_insert(frame.start_ns..frame.end_ns);
        // A time between two nanoseconds is rounded down here, and may be rounded up there.
        time.start = time.start.min(info.rate.time_ns(first));
        let pending = &mut self.pending[target];
        if pending.rows == 0 {
            pending.first_sample = first;
        } else if first < pending.end_sample {
            bail!(
                "{}: samples from GPS {} on come twice, they reach until GPS {}",
                info.name,
                seconds(start_ns),
                seconds(info.rate.time_ns(pending.end_sample))
            );
        } else if first > pending.end_sample {
            pending.spans.push(Span { row: pending.rows, sample: first });
        }
        pending.rows += read.samples;
        pending.end_sample = first + read.samples;
        pending.bytes.extend_from_slice(samples);
        self.bytes += samples.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
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

/// GPS time of a vector's first sample, in nanoseconds.
fn start_ns(
    info: &ChannelInfo,
    read: &gwf::ChannelInfo,
    frame: &InputFrame,
) -> anyhow::Result<u64> {
    let offset_ns = (read.start_s * NS_PER_S as f64).round();
    ensure!(
        offset_ns.abs() < 1e18,
        "{}: its samples begin {} s behind the frame's start",
        info.name,
        read.start_s
    );
    let start = frame.start_ns.checked_add_signed(offset_ns as i64);
    start.with_context(|| format!("{}: its samples begin before the GPS epoch", info.name))
}

/// The number of the sample at that time, which must be on the grid of the rate.
fn first_sample(info: &ChannelInfo, start_ns: u64) -> anyhow::Result<u64> {
    let at = info.rate.first_sample_at(start_ns);
    let near = [at.saturating_sub(1), at].into_iter();
    let on_grid = near.min_by_key(|sample| info.rate.time_ns(*sample).abs_diff(start_ns));
    // Times of samples are rounded down to nanoseconds here; others round to the nearest.
    let found = on_grid.filter(|sample| info.rate.time_ns(*sample).abs_diff(start_ns) <= 1);
    found.with_context(|| {
        format!(
            "{}: its samples at {} begin at GPS {}, which is no multiple of their distance",
            info.name,
            info.rate,
            seconds(start_ns)
        )
    })
}

/// A time as seconds, exactly.
fn seconds(time_ns: u64) -> String {
    let (whole, rest) = (time_ns / NS_PER_S, time_ns % NS_PER_S);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:09}") }
}

/// Samples that wait for more before they are written all the same.
const PENDING_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(num: u64, den: u64) -> ChannelInfo {
        let rate = SampleRate::new(num, den).expect("a rate");
        ChannelInfo::new("X1:A", catchment_frame::Dtype::F32, rate)
    }

    #[test]
    fn samples_are_numbered_by_their_time() {
        let start_ns = 1_400_000_000 * NS_PER_S;
        assert_eq!(first_sample(&channel(16_384, 1), start_ns).ok(), Some(16_384 * 1_400_000_000));
        // The second sample, rounded down and to the nearest.
        for rounded in [61_035, 61_036] {
            let found = first_sample(&channel(16_384, 1), start_ns + rounded).ok();
            assert_eq!(found, Some(16_384 * 1_400_000_000 + 1));
        }
        assert_eq!(first_sample(&channel(1, 60), 60 * NS_PER_S).ok(), Some(1));
        let error = first_sample(&channel(1, 60), start_ns).unwrap_err().to_string();
        assert!(error.contains("begin at GPS 1400000000, which is no multiple"), "{error}");
        assert!(first_sample(&channel(16, 1), start_ns + 1_000).is_err());
    }

    #[test]
    fn times_are_written_as_seconds() {
        assert_eq!(seconds(5 * NS_PER_S), "5");
        assert_eq!(seconds(5 * NS_PER_S + 7), "5.000000007");
    }
}
