//! Channels over links: every sample reads back, gaps are gaps, and the books balance.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::support;
use catchment_disk::{FaultControl, FaultPlan};
use catchment_emulator::{
    EmulatedChannel, EmulatedLink, EmulatorLive, LinkEmulator, LinkEmulatorConfig, ligo_1000,
};
use catchment_fixtures::wait_while;
use catchment_frame::{ColumnCoding, Dtype, FileReader, PayloadType, frame_ledger, verify_frame};
use catchment_model::{Entry, SampleRate};
use catchment_recorder::{ChannelConfig, LinkConfig, Recorder, slice_ns_default};
use catchment_storage::{Run, Segment, Select, StorageError, TrendKind, Verdict};
use catchment_wire::hadtu::ByteOrder;
use support::links::{
    FIRST, SLICE_NS, Sender, assert_books, assert_samples, channels, config, link_ledger, read,
    sample,
};

#[test]
fn every_sample_reads_back_and_frames_stand_at_multiples_of_their_duration() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    (FIRST..FIRST + 100).for_each(|slice| sender.send(slice));
    let summary = recorder.stop().unwrap();
    assert_samples(&read(&summary, &channels()), &channels(), FIRST..FIRST + 100);
    let bytes = std::fs::read(&summary.last.files[0]).unwrap();
    let reader = FileReader::open(&bytes[..]).unwrap();
    let starts: Vec<u64> = reader.frames().iter().map(|frame| frame.info.key_first).collect();
    assert_eq!(starts[0], FIRST);
    assert!(starts[1..7].iter().all(|start| start.is_multiple_of(16)), "{starts:?}");
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::FragmentsRecorded], 400);
    assert_eq!(ledger[Entry::PacketsReceived], 100);
    assert!(ledger.balance().holds() && !ledger.balance().lost_data(), "{ledger:?}");
    assert_eq!(summary.last.counts.slices_recorded, 100);
    assert_books(&summary, Verdict::Balanced);
}

#[test]
fn lost_packets_are_gaps_and_the_books_balance() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    let lost = |slice: u64| (slice - FIRST).is_multiple_of(10) && slice != FIRST;
    for slice in FIRST..FIRST + 100 {
        let packet = sender.packet(slice, &[0, 1, 2, 3]);
        if !lost(slice) {
            sender.socket.send(&packet).unwrap();
        }
    }
    // The last two packets are missing too; only the heartbeats tell.
    sender.sequence += 2;
    (0..3).for_each(|_| sender.heartbeat(FIRST + 102));
    let summary = recorder.stop().unwrap();
    let there = (FIRST..FIRST + 100).filter(|&slice| !lost(slice));
    assert_samples(&read(&summary, &channels()), &channels(), there);
    let ledger = link_ledger(&summary, 0);
    let balance = ledger.balance();
    assert!(balance.holds() && balance.lost_data(), "{ledger:?}");
    assert_eq!(ledger[Entry::PacketsMissing], 9 + 2);
    assert_eq!(balance.fragments_lost, 9 * 4);
    assert_books(&summary, Verdict::DataLost);
}

#[test]
fn what_is_not_as_configured_is_malformed_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    (FIRST..FIRST + 10).for_each(|slice| sender.send(slice));
    let sequence = sender.sequence;
    // Another rate than the configured one, and a channel that there is not.
    let mut other = Sender::new(&recorder, 0, channels());
    other.sequence = sequence;
    other.channels[0].rate = SampleRate::new(2_048, 1).unwrap();
    other.send(FIRST + 10);
    let mut more = channels();
    more.push(more[1].clone());
    let mut other = Sender::new(&recorder, 0, more);
    other.sequence = sequence;
    other.send(FIRST + 10);
    sender.socket.send(b"CTLK").unwrap();
    let summary = recorder.stop().unwrap();
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::PacketsMalformedFragment], 2);
    assert_eq!(ledger[Entry::PacketsMalformedShort], 1);
    assert!(ledger.balance().holds());
    assert_samples(&read(&summary, &channels()), &channels(), FIRST..FIRST + 10);
}

