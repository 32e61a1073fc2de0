//! Links that send what they should not, and those who watch: everything that is not recorded is
//! counted under its reason, and a follower sees each frame whole and in order.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::support;
use catchment_disk::{FaultControl, FaultPlan};
use catchment_fixtures::wait_while;
use catchment_frame::{ColumnCoding, Dtype};
use catchment_model::{Entry, SampleRate, SourceLedger};
use catchment_recorder::{ChannelConfig, Recorder, RunSummary};
use catchment_storage::{Follow, Followed, Run, Select, TrendKind, Verdict};
use support::links::{
    FIRST, SLICE_NS, Sender, assert_books, assert_samples, channels, config, link_ledger, read,
    sample,
};

/// Waits until the recorder has come so far.
fn until(recorder: &Recorder, reached: impl Fn(&SourceLedger) -> bool) {
    wait_while(|| !reached(&recorder.snapshot().ledger.total()));
}

/// The lines of a link's ledger that are not zero, but for bytes and what follows from the disk.
fn lines(ledger: &SourceLedger) -> Vec<(&'static str, u64)> {
    let kept = |entry: Entry| !entry.name().contains("bytes") && entry != Entry::FragmentsDurable;
    let lines = ledger.iter().filter(|&(entry, count)| count > 0 && kept(entry));
    lines.map(|(entry, count)| (entry.name(), count)).collect()
}

/// A packet with these bytes changed.
fn with(packet: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet
}

/// Packets that are dropped whole, by the line that counts them.
fn bad_packets(good: &[u8]) -> Vec<(Entry, Vec<u8>)> {
    use Entry::{
        PacketsMalformedFragment as Part, PacketsMalformedHeader as Decoding,
        PacketsMalformedLength as Length, PacketsMalformedShort as Short,
    };
    let mut longer = good.to_vec();
    longer.extend_from_slice(&[0; 8]);
    vec![
        (Short, Vec::new()),
        (Short, b"CTLK".to_vec()),
        (Short, good[..47].to_vec()),
        (Decoding, with(good, 0, b"HTTP")),
        (Decoding, with(good, 4, &[2])),
        (Decoding, with(good, 5, &[3])),
        // Slices of no length, of another one than configured, and beyond the end of time.
        (Decoding, with(good, 32, &[0; 8])),
        (Decoding, with(good, 32, &(SLICE_NS / 2).to_le_bytes())),
        (Decoding, with(good, 24, &u64::MAX.to_le_bytes())),
        // A table beyond the datagram, bytes that belong to no entry, a heartbeat that has some.
        (Length, good[..60].to_vec()),
        (Length, longer),
        (Length, with(good, 5, &[2])),
        // Samples beyond the datagram, a channel that there is not, one sample less, not the first.
        (Part, good[..good.len() - 8].to_vec()),
        (Part, with(good, 48, &4_u32.to_le_bytes())),
        (Part, with(good, 56, &4_092_u32.to_le_bytes())),
        (Part, with(good, 52, &1_u32.to_le_bytes())),
    ]
}

