//! What packets of declared boards may have: records of several kinds, parts of fragments, several
//! fragments of an event, and what is no fragment; and packets on connections.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;

use catchment_emulator::{Board, EmulatedSource, Emulator, EmulatorConfig, EmulatorLive};
use catchment_wire::layouts::{
    Block, Field, FieldKind, Layout, Layouts, Order, Recorded, Role, alpha_72, example_counted,
};
use catchment_wire::{Part, Protocol as _};

use crate::boards::boards;
use crate::emulator::{Captured, capture};

fn field(at: i64, width: u32, kind: FieldKind) -> Field {
    Field { at, width, bits: None, kind }
}

fn is(at: i64, width: u32, role: Role) -> Field {
    field(at, width, FieldKind::Is(role))
}

fn layouts(packet: Block, records: Vec<Block>, recorded: Recorded) -> Layouts {
    let (name, order) = ("one".to_owned(), Order::Big);
    let is_stream = false;
    Layouts::new(Layout { name, is_stream, order, packet, records, recorded }).unwrap()
}

const LENGTH: Role = Role::Length { unit: 1, plus: 0 };

/// Hits, fillers, and all else, of any length, which no constant tells.
fn kinds() -> Layouts {
    let packet = Block {
        head: 8,
        fields: vec![is(0, 4, Role::Sequence), is(4, 4, Role::Count)],
        ..Block::default()
    };
    let of_fragment = [is(0, 4, Role::Key), is(4, 2, Role::Source)];
    let chosen = |value| field(7, 1, FieldKind::Choose(value));
    let hit = [&[chosen(0)], &of_fragment[..]].concat();
    let other = [&[is(8, 4, LENGTH)], &of_fragment[..]].concat();
    let records = vec![
        Block { head: 8, bytes: Some(16), fields: hit, ..Block::default() },
        Block {
            head: 8,
            bytes: Some(8),
            skip: true,
            fields: vec![chosen(0xff)],
            ..Block::default()
        },
        Block { head: 12, fields: other, ..Block::default() },
    ];
    layouts(packet, records, Recorded::Whole)
}

/// A packet as it is decoded: its fragments or parts, and what was skipped.
fn decoded(layouts: &Layouts, packet: &[u8]) -> (Vec<Part>, u64) {
    let mut parts = Vec::new();
    let decoded = layouts.decoder().decode(0, packet, &mut parts);
    (parts, decoded.expect("a packet of the layout").skipped)
}

/// The first bytes of what a source sends of an event.
fn content(captured: &Captured, source: usize, event: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    captured.emulator.content().fill(source as u32, event, &mut content);
    content
}

#[test]
fn kinds_of_records_come_in_turn_and_now_and_then_one_that_is_skipped() {
    let layouts = kinds();
    let captured = capture(EmulatorConfig {
        sources: boards(&layouts, 2),
        events: Some(500),
        water_mark_bytes: 600,
        ..EmulatorConfig::default()
    });
    for (source, packets) in captured.datagrams.iter().enumerate() {
        let mut event = 0;
        for packet in packets {
            let sequence = u32::from_be_bytes(packet[..4].try_into().unwrap());
            let (parts, skipped) = decoded(&layouts, packet);
            assert_eq!(skipped, u64::from((sequence + 1) % 16 == 0));
            let kinds = layouts.kinds_of(packet).into_iter().filter(|kind| *kind != 1);
            for (part, kind) in parts.iter().zip(kinds) {
                event += 1;
                assert_eq!((part.number, part.id, kind % 2), (event, source as u32 + 1, 0));
                assert_eq!(kind / 2, (event % 2) as usize);
                let head = [8, 12][kind / 2];
                let body = &packet[part.offset as usize..][head..part.bytes as usize];
                assert!(body == content(&captured, source, event, body.len()), "event {event}");
            }
        }
        assert_eq!(event, 500);
        assert!(packets.len() > 40);
    }
}

/// What parts say, and the fragments that they are: each part is where the one before ends.
fn joined(captured: &Captured, layouts: &Layouts, source: usize) -> (u64, BTreeMap<u64, Vec<u8>>) {
    let (mut count, mut fragments) = (0, BTreeMap::<u64, Vec<u8>>::new());
    for packet in &captured.datagrams[source] {
        for part in decoded(layouts, packet).0 {
            let fragment = fragments.entry(part.number).or_default();
            assert_eq!(part.position, fragment.len() as u64);
            fragment.extend(&packet[part.offset as usize..][..part.bytes as usize]);
            assert!(fragment.len() as u64 <= part.fragment_bytes);
            count += 1;
        }
    }
    (count, fragments)
}

fn of_parts() -> [Field; 2] {
    [is(4, 4, Role::Position { unit: 4 }), is(8, 4, Role::Total { unit: 1 })]
}

