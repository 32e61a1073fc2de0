//! The emulators that a file describes: of its sources, and of its links.

use catchment_emulator::{
    ConfigError, EmulatedSource, EmulatorConfig, Faults, LinkEmulatorConfig, hades_90,
};
use catchment_net::check_cpu;
use catchment_recorder::{RecorderConfig, SourceConfig};
use catchment_wire::hadtu;

use crate::links::emulated;
use crate::locate::{ConfigFileError, Located};
use crate::low::{EmulatorLow, Preset};
use crate::set;

/// The emulators of the sources and, with their preset, of the links.
pub(crate) fn emulators(
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
    if let Some(cpu) = low.cpu {
        let refused =
            |expected: String| located.expected("emulator.cpu", &expected, &cpu.to_string());
        check_cpu(cpu).map_err(refused)?;
    }
    let emulator = emulate(located, low, sources)?;
    let emulator = (!sources.is_empty()).then_some(emulator);
    if !of_links {
        return Ok((emulator, None));
    }
    let mut emulated = emulated(links);
    set(&mut emulated.seed, low.seed);
    emulated.cpu = low.cpu;
    emulated.faults = Faults { kill: None, restart: None, ..low.faults };
    Ok((emulator, Some(emulated)))
}
fn emulate(
    located: &Located<'_>,
    low: &EmulatorLow,
    recorded: &[SourceConfig],
) -> Result<EmulatorConfig, ConfigFileError> {
    let refused = |error: ConfigError| {
        located.expected(&format!("emulator.{}", error.key), &error.expected, &error.got)
    };
    for (index, sizes) in low.sizes.iter().enumerate() {
        sizes.check(&format!("sizes[{index}]")).map_err(refused)?;
    }
    let preset = match low.preset {
        Some(Preset::Hades90) => hades_90(),
        _ => Vec::new(),
    };
    let mut sources = Vec::with_capacity(recorded.len());
    for source in recorded {
        let of_group = |sizes: &&EmulatedSource| sizes.group == source.group;
        let Some(sizes) = low.sizes.iter().chain(&preset).find(of_group) else {
            let message = format!(
                "expected [[emulator.sizes]] for the group {:?} or a preset that has it, got none",
                source.group
            );
            return Err(located.error("emulator", message));
        };
        if source.protocol.name() != hadtu::NAME {
            let (name, protocol) = (&source.name, source.protocol.name());
            let message = format!("expected hadtu as the protocol of {name:?}, got {protocol:?}");
            return Err(located.error("emulator", message));
        }
        let Some(sub_event_id) = source.id else {
            let message = format!("expected a sub-event id for {:?}, got none", source.name);
            return Err(located.error("emulator", message));
        };
        sources.push(EmulatedSource { sub_event_id, ..sizes.clone() });
    }
    let config = EmulatorConfig {
        targets: recorded.iter().map(|source| source.address).collect(),
        ..emulator(low, sources)
    };
    config.check_values().map_err(refused)?;
    Ok(config)
}

fn emulator(low: &EmulatorLow, sources: Vec<EmulatedSource>) -> EmulatorConfig {
    let mut config = EmulatorConfig { sources, ..EmulatorConfig::default() };
    set(&mut config.seed, low.seed);
    config.rate_hz = low.rate.map_or(Some(RATE_HZ_DEFAULT), |rate| rate.0);
    set(&mut config.water_mark_bytes, low.water_mark.map(usize::from));
    set(&mut config.huge_every, low.huge_every);
    set(&mut config.huge_bytes, low.huge_bytes.map(usize::from));
    config.equal_bursts = low.equal_bursts;
    set(&mut config.first_event, low.first_event);
    config.events = low.events;
    config.cpu = low.cpu;
    set(&mut config.byte_order, low.byte_order.map(Into::into));
    config.faults = low.faults;
    config
}

/// Events per second of an emulated HADES-like detector unless the file says otherwise: HADES' own.
pub const RATE_HZ_DEFAULT: f64 = 4_000.0;
