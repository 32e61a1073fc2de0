//! Nodes that record one run of trains in turn.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use catchment_model::{Entry, SourceId};
use catchment_storage::{Run, RunOptions, StorageError};

use crate::support::{
    catchment, free_ports, interrupt, json, only_run, printed, started, stderr, stdout,
};

/// Trains of two images of 64 x 64 pixels.
const TRAIN_BYTES: u64 = 20_573;
const RUN: &str = "6b0e62e5b1f64c2c9a4a6f2a1d3c7e90";

/// A folder with the configuration of the node of that turn.
fn node(folder: &Path, name: &str, (port, turn): (u16, u16), id: &str) -> PathBuf {
    let folder = folder.join(name);
    std::fs::create_dir(&folder).unwrap();
    let text = format!(
        "[run]\nid = \"{id}\"\nown = {{ modulo = 2, remainder = {turn} }}\n\
         [trains]\ntrain_bytes = {TRAIN_BYTES}\nadler32_at = {}\nholes_bytes_max = 8184\n[trends]\nenabled = false\n\
         [[sources]]\nname = \"spb\"\nprotocol = \"trains\"\naddress = \"127.0.0.1:{}\"\n",
        TRAIN_BYTES - 4,
        port + turn
    );
    std::fs::write(folder.join("node.toml"), text).unwrap();
    folder
}

/// Sends trains 0 to 19 to the nodes from that port on.
fn feed(folder: &Path, port: u16, nodes: &str) {
    let to = format!("127.0.0.1:{port}");
    let what = ["emulate", "xfel-trains", "--to", &to, "--nodes", nodes, "--feeders", "2"];
    let size = ["--pulses", "2", "--image", "64x64", "--rate", "100", "--events", "20", "--json"];
    let sent = json(folder, &[&what[..], &size[..]].concat(), 0);
    assert_eq!((&sent["trains"], &sent["train_bytes"]), (&20.into(), &TRAIN_BYTES.into()));
}

/// The numbers of a .npy file.
fn numbers(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    bytes[256..].as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

fn keys(run: &Run) -> Vec<u64> {
    let frames = 0..run.frames().len();
    frames.flat_map(|frame| run.events(frame).unwrap().keys().to_vec()).collect()
}

fn ledger(run: &Run, entry: Entry) -> u64 {
    run.recorded_ledger().unwrap().expect("a closed run").total()[entry]
}

#[test]
fn nodes_that_take_turns_record_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(2));
    let nodes = [0, 1].map(|turn| node(folder, &format!("node-{turn}"), (port, turn), RUN));
    let recorders = nodes.each_ref().map(|node| started(node, &["run", "node.toml"], "Recording"));
    feed(folder, port, "2");
    for (recorder, _lines) in recorders {
        assert_eq!(interrupt(recorder), Some(0));
    }
    let runs = nodes.each_ref().map(|node| only_run(node));
    for (turn, path) in runs.iter().enumerate() {
        let run = Run::open(path).unwrap();
        assert_eq!((run.header().run.to_string(), run.header().stream), (RUN.into(), turn as u32));
        assert_eq!(keys(&run), (0..20).filter(|key| key % 2 == turn as u64).collect::<Vec<_>>());
        let lost = [Entry::FragmentsMissing, Entry::FragmentsNotOwned];
        assert_eq!(lost.map(|entry| ledger(&run, entry)), [0, 0]);
    }
    for paths in [[&runs[0], &runs[1]], [&runs[1], &runs[0]]] {
        let run = Run::open_folders(&paths, RunOptions::default()).unwrap();
        // Each train is a frame of its own, or the two nodes' frames overlap.
        let mut all = keys(&run);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        for key in 0..20 {
            let (frame, row) = run.find(key).unwrap().expect("each train");
            let train = run.fragments(frame, SourceId(0)).unwrap();
            assert_eq!(train.fragment(row).unwrap()[8..16], key.to_le_bytes());
            let Some(at) = run.frames().get(frame) else { panic!("{frame}") };
            assert_eq!(run.frame_at(at.file, at.index), Some(frame));
        }
        assert_eq!((run.event_count(), run.frames_missing()), (20, 0));
        assert!(run.ended() && run.closed() && !run.lost_data());
        let counts = [Entry::FragmentsRecorded, Entry::FragmentsReceived, Entry::FragmentsDurable];
        assert_eq!(counts.map(|entry| ledger(&run, entry)), [20, 20, 20]);
        assert!(run.recorded_ledger().unwrap().unwrap().balance().holds());
    }
}

