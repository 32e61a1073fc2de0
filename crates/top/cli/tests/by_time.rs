//! Events by time, from boards' datagrams to what is read back.

use std::io::Read;
use std::net::UdpSocket;
use std::path::Path;

use catchment_fixtures::wait_while;
use catchment_model::{Entry, EventFlags, Piece, SourceId};
use catchment_storage::{Run, Verdict, audit, verify};
use catchment_wire::layouts::{Layouts, Values};

use crate::support::{free_ports, interrupt, json, only_run, started, stderr, stdout};

mod bad_board;

/// Boards with clocks of 125 MHz and 48 bits, as many as there are ports.
pub(crate) fn config(folder: &Path, port: u16, boards: u16, more: &str) -> String {
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
pub(crate) struct Boards {
    layout: Layouts,
    socket: UdpSocket,
    port: u16,
    sequences: Vec<u64>,
}

impl Boards {
    pub(crate) fn new(config: &str, port: u16, boards: u16) -> Self {
        let high = catchment_config::load(Path::new(config)).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sequences = vec![0; boards.into()];
        Self { layout: high.layouts[0].clone(), socket, port, sequences }
    }

    /// A board's fragment of so many bytes at that tick.
    pub(crate) fn send(&mut self, board: u16, ticks: u64, bytes: usize) {
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
                let own = column.times_ns().get(row).copied().unwrap_or(0);
                assert_eq!(own, expected, "event {event} of board {board}");
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
            "sources[0].protocol: expected a layout with a time, as \"board-0\" has: build.match \
             is \"time\"",
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
            refused(&|text| {
                text.replace("match = \"time\"", "match = \"time\", window_events = 65536")
            }),
            "build.window_events: expected build.match = \"number\" beside it, got time",
        ),
        (
            refused(&|text| text.replace("window = \"200 ns\"", "late = \"keep\"")),
            "build.time.window: expected 1 ns to 1 s, got none",
        ),
        (
            refused(&|text| text + "expected_in = [3]\n"),
            "expected_in: expected build.time.openers with one source alone, a front-end or one",
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

/// Each event has a fragment of each board, and their times are at most so many ns apart.
fn check_apart(folder: &Path, boards: u32, events: u64, apart_ns: u64) {
    let run = Run::open(only_run(folder)).unwrap();
    assert!(verify(&run, |_| ()).is_intact());
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let (mut count, mut apart) = (0, 0);
    for frame in 0..run.frames().len() {
        let read = run.events(frame).unwrap();
        for source in 0..boards {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            for (row, key) in read.keys().iter().enumerate() {
                assert!(column.fragment(row).is_some());
                apart = apart.max(column.times_ns()[row] - key);
            }
        }
        count += read.keys().len() as u64;
    }
    assert_eq!(count, events);
    assert!((1..=apart_ns).contains(&apart), "{apart} ns");
}

#[test]
fn emulated_boards_are_recorded_over_the_wrap_of_their_clocks() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), free_ports(3), 3, "");
    let (child, mut lines) = started(folder.path(), &["run", &config], "Recording");
    let emulate = ["emulate", &config, "--events", "300", "--rate", "1 kHz"];
    let clocks = ["--jitter", "50 ns", "--wrap-after", "100 ms", "--bytes", "1 kB", "--json"];
    let sent = json(folder.path(), &[&emulate[..], &clocks[..]].concat(), 0);
    assert_eq!(sent["events"], 300);
    let code = interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("300 complete, 0 incomplete, 300 on disk"), "{rest}");
    check_apart(folder.path(), 3, 300, 58);
}

#[test]
fn a_node_emulates_the_boards_that_it_records() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(4);
    let path = config(folder.path(), port, 4, "");
    let free = |text: String| text.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:0");
    let text = free(std::fs::read_to_string(&path).unwrap());
    let emulator = "[emulator]\nrate = \"2 kHz\"\nevents = 200\nclocks.jitter = \"100 ns\"\n";
    std::fs::write(&path, format!("{text}{emulator}")).unwrap();
    let arguments = ["run", &path, "--emulate", "--events", "200"];
    let (mut child, mut lines) = started(folder.path(), &arguments, "Recording");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    check_apart(folder.path(), 4, 200, 108);
}

