//! Channels over a link with the real binary: `run` beside `emulate`, and what a kill leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::support;
use catchment_agent::{Flow, Ingress as _};
use catchment_emulator::{ChannelContent, EmulatedChannel, ligo_1000};
use catchment_frame::Dtype;
use catchment_model::{Entry, SampleRate};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_storage::{Run, Select, TrendKind};
use catchment_wire::link::Packet;
use serde_json::Value;
use support::{catchment, example, free, json, only_run, output, started, stdout};

const SLICE_NS: u64 = 250_000_000;

/// The example of links in that folder, on a port that nobody has, with these changes.
fn example_with(folder: &Path, changes: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(example("ligo-1000.toml")).unwrap();
    let free = free().to_string();
    let port = [("127.0.0.1:20200", free.as_str())];
    let text = changes.iter().chain(&port).fold(text, |text, (old, new)| {
        assert_eq!(text.matches(old).count(), 1, "{old}");
        text.replace(old, new)
    });
    let path = folder.join("ligo.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The same with frames of a second, and less memory.
fn configure(folder: &Path) -> String {
    let memory = ("budget = \"2 GiB\"", "budget = \"512 MiB\"");
    example_with(folder, &[memory, ("duration = \"64 s\"", "duration = \"1 s\"")])
}

/// Ends a recorder in order, as Ctrl-C does: what it printed meanwhile. The exit code is asserted.
pub(crate) fn end(mut child: Child, mut lines: impl Read, code: i32) -> String {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code), "{rest}");
    rest
}

/// What a run holds of each channel: whole slices, by their numbers. Every sample is compared with
/// what its emulator made.
pub(crate) fn parts(run: &Run) -> Vec<BTreeSet<u64>> {
    let emulated = ligo_1000();
    let content = ChannelContent::new(1, &emulated);
    let slices = |(index, channel): (usize, &EmulatedChannel)| {
        let mut slices = BTreeSet::new();
        for segment in run.channel(&channel.name).unwrap().read(&Select::All).unwrap() {
            assert!(content.verify(index as u32, segment.first_sample, &segment.bytes));
            let end = channel.rate.time_ns(segment.first_sample + segment.samples);
            assert!(segment.start_ns.is_multiple_of(SLICE_NS) && end.is_multiple_of(SLICE_NS));
            slices.extend(segment.start_ns / SLICE_NS..end / SLICE_NS);
        }
        slices
    };
    emulated.iter().enumerate().map(slices).collect()
}

pub(crate) fn count(parts: &[BTreeSet<u64>]) -> u64 {
    parts.iter().map(|slices| slices.len() as u64).sum()
}

#[test]
fn an_emulated_link_is_recorded_by_run_and_both_books_agree() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = configure(folder);
    let (child, lines) = started(folder, &["run", &config], "Recording");
    // No faster: a socket holds what comes while a busy machine looks elsewhere for a second.
    let emulate = ["emulate", &config, "--multiple", "1", "--seconds", "4", "--json"];
    let sent = json(folder, &emulate, 0);
    assert_eq!((&sent["slices"], &sent["links"][0]["packets_unsent"]), (&16.into(), &0.into()));
    let printed = end(child, lines, 0);
    assert!(printed.contains("16 complete, 0 incomplete, 0 absent, 16 on disk"), "{printed}");

    let path = only_run(folder);
    let run = Run::open(&path).unwrap();
    let first = sent["first_slice"].as_u64().unwrap();
    let all: BTreeSet<u64> = (first..first + 16).collect();
    assert!(parts(&run).iter().all(|slices| *slices == all));
    let audit = json(folder, &["audit", path.to_str().unwrap(), "--json"], 0);
    let (books, link) = (&audit["recorded"], &sent["links"][0]);
    let books = total(books);
    let packets = link["packets_sent"].as_u64().unwrap() + sent["heartbeats"].as_u64().unwrap();
    assert_eq!(books["packets_received"], packets);
    assert_eq!(books["packets_accepted"], packets);
    assert_eq!(books["fragments_recorded"], link["fragments_made"].as_u64().unwrap());
    assert_eq!(books["fragment_bytes_recorded"], sent["sample_bytes"].as_u64().unwrap());
    assert_eq!(audit["verdict"], "balanced");
    let printed = stdout(folder, &["audit", path.to_str().unwrap()], 0);
    let frames = run.channel_frames().len();
    assert!(frames > 0 && audit["frames"] == frames, "{audit}");
    assert!(
        printed.contains(&format!("\n  1,000 channels of 1 link in {frames} frame")),
        "{printed}"
    );
    let checked = stdout(folder, &["run", &config, "--check"], 0);
    assert!(checked.contains(": 0 sources, 1 link of 1,000 channels, no fault"), "{checked}");
}

