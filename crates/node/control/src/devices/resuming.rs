//! An interrupted run that goes on.
//!
//! What is in the way for good is logged, and a new run begins. What may pass (the last writes of
//! the recorder that died, its ports, a process that holds the catalogue) is waited for, and then
//! the order fails: as long as the run can still go on, no other one takes its place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use catchment_catalog::{CatalogError, Remark, RunRow};
use catchment_model::RunId;
use catchment_net::run_of_timer;
use catchment_recorder::{
    ADMITTED, ForwardWait, Recorder, RecorderConfig, RecorderError, TargetConfig,
};
use catchment_run::Command;
use catchment_storage::{CaughtUp, Resumable, ResumedPlace};
use catchment_telemetry::utc_now;

use super::{Job, Open, Recording};
use crate::api;
use crate::configuration::Configuration;
use crate::node::signal;
use crate::problem::Problem;
use crate::security::guard::Who;
use crate::shared::GOES_ON;

/// How long what may pass is waited for.
const RESUME_WITHIN: Duration = Duration::from_secs(10);
const RESUME_POLL: Duration = Duration::from_millis(100);

/// Begins the request ids of commands that are for an interrupted run only.
pub(super) const GO_ON: &str = "go-on-";

/// An interrupted run that may go on.
struct Newest {
    row: RunRow,
    /// Its folder's.
    name: String,
    config: RecorderConfig,
    /// For how long nothing of it has been written.
    age: Duration,
}

impl Recording {
    /// Asks for *start* if the interrupted run may go on, on a node that begins no run by itself.
    /// Looks once, before the first command for a run.
    pub(super) fn go_on_alone(&mut self) {
        let Some(configuration) = self.goes_on_alone.take().filter(|_| self.may_resume) else {
            return;
        };
        // What is in the way for now may pass while the command waits.
        let has_none = || matches!(self.newest(&configuration, Duration::ZERO), Ok(None));
        if !configuration.recorder.has_front_ends() || has_none() {
            return;
        }
        let settings = &self.shared.settings;
        let who = Who { name: settings.who.clone(), ..signal() };
        let asked = api::CommandRequest {
            request: format!("{GO_ON}{}", self.shared.started_ns),
            command: Command::Start.name().into(),
            ..api::CommandRequest::default()
        };
        let refused = |problem: &Problem| {
            tracing::warn!(reason = problem.detail, "the interrupted run does not go on");
        };
        let asked = self.shared.put(move |conductor, now_ns| {
            conductor.command(now_ns, &asked, None, &who).inspect_err(refused)
        });
        asked.inspect_err(refused).ok();
    }

    /// The last run, if its recorder has died and it can go on. If it never will, the reason is
    /// logged.
    ///
    /// # Errors
    /// Why it cannot go on now.
    pub(super) fn resumed(&self, job: &Job) -> Result<Option<Open>, String> {
        let until = Instant::now() + RESUME_WITHIN;
        loop {
            match self.resume_newest(job) {
                Err(_) if Instant::now() < until => std::thread::sleep(RESUME_POLL),
                done => return done,
            }
        }
    }

    fn resume_newest(&self, job: &Job) -> Result<Option<Open>, String> {
        let base = &job.configuration;
        let resume = Duration::from_nanos(base.resume_ns);
        let forwarded_within = resume.saturating_sub(self.since.elapsed());
        let Some(newest) = self.newest(base, forwarded_within)? else { return Ok(None) };
        let Newest { row, name, config, age } = newest;
        let resumed = self.of_interrupted(&row, (base, &config), &name).and_then(|configuration| {
            let RecorderConfig { run_number, run_id, emulated, .. } = config;
            let config = configuration.recorder.clone();
            let config = RecorderConfig { run_number, run_id, emulated, ..config };
            Ok((self.resume_run(&row, &name, config)?, configuration))
        });
        match resumed {
            Ok((open, configuration)) => {
                *self.run_status.recorded.lock() = Some(configuration);
                Ok(Some(open))
            }
            Err((error, false)) => {
                tracing::warn!(run = row.number, %error, "the interrupted run cannot go on");
                Ok(None)
            }
            Err((error, true)) => {
                let run = format!("run {}, which was interrupted,", row.number);
                Err(try_again(&run, error, resume.saturating_sub(age)))
            }
        }
    }