#[test]
fn every_packet_and_part_that_is_not_recorded_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    let end = FIRST + 40;
    let late = sender.packet(FIRST + 20, &[0, 1, 2, 3]);
    for slice in (FIRST..end).filter(|slice| *slice != FIRST + 20) {
        let which: &[usize] = if slice == FIRST + 30 { &[0, 1, 3] } else { &[0, 1, 2, 3] };
        let packet = sender.packet(slice, which);
        sender.socket.send(&packet).unwrap();
        if slice == FIRST + 10 {
            // The network brings it again.
            sender.socket.send(&packet).unwrap();
        }
    }
    // All are past the slice that was held back: its event is closed.
    wait_while(|| recorder.snapshot().counts.slices_complete < 30);
    sender.socket.send(&late).unwrap();
    // The clock is set back by two slices, and goes on.
    for slice in [end - 2, end - 1, end, end + 1] {
        sender.send(slice);
    }
    let good = sender.packet(end + 2, &[0, 1, 2, 3]);
    let bad = bad_packets(&good);
    bad.iter().for_each(|(_, packet)| assert!(sender.socket.send(packet).is_ok()));
    sender.socket.send(&good).unwrap();
    // One channel alone is years ahead; two packets never come, which the heartbeats tell.
    let ahead = sender.packet(end + 1_000_000_000, &[0]);
    sender.socket.send(&ahead).unwrap();
    sender.sequence += 2;
    sender.heartbeat(end + 4);
    sender.heartbeat(end + 4);
    let summary = recorder.stop().unwrap();

    let malformed = |entry| bad.iter().filter(|(line, _)| *line == entry).count() as u64;
    let accepted = 40 + 1 + 4 + 1 + 1 + 2;
    let expected = vec![
        ("packets_received", accepted + bad.len() as u64),
        ("packets_accepted", accepted),
        ("packets_malformed_short", malformed(Entry::PacketsMalformedShort)),
        ("packets_malformed_length", malformed(Entry::PacketsMalformedLength)),
        ("packets_malformed_header", malformed(Entry::PacketsMalformedHeader)),
        ("packets_malformed_fragment", malformed(Entry::PacketsMalformedFragment)),
        ("fragments_received", 40 * 4 - 1 + 4 + 4 * 4 + 4 + 1),
        ("fragments_recorded", 39 * 4 - 1 + 3 * 4),
        ("fragments_duplicate", 4),
        ("fragments_late", 4),
        ("fragments_out_of_range", 1),
        ("fragments_missing", 1),
        ("fragments_missing_unrecorded", 4),
        ("packets_missing", 2),
        ("fragments_time_repeated", 8),
    ];
    assert_eq!(lines(&link_ledger(&summary, 0)), expected);
    let slices = (FIRST..end + 3).filter(|slice| *slice != FIRST + 20);
    let mut recorded = read(&summary, &channels());
    // The slow channel has a sample in one slice of twelve.
    let missing = channels()[2].rate.samples_of_slice(FIRST + 30, SLICE_NS);
    recorded[2].extend(missing.map(|number| (number, sample(2, number, 8))));
    assert_samples(&recorded, &channels(), slices);
    assert_books(&summary, Verdict::DataLost);
}

#[test]
fn one_packet_with_a_wrong_sequence_number_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    for slice in FIRST..FIRST + 40 {
        let wrong = if slice == FIRST + 20 { 1 << 31 } else { 0 };
        sender.sequence += wrong;
        sender.send(slice);
        sender.sequence -= wrong;
    }
    // Nor are numbers that were never used, though packets and heartbeats agree.
    sender.sequence += 5_000;
    for slice in FIRST + 40..FIRST + 50 {
        sender.send(slice);
    }
    sender.heartbeat(FIRST + 50);
    sender.heartbeat(FIRST + 50);
    let summary = recorder.stop().unwrap();
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::FragmentsRecorded], 50 * 4);
    assert!(!ledger.balance().lost_data(), "{:?}", lines(&ledger));
    assert_books(&summary, Verdict::Balanced);
}

#[test]
fn without_memory_or_disk_parts_are_discarded_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let rate = SampleRate::new(60, 1).unwrap();
    let fast = ChannelConfig { shape: vec![512], ..ChannelConfig::new("X:A", Dtype::F64, rate) };
    config.links[0].channels = vec![fast.clone()];
    (config.memory_bytes, config.frame.bytes) = (32 << 20, 1 << 20);
    let control = FaultControl::default();
    config.write.faults = Some(FaultPlan { control: control.clone(), ..FaultPlan::default() });
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 0, vec![fast.clone()]);
    let mut slice = FIRST;
    let mut send_until = |entry| {
        while recorder.snapshot().ledger.total()[entry] == 0 {
            sender.send(slice);
            slice += 1;
            until(&recorder, |ledger| ledger[Entry::PacketsReceived] == slice - FIRST);
        }
    };
    control.stall(true);
    send_until(Entry::FragmentsDiscardedMemory);
    control.stall(false);
    control.set_space(Some(0));
    send_until(Entry::FragmentsDiscardedDisk);
    control.set_space(None);
    let summary = recorder.stop().unwrap();
    let ledger = link_ledger(&summary, 0);
    assert_eq!(ledger[Entry::PacketsAccepted], slice - FIRST);
    // Behind a gap of what was discarded, a slow machine may have some that come too late.
    let dropped = [
        Entry::FragmentsDiscardedMemory,
        Entry::FragmentsDiscardedDisk,
        Entry::FragmentsLate,
        Entry::FragmentsOutOfRange,
    ];
    let dropped: u64 = dropped.into_iter().map(|entry| ledger[entry]).sum();
    assert_eq!(ledger[Entry::FragmentsRecorded] + dropped, slice - FIRST, "{ledger:?}");
    assert!(ledger.balance().holds() && ledger.balance().lost_data());
    let recorded = read(&summary, std::slice::from_ref(&fast));
    assert_eq!(recorded[0].len() as u64, 15 * ledger[Entry::FragmentsRecorded]);
    assert!(recorded[0].iter().all(|(&number, bytes)| *bytes == sample(0, number, 4_096)));
}

