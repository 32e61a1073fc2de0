//! `[control]`, `[[alarms]]` and `[[actions]]`: how a node is controlled and watched.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use catchment_control::{
    Action, ActionKind, Condition, LogFormat, LogLevel, Quantity, Rule, Settings, Severity, Start,
    Tls, devices_with, known_quantities,
};
use catchment_model::near_matches;
use catchment_model::printable::{control_fault, name_fault};
use catchment_model::units::Time;
use catchment_recorder::RecorderConfig;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::locate::{ConfigFileError, Located};
use crate::low::{Address, Low};
use crate::{H, MS, set, within};

/// `[control]`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlLow {
    listen: Option<Address>,
    name: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    tls: Option<TlsLow>,
    #[serde(default)]
    without_protection: bool,
    #[serde(default)]
    start: Start,
    drain: Option<Time>,
    requests_per_second: Option<f64>,
    heavy_loss_share: Option<f64>,
    #[serde(default)]
    emulate: bool,
    #[serde(default)]
    log: LogFormat,
    #[serde(default)]
    log_level: LevelLow,
}

/// `"off"`, `"self-made"`, or a table of two files.
#[derive(Debug)]
struct TlsLow(Tls);

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl<'de> Deserialize<'de> for TlsLow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TlsVisitor;
        impl<'de> Visitor<'de> for TlsVisitor {
            type Value = TlsLow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"off\", \"self-made\" or { certificate = FILE, key = FILE }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TlsLow, E> {
                match text {
                    "off" => Ok(TlsLow(Tls::Off)),
                    "self-made" => Ok(TlsLow(Tls::SelfMade)),
                    _ => {
                        let expected: &dyn de::Expected = &self;
                        Err(E::custom(format!("expected {expected}, got {text:?}")))
                    }
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TlsLow, A::Error> {
                let files = TlsFiles::deserialize(MapAccessDeserializer::new(map))?;
                let TlsFiles { certificate, key } = files;
                Ok(TlsLow(Tls::Files { certificate, key }))
            }
        }
        deserializer.deserialize_any(TlsVisitor)
    }
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum LevelLow {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// One of `[[alarms]]`: exactly one of `above`, `below`, `rises_faster`, `falls_faster`,
/// `no_change`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlarmLow {
    name: String,
    quantity: String,
    above: Option<f64>,
    below: Option<f64>,
    rises_faster: Option<f64>,
    falls_faster: Option<f64>,
    no_change: Option<Time>,
    clear_at: Option<f64>,
    window: Option<Time>,
    delay: Option<Time>,
    clear_delay: Option<Time>,
    #[serde(default)]
    latch: bool,
    acknowledged_for: Option<Time>,
    #[serde(default)]
    only_while_recording: bool,
    severity: Option<Severity>,
    critical_at: Option<f64>,
    text: Option<String>,
    text_many: Option<String>,
    #[serde(default)]
    actions: Vec<String>,
}

/// One of `[[actions]]`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActionLow {
    name: String,
    command: Option<Vec<String>>,
    webhook: Option<String>,
    timeout: Option<Time>,
}

/// How a node is controlled, checked.
#[derive(Clone, Debug)]
pub struct Control {
    /// Addresses, protection, limits and the other settings of the node.
    pub settings: Settings,
    /// Whether the node is to run the emulator that `[emulator]` describes.
    pub emulate: bool,
    /// How lines of the log are written.
    pub log: LogFormat,
    /// The least important lines of the log that are written.
    pub level: LogLevel,
}

/// Where a node listens by default.
const LISTEN_DEFAULT: ([u8; 4], u16) = ([127, 0, 0, 1], 8750);

