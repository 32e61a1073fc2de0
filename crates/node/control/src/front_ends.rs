//! Front-ends in the device tree: as one device of the line, which commands them all, and as one
//! for each, with what it reports and what can be set of it.
//!
//! ```text
//! node/front_ends         commands all that are connected, and those that come later
//!   node/front_ends/NAME  one of them
//! ```
//!
//! One that is not there keeps no run from starting: it is brought to where the others are when it
//! comes. Those that were in the run before are given a moment to connect again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_catalog::Search;
use catchment_recorder::{
    Change, Counts, FrontEnd, FrontEnds, HeldAtRunEnd, Move, RecorderConfig, Report, Scalar, Stage,
    Way,
};
use catchment_run::{Action, DeviceSpec, Failed, State, usual_timeout_ns};
use catchment_watch::ReadingTable;
use serde_json::{Map, Value, json};

use crate::api;
use crate::conductor::Conductor;
use crate::devices::{Job, RunStatus};
use crate::problem::Problem;
use crate::properties;
use crate::security::guard::Who;
use crate::settings_stored::Stored;
use crate::shared::NodeShared;

/// The path of all of them.
pub(crate) const FRONT_ENDS: &str = "node/front_ends";

/// How long those of the run before have to connect again, who try it each second.
const GATHER: Duration = Duration::from_secs(3);
/// How long front-ends may prepare, as for a high voltage, and be at work on another command. Those
/// that are at work say so each second.
const PREPARE: Duration = Duration::from_secs(600);
const AT_WORK: Duration = Duration::from_secs(30);
/// How long a stop waits for what front-ends have made, at most: half of the drain time.
const STOP: Duration = Duration::from_secs(30);
/// A device that waits answers before it is given up.
const SPARE: Duration = Duration::from_secs(5);
/// Changes of settings between two runs that become remarks: others are seen in the settings alone,
/// which are remarks of each run.
const CHANGES_BETWEEN_MAX: usize = 64;
/// Frames of front-ends that are smaller in the mean are reported.
const FRAME_BYTES_MIN: u64 = 1 << 20;
/// The longest remark.
const REMARK_CHARS_MAX: usize = 4_000;
/// How often it is asked how far front-ends are.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a client waits for a setting to be taken.
const SETTING: Duration = Duration::from_secs(10);

/// Their device in the line.
pub(crate) fn spec() -> DeviceSpec {
    DeviceSpec { timeout_ns, ..DeviceSpec::new(FRONT_ENDS, "front-ends") }
}

fn timeout_ns(action: Action) -> u64 {
    let within = match action {
        Action::Arm => GATHER + PREPARE + STOP,
        Action::Start | Action::Pause | Action::Resume => AT_WORK + STOP,
        Action::Stop | Action::Disarm => STOP,
        other => return usual_timeout_ns(other),
    };
    (within + SPARE).as_nanos() as u64
}

/// The device that commands them.
pub(crate) struct Commanding {
    shared: Arc<NodeShared>,
    run_status: Arc<RunStatus>,
    /// The required ones of the run before.
    known: BTreeSet<String>,
    /// Changes of settings that were made since, the last ones: remarks of the next run.
    between: VecDeque<(String, Change)>,
    /// What the run's remarks say of settings.
    stored: Stored,
}

impl Commanding {
    pub(crate) fn new(shared: &Arc<NodeShared>, run_status: &Arc<RunStatus>) -> Self {
        let (shared, run_status) = (Arc::clone(shared), Arc::clone(run_status));
        let (known, between, stored) = Default::default();
        Self { shared, run_status, known, between, stored }
    }

