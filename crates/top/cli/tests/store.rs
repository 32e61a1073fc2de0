//! A recorder and a storage node as processes: what front-ends send is in the node's files, once,
//! whatever breaks between the two.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_fixtures::wait_while;
use catchment_frame::{FILE_LIST_NAME, FileReader};
use catchment_frontend::{Closed, Frontend, SourceStatus};
use catchment_model::Entry;
use catchment_storage::{Run, RunOptions, Verdict, audit, verify};
use serde_json::Value;

use crate::front_ends::{LONG, SOURCES, content, fragments};
use crate::life::Node;
use crate::support::{catchment, free, free_ports, interrupt, started, stderr, stdout};

mod after_end;
mod killed;
mod network_folder;
mod resumed;
mod resumed_shared;
mod shared;
mod spilled;

/// Writes the files of a recorder whose frames go to `node`, and of a node that is at `listens`.
/// Returns where front-ends connect.
fn configure(folder: &Path, node: SocketAddr, listens: SocketAddr, more: &str) -> String {
    let (text, url) = recorder_text(&format!("address = \"{node}\"\n{more}"));
    std::fs::write(folder.join("node.toml"), text).unwrap();
    configure_store(folder, listens);
    url
}

/// The file of a recorder with such a target, and where front-ends connect.
fn recorder_text(target: &str) -> (String, String) {
    text_with("", &format!("[[targets]]\nname = \"node\"\nkind = \"store\"\n{target}"))
}

/// The file of a recorder with those targets and some more tables, and where front-ends connect.
fn text_with(more: &str, targets: &str) -> (String, String) {
    let address = free();
    let sources =
        SOURCES.map(|name| format!("[[sources]]\nname = \"detector/{name}\"\nvia = \"link\"\n"));
    let text = format!(
        r#"
[memory]
budget = "256 MiB"
[build]
timeout = "1 h"
[frame]
time = "20 ms"
bytes = "1 MiB"
{more}
{targets}
[[listen]]
address = "{address}"
{}"#,
        sources.concat()
    );
    (text, format!("catchment+tcp://{address}"))
}

fn configure_store(folder: &Path, listens: SocketAddr) {
    configure_store_in(folder, &[Path::new("stored")], listens, "");
}

fn configure_store_in(folder: &Path, folders: &[&Path], listens: SocketAddr, more: &str) {
    let text = format!(
        r#"
[store]
folders = {folders:?}
close_after = "200 ms"
[memory]
budget = "192 MiB"
[write]
sync_interval = "20 ms"
buffer_bytes = "1 MiB"
preallocate_bytes = "1 MiB"
file_bytes = "4 MiB"
[[listen]]
address = "{listens}"
{more}
"#
    );
    std::fs::write(folder.join("store.toml"), text).unwrap();
}

/// A storage node, with what it prints.
struct Store(Child);