/// The mean and so on of a channel's samples in each second, in float64.
fn model(channel: &ChannelConfig, index: usize, slices: impl Iterator<Item = u64>) -> Vec<Row> {
    let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for number in slices.flat_map(|k| channel.rate.samples_of_slice(k, SLICE_NS)) {
        let bytes = sample(index, number, channel.sample_bytes());
        let value = |bytes: &[u8]| match channel.dtype {
            Dtype::F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
            Dtype::I16 => f64::from(i16::from_le_bytes(bytes.try_into().unwrap())),
            Dtype::I32 => f64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
            _ => f64::from_le_bytes(bytes.try_into().unwrap()),
        };
        let elements = channel.shape.iter().product::<u64>() as usize;
        let values = bytes.chunks_exact(bytes.len() / elements).map(value);
        seconds.entry(channel.rate.time_ns(number) / 1_000_000_000).or_default().extend(values);
    }
    let row = |(second, values): (u64, Vec<f64>)| {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let n = values.len() as f64;
        let squares: f64 = values.iter().map(|value| value * value).sum();
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = values.iter().sum::<f64>() / n;
        Row { second, n: values.len() as u32, mean, min, max, rms: (squares / n).sqrt() }
    };
    seconds.into_iter().map(row).collect()
}

struct Row {
    second: u64,
    n: u32,
    mean: f64,
    min: f64,
    max: f64,
    rms: f64,
}

#[test]
fn trends_are_those_of_a_model_in_float64_across_gaps_and_frames() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.trends = true;
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    let lost = |slice: u64| slice.is_multiple_of(7) || (FIRST + 40..FIRST + 50).contains(&slice);
    let slices = FIRST..FIRST + 500;
    for slice in slices.clone() {
        let packet = sender.packet(slice, &[0, 1, 2, 3]);
        if !lost(slice) {
            sender.socket.send(&packet).unwrap();
        }
    }
    let summary = recorder.stop().unwrap();
    assert_eq!(summary.last.warnings, Vec::<String>::new());
    let run = Run::open(&summary.folder).unwrap();
    let select = Select::All;
    for (index, channel) in channels().iter().enumerate() {
        let there = slices.clone().filter(|&slice| !lost(slice));
        let expected = model(channel, index, there);
        let trend = run.trend(&channel.name, TrendKind::Second, &select).unwrap().unwrap();
        assert_eq!(trend.start_ns.len(), expected.len());
        for (row, expected) in expected.iter().enumerate() {
            assert_eq!(trend.start_ns[row], expected.second * 1_000_000_000);
            assert_eq!(trend.n[row], expected.n);
            if expected.n > 0 {
                assert_eq!((trend.min[row], trend.max[row]), (expected.min, expected.max));
                let near = |got: f64, expected: f64, scale: f64| {
                    (got - expected).abs() <= scale * 1e-9 || got == expected
                };
                let scale = expected.max.abs().max(expected.min.abs());
                assert!(near(trend.mean[row], expected.mean, scale), "{}", channel.name);
                assert!(near(trend.rms[row], expected.rms, scale), "{}", channel.name);
            }
        }
        let minutes = run.trend(&channel.name, TrendKind::Minute, &select).unwrap().unwrap();
        let all: u64 = trend.n.iter().map(|&n| u64::from(n)).sum();
        assert_eq!(minutes.n.iter().map(|&n| u64::from(n)).sum::<u64>(), all);
        assert!(minutes.start_ns.iter().all(|start| start.is_multiple_of(60_000_000_000)));
    }
    let counter = run.trend("catchment:packets_received", TrendKind::Second, &select);
    let counter = counter.unwrap().unwrap();
    assert!(counter.n.iter().all(|&n| n > 0) && counter.max.last() <= Some(&500.0));
}

