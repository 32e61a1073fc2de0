//! What is forwarded from a spill after the run's end is in the run's record: in the catalogue, in
//! the lists of files, and in the files' own ledger.

use catchment_frame::{FileList, RunLocation};
use catchment_network_folder::{NetworkFolder, Operation, Refused};

use super::network_folder::{TABLES, check_forwarded, end, target, target_with_spill};
use super::spilled::spilled;
use super::*;

/// What the catalogue says of run 1.
fn record(folder: &Path) -> Value {
    serde_json::from_str(&stdout(folder, &["catalog", "show", "1", "--json"], 0)).unwrap()
}

/// The location of a kind that a record has of a target.
fn location(record: &Value, target: &str, kind: &str) -> Option<Value> {
    let mut all = record["locations"].as_array().expect("locations").iter();
    all.find(|one| one["target"] == target && one["kind"] == kind).cloned()
}

/// All that was spilled for a target is forwarded, as the record, the files there and the lists in
/// these folders say.
fn check_moved(folder: &Path, target: &str, run: &Run, lists: &[&Path]) {
    let record = record(folder);
    assert_eq!(location(&record, target, "spill"), None, "{record}");
    let lines = record["targets"].as_array().expect("lines of the ledger");
    let lines: Vec<&Value> = lines.iter().filter(|line| line["target"] == target).collect();
    assert_eq!(lines.len(), 3, "{record}");
    let mut spilled = 0;
    for line in &lines {
        let of = |name: &str| line["entries"][name].as_u64().expect("a count");
        assert_eq!(of("fragments_spilled"), of("fragments_forwarded"), "{record}");
        spilled += of("fragments_spilled");
    }
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run").total();
    let moved = [Entry::FragmentsSpilled, Entry::FragmentsForwarded].map(|entry| ledger[entry]);
    assert_eq!(moved, [spilled; 2]);
    assert!(spilled > 0);
    let remarks = record["remarks"].to_string();
    assert!(remarks.contains("were forwarded to"), "{remarks}");
    let expected: Vec<RunLocation> = serde_json::from_value(record["locations"].clone()).unwrap();
    for list in lists {
        let text = std::fs::read(list.join(FILE_LIST_NAME)).unwrap();
        let list = FileList::decode(&text).unwrap();
        assert_eq!((&list.locations, list.unread_lines.len()), (&expected, 0));
    }
}

/// The record of the run that is armed or was recorded last, as the API has it.
fn of_api(node: &Node) -> Value {
    let (status, text) = crate::life::get(&format!("{}/api/v1/runs/1", node.url));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_a_storage_node_gets_after_the_run_is_in_its_record() {
    for restarts in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (address, spill) = (free(), folder.path().join("spill"));
        configure_store(folder.path(), address);
        let targets = format!(
            "[[targets]]\nname = \"here\"\nfolder = \"runs\"\n\
             [[targets]]\nname = \"node\"\nkind = \"store\"\naddress = \"{address}\"\n{SPILL}\n"
        );
        let control = "[control]\nrequests_per_second = 1000000\ndrain = \"1 h\"\n";
        let (text, url) = text_with(control, &targets);
        let mut recorder = Node::start(folder.path(), &text, &[]);
        let front_end = front_end(&url);
        send_these(&front_end, 0..2_000, |_| {});
        wait_durable(&front_end, 2_000);
        assert_eq!(front_end.close(LONG), Closed::default());
        assert_eq!(recorder.ctl(&["stop"])["status"], "done");
        let before = record(folder.path());
        let waited = location(&before, "node", "spill").expect("frames wait")["frames"].clone();
        let name = only(&spill).file_name().unwrap().to_owned();
        if restarts {
            recorder.signal(libc::SIGINT);
            assert_eq!(recorder.ended().code(), Some(0));
            recorder = Node::start(folder.path(), &text, &[]);
        }
        let store = Store::start(folder.path(), address);
        wait_while(|| spill.join(&name).exists());
        let stored = folder.path().join("stored").join(&name);
        let here = folder.path().join("runs").join(&name);
        let run = check(&stored, 2_000);
        check_moved(folder.path(), "node", &run, &[&here]);
        let after = record(folder.path());
        let at = location(&after, "node", "node").expect("a node");
        assert_eq!(at["file_frames"], file_frames(&stored));
        // And the frame that counts what was forwarded.
        assert_eq!(at["frames"], waited.as_u64().expect("a count") + 1);
        assert_eq!((&at["first_frame"], &at["last_frame"]), (&0.into(), &waited));
        let of_api = location(&of_api(&recorder), "node", "node").expect("a node");
        for key in ["file_frames", "frames", "first_frame", "last_frame"] {
            assert_eq!(of_api[key], at[key], "{key}");
        }
        if !restarts {
            // The state follows within a moment.
            recorder.until(|state| {
                let ledger = &state["targets"][1]["ledger"];
                ledger["fragments_spilled"] == ledger["fragments_forwarded"]
            });
        }
        let folders = [&here, &stored].map(|path| path.to_str().unwrap());
        stdout(folder.path(), &["audit", folders[0], folders[1]], 0);
        let both = Run::open_folders(&[here, stored], RunOptions::default()).unwrap();
        assert_eq!((both.event_count(), both.frames_missing()), (2_000, 0));
        recorder.signal(libc::SIGINT);
        assert_eq!(recorder.ended().code(), Some(0));
        store.end();
    }
}