impl Store {
    /// Starts it, and waits until it is there.
    fn start(folder: &Path, node: SocketAddr) -> Self {
        let mut command = catchment(folder, &["store", "store.toml", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        wait_while(|| {
            assert_eq!(child.try_wait().unwrap(), None);
            TcpStream::connect(node).is_err()
        });
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends it in order; what it says last that it has done.
    fn end(mut self) -> Value {
        let mut lines = self.0.stdout.take().unwrap();
        assert_eq!(interrupt(self.0), Some(0));
        let mut text = String::new();
        lines.read_to_string(&mut text).unwrap();
        let objects = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        objects.last().expect("an object").unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

fn recorder(folder: &Path) -> Child {
    started(folder, &["run", "node.toml"], "Recording").0
}

fn front_end(url: &str) -> Frontend {
    let builder = Frontend::builder(url, "detector");
    let builder = SOURCES.iter().fold(builder.buffer(12 << 20), |it, name| it.source(name));
    builder.fragment_bytes_max(1 << 20).wait(LONG).connect().expect("the recorder is there")
}

/// Sends the fragments of keys below that number, and calls `act` with how many were sent.
fn send(front_end: &Frontend, keys: u64, act: impl FnOnce(&AtomicU64)) {
    send_these(front_end, 0..keys, act);
}

fn send_these(front_end: &Frontend, keys: Range<u64>, act: impl FnOnce(&AtomicU64)) {
    let sent = AtomicU64::new(keys.start);
    std::thread::scope(|scope| {
        for (index, source) in front_end.sources().iter().enumerate() {
            let (sent, keys) = (&sent, keys.clone());
            scope.spawn(move || {
                for key in keys {
                    source.send(key, &content(index, key)).unwrap();
                    if index == 0 {
                        sent.store(key, Relaxed);
                    }
                }
            });
        }
        act(&sent);
    });
}

/// The only folder in that one.
fn only(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path());
    // The node's own is beside them.
    let own = [".catchment", ".catchment-store"];
    let all: Vec<PathBuf> =
        entries.filter(|path| !own.iter().any(|name| path.ends_with(name))).collect();
    let [one] = &all[..] else { panic!("expected one folder, got {all:?}") };
    one.clone()
}

/// The run has the fragments of keys below that number, each once, and its ledger balances.
fn check(folder: &Path, keys: u64) -> Run {
    check_run(Run::open(folder).unwrap(), keys)
}

fn check_run(run: Run, keys: u64) -> Run {
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    let verified = verify(&run, |_| {});
    assert!(verified.is_intact(), "{verified:?}");
    let events = fragments(&run);
    assert!(events.keys().copied().eq(0..keys), "{} events", events.len());
    for (key, of_sources) in events {
        for (source, bytes) in of_sources.iter().enumerate() {
            assert!(bytes.as_ref() == Some(&content(source, key)), "event {key}, source {source}");
        }
    }
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
    let counts = [Entry::FragmentsRecorded, Entry::FragmentsDurable].map(|entry| ledger[entry]);
    assert_eq!(counts, [3 * keys; 2]);
    assert!(run.ended() && run.closed());
    run
}

/// Where the catalogue says that the frames of run 1 are.
fn locations(folder: &Path) -> Vec<Value> {
    let text = stdout(folder, &["catalog", "show", "1", "--json"], 0);
    let run: Value = serde_json::from_str(&text).unwrap();
    run["locations"].as_array().expect("locations").clone()
}

/// Which frames are in which of a node's files, as the run's index says it.
fn file_frames(stored: &Path) -> Value {
    let files = std::fs::read_dir(stored).unwrap().map(|file| file.unwrap().path());
    let mut paths: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|one| one == "catch")).collect();
    paths.sort();
    let of_file = |(index, path): (usize, &PathBuf)| {
        let bytes = std::fs::read(path).unwrap();
        let reader = FileReader::open(&bytes).unwrap();
        let numbers = || reader.frames().iter().map(|frame| frame.info.numbers());
        let (first, last) = (numbers().map(|one| one.0).min(), numbers().map(|one| one.1).max());
        serde_json::json!({
            "first_file": index, "last_file": index, "files": 1,
            "first_frame": first, "last_frame": last,
        })
    };
    paths.iter().enumerate().map(of_file).collect()
}

#[test]
fn a_run_stands_at_a_storage_node_as_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let also = "[[targets]]\nname = \"here\"\nfolder = \"runs\"\n";
    let url = configure(folder.path(), node, node, also);
    let store = Store::start(folder.path(), node);
    let recorder = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 2_000, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder), Some(0));
    let done = store.end();
    let stored = only(&folder.path().join("stored"));
    let (there, here) =
        (check(&stored, 2_000), check(&crate::support::only_run(folder.path()), 2_000));
    assert!(there.files().len() > 1, "files are left as they grow");
    let frames = |run: &Run| {
        run.frames().iter().map(|frame| frame.summary.info.sequence).collect::<Vec<_>>()
    };
    assert_eq!(frames(&there), frames(&here));
    assert_eq!(done["frames_taken"], verify(&there, |_| {}).frames);
    assert_eq!((&done["frames_corrupt"], &done["faults"]), (&0.into(), &0.into()));
    assert_eq!(done["streams"][0]["has_ended"], true);
    // The catalogue says where both are, and so does the list in the folder.
    let [at, beside] = &locations(folder.path())[..] else {
        panic!("expected two locations: {:?}", locations(folder.path()))
    };
    let name = stored.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        (&at["target"], &at["kind"], &at["name"]),
        (&"node".into(), &"node".into(), &name.into())
    );
    assert_eq!((&at["address"], &at["frames"]), (&node.to_string().into(), &done["frames_taken"]));
    assert_eq!(
        (&at["first_frame"], &at["last_frame"]),
        (&0.into(), &file_frames(&stored).as_array().unwrap().last().unwrap()["last_frame"])
    );
    assert_eq!(at["file_frames"], file_frames(&stored));
    assert_eq!((&beside["kind"], &beside["target"]), (&"folder".into(), &"here".into()));
    assert_eq!(beside["files"], serde_json::json!([[0, here.files().len() - 1]]));
    let list = crate::support::only_run(folder.path()).join(FILE_LIST_NAME);
    let list = std::fs::read_to_string(list).unwrap();
    for location in [at, beside] {
        let line = serde_json::json!({ "location": location });
        let is_that = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|it| it == line);
        assert!(list.lines().any(is_that), "no {line} in {list}");
    }
    let text = stdout(folder.path(), &["catalog", "show", "1"], 0);
    assert!(text.contains(&format!("node: storage node {node}, {name}, ")), "{text}");
    assert!(text.contains(&format!("{name}-00000.catch: frames 0 to ")), "{text}");
    // Who opens the folder when its files are gone is told where the others are.
    let path = here.path().to_owned();
    here.files().for_each(|file| std::fs::remove_file(file.path).unwrap());
    let error = Run::open(&path).unwrap_err().to_string();
    let expected = format!("in this folder; its list names {name} of storage node {node}");
    assert!(error.ends_with(&expected), "{error}");
}