/// A ledger in an audit's JSON, which leaves zeros out, summed over the sources.
pub(crate) fn total(ledger: &Value) -> BTreeMap<String, u64> {
    let names = Entry::ALL.iter().map(|entry| (entry.name().to_owned(), 0));
    let mut total: BTreeMap<String, u64> = names.collect();
    for source in ledger.as_array().into_iter().flatten() {
        for (name, count) in source.as_object().expect("entries by name") {
            *total.entry(name.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
    }
    total
}

/// What an emulator with these arguments sends: its report, and for each slice from its first on
/// the channels that came.
fn capture(folder: &Path, arguments: &[&str]) -> (Value, BTreeMap<u64, BTreeSet<usize>>) {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut receiver = UdpReceiver::bind(&[any], ReceiverConfig::default()).unwrap();
    let to = receiver.local_addr(0).to_string();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receive = scope.spawn(|| {
            let (mut came, mut packets) = (BTreeMap::<u64, BTreeSet<usize>>::new(), 0_u64);
            loop {
                let last = ended.load(Relaxed);
                receiver.readiness().wait(Duration::from_millis(1));
                let received = receiver.poll(&mut |arrival| {
                    for bytes in arrival.datagrams() {
                        packets += 1;
                        let packet = Packet::parse(bytes).unwrap();
                        let channels = packet.entries().map(|entry| entry.channel as usize);
                        came.entry(packet.header().slice).or_default().extend(channels);
                    }
                    Flow::Taken
                });
                if last && received.arrivals == 0 {
                    return (came, packets);
                }
            }
        });
        let report = json(folder, &[&["emulate", "ligo-1000", "--to", &to], arguments].concat(), 0);
        ended.store(true, Relaxed);
        let (came, packets) = receive.join().unwrap();
        let sent = report["links"][0]["packets_sent"].as_u64().unwrap();
        assert_eq!(packets, sent + report["heartbeats"].as_u64().unwrap(), "all were seen");
        let first = report["first_slice"].as_u64().unwrap();
        let came = came.into_iter().filter(|(_, channels)| !channels.is_empty());
        (report, came.map(|(slice, channels)| (slice - first, channels)).collect())
    })
}

#[test]
fn lost_packets_are_gaps_where_they_were_and_trends_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = configure(folder);
    let ends = ["--multiple", "2", "--seconds", "4", "--fault", "lose=0.05", "--json"];
    let (expected, came) = capture(folder, &ends);
    let (child, lines) = started(folder, &["run", &config], "Recording");
    let sent = json(folder, &[&["emulate", &config], &ends[..]].concat(), 0);
    let (link, same) = (&sent["links"][0], &expected["links"][0]);
    assert_eq!(link["packets_lost"], same["packets_lost"], "the same seed loses the same packets");
    let printed = end(child, lines, 3);
    assert!(printed.contains("lost on the network"), "{printed}");

    let path = only_run(folder);
    let run = Run::open(&path).unwrap();
    let first = sent["first_slice"].as_u64().unwrap();
    let recorded = parts(&run);
    for (channel, slices) in recorded.iter().enumerate() {
        let there = came.iter().filter(|(_, channels)| channels.contains(&channel));
        let there: BTreeSet<u64> = there.map(|(slice, _)| first + slice).collect();
        assert_eq!(*slices, there, "channel {channel}");
    }
    let audit = json(folder, &["audit", path.to_str().unwrap(), "--json"], 3);
    let books = total(&audit["recorded"]);
    assert_eq!(Value::from(books["packets_missing"]), link["packets_lost"]);
    let lost = books["fragments_missing"] + books["fragments_missing_unrecorded"];
    assert_eq!(Value::from(lost), link["fragments_lost"]);

    // Each second's n is what is there of it.
    for channel in [0, 49, 120, 400, 999] {
        let emulated = &ligo_1000()[channel];
        let trend = run.trend(&emulated.name, TrendKind::Second, &Select::All).unwrap().unwrap();
        let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
        for &slice in &recorded[channel] {
            let samples = emulated.rate.samples_of_slice(slice, SLICE_NS);
            *expected.entry(slice / 4).or_default() += samples.end - samples.start;
        }
        let rows = trend.start_ns.iter().zip(&trend.n).filter(|(_, n)| **n > 0);
        let rows = rows.map(|(start, &n)| (start / 1_000_000_000, u64::from(n)));
        assert_eq!(rows.collect::<BTreeMap<_, _>>(), expected, "{}", emulated.name);
    }
}

