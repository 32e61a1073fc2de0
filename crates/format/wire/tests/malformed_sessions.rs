//! Bytes that are no message of a session: a fault that names the reason, never a panic.

use std::collections::BTreeSet;

use catchment_fixtures::{Random, corpus};
use catchment_wire::channel_link;
use catchment_wire::event_link::{self, Data};
use catchment_wire::session::{
    Attach, CONTROL, Connection, Control, Fault, Preamble, REASONS, Service, parse,
};
use catchment_wire::{fuzz_channels, fuzz_events, fuzz_session, fuzz_storage};

use catchment_wire::storage_link;

use crate::session::unhex;

/// The cases of golden/malformed.hex: the kind of its connection, its fault, what is wrong, and its
/// bytes.
fn cases() -> Vec<(String, String, String, Vec<u8>)> {
    let mut cases: Vec<(String, String, String, Vec<u8>)> = Vec::new();
    for line in include_str!("golden/malformed.hex").lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            let (kind, says) = heading.split_once(": ").expect("a heading");
            let (connection, fault) = kind.split_once(", ").expect("a heading");
            cases.push((connection.into(), fault.into(), says.into(), Vec::new()));
        } else {
            cases.last_mut().expect("a heading").3.extend(unhex(line));
        }
    }
    cases
}

/// The fault of bytes that are a whole message.
fn fault(connection: &str, bytes: &[u8]) -> Option<Fault> {
    let bounds = match connection {
        "data" => event_link::bounds(131_064),
        "channels" => channel_link::BOUNDS,
        "storage" => storage_link::BOUNDS,
        _ => CONTROL,
    };
    match (parse(bytes, 0, bounds), connection) {
        (Ok(None), _) => None,
        (Ok(Some(message)), "data") => Data::read(&message).err(),
        (Ok(Some(message)), "channels") => channel_link::Data::read(&message).err(),
        (Ok(Some(message)), "storage") => storage_link::Data::read(&message).err(),
        (Ok(Some(message)), _) => Control::read(&message).err(),
        (Err(fault), _) => Some(fault),
    }
}

#[test]
fn each_malformed_message_has_its_fault() {
    let mut named = BTreeSet::new();
    for (connection, expected, says, bytes) in cases() {
        let fault = fault(&connection, &bytes).unwrap_or_else(|| panic!("{says} is no fault"));
        assert_eq!(fault.name(), expected, "{says}: {fault}");
        named.insert(expected);
    }
    // Only a session knows its logs, and what comes next in them.
    let of_sessions = ["unknown_log", "sequence"];
    let of_bytes = REASONS.iter().map(|reason| reason.name);
    let of_bytes: BTreeSet<_> = of_bytes.filter(|name| !of_sessions.contains(name)).collect();
    assert!(named.iter().map(String::as_str).eq(of_bytes));
}

/// A length that lies is refused by the bytes of header and shape, so that nobody waits for it.
#[test]
fn a_header_or_shape_that_nothing_can_mend_is_refused_at_once() {
    for (connection, expected, says, bytes) in cases() {
        let begin = &bytes[..bytes.len().min(24)];
        if ["marker", "number", "type", "connection", "length", "shape"].contains(&&*expected) {
            assert_eq!(
                fault(&connection, begin).map(|fault| fault.name()),
                Some(&*expected),
                "{says}"
            );
        }
    }
}

#[test]
fn faults_say_what_was_expected_and_what_came() {
    let sentence = |wanted: &str| {
        let (connection, _, _, bytes) =
            cases().into_iter().find(|(_, _, says, _)| says == wanted).expect("a case");
        fault(&connection, &bytes).unwrap().to_string()
    };
    assert_eq!(sentence("number 1"), "the message has the number 0, got 1");
    assert_eq!(sentence("release 3"), "release has no value 3");
    assert_eq!(sentence("first above made"), "first is 0 to 8, got 9");
    assert_eq!(
        sentence("head of 44 bytes"),
        "a head has 8 to 16368 bytes (a head a multiple of 8), got 44"
    );
    assert_eq!(
        sentence("record of 16 bytes"),
        "record_bytes is 24 to 1024 here, and sizes are multiples of 8; got 16"
    );
}

