//! Emulated boards of declared layouts, from their sockets to the file: on connections that sources
//! share, in parts, with records of two kinds, and with several fragments of an event.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catchment_emulator::{
    Board, EmulatedSource, Emulator, EmulatorConfig, EmulatorLive, EmulatorReport, Faults,
    plain_board,
};
use catchment_model::Entry;
use catchment_recorder::{MatchRule, Recorder, RecorderConfig, RunSummary, SourceConfig, TimeRule};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::layouts::{
    Block, ChecksumKind, Field, FieldKind, Layout, Layouts, Order, Recorded, Role,
};

use crate::support;

const SOURCES: u32 = 3;
const EVENTS: u64 = 300;

fn field(at: i64, width: u32, kind: FieldKind) -> Field {
    Field { at, width, bits: None, kind }
}

fn is(at: i64, width: u32, role: Role) -> Field {
    field(at, width, FieldKind::Is(role))
}

const LENGTH: Role = Role::Length { unit: 1, plus: 0 };

fn checksum() -> Field {
    is(-4, 4, Role::Checksum { kind: ChecksumKind::Crc32c, from: 0, to: None })
}

fn layouts(is_stream: bool, packet: Block, records: Vec<Block>, recorded: Recorded) -> Layouts {
    let (name, order) = ("board".to_owned(), Order::Little);
    Layouts::new(Layout { name, is_stream, order, packet, records, recorded }).unwrap()
}

/// Packets on a connection that are fragments, or parts of them.
fn packets(in_parts: bool) -> Layouts {
    let mut fields = vec![
        is(0, 4, LENGTH),
        is(4, 4, Role::Sequence),
        is(8, 4, Role::Key),
        is(12, 2, Role::Source),
        checksum(),
    ];
    if in_parts {
        let unit = 8;
        fields.extend([is(16, 4, Role::Position { unit }), is(20, 4, Role::Total { unit: 1 })]);
    }
    let packet = Block { head: 24, tail: 4, bytes_max: Some(1_200), fields, ..Block::default() };
    layouts(true, packet, Vec::new(), Recorded::Body)
}

/// Packets on a connection with hits, fillers, and longer records.
fn records() -> Layouts {
    let packet = Block {
        head: 12,
        tail: 4,
        bytes_max: Some(8_000),
        fields: vec![is(0, 4, LENGTH), is(4, 4, Role::Sequence), is(8, 4, Role::Count), checksum()],
        ..Block::default()
    };
    let block = |choose: u64, bytes: Option<u64>, is_filler: bool| {
        let mut fields = vec![field(0, 1, FieldKind::Choose(choose))];
        if !is_filler {
            fields.extend([is(4, 4, Role::Key), is(2, 2, Role::Source)]);
        }
        if bytes.is_none() {
            fields.push(is(8, 4, LENGTH));
        }
        Block { head: 12, align: 4, bytes, skip: is_filler, fields, ..Block::default() }
    };
    let records = vec![block(1, Some(20), false), block(2, None, true), block(3, None, false)];
    layouts(true, packet, records, Recorded::Body)
}

