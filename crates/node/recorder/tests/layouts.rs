//! A declared layout on connections: fragments in parts, of sources that share a port.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use catchment_builder::WindowKind;
use catchment_fixtures::wait_while;
use catchment_frame::Pattern;
use catchment_model::Entry;
use catchment_recorder::{MatchRule, Recorder, SourceConfig, TimeRule};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::layouts::{
    Block, ChecksumKind, Field, FieldKind, Layout, Layouts, Order, RecordValues, Recorded, Role,
    Values, alpha_72, example_variants,
};
use catchment_wire::{Protocol as _, Transport, all_reasons};

use crate::support;

fn layouts() -> Layouts {
    let is = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let checksum = Role::Checksum { kind: ChecksumKind::Xor32, from: 0, to: None };
    let packet = Block {
        head: 16,
        tail: 4,
        bytes_max: Some(1_000),
        fields: vec![
            is(0, 2, Role::Source),
            is(2, 2, Role::Length { unit: 1, plus: 16 }),
            is(4, 4, Role::Key),
            is(8, 4, Role::Position { unit: 1 }),
            is(12, 4, Role::Total { unit: 1 }),
            is(-4, 4, checksum),
        ],
        ..Block::default()
    };
    let (name, order, records) = ("parts".to_owned(), Order::Little, Vec::new());
    let recorded = Recorded::Body;
    Layouts::new(Layout { name, is_stream: true, order, packet, records, recorded }).unwrap()
}

fn fragment(source: u64, key: u64) -> Vec<u8> {
    let bytes = [0, 900, 2_500, 100_000][(source + key) as usize % 4];
    (0..bytes).map(|byte| (byte as u64 / 7 + source + key) as u8).collect()
}

/// A fragment as packets, in any number of parts.
fn packets(layouts: &Layouts, source: u64, key: u64) -> Vec<u8> {
    let fragment = fragment(source, key);
    let total = fragment.len() as u64;
    let positions = (0..fragment.len().max(1)).step_by(900);
    let packet = |position: usize| {
        let body = &fragment[position..fragment.len().min(position + 900)];
        let position = position as u64;
        let values = Values { key, source, position, total, ..Values::default() };
        layouts.encode(false, &values, body, &[]).unwrap()
    };
    positions.flat_map(packet).collect()
}

#[test]
fn declared_packets_of_a_connection_are_recorded_and_a_bad_one_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 1);
    let (layouts, address) = (layouts(), config.sources[0].address);
    let source = |number: u32| SourceConfig {
        protocol: Arc::new(layouts.clone()),
        id: Some(3 + number),
        fragment_bytes_max: 1 << 20,
        ..SourceConfig::new(format!("s{number}"), address)
    };
    config.sources = (0..2).map(source).collect();
    config.build.timeout_ns = 3_600_000_000_000;
    let recorder = Recorder::start(config).unwrap();
    let mut stream = TcpStream::connect(recorder.addresses()[0]).unwrap();
    for key in 0..12 {
        for source in 3..5 {
            stream.write_all(&packets(&layouts, source, key)).unwrap();
        }
    }
    let count = |source: usize, entry: Entry| recorder.snapshot().ledger.sources[source][entry];
    wait_while(|| (0..2).any(|source| count(source, Entry::FragmentsReceived) < 12));
    let mut wrong = packets(&layouts, 3, 13);
    *wrong.last_mut().unwrap() ^= 1;
    stream.write_all(&wrong).unwrap();
    wait_while(|| count(0, Entry::PacketsMalformedChecksum) < 1);
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    assert!(ledger.balance().holds(), "{:?}", ledger.balance());
    let reasons: Vec<&str> =
        all_reasons(layouts.reasons(), Transport::Connections).map(|one| one.name).collect();
    let checksum = reasons.iter().position(|name| *name == "checksum").unwrap();
    assert_eq!(ledger.sources[0].reasons[checksum], 1);
    let run = Run::open(&summary.folder).unwrap();
    // The refused packet is a loss, and the only one.
    assert_eq!(audit(&run).unwrap().verdict, Verdict::DataLost);
    assert_eq!(ledger.balance().packets_malformed, 1);
    let events = support::fragments(&run);
    assert_eq!(events.keys().copied().collect::<Vec<u64>>(), (0..12).collect::<Vec<u64>>());
    for (key, sources) in events {
        for source in 0..2 {
            assert!(sources[&source] == fragment(3 + u64::from(source), key), "{source}, {key}");
        }
    }
}

