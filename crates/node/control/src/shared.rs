//! The state shared by the control thread and the server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use catchment_telemetry::utc_now;
use parking_lot::{Mutex, RwLock};

use axum::http::StatusCode;
use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::oneshot;

use crate::api;
use crate::audit::AuditLog;
use crate::catalog_client::CatalogClient;
use crate::conductor::Conductor;
use crate::configuration::Configure;
use crate::history::Past;
use crate::logs::Logs;
use crate::lookout::Seen;
use crate::problem::Problem;
use crate::security::guard::Who;
use crate::security::limit::Limit;
use crate::security::sessions::Sessions;
use crate::security::tokens::Tokens;
use crate::settings::Settings;
use crate::storing::Storing;
use crate::web::stored::Sending;

/// The control thread updates the view twice a second: an older one is no longer valid.
const VIEW_AGE_MAX: Duration = Duration::from_millis(2_500);
/// The control thread answers at once, or within a second that a command is in progress.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Why a request that arrives too late is refused.
const ENDING: &str = "the node is ending";

/// A request to the control thread, at a moment of its clock in nanoseconds.
pub(crate) type Ask = Box<dyn FnOnce(&mut Conductor, u64) + Send>;

/// Where an answer goes, and where it comes from.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Problem>>;
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, Problem>>;

/// The schemas of devices' properties, by path.
pub(crate) type Schemas = Arc<std::collections::BTreeMap<String, serde_json::Value>>;

/// The node as last seen by the control thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// When it was made; none before the first.
    pub(crate) made: Option<Instant>,
    /// Whether it is too old to be valid.
    pub(crate) is_old: bool,
    pub(crate) state: api::State,
    pub(crate) sources: api::SourceList,
    pub(crate) devices: Vec<api::Device>,
    pub(crate) schemas: Schemas,
    pub(crate) alarms: api::AlarmList,
    /// In the form sent by the stream.
    pub(crate) state_json: Arc<str>,
    pub(crate) sources_json: Arc<str>,
    /// Incremented with each change of the alarms.
    pub(crate) alarms_changed: u64,
    /// For the metrics.
    pub(crate) snapshot: Option<Arc<catchment_recorder::Snapshot>>,
    /// The files of the run, for samples.
    pub(crate) folder: Option<PathBuf>,
}

/// Counts of the server.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) problems: AtomicU64,
    pub(crate) refused_tokens: AtomicU64,
    pub(crate) streams: AtomicU64,
    pub(crate) refused_streams: AtomicU64,
    pub(crate) alarms_raised: AtomicU64,
    pub(crate) actions_failed: AtomicU64,
    pub(crate) actions_dropped: AtomicU64,
}

/// The state shared by the control thread and the server.
pub(crate) struct NodeShared {
    pub(crate) settings: Settings,
    pub(crate) tls: bool,
    pub(crate) started_ns: u64,
    pub(crate) asks: Sender<Ask>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) sessions: Sessions,
    pub(crate) requests: Limit,
    /// Rejected tokens.
    pub(crate) guesses: Limit,
    pub(crate) audit: AuditLog,
    pub(crate) logs: Arc<Logs>,
    pub(crate) catalog: CatalogClient,
    pub(crate) disk: Seen,
    pub(crate) past: Past,
    /// The storage node that the program is, if it is one.
    pub(crate) storing: Option<Arc<Storing>>,
    /// The folders whose runs and files it serves.
    pub(crate) served: Vec<PathBuf>,
    pub(crate) sending: Sending,
    /// The last run before this program began, if it was interrupted; 0: it was not, or that is not
    /// known yet; or [`GOES_ON`].
    pub(crate) interrupted: AtomicU64,
    /// What was read from spills to be forwarded.
    pub(crate) forwarded_bytes: Arc<AtomicU64>,
    pub(crate) counts: Counts,
    pub(crate) configure: Arc<dyn Configure>,
    /// The present configuration's version and text.
    pub(crate) configuration: Mutex<(Option<u64>, String)>,
    pub(crate) view: RwLock<Arc<View>>,
}

/// The interrupted run is being recorded again.
pub(crate) const GOES_ON: u64 = u64::MAX;

/// The shared state as handlers use it.
pub(crate) type Shared = axum::extract::State<Arc<NodeShared>>;

impl NodeShared {
    /// The port on which the node is served, if any.
    pub(crate) fn port(&self) -> u16 {
        self.settings.listen.map_or(0, |address| address.port())
    }

