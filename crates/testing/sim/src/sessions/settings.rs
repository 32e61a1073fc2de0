//! What front-ends do with their settings.

use catchment_recorder::FrontEnd as Shown;
use catchment_wire::session::Command;

use super::FrontEnd;
use crate::plan::S;

impl FrontEnd {
    /// A session begins with settings of its own.
    pub(super) fn begin_settings(&mut self) {
        if self.plan.has_settings {
            let all = self.settings.begin();
            all.iter().for_each(|(name, value)| self.peer.report_setting(name, value));
        }
    }

    /// Is told a command, perhaps again, and perhaps what it is to set.
    pub(crate) fn told(
        &mut self,
        now_ns: u64,
        life: (usize, u32),
        (command, setting): (&Command, Option<(String, String)>),
    ) {
        if let Err(why) = self.session().commanded(now_ns, life, command) {
            return self.blame(|| why);
        }
        let Some(setting) = setting else { return };
        let number = command.number;
        let is_new = self.session().told_to_set(now_ns, life, (number, setting));
        // A client that asks nobody has done it.
        if is_new && self.plan.manners.is_none() {
            self.set(now_ns, number, true);
        }
    }

    /// Answers what it is to set: it is set, unless it has said another value meanwhile.
    pub(super) fn set(&mut self, now_ns: u64, number: u64, has_done: bool) {
        let Some(set) = self.session().has_set(number, has_done).filter(|_| has_done) else {
            return;
        };
        let (name, value, told_ns) = (set.name.clone(), set.value.clone(), set.told_ns);
        if !self.settings.was_set(&name, told_ns) {
            self.settings.set(now_ns, &name, &value);
            if self.plan.is_naive {
                self.peer.report_setting(&name, &value);
            }
        }
    }

    /// Its connections pass what its logs say of settings, perhaps again.
    pub(crate) fn say_settings(&mut self, said: Vec<(u32, u64, String)>) {
        // Odd ones say something of this.
        for (log, sequence, text) in said.into_iter().filter(|(.., text)| text != "gain=2") {
            self.session().logs[log as usize].settings.insert(sequence, text);
        }
    }

    /// A setting that its client has otherwise.
    pub(super) fn wrong_setting(&self) -> Option<String> {
        self.settings.all().find_map(|(name, value)| {
            let has = self.peer.setting(name).filter(|has| has != value)?;
            Some(format!("its client has {name}={has}, it is {value}"))
        })
    }

    /// Its recorder lets it in.
    pub(crate) fn welcomed(&mut self, now_ns: u64, skew_bytes: u64) {
        self.welcome_ns = now_ns;
        self.check_skew(skew_bytes);
    }

    /// What is shown of its settings is what it has said of them.
    pub(super) fn check_settings(&mut self, now_ns: u64, shown: &Shown) {
        let is_told = self.plan.reports || !self.plan.is_naive;
        // While it is away its recorder may know nothing of its session.
        let is_open = self.peer.reported(0).is_some();
        if !self.plan.has_settings || !is_told || !is_open {
            return;
        }
        // Without faults all that it has said is read soon.
        let read_ns = now_ns.saturating_sub(3 * S);
        let read_ns = Some(read_ns).filter(|&by_ns| self.is_prompt && self.welcome_ns < by_ns);
        let heard = self.peer.heard_settings();
        if let Err(why) = self.settings.compare(shown, &heard, read_ns) {
            self.blame(|| why);
        }
    }
}