/// Records these slices in this order, with trends. Each range is built before the next is sent, as
/// it is where slices take their time; so many of its slices have been there before.
fn record(folder: &Path, ranges: &[(Range<u64>, u64)]) -> RunSummary {
    let mut config = config(folder);
    config.trends = true;
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    let mut complete = 0;
    for (slices, repeated) in ranges {
        slices.clone().for_each(|slice| sender.send(slice));
        complete += slices.end - slices.start - repeated;
        wait_while(|| recorder.snapshot().counts.slices_complete < complete);
    }
    let summary = recorder.stop().unwrap();
    let warnings = &summary.last.warnings;
    assert!(warnings.iter().all(|text| text.contains("restarted at")), "{warnings:?}");
    assert!(link_ledger(&summary, 0).balance().holds());
    summary
}

#[test]
fn a_wrong_clock_in_the_first_packets_costs_nothing_else() {
    for (wrong, count) in [(0, 1), (FIRST - 1_000_000, 1), (FIRST + 1_000_000, 1), (3 * FIRST, 100)]
    {
        let folder = tempfile::tempdir().unwrap();
        // One packet is contradicted by those that follow; a hundred are believed, and begin anew.
        let believed = if count == 1 { 0 } else { count };
        let ranges = [(wrong..wrong + count, count - believed), (FIRST..FIRST + 50, 0)];
        let summary = record(folder.path(), &ranges);
        let ledger = link_ledger(&summary, 0);
        assert_eq!(ledger[Entry::FragmentsRecorded], 4 * (50 + believed), "{wrong}: {ledger:?}");
        assert_eq!(ledger[Entry::FragmentsOutOfRange], 4 * (count - believed), "{wrong}");
        let slices = (wrong..wrong + believed).chain(FIRST..FIRST + 50);
        assert_samples(&read(&summary, &channels()), &channels(), slices);
        let verdict = if believed == count { Verdict::Balanced } else { Verdict::DataLost };
        assert_books(&summary, verdict);
        // Trends go on in time only: where a clock that is ahead is believed, the others are late.
        // Of arrays each element counts.
        let numbers = |channel: &ChannelConfig, slice| {
            samples_of_slice(channel, slice) * channel.shape.iter().product::<u64>()
        };
        let of = |slice| channels().iter().map(|channel| numbers(channel, slice)).sum::<u64>();
        let left_out = if believed > 0 { (FIRST..FIRST + 50).map(of).sum() } else { 0 };
        assert_eq!(summary.last.counts.trend_samples_late, left_out, "{wrong}");
        let run = Run::open(&summary.folder).unwrap();
        let trend = run.trend("X:FAST", TrendKind::Second, &Select::All).unwrap().unwrap();
        // The first slice is the last of its second.
        let right = SLICE_NS * (FIRST - 3)..SLICE_NS * (FIRST + 50);
        let rows = trend.start_ns.iter().zip(&trend.n).filter(|(start, _)| right.contains(start));
        let n: u64 = rows.map(|(_, &n)| u64::from(n)).sum();
        let sent = (FIRST..FIRST + 50).map(|slice| samples_of_slice(&channels()[0], slice));
        assert_eq!(n, if count == 1 { sent.sum() } else { 0 }, "{wrong}");
    }
}

fn samples_of_slice(channel: &ChannelConfig, slice: u64) -> u64 {
    let numbers = channel.rate.samples_of_slice(slice, SLICE_NS);
    numbers.end - numbers.start
}

