//! Receive and discard: the rate of the sockets alone.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use catchment_agent::{Flow, Ingress as _};
use catchment_config::Rate;
use catchment_emulator::{EmulatorConfig, EmulatorReport, EmulatorThread};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_telemetry::{ThreadTimes, cpu_shares};
use serde::Serialize;

use crate::Bench;
use crate::point::Load;
use crate::search::{Plan, Try, median, middle};

/// The figures of one try.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Discarded {
    pub(crate) rate_hz: Option<f64>,
    pub(crate) sent_hz: f64,
    pub(crate) packets_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) packets_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) receive_percent: f64,
    pub(crate) emulate_percent: f64,
}

impl Discarded {
    fn reached(&self) -> bool {
        let rate_kept = self.rate_hz.is_none_or(|hz| self.sent_hz >= hz * 0.99);
        rate_kept && self.packets_received == self.packets_sent
    }
}

/// The most that is received without loss. First flat out; where that loses, by search from there
/// down.
pub(crate) fn most(bench: &mut Bench<'_>, load: Load) -> anyhow::Result<Discarded> {
    let rate = |one: &Discarded| one.bytes_per_second;
    let what = format!("receive and discard, {}", load.name());
    let flat_out = bench.rounds(format!("{what}, flat out"), |bench| flat_out(bench, load))?;
    if bench.quick || flat_out.iter().all(Discarded::reached) {
        return Ok(middle(flat_out, rate));
    }
    let start_hz = median(flat_out.iter().map(|one| one.sent_hz)) * 0.95;
    let plan = Plan { step: 1.15, ..Plan::from(start_hz) };
    let found = bench.highest(what, plan, |bench, hz| {
        let one = once(bench, load, Rate(Some(hz)))?;
        Ok(Try { reached: one.reached(), value: one })
    })?;
    Ok(middle(found.map_or(flat_out, |(_, tries)| tries), rate))
}

/// What is received of a sender that sends flat out, whether or not all of it is.
pub(crate) fn flat_out(bench: &Bench<'_>, load: Load) -> anyhow::Result<Discarded> {
    once(bench, load, Rate(None))
}

fn once(bench: &Bench<'_>, load: Load, rate: Rate) -> anyhow::Result<Discarded> {
    let (high, _) = load.high(bench, rate, 0.0)?;
    let config = ReceiverConfig::default();
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut receiver = UdpReceiver::bind(&vec![any; high.recorder.sources.len()], config)?;
    let emulator = high.emulator.expect("the preset has an emulator");
    let targets = (0..high.recorder.sources.len()).map(|socket| receiver.local_addr(socket));
    let targets = targets.collect();
    let seconds = bench.seconds().min(3.0);
    let times = ThreadTimes::default();
    let cpu = high.recorder.receive.cpus.first().copied();
    let coalesce = high.recorder.receive.coalesce;
    std::thread::scope(|scope| {
        // A thread of its own, so that it can be pinned as the recorder's is.
        let result =
            std::thread::Builder::new().name("receive".into()).spawn_scoped(scope, || {
                if let Some(cpu) = cpu {
                    catchment_net::pin_to_cpu(cpu)?;
                }
                let _guard = times.register("receive");
                let config = EmulatorConfig { targets, seconds: Some(seconds), ..emulator };
                let sender = EmulatorThread::start(config)?;
                let taken = receive(&mut receiver, sender, &times, coalesce)?;
                Ok(discarded(rate, &taken))
            })?;
        result.join().map_err(|_| anyhow::anyhow!("the receive thread failed"))?
    })
}

fn discarded(rate: Rate, taken: &Taken<EmulatorReport>) -> Discarded {
    let report = &taken.report;
    let seconds = report.seconds.max(1e-9);
    Discarded {
        rate_hz: rate.0,
        sent_hz: report.events as f64 / seconds,
        packets_sent: report.total().packets_sent,
        packets_received: taken.packets,
        packets_per_second: taken.packets as f64 / seconds,
        bytes_per_second: taken.bytes as f64 / seconds,
        receive_percent: taken.share("receive"),
        emulate_percent: taken.share("emulate"),
    }
}

/// What was received and thrown away, with the sender's report.
#[derive(Debug)]
pub(crate) struct Taken<R> {
    pub(crate) report: R,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Each thread's share of one CPU while the sender was sending, in percent.
    pub(crate) threads: Vec<(String, f64)>,
}

/// Receives until the sender ends and nothing is left in the sockets.
///
/// # Errors
/// Those of the sender.
pub(crate) fn receive<R: Send + 'static>(
    receiver: &mut UdpReceiver,
    sender: EmulatorThread<R>,
    times: &ThreadTimes,
    coalesce: Duration,
) -> anyhow::Result<Taken<R>> {
    let start = Instant::now();
    let before = times.read();
    let (mut packets, mut bytes) = (0_u64, 0_u64);
    let mut take = |receiver: &mut UdpReceiver| {
        receiver.readiness().wait(Duration::from_millis(5));
        let received = receiver.poll(&mut |arrival| {
            std::hint::black_box(arrival.bytes());
            Flow::Taken
        });
        packets += received.arrivals;
        bytes += received.bytes;
        // Datagrams gather, as they do in a recorder.
        std::thread::sleep(coalesce);
        received.arrivals
    };
    while !sender.observer().ended() {
        take(receiver);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let mut threads = cpu_shares(&before, &times.read(), elapsed);
    threads.extend(cpu_shares(&[], &sender.observer().threads(), elapsed));
    // What still stands in the sockets.
    while take(receiver) > 0 {}
    Ok(Taken { report: sender.finish()?, packets, bytes, threads })
}

impl<R> Taken<R> {
    /// A thread's share of one CPU, in percent.
    pub(crate) fn share(&self, name: &str) -> f64 {
        self.threads.iter().find(|(thread, _)| thread == name).map_or(0.0, |(_, percent)| *percent)
    }
}