#[test]
fn offsets_are_measured_and_suggested() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let path = config(folder.path(), port, 3, "");
    let text = std::fs::read_to_string(&path).unwrap().replace("200 ns", "200 us");
    std::fs::write(&path, &text).unwrap();
    // What is sent: the last board's clock is 5 us ahead.
    let sender = folder.path().join("sender.toml");
    let last = format!(
        "[[source_groups]]\ngroup = \"ahead\"\ncount = 1\naddress = \"127.0.0.1:{}\"\n\
         first_sub_event_id = 3\nprotocol = \"layout\"\nlayout = \"clock\"\n\
         time_offset = \"-5 us\"\n",
        port + 2
    );
    std::fs::write(&sender, text.replace("count = 3", "count = 2") + &last).unwrap();
    let arguments = ["run", &path, "--measure-offsets"];
    let (child, mut lines) = started(folder.path(), &arguments, "Recording");
    let emulate = ["emulate", sender.to_str().unwrap(), "--events", "300", "--rate", "1 kHz"];
    json(folder.path(), &[&emulate[..], &["--jitter", "800 ns", "--json"]].concat(), 0);
    let code = interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(0), "{rest}");
    let suggested = |name: &str| {
        let line = rest.lines().find(|line| line.trim_start().starts_with(name)).expect(&rest);
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1], "300", "{rest}");
        words[words.len() - 2].parse::<i64>().expect(&rest)
    };
    assert!((-400..=0).contains(&suggested("board-0")), "{rest}");
    assert!((-400..=0).contains(&suggested("board-1")), "{rest}");
    assert!((-5_400..=-4_600).contains(&suggested("board-2")), "{rest}");
    assert!(rest.contains("Suggested build.time.window: "), "{rest}");
    let by_number = crate::support::example("minimal.toml");
    let text = stderr(folder.path(), &["run", &by_number, "--measure-offsets"], 2);
    assert!(text.contains("expected build.match = \"time\", got \"number\""), "{text}");
}

#[test]
fn clocks_that_drift_are_named_with_their_rate() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), free_ports(3), 3, "");
    let text = std::fs::read_to_string(&config).unwrap().replace("200 ns", "400 us");
    std::fs::write(&config, text).unwrap();
    let (child, mut lines) =
        started(folder.path(), &["run", &config, "--measure-offsets"], "Recording");
    // The slowest clock is that of the events: the others are 5 and 10 ppm faster.
    let emulate = ["emulate", &config, "--events", "18000", "--rate", "1 kHz", "--drift", "5"];
    json(folder.path(), &[&emulate[..], &["--jitter", "800 ns", "--json"]].concat(), 0);
    interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let drift = |name: &str| {
        let line = rest.lines().find(|line| line.trim_start().starts_with(name)).expect(&rest);
        let (before, _) = line.split_once(" ppm")?;
        before.split_whitespace().last()?.parse::<f64>().ok()
    };
    assert_eq!(drift("board-0"), None, "{rest}");
    assert!((4.5..5.5).contains(&drift("board-1").expect(&rest)), "{rest}");
    assert!((9.0..11.0).contains(&drift("board-2").expect(&rest)), "{rest}");
    assert!(rest.contains("The clock of board-2 drifts fastest, by +"), "{rest}");
}

#[test]
fn a_board_far_beyond_the_window_is_seen_and_brought_to_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(3);
    let config = config(folder.path(), port, 3, "");
    let mut boards = Boards::new(&config, port, 3);
    let arguments = ["run", &config, "--measure-offsets"];
    let (child, mut lines) = started(folder.path(), &arguments, "Recording");
    // The third board is 300 us behind, and in no event with others; its clock says so each time.
    for event in 0..800 {
        for (board, ticks) in [(0, 0), (1, 3), (2, 37_500)] {
            boards.send(board, 1_000_000 + event * 125_000 + ticks, 40);
        }
        if event % 100 == 99 {
            wait_until_read(port, 3);
        }
    }
    interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let line = |name: &str| rest.lines().find(|line| line.contains(name)).expect(&rest);
    // From the first, which is the reference: the second is 24 ns behind it.
    let far = line("board-2 ").trim_end();
    assert!(far.contains(" 300000 ns  ") && far.ends_with(" -300000 ns"), "{rest}");
    assert!(line("board-0 ").trim_end().ends_with(" 0 ns"), "{rest}");
    assert!(line("board-1 ").trim_end().ends_with(" -24 ns"), "{rest}");
}

