//! Access of the control thread to the catalogue of runs.
//!
//! An unwritable catalogue does not prevent recording: the run's number then comes from the file
//! beside it, the log and the page report it, and `catchment catalog rebuild` finds the run by its
//! files. On a full disk it can still be read. A lock held by another process does not delay a run
//! either: entries that cannot be made at once are written beside the catalogue, for the next
//! process that opens it. The end of a run that cannot be entered is also kept, shown as if it were
//! entered, and retried; if not even the file can be written and the program ends first, the next
//! program finds the end from the run's files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use catchment_catalog::{
    Begun, CachedCatalog, Catalog, CatalogError, LiveRun, NumberRequest, Over, PATIENCE_AT_START,
    Quality, REMARKS_MAX, Remark, RunEnd, RunKnown, RunRow, RunState, Search, TargetSource, Totals,
};
use catchment_frame::RunLocation;
use catchment_model::{Ledger, RunId, SourceLedger, Utc};
use catchment_recorder::{RunSummary, State};
use catchment_storage::Run;
use catchment_telemetry::utc_now;
use parking_lot::Mutex;

use crate::api;
use crate::problem::Problem;
use crate::watching::targets::of_run;

mod forwarded;

/// Access to the catalogue.
#[derive(Debug)]
pub(crate) struct CatalogClient {
    catalog: CachedCatalog,
    /// The last error, until an operation succeeds.
    trouble: Mutex<Option<String>>,
    /// Runs whose end could not be entered yet.
    pending: Mutex<Vec<Arc<PendingEnd>>>,
    /// The entry of the run that is armed or recorded.
    known: Mutex<RunKnown>,
    /// When another process was found to hold the catalogue.
    busy: Mutex<Option<Instant>>,
}

/// The end of a run that has not been entered in the catalogue yet.
#[derive(Debug)]
struct PendingEnd {
    // While this is held, the run is not mistaken for one whose process is gone.
    live: LiveRun,
    known: RunKnown,
}

/// How long to wait for another process that recently held the catalogue, and how long it is
/// assumed to hold it still.
const PATIENCE_AGAIN: Duration = Duration::from_millis(20);
const BUSY_FOR: Duration = Duration::from_secs(5);

/// Runs behind the newest that are looked at, and passed over if none was recorded.
const INTERRUPTED_BEHIND: usize = 10;
/// Ends that are kept; a run takes a minute and a full disk a day.
const PENDING_MAX: usize = 1_000;
/// The most bytes of all versions of the configuration for another one: hundreds of large ones.
const POSTED_BYTES_MAX: u64 = 64 << 20;

