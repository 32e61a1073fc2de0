//! The channels of a run that GWF files give, and the numbers of a vector's samples in it.
//!
//! A sample's number follows from its time and the rate, both exactly: a sample that does not fit
//! is left out, not rounded. Numbers count from the epoch of a time scale, the same for all
//! channels, and GWF has times in GPS alone: the scale is the one in which most channels fit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use catchment_disk::ReadFile;
use catchment_frame::{ChannelInfo, Schema};
use catchment_interop::gwf::{self, GwfError, GwfFile, exact_rate};
use catchment_model::units::grouped;
use catchment_model::{SampleRate, TimeScale};

use crate::error::Misfit;
use crate::report::Chosen;
use crate::stated::{Stated, dx_s};
use crate::{ConvertError, NS_PER_S, Report, dtype_of};

/// A file that is open.
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) file: GwfFile<ReadFile>,
}

/// A frame of a file.
pub(super) struct InputFrame {
    pub(super) file: usize,
    pub(super) index: usize,
    /// From and to, in GPS time.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The start of the next frame of all files.
    pub(super) next_ns: u64,
    pub(super) run: u64,
    pub(super) data_quality: u32,
}

/// The channels of the run, and which channel of which file is which.
pub(super) struct Targets {
    pub(super) infos: Vec<ChannelInfo>,
    pub(super) by_file: Vec<Vec<Option<usize>>>,
    pub(super) time_scale: TimeScale,
}

impl Targets {
    /// Describes all channels. A channel that no run can hold is left out, and the report says
    /// why.
    ///
    /// # Errors
    /// If a file cannot be read, or a pattern fits no channel.
    pub(super) fn find(
        inputs: &[Input],
        frames: &[InputFrame],
        chosen: Chosen<'_>,
        report: &mut Report,
    ) -> Result<Self, ConvertError> {
        let names = inputs.iter().flat_map(|input| input.file.channels());
        let names: BTreeSet<&str> = names.map(|channel| channel.name.as_str()).collect();
        chosen.check(&names.into_iter().collect::<Vec<_>>())?;
        let occurrences = occurrences(inputs, chosen, report);
        let mut described = Vec::with_capacity(occurrences.len());
        for occurrence in occurrences {
            match describe(inputs, frames, &occurrence)? {
                Ok(one) => described.push((occurrence, one)),
                Err(reason) => report.left_out.push(format!("{}: {reason}", occurrence.name)),
            }
        }
        let time_scale = time_scale(described.iter().map(|(_, one)| one));
        let none = |input: &Input| vec![None; input.file.channels().len()];
        let mut by_file: Vec<Vec<Option<usize>>> = inputs.iter().map(none).collect();
        let mut infos = Vec::with_capacity(described.len());
        for (occurrence, mut one) in described {
            if let Err(error) = one.first_sample(time_scale) {
                report.left_out.push(format!("{}: {error}", occurrence.name));
                continue;
            }
            one.info.time_scale = time_scale;
            for (file, channel) in occurrence.channels {
                by_file[file][channel] = Some(infos.len());
            }
            infos.push(one.info);
        }
        Ok(Self { infos, by_file, time_scale })
    }
}

/// A channel of the run in the files.
struct Occurrence<'a> {
    name: &'a str,
    /// Of each file that has it, which channel it is.
    channels: BTreeMap<usize, usize>,
}

/// The chosen channels in the order in which they are met. In one file one name can stand for
/// channels of several kinds: the first of them counts.
fn occurrences<'a>(
    inputs: &'a [Input],
    chosen: Chosen<'_>,
    report: &mut Report,
) -> Vec<Occurrence<'a>> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut occurrences: Vec<Occurrence<'_>> = Vec::new();
    for (file, input) in inputs.iter().enumerate() {
        let channels = input.file.channels();
        for (index, channel) in channels.iter().enumerate() {
            let name = channel.name.as_str();
            if !chosen.has(name) {
                continue;
            }
            let known = *known.entry(name).or_insert_with(|| {
                occurrences.push(Occurrence { name, channels: BTreeMap::new() });
                occurrences.len() - 1
            });
            let Some(&first) = occurrences[known].channels.get(&file) else {
                occurrences[known].channels.insert(file, index);
                continue;
            };
            let frames = (0..input.file.frames().len()).filter(|frame| channel.is_in(*frame));
            report.left_out.push(format!(
                "{}: {name} is there twice, as {:?} and as {:?}: {} vectors of the latter",
                input.path.display(),
                channels[first].kind,
                channel.kind,
                grouped(frames.count() as u64)
            ));
        }
    }
    occurrences
}

