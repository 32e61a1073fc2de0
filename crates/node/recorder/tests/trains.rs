//! Trains: fragments of many datagrams from several feeders, kept with their holes.

use crate::support;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;

use catchment_fixtures::{Random, sender_to, wait_while};
use catchment_frame::{ColumnCoding, Hole};
use catchment_model::{Entry, EventFlags, SourceId};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, SourceConfig};
use catchment_storage::{Run, Verdict, audit, verify};
use catchment_wire::trains::{Checksum, TrainSettings, Trains};

/// Several chunks of the least size, and a rest.
const TRAIN_BYTES: u64 = 600_013;
const PAYLOAD: u64 = 8_184;

fn protocol(change: impl FnOnce(&mut TrainSettings)) -> Trains {
    let mut settings = TrainSettings {
        train_bytes: TRAIN_BYTES,
        adler32_at: Some(TRAIN_BYTES - 4),
        ..TrainSettings::default()
    };
    change(&mut settings);
    Trains::new(settings).unwrap()
}

fn config(folder: &std::path::Path, trains: &Trains) -> RecorderConfig {
    let mut config = support::config(folder, 1);
    // What is unfinished is given up at the end, and not while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    config.sources = vec![SourceConfig {
        protocol: Arc::new(trains.clone()),
        fragment_bytes_max: TRAIN_BYTES,
        ..SourceConfig::new("trains", "127.0.0.1:0".parse().unwrap())
    }];
    config
}

fn train(number: u64) -> Vec<u8> {
    let mut train: Vec<u8> =
        (0..TRAIN_BYTES).map(|at| (at / 5 + at * number / 1_000 + 1) as u8 | 1).collect();
    let end = train.len() - 4;
    let mut sum = Checksum::default();
    sum.add(&train[..end]);
    train[end..].copy_from_slice(&sum.value().to_le_bytes());
    train
}

fn packets(trains: &Trains, number: u64, train: &[u8]) -> Vec<Vec<u8>> {
    let packet = |packet| {
        let mut buffer = vec![0; trains.packet_bytes()];
        let Range { start, end } = trains.range(packet);
        let fill = |room: &mut [u8]| room.copy_from_slice(&train[start as usize..end as usize]);
        let bytes = trains.encode((number, packet), &mut buffer, fill);
        buffer.truncate(bytes);
        buffer
    };
    (0..trains.packets()).map(packet).collect()
}

/// Two feeders of a recorder of one source, which lose nothing: each packet is taken before the
/// next one is sent.
struct Feeders {
    recorder: Recorder,
    sockets: [UdpSocket; 2],
    sent: u64,
}

impl Feeders {
    fn begin(config: RecorderConfig) -> Self {
        let recorder = Recorder::start(config).unwrap();
        let sockets = [0, 1].map(|_| sender_to(recorder.addresses()[0]));
        Self { recorder, sockets, sent: 0 }
    }

    fn count(&self, entry: Entry) -> u64 {
        self.recorder.snapshot().ledger.sources[0][entry]
    }

    fn send(&mut self, feeder: usize, packet: &[u8]) {
        self.sockets[feeder].send(packet).unwrap();
        self.sent += 1;
        wait_while(|| self.count(Entry::PacketsReceived) < self.sent);
    }

    fn end(self) -> (RunSummary, Run) {
        let summary = self.recorder.stop().unwrap();
        let balance = summary.last.ledger.balance();
        assert!(balance.holds(), "{balance:?}");
        let run = Run::open(&summary.folder).unwrap();
        (summary, run)
    }
}

/// Of an event: its key, its flags, its bytes and its holes.
type Recorded = (u64, u32, Vec<u8>, Vec<Range<u64>>);