    /// The last run, if its recorder has died not longer ago than `run.resume`. Waits at most for
    /// `forwarded_within` until storage nodes have what is in their spills.
    ///
    /// # Errors
    /// Why it cannot be said now.
    fn newest(
        &self,
        configuration: &Configuration,
        forwarded_within: Duration,
    ) -> Result<Option<Newest>, String> {
        let Configuration { resume_ns, recorder: config, .. } = configuration;
        let resume = Duration::from_nanos(*resume_ns);
        let row = match self.shared.catalog.interrupted() {
            Ok(Some(row)) => row,
            Err(error @ CatalogError::InUse { .. }) if self.since.elapsed() < resume => {
                let left = resume.saturating_sub(self.since.elapsed());
                return Err(try_again("the last run, if it was interrupted,", error, left));
            }
            Ok(None) | Err(_) => return Ok(None),
        };
        let name = row.folder.as_ref().and_then(|folder| Path::new(folder).file_name());
        let Some(name) = name.map(|name| name.to_string_lossy().into_owned()) else {
            return Ok(None);
        };
        if resume.is_zero() {
            return Ok(None);
        }
        let (run_id, emulated) = (row.id.or(config.run_id), configuration.emulates());
        let config = RecorderConfig { run_number: row.number, run_id, emulated, ..config.clone() };
        let wait = ForwardWait { within: forwarded_within, bytes: &self.shared.forwarded_bytes };
        let written_ns = match Recorder::last_written_ns(&config, &name, &wait) {
            Ok(Some(written_ns)) => written_ns,
            // All is at the front-ends: it goes on from its beginning.
            Ok(None) if self.is_of_catalogue(&row, &config) => row.started.unwrap_or(row.taken).0,
            Ok(None) => return Ok(None),
            Err(error) if error.may_pass() && self.since.elapsed() < resume => {
                let left = resume.saturating_sub(self.since.elapsed());
                let run = format!("run {}, which was interrupted,", row.number);
                return Err(try_again(&run, error, left));
            }
            Err(error) => {
                tracing::warn!(run = row.number, %error, "the interrupted run cannot go on");
                return Ok(None);
            }
        };
        let age = Duration::from_nanos(utc_now().0.saturating_sub(written_ns));
        if age > resume {
            tracing::warn!(
                run = row.number,
                age_s = age.as_secs(),
                resume_s = resume.as_secs(),
                "the run was interrupted too long ago to go on"
            );
            return Ok(None);
        }
        Ok(Some(Newest { row, name, config, age }))
    }

    /// Whether the catalogue knows the text of an interrupted run that needs no folder and of which
    /// nothing is anywhere, and that is the present one, with sources that had been admitted to it.
    fn is_of_catalogue(&self, row: &RunRow, config: &RecorderConfig) -> bool {
        // Where it needs a folder, it goes on from files only.
        let targets = config.targets();
        if targets.iter().any(|target| target.required && !target.place.folders().is_empty()) {
            return false;
        }
        let text = self.shared.catalog.configuration_of(row.number);
        text.is_ok_and(|text| match text.strip_prefix(config.text.as_str()) {
            Some(admitted) => admitted.is_empty() || admitted.starts_with(ADMITTED),
            None => false,
        })
    }