#[test]
fn a_storage_node_that_is_killed_and_started_again_has_everything_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, "");
    let mut store = Store::start(folder.path(), node);
    let recorder = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 6_000, |sent| {
        for life in 1..=5 {
            wait_while(|| sent.load(Relaxed) < life * 1_000);
            store.kill();
            store = Store::start(folder.path(), node);
        }
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder), Some(0));
    let stored = only(&folder.path().join("stored"));
    // Its files are whole before it ends in order, too.
    check(&stored, 6_000);
    store.kill();
    let store = Store::start(folder.path(), node);
    check(&stored, 6_000);
    store.end();
}

#[test]
fn one_of_two_storage_nodes_is_killed_and_started_again_and_their_folders_are_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folders = ["one", "two"].map(|name| folder.path().join(name));
    let first = free_ports(2);
    let nodes = [first, first + 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    for (folder, &node) in folders.iter().zip(&nodes) {
        std::fs::create_dir(folder).unwrap();
        configure_store(folder, node);
    }
    let [one, mut two] = [0, 1].map(|index| Store::start(&folders[index], nodes[index]));
    // Rows of frames are an eighth of what may be held for each.
    let target = format!("nodes = [\"{}\", \"{}\"]\nhold_bytes = \"8 MiB\"", nodes[0], nodes[1]);
    let (text, url) = recorder_text(&target);
    let control = "[control]\nrequests_per_second = 1000000\ndrain = \"1 h\"\n";
    let recorder = Node::start(folder.path(), &format!("{control}{text}"), &[]);
    let until = |reached: &dyn Fn(&[Value]) -> bool| {
        let nodes = |state: &Value| state["targets"][0]["nodes"].as_array().cloned();
        let state = recorder.until(|state| nodes(state).is_some_and(|nodes| reached(&nodes)));
        nodes(&state).expect("two nodes")
    };
    let are_connected = |nodes: &[Value]| nodes.iter().all(|node| node["is_connected"] == true);
    let durable = |nodes: &[Value]| nodes[1]["frames_durable"].as_u64().unwrap();
    // What ctl says of each node, in a line of its own.
    let lines = || {
        let text = stdout(folder.path(), &["ctl", "--url", &recorder.url, "state"], 0);
        let of_node = |node: SocketAddr| {
            let line = text.lines().find(|line| line.starts_with(&format!("  {node}: ")));
            line.unwrap_or_else(|| panic!("no {node} in {text}")).to_owned()
        };
        nodes.map(of_node)
    };
    let front_end = front_end(&url);
    until(&are_connected);
    send_these(&front_end, 0..3_000, |_| {
        until(&|nodes| durable(nodes) > 0);
        two.kill();
    });
    // What it had not acknowledged is durable elsewhere.
    send_these(&front_end, 3_000..4_000, |_| {});
    wait_durable(&front_end, 4_000);
    let before = durable(&until(&|nodes| nodes[1]["away"].is_string()));
    wait_while(|| {
        let [one, two] = lines();
        !(one.ends_with(" on the way, connected") && two.contains(" on the way, left out: "))
    });
    two = Store::start(&folders[1], nodes[1]);
    until(&are_connected);
    send_these(&front_end, 4_000..6_000, |_| {
        until(&|nodes| durable(nodes) > before);
    });
    wait_durable(&front_end, 6_000);
    wait_while(|| !lines().iter().all(|line| line.ends_with(" 0 B on the way, connected")));
    assert_eq!(front_end.close(LONG), Closed::default());
    recorder.signal(libc::SIGINT);
    assert_eq!(recorder.ended().code(), Some(0));
    let stored = folders.map(|folder| only(&folder.join("stored")));
    let run = check_run(Run::open_folders(&stored, RunOptions::default()).unwrap(), 6_000);
    assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
    assert_eq!((run.event_count(), run.frames_missing()), (6_000, 0));
    // Each has some.
    let locations = locations(folder.path());
    assert_eq!(locations.len(), 2);
    let listed = |location: &Value| location["file_frames"].as_array().cloned().expect("files");
    for ((location, node), stored) in locations.iter().zip(nodes).zip(&stored) {
        assert_eq!(location["address"], node.to_string());
        // A node that was left out at the end may lack the files that it has closed since.
        let all = file_frames(stored).as_array().cloned().expect("files");
        assert!(all.starts_with(&listed(location)), "{location}, {all:?}");
        assert!(location["frames"].as_u64() > Some(0), "{location}");
        assert!(location["first_frame"].as_u64() < location["last_frame"].as_u64(), "{location}");
    }
    for store in [one, two] {
        let done = store.end();
        assert!(done["frames_taken"].as_u64() > Some(0) && done["faults"] == 0, "{done}");
    }
    check(&merge(folder.path(), &stored), 6_000);
}

