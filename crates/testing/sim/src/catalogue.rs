//! The catalogue of runs, held to the recorders that ran: each gets a number and enters what it
//! knows, as a node does, or keeps it for later where another process has the catalogue; one that
//! dies enters nothing more. Who opens the catalogue next must be told what became of each run, and
//! so must one who makes it again from the files.
//!
//! Every run has the catalogue's model (`catchment_catalog::model`), whose answers are compared
//! with the recorders and with their files. The real one, whose waits for the disk take most of the
//! time, is beside it in every few runs, and gives the same answers.

use std::path::Path;

use catchment_catalog::model::{CatalogModel, CatalogPort};
use catchment_catalog::{
    Begun, Catalog, CatalogError, NumberRequest, Over, RunDetail, RunEnd, RunKnown, RunState,
    Search, Totals, rebuild,
};
use catchment_fixtures::Random;
use catchment_model::{RunId, Utc};
use catchment_ports::StoreFault;
use catchment_recorder::State;

use crate::readers;
use crate::recorded::{disk_lied, read};
use crate::recorder::Life;
use crate::walk::WalkedToc;
use crate::world::Outcome;

/// Of how many runs one has the real catalogue, too.
const EVERY: u64 = 8;
const WHO: &str = "ada";

/// A run, as its recorder tells of it.
struct Run {
    number: u64,
    known: RunKnown,
    deaths: u32,
    over: Option<Over>,
    /// When another process has the catalogue: the number, the beginning, the end.
    is_busy: [bool; 3],
    /// The first is what its recorder enters or leaves, the other what its files may say instead.
    states: [RunState; 2],
    /// Whether data were lost, where its recorder counts that.
    lost: Option<bool>,
    /// Events in its files, where these can be compared.
    in_files: Option<u64>,
}

/// Checks the catalogue of all recorders of a run.
///
/// # Errors
/// The first thing that it tells and that is not so.
pub(crate) fn check(outcome: &Outcome) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    let data = data.path();
    let mut model = CatalogModel::new(data);
    let has_real = outcome.plan.case.seed.is_multiple_of(EVERY);
    let mut real = has_real.then(|| Catalog::open(data)).transpose().map_err(words)?;
    let mut runs = Vec::new();
    for life in &outcome.lives {
        let number = runs.len() as u64 + 1;
        let run = Run::of(data, outcome, life, number);
        let told = run.and_then(|run| {
            run.tell((real.as_mut(), &mut model), || {
                let of_first = life.of_targets().next().ok_or("no target")?;
                readers::copy_to(&data.join(&run.known.comment), outcome, &of_first)
            })?;
            Ok(run)
        });
        runs.push(told.map_err(|why| format!("catalogue: run {number}: {why}"))?);
    }
    real.as_mut().map_or(Ok(()), Catalog::reopen).and_then(|()| model.reopen()).map_err(words)?;
    compare(real.as_ref(), &model, &runs, false).map_err(|why| format!("catalogue: {why}"))?;
    if real.take().is_some() {
        let report = rebuild(data, |_, _| ()).map_err(words)?;
        if !report.renumbered.is_empty() || report.old_catalog.is_some() {
            return Err(format!("catalogue, made again: {report:?}"));
        }
        real = Some(Catalog::open(data).map_err(words)?);
    }
    model.rebuild().and_then(|()| model.reopen()).map_err(words)?;
    let compared = compare(real.as_ref(), &model, &runs, true);
    compared.map_err(|why| format!("catalogue, made again: {why}"))
}

/// The model tells what the recorders and the files do, and the real one what the model does.
fn compare(
    real: Option<&Catalog>,
    model: &CatalogModel,
    runs: &[Run],
    is_made_again: bool,
) -> Result<(), String> {
    for run in runs {
        let detail = model.run(run.number).map_err(words)?;
        run.check(&detail, is_made_again)?;
        match real.map(|catalog| catalog.run(run.number).map_err(words)).transpose()? {
            Some(told) if told != detail => return Err(format!("{told:?}, not {detail:?}")),
            _ => {}
        }
    }
    let search = Search { text: WHO.to_owned(), ..Search::default() };
    let rows = model.search(&search);
    match real.map(|catalog| catalog.search(&search).map_err(words)).transpose()? {
        Some(found) if found != rows => Err(format!("{found:?} are found, not {rows:?}")),
        _ if rows.len() != runs.len() => Err(format!("{} runs are found", rows.len())),
        _ => Ok(()),
    }
}

