//! Configuration: from the text that people write to values that were checked ([`High`]).
//!
//! Tables whose keys are fields of the recorder or the emulator are read straight into their types;
//! `low` has the others. The bounds of values are in those crates' `check`, which names the key.
//!
//! Everything is checked before anything starts. A [`ConfigFileError`] names file, line and column,
//! what was expected and what was there. [`Hades90`] and [`Alpha72`] are presets as configuration
//! texts; [`edit::set`] changes one value of a text. `tests/reference.txt` has a line for every
//! key, from which the page docs/reference/configuration.md is made.

mod accept;
mod control;
pub mod edit;
mod emulators;
mod folder;
mod layouts;
mod links;
mod listen;
mod locate;
mod low;
mod preset;
mod sources;
mod store;
mod targets;
mod time_rule;
mod trains;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use catchment_builder::{KeyRule, OwnedKeys};
use catchment_catalog::RUN_NUMBER_MAX;
use catchment_emulator::{EmulatorConfig, LinkEmulatorConfig};
use catchment_model::RunId;
use catchment_recorder::{
    Accept, ConfigError, FrameConfig, LINK_FRAME_TIME_NS, LINK_SYNC_BYTES, LINK_SYNC_NS,
    LinkAccess, LinkConfig, MatchRule, RecorderConfig, SourceConfig, SystemMemory, TargetConfig,
    link_buffers, link_frame_bytes,
};
use catchment_wire::layouts::Layouts;
use catchment_wire::trains::Trains;

pub use accept::with_admitted;
pub use catchment_model::units::{Size, Time};
pub use control::Control;
pub use emulators::{RATE_HZ_DEFAULT, emulated_boards};
pub use links::emulated as emulated_links;
pub use locate::ConfigFileError;
pub use low::{Address, Rate};
pub use preset::{Alpha72, Hades90};
pub use sources::counted_up;
pub use store::{Store, StoreHigh, check_store, load_store};

use listen::ListenLow;
use locate::Located;
use low::{Low, OwnLow, RunLow};

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub struct High {
    /// The recorder.
    pub recorder: RecorderConfig,
    /// The number that the run is to have, if the file says one.
    pub number: Option<u64>,
    /// How old an interrupted run of this configuration may be to go on; 0: none does.
    pub resume_ns: u64,
    /// The emulator of its sources, if the file has one; its targets are the sources' addresses.
    pub emulator: Option<EmulatorConfig>,
    /// The actions of alarms, on a node that is controlled as the file says or otherwise.
    pub actions: Vec<catchment_control::Action>,
    /// The emulator of its links, if the file asks for one.
    pub link_emulator: Option<LinkEmulatorConfig>,
    /// How the node is controlled, if the file says.
    pub control: Option<Control>,
    /// The protocol of trains with its settings, whether a source has it or not.
    pub trains: Trains,
    /// The protocols of declared layouts, whether a source has them or not.
    pub layouts: Vec<Layouts>,
    /// Rules of alarms.
    pub rules: Vec<catchment_control::Rule>,
    /// What the file says of a storage node, which another command runs.
    pub store: Option<Store>,
}

/// Reads and checks a file.
///
/// # Errors
/// What is wrong with it and where, or that it cannot be read.
pub fn load(path: &Path) -> Result<High, ConfigFileError> {
    let text = read(path)?;
    let high = check_to_start(path, &text)?;
    if high.store.is_some() {
        let message =
            "expected no storage node, which `catchment store` runs with a file of its own";
        return Err(Located::parse(path, &text)?.error("store", message));
    }
    Ok(high)
}

/// Checks a file from which something starts: beside what [`check`] does, that every setting has
/// an effect.
fn check_to_start(path: &Path, text: &str) -> Result<High, ConfigFileError> {
    let high = check(path, text)?;
    let located = Located::parse(path, text)?;
    time_rule::check_effects(&located, &located.read()?, &high.recorder)?;
    Ok(high)
}

