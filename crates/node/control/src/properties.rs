//! What each device says of itself, and what can be set.

use std::sync::atomic::Ordering::Relaxed;

use catchment_emulator::{EmulatorConfig, EmulatorLive};
use catchment_model::Entry;
use catchment_run::{Kind, Property};
use serde_json::{Map, Value, json};

use crate::configuration::{Configuration, Configure};
use crate::devices::{CATALOG, EMULATOR, RECORDER, RunStatus, WRITE};
use crate::problem::Problem;
use crate::shared::NodeShared;

/// Values and what they are, in the same order.
struct Table {
    values: Map<String, Value>,
    properties: Vec<Property>,
}

impl Table {
    fn add(&mut self, name: &str, kind: Kind, unit: &str, about: &str, value: Value) {
        let property = Property::new(name, kind, about);
        self.put(if unit.is_empty() { property } else { property.unit(unit) }, value);
    }

    fn put(&mut self, property: Property, value: Value) {
        self.values.insert(property.name.clone(), value);
        self.properties.push(property);
    }
}

/// A device's properties; none where there is no such device.
pub(crate) fn of(
    path: &str,
    configuration: &Configuration,
    run_status: &RunStatus,
    shared: &NodeShared,
) -> Option<(Map<String, Value>, Vec<Property>)> {
    let mut table = Table { values: Map::new(), properties: Vec::new() };
    match path {
        CATALOG => catalog(&mut table, shared),
        RECORDER => recorder(&mut table, configuration, run_status),
        WRITE => write(&mut table, configuration, run_status),
        "node/recorder/build" => build(&mut table, configuration, run_status),
        "node/recorder/receive" => receive(&mut table, configuration, run_status),
        EMULATOR => emulator(&mut table, configuration, run_status)?,
        _ => return None,
    }
    Some((table.values, table.properties))
}

fn catalog(table: &mut Table, shared: &NodeShared) {
    let trouble = shared.catalog.trouble();
    table.add(
        "usable",
        Kind::Boolean,
        "",
        "whether it could be used last",
        trouble.is_none().into(),
    );
    let trouble = trouble.unwrap_or_default();
    table.add("trouble", Kind::Text, "", "what went wrong with it last", trouble.into());
}

fn recorder(table: &mut Table, configuration: &Configuration, run_status: &RunStatus) {
    let config = &configuration.recorder;
    let folder = config.folder.display().to_string();
    table.add("folder", Kind::Text, "", "where runs make their folders", folder.into());
    let memory = config.memory_bytes.into();
    table.add("memory_bytes", Kind::Integer, "bytes", "what may be used for data", memory);
    let sources = config.sources.len().into();
    table.add("source_count", Kind::Integer, "", "sources of events", sources);
    table.add("link_count", Kind::Integer, "", "channel links", config.links.len().into());
    let active = run_status.active().filter(|active| !active.ended);
    let number = active.as_ref().map_or(0, |active| active.number).into();
    table.add("run_number", Kind::Integer, "", "the run that is open; 0 if none is", number);
}

fn write(table: &mut Table, configuration: &Configuration, run_status: &RunStatus) {
    let write = &configuration.recorder.write;
    let file = write.file_bytes.into();
    table.add("file_bytes", Kind::Integer, "bytes", "the size at which a file is ended", file);
    let sync = json!(write.sync_interval_ns as f64 / 1e9);
    table.add("sync_interval_seconds", Kind::Number, "s", "how often data are made durable", sync);
    let last = run_status.active().map(|active| active.observer.snapshot());
    let counts = last.as_ref().map(|last| last.counts).unwrap_or_default();
    let engine = last.as_ref().map_or("", |last| last.engine).into();
    table.add("engine", Kind::Text, "", "how writes reach the disk", engine);
    let files = last.as_ref().map_or(0, |last| last.files.len()).into();
    table.add("file_count", Kind::Integer, "", "files of the run", files);
    let written = counts.bytes_written.into();
    table.add("written_bytes", Kind::Integer, "bytes", "bytes of the run", written);
    let frames = counts.frames_recorded.into();
    table.add("frame_count", Kind::Integer, "", "frames of the run", frames);
}

