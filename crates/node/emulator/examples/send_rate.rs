//! The rate of the emulator with a receiver that discards everything, each on its own CPU:
//! `send_rate [seconds] [case]`. A figure for this machine, not a test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use catchment_agent::{Flow, Ingress as _};
use catchment_emulator::{Emulator, EmulatorConfig, EmulatorLive, hades_90};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_telemetry::ThreadTimes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(2.0), |text| text.parse::<f64>())?;
    let only = arguments.next();
    let base = || EmulatorConfig { sources: hades_90(), ..EmulatorConfig::default() };
    let cases = [
        ("mark-32k-max", base()),
        ("mark-32k-63k", EmulatorConfig { rate_hz: Some(63e3), ..base() }),
        ("mark-32k-huge", EmulatorConfig { huge_every: 1_000, rate_hz: Some(50e3), ..base() }),
        (
            "alone-equal-64-max",
            EmulatorConfig { water_mark_bytes: 0, equal_bursts: Some(64), ..base() },
        ),
        (
            "alone-equal-32-20k",
            EmulatorConfig {
                water_mark_bytes: 0,
                equal_bursts: Some(32),
                rate_hz: Some(20e3),
                ..base()
            },
        ),
        ("alone-drawn-max", EmulatorConfig { water_mark_bytes: 0, ..base() }),
        ("alone-drawn-4k", EmulatorConfig { water_mark_bytes: 0, rate_hz: Some(4e3), ..base() }),
    ];
    println!("case                  kHz   Mpkt/s  Mfrag/s  GB/s  send%  receive%  pkt/poll  lost");
    for (name, config) in cases {
        if only.as_ref().is_none_or(|only| *only == name) {
            one(name, EmulatorConfig { seconds: Some(seconds), cpu: Some(1), ..config })?;
        }
    }
    Ok(())
}

/// Datagrams gather between two passes, as they do in a recorder.
const COALESCE: Duration = Duration::from_micros(500);

fn one(name: &str, config: EmulatorConfig) -> Result<(), Box<dyn std::error::Error>> {
    let any: SocketAddr = "127.0.0.1:0".parse()?;
    let receiver_config = ReceiverConfig {
        arena_messages: std::env::var("ARENA").map_or(Ok(16), |text| text.parse())?,
        ..ReceiverConfig::default()
    };
    let sockets = config.sources.len();
    let mut receiver = UdpReceiver::bind(&vec![any; sockets], receiver_config)?;
    let readiness = receiver.readiness();
    let targets = (0..sockets).map(|index| receiver.local_addr(index)).collect();
    let emulator = Emulator::new(EmulatorConfig { targets, ..config })?;
    let (stop, ended, live) =
        (AtomicBool::new(false), AtomicBool::new(false), EmulatorLive::default());
    let times = ThreadTimes::default();
    let (report, datagrams, polls, drops) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _guard = times.register("receive");
            catchment_net::pin_to_cpu(0)?;
            let (mut datagrams, mut polls) = (0, 0_u64);
            loop {
                let last = ended.load(Relaxed);
                readiness.wait(Duration::from_millis(2));
                let received = receiver.poll(&mut |arrival| {
                    std::hint::black_box(arrival.bytes());
                    Flow::Taken
                });
                std::thread::sleep(COALESCE);
                datagrams += received.arrivals;
                polls += 1;
                if last && received.arrivals == 0 {
                    break;
                }
            }
            let mut drops = 0;
            receiver.refresh_drops();
            receiver.take_drops(&mut |_, count| drops += count);
            Ok::<_, catchment_net::NetError>((datagrams, polls, drops))
        });
        let report = emulator.run(&stop, &live);
        ended.store(true, Relaxed);
        let (datagrams, polls, drops) = thread.join().expect("the receiver does not panic")?;
        Ok::<_, Box<dyn std::error::Error>>((report?, datagrams, polls, drops))
    })?;
    let total = report.total();
    println!(
        "{name:20} {:5.1} {:8.3} {:8.2} {:5.2} {:6.1} {:9.1} {:9.1} {:5} ({drops} drops, {} refused)",
        report.events as f64 / report.seconds / 1e3,
        total.packets_sent as f64 / report.seconds / 1e6,
        total.fragments_sent as f64 / report.seconds / 1e6,
        total.bytes_sent as f64 / report.seconds / 1e9,
        report.cpu_ns as f64 / report.seconds / 1e7,
        times.read()[0].cpu_ns as f64 / report.seconds / 1e7,
        datagrams as f64 / polls as f64,
        total.packets_sent - datagrams,
        report.refused,
    );
    Ok(())
}
