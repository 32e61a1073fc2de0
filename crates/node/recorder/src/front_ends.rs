//! The front-ends of a run, as control sees them: what they are to do, what they answer, and what
//! they report of themselves.
//!
//! Control says where they are to be, [`Stage`] by stage. Sessions bring their senders there, one
//! command at a time, also those that come later (`commander.rs`). The two meet here: threads that
//! receive look at one number in each cycle, and lock only when there is something to say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_builder::SourceRole;
use catchment_model::RunId;
use catchment_wire::event_link::CommandKind;
use catchment_wire::session::{Release, RunState, Text};
use parking_lot::Mutex;

use crate::accept::{Admission, Admissions, AdmittedSource, Asked, Before};
use crate::buffer_times::BufferTimes;
use crate::config::RecorderConfig;
use crate::link_log::Outside;
use crate::link_session::Ended;

/// How far a front-end is with a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It knows nothing of it.
    #[default]
    Free,
    /// It is ready to start.
    Prepared,
    /// What it sends belongs to the run.
    Running,
    /// The run is paused.
    Paused,
    /// It makes nothing more for the run.
    Stopped,
}

impl Stage {
    /// The run's state in a welcome, where all are to be.
    pub(crate) fn state(self) -> RunState {
        match self {
            Self::Free | Self::Prepared => RunState::Prepared,
            Self::Running | Self::Stopped => RunState::Recording,
            Self::Paused => RunState::Paused,
        }
    }

    /// The next command on the way to a stage, and where it leads; none if there is no such way, or
    /// nothing is left to do.
    pub(crate) fn step_to(self, goal: Self) -> Option<(CommandKind, Self)> {
        use Stage::{Free, Paused, Prepared, Running, Stopped};
        match (self, goal) {
            // One that a recorder that died has stopped, in a run that goes on, begins anew.
            (Free | Stopped, Prepared | Running | Paused) => Some((CommandKind::PREPARE, Prepared)),
            (Prepared, Running | Paused) => Some((CommandKind::START, Running)),
            (Running, Paused) => Some((CommandKind::PAUSE, Paused)),
            (Paused, Running) => Some((CommandKind::CONTINUE, Running)),
            (Running | Paused, Stopped) => Some((CommandKind::STOP, Stopped)),
            (Prepared, Stopped) => Some((CommandKind::CANCEL, Free)),
            _ => None,
        }
    }
}

/// A front-end that has connected in this run, or since the last one.
#[derive(Clone, Debug, Default)]
pub struct FrontEnd {
    /// The program's name and version, as it says.
    pub program: String,
    /// Whether a source of it is required.
    pub is_required: bool,
    /// Whether it is not configured by name, and was admitted by a pattern.
    pub is_admitted: bool,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Whether its last session ended in order.
    pub(crate) has_left: bool,
    /// Whether its last session broke off in this run, before it had stopped.
    has_broken_off: bool,
    /// Whether there is a run, armed or begun.
    pub in_run: bool,
    /// Whether it answers commands.
    pub takes_commands: bool,
    /// Until when it keeps what it has sent: until that is *durable*, or *taken*.
    pub keeps_until: &'static str,
    /// How far it is with the run.
    pub stage: Stage,
    /// Whether all that it had made when it had stopped was taken.
    pub(crate) is_drained: bool,
    /// The command that it was given and has not answered.
    pub doing: Option<&'static str>,
    /// The command that it refused last on its way, and why.
    pub refusal: Option<(&'static str, String)>,
    /// What it reports, by name.
    pub reports: BTreeMap<String, Report>,
    /// Its line of status.
    pub status: String,
    /// Records of reports that were dropped: too many, or of a kind that is not known.
    pub reports_dropped: u64,
    /// What it has sent while there was no run, or packets of a link: in no file, and no loss.
    pub fragments_outside_run: u64,
    /// Bytes of these.
    pub fragment_bytes_outside_run: u64,
    /// How often it was refused for its token, or for the want of TLS.
    pub connections_refused: u64,
    /// Why it was given up: of three framing faults, between which nothing was taken, the last.
    pub given_up: Option<String>,
    /// Items that it held of runs that had ended: they are in no file. Since the run was armed.
    pub held_at_run_end: u64,
    /// How long its buffers last at its highest rate, as it says; 0: not known.
    pub buffer_ms: u32,
    /// Whether it is a link of channels.
    pub(crate) is_link: bool,
    /// How long buffers are to last, so that what is in them is durable before they are full.
    pub(crate) buffer_times: BufferTimes,
    /// Whether a buffer of it was full of what was taken and waited to be durable.
    pub(crate) has_been_full: bool,
    settings: VecDeque<Change>,
    /// The last change that it was asked for.
    pub(crate) change_sent: u64,
}

/// What a front-end reports of itself, under a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A count of something.
    Counter {
        /// How many.
        value: Scalar,
        /// Of what.
        unit: String,
    },
    /// What it is set to.
    Setting {
        /// The value.
        value: Scalar,
        /// Its unit.
        unit: String,
        /// The lowest and the highest value; none: no bounds.
        bounds: Option<(Scalar, Scalar)>,
        /// Whether it can be set from here.
        is_writable: bool,
    },
    /// Something that a shifter is to know: in its words, while it is raised.
    Alarm(Option<String>),
}