/// A recorder of sources of a layout: of connections, on one port.
fn config(folder: &Path, layouts: &Layouts) -> RecorderConfig {
    let mut config = support::config(folder, 1);
    let address = config.sources[0].address;
    let source = |number: u32| SourceConfig {
        protocol: Arc::new(layouts.clone()),
        id: Some(3 + number),
        fragment_bytes_max: 1 << 16,
        ..SourceConfig::new(format!("s{number}"), address)
    };
    config.sources = (0..SOURCES).map(source).collect();
    // Nothing is given up while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

/// Records what the boards of a recorder send.
fn record(
    recorder: RecorderConfig,
    board: &Board,
    emulator: EmulatorConfig,
) -> (RunSummary, Emulator, EmulatorReport) {
    let recorder = Recorder::start(recorder).unwrap();
    // A few datagrams fit into any socket's buffer.
    let mean_bytes = if board.is_stream() { 3_000.0 } else { 300.0 };
    let source = |number: u32| EmulatedSource {
        sub_event_id: 3 + number,
        board: Some(board.clone()),
        sigma: 0.2,
        mean_bytes,
        ..plain_board("boards")
    };
    let emulator = Emulator::new(EmulatorConfig {
        sources: (0..SOURCES).map(source).collect(),
        targets: recorder.addresses().to_vec(),
        events: emulator.events.or(Some(EVENTS)),
        ..emulator
    })
    .unwrap();
    let report = emulator.run(&AtomicBool::new(false), &EmulatorLive::default()).unwrap();
    assert_eq!(report.total().packets_unsent, 0);
    let summary = recorder.stop().unwrap();
    let balance = summary.last.ledger.balance();
    assert!(balance.holds(), "{balance:?}");
    for (ledger, sent) in summary.last.ledger.sources.iter().zip(&report.sources) {
        let whole = sent.fragments_sent - sent.fragments_corrupted;
        assert_eq!(ledger[Entry::FragmentsRecorded], whole);
    }
    (summary, emulator, report)
}

/// Every fragment of a run has the bytes that its source sent; returns how many there are.
fn compare(summary: &RunSummary, emulator: &Emulator) -> u64 {
    let mut count = 0;
    for (key, sources) in support::fragments(&Run::open(&summary.folder).unwrap()) {
        for (source, fragment) in sources {
            let mut sent = vec![0; fragment.len()];
            emulator.content().fill(source, key, &mut sent);
            assert!(fragment == sent, "{source}, {key}");
            count += 1;
        }
    }
    count
}

fn is_balanced(summary: &RunSummary) -> bool {
    audit(&Run::open(&summary.folder).unwrap()).unwrap().verdict == Verdict::Balanced
}

#[test]
fn fragments_in_parts_on_connections_are_recorded_whole() {
    let (folder, layouts) = (tempfile::tempdir().unwrap(), packets(true));
    let board = Board::new(layouts.clone());
    let recorder = config(folder.path(), &layouts);
    // A fragment in parts takes a chunk of memory: there are enough for all.
    let events = 60;
    let emulator = EmulatorConfig { events: Some(events), ..EmulatorConfig::default() };
    let (summary, emulator, report) = record(recorder, &board, emulator);
    assert_eq!(compare(&summary, &emulator), events * u64::from(SOURCES));
    assert_eq!(summary.last.counts.events_complete, events);
    assert!(report.total().packets_sent > 3 * report.total().fragments_sent);
    assert_eq!(support::total(&summary, Entry::PacketsMissing), 0);
    assert!(is_balanced(&summary));
}

#[test]
fn records_of_two_kinds_on_connections_are_recorded_beside_those_that_are_skipped() {
    let (folder, layouts) = (tempfile::tempdir().unwrap(), records());
    let board = Board::new(layouts.clone());
    let recorder = config(folder.path(), &layouts);
    let emulator = EmulatorConfig { water_mark_bytes: 4_000, ..EmulatorConfig::default() };
    let (summary, emulator, report) = record(recorder, &board, emulator);
    assert_eq!(compare(&summary, &emulator), EVENTS * u64::from(SOURCES));
    // Hits have 8 bytes.
    let run = Run::open(&summary.folder).unwrap();
    for (key, sources) in support::fragments(&run) {
        let are_hits = sources.values().map(|fragment| fragment.len() == 8);
        assert!(are_hits.eq([key % 2 == 0; SOURCES as usize]), "{key}");
    }
    assert!(report.total().packets_sent < report.total().fragments_sent);
    assert!(support::total(&summary, Entry::RecordsSkipped) > u64::from(SOURCES));
    assert!(is_balanced(&summary));
}

#[test]
fn a_corrupt_packet_ends_its_connection_and_is_all_that_is_lost() {
    let (folder, layouts) = (tempfile::tempdir().unwrap(), packets(false));
    let board = Board::new(layouts.clone());
    let recorder = config(folder.path(), &layouts);
    let faults = Faults { corrupt: 0.02, ..Faults::default() };
    let emulator = EmulatorConfig { faults, ..EmulatorConfig::default() };
    let (summary, emulator, report) = record(recorder, &board, emulator);
    let total = report.total();
    assert!(total.packets_corrupted > 3, "{total:?}");
    let balance = summary.last.ledger.balance();
    assert_eq!(balance.packets_malformed, total.packets_corrupted);
    assert_eq!(compare(&summary, &emulator), total.fragments_made - total.fragments_corrupted);
}

#[test]
fn pieces_of_an_event_are_records_of_the_packet_that_says_their_time() {
    let packet = Block {
        head: 16,
        fields: vec![
            is(0, 4, Role::Sequence),
            is(4, 2, Role::Source),
            is(6, 2, Role::Count),
            is(8, 8, Role::Time { rate_hz: Some(1_000_000_000) }),
        ],
        ..Block::default()
    };
    let piece = Block { head: 4, fields: vec![is(0, 4, LENGTH)], ..Block::default() };
    let layouts = layouts(false, packet, vec![piece], Recorded::Body).by_time().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = config(folder.path(), &layouts);
    recorder.build.rule = MatchRule::Time;
    recorder.build.timeout_ns = 60_000_000_000;
    let (window_ns, fragments_max) = (Some(200), Some(3));
    recorder.build.time = TimeRule { window_ns, fragments_max, ..TimeRule::default() };
    let board = Board::new(layouts).with_pieces(3);
    let rate_hz = Some(500.0);
    let emulator = EmulatorConfig { rate_hz, ..EmulatorConfig::default() };
    let (summary, _, report) = record(recorder, &board, emulator);
    let total = report.total();
    assert_eq!(total.fragments_sent, 3 * EVENTS * u64::from(SOURCES));
    assert!(total.packets_sent < total.fragments_sent);
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(run.event_count(), EVENTS);
    assert!(is_balanced(&summary));
}
