//! A run's channels into GWF files.
//!
//! Frames are cut at multiples of their length in GPS time. Where a channel has a gap within a
//! frame, the frame is cut at whole seconds as well, so that in each piece the same channels are
//! whole. Of a second that a channel has not whole it is left out: an FrVect has no gaps. That is
//! counted.

use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use catchment_interop::gwf::{
    Compress, FrameStart, GwfWriter, History, Series, SeriesKind, VectorType, WriteOptions,
};
use catchment_model::units::grouped;
use catchment_model::{SampleRate, TimeScale};
use catchment_storage::{ChannelInfo, Done, Pattern, Piece, Run, StorageError};
use catchment_telemetry::utc_now;

use crate::error::Misfit;
use crate::feed::{Feed, Stretch};
use crate::report::Chosen;
use crate::stated::{Stated, dx_s};
use crate::{ConvertError, EXTENSION, NS_PER_S, Report, vector_type_of};

/// How GWF files are written.
#[derive(Debug)]
pub struct ExportOptions {
    /// Seconds of data in a frame.
    pub frame_s: u32,
    /// Seconds of data in a file.
    pub file_s: u32,
    /// The sites' letters in file names.
    pub site: Option<String>,
    /// The description in file names.
    pub description: String,
    /// The level of zlib; 0: not compressed.
    pub zlib: u32,
}

/// Writes GWF files of a run's channels that fit one of the patterns, or of all without one, into a
/// folder, which is made where it is not there. `progress` is asked before each GWF frame whether
/// to go on; the files that were written until then are whole. Its numbers are of full GWF frames.
///
/// # Errors
/// A pattern that fits no channel, no channel that GWF can hold, a leap second within channels in
/// UTC, a run that cannot be read, or files that are there already or cannot be written.
pub fn export(
    path: &Path,
    folder: &Path,
    channels: &[Pattern],
    options: &ExportOptions,
    mut progress: impl FnMut(Done) -> ControlFlow<()>,
) -> Result<Report, ConvertError> {
    let run = Run::open(path)?;
    let mut report = Report { left_out: run.damage(), ..Report::default() };
    let chosen = Chosen(channels);
    let channels = exported(&run, chosen, &mut report)?;
    note_contents_without_place(&run, chosen, &mut report);
    report.channels = channels.len();
    let scaled =
        |channel: &&ExportedChannel<'_>| !matches!(calibrated(channel.info), Ok(SeriesKind::Proc));
    report.channels_scaled = channels.iter().filter(scaled).count();
    let scale = channels[0].info.time_scale;
    let Some(time) = time_range(&run, &channels)? else {
        return Err(ConvertError::NoSamples { path: path.to_owned() });
    };
    note_times_without_place(&run, &channels, &mut report)?;
    let frame_ns = u64::from(options.frame_s) * NS_PER_S;
    let mut feed = Feed::new(&run, &channels, scale);
    // Every frame before the first is written: a refusal leaves no incomplete set of files.
    if scale == TimeScale::Utc {
        let mut frames = Frames { time: time.clone(), frame_ns };
        while let Some(gps) = frames.next(&feed) {
            feed.check(&gps)?;
        }
    }
    std::fs::create_dir_all(folder)
        .map_err(|source| ConvertError::Make { path: folder.to_owned(), source })?;
    let site = options.site.clone().unwrap_or_else(|| sites(&channels));
    let mut files = Files {
        folder: folder.to_owned(),
        site,
        description: options.description.clone(),
        write: write_options(&run, options),
        file_ns: u64::from(options.file_s) * NS_PER_S,
        frames: 0,
        open: None,
        done: Vec::new(),
        bytes: 0,
    };
    let frames_total = (time.end - time.start).div_ceil(frame_ns) as usize;
    let mut left_out = vec![LeftOut::default(); channels.len()];
    let mut frames = Frames { time, frame_ns };
    let mut done = Done { frames: 0, frames_total };
    while progress(done).is_continue()
        && let Some(gps) = frames.next(&feed)
    {
        write_frames(&mut feed, &mut files, gps, &mut left_out, &mut report)?;
        done.frames += 1;
    }
    report.stopped = frames.next(&feed).is_some();
    files.close()?;
    report.left_out.extend(feed.damaged());
    for (channel, left_out) in channels.iter().zip(left_out) {
        for (samples, why) in [
            (left_out.not_whole, "in seconds that are not whole"),
            (left_out.went_back, "in seconds that were recorded twice: a clock was set back"),
        ] {
            if samples > 0 {
                let count = grouped(samples);
                report.left_out.push(format!("{}: {count} samples {why}", channel.info.name));
            }
        }
    }
    (report.frames, report.files, report.file_bytes) = (files.frames, files.done, files.bytes);
    Ok(report)
}

