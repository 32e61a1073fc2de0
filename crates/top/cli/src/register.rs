//! A recording's place in the catalogue of runs: its number before it starts, its books when it ended.
//!
//! The catalogue must not keep anything from being recorded. Where it cannot be written one is told, a
//! number is taken from the file beside it if that can be written, and `catchment catalog rebuild` puts
//! in order what is missing.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Error;
use catchment_catalog::{Catalog, CatalogError, LiveRun, NumberRequest, RunEnd, Totals};
use catchment_model::{RunId, Utc};
use catchment_recorder::{Recorder, RecorderConfig};

use crate::output::{UsageError, chain, complain};
use crate::session::{Recording, fault};

/// A run that is entered in the catalogue, as far as it can be.
pub(crate) struct Register {
    folder: PathBuf,
    live: Option<LiveRun>,
    /// What it is since it records.
    begun: Option<(RunId, PathBuf, Utc)>,
    /// Whether somebody was told that the catalogue lacks something: once is enough.
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
        let request = NumberRequest { who: &who, comment, configuration, wanted, now: now() };
        let taken = Catalog::open(&folder).and_then(|mut it| it.next_run_number(&request));
        let warned = Cell::new(false);
        let live = match taken {
            Ok(live) => Some(live),
            Err(error @ CatalogError::Text { .. }) => anyhow::bail!(UsageError(error.to_string())),
            Err(error) => {
                warn(&error);
                warned.set(true);
                LiveRun::without_catalog(&folder, wanted).ok()
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
        Ok(Self { folder, live, begun: None, warned })
    }

    /// The number, if one could be taken.
    pub(crate) fn number(&self) -> Option<u64> {
        self.live.as_ref().map(LiveRun::number)
    }

    /// It records.
    pub(crate) fn began(&mut self, recorder: &Recorder) {
        self.begun = Some((recorder.run(), recorder.folder().to_owned(), now()));
        self.enter(|_, _| Ok(()));
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
        self.finish(&RunEnd { ended: now(), fault, totals });
    }

    /// It did not start, or did not end in order.
    pub(crate) fn failed(self, error: &Error) {
        let why = chain(error);
        if self.begun.is_some() {
            self.finish(&RunEnd { ended: now(), fault: Some(why), totals: Totals::default() });
        } else {
            self.enter(|catalog, live| catalog.fail_run(live, &why, now()));
        }
    }

    fn finish(self, end: &RunEnd) {
        self.enter(|catalog, live| {
            catalog.end_run(live, end)?;
            catalog.scan(live.number())
        });
    }

    /// Opens the catalogue, says again that the run began (it may not have been heard), and says more.
    fn enter(&self, more: impl FnOnce(&mut Catalog, &LiveRun) -> Result<(), CatalogError>) {
        let Some(live) = &self.live else { return };
        let entered = Catalog::open(&self.folder).and_then(|mut catalog| {
            if let Some((id, folder, started)) = &self.begun {
                catalog.begin_run(live, *id, folder, *started)?;
            }
            more(&mut catalog, live)
        });
        match entered {
            Err(error) if !self.warned.replace(true) => warn(&error),
            _ => {}
        }
    }
}

/// Tells that the catalogue will lack something.
fn warn(error: &CatalogError) {
    let helps = if error.wants_rebuild() {
        String::new()
    } else {
        "; `catchment catalog rebuild` puts it in order later".to_owned()
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

/// What fits into [`catchment_catalog::WHO_BYTES_MAX`] in any script.
const WHO_CHARS_MAX: usize = catchment_catalog::WHO_BYTES_MAX / 4;
