//! The files that a node has, as they are, with their frames and columns: of a storage node in its
//! folders, of a recorder in the folder of its runs.
//!
//! A file is sent as its bytes, also a range of it, and a column decoded and checked. Reads are on
//! threads of the blocking pool, a piece at a time, of which there are always some left for
//! commands; what is sent at a time is bounded, and further requests are told to come again. The
//! connection of a client that stops reading ends ([`super::timely`]), which makes room.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use catchment_disk::{ReadFile, list_files, list_folder};
use catchment_frame::{ColumnEntry, ColumnKind, FileReader, FrameKind, FrameSummary, OpenOptions};
use catchment_storage::EXTENSION;
use futures_util::stream::unfold;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::extract::{Params, Place, within};
use super::routes::Answer;
use crate::api;
use crate::problem::Problem;
use crate::shared::{NodeShared, Shared};

/// Bytes of one read, and of one piece of an answer.
const PIECE_BYTES: usize = 256 << 10;
/// The most bytes of a column that are sent decoded; longer ones are read as ranges of the file.
const COLUMN_BYTES_MAX: u64 = 64 << 20;
/// Files that are sent at a time.
const FILES_MAX: usize = 16;
/// Columns that are sent at a time: each is in memory.
const COLUMNS_MAX: usize = 2;
/// Reads at a time: the blocking pool has twice as many threads.
const READS_MAX: usize = 2;

/// What may be done at a time.
#[derive(Debug)]
pub(crate) struct Sending {
    files: Arc<Semaphore>,
    columns: Arc<Semaphore>,
    reads: Arc<Semaphore>,
}

impl Default for Sending {
    fn default() -> Self {
        let [files, columns, reads] =
            [FILES_MAX, COLUMNS_MAX, READS_MAX].map(|most| Arc::new(Semaphore::new(most)));
        Self { files, columns, reads }
    }
}

/// The part of a list to return.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// The maximum number of runs.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// Runs behind the one with this name.
    after: Option<String>,
    /// The newest first, by when their newest file was begun, instead of by name: not with `after`.
    newest: Option<bool>,
}

/// Which file of that name.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FileQuery {
    /// The node's folder, from 0, if several have a file of that name; by default the first that
    /// has it.
    folder: Option<u64>,
}

/// The part of a file's frames to return.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FramesQuery {
    /// As for the file.
    folder: Option<u64>,
    /// The first frame, from 0.
    first: Option<u64>,
    /// The maximum number of frames.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u64>,
}

/// The runs of which the node has files.
#[utoipa::path(get, path = "/api/v1/stored", tag = "stored", params(ListQuery),
    responses((status = 200, body = api::StoredList)))]
pub(super) async fn stored_runs(
    State(shared): Shared,
    Params(query): Params<ListQuery>,
) -> Answer<api::StoredList> {
    let limit = within("limit", query.limit, (1, 100, 500))? as usize;
    let is_newest = query.newest.unwrap_or(false);
    if is_newest && query.after.is_some() {
        let detail = "after: expected none beside newest, which gives the first runs alone";
        return Err(Problem::unprocessable(detail));
    }
    let list = reading(&shared, move |shared| {
        let mut names = Vec::new();
        for folder in &shared.served {
            let entries = list_folder(folder).map_err(unlisted)?;
            let runs = entries.into_iter().filter(|entry| entry.is_folder && is_name(&entry.name));
            names.extend(runs.map(|entry| entry.name));
        }
        names.sort_unstable();
        names.dedup();
        let total = names.len() as u64;
        if is_newest {
            names.sort_by_cached_key(|name| Reverse(begun(shared, name)));
        }
        let behind = |name: &String| query.after.as_ref().is_none_or(|after| name > after);
        let mut runs = Vec::new();
        for name in names.into_iter().filter(behind).take(limit) {
            let files = files_of(shared, &name)?;
            runs.push(run_of(name, &files));
        }
        Ok(api::StoredList { runs, total })
    });
    list.await.map(Json)
}