#[test]
fn trends_are_read_while_they_are_recorded_and_outlive_a_recorder_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.trends = true;
    let control = FaultControl::default();
    config.write.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    // As soon as there is a header to be read.
    let early = loop {
        match Run::open(recorder.folder()) {
            Err(StorageError::NoFiles { .. }) => {
                std::thread::sleep(std::time::Duration::from_millis(1))
            }
            opened => break opened.unwrap(),
        }
    };
    let rows = |run: &Run| {
        let trend = run.trend("X:FAST", TrendKind::Second, &Select::All).unwrap();
        trend.map_or(0, |trend| trend.n.len())
    };
    // In seconds: 50 that are read at once, 30 while no file can be begun, 50 more.
    let mut next = FIRST;
    for (seconds, refused, least) in [(50, false, 40), (30, true, 40), (50, false, 115)] {
        control.refuse_opens(refused.then_some(libc::EACCES));
        for slice in next..next + 4 * seconds {
            sender.send(slice);
        }
        next += 4 * seconds;
        wait_while(|| rows(&early) < least);
        // What a kill leaves is what is in the files now.
        let killed = tempfile::tempdir().unwrap();
        copy(recorder.folder(), killed.path());
        assert!(rows(&Run::open(killed.path()).unwrap()) >= least);
    }
    let summary = recorder.stop().unwrap();
    assert_eq!(summary.last.counts.trend_rows_lost, 0);
    assert_eq!(summary.last.counts.trend_samples_late, 0);
    let seconds = (FIRST / 4..=(next - 1) / 4).count();
    assert_eq!((rows(&early), rows(&Run::open(&summary.folder).unwrap())), (seconds, seconds));
}

/// Copies a folder and all in it.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else if let Err(error) = std::fs::copy(entry.path(), to) {
            // A tail was begun anew.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
    }
}

#[test]
fn a_recorder_of_events_alone_has_trends_of_its_counters_and_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 2);
    config.trends = true;
    // Nothing of it is more than its memory allows, which would be said.
    config.frame.bytes = 1 << 20;
    let recorder = Recorder::start(config).unwrap();
    for (source, socket) in support::senders(&recorder).iter().enumerate() {
        let events = if source == 0 { 1..=30 } else { 1..=20 };
        for number in events {
            let packet = support::packet(source as u32, ByteOrder::Big, &[(number, b"payload")]);
            socket.send(&packet).unwrap();
        }
    }
    let summary = recorder.stop().unwrap();
    assert_eq!(summary.last.warnings, Vec::<String>::new());
    let run = Run::open(&summary.folder).unwrap();
    let last = |name: &str| {
        let trend = run.trend(name, TrendKind::Second, &Select::All).unwrap();
        trend.and_then(|trend| trend.max.last().copied())
    };
    assert_eq!(last("catchment:packets_received"), Some(50.0));
    assert_eq!(last("catchment:s0:packets_received"), Some(30.0));
    assert_eq!(last("catchment:s1:fragments_recorded"), Some(20.0));
    assert_eq!(last("catchment:s1:no_such_line"), None);
    assert!(run.trend_run(TrendKind::Second).unwrap().is_none(), "there are no channels");
}

#[test]
fn what_a_killed_recorder_leaves_opens_by_its_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    // A frame per slice.
    config.frame.duration_ns = SLICE_NS;
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    (FIRST..FIRST + 150).for_each(|slice| sender.send(slice));
    // Nobody closes the file: it is read as a kill would leave it.
    let frames = loop {
        let bytes = std::fs::read(&recorder.snapshot().files[0]).unwrap();
        let Ok(reader) = FileReader::open(&bytes[..]) else { continue };
        assert!(!reader.closed());
        let frames = reader.frames().len();
        let listed = reader.ledger_at_checkpoint().unwrap();
        if let Some((listed, ledger)) = listed.filter(|_| frames >= 140) {
            assert!(listed >= 64 && listed <= frames, "{listed} of {frames}");
            let recorded = ledger.sources[0][Entry::FragmentsRecorded];
            assert!(recorded >= 4 * listed as u64);
            for frame in 0..frames {
                let problems = verify_frame(&reader, frame);
                assert!(problems.is_empty(), "frame {frame} of {frames}: {problems:?}");
            }
            break frames;
        }
    };
    assert!(frames <= 150);
    let summary = recorder.stop().unwrap();
    assert_samples(&read(&summary, &channels()), &channels(), FIRST..FIRST + 150);
    assert_books(&summary, Verdict::Balanced);
}

