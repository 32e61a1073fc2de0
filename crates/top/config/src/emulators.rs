//! The emulators that a file describes: of its sources, and of its links.

use catchment_emulator::{
    Board, ConfigError, EmulatedSource, EmulatorConfig, Faults, LinkEmulatorConfig, alpha_72,
    hades_90, plain_board,
};
use catchment_net::check_cpu;
use catchment_recorder::{MatchRule, RecorderConfig, SourceConfig};
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
    let emulator = emulate(located, low, recorder)?;
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
    recorder: &RecorderConfig,
) -> Result<EmulatorConfig, ConfigFileError> {
    let recorded = &recorder.sources;
    let refused = |error: ConfigError| {
        located.expected(&format!("emulator.{}", error.key), &error.expected, &error.got)
    };
    for (index, sizes) in low.sizes.iter().enumerate() {
        sizes.check(&format!("sizes[{index}]")).map_err(refused)?;
    }
    let preset = match low.preset {
        Some(Preset::Hades90) => hades_90(),
        Some(Preset::Alpha72) => alpha_72(),
        _ => Vec::new(),
    };
    let mut sources = Vec::with_capacity(recorded.len());
    for source in recorded {
        let of_group = |sizes: &&EmulatedSource| sizes.group == source.group;
        let board = board(source, recorder);
        let plain = board.is_some().then(|| plain_board(&source.group));
        let Some(sizes) = low.sizes.iter().chain(&preset).chain(&plain).find(of_group) else {
            let message = format!(
                "expected [[emulator.sizes]] for the group {:?} or a preset that has it, got none",
                source.group
            );
            return Err(located.error("emulator", message));
        };
        if source.protocol.name() != hadtu::NAME && board.is_none() {
            let (name, protocol) = (&source.name, source.protocol.name());
            let message =
                format!("expected hadtu or a layout as the protocol of {name:?}, got {protocol:?}");
            return Err(located.error("emulator", message));
        }
        let has_none = board.is_some() && source.protocol.id_bits() == 0;
        let Some(sub_event_id) = source.id.or(has_none.then_some(0)) else {
            let message = format!("expected a sub-event id for {:?}, got none", source.name);
            return Err(located.error("emulator", message));
        };
        sources.push(EmulatedSource { sub_event_id, board, ..sizes.clone() });
    }
    let config = EmulatorConfig {
        targets: recorded.iter().map(|source| source.address).collect(),
        ..emulator(low, sources)
    };
    config.check_values().map_err(refused)?;
    Ok(config)
}

/// The board of a source whose packets are declared. A recorder adds the source's offset to its
/// times: its clock is as far ahead as that is negative.
fn board(source: &SourceConfig, recorder: &RecorderConfig) -> Option<Board> {
    let (ahead_ns, expected_in) = (source.clock.offset_ns.saturating_neg(), source.expected_in);
    let board = Board { ahead_ns, expected_in, ..Board::of(source.protocol.declared())? };
    Some(match recorder.build.rule {
        MatchRule::Time => {
            let most = recorder.build.time.fragments_max.unwrap_or(1);
            board.with_pieces(most.min(PIECES_MAX))
        }
        MatchRule::Number => board,
    })
}

/// The boards of a configuration that says no more of them, if all of its sources are declared:
/// fragments of 100 bytes.
///
/// # Errors
/// Why the packets of one of them are not emulated.
pub fn emulated_boards(recorder: &RecorderConfig) -> Result<Option<EmulatorConfig>, ConfigError> {
    let sources = &recorder.sources;
    let of_source = |source: &SourceConfig| {
        let board = Some(board(source, recorder)?);
        let sub_event_id = source.id.unwrap_or(0);
        Some(EmulatedSource { sub_event_id, board, ..plain_board(&source.group) })
    };
    let Some(emulated) = sources.iter().map(of_source).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let config = EmulatorConfig {
        targets: sources.iter().map(|source| source.address).collect(),
        sources: emulated,
        rate_hz: Some(RATE_HZ_DEFAULT),
        water_mark_bytes: 0,
        ..EmulatorConfig::default()
    };
    config.check_values().map(|()| Some(config).filter(|config| !config.sources.is_empty()))
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
    config.clocks = low.clocks;
    config
}

/// Fragments of one event that a board sends at most.
const PIECES_MAX: u32 = 4;
/// Events per second of an emulated HADES-like detector unless the file says otherwise: HADES' own.
pub const RATE_HZ_DEFAULT: f64 = 4_000.0;