/// A channel as its first vector describes it.
struct Described {
    info: ChannelInfo,
    /// The GPS time of that vector's first sample.
    start_ns: u64,
    /// The time scale that its comment states.
    stated: Option<TimeScale>,
}

impl Described {
    /// The number of that vector's first sample in a time scale.
    fn first_sample(&self, scale: TimeScale) -> Result<u64, Misfit> {
        first_sample(self.info.rate, scale, self.start_ns)
    }
}

/// A channel as the first vector that can be taken describes it; or why there is none.
fn describe(
    inputs: &[Input],
    frames: &[InputFrame],
    occurrence: &Occurrence<'_>,
) -> Result<Result<Described, String>, ConvertError> {
    let mut reason = None;
    for frame in frames {
        let Some(&channel) = occurrence.channels.get(&frame.file) else { continue };
        let input = &inputs[frame.file];
        let info = match input.file.info(channel, frame.index) {
            Ok(Some(info)) => info,
            Ok(None) => continue,
            Err(error @ GwfError::Read { .. }) => {
                return Err(ConvertError::Gwf { path: input.path.clone(), source: error });
            }
            Err(error) => {
                reason.get_or_insert(error.to_string());
                continue;
            }
        };
        if info.samples == 0 {
            continue;
        }
        match described(occurrence.name, &info, frame) {
            Ok(one) => return Ok(Ok(one)),
            Err(error) => {
                reason.get_or_insert(error.to_string());
            }
        }
    }
    Ok(Err(reason.unwrap_or_else(|| "no frame has samples of it".to_owned())))
}

fn described(name: &str, info: &gwf::ChannelInfo, frame: &InputFrame) -> Result<Described, Misfit> {
    if !info.time_series {
        return Err(Misfit::NoTimeSeries { unit_x: info.unit_x.clone() });
    }
    let mut channel = ChannelInfo::new(name, dtype_of(info.kind), rate(info, frame)?);
    channel.unit.clone_from(&info.unit);
    (channel.scale, channel.offset) = calibration(info);
    // A channel that makes a schema impossible is found here, where it costs that channel alone.
    Schema::default().with_channels(vec![channel.clone()])?;
    let stated = Stated::parse(&info.comment).and_then(|stated| stated.time_scale());
    let one = Described { info: channel, start_ns: start_ns(info, frame)?, stated };
    if SCALES.iter().all(|scale| one.first_sample(*scale).is_err()) {
        one.first_sample(TimeScale::Gps)?;
    }
    Ok(one)
}

/// The time scale in which most channels fit; among several the one that most channels state, and
/// then the first of [`SCALES`].
fn time_scale<'a>(channels: impl Iterator<Item = &'a Described> + Clone) -> TimeScale {
    let weight = |scale: &TimeScale| {
        let fit = channels.clone().filter(|one| one.first_sample(*scale).is_ok()).count();
        let state = channels.clone().filter(|one| one.stated == Some(*scale)).count();
        (fit, state)
    };
    // Of equal weights the last counts.
    SCALES.into_iter().rev().max_by_key(weight).unwrap_or(TimeScale::Gps)
}