/// `[control]`; none where the file has none.
pub(super) fn control(
    located: &Located<'_>,
    low: &Low,
    actions: &[Action],
) -> Result<Option<Control>, ConfigFileError> {
    let Some(control) = &low.control else { return Ok(None) };
    let listen = control.listen.map_or(LISTEN_DEFAULT.into(), |Address(address)| address);
    let mut settings = Settings { actions: actions.to_vec(), ..Settings::new(Some(listen)) };
    if let Some(name) = &control.name {
        if name.is_empty() || name.len() > 64 {
            let message = format!("expected a name of 1 to 64 bytes, got {name:?}");
            return Err(located.error("control.name", message));
        }
        refuse(located, "control.name", name_fault(name))?;
        settings.name.clone_from(name);
    }
    for name in &control.names {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        if name.is_empty() || !name.chars().all(fits) {
            let message = format!("expected names of hosts, without ports, got {name:?}");
            return Err(located.error("control.names", message));
        }
    }
    settings.names.clone_from(&control.names);
    settings.tls = control.tls.as_ref().map_or(Tls::Off, |TlsLow(tls)| tls.clone());
    settings.without_protection = control.without_protection;
    settings.start = control.start;
    within(located, "control.drain", control.drain, MS..=H)?;
    if let Some(Time(drain_ns)) = control.drain {
        settings.drain = Duration::from_nanos(drain_ns);
    }
    if let Some(rate) = control.requests_per_second {
        if !(1.0..=1e6).contains(&rate) {
            let message = format!("expected 1 to 1000000, got {rate}");
            return Err(located.error("control.requests_per_second", message));
        }
        settings.requests_per_second = rate;
    }
    if let Some(share) = control.heavy_loss_share {
        if !(share > 0.0 && share <= 1.0) {
            let message = format!("expected a share of the data above 0, up to 1, got {share}");
            return Err(located.error("control.heavy_loss_share", message));
        }
        settings.heavy_loss_share = share;
    }
    let level = match control.log_level {
        LevelLow::Error => LogLevel::ERROR,
        LevelLow::Warn => LogLevel::WARN,
        LevelLow::Info => LogLevel::INFO,
        LevelLow::Debug => LogLevel::DEBUG,
        LevelLow::Trace => LogLevel::TRACE,
    };
    let emulate = control.emulate;
    if emulate && low.emulator.is_none() {
        return Err(located.error("control.emulate", "expected [emulator] in the file, got none"));
    }
    Ok(Some(Control { settings, emulate, log: control.log, level }))
}

/// `[[actions]]`.
pub(super) fn actions(located: &Located<'_>, low: &Low) -> Result<Vec<Action>, ConfigFileError> {
    let mut actions: Vec<Action> = Vec::new();
    for (index, action) in low.actions.iter().enumerate() {
        let error = |message: &str| Err(located.error(&format!("actions[{index}]"), message));
        refuse(located, &format!("actions[{index}].name"), name_fault(&action.name))?;
        if actions.iter().any(|other| other.name == action.name) {
            return error("expected a name used once");
        }
        let kind = match (&action.command, &action.webhook) {
            (Some(words), None) if !words.is_empty() => ActionKind::Command(words.clone()),
            (None, Some(address)) if address.starts_with("http") => {
                ActionKind::Webhook(address.clone())
            }
            _ => {
                return error(
                    "expected either command = [\"PROGRAM\", ..] or webhook = \"http..\"",
                );
            }
        };
        within(located, &format!("actions[{index}].timeout"), action.timeout, MS..=H / 6)?;
        let timeout_ns = action.timeout.map_or(10_000_000_000, |Time(ns)| ns);
        let timeout = Duration::from_nanos(timeout_ns);
        actions.push(Action { name: action.name.clone(), kind, timeout });
    }
    Ok(actions)
}

