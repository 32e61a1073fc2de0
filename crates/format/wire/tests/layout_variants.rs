//! Several layouts of one source: the specification's example, and packets and declarations that
//! are refused.

use std::collections::BTreeSet;

use catchment_fixtures::{Random, corpus};
use catchment_wire::layouts::{
    Field, FieldKind, Layout, Layouts, Order, Variants, example_layouts, example_variants,
};
use catchment_wire::{Decoder, Protocol, fuzz_layout};

/// Two events, and settings between them.
const EVENT: &str = "a0000006 18000010 000000a1 00001234 01230124 0fff0fff";
const SETTINGS: &str = "c0000004 18000011 00008000 00000010";
const EMPTY_EVENT: &str = "a0000004 18000012 000000a2 00002345";

fn bytes_of(hex: &str) -> Vec<u8> {
    let words = hex.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap());
    words.flat_map(u32::to_be_bytes).collect()
}

/// The sequence, the fragments as source, key and bytes, and how many records were skipped.
type Found = (u64, Vec<(u32, u64, u32)>, u64);

fn decode(decoder: &mut dyn Decoder, bytes: &[u8]) -> Result<Found, usize> {
    let mut parts = Vec::new();
    let decoded = decoder.decode(0, bytes, &mut parts)?;
    let parts = parts.iter().map(|part| (part.id, part.number, part.bytes)).collect();
    Ok((decoded.sequence.unwrap(), parts, decoded.skipped))
}

/// The reason for refusing a packet, in a word and in a sentence.
fn refused(protocol: &dyn Protocol, bytes: &[u8]) -> (&'static str, String) {
    let mut decoder = protocol.decoder();
    let reason = decode(&mut *decoder, bytes).unwrap_err();
    (protocol.reasons()[reason].name, decoder.explain(bytes))
}

#[test]
fn each_packet_has_the_layout_that_its_constants_choose() {
    let variants = example_variants();
    assert_eq!((variants.number_bits(), variants.clock_hz(), variants.id_bits()), (24, None, 5));
    let mut decoder = variants.decoder();
    let found = [EVENT, SETTINGS, EMPTY_EVENT]
        .map(|hex| decode(&mut *decoder, &bytes_of(hex)).unwrap())
        .map(|(sequence, parts, skipped)| (sequence % (1 << 16), parts, skipped));
    let expected =
        [(16, vec![(3, 0xa1, 24)], 0), (17, Vec::new(), 1), (18, vec![(3, 0xa2, 16)], 0)];
    assert_eq!(found, expected);
    let described = variants.describe(&bytes_of(SETTINGS));
    assert_eq!((&*described.layout, described.fragments), ("digitizer-settings", 0));
    assert!(described.lines[0].ends_with("bytes 0 to 15, big, skipped"), "{described:?}");
    assert_eq!(described.lines[1], "  choose 0xc: 0xc, byte 0, bits 28 to 31");
}

#[test]
fn one_sequence_counts_the_packets_of_all_layouts_over_its_wraps() {
    // Of 8 bits: it wraps between two settings.
    let narrow = |layouts: &Layouts| {
        let mut layout = layouts.layout().clone();
        layout.packet.fields[2].bits = Some([0, 7]);
        Layouts::new(layout).unwrap()
    };
    let variants = Variants::new(example_variants().declared().iter().map(narrow).collect());
    let mut decoder = variants.unwrap().decoder();
    let sequences: Vec<u64> = (0..2_000_u32)
        .map(|number| {
            let hex = if number % 300 == 299 { SETTINGS } else { EVENT };
            let mut bytes = bytes_of(hex);
            bytes[7] = number as u8;
            decode(&mut *decoder, &bytes).unwrap().0
        })
        .collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn a_packet_without_a_layout_is_refused_with_a_reason_of_its_own() {
    let variants = example_variants();
    let mut unknown = bytes_of(EVENT);
    unknown[0] = 0xb0;
    let (reason, why) = refused(&variants, &unknown);
    assert_eq!(reason, "variant");
    assert_eq!(
        why,
        "it has no layout of its source: \"digitizer\" expected 0xa at byte 0, got 0xb; \
         \"digitizer-settings\" expected 0xc at byte 0, got 0xb"
    );
    let described = variants.describe(&unknown);
    assert_eq!((&*described.layout, described.left_over), ("", unknown.len()));
    assert_eq!(described.refused, Some((reason, why)));
    // Shorter than every head, than the head of the events alone, and than its own length.
    let event = bytes_of(EVENT);
    let (reason, why) = refused(&variants, &event[..7]);
    assert_eq!((reason, &*why), ("short", "a packet has at least 8 bytes, got 7"));
    let (reason, why) = refused(&variants, &event[..8]);
    assert_eq!(reason, "variant");
    assert!(why.contains("\"digitizer\" has a head of 16 bytes, got 8; \"digitizer-"), "{why}");
    let (reason, why) = refused(&variants, &event[..20]);
    assert_eq!(reason, "length");
    assert!(why.starts_with("as \"digitizer\": the packet's length"), "{why}");
    // Alone, a layout has no packets of others.
    let alone = &variants.declared()[0];
    let (reason, why) = refused(alone, &unknown);
    assert_eq!((reason, &*why), ("constant", "the packet: expected 0xa at byte 0, got 0xb"));
    assert!(alone.reasons().iter().all(|reason| reason.name != "variant"));
    assert_eq!(alone.general(), None, "it keeps the straight path");
}

#[test]
fn no_packet_breaks_a_source_with_several_layouts() {
    let variants = example_variants();
    let (mut random, mut reasons) = (Random::new(11), BTreeSet::new());
    for bytes in [EVENT, SETTINGS, EMPTY_EVENT].map(bytes_of) {
        let cut = (0..bytes.len()).map(|length| bytes[..length].to_vec());
        let doubled =
            (0..bytes.len()).map(|at| [&bytes[..at], &bytes[at..=at], &bytes[at..]].concat());
        let changed = (0..8 * bytes.len()).map(|bit| {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            changed
        });
        let damaged = (0..1_000).map(|_| {
            let mut damaged = bytes.clone();
            for _ in 0..3 {
                let at = random.index(damaged.len());
                damaged[at] = random.damaged(damaged[at]);
            }
            damaged
        });
        for bytes in cut.chain(doubled).chain(changed).chain(damaged) {
            fuzz_layout(&bytes);
            let reason = decode(&mut *variants.decoder(), &bytes).err();
            reasons.extend(reason.map(|reason| variants.reasons()[reason].name));
        }
    }
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), ["length", "short", "variant"]);
    let seeds = corpus("layout_packet");
    let of_variants = |bytes: &&Vec<u8>| decode(&mut *variants.decoder(), bytes).is_ok();
    assert!(seeds.iter().filter(of_variants).count() >= 2);
}