#[test]
fn a_source_with_several_layouts_is_recorded_and_packets_of_none_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 1);
    let (variants, address) = (example_variants(), config.sources[0].address);
    let protocol = Arc::new(variants.clone());
    config.sources = vec![SourceConfig { protocol, ..SourceConfig::new("digitizer", address) }];
    let recorder = Recorder::start(config).unwrap();
    let socket = &support::senders(&recorder)[0];
    let [events, settings] = variants.declared() else { panic!("there are two") };
    let packet = |layouts: &Layouts, sequence: u64, key: u64| {
        let values = Values { sequence, key, source: 3, ..Values::default() };
        layouts.encode(true, &values, &key.to_be_bytes(), &[]).unwrap()
    };
    // Every third one is of settings, and the last one of neither layout.
    for sequence in 0..30 {
        let layouts = if sequence % 3 == 2 { settings } else { events };
        socket.send(&packet(layouts, sequence, sequence - sequence / 3)).unwrap();
    }
    let mut other = packet(events, 30, 20);
    other[0] = 0x10;
    socket.send(&other).unwrap();
    let ledger = || recorder.snapshot().ledger;
    wait_while(|| ledger().sources[0][Entry::PacketsMalformedHeader] < 1);
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    assert!(ledger.balance().holds(), "{:?}", ledger.balance());
    let source = &ledger.sources[0];
    let counts = [Entry::FragmentsReceived, Entry::RecordsSkipped, Entry::PacketsMissing];
    assert_eq!(counts.map(|entry| source[entry]), [20, 10, 0]);
    let variant = variants.reasons().iter().position(|reason| reason.name == "variant").unwrap();
    assert_eq!(source.reasons[variant], 1);
    let run = Run::open(&summary.folder).unwrap();
    let recorded = support::fragments(&run);
    assert_eq!(recorded.len(), 20);
    for (key, sources) in recorded {
        assert!(sources[&0].ends_with(&key.to_be_bytes()), "{key}");
    }
}

/// The other board's numbers are half a cycle from the source's own.
#[test]
fn numbers_of_another_board_do_not_move_those_of_a_source() {
    let is = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let packet = Block {
        head: 8,
        fields: vec![is(0, 1, Role::Sequence), is(1, 1, Role::Source), is(4, 4, Role::Key)],
        ..Block::default()
    };
    let (name, order, recorded) = ("counted".to_owned(), Order::Little, Recorded::Whole);
    let layout = Layout { name, is_stream: false, order, packet, records: Vec::new(), recorded };
    let layouts = Layouts::new(layout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 1);
    let address = config.sources[0].address;
    let (protocol, id) = (Arc::new(layouts.clone()), Some(3));
    config.sources = vec![SourceConfig { protocol, id, ..SourceConfig::new("board", address) }];
    let recorder = Recorder::start(config).unwrap();
    let socket = &support::senders(&recorder)[0];
    let send = |source: u64, sequence: u64, key: u64| {
        let values = Values { source, sequence: sequence % 256, key, ..Values::default() };
        socket.send(&layouts.encode(true, &values, &[], &[]).unwrap()).unwrap();
    };
    let count = |entry| recorder.snapshot().ledger.sources[0][entry];
    for event in 0..2_000 {
        if event % 100 != 50 {
            send(3, event, event);
        }
        send(4, event + 128, event);
        if event % 100 == 99 {
            wait_while(|| count(Entry::FragmentsUnknownSource) < event + 1);
        }
    }
    let summary = recorder.stop().unwrap();
    let source = &summary.last.ledger.sources[0];
    let counts = [Entry::FragmentsRecorded, Entry::FragmentsUnknownSource, Entry::PacketsMissing];
    assert_eq!(counts.map(|entry| source[entry]), [1_980, 2_000, 20]);
}

