//! Configuration: from the text that people write (`low`) to values that were checked (here).
//!
//! Everything is checked before anything starts. What is wrong is said with file, line, column,
//! what was expected and what was there.

mod control;
pub(crate) mod edit;
mod folder;
mod links;
mod locate;
mod low;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use catchment_builder::{IncompletePolicy, SourceRole, TIMEOUT_NS_MIN};
use catchment_catalog::RUN_NUMBER_MAX;
use catchment_disk::EngineChoice;
use catchment_emulator::{EmulatedSource, EmulatorConfig, Faults, LinkEmulatorConfig};
use catchment_model::limits::{DATAGRAM_BYTES_MAX, SOURCES_MAX};
use catchment_net::Network;
use catchment_recorder::{
    BuildConfig, FrameConfig, LinkConfig, ReceiveConfig, RecorderConfig, SourceConfig,
    SystemMemory, WriteConfig, check_from,
};
use catchment_wire::hadtu::{ByteOrder, PAYLOAD_BYTES_MAX};

pub(crate) use control::Control;
pub(crate) use links::emulated as emulated_links;
pub(crate) use locate::ConfigFileError;
pub use locate::near_matches;
pub(crate) use low::{Address, CodecLow, Rate, Size, SourceEvent, Time};

use locate::Located;
use low::{EmulatorLow, Incomplete, Low, Preset, RoleLow, Sender, SourceGroupLow};

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub(crate) struct High {
    /// The recorder.
    pub(crate) recorder: RecorderConfig,
    /// The number that the run is to have, if the file says one.
    pub(crate) number: Option<u64>,
    /// The emulator of its sources, if the file has one; its targets are the sources' addresses.
    pub(crate) emulator: Option<EmulatorConfig>,
    /// What alarms do, on a node that is controlled as the file says or otherwise.
    pub(crate) actions: Vec<catchment_control::Action>,
    /// The emulator of its links, if the file asks for one.
    pub(crate) link_emulator: Option<LinkEmulatorConfig>,
    /// How the node is controlled, if the file says.
    pub(crate) control: Option<Control>,
    /// Rules of alarms.
    pub(crate) rules: Vec<catchment_control::Rule>,
}

/// Reads and checks a file.
///
/// # Errors
/// What is wrong with it and where ([`ConfigFileError`]), or that it cannot be read.
pub(crate) fn load(path: &Path) -> anyhow::Result<High> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigFileError {
        file: path.to_owned(),
        place: None,
        message: format!("cannot be read: {error}"),
    })?;
    Ok(check(path, &text)?)
}

/// Checks a text; `path` is for messages.
///
/// # Errors
/// What is wrong with it and where.
pub(crate) fn check(path: &Path, text: &str) -> Result<High, ConfigFileError> {
    let located = Located::parse(path, text)?;
    let low: Low = located.read()?;
    check_run(&located, &low)?;
    check_bounds(&located, &low)?;
    check_cpus(&located, &low)?;
    let sources = sources(&located, &low)?;
    let links = links::links(&located, &low)?;
    let recorder = recorder(&low, (sources, links), text);
    if let Err(error) = recorder.check() {
        // The slice is what was written, where the duration of frames was not.
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
        Some(low) => emulators(&located, low, &recorder)?,
        None => (None, None),
    };
    let actions = control::actions(&located, &low)?;
    let control = control::control(&located, &low, &actions)?;
    let rules = control::rules(&located, &low, &recorder)?;
    let number = low.run.number;
    Ok(High { recorder, number, emulator, link_emulator, actions, control, rules })
}