/// Makes one folder of what two storage nodes have of a run, each a part of its frames.
fn merge(folder: &Path, stored: &[PathBuf; 2]) -> PathBuf {
    let [one, two] = stored.each_ref().map(|path| path.to_str().unwrap());
    let audited = stdout(folder, &["audit", one, two], 0);
    assert!((0..2).all(|part| audited.contains(&format!(" of target node:{part}, "))), "{audited}");
    let printed = stdout(folder, &["merge", one, two, "--to", "merged", "--json"], 0);
    let merged: Value = serde_json::from_str(&printed).unwrap();
    let files: usize =
        stored.each_ref().map(|path| Run::open(path).unwrap().files().len()).iter().sum();
    assert_eq!((&merged["files_read"], &merged["frames_missing"]), (&files.into(), &0.into()));
    stdout(folder, &["audit", "merged"], 0);
    folder.join("merged")
}

#[test]
fn the_files_of_a_recorder_that_is_killed_are_closed_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, "");
    let mut store = Store::start(folder.path(), node);
    let mut recorder = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 1_000, |_| {});
    wait_durable(&front_end, 1_000);
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let stored = only(&folder.path().join("stored"));
    wait_while(|| !Run::open(&stored).is_ok_and(|run| run.closed()));
    let run = Run::open(&stored).unwrap();
    assert!(!run.ended() && verify(&run, |_| {}).is_intact());
    assert_eq!(fragments(&run).len(), 1_000);
    store.kill();
}

const SPILL: &str = "spill = \"spill\"\nspill_bytes = \"1 GiB\"";

fn wait_durable(front_end: &Frontend, keys: u64) {
    // Marks are made and durable, too.
    let is_open = |status: SourceStatus| status.durable < status.made.max(keys);
    wait_while(|| front_end.sources().iter().any(|source| is_open(source.status())));
}

/// Whether no file of spilled frames is left. One that was being written when the recorder was
/// killed may be kept aside.
fn nothing_waits(spill: &Path) -> bool {
    let folders = std::fs::read_dir(spill).expect("the spill").map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    let mut paths = files.map(|file| file.unwrap().path());
    !paths.any(|path| path.extension().is_some_and(|extension| extension == "catch"))
}

