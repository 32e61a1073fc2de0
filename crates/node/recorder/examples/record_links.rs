//! Records an emulated thousand channels over loopback at a multiple of real time, and says what
//! that took: `record_links FOLDER MULTIPLE SECONDS CODEC [trends]`.

use std::sync::atomic::AtomicBool;

use catchment_emulator::{EmulatedLink, EmulatorLive, LinkEmulator, LinkEmulatorConfig, ligo_1000};
use catchment_frame::ColumnCoding;
use catchment_model::Entry;
use catchment_recorder::{ChannelConfig, LinkConfig, Recorder, RecorderConfig};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, multiple, seconds, codec, rest @ ..] = &arguments[..] else {
        panic!("record_links FOLDER MULTIPLE SECONDS CODEC [trends]");
    };
    let emulated = ligo_1000();
    let channels = emulated.iter().map(|channel| ChannelConfig {
        unit: channel.unit.clone(),
        ..ChannelConfig::new(channel.name.clone(), channel.dtype, channel.rate)
    });
    let address = "127.0.0.1:0".parse().expect("an address");
    let mut config = RecorderConfig::new(folder.into(), Vec::new());
    config.links = vec![LinkConfig::new("ligo", address, channels.collect())];
    config.frame.codings = codec.parse::<ColumnCoding>().expect("a codec").into();
    config.trends = rest.iter().any(|word| word == "trends");
    config.receive.socket_buffer_bytes = 64 << 20;
    // To touch it all takes the CPU time of some seconds, which is in what is said at the end.
    config.memory_bytes = config.memory_bytes.min(2 << 30);
    let recorder = Recorder::start(config).expect("it starts");
    let emulator = LinkEmulator::new(LinkEmulatorConfig {
        links: EmulatedLink::dealt(emulated.len(), recorder.addresses()),
        channels: emulated,
        multiple: Some(multiple.parse().expect("a number")),
        seconds: Some(seconds.parse().expect("a number")),
        ..LinkEmulatorConfig::default()
    })
    .expect("it can be emulated");
    let report = emulator.run(&AtomicBool::new(false), &EmulatorLive::default()).expect("it sends");
    let summary = recorder.stop().expect("it stops");
    let total = summary.last.ledger.total();
    let raw = total[Entry::FragmentBytesRecorded] as f64;
    println!(
        "sent {:.0} MB in {:.2} s: {:.0} MB/s, sender {:.0} % of a CPU",
        report.sample_bytes as f64 / 1e6,
        report.seconds,
        report.sample_bytes as f64 / 1e6 / report.seconds,
        report.cpu_ns as f64 / 1e7 / report.seconds,
    );
    println!(
        "recorded {:.0} MB as {:.0} MB ({:.3}), lowered {:.0} MB",
        raw / 1e6,
        summary.last.counts.bytes_written as f64 / 1e6,
        summary.last.counts.bytes_written as f64 / raw,
        total[Entry::BytesCompressionLowered] as f64 / 1e6,
    );
    println!("{:?}", summary.last.ledger.balance());
    // Until the last file was closed, in percent of the time of sending.
    let percent = |cpu_ns: u64| cpu_ns as f64 / 1e7 / report.seconds;
    for thread in &summary.last.threads {
        println!("{:>14} {:5.1} %", thread.name, percent(thread.cpu_ns));
    }
    let all = summary.last.threads.iter().map(|thread| thread.cpu_ns).sum();
    println!("{:>14} {:5.1} %", "recorder", percent(all));
    for fill in &summary.last.fills {
        let percent = |bytes: u64| bytes * 100 / fill.capacity.max(1);
        println!(
            "{:>24} highest {:3} % of {} MB",
            fill.name,
            percent(fill.highest),
            fill.capacity >> 20
        );
    }
    summary.last.warnings.iter().for_each(|warning| println!("{warning}"));
}
