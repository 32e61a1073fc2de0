//! Settings of front-ends: operators change them at any moment, also two at once, by the calls that
//! the node makes for them; front-ends do so, refuse a value, answer late, die meanwhile, or change
//! one by themselves. What is shown is what a front-end has said last in its session, and what a
//! run is told of (`take_made`) is what it has done.

use std::collections::{BTreeMap, BTreeSet};

use catchment_fixtures::Random;
use catchment_recorder::{FrontEnd as Shown, Report, Scalar};
use catchment_wire::event_link::CommandKind;
use catchment_wire::session::{Release, Value};

use crate::case::Case;
use crate::fault::Faults;
use crate::logs::{Session, Set};
use crate::plan::{BEGIN_NS, DURATION_NS, S};
use crate::recorder::Life;
use crate::sessions::SenderPlan;
use crate::world::Outcome;

/// A change that an operator asks for. No two have the same value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at_ns: u64,
    /// Of which front-end.
    pub sender: usize,
    /// The setting's name.
    pub name: &'static str,
    /// The value, as text.
    pub value: String,
}

/// What became of a change that a recorder took.
#[derive(Clone, Debug)]
pub struct AskedChange {
    /// Its number in the plan, and at the recorder.
    pub change: usize,
    pub(crate) number: u64,
    /// When it was asked for, of a run of which so many recorders had died.
    pub(crate) asked_ns: u64,
    pub(crate) deaths: u32,
    /// What the operator was told; none: that there was no answer in time.
    pub(crate) outcome: Option<Result<(), String>>,
}

/// The changes of a run, in order: in every third one with front-ends of events there are some.
pub(crate) fn draw(case: &Case, senders: &mut [SenderPlan]) -> Vec<Change> {
    let mut chance = case.chance("settings");
    let count = senders.iter().take_while(|sender| !sender.is_channels).count();
    if count == 0 || chance.below(3) > 0 {
        return Vec::new();
    }
    senders[..count].iter_mut().for_each(|sender| sender.has_settings = true);
    let mut moments: Vec<u64> =
        (0..1 + chance.below(8)).map(|_| BEGIN_NS + chance.below(DURATION_NS + S)).collect();
    moments.sort_unstable();
    let mut changes = Vec::new();
    for at_ns in moments {
        // Two operators at once, also of one setting.
        for _ in 0..1 + chance.below(2) {
            let (sender, name) = (chance.index(count), NAMES[chance.index(NAMES.len())]);
            let value = (100 + changes.len()).to_string();
            changes.push(Change { at_ns, sender, name, value });
        }
    }
    changes
}

/// A value as the wire has it: a number or a text.
pub(crate) fn scalar(name: &str, value: &str) -> Scalar {
    match value.parse() {
        Ok(number) if name == NUMBER => Scalar::I64(number),
        _ => Scalar::Text(value.to_owned()),
    }
}