    /// Carries out an order, or what is left to be done without one.
    pub(crate) fn obey(&mut self, job: Option<&Job>) -> Result<(), Failed> {
        self.store_changes();
        let Some(job) = job else { return Ok(()) };
        let Some(active) = self.run_status.active().filter(|active| !active.ended) else {
            return Ok(());
        };
        let run_status = Arc::clone(&self.run_status);
        let front_ends = run_status.front_ends();
        let action = job.order.action;
        match action {
            Action::Arm => {
                front_ends.go_to(Stage::Prepared);
                let is_there = |list: &BTreeMap<String, FrontEnd>, name: &String| {
                    list.get(name).is_some_and(|one| one.is_connected)
                };
                let _all = wait(GATHER, || {
                    let list = front_ends.list();
                    self.known.iter().all(|name| is_there(&list, name)).then_some(())
                });
            }
            Action::Stop | Action::Disarm => {
                let list = front_ends.list().into_iter();
                let known = list.filter(|(_, one)| one.is_required && one.is_connected);
                self.known = known.map(|(name, _)| name).collect();
            }
            Action::Reset | Action::Safe | Action::Shutdown => front_ends.go_to(Stage::Stopped),
            Action::Configure | Action::Start | Action::Pause | Action::Resume => {}
        }
        let stop = STOP.min(self.shared.settings.drain / 2);
        let moved = way(action, stop).map_or(Ok(()), |way| go(front_ends, way));
        match (action, moved) {
            (Action::Stop | Action::Disarm, moved) => {
                if let Err(why) = moved {
                    // A run that is to end ends.
                    tracing::warn!(why, "front-ends have not stopped");
                }
                self.store_changes();
                Ok(())
            }
            (Action::Start, Ok(())) => {
                self.stored.begin(active.number);
                self.store_settings(active.number);
                Ok(())
            }
            (_, moved) => moved.map_err(|reason| {
                let state = match action {
                    Action::Pause => State::Recording,
                    Action::Resume => State::Paused,
                    _ => State::Configured,
                };
                Failed { reason, state }
            }),
        }
    }
}

/// Where front-ends go for an action, and back if some do not.
fn way(action: Action, stop: Duration) -> Option<Way> {
    let (prepare, at_work) = (PREPARE.as_nanos() as u64, AT_WORK.as_nanos() as u64);
    let stop = stop.as_nanos() as u64;
    let (to, back) = match action {
        Action::Arm => ((Stage::Prepared, prepare), Some(Stage::Stopped)),
        Action::Start => ((Stage::Running, at_work), Some(Stage::Stopped)),
        Action::Pause => ((Stage::Paused, at_work), Some(Stage::Running)),
        Action::Resume => ((Stage::Running, at_work), Some(Stage::Paused)),
        Action::Stop | Action::Disarm => ((Stage::Stopped, stop), None),
        Action::Configure | Action::Reset | Action::Safe | Action::Shutdown => return None,
    };
    Some(Way { to, back: back.map(|stage| (stage, stop)) })
}

