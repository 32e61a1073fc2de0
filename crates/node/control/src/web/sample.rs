//! A source's latest recorded data: the last event of its last frame on disk, or the latest values
//! of one of a link's channels (sample_channels.rs).
//!
//! It is read from the run's file as by any reader, without involving the recorder's threads; one
//! read at a time, so that many clients cost the disk no more than one. While a recorder uses all
//! of the disk's bandwidth, a read takes long: the client waits briefly, and then gets the previous
//! sample, or is told to try again.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use catchment_model::{SourceId, Utc};
use catchment_storage::{FragmentColumn, Run, StorageError};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::extract::{Params, Place};
use super::routes::Answer;
use super::sample_channels;
use crate::api;
use crate::problem::Problem;
use crate::security::hex;
use crate::shared::Shared;

/// The most bytes of a payload that are shown.
pub(super) const BYTES_MAX: usize = 4_096;
/// The most values of an array that are shown.
pub(super) const VALUES_MAX: usize = 1_024;
/// The most events of which it is said whether the source is in them.
const ANSWERS_MAX: usize = 64;
/// Bins of a histogram.
const BINS: usize = 50;

/// The run that was read last, and when, kept open: a sample then only costs reading the new
/// frames.
static OPEN: Mutex<Option<(Run, Instant)>> = Mutex::new(None);
/// Closed after that long without use, so that removed files free their space.
const UNUSED: Duration = Duration::from_secs(10);
/// Taken by the reading request: others must not block the threads that commands need, too.
static LOOKING: Semaphore = Semaphore::const_new(1);
/// The samples, the oldest first.
static SEEN: Mutex<VecDeque<Seen>> = Mutex::new(VecDeque::new());
/// The most samples kept.
const SEEN_MAX: usize = 100;
/// A sample younger than this is not read again.
const FRESH: Duration = Duration::from_millis(500);
/// An older sample is not shown.
const STALE: Duration = Duration::from_secs(5);
/// How long a request waits for its sample.
const PATIENCE: Duration = Duration::from_millis(20);

/// The sample being read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    folder: PathBuf,
    name: String,
    channel: Option<String>,
    events: bool,
}

struct Seen {
    wanted: Wanted,
    at: Instant,
    sample: Result<api::Sample, Problem>,
}

/// The channel of a link.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SampleQuery {
    /// The name of one of a link's channels; by default its first one.
    channel: Option<String>,
}

/// The latest recorded fragment of a source, and a histogram of its last frame; or the latest
/// recorded values of a link's channel.
#[utoipa::path(get, path = "/api/v1/sources/{name}/sample", tag = "sources",
    params(("name" = String, Path), SampleQuery), responses((status = 200, body = api::Sample)))]
pub(super) async fn sample(
    State(shared): Shared,
    Place(name): Place<String>,
    Params(query): Params<SampleQuery>,
) -> Answer<api::Sample> {
    let view = shared.view();
    let Some(source) = view.sources.sources.iter().find(|source| source.name == name) else {
        return Err(Problem::not_found(format_args!("source {name:?}")));
    };
    let events = source.kind == "events";
    if let Some(channel) = query.channel.as_ref().filter(|_| events) {
        let detail = format!("channel: {name:?} sends events and has no channel {channel:?}");
        return Err(Problem::bad(detail).with("field", "channel"));
    }
    let Some(folder) = view.folder.clone() else {
        return Err(Problem::not_found("run yet"));
    };
    let wanted = Wanted { folder, name, channel: query.channel, events };
    if let Some(sample) = seen(&wanted, FRESH) {
        return sample.map(Json);
    }
    if let Ok(alone) = LOOKING.try_acquire() {
        let wanted = wanted.clone();
        let work = tokio::task::spawn_blocking(move || {
            let sample = read(&wanted);
            keep(wanted, sample);
            drop(alone);
        });
        // It continues after the client has disconnected: the next request gets the result.
        if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, work).await {
            return Err(Problem::internal(format_args!("it failed: {error}")));
        }
    }
    let coming = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "it is being read: ask again");
    seen(&wanted, STALE).unwrap_or_else(|| Err(coming())).map(Json)
}

fn seen(wanted: &Wanted, within: Duration) -> Option<Result<api::Sample, Problem>> {
    let seen = SEEN.lock();
    let last = seen.iter().rev().find(|one| one.wanted == *wanted);
    last.filter(|one| one.at.elapsed() < within).map(|one| one.sample.clone())
}

fn keep(wanted: Wanted, sample: Result<api::Sample, Problem>) {
    let mut seen = SEEN.lock();
    seen.retain(|one| one.wanted != wanted && one.at.elapsed() < STALE);
    if seen.len() == SEEN_MAX {
        seen.pop_front();
    }
    seen.push_back(Seen { wanted, at: Instant::now(), sample });
}

fn read(wanted: &Wanted) -> Result<api::Sample, Problem> {
    let mut open = OPEN.lock();
    let known = open.take().filter(|(run, _)| run.path() == wanted.folder);
    let run = match known {
        Some((mut run, _)) => {
            run.refresh().map_err(unreadable)?;
            run
        }
        None => Run::open(&wanted.folder).map_err(unreadable)?,
    };
    let sample = match wanted.events {
        true => look(&run, &wanted.name),
        false => sample_channels::look(&run, &wanted.name, wanted.channel.as_deref()),
    };
    *open = Some((run, Instant::now()));
    sample
}

