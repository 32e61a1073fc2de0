//! What a run's files say of it: headers and tables of contents, no data.

use std::path::Path;
use std::time::SystemTime;

use catchment_disk::{last_written, list_folder};
use catchment_frame::RunLocation;
use catchment_model::{Ledger, RunId, Utc};
use catchment_storage::{Frame, Run, StorageError, ledger_so_far, run_locations};

use crate::files::{FileRow, FrameKind, FrameSpan};
use crate::row::{RunState, Totals};
use crate::{RUN_NUMBER_MAX, SPANS_PER_FILE_MAX};

/// A run, as its files describe it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The folder's name in the data folder.
    pub(crate) folder: String,
    pub(crate) id: RunId,
    /// What the headers say; 0 if none was chosen.
    pub(crate) number: u64,
    pub(crate) started: Utc,
    /// The last time in its frames.
    pub(crate) ended: Option<Utc>,
    pub(crate) configuration: String,
    pub(crate) emulated: bool,
    /// A recorder holds its files.
    pub(crate) recording: bool,
    /// Its last file says that it was ended in order.
    pub(crate) complete: bool,
    pub(crate) totals: Totals,
    /// Fragments that had come in and are in no frame; none if the ledger is not that of the
    /// frames.
    in_flight: Option<u64>,
    pub(crate) files: Vec<FileRow>,
    pub(crate) spans: Vec<FrameSpan>,
    /// Where the run's frames were sent, if its list of files says it.
    pub(crate) locations: Vec<RunLocation>,
    /// What is not in order about the files.
    pub(crate) problems: Vec<String>,
}

impl Facts {
    /// Reads them from a run's folder; `name` is what the catalogue calls it. Of a run that is not
    /// `live` the recorder is known to be gone: where the kernel is still putting its writes away,
    /// its files are locked all the same.
    pub(crate) fn read(folder: &Path, name: &str, live: bool) -> Result<Self, StorageError> {
        let run = Run::open(folder)?;
        let recording = live && run.being_recorded();
        let mut problems: Vec<String> = run.problems().iter().map(ToString::to_string).collect();
        // Those of a run at work are not final, and its recorder will say them.
        let ledger =
            if recording { run.recorded_ledger() } else { ledger_so_far(&run, FRAMES_READ_MAX) };
        let ledger = match ledger {
            Ok(ledger) => ledger,
            Err(error) => {
                problems.push(error.to_string());
                None
            }
        };
        let (files, spans) = contents(&run);
        let header = run.header();
        let sum = |of: fn(&FileRow) -> u64| files.iter().map(of).fold(0, u64::saturating_add);
        let totals = Totals {
            events: run.event_count(),
            bytes: sum(|file| file.bytes),
            frames: sum(|file| file.frames),
            files: files.len() as u64,
            ledger,
        };
        Ok(Self {
            folder: name.to_owned(),
            id: header.run,
            number: header.run_number,
            started: Utc(header.created_ns),
            ended: ended(&run),
            configuration: header.config.clone(),
            emulated: header.emulated,
            recording,
            complete: run.ended(),
            in_flight: in_flight(&run, totals.ledger.as_ref()),
            totals,
            files,
            spans,
            locations: run_locations(folder, header.run),
            problems,
        })
    }

    /// What a run lost. Of one that was interrupted this is the least: what was in flight then is
    /// in no file, and what came in after the last frame was written is in no ledger.
    pub(crate) fn loss_count(&self, state: RunState) -> Option<u64> {
        let counted = self.totals.loss_count()?;
        let interrupted = state == RunState::Interrupted && !self.complete;
        let in_flight = self.in_flight.filter(|_| interrupted).unwrap_or(0);
        Some(counted.saturating_add(in_flight))
    }
}

/// What had come in and is in no frame. A checkpoint's ledger, which is that of a killed run with
/// many frames, were taken while the recorder counted on.
fn in_flight(run: &Run, ledger: Option<&Ledger>) -> Option<u64> {
    let frames: usize = run.files().map(|file| file.frames).sum();
    let ledger = ledger.filter(|_| run.closed() || frames <= FRAMES_READ_MAX)?;
    let of_each = ledger.sources.iter().map(|source| source.balance().fragments_in_flight);
    Some(of_each.map(|count| u64::try_from(count).unwrap_or(0)).fold(0, u64::saturating_add))
}