fn recorded(run: &Run) -> Vec<Recorded> {
    let mut all = Vec::new();
    for frame in 0..run.frames().len() {
        let column = run.fragments(frame, SourceId(0)).unwrap();
        let events = column.events();
        for row in 0..events.len() {
            let holes = column.holes(row..row + 1).iter();
            let holes = holes.map(|&Hole { offset, bytes, .. }| offset..offset + bytes).collect();
            let bytes = column.fragment(row).expect("each event has its train").to_vec();
            all.push((events.keys()[row], events.flags()[row], bytes, holes));
        }
    }
    all
}

fn flagged_bad(flags: u32) -> bool {
    EventFlags(flags).contains(EventFlags::BAD_CHECKSUM)
}

#[test]
fn trains_of_two_feeders_in_any_order_and_repeated_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let trains = protocol(|_| {});
    let mut feeders = Feeders::begin(config(folder.path(), &trains));
    let mut random = Random::new(3);
    for pair in 0..3_u64 {
        let mut queue = Vec::new();
        for (feeder, number) in [(0, 2 * pair), (1, 2 * pair + 1)] {
            let packets = packets(&trains, number, &train(number));
            queue.extend(packets.iter().map(|packet| (feeder, packet.clone())));
            // One in eight comes twice.
            let again = packets.into_iter().step_by(8).map(|packet| (feeder, packet));
            queue.extend(again);
        }
        for last in (1..queue.len()).rev() {
            queue.swap(last, random.below(last as u64 + 1) as usize);
        }
        queue.iter().for_each(|(feeder, packet)| feeders.send(*feeder, packet));
    }
    let (summary, run) = feeders.end();
    let of = &summary.last.ledger.sources[0];
    assert!(!summary.last.ledger.balance().lost_data(), "{:?}", summary.last.ledger.balance());
    assert_eq!((of[Entry::FragmentsRecorded], of[Entry::FragmentsWithHoles]), (6, 0));
    // Two feeders are no stranger and its victim.
    let warnings = summary.last.warnings.concat();
    assert!(!warnings.contains("stranger"), "{warnings}");
    assert_eq!(of[Entry::FragmentPartsRepeated], 6 * trains.packets().div_ceil(8));
    for (number, (key, flags, bytes, holes)) in (0..).zip(recorded(&run)) {
        assert_eq!((key, holes), (number, vec![]));
        assert!(bytes == train(number) && !flagged_bad(flags), "train {number}");
    }
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
}

#[test]
fn lost_packets_are_exactly_the_holes_and_a_train_that_lacks_more_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let trains = protocol(|_| {});
    let last = trains.packets() - 1;
    let mut feeders = Feeders::begin(config(folder.path(), &trains));
    // Of the fourth only half comes: its feeder has died.
    let lost: [Vec<u64>; 5] =
        [vec![3], vec![], vec![0, 1, 40, last], (last / 2..=last).collect(), vec![last]];
    for (number, lost) in (0..).zip(&lost) {
        for (packet, bytes) in (0..).zip(packets(&trains, number, &train(number))) {
            if !lost.contains(&packet) {
                feeders.send(0, &bytes);
            }
        }
    }
    let (summary, run) = feeders.end();
    let of = &summary.last.ledger.sources[0];
    let counts = || of.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    let received = (of[Entry::FragmentsReceived], of[Entry::FragmentsRecorded]);
    assert_eq!(received, (5, 4), "{:?}", counts());
    assert_eq!(of[Entry::FragmentsDiscardedUnfinished], 1);
    let rest = TRAIN_BYTES - last * PAYLOAD;
    assert_eq!(of[Entry::FragmentsWithHoles], 3);
    assert_eq!(of[Entry::FragmentBytesLost], 4 * PAYLOAD + 2 * rest);
    assert_eq!(of[Entry::FragmentsBadChecksum], 0);
    let ranges = |lost: &[u64]| {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for range in lost.iter().map(|&packet| trains.range(packet)) {
            match ranges.last_mut().filter(|before| before.end == range.start) {
                Some(before) => before.end = range.end,
                None => ranges.push(range),
            }
        }
        ranges
    };
    let all = recorded(&run);
    assert_eq!(all.iter().map(|one| one.0).collect::<Vec<_>>(), [0, 1, 2, 4]);
    for (key, _, bytes, holes) in all {
        let expected = ranges(&lost[key as usize]);
        assert_eq!(holes, expected, "train {key}");
        let mut whole = train(key);
        for hole in &expected {
            whole[hole.start as usize..hole.end as usize].fill(0);
        }
        assert!(bytes == whole, "train {key}");
        // A part of it says which of its bytes are none.
        let (frame, row) = run.find(key).unwrap().expect("recorded");
        let wanted = 2 * PAYLOAD..5 * PAYLOAD;
        let part = run.fragment_part(frame, SourceId(0), row, wanted.clone()).unwrap().unwrap();
        assert!(part.bytes == whole[wanted.start as usize..wanted.end as usize]);
        let meets = |hole: &&Range<u64>| hole.start < wanted.end && wanted.start < hole.end;
        let met: Vec<_> = expected.iter().filter(meets).cloned().collect();
        assert_eq!((part.fragment_bytes, part.holes), (TRAIN_BYTES, met));
    }
    let flags = run.files().last().and_then(|file| file.flags).expect("a TOC");
    assert!(flags.data_bad && flags.data_lost, "{flags:?}");
    let report = audit(&run).unwrap();
    assert_eq!((report.verdict, report.differences.len()), (Verdict::DataLost, 0), "{report:?}");
    let verified = verify(&run, |_| {});
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
}