#[test]
fn a_slow_disk_lowers_compression_before_anything_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    // 61,440 bytes in each slice.
    let fast = |name: &str| ChannelConfig {
        shape: vec![512],
        ..ChannelConfig::new(name, Dtype::F64, SampleRate::new(60, 1).unwrap())
    };
    let channels: Vec<_> = ["X:A", "X:B", "X:C", "X:D"].map(fast).into();
    let mut config = config(folder.path());
    config.links[0].channels.clone_from(&channels);
    config.memory_bytes = 128 << 20;
    config.encode.bytes = 4 << 20;
    config.frame.codings = "shuffle+zstd:1".parse::<ColumnCoding>().unwrap().into();
    let control = FaultControl::default();
    config.write.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels.clone());
    let mut slice = FIRST;
    let mut send = |count: u64| {
        for _ in 0..count {
            for channel in 0..4 {
                let packet = sender.packet(slice, &[channel]);
                sender.socket.send(&packet).unwrap();
            }
            slice += 1;
            let sent = 4 * (slice - FIRST);
            let received = || recorder.snapshot().ledger.total()[Entry::FragmentsReceived];
            wait_while(|| received() < sent);
        }
        slice
    };
    let waiting = || {
        let fills = recorder.snapshot().fills;
        let fill = fills.into_iter().find(|fill| fill.name == "channel frames waiting").unwrap();
        fill.level * 100 / fill.capacity
    };
    let lowered = || recorder.snapshot().ledger.total()[Entry::BytesCompressionLowered];
    let written = || {
        wait_while(|| waiting() > 5);
    };
    // Not by the first frames, while the disk keeps up: no more is sent than it takes.
    (0..6).for_each(|_| _ = (send(8), written()));
    assert_eq!(lowered(), 0);
    control.stall(true);
    while waiting() < 55 {
        send(8);
    }
    control.stall(false);
    written();
    assert!(lowered() > 0);
    // And then as it was asked for.
    (0..8).for_each(|_| _ = (send(8), written()));
    let end = send(0);
    let summary = recorder.stop().unwrap();
    let ledger = link_ledger(&summary, 0);
    // The frames say which of them it was.
    let mut by_frame = Vec::new();
    for path in &summary.last.files {
        let bytes = std::fs::read(path).unwrap();
        let reader = FileReader::open(&bytes[..]).unwrap();
        let data = (0..reader.frames().len()).filter(|&at| reader.frames()[at].info.rows > 0);
        let of_frame = |frame| frame_ledger(&reader, frame).0.sources[0].clone();
        by_frame.extend(data.map(|frame| of_frame(frame)[Entry::BytesCompressionLowered]));
    }
    assert_eq!(by_frame.iter().sum::<u64>(), ledger[Entry::BytesCompressionLowered]);
    assert_eq!((by_frame.first(), by_frame.last()), (Some(&0), Some(&0)));
    assert!(ledger.balance().holds() && !ledger.balance().lost_data(), "{ledger:?}");
    assert_samples(&read(&summary, &channels), &channels, FIRST..end);
    assert_books(&summary, Verdict::Balanced);
}

#[test]
fn events_and_channels_are_recorded_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 2);
    config.memory_bytes = 512 << 20;
    config.links = vec![LinkConfig::new("link", "127.0.0.1:0".parse().unwrap(), channels())];
    config.frame.duration_ns = 4_000_000_000;
    config.frame.codings = "auto".parse::<ColumnCoding>().unwrap().into();
    // Arrays of 100 numbers behind the sub-event's header.
    config.sources[1].payload = Some(PayloadType {
        dtype: Dtype::I16,
        shape: vec![100],
        skip: 16,
        record_bytes: 0,
        fields: Vec::new(),
    });
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 2, channels());
    let sockets = support::senders(&recorder);
    for number in 0..60 {
        sender.send(FIRST + number);
        for source in 0..2 {
            let payload: Vec<u8> =
                (0..100).flat_map(|n| (n * number as i16).to_le_bytes()).collect();
            let packet =
                support::packet(source, ByteOrder::Big, &[(number as u32 + 1, &payload[..])]);
            sockets[source as usize].send(&packet).unwrap();
        }
    }
    let summary = recorder.stop().unwrap();
    assert_books(&summary, Verdict::Balanced);
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(run.event_count(), 60);
    assert_eq!(run.channels().len(), 4);
    let ledger = &summary.last.ledger;
    assert_eq!(ledger.sources[1][Entry::FragmentsRecorded], 60);
    assert_eq!(ledger.sources[2][Entry::FragmentsRecorded], 240);
    let segments = run.channel("X:FAST").unwrap().read(&Select::All).unwrap();
    let samples: Vec<u8> = segments.iter().flat_map(|one| one.bytes.iter().copied()).collect();
    let numbers =
        (FIRST..FIRST + 60).flat_map(|slice| channels()[0].rate.samples_of_slice(slice, SLICE_NS));
    assert!(samples == numbers.flat_map(|n| sample(0, n, 4)).collect::<Vec<u8>>());
}