/// A value of a front-end.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// Signed.
    I64(i64),
    /// Unsigned.
    U64(u64),
    /// Floating point.
    F64(f64),
    /// A text of at most 1,024 bytes.
    Text(String),
}

/// A change of a setting that control asks for.
#[derive(Clone, Debug)]
pub struct Change {
    pub(crate) number: u64,
    pub(crate) setting: Text<64>,
    /// The value.
    pub value: Scalar,
    /// Who asks for it.
    pub who: String,
    pub(crate) result: Option<Result<(), String>>,
    is_told: bool,
}

impl Change {
    /// The setting's name.
    pub fn setting(&self) -> &str {
        self.setting.as_str()
    }
}

/// What a front-end held of a run that had ended, or did not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAtRunEnd {
    /// Its name.
    pub front_end: String,
    /// The run.
    pub run: RunId,
    /// Fragments, marks and abandoned ones that were not durable as far as is known.
    pub items: u64,
}

/// A setting that a front-end says among its data has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChanged {
    /// Its name.
    pub front_end: String,
    /// What it says: `name=value`.
    pub text: String,
    /// The sources that have said it, each with its last key before: the first ones.
    pub behind: Vec<(String, Option<u64>)>,
    /// How many others have.
    pub others: usize,
}

/// Where control and sessions meet.
#[derive(Default)]
pub struct FrontEnds {
    /// Rises with everything that control asks for.
    asked: AtomicU64,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The configured sources that are required.
    required: BTreeSet<String>,
    in_run: bool,
    /// Where all are to be. Nobody commands them without it.
    goal: Option<Stage>,
    /// How often that was said.
    goals: u64,
    by_name: BTreeMap<String, FrontEnd>,
    admissions: Admissions,
    changes: u64,
    /// How long buffers are to last.
    buffer_times: BufferTimes,
    /// What control has not taken yet.
    held: VecDeque<HeldAtRunEnd>,
    said: Vec<SettingChanged>,
    /// Changes that were too many for that.
    unsaid: u64,
}

impl FrontEnds {
    pub(crate) fn new(config: &RecorderConfig) -> Self {
        let front_ends = Self::default();
        front_ends.enter(config, true);
        front_ends
    }

    /// A run of that configuration begins, or there is none from now on. Who is there stays, and so
    /// does the name of one that is required and has gone without a word.
    pub(crate) fn enter(&self, config: &RecorderConfig, in_run: bool) {
        let required = config.sources.iter().filter(|one| one.role == SourceRole::Required);
        let mut shared = self.shared.lock();
        shared.admissions.enter(config, in_run);
        shared.required = required.map(|source| source.name.clone()).collect();
        (shared.in_run, shared.goal) = (in_run, None);
        let buffer_times = BufferTimes::of(config);
        shared.buffer_times = buffer_times;
        let Shared { required, admissions, by_name, .. } = &mut *shared;
        by_name.retain(|name, one| {
            // It may not be of this configuration any more.
            one.is_required &= has_of(required, name) || has_of(admissions.required(), name);
            // One that was admitted counts for its entry as long as it may come back.
            one.is_connected || one.is_required && !one.has_left || admissions.has(name)
        });
        for one in shared.by_name.values_mut() {
            (one.in_run, one.stage, one.is_drained) = (in_run, Stage::Free, false);
            (one.doing, one.refusal) = (None, None);
            one.has_broken_off = false;
            one.buffer_times = buffer_times;
            if in_run {
                one.held_at_run_end = 0;
            }
        }
    }