#[test]
fn a_preamble_is_refused_from_its_first_wrong_byte_on() {
    let preamble = Preamble {
        session_min: 1,
        session_max: 1,
        service: Service::Events,
        service_min: 1,
        service_max: 2,
        connection: Connection::Control,
    };
    let good = preamble.encode();
    assert_eq!(Preamble::parse(&good), Ok(Some(preamble)));
    for at in 0..8 {
        let mut bytes = good;
        bytes[at] ^= 0x20;
        assert!(matches!(Preamble::parse(&bytes[..=at]), Err(Fault::Magic { .. })), "{at}");
        assert_eq!(Preamble::parse(&bytes[..at]), Ok(None));
    }
    // A record of TLS, and a browser.
    for begin in [&b"\x16\x03\x01"[..], b"GET / HTTP/1.1\r\n"] {
        assert_eq!(Preamble::parse(begin).unwrap_err().name(), "marker");
    }
    for (at, value, name) in [
        (10, 0, "kind"),
        (10, 4, "kind"),
        (13, 0, "kind"),
        (13, 3, "kind"),
        (8, 2, "bound"),
        (9, 0, "bound"),
        (11, 3, "bound"),
        (12, 0, "bound"),
    ] {
        let mut bytes = good;
        bytes[at] = value;
        assert_eq!(Preamble::parse(&bytes).unwrap_err().name(), name, "byte {at}: {value}");
    }
    // No common version: the answer's minimum is 0.
    let none = Preamble { session_min: 0, session_max: 3, ..preamble };
    assert_eq!(Preamble::parse(&none.encode()), Ok(Some(none)));
}

#[test]
fn reserved_bytes_and_padding_are_ignored() {
    let mut attach = [0; 16 + 40];
    let content = Data::Attach(Attach { session: 1, ticket: [2; 16], connection: 3 });
    content.encode(0, &mut attach);
    attach[16 + 34..].fill(0xff);
    let message = parse(&attach, 0, event_link::bounds(65_536)).unwrap().expect("whole");
    assert_eq!(Data::read(&message), Ok(Some(content)));
}

#[test]
fn random_bytes_are_no_messages() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..16 + random.index(300)).map(|_| random.next_u64() as u8).collect();
        assert!(
            ["control", "data", "channels", "storage"]
                .iter()
                .all(|one| fault(one, &bytes).is_some())
        );
    }
}

#[test]
fn mutated_messages_never_break_the_parser() {
    mutate("session_message", fuzz_session);
    mutate("event_message", fuzz_events);
    mutate("event_message", fuzz_channels);
    mutate("event_message", fuzz_storage);
}

fn mutate(target: &str, fuzz: fn(&[u8]) -> Result<u32, Fault>) {
    let seeds = corpus(target);
    let mut random = Random::new(2);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let mut bytes = seeds[random.index(seeds.len())].clone();
        random.damage(&mut bytes, 64);
        if fuzz(&bytes).is_ok() { accepted += 1 } else { refused += 1 }
    }
    // The seeds are of three services, of which each refuses what is of the others.
    assert!(accepted > 1_000 && refused > 5_000, "{target}: {accepted}, {refused}");
}

#[test]
fn the_seeds_of_the_fuzz_targets_never_break_the_parser() {
    let session = corpus("session_message").iter().map(|bytes| fuzz_session(bytes)).collect();
    let events = corpus("event_message").iter().map(|bytes| fuzz_events(bytes)).collect();
    let channels = corpus("event_message").iter().map(|bytes| fuzz_channels(bytes)).collect();
    let storage = corpus("event_message").iter().map(|bytes| fuzz_storage(bytes)).collect();
    for (results, messages) in [(session, 25), (events, 13), (channels, 3), (storage, 7)] {
        let results: Vec<Result<u32, Fault>> = results;
        let found: u32 = results.iter().flatten().sum();
        let refused = results.iter().filter(|result| result.is_err()).count();
        assert!(found >= messages && refused >= 20, "{found} messages, {refused} refused");
    }
}