#[test]
fn fragments_are_sent_in_parts_as_packets_have_room_for_them() {
    let fields = [&[is(0, 2, Role::Key), is(2, 2, LENGTH)], &of_parts()[..]].concat();
    let packet = Block { head: 12, bytes_max: Some(1_000), fields, ..Block::default() };
    let layouts = layouts(packet, Vec::new(), Recorded::Body);
    for (mean_bytes, events, parts_min) in [(60.0, 100, 270), (5_000.0, 12, 48)] {
        let mut sources = boards(&layouts, 2);
        sources.iter_mut().for_each(|one| (one.mean_bytes, one.sigma) = (mean_bytes, 0.2));
        let config = EmulatorConfig { sources, events: Some(events), ..EmulatorConfig::default() };
        let captured = capture(config);
        for source in 0..2 {
            let (parts, fragments) = joined(&captured, &layouts, source);
            assert!(parts >= parts_min, "{parts}");
            assert!(fragments.keys().copied().eq(1..=events));
            for (event, fragment) in fragments {
                assert!(fragment == content(&captured, source, event, fragment.len()), "{event}");
                let bytes = captured.emulator.content().payload_bytes(source as u32, event);
                assert_eq!((fragment.len(), bytes % 4), (bytes, 0));
            }
        }
    }
}

#[test]
fn records_whose_event_the_packet_says_share_it_with_those_of_their_event_alone() {
    let packet = Block {
        head: 8,
        fields: vec![is(0, 4, Role::Key), is(4, 4, Role::Count)],
        ..Block::default()
    };
    let fields = [&[is(0, 4, LENGTH)], &of_parts()[..]].concat();
    let record = Block { head: 12, fields, ..Block::default() };
    let layouts = layouts(packet, vec![record], Recorded::Body);
    assert!(layouts.is_of_event());
    let captured = capture(EmulatorConfig {
        sources: boards(&layouts, 1),
        events: Some(100),
        ..EmulatorConfig::default()
    });
    // Three parts of a fragment of 100 bytes are one packet.
    assert_eq!(captured.datagrams[0].len(), 100);
    let (parts, fragments) = joined(&captured, &layouts, 0);
    assert_eq!((parts, fragments.len()), (300, 100));
    for (event, fragment) in fragments {
        assert!(fragment == content(&captured, 0, event, 100), "event {event}");
    }
}

#[test]
fn what_is_passed_over_is_behind_the_records_of_one_packet_of_sixteen() {
    let layouts = example_counted();
    let captured = capture(EmulatorConfig {
        sources: boards(&layouts, 1),
        events: Some(320),
        water_mark_bytes: 0,
        ..EmulatorConfig::default()
    });
    let skipped = captured.datagrams[0].iter().map(|packet| decoded(&layouts, packet).1);
    assert_eq!(skipped.sum::<u64>(), 20);
}

#[test]
fn pieces_of_an_event_have_one_time_and_packets_of_their_own_number() {
    let layouts = alpha_72().by_time().unwrap();
    let board = Some(Board::new(layouts.clone()).with_pieces(3));
    let source = EmulatedSource { board, ..boards(&layouts, 1).remove(0) };
    let captured = capture(EmulatorConfig {
        sources: vec![source],
        events: Some(50),
        ..EmulatorConfig::default()
    });
    assert_eq!(captured.report.total().fragments_made, 150);
    let packets = &captured.datagrams[0];
    for (index, pieces) in packets.chunks(3).enumerate() {
        let times = pieces.iter().map(|packet| decoded(&layouts, packet).0[0].number);
        let times: Vec<u64> = times.collect();
        assert!(times[1..] == [times[0]; 2], "event {index}");
        assert!(pieces[0][24..] != pieces[1][24..] && pieces[1][24..] != pieces[2][24..]);
    }
    let [trb, ..] = catchment_wire::layouts::example_layouts();
    assert_eq!(Board::new(trb).with_pieces(3).pieces, 1, "no sequence tells them from repetitions");
}

#[test]
fn a_board_whose_connection_is_closed_connects_again() {
    const EVENTS: u64 = 20_000;
    let mut stream = alpha_72().layout().clone();
    stream.is_stream = true;
    let layouts = Layouts::new(stream).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    // More than sockets hold.
    let mut sources = boards(&layouts, 1);
    (sources[0].mean_bytes, sources[0].sigma) = (1_400.0, 0.0);
    let config = EmulatorConfig {
        sources,
        targets: vec![target],
        events: Some(EVENTS),
        ..EmulatorConfig::default()
    };
    let recorder = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        first.read_exact(&mut [0; 100_000]).unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        second.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let emulator = Emulator::new(config).unwrap();
    let report = emulator.run(&AtomicBool::new(false), &EmulatorLive::default()).unwrap();
    let total = report.total();
    assert_eq!(total.packets_sent + total.packets_unsent, EVENTS);
    assert!(total.packets_unsent > 0, "the one that was cut");
    let bytes = recorder.join().unwrap();
    let (mut decoder, mut parts, mut rest) = (layouts.decoder(), Vec::new(), &bytes[..]);
    let mut newest = None;
    while !rest.is_empty() {
        parts.clear();
        let decoded = decoder.decode(0, rest, &mut parts).expect("a packet of the layout");
        assert!(decoded.used > 0 && parts.len() == 1, "{} bytes are left", rest.len());
        assert!(newest.is_none_or(|newest| decoded.sequence == Some(newest + 1)));
        newest = decoded.sequence;
        rest = &rest[decoded.used..];
    }
    assert_eq!(newest.map(|newest| newest & 0xffff_ffff), Some(EVENTS));
}
