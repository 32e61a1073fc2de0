//! The cost of sending channels over a link to a receiver that parses and discards everything, each
//! on its own CPU: `link_rate [seconds]`. A figure for this machine, not a test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use catchment_agent::{Flow, Ingress as _};
use catchment_emulator::{EmulatedLink, EmulatorLive, LinkEmulator, LinkEmulatorConfig, ligo_1000};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_telemetry::ThreadTimes;
use catchment_wire::link::Packet;
use catchment_wire::sequence::Gaps;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |text| text.parse::<f64>())?;
    println!("slice ms  multiple   MB/s  kpkt/s  kentries/s  send%  receive%  missing");
    for slice_ms in [62.5, 125.0, 250.0] {
        for multiple in [Some(1.0), Some(193.0), None] {
            one(seconds, slice_ms, multiple)?;
        }
    }
    Ok(())
}

fn one(
    seconds: f64,
    slice_ms: f64,
    multiple: Option<f64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let any: SocketAddr = "127.0.0.1:0".parse()?;
    let mut receiver = UdpReceiver::bind(&[any], ReceiverConfig::default())?;
    let channels = ligo_1000();
    let emulator = LinkEmulator::new(LinkEmulatorConfig {
        links: EmulatedLink::dealt(channels.len(), &[receiver.local_addr(0)]),
        channels,
        slice_ns: (slice_ms * 1e6) as u64,
        multiple,
        seconds: Some(seconds),
        cpu: Some(1),
        ..LinkEmulatorConfig::default()
    })?;
    let (stop, ended, live) =
        (AtomicBool::new(false), AtomicBool::new(false), EmulatorLive::default());
    let times = ThreadTimes::default();
    let readiness = receiver.readiness();
    let (report, entries, missing) = std::thread::scope(|scope| {
        let receive = scope.spawn(|| {
            let _guard = times.register("receive");
            catchment_net::pin_to_cpu(0)?;
            let (mut gaps, mut missing, mut entries) = (Gaps::new(), 0, 0);
            loop {
                let last = ended.load(Relaxed);
                readiness.wait(Duration::from_millis(2));
                let received = receiver.poll(&mut |arrival| {
                    if let Ok(packet) = Packet::parse(arrival.bytes()) {
                        missing += gaps.expect(packet.header().sequence);
                        entries += packet.entries().filter(|e| !e.samples.is_empty()).count();
                        if packet.entry_count() > 0 {
                            missing += gaps.take(packet.header().sequence).1;
                        }
                    }
                    Flow::Taken
                });
                std::thread::sleep(Duration::from_micros(500));
                if last && received.arrivals == 0 {
                    break;
                }
            }
            Ok::<_, catchment_net::NetError>((entries, missing + gaps.settle()))
        });
        let report = emulator.run(&stop, &live);
        ended.store(true, Relaxed);
        let (entries, missing) = receive.join().expect("no panic")?;
        Ok::<_, catchment_emulator::EmulatorError>((report?, entries, missing))
    })?;
    let total = report.total();
    println!(
        "{slice_ms:8} {:>9} {:6.0} {:7.2} {:11.1} {:6.1} {:9.1} {missing:8}",
        multiple.map_or("max".into(), |multiple| multiple.to_string()),
        report.sample_bytes as f64 / report.seconds / 1e6,
        total.packets_sent as f64 / report.seconds / 1e3,
        entries as f64 / report.seconds / 1e3,
        report.cpu_ns as f64 / report.seconds / 1e7,
        times.read()[0].cpu_ns as f64 / report.seconds / 1e7,
    );
    Ok(())
}
