//! Two storage nodes that share a recorder's frames, and a spill for the time in which neither
//! takes any.

use super::*;

/// The folders of two nodes, and where they are.
fn pair(folder: &Path) -> ([PathBuf; 2], [SocketAddr; 2]) {
    let folders = ["one", "two"].map(|name| folder.join(name));
    let first = free_ports(2);
    let nodes = [first, first + 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    for (folder, &node) in folders.iter().zip(&nodes) {
        std::fs::create_dir(folder).unwrap();
        configure_store(folder, node);
    }
    (folders, nodes)
}

/// A recorder of both, and where front-ends connect.
fn text(nodes: [SocketAddr; 2]) -> (String, String) {
    let (text, url) = recorder_text(&format!(
        "nodes = [\"{}\", \"{}\"]\nhold_bytes = \"8 MiB\"\n{SPILL}",
        nodes[0], nodes[1]
    ));
    (format!("[control]\nrequests_per_second = 1000000\ndrain = \"1 h\"\n{text}"), url)
}

fn durable(state: &Value) -> [u64; 2] {
    [0, 1].map(|node| state["targets"][0]["nodes"][node]["frames_durable"].as_u64().unwrap_or(0))
}

fn is_connected(state: &Value, node: usize) -> bool {
    state["targets"][0]["nodes"][node]["is_connected"] == true
}

pub(super) fn spilled(state: &Value, what: &str) -> u64 {
    state["spills"][0][what].as_u64().expect("a spill")
}

#[test]
fn both_nodes_are_killed_under_load_and_everything_is_there_when_one_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (folders, nodes) = pair(folder.path());
    let mut stores = [0, 1].map(|index| Store::start(&folders[index], nodes[index]));
    let (text, url) = text(nodes);
    let recorder = Node::start(folder.path(), &text, &[]);
    let front_end = front_end(&url);
    recorder.until(|state| [0, 1].iter().all(|&node| is_connected(state, node)));
    send_these(&front_end, 0..3_000, |_| {
        recorder.until(|state| durable(state).iter().all(|&frames| frames > 0));
        stores.iter_mut().for_each(Store::kill);
    });
    // Neither takes any, and all of it is durable.
    send_these(&front_end, 3_000..4_000, |_| {});
    wait_durable(&front_end, 4_000);
    let state = recorder.until(|state| spilled(state, "frames_waiting") > 0);
    // Before the nodes were killed, a slow one may have had some by way of the spill.
    assert!(spilled(&state, "frames_forwarded") < spilled(&state, "frames_spilled"));
    let before = durable(&state);
    let mut one = Store::start(&folders[0], nodes[0]);
    send_these(&front_end, 4_000..6_000, |_| {});
    wait_durable(&front_end, 6_000);
    let state = recorder.until(|state| {
        let is_forwarded = spilled(state, "frames_forwarded") == spilled(state, "frames_spilled");
        spilled(state, "frames_waiting") == 0 && is_forwarded
    });
    assert_eq!((spilled(&state, "frames_lost"), durable(&state)[1]), (0, before[1]));
    // The other one has what it acknowledged, and takes part again.
    let two = Store::start(&folders[1], nodes[1]);
    recorder.until(|state| is_connected(state, 1));
    send_these(&front_end, 6_000..8_000, |_| {
        recorder.until(|state| durable(state)[1] > before[1]);
    });
    assert_eq!(front_end.close(LONG), Closed::default());
    // That the first one is killed again, with nothing left to send, changes nothing.
    one.kill();
    recorder.until(|state| !is_connected(state, 0));
    let one = Store::start(&folders[0], nodes[0]);
    recorder.until(|state| is_connected(state, 0));
    assert_eq!(recorder.ctl(&["stop"])["status"], "done");
    // On a machine that is slow the run may end with frames in the spill: they are forwarded.
    wait_while(|| !nothing_waits(&folder.path().join("spill")));
    let stored = folders.each_ref().map(|folder| only(&folder.join("stored")));
    let open = || Run::open_folders(&stored, RunOptions::default());
    wait_while(|| !open().is_ok_and(|run| run.ended() && run.closed()));
    let run = check_run(open().unwrap(), 8_000);
    assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
    assert_eq!((run.event_count(), run.frames_missing()), (8_000, 0));
    recorder.signal(libc::SIGINT);
    assert_eq!(recorder.ended().code(), Some(0));
    for store in [one, two] {
        store.end();
    }
}

#[test]
fn what_a_killed_recorder_has_spilled_for_two_nodes_is_forwarded_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (folders, nodes) = pair(folder.path());
    let (text, url) = text(nodes);
    let mut stores = [0, 1].map(|index| Store::start(&folders[index], nodes[index]));
    let first = Node::start(folder.path(), &text, &[]);
    let front_end = front_end(&url);
    // Or one of them could have all.
    first.until(|state| [0, 1].iter().all(|&node| is_connected(state, node)));
    send_these(&front_end, 0..3_000, |_| {});
    first.until(|state| durable(state).iter().all(|&frames| frames > 0));
    stores.iter_mut().for_each(Store::kill);
    // No node can have these.
    send_these(&front_end, 3_000..4_000, |_| {});
    wait_durable(&front_end, 4_000);
    first.until(|state| spilled(state, "frames_waiting") > 0);
    drop(first);
    let spill = folder.path().join("spill");
    let name = only(&spill).file_name().unwrap().to_owned();
    let stores = [0, 1].map(|index| Store::start(&folders[index], nodes[index]));
    let next = Node::start(folder.path(), &text, &[]);
    wait_while(|| !nothing_waits(&spill));
    let stored = folders.map(|folder| folder.join("stored").join(&name));
    let open = || Run::open_folders(&stored, RunOptions::default());
    wait_while(|| !open().is_ok_and(|run| run.closed()));
    let run = open().unwrap();
    let verified = verify(&run, |_| {});
    assert!(!run.ended() && verified.is_intact(), "{verified:?}");
    assert_eq!(run.frames_missing(), 0);
    let events = fragments(&run);
    assert!(events.keys().copied().eq(0..4_000), "{} events", events.len());
    for (key, of_sources) in events {
        for (source, bytes) in of_sources.iter().enumerate() {
            assert!(bytes.as_ref() == Some(&content(source, key)), "event {key}, {source}");
        }
    }
    next.signal(libc::SIGINT);
    assert_eq!(next.ended().code(), Some(0));
    for store in stores {
        store.end();
    }
}
