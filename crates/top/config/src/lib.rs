//! Configuration: from the text that people write (`low`) to values that were checked ([`High`]).
//!
//! Everything is checked before anything starts. A [`ConfigFileError`] names file, line and column,
//! what was expected and what was there. [`Hades90`] is a preset as a configuration text;
//! [`edit::set`] changes one value of a text. `reference.txt` has a line for every key, from which
//! the page docs/reference/configuration.md is made.

mod control;
pub mod edit;
mod emulators;
mod folder;
mod links;
mod locate;
mod low;
mod preset;
mod sources;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use catchment_builder::{IncompletePolicy, TIMEOUT_NS_MIN};
use catchment_catalog::RUN_NUMBER_MAX;
use catchment_disk::EngineChoice;
use catchment_emulator::{EmulatorConfig, LinkEmulatorConfig};
use catchment_frame::ColumnCoding;
use catchment_recorder::{
    BuildConfig, FrameConfig, LinkConfig, ReceiveConfig, RecorderConfig, SourceConfig,
    SystemMemory, WriteConfig,
};

pub use control::Control;
pub use emulators::RATE_HZ_DEFAULT;
pub use links::emulated as emulated_links;
pub use locate::ConfigFileError;
pub use low::{Address, Rate, Size, Time};
pub use preset::Hades90;
pub use sources::counted_up;

use locate::Located;
use low::{EngineLow, Incomplete, Low};

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub struct High {
    /// The recorder.
    pub recorder: RecorderConfig,
    /// The number that the run is to have, if the file says one.
    pub number: Option<u64>,
    /// The emulator of its sources, if the file has one; its targets are the sources' addresses.
    pub emulator: Option<EmulatorConfig>,
    /// The actions of alarms, on a node that is controlled as the file says or otherwise.
    pub actions: Vec<catchment_control::Action>,
    /// The emulator of its links, if the file asks for one.
    pub link_emulator: Option<LinkEmulatorConfig>,
    /// How the node is controlled, if the file says.
    pub control: Option<Control>,
    /// Rules of alarms.
    pub rules: Vec<catchment_control::Rule>,
}

/// Reads and checks a file.
///
/// # Errors
/// What is wrong with it and where, or that it cannot be read.
pub fn load(path: &Path) -> Result<High, ConfigFileError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigFileError {
        file: path.to_owned(),
        place: None,
        message: format!("cannot be read: {error}"),
    })?;
    check(path, &text)
}

/// Checks a text; `path` is for messages.
///
/// # Errors
/// What is wrong with it and where.
pub fn check(path: &Path, text: &str) -> Result<High, ConfigFileError> {
    let located = Located::parse(path, text)?;
    let low: Low = located.read()?;
    check_run(&located, &low)?;
    check_bounds(&located, &low)?;
    check_cpus(&located, &low)?;
    let sources = sources::sources(&located, &low)?;
    let links = links::links(&located, &low)?;
    let recorder = recorder(&low, sources, links, text);
    if let Err(error) = recorder.check() {
        // Where the duration of frames is not written, the slice is the value at fault.
        let slice = low.links.iter().position(|link| link.slice.is_some());
        if let (Some(index), "frame.duration", None) = (slice, &*error.key, low.frame.duration) {
            let duration = Time(recorder.frame.duration_ns);
            let got = Time(recorder.links[index].slice_ns);
            let message = format!("expected a whole part of frame.duration, {duration}, got {got}");
            return Err(located.error(&format!("links[{index}].slice"), message));
        }
        let key = match error.key.as_str() {
            "memory" => "memory.budget",
            key => key,
        };
        let whose = match key {
            "memory.budget" if low.memory.budget.is_none() => SystemMemory::now().default_words(),
            _ => String::new(),
        };
        let message = format!("expected {}, got {}{whose}", error.expected, error.got);
        return Err(located.error(key, message));
    }
    let (emulator, link_emulator) = match &low.emulator {
        Some(low) => emulators::emulators(&located, low, &recorder)?,
        None => (None, None),
    };
    let actions = control::actions(&located, &low)?;
    let control = control::control(&located, &low, &actions)?;
    let rules = control::rules(&located, &low, &recorder)?;
    let number = low.run.number;
    Ok(High { recorder, number, emulator, link_emulator, actions, control, rules })
}

/// As [`load`], and checks that the run's folder can be written.
///
/// # Errors
/// As [`load`], or why the folder cannot be had.
pub fn load_to_record(path: &Path) -> Result<High, ConfigFileError> {
    let high = load(path)?;
    if let Err(error) = folder::check(&high.recorder.folder) {
        let located = Located::parse(path, &high.recorder.text)?;
        return Err(located.error("run.folder", error));
    }
    Ok(high)
}

/// The run's folder and number.
fn check_run(located: &Located<'_>, low: &Low) -> Result<(), ConfigFileError> {
    if low.run.folder.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
        let message = "expected a folder, such as \".\" for the present one, got \"\"";
        return Err(located.error("run.folder", message));
    }
    match low.run.number {
        Some(number) if !(1..=RUN_NUMBER_MAX).contains(&number) => {
            let message = format!("expected 1 to {RUN_NUMBER_MAX}, got {number}");
            Err(located.error("run.number", message))
        }
        _ => Ok(()),
    }
}

