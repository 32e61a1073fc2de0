//! The readings for rules of alarms at one moment.

use std::collections::BTreeSet;

use catchment_model::Entry;
use catchment_recorder::{Snapshot, State as RecorderState, TargetSnapshot};
use catchment_watch::{LossGrowth, ReadingTable};

use super::share::of_strangers;
use super::{Lately, Moment, targets};
use crate::{api, front_ends, machine};

/// Adds the readings for rules of alarms: everything that `quantities` names, and nothing else.
pub(super) fn read(
    table: &mut ReadingTable,
    moment: &Moment<'_>,
    rates: &api::Rates,
    lately: &Lately<'_>,
    sources: &[api::SourceState],
    losses: &[LossGrowth],
) {
    table.clear();
    table.set("events_per_second", rates.events_per_second);
    table.set("packets_per_second", rates.packets_per_second);
    table.set("bytes_per_second", rates.bytes_per_second);
    table.set("bytes_written_per_second", rates.bytes_written_per_second);
    table.set("loss_per_second", rates.loss_per_second);
    table.set("dead_time", lately.dead_time);
    table.set("interrupted_run", moment.interrupted_run as f64);
    if let Some(disk) = &moment.disk {
        table.set("disk.free_bytes", disk.free_bytes as f64);
    }
    if let Some(hours) = lately.lasts.disk_hours {
        table.set("disk.hours_left", hours);
    }
    table.set("memory.seconds_left", lately.lasts.memory_seconds.unwrap_or(NO_END_S));
    read_clock(table);
    let of_node = |device: &&api::Device| !front_ends::is_one(&device.path);
    read_devices(table, moment.devices.iter().filter(of_node));
    for spill in moment.spills {
        table.set_of("spill", &spill.target, "frames_lost", spill.frames_lost as f64);
        let fill = spill.bytes_waiting as f64 / spill.bytes_max.max(1) as f64;
        table.set_of("spill", &spill.target, "fill", fill);
        let seconds = lately.lasts.spills.get(&spill.target).copied().unwrap_or(NO_END_S);
        table.set_of("spill", &spill.target, "seconds_left", seconds);
    }
    // Also of a run that has ended: a target that it did not wait for may still have its disk hang.
    read_waits(table, moment);
    let Some(snapshot) = moment.snapshot.filter(|_| moment.run.is_some()) else { return };
    let counts = &snapshot.counts;
    table.set("rows_recorded", (counts.events_recorded + counts.slices_recorded) as f64);
    let fault = matches!(snapshot.state, RecorderState::Fault { .. });
    table.set("fault", f64::from(fault));
    table.set("loss_share", lately.loss_share);
    table.set("bad_share", lately.bad_share);
    table.set("sources_silent", lately.silent as f64);
    let with_loss: BTreeSet<usize> = losses.iter().map(|loss| loss.source).collect();
    table.set("sources_with_loss", with_loss.len() as f64);
    for (name, count) in counts.iter() {
        table.set(name, count as f64);
    }
    for (entry, count) in snapshot.ledger.total().iter() {
        table.set(entry.name(), count as f64);
    }
    for fill in &snapshot.fills {
        let share = fill.level as f64 / fill.capacity.max(1) as f64;
        table.set_of("queue", &fill.name, "fill", share);
    }
    let several = snapshot.targets.len() > 1;
    let shown = |one: &&TargetSnapshot| {
        let has_spill = one.spill.is_some();
        one.required && (several || one.folders.len() > 1 || has_spill || targets::is_node(one))
    };
    for target in snapshot.targets.iter().filter(shown) {
        let is_spilling = target.is_spilling();
        // What such a target does not take is not discarded.
        let (is_away, fault) = (target.away.is_some(), targets::is_faulty(target));
        table.set_of("target", &target.name, "fault", f64::from(fault && !is_away));
        table.set_of("target", &target.name, "away", f64::from(is_away && !is_spilling));
        if target.spill.is_some() {
            table.set_of("target", &target.name, "spilling", f64::from(is_spilling));
        }
    }
    let since_ns = moment.run.map_or(0, |(_, started)| moment.now_ns.saturating_sub(started));
    read_sources(table, snapshot, sources, since_ns);
}

/// Adds for how long the disk of each folder of a target is waited for, that of its spill included.
fn read_waits(table: &mut ReadingTable, moment: &Moment<'_>) {
    for target in moment.snapshot.iter().flat_map(|snapshot| &snapshot.targets) {
        let name = if target.required { "waits_seconds" } else { "best_effort_waits_seconds" };
        for folder in &target.folders {
            let thing = format!("{} ({})", target.name, folder.path.display());
            table.set_of("target", &thing, name, targets::waits_seconds(folder));
        }
    }
    // Only a required target has one.
    for spill in moment.spills {
        let thing = format!("{} ({})", spill.target, spill.folder);
        table.set_of("target", &thing, "waits_seconds", spill.waits_seconds);
    }
}

/// Adds how far the machine's clock is off, where that is known.
pub(super) fn read_clock(table: &mut ReadingTable) {
    if let Some(offset) = machine::clock_offset_seconds() {
        table.set("clock.offset_seconds", offset);
    }
}

/// Adds the numbers and truth values among the properties of devices.
pub(super) fn read_devices<'a>(
    table: &mut ReadingTable,
    devices: impl Iterator<Item = &'a api::Device>,
) {
    for device in devices {
        let name = device.path.rsplit('/').next().unwrap_or_default();
        for (property, value) in &device.properties {
            let number = value.as_f64().or_else(|| value.as_bool().map(f64::from));
            if let Some(number) = number {
                table.set_of("device", name, property, number);
            }
        }
    }
}

/// How long what is not being filled lasts: no end is in sight.
const NO_END_S: f64 = 1e9;

fn read_sources(
    table: &mut ReadingTable,
    snapshot: &Snapshot,
    sources: &[api::SourceState],
    since_ns: u64,
) {
    for source in sources {
        let name = &source.name;
        if let Some(fill) = source.fill {
            table.set_of("source", name, "fill", fill);
        }
        if source.required {
            let never = since_ns as f64 / 1e9;
            let age = source.last_packet_seconds.unwrap_or(never);
            table.set_of("source", name, "last_packet_seconds", age);
            let out_of_step = f64::from(source.status == "out_of_step");
            table.set_of("source", name, "out_of_step", out_of_step);
        }
        table.set_of("source", name, "packets_per_second", source.packets_per_second);
        table.set_of("source", name, "bytes_per_second", source.bytes_per_second);
        table.set_of("source", name, "loss_per_second", source.loss_per_second);
    }
    let of_sources = sources.iter().zip(&snapshot.alignment);
    let flooding = of_sources.map(|(one, fits)| (&*one.name, f64::from(fits.is_flooding)));
    table.set_each("source", "flooding", flooding);
    let strange = sources.iter().enumerate();
    let strange = strange.map(|(at, one)| (&*one.name, of_strangers(snapshot, at) as f64));
    table.set_each("source", "of_strangers", strange);
    // Including zeros: a series that first appears shows no rise.
    for &entry in Entry::ALL {
        let both = sources.iter().zip(&snapshot.ledger.sources);
        let values = both.map(|(source, counts)| (&*source.name, counts[entry] as f64));
        table.set_each("source", entry.name(), values);
    }
}
