//! A recording's place in the catalogue of runs: its number before it starts, its books when it
//! ended.
//!
//! The catalogue must not keep anything from being recorded, nor hold it up. Where it cannot be
//! written at once one is told, a number is taken from the file beside it if that can be written,
//! and what is known of the run waits in another one for whoever opens the catalogue next.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Error;
use catchment_catalog::{
    Begun, Catalog, CatalogError, LiveRun, NumberRequest, Over, PATIENCE_AT_START, Remark, RunEnd,
    RunKnown, Totals,
};
use catchment_model::Utc;
use catchment_recorder::{Recorder, RecorderConfig};

use crate::output::{UsageError, chain, complain};
use crate::session::{Recording, fault};

/// A run that is entered in the catalogue, as far as it can be.
pub(crate) struct Register {
    folder: PathBuf,
    live: Option<LiveRun>,
    known: RunKnown,
    /// Whether somebody was told that the catalogue lacks something: once is enough. The next time
    /// it is not waited for either.
    warned: Cell<bool>,
}

impl Register {
    /// Gives the run that is about to start its number.
    ///
    /// # Errors
    /// A comment that no catalogue would take.
    pub(crate) fn take(
        config: &mut RecorderConfig,
        wanted: Option<u64>,
        comment: &str,
    ) -> anyhow::Result<Self> {
        let folder = config.folder.clone();
        let who = who();
        let configuration = config.text.as_str();
        let taken = now();
        let (emulated, now) = (config.emulated, taken);
        let remark = Remark {
            time: taken,
            kind: "start".into(),
            who: who.clone(),
            text: comment.to_owned(),
        };
        let remark = Some(remark).filter(|remark| !remark.text.trim().is_empty());
        let request = NumberRequest {
            who: &who,
            comment,
            remark: remark.as_ref(),
            configuration,
            emulated,
            wanted,
            now,
        };
        let number = Catalog::open_within(&folder, PATIENCE_AT_START)
            .and_then(|mut it| it.next_run_number(&request));
        let known = RunKnown {
            who: who.clone(),
            comment: comment.into(),
            configuration: configuration.into(),
            emulated,
            taken,
            remarks: remark.into_iter().collect(),
            ..RunKnown::default()
        };
        let warned = Cell::new(false);
        let live = match number {
            Ok(live) => Some(live),
            Err(error @ CatalogError::Text { .. }) => anyhow::bail!(UsageError(error.to_string())),
            Err(error) => {
                warn(&error);
                warned.set(true);
                let live = LiveRun::without_catalog(&folder, wanted).ok();
                live.inspect(|live| keep(&known, &folder, live))
            }
        };
        // A run without a number says 0, and a rebuild gives it one.
        config.run_number = live.as_ref().map_or(wanted.unwrap_or(0), LiveRun::number);
        if let Some(wanted) = wanted.filter(|&wanted| wanted != config.run_number) {
            let number = config.run_number;
            complain(format_args!(
                "this is run {number}: run.number = {wanted} is not above every number that was given"
            ));
        }
        Ok(Self { folder, live, known, warned })
    }

    /// The number, if one could be taken.
    pub(crate) fn number(&self) -> Option<u64> {
        self.live.as_ref().map(LiveRun::number)
    }

    /// It records.
    pub(crate) fn began(&mut self, recorder: &Recorder) {
        let (id, folder, started) = (recorder.run(), recorder.folder().to_owned(), now());
        self.known.begun = Some(Begun { id, folder, started });
        self.enter();
    }

    /// It has ended, and this is what it came to.
    pub(crate) fn ended(self, recording: &Recording) {
        let last = &recording.summary.last;
        let totals = Totals {
            events: last.counts.events_recorded,
            bytes: last.counts.bytes_written,
            frames: last.counts.frames_recorded,
            files: last.files.len() as u64,
            ledger: Some(last.ledger.clone()),
        };
        let fault = fault(&last.state).map(str::to_owned);
        self.finish(RunEnd { ended: now(), fault, totals });
    }

    /// It did not start, or did not end in order.
    pub(crate) fn failed(self, error: &Error) {
        let why = chain(error);
        if self.known.begun.is_some() {
            self.finish(RunEnd { ended: now(), fault: Some(why), totals: Totals::default() });
        } else {
            let mut register = self;
            register.known.over = Some(Over::Failed { why, at: now() });
            register.enter();
        }
    }

    fn finish(mut self, end: RunEnd) {
        self.known.over = Some(Over::Ended(end));
        self.enter();
    }

    /// Enters all that is known of the run: what came before may not have been heard.
    fn enter(&self) {
        let Some(live) = &self.live else { return };
        let patience = if self.warned.get() { PATIENCE_AGAIN } else { PATIENCE_AT_START };
        let entered = Catalog::open_within(&self.folder, patience).and_then(|mut catalog| {
            catalog.enter(live, &self.known)?;
            match self.known.over {
                Some(Over::Ended(_)) => catalog.scan(live.number()),
                _ => Ok(()),
            }
        });
        let Err(error) = entered else { return };
        keep(&self.known, &self.folder, live);
        if !self.warned.replace(true) {
            warn(&error);
        }
    }
}

/// Has what is known of a run wait for whoever opens the catalogue next.
fn keep(known: &RunKnown, folder: &Path, live: &LiveRun) {
    if let Err(error) = known.keep(folder, live) {
        complain(format_args!("run {} cannot be kept for the catalogue: {error}", live.number()));
    }
}

/// Tells that the catalogue will lack something.
fn warn(error: &CatalogError) {
    let helps = if error.wants_rebuild() {
        String::new()
    } else {
        "; the run is entered when the catalogue is opened next".to_owned()
    };
    complain(format_args!("recording goes on without the catalogue of runs: {error}{helps}"));
}

/// Now.
pub(crate) fn now() -> Utc {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Utc(since_1970.as_nanos() as u64)
}

/// Who runs this program.
pub(crate) fn who() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        // SAFETY: it takes nothing and always succeeds.
        format!("user {}", unsafe { libc::getuid() })
    });
    name.chars().filter(|c| !c.is_control()).take(WHO_CHARS_MAX).collect()
}

/// How long another process is waited for that had the catalogue before.
const PATIENCE_AGAIN: Duration = Duration::from_millis(20);
/// What fits into [`catchment_catalog::WHO_BYTES_MAX`] in any script.
const WHO_CHARS_MAX: usize = catchment_catalog::WHO_BYTES_MAX / 4;
