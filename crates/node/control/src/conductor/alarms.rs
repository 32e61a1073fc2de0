//! Consequences of alarms: log lines, actions, acknowledgements.

use std::sync::atomic::Ordering::Relaxed;

use super::Conductor;
use super::view::alarm;
use crate::actions;
use crate::api;
use crate::problem::Problem;
use crate::security::guard::Who;
use crate::shared::GOES_ON;
use crate::watching::Meaning;

impl Conductor {
    /// The run before this program, if it was interrupted, for as long as it must cause an alarm.
    pub(super) fn interrupted_run(&self, now_ns: u64) -> u64 {
        let is_new = now_ns.saturating_sub(self.shared.started_ns) < INTERRUPTED_FOR_NS;
        let number = self.shared.interrupted.load(Relaxed);
        if is_new && number != GOES_ON { number } else { 0 }
    }

    /// Logs changes of alarms, and runs their actions.
    pub(super) fn act(&mut self, meaning: &Meaning) {
        use catchment_watch::{ChangeKind, Severity};
        if self.shared.interrupted.load(Relaxed) == GOES_ON {
            self.watching.alarms().withdraw("run_interrupted");
        }
        for change in &meaning.changes {
            let (alarm, text) = (&change.alarm, &change.alarm.text);
            let name = &alarm.name;
            let raised = matches!(change.kind, ChangeKind::Raised | ChangeKind::Worsened);
            match (change.kind, alarm.severity) {
                _ if raised && alarm.severity == Severity::Critical => {
                    tracing::error!(alarm = name, "alarm: {text}");
                }
                _ if raised => tracing::warn!(alarm = name, "alarm: {text}"),
                (ChangeKind::Latched, _) => {
                    tracing::info!("alarm {name} ended, waiting for acknowledgement: {text}");
                }
                _ => tracing::info!("alarm {name} ended: {text}"),
            }
            if change.kind == ChangeKind::Raised {
                self.shared.counts.alarms_raised.fetch_add(1, Relaxed);
            }
        }
        for group in actions::together(&meaning.changes) {
            self.actions.put(&self.shared, group.actions, &group.json());
        }
        // Changes of counts in a text must also be shown.
        let seen = self.watching.alarms_seen();
        let texts = |alarms: &[catchment_watch::Alarm]| -> Vec<_> {
            let shown = |one: &catchment_watch::Alarm| (one.id, one.state, one.text.clone());
            alarms.iter().map(shown).collect()
        };
        if texts(&seen) != texts(&self.state.alarms_seen) {
            self.state.alarms_changed += 1;
        }
        self.state.alarms_seen = seen;
    }

    /// Acknowledges an alarm.
    pub(crate) fn acknowledge(
        &mut self,
        now_ns: u64,
        id: &str,
        comment: Option<&str>,
        who: &Who,
    ) -> Result<api::Alarm, Problem> {
        use catchment_watch::AcknowledgeError;
        let unknown = || Problem::not_found(format_args!("alarm {id}"));
        let number: u64 = id.parse().map_err(|_| unknown())?;
        let done = self.watching.alarms().acknowledge(now_ns, number, &who.name, comment);
        let change = done.map_err(|error| match error {
            AcknowledgeError::Unknown { .. } => unknown(),
            error => Problem::conflict(error.to_string()),
        })?;
        self.state.next_look = None;
        Ok(alarm(&change.alarm))
    }

    /// Acknowledges these alarms, or all.
    pub(crate) fn acknowledge_all(
        &mut self,
        now_ns: u64,
        only: Option<&[u64]>,
        comment: Option<&str>,
        who: &Who,
    ) -> api::AlarmList {
        let done = self.watching.alarms().acknowledge_all(now_ns, only, &who.name, comment);
        self.state.next_look = None;
        api::AlarmList { alarms: done.iter().map(|change| alarm(&change.alarm)).collect() }
    }
}

/// How long after the start an earlier interrupted run counts as a problem. The alarm is latched:
/// it stays until it is acknowledged.
const INTERRUPTED_FOR_NS: u64 = 60_000_000_000;
