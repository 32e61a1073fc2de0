//! Properties of devices: their values, their JSON Schema, and the two of the emulator that can be
//! set.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_emulator::{EmulatorConfig, EmulatorLive};
use catchment_model::Entry;
use catchment_recorder::FrontEnd;
use serde_json::{Map, Value, json};

use crate::configuration::{Configuration, Configure, Version};
use crate::devices::{BUILD, CATALOG, EMULATOR, RECEIVE, RECORDER, RunStatus, STORE, WRITE};
use crate::front_ends::FRONT_ENDS;
use crate::problem::Problem;
use crate::shared::NodeShared;
use crate::storing::Storing;

/// The longest text in bytes.
const TEXT_BYTES_MAX: usize = 4_096;
/// The bounds of the emulator's rate.
const RATE_HZ: (u64, u64) = (0, 1_000_000_000);
/// The bounds of the emulator's seed: every reader of JSON keeps these exactly.
const SEED: (u64, u64) = (0, 9_000_000_000_000_000);

/// A property of a device. The type of its value never changes.
#[derive(Debug)]
pub(crate) struct Property {
    /// Its name in snake_case, with the unit last.
    name: &'static str,
    /// The unit for display, if any.
    unit: &'static str,
    description: &'static str,
    value: Value,
    /// Both bounds, included; none: it cannot be set.
    range: Option<(u64, u64)>,
}

/// Changes to the emulator.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct EmulatorPatch {
    /// 0: as fast as possible.
    rate_hz: Option<f64>,
    seed: Option<u64>,
}

/// A device's properties; none if the device does not exist.
pub(crate) fn of(
    path: &str,
    configuration: &Configuration,
    run_status: &RunStatus,
    shared: &NodeShared,
) -> Option<Vec<Property>> {
    match path {
        CATALOG => Some(catalog(shared)),
        RECORDER => Some(recorder(configuration, run_status)),
        WRITE => Some(write(configuration, run_status)),
        BUILD => Some(build(configuration, run_status)),
        RECEIVE => Some(receive(configuration, run_status)),
        EMULATOR => emulator(configuration, run_status),
        FRONT_ENDS => Some(front_ends(configuration, run_status)),
        STORE => shared.storing.as_deref().map(store),
        _ => None,
    }
}

/// Names and values.
pub(crate) fn values(properties: Vec<Property>) -> Map<String, Value> {
    properties.into_iter().map(|one| (one.name.to_owned(), one.value)).collect()
}

/// JSON Schema 2020-12 of a device's properties. Units are in the annotation `unit`.
pub(crate) fn schema(device: &str, properties: &[Property]) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|one| (one.name.to_owned(), one.schema())).collect();
    schema_of(device, properties)
}

/// The same, of properties that are described.
pub(crate) fn schema_of(device: &str, properties: Map<String, Value>) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": device,
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

impl EmulatorPatch {
    /// Checks all values before any is set.
    ///
    /// # Errors
    /// The first impossible value; the message.
    pub(crate) fn of(properties: &[Property], values: &Map<String, Value>) -> Result<Self, String> {
        let mut patch = Self::default();
        for (name, value) in values {
            let property = properties.iter().find(|one| one.name == *name).ok_or_else(|| {
                format!("there is no property {}", name.chars().take(64).collect::<String>())
            })?;
            property.check(value)?;
            match property.name {
                "seed" => patch.seed = value.as_u64(),
                _ => patch.rate_hz = value.as_f64(),
            }
        }
        Ok(patch)
    }

    /// Whether there are no changes.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Property {
    fn new(
        name: &'static str,
        unit: &'static str,
        description: &'static str,
        value: impl Into<Value>,
    ) -> Self {
        Self { name, unit, description, value: value.into(), range: None }
    }

    /// The type of its values, for JSON Schema and for messages.
    fn kind(&self) -> (&'static str, &'static str) {
        match &self.value {
            Value::Bool(_) => ("boolean", "true or false"),
            Value::Number(number) if number.is_f64() => ("number", "a number"),
            Value::Number(_) => ("integer", "a whole number"),
            _ => ("string", "a text"),
        }
    }

    fn schema(&self) -> Value {
        let (kind, _) = self.kind();
        let mut schema = json!({ "description": self.description, "type": kind });
        if kind == "string" {
            schema["maxLength"] = TEXT_BYTES_MAX.into();
        }
        if !self.unit.is_empty() {
            schema["unit"] = self.unit.into();
        }
        match self.range {
            Some((minimum, maximum)) => {
                schema["minimum"] = minimum.into();
                schema["maximum"] = maximum.into();
            }
            None => schema["readOnly"] = true.into(),
        }
        schema
    }