#[test]
fn clocks_that_jump_are_recorded_as_they_say_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let back = FIRST - 1_000_000;
    let ranges = [
        (FIRST..FIRST + 50, 0),
        // A second back, which is repeated; a second ahead, which is missing; years either way.
        (FIRST + 46..FIRST + 60, 4),
        (FIRST + 64..FIRST + 80, 0),
        (4 * FIRST..4 * FIRST + 20, 0),
        (back..back + 20, 0),
        (FIRST + 100..FIRST + 120, 0),
    ];
    let summary = record(folder.path(), &ranges);
    let ledger = link_ledger(&summary, 0);
    let slices = (FIRST..FIRST + 60)
        .chain(FIRST + 64..FIRST + 80)
        .chain(4 * FIRST..4 * FIRST + 20)
        .chain(back..back + 20)
        .chain(FIRST + 100..FIRST + 120);
    assert_samples(&read(&summary, &channels()), &channels(), slices);
    assert_eq!(ledger[Entry::FragmentsTimeRepeated], 16);
    assert_eq!(ledger[Entry::FragmentsMissingUnrecorded], 16);
    assert_eq!(ledger[Entry::FragmentsMissing] + ledger[Entry::FragmentsLate], 0);
    assert_eq!(ledger[Entry::NumberingRestarts], 3 * 4);
    assert_books(&summary, Verdict::DataLost);
    // And each channel reads by time, whatever the order of the frames.
    let run = Run::open(&summary.folder).unwrap();
    let rate = channels()[0].rate;
    for slice in [FIRST + 10, FIRST + 110, 4 * FIRST + 5, back + 5] {
        let time = slice * SLICE_NS..(slice + 1) * SLICE_NS;
        let segments = run.channel("X:FAST").unwrap().read(&Select::TimeNs(time)).unwrap();
        let bytes: Vec<u8> = segments.iter().flat_map(|one| one.bytes.iter().copied()).collect();
        let numbers = rate.samples_of_slice(slice, SLICE_NS);
        assert!(bytes == numbers.flat_map(|n| sample(0, n, 4)).collect::<Vec<u8>>(), "{slice}");
    }
}

#[test]
fn a_follower_sees_each_frame_of_a_recording_once_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.frame.duration_ns = 4 * SLICE_NS;
    config.frame.codings = "bitshuffle+lz4".parse::<ColumnCoding>().unwrap().into();
    // Several files.
    (config.frame.bytes, config.frame.channel_bytes) = (128 << 10, 128 << 10);
    config.write.file_bytes = 512 << 10;
    let recorder = Recorder::start(config).unwrap();
    let (seen, run_folder) = (AtomicU64::new(0), recorder.folder().to_owned());
    let first = FIRST.next_multiple_of(4);
    let (summary, followed) = std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(&run_folder, &seen));
        let mut sender = Sender::new(&recorder, 0, channels());
        let mut slice = first;
        // Nothing more is sent before the follower has seen what is there, a frame behind.
        for frames in 0..120 {
            (0..4).for_each(|_| {
                sender.send(slice);
                slice += 1;
            });
            wait_while(|| seen.load(Relaxed) + 2 < frames);
        }
        (recorder.stop().unwrap(), follower.join().unwrap())
    });
    assert_eq!(followed.len() as u64, summary.last.counts.frames_recorded);
    assert!(summary.last.files.len() > 1);
    let slices: Vec<u64> = followed.iter().map(|(slice, _)| *slice).collect();
    assert!(slices.iter().copied().eq((first..first + 480).step_by(4)), "{slices:?}");
    for (slice, samples) in followed {
        for (index, samples) in samples.into_iter().enumerate() {
            let channel = &channels()[index];
            let numbers =
                (slice..slice + 4).flat_map(|k| channel.rate.samples_of_slice(k, SLICE_NS));
            let expected = numbers.flat_map(|n| sample(index, n, channel.sample_bytes()));
            assert!(samples == expected.collect::<Vec<u8>>(), "{} of {slice}", channel.name);
        }
    }
    assert_books(&summary, Verdict::Balanced);
}

/// The first slice of each frame and the samples of each channel, until the run ends. `seen` is how
/// many there are.
fn follow(folder: &Path, seen: &AtomicU64) -> Vec<(u64, Vec<Vec<u8>>)> {
    let poll = Duration::from_millis(1);
    // The first file may take a moment to be there.
    let mut follow = loop {
        match Follow::open(folder, poll) {
            Ok(follow) => break follow,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let mut frames = Vec::new();
    while let Some(frame) = follow.next() {
        let Followed::Channels(index) = frame.unwrap() else { panic!("no event was sent") };
        let run = follow.run();
        let slice = run.channel_frames()[index].summary.info.key_first;
        let read = |channel: &ChannelConfig| {
            let channel = run.channel(&channel.name).unwrap();
            let segments = channel.read(&Select::Frames(index..index + 1)).unwrap();
            segments.into_iter().flat_map(|one| one.bytes.to_vec()).collect()
        };
        frames.push((slice, channels().iter().map(read).collect()));
        seen.store(frames.len() as u64, Relaxed);
    }
    frames
}
