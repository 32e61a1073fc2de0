//! Boards of declared layouts, with real sockets: their packets, clocks and faults.

use catchment_emulator::{
    Board, Clocks, EmulatedSource, Emulator, EmulatorConfig, Faults, alpha_72,
};
use catchment_wire::Protocol as _;
use catchment_wire::layouts::{
    FieldKind, Layouts, Role, Variants, example_layouts, example_variants,
};

use crate::emulator::{Captured, capture};

/// A fragment as it arrived: its number or time, its id and tag, and its sequence number.
type Fragment = (u64, u32, u8, Option<u64>);

/// The fragments of a source; each body is that of its event, in their order.
fn fragments(captured: &Captured, source: usize, events: &[u64]) -> Vec<Fragment> {
    let described = &captured.emulator.config().sources[source];
    let layouts = &described.board.as_ref().unwrap().layouts;
    let record = layouts.layout().records.first();
    let head = record.unwrap_or(&layouts.layout().packet).head as usize;
    let (mut decoder, mut parts) = (layouts.decoder(), Vec::new());
    let packets = captured.datagrams[source].iter().zip(events);
    packets
        .map(|(packet, &event)| {
            parts.clear();
            let decoded = decoder.decode(0, packet, &mut parts).expect("a packet of the layout");
            assert_eq!(parts.len(), 1);
            let content = captured.emulator.content();
            let bytes = content.payload_bytes(source as u32, event);
            let body = &packet[parts[0].offset as usize + head..][..bytes];
            assert!(content.verify(source as u32, event, body), "event {event}");
            assert_eq!(parts[0].tag, content.tag(event));
            let sequence = decoded.sequence.map(|sequence| sequence & 0xffff_ffff);
            (parts[0].number, parts[0].id, parts[0].tag, sequence)
        })
        .collect()
}

pub(crate) fn boards(layouts: &Layouts, count: u32) -> Vec<EmulatedSource> {
    let source = |sub_event_id| EmulatedSource {
        sub_event_id,
        board: Some(Board::new(layouts.clone())),
        ..catchment_emulator::plain_board("board")
    };
    (1..=count).map(source).collect()
}

fn alpha(events: u64, clocks: Clocks) -> EmulatorConfig {
    EmulatorConfig {
        sources: alpha_72().split_off(68),
        rate_hz: Some(1_000.0),
        events: Some(events),
        clocks,
        ..EmulatorConfig::default()
    }
}

#[test]
fn clocks_tick_at_their_rate_apart_by_jitter_and_drift_and_wrap() {
    let clocks = Clocks { jitter_ns: 400, drift: 100.0, wrap_after_ns: Some(10_000_000) };
    let mut config = alpha(21, clocks);
    config.sources[3].board.as_mut().unwrap().ahead_ns = -5_000;
    let captured = capture(config);
    let events: Vec<u64> = (1..=21).collect();
    let mask = (1_u64 << 48) - 1;
    for source in 0..4 {
        for (index, (ticks, id, _, sequence)) in
            (0_i64..).zip(fragments(&captured, source, &events))
        {
            assert_eq!((id, sequence), (69 + source as u32, Some(index as u64 + 1)));
            // Since the first event, on a clock that wraps 10 ms after that.
            let since_ns = (ticks.wrapping_add(1_250_000) & mask) as i64 * 8;
            let share = 2.0 * source as f64 / 3.0 - 1.0;
            let ahead_ns = if source == 3 { -5_000 } else { 0 };
            let drifted_ns = (index as f64 * 100.0 * share) as i64;
            let least_ns = index * 1_000_000 + drifted_ns + ahead_ns;
            let late_ns = (since_ns << 13 >> 13) - least_ns;
            assert!((-9..=400).contains(&late_ns), "{late_ns} ns, {source}, {index}");
        }
    }
}

