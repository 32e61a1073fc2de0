//! Tests that see what no user may: single steps of an operation, and the database itself.

mod cost;
mod crash;
mod damage;
mod keeping;
mod lifecycle;
mod locked;
mod model;
mod rebuilding;
mod searching;

use std::path::Path;

use catchment_frame::{FileFrames, LocationKind, RunLocation, Schema, SourceInfo};
use catchment_model::{Entry, Ledger, RunId, SourceId, Utc};
use catchment_storage::{
    ColumnData, Ending, EventFrame, EventSource, NewRun, RunWriter, WriteOptions,
};

use crate::{
    Begun, Catalog, CatalogError, LiveRun, NumberRequest, Over, Remark, RunDetail, RunEnd,
    RunKnown, TargetSource, Totals,
};

/// A second on 2026-11-21, from 0.
fn second(second: u64) -> Utc {
    Utc((1_795_219_200 + second) * 1_000_000_000)
}

/// A run in a data folder: frames of three events, a second apart, one fragment in ten lost.
struct Files {
    name: String,
    id: RunId,
    number: u64,
    frames: u64,
    ended: bool,
    /// Fragments that came in and are in no frame.
    in_flight: u64,
    emulated: bool,
}

impl Files {
    fn of(name: &str, id: u8, number: u64) -> Self {
        Self {
            name: name.to_owned(),
            id: RunId([id; 16]),
            number,
            frames: 2,
            ended: true,
            in_flight: 0,
            emulated: false,
        }
    }

    fn write(&self, data: &Path) {
        let source = SourceInfo {
            id: 0,
            name: "board".into(),
            group: "boards".into(),
            protocol: "hadtu".into(),
            required: true,
            malformed_reasons: Vec::new(),
            stored: true,
            sparse: false,
        };
        let run = NewRun {
            run: self.id,
            run_number: self.number,
            config: format!("[run]\nnumber = {}\n", self.number),
            emulated: self.emulated,
            ..NewRun::new(data.join(&self.name), &*self.name, Schema::events(vec![source])).unwrap()
        };
        let mut writer = RunWriter::create(run, WriteOptions::small()).unwrap();
        for frame in 0..self.frames {
            let keys = [3 * frame, 3 * frame + 1, 3 * frame + 2];
            let times_ns = [second(frame).0; 3];
            let source = EventSource {
                source: SourceId(0),
                lengths: &[1, 2, 3],
                validity: None,
                expected: None,
                holes: &[],
                times: &[],
                pieces: &[],
                payload: ColumnData::Raw(b"abcdef"),
            };
            let frame = EventFrame {
                keys: &keys,
                times_ns: &times_ns,
                flags: &[0; 3],
                sources: vec![source],
                increments: None,
            };
            writer.write_events(frame).unwrap();
        }
        let mut ledger = Ledger::new(1);
        ledger.sources[0] = books(3 * self.frames).sources.remove(0);
        ledger.sources[0][Entry::FragmentsReceived] += self.in_flight;
        let ending = Ending { ledger: Some(ledger), run_ended: self.ended, data_lost: true };
        writer.finish(ending).unwrap();
    }
}

/// The books of that many recorded fragments, and two that were late.
fn books(recorded: u64) -> Ledger {
    let mut ledger = Ledger::new(1);
    let source = &mut ledger.sources[0];
    source[Entry::FragmentsReceived] = recorded + 2;
    source[Entry::FragmentsRecorded] = recorded;
    source[Entry::FragmentsLate] = 2;
    ledger
}

fn request(comment: &str) -> NumberRequest<'_> {
    NumberRequest { who: "anna", comment, now: second(0), ..NumberRequest::default() }
}

fn take(catalog: &mut Catalog, comment: &str) -> LiveRun {
    catalog.next_run_number(&request(comment)).unwrap()
}

fn ended(second_ended: u64, recorded: u64) -> RunEnd {
    let totals = Totals {
        events: recorded,
        bytes: 1_000,
        frames: 2,
        files: 1,
        ledger: Some(books(recorded)),
    };
    RunEnd { ended: second(second_ended), fault: None, totals }
}

/// What became of the fragments of two sources in two targets.
fn targets() -> Vec<TargetSource> {
    let of_target = |target: &str| {
        ["veto", "start"].map(|source| TargetSource {
            target: target.to_owned(),
            source: source.to_owned(),
            entries: [("fragments_durable".to_owned(), 6)].into(),
        })
    };
    ["disk", "store"].iter().flat_map(|target| of_target(target)).collect()
}

/// A folder and a storage node, with so many frames in each.
fn locations(frames: Option<u64>) -> Vec<RunLocation> {
    let name = "run-b".to_owned();
    let folder = RunLocation {
        target: "disk".into(),
        address: "/data".into(),
        name,
        required: true,
        frames,
        files: frames.iter().flat_map(|_| [(0, 1), (3, 3)]).collect(),
        ..RunLocation::default()
    };
    let numbers = frames.map(|frames| (0, 2 * frames));
    let node = RunLocation {
        target: "store".into(),
        kind: LocationKind::Node,
        address: "10.0.0.7:7100".into(),
        required: false,
        bytes: frames,
        first_frame: numbers.map(|(first, _)| first),
        last_frame: numbers.map(|(_, last)| last),
        files: Vec::new(),
        file_frames: frames.iter().map(|_| FileFrames::one(4, (0, 3))).collect(),
        ..folder.clone()
    };
    vec![folder, node]
}

/// A remark of that second.
fn remark(at: u64, kind: &str, text: &str) -> Remark {
    let (kind, who, text) = (kind.to_owned(), "anna".to_owned(), text.to_owned());
    Remark { time: second(at), kind, who, text }
}

/// Every run of a catalogue: number, state, comment.
fn told(catalog: &Catalog) -> Vec<(u64, &'static str, String)> {
    let runs = catalog.search(&crate::Search::default()).unwrap();
    runs.into_iter().rev().map(|run| (run.number, run.state.name(), run.comment)).collect()
}

/// The run records from now on.
fn begin_run(
    catalog: &mut Catalog,
    live: &LiveRun,
    id: RunId,
    folder: &Path,
    started: Utc,
) -> Result<(), CatalogError> {
    let begun = Begun { id, folder: folder.to_owned(), started };
    enter(catalog, live, |known| known.begun = Some(begun))
}

/// The run has ended.
fn end_run(catalog: &mut Catalog, live: &LiveRun, end: &RunEnd) {
    enter(catalog, live, |known| known.over = Some(Over::Ended(end.clone()))).unwrap();
}

/// The run did not come to a recording.
fn fail_run(catalog: &mut Catalog, live: &LiveRun, why: &str) {
    let over = Over::Failed { why: why.to_owned(), at: second(1) };
    enter(catalog, live, |known| known.over = Some(over)).unwrap();
}

/// Enters what the catalogue knows of a run, and a change to it.
fn enter(
    catalog: &mut Catalog,
    live: &LiveRun,
    change: impl FnOnce(&mut RunKnown),
) -> Result<(), CatalogError> {
    let mut known = RunKnown { taken: second(0), ..RunKnown::default() };
    if let Ok(RunDetail { run, .. }) = catalog.run(live.number()) {
        let folder = catalog.folder_of(&run);
        let begun = run.id.zip(folder).zip(run.started);
        known.begun = begun.map(|((id, folder), started)| Begun { id, folder, started });
    }
    change(&mut known);
    catalog.enter(live, &known)
}