/// Reads and checks the declared layouts of a file, which needs no sources for that.
///
/// # Errors
/// As [`load`].
pub fn load_layouts(path: &Path) -> Result<Vec<Layouts>, ConfigFileError> {
    let text = read(path)?;
    let located = Located::parse(path, &text)?;
    let low: Low = located.read()?;
    layouts::layouts(&located, &low.layouts)
}

fn read(path: &Path) -> Result<String, ConfigFileError> {
    std::fs::read_to_string(path).map_err(|error| ConfigFileError {
        file: path.to_owned(),
        place: None,
        message: format!("cannot be read: {error}"),
    })
}

/// Checks a text; `path` is for messages.
///
/// # Errors
/// What is wrong with it and where.
pub fn check(path: &Path, text: &str) -> Result<High, ConfigFileError> {
    let located = Located::parse(path, text)?;
    let low: Low = located.read()?;
    check_run(&located, &low)?;
    let trains = trains::trains(&located, &low.trains)?;
    let layouts = layouts::layouts(&located, &low.layouts)?;
    let listeners = listen::listeners(&located, &low.listen)?;
    let (sources, tables) =
        sources::sources(&located, &low, (&trains, &layouts), &listeners, text)?;
    let accept = accept::accept(&located, &low, &listeners, text)?;
    let links = links::links(&located, &low)?;
    let targets = targets::targets(&located, &low, &sources, &links)?;
    let own = own(&located, low.run.own)?;
    let Identity { run_id, timer, stream } = identity(&located, &low)?;
    let recorder = recorder(&located, &low, (sources, links, targets), accept, text);
    // The first listener is where sources are said to arrive.
    let listeners = listeners.into_iter().skip(1).collect();
    let recorder = RecorderConfig { run_id, timer, stream, own, listeners, ..recorder };
    recorder
        .check()
        .and_then(|()| recorder.check_cpus())
        .map_err(|error| refused(&located, &low, &recorder, &tables, &error))?;
    check_rule(&located, &low)?;
    accept::check(&located, &recorder)?;
    let (emulator, link_emulator) = match &low.emulator {
        Some(low) => emulators::emulators(&located, low, &recorder)?,
        None => (None, None),
    };
    let actions = control::actions(&located, &low)?;
    let control = control::control(&located, &low, &actions)?;
    let rules = control::rules(&located, &low, &recorder)?;
    let number = low.run.number;
    let resume_ns = low.run.resume.map_or(RESUME_NS, |time| time.0);
    Ok(High {
        recorder,
        number,
        resume_ns,
        emulator,
        actions,
        link_emulator,
        control,
        trains,
        layouts,
        rules,
        store: low.store.as_ref().map(|low| store::store(&located, low)).transpose()?,
    })
}

/// As [`load`], and checks that the run's folder can be written.
///
/// # Errors
/// As [`load`], or why the folder cannot be had.
pub fn load_to_record(path: &Path) -> Result<High, ConfigFileError> {
    let high = load(path)?;
    let located = Located::parse(path, &high.recorder.text)?;
    let targets = high.recorder.targets.iter().enumerate();
    let folders = targets.filter(|(_, target)| target.required);
    let folders = folders.flat_map(|(index, target)| {
        let folders = target.place.folders();
        let key = if folders.len() > 1 { "folders" } else { "folder" };
        folders.iter().map(move |folder| (format!("targets[{index}].{key}"), folder.as_path()))
    });
    let own = ("run.folder".to_owned(), high.recorder.folder.as_path());
    let own = high.recorder.targets.is_empty().then_some(own);
    for (key, folder) in own.into_iter().chain(folders) {
        folder::check(folder).map_err(|error| located.error(&key, error))?;
    }
    Ok(high)
}

/// The run's folder and number, and when one that was interrupted goes on.
fn check_run(located: &Located<'_>, low: &Low) -> Result<(), ConfigFileError> {
    within(located, "run.resume", low.run.resume, 0..=24 * H)?;
    within(located, "run.edge", low.run.edge, 0..=H)?;
    let resume = low.listen.first().and_then(|listen| listen.resume);
    within(located, "listen[0].resume", resume, 0..=H)?;
    match low.run.number {
        Some(number) if !(1..=RUN_NUMBER_MAX).contains(&number) => {
            let message = format!("expected 1 to {RUN_NUMBER_MAX}, got {number}");
            Err(located.error("run.number", message))
        }
        _ => Ok(()),
    }
}

