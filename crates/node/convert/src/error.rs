//! The errors that end a conversion, and the reasons that leave one vector or channel out.

use std::io;
use std::path::PathBuf;

use catchment_frame::SchemaError;
use catchment_interop::gwf::GwfError;
use catchment_model::{RateError, SampleRate};
use catchment_storage::StorageError;

use crate::seconds;

/// An error of this crate: the conversion ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// A GWF file that cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A GWF file that cannot be read at all.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: GwfError,
    },
    /// A GWF file that the system cannot read or write any further.
    #[error("{}: {source}", path.display())]
    Gwf {
        /// The file.
        path: PathBuf,
        /// The error.
        source: GwfError,
    },
    /// A GWF file that cannot be finished.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file or folder that cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    Make {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A whole GWF file that cannot get its name.
    #[error("cannot give a file the name {}: {source}", path.display())]
    Rename {
        /// The name.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A folder that cannot be made durable.
    #[error("{source}")]
    Sync {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A GWF file that is there already: nothing is overwritten.
    #[error("{} is there already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A run's folder whose path does not end with a name.
    #[error("a folder's name")]
    NoName {
        /// The folder.
        folder: PathBuf,
    },
    /// A pattern that fits no channel.
    #[error("no channel matches {pattern:?} (the input has {})", channels.len())]
    UnknownChannel {
        /// The pattern.
        pattern: String,
        /// The names of all channels.
        channels: Vec<String>,
    },
    /// GWF files without a channel that a run can hold.
    #[error("there is no channel to convert{}", reasons(left_out))]
    NoChannelInFiles {
        /// Why channels were left out.
        left_out: Vec<String>,
    },
    /// A run without a channel that GWF can hold.
    #[error("the run has no channel to convert{}", reasons(left_out))]
    NoChannelInRun {
        /// Why channels were left out.
        left_out: Vec<String>,
    },
    /// A run whose channels have no samples.
    #[error("{}: the channels have no samples", path.display())]
    NoSamples {
        /// The run.
        path: PathBuf,
    },
    /// GWF frames of the same time.
    #[error(
        "frames overlap: {} has one from GPS {} on, {} one until GPS {}",
        path.display(),
        seconds(*start_ns),
        other.display(),
        seconds(*end_ns)
    )]
    Overlap {
        /// The file with the later frame.
        path: PathBuf,
        /// The start of that frame, in GPS time.
        start_ns: u64,
        /// The file with the earlier frame.
        other: PathBuf,
        /// The end of that frame, in GPS time.
        end_ns: u64,
    },
    /// A stretch of time in which times in UTC are not unique.
    #[error(
        "between GPS {start_s} and {end_s} lies a leap second, in which times in UTC are not \
         unique: such channels cannot be converted across it"
    )]
    LeapSecond {
        /// Its start, in whole seconds of GPS time.
        start_s: u64,
        /// Its end, in whole seconds of GPS time.
        end_s: u64,
    },
    /// Channels that do not fit into one run.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A run that cannot be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The reason why a channel, or one vector of it, is left out. Times are nanoseconds of GPS time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Misfit {
    #[error("no time series, its axis is in {unit_x:?}")]
    NoTimeSeries { unit_x: String },
    #[error("the sample spacing of {dx_s:?} s is not a rational rate")]
    NoFraction { dx_s: f64 },
    #[error(transparent)]
    Rate(#[from] RateError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Gwf(#[from] GwfError),
    #[error("{name}: GWF cannot hold scale {scale} and offset {offset}")]
    Calibration { name: String, scale: f64, offset: f64 },
    #[error("samples are {got}, before {before}")]
    TypeDiffers { got: &'static str, before: &'static str },
    #[error("the rate is {got}, before {before}")]
    RateDiffers { got: SampleRate, before: SampleRate },
    #[error("the unit is {got:?}, before {before:?}")]
    UnitDiffers { got: String, before: String },
    /// Scale and offset.
    #[error("scale and offset are {got:?}, before {before:?}")]
    CalibrationDiffers { got: (Option<f64>, Option<f64>), before: (Option<f64>, Option<f64>) },
    #[error("samples reach beyond GPS {}, where the next frame begins", seconds(*next_ns))]
    BeyondFrame { next_ns: u64 },
    #[error("samples are numbered beyond 64 bits")]
    BeyondNumbers,
    #[error("samples reach beyond the times that 64 bits hold")]
    BeyondTimes,
    #[error(
        "between GPS {} and {} lies a leap second, in which times in UTC are not unique",
        seconds(*first_ns),
        seconds(*last_ns)
    )]
    LeapSecond { first_ns: u64, last_ns: u64 },
    #[error("its samples begin {start_s} s behind the frame's start")]
    FarFromFrame { start_s: f64 },
    #[error("its samples begin before the GPS epoch")]
    BeforeEpoch,
    #[error(
        "its samples at {rate} begin at GPS {}, which is no multiple of their distance",
        seconds(*start_ns)
    )]
    OffGrid { rate: SampleRate, start_ns: u64 },
    #[error(
        "samples from GPS {} on come twice, they reach until GPS {}",
        seconds(*start_ns),
        seconds(*end_ns)
    )]
    Repeated { start_ns: u64, end_ns: u64 },
}

/// What was left out, as the end of a sentence.
fn reasons(left_out: &[String]) -> String {
    if left_out.is_empty() { String::new() } else { format!(": {}", left_out.join("; ")) }
}