/// Feeder `number` of two, at that timer, to the nodes from that port on.
fn feeder(folder: &Path, (timer, port): (&str, u16), number: &str) -> Child {
    let to = format!("127.0.0.1:{port}");
    let what = ["emulate", "xfel-trains", "--role", "feeder", "--timer", timer, "--to", &to];
    let which = ["--feeders", "2", "--feeder", number, "--nodes", "2"];
    let size = ["--pulses", "2", "--image", "64x64", "--json"];
    let mut command = catchment(folder, &[&what[..], &which, &size].concat());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_timer_says_when_trains_are_due_and_which_run_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(2));
    let what = ["emulate", "xfel-trains", "--role", "timer", "--listen", "127.0.0.1:0"];
    let how = ["--feeders", "2", "--rate", "40", "--events", "21", "--first-run", "7"];
    let (timer, _lines, line) = printed(catchment(folder, &[&what[..], &how].concat()), "Timer at");
    let address = line.trim().trim_start_matches("Timer at ").trim_end_matches('.');
    let nodes = [0, 1].map(|turn| {
        let folder = node(folder, &format!("node-{turn}"), (port, turn), RUN);
        let text = std::fs::read_to_string(folder.join("node.toml")).unwrap();
        let id = format!("id = \"{RUN}\"");
        let text = text.replace(&id, &format!("timer = \"{address}\""));
        std::fs::write(folder.join("node.toml"), text).unwrap();
        folder
    });
    let recorders = nodes.each_ref().map(|node| started(node, &["run", "node.toml"], "Recording"));
    let feeders = ["0", "1"].map(|number| feeder(folder, (address, port), number));
    let mut timer = timer;
    assert_eq!(timer.wait().unwrap().code(), Some(0));
    let sent = feeders.map(|feeder| {
        let output = feeder.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        ["trains", "trains_skipped"].map(|key| report[key].as_u64().unwrap())
    });
    // On a busy machine a feeder is late, and skips.
    let [[even, even_skipped], [odd, odd_skipped]] = sent;
    assert!(even > 0 && even + even_skipped <= 11, "{sent:?}");
    assert!(odd > 0 && odd + odd_skipped <= 10, "{sent:?}");
    for (recorder, _lines) in recorders {
        // A train that was skipped is missing.
        let code = interrupt(recorder);
        assert!(code == Some(0) || code == Some(3) && even_skipped + odd_skipped > 0, "{code:?}");
    }
    let runs = nodes.each_ref().map(|node| only_run(node));
    let run = Run::open_folders(&runs.each_ref().map(|run| &**run), RunOptions::default()).unwrap();
    assert_eq!((run.event_count(), run.header().run_number), (even + odd, 7));
    let keys = keys(&run);
    assert!(keys.contains(&20) && keys.iter().all(|key| (0..21).contains(key)), "{keys:?}");
    // Without its timer a node does not begin.
    let refused = stderr(&nodes[0], &["run", "node.toml"], 1);
    assert!(refused.contains(&format!("run.timer {address}: Connection refused")), "{refused}");
}

#[test]
fn trains_of_the_other_node_are_counted_and_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(2));
    let node = node(folder, "node", (port, 0), RUN);
    let (recorder, _lines) = started(&node, &["run", "node.toml"], "Recording");
    feed(folder, port, "1");
    assert_eq!(interrupt(recorder), Some(0));
    let run = Run::open(only_run(&node)).unwrap();
    assert_eq!(keys(&run), (0..20).step_by(2).collect::<Vec<_>>());
    let counts = [Entry::FragmentsReceived, Entry::FragmentsRecorded, Entry::FragmentsNotOwned];
    assert_eq!(counts.map(|entry| ledger(&run, entry)), [20, 10, 10]);
    assert!(!run.lost_data() && ledger(&run, Entry::FragmentsMissing) == 0);
    // Another run needs another identity.
    let refused = stderr(&node, &["run", "node.toml"], 1);
    assert!(refused.contains("expected a new run.id"), "{refused}");
}

#[test]
fn runs_of_nodes_without_a_common_identity_are_not_one() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(2));
    let ids = [RUN, "00000000000000000000000000000007"];
    let nodes = [0, 1].map(|turn: u16| {
        node(folder, &format!("node-{turn}"), (port, turn), ids[usize::from(turn)])
    });
    let runs = nodes.map(|node| {
        let (recorder, _lines) = started(&node, &["run", "node.toml"], "Recording");
        assert_eq!(interrupt(recorder), Some(0));
        only_run(&node)
    });
    let refused = Run::open_folders(&runs, RunOptions::default()).unwrap_err();
    assert!(matches!(refused, StorageError::ForeignFile { .. }), "{refused}");
}

