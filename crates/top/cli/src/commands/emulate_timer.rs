//! The timer of feeders of trains, as a process of its own or as a thread beside feeders.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context;
use catchment_config::{Address, Rate, Time};
use catchment_console::{Exit, Out, UsageError};
use catchment_emulator::{EmulatorLive, EmulatorThread};
use catchment_model::units::{Count, grouped};
use catchment_net::{TickGroup, TimerConfig, TimerReport, TimerServer};

use super::emulate::{Arguments, follow};

/// What a process of emulated trains is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// Feeders, which send trains.
    Feeder,
    /// The timer, at whose ticks they send.
    Timer,
}

/// A group of ticks, as `3=10Hz+50ms`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group(TickGroup);

impl std::str::FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected NUMBER=RATE[+PHASE] such as 3=10Hz+50ms, got {text:?}");
        let (id, rest) = text.split_once('=').ok_or_else(expected)?;
        let (rate, phase) = rest.split_once('+').unwrap_or((rest, "0s"));
        let (id, phase) = (id.parse().ok(), phase.parse().ok());
        let rate = rate.parse().ok().and_then(|Rate(hz)| period(hz?));
        let phase = phase.map(|Time(nanos)| Duration::from_nanos(nanos));
        let (Some(id), Some(period), Some(phase)) = (id, rate, phase) else {
            return Err(expected());
        };
        Ok(Self(TickGroup { id, period, phase, ticks: None }))
    }
}

fn period(hz: f64) -> Option<Duration> {
    let period = Duration::try_from_secs_f64(1.0 / hz).ok();
    period.filter(|period| !period.is_zero())
}

/// A timer that listens where `--listen` says, with one group for each feeder or those that are
/// given.
pub(super) fn timer(arguments: &Arguments, default_hz: f64) -> anyhow::Result<TimerServer> {
    let Some(Address(address)) = arguments.listen else {
        anyhow::bail!(UsageError("a timer needs --listen IP:PORT".into()));
    };
    let feeders = arguments.feeders.unwrap_or(1);
    let hz = match arguments.rate {
        None => default_hz,
        Some(Rate(Some(hz))) => hz,
        Some(Rate(None)) => anyhow::bail!(UsageError("a timer needs a --rate, got max".into())),
    };
    let of_feeder = |feeder: u32| {
        let period = period(hz / f64::from(feeders))?;
        let phase = Duration::try_from_secs_f64(f64::from(feeder) / hz).ok()?;
        // Trains are counted over all feeders.
        let trains = arguments
            .events
            .map(|trains| trains.saturating_sub(feeder.into()).div_ceil(feeders.into()));
        Some(TickGroup { id: feeder, period, phase, ticks: trains })
    };
    let groups = match &arguments.group[..] {
        [] => (0..feeders).map(of_feeder).collect::<Option<_>>(),
        given => {
            let of = |Group(group): &Group| TickGroup { ticks: arguments.events, ..*group };
            Some(given.iter().map(of).collect())
        }
    };
    let groups = groups
        .ok_or_else(|| UsageError(format!("expected a --rate that a timer can keep, got {hz}")))?;
    let config = TimerConfig { groups, first_run: arguments.first_run.unwrap_or(1) };
    TimerServer::bind(address, config).with_context(|| format!("--listen {address}"))
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let timer = timer(arguments, catchment_emulator::TRAINS_HZ_DEFAULT)?;
    out.say(format_args!("Timer at {}.", timer.address()))?;
    out.flush()?;
    let report = follow(EmulatorThread::start_timer(timer)?, live_line, out)?;
    say_report(&report, out)?;
    Ok(Exit::Done)
}

fn live_line(live: &EmulatorLive, seconds: f64) -> String {
    let ticks = live.events.load(Relaxed);
    format!("{seconds:.1} s  {} ticks  {} ticks/s", grouped(ticks), Count(ticks as f64 / seconds))
}

pub(super) fn say_report(report: &TimerReport, out: &mut Out) -> anyhow::Result<()> {
    if out.json {
        return Ok(out.object(report)?);
    }
    let TimerReport { clients, refused, sent, unsent, runs } = *report;
    let (sent, unsent) = (grouped(sent), grouped(unsent));
    out.line(format_args!(
        "{sent} ticks to {clients} clients, {unsent} not taken; {runs} runs; {refused} refused."
    ))?;
    Ok(())
}