    /// Checks a value before it is set.
    fn check(&self, value: &Value) -> Result<(), String> {
        let name = self.name;
        let Some((low, high)) = self.range else { return Err(format!("{name} can be read only")) };
        let (kind, expected) = self.kind();
        let fits = value.is_i64() || value.is_u64() || (kind == "number" && value.is_number());
        let Some(number) = value.as_f64().filter(|_| fits) else {
            let got: String = value.to_string().chars().take(64).collect();
            return Err(format!("{name} must be {expected}, not {got}"));
        };
        match number < low as f64 || number > high as f64 {
            true => Err(format!("{name} must be from {low} to {high}, not {number}")),
            false => Ok(()),
        }
    }
}

fn catalog(shared: &NodeShared) -> Vec<Property> {
    let trouble = shared.catalog.trouble();
    vec![
        Property::new("usable", "", "whether it could be used last", trouble.is_none()),
        Property::new("trouble", "", "what went wrong with it last", trouble.unwrap_or_default()),
    ]
}

fn store(storing: &Storing) -> Vec<Property> {
    let (seen, address) = (storing.seen(), storing.address().to_string());
    let (folders, streams) = (seen.snapshot.folders.len(), seen.snapshot.streams.len());
    vec![
        Property::new("address", "", "where recorders connect", address),
        Property::new("folder_count", "", "its folders", folders),
        Property::new("stream_count", "", "streams that it has had since it began", streams),
        Property::new("memory_bytes", "bytes", "what may be used for frames", seen.memory_bytes),
    ]
}

fn recorder(configuration: &Configuration, run_status: &RunStatus) -> Vec<Property> {
    let config = &configuration.recorder;
    let folder = config.folder.display().to_string();
    let open = run_status.active().filter(|active| !active.ended);
    let number = open.map_or(0, |active| active.number);
    vec![
        Property::new("folder", "", "where runs make their folders", folder),
        Property::new("memory_bytes", "bytes", "what may be used for data", config.memory_bytes),
        Property::new("source_count", "", "sources of events", config.sources.len()),
        Property::new("link_count", "", "channel links", config.links.len()),
        Property::new("run_number", "", "the run that is open; 0 if none is", number),
    ]
}

fn write(configuration: &Configuration, run_status: &RunStatus) -> Vec<Property> {
    let write = &configuration.recorder.write;
    let sync = write.sync_interval_ns as f64 / 1e9;
    let last = run_status.active().map(|active| active.observer.snapshot());
    let counts = last.as_ref().map(|last| last.counts).unwrap_or_default();
    let engine = last.as_ref().map_or("", |last| last.engine);
    let files = last.as_ref().map_or(0, |last| last.files.len());
    vec![
        Property::new("file_bytes", "bytes", "the size at which a file is ended", write.file_bytes),
        Property::new("sync_interval_seconds", "s", "how often data are made durable", sync),
        Property::new("engine", "", "how writes reach the disk", engine),
        Property::new("file_count", "", "files of the run", files),
        Property::new("written_bytes", "bytes", "bytes of the run", counts.bytes_written),
        Property::new("frame_count", "", "frames of the run", counts.frames_recorded),
    ]
}

fn build(configuration: &Configuration, run_status: &RunStatus) -> Vec<Property> {
    let timeout = configuration.recorder.build.timeout_ns as f64 / 1e9;
    let last = run_status.active().map(|active| active.observer.snapshot());
    let counts = last.map(|last| last.counts).unwrap_or_default();
    let open = counts.events_open + counts.slices_open;
    let complete = counts.events_complete + counts.slices_complete;
    let incomplete = counts.events_incomplete + counts.slices_incomplete;
    vec![
        Property::new("timeout_seconds", "s", "how long an event waits", timeout),
        Property::new("open_count", "", "events and slices that wait", open),
        Property::new("complete_count", "", "built with all sources", complete),
        Property::new("incomplete_count", "", "built without some", incomplete),
    ]
}

fn receive(configuration: &Configuration, run_status: &RunStatus) -> Vec<Property> {
    let receive = &configuration.recorder.receive;
    let active = run_status.active();
    let granted = active.as_ref().map_or(0, |active| active.granted_bytes_min);
    let total = active.map(|active| active.observer.snapshot().ledger.total()).unwrap_or_default();
    let (asked, packets) = (receive.socket_buffer_bytes, total[Entry::PacketsReceived]);
    let smallest = "the smallest that the system granted";
    vec![
        Property::new("thread_count", "", "receive threads", receive.threads),
        Property::new("socket_buffer_bytes", "bytes", "asked for, per source", asked),
        Property::new("socket_buffer_granted_bytes", "bytes", smallest, granted),
        Property::new("packet_count", "", "packets received in this run", packets),
    ]
}

fn front_ends(configuration: &Configuration, run_status: &RunStatus) -> Vec<Property> {
    let list = run_status.front_ends().list();
    let count = |is: fn(&FrontEnd) -> bool| list.values().filter(|one| is(one)).count();
    let (connected, refusing) = (count(|one| one.is_connected), count(|one| one.refusal.is_some()));
    let listeners = configuration.recorder.listener_words(&run_status.listeners.lock());
    vec![
        Property::new("listeners", "", "where they connect, and how", listeners.join("; ")),
        Property::new("connected_count", "", "front-ends that are connected", connected),
        Property::new("refusing_count", "", "front-ends that refused a command", refusing),
    ]
}

