//! Boards whose packets a configuration declares, from their packets to what is read back; and
//! `catchment decode`.

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;

use catchment_model::{Entry, Ledger, SourceId};
use catchment_storage::{Run, Verdict, audit, verify};

use crate::support::{example, json, only_run, started, stderr, stdout};

/// A configuration, with ports that no other test has, and less memory.
fn with_ports(folder: &Path, name: &str, port: u32) -> String {
    let text = std::fs::read_to_string(example(name)).unwrap();
    let text = text.replace("127.0.0.1:201", &format!("127.0.0.1:{port}"));
    let path = folder.join(name);
    std::fs::write(&path, format!("memory.budget = \"256 MiB\"\n{text}")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// All that is read of a run: keys and flags of its events, and each source's fragments.
type Contents = Vec<(u64, u32, Vec<Vec<u8>>)>;

fn contents(folder: &Path) -> Contents {
    let run = Run::open(only_run(folder)).unwrap();
    assert!(verify(&run, |_| ()).is_intact());
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let mut all = Vec::new();
    for frame in 0..run.frames().len() {
        let events = run.events(frame).unwrap();
        let columns = [0, 1].map(|source| run.fragments(frame, SourceId(source)).unwrap());
        for (row, &key) in events.keys().iter().enumerate() {
            let fragments = columns.each_ref().map(|one| one.fragment(row).unwrap().to_vec());
            all.push((key, events.flags()[row], fragments.to_vec()));
        }
    }
    all
}

/// Records the emulator's packets by one configuration.
fn record(folder: &Path, recorder: &str, sender: &str) -> Contents {
    let arguments = ["run", recorder, "--events", "300"];
    let (mut child, mut lines) = started(folder, &arguments, "Recording");
    let sent = json(folder, &["emulate", sender, "--events", "300", "--json"], 0);
    assert_eq!(sent["events"], 300);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert!(rest.contains("300 complete, 0 incomplete, 300 on disk"), "{rest}");
    contents(folder)
}

#[test]
fn packets_are_recorded_by_their_declaration_as_by_their_decoder() {
    let [by_decoder, by_layout] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let sender = with_ports(by_decoder.path(), "minimal.toml", 203);
    let coded = record(by_decoder.path(), &sender, &sender);
    let declaration = with_ports(by_layout.path(), "boards.toml", 203);
    let declared = record(by_layout.path(), &declaration, &sender);
    assert_eq!(coded.len(), 300);
    assert!(coded == declared, "the same events, flags and bytes");
}

const PACKET: &str = "00000030 00020001 00000014 00020011 00008000 ffffff15 deadbeef 00000000 \
    00000010 00020011 80008000 00000016 00000030 00020001 00000014 00020011 00008000 ffffff15 \
    deadbeef 00000000";

#[test]
fn a_packet_is_shown_field_by_field_and_what_is_left_over() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, path) = (folder.path(), example("boards.toml"));
    let text = stdout(folder, &["decode", &path, "--hex", PACKET], 0);
    for line in [
        "layout \"trb\", decoded by the path: straight",
        "packet: bytes 0 to 79, big",
        "record 1: bytes 8 to 27, big",
        "  key: 16777215 (0xffffff), byte 20, bits 8 to 31",
        "  broken: 1 (0x1), byte 40, bits 31 to 31",
        "accepted: 2 fragments, nothing left over",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let wrong = PACKET.replacen("00000014", "00000018", 2).replacen("00000010", "00000018", 1);
    let text = stdout(folder, &["decode", &path, "--hex", &wrong], 3);
    assert!(text.contains("refused (record): record 1 at byte 32: expected a length"), "{text}");
    let expected = "expected a length of 16 to 16 bytes at byte 32, got 24";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("  length: 24 (0x18), byte 32, bits 0 to 31, refused: "), "{text}");
    assert!(text.contains("left over: 16 of 80 bytes"), "{text}");
    let shown = json(folder, &["decode", &path, "--hex", &wrong, "--json"], 3);
    assert_eq!((&shown["refused"], &shown["left_over_bytes"]), (&"record".into(), &16.into()));
    for (hex, expected) in [("0", "two digits for each byte"), ("0x", "hexadecimal digits")] {
        let text = stderr(folder, &["decode", &path, "--hex", hex], 2);
        assert!(text.contains(expected), "{text}");
    }
    let text = stderr(folder, &["decode", &example("minimal.toml"), "--hex", "00"], 2);
    assert!(text.contains("expected a file with [[layouts]], got none"), "{text}");
    // A layout is tried before there is a source.
    let boards = std::fs::read_to_string(path).unwrap();
    let layouts = boards.find("[[layouts]]").unwrap()..boards.find("[[sources]]").unwrap();
    std::fs::write(folder.join("trb.toml"), &boards[layouts]).unwrap();
    let text = stdout(folder, &["decode", "trb.toml", "--hex", PACKET], 0);
    assert!(text.contains("accepted: 2 fragments, nothing left over"), "{text}");
}