/// The frames that are to be written, one after the other.
struct Frames {
    /// What is left, in GPS time.
    time: Range<u64>,
    frame_ns: u64,
}

impl Frames {
    fn next(&mut self, feed: &Feed<'_>) -> Option<Range<u64>> {
        // Where nothing was recorded, perhaps for years, there is nothing to ask for.
        let next = feed.next(self.time.start)? / self.frame_ns * self.frame_ns;
        let start = self.time.start.max(next);
        if start >= self.time.end {
            return None;
        }
        let border = (start / self.frame_ns + 1).saturating_mul(self.frame_ns);
        self.time.start = border.min(self.time.end);
        Some(start..self.time.start)
    }
}

/// Samples of a channel that are in no frame, by the reason.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    not_whole: u64,
    /// An FrVect has one sample at a time: which of two is the right one cannot be known.
    went_back: u64,
}

/// Notes the contents of a run that GWF files cannot hold.
fn note_contents_without_place(run: &Run, chosen: Chosen<'_>, report: &mut Report) {
    let events = run.event_count();
    if events > 0 && chosen.is_all() {
        let (events, sources) = (grouped(events), run.sources().len());
        report.left_out.push(format!("{events} events of {sources} sources: GWF has none"));
    }
    let number = run.header().run_number;
    if i32::try_from(number).is_err() {
        report.notes.push(format!("run number {number}: GWF has room for 31 bits, 0 is written"));
    }
}

/// Counts samples of times before GPS time begins, such as those of a sender whose clock was never
/// set, and of times whose seconds 32 bits do not hold.
fn note_times_without_place(
    run: &Run,
    channels: &[ExportedChannel<'_>],
    report: &mut Report,
) -> Result<(), StorageError> {
    for channel in channels {
        let info = channel.info;
        let first_at =
            |gps_ns| info.rate.first_sample_at(TimeScale::Gps.convert_ns(info.time_scale, gps_ns));
        let (begin, end) = (first_at(0), first_at(GPS_END_NS));
        let pieces = run.channel_at(channel.index).expect("a channel of this run").pieces()?;
        let before =
            |piece: &Piece| piece.end_sample().min(begin).saturating_sub(piece.first_sample);
        let behind = |piece: &Piece| piece.end_sample().saturating_sub(piece.first_sample.max(end));
        for (samples, why) in [
            (pieces.iter().map(before).sum::<u64>(), "before 1980-01-06, when GPS time begins"),
            (pieces.iter().map(behind).sum(), "after GPS 4294967295, which GWF cannot hold"),
        ] {
            if samples > 0 {
                let (name, count) = (&info.name, grouped(samples));
                report.left_out.push(format!("{name}: {count} samples of times {why}"));
            }
        }
    }
    Ok(())
}

/// A channel that is converted.
pub(super) struct ExportedChannel<'a> {
    /// Its index in the run.
    pub(super) index: usize,
    pub(super) info: &'a ChannelInfo,
    pub(super) kind: VectorType,
    series_kind: SeriesKind,
    comment: String,
}

impl ExportedChannel<'_> {
    /// Samples of it that begin that many seconds after a frame does.
    fn series<'b>(&'b self, samples: &'b [u8], start_s: f64) -> Series<'b> {
        Series {
            name: &self.info.name,
            unit: &self.info.unit,
            comment: &self.comment,
            kind: self.series_kind,
            samples_kind: self.kind,
            dx_s: dx_s(self.info.rate),
            start_s,
            samples,
        }
    }
}

