//! Actions of alarms: programs to start, webhooks to call. They run on their own thread with a
//! bounded queue, so a hanging webhook delays only other webhooks; the end of the program waits for
//! it at most [`FAREWELL`].

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catchment_watch::{Alarm, Change, ChangeKind};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use serde::Serialize;

use crate::settings::{Action, ActionKind};
use crate::shared::NodeShared;

/// The most actions that wait.
const QUEUE_MAX: usize = 100;

/// How long the running action may take when the program ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// The report of an action: the same change in several alarms of one rule.
#[derive(Debug, Serialize)]
pub(crate) struct AlarmEvent<'a> {
    kind: ChangeKind,
    /// The first of them.
    alarm: &'a Alarm,
    /// All of them: one per group of sources.
    alarms: Vec<&'a Alarm>,
    /// The names of the actions to run.
    pub(crate) actions: &'a [String],
}

/// Joins changes of one kind in the alarms of one rule: one action for all, not one for each group.
pub(crate) fn together(changes: &[Change]) -> Vec<AlarmEvent<'_>> {
    let mut all: Vec<AlarmEvent<'_>> = Vec::new();
    for Change { kind, alarm, actions } in changes.iter().filter(|one| !one.actions.is_empty()) {
        let same =
            |event: &&mut AlarmEvent<'_>| event.kind == *kind && event.alarm.name == alarm.name;
        match all.iter_mut().find(same) {
            Some(event) => event.alarms.push(alarm),
            None => all.push(AlarmEvent { kind: *kind, alarm, alarms: vec![alarm], actions }),
        }
    }
    all
}

impl AlarmEvent<'_> {
    /// The form for programs and webhooks.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Runs the actions of alarms.
pub(crate) struct Actions {
    queue: Option<Sender<(Action, String)>>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

/// State that the thread and its owner share.
#[derive(Default)]
struct Progress {
    /// Actions that wait, and the one that is running.
    left: AtomicU64,
    /// Set when a running program must be ended.
    give_up: AtomicBool,
}

impl Actions {
    /// Starts the thread, if there are actions.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(shared: &Arc<NodeShared>) -> std::io::Result<Self> {
        if shared.settings.actions.is_empty() {
            return Ok(Self { queue: None, progress: Arc::default(), thread: None });
        }
        let (queue, waiting) = bounded(QUEUE_MAX);
        let shared = Arc::clone(shared);
        let progress: Arc<Progress> = Arc::default();
        let thread_progress = Arc::clone(&progress);
        let thread = std::thread::Builder::new().name("control-actions".into());
        let thread = thread.spawn(move || run(&waiting, &shared, &thread_progress))?;
        Ok(Self { queue: Some(queue), progress, thread: Some(thread) })
    }

    /// Puts the actions of these names into the queue.
    pub(crate) fn put(&self, shared: &NodeShared, names: &[String], alarm: &str) {
        for name in names {
            let Some(action) = shared.settings.actions.iter().find(|one| one.name == *name) else {
                // `log` and `page` are always done.
                if !["log", "page"].contains(&name.as_str()) {
                    tracing::warn!(action = name, "an alarm names an action that there is not");
                }
                continue;
            };
            let Some(queue) = &self.queue else { return };
            self.progress.left.fetch_add(1, Relaxed);
            if let Err(TrySendError::Full(_)) = queue.try_send((action.clone(), alarm.to_owned())) {
                self.progress.left.fetch_sub(1, Relaxed);
                shared.counts.actions_dropped.fetch_add(1, Relaxed);
                tracing::error!(action = name, "too many actions wait: this one is dropped");
            }
        }
    }

    /// Waits briefly for the running action; waiting ones are dropped and counted.
    pub(crate) fn end(mut self, shared: &NodeShared) {
        self.queue = None;
        let Some(thread) = self.thread.take() else { return };
        let end = Instant::now() + FAREWELL;
        while !thread.is_finished() && Instant::now() < end + LOOK_EVERY * 5 {
            self.progress.give_up.store(Instant::now() >= end, Relaxed);
            std::thread::sleep(LOOK_EVERY);
        }
        if thread.is_finished() {
            thread.join().ok();
        }
        let left = self.progress.left.load(Relaxed);
        if left == 0 {
            return;
        }
        shared.counts.actions_dropped.fetch_add(left, Relaxed);
        tracing::error!(left, "alarms' actions are not done, and given up");
    }
}

fn run(waiting: &Receiver<(Action, String)>, shared: &NodeShared, progress: &Progress) {
    for (action, alarm) in waiting {
        if progress.give_up.load(Relaxed) {
            return;
        }
        let done = match &action.kind {
            ActionKind::Command(words) => command(words, &alarm, action.timeout, &progress.give_up),
            ActionKind::Webhook(address) => webhook(address, &alarm, action.timeout),
        };
        match done {
            Ok(()) => tracing::info!(action = action.name, "an alarm's action is done"),
            Err(error) => {
                shared.counts.actions_failed.fetch_add(1, Relaxed);
                tracing::error!(action = action.name, error, "an alarm's action failed");
            }
        }
        progress.left.fetch_sub(1, Relaxed);
    }
}

fn command(
    words: &[String],
    alarm: &str,
    timeout: Duration,
    give_up: &AtomicBool,
) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("no program")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A program may ignore its input.
        input.write_all(alarm.as_bytes()).ok();
    }
    let end = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{program}: {status}")),
            Ok(None) if Instant::now() < end && !give_up.load(Relaxed) => {
                std::thread::sleep(LOOK_EVERY)
            }
            Ok(None) => {
                child.kill().ok();
                child.wait().ok();
                let why = if give_up.load(Relaxed) {
                    "when the program ended".into()
                } else {
                    format!("within {timeout:?}")
                };
                return Err(format!("{program}: not done {why}"));
            }
            Err(error) => return Err(format!("{program}: {error}")),
        }
    }
}

fn webhook(address: &str, alarm: &str, timeout: Duration) -> Result<(), String> {
    let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).build();
    let agent = ureq::Agent::new_with_config(config);
    let sent = agent.post(address).content_type("application/json").send(alarm);
    // Many services treat the address as a secret, but everyone reads the log.
    sent.map(|_| ()).map_err(|error| format!("the webhook: {error}"))
}

/// How often to check whether something is done.
const LOOK_EVERY: Duration = Duration::from_millis(20);
