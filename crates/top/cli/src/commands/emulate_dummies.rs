//! `catchment emulate midas-dummy`: front-ends that send fragments of one size over the event link.

use std::sync::atomic::Ordering::Relaxed;

use catchment_config::Address;
use catchment_console::{Exit, Out, UsageError};
use catchment_emulator::{DummyConfig, DummyReport, EmulatorLive, EmulatorThread};
use catchment_model::units::{Bytes, Count, grouped};

use super::emulate::{Arguments, follow};

/// What is emulated, by its name on the command line.
pub(super) const NAME: &str = "midas-dummy";

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let report = follow(EmulatorThread::start_dummies(configure(arguments)?)?, live_line, out)?;
    say_report(&report, out)?;
    let is_whole = report.not_confirmed == 0 && report.held_at_run_end == 0;
    Ok(if is_whole { Exit::Done } else { Exit::Loss })
}

fn configure(arguments: &Arguments) -> anyhow::Result<DummyConfig> {
    for (key, given) in [
        ("--multiple", arguments.multiple.is_some()),
        ("--links", arguments.links.is_some()),
        ("--slice", arguments.slice.is_some()),
        ("--water-mark", arguments.water_mark.is_some()),
        ("--huge-every", arguments.huge_every.is_some()),
        ("--equal-bursts", arguments.equal_bursts.is_some()),
        ("--fault", !arguments.fault.is_empty()),
    ] {
        if given {
            anyhow::bail!(UsageError(format!("{key} is not for front-ends")));
        }
    }
    let Some(Address(recorder)) = arguments.to else {
        anyhow::bail!(UsageError("expected --to IP:PORT, where the recorder listens".into()));
    };
    let config = DummyConfig::default();
    let bytes = arguments.bytes.map(|size| usize::try_from(size.0).unwrap_or(usize::MAX));
    Ok(DummyConfig {
        url: format!("catchment+tcp://{recorder}"),
        front_ends: arguments.front_ends.unwrap_or(config.front_ends),
        index: arguments.index.unwrap_or(config.index),
        fragment_bytes: bytes.unwrap_or(config.fragment_bytes),
        rate_hz: arguments.rate.and_then(|rate| rate.0),
        seconds: arguments.seconds,
        events: arguments.events,
        seed: arguments.seed.unwrap_or(config.seed),
        ..config
    })
}

fn live_line(live: &EmulatorLive, seconds: f64) -> String {
    let (fragments, bytes) = (live.events.load(Relaxed), live.bytes.load(Relaxed));
    format!(
        "{seconds:.1} s  {} fragments  {}  {}/s",
        grouped(fragments),
        Bytes(bytes),
        Bytes((bytes as f64 / seconds) as u64)
    )
}

fn say_report(report: &DummyReport, out: &mut Out) -> anyhow::Result<()> {
    if out.json {
        return Ok(out.object(report)?);
    }
    let seconds = report.seconds.max(1e-9);
    let bytes = report.fragments * report.fragment_bytes as u64;
    out.line(format_args!(
        "Sent {} fragments of {} in {:.1} s ({} fragments/s, {}/s), seed {}, {:.0} % of a CPU.",
        grouped(report.fragments),
        Bytes(report.fragment_bytes as u64),
        report.seconds,
        Count(report.fragments as f64 / seconds),
        Bytes((bytes as f64 / seconds) as u64),
        report.seed,
        report.cpu_ns as f64 / 1e7 / seconds
    ))?;
    for (what, count) in [
        ("not confirmed by the recorder", report.not_confirmed),
        ("held when their run ended", report.held_at_run_end),
    ] {
        if count > 0 {
            out.line(format_args!("  {what}: {} fragments", grouped(count)))?;
        }
    }
    Ok(())
}