#[test]
fn a_train_with_a_wrong_checksum_is_recorded_flagged_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let trains = protocol(|_| {});
    let mut feeders = Feeders::begin(config(folder.path(), &trains));
    for number in 0..3 {
        let mut bytes = train(number);
        bytes[300_000] ^= u8::from(number == 1);
        packets(&trains, number, &bytes).iter().for_each(|packet| feeders.send(0, packet));
    }
    let (summary, run) = feeders.end();
    let of = &summary.last.ledger.sources[0];
    assert_eq!((of[Entry::FragmentsRecorded], of[Entry::FragmentsBadChecksum]), (3, 1));
    let flags: Vec<bool> = recorded(&run).iter().map(|one| flagged_bad(one.1)).collect();
    assert_eq!(flags, [false, true, false]);
    let report = audit(&run).unwrap();
    assert_eq!((report.verdict, report.recomputed.bad_data()), (Verdict::Balanced, 1));
}

#[test]
fn a_train_is_closed_with_its_holes_while_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let trains = protocol(|_| {});
    let mut config = config(folder.path(), &trains);
    config.build.timeout_ns = 2_000_000_000;
    config.frame.time_ns = 10_000_000;
    let mut feeders = Feeders::begin(config);
    let mut packets = packets(&trains, 0, &train(0));
    let late = packets.remove(7);
    packets.iter().for_each(|packet| feeders.send(0, packet));
    wait_while(|| feeders.count(Entry::FragmentsRecorded) == 0);
    assert_eq!(feeders.count(Entry::FragmentsWithHoles), 1);
    // It begins no train.
    feeders.send(0, &late);
    let (summary, _) = feeders.end();
    let of = &summary.last.ledger.sources[0];
    assert_eq!((of[Entry::FragmentsReceived], of[Entry::FragmentsRecorded]), (1, 1));
    assert_eq!(of[Entry::FragmentBytesReceived], TRAIN_BYTES);
}

#[test]
fn with_holes_dropped_a_train_that_lacks_a_packet_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let trains = protocol(|settings| settings.holes_bytes_max = Some(0));
    let mut feeders = Feeders::begin(config(folder.path(), &trains));
    for number in 0..2 {
        let packets = packets(&trains, number, &train(number));
        packets[number as usize..].iter().for_each(|packet| feeders.send(0, packet));
    }
    let (summary, run) = feeders.end();
    let of = &summary.last.ledger.sources[0];
    assert_eq!((of[Entry::FragmentsRecorded], of[Entry::FragmentsDiscardedUnfinished]), (1, 1));
    assert_eq!(recorded(&run).len(), 1);
}