impl CatalogClient {
    /// The catalogue for the runs in this folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let catalog = CachedCatalog::of(folder);
        Self {
            catalog,
            trouble: Mutex::default(),
            pending: Mutex::default(),
            known: Mutex::default(),
            busy: Mutex::default(),
        }
    }

    /// The catalogue's error, if any.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().clone();
        let pending: Vec<String> =
            self.pending().iter().map(|end| end.live.number().to_string()).collect();
        match (trouble, pending.is_empty()) {
            (trouble, true) => trouble,
            (trouble, false) => {
                let (why, runs) = (trouble.unwrap_or_default(), pending.join(", "));
                let waits = format!("the end of run {runs} waits until it can be entered");
                Some(format!("{why}; {waits}").trim_start_matches("; ").to_owned())
            }
        }
    }

    fn pending(&self) -> Vec<Arc<PendingEnd>> {
        self.pending.lock().clone()
    }

    /// Closes the catalogue for a waiting rebuild.
    pub(crate) fn close_if_wanted(&self) {
        self.catalog.close_if_wanted();
    }

    /// Closes the catalogue until the next request.
    pub(crate) fn close(&self) {
        self.catalog.close();
    }

    /// Reads the catalogue, which needs no space on the disk.
    fn read<T>(
        &self,
        work: impl FnOnce(&Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.catalog.read(work)
    }

    /// Performs an operation on the catalogue, and records whether it succeeded.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let result = self.catalog.write(work);
        self.remember(result)
    }

    /// As [`CatalogClient::with`], for operations that another process holding the catalogue must
    /// not delay.
    fn at_once<T>(
        &self,
        work: impl FnOnce(&mut Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let mut busy = self.busy.lock();
        let again = busy.is_some_and(|since| since.elapsed() < BUSY_FOR);
        let patience = if again { PATIENCE_AGAIN } else { PATIENCE_AT_START };
        let result = self.catalog.write_within(patience, work);
        *busy = matches!(result, Err(CatalogError::InUse { .. })).then(Instant::now);
        drop(busy);
        self.remember(result)
    }

    fn remember<T>(&self, result: Result<T, CatalogError>) -> Result<T, CatalogError> {
        let trouble = match &result {
            Ok(_) => None,
            Err(error) if error.is_answer() => return result,
            Err(error) => Some(format!("the catalogue of runs: {error}")),
        };
        if let Some(trouble) = &trouble {
            tracing::warn!(trouble, "the catalogue of runs cannot be used");
        }
        *self.trouble.lock() = trouble;
        result
    }

    /// Assigns a number to a run; it is never assigned again.
    ///
    /// # Errors
    /// Not even the file beside the catalogue can be written.
    pub(crate) fn take(&self, request: &NumberRequest<'_>) -> Result<LiveRun, CatalogError> {
        let taken = self.at_once(|catalog| catalog.next_run_number(request));
        *self.known.lock() = RunKnown {
            who: request.who.into(),
            comment: request.comment.into(),
            configuration: request.configuration.into(),
            emulated: request.emulated,
            taken: request.now,
            remarks: request.remark.cloned().into_iter().collect(),
            ..RunKnown::default()
        };
        taken.or_else(|error| {
            tracing::error!(%error, "a run gets its number without the catalogue");
            let live = LiveRun::without_catalog(self.catalog.folder(), request.wanted)?;
            self.keep(&live, &self.known.lock());
            Ok(live)
        })
    }

    /// The newest run that came to a recording, if it was interrupted.
    ///
    /// # Errors
    /// The catalogue cannot be read, or another process holds it.
    pub(crate) fn interrupted(&self) -> Result<Option<RunRow>, CatalogError> {
        let search = Search { limit: Some(INTERRUPTED_BEHIND), ..Search::default() };
        let rows = self.at_once(|catalog| catalog.search(&search))?;
        let newest = rows.into_iter().find(|row| row.state != RunState::Failed);
        Ok(newest.filter(|row| row.state == RunState::Interrupted))
    }

    /// Has an interrupted run go on.
    ///
    /// # Errors
    /// It is not interrupted any more, or the catalogue cannot be written.
    pub(crate) fn resume(
        &self,
        row: &RunRow,
        (id, folder): (RunId, &Path),
        configuration: &str,
    ) -> Result<LiveRun, CatalogError> {
        let live = self.at_once(|catalog| catalog.resume(row.number))?;
        let started = row.started.unwrap_or(row.taken);
        *self.known.lock() = RunKnown {
            who: row.who.clone(),
            comment: row.comment.clone(),
            configuration: configuration.into(),
            emulated: row.emulated,
            taken: row.taken,
            begun: Some(Begun { id, folder: folder.to_owned(), started }),
            ..RunKnown::default()
        };
        Ok(live)
    }

    /// Enters the data of a run; entries that cannot be made wait in a file. Returns whether they
    /// were made.
    fn enter_known(&self, live: &LiveRun, known: &RunKnown) -> bool {
        let entered = self.at_once(|catalog| catalog.enter(live, known));
        if let Err(error) = &entered {
            tracing::warn!(run = live.number(), %error, "the run waits until it can be entered");
            self.keep(live, known);
        }
        entered.is_ok()
    }

    fn keep(&self, live: &LiveRun, known: &RunKnown) {
        if let Err(error) = known.keep(self.catalog.folder(), live) {
            tracing::warn!(run = live.number(), %error, "nor can it be kept in a file until then");
        }
    }

    /// Sets the purpose of a run that is about to be recorded.
    pub(crate) fn comment(&self, live: &LiveRun, comment: &str) {
        let mut known = self.known.lock();
        comment.clone_into(&mut known.comment);
        let set = self.at_once(|catalog| catalog.set_comment(live.number(), comment));
        if set.is_err() {
            self.keep(live, &known);
        }
    }

    /// Keeps the remark of a command that ends a run, until its end is entered.
    pub(crate) fn note(&self, remark: &Remark) {
        let remarks = &mut self.known.lock().remarks;
        // One command gives several orders.
        if remarks.len() < REMARKS_MAX && !remarks.contains(remark) {
            remarks.push(remark.clone());
        }
    }

    /// Adds the remark of a command to the run that is armed or recorded.
    pub(crate) fn remark(&self, live: &LiveRun, remark: &Remark) {
        self.note(remark);
        if self.at_once(|catalog| catalog.add_remark(live.number(), remark)).is_err() {
            self.keep(live, &self.known.lock());
        }
    }

    /// Adds a remark to a run whose end is under way, or over; false if that cannot be done now.
    pub(crate) fn keep_remark(&self, run: u64, remark: &Remark) -> bool {
        self.at_once(|catalog| catalog.add_remark(run, remark)).is_ok()
    }

    /// Enters that a run is recording.
    pub(crate) fn begin(
        &self,
        live: &LiveRun,
        (id, folder): (RunId, &Path),
        locations: Vec<RunLocation>,
    ) {
        let mut known = self.known.lock();
        known.locations = locations;
        // One that goes on began before.
        let started = known.begun.as_ref().map_or_else(utc_now, |begun| begun.started);
        known.begun = Some(Begun { id, folder: folder.to_owned(), started });
        // Reported by `trouble`; the run continues.
        self.enter_known(live, &known);
    }

    /// Enters that a run has ended, now or, if that fails, later.
    pub(crate) fn end(&self, live: LiveRun, started_ns: u64, summary: &RunSummary) {
        let last = &summary.last;
        let fault = match &last.state {
            State::Fault { reason } => Some(reason.clone()),
            State::Recording | State::Stopped => None,
        };
        let totals = Totals {
            events: last.counts.events_recorded,
            bytes: last.counts.bytes_written,
            frames: last.counts.frames_recorded,
            files: last.files.len() as u64,
            ledger: Some(last.ledger.clone()),
        };
        let end = RunEnd { ended: utc_now(), fault, totals };
        let (id, folder, started) = (summary.run, summary.folder.clone(), Utc(started_ns));
        let begun = Some(Begun { id, folder, started });
        let (over, locations) = (Some(Over::Ended(end)), summary.locations.clone());
        let targets = of_run(summary);
        let known = RunKnown { begun, over, locations, targets, ..self.known.lock().clone() };
        self.enter(PendingEnd { live, known });
    }

    fn enter(&self, end: PendingEnd) {
        let mut pending = self.pending.lock();
        if pending.len() == PENDING_MAX {
            let oldest = pending.remove(0).live.number();
            tracing::error!(run = oldest, "the run's end is not entered: too many wait");
        }
        pending.push(Arc::new(end));
        drop(pending);
        self.settle();
    }

    /// Enters the ends of runs that could not be entered before. Returns whether all are entered.
    pub(crate) fn settle(&self) -> bool {
        for end in self.pending() {
            let live = &end.live;
            if !self.enter_known(live, &end.known) {
                return false;
            }
            let number = live.number();
            let mut pending = self.pending.lock();
            pending.retain(|other| !Arc::ptr_eq(other, &end));
            drop(pending);
            // Its files, for later use; nothing depends on them. Storage nodes have their own.
            if end.known.has_folder()
                && let Err(error) = self.catalog.scan(number)
            {
                tracing::warn!(run = number, %error, "the catalogue does not know the run's files");
            }
        }
        true
    }

    /// A row with the end that could not be entered yet.
    fn with_pending(&self, row: RunRow) -> api::Run {
        let waiting = self.pending().into_iter().find(|end| end.live.number() == row.number);
        let Some(waiting) = waiting else { return run(row) };
        let RunKnown { begun: Some(begun), over: Some(Over::Ended(end)), .. } = &waiting.known
        else {
            return run(row);
        };
        let RunEnd { ended, fault, totals } = end;
        let state = if fault.is_some() { RunState::Fault } else { RunState::Complete };
        run(RunRow {
            id: Some(begun.id),
            started: Some(begun.started),
            ended: Some(*ended),
            state,
            reason: fault.clone(),
            events: Some(totals.events),
            bytes: Some(totals.bytes),
            frames: Some(totals.frames),
            files: Some(totals.files),
            loss_count: totals.loss_count(),
            bad_count: totals.ledger.as_ref().map(Ledger::bad_data),
            ..row
        })
    }

    /// Enters that a run did not begin to record.
    pub(crate) fn fail(&self, live: &LiveRun, why: &str) {
        let over = Some(Over::Failed { why: why.into(), at: utc_now() });
        let known = RunKnown { over, ..self.known.lock().clone() };
        self.enter_known(live, &known);
    }

    /// Enters that a run was armed and did not begin to record, and where its files are.
    pub(crate) fn disarm(&self, live: LiveRun, why: &str, summary: &RunSummary) {
        let (id, folder, at) = (summary.run, summary.folder.clone(), utc_now());
        let begun = Some(Begun { id, folder, started: at });
        let over = Some(Over::Failed { why: why.into(), at });
        let locations = summary.locations.clone();
        let known = RunKnown { begun, over, locations, ..self.known.lock().clone() };
        self.enter(PendingEnd { live, known });
    }

    /// Runs, newest first.
    pub(crate) fn list(
        &self,
        text: &str,
        before: Option<u64>,
        limit: usize,
        quality: Option<&str>,
    ) -> Result<api::RunList, Problem> {
        let quality = quality.map(quality_of).transpose()?;
        let limit = Some(limit);
        let search = Search { text: text.into(), before, quality, limit, ..Search::default() };
        let (rows, next) = self.read(|catalog| catalog.page(&search)).map_err(problem)?;
        Ok(api::RunList {
            runs: rows.into_iter().map(|row| self.with_pending(row)).collect(),
            next,
        })
    }

    /// Runs with the paths of their files, newest first.
    pub(crate) fn search(&self, search: &Search) -> Result<Vec<(RunRow, PathBuf)>, CatalogError> {
        let rows = self.with(|catalog| catalog.search(search))?;
        let folder = self.catalog.folder();
        let located =
            |row: RunRow| row.folder.as_ref().map(|one| folder.join(one)).map(|at| (row, at));
        Ok(rows.into_iter().filter_map(located).collect())
    }

    /// A run.
    pub(crate) fn run(&self, number: u64) -> Result<api::Run, Problem> {
        let detail = self.read(|catalog| catalog.run(number)).map_err(problem)?;
        let (mut remarks, mut locations) = (detail.remarks, detail.locations);
        let mut of_targets = detail.targets;
        for end in self.pending().iter().filter(|end| end.live.number() == number) {
            remarks.extend(end.known.remarks.clone());
            locations.clone_from(&end.known.locations);
            of_targets.clone_from(&end.known.targets);
        }
        remarks.sort();
        remarks.dedup();
        let remarks = Some(remarks.into_iter().map(remark_of).collect());
        let locations = Some(locations.into_iter().map(api::RunLocation::from).collect());
        let line = |TargetSource { target, source, entries }| api::TargetSource {
            target,
            source,
            entries,
        };
        let targets = Some(of_targets.into_iter().map(line).collect());
        Ok(api::Run { remarks, locations, targets, ..self.with_pending(detail.run) })
    }

    /// A run's ledger: of each source from its files; if the files are not available, only the sum,
    /// from the catalogue.
    pub(crate) fn ledger(&self, number: u64) -> Result<api::RunLedger, Problem> {
        let detail = self.read(|catalog| catalog.run(number)).map_err(problem)?;
        let folder = detail.run.folder.map(|folder| self.catalog.folder().join(folder));
        let run = folder.and_then(|folder| Run::open(&folder).ok());
        let known = run.as_ref().and_then(|run| Some((run, run.recorded_ledger().ok()??)));
        Ok(match known {
            Some((run, ledger)) => {
                let found = api_ledger(&ledger, run.sources().iter().map(|source| &*source.name));
                let balanced = Some(ledger.balance().holds()).filter(|_| run.ended());
                api::RunLedger { balanced, ..found }
            }
            None => {
                let totals = detail.ledger.into_iter().collect();
                api::RunLedger { totals, ..api::RunLedger::default() }
            }
        })
    }

    /// Adds a remark to a run, and changes its quality.
    pub(crate) fn change(
        &self,
        number: u64,
        who: &str,
        remark: Option<&str>,
        quality: Option<&str>,
    ) -> Result<(), Problem> {
        let quality = quality.map(quality_of).transpose()?;
        self.with(|catalog| {
            if let Some(text) = remark {
                let (time, kind) = (utc_now(), Remark::ALONE.to_owned());
                let (who, text) = (who.to_owned(), text.to_owned());
                catalog.add_remark(number, &Remark { time, kind, who, text })?;
            }
            quality.map_or(Ok(()), |quality| catalog.set_quality(number, quality))
        })
        .map_err(problem)
    }

    /// The configuration that a run was recorded with.
    pub(crate) fn configuration_of(&self, number: u64) -> Result<String, Problem> {
        let found = self.read(|catalog| {
            let version = catalog.run(number)?.run.configuration;
            version.map(|version| catalog.configuration(version)).transpose()
        });
        let found = found.map_err(problem)?;
        let none = || Problem::not_found(format_args!("configuration of run {number}"));
        found.map(|found| found.text).ok_or_else(none)
    }

    /// Versions of the configuration, newest first.
    pub(crate) fn configurations(&self) -> Result<Vec<api::ConfigurationVersion>, Problem> {
        let all = self.read(|catalog| catalog.configurations()).map_err(problem)?;
        Ok(all.into_iter().map(|about| version(about, None)).collect())
    }

    /// A version of the configuration.
    pub(crate) fn configuration(&self, number: u64) -> Result<api::ConfigurationVersion, Problem> {
        let found = self.read(|catalog| catalog.configuration(number)).map_err(problem)?;
        Ok(version(found.about, Some(found.text)))
    }

    /// Keeps a configuration received over the network, unless too many are kept: they can never be
    /// removed.
    pub(crate) fn post_configuration(&self, text: &str, who: &str) -> Result<u64, Problem> {
        let all = self.read(|catalog| catalog.configurations()).map_err(problem)?;
        let held = all.iter().map(|about| about.bytes).sum::<u64>();
        if held.saturating_add(text.len() as u64) > POSTED_BYTES_MAX {
            let detail = format!(
                "expected versions of the configuration of at most {POSTED_BYTES_MAX} bytes in \
                 all, got {} more beside {held}: use one that is there, or the node's file",
                text.len()
            );
            return Err(Problem::conflict(detail));
        }
        self.add_configuration(text, who)
    }

    /// Keeps a configuration, unless that text is already there, and returns its version.
    pub(crate) fn add_configuration(&self, text: &str, who: &str) -> Result<u64, Problem> {
        let put = self.at_once(|catalog| catalog.put_configuration(text, who, utc_now()));
        put.map_err(problem)
    }
}