/// The same as text.
pub(crate) fn text(value: &Scalar) -> String {
    match value {
        Scalar::I64(number) => number.to_string(),
        Scalar::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// What the settings of a front-end were in its present session, as it says.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// By name: from when on, and what, in order.
    values: BTreeMap<&'static str, Vec<(u64, String)>>,
    own: u64,
}

impl Settings {
    /// A session begins: what it is set to.
    pub(crate) fn begin(&mut self) -> Vec<(&'static str, String)> {
        let all: Vec<_> = NAMES.into_iter().map(|name| (name, "1".to_owned())).collect();
        self.values = all.iter().map(|(name, value)| (*name, vec![(0, value.clone())])).collect();
        all
    }

    /// It is set to that.
    pub(crate) fn set(&mut self, now_ns: u64, name: &str, value: &str) {
        if let Some(values) = self.values.get_mut(name) {
            values.push((now_ns, value.to_owned()));
        }
    }

    /// Now and then it sets one by itself: to a value that nobody asks for.
    pub(crate) fn change(
        &mut self,
        now_ns: u64,
        chance: &mut Random,
    ) -> Option<(&'static str, String)> {
        if !chance.chance(300) {
            return None;
        }
        self.own += 1;
        let (name, value) = (NAMES[chance.index(NAMES.len())], (10_000 + self.own).to_string());
        self.set(now_ns, name, &value);
        Some((name, value))
    }

    /// Whether one was set since then.
    pub(crate) fn was_set(&self, name: &str, since_ns: u64) -> bool {
        let last = self.values.get(name).and_then(|values| values.last());
        last.is_some_and(|(at_ns, _)| *at_ns > 0 && *at_ns >= since_ns)
    }

    /// What each is set to.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let last = self.values.iter().map(|(name, values)| (*name, values.last()));
        last.filter_map(|(name, last)| Some((name, last?.1.as_str())))
    }

    /// What is shown of it is something that it has said in this session: the last of what it had
    /// said by `read_ns`, if there is such a time, or something later; and nothing from before
    /// `heard`, which its recorder must have read.
    pub(crate) fn compare(
        &self,
        shown: &Shown,
        heard: &BTreeMap<String, String>,
        read_ns: Option<u64>,
    ) -> Result<(), String> {
        for (name, values) in &self.values {
            let place = |value: &str| values.iter().rposition(|(_, one)| one == value);
            let by_then = |ns| values.partition_point(|(at_ns, _)| *at_ns < ns).checked_sub(1);
            let least = heard.get(*name).and_then(|value| place(value));
            let least = least.max(read_ns.and_then(by_then));
            let shown = match shown.reports.get(*name) {
                Some(Report::Setting { value, .. }) => Some(text(value)),
                Some(other) => return Err(format!("{name} is shown as {other:?}")),
                None => None,
            };
            let is_so = match (&shown, least) {
                (None, least) => least.is_none(),
                (Some(shown), least) => place(shown).is_some_and(|at| at >= least.unwrap_or(0)),
            };
            if !is_so {
                return Err(format!("{name} is shown as {shown:?}, it was {values:?}"));
            }
        }
        Ok(())
    }
}

/// Whether a front-end that asks somebody refuses a value.
pub(crate) fn is_bad(value: &str) -> bool {
    value.ends_with('4')
}

/// Checks what became of all changes.
///
/// # Errors
/// The first one that was told wrongly, or did something else.
pub(crate) fn check(outcome: &Outcome) -> Result<(), String> {
    let mut told = BTreeSet::new();
    for front_end in &outcome.front_ends {
        let name = &front_end.plan.name;
        for session in &front_end.sessions {
            let faults = outcome.plan.case.faults;
            let keeps_all = front_end.plan.release == Release::Durable && outcome.lives.len() == 1;
            let lacks = match keeps_all {
                true if faults == Faults::NONE => Lacks::Nothing,
                true => Lacks::TheLast,
                false => Lacks::Any,
            };
            check_told(outcome, (name, session), &mut told)
                .and_then(|()| check_marks(session, front_end.plan.is_naive, lacks))
                .map_err(|why| format!("{name}: {why}"))?;
        }
    }
    for (number, life) in outcome.lives.iter().enumerate() {
        check_life(outcome, life).map_err(|why| format!("recorder {number}: {why}"))?;
    }
    Ok(())
}

/// A front-end is told changes that operators asked of it, once each, and those of one recorder in
/// their order.
fn check_told(
    outcome: &Outcome,
    (name, session): (&String, &Session),
    told: &mut BTreeSet<String>,
) -> Result<(), String> {
    let mut before = None;
    for set in &session.sets {
        let mut changes = outcome.plan.changes.iter();
        let index = changes.position(|one| {
            one.value == set.value
                && one.name == set.name
                && outcome.plan.senders[one.sender].name == *name
                && one.at_ns <= set.told_ns
        });
        let index = index.ok_or_else(|| format!("nobody has asked for {set:?}"))?;
        if !told.insert(set.value.clone()) {
            return Err(format!("it is told twice: {set:?}"));
        }
        if before.is_some_and(|before| before > (set.life, index)) {
            return Err(format!("{set:?} is told behind {before:?}"));
        }
        before = Some((set.life, index));
    }
    Ok(())
}