#[test]
fn boards_with_keys_send_these_in_either_order_of_bytes() {
    let [trb, tagged, ..] = example_layouts();
    for (layouts, bits) in [(trb, 24), (tagged, 24)] {
        let config = EmulatorConfig {
            sources: boards(&layouts, 2),
            first_event: (1 << bits) - 5,
            events: Some(10),
            water_mark_bytes: 0,
            ..EmulatorConfig::default()
        };
        // Of tagged words the layout says some bits.
        if layouts.layout().name != "trb" {
            Emulator::new(EmulatorConfig {
                targets: vec![([127, 0, 0, 1], 9).into(); 2],
                ..config
            })
            .unwrap();
            continue;
        }
        let captured = capture(config);
        let events: Vec<u64> = ((1 << bits) - 5..(1 << bits) + 5).collect();
        for source in 0..2 {
            let numbers: Vec<u64> =
                fragments(&captured, source, &events).iter().map(|one| one.0).collect();
            let expected: Vec<u64> = events.iter().map(|event| event & 0xff_ffff).collect();
            assert_eq!(numbers, expected);
        }
    }
}

#[test]
fn corrupt_packets_of_boards_are_refused_by_their_checksum() {
    let faults = Faults { corrupt: 0.3, ..Faults::default() };
    let captured = capture(EmulatorConfig { faults, ..alpha(60, Clocks::default()) });
    let total = captured.report.total();
    assert!(total.packets_corrupted > 10, "{total:?}");
    let refused = |datagrams: &Vec<Vec<u8>>| {
        let (mut decoder, mut parts) = (alpha_layout().decoder(), Vec::new());
        let is_refused = |packet: &&Vec<u8>| {
            parts.clear();
            decoder.decode(0, packet, &mut parts).is_err()
        };
        datagrams.iter().filter(is_refused).count() as u64
    };
    assert_eq!(captured.datagrams.iter().map(refused).sum::<u64>(), total.packets_corrupted);
}

#[test]
fn records_of_several_events_are_in_one_packet_up_to_the_water_mark() {
    let [trb, tagged, batcher, alpha] = example_layouts();
    let most = [trb.clone(), tagged, batcher.clone(), alpha].map(|one| one.records_max());
    assert_eq!(most, [4_096, 4_096, 4_096, 1]);
    for layouts in [trb, batcher] {
        let config = EmulatorConfig {
            sources: boards(&layouts, 2),
            events: Some(1_000),
            water_mark_bytes: 3_000,
            ..EmulatorConfig::default()
        };
        let captured = capture(config);
        for source in 0..2 {
            let (mut decoder, mut event) = (layouts.decoder(), 0);
            let packets = &captured.datagrams[source];
            for (index, packet) in packets.iter().enumerate() {
                let mut parts = Vec::new();
                decoder.decode(0, packet, &mut parts).expect("a packet of the layout");
                let is_last = index + 1 == packets.len();
                assert!(packet.len() < 3_200 && (packet.len() >= 3_000 || is_last));
                let head = layouts.layout().records[0].head as usize;
                for part in &parts {
                    event += 1;
                    let content = captured.emulator.content();
                    let bytes = content.payload_bytes(source as u32, event);
                    let body = &packet[part.offset as usize + head..][..bytes];
                    assert!(content.verify(source as u32, event, body), "event {event}");
                }
            }
            assert_eq!(event, 1_000);
        }
    }
}

#[test]
fn boards_send_of_the_events_whose_groups_they_are_in() {
    let mut config = alpha(400, Clocks::default());
    for (source, expected_in) in config.sources.iter_mut().zip([0, 0b01, 0b10, 0b11]) {
        source.board.as_mut().unwrap().expected_in = expected_in;
    }
    let captured = capture(config);
    let groups_of = |packet: &Vec<u8>| {
        let mut parts = Vec::new();
        let decoded = alpha_layout().decoder().decode(0, packet, &mut parts).expect("a packet");
        (parts[0].groups, decoded.sequence.map(|sequence| sequence & 0xffff_ffff))
    };
    let named: Vec<u16> = captured.datagrams[0].iter().map(|one| groups_of(one).0).collect();
    assert_eq!(named.len(), 400);
    for (source, mask) in [(1, 0b01), (2, 0b10), (3, 0b11)] {
        let of_it: Vec<_> = captured.datagrams[source].iter().map(groups_of).collect();
        let groups: Vec<u16> = of_it.iter().map(|one| one.0).collect();
        let expected: Vec<u16> = named.iter().copied().filter(|one| one & mask != 0).collect();
        assert_eq!(groups, expected, "source {source}");
        // What it does not send leaves no gap.
        let sequences = of_it.iter().map(|one| one.1);
        assert!(sequences.eq((1..=groups.len() as u64).map(Some)), "source {source}");
    }
    // Some events are of each group alone, some of both, and none of none.
    for (groups, least) in [(0b01, 60), (0b10, 60), (0b11, 120)] {
        assert!(named.iter().filter(|one| **one == groups).count() > least, "{groups:02b}");
    }
    assert!(!named.contains(&0));
}