#[test]
fn with_little_memory_a_train_is_recorded_of_all_sources_or_of_none() {
    const TRAINS: u64 = 12;
    let trains = protocol(|_| {});
    let all: Vec<_> = (0..TRAINS).map(|number| packets(&trains, number, &train(number))).collect();
    // Their packets come in turn, or most trains of the first source before those of the other one.
    for is_ahead in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), &trains);
        config.sources.push(SourceConfig { name: "more".into(), ..config.sources[0].clone() });
        config.frame.bytes = 64 << 10;
        config.frame.codings = ColumnCoding::NONE.into();
        config.build.event_bytes_max = Some(2 * TRAIN_BYTES);
        // Of six to eight trains, one and a bit of which are a source's share.
        config.memory_bytes = config.memory_bytes_min() + (8 << 20);
        let recorder = Recorder::start(config).unwrap();
        let sockets = [0, 1].map(|source| sender_to(recorder.addresses()[source]));
        let send = |source: usize, packet: &[u8]| {
            let received = || recorder.snapshot().ledger.sources[source][Entry::PacketsReceived];
            let before = received();
            sockets[source].send(packet).unwrap();
            wait_while(|| received() == before);
        };
        // The first source begins more trains than there is memory for, and the other one after it.
        for source in [0, 1] {
            all.iter().for_each(|packets| send(source, &packets[0]));
        }
        let (in_turn, ahead) = all.split_at(if is_ahead { 2 } else { all.len() });
        for packet in in_turn.iter().flat_map(|packets| &packets[1..]) {
            [0, 1].iter().for_each(|&source| send(source, packet));
        }
        for source in [0, 1] {
            ahead.iter().flat_map(|packets| &packets[1..]).for_each(|packet| send(source, packet));
        }
        let summary = recorder.stop().unwrap();
        assert!(summary.last.ledger.balance().holds());
        let count =
            |entry| summary.last.ledger.sources.iter().map(|one| one[entry]).collect::<Vec<_>>();
        let (recorded, dropped) =
            (count(Entry::FragmentsRecorded), count(Entry::FragmentsDiscardedMemory));
        assert!(recorded[0] >= 2 && dropped[0] >= 2, "{recorded:?} {dropped:?}");
        assert_eq!((recorded[0] + dropped[0], recorded[0]), (TRAINS, recorded[1]));
        assert_eq!(dropped[0], dropped[1]);
        let run = Run::open(&summary.folder).unwrap();
        assert_eq!((run.event_count(), run.event_counts().unwrap().incomplete), (recorded[0], 0));
    }
}

#[test]
fn a_file_of_trains_stays_within_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let trains = protocol(|_| {});
    let mut config = config(folder.path(), &trains);
    config.frame.bytes = 64 << 10;
    config.frame.codings = ColumnCoding::NONE.into();
    config.write.file_bytes = 2 * TRAIN_BYTES - 1;
    let refused = config.check().unwrap_err();
    assert_eq!((&*refused.key, &*refused.expected), ("write.file_bytes", "at least 1200026"));
    config.write.file_bytes = 1_300_000;
    let mut feeders = Feeders::begin(config);
    for number in 0..6 {
        let packets = packets(&trains, number, &train(number));
        packets.iter().for_each(|packet| feeders.send(0, packet));
    }
    let (_, run) = feeders.end();
    assert_eq!(run.event_count(), 6);
    // The table of contents stands behind the frames.
    let longest = run.files().map(|file| file.bytes).max().unwrap();
    assert!(longest <= 1_300_000 + (64 << 10) && run.files().len() >= 3, "{longest}");
}