    /// The node as last seen. If that is long ago, its state is unknown, and the verdict reports
    /// this.
    pub(crate) fn view(&self) -> Arc<View> {
        let view = Arc::clone(&self.view.read());
        match view.age() {
            Some(age) if age > VIEW_AGE_MAX => Arc::new(view.doubted(age)),
            _ => view,
        }
    }

    /// Publishes a view of the node.
    pub(crate) fn show(&self, mut view: View) {
        view.made = Some(Instant::now());
        *self.view.write() = Arc::new(view);
    }

    /// The configuration of the next run: its version and its text.
    pub(crate) fn present(&self) -> (Option<u64>, String) {
        self.configuration.lock().clone()
    }

    /// Sets it.
    pub(crate) fn set_present(&self, version: Option<u64>, text: String) {
        *self.configuration.lock() = (version, text);
    }

    /// Has the control thread do something, at a moment of its clock; returns where the answer will
    /// come from. A client that has the answer sees the change in the view.
    ///
    /// # Errors
    /// It is too busy, or gone.
    pub(crate) fn put<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conductor, u64) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Answer<T>, Problem> {
        let (reply, answer) = oneshot::channel();
        let work = move |conductor: &mut Conductor, now_ns: u64| {
            let done = work(conductor, now_ns);
            conductor.look_when_due();
            // The client may have gone.
            reply.send(done).ok();
        };
        self.asks.try_send(Box::new(work)).map_err(|error| match error {
            TrySendError::Full(_) => unavailable("too many commands wait"),
            TrySendError::Disconnected(_) => unavailable(ENDING),
        })?;
        Ok(answer)
    }

    /// The same, and waits for the answer.
    ///
    /// # Errors
    /// Its refusal, or that it is too busy or gone.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conductor, u64) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        answered(self.put(work)?).await
    }

    /// Runs work that may wait for the disk on a thread of the blocking pool.
    ///
    /// # Errors
    /// The work's error, or that it panicked.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let shared = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.unwrap_or_else(|error| Err(Problem::internal(format_args!("it failed: {error}"))))
    }

    /// Writes to the audit log.
    pub(crate) fn note(&self, who: &Who, what: impl Into<String>, result: impl Into<String>) {
        self.audit.write(api::AuditLine { what: what.into(), result: result.into(), ..line(who) });
    }
}

/// The answer of the control thread.
///
/// # Errors
/// Its refusal, or that it did not come in time.
pub(crate) async fn answered<T>(answer: Answer<T>) -> Result<T, Problem> {
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(answer) => answer.unwrap_or_else(|_| Err(unavailable(ENDING))),
        Err(_) => Err(unavailable("the control thread does not answer")),
    }
}

fn unavailable(detail: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

impl View {
    /// How long ago the control thread made this view.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.made.map(|made| made.elapsed())
    }

    fn doubted(&self, age: Duration) -> Self {
        let mut view = Self { is_old: true, ..self.clone() };
        let verdict = &mut view.state.verdict;
        let seconds = age.as_secs();
        let text = format!("nothing is known: the control thread has not answered for {seconds} s");
        let before = std::mem::replace(&mut verdict.text, text);
        verdict.reasons.insert(0, format!("what it said before: {before}"));
        verdict.level = "not_recording".into();
        (verdict.loss_share, verdict.bad_share) = (None, None);
        view.state_json = serde_json::to_string(&view.state).unwrap_or_default().into();
        view
    }
}

/// A line of the audit log for a client.
pub(crate) fn line(who: &Who) -> api::AuditLine {
    api::AuditLine {
        time: utc_now().to_string(),
        who: who.name.clone(),
        role: who.role.name().into(),
        from: who.from.clone(),
        ..api::AuditLine::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_long_ago_is_no_verdict_on_now() {
        let mut view = View::default();
        view.state.verdict.level = "good".into();
        view.state.verdict.text = "recording good data".into();
        let doubted = view.doubted(Duration::from_secs(7));
        assert!(doubted.is_old);
        let verdict = &doubted.state.verdict;
        assert_eq!(verdict.level, "not_recording");
        assert_eq!(verdict.text, "nothing is known: the control thread has not answered for 7 s");
        assert_eq!(verdict.reasons, ["what it said before: recording good data"]);
        assert!(doubted.state_json.contains("nothing is known"));
    }
}