/// Waits until the sockets of so many boards are empty, so that nothing is lost there.
pub(crate) fn wait_until_read(port: u16, boards: u16) {
    let is_unread = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = words[1].rsplit_once(':').expect("an address and a port");
        let local = u16::from_str_radix(local, 16).expect("a port");
        (port..port + boards).contains(&local) && !words[4].ends_with(":00000000")
    };
    wait_while(|| std::fs::read_to_string("/proc/net/udp").unwrap().lines().skip(1).any(is_unread));
}

/// Of each event its key, and the boards in it.
fn events(run: &Run, boards: u32) -> Vec<(u64, Vec<u32>)> {
    let mut events = Vec::new();
    for frame in 0..run.frames().len() {
        let read = run.events(frame).unwrap();
        for (row, &key) in read.keys().iter().enumerate() {
            let is_in = |&board: &u32| {
                run.fragments(frame, SourceId(board)).unwrap().fragment(row).is_some()
            };
            events.push((key, (0..boards).filter(is_in).collect()));
        }
    }
    events
}

/// All fragments of a board, with their times.
fn fragments(run: &Run, board: u32) -> Vec<(u64, Vec<u8>)> {
    let frames = 0..run.frames().len();
    let columns = frames.map(|frame| run.fragments(frame, SourceId(board)).unwrap());
    let of_column = columns.flat_map(|column| {
        let rows = 0..column.rows();
        let of_row =
            |row: usize| Some((*column.times_ns().get(row)?, column.fragment(row)?.to_vec()));
        rows.filter_map(of_row).collect::<Vec<_>>()
    });
    of_column.collect()
}

/// A run of 200 triggers with two boards near each other, and a third one that is 400 ns behind
/// them: in no event with the others.
fn recorded_apart(folder: &Path) -> (Run, String) {
    recorded_from(1_000_000, folder)
}

/// The same, with the first event at that tick.
fn recorded_from(first: u64, folder: &Path) -> (Run, String) {
    let port = free_ports(3);
    let config = config(folder, port, 3, "");
    let mut boards = Boards::new(&config, port, 3);
    let (child, mut lines) = started(folder, &["run", &config], "Recording");
    for event in 0..200 {
        for (board, ticks) in [(0, 0), (1, 3), (2, 50)] {
            boards.send(board, first + event * 125_000 + ticks, 100 + event as usize);
        }
    }
    let mut rest = String::new();
    interrupt(child);
    lines.read_to_string(&mut rest).unwrap();
    let path = only_run(folder);
    let run = Run::open(&path).unwrap();
    assert_eq!(events(&run, 3).len(), 400, "{rest}");
    (run, path.to_str().unwrap().to_owned())
}

/// The events of that, whole.
fn whole_events() -> Vec<(u64, Vec<u32>)> {
    (0..200).map(|event| (8_000_000 + event * 1_000_000, vec![0, 1, 2])).collect()
}