/// The folders of a data folder that may be runs: names and paths, by name.
pub(crate) fn run_folders(
    data: &Path,
) -> Result<Vec<(String, std::path::PathBuf)>, catchment_disk::DiskError> {
    let entries = list_folder(data)?.into_iter();
    let folders = entries.filter(|entry| entry.is_folder && !entry.name.starts_with('.'));
    let mut folders: Vec<_> = folders.map(|entry| (entry.name, entry.path)).collect();
    folders.sort();
    Ok(folders)
}

/// The highest number that the runs of a data folder say they have; 0 if there is none.
pub(crate) fn highest_number(data: &Path) -> u64 {
    let folders = run_folders(data).unwrap_or_default().into_iter();
    let runs = folders.filter_map(|(_, path)| Run::open(path).ok());
    let numbers = runs.map(|run| run.header().run_number);
    numbers.filter(|number| *number <= RUN_NUMBER_MAX).max().unwrap_or(0)
}

/// Whether two paths lead to one folder.
pub(crate) fn same(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| path.canonicalize().ok();
    one == other || resolved(one).is_some_and(|one| resolved(other) == Some(one))
}

fn contents(run: &Run) -> (Vec<FileRow>, Vec<FrameSpan>) {
    let (mut files, mut spans) = (Vec::new(), Vec::new());
    for (index, file) in run.files().enumerate() {
        let in_file = |frames: &[Frame]| -> Vec<Frame> {
            frames.iter().filter(|frame| frame.file == index).copied().collect()
        };
        let (events, channels) = (in_file(run.frames()), in_file(run.channel_frames()));
        let file_index = file.header.file_index;
        let rows = events.iter().map(|frame| frame.summary.info.rows);
        files.push(FileRow {
            index: file_index,
            name: file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            created: Utc(file.header.created_ns),
            bytes: file.bytes,
            frames: file.frames as u64,
            events: rows.fold(0, u64::saturating_add),
            closed: file.closed,
        });
        let both = !events.is_empty() && !channels.is_empty();
        let most = if both { SPANS_PER_FILE_MAX / 2 } else { SPANS_PER_FILE_MAX };
        for (kind, frames) in [(FrameKind::Events, events), (FrameKind::Channels, channels)] {
            let each = frames.len().div_ceil(most).max(1);
            spans.extend(frames.chunks(each).map(|frames| span(file_index, kind, frames)));
        }
    }
    (files, spans)
}

/// Frames that follow each other, as one.
fn span(file: u32, kind: FrameKind, frames: &[Frame]) -> FrameSpan {
    let infos = || frames.iter().map(|frame| frame.summary.info);
    FrameSpan {
        file,
        kind,
        first: frames[0].index as u64,
        count: frames.len() as u64,
        time_first_ns: infos().map(|info| info.time_first_ns).min().unwrap_or(0),
        time_last_ns: infos().map(|info| info.time_last_ns).max().unwrap_or(0),
        key_first: infos().map(|info| info.key_first).min().unwrap_or(0),
        key_last: infos().map(|info| info.key_last).max().unwrap_or(0),
        rows: infos().map(|info| info.rows).fold(0, u64::saturating_add),
        bytes: frames.iter().map(|frame| frame.summary.frame_bytes).fold(0, u64::saturating_add),
    }
}

/// When a run ended: the last time in its frames. Events have the recorder's own time. Samples have
/// that of their senders, whose clocks may be wrong by years: it ended neither before it began nor
/// after its files were last written.
fn ended(run: &Run) -> Option<Utc> {
    let last = |frames: &[Frame]| frames.iter().map(|frame| frame.summary.info.time_last_ns).max();
    let scale = run.channels().first().map(|channel| channel.time_scale);
    let channels = last(run.channel_frames()).zip(scale).map(|(ns, scale)| {
        let began_ns = run.header().created_ns;
        let written_ns = last_written_ns(run).unwrap_or(u64::MAX);
        scale.to_utc_ns(ns).min(written_ns).max(began_ns)
    });
    last(run.frames()).max(channels).map(Utc)
}

/// When the last of a run's files was changed, by the system's clock.
fn last_written_ns(run: &Run) -> Option<u64> {
    let last = last_written(run.files().map(|file| file.path))?;
    let since_1970 = last.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_nanos()).ok()
}

/// The ledger of a killed run is recomputed from at most that many frames: a second's reading.
const FRAMES_READ_MAX: usize = 1_000;