/// When the newest file of a run was begun: a folder changes when it gets a file.
fn begun(shared: &NodeShared, run: &str) -> Option<SystemTime> {
    let folders = shared.served.iter().map(|folder| folder.join(run));
    folders.filter_map(|folder| folder.metadata().and_then(|one| one.modified()).ok()).max()
}

fn run_of(name: String, files: &[api::StoredFile]) -> api::StoredRun {
    let mut streams: Vec<u32> = files.iter().map(|file| file.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    api::StoredRun {
        name,
        files: files.len() as u64,
        bytes: files.iter().map(|file| file.bytes).sum(),
        streams,
        being_written: files.iter().filter(|file| file.being_written).count() as u64,
    }
}

/// The stream of a file by its name, which is `NAME[-sSTREAM][-vVARIANT]-INDEX.catch`.
fn stream_of(file: &str) -> u32 {
    let numbered = |text: &str, letter: char| -> Option<u32> {
        let digits = text.strip_prefix(letter)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let mut parts = file.rsplit('-').skip(1).peekable();
    parts.next_if(|part| numbered(part, 'v').is_some());
    parts.next().and_then(|part| numbered(part, 's')).unwrap_or(0)
}

/// The files of a run.
#[utoipa::path(get, path = "/api/v1/stored/{name}", tag = "stored",
    params(("name" = String, Path)), responses((status = 200, body = api::StoredFiles)))]
pub(super) async fn stored_files(
    State(shared): Shared,
    Place(name): Place<String>,
) -> Answer<api::StoredFiles> {
    let list = reading(&shared, move |shared| match files_of(shared, &name)? {
        files if files.is_empty() => Err(Problem::not_found(format_args!("run {name:?}"))),
        files => Ok(api::StoredFiles { name, files }),
    });
    list.await.map(Json)
}

/// A file, or a range of its bytes.
#[utoipa::path(get, path = "/api/v1/stored/{name}/{file}", tag = "stored",
    params(("name" = String, Path), ("file" = String, Path), FileQuery),
    responses((status = 200, body = String, content_type = "application/octet-stream"),
        (status = 206, body = String, content_type = "application/octet-stream")))]
pub(super) async fn stored_file(
    State(shared): Shared,
    Place((name, file)): Place<(String, String)>,
    Params(query): Params<FileQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let held = shared.sending.files.clone().try_acquire_owned().map_err(busy)?;
    let asked = headers.get(header::RANGE).cloned();
    let opened = reading(&shared, move |shared| {
        let opened = open(shared, &name, &file, query.folder)?;
        let bytes = opened.bytes().map_err(Problem::internal)?;
        Ok((opened, bytes))
    });
    let (opened, total) = opened.await?;
    let range = match asked.as_ref().and_then(|asked| range_of(asked, total)) {
        None => None,
        Some(Ok(range)) => Some(range),
        Some(Err(())) => {
            let detail = format!("range: expected one within the file's {total} bytes");
            return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, detail));
        }
    };
    let (status, (start, end)) = match range {
        Some(range) => (StatusCode::PARTIAL_CONTENT, range),
        None => (StatusCode::OK, (0, total)),
    };
    let reads = Arc::clone(&shared.sending.reads);
    let pieces = Pieces { file: Arc::new(opened), reads, at: start, end, _held: held };
    let body = Body::from_stream(unfold(pieces, |mut pieces| async move {
        let piece = pieces.next().await?;
        Some((piece, pieces))
    }));
    let mut response = (status, body).into_response();
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, OCTETS);
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(end - start));
    if range.is_some() {
        let sent = format!("bytes {start}-{}/{total}", end - 1);
        let sent = HeaderValue::from_str(&sent).map_err(Problem::internal)?;
        fields.insert(header::CONTENT_RANGE, sent);
    }
    Ok(response)
}