#[test]
fn events_are_built_again_with_another_window() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (run, path) = recorded_apart(folder);
    let path = &*path;
    let reframe = |out: &str, more: &[&str], code| {
        json(folder, &[&["reframe", path, "--out", out, "--json"], more].concat(), code)
    };
    let anew = reframe("wide", &["--window", "500 ns"], 0);
    let wide = Run::open(folder.join("wide")).unwrap();
    let whole = whole_events();
    assert_eq!(events(&wide, 3), whole);
    assert!(verify(&wide, |_| ()).is_intact() && wide.config().contains("window = \"500 ns\""));
    assert_eq!(wide.event_counts().unwrap().incomplete, 0);
    let report = audit(&wide).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    assert_eq!(report.recomputed.total()[Entry::FragmentsMissing], 0);
    // And back: what was recorded. Its base is that of the run it was made of.
    let back = |out| ["reframe", "wide", "--out", out, "--window", "200 ns", "--json"];
    json(folder, &back("narrow"), 0);
    let narrow = Run::open(folder.join("narrow")).unwrap();
    let recorded = std::fs::canonicalize(path).unwrap();
    let of_base = |run: &Run| std::fs::canonicalize(run.base_path().unwrap()).unwrap();
    assert_eq!([&wide, &narrow].map(of_base), [(); 2].map(|()| recorded.clone()));
    // No payload is written, unless it is asked for.
    let copied = reframe("copied", &["--window", "500 ns", "--copy", "--codec", "none"], 0);
    let copied_bytes = copied["stored_bytes"].as_u64().unwrap();
    let payload_bytes: u64 = 3 * (0..200).map(|event| 100 + event).sum::<u64>();
    assert!(copied_bytes > payload_bytes, "{copied_bytes} of {payload_bytes}");
    assert_eq!(anew["raw_bytes"], copied["raw_bytes"]);
    assert!(anew["stored_bytes"].as_u64().unwrap() < copied_bytes - payload_bytes + 10_000);
    let copied = Run::open(folder.join("copied")).unwrap();
    assert_eq!(copied.base_path(), None);
    assert_eq!(copied.header().variant, wide.header().variant);
    assert_eq!(events(&copied, 3), whole);
    assert_eq!(events(&narrow, 3), events(&run, 3));
    for board in 0..3 {
        let recorded = fragments(&run, board);
        assert_eq!(recorded.len(), 200);
        let same = |run| fragments(run, board) == recorded;
        assert_eq!([&wide, &narrow, &copied].map(same), [true; 3]);
    }
    assert_eq!(audit(&narrow).unwrap().recomputed.sources[2][Entry::FragmentsMissing], 200);
    let refused = stderr(folder, &["reframe", path, "--out", "no", "--window", "2 s"], 2);
    assert!(refused.contains("1 ns to 1 s"), "{refused}");
    // The run with the payload is elsewhere now, and merged files say so.
    std::fs::rename(&recorded, folder.join("moved")).unwrap();
    stderr(folder, &["merge", "wide", "--to", "merged"], 1);
    json(folder, &["merge", "wide", "--to", "merged", "--base", "moved", "--json"], 0);
    let merged = Run::open(folder.join("merged")).unwrap();
    assert_eq!(of_base(&merged), std::fs::canonicalize(folder.join("moved")).unwrap());
    assert_eq!(events(&merged, 3), whole);
}

#[test]
fn events_of_clocks_that_begin_at_zero_are_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (run, path) = recorded_from(0, folder);
    assert_eq!(run.fragments(0, SourceId(0)).unwrap().times_ns()[0], 0);
    let whole: Vec<(u64, Vec<u32>)> =
        (0..200).map(|event| (event * 1_000_000, vec![0, 1, 2])).collect();
    // And again, what was built again.
    for (from, out, window) in [(&*path, "wide", "500 ns"), ("wide", "wider", "700 ns")] {
        json(folder, &["reframe", from, "--out", out, "--window", window, "--json"], 0);
        assert_eq!(events(&Run::open(folder.join(out)).unwrap(), 3), whole);
    }
}