/// What one rule of building is set by is refused beside the other.
fn check_rule(located: &Located<'_>, low: &Low) -> Result<(), ConfigFileError> {
    let (of_other, other, got): (&[&str], _, _) = match low.build.rule {
        MatchRule::Number => (&["time"], "time", "number"),
        MatchRule::Time => (&["window_events", "reorder_events"], "number", "time"),
    };
    let given = of_other.iter().find(|key| located.has("build", key));
    let expected = format!("build.match = {other:?} beside it");
    given.map_or(Ok(()), |key| Err(located.expected(&format!("build.{key}"), &expected, got)))
}

/// The run's identity, if it is given, or who gives it, and this node's number among those that
/// record it.
fn identity(located: &Located<'_>, low: &Low) -> Result<Identity, ConfigFileError> {
    let RunLow { id, timer, stream, own, .. } = &low.run;
    let timer = timer.map(|Address(timer)| timer);
    let error = |key: &str, message: &str| Err(located.error(key, message.to_owned()));
    let run_id = match id {
        Some(_) if timer.is_some() => {
            return error("run.timer", "expected run.id or run.timer, got both");
        }
        None if timer.is_none() && stream.is_some() => {
            let expected = "expected run.id or run.timer beside it, the same for all nodes of the \
                            run";
            return error("run.stream", expected);
        }
        None if timer.is_none() => return Ok(Identity::default()),
        None => None,
        Some(id) => {
            let expected = |_| located.expected("run.id", "32 hexadecimal digits", id);
            Some(id.parse().map_err(expected)?)
        }
    };
    // Nodes that take turns have different ones.
    let stream = stream.unwrap_or(own.remainder);
    if stream > STREAM_MAX {
        return error("run.stream", &format!("expected 0 to {STREAM_MAX}, got {stream}"));
    }
    Ok(Identity { run_id, timer, stream })
}

/// Which run it is, as one of which node.
#[derive(Default)]
struct Identity {
    run_id: Option<RunId>,
    timer: Option<SocketAddr>,
    stream: u32,
}

/// The events that the node builds.
fn own(located: &Located<'_>, low: OwnLow) -> Result<OwnedKeys, ConfigFileError> {
    let OwnLow { modulo, remainder } = low;
    if !(1..=OWN_MODULO_MAX).contains(&modulo) {
        let message = format!("expected 1 to {OWN_MODULO_MAX}, got {modulo}");
        return Err(located.error("run.own.modulo", message));
    }
    match KeyRule::modulo(modulo, remainder) {
        // One that owns all keys needs no rule.
        Ok(_) if modulo == 1 => Ok(OwnedKeys::all()),
        Ok(rule) => Ok(OwnedKeys::new(rule)),
        Err(_) => {
            let message = format!("expected 0 to {}, got {remainder}", modulo - 1);
            Err(located.error("run.own.remainder", message))
        }
    }
}

/// What the recorder refuses, where it is written; `tables` are those of its sources.
fn refused(
    located: &Located<'_>,
    low: &Low,
    recorder: &RecorderConfig,
    tables: &[String],
    error: &ConfigError,
) -> ConfigFileError {
    // Where the duration of frames is not written, the slice is the value at fault.
    let slice = low.links.iter().position(|link| link.slice.is_some());
    if let (Some(index), "frame.duration", false) =
        (slice, &*error.key, located.has("frame", "duration"))
    {
        let duration = Time(recorder.frame.duration_ns);
        let expected = format!("a whole part of frame.duration, {duration}");
        let got = Time(recorder.links[index].slice_ns).to_string();
        return located.expected(&format!("links[{index}].slice"), &expected, &got);
    }
    let mut got = error.got.clone();
    if error.key == "memory.budget" && low.memory.budget.is_none() {
        got += &SystemMemory::now().default_words();
    }
    located.expected(&written(&error.key, low, recorder, tables), &error.expected, &got)
}