/// The frames of a file, from its table of contents.
#[utoipa::path(get, path = "/api/v1/stored/{name}/{file}/frames", tag = "stored",
    params(("name" = String, Path), ("file" = String, Path), FramesQuery),
    responses((status = 200, body = api::StoredFrames)))]
pub(super) async fn stored_frames(
    State(shared): Shared,
    Place((name, file)): Place<(String, String)>,
    Params(query): Params<FramesQuery>,
) -> Answer<api::StoredFrames> {
    let limit = within("limit", query.limit, (1, 1_000, 10_000))? as usize;
    let first = usize::try_from(query.first.unwrap_or(0)).unwrap_or(usize::MAX);
    let frames = reading(&shared, move |shared| {
        let reader = reader(shared, &name, &file, query.folder)?;
        let frames = reader.frames().iter().enumerate().skip(first).take(limit);
        Ok(api::StoredFrames {
            run: reader.header().run.to_string(),
            file_index: reader.header().file_index,
            closed: reader.closed(),
            total: reader.frames().len() as u64,
            frames: frames.map(|(index, summary)| frame_of(index, summary)).collect(),
        })
    });
    frames.await.map(Json)
}

/// The columns of a frame.
#[utoipa::path(get, path = "/api/v1/stored/{name}/{file}/frames/{frame}", tag = "stored",
    params(("name" = String, Path), ("file" = String, Path), ("frame" = u64, Path), FileQuery),
    responses((status = 200, body = api::StoredColumns)))]
pub(super) async fn stored_columns(
    State(shared): Shared,
    Place((name, file, frame)): Place<(String, String, usize)>,
    Params(query): Params<FileQuery>,
) -> Answer<api::StoredColumns> {
    let columns = reading(&shared, move |shared| {
        let reader = reader(shared, &name, &file, query.folder)?;
        let no_frame = || Problem::not_found(format_args!("frame {frame} in this file"));
        let summary = reader.frames().get(frame).ok_or_else(no_frame)?;
        let entries = reader.columns(frame).map_err(damaged)?;
        let columns = entries.iter().map(|entry| column_of(&reader, summary, entry)).collect();
        Ok(api::StoredColumns { frame: frame_of(frame, summary), columns })
    });
    columns.await.map(Json)
}

/// A column of a frame: its decoded bytes, checked.
#[utoipa::path(get, path = "/api/v1/stored/{name}/{file}/frames/{frame}/columns/{column}",
    tag = "stored",
    params(("name" = String, Path), ("file" = String, Path), ("frame" = u64, Path),
        ("column" = u32, Path), FileQuery),
    responses((status = 200, body = String, content_type = "application/octet-stream")))]
pub(super) async fn stored_column(
    State(shared): Shared,
    Place((name, file, frame, column)): Place<(String, String, usize, u32)>,
    Params(query): Params<FileQuery>,
) -> Result<Response, Problem> {
    let held = shared.sending.columns.clone().try_acquire_owned().map_err(busy)?;
    let read = reading(&shared, move |shared| {
        let reader = reader(shared, &name, &file, query.folder)?;
        let none = || Problem::not_found(format_args!("column {column} in frame {frame}"));
        if frame >= reader.frames().len() {
            return Err(none());
        }
        let entry = reader.find(frame, column).map_err(damaged)?.ok_or_else(none)?;
        if entry.raw_bytes.max(entry.stored_bytes) > COLUMN_BYTES_MAX {
            let detail = format!(
                "expected a column of at most {COLUMN_BYTES_MAX} bytes, got {}: read the file's \
                 bytes from its offset on",
                entry.raw_bytes
            );
            return Err(Problem::unprocessable(detail));
        }
        let mut bytes = Vec::new();
        reader.read(frame, column, &mut bytes).map_err(damaged)?;
        Ok(bytes)
    });
    let bytes = Bytes::from(read.await?);
    let length = bytes.len() as u64;
    let body = Body::from_stream(unfold((bytes, held), |(mut rest, held)| async move {
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        (!piece.is_empty()).then_some((Ok::<_, std::io::Error>(piece), (rest, held)))
    }));
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, OCTETS);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response)
}