#[test]
fn what_was_on_disk_before_a_kill_is_read_back_with_its_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = configure(folder);
    let (mut child, mut lines) = started(folder, &["run", &config], "Recording");
    let ends = ["--multiple", "4", "--seconds", "86400", "--fault", "lose=0.02"];
    let emulate = catchment(folder, &[&["emulate", &config], &ends[..]].concat())
        .stdout(Stdio::null())
        .spawn();
    let mut emulate = emulate.unwrap();
    let (mut line, mut acknowledged) = (String::new(), 0);
    while acknowledged < 16 {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it goes on");
        acknowledged = slices_on_disk(&line);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    emulate.kill().unwrap();
    emulate.wait().unwrap();
    // The output before it died counts, too.
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let acknowledged = rest.lines().map(slices_on_disk).chain([acknowledged]).max().unwrap();

    let path = only_run(folder);
    let path = path.to_str().unwrap();
    let run = Run::open(path).unwrap();
    let recorded = parts(&run);
    let slices: BTreeSet<u64> = recorded.iter().flatten().copied().collect();
    assert!(slices.len() as u64 >= acknowledged, "{acknowledged} of {}", slices.len());
    // Lost packets are what is missing, and the books of the frames say how many parts that is.
    let mut audit = output(folder, &["audit", path, "--json"]);
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    // The system may let go of the files a little after the process.
    while read(&audit.stdout)["closing"] == "recording" {
        audit = output(folder, &["audit", path, "--json"]);
    }
    let killed = read(&audit.stdout);
    assert_eq!((&killed["closing"], &killed["verdict"]), (&"killed".into(), &"data_lost".into()));
    assert_eq!(audit.status.code(), Some(3), "{killed}");
    assert_eq!(killed["differences"], Value::Array(Vec::new()), "{killed}");
    let books = total(&killed["recomputed"]);
    assert_eq!(books["fragments_recorded"], count(&recorded));
    let gaps = slices.len() as u64 * 1_000 - count(&recorded);
    assert_eq!(books["fragments_missing"], gaps);
    assert!(gaps > 0, "two of a hundred packets were lost");

    // Repair changes nothing of that.
    let repaired = output(folder, &["repair", path, "--json"]);
    assert!(matches!(repaired.status.code(), Some(0 | 3)), "{repaired:?}");
    assert!(parts(&Run::open(path).unwrap()) == recorded);
    let verified = json(folder, &["inspect", path, "--verify", "--json"], 0);
    assert_eq!(verified["verified"]["problem_count"], 0);
    stdout(folder, &["audit", path], 3);
}

/// A laboratory's channels: of every kind of shape, and 1 MHz beside one sample a minute. How long
/// slices are is not reported.
pub(crate) const LABORATORY: &str = r#"
[memory]
budget = "512 MiB"

[frame]
duration = "1 s"

[[links]]
name = "laboratory"
address = "ADDRESS"

[[links.channels]]
name = "X:RADIO"
dtype = "f32"
rate = "1 MHz"

[[links.channels]]
name = "X:TEMPERATURE"
dtype = "i32"
rate = "1/60 Hz"
unit = "K"
scale = 0.01
offset = 273.15

[[links.channels]]
name = "X:FIELD"
dtype = "f32"
shape = [3]
rate = "100 Hz"
unit = "T"
scale = 1e-9

[[links.channels]]
name = "X:QUADRANTS"
dtype = "i16"
shape = [2, 2]
rate = "1000/3 Hz"

[[links.channels]]
name = "X:SIDEBANDS"
dtype = "c64"
shape = [2]
rate = "16 Hz"
"#;

