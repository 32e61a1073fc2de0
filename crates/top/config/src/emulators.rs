//! The emulators that a file describes: of its sources, and of its links.

use catchment_emulator::{EmulatedSource, EmulatorConfig, Faults, LinkEmulatorConfig};
use catchment_model::limits::DATAGRAM_BYTES_MAX;
use catchment_recorder::{RecorderConfig, SourceConfig};
use catchment_wire::hadtu;
use catchment_wire::hadtu::{ByteOrder, PAYLOAD_BYTES_MAX};

use crate::links::emulated;
use crate::locate::{ConfigFileError, Located};
use crate::low::{ByteOrderLow, EmulatorLow, Preset, Size, SourceEvent};
use crate::{bytes, set};

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
    check_emulator(located, low, sources.len())?;
    let emulator = (!sources.is_empty()).then(|| emulate(located, low, sources)).transpose()?;
    if !of_links {
        return Ok((emulator, None));
    }
    let mut emulated = emulated(links);
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
                    "expected [[emulator.sizes]] for the group {:?} or a preset that has it, \
                     got none",
                    source.group
                );
                return Err(located.error("emulator", message));
            }
        };
        if source.protocol.name != hadtu::PROTOCOL.name {
            let (name, protocol) = (&source.name, source.protocol.name);
            let message = format!("expected hadtu as the protocol of {name:?}, got {protocol:?}");
            return Err(located.error("emulator", message));
        }
        let Some(sub_event_id) = source.id else {
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
    for (key, event) in [("faults.kill", faults.kill), ("faults.restart", faults.restart)] {
        if let Some(SourceEvent { source, .. }) = event.filter(|at| at.source as usize >= sources) {
            return error(key, format!("expected a source below {sources}, got {source}"));
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
        ByteOrderLow::Little => ByteOrder::Little,
        ByteOrderLow::Big => ByteOrder::Big,
    });
    set(&mut config.byte_order, order);
    let source_and_event = |at: SourceEvent| (at.source, at.event);
    config.faults = Faults {
        lose: low.faults.lose,
        duplicate: low.faults.duplicate,
        reorder: low.faults.reorder,
        corrupt: low.faults.corrupt,
        kill: low.faults.kill.map(source_and_event),
        restart: low.faults.restart.map(source_and_event),
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

/// Events per second of an emulated HADES-like detector unless the file says otherwise: HADES' own.
pub const RATE_HZ_DEFAULT: f64 = 4_000.0;