/// A file on its way to a client.
struct Pieces {
    file: Arc<ReadFile>,
    reads: Arc<Semaphore>,
    at: u64,
    end: u64,
    _held: OwnedSemaphorePermit,
}

impl Pieces {
    /// The next piece; an error ends the answer before its length.
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        let bytes = (self.end - self.at).min(PIECE_BYTES as u64) as usize;
        if bytes == 0 {
            return None;
        }
        let (file, at) = (Arc::clone(&self.file), self.at);
        // The semaphore is never closed.
        let one = Arc::clone(&self.reads).acquire_owned().await.ok()?;
        let read = tokio::task::spawn_blocking(move || {
            let _one = one;
            let mut piece = vec![0; bytes];
            let read = file.read_at(at, &mut piece)?;
            piece.truncate(read);
            Ok(Bytes::from(piece))
        });
        self.at += bytes as u64;
        let read = read.await.map_err(std::io::Error::other).and_then(|read| read);
        Some(read.and_then(|piece| match piece.len() == bytes {
            true => Ok(piece),
            // It was cut meanwhile.
            false => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }))
    }
}

/// Reads on a thread of the blocking pool, of which others stay free.
async fn reading<T: Send + 'static>(
    shared: &Arc<NodeShared>,
    work: impl FnOnce(&NodeShared) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let one = Arc::clone(&shared.sending.reads).acquire_owned().await.map_err(Problem::internal)?;
    let work = move |shared: &NodeShared| {
        let _one = one;
        work(shared)
    };
    shared.blocking(work).await
}

fn files_of(shared: &NodeShared, run: &str) -> Result<Vec<api::StoredFile>, Problem> {
    let mut files = Vec::new();
    for (folder, path) in (0..).zip(&shared.served) {
        let path = path.join(name_of(run)?);
        if !path.is_dir() {
            continue;
        }
        for path in list_files(&path, EXTENSION).map_err(unlisted)? {
            // One that vanishes meanwhile is none.
            let Ok(file) = ReadFile::open(&path) else { continue };
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let bytes = file.bytes().unwrap_or(0);
            let (name, being_written) = (name.to_owned(), file.is_held());
            let stream = stream_of(&name);
            files.push(api::StoredFile { name, folder, stream, bytes, being_written });
        }
    }
    Ok(files)
}

/// A file of a run; in that folder, if one is given.
fn open(
    shared: &NodeShared,
    run: &str,
    file: &str,
    folder: Option<u64>,
) -> Result<ReadFile, Problem> {
    let none = || Problem::not_found(format_args!("file {file:?} of run {run:?}"));
    let (run, name) = (name_of(run)?, name_of(file)?);
    if Path::new(name).extension().is_none_or(|extension| extension != EXTENSION) {
        return Err(none());
    }
    let folders = (0u64..).zip(&shared.served);
    let mut folders = folders.filter(|(index, _)| folder.is_none_or(|folder| folder == *index));
    let path: Option<PathBuf> =
        folders.find_map(|(_, path)| Some(path.join(run).join(name)).filter(|path| path.is_file()));
    ReadFile::open(&path.ok_or_else(none)?).map_err(Problem::internal)
}

fn reader(
    shared: &NodeShared,
    run: &str,
    file: &str,
    folder: Option<u64>,
) -> Result<FileReader<ReadFile>, Problem> {
    let file = open(shared, run, file, folder)?;
    let options = match file.is_held() {
        // As far as it goes.
        true => OpenOptions { search_bytes_max: 0, ..OpenOptions::default() },
        false => OpenOptions::default(),
    };
    FileReader::open_with(file, &options).map_err(damaged)
}