/// The rate as a fraction, or an error that says why there is none.
fn rate(info: &gwf::ChannelInfo, frame: &InputFrame) -> Result<SampleRate, Misfit> {
    if let Some(rate) = Stated::parse(&info.comment).and_then(|stated| stated.rate(info)) {
        return Ok(rate);
    }
    let in_field = || {
        let rate = info.sample_rate_hz.filter(|rate| *rate > 0.0)?;
        exact_rate(1.0 / rate, 0, 0).filter(|(num, den)| *num as f64 / *den as f64 == rate)
    };
    let (num, den) = exact_rate(info.dx_s, info.samples, frame.end_ns - frame.start_ns)
        .or_else(in_field)
        .ok_or(Misfit::NoFraction { dx_s: info.dx_s })?;
    Ok(SampleRate::new(num, den)?)
}

/// Scale and offset; none where a value is the sample.
fn calibration(info: &gwf::ChannelInfo) -> (Option<f64>, Option<f64>) {
    let Some((bias, slope)) = info.calibration else { return (None, None) };
    // Writers that state no slope leave 0 there.
    if slope == 0.0 {
        return (None, None);
    }
    let stated = Stated::parse(&info.comment).and_then(|stated| stated.calibration(slope, bias));
    match stated {
        Some((scale, offset)) => (Some(scale), Some(offset)),
        None if (slope, bias) == (1.0, 0.0) => (None, None),
        None => (Some(slope.into()), Some(bias.into())),
    }
}

/// The numbers of a vector's samples, or why they do not fit: it must describe the channel as the
/// first vector did.
pub(super) fn fit(
    info: &ChannelInfo,
    read: &gwf::ChannelInfo,
    frame: &InputFrame,
) -> Result<Range<u64>, Misfit> {
    if !read.time_series {
        return Err(Misfit::NoTimeSeries { unit_x: read.unit_x.clone() });
    }
    let dtype = dtype_of(read.kind);
    if dtype != info.dtype {
        return Err(Misfit::TypeDiffers { got: dtype.name(), before: info.dtype.name() });
    }
    if dx_s(info.rate) != read.dx_s {
        let rate = rate(read, frame)?;
        if rate != info.rate {
            return Err(Misfit::RateDiffers { got: rate, before: info.rate });
        }
    }
    if read.unit != info.unit {
        let (got, before) = (read.unit.clone(), info.unit.clone());
        return Err(Misfit::UnitDiffers { got, before });
    }
    let (got, before) = (calibration(read), (info.scale, info.offset));
    if got != before {
        return Err(Misfit::CalibrationDiffers { got, before });
    }
    let numbers = numbers(info.rate, info.time_scale, start_ns(read, frame)?, read.samples)?;
    let last_ns = info.rate.time_ns(numbers.end.saturating_sub(1));
    // Or else one such vector would stand in the way of all that follow.
    if info.time_scale.to_gps_ns(last_ns) >= frame.next_ns {
        return Err(Misfit::BeyondFrame { next_ns: frame.next_ns });
    }
    Ok(numbers)
}

/// The numbers of `samples` samples from a GPS time on.
fn numbers(
    rate: SampleRate,
    scale: TimeScale,
    start_ns: u64,
    samples: u64,
) -> Result<Range<u64>, Misfit> {
    let first = first_sample(rate, scale, start_ns)?;
    let end = first.checked_add(samples).ok_or(Misfit::BeyondNumbers)?;
    let (first_ns, last_ns) = (rate.time_ns(first), rate.time_ns(end.saturating_sub(1).max(first)));
    if last_ns == u64::MAX {
        return Err(Misfit::BeyondTimes);
    }
    let [first_gps_ns, last_gps_ns] = [first_ns, last_ns].map(|time_ns| scale.to_gps_ns(time_ns));
    if last_gps_ns.checked_sub(first_gps_ns) != Some(last_ns - first_ns) {
        return Err(Misfit::LeapSecond { first_ns: first_gps_ns, last_ns: last_gps_ns });
    }
    Ok(first..end)
}

/// GPS time of a vector's first sample, in nanoseconds.
fn start_ns(read: &gwf::ChannelInfo, frame: &InputFrame) -> Result<u64, Misfit> {
    let offset_ns = (read.start_s * NS_PER_S as f64).round();
    // NaN is far, too.
    let near = offset_ns.abs() < 1e18;
    if !near {
        return Err(Misfit::FarFromFrame { start_s: read.start_s });
    }
    frame.start_ns.checked_add_signed(offset_ns as i64).ok_or(Misfit::BeforeEpoch)
}

