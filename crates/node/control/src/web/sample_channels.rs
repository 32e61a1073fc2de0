//! The latest recorded values of a link's channel: the end of its last frame on disk.
//!
//! Bounds: 64 MiB for one frame's column, 65,536 values in the histogram, and 1,024 values and
//! 4,096 bytes in the answer.

use std::ops::Range;

use catchment_frame::{ChannelInfo, Dtype};
use catchment_model::Utc;
use catchment_storage::{Piece, Run, Select};

use super::sample::{BYTES_MAX, VALUES_MAX, finite, histogram, numbers, unreadable};
use crate::api;
use crate::problem::Problem;
use crate::security::hex;

/// The most values in a histogram.
const HISTOGRAM_VALUES_MAX: u64 = 65_536;
/// A longer column is not read: an encoded one must be decoded whole.
const COLUMN_BYTES_MAX: u64 = 64 << 20;
/// Frames searched for the channel, from the last one back.
const FRAMES_BACK: usize = 8;
/// Names of channels in an answer.
const NAMES_MAX: usize = 2_000;

/// The latest values of the link's channel with that name, or of its first one.
pub(super) fn look(run: &Run, link: &str, wanted: Option<&str>) -> Result<api::Sample, Problem> {
    let nothing = || Problem::not_found(format_args!("recorded sample of {link:?} yet"));
    let source = run.source(link).ok_or_else(nothing)?;
    let own = || run.channels().iter().filter(|channel| channel.source == Some(source.0));
    let channel = match wanted {
        Some(name) => own().find(|channel| channel.name == name),
        None => own().next(),
    };
    let channel = channel.ok_or_else(|| match wanted {
        Some(name) => Problem::not_found(format_args!("channel {name:?} of {link:?}")),
        None => nothing(),
    })?;
    let piece = last_piece(run, channel)?.ok_or_else(nothing)?;
    let elements = channel.shape.iter().fold(1_u64, |all, &one| all.saturating_mul(one)).max(1);
    let bytes = read(run, channel, &piece, (HISTOGRAM_VALUES_MAX / elements).max(1))?;
    let sample_bytes = (channel.sample_bytes() as usize).max(1);
    let shown = (VALUES_MAX / elements as usize).max(1).min(bytes.len() / sample_bytes);
    let tail = &bytes[bytes.len() - shown * sample_bytes..];
    let values = numbers(channel.dtype, &bytes, HISTOGRAM_VALUES_MAX as usize);
    let first_sample = piece.end_sample() - shown as u64;
    let time_ns = channel.time_scale.to_utc_ns(channel.rate.time_ns(first_sample));
    let names = own().filter(|_| wanted.is_none()).take(NAMES_MAX);
    Ok(api::Sample {
        name: link.to_owned(),
        event: None,
        time: Utc(time_ns).to_string(),
        bytes: hex(&tail[..tail.len().min(BYTES_MAX)]),
        total_bytes: tail.len() as u64,
        array: array(channel, shown, tail),
        histogram: histogram("value", values.as_deref().unwrap_or_default()),
        answers: Vec::new(),
        channel: Some(api::SampleChannel {
            name: channel.name.clone(),
            unit: channel.unit.clone(),
            scale: channel.scale,
            offset: channel.offset,
            rate_hz: channel.rate.hz(),
            first_sample,
            samples: shown as u64,
            channel_count: own().count() as u64,
            channels: names.map(|channel| channel.name.clone()).collect(),
        }),
    })
}

/// The position of the channel's latest samples.
fn last_piece(run: &Run, channel: &ChannelInfo) -> Result<Option<Piece>, Problem> {
    let Some(of_run) = run.channel(&channel.name) else { return Ok(None) };
    let frames = run.channel_frames().len();
    for frame in (frames.saturating_sub(FRAMES_BACK)..frames).rev() {
        let pieces = of_run.pieces_in(&Select::Frames(frame..frame + 1)).map_err(unreadable)?;
        if let Some(last) = pieces.last() {
            return Ok(Some(*last));
        }
    }
    Ok(None)
}

/// The bytes of a piece's last samples, at most that many.
fn read(run: &Run, channel: &ChannelInfo, piece: &Piece, most: u64) -> Result<Vec<u8>, Problem> {
    if piece.entry.raw_bytes > COLUMN_BYTES_MAX {
        let bytes = piece.entry.raw_bytes;
        let why = format!("sample of {:?}: its frames have {bytes} bytes of it", channel.name);
        return Err(Problem::not_found(format_args!("{why}, too many to look at")));
    }
    let end = piece.end_sample();
    let wanted: Range<u64> = end - piece.samples.min(most)..end;
    let select = Select::FrameSamples(piece.frame, wanted);
    let of_run = run.channel(&channel.name);
    let mut read = match of_run {
        Some(channel) => channel.read(&select).map_err(unreadable)?,
        None => Vec::new(),
    };
    Ok(read.pop().map(|segment| segment.bytes).unwrap_or_default())
}

/// The samples shown as an array; complex numbers as pairs.
fn array(channel: &ChannelInfo, samples: usize, bytes: &[u8]) -> Option<api::SampleArray> {
    let mut shape = vec![samples as u64];
    shape.extend(&channel.shape);
    if matches!(channel.dtype, Dtype::C64 | Dtype::C128) {
        shape.push(2);
    }
    let values = finite(numbers(channel.dtype, bytes, VALUES_MAX)?);
    Some(api::SampleArray { dtype: channel.dtype.name().to_owned(), shape, values })
}