    /// Forgets those that are not connected: nobody misses them.
    pub fn forget_absent(&self) {
        let Shared { by_name, admissions, .. } = &mut *self.shared.lock();
        by_name.retain(|_, one| one.is_connected);
        admissions.retain(|front_end| by_name.contains_key(front_end));
    }

    /// All that have connected in this run, or since the last one, by name.
    pub fn list(&self) -> BTreeMap<String, FrontEnd> {
        let shared = self.shared.lock();
        let mut list = shared.by_name.clone();
        list.iter_mut().for_each(|(name, one)| one.is_admitted = shared.admissions.has(name));
        list
    }

    /// The sources of front-ends that were admitted and are connected: those of a run that begins,
    /// beside what is configured.
    pub fn admitted(&self) -> Vec<AdmittedSource> {
        let Shared { by_name, admissions, .. } = &*self.shared.lock();
        admissions.sources(|front_end| by_name.get(front_end).is_some_and(|one| one.is_connected))
    }

    /// See [`Admissions::fits`].
    pub(crate) fn accepts(&self, front_end: &str) -> Option<bool> {
        self.shared.lock().admissions.fits(front_end)
    }

    /// Admits a front-end: see [`Admissions::ask`]. Others go on while it is checked.
    pub(crate) fn admit(
        &self,
        front_end: &str,
        names: &[String],
        checks_left: &mut u32,
    ) -> Result<Option<Admission>, Ended> {
        let asked = self.shared.lock().admissions.ask(front_end, names, checks_left)?;
        let check = match asked {
            Asked::Known(known) => return Ok(known.map(|admission| *admission)),
            Asked::Checks(check) => check,
        };
        check.run()?;
        self.shared.lock().admissions.admit(*check).map(Some)
    }

    /// See [`Admissions::undo`].
    pub(crate) fn undo_admission(&self, front_end: &str, before: Before) {
        self.shared.lock().admissions.undo(front_end, before);
    }

    /// Has all go to a stage, now and when they come. What was refused is asked for again.
    pub fn go_to(&self, goal: Stage) {
        let mut shared = self.shared.lock();
        shared.goal = Some(goal);
        shared.goals += 1;
        for one in shared.by_name.values_mut() {
            one.refusal = None;
        }
        self.asked.fetch_add(1, Relaxed);
    }

    /// Whether all that are connected are there, or have refused; none while some are under way.
    /// An error has the names of those that are required and have refused, and why.
    pub fn arrived(&self) -> Option<Result<(), String>> {
        let shared = self.shared.lock();
        shared.under_way().next().is_none().then(|| shared.refusals())
    }

    /// The names of those of whom an answer is awaited.
    pub fn under_way(&self) -> Vec<String> {
        self.shared.lock().under_way().cloned().collect()
    }

    /// Asks a front-end to change a setting; the number of the change.
    ///
    /// # Errors
    /// There is nobody who could take it now, or it is too long.
    pub fn change(
        &self,
        name: &str,
        setting: &str,
        (value, who): (Scalar, &str),
    ) -> Result<u64, String> {
        let is_long = |text: &str| text.len() > TEXT_BYTES_MAX || text.contains('\0');
        if matches!(&value, Scalar::Text(text) if is_long(text)) {
            return Err(format!("a text has at most {TEXT_BYTES_MAX} bytes, and no zero in it"));
        }
        let setting = Text::new(setting).ok_or("a setting's name has at most 64 bytes")?;
        let mut shared = self.shared.lock();
        let number = shared.changes + 1;
        let one = shared.by_name.get_mut(name).filter(|one| one.is_connected);
        let one = one.ok_or_else(|| format!("the front-end {name} is not connected"))?;
        if !one.takes_commands {
            return Err(format!("the front-end {name} takes no commands"));
        }
        while one.settings.len() >= CHANGES_MAX {
            let is_open = |first: &Change| {
                first.result.is_none() || first.result == Some(Ok(())) && !first.is_told
            };
            if one.settings.front().is_some_and(is_open) {
                return Err(format!("the front-end {name} has not answered {CHANGES_MAX} changes"));
            }
            one.settings.pop_front();
        }
        let (who, result, is_told) = (who.to_owned(), None, false);
        one.settings.push_back(Change { number, setting, value, who, result, is_told });
        shared.changes = number;
        self.asked.fetch_add(1, Relaxed);
        Ok(number)
    }