#[test]
fn a_run_ends_while_its_folder_hangs_and_what_is_spilled_follows() {
    for is_killed in [false, true] {
        let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let (spill, runs) = (folder.path().join("spill"), remote.path().join("runs"));
        // The catalogue is in the first folder, which answers.
        let targets = target("local", &["runs".into()]) + &target_with_spill(&runs);
        let (text, url) = text_with(TABLES, &targets);
        let mut node = Node::start(folder.path(), &text, &[]);
        node.until(|state| state["state"] == "recording");
        let front_end = front_end(&url);
        send_these(&front_end, 0..2_000, |_| {});
        wait_durable(&front_end, 2_000);
        let stalled = remote.stall(Operation::Write);
        send_these(&front_end, 2_000..4_000, |_| {});
        wait_durable(&front_end, 4_000);
        assert_eq!(front_end.close(LONG), Closed::default());
        assert_eq!(node.ctl(&["stop"])["status"], "done");
        assert!(!nothing_waits(&spill) && remote.waiting(Operation::Write) > 0);
        let before = record(folder.path());
        let waited = location(&before, "remote", "spill").expect("frames wait");
        let there = location(&before, "remote", "folder").expect("a folder");
        assert!(waited["frames"].as_u64() > Some(0) && there["frames"].as_u64() > Some(0));
        let name = only(&spill).file_name().unwrap().to_owned();
        if is_killed {
            node.signal(libc::SIGKILL);
            drop(stalled);
            node.ended();
            node = Node::start(folder.path(), &text, &[]);
        } else {
            drop(stalled);
        }
        wait_while(|| spill.join(&name).exists());
        let run = check(&runs.join(&name), 4_000);
        assert!(run.problems().is_empty() && !run.lost_data(), "{:?}", run.problems());
        let local = folder.path().join("runs").join(&name);
        check_moved(folder.path(), "remote", &run, &[&local, run.path()]);
        let after = location(&record(folder.path()), "remote", "folder").expect("a folder");
        assert_eq!(after["files"], serde_json::json!([[0, run.files().len() - 1]]));
        assert_eq!(after["frames"], run.frames().len());
        end(node, 0);
    }
}

#[test]
fn a_folder_that_has_not_even_the_header_of_a_killed_run_gets_all_of_it_from_the_spill() {
    let Some(remote) = NetworkFolder::mount(Refused::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (spill, runs) = (folder.path().join("spill"), remote.path().join("runs"));
    // The catalogue is in the first folder, which answers.
    let targets = target("local", &["runs".into()]) + &target_with_spill(&runs);
    let (text, url) = text_with(TABLES, &targets);
    remote.fail(Operation::Write, Some(libc::EIO));
    let first = Node::start(folder.path(), &text, &[]);
    first.until(|state| state["state"] == "recording");
    let front_end = front_end(&url);
    send_these(&front_end, 0..2_000, |_| {});
    wait_durable(&front_end, 2_000);
    first.until(|state| spilled(state, "frames_waiting") > 0);
    first.signal(libc::SIGKILL);
    first.ended();
    drop(front_end);
    remote.fail(Operation::Write, None);
    let name = only(&spill).file_name().unwrap().to_owned();
    assert!(Run::open(runs.join(&name)).is_err());
    let next = Node::start(folder.path(), &text, &[]);
    wait_while(|| spill.join(&name).exists());
    end(next, 0);
    check_forwarded(&runs.join(&name), 2_000);
}
