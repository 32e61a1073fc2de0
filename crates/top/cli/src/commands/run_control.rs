//! A node that serves its API and its page: `catchment run` with `[control]` or `--listen`, and
//! `catchment store`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_console::{Exit, Out, Stop, UsageError};
use catchment_control::{
    Configuration, ConfigurationFault, Configure, Ended, LogFormat, LogLevel, Logs, Node,
    NodeError, Settings,
};
use catchment_model::Entry;
use catchment_model::units::grouped;
use catchment_recorder::AdmittedSource;
use catchment_session::{Ends, bad_reasons, configuration};
use signal_hook::consts::SIGHUP;

/// A configuration file on disk.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Whether to emulate what it describes, also where it does not ask for that itself.
    pub(super) emulate: bool,
}

impl Configure for File {
    fn read(&self) -> Result<String, String> {
        let path = self.path.display();
        std::fs::read_to_string(&self.path).map_err(|error| format!("{path}: {error}"))
    }

    fn check(&self, text: &str) -> Result<Configuration, ConfigurationFault> {
        checked(&self.path, text, self.emulate)
    }

    fn with_emulator(
        &self,
        text: &str,
        rate_hz: Option<f64>,
        seed: Option<u64>,
    ) -> Result<String, String> {
        let mut text = text.to_owned();
        if let Some(rate) = rate_hz {
            let rate = if rate == 0.0 { "max".to_owned() } else { format!("{rate} Hz") };
            text = catchment_config::edit::set(&text, "emulator", "rate", rate.into())?;
        }
        if let Some(seed) = seed {
            let seed = i64::try_from(seed).map_err(|_| format!("{seed} is too large a seed"))?;
            text = catchment_config::edit::set(&text, "emulator", "seed", seed.into())?;
        }
        Ok(text)
    }

    fn with_admitted(&self, text: &str, sources: &[AdmittedSource]) -> Result<String, String> {
        catchment_config::with_admitted(text, sources)
    }
}

/// Checks a text. Its `[emulator]` section is used only on request: a section that is left in a
/// file must not mix its data with a detector's.
fn checked(path: &Path, text: &str, emulate: bool) -> Result<Configuration, ConfigurationFault> {
    let fault = |error: catchment_config::ConfigFileError| ConfigurationFault {
        message: error.message,
        position: error.place,
    };
    let high = catchment_config::check(path, text).map_err(fault)?;
    Ok(configuration(high, emulate))
}

/// Serves until a signal, a command or an end of the run. A node that is not served ends when its
/// terminal does; others read their file again. `begun` says that it has started.
pub(super) fn serve(
    file: Arc<dyn Configure>,
    settings: Settings,
    (log, level): (LogFormat, LogLevel),
    ends: Ends,
    out: &mut Out,
    begun: impl FnOnce(&Node, &mut Out) -> anyhow::Result<()>,
) -> anyhow::Result<Ended> {
    let hang_up = Arc::new(AtomicBool::new(false));
    let (stop, hang_up_id) = match settings.listen {
        None => (Stop::listen()?, None),
        Some(_) => {
            let stop = Stop::listen_but_to_hang_up()?;
            (stop, Some(signal_hook::flag::register(SIGHUP, Arc::clone(&hang_up))?))
        }
    };
    let logs = Logs::start(log, level);
    let node = match Node::start(settings, file, logs) {
        Err(error @ NodeError::Unprotected { .. }) => anyhow::bail!(UsageError(error.to_string())),
        other => other.context("cannot start the node")?,
    };
    begun(&node, out)?;
    if let Some(url) = node.url() {
        out.say(format_args!("Serving {url}"))?;
    }
    out.flush()?;
    let start = Instant::now();
    while !node.ended() {
        if stop.asked() || ends.reached(start, || events(&node)) {
            node.shutdown();
        }
        if hang_up.swap(false, Relaxed) {
            match node.reload() {
                Ok(notes) => notes.iter().for_each(|note| tracing::warn!("{note}")),
                Err(error) => tracing::error!(error, "configuration not reloaded"),
            }
        }
        std::thread::sleep(POLL);
    }
    let ended = node.wait();
    hang_up_id.map(signal_hook::low_level::unregister);
    Ok(ended)
}

/// The events that have been built.
fn events(node: &Node) -> u64 {
    let counts = node.snapshot().map(|snapshot| snapshot.counts).unwrap_or_default();
    counts.events_complete + counts.events_incomplete
}

pub(super) fn tell(ended: &Ended, out: &mut Out) -> anyhow::Result<Exit> {
    if let Some((number, summary)) = &ended.last {
        let events = summary.last.counts.events_recorded;
        let folder = summary.folder.display().to_string();
        if out.json {
            let lost = summary.last.ledger.balance().lost_data();
            let bad = summary.last.ledger.bad_data();
            out.object(&serde_json::json!({
                "run": number, "folder": folder, "events": events, "lost_data": lost,
                "fragments_bad": bad,
            }))?;
        }
        let removed = summary.last.ledger.total()[Entry::FragmentsRemoved];
        let gone = match removed {
            0 => String::new(),
            _ => {
                format!("; {} fragments of them were in files that were removed", grouped(removed))
            }
        };
        let bad = match bad_reasons(&summary.last.ledger.total()) {
            none if none.is_empty() => none,
            some => format!("; bad data: {some}"),
        };
        out.say(format_args!("Run {number}: {} events in {folder}{gone}{bad}", grouped(events)))?;
    }
    Ok(match (ended.failed.is_some(), ended.imperfect) {
        (true, _) => Exit::Failed,
        (_, true) => Exit::Loss,
        _ => Exit::Done,
    })
}

/// How often signals and ends are looked at.
const POLL: Duration = Duration::from_millis(50);
