//! What devices report without being asked.

use catchment_recorder::State as RecorderState;
use catchment_run::State;

use super::Conductor;
use crate::devices::{Active, RECORDER, WRITE};

impl Conductor {
    /// Unsolicited reports of devices.
    pub(super) fn take_reports(&mut self, now_ns: u64, active: Option<&Active>) {
        // What is ending says itself how it ended, and may wait for room until then.
        if active.is_some_and(|active| active.ending) {
            return;
        }
        let fault = match active.map(|active| active.observer.snapshot().state) {
            Some(RecorderState::Fault { reason }) => Some(reason),
            Some(RecorderState::Recording) => None,
            // A run that has ended does not become well again.
            Some(RecorderState::Stopped) | None => {
                self.state.reported = None;
                return;
            }
        };
        if fault == self.state.reported {
            return;
        }
        let thread = |reason: &String| reason.starts_with("the thread ");
        let (path, state) = match &fault {
            Some(reason) if thread(reason) => (RECORDER, State::Fault),
            Some(_) => (WRITE, State::Fault),
            None => (WRITE, State::Recording),
        };
        let counted = match (&fault, state) {
            (Some(reason), State::Fault) => {
                tracing::error!(reason, "recording is in fault");
                self.control.report(now_ns, path, State::Fault, reason)
            }
            _ => {
                tracing::info!("recording goes on");
                let recording = self.control.report(now_ns, path, State::Recording, "");
                recording || self.control.report(now_ns, path, State::Paused, "")
            }
        };
        if !counted {
            tracing::debug!("a device's report came when it did not matter");
        }
        self.state.reported = fault;
    }
}