/// A name that is one of an entry of a folder, and not of the node's own.
fn name_of(name: &str) -> Result<&str, Problem> {
    match is_name(name) {
        true => Ok(name),
        false => Err(Problem::not_found(format_args!("run or file {name:?}"))),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

fn frame_of(index: usize, summary: &FrameSummary) -> api::StoredFrame {
    let info = &summary.info;
    api::StoredFrame {
        index: index as u64,
        kind: if info.kind == FrameKind::SKIPPED { "skipped" } else { info.kind.name() }.into(),
        stream: info.origin.stream,
        sequence: info.sequence,
        offset: summary.offset,
        bytes: summary.frame_bytes,
        rows: info.rows,
        keys: [info.key_first, info.key_last],
        times_ns: [info.time_first_ns, info.time_last_ns],
        columns: summary.column_count,
    }
}

fn column_of(
    reader: &FileReader<ReadFile>,
    summary: &FrameSummary,
    entry: &ColumnEntry,
) -> api::StoredColumn {
    let schema = &reader.header().schema;
    let info = schema.columns.iter().find(|info| info.id == entry.id);
    let source = info.and_then(|info| schema.sources.get(info.source? as usize));
    let channel = info.filter(|info| info.kind == ColumnKind::Channel);
    api::StoredColumn {
        id: entry.id,
        kind: info.map_or_else(|| "unknown".to_owned(), |info| info.kind.name().to_owned()),
        source: source.map(|source| source.name.clone()),
        channel: channel.map(|info| info.name.clone()),
        dtype: entry.dtype.name().to_owned(),
        rows: entry.rows,
        codec: entry.codec.to_string(),
        offset: summary.offset + entry.offset,
        stored_bytes: entry.stored_bytes,
        raw_bytes: entry.raw_bytes,
        crc32c: entry.crc32c,
        first_sample: channel.map(|_| entry.first_sample),
    }
}

/// The range of bytes that is asked for, start and end; none if the whole file is: also for several
/// ranges, and for units other than bytes. An error if it is beyond the file.
fn range_of(value: &HeaderValue, total: u64) -> Option<Result<(u64, u64), ()>> {
    let (first, last) = value.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first, last) {
        ("", last) => (total.saturating_sub(last.parse().ok()?), total),
        (first, "") => (first.parse().ok()?, total),
        (first, last) => {
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(total))
        }
    };
    Some(if start < end { Ok((start, end)) } else { Err(()) })
}

fn busy<E>(_: E) -> Problem {
    let detail = "as much is being sent as may be at a time: ask again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

fn unlisted(error: impl std::fmt::Display) -> Problem {
    Problem::internal(error)
}

fn damaged(error: impl std::fmt::Display) -> Problem {
    Problem::unprocessable(error.to_string())
}

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_file_is_in_its_name() {
        for (name, stream) in [
            ("run-000318-00004.catch", 0),
            ("run-000318-s12-00004.catch", 12),
            ("run-000318-s3-v2147483648-00004.catch", 3),
            ("run-000318-v7-00000.catch", 0),
            ("s3-00000.catch", 3),
            ("run-s-00000.catch", 0),
            ("other.catch", 0),
        ] {
            assert_eq!(stream_of(name), stream, "{name}");
        }
    }

    #[test]
    fn a_range_is_one_of_bytes_within_the_file() {
        let of = |text| range_of(&HeaderValue::from_static(text), 100);
        assert_eq!(of("bytes=0-9"), Some(Ok((0, 10))));
        assert_eq!(of("bytes=90-"), Some(Ok((90, 100))));
        assert_eq!(of("bytes=90-1000"), Some(Ok((90, 100))));
        assert_eq!(of("bytes=-30"), Some(Ok((70, 100))));
        assert_eq!(of("bytes=-300"), Some(Ok((0, 100))));
        for beyond in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            assert_eq!(of(beyond), Some(Err(())), "{beyond}");
        }
        for whole in ["bytes=9-0", "bytes=0-1,5-6", "lines=0-9", "bytes=a-b", "bytes", "bytes=-"] {
            assert_eq!(of(whole), None, "{whole}");
        }
    }
}