fn exported<'a>(
    run: &'a Run,
    chosen: Chosen<'_>,
    report: &mut Report,
) -> Result<Vec<ExportedChannel<'a>>, ConvertError> {
    let mut channels = Vec::new();
    let names: Vec<&str> = run.channels().iter().map(|info| info.name.as_str()).collect();
    chosen.check(&names)?;
    for (index, info) in run.channels().iter().enumerate() {
        if !chosen.has(&info.name) {
            continue;
        }
        match vector_type_of(info.dtype) {
            Some(kind) if info.shape.is_empty() => {
                let comment = Stated::of(info).to_string();
                let exported = calibrated(info).and_then(|series_kind| {
                    let channel = ExportedChannel { index, info, kind, series_kind, comment };
                    channel.series(&[], 0.0).check()?;
                    Ok(channel)
                });
                match exported {
                    Ok(channel) => channels.push(channel),
                    Err(error) => report.left_out.push(error.to_string()),
                }
            }
            _ => {
                let (name, dtype) = (&info.name, info.dtype.name());
                let shape = &info.shape;
                let message = format!("{name}: a sample is {dtype} of shape {shape:?}");
                report.left_out.push(message);
            }
        }
    }
    if channels.is_empty() {
        let left_out = std::mem::take(&mut report.left_out);
        return Err(ConvertError::NoChannelInRun { left_out });
    }
    Ok(channels)
}

/// FrAdcData for channels with scale or offset, FrProcData for all others.
fn calibrated(info: &ChannelInfo) -> Result<SeriesKind, Misfit> {
    let (scale, offset) = (info.scale.unwrap_or(1.0), info.offset.unwrap_or(0.0));
    if (scale, offset) == (1.0, 0.0) {
        return Ok(SeriesKind::Proc);
    }
    let (slope, bias) = (scale as f32, offset as f32);
    if slope.is_finite() && bias.is_finite() && slope != 0.0 {
        return Ok(SeriesKind::Adc { bias, slope });
    }
    Err(Misfit::Calibration { name: info.name.clone(), scale, offset })
}

/// From the first sample of all channels to the end of the last one, in GPS nanoseconds.
fn time_range(
    run: &Run,
    channels: &[ExportedChannel<'_>],
) -> Result<Option<Range<u64>>, StorageError> {
    let mut all: Option<Range<u64>> = None;
    for channel in channels {
        let found = run.channel_at(channel.index).expect("a channel of this run").time_range()?;
        let Some(range) = found else { continue };
        let scale = channel.info.time_scale;
        let range = scale.to_gps_ns(range.start)..scale.to_gps_ns(range.end);
        all = Some(match all {
            None => range,
            Some(all) => all.start.min(range.start)..all.end.max(range.end),
        });
    }
    Ok(all.map(|range| range.start.min(GPS_END_NS)..range.end.min(GPS_END_NS)))
}

/// The letters before the detectors' numbers: `HL` for `H1:…` and `L1:…`.
fn sites(channels: &[ExportedChannel<'_>]) -> String {
    let first = |channel: &ExportedChannel<'_>| {
        let (prefix, _) = channel.info.name.split_once(':')?;
        prefix.chars().next().filter(char::is_ascii_alphabetic)
    };
    let mut letters: Vec<char> = channels.iter().filter_map(first).collect();
    letters.sort_unstable();
    letters.dedup();
    if letters.is_empty() { "X".to_owned() } else { letters.into_iter().collect() }
}

fn write_options(run: &Run, options: &ExportOptions) -> WriteOptions {
    let utc = utc_now().0;
    let comment = format!("version {}, run {}", env!("CARGO_PKG_VERSION"), run.header().run);
    let history = History {
        name: "catchment".to_owned(),
        gps_s: (TimeScale::Utc.to_gps_ns(utc) / NS_PER_S) as u32,
        comment,
    };
    let compress = match options.zlib {
        0 => Compress::Raw,
        level => Compress::Zlib { level },
    };
    WriteOptions {
        run: i32::try_from(run.header().run_number).unwrap_or(0),
        compress,
        history: Some(history),
        ..WriteOptions::new(&options.description)
    }
}

/// Writes the frame of that GPS time, or where a channel has it not whole several: each of seconds
/// next to each other in which the same channels are whole, and of no others.
fn write_frames(
    feed: &mut Feed<'_>,
    files: &mut Files,
    gps: Range<u64>,
    left_out: &mut [LeftOut],
    report: &mut Report,
) -> Result<(), ConvertError> {
    let mut frame: Option<(Range<u64>, Vec<Holds>)> = None;
    if let Some(all) = holds(&feed.load(&gps)?) {
        frame = Some((gps, all));
    } else {
        let mut at = gps.start;
        while at < gps.end {
            let second = at..((at / NS_PER_S + 1) * NS_PER_S).min(gps.end);
            at = second.end;
            let here = holds(&feed.load(&second)?);
            if let (Some((time, all)), Some(here)) = (&mut frame, &here)
                && all.iter().zip(here).all(|(one, other)| one.goes_with(*other))
            {
                time.end = second.end;
                all.iter_mut().zip(here).for_each(|(one, other)| *one = one.with(*other));
                continue;
            }
            if let Some((time, _)) = frame.take() {
                write_frame(feed, files, &time, left_out, report)?;
            }
            match here {
                Some(here) => frame = Some((second, here)),
                None => write_frame(feed, files, &second, left_out, report)?,
            }
        }
    }
    frame.map_or(Ok(()), |(time, _)| write_frame(feed, files, &time, left_out, report))
}

/// The samples of a channel that a stretch of time holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// All samples that belong there.
    All,
    /// None of the samples that belong there.
    None,
    /// No sample belongs there: the channel is slow.
    Nothing,
}