/// Has all front-ends go, and waits until they have.
fn go(front_ends: &FrontEnds, way: Way) -> Result<(), String> {
    let began = Instant::now();
    let mut moving = Move::begin(front_ends, way, 0);
    loop {
        if let Some(moved) = moving.look(front_ends, began.elapsed().as_nanos() as u64) {
            return moved;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until there is a result, at most for so long.
fn wait<T>(within: Duration, mut result: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + within;
    loop {
        let found = result();
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

impl Commanding {
    /// Stores the settings that were changed, as remarks of the run, and what was held of others.
    fn store_changes(&mut self) {
        for held in self.run_status.front_ends().take_held() {
            self.store_held(&held);
        }
        self.between.extend(self.run_status.front_ends().take_made());
        let Some(active) = self.run_status.active().filter(|active| !active.ended) else {
            let many = self.between.len().saturating_sub(CHANGES_BETWEEN_MAX);
            self.between.drain(..many);
            return;
        };
        for (name, change) in std::mem::take(&mut self.between) {
            let value = json_of(&change.value);
            let text = format!("{name}: {} = {value}", change.setting());
            self.remark(active.number, &change.who, &text);
            self.stored.changed(&name, change.setting(), &change.value);
        }
        self.store_settings(active.number);
    }

    /// Stores what front-ends say of their settings, as remarks of the run.
    fn store_settings(&mut self, run: u64) {
        let front_ends = self.run_status.front_ends();
        for (front_end, text) in self.stored.remarks(run, &front_ends.list()) {
            self.remark(run, &front_end, &text);
        }
        for (front_end, text) in self.stored.remarks_of_said(run, front_ends.take_said()) {
            self.remark(run, &front_end, &text);
        }
    }

    /// Enters what a front-end held of a run that had ended, if the catalogue has that run.
    fn store_held(&self, held: &HeldAtRunEnd) {
        let HeldAtRunEnd { front_end, run, items } = held;
        let search = Search { text: run.to_string(), ..Search::default() };
        let rows = self.shared.catalog.search(&search).unwrap_or_default();
        let text = format!("{front_end} held {items} items when it ended: they are not in it");
        match rows.iter().find(|(row, _)| row.id == Some(*run)) {
            Some((row, _)) => self.remark(row.number, front_end, &text),
            None => tracing::warn!(%run, front_end, items, "held of a run that is not known here"),
        }
    }

    fn remark(&self, run: u64, who: &str, text: &str) {
        // A front-end's text may contain anything.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let mut text: String = text.chars().map(plain).take(REMARK_CHARS_MAX).collect();
        if text.chars().count() == REMARK_CHARS_MAX {
            text.push('…');
        }
        if let Err(problem) = self.shared.catalog.change(run, who, Some(&text), None) {
            tracing::warn!(run, problem = problem.detail, text, "not in the catalogue");
        }
    }
}

/// Logs that the frames of a run of front-ends were small: they wait for what they sent, so that
/// frames are cut by their age, and each costs a header and a write.
pub(crate) fn note_small_frames(config: &RecorderConfig, run: u64, counts: &Counts) {
    if let Some(bytes) = small_frames(config.has_front_ends(), counts) {
        let (frames, frame_time_ms) = (counts.frames_recorded, config.frame.time_ns / 1_000_000);
        tracing::info!(
            run,
            frames,
            bytes,
            frame_time_ms,
            "the run's frames were small: a longer frame.time makes fewer of them, and fragments \
             durable later"
        );
    }
}

/// The mean bytes of a run's frames, if these are to be reported.
fn small_frames(has_front_ends: bool, counts: &Counts) -> Option<u64> {
    let bytes = counts.bytes_written.checked_div(counts.frames_recorded)?;
    (has_front_ends && bytes < FRAME_BYTES_MIN).then_some(bytes)
}

/// Changes settings of a front-end: all values are checked before any is sent, and each is answered
/// by the front-end.
///
/// # Errors
/// A value that is none of it, or the first refusal.
pub(crate) async fn change(
    shared: &Arc<NodeShared>,
    name: &str,
    values: Map<String, Value>,
    who: &Who,
) -> Result<api::Device, Problem> {
    let of_node = |conductor: &mut Conductor, _| Ok(Arc::clone(&conductor.devices.run_status));
    let run_status = shared.ask(of_node).await?;
    let missing = || Problem::not_found(format_args!("device {FRONT_ENDS}/{name}"));
    let one = run_status.front_ends().list().remove(name).ok_or_else(missing)?;
    let checked = values.iter().map(|(setting, value)| {
        let setting = &reported_name(setting).to_owned();
        value_for(&one, setting, value).map(|value| (setting.clone(), value))
    });
    let checked = checked.collect::<Result<Vec<_>, Problem>>()?;
    let (name, who) = (name.to_owned(), who.name.clone());
    let work = move |_: &NodeShared| {
        let front_ends = run_status.front_ends();
        for (setting, value) in checked {
            let done = front_ends.change(&name, &setting, (value, &who)).and_then(|number| {
                wait(SETTING, || front_ends.outcome(&name, number)).unwrap_or_else(|| {
                    front_ends.withdraw(&name, number);
                    Err("no answer in time; it may still be taken".to_owned())
                })
            });
            done.map_err(|why| Problem::conflict(format!("{setting}: {why}")))?;
        }
        let one = front_ends.list().remove(&name);
        one.map(|one| device(&name, &one))
            .ok_or_else(|| Problem::not_found(format_args!("device {FRONT_ENDS}/{name}")))
    };
    shared.blocking(work).await
}

/// The front-ends that have connected in the run that is open, or since the last one, as devices
/// with their schemas.
pub(crate) fn devices(run_status: &RunStatus) -> Vec<(api::Device, Value)> {
    let list = run_status.front_ends().list().into_iter();
    list.map(|(name, one)| (device(&name, &one), schema(&name, &one))).collect()
}

fn device(name: &str, one: &FrontEnd) -> api::Device {
    let path = format!("{FRONT_ENDS}/{name}");
    let refusal = one.refusal.as_ref().map(|(command, why)| format!("it refuses {command}: {why}"));
    let state = match one.stage {
        Stage::Free | Stage::Prepared | Stage::Running | Stage::Paused if !one.is_connected => {
            if one.is_missed() {
                State::Safe
            } else {
                State::Idle
            }
        }
        _ if refusal.is_some() => State::Fault,
        // It is in the run from its first byte on.
        Stage::Free if one.in_run && !one.takes_commands => State::Recording,
        Stage::Free => State::Idle,
        Stage::Prepared => State::Armed,
        Stage::Running => State::Recording,
        Stage::Paused => State::Paused,
        Stage::Stopped => State::Configured,
    };
    let absent = (!one.is_connected).then(|| match one.is_admitted {
        true => "it is away: it was admitted, and is forgotten when a run begins without it".into(),
        false => "it is not connected".to_owned(),
    });
    api::Device {
        schema: format!("/api/v1/devices/{path}/schema"),
        path,
        kind: "front-end".into(),
        state: state.name().into(),
        reason: absent.or(refusal),
        commands: Vec::new(),
        properties: shown_properties(one).into_iter().map(|one| (one.name, one.value)).collect(),
    }
}

/// Whether that is the path of one of them.
pub(crate) fn is_one(path: &str) -> bool {
    path.strip_prefix(FRONT_ENDS).is_some_and(|rest| rest.starts_with('/'))
}

/// What is said behind the alarms of a rule about a thing.
pub(crate) type Sentences = BTreeMap<(&'static str, String), String>;

/// Adds what rules of alarms can look at; returns what is said of each thing.
pub(crate) fn read(
    table: &mut ReadingTable,
    front_ends: &BTreeMap<String, FrontEnd>,
    unheard: &[(String, String)],
) -> Sentences {
    let mut sentences = BTreeMap::new();
    for (address, why) in unheard {
        table.set_of("front_end", address, "unheard", 1.0);
        sentences.insert(("front_end_unheard", address.clone()), why.clone());
    }
    for (name, one) in front_ends {
        let mut set = |quantity, thing: &str, is: bool| {
            table.set_of("front_end", thing, quantity, f64::from(is));
        };
        if one.is_required {
            set("absent", name, one.is_missed());
        }
        set("gone", name, one.is_gone());
        let refusal = one.refusal.as_ref().map(|(command, why)| format!("{command}: {why}"));
        let of_it = [
            ("front_end_refuses", "refuses", refusal),
            ("front_end_given_up", "given_up", one.given_up.clone()),
            ("buffer_short", "buffer_short", one.buffer_short()),
        ];
        for (rule, quantity, why) in of_it {
            set(quantity, name, why.is_some());
            sentences.extend(why.map(|why| ((rule, name.clone()), why)));
        }
        for (alarm, report) in &one.reports {
            let Report::Alarm(text) = report else { continue };
            let thing = format!("{name} ({alarm})");
            set("alarms", &thing, text.is_some());
            let said = text.clone();
            sentences.extend(said.map(|text| (("front_end_alarm", thing), text)));
        }
        let held = one.held_at_run_end as f64;
        table.set_of("front_end", name, "held_at_run_end", held);
    }
    sentences
}

/// The JSON Schema of a front-end's properties.
fn schema(name: &str, one: &FrontEnd) -> Value {
    let properties: Map<String, Value> =
        shown_properties(one).into_iter().map(|one| (one.name, one.schema)).collect();
    properties::schema_of(&format!("{FRONT_ENDS}/{name}"), properties)
}

struct Property {
    name: String,
    value: Value,
    schema: Value,
}

/// The names of a front-end's properties that it does not report.
const OWN: [&str; 15] = [
    "program",
    "presence",
    "required",
    "admitted",
    "keeps_until",
    "takes_commands",
    "doing",
    "status",
    "reports_dropped",
    OUTSIDE,
    "fragment_bytes_outside_run",
    "connections_refused",
    "given_up",
    "held_at_run_end",
    "buffer_ms",
];
/// The property with what came outside runs.
pub(crate) const OUTSIDE: &str = "fragments_outside_run";

/// The name of the property of what is reported under a name.
fn shown_name(name: &str) -> String {
    let is_taken = OWN.contains(&name.trim_start_matches("own_"));
    if is_taken { format!("own_{name}") } else { name.to_owned() }
}

/// What is reported as that property.
fn reported_name(property: &str) -> &str {
    let inner = property.strip_prefix("own_").unwrap_or(property);
    if shown_name(inner) == property { inner } else { property }
}

fn shown_properties(one: &FrontEnd) -> Vec<Property> {
    let own = |name: &str, description: &str, value: Value| {
        let schema = json!({ "type": kind(&value), "description": description, "readOnly": true });
        Property { name: name.to_owned(), value, schema }
    };
    let doing = one.doing.unwrap_or_default();
    let mut properties = vec![
        own("program", "what it is, as it says", one.program.clone().into()),
        own(
            "presence",
            "here; if not: expected, or away if it was admitted",
            one.presence().into(),
        ),
        own("required", "whether a source of it is required", one.is_required.into()),
        own("admitted", "whether it came by [[accept]]", one.is_admitted.into()),
        own("keeps_until", "until when it keeps what it has sent", one.keeps_until.into()),
        own("takes_commands", "whether it answers commands", one.takes_commands.into()),
        own("doing", "the command that it is at work on", doing.into()),
        own("status", "its line of status", one.status.clone().into()),
        own("reports_dropped", "reports that were too many, or wrong", one.reports_dropped.into()),
        own(OUTSIDE, "what it sent while there was no run", one.fragments_outside_run.into()),
        own(
            "fragment_bytes_outside_run",
            "bytes of what it sent while there was no run",
            one.fragment_bytes_outside_run.into(),
        ),
    ];
    let refused = one.connections_refused;
    let about = "how often it was refused, for its token or for the want of TLS";
    properties.push(own("connections_refused", about, refused.into()));
    let given_up = one.given_up.clone().unwrap_or_default();
    let about = "why it was given up, after framing faults between which nothing was taken";
    properties.push(own("given_up", about, given_up.into()));
    let about = "what it held of runs that had ended: in no file";
    properties.push(own("held_at_run_end", about, one.held_at_run_end.into()));
    let about = "how long its buffers last at its highest rate, as it says; 0: not known";
    properties.push(own("buffer_ms", about, one.buffer_ms.into()));
    properties.extend(one.reports.iter().map(|(name, report)| {
        let (value, schema) = shown(report);
        Property { name: shown_name(name), value, schema }
    }));
    properties
}

/// A report's value and its schema.
fn shown(report: &Report) -> (Value, Value) {
    let (value, unit, description) = match report {
        Report::Counter { value, unit } => (json_of(value), unit.as_str(), "a counter"),
        Report::Setting { value, unit, .. } => (json_of(value), unit.as_str(), "a setting"),
        Report::Alarm(text) => {
            (text.as_deref().unwrap_or_default().into(), "", "an alarm, while it is raised")
        }
    };
    let mut schema = json!({ "type": kind(&value), "description": description });
    if !unit.is_empty() {
        schema["unit"] = unit.into();
    }
    match report {
        Report::Setting { bounds, is_writable: true, .. } => {
            if let Some((min, max)) = bounds {
                (schema["minimum"], schema["maximum"]) = (json_of(min), json_of(max));
            }
        }
        _ => schema["readOnly"] = true.into(),
    }
    (value, schema)
}

/// The value for a setting of a front-end that a client asks for.
///
/// # Errors
/// There is no such setting, it cannot be set, or that is no value of it.
fn value_for(one: &FrontEnd, name: &str, value: &Value) -> Result<Scalar, Problem> {
    let refuse = |detail: String| Err(Problem::unprocessable(detail));
    let (present, bounds) = match one.reports.get(name) {
        Some(Report::Setting { value, bounds, is_writable: true, .. }) => (value, bounds),
        Some(_) => return refuse(format!("{name} can be read only")),
        None => return refuse(format!("there is no setting {name}")),
    };
    let wanted = match present {
        Scalar::Bool(_) => value.as_bool().map(Scalar::Bool),
        Scalar::I64(_) => value.as_i64().map(Scalar::I64),
        Scalar::U64(_) => value.as_u64().map(Scalar::U64),
        Scalar::F64(_) => value.as_f64().map(Scalar::F64),
        Scalar::Text(_) => value.as_str().map(|text| Scalar::Text(text.to_owned())),
    };
    let Some(wanted) = wanted else {
        let got: String = value.to_string().chars().take(64).collect();
        return refuse(format!("{name} is {}, not {got}", words(present)));
    };
    if let Some((min, max)) = bounds
        && !(is_ordered(min, &wanted) && is_ordered(&wanted, max))
    {
        let (min, max) = (json_of(min), json_of(max));
        return refuse(format!("{name} is from {min} to {max}, not {}", json_of(&wanted)));
    }
    Ok(wanted)
}

/// Whether `low` is not above `high`, of one type.
fn is_ordered(low: &Scalar, high: &Scalar) -> bool {
    match (low, high) {
        (Scalar::I64(low), Scalar::I64(high)) => low <= high,
        (Scalar::U64(low), Scalar::U64(high)) => low <= high,
        (Scalar::F64(low), Scalar::F64(high)) => low <= high,
        _ => true,
    }
}

/// The type of a value, for messages.
fn words(value: &Scalar) -> &'static str {
    match value {
        Scalar::Bool(_) => "true or false",
        Scalar::I64(_) => "a whole number",
        Scalar::U64(_) => "a whole number from 0 on",
        Scalar::F64(_) => "a number",
        Scalar::Text(_) => "a text",
    }
}

/// The type of a value, for JSON Schema.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        // A number that JSON has no form for.
        Value::Null => "null",
        _ => "string",
    }
}

pub(crate) fn json_of(value: &Scalar) -> Value {
    match value {
        Scalar::Bool(value) => (*value).into(),
        Scalar::I64(value) => (*value).into(),
        Scalar::U64(value) => (*value).into(),
        Scalar::F64(value) => (*value).into(),
        Scalar::Text(text) => text.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_less_than_a_mebibyte_are_reported_of_front_ends_alone() {
        let counts = |frames_recorded, bytes_written| Counts {
            frames_recorded,
            bytes_written,
            ..Counts::default()
        };
        assert_eq!(small_frames(true, &counts(4, 4 << 20)), None);
        assert_eq!(small_frames(true, &counts(8, 4 << 20)), Some(1 << 19));
        assert_eq!(small_frames(false, &counts(8, 4 << 20)), None);
        assert_eq!(small_frames(true, &Counts::default()), None, "there are none");
    }
}