    /// The configuration of an interrupted run: the present one, with the sources that had been
    /// admitted to it, which its files know, or the catalogue.
    ///
    /// # Errors
    /// Why its files cannot be read, and whether that may pass.
    fn of_interrupted(
        &self,
        row: &RunRow,
        (base, config): (&Arc<Configuration>, &RecorderConfig),
        name: &str,
    ) -> Result<Arc<Configuration>, (String, bool)> {
        if base.recorder.accept.is_empty() {
            return Ok(Arc::clone(base));
        }
        let text = Recorder::interrupted_text(config, name).map_err(|error| of_recorder(&error))?;
        let of_catalogue = || self.shared.catalog.configuration_of(row.number).ok();
        let text = text.or_else(of_catalogue).unwrap_or_default();
        let admitted = text.strip_prefix(base.recorder.text.as_str());
        let is_of_base = admitted.is_some_and(|admitted| admitted.starts_with(ADMITTED));
        let of_files = is_of_base.then(|| self.shared.configure.check(&text).ok()).flatten();
        Ok(of_files.map_or_else(|| Arc::clone(base), Arc::new))
    }

    /// Has an interrupted run go on.
    ///
    /// # Errors
    /// Why it cannot, and whether that may pass.
    fn resume_run(
        &self,
        row: &RunRow,
        name: &str,
        config: RecorderConfig,
    ) -> Result<Open, (String, bool)> {
        let config = self.completed(&config).map_err(|error| (error.to_string(), true))?;
        let from = Recorder::interrupted(&config, name).map_err(|error| of_recorder(&error))?;
        if from.run_number != row.number {
            return Err((format!("its files have number {}", from.run_number), false));
        }
        let folder = config.folder.join(name);
        let live = self.shared.catalog.resume(row, (from.run, &folder), &config.text);
        let live = live.map_err(|error| (error.to_string(), !error.is_answer()))?;
        let caught_up = caught_up(&config, &from);
        let recorder =
            Recorder::resume_paused(config, &from).map_err(|error| of_recorder(&error))?;
        let epoch = from.epoch;
        let text = format!("it goes on after its recorder's death, in epoch {epoch}{caught_up}");
        tracing::info!(
            run = row.number,
            epoch,
            sequence = from.sequence,
            caught_up,
            "the interrupted run goes on"
        );
        let (time, kind, who) = (utc_now(), Remark::ALONE.to_owned(), String::new());
        self.shared.catalog.remark(&live, &Remark { time, kind, who, text });
        self.shared.interrupted.store(GOES_ON, Relaxed);
        let started = Some(row.started.unwrap_or(row.taken));
        Ok(Open { recorder, live, begun: false, started })
    }
}

/// Which targets got from others what they lacked of the run, for people.
fn caught_up(config: &RecorderConfig, from: &Resumable) -> String {
    let targets = config.targets();
    let of_place = |(place, target): (&ResumedPlace, &TargetConfig)| {
        let CaughtUp { place, frames, bytes } = place.caught_up;
        let holder = targets.get(place).map_or("", |holder| &holder.name);
        let text = format!("; {} got {frames} frames ({bytes} bytes) from {holder}", target.name);
        (frames > 0).then_some(text)
    };
    from.places.iter().zip(&*targets).filter_map(of_place).collect()
}

/// Why a run cannot go on, and whether that may pass.
fn of_recorder(error: &RecorderError) -> (String, bool) {
    (error.to_string(), error.may_pass())
}

/// That a run cannot go on now, and how long it still may.
fn try_again(run: &str, error: impl std::fmt::Display, left: Duration) -> String {
    let left = left.as_secs();
    format!("{run} cannot go on now: {error}; arm again within {left} s, or a new run begins then")
}

/// Which run a timer says it is, and its number, where one is asked.
pub(super) fn of_timer(config: &RecorderConfig) -> Result<Option<(RunId, u64)>, String> {
    let Some(timer) = config.timer else { return Ok(None) };
    let run = run_of_timer(timer, config.stream);
    run.map(Some).map_err(|error| format!("run.timer {timer}: {error}"))
}