fn without(layout: &mut Layout, field: usize) {
    layout.packet.fields.remove(field);
}

#[test]
fn layouts_that_are_not_those_of_one_source_are_refused() {
    let [event, settings] = [0, 1].map(|index| example_variants().declared()[index].clone());
    let changed = |layouts: &Layouts, change: &dyn Fn(&mut Layout)| {
        let mut layout = layouts.layout().clone();
        change(&mut layout);
        Layouts::new(layout).unwrap()
    };
    let named = |name: &str, choice: u64, change: &dyn Fn(&mut Layout)| {
        changed(&event, &|layout: &mut Layout| {
            layout.name = name.into();
            layout.packet.fields[0].kind = FieldKind::Choose(choice);
            change(layout);
        })
    };
    let none = changed(&event, &|layout| without(layout, 0));
    let wide = named("wide", 1, &|layout| layout.packet.fields[4].bits = None);
    let long = named("long", 1, &|layout| layout.packet.fields[2].bits = Some([0, 23]));
    let no_source = named("no-source", 1, &|layout| without(layout, 3));
    let [.., alpha] = example_layouts();
    for (all, expected) in [
        (vec![], "expected a layout with fragments, got none"),
        (vec![settings.clone()], "expected a layout with fragments, got none"),
        (vec![event.clone(); 9], "expected at most 8 layouts, got 9"),
        (
            vec![none, settings.clone()],
            "[1]: \"digitizer-settings\" can never be chosen: \"digitizer\" has no choose",
        ),
        (
            vec![event.clone(), named("again", 0xa, &|_| ())],
            "[1]: \"again\" can never be chosen: \"digitizer\" has the same choose, or \
             a part of it",
        ),
        (vec![event.clone(), wide], "[1]: expected keys, or times, of as many bits"),
        (vec![event.clone(), long], "[1]: expected a sequence of as many bits"),
        (vec![event.clone(), no_source], "[1]: expected a source, or none, in \"no-source\" as"),
        (vec![event.clone(), alpha], "[1]: expected a sequence of as many bits in \"alpha-pad\""),
    ] {
        let error = Variants::new(all).map(|_| ()).unwrap_err().to_string();
        assert!(error.trim_start_matches(": ").starts_with(expected), "{error}");
    }
    // What another order says of the same word is another choice.
    let little = named("little", 0xa, &|layout| layout.order = Order::Little);
    assert!(Variants::new(vec![event.clone(), little]).is_ok());
    // Packets without fragments need no sequence.
    let silent = changed(&settings, &|layout| without(layout, 2));
    let variants = Variants::new(vec![silent, event.clone()]).unwrap();
    let settings = bytes_of(SETTINGS);
    let decoded = variants.decoder().decode(0, &settings, &mut Vec::new()).unwrap();
    assert_eq!((decoded.sequence, decoded.skipped), (None, 1));
    assert_eq!(variants.number_bits(), 24);
    let mut stream = event.layout().clone();
    let choose = |layout: Layout| Layouts::new(layout).map(|_| ()).unwrap_err().to_string();
    stream.is_stream = true;
    let expected = "packet.fields[0].choose: expected it in a record: a source of a stream has one";
    assert!(choose(stream).starts_with(expected));
    let mut records = example_layouts()[1].layout().clone();
    records.packet.skip = true;
    assert_eq!(
        choose(records),
        "packet.skip: expected it in a record, or a packet without records, got it in a packet \
         with records"
    );
    let mut in_tail = event.layout().clone();
    in_tail.packet.tail = 4;
    let choice = FieldKind::Choose(7);
    in_tail.packet.fields.push(Field { at: -4, width: 4, bits: None, kind: choice });
    assert!(choose(in_tail).contains("expected a word of the head with choose, got -4"));
}
