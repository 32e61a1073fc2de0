//! Trends of a run: mean, minimum, maximum, rms and count of every channel, per second and per minute.
//!
//! They are runs of their own, in `RUN/trends/second` and `RUN/trends/minute`, whose channels are
//! named `CHANNEL.mean`, `.min`, `.max`, `.rms` and `.n`. A second without a sample has no row.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use catchment_frame::Dtype;

use crate::channels::{Segment, Select};
use crate::error::StorageError;
use crate::run::Run;

/// Which trend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrendKind {
    /// A row for every second.
    Second,
    /// A row for every minute.
    Minute,
}

impl TrendKind {
    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
        }
    }

    /// The time that a row stands for.
    pub fn period_ns(self) -> u64 {
        match self {
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
        }
    }
}

/// What ends each of the five names.
pub const TREND_SUFFIXES: [&str; 5] = [".mean", ".min", ".max", ".rms", ".n"];

/// A channel's trend: one item of each for every second, or minute, that has samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trend {
    /// Where each one begins: nanoseconds in the channel's time scale.
    pub start_ns: Vec<u64>,
    /// The mean of its samples.
    pub mean: Vec<f64>,
    /// The smallest of its samples.
    pub min: Vec<f64>,
    /// The largest of its samples.
    pub max: Vec<f64>,
    /// The square root of the mean of the samples' squares.
    pub rms: Vec<f64>,
    /// How many samples went in.
    pub n: Vec<u32>,
}

/// The trend runs that have been opened.
#[derive(Default)]
pub(crate) struct Trends {
    second: OnceLock<Arc<Run>>,
    minute: OnceLock<Arc<Run>>,
}

impl Run {
    /// Where a trend's run is, or would be.
    pub fn trend_folder(&self, kind: TrendKind) -> PathBuf {
        let folder = if self.path().is_dir() { Some(self.path()) } else { self.path().parent() };
        folder.unwrap_or(self.path()).join("trends").join(kind.name())
    }

    /// A trend's run; `None` if there is none.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn trend_run(&self, kind: TrendKind) -> Result<Option<Arc<Self>>, StorageError> {
        let kept = match kind {
            TrendKind::Second => &self.trends().second,
            TrendKind::Minute => &self.trends().minute,
        };
        if let Some(run) = kept.get() {
            return Ok(Some(Arc::clone(run)));
        }
        let folder = self.trend_folder(kind);
        if !folder.is_dir() {
            return Ok(None);
        }
        match Self::open(&folder) {
            Ok(run) => Ok(Some(Arc::clone(kept.get_or_init(|| Arc::new(run))))),
            Err(StorageError::NoFiles { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The trend of a channel; `None` if the run has none, or not of this channel.
    ///
    /// # Errors
    /// A trend that cannot be read, or whose columns contradict each other.
    pub fn trend(
        &self,
        channel: &str,
        kind: TrendKind,
        select: &Select,
    ) -> Result<Option<Trend>, StorageError> {
        let Some(run) = self.trend_run(kind)? else { return Ok(None) };
        let mut places = Vec::new();
        for suffix in TREND_SUFFIXES {
            let name = format!("{channel}{suffix}");
            let Some(place) = run.channels().iter().position(|info| info.name == name) else {
                return Ok(None);
            };
            places.push(place);
        }
        let read = run.read_many(&places, select)?;
        let mut trend = Trend::default();
        for segment in &read[0] {
            let period = run.channels()[places[0]].rate;
            let samples = segment.first_sample..segment.first_sample + segment.samples;
            trend.start_ns.extend(samples.map(|sample| period.time_ns(sample)));
        }
        let values = |index: usize| {
            let dtype = run.channels()[places[index]].dtype;
            let values = values(dtype, &read[index]);
            values.filter(|values| values.len() == trend.start_ns.len()).ok_or_else(|| {
                let what = format!("{channel}{}", TREND_SUFFIXES[index]);
                StorageError::Trend { path: run.path().to_owned(), what }
            })
        };
        let [mean, min, max, rms, n] = [values(0), values(1), values(2), values(3), values(4)];
        trend.n = n?.into_iter().map(|n| n as u32).collect();
        (trend.mean, trend.min, trend.max, trend.rms) = (mean?, min?, max?, rms?);
        Ok(Some(trend))
    }
}

/// Numbers as f64; `None` for what is no plain number.
fn values(dtype: Dtype, segments: &[Segment]) -> Option<Vec<f64>> {
    let size = (dtype.bits()? / 8) as usize;
    let one = |b: &[u8]| -> Option<f64> {
        Some(match dtype {
            Dtype::U8 => f64::from(b[0]),
            Dtype::I8 => f64::from(b[0] as i8),
            Dtype::U16 => f64::from(u16::from_le_bytes(b.try_into().ok()?)),
            Dtype::I16 => f64::from(i16::from_le_bytes(b.try_into().ok()?)),
            Dtype::U32 => f64::from(u32::from_le_bytes(b.try_into().ok()?)),
            Dtype::I32 => f64::from(i32::from_le_bytes(b.try_into().ok()?)),
            Dtype::U64 => u64::from_le_bytes(b.try_into().ok()?) as f64,
            Dtype::I64 => i64::from_le_bytes(b.try_into().ok()?) as f64,
            Dtype::F32 => f64::from(f32::from_le_bytes(b.try_into().ok()?)),
            Dtype::F64 => f64::from_le_bytes(b.try_into().ok()?),
            _ => return None,
        })
    };
    segments.iter().flat_map(|segment| segment.bytes.chunks_exact(size)).map(one).collect()
}