    /// Gives up a change that is not answered, unless the front-end was asked for it.
    pub fn withdraw(&self, name: &str, number: u64) {
        if let Some(one) = self.shared.lock().by_name.get_mut(name) {
            one.withdraw(|change, sent| change == number && change > sent);
        }
    }

    /// The changes that were taken since the last call, by the front-end's name, in their order.
    pub fn take_made(&self) -> Vec<(String, Change)> {
        let mut made = Vec::new();
        for (name, one) in &mut self.shared.lock().by_name {
            for change in &mut one.settings {
                if change.result == Some(Ok(())) && !std::mem::replace(&mut change.is_told, true) {
                    made.push((name.clone(), change.clone()));
                }
            }
        }
        made.sort_by_key(|(_, change)| change.number);
        made
    }

    /// What front-ends held of runs that had ended, since the last call.
    pub fn take_held(&self) -> Vec<HeldAtRunEnd> {
        std::mem::take(&mut self.shared.lock().held).into()
    }

    /// Settings that have changed, as front-ends said among their data since the last call, and how
    /// many such changes were too many.
    pub fn take_said(&self) -> (Vec<SettingChanged>, u64) {
        let shared = &mut *self.shared.lock();
        (std::mem::take(&mut shared.said), std::mem::take(&mut shared.unsaid))
    }

    /// What became of a change; none until it is answered.
    pub fn outcome(&self, name: &str, number: u64) -> Option<Result<(), String>> {
        let shared = self.shared.lock();
        let mut changes = shared.by_name.get(name).into_iter().flat_map(|one| &one.settings);
        match changes.find(|change| change.number == number) {
            Some(change) => change.result.clone(),
            None => Some(Err(format!("{name} knows nothing of that change"))),
        }
    }

    /// Changes when there is something new to ask of senders.
    #[inline]
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }

    /// Where all are to be, and how often that was said.
    pub(crate) fn goal(&self) -> (Option<Stage>, u64) {
        let shared = self.shared.lock();
        (shared.goal, shared.goals)
    }

    /// Whether a source of that name is required.
    pub(crate) fn is_required(&self, source: &str) -> bool {
        let Shared { required, admissions, .. } = &*self.shared.lock();
        required.contains(source) || admissions.required().contains(source)
    }

    /// The next change that a front-end has not been asked for; those up to `done` were.
    pub(crate) fn next_change(&self, name: &str, done: u64) -> Option<Change> {
        let shared = self.shared.lock();
        let mut open = shared.by_name.get(name)?.settings.iter();
        open.find(|change| change.result.is_none() && change.number > done).cloned()
    }

    /// Counts what a front-end has sent outside a run.
    pub(crate) fn came_outside(&self, name: &str, outside: Outside) {
        if outside.count > 0 {
            self.tell(name, |one| {
                one.fragments_outside_run += outside.count;
                one.fragment_bytes_outside_run += outside.bytes;
            });
        }
    }

    /// A front-end holds so many more items of a run that has ended.
    pub(crate) fn holds(&self, name: &str, run: RunId, items: u64) {
        self.tell(name, |one| one.held_at_run_end += items);
        let held = &mut self.shared.lock().held;
        if held.len() < CHANGES_MAX {
            held.push_back(HeldAtRunEnd { front_end: name.to_owned(), run, items });
        }
    }

    /// A front-end says that a setting has changed before a source's next fragment. Each of its
    /// sources says so by itself.
    pub(crate) fn setting_changed(
        &self,
        name: &str,
        (source, behind): (&str, Option<u64>),
        text: &str,
    ) {
        let Shared { said, unsaid, .. } = &mut *self.shared.lock();
        let has_room = said.len() < SAID_MAX;
        let of_it = said.iter_mut().rev().find(|one| one.front_end == name && one.text == text);
        let others = of_it.filter(|one| one.behind.iter().all(|(other, _)| other != source));
        match others {
            Some(one) if one.behind.len() >= SOURCES_MAX => one.others += 1,
            Some(one) => one.behind.push((source.to_owned(), behind)),
            None if has_room => said.push(SettingChanged {
                front_end: name.to_owned(),
                text: text.to_owned(),
                behind: vec![(source.to_owned(), behind)],
                others: 0,
            }),
            None => *unsaid += 1,
        }
    }

    /// Says something new of a front-end.
    pub(crate) fn tell(&self, name: &str, tell: impl FnOnce(&mut FrontEnd)) {
        let Shared { by_name, in_run, buffer_times, .. } = &mut *self.shared.lock();
        match by_name.get_mut(name) {
            Some(one) => tell(one),
            None => {
                let one = by_name.entry(name.to_owned()).or_default();
                (one.in_run, one.buffer_times) = (*in_run, *buffer_times);
                tell(one);
            }
        }
    }
}