#[test]
fn what_a_killed_recorder_has_spilled_is_forwarded_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, SPILL);
    let mut first = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 1_000, |_| {});
    wait_durable(&front_end, 1_000);
    first.kill().unwrap();
    first.wait().unwrap();
    let spill = folder.path().join("spill");
    let name = only(&spill).file_name().unwrap().to_owned();
    let next = recorder(folder.path());
    let store = Store::start(folder.path(), node);
    wait_while(|| !nothing_waits(&spill));
    let stored = folder.path().join("stored").join(name);
    wait_while(|| !Run::open(&stored).is_ok_and(|run| run.closed()));
    let run = Run::open(&stored).unwrap();
    assert!(!run.ended() && verify(&run, |_| {}).is_intact());
    let events = fragments(&run);
    assert!(events.keys().copied().eq(0..1_000), "{} events", events.len());
    for (key, of_sources) in events {
        for (source, bytes) in of_sources.iter().enumerate() {
            assert!(bytes.as_ref() == Some(&content(source, key)), "event {key}, {source}");
        }
    }
    // Its verdict is that of a run that is recorded until the node lets go of it.
    let report = audit(&run).unwrap();
    let is_balanced = report.differences.is_empty() && report.open.is_empty();
    assert!(is_balanced && report.balance.holds(), "{report:?}");
    assert_eq!(interrupt(next), Some(0));
    store.end();
}

#[test]
fn a_run_ends_in_order_while_its_storage_node_is_dead_and_is_whole_there_later() {
    let folder = tempfile::tempdir().unwrap();
    let node = free();
    let url = configure(folder.path(), node, node, SPILL);
    let mut store = Store::start(folder.path(), node);
    let first = recorder(folder.path());
    let front_end = front_end(&url);
    let spill = folder.path().join("spill");
    send_these(&front_end, 0..2_000, |_| {
        wait_while(|| front_end.sources()[0].status().durable < 500);
        store.kill();
    });
    // No node can have these, whatever the one had when it was killed.
    send_these(&front_end, 2_000..3_000, |_| {});
    wait_while(|| std::fs::read_dir(&spill).is_err());
    store = Store::start(folder.path(), node);
    send_these(&front_end, 3_000..5_000, |sent| {
        wait_while(|| sent.load(Relaxed) < 4_000);
        store.kill();
    });
    // Nor these.
    send_these(&front_end, 5_000..6_000, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(first), Some(0));
    let name = only(&spill).file_name().unwrap().to_owned();
    let [at, spilled] = &locations(folder.path())[..] else {
        panic!("expected two locations: {:?}", locations(folder.path()))
    };
    assert_eq!((&at["kind"], &spilled["kind"]), (&"node".into(), &"spill".into()));
    assert_eq!(spilled["name"], name.to_str().unwrap());
    assert!(at["frames"].as_u64() > Some(0) && spilled["frames"].as_u64() > Some(0));
    let next = recorder(folder.path());
    let store = Store::start(folder.path(), node);
    wait_while(|| spill.join(&name).exists());
    check(&folder.path().join("stored").join(&name), 6_000);
    assert_eq!(interrupt(next), Some(0));
    store.end();
}

#[test]
fn ctl_says_in_text_what_a_controlled_storage_node_does() {
    let folder = tempfile::tempdir().unwrap();
    let (node, api) = (free(), free());
    let more = "certificate = \"stored/.catchment/tls/certificate.pem\"\ntoken_file = \"token\"";
    let url = configure(folder.path(), node, node, more);
    let path = folder.path().join("store.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let guards = format!("tls = true\ntokens = true\n[control]\nlisten = \"{api}\"\n");
    std::fs::write(&path, text + &guards).unwrap();
    let add = |role: &str| {
        let name = ["token", "add", role, "--role", role, "--folder", "stored"];
        stdout(folder.path(), &name, 0).trim().to_owned()
    };
    let (viewer, token) = (add("viewer"), add("node"));
    std::fs::write(folder.path().join("token"), token).unwrap();
    let store = Store::start(folder.path(), node);
    let api = format!("http://{api}");
    let ask = ["ctl", "state", "--url", &api, "--token", &viewer];
    let text = stdout(folder.path(), &ask, 0);
    assert!(text.starts_with("storing nothing: no recorder sends\nState: idle\n"), "{text}");
    let recorder = recorder(folder.path());
    let front_end = front_end(&url);
    send(&front_end, 500, |_| {});
    assert_eq!(front_end.close(LONG), Closed::default());
    assert_eq!(interrupt(recorder), Some(0));
    // The node looks at itself twice a second.
    wait_while(|| !stdout(folder.path(), &ask, 0).contains(": ended, durable up to frame "));
    let text = stdout(folder.path(), &ask, 0);
    let stored = only(&folder.path().join("stored"));
    check(&stored, 500);
    let name = stored.file_name().unwrap().to_str().unwrap();
    for part in [
        format!("Store at {node}, TLS, tokens: "),
        "Folder stored: ".to_owned(),
        format!("Stream {name}: ended, durable up to frame "),
        "from catchment ".to_owned(),
        "Frames: ".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} in {text}");
    }
    store.end();
}