/// A ledger in the API's form, for sources with these names.
pub(crate) fn api_ledger<'a>(
    ledger: &Ledger,
    names: impl Iterator<Item = &'a str>,
) -> api::RunLedger {
    let nonzero = |counts: &SourceLedger| -> BTreeMap<String, u64> {
        let some = counts.iter().filter(|(_, count)| *count > 0);
        some.map(|(entry, count)| (entry.name().to_owned(), count)).collect()
    };
    let pairs = names.zip(&ledger.sources);
    let sources = pairs.map(|(name, counts)| (name.to_owned(), nonzero(counts))).collect();
    api::RunLedger { balanced: None, totals: nonzero(&ledger.total()), sources }
}

fn quality_of(text: &str) -> Result<Quality, Problem> {
    Quality::from_name(text).ok_or_else(|| {
        let known: Vec<&str> = Quality::ALL.iter().map(|quality| quality.name()).collect();
        let detail = format!("quality: expected one of {}, got {text:?}", known.join(", "));
        Problem::unprocessable(detail).with("field", "quality")
    })
}

fn remark_of(remark: Remark) -> api::Remark {
    let Remark { time, kind, who, text } = remark;
    api::Remark { time: time.to_string(), kind, who, text }
}

fn run(row: RunRow) -> api::Run {
    api::Run {
        number: row.number,
        id: row.id.map(|id| id.to_string()).unwrap_or_default(),
        started: row.started.map(|time| time.to_string()),
        ended: row.ended.map(|time| time.to_string()),
        who: row.who,
        comment: row.comment,
        configuration: row.configuration,
        emulated: row.emulated,
        state: row.state.name().into(),
        reason: row.reason,
        quality: row.quality.name().into(),
        events: row.events.unwrap_or_default(),
        bytes: row.bytes.unwrap_or_default(),
        frames: row.frames.unwrap_or_default(),
        files: row.files.unwrap_or_default(),
        loss_count: row.loss_count.unwrap_or_default(),
        bad_count: row.bad_count.unwrap_or_default(),
        folder: row.folder.unwrap_or_default(),
        remarks: None,
        locations: None,
        targets: None,
    }
}