impl FrontEnd {
    /// Whether it is *here*, or, if it is not, *away* (known only from an earlier session) or
    /// *expected* (known from the configuration).
    pub fn presence(&self) -> &'static str {
        match (self.is_connected, self.is_admitted) {
            (true, _) => "here",
            (false, true) => "away",
            (false, false) => "expected",
        }
    }

    /// Whether it is required, and has gone: in a run before it had stopped, between runs without a
    /// word.
    pub fn is_missed(&self) -> bool {
        let may_go = self.stage == Stage::Stopped || !self.in_run && self.has_left;
        self.is_required && !self.is_connected && !may_go
    }

    /// Whether the run goes on without it: it is not required, has gone without a word, and was not
    /// given up.
    pub fn is_gone(&self) -> bool {
        let is_away = self.has_broken_off && !self.is_connected;
        is_away && !self.is_required && self.given_up.is_none()
    }

    /// Why its buffers are too small, if they are: they fill before what is in them is durable. One
    /// that keeps nothing for so long needs no room for it.
    pub fn buffer_short(&self) -> Option<String> {
        let (has, needs) = (self.buffer_ms, self.buffer_times.of_sender(self.is_link));
        match self.has_been_full {
            _ if !self.is_connected || self.keeps_until == TAKEN => None,
            _ if (1..needs).contains(&has) => {
                Some(format!("it lasts {has} ms, and data take up to {needs} ms to be durable"))
            }
            true => Some("it is full of what waits to be durable".to_owned()),
            false => None,
        }
    }

    /// What became of the change of that number.
    pub(crate) fn settle(&mut self, number: u64, result: Result<(), String>) {
        if let Some(change) = self.settings.iter_mut().find(|change| change.number == number) {
            change.result.get_or_insert(result);
        }
    }

    /// It is not connected any more. It is asked again for what it has not answered; what it was
    /// not asked for is withdrawn. A run that waits for its answer does not begin.
    pub(crate) fn leave(&mut self) {
        self.is_connected = false;
        self.has_broken_off = self.in_run && !self.has_left && self.stage != Stage::Stopped;
        self.withdraw(|change, sent| change > sent);
        let waits = ["prepare", "start"];
        if let Some(doing) = self.doing.filter(|doing| waits.contains(doing)) {
            self.refusal = Some((doing, GONE.to_owned()));
        }
    }

    /// Another session of its name begins: nobody will answer what this one was asked for.
    pub(crate) fn begin(&mut self, is_required: bool, release: Release) {
        self.withdraw(|_, _| true);
        // What another process has reported says nothing of this one.
        self.status.clear();
        self.reports.clear();
        (self.is_required, self.change_sent) = (is_required, 0);
        (self.given_up, self.has_been_full) = (None, false);
        self.keeps_until = match release {
            Release::Durable => "durable",
            Release::Taken => TAKEN,
        };
    }

    /// Gives up changes that are not answered, by their number and that of the last one sent.
    fn withdraw(&mut self, which: impl Fn(u64, u64) -> bool) {
        let sent = self.change_sent;
        for change in self.settings.iter_mut().filter(|change| which(change.number, sent)) {
            change.result.get_or_insert(Err(GONE.to_owned()));
        }
    }
}