fn build(table: &mut Table, configuration: &Configuration, run_status: &RunStatus) {
    let timeout = json!(configuration.recorder.build.timeout_ns as f64 / 1e9);
    table.add("timeout_seconds", Kind::Number, "s", "how long an event waits", timeout);
    let last = run_status.active().map(|active| active.observer.snapshot());
    let counts = last.map(|last| last.counts).unwrap_or_default();
    let open = counts.events_open + counts.slices_open;
    table.add("open_count", Kind::Integer, "", "events and slices that wait", open.into());
    let complete = counts.events_complete + counts.slices_complete;
    table.add("complete_count", Kind::Integer, "", "built with all sources", complete.into());
    let incomplete = counts.events_incomplete + counts.slices_incomplete;
    table.add("incomplete_count", Kind::Integer, "", "built without some", incomplete.into());
}

fn receive(table: &mut Table, configuration: &Configuration, run_status: &RunStatus) {
    let receive = &configuration.recorder.receive;
    table.add("thread_count", Kind::Integer, "", "receive threads", receive.threads.into());
    let asked = receive.socket_buffer_bytes.into();
    table.add("socket_buffer_bytes", Kind::Integer, "bytes", "asked for, per source", asked);
    let active = run_status.active();
    let granted = active.as_ref().map_or(0, |active| active.granted_bytes_min).into();
    let about = "the smallest that the system granted";
    table.add("socket_buffer_granted_bytes", Kind::Integer, "bytes", about, granted);
    let total = active.map(|active| active.observer.snapshot().ledger.total()).unwrap_or_default();
    let packets = total[Entry::PacketsReceived].into();
    table.add("packet_count", Kind::Integer, "", "packets received in this run", packets);
}

fn emulator(
    table: &mut Table,
    configuration: &Configuration,
    run_status: &RunStatus,
) -> Option<()> {
    let (sources, links) = (&configuration.emulator, &configuration.link_emulator);
    if let Some(config) = sources {
        let about = "events per second, from the next run on; 0: as many as can be";
        let rate = Property::new("rate_hz", Kind::Number, about).unit("Hz").range(0.0, 1e9);
        table.put(rate.writable(), json!(config.rate_hz.unwrap_or(0.0)));
    }
    let seeds = sources.iter().map(|one| one.seed).chain(links.iter().map(|one| one.seed));
    let about = "what payloads and samples are drawn from, from the next run on";
    let seed = Property::new("seed", Kind::Integer, about).range(0.0, 9e15);
    table.put(seed.writable(), seeds.into_iter().next()?.into());
    let count = sources.as_ref().map_or(0, |config| config.sources.len()).into();
    table.add("source_count", Kind::Integer, "", "emulated sources", count);
    let count = links.as_ref().map_or(0, |config| config.links.len()).into();
    table.add("link_count", Kind::Integer, "", "emulated links", count);
    let live = run_status.emulators.lock().clone();
    let sum = |of: fn(&EmulatorLive) -> u64| live.iter().map(|one| of(one.live())).sum::<u64>();
    let events = sum(|live| live.events.load(Relaxed)).into();
    table.add("event_count", Kind::Integer, "", "events sent, and slices of links", events);
    let packets = sum(|live| live.packets.load(Relaxed)).into();
    table.add("packet_count", Kind::Integer, "", "packets sent", packets);
    Some(())
}

/// The text of a configuration in which the emulator has these properties.
///
/// # Errors
/// Values that the emulator does not take, or that cannot be said in the text.
pub(crate) fn with_emulator(
    configure: &dyn Configure,
    text: &str,
    values: &Map<String, Value>,
) -> Result<(Configuration, String), Problem> {
    let rate_hz = values.get("rate_hz").and_then(Value::as_f64);
    let seed = values.get("seed").and_then(Value::as_u64);
    let text = configure.with_emulator(text, rate_hz, seed).map_err(Problem::unprocessable)?;
    let checked = configure.check(&text);
    let checked = checked.map_err(|fault| Problem::unprocessable(fault.message))?;
    let rate_wanted = rate_hz.map(|rate| (rate > 0.0).then_some(rate));
    let said = |config: &EmulatorConfig| {
        rate_wanted.is_none_or(|rate| rate == config.rate_hz)
            && seed.is_none_or(|seed| seed == config.seed)
    };
    let links = checked.link_emulator.as_ref().map(|links| links.seed);
    let links_said = links.zip(seed).is_none_or(|(got, wanted)| got == wanted);
    if !checked.emulator.as_ref().is_none_or(said) || !links_said {
        let detail = "this cannot be written into the configuration's text; change the file";
        return Err(Problem::conflict(detail));
    }
    Ok((checked, text))
}
