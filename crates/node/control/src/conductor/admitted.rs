//! Runs of front-ends that were admitted.

use std::sync::atomic::Ordering::Relaxed;

use catchment_run::{Command, CommandResult, Status};

use super::{Conductor, FIRST};
use crate::api;
use crate::node::signal;
use crate::security::guard::Who;

impl Conductor {
    /// Watches the sources of the run that was armed, if they are others than configured.
    pub(super) fn watch_recorded(&mut self) {
        let recorded = self.devices.run_status.recorded.lock().take();
        if let Some(recorded) = recorded.filter(|one| !one.recorder.accept.is_empty())
            && let Err(error) = self.watching.change(&recorded)
        {
            tracing::error!(%error, "the alarms' rules stay as they were");
        }
    }

    /// Notes what became of the run for which the program was started, if that was the command and
    /// none ended it before it began. One that had nothing to record waits for front-ends.
    pub(super) fn note_first(&mut self, result: &CommandResult) {
        let run_status = &self.devices.run_status;
        let lacks_sources = run_status.lacks_sources.swap(false, Relaxed);
        if result.status == Status::Done {
            let begins = matches!(result.command, Command::Arm | Command::Start);
            self.state.awaits_front_end &= !begins;
        }
        let under_way = self.control.under_way().map(|one| one.request.command);
        let is_ending = under_way == Some(Command::Shutdown);
        let is_first = result.request.as_str().starts_with(FIRST);
        if result.status != Status::Failed || !is_first || is_ending {
            return;
        }
        if lacks_sources && !self.configuration.recorder.accept.is_empty() {
            self.state.awaits_front_end = true;
            return;
        }
        let reason = result.reason.as_ref().map(ToString::to_string);
        run_status.fail(reason.unwrap_or_else(|| "the first run did not begin".into()));
    }

    /// Begins the first run that waits for front-ends, if there is one, and there are others than
    /// those with which it could not begin.
    pub(super) fn begin_if_admitted(&mut self, now_ns: u64) {
        if !self.state.awaits_front_end || self.control.under_way().is_some() {
            return;
        }
        let run_status = &self.devices.run_status;
        let admitted = run_status.front_ends().admitted();
        if admitted.is_empty() || admitted == *run_status.tried.lock() {
            return;
        }
        self.state.awaits_front_end = false;
        let settings = &self.shared.settings;
        let who = Who { name: settings.who.clone(), ..signal() };
        let asked = api::CommandRequest {
            request: format!("{FIRST}{now_ns}"),
            command: Command::Start.name().into(),
            comment: settings.comment.clone(),
            ..api::CommandRequest::default()
        };
        // Who asks for it gets its result from the view.
        if let Err(problem) = self.command(now_ns, &asked, None, &who) {
            tracing::error!(reason = problem.detail, "the first run does not begin");
        }
    }
}
