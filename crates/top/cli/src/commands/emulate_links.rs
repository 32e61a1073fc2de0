//! `catchment emulate` of channel links: a preset's, or those that a configuration file records.

use std::sync::atomic::Ordering::Relaxed;

use catchment_config::{Address, counted_up};
use catchment_console::{Exit, Out, UsageError};
use catchment_emulator::{
    EmulatedLink, EmulatorError, EmulatorLive, EmulatorThread, LinkEmulatorConfig,
    LinkEmulatorReport, channel_preset,
};
use catchment_model::units::{Bytes, Count, grouped};

use super::emulate::{Arguments, follow, say_faults};

/// The preset of that name with the given number of links; none if there is no such preset.
pub(crate) fn preset(arguments: &Arguments) -> anyhow::Result<Option<LinkEmulatorConfig>> {
    let Some(channels) = channel_preset(&arguments.what) else { return Ok(None) };
    let Some(Address(first)) = arguments.to else {
        anyhow::bail!(UsageError("expected --to IP:PORT, the first link's target".into()));
    };
    let targets: Vec<_> = (0..arguments.links.unwrap_or(1).max(1))
        .map(|index| counted_up(first, index))
        .collect::<Option<_>>()
        .ok_or_else(|| UsageError(format!("--to {first}: there are not enough ports above")))?;
    let links = EmulatedLink::dealt(channels.len(), &targets);
    Ok(Some(LinkEmulatorConfig { channels, links, ..LinkEmulatorConfig::default() }))
}

pub(crate) fn run(
    mut config: LinkEmulatorConfig,
    arguments: &Arguments,
    out: &mut Out,
) -> anyhow::Result<Exit> {
    override_by(&mut config, arguments)?;
    let slice_ns = config.slice_ns;
    let sender = match EmulatorThread::start_links(config) {
        Err(error @ EmulatorError::Config(_)) => {
            anyhow::bail!(UsageError(format!("emulate: {error}")));
        }
        other => other?,
    };
    let report = follow(sender, |live, seconds| live_line(live, slice_ns, seconds), out)?;
    say_report(&report, out)?;
    Ok(Exit::Done)
}

fn override_by(config: &mut LinkEmulatorConfig, arguments: &Arguments) -> anyhow::Result<()> {
    for (key, given) in [
        ("--rate", arguments.rate.is_some()),
        ("--water-mark", arguments.water_mark.is_some()),
        ("--huge-every", arguments.huge_every.is_some()),
        ("--equal-bursts", arguments.equal_bursts.is_some()),
        ("--events", arguments.events.is_some()),
    ] {
        if given {
            anyhow::bail!(UsageError(format!("{key} is for sources of events, not for channels")));
        }
    }
    if config.links.iter().any(|link| link.target.port() == 0) {
        anyhow::bail!(UsageError("expected links with ports to send to, got port 0".into()));
    }
    if let Some(multiple) = arguments.multiple {
        config.multiple = multiple.0;
    }
    config.slice_ns = arguments.slice.map_or(config.slice_ns, |slice| slice.0);
    config.seconds = arguments.seconds.or(config.seconds);
    config.seed = arguments.seed.unwrap_or(config.seed);
    for fault in &arguments.fault {
        // No link is a source that could be killed.
        fault.apply(&mut config.faults, &[])?;
    }
    Ok(())
}

fn live_line(live: &EmulatorLive, slice_ns: u64, seconds: f64) -> String {
    let data_s = live.events.load(Relaxed) as f64 * slice_ns as f64 / 1e9;
    let bytes = live.bytes.load(Relaxed);
    format!(
        "{seconds:.1} s  {data_s:.1} s of data  {} packets  {}  {}/s",
        grouped(live.packets.load(Relaxed)),
        Bytes(bytes),
        Bytes((bytes as f64 / seconds) as u64)
    )
}

fn say_report(report: &LinkEmulatorReport, out: &mut Out) -> anyhow::Result<()> {
    if out.json {
        return Ok(out.object(report)?);
    }
    let total = report.total();
    let seconds = report.seconds.max(1e-9);
    out.line(format_args!(
        "Sent {:.1} s of data in {:.1} s, {} of samples ({}/s), seed {}, {:.0} % of a CPU.",
        report.slices as f64 * report.slice_ns as f64 / 1e9,
        report.seconds,
        Bytes(report.sample_bytes),
        Bytes((report.sample_bytes as f64 / seconds) as u64),
        report.seed,
        report.cpu_ns as f64 / 1e7 / seconds
    ))?;
    out.line(format_args!(
        "  {} slices from {}, {} packets, {} parts ({}/s), {}",
        grouped(report.slices),
        report.first_slice,
        grouped(total.packets_sent),
        grouped(total.fragments_sent),
        Count(total.fragments_sent as f64 / seconds),
        Bytes(total.bytes_sent)
    ))?;
    say_faults(&total, "parts", out)
}