#[test]
fn a_thousand_emulated_channels_are_proved_sample_by_sample() {
    let folder = tempfile::tempdir().unwrap();
    let emulated = ligo_1000();
    let mut config = support::config(folder.path(), 0);
    config.memory_bytes = 512 << 20;
    // However long a busy machine keeps the emulator.
    config.build.timeout_ns = 60_000_000_000;
    config.frame.codings = "bitshuffle+lz4".parse::<ColumnCoding>().unwrap().into();
    config.trends = true;
    let channels = emulated
        .iter()
        .map(|one| ChannelConfig::new(one.name.clone(), one.dtype, one.rate))
        .collect();
    config.links = vec![LinkConfig::new("ligo", "127.0.0.1:0".parse().unwrap(), channels)];
    let recorder = Recorder::start(config).unwrap();
    let emulator = LinkEmulator::new(LinkEmulatorConfig {
        links: EmulatedLink::dealt(emulated.len(), recorder.addresses()),
        channels: emulated.clone(),
        multiple: Some(4.0),
        first_slice: Some(FIRST),
        slices: Some(12),
        ..LinkEmulatorConfig::default()
    })
    .unwrap();
    let report = emulator.run(&AtomicBool::new(false), &EmulatorLive::default()).unwrap();
    let summary = recorder.stop().unwrap();
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::PacketsReceived], report.total().packets_sent + report.heartbeats);
    assert_eq!(ledger[Entry::FragmentBytesRecorded], report.sample_bytes);
    assert_books(&summary, Verdict::Balanced);
    let run = Run::open(&summary.folder).unwrap();
    for (index, channel) in emulated.iter().enumerate() {
        let first = channel.rate.samples_of_slice(FIRST, SLICE_NS).start;
        let segments = run.channel(&channel.name).unwrap().read(&Select::All).unwrap();
        assert_eq!((segments.len(), segments[0].first_sample), (1, first), "{}", channel.name);
        assert!(emulator.content().verify(index as u32, first, &segments[0].bytes));
    }
}

fn emulated(name: &str, dtype: Dtype, shape: &[u64], rate: (u64, u64)) -> EmulatedChannel {
    let rate = SampleRate::new(rate.0, rate.1).unwrap();
    EmulatedChannel { name: name.into(), dtype, shape: shape.to_vec(), rate, unit: "T".into() }
}

fn recorded_link(emulated: &[EmulatedChannel]) -> LinkConfig {
    let channel = |one: &EmulatedChannel| ChannelConfig {
        shape: one.shape.clone(),
        unit: one.unit.clone(),
        ..ChannelConfig::new(one.name.clone(), one.dtype, one.rate)
    };
    let channels = emulated.iter().map(channel).collect();
    LinkConfig::new("lab", "127.0.0.1:0".parse().unwrap(), channels)
}