fn alpha_layout() -> Layouts {
    catchment_wire::layouts::alpha_72()
}

#[test]
fn a_board_with_several_layouts_sends_its_events_and_its_settings() {
    // A second layout of events, with other lengths; one packet of 16 is of settings.
    let [first, settings] = [0, 1].map(|index| example_variants().declared()[index].clone());
    let mut second = first.layout().clone();
    second.packet.fields[0].kind = FieldKind::Choose(0xb);
    second.packet.fields[1].kind = FieldKind::Is(Role::Length { unit: 8, plus: 0 });
    let layouts = vec![settings, first, Layouts::new(second).unwrap()];
    let variants = Variants::new(layouts).unwrap();
    let board = Board::of(variants.declared()).unwrap();
    let source = |sub_event_id| EmulatedSource {
        sub_event_id,
        board: Some(board.clone()),
        ..catchment_emulator::plain_board("board")
    };
    let captured = capture(EmulatorConfig {
        sources: vec![source(1), source(2)],
        events: Some(300),
        water_mark_bytes: 4_000,
        ..EmulatorConfig::default()
    });
    for (source, packets) in (0_u32..).zip(&captured.datagrams) {
        let (mut decoder, mut parts, mut chosen) = (variants.decoder(), Vec::new(), [0; 16]);
        let mut newest = None;
        let mut event = 0;
        for packet in packets {
            parts.clear();
            let decoded = decoder.decode(0, packet, &mut parts).expect("a packet of the source");
            assert!(newest.is_none_or(|newest| decoded.sequence == Some(newest + 1)));
            newest = decoded.sequence;
            chosen[usize::from(packet[0] >> 4)] += 1;
            assert_eq!(decoded.skipped + parts.len() as u64, 1);
            for part in &parts {
                event += 1;
                assert_eq!((part.number, part.id), (event, source + 1));
                let body = &packet[part.offset as usize + 16..];
                let mut expected = vec![0; body.len()];
                captured.emulator.content().fill(source, event, &mut expected);
                assert!(body == expected, "event {event}");
            }
        }
        assert_eq!([chosen[0xa], chosen[0xb], chosen[0xc]], [150, 150, 20], "{chosen:?}");
    }
}

#[test]
fn what_no_board_can_send_is_refused() {
    let refused = |config: EmulatorConfig| {
        let targets = vec![([127, 0, 0, 1], 9).into(); config.sources.len()];
        Emulator::new(EmulatorConfig { targets, ..config }).unwrap_err().to_string()
    };
    let [trb, ..] = example_layouts();
    let alpha = || alpha(1, Clocks::default());
    let faults = Faults { corrupt: 0.1, ..Faults::default() };
    let mut fixed = trb.layout().clone();
    fixed.packet.fields.remove(0);
    fixed.packet.bytes = Some(800);
    let fixed = Layouts::new(fixed).unwrap();
    for (config, expected) in [
        (EmulatorConfig { huge_every: 5, ..alpha() }, "huge_every: expected 0 with declared"),
        (
            EmulatorConfig { faults, sources: boards(&trb, 1), ..alpha() },
            "faults.corrupt: expected layouts with a checksum of the whole packet",
        ),
        (
            EmulatorConfig { sources: boards(&fixed, 1), ..alpha() },
            "sources[0].layout: expected one whose packets can be made, got \"trb\": packet.bytes",
        ),
        (
            EmulatorConfig { clocks: Clocks { drift: -1.0, ..Clocks::default() }, ..alpha() },
            "clocks.drift: expected 0 to 1000 ppm",
        ),
    ] {
        let text = refused(config);
        assert!(text.contains(expected), "{text}");
    }
}