#[test]
fn a_source_with_two_layouts_is_emulated_recorded_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // The example of the specification.
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/spec/layouts.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, example) = page.split_once("\n### 7.5 ").unwrap();
    let (_, example) = example.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let source = "[[sources]]\nname = \"adc\"\naddress = \"127.0.0.1:0\"\nprotocol = \"layout\"\n\
                  layout = [\"digitizer\", \"digitizer-settings\"]\nsub_event_id = 3\n";
    let emulator = "[emulator]\nrate = \"2 kHz\"\nevents = 200\n";
    let config = format!("memory.budget = \"256 MiB\"\n{source}{example}{emulator}");
    std::fs::write(folder.join("adc.toml"), config).unwrap();
    let counted = record_emulated(folder, "adc.toml");
    // One packet of 16 is of settings.
    assert_eq!(counted.sources[0][Entry::RecordsSkipped], 13);
    let decode =
        |hex, code| stdout(folder, &["decode", "adc.toml", "--source", "adc", "--hex", hex], code);
    let text = decode("c0000004 18000011 00008000 00000010", 0);
    for line in [
        "layout \"digitizer\", decoded by the path: straight",
        "layout \"digitizer-settings\", decoded by the path: general, since packets are no \
         fragments",
        "chosen: layout \"digitizer-settings\"",
        "packet: bytes 0 to 15, big, skipped",
        "accepted: 0 fragments, nothing left over",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let text = decode("b0000004 18000011 00008000 00000010", 3);
    let expected = "refused (variant): it has no layout of its source: \"digitizer\" expected 0xa";
    assert!(text.contains(expected), "{text}");
    let arguments = ["decode", "adc.toml", "--source", "tdc", "--hex", "00"];
    let text = stderr(folder, &arguments, 2);
    assert!(text.contains("protocol = \"layout\", got \"tdc\""), "{text}");
    let text = stderr(folder, &["decode", "adc.toml", "--hex", "00"], 2);
    assert!(text.contains("expected --source, or --layout, one of digitizer, "), "{text}");
}

/// Crates that send records of two kinds, and fillers, on connections to one port.
const CRATES: &str = r#"
memory.budget = "256 MiB"
[[sources]]
name = "crate-1"
address = "127.0.0.1:0"
protocol = "layout"
layout = "crate"
sub_event_id = 3
[[sources]]
name = "crate-2"
address = "127.0.0.1:0"
protocol = "layout"
layout = "crate"
sub_event_id = 4
[[layouts]]
name = "crate"
transport = "stream"
order = "big"
[layouts.packet]
head = 12
bytes_max = "8 kB"
fields = [
    { is = "length", at = 0 },
    { is = "sequence", at = 4 },
    { is = "count", at = 8, width = 2 },
]
[[layouts.record]]
name = "scaler"
head = 12
bytes = 20
fields = [
    { choose = 0x0a, at = 0, width = 1 },
    { is = "source", at = 1, width = 1 },
    { is = "key", at = 8 },
]
[[layouts.record]]
name = "filler"
head = 4
bytes = 4
skip = true
fields = [{ choose = 0x0f, at = 0, width = 1 }]
[[layouts.record]]
name = "waveform"
head = 12
fields = [
    { is = "source", at = 1, width = 1 },
    { is = "length", at = 4 },
    { is = "key", at = 8 },
]
[emulator]
rate = "2 kHz"
events = 200
water_mark = 300
"#;