/// Closes a run that is no longer read.
pub(crate) fn close_unused() {
    // The request that holds it is using it.
    let Some(mut open) = OPEN.try_lock() else { return };
    if open.as_ref().is_some_and(|(_, looked)| looked.elapsed() > UNUSED) {
        *open = None;
    }
}

pub(super) fn unreadable(error: StorageError) -> Problem {
    Problem::not_found(format_args!("frame that can be read yet: {error}"))
}

fn look(run: &Run, name: &str) -> Result<api::Sample, Problem> {
    let nothing = || Problem::not_found(format_args!("recorded event of {name:?} yet"));
    let source = run.source(name).ok_or_else(nothing)?;
    let frame = run.frames().len().checked_sub(1).ok_or_else(nothing)?;
    let column = run.fragments(frame, source).map_err(unreadable)?;
    let rows = (0..column.rows()).rev();
    let row = rows.into_iter().find(|&row| column.fragment(row).is_some()).ok_or_else(nothing)?;
    let payload = column.fragment(row).unwrap_or_default();
    let events = column.events();
    let lengths = (0..column.rows()).filter_map(|row| column.fragment(row));
    let array = array(run, source, payload);
    let histogram = match &array {
        Some(array) if array.values.len() > 1 => {
            let values = array.values.iter().flatten().copied();
            histogram("value", &values.collect::<Vec<_>>())
        }
        _ => histogram("payload_bytes", &lengths.map(|one| one.len() as f64).collect::<Vec<_>>()),
    };
    Ok(api::Sample {
        name: name.to_owned(),
        event: Some(events.keys().get(row).copied().unwrap_or_default()),
        time: Utc(events.times_ns().get(row).copied().unwrap_or_default()).to_string(),
        bytes: hex(&payload[..payload.len().min(BYTES_MAX)]),
        total_bytes: payload.len() as u64,
        array,
        histogram,
        answers: answers(&column),
        channel: None,
    })
}

/// Whether a source is in each of a frame's last events.
fn answers(column: &FragmentColumn) -> Vec<api::SampleAnswer> {
    let keys = column.events().keys().iter().enumerate();
    let last = keys.skip(column.rows().saturating_sub(ANSWERS_MAX));
    let answer = |row| match column.fragment(row) {
        Some(_) => "there",
        None if column.is_expected(row) => "absent",
        None => "not_expected",
    };
    last.map(|(row, &event)| api::SampleAnswer { event, answer: answer(row) }).collect()
}

/// The payload's numbers, if the configuration declares their type.
fn array(run: &Run, source: SourceId, payload: &[u8]) -> Option<api::SampleArray> {
    let columns = &run.header().schema.columns;
    let kind = catchment_frame::ColumnKind::FragmentPayload;
    let column = columns.iter().find(|one| one.kind == kind && one.source == Some(source.0))?;
    // Payload without a declared type is also bytes: these are in the hexadecimal view.
    if column.dtype == catchment_frame::Dtype::U8 {
        return None;
    }
    let bytes = payload.get(column.skip as usize..)?;
    let values = finite(numbers(column.dtype, bytes, VALUES_MAX)?);
    Some(api::SampleArray {
        dtype: column.dtype.name().to_owned(),
        shape: column.fragment_shape.clone(),
        values,
    })
}

/// The first values of a column of numbers; for complex ones, real and imaginary parts alternate.
pub(super) fn numbers(
    dtype: catchment_frame::Dtype,
    bytes: &[u8],
    most: usize,
) -> Option<Vec<f64>> {
    use catchment_frame::Dtype;
    macro_rules! of {
        ($type:ty) => {{
            let chunks = bytes.chunks_exact(size_of::<$type>()).take(most);
            let read = |chunk: &[u8]| <$type>::from_le_bytes(chunk.try_into().unwrap_or_default());
            Some(chunks.map(|chunk| read(chunk) as f64).collect())
        }};
    }
    match dtype {
        Dtype::U8 => of!(u8),
        Dtype::I8 => of!(i8),
        Dtype::I16 => of!(i16),
        Dtype::U16 => of!(u16),
        Dtype::I32 => of!(i32),
        Dtype::U32 => of!(u32),
        Dtype::I64 => of!(i64),
        Dtype::U64 => of!(u64),
        Dtype::F32 | Dtype::C64 => of!(f32),
        Dtype::F64 | Dtype::C128 => of!(f64),
        _ => None,
    }
}

/// Values that JSON can express.
pub(super) fn finite(values: Vec<f64>) -> Vec<Option<f64>> {
    values.into_iter().map(|value| value.is_finite().then_some(value)).collect()
}

pub(super) fn histogram(what: &str, values: &[f64]) -> api::SampleHistogram {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (least, most) = finite().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    let mut histogram = api::SampleHistogram { what: what.into(), ..Default::default() };
    if least > most {
        return histogram;
    }
    let width = if most > least { (most - least) / BINS as f64 } else { 1.0 };
    histogram.edges = (0..=BINS).map(|bin| least + width * bin as f64).collect();
    histogram.counts = vec![0; BINS];
    for value in finite() {
        histogram.counts[(((value - least) / width) as usize).min(BINS - 1)] += 1;
    }
    histogram
}
