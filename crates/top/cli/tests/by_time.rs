//! Events by time, from boards' datagrams to what is read back.

use std::io::Read;
use std::net::UdpSocket;
use std::path::Path;

use catchment_model::{Entry, EventFlags, SourceId};
use catchment_storage::{Run, Verdict, audit, verify};
use catchment_wire::layouts::{Layouts, Values};

use crate::support::{free_ports, interrupt, only_run, started, stderr};

/// Boards with clocks of 125 MHz and 48 bits, as many as there are ports.
fn config(folder: &Path, port: u16, boards: u16, more: &str) -> String {
    let text = format!(
        r#"
memory.budget = "256 MiB"
run.folder = "runs"
build = {{ match = "time", timeout = "60 s", time = {{ window = "200 ns" }} }}
{more}
[[layouts]]
name = "clock"
packet = {{ head = 16, tail = 4, fields = [
    {{ equals = 0xA16A, at = 0, width = 2 }}, {{ is = "source", at = 2, width = 2 }},
    {{ is = "sequence", at = 4 }}, {{ is = "time", at = 8, width = 6, rate = "125 MHz" }},
    {{ is = "tag", at = 14, width = 1 }}, {{ is = "checksum", at = -4, kind = "crc32c" }}] }}
[[source_groups]]
group = "board"
name = "board-{{}}"
count = {boards}
address = "127.0.0.1:{port}"
first_sub_event_id = 1
protocol = "layout"
layout = "clock"
"#
    );
    let path = folder.join("boards.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The boards of a configuration, as they send.
struct Boards {
    layout: Layouts,
    socket: UdpSocket,
    port: u16,
    sequences: Vec<u64>,
}

impl Boards {
    fn new(config: &str, port: u16, boards: u16) -> Self {
        let high = catchment_config::load(Path::new(config)).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sequences = vec![0; boards.into()];
        Self { layout: high.layouts[0].clone(), socket, port, sequences }
    }

    /// A board's fragment of so many bytes at that tick.
    fn send(&mut self, board: u16, ticks: u64, bytes: usize) {
        let sequence = &mut self.sequences[usize::from(board)];
        let values = Values {
            time: ticks & 0xffff_ffff_ffff,
            source: u64::from(board) + 1,
            sequence: *sequence,
            ..Values::default()
        };
        *sequence += 1;
        let packet = self.layout.encode(false, &values, &vec![board as u8; bytes], &[]).unwrap();
        let to = ("127.0.0.1", self.port + board);
        assert_eq!(self.socket.send_to(&packet, to).unwrap(), packet.len());
    }
}

#[test]
fn fragments_of_boards_with_clocks_are_events_by_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let (port, count, events) = (free_ports(4), 4, 500_u64);
    let config = config(folder.path(), port, count, "");
    let mut boards = Boards::new(&config, port, count);
    let (child, mut lines) = started(folder.path(), &["run", &config], "Recording");
    // Over the wrap of the clocks; the last board misses each tenth event.
    let first = (1 << 48) - 125_000 * 100;
    for event in 0..events {
        for board in 0..count {
            if board == 3 && event % 10 == 5 {
                continue;
            }
            // Up to 24 ns apart.
            boards.send(board, first + event * 125_000 + u64::from(board), 40 + usize::from(board));
        }
        // As on the boards' clocks.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // What the last board never sent is a loss.
    let code = interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(3), "{rest}");
    let run = Run::open(only_run(folder.path())).unwrap();
    assert!(verify(&run, |_| ()).is_intact(), "{rest}");
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::DataLost, "{rest}");
    let mut keys = Vec::new();
    for frame in 0..run.frames().len() {
        let read = run.events(frame).unwrap();
        let columns: Vec<_> =
            (0..count).map(|one| run.fragments(frame, SourceId(one.into())).unwrap()).collect();
        for (row, &key) in read.keys().iter().enumerate() {
            let event = keys.len() as u64;
            let complete = event % 10 != 5;
            let is_incomplete = EventFlags(read.flags()[row]).contains(EventFlags::INCOMPLETE);
            assert_eq!(is_incomplete, !complete, "event {event}");
            for (board, column) in columns.iter().enumerate() {
                let is_there = complete || board < 3;
                let expected = if is_there { key + 8 * board as u64 } else { 0 };
                assert_eq!(column.times_ns()[row], expected, "event {event} of board {board}");
                assert_eq!(column.fragment(row).is_some(), is_there);
            }
            keys.push(key);
        }
    }
    assert_eq!(keys.len() as u64, events, "{rest}");
    assert!(keys.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000), "1 ms apart");
    assert_eq!(report.recomputed.sources[3][Entry::FragmentsMissing], events / 10);
}

#[test]
fn rules_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(String) -> String| {
        let path = config(folder.path(), 20_420, 2, "");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, change(text)).unwrap();
        stderr(folder.path(), &["run", &path], 2)
    };
    let other = "[[sources]]\nname = \"counter\"\naddress = \"127.0.0.1:20424\"\n";
    for (text, expected) in [
        (
            refused(&|text| text + other),
            "sources[0].protocol: expected a layout with a time: build.match is \"time\"",
        ),
        (
            refused(&|text| {
                text.replace("match = \"time\", ", "")
                    .replace("time = { window = \"200 ns\" }", "window_events = 65536")
                    + other
            }),
            "expected a layout with a key, as \"counter\" has, or build.match = \"time\" for times \
             alone",
        ),
        (
            refused(&|text| text.replace("window = \"200 ns\"", "late = \"keep\"")),
            "build.time.window: expected 1 ns to 1 s, got none",
        ),
        (
            refused(&|text| text + "expected_in = [3]\n"),
            "expected_in: expected none: groups of events by time are not there yet",
        ),
        (
            refused(&|text| {
                text.replace("layout = \"clock\"\n", "layout = \"clock\"\nvia = \"link\"\n")
            }),
            "layout",
        ),
    ] {
        assert!(text.contains(expected), "{text}");
    }
}