/// The key of the file for a key of the recorder's, whose sources are single ones and of groups,
/// and whose channels begin with those of the link's preset.
fn written(key: &str, low: &Low, recorder: &RecorderConfig, tables: &[String]) -> String {
    let of = |key: &str, list: &str| {
        let (index, rest) = key.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
        Some((index.parse::<usize>().ok()?, rest.to_owned()))
    };
    if let Some((index, rest)) = of(key, "sources") {
        return format!("{}{rest}", tables[index]);
    }
    let Some((link, rest)) = of(key, "links") else { return key.to_owned() };
    let Some((channel, rest)) = of(&rest, ".channels") else { return key.to_owned() };
    let preset = recorder.links[link].channels.len() - low.links[link].channels.len();
    match channel.checked_sub(preset) {
        // A preset's channel is not written in the file.
        None => format!("links[{link}].preset"),
        Some(channel) => format!("links[{link}].channels[{channel}]{rest}"),
    }
}

/// Checks a time, if there is one, against its bounds.
fn within(
    located: &Located<'_>,
    key: &str,
    time: Option<Time>,
    bounds: RangeInclusive<u64>,
) -> Result<(), ConfigFileError> {
    let Some(got) = time.filter(|time| !bounds.contains(&time.0)) else { return Ok(()) };
    let (first, last) = (Time(*bounds.start()), Time(*bounds.end()));
    Err(located.error(key, format!("expected {first} to {last}, got {got}")))
}

/// Where data come from, and where they go.
type Endpoints = (Vec<SourceConfig>, Vec<LinkConfig>, (PathBuf, Vec<TargetConfig>));

fn recorder(
    located: &Located<'_>,
    low: &Low,
    (sources, links, (folder, targets)): Endpoints,
    accept: Vec<Accept>,
    text: &str,
) -> RecorderConfig {
    let new = RecorderConfig { accept, ..RecorderConfig::new(folder, sources) };
    let (mut frame, mut write) = (low.frame.clone(), low.write.clone());
    let front_ends = new.has_front_ends();
    if front_ends && !located.has("frame", "bytes") {
        frame.bytes = link_frame_bytes(new.sources.len());
    }
    if front_ends && !located.has("frame", "time") {
        frame.time_ns = LINK_FRAME_TIME_NS;
    }
    if front_ends && !located.has("write", "sync_interval") {
        write.sync_interval_ns = LINK_SYNC_NS;
    }
    if front_ends && !located.has("write", "sync_bytes") {
        write.sync_bytes = Some(LINK_SYNC_BYTES);
    }
    if front_ends && !located.has("write", "buffer_bytes") {
        let (bytes, count) = link_buffers(new.sources.len());
        write.buffer_bytes = bytes;
        if !located.has("write", "buffer_count") {
            write.buffer_count = count;
        }
    }
    let mut build = low.build.clone();
    if !located.has("build", "reorder_events") {
        // As usual, or as much as the window allows.
        build.reorder_events = build.reorder_events.min(build.window_events / 2);
    }
    RecorderConfig {
        text: text.to_owned(),
        targets,
        run_number: low.run.number.unwrap_or(new.run_number),
        memory_bytes: low.memory.budget.map_or(new.memory_bytes, u64::from),
        receive: low.receive.clone(),
        build,
        frame: FrameConfig { codings: links::codings(low), ..frame },
        encode: low.encode.clone(),
        // Channels and the recorder's counters have trends unless the file says otherwise.
        trends: low.trends.enabled.unwrap_or(true),
        links,
        access: low.listen.first().map_or_else(LinkAccess::default, ListenLow::access),
        edge_ns: low.run.edge.map_or(new.edge_ns, |time| time.0),
        write,
        ..new
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

/// How old an interrupted run may be to go on, unless the file says otherwise.
const RESUME_NS: u64 = 60_000 * MS;
/// Nodes that may take turns.
const OWN_MODULO_MAX: u32 = 65_536;
const STREAM_MAX: u32 = OWN_MODULO_MAX - 1;
const MS: u64 = 1_000_000;
const H: u64 = 3_600_000 * MS;

#[cfg(test)]
mod tests;