/// Its channels as they are emulated, with their scale and offset.
pub(crate) fn laboratory() -> [(EmulatedChannel, Option<f64>, Option<f64>); 5] {
    let channel = |name: &str, dtype, shape: &[u64], (num, den), unit: &str| EmulatedChannel {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        rate: SampleRate::new(num, den).unwrap(),
        unit: unit.into(),
    };
    let temperature = channel("X:TEMPERATURE", Dtype::I32, &[], (1, 60), "K");
    [
        (channel("X:RADIO", Dtype::F32, &[], (1_000_000, 1), ""), None, None),
        (temperature, Some(0.01), Some(273.15)),
        (channel("X:FIELD", Dtype::F32, &[3], (100, 1), "T"), Some(1e-9), None),
        (channel("X:QUADRANTS", Dtype::I16, &[2, 2], (1_000, 3), ""), None, None),
        (channel("X:SIDEBANDS", Dtype::C64, &[2], (16, 1), ""), None, None),
    ]
}

#[test]
fn channels_of_every_shape_and_rate_come_through_with_slices_that_nobody_chose() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let free = free().to_string();
    std::fs::write(folder.join("laboratory.toml"), LABORATORY.replace("ADDRESS", &free)).unwrap();
    let (child, lines) = started(folder, &["run", "laboratory.toml"], "Recording");
    let emulate = ["emulate", "laboratory.toml", "--multiple", "1", "--seconds", "0.5", "--json"];
    let sent = json(folder, &emulate, 0);
    assert_eq!((&sent["slices"], &sent["slice_ns"]), (&50.into(), &10_000_000.into()));
    end(child, lines, 0);

    let run = Run::open(only_run(folder)).unwrap();
    let first_ns = sent["first_slice"].as_u64().unwrap() * 10_000_000;
    let laboratory = laboratory();
    let content = ChannelContent::new(1, &laboratory.each_ref().map(|one| one.0.clone()));
    for (index, (channel, scale, offset)) in (0..).zip(&laboratory) {
        let recorded = run.channel(&channel.name).unwrap();
        let info = recorded.info();
        let found = (info.dtype, &info.shape, info.rate, &info.unit);
        assert_eq!(found, (channel.dtype, &channel.shape, channel.rate, &channel.unit));
        assert_eq!((info.scale, info.offset), (*scale, *offset));
        let mut next = channel.rate.first_sample_at(first_ns);
        for segment in recorded.read(&Select::All).unwrap() {
            let expected = (next, channel.rate.time_ns(next));
            assert_eq!((segment.first_sample, segment.start_ns), expected, "{}", channel.name);
            assert!(content.verify(index, next, &segment.bytes), "{}", channel.name);
            next += segment.samples;
        }
        assert_eq!(next, channel.rate.first_sample_at(first_ns + 500_000_000), "{}", channel.name);
    }
}

/// The slices on disk that a plain line tells of.
fn slices_on_disk(line: &str) -> u64 {
    let number = line.split("  ").find_map(|part| part.strip_suffix(" slices on disk"));
    number.map_or(0, |number| number.replace(',', "").parse().expect("a number"))
}

#[test]
fn what_memory_lowers_is_said_at_once_with_both_figures() {
    let folder = tempfile::tempdir().unwrap();
    // With what the example has, nothing is lowered.
    let path = example_with(folder.path(), &[]);
    let checked = json(folder.path(), &["run", &path, "--check", "--json"], 0);
    assert_eq!(checked["lowered"].as_array().unwrap().len(), 0, "{checked}");
    let path = example_with(folder.path(), &[("\"2 GiB\"", "\"768 MiB\"")]);
    let checked = json(folder.path(), &["run", &path, "--check", "--json"], 0);
    let lowered = checked["lowered"][0].as_str().unwrap();
    assert!(lowered.starts_with("frame.duration: frames of channels cover "), "{lowered}");
    assert!(lowered.contains(" s instead of 64.0 s") && lowered.contains("would do"), "{lowered}");
    let summary = json(folder.path(), &["run", &path, "--seconds", "0.1", "--json"], 0);
    assert_eq!(summary["warnings"][0], lowered);
    let printed = stdout(folder.path(), &["run", &path, "--check"], 0);
    assert!(printed.contains(&format!("Lowered: {lowered}.")), "{printed}");
}