/// `[[alarms]]`.
pub(super) fn rules(
    located: &Located<'_>,
    low: &Low,
    recorder: &RecorderConfig,
) -> Result<Vec<Rule>, ConfigFileError> {
    let known = known_quantities();
    let known: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
    let rules = low.alarms.iter().enumerate().map(|(index, alarm)| {
        let at = |message: String| located.error(&format!("alarms[{index}]"), message);
        refuse(located, &format!("alarms[{index}].name"), name_fault(&alarm.name))?;
        let texts = [("text", &alarm.text), ("text_many", &alarm.text_many)];
        for (key, text) in texts {
            let fault = text.as_deref().and_then(control_fault);
            refuse(located, &format!("alarms[{index}].{key}"), fault)?;
        }
        let quantity = quantity(&alarm.quantity, &known, recorder)
            .map_err(|message| located.error(&format!("alarms[{index}].quantity"), message))?;
        let condition = condition(alarm).map_err(at)?;
        let ns = |time: Option<Time>| time.map_or(0, |Time(ns)| ns);
        if let Some(action) = alarm.actions.iter().find(|name| {
            let known = low.actions.iter().any(|action| action.name == **name);
            !known && !["log", "page"].contains(&name.as_str())
        }) {
            return Err(at(format!("expected actions of [[actions]], got {action:?}")));
        }
        let mut rule = Rule::new(&alarm.name, quantity, condition);
        rule.delay_ns = ns(alarm.delay);
        rule.clear_delay_ns = ns(alarm.clear_delay);
        rule.latch = alarm.latch;
        rule.acknowledged_for_ns = ns(alarm.acknowledged_for);
        rule.only_while_recording = alarm.only_while_recording;
        set(&mut rule.severity, alarm.severity);
        if let Some(text) = &alarm.text {
            rule.text.clone_from(text);
        }
        rule.text_many.clone_from(&alarm.text_many);
        rule.critical_at = alarm.critical_at;
        rule.actions.clone_from(&alarm.actions);
        Ok(rule)
    });
    let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
    // All that rules must be to each other, and to their bounds.
    match catchment_watch::Alarms::new(rules.clone()) {
        Ok(_) => Ok(rules),
        Err(error) => Err(located.error("alarms", error.to_string())),
    }
}

/// Refuses a text with what was expected and what it has, if it has a fault.
fn refuse(
    located: &Located<'_>,
    key: &str,
    fault: Option<(String, String)>,
) -> Result<(), ConfigFileError> {
    fault.map_or(Ok(()), |(expected, got)| Err(located.expected(key, &expected, &got)))
}

/// A quantity that a node reads, of a source one that there is: a rule about another would be
/// silent for ever.
fn quantity(text: &str, known: &[&str], recorder: &RecorderConfig) -> Result<Quantity, String> {
    let quantity = Quantity::new(text).map_err(|error| error.to_string())?;
    let (kind, thing) = (quantity.kind(), quantity.thing());
    let hint = |got: &str, names: &[&str]| match near_matches(got, names) {
        near if near.is_empty() => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    if !known.contains(&kind.as_str()) {
        let hint = hint(&kind, known);
        return Err(format!("unknown quantity {text:?}{hint} (all are in docs/metrics.md)"));
    }
    let sources = recorder.sources.iter().map(|source| source.name.as_str());
    let links = recorder.links.iter().map(|link| link.name.as_str());
    let names: Vec<&str> = sources.chain(links).collect();
    if kind.starts_with("source.*.") && !thing.is_empty() && !names.contains(&thing) {
        let hint = hint(thing, &names);
        return Err(format!("expected a source of this file or *, got {thing:?}{hint}"));
    }
    let devices = kind.strip_prefix("device.*.").map(devices_with).unwrap_or_default();
    if !(devices.is_empty() || thing.is_empty() || devices.contains(&thing)) {
        let (devices, hint) = (devices.join(" or "), hint(thing, &devices));
        return Err(format!("expected {devices} or *, got {thing:?}{hint}"));
    }
    Ok(quantity)
}

fn condition(alarm: &AlarmLow) -> Result<Condition, String> {
    let clear = |threshold: f64| alarm.clear_at.unwrap_or(threshold);
    let window_ns = alarm.window.map_or(10_000_000_000, |Time(ns)| ns);
    let all = [
        alarm.above.map(|threshold| Condition::Above { threshold, clear_at: clear(threshold) }),
        alarm.below.map(|threshold| Condition::Below { threshold, clear_at: clear(threshold) }),
        alarm.rises_faster.map(|threshold| Condition::RisesFaster {
            threshold,
            clear_at: clear(threshold),
            window_ns,
        }),
        alarm.falls_faster.map(|threshold| Condition::FallsFaster {
            threshold,
            clear_at: clear(threshold),
            window_ns,
        }),
        alarm.no_change.map(|Time(for_ns)| Condition::NoChange { for_ns }),
    ];
    let mut given = all.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(condition), None) => Ok(condition),
        _ => {
            let expected = "expected exactly one of above, below, rises_faster, falls_faster and \
                no_change";
            Err(expected.into())
        }
    }
}

#[cfg(test)]
mod tests;