fn version(
    about: catchment_catalog::Configuration,
    text: Option<String>,
) -> api::ConfigurationVersion {
    let (version, sha256) = (about.version, about.sha256);
    let (time, who) = (about.created.to_string(), about.who);
    api::ConfigurationVersion { version, sha256, time, who, text }
}

fn problem(error: CatalogError) -> Problem {
    match error {
        CatalogError::NoRun { number } => Problem::not_found(format_args!("run {number}")),
        CatalogError::NoConfiguration { version } => {
            Problem::not_found(format_args!("configuration {version}"))
        }
        CatalogError::Text { .. } => Problem::unprocessable(error.to_string()),
        error if error.wants_room() => {
            let detail = format!("the disk of the catalogue is full, nothing was changed: {error}");
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail)
        }
        error => Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(comment: &'a str, configuration: &'a str) -> NumberRequest<'a> {
        let now = utc_now();
        NumberRequest { who: "anna", comment, configuration, now, ..NumberRequest::default() }
    }

    #[test]
    fn an_end_that_cannot_be_entered_waits_and_is_entered_later() {
        let folder = tempfile::tempdir().unwrap();
        let client = CatalogClient::of(folder.path());
        let live = client.take(&request("", "")).unwrap();
        let (number, id) = (live.number(), RunId([7; 16]));
        let path = folder.path().join("run-a");
        client.begin(&live, (id, &path), Vec::new());
        // So that everything is in the file that is set aside.
        client.close();
        let database = folder.path().join(".catchment/catalog.sqlite");
        let aside = database.with_extension("aside");
        std::fs::rename(&database, &aside).unwrap();
        std::fs::write(&database, "this is no database, and nobody can write into it").unwrap();
        let totals = Totals { events: 12, files: 1, ..Totals::default() };
        let end = RunEnd { ended: Utc(5_000_000_000), fault: Some("full".into()), totals };
        let begun = Some(Begun { id, folder: path, started: Utc(1_000_000_000) });
        let over = Some(Over::Ended(end));
        let end = PendingEnd { live, known: RunKnown { begun, over, ..RunKnown::default() } };
        client.enter(end);
        assert!(!client.settle());
        let trouble = client.trouble().unwrap();
        assert!(trouble.ends_with("the end of run 1 waits until it can be entered"), "{trouble}");

        // A catalogue that can be read but not written shows the run as ended.
        std::fs::rename(&aside, &database).unwrap();
        let row = Catalog::open_read_only(folder.path()).unwrap().run(number).unwrap().run;
        assert_eq!(row.state, RunState::Recording);
        let entry = client.run(number).unwrap();
        assert_eq!((entry.state.as_str(), entry.events), ("fault", 12));
        assert!(client.settle());
        let row = Catalog::open_read_only(folder.path()).unwrap().run(number).unwrap().run;
        assert_eq!((row.state, row.reason.as_deref()), (RunState::Fault, Some("full")));
        assert_eq!((row.ended, row.events), (Some(Utc(5_000_000_000)), Some(12)));
        let trouble = client.trouble();
        assert!(trouble.as_ref().is_none_or(|text| !text.contains("waits")), "{trouble:?}");
    }

    #[test]
    fn a_catalogue_that_another_process_has_does_not_say_that_no_run_was_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let client = CatalogClient::of(folder.path());
        let live = client.take(&request("before", "")).unwrap();
        client.begin(&live, (RunId([7; 16]), &folder.path().join("run-a")), Vec::new());
        drop(live);
        client.close();
        let lock = std::fs::File::open(folder.path().join(".catchment/catalog.lock")).unwrap();
        lock.lock().unwrap();
        assert!(matches!(client.interrupted(), Err(CatalogError::InUse { .. })));
        drop(lock);
        let row = client.interrupted().unwrap().expect("its process is gone");
        assert_eq!(row.number, 1);
        // An attempt to go on with it that fails leaves it as it was.
        let go_on = |row| client.resume(row, (RunId([7; 16]), Path::new("run-a")), "");
        drop(go_on(&row).unwrap());
        let row = client.interrupted().unwrap().expect("nobody records it");
        assert_eq!(go_on(&row).unwrap().number(), 1);
    }

    #[test]
    fn a_catalogue_that_another_process_has_holds_up_no_run_and_knows_of_it_later() {
        let folder = tempfile::tempdir().unwrap();
        let client = CatalogClient::of(folder.path());
        drop(client.take(&request("before", "")).unwrap());
        let database = folder.path().join(".catchment/catalog.sqlite");
        let other = rusqlite::Connection::open(&database).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let remark = |time, kind: &str, text: &str| {
            let (kind, who, text) = (kind.to_owned(), "anna".to_owned(), text.to_owned());
            Remark { time: Utc(time), kind, who, text }
        };
        let first = remark(1, "arm", "first");
        let about = request("first", "a = 1\n");
        let about = NumberRequest { remark: Some(&first), emulated: true, ..about };
        let live = client.take(&about).unwrap();
        assert_eq!(live.number(), 2);
        client.comment(&live, "second");
        for said in [remark(2, "start", "second"), remark(3, "pause", "beam is gone")] {
            client.remark(&live, &said);
        }
        client.note(&remark(4, "stop", "no beam tonight"));
        let (id, path) = (RunId([7; 16]), folder.path().join("run-b"));
        let node = RunLocation { address: "10.0.0.7:7100".into(), ..RunLocation::default() };
        client.begin(&live, (id, &path), vec![node.clone()]);
        let begun = Some(Begun { id, folder: path, started: Utc(1_000_000_000) });
        let totals = Totals { events: 12, files: 1, ..Totals::default() };
        let end = RunEnd { ended: Utc(5_000_000_000), fault: None, totals };
        let known = RunKnown { begun, over: Some(Over::Ended(end)), ..client.known.lock().clone() };
        client.enter(PendingEnd { live, known });
        assert!(client.trouble().unwrap().contains("the end of run 2 waits"));
        // The program ends before the other process does.
        drop(client);
        drop(other);
        let detail = Catalog::open(folder.path()).unwrap().run(2).unwrap();
        assert_eq!(detail.locations, [node]);
        let texts: Vec<_> = detail.remarks.iter().map(|remark| remark.text.as_str()).collect();
        assert_eq!(texts, ["first", "second", "beam is gone", "no beam tonight"]);
        let row = detail.run;
        assert_eq!((row.state, row.events), (RunState::Complete, Some(12)));
        assert_eq!((row.who.as_str(), row.comment.as_str()), ("anna", "second"));
        assert!(row.configuration.is_some() && row.emulated);
    }
}