impl Holds {
    fn goes_with(self, other: Self) -> bool {
        self == other || self == Self::Nothing || other == Self::Nothing
    }

    fn with(self, other: Self) -> Self {
        if self == Self::Nothing { other } else { self }
    }
}

/// The samples of each channel that are there; none if one has a part of its samples.
fn holds(stretches: &[Stretch<'_>]) -> Option<Vec<Holds>> {
    let one = |stretch: &Stretch<'_>| match (stretch.wanted, stretch.count) {
        (0, _) => Some(Holds::Nothing),
        (_, 0) => Some(Holds::None),
        (wanted, count) => (count == wanted && stretch.whole).then_some(Holds::All),
    };
    stretches.iter().map(one).collect()
}

fn write_frame(
    feed: &mut Feed<'_>,
    files: &mut Files,
    gps: &Range<u64>,
    left_out: &mut [LeftOut],
    report: &mut Report,
) -> Result<(), ConvertError> {
    let channels = feed.channels;
    let start_ns = TimeScale::Gps.convert_ns(feed.scale, gps.start);
    let stretches = feed.load(gps)?;
    let mut series = Vec::with_capacity(channels.len());
    for ((channel, stretch), left_out) in channels.iter().zip(&stretches).zip(left_out) {
        let Some(samples) = stretch.samples.filter(|_| stretch.whole) else {
            match stretch.went_back {
                true => left_out.went_back += stretch.count,
                false => left_out.not_whole += stretch.count,
            }
            continue;
        };
        report.samples += stretch.count;
        report.sample_bytes += samples.len() as u64;
        let start_s = seconds_after(channel.info.rate, stretch.first_sample, start_ns);
        series.push(channel.series(samples, start_s));
    }
    if series.is_empty() { files.close() } else { files.write(gps, &series) }
}

/// Seconds from a time to a sample's time, which is not rounded before.
fn seconds_after(rate: SampleRate, sample: u64, start_ns: u64) -> f64 {
    let (num, den) = (u128::from(rate.num()), u128::from(rate.den()));
    let sample_at = u128::from(sample) * den; // In parts of 1/num of a second.
    let start_at = u128::from(start_ns) * num; // The same in billionths of those parts.
    let (seconds, parts) = (sample_at / num, sample_at % num);
    let billion = u128::from(NS_PER_S);
    let (start_seconds, start_parts) = (start_at / (num * billion), start_at % (num * billion));
    let whole = seconds as f64 - start_seconds as f64;
    let rest = (parts * billion) as f64 - start_parts as f64;
    // A frame that begins with this sample begins at a whole nanosecond: less than that is nothing.
    let after = whole + rest / (num as f64 * 1e9);
    if after.abs() < 1e-9 { 0.0 } else { after }
}

/// The files, one after the other.
struct Files {
    folder: PathBuf,
    site: String,
    description: String,
    write: WriteOptions,
    file_ns: u64,
    /// Frames in all files.
    frames: u64,
    open: Option<OpenFile>,
    done: Vec<PathBuf>,
    bytes: u64,
}

/// A file that has its temporary name.
struct OpenFile {
    temporary: Temporary,
    writer: GwfWriter<BufWriter<File>>,
    /// The time that it covers, in GPS nanoseconds.
    time: Range<u64>,
}