impl Shared {
    /// Those of whom an answer is awaited.
    fn under_way(&self) -> impl Iterator<Item = &String> {
        let is_on_its_way = |one: &FrontEnd| {
            let step = self.goal.and_then(|goal| one.stage.step_to(goal));
            step.is_some() || one.stage == Stage::Stopped && !one.is_drained
        };
        let awaited = self.by_name.iter().filter(move |(_, one)| {
            one.is_connected && one.takes_commands && one.refusal.is_none() && is_on_its_way(one)
        });
        awaited.map(|(name, _)| name)
    }

    fn refusals(&self) -> Result<(), String> {
        let refused = self.by_name.iter().filter(|(_, one)| one.is_required);
        let refused = refused.filter_map(|(name, one)| Some((name, one.refusal.as_ref()?)));
        let words = refused.map(|(name, (command, why))| match why.as_str() {
            "" => format!("the front-end {name} refuses {command}"),
            why => format!("the front-end {name} refuses {command}: {why}"),
        });
        let words: Vec<String> = words.collect();
        if words.is_empty() { Ok(()) } else { Err(words.join("; ")) }
    }
}

impl std::fmt::Debug for FrontEnds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrontEnds").finish_non_exhaustive()
    }
}

/// Whether one of these sources is of that front-end.
fn has_of(sources: &BTreeSet<String>, front_end: &str) -> bool {
    let log = format!("{front_end}/");
    let first = sources.range(log.clone()..).next();
    sources.contains(front_end) || first.is_some_and(|source| source.starts_with(&log))
}

const GONE: &str = "it has gone away";
/// What is kept until it is in the recorder's memory.
const TAKEN: &str = "taken";
/// Changes that wait for a front-end, or whose outcome is remembered.
const CHANGES_MAX: usize = 16;
/// Changes of settings that front-ends have said among their data, until control takes them.
const SAID_MAX: usize = 64;
/// The sources of which each such change has the last keys.
const SOURCES_MAX: usize = 16;
/// The longest text of a message.
const TEXT_BYTES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceConfig;

    #[test]
    fn an_optional_front_end_is_gone_if_it_left_a_run_without_a_word_until_that_is_over() {
        let config = RecorderConfig::new("".into(), Vec::new());
        let front_ends = FrontEnds::new(&config);
        let is_gone = || front_ends.list()["camera"].is_gone();
        // One that was only refused was never here.
        front_ends.tell("camera", |one| one.connections_refused += 1);
        assert!(!is_gone());
        let come =
            || front_ends.tell("camera", |one| (one.is_connected, one.has_left) = (true, false));
        let go = |has_left| {
            front_ends.tell("camera", |one| one.has_left = has_left);
            front_ends.tell("camera", FrontEnd::leave);
        };
        for (has_left, gone) in [(false, true), (true, false), (false, true)] {
            come();
            assert!(!is_gone());
            go(has_left);
            assert_eq!(is_gone(), gone);
        }
        come();
        front_ends.enter(&config, false);
        go(false);
        assert!(!is_gone(), "between runs it may go");
    }

    #[test]
    fn a_front_end_that_is_not_of_the_configuration_any_more_is_missed_by_nobody() {
        let source =
            |name: &str| SourceConfig::over_session(name, "127.0.0.1:7300".parse().unwrap());
        let config = |name: &str| RecorderConfig::new("".into(), vec![source(name)]);
        let front_ends = FrontEnds::new(&config("camera/left"));
        front_ends.tell("camera", |one| one.begin(true, Release::Durable));
        front_ends.enter(&config("camera/right"), false);
        assert!(front_ends.list()["camera"].is_missed());
        front_ends.enter(&config("camera-2"), true);
        assert!(front_ends.list().is_empty());
    }
}
