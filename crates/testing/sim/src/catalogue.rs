//! The catalogue of runs, held to the recorders that ran: each gets a number and enters what it
//! knows, as a node does; one that dies enters nothing more. Who opens the catalogue next must be
//! told what became of each run, and so must one who makes it again from the files.
//!
//! It is a real one, in a folder of the real disk, whose waits for that disk take most of the time:
//! of every few runs only.

use std::path::Path;

use catchment_catalog::{
    Begun, Catalog, CatalogError, LiveRun, NumberRequest, Over, RunDetail, RunEnd, RunKnown,
    RunState, Totals, rebuild,
};
use catchment_model::{RunId, Utc};
use catchment_ports::StoreFault;
use catchment_recorder::State;

use crate::readers;
use crate::recorded::{Recorded, disk_lied, read};
use crate::recorder::Life;
use crate::world::Outcome;

/// Of how many runs one is checked.
const EVERY: u64 = 8;
const WHO: &str = "ada";

/// What the catalogue must tell of a run.
struct Expected {
    number: u64,
    comment: String,
    /// The first is what its recorder entered or left, the other what its files may say instead.
    states: [RunState; 2],
    /// Events, by its recorder, and by its files where these can be compared.
    entered: Option<u64>,
    in_files: Option<u64>,
}

/// Checks the catalogue of all recorders of a run.
///
/// # Errors
/// The first thing that it tells and that is not so.
pub(crate) fn check(outcome: &Outcome) -> Result<(), String> {
    if !outcome.plan.case.seed.is_multiple_of(EVERY) {
        return Ok(());
    }
    let data = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    let mut all = Vec::new();
    for life in &outcome.lives {
        let entered = enter(data.path(), outcome, life, all.len() as u64 + 1);
        all.push(entered.map_err(|why| format!("catalogue: run {}: {why}", all.len() + 1))?);
    }
    let told = |catalog: &Catalog, is_made_again: bool| {
        all.iter().try_for_each(|run| {
            let detail = catalog.run(run.number).map_err(words)?;
            run.compare(&detail, is_made_again)
        })
    };
    let catalog = Catalog::open(data.path()).map_err(words)?;
    told(&catalog, false).map_err(|why| format!("catalogue: {why}"))?;
    drop(catalog);
    let report = rebuild(data.path(), |_, _| ()).map_err(words)?;
    if !report.renumbered.is_empty() || report.old_catalog.is_some() {
        return Err(format!("catalogue, made again: {report:?}"));
    }
    let catalog = Catalog::open(data.path()).map_err(words)?;
    told(&catalog, true).map_err(|why| format!("catalogue, made again: {why}"))
}

/// A recorder, or several of one run, as the catalogue hears of them.
fn enter(data: &Path, outcome: &Outcome, life: &Life, number: u64) -> Result<Expected, String> {
    let comment = format!("run {number}");
    let (began, folder) = (Utc(life.began_ns), data.join(&comment));
    let mut catalog = Catalog::open(data).map_err(words)?;
    let request =
        NumberRequest { who: WHO, comment: &comment, now: began, ..NumberRequest::default() };
    let mut live = catalog.next_run_number(&request).map_err(words)?;
    if live.number() != number {
        return Err(format!("its number is {}", live.number()));
    }
    let begun = Begun { id: RunId([number as u8; 16]), folder: folder.clone(), started: began };
    let begun = Some(begun);
    let (who, taken) = (WHO.to_owned(), began);
    let mut known = RunKnown { who, taken, begun, comment, ..RunKnown::default() };
    catalog.enter(&live, &known).map_err(words)?;
    for _ in 0..life.deaths {
        (catalog, live) = dies(data, (catalog, live))?;
    }
    let of_first = life.of_targets().next().ok_or("no target")?;
    readers::copy_to(&folder, outcome, &of_first)?;
    let recorded = read(outcome, &of_first)?;
    let is_ended = has_end(&recorded);
    let is_readable = !recorded.files.is_empty() && recorded.damage.is_empty();
    let in_files = (is_readable && !disk_lied(&of_first)).then_some(recorded.rows);
    let comment = known.comment.clone();
    if life.has_crashed {
        let in_files_too = if is_ended { RunState::Complete } else { RunState::Interrupted };
        let states = [RunState::Interrupted, in_files_too];
        return Ok(Expected { number, comment, states, entered: None, in_files });
    }
    let counts = &life.last.counts;
    let totals = Totals {
        events: counts.events_recorded,
        bytes: counts.bytes_written,
        frames: counts.frames_recorded,
        files: recorded.files.len() as u64,
        ledger: Some(life.last.ledger.clone()),
    };
    let fault = match &life.last.state {
        State::Fault { reason } => Some(reason.clone()),
        State::Recording | State::Stopped => None,
    };
    let state = if fault.is_some() { RunState::Fault } else { RunState::Complete };
    let (events, ended) = (totals.events, Utc(life.last_arrival_ns.max(life.began_ns)));
    known.over = Some(Over::Ended(RunEnd { ended, fault, totals }));
    catalog.enter(&live, &known).map_err(words)?;
    // A disk that lies, or is full at the end, may not have what was written last; a last file that
    // could not be cut is not closed.
    let is_cut = !of_first.disk.contains(&StoreFault::FinishError);
    let is_whole = is_ended && is_cut && !disk_lied(&of_first);
    let states = [state, if is_whole { state } else { RunState::Interrupted }];
    Ok(Expected { number, comment, states, entered: Some(events), in_files })
}

/// The process of a run ends; another one opens the catalogue, and has the run go on.
fn dies(data: &Path, (catalog, live): (Catalog, LiveRun)) -> Result<(Catalog, LiveRun), String> {
    let number = live.number();
    drop((catalog, live));
    let mut catalog = Catalog::open(data).map_err(words)?;
    let state = catalog.run(number).map_err(words)?.run.state;
    if state != RunState::Interrupted {
        return Err(format!("its process is gone, and it is {state:?}"));
    }
    let live = catalog.resume(number).map_err(words)?;
    Ok((catalog, live))
}

impl Expected {
    fn compare(&self, detail: &RunDetail, is_made_again: bool) -> Result<(), String> {
        let Self { number, comment, states, entered, in_files } = self;
        let run = &detail.run;
        if run.who != WHO || run.comment != *comment || run.id != Some(RunId([*number as u8; 16])) {
            return Err(format!("run {number}: {detail:?}"));
        }
        if !states.contains(&run.state) {
            return Err(format!("run {number} is {:?}, not one of {states:?}", run.state));
        }
        // What its recorder said counts until its files are asked.
        let events = if is_made_again { in_files.as_ref() } else { entered.as_ref() };
        match events {
            Some(events) if run.events != Some(*events) => {
                Err(format!("run {number}: {events} events, and {:?} are told", run.events))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the last file says that the run was ended.
fn has_end(recorded: &Recorded) -> bool {
    let toc = recorded.files.last().and_then(|file| file.toc.as_ref());
    toc.is_some_and(crate::walk::WalkedToc::run_ended)
}

fn words(error: CatalogError) -> String {
    error.to_string()
}