#[test]
fn boards_on_connections_are_emulated_recorded_and_their_packets_shown() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("crates.toml"), CRATES).unwrap();
    let counted = record_emulated(folder, "crates.toml");
    assert!(counted.sources[0][Entry::RecordsSkipped] > 1, "{counted:?}");

    // The packets themselves: each board has a connection of its own to the port that they share.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let received = std::thread::spawn(move || {
        let mut boards = [listener.accept(), listener.accept()].map(|one| one.unwrap().0);
        let mut bytes = [Vec::new(), Vec::new()];
        for (board, bytes) in boards.iter_mut().zip(&mut bytes) {
            board.read_to_end(bytes).unwrap();
            board.shutdown(std::net::Shutdown::Both).unwrap();
        }
        bytes
    });
    let emulate = ["emulate", "crates.toml", "--to", &to, "--events", "20", "--json"];
    let sent = json(folder, &emulate, 0);
    assert_eq!((&sent["events"], &sent["sources"][1]["fragments_sent"]), (&20.into(), &20.into()));
    let mut fragments = 0;
    for board in received.join().unwrap() {
        let mut rest = &board[..];
        while let Some((length, _)) = rest.split_first_chunk::<4>() {
            let (packet, others) = rest.split_at(u32::from_be_bytes(*length) as usize);
            rest = others;
            let digits = packet.iter().fold(String::new(), |mut digits, byte| {
                write!(digits, "{byte:02x}").unwrap();
                digits
            });
            let shown = json(folder, &["decode", "crates.toml", "--hex", &digits, "--json"], 0);
            fragments += shown["fragments"].as_u64().unwrap();
            let text = shown["lines"].to_string();
            assert!(text.contains("scaler") || text.contains("waveform"), "{text}");
        }
    }
    assert_eq!(fragments, 40);
    let nobody = ["emulate", "crates.toml", "--to", "127.0.0.1:1", "--events", "1"];
    assert!(stderr(folder, &nobody, 1).contains("cannot send to 127.0.0.1:1"));
}

#[test]
fn the_example_records_what_the_preset_alpha_72_sends() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, path) = (folder.path(), example("alpha-72.toml"));
    stdout(folder, &["run", &path, "--check"], 0);
    let high = catchment_config::load(Path::new(&path)).unwrap();
    assert_eq!(high.layouts[0].layout(), catchment_wire::layouts::alpha_72().layout());
    let recorder = ["run", &path, "--events", "200"];
    let (mut child, mut lines) = started(folder, &recorder, "Recording");
    let emulate = ["emulate", "alpha-72", "--to", "127.0.0.1:20500", "--rate", "200"];
    let sent = json(folder, &[&emulate[..], &["--events", "200", "--json"]].concat(), 0);
    assert_eq!(sent["events"], 200);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert!(rest.contains("200 complete, 0 incomplete, 200 on disk"), "{rest}");
}

#[test]
fn options_that_boards_cannot_have_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("crates.toml"), CRATES).unwrap();
    let to = ["--to", "127.0.0.1:9", "--events", "1"];
    for (what, option, value, expected) in [
        ("alpha-72", "--drift", "5000", "--drift: expected 0 to 1000 ppm, got 5000"),
        ("alpha-72", "--wrap-after", "2 h", "--wrap-after: expected at most 1 h, got 2 h"),
        ("alpha-72", "--bytes", "100 kB", "--bytes: expected 4 to "),
        ("crates.toml", "--fault", "corrupt=0.1", "--fault corrupt=: expected layouts with a "),
    ] {
        let text = stderr(folder, &[&["emulate", what, option, value], &to[..]].concat(), 2);
        assert!(text.contains(expected), "{text}");
    }
}

/// A capture file of datagrams of this machine, by the port and payload of each.
fn capture(datagrams: &[(u16, &[u8])]) -> Vec<u8> {
    let udp = |(port, payload): &(u16, &[u8])| {
        let words = [4_000, *port, payload.len() as u16 + 8, 0].map(u16::to_be_bytes).concat();
        (17_u8, [&words[..], *payload].concat())
    };
    capture_of(&datagrams.iter().map(udp).collect::<Vec<_>>())
}

/// A capture file of a connection's segments, by the sequence number, the flags and the payload.
fn capture_of_connection(port: u16, segments: &[(u32, u8, &[u8])]) -> Vec<u8> {
    let tcp = |(sequence, flags, payload): &(u32, u8, &[u8])| {
        let mut bytes = [4_000, port].map(u16::to_be_bytes).concat();
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0x50, *flags, 0xff, 0xff, 0, 0, 0, 0]);
        (6_u8, [&bytes[..], *payload].concat())
    };
    capture_of(&segments.iter().map(tcp).collect::<Vec<_>>())
}