/// Emulates the channels of a link, records them, and asserts that every sample of these slices
/// reads back, once, at its time and with the emulator's bytes: what was read, by channel.
fn recorded(
    channels: &[EmulatedChannel],
    (slice_ns, slices): (u64, Range<u64>),
    multiple: Option<f64>,
) -> Vec<Vec<Segment>> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 0);
    config.links = vec![LinkConfig { slice_ns, ..recorded_link(channels) }];
    config.frame.duration_ns = 16 * slice_ns;
    let recorder = Recorder::start(config).unwrap();
    let mut config = LinkEmulatorConfig {
        links: EmulatedLink::dealt(channels.len(), recorder.addresses()),
        channels: channels.to_vec(),
        slice_ns,
        multiple,
        first_slice: Some(slices.start),
        slices: Some(slices.end - slices.start),
        ..LinkEmulatorConfig::default()
    };
    config.make_room();
    let emulator = LinkEmulator::new(config).unwrap();
    emulator.run(&AtomicBool::new(false), &EmulatorLive::default()).unwrap();
    let summary = recorder.stop().unwrap();
    assert_books(&summary, Verdict::Balanced);
    let run = Run::open(&summary.folder).unwrap();
    let read = |(index, emulated): (u32, &EmulatedChannel)| {
        let EmulatedChannel { name, shape, rate, .. } = emulated;
        let channel = run.channel(name).unwrap();
        assert_eq!((channel.info().rate, &channel.info().shape), (*rate, shape));
        assert_eq!((channel.info().dtype, &channel.info().unit), (emulated.dtype, &emulated.unit));
        let segments = channel.read(&Select::All).unwrap();
        let mut next = rate.first_sample_at(slices.start * slice_ns);
        for segment in &segments {
            assert_eq!((segment.first_sample, segment.start_ns), (next, rate.time_ns(next)));
            assert_eq!(segment.bytes.len(), segment.samples as usize * emulated.sample_bytes());
            assert!(emulator.content().verify(index, next, &segment.bytes), "{name}");
            next += segment.samples;
        }
        assert_eq!(next, rate.first_sample_at(slices.end * slice_ns), "{name}");
        segments
    };
    (0..).zip(channels).map(read).collect()
}

#[test]
fn samples_with_a_shape_are_emulated_recorded_and_read_element_by_element() {
    let channels = [
        emulated("X:FIELD", Dtype::F32, &[3], (100, 1)),
        emulated("X:QUADRANTS", Dtype::I16, &[2, 2], (1_000, 3)),
        emulated("X:SIDEBANDS", Dtype::C64, &[2], (16, 1)),
    ];
    let read = recorded(&channels, (SLICE_NS, FIRST..FIRST + 20), None);
    let field: Vec<[f32; 3]> = read[0]
        .iter()
        .flat_map(|segment| segment.bytes.as_chunks::<12>().0)
        .map(|sample| [0, 4, 8].map(|at| f32::from_le_bytes(*sample[at..].first_chunk().unwrap())))
        .collect();
    assert_eq!(field.len(), 500);
    // No two of the three follow each other.
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let equal = field.iter().filter(|sample| sample[one] == sample[other]).count();
        assert!(equal < 5, "elements {one} and {other} are equal {equal} times");
    }
}

/// The number of a minute of 2026.
const MINUTE: u64 = 29_833_334;
const MINUTE_NS: u64 = 60_000_000_000;

#[test]
fn a_megahertz_and_one_sample_a_minute_are_recorded_in_the_same_slices() {
    let channels = [
        emulated("X:RADIO", Dtype::F32, &[], (1_000_000, 1)),
        emulated("X:MINUTE", Dtype::I32, &[], (1, 60)),
    ];
    let default = slice_ns_default(&[recorded_link(&channels)], 64_000_000_000);
    // The default, and the longest that fits.
    for (slice_ns, slices) in [(default, 30), (16_000_000, 20)] {
        let middle = MINUTE * MINUTE_NS / slice_ns;
        let slices = middle - slices / 2..middle + slices / 2;
        let read = recorded(&channels, (slice_ns, slices.clone()), Some(1.0));
        let radio: u64 = read[0].iter().map(|segment| segment.samples).sum();
        assert_eq!(radio, (slices.end - slices.start) * slice_ns / 1_000, "one a microsecond");
        assert_eq!(read[0][0].first_sample, slices.start * slice_ns / 1_000);
        let [minute] = &read[1][..] else { panic!("one sample, got {:?}", read[1]) };
        let expected = (MINUTE, 1, MINUTE * MINUTE_NS);
        assert_eq!((minute.first_sample, minute.samples, minute.start_ns), expected);
    }
}

#[test]
fn ten_minutes_of_one_sample_each_are_recorded_at_their_minutes() {
    let channels = [
        emulated("X:MINUTE", Dtype::F64, &[], (1, 60)),
        emulated("X:WIND", Dtype::F32, &[3], (1, 60)),
    ];
    let slice_ns = 10_000_000_000;
    let first = MINUTE * 6 - 2;
    for segments in recorded(&channels, (slice_ns, first..first + 60), None) {
        let samples: u64 = segments.iter().map(|segment| segment.samples).sum();
        assert_eq!((segments[0].start_ns, samples), (MINUTE * MINUTE_NS, 10));
    }
}