/// What a node of all trains, whose images have a type, records of those that are sent so: the
/// emulator's report, and the run.
fn recorded(
    folder: &Path,
    (name, port): (&str, u16),
    sent: &[&str],
    code: i32,
) -> (serde_json::Value, PathBuf) {
    let node = node(folder, name, (port, 0), RUN);
    let text = std::fs::read_to_string(node.join("node.toml")).unwrap();
    let field = "{ name = \"images\", dtype = \"u16\", shape = [2, 64, 64], offset = 64 }";
    let payload = format!("dtype = \"record\"\nrecord_bytes = {TRAIN_BYTES}\nfields = [{field}]\n");
    let text = text.replace("modulo = 2, remainder = 0", "modulo = 1");
    std::fs::write(node.join("node.toml"), format!("{text}[sources.payload]\n{payload}")).unwrap();
    let (recorder, _lines) = started(&node, &["run", "node.toml"], "Recording");
    let to = format!("127.0.0.1:{port}");
    let what = ["emulate", "xfel-trains", "--to", &to, "--rate", "100", "--json"];
    let report = json(folder, &[&what[..], sent].concat(), 0);
    assert_eq!(interrupt(recorder), Some(code));
    (report, only_run(&node))
}

#[test]
fn images_of_a_recorded_run_or_of_a_file_of_its_trains_are_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(3));
    let size = ["--pulses", "2", "--image", "64x64", "--events", "4", "--seed", "2"];
    let (_, first) = recorded(folder, ("first", port), &size, 0);
    let images = |run: &Path, train: u64| {
        let run = Run::open(run).unwrap();
        let (frame, row) = run.find(train).unwrap().expect("the train");
        let trains = run.fragments(frame, SourceId(0)).unwrap();
        trains.fragment(row).unwrap()[64..][..2 * 2 * 64 * 64].to_vec()
    };
    let original = [0, 1, 2, 3].map(|train| images(&first, train));
    assert!(original[0] != original[1]);
    let first = first.to_str().unwrap();
    let some = ["--events", "1..4", "--field", "images", "--format", "npy", "--output", "some"];
    stdout(folder, &[&["read", first, "--source", "spb"][..], &some].concat(), 0);
    let file = "some.images.npy";
    for (name, port, given, shown) in
        [("run", port + 1, first, [0, 1, 2, 3, 0, 1]), ("file", port + 2, file, [1, 2, 3, 1, 2, 3])]
    {
        // Their sizes are those of what is given.
        let sent = ["--images", given, "--events", "6", "--feeders", "2"];
        let (_, run) = recorded(folder, (name, port), &sent, 0);
        for (train, of) in (0..).zip(shown) {
            assert!(images(&run, train) == original[of], "{name}, train {train}");
        }
        let refused = |more: &[&str]| {
            let what = ["emulate", "xfel-trains", "--to", "127.0.0.1:9", "--images", given];
            stderr(folder, &[&what[..], more].concat(), 2)
        };
        let text = refused(&["--pulses", "3"]);
        assert!(text.contains("expected 3 images in a train, got 2"), "{text}");
        let text = refused(&["--image", "64x65"]);
        assert!(text.contains("expected images of 64x65, got 64x64"), "{text}");
    }
    // A run whose trains have no type, and a folder without a run.
    let plain = node(folder, "plain", (port, 0), RUN);
    let (recorder, _lines) = started(&plain, &["run", "node.toml"], "Recording");
    assert_eq!(interrupt(recorder), Some(0));
    let run = only_run(&plain);
    for (given, expected) in [
        (run.to_str().unwrap(), "expected one source with a field images"),
        ("plain", "--images plain: "),
    ] {
        let what = ["emulate", "xfel-trains", "--to", "127.0.0.1:9", "--images", given];
        let text = stderr(folder, &what, 2);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn timer_and_feeders_are_threads_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(2));
    let nodes = [0, 1].map(|turn| node(folder, &format!("node-{turn}"), (port, turn), RUN));
    let recorders = nodes.each_ref().map(|node| started(node, &["run", "node.toml"], "Recording"));
    let to = format!("127.0.0.1:{port}");
    let what = ["emulate", "xfel-trains", "--listen", "127.0.0.1:0", "--to", &to, "--nodes", "2"];
    let size = ["--pulses", "2", "--image", "64x64", "--feeders", "2", "--rate", "40"];
    let much = ["--events", "21", "--json"];
    let report = json(folder, &[&what[..], &size, &much].concat(), 0);
    let count = |value: &serde_json::Value| value.as_u64().unwrap();
    let [sent, skipped] = ["trains", "trains_skipped"].map(|key| count(&report[key]));
    assert!(sent > 0 && sent + skipped <= 21, "{report}");
    // The ticks were those of the timer.
    let timer = &report["timer"];
    assert!(timer["clients"] == 2 && count(&timer["sent"]) >= sent, "{report}");
    for (recorder, _lines) in recorders {
        let code = interrupt(recorder);
        assert!(code == Some(0) || code == Some(3) && skipped > 0, "{code:?}");
    }
    let runs = nodes.map(|node| only_run(&node));
    let run = Run::open_folders(&runs, RunOptions::default()).unwrap();
    assert_eq!(run.event_count(), sent);
    let keys = keys(&run);
    assert!(keys.iter().all(|key| (0..21).contains(key)), "{keys:?}");
}