#[test]
fn events_are_built_again_with_other_offsets_and_openers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (run, path) = recorded_apart(folder);
    let path = &*path;
    let reframe = |out: &str, more: &[&str]| {
        json(folder, &[&["reframe", path, "--out", out, "--json"], more].concat(), 0);
        Run::open(folder.join(out)).unwrap()
    };
    let whole = whole_events();
    // The third board's clock was 400 ns ahead: its times are mended, and nothing else is given.
    let mended = reframe("mended", &["--offset", "board-2=-400 ns"]);
    assert_eq!(events(&mended, 3), whole);
    let moved = fragments(&run, 2).into_iter().map(|(ns, bytes)| (ns - 400, bytes));
    assert_eq!(fragments(&mended, 2), moved.collect::<Vec<_>>());
    assert_eq!(fragments(&mended, 0), fragments(&run, 0));
    assert_eq!(audit(&mended).unwrap().verdict, Verdict::Balanced);
    assert!(mended.config().contains("offset = \"-400 ns\""), "{}", mended.config());
    // And back, of the run that was mended: the times are those of the recording.
    let back = ["reframe", "mended", "--out", "back", "--offset", "board-*=0 s", "--json"];
    json(folder, &back, 0);
    let back = Run::open(folder.join("back")).unwrap();
    assert_eq!(events(&back, 3), events(&run, 3));
    assert_eq!(fragments(&back, 2), fragments(&run, 2));
    // It alone opens events: its time is theirs, and the others are before it.
    let opened = reframe("opened", &["--window", "500 ns", "--openers", "board-2"]);
    let later = whole.iter().map(|(key, boards)| (key + 400, boards.clone()));
    assert_eq!(events(&opened, 3), later.collect::<Vec<_>>());
    assert_eq!(audit(&opened).unwrap().verdict, Verdict::Balanced);
    // Where an event takes three openers, and the window has two, there is none.
    assert_eq!(events(&reframe("alone", &["--coincidence", "3"]), 3).len(), 600);
    let wide = reframe("wide", &["--window", "500 ns"]);
    let variants = [&run, &wide, &mended, &opened].map(|run| run.header().variant);
    let different: std::collections::BTreeSet<u32> = variants.into_iter().collect();
    assert_eq!((different.len(), variants.map(|one| one >> 31)), (4, [0, 1, 1, 1]));
    for (more, expected) in [
        (["--openers", "nobody-*"], "--openers \"nobody-*\": it fits no source of "),
        (["--openers", "nobody"], "in its files names board-0, board-1, board-2"),
        (["--openers", "boards-2"], "board-2; did you mean board-2"),
        (["--openers", "board-["], "--openers \"board-[\": "),
        (["--offset", "nobody=1 ns"], "--offset \"nobody\": it fits no source of "),
        (["--offset", "board-2"], "trigger=-300 ns"),
        (["--coincidence", "4"], "as many sources as may open"),
    ] {
        let arguments = [&["reframe", path, "--out", "no"], &more[..]].concat();
        let refused = stderr(folder, &arguments, 2);
        assert!(refused.contains(expected), "{refused}");
    }
}

/// The key of an event, and by board the times and bytes of its fragments.
type Pieces = (u64, Vec<Vec<(u64, Vec<u8>)>>);

fn pieces(run: &Run, boards: u32) -> Vec<Pieces> {
    let mut events = Vec::new();
    for frame in 0..run.frames().len() {
        let read = run.events(frame).unwrap();
        for (row, &key) in read.keys().iter().enumerate() {
            let of_board = |board: u32| {
                let column = run.fragments(frame, SourceId(board)).unwrap();
                let Some(mut rest) = column.fragment(row) else { return Vec::new() };
                let (time_ns, bytes) = (column.times_ns()[row], rest.len() as u64);
                let alone = [Piece { row: row as u64, time_ns, bytes }];
                let several = column.pieces(row..row + 1);
                let all = if several.is_empty() { &alone } else { several };
                let mut split = |piece: &Piece| {
                    let (own, behind) = rest.split_at(piece.bytes as usize);
                    rest = behind;
                    (piece.time_ns, own.to_vec())
                };
                all.iter().map(&mut split).collect()
            };
            events.push((key, (0..boards).map(of_board).collect()));
        }
    }
    events
}

/// What `catchment read` writes has the time of each fragment: of several, that of the first.
fn check_own_times(folder: &Path, run: &str, found: &[Pieces]) {
    let read =
        |more: &[&str]| stdout(folder, &[&["read", run, "--source", "board-1"], more].concat(), 0);
    let text = read(&[]);
    let mut lines = text.lines();
    let names = "event,time_ns,flags,bytes,fragment,pieces,own_time_ns,expected";
    assert_eq!(lines.next(), Some(names));
    let times: Vec<u64> = found.iter().map(|(_, of_boards)| of_boards[1][0].0).collect();
    let ends: Vec<String> = times.iter().map(|time| format!(",{time},1")).collect();
    assert_eq!(lines.clone().count(), ends.len());
    assert!(lines.zip(&ends).all(|(line, end)| line.ends_with(end)), "{text}");
    for (format, output) in [("npy", "own"), ("arrow", "own.arrow"), ("parquet", "own.parquet")] {
        read(&["--format", format, "--output", output]);
    }
    let written = std::fs::read(folder.join("own.times.npy")).unwrap();
    let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
    assert!(written.ends_with(&bytes), "the array's values");
}