#[test]
fn a_storage_node_names_a_folder_whose_disk_is_not_mounted_and_does_not_make_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let (node, api) = (free(), free());
    let control = format!("[control]\nlisten = \"{api}\"\n");
    configure_store_in(folder.path(), &[Path::new("a"), Path::new("b")], node, &control);
    Store::start(folder.path(), node).end();
    let [first, second, away] = ["a", "b", "away"].map(|name| folder.path().join(name));
    std::fs::rename(&second, &away).unwrap();
    let store = Store::start(folder.path(), node);
    let api = format!("http://{api}");
    let state = || stdout(folder.path(), &["ctl", "state", "--url", &api], 0);
    let text = state();
    assert!(text.contains("  b is not used: it was used before, and is empty"), "{text}");
    wait_while(|| {
        let alarms = stdout(folder.path(), &["ctl", "alarms", "--json", "--url", &api], 0);
        !alarms.contains("Folder b cannot be written: it was used before")
    });
    assert!(!second.exists(), "it was made again");
    // Its disk is mounted.
    std::fs::rename(&away, &second).unwrap();
    wait_while(|| state().contains("is not used"));
    store.end();
    // The node's own files are in the first one.
    std::fs::rename(&first, &away).unwrap();
    let text = stderr(folder.path(), &["store", "store.toml"], 1);
    assert!(text.contains("the folder a, which has the node's own files: it was used"), "{text}");
    assert!(!first.exists());
}

#[test]
fn what_a_storage_node_cannot_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, text: &str, command: &str| {
        let path = folder.path().join(name);
        std::fs::write(path, text).unwrap();
        stderr(folder.path(), &[command, name, "--check"], 2)
    };
    let base = "[store]\nfolder = \"stored\"\n";
    for (more, expected) in [
        ("[[listen]]\nfrom = [\"10.0.0.0/8\"]", "listen[0].from: expected none"),
        ("[[listen]]\naddress = \"0.0.0.0:7100\"", "expected a loopback address"),
        ("[[listen]]\naddress = \"0.0.0.0:7100\"\ntls = true", "expected a loopback address"),
        ("[run]\nnumber = 1", "run: expected [store], [[listen]], [memory], [write], [control]"),
        ("[control]\nlisten = \"0.0.0.0:8750\"", "there is neither TLS nor a token"),
        ("[write]\nfile_time = \"1 h\"", "write: expected no file_time"),
    ] {
        let text = refused("store.toml", &format!("{base}{more}\n"), "store");
        assert!(text.contains(expected), "{text}");
    }
    let text = refused("store.toml", "[memory]\nbudget = \"64 MiB\"\n", "store");
    assert!(text.contains("expected [store] with a folder"), "{text}");
    let sources = "[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\nsub_event_id = 1\n";
    let text = refused("run.toml", &format!("{base}{sources}"), "run");
    assert!(text.contains("`catchment store` runs"), "{text}");
    for (target, expected) in [
        ("kind = \"store\"", "expected address = \"HOST:PORT\""),
        ("kind = \"store\"\naddress = \"node\"", "expected HOST:PORT"),
        ("kind = \"store\"\naddress = \"a:1\"\nfolder = \"f\"", "expected no folder"),
        ("folder = \"f\"\naddress = \"a:1\"", "expected kind = \"store\" beside it"),
        ("folder = \"f\"\ntoken_file = \"t\"", "expected kind = \"store\" beside it"),
        ("folder = \"f\"\nhold_bytes = \"1 MiB\"", "for a required target that is of kind"),
        ("kind = \"store\"\naddress = \"a:1\"\ntrends = true", "expected false"),
        ("folders = [\"f\", \"g\"]\nspill = \"s\"\nspill_bytes = \"1 GiB\"", "or of one folder"),
        ("folder = \"f\"\nspill = \"f/s\"\nspill_bytes = \"1 GiB\"", "apart from the target's own"),
        ("kind = \"store\"\naddress = \"a:1\"\nspill = \"s\"", "expected spill_bytes"),
        ("kind = \"store\"\naddress = \"a:1\"\nspill_bytes = \"1 GiB\"", "expected spill = "),
    ] {
        let text = format!("[[targets]]\nname = \"t\"\n{target}\n{sources}");
        let text = refused("run.toml", &text, "run");
        assert!(text.contains(expected), "{text}");
    }
}