/// The number of the sample at a GPS time, which must be on the grid of the rate.
fn first_sample(rate: SampleRate, scale: TimeScale, gps_ns: u64) -> Result<u64, Misfit> {
    let start_ns = TimeScale::Gps.convert_ns(scale, gps_ns);
    let at = rate.first_sample_at(start_ns);
    let near = [at.saturating_sub(1), at].into_iter();
    let on_grid = near.min_by_key(|sample| rate.time_ns(*sample).abs_diff(start_ns));
    // Times of samples are rounded down to nanoseconds here; others round to the nearest.
    let found = on_grid.filter(|sample| rate.time_ns(*sample).abs_diff(start_ns) <= 1);
    found.ok_or(Misfit::OffGrid { rate, start_ns: gps_ns })
}

/// The time scales that a run can have, in the order in which they are preferred: GPS time is that
/// of the files.
const SCALES: [TimeScale; 3] = [TimeScale::Gps, TimeScale::Tai, TimeScale::Utc];

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(num: u64, den: u64) -> SampleRate {
        SampleRate::new(num, den).expect("a rate")
    }

    #[test]
    fn samples_are_numbered_by_their_time() {
        let gps = |rate, start_ns| first_sample(rate, TimeScale::Gps, start_ns);
        let start_ns = 1_400_000_000 * NS_PER_S;
        assert_eq!(gps(rate(16_384, 1), start_ns).ok(), Some(16_384 * 1_400_000_000));
        // The second sample, rounded down and to the nearest.
        for rounded in [61_035, 61_036] {
            let found = gps(rate(16_384, 1), start_ns + rounded).ok();
            assert_eq!(found, Some(16_384 * 1_400_000_000 + 1));
        }
        assert_eq!(gps(rate(1, 60), 60 * NS_PER_S).ok(), Some(1));
        let error = gps(rate(1, 60), start_ns).unwrap_err().to_string();
        assert!(error.contains("begin at GPS 1400000000, which is no multiple"), "{error}");
        assert!(gps(rate(16, 1), start_ns + 1_000).is_err());
        // The same instant is sample 171596482 in TAI at 1/10 Hz, less 1 s.
        let found = first_sample(rate(1, 10), TimeScale::Tai, start_ns + NS_PER_S).ok();
        assert_eq!(found, Some(171_596_482));
    }

    #[test]
    fn numbers_and_times_that_64_bits_do_not_hold_are_refused() {
        let start_ns = u64::from(u32::MAX) * NS_PER_S;
        let second = start_ns / NS_PER_S * (1 << 32);
        let fast = rate(1 << 32, 1);
        let numbers = |rate, samples| numbers(rate, TimeScale::Gps, start_ns, samples);
        assert_eq!(numbers(fast, 1 << 32).ok(), None);
        assert_eq!(numbers(fast, (1 << 32) - 1).ok(), Some(second..u64::MAX));
        assert_eq!(numbers(fast, 0).ok(), Some(second..second));
        let slow = rate(1, u64::from(u32::MAX));
        assert_eq!(numbers(slow, 4).ok(), Some(1..5));
        assert!(numbers(slow, 5).is_err());
    }

    #[test]
    fn a_leap_second_within_a_vector_is_refused_in_utc_alone() {
        // 2016-12-31T23:59:60 UTC is GPS 1167264017.
        let start_ns = 1_167_264_010 * NS_PER_S;
        for (scale, fits) in
            [(TimeScale::Gps, true), (TimeScale::Tai, true), (TimeScale::Utc, false)]
        {
            assert!(numbers(rate(16, 1), scale, start_ns, 7 * 16).is_ok());
            assert_eq!(numbers(rate(16, 1), scale, start_ns, 20 * 16).is_ok(), fits);
        }
    }
}