#[test]
fn two_packets_of_a_board_are_pieces_of_its_event_and_stay_so_when_it_is_built_again() {
    const EVENTS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(2));
    let config = config(folder, port, 2, "");
    let text = std::fs::read_to_string(&config).unwrap();
    let most = |most| text.replace("\"200 ns\"", &format!("\"200 ns\", fragments_max = {most}"));
    std::fs::write(&config, most("65536")).unwrap();
    let refused = stderr(folder, &["run", &config], 2);
    assert!(refused.contains("build.time.fragments_max: expected 1 to 65535"), "{refused}");
    let by_number = std::fs::read_to_string(crate::support::example("minimal.toml")).unwrap();
    std::fs::write(&config, by_number + "\n[build.time]\nfragments_max = 2\n").unwrap();
    let refused = stderr(folder, &["run", &config], 2);
    let expected = "build.time: expected build.match = \"time\" beside it, got number";
    assert!(refused.contains(expected), "{refused}");
    std::fs::write(&config, most("2")).unwrap();
    let mut boards = Boards::new(&config, port, 2);
    let (child, mut lines) = started(folder, &["run", &config], "Recording");
    // The second board sends two packets: 32 ns apart, or of one time.
    let mut sent = Vec::new();
    for event in 0..EVENTS {
        let ticks = 1_000_000 + event * 125_000;
        let apart = if event % 3 == 0 { 0 } else { 4 };
        let packets = [(0, 0, 40), (1, 2, 50 + event as usize), (1, 2 + apart, 60)];
        packets.iter().for_each(|&(board, after, bytes)| boards.send(board, ticks + after, bytes));
        sent.push((ticks * 8, packets.map(|(_, after, bytes)| ((ticks + after) * 8, bytes + 20))));
    }
    let code = interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(0), "{rest}");
    let path = only_run(folder);
    let run = Run::open(&path).unwrap();
    assert!(verify(&run, |_| ()).is_intact(), "{rest}");
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{rest}");
    let recorded = |one: usize| report.recomputed.sources[one][Entry::FragmentsRecorded];
    assert_eq!([recorded(0), recorded(1)], [EVENTS, 2 * EVENTS]);
    // Times and bytes, and the board and the sequence number in the packet's head.
    let found = pieces(&run, 2);
    let described: Vec<_> = found
        .iter()
        .map(|(key, of_boards)| {
            let all = of_boards.iter().flatten().map(|(ns, bytes)| (*ns, bytes.len()));
            (*key, <[_; 3]>::try_from(all.collect::<Vec<_>>()).unwrap())
        })
        .collect();
    assert_eq!(described, sent);
    for (event, (_, of_boards)) in (0_u32..).zip(&found) {
        let sequences = of_boards[1].iter().map(|(_, bytes)| bytes[4..8].to_vec());
        let expected = [2 * event, 2 * event + 1].map(|number| number.to_le_bytes().to_vec());
        assert!(sequences.eq(expected), "event {event}");
    }
    let path = path.to_str().unwrap();
    check_own_times(folder, path, &found);
    // Written again as they are; into narrow events, with and without the payload; and back.
    let again = |from: &str, out: &str, more: &[&str]| {
        json(folder, &[&["reframe", from, "--out", out, "--json"], more].concat(), 0);
        let run = Run::open(folder.join(out)).unwrap();
        assert!(verify(&run, |_| ()).is_intact(), "{out}");
        let report = audit(&run).unwrap();
        assert_eq!(report.recomputed.sources[1][Entry::FragmentsRecorded], 2 * EVENTS, "{out}");
        pieces(&run, 2)
    };
    assert_eq!(again(path, "plain", &["--frame-bytes", "4 kB"]), found);
    // The second packet of two thirds of the events is behind 20 ns.
    let narrow = again(path, "narrow", &["--window", "20 ns"]);
    assert_eq!(again(path, "copied", &["--window", "20 ns", "--copy"]), narrow);
    assert_eq!(narrow.len() as u64, EVENTS + EVENTS * 2 / 3);
    let of_second = |all: &[Pieces]| {
        all.iter().flat_map(|(_, of_boards)| of_boards[1].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of_second(&narrow), of_second(&found));
    assert_eq!(again("narrow", "back", &["--window", "200 ns"]), found);
}
