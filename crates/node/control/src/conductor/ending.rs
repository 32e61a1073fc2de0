//! A run's end that waits for room, and comments of those who wanted to end it, too.

use catchment_catalog::Remark;
use catchment_model::Utc;
use catchment_run::Command;

use super::Conductor;
use crate::api;
use crate::security::guard::Who;

impl Conductor {
    /// What ends the run waits for room: it is given time, and the log says why, once.
    pub(super) fn note_held_up(&mut self, now_ns: u64, why: Option<String>) {
        match &why {
            Some(why) if self.state.held_up.is_none() => tracing::warn!("{why}"),
            None if self.state.held_up.is_some() => tracing::info!("the run's end goes on"),
            _ => {}
        }
        if why.is_some() {
            self.control.give_time(now_ns);
        }
        self.state.held_up = why;
    }

    /// Adds the comment of a stop that was refused, since another one was faster, to the remarks of
    /// the run. Says what became of it.
    pub(super) fn keep_comment(
        &self,
        now_ns: u64,
        asked: &api::CommandRequest,
        current: Option<u64>,
        who: &Who,
    ) -> String {
        let comment = asked.comment.as_deref().unwrap_or_default();
        if comment.trim().is_empty() {
            return String::new();
        }
        let is_stop = asked.command == Command::Stop.name();
        let run = asked.run.or(current).filter(|_| is_stop);
        let remark = run.zip(remark_of(now_ns, Command::Stop, &who.name, comment));
        match remark.filter(|(run, remark)| self.shared.catalog.keep_remark(*run, remark)) {
            Some((run, _)) => format!("; the comment was added to the remarks of run {run}"),
            None => "; the comment was not kept".to_owned(),
        }
    }
}

/// The remark that a command's comment is; none if it is empty.
pub(crate) fn remark_of(time_ns: u64, command: Command, who: &str, text: &str) -> Option<Remark> {
    // A device's reason may contain anything that a file name can.
    let plain = |c: char| if c.is_control() && !['\n', '\t'].contains(&c) { ' ' } else { c };
    let (time, kind) = (Utc(time_ns), command.name().to_owned());
    let text = text.chars().map(plain).collect();
    let remark = Remark { time, kind, who: who.to_owned(), text };
    Some(remark).filter(|remark| !remark.text.trim().is_empty())
}
