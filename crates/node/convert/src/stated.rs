//! The facts of a channel that GWF's own fields cannot hold, in the comment of its vectors.
//!
//! `catchment: scale 0.001 offset 0.0 rate 10/3 time tai`: after the first word, pairs of a key and
//! a value, each only where it is needed. A reader takes a value only where GWF's field is what
//! that value is written as, so that a comment that another program copied to other samples does no
//! harm.

use std::fmt;

use catchment_interop::gwf::{self, exact_rate};
use catchment_model::{SampleRate, TimeScale};
use catchment_storage::ChannelInfo;

/// The facts that are stated of a channel beside GWF's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stated {
    /// Scale and offset, where 32-bit floats, which slope and bias are, do not hold them.
    calibration: Option<(f64, f64)>,
    /// The rate, where a vector's `dx` alone does not tell it.
    rate: Option<SampleRate>,
    /// The time scale in which sample numbers count, where it is not GPS time.
    time_scale: Option<TimeScale>,
}

impl Stated {
    /// The facts that have to be stated of a channel.
    pub(super) fn of(info: &ChannelInfo) -> Self {
        let (scale, offset) = (info.scale.unwrap_or(1.0), info.offset.unwrap_or(0.0));
        let exact = f64::from(scale as f32) == scale && f64::from(offset as f32) == offset;
        let rate = (info.rate.num(), info.rate.den());
        let time_scale = info.time_scale;
        Self {
            calibration: (!exact).then_some((scale, offset)),
            rate: (exact_rate(dx_s(info.rate), 0, 0) != Some(rate)).then_some(info.rate),
            time_scale: (time_scale != TimeScale::Gps).then_some(time_scale),
        }
    }

    /// The facts that a comment states; none if it is no comment of ours. Keys of later versions
    /// are passed over.
    pub(super) fn parse(comment: &str) -> Option<Self> {
        let mut words = comment.strip_prefix(PREFIX)?.split_ascii_whitespace();
        let mut stated = Self::default();
        let (mut scale, mut offset) = (None, None);
        while let Some(key) = words.next() {
            let value = words.next()?;
            match key {
                "scale" => scale = Some(value.parse().ok()?),
                "offset" => offset = Some(value.parse().ok()?),
                "rate" => stated.rate = Some(fraction(value)?),
                "time" => stated.time_scale = Some(value.parse().ok()?),
                _ => {}
            }
        }
        stated.calibration = scale.zip(offset);
        Some(stated)
    }

    /// Scale and offset, if those are what slope and bias are rounded from.
    pub(super) fn calibration(&self, slope: f32, bias: f32) -> Option<(f64, f64)> {
        self.calibration.filter(|(scale, offset)| {
            let finite = scale.is_finite() && offset.is_finite() && *scale != 0.0;
            finite && *scale as f32 == slope && *offset as f32 == bias
        })
    }

    /// The rate, if it is that of samples `dx` apart.
    pub(super) fn rate(&self, info: &gwf::ChannelInfo) -> Option<SampleRate> {
        self.rate.filter(|rate| dx_s(*rate) == info.dx_s)
    }

    pub(super) fn time_scale(&self) -> Option<TimeScale> {
        self.time_scale
    }
}

impl fmt::Display for Stated {
    /// The comment; empty if nothing is stated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return Ok(());
        }
        f.write_str(PREFIX)?;
        if let Some((scale, offset)) = self.calibration {
            write!(f, " scale {scale:?} offset {offset:?}")?;
        }
        if let Some(rate) = self.rate {
            write!(f, " rate {}/{}", rate.num(), rate.den())?;
        }
        if let Some(time_scale) = self.time_scale {
            write!(f, " time {time_scale}")?;
        }
        Ok(())
    }
}

/// Seconds from one sample to the next, as a vector states them.
pub(super) fn dx_s(rate: SampleRate) -> f64 {
    rate.den() as f64 / rate.num() as f64
}

fn fraction(text: &str) -> Option<SampleRate> {
    let (num, den) = text.split_once('/')?;
    SampleRate::new(num.parse().ok()?, den.parse().ok()?).ok()
}

const PREFIX: &str = "catchment:";

#[cfg(test)]
mod tests {
    use catchment_frame::Dtype;

    use super::*;

    fn channel(num: u64, den: u64) -> ChannelInfo {
        ChannelInfo::new("X1:A", Dtype::F32, SampleRate::new(num, den).unwrap())
    }

    #[test]
    fn only_what_gwf_does_not_hold_is_stated() {
        let gps = |num, den| ChannelInfo { time_scale: TimeScale::Gps, ..channel(num, den) };
        for (num, den) in [(16_384, 1), (60, 1), (1, 60), (4, 3), (2, 5)] {
            assert_eq!(Stated::of(&gps(num, den)).to_string(), "", "{num}/{den}");
        }
        let exact = ChannelInfo { scale: Some(0.25), offset: Some(1.5), ..gps(1, 1) };
        assert_eq!(Stated::of(&exact).to_string(), "");
        let all = ChannelInfo { scale: Some(0.001), ..channel(10, 3) };
        let expected = "catchment: scale 0.001 offset 0.0 rate 10/3 time tai";
        assert_eq!(Stated::of(&all).to_string(), expected);
    }

    #[test]
    fn what_is_stated_comes_back() {
        for scale in [TimeScale::Tai, TimeScale::Utc, TimeScale::Gps] {
            for (num, den) in [(10, 3), (7_919, 97), ((1 << 40) - 1, (1 << 20) + 7), (16, 1)] {
                for (slope, offset) in [(0.001, 0.0), (1e-23, -3.3), (1.0, f64::MIN_POSITIVE)] {
                    let scaled = channel(num, den);
                    let (slope, offset) = (Some(slope), Some(offset));
                    let scaled = ChannelInfo { scale: slope, offset, time_scale: scale, ..scaled };
                    let stated = Stated::of(&scaled);
                    assert_eq!(Stated::parse(&stated.to_string()), Some(stated));
                }
            }
        }
        // As an earlier version wrote it, and as a later one may.
        let earlier = Stated::parse("catchment: scale 0.001 offset -2.0").unwrap();
        assert_eq!(earlier.calibration(0.001, -2.0), Some((0.001, -2.0)));
        assert_eq!(earlier.calibration(0.002, -2.0), None);
        let later = Stated::parse("catchment: colour blue time utc").unwrap();
        assert_eq!(later.time_scale(), Some(TimeScale::Utc));
    }

    #[test]
    fn other_comments_state_nothing() {
        for other in ["", "a comment", "catchment: scale x offset 1", "catchment: time noon"] {
            assert_eq!(Stated::parse(other), None, "{other}");
        }
        assert_eq!(Stated::parse("catchment: rate 0/1"), None);
        assert_eq!(Stated::parse("catchment: rate"), None);
        let nothing = Stated::parse("catchment: scale NaN offset 0.0").unwrap();
        assert_eq!(nothing.calibration(f32::NAN, 0.0), None);
    }
}