/// Bounds of times and sizes beyond which a value has no effect.
fn check_bounds(located: &Located<'_>, low: &Low) -> Result<(), ConfigFileError> {
    let (receive, frame, write) = (&low.receive, &low.frame, &low.write);
    for (key, time, bounds) in [
        // A receive thread looks for other work every 20 ms.
        ("receive.spin", receive.spin, 0..=20 * MS),
        ("receive.coalesce", receive.coalesce, 0..=20 * MS),
        ("build.timeout", low.build.timeout, TIMEOUT_NS_MIN..=H),
        ("frame.time", frame.time, MS..=H),
        ("frame.duration", frame.duration, MS..=24 * H),
        ("write.file_time", write.file_time, 100 * MS..=8_760 * H),
        // Without a pause the disk would do nothing else; hours of data must not be at risk.
        ("write.sync_interval", write.sync_interval, MS..=H),
    ] {
        within(located, key, time, bounds)?;
    }
    // The kernel counts a buffer's bytes twice, in 31 bits.
    if let Some(Size(bytes)) = receive.socket_buffer.filter(|size| size.0 > 1 << 30) {
        let message = format!("expected at most 1 GiB, got {bytes} bytes");
        return Err(located.error("receive.socket_buffer", message));
    }
    Ok(())
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

/// CPUs that this machine must have.
fn check_cpus(located: &Located<'_>, low: &Low) -> Result<(), ConfigFileError> {
    let there = catchment_net::cpus();
    let receive = low.receive.cpus.iter().flatten().map(|&cpu| ("receive.cpus", cpu));
    let others = [
        ("build.cpu", low.build.cpu),
        ("write.cpu", low.write.cpu),
        ("emulator.cpu", low.emulator.as_ref().and_then(|emulator| emulator.cpu)),
    ];
    let others = others.into_iter().filter_map(|(key, cpu)| Some((key, cpu?)));
    for (key, cpu) in receive.chain(others) {
        if !there.contains(&cpu) {
            let there: Vec<String> = there.iter().map(ToString::to_string).collect();
            let expected = format!("expected a CPU of this machine ({})", there.join(", "));
            return Err(located.error(key, format!("{expected}, got {cpu}")));
        }
    }
    Ok(())
}

fn recorder(
    low: &Low,
    sources: Vec<SourceConfig>,
    links: Vec<LinkConfig>,
    text: &str,
) -> RecorderConfig {
    let folder = low.run.folder.clone().unwrap_or_else(|| PathBuf::from("runs"));
    let mut config = RecorderConfig::new(folder, sources);
    config.text = text.to_owned();
    set(&mut config.run_number, low.run.number);
    set(&mut config.memory_bytes, low.memory.budget.map(|size| size.0));
    config.receive = receive(low);
    config.build = build(low);
    config.frame = frame(low);
    set(&mut config.encode.threads, low.encode.threads);
    set(&mut config.encode.bytes, low.encode.bytes.map(bytes));
    config.frame.codings = links::codings(low, ColumnCoding::Auto);
    // Channels and the recorder's counters have trends unless somebody says otherwise.
    config.trends = low.trends.enabled.unwrap_or(true);
    config.links = links;
    config.write = write(low);
    config
}

fn receive(low: &Low) -> ReceiveConfig {
    let mut config = ReceiveConfig::default();
    let low = &low.receive;
    set(&mut config.threads, low.threads);
    set(&mut config.link_threads, low.link_threads);
    set(&mut config.cpus, low.cpus.clone());
    set(&mut config.spin_us, low.spin.map(|time| time.0 / 1_000));
    set(&mut config.coalesce_us, low.coalesce.map(|time| time.0 / 1_000));
    set(&mut config.socket_buffer_bytes, low.socket_buffer.map(bytes));
    config
}

fn build(low: &Low) -> BuildConfig {
    let mut config = BuildConfig::default();
    let low = &low.build;
    config.cpu = low.cpu;
    set(&mut config.timeout_ns, low.timeout.map(|time| time.0));
    set(&mut config.window_events, low.window_events);
    // As usual, or as much as the window allows.
    let usual = config.reorder_events.min(config.window_events / 2);
    config.reorder_events = low.reorder_events.unwrap_or(usual);
    let incomplete = low.incomplete.map(|policy| match policy {
        Incomplete::Keep => IncompletePolicy::Keep,
        Incomplete::Drop => IncompletePolicy::Drop,
    });
    set(&mut config.incomplete, incomplete);
    config
}

fn frame(low: &Low) -> FrameConfig {
    let mut config = FrameConfig::default();
    let low = &low.frame;
    set(&mut config.bytes, low.bytes.map(|size| size.0));
    set(&mut config.time_ns, low.time.map(|time| time.0));
    set(&mut config.duration_ns, low.duration.map(|time| time.0));
    set(&mut config.channel_bytes, low.channel_bytes.map(|size| size.0));
    config
}

fn write(low: &Low) -> WriteConfig {
    let mut config = WriteConfig::default();
    let low = &low.write;
    config.cpu = low.cpu;
    set(&mut config.file_bytes, low.file_bytes.map(|size| size.0));
    config.file_time_ns = low.file_time.map(|time| time.0);
    set(&mut config.sync_interval_ns, low.sync_interval.map(|time| time.0));
    let engine = low.engine.map(|engine| match engine {
        EngineLow::Auto => EngineChoice::Auto,
        EngineLow::Uring => EngineChoice::Uring,
        EngineLow::Portable => EngineChoice::Portable,
    });
    set(&mut config.engine, engine);
    set(&mut config.buffer_bytes, low.buffer_bytes.map(bytes));
    set(&mut config.buffer_count, low.buffer_count);
    set(&mut config.preallocate_bytes, low.preallocate_bytes.map(|size| size.0));
    config
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

const MS: u64 = 1_000_000;
const H: u64 = 3_600_000 * MS;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