fn emulator(configuration: &Configuration, run_status: &RunStatus) -> Option<Vec<Property>> {
    let (sources, links) = (&configuration.emulator, &configuration.link_emulator);
    let seeds = sources.iter().map(|one| one.seed).chain(links.iter().map(|one| one.seed));
    let about = "what payloads and samples are drawn from, from the next run on";
    let seed = Property::new("seed", "", about, seeds.into_iter().next()?);
    let live = run_status.emulators.lock().clone();
    let sum = |of: fn(&EmulatorLive) -> u64| live.iter().map(|one| of(one.live())).sum::<u64>();
    let events = sum(|live| live.events.load(Relaxed));
    let packets = sum(|live| live.packets.load(Relaxed));
    let source_count = sources.as_ref().map_or(0, |config| config.sources.len());
    let link_count = links.as_ref().map_or(0, |config| config.links.len());
    let rate = sources.as_ref().map(|config| {
        let about = "events per second, from the next run on; 0: as many as can be";
        let rate = Property::new("rate_hz", "Hz", about, config.rate_hz.unwrap_or(0.0));
        Property { range: Some(RATE_HZ), ..rate }
    });
    let others = [
        Property { range: Some(SEED), ..seed },
        Property::new("source_count", "", "emulated sources", source_count),
        Property::new("link_count", "", "emulated links", link_count),
        Property::new("event_count", "", "events sent, and slices of links", events),
        Property::new("packet_count", "", "packets sent", packets),
    ];
    Some(rate.into_iter().chain(others).collect())
}

/// A configuration in which the emulator has these properties.
///
/// # Errors
/// Values that the emulator does not accept, or that the text cannot express.
pub(crate) fn with_emulator(
    configure: &dyn Configure,
    text: &str,
    patch: &EmulatorPatch,
) -> Result<Version, Problem> {
    let EmulatorPatch { rate_hz, seed } = *patch;
    let text = configure.with_emulator(text, rate_hz, seed).map_err(Problem::unprocessable)?;
    let checked = configure.check(&text);
    let checked = checked.map_err(|fault| Problem::unprocessable(fault.message))?;
    let rate_wanted = rate_hz.map(|rate| (rate > 0.0).then_some(rate));
    let has_them = |config: &EmulatorConfig| {
        rate_wanted.is_none_or(|rate| rate == config.rate_hz)
            && seed.is_none_or(|seed| seed == config.seed)
    };
    let links = checked.link_emulator.as_ref().map(|links| links.seed);
    let links_have_it = links.zip(seed).is_none_or(|(got, wanted)| got == wanted);
    if !checked.emulator.as_ref().is_none_or(has_them) || !links_have_it {
        let detail = "this cannot be written into the configuration's text; change the file";
        return Err(Problem::conflict(detail));
    }
    Ok(Version { configuration: Arc::new(checked), number: None, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_json_schema_and_values_are_checked() {
        let rate = Property::new("rate_hz", "Hz", "how many", 0.0);
        let seed = Property::new("seed", "", "from what", 1);
        let properties = [
            Property { range: Some((0, 4096)), ..rate },
            Property { range: Some((1, 4096)), ..seed },
            Property::new("fill", "", "how full", 0.5),
            Property::new("engine", "", "which", "io_uring"),
        ];
        assert_eq!(
            schema("node/emulator", &properties),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "node/emulator",
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "rate_hz": {"type": "number", "minimum": 0, "maximum": 4096, "unit": "Hz",
                                "description": "how many"},
                    "seed": {"type": "integer", "minimum": 1, "maximum": 4096,
                             "description": "from what"},
                    "fill": {"type": "number", "readOnly": true, "description": "how full"},
                    "engine": {"type": "string", "maxLength": 4096, "readOnly": true,
                               "description": "which"},
                },
            })
        );
        let patch = |values: Value| EmulatorPatch::of(&properties, values.as_object().unwrap());
        let both = EmulatorPatch { rate_hz: Some(1.5), seed: Some(17) };
        assert_eq!(patch(json!({"rate_hz": 1.5, "seed": 17})), Ok(both));
        assert!(patch(json!({})).unwrap().is_empty());
        for (values, problem) in [
            (json!({"seed": 5000}), "seed must be from 1 to 4096, not 5000"),
            (json!({"seed": -1}), "seed must be from 1 to 4096, not -1"),
            (json!({"seed": 1.5}), "seed must be a whole number, not 1.5"),
            (json!({"rate_hz": "fast"}), "rate_hz must be a number, not \"fast\""),
            (json!({"fill": 0.5}), "fill can be read only"),
            (json!({"other": 0}), "there is no property other"),
        ] {
            assert_eq!(patch(values).unwrap_err(), problem);
        }
    }
}