/// Records of 12 bytes that name groups.
fn naming() -> Layouts {
    let is = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let packet = Block {
        head: 8,
        fields: vec![is(0, 4, Role::Sequence), is(4, 4, Role::Count)],
        ..Block::default()
    };
    let record = Block {
        head: 12,
        bytes: Some(12),
        fields: vec![is(0, 4, Role::Key), is(4, 2, Role::Groups)],
        ..Block::default()
    };
    let (name, order, recorded) = ("naming".to_owned(), Order::Little, Recorded::Whole);
    let layout = Layout { name, is_stream: false, order, packet, records: vec![record], recorded };
    Layouts::new(layout).unwrap()
}

#[test]
fn by_number_the_first_source_whose_layout_has_groups_names_them_record_by_record() {
    // The trigger comes first or last.
    for order in [[0, 1, 2], [1, 2, 0]] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = support::config(folder.path(), 1);
        let (layouts, address) = (naming(), config.sources[0].address);
        let source = |number: u32| SourceConfig {
            protocol: Arc::new(layouts.clone()),
            expected_in: u64::from(number),
            ..SourceConfig::new(format!("s{number}"), address)
        };
        // A trigger, and sources of group 0 and of group 1.
        config.sources = (0..3).map(source).collect();
        config.build.timeout_ns = 3_600_000_000_000;
        let recorder = Recorder::start(config).unwrap();
        let sockets = support::senders(&recorder);
        // As many records as a datagram may have, and each names other groups than the one before.
        let (records, packets) = (4_096, 3);
        let record = |key: u64| {
            let values = Values { key, groups: 1 + key % 2, ..Values::default() };
            RecordValues { kind: 0, values, body: &[] }
        };
        for source in order {
            let mut sent = 0;
            for packet in 0..packets {
                let keys = packet * records..(packet + 1) * records;
                let of_source = |key: &u64| source == 0 || key % 2 == source as u64 - 1;
                let records: Vec<_> = keys.filter(of_source).map(record).collect();
                let values = Values { sequence: packet, ..Values::default() };
                let bytes = layouts.encode(false, &values, &[], &records).unwrap();
                sockets[source].send(&bytes).unwrap();
                sent += records.len() as u64;
                let ledger = || recorder.snapshot().ledger;
                wait_while(|| ledger().sources[source][Entry::FragmentsReceived] < sent);
            }
        }
        let events = records * packets;
        let summary = recorder.stop().unwrap();
        assert_eq!(summary.last.counts.events_incomplete, 0, "{order:?}");
        let run = Run::open(&summary.folder).unwrap();
        let report = audit(&run).unwrap();
        assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
        let not_expected =
            report.recomputed.sources.iter().map(|source| source[Entry::FragmentsNotExpected]);
        assert_eq!(not_expected.collect::<Vec<u64>>(), [0, events / 2, events / 2]);
    }
}

#[test]
fn by_time_the_source_that_opens_events_names_their_groups_in_its_header() {
    const EVENTS: u64 = 300;
    const ABSENT: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 1);
    let (layouts, address) = (alpha_72().by_time().unwrap(), config.sources[0].address);
    let source = |number: u32| SourceConfig {
        protocol: Arc::new(layouts.clone()),
        expected_in: u64::from(number),
        ..SourceConfig::new(format!("s{number}"), address)
    };
    // A trigger, and sources of group 0 and of group 1.
    config.sources = (0..3).map(source).collect();
    config.build.rule = MatchRule::Time;
    config.build.timeout_ns = 60_000_000_000;
    config.build.time = TimeRule { window_ns: Some(200), ..TimeRule::default() };
    let refused = config.check().unwrap_err();
    let expected = "build.time.openers with one source alone, a front-end or one with groups";
    assert_eq!((&*refused.key, &*refused.expected), ("sources[1].expected_in", expected));
    config.build.time.openers = vec![Pattern::name("s0")];
    let recorder = Recorder::start(config).unwrap();
    let sockets = support::senders(&recorder);
    let mut sent = [0; 3];
    let mut send = |source: usize, time: u64, groups: u64| {
        let sequence = sent[source];
        sent[source] += 1;
        let values = Values { time, groups, sequence, ..Values::default() };
        let packet = layouts.encode(false, &values, b"bytes", &[]).unwrap();
        sockets[source].send(&packet).unwrap();
        let received = || recorder.snapshot().ledger.sources[source][Entry::FragmentsReceived];
        wait_while(|| received() < sequence + 1);
    };
    for event in 0..EVENTS {
        let (time, group) = (1_000_000 + event * 125_000, event % 2);
        send(0, time, 1 << group);
        if event != ABSENT {
            // What others say of groups does not count.
            send(1 + group as usize, time + 5, 0xff);
        }
    }
    let summary = recorder.stop().unwrap();
    assert_eq!(summary.last.counts.events_incomplete, 1);
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(run.event_count(), EVENTS);
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::DataLost, "one fragment never came: {report:?}");
    let count = |entry: Entry| -> Vec<u64> {
        report.recomputed.sources.iter().map(|source| source[entry]).collect()
    };
    assert_eq!(count(Entry::FragmentsMissing), [0, 1, 0]);
    assert_eq!(count(Entry::FragmentsNotExpected), [0, EVENTS / 2, EVENTS / 2]);
    assert_eq!(count(Entry::FragmentsUnmatched), [0; 3]);
}