#[test]
fn what_is_read_of_trains_says_which_bytes_never_came() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(1));
    let size = ["--pulses", "2", "--image", "64x64", "--events", "8", "--drop-every", "4"];
    // Bad data.
    let (sent, run) = recorded(folder, ("node", port), &size, 3);
    let run = run.to_str().unwrap();
    let holes = |train: u64| {
        let dropped = sent["dropped"].as_array().unwrap().iter();
        let of = dropped.filter(|one| one[0] == train).map(|one| one[1].as_u64().unwrap() * 8_184);
        of.map(|begin| (begin, (begin + 8_184).min(TRAIN_BYTES))).next()
    };
    assert!(holes(3).is_some() && holes(7).is_some() && holes(4).is_none());
    let read = |more: &[&'static str]| [&["read", run, "--source", "spb"][..], more].concat();
    for follow in [&[][..], &["--follow"]] {
        let lines = stdout(folder, &read(follow), 0);
        let mut lines = lines.lines();
        assert_eq!(lines.next(), Some("event,time_ns,flags,bytes,fragment,holes"));
        for (train, line) in lines.enumerate() {
            let shown = holes(train as u64).map(|(begin, end)| format!("{begin}-{end}"));
            assert_eq!(line.rsplit(',').next(), Some(&*shown.unwrap_or_default()), "{train}");
        }
        let said = stderr(folder, &read(&[follow, &["--format", "raw"]].concat()), 0);
        assert!(said.contains("2 fragments with holes"), "{said}");
    }
    let numbers = |name: &str| numbers(&folder.join(name));
    let object = json(folder, &read(&["--format", "npy", "--output", "all", "--json"]), 0);
    assert_eq!(
        (&object["fragments_with_holes"], object["files"].as_array().unwrap().len()),
        (&2.into(), 5)
    );
    let rows = |shift: u64, most: u64, first: u64| -> Vec<u64> {
        let of = |train: u64| holes(train).map(|hole| (train - first, hole));
        let within = |at: u64| at.saturating_sub(shift).min(most);
        let of_row = |(row, (begin, end))| [row, within(begin), within(end) - within(begin)];
        [3, 7].into_iter().filter(|&train| train >= first).filter_map(of).flat_map(of_row).collect()
    };
    assert_eq!(numbers("all.holes.npy"), rows(0, TRAIN_BYTES, 0));
    // A range of trains, and of them the images alone.
    let images = ["--events", "2..8", "--field", "images", "--format", "npy", "--output", "some"];
    stdout(folder, &read(&images), 0);
    assert_eq!(numbers("some.keys.npy"), (2..8).collect::<Vec<_>>());
    let found = numbers("some.holes.npy");
    let expected = rows(64, 2 * 2 * 64 * 64, 2);
    assert_eq!(
        found,
        expected.chunks(3).filter(|hole| hole[2] > 0).flatten().copied().collect::<Vec<_>>()
    );
    let head = std::fs::read(folder.join("some.images.npy")).unwrap();
    assert!(String::from_utf8_lossy(&head[..256]).contains("'<u2'"));
    assert!(String::from_utf8_lossy(&head[..256]).contains("(6, 2, 64, 64)"));
    assert_eq!(head.len(), 256 + 6 * 2 * 2 * 64 * 64);
    let refused =
        stderr(folder, &read(&["--field", "image", "--format", "npy", "--output", "x"]), 2);
    assert!(refused.contains("expected a field of spb (images), got \"image\""), "{refused}");
    for format in ["parquet", "arrow"] {
        stdout(folder, &read(&["--format", format, "--output", format]), 0);
        let bytes = std::fs::read(folder.join(format)).unwrap();
        assert!(bytes.windows(9).any(|part| part == b"spb.holes"), "{format}");
    }
}