/// A capture file of IP packets, by the protocol and payload of each.
fn capture_of(packets: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let le = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    // Microseconds, and bare IP packets.
    let mut file = le(&[0xa1b2_c3d4, 0, 0, 0, 65_535, 101]);
    for (protocol, payload) in packets {
        let bytes = payload.len() as u32 + 20;
        file.extend(le(&[0, 0, bytes, bytes]));
        file.extend([0x45, 0]);
        file.extend((bytes as u16).to_be_bytes());
        file.extend([0, 0, 0x40, 0, 64, *protocol, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        file.extend(payload);
    }
    file
}

#[test]
fn the_packets_of_a_captured_connection_are_decoded_and_what_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("crates.toml"), CRATES).unwrap();
    // A packet with a scaler of crate 3, and its key.
    let packet = |key: u32| {
        let head = [&32_u32.to_be_bytes()[..], &key.to_be_bytes(), &[0, 1, 0, 0]].concat();
        [&head[..], &[0x0a, 3, 0, 0, 0, 0, 0, 0], &key.to_be_bytes(), &[7; 8]].concat()
    };
    let sent = [packet(1), packet(2), packet(3)].concat();
    let (syn, ack) = (0x02, 0x10);
    // Out of order, one of them twice, and with borders within packets.
    let segments = [
        (999, syn, &[][..]),
        (1_000, ack, &sent[..20]),
        (1_050, ack, &sent[50..]),
        (1_000, ack, &sent[..20]),
        (1_020, ack, &sent[20..50]),
    ];
    let decode = ["decode", "crates.toml", "--pcap", "tcp.pcap", "--port", "20100"];
    std::fs::write(folder.join("tcp.pcap"), capture_of_connection(20_100, &segments)).unwrap();
    let text = stdout(folder, &decode, 0);
    for line in [
        "packet at byte 64 of the connection from 127.0.0.1:4000",
        "  key: 3 (0x3)",
        "5 packets in the file: 3 accepted with 3 fragments, 0 refused",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    std::fs::write(folder.join("tcp.pcap"), capture_of_connection(20_100, &segments[..4])).unwrap();
    let text = stdout(folder, &decode, 3);
    let said = "not read: 66 bytes from 127.0.0.1:4000: the file lacks 30 bytes of it";
    assert!(text.contains(said), "{text}");
    // A layout of datagrams reads none of it.
    let boards = example("boards.toml");
    let text = stdout(folder, &[&["decode", &boards], &decode[2..]].concat(), 0);
    assert!(text.contains("not decoded: 4 packets of TCP to the port"), "{text}");
}

#[test]
fn the_datagrams_of_a_capture_to_one_port_are_decoded() {
    let (folder, config) = (tempfile::tempdir().unwrap(), example("boards.toml"));
    let folder = folder.path();
    let digits: Vec<u8> = PACKET.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let good: Vec<u8> = digits.chunks_exact(2).map(digit).collect();
    let bad = &good[..good.len() - 1];
    let file = capture(&[(20_100, &good), (9, b"other"), (20_100, bad), (20_100, &good)]);
    std::fs::write(folder.join("boards.pcap"), &file).unwrap();
    let decode = ["decode", &config, "--pcap", "boards.pcap", "--port", "20100"];
    let text = stdout(folder, &decode, 3);
    for line in [
        "packet 2 of the file",
        "4 packets in the file: 2 accepted with 4 fragments, 1 refused",
        "refused (length): 1",
        "not decoded: 1 packet to other ports",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // With a source, each packet's fragments are compared with its id: these are the trigger's.
    let others = "2 packets are of source id 0x8000 (\"trigger\"), with 4 fragments; those of \
                  \"calorimeter\" have 0x8001";
    for (source, is_other) in [("trigger", false), ("calorimeter", true)] {
        let text = stdout(folder, &[&decode[..], &["--source", source]].concat(), 3);
        assert_eq!(text.contains(others), is_other, "{text}");
        let one = ["decode", &config, "--hex", PACKET, "--source", source, "--json"];
        let shown = json(folder, &one, if is_other { 3 } else { 0 });
        let expected = serde_json::json!({ "id": 0x8000, "packets": 1, "fragments": 2 });
        let expected = if is_other { vec![expected] } else { Vec::new() };
        assert_eq!(shown["other_sources"], serde_json::Value::from(expected));
    }
    std::fs::write(folder.join("boards.pcap"), &file[..file.len() - 1]).unwrap();
    let text = stderr(folder, &decode, 1);
    assert!(text.contains("packet 3: the file ends within it"), "{text}");
    let text = stderr(folder, &decode[..4], 2);
    assert!(text.contains("--port"), "{text}");
}

/// Records 200 emulated events, all of which are complete. Returns what the run's frames count.
fn record_emulated(folder: &Path, config: &str) -> Ledger {
    let arguments = ["run", config, "--emulate", "--events", "200"];
    let (mut child, mut lines) = started(folder, &arguments, "Recording");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert!(rest.contains("200 complete, 0 incomplete, 200 on disk"), "{rest}");
    let report = audit(&Run::open(only_run(folder)).unwrap()).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    report.recomputed
}
