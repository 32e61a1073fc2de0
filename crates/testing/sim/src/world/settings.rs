//! Operators who change settings of front-ends, as the node asks for them.

use super::World;
use crate::fault::Faults;
use crate::plan::{MS, S};
use crate::recorder::Recorder;
use crate::schedule::Action;
use crate::settings::{self, AskedChange, Change};
use crate::trace::Event;

impl World<'_> {
    /// An operator asks for a change.
    pub(super) fn change(&mut self, index: usize) {
        let (now_ns, life) = (self.now_ns(), self.lives.len());
        let Change { sender, name, value, .. } = &self.plan.changes[index];
        let Some(recorder) = &mut self.recorder else { return };
        // Without faults all that logs have is taken before the run ends.
        if self.plan.case.faults == Faults::NONE && now_ns + S > self.stop_ns {
            return;
        }
        let front_end = &self.plan.senders[*sender].name;
        let to = (settings::scalar(name, value), ["ada", "grace"][index % 2]);
        let asked = recorder.observer.front_ends().change(front_end, name, to);
        let told = asked.as_ref().err().map_or(String::new(), |why| format!(": {why}"));
        self.trace.push(now_ns, Event::Told(format!("{front_end}: {name}={value}{told}")));
        let Ok(number) = asked else { return };
        let changes = &mut recorder.life.control.changes;
        let (asked_ns, deaths) = (now_ns, recorder.life.deaths);
        changes.push(AskedChange { change: index, number, asked_ns, deaths, outcome: None });
        let place = changes.len() - 1;
        self.at(now_ns + LOOK_NS, Action::Outcome { life, place });
    }

    /// Its operator looks what became of it, and gives it up in the end.
    pub(super) fn outcome(&mut self, life: usize, place: usize) {
        let now_ns = self.now_ns();
        let Some(recorder) = self.recorder.as_mut().filter(|_| life == self.lives.len()) else {
            return;
        };
        let deaths = recorder.life.deaths;
        let front_ends = recorder.observer.front_ends();
        let asked = &mut recorder.life.control.changes[place];
        if asked.deaths != deaths {
            return;
        }
        let name = &self.plan.senders[self.plan.changes[asked.change].sender].name;
        asked.outcome = front_ends.outcome(name, asked.number);
        match &asked.outcome {
            Some(outcome) => {
                let Change { name: setting, value, .. } = &self.plan.changes[asked.change];
                let told = format!("{name}: {setting}={value}: {outcome:?}");
                self.trace.push(now_ns, Event::Told(told));
            }
            None if now_ns >= asked.asked_ns + PATIENCE_NS => {
                front_ends.withdraw(name, asked.number);
            }
            None => self.at(now_ns + LOOK_NS, Action::Outcome { life, place }),
        }
    }
}

/// Takes what a run is told of settings that were changed.
pub(super) fn take_made(recorder: &mut Recorder) {
    for (front_end, change) in recorder.observer.front_ends().take_made() {
        let (setting, value) = (change.setting().to_owned(), settings::text(&change.value));
        recorder.life.control.made.push((front_end, setting, value));
    }
}

/// How often an operator looks, and for how long.
const LOOK_NS: u64 = 50 * MS;
const PATIENCE_NS: u64 = 10 * S;