/// What may be missing in a log of what was set: nothing of a front-end whose log was taken to its
/// end; what it had not sent at the end of its session; or anything, where a recorder's death took
/// what was released when it was taken, or the next run began without what it still held.
#[derive(Clone, Copy, PartialEq)]
enum Lacks {
    Nothing,
    TheLast,
    Any,
}

/// A client says in each log what was set, in order, and not before it was.
fn check_marks(session: &Session, is_naive: bool, lacks: Lacks) -> Result<(), String> {
    let done: Vec<&Set> = session.sets.iter().filter(|set| set.has_done()).collect();
    for (number, log) in session.logs.iter().enumerate().filter(|_| !is_naive) {
        let passed: Vec<(&u64, &String)> = log.settings.iter().collect();
        let is_of = |(sequence, text): &(&u64, &String), set: &Set| {
            **text == format!("{}={}", set.name, set.value)
                && set.made.get(number).is_some_and(|made| *sequence >= made)
        };
        let mut left = done.iter();
        let is_so = passed.iter().all(|one| match lacks {
            Lacks::Any => left.any(|set| is_of(one, set)),
            _ => left.next().is_some_and(|set| is_of(one, set)),
        });
        if !is_so || lacks == Lacks::Nothing && left.next().is_some() {
            return Err(format!("log {number} says {passed:?}, and {done:?} were done"));
        }
    }
    Ok(())
}

/// What operators and the run were told is what front-ends have done.
fn check_life(outcome: &Outcome, life: &Life) -> Result<(), String> {
    let sets = || {
        let sessions = outcome.front_ends.iter().flat_map(|front_end| &front_end.sessions);
        sessions.flat_map(|session| &session.sets)
    };
    let act = |value: &str| sets().find(|set| set.value == *value);
    let mut made = BTreeSet::new();
    for (front_end, setting, value) in &life.control.made {
        let change = outcome.plan.changes.iter().find(|one| one.value == *value);
        let is_it = change.is_some_and(|one| {
            one.name == setting && outcome.plan.senders[one.sender].name == *front_end
        });
        if !is_it || !act(value).is_some_and(Set::has_done) {
            return Err(format!("{front_end} did not set {setting} to {value}"));
        }
        if !made.insert(value) {
            return Err(format!("the run is told twice that {setting} is {value}"));
        }
    }
    let is_well = outcome.plan.case.faults == Faults::NONE;
    for asked in &life.control.changes {
        let Change { name, value, .. } = &outcome.plan.changes[asked.change];
        let act = act(value);
        let is_last = asked.deaths == life.deaths && !life.has_crashed;
        let is_soon = life.stopped_ns.is_some_and(|stop| asked.asked_ns + 2 * S > stop);
        let wrong = match &asked.outcome {
            Some(Ok(())) if !act.is_some_and(Set::has_done) => "is done",
            Some(Ok(())) if is_last && !made.contains(value) => {
                "is done, which its run is not told"
            }
            Some(Err(why)) if why == REFUSAL && act.is_none_or(Set::has_done) => "is refused",
            Some(Err(_)) | None if is_well && !is_soon && !act.is_some_and(Set::has_refused) => {
                "is not done"
            }
            _ => continue,
        };
        return Err(format!("an operator is told that {name}={value} {wrong}: {act:?}"));
    }
    Ok(())
}

/// A setting's name and value, as a command has them.
pub(crate) fn of_command(kind: u16, value: Option<Value>, text: &str) -> Option<(String, String)> {
    let value = value.filter(|_| CommandKind(kind) == CommandKind::SET)?;
    let name = value.name.as_str().to_owned();
    let of_number = || i64::from_le_bytes(value.value).to_string();
    let value = if name == NUMBER { of_number() } else { text.to_owned() };
    Some((name, value))
}

/// What each front-end can be set to: a number, and a text.
const NAMES: [&str; 2] = [NUMBER, "mode"];
pub(crate) const NUMBER: &str = "bias";
/// What a client says when it refuses.
const REFUSAL: &str = "as it likes";