impl Files {
    fn write(&mut self, gps: &Range<u64>, series: &[Series<'_>]) -> Result<(), ConvertError> {
        if let Some(open) = &self.open {
            let border = (open.time.start / self.file_ns + 1).saturating_mul(self.file_ns);
            if gps.start >= border || gps.start != open.time.end {
                self.close()?;
            }
        }
        let number = self.frames as u32;
        if self.open.is_none() {
            self.open = Some(self.begin(gps)?);
        }
        let open = self.open.as_mut().expect("it was just opened");
        let leap_ns = TimeScale::Gps.to_tai_ns(gps.start) - TimeScale::Gps.to_utc_ns(gps.start);
        let start = FrameStart {
            gps_s: u32::try_from(gps.start / NS_PER_S).expect("times end at GPS_END_NS"),
            gps_ns: (gps.start % NS_PER_S) as u32,
            duration_s: (gps.end - gps.start) as f64 / NS_PER_S as f64,
            number,
            data_quality: 0,
            leap_s: (leap_ns / NS_PER_S) as u16,
        };
        open.writer
            .frame(&start, series)
            .map_err(|source| ConvertError::Gwf { path: open.temporary.0.clone(), source })?;
        open.time.end = gps.end;
        self.frames += 1;
        Ok(())
    }

    fn begin(&self, gps: &Range<u64>) -> Result<OpenFile, ConvertError> {
        let begin_s = gps.start / NS_PER_S;
        let name = format!(".{}-{}-{begin_s}.{EXTENSION}.part", self.site, self.description);
        let path = self.folder.join(name);
        let made = File::create(&path);
        let temporary = Temporary(path.clone());
        let file = made.map_err(|source| ConvertError::Make { path: path.clone(), source })?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let writer = GwfWriter::new(out, self.write.clone())
            .map_err(|source| ConvertError::Gwf { path, source })?;
        Ok(OpenFile { temporary, writer, time: gps.clone() })
    }

    /// Ends the file that is open, makes it durable and gives it its name.
    fn close(&mut self) -> Result<(), ConvertError> {
        let Some(OpenFile { temporary, writer, time }) = self.open.take() else { return Ok(()) };
        let buffered = writer
            .finish()
            .map_err(|source| ConvertError::Gwf { path: temporary.0.clone(), source })?;
        self.bytes += durable(buffered)
            .map_err(|source| ConvertError::Write { path: temporary.0.clone(), source })?;
        let begin_s = time.start / NS_PER_S;
        let seconds = time.end.div_ceil(NS_PER_S) - begin_s;
        let name = format!("{}-{}-{begin_s}-{seconds}.{EXTENSION}", self.site, self.description);
        let path = self.folder.join(name);
        if path.exists() {
            return Err(ConvertError::Exists { path });
        }
        if let Err(source) = std::fs::rename(&temporary.0, &path) {
            return Err(ConvertError::Rename { path, source });
        }
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| ConvertError::Sync { folder: self.folder.clone(), source })?;
        self.done.push(path);
        Ok(())
    }
}

/// Hands the rest over, makes the file durable and returns its length.
fn durable(buffered: BufWriter<File>) -> io::Result<u64> {
    let file = buffered.into_inner().map_err(|error| error.into_error())?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// A file with a temporary name, which goes when this does.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Mostly it is gone: the file has its name. One that cannot be removed is no GWF file by
        // its name, and the next conversion overwrites it.
        std::fs::remove_file(&self.0).ok();
    }
}

const BUFFER_BYTES: usize = 1 << 20;
/// Where the GPS times end whose seconds 32 bits hold.
const GPS_END_NS: u64 = (1 << 32) * NS_PER_S;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_samples_in_frames_are_exact() {
        let rate = |num, den| SampleRate::new(num, den).expect("a rate");
        let start_ns = 1_400_000_000 * NS_PER_S;
        assert_eq!(seconds_after(rate(16_384, 1), 16_384 * 1_400_000_000, start_ns), 0.0);
        assert_eq!(
            seconds_after(rate(16_384, 1), 16_384 * 1_400_000_000 + 1, start_ns),
            1.0 / 16_384.0
        );
        assert_eq!(seconds_after(rate(1, 60), 23_333_334, start_ns), 40.0);
        // A frame that begins with a sample between two nanoseconds begins before it.
        assert_eq!(seconds_after(rate(3, 1), 4_200_000_001, start_ns + 333_333_333), 0.0);
    }
}
