//! The watched properties of a configuration's sources and links.

use catchment_builder::SourceRole;
use catchment_recorder::RecorderConfig;
use catchment_watch::{Limits, ReadingTable};

use crate::api;

/// The properties of a source besides its counters.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: &'static str,
    pub(super) required: bool,
    /// The networks from which it may send.
    pub(super) from: Vec<String>,
    /// What is added to its times, as configured.
    pub(super) time_offset_ns: i64,
}

/// A configuration's sources, its limits, and how often its frames are recorded.
pub(super) fn described(
    config: &RecorderConfig,
    heavy_loss_share: f64,
) -> (Vec<Source>, Limits, u64) {
    let frame_ns = match config.links.is_empty() {
        true => config.frame.time_ns,
        false => config.frame.time_ns.max(config.frame.duration_ns),
    };
    let sources = config.sources.iter().map(|source| Source {
        name: source.name.clone(),
        group: source.group.clone(),
        kind: "events",
        required: source.role == SourceRole::Required,
        from: source.from.iter().map(ToString::to_string).collect(),
        time_offset_ns: source.clock.offset_ns,
    });
    let links = config.links.iter().map(|link| Source {
        name: link.name.clone(),
        group: link.group.clone(),
        kind: "channels",
        required: true,
        from: link.from.iter().map(ToString::to_string).collect(),
        time_offset_ns: 0,
    });
    let mut limits = Limits { heavy_loss_share, ..Limits::of_frames(frame_ns) };
    // What goes to a spill has waited for its target.
    limits.recorded_ns = limits.recorded_ns.saturating_add(config.spill_wait_ns());
    (sources.chain(links).collect(), limits, limits.recorded_ns / 3)
}

/// No readings yet, of sources in their groups.
pub(super) fn grouped_readings(sources: &[Source]) -> ReadingTable {
    let mut readings = ReadingTable::default();
    for source in sources {
        readings.set_group("source", &source.name, &source.group);
    }
    readings
}

/// Worst first.
pub(super) fn rank(source: &api::SourceState) -> u32 {
    match (source.status.as_str(), source.required) {
        ("silent", true) => 0,
        ("never", true) => 1,
        ("out_of_step", _) => 2,
        ("loss", _) => 3,
        ("bad_data", _) => 4,
        ("silent", false) => 5,
        ("never" | "off", _) => 6,
        _ => 7,
    }
}

pub(super) fn lost_first(source: &api::SourceState) -> std::cmp::Reverse<u64> {
    std::cmp::Reverse(source.loss.values().sum())
}