/// Packets with a key, and with a trigger's tag or without.
fn keyed(has_tag: bool) -> Layouts {
    let is = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let tag = has_tag.then(|| is(4, 1, Role::Tag));
    let fields = std::iter::once(is(0, 4, Role::Key)).chain(tag).collect();
    let packet = Block { head: 8, fields, ..Block::default() };
    let (name, order, recorded) = ("keyed".to_owned(), Order::Little, Recorded::Body);
    let layout = Layout { name, is_stream: false, order, packet, records: Vec::new(), recorded };
    Layouts::new(layout).unwrap()
}

#[test]
fn a_source_whose_layout_has_no_tag_makes_those_of_others_not_bad() {
    const EVENTS: u64 = 50;
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 1);
    let (layouts, address) = ([false, true].map(keyed), config.sources[0].address);
    let source = |number: usize| SourceConfig {
        protocol: Arc::new(layouts[number].clone()),
        ..SourceConfig::new(format!("s{number}"), address)
    };
    config.sources = (0..2).map(source).collect();
    let recorder = Recorder::start(config).unwrap();
    let sockets = support::senders(&recorder);
    for key in 1..=EVENTS {
        for (socket, layouts) in sockets.iter().zip(&layouts) {
            let values = Values { key, tag: 5, ..Values::default() };
            socket.send(&layouts.encode(false, &values, b"body", &[]).unwrap()).unwrap();
        }
    }
    let received = || recorder.snapshot().ledger.total()[Entry::FragmentsReceived];
    wait_while(|| received() < 2 * EVENTS);
    let last = recorder.stop().unwrap().last;
    assert_eq!(last.counts.events_complete, EVENTS);
    assert_eq!(last.ledger.bad_data(), 0, "{:?}", last.ledger.total());
}

#[test]
fn events_that_the_longest_span_ends_are_counted_and_warned_of() {
    const EVENTS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(folder.path(), 1);
    let (layouts, address) = (alpha_72().by_time().unwrap(), config.sources[0].address);
    let source = |number: usize| SourceConfig {
        protocol: Arc::new(layouts.clone()),
        ..SourceConfig::new(format!("s{number}"), address)
    };
    config.sources = (0..2).map(source).collect();
    config.build.rule = MatchRule::Time;
    config.build.timeout_ns = 60_000_000_000;
    let (kind, window_ns) = (WindowKind::Gap, Some(200));
    config.build.time = TimeRule { kind, window_ns, span_ns_max: window_ns, ..TimeRule::default() };
    let recorder = Recorder::start(config).unwrap();
    let sockets = support::senders(&recorder);
    for sequence in 0..EVENTS {
        // 152 ns apart: the gap behind the second one would end beyond the span.
        for (socket, ticks) in sockets.iter().zip([0, 19]) {
            let time = 1_000_000 + sequence * 125_000 + ticks;
            let values = Values { time, sequence, ..Values::default() };
            socket.send(&layouts.encode(false, &values, b"bytes", &[]).unwrap()).unwrap();
        }
    }
    let received = || recorder.snapshot().ledger.total()[Entry::FragmentsReceived];
    wait_while(|| received() < 2 * EVENTS);
    let last = recorder.stop().unwrap().last;
    assert_eq!((last.counts.events_complete, last.counts.events_capped), (EVENTS, EVENTS));
    let warned = last.warnings.iter().filter(|one| one.contains("build.time.span_max"));
    assert_eq!(warned.count(), 1, "{:?}", last.warnings);
}