impl Run {
    fn of(data: &Path, outcome: &Outcome, life: &Life, number: u64) -> Result<Self, String> {
        let mut random = Random::new(outcome.plan.case.seed ^ number);
        let is_busy = [(); 3].map(|()| random.chance(250));
        let (comment, began) = (format!("run {number}"), Utc(life.began_ns));
        let (id, folder) = (RunId([number as u8; 16]), data.join(&comment));
        let begun = Some(Begun { id, folder, started: began });
        let who = WHO.to_owned();
        let known = RunKnown { who, comment, taken: began, begun, ..RunKnown::default() };
        let of_first = life.of_targets().next().ok_or("no target")?;
        let recorded = read(outcome, &of_first)?;
        let toc = recorded.files.last().and_then(|file| file.toc.as_ref());
        let is_ended = toc.is_some_and(WalkedToc::run_ended);
        let is_readable = !recorded.files.is_empty() && recorded.damage.is_empty();
        // A power cut may take frames that a checkpoint behind them lists, and the file's header,
        // which the table of contents has once more.
        let is_synced = recorded.files.iter().all(|file| !life.unsynced.contains(&file.path));
        let is_known = is_readable && is_synced && !disk_lied(&of_first);
        let in_files = is_known.then_some(recorded.rows);
        let deaths = life.deaths;
        if life.has_crashed {
            let in_files_too = if is_ended { RunState::Complete } else { RunState::Interrupted };
            let states = [RunState::Interrupted, in_files_too];
            let (over, lost) = (None, None);
            return Ok(Self { number, known, deaths, over, is_busy, states, lost, in_files });
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
        let ended = Utc(life.last_arrival_ns.max(life.began_ns));
        let over = Some(Over::Ended(RunEnd { ended, fault, totals }));
        // A disk that lies, or is full at the end, may not have what was written last; a last file
        // that could not be cut is not closed.
        let is_cut = !of_first.disk.contains(&StoreFault::FinishError);
        let is_whole = is_ended && is_cut && !disk_lied(&of_first);
        let states = [state, if is_whole { state } else { RunState::Interrupted }];
        let lost = life.last.ledger.sources.iter().any(|source| source.balance().lost_data());
        let lost = Some(lost);
        Ok(Self { number, known, deaths, over, is_busy, states, lost, in_files })
    }

    /// Its recorders tell both of it; when the last one ends, its files are there.
    fn tell(
        &self,
        (real, model): (Option<&mut Catalog>, &mut CatalogModel),
        write_files: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let began = real.map(|catalog| self.begin(catalog).map(|live| (catalog, live)));
        let of_real = began.transpose()?;
        let live = self.begin(model)?;
        write_files()?;
        if let Some((catalog, live)) = of_real {
            self.end(catalog, live)?;
        }
        self.end(model, live)
    }

    /// It begins; its process may end, and another one has it go on.
    fn begin<C: CatalogPort>(&self, catalog: &mut C) -> Result<C::Live, String> {
        let RunKnown { who, comment, taken, .. } = &self.known;
        let request = NumberRequest { who, comment, now: *taken, ..NumberRequest::default() };
        let [is_busy, is_busy_then, _] = self.is_busy;
        let taken = if is_busy { catalog.take_without(None) } else { catalog.take(&request) };
        let mut live = taken.map_err(words)?;
        let entered = match is_busy_then {
            true => catalog.keep(&live, &self.known),
            false => catalog.enter(&live, &self.known),
        };
        entered.map_err(words)?;
        for _ in 0..self.deaths {
            catalog.die(live);
            catalog.reopen().map_err(words)?;
            live = catalog.resume(self.number).map_err(words)?;
        }
        match C::number(&live) == self.number {
            true => Ok(live),
            false => Err(format!("its number is {}", C::number(&live))),
        }
    }

    fn end<C: CatalogPort>(&self, catalog: &mut C, live: C::Live) -> Result<(), String> {
        if self.over.is_some() {
            let known = RunKnown { over: self.over.clone(), ..self.known.clone() };
            let entered = match self.is_busy[2] {
                true => catalog.keep(&live, &known),
                false => catalog.enter(&live, &known),
            };
            entered.map_err(words)?;
        }
        catalog.die(live);
        Ok(())
    }

    fn check(&self, detail: &RunDetail, is_made_again: bool) -> Result<(), String> {
        let Self { number, states, lost, in_files, .. } = self;
        let run = &detail.run;
        if !states.contains(&run.state) {
            return Err(format!("run {number} is {:?}, not one of {states:?}", run.state));
        }
        // What its recorder said counts until its files are asked: whoever enters an end that was
        // kept does that, too.
        let are_asked = is_made_again || self.is_busy[2];
        if let (Some(lost), false) = (lost, are_asked)
            && run.loss_count.is_none_or(|count| (count > 0) != *lost)
        {
            return Err(format!("run {number}: {:?} lost, and data were: {lost}", run.loss_count));
        }
        match in_files.filter(|_| is_made_again || self.over.is_none()) {
            Some(events) if run.events != Some(events) => {
                Err(format!("run {number}: {events} events, and {:?} are told", run.events))
            }
            _ => Ok(()),
        }
    }
}

fn words(error: CatalogError) -> String {
    error.to_string()
}