/// Checks also what a run would find out when it begins: that its folder can be written.
///
/// # Errors
/// As [`load`], or why the folder cannot be had.
pub(crate) fn load_to_record(path: &Path) -> anyhow::Result<High> {
    let high = load(path)?;
    if let Err(error) = folder::check(&high.recorder.folder) {
        let located = Located::parse(path, &high.recorder.text)?;
        return Err(located.error("run.folder", error).into());
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

/// Times and sizes beyond which a value does not do what it says.
fn check_bounds(located: &Located<'_>, low: &Low) -> Result<(), ConfigFileError> {
    let (receive, frame, write) = (&low.receive, &low.frame, &low.write);
    for (key, time, bounds) in [
        // A receive thread looks at what else there is to do every 20 ms.
        ("receive.spin", receive.spin, 0..=20 * MS),
        ("receive.coalesce", receive.coalesce, 0..=20 * MS),
        ("build.timeout", low.build.timeout, TIMEOUT_NS_MIN..=H),
        ("frame.time", frame.time, MS..=H),
        ("frame.duration", frame.duration, MS..=24 * H),
        ("write.file_time", write.file_time, 100 * MS..=8_760 * H),
        // Without a pause the disk would do nothing else; after hours nobody knows what is safe.
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
    let there = crate::machine::cpus();
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
    (sources, links): (Vec<SourceConfig>, Vec<LinkConfig>),
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
    config.encode.rules = links::codec_rules(low);
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
    set(&mut config.codec, low.codec.map(|codec| codec.0));
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
        low::EngineLow::Auto => EngineChoice::Auto,
        low::EngineLow::Uring => EngineChoice::Uring,
        low::EngineLow::Portable => EngineChoice::Portable,
    });
    set(&mut config.engine, engine);
    set(&mut config.buffer_bytes, low.buffer_bytes.map(bytes));
    set(&mut config.buffer_count, low.buffer_count);
    set(&mut config.preallocate_bytes, low.preallocate_bytes.map(|size| size.0));
    config
}

fn sources(located: &Located<'_>, low: &Low) -> Result<Vec<SourceConfig>, ConfigFileError> {
    let mut sources = Vec::new();
    for (index, source) in low.sources.iter().enumerate() {
        if source.name.is_empty() {
            return Err(
                located.error(&format!("sources[{index}].name"), "expected a name, got \"\"")
            );
        }
        // Bit 31 is the error bit.
        if let Some(id) = source.sub_event_id.filter(|id| id >> 31 != 0) {
            let message = format!("expected an id below 0x80000000, got {id:#x}");
            return Err(located.error(&format!("sources[{index}].sub_event_id"), message));
        }
        let path = format!("sources[{index}].payload");
        let payload = source.payload.as_ref().map(|low| links::payload(located, &path, low));
        let path = format!("sources[{index}]");
        let from = senders(located, &path, source.from.as_deref(), source.address.0)?;
        sources.push(SourceConfig {
            name: source.name.clone(),
            group: source.group.clone().unwrap_or_else(|| "sources".into()),
            address: source.address.0,
            from,
            sub_event_id: source.sub_event_id,
            role: role(source.role),
            payload: payload.transpose()?,
        });
    }
    let singles = sources.len();
    let mut origins: Vec<String> = (0..singles).map(|index| format!("sources[{index}]")).collect();
    for (index, group) in low.source_groups.iter().enumerate() {
        let path = format!("source_groups[{index}]");
        expand(located, &path, group, &mut sources)?;
        origins.resize(sources.len(), path);
    }
    if sources.is_empty() && low.links.is_empty() {
        let expected = "expected [[sources]], [[source_groups]] or [[links]], got none";
        return Err(ConfigFileError { place: None, ..located.error("sources", expected) });
    }
    let mut names = std::collections::HashSet::new();
    let mut addresses = std::collections::HashSet::new();
    for (source, origin) in sources.iter().zip(&origins) {
        if !names.insert(&source.name) {
            let message = format!("expected a name used once, got {:?} again", source.name);
            return Err(located.error(&format!("{origin}.name"), message));
        }
        if source.address.port() != 0 && !addresses.insert(source.address) {
            let message = format!("expected a port used once, got {} again", source.address);
            return Err(located.error(&format!("{origin}.address"), message));
        }
    }
    Ok(sources)
}

/// Writes a group's sources out: ports and sub-event ids count up.
fn expand(
    located: &Located<'_>,
    path: &str,
    group: &SourceGroupLow,
    sources: &mut Vec<SourceConfig>,
) -> Result<(), ConfigFileError> {
    let error = |key: &str, message: String| Err(located.error(&format!("{path}.{key}"), message));
    let count = group.count;
    if count == 0 || count as usize > SOURCES_MAX {
        return error("count", format!("expected 1 to {SOURCES_MAX}, got {count}"));
    }
    let default = format!("{}-{{:03}}", group.group);
    let pattern = group.name.as_ref().unwrap_or(&default);
    let place = format!("{path}.payload");
    let payload = group.payload.as_ref().map(|low| links::payload(located, &place, low));
    let payload = payload.transpose()?;
    let from = senders(located, path, group.from.as_deref(), group.address.0)?;
    for index in 0..count {
        let Some(name) = numbered(pattern, index) else {
            let expected = "expected one place for the number such as \"hades-{:03}\"";
            return error("name", format!("{expected}, got {pattern:?}"));
        };
        let Some(address) = counted_up(group.address.0, index) else {
            let got = group.address.0;
            return error("address", format!("expected {count} ports up from here, got {got}"));
        };
        let sub_event_id = match group.first_sub_event_id {
            None => None,
            // Bit 31 is the error bit.
            Some(first) => match first.checked_add(index).filter(|id| id >> 31 == 0) {
                Some(id) => Some(id),
                None => {
                    let message = format!("expected ids below 0x80000000, got {first:#x} and up");
                    return error("first_sub_event_id", message);
                }
            },
        };
        sources.push(SourceConfig {
            name,
            group: group.group.clone(),
            address,
            from: from.clone(),
            sub_event_id,
            role: role(group.role),
            payload: payload.clone(),
        });
    }
    Ok(())
}

/// The networks that a source at that address may send from; `path` is the place of its table.
fn senders(
    located: &Located<'_>,
    path: &str,
    low: Option<&[Sender]>,
    address: SocketAddr,
) -> Result<Vec<Network>, ConfigFileError> {
    let path = format!("{path}.from");
    let from: Vec<Network> = low.unwrap_or_default().iter().map(|one| one.0).collect();
    if low.is_some() && from.is_empty() {
        return Err(
            located.error(&path, "expected a network, or no such key for anybody, got none")
        );
    }
    check_from(&path, &from, address).map_err(|error| {
        located.error(&path, format!("expected {}, got {}", error.expected, error.got))
    })?;
    Ok(from)
}

/// The emulators of the sources and, with their preset, of the links.
fn emulators(
    located: &Located<'_>,
    low: &EmulatorLow,
    recorder: &RecorderConfig,
) -> Result<(Option<EmulatorConfig>, Option<LinkEmulatorConfig>), ConfigFileError> {
    let (sources, links) = (&recorder.sources, &recorder.links);
    let of_links = low.preset == Some(Preset::Ligo1000);
    if of_links && links.is_empty() {
        return Err(located.error("emulator.preset", "expected [[links]] to emulate, got none"));
    }
    if !of_links && sources.is_empty() {
        let expected = "expected preset = \"ligo-1000\", with which links are emulated";
        return Err(located.error("emulator", format!("{expected}, or sources, got neither")));
    }
    check_emulator(located, low, sources.len())?;
    let emulator = (!sources.is_empty()).then(|| emulate(located, low, sources)).transpose()?;
    if !of_links {
        return Ok((emulator, None));
    }
    let mut emulated = emulated_links(links);
    set(&mut emulated.seed, low.seed);
    emulated.cpu = low.cpu;
    let faults = &low.faults;
    let (lose, duplicate) = (faults.lose, faults.duplicate);
    let (reorder, corrupt) = (faults.reorder, faults.corrupt);
    emulated.faults = Faults { lose, duplicate, reorder, corrupt, ..Faults::default() };
    Ok((emulator, Some(emulated)))
}

fn emulate(
    located: &Located<'_>,
    low: &EmulatorLow,
    recorded: &[SourceConfig],
) -> Result<EmulatorConfig, ConfigFileError> {
    let mut sources = Vec::with_capacity(recorded.len());
    for source in recorded {
        let own = low.sizes.iter().find(|sizes| sizes.group == source.group);
        let (mean_bytes, sigma) = match (own, preset_sizes(low.preset, &source.group)) {
            (Some(own), _) => (own.mean.0 as f64, own.sigma.unwrap_or(0.2)),
            (None, Some(preset)) => preset,
            (None, None) => {
                let message = format!(
                    "expected [[emulator.sizes]] for the group {:?} or a preset that has it, got none",
                    source.group
                );
                return Err(located.error("emulator", message));
            }
        };
        let Some(sub_event_id) = source.sub_event_id else {
            let message = format!("expected a sub-event id for {:?}, got none", source.name);
            return Err(located.error("emulator", message));
        };
        sources.push(EmulatedSource {
            group: source.group.clone(),
            mean_bytes,
            sigma,
            sub_event_id,
        });
    }
    Ok(EmulatorConfig {
        targets: recorded.iter().map(|source| source.address).collect(),
        ..emulator(low, sources)
    })
}

/// The bounds that [`catchment_emulator`] has too, said where they are written.
fn check_emulator(
    located: &Located<'_>,
    low: &EmulatorLow,
    sources: usize,
) -> Result<(), ConfigFileError> {
    let error =
        |key: &str, message: String| Err(located.error(&format!("emulator.{key}"), message));
    for (index, sizes) in low.sizes.iter().enumerate() {
        let (mean, sigma) = (sizes.mean.0, sizes.sigma.unwrap_or(0.0));
        if !(4..=PAYLOAD_BYTES_MAX as u64).contains(&mean) {
            let message = format!("expected 4 to {PAYLOAD_BYTES_MAX} bytes, got {mean}");
            return error(&format!("sizes[{index}].mean"), message);
        }
        if !(0.0..=10.0).contains(&sigma) {
            let message = format!("expected a share of the mean, 0 to 10, got {sigma}");
            return error(&format!("sizes[{index}].sigma"), message);
        }
    }
    for (key, size, most) in [
        ("water_mark", low.water_mark, DATAGRAM_BYTES_MAX),
        ("huge_bytes", low.huge_bytes, PAYLOAD_BYTES_MAX),
    ] {
        if let Some(Size(bytes)) = size.filter(|size| size.0 > most as u64) {
            return error(key, format!("expected at most {most} bytes, got {bytes}"));
        }
    }
    if let Some(events) = low.equal_bursts.filter(|events| !(1..=1_024).contains(events)) {
        return error("equal_bursts", format!("expected 1 to 1024 events, got {events}"));
    }
    let faults = &low.faults;
    for (key, share) in [
        ("faults.lose", faults.lose),
        ("faults.duplicate", faults.duplicate),
        ("faults.reorder", faults.reorder),
        ("faults.corrupt", faults.corrupt),
        ("faults", faults.lose + faults.duplicate + faults.reorder + faults.corrupt),
    ] {
        if !(0.0..=1.0).contains(&share) {
            let message = format!("expected a share of the packets, 0 to 1, got {share}");
            return error(key, message);
        }
    }
    for (key, place) in [("faults.kill", faults.kill), ("faults.restart", faults.restart)] {
        if let Some(place) = place.filter(|place| place.source as usize >= sources) {
            return error(key, format!("expected a source below {sources}, got {}", place.source));
        }
    }
    Ok(())
}

fn emulator(low: &EmulatorLow, sources: Vec<EmulatedSource>) -> EmulatorConfig {
    let mut config = EmulatorConfig { sources, ..EmulatorConfig::default() };
    set(&mut config.seed, low.seed);
    config.rate_hz = low.rate.map_or(Some(RATE_HZ_DEFAULT), |rate| rate.0);
    set(&mut config.water_mark_bytes, low.water_mark.map(bytes));
    set(&mut config.huge_every, low.huge_every);
    set(&mut config.huge_bytes, low.huge_bytes.map(bytes));
    config.equal_bursts = low.equal_bursts;
    set(&mut config.first_event, low.first_event);
    config.events = low.events;
    config.cpu = low.cpu;
    let order = low.byte_order.map(|order| match order {
        low::ByteOrderLow::Little => ByteOrder::Little,
        low::ByteOrderLow::Big => ByteOrder::Big,
    });
    set(&mut config.byte_order, order);
    let place = |place: SourceEvent| (place.source, place.event);
    config.faults = Faults {
        lose: low.faults.lose,
        duplicate: low.faults.duplicate,
        reorder: low.faults.reorder,
        corrupt: low.faults.corrupt,
        kill: low.faults.kill.map(place),
        restart: low.faults.restart.map(place),
    };
    config
}

/// A group's mean size and spread in a preset.
fn preset_sizes(preset: Option<Preset>, group: &str) -> Option<(f64, f64)> {
    match preset? {
        Preset::Ligo1000 => None,
        Preset::Hades90 => catchment_emulator::hades_90()
            .into_iter()
            .find(|source| source.group == group)
            .map(|source| (source.mean_bytes, source.sigma)),
    }
}

fn role(low: RoleLow) -> SourceRole {
    match low {
        RoleLow::Required => SourceRole::Required,
        RoleLow::Optional => SourceRole::Optional,
        RoleLow::Disabled => SourceRole::Disabled,
    }
}

/// `hades-{:03}` and a number; none where the pattern has not exactly one place for it.
fn numbered(pattern: &str, number: u32) -> Option<String> {
    let (before, rest) = pattern.split_once('{')?;
    let (place, after) = rest.split_once('}')?;
    if after.contains(['{', '}']) || before.contains('}') {
        return None;
    }
    let width = match place.strip_prefix(":0") {
        Some(width) => width.parse::<usize>().ok().filter(|width| *width <= 16)?,
        None if place.is_empty() => 0,
        None => return None,
    };
    Some(format!("{before}{number:0width$}{after}"))
}

/// The address that many ports further; port 0 stays, since the system chooses.
pub(crate) fn counted_up(address: SocketAddr, by: u32) -> Option<SocketAddr> {
    if address.port() == 0 {
        return Some(address);
    }
    let port = u32::from(address.port()).checked_add(by)?;
    Some(SocketAddr::new(address.ip(), u16::try_from(port).ok()?))
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

/// What HADES ran at.
pub(crate) const RATE_HZ_DEFAULT: f64 = 4_000.0;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
